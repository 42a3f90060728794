//! AdaPub as its paper describes it, for one number at each timestamp, as a baseline (Wang, Yang, Ren, Zhao and Lam:
//! Adaptive Differentially Private Data Stream Publishing in Spatio-temporal Monitoring of IoT, IPCCC 2019).
//!
//! Never release data with it: a reading takes part in the tests of its group until that is closed, each with the noise
//! of a single test.
//!
//! Its dimensions are grouped there, too; a single number has none. The guarantee of a window becomes that of an event
//! as the delay-allowed paper has it: `w = 1`, and noise for the width of the domain.

use tidegate_kernel::SeededRandom;

use crate::draw::laplace;
use crate::experiment::{NumberOutcome, OnNumbers, RunError, Setting, Subject, TrialSettings};
use crate::stream::{NumberStream, as_float};

/// The part of epsilon for publication; the rest is for groups.
const PUBLICATION: f64 = 0.8;
/// The parts of the present error and of the mean error of the group in the feedback.
const PROPORTIONAL: f64 = 0.9;
const INTEGRAL: f64 = 0.1;
/// A relative error is relative to the number, or to this where that is larger.
const SMALLEST: f64 = 1.0;

/// AdaPub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapub;

impl Subject for Adapub {
    fn name(&self) -> &'static str {
        "paper_adapub_not_private"
    }

    fn summary(&self) -> String {
        "NOT PRIVATE: AdaPub for single events, medians of groups; for comparison only".to_owned()
    }

    fn uses(&self) -> &'static [Setting] {
        &[Setting::WithinDomain]
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        Some(self)
    }
}

impl OnNumbers for Adapub {
    fn run(
        &self,
        stream: &NumberStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError> {
        let (grid, epsilon) = (stream.grid(), settings.epsilon.as_f64());
        let width = grid.high() - grid.low();
        let publication = width / (PUBLICATION * epsilon);
        let test = 2.0 * width / ((1.0 - PUBLICATION) * epsilon);
        let values = stream.values();
        let mut released: Vec<f64> = Vec::with_capacity(values.len());
        // The first timestamp of the group, whether it was closed, and the errors of its members.
        let (mut first, mut is_closed) = (0, false);
        let mut errors: Vec<f64> = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let noisy = value + laplace(publication, random);
            let Some(last) = released.last() else {
                released.push(noisy);
                continue;
            };
            let error = (last - noisy).abs() / noisy.max(SMALLEST);
            let before = errors.iter().sum::<f64>() / as_float(errors.len().max(1) as u64);
            let feedback = PROPORTIONAL * error + INTEGRAL * before;
            let threshold = (feedback * feedback / epsilon).max(1.0);
            if is_closed {
                (first, is_closed) = (at, false);
                errors.clear();
            } else if deviation(&values[first..=at]) + laplace(test, random) >= threshold {
                (first, is_closed) = (at, true);
                errors.clear();
            }
            errors.push(error);
            let mut members: Vec<f64> = released[first..].to_vec();
            members.push(noisy);
            released.push(median(&mut members));
        }
        if settings.within_domain {
            released.iter_mut().for_each(|value| *value = value.clamp(grid.low(), grid.high()));
        }
        Ok(NumberOutcome { values: released, variances: Vec::new() })
    }
}

/// The sum of the distances from the mean.
pub(super) fn deviation(group: &[f64]) -> f64 {
    let mean = group.iter().sum::<f64>() / as_float(group.len() as u64);
    group.iter().map(|value| (value - mean).abs()).sum()
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    let half = numbers.len() / 2;
    if numbers.len().is_multiple_of(2) { f64::midpoint(numbers[half - 1], numbers[half]) } else { numbers[half] }
}
