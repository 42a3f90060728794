//! What operators rely on: retention, and metrics of the process, the store and the streams.

use serde_json::{Value, json};
use tidegate_server::http::auth::Role;
use tidegate_server::http::{TlsFiles, WebhookSettings};

use super::limits::TLS;
use super::{Server, rooms, visits};

fn numbers(server: &Server, path: &str) -> Vec<u64> {
    let found = server.get(Some(Role::Analyst), path).json();
    let key = if found["releases"].is_array() { "releases" } else { "answers" };
    found[key].as_array().unwrap().iter().map(|record| record["number"].as_u64().unwrap()).collect()
}

/// A stream that keeps its last three timestamps.
fn kept() -> Value {
    let mut declaration = rooms();
    declaration["retention"] = json!({ "timestamps": 3 });
    declaration["spec"]["queries"] = json!([{ "name": "inside", "value": "in", "unit": "counts" }]);
    declaration
}

#[test]
fn old_records_are_deleted_and_everything_goes_on() {
    let server = Server::start();
    server.create(&kept());
    let (releases, answers) = ("/v1/streams/rooms/releases", "/v1/streams/rooms/answers");
    let late = server.until(Role::Analyst, "/v1/streams/rooms/releases?last=1", |answer| {
        answer.json()["releases"][0]["number"].as_u64().is_some_and(|number| number >= 6)
    });
    let last = &late.json()["releases"][0];
    let (number, timestamp) = (last["number"].as_u64().unwrap(), last["timestamp"].as_u64().unwrap());
    let left = numbers(&server, releases);
    assert!(left.len() <= 5 && left[0] > 1, "{left:?}");
    assert!(left.windows(2).all(|pair| pair[1] == pair[0] + 1), "{left:?}");
    assert!(numbers(&server, answers)[0] > 1);
    // Pages and feeds that begin before the oldest one begin with it.
    let page = server.get(Some(Role::Analyst), &format!("{releases}?after=1&limit=1")).json();
    assert!(page["releases"][0]["number"].as_u64().unwrap() > 2, "{page}");
    assert!(page["next"].as_u64().unwrap() > 2, "{page}");
    let old = server.get(Some(Role::Analyst), &format!("{releases}?to={}", timestamp - 5)).json();
    assert_eq!((&old["releases"], &old["next"]), (&json!([]), &Value::Null));
    let (_, id, _) = server.feed("rooms", "", Some("1-1")).event().unwrap();
    assert!(id.split('-').any(|number| number.parse::<u64>().unwrap() > 2), "{id}");
    assert!(numbers(&server, &format!("{releases}?last=2")).len() >= 2);
    // A query answers about what is there, and not about a period that is gone, or gone in part.
    let ask = |at: u64, delta: u64| {
        let question = json!({ "value": "in", "unit": "counts", "at": at, "delta": delta });
        server.post_json(Role::Analyst, "/v1/streams/rooms/query", &question)
    };
    assert_eq!(ask(timestamp, 1).status, 200);
    for (at, delta) in [(timestamp - 6, 1), (timestamp, 6)] {
        ask(at, delta).refuses(404, "not_released");
    }
    // The budget of a window is not known after that.
    let promise = server.get(Some(Role::Analyst), "/v1/streams/rooms/promise").json();
    assert_eq!(promise["budget"][0]["complete"], false, "{promise}");
    let promise = server.get(Some(Role::Analyst), "/v1/streams/rooms/promise?last=1").json();
    assert_eq!(promise["budget"][0]["complete"], true, "{promise}");
    // After a restart, numbers go on.
    let server = server.restart();
    server.until(Role::Analyst, releases, |answer| {
        let records = answer.json()["releases"].as_array().cloned().unwrap_or_default();
        records.last().is_some_and(|record| record["number"].as_u64() > Some(number))
    });
    // Without a retention, nothing more is deleted.
    let mut declaration = kept();
    declaration.as_object_mut().unwrap().remove("retention");
    assert_eq!(server.post_json(Role::Operator, "/v1/streams", &declaration).status, 200);
    let more = server.until(Role::Analyst, releases, |answer| {
        answer.json()["releases"].as_array().is_some_and(|records| records.len() > 6)
    });
    assert!(more.json()["releases"][0]["number"].as_u64().unwrap() > 1);
}

