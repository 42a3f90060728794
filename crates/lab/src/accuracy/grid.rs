//! The cells of the grids.

use serde::Serialize;

use super::{Measured, Part};
use crate::metrics::Metric;

/// Greatest ratio of the mean squared errors on streams that stand still or move all the time.
const LIMIT: f64 = 1.25;
/// The same on streams with one event.
const EVENT_LIMIT: f64 = 2.0;
/// Greatest mean ratio of a grid.
pub(super) const MEAN_LIMIT: f64 = 1.1;

const COUNTS: [(&str, f64); 12] = [
    ("lns", LIMIT),
    ("sin", LIMIT),
    ("log", LIMIT),
    ("traffic", LIMIT),
    ("bursts_counts", LIMIT),
    ("tdrive_counts", LIMIT),
    ("alternating", LIMIT),
    ("white", LIMIT),
    ("constant", LIMIT),
    ("single_jump", EVENT_LIMIT),
    ("incident", EVENT_LIMIT),
    ("growth", EVENT_LIMIT),
];

const NUMBERS: [(&str, f64); 11] = [
    ("numbers_constant", LIMIT),
    ("numbers_white", LIMIT),
    ("numbers_walk", LIMIT),
    ("numbers_alternating", LIMIT),
    ("numbers_bursts", LIMIT),
    ("numbers_daily", LIMIT),
    ("numbers_two_ends", LIMIT),
    ("numbers_spikes", LIMIT),
    ("numbers_single_jump", EVENT_LIMIT),
    ("numbers_incident", EVENT_LIMIT),
    ("numbers_growth", EVENT_LIMIT),
];

const EPSILONS: &[&str] = &["0.1", "1", "4"];
const WINDOWS: &[u64] = &[1, 10, 50];
const DELAYS: &[u64] = &[0, 10, 100];

/// A stream with settings of the mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Name of the data set.
    pub stream: &'static str,
    /// Users; of numbers, the width of the domain, which begins at zero and has steps of one.
    pub size: u64,
    /// Budget of a window.
    pub epsilon: &'static str,
    /// The window; 1 for numbers.
    pub window: u64,
    /// The delay; 0 for counts.
    pub delay: u64,
    /// Whether one contributor of one step is protected, rather than the number.
    pub contributor: bool,
    /// Greatest ratio allowed.
    pub limit: f64,
}

/// A grid with its results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// Which grid.
    pub part: Part,
    /// The mechanism measured.
    pub subject: &'static str,
    /// The mechanism that it is compared with.
    pub baseline: &'static str,
    /// Results of the cells.
    pub cells: Vec<Measured>,
}

/// `track` of a part, its baseline, and the error that is compared.
///
/// Of central mechanisms, that is the squared error of a count: their noise does not depend on the number of users.
/// While that stays the same, the ratio is that of frequencies.
pub(super) const fn contestants(part: Part) -> (&'static str, &'static str, Metric) {
    match part {
        Part::Local => ("local.track", "lpu", Metric::Mse),
        Part::Scalar => ("scalar.track", "clamped", Metric::Mse),
        Part::Central | Part::Incidents | Part::Others => ("central.track", "uniform", Metric::Amre),
    }
}

/// The streams of a part with their sizes; each has all [`settings`].
pub(super) fn streams(part: Part, quick: bool) -> Vec<(&'static str, f64, u64)> {
    let (streams, sizes): (&[_], &[u64]) = match (part, quick) {
        (Part::Scalar, false) => (&NUMBERS, &[1, 10, 1_000, 1_000_000, 1_000_000_000]),
        (Part::Scalar, true) => (&NUMBERS, &[1, 1_000_000]),
        (Part::Local, false) => (&COUNTS, &[1_000, 20_000, 1_000_000, 100_000_000]),
        (Part::Local, true) => (&COUNTS, &[20_000, 100_000_000]),
        (_, false) => (&COUNTS, &[1_000, 100_000, 10_000_000, 1_000_000_000]),
        (_, true) => (&COUNTS, &[1_000, 10_000_000]),
    };
    streams.iter().flat_map(|&(name, limit)| sizes.iter().map(move |&size| (name, limit, size))).collect()
}

/// The cells of a stream.
pub(super) fn cells(part: Part, quick: bool, (stream, limit, size): (&'static str, f64, u64)) -> Vec<Cell> {
    let epsilons = if quick { &EPSILONS[1..2] } else { EPSILONS };
    let spans = match (part, quick) {
        (Part::Scalar, false) => DELAYS,
        (Part::Scalar, true) => &DELAYS[..2],
        (_, false) => WINDOWS,
        (_, true) => &WINDOWS[1..2],
    };
    let contributors: &[bool] = if part == Part::Scalar { &[false, true] } else { &[false] };
    let mut cells = Vec::new();
    for &epsilon in epsilons {
        for &span in spans {
            for &contributor in contributors {
                let (window, delay) = if part == Part::Scalar { (1, span) } else { (span, 0) };
                cells.push(Cell { stream, size, epsilon, window, delay, contributor, limit });
            }
        }
    }
    cells
}
