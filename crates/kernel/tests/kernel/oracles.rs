//! Distribution and privacy loss of each oracle's reports.

use std::collections::HashMap;

use tidegate_kernel::oracle::{Oracle, OracleError, OracleKind};
use tidegate_kernel::{Epsilon, Ledger, MAX_DOMAIN, Provenance, SeededRandom, SystemRandom, Window};

use crate::support::{assert_fits, assert_rejects, class_permit, epsilon, permit, permit_at, sealed_at};

mod aggregates;
mod estimates;
mod means;
mod simulated;

const KINDS: [OracleKind; 7] = OracleKind::ALL;

fn is_hash(kind: OracleKind) -> bool {
    matches!(kind, OracleKind::Blh | OracleKind::Olh)
}

fn oracle(kind: OracleKind, domain: u32, text: &str) -> Oracle {
    Oracle::new(kind, domain, epsilon(text)).unwrap()
}

/// One report per value, each with its own ledger.
fn reports(oracle: &Oracle, values: impl IntoIterator<Item = u32>, random: &mut SeededRandom) -> Vec<u8> {
    let mut batch = Vec::new();
    for value in values {
        let permit = Ledger::new(oracle.epsilon(), Window::EVENT).spend(0, oracle.epsilon()).unwrap();
        batch.extend_from_slice(oracle.perturb(permit, value, random).unwrap().as_bytes());
    }
    batch
}

/// All well-formed reports of an oracle with at most two bytes; for hashing, all buckets under a few seeds.
fn all_reports(oracle: &Oracle) -> Vec<Vec<u8>> {
    let length = oracle.report_length();
    let prefixes: Vec<Vec<u8>> = if is_hash(oracle.kind()) {
        (0..20_u64).map(|seed| seed.wrapping_mul(0x1234_5678_9abc_def1).to_le_bytes().to_vec()).collect()
    } else {
        vec![Vec::new()]
    };
    let tail = length - prefixes[0].len();
    assert!(tail <= 2, "too many reports to enumerate");
    let tails = (0..1_u32 << (8 * tail)).map(|number| number.to_le_bytes()[..tail].to_vec());
    let all = tails.flat_map(|tail| prefixes.iter().map(move |prefix| [prefix.as_slice(), &tail].concat()));
    all.filter(|report| oracle.check(report).is_ok()).collect()
}

#[test]
fn the_largest_loss_of_a_report_is_epsilon() {
    for kind in KINDS {
        for domain in [2, 3, 5, 8, 11] {
            for text in ["0.01", "0.1", "0.5", "1", "2.5", "5", "9"] {
                let oracle = oracle(kind, domain, text);
                let limit = oracle.epsilon().as_f64();
                let mut largest: f64 = 0.0;
                for report in all_reports(&oracle) {
                    let logs: Vec<f64> =
                        (0..domain).map(|value| oracle.log_likelihood(value, &report).unwrap()).collect();
                    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let lowest = logs.iter().copied().fold(f64::INFINITY, f64::min);
                    largest = largest.max(highest - lowest);
                }
                assert!(largest <= limit + 1e-12, "{kind} d={domain} eps={text}: {largest} > {limit}");
                assert!(largest >= limit - 1e-3, "{kind} d={domain} eps={text}: {largest} << {limit}");
            }
        }
    }
}

/// Over a large domain the probability of a report underflows, but its loss is finite.
#[test]
fn reports_over_a_large_domain_have_finite_loss() {
    for (stream, kind) in KINDS.into_iter().enumerate() {
        let (domain, own) = (20_000, 123);
        let oracle = oracle(kind, domain, "2");
        let mut random = SeededRandom::with_stream(202, stream as u64);
        let mut losses = Vec::new();
        for report in reports(&oracle, [own; 20], &mut random).chunks_exact(oracle.report_length()) {
            let log = |value: u32| oracle.log_likelihood(value, report).unwrap();
            assert!(log(own).is_finite() && log(own) < 0.0);
            losses.extend((0..domain).step_by(997).map(|other| (log(own) - log(other)).abs()));
        }
        let largest = losses.iter().copied().fold(0.0, f64::max);
        assert!(largest < 2.0 + 1e-9, "{kind}: {largest}");
        // A GRR report names one value, rarely one of those compared.
        assert!(kind == OracleKind::Grr || largest > 1.9, "{kind}: {largest}");
    }
}

#[test]
fn reports_carry_their_provenance() {
    let oracle = oracle(OracleKind::Grr, 4, "1");
    let paid = || Ledger::new(oracle.epsilon(), Window::EVENT).spend(0, oracle.epsilon()).unwrap();
    let (seeded, system) = (&mut SeededRandom::new(1), &mut SystemRandom::new().unwrap());
    assert_eq!(oracle.perturb(paid(), 0, seeded).unwrap().provenance(), Provenance::Seeded);
    assert_eq!(oracle.perturb(paid(), 0, system).unwrap().provenance(), Provenance::System);
    let mut buffer = vec![0; oracle.report_length()];
    assert_eq!(oracle.perturb_into(paid(), 0, seeded, &mut buffer), Ok(Provenance::Seeded));
    assert_eq!(oracle.perturb_into(paid(), 0, system, &mut buffer), Ok(Provenance::System));
}

