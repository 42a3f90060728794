//! Routes for people and machines that watch: page, health, metrics, API description.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as JsonValue, json};

use crate::http::auth::Role;
use crate::http::openapi;
use crate::http::problem::{Answer, Problem};
use crate::http::request::Shared;
use crate::http::route::{Route, object, text};

pub(super) fn routes() -> Vec<Route> {
    let any_object = json!({ "application/json": { "schema": { "type": "object" } } });
    vec![
        Route::get("/", "page", "A page that shows streams and their latest releases", page)
            .granted(200, text("text/html")),
        Route::get("/status.js", "script", "Script of the page", script).granted(200, text("text/javascript")),
        Route::get("/status.css", "style", "Style of the page", style).granted(200, text("text/css")),
        Route::get("/healthz", "healthz", "Whether the process is alive", healthz).granted(200, object("State")),
        Route::get("/readyz", "readyz", "Whether reports can be accepted: the store can be written to", readyz)
            .granted(200, object("State"))
            .refused(&[503]),
        Route::get("/metrics", "metrics", "Metrics for Prometheus. A setting makes them public", metrics)
            .role(Role::Analyst)
            .waived_by(|settings| settings.public_metrics)
            .granted(200, text("application/openmetrics-text")),
        Route::get("/openapi.json", "openapi", "This document", description).granted(200, any_object),
    ]
}

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page is a constant file: its script fills it in the browser, so there is no HTML to generate.
async fn page() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, PAGE_POLICY)];
    (headers, include_str!("../page/index.html")).into_response()
}

async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../page/status.js")).into_response()
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../page/status.css")).into_response()
}

async fn healthz() -> Json<JsonValue> {
    Json(json!({ "status": "alive" }))
}

async fn readyz(State(app): Shared) -> Answer<Json<JsonValue>> {
    // Anybody may ask, and the check writes: one at a time, at most once a second.
    let mut known = app.readiness.lock().await;
    let is_ready = match *known {
        Some((asked, is_ready)) if asked.elapsed() < Duration::from_secs(1) => is_ready,
        _ => {
            let began = Instant::now();
            let ready = app.blocking(|app| app.service.ready()).await?;
            app.telemetry.meters().store("check", began.elapsed());
            if let Err(error) = &ready {
                tracing::warn!(%error, "not ready");
            }
            *known = Some((Instant::now(), ready.is_ok()));
            ready.is_ok()
        }
    };
    drop(known);
    if is_ready {
        Ok(Json(json!({ "status": "ready" })))
    } else {
        Err(Problem::later("not_ready", "the service cannot accept reports at present", 1))
    }
}

async fn metrics(State(app): Shared) -> Response {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], app.telemetry.text()).into_response()
}

async fn description() -> Json<&'static JsonValue> {
    Json(openapi::document())
}
