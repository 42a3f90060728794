//! Routes for the list of all streams: what it shows of each, and small charts of those that are in sight.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Value as JsonValue, json};
use tidegate::mechanisms::Output;
use tidegate::release::{Freshness, Release, Statistic};

use super::records::{MAX_NUMBERS, NUMBER, domain_of, unreadable};
use crate::http::App;
use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Params, SMALL, Shared, expect_json};
use crate::http::route::{Route, number, object, parameter};
use crate::service::{AlarmCounts, LastRelease, Listed, now};
use crate::store::{RecordFilter, RecordKind, Status};
use crate::stream::Declaration;

/// Most streams on a page.
const MAX_STREAMS: usize = 10_000;

/// Most streams whose charts are asked for at once.
const MAX_CHARTS: usize = 50;

/// Most points of a chart.
const MAX_POINTS: usize = 200;

pub(super) fn routes() -> Vec<Route> {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": MAX_STREAMS, "default": MAX_STREAMS });
    vec![
        Route::get("/v1/token", "token", "What the caller's token may do", token)
            .granted(200, object("Token"))
            .refused(&[401]),
        Route::get("/v1/overview", "overview", "All streams, with what a list shows of each", overview)
            .role(Role::Analyst)
            .parameters([
                parameter("after", "Streams after this name: `next` of the last page.", json!({ "type": "string" })),
                parameter("limit", "Most streams.", limit),
            ])
            .granted(200, object("Overview"))
            .refused(&[400]),
        Route::post(
            "/v1/overview/sparklines",
            "sparklines",
            "The last releases of some streams, as series",
            sparklines,
        )
        .role(Role::Analyst)
        .body(object("SparklineQuery"))
        .granted(200, object("Sparklines"))
        .refused(&[400, 408, 413, 415, 503]),
    ]
}

/// The time, in seconds since 1970.
#[allow(clippy::cast_precision_loss)] // milliseconds
pub(super) fn seconds() -> f64 {
    now() as f64 / 1_000.0
}

/// Answers any token, whatever its role.
async fn token(Extension(identity): Extension<Identity>, State(app): Shared) -> Answer<Json<JsonValue>> {
    let Some(token) = &identity.token else { return Err(Problem::no_token(identity.wrong)) };
    let (name, role) = (&token.entry.name, token.entry.role);
    let advises = role.may(Role::Operator) && app.settings.advisor.is_some();
    let version = env!("CARGO_PKG_VERSION");
    let clustered = app.service.is_clustered();
    Ok(Json(json!({
        "name": name, "role": role, "advises": advises, "clustered": clustered, "now": seconds(), "version": version,
    })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    after: String,
    limit: Option<usize>,
}

/// A page of the list.
#[derive(Serialize)]
struct Rows<'a> {
    now: f64,
    streams: Vec<Row<'a>>,
    next: Option<&'a str>,
}

/// A stream of the list.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    family: &'static str,
    mechanism: &'static str,
    shows: &'static str,
    status: Status,
    problem: bool,
    driven: bool,
    tick: u64,
    timestamp: Option<u64>,
    last: Option<Last>,
    /// Seconds by which the next release is late.
    lag: Option<u64>,
    budget_left: Option<f64>,
    alarms: Option<AlarmCounts>,
}

#[derive(Serialize)]
struct Last {
    #[serde(flatten)]
    release: LastRelease,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

/// What the releases of a stream are, in a word.
const fn shows(output: Output) -> &'static str {
    match output {
        Output::Frequencies => "frequencies",
        Output::Tree => "tree",
        // The service counts the symbols that devices release.
        Output::Counts | Output::Symbol => "counts",
        Output::Number => "number",
    }
}

/// Seconds by which the release after this one is late, for streams of devices: when a curator publishes may depend on
/// how many events it took.
fn lag(declaration: &Declaration, last: LastRelease, now: u64) -> Option<u64> {
    if declaration.is_curated() {
        return None;
    }
    let due = declaration.schedule().due(last.timestamp.saturating_add(1));
    Some(now.saturating_sub(due) / 1_000)
}

