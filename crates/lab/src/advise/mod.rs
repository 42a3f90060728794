//! Ranks mechanisms by their expected error: by [formula] where one exists, and else by simulation.
//!
//! Errors are predicted on streams drawn from a [`Sample`] of past releases, or on [typical] streams. A prediction is
//! the mean over the streams. Its range extends from the lowest to the highest, plus two standard errors on either side
//! if simulated. Results depend on the arguments alone, including the seed.
//!
//! Advice from releases is post-processing and costs no privacy. Advice from raw data is not private.

mod candidate;
pub mod check;
mod error;
mod explain;
pub mod formula;
mod options;
mod predict;
mod question;
mod recommend;
mod render;
mod request;
pub mod sample;
pub mod solve;
mod spec_text;
pub mod typical;

use std::num::NonZeroU64;

use tidegate_kernel::Epsilon;
use tidegate_kernel::oracle::{Oracle, OracleKind};

use crate::experiment::Subject;
use crate::stream::DataStream;
use crate::subjects::Constant;

pub use candidate::SpecSubject;
pub use error::AdviseError;
pub use options::{Answer, MetricName, Options};
pub use predict::{Method, Prediction, Simulation, Unpredicted, predict, streams};
pub use question::{ClassShare, Question};
pub use recommend::{Chosen, Recommendation, recommend, recommend_among, streams_of};
pub use request::{Data, Request, Trust, metrics_of};
pub use sample::Sample;

/// A frequency oracle, with the variance and the length of its reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OracleAdvice {
    /// The oracle.
    pub kind: OracleKind,
    /// The variance of a frequency, averaged over the values, from a single report.
    pub variance: f64,
    /// The length of a report in bytes.
    pub bytes: usize,
}

/// Returns the frequency oracles for a domain and the epsilon of one report, by ascending variance.
///
/// [`OracleKind::best`] takes the shortest report among those within one per cent of the lowest variance.
pub fn oracles(domain: u32, epsilon: Epsilon) -> Vec<OracleAdvice> {
    let advice = |kind: OracleKind| {
        let bytes = Oracle::new(kind, domain, epsilon).ok()?.report_length();
        let variance = kind.variance(domain, epsilon, 1).at(1.0 / f64::from(domain));
        Some(OracleAdvice { kind, variance, bytes })
    };
    let mut all: Vec<_> = OracleKind::ALL.into_iter().filter_map(advice).collect();
    all.sort_by(|a, b| a.variance.total_cmp(&b.variance));
    all
}

/// A ranking of mechanisms, with its explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Mechanisms and the constant baseline, by ascending error.
    pub ranking: Vec<Prediction>,
    /// Mechanisms without a prediction.
    pub unpredicted: Vec<Unpredicted>,
    /// Why the first mechanism wins.
    pub why: String,
    /// What another mechanism would need to win.
    pub otherwise: String,
    /// The epsilon of one report of the best local mechanism, and the oracles for it.
    pub oracles: Option<(Epsilon, Vec<OracleAdvice>)>,
}

/// Ranks mechanisms by their expected error on [streams].
///
/// ```
/// use std::num::{NonZeroU64, NonZeroUsize};
/// use tidegate_lab::advise::{Data, Request, Simulation, Trust, advise, streams};
/// use tidegate_lab::metrics::Metric;
///
/// let one = NonZeroU64::MIN;
/// let request = Request {
///     data: Data::Counts { domain: 2, population: one.saturating_add(199_999) },
///     trust: Trust::Local,
///     epsilon: "1".parse()?,
///     window: one.saturating_add(19),
///     delay: 0,
///     metric: Metric::Mse,
/// };
/// let simulation = Simulation { repeats: Some(one), ..Simulation::new(1, NonZeroUsize::MIN) };
/// let streams = streams(&request, None, &simulation)?;
/// let advice = advise(&request, &request.chosen(&["lbu".into(), "lpu".into()])?, &streams, &simulation)?;
/// let order: Vec<_> = advice.ranking.iter().map(|prediction| prediction.mechanism).collect();
/// assert_eq!(order, ["lpu", "lbu", "constant"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn advise(
    request: &Request,
    subjects: &[&dyn Subject],
    streams: &[DataStream],
    simulation: &Simulation,
) -> Result<Advice, AdviseError> {
    request.check()?;
    let (mut ranking, mut unpredicted) = (Vec::new(), Vec::new());
    for prediction in predict(request, subjects, streams, simulation)? {
        match prediction {
            Ok(prediction) => ranking.push(prediction),
            Err(why) => unpredicted.push(why),
        }
    }
    // The constant is deterministic.
    let once = Simulation { repeats: Some(NonZeroU64::MIN), ..*simulation };
    let constant = predict(request, &[&Constant], streams, &once)?.into_iter().flatten();
    ranking.extend(constant.map(|prediction| Prediction { method: Method::Formula, place: None, ..prediction }));
    ranking.sort_by(|a, b| a.error.total_cmp(&b.error));
    let (why, otherwise) = explain::explain(request, subjects, &ranking, streams)?;
    let report = best_report(request, &ranking);
    let oracles = report.zip(request.data.domain()).map(|(epsilon, domain)| (epsilon, oracles(domain, epsilon)));
    Ok(Advice { ranking, unpredicted, why, otherwise, oracles })
}

/// Returns the epsilon of one report of the best local mechanism.
fn best_report(request: &Request, ranking: &[Prediction]) -> Option<Epsilon> {
    if !matches!((request.data, request.trust), (Data::Counts { .. }, Trust::Local)) {
        return None;
    }
    let best = ranking.iter().find(|prediction| prediction.mechanism != "constant")?;
    let parts = match best.mechanism {
        "lbu" => request.window.get(),
        // Half of each share is for measuring; the half for publishing varies.
        "lbd" | "lba" | "mtsp" => request.window.get().saturating_mul(2),
        _ => 1,
    };
    request.epsilon.divided_by(parts)
}
