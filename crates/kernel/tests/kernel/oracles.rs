//! Each oracle's whole report distribution, its loss, its estimate, its codec, and the algebra of aggregates.

use std::collections::HashMap;

use proptest::prelude::*;
use tidegate_kernel::oracle::{Aggregate, AggregateError, MalformedReport, Oracle, OracleError, OracleKind};
use tidegate_kernel::{Epsilon, Ledger, MAX_DOMAIN, Provenance, Randomness, SeededRandom, SystemRandom, Window};

use crate::support::{
    ALPHA, assert_fits, assert_rejects, class_permit, epsilon, permit, permit_at, repeatable, sealed_at, two_sample_p,
};

const KINDS: [OracleKind; 7] = OracleKind::ALL;

fn is_hash(kind: OracleKind) -> bool {
    matches!(kind, OracleKind::Blh | OracleKind::Olh)
}

fn oracle(kind: OracleKind, domain: u32, text: &str) -> Oracle {
    Oracle::new(kind, domain, epsilon(text)).unwrap()
}

/// One report per value, each paid for by a ledger of its own.
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
fn no_report_tells_more_than_epsilon_and_some_tell_all_of_it() {
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

/// Over a large domain any one report has a probability below the least positive float, yet its loss is finite.
#[test]
fn reports_over_a_large_domain_have_a_loss_too() {
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
        // A report of GRR names one value, seldom one of those compared.
        assert!(kind == OracleKind::Grr || largest > 1.9, "{kind}: {largest}");
    }
}

