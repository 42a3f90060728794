//! Quantile bins: near-optimal channels for distances along a line, in a fraction of a millisecond.
//!
//! The belief is laid out on the unit interval, symbol after symbol, and cut into intervals, the bins. A bin has mass
//! `b` and a symbol that represents it. With probability `l = e^-epsilon` the answer is a bin drawn by its mass,
//! whatever the symbol; otherwise it is the bin in which the symbol lies, or one of them, by overlap, where a cut runs
//! through the symbol. So the answer names a bin with probability `l b` or `l b + 1 - l`, and the ratio of the latter
//! to the bin's overall probability `b` is at most `e^epsilon` exactly if `b >= theta = 1/(e^epsilon + 1)`.
//!
//! Dynamic programming finds the best cuts among a few hundred candidates. Prefix sums give the cost of a bin in
//! constant time, because the best representative has a closed form for both distances:
//!
//! - squared: the symbol next to `(1 - l) (mean of the bin) + l (mean of the belief)`;
//! - absolute: a quantile of the belief, for a bin `[s, t]` usually that of
//!   `((1 - l)(s + t) + l b) / (2 (1 - l + l b))`.
//!
//! A bin whose halves both weigh at least `theta` is never better than its halves, so much larger bins are skipped.

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::channel::{Channel, ChannelMatrixError, Parts, SUM_TOLERANCE};

/// Distance between symbols on a line, symbol `x` at `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineDistance {
    /// `|x - y|`.
    Absolute,
    /// `(x - y)²`.
    Squared,
}

impl LineDistance {
    /// The distance between two symbols.
    pub fn between(self, one: u32, other: u32) -> f64 {
        let difference = f64::from(one.abs_diff(other));
        match self {
            Self::Absolute => difference,
            Self::Squared => difference * difference,
        }
    }
}

/// Cuts are tried at multiples of one over this, or of `theta`/2 if that is less.
const GRID: f64 = 128.0;

/// The finest grid of cuts, for the largest epsilons.
const FINEST_GRID: f64 = 4096.0;

/// Cuts closer than this are merged.
const SAME_CUT: f64 = 1e-12;

/// An epsilon-SIP channel of quantile bins for a belief over symbols on a line; see the [module](self).
///
/// It is optimal where every symbol that is possible has a belief of at least `theta`, and then answers with the symbol
/// itself or one drawn from the belief. Otherwise its expected distance is, for random beliefs, some percent above the
/// optimum (12 % at worst among several hundred); `programme::channel`, of the feature `programme`, comes nearer, and
/// takes longer. Zero-belief symbols go to the nearest representative, so that the channel is 2 epsilon-LDP over all
/// symbols. O(d) plus the work on cuts, which does not depend on `d`.
///
/// # Errors
/// A belief that is empty, has a number that is no probability, or does not sum to one within
/// [`SUM_TOLERANCE`]; an epsilon whose `e^-epsilon` is not between 0 and 1 in floating point (above 708).
///
/// ```
/// use tidegate_sequence::bins::{self, LineDistance};
///
/// let belief = [0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05];
/// let channel = bins::channel(&belief, "1".parse()?, LineDistance::Absolute)?;
/// assert!(channel.leakage(&belief)?.largest() <= 1.0 + 1e-9 && channel.ldp_loss() <= 2.0 + 1e-9);
/// // Always answering with the median, which tells nothing, is 1.1 off on average.
/// let cost = channel.expected_cost(&belief, |x, y| LineDistance::Absolute.between(x, y))?;
/// assert!(cost < 0.9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(belief: &[f64], epsilon: Epsilon, distance: LineDistance) -> Result<Channel, ChannelMatrixError> {
    let belief = normalised(belief)?;
    let shares = Shares::new(epsilon)?;
    if let Some(identity) = identity(&belief, &shares) {
        return identity;
    }
    assemble(&belief, &shares, &best_bins(&belief, &shares, distance))
}

/// Quantities that depend on epsilon alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// `l = e^-epsilon`: probability of an answer independent of the symbol.
    pub(crate) independent: f64,
    /// `K = e^epsilon + 1`: upper limit of the ratio of an output's probability in a row to its mean.
    pub(crate) cap: f64,
    /// `1/K`: least mass of a bin.
    pub(crate) theta: f64,
}

