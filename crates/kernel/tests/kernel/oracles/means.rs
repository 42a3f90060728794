//! The oracle of means: its distribution, its loss, its estimates and its aggregates.

use proptest::prelude::*;
use tidegate_kernel::oracle::{Aggregate, AggregateError, Estimate, Oracle, OracleKind, mean_variance};
use tidegate_kernel::simulation::{estimate_of, multinomial};
use tidegate_kernel::{Epsilon, MAX_DOMAIN, Randomness, SeededRandom};

use super::{all_reports, oracle, reports};
use crate::support::{assert_fits, assert_rejects, epsilon, repeatable};

/// Grids and epsilons with one level above zero, with a few, with as many as the grid has steps, and with a rounding
/// that is not even.
const CASES: [(u32, &str); 9] =
    [(2, "1"), (3, "4"), (11, "0.1"), (11, "0.7"), (101, "1"), (101, "2"), (1_001, "3"), (37, "5"), (1_000, "8")];

fn means(points: u32, text: &str) -> Oracle {
    oracle(OracleKind::Piecewise, points, text)
}

fn likelihoods(oracle: &Oracle, point: u32) -> Vec<f64> {
    let likelihood = |report: &Vec<u8>| oracle.log_likelihood(point, report).unwrap().exp();
    all_reports(oracle).iter().map(likelihood).collect()
}

/// The estimate from these reports.
fn estimate(oracle: &Oracle, reports: &[&[u8]]) -> Estimate {
    let mut aggregate = oracle.aggregate();
    aggregate.add_batch(&reports.concat()).unwrap();
    aggregate.estimate().unwrap()
}

fn share(oracle: &Oracle, point: u32) -> f64 {
    f64::from(point) / f64::from(oracle.domain() - 1)
}

#[test]
fn the_largest_loss_of_a_report_is_epsilon() {
    for (points, text) in CASES {
        let oracle = means(points, text);
        let all: Vec<Vec<f64>> = (0..points).map(|point| likelihoods(&oracle, point)).collect();
        let mut largest: f64 = 0.0;
        for report in 0..all[0].len() {
            let of_report = all.iter().map(|likelihoods| likelihoods[report]);
            let (least, most) = of_report.fold((1.0, 0.0), |(least, most): (f64, f64), p| (least.min(p), most.max(p)));
            largest = largest.max((most / least).ln());
        }
        let limit = oracle.epsilon().as_f64();
        assert!(largest <= limit + 1e-12, "{points} {text}: {largest}");
        assert!(largest >= limit - 2e-9, "{points} {text}: {largest}");
        let sums = all.iter().map(|likelihoods| likelihoods.iter().sum::<f64>());
        assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-9), "{points} {text}");
    }
}

#[test]
fn reports_follow_the_stated_distribution() {
    for (stream, (points, text)) in (0..).zip(CASES) {
        let (right, wrong) = (means(points, text), epsilon(text).units() * 11 / 10);
        let wrong = Oracle::new(OracleKind::Piecewise, points, Epsilon::from_units(wrong).unwrap()).unwrap();
        let all = all_reports(&right);
        for point in [0, points / 3, points - 1] {
            let mut random = SeededRandom::with_stream(230 + u64::from(point), stream);
            // At epsilon 0.1, a tenth more moves a probability by a four-hundredth only.
            let draws = if text == "0.1" { 2_000_000 } else { 400_000 };
            let mut counts = vec![0; all.len()];
            let batch = reports(&right, std::iter::repeat_n(point, draws), &mut random);
            batch.iter().for_each(|output| counts[usize::from(*output)] += 1);
            assert_fits(&counts, &likelihoods(&right, point));
            // Another number of outputs is seen by its first report. Rounding hides epsilon where it draws two levels.
            if wrong.aggregate().supports().len() == all.len() && point != points / 3 {
                assert_rejects(&counts, &likelihoods(&wrong, point));
            }
        }
    }
}

#[test]
fn rounding_that_is_a_tenth_off_is_seen() {
    // A point between two levels; the companion takes the point that is a tenth of a level farther.
    for (stream, (points, text)) in (0..).zip([(101, "2"), (1_001, "3"), (1_001, "4")]) {
        let oracle = means(points, text);
        let levels = all_reports(&oracle).len() as u32;
        let point = points / 7;
        let mut random = SeededRandom::with_stream(233, stream);
        let mut counts = vec![0; all_reports(&oracle).len()];
        let batch = reports(&oracle, std::iter::repeat_n(point, 400_000), &mut random);
        batch.iter().for_each(|output| counts[usize::from(*output)] += 1);
        assert_fits(&counts, &likelihoods(&oracle, point));
        assert_rejects(&counts, &likelihoods(&oracle, point + (points / levels).div_ceil(10)));
    }
}

