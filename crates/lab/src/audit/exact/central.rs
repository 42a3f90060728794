//! Noise on counts, where what is spent does not depend on the data.

use std::num::NonZeroU64;

use tidegate::central::{Central, CentralKind, CentralSettings};
use tidegate_kernel::primitives::{Neighbours, histogram_noise};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom};

use super::{largest_difference, noisy_law, reach};
use crate::experiment::RunError;

/// The largest loss of a user over any window; `None` for mechanisms that decide by the data or by what was published.
pub fn largest_loss(kind: CentralKind, settings: &CentralSettings) -> Result<Option<f64>, RunError> {
    match kind {
        CentralKind::Uniform | CentralKind::Sample => {}
        CentralKind::Bd | CentralKind::Ba | CentralKind::Track => return Ok(None),
    }
    let mut mechanism = Central::new(kind, *settings).map_err(RunError::unsupported)?;
    let window = usize::try_from(settings.window.get()).map_err(RunError::unsupported)?;
    let mut losses = Vec::new();
    for timestamp in 0..2 * settings.window.get() + 1 {
        let counts = Sealed::at(mechanism.ledger().account(), timestamp, vec![0; settings.domain as usize]);
        let releases = mechanism.push(&counts, &mut SeededRandom::new(timestamp)).map_err(RunError::failed)?;
        let spent = releases.first().and_then(|release| release.spent.most());
        losses.push(spent.map_or(Ok(0.0), |spent| loss_of_counts(settings.neighbours, spent))?);
    }
    Ok(Some(losses.windows(window).map(|losses| losses.iter().sum()).fold(0.0, f64::max)))
}

/// The largest loss of one user in a noisy histogram: of a count that is one higher, or of two counts of which one is
/// higher and one lower, with independent noise on each.
fn loss_of_counts(neighbours: Neighbours, spent: Epsilon) -> Result<f64, RunError> {
    let scale = histogram_noise(neighbours, NonZeroU64::MIN, spent).map_err(RunError::failed)?;
    let law = |count: i64| noisy_law(scale, count, -reach(scale)..=1 + reach(scale));
    let of_one = largest_difference(&[law(0), law(1)]);
    Ok(match neighbours {
        Neighbours::AddRemove => of_one,
        Neighbours::Replace => 2.0 * of_one,
    })
}
