use tidegate_kernel::primitives::{ContinuousGroups, Placed, PrimitiveError, Protects};
use tidegate_kernel::{Epsilon, Ledger, Provenance, SeededRandom, SystemRandom, UnlockError, VaultKey, Window};

use super::above_threshold::transcripts;
use super::{DRAWS, ROUNDING};
use crate::support::{
    all_vectors, assert_fits, assert_rejects, class_permit, epsilon, loss, nonzero, permit_at, sealed_at, tally,
};

/// The deviation of a group, rounded down.
fn deviation(values: &[i64]) -> i64 {
    let (count, sum) = (values.len() as i64, values.iter().sum::<i64>());
    values.iter().map(|value| (count * value - sum).abs()).sum::<i64>() / count
}

/// The probability of every outcome, by the set of readings that stay alone: bit `i` for reading `i`.
fn courses(values: &[i64], threshold: i64, threshold_scale: f64, query_scale: f64) -> Vec<f64> {
    fn from(start: usize, alone: usize, weight: f64, values: &[i64], setting: (i64, f64, f64), sums: &mut [f64]) {
        if start >= values.len() {
            sums[alone] += weight;
            return;
        }
        let queries: Vec<i64> = (start + 1..values.len()).map(|end| deviation(&values[start..=end])).collect();
        let endings = transcripts(&queries, setting.0, setting.1, setting.2);
        for (index, probability) in endings.into_iter().enumerate() {
            let closed_by = start + 1 + index;
            let alone = if index < queries.len() { alone | 1 << closed_by } else { alone };
            from(closed_by + 1, alone, weight * probability, values, setting, sums);
        }
    }
    let mut sums = vec![0.0; 1 << values.len()];
    from(0, 0, 1.0, values, (threshold, threshold_scale, query_scale), &mut sums);
    sums
}

/// The scales of the threshold's and the queries' noise.
fn scales(sensitivity: u64, epsilon: f64) -> (f64, f64) {
    let (twice, for_threshold) = (2.0 * sensitivity as f64, epsilon / (1.0 + 2_f64.powf(2.0 / 3.0)));
    (twice / for_threshold, 2.0 * twice / (epsilon - for_threshold))
}

fn place(groups: &mut ContinuousGroups, values: &[i64], amount: Epsilon, random: &mut SeededRandom) -> Vec<Placed> {
    let offer = |(timestamp, value): (usize, &i64)| {
        let timestamp = timestamp as u64;
        groups.offer(permit_at(timestamp, amount), &sealed_at(timestamp, *value), random).unwrap().into_value()
    };
    values.iter().enumerate().map(offer).collect()
}