#[test]
fn the_mean_of_one_number_is_unbiased_with_the_stated_variance() {
    for (points, text) in CASES {
        let oracle = means(points, text);
        let all = all_reports(&oracle);
        let mut largest: f64 = 0.0;
        for point in (0..points).step_by((points as usize / 50).max(1)) {
            let (mut mean, mut square) = (0.0, 0.0);
            for (report, likelihood) in all.iter().zip(likelihoods(&oracle, point)) {
                let answer = estimate(&oracle, &[report.as_slice()]).frequencies()[0];
                mean += likelihood * answer;
                square += likelihood * answer * answer;
            }
            let truth = share(&oracle, point);
            let variance = square - mean * mean;
            assert!((mean - truth).abs() < 1e-6 * variance.max(1.0), "{points} {text} {point}: {mean}");
            let stated = mean_variance(points, oracle.epsilon(), truth, 0.0);
            assert!((variance / stated - 1.0).abs() < 1e-6, "{points} {text} {point}: {variance} {stated}");
            largest = largest.max(variance);
        }
        let bound = oracle.variance(1).constant;
        assert!(largest <= bound * (1.0 + 1e-6), "{points} {text}: {largest} > {bound}");
        let closed = OracleKind::Piecewise.variance(points, oracle.epsilon(), 1).constant;
        assert!((bound / closed - 1.0).abs() < 1e-6, "{points} {text}: {bound} {closed}");
    }
}

/// The expectation of the estimated squared distance of the mean from `earlier`, over all pairs of reports of two users
/// with these distributions of reports.
fn expected_distance(oracle: &Oracle, laws: [&[f64]; 2], earlier: f64) -> f64 {
    let all = all_reports(oracle);
    let mut sum = 0.0;
    for (one, likelihood) in all.iter().zip(laws[0]) {
        for (other, and) in all.iter().zip(laws[1]) {
            let estimate = estimate(oracle, &[one, other]);
            let variance = estimate.mean_error().unwrap().unbiased.unwrap();
            sum += likelihood * and * ((estimate.frequencies()[0] - earlier).powi(2) - variance);
        }
    }
    sum
}

#[test]
fn the_distance_of_independent_draws_is_unbiased() {
    for (points, text) in [(2, "1"), (11, "0.7"), (101, "2"), (37, "5")] {
        let oracle = means(points, text);
        // Numbers are drawn: a third of them is one point, and the rest another.
        let (low, high) = (likelihoods(&oracle, 0), likelihoods(&oracle, points - 1));
        let law: Vec<f64> = low.iter().zip(&high).map(|(low, high)| low / 3.0 + high * 2.0 / 3.0).collect();
        for earlier in [0.0, 0.5, 0.9] {
            let expected = (2.0 / 3.0 - earlier) * (2.0 / 3.0 - earlier);
            let found = expected_distance(&oracle, [&law, &law], earlier);
            assert!((found - expected).abs() < 1e-6, "{points} {text} {earlier}: {found} {expected}");
        }
    }
}

#[test]
fn the_distance_of_a_fixed_population_is_low_by_its_variance_over_its_size() {
    for (points, text) in [(2, "1"), (11, "0.7"), (101, "2"), (37, "5")] {
        let oracle = means(points, text);
        let numbers = [points / 4, points - 1];
        let laws = numbers.map(|point| likelihoods(&oracle, point));
        let [one, other] = numbers.map(|point| share(&oracle, point));
        let (mean, scatter) = ((one + other) / 2.0, (one - other).powi(2) / 2.0);
        for earlier in [0.0, 0.5, 0.9] {
            let expected = (mean - earlier).powi(2) - scatter / 2.0;
            let found = expected_distance(&oracle, [&laws[0], &laws[1]], earlier);
            assert!((found - expected).abs() < 1e-6, "{points} {text} {earlier}: {found} {expected}");
        }
    }
}

