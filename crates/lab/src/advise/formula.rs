//! Errors by formula, where there is one: what the mechanisms' pages derive, averaged over a stream.
//!
//! | mechanism | what its error depends on |
//! | --- | --- |
//! | `lbu`, `uniform` | nothing but the settings |
//! | `lpu` | how evenly users are spread, through the spread of sampling |
//! | `lsp`, `sample` | how far the stream moves within a window |
//! | `laplace` | nothing but the settings |
//! | `clamped` | how near the numbers are to the ends of the domain |
//! | `rr`, `oue` | nothing, for the error rate; for distances, where in the domain the symbols are |
//!
//! Estimates of an oracle are taken for normal where an absolute error is asked for, which sums of many reports are;
//! noise of the other families has its own distribution.

use std::f64::consts::PI;

use tidegate_kernel::oracle::{OracleKind, Variance};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, SLOTS};

use crate::experiment::TrialSettings;
use crate::metrics::Metric;
use crate::stream::{CountStream, DataStream, NumberStream, SymbolStream, as_float};

/// Below so many reports a timestamp, how many there are is too much up to chance for a formula.
const FEWEST_REPORTS: f64 = 30.0;
/// Noise of a scale below so many steps of a grid is not taken for continuous.
const COARSEST: f64 = 20.0;
/// Distances between all pairs of more symbols are not added up.
const MOST_SYMBOLS: u32 = 1 << 12;

/// The error of a mechanism on a stream; `None` where there is no formula for it.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate_kernel::SeededRandom;
/// use tidegate_lab::advise::formula;
/// use tidegate_lab::experiment::TrialSettings;
/// use tidegate_lab::generate::Process;
/// use tidegate_lab::metrics::Metric;
///
/// let stream = Process::SIN.generate(200_000, 800, &mut SeededRandom::new(1))?.into();
/// let settings = TrialSettings::new("1".parse()?, NonZeroU64::new(20).ok_or("a window has a length")?);
/// let error = formula::error("lbu", &stream, &settings, Metric::Mse).ok_or("there is a formula")?;
/// assert!((error - 2.0e-3).abs() < 1e-4);
/// assert!(formula::error("lpa", &stream, &settings, Metric::Mse).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn error(mechanism: &str, stream: &DataStream, settings: &TrialSettings, metric: Metric) -> Option<f64> {
    match stream {
        DataStream::Counts(stream) => of_counts(mechanism, stream, settings, metric),
        DataStream::Numbers(stream) => of_numbers(mechanism, stream, settings, metric),
        DataStream::Symbols(stream) => of_symbols(mechanism, stream, settings, metric),
    }
}

/// What a mechanism that does not adapt does at a timestamp.
struct Plan {
    /// The noise of a frequency.
    noise: Noise,
    /// Whether it publishes once a window only, and repeats that.
    repeats: bool,
}

enum Noise {
    /// An oracle's, and that of asking some of the users only: `f (1 - f)` times a factor.
    Oracle { variance: Variance, sampling: f64 },
    /// Discrete Laplace noise of this scale on counts among so many users.
    Laplace { scale: f64, users: f64 },
}

impl Noise {
    /// The error of a release that estimates `then`, where the truth has moved by `drift` since.
    fn error(&self, then: f64, drift: f64, absolute: bool) -> f64 {
        match *self {
            Self::Oracle { variance, sampling } => {
                let variance = variance.at(then) + sampling * then * (1.0 - then);
                if absolute { folded_normal(drift, variance.sqrt()) } else { drift * drift + variance }
            }
            Self::Laplace { scale, users } => {
                let (absolute_noise, variance) = discrete_laplace(scale);
                if !absolute {
                    return drift * drift + variance / (users * users);
                }
                if drift == 0.0 {
                    return absolute_noise / users;
                }
                let scale = scale / users;
                drift.abs() + scale * (-drift.abs() / scale).exp()
            }
        }
    }
}

/// The mean of `|x|` for a normal `x`.
fn folded_normal(mean: f64, deviation: f64) -> f64 {
    if deviation == 0.0 {
        return mean.abs();
    }
    let ratio = mean / deviation;
    deviation * (2.0 / PI).sqrt() * (-ratio * ratio / 2.0).exp() + mean * erf(ratio / std::f64::consts::SQRT_2)
}

