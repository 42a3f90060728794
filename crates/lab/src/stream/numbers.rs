//! [`NumberStream`]: a data set for the scalar family.

use tidegate_kernel::Grid;

use super::DataStreamError;

/// One number at each timestamp, within a public domain.
///
/// The domain and its resolution are a [`Grid`], which is declared and never taken from the data. Numbers need not lie
/// on the grid; a mechanism rounds them when it seals them.
///
/// ```
/// use tidegate_kernel::Grid;
/// use tidegate_lab::NumberStream;
///
/// let visitors = NumberStream::new("visitors", Grid::new(0.0, 500.0, 1.0)?, vec![212.0, 230.0, 208.0])?;
/// assert_eq!(visitors.grid().width(), 500);
/// assert!(NumberStream::new("visitors", Grid::new(0.0, 200.0, 1.0)?, vec![212.0]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NumberStream {
    name: String,
    grid: Grid,
    values: Vec<f64>,
    stand_in: Option<String>,
}

impl NumberStream {
    /// Creates a stream of at least one number, all within the domain.
    pub fn new(name: impl Into<String>, grid: Grid, values: Vec<f64>) -> Result<Self, DataStreamError> {
        if values.is_empty() {
            return Err(DataStreamError::Empty);
        }
        if let Some(timestamp) = values.iter().position(|value| grid.steps(*value).is_err()) {
            return Err(DataStreamError::OutsideDomain { timestamp, low: grid.low(), high: grid.high() });
        }
        Ok(Self { name: name.into(), grid, values, stand_in: None })
    }

    /// Marks the stream as a substitute; the text describes the original and the difference.
    #[must_use]
    pub fn standing_in_for(self, what: impl Into<String>) -> Self {
        Self { stand_in: Some(what.into()), ..self }
    }

    /// Keeps the first `length` timestamps; an error if there are fewer, or if it is zero.
    pub fn shortened(mut self, length: usize) -> Result<Self, DataStreamError> {
        let available = self.values.len();
        if !(1..=available).contains(&length) {
            return Err(DataStreamError::Length { name: self.name, given: length, available });
        }
        self.values.truncate(length);
        Ok(self)
    }

    /// Returns the name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the domain and its resolution.
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the numbers, one a timestamp.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Describes the original and the difference, if the data are a substitute.
    pub fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }
}
