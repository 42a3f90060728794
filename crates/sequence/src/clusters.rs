//! Clusters: near-optimal channels for distances of any kind.
//!
//! The same formula as for [`bins`](crate::bins), without a line: the belief is divided among clusters of mass at least
//! `theta = 1/(e^epsilon + 1)`, each with an output that represents it; a symbol may be divided among several. With
//! probability `l = e^-epsilon` the answer is a cluster drawn by its mass, otherwise the symbol's own.
//!
//! Clusters are found by alternation from several starts: each symbol joins its cheapest cluster; light clusters take
//! the cheapest mass from those that can spare it; each cluster chooses a new representative.

use std::collections::BTreeMap;

use tidegate_kernel::Epsilon;

use crate::bins::{Shares, identity, index, normalised};
use crate::channel::{Channel, ChannelMatrixError, Parts};
use crate::distance::DistanceMatrix;

/// Iterations from each start.
const PASSES: usize = 20;

/// Maximum number of distances in an iteration, which limits the number of clusters.
const WORK: usize = 1 << 22;

/// Returns an epsilon-SIP channel for a belief and a table of distances; see the [module](self).
///
/// It is optimal where every symbol that is possible has a belief of at least `theta`. Otherwise its expected distance
/// is usually within some percent of the optimum; `programme::channel`, of the feature `programme`, is the optimum for
/// small domains, and takes longer. Zero-belief symbols go to the nearest representative, so that the channel is 2
/// epsilon-LDP over all symbols.
///
/// # Errors
/// As for [`bins::channel`](crate::bins::channel), and a matrix of another size than the belief.
///
/// ```
/// use tidegate_sequence::clusters;
/// use tidegate_sequence::distance::DistanceMatrix;
///
/// // Hours of a day: from 23 to 0 it is one hour.
/// let hours = |x: i32, y: i32| f64::from((x - y).abs().min(24 - (x - y).abs()));
/// let matrix = DistanceMatrix::new((0..24).map(|x| (0..24).map(|y| hours(x, y)).collect()).collect())?;
/// let belief = [1.0 / 24.0; 24];
/// let channel = clusters::channel(&belief, "2".parse()?, &matrix)?;
/// assert!(channel.leakage(&belief)?.largest() <= 2.0 + 1e-9);
/// // Any constant answer is 6 hours off on average.
/// assert!(channel.expected_cost(&belief, |x, y| matrix.between(x, y))? < 2.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(belief: &[f64], epsilon: Epsilon, matrix: &DistanceMatrix) -> Result<Channel, ChannelMatrixError> {
    if matrix.domain() != belief.len() {
        return Err(ChannelMatrixError::Belief { given: belief.len(), expected: matrix.domain() });
    }
    let belief = normalised(belief)?;
    let shares = Shares::new(epsilon)?;
    if let Some(identity) = identity(&belief, &shares) {
        return identity;
    }
    let distance = |symbol, answer| matrix.between(symbol, answer);
    let symbols = 0..index(belief.len());
    let means: Vec<f64> = symbols.clone().map(|answer| mean_distance(&belief, answer, distance)).collect();
    let l = shares.independent;
    let representative = |members: &[(u32, f64)], mass: f64| {
        let cost = |answer: u32| {
            let own: f64 = members.iter().map(|(symbol, weight)| weight * distance(*symbol, answer)).sum();
            (1.0 - l) * own + l * mass * means[answer as usize]
        };
        let costs = symbols.clone().map(|answer| (cost(answer), answer));
        costs.min_by(|(one, _), (other, _)| one.total_cmp(other)).map_or(0, |(_, answer)| answer)
    };
    best_clusters(&belief, &shares, distance, |answer| means[answer as usize], representative)
}

/// Expected distance of one constant answer.
fn mean_distance(belief: &[f64], answer: u32, distance: impl Fn(u32, u32) -> f64) -> f64 {
    (0_u32..).zip(belief).filter(|(_, weight)| **weight > 0.0).map(|(x, weight)| weight * distance(x, answer)).sum()
}

/// Part of a symbol's belief in a cluster.
#[derive(Clone, Copy, Debug)]
struct Piece {
    symbol: u32,
    mass: f64,
    cluster: usize,
}

/// A belief divided among clusters.
#[derive(Clone, Debug)]
struct Clusters {
    representatives: Vec<u32>,
    masses: Vec<f64>,
    pieces: Vec<Piece>,
}

