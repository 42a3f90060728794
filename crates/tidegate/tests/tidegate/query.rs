//! Answers are right, their variances are honest, and monitors do what their rules say.

use proptest::prelude::*;
use tidegate::kernel::{SeededRandom, Window};
use tidegate::post_processing::{PostProcessing, Unsound};
use tidegate::query::{
    Answer, Correlation, Direction, Domain, EventKind, History, Interval, Monitor, Query, QueryError, Rule, Score, Unit,
};
use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};
use tidegate::tree::{Shape, Tree};

use crate::support::{error, repeatable, unit};

fn window(length: u64) -> Window {
    Window::of(length).unwrap()
}

fn release(timestamp: u64, frequencies: &[f64], variance: f64, freshness: Freshness) -> Release {
    let (frequencies, variances) = (frequencies.to_vec(), vec![variance; frequencies.len()]);
    let statistic = Statistic::Histogram(Histogram { frequencies, variances });
    Release { timestamp, statistic, freshness, spent: Spent::Nothing, reports: 100, seeded: false }
}

fn history(releases: impl IntoIterator<Item = Release>) -> History {
    let mut history = History::new(window(3), 100).unwrap();
    releases.into_iter().for_each(|release| history.push(release, None).unwrap());
    history
}

/// A stream of one number, given with its variance and whether it is fresh.
fn stream(numbers: &[(f64, f64, Freshness)]) -> History {
    let releases = numbers.iter().zip(0..);
    history(releases.map(|(&(frequency, variance, freshness), timestamp)| {
        release(timestamp, &[frequency, 1.0 - frequency], variance, freshness)
    }))
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} instead of {expected}");
}

use Freshness::{Approximated, Fresh, Nullified};

#[test]
fn answers_have_their_value_variance_timestamps_and_unit() {
    let mut history = History::new(window(3), 100).unwrap();
    for (timestamp, population) in [(5, 100), (6, 200), (7, 400), (8, 400)] {
        history.push(release(timestamp, &[0.5, 0.25, 0.25], 0.01, Fresh), Some(population)).unwrap();
    }
    let answer = history.answer(&Query::range(1, 2, 3).in_counts()).unwrap();
    assert_close(answer.value, 0.5 * 1000.0);
    assert_close(answer.variance, 0.02 * f64::from(200 * 200 + 2 * 400 * 400));
    assert_eq!((answer.first, answer.last, answer.unit), (6, 8, Unit::Counts));
    assert_eq!(answer.possible, Interval { low: 0.0, high: 1000.0 });
    assert!(!answer.spans_more_than_one_window);

    let answer = history.answer(&Query::counting(0, 4)).unwrap();
    assert_close(answer.value, 2.0);
    assert_close(answer.variance, 0.04);
    assert_eq!(answer.possible, Interval { low: 0.0, high: 4.0 });
    assert!(answer.spans_more_than_one_window);

    let answer = history.answer_at(&Query::counting(0, 2).in_counts(), 6).unwrap();
    assert_close(answer.value, 150.0);
    let point = history.point(1, 6, Unit::Counts).unwrap();
    assert_eq!((point.value, point.first, point.last), (50.0, 6, 6));
    let all = history.histogram(6, Unit::Frequencies).unwrap();
    assert_eq!(all.iter().map(|answer| answer.value).collect::<Vec<_>>(), [0.5, 0.25, 0.25]);

    let change = history.change(&Query::counting(0, 2).in_counts(), 2, 8).unwrap();
    assert_close(change.value, 0.5 * (800.0 - 300.0));
    assert_close(change.variance, 0.01 * f64::from(100 * 100 + 200 * 200 + 2 * 400 * 400));
    assert_eq!((change.first, change.last), (5, 8));
    assert_eq!(change.possible, Interval { low: -300.0, high: 800.0 });
}

#[test]
fn an_unbounded_window_is_never_exceeded() {
    let mut history = History::new(Window::Unbounded, 10).unwrap();
    (0..10).for_each(|timestamp| history.push(release(timestamp, &[1.0], 0.1, Fresh), None).unwrap());
    assert!(!history.answer(&Query::counting(0, 10)).unwrap().spans_more_than_one_window);
}

