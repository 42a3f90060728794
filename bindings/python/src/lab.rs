//! The laboratory: mechanisms side by side, advice, audits, data sets, and the papers' figures.

use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, thread};

use arrow_array::{ArrayRef, Float64Array, StringArray, UInt32Array, UInt64Array};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate::kernel::{Randomness, SystemRandom};
use tidegate_lab::advise::{self, AdviseError, Sample};
use tidegate_lab::evaluate::{self, Evaluation};
use tidegate_lab::stop::Stop;
use tidegate_lab::{DataStream, audit};
use tidegate_papers::{self as papers, ReproduceOptions, Session};
use tidegate_release::{Error, files};
use tidegate_table::{Cells, Rows, TableReader};

use crate::arrow::ArrowRows;
use crate::error::{Failure, as_keywords};
use crate::records::{capsule, keywords};
use crate::stream::Stream;
use crate::work;

/// The name of a table in errors.
const TABLE: &str = "the table";

/// What the laboratory found out, as the command prints it.
#[pyclass(frozen, get_all, module = "tidegate._tidegate")]
#[derive(Default)]
pub(crate) struct Report {
    /// In JSON.
    json: String,
    /// As plain text.
    text: String,
    /// What to be warned of.
    warnings: Vec<String>,
    /// Remarks.
    notes: Vec<String>,
    /// The seed.
    seed: u64,
    /// The spec that is recommended, in TOML.
    spec: Option<String>,
}

/// A table that ends in an error once its work is to stop.
pub(crate) struct StoppableRows {
    pub(crate) rows: ArrowRows,
    pub(crate) stop: Arc<Stop>,
}

impl Rows for StoppableRows {
    fn columns(&self) -> Vec<String> {
        self.rows.columns()
    }

    fn read_only(&mut self, columns: &[usize]) {
        self.rows.read_only(columns);
    }

    fn next_row(&mut self, cells: &mut Cells<'_>) -> io::Result<bool> {
        if self.stop.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.rows.next_row(cells)
    }
}

/// Opens a table whose users have names, in the column that a spec names.
pub(crate) fn open_table(table: &Bound<'_, PyAny>, user: Option<&str>) -> Result<ArrowRows, Failure> {
    let rows = ArrowRows::open(table)?;
    rows.check_names(user.unwrap_or("user"))?;
    Ok(rows)
}

/// Runs mechanisms side by side on a table, or on the data set of a name.
#[pyfunction]
#[pyo3(signature = (dataset, options, table=None))]
pub(crate) fn run_evaluation(
    py: Python<'_>,
    dataset: String,
    options: &str,
    table: Option<&Bound<'_, PyAny>>,
) -> Result<Report, Failure> {
    let mut options: evaluate::Options = keywords(options)?;
    evaluate::check(&options)?;
    let seed = match options.seed {
        Some(seed) => seed,
        None => SystemRandom::new().map_err(Error::run)?.next_word(),
    };
    options.seed = Some(seed);
    let rows = table.map(|table| open_table(table, options.input.columns.user.as_deref())).transpose()?;
    work::run_apart(py, move |stop| {
        let stream = match rows {
            Some(rows) => {
                let rows = StoppableRows { rows, stop: Arc::clone(stop) };
                let table = TableReader::<io::Empty>::of_rows(TABLE, Box::new(rows));
                evaluate::load_table(TABLE, table, &options)?
            }
            None => evaluate::load(&dataset, &options)?,
        };
        let evaluation = Evaluation::new(options, stream)?;
        let findings = evaluation.run(stop, &|| ())?;
        let mut warnings = evaluation.warnings();
        warnings.extend(evaluation.warnings_of(&findings));
        Ok(Report {
            json: evaluation.to_json(&findings)?,
            text: evaluation.to_text(&findings, false),
            warnings: warnings.iter().map(|warning| as_keywords(warning)).collect(),
            notes: evaluation.notes(&dataset),
            seed,
            spec: None,
        })
    })
}

/// Past releases.
enum Past {
    File(String),
    Table(ArrowRows),
}