#[test]
fn the_likelihoods_of_all_reports_sum_to_one() {
    for kind in KINDS {
        for domain in [2, 5, 9] {
            let oracle = oracle(kind, domain, "0.7");
            let seeds = if is_hash(kind) { 20.0 } else { 1.0 };
            for value in 0..domain {
                let sum: f64 =
                    all_reports(&oracle).iter().map(|report| oracle.log_likelihood(value, report).unwrap().exp()).sum();
                assert!((sum / seeds - 1.0).abs() < 1e-9, "{kind}: {sum}");
            }
        }
    }
}

/// The values that a report supports, as a bit mask: for hashing, reports differ by their seed.
fn support_pattern(oracle: &Oracle, report: &[u8]) -> usize {
    let mut aggregate = oracle.aggregate();
    aggregate.add(report).unwrap();
    aggregate.supports().iter().enumerate().map(|(value, support)| (*support as usize) << value).sum()
}

fn support_pattern_weights(oracle: &Oracle, value: usize) -> Vec<f64> {
    let factor = |pattern: usize, position: usize| {
        let one = if position == value { oracle.support_of_own() } else { oracle.support_of_other() };
        if pattern >> position & 1 == 1 { one } else { 1.0 - one }
    };
    let domain = oracle.domain() as usize;
    (0..1_usize << domain).map(|pattern| (0..domain).map(|position| factor(pattern, position)).product()).collect()
}

#[test]
fn perturbed_values_follow_the_stated_distribution() {
    for (index, kind) in KINDS.into_iter().enumerate() {
        for (domain, value) in [(2, 1), (5, 0), (9, 8)] {
            let (right, wrong) = (oracle(kind, domain, "1"), oracle(kind, domain, "1.1"));
            let mut random = SeededRandom::with_stream(200, (index * 10) as u64 + u64::from(domain));
            let batch = reports(&right, std::iter::repeat_n(value, 300_000), &mut random);
            let sent = batch.chunks_exact(right.report_length());
            println!("{kind} over {domain} values");
            if is_hash(kind) {
                let mut counts = vec![0; 1 << domain];
                sent.for_each(|report| counts[support_pattern(&right, report)] += 1);
                assert_fits(&counts, &support_pattern_weights(&right, value as usize));
                assert_rejects(&counts, &support_pattern_weights(&wrong, value as usize));
            } else {
                let all = all_reports(&right);
                let cells: HashMap<&[u8], usize> = all.iter().map(Vec::as_slice).zip(0..).collect();
                let mut counts = vec![0; all.len()];
                sent.for_each(|report| counts[cells[report]] += 1);
                let weights = |oracle: &Oracle| -> Vec<f64> {
                    all.iter().map(|report| oracle.log_likelihood(value, report).map_or(0.0, f64::exp)).collect()
                };
                assert_fits(&counts, &weights(&right));
                assert_rejects(&counts, &weights(&wrong));
            }
        }
    }
}

#[test]
fn subsets_of_large_domains_are_uniform_too() {
    // Large domains draw subsets from a draft, by darts or coins, with corrections in either direction. The number of
    // members among the first values must be hypergeometric, for each way in which the domain fills its last word.
    let cases = [
        (0, 100, "1"),
        (1, 128, "1"),
        (2, 300, "0.1"),
        (3, 200, "3"),
        (4, 20_000, "4"),
        (5, 65, "0.2"),
        (6, 127, "2"),
        (7, 64, "1"),
    ];
    for (stream, domain, text) in cases {
        let oracle = oracle(OracleKind::Subset, domain, text);
        let mut random = SeededRandom::with_stream(201, stream);
        let value = domain - 1;
        let batch = reports(&oracle, std::iter::repeat_n(value, 20_000), &mut random);
        let first = 40;
        let mut counts = vec![0; first as usize + 1];
        let mut size = 0;
        for report in batch.chunks_exact(oracle.report_length()) {
            let bit = |position: u32| report[(position / 8) as usize] >> (position % 8) & 1 == 1;
            counts[(0..first).filter(|position| bit(*position)).count()] += 1;
            size = (0..domain).filter(|position| bit(*position)).count() as u32;
        }
        let own = oracle.support_of_own();
        let weights = |draws: [u32; 2]| -> Vec<f64> {
            let with = hypergeometric(domain - 1, first, draws[0]);
            let without = hypergeometric(domain - 1, first, draws[1]);
            with.iter().zip(&without).map(|(a, b)| own * a + (1.0 - own) * b).collect()
        };
        assert_fits(&counts, &weights([size - 1, size]));
        let wrong = size + size.div_ceil(10);
        assert_rejects(&counts, &weights([wrong - 1, wrong]));
    }
}

