use std::f64::consts::LN_2;

use tidegate_kernel::Grid;
use tidegate_lab::experiment::CountOutcome;
use tidegate_lab::metrics::{
    Metric, NotComparable, RocPoint, Summary, Truth, area, cfpu, compare_numbers, compare_symbols, coverage_of_numbers,
    mean_curve, roc,
};
use tidegate_lab::stream::Space;
use tidegate_lab::{NumberStream, SymbolStream};

use crate::support::{assert_close, stream};

#[test]
fn errors_are_as_computed_by_hand() {
    // True frequencies (0.75, 0.25) of 4 users, (1, 0) of 10 users.
    let truth = Truth::of(&stream(&[&[3, 1], &[10, 0]]));
    let released = [vec![0.5, 0.5], vec![0.9, 0.2]];
    let comparison = truth.compare(&released).unwrap();
    assert_close(comparison.mse(), (2.0 * 0.0625 + 0.01 + 0.04) / 4.0);
    assert_close(comparison.mae(), (0.25 + 0.25 + 0.1 + 0.2) / 4.0);
    // The frequency of zero counts as 0.001.
    assert_close(comparison.mre(), (0.25 / 0.75 + 0.25 / 0.25 + 0.1 / 1.0 + 0.2 / 0.001) / 4.0);
    // In counts: errors of one user twice, then of one and of two.
    assert_close(comparison.amre(), (1.0 + 1.0 + 1.0 + 4.0) / 4.0);
}

#[test]
fn the_divergence_is_as_computed_by_hand() {
    let truth = Truth::of(&stream(&[&[1, 1]]));
    let divergence = |row: [f64; 2]| truth.compare(&[row.to_vec()]).unwrap().ajsd();
    assert_close(divergence([0.5, 0.5]), 0.0);
    // Against (1, 0) the middle is (3/4, 1/4): half of ln(4/3), and half of (ln(2/3) + ln 2) / 2.
    let by_hand = 0.5 * (4.0_f64 / 3.0).ln() + 0.25 * ((2.0_f64 / 3.0).ln() + LN_2);
    assert_close(divergence([1.0, 0.0]), by_hand);
    // Negative frequencies count as zero, the rest is scaled; where nothing is left it is uniform.
    assert_close(divergence([3.0, -0.2]), by_hand);
    assert_close(divergence([-1.0, 0.0]), 0.0);
    // Nothing in common: ln 2, and so is the mean of that with a perfect release's zero, halved.
    let apart = Truth::of(&stream(&[&[1, 0], &[1, 0]]));
    assert_close(apart.compare(&[vec![0.0, 1.0], vec![1.0, 0.0]]).unwrap().ajsd(), LN_2 / 2.0);
}

#[test]
fn events_are_the_top_quarter_of_the_range_of_the_mean_value() {
    // Means of the values: 0, 2, 1.5, 1.6 among 0..=2, so events lie above 1.5.
    let truth = Truth::of(&stream(&[&[10, 0, 0], &[0, 0, 10], &[0, 5, 5], &[0, 4, 6]]));
    assert_eq!(truth.events(), [false, true, false, true]);
    let means = |means: [f64; 4]| means.map(|mean| vec![0.0, mean, 0.0]);
    assert_eq!(truth.compare(&means([0.0, 4.0, 1.0, 3.0])).unwrap().auc(), Some(1.0));
    assert_eq!(truth.compare(&means([0.0, 4.0, 3.5, 3.0])).unwrap().auc(), Some(0.75));
    let curve = truth.compare(&means([0.0, 4.0, 3.5, 3.0])).unwrap().roc().unwrap();
    let rates: Vec<_> = curve.iter().map(|point| (point.false_positive_rate, point.true_positive_rate)).collect();
    assert_eq!(rates, [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)]);
    assert_eq!(truth.compare(&means([1.0; 4])).unwrap().auc(), Some(0.5));
    // Counts that are always the same detect nothing, whoever is there.
    let few = stream(&[&[10, 0, 0], &[0, 0, 2], &[0, 5, 5], &[0, 1, 2]]);
    let share = |timestamp: usize| vec![0.0, 4.0 / few.population(timestamp) as f64, 0.0];
    let frequencies = (0..few.length()).map(share).collect();
    let outcome =
        CountOutcome { frequencies, of_counts: true, variances: Vec::new(), trees: Vec::new(), reports: 0, bytes: 0 };
    let truth = Truth::of(&few);
    assert_eq!(truth.events(), [false, true, false, true]);
    assert_eq!(truth.compare_outcome(&outcome).unwrap().auc(), Some(0.5));
    assert_eq!(truth.compare(&outcome.frequencies).unwrap().auc(), Some(1.0));
    // Without events there is nothing to detect.
    let level = Truth::of(&stream(&[&[1, 1], &[2, 2]]));
    let released = [vec![0.5, 0.5], vec![0.5, 0.5]];
    let metrics = level.compare(&released).unwrap().metrics();
    assert!(!metrics.contains_key(&Metric::Auc) && metrics.contains_key(&Metric::Mse));
}

