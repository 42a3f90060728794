//! [`Route`]: the one declaration of a route, from which the router and the OpenAPI document are generated.
//!
//! Each file of [`routes`](super::routes) declares its own routes with their handler, role, parameters, bodies and
//! refusals. A new route needs a handler and its declaration, nothing else. The role is enforced from the declaration,
//! before any argument of the handler is read.
//!
//! `utoipa-axum` would do the same by attributes. It is not used: its schemas are derived from types, and half of those
//! here belong to other crates or are written as raw JSON; and it has no place for roles and shared refusals, so the
//! gate and the document could differ.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};
use serde_json::{Value, json};

use super::auth::Role;
use super::browsers::{permitted, preflight};
use super::middleware::{around, require_role};
use super::problem::Problem;
use super::{App, HttpSettings, routes};

/// Declaration of a route.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    /// Operation id in the OpenAPI document.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// Role that a caller needs; `None` for everybody.
    pub(super) role: Option<Role>,
    /// Setting that waives the role.
    pub(super) waived: fn(&HttpSettings) -> bool,
    pub(super) parameters: Vec<Value>,
    /// Content of the request's body, by media type.
    pub(super) body: Option<Value>,
    /// Statuses and contents of successful answers.
    pub(super) granted: Vec<(u16, Value)>,
    /// Statuses of refusals, besides those of every route.
    pub(super) refused: &'static [u16],
    handler: MethodRouter<Arc<App>>,
}

impl Route {
    fn new(
        path: &'static str,
        method: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: MethodRouter<Arc<App>>,
    ) -> Self {
        Self {
            path,
            method,
            id,
            summary,
            role: None,
            waived: |_| false,
            parameters: Vec::new(),
            body: None,
            granted: Vec::new(),
            refused: &[],
            handler,
        }
    }

    /// Declares a GET route.
    pub(super) fn get<H: Handler<T, Arc<App>>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(path, "get", id, summary, get(handler))
    }

    /// Declares a POST route.
    pub(super) fn post<H: Handler<T, Arc<App>>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(path, "post", id, summary, post(handler))
    }

    /// Declares a PUT route.
    pub(super) fn put<H: Handler<T, Arc<App>>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(path, "put", id, summary, put(handler))
    }

    /// Declares a DELETE route.
    pub(super) fn delete<H: Handler<T, Arc<App>>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(path, "delete", id, summary, delete(handler))
    }

    pub(super) const fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    pub(super) const fn waived_by(mut self, waived: fn(&HttpSettings) -> bool) -> Self {
        self.waived = waived;
        self
    }

    pub(super) fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    pub(super) fn body(mut self, content: Value) -> Self {
        self.body = Some(content);
        self
    }

    pub(super) fn granted(mut self, status: u16, content: Value) -> Self {
        self.granted.push((status, content));
        self
    }

    pub(super) const fn refused(mut self, statuses: &'static [u16]) -> Self {
        self.refused = statuses;
        self
    }
}

/// Builds the router of all routes, or of some paths only.
pub(super) fn router(app: Arc<App>, only: Option<&[&str]>) -> Router {
    let mut router = Router::new();
    let wanted = routes::all().into_iter().filter(|route| only.is_none_or(|paths| paths.contains(&route.path)));
    for Route { path, role, waived, handler, .. } in wanted {
        let handler = match role.filter(|_| !waived(&app.settings)) {
            // `route_layer`, so that another method is refused as such, without a look at the token.
            Some(role) => {
                let gate = move |state, request, next| require_role(role, state, request, next);
                handler.route_layer(from_fn_with_state(Arc::clone(&app), gate))
            }
            None => handler,
        };
        router = router.route(path, handler);
    }
    router
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "no_path", "there is nothing here") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this path takes other methods only")
        })
        .layer(from_fn_with_state(Arc::clone(&app), preflight))
        .layer(from_fn_with_state(Arc::clone(&app), around))
        .layer(from_fn_with_state(Arc::clone(&app), permitted))
        .with_state(app)
}

/// Content of text.
pub(super) fn text(media_type: &str) -> Value {
    json!({ media_type: { "schema": { "type": "string" } } })
}

/// Content of a JSON object of a schema.
pub(super) fn object(schema: &str) -> Value {
    json!({ "application/json": { "schema": schema_ref(schema) } })
}

/// Contents of any of several media types.
pub(super) fn any_of(contents: impl IntoIterator<Item = Value>) -> Value {
    let objects = contents.into_iter().filter_map(|content| match content {
        Value::Object(object) => Some(object),
        _ => None,
    });
    Value::Object(objects.flatten().collect())
}

/// Reference to a schema.
pub(super) fn schema_ref(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Optional parameter of a query string.
pub(super) fn parameter(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
}

/// Schema of a number that is not negative.
pub(super) fn number() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}
