//! Parsers for values of options.

#[cfg(feature = "lab")]
use std::num::NonZeroUsize;
use std::str::FromStr;

use tidegate::names::UnknownName;
use tidegate::post_processing::Repair;
use tidegate::spec::ProtectsSpec;

/// Parses a type that holds whole numbers from one.
pub(crate) fn at_least_one<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "expected a whole number, at least 1")
}

/// Parses the ends of a domain: `LO..HI`.
pub(crate) fn domain<T: FromStr>(text: &str) -> Result<(T, T), &'static str> {
    let ends = text.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    ends.ok_or("expected two numbers: LO..HI")
}

/// Parses the privacy unit of a stream of numbers: `reading`, or `contributor=CHANGE`.
pub(crate) fn protects(text: &str) -> Result<ProtectsSpec, &'static str> {
    if text == "reading" {
        return Ok(ProtectsSpec::Reading);
    }
    let change = text.strip_prefix("contributor=").and_then(|change| change.parse().ok());
    change.map(ProtectsSpec::Contributor).ok_or("expected reading, or contributor=CHANGE, as in contributor=1")
}

/// The number of threads that was given, or one for each core.
#[cfg(feature = "lab")]
pub(crate) fn threads_or_all(given: Option<NonZeroUsize>) -> NonZeroUsize {
    given.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// A repair of releases, by its name in specs.
pub(crate) fn repair(name: &str) -> Result<Repair, UnknownName> {
    let found = Repair::ALL.into_iter().find(|repair| repair.name() == name);
    found.ok_or_else(|| UnknownName::new("repair", name, Repair::ALL.map(Repair::name)))
}
