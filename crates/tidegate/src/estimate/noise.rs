//! [`ObservationNoise`]: the distribution of observation noise, and its robust update (Huber 1964).

/// Observation noise: its variance, and the share of it that is Laplace noise. The rest is close to normal.
///
/// A number converts to normal noise of that variance:
///
/// ```
/// use tidegate::estimate::noise::ObservationNoise;
///
/// assert_eq!(ObservationNoise::from(2.0), ObservationNoise::normal(2.0));
/// assert_eq!(ObservationNoise::laplace(2.0).variance(), 2.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservationNoise {
    variance: f64,
    /// Share of the variance of one Laplace variable that, with normal noise, has the same kurtosis. Its square is a
    /// third of the excess kurtosis.
    laplace_share: f64,
}

impl From<f64> for ObservationNoise {
    fn from(variance: f64) -> Self {
        Self::normal(variance)
    }
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl ObservationNoise {
    /// Normal noise.
    pub const fn normal(variance: f64) -> Self {
        Self { variance, laplace_share: 0.0 }
    }

    /// Laplace noise.
    pub const fn laplace(variance: f64) -> Self {
        Self { variance, laplace_share: 1.0 }
    }

    /// Noise of the given variance that includes independent Laplace variables of the given `variances`.
    ///
    /// ```
    /// use tidegate::estimate::noise::ObservationNoise;
    ///
    /// assert_eq!(ObservationNoise::with_laplaces(2.0, [2.0]), ObservationNoise::laplace(2.0));
    /// assert_eq!(ObservationNoise::with_laplaces(2.0, []), ObservationNoise::normal(2.0));
    /// ```
    pub fn with_laplaces(variance: f64, variances: impl IntoIterator<Item = f64>) -> Self {
        let squares = variances.into_iter().map(|of_one| (of_one / variance).powi(2)).sum::<f64>();
        Self { variance, laplace_share: if squares.is_nan() { 0.0 } else { squares.sqrt().min(1.0) } }
    }

    /// Variance.
    pub const fn variance(&self) -> f64 {
        self.variance
    }

    /// Multiplies the variance by a factor.
    #[must_use]
    pub fn with_variance_times(self, factor: f64) -> Self {
        Self { variance: self.variance * factor, ..self }
    }

    /// Noise of the mean of `numbers` independent observations.
    pub(super) fn of_mean(self, numbers: usize) -> Self {
        let numbers = numbers.max(1) as f64;
        Self { variance: self.variance / numbers, laplace_share: self.laplace_share / numbers.sqrt() }
    }

    /// Noise of each observation's deviation from the mean of all `numbers`.
    pub(super) fn of_deviations(self, numbers: usize) -> Self {
        let numbers = numbers.max(1) as f64;
        // Each deviation has its own noise, and a part of every other.
        let (own, others) = (1.0 - numbers.recip(), (numbers - 1.0) / numbers.powi(4));
        let part = if own > 0.0 { (own.powi(4) + others).sqrt() / own } else { 0.0 };
        Self { variance: self.variance * own, laplace_share: self.laplace_share * part }
    }

    /// Noise of the same variance beside normal variation of variance `scatter`, which lightens the tails.
    pub(super) fn diluted_by(self, scatter: f64) -> Self {
        Self { laplace_share: self.laplace_share * self.variance / (self.variance + scatter), ..self }
    }

    /// Raises the variance to at least `least`.
    pub(super) const fn at_least(self, least: f64) -> Self {
        Self { variance: self.variance.max(least), ..self }
    }

    /// Whether the tails are heavy enough to matter.
    pub(super) fn is_heavy(&self) -> bool {
        self.laplace_share * (1.0 + LAST_RATIO) > 1.0
    }

    /// Approximates the innovation of a number with the given prior variance.
    pub(super) fn huber_approximation(&self, prior_variance: f64) -> HuberApproximation {
        let laplace = self.laplace_share * self.variance;
        // Total normal variance of the noise.
        let normal = self.variance - laplace;
        let ratio = (prior_variance + normal) / laplace;
        if !self.is_heavy() || ratio.is_nan() || ratio >= LAST_RATIO {
            let total = prior_variance + self.variance;
            return HuberApproximation {
                threshold: f64::INFINITY,
                scale: total,
                effective_variance: self.variance,
                inside_probability: 1.0,
                log_peak_ratio: 0.0,
            };
        }
        let [threshold, scale, effective_variance, inside_probability, log_peak_ratio] = interpolate(ratio);
        HuberApproximation {
            threshold: threshold * laplace.sqrt(),
            scale: scale * laplace,
            effective_variance: effective_variance * laplace + normal,
            inside_probability,
            log_peak_ratio,
        }
    }
}

/// Huber's least favourable density (Huber 1964), fitted to the innovation: the sum of normal and Laplace parts.
///
/// The density of a residual `e` is proportional to `exp(-m(2|e| - m)/2s)`, with `m = min(|e|, threshold)` and `s =
/// scale`. It is normal near zero and Laplace in its tails, so residuals are clamped to the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HuberApproximation {
    /// Huber threshold, and scale of the density.
    pub(super) threshold: f64,
    pub(super) scale: f64,
    /// Variance of normal noise with the same information about the number.
    pub(super) effective_variance: f64,
    /// Probability of a residual within the threshold. Kalman gains are divided by it.
    pub(super) inside_probability: f64,
    /// Logarithm of the density at zero, relative to a normal density of the same variance.
    pub(super) log_peak_ratio: f64,
}

