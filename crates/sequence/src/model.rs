//! [`Model`]: public prior knowledge about a stream.
//!
//! A Markov chain of order 1 or 2 over the symbols `0..d`. It is public, and must not be learned from the protected
//! stream or other secret data: no guarantee covers the model itself.
//!
//! Transitions are a matrix, or sparse: each row has a few entries, and the rest of its mass goes to a shared
//! background. So a smoothed model without zeros costs no more than its observations. At order 2 the rest follows order
//! 1.

use serde::{Deserialize, Serialize};
use tidegate_kernel::MAX_DOMAIN;

use crate::channel::{ChannelMatrixError, SUM_TOLERANCE};

mod steps;

/// Maximum number of pairs with a row of their own at order 2, which is the size of its belief.
pub const MAX_PAIRS: u64 = 1 << 24;

/// Maximum number of entries in a transition matrix; beyond, transitions are sparse.
pub const MAX_DENSE: u64 = 1 << 26;

/// Error of a model, or of a belief that cannot be updated.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    #[error("a model over {given} symbols is outside 2..={MAX_DOMAIN}")]
    Domain { given: u64 },
    #[error("{what} has {given} entries, but {expected} are needed")]
    Length { what: &'static str, given: usize, expected: usize },
    #[error("{given} in {what} {row} is no probability")]
    Probability { what: &'static str, row: u64, given: f64 },
    #[error("{what} {row} sums to {given}, not to 1 (within {SUM_TOLERANCE})")]
    Sum { what: &'static str, row: u64, given: f64 },
    #[error("symbol {given} in {what} is outside the domain 0..{domain}")]
    Symbol { what: &'static str, given: u32, domain: u32 },
    #[error("{what} {row} is not in ascending order, each once")]
    Order { what: &'static str, row: u64 },
    #[error("a model of order 2 with rows for {given} pairs has more than {MAX_PAIRS}")]
    TooManyPairs { given: u64 },
    #[error("a matrix over {domain} symbols has more than {MAX_DENSE} entries; give the transitions sparse")]
    TooDense { domain: u32 },
    #[error("a pseudo-count of {given} is not a finite number of at least 0")]
    PseudoCount { given: f64 },
    #[error("there is no symbol to learn from, and no pseudo-count to do without")]
    NoData,
    #[error("version {given} of a saved {what} is not known; this program reads version {VERSION}")]
    Version { what: &'static str, given: u16 },
    #[error("the belief is not one of this model")]
    OtherModel,
    #[error("output {given} cannot have come from this channel")]
    Impossible { given: u32 },
    /// The channel has another domain.
    #[error(transparent)]
    Channel(#[from] ChannelMatrixError),
}

pub(crate) const VERSION: u16 = 1;

/// Order of the Markov chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The next symbol depends on the present one.
    One,
    /// The next symbol depends on the present one and the one before.
    Two,
}

/// Additive smoothing of a learned model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Smoothing {
    /// Pseudo-observations of each row: `n` observations are mixed with the background at `pseudo_count / (n +
    /// pseudo_count)`. With zero, unseen transitions are impossible.
    pub pseudo_count: f64,
    /// Distribution of the pseudo-observations.
    pub background: Background,
}

/// Background of a learned model of order 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// Uniform.
    Uniform,
    /// Smoothed frequency of each symbol.
    Frequencies,
}

/// Sparse rows: the entries of row `i` are those at `starts[i]..starts[i + 1]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    starts: Vec<u64>,
    symbols: Vec<u32>,
    probabilities: Vec<f64>,
    /// Mass of each row that goes to the background.
    left: Vec<f64>,
}

impl Rows {
    #[allow(clippy::cast_possible_truncation)] // positions in a vector
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    fn entries(&self, row: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let range = self.range(row);
        self.symbols[range.clone()].iter().copied().zip(self.probabilities[range].iter().copied())
    }

    fn push(&mut self, entries: impl IntoIterator<Item = (u32, f64)>, left: f64) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        for (symbol, probability) in entries {
            self.symbols.push(symbol);
            self.probabilities.push(probability);
        }
        self.starts.push(self.symbols.len() as u64);
        self.left.push(left);
    }

    /// Validates and normalises the rows.
    fn check(&mut self, rows: usize, domain: u32, what: &'static str) -> Result<(), ModelError> {
        let lengths =
            [(self.starts.len(), rows + 1), (self.left.len(), rows), (self.probabilities.len(), self.symbols.len())];
        if let Some(&(given, expected)) = lengths.iter().find(|(given, expected)| given != expected) {
            return Err(ModelError::Length { what, given, expected });
        }
        let end = self.symbols.len() as u64;
        if self.starts.first() != Some(&0) || self.starts.last() != Some(&end) {
            return Err(ModelError::Order { what, row: 0 });
        }
        if let Some(row) = self.starts.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(ModelError::Order { what, row: row as u64 });
        }
        for row in 0..rows {
            let symbols = &self.symbols[self.range(row)];
            if symbols.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(ModelError::Order { what, row: row as u64 });
            }
            if let Some(&given) = symbols.last().filter(|symbol| **symbol >= domain) {
                return Err(ModelError::Symbol { what, given, domain });
            }
            let range = self.range(row);
            make_distribution(&mut self.probabilities[range], &mut self.left[row..=row], what, row as u64)?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Transitions {
    /// Row by row.
    Dense(Vec<f64>),
    Sparse {
        rows: Rows,
        background: Vec<f64>,
    },
}

/// Transitions from pairs: rows of some pairs, numbered `before · d + present`, ascending; all others follow order 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pairs {
    pairs: Vec<u64>,
    rows: Rows,
}

/// A Markov chain of order 1 or 2; see the [module](self).
///
/// Saved with a version; loading validates like the constructors.
///
/// ```
/// use tidegate_sequence::model::{Background, Model, Order, Smoothing};
///
/// let model = Model::dense(vec![0.5, 0.5], vec![0.9, 0.1, 0.2, 0.8])?;
/// assert_eq!(model.transition(None, 1, 0), 0.2);
///
/// let smoothing = Smoothing { pseudo_count: 1.0, background: Background::Uniform };
/// let learned = Model::learn(3, [[0, 1, 0, 1, 0].as_slice()], Order::One, smoothing)?;
/// assert!((learned.transition(None, 0, 1) - (2.0 + 1.0 / 3.0) / 3.0).abs() < 1e-12);
/// let text = serde_json::to_string(&learned)?;
/// assert_eq!(serde_json::from_str::<Model>(&text)?, learned);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedModel")]
pub struct Model {
    version: u16,
    prior: Vec<f64>,
    transitions: Transitions,
    pairs: Option<Pairs>,
}

/// Loaded form, before validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedModel {
    version: u16,
    prior: Vec<f64>,
    transitions: Transitions,
    // Required, though it may be null: a model with lost pairs must not load as one of order 1.
    #[serde(deserialize_with = "Option::deserialize")]
    pairs: Option<Pairs>,
}

