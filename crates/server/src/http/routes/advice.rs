//! Route for advice: which mechanism to declare, and which error to expect of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::{Value as JsonValue, json};

use crate::http::auth::Role;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Shared, expect_json};
use crate::http::route::{Route, object, schema_ref};

/// Largest body, in bytes.
const LARGEST: usize = 1 << 16;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/advise", "advise", "Compares mechanisms for a declaration, on typical streams", advise)
            .role(Role::Operator)
            .body(object("AdviceQuery"))
            .granted(200, object("Advice"))
            .refused(&[400, 404, 408, 413, 415, 503]),
    ]
}

async fn advise(State(app): Shared, request: Request) -> Answer<Json<JsonValue>> {
    expect_json(request.headers())?;
    let Some(advisor) = app.settings.advisor.clone() else {
        let message = "this program has no laboratory: ask `tidegate advise` of one that has";
        return Err(Problem::new(StatusCode::NOT_FOUND, "no_advice", message));
    };
    let body = app.body(request, LARGEST).await?;
    let asked: JsonValue =
        serde_json::from_slice(body.as_ref()).map_err(|error| Problem::bad("advice", format!("no JSON: {error}")))?;
    let turn = Arc::clone(&app.advising).try_acquire_owned();
    let turn = turn.map_err(|_| Problem::later("busy", "other advice is being computed", 5))?;
    // A thread of its own, beside those that wait for the store. It ends by itself, also if the caller goes away.
    let advised = tokio::task::spawn_blocking(move || {
        let advised = (advisor.0)(asked);
        drop(turn);
        advised
    });
    let bug = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "this should not have happened");
    Ok(Json(advised.await.map_err(bug)?.map_err(|problem| Problem::bad("advice", problem))?))
}

/// Schemas of this route.
pub(in crate::http) fn schemas() -> JsonValue {
    let text = json!({ "type": ["string", "null"] });
    json!({
        "AdviceQuery": {
            "type": "object", "required": ["declaration"],
            "properties": {
                "declaration": {
                    "description": "A declaration, of which `spec.mechanism` may be missing or \"recommended\".",
                    "type": "object",
                },
                "population": { "description": "The number of users, if the spec has none.", "type": "integer" },
                "metric": { "description": "The error that is to be small.", "type": "string" },
            },
            "additionalProperties": false,
        },
        "Advice": {
            "type": "object",
            "required": [
                "ranking", "unpredicted", "metric", "why", "otherwise", "mechanism", "declaration", "toml",
            ],
            "properties": {
                "ranking": { "type": "array", "items": {
                    "type": "object", "required": ["mechanism", "method", "error", "low", "high"],
                    "properties": {
                        "mechanism": { "type": "string" }, "method": { "type": "string" },
                        "error": { "type": "number" }, "low": { "type": "number" }, "high": { "type": "number" },
                        "bytes_per_user": { "type": ["number", "null"] },
                    },
                } },
                "unpredicted": { "type": "array" },
                "metric": { "type": "string" }, "why": { "type": "string" }, "otherwise": { "type": "string" },
                "mechanism": text,
                "declaration": { "oneOf": [schema_ref("Declaration"), { "type": "null" }] },
                "toml": text,
            },
        },
    })
}
