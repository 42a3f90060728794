//! `tidegate release`: reads a private stream and writes a stream that may be published.

mod format;
mod writer;

use std::cell::Cell;
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::mem;
#[cfg(unix)]
use std::process;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use std::thread;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate::kernel::{Decimal, Epsilon, Randomness, SeededRandom, SystemRandom, VaultKey, Window};
use tidegate::mechanisms::{self, Family, Mechanism};
use tidegate::names::UnknownName;
use tidegate::series::Series;
use tidegate::spec::{DomainSpec, ProtectsSpec, ScalarSpec, SpecError, StreamSpec};
use tidegate::stream::Stream;
use tidegate_release::entries::{Expected, Item};
use tidegate_release::files::place as place_of;
use tidegate_release::gate::{Gate, Reader};
use tidegate_release::model_file::ModelFile;
use tidegate_release::state::{self, Keeper, Saved};
use tidegate_release::timeline::Timeline;
use tidegate_release::{check_users, enrol, reading};
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::{Format, Reading, TableReader};

pub(crate) use format::TableFormat;

use crate::arguments::{domain, protects};
use crate::columns::TableOptions;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, check_place, keep_apart};
use crate::plot;
use crate::warnings::{self, Published};
use writer::{Plotted, Sinks, Writer};

/// Release a private stream: readings in, line by line, and out what may be published.
///
/// The input is a table. Its fields depend on the family of the mechanism:
///
///   scalar            t,value             a number a timestamp
///   local, sequence   t,user,value        a value of the domain, of a user
///   central           t,user,value        or t and a count for each value of the domain
///
/// The output says for each timestamp what was released, its variance (the expected squared error,
/// as far as the noise tells), its freshness, who spent how much on it, and whether its randomness
/// came from a seed. A line is written as soon as possible, so this
/// works in the middle of an endless pipe; a timestamp of users is complete when the next begins.
/// What is held back when the input ends, or on an interrupt, is released then.
///
/// What to release and how private it is stands in a spec; for numbers, options do as well. A spec:
///
///   family = "scalar"           # or local, central, sequence: examples has one of each
///   mechanism = "track"         # recommended; `tidegate data` lists the others
///   epsilon = 1.0               # for each timestamp
///   delay = 10                  # how many timestamps a release may be held back
///   domain = { low = 0, high = 612 }
///   protects = { contributor = 1 }   # one of the people counted; or "reading", the whole number
///
/// Every number is released: rounded to the resolution, moved into the domain, and replaced by
/// `missing` where it is none. A line that is no line of the table ends the command, with an
/// error that names its line and field. What was written to standard output before it stays
/// there; a file is written whole or not at all.
///
/// Where timestamps share a budget, --state keeps it across runs: the first run begins it with
/// --new-state, and every later one goes on. `tidegate budget` shows what is left.
///
/// A table may hold several series: the spec declares their names and in how many of them one person
/// can be. Each series is released by itself, and the output has the column series.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate release --spec stream.toml --input readings.csv --output released.csv\n  \
                  tidegate release --spec users.toml --input monday.csv --output monday-released.csv --state \
                  users.state --new-state\n  \
                  tidegate release --spec users.toml --input tuesday.csv --output tuesday-released.csv --state \
                  users.state\n  \
                  sensor | tidegate release --mechanism clamped --epsilon 1 --domain -10..40 --protects reading \
                  --resolution 0.1"
)]
pub(crate) struct Release {
    /// The spec of the stream
    #[arg(long, value_name = "FILE|-", required_unless_present = "mechanism")]
    spec: Option<String>,

    /// Where the table comes from; a file may be compressed with gzip
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    input: String,

    /// Where releases go; a file is replaced only once all of it is there
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,

    /// How input and output are written: as the ends of the files' names tell unless given, or else CSV
    #[arg(long, value_enum)]
    format: Option<TableFormat>,

    /// Who there is and in which class, where each class has a guarantee of its own: user,class
    #[arg(long, value_name = "FILE")]
    users: Option<String>,

    /// Go on where the run ended that left this file, and leave one for the next: so a budget that
    /// timestamps share is kept across runs. The first run makes it, with --new-state
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    state: Option<String>,

    /// Begin a new budget: make the state, which must not be there yet
    #[arg(long, requires = "state")]
    new_state: bool,

    /// Release every timestamp of the timeline up to this one, also after the last line of the input;
    /// with --every, up to this time
    #[arg(long, value_name = "T")]
    through: Option<String>,

    /// What readings that are held back are encrypted with in the state; made with the state
    #[arg(long, value_name = "FILE", requires = "state")]
    key: Option<String>,

