//! The description of the API, in OpenAPI 3.1.

use serde_json::{Map, Value, json};

use super::api::{MAX_RECORDS, MAX_WAIT, NDJSON};
use tidegate_device::api::BATCH;

/// Why requests to a route can be refused, besides what every route can answer.
const REASONS: &[(u16, &str)] = &[
    (400, "What was sent is not understood, or not acceptable: `message` says what."),
    (401, "A token is needed, or it is not known."),
    (403, "The token's role may not do this."),
    (404, "There is no such stream, or nothing that was asked for."),
    (405, "Other methods only: see `Allow`."),
    (408, "The body took too long."),
    (409, "Not in the state that the stream is in."),
    (413, "The body is too large."),
    (415, "The body is of another media type than those accepted."),
    (429, "Too many requests: try again after as many seconds as `Retry-After` says."),
    (500, "A defect. Nothing is known to cause this."),
    (503, "Not now: try again after as many seconds as `Retry-After` says."),
];

struct Route {
    path: &'static str,
    method: &'static str,
    id: &'static str,
    summary: &'static str,
    /// The role that is needed; empty for none.
    role: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// The statuses, and the content, of answers that grant the request.
    granted: Vec<(u16, Value)>,
    refused: &'static [u16],
}

fn text(media_type: &str) -> Value {
    json!({ media_type: { "schema": { "type": "string" } } })
}

fn object(schema: &str) -> Value {
    json!({ "application/json": { "schema": schema_ref(schema) } })
}

fn schema_ref(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameter(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}

fn paging(formats: &[&str]) -> Vec<Value> {
    vec![
        parameter("after", "Those after this number: `next` of the last answer.", number()),
        parameter("from", "Those of this timestamp and later ones.", number()),
        parameter("to", "Those of this timestamp and earlier ones.", number()),
        parameter(
            "limit",
            "At most so many; of large domains there are fewer.",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_RECORDS, "default": 1000 }),
        ),
        parameter("format", "What the answer looks like.", json!({ "enum": formats, "default": "json" })),
    ]
}

