//! The stream that advice is about, from the options or from a spec.

use std::num::NonZeroU64;

use tidegate::spec::{SpecError, StreamSpec};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid};
use tidegate_lab::advise::{Data, Trust};

use super::{Advise, KindName, TrustName, UnknownQuantity};
use crate::arguments::domain;
use crate::failure::Failure;
use crate::spec::Spec;

/// The stream that advice is asked for, without the metric.
pub(super) struct Subject {
    pub(super) data: Data,
    pub(super) trust: Trust,
    pub(super) epsilon: Option<Epsilon>,
    pub(super) window: NonZeroU64,
    pub(super) delay: u64,
    /// The mechanism that a spec names.
    pub(super) mechanism: Option<&'static str>,
}

impl Advise {
    pub(super) fn subject_of_options(&self) -> Result<Subject, Failure> {
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

/// Reads the stream from a spec. `population` replaces the spec's, and is needed where the spec has none.
pub(super) fn from_spec(name: &str, population: Option<NonZeroU64>) -> Result<Subject, Failure> {
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
