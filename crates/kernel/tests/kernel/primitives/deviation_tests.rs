use tidegate_kernel::primitives::{DeviationTests, PrimitiveError, Protects, Side};
use tidegate_kernel::{Sealed, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    all_vectors, assert_fits, assert_rejects, class_permit, epsilon, loss, nonzero, permit_at, sealed_at, tally,
};

/// The probability that Laplace noise is below a number. The grid is so fine that the noise is nearly continuous.
fn below(scale: f64, x: f64) -> f64 {
    if x < 0.0 { 0.5 * (x / scale).exp() } else { 1.0 - 0.5 * (-x / scale).exp() }
}

/// The deviation of a group.
fn deviation(values: &[i64]) -> f64 {
    let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
    values.iter().map(|value| (*value as f64 - mean).abs()).sum()
}

/// `2(w - H_w)`.
fn total(w: usize) -> f64 {
    (2..=w).map(|n| 2.0 * (n - 1) as f64 / n as f64).sum()
}

/// The probability of every outcome of placing readings one by one into the first group that accepts them. Outcomes are
/// the groups of the readings, as digits.
fn courses(values: &[i64], threshold: f64, scale: f64) -> Vec<f64> {
    fn from(
        next: usize,
        groups: &mut Vec<Vec<usize>>,
        code: usize,
        weight: f64,
        setting: (&[i64], f64, f64),
        sums: &mut [f64],
    ) {
        let (values, threshold, scale) = setting;
        if next == values.len() {
            sums[code] += weight;
            return;
        }
        let mut left = weight;
        for index in 0..groups.len() {
            groups[index].push(next);
            let members: Vec<i64> = groups[index].iter().map(|member| values[*member]).collect();
            let accepts = below(scale, threshold - deviation(&members));
            from(next + 1, groups, code * values.len() + index, left * accepts, setting, sums);
            left *= 1.0 - accepts;
            groups[index].pop();
        }
        groups.push(vec![next]);
        from(next + 1, groups, code * values.len() + groups.len() - 1, left, setting, sums);
        groups.pop();
    }
    let mut sums = vec![0.0; values.len().pow(values.len() as u32)];
    from(0, &mut Vec::new(), 0, 1.0, (values, threshold, scale), &mut sums);
    sums
}

/// Places readings one by one with the primitive; returns the outcome.
fn place(tests: &mut DeviationTests, readings: &[Sealed<i64>], random: &mut SeededRandom) -> usize {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut code = 0;
    for reading in readings {
        let member = tests.admit(permit_at(reading.timestamp(), epsilon("2")), reading).unwrap();
        let accepts = |group: &mut Vec<usize>| {
            group.push(member);
            let is_below = *tests.ask(group, random).unwrap().value() == Side::Below;
            if !is_below {
                group.pop();
            }
            is_below
        };
        let index = groups.iter_mut().position(accepts).unwrap_or_else(|| {
            groups.push(vec![member]);
            groups.len() - 1
        });
        code = code * readings.len() + index;
    }
    code
}

#[test]
fn every_outcome_has_its_probability() {
    let values = [0, 9, 1, 8];
    let readings: Vec<Sealed<i64>> = (0..).zip(values).map(|(timestamp, value)| sealed_at(timestamp, value)).collect();
    let protects = Protects::Contribution(nonzero(1));
    let mut tests = DeviationTests::new(0..=9, protects, epsilon("2"), 6, 4).unwrap();
    let mut random = SeededRandom::new(320);
    let drawn = tally(DRAWS, 256, || {
        tests.clear();
        place(&mut tests, &readings, &mut random)
    });
    let scale = total(4) / 2.0;
    assert!((tests.scale() / scale - 1.0).abs() < 1e-5);
    assert_fits(&drawn, &courses(&values, 6.0, scale));
    assert_rejects(&drawn, &courses(&values, 6.0, 1.1 * scale));
    assert_rejects(&drawn, &courses(&values, 6.0, 0.9 * scale));
}

#[test]
fn the_largest_loss_of_one_reading_is_epsilon() {
    for w in [3, 4] {
        let scale = total(w) / 1.0;
        // All accepted, at a threshold far below every deviation: every answer has its smallest probability.
        let mut worst = 0.0_f64;
        for values in all_vectors(&[0, 1], w) {
            let probabilities = |values: &[i64]| -> Vec<f64> {
                courses(values, -3.0, scale).into_iter().filter(|p| *p > 0.0).collect()
            };
            let before = probabilities(&values);
            for position in 0..w {
                let mut neighbour = values.clone();
                neighbour[position] = 1 - neighbour[position];
                worst = worst.max(loss(&before, &probabilities(&neighbour)));
            }
        }
        assert!((worst - 1.0).abs() < ROUNDING, "{w}: {worst}");
    }
}