/// Recommends a mechanism for the spec of a stream, or for keywords. `sample` is a table of past releases, or its path.
#[pyfunction]
#[pyo3(signature = (options, stream=None, sample=None))]
pub(crate) fn ask_advice(
    py: Python<'_>,
    options: &str,
    stream: Option<&Stream>,
    sample: Option<&Bound<'_, PyAny>>,
) -> Result<Report, Failure> {
    let options: advise::Options = keywords(options)?;
    let refused = |error: AdviseError| match error {
        AdviseError::Spec(error) => Failure::from(error),
        other => Failure::from(Error::from(other)),
    };
    let question = match stream {
        Some(stream) => options.question_of(stream.stream_spec()).map_err(refused)?,
        None => options.question()?,
    };
    let sample = sample.map(|sample| match sample.extract() {
        Ok(path) => Ok(Past::File(path)),
        Err(_) => ArrowRows::open(sample).map(Past::Table),
    });
    let sample = sample.transpose()?;
    work::run_apart(py, move |stop| {
        let data = &question.request().data;
        let read = |sample| -> Result<(String, Sample), AdviseError> {
            match sample {
                Past::File(path) => {
                    let sample = Sample::read(&path, tidegate_table::open(Path::new(&path))?, data)?;
                    Ok((path, sample))
                }
                Past::Table(rows) => {
                    let rows = StoppableRows { rows, stop: Arc::clone(stop) };
                    let table = TableReader::<io::Empty>::of_rows("the sample", Box::new(rows));
                    Ok(("the sample".to_owned(), Sample::read_table("the sample", table, data)?))
                }
            }
        };
        let (name, sample) = sample.map(read).transpose().map_err(Error::from)?.unzip();
        let warning = sample.as_ref().and_then(Sample::warning).zip(name);
        let answer = options.answer(&question, sample.as_ref(), stop)?;
        Ok(Report {
            json: answer.json,
            text: answer.text,
            warnings: warning.map(|(warning, name)| format!("{name}: {warning}")).into_iter().collect(),
            seed: options.seed.unwrap_or(1),
            spec: answer.spec.map(|(_, text)| text),
            ..Report::default()
        })
    })
}

/// Tries to break what mechanisms promise.
#[pyfunction]
pub(crate) fn run_audit(py: Python<'_>, options: &str) -> Result<Report, Failure> {
    let options: audit::Options = keywords(options)?;
    let settings = options.settings()?;
    work::run_apart(py, move |stop| {
        let targets = options.targets()?;
        let findings = targets.iter().map(|target| options.audit(target.as_ref(), stop, &|| ()));
        let findings: Vec<audit::Finding> = findings.collect::<Result<_, _>>()?;
        let plan = options.plan();
        Ok(Report {
            json: audit::as_json(&findings),
            text: audit::as_text(&findings, &settings, &plan),
            warnings: audit::broken(&findings).into_iter().collect(),
            seed: plan.seed,
            ..Report::default()
        })
    })
}

/// The data sets and the mechanisms, as `tidegate data --json` lists them.
#[pyfunction]
pub(crate) fn datasets() -> String {
    tidegate_lab::listing::as_json()
}

/// A data set.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Dataset(DataStream);

/// Loads a data set, or generates it.
#[pyfunction]
pub(crate) fn load_dataset(py: Python<'_>, name: String, options: &str) -> Result<Dataset, Failure> {
    let options: evaluate::Options = keywords(options)?;
    work::run_apart(py, move |_| Ok(Dataset(evaluate::load(&name, &options)?)))
}