fn row(listed: &Listed, now: u64) -> Row<'_> {
    let declaration = &*listed.declaration;
    let mechanism = declaration.spec.mechanism();
    let is_running = listed.status == Status::Running;
    Row {
        name: &declaration.name,
        family: declaration.spec.family().name(),
        mechanism: mechanism.short_name,
        shows: shows(declaration.spec.output()),
        status: listed.status,
        problem: listed.has_problem,
        driven: listed.is_driven,
        tick: declaration.tick.get(),
        timestamp: declaration.schedule().timestamp(now),
        last: listed.last.map(|release| Last { time: declaration.times().time(release.timestamp), release }),
        lag: listed.last.filter(|_| is_running).and_then(|last| lag(declaration, last, now)),
        budget_left: listed.budget_left,
        alarms: listed.alarms,
    }
}

async fn overview(State(app): Shared, Params(page): Params<Page>) -> Answer<Response> {
    let limit = page.limit.unwrap_or(MAX_STREAMS);
    if !(1..=MAX_STREAMS).contains(&limit) {
        return Err(Problem::bad("parameter", format!("limit: 1 to {MAX_STREAMS}")));
    }
    let own = Arc::clone(&app);
    let written = app.computing(move || {
        let listed = own.service.list(&page.after, limit);
        let now = now();
        let next = listed.last().filter(|_| listed.len() == limit).map(|last| &*last.declaration.name);
        let streams = listed.iter().map(|listed| row(listed, now)).collect();
        serde_json::to_vec(&Rows { now: seconds(), streams, next })
    });
    let written = written.await?.map_err(unreadable)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], written).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SparklineQuery {
    streams: Vec<String>,
    #[serde(default = "usual_points")]
    points: usize,
}

const fn usual_points() -> usize {
    30
}

/// The last releases of a stream, as a series.
#[derive(Serialize)]
struct Sparkline {
    stream: String,
    /// The value that the series is of; null for numbers.
    value: Option<String>,
    timestamps: Vec<u64>,
    values: Vec<f64>,
    /// Standard deviations; null where none is stated.
    deviations: Vec<Option<f64>>,
    freshness: Vec<Freshness>,
}

async fn sparklines(State(app): Shared, request: Request) -> Answer<Json<JsonValue>> {
    expect_json(request.headers())?;
    let identity = request.extensions().get::<Identity>().cloned();
    let body = app.body(request, SMALL).await?;
    let SparklineQuery { streams, points } = serde_json::from_slice(body.as_ref())
        .map_err(|error| Problem::bad("query", tidegate::spec::plain_words(&error.to_string())))?;
    if !(1..=MAX_CHARTS).contains(&streams.len()) || !(1..=MAX_POINTS).contains(&points) {
        let message = format!("streams: 1 to {MAX_CHARTS}; points: 1 to {MAX_POINTS}");
        return Err(Problem::bad("query", message));
    }
    // Large domains get fewer points.
    let numbers = MAX_NUMBERS / streams.len();
    let mut wanted = Vec::with_capacity(streams.len());
    for declaration in streams.iter().filter_map(|name| app.service.overview(name)).map(|found| found.declaration) {
        let domain = domain_of(&declaration)?.max(1);
        wanted.push((declaration, points.min(numbers / domain).max(1), domain));
    }
    let memory: usize = wanted.iter().map(|(_, points, domain)| points * domain * NUMBER).sum();
    let share = identity.as_ref().map(|identity| app.memory(identity, memory)).transpose()?;
    let made = app.blocking(move |app| {
        let made = wanted.iter().map(|(declaration, points, _)| sparkline(app, declaration, *points));
        let made = made.collect::<Answer<Vec<_>>>();
        drop(share);
        made
    });
    Ok(Json(json!({ "sparklines": made.await?? })))
}