/// Cheapest channel found by the alternation. `mean` is the expected distance of an answer; `representative` the answer
/// for a cluster, from its members, their masses and its mass.
pub(crate) fn best_clusters(
    belief: &[f64],
    shares: &Shares,
    distance: impl Fn(u32, u32) -> f64,
    mean: impl Fn(u32) -> f64,
    representative: impl Fn(&[(u32, f64)], f64) -> u32,
) -> Result<Channel, ChannelMatrixError> {
    let possible: Vec<(u32, f64)> =
        (0_u32..).zip(belief).filter(|(_, weight)| **weight > 0.0).map(|(x, weight)| (x, *weight)).collect();
    let mut best: Option<(f64, Clusters)> = None;
    for beginning in beginnings(&possible, shares, &distance) {
        let mut representatives = beginning;
        for _ in 0..PASSES {
            let Some(clusters) = divide(&possible, shares, &representatives, &distance, &mean) else { break };
            let cost = clusters.cost(shares, &distance, &mean);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, clusters.clone()));
            }
            let next = clusters.represented(&representative);
            if next == representatives {
                break;
            }
            representatives = next;
        }
    }
    // A single cluster is always heavy enough.
    let (_, clusters) = best.ok_or(ChannelMatrixError::Empty { what: "cluster" })?;
    clusters.assemble(belief, shares, distance)
}

/// Starting representatives: the likeliest symbols, or likely and distant ones, in different numbers.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // numbers of clusters, bounded by the domain's size
fn beginnings(possible: &[(u32, f64)], shares: &Shares, distance: impl Fn(u32, u32) -> f64) -> Vec<Vec<u32>> {
    let most = ((shares.cap + 1e-9) as usize).min(possible.len()).min((WORK / possible.len()).max(1));
    let mut likeliest = possible.to_vec();
    likeliest.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut spread = Vec::with_capacity(most);
    let mut off: Vec<f64> = vec![f64::INFINITY; possible.len()];
    let mut next = likeliest.first().map(|(symbol, _)| *symbol);
    while let (Some(symbol), true) = (next, spread.len() < most) {
        spread.push(symbol);
        let mut furthest = (0.0, None);
        for ((other, weight), off) in possible.iter().zip(&mut off) {
            *off = off.min(distance(*other, symbol));
            if weight * *off > furthest.0 {
                furthest = (weight * *off, Some(*other));
            }
        }
        next = furthest.1;
    }
    let mut numbers: Vec<usize> = [4, 3, 2, 1].iter().map(|quarters| (most * quarters).div_ceil(4)).collect();
    numbers.push(1);
    numbers.dedup();
    let first = |symbols: &[u32], number: usize| symbols[..number.min(symbols.len())].to_vec();
    let likeliest: Vec<u32> = likeliest.into_iter().map(|(symbol, _)| symbol).collect();
    let mut beginnings: Vec<Vec<u32>> =
        numbers.iter().flat_map(|number| [first(&likeliest, *number), first(&spread, *number)]).collect();
    beginnings.dedup();
    beginnings
}

/// Divides the belief among clusters with these representatives, each heavy enough; `None` if that fails.
fn divide(
    possible: &[(u32, f64)],
    shares: &Shares,
    representatives: &[u32],
    distance: impl Fn(u32, u32) -> f64,
    mean: impl Fn(u32) -> f64,
) -> Option<Clusters> {
    let l = shares.independent;
    let means: Vec<f64> = representatives.iter().map(|answer| l * mean(*answer)).collect();
    let cost = |symbol: u32, cluster: usize| (1.0 - l) * distance(symbol, representatives[cluster]) + means[cluster];
    let mut masses = vec![0.0; representatives.len()];
    let mut pieces = Vec::with_capacity(possible.len());
    for &(symbol, mass) in possible {
        let costs = (0..representatives.len()).map(|cluster| (cost(symbol, cluster), cluster));
        let (_, cluster) = costs.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        masses[cluster] += mass;
        pieces.push(Piece { symbol, mass, cluster });
    }
    let mut order: Vec<usize> = (0..masses.len()).collect();
    order.sort_by(|one, other| masses[*one].total_cmp(&masses[*other]));
    for cluster in order {
        if shares.suffices(masses[cluster]) {
            continue;
        }
        let mut offers: Vec<(f64, usize)> = pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| piece.cluster != cluster && masses[piece.cluster] > shares.theta)
            .map(|(at, piece)| (cost(piece.symbol, cluster) - cost(piece.symbol, piece.cluster), at))
            .collect();
        offers.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        for (_, at) in offers {
            let needed = shares.theta - masses[cluster];
            if needed <= 0.0 {
                break;
            }
            let Piece { symbol, mass, cluster: donor } = pieces[at];
            let moved = mass.min(needed).min(masses[donor] - shares.theta);
            if moved <= 0.0 {
                continue;
            }
            masses[donor] -= moved;
            masses[cluster] += moved;
            if moved < mass {
                pieces[at].mass -= moved;
                pieces.push(Piece { symbol, mass: moved, cluster });
            } else {
                pieces[at].cluster = cluster;
            }
        }
    }
    let enough = masses.iter().all(|mass| shares.suffices(*mass));
    enough.then(|| Clusters { representatives: representatives.to_vec(), masses, pieces })
}

