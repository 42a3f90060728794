//! Discrete Laplace noise and geometric noise (Ghosh, Roughgarden and Sundararajan 2009).

use std::num::NonZeroU64;

use crate::epsilon::{Epsilon, UNITS_PER_EPSILON};
use crate::noise::Below;
use crate::noise::bernoulli::{bernoulli_exp_fraction, bernoulli_exp_one};
use crate::random::Randomness;
use crate::step::RandomisedStep;

/// The scale of integer noise: an exact positive fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseScale {
    numerator: NonZeroU64,
    denominator: NonZeroU64,
}

/// The noise scale is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sensitivity of {sensitivity} is outside 1..={limit}, the range that noise can be scaled to",
    limit = NoiseScale::MAX_SENSITIVITY
)]
#[allow(missing_docs)] // the messages name the fields
pub struct ScaleError {
    pub sensitivity: u64,
}

impl NoiseScale {
    /// The largest sensitivity, in grid units, for which every [`Epsilon`] has a scale.
    pub const MAX_SENSITIVITY: u64 = (1 << 62) / UNITS_PER_EPSILON;

    /// The fraction `numerator / denominator`.
    pub const fn new(numerator: NonZeroU64, denominator: NonZeroU64) -> Self {
        Self { numerator, denominator }
    }

    /// Exactly `sensitivity / epsilon`: the scale at which a value of that sensitivity loses `epsilon`.
    pub fn calibrated(sensitivity: u64, epsilon: Epsilon) -> Result<Self, ScaleError> {
        let error = ScaleError { sensitivity };
        if sensitivity > Self::MAX_SENSITIVITY {
            return Err(error);
        }
        let numerator = sensitivity.checked_mul(UNITS_PER_EPSILON).ok_or(error)?;
        let divisor = greatest_common_divisor(numerator, epsilon.units());
        let part = |whole: u64| whole.checked_div(divisor).and_then(NonZeroU64::new).ok_or(error);
        Ok(Self { numerator: part(numerator)?, denominator: part(epsilon.units())? })
    }

    /// The numerator and the denominator.
    #[cfg(feature = "simulation")]
    pub(crate) const fn parts(self) -> (u64, u64) {
        (self.numerator.get(), self.denominator.get())
    }

    /// The scale as a float, for error formulas.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.numerator.get() as f64 / self.denominator.get() as f64
    }

    /// The variance of [`DiscreteLaplace`] noise of this scale: `2q/(1-q)²` with `q = exp(-1/scale)`.
    pub fn laplace_variance(self) -> f64 {
        2.0 * self.geometric_variance()
    }

    /// The variance of [`Geometric`] noise of this scale: `q/(1-q)²`.
    pub fn geometric_variance(self) -> f64 {
        let q = (-1.0 / self.as_f64()).exp();
        let complement = -(-1.0 / self.as_f64()).exp_m1();
        q / (complement * complement)
    }
}

pub(crate) const fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Geometric noise on the non-negative integers: exactly `P(z) = (1-q) qᶻ` with `q = exp(-1/scale)`.
#[derive(Clone, Copy, Debug)]
pub struct Geometric {
    below_numerator: Below,
    denominator: NonZeroU64,
}

impl Geometric {
    /// Noise of the given scale.
    pub const fn new(scale: NoiseScale) -> Self {
        Self { below_numerator: Below::new(scale.numerator), denominator: scale.denominator }
    }

    /// The scale.
    #[cfg(feature = "simulation")]
    pub(crate) const fn scale(&self) -> NoiseScale {
        let numerator = match NonZeroU64::new(self.below_numerator.bound()) {
            Some(numerator) => numerator,
            None => NonZeroU64::MIN, // not reached: the bound was one
        };
        NoiseScale { numerator, denominator: self.denominator }
    }

    /// Draws a value. It is not saturated to 64 bits, and must not be before it is added: a secret plus saturated noise
    /// would reveal the secret. Saturate the sum instead.
    ///
    /// First half of algorithm 2 of Canonne, Kamath and Steinke (2020). Let `scale = s/t`. Take a uniform `u < s`, kept
    /// with probability `exp(-u/s)`, and a geometric `v` of ratio 1/e. Then `u + s·v` is geometric of ratio
    /// `exp(-1/s)`, and its quotient by `t` has ratio `exp(-t/s)`.
    #[inline]
    pub fn sample(&self, random: &mut impl Randomness) -> i128 {
        let below = &self.below_numerator;
        let remainder = loop {
            let candidate = below.sample(random);
            if bernoulli_exp_fraction(candidate, below, random) {
                break candidate;
            }
        };
        let mut multiples = 0_u64;
        while bernoulli_exp_one(random) {
            multiples += 1;
        }
        let sum = u128::from(below.bound()) * u128::from(multiples) + u128::from(remainder);
        match u64::try_from(sum) {
            Ok(sum) => i128::from(sum / self.denominator),
            // No run of coin flips is long enough to fill 127 bits.
            Err(_) => i128::try_from(sum / u128::from(self.denominator.get())).unwrap_or(i128::MAX),
        }
    }
}

/// Discrete Laplace noise: exactly `P(z) = (1-q)/(1+q) · q^|z|` with `q = exp(-1/scale)`.
#[derive(Clone, Copy, Debug)]
pub struct DiscreteLaplace(Geometric);

impl DiscreteLaplace {
    /// Noise of the given scale.
    pub const fn new(scale: NoiseScale) -> Self {
        Self(Geometric::new(scale))
    }

    /// Draws a value, not saturated to 64 bits, as in [`Geometric::sample`].
    #[inline]
    pub fn sample(&self, random: &mut impl Randomness) -> i128 {
        loop {
            let magnitude = self.0.sample(random);
            let negative = random.next_word() & 1 == 1;
            // Zero would otherwise be drawn with both signs, twice too often.
            if !(negative && magnitude == 0) {
                return if negative { -magnitude } else { magnitude };
            }
        }
    }

    /// Publishes a secret plus noise, saturated to `i64`. Saturating the exact sum, not one of its parts, is
    /// post-processing.
    #[inline]
    pub(crate) fn add_to(&self, secret: i128, random: &mut impl Randomness) -> i64 {
        random.publish(NoisyInteger { secret, noise: self })
    }

    /// The scale.
    #[cfg(feature = "simulation")]
    pub(crate) const fn scale(&self) -> NoiseScale {
        self.0.scale()
    }
}

/// A secret plus noise, saturated to `i64`.
pub(crate) struct NoisyInteger<'a> {
    pub(crate) secret: i128,
    pub(crate) noise: &'a DiscreteLaplace,
}

impl RandomisedStep for NoisyInteger<'_> {
    type Output = i64;

    #[inline]
    fn draw(&mut self, random: &mut impl Randomness) -> i64 {
        let sum = self.secret.saturating_add(self.noise.sample(random));
        i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
    }
}
