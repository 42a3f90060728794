//! What there is to try on a stream, by name.
//!
//! A mechanism of [the list](tidegate::mechanisms) is there by itself; each family says how its mechanisms run on a
//! stream.

use std::sync::LazyLock;

use tidegate::mechanisms::{self, Mechanism};
use tidegate::names::UnknownName;
use tidegate_kernel::SeededRandom;

use crate::experiment::{
    CountOutcome, MeanOutcome, NumberOutcome, OnCounts, OnNumbers, OnSymbols, RunError, Setting, Subject,
    SymbolOutcome, TrialSettings,
};
use crate::stream::{CountStream, DataStream, NumberStream, StreamKind, SymbolStream, as_float};
use crate::{central, local, scalar, sequence};

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

    fn summary(&self) -> String {
        "baseline: the uniform distribution or the middle of the domain, always; asks nobody and spends nothing"
            .to_owned()
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
    fn run(&self, stream: &CountStream, _: &TrialSettings, _: &mut SeededRandom) -> Result<CountOutcome, RunError> {
        let uniform = vec![1.0 / as_float(stream.domain() as u64); stream.domain()];
        Ok(CountOutcome {
            frequencies: vec![uniform; stream.length()],
            of_counts: false,
            variances: Vec::new(),
            trees: Vec::new(),
            reports: 0,
            bytes: 0,
        })
    }

    fn run_mean(&self, stream: &CountStream, _: &TrialSettings, _: &mut SeededRandom) -> Result<MeanOutcome, RunError> {
        let middle = as_float(stream.domain() as u64 - 1) / 2.0;
        let released = NumberOutcome { values: vec![middle; stream.length()], variances: Vec::new() };
        Ok(MeanOutcome { released, reports: 0, bytes: 0 })
    }
}

impl OnNumbers for Constant {
    fn run(&self, stream: &NumberStream, _: &TrialSettings, _: &mut SeededRandom) -> Result<NumberOutcome, RunError> {
        let middle = f64::midpoint(stream.grid().low(), stream.grid().high());
        Ok(NumberOutcome { values: vec![middle; stream.values().len()], variances: Vec::new() })
    }
}

impl OnSymbols for Constant {
    fn run(&self, stream: &SymbolStream, _: &TrialSettings, _: &mut SeededRandom) -> Result<SymbolOutcome, RunError> {
        let middle = stream.space().middle();
        let sequences = stream.sequences().iter().map(|sequence| vec![middle; sequence.len()]).collect();
        Ok(SymbolOutcome { sequences })
    }
}

static ALL: LazyLock<Vec<&'static dyn Subject>> = LazyLock::new(|| {
    let baseline: &'static dyn Subject = &Constant;
    let mut all = vec![baseline];
    all.extend(local::subjects());
    all.extend(central::subjects());
    all.extend(scalar::subjects());
    all.extend(sequence::subjects());
    all
});

/// What an entry of the list does, with its family.
pub(crate) fn summary_of(listed: &Mechanism) -> String {
    format!("{}: {}", listed.family, listed.summary)
}

/// Name, entry and summary of a subject with a method `listed`, which returns its entry of the list.
macro_rules! listed {
    () => {
        fn name(&self) -> &'static str {
            self.listed().name()
        }

        fn mechanism(&self) -> Option<&'static Mechanism> {
            Some(self.listed())
        }

        fn summary(&self) -> String {
            crate::subjects::summary_of(self.listed())
        }
    };
}

pub(crate) use listed;

/// All subjects, family by family.
pub fn all() -> impl Iterator<Item = &'static dyn Subject> + Clone {
    ALL.iter().copied()
}

/// The subject of a full name, or of a short one that only one subject has.
///
/// # Errors
/// [`UnknownName`], with all names, or with those that a short one may mean.
pub fn by_name(name: &str) -> Result<&'static dyn Subject, UnknownName> {
    among(all(), name)
}

/// Checks that a subject has a name; which one may depend on the stream.
///
/// # Errors
/// [`UnknownName`], with all names.
pub fn check_name(name: &str) -> Result<(), UnknownName> {
    if all().any(|subject| has_name(subject, name)) {
        return Ok(());
    }
    Err(UnknownName::new("mechanism", name, all().map(Subject::name)))
}

/// The subject of a name, among those that take streams of a kind; the others are looked at where none of these has
/// it.
///
/// # Errors
/// As [`by_name`].
pub fn by_name_for(kind: StreamKind, name: &str) -> Result<&'static dyn Subject, UnknownName> {
    let fits = |subject: &dyn Subject| has_name(subject, name);
    if that_take(kind).any(fits) { among(that_take(kind), name) } else { by_name(name) }
}

/// Whether a subject is meant by a name.
pub(crate) fn has_name(subject: &dyn Subject, name: &str) -> bool {
    let listed = subject.mechanism().is_some_and(|listed| listed.full_name == name || listed.short_name == name);
    // The baseline of all kinds of streams has the scalar one's entry too.
    let baseline = subject.name() == "constant" && name == "scalar.constant";
    listed || baseline || subject.name() == name
}

fn among(
    subjects: impl Iterator<Item = &'static dyn Subject> + Clone,
    name: &str,
) -> Result<&'static dyn Subject, UnknownName> {
    let mut fitting = subjects.clone().filter(|subject| has_name(*subject, name));
    match (fitting.next(), fitting.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(mechanisms::ambiguous(name, subjects.filter_map(Subject::mechanism))),
        _ => Err(UnknownName::new("mechanism", name, subjects.map(Subject::name))),
    }
}

/// Those that take streams of a kind.
pub fn that_take(kind: StreamKind) -> impl Iterator<Item = &'static dyn Subject> + Clone {
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
pub fn check_fit(subject: &dyn Subject, stream: &DataStream) -> Result<(), Box<Misfit>> {
    if subject.takes(stream.kind()) {
        return Ok(());
    }
    Err(Misfit::boxed(subject, stream.kind(), stream.name()))
}
