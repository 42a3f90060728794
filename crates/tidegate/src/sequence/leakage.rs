//! Leakage of a sequence of releases: an account of spends, and an exact calculator for short sequences.
//!
//! Of releases through epsilon-SIP channels, with beliefs that follow from what was released:
//!
//! - *linear*: the whole sequence is SIP for the sum of the epsilons, for whoever knows the model, and nobody else;
//! - *local*: it is LDP for twice the sum, whoever knows what; the model need not be right;
//! - *pointwise*: the belief in one sequence of symbols `x` moves little, with probability `1 - delta` over the answers
//!   and at all times at once. How steps are taken may depend on earlier answers. With `V = sum eps²` and
//!   `S = sqrt((V + 1)(2 ln(1/delta) + ln(V + 1)))`, in logarithms:
//!   - the belief in any `x` fixed beforehand grows by at most `sum eps tanh(eps/2) + S`, whichever sequence is true;
//!   - the belief in the user's true sequence falls by at most `S`;
//!   - the belief in any `x` fixed beforehand falls by at most `3/2 V + S`, whichever sequence is true.
//!
//! No such bound holds for all `x` at once: for a fair bit released 1,000 times at epsilon 0.1, *some* sequence always
//! gains 90.9, since the answers name one. So there is no guarantee of the form "with probability `1 - delta` no
//! sequence gains more than".

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, UNITS_PER_EPSILON};

use super::model::Model;

/// Spends so far, in total and in the present period, in units of SIP. The loss of local privacy is at most twice that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leakage {
    /// Length of a period, in timestamps.
    period: Option<NonZeroU64>,
    steps: u64,
    /// Sum of all epsilons, in units.
    units: u64,
    /// Sums of `eps tanh(eps/2)` and of the squares.
    drift: f64,
    squares: f64,
    last: Option<(u64, Epsilon)>,
    /// Sums of the period of the last step.
    period_units: u64,
}

/// Bounds on the change of the belief in one sequence, in logarithms.
///
/// For one sequence, all bounds that apply hold jointly with probability `1 - delta` over the answers. A sequence
/// chosen after the answers is not covered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pointwise {
    /// Upper bound for any sequence fixed beforehand, whichever is true.
    pub above: f64,
    /// Lower bound for the user's **true** sequence only. Beliefs in other sequences fall further.
    pub below_true: f64,
    /// Lower bound for any sequence fixed beforehand, whichever is true.
    pub below_any: f64,
}

/// An invalid failure probability.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("delta {given} is not between 0 and 1")]
pub struct BadDelta {
    given: f64,
}

impl Leakage {
    /// Creates an empty account. Periods start at multiples of `period`.
    pub const fn new(period: Option<NonZeroU64>) -> Self {
        Self { period, steps: 0, units: 0, drift: 0.0, squares: 0.0, last: None, period_units: 0 }
    }

    /// Records a release through an epsilon-SIP channel.
    pub fn note(&mut self, timestamp: u64, epsilon: Epsilon) {
        let number = |timestamp: u64| self.period.map_or(0, |period| timestamp / period.get());
        if self.last.is_some_and(|(last, _)| number(last) != number(timestamp)) {
            self.period_units = 0;
        }
        let eps = epsilon.as_f64();
        self.steps += 1;
        self.units = self.units.saturating_add(epsilon.units());
        self.period_units = self.period_units.saturating_add(epsilon.units());
        self.drift += eps * (eps / 2.0).tanh();
        self.squares += eps * eps;
        self.last = Some((timestamp, epsilon));
    }

    /// Whether it is a valid account of the same kind.
    pub(super) fn fits(&self, fresh: &Self) -> bool {
        let sums = [self.drift, self.squares].iter().all(|sum| sum.is_finite() && *sum >= 0.0);
        self.period == fresh.period && sums && self.period_units <= self.units
    }

    /// Number of releases charged.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Timestamp and epsilon of the last release.
    pub const fn last(&self) -> Option<(u64, Epsilon)> {
        self.last
    }

    /// SIP of all releases: the sum of the epsilons.
    pub fn total(&self) -> f64 {
        in_epsilons(self.units)
    }

    /// SIP of the present period: the sum of its epsilons.
    pub fn in_period(&self) -> f64 {
        in_epsilons(self.period_units)
    }

    /// Upper bound of the loss of local differential privacy for any model: twice the sum.
    pub fn local_bound(&self) -> f64 {
        2.0 * self.total()
    }

