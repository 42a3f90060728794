//! Parts of requests: extractors, bodies and media types.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::App;
use super::middleware::{Identity, may_bring_events};
use super::problem::{Answer, Problem};
use super::rate::Caller;
use super::shares::Share;
use crate::ingest::members::{USER, is_user};

/// Largest body in bytes, of requests that bring neither reports nor events.
pub(super) const SMALL: usize = 1 << 20;

/// Media type of newline-delimited JSON.
pub(super) const NDJSON: &str = "application/x-ndjson";

pub(super) type Shared = State<Arc<App>>;

/// Name of a stream in a path.
#[derive(Debug)]
pub(super) struct Name(pub(super) String);

impl FromRequestParts<Arc<App>> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        // Bytes that are no text are no stream's name.
        let path = Path::<String>::from_request_parts(parts, app).await;
        path.map(|Path(name)| Self(name)).map_err(|_| Problem::no_stream())
    }
}

/// Names of a stream and of a user in a path.
#[derive(Debug)]
pub(super) struct NameAndUser(pub(super) String, pub(super) String);

impl FromRequestParts<Arc<App>> for NameAndUser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, app).await;
        match path {
            Ok(Path((name, user))) if is_user(&user) => Ok(Self(name, user)),
            _ => Err(Problem::bad("parameter", format!("user: expected {USER}"))),
        }
    }
}

/// Parameters of a query string: all known, each once.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, app).await;
        query.map(|Query(params)| Self(params)).map_err(|error| Problem::bad("parameter", error.body_text()))
    }
}

/// Returns the media type of a body, without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

pub(super) fn unsupported(expected: &str) -> Problem {
    let message = format!("Content-Type: expected {expected}");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message)
}

pub(super) fn expect_json(headers: &HeaderMap) -> Answer<()> {
    match media_type(headers).as_deref() {
        Some("application/json") => Ok(()),
        _ => Err(unsupported("application/json")),
    }
}

/// A body in memory, and its share of the memory for bodies.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Bytes,
    share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Held {
    /// Replaces the bytes, which then count instead. Translations are shorter than the JSON that they are made of.
    pub(super) fn replaced_by(mut self, bytes: Vec<u8>) -> Self {
        self.share.shrink_to(bytes.len());
        Self { bytes: bytes.into(), share: self.share }
    }

    /// Returns the bytes, which count until the last slice of them is dropped.
    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

/// Refuses a request where too much is in memory.
pub(super) fn crowded() -> Problem {
    Problem::later("crowded", "too much is being sent at once", 5)
}

impl App {
    /// Reads the body of a request within limits of bytes, of memory for all bodies, and of time.
    pub(super) async fn body(&self, request: Request, limit: usize) -> Answer<Held> {
        let share = self.memory_of(request.extensions()).ok_or_else(crowded)?;
        match timeout(self.settings.limits.body, read_body(request.into_body(), limit, share)).await {
            Ok(read) => read,
            Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body took too long")),
        }
    }

    /// Takes memory for an answer while it is made.
    pub(super) fn memory(&self, identity: &Identity, bytes: usize) -> Answer<Share> {
        self.answers.take(identity.client, bytes).ok_or_else(crowded)
    }

    /// Returns an empty share of the memory for bodies. Events have theirs by token, apart from all other requests.
    fn memory_of(&self, extensions: &Extensions) -> Option<Share> {
        let identity = extensions.get::<Identity>()?;
        match &identity.token {
            Some(token) if may_bring_events(extensions) => self.event_bodies.take(Caller::Token(token.id), 0),
            _ => self.bodies.take(identity.client, 0),
        }
    }

    /// Runs work with the store on a thread that may block, within a time limit. A store that hangs keeps a bounded
    /// number of threads.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Answer<T> {
        let hangs = || Problem::later("store", "the store does not answer", 5);
        let (app, readers) = (Arc::clone(self), Arc::clone(&self.readers));
        let work = async {
            // The semaphore is never closed.
            let place = readers.acquire_owned().await.map_err(|_| hangs())?;
            on_thread(move || {
                let done = work(&app);
                drop(place);
                done
            })
            .await
        };
        timeout(self.settings.limits.store, work).await.map_err(|_| hangs())?
    }

    /// Runs long computations, such as parsing, beside those of other requests.
    pub(super) async fn computing<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        // The semaphore is never closed, and each computation ends.
        let place = Arc::clone(&self.processors).acquire_owned().await;
        on_thread(move || {
            let done = work();
            drop(place);
            done
        })
        .await
    }

    /// Takes a place among the requests that wait. Polls with a token, other polls and feeds have their own places.
    pub(super) fn place(&self, identity: &Identity, is_feed: bool) -> Answer<Share> {
        let (places, caller) = match (&identity.token, is_feed) {
            (Some(token), true) => (&self.feeds, Caller::Token(token.id)),
            (Some(_), false) => (&self.polls, identity.client),
            (None, _) => (&self.strangers, identity.client),
        };
        places.take(caller, 1).ok_or_else(|| Problem::later("crowded", "too many requests wait already", 5))
    }
}

async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "this should not have happened"))
}

/// How far beyond its limit a body is read to its end. A client that is not read from may never see the answer.
const LINGER: usize = 1 << 20;

/// Reads a body. Its memory grows with the bytes that have come, not with the length that was announced.
async fn read_body(mut body: Body, limit: usize, mut share: Share) -> Answer<Held> {
    let too_large = || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("more than {limit} bytes"));
    let declared = usize::try_from(hyper::body::Body::size_hint(&body).lower()).unwrap_or(usize::MAX);
    if declared > limit + LINGER {
        return Err(too_large());
    }
    let (mut bytes, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad("body", "the body ended early, or differs from its headers"))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > limit + LINGER {
            break;
        }
        if length <= limit {
            if !share.grow(data.len()) {
                return Err(crowded());
            }
            bytes.extend_from_slice(&data);
        }
    }
    if length > limit {
        return Err(too_large());
    }
    Ok(Held { bytes: bytes.freeze(), share })
}
