//! Parts of requests: extractors, bodies and media types.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use super::App;
use super::problem::{Answer, Problem};

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

impl App {
    /// Reads a body within a limit of bytes and of time.
    pub(super) async fn body(&self, body: Body, limit: usize) -> Answer<Bytes> {
        match tokio::time::timeout(self.settings.limits.body, read_body(body, limit)).await {
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => {
                let message = format!("more than {limit} bytes");
                Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
            }
            Ok(Err(_)) => Err(Problem::bad("body", "the body ended early, or differs from its headers")),
            Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body took too long")),
        }
    }

    /// Runs blocking work on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Answer<T> {
        let app = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&app))
            .await
            .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "this should not have happened"))
    }

    /// Takes a place among waiting requests. Callers without a token cannot take the places of those with one.
    pub(super) fn place(&self, has_token: bool) -> Answer<tokio::sync::OwnedSemaphorePermit> {
        let places = if has_token { &self.waiting } else { &self.strangers };
        let place = Arc::clone(places).try_acquire_owned();
        place.map_err(|_| Problem::later("crowded", "too many requests wait already", 5))
    }
}

/// How far beyond its limit a body is read to its end. A client that is not read from may never see the answer.
const LINGER: usize = 1 << 20;

/// Reads a body; `None` where it is too long.
async fn read_body(mut body: Body, limit: usize) -> Result<Option<Bytes>, axum::Error> {
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