/// The hypergeometric distribution.
fn hypergeometric(population: u32, marked: u32, draws: u32) -> Vec<f64> {
    let log_choose = |n: u32, k: u32| -> f64 { (0..k).map(|i| (f64::from(n - i) / f64::from(i + 1)).ln()).sum() };
    let total = log_choose(population, draws);
    (0..=marked)
        .map(|hit| {
            if hit > draws || draws - hit > population - marked {
                return 0.0;
            }
            (log_choose(marked, hit) + log_choose(population - marked, draws - hit) - total).exp()
        })
        .collect()
}

#[test]
fn rejects_parameters_with_the_allowed_range() {
    for kind in KINDS {
        for domain in [0, 1, MAX_DOMAIN + 1] {
            let error = Oracle::new(kind, domain, epsilon("1")).unwrap_err().to_string();
            assert_eq!(error, format!("a domain of {domain} values is outside 2..=16777216"));
        }
        let error = Oracle::new(kind, 4, epsilon("21")).unwrap_err().to_string();
        assert_eq!(error, "epsilon 21 is outside 0.000000001..=20, the range of a randomised response");
        for (domain, text) in [(2, "0.000000001"), (MAX_DOMAIN, "20"), (MAX_DOMAIN, "0.000000001")] {
            assert!(Oracle::new(kind, domain, epsilon(text)).is_ok(), "{kind} {domain} {text}");
        }
        let oracle = oracle(kind, 4, "1");
        let mut random = SeededRandom::new(203);
        let permit = |amount: &str| Ledger::new(Epsilon::MAX, Window::EVENT).spend(0, epsilon(amount)).unwrap();
        let outside = oracle.perturb(permit("1"), 4, &mut random);
        assert_eq!(outside.unwrap_err().to_string(), "the value is outside the domain 0..4");
        let underpaid = oracle.perturb(permit("0.5"), 0, &mut random);
        let expected = OracleError::PermitMismatch { permit: epsilon("0.5"), oracle: epsilon("1") };
        assert_eq!(underpaid.unwrap_err(), expected);
        let mut short = vec![0; oracle.report_length() + 1];
        let error = oracle.perturb_into(permit("1"), 0, &mut random, &mut short).unwrap_err();
        assert_eq!(error, OracleError::Buffer { given: short.len(), expected: short.len() - 1 });
    }
    assert!("rappor".parse::<OracleKind>().unwrap_err().to_string().contains("hadamard"));
    for kind in KINDS {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
}

#[test]
fn sealed_values_need_a_permit_of_their_timestamp() {
    for kind in KINDS {
        let oracle = oracle(kind, 5, "1");
        let sealed = sealed_at(0, 3);
        let open = reports(&oracle, [3; 20], &mut SeededRandom::new(205));
        let random = &mut SeededRandom::new(205);
        let report = |_| oracle.perturb_sealed(permit(epsilon("1")), &sealed, random).unwrap().into_bytes();
        assert_eq!((0..20).flat_map(report).collect::<Vec<u8>>(), open);
        let wrong = oracle.perturb_sealed(permit_at(7, epsilon("1")), &sealed, &mut SeededRandom::new(1));
        assert_eq!(wrong.unwrap_err(), OracleError::Timestamp { permit: 7, value: 0 });
        let wrong = oracle.perturb_sealed(class_permit(2, epsilon("1")), &sealed, &mut SeededRandom::new(1));
        assert_eq!(wrong.unwrap_err(), OracleError::ClassPermit { class: 2 });
    }
}

#[test]
fn sealed_values_outside_the_domain_become_the_last() {
    // An error would reveal that the value is outside, and so, domain by domain, the value itself.
    for kind in KINDS {
        let oracle = oracle(kind, 5, "1");
        let report = |value: u32| {
            let sealed = sealed_at(0, value);
            let mut random = SeededRandom::new(206);
            let report = |_| oracle.perturb_sealed(permit(epsilon("1")), &sealed, &mut random).unwrap().into_bytes();
            (0..20).flat_map(report).collect::<Vec<u8>>()
        };
        assert_eq!(report(5), report(4));
        assert_eq!(report(u32::MAX), report(4));
        assert_ne!(report(0), report(4));
    }
}

// A line a vector: oracle, domain, epsilon, seed, and the reports of the values 0, 1 and 2, one after another, in
// hexadecimal digits. Every platform and every other implementation must send these bytes.
#[test]
fn reports_of_a_seed_are_the_golden_bytes() {
    let cases = KINDS.into_iter().flat_map(|kind| [11, 100, 300].map(|domain| (kind, domain)));
    let lines = cases.flat_map(|(kind, domain)| {
        ["0.5", "1", "3.7"].map(|amount| {
            let bytes = reports(&oracle(kind, domain, amount), 0..3, &mut SeededRandom::new(7));
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{kind} {domain} {amount} 7 {digits}\n")
        })
    });
    let computed: String = lines.collect();
    assert_eq!(computed, include_str!("../golden/reports_v1.txt"), "{computed}");
}
