//! Streams that take their history before they go live.

use serde_json::{Value, json};
use tidegate_server::http::auth::Role;
use tidegate_server::service::now;

use super::{Answer, Server, rooms};

/// A curator's stream that began a thousand ticks ago.
fn past() -> Value {
    let mut past = rooms();
    (past["backfill"], past["epoch"]) = (json!(true), json!(now() / 1_000 - 1_000));
    past
}

fn send(server: &Server, timestamp: u64, users: u64) -> Answer {
    let event = |user: u64| json!({ "user": format!("u{user}"), "value": "in" });
    let events: Vec<Value> = (0..users).map(event).collect();
    server.post_json(Role::Ingest, &format!("/v1/streams/rooms/history?timestamp={timestamp}"), &json!(events))
}

#[test]
fn a_stream_takes_its_history_and_goes_live() {
    let server = Server::start();
    server.create(&past());
    server.until(Role::Analyst, "/v1/streams/rooms", |answer| answer.json()["driven"] == true);
    for timestamp in 0..3 {
        let sent = send(&server, timestamp, 10 * timestamp);
        assert_eq!((sent.status, sent.json()), (200, json!({ "taken": 10 * timestamp })), "{}", sent.text);
    }
    // Neither again nor earlier, nor before its time; and events of the present have to wait.
    for timestamp in [0, 2, 1_000_000] {
        send(&server, timestamp, 1).refuses(409, "closed");
    }
    let two = json!([{ "user": "anna", "value": "in" }, { "value": "in" }]);
    let unnamed = server.post_json(Role::Ingest, "/v1/streams/rooms/history?timestamp=3", &two);
    unnamed.refuses(400, "not_taken");
    assert_eq!(unnamed.json()["position"], 1);
    server.post_json(Role::Ingest, "/v1/streams/rooms/events", &two[0]).refuses(409, "closed");
    server.post_json(Role::Ingest, "/v1/streams/rooms/history", &two).refuses(400, "parameter");
    server.post_json(Role::Analyst, "/v1/streams/rooms/history?timestamp=3", &two).refuses(403, "role");
    // A restart forgets nothing.
    let server = server.restart();
    server.until(Role::Analyst, "/v1/streams/rooms", |answer| answer.json()["driven"] == true);
    send(&server, 2, 1).refuses(409, "closed");
    assert_eq!(send(&server, 3, 30).status, 200);
    let counts = |answer: &Answer| -> Vec<(u64, i64)> {
        let releases = answer.json()["releases"].as_array().unwrap().clone();
        let count = |record: &Value| {
            let count = record["release"]["statistic"]["counts"]["counts"][0].as_f64().unwrap();
            #[allow(clippy::cast_possible_truncation)] // a small count
            (record["timestamp"].as_u64().unwrap(), (count / 10.0).round() as i64)
        };
        releases.iter().map(count).collect()
    };
    // Discrete Laplace noise of epsilon 10: it is off by 5 with probability 4e-22.
    let path = "/v1/streams/rooms/releases";
    server.until(Role::Analyst, path, |answer| counts(answer) == [(0, 0), (1, 1), (2, 2), (3, 3)]);
    // Resuming makes it live, for ever.
    assert_eq!(server.post_json(Role::Operator, "/v1/streams/rooms/resume", &Value::Null).status, 200);
    server.until(Role::Analyst, path, |answer| counts(answer).last().is_some_and(|(timestamp, _)| *timestamp > 900));
    send(&server, 4, 1).refuses(409, "live");
    let mut again = past();
    again["epoch"] = server.get(Some(Role::Analyst), "/v1/streams/rooms").json()["epoch"].clone();
    assert_eq!(server.post_json(Role::Operator, "/v1/streams", &again).status, 200);
    send(&server, 4, 1).refuses(409, "live");
}
