//! `tidegate release`: a private stream in, a stream that may be published out.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::mem;
#[cfg(unix)]
use std::process;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use std::thread;

use clap::Args;
use serde::Serialize;
use tidegate::event::{Event, EventKind};
use tidegate::kernel::{Epsilon, Randomness, Sealed, SeededRandom, SystemRandom};
use tidegate::release::{Freshness, Number, Release as Published};
use tidegate::spec::{DomainSpec, EventSpec, Intake, SpecError};
use tidegate_lab::UnknownName;
use tidegate_lab::datasets::scalar::{Reading, Readings};

use crate::evaluate::domain;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, Reader};
use crate::spec::Spec;

/// Release a private stream: readings in, line by line, and out what may be published.
///
/// The input is a table with the fields t and value: a timestamp, later than the last, and a
/// number. The output has the fields t, value, variance (the expected squared error, as far as
/// the noise tells) and freshness, one line for each reading, in their order. A line is written
/// as soon as the delay allows, so this works in the middle of an endless pipe; no more is kept
/// than is held back. What is held back when the input ends, or on an interrupt, is released then.
///
/// What to release and how private it is stands in a spec, or is given with options. A spec:
///
///   family = "event"            # one number at each timestamp
///   mechanism = "contin"        # `tidegate data` lists them
///   epsilon = 1.0               # for each timestamp
///   delay = 10                  # how many timestamps a release may be held back
///   domain = { low = 0, high = 612 }
///
/// A reading that is refused ends the command, with an error that names its line and field.
/// What was written to standard output before it stays there; a file is written whole or not
/// at all.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate release --spec stream.toml --input readings.csv --output released.csv\n  \
                  sensor | tidegate release --mechanism clamped --epsilon 1 --domain -10..40 --resolution 0.1"
)]
pub(crate) struct Release {
    /// The spec of the stream
    #[arg(long, value_name = "FILE|-", required_unless_present = "mechanism")]
    spec: Option<String>,

    /// Where the readings come from; a file may be compressed with gzip
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    input: String,

    /// Where releases go; a file is replaced only once all of it is there
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,

    /// Instead of a spec: the mechanism
    #[arg(long, value_parser = mechanism, conflicts_with = "spec", requires_all = ["epsilon", "domain"])]
    mechanism: Option<EventKind>,

    /// The budget of each timestamp
    #[arg(long, value_parser = Epsilon::from_str, requires = "mechanism")]
    epsilon: Option<Epsilon>,

    /// What readings can be
    #[arg(long, value_name = "LO..HI", value_parser = domain, allow_hyphen_values = true, requires = "mechanism")]
    domain: Option<(f64, f64)>,

    /// The distance of two readings that are told apart; whole numbers unless given
    #[arg(long, value_name = "STEP", requires = "mechanism")]
    resolution: Option<f64>,

    /// How many timestamps a release may be held back
    #[arg(long, requires = "mechanism")]
    delay: Option<u32>,

    /// Repeat a run exactly, to try it out: what is released then is not private
    #[arg(long)]
    seed: Option<u64>,

    /// Print a JSON object a line instead of CSV
    #[arg(long)]
    json: bool,
}

fn mechanism(name: &str) -> Result<EventKind, UnknownName> {
    let kinds = EventKind::ALL.into_iter();
    name.parse().map_err(|_| UnknownName::new("event-level mechanism", name, kinds.map(EventKind::name)))
}

impl Release {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (event, intake) = self.mechanism()?;
        let input = Input::open(&self.input)?;
        match self.seed {
            Some(seed) => {
                let why = "whoever knows that can take the noise off again, so what is released is not private";
                complain("warning", format_args!("this run is seeded with {seed}: {why}"));
                self.pass(event, intake, input, SeededRandom::new(seed))
            }
            None => self.pass(event, intake, input, SystemRandom::new().map_err(Failure::run)?),
        }
    }

    fn mechanism(&self) -> Result<(Event, Intake), Failure> {
        if let Some(name) = &self.spec {
            if name == "-" && self.input == "-" {
                return Err(Failure::input("spec and readings cannot both come from standard input"));
            }
            let spec = Spec::read(name)?;
            return open(&spec.stream).map_err(|error| spec.refused(&error));
        }
        let (Some(mechanism), Some(epsilon), Some((low, high))) = (self.mechanism, self.epsilon, self.domain) else {
            // The parser of arguments has seen to it.
            return Err(Failure::input("either --spec or --mechanism, --epsilon and --domain must be given"));
        };
        let domain = DomainSpec { low, high, resolution: self.resolution };
        let spec = EventSpec { delay: self.delay.unwrap_or(0), ..EventSpec::new(mechanism, epsilon, domain) };
        open(&spec).map_err(Failure::input)
    }

    /// Passes the whole input through the mechanism.
    fn pass(
        &self,
        event: Event,
        intake: Intake,
        input: Input,
        random: impl Randomness + Send + 'static,
    ) -> Result<(), Failure> {
        let output = Output::create(&self.output)?;
        let json = self.json;
        let gate = Gate { event, random, output, json, begun: false, released: Vec::new(), text: String::new() };
        let shared = Arc::new(Mutex::new(State::Open(Box::new(gate))));
        #[cfg(unix)]
        end_on_signal(&shared)?;
        let read = read_all(&shared, &intake, input);
        // With the lock held until the process ends: where a signal ends the stream, this waits for that.
        let mut state = lock(&shared);
        match mem::replace(&mut *state, State::Ended(Ok(()))) {
            State::Open(gate) => read.and_then(|()| gate.close()),
            // Whatever else came of it, it began with this.
            State::Ended(outcome) => outcome,
        }
    }
}