impl Shares {
    pub(crate) fn new(epsilon: Epsilon) -> Result<Self, ChannelMatrixError> {
        let power = epsilon.exp_as_f64();
        let independent = 1.0 / power;
        if !(independent > 0.0 && independent < 1.0) {
            return Err(ChannelMatrixError::Independent { given: independent });
        }
        Ok(Self { independent, cap: power + 1.0, theta: 1.0 / (power + 1.0) })
    }

    /// Whether a mass suffices for a bin, up to rounding.
    pub(crate) fn suffices(&self, mass: f64) -> bool {
        mass >= self.theta - 1e-14
    }
}

/// Normalises a belief, or rejects it.
pub(crate) fn normalised(belief: &[f64]) -> Result<Vec<f64>, ChannelMatrixError> {
    if belief.is_empty() {
        return Err(ChannelMatrixError::Empty { what: "symbol" });
    }
    if let Some(&given) = belief.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
        return Err(ChannelMatrixError::Probability { what: "a belief", given });
    }
    let total: f64 = belief.iter().sum();
    if (total - 1.0).abs() > SUM_TOLERANCE {
        return Err(ChannelMatrixError::Sum { what: "a belief", given: total });
    }
    Ok(belief.iter().map(|weight| weight / total).collect())
}

/// Narrows a symbol; domains are checked before.
#[allow(clippy::cast_possible_truncation)] // below the size of a belief, which fits u32
pub(crate) const fn index(position: usize) -> u32 {
    position as u32
}

/// Whether every possible symbol has mass for a bin of its own.
pub(crate) fn is_identity_private(belief: &[f64], shares: &Shares) -> bool {
    belief.iter().all(|weight| *weight <= 0.0 || shares.suffices(*weight))
}

/// Channel that answers with the symbol itself or one drawn from the belief, if that is private; then it is optimal for
/// every distance. Impossible symbols are answered like the most likely one.
pub(crate) fn identity(belief: &[f64], shares: &Shares) -> Option<Result<Channel, ChannelMatrixError>> {
    if !is_identity_private(belief, shares) {
        return None;
    }
    let outputs: Vec<(u32, f64)> =
        belief.iter().enumerate().filter(|(_, q)| **q > 0.0).map(|(x, q)| (index(x), *q)).collect();
    let likeliest = (0..outputs.len()).max_by(|one, other| outputs[*one].1.total_cmp(&outputs[*other].1)).unwrap_or(0);
    let mut next = 0_u32;
    let mixture_of = belief
        .iter()
        .map(|weight| {
            if *weight > 0.0 {
                next += 1;
                next - 1
            } else {
                index(likeliest)
            }
        })
        .collect();
    let own: Vec<Vec<(u32, f64)>> = (0..outputs.len()).map(|position| vec![(index(position), 1.0)]).collect();
    let parts = Parts { independent: shares.independent, outputs, rows: own.clone(), mixtures: own, mixture_of };
    Some(Channel::new(parts))
}

/// An interval of the belief on the unit interval, and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    from: f64,
    to: f64,
    pub(crate) representative: u32,
}

/// Prefix sums over symbols.
struct Prefix {
    /// Mass before each symbol, then 1.
    mass: Vec<f64>,
    /// Sums of position times mass, and of squared position times mass.
    first: Vec<f64>,
    second: Vec<f64>,
    /// Symbol at every multiple of `1/(guide.len() - 1)`.
    guide: Vec<u32>,
}

/// Candidate cut, and the sums up to it.
struct Cut {
    at: f64,
    first: f64,
    second: f64,
}

#[allow(clippy::cast_precision_loss)] // positions are below 2^32
fn position(symbol: usize) -> f64 {
    symbol as f64
}

