//! Routes for published records: releases and answers, page by page.

use std::fmt::Write as _;
use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use tidegate::release::Release;
use tidegate::spec::StreamSpec;
use tidegate_table::Format;
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::time::Clock;

use crate::driver::SuspicionKind;
use crate::http::App;
use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{NDJSON, Name, Params, Shared, crowded};
use crate::http::route::{Route, any_of, number, object, parameter, text};
use crate::http::shares::Share;
use crate::service::Overview;
use crate::store::{Record, RecordFilter, RecordKind};
use crate::stream::Declaration;

/// Most records in one answer.
pub(super) const MAX_RECORDS: usize = 10_000;

/// Most numbers in one answer, about: large domains get fewer releases.
pub(super) const MAX_NUMBERS: usize = 500_000;

/// Header with the number to go on from, for formats that have no place for it.
const NEXT: HeaderName = HeaderName::from_static("tidegate-next");

pub(super) fn routes() -> Vec<Route> {
    let last = parameter("last", "The last records, instead of `after`, `from` and `to`.", number());
    vec![
        Route::get("/v1/streams/{stream}/releases", "releases", "Published releases", releases)
            .role(Role::Analyst)
            .parameters(paging(&["json", "ndjson", "csv"]))
            .parameters([last])
            .granted(200, any_of([object("Releases"), text(NDJSON), text("text/csv")]))
            .refused(&[400, 404, 503]),
        Route::get("/v1/streams/{stream}/answers", "answers", "Published answers of queries and monitors", answers)
            .role(Role::Analyst)
            .parameters(paging(&["json", "ndjson"]))
            .granted(200, any_of([object("Answers"), text(NDJSON)]))
            .refused(&[400, 404, 503]),
    ]
}

fn paging(formats: &[&str]) -> Vec<JsonValue> {
    vec![
        parameter("after", "Records after this number: `next` of the last answer.", number()),
        parameter("from", "Records of this timestamp and later ones.", number()),
        parameter("to", "Records of this timestamp and earlier ones.", number()),
        parameter(
            "limit",
            "Most records; large domains get fewer.",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_RECORDS, "default": 1000 }),
        ),
        parameter("format", "Format of the answer.", json!({ "enum": formats, "default": "json" })),
    ]
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    after: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
    limit: Option<usize>,
    last: Option<u64>,
    #[serde(default)]
    format: PageFormat,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PageFormat {
    #[default]
    Json,
    Ndjson,
    Csv,
}

impl Page {
    /// Returns the filter, for a domain of so many values.
    fn filter(&self, domain: usize) -> Answer<RecordFilter> {
        let limit = self.limit.unwrap_or(1_000);
        if !(1..=MAX_RECORDS).contains(&limit) {
            return Err(Problem::bad("parameter", format!("limit: 1 to {MAX_RECORDS}")));
        }
        let limit = limit.min((MAX_NUMBERS / domain.max(1)).max(1));
        let (after, from, to) = (self.after.unwrap_or(0), self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX));
        // Stores have signed numbers, and none larger.
        let most = i64::MAX.unsigned_abs();
        Ok(RecordFilter { after: after.min(most), from: from.min(most), to: to.min(most), limit })
    }
}

/// Returns the number to go on from, where there may be more.
fn next_of(records: &[Record], limit: usize) -> Option<u64> {
    (records.len() >= limit).then(|| records.last().map(|record| record.number)).flatten()
}