impl Clusters {
    fn cost(&self, shares: &Shares, distance: impl Fn(u32, u32) -> f64, mean: impl Fn(u32) -> f64) -> f64 {
        let l = shares.independent;
        let own: f64 = self
            .pieces
            .iter()
            .map(|piece| piece.mass * distance(piece.symbol, self.representatives[piece.cluster]))
            .sum();
        let independent: f64 = self.representatives.iter().zip(&self.masses).map(|(y, mass)| mass * mean(*y)).sum();
        (1.0 - l) * own + l * independent
    }

    /// Best representatives of these clusters, without repetition.
    fn represented(&self, representative: impl Fn(&[(u32, f64)], f64) -> u32) -> Vec<u32> {
        let mut members: Vec<Vec<(u32, f64)>> = vec![Vec::new(); self.masses.len()];
        for piece in &self.pieces {
            members[piece.cluster].push((piece.symbol, piece.mass));
        }
        let mut seen = Vec::with_capacity(members.len());
        for (members, mass) in members.iter().zip(&self.masses) {
            let answer = representative(members, *mass);
            if !seen.contains(&answer) {
                seen.push(answer);
            }
        }
        seen
    }

    fn assemble(
        &self,
        belief: &[f64],
        shares: &Shares,
        distance: impl Fn(u32, u32) -> f64,
    ) -> Result<Channel, ChannelMatrixError> {
        let mut order: Vec<usize> = (0..self.representatives.len()).collect();
        order.sort_unstable_by_key(|cluster| self.representatives[*cluster]);
        let mut cell_of = vec![0; order.len()];
        order.iter().enumerate().for_each(|(cell, cluster)| cell_of[*cluster] = cell);
        let outputs: Vec<u32> = order.iter().map(|cluster| self.representatives[*cluster]).collect();
        let own: Vec<Vec<(u32, f64)>> = (0..outputs.len()).map(|cell| vec![(index(cell), 1.0)]).collect();
        let mut mixtures = own.clone();
        let mut by_symbol: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
        for piece in &self.pieces {
            let cells = by_symbol.entry(piece.symbol).or_default();
            *cells.entry(index(cell_of[piece.cluster])).or_default() += piece.mass;
        }
        let mut masses = vec![0.0; outputs.len()];
        let mut mixture_of = Vec::with_capacity(belief.len());
        for (symbol, weight) in (0_u32..).zip(belief) {
            let Some(cells) = by_symbol.get(&symbol) else {
                let distances = outputs.iter().map(|output| distance(symbol, *output)).enumerate();
                let nearest = distances.min_by(|(_, one), (_, other)| one.total_cmp(other));
                mixture_of.push(index(nearest.map_or(0, |(cell, _)| cell)));
                continue;
            };
            let total: f64 = cells.values().sum();
            let mixture: Vec<(u32, f64)> = cells.iter().map(|(cell, mass)| (*cell, mass / total)).collect();
            for (cell, share) in &mixture {
                masses[*cell as usize] += weight * share;
            }
            if let [(cell, _)] = mixture[..] {
                mixture_of.push(cell);
            } else {
                mixture_of.push(index(mixtures.len()));
                mixtures.push(mixture);
            }
        }
        let outputs = outputs.into_iter().zip(masses).collect();
        Channel::new(Parts { independent: shares.independent, outputs, rows: own, mixtures, mixture_of })
    }
}