impl Prefix {
    fn new(belief: &[f64]) -> Self {
        let size = belief.len() + 1;
        let (mut mass, mut first, mut second) =
            (Vec::with_capacity(size), Vec::with_capacity(size), Vec::with_capacity(size));
        let mut sums = (0.0, 0.0, 0.0);
        for (symbol, weight) in belief.iter().enumerate() {
            mass.push(sums.0);
            first.push(sums.1);
            second.push(sums.2);
            let weighted = weight * position(symbol);
            sums = (f64::min(sums.0 + weight, 1.0), sums.1 + weighted, sums.2 + weighted * position(symbol));
        }
        mass.push(1.0);
        first.push(sums.1);
        second.push(sums.2);
        let steps = belief.len().max(1024);
        let mut symbol = 0;
        let guide = (0..=steps)
            .map(|step| {
                let at = position(step) / position(steps);
                while symbol + 1 < belief.len() && mass[symbol + 1] < at {
                    symbol += 1;
                }
                index(symbol)
            })
            .collect();
        Self { mass, first, second, guide }
    }

    /// Least symbol with cumulative mass of at least `at`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `at` is brought into 0..=1 first
    fn quantile(&self, at: f64) -> usize {
        let at = at.clamp(0.0, 1.0);
        let mut symbol = self.guide[(at * position(self.guide.len() - 1)) as usize] as usize;
        while symbol + 2 < self.mass.len() && self.mass[symbol + 1] < at {
            symbol += 1;
        }
        symbol
    }

    /// Sums up to a point of the unit interval, which may lie within a symbol.
    fn cut(&self, at: f64) -> Cut {
        let symbol = self.quantile(at);
        let part = (at - self.mass[symbol]) * position(symbol);
        Cut { at, first: self.first[symbol] + part, second: self.second[symbol] + part * position(symbol) }
    }

    fn last(&self) -> usize {
        self.mass.len() - 2
    }
}

/// Candidate cuts: a grid, multiples of `theta` from both ends, and both ends of heavy symbols.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the grid is at most `FINEST_GRID`
fn candidates(belief: &[f64], prefix: &Prefix, shares: &Shares) -> Vec<Cut> {
    let grid = (2.0 * shares.cap).ceil().clamp(GRID, FINEST_GRID);
    let heavy = (1.0 / grid).min(shares.theta);
    let mut points: Vec<f64> = (0..=grid as u32).map(|step| f64::from(step) / grid).collect();
    for step in 1..(shares.cap.min(grid) as u32 + 1) {
        let multiple = f64::from(step) * shares.theta;
        points.extend([multiple, 1.0 - multiple].into_iter().filter(|point| (0.0..=1.0).contains(point)));
    }
    for (symbol, weight) in belief.iter().enumerate() {
        if *weight >= heavy {
            points.extend([prefix.mass[symbol], prefix.mass[symbol + 1]]);
        }
    }
    points.sort_unstable_by(f64::total_cmp);
    points.dedup_by(|later, earlier| *later - *earlier < SAME_CUT);
    if let Some(last) = points.last_mut() {
        *last = 1.0;
    }
    points.into_iter().map(|at| prefix.cut(at)).collect()
}

/// Cost of a bin and its best representative.
struct Costs<'a> {
    prefix: &'a Prefix,
    independent: f64,
    distance: LineDistance,
    /// For absolute distances, the expected distance from each symbol.
    from: Vec<f64>,
}

impl<'a> Costs<'a> {
    fn new(prefix: &'a Prefix, independent: f64, distance: LineDistance) -> Self {
        let all = prefix.first[prefix.last() + 1];
        let from = match distance {
            LineDistance::Squared => Vec::new(),
            LineDistance::Absolute => (0..=prefix.last())
                .map(|symbol| {
                    let (mass, sum) = (prefix.mass[symbol + 1], prefix.first[symbol + 1]);
                    position(symbol) * (2.0 * mass - 1.0) + all - 2.0 * sum
                })
                .collect(),
        };
        Self { prefix, independent, distance, from }
    }

    /// Part of the expected distance in the bin between two cuts, with its best representative.
    fn of(&self, begin: &Cut, end: &Cut) -> (f64, usize) {
        match self.distance {
            LineDistance::Absolute => self.absolute(begin, end),
            LineDistance::Squared => self.squared(begin, end),
        }
    }

