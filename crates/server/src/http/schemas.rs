//! JSON schemas of the API's requests and answers.

use serde_json::{Value, json};

use super::route::{any_of, number, schema_ref};
use super::routes;
use super::routes::MOST_CREDENTIALS as MOST;
use crate::stream::{MAX_LATENESS, MAX_TICK};

/// Returns all schemas, by name.
pub(super) fn schemas() -> Value {
    let mut all = of_streams();
    let more = routes::schemas().into_iter().filter_map(|schemas| match schemas {
        Value::Object(schemas) => Some(schemas),
        _ => None,
    });
    if let Value::Object(all) = &mut all {
        more.for_each(|schemas| all.extend(schemas));
    }
    all
}

/// Schemas of streams, reports, events, releases and queries.
fn of_streams() -> Value {
    let value = json!({ "oneOf": [{ "type": "string" }, { "type": "integer", "minimum": 0, "maximum": u32::MAX }] });
    let asked = json!({
        "value": value, "first": value, "last": value,
        "top": { "type": "integer", "minimum": 1 },
        "delta": { "type": "integer", "minimum": 1 },
        "unit": { "type": "string" },
        "confidence": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95 },
        "at": {
            "description": "The last timestamp of the period; by default that of the last release.",
            "type": ["integer", "null"], "minimum": 0,
        },
        "repair": { "enum": ["none", "consistent", "norm_sub"] },
        "name": { "type": "string", "minLength": 1 },
    });
    let name = json!({ "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" });
    let declared = json!({
        "name": name,
        "tick": {
            "description": "Length of a timestamp, in seconds.",
            "type": "integer", "minimum": 1, "maximum": MAX_TICK,
        },
        "epoch": {
            "description": "Beginning of timestamp 0, in seconds since 1970.",
            "type": "integer", "minimum": 0, "maximum": u64::MAX,
        },
        "spec": {
            "description": "Mechanism and privacy: the keys of a spec file.",
            "type": "object",
            "required": ["family", "mechanism"],
            "properties": {
                "family": { "enum": ["local", "central", "scalar", "sequence"] },
                "mechanism": { "type": "string" },
            },
        },
        "retention": {
            "description": "How long releases and answers are kept: the last timestamps, or those of the last time. By \
                            default all.",
            "type": "object",
            "properties": {
                "timestamps": { "type": "integer", "minimum": 1, "maximum": u64::MAX },
                "age": { "type": "string", "examples": ["90d"] },
            },
            "additionalProperties": false,
        },
        "lateness": {
            "description": "How many ticks longer a tick of a curated stream takes events.",
            "type": "integer", "minimum": 0, "maximum": MAX_LATENESS,
        },
        "backfill": {
            "description": "Whether a curated stream takes its history first, until it is resumed.",
            "type": "boolean",
        },
        "credentials": {
            "description": "Whether only reports with tokens count, which devices draw with credentials.",
            "type": "boolean",
        },
        "webhooks": { "type": "array", "items": { "type": "string", "pattern": "^https?://" } },
    });
    let mut shown = declared.clone();
    if let (Value::Object(shown), Value::Object(own)) = (
        &mut shown,
        json!({
            "status": { "enum": ["running", "paused", "retired"] },
            "version": number(),
            "published": number(),
            "open": { "description": "The open timestamp.", "type": ["integer", "null"] },
            "timestamp": { "description": "The timestamp of this moment.", "type": ["integer", "null"] },
            "driven": { "type": "boolean" },
            "problem": { "type": ["string", "null"] },
        }),
    ) {
        shown.extend(own);
    }
    let record = |key: &str, body: Value| {
        json!({
            "type": "object",
            "required": ["number", "version", "timestamp", key],
            "properties": {
                "number": number(), "version": number(), "timestamp": number(), key: body,
                "time": {
                    "description": "When the timestamp begins, where the spec says how long one is.",
                    "type": "string",
                },
            },
        })
    };
    let listed = |key: &str, each: Value| {
        json!({
            "type": "object",
            "required": ["stream", key, "next"],
            "properties": {
                "stream": { "type": "string" },
                "values": {
                    "description": "For releases: names of the values, in the order of every array; null for numbers.",
                    "type": ["array", "null"], "items": { "type": "string" },
                },
                key: { "type": "array", "items": each },
                "next": { "type": ["integer", "null"] },
            },
        })
    };
    let all = json!({
        "Problem": {
            "type": "object",
            "required": ["error", "message"],
            "properties": {
                "error": { "description": "Code for programs.", "type": "string" },
                "message": { "description": "Text for people.", "type": "string" },
                "position": { "description": "Line or element of the request, from zero.", "type": "integer" },
                "taken": { "description": "Events before it that were accepted.", "type": "integer" },
            },
            "additionalProperties": false,
        },
        "State": { "type": "object", "required": ["status"], "properties": { "status": { "type": "string" } } },
        "OperatorKey": {
            "type": "object",
            "required": ["algorithm", "key"],
            "properties": {
                "algorithm": { "const": "ed25519" }, "key": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
            },
        },
        "SignedTime": {
            "type": "object",
            "required": ["nonce", "time", "signature"],
            "properties": {
                "nonce": { "type": "string" },
                "time": { "description": "Seconds since 1970.", "type": "integer" },
                "signature": { "type": "string", "pattern": "^[0-9a-f]{128}$" },
            },
        },
        "Declaration": {
            "type": "object", "required": ["name", "tick", "spec"], "properties": declared,
            "additionalProperties": false,
        },
        "Stream": {
            "type": "object", "required": ["name", "tick", "spec", "status", "version", "published"],
            "properties": shown,
        },
        "Streams": {
            "type": "object", "required": ["streams"],
            "properties": { "streams": { "type": "array", "items": schema_ref("Stream") } },
        },
        "SignedPolicy": {
            "type": "object", "required": ["policy", "signature"],
            "properties": {
                "policy": { "type": "object" }, "signature": { "type": "array", "items": { "type": "integer" } },
            },
        },
        "Values": {
            "type": "object", "required": ["count", "names"],
            "properties": {
                "count": number(),
                "names": { "type": ["array", "null"], "items": { "type": "string" } },
                "numbers": { "type": "object" },
            },
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
                        "token": {
                            "description": "In a stream with credentials: the token's nonce, and the proof of it.",
                            "type": "string", "pattern": "^[0-9a-fA-F]{64}$",
                        },
                        "report": { "type": "string", "pattern": "^([0-9a-fA-F]{2})+$" },
                    },
                    "additionalProperties": false,
                } },
            },
            "additionalProperties": false,
        },
        "Receipt": {
            "type": "object", "required": ["accepted", "repeated", "conflicting", "implausible"],
            "properties": {
                "accepted": number(), "repeated": number(), "conflicting": number(), "implausible": number(),
                "wrong_token": { "description": "Missing where it is 0.", "type": "integer", "minimum": 1 },
            },
        },
        "Event": {
            "type": "object",
            "properties": {
                "user": { "type": ["string", "null"] },
                "value": { "description": "A text or a number; anything else counts as a missing value" },
            },
            "additionalProperties": false,
        },
        "Class": {
            "type": "object", "required": ["class"], "properties": { "class": { "type": "string" } },
            "additionalProperties": false,
        },
        "UserClass": {
            "type": "object", "required": ["user", "class"],
            "properties": {
                "user": { "type": "string", "minLength": 1 },
                "class": { "description": "null to leave", "type": ["string", "null"] },
            },
            "additionalProperties": false,
        },
        "User": {
            "type": "object", "required": ["user", "class", "from"],
            "properties": {
                "user": { "type": "string" },
                "class": { "description": "null for a user who has left", "type": ["string", "null"] },
                "from": {
                    "description": "The first timestamp at which the user counts in the class.",
                    "type": ["integer", "null"],
                },
            },
        },
        "UsersTaken": {
            "type": "object", "required": ["taken", "from"],
            "properties": {
                "taken": number(),
                "from": { "description": "The first timestamp to which the changes apply.", "type": "integer" },
            },
        },
        "Taken": { "type": "object", "required": ["taken"], "properties": { "taken": number() } },
        "Releases": listed("releases", record("release", json!({
            "type": "object", "required": ["timestamp", "statistic", "freshness", "spent"],
            "properties": {
                "timestamp": number(),
                "freshness": { "enum": ["fresh", "approximated", "nullified"] },
                "spent": {
                    "description": "Budget spent: by nobody, by everyone, or by the users of some slots.",
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
                "suspicious": {
                    "description": "Signs that reports were poisoned; missing for streams of a curator.",
                    "type": "array", "items": { "enum": ["frequency", "crowd", "incomplete"] },
                },
                "counted_share": {
                    "description": "Share of the acknowledged reports that is counted, at least: null where it is \
                                    unknown, and missing where it is all of them.",
                    "type": ["number", "null"],
                },
                "why": {
                    "description": "Why it is as it is; missing in releases of earlier versions.",
                    "type": "object", "required": ["reason"],
                },
                "seeded": {
                    "description": "Whether its randomness comes from a seed; false where it is missing.",
                    "type": "boolean",
                },
            },
        }))),
        "Answers": listed("answers", record("answer", schema_ref("Answer"))),
        "Query": {
            "description": "About one value, the values from first to last, or the most frequent ones.",
            "type": "object", "properties": asked, "additionalProperties": false,
        },
        "Answer": { "type": "object", "required": ["t"], "properties": { "t": number() } },
    });
    any_of([all, of_credentials(&name)])
}

/// Returns the schemas of credentials and tokens.
fn of_credentials(name: &Value) -> Value {
    json!({
        "Devices": {
            "type": "object", "required": ["devices"],
            "properties": { "devices": { "type": "array", "minItems": 1, "maxItems": MOST, "items": name } },
            "additionalProperties": false,
        },
        "Credentials": {
            "type": "object", "required": ["credentials"],
            "properties": { "credentials": { "type": "array", "items": {
                "type": "object", "required": ["stream", "device", "key"],
                "properties": {
                    "stream": name, "device": name, "key": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
                },
            } } },
        },
        "Draw": {
            "type": "object", "required": ["device", "block", "elements", "mac"],
            "properties": {
                "device": name, "block": number(),
                "elements": { "type": "string", "pattern": "^[0-9a-fA-F]{1024}$" },
                "mac": { "type": "string", "pattern": "^[0-9a-fA-F]{64}$" },
            },
            "additionalProperties": false,
        },
        "Tokens": {
            "type": "object", "required": ["evaluations"],
            "properties": { "evaluations": { "type": "string", "pattern": "^[0-9a-f]{3072}$" } },
        },
    })
}
