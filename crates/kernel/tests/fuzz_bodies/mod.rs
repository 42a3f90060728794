//! Bodies of the fuzz targets: what they do with any input, and which assertions must hold.
//!
//! Each function is the body of the target of the same name in the repository's `fuzz` folder. The tests run them on
//! fixed inputs too, so no fuzzer is needed. A new target needs a body here, a file in `fuzz/fuzz_targets`, a `[[bin]]`
//! in `fuzz/Cargo.toml`, and a test with seeds in `tests/kernel/fuzz.rs`.

mod shadow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_kernel::oracle::{Aggregate, AggregateError, LikelihoodError, Oracle, OracleKind};
use tidegate_kernel::{Epsilon, EpsilonError, Ledger, MAX_RESPONSE_EPSILON, SeededRandom, Window};

pub use shadow::{Shadowed, Step};

/// Asserts that a decoded value survives each encoding.
pub fn assert_survives_encoding<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let json = serde_json::to_vec(value).unwrap();
    assert_eq!(&serde_json::from_slice::<T>(&json).unwrap(), value);
    let bytes = postcard::to_allocvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
}

/// Any text as an epsilon: the three ways to parse it agree, and rounding goes towards more privacy by less than a
/// unit.
pub fn epsilon_text(bytes: &[u8]) {
    if let Ok(amount) = serde_json::from_slice::<Epsilon>(bytes) {
        assert_survives_encoding(&amount);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (exact, budget, spend) = (text.parse::<Epsilon>(), Epsilon::parse_budget(text), Epsilon::parse_spend(text));
    match exact {
        Ok(amount) => {
            assert!((Epsilon::MIN..=Epsilon::MAX).contains(&amount));
            assert_eq!((budget, spend), (Ok(amount), Ok(amount)));
            assert_eq!(amount.to_string().parse(), Ok(amount));
            assert_survives_encoding(&amount);
        }
        Err(EpsilonError::TooPrecise { .. }) => match budget {
            Ok(below) => assert_eq!(spend.ok(), below.checked_add(Epsilon::MIN)),
            Err(EpsilonError::TooSmall { .. }) => assert_eq!(spend, Ok(Epsilon::MIN)),
            Err(error) => assert_eq!(spend, Err(error)),
        },
        Err(error) => {
            assert!(error.to_string().chars().count() < 500, "a message must not grow with the input");
            assert_eq!((budget, spend), (Err(error.clone()), Err(error)));
        }
    }
}

/// Any JSON as a saved ledger: loaded states are reachable.
pub fn ledger_json(bytes: &[u8]) {
    if let Ok(ledger) = serde_json::from_slice(bytes) {
        assert_keeps_to_its_budget(ledger);
    }
}

/// Any bytes as a ledger saved with postcard: loaded states are reachable.
pub fn ledger_postcard(bytes: &[u8]) {
    if let Ok(ledger) = postcard::from_bytes(bytes) {
        assert_keeps_to_its_budget(ledger);
    }
}

fn assert_keeps_to_its_budget(ledger: Ledger) {
    assert_survives_encoding(&ledger);
    let mut shadowed = Shadowed::new(ledger, 0);
    for jump in [0, 0, -1, 1, 2, 1_000, i64::MAX, i64::MAX, 1] {
        shadowed.take(Step::Spend { jump, amount: Epsilon::MIN });
        shadowed.take(Step::SpendAllThatRemains { jump: 0 });
        shadowed.take(Step::Close { jump: 0 });
    }
    shadowed.assert_no_window_exceeds_the_budget();
}

/// Bytes as a budget, a window, a start and then steps of two bytes each: the ledger and its shadow always agree.
pub fn ledger_operations(bytes: &[u8]) {
    let [budget, window, start, steps @ ..] = bytes else { return };
    let Ok(budget) = Epsilon::from_units(u64::from(*budget)) else { return };
    let window = match window {
        0 => Window::Unbounded,
        255 => Window::of(u64::MAX).unwrap(),
        length => Window::of(u64::from(*length % 16) + 1).unwrap(),
    };
    let start = if start % 2 == 0 { u64::from(*start) } else { u64::MAX - u64::from(*start) };
    let mut shadowed = Shadowed::new(Ledger::new(budget, window), start);
    // Enough to fill and leave a window many times; the final brute force takes quadratic time.
    for step in steps.chunks_exact(2).take(200) {
        let (action, operand) = (step[0] % 8, step[1]);
        let jump = match step[0] / 8 {
            0..=7 => 0,
            8..=15 => 1,
            16..=23 => i64::from(operand % 20),
            24..=27 => -1,
            28..=29 => -i64::from(operand),
            30 => i64::from(operand) << 48,
            _ => i64::MAX,
        };
        shadowed.take(match (action, Epsilon::from_units(u64::from(operand))) {
            (0, _) => Step::Open { jump },
            (1, _) => Step::Close { jump },
            (2, _) => Step::SaveAndLoadAsJson,
            (3, _) => Step::SaveAndLoadAsPostcard,
            (4, _) | (_, Err(_)) => Step::SpendAllThatRemains { jump },
            (_, Ok(amount)) => Step::Spend { jump, amount },
        });
    }
    shadowed.assert_no_window_exceeds_the_budget();
}

/// Bytes as an oracle, then as a report and as a batch: all checks agree, refused reports leave no trace, and no report
/// loses more than epsilon.
pub fn oracle_report(bytes: &[u8]) {
    let [kind, domain, epsilon, bytes @ ..] = bytes else { return };
    let kind = OracleKind::ALL[usize::from(*kind) % OracleKind::ALL.len()];
    // Reports of one to three index bytes, with and without bits to spare in the last byte of a vector.
    let domain = match domain {
        253 => 1_000,
        254 => 65_536,
        255 => 65_537,
        small => u32::from(*small) + 2,
    };
    let units = if *epsilon == 0 { 1 } else { u64::from(*epsilon) * 80_000_000 };
    let epsilon = Epsilon::from_units(units).unwrap();
    let Ok(oracle) = Oracle::new(kind, domain, epsilon) else {
        assert!(epsilon > MAX_RESPONSE_EPSILON);
        return;
    };
    assert_one_report_is_judged_alike(&oracle, bytes);
    assert_a_batch_is_all_or_nothing(&oracle, bytes);
}

fn assert_one_report_is_judged_alike(oracle: &Oracle, report: &[u8]) {
    let verdict = oracle.check(report);
    let mut added = oracle.aggregate();
    assert_eq!(added.add(report), verdict);
    assert_eq!(added.reports(), u64::from(verdict.is_ok()));
    if verdict.is_err() {
        assert_eq!(added, oracle.aggregate());
    }
    let values = [0, oracle.domain() / 2, oracle.domain() - 1];
    let logarithms = values.map(|value| oracle.log_likelihood(value, report));
    for logarithm in &logarithms {
        assert_eq!(logarithm.clone().map(drop), verdict.map_err(LikelihoodError::from));
    }
    if verdict.is_ok() {
        let logarithms = logarithms.into_iter().flatten();
        let (low, high) =
            logarithms.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), next| (low.min(next), high.max(next)));
        assert!(low.is_finite() && high <= 0.0);
        let (loss, claimed) = (high - low, oracle.epsilon());
        assert!(loss <= claimed.as_f64() + 1e-6, "{}: a loss of {loss} at epsilon {claimed}", oracle.kind());
    }
}

