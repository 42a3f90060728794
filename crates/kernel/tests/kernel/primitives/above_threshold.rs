use tidegate_kernel::noise::ScaleError;
use tidegate_kernel::primitives::{AboveThreshold, PrimitiveError, Protects, SealedQuery, Side, ThresholdNoise};
use tidegate_kernel::{Epsilon, Permit, Provenance, Sealed, SeededRandom, SystemRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    all_vectors, assert_fits, assert_rejects, class_permit, epsilon, geometric_tail, loss, nonzero, permit, permit_at,
    sealed_at, tally,
};

/// A query for a number at timestamp 0 with the given sensitivity.
fn query(value: i64, sensitivity: u64) -> SealedQuery {
    let protects = Protects::Contribution(nonzero(sensitivity));
    SealedQuery::reading(&sealed_at(0, value), -10_000..=10_000, protects).unwrap()
}

/// The probability of every transcript: "above" at the first query, at the second, ..., and never. The threshold's
/// noise is summed out.
pub fn transcripts(queries: &[i64], threshold: i64, threshold_scale: f64, query_scale: f64) -> Vec<f64> {
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
        let sealed: Vec<SealedQuery> = queries.iter().map(|value| query(*value, sensitivity)).collect();
        let mut random = SeededRandom::new(160 + index as u64);
        let drawn = tally(DRAWS, queries.len() + 1, || {
            let mut test = AboveThreshold::open(permit(amount), threshold, sensitivity, &mut random).unwrap();
            let is_above = |query| *test.ask([], query, &mut random).unwrap().value() == Side::Above;
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
fn the_largest_loss_is_epsilon() {
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
fn above_closes_the_test() {
    let random = &mut SeededRandom::new(1);
    let mut test = AboveThreshold::open(permit(epsilon("1")), 0, 1, random).unwrap();
    assert_eq!(*test.ask([], &query(-1_000, 1), random).unwrap().value(), Side::Below);
    assert!(!test.is_closed());
    assert_eq!(*test.ask([], &query(1_000, 1), random).unwrap().value(), Side::Above);
    assert!(test.is_closed());
    assert_eq!(test.ask([], &query(-1_000, 1), random), Err(PrimitiveError::Closed));
    let message = "the above-threshold test is closed: it answered \"above\", which ends it";
    assert_eq!(PrimitiveError::Closed.to_string(), message);
}

/// A test over 0..=9, opened at timestamp 3, and readings of the timestamps 3, 4, 5 and 6.
fn a_group() -> (AboveThreshold, Vec<Sealed<i64>>) {
    let opened_by = permit_at(3, epsilon("1"));
    let test = AboveThreshold::open(opened_by, 10_000, 18, &mut SeededRandom::new(1)).unwrap();
    (test, (3..=6).map(|timestamp| sealed_at(timestamp, timestamp as i64)).collect())
}

fn deviation(readings: &[Sealed<i64>]) -> SealedQuery {
    SealedQuery::deviation(readings, 0..=9, Protects::Reading).unwrap()
}

#[test]
fn each_timestamp_is_paid_for_once() {
    let random = &mut SeededRandom::new(1);
    let (mut test, readings) = a_group();
    let one = epsilon("1");
    let side = |answer: Result<tidegate_kernel::primitives::Noised<Side>, PrimitiveError>| answer.unwrap().into_value();
    assert_eq!(side(test.ask([], &deviation(&readings[..1]), random)), Side::Below);
    assert_eq!(side(test.ask([permit_at(4, one)], &deviation(&readings[..2]), random)), Side::Below);
    // Queries of paid timestamps need no permit.
    assert_eq!(side(test.ask([], &deviation(&readings[..2]), random)), Side::Below);
    assert_eq!(side(test.ask([], &deviation(&readings[1..2]), random)), Side::Below);
    let newcomers = [permit_at(6, one), permit_at(5, one)];
    assert_eq!(side(test.ask(newcomers, &deviation(&readings), random)), Side::Below);
}

#[test]
fn rejects_a_query_of_an_unpaid_timestamp() {
    let random = &mut SeededRandom::new(1);
    let (one, none) = (epsilon("1"), Vec::<Permit>::new);
    let (mut test, readings) = a_group();
    let mut refusal = |permits: Vec<Permit>, query: &SealedQuery| test.ask(permits, query, random).unwrap_err();
    let unpaid = refusal(none(), &deviation(&readings[..2]));
    assert_eq!(unpaid, PrimitiveError::Unpaid { timestamp: 4 });
    assert_eq!(unpaid.to_string(), "the query reads timestamp 4, for which there is no permit");
    let half_paid = refusal(vec![permit_at(5, one)], &deviation(&readings[..3]));
    assert_eq!(half_paid, PrimitiveError::Unpaid { timestamp: 4 });
    // The permits of a refused query did not count.
    assert_eq!(refusal(none(), &deviation(&readings[2..3])), PrimitiveError::Unpaid { timestamp: 5 });
    let other = refusal(vec![permit_at(9, one)], &deviation(&readings[..2]));
    assert_eq!(other, PrimitiveError::Unread { timestamp: 9 });
    assert_eq!(other.to_string(), "a permit was given for timestamp 9, which the query does not read");
    let again = refusal(vec![permit_at(3, one), permit_at(4, one)], &deviation(&readings[..2]));
    assert_eq!(again, PrimitiveError::PaidTwice { timestamp: 3 });
    let twice = refusal(vec![permit_at(4, one), permit_at(4, one)], &deviation(&readings[..2]));
    assert_eq!(twice, PrimitiveError::PaidTwice { timestamp: 4 });
    assert_eq!(twice.to_string(), "timestamp 4 has been paid for already");
    let less = refusal(vec![permit_at(4, epsilon("0.9"))], &deviation(&readings[..2]));
    assert_eq!(less, PrimitiveError::UnequalPermits { first: one, other: epsilon("0.9") });
    let class = refusal(vec![class_permit(7, one)], &deviation(&readings[..2]));
    assert_eq!(class, PrimitiveError::ClassPermit { class: 7 });
    let opened = AboveThreshold::open(class_permit(7, one), 0, 1, random);
    assert_eq!(opened.unwrap_err(), PrimitiveError::ClassPermit { class: 7 });
}

#[test]
fn rejects_a_query_that_is_too_sensitive() {
    let random = &mut SeededRandom::new(1);
    let mut test = AboveThreshold::open(permit(epsilon("1")), 0, 2, random).unwrap();
    assert!(test.ask([], &query(-1_000, 2), random).is_ok());
    let refused = test.ask([], &query(-1_000, 3), random).unwrap_err();
    assert_eq!(refused, PrimitiveError::TooSensitive { query: 3, test: 2 });
    assert_eq!(refused.to_string(), "one timestamp can move the query by 3, but the test was opened for at most 2");
}

#[test]
fn a_seeded_test_is_not_private() {
    let seeded = &mut SeededRandom::new(1);
    let system = &mut SystemRandom::new().unwrap();
    let query = query(-1_000, 1);
    let mut opened_with_seed = AboveThreshold::open(permit(epsilon("1")), 0, 1, seeded).unwrap();
    assert_eq!(opened_with_seed.ask([], &query, system).unwrap().provenance(), Provenance::Seeded);
    let mut private = AboveThreshold::open(permit(epsilon("1")), 0, 1, system).unwrap();
    assert_eq!(private.ask([], &query, system).unwrap().provenance(), Provenance::System);
    assert_eq!(private.ask([], &query, seeded).unwrap().provenance(), Provenance::Seeded);
}

#[test]
fn debug_output_hides_the_noisy_threshold() {
    let random = &mut SeededRandom::new(1);
    let test = AboveThreshold::open(permit(epsilon("1")), 123_456_789, 1, random).unwrap();
    let shown = format!("{test:?}");
    assert!(shown.contains("noisy_threshold: Some(Sealed(..))") && !shown.contains("1234567"), "{shown}");
}

#[test]
fn rejects_epsilons_too_small_to_divide() {
    let random = &mut SeededRandom::new(1);
    let units = |units: u64| Epsilon::from_units(units).unwrap();
    let error = AboveThreshold::open(permit(units(2)), 0, 1, random).unwrap_err();
    assert_eq!(error, PrimitiveError::TooSmallToShare { given: units(2) });
    assert!(AboveThreshold::open(permit(units(3)), 0, 1, random).is_ok());
    let error = AboveThreshold::open(permit(epsilon("1")), 0, u64::MAX, random).unwrap_err();
    assert_eq!(error, PrimitiveError::Scale(ScaleError { sensitivity: u64::MAX }));
}
