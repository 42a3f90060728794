//! What the fuzz targets do with their input, and what must hold whatever that is.
//!
//! Each function is the whole body of the target of the same name in the repository's `fuzz` folder. The tests run
//! them too, on a fixed set of inputs, so the assertions are checked where no fuzzer is installed. For a new target,
//! write its body here, a file of three lines in `fuzz/fuzz_targets`, its `[[bin]]` in `fuzz/Cargo.toml`, and a test
//! with its seeds in `tests/kernel/fuzz.rs`.

mod shadow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_kernel::{Epsilon, EpsilonError, Ledger, Window};

pub use shadow::{Shadowed, Step};

/// Whatever was decoded must survive each encoding unchanged.
pub fn assert_survives_encoding<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let json = serde_json::to_vec(value).unwrap();
    assert_eq!(&serde_json::from_slice::<T>(&json).unwrap(), value);
    let bytes = postcard::to_allocvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
}

/// Any text as an epsilon: the three ways to parse it agree, and rounding goes towards more privacy by less than a unit.
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

/// Any JSON as a saved ledger: what loads is a state that a ledger can be in.
pub fn ledger_json(bytes: &[u8]) {
    if let Ok(ledger) = serde_json::from_slice(bytes) {
        assert_keeps_to_its_budget(ledger);
    }
}

/// Any bytes as a ledger saved with postcard: what loads is a state that a ledger can be in.
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
    // Enough to fill and leave a window many times over; the brute force at the end takes the square.
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
