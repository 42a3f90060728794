//! [`Distance`]: the distance between a symbol and its answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bins::LineDistance;
use crate::grid;

/// Largest domain of a [`DistanceMatrix`]: 16 million entries.
pub const MAX_MATRIX: usize = 4096;

/// Distance between symbol and answer. Mechanisms choose the channel with the least expected distance.
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
    /// Euclidean, between cells of a grid numbered by rows.
    Grid {
        /// Cells in a row.
        columns: u32,
    },
    /// Any other, as a table.
    Matrix(DistanceMatrix),
}

impl Distance {
    /// Distance of an answer from a symbol; zero outside a matrix.
    pub fn between(&self, symbol: u32, answer: u32) -> f64 {
        match self {
            Self::Hamming => f64::from(u8::from(symbol != answer)),
            Self::Absolute => LineDistance::Absolute.between(symbol, answer),
            Self::Squared => LineDistance::Squared.between(symbol, answer),
            Self::Grid { columns } => grid::between(symbol, answer, *columns),
            Self::Matrix(matrix) => matrix.between(symbol, answer),
        }
    }

    /// Answer of the least expected distance; nearly so on a grid.
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
            // The symbol nearest to the mean.
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

    /// Domain of a matrix; the others have any size.
    pub fn domain(&self) -> Option<usize> {
        match self {
            Self::Matrix(matrix) => Some(matrix.domain()),
            _ => None,
        }
    }
}

/// A square table of distances. Copies share their entries.
///
/// ```
/// use tidegate_sequence::distance::DistanceMatrix;
///
/// let ring = DistanceMatrix::new(vec![vec![0.0, 1.0, 1.0], vec![1.0, 0.0, 1.0], vec![1.0, 1.0, 0.0]])?;
/// assert_eq!(ring.between(0, 2), 1.0);
/// assert!(DistanceMatrix::new(vec![vec![0.0, -1.0], vec![1.0, 0.0]]).is_err());
/// # Ok::<(), tidegate_sequence::distance::MatrixError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>", into = "Vec<Vec<f64>>")]
pub struct DistanceMatrix {
    domain: usize,
    /// Row by row.
    entries: Arc<[f64]>,
}

/// Error of a [`DistanceMatrix`].
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
    /// Creates a table with a row for each symbol and a column for each answer, of finite non-negative numbers. It need
    /// be neither symmetric nor a metric.
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

    /// Number of symbols.
    pub const fn domain(&self) -> usize {
        self.domain
    }

    /// Distance of an answer from a symbol; zero outside the table.
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
