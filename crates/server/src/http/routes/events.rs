//! Route for events of a curated stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use tidegate_device::wire::MAX_BATCH;

use crate::http::App;
use crate::http::auth::Role;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Held, NDJSON, Name, Params, Shared, media_type, unsupported};
use crate::http::route::{Route, any_of, number, object, parameter, schema_ref, text};
use crate::ingest::events::parse_events;

/// Path of the events route.
///
/// Each user's event can be a request of its own, so the number of requests may be what is protected. Nothing
/// observable follows them, accepted or refused: no metric, no log line at any level, no limit shared with other
/// routes. `docs/threat-model.md` has the list.
pub(in crate::http) const EVENTS: &str = "/v1/streams/{stream}/events";

/// Path of the route for history, which follows the same rules.
pub(in crate::http) const HISTORY: &str = "/v1/streams/{stream}/history";

pub(super) fn routes() -> Vec<Route> {
    let one_or_many = json!({ "application/json": { "schema": {
        "oneOf": [schema_ref("Event"), { "type": "array", "items": schema_ref("Event"), "minItems": 1 }],
    } } });
    let timestamp = parameter(
        "timestamp",
        "Timestamp of the events, which must be the open tick. A stream of numbers requires it.",
        number(),
    );
    let past = json!({
        "name": "timestamp", "in": "query", "required": true,
        "description": "Timestamp of the tick: after the last one that was released, and before the present one.",
        "schema": number(),
    });
    let history_summary = "Releases a whole tick of the past, of a stream that is not live yet. Ticks come in order";
    vec![
        Route::post(HISTORY, "history", history_summary, history)
            .role(Role::Ingest)
            .parameters([past])
            .body(any_of([one_or_many.clone(), text(NDJSON)]))
            .granted(200, object("Taken"))
            .refused(&[400, 404, 408, 409, 413, 415, 503]),
        Route::post(
            EVENTS,
            "events",
            "Adds events to the open tick of a curated stream. They are kept in memory until it is over",
            events,
        )
        .role(Role::Ingest)
        .parameters([timestamp])
        .body(any_of([one_or_many, text(NDJSON)]))
        .granted(200, object("Taken"))
        .refused(&[400, 404, 408, 409, 413, 415, 503]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    timestamp: Option<u64>,
}

/// Reads the body of a request with events. Returns whether they are lines.
async fn read(app: &App, request: Request) -> Answer<(Held, bool)> {
    let is_lines = match media_type(request.headers()).as_deref() {
        Some("application/json") => false,
        Some(NDJSON) => true,
        _ => return Err(unsupported("application/json or application/x-ndjson")),
    };
    Ok((app.body(request, MAX_BATCH).await?, is_lines))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Past {
    timestamp: u64,
}

async fn history(
    State(app): Shared,
    Name(name): Name,
    Params(Past { timestamp }): Params<Past>,
    request: Request,
) -> Answer<Json<JsonValue>> {
    let (body, is_lines) = read(&app, request).await?;
    let parsed = app.computing(move || match body.as_ref().trim_ascii() {
        // Nobody was there.
        b"[]" => Ok(Vec::new()),
        events => parse_events(events, is_lines),
    });
    let events = parsed.await??;
    let taken = app.blocking(move |app| app.service.push_history(&name, timestamp, events)).await??;
    Ok(Json(json!({ "taken": taken })))
}

async fn events(
    State(app): Shared,
    Name(name): Name,
    Params(About { timestamp }): Params<About>,
    request: Request,
) -> Answer<Json<JsonValue>> {
    let (body, is_lines) = read(&app, request).await?;
    let service = Arc::clone(&app.service);
    let taken = app.computing(move || {
        let events = parse_events(body.as_ref(), is_lines)?;
        drop(body);
        Ok::<_, Problem>(service.push_events(&name, timestamp, events)?)
    });
    Ok(Json(json!({ "taken": taken.await?? })))
}