/// Over all outcomes of a batch, the largest charge of a reading is exactly the total.
#[test]
fn the_total_suffices_exactly_in_the_worst_case() {
    fn explore(next: usize, w: usize, groups: &mut Vec<Vec<usize>>, charged: &mut Vec<f64>, worst: &mut f64) {
        if next == w {
            *worst = charged.iter().copied().fold(*worst, f64::max);
            return;
        }
        let before = charged.clone();
        // Rejected by some groups in turn, and accepted by the next or by none.
        for index in 0..=groups.len() {
            if index == groups.len() {
                groups.push(vec![next]);
                explore(next + 1, w, groups, charged, worst);
                groups.pop();
                break;
            }
            groups[index].push(next);
            let size = groups[index].len() as f64;
            for member in &groups[index] {
                charged[*member] += 2.0 * (size - 1.0) / size;
            }
            let so_far = charged.clone();
            explore(next + 1, w, groups, charged, worst);
            *charged = so_far;
            groups[index].pop();
        }
        *charged = before;
    }
    for (w, expected) in [(2, 1.0), (3, 2.333_333), (4, 3.833_333), (5, 5.433_333), (6, 7.1)] {
        let mut worst = 0.0;
        explore(0, w, &mut Vec::new(), &mut vec![0.0; w], &mut worst);
        assert!((worst - expected).abs() < 1e-6, "{w}: {worst}");
        assert!((worst - total(w)).abs() < 1e-9);
        let tests = DeviationTests::new(0..=1_000, Protects::Reading, epsilon("1"), 0, w).unwrap();
        assert!((tests.total_sensitivity() / (1_000.0 * worst) - 1.0).abs() < 1e-9, "{w}");
    }
}

#[test]
fn a_used_up_reading_is_refused() {
    let random = &mut SeededRandom::new(1);
    let one = epsilon("1");
    let mut tests = DeviationTests::new(0..=9, Protects::Reading, one, 5, 3).unwrap();
    for timestamp in 10..14 {
        tests.admit(permit_at(timestamp, one), &sealed_at(timestamp, 3)).unwrap();
    }
    // A total of 9·(1 + 4/3).
    for group in [[0, 1], [0, 2]] {
        assert_eq!(tests.ask(&group, random).map(|_| ()), Ok(()));
    }
    assert_eq!(tests.ask(&[0, 3], random), Err(PrimitiveError::UsedUp { timestamp: 10 }));
    assert_eq!(tests.ask(&[1, 2, 3], random).map(|_| ()), Ok(()));
    assert_eq!(tests.ask(&[1, 3], random), Err(PrimitiveError::UsedUp { timestamp: 11 }));
    let uses: Vec<(u64, i64)> = tests.uses().map(|(count, sum)| (count, sum.round() as i64)).collect();
    assert_eq!(uses, [(2, 18), (2, 21), (2, 21), (1, 12)]);
    // A test of one reading reveals nothing, and is free.
    assert_eq!(tests.ask(&[0], random).map(|_| ()), Ok(()));
    tests.clear();
    assert_eq!(tests.ask(&[0], random), Err(PrimitiveError::NoSuchMember { index: 0, members: 0 }));
    let message = "the reading of timestamp 10 has taken part in all tests that its permit pays for";
    assert_eq!(PrimitiveError::UsedUp { timestamp: 10 }.to_string(), message);
}

#[test]
fn rejects_wrong_permits_and_repeated_readings() {
    let random = &mut SeededRandom::new(1);
    let one = epsilon("1");
    let mut tests = DeviationTests::new(0..=9, Protects::Reading, one, 5, 3).unwrap();
    let reading = sealed_at(5, 3);
    assert_eq!(tests.admit(permit_at(4, one), &reading), Err(PrimitiveError::Timestamp { permit: 4, data: 5 }));
    let less = PrimitiveError::UnequalPermits { first: one, other: epsilon("0.5") };
    assert_eq!(tests.admit(permit_at(5, epsilon("0.5")), &reading), Err(less));
    assert_eq!(tests.admit(class_permit(3, one), &sealed_at(0, 3)), Err(PrimitiveError::ClassPermit { class: 3 }));
    assert_eq!(tests.admit(permit_at(5, one), &reading), Ok(0));
    let late = PrimitiveError::OutOfOrder { timestamp: 5, latest: 5 };
    assert_eq!(tests.admit(permit_at(5, one), &reading), Err(late));
    assert_eq!(tests.ask(&[0, 0], random), Err(PrimitiveError::SameTimestamp { timestamp: 5 }));
    assert_eq!(tests.ask(&[0, 1], random), Err(PrimitiveError::NoSuchMember { index: 1, members: 1 }));
    assert!(DeviationTests::new(0..=1 << 32, Protects::Reading, one, 5, 100).is_err());
    assert_eq!(
        DeviationTests::new(3..=3, Protects::Reading, one, 5, 3).map(|_| ()),
        Err(PrimitiveError::Range { low: 3, high: 3 })
    );
}

#[test]
fn rejects_batches_beyond_the_limit() {
    let new = |batch| DeviationTests::new(0..=1, Protects::Reading, epsilon("1"), 0, batch).map(drop);
    let (most, given) = (DeviationTests::MAX_BATCH, DeviationTests::MAX_BATCH + 1);
    assert_eq!(new(given), Err(PrimitiveError::Batch { given, most }));
    assert_ne!(new(most), Err(PrimitiveError::Batch { given: most, most }));
}
