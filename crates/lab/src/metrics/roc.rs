//! ROC curves: how well a score tells events from the rest.

use crate::stream::as_float;

/// A point of an ROC curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// The share of non-events that are taken for events.
    pub false_positive_rate: f64,
    /// The share of events that are detected.
    pub true_positive_rate: f64,
}

/// The ROC curve of calling an event whatever scores at least a threshold, from the strictest threshold, at (0, 0), to the
/// laxest, at (1, 1); one point for each distinct score, so that ties lie on a straight line. `None` where there are not
/// as many scores as truths, a score is NaN, or events or non-events are missing.
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

/// The area under an ROC curve: the probability that an event scores higher than a non-event, a tie counting half.
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