fn assert_a_batch_is_all_or_nothing(oracle: &Oracle, bytes: &[u8]) {
    let mut ledger = Ledger::new(oracle.epsilon(), Window::EVENT);
    let permit = ledger.spend(0, oracle.epsilon()).unwrap();
    let genuine = oracle.perturb(permit, oracle.domain() - 1, &mut SeededRandom::new(0)).unwrap();
    let mut before = oracle.aggregate();
    before.add(genuine.as_bytes()).unwrap();

    let length = oracle.report_length();
    let judge = |(index, report)| oracle.check(report).map_err(|problem| AggregateError::Report { index, problem });
    let expected = if bytes.len().is_multiple_of(length) {
        bytes.chunks_exact(length).enumerate().try_for_each(judge)
    } else {
        Err(AggregateError::BatchLength { given: bytes.len(), expected: length })
    };
    let mut after = before.clone();
    assert_eq!(after.add_batch(bytes), expected);
    if expected.is_err() {
        assert_eq!(after, before);
        return;
    }
    let mut one_by_one = before;
    bytes.chunks_exact(length).for_each(|report| one_by_one.add(report).unwrap());
    assert_eq!(after, one_by_one);
    assert_eq!(after.reports(), 1 + (bytes.len() / length) as u64);
    assert!(after.estimate().unwrap().frequencies().iter().all(|frequency| frequency.is_finite()));
}

/// Any JSON as a saved aggregate, or a list of them: loaded states are reachable.
pub fn aggregate_json(bytes: &[u8]) {
    let one = serde_json::from_slice::<Aggregate>(bytes);
    let several = serde_json::from_slice::<Vec<Aggregate>>(bytes);
    one.into_iter().chain(several.into_iter().flatten()).for_each(assert_counts_like_one_of_reports);
}

/// Any bytes as an aggregate saved with postcard: loaded states are reachable.
pub fn aggregate_postcard(bytes: &[u8]) {
    if let Ok(aggregate) = postcard::from_bytes(bytes) {
        assert_counts_like_one_of_reports(aggregate);
    }
}

fn assert_counts_like_one_of_reports(aggregate: Aggregate) {
    assert_survives_encoding(&aggregate);
    let (reports, supports) = (aggregate.reports(), aggregate.supports());
    assert_eq!(supports.len(), aggregate.oracle().domain() as usize);
    assert!(supports.iter().all(|support| *support <= reports));
    match aggregate.estimate() {
        Ok(estimate) => {
            assert_eq!(estimate.reports(), reports);
            assert!(estimate.frequencies().iter().all(|frequency| frequency.is_finite()));
        }
        Err(error) => assert_eq!((error, reports), (AggregateError::NoReports, 0)),
    }
    let mut doubled = aggregate.clone();
    match doubled.merge(&aggregate) {
        Ok(()) => {
            assert_eq!(doubled.reports(), 2 * reports);
            assert!(doubled.supports().iter().zip(&supports).all(|(twice, once)| *twice == 2 * once));
            assert_survives_encoding(&doubled);
        }
        Err(error) => {
            assert_eq!(error, AggregateError::Overflow);
            assert!(reports > 1 << 61);
            assert_eq!(doubled, aggregate);
        }
    }
}