/// The error function, to seven digits (Abramowitz and Stegun 7.1.26).
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let polynomial =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (1.0 - polynomial * (-x * x).exp()).copysign(x)
}

/// The mean absolute value and the variance of discrete Laplace noise.
fn discrete_laplace(scale: f64) -> (f64, f64) {
    let q = (-1.0 / scale).exp();
    // 1 - q, which is small where the scale is large.
    let rest = -(-1.0 / scale).exp_m1();
    (2.0 * q / (rest * (1.0 + q)), 2.0 * q / (rest * rest))
}

fn of_counts(mechanism: &str, stream: &CountStream, settings: &TrialSettings, metric: Metric) -> Option<f64> {
    let (absolute, squared_users) = match metric {
        Metric::Mse => (false, false),
        Metric::Amre => (false, true),
        Metric::Mae => (true, false),
        _ => return None,
    };
    let domain = u32::try_from(stream.domain()).ok()?;
    let users = stream.population(0);
    // Users who come and go make errors that change with them.
    if (1..stream.length()).any(|timestamp| stream.population(timestamp) != users) {
        return None;
    }
    let plan = plan(mechanism, domain, users, settings)?;
    let rows: Vec<Vec<f64>> = (0..stream.length()).map(|timestamp| stream.frequencies(timestamp)).collect();
    let window = usize::try_from(settings.window.get()).unwrap_or(usize::MAX);
    let mut sum = 0.0;
    for (timestamp, now) in rows.iter().enumerate() {
        let then = if plan.repeats { &rows[timestamp - timestamp % window] } else { now };
        sum += now.iter().zip(then).map(|(now, then)| plan.noise.error(*then, then - now, absolute)).sum::<f64>();
    }
    let error = sum / as_float(rows.len() as u64) / f64::from(domain);
    Some(if squared_users { error * as_float(users).powi(2) } else { error })
}

fn plan(mechanism: &str, domain: u32, users: u64, settings: &TrialSettings) -> Option<Plan> {
    let TrialSettings { epsilon, window, .. } = settings;
    let all = as_float(users);
    let oracle = |epsilon: Epsilon, reports: f64| {
        let kind = settings.oracle.unwrap_or_else(|| OracleKind::best(domain, epsilon));
        let Variance { constant, slope } = kind.variance(domain, epsilon, 1);
        Variance { constant: constant / reports, slope: slope / reports }
    };
    let of_all = |epsilon| Noise::Oracle { variance: oracle(epsilon, all), sampling: 0.0 };
    let laplace = |epsilon: Epsilon| Noise::Laplace { scale: 1.0 / epsilon.as_f64(), users: all };
    let each = epsilon.divided_by(window.get());
    match mechanism {
        "lbu" => Some(Plan { noise: of_all(each?), repeats: false }),
        "lsp" => Some(Plan { noise: of_all(*epsilon), repeats: true }),
        "lpu" => {
            let slots = u64::from(SLOTS) / window.get();
            let reports = all * as_float(slots) / f64::from(SLOTS);
            let sampling = (all - reports) / (reports * (all - 1.0)).max(f64::MIN_POSITIVE);
            let noise = Noise::Oracle { variance: oracle(*epsilon, reports), sampling };
            (reports >= FEWEST_REPORTS).then_some(Plan { noise, repeats: false })
        }
        "uniform" => Some(Plan { noise: laplace(each?), repeats: false }),
        "sample" => Some(Plan { noise: laplace(*epsilon), repeats: true }),
        _ => None,
    }
}