#[test]
fn intervals_are_those_of_the_normal_distribution() {
    let answer = stream(&[(0.1, 0.04, Fresh)]).answer(&Query::counting(0, 1)).unwrap();
    for (confidence, reach) in [(0.5, 0.674489750196082), (0.95, 1.959963984540054), (0.999, 3.290526731491895)] {
        let interval = answer.interval(confidence).unwrap();
        assert_close(interval.low, 0.1 - 0.2 * reach);
        assert_close(interval.high, 0.1 + 0.2 * reach);
    }
    let clipped = answer.interval(0.95).unwrap().clipped_to(answer.possible);
    assert!(clipped.low == 0.0 && clipped.contains(0.4) && !clipped.contains(-0.01));
    assert!(answer.interval(1.0 - f64::EPSILON / 2.0).unwrap().high.is_finite());
}

#[test]
fn a_repeated_error_counts_as_often_as_it_is_repeated() {
    let variance = |numbers: &[(f64, f64, Freshness)]| {
        stream(numbers).answer(&Query::counting(0, numbers.len() as u64)).unwrap().variance
    };
    assert_close(variance(&[(0.3, 0.01, Fresh); 4]), 0.04);
    let repeated = [(0.3, 0.01, Fresh), (0.3, 0.01, Approximated), (0.3, 0.01, Nullified), (0.3, 0.01, Approximated)];
    assert_close(variance(&repeated), 0.16);
    // What is left of a run whose fresh release is not asked about is a run as well.
    assert_close(variance(&repeated[1..]), 0.09);
    let runs = [(0.3, 0.01, Fresh), (0.3, 0.04, Approximated), (0.5, 0.09, Fresh), (0.5, 0.09, Approximated)];
    assert_close(variance(&runs), (0.1_f64 + 0.2).powi(2) + 0.36);

    let smoothed = stream(&[(0.3, 0.01, Fresh); 4]).with_correlation(Correlation::Throughout);
    assert_close(smoothed.answer(&Query::counting(0, 4)).unwrap().variance, 0.16);
    // Fresh releases that happen to agree do not repeat each other.
    assert_close(smoothed.change(&Query::counting(0, 2), 2, 3).unwrap().variance, 0.16);
}

#[test]
fn errors_that_two_periods_share_cancel() {
    let change = |numbers: &[(f64, f64, Freshness)], delta, shift| {
        let last = numbers.len() as u64 - 1;
        stream(numbers).change(&Query::counting(0, delta), shift, last).unwrap()
    };
    let repeated = [(0.3, 0.01, Fresh), (0.3, 0.01, Approximated), (0.3, 0.01, Nullified), (0.3, 0.01, Approximated)];
    assert_eq!(change(&repeated, 2, 2).variance, 0.0);
    // The run has weight one in the earlier period, and one in the later.
    let mixed = [(0.3, 0.01, Fresh), (0.5, 0.02, Fresh), (0.5, 0.02, Approximated), (0.4, 0.03, Fresh)];
    assert_close(change(&mixed, 2, 2).variance, 0.01 + 0.03);
    assert_close(change(&mixed, 2, 2).value, 0.1);
    // Drift does not cancel, and different numbers are not taken for repeated ones.
    let drifted = [(0.3, 0.01, Fresh), (0.3, 0.02, Approximated)];
    assert_close(change(&drifted, 1, 1).variance, 0.01);
    // Drift that was there and is gone counts as well, even if the fresh release lies before both periods.
    let returned = [(0.3, 0.01, Fresh), (0.3, 0.03, Approximated), (0.3, 0.01, Approximated)];
    assert_close(change(&returned, 1, 1).variance, 0.02);
    let renamed = [(0.3, 0.01, Fresh), (0.4, 0.01, Approximated)];
    assert_close(change(&renamed, 1, 1).variance, 0.04);
    // Periods that overlap have their common timestamps cancelled.
    assert_close(change(&[(0.3, 0.01, Fresh); 4], 3, 1).variance, 0.02);
    // A changed number of users makes the shared error matter again.
    let mut history = History::new(window(3), 10).unwrap();
    history.push(release(0, &[0.3, 0.7], 0.01, Fresh), Some(100)).unwrap();
    history.push(release(1, &[0.3, 0.7], 0.01, Approximated), Some(150)).unwrap();
    assert_close(history.change(&Query::counting(0, 1).in_counts(), 1, 1).unwrap().variance, 25.0);
}

