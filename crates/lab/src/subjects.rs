//! What there is to try on a stream, by name.
//!
//! To add a mechanism, implement [`Subject`] for it in the module of its family, say which settings matter to it and
//! how it runs on the kind of stream that it takes ([`OnCounts`], [`OnNumbers`] or [`OnSymbols`]), and list it in the
//! family's `SUBJECTS`. To add a family, list those in [`FAMILIES`].

use tidegate_kernel::SeededRandom;

use crate::experiment::{
    CountOutcome, NumberOutcome, OnCounts, OnNumbers, OnSymbols, RunError, Setting, Settings, Subject, SymbolOutcome,
};
use crate::stream::{CountStream, NumberStream, Stream, StreamKind, SymbolStream, as_float};
use crate::{central, local, scalar, sequence, track};
use tidegate::names::UnknownName;

/// The baseline that looks at nothing: it publishes, always, the uniform distribution, the number in the middle of the
/// domain or the symbol in the middle of the space ([`Space::middle`](crate::stream::Space::middle)). A mechanism that
/// is not better has told its readers nothing.
///
/// The most frequent symbol would be a better guess, but it is something that was learned from the data.
#[derive(Clone, Copy, Debug)]
pub struct Constant;

impl Subject for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn summary(&self) -> &'static str {
        "baseline: the uniform distribution or the middle of the domain, always; asks nobody and spends nothing"
    }

    fn uses(&self) -> &'static [Setting] {
        &[]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        Some(self)
    }

    fn on_symbols(&self) -> Option<&dyn OnSymbols> {
        Some(self)
    }
}

impl OnCounts for Constant {
    fn run(&self, stream: &CountStream, _: &Settings, _: &mut SeededRandom) -> Result<CountOutcome, RunError> {
        let uniform = vec![1.0 / as_float(stream.domain() as u64); stream.domain()];
        Ok(CountOutcome {
            frequencies: vec![uniform; stream.length()],
            of_counts: false,
            variances: Vec::new(),
            trees: Vec::new(),
            reports: 0,
        })
    }
}

impl OnNumbers for Constant {
    fn run(&self, stream: &NumberStream, _: &Settings, _: &mut SeededRandom) -> Result<NumberOutcome, RunError> {
        let middle = f64::midpoint(stream.grid().low(), stream.grid().high());
        Ok(NumberOutcome { values: vec![middle; stream.values().len()] })
    }
}

impl OnSymbols for Constant {
    fn run(&self, stream: &SymbolStream, _: &Settings, _: &mut SeededRandom) -> Result<SymbolOutcome, RunError> {
        let middle = stream.space().middle();
        let sequences = stream.sequences().iter().map(|sequence| vec![middle; sequence.len()]).collect();
        Ok(SymbolOutcome { sequences })
    }
}

/// All subjects, a list for each family, in the order in which they are listed.
pub const FAMILIES: &[&[&dyn Subject]] =
    &[&[&Constant], track::SUBJECTS, local::SUBJECTS, central::SUBJECTS, scalar::SUBJECTS, sequence::SUBJECTS];

/// All subjects.
pub fn all() -> impl Iterator<Item = &'static dyn Subject> {
    FAMILIES.iter().copied().flatten().copied()
}

/// The subject of a name.
pub fn by_name(name: &str) -> Result<&'static dyn Subject, UnknownName> {
    let found = all().find(|subject| subject.name() == name);
    found.ok_or_else(|| UnknownName::new("mechanism", name, all().map(Subject::name)))
}

/// Those that take streams of a kind.
pub fn that_take(kind: StreamKind) -> impl Iterator<Item = &'static dyn Subject> {
    all().filter(move |subject| subject.takes(kind))
}

/// A mechanism was given a stream of a kind that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{mechanism} takes {}, but {stream} is a stream of {given}; mechanisms that take it: {}",
    kinds(.takes), .fitting.join(", ")
)]
pub struct Misfit {
    /// The mechanism.
    pub mechanism: &'static str,
    /// The kinds of streams that it takes.
    pub takes: Vec<StreamKind>,
    /// The stream's name.
    pub stream: String,
    /// The kind of stream that it was given.
    pub given: StreamKind,
    /// The mechanisms that take it.
    pub fitting: Vec<&'static str>,
}

impl Misfit {
    /// Returns the error for a subject and a stream of a kind that it does not take.
    pub fn boxed(subject: &dyn Subject, given: StreamKind, stream: &str) -> Box<Self> {
        Box::new(Self {
            mechanism: subject.name(),
            takes: StreamKind::ALL.into_iter().filter(|kind| subject.takes(*kind)).collect(),
            stream: stream.to_owned(),
            given,
            fitting: that_take(given).map(Subject::name).collect(),
        })
    }
}

fn kinds(takes: &[StreamKind]) -> String {
    let names: Vec<_> = takes.iter().map(|kind| format!("streams of {kind}")).collect();
    names.join(" and ")
}

/// Whether a subject takes a stream; the error says which do.
pub fn check_fit(subject: &dyn Subject, stream: &Stream) -> Result<(), Box<Misfit>> {
    if subject.takes(stream.kind()) {
        return Ok(());
    }
    Err(Misfit::boxed(subject, stream.kind(), stream.name()))
}
