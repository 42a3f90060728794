//! [`ArrowRows`]: a table from an Arrow C stream, row by row.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::types::{
    Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeStringArray, PrimitiveArray, RecordBatch, RecordBatchReader, StringArray,
    StringViewArray,
};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use jiff::Timestamp;
use jiff::tz::Offset;
use pyo3::prelude::*;
use tidegate_table::{Cells, Rows};

use crate::columns::TimeKind;
use crate::error::{BadData, Failure};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// A table from any object with `__arrow_c_stream__`: of polars, pandas, pyarrow and others.
///
/// Columns keep their memory; nothing is copied but the cells of the present row.
pub(crate) struct ArrowRows {
    batches: Box<dyn RecordBatchReader + Send>,
    schema: SchemaRef,
    /// Which columns are read.
    wanted: Vec<bool>,
    /// The columns of the present batch; `None` for those that are not read.
    columns: Vec<Option<Column>>,
    row: usize,
    rows: usize,
    text: String,
}

impl ArrowRows {
    pub(crate) fn open(table: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        if !table.hasattr("__arrow_c_stream__")? {
            let kind = table.get_type().name()?;
            let message = format!(
                "expected a table of polars, pandas or pyarrow, or another with __arrow_c_stream__; {kind} has none"
            );
            return Err(BadData::new_err(message).into());
        }
        let stream = RecordBatchStreamReader::from_pyarrow_bound(table)?;
        let batches: Box<dyn RecordBatchReader + Send> = Box::new(stream);
        let schema = batches.schema();
        let wanted = vec![true; schema.fields().len()];
        Ok(Self { batches, schema, wanted, columns: Vec::new(), row: 0, rows: 0, text: String::new() })
    }

    /// The type of a column, if there is one of that name.
    fn kind_of(&self, column: &str) -> Option<&DataType> {
        let field = self.schema.fields().iter().find(|field| field.name().trim() == column)?;
        Some(match field.data_type() {
            DataType::Dictionary(_, values) => values,
            kind => kind,
        })
    }

    /// Refuses names of users that are neither text nor whole numbers: one user could have several of them.
    pub(crate) fn check_names(&self, column: &str) -> Result<(), Failure> {
        match self.kind_of(column) {
            Some(kind) if kind.is_floating() => {
                let message = format!(
                    "column {column:?}: expected users as text or whole numbers, and these are {kind}: an integer \
                     column with gaps becomes one of floats in pandas; drop the rows without a user"
                );
                Err(BadData::new_err((message, None::<u64>, column.to_owned())).into())
            }
            _ => Ok(()),
        }
    }

    /// The type that times of releases have: that of the times of this table.
    pub(crate) fn time_kind(&self, column: &str) -> TimeKind {
        match self.kind_of(column) {
            Some(DataType::Date32 | DataType::Date64) => TimeKind::Date,
            Some(DataType::Timestamp(_, None)) => TimeKind::Moment { zone: None },
            Some(DataType::Timestamp(_, Some(zone))) => match zone_of(zone) {
                Ok((_, ahead)) => TimeKind::Moment { zone: Some((Arc::clone(zone), ahead)) },
                // Refused with the first row.
                Err(_) => TimeKind::Text,
            },
            _ => TimeKind::Text,
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let columns = self.wanted.iter().zip(batch.columns()).zip(self.schema.fields());
        let columns = columns.map(|((wanted, column), field)| match wanted {
            true => Column::of(column).map(Some).map_err(|problem| format!("column {:?}: {problem}", field.name())),
            false => Ok(None),
        });
        self.columns = columns.collect::<Result<_, _>>()?;
        (self.row, self.rows) = (0, batch.num_rows());
        Ok(())
    }
}

impl Rows for ArrowRows {
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn read_only(&mut self, columns: &[usize]) {
        self.wanted.iter_mut().enumerate().for_each(|(place, wanted)| *wanted = columns.contains(&place));
    }

