//! [`SpendPlan`]: limits the spend of a timestamp, so that later ones keep their share.

use tidegate_kernel::{Epsilon, Ledger, Window};

/// Inputs of a spending decision.
#[derive(Clone, Copy, Debug)]
pub(in crate::central) struct SpendPlan {
    /// Whether this is the first publication.
    pub(super) first: bool,
    pub(super) period: u64,
    /// Detection gets one of so many parts of the budget, if enabled.
    pub(super) detection_parts: Option<u64>,
    /// Expected alarms per timestamp.
    pub(super) alarms: f64,
    /// Budget reserved for an unexpected jump, in [eighths](RESERVE_PARTS) of a regular release.
    pub(super) reserve: u64,
    /// Mean squared jump of a count, once detected.
    pub(super) alarm: Option<f64>,
}

/// The first histogram gets one of so many parts of a window's budget.
const FIRST_PARTS: u64 = 4;

/// Histograms with a larger variance, relative to an even share of the budget, are not worth publishing.
const MAX_VARIANCE_RATIO: f64 = 16.0;

// Numbers of timestamps.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl SpendPlan {
    /// Whether a histogram of this variance is worth publishing. `even` is the variance with an even share of the
    /// budget.
    pub(in crate::central) fn is_worth(&self, variance: f64, even: f64) -> bool {
        let most = (MAX_VARIANCE_RATIO * even).max(self.alarm.unwrap_or(0.0));
        variance.is_finite() && (self.first || variance < most)
    }

    /// Returns the share for a histogram at a timestamp.
    ///
    /// The first histogram gets a large part. Every other leaves an equal share for all due histograms, distances,
    /// expected alarms and the reserve, over several horizons. An alarm gets half of the remaining budget, up to a
    /// regular share.
    pub(in crate::central) fn affordable(&self, ledger: &Ledger, timestamp: u64) -> Option<Epsilon> {
        let Window::Timestamps(window) = ledger.window() else { return None };
        let (budget, window) = (ledger.budget(), window.get());
        // Regular share of an amount over some timestamps.
        let regular = |whole: Epsilon, timestamps: u64| {
            let due = timestamps.div_ceil(self.period);
            let Some(parts) = self.detection_parts else { return whole.divided_by(due) };
            let distances =
                detection_share(budget, window, parts).and_then(|amount| amount.checked_mul(timestamps - due));
            let histograms = distances.map_or(Some(whole), |distances| whole.checked_sub(distances))?;
            let alarms = (self.alarms * timestamps as f64).round() as u64;
            let parts = due.saturating_add(alarms).saturating_mul(RESERVE_PARTS).saturating_add(self.reserve);
            histograms.portion(RESERVE_PARTS, parts)
        };
        let (part, left) = (regular(budget, window)?, ledger.remaining(timestamp)?);
        if self.first {
            return Some(budget.divided_by(FIRST_PARTS).map_or(part, |large| large.max(part)).min(left));
        }
        if self.alarm.is_some() {
            return left.divided_by(2).map(|some| some.min(part));
        }
        let mut horizons: Vec<u64> =
            periods(window).flat_map(|timestamps| [timestamps, (window - timestamps).max(1)]).collect();
        horizons.sort_unstable();
        horizons.dedup();
        // Present spends leave the window in time.
        let mut spends = ledger.spends().skip_while(|(at, _)| timestamp - at >= window).peekable();
        let (mut share, mut whole) = (part.min(left), left.units());
        for timestamps in horizons {
            while let Some((_, amount)) = spends.next_if(|(at, _)| timestamp - at + (timestamps - 1) >= window) {
                whole += amount.units();
            }
            share = share.min(regular(Epsilon::from_units(whole).ok()?, timestamps)?);
        }
        Some(share)
    }
}

/// Share of one distance.
pub(in crate::central) fn detection_share(budget: Epsilon, window: u64, parts: u64) -> Option<Epsilon> {
    budget.divided_by(parts.saturating_mul(window))
}

/// Unit of the reserve: parts of a regular release.
pub(super) const RESERVE_PARTS: u64 = 8;

/// Share of a regular histogram with detection, relative to that without.
#[allow(clippy::cast_precision_loss)] // a number of histograms
pub(super) fn regular_fraction(due: u64, alarms: f64, reserve: u64, detection_parts: u64) -> f64 {
    (1.0 - 1.0 / detection_parts as f64) * due as f64 / (due as f64 + alarms + reserve as f64 / RESERVE_PARTS as f64)
}

