//! Routes for devices and collectors: operator's key, policies, questions and reports.

use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use tidegate::spec::DomainSpec;
use tidegate_device::absence::SignedTime;
use tidegate_device::api::{BATCH, Receipt};
use tidegate_device::wire::{BatchText, MAX_BATCH};
use tokio::time::timeout_at;

use crate::http::App;
use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, Params, Shared, media_type, unsupported};
use crate::http::route::{Route, any_of, number, object, parameter};
use crate::ingest::ReportError;

/// Longest wait for new questions, in seconds.
const MAX_WAIT: u64 = 60;

pub(super) fn routes() -> Vec<Route> {
    let wait = json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT, "default": 0 });
    let bytes = json!({ BATCH: { "schema": { "type": "string", "format": "binary" } } });
    let digits = json!({ "type": "string", "pattern": "^[0-9a-fA-F]{32}$" });
    let mut nonce = parameter("nonce", "What the device has drawn for this request.", digits);
    nonce["required"] = true.into();
    vec![
        Route::get("/v1/operator-key", "operatorKey", "The key with which devices verify policies", operator_key)
            .granted(200, object("OperatorKey")),
        Route::get("/v1/time", "time", "The time, signed by the operator for devices that were away", time)
            .parameters([nonce])
            .granted(200, object("SignedTime"))
            .refused(&[400]),
        Route::get(
            "/v1/streams/{stream}/policy",
            "policy",
            "The privacy policy of devices, signed by the operator",
            policy,
        )
        .granted(200, object("SignedPolicy"))
        .refused(&[404]),
        Route::get(
            "/v1/streams/{stream}/values",
            "values",
            "The values of the domain, or the range of numbers",
            values,
        )
        .granted(200, object("Values"))
        .refused(&[404]),
        Route::get("/v1/streams/{stream}/questions", "questions", "The open questions to devices", questions)
            .parameters([
                parameter("after", "A known round: the answer waits until there is another.", number()),
                parameter("wait", "Longest wait, in seconds.", wait),
            ])
            .granted(200, object("Asking"))
            .refused(&[400, 404, 503]),
        Route::post(
            "/v1/streams/{stream}/reports",
            "reports",
            "Accepts reports of devices. They are durable when the answer comes; sent again, they do not count again",
            reports,
        )
        .role(Role::Ingest)
        .body(any_of([object("Batch"), bytes]))
        .granted(200, object("Receipt"))
        .refused(&[400, 404, 408, 409, 413, 415, 503]),
    ]
}

async fn operator_key(State(app): Shared) -> Json<JsonValue> {
    Json(json!({ "algorithm": "ed25519", "key": hex::encode(app.service.operator_key()) }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawn {
    nonce: String,
}

async fn time(State(app): Shared, Params(Drawn { nonce }): Params<Drawn>) -> Answer<Json<SignedTime>> {
    let time = app.service.signed_time(&nonce);
    let time = time.ok_or_else(|| Problem::bad("parameter", "nonce: expected 32 hexadecimal digits"))?;
    Ok(Json(time))
}

fn no_policy() -> Problem {
    let message = "this stream asks no devices, so it has no policy and no questions";
    Problem::new(StatusCode::NOT_FOUND, "no_policy", message)
}

async fn policy(State(app): Shared, Name(name): Name) -> Answer<Response> {
    app.overview(&name)?;
    let policy = app.service.policy(&name).ok_or_else(no_policy)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], policy.to_string()).into_response())
}

/// The domain is public: devices must know it, and every release names it.
async fn values(State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    let spec = app.overview(&name)?.declaration.spec;
    let none =
        || Problem::new(StatusCode::NOT_FOUND, "no_values", "this stream has numbers, and no values of a domain");
    let values = spec.values().ok().flatten().ok_or_else(none)?;
    let names = values.is_named().then(|| (0..values.count()).map(|value| values.name(value)).collect::<Vec<_>>());
    let numbers = values.grid().map(|grid| {
        let [low, high, resolution] = grid.decimals();
        DomainSpec { resolution: Some(resolution), ..DomainSpec::whole(low, high) }
    });
    let mut told = json!({ "count": values.count(), "names": names });
    if let Some(numbers) = numbers {
        told["numbers"] = json!(numbers);
    }
    Ok(Json(told))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPoll {
    after: Option<u64>,
    wait: Option<u64>,
}

async fn questions(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    Params(LongPoll { after, wait }): Params<LongPoll>,
) -> Answer<Response> {
    let wait = wait.unwrap_or(0);
    if wait > MAX_WAIT {
        return Err(Problem::bad("parameter", format!("wait: at most {MAX_WAIT} seconds")));
    }
    let mut changes = app.service.changes(&name).ok_or_else(Problem::no_stream)?;
    // The round of a curated stream would tell strangers when it publishes.
    app.service.policy(&name).ok_or_else(no_policy)?;
    let mut stopping = app.stopping.clone();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(wait);
    let mut place = None;
    loop {
        changes.borrow_and_update();
        let asking = app.service.asking(&name).ok_or_else(Problem::no_stream)?;
        // Any other round ends the wait, so that a client does not wait for a round that never was.
        if after != Some(asking.round) || wait == 0 || tokio::time::Instant::now() >= deadline || *stopping.borrow() {
            return Ok(Json(asking).into_response());
        }
        if place.is_none() {
            place = Some(app.place(&identity, false)?);
        }
        tokio::select! {
            _ = changes.changed() => {}
            _ = stopping.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}

async fn reports(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    request: Request,
) -> Answer<Json<Receipt>> {
    let refused = |reason| app.telemetry.meters().refused(known(&app, &name), reason, 1);
    let media_type = media_type(request.headers());
    let is_text = match media_type.as_deref() {
        Some(BATCH) => false,
        Some("application/json") => true,
        _ => {
            refused("malformed");
            return Err(unsupported("application/vnd.tidegate.batch or application/json"));
        }
    };
    let body = app.body(request, MAX_BATCH).await.inspect_err(|_| refused("malformed"))?;
    let batch = if is_text {
        let stream = name.clone();
        let parsed = app.computing(move || {
            let bytes = bytes_of_text(&stream, body.as_ref())?;
            Ok::<_, Problem>(body.replaced_by(bytes))
        });
        parsed.await?.inspect_err(|_| refused("malformed"))?
    } else {
        body
    };
    let deadline = Instant::now() + app.settings.limits.store;
    let mut turn = None;
    if app.service.has_credentials(&name) {
        // Nothing is written without a turn.
        turn = timeout_at(deadline.into(), app.turns.wait(identity.client)).await.map_err(|_| {
            refused("busy");
            ReportError::Busy
        })?;
    }
    let report = app.service.report(&name, batch.into_bytes(), deadline);
    let outcome = timeout_at(deadline.into(), report).await;
    drop(turn);
    Ok(Json(outcome.unwrap_or(Err(ReportError::Store))?))
}

/// Returns the name of a stream if it exists: others would fill the metrics.
fn known<'a>(app: &App, name: &'a str) -> &'a str {
    if app.service.changes(name).is_some() { name } else { "" }
}

fn bytes_of_text(name: &str, body: &[u8]) -> Answer<Vec<u8>> {
    // Errors do not repeat reports.
    let text: BatchText = serde_json::from_slice(body).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Problem::bad(
            "malformed",
            format!("{place}: expected a batch: stream, timestamp, phase and reports, each with id and report"),
        )
    })?;
    if text.stream != name {
        return Err(ReportError::OtherStream.into());
    }
    Ok(text.to_bytes().map_err(ReportError::from)?)
}
