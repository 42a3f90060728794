//! Route for the state of the service as a whole, from its metrics: nothing in it follows events of curated streams.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value as JsonValue, json};

use super::overview::seconds;
use crate::http::auth::Role;
use crate::http::problem::Answer;
use crate::http::request::Shared;
use crate::http::route::{Route, number, object};
use crate::http::vitals;
use crate::service::StreamState;
use crate::store::Status;

/// Most streams that are listed.
const MAX_STREAMS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/operations", "operations", "The state of the service, from its metrics", operations)
            .role(Role::Analyst)
            .granted(200, object("Operations")),
    ]
}

async fn operations(State(app): Shared) -> Answer<Json<JsonValue>> {
    vitals::measure_store(&app).await;
    let own = Arc::clone(&app);
    let made = app.computing(move || {
        let states = own.service.states();
        let is = |status: Status| states.iter().filter(|state| state.status == status).count();
        let count = |is: fn(&StreamState) -> bool| states.iter().filter(|state| is(state)).count();
        let names: Vec<&str> = states.iter().map(|state| &*state.name).collect();
        let mut made = own.telemetry.meters().summary(&names, MAX_STREAMS);
        let age = own.began.elapsed().as_secs();
        made["now"] = seconds().into();
        made["version"] = env!("CARGO_PKG_VERSION").into();
        made["started"] = (crate::service::now() / 1_000).saturating_sub(age).into();
        made["streams"] = json!({
            "running": is(Status::Running), "paused": is(Status::Paused), "retired": is(Status::Retired),
            "problems": count(|state| state.has_problem), "undriven": count(|state| !state.is_driven),
        });
        made["reports"]["queued_batches"] = own.service.queued().into();
        made["store_bytes"] = own.telemetry.vitals().store_bytes().into();
        made
    });
    Ok(Json(made.await?))
}

/// Schema of this route.
pub(in crate::http) fn schemas() -> JsonValue {
    let object = json!({ "type": "object" });
    json!({
        "Operations": {
            "type": "object",
            "required": [
                "now", "version", "started", "streams", "reports", "releases", "skipped_ticks", "driver_errors",
                "suspicious", "slowest", "store_bytes", "webhooks", "by_stream",
            ],
            "properties": {
                "now": { "description": "Seconds since 1970.", "type": "number" },
                "version": { "type": "string" },
                "started": { "description": "Seconds since 1970; counters begin here.", "type": "integer" },
                "streams": object, "reports": object, "suspicious": object, "webhooks": object,
                "releases": number(), "skipped_ticks": number(), "driver_errors": number(),
                "slowest": { "type": ["object", "null"] },
                "store_bytes": { "type": ["integer", "null"] },
                "by_stream": { "type": "array", "items": {
                    "type": "object",
                    "required": ["stream", "accepted", "refused", "suspicious", "skipped", "lag_seconds"],
                    "properties": {
                        "stream": { "type": "string" }, "accepted": number(), "refused": object,
                        "suspicious": number(), "skipped": number(), "lag_seconds": { "type": ["number", "null"] },
                    },
                } },
            },
        },
    })
}
