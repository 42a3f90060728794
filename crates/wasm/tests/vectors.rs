//! The vectors in `testdata`, computed natively. `.ci/wasm` computes them in WebAssembly.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::time::Instant;

use ed25519_dalek::SigningKey;
use tidegate_device::DevicePolicy;
use tidegate_device::clock::Ticks;
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::sequence::{Metric, PolicyModel, PolicyRow, SequenceMechanism, SequencePolicy};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Question, View, Window};
use tidegate_wasm::vectors::{Given, Vector, check, perturb};

const FILE: &str = include_str!("../../../testdata/device-reports-1.jsonl");

fn operator() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn policy(domain: u32) -> StreamPolicy {
    StreamPolicy {
        stream: "visits".to_owned(),
        protects: DevicePolicy { epsilon: "4".parse().unwrap(), window: Window::of(3).unwrap(), domain },
        oracle: None,
        ticks: Ticks { epoch: 1_700_000_000, seconds: NonZeroU64::new(60).unwrap() },
        slot_key: *b"sixteen byte key",
        sequence: None,
        issuer: None,
    }
}

fn sequence(length: u32) -> StreamPolicy {
    let mechanism = if length == 1 { SequenceMechanism::Crr } else { SequenceMechanism::Batched { length } };
    let row = |own: [u32; 2]| PolicyRow { own: vec![(0, own[0]), (1, own[1])], rest: 0 };
    let (most, rest) = (600_000_000, 400_000_000);
    let model = PolicyModel {
        prior: vec![500_000_000; 2],
        rows: vec![row([most, rest]), row([rest, most])],
        background: vec![500_000_000; 2],
    };
    let sequence = SequencePolicy { mechanism, epsilon: "1".parse().unwrap(), metric: Metric::Hamming, model };
    StreamPolicy { sequence: Some(sequence), ..policy(2) }
}

fn question(oracle: OracleKind, epsilon: &str, domain: u32, view: View) -> Question {
    let (timestamp, phase, cohort) = (1_000_003, 2, Cohort::Everyone);
    Question { timestamp, phase, cohort, epsilon: epsilon.parse().unwrap(), oracle, domain, view }
}

fn cases() -> Vec<Given> {
    let mut cases = Vec::new();
    let operator = operator();
    let mut add = |policy: StreamPolicy, question: Question, values: &[u32], seed| {
        cases.push(Given {
            operator: operator.verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
            identity: "000102030405060708090a0b0c0d0e0f".to_owned(),
            policy: policy.sign(&operator).unwrap(),
            question,
            values: values.to_vec(),
            seed,
        });
    };
    for kind in OracleKind::ALL {
        for (domain, epsilon, value, seed) in
            [(6, "0.5", 5, 7), (6, "3.7", 0, 8), (100, "1", 41, 9), (300, "2.25", 299, u64::MAX)]
        {
            add(policy(domain), question(kind, epsilon, domain, View::Values), &[value], seed);
        }
        add(policy(300), question(kind, "1", 300, View::Ranges(vec![0, 3, 100, 101, 299])), &[100], 10);
    }
    let slots = Cohort::Slots { first: 65_000, count: 65_536 };
    add(policy(6), Question { cohort: slots, ..question(OracleKind::Grr, "1", 6, View::Values) }, &[2], 11);
    for (length, values) in [(1, &[1][..]), (2, &[0, 1])] {
        add(sequence(length), question(OracleKind::Grr, "2", 2, View::Sequence { length }), values, 12);
    }
    cases
}

#[test]
fn a_native_device_computes_the_vectors() {
    let mut computed = String::new();
    for given in cases() {
        let vector = Vector { computed: given.compute().unwrap(), given };
        writeln!(computed, "{}", serde_json::to_string(&vector).unwrap()).unwrap();
    }
    assert!(computed == FILE, "{computed}");
    assert_eq!(check(FILE), Ok(38));
}

#[test]
fn a_changed_vector_is_noticed() {
    let (before, last) = FILE.trim_end().rsplit_once("\"batch\":\"").unwrap();
    let changed = format!("{before}\"batch\":\"{}", last.replacen('5', "6", 1));
    assert!(check(&changed).unwrap_err().starts_with("line 38: computed"));
    let other_seed = FILE.replacen("\"seed\":7", "\"seed\":70", 1);
    assert!(check(&other_seed).unwrap_err().starts_with("line 1: computed"));
}

/// `cargo test -p tidegate-wasm --release --test vectors speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed_of_native_perturbations() {
    for kind in OracleKind::ALL {
        let (count, began) = (200_000, Instant::now());
        perturb(kind.name(), 100, "1", count).unwrap();
        let each = began.elapsed().as_secs_f64() / f64::from(count);
        println!("{kind}: {:.0} perturbations a second", 1.0 / each);
    }
}
