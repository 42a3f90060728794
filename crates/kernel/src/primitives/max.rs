//! Report noisy max.

use serde::{Deserialize, Serialize};

use super::{Noised, PrimitiveError, paid};
use crate::epsilon::Epsilon;
use crate::noise::{Geometric, NoiseScale, ScaleError};
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::sealed::Sealed;
use crate::step::RandomisedStep;

/// How scores differ between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scores {
    /// Between neighbours, all changing scores move in the same direction. Needs half the noise.
    ///
    /// Counts of users are of this kind only under [`Neighbours::AddRemove`](super::Neighbours::AddRemove). Under
    /// [`Replace`](super::Neighbours::Replace), one count falls while another rises: use
    /// [`AnyDirection`](Self::AnyDirection).
    OneDirectional,
    /// Scores move in any direction.
    AnyDirection,
}

impl Scores {
    /// The scale of the one-sided noise that [`noisy_max`] adds to each score: `sensitivity / epsilon` for
    /// [`OneDirectional`](Self::OneDirectional), twice that for [`AnyDirection`](Self::AnyDirection).
    pub fn noise(self, sensitivity: u64, epsilon: Epsilon) -> Result<NoiseScale, ScaleError> {
        let moves = match self {
            Self::OneDirectional => sensitivity,
            Self::AnyDirection => sensitivity.saturating_mul(2),
        };
        NoiseScale::calibrated(moves, epsilon)
    }
}

/// Report noisy max (Dwork and Roth 2014): the index of the largest score after [geometric](Geometric) noise. Ties go
/// to the lowest index.
///
/// # Guarantee
/// If neighbours differ by at most `sensitivity` in each score, and in one direction if `scores` says so, the loss is
/// at most the permit's epsilon. Some neighbours attain it ([proof](crate::proofs::noisy_max)). Only the index is safe
/// to publish, not the noisy score. With `k` scores and noise of scale `b`, the winner's score is `b·(ln k + x)` or
/// more below the largest with probability at most `e^-x`.
///
/// With exponential noise on the reals this is the permute-and-flip mechanism (McKenna and Sheldon 2020). It is never
/// worse than the exponential mechanism, which is therefore not offered.
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit does
/// not match the scores; [`PrimitiveError::Nothing`] for no scores; [`PrimitiveError::Scale`] if the sensitivity is out
/// of range.
///
/// ```
/// use tidegate_kernel::primitives::{Scores, noisy_max};
/// use tidegate_kernel::{Ledger, Sealed, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let votes = Sealed::at(ledger.account(), 0, vec![40, 310, 25]);
/// let permit = ledger.spend(0, "1".parse()?)?;
/// // A voter who joins adds a vote: no score goes down.
/// let winner = noisy_max(permit, &votes, 1, Scores::OneDirectional, &mut SystemRandom::new()?)?;
/// assert_eq!(*winner.value(), 1); // except with probability 10^-116
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_max(
    permit: Permit,
    values: &Sealed<Vec<i64>>,
    sensitivity: u64,
    scores: Scores,
    random: &mut impl Randomness,
) -> Result<Noised<usize>, PrimitiveError> {
    let epsilon = paid(&permit, values)?;
    let noise = Geometric::new(scores.noise(sensitivity, epsilon)?);
    let random = &mut FreshRandom::new(random)?;
    let index = index_of_largest(values.content().iter().map(|value| i128::from(*value)), &noise, random);
    Ok(Noised::new(index.ok_or(PrimitiveError::Nothing { expected: "score" })?, epsilon, random))
}

/// Draws the lowest index of the largest noisy score; `None` for no scores.
pub(super) fn index_of_largest(
    scores: impl Iterator<Item = i128> + Clone,
    noise: &Geometric,
    random: &mut impl Randomness,
) -> Option<usize> {
    random.publish(Largest { scores, noise })
}

/// One draw of the index of the largest noisy score.
pub(crate) struct Largest<'a, S> {
    pub(crate) scores: S,
    pub(crate) noise: &'a Geometric,
}

impl<S: Iterator<Item = i128> + Clone> RandomisedStep for Largest<'_, S> {
    type Output = Option<usize>;

    fn draw(&mut self, random: &mut impl Randomness) -> Option<usize> {
        let mut best: Option<(usize, i128)> = None;
        for (index, score) in self.scores.clone().enumerate() {
            let noised = score.saturating_add(self.noise.sample(random));
            if best.is_none_or(|(_, largest)| noised > largest) {
                best = Some((index, noised));
            }
        }
        best.map(|(index, _)| index)
    }
}
