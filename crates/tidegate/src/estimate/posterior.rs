//! Bayesian updates of a normal belief: by Laplace noise, normal noise, or a randomised bit. All are exact.
//!
//! With `f` the density of the observation, the posterior of a number that is normal with mean `m` and variance `P`
//! has mean `m + P (log f)'` and variance `P + P² (log f)''`, derivatives taken in `m` (Masreliez 1975). Under Laplace
//! noise the mean moves by at most `P / scale`: outliers are limited without a tuned threshold.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, PI};
use std::sync::OnceLock;

/// A normal belief after an observation, whose density was `factor · exp(exponent)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posterior {
    /// Mean of the number.
    pub mean: f64,
    /// Variance of the number.
    pub variance: f64,
    /// Density of the observation, without the exponent. Positive.
    pub factor: f64,
    /// Exponent of the density of the observation.
    pub exponent: f64,
}

/// Distribution of observation noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Laplace noise of a scale. Discrete Laplace noise counts as the Laplace noise of the same variance.
    Laplace {
        /// Positive and finite.
        scale: f64,
    },
    /// Normal noise of a variance.
    Normal {
        /// Positive and finite.
        variance: f64,
    },
}

impl Noise {
    /// Laplace noise of a variance.
    pub fn laplace(variance: f64) -> Self {
        Self::Laplace { scale: (variance / 2.0).sqrt() }
    }

    /// Variance.
    pub fn variance(self) -> f64 {
        match self {
            Self::Laplace { scale } => 2.0 * scale * scale,
            Self::Normal { variance } => variance,
        }
    }

    /// Updates a belief with an observation.
    #[inline]
    pub fn update(self, mean: f64, variance: f64, observed: f64) -> Posterior {
        match self {
            Self::Laplace { scale } => laplace_update(mean, variance, observed, scale),
            Self::Normal { variance: noise } => normal_update(mean, variance, observed, noise),
        }
    }
}

/// Kalman update.
#[inline]
fn normal_update(mean: f64, variance: f64, observed: f64, noise: f64) -> Posterior {
    let (total, residual) = (variance + noise, observed - mean);
    Posterior {
        mean: mean + variance / total * residual,
        variance: variance * (noise / total),
        factor: (2.0 * PI * total).sqrt().recip(),
        exponent: -0.5 * residual * (residual / total),
    }
}

/// Beliefs wider than this, in squared noise scales, take Laplace noise as normal: the results differ by less than
/// 0.1 per cent.
const WIDE: f64 = 1e3;

/// Narrowest belief, in squared noise scales, and least share of its variance that an update leaves. Derived: keeps
/// quotients of f64 finite.
const NARROW: f64 = 1e-12;
const LEAST_SHARE: f64 = 1e-9;

#[inline]
fn laplace_update(mean: f64, variance: f64, observed: f64, scale: f64) -> Posterior {
    let squared = (variance / (scale * scale)).max(NARROW);
    if squared > WIDE {
        return normal_update(mean, variance, observed, 2.0 * scale * scale);
    }
    let z = (observed - mean) / scale;
    let (far, deviation) = (z.abs(), squared.sqrt());
    let per_deviation = FRAC_1_SQRT_2 / deviation;
    let (inner, outer) = ((squared - far) * per_deviation, (squared + far) * per_deviation);
    // The density is (a + b)/4 times the exponential.
    let (a, b, peak, exponent) = if inner >= 0.0 {
        (erfcx(inner), erfcx(outer), 1.0, -0.5 * far * far / squared)
    } else {
        let small = (-inner * inner).exp();
        (2.0 - small * erfcx(-inner), small * erfcx(outer), small, squared / 2.0 - far)
    };
    let sum = a + b;
    let score = (a - b) / sum;
    let curvature = (1.0 - 2.0 * peak * FRAC_2_PI.sqrt() / (deviation * sum) - score * score).min(0.0);
    Posterior {
        mean: mean + variance / scale * score.copysign(z),
        variance: variance * (1.0 + squared * curvature).max(LEAST_SHARE),
        factor: sum / (4.0 * scale),
        exponent,
    }
}

