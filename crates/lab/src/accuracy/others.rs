//! `track` against the best other mechanism, on the streams of its pages in the documentation.

use std::num::NonZeroU64;

use serde::Serialize;

use super::grid::contestants;
use super::measure::{load, mean_of, plan, ratio};
use super::{AccuracyError, Options, Part};
use crate::experiment::{self, Subject, Trial, TrialSettings};
use crate::metrics::{Metric, mean};
use crate::subjects;

const STREAMS: [&str; 6] = ["lns", "sin", "log", "tdrive_counts", "nyc_taxi_ge", "foursquare_nyc_stan"];
const EPSILONS: [&str; 3] = ["0.5", "1", "2"];
const WINDOWS: [u64; 3] = [10, 20, 50];

const CENTRAL: &[&str] = &["uniform", "sample", "bd", "ba", "pbd", "pba"];
const LOCAL: &[&str] = &["lbu", "lsp", "lbd", "lba", "lpu", "lpd", "lpa", "mtsp", "mtsp_population"];

/// Most repeats: there are many mechanisms.
const REPEATS: NonZeroU64 = NonZeroU64::MIN.saturating_add(4);

/// Ratios of the first published `track` to the best other mechanism, measured by this benchmark with the default
/// options: `part,stream,epsilon,window,ratio`.
const REFERENCE: &str = include_str!("reference.csv");

/// One stream with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Name of the data set.
    pub stream: &'static str,
    /// Budget of a window.
    pub epsilon: &'static str,
    /// The window.
    pub window: u64,
    /// Mean squared error of `track`.
    pub error: f64,
    /// The best other mechanism.
    pub best: &'static str,
    /// Its mean squared error.
    pub best_error: f64,
    /// The error of `track` over that of the best other.
    pub ratio: f64,
    /// The same of the first published `track`, where it was measured.
    pub reference: Option<f64>,
}

/// A family's comparison with other mechanisms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Others {
    /// Central or local.
    pub part: Part,
    /// The mechanism.
    pub subject: &'static str,
    /// The cells.
    pub cells: Vec<Against>,
}

impl Others {
    /// The median ratio, and that of the reference; `None` if there are no cells.
    pub fn medians(&self) -> Option<(f64, Option<f64>)> {
        let own = median(self.cells.iter().map(|cell| cell.ratio).collect())?;
        Some((own, median(self.cells.iter().filter_map(|cell| cell.reference).collect())))
    }

    /// Share of the cells in which `track` is better than any other, and that of the reference.
    pub fn won(&self) -> Option<(f64, Option<f64>)> {
        let share = |ratios: Vec<f64>| {
            let won = ratios.into_iter().map(|ratio| f64::from(u8::from(ratio < 1.0)));
            (won.len() > 0).then(|| mean(won))
        };
        let own = share(self.cells.iter().map(|cell| cell.ratio).collect())?;
        Some((own, share(self.cells.iter().filter_map(|cell| cell.reference).collect())))
    }

    /// The cell in which the ratio rose most over the reference, as a factor.
    pub fn greatest_rise(&self) -> Option<(&Against, f64)> {
        let rises = self.cells.iter().filter_map(|cell| Some((cell, cell.ratio / cell.reference?)));
        rises.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    let lower = numbers[(numbers.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Runs `track` of a family and all other mechanisms.
pub(super) fn run(
    part: Part,
    options: &Options,
    left_out: &mut Vec<&'static str>,
    progress: &dyn Fn(&str),
) -> Result<Others, AccuracyError> {
    let others = if part == Part::Local { LOCAL } else { CENTRAL };
    let names = std::iter::once(contestants(part).0).chain(others.iter().copied());
    let subjects = names.map(subjects::by_name).collect::<Result<Vec<&'static dyn Subject>, _>>()?;
    let (epsilons, windows) =
        if options.quick { (&EPSILONS[1..2], &WINDOWS[..1]) } else { (&EPSILONS[..], &WINDOWS[..]) };
    let reference = reference()?;
    let mut cells = Vec::new();
    for stream in STREAMS {
        let Some(data) = load(stream, options, None, None)? else {
            left_out.push(stream);
            continue;
        };
        let mut places = Vec::new();
        let mut trials = Vec::new();
        for &epsilon in epsilons {
            for &window in windows {
                let settings = TrialSettings::new(epsilon.parse()?, NonZeroU64::new(window).unwrap_or(NonZeroU64::MIN));
                places.push((epsilon, window));
                trials.extend(subjects.iter().map(|&subject| Trial { subject, settings: settings.clone() }));
            }
        }
        let plan = plan(options, options.repeats.min(REPEATS));
        let findings = experiment::run(&data, &trials, &plan, &|| ())?;
        for ((epsilon, window), findings) in places.into_iter().zip(findings.chunks(subjects.len())) {
            let errors = || findings.iter().map(|finding| (finding.mechanism, mean_of(finding, Metric::Mse)));
            let best = errors().skip(1).min_by(|(_, a), (_, b)| a.total_cmp(b));
            let Some(((_, error), (best, best_error))) = errors().next().zip(best) else { continue };
            let is_this = |row: &&Row| (row.part, row.stream, row.epsilon) == (part.name(), stream, epsilon);
            let reference = reference.iter().filter(is_this).find(|row| row.window == window).map(|row| row.ratio);
            let ratio = ratio(error, best_error);
            cells.push(Against { stream, epsilon, window, error, best, best_error, ratio, reference });
        }
        progress(&format!("others: {}, {stream}", part.name()));
    }
    Ok(Others { part, subject: subjects[0].name(), cells })
}

struct Row {
    part: &'static str,
    stream: &'static str,
    epsilon: &'static str,
    window: u64,
    ratio: f64,
}

fn reference() -> Result<Vec<Row>, AccuracyError> {
    let row = |(line, text): (usize, &'static str)| {
        let wrong = AccuracyError::Reference { line };
        let [part, stream, epsilon, window, ratio] = text.split(',').collect::<Vec<_>>()[..] else {
            return Err(wrong);
        };
        match (window.parse(), ratio.parse()) {
            (Ok(window), Ok(ratio)) => Ok(Row { part, stream, epsilon, window, ratio }),
            _ => Err(wrong),
        }
    };
    (1..).zip(REFERENCE.lines()).skip(1).map(row).collect()
}