/// The mean of the squared error of a sum over ten timestamps with four runs, and what its answer states.
fn squared_error_over_runs(trials: u32) -> (f64, f64) {
    let mut random = SeededRandom::new(3);
    let (mut squares, mut stated) = (0.0, 0.0);
    for _ in 0..trials {
        let mut numbers = Vec::new();
        for (length, variance) in [(1, 0.01), (4, 0.02), (2, 0.005), (3, 0.01)] {
            let frequency = 0.3 + error(&mut random, variance);
            numbers.push((frequency, variance, Fresh));
            numbers.extend((1..length).map(|_| (frequency, variance, Approximated)));
        }
        let answer = stream(&numbers).answer(&Query::counting(0, 10)).unwrap();
        squares += (answer.value - 3.0).powi(2) / f64::from(trials);
        stated = answer.variance;
    }
    (squares, stated)
}

#[test]
fn the_variance_of_a_sum_over_runs_is_the_one_measured() {
    // The squared error of one trial has a standard deviation of at most sqrt(2) of its mean, so that of the mean is
    // below 1 % here, and six of them below 6 %: a false alarm is rarer than 1e-6.
    let (measured, stated) = squared_error_over_runs(20_000);
    assert!((measured / stated - 1.0).abs() < 0.06, "{measured} instead of {stated}");
    // Adding up variances would be far off.
    assert!(measured > 2.0 * (0.01 + 4.0 * 0.02 + 2.0 * 0.005 + 3.0 * 0.01));
    // A noise scale that is wrong by 10 % would be seen.
    assert!((1.1 * 1.1 * measured / stated - 1.0).abs() > 0.06);
    assert!((0.9 * 0.9 * measured / stated - 1.0).abs() > 0.06);
}

#[test]
fn the_top_values_come_in_order_and_equal_ones_by_value() {
    let history = history([release(4, &[0.1, 0.3, 0.2, 0.3, 0.1], 0.01, Fresh)]);
    let top = |k| {
        let ranked = history.top(k, 4, Unit::Frequencies).unwrap();
        ranked.iter().map(|ranked| (ranked.value, ranked.answer.value)).collect::<Vec<_>>()
    };
    assert_eq!(top(1), [(1, 0.3)]);
    assert_eq!(top(4), [(1, 0.3), (3, 0.3), (2, 0.2), (0, 0.1)]);
    assert_eq!(top(5).last(), Some(&(4, 0.1)));
    for k in [0, 6] {
        assert_eq!(history.top(k, 4, Unit::Frequencies), Err(QueryError::BadTop { k, domain: 5 }));
    }
}

