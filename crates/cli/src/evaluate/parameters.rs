//! Parameters that some mechanisms have, as options.

use clap::{Args, ValueEnum};
use tidegate::post_processing::Repair;
use tidegate::scalar::Truncation;
use tidegate_kernel::primitives::Neighbours;
use tidegate_lab::evaluate;

use crate::arguments::repair;

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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Average {
    Mean,
    Median,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NeighboursName {
    AddRemove,
    Replace,
}

impl Parameters {
    /// Returns what was given.
    pub(super) fn given(&self) -> evaluate::Parameters {
        evaluate::Parameters {
            threshold: self.threshold,
            buckets: self.buckets,
            truncation: self.truncation,
            smoother: self.smoother.map(|smoother| match smoother {
                Average::Mean => evaluate::Average::Mean,
                Average::Median => evaluate::Average::Median,
            }),
            reuse: self.reuse,
            neighbours: self.neighbours.map(|neighbours| match neighbours {
                NeighboursName::AddRemove => Neighbours::AddRemove,
                NeighboursName::Replace => Neighbours::Replace,
            }),
            repair: self.repair,
        }
    }
}

fn truncation(text: &str) -> Result<Truncation, &'static str> {
    let parts = text.split_once(':').and_then(|(every, percent)| Some((every.parse().ok()?, percent.parse().ok()?)));
    let (every, percent) = parts.ok_or("expected two whole numbers: EVERY:PERCENT")?;
    Ok(Truncation { every, percent })
}