fn open(spec: &EventSpec) -> Result<(Event, Intake), SpecError> {
    Ok((spec.mechanism()?, spec.intake()?))
}

/// Reads to the end, or until nobody wants to know.
fn read_all<R: Randomness>(shared: &Shared<R>, intake: &Intake, input: Input) -> Result<(), Failure> {
    let source = Prompt { source: input.source, shared };
    let mut readings = Readings::new(&input.name, source).map_err(Failure::input)?;
    let seal = |reading: Reading| {
        intake.seal(reading.timestamp, reading.value).map_err(|expected| expected.to_string().into())
    };
    while let Some(reading) = readings.next_checked(seal).map_err(Failure::input)? {
        if !with_open(&mut lock(shared), |gate| gate.push(reading)) {
            break;
        }
    }
    Ok(())
}

/// What stands between readings and releases.
struct Gate<R> {
    event: Event,
    random: R,
    output: Output,
    json: bool,
    /// Whether the header was written.
    begun: bool,
    /// Always empty between calls; kept for its memory.
    released: Vec<Published>,
    /// What was not handed over to the output yet.
    text: String,
}

/// A gate that is shared with the thread that waits for signals.
type Shared<R> = Arc<Mutex<State<R>>>;

enum State<R> {
    Open(Box<Gate<R>>),
    /// By a signal, or because nobody reads any more, or because writing failed.
    Ended(Result<(), Failure>),
}

fn lock<R>(shared: &Shared<R>) -> MutexGuard<'_, State<R>> {
    // A thread that panicked has told so itself.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with an open gate, and closes it if nobody reads what is released. Whether it is open still.
fn with_open<R: Randomness>(
    state: &mut State<R>,
    action: impl FnOnce(&mut Gate<R>) -> Result<Reader, Failure>,
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

/// Ends the stream on an interrupt, as if the input had ended there; on a second one, at once.
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
        // In a thread of its own, because the reader of what is released may keep it waiting.
        thread::spawn(move || {
            let mut state = lock(&shared);
            if let State::Open(gate) = mem::replace(&mut *state, State::Ended(Ok(()))) {
                process::exit(gate.close().map_or_else(|failure| failure.complain().into(), |()| 0));
            }
        });
        if signals.next().is_some() {
            process::exit(130);
        }
    });
    Ok(())
}

/// A source before which nothing waits that can be published: before it is asked for more, which may take for ever, everything
/// that was released is handed over. So nothing is late, and where much comes at once, much is handed over at once.
struct Prompt<'a, R> {
    source: Box<dyn Read>,
    shared: &'a Shared<R>,
}

impl<R: Randomness> Read for Prompt<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !with_open(&mut lock(self.shared), Gate::hand_over) {
            return Err(io::Error::other("nobody reads what is released"));
        }
        self.source.read(buffer)
    }
}

/// A release, as `--json` prints it.
#[derive(Serialize)]
struct Line {
    t: u64,
    value: f64,
    variance: f64,
    freshness: Freshness,
}

/// So much text is handed over in any case.
const MUCH: usize = 1 << 16;

impl<R: Randomness> Gate<R> {
    fn push(&mut self, reading: Sealed<i64>) -> Result<Reader, Failure> {
        self.event.push_into(reading, &mut self.random, &mut self.released).map_err(Failure::run)?;
        self.write_releases()?;
        if self.text.len() < MUCH { Ok(Reader::Listens) } else { self.hand_over() }
    }

    fn write_releases(&mut self) -> Result<(), Failure> {
        if !mem::replace(&mut self.begun, true) && !self.json {
            self.text.push_str("t,value,variance,freshness\n");
        }
        for release in self.released.drain(..) {
            // Every event-level mechanism releases numbers.
            let Some(Number { value, variance }) = release.statistic.number() else { continue };
            let line = Line { t: release.timestamp, value, variance, freshness: release.freshness };
            if self.json {
                self.text.push_str(&serde_json::to_string(&line).map_err(Failure::run)?);
                self.text.push('\n');
            } else {
                let freshness = line.freshness.name();
                writeln!(self.text, "{},{value},{variance},{freshness}", line.t).map_err(Failure::run)?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<Reader, Failure> {
        if self.text.is_empty() {
            return Ok(Reader::Listens);
        }
        let reader = self.output.write(&self.text);
        self.text.clear();
        reader
    }

    /// Releases what is held back.
    fn close(mut self) -> Result<(), Failure> {
        self.released.extend(self.event.finish(&mut self.random).map_err(Failure::run)?);
        self.write_releases()?;
        // Whether somebody reads that makes no difference any more.
        self.hand_over()?;
        self.output.finish()
    }
}
