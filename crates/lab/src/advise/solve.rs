//! Solves for the epsilon or the number of users that an error needs.
//!
//! Up to chance, more of either never increases the error. The solver doubles or halves to bracket the answer, and then
//! bisects on a logarithmic scale. All probes use the same random numbers.

use std::num::NonZeroU64;

use serde::Deserialize;
use tidegate_kernel::Epsilon;

use super::predict::{cells, predict};
use super::{AdviseError, Data, Method, Request, Simulation, Unpredicted, formula};
use crate::experiment::Subject;
use crate::stream::{DataStream, as_float};

/// The quantity to solve for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// The budget, at the given population.
    Epsilon,
    /// The number of users, at the given budget.
    Population,
}

impl Unknown {
    /// Returns the name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epsilon => "epsilon",
            Self::Population => "population",
        }
    }

    /// Returns the search interval. It is shorter for simulations, whose cost grows with the users.
    const fn limits(self, method: Method) -> (f64, f64) {
        match (self, method) {
            (Self::Epsilon, _) => (1e-4, 100.0),
            (Self::Population, Method::Formula) => (2.0, 1e12),
            (Self::Population, Method::Simulation) => (2.0, 1e9),
        }
    }
}

/// Relative tolerance for errors by formula.
pub const TOLERANCE: f64 = 0.001;
/// Relative tolerance for simulated errors.
pub const SIMULATION_TOLERANCE: f64 = 0.05;

/// The need of a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The mechanism.
    pub mechanism: &'static str,
    /// How its error is predicted.
    pub method: Method,
    /// The answer.
    pub answer: Answer,
}

/// The result of solving.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// The smallest sufficient amount, up to the tolerance.
    Enough {
        /// The epsilon or the number of users.
        amount: f64,
        /// Predicted error.
        error: f64,
        /// Relative tolerance of the amount.
        tolerance: f64,
    },
    /// The smallest amount tried is sufficient.
    Already {
        /// The epsilon or the number of users.
        amount: f64,
        /// Predicted error.
        error: f64,
    },
    /// The largest amount tried is not sufficient.
    Never {
        /// The epsilon or the number of users.
        amount: f64,
        /// Predicted error.
        error: f64,
    },
}

/// Approximate number of predictions per answer.
const PROBES: u64 = 12;

/// Solves for the need of each mechanism.
///
/// # Errors
/// A target that is not positive, a population of streams without users, or a failure of [`predict`].
///
/// ```
/// use std::num::{NonZeroU64, NonZeroUsize};
/// use tidegate_lab::advise::solve::{Answer, Unknown, solve};
/// use tidegate_lab::advise::{Data, Request, Simulation, Trust, streams};
/// use tidegate_lab::metrics::Metric;
///
/// let users = NonZeroU64::MIN.saturating_add(999);
/// let request = Request {
///     data: Data::Counts { domain: 2, population: users },
///     trust: Trust::Curator,
///     epsilon: "1".parse()?,
///     window: NonZeroU64::MIN,
///     delay: 0,
///     metric: Metric::Mse,
/// };
/// let simulation = Simulation::new(1, NonZeroUsize::MIN);
/// let streams = streams(&request, None, &simulation)?;
/// let uniform = request.chosen(&["uniform".into()])?;
/// // Noise of variance 1.84 on a count: a mean squared error of 1e-8 needs the root of 1.84e8 users.
/// let needs = solve(&request, &uniform, &streams, &simulation, 1e-8, Unknown::Population)?;
/// let Ok(need) = &needs[0] else { panic!("it has a formula") };
/// assert!(matches!(need.answer, Answer::Enough { amount, .. } if (13_550.0..13_600.0).contains(&amount)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(
    request: &Request,
    subjects: &[&dyn Subject],
    streams: &[DataStream],
    simulation: &Simulation,
    target: f64,
    unknown: Unknown,
) -> Result<Vec<Result<Need, Unpredicted>>, AdviseError> {
    request.check()?;
    if !target.is_finite() || target <= 0.0 {
        return Err(AdviseError::Target { given: target });
    }
    if unknown == Unknown::Population && !matches!(request.data, Data::Counts { .. }) {
        return Err(AdviseError::NoPopulation { kind: request.data.kind() });
    }
    let probes = cells(request, streams).saturating_mul(PROBES);
    let simulated = subjects
        .iter()
        .filter(|subject| {
            let settings = subject.in_formulas(&request.settings());
            settings
                .and_then(|settings| formula::error(subject.name(), &streams[0], &settings, request.metric))
                .is_none()
        })
        .count();
    let simulation = Simulation { repeats: simulation.repeats(probes, simulated), ..*simulation };
    subjects.iter().map(|subject| solve_one(request, *subject, streams, &simulation, target, unknown)).collect()
}

