//! `tidegate advise`: which mechanism to take, and which error to expect of it.

use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;
use std::thread;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tidegate::names::UnknownName;
use tidegate::spec::{SpecError, StreamSpec};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid};
use tidegate_lab::DataStream;
use tidegate_lab::advise::solve::{Answer, Need, Unknown, solve};
use tidegate_lab::advise::{
    Advice, AdviseError, Data, Prediction, Request, Sample, Simulation, Trust, Unpredicted, advise, metrics_of, streams,
};
use tidegate_lab::metrics::Metric;
use tidegate_lab::stream::StreamKind;

use crate::arguments::{at_least_one, domain};
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::Output;
use crate::spec::Spec;
use crate::table::layout;
use crate::table::short;

/// Predict the error of each mechanism that applies, rank them, and say why.
///
/// What is to be released, and who may see it, decides which mechanisms apply:
///
///   --kind counts   how many of --population users hold each of --domain values;
///                   --trust local (nobody but the device) or curator; --window timestamps
///   --kind numbers  one number within --domain LO..HI at each timestamp
///   --kind symbols  one user's symbol, of --domain symbols, at each timestamp
///
/// Errors are computed by formula where there is one, and simulated where there is none: on
/// streams that may have been behind a --sample of past releases, or on four typical ones
/// (still, walk, seasonal, bursts). The range goes from the lowest to the highest of the
/// streams, with two standard errors on either side of what was simulated.
///
/// A sample is a table as `tidegate release` writes it (t,value,variance,freshness), or
/// has t and a field for each value, of counts or shares. The noise that it states is taken off before
/// it is judged how much the stream moves. Releases are private already, so advice from them
/// is too; a raw sample is not, and a warning says so.
///
/// With --target-error it solves for the epsilon, or the population, that each mechanism
/// needs to come down to that error.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate advise --kind counts --trust local --population 200000 --domain 8 --window 24 --epsilon 1\n  \
                  tidegate advise --spec stream.toml --sample released.csv\n  \
                  tidegate advise --kind counts --trust curator --population 5000 --domain 10 --target-error 1e-5 --solve epsilon"
)]
pub(crate) struct Advise {
    /// What is to be released
    #[arg(long, value_enum, required_unless_present = "spec", conflicts_with = "spec")]
    kind: Option<KindName>,

    /// Who may see raw values: nobody but the device, or a curator; for numbers a curator unless given
    #[arg(long, value_enum, conflicts_with = "spec")]
    trust: Option<TrustName>,

    /// The number of users, for counts; with --spec only where that does not say it
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    population: Option<NonZeroU64>,