#[test]
fn a_report_tells_where_its_randomness_came_from() {
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

/// Which values a report supports, as the bits of a number: for hashing, where reports differ by their seed.
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
    // Large domains draw subsets by a draft, of darts or of coins, and corrections, in one of two directions. The
    // number of members among the first values is hypergeometric, and so must it be for each way the domain fills its
    // last word.
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

/// How many of `marked` among `population` are drawn in `draws` draws without replacement.
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
fn the_estimate_is_unbiased_with_exactly_the_stated_variance() {
    // One user: mean and variance of the estimate over all reports, weighted by their likelihood.
    for kind in KINDS.into_iter().filter(|kind| !is_hash(*kind)) {
        for (domain, text) in [(2, "1"), (5, "0.3"), (9, "2")] {
            let oracle = oracle(kind, domain, text);
            for asked in 0..domain {
                for held in 0..domain {
                    let truth = f64::from(u8::from(asked == held));
                    let (mut mean, mut square) = (0.0, 0.0);
                    for report in all_reports(&oracle) {
                        let mut aggregate = oracle.aggregate();
                        aggregate.add(&report).unwrap();
                        let estimate = aggregate.estimate().unwrap().frequencies()[asked as usize];
                        let likelihood = oracle.log_likelihood(held, &report).unwrap().exp();
                        mean += likelihood * estimate;
                        square += likelihood * estimate * estimate;
                    }
                    assert!((mean - truth).abs() < 1e-8, "{kind} {domain}: {mean}");
                    let variance = oracle.variance(1).at(truth);
                    assert!(((square - mean * mean) / variance - 1.0).abs() < 1e-7, "{kind} {domain}");
                }
            }
        }
    }
}

#[test]
fn estimates_from_a_population_scatter_as_the_variance_says() {
    // All oracles, hashing included, on domains that are no power of two. The mean squared standardised error of 50
    // repetitions of `domain` values lies within 1 ± 0.35 for every seed but one in a million (its standard deviation
    // is at most sqrt(2/(50·2)) for the least independent one, and values are nearly independent otherwise).
    for (index, kind) in KINDS.into_iter().enumerate() {
        let domain = 37;
        let oracle = oracle(kind, domain, "1.3");
        let users = 4_000_u32;
        let value_of = |user: u32| if user.is_multiple_of(4) { 3 } else { user % domain };
        let mut truth = vec![0.0; domain as usize];
        (0..users).for_each(|user| truth[value_of(user) as usize] += 1.0 / f64::from(users));
        let mut random = SeededRandom::with_stream(202, index as u64);
        let (mut sum, mut terms) = (0.0, 0.0);
        for _ in 0..50 {
            let mut aggregate = oracle.aggregate();
            aggregate.add_batch(&reports(&oracle, (0..users).map(value_of), &mut random)).unwrap();
            let estimate = aggregate.estimate().unwrap();
            assert_eq!(estimate.reports(), u64::from(users));
            for (estimated, truth) in estimate.frequencies().iter().zip(&truth) {
                sum += (estimated - truth).powi(2) / estimate.variance().at(*truth);
                terms += 1.0;
            }
        }
        let scatter: f64 = sum / terms;
        assert!((scatter - 1.0).abs() < 0.15, "{kind}: {scatter}");
    }
}

#[test]
fn variances_are_the_closed_forms() {
    for text in ["0.2", "1", "3"] {
        let u = epsilon(text).as_f64().exp();
        let n = 1_000;
        for domain in [2_u32, 10, 500] {
            let d = f64::from(domain);
            let check = |kind: OracleKind, constant: f64, slope: f64, tolerance: f64| {
                let variance = oracle(kind, domain, text).variance(n);
                assert!((variance.constant * n as f64 / constant - 1.0).abs() < tolerance, "{kind} {text} {domain}");
                assert!((variance.slope * n as f64 - slope).abs() < tolerance * constant, "{kind} {text} {domain}");
            };
            check(OracleKind::Grr, (d - 2.0 + u) / (u - 1.0).powi(2), (d - 2.0) / (u - 1.0), 1e-8);
            check(OracleKind::Sue, u.sqrt() / (u.sqrt() - 1.0).powi(2), 0.0, 1e-8);
            check(OracleKind::Oue, 4.0 * u / (u - 1.0).powi(2), 1.0, 1e-8);
            check(OracleKind::Hadamard, ((u + 1.0) / (u - 1.0)).powi(2), -1.0, 1e-8);
            check(OracleKind::Blh, ((u + 1.0) / (u - 1.0)).powi(2), -1.0, 1e-8);
        }
        // OLH with a whole number of buckets is at most a little above its optimum.
        let olh = oracle(OracleKind::Olh, 10, text).variance(1).constant;
        let optimum = 4.0 * u / (u - 1.0).powi(2);
        assert!(olh >= optimum * (1.0 - 1e-9) && olh < 1.03 * optimum, "{olh} {optimum}");
    }
    // Averaged over the cells of five values at epsilon 1, as LDP-IDS needs it, with its missing 1/d.
    let grr = oracle(OracleKind::Grr, 5, "1").variance(1);
    let u = 1_f64.exp();
    let expected = (3.0 + u) / (u - 1.0).powi(2) + 3.0 / (5.0 * (u - 1.0));
    assert!((grr.at(0.2) - expected).abs() < 1e-8);
}

#[test]
fn auto_takes_the_lowest_variance_and_then_the_shortest_report() {
    for domain in [2, 3, 4, 10, 64, 128, 1_000, 5_000] {
        for text in ["0.05", "0.5", "1", "2", "4", "8"] {
            let chosen = Oracle::auto(domain, epsilon(text)).unwrap();
            let mean = |oracle: &Oracle| oracle.variance(1).at(1.0 / f64::from(domain));
            for other in KINDS.map(|kind| oracle(kind, domain, text)) {
                assert!(mean(&chosen) <= mean(&other) * 1.01 * (1.0 + 1e-12), "{} {}", chosen.kind(), other.kind());
                if mean(&other) <= mean(&chosen) {
                    assert!(chosen.report_length() <= other.report_length(), "{} {}", chosen.kind(), other.kind());
                }
            }
        }
    }
    assert_eq!(Oracle::auto(2, epsilon("1")).unwrap().kind(), OracleKind::Grr);
    assert_eq!(Oracle::auto(1_000, epsilon("0.05")).unwrap().kind(), OracleKind::Hadamard);
    assert_eq!(Oracle::auto(1_000, epsilon("1")).unwrap().kind(), OracleKind::Olh);
}

#[test]
fn what_an_oracle_cannot_represent_is_refused_with_the_allowed_range() {
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
fn malformed_reports_are_refused_with_what_is_wrong() {
    for kind in KINDS {
        let oracle = oracle(kind, 11, "1");
        let length = oracle.report_length();
        let error = oracle.check(&vec![0; length + 1]).unwrap_err();
        assert_eq!(error, MalformedReport::Length { given: length + 1, expected: length });
        assert_eq!(oracle.check(&[]).unwrap_err(), MalformedReport::Length { given: 0, expected: length });
    }
    let check = |kind, domain, report: &[u8]| oracle(kind, domain, "1").check(report).unwrap_err().to_string();
    assert_eq!(check(OracleKind::Grr, 11, &[11]), "index 11 is outside 0..11");
    assert_eq!(check(OracleKind::Grr, 70_000, &[0x70, 0x11, 1]), "index 70000 is outside 0..70000");
    assert_eq!(check(OracleKind::Hadamard, 11, &[16]), "index 16 is outside 0..16");
    assert_eq!(check(OracleKind::Oue, 11, &[0, 8]), "bits are set beyond the 11 of the domain");
    assert_eq!(check(OracleKind::Sue, 3, &[255]), "bits are set beyond the 3 of the domain");
    assert_eq!(check(OracleKind::Subset, 11, &[0, 0]), "0 bits are set where every report has 3");
    assert_eq!(check(OracleKind::Olh, 11, &[1, 2, 3, 4, 5, 6, 7, 8, 4]), "index 4 is outside 0..4");
    assert_eq!(check(OracleKind::Blh, 11, &[1, 2, 3, 4, 5, 6, 7, 8, 2]), "index 2 is outside 0..2");
}

#[test]
fn a_batch_with_a_malformed_report_changes_nothing() {
    for kind in KINDS {
        let oracle = oracle(kind, 11, "1");
        let mut random = SeededRandom::new(204);
        let good = reports(&oracle, [1, 2, 3], &mut random);
        let mut aggregate = oracle.aggregate();
        aggregate.add_batch(&good).unwrap();
        let before = aggregate.clone();
        let mut bad = good.clone();
        *bad.last_mut().unwrap() = 0xff;
        let error = aggregate.add_batch(&bad).unwrap_err();
        assert!(matches!(error, AggregateError::Report { index: 2, .. }), "{kind}: {error}");
        let error = aggregate.add_batch(&good[..good.len() - 1]);
        if oracle.report_length() > 1 {
            assert!(matches!(error, Err(AggregateError::BatchLength { .. })), "{kind}");
            assert_eq!(aggregate, before);
        }
    }
}

#[test]
fn an_empty_aggregate_has_no_estimate() {
    let aggregate = oracle(OracleKind::Oue, 4, "1").aggregate();
    assert_eq!(aggregate.estimate(), Err(AggregateError::NoReports));
}

#[test]
fn aggregates_of_different_oracles_do_not_merge() {
    let mut own = oracle(OracleKind::Oue, 4, "1").aggregate();
    for other in [oracle(OracleKind::Sue, 4, "1"), oracle(OracleKind::Oue, 5, "1"), oracle(OracleKind::Oue, 4, "1.1")] {
        let error = own.merge(&other.aggregate()).unwrap_err();
        assert!(error.to_string().ends_with("cannot be merged into one of oue over 4 values at epsilon 1"), "{error}");
    }
}

#[test]
fn aggregates_that_no_reports_can_have_made_are_not_loaded() {
    let load = |json: &str| serde_json::from_str::<Aggregate>(json).unwrap_err().to_string();
    let saved = |version: u16, oracle: &str, counts: &str| {
        format!(r#"{{"version":{version},"oracle":"{oracle}","domain":3,"epsilon":"1","reports":4,"counts":{counts}}}"#)
    };
    assert!(serde_json::from_str::<Aggregate>(&saved(1, "grr", "[1,2,1]")).is_ok());
    assert!(load(&saved(2, "grr", "[1,2,1]")).contains("version 2 is not known"));
    assert!(load(&saved(1, "grr", "[1,2]")).contains("has 2 counts where its oracle has 3"));
    assert!(load(&saved(1, "grr", "[1,2,2]")).contains("cannot come from 4 reports"));
    assert!(load(&saved(1, "oue", "[1,5,2]")).contains("cannot come from 4 reports"));
    assert!(load(&saved(1, "subset", "[1,1,1]")).contains("cannot come from 4 reports"));
    assert!(load(&saved(1, "rappor", "[1,1,1]")).contains("rappor"));
    assert!(load(&saved(1, "grr", "[1,2,1],\"more\":1")).contains("more"));
}

#[test]
fn saved_aggregates_of_version_1_still_load() {
    let golden = include_str!("../golden/aggregates_v1.json");
    let aggregates: Vec<Aggregate> = serde_json::from_str(golden).unwrap();
    let expected: Vec<Aggregate> = KINDS
        .into_iter()
        .map(|kind| {
            let oracle = oracle(kind, 11, "1");
            let mut aggregate = oracle.aggregate();
            aggregate.add_batch(&reports(&oracle, (0..40).map(|user| user % 11), &mut SeededRandom::new(205))).unwrap();
            aggregate
        })
        .collect();
    assert_eq!(aggregates, expected, "{}", serde_json::to_string(&expected).unwrap());
}

proptest! {
    #![proptest_config(repeatable(2_000))]

    #[test]
    fn merging_in_any_order_and_grouping_gives_the_same_estimate(
        kind in prop::sample::select(&KINDS[..]),
        domain in 2_u32..200,
        seed: u64,
        users in 1_usize..120,
        cuts in prop::collection::vec(0_usize..120, 0..4),
        reverse: bool,
        save: bool,
    ) {
        let oracle = oracle(kind, domain, "1");
        let mut random = SeededRandom::new(seed);
        let values: Vec<u32> = (0..users).map(|_| (random.next_word() % u64::from(domain)) as u32).collect();
        let batch = reports(&oracle, values, &mut random);
        let length = oracle.report_length();
        let mut whole = oracle.aggregate();
        whole.add_batch(&batch).unwrap();

        let mut one_by_one = oracle.aggregate();
        batch.chunks_exact(length).for_each(|report| one_by_one.add(report).unwrap());
        prop_assert_eq!(&one_by_one, &whole);

        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(users)).chain([0, users]).collect();
        cuts.sort_unstable();
        let mut parts: Vec<Aggregate> = cuts
            .windows(2)
            .map(|range| {
                let mut part = oracle.aggregate();
                part.add_batch(&batch[range[0] * length..range[1] * length]).unwrap();
                if save {
                    part = postcard::from_bytes(&postcard::to_allocvec(&part).unwrap()).unwrap();
                    part = serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap();
                }
                part
            })
            .collect();
        if reverse {
            parts.reverse();
        }
        // Left to right, and as a tree.
        let mut left = oracle.aggregate();
        parts.iter().for_each(|part| left.merge(part).unwrap());
        prop_assert_eq!(&left, &whole);
        while parts.len() > 1 {
            let last = parts.pop().unwrap();
            parts.last_mut().unwrap().merge(&last).unwrap();
        }
        prop_assert_eq!(&parts[0], &whole);
        prop_assert_eq!(parts[0].estimate().unwrap(), whole.estimate().unwrap());
    }

    #[test]
    fn every_report_of_a_device_is_well_formed(
        kind in prop::sample::select(&KINDS[..]),
        domain in prop_oneof![2_u32..300, 60_000_u32..70_000],
        units in 1_u64..20_000_000_000,
        seed: u64,
    ) {
        let Ok(oracle) = Oracle::new(kind, domain, Epsilon::from_units(units).unwrap()) else {
            return Err(TestCaseError::fail("refused"));
        };
        let mut random = SeededRandom::new(seed);
        let value = (random.next_word() % u64::from(domain)) as u32;
        let report = reports(&oracle, [value], &mut random);
        prop_assert_eq!(oracle.check(&report), Ok(()));
        prop_assert!(oracle.support_of_own() > oracle.support_of_other());
    }
}

#[test]
fn the_closed_form_variance_is_that_of_the_integer_weights() {
    for kind in KINDS {
        for domain in [2, 3, 10, 77, 5_000] {
            for text in ["0.01", "0.7", "3", "12"] {
                let exact = oracle(kind, domain, text).variance(10);
                let closed = kind.variance(domain, epsilon(text), 10);
                assert!((exact.constant / closed.constant - 1.0).abs() < 1e-6, "{kind} {domain} {text}");
                assert!((exact.slope - closed.slope).abs() < 1e-6 * closed.constant, "{kind} {domain} {text}");
            }
        }
    }
}

mod simulated {
    use tidegate_kernel::simulation::estimate_of;

    use super::*;

    /// The supports behind an estimate.
    fn supports(oracle: &Oracle, frequencies: &[f64], reports: u64) -> Vec<usize> {
        let (own, other) = (oracle.support_of_own(), oracle.support_of_other());
        let support = |frequency: &f64| (frequency * (own - other) + other) * reports as f64;
        frequencies.iter().map(|frequency| support(frequency).round() as usize).collect()
    }

    #[test]
    fn aggregate_and_per_user_simulation_have_the_same_joint_distribution() {
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
    fn larger_subsets_are_simulated_right_too() {
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
    fn crowds_that_name_hadamard_columns_together_are_simulated_right_too() {
        // More users than are simulated one by one: few at a column, and so many that a random word does not hold their
        // coins. Two chi-square samples agree at a false-alarm probability of 1e-6; with a tenth of the users elsewhere
        // they do not.
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
    fn a_population_that_does_not_fit_is_refused() {
        let oracle = oracle(OracleKind::Grr, 3, "1");
        let error = |counts: &[u64]| estimate_of(&oracle, counts, &mut SeededRandom::new(0)).unwrap_err().to_string();
        assert_eq!(error(&[1, 2]), "a population of 3 over 2 values cannot report to an oracle over 3 values");
        let too_many = "the counts sum to 18446744073709551616, more than a population can have";
        assert_eq!(error(&[u64::MAX, 1, 0]), too_many);
        assert_eq!(error(&[0, 0, 0]), "a population of 0 over 3 values cannot report to an oracle over 3 values");
    }
}

#[test]
fn a_sealed_value_is_reported_like_an_open_one_and_only_for_a_permit_of_its_timestamp() {
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
fn a_sealed_value_outside_the_domain_is_reported_as_the_last() {
    // An error would tell that it is outside, and so, domain by domain, which value it is.
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
