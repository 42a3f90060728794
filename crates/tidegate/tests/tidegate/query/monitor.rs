//! Monitors and their events.

use tidegate::query::EventKind::{Ended, Started};
use tidegate::query::{Direction, Domain, EventKind, Monitor, Query, QueryError, Rule};
use tidegate::release::Freshness::Fresh;

use super::{assert_close, release, window};

/// The events, and the scores, of a monitor over a stream of one number.
fn watch(rule: Rule, numbers: &[f64], variance: f64) -> (Vec<(EventKind, u64)>, Vec<Option<f64>>) {
    let mut monitor = Monitor::new(rule, window(3)).unwrap();
    let (mut events, mut scores) = (Vec::new(), Vec::new());
    for (&number, timestamp) in numbers.iter().zip(0..) {
        let observation = monitor.push(&release(timestamp, &[number, 1.0 - number], variance, Fresh), None).unwrap();
        assert_eq!(observation.active, monitor.is_active());
        scores.push(observation.score.map(|score| score.value));
        events.extend(observation.event.map(|event| {
            assert_eq!(Some(event.score), observation.score);
            (event.kind, event.timestamp)
        }));
    }
    (events, scores)
}

#[test]
fn single_threshold_event_lasts_while_beyond() {
    let level = Query::counting(0, 1);
    let numbers = [0.2, 0.5, 0.6, 0.5, 0.7, 0.1];
    let (events, scores) = watch(Rule::above(level, 0.5), &numbers, 0.01);
    assert_eq!(events, [(Started, 2), (Ended, 3), (Started, 4), (Ended, 5)]);
    assert_eq!(scores, numbers.map(Some));
    let (events, _) = watch(Rule::below(level, 0.5), &numbers, 0.01);
    assert_eq!(events, [(Started, 0), (Ended, 1), (Started, 5)]);
}

#[test]
fn between_two_thresholds_nothing_changes() {
    let level = Query::counting(0, 1);
    let flickering = [0.4, 0.52, 0.48, 0.51, 0.49, 0.53, 0.3];
    assert_eq!(watch(Rule::above(level, 0.5), &flickering, 0.01).0.len(), 6);
    assert_eq!(watch(Rule::above(level, 0.5).until(0.4), &flickering, 0.01).0, [(Started, 1), (Ended, 6)]);
    assert_eq!(watch(Rule::below(level, 0.35).until(0.6), &[0.3, 0.5, 0.6], 0.01).0, [(Started, 0), (Ended, 2)]);
}

#[test]
fn rises_and_falls_compare_a_period_with_the_one_before() {
    let numbers = [0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1];
    let (events, scores) = watch(Rule::rising(Query::counting(0, 2), 0.5), &numbers, 0.01);
    assert_eq!(events, [(Started, 4), (Ended, 5)]);
    assert_eq!(scores.iter().filter(|score| score.is_none()).count(), 3);
    assert_close(scores[4].unwrap(), 0.8);
    let (events, _) = watch(Rule::falling(Query::counting(0, 2), 0.5), &numbers, 0.01);
    assert_eq!(events, [(Started, 8)]);
    // The shift is free: here as the paper prints it, for a window of three.
    let (_, scores) = watch(Rule::rising(Query::counting(0, 3), 0.5).with_shift(2), &numbers, 0.01);
    assert_eq!(scores.iter().filter(|score| score.is_none()).count(), 4);
    assert_close(scores[4].unwrap(), 1.1 - 0.3);
}

#[test]
fn with_a_confidence_only_an_interval_beyond_the_threshold_counts() {
    let level = Query::counting(0, 1);
    // At 95 % an interval reaches 0.196 to each side.
    let rule = Rule::above(level, 0.5).with_confidence(0.95);
    assert_eq!(watch(rule, &[0.6, 0.69, 0.7, 0.31, 0.3], 0.01).0, [(Started, 2), (Ended, 4)]);
    let rule = Rule::below(level, 0.5).with_confidence(0.95);
    assert_eq!(watch(rule, &[0.4, 0.31, 0.3, 0.69, 0.7], 0.01).0, [(Started, 2), (Ended, 4)]);
}

#[test]
fn a_gap_keeps_a_monitor_silent_until_it_is_past() {
    let mut monitor = Monitor::new(Rule::above(Query::counting(0, 2), 0.5), window(3)).unwrap();
    let mut score = |timestamp| {
        let observation = monitor.push(&release(timestamp, &[0.4, 0.6], 0.01, Fresh), None).unwrap();
        (observation.score.is_some(), observation.active)
    };
    assert_eq!(
        [0, 1, 3, 4, u64::MAX].map(&mut score),
        [(false, false), (true, true), (false, true), (true, true), (false, true)]
    );
}

#[test]
fn bad_rules_and_releases_are_refused_by_monitors() {
    let refused = |rule| Monitor::new(rule, window(3)).unwrap_err();
    let query = Query::counting(0, 1);
    assert_eq!(refused(Rule::above(Query::counting(0, 0), 0.5)), QueryError::ZeroDelta);
    assert_eq!(refused(Rule::above(Query::range(2, 1, 1), 0.5)), QueryError::ReversedRange { first: 2, last: 1 });
    assert_eq!(refused(Rule::rising(query, 0.5).with_shift(0)), QueryError::ZeroShift);
    assert!(matches!(refused(Rule::above(query, f64::NAN)), QueryError::BadThreshold { .. }));
    assert!(matches!(refused(Rule::above(query, 0.5).until(f64::NAN)), QueryError::BadThreshold { .. }));
    let crossed = refused(Rule::above(query, 0.5).until(0.6));
    assert_eq!(crossed, QueryError::CrossedThresholds { direction: Direction::Above, start: 0.5, end: 0.6 });
    let text = "an event that starts above 0.5 cannot end already at 0.6; the end lies below or at the start";
    assert_eq!(crossed.to_string(), text);
    assert!(matches!(refused(Rule::below(query, 0.5).until(0.4)), QueryError::CrossedThresholds { .. }));
    let given = 1.5;
    assert_eq!(refused(Rule::above(query, 0.5).with_confidence(given)), QueryError::BadConfidence { given });

    let mut monitor = Monitor::new(Rule::above(Query::counting(1, 1).in_counts(), 5.0), window(3)).unwrap();
    monitor.push(&release(3, &[0.5, 0.5], 0.01, Fresh), Some(100)).unwrap();
    let before = monitor.clone();
    let mut push = |timestamp, frequencies: &[f64], population| {
        monitor.push(&release(timestamp, frequencies, 0.01, Fresh), population).unwrap_err()
    };
    assert_eq!(push(3, &[0.5, 0.5], Some(100)), QueryError::OutOfOrder { timestamp: 3, latest: 3 });
    assert_eq!(push(4, &[0.5, 0.5], None), QueryError::UnknownPopulation { timestamp: 4 });
    let (given, expected) = (Domain::Histogram(1), Domain::Histogram(2));
    assert_eq!(push(4, &[1.0], Some(100)), QueryError::OtherDomain { given, expected });
    assert!(matches!(push(4, &[f64::NAN; 2], Some(100)), QueryError::BadRelease { .. }));
    assert_eq!(monitor, before);
    let mut monitor = Monitor::new(Rule::above(Query::counting(2, 1), 0.5), window(3)).unwrap();
    let refusal = monitor.push(&release(3, &[0.5, 0.5], 0.01, Fresh), None);
    assert_eq!(refusal, Err(QueryError::UnknownValue { value: 2, domain: 2 }));
}