    /// The number of values or symbols; for numbers, what they can be
    #[arg(
        long,
        value_name = "D|LO..HI",
        allow_hyphen_values = true,
        conflicts_with = "spec",
        required_unless_present = "spec"
    )]
    domain: Option<String>,

    /// The distance of two numbers that are told apart; 1 unless given
    #[arg(long, value_name = "STEP", conflicts_with = "spec")]
    resolution: Option<f64>,

    /// Protect one contributor to a number, who can change it by so many steps of the resolution at most
    #[arg(long, value_name = "STEPS", value_parser = at_least_one::<NonZeroU64>, conflicts_with = "spec")]
    contribution: Option<NonZeroU64>,

    /// The privacy budget: of any window for counts, of each timestamp for numbers and symbols
    #[arg(long, value_parser = Epsilon::from_str, conflicts_with = "spec")]
    epsilon: Option<Epsilon>,

    /// The window in timestamps, for counts; 20 unless given
    #[arg(long, value_parser = at_least_one::<NonZeroU64>, conflicts_with = "spec")]
    window: Option<NonZeroU64>,

    /// How many timestamps a release may be held back; 0 unless given
    #[arg(long, conflicts_with = "spec")]
    delay: Option<u64>,

    /// The spec of the stream, instead of the options above
    #[arg(long, value_name = "FILE|-")]
    spec: Option<String>,

    /// Past releases of the stream, or of one like it
    #[arg(long, value_name = "FILE|-")]
    sample: Option<String>,

    /// The error that is to be small: mse, mae, mre, amre or ajsd for counts, mse, mae or mre for numbers,
    /// error_rate, mae, mse or histogram_distance for symbols; the first unless given
    #[arg(long, value_parser = metric)]
    metric: Option<Metric>,

    /// Compare these mechanisms only, separated by commas
    #[arg(long, value_delimiter = ',')]
    mechanism: Vec<String>,

    /// Solve for what this error needs
    #[arg(long, value_name = "ERROR", requires = "solve")]
    target_error: Option<f64>,

    /// What to solve for
    #[arg(long, value_enum, requires = "target_error")]
    solve: Option<UnknownQuantity>,

    /// How often to simulate on each stream; up to 10 times unless given, as a few seconds allow
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    repeats: Option<NonZeroU64>,

    /// The length of the typical streams; ten windows unless given, as a few seconds allow
    #[arg(long, value_name = "T", value_parser = at_least_one::<NonZeroUsize>, conflicts_with = "sample")]
    length: Option<NonZeroUsize>,

    /// Where all randomness comes from: the same seed gives the same advice. Nothing private is drawn
    #[arg(long, default_value = "1")]
    seed: u64,

    /// How many threads to use; all cores unless given. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Where to write the result; a file is replaced only once all of it is there
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindName {
    Counts,
    Numbers,
    Symbols,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TrustName {
    Local,
    Curator,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnknownQuantity {
    Epsilon,
    Population,
}

fn metric(name: &str) -> Result<Metric, UnknownName> {
    let kinds = StreamKind::ALL.into_iter();
    let mut all: Vec<Metric> = kinds.flat_map(|kind| metrics_of(kind).iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let found = all.iter().copied().find(|metric| metric.name() == name);
    found.ok_or_else(|| UnknownName::new("error", name, all.iter().map(|metric| metric.name())))
}

/// What a question is about, before it is known which error is asked for.
struct Subject {
    data: Data,
    trust: Trust,
    epsilon: Option<Epsilon>,
    window: NonZeroU64,
    delay: u64,
    /// The mechanism that a spec names.
    mechanism: Option<&'static str>,
}

impl Advise {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let subject = match &self.spec {
            Some(spec) => from_spec(spec, self.population)?,
            None => self.subject_of_options()?,
        };
        let needs_epsilon = !matches!(self.solve, Some(UnknownQuantity::Epsilon));
        let epsilon = match subject.epsilon {
            Some(epsilon) => epsilon,
            None if needs_epsilon => return Err(Failure::input("--epsilon is needed: the privacy budget")),
            None => Epsilon::budget(1.0).map_err(Failure::run)?,
        };
        let request = Request {
            data: subject.data,
            trust: subject.trust,
            epsilon,
            window: subject.window,
            delay: subject.delay,
            metric: self.metric.unwrap_or(metrics_of(subject.data.kind())[0]),
        };
        request.check().map_err(refused)?;
        let subjects = request.chosen(&self.mechanism).map_err(refused)?;
        let sample = self.sample.as_deref().map(|name| read_sample(name, &request.data)).transpose()?;
        let threads = self.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let simulation = Simulation { repeats: self.repeats, length: self.length, seed: self.seed, threads };
        let streams = streams(&request, sample.as_ref(), &simulation).map_err(refused)?;
        let mut output = Output::create(&self.output)?;
        let about = About { request: &request, streams: &streams, sample: sample.as_ref(), spec: subject.mechanism };
        let text = match (self.target_error, self.solve) {
            (Some(target), Some(unknown)) => {
                let unknown = match unknown {
                    UnknownQuantity::Epsilon => Unknown::Epsilon,
                    UnknownQuantity::Population => Unknown::Population,
                };
                let needs = solve(&request, &subjects, &streams, &simulation, target, unknown).map_err(refused)?;
                if self.json {
                    needs_json(&about, target, unknown, &needs)?
                } else {
                    needs_text(&about, target, unknown, &needs)
                }
            }
            _ => {
                let advice = advise(&request, &subjects, &streams, &simulation).map_err(refused)?;
                if self.json { advice_json(&about, &advice)? } else { advice_text(&about, &advice) }
            }
        };
        output.write(&text)?;
        output.finish()
    }

    fn subject_of_options(&self) -> Result<Subject, Failure> {
        let text = self.domain.as_deref().unwrap_or_default();
        let values = || -> Result<u32, Failure> {
            let number: Option<u32> = text.parse().ok();
            number.ok_or_else(|| {
                Failure::input(format_args!("--domain is the number of values, at least 2; {text:?} was given"))
            })
        };
        let only_numbers = |given: bool, option: &str| match given {
            true => Err(Failure::input(format_args!("{option} is for numbers only"))),
            false => Ok(()),
        };
        let (data, usual) = match self.kind {
            Some(KindName::Numbers) => {
                let ends = domain(text).map_err(|expected| Failure::input(format_args!("--domain: {expected}")))?;
                let grid = Grid::new(ends.0, ends.1, self.resolution.unwrap_or(1.0)).map_err(Failure::input)?;
                let protects = self.contribution.map_or(Protects::Reading, Protects::Contribution);
                (Data::Numbers { grid, protects }, Some(Trust::Curator))
            }
            kind => {
                only_numbers(self.resolution.is_some(), "--resolution")?;
                only_numbers(self.contribution.is_some(), "--contribution")?;
                if matches!(kind, Some(KindName::Symbols)) {
                    (Data::Symbols { domain: values()? }, Some(Trust::Local))
                } else {
                    let population = self.population;
                    // Where it is solved for, any will do to begin with.
                    let solved = matches!(self.solve, Some(UnknownQuantity::Population));
                    let population = population.or_else(|| if solved { NonZeroU64::new(10_000) } else { None });
                    let missing = || Failure::input("--population is needed for counts: the number of users");
                    (Data::Counts { domain: values()?, population: population.ok_or_else(missing)? }, None)
                }
            }
        };
        no_users(&data, self.population)?;
        let given = self.trust.map(|trust| match trust {
            TrustName::Local => Trust::Local,
            TrustName::Curator => Trust::Curator,
        });
        let missing = || Failure::input("--trust is needed for counts: local, or curator");
        Ok(Subject {
            data,
            trust: given.or(usual).ok_or_else(missing)?,
            epsilon: self.epsilon,
            window: self.window.unwrap_or(DEFAULT_WINDOW),
            delay: self.delay.unwrap_or_default(),
            mechanism: None,
        })
    }
}

const DEFAULT_WINDOW: NonZeroU64 = NonZeroU64::MIN.saturating_add(19);

const ONE_GUARANTEE: &str =
    "there is advice for one guarantee for all users only: a spec with epsilon and window, without classes";

/// What a spec says about the stream. The number of users is not always known there.
fn from_spec(name: &str, population: Option<NonZeroU64>) -> Result<Subject, Failure> {
    let spec = Spec::read(name)?;
    let refused = |error: SpecError| spec.refused(&error);
    let subject = match &spec.stream {
        StreamSpec::Scalar(stream) => {
            let settings = stream.settings().map_err(refused)?;
            Subject {
                data: Data::Numbers { grid: settings.grid, protects: settings.protects },
                trust: Trust::Curator,
                epsilon: Some(stream.epsilon),
                window: NonZeroU64::MIN,
                delay: stream.delay.into(),
                mechanism: Some(spec.stream.mechanism().name()),
            }
        }
        StreamSpec::Local(stream) => {
            if stream.classes.is_some() {
                return Err(Failure::input(format_args!("{name}: {ONE_GUARANTEE}")));
            }
            let settings = stream.settings().map_err(refused)?;
            Subject {
                data: Data::Counts { domain: settings.domain, population: population.unwrap_or(settings.population) },
                trust: Trust::Local,
                epsilon: Some(settings.epsilon),
                window: settings.window,
                delay: 0,
                mechanism: Some(spec.stream.mechanism().name()),
            }
        }
        StreamSpec::Central(stream) => {
            let (Some(epsilon), Some(window)) = (stream.epsilon, stream.window) else {
                return Err(Failure::input(format_args!("{name}: {ONE_GUARANTEE}")));
            };
            let missing = || Failure::input("--population is needed with this spec: the number of users");
            Subject {
                data: Data::Counts {
                    domain: stream.values().map_err(refused)?.count(),
                    population: population.ok_or_else(missing)?,
                },
                trust: Trust::Curator,
                epsilon: Some(epsilon),
                window,
                delay: 0,
                mechanism: Some(spec.stream.mechanism().name()),
            }
        }
        StreamSpec::Sequence(stream) => Subject {
            data: Data::Symbols { domain: stream.values().map_err(refused)?.count() },
            trust: Trust::Local,
            epsilon: Some(stream.epsilon),
            window: NonZeroU64::MIN,
            delay: stream.length.unwrap_or(1).saturating_sub(1).into(),
            mechanism: Some(spec.stream.mechanism().name()),
        },
        other => {
            return Err(Failure::input(format_args!("{name}: there is no advice for the family {}", other.family())));
        }
    };
    no_users(&subject.data, population)?;
    Ok(subject)
}

/// Only counts have a population.
fn no_users(data: &Data, population: Option<NonZeroU64>) -> Result<(), Failure> {
    if population.is_none() || matches!(data, Data::Counts { .. }) {
        return Ok(());
    }
    Err(Failure::input(format_args!("--population is for counts: a stream of {} has none", data.kind())))
}

/// What was asked is wrong, unless a mechanism failed.
fn refused(error: AdviseError) -> Failure {
    match error {
        AdviseError::Run(error) => Failure::run(error),
        other => Failure::input(other),
    }
}

fn read_sample(name: &str, data: &Data) -> Result<Sample, Failure> {
    let Input { name, source } = Input::open(name)?;
    let sample = Sample::read(&name, source, data).map_err(refused)?;
    if sample.may_be_raw() {
        let why = "it has neither variances nor freshness, so it may be raw data, and advice that is computed from raw data \
                   tells something about them: keep it to yourself, or take a sample of past releases";
        complain("warning", format_args!("{name}: {why}"));
    } else if !sample.states_variance() {
        complain(
            "warning",
            format_args!("{name}: it states no variance, so that its noise is taken for movement of the stream"),
        );
    }
    Ok(sample)
}

/// What advice is about.
struct About<'a> {
    request: &'a Request,
    streams: &'a [DataStream],
    sample: Option<&'a Sample>,
    spec: Option<&'static str>,
}

impl About<'_> {
    /// The streams that errors were predicted on, in words.
    fn on(&self) -> String {
        match self.sample {
            Some(sample) => {
                let length = sample.length();
                format!("{} streams that may have been behind the sample of {length} timestamps", self.streams.len())
            }
            None => {
                let names: Vec<_> = self.streams.iter().map(DataStream::name).collect();
                format!("typical streams: {}", names.join(", "))
            }
        }
    }

    /// All that is given, without what is solved for.
    fn heading(&self, solved: Option<Unknown>) -> String {
        let Request { data, trust, epsilon, window, delay, metric } = self.request;
        let what = match data {
            Data::Counts { domain, population } => {
                let users = match solved {
                    Some(Unknown::Population) => String::new(),
                    _ => format!(" of {population} users"),
                };
                format!("counts{users} over {domain} values, window {window}, trust {}", trust.name())
            }
            Data::Numbers { grid, protects } => {
                let unit = match protects {
                    Protects::Reading => "the number is protected".to_owned(),
                    Protects::Contribution(steps) => format!("a contributor of {steps} steps is protected"),
                };
                let (low, high, step) = (grid.low(), grid.high(), grid.step());
                format!("a number within {low}..{high} in steps of {step}, delay {delay}; {unit}")
            }
            Data::Symbols { domain } => format!("one user's symbols, {domain} of them, delay {delay}"),
        };
        let budget = match solved {
            Some(Unknown::Epsilon) => String::new(),
            _ => format!(", epsilon {epsilon}"),
        };
        format!("{what}{budget}; {metric}\non {}\n", self.on())
    }

    /// What a sample tells, and what was taken off.
    fn movement(&self) -> Option<String> {
        let sample = self.sample?;
        if matches!(self.request.data, Data::Symbols { .. }) {
            let noise = "symbols state no variance, so nothing is taken off: released ones make a stream look more restless than it is";
            return Some(noise.to_owned());
        }
        let movement = sample.movement();
        let (observed, noise, left) = (short(movement.observed), short(movement.noise), short(movement.of_stream()));
        let told = if movement.of_stream() == 0.0 {
            "nothing of it can be told from noise, and the stream is taken to stand still".to_owned()
        } else {
            format!("{left}, give or take {}, is left for the stream", short(movement.standard_error))
        };
        Some(format!(
            "the sample moves by a mean square of {observed} a timestamp, of which {noise} is the noise that it states: {told}"
        ))
    }

    fn json(&self) -> serde_json::Map<String, Value> {
        let Request { data, trust, epsilon, window, delay, metric } = self.request;
        let mut map = serde_json::Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        put("kind", json!(data.kind().name()));
        put("trust", json!(trust.name()));
        put("epsilon", json!(epsilon.as_f64()));
        put("delay", json!(delay));
        put("metric", json!(metric.name()));
        match data {
            Data::Counts { domain, population } => {
                put("population", json!(population));
                put("domain", json!(domain));
                put("window", json!(window));
            }
            Data::Numbers { grid, .. } => {
                put("domain", json!({ "low": grid.low(), "high": grid.high(), "resolution": grid.step() }));
            }
            Data::Symbols { domain } => {
                put("domain", json!(domain));
            }
        }
        put("streams", json!(self.streams.iter().map(DataStream::name).collect::<Vec<_>>()));
        put(
            "sample",
            self.sample.map_or(Value::Null, |sample| {
                let movement = sample.movement();
                json!({
                    "timestamps": sample.length(), "may_be_raw": sample.may_be_raw(),
                    "states_variance": sample.states_variance(), "observed_movement": movement.observed,
                    "noise": movement.noise, "movement": movement.of_stream(),
                    "movement_standard_error": movement.standard_error,
                })
            }),
        );
        map
    }
}

