//! Answers and their variances.

use tidegate::kernel::{SeededRandom, Window};
use tidegate::post_processing::Unsound;
use tidegate::query::{Correlation, Domain, History, Interval, Monitor, Query, QueryError, Rule, Unit};
use tidegate::release::Freshness::{Approximated, Fresh, Nullified};
use tidegate::release::{Freshness, Release, Statistic};
use tidegate::tree::{Tree, TreeShape};

use super::{assert_close, history, release, stream, window};
use crate::support::error;

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
    assert_eq!(answer.possible_interval(0.95).unwrap(), Some(clipped));
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
fn stated_variance_of_a_sum_is_measured() {
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
fn top_values_are_sorted_with_ties_by_value() {
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
fn rejects_bad_queries_with_given_and_allowed() {
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
fn rejected_releases_change_nothing() {
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
    let tree = Statistic::Tree(Tree::new(TreeShape::new(2), vec![1.0, 0.5, 0.5], vec![0.0, 0.1, 0.1]).unwrap());
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
