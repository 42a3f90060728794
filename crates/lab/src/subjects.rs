//! What there is to try on a stream, by name.

use tidegate::local::LocalKind;
use tidegate_kernel::SeededRandom;

use crate::experiment::{Outcome, RunError, Settings, Subject};
use crate::local::LocalSubject;
use crate::names::UnknownName;
use crate::stream::{CountStream, as_float};

/// The baseline that asks nobody anything: it publishes the uniform distribution, always. A mechanism that is not better has
/// told its readers nothing.
#[derive(Clone, Copy, Debug)]
pub struct Constant;

impl Subject for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn summary(&self) -> &'static str {
        "baseline: the uniform distribution, always; asks nobody and spends nothing"
    }

    fn run(&self, stream: &CountStream, _: &Settings, _: &mut SeededRandom) -> Result<Outcome, RunError> {
        let uniform = vec![1.0 / as_float(stream.domain() as u64); stream.domain()];
        Ok(Outcome { frequencies: vec![uniform; stream.length()], trees: Vec::new(), reports: 0 })
    }
}

/// All subjects, in the order in which they are listed.
pub const ALL: [&dyn Subject; 10] = [
    &Constant,
    &LocalSubject(LocalKind::Lbu),
    &LocalSubject(LocalKind::Lsp),
    &LocalSubject(LocalKind::Lbd),
    &LocalSubject(LocalKind::Lba),
    &LocalSubject(LocalKind::Lpu),
    &LocalSubject(LocalKind::Lpd),
    &LocalSubject(LocalKind::Lpa),
    &LocalSubject(LocalKind::Mtsp),
    &LocalSubject(LocalKind::MtspPopulation),
];

/// The subject of a name.
pub fn by_name(name: &str) -> Result<&'static dyn Subject, UnknownName> {
    let found = ALL.into_iter().find(|subject| subject.name() == name);
    found.ok_or_else(|| UnknownName::new("mechanism", name, ALL.into_iter().map(Subject::name)))
}
