//! Streams of sequences: devices release them, and the service counts.

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tidegate_device::api::BATCH;
use tidegate_device::enrolment::SignedPolicy;
use tidegate_device::sequence::SequenceMechanism;
use tidegate_kernel::View;
use tidegate_server::http::auth::Role;

use super::{Server, batch};

fn rooms(mechanism: &str, more: &Value) -> Value {
    let mut declared = json!({ "name": "rooms", "tick": 2, "spec": {
        "family": "sequence", "mechanism": mechanism, "epsilon": 2, "domain": ["in", "out"], "population": 50,
        "model": { "prior": [0.5, 0.5], "transitions": [[0.6, 0.4], [0.4, 0.6]] },
    } });
    let spec = declared["spec"].as_object_mut().unwrap();
    more.as_object().unwrap().iter().for_each(|(key, value)| drop(spec.insert(key.clone(), value.clone())));
    declared
}

#[test]
fn released_symbols_are_counted_and_state_no_variance() {
    let server = Server::start();
    server.create(&rooms("crr", &json!({})));
    let policy: SignedPolicy = serde_json::from_str(&server.get(None, "/v1/streams/rooms/policy").text).unwrap();
    let policy = policy.verified(&SigningKey::from_bytes(&[7; 32]).verifying_key()).unwrap().into_policy();
    let sequence = policy.sequence.unwrap();
    assert_eq!((sequence.mechanism, sequence.epsilon.to_string()), (SequenceMechanism::Crr, "2".to_owned()));
    assert_eq!(policy.protects.epsilon.to_string(), "4", "the ledger counts what holds whatever the model");

    let (asked, sent) = server.report("rooms", 0..30, 1, 7);
    assert_eq!(asked.question.view, View::Sequence { length: 1 });
    assert_eq!(sent.json()["accepted"], 30);
    let at = asked.question.timestamp;
    let path = format!("/v1/streams/rooms/releases?from={at}&to={at}");
    let is_there = |answer: &super::Answer| answer.json()["releases"].as_array().is_some_and(|all| all.len() == 1);
    let released = server.until(Role::Analyst, &path, is_there).json();
    let release = &released["releases"][0]["release"];
    assert_eq!((&released["values"], &release["reports"]), (&json!(["in", "out"]), &json!(30)));
    let counts = release["statistic"]["counts"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_f64().unwrap()).sum::<f64>().to_string(), "30");
    assert_eq!(release["statistic"]["counts"]["variances"], json!([null, null]));
    assert_eq!((&release["spent"], &release["freshness"]), (&json!("4"), &json!("fresh")));

    let csv = server.get(Some(Role::Analyst), &format!("{path}&format=csv")).text;
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "t,value,count,variance,freshness,spent,seeded,suspicious"));
    assert!(lines[1].starts_with(&format!("{at},in,")) && lines[1].ends_with(",,fresh,4,false,"), "{}", lines[1]);
    // A count is no estimate, so nothing is asked of it.
    let query = server.post_json(Role::Analyst, "/v1/streams/rooms/query", &json!({ "value": "in" }));
    query.refuses(409, "no_estimate");
    let mut feed = server.feed("rooms", "", None);
    let (event, _, first) = feed.event().unwrap();
    assert_eq!(event, "release", "{first}");
    let values = server.get(None, "/v1/streams/rooms/values").json();
    assert_eq!(values, json!({ "count": 2, "names": ["in", "out"] }));
}

#[test]
fn a_crowd_of_devices_makes_a_release_suspicious() {
    let server = Server::start();
    server.create(&rooms("crr", &json!({ "population": 20 })));
    let (asked, _) = server.report("rooms", 0..250, 1, 7);
    let at = asked.question.timestamp;
    let path = format!("/v1/streams/rooms/releases?from={at}&to={}", at + 1);
    let both = |answer: &super::Answer| answer.json()["releases"].as_array().is_some_and(|all| all.len() == 2);
    let released = server.until(Role::Analyst, &path, both).json();
    let marks = |place: usize| released["releases"][place]["release"]["suspicious"].clone();
    assert_eq!((marks(0), marks(1)), (json!(["crowd"]), json!([])));
}

#[test]
fn a_batch_is_asked_for_at_its_end_and_released_symbol_by_symbol() {
    let server = Server::start();
    server.create(&rooms("batched", &json!({ "length": 2 })));
    let asked = server.question("rooms", 500);
    let at = asked.question.timestamp;
    assert_eq!((at % 2, &asked.question.view), (1, &View::Sequence { length: 2 }));
    let body = batch("rooms", &asked, 0..20, 1, 7);
    let sent = server.post(Some(Role::Ingest), "/v1/streams/rooms/reports", BATCH, &body);
    assert_eq!(sent.json()["accepted"], 20, "{}", sent.text);
    let path = format!("/v1/streams/rooms/releases?from={}&to={at}", at - 1);
    let both = |answer: &super::Answer| answer.json()["releases"].as_array().is_some_and(|all| all.len() == 2);
    let released = server.until(Role::Analyst, &path, both).json();
    for (place, timestamp) in [at - 1, at].into_iter().enumerate() {
        let record = &released["releases"][place];
        assert_eq!((&record["timestamp"], &record["release"]["reports"]), (&json!(timestamp), &json!(20)));
    }
    assert_eq!(released["releases"][0]["release"]["spent"], json!("4"));
    assert_eq!(released["releases"][1]["release"]["spent"], json!(null));
}

#[test]
fn declarations_of_sequences_that_no_device_can_follow_are_refused() {
    let server = Server::start();
    let refused = |mechanism: &str, more: Value, why: &str| {
        let answer = server.post_json(Role::Operator, "/v1/streams", &rooms(mechanism, &more));
        answer.refuses(400, "declaration");
        assert!(answer.text.contains(why), "{}", answer.text);
    };
    refused("crr", json!({ "population": null }), "population");
    refused("crr", json!({ "effort": "thorough" }), "spec.effort");
    refused("batched", json!({ "length": 4, "part": 2 }), "spec.part");
    refused("batched", json!({ "length": 20 }), "spec.length");
    refused("crr", json!({ "epsilon": 11 }), "epsilon");
    refused("crr", json!({ "model": { "prior": [1, 0], "transitions": [[1, 0]] } }), "spec.model");
    let seeded = json!({ "prior": [0.5, 0.5], "transitions": [[0.6, 0.4], [0.4, 0.6]], "seeded": true });
    refused("crr", json!({ "model": seeded }), "seeded");
    let mut baseline = rooms("rr", &json!({}));
    let spec = baseline["spec"].as_object_mut().unwrap();
    ["model", "population"].iter().for_each(|key| drop(spec.remove(*key)));
    let answer = server.post_json(Role::Operator, "/v1/streams", &baseline);
    answer.refuses(400, "declaration");
    assert!(answer.text.contains("uses no model"), "{}", answer.text);
}
