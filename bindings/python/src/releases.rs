//! [`Releases`]: what a run released.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate::release::Release;
use tidegate::series::Series;
use tidegate::spec::{StreamSpec, Values};
use tidegate_release::Error;
use tidegate_release::gate::{Published, Reader, Sink, answer_line};
use tidegate_table::Format;
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::time::Clock;

use crate::columns::{Builder, TimeKind};
use crate::error::Failure;
use crate::work::Stop;

/// A release, and whose it is.
pub(crate) struct One {
    pub(crate) series: usize,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) release: Release,
    /// How many users there are, where that is public.
    pub(crate) population: Option<u64>,
    /// Signs of poisoning, where devices report to a service.
    pub(crate) suspicious: Option<String>,
}

impl One {
    fn write(&self, layout: &ReleaseLayout, format: Format, text: &mut String) -> Result<(), Failure> {
        let written = match &self.suspicious {
            Some(suspicious) => layout.write_suspected(&self.release, suspicious, format, text),
            None => layout.write_of(self.series, &self.release, self.user.as_deref(), format, text),
        };
        Ok(written.map_err(Error::run)?)
    }
}

/// Releases of a run, with the answers of its standing queries.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Releases {
    pub(crate) spec: StreamSpec,
    /// The names of the series, where there are several.
    pub(crate) names: Vec<String>,
    pub(crate) layout: ReleaseLayout,
    pub(crate) clock: Clock,
    pub(crate) times: TimeKind,
    pub(crate) all: Vec<One>,
    pub(crate) answers: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Gathers what a run releases.
pub(crate) struct Gathered<'a> {
    stop: &'a Stop,
    spec: StreamSpec,
    values: Option<Values>,
    names: Vec<String>,
    all: Vec<One>,
    answers: Vec<String>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(series: &Series, stop: &'a Stop) -> Self {
        let values = series.streams().first().and_then(|stream| stream.values().cloned());
        let (spec, names) = (series.spec().clone(), series.names().to_vec());
        Self { stop, spec, values, names, all: Vec::new(), answers: Vec::new() }
    }

    pub(crate) fn into_releases(
        self,
        layout: ReleaseLayout,
        clock: Clock,
        times: TimeKind,
        notes: Vec<String>,
    ) -> Releases {
        let Self { spec, names, all, answers, .. } = self;
        Releases { spec, names, layout, clock, times, all, answers, notes }
    }
}

impl Sink for Gathered<'_> {
    fn take(&mut self, published: Published<'_>) -> Result<(), Error> {
        let Published { series, user, release, population, said } = published;
        if let Some(values) = &self.values {
            for said in said {
                let series = self.names.get(series).map(String::as_str);
                self.answers.push(answer_line(&said, series, release.timestamp, values)?);
            }
        }
        self.all.push(One { series, user: user.cloned(), release, population, suspicious: None });
        Ok(())
    }

    fn pause(&mut self, _: &Series) -> Result<Reader, Error> {
        Ok(if self.stop.is_set() { Reader::WentAway } else { Reader::Listens })
    }
}

impl Releases {
    /// The number of the series that is meant; the only one may be left out.
    pub(crate) fn series_of(&self, name: Option<&str>) -> Result<usize, Failure> {
        let refused = |problem: String| Err(Error::Spec(format!("series: {problem}")).into());
        match (name, self.names.as_slice()) {
            (None, [] | [_]) => Ok(0),
            (None, names) => refused(format!("there are {}: say which is meant", names.len())),
            (Some(_), []) => refused("there is one stream only, and it has no name".to_owned()),
            (Some(name), names) => match names.iter().position(|known| known == name) {
                Some(number) => Ok(number),
                None => refused("the spec declares no series of this name".to_owned()),
            },
        }
    }

    /// The releases of a series, in the order of time.
    pub(crate) fn of_series(&self, series: usize) -> impl DoubleEndedIterator<Item = &One> {
        self.all.iter().filter(move |one| one.series == series)
    }

    fn text(&self, py: Python<'_>, format: Format) -> Result<String, Failure> {
        py.detach(|| {
            let mut text = String::new();
            self.layout.begin(format, &mut text);
            self.all.iter().try_for_each(|one| one.write(&self.layout, format, &mut text))?;
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

    /// The full name of the mechanism.
    #[getter]
    fn mechanism(&self) -> &'static str {
        self.spec.mechanism().full_name
    }

    /// The names of the series, where there are several.
    #[getter]
    fn series(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// How many values the domain has; None for numbers.
    #[getter]
    fn domain(&self) -> Result<Option<u32>, Failure> {
        Ok(self.spec.values()?.filter(|values| values.grid().is_none()).map(|values| values.count()))
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

    /// The first lines of that.
    fn head(&self, py: Python<'_>, lines: usize) -> Result<String, Failure> {
        py.detach(|| {
            let mut text = String::new();
            self.layout.begin(Format::Csv, &mut text);
            for one in self.all.iter().take(lines) {
                one.write(&self.layout, Format::Csv, &mut text)?;
                if text.lines().count() > lines {
                    break;
                }
            }
            Ok(text.split_inclusive('\n').take(lines + 1).collect())
        })
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
        for One { series, user, release, suspicious, .. } in &self.all {
            let begins = self.clock.seconds(release.timestamp);
            let (user, suspicious) = (user.as_deref(), suspicious.as_deref().unwrap_or_default());
            let added = self.layout.cells(*series, release, user, suspicious, |cell| builder.push(cell, begins));
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
