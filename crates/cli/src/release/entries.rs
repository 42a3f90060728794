//! Lines of a table as entries of a stream.

use std::io::Read;
use std::sync::Arc;

use tidegate::kernel::Account;
use tidegate::mechanisms::Family;
use tidegate::series::Series;
use tidegate::spec::{Intake, Values};
use tidegate::stream::{Entry, Stream};
use tidegate_table::long::{FieldRefusal, LongReader};
use tidegate_table::scalar::ScalarReader;
use tidegate_table::wide::{LongOrWide, WideReader};
use tidegate_table::{Format, Reading, TableError};

/// The next entry with its line number and the number of its series; `None` at the end of the input.
pub(super) type Next = Result<Option<(u64, usize, Entry)>, TableError>;

/// The input format of a stream.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Numbers, released as they are read; each series has an account.
    Readings { intake: Intake, accounts: Vec<Account> },
    /// Values of users.
    Values {
        values: Values,
        /// Whether the input may also be counts of users.
        counts: bool,
    },
}

impl Expected {
    /// Returns `None` for streams of neither readings nor values.
    pub(super) fn of(series: &Series) -> Option<Self> {
        let first = series.streams().first()?;
        if let Some((intake, _)) = first.intake() {
            let accounts = series.streams().iter().map(Stream::account).collect::<Option<_>>()?;
            return Some(Self::Readings { intake, accounts });
        }
        let mechanism = series.spec().mechanism();
        let counts = mechanism.family == Family::Central && !mechanism.by_class;
        Some(Self::Values { values: first.values()?.clone(), counts })
    }

    /// Opens a reader of entries.
    pub(super) fn read<'a, S: Read + 'a>(
        self,
        name: &str,
        source: S,
        format: Format,
        reading: Reading,
    ) -> Result<Box<dyn FnMut() -> Next + 'a>, TableError> {
        match self {
            Self::Readings { intake, accounts } => {
                let mut readings = ScalarReader::open(name, source, format, reading)?;
                Ok(Box::new(move || {
                    let seal = |series: usize, timestamp, text: &str| {
                        (series, Entry::Reading(intake.seal(accounts[series], timestamp, text)))
                    };
                    Ok(readings.next_text(seal)?.map(|(series, entry)| (readings.line(), series, entry)))
                }))
            }
            Self::Values { values, counts } => read_values(values, counts, name, source, format, reading),
        }
    }
}

/// A table in long form or, for counts, in either form.
enum Reader<S> {
    Long(LongReader<S>),
    /// A wide table, with the value of each field.
    Wide(WideReader<S>, Vec<usize>),
}

fn read_values<'a, S: Read + 'a>(
    values: Values,
    counts: bool,
    name: &str,
    source: S,
    format: Format,
    reading: Reading,
) -> Result<Box<dyn FnMut() -> Next + 'a>, TableError> {
    let mut reader = if counts {
        match LongOrWide::open(name, source, format, reading)? {
            LongOrWide::Long(entries) => Reader::Long(entries),
            LongOrWide::Wide(rows) => {
                let places = places(&values, name, &rows)?;
                Reader::Wide(rows, places)
            }
        }
    } else {
        Reader::Long(LongReader::open(name, source, format, reading)?)
    };
    Ok(Box::new(move || match &mut reader {
        Reader::Long(entries) => entries.next_checked(|entry| {
            let value = values.find(entry.value).ok_or_else(|| FieldRefusal {
                field: "value",
                expected: "a value of the domain, as the spec names it; empty = \"skip\" leaves lines without one out"
                    .into(),
            })?;
            let of_user = Entry::Value { timestamp: entry.timestamp, user: Arc::clone(entry.user), value };
            Ok((entry.line, entry.series, of_user))
        }),
        Reader::Wide(rows, places) => Ok(rows.next_row()?.map(|row| {
            let mut counts = vec![0; row.counts.len()];
            places.iter().zip(row.counts).for_each(|(place, count)| counts[*place] = count);
            (row.line, row.series, Entry::Counts { timestamp: row.timestamp, counts })
        })),
    }))
}

/// Returns the value of each field of a wide table; each value must occur exactly once.
fn places<S: Read>(values: &Values, name: &str, rows: &WideReader<S>) -> Result<Vec<usize>, TableError> {
    let places: Option<Vec<usize>> =
        rows.labels().map(|label| values.find(label.trim()).map(|value| value as usize)).collect();
    let mut sorted = places.clone().unwrap_or_default();
    sorted.sort_unstable();
    match places {
        Some(places) if sorted.into_iter().eq(0..values.count() as usize) => Ok(places),
        _ => Err(TableError::Header {
            file: name.to_owned(),
            expected: "the fields must be t,user,value, or t and each value of the domain, as the spec names it; \
                       --time, --user and --value name other columns, and --no-header says that the first line is data"
                .to_owned(),
        }),
    }
}
