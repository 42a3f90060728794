//! `tidegate new`: from a few answers to a spec that `tidegate release` accepts.

mod header;
mod interview;
mod report;

use std::io::{self, BufRead, IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tidegate::kernel::{Decimal, Epsilon};
use tidegate::scalar::ScalarKind;
use tidegate::spec::{DomainSpec, Every, InputSpec, ProtectsSpec, ScalarSpec, ValuesSpec};
use tidegate_lab::advise::{AdviseError, Data, Question, Request, Simulation, Trust, metrics_of, recommend};
use tidegate_table::time::Clock;

use crate::arguments::{at_least_one, domain, protects, threads_or_all};
use crate::columns::TableOptions;
use crate::failure::Failure;
use crate::output::Output;
use header::Header;
use interview::Interview;
use report::Report;

/// Write the spec of a new stream, from a few answers.
///
/// Each answer is an option. At a terminal, the command asks for those that are not given:
///
///   --row       what a row of the table is
///   --trust     who may see raw values
///   --protects  of a number: all of it, or one of the people who add up to it
///   --domain    the possible values: names, their number, or LO..HI for numbers
///   --every     how long a timestamp is; --counters where times are 0, 1, 2, ..
///   --window    how many timestamps share a user's budget
///   --population  about how many users there are
///   --epsilon   the privacy loss; or --error, the largest error that is useful
///
/// The mechanism is the one that `tidegate advise` recommends. Of a --table, only the names of the columns are
/// read. The spec has a comment for each key, and the command of a first release.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate new --table visits.csv\n  \
                  tidegate new --table visits.csv --row user --trust curator --domain home,shop,help --every 1d \
                  --origin 2026-03-01 --window 7 --population 5000 --epsilon 1\n  \
                  tidegate new --row number --domain 0..1000 --protects contributor=1 --every 1h --error 5 --output \
                  hourly.toml"
)]
pub(crate) struct New {
    /// The table to be released; only the names of its columns are read
    #[arg(long = "table", value_name = "FILE")]
    table_file: Option<String>,

    /// Where to write the spec; named after the table unless given, or else stream.toml
    #[arg(long, value_name = "FILE")]
    output: Option<String>,

    /// Replace the spec if it is there already
    #[arg(long)]
    force: bool,

    /// What a row of the table is
    #[arg(long, value_enum)]
    row: Option<Row>,

    /// Who may see raw values; a curator for counts and numbers, the device for symbols
    #[arg(long, value_enum)]
    trust: Option<TrustName>,

    /// What is protected of a number: all of it, or one contributor, who changes it by at most CHANGE
    #[arg(long, value_name = "reading|contributor=CHANGE", value_parser = protects)]
    protects: Option<ProtectsSpec>,

    /// The possible values: their names, their number, or LO..HI for numbers. They are public, never taken from data
    #[arg(long, value_name = "NAME,..|N|LO..HI", allow_hyphen_values = true)]
    domain: Option<String>,

    /// The distance of two numbers that are told apart; whole numbers unless given
    #[arg(long, value_name = "STEP")]
    resolution: Option<Decimal>,

    /// About how many users there are
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    population: Option<NonZeroU64>,

    /// How many consecutive timestamps share a user's budget
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    window: Option<NonZeroU64>,

    /// Times are counters 0, 1, 2, .. rather than dates
    #[arg(long, conflicts_with = "every")]
    counters: bool,

    /// The privacy loss: of any window of users, of each timestamp of numbers and symbols
    #[arg(long, value_parser = Epsilon::from_str, conflicts_with = "error")]
    epsilon: Option<Epsilon>,

    /// The largest useful error, in users or in the unit of the numbers: the smallest epsilon that reaches it is taken
    #[arg(long, value_name = "ERROR", value_parser = positive)]
    error: Option<f64>,

    /// How many timestamps a number may be held back
    #[arg(long, value_name = "N", default_value = "0")]
    delay: u32,

    /// Print a JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableOptions,
}

/// What a row of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// A user's value at a time: time, user, value
    User,
    /// How many users have each value at a time: time, and a column for each value
    Counts,
    /// One number at a time: time, value
    Number,
    /// A user's value at a time, to be released for each user alone
    Symbol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TrustName {
    /// Nobody but the user's device
    #[value(alias = "local")]
    Device,
    /// Whoever runs the release
    Curator,
}