    /// Bounds on the change of the belief in one sequence, with failure probability `delta`; none exceeds the sum. See
    /// [`Pointwise`].
    ///
    /// They hold at all times jointly (time-uniform), also if steps are skipped or stopped depending on earlier
    /// answers.
    ///
    /// # Errors
    /// A `delta` that is not between 0 and 1.
    pub fn pointwise(&self, delta: f64) -> Result<Pointwise, BadDelta> {
        if !(delta > 0.0 && delta < 1.0) {
            return Err(BadDelta { given: delta });
        }
        let variance = self.squares + MIXTURE;
        let spread = (variance * (2.0 * (1.0 / delta).ln() + (variance / MIXTURE).ln())).sqrt();
        let total = self.total();
        Ok(Pointwise {
            above: (self.drift + spread).min(total),
            below_true: (-spread).max(-total),
            below_any: (-FALL_PER_SQUARE * self.squares - spread).max(-total),
        })
    }
}

/// Largest fall of a step's expected logarithm for a false sequence, in units of its squared epsilon.
const FALL_PER_SQUARE: f64 = 1.5;

/// The inverse variance of the normal distribution by which bounds for all slopes are mixed into one for all times. It
/// has to be fixed before anything is released. The bound is closest where the sum of squares is about `2 ln(1/delta)`
/// times this: with one, at 10 to 30 for the usual `delta`, which is about where it first falls well below the sum of
/// the epsilons; before, the sum is the better bound, and long after, only a logarithm is lost.
const MIXTURE: f64 = 1.0;

#[allow(clippy::cast_precision_loss)] // for people to read
fn in_epsilons(units: u64) -> f64 {
    units as f64 / UNITS_PER_EPSILON as f64
}

/// The exact leakage of a mechanism, from the definitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    /// Sequence information leakage: the largest `|ln Pr(x|y)/Pr(x)|` over all sequences of symbols that are possible
    /// and all sequences of outputs.
    pub sequence: f64,
    /// For each step its instantaneous information leakage (of a batch, its batched information leakage): the largest
    /// `|ln Pr(x|y_1..k)/Pr(x|y_1..k-1)|`, over all that was released before.
    pub steps: Vec<f64>,
    /// The loss of local differential privacy: the largest `ln Pr(y|x)/Pr(y|x')` over all sequences of symbols,
    /// possible or not. Infinite where some output excludes some symbols.
    pub local: f64,
}

/// The most pairs of a sequence of symbols and one of outputs that are enumerated.
pub const MAX_PAIRS_OF_SEQUENCES: u64 = 1 << 26;

/// Why the exact leakage was not computed.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExactError {
    #[error(
        "{steps} steps of {batch} symbols each over a domain of {domain} have {domain}^{} pairs of sequences, \
         more than the {MAX_PAIRS_OF_SEQUENCES} that are enumerated",
        2 * u64::from(*.batch) * u64::from(*.steps)
    )]
    TooLarge { domain: u32, batch: u32, steps: u32 },
    #[error("a sequence has at least one step, of at least one symbol")]
    Nothing,
    #[error("after {released} releases the mechanism gave no channel: {problem}")]
    NoChannel { released: usize, problem: String },
}

/// The exact leakage of a mechanism on sequences of `steps` symbols (or batches) that the model produces, by
/// enumeration of all symbols and all outputs.
///
/// `mechanism` is told what was released before and the distribution of the present symbol given that, and answers with
/// the channel that it would use: for each symbol, the probability of each output. For batches of `batch` symbols, a
/// batch stands for a symbol: number `x_1 d^(batch-1) + ... + x_batch`.
///
/// ```
/// use tidegate::sequence::hamming;
/// use tidegate::sequence::leakage::exact;
/// use tidegate::sequence::model::Model;
///
/// let model = Model::dense(vec![0.5, 0.5], vec![0.9, 0.1, 0.2, 0.8])?;
/// let epsilon = "0.5".parse()?;
/// let leakage = exact(&model, 1, 4, |_, belief| hamming::channel(belief, epsilon).map(|channel| channel.dense()))?;
/// assert!(leakage.steps.iter().all(|step| *step < 0.5 + 1e-9));
/// assert!(leakage.sequence < 4.0 * 0.5 + 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn exact<E: std::fmt::Display>(
    model: &Model,
    batch: u32,
    steps: u32,
    mechanism: impl FnMut(&[u32], &[f64]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Exact, ExactError> {
    if batch == 0 || steps == 0 {
        return Err(ExactError::Nothing);
    }
    let too_large = ExactError::TooLarge { domain: model.domain(), batch, steps };
    let power = batch.checked_mul(steps).and_then(|symbols| symbols.checked_mul(2)).ok_or(too_large.clone())?;
    let pairs = u64::from(model.domain()).checked_pow(power);
    if pairs.is_none_or(|pairs| pairs > MAX_PAIRS_OF_SEQUENCES) {
        return Err(too_large);
    }
    let alphabet = model.domain().pow(batch);
    let leakage = Exact { sequence: 0.0, steps: vec![0.0; steps as usize], local: 0.0 };
    let mut walk = Walk { model, batch, alphabet, mechanism, history: Vec::new(), leakage };
    walk.descend(&[Path { before: None, present: None, prior: 1.0, likelihood: 1.0 }])?;
    Ok(walk.leakage)
}

/// One sequence of symbols: its end, how likely it is, and how likely it makes what was released.
#[derive(Clone, Copy)]
struct Path {
    before: Option<u32>,
    present: Option<u32>,
    prior: f64,
    likelihood: f64,
}

struct Walk<'a, M> {
    model: &'a Model,
    batch: u32,
    alphabet: u32,
    mechanism: M,
    history: Vec<u32>,
    leakage: Exact,
}

