//! [`Channel`]: a randomised answer to a symbol, in factored form.
//!
//! With probability `independent` (`e^-epsilon`) the answer is drawn from the output distribution `q`. Otherwise the
//! symbol chooses a cell by its mixture `m`, and the cell an output by its row `r`:
//!
//! ```text
//! a(y|x) = l q(y) + (1 - l) pi(y|x),   pi(y|x) = sum_c m(c|x) r(y|c),   l = e^-epsilon
//! ```
//!
//! Every channel that is epsilon-SIP for a belief `beta` has this form, and a channel of this form is epsilon-SIP
//! exactly if `sum_x beta(x) pi(y|x) = q(y)` and `pi(y|x) <= (e^epsilon + 1) q(y)`. Optimal channels have few cells and
//! few outputs, about `e^epsilon + 1`, however many symbols there are; so a channel over `d` symbols costs `d` small
//! integers and little more. Only [`Channel::dense`] has `d` times `d` entries.
//!
//! Everything here is public: it follows from earlier releases. The kernel answers symbols, with integer weights.

use tidegate_kernel::primitives::ChannelParts;

/// Parts of a channel; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Probability `l` of an answer independent of the symbol, strictly between zero and one.
    pub independent: f64,
    /// Possible answers, ascending, with their positive probability `q`.
    pub outputs: Vec<(u32, f64)>,
    /// Row of each cell: pairs of an index in `outputs` and a probability, each index at most once.
    pub rows: Vec<Vec<(u32, f64)>>,
    /// Mixtures over cells: pairs of a cell and its weight, each cell at most once. Symbols may share a mixture.
    pub mixtures: Vec<Vec<(u32, f64)>>,
    /// Mixture of each symbol.
    pub mixture_of: Vec<u32>,
}

/// Tolerance of a sum of probabilities, before they are normalised.
pub const SUM_TOLERANCE: f64 = 1e-9;

