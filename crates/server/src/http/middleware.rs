//! Middleware of all routes: request ids, identification, rate limits, roles, metrics, logs and headers.
//!
//! `tower-http` is not used here. Its request ids keep one that a client sent, its body limit and timeouts answer
//! without our JSON, and its timeouts cover whole requests, some of which wait for a minute on purpose.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::auth::{Known, Role};
use super::guarded::Guarded;
use super::listen::Peer;
use super::problem::{Answer, Problem};
use super::rate::Caller;
use super::request::{Shared, crowded};
use super::routes::events::{EVENTS, HISTORY};
use super::{App, HttpSettings};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Caller of a request.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The caller's token.
    pub(super) token: Option<Known>,
    /// Whether an unknown token was sent.
    pub(super) wrong: bool,
    /// The caller's network.
    pub(super) client: Caller,
}

/// Draws a request id of 128 random bits, which tells nothing about other requests. Empty without entropy.
fn request_id() -> String {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => hex::encode(bytes),
        Err(_) => String::new(),
    }
}

/// Whether a request may bring events: one of their routes, whatever its method, or of no route, as a misspelt one.
pub(super) fn may_bring_events(extensions: &Extensions) -> bool {
    extensions.get::<MatchedPath>().is_none_or(|route| [EVENTS, HISTORY].contains(&route.as_str()))
}

/// Wraps every request.
pub(super) async fn around(State(app): Shared, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id();
    let may_bring_events = may_bring_events(request.extensions());
    let peer = request.extensions().get::<Peer>().copied();
    let identity = app.identify(request.headers(), peer);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("", |route| route.as_str());
    let is_limited = peer.is_none_or(|peer| !peer.is_monitoring);
    let limited = if is_limited { app.limit(&identity, may_bring_events) } else { Ok(()) };
    let response = match limited {
        Ok(()) => {
            request.extensions_mut().insert(identity.clone());
            next.run(request).await
        }
        Err(problem) => {
            if !may_bring_events {
                app.telemetry.meters().refused("", "rate", 1);
            }
            problem.into_response()
        }
    };
    let response = if is_limited && !may_bring_events { app.hold(response, identity.client) } else { response };
    let response = with_headers(response, &app, &id);
    if may_bring_events {
        return response;
    }
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let method = if is_known(&method) { method.as_str() } else { "other" };
    app.telemetry.meters().request(method, route, status, took);
    let token = identity.token.as_ref().map_or("", |token| &token.entry.name);
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

/// Body that takes no memory, since all answers share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constant;

/// Answers up to this size take no share of memory: the connections bound them.
const SMALL_ANSWER: u64 = 64 << 10;

impl App {
    fn identify(&self, headers: &HeaderMap, peer: Option<Peer>) -> Identity {
        let address = peer.map(|peer| client_of(&self.settings, peer.address, headers));
        let client = address.map_or(Caller::Others, Caller::of);
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Identity { token: None, wrong: false, client };
        };
        let secret = value.to_str().ok().and_then(|text| {
            let (scheme, secret) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start_matches(' '))
        });
        let token = secret.and_then(|secret| self.tokens().known(secret));
        Identity { wrong: token.is_none(), token, client }
    }

    /// Limits callers by token, and by token and address, or else by address.
    ///
    /// The events route has limits of its own, for each token. There, a request without a token is not limited: its
    /// refusal is as cheap as a 429, and a limit would tell others at its address how many came.
    fn limit(&self, identity: &Identity, may_bring_events: bool) -> Answer<()> {
        let limits = &self.settings.limits;
        let (rates, now) = (if may_bring_events { &self.event_rates } else { &self.rates }, self.began.elapsed());
        let checked = match (&identity.token, identity.client) {
            (None, _) if may_bring_events => Ok(()),
            (None, client) => rates.check(client, limits.address_rate, now),
            (Some(token), client) => {
                // Otherwise one of many clients with a token could use it up.
                let own = match client {
                    Caller::Network(network) => Caller::TokenAt(token.id, network),
                    _ => Caller::Others,
                };
                let own = rates.check(own, limits.client_rate, now);
                own.and_then(|()| rates.check(Caller::Token(token.id), limits.token_rate, now))
            }
        };
        checked.map_err(|wait| Problem::too_often(wait.as_secs() + 1))
    }

    /// Takes a share of the memory for answers, until the answer was sent.
    fn hold(&self, response: Response, client: Caller) -> Response {
        let size = hyper::body::Body::size_hint(response.body()).exact().unwrap_or(0);
        if size <= SMALL_ANSWER || response.extensions().get::<Constant>().is_some() {
            return response;
        }
        match self.answers.take(client, usize::try_from(size).unwrap_or(usize::MAX)) {
            Some(share) => response.map(|body| Body::new(Guarded::new(body, share))),
            None => crowded().into_response(),
        }
    }

    fn authorise(&self, extensions: &Extensions, needed: Role) -> Answer<Role> {
        let refuse = |problem| {
            if !may_bring_events(extensions) {
                self.telemetry.meters().refused("", "unauthorised", 1);
            }
            Err(problem)
        };
        let identity = extensions.get::<Identity>();
        let entry = identity.and_then(|identity| Some(&identity.token.as_ref()?.entry));
        match entry {
            Some(entry) if entry.role.may(needed) => Ok(entry.role),
            Some(entry) => {
                let message = format!("this needs the role {needed}, and the token has the role {}", entry.role);
                refuse(Problem::new(StatusCode::FORBIDDEN, "role", message))
            }
            None => refuse(Problem::no_token(identity.is_some_and(|identity| identity.wrong))),
        }
    }
}

/// Returns the address of a client. Behind a known proxy it is the last one in the proxy's header that is no proxy; a
/// client can write only those before it.
fn client_of(settings: &HttpSettings, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let is_proxy = |address: IpAddr| settings.proxies.iter().any(|proxy| proxy.contains(address));
    let mut client = peer;
    let values = headers.get_all(settings.client_header.as_str()).iter().rev();
    for listed in values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(',')) {
        if !is_proxy(client) {
            break;
        }
        match address_of(listed.trim()) {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

/// Parses an address, perhaps with a port.
fn address_of(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    text.trim_matches(['[', ']']).parse().or_else(|_| with_port()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_proxies_name_their_clients() {
        let proxies = ["10.0.0.0/8", "::1"].map(|proxy| proxy.parse().unwrap()).to_vec();
        let settings = HttpSettings { proxies, ..HttpSettings::default() };
        let client = |peer: &str, forwarded: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            client_of(&settings, peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client("192.0.2.1", &["192.0.2.9"]), "192.0.2.1", "a stranger names anybody");
        assert_eq!(client("10.1.1.1", &["192.0.2.9"]), "192.0.2.9");
        assert_eq!(client("10.1.1.1", &["192.0.2.8, 192.0.2.9, 10.2.2.2"]), "192.0.2.9", "the client wrote the first");
        assert_eq!(client("10.1.1.1", &["192.0.2.8", "192.0.2.9"]), "192.0.2.9");
        assert_eq!(client("::1", &["[2001:db8::7]:443"]), "2001:db8::7");
        assert_eq!(client("::1", &["192.0.2.9:1234"]), "192.0.2.9");
        for unusable in [&[][..], &[""], &["192.0.2.8, unknown"]] {
            assert_eq!(client("10.1.1.1", unusable), "10.1.1.1", "{unusable:?}");
        }
    }
}
