//! Receiver operating characteristic (ROC) curves.

use crate::stream::as_float;

/// A point of an ROC curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// The false positive rate.
    pub false_positive_rate: f64,
    /// The true positive rate.
    pub true_positive_rate: f64,
}

/// Returns the ROC curve of a score, from (0, 0) to (1, 1), with one point for each distinct score.
///
/// Returns `None` if the lengths differ, a score is NaN, or there are no events or no non-events.
pub fn roc(scores: &[f64], events: &[bool]) -> Option<Vec<RocPoint>> {
    let total_events = events.iter().filter(|event| **event).count();
    let total_others = events.len() - total_events;
    if scores.len() != events.len()
        || total_events == 0
        || total_others == 0
        || scores.iter().any(|score| score.is_nan())
    {
        return None;
    }
    let mut ranked: Vec<(f64, bool)> = scores.iter().copied().zip(events.iter().copied()).collect();
    ranked.sort_by(|(first, _), (second, _)| second.total_cmp(first));
    let share = |part: usize, whole: usize| as_float(part as u64) / as_float(whole as u64);
    let mut curve = vec![RocPoint { false_positive_rate: 0.0, true_positive_rate: 0.0 }];
    let (mut detected, mut false_alarms) = (0, 0);
    // Zero and minus zero are the same score, so ties are found by comparison and not by bits.
    #[allow(clippy::float_cmp)]
    for tied in ranked.chunk_by(|(first, _), (second, _)| first == second) {
        let tied_events = tied.iter().filter(|(_, event)| *event).count();
        detected += tied_events;
        false_alarms += tied.len() - tied_events;
        curve.push(RocPoint {
            false_positive_rate: share(false_alarms, total_others),
            true_positive_rate: share(detected, total_events),
        });
    }
    Some(curve)
}

/// Returns the area under an ROC curve: the probability that an event scores higher than a non-event.
///
/// ```
/// use tidegate_lab::metrics::{area, roc};
///
/// let curve = roc(&[0.9, 0.8, 0.3, 0.1], &[true, false, true, false]);
/// assert_eq!(curve.map(|curve| area(&curve)), Some(0.75));
/// ```
pub fn area(curve: &[RocPoint]) -> f64 {
    let trapezium = |pair: &[RocPoint]| {
        (pair[1].false_positive_rate - pair[0].false_positive_rate)
            * f64::midpoint(pair[0].true_positive_rate, pair[1].true_positive_rate)
    };
    curve.windows(2).map(trapezium).sum()
}

/// Averages the true positive rates of curves at `steps + 1` false positive rates, evenly spaced from 0 to 1.
///
/// The curve starts at (0, 0). It is empty if there are no curves or no steps.
///
/// ```
/// use tidegate_lab::metrics::{area, mean_curve, roc};
///
/// let events = [true, false, true, false];
/// let curves = [[0.9, 0.8, 0.3, 0.1], [0.9, 0.1, 0.8, 0.2]].map(|scores| roc(&scores, &events).unwrap());
/// let mean = mean_curve(&curves, 100); // areas of 0.75 and 1
/// assert_eq!(mean.len(), 102);
/// assert!((area(&mean) - 0.875).abs() < 0.01);
/// ```
pub fn mean_curve(curves: &[Vec<RocPoint>], steps: usize) -> Vec<RocPoint> {
    if curves.is_empty() || steps == 0 {
        return Vec::new();
    }
    let at = |step: usize| {
        let false_positive_rate = as_float(step as u64) / as_float(steps as u64);
        let total: f64 = curves.iter().map(|curve| true_positive_rate(curve, false_positive_rate)).sum();
        RocPoint { false_positive_rate, true_positive_rate: total / as_float(curves.len() as u64) }
    };
    let origin = RocPoint { false_positive_rate: 0.0, true_positive_rate: 0.0 };
    std::iter::once(origin).chain((0..=steps).map(at)).collect()
}

/// Returns the highest true positive rate of a curve at a false positive rate.
pub fn true_positive_rate(curve: &[RocPoint], false_positive_rate: f64) -> f64 {
    let after = curve.partition_point(|point| point.false_positive_rate <= false_positive_rate);
    let Some(before) = after.checked_sub(1).map(|before| curve[before]) else { return 0.0 };
    let Some(next) = curve.get(after) else { return before.true_positive_rate };
    // The next lies further to the right.
    let share =
        (false_positive_rate - before.false_positive_rate) / (next.false_positive_rate - before.false_positive_rate);
    before.true_positive_rate + share * (next.true_positive_rate - before.true_positive_rate)
}
