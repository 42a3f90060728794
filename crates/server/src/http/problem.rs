//! [`Problem`]: the form of every refusal.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::driver::DriveError;
use crate::ingest::events::EventSyntaxError;
use crate::ingest::{DrawError, EventError, EventRejection, ReportError};
use crate::service::{MemberError, ServiceError};
use crate::store::{BatchRejection, StoreError};
use crate::stream::DeclarationError;
use tidegate_device::credential::TokenError;
use tidegate_device::wire::WireError;

/// Result of a handler.
pub(super) type Answer<T> = Result<T, Problem>;

/// Refusal of a request. It contains neither secrets nor values of users.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    body: Body,
    retry_after: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Body {
    error: &'static str,
    message: String,
    /// Line or element of the request, from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    /// Events before it that were accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<usize>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        let body = Body { error, message: message.into(), position: None, taken: None };
        Self { status, body, retry_after: None }
    }

    pub(super) fn bad(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, message)
    }

    pub(super) fn conflict(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error, message)
    }

    /// Refuses a caller without a token, or with an unknown one.
    pub(super) fn no_token(is_wrong: bool) -> Self {
        let message = match is_wrong {
            true => "this token is unknown",
            false => "a token is needed: Authorization: Bearer …",
        };
        Self::new(StatusCode::UNAUTHORIZED, "token", message)
    }

    pub(super) fn no_stream() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_stream", "there is no stream of that name")
    }

    pub(super) fn no_cluster() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_cluster", "this service belongs to no cluster")
    }

    /// Asks the client to try again after some seconds.
    pub(super) fn later(error: &'static str, message: &str, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error, message) }
    }

    pub(super) fn too_often(seconds: u64) -> Self {
        let message = "too many requests: slow down";
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate", message) }
    }

    pub(super) fn at(mut self, position: usize, taken: usize) -> Self {
        (self.body.position, self.body.taken) = (Some(position), Some(taken));
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let realm = HeaderValue::from_static("Bearer realm=\"tidegate\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Errors of a store go to the log only: they may name files and hosts.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoStream(_) => Self::no_stream(),
            StoreError::Retired(_) => Self::conflict("retired", error.to_string()),
            StoreError::Exists(_) => Self::conflict("exists", error.to_string()),
            StoreError::Changed(_) => Self::new(StatusCode::PRECONDITION_FAILED, "stale", error.to_string()),
            StoreError::Full { .. } => Self::conflict("full", error.to_string()),
            error => {
                tracing::error!(%error, "the store failed");
                Self::later("store", "the store is not available", 1)
            }
        }
    }
}

impl From<DeclarationError> for Problem {
    fn from(error: DeclarationError) -> Self {
        match error {
            DeclarationError::Changed { .. } => Self::conflict("changed", error.to_string()),
            error => Self::bad("declaration", error.to_string()),
        }
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::NoStream(_) => Self::no_stream(),
            ServiceError::Declaration(error) | ServiceError::Drive(DriveError::Declaration(error)) => error.into(),
            ServiceError::Store(error) | ServiceError::Drive(DriveError::Store(error)) => error.into(),
            ServiceError::Policy(error) => Self::bad("declaration", error.to_string()),
            ServiceError::Drive(error @ DriveError::Stream(_)) => Self::bad("declaration", error.to_string()),
            ServiceError::Drive(DriveError::NoKey(_)) => {
                Self::conflict("no_key", "the service has no key for readings that such a stream holds back")
            }
            error => {
                tracing::error!(%error, "the service failed");
                Self::later("service", "the service cannot do that at present", 5)
            }
        }
    }
}

impl From<MemberError> for Problem {
    fn from(error: MemberError) -> Self {
        let message = error.to_string();
        match error {
            MemberError::NoClasses => Self::conflict("no_classes", message),
            MemberError::NoUser => Self::new(StatusCode::NOT_FOUND, "no_user", message),
            MemberError::Class { position, .. } => Self::bad("not_taken", message).at(position, 0),
            MemberError::Store { changed: 0, error } => (*error).into(),
            MemberError::Store { changed, error } => Self::from(*error).at(changed, changed),
        }
    }
}

impl From<ReportError> for Problem {
    fn from(error: ReportError) -> Self {
        let message = error.to_string();
        match error {
            ReportError::Wire(WireError::TooLarge { .. } | WireError::Tokens { .. }) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            }
            ReportError::OtherStream => Self::bad("other_stream", message),
            ReportError::Rejected(BatchRejection::NoStream) => Self::no_stream(),
            ReportError::Rejected(BatchRejection::NotOpen { .. }) => Self::conflict("closed", message),
            ReportError::Crowded => Self::conflict("crowded", message),
            ReportError::Token(_) => Self::bad("token", message),
            ReportError::Busy => Self::later("busy", &message, 1),
            ReportError::Store => Self::later("store", &message, 1),
            ReportError::Wire(_) | ReportError::Rejected(_) => Self::bad("malformed", message),
        }
    }
}

impl From<DrawError> for Problem {
    fn from(error: DrawError) -> Self {
        let (reason, message) = (error.reason(), error.to_string());
        match error {
            DrawError::NoStream(_) => Self::no_stream(),
            DrawError::NoCredentials => Self::new(StatusCode::NOT_FOUND, reason, message),
            DrawError::Token(TokenError::Unsigned) => Self::new(StatusCode::FORBIDDEN, reason, message),
            DrawError::Token(_) => Self::bad(reason, message),
            DrawError::NotNow { .. } | DrawError::Drawn | DrawError::Crowded => Self::conflict(reason, message),
            DrawError::Busy => Self::later(reason, &message, 1),
        }
    }
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        match error {
            EventError::NoStream(_) => Self::no_stream(),
            EventError::NotCurated => Self::conflict("not_curated", error.to_string()),
            EventError::Live => Self::conflict("live", error.to_string()),
            EventError::Unknown => Self::later("store", &error.to_string(), 1),
            EventError::Rejected { reason: EventRejection::Busy, .. } => Self::later("busy", &error.to_string(), 1),
            EventError::Rejected { accepted, reason } => {
                let message = reason.to_string();
                match reason {
                    EventRejection::NotOpen
                    | EventRejection::Timestamp { .. }
                    | EventRejection::Past { .. }
                    | EventRejection::Paused => Self::conflict("closed", message),
                    EventRejection::Reading => Self::conflict("not_taken", message),
                    _ => Self::bad("not_taken", message),
                }
                .at(accepted, accepted)
            }
        }
    }
}

impl From<EventSyntaxError> for Problem {
    fn from(error: EventSyntaxError) -> Self {
        let problem = Self::bad("malformed", error.message);
        match error.position {
            Some(position) => problem.at(position, 0),
            None => problem,
        }
    }
}
