//! Each primitive's whole output distribution against its formula, and the formula's exact loss against the claim.

use tidegate_kernel::primitives::{Neighbours, noisy_scalar};
use tidegate_kernel::{Provenance, Sealed, SeededRandom, SystemRandom};

use crate::support::{epsilon, nonzero, permit};

mod above_threshold;
mod bucket;
mod comparison;
mod distance;
mod histogram;
mod max;
mod sampled_histogram;
mod scalar;

const DRAWS: usize = 200_000;

/// What rounding of floats may add to a loss that is computed by a formula.
const ROUNDING: f64 = 1e-9;

#[test]
fn a_noised_value_tells_where_its_randomness_came_from_and_what_it_cost() {
    let reading = Sealed::new(5);
    let seeded = noisy_scalar(permit(epsilon("0.5")), &reading, 1, &mut SeededRandom::new(1)).unwrap();
    assert_eq!(seeded.provenance(), Provenance::Seeded);
    assert_eq!(seeded.epsilon(), epsilon("0.5"));
    assert_eq!(*seeded.value(), seeded.clone().into_value());
    let private = noisy_scalar(permit(epsilon("0.5")), &reading, 1, &mut SystemRandom::new().unwrap()).unwrap();
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
