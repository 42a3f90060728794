//! The routes.

use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as JsonValue, json};
use tidegate::release::Release;
use tidegate::rows::{Format, Shape};
use tidegate::spec::{QuerySpec, StreamSpec};
use tidegate_device::api::{BATCH, Receipt};
use tidegate_device::wire::{BatchText, MAX_BATCH};

use super::auth::Role;
use super::listen::Peer;
use super::problem::Problem;
use super::rate::Caller;
use super::{App, feed, openapi};
use crate::ingest::ReportError;
use crate::ingest::events::parse_events;
use crate::service::Overview;
use crate::store::{Record, RecordFilter, RecordKind, Status};
use crate::stream::Declaration;

/// The most that a client may send, in bytes, where it is not reports or events.
const SMALL: usize = 1 << 20;

/// Where a curator is told something. How many requests come here may be what is protected: each user's event can be
/// one of its own. So nothing that others can observe follows them, whether they are granted or refused: no metric, no
/// log line at any level, no limit that other routes share. `docs/threat-model.md` has the list.
const EVENTS: &str = "/v1/streams/{stream}/events";

/// How long questions may be held back, in seconds.
pub(super) const MAX_WAIT: u64 = 60;

/// How many records may be asked for at once.
pub(super) const MAX_RECORDS: usize = 10_000;

/// How many numbers an answer has at most, about: of large domains there are fewer releases in one.
const MAX_NUMBERS: usize = 2_000_000;

/// The media type of a JSON object a line.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// The header that says where to go on, for formats that have no place for it.
const NEXT: HeaderName = HeaderName::from_static("tidegate-next");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) type Shared = State<Arc<App>>;
type Answer<T> = Result<T, Problem>;

pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/status.js", get(script))
        .route("/status.css", get(style))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(description))
        .route("/v1/operator-key", get(operator_key))
        .route("/v1/streams", get(streams).post(create))
        .route("/v1/streams/{stream}", get(stream))
        .route("/v1/streams/{stream}/pause", post(pause))
        .route("/v1/streams/{stream}/resume", post(resume))
        .route("/v1/streams/{stream}/retire", post(retire))
        .route("/v1/streams/{stream}/policy", get(policy))
        .route("/v1/streams/{stream}/questions", get(questions))
        .route("/v1/streams/{stream}/reports", post(reports))
        .route(EVENTS, post(events))
        .route("/v1/streams/{stream}/releases", get(releases))
        .route("/v1/streams/{stream}/answers", get(answers))
        .route("/v1/streams/{stream}/query", post(query))
        .route("/v1/streams/{stream}/feed", get(feed::feed))
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "no_path", "there is nothing here") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this can be done by other methods only")
        })
        .layer(from_fn_with_state(Arc::clone(&app), around))
        .with_state(app)
}

/// Who sends a request, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct Identity {
    /// The token, by its place.
    token: Option<usize>,
    /// Whether something was sent that is no token.
    wrong: bool,
}

/// The name of a request: random bits, so that it tells nothing about other requests. Empty where the operating system
/// gives no randomness; the answer then has none.
fn request_id() -> String {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:032x}", u128::from_ne_bytes(bytes)),
        Err(_) => String::new(),
    }
}

/// Whether a request may bring events: it is of that route, whatever its method, or of none, as a misspelt one is.
fn may_bring_events(extensions: &Extensions) -> bool {
    extensions.get::<MatchedPath>().is_none_or(|route| route.as_str() == EVENTS)
}

/// Names a request, finds out who sends it, limits how often, counts and logs it, and adds the headers of every answer.
async fn around(State(app): Shared, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id();
    let may_bring_events = may_bring_events(request.extensions());
    let identity = app.identify(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("", |route| route.as_str());
    let peer = request.extensions().get::<Peer>().copied();
    let response = match app.limit(identity, peer, may_bring_events) {
        Ok(()) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(problem) => {
            if !may_bring_events {
                app.telemetry.meters().refused("", "rate", 1);
            }
            problem.into_response()
        }
    };
    let response = finished(response, &app, &id);
    if may_bring_events {
        return response;
    }
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let method = if is_known(&method) { method.as_str() } else { "other" };
    app.telemetry.meters().request(method, route, status, took);
    let token = identity.token.and_then(|token| app.settings.tokens.entry(token)).map_or("", |entry| &entry.name);
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    // Neither the path nor the query as they were sent: nothing is logged that a client can choose.
    tracing::debug!(id, method, route, status, token, milliseconds, "request");
    response
}

fn is_known(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH]
        .contains(method)
}

