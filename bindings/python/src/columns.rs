//! Releases as an Arrow C stream.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Date32Type;
use arrow_array::{
    ArrayRef, PrimitiveArray, RecordBatch, RecordBatchIterator, TimestampMicrosecondArray, builder::PrimitiveBuilder,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate_table::releases::{Cell, Column, ColumnKind};

use crate::error::TidegateError;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// The type of the times of releases: that of the caller's table.
#[derive(Clone, Debug)]
pub(crate) enum TimeKind {
    /// Text, as the command writes it.
    Text,
    Date,
    /// Times in a zone with a fixed offset from UTC in seconds, or in none.
    Moment {
        zone: Option<(Arc<str>, i64)>,
    },
}

/// Builds the columns of a table.
pub(crate) struct Builder {
    fields: Vec<Field>,
    columns: Vec<Cells>,
    next: usize,
}

enum Cells {
    Whole(UInt64Builder),
    Number(Float64Builder),
    Text(StringBuilder),
    Flag(BooleanBuilder),
    Dates(PrimitiveBuilder<Date32Type>),
    Moments(Vec<i64>, Option<(Arc<str>, i64)>),
}

impl Builder {
    pub(crate) fn new(columns: &[Column], times: &TimeKind) -> Self {
        let of_column = |column: &Column| {
            let cells = match (column.name, times, column.kind) {
                ("time", TimeKind::Date, _) => Cells::Dates(PrimitiveBuilder::new()),
                ("time", TimeKind::Moment { zone }, _) => Cells::Moments(Vec::new(), zone.clone()),
                (_, _, ColumnKind::Whole) => Cells::Whole(UInt64Builder::new()),
                (_, _, ColumnKind::Number) => Cells::Number(Float64Builder::new()),
                (_, _, ColumnKind::Text) => Cells::Text(StringBuilder::new()),
                (_, _, ColumnKind::Flag) => Cells::Flag(BooleanBuilder::new()),
            };
            let kind = match &cells {
                Cells::Whole(_) => DataType::UInt64,
                Cells::Number(_) => DataType::Float64,
                Cells::Text(_) => DataType::Utf8,
                Cells::Flag(_) => DataType::Boolean,
                Cells::Dates(_) => DataType::Date32,
                Cells::Moments(_, zone) => {
                    let zone = zone.as_ref().map(|(zone, _)| Arc::clone(zone));
                    DataType::Timestamp(TimeUnit::Microsecond, zone)
                }
            };
            (Field::new(column.name, kind, column.name == "variance"), cells)
        };
        let (fields, columns) = columns.iter().map(of_column).unzip();
        Self { fields, columns, next: 0 }
    }

    /// Adds the next cell of a line; `begins` is the beginning of its timestamp, in seconds by the local clock.
    pub(crate) fn push(&mut self, cell: Cell<'_>, begins: Option<i64>) {
        let begins = begins.unwrap_or_default();
        match (&mut self.columns[self.next], cell) {
            (Cells::Whole(column), Cell::Whole(number)) => column.append_value(number),
            (Cells::Number(column), Cell::Number(number)) => column.append_option(number),
            (Cells::Text(column), Cell::Text(text)) => column.append_value(text),
            (Cells::Flag(column), Cell::Flag(flag)) => column.append_value(flag),
            (Cells::Dates(column), _) => column.append_option(i32::try_from(begins.div_euclid(DAY)).ok()),
            (Cells::Moments(column, zone), _) => {
                let ahead = zone.as_ref().map_or(0, |(_, ahead)| *ahead);
                column.push(begins.saturating_sub(ahead).saturating_mul(1_000_000));
            }
            // A column has cells of its kind.
            _ => {}
        }
        self.next = (self.next + 1) % self.columns.len();
    }

    /// The columns, as a capsule of an Arrow C stream.
    pub(crate) fn finish(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        let refused = |error: ArrowError| TidegateError::new_err(error.to_string());
        let columns: Vec<ArrayRef> = self.columns.into_iter().map(Cells::finish).collect();
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(refused)?;
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

impl Cells {
    fn finish(self) -> ArrayRef {
        match self {
            Self::Whole(mut column) => Arc::new(column.finish()),
            Self::Number(mut column) => Arc::new(column.finish()),
            Self::Text(mut column) => Arc::new(column.finish()),
            Self::Flag(mut column) => Arc::new(column.finish()),
            Self::Dates(mut column) => Arc::new(column.finish()),
            Self::Moments(column, zone) => {
                let column: TimestampMicrosecondArray = PrimitiveArray::from_iter_values(column);
                Arc::new(column.with_timezone_opt(zone.map(|(zone, _)| zone)))
            }
        }
    }
}
