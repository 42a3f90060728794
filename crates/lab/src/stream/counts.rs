//! [`CountStream`]: a data set for the local and central families.

use super::StreamError;

/// How many users hold each value of a domain, at each timestamp.
///
/// That is all that a mechanism of the local or central family can learn from: who holds which value is drawn by the
/// simulation, consistently with these counts. Timestamps are numbered from zero, without gaps, and each has at least
/// one user; how many may differ from one to the next.
///
/// ```
/// use tidegate_lab::CountStream;
///
/// let labels = vec!["away".to_owned(), "home".to_owned()];
/// let stream = CountStream::new("evenings", labels, vec![vec![3, 1], vec![1, 4]])?;
/// assert_eq!((stream.length(), stream.domain(), stream.population(1)), (2, 2, 5));
/// assert_eq!(stream.frequencies(0), [0.75, 0.25]);
/// # Ok::<(), tidegate_lab::stream::StreamError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountStream {
    name: String,
    labels: Vec<String>,
    counts: Vec<Vec<u64>>,
    stand_in: Option<String>,
}

/// The most users that a timestamp can have: beyond 2⁵³ a floating-point frequency no longer tells single users apart.
pub const MAX_POPULATION: u64 = 1 << 53;

impl CountStream {
    /// A stream of one row of counts a timestamp, each with a count for every label.
    pub fn new(name: impl Into<String>, labels: Vec<String>, counts: Vec<Vec<u64>>) -> Result<Self, StreamError> {
        if labels.len() < 2 {
            return Err(StreamError::Domain { given: labels.len() });
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(label) = labels.iter().find(|label| !seen.insert(*label)) {
            return Err(StreamError::SameLabel { label: label.clone() });
        }
        if counts.is_empty() {
            return Err(StreamError::Empty);
        }
        for (timestamp, row) in counts.iter().enumerate() {
            if row.len() != labels.len() {
                return Err(StreamError::Width { timestamp, given: row.len(), expected: labels.len() });
            }
            let population = row.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
            if population.is_none_or(|users| users == 0 || users > MAX_POPULATION) {
                return Err(StreamError::Population { timestamp });
            }
        }
        Ok(Self { name: name.into(), labels, counts, stand_in: None })
    }

    /// Marks the stream as standing in for another one, and says how it differs.
    #[must_use]
    pub fn standing_in_for(self, what: impl Into<String>) -> Self {
        Self { stand_in: Some(what.into()), ..self }
    }

    /// The first timestamps only; an error where there are fewer, or none were asked for.
    pub fn shortened(mut self, length: usize) -> Result<Self, StreamError> {
        if !(1..=self.length()).contains(&length) {
            return Err(StreamError::Length { available: self.length(), name: self.name, given: length });
        }
        self.counts.truncate(length);
        Ok(self)
    }

    /// The same frequencies, as nearly as whole users allow, among so many users at every timestamp: each count is
    /// rounded down, and the users that are left over go to the values that lost most by it (the first of them, where
    /// they tie).
    pub fn with_population(mut self, population: u64) -> Result<Self, StreamError> {
        if !(1..=MAX_POPULATION).contains(&population) {
            return Err(StreamError::Population { timestamp: 0 });
        }
        for row in &mut self.counts {
            apportion(row, population);
        }
        Ok(self)
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What each value of the domain stands for.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The number of values of the domain, at least two.
    pub fn domain(&self) -> usize {
        self.labels.len()
    }

    /// The number of timestamps, at least one.
    pub fn length(&self) -> usize {
        self.counts.len()
    }

    /// How many users hold each value: a row a timestamp, with a column a value.
    pub fn counts(&self) -> &[Vec<u64>] {
        &self.counts
    }

    /// The number of users at a timestamp, at least one.
    ///
    /// # Panics
    ///
    /// Where the timestamp is not below [`CountStream::length`].
    pub fn population(&self, timestamp: usize) -> u64 {
        self.counts[timestamp].iter().sum()
    }

    /// The share of users that hold each value at a timestamp.
    ///
    /// # Panics
    ///
    /// Where the timestamp is not below [`CountStream::length`].
    pub fn frequencies(&self, timestamp: usize) -> Vec<f64> {
        let population = as_float(self.population(timestamp));
        self.counts[timestamp].iter().map(|count| as_float(*count) / population).collect()
    }

    /// What this stream stands in for and how it differs, where it is not the data that its name promises.
    pub fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }
}

/// A number of users as a float; exact, since there are at most [`MAX_POPULATION`].
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
