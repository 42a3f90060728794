//! The API conforms to its OpenAPI document.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_device::api::BATCH;
use tidegate_server::http::auth::Role;

use super::classes::classes;
use super::{Server, load, rooms, visits};

/// Validates a value by the subset of JSON Schema that the document uses.
fn fits(value: &Value, schema: &Value, document: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return fits(value, document.pointer(reference.strip_prefix('#').unwrap()).unwrap(), document);
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    };
    let right = match &schema["type"] {
        Value::Null => true,
        Value::String(kind) => is(kind),
        kinds => kinds.as_array().unwrap().iter().any(|kind| is(kind.as_str().unwrap())),
    };
    if !right {
        return Err(format!("{value} is not of type {}", schema["type"]));
    }
    if let Some(options) = schema["enum"].as_array()
        && !options.contains(value)
    {
        return Err(format!("{value} is none of {options:?}"));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        if value.get(key.as_str().unwrap()).is_none() {
            return Err(format!("{value} has no {key}"));
        }
    }
    for (key, inside) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => fits(inside, schema, document)?,
            None if schema["additionalProperties"] == json!(false) => return Err(format!("{key} is not known")),
            None => {}
        }
    }
    for inside in value.as_array().into_iter().flatten() {
        fits(inside, &schema["items"], document)?;
    }
    Ok(())
}

/// Sends bytes, and returns status, media type and body of the answer.
fn call(server: &Server, request: &str) -> (u16, String, String) {
    let text = server.raw(request.as_bytes(), Duration::from_millis(400));
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let media_type = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or("");
    (status, media_type.split(';').next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn every_answer_of_every_route_is_documented() {
    let server = Server::start();
    for declaration in [visits(), rooms(), load(), classes()] {
        server.create(&declaration);
    }
    server.report("visits", 0..60, 2, 1);
    server.until(Role::Analyst, "/v1/streams/visits/answers", |answer| {
        answer.json()["answers"].as_array().is_some_and(|answers| !answers.is_empty())
    });
    let document = server.get(None, "/openapi.json").json();
    let bodies = [
        (String::new(), String::new()),
        ("application/json".to_owned(), visits().to_string()),
        ("application/json".to_owned(), json!({ "value": "shop" }).to_string()),
        ("application/json".to_owned(), json!({ "user": "anna", "value": "in" }).to_string()),
        ("application/json".to_owned(), json!({ "user": "anna", "class": "low" }).to_string()),
        ("application/json".to_owned(), json!({ "class": "low" }).to_string()),
        ("application/json".to_owned(), "{".to_owned()),
        ("application/x-ndjson".to_owned(), "{\"value\": 5}\n".to_owned()),
        (BATCH.to_owned(), "TGB1".to_owned()),
        ("text/plain".to_owned(), "x".to_owned()),
    ];
    let queries = ["", "?limit=2", "?format=csv", "?format=ndjson", "?last=1", "?since=now", "?after=0", "?nonsense=1"];
    let (mut operations, mut answers) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let operation = &item[method.to_lowercase()];
            // Retiring comes last, elsewhere.
            if path.ends_with("/retire") {
                continue;
            }
            operations += usize::from(operation.is_object());
            for stream in ["visits", "rooms", "load", "classes", "none"] {
                if stream != "visits" && !path.contains("{stream}") {
                    continue;
                }
                for role in [None, Some(Role::Analyst), Some(Role::Operator)] {
                    let inputs: Vec<_> = if ["POST", "PUT"].contains(&method) {
                        bodies.iter().map(|body| ("", body)).collect()
                    } else {
                        queries.iter().map(|query| (*query, &bodies[0])).collect()
                    };
                    // Without a token, the input does not matter.
                    let inputs = if role.is_none() { &inputs[..1] } else { &inputs[..] };
                    for (query, (media_type, body)) in inputs {
                        let path = path.replace("{stream}", stream).replace("{user}", "anna");
                        // A feed does not end by itself: one of each stream is enough.
                        if path.ends_with("/feed") && *query == "?since=now" {
                            continue;
                        }
                        let token = role.map(|role| format!("authorization: Bearer {}\r\n", server.token(role)));
                        let request = format!(
                            "{method} {path}{query} HTTP/1.1\r\nhost: x\r\n{}content-type: {media_type}\r\n\
                             content-length: {}\r\nconnection: close\r\n\r\n{body}",
                            token.unwrap_or_default(),
                            body.len(),
                        );
                        let (status, found, text) = call(&server, &request);
                        answers += 1;
                        assert!(status < 500, "{request}: {status} {text}");
                        let responses = if operation.is_object() { operation } else { &item["get"] };
                        let responses = if responses.is_object() { responses } else { &item["post"] };
                        let mut response = &responses["responses"][status.to_string()];
                        assert!(!response.is_null(), "{request}: status {status} is not documented: {text}");
                        if let Some(reference) = response["$ref"].as_str() {
                            response = document.pointer(&reference[1..]).unwrap();
                        }
                        let content = &response["content"][&found];
                        assert!(!content.is_null(), "{request}: {status} with {found:?} is not documented");
                        if found == "application/json" {
                            let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{request}: {text}"));
                            fits(&value, &content["schema"], &document)
                                .unwrap_or_else(|error| panic!("{request}: {error}"));
                        }
                    }
                }
            }
        }
    }
    assert!(operations >= 20 && answers > 300, "{operations} operations, {answers} answers");
}