fn advice_json(about: &About<'_>, advice: &Advice) -> Result<String, Failure> {
    let mut map = about.json();
    let entry = |prediction: &Prediction| {
        let on = prediction.on.iter().map(|(stream, summary)| {
            json!({ "stream": stream, "mean": summary.mean, "standard_error": summary.standard_error })
        });
        json!({
            "mechanism": prediction.mechanism, "method": prediction.method.name(), "error": prediction.error,
            "low": prediction.low, "high": prediction.high, "on": on.collect::<Vec<_>>(),
        })
    };
    let oracles = advice.oracles.as_ref().map(|(epsilon, oracles)| {
        let list = oracles.iter().map(|oracle| {
            json!({ "oracle": oracle.kind.name(), "variance": oracle.variance, "bytes": oracle.bytes })
        });
        json!({ "epsilon": epsilon.as_f64(), "best": best_oracle(about, *epsilon), "oracles": list.collect::<Vec<_>>() })
    });
    map.insert("best".to_owned(), json!(advice.ranking.first().map(|first| first.mechanism)));
    map.insert("spec_mechanism".to_owned(), json!(about.spec));
    map.insert("ranking".to_owned(), advice.ranking.iter().map(entry).collect());
    map.insert("unpredicted".to_owned(), unpredicted_json(advice.unpredicted.iter()));
    map.insert("why".to_owned(), json!(advice.why));
    map.insert("otherwise".to_owned(), json!(advice.otherwise));
    map.insert("oracles".to_owned(), oracles.unwrap_or(Value::Null));
    Ok(serde_json::to_string_pretty(&map).map_err(Failure::run)? + "\n")
}