fn routes() -> Vec<Route> {
    let plain = |path, id, summary, granted| Route {
        path,
        method: "get",
        id,
        summary,
        role: "",
        parameters: Vec::new(),
        body: None,
        granted: vec![(200, granted)],
        refused: &[],
    };
    let by_operator = |path, id, summary| Route {
        path,
        method: "post",
        id,
        summary,
        role: "operator",
        parameters: Vec::new(),
        body: None,
        granted: vec![(200, object("Stream"))],
        refused: &[404, 409, 503],
    };
    let mut last_or_page = paging(&["json", "ndjson", "csv"]);
    last_or_page.push(parameter("last", "The last so many, instead of `after`, `from` and `to`.", number()));
    let mut many = object("Releases");
    merge(&mut many, text(NDJSON));
    merge(&mut many, text("text/csv"));
    let mut said = object("Answers");
    merge(&mut said, text(NDJSON));
    let mut batch = object("Batch");
    merge(&mut batch, json!({ BATCH: { "schema": { "type": "string", "format": "binary" } } }));
    let mut told = json!({ "application/json": { "schema": {
        "oneOf": [schema_ref("Event"), { "type": "array", "items": schema_ref("Event"), "minItems": 1 }],
    } } });
    merge(&mut told, text(NDJSON));
    vec![
        plain("/", "page", "A page that shows streams and their latest releases", text("text/html")),
        plain("/status.js", "script", "Its script", text("text/javascript")),
        plain("/status.css", "style", "Its style", text("text/css")),
        plain("/healthz", "healthz", "Whether the process is alive", object("State")),
        Route {
            refused: &[503],
            ..plain("/readyz", "readyz", "Whether reports can be taken: the store can be written to", object("State"))
        },
        Route {
            role: "analyst",
            ..plain(
                "/metrics",
                "metrics",
                "Figures for Prometheus. The service can be set to give them to everybody",
                text("application/openmetrics-text"),
            )
        },
        plain(
            "/openapi.json",
            "openapi",
            "This document",
            json!({ "application/json": { "schema": { "type": "object" } } }),
        ),
        plain("/v1/operator-key", "operatorKey", "The key with which devices check policies", object("OperatorKey")),
        Route { role: "analyst", ..plain("/v1/streams", "streams", "All streams", object("Streams")) },
        Route {
            body: Some(object("Declaration")),
            granted: vec![(200, object("Stream")), (201, object("Stream"))],
            refused: &[400, 408, 409, 413, 415, 503],
            ..by_operator(
                "/v1/streams",
                "create",
                "Creates a stream; where there is one that promises the same, its queries, monitors and webhooks are replaced",
            )
        },
        Route {
            role: "analyst",
            refused: &[404],
            ..plain("/v1/streams/{stream}", "stream", "A stream", object("Stream"))
        },
        by_operator("/v1/streams/{stream}/pause", "pause", "Finishes the open tick, and opens no other"),
        by_operator("/v1/streams/{stream}/resume", "resume", "Opens ticks again"),
        by_operator("/v1/streams/{stream}/retire", "retire", "Ends a stream, for ever"),
        Route {
            refused: &[404],
            ..plain(
                "/v1/streams/{stream}/policy",
                "policy",
                "What devices are promised, signed by the operator",
                object("SignedPolicy"),
            )
        },
        Route {
            parameters: vec![
                parameter("after", "A round that is known: the answer is held back until there is another.", number()),
                parameter(
                    "wait",
                    "For how many seconds the answer is held back at most.",
                    json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT, "default": 0 }),
                ),
            ],
            refused: &[400, 404, 503],
            ..plain("/v1/streams/{stream}/questions", "questions", "What devices are asked now", object("Asking"))
        },
        Route {
            path: "/v1/streams/{stream}/reports",
            method: "post",
            id: "reports",
            summary: "Takes in reports of devices. They are safe when the answer comes; sent again, they are not counted again",
            role: "ingest",
            parameters: Vec::new(),
            body: Some(batch),
            granted: vec![(200, object("Receipt"))],
            refused: &[400, 404, 408, 409, 413, 415, 503],
        },
        Route {
            path: "/v1/streams/{stream}/events",
            method: "post",
            id: "events",
            summary: "Tells a curator's stream events of the open tick. They are kept in memory until it is over",
            role: "ingest",
            parameters: vec![parameter(
                "timestamp",
                "The tick that they are about, which must be the one that is open. For a stream of numbers it must be given.",
                number(),
            )],
            body: Some(told),
            granted: vec![(200, object("Taken"))],
            refused: &[400, 404, 408, 409, 413, 415],
        },
        Route {
            role: "analyst",
            parameters: last_or_page,
            refused: &[400, 404, 503],
            ..plain("/v1/streams/{stream}/releases", "releases", "What was released and published", many)
        },
        Route {
            role: "analyst",
            parameters: paging(&["json", "ndjson"]),
            refused: &[400, 404, 503],
            ..plain("/v1/streams/{stream}/answers", "answers", "What queries and monitors said about it", said)
        },
        Route {
            path: "/v1/streams/{stream}/query",
            method: "post",
            id: "query",
            summary: "Answers a question about what was published, with an interval. It costs no budget",
            role: "analyst",
            parameters: Vec::new(),
            body: Some(object("Query")),
            granted: vec![(200, object("Answer"))],
            refused: &[400, 404, 408, 409, 413, 415, 503],
        },
        Route {
            role: "analyst",
            parameters: vec![
                parameter("since", "Where to begin.", json!({ "enum": ["beginning", "now"], "default": "beginning" })),
                json!({
                    "name": "Last-Event-ID", "in": "header", "required": false,
                    "description": "The id of the last event that was seen: the feed goes on after it.",
                    "schema": { "type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$" },
                }),
            ],
            refused: &[400, 404, 503],
            ..plain(
                "/v1/streams/{stream}/feed",
                "feed",
                "Server-sent events: `release`, `answer` and `monitor`, as they are published",
                text("text/event-stream"),
            )
        },
    ]
}