/// With the headers that every answer has.
fn finished(mut response: Response, app: &App, id: &str) -> Response {
    let headers = response.headers_mut();
    let mut unless_there = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    unless_there(header::CACHE_CONTROL, "no-store");
    unless_there(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    unless_there(header::REFERRER_POLICY, "no-referrer");
    unless_there(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
    if app.settings.tls.is_some() {
        unless_there(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    if !id.is_empty()
        && let Ok(id) = HeaderValue::from_str(id)
    {
        headers.insert(REQUEST_ID, id);
    }
    response
}

impl App {
    fn identify(&self, headers: &HeaderMap) -> Identity {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Identity { token: None, wrong: false } };
        let secret = value.to_str().ok().and_then(|text| {
            let (scheme, secret) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start_matches(' '))
        });
        let token = secret.and_then(|secret| self.settings.tokens.position(secret));
        Identity { token, wrong: token.is_none() }
    }

    /// Limits holders of tokens by those, and others by where they are. Events have a limit of their own for each
    /// token, which other routes do not share. There, a request without a token is not limited: to refuse it costs as
    /// little as to say that it came too often, and a limit would tell others at its address how many came.
    fn limit(&self, identity: Identity, peer: Option<Peer>, may_bring_events: bool) -> Answer<()> {
        let limits = &self.settings.limits;
        if may_bring_events && identity.token.is_none() {
            return Ok(());
        }
        let (caller, rate) = match (identity.token, peer) {
            (Some(token), _) => (Caller::Token(token), limits.token_rate),
            (None, Some(Peer(address))) => (Caller::of(address), limits.address_rate),
            (None, None) => (Caller::Others, limits.address_rate),
        };
        let rates = if may_bring_events { &self.event_rates } else { &self.rates };
        let wait = rates.check(caller, rate, self.began.elapsed());
        wait.map_err(|wait| Problem::too_often(wait.as_secs() + 1))
    }

    /// That who sends it may do what is for a role.
    fn allow(&self, parts: &Parts, needed: Role) -> Answer<Role> {
        let refuse = |status, error, message: &str| {
            if !may_bring_events(&parts.extensions) {
                self.telemetry.meters().refused("", "unauthorised", 1);
            }
            Err(Problem::new(status, error, message))
        };
        let identity = parts.extensions.get::<Identity>().copied();
        let entry = identity.and_then(|identity| self.settings.tokens.entry(identity.token?));
        match entry {
            Some(entry) if entry.role.may(needed) => Ok(entry.role),
            Some(entry) => {
                let message = format!("this is for the role {needed}, and the token has the role {}", entry.role);
                refuse(StatusCode::FORBIDDEN, "role", &message)
            }
            None if identity.is_some_and(|identity| identity.wrong) => {
                refuse(StatusCode::UNAUTHORIZED, "token", "no such token is known here")
            }
            None => refuse(StatusCode::UNAUTHORIZED, "token", "a token is needed: Authorization: Bearer …"),
        }
    }

    /// Calls what blocks, on a thread that may.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Answer<T> {
        let app = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&app))
            .await
            .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "this should not have happened"))
    }

    /// Reads records. Blocks.
    pub(super) fn records(&self, stream: &str, records: RecordKind, wanted: &RecordFilter) -> Answer<Vec<Record>> {
        let began = Instant::now();
        let found = self.service.records(stream, records, wanted);
        self.telemetry.meters().store("read", began.elapsed());
        Ok(found?)
    }

    /// Returns the number of the last published record; zero where there is none. Blocks.
    pub(super) fn latest(&self, stream: &str, kind: RecordKind) -> Answer<u64> {
        let began = Instant::now();
        let latest = self.service.latest(stream, kind);
        self.telemetry.meters().store("read", began.elapsed());
        Ok(latest?)
    }

    pub(super) fn overview(&self, stream: &str) -> Answer<Overview> {
        self.service.overview(stream).ok_or_else(Problem::no_stream)
    }

    /// The body of a request, if it is not too long and comes in time.
    async fn body(&self, body: Body, limit: usize) -> Answer<Bytes> {
        match tokio::time::timeout(self.settings.limits.body, whole(body, limit)).await {
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => {
                let message = format!("more than {limit} bytes");
                Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
            }
            Ok(Err(_)) => Err(Problem::bad("body", "the body ended early, or is not as its headers say")),
            Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body took too long")),
        }
    }
}