/// Grid of [`HUBER_TABLE`]: ratios of normal to Laplace variance. Above the last, all is treated as normal.
const FIRST_RATIO: f64 = 1e-4;
const RATIOS_PER_DECADE: f64 = 2.0;
const LAST_RATIO: f64 = 10.0;

/// Fields of [`HuberApproximation`] in order, for each ratio and a Laplace variance of 1, by numerical integration. The
/// first two minimise the Kullback-Leibler divergence from the true density (at most 0.0002; up to 0.072 for a normal
/// density).
const HUBER_TABLE: [[f64; 5]; 11] = [
    [0.0167, 0.0118, 0.5080, 0.0233, 0.5607],
    [0.0299, 0.0211, 0.5142, 0.0411, 0.5517],
    [0.0534, 0.0377, 0.5249, 0.0718, 0.5360],
    [0.0958, 0.0677, 0.5437, 0.1240, 0.5089],
    [0.1730, 0.1224, 0.5756, 0.2094, 0.4634],
    [0.3164, 0.2242, 0.6279, 0.3409, 0.3907],
    [0.5903, 0.4204, 0.7080, 0.5221, 0.2851],
    [1.1380, 0.8219, 0.8156, 0.7292, 0.1587],
    [2.3045, 1.7298, 0.9258, 0.9009, 0.0544],
    [4.9850, 4.0807, 0.9892, 0.9838, 0.0081],
    [11.6212, 10.9938, 1.0000, 0.9995, 0.0002],
];

