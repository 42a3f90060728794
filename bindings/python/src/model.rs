//! [`Model`]: a Markov model of sequences; and the channel of a prior or of a model.

use std::io;
use std::path::Path;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde::Deserialize;
use tidegate::kernel::Epsilon;
use tidegate::sequence::distance::Distance;
use tidegate::spec::{ModelSpec, plain_words};
use tidegate_release::channel::{check_epsilon, matrix, of_model, of_prior};
use tidegate_release::fit::Fit;
use tidegate_release::model_file::ModelFile;
use tidegate_release::{Error, files};
use tidegate_table::TableReader;
use tidegate_table::long::LongReader;

use crate::error::Failure;
use crate::lab::{StoppableRows, open_table};
use crate::records::keywords;
use crate::work;

/// A Markov model of sequences.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Model(ModelFile);

/// Learns the model of a table of users' symbols.
#[pyfunction]
pub(crate) fn fit_model(py: Python<'_>, table: &Bound<'_, PyAny>, options: &str) -> Result<Model, Failure> {
    let fit: Fit = keywords(options)?;
    fit.values()?;
    let reading = fit.reading()?;
    let rows = open_table(table, fit.input.columns.user.as_deref())?;
    work::run_apart(py, move |stop| {
        let rows = StoppableRows { rows, stop: Arc::clone(stop) };
        let table = TableReader::<io::Empty>::of_rows("the table", Box::new(rows));
        Ok(Model(fit.learn(LongReader::from_table(table, reading)?)?))
    })
}

#[pymethods]
impl Model {
    /// Reads a model from its file.
    #[staticmethod]
    fn load(path: &str) -> Result<Self, Failure> {
        Ok(Self(ModelFile::read(path)?))
    }

    /// Reads a model from the content of its file.
    #[staticmethod]
    fn from_json(text: &str) -> Result<Self, Failure> {
        Ok(Self(ModelFile::parse("the text", text)?))
    }

    /// The model of known probabilities, which come as JSON.
    #[staticmethod]
    fn of(prior: &str, transitions: &str) -> Result<Self, Failure> {
        let wrong = |name: &'static str| {
            move |error: serde_json::Error| Error::Spec(format!("{name}: {}", plain_words(&error.to_string())))
        };
        let spec = ModelSpec {
            prior: serde_json::from_str(prior).map_err(wrong("prior"))?,
            transitions: serde_json::from_str(transitions).map_err(wrong("transitions"))?,
            pairs: Vec::new(),
        };
        let symbols = u32::try_from(spec.prior.len()).unwrap_or(u32::MAX);
        let model = spec.model(symbols).map_err(|error| Error::Spec(error.to_string()))?;
        Ok(Self(ModelFile { model, seeded: false }))
    }

    /// The content of its file.
    fn to_json(&self) -> Result<String, Failure> {
        Ok(self.0.to_json()? + "\n")
    }

    /// Writes the file.
    fn save(&self, path: &str) -> Result<(), Failure> {
        Ok(files::replace(Path::new(path), &self.to_json()?)?)
    }

    /// The number of symbols.
    #[getter]
    fn domain(&self) -> u32 {
        self.0.model.domain()
    }

    /// Whether its noise came from a seed.
    #[getter]
    const fn seeded(&self) -> bool {
        self.0.seeded
    }
}

/// Options of a channel.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    prior: Vec<f64>,
    epsilon: Option<Epsilon>,
    distance: Option<Distance>,
    matrix: Option<Vec<Vec<f64>>>,
    length: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { prior: Vec::new(), epsilon: None, distance: None, matrix: None, length: 1 }
    }
}

/// What describes a channel: its prior, its matrix, the probability of each answer; epsilon, leakage, expected distance
/// and local loss; the name of the distance; JSON and text.
type Described<'py> = (
    (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>),
    (f64, f64, f64, f64),
    &'static str,
    String,
    String,
);

/// The channel of a prior, or of a model's first batch.
#[pyfunction]
#[pyo3(signature = (options, model=None))]
pub(crate) fn channel<'py>(py: Python<'py>, options: &str, model: Option<&Model>) -> Result<Described<'py>, Failure> {
    let options: Options = keywords(options)?;
    let missing = || Error::Spec("epsilon is needed: how much an answer may tell".to_owned());
    let epsilon = check_epsilon(options.epsilon.ok_or_else(missing)?).map_err(Error::Spec)?;
    let distance = match (options.distance, options.matrix) {
        (None, Some(rows)) => matrix(rows)?,
        (distance, None) => distance.unwrap_or(Distance::Hamming),
        (Some(_), Some(_)) => return Err(Error::Spec("distance and matrix exclude each other".to_owned()).into()),
    };
    let model = model.map(|model| model.0.model.clone());
    let described = work::run_apart(py, move |_| {
        Ok(match model {
            Some(model) => of_model(&model, options.length, epsilon, &distance)?,
            None => of_prior(&options.prior, epsilon, &distance)?,
        })
    })?;
    let json = serde_json::to_string(&described).map_err(Error::run)? + "\n";
    let symbols = described.prior.len();
    let matrix = PyArray1::from_vec(py, described.channel.concat()).reshape([symbols, symbols])?;
    let arrays = (PyArray1::from_vec(py, described.prior), matrix, PyArray1::from_vec(py, described.output));
    let numbers = (described.epsilon, described.leakage, described.cost, described.loss);
    Ok((arrays, numbers, described.distance, json, described.text))
}