/// By how much a body may be too long to be read to its end all the same: a client that is not read from may never see
/// the answer.
const LINGER: usize = 1 << 20;

/// A body; `None` where it is too long.
async fn whole(mut body: Body, limit: usize) -> Result<Option<Bytes>, axum::Error> {
    let declared = usize::try_from(hyper::body::Body::size_hint(&body).lower()).unwrap_or(usize::MAX);
    if declared > limit + LINGER {
        return Ok(None);
    }
    let (mut bytes, mut length) = (BytesMut::with_capacity(declared.min(limit)), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        length += data.len();
        if length > limit + LINGER {
            break;
        }
        if length <= limit {
            bytes.extend_from_slice(&data);
        }
    }
    Ok((length <= limit).then(|| bytes.freeze()))
}

/// A role that a request needs, as a type.
pub(super) trait Needed {
    const ROLE: Role;
}

#[derive(Debug)]
pub(super) struct Operator;
#[derive(Debug)]
pub(super) struct Ingest;
#[derive(Debug)]
pub(super) struct Analyst;

impl Needed for Operator {
    const ROLE: Role = Role::Operator;
}
impl Needed for Ingest {
    const ROLE: Role = Role::Ingest;
}
impl Needed for Analyst {
    const ROLE: Role = Role::Analyst;
}

/// Whoever sends the request may do what is for a role. First among the arguments of a route, so that nobody else
/// learns anything.
#[derive(Debug)]
pub(super) struct May<R>(Role, PhantomData<R>);

impl<R: Needed> FromRequestParts<Arc<App>> for May<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.allow(parts, R::ROLE).map(|role| Self(role, PhantomData))
    }
}

/// The name of a stream, in a path.
#[derive(Debug)]
pub(super) struct Name(pub(super) String);

impl FromRequestParts<Arc<App>> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        // What is no text is no stream's name.
        let path = Path::<String>::from_request_parts(parts, app).await;
        path.map(|Path(name)| Self(name)).map_err(|_| Problem::no_stream())
    }
}

/// The parameters of a query string: all of them known, each once.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, app).await;
        query.map(|Query(params)| Self(params)).map_err(|error| Problem::bad("parameter", error.body_text()))
    }
}

/// The media type of a body, without parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

fn unsupported(expected: &str) -> Problem {
    let message = format!("Content-Type: expected {expected}");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message)
}

fn expect_json(headers: &HeaderMap) -> Answer<()> {
    match media_type(headers).as_deref() {
        Some("application/json") => Ok(()),
        _ => Err(unsupported("application/json")),
    }
}

// What people and machines watch.

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn page() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, PAGE_POLICY)];
    (headers, include_str!("page/index.html")).into_response()
}

async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("page/status.js")).into_response()
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("page/status.css")).into_response()
}

async fn healthz() -> Json<JsonValue> {
    Json(json!({ "status": "alive" }))
}

async fn readyz(State(app): Shared) -> Answer<Json<JsonValue>> {
    // Anybody may ask, and to find out is to write: one at a time, and not more than once a second.
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
        Err(Problem::later("not_ready", "the service cannot take reports at present", 1))
    }
}

async fn metrics(State(app): Shared, request: Request) -> Answer<Response> {
    if !app.settings.public_metrics {
        app.allow(&request.into_parts().0, Role::Analyst)?;
    }
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media_type)], app.telemetry.text()).into_response())
}

async fn description() -> Json<JsonValue> {
    Json(openapi::document())
}

// Operators.

/// A stream, as a role may see it: a webhook may have a secret in its URL, and a problem may name files.
fn view(overview: &Overview, role: Role) -> Answer<JsonValue> {
    let bug = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "this stream cannot be written down");
    let mut view = serde_json::to_value(overview).map_err(bug)?;
    if let Some(view) = view.as_object_mut() {
        if role != Role::Operator {
            view.remove("webhooks");
            if overview.problem.is_some() {
                view.insert("problem".to_owned(), "it does not go on; its operator can see why".into());
            }
        }
        let timestamp = overview.declaration.schedule().timestamp(crate::service::now());
        view.insert("timestamp".to_owned(), timestamp.into());
    }
    Ok(view)
}

