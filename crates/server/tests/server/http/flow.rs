//! The way from a declaration to an analyst's answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tidegate_device::absence::SignedTime;
use tidegate_device::api::{BATCH, Receipt};
use tidegate_device::enrolment::SignedPolicy;
use tidegate_device::wire::{Batch, BatchText};
use tidegate_server::http::auth::{Role, Secret};
use tidegate_server::http::{SIGNATURE, WebhookSettings};
use tidegate_table::time::Clock;

use super::{PATIENCE, Server, batch, load, local_webhooks, rooms, visits};

const REPORTS: &str = "/v1/streams/visits/reports";

fn receipt(text: &str) -> Receipt {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn reports_become_a_release_in_every_format() {
    let server = Server::start();
    // Three batches come within one tick.
    let visits = || {
        let mut visits = visits();
        visits["tick"] = json!(5);
        visits
    };
    server.create(&visits());
    // The same again is no new stream; another guarantee is refused.
    assert_eq!(server.post_json(Role::Operator, "/v1/streams", &visits()).status, 200);
    let mut other = visits();
    other["spec"]["epsilon"] = json!(19);
    server.post_json(Role::Operator, "/v1/streams", &other).refuses(409, "changed");
    // With the length of a timestamp, releases have times.
    let mut timed = visits();
    timed["spec"]["every"] = json!("2s");
    server.post_json(Role::Operator, "/v1/streams", &timed).refuses(400, "declaration");
    timed["spec"]["every"] = json!("5s");
    assert_eq!(server.post_json(Role::Operator, "/v1/streams", &timed).status, 200);

    // What a device needs to enrol.
    let policy: SignedPolicy = serde_json::from_str(&server.get(None, "/v1/streams/visits/policy").text).unwrap();
    let key = server.get(None, "/v1/operator-key").json();
    let operator = SigningKey::from_bytes(&[7; 32]).verifying_key();
    let digits: String = operator.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(key, json!({ "algorithm": "ed25519", "key": digits }));
    policy.verified(&operator).unwrap();
    let nonce = "0123456789abcdef".repeat(2);
    let said: SignedTime = serde_json::from_str(&server.get(None, &format!("/v1/time?nonce={nonce}")).text).unwrap();
    let again = SignedTime::sign(&nonce, said.time, &SigningKey::from_bytes(&[7; 32])).unwrap();
    assert_eq!(said, again);
    assert!(said.time.abs_diff(tidegate_server::service::now() / 1_000) <= 5, "{}", said.time);
    for wrong in ["", "?nonce=", "?nonce=0123", "?nonce=zz23456789abcdef0123456789abcdef"] {
        assert_eq!(server.get(None, &format!("/v1/time{wrong}")).status, 400, "{wrong}");
    }
    let names = json!(["home", "work", "shop", "out"]);
    assert_eq!(server.get(None, "/v1/streams/visits/values").json(), json!({ "count": 4, "names": names }));

    let asked = server.question("visits", 2_000);
    let (ingest, timestamp) = (Some(Role::Ingest), asked.question.timestamp);
    let bytes = batch("visits", &asked, 0..60, 2, 1);
    let first = server.post(ingest, REPORTS, BATCH, &bytes);
    assert_eq!(receipt(&first.text), Receipt { accepted: 60, ..Receipt::default() });
    // A retry is not counted again, in either form.
    let text = BatchText::of(&Batch::parse(&bytes).unwrap(), "visits").unwrap();
    let again = server.post_json(Role::Ingest, REPORTS, &serde_json::to_value(&text).unwrap());
    assert_eq!(receipt(&again.text), Receipt { repeated: 60, ..Receipt::default() });
    // Other values under the same identities are refused.
    let other = server.post(ingest, REPORTS, BATCH, &batch("visits", &asked, 50..70, 0, 2));
    assert_eq!(receipt(&other.text), Receipt { accepted: 10, conflicting: 10, ..Receipt::default() });

    let path = format!("/v1/streams/visits/releases?from={timestamp}&to={timestamp}");
    let released = server.until(Role::Analyst, &path, |answer| {
        answer.json()["releases"].as_array().is_some_and(|releases| !releases.is_empty())
    });
    assert_eq!(released.json()["values"], names);
    let release = &released.json()["releases"][0];
    assert_eq!((&release["timestamp"], &release["release"]["reports"]), (&json!(timestamp), &json!(70)));
    let time = Clock::of_ticks("5s".parse().unwrap(), 0).time(timestamp).unwrap();
    assert_eq!(release["time"], json!(time));
    assert_eq!((&release["release"]["spent"], &release["release"]["seeded"]), (&json!("10"), &json!(false)));
    let frequency = release["release"]["statistic"]["histogram"]["frequencies"][2].as_f64().unwrap();
    assert!((frequency - 60.0 / 70.0).abs() < 0.05, "{frequency}");
    server.post(ingest, REPORTS, BATCH, &bytes).refuses(409, "closed");

    let csv = server.get(Some(Role::Analyst), &format!("{path}&format=csv"));
    assert_eq!(csv.media_type(), "text/csv");
    let lines: Vec<_> = csv.text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, "t,time,value,frequency,variance,freshness,spent,seeded,suspicious"));
    assert!(lines[3].starts_with(&format!("{timestamp},{time},shop,")), "{}", lines[3]);
    assert!(lines[3].ends_with(",fresh,10,false,"), "{}", lines[3]);
    let ndjson = server.get(Some(Role::Analyst), &format!("{path}&format=ndjson"));
    assert_eq!((ndjson.media_type(), ndjson.text.lines().count()), ("application/x-ndjson", 4));
    let row: Value = serde_json::from_str(ndjson.text.lines().nth(2).unwrap()).unwrap();
    assert_eq!((&row["value"], &row["frequency"]), (&json!("shop"), &json!(frequency)));

    // What the declared query said, and the same question asked now.
    let answers =
        server.get(Some(Role::Analyst), &format!("/v1/streams/visits/answers?from={timestamp}&to={timestamp}"));
    let answers = answers.json()["answers"].as_array().unwrap().clone();
    let named = |key: &str, name: &str| {
        answers.iter().map(|record| &record["answer"]).find(|answer| answer[key] == json!(name)).cloned()
    };
    let asked_now = json!({ "first": "work", "last": "out", "unit": "counts", "at": timestamp, "name": "away" });
    let answer = server.post_json(Role::Analyst, "/v1/streams/visits/query", &asked_now);
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(Some(answer.json()), named("query", "away"));
    assert!(answer.json()["low"].as_f64() < answer.json()["high"].as_f64());
    let most = named("query", "most").unwrap();
    assert_eq!(most["top"][0]["of"], json!("shop"));
    assert_eq!(named("monitor", "crowd").unwrap()["event"], json!("started"));
    let latest = server.post_json(Role::Analyst, "/v1/streams/visits/query", &json!({ "value": "shop" }));
    assert!(latest.json()["t"].as_u64() >= Some(timestamp), "{}", latest.text);
    let long = json!({ "value": "shop", "delta": 1_000, "at": timestamp });
    server.post_json(Role::Analyst, "/v1/streams/visits/query", &long).refuses(404, "not_released");

    let metrics = server.get(Some(Role::Analyst), "/metrics").text;
    for line in [
        "tidegate_reports_accepted_total{stream=\"visits\"} 70",
        "tidegate_reports_repeated_total{stream=\"visits\"} 60",
        "tidegate_reports_refused_total{stream=\"visits\",reason=\"conflicting\"} 10",
        "tidegate_reports_refused_total{stream=\"visits\",reason=\"closed\"} 1",
        "tidegate_budget_left{stream=\"visits\"}",
        "tidegate_tick_lag_seconds{stream=\"visits\"}",
        "route=\"/v1/streams/{stream}/reports\",status=\"409\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(Role::ALL.iter().all(|role| !metrics.contains(server.token(*role))));
}