#[test]
fn estimated_means_have_the_stated_variance() {
    // 400 repetitions: the mean of squared standardised errors has a standard deviation of 0.07, and lies within 0.35
    // of one for all seeds but one in a million.
    for (stream, (points, text)) in (0..).zip([(2, "1"), (101, "0.5"), (101, "2"), (1_001, "4"), (1_001, "7")]) {
        let oracle = means(points, text);
        let mut random = SeededRandom::with_stream(234, stream);
        let weights: Vec<f64> = (0..points).map(|point| if point % 5 == 0 { 3.0 } else { f64::from(point) }).collect();
        let total: f64 = weights.iter().sum();
        let truth: f64 = (0..points).map(|point| weights[point as usize] * share(&oracle, point)).sum::<f64>() / total;
        let (mut scatter, mut unbiased) = (0.0, 0.0);
        for _ in 0..400 {
            let counts = multinomial(2_000, &weights, &mut random).unwrap();
            let drawn = (0..points).flat_map(|point| std::iter::repeat_n(point, counts[point as usize] as usize));
            let batch = reports(&oracle, drawn, &mut random);
            let estimate = estimate(&oracle, &[batch.as_slice()]);
            let error = (estimate.frequencies()[0] - truth).powi(2);
            scatter += error / estimate.variance().constant / 400.0;
            unbiased += error / estimate.mean_error().unwrap().unbiased.unwrap() / 400.0;
        }
        assert!((scatter - 1.0).abs() < 0.35, "{points} {text}: {scatter}");
        assert!((unbiased - 1.0).abs() < 0.35, "{points} {text}: {unbiased}");
    }
}

#[test]
fn few_reports_state_no_certainty() {
    let oracle = means(101, "3");
    for report in all_reports(&oracle) {
        let one = estimate(&oracle, &[report.as_slice()]);
        assert_eq!(one.mean_error().unwrap().unbiased, None);
        assert!(one.variance().constant > 0.05, "{one:?}");
        // Equal reports have no sample variance, but their mean has one all the same.
        let same = estimate(&oracle, &[report.as_slice(); 4]);
        assert_eq!(same.mean_error().unwrap().unbiased, Some(0.0));
        assert!((same.variance().constant * 4.0 / one.variance().constant - 1.0).abs() < 1e-9);
    }
    let values = super::oracle(OracleKind::Grr, 4, "1");
    assert!(estimate(&values, &[&[2]]).mean_error().is_none());
}

#[test]
fn simulated_means_have_the_distribution_of_real_ones() {
    for (stream, (points, text)) in (0..).zip([(11, "1"), (11, "3")]) {
        let oracle = means(points, text);
        let counts: Vec<u64> = (0..u64::from(points)).map(|point| point % 3 * 20).collect();
        let users: u64 = counts.iter().sum();
        let truth = (0..points).map(|point| share(&oracle, point) * counts[point as usize] as f64).sum::<f64>();
        let truth = truth / users as f64;
        let mut random = SeededRandom::with_stream(235, stream);
        // Their mean is within five deviations, and their variance within a tenth: 4000 have one of 2.2 %.
        let drawn: Vec<f64> =
            (0..4_000).map(|_| estimate_of(&oracle, &counts, &mut random).unwrap().frequencies()[0]).collect();
        let one = |point: u32| mean_variance(points, oracle.epsilon(), share(&oracle, point), 0.0);
        let variance = (0..points).map(|point| counts[point as usize] as f64 * one(point)).sum::<f64>();
        let variance = variance / (users as f64).powi(2);
        let mean = drawn.iter().sum::<f64>() / 4_000.0;
        assert!((mean - truth).abs() < 5.0 * (variance / 4_000.0).sqrt(), "{text}: {mean} {truth}");
        let found = drawn.iter().map(|drawn| (drawn - truth).powi(2)).sum::<f64>() / 4_000.0;
        assert!((found / variance - 1.0).abs() < 0.12, "{text}: {found} {variance}");
    }
}

#[test]
fn rejects_grids_and_reports_that_do_not_exist() {
    for points in [0, 1, MAX_DOMAIN + 1] {
        let error = Oracle::new(OracleKind::Piecewise, points, epsilon("1")).unwrap_err().to_string();
        assert_eq!(error, format!("a domain of {points} values is outside 2..=16777216"));
    }
    assert!(Oracle::new(OracleKind::Piecewise, 4, epsilon("20.1")).is_err());
    for (points, text) in [(2, "0.000000001"), (MAX_DOMAIN, "20"), (MAX_DOMAIN, "0.000000001")] {
        assert!(Oracle::new(OracleKind::Piecewise, points, epsilon(text)).is_ok(), "{points} {text}");
    }
    let oracle = means(101, "2");
    assert_eq!(oracle.check(&[3]).unwrap_err().to_string(), "index 3 is outside 0..3");
    let mut aggregate = oracle.aggregate();
    let error = aggregate.add_batch(&[0, 2, 3]).unwrap_err();
    assert!(matches!(error, AggregateError::Report { index: 2, .. }), "{error}");
    assert_eq!(aggregate.reports(), 0);
    let other = means(101, "2.1").aggregate();
    assert!(matches!(aggregate.merge(&other), Err(AggregateError::Different { .. })));
    // Specs name oracles of frequencies only.
    assert!("piecewise".parse::<OracleKind>().is_err());
}

