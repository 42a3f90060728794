//! [`Options`]: a question and how it is answered, as `tidegate advise` and the Python package ask it.

use std::num::{NonZeroU64, NonZeroUsize};
use std::thread;

use serde::Deserialize;
use tidegate::names::UnknownName;
use tidegate::spec::{ClassSpec, StreamSpec};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid};
use tidegate_release::Error;

use super::render::{About, advice_json, advice_text, needs_json, needs_text};
use super::solve::{Unknown, solve};
use super::{
    AdviseError, ClassShare, Data, Question, Request, Sample, Simulation, Trust, metrics_of, recommend_among,
    streams_of,
};
use crate::experiment::Subject;
use crate::metrics::Metric;
use crate::stop::Stop;
use crate::stream::StreamKind;

const DEFAULT_WINDOW: NonZeroU64 = NonZeroU64::MIN.saturating_add(19);

/// A question and how it is answered, with the names of the command's options. What is not there stands for the
/// defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What is released.
    pub kind: Option<StreamKind>,
    /// Who sees raw values.
    pub trust: Option<Trust>,
    /// The number of users.
    pub population: Option<NonZeroU64>,
    /// The number of values or symbols; for numbers their domain, `LO..HI`.
    pub domain: Option<String>,
    /// The distance of two numbers that are told apart.
    pub resolution: Option<f64>,
    /// Protects one contributor to a number, who can change it by so many steps.
    pub contribution: Option<NonZeroU64>,
    /// The budget.
    pub epsilon: Option<Epsilon>,
    /// The window; 20 by default.
    pub window: Option<NonZeroU64>,
    /// How many timestamps a release may be held back.
    pub delay: Option<u64>,
    /// Classes of users, as `NAME:EPSILON:WINDOW` or `NAME:EPSILON:WINDOW:SIZE`.
    pub classes: Vec<ClassShare>,
    /// Relative sizes of the classes of a spec.
    pub class_sizes: Vec<NonZeroU64>,
    /// Whether to judge by the error of ranges.
    pub ranges: bool,
    /// The most bytes that a user sends in a timestamp.
    pub most_bytes: Option<f64>,
    /// The error that is to be small.
    pub metric: Option<MetricName>,
    /// Mechanisms that are compared; all if there are none.
    pub mechanism: Vec<String>,
    /// The error to solve for.
    pub target_error: Option<f64>,
    /// What to solve for.
    pub solve: Option<Unknown>,
    /// How often to simulate.
    pub repeats: Option<NonZeroU64>,
    /// The length of typical streams.
    pub length: Option<NonZeroUsize>,
    /// The seed; 1 by default.
    pub seed: Option<u64>,
    /// The number of threads; all cores by default.
    pub threads: Option<NonZeroUsize>,
}

/// An error that advice can make small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct MetricName(pub Metric);

impl std::str::FromStr for MetricName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let kinds = StreamKind::ALL.into_iter();
        let mut all: Vec<Metric> = kinds.flat_map(|kind| metrics_of(kind).iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let found = all.iter().copied().find(|metric| metric.name() == name).map(Self);
        found.ok_or_else(|| UnknownName::new("error", name, all.iter().map(|metric| metric.name())))
    }
}

impl TryFrom<String> for MetricName {
    type Error = UnknownName;

    fn try_from(name: String) -> Result<Self, UnknownName> {
        name.parse()
    }
}

/// Advice, in all its forms.
#[derive(Clone, Debug)]
pub struct Answer {
    /// As `--json` prints it.
    pub json: String,
    /// As plain text.
    pub text: String,
    /// The name of the recommended mechanism and its spec in TOML, with comments. `None` if there is none, or if a
    /// target was solved for.
    pub spec: Option<(&'static str, String)>,
}

impl Options {
    /// Asks about a stream that these options describe.
    ///
    /// # Errors
    /// [`Error::Spec`].
    pub fn question(&self) -> Result<Question, Error> {
        self.judged(self.of_options()?)
    }

    /// Asks about the stream of a spec. A population replaces the spec's, and is needed where the spec has none.
    ///
    /// # Errors
    /// [`AdviseError::Spec`] for what is wrong with the spec.
    pub fn question_of(&self, spec: &StreamSpec) -> Result<Question, AdviseError> {
        // Of several series, each has its share of epsilon.
        let of_one = match spec.input().split()? {
            Some(series) => spec.of_one_series(series.most)?,
            None => spec.clone(),
        };
        let question = Question::of_spec(&of_one, self.population)?;
        let classes = question.classes();
        if !self.class_sizes.is_empty() && self.class_sizes.len() != classes {
            return Err(AdviseError::ClassSizes { given: self.class_sizes.len(), classes });
        }
        self.judged(question.with_shares(self.class_sizes.clone()))
            .map_err(|error| AdviseError::Options(Box::new(error)))
    }

    /// Sets by which error mechanisms are judged, and what users may send.
    fn judged(&self, question: Question) -> Result<Question, Error> {
        let metric = self.metric.map_or(question.request().metric, |MetricName(metric)| metric);
        let question = question.with_metric(if self.ranges { of_ranges(metric)? } else { metric });
        let question = match self.most_bytes {
            Some(bytes) if bytes > 0.0 => question.with_most_bytes(bytes),
            Some(_) => return Err(refused("--most-bytes must be above 0")),
            None => question,
        };
        question.request().check()?;
        Ok(question)
    }