fn sparkline(app: &App, declaration: &Declaration, points: usize) -> Answer<Sparkline> {
    let name = &declaration.name;
    let after = app.latest(name, RecordKind::Release, points as u64)?;
    let filter = RecordFilter { after, limit: points, ..RecordFilter::default() };
    let records = app.records(name, RecordKind::Release, &filter)?;
    let releases = records.iter().map(|record| serde_json::from_str::<Release>(&record.body));
    let releases: Vec<Release> = releases.collect::<Result<_, _>>().map_err(unreadable)?;
    let leaves = |release: &Release| release.statistic.leaves().0.iter().copied().enumerate().collect::<Vec<_>>();
    let largest = releases.last().map(leaves).unwrap_or_default();
    let largest = largest.into_iter().reduce(|best, other| if other.1 > best.1 { other } else { best });
    let values = declaration.spec.values().map_err(unreadable)?;
    let place = largest.map_or(0, |(place, _)| place);
    let value = values.zip(u32::try_from(place).ok()).map(|(values, place)| values.name(place).into_owned());
    let mut made = Sparkline {
        stream: name.clone(),
        value: value.filter(|_| largest.is_some()),
        timestamps: Vec::with_capacity(releases.len()),
        values: Vec::with_capacity(releases.len()),
        deviations: Vec::with_capacity(releases.len()),
        freshness: Vec::with_capacity(releases.len()),
    };
    for release in &releases {
        let found = match &release.statistic {
            Statistic::Number(number) => Some((number.value, number.variance)),
            statistic => {
                let (numbers, variances) = statistic.leaves();
                numbers.get(place).copied().zip(variances.get(place).copied())
            }
        };
        let Some((number, variance)) = found else { continue };
        made.timestamps.push(release.timestamp);
        made.values.push(number);
        made.deviations.push(Some(variance.sqrt()).filter(|deviation| deviation.is_finite()));
        made.freshness.push(release.freshness);
    }
    Ok(made)
}

/// Schemas of these routes.
pub(in crate::http) fn schemas() -> JsonValue {
    let optional = |kind: &str| json!({ "type": [kind, "null"] });
    json!({
        "Token": {
            "type": "object", "required": ["name", "role", "advises", "clustered", "now", "version"],
            "properties": {
                "name": { "type": "string" },
                "role": { "enum": ["operator", "ingest", "analyst"] },
                "advises": { "description": "Whether mechanisms can be compared here.", "type": "boolean" },
                "clustered": { "description": "Whether it is the gateway of a cluster.", "type": "boolean" },
                "now": { "description": "Seconds since 1970.", "type": "number" },
                "version": { "type": "string" },
            },
        },
        "Overview": {
            "type": "object", "required": ["now", "streams", "next"],
            "properties": {
                "now": { "description": "Seconds since 1970.", "type": "number" },
                "streams": { "type": "array", "items": {
                    "type": "object",
                    "required": [
                        "name", "family", "mechanism", "shows", "status", "problem", "driven", "tick", "timestamp",
                        "last", "lag", "budget_left", "alarms",
                    ],
                    "properties": {
                        "name": { "type": "string" },
                        "family": { "type": "string" },
                        "mechanism": { "type": "string" },
                        "shows": { "enum": ["frequencies", "tree", "counts", "number"] },
                        "status": { "enum": ["running", "paused", "retired"] },
                        "problem": { "type": "boolean" },
                        "driven": { "type": "boolean" },
                        "tick": number(),
                        "timestamp": optional("integer"),
                        "last": optional("object"),
                        "lag": {
                            "description": "Seconds by which the next release is late; null for curated streams.",
                            "type": ["integer", "null"],
                        },
                        "budget_left": optional("number"),
                        "alarms": optional("object"),
                    },
                } },
                "next": optional("string"),
            },
        },
        "SparklineQuery": {
            "type": "object", "required": ["streams"],
            "properties": {
                "streams": {
                    "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": MAX_CHARTS,
                },
                "points": { "type": "integer", "minimum": 1, "maximum": MAX_POINTS, "default": usual_points() },
            },
            "additionalProperties": false,
        },
        "Sparklines": {
            "type": "object", "required": ["sparklines"],
            "properties": { "sparklines": { "type": "array", "items": {
                "type": "object",
                "required": ["stream", "value", "timestamps", "values", "deviations", "freshness"],
                "properties": {
                    "stream": { "type": "string" },
                    "value": optional("string"),
                    "timestamps": { "type": "array", "items": number() },
                    "values": { "type": "array", "items": { "type": "number" } },
                    "deviations": { "type": "array", "items": optional("number") },
                    "freshness": {
                        "type": "array", "items": { "enum": ["fresh", "approximated", "nullified"] },
                    },
                },
            } } },
        },
    })
}
