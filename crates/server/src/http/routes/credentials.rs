//! Routes for credentials of devices, and for the tokens that they draw with them.

use axum::extract::{Request, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use tidegate_device::credential::{DrawAnswer, DrawRequest};
use tokio::time::timeout;

use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, SMALL, Shared, expect_json};
use crate::http::route::{Route, object};
use crate::ingest::DrawError;

/// Most credentials of an answer.
pub(in crate::http) const MOST: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    const REFUSED: &[u16] = &[400, 404, 408, 409, 413, 415, 503];
    vec![
        Route::post(
            "/v1/streams/{stream}/credentials",
            "credentials",
            "The credentials of devices, for whoever knows them apart. Nothing is stored: a name has one credential",
            credentials,
        )
        // Everybody who may send reports could otherwise invent devices.
        .role(Role::Operator)
        .body(object("Devices"))
        .granted(200, object("Credentials"))
        .refused(&[400, 404, 408, 413, 415]),
        Route::post(
            "/v1/streams/{stream}/tokens",
            "tokens",
            "Tokens of a device for a block of timestamps. The same draw has the same answer; another one is refused",
            tokens,
        )
        .role(Role::Ingest)
        .body(object("Draw"))
        .granted(200, object("Tokens"))
        .refused(REFUSED),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Devices {
    devices: Vec<String>,
}

async fn credentials(State(app): Shared, Name(name): Name, request: Request) -> Answer<Json<JsonValue>> {
    expect_json(request.headers())?;
    let body = app.body(request, SMALL).await?;
    let expected = || format!("expected devices: 1 to {MOST} names of lower-case letters, digits, _ and -");
    let Devices { devices } =
        serde_json::from_slice(body.as_ref()).map_err(|_| Problem::bad("malformed", expected()))?;
    if !(1..=MOST).contains(&devices.len()) {
        return Err(Problem::bad("malformed", expected()));
    }
    let credential = |device: &String| app.service.credential(&name, device);
    let credentials: Vec<_> = devices.iter().map(credential).collect::<Result<_, _>>()?;
    Ok(Json(json!({ "credentials": credentials })))
}

async fn tokens(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    request: Request,
) -> Answer<Json<DrawAnswer>> {
    let refused = |reason| {
        let known = if app.service.has_credentials(&name) { name.as_str() } else { "" };
        app.telemetry.meters().refused(known, reason, 1);
    };
    expect_json(request.headers()).inspect_err(|_| refused("malformed"))?;
    let body = app.body(request, SMALL).await.inspect_err(|_| refused("malformed"))?;
    let draw: DrawRequest = serde_json::from_slice(body.as_ref()).map_err(|_| {
        refused("malformed");
        Problem::bad("malformed", "expected a draw: device, block, elements and mac")
    })?;
    let answer = async {
        let _turn = app.turns.wait(identity.client).await;
        app.service.draw(&name, draw).await
    };
    let outcome = timeout(app.settings.limits.store, answer).await.unwrap_or(Err(DrawError::Busy));
    Ok(Json(outcome.inspect_err(|error| refused(error.reason()))?))
}
