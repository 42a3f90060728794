//! Each primitive's whole output distribution against its formula, and the formula's exact loss against the claim.

use tidegate_kernel::primitives::{
    Neighbours, PrimitiveError, Protects, Scores, noisy_comparison, noisy_distance, noisy_histogram, noisy_max,
    noisy_scalar, noisy_sum, randomised_bucket,
};
use tidegate_kernel::{Permit, Provenance, Sealed, SeededRandom, SystemRandom};

use crate::support::{class_permit, epsilon, nonzero, permit, permit_at};

mod above_threshold;
mod bound;
mod bucket;
mod channel;
mod comparison;
mod continuous_groups;
mod deviation_tests;
mod distance;
mod grouped_histograms;
mod held;
mod histogram;
mod max;
mod query;
mod sampled_histogram;
mod scalar;

const DRAWS: usize = 200_000;

/// What rounding of floats may add to a loss that is computed by a formula.
const ROUNDING: f64 = 1e-9;

#[test]
fn a_noised_value_tells_where_its_randomness_came_from_and_what_it_cost() {
    let reading = Sealed::at(0, 5);
    let seeded =
        noisy_scalar(permit(epsilon("0.5")), &reading, 0..=9, Protects::Reading, &mut SeededRandom::new(1)).unwrap();
    assert_eq!(seeded.provenance(), Provenance::Seeded);
    assert_eq!(seeded.epsilon(), epsilon("0.5"));
    assert_eq!(*seeded.value(), seeded.clone().into_value());
    let random = &mut SystemRandom::new().unwrap();
    let private = noisy_scalar(permit(epsilon("0.5")), &reading, 0..=9, Protects::Reading, random).unwrap();
    assert_eq!(private.provenance(), Provenance::System);
}

#[test]
fn the_neighbouring_relation_is_written_in_words_and_sets_the_sensitivity() {
    assert_eq!(serde_json::to_string(&Neighbours::AddRemove).unwrap(), "\"add_remove\"");
    assert_eq!(serde_json::from_str::<Neighbours>("\"replace\"").unwrap(), Neighbours::Replace);
    assert_eq!(Neighbours::AddRemove.histogram_sensitivity(nonzero(3)), 3);
    assert_eq!(Neighbours::Replace.histogram_sensitivity(nonzero(3)), 6);
    assert_eq!(Neighbours::Replace.histogram_sensitivity(nonzero(u64::MAX)), u64::MAX);
}

/// What each primitive says to a permit for data of timestamp 0 that concern everyone.
fn refusals(permit_of: impl Fn() -> Permit) -> Vec<PrimitiveError> {
    let random = &mut SeededRandom::new(1);
    let (reading, counts, scores) = (Sealed::at(0, 5), Sealed::at(0, vec![1, 2]), Sealed::at(0, vec![1, 2]));
    let (neighbours, once, good) = (Neighbours::AddRemove, nonzero(1), || permit(epsilon("1")));
    let (range, protects) = (0..=9, Protects::Reading);
    vec![
        noisy_scalar(permit_of(), &reading, range.clone(), protects, random).unwrap_err(),
        noisy_sum([(good(), &reading), (permit_of(), &reading)], range.clone(), protects, random).unwrap_err(),
        noisy_comparison((good(), &reading), (permit_of(), &reading), random).unwrap_err(),
        noisy_comparison((permit_of(), &reading), (good(), &reading), random).unwrap_err(),
        randomised_bucket(permit_of(), &reading, range, 3, random).unwrap_err(),
        noisy_histogram(permit_of(), &counts, neighbours, once, random).unwrap_err(),
        noisy_distance(permit_of(), &counts, &[1, 1], neighbours, once, random).unwrap_err(),
        noisy_max(permit_of(), &scores, 1, Scores::AnyDirection, random).unwrap_err(),
    ]
}

/// Otherwise a loop over other timestamps' permits would publish one timestamp's data again and again, in no window's
/// account.
#[test]
fn a_permit_of_another_timestamp_pays_for_nothing() {
    let wrong = PrimitiveError::Timestamp { permit: 3, data: 0 };
    assert!(refusals(|| permit_at(3, epsilon("1"))).iter().all(|refusal| *refusal == wrong));
    assert_eq!(wrong.to_string(), "the permit is for timestamp 3, but the data are of timestamp 0");
}

/// Otherwise the members of all classes would be exposed to what one class has spent.
#[test]
fn a_permit_of_one_class_does_not_pay_for_everyone() {
    let wrong = PrimitiveError::ClassPermit { class: 4 };
    assert!(refusals(|| class_permit(4, epsilon("1"))).iter().all(|refusal| *refusal == wrong));
    assert!(refusals(|| class_permit(4, epsilon("2")).split(epsilon("1")).unwrap().1).contains(&wrong));
    assert_eq!(wrong.to_string(), "the permit is for the users of class 4 only, but the data are not");
}
