//! The OpenAPI 3.1 document, generated from the declarations of the [routes](super::routes).

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::route::{Route, object};
use super::routes;
use super::schemas::schemas;

/// Meanings of refusals.
const REASONS: &[(u16, &str)] = &[
    (400, "The request is malformed or not acceptable: `message` says why."),
    (401, "A token is needed, or it is unknown."),
    (403, "The token's role may not do this."),
    (404, "There is no such stream, or nothing that was asked for."),
    (405, "Other methods only: see `Allow`."),
    (408, "The body took too long."),
    (409, "Not possible in the stream's present state."),
    (412, "`If-Match` names another declaration than the present one, or `If-None-Match: *` an existing stream."),
    (413, "The body is too large."),
    (415, "The body's media type is not accepted."),
    (429, "Too many requests: try again after as many seconds as `Retry-After` says."),
    (500, "A defect of the service."),
    (503, "Not now: try again after as many seconds as `Retry-After` says."),
];

/// Refusals of every route, and those of routes that need a role.
const OF_ALL: &[u16] = &[405, 429, 500, 503];
const OF_ROLES: &[u16] = &[401, 403];

/// Returns the document, of which all answers share one copy.
pub(super) fn document() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| generate().to_string().into());
    TEXT.clone()
}

fn operation(route: Route) -> Value {
    let mut answers = Map::new();
    for (status, content) in &route.granted {
        answers.insert(status.to_string(), json!({ "description": "Granted.", "content": content }));
    }
    let of_role = if route.role.is_some() { OF_ROLES } else { &[] };
    for status in route.refused.iter().chain(of_role).chain(OF_ALL) {
        answers.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{status}") }));
    }
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "responses": answers,
    });
    if !route.parameters.is_empty() {
        operation["parameters"] = route.parameters.into();
    }
    if let Some(content) = route.body {
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    if let Some(role) = route.role {
        operation["security"] = json!([{ "token": [] }]);
        operation["x-role"] = role.name().into();
    }
    operation
}

fn generate() -> Value {
    let mut paths = Map::new();
    for route in routes::all() {
        let path = paths.entry(route.path).or_insert_with(|| {
            let names = [
                ("stream", "The name of a stream.", json!({ "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" })),
                ("number", "The number of an answer.", json!({ "type": "integer", "minimum": 0 })),
                ("user", "The name of a user.", json!({ "type": "string", "minLength": 1, "maxLength": 256 })),
            ];
            let names = names.into_iter().filter(|(name, ..)| route.path.contains(&format!("{{{name}}}")));
            let described = names.map(|(name, description, schema)| {
                json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
            });
            let described: Vec<Value> = described.collect();
            if described.is_empty() { json!({}) } else { json!({ "parameters": described }) }
        });
        let method = route.method;
        path[method] = operation(route);
    }
    let reason = |(status, description): &(u16, &str)| {
        let mut response = json!({ "description": description, "content": object("Problem") });
        if [429, 503].contains(status) {
            response["headers"] = json!({ "Retry-After": { "schema": { "type": "integer", "minimum": 1 } } });
        }
        (status.to_string(), response)
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Statistics of endless streams, published under differential privacy.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": REASONS.iter().map(reason).collect::<Map<_, _>>(),
            "schemas": schemas(),
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        fn walk(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(object) => {
                    found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    object.values().for_each(|value| walk(value, found));
                }
                Value::Array(array) => array.iter().for_each(|value| walk(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        let document = generate();
        walk(&document, &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let mut ids: Vec<_> = routes::all().iter().map(|route| route.id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