/// Updates a belief by a randomised bit: whether the number lies above `cut`, told truly with probability `truth`.
pub fn bit_update(mean: f64, variance: f64, cut: f64, above: bool, truth: f64) -> Posterior {
    let deviation = variance.sqrt().max(f64::MIN_POSITIVE);
    let sign = if above { 1.0 } else { -1.0 };
    let z = sign * (mean - cut) / deviation;
    let gap = 2.0 * truth - 1.0;
    let probability = (1.0 - truth) + gap * normal_cdf(z);
    let score = gap * (-0.5 * z * z).exp() / (2.0 * PI).sqrt() / probability;
    Posterior {
        mean: mean + sign * deviation * score,
        variance: variance * (1.0 - score * (z + score)).max(LEAST_SHARE),
        factor: probability,
        exponent: 0.0,
    }
}

/// Probability that a standard normal number is at most `z`.
pub fn normal_cdf(z: f64) -> f64 {
    let tail = 0.5 * (-0.5 * z * z).exp() * erfcx(z.abs() * FRAC_1_SQRT_2);
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Intervals of the table of [`erfcx`]; the interpolation error is below 1e-10.
const INTERVALS: usize = 512;

/// Scaled complementary error function `exp(x²) erfc(x)` for `x >= 0`, by cubic interpolation in `4 / (4 + x)`.
#[inline]
pub fn erfcx(x: f64) -> f64 {
    static TABLE: OnceLock<Vec<[f64; 4]>> = OnceLock::new();
    let table = TABLE.get_or_init(table);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in 0..=INTERVALS
    let (at, place) = {
        let place = 4.0 / (4.0 + x) * INTERVALS as f64;
        let at = (place as usize).min(INTERVALS - 1);
        (at, place - at as f64)
    };
    let [constant, linear, square, cube] = table[at];
    constant + place * (linear + place * (square + place * cube))
}

/// Coefficients of the Hermite polynomials between the nodes.
#[allow(clippy::cast_precision_loss)] // a few hundred nodes
fn table() -> Vec<[f64; 4]> {
    let node = |index: usize| {
        if index == 0 {
            // x is infinite: erfcx(x) tends to 1 / (x sqrt(pi)).
            return (0.0, 1.0 / (4.0 * PI.sqrt()) / INTERVALS as f64);
        }
        let place = index as f64 / INTERVALS as f64;
        let x = 4.0 / place - 4.0;
        let value = exact_erfcx(x);
        let by_x = if x < 50.0 {
            2.0 * x * value - 2.0 / PI.sqrt()
        } else {
            // The difference above would cancel.
            -(1.0 - 1.5 / (x * x) + 3.75 / x.powi(4)) / (PI.sqrt() * x * x)
        };
        (value, by_x * (-4.0 / (place * place)) / INTERVALS as f64)
    };
    let interval = |index: usize| {
        let ((left, left_slope), (right, right_slope)) = (node(index), node(index + 1));
        let rise = right - left;
        [left, left_slope, 3.0 * rise - 2.0 * left_slope - right_slope, left_slope + right_slope - 2.0 * rise]
    };
    (0..INTERVALS).map(interval).collect()
}

/// Series of `erf` below 2; beyond, the continued fraction of `erfc` (Abramowitz and Stegun 7.1.5 and 7.1.14).
fn exact_erfcx(x: f64) -> f64 {
    if x < 2.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return (x * x).exp() * (1.0 - 2.0 / PI.sqrt() * sum);
    }
    let fraction = (1..=200).rev().fold(x, |fraction, n| x + f64::from(n) / 2.0 / fraction);
    1.0 / (fraction * PI.sqrt())
}

#[cfg(test)]
mod tests {
    use std::f64::consts::SQRT_2;

