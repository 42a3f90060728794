//! [`Origin`]: web pages of other origins that may use the routes of devices, by cross-origin resource sharing (CORS,
//! the Fetch standard). By default there are none, and browsers keep answers from every page but the dashboard.
//!
//! A permission names no credentials: browsers then send neither cookies nor certificates, and the bearer token is the
//! page's own. Other routes stay closed to all pages.

use std::fmt;
use std::str::FromStr;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::App;
use super::request::Shared;

/// Paths that a device in a page needs.
const PATHS: [&str; 7] = [
    "/v1/operator-key",
    "/v1/time",
    "/v1/streams/{stream}/policy",
    "/v1/streams/{stream}/values",
    "/v1/streams/{stream}/questions",
    "/v1/streams/{stream}/reports",
    "/v1/streams/{stream}/tokens",
];

/// Seconds for which a browser remembers a permission.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// Origin of web pages: scheme, host and port as browsers write them, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Origin(HeaderValue);

/// Error of [`Origin::from_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the origin of web pages, such as https://shop.example without a path, in lower case, or *")]
pub struct NotAnOrigin;

impl FromStr for Origin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        if text != "*" {
            let uri: Uri = text.parse().map_err(|_| NotAnOrigin)?;
            let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(NotAnOrigin) };
            let is_default = matches!((scheme, authority.port_u16()), ("https", Some(443)) | ("http", Some(80)));
            let has_port = authority.as_str().len() > authority.host().len();
            // A browser sends no other spelling, so another would never match.
            let written = format!("{scheme}://{authority}");
            let is_plain =
                has_port == authority.port_u16().is_some() && !text.bytes().any(|byte| byte.is_ascii_uppercase());
            if !matches!(scheme, "http" | "https") || is_default || !is_plain || written != text {
                return Err(NotAnOrigin);
            }
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| NotAnOrigin)
    }
}

impl TryFrom<String> for Origin {
    type Error = NotAnOrigin;

    fn try_from(text: String) -> Result<Self, NotAnOrigin> {
        text.parse()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// Returns the permission for the origin of a request, if it has one.
fn permission(app: &App, request: &Request) -> Option<HeaderValue> {
    let path = request.extensions().get::<MatchedPath>()?;
    let origin = request.headers().get(header::ORIGIN).filter(|_| PATHS.contains(&path.as_str()))?;
    let granted = app.settings.browser_origins.iter().find(|granted| granted.0 == "*" || granted.0 == origin)?;
    Some(granted.0.clone())
}

/// Answers the question of a browser whether a page may send a request, where it may.
pub(super) async fn preflight(State(app): Shared, request: Request, next: Next) -> Response {
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && permission(&app, &request).is_some();
    if !asks {
        return next.run(request).await;
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, content-type"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Lets pages of permitted origins read answers, refusals included. Without permitted origins nothing changes.
pub(super) async fn permitted(State(app): Shared, request: Request, next: Next) -> Response {
    if app.settings.browser_origins.is_empty() {
        return next.run(request).await;
    }
    let permission = permission(&app, &request);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    // What a cache keeps for one origin is not for another.
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = permission {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
    }
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_write_them() {
        for text in ["*", "https://shop.example", "http://localhost:5173", "https://[::1]:8443"] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), text);
        }
        let never_sent =
            ["", "null", "shop.example", "ftp://shop.example", "http://10.0.0.1:80a", "https://a@b.example"];
        let spelt_otherwise =
            ["https://shop.example/", "https://Shop.example", "https://shop.example:443", "http://shop.example:80"];
        for text in never_sent.into_iter().chain(spelt_otherwise) {
            assert_eq!(text.parse::<Origin>(), Err(NotAnOrigin), "{text}");
        }
    }
}