fn merge(into: &mut Value, other: Value) {
    if let (Value::Object(into), Value::Object(other)) = (into, other) {
        into.extend(other);
    }
}

/// The document.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    for route in routes() {
        let mut answers = Map::new();
        for (status, content) in &route.granted {
            answers.insert(status.to_string(), json!({ "description": "Granted.", "content": content }));
        }
        let of_all: &[u16] = if route.role.is_empty() { &[405, 429, 500] } else { &[401, 403, 405, 429, 500] };
        for status in route.refused.iter().chain(of_all) {
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
        if !route.role.is_empty() {
            operation["security"] = json!([{ "token": [] }]);
            operation["x-role"] = route.role.into();
        }
        let path = paths.entry(route.path).or_insert_with(|| {
            if route.path.contains("{stream}") {
                json!({ "parameters": [{
                    "name": "stream", "in": "path", "required": true, "description": "The name of a stream.",
                    "schema": { "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" },
                }] })
            } else {
                json!({})
            }
        });
        path[route.method] = operation;
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
            "description": "Statistics of endless streams, published under privacy guarantees that hold.",
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

fn schemas() -> Value {
    let value = json!({ "oneOf": [{ "type": "string" }, { "type": "integer", "minimum": 0, "maximum": u32::MAX }] });
    let asked = json!({
        "value": value, "first": value, "last": value,
        "top": { "type": "integer", "minimum": 1 },
        "delta": { "type": "integer", "minimum": 1 },
        "unit": { "type": "string" },
        "confidence": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95 },
        "at": { "description": "The last timestamp of the period: the last that was released, unless said.", "type": ["integer", "null"], "minimum": 0 },
        "name": { "type": "string", "minLength": 1 },
    });
    let declared = json!({
        "name": { "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" },
        "tick": { "description": "How long a timestamp lasts, in seconds.", "type": "integer", "minimum": 1, "maximum": u64::MAX },
        "epoch": { "description": "When timestamp 0 begins, in seconds since 1970.", "type": "integer", "minimum": 0, "maximum": u64::MAX },
        "spec": {
            "description": "What is released, and how private that is: the keys are those of a spec file.",
            "type": "object",
            "required": ["family", "mechanism", "epsilon"],
            "properties": { "family": { "enum": ["local", "central", "scalar"] }, "mechanism": { "type": "string" } },
        },
        "webhooks": { "type": "array", "items": { "type": "string", "pattern": "^https?://" } },
    });
    let mut shown = declared.clone();
    merge(
        &mut shown,
        json!({
            "status": { "enum": ["running", "paused", "retired"] },
            "version": number(),
            "published": number(),
            "open": { "description": "The timestamp that devices are asked about, or a curator is told about.", "type": ["integer", "null"] },
            "timestamp": { "description": "The timestamp of this moment.", "type": ["integer", "null"] },
            "driven": { "type": "boolean" },
            "problem": { "type": ["string", "null"] },
        }),
    );
    let record = |key: &str, body: Value| {
        json!({
            "type": "object",
            "required": ["number", "version", "timestamp", key],
            "properties": { "number": number(), "version": number(), "timestamp": number(), key: body },
        })
    };
    let listed = |key: &str, each: Value| {
        json!({
            "type": "object",
            "required": ["stream", key, "next"],
            "properties": {
                "stream": { "type": "string" },
                key: { "type": "array", "items": each },
                "next": { "type": ["integer", "null"] },
            },
        })
    };
    json!({
        "Problem": {
            "type": "object",
            "required": ["error", "message"],
            "properties": {
                "error": { "description": "In a word, for programs.", "type": "string" },
                "message": { "description": "In words, for people.", "type": "string" },
                "position": { "description": "Which line or element of what was sent, from zero.", "type": "integer" },
                "taken": { "description": "How many before it were taken.", "type": "integer" },
            },
            "additionalProperties": false,
        },
        "State": { "type": "object", "required": ["status"], "properties": { "status": { "type": "string" } } },
        "OperatorKey": {
            "type": "object",
            "required": ["algorithm", "key"],
            "properties": { "algorithm": { "const": "ed25519" }, "key": { "type": "string", "pattern": "^[0-9a-f]{64}$" } },
        },
        "Declaration": {
            "type": "object", "required": ["name", "tick", "spec"], "properties": declared, "additionalProperties": false,
        },
        "Stream": { "type": "object", "required": ["name", "tick", "spec", "status", "version", "published"], "properties": shown },
        "Streams": {
            "type": "object", "required": ["streams"],
            "properties": { "streams": { "type": "array", "items": schema_ref("Stream") } },
        },
        "SignedPolicy": {
            "type": "object", "required": ["policy", "signature"],
            "properties": { "policy": { "type": "object" }, "signature": { "type": "array", "items": { "type": "integer" } } },
        },
        "Asking": {
            "type": "object", "required": ["stream", "round", "questions"],
            "properties": {
                "stream": { "type": "string" }, "round": number(),
                "questions": { "type": "array", "items": {
                    "type": "object", "required": ["question", "report_length", "closes"],
                    "properties": { "question": { "type": "object" }, "report_length": number(), "closes": number() },
                } },
            },
        },
        "Batch": {
            "type": "object", "required": ["stream", "timestamp", "phase", "reports"],
            "properties": {
                "stream": { "type": "string" }, "timestamp": number(),
                "phase": { "type": "integer", "minimum": 0, "maximum": u16::MAX },
                "reports": { "type": "array", "minItems": 1, "items": {
                    "type": "object", "required": ["id", "report"],
                    "properties": {
                        "id": { "type": "string", "pattern": "^[0-9a-fA-F]{32}$" },
                        "report": { "type": "string", "pattern": "^([0-9a-fA-F]{2})+$" },
                    },
                    "additionalProperties": false,
                } },
            },
            "additionalProperties": false,
        },
        "Receipt": {
            "type": "object", "required": ["accepted", "repeated", "conflicting", "implausible"],
            "properties": { "accepted": number(), "repeated": number(), "conflicting": number(), "implausible": number() },
        },
        "Event": {
            "type": "object",
            "properties": {
                "user": { "type": ["string", "null"] },
                "value": { "description": "A text or a number; anything else counts as a missing value" },
            },
            "additionalProperties": false,
        },
        "Taken": { "type": "object", "required": ["taken"], "properties": { "taken": number() } },
        "Releases": listed("releases", record("release", json!({
            "type": "object", "required": ["timestamp", "statistic", "freshness", "spent"],
            "properties": {
                "timestamp": number(),
                "freshness": { "enum": ["fresh", "approximated", "nullified"] },
                "spent": {
                    "description": "Who spent how much: nobody, everyone the same, or each user of some slots.",
                    "oneOf": [
                        { "type": "null" },
                        { "type": "string" },
                        {
                            "type": "object", "required": ["first_slot", "slots", "epsilon"],
                            "properties": {
                                "first_slot": number(), "slots": number(), "epsilon": { "type": "string" },
                            },
                        },
                    ],
                },
                "reports": number(),
                "seeded": {
                    "description": "Whether its randomness is known to come from a seed; false where it is missing.",
                    "type": "boolean",
                },
            },
        }))),
        "Answers": listed("answers", record("answer", schema_ref("Answer"))),
        "Query": {
            "description": "About one value, about those from first to last, or about the most frequent ones.",
            "type": "object", "properties": asked, "additionalProperties": false,
        },
        "Answer": { "type": "object", "required": ["t"], "properties": { "t": number() } },
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
        let document = document();
        let mut found = Vec::new();
        walk(&document, &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
