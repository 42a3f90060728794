//! [`Distance`]: how far an answer is from the symbol that it was given for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bins::LineDistance;
use super::grid;

/// The largest domain of a [`DistanceMatrix`]: its square is 16 million numbers.
pub const MAX_MATRIX: usize = 4096;

/// How far an answer is from a symbol. Mechanisms choose the channel whose expected distance is least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Distance {
    /// One for a wrong answer: its expectation is the probability of error.
    Hamming,
    /// `|x - y|`, for symbols on a line.
    Absolute,
    /// `(x - y)²`, for symbols on a line.
    Squared,
    /// Euclidean, between cells of a grid that are numbered by rows.
    Grid {
        /// How many cells a row has.
        columns: u32,
    },
    /// Any other, as a table.
    Matrix(DistanceMatrix),
}

impl Distance {
    /// The distance of an answer from a symbol; zero where a matrix does not have them.
    pub fn between(&self, symbol: u32, answer: u32) -> f64 {
        match self {
            Self::Hamming => f64::from(u8::from(symbol != answer)),
            Self::Absolute => LineDistance::Absolute.between(symbol, answer),
            Self::Squared => LineDistance::Squared.between(symbol, answer),
            Self::Grid { columns } => grid::between(symbol, answer, *columns),
            Self::Matrix(matrix) => matrix.between(symbol, answer),
        }
    }

    /// The answer whose expected distance is least, whatever the symbol; on a grid, nearly so.
    pub fn best_answer(&self, belief: &[f64]) -> u32 {
        let symbols = || (0_u32..).zip(belief).filter(|(_, weight)| **weight > 0.0);
        let total: f64 = belief.iter().sum();
        match self {
            Self::Hamming => {
                let likeliest = symbols().reduce(|best, next| if next.1 > best.1 { next } else { best });
                likeliest.map_or(0, |(symbol, _)| symbol)
            }
            // The median.
            Self::Absolute => {
                let mut below = 0.0;
                let reached = symbols().find(|(_, weight)| {
                    below += **weight;
                    2.0 * below >= total
                });
                reached.map_or(0, |(symbol, _)| symbol)
            }
            // The symbol next to the mean.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a mean of symbols
            Self::Squared => {
                let sum: f64 = symbols().map(|(symbol, weight)| weight * f64::from(symbol)).sum();
                (sum / total).round() as u32
            }
            Self::Grid { columns } => grid::best_answer(belief, *columns),
            Self::Matrix(matrix) => {
                let cost = |answer: u32| symbols().map(|(x, weight)| weight * matrix.between(x, answer)).sum::<f64>();
                let costs = (0_u32..).take(matrix.domain()).map(|answer| (cost(answer), answer));
                costs.min_by(|(one, _), (other, _)| one.total_cmp(other)).map_or(0, |(_, answer)| answer)
            }
        }
    }

    /// The size of the domain, for a matrix; the others are for domains of any size.
    pub fn domain(&self) -> Option<usize> {
        match self {
            Self::Matrix(matrix) => Some(matrix.domain()),
            _ => None,
        }
    }
}

/// A square table of distances. Copies share their numbers.
///
/// ```
/// use tidegate::sequence::distance::DistanceMatrix;
///
/// let ring = DistanceMatrix::new(vec![vec![0.0, 1.0, 1.0], vec![1.0, 0.0, 1.0], vec![1.0, 1.0, 0.0]])?;
/// assert_eq!(ring.between(0, 2), 1.0);
/// assert!(DistanceMatrix::new(vec![vec![0.0, -1.0], vec![1.0, 0.0]]).is_err());
/// # Ok::<(), tidegate::sequence::distance::MatrixError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>", into = "Vec<Vec<f64>>")]
pub struct DistanceMatrix {
    domain: usize,
    /// Row after row.
    entries: Arc<[f64]>,
}

/// Why numbers are not a [`DistanceMatrix`].
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    #[error("a distance matrix over {given} symbols is outside 1..={MAX_MATRIX}")]
    Domain { given: usize },
    #[error("row {row} of the distance matrix has {given} numbers instead of {expected}")]
    Row { row: usize, given: usize, expected: usize },
    #[error("row {row}, column {column} of the distance matrix is {given}; distances are finite and not negative")]
    Entry { row: usize, column: usize, given: f64 },
}

impl DistanceMatrix {
    /// A table with a row for each symbol and a column for each answer, of numbers that are finite and not negative. It
    /// need be neither symmetric nor a metric.
    pub fn new(rows: Vec<Vec<f64>>) -> Result<Self, MatrixError> {
        let domain = rows.len();
        if domain == 0 || domain > MAX_MATRIX {
            return Err(MatrixError::Domain { given: domain });
        }
        for (row, numbers) in rows.iter().enumerate() {
            if numbers.len() != domain {
                return Err(MatrixError::Row { row, given: numbers.len(), expected: domain });
            }
            let wrong = numbers.iter().enumerate().find(|(_, number)| !(number.is_finite() && **number >= 0.0));
            if let Some((column, &given)) = wrong {
                return Err(MatrixError::Entry { row, column, given });
            }
        }
        Ok(Self { domain, entries: rows.into_iter().flatten().collect() })
    }

    /// The number of symbols.
    pub const fn domain(&self) -> usize {
        self.domain
    }

    /// The distance of an answer from a symbol; zero where there is no such symbol or answer.
    pub fn between(&self, symbol: u32, answer: u32) -> f64 {
        let (row, column) = (symbol as usize, answer as usize);
        if row < self.domain && column < self.domain { self.entries[row * self.domain + column] } else { 0.0 }
    }
}

impl TryFrom<Vec<Vec<f64>>> for DistanceMatrix {
    type Error = MatrixError;

    fn try_from(rows: Vec<Vec<f64>>) -> Result<Self, MatrixError> {
        Self::new(rows)
    }
}

impl From<DistanceMatrix> for Vec<Vec<f64>> {
    fn from(matrix: DistanceMatrix) -> Self {
        matrix.entries.chunks(matrix.domain).map(<[f64]>::to_vec).collect()
    }
}
