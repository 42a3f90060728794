//! Routes for the registry of users and their classes.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use tidegate_device::wire::MAX_BATCH;

use crate::http::App;
use crate::http::auth::Role;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{NDJSON, Name, NameAndUser, SMALL, Shared, expect_json, media_type, unsupported};
use crate::http::route::{Route, any_of, object, schema_ref, text};
use crate::ingest::members::{ClassRequest, parse_class_requests};

const USER: &str = "/v1/streams/{stream}/users/{user}";

pub(super) fn routes() -> Vec<Route> {
    let one_or_many = json!({ "application/json": { "schema": {
        "oneOf": [schema_ref("UserClass"), { "type": "array", "items": schema_ref("UserClass"), "minItems": 1 }],
    } } });
    let summary = "Registers users in classes, moves them to others, or lets them leave: from the next timestamp on";
    vec![
        Route::post("/v1/streams/{stream}/users", "users", summary, change_all)
            .role(Role::Ingest)
            .body(any_of([one_or_many, text(NDJSON)]))
            .granted(200, object("UsersTaken"))
            .refused(&[400, 404, 408, 409, 413, 415, 503]),
        Route::get(USER, "user", "The class of a user", show)
            .role(Role::Ingest)
            .granted(200, object("User"))
            .refused(&[400, 404, 409, 503]),
        Route::put(USER, "put_user", "Registers a user in a class, or moves the user to it", put)
            .role(Role::Ingest)
            .body(object("Class"))
            .granted(200, object("User"))
            .refused(&[400, 404, 408, 409, 413, 415, 503]),
        Route::delete(USER, "delete_user", "Lets a user leave", delete)
            .role(Role::Ingest)
            .granted(200, object("User"))
            .refused(&[400, 404, 409, 503]),
    ]
}

async fn change_all(State(app): Shared, Name(name): Name, request: Request) -> Answer<Json<JsonValue>> {
    let is_lines = match media_type(request.headers()).as_deref() {
        Some("application/json") => false,
        Some(NDJSON) => true,
        _ => return Err(unsupported("application/json or application/x-ndjson")),
    };
    let body = app.body(request, MAX_BATCH).await?;
    let parsed = app.computing(move || {
        let requests = parse_class_requests(body.as_ref(), is_lines);
        drop(body);
        requests
    });
    let requests = parsed.await??;
    let taken = requests.len();
    let from = app.blocking(move |app| app.service.change_classes(&name, requests)).await??;
    Ok(Json(json!({ "taken": taken, "from": from })))
}

/// Answers with the class of a user.
async fn answer(app: &Arc<App>, name: String, user: String) -> Answer<Json<JsonValue>> {
    let asked = user.clone();
    let found = app.blocking(move |app| app.service.class_of(&name, &asked)).await??;
    Ok(Json(json!({ "user": user, "class": found.class, "from": found.from })))
}

async fn show(State(app): Shared, NameAndUser(name, user): NameAndUser) -> Answer<Json<JsonValue>> {
    answer(&app, name, user).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    class: String,
}

async fn put(State(app): Shared, NameAndUser(name, user): NameAndUser, request: Request) -> Answer<Json<JsonValue>> {
    expect_json(request.headers())?;
    let body = app.body(request, SMALL).await?;
    let wanted: Wanted = serde_json::from_slice(body.as_ref())
        .map_err(|_| Problem::bad("malformed", "expected an object with class, a text"))?;
    let (stream, changed) = (name.clone(), ClassRequest { user: user.clone(), class: Some(wanted.class) });
    app.blocking(move |app| app.service.change_classes(&stream, vec![changed])).await??;
    answer(&app, name, user).await
}

async fn delete(State(app): Shared, NameAndUser(name, user): NameAndUser) -> Answer<Json<JsonValue>> {
    let (stream, changed) = (name.clone(), ClassRequest { user: user.clone(), class: None });
    app.blocking(move |app| app.service.change_classes(&stream, vec![changed])).await??;
    answer(&app, name, user).await
}
