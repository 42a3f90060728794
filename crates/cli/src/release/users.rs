//! Values of users: how their lines are read, and who there is.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use tidegate::spec::Values;
use tidegate_table::long::{FieldRefusal as Refused, LongReader as Entries};
use tidegate_table::wide::{LongOrWide, WideReader as Rows};
use tidegate_table::{Format, TableError as DataError};

use super::gate::Next;

/// What one line says.
#[derive(Debug)]
pub(super) enum Line {
    /// What a user holds.
    Value { timestamp: u64, user: Arc<str>, value: u32 },
    /// How many users hold each value.
    Counts { timestamp: u64, counts: Vec<u64> },
}

impl Line {
    pub(super) const fn timestamp(&self) -> u64 {
        match self {
            Self::Value { timestamp, .. } | Self::Counts { timestamp, .. } => *timestamp,
        }
    }
}

/// What is expected of lines.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) values: Values,
    /// Everything up to here is over.
    pub(super) over: Option<u64>,
    /// Whether counts of users do as well.
    pub(super) counts: bool,
}

/// A table in long form or, where counts do, in either.
enum Reader<S> {
    Long(Entries<S>),
    /// With the value of each field.
    Wide(Rows<S>, Vec<usize>),
}

impl Expected {
    /// A reader of lines with their numbers.
    pub(super) fn read<S: Read>(
        self,
        name: &str,
        source: S,
        format: Format,
    ) -> Result<impl FnMut() -> Next<Line>, DataError> {
        let mut reader = if self.counts {
            match LongOrWide::new(name, source, format)? {
                LongOrWide::Long(entries) => Reader::Long(entries.after(self.over)),
                LongOrWide::Wide(rows) => {
                    let places = self.places(name, &rows)?;
                    Reader::Wide(rows.after(self.over), places)
                }
            }
        } else {
            Reader::Long(Entries::new(name, source, format)?.after(self.over))
        };
        let values = self.values;
        Ok(move || match &mut reader {
            Reader::Long(entries) => entries.next_checked(|entry| {
                let value = values.find(entry.value).ok_or_else(|| Refused {
                    field: "value",
                    expected: "a value of the domain, as the spec names it".into(),
                })?;
                let line = Line::Value { timestamp: entry.timestamp, user: entry.user.into(), value };
                Ok((entry.line, line))
            }),
            Reader::Wide(rows, places) => Ok(rows.next_row()?.map(|row| {
                let mut counts = vec![0; row.counts.len()];
                places.iter().zip(row.counts).for_each(|(place, count)| counts[*place] = count);
                (row.line, Line::Counts { timestamp: row.timestamp, counts })
            })),
        })
    }

    /// The values that the fields of a table in wide form are called by: all, and each once.
    fn places<S: Read>(&self, name: &str, rows: &Rows<S>) -> Result<Vec<usize>, DataError> {
        let places: Option<Vec<usize>> =
            rows.labels().map(|label| self.values.find(label.trim()).map(|value| value as usize)).collect();
        let mut sorted = places.clone().unwrap_or_default();
        sorted.sort_unstable();
        match places {
            Some(places) if sorted.into_iter().eq(0..self.values.count() as usize) => Ok(places),
            _ => Err(DataError::Header {
                file: name.to_owned(),
                expected: "the fields must be t,user,value, or t and each value of the domain, as the spec names it"
                    .to_owned(),
            }),
        }
    }
}

/// Users by name, numbered in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Roll<T> {
    numbers: HashMap<Arc<str>, usize>,
    pub(super) users: Vec<(Arc<str>, T)>,
}

impl<T> Roll<T> {
    pub(super) fn of(users: Vec<(String, T)>) -> Self {
        let mut roll = Self { numbers: HashMap::new(), users: Vec::new() };
        for (name, what) in users {
            roll.add(name.into(), what);
        }
        roll
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub(super) fn add(&mut self, name: Arc<str>, what: T) -> usize {
        let number = self.users.len();
        self.numbers.insert(Arc::clone(&name), number);
        self.users.push((name, what));
        number
    }

    /// As it is saved.
    pub(super) fn saving(&self) -> Vec<(&str, &T)> {
        self.users.iter().map(|(name, what)| (name.as_ref(), what)).collect()
    }
}