/// Writes records as a list, with their bodies as they are stored.
fn listed(
    declared: &Declaration,
    more: &str,
    key: &str,
    each: &str,
    records: &[Record],
    next: Option<u64>,
) -> Response {
    let (name, times) = (&declared.name, declared.times());
    let mut text = format!(r#"{{"stream":"{name}",{more}"{key}":["#);
    for (place, record) in records.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&record_text(each, record, &times));
    }
    let next = next.map_or_else(|| "null".to_owned(), |next| next.to_string());
    text.push_str(&format!(r#"],"next":{next}}}"#));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// The names of a stream's values, in the order of every array of frequencies or counts; null for numbers.
fn names_of(spec: &StreamSpec) -> Answer<JsonValue> {
    let values = spec.values().map_err(unreadable)?.filter(|values| values.grid().is_none());
    Ok(values.map_or(JsonValue::Null, |values| (0..values.count()).map(|value| values.name(value)).collect()))
}

/// Writes a record with its time, where timestamps have times, and its body as it is stored.
pub(in crate::http) fn record_text(each: &str, record: &Record, times: &Clock) -> String {
    let Record { number, version, timestamp, body } = record;
    let time = times.time(*timestamp).map_or_else(String::new, |time| format!(r#","time":"{time}""#));
    format!(r#"{{"number":{number},"version":{version},"timestamp":{timestamp}{time},"{each}":{body}}}"#)
}

/// Returns the number of values of a stream.
pub(super) fn domain_of(declaration: &Declaration) -> Answer<usize> {
    Ok(match &declaration.spec {
        StreamSpec::Local(spec) if spec.has_numbers() => 1,
        StreamSpec::Local(spec) => spec.values().map_err(unreadable)?.count() as usize,
        StreamSpec::Central(spec) => spec.values().map_err(unreadable)?.count() as usize,
        StreamSpec::Sequence(spec) => spec.values().map_err(unreadable)?.count() as usize,
        _ => 1,
    })
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "a stream's records cannot be read");
    Problem::later("store", "the store is not available", 5)
}

impl App {
    pub(super) fn overview(&self, stream: &str) -> Answer<Overview> {
        self.service.overview(stream).ok_or_else(Problem::no_stream)
    }

    /// Reads records. Blocks.
    pub(super) fn records(&self, stream: &str, kind: RecordKind, filter: &RecordFilter) -> Answer<Vec<Record>> {
        let began = Instant::now();
        let found = self.service.records(stream, kind, filter);
        self.telemetry.meters().store("read", began.elapsed());
        Ok(found?)
    }

    /// Returns the number of the record after which there are `later` ones; zero where there is none. Blocks.
    pub(super) fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Answer<u64> {
        let began = Instant::now();
        let latest = self.service.latest(stream, kind, later);
        self.telemetry.meters().store("read", began.elapsed());
        Ok(latest?)
    }
}

/// Memory that an answer takes for each number, and for each record, while it is read and written.
pub(super) const NUMBER: usize = 48;
const RECORD: usize = 1 << 10;

/// Takes memory for records that are longer than what was `taken` for them, and for what is written of them.
fn take_more(memory: &mut Share, taken: usize, records: &[Record]) -> Answer<()> {
    let lengths = 2 * records.iter().map(|record| record.body.len()).sum::<usize>();
    if memory.grow(lengths.saturating_sub(taken)) { Ok(()) } else { Err(crowded()) }
}

async fn releases(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    Params(page): Params<Page>,
) -> Answer<Response> {
    let overview = app.overview(&name)?;
    let domain = domain_of(&overview.declaration)?;
    let mut filter = page.filter(domain)?;
    if page.last.is_some() && (page.after.is_some() || page.from.is_some() || page.to.is_some()) {
        return Err(Problem::bad("parameter", "last: not together with after, from and to"));
    }
    let taken = filter.limit * (domain * NUMBER + RECORD);
    let mut memory = app.memory(&identity, taken)?;
    let answer = app.blocking(move |app| {
        if let Some(last) = page.last {
            filter.after = app.latest(&name, RecordKind::Release, last)?;
        }
        let records = app.records(&name, RecordKind::Release, &filter)?;
        take_more(&mut memory, taken, &records)?;
        let answer = releases_text(&overview.declaration, page.format, &records, filter.limit);
        drop(memory);
        answer
    });
    answer.await?
}

/// What is stored with a release.
#[derive(Deserialize)]
struct Suspicions {
    /// Releases of earlier versions lack it.
    #[serde(default)]
    suspicious: Vec<SuspicionKind>,
}

fn releases_text(declared: &Declaration, format: PageFormat, records: &[Record], limit: usize) -> Answer<Response> {
    let next = next_of(records, limit);
    let (format, media_type) = match format {
        PageFormat::Json => {
            let values = format!(r#""values":{},"#, names_of(&declared.spec)?);
            return Ok(listed(declared, &values, "releases", "release", records, next));
        }
        PageFormat::Ndjson => (Format::Ndjson, NDJSON),
        PageFormat::Csv => (Format::Csv, "text/csv; charset=utf-8"),
    };
    let shape = ReleaseLayout::of_collector(&declared.spec).map_err(unreadable)?;
    let shape = shape.with_clock(declared.times()).with_reasons();
    let shape = if declared.is_curated() { shape } else { shape.with_suspicions() };
    let mut text = String::new();
    shape.begin(format, &mut text);
    for record in records {
        let release: Release = serde_json::from_str(&record.body).map_err(unreadable)?;
        let Suspicions { suspicious } = serde_json::from_str(&record.body).map_err(unreadable)?;
        let suspicious: Vec<_> = suspicious.iter().map(|kind| kind.name()).collect();
        let written = if declared.is_curated() {
            shape.write(&release, None, format, &mut text)
        } else {
            shape.write_suspected(&release, &suspicious.join(" "), format, &mut text)
        };
        written.map_err(unreadable)?;
    }
    Ok(with_next(media_type, text, next))
}

fn with_next(media_type: &'static str, text: String, next: Option<u64>) -> Response {
    let mut response = ([(header::CONTENT_TYPE, media_type)], text).into_response();
    if let Some(next) = next {
        response.headers_mut().insert(NEXT, next.into());
    }
    response
}

async fn answers(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    Params(page): Params<Page>,
) -> Answer<Response> {
    let overview = app.overview(&name)?;
    if page.last.is_some() {
        return Err(Problem::bad("parameter", "last: for releases only"));
    }
    let (filter, stream) = (page.filter(1)?, name.clone());
    let taken = filter.limit * RECORD;
    let mut memory = app.memory(&identity, taken)?;
    let records = app.blocking(move |app| app.records(&stream, RecordKind::Answer, &filter)).await??;
    take_more(&mut memory, taken, &records)?;
    let next = next_of(&records, filter.limit);
    match page.format {
        PageFormat::Json => Ok(listed(&overview.declaration, "", "answers", "answer", &records, next)),
        PageFormat::Csv => Err(Problem::bad("parameter", "format: answers have no common fields: json or ndjson")),
        PageFormat::Ndjson => {
            let mut text = String::new();
            records.iter().for_each(|record| {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}", record.body);
            });
            Ok(with_next(NDJSON, text, next))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::rate::Caller;
    use crate::http::shares::Shares;

    #[test]
    fn long_records_take_their_length() {
        let shares = Shares::new(10_000, 5_000);
        let caller = Caller::Token(0);
        let record = |length| Record { number: 1, version: 1, timestamp: 0, body: "x".repeat(length) };
        let left = || (0..=5_000).rev().find(|amount| shares.take(caller, *amount).is_some());
        let mut memory = shares.take(caller, 1_000).unwrap_or_else(|| unreachable!());
        // What was taken is enough for these.
        assert!(take_more(&mut memory, 1_000, &[record(200), record(300)]).is_ok());
        assert_eq!(left(), Some(4_000));
        assert!(take_more(&mut memory, 1_000, &[record(1_000), record(500)]).is_ok());
        assert_eq!(left(), Some(2_000));
        assert!(take_more(&mut memory, 1_000, &[record(2_000)]).is_err());
        drop(memory);
        assert_eq!(left(), Some(5_000));
    }
}
