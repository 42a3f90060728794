//! Numbers of releases over time, for charts.

use std::io;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde::Deserialize;
use tidegate::release::{Freshness, Release};
use tidegate::spec::StreamSpec;
use tidegate_release::truth::Truth;
use tidegate_release::{Error, reading};
use tidegate_table::TableReader;

use crate::error::Failure;
use crate::lab::{StoppableRows, open_table};
use crate::records::keywords;
use crate::releases::{One, Releases};
use crate::work;

/// Timestamps; their beginnings in seconds since 1970 by the local clock; the names of the values; a row of numbers for
/// each timestamp, their variances (NaN where not stated), and the freshness of each: 0 is fresh, 1 approximated, 2
/// nullified.
type Curves<'py> = (
    Bound<'py, PyArray1<u64>>,
    Option<Bound<'py, PyArray1<i64>>>,
    Vec<String>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<u8>>,
);

/// The numbers of a release, and their variances.
fn numbers(release: &Release) -> (Vec<f64>, Vec<f64>) {
    match release.statistic.number() {
        Some(number) => (vec![number.value], vec![number.variance]),
        None => {
            let (numbers, variances) = release.statistic.leaves();
            (numbers.to_vec(), variances.to_vec())
        }
    }
}

/// The numbers of a series over time: those of the named values, or of the `most` that are largest on average.
#[pyfunction]
pub(crate) fn curves<'py>(
    py: Python<'py>,
    releases: &Releases,
    series: Option<&str>,
    values: Option<Vec<String>>,
    most: usize,
) -> Result<Curves<'py>, Failure> {
    let series = releases.series_of(series)?;
    let spec = |problem: String| Failure::from(Error::Spec(problem));
    if releases.layout.has_symbols() {
        return Err(spec("releases are symbols of single users, which make no curve".to_owned()));
    }
    let all: Vec<&One> = releases.of_series(series).collect();
    let chosen = match (releases.spec.values()?.filter(|values| values.grid().is_none()), values) {
        (None, None) => vec![(0, String::new())],
        (None, Some(_)) => return Err(spec("values: a stream of numbers has none".to_owned())),
        (Some(domain), Some(values)) => {
            let found = values.into_iter().map(|name| match domain.find(&name) {
                Some(place) => Ok((place as usize, name)),
                None => Err(spec("values: the domain has no value of this name".to_owned())),
            });
            found.collect::<Result<Vec<_>, Failure>>()?
        }
        (Some(domain), None) => {
            let mut sums = vec![0.0; domain.count() as usize];
            for one in &all {
                for (sum, number) in sums.iter_mut().zip(one.release.statistic.leaves().0) {
                    *sum += number;
                }
            }
            let mut places: Vec<usize> = (0..sums.len()).collect();
            places.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]).then(a.cmp(b)));
            places.truncate(most);
            places.sort_unstable();
            #[allow(clippy::cast_possible_truncation)] // a place in the domain
            places.into_iter().map(|place| (place, domain.name(place as u32).into_owned())).collect()
        }
    };
    let (mut found, mut variances, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for one in &all {
        let (given, errors) = numbers(&one.release);
        for (place, _) in &chosen {
            found.push(given.get(*place).copied().unwrap_or(f64::NAN));
            variances.push(errors.get(*place).copied().filter(|error| error.is_finite()).unwrap_or(f64::NAN));
        }
        marks.push(match one.release.freshness {
            Freshness::Fresh => 0,
            Freshness::Approximated => 1,
            Freshness::Nullified => 2,
        });
    }
    let shape = [all.len(), chosen.len()];
    let seconds: Option<Vec<i64>> = all.iter().map(|one| releases.clock.seconds(one.release.timestamp)).collect();
    Ok((
        PyArray1::from_iter(py, all.iter().map(|one| one.release.timestamp)),
        seconds.filter(|_| releases.clock.has_times()).map(|seconds| PyArray1::from_vec(py, seconds)),
        chosen.into_iter().map(|(_, name)| name).collect(),
        PyArray1::from_vec(py, found).reshape(shape)?,
        PyArray1::from_vec(py, variances).reshape(shape)?,
        PyArray1::from_vec(py, marks),
    ))
}

/// Names of columns, where the spec has others.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Columns {
    time: Option<String>,
    user: Option<String>,
    value: Option<String>,
    series_column: Option<String>,
}

/// The true numbers behind a series, from the table that was released: a row for each timestamp, NaN where it is
/// unknown.
#[pyfunction]
pub(crate) fn truth_of<'py>(
    py: Python<'py>,
    releases: &Releases,
    table: &Bound<'_, PyAny>,
    options: &str,
    series: Option<&str>,
    values: Vec<String>,
) -> Result<Bound<'py, PyArray2<f64>>, Failure> {
    let Columns { time, user, value, series_column } = keywords(options)?;
    let number = releases.series_of(series)?;
    let mut spec = releases.spec.clone();
    let input = spec.input_mut();
    input.columns.no_header = false;
    let columns = &mut input.columns;
    let places = [&mut columns.time, &mut columns.user, &mut columns.value, &mut input.series];
    for (place, given) in places.into_iter().zip([time, user, value, series_column]) {
        if given.is_some() {
            *place = given;
        }
    }
    let mut reading = reading(&spec)?;
    reading.clock = releases.clock.clone();
    let rows = open_table(table, spec.input().columns.user.as_deref())?;
    let is_number = matches!(spec, StreamSpec::Scalar(_));
    let truth = work::run_apart(py, move |stop| {
        let rows = StoppableRows { rows, stop: Arc::clone(stop) };
        let table = TableReader::<io::Empty>::of_rows("the truth", Box::new(rows));
        Ok(Truth::gather(table, reading, is_number, number)?)
    })?;
    let is_count = matches!(spec, StreamSpec::Central(_));
    let behind = |t: u64, value: &str| match (is_number, is_count) {
        (true, _) => truth.number(t),
        (_, true) => truth.count(t, value),
        _ => truth.share(t, value),
    };
    let mut found = Vec::new();
    for one in releases.of_series(number) {
        found.extend(values.iter().map(|value| behind(one.release.timestamp, value).unwrap_or(f64::NAN)));
    }
    let rows = releases.of_series(number).count();
    Ok(PyArray1::from_vec(py, found).reshape([rows, values.len()])?)
}
