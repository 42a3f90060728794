//! Simulated populations have the distribution of real reports.

use tidegate_kernel::SeededRandom;
use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::simulation::estimate_of;

use super::{KINDS, oracle, reports};
use crate::support::{ALPHA, two_sample_p};

/// The supports behind an estimate.
fn supports(oracle: &Oracle, frequencies: &[f64], reports: u64) -> Vec<usize> {
    let (own, other) = (oracle.support_of_own(), oracle.support_of_other());
    let support = |frequency: &f64| (frequency * (own - other) + other) * reports as f64;
    frequencies.iter().map(|frequency| support(frequency).round() as usize).collect()
}

#[test]
fn aggregate_and_per_user_simulation_agree() {
    // A few users over three values, so that every combination of supports can be counted. Two chi-square samples
    // agree at a false-alarm probability of 1e-6; with one more user at the first value they must not.
    for (stream, kind) in KINDS.into_iter().enumerate() {
        let oracle = oracle(kind, 3, "1");
        let counts = [3_u64, 1, 2];
        let cell = |supports: Vec<usize>| supports.iter().fold(0, |cell, support| cell * 7 + support);
        let mut random = SeededRandom::with_stream(210, stream as u64);
        let runs = 60_000;
        let mut tally = |draw: &mut dyn FnMut(&mut SeededRandom) -> Vec<usize>| {
            let mut cells = vec![0; 343];
            (0..runs).for_each(|_| cells[cell(draw(&mut random))] += 1);
            cells
        };
        let of_counts = |counts: [u64; 3]| {
            let oracle = &oracle;
            move |random: &mut SeededRandom| {
                let estimate = estimate_of(oracle, &counts, random).unwrap();
                supports(oracle, estimate.frequencies(), 6)
            }
        };
        let aggregate = tally(&mut of_counts(counts));
        let other = tally(&mut of_counts([4, 0, 2]));
        let per_user = tally(&mut |random| {
            let mut aggregate = oracle.aggregate();
            aggregate.add_batch(&reports(&oracle, [0, 0, 0, 1, 2, 2], random)).unwrap();
            aggregate.supports().into_iter().map(|support| support as usize).collect()
        });
        assert!(two_sample_p(&aggregate, &per_user) > ALPHA, "{kind}");
        assert!(two_sample_p(&aggregate, &other) < ALPHA, "{kind}");
    }
}

#[test]
fn larger_subsets_have_the_same_distribution() {
    let oracle = oracle(OracleKind::Subset, 11, "0.4");
    let counts: Vec<u64> = (0..11).map(|value| value % 4).collect();
    let users = counts.iter().sum();
    let (mut simulated, mut real) = (vec![0; 400], vec![0; 400]);
    let values: Vec<u32> =
        (0..11).flat_map(|value| std::iter::repeat_n(value, counts[value as usize] as usize)).collect();
    let mut random = SeededRandom::new(211);
    for _ in 0..30_000 {
        let estimate = estimate_of(&oracle, &counts, &mut random).unwrap();
        let supported = supports(&oracle, estimate.frequencies(), users);
        simulated[supported[3] * 20 + supported[4]] += 1;
        let mut aggregate = oracle.aggregate();
        aggregate.add_batch(&reports(&oracle, values.iter().copied(), &mut random)).unwrap();
        let supported = aggregate.supports();
        real[(supported[3] * 20 + supported[4]) as usize] += 1;
    }
    assert!(two_sample_p(&simulated, &real) > ALPHA);
}

#[test]
fn large_hadamard_populations_have_the_same_distribution() {
    // More users than are simulated one by one: few at a column, and more than the bits of a random word. Two
    // chi-square samples agree at a false-alarm probability of 1e-6; with a tenth of the users elsewhere they do not.
    for (stream, counts, other, width, runs) in
        [(0, [6_u64, 2, 4], [8_u64, 1, 3], 1, 30_000), (1, [150, 50, 100], [180, 40, 80], 12, 8_000)]
    {
        let oracle = oracle(OracleKind::Hadamard, 3, "1");
        let users: u64 = counts.iter().sum();
        let side = users as usize / width + 1;
        let cell = |supports: &[usize]| supports.iter().fold(0, |cell, support| cell * side + support / width);
        let mut random = SeededRandom::with_stream(212, stream);
        let mut simulated = |counts: &[u64]| {
            let mut cells = vec![0; side.pow(3)];
            for _ in 0..runs {
                let estimate = estimate_of(&oracle, counts, &mut random).unwrap();
                cells[cell(&supports(&oracle, estimate.frequencies(), users))] += 1;
            }
            cells
        };
        let (together, elsewhere) = (simulated(&counts), simulated(&other));
        let values: Vec<u32> =
            (0..3).flat_map(|value| std::iter::repeat_n(value, counts[value as usize] as usize)).collect();
        let mut one_by_one = vec![0; side.pow(3)];
        for _ in 0..runs {
            let mut aggregate = oracle.aggregate();
            aggregate.add_batch(&reports(&oracle, values.iter().copied(), &mut random)).unwrap();
            let supports: Vec<usize> = aggregate.supports().into_iter().map(|support| support as usize).collect();
            one_by_one[cell(&supports)] += 1;
        }
        assert!(two_sample_p(&together, &one_by_one) > ALPHA, "{users}");
        assert!(two_sample_p(&elsewhere, &one_by_one) < ALPHA, "{users}");
    }
}

#[test]
fn rejects_a_population_of_another_domain() {
    let oracle = oracle(OracleKind::Grr, 3, "1");
    let error = |counts: &[u64]| estimate_of(&oracle, counts, &mut SeededRandom::new(0)).unwrap_err().to_string();
    assert_eq!(error(&[1, 2]), "a population of 3 over 2 values cannot report to an oracle over 3 values");
    let too_many = "the counts sum to 18446744073709551616, more than a population can have";
    assert_eq!(error(&[u64::MAX, 1, 0]), too_many);
    assert_eq!(error(&[0, 0, 0]), "a population of 0 over 3 values cannot report to an oracle over 3 values");
}
