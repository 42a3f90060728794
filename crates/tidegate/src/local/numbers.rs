//! Means: the seven mechanisms of LDP-IDS on users' numbers, as footnote 2 of the paper proposes.
//!
//! Numbers lie on a public [`Grid`]. A question asks for their mean ([`View::Mean`]), and devices answer by
//! [`OracleKind::Piecewise`]. A mechanism decides as on frequencies: it has one number, the mean as a share of the
//! range. This module turns shares into the unit of the stream.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, footnote 2 (other statistics).
//!
//! [`View::Mean`]: tidegate_kernel::View::Mean
//! [`OracleKind::Piecewise`]: tidegate_kernel::oracle::OracleKind::Piecewise

use serde::{Deserialize, Serialize};
use tidegate_kernel::Grid;
use tidegate_kernel::oracle::Estimate;

use super::{LocalError, LocalKind, LocalSettings, Machine, Step};
use crate::release::{Number, Statistic};

/// A mechanism on numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Numbers {
    grid: Grid,
    machine: Machine,
}

impl LocalKind {
    /// Whether it can release the mean of numbers. The others publish trees, or estimates that need frequencies.
    pub const fn releases_means(self) -> bool {
        matches!(self, Self::Lbu | Self::Lsp | Self::Lbd | Self::Lba | Self::Lpu | Self::Lpd | Self::Lpa)
    }
}

/// The number of points of a grid; of one with more points than a domain has values, some number of that kind.
pub fn points(grid: &Grid) -> u32 {
    u32::try_from(grid.width() + 1).unwrap_or(u32::MAX)
}

impl Numbers {
    pub(super) const fn new(grid: Grid, machine: Machine) -> Self {
        Self { grid, machine }
    }

    pub(super) const fn grid(&self) -> Grid {
        self.grid
    }

    pub(super) const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        let is_plain = self.machine.grid().is_none();
        is_plain && self.machine.kind().releases_means() && self.machine.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        let step = self.machine.open(timestamp, settings)?;
        Ok(self.in_units(step))
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let step = self.machine.answer(answers, settings)?;
        Ok(self.in_units(step))
    }

    /// Releases a number in place of the share of the range.
    #[allow(clippy::cast_precision_loss)] // at most 2^32 steps
    fn in_units(&self, step: Step) -> Step {
        let Step::Done(mut release) = step else { return step };
        let range = self.grid.width() as f64 * self.grid.step();
        if let ([share], [variance]) = release.statistic.leaves() {
            let (value, variance) = (self.grid.low() + share * range, variance * range * range);
            release.statistic = Statistic::Number(Number { value, variance });
        }
        release.why = release.why.map(|why| Box::new(why.of_mean(range * range)));
        Step::Done(release)
    }
}