#[test]
fn the_truth_is_covered_where_it_lies_within_what_was_stated() {
    let truth = Truth::of(&stream(&[&[1, 1], &[2, 2]]));
    let released = [vec![0.4, 0.6], vec![0.5, 0.9]];
    let comparison = truth.compare(&released).unwrap();
    // Errors of 0.1, 0.1, 0 and 0.4, within 1.96 standard deviations of 0.052, 0.05, 0 and 0.2.
    let stated = [vec![0.0027, 0.0025], vec![0.0, 0.04]];
    assert_eq!(comparison.coverage(&stated), Some(0.5));
    assert_eq!(comparison.coverage(&[]), None);
    assert_eq!(comparison.coverage(&[vec![1.0], vec![1.0, 1.0]]), None);
}

#[test]
fn ties_share_a_point_of_the_curve() {
    let point = |false_positive_rate, true_positive_rate| RocPoint { false_positive_rate, true_positive_rate };
    let curve = roc(&[1.0, 2.0, 2.0, 3.0, 0.0], &[false, true, false, true, false]).unwrap();
    let third = 1.0 / 3.0;
    let expected = [point(0.0, 0.0), point(0.0, 0.5), point(third, 1.0), point(2.0 * third, 1.0), point(1.0, 1.0)];
    assert_eq!(curve, expected);
    // Of six pairs, five are in order and one is a tie.
    assert_close(area(&curve), 5.5 / 6.0);
    // Minus zero ties with zero.
    assert_eq!(roc(&[0.0, -0.0], &[true, false]).map(|curve| area(&curve)), Some(0.5));
    for (scores, events) in
        [(&[1.0, 2.0][..], &[true, true][..]), (&[1.0], &[true, false]), (&[f64::NAN, 1.0], &[true, false]), (&[], &[])]
    {
        assert_eq!(roc(scores, events), None);
    }
}

#[test]
fn a_mean_curve_is_the_mean_of_what_the_curves_reach() {
    let point = |false_positive_rate, true_positive_rate| RocPoint { false_positive_rate, true_positive_rate };
    // One is a diagonal, the other rises at 0, at 0.5 and at 1.
    let diagonal = vec![point(0.0, 0.0), point(1.0, 1.0)];
    let steps =
        vec![point(0.0, 0.0), point(0.0, 0.4), point(0.5, 0.4), point(0.5, 0.8), point(1.0, 0.8), point(1.0, 1.0)];
    let expected = [(0.0, 0.0), (0.0, 0.2), (0.25, 0.325), (0.5, 0.65), (0.75, 0.775), (1.0, 1.0)];
    let mean = mean_curve(&[diagonal.clone(), steps], 4);
    assert_eq!(mean.len(), expected.len());
    for (point, (false_positive_rate, true_positive_rate)) in mean.iter().zip(expected) {
        assert_close(point.false_positive_rate, false_positive_rate);
        assert_close(point.true_positive_rate, true_positive_rate);
    }
    assert_close(area(&mean_curve(std::slice::from_ref(&diagonal), 10)), 0.5);
    assert!(mean_curve(&[], 10).is_empty() && mean_curve(&[diagonal], 0).is_empty());
}

#[test]
fn only_areas_are_better_when_they_are_higher() {
    let higher: Vec<Metric> = Metric::ALL.into_iter().filter(|metric| metric.is_better_when_higher()).collect();
    assert_eq!(higher, [Metric::Auc, Metric::MonitorAuc]);
}

#[test]
fn communication_is_reports_per_user_and_timestamp() {
    assert_close(cfpu(&stream(&[&[3, 1], &[4, 2]]), 5), 0.5);
}

#[test]
fn a_summary_has_the_standard_error_of_the_mean() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[3.0]), Some(Summary { mean: 3.0, standard_error: None }));
    // The sample's variance is 5/3.
    let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_close(summary.mean, 2.5);
    assert_close(summary.standard_error.unwrap(), (5.0_f64 / 3.0 / 4.0).sqrt());
}

