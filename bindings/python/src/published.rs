//! Releases of a service, as it lists them in JSON.

use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidegate::mechanisms::Output;
use tidegate::release::Release;
use tidegate::spec::StreamSpec;
use tidegate_release::Error;
use tidegate_table::releases::{ReleaseLayout, suspicion_words};
use tidegate_table::time::{Clock, Zone};

use crate::columns::TimeKind;
use crate::error::Failure;
use crate::releases::{One, Releases};

/// The fields of a declared stream that are read here.
#[derive(Deserialize)]
struct Declared {
    spec: StreamSpec,
    #[serde(default)]
    epoch: u64,
}

#[derive(Deserialize)]
struct Page {
    releases: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    release: Box<RawValue>,
}

/// The signs of poisoning that a service writes beside the fields of a release.
#[derive(Deserialize)]
struct Suspicions {
    #[serde(default)]
    suspicious: Vec<String>,
}

/// The end of a page of anything.
#[derive(Deserialize)]
struct Next {
    next: Option<u64>,
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(text).map_err(|error| {
        let place = (error.line(), error.column());
        Error::run(format_args!("the service's answer is not understood, at line {} column {}", place.0, place.1))
            .into()
    })
}

/// The number after which the next page begins.
#[pyfunction]
pub(crate) fn next_page(py: Python<'_>, page: &[u8]) -> Result<Option<u64>, Failure> {
    py.detach(|| Ok(parse::<Next>(page)?.next))
}

/// The releases on pages of a service. `stream` is what it tells about the stream.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // as Python passes them
pub(crate) fn published(py: Python<'_>, stream: &[u8], pages: Vec<Vec<u8>>) -> Result<Releases, Failure> {
    py.detach(|| {
        let Declared { spec, epoch } = parse(stream)?;
        let clock = spec.input().every.map_or_else(Clock::default, |every| Clock::of_ticks(every, epoch));
        let times = match clock.zone() {
            None => TimeKind::Text,
            Some(Zone::Unstated) => TimeKind::Date,
            Some(Zone::Offset(ahead)) => TimeKind::Moment { zone: Some(("UTC".into(), ahead.into())) },
        };
        let is_of_devices = matches!(&spec, StreamSpec::Local(_) | StreamSpec::Sequence(_));
        let layout = ReleaseLayout::of_collector(&spec)?.with_clock(clock.clone());
        let layout = if is_of_devices { layout.with_suspicions() } else { layout };
        let population = match &spec {
            StreamSpec::Local(spec) => spec.population(),
            _ => None,
        };
        let mut all = Vec::new();
        for page in &pages {
            let Page { releases } = parse(page)?;
            for Record { release } in releases {
                let text = release.get().as_bytes();
                let suspicious = match is_of_devices {
                    true => Some(suspicion_words(parse::<Suspicions>(text)?.suspicious.iter().map(String::as_str))),
                    false => None,
                };
                all.push(One { series: 0, user: None, release: parse(text)?, population, suspicious });
            }
        }
        if !all.iter().all(|one| fits(&spec, &one.release)) {
            return Err(Error::run("the service's answer is not understood: releases of another stream").into());
        }
        Ok(Releases { spec, names: Vec::new(), layout, clock, times, all, answers: Vec::new(), notes: Vec::new() })
    })
}

/// Whether a release has as many numbers as the domain has values.
fn fits(spec: &StreamSpec, release: &Release) -> bool {
    let values = spec.values().ok().flatten().map_or(0, |values| values.count() as usize);
    let (numbers, variances) = release.statistic.leaves();
    match release.statistic.number() {
        Some(_) => spec.output() == Output::Number,
        None => numbers.len() == values && variances.len() == values,
    }
}