/// Error of a channel, or of its parts.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelMatrixError {
    #[error("the independent share {given} is not between zero and one")]
    Independent { given: f64 },
    #[error("a channel has at least one {what}")]
    Empty { what: &'static str },
    #[error("{what} {given} is not below {limit}")]
    Index { what: &'static str, given: u32, limit: usize },
    #[error("{what} {given} appears twice or, among outputs, out of order")]
    Repeated { what: &'static str, given: u32 },
    #[error("{given} is not a probability of {what}")]
    Probability { what: &'static str, given: f64 },
    #[error("the probabilities of {what} sum to {given}, not to 1 (within {SUM_TOLERANCE})")]
    Sum { what: &'static str, given: f64 },
    #[error("a belief over {given} symbols does not fit a channel over {expected}")]
    Belief { given: usize, expected: usize },
}

/// A factored channel; see the [module](self).
///
/// ```
/// use tidegate_sequence::channel::{Channel, Parts};
///
/// // Two symbols, each its own cell, belief (0.3, 0.7), epsilon 1: the symbol itself, or one drawn from the belief.
/// let parts = Parts {
///     independent: (-1.0_f64).exp(),
///     outputs: vec![(0, 0.3), (1, 0.7)],
///     rows: vec![vec![(0, 1.0)], vec![(1, 1.0)]],
///     mixtures: vec![vec![(0, 1.0)], vec![(1, 1.0)]],
///     mixture_of: vec![0, 1],
/// };
/// let channel = Channel::new(parts)?;
/// assert!((channel.probability(0, 0) - 0.742_484_391).abs() < 1e-9);
/// let leakage = channel.leakage(&[0.3, 0.7])?;
/// assert!(leakage.largest() <= 1.0 + 1e-12);
/// # Ok::<(), tidegate_sequence::channel::ChannelMatrixError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    independent: f64,
    outputs: Vec<(u32, f64)>,
    rows: Vec<Vec<(u32, f64)>>,
    mixtures: Vec<Vec<(u32, f64)>>,
    mixture_of: Vec<u32>,
    /// For each mixture, `pi`: ascending indices of outputs, and probabilities.
    mixed: Vec<Vec<(u32, f64)>>,
}

/// Leakage of a channel to a belief: the extremes of `ln a(y|x)/q(y)` over possible symbols and outputs, where `q` is
/// the distribution of the output under the belief.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sides {
    /// Largest: how much likelier an output can make a symbol.
    pub above: f64,
    /// Least, at most zero. Minus infinity if an output excludes a symbol.
    pub below: f64,
}

impl Sides {
    /// Larger absolute value: the epsilon for which the channel is SIP.
    pub fn largest(&self) -> f64 {
        self.above.max(-self.below)
    }
}

impl Channel {
    /// Creates a channel from its parts. Sums within [`SUM_TOLERANCE`] of one are normalised, and zeros in rows and
    /// mixtures dropped; all else is an error.
    ///
    /// Privacy depends on a belief and is not checked: see [`Channel::leakage`] and [`Channel::excess`].
    pub fn new(parts: Parts) -> Result<Self, ChannelMatrixError> {
        let Parts { independent, mut outputs, mut rows, mut mixtures, mixture_of } = parts;
        if !(independent > 0.0 && independent < 1.0) {
            return Err(ChannelMatrixError::Independent { given: independent });
        }
        let domain = mixture_of.len();
        if domain == 0 {
            return Err(ChannelMatrixError::Empty { what: "symbol" });
        }
        check_outputs(&outputs, domain)?;
        normalise(&mut outputs, "outputs")?;
        check_lists(&mut rows, outputs.len(), "a row's output")?;
        check_lists(&mut mixtures, rows.len(), "a mixture's cell")?;
        if let Some(&given) = mixture_of.iter().find(|&&mixture| mixture as usize >= mixtures.len()) {
            return Err(ChannelMatrixError::Index { what: "a symbol's mixture", given, limit: mixtures.len() });
        }
        let mut sums = vec![0.0; outputs.len()];
        let mixed = mixtures.iter().map(|mixture| mix(mixture, &rows, &mut sums)).collect();
        Ok(Self { independent, outputs, rows, mixtures, mixture_of, mixed })
    }

    /// Number of symbols.
    pub fn domain(&self) -> usize {
        self.mixture_of.len()
    }

    /// Probability of an answer independent of the symbol.
    pub const fn independent(&self) -> f64 {
        self.independent
    }

    /// Possible answers, ascending, with their probability if independent.
    pub fn outputs(&self) -> &[(u32, f64)] {
        &self.outputs
    }

    /// Row of each cell: indices in [`Channel::outputs`] and probabilities.
    pub fn rows(&self) -> &[Vec<(u32, f64)>] {
        &self.rows
    }

    /// Mixtures: cells and weights.
    pub fn mixtures(&self) -> &[Vec<(u32, f64)>] {
        &self.mixtures
    }

    /// Mixture of each symbol.
    pub fn mixture_of(&self) -> &[u32] {
        &self.mixture_of
    }

    /// The channel in the form that the kernel checks and samples.
    pub fn kernel_parts(&self) -> ChannelParts<'_> {
        ChannelParts {
            outputs: &self.outputs,
            rows: &self.rows,
            mixtures: &self.mixtures,
            mixture_of: &self.mixture_of,
        }
    }

    /// Index of an output, if it occurs.
    fn position(&self, output: u32) -> Option<usize> {
        self.outputs.binary_search_by_key(&output, |(symbol, _)| *symbol).ok()
    }

    /// `a(y|x)`, for a mixture and an index of an output.
    fn probability_at(&self, mixture: usize, position: usize) -> f64 {
        let pi = &self.mixed[mixture];
        let own = pi.binary_search_by_key(&position, |(at, _)| *at as usize).map_or(0.0, |found| pi[found].1);
        self.independent * self.outputs[position].1 + (1.0 - self.independent) * own
    }

    /// Probability `a(y|x)` of answering `output` for `symbol`; zero outside the domain.
    pub fn probability(&self, symbol: u32, output: u32) -> f64 {
        match (self.mixture_of.get(symbol as usize), self.position(output)) {
            (Some(&mixture), Some(position)) => self.probability_at(mixture as usize, position),
            _ => 0.0,
        }
    }

    /// The whole matrix `a`, one row for each symbol.
    pub fn dense(&self) -> Vec<Vec<f64>> {
        let by_mixture: Vec<Vec<f64>> = (0..self.mixtures.len())
            .map(|mixture| {
                let mut row = vec![0.0; self.domain()];
                for (position, &(output, _)) in self.outputs.iter().enumerate() {
                    row[output as usize] = self.probability_at(mixture, position);
                }
                row
            })
            .collect();
        self.mixture_of.iter().map(|&mixture| by_mixture[mixture as usize].clone()).collect()
    }

    /// Likelihood `a(y|.)` of each symbol given the answer, in O(d). All zero for an answer that does not occur.
    pub fn likelihood(&self, output: u32) -> Vec<f64> {
        let by_mixture = self.likelihood_of_mixtures(output);
        self.mixture_of.iter().map(|&mixture| by_mixture[mixture as usize]).collect()
    }

    /// Likelihood of each mixture given the answer.
    pub(crate) fn likelihood_of_mixtures(&self, output: u32) -> Vec<f64> {
        let position = self.position(output);
        let of = |mixture| position.map_or(0.0, |position| self.probability_at(mixture, position));
        (0..self.mixtures.len()).map(of).collect()
    }

    /// Weight of each mixture under a belief, which need not be normalised.
    fn weights(&self, belief: &[f64]) -> Result<Vec<f64>, ChannelMatrixError> {
        if belief.len() != self.domain() {
            return Err(ChannelMatrixError::Belief { given: belief.len(), expected: self.domain() });
        }
        let mut weights = vec![0.0; self.mixtures.len()];
        for (&mixture, &weight) in self.mixture_of.iter().zip(belief) {
            weights[mixture as usize] += weight;
        }
        if let Some(&given) = belief.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
            return Err(ChannelMatrixError::Probability { what: "a belief", given });
        }
        let total: f64 = weights.iter().sum();
        if (total - 1.0).abs() > SUM_TOLERANCE {
            return Err(ChannelMatrixError::Sum { what: "a belief", given: total });
        }
        weights.iter_mut().for_each(|weight| *weight /= total);
        Ok(weights)
    }

    /// Probability of each output under a belief, in the order of [`Channel::outputs`].
    pub fn marginal(&self, belief: &[f64]) -> Result<Vec<f64>, ChannelMatrixError> {
        Ok(self.marginal_of(&self.weights(belief)?))
    }

    fn marginal_of(&self, weights: &[f64]) -> Vec<f64> {
        let mut marginal: Vec<f64> = self.outputs.iter().map(|(_, q)| self.independent * q).collect();
        for (pi, weight) in self.mixed.iter().zip(weights) {
            for &(position, probability) in pi {
                marginal[position as usize] += (1.0 - self.independent) * weight * probability;
            }
        }
        marginal
    }

    /// Largest and least `a(y|x)` of each output over the counted mixtures, in O(entries). A row without an output has
    /// it with the least possible probability, `l q(y)`.
    fn extremes(&self, counted: impl Fn(usize) -> bool) -> Vec<(f64, f64)> {
        let mut named = vec![0_usize; self.outputs.len()];
        let mut extremes = vec![(f64::NEG_INFINITY, f64::INFINITY); self.outputs.len()];
        let mut mixtures = 0;
        for (_, pi) in self.mixed.iter().enumerate().filter(|(mixture, _)| counted(*mixture)) {
            mixtures += 1;
            for &(position, probability) in pi {
                let position = position as usize;
                let a = self.independent * self.outputs[position].1 + (1.0 - self.independent) * probability;
                let (most, least) = extremes[position];
                extremes[position] = (most.max(a), least.min(a));
                named[position] += 1;
            }
        }
        for (((most, least), named), (_, q)) in extremes.iter_mut().zip(named).zip(&self.outputs) {
            if named < mixtures {
                let a = self.independent * q;
                (*most, *least) = (most.max(a), least.min(a));
            }
        }
        extremes
    }

    /// Leakage to this belief, on both sides, by definition.
    pub fn leakage(&self, belief: &[f64]) -> Result<Sides, ChannelMatrixError> {
        let weights = self.weights(belief)?;
        let marginal = self.marginal_of(&weights);
        let extremes = self.extremes(|mixture| weights[mixture] > 0.0);
        let mut sides = Sides { above: 0.0, below: 0.0 };
        for ((most, least), q) in extremes.into_iter().zip(marginal) {
            sides.above = sides.above.max((most / q).ln());
            sides.below = sides.below.min((least / q).ln());
        }
        Ok(sides)
    }

    /// Loss of local differential privacy: the largest `ln a(y|x)/a(y|x')` over all symbols.
    pub fn ldp_loss(&self) -> f64 {
        let mut used = vec![false; self.mixtures.len()];
        self.mixture_of.iter().for_each(|&mixture| used[mixture as usize] = true);
        let extremes = self.extremes(|mixture| used[mixture]);
        extremes.into_iter().map(|(most, least)| (most / least).ln()).fold(0.0, f64::max)
    }

    /// Violation of epsilon-SIP for a belief: the larger of `max_y |sum_x beta(x) pi(y|x) - q(y)|` and `max (r(y|c) - K
    /// q(y))`, with `K = 1/l + 1`. Zero up to rounding for a valid channel.
    pub fn excess(&self, belief: &[f64]) -> Result<f64, ChannelMatrixError> {
        let marginal = self.marginal(belief)?;
        let off = marginal.iter().zip(&self.outputs).map(|(marginal, (_, q))| (marginal - q).abs());
        let balance = off.fold(0.0, f64::max) / (1.0 - self.independent);
        let cap = 1.0 / self.independent + 1.0;
        let above = self.rows.iter().flatten().map(|&(position, r)| r - cap * self.outputs[position as usize].1);
        Ok(above.fold(balance, f64::max))
    }

    /// Expected distance between symbol and answer under a belief.
    pub fn expected_cost(&self, belief: &[f64], distance: impl Fn(u32, u32) -> f64) -> Result<f64, ChannelMatrixError> {
        self.weights(belief)?;
        let total: f64 = belief.iter().sum();
        let mut cost = 0.0;
        for ((symbol, &mixture), weight) in (0_u32..).zip(&self.mixture_of).zip(belief) {
            if *weight > 0.0 {
                let independent: f64 = self.outputs.iter().map(|&(output, q)| q * distance(symbol, output)).sum();
                let output_at = |position: u32| self.outputs[position as usize].0;
                let pi = &self.mixed[mixture as usize];
                let own: f64 = pi.iter().map(|&(position, p)| p * distance(symbol, output_at(position))).sum();
                cost += weight * (self.independent * independent + (1.0 - self.independent) * own);
            }
        }
        Ok(cost / total)
    }
}

