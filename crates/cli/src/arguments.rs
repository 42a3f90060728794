//! Parsers for values of options.

use std::str::FromStr;

use tidegate::names::UnknownName;
use tidegate::post_processing::Repair;

/// Parses a type that holds whole numbers from one.
pub(crate) fn at_least_one<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "expected a whole number, at least 1")
}

/// Parses the ends of a domain: `LO..HI`.
pub(crate) fn domain<T: FromStr>(text: &str) -> Result<(T, T), &'static str> {
    let ends = text.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    ends.ok_or("expected two numbers: LO..HI")
}

/// A repair of releases, by its name in specs.
pub(crate) fn repair(name: &str) -> Result<Repair, UnknownName> {
    let found = Repair::ALL.into_iter().find(|repair| repair.name() == name);
    found.ok_or_else(|| UnknownName::new("repair", name, Repair::ALL.map(Repair::name)))
}
