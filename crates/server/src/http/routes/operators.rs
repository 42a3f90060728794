//! Routes for operators: create, show, pause, resume and retire streams.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value as JsonValue, json};

use tidegate::spec::plain_words;

use crate::http::App;
use crate::http::auth::Role;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, SMALL, Shared, expect_json};
use crate::http::route::{Route, object};
use crate::service::{Overview, ServiceError, declaration_tag};
use crate::store::{Status, StoreError};
use crate::stream::Declaration;

pub(super) fn routes() -> Vec<Route> {
    let of_operator =
        |route: Route| route.role(Role::Operator).granted(200, object("Stream")).refused(&[404, 409, 503]);
    let create_summary =
        "Creates a stream; if it exists and promises the same, replaces its queries, monitors, webhooks and retention";
    vec![
        Route::get("/v1/streams", "streams", "All streams", streams)
            .role(Role::Analyst)
            .granted(200, object("Streams")),
        of_operator(Route::post("/v1/streams", "create", create_summary, create))
            .body(object("Declaration"))
            .granted(201, object("Stream"))
            .refused(&[400, 408, 409, 412, 413, 415, 503]),
        Route::get(
            "/v1/streams/{stream}/declaration",
            "declaration",
            "The declaration of a stream, to be changed and sent again with its `ETag` in `If-Match`",
            declaration,
        )
        .role(Role::Operator)
        .granted(200, object("Declaration"))
        .refused(&[404, 503]),
        Route::get("/v1/streams/{stream}", "stream", "A stream", stream)
            .role(Role::Analyst)
            .granted(200, object("Stream"))
            .refused(&[404]),
        of_operator(Route::post(
            "/v1/streams/{stream}/pause",
            "pause",
            "Finishes the open tick, and opens no other",
            pause,
        )),
        of_operator(Route::post("/v1/streams/{stream}/resume", "resume", "Opens ticks again", resume)),
        of_operator(Route::post("/v1/streams/{stream}/retire", "retire", "Ends a stream, for ever", retire)),
    ]
}

/// Shows a stream to a role. Only operators see webhooks, whose URLs may contain secrets, and problems, which may name
/// files.
fn view(overview: &Overview, role: Role) -> Answer<JsonValue> {
    let bug = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "this stream cannot be written down");
    let mut view = serde_json::to_value(overview).map_err(bug)?;
    if let Some(view) = view.as_object_mut() {
        if role != Role::Operator {
            view.remove("webhooks");
            if overview.problem.is_some() {
                view.insert("problem".to_owned(), "it is stopped; its operator can see why".into());
            }
        }
        let timestamp = overview.declaration.schedule().timestamp(crate::service::now());
        view.insert("timestamp".to_owned(), timestamp.into());
    }
    Ok(view)
}

async fn streams(Extension(role): Extension<Role>, State(app): Shared) -> Answer<Json<JsonValue>> {
    let streams = app.service.streams();
    let streams = streams.iter().map(|overview| view(overview, role)).collect::<Answer<Vec<_>>>()?;
    Ok(Json(json!({ "streams": streams })))
}

async fn stream(Extension(role): Extension<Role>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    Ok(Json(view(&app.overview(&name)?, role)?))
}

async fn create(Extension(role): Extension<Role>, State(app): Shared, request: Request) -> Answer<Response> {
    expect_json(request.headers())?;
    let (tag, only_new) = (expected_tag(request.headers())?, expects_none(request.headers())?);
    let body = app.body(request, SMALL).await?;
    let declaration: Declaration = serde_json::from_slice(body.as_ref())
        .map_err(|error| Problem::bad("declaration", plain_words(&error.to_string())))?;
    let name = declaration.name.clone();
    let is_new = app.service.overview(&name).is_none();
    let stored = app.blocking(move |app| {
        match only_new {
            true => app.service.create_new(&declaration)?,
            false => app.service.create_if(&declaration, tag.as_deref())?,
        }
        app.service.declaration(&declaration.name)
    });
    let stored = stored.await?.map_err(|error| match error {
        ServiceError::Store(StoreError::Exists(_)) => {
            Problem::new(StatusCode::PRECONDITION_FAILED, "exists", error.to_string())
        }
        error => error.into(),
    });
    let tag = tag_of(&stored?);
    tracing::info!(stream = name, is_new, "a stream was declared");
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, tag, Json(view(&app.overview(&name)?, role)?)).into_response())
}

/// Header with the tag of a declaration.
fn tag_of(declaration: &Declaration) -> [(header::HeaderName, String); 1] {
    [(header::ETAG, format!("\"{}\"", declaration_tag(declaration)))]
}

/// Reads the tag of the declaration that is to be replaced.
fn expected_tag(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().ok().and_then(|tag| tag.trim().strip_prefix('"')?.strip_suffix('"'));
    let tag = tag.ok_or_else(|| Problem::bad("parameter", "If-Match: expected the ETag of a declaration"))?;
    Ok(Some(tag.to_owned()))
}

/// Whether `If-None-Match: *` asks that no stream has the name.
fn expects_none(headers: &HeaderMap) -> Answer<bool> {
    match headers.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        None => Ok(false),
        Some(b"*") if !headers.contains_key(header::IF_MATCH) => Ok(true),
        Some(_) => Err(Problem::bad("parameter", "If-None-Match: only * is possible, and without If-Match")),
    }
}

async fn declaration(State(app): Shared, Name(name): Name) -> Answer<Response> {
    let declaration = app.blocking(move |app| app.service.declaration(&name)).await??;
    Ok((tag_of(&declaration), Json(declaration)).into_response())
}

async fn set_status(app: &Arc<App>, name: String, role: Role, status: Status) -> Answer<Json<JsonValue>> {
    let stream = name.clone();
    app.blocking(move |app| app.service.set_status(&stream, status)).await??;
    tracing::info!(stream = name, status = status.name(), "an operator has set the status");
    Ok(Json(view(&app.overview(&name)?, role)?))
}

async fn pause(Extension(role): Extension<Role>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    set_status(&app, name, role, Status::Paused).await
}

async fn resume(Extension(role): Extension<Role>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    set_status(&app, name, role, Status::Running).await
}

async fn retire(Extension(role): Extension<Role>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    set_status(&app, name, role, Status::Retired).await
}