fn unpredicted_json<'a>(unpredicted: impl Iterator<Item = &'a Unpredicted>) -> Value {
    unpredicted.map(|one| json!({ "mechanism": one.mechanism, "why": one.why })).collect()
}

fn best_oracle(about: &About<'_>, epsilon: Epsilon) -> Option<&'static str> {
    match about.request.data {
        Data::Counts { domain, .. } => Some(OracleKind::best(domain, epsilon).name()),
        Data::Numbers { .. } | Data::Symbols { .. } => None,
    }
}

fn advice_text(about: &About<'_>, advice: &Advice) -> String {
    let mut rows = vec![["", "mechanism", "error", "range", "by"].map(str::to_owned).to_vec()];
    for (place, prediction) in (1..).zip(&advice.ranking) {
        let range = format!("{} to {}", short(prediction.low), short(prediction.high));
        let chosen = if about.spec == Some(prediction.mechanism) { " (the spec's)" } else { "" };
        rows.push(vec![
            place.to_string(),
            format!("{}{chosen}", prediction.mechanism),
            short(prediction.error),
            range,
            prediction.method.name().to_owned(),
        ]);
    }
    let mut text = about.heading(None);
    if let Some(movement) = about.movement() {
        text += &format!("{movement}\n");
    }
    text += &format!("\n{}\n{} {}\n", layout(&rows), advice.why, advice.otherwise);
    if let Some((epsilon, oracles)) = &advice.oracles {
        let best = best_oracle(about, *epsilon).unwrap_or_default();
        let oracle = |oracle: &tidegate_lab::advise::OracleAdvice| {
            let lowest = oracles.first().map_or(oracle.variance, |first| first.variance);
            let relative = 100.0 * (oracle.variance / lowest - 1.0);
            format!("{} (+{relative:.0} %, {} bytes)", oracle.kind.name(), oracle.bytes)
        };
        let list: Vec<_> = oracles.iter().map(oracle).collect();
        text += &format!("Oracle for reports at epsilon {epsilon}: {best}; by variance: {}\n", list.join(", "));
    }
    text + &unpredicted_text(advice.unpredicted.iter())
}

fn unpredicted_text<'a>(unpredicted: impl Iterator<Item = &'a Unpredicted>) -> String {
    unpredicted.map(|one| format!("Not predicted: {}: {}\n", one.mechanism, one.why)).collect()
}