fn of_numbers(mechanism: &str, stream: &NumberStream, settings: &TrialSettings, metric: Metric) -> Option<f64> {
    let absolute = match metric {
        Metric::Mse => false,
        Metric::Mae => true,
        _ => return None,
    };
    let grid = stream.grid();
    let sensitivity = match settings.protects {
        Protects::Reading => grid.width(),
        Protects::Contribution(steps) => steps.get().min(grid.width()),
    };
    let scale = as_float(sensitivity) / settings.epsilon.as_f64();
    match (mechanism, settings.within_domain) {
        ("laplace", false) => {
            let (absolute_noise, variance) = discrete_laplace(scale);
            Some(if absolute { absolute_noise * grid.step() } else { variance * grid.step().powi(2) })
        }
        ("clamped", _) | ("laplace", true) if scale >= COARSEST => {
            let scale = scale * grid.step();
            // What noise to one side adds to the error, where the end of the domain is so far.
            let side = |distance: f64| {
                let (far, left) = (distance / scale, (-distance / scale).exp());
                if absolute { scale / 2.0 * (1.0 - left) } else { scale * scale * (1.0 - left * (1.0 + far)) }
            };
            let errors = stream.values().iter().map(|value| side(value - grid.low()) + side(grid.high() - value));
            Some(errors.sum::<f64>() / as_float(stream.values().len() as u64))
        }
        _ => None,
    }
}

fn of_symbols(mechanism: &str, stream: &SymbolStream, settings: &TrialSettings, metric: Metric) -> Option<f64> {
    let (domain, space) = (stream.domain(), stream.space());
    let (symbols, ratio) = (f64::from(domain), settings.epsilon.as_f64().exp());
    let right = match mechanism {
        "rr" => ratio / (ratio + symbols - 1.0),
        // The own bit is set with probability 1/2, any other with q. Of the symbols whose bits are set one is drawn, or
        // any where none is: E[1/(1 + K)] = (1 - (1-q)^d) / (d q) for K other bits.
        "oue" => {
            let other = 1.0 / (ratio + 1.0);
            let none = (1.0 - other).powf(symbols - 1.0);
            0.5 * (1.0 - none * (1.0 - other)) / (symbols * other) + 0.5 * none / symbols
        }
        _ => return None,
    };
    let wrong = 1.0 - right;
    let power = match metric {
        Metric::ErrorRate => return Some(wrong),
        Metric::Mse => 2,
        Metric::Mae | Metric::Euclidean => 1,
        _ => return None,
    };
    if domain > MOST_SYMBOLS {
        return None;
    }
    // All other symbols are equally likely.
    let distance = |symbol: u32| {
        let sum: f64 = (0..domain).map(|other| space.distance(symbol, other).powi(power)).sum();
        sum / (symbols - 1.0)
    };
    let distances: Vec<f64> = (0..domain).map(distance).collect();
    let of_user = |sequence: &Vec<u32>| {
        sequence.iter().map(|symbol| distances[*symbol as usize]).sum::<f64>() / as_float(sequence.len() as u64)
    };
    let users = stream.sequences();
    Some(wrong * users.iter().map(of_user).sum::<f64>() / as_float(users.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_and_the_folded_normal_are_right() {
        for (x, expected) in [(0.0, 0.0), (0.5, 0.520_499_877_8), (-1.0, -0.842_700_792_9), (3.0, 0.999_977_909_5)] {
            assert!((erf(x) - expected).abs() < 2e-7, "{x}");
        }
        assert!((folded_normal(0.0, 2.0) - 2.0 * (2.0 / PI).sqrt()).abs() < 1e-12);
        assert!((folded_normal(10.0, 0.1) - 10.0).abs() < 1e-6);
        assert!((folded_normal(-3.0, 0.0) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn discrete_laplace_noise_of_a_large_scale_is_nearly_continuous() {
        let (absolute, variance) = discrete_laplace(1000.0);
        assert!((absolute / 1000.0 - 1.0).abs() < 1e-6 && (variance / 2e6 - 1.0).abs() < 1e-6);
        let q = (-1.0_f64).exp();
        let (absolute, variance) = discrete_laplace(1.0);
        let sums = (1..200).map(f64::from).map(|n| (n, 2.0 * (1.0 - q) / (1.0 + q) * q.powf(n)));
        let (first, second) = sums.fold((0.0, 0.0), |(a, b), (n, p)| (a + n * p, b + n * n * p));
        assert!((absolute - first).abs() < 1e-12 && (variance - second).abs() < 1e-12);
    }
}