#[test]
fn bad_questions_are_refused_with_what_was_given_and_what_is_allowed() {
    let history = stream(&[(0.3, 0.01, Fresh); 4]);
    let refused = |query: Query| history.answer(&query).unwrap_err();
    assert_eq!(refused(Query::counting(2, 1)), QueryError::UnknownValue { value: 2, domain: 2 });
    assert_eq!(refused(Query::range(0, 7, 1)), QueryError::UnknownValue { value: 7, domain: 2 });
    assert_eq!(refused(Query::range(1, 0, 1)), QueryError::ReversedRange { first: 1, last: 0 });
    assert_eq!(refused(Query::counting(0, 0)), QueryError::ZeroDelta);
    assert_eq!(refused(Query::counting(0, 5)), QueryError::BeyondKept { asked: 5, kept: 4, until: 3 });
    let all = u64::MAX;
    assert_eq!(refused(Query::counting(0, all)), QueryError::BeyondKept { asked: all, kept: 4, until: 3 });
    assert_eq!(refused(Query::counting(0, 1).in_counts()), QueryError::UnknownPopulation { timestamp: 3 });
    let query = Query::counting(0, 2);
    assert_eq!(history.change(&query, 0, 3), Err(QueryError::ZeroShift));
    assert_eq!(history.change(&query, 3, 3), Err(QueryError::BeyondKept { asked: 5, kept: 4, until: 3 }));
    let unknown = QueryError::UnknownTimestamp { timestamp: 9, first: 0, last: 3 };
    assert_eq!(history.answer_at(&query, 9), Err(unknown));
    assert_eq!(unknown.to_string(), "there is no release of timestamp 9; those kept lie between 0 and 3");
    assert_eq!(history.point(0, 9, Unit::Frequencies), Err(unknown));
    assert_eq!(history.histogram(9, Unit::Frequencies), Err(unknown));
    assert_eq!(history.top(1, 9, Unit::Frequencies), Err(unknown));
    let answer = history.answer(&query).unwrap();
    for given in [0.0, 1.0, -0.5, 95.0] {
        assert_eq!(answer.interval(given), Err(QueryError::BadConfidence { given }));
    }
    assert!(answer.interval(f64::NAN).is_err());

    let empty = History::new(window(3), 1).unwrap();
    assert_eq!(empty.answer(&query), Err(QueryError::NothingReleased));
    assert_eq!(empty.answer_at(&query, 0), Err(QueryError::NothingReleased));
    assert_eq!(History::new(window(3), 0), Err(QueryError::ZeroCapacity));
}

#[test]
fn a_period_with_a_gap_is_refused() {
    let history = history([0, 1, 3, 4].map(|timestamp| release(timestamp, &[0.5, 0.5], 0.01, Fresh)));
    assert!(history.answer(&Query::counting(0, 2)).is_ok());
    assert_eq!(history.answer(&Query::counting(0, 3)), Err(QueryError::Gap { asked: 3, until: 4 }));
    assert!(history.answer_at(&Query::counting(0, 2), 1).is_ok());
}

#[test]
fn releases_out_of_order_or_of_another_domain_are_refused_and_change_nothing() {
    let mut history = stream(&[(0.3, 0.01, Fresh); 4]);
    let before = history.clone();
    for timestamp in [0, 3] {
        let refusal = history.push(release(timestamp, &[0.5, 0.5], 0.01, Fresh), None);
        assert_eq!(refusal, Err(QueryError::OutOfOrder { timestamp, latest: 3 }));
    }
    let expected = Domain::Histogram(2);
    let refusal = history.push(release(4, &[0.5; 3], 0.01, Fresh), None).unwrap_err();
    assert_eq!(refusal, QueryError::OtherDomain { given: Domain::Histogram(3), expected });
    assert!(refusal.to_string().contains("histogram of 3 values"), "{refusal}");
    let tree = Statistic::Tree(Tree::new(Shape::new(2), vec![1.0, 0.5, 0.5], vec![0.0, 0.1, 0.1]).unwrap());
    let refusal = history.push(Release { statistic: tree, ..release(4, &[], 0.0, Fresh) }, None);
    assert_eq!(refusal, Err(QueryError::OtherDomain { given: Domain::Tree(2), expected }));
    let refusal = history.push(release(4, &[0.5, 0.5], -0.01, Fresh), None);
    let reason = Unsound::Variance { position: 0, given: -0.01 };
    assert_eq!(refusal, Err(QueryError::BadRelease { timestamp: 4, reason }));
    assert!(history.push(release(4, &[f64::NAN, 0.5], 0.01, Fresh), None).is_err());
    assert!(history.push(release(4, &[], 0.01, Fresh), None).is_err());
    assert_eq!(history, before);
}