    /// Where answers to the spec's queries and the events of its monitors go, a JSON object a line
    #[arg(long, value_name = "FILE|-")]
    answers: Option<String>,

    /// Draw what was released when the input ends: .svg, .png, .html, or text. It is kept in memory until then
    #[arg(long, value_name = "FILE|-")]
    plot: Option<String>,

    /// Instead of a spec, for a stream of numbers: the mechanism
    #[arg(long, value_parser = mechanism, conflicts_with = "spec", requires_all = ["epsilon", "domain"])]
    mechanism: Option<&'static Mechanism>,

    /// The budget of each timestamp
    #[arg(long, value_parser = Epsilon::from_str, requires = "mechanism")]
    epsilon: Option<Epsilon>,

    /// What readings can be
    #[arg(
        long,
        value_name = "LO..HI",
        value_parser = domain::<Decimal>,
        allow_hyphen_values = true,
        requires = "mechanism"
    )]
    domain: Option<(Decimal, Decimal)>,

    /// What is protected: the whole reading, or one contributor, who changes it by at most CHANGE
    #[arg(long, value_name = "reading|contributor=CHANGE", value_parser = protects, requires = "mechanism")]
    protects: Option<ProtectsSpec>,

    /// The distance of two readings that are told apart; whole numbers unless given
    #[arg(long, value_name = "STEP", requires = "mechanism")]
    resolution: Option<Decimal>,

    /// What stands for a reading that is not a number; the lower end of the domain unless given
    #[arg(long, value_name = "NUMBER", requires = "mechanism")]
    missing: Option<Decimal>,

    /// How many timestamps a release may be held back
    #[arg(long, requires = "mechanism")]
    delay: Option<u32>,

    /// Move releases that lie outside the domain to its nearest end. That costs nothing and lowers the
    /// error, but averages of many releases are then off
    #[arg(long, requires = "mechanism")]
    within_domain: bool,

    /// Repeat a run exactly, to try it out: what is released then is not private
    #[arg(long)]
    seed: Option<u64>,

    /// Print a JSON object a line, whatever the format of the input
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableOptions,
}

fn mechanism(name: &str) -> Result<&'static Mechanism, UnknownName> {
    mechanisms::find_in(Family::Scalar, name)
}

/// A spec with its source, for errors.
struct Told<'a> {
    stream: StreamSpec,
    /// Whether its model was learned with a seed.
    seeded_model: bool,
    refused: Box<dyn Fn(&SpecError) -> Failure + 'a>,
}

