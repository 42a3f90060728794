//! Routes of the dashboard's files, which are part of the program.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

use crate::http::route::{Route, text};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/", "page", "The dashboard", page).granted(200, text("text/html")),
        Route::get("/app.js", "script", "Script of the dashboard", script).granted(200, text("text/javascript")),
        Route::get("/app.css", "style", "Style of the dashboard", style).granted(200, text("text/css")),
        Route::get("/icon.svg", "icon", "Icon of the dashboard", icon).granted(200, text("image/svg+xml")),
    ]
}

/// Content security policy: everything from this service, no script or style within a page. A picture of a chart is
/// drawn from `data:` and `blob:`.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// A file that is part of the program.
struct Asset {
    media_type: &'static str,
    bytes: &'static [u8],
    tag: LazyLock<HeaderValue>,
}

/// Computes the entity tag of bytes.
fn tag(bytes: &[u8]) -> HeaderValue {
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(bytes)[..16]));
    HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Declares a file of the folder `assets`.
macro_rules! asset {
    ($constant:ident, $file:literal, $media_type:literal) => {
        static $constant: Asset = Asset {
            media_type: $media_type,
            bytes: include_bytes!(concat!("../../../assets/", $file)),
            tag: LazyLock::new(|| tag($constant.bytes)),
        };
    };
}

asset!(PAGE, "index.html", "text/html; charset=utf-8");
asset!(SCRIPT, "app.js", "text/javascript; charset=utf-8");
asset!(STYLE, "app.css", "text/css; charset=utf-8");
asset!(ICON, "icon.svg", "image/svg+xml");

impl Asset {
    /// Answers with the file, or says that the caller has it.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_known = known.flat_map(|value| value.split(',')).any(|tag| self.tag.as_bytes() == tag.trim().as_bytes());
        let of_all = [
            (header::ETAG, self.tag.clone()),
            // Asked for anew each time, so that page and script are of one version.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        if is_known {
            return (StatusCode::NOT_MODIFIED, of_all).into_response();
        }
        ([(header::CONTENT_TYPE, self.media_type)], of_all, self.bytes).into_response()
    }
}

async fn page(headers: HeaderMap) -> Response {
    ([(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)], PAGE.answer(&headers)).into_response()
}

async fn script(headers: HeaderMap) -> Response {
    SCRIPT.answer(&headers)
}

async fn style(headers: HeaderMap) -> Response {
    STYLE.answer(&headers)
}

async fn icon(headers: HeaderMap) -> Response {
    ICON.answer(&headers)
}