#[test]
fn a_history_keeps_its_capacity_and_no_more() {
    let mut history = History::new(window(3), 7).unwrap();
    let mut sizes = Vec::new();
    for timestamp in 0..1000 {
        history.push(release(timestamp, &[0.25; 4], 0.01, Fresh), Some(10)).unwrap();
        sizes.push(serde_json::to_string(&history).unwrap().len());
    }
    assert_eq!((history.len(), history.releases().len(), history.capacity()), (7, 7, 7));
    assert_eq!(history.releases().next().unwrap().0.timestamp, 993);
    // Timestamps have three digits from 106 on, when all that is kept is past 99.
    assert!(sizes[106..].iter().all(|size| *size == sizes[106]));

    let rule = Rule::rising(Query::counting(0, 3), 0.1);
    let mut monitor = Monitor::new(rule, window(3)).unwrap();
    sizes.clear();
    for timestamp in 0..1000 {
        monitor.push(&release(timestamp, &[0.25; 4], 0.01, Fresh), None).unwrap();
        sizes.push(serde_json::to_string(&monitor).unwrap().len());
    }
    assert!(sizes[106..].iter().all(|size| *size == sizes[106]));
}

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

use EventKind::{Ended, Started};

#[test]
fn with_one_threshold_there_is_an_event_exactly_while_the_score_is_beyond() {
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

const HISTORY_V1: &str = include_str!("../golden/history_v1.json");
const MONITOR_V1: &str = include_str!("../golden/monitor_v1.json");

/// What the saved states of version 1 were made of.
fn golden() -> (History, Monitor) {
    let mut history = History::new(window(3), 4).unwrap();
    let rule = Rule::rising(Query::range(1, 2, 1).in_counts(), 10.0).until(5.0).with_confidence(0.5);
    let mut monitor = Monitor::new(rule, window(3)).unwrap();
    for (timestamp, frequency, freshness) in [(7, 0.25, Fresh), (8, 0.5, Fresh), (9, 0.5, Nullified)] {
        let release = release(timestamp, &[1.0 - frequency, frequency, 0.0], 0.015625, freshness);
        monitor.push(&release, Some(1000)).unwrap();
        history.push(release, Some(1000)).unwrap();
    }
    (history, monitor)
}

#[test]
fn saved_states_of_version_1_still_load() {
    let (history, monitor) = golden();
    assert_eq!(serde_json::from_str::<History>(HISTORY_V1).unwrap(), history);
    assert_eq!(serde_json::from_str::<Monitor>(MONITOR_V1).unwrap(), monitor);
    assert_eq!(serde_json::to_string(&history).unwrap(), HISTORY_V1.trim());
    assert_eq!(serde_json::to_string(&monitor).unwrap(), MONITOR_V1.trim());
}

#[test]
fn saved_states_that_cannot_be_are_not_loaded() {
    let history = |from: &str, to: &str| {
        assert!(HISTORY_V1.contains(from), "{from}");
        serde_json::from_str::<History>(&HISTORY_V1.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(history(r#""version":1"#, r#""version":2"#).contains("version 2"));
    assert!(history(r#""capacity":4"#, r#""capacity":2"#).contains("3 timestamps"));
    assert!(history(r#""timestamp":7"#, r#""timestamp":8"#).contains("does not come after"));
    assert!(history(r#""frequencies":[0.75,"#, r#""frequencies":["#).contains("2 frequencies"));
    assert!(history(r#""capacity":4"#, r#""capacity":4,"other":1"#).contains("unknown field"));
    let monitor = |from: &str, to: &str| {
        assert!(MONITOR_V1.contains(from), "{from}");
        serde_json::from_str::<Monitor>(&MONITOR_V1.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(monitor(r#""version":1"#, r#""version":2"#).contains("version 2"));
    assert!(monitor(r#""end":5.0"#, r#""end":50.0"#).contains("cannot end"));
    assert!(monitor(r#""timestamp":8"#, r#""timestamp":7"#).contains("at most 2"));
    assert!(monitor(r#""timestamp":8"#, r#""timestamp":9"#).contains("does not come after"));
    assert!(monitor(r#""variance":0.03125"#, r#""variance":-0.03125"#).contains("variance"));
    assert!(monitor(r#""population":1000"#, r#""population":null"#).contains("number of users"));
    assert!(monitor(r#""histogram":3"#, r#""histogram":2"#).contains("not in the domain"));
}

/// Whatever is asked: period, shift, values and timestamp may all be nonsense.
fn any_query() -> impl Strategy<Value = (Query, u64, u64)> {
    let query = (0..9_u32, 0..9_u32, 0..6_u64, any::<bool>()).prop_map(|(first, last, delta, counts)| {
        let query = Query::range(first, last, delta);
        if counts { query.in_counts() } else { query }
    });
    (query, 0..6_u64, 0..14_u64)
}

/// Frequencies with a variance, how they come about, the timestamps since the last and the number of users.
type Step = (Vec<f64>, f64, Freshness, u64, Option<u64>);

fn any_stream(domain: usize) -> impl Strategy<Value = Vec<Step>> {
    let freshness = prop_oneof![3 => Just(Fresh), 2 => Just(Approximated), 1 => Just(Nullified)];
    let population = prop_oneof![6 => (0..1000_u64).prop_map(Some), 1 => Just(None)];
    let gap = prop_oneof![12 => Just(1), 1 => 2..4_u64];
    let step = (prop::collection::vec(-0.2..1.0_f64, domain), 0.0..0.1_f64, freshness, gap, population);
    prop::collection::vec(step, 1..12)
}

fn releases(steps: Vec<Step>, hierarchical: bool) -> Vec<(Release, Option<u64>)> {
    let mut timestamp = 0;
    let mut last: Option<Statistic> = None;
    let mut releases = Vec::new();
    for (frequencies, variance, freshness, gap, population) in steps {
        timestamp += gap;
        let mut release = release(timestamp, &frequencies, variance, freshness);
        if hierarchical {
            release.statistic = Statistic::Tree(tree_of(&frequencies, variance));
        }
        if freshness != Fresh
            && let Some(last) = &last
        {
            release.statistic = drifted(last, variance);
        }
        last = Some(release.statistic.clone());
        releases.push((release, population));
    }
    releases
}

/// The same numbers, less certain.
fn drifted(statistic: &Statistic, by: f64) -> Statistic {
    let grown = |variances: &[f64]| variances.iter().map(|variance| variance + by).collect();
    match statistic {
        Statistic::Histogram(Histogram { frequencies, variances }) => {
            Statistic::Histogram(Histogram { frequencies: frequencies.clone(), variances: grown(variances) })
        }
        Statistic::Counts(_) => panic!("frequencies are released here"),
        Statistic::Tree(tree) => {
            let (frequencies, variances) = tree.nodes();
            Statistic::Tree(Tree::new(*tree.shape(), frequencies.to_vec(), grown(variances)).unwrap())
        }
        Statistic::Number(_) | Statistic::Symbol(_) => panic!("frequencies drift"),
    }
}

/// A tree with these leaves, whose other nodes disagree with them a little.
fn tree_of(leaves: &[f64], variance: f64) -> Tree {
    let shape = Shape::new(leaves.len() as u32);
    let mut random = SeededRandom::new(leaves[0].to_bits());
    let (mut frequencies, mut variances) = (Vec::new(), Vec::new());
    for level in 0..=shape.height() {
        for part in leaves.chunks(shape.width(level) as usize) {
            frequencies.push(part.iter().sum::<f64>() + error(&mut random, variance));
            variances.push(variance * (0.5 + unit(&mut random)));
        }
    }
    Tree::new(shape, frequencies, variances).unwrap()
}

fn through_postcard<T: serde::Serialize + serde::de::DeserializeOwned>(state: &T) -> T {
    postcard::from_bytes(&postcard::to_allocvec(state).unwrap()).unwrap()
}

fn same(first: &Answer, second: &Answer) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    close(first.value, second.value)
        && close(first.variance, second.variance)
        && (first.first, first.last, first.possible) == (second.first, second.last, second.possible)
}

proptest! {
    #![proptest_config(repeatable(512))]

    #[test]
    fn a_range_of_a_histogram_is_the_sum_of_its_values(
        steps in any_stream(7), first in 0..7_u32, last in 0..7_u32, delta in 1..12_u64, counts: bool,
    ) {
        let (first, last) = (first.min(last), first.max(last));
        let mut history = History::new(window(3), 100).unwrap();
        for (timestamp, (mut release, _)) in releases(steps, false).into_iter().enumerate() {
            release.timestamp = timestamp as u64;
            history.push(release, Some(100 + timestamp as u64)).unwrap();
        }
        let delta = delta.min(history.len() as u64);
        let unit = if counts { Unit::Counts } else { Unit::Frequencies };
        let ask = |first, last| history.answer(&Query { first, last, delta, unit }).unwrap();
        let (range, values) = (ask(first, last), (first..=last).map(|value| ask(value, value)));
        let (value, variance) = values.fold((0.0, 0.0), |sum, answer| (sum.0 + answer.value, sum.1 + answer.variance));
        prop_assert!((range.value - value).abs() < 1e-9 * value.abs().max(1.0));
        // Values are uncorrelated, and all have the same variance here, so variances add up as well.
        prop_assert!((range.variance - variance).abs() < 1e-9 * variance.max(1.0));
    }

    #[test]
    fn a_cover_of_a_consistent_tree_is_the_sum_of_its_leaves(
        leaves in prop::collection::vec(-0.2..1.0_f64, 1..40), first in 0..40_u32, last in 0..40_u32,
    ) {
        let domain = leaves.len() as u32;
        let (first, last) = (first.min(last) % domain, first.max(last) % domain);
        let (first, last) = (first.min(last), first.max(last));
        let published = Statistic::Tree(tree_of(&leaves, 0.01));
        let statistic = PostProcessing::Consistency.apply(&published).unwrap();
        let history = history([Release { statistic, ..release(0, &[], 0.0, Fresh) }]);
        let range = history.answer(&Query::range(first, last, 1)).unwrap();
        let values = (first..=last).map(|value| history.point(value, 0, Unit::Frequencies).unwrap().value);
        prop_assert!((range.value - values.sum::<f64>()).abs() < 1e-9);
    }

    #[test]
    fn a_restored_history_answers_everything_as_before(
        steps in any_stream(7), hierarchical: bool, queries in prop::collection::vec(any_query(), 8), capacity in 1..12_usize,
    ) {
        let mut history = History::new(window(3), capacity).unwrap();
        let mut restored = history.clone();
        for (release, population) in releases(steps, hierarchical) {
            prop_assert_eq!(history.push(release.clone(), population), restored.push(release, population));
            restored = through_postcard(&restored);
            prop_assert!(history.len() <= capacity);
            for (query, shift, timestamp) in &queries {
                prop_assert_eq!(history.answer_at(query, *timestamp), restored.answer_at(query, *timestamp));
                prop_assert_eq!(history.change(query, *shift, *timestamp), restored.change(query, *shift, *timestamp));
            }
        }
        prop_assert_eq!(history, restored);
    }

    #[test]
    fn a_monitor_has_the_scores_of_a_history_and_survives_being_saved(
        steps in any_stream(9), hierarchical: bool, (query, shift, _) in any_query(), level: bool, start in -0.5..1.0_f64,
    ) {
        let score = if level { Score::Level } else { Score::Change { shift } };
        let rule = Rule { score, ..Rule::above(query, start).until(start - 0.1) };
        let Ok(mut monitor) = Monitor::new(rule, window(3)) else { return Ok(()) };
        let mut restored = monitor.clone();
        let mut history = History::new(window(3), 100).unwrap();
        let mut active = false;
        for (release, population) in releases(steps, hierarchical) {
            let timestamp = release.timestamp;
            let observation = monitor.push(&release, population);
            restored = through_postcard(&restored);
            prop_assert_eq!(&observation, &restored.push(&release, population));
            let Ok(observation) = observation else { continue };
            history.push(release, population).unwrap();
            let expected = match score {
                Score::Level => history.answer_at(&query, timestamp),
                Score::Change { shift } => history.change(&query, shift, timestamp),
            };
            match observation.score {
                None => prop_assert!(expected.is_err()),
                Some(score) => prop_assert!(same(&score, &expected.unwrap()), "{:?} {:?}", score, expected),
            }
            let before = active;
            if let Some(score) = observation.score {
                active = score.value > if before { rule.end } else { rule.start };
            }
            prop_assert_eq!(observation.active, active);
            prop_assert_eq!(observation.event.is_some(), before != active);
        }
        prop_assert_eq!(monitor, restored);
    }
}