#[test]
fn every_outcome_has_its_probability() {
    let protects = Protects::Contribution(nonzero(1));
    for (index, (values, text, threshold)) in
        [(vec![0, 6, 1, 5, 2], "3", 2), (vec![-3, 90, 4, 4], "1.5", 6)].into_iter().enumerate()
    {
        let amount = epsilon(text);
        let mut groups = ContinuousGroups::new(-2..=7, protects, amount, threshold).unwrap();
        let mut random = SeededRandom::new(310 + index as u64);
        let drawn = tally(DRAWS, 1 << values.len(), || {
            groups.close();
            let placed = place(&mut groups, &values, amount, &mut random);
            // Exactly the readings after one that stayed alone open a group.
            for (before, after) in [None].into_iter().chain(placed.iter().map(Some)).zip(&placed) {
                assert_eq!(*after == Placed::Opens, before.is_none_or(|before| *before == Placed::Alone));
            }
            placed.iter().enumerate().filter(|(_, placed)| **placed == Placed::Alone).map(|(index, _)| 1 << index).sum()
        });
        let clamped: Vec<i64> = values.iter().map(|value| *value.clamp(&-2, &7)).collect();
        let (first, second) = scales(1, amount.as_f64());
        let weights = |by_threshold: f64, by_queries: f64| {
            courses(&clamped, threshold, by_threshold * first, by_queries * second)
        };
        assert!((weights(1.0, 1.0).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_fits(&drawn, &weights(1.0, 1.0));
        assert_rejects(&drawn, &weights(1.1, 1.1));
        assert_rejects(&drawn, &weights(0.9, 0.9));
        assert_rejects(&drawn, &weights(1.0, 1.1));
    }
}

#[test]
fn one_reading_loses_at_most_epsilon() {
    let (first, second) = scales(2, 2.0);
    let mut worst = 0.0_f64;
    for threshold in [0, 2] {
        for values in all_vectors(&[0, 1, 2], 4) {
            let probabilities = |values: &[i64]| -> Vec<f64> {
                courses(values, threshold, first, second).into_iter().filter(|p| *p > 0.0).collect()
            };
            let before = probabilities(&values);
            for (position, to) in (0..4).flat_map(|position| [0, 2].map(|to| (position, to))) {
                let mut neighbour = values.clone();
                neighbour[position] = to;
                worst = worst.max(loss(&before, &probabilities(&neighbour)));
            }
        }
    }
    assert!(worst <= 2.0 + ROUNDING, "{worst}");
    assert!(worst > 0.5, "the bound would not be noticed: {worst}");
}

#[test]
fn a_reading_is_tested_in_one_group_only() {
    let amount = epsilon("1");
    let random = &mut SeededRandom::new(1);
    let mut groups = ContinuousGroups::new(0..=9, Protects::Reading, amount, 1_000_000).unwrap();
    assert_eq!(place(&mut groups, &[3, 4, 9], amount, random), [Placed::Opens, Placed::Joins, Placed::Joins]);
    assert_eq!((groups.members(), groups.tests()), (3, 2));
    groups.close();
    assert_eq!((groups.members(), groups.tests()), (0, 0));
    let mut never = ContinuousGroups::new(0..=9, Protects::Reading, amount, -1_000_000).unwrap();
    let alternating = [Placed::Opens, Placed::Alone, Placed::Opens, Placed::Alone];
    assert_eq!(place(&mut never, &[3, 3, 3, 3], amount, random), alternating);
    assert_eq!((never.members(), never.tests()), (0, 0));
}

#[test]
fn rejects_wrong_permits_and_disordered_readings() {
    let (one, random) = (epsilon("1"), &mut SeededRandom::new(1));
    let mut groups = ContinuousGroups::new(0..=9, Protects::Reading, one, 1_000).unwrap();
    let reading = sealed_at(5, 3);
    let refused = groups.offer(permit_at(4, one), &reading, random).unwrap_err();
    assert_eq!(refused, PrimitiveError::Timestamp { permit: 4, data: 5 });
    let refused = groups.offer(permit_at(5, epsilon("0.9")), &reading, random).unwrap_err();
    assert_eq!(refused, PrimitiveError::UnequalPermits { first: one, other: epsilon("0.9") });
    let class = groups.offer(class_permit(2, one), &sealed_at(0, 3), random).unwrap_err();
    assert_eq!(class, PrimitiveError::ClassPermit { class: 2 });
    assert_eq!(*groups.offer(permit_at(5, one), &reading, random).unwrap().value(), Placed::Opens);
    let again = groups.offer(permit_at(5, one), &reading, random).unwrap_err();
    assert_eq!(again, PrimitiveError::OutOfOrder { timestamp: 5, latest: 5 });
    assert_eq!(groups.members(), 1);
    let range = ContinuousGroups::new(4..=4, Protects::Reading, one, 0).unwrap_err();
    assert_eq!(range, PrimitiveError::Range { low: 4, high: 4 });
    assert!(ContinuousGroups::new(0..=1 << 40, Protects::Reading, one, 0).is_err());
    assert!(ContinuousGroups::new(0..=9, Protects::Reading, Epsilon::MIN, 0).is_err());
}

#[test]
fn decisions_of_a_seeded_threshold_are_not_private() {
    let one = epsilon("1");
    let mut groups = ContinuousGroups::new(0..=9, Protects::Reading, one, 1_000_000).unwrap();
    let (seeded, system) = (&mut SeededRandom::new(1), &mut SystemRandom::new().unwrap());
    let first = groups.offer(permit_at(0, one), &sealed_at(0, 1), seeded).unwrap();
    let second = groups.offer(permit_at(1, one), &sealed_at(1, 1), system).unwrap();
    assert_eq!((first.provenance(), second.provenance()), (Provenance::Seeded, Provenance::Seeded));
    groups.close();
    let other = groups.offer(permit_at(2, one), &sealed_at(2, 1), system).unwrap();
    assert_eq!(other.provenance(), Provenance::System);
}

#[test]
fn an_open_group_survives_locking() {
    let (one, key) = (epsilon("1"), VaultKey::from_bytes([3; 32]));
    let values: Vec<i64> = (0..40).map(|index| index * 7 % 10).collect();
    let new = || ContinuousGroups::new(0..=9, Protects::Reading, one, 90).unwrap();
    let expected = place(&mut new(), &values, one, &mut SeededRandom::new(9));
    assert!(expected.contains(&Placed::Joins) && expected.contains(&Placed::Alone));
    let (mut random, mut groups) = (SeededRandom::new(9), new());
    let mut ledger = Ledger::new(one, Window::EVENT);
    for (timestamp, (value, expected)) in values.iter().zip(expected).enumerate() {
        let timestamp = timestamp as u64;
        let vault = key.vault(&ledger, "");
        let locked = groups.lock(&vault).unwrap();
        groups = new();
        groups.unlock(&locked, &vault).unwrap();
        ledger = Ledger::fully_spent(one, Window::EVENT, timestamp);
        let placed = groups.offer(permit_at(timestamp, one), &sealed_at(timestamp, *value), &mut random).unwrap();
        assert_eq!((*placed.value(), placed.provenance()), (expected, Provenance::Seeded));
    }
    let vault = key.vault(&ledger, "");
    let locked = groups.lock(&vault).unwrap();
    let mut other = ContinuousGroups::new(0..=8, Protects::Reading, one, 90).unwrap();
    assert_eq!(other.unlock(&locked, &vault), Err(UnlockError::Content));
    let other = VaultKey::from_bytes([4; 32]);
    assert_eq!(new().unlock(&locked, &other.vault(&ledger, "")), Err(UnlockError::Key));
}

#[test]
fn unlocked_groups_keep_their_provenance() {
    let (one, key) = (epsilon("1"), VaultKey::from_bytes([3; 32]));
    let new = || ContinuousGroups::new(0..=9, Protects::Reading, one, 1_000_000).unwrap();
    let mut system = SystemRandom::new().unwrap();
    for provenance in [Provenance::Seeded, Provenance::System] {
        let mut groups = new();
        let reading = sealed_at(0, 1);
        let _ = match provenance {
            Provenance::Seeded => groups.offer(permit_at(0, one), &reading, &mut SeededRandom::new(1)),
            Provenance::System => groups.offer(permit_at(0, one), &reading, &mut system),
        }
        .unwrap();
        let ledger = Ledger::fully_spent(one, Window::EVENT, 0);
        let vault = key.vault(&ledger, "");
        let mut unlocked = new();
        unlocked.unlock(&groups.lock(&vault).unwrap(), &vault).unwrap();
        let next = unlocked.offer(permit_at(1, one), &sealed_at(1, 1), &mut system).unwrap();
        assert_eq!(next.provenance(), provenance);
    }
}

#[test]
fn negative_noisy_thresholds_survive_locking() {
    // No deviation is below so low a threshold, with any noise.
    let (one, key) = (epsilon("1"), VaultKey::from_bytes([3; 32]));
    let new = || ContinuousGroups::new(0..=9, Protects::Reading, one, i64::MIN).unwrap();
    let mut random = SeededRandom::new(2);
    let mut groups = new();
    let mut ledger = Ledger::new(one, Window::EVENT);
    for timestamp in 0..20 {
        let vault = key.vault(&ledger, "");
        let locked = groups.lock(&vault).unwrap();
        groups = new();
        groups.unlock(&locked, &vault).unwrap();
        ledger = Ledger::fully_spent(one, Window::EVENT, timestamp);
        let placed = groups.offer(permit_at(timestamp, one), &sealed_at(timestamp, 1), &mut random).unwrap();
        assert_ne!(*placed.value(), Placed::Joins);
    }
}