impl Release {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.check_places()?;
        let from_file = match &self.spec {
            Some(name) => {
                if name == "-" && self.input == "-" {
                    return Err(Failure::input("spec and readings cannot both come from standard input"));
                }
                Some(Input::spec(name)?)
            }
            None => None,
        };
        let mut told = match &from_file {
            Some(spec) => Told {
                stream: spec.stream.clone(),
                seeded_model: spec.seeded_model.is_some(),
                refused: Box::new(|error| spec.refused(error).into()),
            },
            None => {
                let refused = Box::new(|error: &SpecError| Failure::input(error));
                Told { stream: self.numbers()?, seeded_model: false, refused }
            }
        };
        if let Some(path) = from_file.as_ref().and_then(|spec| spec.seeded_model.as_deref()) {
            complain("warning", ModelFile::seeded_note(path));
        }
        self.table.apply(told.stream.input_mut());
        match self.seed {
            Some(seed) => {
                let why = "whoever knows that can take the noise off again, so what is released is not private";
                complain("warning", format_args!("this run is seeded with {seed}: {why}"));
                self.release(&told, SeededRandom::new(seed))
            }
            None => self.release(&told, SystemRandom::new().map_err(Failure::run)?),
        }
    }

    /// Builds the spec of a stream of numbers from the options.
    fn numbers(&self) -> Result<StreamSpec, Failure> {
        let (Some(mechanism), Some(epsilon), Some((low, high))) = (self.mechanism, self.epsilon, self.domain) else {
            // Unreachable: clap requires one of them.
            return Err(Failure::input("either --spec or --mechanism, --epsilon and --domain must be given"));
        };
        let domain = DomainSpec { low, high, resolution: self.resolution, missing: self.missing };
        let protects = self.protects.ok_or_else(|| {
            let why = "--protects is missing: --protects reading hides the whole number, as for one person's sensor, \
                       and takes noise as wide as the domain; --protects contributor=1 hides one of the people who \
                       add up to it, where nobody changes it by more than 1, and takes far less";
            Failure::input(why)
        })?;
        let kind = mechanism.variant_of.unwrap_or(mechanism.short_name).parse().map_err(Failure::input)?;
        let spec = ScalarSpec {
            delay: self.delay.unwrap_or(0),
            within_domain: self.within_domain,
            ..ScalarSpec::new(kind, epsilon, domain, protects)
        };
        let mut json = serde_json::to_value(spec).map_err(Failure::run)?;
        for (key, preset) in mechanism.presets {
            json[*key] = preset.to_json();
        }
        Ok(StreamSpec::Scalar(serde_json::from_value(json).map_err(Failure::run)?))
    }

    /// Sets up the mechanism and passes the whole input through it.
    fn release(&self, told: &Told<'_>, random: impl Randomness + Send + 'static) -> Result<(), Failure> {
        let refused = |error: SpecError| (told.refused)(&error);
        self.check_paths()?;
        state::check_key(&told.stream, self.state.as_deref(), self.key.as_deref())?;
        // An invalid spec is rejected before the state file is touched.
        let mut series = Series::new(told.stream.clone()).map_err(refused)?;
        let (keeper, saved) = self.keeper(&told.stream)?;
        let key = self.key.as_deref().map(|key| state::key(key, saved.is_none())).transpose()?;
        let zone = saved.as_ref().and_then(|saved| saved.zone);
        if let Some(saved) = saved {
            series = Series::load(told.stream.clone(), &saved.stream, key.as_ref()).map_err(state::misfit)?;
        }
        self.enrol(&mut series)?;
        let mut reading = reading(&told.stream).map_err(refused)?.after(series.last());
        reading.clock.keep_zone(zone);
        let shape = ReleaseLayout::of(&told.stream).map_err(refused)?;
        let shape = shape.with_clock(reading.clock.clone()).with_series(series.names());
        let earlier = told.seeded_model || keeper.as_ref().is_some_and(Keeper::is_seeded);
        let seeded = earlier || !random.provenance().is_private();
        let timeline = Timeline::of(&series, self.through.as_deref(), &shape)?;
        let sinks = self.sinks(&series, &shape, keeper, key)?;
        let writer = Writer::new(&series, shape, sinks, seeded);
        self.pass(Gate::new(series, random, timeline, seeded, writer), reading)
    }

    /// Enrols the users of the user table, for mechanisms with classes.
    fn enrol(&self, series: &mut Series) -> Result<(), Failure> {
        check_users(series, self.users.is_some())?;
        let Some(table) = &self.users else { return Ok(()) };
        let format = TableFormat::of(table);
        let Input { name, source } = format.open(table)?;
        let users = TableReader::new(name, source, format.text()).map_err(Failure::input)?;
        Ok(enrol(series, users)?)
    }

    /// Checks that everything that is written has a place, before anything is read.
    fn check_places(&self) -> Result<(), Failure> {
        let new = |path: &Option<String>| path.clone().filter(|_| self.new_state);
        let files = [
            ("--output", Some(self.output.clone())),
            ("--answers", self.answers.clone()),
            ("--state", new(&self.state)),
            ("--key", new(&self.key)),
        ];
        for (option, path) in files {
            path.map_or(Ok(()), |path| check_place(option, &path))?;
        }
        self.plot.as_deref().map_or(Ok(()), |path| plot::check_name("--plot", path))
    }

    /// Checks that no other file shares a path with the state or its key, and that no output replaces an input.
    fn check_paths(&self) -> Result<(), Failure> {
        let place = |path: &&String| (path.as_str() != "-").then(|| place_of(path));
        let others = [
            Some(&self.input),
            Some(&self.output),
            self.spec.as_ref(),
            self.users.as_ref(),
            self.answers.as_ref(),
            self.plot.as_ref(),
        ];
        let others: Vec<_> = others.into_iter().flatten().filter_map(|path| place(&path)).collect();
        let (state, key) =
            (self.state.as_ref().and_then(|path| place(&path)), self.key.as_ref().and_then(|path| place(&path)));
        let lock = state.as_deref().map(state::lock_of);
        let kept = [&state, &key, &lock];
        if kept.into_iter().flatten().any(|path| others.contains(path)) {
            return Err(Failure::input("state and key must be files of their own"));
        }
        let paid = [Some(&self.output), self.answers.as_ref()];
        let holds = |path: &&&String| fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
        if let Some(path) = paid.iter().flatten().find(holds).filter(|_| self.state.is_some()) {
            return Err(Failure::input(format_args!(
                "{path} exists, and what the budget of an earlier run has paid for would be lost: name another file, \
                 or move it away"
            )));
        }
        let outputs = [Some(&self.output), self.answers.as_ref(), self.plot.as_ref()];
        let inputs = [Some(&self.input), self.spec.as_ref(), self.users.as_ref()];
        keep_apart(outputs.into_iter().flatten().map(String::as_str), inputs.into_iter().flatten().map(String::as_str))
    }

    /// Opens the state file and reads the saved state.
    fn keeper(&self, stream: &StreamSpec) -> Result<(Option<Keeper>, Option<Saved>), Failure> {
        if let Some(path) = &self.state {
            let (keeper, saved) = Keeper::open(path, stream, self.new_state)?;
            return Ok((Some(keeper), saved));
        }
        Ok((None, None))
    }

    /// Opens the destinations.
    fn sinks(
        &self,
        series: &Series,
        shape: &ReleaseLayout,
        keeper: Option<Keeper>,
        key: Option<VaultKey>,
    ) -> Result<Sinks, Failure> {
        let mut notes = Vec::new();
        let mut note = |text: &str| notes.push(("note", text.to_owned()));
        if let StreamSpec::Scalar(spec) = series.spec() {
            note(&warnings::stand_in(spec.domain.missing.unwrap_or(spec.domain.low)));
        }
        if keeper.as_ref().is_some_and(Keeper::is_seeded) && self.seed.is_none() {
            note("a run with a seed has contributed to this state, so what is released is not private");
        }
        if let StreamSpec::Central(spec) = series.spec()
            && spec.protects_presence()
            && self.through.is_none()
        {
            note("where the output ends tells where the input ends: --through T releases up to timestamp T");
        }
        if keeper.is_none() && series.spec().window() != Window::EVENT {
            note("the budget starts anew: without --state nothing is known of earlier runs, whose timestamps share it");
        }
        match (&self.answers, series.streams().first().and_then(Stream::standing_queries)) {
            (Some(_), None) => {
                return Err(Failure::input("--answers is for specs with queries or monitors, and this has none"));
            }
            (None, Some(queries)) if queries.has_queries() => {
                note("the spec has queries; --answers FILE says where their answers go");
            }
            (Some(answers), _) if *answers == self.output => {
                return Err(Failure::input("answers and releases cannot go to the same place"));
            }
            _ => {}
        }
        let format = match (self.json, self.format) {
            (true, _) => TableFormat::Ndjson,
            (false, Some(format)) => format,
            (false, None) => TableFormat::of(&self.output),
        };
        let plot = self.plotted(shape)?;
        let answers = self.answers.as_deref().map(Output::create).transpose()?;
        let output = format.create(&self.output, shape)?;
        let of_one = series.streams().first().map_or(series.spec(), Stream::spec);
        notes.extend(warnings::of_spec(of_one).into_iter().map(|warning| ("warning", warning)));
        let published = Published::new(of_one, keeper.is_none());
        Ok(Sinks { output, format: format.text(), answers, keeper, key, plot, notes, published })
    }

    /// The chart of `--plot`, before it has anything to show.
    fn plotted(&self, shape: &ReleaseLayout) -> Result<Option<Plotted>, Failure> {
        let Some(output) = self.plot.clone() else { return Ok(None) };
        if shape.has_symbols() {
            return Err(Failure::input("--plot draws numbers, counts and frequencies; this stream releases symbols"));
        }
        if output == self.output || self.answers.as_ref() == Some(&output) {
            return Err(Failure::input("the chart needs a place of its own: --output FILE says where releases go"));
        }
        Ok(Some(Plotted { output, table: String::new() }))
    }

    /// Passes the whole input through the streams.
    fn pass(&self, mut gate: Gate<impl Randomness + Send + 'static, Writer>, reading: Reading) -> Result<(), Failure> {
        let format = self.format.unwrap_or_else(|| TableFormat::of(&self.input));
        let (input, format) = (format.open(&self.input)?, format.text());
        let expected = Expected::of(gate.sink().1).ok_or_else(|| Failure::run("the stream takes no table"))?;
        let shared = Arc::new(Mutex::new(State::Open(Box::new(gate))));
        #[cfg(unix)]
        end_on_signal(&shared)?;
        let progress = self.progress();
        let read = read_all(&shared, expected, input, format, reading, &progress);
        progress.finish_and_clear();
        // The lock is held until the process ends, so a signal handler that ends the stream finishes first.
        let mut state = lock(&shared);
        match mem::replace(&mut *state, State::Ended(Ok(()))) {
            State::Open(gate) => read.and_then(|()| complete(*gate)),
            // The first outcome counts.
            State::Ended(outcome) => outcome,
        }
    }

    /// Returns a progress bar of the lines read; hidden unless the terminal shows nothing else.
    fn progress(&self) -> ProgressBar {
        if !io::stderr().is_terminal() || (self.output == "-" && io::stdout().is_terminal()) {
            return ProgressBar::hidden();
        }
        let progress = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{human_pos} lines, {per_sec}, {elapsed}") {
            progress.set_style(style);
        }
        progress.enable_steady_tick(Duration::from_millis(500));
        progress
    }
}