    fn absolute(&self, begin: &Cut, end: &Cut) -> (f64, usize) {
        let (l, b) = (self.independent, end.at - begin.at);
        // The cost is convex in the representative, and linear between symbols. Its slope beyond a symbol up to which
        // the mass is t is (1 - l)(2 clamp(t, s, e) - s - e) + l b (2 t - 1), for a bin from s to e; it is zero at:
        let half = 0.5 / l;
        let at = if half < begin.at {
            half
        } else if 1.0 - half > end.at {
            1.0 - half
        } else {
            ((1.0 - l) * (begin.at + end.at) + l * b) / (2.0 * (1.0 - l + l * b))
        };
        let symbol = self.prefix.quantile(at);
        let place = position(symbol);
        let split = self.prefix.mass[symbol + 1];
        let (split, sum) = if split < begin.at {
            (begin.at, begin.first)
        } else if split > end.at {
            (end.at, end.first)
        } else {
            (split, self.prefix.first[symbol + 1])
        };
        let below = place * (split - begin.at) - (sum - begin.first);
        let above = (end.first - sum) - place * (end.at - split);
        ((1.0 - l) * (below + above) + l * b * self.from[symbol], symbol)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // brought into the domain first
    fn squared(&self, begin: &Cut, end: &Cut) -> (f64, usize) {
        let last = self.prefix.last();
        let (l, b) = (self.independent, end.at - begin.at);
        let (first, second) = (end.first - begin.first, end.second - begin.second);
        let (mean, square) = (self.prefix.first[last + 1], self.prefix.second[last + 1]);
        let place = ((1.0 - l) * first / b + l * mean).round().clamp(0.0, position(last));
        let own = second - 2.0 * place * first + b * place * place;
        let independent = square - 2.0 * place * mean + place * place;
        ((1.0 - l) * own + l * b * independent, place as usize)
    }
}

/// Cheapest bins with cuts among the candidates.
pub(crate) fn best_bins(belief: &[f64], shares: &Shares, distance: LineDistance) -> Vec<Bin> {
    let prefix = Prefix::new(belief);
    let cuts = candidates(belief, &prefix, shares);
    let costs = Costs::new(&prefix, shares.independent, distance);
    let gap = cuts.windows(2).map(|pair| pair[1].at - pair[0].at).fold(0.0, f64::max);
    // Of wider bins, both halves are wide enough.
    let widest = 2.0 * shares.theta + gap;
    // For each cut: least cost before it, previous cut, and representative in between.
    let mut best: Vec<(f64, usize, usize)> = vec![(f64::INFINITY, 0, 0); cuts.len()];
    best[0].0 = 0.0;
    let mut earliest = 0;
    for end in 1..cuts.len() {
        while cuts[end].at - cuts[earliest].at > widest {
            earliest += 1;
        }
        for begin in earliest..end {
            if !shares.suffices(cuts[end].at - cuts[begin].at) {
                break;
            }
            if best[begin].0 < f64::INFINITY {
                let (cost, symbol) = costs.of(&cuts[begin], &cuts[end]);
                let cost = best[begin].0 + cost;
                if cost < best[end].0 {
                    best[end] = (cost, begin, symbol);
                }
            }
        }
    }
    let mut bins = Vec::new();
    let mut end = cuts.len() - 1;
    while end > 0 {
        let (_, begin, symbol) = best[end];
        bins.push(Bin { from: cuts[begin].at, to: cuts[end].at, representative: index(symbol) });
        end = begin;
    }
    bins.reverse();
    bins
}

/// Channel of bins. Bins with the same representative are one cell.
fn assemble(belief: &[f64], shares: &Shares, bins: &[Bin]) -> Result<Channel, ChannelMatrixError> {
    let mut symbols: Vec<u32> = bins.iter().map(|bin| bin.representative).collect();
    symbols.sort_unstable();
    symbols.dedup();
    let cell_of: Vec<usize> =
        bins.iter().map(|bin| symbols.partition_point(|symbol| *symbol < bin.representative)).collect();
    let mut masses = vec![0.0; symbols.len()];
    // One mixture for each cell; then those of symbols that cuts divide.
    let own: Vec<Vec<(u32, f64)>> = (0..symbols.len()).map(|cell| vec![(index(cell), 1.0)]).collect();
    let mut mixtures = own.clone();
    let mut mixture_of = Vec::with_capacity(belief.len());
    let (mut begin, mut bin) = (0.0, 0);
    let mut overlaps: Vec<(u32, f64)> = Vec::new();
    for (symbol, weight) in belief.iter().enumerate() {
        if *weight <= 0.0 {
            mixture_of.push(index(nearest(&symbols, index(symbol))));
            continue;
        }
        let end = f64::min(begin + weight, 1.0);
        overlaps.clear();
        loop {
            let overlap = bins[bin].to.min(end) - bins[bin].from.max(begin);
            let cell = index(cell_of[bin]);
            if overlap > 0.0 {
                match overlaps.iter_mut().find(|(known, _)| *known == cell) {
                    Some((_, sum)) => *sum += overlap,
                    None => overlaps.push((cell, overlap)),
                }
            }
            if bins[bin].to > end || bin + 1 == bins.len() {
                break;
            }
            bin += 1;
        }
        begin = end;
        match overlaps[..] {
            // Only rounding is left of the unit interval.
            [] => {
                mixture_of.push(index(cell_of[bin]));
                masses[cell_of[bin]] += weight;
            }
            [(cell, _)] => {
                mixture_of.push(cell);
                masses[cell as usize] += weight;
            }
            _ => {
                let total: f64 = overlaps.iter().map(|(_, overlap)| overlap).sum();
                overlaps.iter_mut().for_each(|(_, overlap)| *overlap /= total);
                for (cell, share) in &overlaps {
                    masses[*cell as usize] += weight * share;
                }
                mixture_of.push(index(mixtures.len()));
                mixtures.push(overlaps.clone());
            }
        }
    }
    let outputs = symbols.into_iter().zip(masses).collect();
    Channel::new(Parts { independent: shares.independent, outputs, rows: own, mixtures, mixture_of })
}

/// Nearest of the ascending symbols.
fn nearest(symbols: &[u32], symbol: u32) -> usize {
    let after = symbols.partition_point(|other| *other < symbol);
    let before = after.saturating_sub(1);
    if after == symbols.len() || symbols[before].abs_diff(symbol) <= symbols[after].abs_diff(symbol) {
        before
    } else {
        after
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss)]
mod tests {
    use super::{Costs, LineDistance, Prefix, index};

