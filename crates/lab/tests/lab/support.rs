//! What the tests share.

use tidegate_lab::{CountStream, DataStream, NumberStream, SymbolStream};

pub(crate) use crate::files::{directory, gzip, write};

/// A stream over values numbered from zero.
pub(crate) fn stream(counts: &[&[u64]]) -> CountStream {
    let labels = (0..counts[0].len()).map(|value| value.to_string()).collect();
    CountStream::new("test", labels, counts.iter().map(|row| row.to_vec()).collect()).unwrap()
}

/// What is known to be a stream of counts.
#[track_caller]
pub(crate) fn counts(stream: DataStream) -> CountStream {
    match stream {
        DataStream::Counts(stream) => stream,
        other => panic!("{other}"),
    }
}

/// What is known to be a stream of numbers.
#[track_caller]
pub(crate) fn numbers(stream: DataStream) -> NumberStream {
    match stream {
        DataStream::Numbers(stream) => stream,
        other => panic!("{other}"),
    }
}

/// What is known to be a stream of symbols.
#[track_caller]
pub(crate) fn symbols(stream: DataStream) -> SymbolStream {
    match stream {
        DataStream::Symbols(stream) => stream,
        other => panic!("{other}"),
    }
}

/// Asserts that two numbers agree to twelve digits.
#[track_caller]
pub(crate) fn assert_close(given: f64, expected: f64) {
    assert!((given - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{given} is not {expected}");
}
