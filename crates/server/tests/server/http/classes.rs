//! Streams with classes: the registry of users, and who is counted.

use serde_json::{Value, json};
use tidegate_server::http::auth::Role;

use super::{Answer, Server, rooms, visits};

const USERS: &str = "/v1/streams/classes/users";

/// A curator's stream with two classes.
pub(crate) fn classes() -> Value {
    json!({ "name": "classes", "tick": 1, "spec": {
        "family": "central", "mechanism": "pbd", "domain": ["in", "out"],
        "classes": [
            { "name": "high", "epsilon": 200, "window": 2 },
            { "name": "low", "epsilon": 400, "window": 30 },
        ],
    } })
}

fn user(server: &Server, name: &str) -> Answer {
    server.get(Some(Role::Ingest), &format!("{USERS}/{name}"))
}

/// Sends an event of each of 60 users, and returns the answers.
fn send_all(server: &Server) -> Vec<String> {
    let send = |user| {
        let body = json!({ "user": format!("u{user}"), "value": "in" }).to_string();
        let answer = server.send_events("/v1/streams/classes/events", "application/json", body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.text
    };
    (0..60).map(send).collect()
}

#[test]
fn only_users_with_a_class_are_counted() {
    let server = Server::start();
    server.create(&classes());
    // Users 0 to 39 have a class.
    let lines: String = (0..40)
        .map(|user| {
            let class = if user < 20 { "high" } else { "low" };
            format!("{}\n", json!({ "user": format!("u{user}"), "class": class }))
        })
        .collect();
    let taken = server.post(Some(Role::Ingest), USERS, "application/x-ndjson", lines.as_bytes());
    assert_eq!((taken.status, &taken.json()["taken"]), (200, &json!(40)), "{}", taken.text);
    let from = taken.json()["from"].as_u64().unwrap();
    assert_eq!(user(&server, "u39").json(), json!({ "user": "u39", "class": "low", "from": from }));
    // No answer reveals who has one. Events are sent until they were all counted in one tick.
    let path = "/v1/streams/classes/releases?last=8";
    let counted = |answer: &Answer| {
        let answers = send_all(&server);
        assert!(answers.iter().all(|text| *text == answers[0]), "{answers:?}");
        let records = answer.json()["releases"].as_array().unwrap().clone();
        records.into_iter().find(|record| {
            let count = record["release"]["statistic"]["counts"]["counts"][0].as_f64().unwrap();
            (count - 40.0).abs() < 0.5
        })
    };
    let found = server.until(Role::Analyst, path, |answer| counted(answer).is_some());
    let record = counted(&found).unwrap();
    let spent = record["release"]["spent"].as_array().unwrap();
    assert_eq!(spent.iter().map(|spend| &spend["class"]).collect::<Vec<_>>(), [&json!(0), &json!(1)]);
    for record in found.json()["releases"].as_array().unwrap() {
        let count = record["release"]["statistic"]["counts"]["counts"][0].as_f64().unwrap();
        assert!(count < 40.5, "nobody else is counted: {count}");
    }
}

#[test]
fn the_registry_survives_a_restart() {
    let server = Server::start();
    server.create(&classes());
    let put = |server: &Server, name: &str, class: &str| {
        server.put_json(Role::Ingest, &format!("{USERS}/{name}"), &json!({ "class": class }))
    };
    // A name may have any characters.
    let joined = put(&server, "a%2Fb%20%C3%A9", "high");
    assert_eq!((joined.status, &joined.json()["user"]), (200, &json!("a/b é")), "{}", joined.text);
    assert_eq!(put(&server, "anna", "high").json()["class"], "high");
    // Once she has counted, she sits out the longer window.
    server.until(Role::Analyst, "/v1/streams/classes", |answer| {
        answer.json()["open"].as_u64().is_some_and(|open| open > joined.json()["from"].as_u64().unwrap() + 1)
    });
    let moved = put(&server, "anna", "low");
    let open = server.get(Some(Role::Analyst), "/v1/streams/classes").json()["open"].as_u64().unwrap();
    let from = moved.json()["from"].as_u64().unwrap();
    assert!((open + 25..open + 31).contains(&from), "{from} after {open}");
    assert_eq!(put(&server, "anna", "low").json(), moved.json(), "a repetition changes nothing");
    let server = server.restart();
    assert_eq!(user(&server, "anna").json(), moved.json());
    let left = server.delete(Role::Operator, &format!("{USERS}/anna"));
    assert_eq!((left.status, left.json()), (200, json!({ "user": "anna", "class": null, "from": null })));
    assert_eq!(user(&server, "anna").json(), left.json());
}

#[test]
fn wrong_requests_name_the_line_and_the_field() {
    let server = Server::start();
    for declaration in [classes(), rooms(), visits()] {
        server.create(&declaration);
    }
    let lines = "{\"user\": \"anna\", \"class\": \"low\"}\n{\"user\": \"bert\", \"class\": \"medium\"}\n";
    let unknown = server.post(Some(Role::Ingest), USERS, "application/x-ndjson", lines.as_bytes());
    unknown.refuses(400, "not_taken");
    assert_eq!(unknown.json()["position"], 1);
    assert!(unknown.text.contains("high, low") && !unknown.text.contains("bert"), "{}", unknown.text);
    user(&server, "anna").refuses(404, "no_user");
    let malformed = server.post_json(Role::Ingest, USERS, &json!([{ "user": "anna" }]));
    malformed.refuses(400, "malformed");
    assert_eq!(malformed.json()["position"], 0);
    server.post(Some(Role::Ingest), USERS, "text/csv", b"anna,low").refuses(415, "media_type");
    server.post_json(Role::Analyst, USERS, &json!({ "user": "anna", "class": "low" })).refuses(403, "role");
    server.get(Some(Role::Analyst), &format!("{USERS}/anna")).refuses(403, "role");
    for stream in ["rooms", "visits"] {
        let path = format!("/v1/streams/{stream}/users/anna");
        server.get(Some(Role::Ingest), &path).refuses(409, "no_classes");
        server.put_json(Role::Ingest, &path, &json!({ "class": "low" })).refuses(409, "no_classes");
    }
    server.get(Some(Role::Ingest), "/v1/streams/none/users/anna").refuses(404, "no_stream");
    server.get(Some(Role::Ingest), &format!("{USERS}/{}", "x".repeat(257))).refuses(400, "parameter");
    // Other classes are another guarantee.
    let mut other = classes();
    other["spec"]["classes"][0]["window"] = json!(3);
    server.post_json(Role::Operator, "/v1/streams", &other).refuses(409, "changed");
    assert_eq!(server.post_json(Role::Operator, "/v1/streams/classes/retire", &Value::Null).status, 200);
    server.put_json(Role::Ingest, &format!("{USERS}/anna"), &json!({ "class": "low" })).refuses(409, "retired");
}

#[test]
fn a_late_event_counts_in_its_tick() {
    let server = Server::start();
    let mut late = rooms();
    (late["tick"], late["lateness"]) = (json!(2), json!(10));
    server.create(&late);
    let open = || server.get(Some(Role::Analyst), "/v1/streams/rooms").json()["open"].as_u64();
    let event = |user: &str| json!({ "user": user, "value": "in" });
    let first = loop {
        let Some(open) = open() else { continue };
        let path = format!("/v1/streams/rooms/events?timestamp={open}");
        if server.post_json(Role::Ingest, &path, &event("anna")).status == 200 {
            break open;
        }
    };
    let path = |timestamp: u64| format!("/v1/streams/rooms/events?timestamp={timestamp}");
    server.until(Role::Analyst, "/v1/streams/rooms", |answer| answer.json()["open"].as_u64() > Some(first));
    assert_eq!(server.post_json(Role::Ingest, &path(first), &event("bert")).status, 200);
    server.post_json(Role::Ingest, &path(first - 1), &event("cleo")).refuses(409, "closed");
    server.post_json(Role::Ingest, &path(first + 1_000), &event("cleo")).refuses(409, "closed");
    let released = format!("/v1/streams/rooms/releases?from={first}&to={first}");
    let released = server.until(Role::Analyst, &released, |answer| {
        answer.json()["releases"].as_array().is_some_and(|releases| !releases.is_empty())
    });
    // Discrete Laplace noise of epsilon 10: it is zero but with probability 1e-4, and below 2 but with 4e-9.
    let count = released.json()["releases"][0]["release"]["statistic"]["counts"]["counts"][0].as_f64().unwrap();
    assert!((count - 2.0).abs() < 2.0, "{count}");
    server.post_json(Role::Ingest, &path(first), &event("cleo")).refuses(409, "closed");
}
