use tidegate_kernel::noise::ScaleError;
use tidegate_kernel::primitives::{AboveThreshold, PrimitiveError, Side, ThresholdNoise};
use tidegate_kernel::{Epsilon, Provenance, Sealed, SeededRandom, SystemRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{all_vectors, assert_fits, assert_rejects, epsilon, geometric_tail, loss, permit, tally};

/// The probability of every transcript: "above" at the first query, at the second, ..., and never. Summed over what
/// the threshold's noise can be.
fn transcripts(queries: &[i64], threshold: i64, threshold_scale: f64, query_scale: f64) -> Vec<f64> {
    let mut probabilities = vec![0.0; queries.len() + 1];
    for rho in 0..(40.0 * threshold_scale) as i64 {
        let mut open = geometric_tail(threshold_scale, rho) - geometric_tail(threshold_scale, rho + 1);
        for (index, query) in queries.iter().enumerate() {
            let above = geometric_tail(query_scale, threshold + rho - query);
            probabilities[index] += open * above;
            open *= 1.0 - above;
        }
        probabilities[queries.len()] += open;
    }
    probabilities
}

/// The scales of the threshold's and the queries' noise.
fn scales(sensitivity: u64, epsilon: f64) -> (f64, f64) {
    let for_threshold = epsilon / (1.0 + 2_f64.powf(2.0 / 3.0));
    (sensitivity as f64 / for_threshold, 2.0 * sensitivity as f64 / (epsilon - for_threshold))
}

#[test]
fn every_transcript_has_its_probability() {
    let cases = [(1, "1", 8, vec![0, 2, 5, 1]), (3, "2", 4, vec![-2, 4, 0]), (1, "0.5", -3, vec![-9, -9, -9, -4, -4])];
    for (index, (sensitivity, text, threshold, queries)) in cases.into_iter().enumerate() {
        let amount = epsilon(text);
        let sealed: Vec<Sealed<i64>> = queries.iter().map(|query| Sealed::new(*query)).collect();
        let mut random = SeededRandom::new(160 + index as u64);
        let drawn = tally(DRAWS, queries.len() + 1, || {
            let mut test = AboveThreshold::open(permit(amount), threshold, sensitivity, &mut random).unwrap();
            let is_above = |query| *test.ask(query, &mut random).unwrap().value() == Side::Above;
            sealed.iter().position(is_above).unwrap_or(queries.len())
        });
        let (first, second) = scales(sensitivity, amount.as_f64());
        let stated = ThresholdNoise::calibrated(sensitivity, amount).unwrap();
        assert!((stated.threshold.as_f64() / first - 1.0).abs() < 1e-8);
        assert!((stated.query.as_f64() / second - 1.0).abs() < 1e-8);
        let weights = |factor: f64, of_threshold: bool, of_queries: bool| {
            let scaled = |scale: f64, applies: bool| if applies { factor * scale } else { scale };
            transcripts(&queries, threshold, scaled(first, of_threshold), scaled(second, of_queries))
        };
        assert!((weights(1.0, true, true).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_fits(&drawn, &weights(1.0, true, true));
        assert_rejects(&drawn, &weights(1.1, true, true));
        assert_rejects(&drawn, &weights(0.9, true, true));
        assert_rejects(&drawn, &weights(1.1, false, true));
        assert_rejects(&drawn, &weights(1.1, true, false));
    }
}

#[test]
fn no_neighbour_loses_more_than_epsilon_and_some_lose_all_of_it() {
    let amount = 1.0;
    for sensitivity in [1, 2] {
        let (first, second) = scales(sensitivity, amount);
        let reach = sensitivity as i64;
        let moves: Vec<i64> = (-reach..=reach).collect();
        let mut worst = 0.0_f64;
        for queries in all_vectors(&[-4, -1, 0, 2], 3) {
            let before = transcripts(&queries, 2, first, second);
            for moved in all_vectors(&moves, 3) {
                let neighbour: Vec<i64> = queries.iter().zip(moved).map(|(query, by)| query + by).collect();
                worst = worst.max(loss(&before, &transcripts(&neighbour, 2, first, second)));
            }
        }
        assert!((worst - amount).abs() < ROUNDING, "{sensitivity}: {worst}");
    }
}

#[test]
fn above_closes_the_test_for_good() {
    let random = &mut SeededRandom::new(1);
    let mut test = AboveThreshold::open(permit(epsilon("1")), 0, 1, random).unwrap();
    assert_eq!(*test.ask(&Sealed::new(-1_000), random).unwrap().value(), Side::Below);
    assert!(!test.is_closed());
    test.admit(permit(epsilon("1"))).unwrap();
    assert_eq!(*test.ask(&Sealed::new(1_000), random).unwrap().value(), Side::Above);
    assert!(test.is_closed());
    assert_eq!(test.ask(&Sealed::new(-1_000), random), Err(PrimitiveError::Closed));
    assert_eq!(test.admit(permit(epsilon("1"))), Err(PrimitiveError::Closed));
    let message = "the above-threshold test is closed: it answered \"above\", which ends it";
    assert_eq!(PrimitiveError::Closed.to_string(), message);
}

#[test]
fn each_timestamp_that_takes_part_pays_the_same() {
    let random = &mut SeededRandom::new(1);
    let mut test = AboveThreshold::open(permit(epsilon("1")), 0, 1, random).unwrap();
    let refused = test.admit(permit(epsilon("0.9")));
    assert_eq!(refused, Err(PrimitiveError::UnequalPermits { first: epsilon("1"), other: epsilon("0.9") }));
}

#[test]
fn a_test_that_was_opened_with_a_seed_is_not_private() {
    let seeded = &mut SeededRandom::new(1);
    let system = &mut SystemRandom::new().unwrap();
    let query = Sealed::new(-1_000);
    let mut opened_with_seed = AboveThreshold::open(permit(epsilon("1")), 0, 1, seeded).unwrap();
    assert_eq!(opened_with_seed.ask(&query, system).unwrap().provenance(), Provenance::Seeded);
    let mut private = AboveThreshold::open(permit(epsilon("1")), 0, 1, system).unwrap();
    assert_eq!(private.ask(&query, system).unwrap().provenance(), Provenance::System);
    assert_eq!(private.ask(&query, seeded).unwrap().provenance(), Provenance::Seeded);
}

#[test]
fn its_debug_output_hides_the_noisy_threshold() {
    let random = &mut SeededRandom::new(1);
    let test = AboveThreshold::open(permit(epsilon("1")), 123_456_789, 1, random).unwrap();
    let shown = format!("{test:?}");
    assert!(shown.contains("noisy_threshold: Some(Sealed(..))") && !shown.contains("1234567"), "{shown}");
}

#[test]
fn an_epsilon_or_sensitivity_that_cannot_be_shared_out_is_refused() {
    let random = &mut SeededRandom::new(1);
    let units = |units: u64| Epsilon::from_units(units).unwrap();
    let error = AboveThreshold::open(permit(units(2)), 0, 1, random).unwrap_err();
    assert_eq!(error, PrimitiveError::TooSmallToShare { given: units(2) });
    assert!(AboveThreshold::open(permit(units(3)), 0, 1, random).is_ok());
    let error = AboveThreshold::open(permit(epsilon("1")), 0, u64::MAX, random).unwrap_err();
    assert_eq!(error, PrimitiveError::Scale(ScaleError { sensitivity: u64::MAX }));
}