#[test]
fn a_retention_that_cannot_be_kept_is_refused() {
    let server = Server::start();
    for retention in [json!({ "age": "1mo" }), json!({ "timestamps": 0 }), json!({ "years": 3 }), json!("90d")] {
        let mut declaration = rooms();
        declaration["retention"] = retention.clone();
        let refused = server.post_json(Role::Operator, "/v1/streams", &declaration);
        refused.refuses(400, "declaration");
    }
}

fn value(metrics: &str, name: &str) -> Option<f64> {
    let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim_start_matches("{}").strip_prefix(' '));
    found.map(|value| value.parse().unwrap())
}

#[test]
fn metrics_tell_what_wakes_operators() {
    let files = |name: &str| TlsFiles {
        certificate: format!("{TLS}/{name}certificate.pem").into(),
        key: format!("{TLS}/{name}key.pem").into(),
    };
    let server = Server::start();
    let metrics = || server.get(Some(Role::Analyst), "/metrics").text;
    server.create(&visits());
    let shown = server.until(Role::Analyst, "/metrics", |answer| {
        value(&answer.text, "tidegate_released_through_seconds{stream=\"visits\"}").is_some()
    });
    let text = shown.text;
    for (name, least, most) in [
        ("tidegate_memory_bytes", 1e6, 1e11),
        ("tidegate_open_files", 5.0, 1e6),
        ("tidegate_most_open_files", 100.0, 1e19),
        ("tidegate_store_bytes", 4_096.0, 1e9),
        ("tidegate_queued_batches", 0.0, 0.0),
        ("tidegate_start_time_seconds", 1.7e9, 1e10),
        ("tidegate_tick_seconds{stream=\"visits\"}", 1.0, 60.0),
        ("tidegate_released_through_seconds{stream=\"visits\"}", 1.7e9, 1e10),
        ("tidegate_stream_status{stream=\"visits\",status=\"running\"}", 1.0, 1.0),
        ("tidegate_stream_status{stream=\"visits\",status=\"retired\"}", 0.0, 0.0),
        ("tidegate_stream_driven{stream=\"visits\"}", 1.0, 1.0),
        ("tidegate_stream_problem{stream=\"visits\"}", 0.0, 0.0),
    ] {
        let found = value(&text, name).unwrap_or_else(|| panic!("{name} is not in\n{text}"));
        assert!((least..=most).contains(&found), "{name}: {found}");
    }
    assert!(text.contains(concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")), "{text}");
    assert!(value(&text, "tidegate_certificate_end_seconds").is_none(), "it has no certificate");
    // A curated stream hides what its users could move, also when it is retired.
    server.create(&rooms());
    let hidden = |text: &str| ["tidegate_memory_bytes", "tidegate_open_files"].map(|name| value(text, name).is_none());
    assert_eq!(hidden(&metrics()), [true, true]);
    assert_eq!(server.post(Some(Role::Operator), "/v1/streams/rooms/retire", "", b"").status, 200);
    let text = metrics();
    assert_eq!(hidden(&text), [true, true]);
    assert_eq!(value(&text, "tidegate_stream_status{stream=\"rooms\",status=\"retired\"}"), Some(1.0));
    assert!(value(&text, "tidegate_step_overdue_seconds{stream=\"rooms\"}").is_none());
    drop(server);
    // The end of the certificate: the year 2120.
    let server = Server::start_with(WebhookSettings::default(), |settings| {
        settings.tls = Some(files(""));
        settings.public_metrics = true;
    });
    let agent = super::limits::trusting("authority");
    let mut answer = agent.get(format!("https://localhost:{}/metrics", server.address.port())).call().unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    assert_eq!(value(&text, "tidegate_certificate_end_seconds"), Some(4_733_510_400.0), "{text}");
}
