//! [`Truth`]: the numbers behind releases, gathered from the table that was released, for charts.

use std::collections::HashMap;
use std::io::Read;

use tidegate_table::long::LongRow;
use tidegate_table::scalar::ScalarReader;
use tidegate_table::wide::LongOrWide;
use tidegate_table::{Reading, TableError, TableReader};

/// The true number of each timestamp and value. It is not private.
#[derive(Debug, Default)]
pub struct Truth {
    /// By timestamp and value; a number has the empty name.
    counts: HashMap<(u64, String), f64>,
    totals: HashMap<u64, f64>,
}

impl Truth {
    /// Takes a reading. One that is no number has no place in a chart.
    pub fn add_number(&mut self, t: u64, number: Option<f64>) {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            self.counts.insert((t, String::new()), number);
        }
    }

    /// Takes users of a value.
    pub fn add_count(&mut self, t: u64, value: &str, count: f64) {
        *self.counts.entry((t, value.trim().to_owned())).or_default() += count;
        *self.totals.entry(t).or_default() += count;
    }

    /// The reading of a timestamp; `None` where the table has none.
    pub fn number(&self, t: u64) -> Option<f64> {
        self.counts.get(&(t, String::new())).copied()
    }

    /// The users of a value: none at a timestamp that others are present at, `None` where nobody is.
    pub fn count(&self, t: u64, value: &str) -> Option<f64> {
        self.totals.get(&t).map(|_| self.counts.get(&(t, value.to_owned())).copied().unwrap_or(0.0))
    }

    /// The share of a value; `None` where nobody is present.
    pub fn share(&self, t: u64, value: &str) -> Option<f64> {
        let total = self.totals.get(&t).copied().filter(|total| *total > 0.0)?;
        Some(self.count(t, value)? / total)
    }

    /// Gathers the rows of one series by timestamp, as a release reads them: readings of a stream of numbers, values
    /// of users, or counts of users.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn gather<S: Read>(
        table: TableReader<S>,
        reading: Reading,
        has_numbers: bool,
        series: usize,
    ) -> Result<Self, TableError> {
        let mut truth = Self::default();
        if has_numbers {
            let mut rows = ScalarReader::from_table(table, reading)?;
            let parsed = |series, t, text: &str| (series, t, text.trim().parse().ok());
            while let Some((of, t, number)) = rows.next_text(parsed)? {
                if of == series {
                    truth.add_number(t, number);
                }
            }
            return Ok(truth);
        }
        match LongOrWide::from_table(table, reading)? {
            LongOrWide::Long(mut rows) => {
                let mut next = || {
                    rows.next_checked(|LongRow { timestamp, series: of, value, .. }| {
                        if of == series {
                            truth.add_count(timestamp, value, 1.0);
                        }
                        Ok(())
                    })
                };
                while next()?.is_some() {}
            }
            LongOrWide::Wide(mut rows) => {
                let names: Vec<String> = rows.labels().map(str::to_owned).collect();
                while let Some(row) = rows.next_row()? {
                    for (name, count) in names.iter().zip(row.counts).filter(|_| row.series == series) {
                        #[allow(clippy::cast_precision_loss)] // a place in a chart
                        truth.add_count(row.timestamp, name, count as f64);
                    }
                }
            }
        }
        Ok(truth)
    }
}
