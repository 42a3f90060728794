//! Confidence bounds for a probability from how often something happened: Clopper and Pearson's, which are never too
//! narrow.

use statrs::function::factorial::ln_factorial;

/// The lowest and the highest probability that are still plausible after `hits` of `trials`.
///
/// Each side is missed with a probability of at most `error_each`, whatever the true probability is. The bounds are
/// those of Clopper and Pearson, found by bisection on the tails of the binomial distribution and rounded outwards.
///
/// ```
/// use tidegate_lab::audit::empirical::clopper_pearson;
///
/// let (low, high) = clopper_pearson(0, 1000, 0.0005);
/// assert_eq!(low, 0.0);
/// assert!((high - (1.0 - 0.0005_f64.powf(0.001))).abs() < 1e-6); // (1 - p)^1000 = 0.0005
/// ```
pub fn clopper_pearson(hits: u64, trials: u64, error_each: f64) -> (f64, f64) {
    let hits = hits.min(trials);
    let low = if hits == 0 { 0.0 } else { lower(hits, trials, error_each) };
    let high = if hits == trials { 1.0 } else { 1.0 - lower(trials - hits, trials, error_each) };
    (low, high)
}

/// Steps of bisection: finer than a float near 1.
const STEPS: u32 = 60;

/// What rounding may have taken from a tail, relatively, and more: logarithms of factorials are off by a few 1e-6 at
/// 10^8 trials.
const ROUNDING: f64 = 1e-5;

/// The probability at which `hits` or more are just as likely as `error`: below it, they are less likely.
fn lower(hits: u64, trials: u64, error: f64) -> f64 {
    let (mut below, mut above) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(below, above);
        if upper_tail(hits, trials, middle) * (1.0 + ROUNDING) <= error { below = middle } else { above = middle }
    }
    below
}

/// The probability of `hits` or more.
#[allow(clippy::cast_precision_loss)] // runs are far fewer than 2^53
fn upper_tail(hits: u64, trials: u64, probability: f64) -> f64 {
    if probability <= 0.0 || probability >= 1.0 {
        return if probability <= 0.0 { 0.0 } else { 1.0 };
    }
    // Beyond the mean the terms fall; before it, the other tail is the smaller one.
    if hits as f64 > trials as f64 * probability {
        sum_away(hits, trials, probability)
    } else {
        1.0 - sum_away(trials - hits + 1, trials, 1.0 - probability)
    }
}

/// The probability of `hits` or more, where those are more than expected: terms from the largest on, until they no
/// longer count.
#[allow(clippy::cast_precision_loss)]
fn sum_away(hits: u64, trials: u64, probability: f64) -> f64 {
    let choose = ln_factorial(trials) - ln_factorial(hits) - ln_factorial(trials - hits);
    let mut term = (choose + hits as f64 * probability.ln() + (trials - hits) as f64 * (-probability).ln_1p()).exp();
    let odds = probability / (1.0 - probability);
    let mut sum = 0.0;
    for count in hits..=trials {
        sum += term;
        if term <= sum * 1e-12 {
            break;
        }
        term *= (trials - count) as f64 / (count + 1) as f64 * odds;
    }
    sum
}

/// Wilson's bounds at a number of standard deviations: nearly the same, at once, and no promise. For choosing, not for
/// claims.
pub(super) fn wilson(hits: f64, trials: f64, deviations: f64) -> (f64, f64) {
    let (share, z) = (hits / trials, deviations * deviations / trials);
    let middle = share + z / 2.0;
    let width = (z * (share * (1.0 - share) + z / 4.0)).sqrt();
    (((middle - width) / (1.0 + z)).max(0.0), ((middle + width) / (1.0 + z)).min(1.0))
}
