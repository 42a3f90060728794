//! Statistical signs that devices do not follow their oracle: data poisoning.

use serde::{Deserialize, Serialize};
use tidegate::kernel::oracle::Estimate;

/// An implausible property of a question's counts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Suspicion {
    /// A frequency estimate below 0 or above 1, by more than chance explains. `cell` is a value or a range of values.
    Frequency {
        cell: usize,
        estimate: f64,
        /// Distance from the nearest possible frequency, in standard deviations.
        deviations: f64,
    },
    /// Far more reports than devices.
    Crowd { reports: u64, expected: f64 },
}

/// Kind of a [`Suspicion`], as releases name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SuspicionKind {
    Frequency,
    Crowd,
    /// Some acknowledged reports are not counted. It is not the devices' doing, but the release is not what it seems.
    Incomplete,
}

impl SuspicionKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Frequency, Self::Crowd, Self::Incomplete];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frequency => "frequency",
            Self::Crowd => "crowd",
            Self::Incomplete => "incomplete",
        }
    }
}

impl Suspicion {
    /// Returns its kind.
    pub const fn kind(&self) -> SuspicionKind {
        match self {
            Self::Frequency { .. } => SuspicionKind::Frequency,
            Self::Crowd { .. } => SuspicionKind::Crowd,
        }
    }
}

/// Threshold in standard deviations, with a union bound over the cells: a false alarm has probability 10^-6.
fn tolerance(cells: usize) -> f64 {
    // The tail of a normal distribution beyond z is below exp(-z^2/2).
    #[allow(clippy::cast_precision_loss)]
    let cells = cells.max(1) as f64;
    (2.0 * (2.0 * cells * 1e6).ln()).sqrt()
}

/// Finds the most extreme frequency outside of 0 to 1, and a surplus of reports.
///
/// Honest devices cause a false alarm with probability 10^-6 at most, under the normal approximation. Fewer than 30
/// reports are never suspicious.
pub(super) fn suspicions(estimate: &Estimate, expected: f64) -> Vec<Suspicion> {
    let (reports, variance) = (estimate.reports(), estimate.variance());
    if reports < 30 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let outside = |(cell, frequency): (usize, &f64)| {
        let (excess, edge) = if *frequency < 0.0 { (-frequency, 0.0) } else { (frequency - 1.0, 1.0) };
        let deviations = excess / variance.at(edge).max(f64::MIN_POSITIVE).sqrt();
        (cell, *frequency, deviations)
    };
    let extreme = estimate.frequencies().iter().enumerate().map(outside).max_by(|one, other| one.2.total_cmp(&other.2));
    if let Some((cell, frequency, deviations)) = extreme
        && deviations > tolerance(estimate.frequencies().len())
    {
        found.push(Suspicion::Frequency { cell, estimate: frequency, deviations });
    }
    found.extend(crowd(reports, expected));
    found
}

/// Finds a surplus of reports.
pub(super) fn crowd(reports: u64, expected: f64) -> Option<Suspicion> {
    #[allow(clippy::cast_precision_loss)]
    let surplus = reports as f64 > 1.5 * expected + 100.0;
    surplus.then_some(Suspicion::Crowd { reports, expected })
}
