//! Exact privacy loss of published noise.

use tidegate::kernel::primitives::{Bucketing, ThresholdNoise};

use super::epsilon;

/// The transition matrix of the buckets that `bucorder` groups by: rows of probabilities, no two of them apart by more
/// than e^ε.
#[test]
fn bucket_transition_matrix_loses_exactly_epsilon() {
    for (buckets, text) in [(2, "0.1"), (6, "0.1"), (10, "0.5"), (100, "1")] {
        let amount = epsilon(text);
        let stated = Bucketing::new(0..=999, buckets, amount).unwrap().probabilities();
        let row = |truth: u32| -> Vec<f64> {
            (0..buckets).map(|label| if label == truth { stated.truth } else { stated.other }).collect()
        };
        let mut worst = 0.0_f64;
        for truth in 0..buckets {
            assert!((row(truth).iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (first, second) in row(truth).iter().zip(row((truth + 1) % buckets)) {
                worst = worst.max((first / second).ln());
            }
        }
        assert!(
            (worst - amount.as_f64()).abs() < 1e-8 && worst <= amount.as_f64() + 1e-12,
            "{buckets} {text}: {worst}"
        );
        // Drawing from all buckets, the true one included, as published: the loss is far above.
        let n = f64::from(buckets);
        let keep = amount.as_f64().exp() / (amount.as_f64().exp() + n - 1.0);
        let published = ((keep + (1.0 - keep) / n) / ((1.0 - keep) / n)).ln();
        assert!((published - (1.0 + n * amount.as_f64().exp() / (n - 1.0)).ln()).abs() < 1e-9);
        assert!(published > amount.as_f64() + 0.1);
    }
}

/// The logarithm of the probability that a group accepts all but the last of `values` and rejects that, by integration
/// over the threshold's noise. `below(x)` and `above(x)` are the logarithms of the probabilities that a query's noise
/// is below and above.
fn log_probability(
    values: &[f64],
    threshold: f64,
    density: impl Fn(f64) -> f64,
    below: impl Fn(f64) -> f64,
    above: impl Fn(f64) -> f64,
    range: (f64, f64),
) -> f64 {
    let deviation = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        group.iter().map(|value| (value - mean).abs()).sum::<f64>()
    };
    let queries: Vec<f64> = (1..=values.len()).map(|length| deviation(&values[..length])).collect();
    let mut nodes: Vec<f64> =
        (0..=6_000).map(|node| range.0 + (range.1 - range.0) * f64::from(node) / 6_000.0).collect();
    nodes.extend(queries.iter().map(|query| query - threshold).chain([0.0]).filter(|x| (range.0..range.1).contains(x)));
    nodes.sort_by(f64::total_cmp);
    nodes.dedup();
    let logs: Vec<f64> = nodes
        .iter()
        .map(|rho| {
            let at = |query: &f64| threshold + rho - query;
            let (last, accepted) = queries.split_last().unwrap();
            density(*rho) + accepted.iter().map(|query| below(at(query))).sum::<f64>() + above(at(last))
        })
        .collect();
    // Between two nodes the logarithm is taken to be straight, and its exponential integrated exactly.
    let pieces = nodes.windows(2).zip(logs.windows(2)).map(|(node, log)| {
        let (top, fall) = (log[0].max(log[1]), (log[0] - log[1]).abs());
        let shape = if fall > 1e-8 { (-(-fall).exp_m1()).ln() - fall.ln() } else { -fall / 2.0 };
        top + (node[1] - node[0]).ln() + shape
    });
    let pieces: Vec<f64> = pieces.filter(|piece| piece.is_finite()).collect();
    let top = pieces.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + pieces.iter().map(|piece| (piece - top).exp()).sum::<f64>().ln()
}

/// The published constants of continuous grouping lose more than they claim; twice as much noise does not, and neither
/// does what is built here.
#[test]
fn counterexample_breaks_only_the_published_noise() {
    let values =
        |first: f64| -> Vec<f64> { std::iter::once(first).chain(vec![0.05; 79]).chain(vec![0.0; 20]).collect() };
    let amount = 0.5;
    let laplace = |for_threshold: f64, for_queries: f64| {
        let (b, c) = (for_threshold / amount, for_queries / amount);
        let below = |x: f64| {
            let x = x / c;
            if x < 0.0 { 0.5_f64.ln() + x } else { (-0.5 * (-x).exp()).ln_1p() }
        };
        let probability = |values: &[f64]| {
            let reach = 60.0 * b + 20.0 * c + 60.0;
            let density = |rho: f64| -rho.abs() / b - (2.0 * b).ln();
            log_probability(values, 0.0, density, below, |x| below(-x), (-reach, reach))
        };
        (probability(&values(0.0)) - probability(&values(1.0))).abs()
    };
    let published = laplace(2.0, 4.0);
    assert!((published - 0.5373).abs() < 5e-5, "{published}");
    assert!((laplace(4.0, 8.0) - 0.2693).abs() < 5e-5);
    // One-sided noise of the scales that the kernel states for a reading between 0 and 1, on a grid of a millionth.
    let noise = ThresholdNoise::calibrated(2_000_000, epsilon("0.5")).unwrap();
    let (b, c) = (noise.threshold.as_f64() / 1e6, noise.query.as_f64() / 1e6);
    for threshold in [0.0, 1.0, 5.0] {
        let below = |x: f64| if x <= 0.0 { f64::NEG_INFINITY } else { (-(-x / c).exp()).ln_1p() };
        let above = |x: f64| -(x.max(0.0) / c);
        let density = |rho: f64| if rho < 0.0 { f64::NEG_INFINITY } else { -rho / b - b.ln() };
        let probability =
            |values: &[f64]| log_probability(values, threshold, density, below, above, (0.0, 60.0 * b + 60.0));
        let built = (probability(&values(0.0)) - probability(&values(1.0))).abs();
        assert!(built <= amount, "{threshold}: {built}");
    }
}
