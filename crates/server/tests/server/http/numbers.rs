//! A stream of users' numbers: real devices report them, and the service releases their mean.

use ed25519_dalek::SigningKey;
use serde_json::json;
use tidegate::spec::ValuesSpec;
use tidegate_device::api::{BATCH, OpenQuestion};
use tidegate_device::enrolment::{SignedPolicy, StreamPolicy};
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_device::{AnswerError, Device, slot_of};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{QuestionError, SystemRandom, View};
use tidegate_server::http::auth::Role;

use super::Server;

const STREAM: &str = "rooms";
const DEVICES: u8 = 120;

/// The degrees that a device measures, around 20.
fn degrees(device: u8) -> String {
    format!("{:.1}", 18.0 + f64::from(device % 41) / 10.0)
}

/// What devices answer that are enrolled with a policy, as a batch.
fn answers(devices: &mut [Device], asked: &OpenQuestion, values: &[u32]) -> Vec<u8> {
    let (question, tag) = (&asked.question, StreamTag::of(STREAM));
    let mut random = SystemRandom::new().unwrap();
    let mut batch = BatchWriter::new(tag, question.timestamp, question.phase, asked.report_length);
    for (number, (device, value)) in (0_u8..).zip(devices.iter_mut().zip(values)) {
        match device.answer(question.timestamp, question, *value, &mut random) {
            Ok(report) => {
                let id = ReportId::of(&[number; 16], tag, question.timestamp, question.phase);
                batch.push(id, report.as_bytes()).unwrap();
            }
            Err(AnswerError::NotAsked) => {}
            Err(refused) => panic!("{refused}"),
        }
    }
    batch.write().unwrap()
}

fn enrolled(server: &Server) -> (StreamPolicy, Vec<Device>) {
    let path = format!("/v1/streams/{STREAM}/policy");
    let policy: SignedPolicy = serde_json::from_str(&server.get(None, &path).text).unwrap();
    let policy = policy.verified(&SigningKey::from_bytes(&[7; 32]).verifying_key()).unwrap().into_policy();
    let device = |number: u8| Device::new(policy.protects, slot_of(&policy.slot_key, &[number]));
    let devices = (0..DEVICES).map(device).collect();
    (policy, devices)
}