fn check_outputs(outputs: &[(u32, f64)], domain: usize) -> Result<(), ChannelMatrixError> {
    if outputs.is_empty() {
        return Err(ChannelMatrixError::Empty { what: "output" });
    }
    for pair in outputs.windows(2) {
        if pair[0].0 >= pair[1].0 {
            return Err(ChannelMatrixError::Repeated { what: "output", given: pair[1].0 });
        }
    }
    for &(given, q) in outputs {
        if given as usize >= domain {
            return Err(ChannelMatrixError::Index { what: "output", given, limit: domain });
        }
        if !(q.is_finite() && q > 0.0) {
            return Err(ChannelMatrixError::Probability { what: "an output", given: q });
        }
    }
    Ok(())
}

/// Validates, sorts and normalises sparse distributions, without zeros.
fn check_lists(lists: &mut [Vec<(u32, f64)>], limit: usize, what: &'static str) -> Result<(), ChannelMatrixError> {
    for list in lists {
        for &(given, probability) in list.iter() {
            if given as usize >= limit {
                return Err(ChannelMatrixError::Index { what, given, limit });
            }
            if !(probability.is_finite() && probability >= 0.0) {
                return Err(ChannelMatrixError::Probability { what, given: probability });
            }
        }
        list.sort_unstable_by_key(|(index, _)| *index);
        if let Some(pair) = list.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ChannelMatrixError::Repeated { what, given: pair[0].0 });
        }
        list.retain(|(_, probability)| *probability > 0.0);
        normalise(list, what)?;
    }
    Ok(())
}

fn normalise(list: &mut [(u32, f64)], what: &'static str) -> Result<(), ChannelMatrixError> {
    let sum: f64 = list.iter().map(|(_, probability)| probability).sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE || sum.is_nan() {
        return Err(ChannelMatrixError::Sum { what, given: sum });
    }
    list.iter_mut().for_each(|(_, probability)| *probability /= sum);
    Ok(())
}

/// Output distribution of a mixture of cells; `sums` is zero before and after.
fn mix(mixture: &[(u32, f64)], rows: &[Vec<(u32, f64)>], sums: &mut [f64]) -> Vec<(u32, f64)> {
    if let [(cell, _)] = mixture {
        return rows[*cell as usize].clone();
    }
    for &(cell, weight) in mixture {
        for &(position, probability) in &rows[cell as usize] {
            sums[position as usize] += weight * probability;
        }
    }
    let mut positions: Vec<u32> =
        mixture.iter().flat_map(|(cell, _)| rows[*cell as usize].iter().map(|(position, _)| *position)).collect();
    positions.sort_unstable();
    positions.dedup();
    positions.into_iter().map(|position| (position, std::mem::take(&mut sums[position as usize]))).collect()
}
