//! Routes for machines that watch: health, metrics, API description.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value as JsonValue, json};

use crate::http::auth::Role;
use crate::http::middleware::Constant;
use crate::http::problem::{Answer, Problem};
use crate::http::request::Shared;
use crate::http::route::{Route, object, text};
use crate::http::{openapi, readiness, vitals};

/// Paths of the listener for monitoring.
pub(in crate::http) const MONITORING: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) fn routes() -> Vec<Route> {
    let any_object = json!({ "application/json": { "schema": { "type": "object" } } });
    vec![
        Route::get("/healthz", "healthz", "Whether the process is alive", healthz).granted(200, object("State")),
        Route::get("/readyz", "readyz", "Whether reports can be accepted: store and marks can be written to", readyz)
            .granted(200, object("State"))
            .refused(&[503]),
        Route::get("/metrics", "metrics", "Metrics for Prometheus. A setting makes them public", metrics)
            .role(Role::Analyst)
            .waived_by(|settings| settings.public_metrics)
            .granted(200, text("application/openmetrics-text")),
        Route::get("/openapi.json", "openapi", "This document", description).granted(200, any_object),
    ]
}

async fn healthz() -> Json<JsonValue> {
    Json(json!({ "status": "alive" }))
}

async fn readyz(State(app): Shared) -> Answer<Json<JsonValue>> {
    if readiness::is_ready(&app).await {
        Ok(Json(json!({ "status": "ready" })))
    } else {
        Err(Problem::later("not_ready", "the service cannot accept reports at present", 1))
    }
}

async fn metrics(State(app): Shared) -> Response {
    vitals::measure_store(&app).await;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], app.telemetry.text(&app.service)).into_response()
}

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Extension(Constant), openapi::document()).into_response()
}
