//! Whatever value an event has, its answer is the same and the tick is released.

use serde_json::{Value, json};

use tidegate_server::http::auth::Role;

use super::{Server, rooms};

/// JSON values in place of a number, and their meaning on the domain 0..100 with `missing = 40`.
const READINGS: [(&str, f64); 13] = [
    ("1", 1.0),
    ("1.5", 2.0),
    ("99.49999999999999999999999", 99.0),
    ("1e300", 100.0),
    ("-1e400", 0.0),
    ("\"7\"", 7.0),
    ("\"abc\"", 40.0),
    ("null", 40.0),
    ("true", 40.0),
    ("[1]", 40.0),
    ("{\"is\": 1}", 40.0),
    ("NaN", 40.0),
    ("-Infinity", 40.0),
];

/// A stream of numbers whose noise is zero, except with probability 1e-8.
fn numbers(name: &str) -> Value {
    let domain = json!({ "low": 0, "high": 100, "missing": 40 });
    json!({ "name": name, "tick": 2, "spec": {
        "family": "scalar", "mechanism": "laplace", "epsilon": 20, "domain": domain, "protects": { "contributor": 1 },
    } })
}

#[test]
fn releases_every_tick_whatever_the_reading() {
    let server = Server::start();
    let name = |index: usize| format!("s{index}");
    (0..=READINGS.len()).for_each(|index| server.create(&numbers(&name(index))));
    let bodies = READINGS.map(|(json, expected)| (format!("{{\"value\": {json}}}"), expected));
    let bodies: Vec<_> = bodies.into_iter().chain([("{}".to_owned(), 40.0)]).collect();
    for (index, (body, _)) in bodies.iter().enumerate() {
        let stream = format!("/v1/streams/{}", name(index));
        let answer = loop {
            let open = server.until(Role::Analyst, &stream, |answer| answer.json()["open"].is_u64()).json();
            let path = format!("{stream}/events?timestamp={}", open["open"]);
            let answer = server.post(Some(Role::Ingest), &path, "application/json", body.as_bytes());
            // Which tick is open may change between looking and telling.
            if answer.status != 409 {
                break answer;
            }
        };
        assert_eq!((answer.status, answer.json()), (200, json!({ "taken": 1 })), "{body}: {}", answer.text);
    }
    for (index, (body, expected)) in bodies.iter().enumerate() {
        let released = server.until(Role::Analyst, &format!("/v1/streams/{}/releases", name(index)), |answer| {
            answer.json()["releases"].as_array().is_some_and(|releases| !releases.is_empty())
        });
        let value = &released.json()["releases"][0]["release"]["statistic"]["number"]["value"];
        assert_eq!(value.as_f64(), Some(*expected), "{body}");
    }
}

/// One user's value must not decide whether others are counted.
#[test]
fn accepts_a_batch_with_any_value() {
    let server = Server::start();
    server.create(&rooms());
    let path = "/v1/streams/rooms/events";
    let odd = ["\"attic\"", "7", "1e400", "null", "[]", "NaN"];
    for (batch, odd) in odd.into_iter().enumerate() {
        let user = |number: usize| format!("b{batch}u{number}");
        let line = |user: String, value: &str| format!("{{\"user\": {user:?}, \"value\": {value}}}\n");
        let others = (0..40).map(|number| line(user(number), "\"in\""));
        let lines: String = std::iter::once(line(format!("odd{batch}"), odd)).chain(others).collect();
        let answer = server.send_events(path, "application/x-ndjson", lines.as_bytes());
        assert_eq!((answer.status, answer.json()), (200, json!({ "taken": 41 })), "{odd}: {}", answer.text);
    }
    // Noise of scale 1/10: a distance of 5 has a chance of e^-50.
    server.until(Role::Analyst, "/v1/streams/rooms/releases", |answer| {
        let releases = answer.json()["releases"].as_array().unwrap().clone();
        let count = |release: &Value, cell: usize| release["release"]["statistic"]["counts"]["counts"][cell].as_f64();
        let batches = |release: &Value| count(release, 0).map(|count| (count / 40.0).round());
        releases.iter().filter_map(batches).sum::<f64>() >= 6.0
    });
}