/// Those that can be met come first, the least first.
fn by_need(need: &Need) -> (u8, f64) {
    match need.answer {
        Answer::Already { error, .. } => (0, error),
        Answer::Enough { amount, .. } => (1, amount),
        Answer::Never { error, .. } => (2, error),
    }
}

fn sorted(needs: &[Result<Need, Unpredicted>]) -> Vec<&Need> {
    let mut solved: Vec<&Need> = needs.iter().flatten().collect();
    solved.sort_by(|a, b| {
        let ((a_rank, a_amount), (b_rank, b_amount)) = (by_need(a), by_need(b));
        a_rank.cmp(&b_rank).then(a_amount.total_cmp(&b_amount))
    });
    solved
}

fn needs_json(
    about: &About<'_>,
    target: f64,
    unknown: Unknown,
    needs: &[Result<Need, Unpredicted>],
) -> Result<String, Failure> {
    let mut map = about.json();
    map.remove(unknown.name());
    let entry = |need: &&Need| {
        let (outcome, amount, error, tolerance) = match need.answer {
            Answer::Enough { amount, error, tolerance } => ("enough", amount, error, Some(tolerance)),
            Answer::Already { amount, error } => ("already", amount, error, None),
            Answer::Never { amount, error } => ("never", amount, error, None),
        };
        json!({
            "mechanism": need.mechanism, "method": need.method.name(), "outcome": outcome, unknown.name(): amount,
            "error": error, "tolerance": tolerance,
        })
    };
    map.insert("target_error".to_owned(), json!(target));
    map.insert("solve".to_owned(), json!(unknown.name()));
    map.insert("needs".to_owned(), sorted(needs).iter().map(entry).collect());
    map.insert("unpredicted".to_owned(), unpredicted_json(needs.iter().filter_map(|need| need.as_ref().err())));
    Ok(serde_json::to_string_pretty(&map).map_err(Failure::run)? + "\n")
}