/// Releases the rest of the timeline at the end of the input, and closes.
fn complete<R: Randomness>(mut gate: Gate<R, Writer>) -> Result<(), Failure> {
    match gate.end()? {
        // The first empty timestamp closes the open one; without one, this does.
        Reader::Listens => close(gate),
        Reader::WentAway => Ok(()),
    }
}

/// Releases everything that is held back, and completes the outputs.
fn close<R: Randomness>(mut gate: Gate<R, Writer>) -> Result<(), Failure> {
    gate.finish()?;
    // They tell of what was drawn, so the state comes first.
    let notes = gate.notes();
    let (series, _, writer) = gate.into_parts();
    writer.close(&series)?;
    notes.into_iter().for_each(|note| complain("note", note));
    Ok(())
}

/// Reads until the input ends or the reader of the output goes away.
fn read_all<R: Randomness>(
    shared: &Shared<R>,
    expected: Expected,
    input: Input,
    format: Format,
    reading: Reading,
    progress: &ProgressBar,
) -> Result<(), Failure> {
    let source = Prompt { source: input.source, shared };
    let table = reading.open(&input.name, source, format).map_err(Failure::input)?;
    let mut next = expected.read(&input.name, table, reading.clone()).map_err(Failure::input)?;
    let is_open = Cell::new(true);
    let mut take = |Item { line, series, content }: Item<'_>| {
        let taken = |gate: &mut Gate<R, Writer>| {
            gate.push(series, content).map_err(|rejected| rejected.of_line(&input.name, line, &reading).into())
        };
        is_open.set(with_open(&mut lock(shared), taken));
    };
    while is_open.get() && next(&mut take).map_err(Failure::input)? {
        // A look at the clock takes longer than some mechanisms do.
        if !progress.is_hidden() {
            progress.inc(1);
        }
    }
    Ok(())
}

