//! k-ary randomised response (Warner 1965) with exact integer weights. It is the basis of GRR, local hashing, the
//! randomised bucket and the noisy comparison.

use std::num::NonZeroU64;

use crate::epsilon::Epsilon;
use crate::noise::Below;
use crate::random::Randomness;
use crate::step::RandomisedStep;

/// The largest epsilon that integer weights approximate closely.
pub const MAX_RESPONSE_EPSILON: Epsilon = Epsilon::whole::<20>();

/// The largest number of values.
pub const MAX_DOMAIN: u32 = 1 << 24;

/// Why no randomised response exists for the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum ResponseError {
    /// Fewer than two values, or too many.
    #[error("a domain of {given} values is outside 2..={MAX_DOMAIN}")]
    Domain { given: u64 },
    /// An epsilon so small that e^epsilon rounds to one, or too large for the weights.
    #[error("epsilon {given} is outside {}..={MAX_RESPONSE_EPSILON}, the range of a randomised response", Epsilon::MIN)]
    Epsilon { given: Epsilon },
}

/// Answers the truth with weight `truth`, and each other value with weight `other`. The ratio `truth / other` is at
/// most e^epsilon, and within one part in 10⁹ of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomisedResponse {
    truth: u64,
    other: NonZeroU64,
    below_total: Below,
}

impl RandomisedResponse {
    /// Creates a response over `values` values, at a loss of at most `epsilon` and within one part in 10⁹ of it.
    pub(crate) fn new(values: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        if !(2..=MAX_DOMAIN).contains(&values) {
            return Err(ResponseError::Domain { given: u64::from(values) });
        }
        let others = u64::from(values) - 1;
        let (truth, other) = odds(1, others, epsilon)?;
        let total = NonZeroU64::MIN.saturating_add(truth + others * other.get() - 1);
        Ok(Self { truth, other, below_total: Below::new(total) })
    }

    /// Draws the answer for a true value below the number of values.
    #[inline]
    pub(crate) fn sample(&self, value: u32, random: &mut impl Randomness) -> u32 {
        random.publish(RandomisedValue { value, response: self })
    }

    /// Weights of the truth and of another value, and their sum over all values.
    #[cfg(feature = "simulation")]
    pub(crate) const fn weights(&self) -> (u64, u64, u64) {
        (self.truth, self.other.get(), self.below_total.bound())
    }

    /// The probability of the true answer.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn probability_of_truth(&self) -> f64 {
        self.truth as f64 / self.below_total.bound() as f64
    }

    /// The probability of one particular other answer.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn probability_of_other(&self) -> f64 {
        self.other.get() as f64 / self.below_total.bound() as f64
    }
}

/// One draw of a randomised response.
pub(crate) struct RandomisedValue<'a> {
    pub(crate) value: u32,
    pub(crate) response: &'a RandomisedResponse,
}

impl RandomisedStep for RandomisedValue<'_> {
    type Output = u32;

    #[inline]
    fn draw(&mut self, random: &mut impl Randomness) -> u32 {
        let RandomisedResponse { truth, other, below_total } = self.response;
        match below_total.sample(random).checked_sub(*truth) {
            None => self.value,
            Some(beyond) => {
                #[allow(clippy::cast_possible_truncation)] // below the number of values, a u32
                let other = (beyond / *other) as u32;
                other + u32::from(other >= self.value)
            }
        }
    }
}

/// Integers `(truth, other)` with `truth / other` just below e^epsilon, such that
/// `truths · truth + others · other < 2^63`. There are at most [`MAX_DOMAIN`] truths and others.
pub(crate) fn odds(truths: u64, others: u64, epsilon: Epsilon) -> Result<(u64, NonZeroU64), ResponseError> {
    let error = ResponseError::Epsilon { given: epsilon };
    if epsilon > MAX_RESPONSE_EPSILON {
        return Err(error);
    }
    let ratio = epsilon.exp();
    let ratio_bound = ratio.floor_times(1).ok_or(error)? + 1;
    let other = NonZeroU64::new((1 << 63) / (others + truths * ratio_bound)).ok_or(error)?;
    let truth = ratio.floor_times(other.get()).ok_or(error)?;
    if truth <= other.get() {
        return Err(error);
    }
    Ok((truth, other))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {
    use dashu::rational::RBig;

    use super::*;
    use crate::UNITS_PER_EPSILON;
    use crate::exact::{exp_bounds, many_epsilons};

    #[test]
    fn odds_lie_just_below_exact_bounds() {
        let almost = RBig::from_parts(999_999_999.into(), 1_000_000_000_u64.into());
        for units in many_epsilons(MAX_RESPONSE_EPSILON.units()) {
            let epsilon = Epsilon::from_units(units).unwrap();
            let (below, above) = exp_bounds(units, UNITS_PER_EPSILON);
            for values in [2, 3, 100, 1_024, MAX_DOMAIN] {
                let RandomisedResponse { truth, other, below_total } =
                    RandomisedResponse::new(values, epsilon).unwrap();
                let ratio = RBig::from_parts(truth.into(), other.get().into());
                assert!(ratio <= below, "{epsilon} over {values} values loses too much: {truth}/{other}");
                assert!(ratio >= &above * &almost, "{epsilon} over {values} values wastes budget: {truth}/{other}");
                assert_eq!(below_total.bound(), truth + u64::from(values - 1) * other.get());
            }
            for (truths, others) in [(1, 1), (7, 93), (u64::from(MAX_DOMAIN) / 2, u64::from(MAX_DOMAIN) / 2)] {
                let (truth, other) = odds(truths, others, epsilon).unwrap();
                assert!(RBig::from_parts(truth.into(), other.get().into()) <= below, "{epsilon} {truths} {others}");
                let total = u128::from(truths) * u128::from(truth) + u128::from(others) * u128::from(other.get());
                assert!(total < 1 << 63, "{epsilon} {truths} {others}");
            }
        }
    }

    #[test]
    fn odds_are_within_a_billionth_of_the_limit() {
        for epsilon in ["0.000000001", "0.05", "0.1", "1", "2.5", "5", "12", "20"] {
            let epsilon: Epsilon = epsilon.parse().unwrap();
            for others in [1, 2, 99, 1_023, u64::from(MAX_DOMAIN) - 1] {
                let (truth, other) = odds(1, others, epsilon).unwrap();
                // Exactly: truth/other <= lower end of e^epsilon.
                assert!(epsilon.exp().floor_times(other.get()).unwrap() >= truth);
                let loss = (truth as f64 / other.get() as f64).ln();
                assert!((epsilon.as_f64() - loss).abs() < 1e-9 + 1e-15, "{epsilon} {others} {loss}");
                assert!(u128::from(truth) + u128::from(others) * u128::from(other.get()) < 1 << 63);
            }
        }
    }

    #[test]
    fn rejects_parameters_outside_the_limits() {
        let above = "20.000000001".parse().unwrap();
        assert_eq!(odds(1, 1, above), Err(ResponseError::Epsilon { given: above }));
        let one = "1".parse().unwrap();
        assert_eq!(RandomisedResponse::new(1, one).err(), Some(ResponseError::Domain { given: 1 }));
        let message = RandomisedResponse::new(MAX_DOMAIN + 1, one).err().unwrap().to_string();
        assert_eq!(message, "a domain of 16777217 values is outside 2..=16777216");
    }
}
