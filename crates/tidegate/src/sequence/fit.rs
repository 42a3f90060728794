//! Learning a [`Model`] from protected sequences, under user-level differential privacy.

use std::num::NonZeroU64;

use tidegate_kernel::primitives::{
    HistogramError, Neighbours, PrimitiveError, histogram_noise, noisy_histogram, seal_histogram,
};
use tidegate_kernel::{Epsilon, Ledger, MAX_DOMAIN, Randomness, Refusal, Window};

use super::model::{Model, ModelError, Order, SparseRow};
use crate::post_processing::{PostProcessingError, norm_sub};

/// Settings of a private fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivateFit {
    /// Privacy loss of any user, with all of the user's symbols.
    pub epsilon: Epsilon,
    /// Largest number of transitions that count of one user: the first ones.
    pub contribution: NonZeroU64,
    /// Order of the model.
    pub order: Order,
    /// Pseudo-observations of each row, besides those that its noise calls for.
    pub pseudo_count: f64,
}

/// Error of a private fit.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    #[error("{domain} symbols have {cells} transitions of this order, more than the {MAX_DOMAIN} that can be counted")]
    TooManyCells { domain: u32, cells: u64 },
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Counts(#[from] HistogramError),
    #[error(transparent)]
    Noise(#[from] PrimitiveError),
    #[error(transparent)]
    Repair(#[from] PostProcessingError),
}

/// Learns a model from the sequences of users, one each.
///
/// # Guarantee
/// Epsilon-differential privacy at user level: whether a user takes part, with whatever sequence, changes the
/// probability of no model by more than a factor of `e^epsilon`. Each user adds at most `contribution` transitions to
/// one histogram, which the kernel's [`noisy_histogram`] publishes from a ledger with nothing else in it. The rest is
/// post-processing: counts of a row are projected onto those that are not negative and sum to the row's noisy total
/// ([`norm_sub`]), and mixed with the background as [`Model::learn`] does, with as many more pseudo-observations as the
/// total's standard deviation.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::kernel::SystemRandom;
/// use tidegate::sequence::fit::{PrivateFit, fit};
/// use tidegate::sequence::model::Order;
///
/// let contribution = NonZeroU64::new(10).ok_or("at least one transition")?;
/// let settings = PrivateFit { epsilon: "1".parse()?, contribution, order: Order::One, pseudo_count: 1.0 };
/// let users = vec![vec![0, 0, 0, 0, 1, 1, 1, 1]; 5_000];
/// let model = fit(2, users.iter().map(Vec::as_slice), &settings, &mut SystemRandom::new()?)?;
/// assert!((model.transition(None, 0, 1) - 0.25).abs() < 0.05);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`FitError`]. None depends on noise.
#[allow(clippy::cast_precision_loss)] // noisy counts
pub fn fit<'a>(
    domain: u32,
    sequences: impl IntoIterator<Item = &'a [u32]>,
    settings: &PrivateFit,
    random: &mut impl Randomness,
) -> Result<Model, FitError> {
    if domain < 2 {
        return Err(ModelError::Domain { given: u64::from(domain) }.into());
    }
    if !(settings.pseudo_count.is_finite() && settings.pseudo_count >= 0.0) {
        return Err(ModelError::PseudoCount { given: settings.pseudo_count }.into());
    }
    let symbols = match settings.order {
        Order::One => 2,
        Order::Two => 3,
    };
    let cells = u64::from(domain).saturating_pow(symbols);
    let too_many = || FitError::TooManyCells { domain, cells };
    let all = u32::try_from(cells).ok().filter(|cells| *cells <= MAX_DOMAIN).ok_or_else(too_many)?;
    let limit = usize::try_from(settings.contribution.get()).unwrap_or(usize::MAX);
    let mut counted = Vec::new();
    for sequence in sequences {
        if let Some(&given) = sequence.iter().find(|symbol| **symbol >= domain) {
            return Err(ModelError::Symbol { what: "a sequence", given, domain }.into());
        }
        let number = |window: &[u32]| window.iter().fold(0, |number, symbol| number * domain + symbol);
        counted.extend(sequence.windows(symbols as usize).take(limit).map(number));
    }
    let mut ledger = Ledger::new(settings.epsilon, Window::Unbounded);
    let sealed = seal_histogram(ledger.account(), 0, counted, all)?;
    let permit = ledger.spend(0, settings.epsilon)?;
    let neighbours = Neighbours::AddRemove;
    let noise = histogram_noise(neighbours, settings.contribution, settings.epsilon).map_err(PrimitiveError::from)?;
    let noisy = noisy_histogram(permit, &sealed, neighbours, settings.contribution, random)?;
    let counts: Vec<f64> = noisy.into_value().into_iter().map(|count| count as f64).collect();
    from_counts(domain, &counts, noise.laplace_variance(), settings)
}

/// Builds the model from noisy counts of this variance.
fn from_counts(domain: u32, counts: &[f64], variance: f64, settings: &PrivateFit) -> Result<Model, FitError> {
    let size = domain as usize;
    let square = size * size;
    // Order 1 from triples: the sum over the symbol before.
    let steps: Vec<f64> = match settings.order {
        Order::One => counts.to_vec(),
        Order::Two => (0..square).map(|step| counts.iter().skip(step).step_by(square).sum()).collect(),
    };
    let summands = f64::from(if settings.order == Order::One { 1 } else { domain });
    let totals: Vec<f64> = steps.chunks_exact(size).map(|row| row.iter().sum()).collect();
    let whole = totals.iter().sum::<f64>().max(0.0);
    let weight = settings.pseudo_count + (variance * summands * f64::from(domain) * f64::from(domain)).sqrt();
    let uniform = 1.0 / f64::from(domain);
    let prior: Vec<f64> =
        norm_sub(&totals, whole)?.iter().map(|total| (total + weight * uniform) / (whole + weight)).collect();
    let row = |counts: &[f64], summands: f64| -> Result<SparseRow, FitError> {
        let total = counts.iter().sum::<f64>().max(0.0);
        let weight = settings.pseudo_count + (variance * summands * f64::from(domain)).sqrt();
        let mass = total + weight;
        let kept = (0..).zip(norm_sub(counts, total)?).filter(|(_, count)| *count > 0.0);
        Ok(SparseRow { own: kept.map(|(symbol, count)| (symbol, count / mass)).collect(), left: weight / mass })
    };
    let rows = steps.chunks_exact(size).map(|counts| row(counts, summands)).collect::<Result<_, _>>()?;
    let model = Model::sparse(prior.clone(), rows, prior)?;
    if settings.order == Order::One {
        return Ok(model);
    }
    let pair = |(number, counts): (u32, &[f64])| Ok(((number / domain, number % domain), row(counts, 1.0)?));
    let pairs: Vec<_> = (0..).zip(counts.chunks_exact(size)).map(pair).collect::<Result<_, FitError>>()?;
    Ok(model.with_pairs(pairs)?)
}