impl<E: std::fmt::Display, M: FnMut(&[u32], &[f64]) -> Result<Vec<Vec<f64>>, E>> Walk<'_, M> {
    /// All continuations of what was released so far.
    fn descend(&mut self, paths: &[Path]) -> Result<(), ExactError> {
        let step = self.history.len();
        if step == self.leakage.steps.len() {
            self.finish(paths);
            return Ok(());
        }
        let longer: Vec<(usize, Path)> = paths.iter().flat_map(|path| self.continuations(*path)).collect();
        let seen: f64 = paths.iter().map(|path| path.prior * path.likelihood).sum();
        let mut belief = vec![0.0; self.alphabet as usize];
        for (symbol, path) in &longer {
            belief[*symbol] += path.prior * path.likelihood / seen;
        }
        let matrix = self.ask(&belief)?;
        let outputs = matrix.first().map_or(0, Vec::len);
        for output in 0..outputs {
            let expected: f64 = belief.iter().zip(&matrix).map(|(weight, row)| weight * row[output]).sum();
            if expected <= 0.0 {
                if matrix.iter().any(|row| row[output] > 0.0) {
                    self.leakage.local = f64::INFINITY;
                }
                continue;
            }
            for (weight, row) in belief.iter().zip(&matrix) {
                if *weight > 0.0 {
                    let change = (row[output] / expected).ln().abs();
                    self.leakage.steps[step] = self.leakage.steps[step].max(change);
                }
            }
            let released = |(symbol, path): &(usize, Path)| Path {
                likelihood: path.likelihood * matrix[*symbol][output],
                ..*path
            };
            let next: Vec<Path> = longer.iter().map(released).collect();
            self.history.push(u32::try_from(output).unwrap_or(u32::MAX));
            self.descend(&next)?;
            self.history.pop();
        }
        Ok(())
    }

    /// The longer paths, by one batch each, with the number of the batch.
    fn continuations(&self, path: Path) -> Vec<(usize, Path)> {
        let mut paths = vec![(0_usize, path)];
        for _ in 0..self.batch {
            let longer = |(number, path): (usize, Path)| {
                (0..self.model.domain()).map(move |next| {
                    let share = match path.present {
                        None => self.model.prior()[next as usize],
                        Some(present) => self.model.transition(path.before, present, next),
                    };
                    let path = Path { before: path.present, present: Some(next), prior: path.prior * share, ..path };
                    (number * self.model.domain() as usize + next as usize, path)
                })
            };
            paths = paths.into_iter().flat_map(longer).collect();
        }
        paths
    }

    fn ask(&mut self, belief: &[f64]) -> Result<Vec<Vec<f64>>, ExactError> {
        let released = self.history.len();
        let no_channel = |problem: String| ExactError::NoChannel { released, problem };
        let matrix = (self.mechanism)(&self.history, belief).map_err(|error| no_channel(error.to_string()))?;
        let outputs = matrix.first().map_or(0, Vec::len);
        if matrix.len() != belief.len() || outputs > belief.len() || matrix.iter().any(|row| row.len() != outputs) {
            let expected = belief.len();
            return Err(no_channel(format!("{expected} rows of at most {expected} numbers, all as many, are needed")));
        }
        let is_distribution = |row: &Vec<f64>| {
            row.iter().all(|p| *p >= 0.0) && (row.iter().sum::<f64>() - 1.0).abs() < super::channel::SUM_TOLERANCE
        };
        match matrix.iter().position(|row| !is_distribution(row)) {
            Some(row) => Err(no_channel(format!("row {row} is no probability distribution"))),
            None => Ok(matrix),
        }
    }

    /// Compares whole sequences.
    fn finish(&mut self, paths: &[Path]) {
        let expected: f64 = paths.iter().map(|path| path.prior * path.likelihood).sum();
        let (mut most, mut least) = (0.0_f64, f64::INFINITY);
        for path in paths {
            if path.prior > 0.0 {
                self.leakage.sequence = self.leakage.sequence.max((path.likelihood / expected).ln().abs());
            }
            (most, least) = (most.max(path.likelihood), least.min(path.likelihood));
        }
        self.leakage.local = self.leakage.local.max((most / least).ln());
    }
}