/// How exact releases are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exactness {
    Epsilon(Epsilon),
    Error(f64),
}

/// The possible values.
#[derive(Clone, Debug)]
enum Domain {
    Numbers(DomainSpec),
    Values(ValuesSpec),
}

/// All answers.
struct Answers {
    data: Data,
    trust: Trust,
    window: NonZeroU64,
    exactness: Exactness,
    keys: Map<String, Value>,
}

/// Epsilons that --error chooses from: those of two digits from 0.05 to 10, in thousandths.
fn ladder() -> Vec<u32> {
    let decades = [(50, 1), (10, 10), (10, 100)].into_iter();
    decades.flat_map(|(first, unit)| (first..100).map(move |digits| digits * unit)).chain([10_000]).collect()
}

impl New {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.table.series().is_some() {
            return Err(Failure::input(
                "--series is for release: write the spec of one series, then add series, series_names and \
                 across_series above [columns]",
            ));
        }
        let place = self.place();
        if !self.force && Path::new(&place).exists() {
            return Err(Failure::input(format_args!(
                "{place} is there already: --force replaces it, and --output names another file"
            )));
        }
        let (mut answers, mut screen) = (io::stdin().lock(), io::stderr());
        let at_terminal = io::stdin().is_terminal();
        let terminal = at_terminal.then_some((&mut answers as &mut dyn BufRead, &mut screen as &mut dyn Write));
        let answers = self.answers(Interview::new(terminal))?;
        let report = self.recommended(&answers, &place)?;
        let mut spec = Output::create(&place)?;
        spec.write(&report.spec_text())?;
        spec.finish()?;
        report.print(self.json)
    }

    /// Where the spec goes.
    fn place(&self) -> String {
        self.output.clone().unwrap_or_else(|| format!("{}.toml", stem(self.table_file.as_deref())))
    }

    fn answers(&self, mut interview: Interview<'_>) -> Result<Answers, Failure> {
        let row = interview.ask(
            self.row,
            "--row user|counts|number|symbol",
            "What is a row: a user's value, counts of users, one number, or a symbol to release for its user alone?",
            choice,
        )?;
        interview.complete()?;
        let Some(row) = row else { return Err(Failure::run("there is no row")) };
        self.refuse_unused(row)?;
        // What is wrong with an answer is told before other answers are asked for.
        let wrong = |why: String| Failure::input(format_args!("--domain: {why}"));
        let mut domain = self.domain.as_deref().map(|text| self.domain_of(row, text)).transpose().map_err(wrong)?;
        let mut input = InputSpec::default();
        self.table.apply(&mut input);
        let header = match &self.table_file {
            Some(file) if !input.columns.no_header => Some(Header::read(file, &input)?),
            _ => None,
        };
        if let Some(header) = &header {
            header.complete(&mut input, matches!(row, Row::User | Row::Symbol), row != Row::Counts)?;
            if row == Row::Counts {
                let given = domain.as_ref().and_then(Domain::values);
                domain = Some(Domain::Values(header.values(&input, given)?));
            }
        }
        let trust = match row {
            Row::User => {
                let question = "Who may see raw values: nobody but the user's device, or whoever runs the release?";
                interview.ask(self.trust, "--trust device|curator", question, choice)?
            }
            Row::Counts | Row::Number => Some(TrustName::Curator),
            Row::Symbol => Some(TrustName::Device),
        };
        let (option, question) = match row {
            Row::Number => ("--domain LO..HI", "Between which numbers do readings lie? Public, never taken from data"),
            _ => ("--domain NAME,..|N", "Which values are there, or how many? Public, never taken from data"),
        };
        let domain = interview.ask(domain, option, question, |text| self.domain_of(row, text))?;
        let protects = if row == Row::Number {
            let question =
                "What is protected: the whole reading, or one contributor, who changes it by at most CHANGE?";
            let parse = |text: &str| protects(text).map_err(str::to_owned);
            interview.ask(self.protects, "--protects reading|contributor=CHANGE", question, parse)?
        } else {
            None
        };
        // Presence is protected there, so that every timestamp from the first on is released.
        let needs_origin = trust == Some(TrustName::Curator) && row != Row::Number;
        self.ask_times(&mut interview, &mut input, needs_origin)?;
        let (population, window) = if matches!(row, Row::User | Row::Counts) {
            let whole = |text: &str| at_least_one(text).map_err(str::to_owned);
            let question = "Over how many consecutive timestamps is a user protected?";
            let window = interview.ask(self.window, "--window N", question, whole)?;
            let question = "About how many users are there?";
            (interview.ask(self.population, "--population N", question, whole)?, window)
        } else {
            (None, Some(NonZeroU64::MIN))
        };
        let question = "How exact? A privacy loss epsilon (1 is usual, less is more private), or error=LARGEST USEFUL";
        let given = self.epsilon.map(Exactness::Epsilon).or(self.error.map(Exactness::Error));
        let exactness = interview.ask(given, "--epsilon E or --error ERROR", question, exactness)?;
        interview.complete()?;
        let missing = || Failure::run("an answer is missing");
        let (Some(domain), Some(trust), Some(window), Some(exactness)) = (domain, trust, window, exactness) else {
            return Err(missing());
        };
        let mut keys = Map::new();
        let data = match domain {
            Domain::Numbers(domain) => numbers(domain, protects.ok_or_else(missing)?)?,
            Domain::Values(values) => {
                let domain = values.values().map_err(Failure::run)?.count();
                keys.insert("domain".to_owned(), serde_json::to_value(&values).map_err(Failure::run)?);
                match (row, population) {
                    (Row::Symbol, _) => Data::Symbols { domain },
                    (_, population) => Data::Counts { domain, population: population.ok_or_else(missing)? },
                }
            }
        };
        if let Value::Object(input) = serde_json::to_value(&input).map_err(Failure::run)? {
            keys.extend(input);
        }
        let trust = match trust {
            TrustName::Device => Trust::Local,
            TrustName::Curator => Trust::Curator,
        };
        Ok(Answers { data, trust, window, exactness, keys })
    }

    /// Asks how long timestamps are, and where they begin if that is needed.
    fn ask_times(
        &self,
        interview: &mut Interview<'_>,
        input: &mut InputSpec,
        needs_origin: bool,
    ) -> Result<(), Failure> {
        if self.counters {
            return Ok(());
        }
        let question = "How often is released, as in 15m, 1h, 1d or 1w? counters where times are 0, 1, 2, ..";
        let parse = |text: &str| match text {
            "counters" => Ok(None),
            text => Every::from_str(text).map(Some).map_err(|error| error.to_string()),
        };
        let every = interview.ask(input.every.map(Some), "--every LENGTH or --counters", question, parse)?;
        input.every = every.flatten();
        if input.every.is_some() && needs_origin {
            let question = "When does the first timestamp begin? A date or a date-time, as in 2026-01-01";
            let every = input.every;
            let text = |text: &str| {
                let origin = Some(text.to_owned());
                Clock::new(&InputSpec { every, origin, ..InputSpec::default() }).map(|_| text.to_owned())
            };
            input.origin = interview.ask(input.origin.take(), "--origin DATE", question, text)?;
        }
        Clock::new(input).map_err(Failure::input)?;
        Ok(())
    }

    /// Rejects options that this kind of row has no use for.
    fn refuse_unused(&self, row: Row) -> Result<(), Failure> {
        let users = matches!(row, Row::User | Row::Counts);
        let number = row == Row::Number;
        let device = self.trust == Some(TrustName::Device);
        for (given, option, fits) in [
            (self.protects.is_some(), "--protects", number),
            (self.resolution.is_some(), "--resolution", number),
            (self.delay > 0, "--delay", number || row == Row::Symbol),
            (self.table.user().is_some(), "--user", matches!(row, Row::User | Row::Symbol)),
            (self.table.value().is_some(), "--value", row != Row::Counts),
            (self.population.is_some(), "--population", users),
            (self.window.is_some(), "--window", users),
            (self.error.is_some(), "--error", row != Row::Symbol),
            (device, "--trust device", matches!(row, Row::User | Row::Symbol)),
            (self.trust.is_some() && !device, "--trust curator", row != Row::Symbol),
        ] {
            if given && !fits {
                let row = row.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                return Err(Failure::input(format_args!("{option} does not go with --row {row}")));
            }
        }
        Ok(())
    }

    /// Parses the possible values of a kind of row.
    fn domain_of(&self, row: Row, text: &str) -> Result<Domain, String> {
        if row == Row::Number {
            let (low, high) = domain::<Decimal>(text)?;
            let domain = DomainSpec { low, high, resolution: self.resolution, missing: None };
            return domain.grid().map(|_| Domain::Numbers(domain)).map_err(|error| error.to_string());
        }
        let spec = match text.parse() {
            Ok(number) => ValuesSpec::Number(number),
            Err(_) => ValuesSpec::Names(text.split(',').map(|name| name.trim().to_owned()).collect()),
        };
        spec.values().map(|_| Domain::Values(spec)).map_err(|error| error.to_string())
    }

    /// The recommendation at the epsilon that was given, or at the smallest one that is exact enough.
    fn recommended(&self, answers: &Answers, place: &str) -> Result<Report, Failure> {
        let at = |epsilon: Epsilon| -> Result<Report, Failure> {
            let Answers { data, trust, window, .. } = *answers;
            let metric = metrics_of(data.kind())[0];
            let request = Request { data, trust, epsilon, window, delay: self.delay.into(), metric };
            request.check().map_err(Failure::input)?;
            let question = Question::new(request).with_keys(answers.keys.clone());
            let mut simulation = Simulation::quick(1, threads_or_all(None));
            if matches!(data, Data::Numbers { .. }) {
                // Short of runs, only mechanisms with a formula would be ranked.
                simulation.repeats = NonZeroU64::new(2);
            }
            let recommendation = recommend(&question, None, &simulation);
            let recommendation = recommendation.map_err(|error| match error {
                AdviseError::Run(error) => Failure::run(error),
                other => Failure::input(other),
            })?;
            let none =
                || Failure::input("no mechanism fits these answers: a larger epsilon or a smaller domain may help");
            let chosen = recommendation.chosen.ok_or_else(none)?;
            Ok(Report::new(chosen, data, place, self.table_file.as_deref(), &stem(Some(place))))
        };
        let target = match answers.exactness {
            Exactness::Epsilon(epsilon) => return at(epsilon),
            Exactness::Error(target) => target,
        };
        // Bisection: the error falls with epsilon.
        let mut best: Option<Report> = None;
        let ladder = ladder();
        let (mut first, mut last) = (0, ladder.len());
        let mut least = f64::INFINITY;
        while first < last {
            let middle = first.midpoint(last);
            let epsilon = format!("{}.{:03}", ladder[middle] / 1_000, ladder[middle] % 1_000);
            let report = at(epsilon.parse().map_err(Failure::run)?)?;
            least = least.min(report.error);
            if report.error <= target {
                (best, last) = (Some(report), middle);
            } else {
                first = middle + 1;
            }
        }
        best.ok_or_else(|| {
            let (target, least) = (tidegate_table::layout::figure(target), tidegate_table::layout::figure(least));
            Failure::input(format_args!(
                "--error {target} cannot be reached: at epsilon 10, ±{least} is expected; more users, a shorter \
                 window, fewer values or longer timestamps help"
            ))
        })
    }
}