#[test]
fn releases_that_do_not_fit_are_refused() {
    let truth = Truth::of(&stream(&[&[3, 1], &[10, 0]]));
    let error = |released: &[Vec<f64>]| truth.compare(released).unwrap_err();
    assert_eq!(error(&[vec![0.5, 0.5]]), NotComparable::Length { given: 1, expected: 2 });
    let narrow = NotComparable::Width { timestamp: 1, given: 1, expected: 2 };
    assert_eq!(error(&[vec![0.5, 0.5], vec![0.5]]), narrow);
    assert_eq!(error(&[vec![0.5, f64::NAN], vec![0.5, 0.5]]), NotComparable::NotFinite { timestamp: 0 });
}

#[test]
fn errors_of_numbers_are_as_computed_by_hand() {
    let stream = NumberStream::new("n", Grid::new(-100.0, 100.0, 1.0).unwrap(), vec![50.0, -20.0, 0.1]).unwrap();
    let metrics = compare_numbers(&stream, &[60.0, -25.0, 1.1]).unwrap();
    assert_eq!(metrics.keys().copied().collect::<Vec<_>>(), Metric::ALL[..3]);
    assert_close(metrics[&Metric::Mse], (100.0 + 25.0 + 1.0) / 3.0);
    assert_close(metrics[&Metric::Mae], (10.0 + 5.0 + 1.0) / 3.0);
    // A thousandth of the width of 200 is 0.2, which is more than 0.1.
    assert_close(metrics[&Metric::Mre], (10.0 / 50.0 + 5.0 / 20.0 + 1.0 / 0.2) / 3.0);
    let error = |released: &[f64]| compare_numbers(&stream, released).unwrap_err();
    assert_eq!(error(&[1.0]), NotComparable::Length { given: 1, expected: 3 });
    assert_eq!(error(&[1.0, 2.0, f64::NAN]), NotComparable::NotFinite { timestamp: 2 });
}

#[test]
fn coverage_of_numbers_counts_intervals_that_hold_the_truth() {
    let stream = NumberStream::new("n", Grid::new(-100.0, 100.0, 1.0).unwrap(), vec![50.0, -20.0, 0.0]).unwrap();
    let covered = |variances: &[f64]| coverage_of_numbers(&stream, &[51.9, -22.0, 0.0], variances);
    assert_eq!(covered(&[1.0, 1.0, 0.0]), Some(2.0 / 3.0), "1.9 is within 1.96 deviations, 2 is not");
    assert_eq!(covered(&[0.9, 1.0, 1.0]), Some(1.0 / 3.0));
    assert_eq!((covered(&[]), covered(&[1.0, 1.0])), (None, None));
}

#[test]
fn errors_of_symbols_are_as_computed_by_hand() {
    let grid = Space::Grid { columns: 4, rows: 4 };
    let stream = SymbolStream::new("s", grid, vec![vec![0, 5, 15, 15], vec![3]]).unwrap();
    // (0, 0) for (0, 0), (3, 4 - 1) for (1, 1), right twice; and a user who is always wrong, by three cells.
    let metrics = compare_symbols(&stream, &[vec![0, 15, 15, 15], vec![0]]).unwrap();
    let distance = 8.0_f64.sqrt();
    assert_close(metrics[&Metric::Euclidean], (distance / 4.0 + 3.0) / 2.0);
    assert_close(metrics[&Metric::Mse], (8.0 / 4.0 + 9.0) / 2.0);
    assert_close(metrics[&Metric::ErrorRate], (0.25 + 1.0) / 2.0);
    // Of five symbols: 0 twice instead of once, 15 thrice instead of twice, and neither 3 nor 5.
    assert_close(metrics[&Metric::HistogramDistance], 0.4);
    assert!(!metrics.contains_key(&Metric::Mae));
    let error = |released: &[Vec<u32>]| compare_symbols(&stream, released).unwrap_err();
    assert_eq!(error(&[vec![0; 4]]), NotComparable::Users { given: 1, expected: 2 });
    assert_eq!(error(&[vec![0; 4], vec![0, 0]]), NotComparable::Sequence { user: 1, given: 2, expected: 1 });
    assert_eq!(error(&[vec![0; 4], vec![16]]), NotComparable::Symbol { user: 1, given: 16, domain: 16 });
}
