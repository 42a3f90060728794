//! [`CountStream`]: a data set for the local and central families.

use tidegate_kernel::Grid;

use super::{DataStreamError, NumberStream};

/// The number of users with each value of a domain, at each timestamp.
///
/// Simulations assign values to users consistently with these counts. Timestamps are numbered from zero, without gaps.
/// The number of users may vary, and be zero.
///
/// ```
/// use tidegate_lab::CountStream;
///
/// let labels = vec!["away".to_owned(), "home".to_owned()];
/// let stream = CountStream::new("evenings", labels, vec![vec![3, 1], vec![1, 4]])?;
/// assert_eq!((stream.length(), stream.domain(), stream.population(1)), (2, 2, 5));
/// assert_eq!(stream.frequencies(0), [0.75, 0.25]);
/// # Ok::<(), tidegate_lab::stream::DataStreamError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountStream {
    name: String,
    labels: Vec<String>,
    counts: Vec<Vec<u64>>,
    stand_in: Option<String>,
}

/// Greatest number of users at a timestamp: 2⁵³, up to which floating-point numbers are exact.
pub const MAX_POPULATION: u64 = 1 << 53;

impl CountStream {
    /// Creates a stream from rows of counts, one row a timestamp and one column a label: at least two labels, and at
    /// least one user at each timestamp.
    pub fn new(name: impl Into<String>, labels: Vec<String>, counts: Vec<Vec<u64>>) -> Result<Self, DataStreamError> {
        if labels.len() < 2 {
            return Err(DataStreamError::Domain { given: labels.len() });
        }
        if let Some(timestamp) = counts.iter().position(|row| row.iter().all(|count| *count == 0)) {
            return Err(DataStreamError::Population { timestamp });
        }
        Self::with_absences(name, labels, counts)
    }

    /// Like [`CountStream::new`], for tables of one's own: there may be a single label, and nobody at a timestamp.
    pub fn with_absences(
        name: impl Into<String>,
        labels: Vec<String>,
        counts: Vec<Vec<u64>>,
    ) -> Result<Self, DataStreamError> {
        if labels.is_empty() {
            return Err(DataStreamError::NoValues);
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(label) = labels.iter().find(|label| !seen.insert(*label)) {
            return Err(DataStreamError::SameLabel { label: label.clone() });
        }
        if counts.is_empty() {
            return Err(DataStreamError::Empty);
        }
        for (timestamp, row) in counts.iter().enumerate() {
            if row.len() != labels.len() {
                return Err(DataStreamError::Width { timestamp, given: row.len(), expected: labels.len() });
            }
            let population = row.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
            if population.is_none_or(|users| users > MAX_POPULATION) {
                return Err(DataStreamError::Population { timestamp });
            }
        }
        Ok(Self { name: name.into(), labels, counts, stand_in: None })
    }

    /// Marks the stream as a substitute; the text describes the original and the difference.
    #[must_use]
    pub fn standing_in_for(self, what: impl Into<String>) -> Self {
        Self { stand_in: Some(what.into()), ..self }
    }

    /// Keeps the first `length` timestamps; an error if there are fewer, or if it is zero.
    pub fn shortened(mut self, length: usize) -> Result<Self, DataStreamError> {
        if !(1..=self.length()).contains(&length) {
            return Err(DataStreamError::Length { available: self.length(), name: self.name, given: length });
        }
        self.counts.truncate(length);
        Ok(self)
    }

    /// Scales each timestamp with users to `population` users by the method of largest remainders. Ties go to the first
    /// value.
    pub fn with_population(mut self, population: u64) -> Result<Self, DataStreamError> {
        if !(1..=MAX_POPULATION).contains(&population) {
            return Err(DataStreamError::Population { timestamp: 0 });
        }
        for row in self.counts.iter_mut().filter(|row| row.iter().any(|count| *count > 0)) {
            apportion(row, population);
        }
        Ok(self)
    }

    /// Returns the name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of the values.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Returns the number of values, at least one.
    pub fn domain(&self) -> usize {
        self.labels.len()
    }

    /// Returns the number of timestamps, at least one.
    pub fn length(&self) -> usize {
        self.counts.len()
    }

    /// Returns the counts: one row a timestamp, one column a value.
    pub fn counts(&self) -> &[Vec<u64>] {
        &self.counts
    }

    /// Returns the mean value of the users at each timestamp, where values are the numbers 0, 1, 2, and so on; `None`
    /// for a single value, and where nobody is there at some timestamp.
    pub fn means(&self) -> Option<NumberStream> {
        let greatest = as_float(self.domain() as u64 - 1);
        let mean = |(timestamp, row): (usize, &Vec<u64>)| {
            let users = as_float(self.population(timestamp));
            let sum: f64 = (0..).zip(row).map(|(value, count)| as_float(value) * as_float(*count)).sum();
            (users > 0.0).then(|| (sum / users).clamp(0.0, greatest))
        };
        let means: Option<Vec<f64>> = self.counts.iter().enumerate().map(mean).collect();
        NumberStream::new(self.name.clone(), Grid::new(0.0, greatest, 1.0).ok()?, means?).ok()
    }

    /// Returns the number of users at a timestamp.
    ///
    /// # Panics
    ///
    /// If the timestamp is not below [`CountStream::length`].
    pub fn population(&self, timestamp: usize) -> u64 {
        self.counts[timestamp].iter().sum()
    }

    /// Returns the share of users with each value at a timestamp; zeros where nobody is present.
    ///
    /// # Panics
    ///
    /// If the timestamp is not below [`CountStream::length`].
    pub fn frequencies(&self, timestamp: usize) -> Vec<f64> {
        let population = as_float(self.population(timestamp).max(1));
        self.counts[timestamp].iter().map(|count| as_float(*count) / population).collect()
    }

    /// Describes the original and the difference, if the data are a substitute.
    pub fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }
}

/// Converts a number of users, exactly up to [`MAX_POPULATION`].
#[allow(clippy::cast_precision_loss)]
pub const fn as_float(users: u64) -> f64 {
    users as f64
}

fn apportion(row: &mut [u64], population: u64) {
    let total = u128::from(row.iter().sum::<u64>());
    let mut remainders = Vec::with_capacity(row.len());
    for (value, count) in row.iter_mut().enumerate() {
        let share = u128::from(*count) * u128::from(population);
        #[allow(clippy::cast_possible_truncation)] // at most the population
        let whole = (share / total) as u64;
        *count = whole;
        remainders.push((std::cmp::Reverse(share % total), value));
    }
    remainders.sort_unstable();
    let left = population - row.iter().sum::<u64>();
    // Fewer are left than there are values: each lost less than one user.
    for ((_, value), _) in remainders.iter().zip(0..left) {
        row[*value] += 1;
    }
}
