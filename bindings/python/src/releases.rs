//! [`Releases`]: what a run released.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate::release::Release;
use tidegate::series::Series;
use tidegate::spec::Values;
use tidegate_release::Error;
use tidegate_release::gate::{Published, Reader, Sink, answer_line};
use tidegate_table::Format;
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::time::Clock;

use crate::columns::{Builder, TimeKind};
use crate::error::Failure;
use crate::work::Stop;

/// A release, and whose it is.
struct One {
    series: usize,
    user: Option<Arc<str>>,
    release: Release,
}

/// Releases of a run, with the answers of its standing queries.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Releases {
    layout: ReleaseLayout,
    clock: Clock,
    times: TimeKind,
    all: Vec<One>,
    answers: Vec<String>,
    notes: Vec<String>,
}

/// Gathers what a run releases.
pub(crate) struct Gathered<'a> {
    stop: &'a Stop,
    values: Option<Values>,
    names: Vec<String>,
    all: Vec<One>,
    answers: Vec<String>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(series: &Series, stop: &'a Stop) -> Self {
        let values = series.streams().first().and_then(|stream| stream.values().cloned());
        Self { stop, values, names: series.names().to_vec(), all: Vec::new(), answers: Vec::new() }
    }

    pub(crate) fn into_releases(
        self,
        layout: ReleaseLayout,
        clock: Clock,
        times: TimeKind,
        notes: Vec<String>,
    ) -> Releases {
        Releases { layout, clock, times, all: self.all, answers: self.answers, notes }
    }
}

impl Sink for Gathered<'_> {
    fn take(&mut self, published: Published<'_>) -> Result<(), Error> {
        let Published { series, user, release, said } = published;
        if let Some(values) = &self.values {
            for said in said {
                let series = self.names.get(series).map(String::as_str);
                self.answers.push(answer_line(&said, series, release.timestamp, values)?);
            }
        }
        self.all.push(One { series, user: user.cloned(), release });
        Ok(())
    }

    fn pause(&mut self, _: &Series) -> Result<Reader, Error> {
        Ok(if self.stop.is_set() { Reader::WentAway } else { Reader::Listens })
    }
}

impl Releases {
    fn text(&self, py: Python<'_>, format: Format) -> Result<String, Failure> {
        py.detach(|| {
            let mut text = String::new();
            self.layout.begin(format, &mut text);
            for One { series, user, release } in &self.all {
                let written = self.layout.write_of(*series, release, user.as_deref(), format, &mut text);
                written.map_err(Error::run)?;
            }
            Ok(text)
        })
    }
}

#[pymethods]
impl Releases {
    /// How many releases there are: one a timestamp and series, or one a symbol.
    fn __len__(&self) -> usize {
        self.all.len()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.layout.columns().iter().map(|column| column.name).collect()
    }

    /// The releases as the command writes them, in CSV.
    fn to_csv(&self, py: Python<'_>) -> Result<String, Failure> {
        self.text(py, Format::Csv)
    }

    /// The releases as the command writes them, a JSON object a line.
    fn to_ndjson(&self, py: Python<'_>) -> Result<String, Failure> {
        self.text(py, Format::Ndjson)
    }

    /// The releases as an Arrow C stream, which polars, pandas and pyarrow read.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>, Failure> {
        // A request, which a producer may leave unanswered.
        drop(requested_schema);
        let mut builder = Builder::new(&self.layout.columns(), &self.times);
        for One { series, user, release } in &self.all {
            let begins = self.clock.seconds(release.timestamp);
            let added = self.layout.cells(*series, release, user.as_deref(), |cell| builder.push(cell, begins));
            added.map_err(Error::run)?;
        }
        Ok(builder.finish(py)?)
    }

    /// Answers to the queries of the spec and events of its monitors, each a JSON object.
    #[getter]
    fn answers(&self) -> Vec<&str> {
        self.answers.iter().map(String::as_str).collect()
    }

    /// Remarks about the run as a whole.
    #[getter]
    fn notes(&self) -> Vec<&str> {
        self.notes.iter().map(String::as_str).collect()
    }

    /// Whether randomness came from a seed, so that the releases are not private.
    #[getter]
    fn seeded(&self) -> bool {
        self.all.iter().any(|one| one.release.seeded)
    }
}
