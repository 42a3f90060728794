//! Parsers for values of options.

#[cfg(feature = "lab")]
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Parses a type that holds whole numbers from one.
pub(crate) fn at_least_one<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "expected a whole number, at least 1")
}

/// Parses the ends of a domain: `LO..HI`.
pub(crate) fn domain<T: FromStr>(text: &str) -> Result<(T, T), &'static str> {
    let ends = text.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    ends.ok_or("expected two numbers: LO..HI")
}

/// The number of threads that was given, or one for each core.
#[cfg(feature = "lab")]
pub(crate) fn threads_or_all(given: Option<NonZeroUsize>) -> NonZeroUsize {
    given.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}
