//! Noise on readings, and randomised buckets.

use tidegate::scalar::{Publication, ScalarKind, ScalarSettings};
use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::{Bucketing, Summing, bucket_range};

use super::{groups, largest_difference, noisy_law, reach};
use crate::experiment::RunError;

/// The most points of a grid that are enumerated.
const MOST_POINTS: u64 = 1_000;

/// The largest loss of any one reading; `None` where outputs cannot be enumerated.
pub fn largest_loss(kind: ScalarKind, settings: &ScalarSettings) -> Result<Option<f64>, RunError> {
    if settings.truncation.is_some() || settings.grid.width() > MOST_POINTS {
        return Ok(None);
    }
    match (kind, settings.publication) {
        (ScalarKind::Laplace, _) => noise(settings, settings.epsilon, false).map(Some),
        (ScalarKind::Clamped, _) => noise(settings, settings.epsilon, true).map(Some),
        (ScalarKind::Contin, None | Some(Publication::Sums)) => groups::largest_loss(settings),
        (ScalarKind::Bucorder, None | Some(Publication::Labels)) => buckets(settings, settings.epsilon),
        (ScalarKind::Bucorder, Some(Publication::Sums)) => labelled_sums(settings),
        _ => Ok(None),
    }
}

/// All pairs of readings and all outputs of a reading with noise; moved into the domain or not.
fn noise(settings: &ScalarSettings, epsilon: Epsilon, is_clamped: bool) -> Result<f64, RunError> {
    let (low, high) = settings.grid.range().into_inner();
    let scale = Summing::new(low..=high, settings.protects, epsilon).map_err(RunError::failed)?.scale();
    let far = reach(scale);
    let law = |reading: i64| {
        let free = noisy_law(scale, reading, low - far..=high + far);
        if is_clamped { clamped(&free, scale.as_f64(), far) } else { free }
    };
    Ok(largest_difference(&(low..=high).map(law).collect::<Vec<_>>()))
}

/// The law after everything beyond the domain was moved to its ends. What lies farther out than `far` continues as a
/// geometric series.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as many as were enumerated
fn clamped(free: &[f64], scale: f64, far: i64) -> Vec<f64> {
    let far = far as usize;
    let ratio = (-1.0 / scale).exp();
    let beyond = |end: f64| end.exp() * ratio / (1.0 - ratio);
    let inside = &free[far..free.len() - far];
    let mut law: Vec<f64> = inside.iter().map(|log| log.exp()).collect();
    let sum = |outside: &[f64]| outside.iter().map(|log| log.exp()).sum::<f64>();
    let last = law.len() - 1;
    law[0] += sum(&free[..far]) + beyond(free[0]);
    law[last] += sum(&free[free.len() - far..]) + beyond(free[free.len() - 1]);
    law.into_iter().map(f64::ln).collect()
}

/// All pairs of readings and all buckets.
fn buckets(settings: &ScalarSettings, epsilon: Epsilon) -> Result<Option<f64>, RunError> {
    let Some(count) = settings.buckets else { return Ok(None) };
    let range = settings.grid.range();
    let probabilities = Bucketing::new(range.clone(), count, epsilon).map_err(RunError::failed)?.probabilities();
    let parts: Result<Vec<_>, _> = (0..count).map(|bucket| bucket_range(&range, count, bucket)).collect();
    let parts = parts.map_err(RunError::failed)?;
    let law = |reading: i64| {
        let weight = |part: &std::ops::RangeInclusive<i64>| {
            if part.contains(&reading) { probabilities.truth } else { probabilities.other }
        };
        parts.iter().map(|part| weight(part).ln()).collect()
    };
    Ok(Some(largest_difference(&range.map(law).collect::<Vec<_>>())))
}

/// A bucket for each reading, and noise on the sum of each bucket. Whatever buckets were published, a reading is in one
/// sum; the bucket and the noise are independent, and both lose most between the ends of the domain.
fn labelled_sums(settings: &ScalarSettings) -> Result<Option<f64>, RunError> {
    let too_little = || RunError::unsupported(format!("epsilon {} cannot be divided", settings.epsilon));
    let grouping = settings.grouping.or_else(|| settings.epsilon.divided_by(2)).ok_or_else(too_little)?;
    let publication = settings.epsilon.checked_sub(grouping).ok_or_else(too_little)?;
    let of_sum = noise(settings, publication, false)?;
    Ok(buckets(settings, grouping)?.map(|of_bucket| of_bucket + of_sum))
}
