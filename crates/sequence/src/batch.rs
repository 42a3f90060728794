//! Channels over whole sequences of symbols, for batches. All sequences are told apart; where they are too many, see
//! [`support`](crate::support).

use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::ClassesError;
#[cfg(doc)]
use tidegate_kernel::primitives::SymbolBatch;

use crate::bins::{self, Shares, index};
use crate::channel::{Channel, ChannelMatrixError};
use crate::clusters::best_clusters;
use crate::distance::Distance;
use crate::effort::{self, Effort};
use crate::model::ModelError;

/// Maximum number of sequences for the optimal channel, with [`Effort::Thorough`] (feature `programme`).
pub const PROGRAMME_LIMIT: u64 = 256;

/// Maximum number of sequences of a batch, or of a part of one. Beyond, clusters are too few for longer batches to pay.
pub const CLUSTER_LIMIT: u64 = 1 << 14;

/// Maximum number of further answers of the linear programme, besides cluster representatives: the likeliest sequences.
#[cfg(feature = "programme")]
const ANSWERS: usize = 96;

/// Error of a channel over sequences.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchChannelError {
    #[error(
        "sequences of {length} symbols from a domain of {domain} are {sequences}, more than {CLUSTER_LIMIT}; \
         {}", advice(*.longest)
    )]
    TooLarge { domain: u32, length: u32, sequences: String, longest: u32 },
    /// No channel for the belief.
    #[error(transparent)]
    Channel(#[from] ChannelMatrixError),
    #[error("a support of {given} sequences is outside 1..={}", crate::support::MAX_SUPPORT)]
    Support { given: u32 },
    /// The belief is of another model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Classes of sequences that the kernel rejects.
    #[error(transparent)]
    Classes(#[from] ClassesError),
}

/// Advice about too many sequences; `longest` is the length of which there are few enough.
fn advice(longest: u32) -> String {
    match longest {
        0 => "one symbol is too many already: tell only the likeliest sequences apart (support), or release symbols \
              one by one with crr"
            .to_owned(),
        longest => format!(
            "tell only the likeliest sequences apart (support), or divide batches into parts of at most {longest}"
        ),
    }
}

/// Rejects too many sequences.
///
/// # Errors
/// [`BatchChannelError::TooLarge`].
pub fn check_size(domain: u32, length: u32) -> Result<(), BatchChannelError> {
    let sequences = |length| u64::from(domain).checked_pow(length);
    if sequences(length).is_some_and(|sequences| sequences <= CLUSTER_LIMIT) {
        return Ok(());
    }
    let longest = (1..length).take_while(|length| sequences(*length).is_some_and(|n| n <= CLUSTER_LIMIT)).last();
    let sequences = sequences(length).map_or_else(|| format!("{domain}^{length}"), |sequences| sequences.to_string());
    Err(BatchChannelError::TooLarge { domain, length, sequences, longest: longest.unwrap_or(0) })
}

/// Symbols of a sequence, from its number: `x_1 d^(w-1) + .. + x_w` is `x_1 .. x_w`.
pub fn digits(mut number: u32, domain: u32, length: u32) -> Vec<u32> {
    let mut symbols = Vec::with_capacity(length as usize);
    for _ in 0..length {
        symbols.push(number % domain);
        number /= domain;
    }
    symbols.reverse();
    symbols
}

/// All sequences, and their distances: sums over their symbols.
struct Sequences {
    domain: usize,
    length: usize,
    /// Symbols of all sequences, one after the other.
    symbols: Vec<u32>,
    /// Distances between symbols, row by row.
    table: Vec<f64>,
    /// Expected distance for each position and answer.
    means: Vec<Vec<f64>>,
}

impl Sequences {
    fn new(belief: &[f64], domain: u32, length: u32, distance: &Distance) -> Self {
        let symbols: Vec<u32> = (0..index(belief.len())).flat_map(|number| digits(number, domain, length)).collect();
        let table: Vec<f64> =
            (0..domain).flat_map(|symbol| (0..domain).map(move |answer| distance.between(symbol, answer))).collect();
        let mut sequences =
            Self { domain: domain as usize, length: length as usize, symbols, table, means: Vec::new() };
        let all: Vec<(u32, f64)> = (0_u32..).zip(belief.iter().copied()).collect();
        sequences.means = sequences.distances_by_position(&all);
        sequences
    }

    fn of(&self, number: u32) -> &[u32] {
        let begin = number as usize * self.length;
        &self.symbols[begin..begin + self.length]
    }

    fn between(&self, one: u32, other: u32) -> f64 {
        let pairs = self.of(one).iter().zip(self.of(other));
        pairs.map(|(symbol, answer)| self.table[*symbol as usize * self.domain + *answer as usize]).sum()
    }

    fn mean(&self, answer: u32) -> f64 {
        self.means.iter().zip(self.of(answer)).map(|(means, answer)| means[*answer as usize]).sum()
    }

    /// Sum of weighted distances from these sequences, for each position and answer.
    fn distances_by_position(&self, members: &[(u32, f64)]) -> Vec<Vec<f64>> {
        let mut weights = vec![vec![0.0; self.domain]; self.length];
        for (number, weight) in members {
            for (weights, symbol) in weights.iter_mut().zip(self.of(*number)) {
                weights[*symbol as usize] += weight;
            }
        }
        let sum = |weights: &[f64], answer: usize| -> f64 {
            let rows = weights.iter().zip(self.table.chunks_exact(self.domain));
            rows.filter(|(weight, _)| **weight > 0.0).map(|(weight, row)| weight * row[answer]).sum()
        };
        weights.iter().map(|weights| (0..self.domain).map(|answer| sum(weights, answer)).collect()).collect()
    }

    /// Best answer for a cluster, found symbol by symbol, as the distance is a sum.
    fn representative(&self, members: &[(u32, f64)], mass: f64, independent: f64) -> u32 {
        let own = self.distances_by_position(members);
        own.iter().zip(&self.means).fold(0, |number, (own, means)| {
            let cost = |answer: usize| (1.0 - independent) * own[answer] + independent * mass * means[answer];
            let best = (0..self.domain).min_by(|one, other| cost(*one).total_cmp(&cost(*other)));
            number * index(self.domain) + index(best.unwrap_or(0))
        })
    }
}

/// Returns an epsilon-SIP channel for a belief over sequences of `length` symbols, numbered as [`SymbolBatch`] does.
/// The distance of two sequences is the sum over their symbols; for its quality, see the [module](self).
///
/// # Errors
/// [`BatchChannelError::TooLarge`]; a belief that is none, or not over `domain^length` sequences; a matrix for another
/// domain.
pub fn channel(
    belief: &[f64],
    domain: u32,
    length: u32,
    epsilon: Epsilon,
    distance: &Distance,
    effort: Effort,
) -> Result<Channel, BatchChannelError> {
    check_size(domain, length)?;
    let size = (domain as usize).pow(length);
    if belief.len() != size {
        return Err(ChannelMatrixError::Belief { given: belief.len(), expected: size }.into());
    }
    if let Some(expected) = distance.domain().filter(|expected| *expected != domain as usize) {
        return Err(ChannelMatrixError::Belief { given: domain as usize, expected }.into());
    }
    if length == 1 {
        return Ok(effort::channel(belief, epsilon, distance, effort)?);
    }
    let belief = bins::normalised(belief)?;
    let shares = Shares::new(epsilon)?;
    if let Some(identity) = bins::identity(&belief, &shares) {
        return Ok(identity?);
    }
    let sequences = Sequences::new(&belief, domain, length, distance);
    let between = |one, other| sequences.between(one, other);
    let representative =
        |members: &[(u32, f64)], mass: f64| sequences.representative(members, mass, shares.independent);
    let clustered = best_clusters(&belief, &shares, between, |answer| sequences.mean(answer), representative)?;
    Ok(improved(clustered, &belief, &shares, between, effort)?)
}

/// Improves a channel of clusters by linear programme, where the effort allows it.
pub(crate) fn improved(
    clustered: Channel,
    belief: &[f64],
    shares: &Shares,
    between: impl Fn(u32, u32) -> f64,
    effort: Effort,
) -> Result<Channel, ChannelMatrixError> {
    #[cfg(feature = "programme")]
    if effort == Effort::Thorough && belief.len() as u64 <= PROGRAMME_LIMIT {
        use crate::programme::{cheaper, own_cells, solve};
        let mut likeliest: Vec<u32> = (0..index(belief.len())).collect();
        likeliest.sort_by(|one, other| belief[*other as usize].total_cmp(&belief[*one as usize]));
        likeliest.truncate(ANSWERS);
        let mut outputs: Vec<u32> =
            likeliest.into_iter().chain(clustered.outputs().iter().map(|(output, _)| *output)).collect();
        outputs.sort_unstable();
        outputs.dedup();
        let solved = solve(belief, &own_cells(belief), outputs, shares, &between);
        return cheaper(clustered, solved, belief, between);
    }
    #[cfg(not(feature = "programme"))]
    let _ = (belief, shares, between, effort);
    Ok(clustered)
}