impl TryFrom<SavedModel> for Model {
    type Error = ModelError;

    fn try_from(saved: SavedModel) -> Result<Self, ModelError> {
        let SavedModel { version, prior, transitions, pairs } = saved;
        if version != VERSION {
            return Err(ModelError::Version { what: "model", given: version });
        }
        Self::checked(prior, transitions, pairs)
    }
}

/// A sparse row: its entries, and the mass left for the background. They sum to one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseRow {
    /// Ascending symbols and their probabilities.
    pub own: Vec<(u32, f64)>,
    /// Mass of the background or, at order 2, of the transitions of order 1.
    pub left: f64,
}

impl Model {
    /// Creates a chain of order 1 from its prior and its transition matrix, row by row.
    pub fn dense(prior: Vec<f64>, matrix: Vec<f64>) -> Result<Self, ModelError> {
        Self::checked(prior, Transitions::Dense(matrix), None)
    }

    /// Creates a chain of order 1 with sparse rows and their shared background.
    pub fn sparse(prior: Vec<f64>, rows: Vec<SparseRow>, background: Vec<f64>) -> Result<Self, ModelError> {
        let mut sparse = Rows::default();
        rows.into_iter().for_each(|row| sparse.push(row.own, row.left));
        Self::checked(prior, Transitions::Sparse { rows: sparse, background }, None)
    }

