//! Output distribution of each primitive against its formula, and the exact loss against the claim.

use tidegate_kernel::oracle::{Oracle, OracleError, OracleKind};
use tidegate_kernel::primitives::{
    AboveThreshold, ClassHistograms, Held, Neighbours, PrimitiveError, Protects, Scores, SealedQuery, Side,
    grouped_histograms, noisy_comparison, noisy_distance, noisy_histogram, noisy_max, noisy_scalar, noisy_sum,
    randomised_bucket, sampled_histogram,
};
use tidegate_kernel::{ClassLedgers, Epsilon, Ledger, Permit, Provenance, Sealed, SeededRandom, SystemRandom, Window};

use crate::support::{account, class_permit, epsilon, nonzero, permit, permit_at, sealed_at};

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

/// Tolerance for float rounding in a computed loss.
const ROUNDING: f64 = 1e-9;

#[test]
fn noised_values_carry_provenance_and_cost() {
    let reading = sealed_at(0, 5);
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
fn the_neighbouring_relation_sets_the_sensitivity() {
    assert_eq!(serde_json::to_string(&Neighbours::AddRemove).unwrap(), "\"add_remove\"");
    assert_eq!(serde_json::from_str::<Neighbours>("\"replace\"").unwrap(), Neighbours::Replace);
    assert_eq!(Neighbours::AddRemove.histogram_sensitivity(nonzero(3)), 3);
    assert_eq!(Neighbours::Replace.histogram_sensitivity(nonzero(3)), 6);
    assert_eq!(Neighbours::Replace.histogram_sensitivity(nonzero(u64::MAX)), u64::MAX);
}

/// The errors of each primitive for a permit, on data of timestamp 0 without a class.
fn refusals(permit_of: impl Fn() -> Permit) -> Vec<PrimitiveError> {
    let random = &mut SeededRandom::new(1);
    let (reading, counts, scores) = (sealed_at(0, 5), sealed_at(0, vec![1, 2]), sealed_at(0, vec![1, 2]));
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

/// Otherwise permits of other timestamps could publish one timestamp's data repeatedly, outside any window's account.
#[test]
fn a_permit_of_another_timestamp_pays_for_nothing() {
    let wrong = PrimitiveError::Timestamp { permit: 3, data: 0 };
    assert!(refusals(|| permit_at(3, epsilon("1"))).iter().all(|refusal| *refusal == wrong));
    assert_eq!(wrong.to_string(), "the permit is for timestamp 3, but the data are of timestamp 0");
}

/// Otherwise a new ledger with its own budget could open the data, unknown to the ledger that protects them.
#[test]
fn a_new_ledger_opens_no_existing_data() {
    let on_the_spot = || Ledger::new(Epsilon::MAX, Window::EVENT).spend(0, Epsilon::MAX).unwrap();
    assert!(refusals(on_the_spot).iter().all(|refusal| *refusal == PrimitiveError::Account));
    let of_a_class = || {
        let mut ledgers = ClassLedgers::default();
        ledgers.register(4, Ledger::new(Epsilon::MAX, Window::EVENT));
        ledgers.spend(4, 0, Epsilon::MAX).unwrap()
    };
    assert!(refusals(of_a_class).iter().all(|refusal| *refusal == PrimitiveError::Account));
    let random = &mut SeededRandom::new(1);
    let classes = ClassHistograms::seal(account(), 0, &[4], vec![1, 2]).unwrap();
    let refused = grouped_histograms([vec![of_a_class()]], &classes, Neighbours::AddRemove, random).unwrap_err();
    assert_eq!(refused, PrimitiveError::Account);
    let refused = sampled_histogram([of_a_class()], &classes, Epsilon::MAX, Neighbours::Replace, random).unwrap_err();
    assert_eq!(refused, PrimitiveError::Account);
    assert_eq!(Held::default().push(on_the_spot(), sealed_at(0, 5)), Err(PrimitiveError::Account));
    let symbol = sealed_at(0, 1_u32);
    let oracle = Oracle::new(OracleKind::Grr, 3, epsilon("1")).unwrap();
    let permit = Ledger::new(epsilon("1"), Window::EVENT).spend(0, epsilon("1")).unwrap();
    assert_eq!(oracle.perturb_sealed(permit, &symbol, random).err(), Some(OracleError::Account));
}

/// A test, its queries and its new timestamps belong to the account that opened it.
#[test]
fn above_threshold_reads_only_its_own_account() {
    let (one, random) = (epsilon("1"), &mut SeededRandom::new(1));
    let mut other = Ledger::new(one, Window::EVENT);
    let query = |readings: &[Sealed<i64>]| SealedQuery::deviation(readings, 0..=9, Protects::Reading);
    let own = query(&[sealed_at(0, 5), sealed_at(1, 6)]).unwrap();
    let foreign = query(&[Sealed::at(other.account(), 0, 5)]).unwrap();
    let mixed = query(&[sealed_at(0, 5), Sealed::at(other.account(), 1, 6)]);
    assert_eq!(mixed.err(), Some(PrimitiveError::Account));
    let mut test = AboveThreshold::open(permit(one), 1_000_000, 18, random).unwrap();
    assert_eq!(test.ask([], &foreign, random), Err(PrimitiveError::Account));
    assert_eq!(test.ask([other.spend(1, one).unwrap()], &own, random), Err(PrimitiveError::Account));
    assert_eq!(*test.ask([permit_at(1, one)], &own, random).unwrap().value(), Side::Below);
}

/// Otherwise all classes would be exposed to the spend of one.
#[test]
fn a_permit_of_one_class_does_not_pay_for_everyone() {
    let wrong = PrimitiveError::ClassPermit { class: 4 };
    assert!(refusals(|| class_permit(4, epsilon("1"))).iter().all(|refusal| *refusal == wrong));
    assert!(refusals(|| class_permit(4, epsilon("2")).split(epsilon("1")).unwrap().1).contains(&wrong));
    assert_eq!(wrong.to_string(), "the permit is for the users of class 4 only, but the data are not");
}
