//! What the tests share.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tidegate_lab::{CountStream, NumberStream, Stream, SymbolStream};

/// A stream over values numbered from zero.
pub(crate) fn stream(counts: &[&[u64]]) -> CountStream {
    let labels = (0..counts[0].len()).map(|value| value.to_string()).collect();
    CountStream::new("test", labels, counts.iter().map(|row| row.to_vec()).collect()).unwrap()
}

/// What is known to be a stream of counts.
#[track_caller]
pub(crate) fn counts(stream: Stream) -> CountStream {
    match stream {
        Stream::Counts(stream) => stream,
        other => panic!("{other}"),
    }
}

/// What is known to be a stream of numbers.
#[track_caller]
pub(crate) fn numbers(stream: Stream) -> NumberStream {
    match stream {
        Stream::Numbers(stream) => stream,
        other => panic!("{other}"),
    }
}

/// What is known to be a stream of symbols.
#[track_caller]
pub(crate) fn symbols(stream: Stream) -> SymbolStream {
    match stream {
        Stream::Symbols(stream) => stream,
        other => panic!("{other}"),
    }
}

/// An empty directory of the test's own.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Writes a file, and the folders above it.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn gzip(content: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// Asserts that two numbers agree to twelve digits.
#[track_caller]
pub(crate) fn assert_close(given: f64, expected: f64) {
    assert!((given - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{given} is not {expected}");
}
