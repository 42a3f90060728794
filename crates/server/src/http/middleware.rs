//! Middleware of all routes: request ids, identification, rate limits, roles, metrics, logs and headers.
//!
//! `tower-http` is not used here. Its request ids keep one that a client sent, its body limit and timeouts answer
//! without our JSON, and its timeouts cover whole requests, some of which wait for a minute on purpose.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::auth::Role;
use super::listen::Peer;
use super::problem::{Answer, Problem};
use super::rate::Caller;
use super::request::Shared;
use super::routes::events::EVENTS;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Caller of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// Index of the caller's token.
    pub(super) token: Option<usize>,
    /// Whether an unknown token was sent.
    wrong: bool,
}

/// Draws a request id of 128 random bits, which tells nothing about other requests. Empty without entropy.
fn request_id() -> String {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => hex::encode(bytes),
        Err(_) => String::new(),
    }
}

/// Whether a request may bring events: one of that route, whatever its method, or of no route, as a misspelt one.
fn may_bring_events(extensions: &Extensions) -> bool {
    extensions.get::<MatchedPath>().is_none_or(|route| route.as_str() == EVENTS)
}

/// Wraps every request.
pub(super) async fn around(State(app): Shared, mut request: Request, next: Next) -> Response {
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
    let response = with_headers(response, &app, &id);
    if may_bring_events {
        return response;
    }
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let method = if is_known(&method) { method.as_str() } else { "other" };
    app.telemetry.meters().request(method, route, status, took);
    let token = identity.token.and_then(|token| app.settings.tokens.entry(token)).map_or("", |entry| &entry.name);
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    // Neither path nor query as they were sent: a log contains nothing that a client chooses.
    tracing::debug!(id, method, route, status, token, milliseconds, "request");
    response
}

/// Refuses callers without a role. The handler finds the caller's role as an extension.
pub(super) async fn require_role(
    needed: Role,
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    match app.authorise(request.extensions(), needed) {
        Ok(role) => {
            request.extensions_mut().insert(role);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn is_known(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH]
        .contains(method)
}

/// Adds the headers of every answer.
fn with_headers(mut response: Response, app: &App, id: &str) -> Response {
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

    /// Limits callers by token, or else by address.
    ///
    /// The events route has limits of its own, for each token. There, a request without a token is not limited: its
    /// refusal is as cheap as a 429, and a limit would tell others at its address how many came.
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

    fn authorise(&self, extensions: &Extensions, needed: Role) -> Answer<Role> {
        let refuse = |status, error, message: &str| {
            if !may_bring_events(extensions) {
                self.telemetry.meters().refused("", "unauthorised", 1);
            }
            Err(Problem::new(status, error, message))
        };
        let identity = extensions.get::<Identity>().copied();
        let entry = identity.and_then(|identity| self.settings.tokens.entry(identity.token?));
        match entry {
            Some(entry) if entry.role.may(needed) => Ok(entry.role),
            Some(entry) => {
                let message = format!("this needs the role {needed}, and the token has the role {}", entry.role);
                refuse(StatusCode::FORBIDDEN, "role", &message)
            }
            None if identity.is_some_and(|identity| identity.wrong) => {
                refuse(StatusCode::UNAUTHORIZED, "token", "this token is unknown")
            }
            None => refuse(StatusCode::UNAUTHORIZED, "token", "a token is needed: Authorization: Bearer …"),
        }
    }
}