fn golden_aggregates() -> Vec<Aggregate> {
    let aggregate = |(points, text)| {
        let oracle = means(points, text);
        let mut aggregate = oracle.aggregate();
        let values = (0..40).map(|user| user % points);
        aggregate.add_batch(&reports(&oracle, values, &mut SeededRandom::new(236))).unwrap();
        aggregate
    };
    [(11, "1"), (101, "3")].map(aggregate).into()
}

#[test]
fn saved_aggregates_of_version_1_still_load() {
    let aggregates: Vec<Aggregate> =
        serde_json::from_str(include_str!("../../golden/aggregates_of_means_v1.json")).unwrap();
    let expected = golden_aggregates();
    assert_eq!(aggregates, expected, "{}", serde_json::to_string(&expected).unwrap());
    let load = |counts: &str| {
        let saved =
            format!(r#"{{"version":1,"oracle":"piecewise","domain":11,"epsilon":"1","reports":4,"counts":{counts}}}"#);
        serde_json::from_str::<Aggregate>(&saved).map_err(|error| error.to_string())
    };
    assert!(load("[1,3]").is_ok());
    assert!(load("[1,2,1]").unwrap_err().contains("has 3 counts where its oracle has 2"));
    assert!(load("[1,2]").unwrap_err().contains("cannot come from 4 reports"));
}

// Every platform and every other implementation must send these bytes.
#[test]
fn reports_of_a_seed_are_the_golden_bytes() {
    let hexadecimal = |(points, text)| {
        let oracle = means(points, text);
        let points = (0..points).step_by((points as usize / 10).max(1));
        let bytes = reports(&oracle, points, &mut SeededRandom::new(7));
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let found: Vec<String> = [(2, "1"), (101, "0.5"), (101, "2"), (1_001, "3.7")].map(hexadecimal).into();
    let expected: Vec<String> = serde_json::from_str(include_str!("../../golden/reports_of_means_v1.json")).unwrap();
    assert_eq!(found, expected, "{}", serde_json::to_string(&found).unwrap());
}

proptest! {
    #![proptest_config(repeatable(500))]

    #[test]
    fn merging_is_associative_and_commutative(
        points in 2_u32..2_000,
        units in 1_000_000_u64..9_000_000_000,
        seed: u64,
        users in 1_usize..120,
        cut in 0_usize..120,
    ) {
        let oracle = Oracle::new(OracleKind::Piecewise, points, Epsilon::from_units(units).unwrap()).unwrap();
        let mut random = SeededRandom::new(seed);
        let values: Vec<u32> = (0..users).map(|_| (random.next_word() % u64::from(points)) as u32).collect();
        let batch = reports(&oracle, values, &mut random);
        prop_assert!(batch.iter().all(|report| oracle.check(&[*report]).is_ok()));
        let mut whole = oracle.aggregate();
        whole.add_batch(&batch).unwrap();
        let mut one_by_one = oracle.aggregate();
        batch.iter().for_each(|report| one_by_one.add(&[*report]).unwrap());
        prop_assert_eq!(&one_by_one, &whole);
        let (first, second) = batch.split_at(cut.min(users));
        let part = |batch: &[u8]| {
            let mut part = oracle.aggregate();
            part.add_batch(batch).unwrap();
            serde_json::from_str::<Aggregate>(&serde_json::to_string(&part).unwrap()).unwrap()
        };
        let (mut ahead, mut behind) = (part(first), part(second));
        ahead.merge(&part(second)).unwrap();
        behind.merge(&part(first)).unwrap();
        prop_assert_eq!(&ahead, &whole);
        prop_assert_eq!(&behind, &whole);
        let estimate = whole.estimate().unwrap();
        prop_assert!(estimate.variance().constant > 0.0);
        prop_assert_eq!(ahead.estimate().unwrap(), estimate);
    }
}
