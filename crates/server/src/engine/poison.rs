//! Signs that devices do not follow their oracle: poisoning.

use tidegate::kernel::oracle::{Estimate, Oracle, OracleKind};

/// What is strange about the reports of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Suspicion {
    /// A frequency is estimated below 0 or above 1 by more than chance can explain: some reports support a value more,
    /// or less, often than any honest population's would.
    Frequency {
        /// The value, or the range of values.
        cell: usize,
        /// The estimate.
        estimate: f64,
        /// How many standard deviations it is outside.
        deviations: f64,
    },
    /// More reports than devices were expected, by a half and more.
    Crowd {
        /// How many there were.
        reports: u64,
        /// How many were expected.
        expected: f64,
    },
}

/// How many standard deviations chance explains, where so many estimates are looked at: beyond it lies less than one in
/// 10^6 for all of them together.
fn tolerance(cells: usize) -> f64 {
    // The tail of a normal distribution beyond z is below exp(-z^2/2).
    #[allow(clippy::cast_precision_loss)]
    let cells = cells.max(1) as f64;
    (2.0 * (2.0 * cells * 1e6).ln()).sqrt()
}

/// What is strange about an estimate: the strangest frequency, and too many reports. With honest devices, a frequency
/// is called strange with probability 10^-6 at most, as far as the normal distribution holds (with fewer than 30
/// reports nothing is said).
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
    let strangest =
        estimate.frequencies().iter().enumerate().map(outside).max_by(|one, other| one.2.total_cmp(&other.2));
    if let Some((cell, frequency, deviations)) = strangest
        && deviations > tolerance(estimate.frequencies().len())
    {
        found.push(Suspicion::Frequency { cell, estimate: frequency, deviations });
    }
    #[allow(clippy::cast_precision_loss)]
    let surplus = reports as f64 > 1.5 * expected + 100.0;
    if surplus {
        found.push(Suspicion::Crowd { reports, expected });
    }
    found
}

/// How many ones a report may have that an honest device sends: all but one in 10^12 have. `None` where the number is
/// fixed, or means nothing.
///
/// In a unary report every bit but the device's own is one with the same probability. The bounds are Hoeffding's
/// inequality, sharpened by the variance (Bernstein's), so they hold for any domain and epsilon.
pub fn honest_ones(oracle: &Oracle) -> Option<std::ops::RangeInclusive<u32>> {
    if !matches!(oracle.kind(), OracleKind::Oue | OracleKind::Sue) {
        return None;
    }
    let (others, share) = (f64::from(oracle.domain() - 1), oracle.support_of_other());
    // Bernstein: beyond t lies at most exp(-t^2 / (2 v + 2 t / 3)) on either side; solved for t at 10^-12 / 2.
    let (variance, tail) = (others * share * (1.0 - share), (2e12_f64).ln());
    let reach = tail / 3.0 + (tail * tail / 9.0 + 2.0 * tail * variance).sqrt();
    let (least, most) = ((others * share - reach).floor().max(0.0), (others * share + reach).ceil() + 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least zero, at most the domain
    let bounds = (least as u32)..=(most.min(f64::from(oracle.domain())) as u32);
    Some(bounds)
}
