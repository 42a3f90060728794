//! The inverse: which epsilon, or how many users, an error needs.
//!
//! More of either never makes the error of a mechanism larger, but for chance. So the least that is enough is found by
//! doubling and halving, and then by dividing the interval, on a logarithmic scale, until its ends are as near as the
//! tolerance says. All probes draw the same random numbers.

use std::num::NonZeroU64;

use tidegate_kernel::Epsilon;

use super::predict::{cells, predict};
use super::{AdviseError, Data, Method, Request, Simulation, Unpredicted, formula};
use crate::experiment::Subject;
use crate::stream::{DataStream, as_float};

/// What is solved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// The budget; the population stays.
    Epsilon,
    /// The number of users; the budget stays.
    Population,
}

impl Unknown {
    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epsilon => "epsilon",
            Self::Population => "population",
        }
    }

    /// Between which it is looked for. Simulated users in larger numbers would take too long.
    const fn limits(self, method: Method) -> (f64, f64) {
        match (self, method) {
            (Self::Epsilon, _) => (1e-4, 100.0),
            (Self::Population, Method::Formula) => (2.0, 1e12),
            (Self::Population, Method::Simulation) => (2.0, 1e9),
        }
    }
}

/// By how much of itself the answer may be too large, where the error is a formula.
pub const TOLERANCE: f64 = 0.001;
/// The same where it is simulated: the error itself is not known better.
pub const SIMULATION_TOLERANCE: f64 = 0.05;

/// What a mechanism needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The mechanism.
    pub mechanism: &'static str,
    /// How its error is predicted.
    pub method: Method,
    /// The answer.
    pub answer: Answer,
}

/// How much is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// This much, and no less but for the tolerance.
    Enough {
        /// The epsilon or the number of users.
        amount: f64,
        /// The error that is predicted for it.
        error: f64,
        /// By how much of itself the amount may be too large.
        tolerance: f64,
    },
    /// Even this little, the least that was tried, is enough.
    Already {
        /// The epsilon or the number of users.
        amount: f64,
        /// The error that is predicted for it.
        error: f64,
    },
    /// Not even this much, the most that was tried.
    Never {
        /// The epsilon or the number of users.
        amount: f64,
        /// The error that is predicted for it.
        error: f64,
    },
}

/// About so many errors are predicted until an answer is found.
const PROBES: u64 = 12;

/// Solves for what each of some mechanisms needs to come down to an error: its answer, or why there is none.
///
/// # Errors
/// A target that is no positive number; a population of streams that have none; what [`predict`] fails on.
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
    subjects: &[&'static dyn Subject],
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
            let settings = request.settings();
            formula::error(subject.name(), &streams[0], &settings, request.metric).is_none()
        })
        .count();
    let simulation = Simulation { repeats: simulation.repeats(probes, simulated), ..*simulation };
    subjects.iter().map(|subject| solve_one(request, *subject, streams, &simulation, target, unknown)).collect()
}

fn solve_one(
    request: &Request,
    subject: &'static dyn Subject,
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
    // Where the mechanism refuses, no more (or no less) can be had than before.
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

/// The same request and streams with another population.
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
