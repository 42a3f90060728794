//! Quantities computed from measured ones, with their standard errors, and small helps for declaring sweeps.

use tidegate_kernel::Epsilon;

use crate::verdict::{Decision, NOISE, ratio};
use crate::{ReproduceError, settings};
use tidegate_lab::experiment::Finding;
use tidegate_lab::metrics::{Metric, Summary};

/// An epsilon that was declared as a number.
pub(super) fn epsilon_of(epsilon: f64) -> Result<Epsilon, ReproduceError> {
    Ok(settings(epsilon, 1)?.epsilon)
}

/// A metric of a finding.
pub(super) fn metric_of(finding: &Finding, metric: Metric) -> Option<Summary> {
    finding.metrics.iter().find(|(other, _)| *other == metric).map(|(_, summary)| *summary)
}

/// A number that is known exactly.
pub(super) const fn exactly(mean: f64) -> Summary {
    Summary { mean, standard_error: Some(0.0) }
}

/// The logarithm of a number.
pub(super) fn logarithm(a: Summary) -> Summary {
    Summary { mean: a.mean.ln(), standard_error: a.standard_error.map(|error| error / a.mean.abs()) }
}

/// The mean of numbers that were measured independently; `None` where there are none.
pub(super) fn mean(numbers: &[Summary]) -> Option<Summary> {
    let count = f64::from(u32::try_from(numbers.len()).ok().filter(|count| *count > 0)?);
    let errors: Option<Vec<f64>> = numbers.iter().map(|number| number.standard_error).collect();
    let error = errors.map(|errors| errors.iter().map(|error| error * error).sum::<f64>().sqrt() / count);
    Some(Summary { mean: numbers.iter().map(|number| number.mean).sum::<f64>() / count, standard_error: error })
}

/// By how many per cent each number lies below its partner, on average, as papers average it.
pub(super) fn percent_below(pairs: &[(Summary, Summary)]) -> Option<Summary> {
    let below: Vec<_> = pairs
        .iter()
        .map(|(ours, theirs)| {
            let ratio = ratio(*ours, *theirs);
            Summary {
                mean: 100.0 * (1.0 - ratio.mean),
                standard_error: ratio.standard_error.map(|error| 100.0 * error),
            }
        })
        .collect();
    mean(&below)
}

/// Whether a number is as large as a known one, less a tolerance: no only where it is smaller beyond the noise.
pub(super) fn at_least(measured: Summary, known: f64, tolerance: f64) -> Decision {
    let Some(error) = measured.standard_error else { return Decision::Unclear };
    let (distance, noise) = (measured.mean - (known - tolerance), NOISE * error);
    if distance >= 0.0 {
        Decision::Yes
    } else if distance < -noise {
        Decision::No
    } else {
        Decision::Unclear
    }
}

/// An answer the other way round.
pub(super) const fn not(answer: Decision) -> Decision {
    match answer {
        Decision::Yes => Decision::No,
        Decision::No => Decision::Yes,
        Decision::Unclear => Decision::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(mean: f64, error: f64) -> Summary {
        Summary { mean, standard_error: Some(error) }
    }

    fn close(summary: Option<Summary>, mean: f64, error: f64) -> bool {
        summary.is_some_and(|summary| {
            (summary.mean - mean).abs() < 1e-9
                && summary.standard_error.is_some_and(|given| (given - error).abs() < 1e-9)
        })
    }

    #[test]
    fn errors_follow_the_numbers_that_they_are_computed_with() {
        assert!(close(mean(&[measured(1.0, 0.3), measured(3.0, 0.4)]), 2.0, 0.25));
        assert!(close(Some(logarithm(measured(2.0, 0.2))), 2.0_f64.ln(), 0.1));
        let pairs = [(measured(3.0, 0.0), measured(4.0, 0.0)), (measured(1.0, 0.04), measured(4.0, 0.0))];
        assert!(close(percent_below(&pairs), 50.0, 0.5));
        assert_eq!(mean(&[]), None);
        let one_run = Summary { mean: 1.0, standard_error: None };
        assert_eq!(mean(&[one_run, measured(1.0, 0.1)]).map(|mean| mean.standard_error), Some(None));
    }

    #[test]
    fn a_number_is_too_small_only_beyond_its_noise() {
        assert_eq!(at_least(measured(70.0, 1.0), 70.8, 5.0), Decision::Yes);
        assert_eq!(at_least(measured(60.0, 1.0), 70.8, 5.0), Decision::No);
        assert_eq!(at_least(measured(60.0, 4.0), 70.8, 5.0), Decision::Unclear);
        assert_eq!(at_least(Summary { mean: 90.0, standard_error: None }, 70.8, 5.0), Decision::Unclear);
    }
}