    fn of_options(&self) -> Result<Question, Error> {
        let text = self.domain.as_deref().unwrap_or_default();
        let values = || -> Result<u32, Error> {
            let number: Option<u32> = text.parse().ok();
            number.ok_or_else(|| refused(format!("--domain is the number of values, at least 2; {text:?} was given")))
        };
        let only_for = |given: bool, option: &str, kind: &str| match given {
            true => Err(refused(format!("{option} is for {kind} only"))),
            false => Ok(()),
        };
        let (data, usual) = match self.kind {
            Some(StreamKind::Numbers) => {
                let ends = text.split_once("..");
                let ends = ends.and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
                let (low, high) = ends.ok_or_else(|| refused("--domain: expected two numbers: LO..HI"))?;
                let grid = Grid::new(low, high, self.resolution.unwrap_or(1.0)).map_err(refused)?;
                let protects = self.contribution.map_or(Protects::Reading, Protects::Contribution);
                (Data::Numbers { grid, protects }, Some(Trust::Curator))
            }
            kind => {
                only_for(self.resolution.is_some(), "--resolution", "numbers")?;
                only_for(self.contribution.is_some(), "--contribution", "numbers")?;
                if kind == Some(StreamKind::Symbols) {
                    (Data::Symbols { domain: values()? }, Some(Trust::Local))
                } else {
                    let population = self.population;
                    // Where it is solved for, any will do to begin with.
                    let solved = self.solve == Some(Unknown::Population);
                    let population = population.or_else(|| if solved { NonZeroU64::new(10_000) } else { None });
                    let missing = || refused("--population is needed for counts: the number of users");
                    (Data::Counts { domain: values()?, population: population.ok_or_else(missing)? }, None)
                }
            }
        };
        if !matches!(data, Data::Counts { .. }) {
            if self.population.is_some() {
                return Err(AdviseError::NoUsers { kind: data.kind() }.into());
            }
            only_for(!self.classes.is_empty(), "--classes", "counts")?;
            only_for(self.most_bytes.is_some(), "--most-bytes", "counts")?;
        }
        let missing = || refused("--trust is needed for counts: local, or curator");
        let question = Question::new(Request {
            data,
            trust: self.trust.or(usual).ok_or_else(missing)?,
            epsilon: self.budget()?,
            window: self.window.unwrap_or(DEFAULT_WINDOW),
            delay: self.delay.unwrap_or_default(),
            metric: metrics_of(data.kind())[0],
        });
        if self.classes.is_empty() {
            return Ok(question);
        }
        Ok(question.with_classes(self.classes.clone()))
    }

    fn budget(&self) -> Result<Epsilon, Error> {
        match self.epsilon.or_else(|| self.classes.iter().map(|class| class.class.epsilon).min()) {
            Some(epsilon) => Ok(epsilon),
            None if self.solve == Some(Unknown::Epsilon) => Epsilon::budget(1.0).map_err(Error::run),
            None => Err(refused("--epsilon is needed: the privacy budget")),
        }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// [`Error::Spec`] for a question that makes no sense; [`Error::Run`] for a mechanism that fails, and soon after
    /// `stop` is set.
    pub fn answer(&self, question: &Question, sample: Option<&Sample>, stop: &Stop) -> Result<Answer, Error> {
        let threads = self.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let simulation = Simulation::new(self.seed.unwrap_or(1), threads);
        let simulation = Simulation { repeats: self.repeats, length: self.length, stop, ..simulation };
        let (target, unknown) = match (self.target_error, self.solve) {
            (Some(target), Some(unknown)) => (target, unknown),
            (None, None) => {
                let found = recommend_among(question, &self.mechanism, sample, &simulation)?;
                let about = About { question, streams: &found.streams, sample };
                let (json, text) = (advice_json(&about, &found)?, advice_text(&about, &found));
                let spec = found.chosen.map(|chosen| (chosen.mechanism.name(), chosen.text));
                return Ok(Answer { json, text, spec });
            }
            _ => return Err(refused("--target-error and --solve need each other")),
        };
        let streams = streams_of(question, sample, &simulation)?;
        let (candidates, _) = question.candidates_named(&self.mechanism)?;
        let subjects: Vec<&dyn Subject> = candidates.iter().map(|candidate| candidate as &dyn Subject).collect();
        let needs = solve(question.request(), &subjects, &streams, &simulation, target, unknown)?;
        let about = About { question, streams: &streams, sample };
        let json = needs_json(&about, target, unknown, &needs)?;
        Ok(Answer { json, text: needs_text(&about, target, unknown, &needs), spec: None })
    }
}

/// The same error, of ranges of values.
fn of_ranges(metric: Metric) -> Result<Metric, Error> {
    match metric {
        Metric::Mse | Metric::RangeMse => Ok(Metric::RangeMse),
        Metric::Mae | Metric::RangeMae => Ok(Metric::RangeMae),
        Metric::Mre | Metric::RangeMre => Ok(Metric::RangeMre),
        other => Err(refused(format!("--ranges is for counts, by mse, mae or mre; not for {other}"))),
    }
}

fn refused(problem: impl std::fmt::Display) -> Error {
    Error::Spec(problem.to_string())
}

/// A class: NAME:EPSILON:WINDOW, and its size relative to the others, 1 unless given.
impl std::str::FromStr for ClassShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("expected NAME:EPSILON:WINDOW or NAME:EPSILON:WINDOW:SIZE, like careful:0.2:40; not {text}");
        let parts: Vec<&str> = text.split(':').collect();
        let (name, epsilon, window, size) = match parts[..] {
            [name, epsilon, window] => (name, epsilon, window, "1"),
            [name, epsilon, window, size] => (name, epsilon, window, size),
            _ => return Err(expected()),
        };
        if name.is_empty() {
            return Err(expected());
        }
        Ok(Self {
            class: ClassSpec {
                name: name.to_owned(),
                epsilon: epsilon.parse().map_err(|_| expected())?,
                window: window.parse().map_err(|_| expected())?,
            },
            share: size.parse().map_err(|_| expected())?,
        })
    }
}

impl TryFrom<String> for ClassShare {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