fn needs_text(about: &About<'_>, target: f64, unknown: Unknown, needs: &[Result<Need, Unpredicted>]) -> String {
    let name = unknown.name();
    let mut rows = vec![["mechanism", name, "error there", "by"].map(str::to_owned).to_vec()];
    let figure = |amount: f64| match unknown {
        Unknown::Epsilon => short(amount),
        Unknown::Population => format!("{amount:.0}"),
    };
    for need in sorted(needs) {
        let (amount, error) = match need.answer {
            Answer::Enough { amount, error, .. } => (figure(amount), error),
            Answer::Already { amount, error } => (format!("{} or less", figure(amount)), error),
            Answer::Never { amount, error } => (format!("not even {}", figure(amount)), error),
        };
        rows.push(vec![need.mechanism.to_owned(), amount, short(error), need.method.name().to_owned()]);
    }
    let tolerances = format!(
        "The least {name} that is enough, found to {} % by formula and to {} % by simulation.\n",
        100.0 * tidegate_lab::advise::solve::TOLERANCE,
        100.0 * tidegate_lab::advise::solve::SIMULATION_TOLERANCE
    );
    let movement = about.movement().map(|movement| format!("{movement}\n")).unwrap_or_default();
    let unpredicted = unpredicted_text(needs.iter().filter_map(|need| need.as_ref().err()));
    let metric = about.request.metric;
    let (table, heading) = (layout(&rows), about.heading(Some(unknown)));
    format!(
        "Which {name} an error ({metric}) of {} needs\n{heading}{movement}\n{table}\n{tolerances}{unpredicted}",
        short(target)
    )
}