/// Candidate periods: the shortest for each number of publications in a window, each a fifth less than the last.
pub(super) fn periods(window: u64) -> impl Iterator<Item = u64> {
    let fewer = |publications: &u64| (*publications > 1).then(|| (*publications * 4 / 5).max(1));
    std::iter::successors(Some(window), fewer).map(move |publications| window.div_ceil(publications))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {

    use super::*;

    const WINDOW: u64 = 50;

    fn plan(period: u64, detection_parts: Option<u64>) -> SpendPlan {
        SpendPlan { first: false, period, detection_parts, alarms: 0.0, reserve: RESERVE_PARTS, alarm: None }
    }

    #[test]
    fn what_is_not_kept_back_is_shared_out() {
        let mut last = 0.0;
        for reserve in (0..=RESERVE_PARTS).rev() {
            let ((budget, mut ledger), plan) = (ledger(), SpendPlan { reserve, ..plan(10, Some(8)) });
            let later = shares(&mut ledger, budget, &plan, 0..5 * WINDOW).split_off(15);
            // Five in a window, and the reserve.
            let regular = 7.0 / 8.0 / (5.0 + reserve as f64 / RESERVE_PARTS as f64);
            assert!((regular_fraction(5, 0.0, reserve, 8) / 5.0 - regular).abs() < 1e-12);
            assert!(later.iter().all(|share| (share / regular - 1.0).abs() < 0.03), "{reserve}: {later:?}");
            assert!(regular > last);
            last = regular;
        }
    }

    fn ledger() -> (Epsilon, Ledger) {
        let budget = Epsilon::budget(1.0).unwrap();
        (budget, Ledger::new(budget, Window::of(WINDOW).unwrap()))
    }

    /// Shares of regular histograms.
    fn shares(ledger: &mut Ledger, budget: Epsilon, plan: &SpendPlan, timestamps: std::ops::Range<u64>) -> Vec<f64> {
        let share = |timestamp: u64| {
            if !timestamp.is_multiple_of(plan.period) {
                let distance = plan.detection_parts.and_then(|parts| detection_share(budget, WINDOW, parts));
                let _permit = distance.map(|distance| ledger.spend(timestamp, distance).unwrap());
                return None;
            }
            let share = plan.affordable(ledger, timestamp).unwrap();
            let _permit = ledger.spend(timestamp, share).unwrap();
            Some(share.as_f64())
        };
        timestamps.filter_map(share).collect()
    }

    #[test]
    fn what_is_left_is_shared_evenly_until_there_is_more() {
        for (period, detection_parts) in [(1, None), (5, None), (5, Some(8)), (25, Some(4))] {
            let ((budget, mut ledger), plan) = (ledger(), plan(period, detection_parts));
            // Half is spent at once.
            let _permit = ledger.spend(0, budget.divided_by(2).unwrap()).unwrap();
            let due = WINDOW / period;
            let regular =
                if let Some(parts) = detection_parts { regular_fraction(due, 0.0, RESERVE_PARTS, parts) } else { 1.0 }
                    / due as f64;
            let until = shares(&mut ledger, budget, &plan, 1..WINDOW);
            let least = until.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least > 0.25 * regular && until.iter().all(|share| *share <= 1.05 * regular), "{until:?}");
            assert!(until.iter().sum::<f64>() > if detection_parts.is_some() { 0.1 } else { 0.48 }, "{until:?}");
            // Then all have their regular share.
            let later = shares(&mut ledger, budget, &plan, 3 * WINDOW..5 * WINDOW);
            assert!(later.iter().all(|share| (share / regular - 1.0).abs() < 0.1), "{period}: {later:?}, {regular}");
        }
    }

    #[test]
    fn an_alarm_has_half_of_what_is_left_and_never_more_than_a_regular_part() {
        let (_, mut ledger) = ledger();
        let plan = SpendPlan { alarm: Some(1e6), ..plan(WINDOW, Some(8)) };
        let mut last = 1.0;
        for timestamp in 0..8 {
            let share = plan.affordable(&ledger, timestamp).unwrap();
            let left = ledger.remaining(timestamp).unwrap().as_f64();
            assert!(share.as_f64() <= left / 2.0 && share.as_f64() < last && share.as_f64() < 0.45, "{share:?}");
            last = share.as_f64();
            let _permit = ledger.spend(timestamp, share).unwrap();
        }
    }
}