#[pymethods]
impl Dataset {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// What it is of: counts, numbers or symbols.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().name()
    }

    /// How much there is of it, in words.
    #[getter]
    fn summary(&self) -> String {
        self.0.to_string()
    }

    /// What it stands in for.
    #[getter]
    fn stand_in(&self) -> Option<&str> {
        self.0.stand_in()
    }

    /// The names of the values; none of numbers.
    #[getter]
    fn labels(&self) -> Vec<String> {
        match &self.0 {
            DataStream::Counts(counts) => counts.labels().to_vec(),
            DataStream::Numbers(_) => Vec::new(),
            DataStream::Symbols(symbols) => (0..symbols.domain()).map(|symbol| symbol.to_string()).collect(),
        }
    }

    /// The ends of the domain of numbers, and the distance of its numbers.
    #[getter]
    fn domain(&self) -> Option<(f64, f64, f64)> {
        match &self.0 {
            DataStream::Numbers(numbers) => {
                let grid = numbers.grid();
                Some((grid.low(), grid.high(), grid.step()))
            }
            _ => None,
        }
    }

    /// The counts: a row for each timestamp, a column for each value.
    fn counts<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyArray2<u64>>>, Failure> {
        let DataStream::Counts(counts) = &self.0 else { return Ok(None) };
        let all = PyArray1::from_vec(py, counts.counts().concat());
        Ok(Some(all.reshape([counts.length(), counts.domain()])?))
    }

    /// The number of each timestamp.
    fn numbers<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let DataStream::Numbers(numbers) = &self.0 else { return None };
        Some(PyArray1::from_slice(py, numbers.values()))
    }

    /// The symbols of each user.
    fn sequences<'py>(&self, py: Python<'py>) -> Option<Vec<Bound<'py, PyArray1<u32>>>> {
        let DataStream::Symbols(symbols) = &self.0 else { return None };
        Some(symbols.sequences().iter().map(|sequence| PyArray1::from_slice(py, sequence)).collect())
    }

    /// The table that `release` takes: t and a count for each value; t and value; or t, user and value.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let times = |length: usize| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(0..length as u64)) };
        let t = "t".to_owned();
        let columns = match &self.0 {
            DataStream::Counts(counts) => {
                let of_value = |place: usize| -> ArrayRef {
                    Arc::new(UInt64Array::from_iter_values(counts.counts().iter().map(|row| row[place])))
                };
                let values = counts.labels().iter().enumerate().map(|(place, label)| (label.clone(), of_value(place)));
                std::iter::once((t, times(counts.length()))).chain(values).collect()
            }
            DataStream::Numbers(numbers) => {
                let values: ArrayRef = Arc::new(Float64Array::from(numbers.values().to_vec()));
                vec![(t, times(numbers.values().len())), ("value".to_owned(), values)]
            }
            DataStream::Symbols(symbols) => {
                let mut rows: Vec<(u64, u32, u32)> = Vec::new();
                for (user, sequence) in (0..).zip(symbols.sequences()) {
                    rows.extend((0..).zip(sequence).map(|(t, symbol)| (t, user, *symbol)));
                }
                rows.sort_by_key(|(t, ..)| *t);
                let users: ArrayRef = Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.1)));
                let names: StringArray = rows.iter().map(|row| Some(row.2.to_string())).collect();
                let times: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0)));
                vec![(t, times), ("user".to_owned(), users), ("value".to_owned(), Arc::new(names))]
            }
        };
        capsule(py, columns)
    }
}

/// The experiments of the papers, as `tidegate reproduce --list --json` lists them.
#[pyfunction]
pub(crate) fn experiments() -> String {
    papers::list_as_json()
}

/// Measures figures and tables of papers again, and writes them to a folder.
#[pyfunction]
#[pyo3(signature = (names, out, data_dir, repeats, quick, seed, threads))]
#[allow(clippy::too_many_arguments)] // keywords
pub(crate) fn reproduce(
    py: Python<'_>,
    names: Vec<String>,
    out: PathBuf,
    data_dir: Option<PathBuf>,
    repeats: Option<NonZeroU64>,
    quick: bool,
    seed: Option<u64>,
    threads: Option<NonZeroUsize>,
) -> Result<Report, Failure> {
    let chosen = papers::chosen(&names)?;
    let cannot = |error| Error::Argument(format!("{} cannot be made a folder: {error}", out.display()));
    fs::create_dir_all(&out).map_err(cannot)?;
    let options = ReproduceOptions {
        data_dir,
        repeats,
        quick,
        seed: seed.unwrap_or(papers::DEFAULT_SEED),
        threads: threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN),
        ..ReproduceOptions::default()
    };
    work::run_apart(py, move |stop| {
        let session = Session::new(options.clone(), &|_| ()).until(stop);
        let mut outcomes = Vec::new();
        for (paper, experiment) in chosen {
            let outcome = experiment.run(paper, &session).map_err(|error| papers::explain(experiment, error))?;
            if stop.is_set() {
                return Err(Failure::Interrupted);
            }
            for (name, text) in outcome.files() {
                files::replace(&out.join(name), &text)?;
            }
            outcomes.push(outcome);
        }
        files::replace(&out.join("index.html"), &papers::report(&outcomes, &options).to_html())?;
        Ok(Report {
            json: papers::as_json(&outcomes, &options),
            text: papers::as_text(&outcomes),
            seed: options.seed,
            ..Report::default()
        })
    })
}
