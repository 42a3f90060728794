use tidegate_kernel::primitives::{
    Comparisons, ContinuousGroups, DeviationTests, Held, PrimitiveError, Protects, Summing, noisy_sum,
};
use tidegate_kernel::{Ledger, SeededRandom, UnlockError, VaultKey, Window};

use crate::support::{class_permit, epsilon, nonzero, permit_at, sealed_at};

#[test]
fn readings_survive_locking() {
    let (key, amount) = (VaultKey::from_bytes([5; 32]), epsilon("0.25"));
    let mut held = Held::default();
    for (timestamp, value) in [(3, 40), (4, -7), (9, i64::MAX)] {
        held.push(permit_at(timestamp, amount), sealed_at(timestamp, value)).unwrap();
    }
    let ledger = Ledger::fully_spent(amount, Window::EVENT, 9);
    let vault = key.vault(&ledger, "a stream");
    let saved = serde_json::to_string(&held.lock(&vault).unwrap()).unwrap();
    let mut loaded = Held::unlock(&serde_json::from_str(&saved).unwrap(), &vault).unwrap();
    assert_eq!(loaded.timestamps().collect::<Vec<_>>(), [3, 4, 9]);
    assert!(loaded.amounts().all(|left| left == amount));
    assert_eq!((loaded.len(), loaded.is_empty()), (3, false));
    let sum = |held: &mut Held| {
        let (permits, readings): (Vec<_>, Vec<_>) = held.drain().unzip();
        let members = permits.into_iter().zip(&readings);
        noisy_sum(members, -100..=100, Protects::Reading, &mut SeededRandom::new(7)).unwrap()
    };
    assert_eq!(sum(&mut loaded), sum(&mut held));
    assert!(loaded.is_empty());
    assert_eq!(Held::unlock(&held.lock(&vault).unwrap(), &vault).unwrap().len(), 0);
    let other = VaultKey::from_bytes([6; 32]);
    for vault in [other.vault(&ledger, "a stream"), key.vault(&ledger, "another stream")] {
        assert_eq!(Held::unlock(&serde_json::from_str(&saved).unwrap(), &vault).err(), Some(UnlockError::Key));
    }
}

#[test]
fn unlocking_needs_a_ledger_that_granted_the_permits() {
    let (key, one) = (VaultKey::from_bytes([5; 32]), epsilon("1"));
    let (mut held, mut comparisons) = (Held::default(), Comparisons::new(one, nonzero(2)).unwrap());
    let mut groups = ContinuousGroups::new(0..=9, Protects::Reading, one, 90).unwrap();
    let reading = sealed_at(7, 3);
    assert!(groups.offer(permit_at(7, one), &reading, &mut SeededRandom::new(1)).is_ok());
    comparisons.admit(permit_at(7, one), &reading).unwrap();
    held.push(permit_at(7, one), reading).unwrap();
    let enough = Ledger::fully_spent(one, Window::EVENT, 7);
    let too_early = Ledger::fully_spent(one, Window::EVENT, 6);
    let too_little = Ledger::fully_spent(epsilon("0.999999999"), Window::EVENT, 7);
    let new = Ledger::new(one, Window::EVENT);
    let refused = Err(UnlockError::NotGranted { timestamp: 7, amount: one });
    for (ledger, expected) in [(enough, Ok(())), (too_early, refused), (too_little, refused), (new, refused)] {
        let vault = key.vault(&ledger, "");
        assert_eq!(Held::unlock(&held.lock(&vault).unwrap(), &vault).map(|_| ()), expected);
        let locked = groups.lock(&vault).unwrap();
        assert_eq!(groups.unlock(&locked, &vault), expected);
        let locked = comparisons.lock(&vault).unwrap();
        assert_eq!(comparisons.unlock(&locked, &vault), expected);
    }
}

#[test]
fn readings_are_held_in_order_with_their_permits() {
    let (mut held, amount) = (Held::default(), epsilon("1"));
    let wrong = PrimitiveError::Timestamp { permit: 2, data: 3 };
    assert_eq!(held.push(permit_at(2, amount), sealed_at(3, 1)), Err(wrong));
    assert_eq!(held.push(class_permit(4, amount), sealed_at(0, 1)), Err(PrimitiveError::ClassPermit { class: 4 }));
    held.push(permit_at(3, amount), sealed_at(3, 1)).unwrap();
    let late = PrimitiveError::OutOfOrder { timestamp: 3, latest: 3 };
    assert_eq!(held.push(permit_at(3, amount), sealed_at(3, 1)), Err(late));
    assert_eq!(late.to_string(), "timestamp 3 does not come after 3, the latest so far");
}

#[test]
fn prepared_primitives_publish_the_same() {
    let amount = epsilon("0.5");
    let readings = [sealed_at(0, 30), sealed_at(1, 95)];
    let members = || readings.iter().map(|reading| (permit_at(reading.timestamp(), amount), reading));
    let summing = Summing::new(0..=90, Protects::Reading, amount).unwrap();
    let once = summing.publish(members(), &mut SeededRandom::new(5)).unwrap();
    assert_eq!(once, noisy_sum(members(), 0..=90, Protects::Reading, &mut SeededRandom::new(5)).unwrap());
    assert!((summing.scale().as_f64() - 180.0).abs() < 1e-9);
    let random = &mut SeededRandom::new(5);
    assert_eq!(summing.publish([], random), Err(PrimitiveError::Nothing { expected: "reading" }));
    let other = [(permit_at(0, epsilon("1")), &readings[0])];
    let refused = PrimitiveError::UnequalPermits { first: amount, other: epsilon("1") };
    assert_eq!(summing.publish(other, random), Err(refused));
    let other = [(permit_at(1, amount), &readings[0])];
    assert_eq!(summing.publish(other, random), Err(PrimitiveError::Timestamp { permit: 1, data: 0 }));
}

#[test]
fn debug_output_hides_held_readings() {
    let (one, random) = (epsilon("1"), &mut SeededRandom::new(1));
    let mut held = Held::default();
    let mut groups = ContinuousGroups::new(0..=99_999, Protects::Reading, one, 1 << 40).unwrap();
    let mut tests = DeviationTests::new(0..=99_999, Protects::Reading, one, 0, 2).unwrap();
    let mut comparisons = Comparisons::new(one, nonzero(2)).unwrap();
    for timestamp in 0..2 {
        let (reading, permit) = (sealed_at(timestamp, 76_543), || permit_at(timestamp, one));
        assert_eq!(groups.offer(permit(), &reading, random).map(|_| ()), Ok(()));
        tests.admit(permit(), &reading).unwrap();
        comparisons.admit(permit(), &reading).unwrap();
        held.push(permit(), reading).unwrap();
    }
    assert_eq!(tests.ask(&[0, 1], random).map(|_| ()), Ok(()));
    let printed = format!("{held:?} {groups:?} {tests:?} {comparisons:?}");
    // Everything but the readings and the noisy threshold is public.
    assert!(!printed.contains("76543") && printed.contains("noisy_threshold: Some(Sealed(..))"), "{printed}");
}
