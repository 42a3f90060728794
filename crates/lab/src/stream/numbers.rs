//! [`NumberStream`]: a data set for the scalar family.

use tidegate_kernel::Grid;

use super::StreamError;

/// One number at each timestamp, within a domain that everybody knows.
///
/// The domain and its resolution are a [`Grid`]: declared, never taken from the data. The numbers lie within the
/// domain, but need not lie on the grid; a mechanism rounds them to it when it seals them.
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
    /// A stream of numbers, all of them within the domain; at least one.
    pub fn new(name: impl Into<String>, grid: Grid, values: Vec<f64>) -> Result<Self, StreamError> {
        if values.is_empty() {
            return Err(StreamError::Empty);
        }
        if let Some(timestamp) = values.iter().position(|value| grid.steps(*value).is_err()) {
            return Err(StreamError::OutsideDomain { timestamp, low: grid.low(), high: grid.high() });
        }
        Ok(Self { name: name.into(), grid, values, stand_in: None })
    }

    /// Marks the stream as standing in for another one, and says how it differs.
    #[must_use]
    pub fn standing_in_for(self, what: impl Into<String>) -> Self {
        Self { stand_in: Some(what.into()), ..self }
    }

    /// The first timestamps only; an error where there are fewer, or none were asked for.
    pub fn shortened(mut self, length: usize) -> Result<Self, StreamError> {
        let available = self.values.len();
        if !(1..=available).contains(&length) {
            return Err(StreamError::Length { name: self.name, given: length, available });
        }
        self.values.truncate(length);
        Ok(self)
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public domain, and its resolution.
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The numbers, one a timestamp, at least one.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// What this stream stands in for and how it differs, where it is not the data that its name promises.
    pub fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }
}