/// Interpolates [`HUBER_TABLE`].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // a place in the table
fn interpolate(ratio: f64) -> [f64; 5] {
    let last = HUBER_TABLE.len() - 1;
    let place = (RATIOS_PER_DECADE * (ratio.max(FIRST_RATIO) / FIRST_RATIO).log10()).min(last as f64);
    let first = (place as usize).min(last - 1);
    let part = place - first as f64;
    let (less, more) = (HUBER_TABLE[first], HUBER_TABLE[first + 1]);
    let between = |column: usize| less[column] + part * (more[column] - less[column]);
    // These columns follow powers of the ratio.
    let growing = |column: usize| less[column] * (more[column] / less[column]).powf(part);
    [growing(0), growing(1), between(2), growing(3), between(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Density of the sum of a normal variable of variance `ratio` and a Laplace variable of variance 1.
    fn density(error: f64, ratio: f64) -> f64 {
        const STEPS: i32 = 400;
        let (width, deviation) = (8.0 / f64::from(STEPS), ratio.sqrt());
        let of_step = |step: i32| {
            let normal = width * f64::from(step);
            let noise = (error - deviation * normal).abs() * std::f64::consts::SQRT_2;
            (-0.5 * normal * normal - noise).exp() / std::f64::consts::SQRT_2
        };
        width * (-STEPS..=STEPS).map(of_step).sum::<f64>() / std::f64::consts::TAU.sqrt()
    }

    /// Integral of an even function that varies on the given scale near zero.
    fn integral(scale: f64, function: impl Fn(f64) -> f64) -> f64 {
        const STEPS: i32 = 1_500;
        let (mut sum, mut last) = (0.0, (0.0, function(0.0)));
        for step in 1..=STEPS {
            let place = scale * (f64::from(step) * 10.0 / f64::from(STEPS)).sinh();
            let value = function(place);
            sum += (place - last.0) * (value + last.1);
            last = (place, value);
        }
        sum
    }

    #[test]
    fn errors_are_followed_as_their_density_has_it() {
        for ratio in [0.0, 1e-4, 2e-3, 0.01, 0.05, 0.1, 0.25, 1.0, 3.0, 7.0] {
            let HuberApproximation { threshold, scale, effective_variance, inside_probability, log_peak_ratio } =
                ObservationNoise::laplace(1.0).huber_approximation(ratio);
            // The smallest ratio of the table stands for zero.
            let (ratio, close) = (ratio.max(FIRST_RATIO), ratio.max(FIRST_RATIO).sqrt());
            let all = integral(close, |error| density(error, ratio));
            assert!((all - 1.0).abs() < 2e-3, "{ratio}: {all}");
            let inside = integral(close, |error| if error < threshold { density(error, ratio) } else { 0.0 });
            assert!((inside / inside_probability - 1.0).abs() < 0.015, "{ratio}: {inside} for {inside_probability}");
            // The best gain for a clamped residual `c(e)` is `E[s c]/E[c²]`, where `s` is the unknown part of the
            // number.
            let squares = integral(close, |error| error.min(threshold).powi(2) * density(error, ratio));
            let (total, stated) = (squares / (inside_probability * inside_probability), effective_variance + ratio);
            assert!((total / stated - 1.0).abs() < 0.03, "{ratio}: {total} for {stated}");
            let huber = |error: f64| {
                let bent = error.min(threshold);
                (-bent * (2.0 * error - bent) / (2.0 * scale)).exp()
            };
            let normal = (std::f64::consts::TAU * (1.0 + ratio)).sqrt();
            let likely = (normal / integral(close, huber)).ln();
            assert!((likely - log_peak_ratio).abs() < 0.01, "{ratio}: {likely} for {log_peak_ratio}");
            // Closer to the true density than the normal one is, wherever they differ.
            let divergence = |logarithm: &dyn Fn(f64) -> f64| {
                let of_error = |error: f64| {
                    let density = density(error, ratio);
                    if density > 1e-12 { density * (density.ln() - logarithm(error)) } else { 0.0 }
                };
                integral(close, of_error)
            };
            let ours = divergence(&|error| huber(error).ln() + log_peak_ratio - normal.ln());
            let of_normal = divergence(&|error| -0.5 * error * error / (1.0 + ratio) - normal.ln());
            assert!(ours < 5e-3 && ours <= of_normal + 1e-3, "{ratio}: {ours}, {of_normal}");
        }
    }

    #[test]
    fn noise_that_is_normal_or_beside_much_that_is_unknown_is_followed_all_the_way() {
        for (noise, prior_variance) in [
            (ObservationNoise::normal(2.0), 0.5),
            (ObservationNoise::laplace(2.0), 30.0),
            (ObservationNoise::laplace(0.0), 0.0),
        ] {
            let huber = noise.huber_approximation(prior_variance);
            let (variance, total) = (noise.variance(), noise.variance() + prior_variance);
            assert_eq!(
                huber,
                HuberApproximation {
                    threshold: f64::INFINITY,
                    scale: total,
                    effective_variance: variance,
                    inside_probability: 1.0,
                    log_peak_ratio: 0.0
                }
            );
        }
    }

    #[test]
    fn sums_of_laplace_noises_have_the_kurtosis_that_is_said() {
        // Half the difference of two: cumulants add, and the fourth scales with the fourth power.
        let pair = ObservationNoise::laplace(2.0).of_deviations(2);
        assert!((pair.variance - 1.0).abs() < 1e-12 && (pair.laplace_share.powi(2) - 0.5).abs() < 1e-12, "{pair:?}");
        let mean = ObservationNoise::laplace(8.0).of_mean(4);
        assert!((mean.variance - 2.0).abs() < 1e-12 && (mean.laplace_share.powi(2) - 0.25).abs() < 1e-12, "{mean:?}");
        let of_two = ObservationNoise::with_laplaces(4.0, [1.0, 3.0]);
        assert!((of_two.laplace_share.powi(2) - (1.0 + 9.0) / 16.0).abs() < 1e-12, "{of_two:?}");
        assert!((ObservationNoise::laplace(1.0).diluted_by(1.0).laplace_share - 0.5).abs() < 1e-12);
        assert_eq!(ObservationNoise::laplace(3.0).of_deviations(1), ObservationNoise::normal(0.0));
    }
}
