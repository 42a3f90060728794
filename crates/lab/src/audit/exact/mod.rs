//! The exact audit: the largest loss of a whole mechanism at a small domain and window, by enumeration of what it can
//! publish.
//!
//! Enumerated are the streams, the decisions and the outputs; how likely an output is comes from the kernel's own
//! integer weights ([`Oracle::log_likelihood`](tidegate_kernel::oracle::Oracle::log_likelihood),
//! [`SymbolChannel::probability`](tidegate_kernel::primitives::SymbolChannel::probability),
//! [`bucket_probabilities`](tidegate_kernel::primitives::bucket_probabilities)) or from the stated law of its noise.
//! That samplers follow these laws is shown elsewhere: by the kernel's tests of whole distributions, and by the
//! black-box attack. What a mechanism asks and spends is taken from the mechanism itself, which is driven through every
//! decision that it can take.
//!
//! | what | enumerated |
//! | --- | --- |
//! | frequency oracles, `piecewise` | all reports, all pairs of values |
//! | `lbu lsp lbd lba lpu lpd lpa track`, `plbu`, means | all decisions, windows and slots; each question's reports |
//! | `uniform`, `sample` | all windows; the noise on each count |
//! | `laplace`, `clamped`, `bucorder`, `bucorder_sums` | all pairs of readings, all outputs |
//! | `crr`, `crr_robust`, `batched`, `rr`, `oue` | all sequences of symbols and of answers, after any answers |
//! | `contin` | all batches, all ways to group them, and one noisy sum |
//!
//! The others decide by comparing noise with noise, over outputs that have no end; for those there is the black-box
//! attack only.

pub mod central;
mod groups;
pub mod local;
pub mod oracle;
pub mod scalar;
pub mod sequence;

use tidegate_kernel::noise::NoiseScale;

/// How far noise is followed from its middle, in scales: beyond, ratios repeat themselves.
const REACH: f64 = 8.0;

/// The laws of what is published for each of several inputs, as logarithms of probabilities: a row for each input, a
/// column for each output. The largest difference within a column is the loss.
pub fn largest_difference(laws: &[Vec<f64>]) -> f64 {
    let outputs = laws.iter().map(Vec::len).min().unwrap_or(0);
    let spread = |output: usize| {
        let column = || laws.iter().map(|law| law[output]);
        let (most, least) = (column().fold(f64::NEG_INFINITY, f64::max), column().fold(f64::INFINITY, f64::min));
        // An output that no input has tells nothing.
        if most == f64::NEG_INFINITY { 0.0 } else { most - least }
    };
    (0..outputs).map(spread).fold(0.0, f64::max)
}

/// The law of a whole number with [discrete Laplace noise](tidegate_kernel::noise::DiscreteLaplace): the logarithm of
/// the probability of each of `outputs`.
pub fn noisy_law(scale: NoiseScale, value: i64, outputs: impl Iterator<Item = i64>) -> Vec<f64> {
    let rate = 1.0 / scale.as_f64();
    // (1 - q) / (1 + q) with q = e^-rate.
    let middle = (rate / 2.0).tanh().ln();
    #[allow(clippy::cast_precision_loss)] // small numbers
    outputs.map(|output| middle - output.abs_diff(value) as f64 * rate).collect()
}

/// Far enough from the middle of the noise that nothing new comes.
#[allow(clippy::cast_possible_truncation)] // a few times a small scale
fn reach(scale: NoiseScale) -> i64 {
    (REACH * scale.as_f64()).ceil() as i64 + 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn the_law_of_noise_sums_to_one_and_loses_what_it_is_scaled_to() {
        let scale = NoiseScale::calibrated(3, "1.5".parse().unwrap()).unwrap();
        let law = |value| noisy_law(scale, value, -200..=200);
        let sum: f64 = law(0).iter().map(|log| log.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        assert!((largest_difference(&[law(0), law(1), law(3)]) - 1.5).abs() < 1e-12);
        assert_eq!(largest_difference(&[]), 0.0);
        assert_eq!(largest_difference(&[vec![0.0, f64::NEG_INFINITY], vec![f64::NEG_INFINITY, 0.0]]), f64::INFINITY);
    }
}