async fn streams(May(role, _): May<Analyst>, State(app): Shared) -> Answer<Json<JsonValue>> {
    let streams = app.service.streams();
    let streams = streams.iter().map(|overview| view(overview, role)).collect::<Answer<Vec<_>>>()?;
    Ok(Json(json!({ "streams": streams })))
}

async fn stream(May(role, _): May<Analyst>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    Ok(Json(view(&app.overview(&name)?, role)?))
}

async fn create(May(role, _): May<Operator>, State(app): Shared, request: Request) -> Answer<Response> {
    expect_json(request.headers())?;
    let body = app.body(request.into_body(), SMALL).await?;
    let declaration: Declaration =
        serde_json::from_slice(&body).map_err(|error| Problem::bad("declaration", error.to_string()))?;
    let name = declaration.name.clone();
    let is_new = app.service.overview(&name).is_none();
    app.blocking(move |app| app.service.create(&declaration)).await??;
    tracing::info!(stream = name, is_new, "a stream was declared");
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(view(&app.overview(&name)?, role)?)).into_response())
}

async fn set_status(app: &Arc<App>, name: String, role: Role, status: Status) -> Answer<Json<JsonValue>> {
    let stream = name.clone();
    app.blocking(move |app| app.service.set_status(&stream, status)).await??;
    tracing::info!(stream = name, status = status.name(), "an operator has spoken");
    Ok(Json(view(&app.overview(&name)?, role)?))
}

async fn pause(May(role, _): May<Operator>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    set_status(&app, name, role, Status::Paused).await
}

async fn resume(May(role, _): May<Operator>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    set_status(&app, name, role, Status::Running).await
}

async fn retire(May(role, _): May<Operator>, State(app): Shared, Name(name): Name) -> Answer<Json<JsonValue>> {
    set_status(&app, name, role, Status::Retired).await
}

// Devices.

async fn operator_key(State(app): Shared) -> Json<JsonValue> {
    let key: String = app.service.operator_key().iter().map(|byte| format!("{byte:02x}")).collect();
    Json(json!({ "algorithm": "ed25519", "key": key }))
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    after: Option<u64>,
    wait: Option<u64>,
}

async fn questions(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    Params(Held { after, wait }): Params<Held>,
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
        // Another round, not only a later one: whoever knows a round that never was should not wait for it.
        if after != Some(asking.round) || wait == 0 || tokio::time::Instant::now() >= deadline || *stopping.borrow() {
            return Ok(Json(asking).into_response());
        }
        if place.is_none() {
            place = Some(app.place(identity.token.is_some())?);
        }
        tokio::select! {
            _ = changes.changed() => {}
            _ = stopping.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}

impl App {
    /// A place among those who wait; those who have no token cannot take the places of those who have one.
    pub(super) fn place(&self, has_token: bool) -> Answer<tokio::sync::OwnedSemaphorePermit> {
        let places = if has_token { &self.waiting } else { &self.strangers };
        let place = Arc::clone(places).try_acquire_owned();
        place.map_err(|_| Problem::later("crowded", "too many requests wait already", 5))
    }
}

async fn reports(_: May<Ingest>, State(app): Shared, Name(name): Name, request: Request) -> Answer<Json<Receipt>> {
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
    let body = app.body(request.into_body(), MAX_BATCH).await.inspect_err(|_| refused("malformed"))?;
    let batch = if is_text { bytes_of_text(&name, &body).inspect_err(|_| refused("malformed"))? } else { body };
    Ok(Json(app.service.report(&name, batch).await?))
}

/// The name of a stream, if it is one: others would fill the metrics.
fn known<'a>(app: &App, name: &'a str) -> &'a str {
    if app.service.changes(name).is_some() { name } else { "" }
}

fn bytes_of_text(name: &str, body: &[u8]) -> Answer<Bytes> {
    // Reports are not repeated in errors.
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
    Ok(text.to_bytes().map_err(ReportError::from)?.into())
}

// Curators.

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    timestamp: Option<u64>,
}

async fn events(
    _: May<Ingest>,
    State(app): Shared,
    Name(name): Name,
    Params(About { timestamp }): Params<About>,
    request: Request,
) -> Answer<Json<JsonValue>> {
    let is_lines = match media_type(request.headers()).as_deref() {
        Some("application/json") => false,
        Some(NDJSON) => true,
        _ => return Err(unsupported("application/json or application/x-ndjson")),
    };
    let body = app.body(request.into_body(), MAX_BATCH).await?;
    let events = parse_events(&body, is_lines)?;
    drop(body);
    Ok(Json(json!({ "taken": app.service.push_events(&name, timestamp, events)? })))
}