    /// Extends the chain to order 2, with rows for some ascending pairs (previous, present). The mass left by a row,
    /// and pairs without a row, follow order 1. For a full table, give all pairs rows with nothing left.
    pub fn with_pairs(self, rows: impl IntoIterator<Item = ((u32, u32), SparseRow)>) -> Result<Self, ModelError> {
        let domain = self.domain();
        let mut pairs = Pairs { pairs: Vec::new(), rows: Rows { starts: vec![0], ..Rows::default() } };
        for ((before, present), row) in rows {
            if let Some(&given) = [before, present].iter().find(|symbol| **symbol >= domain) {
                return Err(ModelError::Symbol { what: "the pairs", given, domain });
            }
            pairs.pairs.push(u64::from(before) * u64::from(domain) + u64::from(present));
            pairs.rows.push(row.own, row.left);
        }
        Self::checked(self.prior, self.transitions, Some(pairs))
    }

    /// Independent uniform symbols: no prior knowledge.
    pub fn uniform(domain: u32) -> Result<Self, ModelError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(ModelError::Domain { given: u64::from(domain) });
        }
        let uniform = vec![1.0 / f64::from(domain); domain as usize];
        let rows = vec![SparseRow { own: Vec::new(), left: 1.0 }; domain as usize];
        Self::sparse(uniform.clone(), rows, uniform)
    }

    /// Validates a model and normalises each distribution, as errors would add up over many steps.
    fn checked(
        mut prior: Vec<f64>,
        mut transitions: Transitions,
        mut pairs: Option<Pairs>,
    ) -> Result<Self, ModelError> {
        let domain = u32::try_from(prior.len()).ok().filter(|domain| (2..=MAX_DOMAIN).contains(domain));
        let domain = domain.ok_or(ModelError::Domain { given: prior.len() as u64 })?;
        make_distribution(&mut prior, &mut [], "the prior, row", 0)?;
        let size = prior.len();
        match &mut transitions {
            Transitions::Dense(matrix) => {
                if u64::from(domain) * u64::from(domain) > MAX_DENSE {
                    return Err(ModelError::TooDense { domain });
                }
                if matrix.len() != size * size {
                    let (given, expected) = (matrix.len(), size * size);
                    return Err(ModelError::Length { what: "the matrix", given, expected });
                }
                for (row, entries) in (0..).zip(matrix.chunks_exact_mut(size)) {
                    make_distribution(entries, &mut [], "transition row", row)?;
                }
            }
            Transitions::Sparse { rows, background } => {
                if background.len() != size {
                    let given = background.len();
                    return Err(ModelError::Length { what: "the background", given, expected: size });
                }
                make_distribution(background, &mut [], "the background, row", 0)?;
                rows.check(size, domain, "transition row")?;
            }
        }
        if let Some(Pairs { pairs, rows }) = &mut pairs {
            let all = u64::from(domain) * u64::from(domain);
            let given = pairs.len() as u64;
            if given > MAX_PAIRS {
                return Err(ModelError::TooManyPairs { given });
            }
            let ascending = pairs.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascending || pairs.last().is_some_and(|last| *last >= all) {
                return Err(ModelError::Order { what: "the list of pairs", row: 0 });
            }
            rows.check(pairs.len(), domain, "row of a pair, number")?;
        }
        Ok(Self { version: VERSION, prior, transitions, pairs })
    }

    /// Learns a model from sequences. The prior is the smoothed frequency of each symbol. Rows are mixed with the
    /// background by the pseudo-count; at order 2, with the rows of order 1. Sparse unless more than a quarter of all
    /// transitions occur.
    ///
    /// The sequences must be public; see the [module](self).
    pub fn learn<'a>(
        domain: u32,
        sequences: impl IntoIterator<Item = &'a [u32]>,
        order: Order,
        smoothing: Smoothing,
    ) -> Result<Self, ModelError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(ModelError::Domain { given: u64::from(domain) });
        }
        let pseudo = smoothing.pseudo_count;
        if !(pseudo.is_finite() && pseudo >= 0.0) {
            return Err(ModelError::PseudoCount { given: pseudo });
        }
        let wide = u64::from(domain);
        let (mut seen, mut steps, mut triples) = (vec![0_u64; domain as usize], Vec::new(), Vec::new());
        for sequence in sequences {
            for (index, &symbol) in sequence.iter().enumerate() {
                if symbol >= domain {
                    return Err(ModelError::Symbol { what: "a sequence", given: symbol, domain });
                }
                seen[symbol as usize] += 1;
                if index >= 1 {
                    steps.push((u64::from(sequence[index - 1]), symbol));
                }
                if index >= 2 && order == Order::Two {
                    triples.push((u64::from(sequence[index - 2]) * wide + u64::from(sequence[index - 1]), symbol));
                }
            }
        }
        let uniform = 1.0 / f64::from(domain);
        let total: u64 = seen.iter().sum();
        #[allow(clippy::cast_precision_loss)] // counts far below 2^53
        let mass = total as f64 + pseudo;
        if mass <= 0.0 {
            return Err(ModelError::NoData);
        }
        #[allow(clippy::cast_precision_loss)]
        let prior: Vec<f64> = seen.iter().map(|count| (*count as f64 + pseudo * uniform) / mass).collect();
        let background = match smoothing.background {
            Background::Uniform => vec![uniform; domain as usize],
            Background::Frequencies => prior.clone(),
        };
        let counted = count(steps, pseudo);
        let mut rows = Rows::default();
        let mut known = counted.into_iter().peekable();
        for symbol in 0..wide {
            match known.next_if(|(row, _)| *row == symbol) {
                Some((_, row)) => rows.push(row.own, row.left),
                None => rows.push([], 1.0),
            }
        }
        let entries = rows.symbols.len() as u64;
        let transitions = if wide * wide <= MAX_DENSE && 4 * entries > wide * wide {
            let row = |symbol: usize| {
                let mut row: Vec<f64> = background.iter().map(|weight| rows.left[symbol] * weight).collect();
                rows.entries(symbol).for_each(|(next, probability)| row[next as usize] += probability);
                row
            };
            Transitions::Dense((0..domain as usize).flat_map(row).collect())
        } else {
            Transitions::Sparse { rows, background }
        };
        let pairs = (order == Order::Two).then(|| {
            let mut pairs = Pairs { pairs: Vec::new(), rows: Rows { starts: vec![0], ..Rows::default() } };
            for (pair, row) in count(triples, pseudo) {
                pairs.pairs.push(pair);
                pairs.rows.push(row.own, row.left);
            }
            pairs
        });
        Self::checked(prior, transitions, pairs)
    }

    /// Rows and their background, as [`Model::sparse`] takes them; a matrix has nothing left for the background.
    /// `None` for a chain of order 2.
    pub fn rows(&self) -> Option<(Vec<SparseRow>, Vec<f64>)> {
        if self.pairs.is_some() {
            return None;
        }
        Some(match &self.transitions {
            Transitions::Dense(matrix) => {
                let own = |row: &[f64]| (0..).zip(row.iter().copied()).filter(|(_, share)| *share > 0.0).collect();
                let rows = matrix.chunks_exact(self.prior.len()).map(|row| SparseRow { own: own(row), left: 0.0 });
                (rows.collect(), self.prior.clone())
            }
            Transitions::Sparse { rows, background } => {
                let row = |row: usize| SparseRow { own: rows.entries(row).collect(), left: rows.left[row] };
                ((0..self.prior.len()).map(row).collect(), background.clone())
            }
        })
    }

    /// Number of symbols.
    pub fn domain(&self) -> u32 {
        u32::try_from(self.prior.len()).unwrap_or(u32::MAX)
    }

    /// Order.
    pub const fn order(&self) -> Order {
        if self.pairs.is_some() { Order::Two } else { Order::One }
    }

    /// Distribution of the first symbol.
    pub fn prior(&self) -> &[f64] {
        &self.prior
    }

    /// Number of transition probabilities kept.
    pub fn entries(&self) -> usize {
        let pairs = self.pairs.as_ref().map_or(0, |pairs| pairs.rows.symbols.len());
        pairs
            + match &self.transitions {
                Transitions::Dense(matrix) => matrix.len(),
                Transitions::Sparse { rows, .. } => rows.symbols.len(),
            }
    }

    /// Probability that `next` follows `present`. At order 2 it depends on `before`, which is `None` for the first
    /// symbol. Zero outside the domain.
    pub fn transition(&self, before: Option<u32>, present: u32, next: u32) -> f64 {
        let domain = self.domain();
        if present >= domain || next >= domain || before.is_some_and(|before| before >= domain) {
            return 0.0;
        }
        let own = |rows: &Rows, row: usize| {
            let range = rows.range(row);
            let found = rows.symbols[range.clone()].binary_search(&next);
            found.map_or(0.0, |position| rows.probabilities[range.start + position])
        };
        let first = match &self.transitions {
            Transitions::Dense(matrix) => matrix[present as usize * domain as usize + next as usize],
            Transitions::Sparse { rows, background } => {
                own(rows, present as usize) + rows.left[present as usize] * background[next as usize]
            }
        };
        let (Some(Pairs { pairs, rows }), Some(before)) = (&self.pairs, before) else { return first };
        match pairs.binary_search(&(u64::from(before) * u64::from(domain) + u64::from(present))) {
            Ok(row) => own(rows, row) + rows.left[row] * first,
            Err(_) => first,
        }
    }
}