/// A gate shared with the signal handler's thread.
type Shared<R> = Arc<Mutex<State<R>>>;

enum State<R> {
    Open(Box<Gate<R, Writer>>),
    /// By a signal, by a reader that went away, or by a failed write.
    Ended(Result<(), Failure>),
}

fn lock<R>(shared: &Shared<R>) -> MutexGuard<'_, State<R>> {
    // The panic of another thread is reported by that thread.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `action` on an open gate, and closes the gate if the reader went away. Returns whether it is still open.
fn with_open<R: Randomness>(
    state: &mut State<R>,
    action: impl FnOnce(&mut Gate<R, Writer>) -> Result<Reader, Failure>,
) -> bool {
    let State::Open(gate) = state else { return false };
    let outcome = match action(gate) {
        Ok(Reader::Listens) => return true,
        Ok(Reader::WentAway) => Ok(()),
        Err(failure) => Err(failure),
    };
    *state = State::Ended(outcome);
    false
}

/// Ends the stream on the first interrupt, as at the end of the input; exits at once on the second.
#[cfg(unix)]
fn end_on_signal<R: Randomness + Send + 'static>(shared: &Shared<R>) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(Failure::run)?;
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        // A thread of its own, because a slow reader of the output may block it.
        thread::spawn(move || {
            let mut state = lock(&shared);
            if let State::Open(gate) = mem::replace(&mut *state, State::Ended(Ok(()))) {
                process::exit(close(*gate).map_or_else(|failure| failure.complain().into(), |()| 0));
            }
        });
        if signals.next().is_some() {
            process::exit(130);
        }
    });
    Ok(())
}

/// A source that flushes all releases before each read, since a read may block. Releases are therefore never late, and
/// large inputs are written in large pieces.
struct Prompt<'a, R> {
    source: Box<dyn Read>,
    shared: &'a Shared<R>,
}

impl<R: Randomness> Read for Prompt<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let hand_over = |gate: &mut Gate<R, Writer>| {
            let (writer, series) = gate.sink();
            writer.hand_over(series)
        };
        if !with_open(&mut lock(self.shared), hand_over) {
            return Err(io::Error::other("nobody reads what is released"));
        }
        self.source.read(buffer)
    }
}
