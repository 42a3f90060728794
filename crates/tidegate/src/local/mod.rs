//! Local streams: nobody but the device sees a value. w-event local privacy on infinite streams.
//!
//! A mechanism here does no input or output. It is a state machine that asks questions and is told what came back:
//! [`Local::open`] and [`Local::answer`] both return a [`Step`], which is either more questions or the release. Reports
//! may take hours to gather and the process may die in between, so the state can be saved between any two steps; loaded
//! again, it goes on bit for bit as it would have.
//!
//! | mechanism | what is divided | how |
//! | --- | --- | --- |
//! | [`lbu`] | budget | evenly over the window |
//! | [`lsp`] | budget | all of it at one timestamp of each window |
//! | [`lbd`] | budget | half of what is left, where the stream has changed enough |
//! | [`lba`] | budget | saved up where the stream has not changed, spent where it has |
//! | [`lpu`] | population | evenly over the window |
//! | [`lpd`] | population | as `lbd` |
//! | [`lpa`] | population | as `lba` |
//! | [`mtsp`] | budget or population | on the timestamps of a window that changed most; publishes trees |
//! | [`track`] | population | evenly over the window, with an estimate from the reports of all timestamps |
//! | [`plbu`] | budget, of each class its own | evenly over the window |
//!
//! The seven mechanisms from `lbu` to `lpa` release the mean of users' [`numbers`] as well.
//!
//! **Who guards the guarantee?** Each device, with its own ledger, whatever the collector asks. The mechanisms keep to
//! it on their own side too: budget division through a [`Ledger`](tidegate_kernel::Ledger), population division through
//! [`Slots`](slots::Slots), in which no slot is used twice within a window.

mod adaptive;
mod division;
pub mod lba;
pub mod lbd;
pub mod lbu;
pub mod lpa;
pub mod lpd;
pub mod lpu;
pub mod lsp;
mod machine;
pub mod mtsp;
pub mod numbers;
pub mod plbu;
pub mod slots;
pub mod track;
mod uniform;

pub use machine::{Local, LocalError, LocalSettings, Step};

use tidegate_kernel::Grid;
use tidegate_kernel::oracle::Estimate;

use crate::mechanisms::{Output, mechanisms};
use adaptive::Adaptive;
use division::Division;
use numbers::Numbers;
use uniform::Uniform;

mechanisms! {
    /// A local mechanism.
    LocalKind: Local, "local", all as LISTED;

    /// Uniform budget division.
    Lbu = "lbu" {
        summary: "the budget evenly over the window",
        keys: UNIFORM, rounds: 1, by_class: false, output: Output::Frequencies,
    }
    /// Sampling: one timestamp a window.
    Lsp = "lsp" {
        summary: "the whole budget at one timestamp of each window",
        keys: UNIFORM, rounds: 1, by_class: false, output: Output::Frequencies,
    }
    /// Budget distribution.
    Lbd = "lbd" {
        summary: "half of the budget that is left, where the stream changes",
        keys: ADAPTIVE, rounds: 2, by_class: false, output: Output::Frequencies,
    }
    /// Budget absorption.
    Lba = "lba" {
        summary: "budget saved up while the stream stands still",
        keys: ADAPTIVE, rounds: 2, by_class: false, output: Output::Frequencies,
    }
    /// Uniform population division.
    Lpu = "lpu" {
        summary: "the population evenly over the window",
        keys: UNIFORM, rounds: 1, by_class: false, output: Output::Frequencies,
    }
    /// Population distribution.
    Lpd = "lpd" {
        summary: "half of the users that are left, where the stream changes",
        keys: ADAPTIVE, rounds: 2, by_class: false, output: Output::Frequencies,
    }
    /// Population absorption.
    Lpa = "lpa" {
        summary: "users saved up while the stream stands still",
        keys: ADAPTIVE, rounds: 2, by_class: false, output: Output::Frequencies,
    }
    /// Trees, with optimal allocation of the budget.
    Mtsp = "mtsp" {
        summary: "trees; the budget on those timestamps of a window that change most",
        keys: TREES, rounds: 2, by_class: false, output: Output::Tree,
    }
    /// Trees, with optimal allocation of the population.
    MtspPopulation = "mtsp_population" {
        summary: "trees; the users on those timestamps of a window that change most",
        keys: TREES, rounds: 2, by_class: false, output: Output::Tree,
    }
    /// Uniform population division, with an estimate from all reports.
    Track = "track" {
        summary: "the population evenly over the window, and an estimate from all reports",
        keys: TRACKED, rounds: 1, by_class: false, output: Output::Frequencies,
    }
    /// The personalised baseline: each class has its own budget and window. Built by [`plbu::Plbu`].
    Plbu = "plbu" {
        summary: "each class of users with its own budget, evenly over its own window",
        keys: &["oracle", "classes"], rounds: 1, by_class: true, output: Output::Counts,
    }
}