fn solve_one(
    request: &Request,
    subject: &dyn Subject,
    streams: &[DataStream],
    simulation: &Simulation,
    target: f64,
    unknown: Unknown,
) -> Result<Result<Need, Unpredicted>, AdviseError> {
    let probe = |amount: f64| -> Result<Result<(f64, Method), Unpredicted>, AdviseError> {
        let found = match unknown {
            Unknown::Epsilon => {
                let Ok(epsilon) = Epsilon::budget(amount) else {
                    return Ok(Err(Unpredicted { mechanism: subject.name(), why: format!("epsilon {amount}") }));
                };
                predict(&Request { epsilon, ..*request }, &[subject], streams, simulation)?
            }
            Unknown::Population => {
                let (request, streams) = with_population(request, streams, amount)?;
                predict(&request, &[subject], &streams, simulation)?
            }
        };
        let unknown = || Unpredicted { mechanism: subject.name(), why: "nothing was predicted".to_owned() };
        let found = found.into_iter().next().unwrap_or_else(|| Err(unknown()));
        Ok(found.map(|prediction| (prediction.error, prediction.method)))
    };
    let start = match (unknown, request.data) {
        (Unknown::Population, Data::Counts { population, .. }) => as_float(population.get()),
        _ => 1.0,
    };
    let (error, method) = match probe(start)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let need = |answer| Ok(Ok(Need { mechanism: subject.name(), method, answer }));
    let limits = unknown.limits(method);
    // If the mechanism rejects an amount, the search ends there.
    let (mut least, mut enough) = if error <= target { (None, Some((start, error))) } else { (Some(start), None) };
    let (mut amount, mut latest) = (start, error);
    while least.is_none() || enough.is_none() {
        let next = if enough.is_some() { (amount / 2.0).max(limits.0) } else { (amount * 2.0).min(limits.1) };
        let found = if (next / amount - 1.0).abs() < 1e-9 { None } else { probe(next)?.ok() };
        let Some((error, _)) = found else {
            return need(if enough.is_some() {
                Answer::Already { amount, error: latest }
            } else {
                Answer::Never { amount, error: latest }
            });
        };
        (amount, latest) = (next, error);
        if error <= target {
            enough = Some((next, error));
        } else {
            least = Some(next);
        }
    }
    let tolerance = if method == Method::Formula { TOLERANCE } else { SIMULATION_TOLERANCE };
    let (Some(mut low), Some((mut high, mut error))) = (least, enough) else {
        return need(Answer::Never { amount, error: latest });
    };
    while high / low > 1.0 + tolerance {
        let middle = (low * high).sqrt();
        match probe(middle)? {
            Ok((found, _)) if found <= target => (high, error) = (middle, found),
            _ => low = middle,
        }
    }
    let amount = if unknown == Unknown::Population { high.ceil() } else { high };
    need(Answer::Enough { amount, error, tolerance })
}

/// Returns the request and the streams with another population.
fn with_population(
    request: &Request,
    streams: &[DataStream],
    amount: f64,
) -> Result<(Request, Vec<DataStream>), AdviseError> {
    let Data::Counts { domain, .. } = request.data else {
        return Err(AdviseError::NoPopulation { kind: request.data.kind() });
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between the limits
    let users = amount.round() as u64;
    let population = NonZeroU64::new(users).unwrap_or(NonZeroU64::MIN);
    let scale = |stream: &DataStream| match stream {
        DataStream::Counts(stream) => Ok(stream.clone().with_population(population.get())?.into()),
        other => Ok(other.clone()),
    };
    let streams: Result<Vec<DataStream>, AdviseError> = streams.iter().map(scale).collect();
    Ok((Request { data: Data::Counts { domain, population }, ..*request }, streams?))
}
