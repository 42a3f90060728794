//! Runs the cells of a grid.

use std::num::NonZeroU64;
use std::time::Instant;

use serde::Serialize;
use tidegate_kernel::primitives::Protects;

use super::grid::{Cell, Grid, cells, contestants, streams};
use super::{AccuracyError, Options, Part};
use crate::datasets::{self, DatasetError, LoadOptions, NumberDomain};
use crate::experiment::{self, Finding, Plan, Trial, TrialSettings};
use crate::metrics::Metric;
use crate::stream::{DataStream, as_float};
use crate::subjects;

/// A cell with its results.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Mean squared error of the mechanism.
    pub error: f64,
    /// Mean squared error of the baseline.
    pub baseline: f64,
    /// The former over the latter.
    pub ratio: f64,
    /// How often the truth lies within 1.96 stated standard deviations.
    pub coverage: Option<f64>,
}

impl Measured {
    /// Compares two errors. Two errors of zero have the ratio one.
    pub fn new(cell: Cell, error: f64, baseline: f64, coverage: Option<f64>) -> Self {
        Self { cell, error, baseline, ratio: ratio(error, baseline), coverage }
    }

    /// Whether the ratio is above the limit of the cell.
    pub fn is_above_limit(&self) -> bool {
        self.ratio > self.cell.limit
    }
}

#[allow(clippy::float_cmp)] // of what is exactly zero
pub(super) fn ratio(error: f64, baseline: f64) -> f64 {
    if error == baseline { 1.0 } else { error / baseline }
}

/// Runs a grid.
pub(super) fn measure(
    part: Part,
    options: &Options,
    left_out: &mut Vec<&'static str>,
    progress: &dyn Fn(&str),
) -> Result<Grid, AccuracyError> {
    let (track, baseline, metric) = contestants(part);
    let subject = subjects::by_name(options.subject.as_deref().unwrap_or(track))?;
    let baseline = subjects::by_name(baseline)?;
    let mut grid = Grid { part, subject: subject.name(), baseline: baseline.name(), cells: Vec::new() };
    let streams = streams(part, options.quick);
    for (number, of_stream) in (1..).zip(&streams) {
        let (name, _, size) = *of_stream;
        let start = Instant::now();
        let domain = (part == Part::Scalar).then(|| NumberDomain { low: 0.0, high: as_float(size), resolution: None });
        let population = (part != Part::Scalar).then_some(size);
        let Some(stream) = load(name, options, population, domain)? else {
            left_out.push(name);
            continue;
        };
        let cells = cells(part, options.quick, *of_stream);
        let mut trials = Vec::with_capacity(2 * cells.len());
        for cell in &cells {
            let settings = settings(cell)?;
            trials.extend([subject, baseline].map(|subject| Trial { subject, settings: settings.clone() }));
        }
        let findings = experiment::run(&stream, &trials, &plan(options, options.repeats), &|| ())?;
        for (cell, pair) in cells.iter().zip(findings.chunks(2)) {
            if let [of_subject, of_baseline] = pair {
                let (error, baseline) = (mean_of(of_subject, metric), mean_of(of_baseline, metric));
                let coverage = found(of_subject, Metric::Coverage);
                grid.cells.push(Measured::new(*cell, error, baseline, coverage));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        progress(&format!("{} {number}/{}: {name}, size {size}, {seconds:.1} s", part.name(), streams.len()));
    }
    Ok(grid)
}

/// The stream of a name; `None` for a real one that is not in the data directory.
pub(super) fn load(
    name: &str,
    options: &Options,
    population: Option<u64>,
    domain: Option<NumberDomain>,
) -> Result<Option<DataStream>, AccuracyError> {
    let (data_dir, seed) = (options.data_dir.clone(), options.seed);
    let options =
        LoadOptions { data_dir, population, length: Some(options.length), domain, seed, ..LoadOptions::default() };
    match datasets::load(name, &options) {
        Ok(stream) => Ok(Some(stream)),
        Err(DatasetError::NoDirectory { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) const fn plan(options: &Options, repeats: NonZeroU64) -> Plan {
    Plan { repeats, seed: options.seed, threads: options.threads, queries: false }
}

pub(super) fn settings(cell: &Cell) -> Result<TrialSettings, AccuracyError> {
    let window = NonZeroU64::new(cell.window).unwrap_or(NonZeroU64::MIN);
    let defaults = TrialSettings::new(cell.epsilon.parse()?, window);
    let protects = if cell.contributor { Protects::Contribution(NonZeroU64::MIN) } else { defaults.protects };
    Ok(TrialSettings { delay: cell.delay, protects, ..defaults })
}

pub(super) fn found(finding: &Finding, metric: Metric) -> Option<f64> {
    finding.summary(metric).map(|summary| summary.mean)
}

pub(super) fn mean_of(finding: &Finding, metric: Metric) -> f64 {
    found(finding, metric).unwrap_or(f64::NAN)
}
