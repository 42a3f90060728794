//! [`Phase`]: what `mtsp` waits for, and its rounds of questions.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use super::grouping::Mean;
use super::pruning::Pruned;
use crate::local::LocalSettings;
use crate::local::division::Answer;
use crate::release::stated;
use crate::release::why::{Paid, Purpose};
use crate::tree::TreeShape;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Phase {
    Idle,
    Comparing(Asked),
    /// As earlier versions saved it.
    Publishing(Publishing),
    Decided {
        publishing: Publishing,
        /// The dissimilarity, and the error of publishing.
        compared: (f64, f64),
    },
}

/// A second round.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Publishing {
    pub(super) asked: Asked,
    /// Reports of the first round.
    pub(super) reports: u64,
    pub(super) pruned: Pruned,
    #[serde(with = "stated::one")]
    pub(super) drift: f64,
    /// Estimates of each node from the first round, if reused; otherwise empty.
    pub(super) first_look: Vec<Mean>,
}

/// A round of questions, one for each level.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) timestamp: u64,
    pub(super) cohorts: Vec<Cohort>,
    /// Largest spend of a user at this timestamp so far.
    pub(super) spent: Epsilon,
}

impl Publishing {
    pub(super) fn fits(&self, shape: TreeShape, nodes: usize) -> bool {
        self.pruned.fits(shape)
            && self.asked.cohorts.len() == self.pruned.levels(shape).len()
            && [0, nodes].contains(&self.first_look.len())
    }
}

impl Asked {
    /// The round, for an explanation. Each member of its cohorts spent `epsilon`.
    pub(super) fn explained(&self, purpose: Purpose, epsilon: Epsilon, reports: u64, settings: &LocalSettings) -> Paid {
        Paid {
            purpose,
            epsilon,
            share: self.cohorts.iter().map(Cohort::share).sum(),
            questions: self.cohorts.len(),
            // Each level may have another one, if none is given.
            oracle: settings.oracle,
            reports: Some(reports),
            class: None,
            classes: None,
        }
    }

    pub(super) fn read<'a>(&self, answers: &'a [Option<Estimate>]) -> Vec<Option<Answer<'a>>> {
        let read = |(answer, cohort): (&'a Option<Estimate>, &Cohort)| {
            answer.as_ref().map(|estimate| Answer::new(estimate, cohort.share()))
        };
        answers.iter().zip(&self.cohorts).map(read).collect()
    }
}