    fn next_row(&mut self, cells: &mut Cells<'_>) -> io::Result<bool> {
        while self.row == self.rows {
            let Some(batch) = self.batches.next() else { return Ok(false) };
            self.take(&batch.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        for column in &mut self.columns {
            match column {
                Some(column) => cells.push(column.cell(self.row, &mut self.text)),
                None => cells.push(""),
            }
        }
        self.row += 1;
        Ok(true)
    }
}

/// A column of a batch.
enum Column {
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Flags(BooleanArray),
    Single(PrimitiveArray<Float32Type>),
    Double(PrimitiveArray<Float64Type>),
    Signed(Numbers<i64>),
    Unsigned(Numbers<u64>),
    Times(Times),
    /// Values, and which of them each row has.
    Named(Vec<usize>, ArrayRef, Box<Self>),
    Nothing,
}

/// A column of whole numbers.
struct Numbers<T> {
    column: ArrayRef,
    number: fn(&ArrayRef, usize) -> T,
}

/// A column of dates or times.
struct Times {
    numbers: Numbers<i64>,
    /// How many units a second has; none for dates in days.
    per_second: Option<i64>,
    /// Whether cells are dates, without a time of day.
    is_date: bool,
    /// The end of each text, and the seconds that the local clock is ahead of UTC.
    zone: (Arc<str>, i64),
    /// The last number and its text: many rows have the same time.
    last: Option<i64>,
    text: String,
}

macro_rules! numbers {
    ($column:expr, $kind:ty, $number:ty) => {
        Numbers::<$number> {
            column: Arc::clone($column),
            number: |column, row| column.as_primitive::<$kind>().value(row).into(),
        }
    };
}

impl Column {
    fn of(column: &ArrayRef) -> Result<Self, String> {
        Ok(match column.data_type() {
            DataType::Null => Self::Nothing,
            DataType::Utf8 => Self::Text(column.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeText(column.as_string().clone()),
            DataType::Utf8View => Self::TextView(column.as_string_view().clone()),
            DataType::Boolean => Self::Flags(column.as_boolean().clone()),
            DataType::Float32 => Self::Single(column.as_primitive().clone()),
            DataType::Float64 => Self::Double(column.as_primitive().clone()),
            DataType::Int8 => Self::Signed(numbers!(column, Int8Type, i64)),
            DataType::Int16 => Self::Signed(numbers!(column, Int16Type, i64)),
            DataType::Int32 => Self::Signed(numbers!(column, Int32Type, i64)),
            DataType::Int64 => Self::Signed(numbers!(column, Int64Type, i64)),
            DataType::UInt8 => Self::Unsigned(numbers!(column, UInt8Type, u64)),
            DataType::UInt16 => Self::Unsigned(numbers!(column, UInt16Type, u64)),
            DataType::UInt32 => Self::Unsigned(numbers!(column, UInt32Type, u64)),
            DataType::UInt64 => Self::Unsigned(numbers!(column, UInt64Type, u64)),
            DataType::Date32 => Self::Times(Times::dates(numbers!(column, Date32Type, i64), None)),
            DataType::Date64 => Self::Times(Times::dates(numbers!(column, Date64Type, i64), Some(1_000))),
            DataType::Timestamp(unit, zone) => {
                let (numbers, per_second) = match unit {
                    TimeUnit::Second => (numbers!(column, TimestampSecondType, i64), 1),
                    TimeUnit::Millisecond => (numbers!(column, TimestampMillisecondType, i64), 1_000),
                    TimeUnit::Microsecond => (numbers!(column, TimestampMicrosecondType, i64), 1_000_000),
                    TimeUnit::Nanosecond => (numbers!(column, TimestampNanosecondType, i64), 1_000_000_000),
                };
                let zone = zone.as_deref().map_or(Ok(("".into(), 0)), zone_of)?;
                Self::Times(Times { zone, is_date: false, ..Times::dates(numbers, Some(per_second)) })
            }
            DataType::Dictionary(..) => {
                let named = column.as_any_dictionary();
                if named.values().is_empty() {
                    return Ok(Self::Nothing);
                }
                let values = Box::new(Self::of(named.values())?);
                Self::Named(named.normalized_keys(), Arc::clone(column), values)
            }
            other => {
                return Err(format!("expected text, numbers, truth values, dates or times, and these are {other}"));
            }
        })
    }

    /// The text of a cell; empty where there is nothing.
    fn cell<'a>(&'a mut self, row: usize, text: &'a mut String) -> &'a str {
        text.clear();
        // Writing to a string does not fail.
        let _ = match self {
            Self::Nothing => Ok(()),
            Self::Text(column) => return if column.is_null(row) { "" } else { column.value(row) },
            Self::LargeText(column) => return if column.is_null(row) { "" } else { column.value(row) },
            Self::TextView(column) => return if column.is_null(row) { "" } else { column.value(row) },
            Self::Flags(column) if column.is_valid(row) => write!(text, "{}", column.value(row)),
            Self::Single(column) if column.is_valid(row) => write!(text, "{}", column.value(row)),
            Self::Double(column) if column.is_valid(row) => write!(text, "{}", column.value(row)),
            Self::Signed(numbers) if numbers.column.is_valid(row) => {
                write!(text, "{}", (numbers.number)(&numbers.column, row))
            }
            Self::Unsigned(numbers) if numbers.column.is_valid(row) => {
                write!(text, "{}", (numbers.number)(&numbers.column, row))
            }
            Self::Times(times) if times.numbers.column.is_valid(row) => return times.cell(row),
            Self::Named(places, column, values) if column.is_valid(row) => return values.cell(places[row], text),
            _ => Ok(()),
        };
        text
    }
}

impl Times {
    fn dates(numbers: Numbers<i64>, per_second: Option<i64>) -> Self {
        Self { numbers, per_second, is_date: true, zone: ("".into(), 0), last: None, text: String::new() }
    }

    fn cell(&mut self, row: usize) -> &str {
        let number = (self.numbers.number)(&self.numbers.column, row);
        if self.last.replace(number) != Some(number) {
            let seconds = match self.per_second {
                None => number.saturating_mul(DAY),
                Some(per_second) => number.div_euclid(per_second),
            };
            self.write(seconds.saturating_add(self.zone.1));
        }
        &self.text
    }

    /// Writes a time as ISO 8601 has it.
    fn write(&mut self, seconds: i64) {
        self.text.clear();
        // A moment outside the years -9999 to 9999 has no text, and is refused as no time.
        let Ok(moment) = Timestamp::from_second(seconds) else { return };
        let local = Offset::UTC.to_datetime(moment);
        // Writing to a string does not fail.
        let _ = write!(self.text, "{}", local.date());
        if !self.is_date {
            let _ =
                write!(self.text, "T{:02}:{:02}:{:02}{}", local.hour(), local.minute(), local.second(), self.zone.0);
        }
    }
}

/// The end of a time's text in a zone, and the seconds that its clock is ahead of UTC.
fn zone_of(zone: &str) -> Result<(Arc<str>, i64), String> {
    if ["UTC", "Z", "+00:00", "Etc/UTC", "GMT"].contains(&zone) {
        return Ok(("Z".into(), 0));
    }
    let fixed = || {
        let (sign, rest) = match zone.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':')?;
        let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
        Some((zone.into(), sign * (hours * 3_600 + minutes * 60)))
    };
    fixed().ok_or_else(|| {
        format!(
            "the offset of {zone:?} from UTC changes with the season: convert the times to UTC, or take the zone off \
             them to count days and hours of the local clock"
        )
    })
}