    use super::*;

    /// Posterior by numerical integration over a fine grid.
    fn integrated(mean: f64, variance: f64, likelihood: impl Fn(f64) -> f64) -> (f64, f64, f64) {
        let deviation = variance.sqrt();
        let steps = 200_000;
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for step in 0..steps {
            let z = (f64::from(step) + 0.5) / f64::from(steps) * 24.0 - 12.0;
            let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt() * 24.0 / f64::from(steps);
            let weight = density * likelihood(mean + deviation * z);
            mass += weight;
            first += weight * deviation * z;
            second += weight * variance * z * z;
        }
        let shift = first / mass;
        (mass, mean + shift, second / mass - shift * shift)
    }

    fn agrees(posterior: &Posterior, (mass, mean, variance): (f64, f64, f64), tolerance: f64) {
        let density = posterior.factor * posterior.exponent.exp();
        assert!((density / mass - 1.0).abs() < tolerance, "{posterior:?} {mass}");
        assert!((posterior.mean - mean).abs() < tolerance * variance.sqrt().max(mean.abs()), "{posterior:?} {mean}");
        assert!((posterior.variance / variance - 1.0).abs() < tolerance, "{posterior:?} {variance}");
    }

    #[test]
    fn laplace_updates_agree_with_integration() {
        for variance in [1e-4, 0.05, 1.0, 30.0, 900.0] {
            for observed in [-40.0, -3.0, 0.0, 0.7, 11.0] {
                let scale = 1.3;
                let likelihood = |x: f64| (-(observed - x).abs() / scale).exp() / (2.0 * scale);
                let expected = integrated(1.0, variance, likelihood);
                agrees(&Noise::Laplace { scale }.update(1.0, variance, observed), expected, 1e-4);
            }
        }
    }

    #[test]
    fn a_wide_belief_takes_laplace_noise_as_normal() {
        let likelihood = |x: f64| (-(40.0 - x).abs()).exp() / 2.0;
        let expected = integrated(1.0, 1.1e3, likelihood);
        agrees(&Noise::Laplace { scale: 1.0 }.update(1.0, 1.1e3, 40.0), expected, 0.01);
    }

    #[test]
    fn bits_agree_with_integration() {
        for (above, truth, cut) in [(true, 0.8, 0.0), (false, 0.95, 1.5), (true, 0.6, -3.0)] {
            let likelihood = |x: f64| if (x > cut) == above { truth } else { 1.0 - truth };
            agrees(&bit_update(0.4, 2.0, cut, above, truth), integrated(0.4, 2.0, likelihood), 1e-3);
        }
    }

    #[test]
    fn erfcx_agrees_with_the_error_function() {
        for step in 0..4_000 {
            let x = f64::from(step) * 0.01;
            assert!((erfcx(x) / exact_erfcx(x) - 1.0).abs() < 1e-9, "{x}");
        }
        let far = 1e8;
        assert!((erfcx(far) * far * PI.sqrt() - 1.0).abs() < 1e-6);
        assert!((erfcx(0.5) - 0.615_690_344_192_925_9).abs() < 1e-9);
        assert!((normal_cdf(1.959_963_984_540_054) - 0.975).abs() < 1e-9);
    }

    #[test]
    fn outliers_move_the_mean_by_a_bounded_amount() {
        let posterior = Noise::Laplace { scale: 2.0 }.update(0.0, 3.0, 1e9);
        assert!((posterior.mean - 1.5).abs() < 1e-9 && (posterior.variance - 3.0).abs() < 1e-9, "{posterior:?}");
    }

    #[test]
    fn sqrt_two_is_the_deviation_of_the_unit_scale() {
        assert!((Noise::laplace(2.0).variance() - 2.0).abs() < 1e-12);
        assert!((Noise::Laplace { scale: 1.0 }.variance().sqrt() - SQRT_2).abs() < 1e-12);
    }
}