const UNIFORM: &[&str] = &["epsilon", "window", "population", "oracle"];
const ADAPTIVE: &[&str] = &["epsilon", "window", "population", "oracle", "reuse"];
const TRACKED: &[&str] = &["epsilon", "window", "population", "oracle", "periods"];
const TREES: &[&str] = &["epsilon", "window", "population", "oracle", "reuse", "smoother"];

/// Declares what runs each mechanism of [`Local`]: its state, and the function that makes it.
macro_rules! machines {
    ($($kind:ident($state:ty) = $new:expr;)*) => {
        /// The state of a mechanism.
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Machine {
            $($kind($state),)*
            /// One of the others, on numbers.
            Numbers(Box<Numbers>),
        }

        impl LocalKind {
            /// The mechanisms that [`Local`] runs: all but `plbu`, which needs classes.
            pub const ALL: [Self; [$(stringify!($kind),)*].len()] = [$(Self::$kind,)*];
        }

        impl Machine {
            fn new(kind: LocalKind, settings: &LocalSettings) -> Result<Self, LocalError> {
                match kind {
                    $(LocalKind::$kind => Ok(Self::$kind($new(settings)?)),)*
                    LocalKind::Plbu => Err(LocalError::ByClass),
                }
            }

            /// A mechanism for the mean of numbers on a grid.
            fn of_numbers(kind: LocalKind, grid: Grid, settings: &LocalSettings) -> Result<Self, LocalError> {
                if !kind.releases_means() {
                    return Err(LocalError::Numbers { mechanism: kind.name() });
                }
                Ok(Self::Numbers(Box::new(Numbers::new(grid, Self::new(kind, settings)?))))
            }

            /// The grid of numbers.
            const fn grid(&self) -> Option<Grid> {
                match self {
                    Self::Numbers(numbers) => Some(numbers.grid()),
                    _ => None,
                }
            }

            fn kind(&self) -> LocalKind {
                match self {
                    Self::Numbers(numbers) => numbers.machine().kind(),
                    $(Self::$kind(_) => LocalKind::$kind,)*
                }
            }

            fn account(&self) -> &Division {
                match self {
                    Self::Numbers(numbers) => numbers.machine().account(),
                    $(Self::$kind(state) => state.account(),)*
                }
            }

            fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
                match self {
                    Self::Numbers(numbers) => numbers.open(timestamp, settings),
                    $(Self::$kind(state) => state.open(timestamp, settings),)*
                }
            }

            fn answer(&mut self, answers: &[Option<Estimate>], settings: &LocalSettings) -> Result<Step, LocalError> {
                match self {
                    Self::Numbers(numbers) => numbers.answer(answers, settings),
                    $(Self::$kind(state) => state.answer(answers, settings),)*
                }
            }

            fn fits(&self, settings: &LocalSettings) -> bool {
                match self {
                    Self::Numbers(numbers) => numbers.fits(settings),
                    $(Self::$kind(state) => state.fits(settings),)*
                }
            }
        }
    };
}

machines! {
    Lbu(Uniform) = lbu::new;
    Lsp(lsp::Lsp) = lsp::Lsp::new;
    Lbd(Adaptive) = lbd::new;
    Lba(Adaptive) = lba::new;
    Lpu(Uniform) = lpu::new;
    Lpd(Adaptive) = lpd::new;
    Lpa(Adaptive) = lpa::new;
    Mtsp(mtsp::Mtsp) = mtsp::Mtsp::of_budget;
    MtspPopulation(mtsp::Mtsp) = mtsp::Mtsp::of_population;
    Track(track::Track) = track::Track::new;
}
