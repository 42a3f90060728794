//! Refusals.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_device::api::BATCH;
use tidegate_server::http::auth::Role;

use super::{Server, batch, rooms, visits};

const PATIENCE: Duration = Duration::from_secs(5);

/// Returns all operations of the document that need a role.
fn protected(document: &Value) -> Vec<(String, String, Role)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "delete"] {
            let Some(role) = item[method]["x-role"].as_str() else { continue };
            let role = Role::ALL.into_iter().find(|one| one.name() == role).unwrap();
            found.push((method.to_owned(), path.replace("{stream}", "visits").replace("{user}", "anna"), role));
        }
    }
    found
}

#[test]
fn each_role_may_use_its_own_routes_only() {
    let server = Server::start();
    server.create(&visits());
    let call = |method: &str, path: &str, header: Option<String>| {
        let header = header.map(|value| format!("authorization: {value}\r\n")).unwrap_or_default();
        let text = server.raw(
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{header}connection: close\r\ncontent-length: 0\r\n\r\n")
                .as_bytes(),
            Duration::from_millis(500),
        );
        text.split(' ').nth(1).unwrap_or_else(|| panic!("{method} {path}: no answer")).parse::<u16>().unwrap()
    };
    let operations = protected(&server.get(None, "/openapi.json").json());
    assert!(operations.len() >= 13, "{operations:?}");
    for (method, path, needed) in operations {
        let method = method.to_uppercase();
        for wrong in [
            None,
            Some("Bearer".to_owned()),
            Some("Bearer x".to_owned()),
            Some(format!("Basic {}", server.token(Role::Operator))),
            Some(format!("Bearer {}x", server.token(Role::Operator))),
            Some("Bearer \u{fc}".to_owned()),
        ] {
            assert_eq!(call(&method, &path, wrong.clone()), 401, "{method} {path} {wrong:?}");
        }
        // A retired stream would end this test.
        if path.ends_with("/retire") {
            continue;
        }
        for role in Role::ALL {
            let status = call(&method, &path, Some(format!("bearer  {}", server.token(role))));
            assert_eq!(status == 403, !role.may(needed), "{method} {path} as {role}: {status}");
            assert!(status != 401, "{method} {path} as {role}");
        }
    }
    let refused = server.raw(b"GET /v1/streams HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", PATIENCE);
    assert!(refused.contains("www-authenticate: Bearer realm=\"tidegate\"\r\n"), "{refused}");
}