// Analysts.

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    after: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
    limit: Option<usize>,
    last: Option<u64>,
    #[serde(default)]
    format: Form,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    #[default]
    Json,
    Ndjson,
    Csv,
}

impl Which {
    /// Which records that means, of a domain of so many values.
    fn wanted(&self, domain: usize) -> Answer<RecordFilter> {
        let limit = self.limit.unwrap_or(1_000);
        if !(1..=MAX_RECORDS).contains(&limit) {
            return Err(Problem::bad("parameter", format!("limit: 1 to {MAX_RECORDS}")));
        }
        let limit = limit.min((MAX_NUMBERS / domain.max(1)).max(1));
        let (after, from, to) = (self.after.unwrap_or(0), self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX));
        // Stores count in signed numbers; nothing is beyond those.
        let most = i64::MAX.unsigned_abs();
        Ok(RecordFilter { after: after.min(most), from: from.min(most), to: to.min(most), limit })
    }
}

/// After which record to go on, where there may be more.
fn next_of(records: &[Record], limit: usize) -> Option<u64> {
    (records.len() >= limit).then(|| records.last().map(|record| record.number)).flatten()
}

/// RecordKind as they were written, each under a key.
fn listed(name: &str, key: &str, each: &str, records: &[Record], next: Option<u64>) -> Response {
    let mut text = format!(r#"{{"stream":"{name}","{key}":["#);
    for (place, record) in records.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&record_text(each, record));
    }
    let next = next.map_or_else(|| "null".to_owned(), |next| next.to_string());
    text.push_str(&format!(r#"],"next":{next}}}"#));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A record, with its body as it was written.
pub(super) fn record_text(each: &str, record: &Record) -> String {
    let Record { number, version, timestamp, body } = record;
    format!(r#"{{"number":{number},"version":{version},"timestamp":{timestamp},"{each}":{body}}}"#)
}

fn domain_of(declaration: &Declaration) -> Answer<usize> {
    Ok(match &declaration.spec {
        StreamSpec::Local(spec) => spec.values().map_err(unreadable)?.count() as usize,
        StreamSpec::Central(spec) => spec.values().map_err(unreadable)?.count() as usize,
        _ => 1,
    })
}

fn unreadable(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "a stream's records cannot be read");
    Problem::later("store", "the store is not available", 5)
}

async fn releases(
    _: May<Analyst>,
    State(app): Shared,
    Name(name): Name,
    Params(which): Params<Which>,
) -> Answer<Response> {
    let overview = app.overview(&name)?;
    let mut wanted = which.wanted(domain_of(&overview.declaration)?)?;
    let (stream, last) = (name.clone(), which.last);
    if last.is_some() && (which.after.is_some() || which.from.is_some() || which.to.is_some()) {
        return Err(Problem::bad("parameter", "last: not together with after, from and to"));
    }
    let records = app.blocking(move |app| {
        if let Some(last) = last {
            wanted.after = app.latest(&stream, RecordKind::Release)?.saturating_sub(last);
        }
        app.records(&stream, RecordKind::Release, &wanted)
    });
    let records = records.await??;
    let next = next_of(&records, wanted.limit);
    let (format, media_type) = match which.format {
        Form::Json => return Ok(listed(&name, "releases", "release", &records, next)),
        Form::Ndjson => (Format::Ndjson, NDJSON),
        Form::Csv => (Format::Csv, "text/csv; charset=utf-8"),
    };
    let shape = Shape::of(&overview.declaration.spec).map_err(unreadable)?;
    let mut text = String::new();
    shape.begin(format, &mut text);
    for record in &records {
        let release: Release = serde_json::from_str(&record.body).map_err(unreadable)?;
        shape.write(&release, None, format, &mut text).map_err(unreadable)?;
    }
    Ok(with_next(media_type, text, next))
}

fn with_next(media_type: &'static str, text: String, next: Option<u64>) -> Response {
    let mut response = ([(header::CONTENT_TYPE, media_type)], text).into_response();
    if let Some(next) = next {
        response.headers_mut().insert(NEXT, next.into());
    }
    response
}

async fn answers(
    _: May<Analyst>,
    State(app): Shared,
    Name(name): Name,
    Params(which): Params<Which>,
) -> Answer<Response> {
    app.overview(&name)?;
    if which.last.is_some() {
        return Err(Problem::bad("parameter", "last: for releases only"));
    }
    let (wanted, stream) = (which.wanted(1)?, name.clone());
    let records = app.blocking(move |app| app.records(&stream, RecordKind::Answer, &wanted)).await??;
    let next = next_of(&records, wanted.limit);
    match which.format {
        Form::Json => Ok(listed(&name, "answers", "answer", &records, next)),
        Form::Csv => Err(Problem::bad("parameter", "format: answers have no common fields: json or ndjson")),
        Form::Ndjson => {
            let mut text = String::new();
            records.iter().for_each(|record| {
                // Text can always be written to.
                let _ = writeln!(text, "{}", record.body);
            });
            Ok(with_next(NDJSON, text, next))
        }
    }
}

async fn query(_: May<Analyst>, State(app): Shared, Name(name): Name, request: Request) -> Answer<Json<JsonValue>> {
    expect_json(request.headers())?;
    let mut spec = app.overview(&name)?.declaration;
    let body = app.body(request.into_body(), SMALL).await?;
    let wrong = |message: String| Problem::bad("query", message);
    let mut asked: Map<String, JsonValue> =
        serde_json::from_slice(&body).map_err(|error| wrong(format!("expected an object: {error}")))?;
    let at = match asked.remove("at") {
        None | Some(JsonValue::Null) => None,
        Some(at) => Some(at.as_u64().ok_or_else(|| wrong("at: expected a timestamp".to_owned()))?),
    };
    asked.entry("name").or_insert_with(|| "query".into());
    let asked: QuerySpec =
        serde_json::from_value(JsonValue::Object(asked)).map_err(|error| wrong(error.to_string()))?;
    let period = asked.delta.unwrap_or(1).max(1);
    let most = (MAX_NUMBERS / domain_of(&spec)?.max(1)).clamp(1, MAX_RECORDS) as u64;
    if period > most {
        return Err(wrong(format!("delta: at most {most} timestamps of this stream are summed here")));
    }
    match &mut spec.spec {
        StreamSpec::Local(spec) => (spec.queries, spec.monitors) = (vec![asked], Vec::new()),
        StreamSpec::Central(spec) => (spec.queries, spec.monitors) = (vec![asked], Vec::new()),
        _ => return Err(Problem::conflict("no_values", "a stream of numbers has no values to ask about")),
    }
    app.blocking(move |app| answer(app, &spec, at, period)).await?.map(Json)
}

/// Answers a query, which is the only one of a declaration, about the period that ends at a timestamp. Blocks.
fn answer(app: &App, declaration: &Declaration, at: Option<u64>, period: u64) -> Answer<JsonValue> {
    let none = || Problem::new(StatusCode::NOT_FOUND, "not_released", "the period was not released, or not all of it");
    let stream = &declaration.name;
    let mut queries =
        declaration.standing_queries().map_err(|error| Problem::bad("query", error.to_string()))?.ok_or_else(none)?;
    let wanted = match at {
        Some(at) if at <= i64::MAX.unsigned_abs() => {
            RecordFilter { from: at.saturating_sub(period - 1), to: at, limit: MAX_RECORDS, ..RecordFilter::default() }
        }
        Some(_) => return Err(none()),
        None => RecordFilter {
            after: app.latest(stream, RecordKind::Release)?.saturating_sub(period),
            limit: MAX_RECORDS,
            ..RecordFilter::default()
        },
    };
    let records = app.records(stream, RecordKind::Release, &wanted)?;
    let (population, values) = match &declaration.spec {
        StreamSpec::Local(spec) => (Some(spec.population.get()), spec.values().map_err(unreadable)?),
        StreamSpec::Central(spec) => (None, spec.values().map_err(unreadable)?),
        _ => return Err(none()),
    };
    let mut answer = None;
    for record in &records {
        let release: Release = serde_json::from_str(&record.body).map_err(unreadable)?;
        let timestamp = release.timestamp;
        if at.is_some_and(|at| at < timestamp) {
            break;
        }
        let said = queries.push(&release, population).map_err(|error| Problem::bad("query", error.to_string()))?;
        let line = said.first().map(|said| serde_json::to_value(said.line(timestamp, &values)));
        answer = line.transpose().map_err(unreadable)?.filter(|_| at.is_none_or(|at| at == timestamp));
    }
    answer.ok_or_else(none)
}
