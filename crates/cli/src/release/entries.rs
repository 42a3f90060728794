//! Lines of a table as entries of a stream.

use std::io::Read;

use tidegate::kernel::Account;
use tidegate::mechanisms::Family;
use tidegate::spec::{Intake, Values};
use tidegate::stream::{Entry, Stream};
use tidegate_table::long::{FieldRefusal, LongReader};
use tidegate_table::scalar::ScalarReader;
use tidegate_table::wide::{LongOrWide, WideReader};
use tidegate_table::{Format, TableError};

/// The next entry with its line number; `None` at the end of the input.
pub(super) type Next = Result<Option<(u64, Entry)>, TableError>;

/// The input format of a stream.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Numbers, released as they are read.
    Readings {
        intake: Intake,
        account: Account,
        /// Timestamps up to this one are closed.
        over: Option<u64>,
    },
    /// Values of users.
    Values {
        values: Values,
        over: Option<u64>,
        /// Whether the input may also be counts of users.
        counts: bool,
    },
}

impl Expected {
    /// Returns `None` for a stream of neither readings nor values.
    pub(super) fn of(stream: &Stream) -> Option<Self> {
        let over = stream.last();
        if let Some((intake, account)) = stream.intake() {
            return Some(Self::Readings { intake, account, over });
        }
        let mechanism = stream.spec().mechanism();
        let counts = mechanism.family == Family::Central && !mechanism.by_class;
        Some(Self::Values { values: stream.values()?.clone(), over, counts })
    }

    /// Opens a reader of entries.
    pub(super) fn read<'a, S: Read + 'a>(
        self,
        name: &str,
        source: S,
        format: Format,
    ) -> Result<Box<dyn FnMut() -> Next + 'a>, TableError> {
        match self {
            Self::Readings { intake, account, over } => {
                let mut readings = ScalarReader::in_format(name, source, format)?.after(over);
                let seal = move |timestamp, text: &str| intake.seal(account, timestamp, text);
                Ok(Box::new(move || {
                    Ok(readings.next_text(seal)?.map(|reading| (readings.line(), Entry::Reading(reading))))
                }))
            }
            Self::Values { values, over, counts } => read_values(values, over, counts, name, source, format),
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
    over: Option<u64>,
    counts: bool,
    name: &str,
    source: S,
    format: Format,
) -> Result<Box<dyn FnMut() -> Next + 'a>, TableError> {
    let mut reader = if counts {
        match LongOrWide::new(name, source, format)? {
            LongOrWide::Long(entries) => Reader::Long(entries.after(over)),
            LongOrWide::Wide(rows) => {
                let places = places(&values, name, &rows)?;
                Reader::Wide(rows.after(over), places)
            }
        }
    } else {
        Reader::Long(LongReader::new(name, source, format)?.after(over))
    };
    Ok(Box::new(move || match &mut reader {
        Reader::Long(entries) => entries.next_checked(|entry| {
            let value = values.find(entry.value).ok_or_else(|| FieldRefusal {
                field: "value",
                expected: "a value of the domain, as the spec names it".into(),
            })?;
            Ok((entry.line, Entry::Value { timestamp: entry.timestamp, user: entry.user.into(), value }))
        }),
        Reader::Wide(rows, places) => Ok(rows.next_row()?.map(|row| {
            let mut counts = vec![0; row.counts.len()];
            places.iter().zip(row.counts).for_each(|(place, count)| counts[*place] = count);
            (row.line, Entry::Counts { timestamp: row.timestamp, counts })
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
            expected: "the fields must be t,user,value, or t and each value of the domain, as the spec names it"
                .to_owned(),
        }),
    }
}
