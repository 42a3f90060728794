//! Routes for the alarms of a stream's monitors.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};

use super::records::unreadable;
use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, Params, Shared};
use crate::http::route::{Route, number, object, parameter, schema_ref};
use crate::service::{ALARM_HISTORY, Alarm};
use crate::stream::Declaration;

/// Most alarms in an answer, and as many as are returned unless told otherwise.
const LIMITS: (usize, usize) = (1_000, 100);

pub(super) fn routes() -> Vec<Route> {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": LIMITS.0, "default": LIMITS.1 });
    let acknowledge_summary = "Acknowledges an alarm, unless somebody did so before";
    vec![
        Route::get("/v1/streams/{stream}/alarms", "alarms", "Alarms of monitors, the latest first", alarms)
            .role(Role::Analyst)
            .parameters([parameter("limit", "Most alarms.", limit)])
            .granted(200, object("Alarms"))
            .refused(&[400, 404, 503]),
        Route::post(
            "/v1/streams/{stream}/alarms/{number}/acknowledge",
            "acknowledge",
            acknowledge_summary,
            acknowledge,
        )
        .role(Role::Operator)
        .granted(200, object("Alarm"))
        .refused(&[404, 503]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    limit: Option<usize>,
}

/// Writes an alarm, with the time of its timestamp where timestamps have times.
fn view(alarm: &Alarm, declaration: &Declaration) -> Answer<JsonValue> {
    let mut view = serde_json::to_value(alarm).map_err(unreadable)?;
    if let Some(time) = declaration.times().time(alarm.timestamp) {
        view["time"] = time.into();
    }
    Ok(view)
}

/// Memory that an alarm takes while it is read and written.
const ALARM: usize = 512;

async fn alarms(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    Params(page): Params<Page>,
) -> Answer<Json<JsonValue>> {
    let (most, usual) = LIMITS;
    let limit = page.limit.unwrap_or(usual);
    if !(1..=most).contains(&limit) {
        return Err(Problem::bad("parameter", format!("limit: 1 to {most}")));
    }
    let declaration = app.overview(&name)?.declaration;
    let _memory = app.memory(&identity, ALARM_HISTORY * ALARM)?;
    let stream = name.clone();
    let mut found = app.blocking(move |app| app.service.alarms(&stream)).await??;
    found.truncate(limit);
    let found = found.iter().map(|alarm| view(alarm, &declaration)).collect::<Answer<Vec<_>>>()?;
    Ok(Json(json!({ "stream": name, "alarms": found })))
}

async fn acknowledge(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    path: Result<Path<(String, u64)>, PathRejection>,
) -> Answer<Json<JsonValue>> {
    let no_alarm = || {
        let message = format!("there is no such alarm among the last {ALARM_HISTORY} of this stream");
        Problem::new(StatusCode::NOT_FOUND, "no_alarm", message)
    };
    let Path((name, number)) = path.map_err(|_| no_alarm())?;
    let declaration = app.overview(&name)?.declaration;
    let _memory = app.memory(&identity, ALARM_HISTORY * ALARM)?;
    let by = identity.token.as_ref().map_or_else(String::new, |token| token.entry.name.clone());
    let stream = name.clone();
    let alarm = app.blocking(move |app| app.service.acknowledge(&stream, number, &by)).await??;
    let alarm = alarm.ok_or_else(no_alarm)?;
    tracing::info!(stream = name, number, "an alarm was acknowledged");
    Ok(Json(view(&alarm, &declaration)?))
}

/// Schemas of these routes.
pub(in crate::http) fn schemas() -> JsonValue {
    json!({
        "Alarms": {
            "type": "object", "required": ["stream", "alarms"],
            "properties": {
                "stream": { "type": "string" },
                "alarms": { "type": "array", "items": schema_ref("Alarm") },
            },
        },
        "Alarm": {
            "type": "object",
            "required": ["number", "timestamp", "monitor", "ended", "ended_number", "acknowledged"],
            "properties": {
                "number": { "description": "Number of the answer that raised it.", "type": "integer" },
                "timestamp": number(),
                "time": { "type": "string" },
                "monitor": { "type": "string" },
                "ended": { "description": "Timestamp at which it ended; null before.", "type": ["integer", "null"] },
                "ended_number": { "type": ["integer", "null"] },
                "acknowledged": {
                    "description": "By whom, and when in seconds since 1970; null before.",
                    "type": ["object", "null"],
                    "properties": { "by": { "type": "string" }, "at": number() },
                },
            },
        },
    })
}
