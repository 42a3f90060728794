//! Checks of reports, and the algebra and saved form of aggregates.

use proptest::prelude::*;
use tidegate_kernel::oracle::{Aggregate, AggregateError, MalformedReport, Oracle, OracleKind};
use tidegate_kernel::{Epsilon, Randomness, SeededRandom};

use super::{KINDS, oracle, reports};
use crate::support::repeatable;

#[test]
fn rejects_malformed_reports_with_the_reason() {
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
fn rejects_impossible_saved_aggregates() {
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
    let golden = include_str!("../../golden/aggregates_v1.json");
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
    fn merging_is_associative_and_commutative(
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