/// The name of a file without folder and ending.
fn stem(file: Option<&str>) -> String {
    let name = file.map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let name = name.and_then(|name| name.split('.').next());
    name.filter(|name| !name.is_empty()).unwrap_or("stream").to_owned()
}

/// Parses the name of a choice.
fn choice<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| {
        let names: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<_> = names.iter().map(|name| name.get_name()).collect();
        format!("expected one of: {}", names.join(", "))
    })
}

fn positive(text: &str) -> Result<f64, &'static str> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|number| *number > 0.0 && number.is_finite()).ok_or("expected a number above 0")
}

fn exactness(text: &str) -> Result<Exactness, String> {
    match text.strip_prefix("error=") {
        Some(error) => positive(error).map(Exactness::Error).map_err(str::to_owned),
        None => text.parse().map(Exactness::Epsilon).map_err(|error: tidegate::kernel::EpsilonError| error.to_string()),
    }
}

impl Domain {
    const fn values(&self) -> Option<&ValuesSpec> {
        match self {
            Self::Values(values) => Some(values),
            Self::Numbers(_) => None,
        }
    }
}

fn numbers(domain: DomainSpec, protects: ProtectsSpec) -> Result<Data, Failure> {
    let epsilon = Epsilon::budget(1.0).map_err(Failure::run)?;
    let settings = ScalarSpec::new(ScalarKind::Laplace, epsilon, domain, protects).settings();
    let settings = settings.map_err(|error| Failure::input(format_args!("--protects: {error}")))?;
    Ok(Data::Numbers { grid: settings.grid, protects: settings.protects })
}