    /// Cost of a bin with a representative, by summation over symbols.
    fn summed(belief: &[f64], from: f64, to: f64, answer: u32, l: f64, distance: LineDistance) -> f64 {
        let (mut before, mut own, mut all) = (0.0, 0.0, 0.0);
        for (symbol, weight) in (0_u32..).zip(belief) {
            let overlap = (to.min(before + weight) - from.max(before)).max(0.0);
            own += overlap * distance.between(symbol, answer);
            all += weight * distance.between(symbol, answer);
            before += weight;
        }
        (1.0 - l) * own + l * (to - from) * all
    }

    #[test]
    fn the_best_representative_of_a_bin_is_found_without_search() {
        let weights: Vec<f64> = (0..40_u32).map(|x| f64::from(x * x * 37 % 23 % 11)).collect();
        let total: f64 = weights.iter().sum();
        let belief: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let prefix = Prefix::new(&belief);
        for distance in [LineDistance::Absolute, LineDistance::Squared] {
            // Above and below one half, where representatives lie outside their bins.
            for l in [0.05, 0.4, 0.6, 0.95] {
                let costs = Costs::new(&prefix, l, distance);
                for (from, to) in
                    (0..20).flat_map(|i| (i + 1..=20).map(move |j| (f64::from(i) / 20.0, f64::from(j) / 20.0)))
                {
                    let (cost, symbol) = costs.of(&prefix.cut(from), &prefix.cut(to));
                    let all = (0..index(belief.len())).map(|answer| summed(&belief, from, to, answer, l, distance));
                    let least = all.fold(f64::INFINITY, f64::min);
                    let named = summed(&belief, from, to, index(symbol), l, distance);
                    assert!((cost - named).abs() < 1e-9 && named < least + 1e-9, "{from} {to} {l} {distance:?}");
                }
            }
        }
    }
}