/// Counts observations of rows and symbols.
fn count(mut observations: Vec<(u64, u32)>, pseudo: f64) -> Vec<(u64, SparseRow)> {
    observations.sort_unstable();
    observations
        .chunk_by(|first, second| first.0 == second.0)
        .map(|row| {
            #[allow(clippy::cast_precision_loss)] // counts far below 2^53
            let mass = row.len() as f64 + pseudo;
            #[allow(clippy::cast_precision_loss)]
            let entry = |seen: &[(u64, u32)]| (seen[0].1, seen.len() as f64 / mass);
            let own = row.chunk_by(|first, second| first.1 == second.1).map(entry).collect();
            (row[0].0, SparseRow { own, left: pseudo / mass })
        })
        .collect()
}

/// Validates a distribution in two parts and normalises it. One already normalised up to rounding stays unchanged, so
/// that a saved model loads identically.
fn make_distribution(first: &mut [f64], second: &mut [f64], what: &'static str, row: u64) -> Result<(), ModelError> {
    let sum = check_distribution(first.iter().chain(second.iter()).copied(), what, row)?;
    #[allow(clippy::cast_precision_loss)] // lengths far below 2^53
    let rounding = (first.len() + second.len() + 2) as f64 * f64::EPSILON;
    if (sum - 1.0).abs() > rounding {
        first.iter_mut().chain(second).for_each(|probability| *probability /= sum);
    }
    Ok(())
}

/// Sum of a distribution.
pub(crate) fn check_distribution(
    probabilities: impl Iterator<Item = f64>,
    what: &'static str,
    row: u64,
) -> Result<f64, ModelError> {
    let mut sum = 0.0;
    for given in probabilities {
        if !(given.is_finite() && given >= 0.0) {
            return Err(ModelError::Probability { what, row, given });
        }
        sum += given;
    }
    if (sum - 1.0).abs() > SUM_TOLERANCE { Err(ModelError::Sum { what, row, given: sum }) } else { Ok(sum) }
}