#[test]
fn devices_report_numbers_and_analysts_read_their_mean() {
    let server = Server::start();
    let declared = json!({ "name": STREAM, "tick": 3, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 12, "window": 2, "population": DEVICES,
        "domain": { "low": -10, "high": 40, "resolution": 0.1 },
        "queries": [{ "name": "mean" }],
        "monitors": [{ "name": "warm", "direction": "above", "start": 15 }],
    } });
    server.create(&declared);
    let (policy, mut devices) = enrolled(&server);
    // Devices of this stream answer nothing but its mean.
    assert_eq!((policy.oracle, policy.protects.domain), (Some(OracleKind::Piecewise), 501));
    let values = server.get(None, &format!("/v1/streams/{STREAM}/values")).json();
    let numbers = json!({ "low": -10.0, "high": 40.0, "resolution": 0.1 });
    assert_eq!(values, json!({ "count": 501, "names": null, "numbers": numbers }));
    let domain = ValuesSpec::Numbers(serde_json::from_value(values["numbers"].clone()).unwrap());
    let grid = domain.values_or_numbers().unwrap();
    let held: Vec<u32> = (0..DEVICES).map(|device| grid.find(&degrees(device)).unwrap()).collect();
    let truth = (0..DEVICES).map(|device| degrees(device).parse::<f64>().unwrap()).sum::<f64>() / f64::from(DEVICES);

    let path = format!("/v1/streams/{STREAM}/reports");
    let (mut asked, mut sent);
    loop {
        asked = server.question(STREAM, 1_000);
        sent = server.post(Some(Role::Ingest), &path, BATCH, &answers(&mut devices, &asked, &held));
        if sent.status != 409 {
            break;
        }
    }
    assert_eq!((sent.status, &sent.json()["accepted"]), (200, &json!(DEVICES)), "{}", sent.text);
    assert_eq!((&asked.question.view, asked.report_length), (&View::Mean, 1));
    // A question of another form is none that a device answers.
    let mut odd = asked.question.clone();
    odd.oracle = OracleKind::Grr;
    let refused = devices[0].answer(odd.timestamp, &odd, 0, &mut SystemRandom::new().unwrap());
    let malformed = AnswerError::Malformed(QuestionError::Form { oracle: OracleKind::Grr });
    let answered = AnswerError::Answered { timestamp: odd.timestamp, phase: odd.phase };
    assert!([Err(malformed), Err(answered)].contains(&refused));

    // The service goes on after a restart in the middle of a timestamp.
    let server = server.restart();
    let at = asked.question.timestamp;
    let path = format!("/v1/streams/{STREAM}/releases?from={at}&to={at}");
    let is_there = |answer: &super::Answer| answer.json()["releases"].as_array().is_some_and(|all| all.len() == 1);
    let released = server.until(Role::Analyst, &path, is_there).json();
    let release = &released["releases"][0]["release"];
    assert_eq!((&released["values"], &release["reports"]), (&json!(null), &json!(DEVICES)));
    let number = &release["statistic"]["number"];
    let (value, variance) = (number["value"].as_f64().unwrap(), number["variance"].as_f64().unwrap());
    assert!((value - truth).abs() < 6.0 * variance.sqrt() && variance.sqrt() < 1.5, "{number} {truth}");
    assert_eq!((&release["spent"], &release["suspicious"]), (&json!("6"), &json!([])));

    let csv = server.get(Some(Role::Analyst), &format!("{path}&format=csv")).text;
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "t,value,variance,freshness,spent,seeded,suspicious"));
    assert!(lines[1].starts_with(&format!("{at},")) && lines[1].ends_with(",fresh,6,false,"), "{}", lines[1]);

    let query = format!("/v1/streams/{STREAM}/query");
    let answer = server.post_json(Role::Analyst, &query, &json!({ "at": at })).json();
    assert_eq!((&answer["unit"], &answer["t"]), (&json!("mean"), &json!(at)));
    assert!((answer["value"].as_f64().unwrap() - value).abs() < 1e-3, "{answer}");
    assert!(answer["low"].as_f64() < answer["value"].as_f64() && answer["value"].as_f64() < answer["high"].as_f64());
    server.post_json(Role::Analyst, &query, &json!({ "value": "20" })).refuses(400, "query");
    let path = format!("/v1/streams/{STREAM}/answers?from={at}&to={at}");
    let said = server.get(Some(Role::Analyst), &path).json();
    let said: Vec<_> = said["answers"].as_array().unwrap().iter().map(|record| &record["answer"]).collect();
    assert!(said.iter().any(|answer| answer["query"] == json!("mean")), "{said:?}");
}

#[test]
fn numbers_that_no_device_can_report_are_refused() {
    let server = Server::start();
    let refused = |mechanism: &str, domain: serde_json::Value, why: &str| {
        let declared = json!({ "name": STREAM, "tick": 2, "spec": {
            "family": "local", "mechanism": mechanism, "epsilon": 1, "window": 2, "population": 9, "domain": domain,
        } });
        let answer = server.post_json(Role::Operator, "/v1/streams", &declared);
        answer.refuses(400, "declaration");
        assert!(answer.text.contains(why), "{}", answer.text);
    };
    refused("track", json!({ "low": 0, "high": 9 }), "releases no mean of numbers");
    refused("lpa", json!({ "low": 0, "high": 1, "resolution": "0.00000001" }), "larger resolution");
    refused("lpa", json!({ "low": 0, "high": 9, "missing": 3 }), "delete missing");
    refused("lpa", json!({ "low": 9, "high": 0 }), "ascending order");
}
