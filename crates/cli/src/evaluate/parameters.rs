//! Parameters that some mechanisms have, as options.

use clap::{Args, ValueEnum};
use tidegate::mechanisms::Family;
use tidegate::post_processing::Repair;
use tidegate::scalar::Truncation;
use tidegate_kernel::primitives::Neighbours;
use tidegate_lab::experiment::{Subject, TrialSettings};

use crate::arguments::repair;
use crate::failure::Failure;

/// Parameters of mechanisms, as a spec has them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Parameters of some mechanisms")]
pub(super) struct Parameters {
    /// How much a group of numbers may scatter, in the unit of the stream
    #[arg(long, value_name = "NUMBER")]
    threshold: Option<f64>,

    /// Into how many parts bucorder divides the domain
    #[arg(long, value_name = "N")]
    buckets: Option<u32>,

    /// After how many batches the bound of truncated numbers is chosen again, and from how many of a
    /// hundred of them; 10:20 unless given. For mechanisms whose names end in _truncated
    #[arg(long, value_name = "EVERY:PERCENT", value_parser = truncation)]
    truncation: Option<Truncation>,

    /// How points of a group are averaged; as the mechanism does unless given
    #[arg(long, value_enum)]
    smoother: Option<Average>,

    /// Let local mechanisms use the reports of the question that decided about a release for it as well
    #[arg(long)]
    reuse: bool,

    /// Which streams central mechanisms make hard to tell apart: with and without one user, which is the
    /// default, or with one value of a user or another
    #[arg(long, value_enum)]
    neighbours: Option<NeighboursName>,

    /// The repair of what mechanisms release, free of budget: consistent (least squares; the nodes of a tree
    /// agree and sum to one), norm_sub (not negative either) or none. Unless given, trees are made consistent
    #[arg(long, value_parser = repair)]
    repair: Option<Repair>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Average {
    Mean,
    Median,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NeighboursName {
    AddRemove,
    Replace,
}

impl Parameters {
    /// Replaces the settings that were given.
    pub(super) fn apply(&self, settings: TrialSettings) -> TrialSettings {
        TrialSettings {
            threshold: self.threshold,
            buckets: self.buckets,
            truncation: self.truncation,
            median: self.smoother == Some(Average::Median),
            reuse: self.reuse,
            neighbours: match self.neighbours {
                Some(NeighboursName::Replace) => Neighbours::Replace,
                _ => Neighbours::AddRemove,
            },
            ..settings
        }
    }

    /// Returns the repair of a mechanism's releases; unless given, that of `tidegate release`.
    pub(super) fn repair(&self, subject: &dyn Subject) -> Repair {
        let usual = || subject.mechanism().map_or(Repair::None, |mechanism| Repair::default_of(mechanism.output));
        self.repair.unwrap_or_else(usual)
    }

    /// Returns the keys of the spec that were given.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
        let given = [
            ("threshold", self.threshold.is_some()),
            ("buckets", self.buckets.is_some()),
            ("truncation", self.truncation.is_some()),
            ("smoother", self.smoother.is_some()),
            ("reuse", self.reuse),
            ("neighbours", self.neighbours.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key)
    }
}

/// Refuses `--smooth` for mechanisms whose releases it does not change.
pub(super) fn refuse_to_smooth(chosen: &[&'static dyn Subject]) -> Result<(), Failure> {
    let is_fixed = |subject: &&&dyn Subject| subject.mechanism().is_some_and(|mechanism| !mechanism.can_be_smoothed());
    let Some(subject) = chosen.iter().find(is_fixed) else { return Ok(()) };
    Err(Failure::input(format_args!(
        "--smooth changes nothing for {}, which filters its releases itself, or releases trees or always the same; \
         leave out one of the two",
        subject.name()
    )))
}

/// Whether a mechanism has a use for a key of its spec.
pub(super) fn uses_key(subject: &dyn Subject, key: &str) -> bool {
    subject.mechanism().is_some_and(|mechanism| match key {
        "neighbours" => mechanism.family == Family::Central,
        "truncation" => mechanism.presets.iter().any(|(fixed, _)| *fixed == key),
        _ => mechanism.keys.contains(&key) && mechanism.presets.iter().all(|(fixed, _)| *fixed != key),
    })
}

fn truncation(text: &str) -> Result<Truncation, &'static str> {
    let parts = text.split_once(':').and_then(|(every, percent)| Some((every.parse().ok()?, percent.parse().ok()?)));
    let (every, percent) = parts.ok_or("expected two whole numbers: EVERY:PERCENT")?;
    Ok(Truncation { every, percent })
}
