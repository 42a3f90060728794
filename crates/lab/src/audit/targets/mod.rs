//! What there is to audit: every mechanism, as users run it, with its neighbouring streams.
//!
//! To have a new mechanism audited, implement [`Target`] for it in the module of its family and list it there.

pub mod central;
pub mod local;
pub mod oracle;
mod patterns;
pub mod scalar;
pub mod sequence;

use std::collections::HashSet;

use crate::audit::{AuditSettings, Target, TargetFamily};
use crate::experiment::RunError;
use tidegate::names::UnknownName;

/// Every target. An error where the settings are outside what a mechanism can be set to.
pub fn all(settings: &AuditSettings) -> Result<Vec<Box<dyn Target>>, RunError> {
    let mut targets = oracle::targets(settings);
    targets.extend(local::targets(settings)?);
    targets.extend(central::targets(settings)?);
    targets.extend(scalar::targets(settings)?);
    targets.extend(sequence::targets(settings)?);
    Ok(targets)
}

/// The targets of these names, of all families or of one; of all names where none is given.
///
/// # Errors
/// The first name that no target has, with what there is.
pub fn chosen(
    targets: Vec<Box<dyn Target>>,
    names: &[String],
    family: Option<TargetFamily>,
) -> Result<Vec<Box<dyn Target>>, UnknownName> {
    let mut of_family = targets;
    of_family.retain(|target| family.is_none_or(|family| target.family() == family));
    for name in names {
        if !of_family.iter().any(|target| has_name(target.as_ref(), name)) {
            let mut seen = HashSet::new();
            let known = of_family.iter().map(|target| target.name()).filter(|name| seen.insert(*name));
            return Err(UnknownName::new("mechanism", name, known));
        }
    }
    of_family.retain(|target| names.is_empty() || names.iter().any(|name| has_name(target.as_ref(), name)));
    Ok(of_family)
}

/// Whether a target is meant by a name, short or full.
fn has_name(target: &dyn Target, name: &str) -> bool {
    let full = || {
        name.split_once('.').is_some_and(|(family, short)| family == target.family().name() && short == target.name())
    };
    target.name() == name || full()
}

/// A target was given the stream of another family.
fn other_input(target: &dyn Target) -> RunError {
    RunError::unsupported(format!("{} takes streams of the {} family", target.name(), target.family()))
}

/// A spend as a number of a transcript: zero where there was none.
fn spent(spent: &tidegate::release::Spent) -> f64 {
    spent.most().map_or(0.0, tidegate_kernel::Epsilon::as_f64)
}

/// A variance as a number of a transcript: one that is not stated is below all others.
fn stated(variance: f64) -> f64 {
    if variance.is_finite() { variance } else { -1.0 }
}

/// A freshness as a number of a transcript.
fn freshness(freshness: tidegate::release::Freshness) -> f64 {
    f64::from(freshness as u8)
}
