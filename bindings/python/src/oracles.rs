//! [`Oracle`] and [`Aggregate`]: frequency oracles on whole arrays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use tidegate::kernel::oracle::{self, AggregateError, OracleError, OracleKind};
use tidegate::kernel::{Epsilon, FreshRandom, Ledger, Randomness, SeededRandom, SystemRandom, Window};
use tidegate_release::Error;

use crate::cores;
use crate::error::{BadData, Failure};
use crate::work::{self, Stop};

/// A frequency oracle for values 0 to d - 1.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Oracle(oracle::Oracle);

/// How many values are perturbed, or reports counted, between two looks for an interrupt: some milliseconds of work.
/// It does not depend on the machine, because each such part of a seeded run has its own stream of randomness.
fn at_once(oracle: &oracle::Oracle) -> usize {
    const CELLS: usize = 1 << 24;
    (CELLS / oracle.domain() as usize).clamp(1, 1 << 14)
}

fn refused(error: OracleError) -> Failure {
    match error {
        OracleError::Entropy(error) => Error::run(error).into(),
        error => Error::Spec(error.to_string()).into(),
    }
}

/// Bytes of zero, or a `MemoryError`.
fn zeroes(length: Option<usize>) -> Result<Vec<u8>, Failure> {
    let too_many = || PyMemoryError::new_err("the reports do not fit into memory: perturb fewer values at a time");
    let length = length.ok_or_else(too_many)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| too_many())?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// Perturbs each value on a device of its own.
fn perturb_all<T: Copy + Sync + TryInto<u32>>(
    oracle: &oracle::Oracle,
    values: &[T],
    seed: Option<u64>,
    stop: &Stop,
) -> Result<Vec<u8>, Failure> {
    let (at_once, length) = (at_once(oracle), oracle.report_length());
    let mut reports = zeroes(values.len().checked_mul(length))?;
    let devices = values.chunks(at_once).zip(reports.chunks_mut(at_once * length));
    let parts = (0_u64..).zip((0..).step_by(at_once)).zip(devices);
    match seed {
        None => {
            let begin = || Ok(SystemRandom::new().map_err(Error::run)?);
            cores::share(parts, stop, begin, |random, ((_, first), (values, reports))| {
                perturb_part(oracle, first, values, reports, random)
            })?;
        }
        Some(seed) => {
            cores::share(
                parts,
                stop,
                || Ok(()),
                |(), ((part, first), (values, reports))| {
                    perturb_part(oracle, first, values, reports, &mut SeededRandom::with_stream(seed, part))
                },
            )?;
        }
    }
    Ok(reports)
}

/// Perturbs the values from the row `first` on.
fn perturb_part<T: Copy + TryInto<u32>>(
    oracle: &oracle::Oracle,
    first: usize,
    values: &[T],
    reports: &mut [u8],
    random: &mut impl Randomness,
) -> Result<(), Failure> {
    let epsilon = oracle.epsilon();
    let random = &mut FreshRandom::new(random).map_err(Error::run)?;
    // Its window is one row, so each device has the whole budget, once. A ledger for each would cost more than the
    // report, because a new account asks the operating system for randomness.
    let mut devices = Ledger::new(epsilon, Window::EVENT);
    for ((row, value), report) in (first..).zip(values).zip(reports.chunks_exact_mut(oracle.report_length())) {
        let permit = devices.spend(row as u64, epsilon).map_err(Error::run)?;
        // No domain contains the largest number.
        let value = (*value).try_into().unwrap_or(u32::MAX);
        oracle.perturb_into(permit, value, random, report).map_err(|error| match error {
            OracleError::Value { domain } => {
                let text = format!("values, row {row}: expected a number from 0 to {}", domain - 1);
                Failure::Raised(BadData::new_err((text, row)))
            }
            error => refused(error),
        })?;
    }
    Ok(())
}

/// Calls `$call` with the slice of a contiguous array of any of the types; no array is copied.
macro_rules! by_type {
    ($values:expr, $call:expr, $($number:ty),+) => {
        $(if let Ok(array) = $values.extract::<PyReadonlyArray1<'_, $number>>()
            && let Ok(slice) = array.as_slice()
        {
            let call = $call;
            call(slice)
        } else)+ {
            let text = "values: expected a contiguous array of whole numbers, with one dimension";
            Err(Failure::Raised(BadData::new_err(text)))
        }
    };
}

#[pymethods]
impl Oracle {
    /// An oracle by its name, or the best one.
    #[new]
    fn new(kind: &str, d: u32, epsilon: &str) -> Result<Self, Failure> {
        let spec = |text: String| Failure::from(Error::Spec(text));
        let epsilon: Epsilon = epsilon.parse().map_err(|error| spec(format!("epsilon: {error}")))?;
        let kind = match kind {
            "auto" => OracleKind::best(d.max(1), epsilon),
            name => name.parse().map_err(|error: oracle::UnknownOracle| spec(error.to_string()))?,
        };
        Ok(Self(oracle::Oracle::new(kind, d, epsilon).map_err(refused)?))
    }