#[test]
fn refuses_malformed_requests_in_one_form() {
    let server = Server::start();
    server.create(&visits());
    server.create(&rooms());
    let (operator, ingest, analyst) = (Some(Role::Operator), Some(Role::Ingest), Some(Role::Analyst));
    let json_type = "application/json";
    // Paths, methods and names.
    server.get(analyst, "/v2").refuses(404, "no_path");
    server.get(analyst, "/v1/streams/").refuses(404, "no_path");
    server.get(analyst, "/v1/streams/none").refuses(404, "no_stream");
    server.get(analyst, "/v1/streams/%ff").refuses(404, "no_stream");
    server.get(analyst, "/v1/streams/..%2f..").refuses(404, "no_stream");
    server.get(None, "/v1/streams/none/questions").refuses(404, "no_stream");
    server.get(None, "/v1/streams/none/policy").refuses(404, "no_stream");
    for what in ["releases", "answers", "feed"] {
        server.get(analyst, &format!("/v1/streams/none/{what}")).refuses(404, "no_stream");
    }
    let method = server.get(analyst, "/v1/streams/visits/query");
    method.refuses(405, "method");
    assert_eq!(method.headers["allow"], "POST");
    server.post(analyst, "/healthz", "", b"").refuses(405, "method");
    // Parameters.
    for query in
        ["after=-1", "after=x", "limit=0", "limit=10001", "format=xml", "what=1", "after=1&after=2", "last=1&from=2"]
    {
        server.get(analyst, &format!("/v1/streams/visits/releases?{query}")).refuses(400, "parameter");
    }
    for query in ["wait=61", "wait=-1", "after=", "after=18446744073709551616"] {
        server.get(None, &format!("/v1/streams/visits/questions?{query}")).refuses(400, "parameter");
    }
    server.get(analyst, "/v1/streams/visits/answers?format=csv").refuses(400, "parameter");
    server.get(analyst, "/v1/streams/visits/feed?since=then").refuses(400, "parameter");
    assert_eq!(server.get(analyst, &format!("/v1/streams/visits/releases?after={}", u64::MAX)).status, 200);
    // Media types.
    for (path, role) in
        [("", operator), ("/visits/reports", ingest), ("/rooms/events", ingest), ("/visits/query", analyst)]
    {
        for media_type in ["", "text/plain", "application/x-www-form-urlencoded"] {
            server.post(role, &format!("/v1/streams{path}"), media_type, b"{}").refuses(415, "media_type");
        }
    }
    // Declarations.
    for body in ["", "{", "[]", "null", "{\"name\": \"x\"}", "\u{0}"] {
        server.post(operator, "/v1/streams", json_type, body.as_bytes()).refuses(400, "declaration");
    }
    server.post(operator, "/v1/streams", json_type, b"{\"name\": \"\xff\"}").refuses(400, "declaration");
    let changed = |key: &str, value: Value| {
        let mut declaration = visits();
        declaration["name"] = json!("other");
        declaration[key] = value;
        declaration
    };
    for (key, value) in [
        ("name", json!("No Name")),
        ("tick", json!(0)),
        ("epoch", json!(-1)),
        ("webhooks", json!(["ftp://x"])),
        ("more", json!(1)),
        (
            "spec",
            json!({ "family": "local", "mechanism": "lbu", "epsilon": 0, "window": 1, "domain": 2, "population": 1 }),
        ),
        ("spec", json!({ "family": "sequence", "mechanism": "crr", "epsilon": 1 })),
    ] {
        server.post_json(Role::Operator, "/v1/streams", &changed(key, value)).refuses(400, "declaration");
    }
    let long = vec![b' '; (1 << 20) + 1];
    server.post(operator, "/v1/streams", json_type, &long).refuses(413, "too_large");
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let chunked = format!(
        "POST /v1/streams HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n{chunk}1\r\n \r\n0\r\n\r\n",
        server.token(Role::Operator)
    );
    assert!(server.raw(chunked.as_bytes(), PATIENCE).starts_with("HTTP/1.1 413 "));
    // Queries.
    for query in [
        json!({}),
        json!([]),
        json!({ "value": "attic" }),
        json!({ "value": "home", "top": 1 }),
        json!({ "value": "home", "at": -1 }),
        json!({ "value": "home", "confidence": 1 }),
        json!({ "value": "home", "delta": 0 }),
        json!({ "value": "home", "delta": 1_000_000_000 }),
        json!({ "value": "home", "more": 1 }),
    ] {
        server.post_json(Role::Analyst, "/v1/streams/visits/query", &query).refuses(400, "query");
    }
    let beyond = json!({ "value": "home", "at": u64::MAX });
    server.post_json(Role::Analyst, "/v1/streams/visits/query", &beyond).refuses(404, "not_released");
    // Events and reports.
    server.post(ingest, "/v1/streams/rooms/events", json_type, b"{\"user\": \"\xff\"}").refuses(400, "malformed");
    server.post_json(Role::Ingest, "/v1/streams/visits/events", &json!({ "value": 1 })).refuses(409, "not_curated");
    server.post_json(Role::Ingest, "/v1/streams/none/events", &json!({ "value": 1 })).refuses(404, "no_stream");
    let reports = "/v1/streams/visits/reports";
    for body in [&b""[..], b"TGB1", b"{}", &[0xff; 100]] {
        server.post(ingest, reports, BATCH, body).refuses(400, "malformed");
    }
    let secret =
        json!({ "stream": "visits", "timestamp": 1, "phase": 0, "reports": [{ "id": "secret", "report": 5 }] });
    let refused = server.post_json(Role::Ingest, reports, &secret);
    refused.refuses(400, "malformed");
    assert!(!refused.text.contains("secret"));
    let none = json!({ "stream": "visits", "timestamp": 1, "phase": 0, "reports": [] });
    server.post_json(Role::Ingest, reports, &none).refuses(400, "malformed");
    let asked = server.question("visits", 200);
    server.post(ingest, reports, BATCH, &batch("other", &asked, 0..1, 0, 1)).refuses(400, "other_stream");
    server
        .post(ingest, "/v1/streams/none/reports", BATCH, &batch("none", &asked, 0..1, 0, 1))
        .refuses(404, "no_stream");
    let rows = server.post(ingest, "/v1/streams/rooms/reports", BATCH, &batch("rooms", &asked, 0..1, 0, 1));
    rows.refuses(409, "closed");
}

#[test]
fn answers_have_security_headers() {
    let server = Server::start();
    for path in ["/", "/healthz", "/nothing", "/v1/streams", "/openapi.json", "/app.js"] {
        let answer = server.get(None, path);
        let header = |name: &str| answer.headers.get(name).map(String::as_str);
        // A file of the program may be kept, and is asked for anew.
        let cached = if ["/", "/app.js"].contains(&path) { "no-cache" } else { "no-store" };
        assert_eq!(header("cache-control"), Some(cached), "{path}");
        assert_eq!(header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(header("referrer-policy"), Some("no-referrer"), "{path}");
        let policy = header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}: {policy}");
        assert!(header("x-request-id").is_some_and(|id| !id.is_empty()), "{path}");
        assert!(header("access-control-allow-origin").is_none(), "{path}");
    }
    let page = server.get(None, "/").text;
    assert!(!page.contains("://") && !page.contains("onclick") && !page.contains("<style"), "nothing from elsewhere");
    let head = server.raw(b"HEAD /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", PATIENCE);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let options = server.raw(b"OPTIONS /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", PATIENCE);
    assert!(options.starts_with("HTTP/1.1 405 ") && options.contains("allow: GET,HEAD\r\n"), "{options}");
}