#[test]
fn a_feed_resumes_and_misses_nothing() {
    let mut server = Server::start();
    server.create(&visits());
    server.report("visits", 0..60, 2, 1);
    let mut feed = server.feed("visits", "", None);
    let mut seen = Vec::new();
    // Until the monitor has spoken; the first tick may have been over before anybody reported.
    while seen.len() < 6 || !seen.iter().any(|(kind, ..): &(String, String, Value)| kind == "monitor") {
        assert!(seen.len() < 40, "{seen:?}");
        seen.push(feed.event().expect("the feed has an event each second"));
    }
    assert_eq!(seen[0].0, "release", "{seen:?}");
    assert!(seen.iter().any(|(kind, ..)| kind == "answer"));
    // From any place on, the rest is the same.
    for (place, (_, id, _)) in seen.iter().enumerate().take(seen.len() - 1) {
        let mut again = server.feed("visits", "", Some(id));
        assert_eq!(again.event().as_ref(), seen.get(place + 1));
    }
    // From now on, there is nothing old.
    let last = seen.last().unwrap().2["version"].as_u64().unwrap();
    let (_, _, data) = server.feed("visits", "?since=now", None).event().unwrap();
    assert!(data["version"].as_u64().unwrap() > last, "{data} after {last}");
    // It ends when the service does, and does not hold it up.
    let began = std::time::Instant::now();
    server.stop().unwrap();
    while feed.event().is_some() {}
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn long_polls_wait_for_new_questions() {
    let mut server = Server::start();
    server.create(&visits());
    server.question("visits", 0);
    let path = "/v1/streams/visits/questions";
    let round = server.get(None, path).json()["round"].as_u64().unwrap();
    let began = std::time::Instant::now();
    let later = server.get(None, &format!("{path}?after={round}&wait=30")).json();
    assert!(later["round"].as_u64().unwrap() > round);
    assert!(began.elapsed() < Duration::from_secs(25));
    // An unknown round is answered at once, and a wait without a change ends in time.
    assert_eq!(server.get(None, &format!("{path}?after=999999&wait=30")).status, 200);
    server.post(Some(Role::Operator), "/v1/streams/visits/pause", "", b"");
    // Nothing changes once the last tick is published.
    server.until(Role::Analyst, "/v1/streams/visits", |answer| {
        let stream = answer.json();
        stream["open"].is_null() && stream["version"] == stream["published"]
    });
    let paused = server.get(None, path).json();
    assert_eq!(paused["questions"], json!([]));
    let round = paused["round"].as_u64().unwrap();
    let (began, path) = (std::time::Instant::now(), format!("{path}?after={round}&wait=1"));
    assert_eq!(server.get(None, &path).json()["round"], json!(round));
    assert!(began.elapsed() >= Duration::from_secs(1));
    // A stop of the service ends waiting requests.
    let (address, path) = (server.address, path.replace("wait=1", "wait=60"));
    let waiting = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    thread::sleep(Duration::from_millis(300));
    let began = std::time::Instant::now();
    server.stop().unwrap();
    assert!(waiting.join().unwrap().starts_with("HTTP/1.1 200"));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn events_become_a_release() {
    let server = Server::start();
    server.create(&rooms());
    server.create(&load());
    let open = |stream: &str| {
        server.until(Role::Analyst, &format!("/v1/streams/{stream}"), |answer| answer.json()["open"].is_u64());
    };
    let path = "/v1/streams/rooms/events";
    let lines: String = (0..40).map(|user| format!("{{\"user\": \"u{user}\", \"value\": \"in\"}}\n")).collect();
    let answer = server.send_events(path, "application/x-ndjson", lines.as_bytes());
    assert_eq!((answer.status, answer.json()), (200, json!({ "taken": 40 })), "{}", answer.text);
    let unnamed = json!([{ "user": "u50", "value": "out" }, { "value": "attic" }]);
    let unnamed = server.send_events(path, "application/json", unnamed.to_string().as_bytes());
    unnamed.refuses(400, "not_taken");
    assert_eq!((&unnamed.json()["position"], &unnamed.json()["taken"]), (&json!(1), &json!(1)));
    assert!(!unnamed.text.contains("attic") && !unnamed.text.contains("u50"));
    open("load");
    // The open tick may change before the event arrives; then it is refused and sent again.
    let path = loop {
        let timestamp = server.get(Some(Role::Analyst), "/v1/streams/load").json()["open"].as_u64();
        let path = format!("/v1/streams/load/events?timestamp={}", timestamp.unwrap_or(0));
        let one = server.post_json(Role::Ingest, &path, &json!({ "value": 42 }));
        if one.status == 200 {
            assert_eq!(one.json(), json!({ "taken": 1 }));
            break path;
        }
        one.refuses(409, "closed");
    };
    assert_eq!(server.post_json(Role::Ingest, &path, &json!({ "value": 43 })).status, 409);
    server.post_json(Role::Ingest, "/v1/streams/load/events", &json!({ "value": 43 })).refuses(409, "closed");
    let counts = |answer: &super::Answer| {
        let releases = answer.json()["releases"].as_array().unwrap().clone();
        releases.iter().any(|record| {
            record["release"]["statistic"]["counts"]["counts"][0]
                .as_f64()
                .is_some_and(|count| (count - 40.0).abs() < 5.0)
        })
    };
    server.until(Role::Analyst, "/v1/streams/rooms/releases", counts);
    // Laplace noise of scale 5: it is off by 75 with probability 3e-7.
    let number = |answer: &super::Answer| {
        let text = &answer.text;
        let values = text.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok());
        text.starts_with("t,value,variance,freshness,spent,seeded\n")
            && values.into_iter().any(|value| (value - 42.0).abs() < 75.0)
    };
    server.until(Role::Analyst, "/v1/streams/load/releases?format=csv", number);
    // A number has no values that could be asked about.
    server.post_json(Role::Analyst, "/v1/streams/load/query", &json!({ "value": 1 })).refuses(409, "no_values");
    server.get(None, "/v1/streams/rooms/policy").refuses(404, "no_policy");
}

#[test]
fn a_retired_stream_stays_retired() {
    let server = Server::start();
    server.create(&visits());
    let post = |what: &str| server.post(Some(Role::Operator), &format!("/v1/streams/visits/{what}"), "", b"");
    for (what, status) in [("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("retire", "retired")] {
        let answer = post(what);
        assert_eq!((answer.status, &answer.json()["status"]), (200, &json!(status)), "{}", answer.text);
    }
    post("resume").refuses(409, "retired");
    let listed = server.get(Some(Role::Analyst), "/v1/streams").json();
    assert_eq!((&listed["streams"][0]["name"], &listed["streams"][0]["status"]), (&json!("visits"), &json!("retired")));
}

#[test]
fn webhooks_get_monitor_answers_with_retries() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?secret=abc", receiver.local_addr().unwrap());
    let (sender, messages) = channel();
    thread::spawn(move || {
        for (attempt, connection) in receiver.incoming().enumerate() {
            let mut reader = BufReader::new(connection.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let status = ["500 No", "302 Elsewhere\r\nlocation: /other"].get(attempt).copied().unwrap_or("204 Yes");
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send((head, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    let settings = WebhookSettings {
        secret: Some(Secret::new("shared".to_owned())),
        pause: Duration::from_millis(100),
        ..local_webhooks()
    };
    let server = Server::start_with(settings, |_| {});
    let mut declaration = visits();
    declaration["webhooks"] = json!([url]);
    server.create(&declaration);
    // Only an operator sees where messages go.
    assert!(server.get(Some(Role::Operator), "/v1/streams/visits").text.contains("secret=abc"));
    assert!(!server.get(Some(Role::Analyst), "/v1/streams/visits").text.contains("secret=abc"));
    server.report("visits", 0..60, 2, 1);
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(messages.recv_timeout(PATIENCE).unwrap());
    }
    let (head, body) = &received[2];
    assert!(received.iter().all(|(_, other)| other == body), "a message is tried again as it is");
    assert!(received.iter().all(|(head, _)| head.starts_with("POST /hook?secret=abc ")), "redirects are not followed");
    let message: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&message["kind"], &message["stream"]), (&json!("monitor"), &json!("visits")));
    assert_eq!((&message["said"]["monitor"], &message["said"]["event"]), (&json!("crowd"), &json!("started")));
    let signature = head.lines().find_map(|line| line.strip_prefix(&format!("{SIGNATURE}: "))).unwrap();
    let (time, code) = signature.strip_prefix("t=").and_then(|signed| signed.split_once(",v1=")).unwrap();
    let age = tidegate_server::service::now() / 1_000 - time.parse::<u64>().unwrap();
    assert!(age < 60 && code.len() == 64, "{signature}");
    let metrics = server.until(Role::Analyst, "/metrics", |answer| {
        answer.text.contains("tidegate_webhooks_total{outcome=\"delivered\"} 1")
    });
    assert!(metrics.text.contains("tidegate_webhooks_total{outcome=\"retried\"} 2"), "{}", metrics.text);
}

#[test]
fn detects_a_cohort_of_poisoners() {
    let (listener, (sender, messages)) = (TcpListener::bind("127.0.0.1:0").unwrap(), channel());
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut text = vec![0; 4_096];
        let count = connection.read(&mut text).unwrap();
        let _ = sender.send(String::from_utf8_lossy(&text[..count]).into_owned());
    });
    let server = Server::start();
    // All ones where honest devices have few, and more devices than there should be.
    let declaration = json!({ "name": "bits", "tick": 3, "webhooks": [url], "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 4, "window": 2, "population": 20,
        "oracle": "oue", "domain": 256,
    } });
    server.create(&declaration);
    let asked = server.question("bits", 1_000);
    let mut all_ones = batch("bits", &asked, 0..5, 0, 3);
    let reports = all_ones.len() - 5 * asked.report_length;
    all_ones[reports..].fill(0xff);
    let refused = server.post(Some(Role::Ingest), "/v1/streams/bits/reports", BATCH, &all_ones);
    assert_eq!(receipt(&refused.text), Receipt { implausible: 5, ..Receipt::default() });
    let crowd =
        server.post(Some(Role::Ingest), "/v1/streams/bits/reports", BATCH, &batch("bits", &asked, 5..255, 0, 4));
    assert_eq!(receipt(&crowd.text).accepted, 250);
    let metrics = server.until(Role::Analyst, "/metrics", |answer| {
        answer.text.contains("tidegate_suspicious_total{stream=\"bits\",kind=\"crowd\"} 1")
    });
    let implausible = "tidegate_reports_refused_total{stream=\"bits\",reason=\"implausible\"} 5";
    assert!(metrics.text.contains(implausible), "{}", metrics.text);
    let message = messages.recv_timeout(PATIENCE).unwrap();
    assert!(message.starts_with("POST / "), "{message}");
    // The release says so, in every format and in the feed; the next one, of nobody, does not.
    let releases = "/v1/streams/bits/releases";
    let at = asked.question.timestamp;
    let from = format!("{releases}?from={at}&to={}", at + 1);
    let found = server.until(Role::Analyst, &from, |answer| {
        answer.json()["releases"].as_array().is_some_and(|releases| releases.len() > 1)
    });
    let marks = |place: usize| found.json()["releases"][place]["release"]["suspicious"].clone();
    assert_eq!((marks(0), marks(1)), (json!(["crowd"]), json!([])));
    let csv = server.get(Some(Role::Analyst), &format!("{from}&format=csv")).text;
    let ends = |ending: &str| csv.lines().filter(|line| line.ends_with(ending)).count();
    assert_eq!((ends(",seeded,suspicious"), ends(",false,crowd"), ends(",false,")), (1, 256, 256), "{csv}");
    let lines = server.get(Some(Role::Analyst), &format!("{from}&format=ndjson")).text;
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["suspicious"], "crowd");
    let mut feed = server.feed("bits", "", None);
    let (kind, _, data) = std::iter::from_fn(|| feed.event()).find(|(_, _, data)| data["timestamp"] == at).unwrap();
    assert_eq!((kind.as_str(), &data["release"]["suspicious"]), ("release", &json!(["crowd"])));
}