    /// The name in specs.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().name()
    }

    /// The number of values.
    #[getter]
    const fn d(&self) -> u32 {
        self.0.domain()
    }

    /// The loss of a report, as an exact decimal.
    #[getter]
    fn epsilon(&self) -> String {
        self.0.epsilon().to_string()
    }

    /// The bytes of a report.
    #[getter]
    fn report_length(&self) -> usize {
        self.0.report_length()
    }

    /// The constant and the slope of a frequency's variance.
    fn variance(&self, reports: u64) -> (f64, f64) {
        let variance = self.0.variance(reports);
        (variance.constant, variance.slope)
    }

    /// The reports of simulated devices, one for each value.
    #[pyo3(signature = (values, seed=None))]
    fn perturb<'py>(&self, values: &Bound<'py, PyAny>, seed: Option<u64>) -> Result<Bound<'py, PyArray2<u8>>, Failure> {
        let py = values.py();
        let reports = by_type!(
            values,
            |values: &[_]| work::run(py, |stop| perturb_all(&self.0, values, seed, stop)),
            i64,
            i32,
            i16,
            i8,
            u64,
            u32,
            u16,
            u8
        )?;
        let length = self.0.report_length();
        let devices = reports.len() / length;
        Ok(PyArray1::from_vec(py, reports).reshape([devices, length])?)
    }

    /// An aggregate without reports.
    fn aggregate(&self) -> Aggregate {
        Aggregate::of(self.0.aggregate(), false)
    }
}

/// The sum of reports: how many support each value.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Aggregate(Mutex<Counted>);

#[derive(Clone)]
struct Counted {
    aggregate: oracle::Aggregate,
    seeded: bool,
}

impl Aggregate {
    fn of(aggregate: oracle::Aggregate, seeded: bool) -> Self {
        Self(Mutex::new(Counted { aggregate, seeded }))
    }

    /// Looks at the counts, and at whether a report was seeded.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&oracle::Aggregate, bool) -> T) -> T {
        let own = self.lock();
        look(&own.aggregate, own.seeded)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        // Whatever panics has changed nothing: reports are counted beside, and merged at once.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts concatenated reports.
fn count(oracle: &oracle::Oracle, batch: &[u8], stop: &Stop) -> Result<oracle::Aggregate, Failure> {
    let (at_once, length) = (at_once(oracle), oracle.report_length());
    if !batch.len().is_multiple_of(length) {
        return Err(bad_reports(AggregateError::BatchLength { given: batch.len(), expected: length }, 0));
    }
    let parts = (0..).step_by(at_once).zip(batch.chunks(at_once * length));
    let begin = || Ok(oracle.aggregate());
    let counted = cores::share(parts, stop, begin, |aggregate, (first, reports)| {
        aggregate.add_batch(reports).map_err(|error| bad_reports(error, first))
    })?;
    let mut whole = oracle.aggregate();
    for part in &counted {
        whole.merge(part).map_err(|error| bad_reports(error, 0))?;
    }
    Ok(whole)
}

/// The exception of an aggregate, whose batch begins at the row `first`.
fn bad_reports(error: AggregateError, first: usize) -> Failure {
    Failure::Raised(match error {
        AggregateError::Report { index, problem } => {
            let row = first + index;
            BadData::new_err((format!("reports, row {row}: {problem}"), row))
        }
        error => BadData::new_err(error.to_string()),
    })
}

#[pymethods]
impl Aggregate {
    /// Loads what `to_json` saved.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str, seeded: bool) -> Result<Self, Failure> {
        py.detach(|| {
            let aggregate = serde_json::from_str(text);
            let aggregate = aggregate.map_err(|error| Error::State(format!("the saved aggregate: {error}")))?;
            Ok(Self::of(aggregate, seeded))
        })
    }

    /// The aggregate as JSON.
    fn to_json(&self, py: Python<'_>) -> Result<String, Failure> {
        py.detach(|| Ok(serde_json::to_string(&self.lock().aggregate).map_err(Error::run)?))
    }

    /// Counts concatenated reports: all of them, or none if any is malformed.
    fn add(&self, py: Python<'_>, reports: PyReadonlyArray1<'_, u8>, seeded: bool) -> Result<(), Failure> {
        let batch = reports.as_slice().map_err(PyErr::from)?;
        work::run(py, |stop| {
            let oracle = self.lock().aggregate.oracle().clone();
            let counted = count(&oracle, batch, stop)?;
            let mut own = self.lock();
            own.seeded |= seeded;
            own.aggregate.merge(&counted).map_err(|error| bad_reports(error, 0))
        })
    }

    /// A copy, of all that is counted at one moment.
    fn copy(&self, py: Python<'_>) -> Self {
        py.detach(|| Self(Mutex::new(self.lock().clone())))
    }

    /// The kind, the number of values and the epsilon of the oracle.
    #[getter]
    fn oracle(&self, py: Python<'_>) -> (&'static str, u32, String) {
        py.detach(|| {
            let own = self.lock();
            let oracle = own.aggregate.oracle();
            (oracle.kind().name(), oracle.domain(), oracle.epsilon().to_string())
        })
    }

    /// The sum of two aggregates.
    fn merged(&self, py: Python<'_>, other: &Self) -> Result<Self, Failure> {
        py.detach(|| {
            // One lock at a time, because both may be one.
            let mut sum = self.lock().clone();
            let other = other.lock();
            sum.aggregate.merge(&other.aggregate).map_err(|error| bad_reports(error, 0))?;
            Ok(Self::of(sum.aggregate, sum.seeded | other.seeded))
        })
    }

    /// The number of reports.
    #[getter]
    fn reports(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.lock().aggregate.reports())
    }

    /// Whether a seeded report was counted.
    #[getter]
    fn seeded(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().seeded)
    }

    /// How many reports support each value.
    fn supports<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        let supports = py.detach(|| self.lock().aggregate.supports());
        PyArray1::from_vec(py, supports)
    }

    /// The frequencies.
    fn estimate<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<f64>>, Failure> {
        let estimate = py.detach(|| self.lock().aggregate.estimate());
        let estimate = estimate.map_err(|error| bad_reports(error, 0))?;
        Ok(PyArray1::from_vec(py, estimate.into_frequencies()))
    }
}
