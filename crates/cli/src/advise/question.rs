//! The stream that advice is about, from the options or from a spec.

use std::num::NonZeroU64;

use tidegate::spec::ClassSpec;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid};
use tidegate_lab::advise::{AdviseError, ClassShare, Data, Question, Request, Trust, metrics_of};
use tidegate_lab::metrics::Metric;

use super::{Advise, KindName, TrustName, UnknownQuantity, refused};
use crate::arguments::domain;
use crate::failure::Failure;
use crate::input::Input;

const DEFAULT_WINDOW: NonZeroU64 = NonZeroU64::MIN.saturating_add(19);

impl Advise {
    /// Returns the question of the options, or of the spec.
    pub(super) fn question(&self) -> Result<Question, Failure> {
        let question = match &self.spec {
            Some(spec) => self.of_spec(spec)?,
            None => self.of_options()?,
        };
        let metric = self.metric.unwrap_or(question.request().metric);
        let question = question.with_metric(if self.ranges { of_ranges(metric)? } else { metric });
        let question = match self.most_bytes {
            Some(bytes) if bytes > 0.0 => question.with_most_bytes(bytes),
            Some(_) => return Err(Failure::input("--most-bytes must be above 0")),
            None => question,
        };
        question.request().check().map_err(refused)?;
        Ok(question)
    }

    /// The question of a spec. --population replaces the spec's, and is needed where the spec has none.
    fn of_spec(&self, name: &str) -> Result<Question, Failure> {
        let spec = Input::spec(name)?;
        // Of several series, each has its share of epsilon.
        let of_one = match spec.stream.input().split() {
            Ok(Some(series)) => spec.stream.of_one_series(series.most),
            Ok(None) => Ok(spec.stream.clone()),
            Err(error) => Err(error),
        };
        let of_one = of_one.map_err(|error| spec.refused(&error))?;
        let question = Question::of_spec(&of_one, self.population).map_err(|error| match error {
            AdviseError::Spec(error) => spec.refused(&error).into(),
            other => refused(other),
        })?;
        let classes = question.classes();
        if !self.class_sizes.is_empty() && self.class_sizes.len() != classes {
            let given = self.class_sizes.len();
            return Err(Failure::input(format_args!(
                "--class-sizes has {given} sizes, but the spec {classes} classes"
            )));
        }
        Ok(question.with_shares(self.class_sizes.clone()))
    }

    fn of_options(&self) -> Result<Question, Failure> {
        let text = self.domain.as_deref().unwrap_or_default();
        let values = || -> Result<u32, Failure> {
            let number: Option<u32> = text.parse().ok();
            number.ok_or_else(|| {
                Failure::input(format_args!("--domain is the number of values, at least 2; {text:?} was given"))
            })
        };
        let only_for = |given: bool, option: &str, kind: &str| match given {
            true => Err(Failure::input(format_args!("{option} is for {kind} only"))),
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
                only_for(self.resolution.is_some(), "--resolution", "numbers")?;
                only_for(self.contribution.is_some(), "--contribution", "numbers")?;
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
        if !matches!(data, Data::Counts { .. }) {
            if self.population.is_some() {
                return Err(refused(AdviseError::NoUsers { kind: data.kind() }));
            }
            only_for(!self.classes.is_empty(), "--classes", "counts")?;
            only_for(self.most_bytes.is_some(), "--most-bytes", "counts")?;
        }
        let given = self.trust.map(|trust| match trust {
            TrustName::Local => Trust::Local,
            TrustName::Curator => Trust::Curator,
        });
        let missing = || Failure::input("--trust is needed for counts: local, or curator");
        let question = Question::new(Request {
            data,
            trust: given.or(usual).ok_or_else(missing)?,
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

    fn budget(&self) -> Result<Epsilon, Failure> {
        let solved = matches!(self.solve, Some(UnknownQuantity::Epsilon));
        match self.epsilon.or_else(|| self.classes.iter().map(|class| class.class.epsilon).min()) {
            Some(epsilon) => Ok(epsilon),
            None if solved => Epsilon::budget(1.0).map_err(Failure::run),
            None => Err(Failure::input("--epsilon is needed: the privacy budget")),
        }
    }
}

/// The same error, of ranges of values.
fn of_ranges(metric: Metric) -> Result<Metric, Failure> {
    match metric {
        Metric::Mse | Metric::RangeMse => Ok(Metric::RangeMse),
        Metric::Mae | Metric::RangeMae => Ok(Metric::RangeMae),
        Metric::Mre | Metric::RangeMre => Ok(Metric::RangeMre),
        other => Err(Failure::input(format_args!("--ranges is for counts, by mse, mae or mre; not for {other}"))),
    }
}

/// Reads a class: NAME:EPSILON:WINDOW, and its size relative to the others, 1 unless given.
pub(super) fn class(text: &str) -> Result<ClassShare, String> {
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
    Ok(ClassShare {
        class: ClassSpec {
            name: name.to_owned(),
            epsilon: epsilon.parse().map_err(|_| expected())?,
            window: window.parse().map_err(|_| expected())?,
        },
        share: size.parse().map_err(|_| expected())?,
    })
}
