//! [`Records`]: rows of JSON as an Arrow stream; and keywords that come as JSON.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tidegate::spec::plain_words;
use tidegate_release::Error;

use crate::error::{Failure, TidegateError};

/// Reads keywords that came as JSON.
///
/// # Errors
/// [`Error::Spec`], which names the keyword. All keywords have a default, so that each can be read by itself.
pub(crate) fn keywords<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    let wrong = |error: serde_json::Error| plain_words(&error.to_string());
    let error = match serde_json::from_str(text) {
        Ok(found) => return Ok(found),
        Err(error) => wrong(error),
    };
    let keys: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    for (key, value) in keys {
        let alone = Map::from_iter([(key.clone(), value)]);
        if let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) {
            return Err(Error::Spec(format!("{key}: {}", wrong(error))).into());
        }
    }
    Err(Error::Spec(error).into())
}

/// Rows with named columns.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Records {
    columns: Vec<String>,
    rows: Vec<Map<String, Value>>,
}

#[pymethods]
impl Records {
    /// Rows of JSON objects, of which these columns are taken.
    #[new]
    fn new(columns: Vec<String>, rows: &str) -> Result<Self, Failure> {
        let rows = serde_json::from_str(rows).map_err(|error| Error::Spec(error.to_string()))?;
        Ok(Self { columns, rows })
    }

    /// The rows as a capsule of an Arrow C stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let columns = self.columns.iter().map(|name| {
            let cells: Vec<&Value> = self.rows.iter().map(|row| row.get(name).unwrap_or(&Value::Null)).collect();
            (name.clone(), column(&cells))
        });
        capsule(py, columns.collect())
    }
}

/// Named columns of the same length, as a capsule of an Arrow C stream.
pub(crate) fn capsule(py: Python<'_>, columns: Vec<(String, ArrayRef)>) -> PyResult<Bound<'_, PyCapsule>> {
    let refused = |error: ArrowError| TidegateError::new_err(error.to_string());
    let fields: Vec<Field> =
        columns.iter().map(|(name, cells)| Field::new(name, cells.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let cells = columns.into_iter().map(|(_, cells)| cells).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), cells).map_err(refused)?;
    let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// A column of the narrowest type that holds all cells.
fn column(cells: &[&Value]) -> ArrayRef {
    let all = |is_it: fn(&Value) -> bool| cells.iter().all(|cell| cell.is_null() || is_it(cell));
    let each = || cells.iter();
    if all(Value::is_boolean) && !all(Value::is_null) {
        Arc::new(each().map(|cell| cell.as_bool()).collect::<BooleanArray>())
    } else if all(Value::is_u64) && !all(Value::is_null) {
        Arc::new(each().map(|cell| cell.as_u64()).collect::<UInt64Array>())
    } else if all(Value::is_i64) && !all(Value::is_null) {
        Arc::new(each().map(|cell| cell.as_i64()).collect::<Int64Array>())
    } else if all(Value::is_number) {
        Arc::new(each().map(|cell| cell.as_f64()).collect::<Float64Array>())
    } else if all(|cell| cell.as_array().is_some_and(|list| list.iter().all(Value::is_string))) {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for cell in cells {
            lists.append_option(cell.as_array().map(|list| list.iter().map(Value::as_str)));
        }
        Arc::new(lists.finish())
    } else {
        let text = |cell: &Value| match cell {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let texts: StringArray = each().map(|cell| text(cell)).collect();
        Arc::new(texts)
    }
}
