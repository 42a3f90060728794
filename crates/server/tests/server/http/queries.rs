//! Queries of analysts, from standing queries in memory.

use serde_json::{Value, json};
use tidegate_server::http::auth::Role;

use super::{Server, visits};

const QUERY: &str = "/v1/streams/visits/query";

/// Asks about the last release, and returns the timestamp of the answer.
///
/// The answer comes from memory. With a timestamp, the same question is answered by a replay of its period.
fn assert_equals_replay(server: &Server, mut question: Value) -> Option<u64> {
    let kept = server.post_json(Role::Analyst, QUERY, &question);
    if kept.status == 404 {
        return None;
    }
    assert_eq!(kept.status, 200, "{question}: {}", kept.text);
    let timestamp = kept.json()["t"].as_u64().unwrap();
    question["at"] = json!(timestamp);
    let replayed = server.post_json(Role::Analyst, QUERY, &question);
    assert_eq!((replayed.status, replayed.json()), (200, kept.json()), "{question}");
    Some(timestamp)
}

fn questions() -> [Value; 4] {
    [
        json!({ "value": "shop" }),
        json!({ "first": "work", "last": "out", "delta": 2, "unit": "counts" }),
        json!({ "value": "home", "delta": 3, "confidence": 0.9, "name": "long" }),
        json!({ "top": 2 }),
    ]
}

#[test]
fn answers_from_memory_equal_a_replay() {
    let mut server = Server::start();
    server.create(&visits());
    let mut last = [None; 4];
    // A question that was asked before the first release goes on from there.
    for round in 0..6 {
        let (asked, _) = server.report("visits", 0..60, u32::try_from(round % 4).unwrap(), round);
        let timestamp = asked.question.timestamp;
        let path = format!("/v1/streams/visits/releases?from={timestamp}");
        server.until(Role::Analyst, &path, |answer| {
            answer.json()["releases"].as_array().is_some_and(|releases| !releases.is_empty())
        });
        for (question, last) in questions().into_iter().zip(&mut last) {
            let answered = assert_equals_replay(&server, question);
            assert!(answered >= *last, "{answered:?} after {last:?}");
            *last = answered.or(*last);
        }
        // Two releases may come between two questions.
        if round == 3 {
            std::thread::sleep(std::time::Duration::from_millis(2_200));
        }
    }
    assert!(last.iter().all(Option::is_some), "{last:?}");
    server = server.restart();
    for (question, last) in questions().into_iter().zip(last) {
        assert!(assert_equals_replay(&server, question) >= last);
    }
}

/// With unary encoding and a small epsilon the estimates do not sum to one by themselves. The top of all values shows
/// every estimate.
#[test]
fn an_analyst_asks_for_a_repair_once() {
    let server = Server::start();
    let mut noisy = visits();
    (noisy["spec"]["epsilon"], noisy["spec"]["oracle"]) = (json!(1), json!("oue"));
    server.create(&noisy);
    let (asked, _) = server.report("visits", 0..60, 3, 1);
    let timestamp = asked.question.timestamp;
    let path = format!("/v1/streams/visits/releases?from={timestamp}");
    server.until(Role::Analyst, &path, |answer| {
        answer.json()["releases"].as_array().is_some_and(|releases| !releases.is_empty())
    });
    let values = |repair: &str| -> Vec<f64> {
        let question = json!({ "top": 4, "at": timestamp, "repair": repair });
        let answer = server.post_json(Role::Analyst, QUERY, &question);
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["top"].as_array().unwrap().iter().map(|each| each["value"].as_f64().unwrap()).collect()
    };
    assert!((values("none").iter().sum::<f64>() - 1.0).abs() > 1e-3, "{:?}", values("none"));
    for repair in ["consistent", "norm_sub"] {
        // Answers are rounded to a millionth of their standard deviation, which is below one.
        assert!((values(repair).iter().sum::<f64>() - 1.0).abs() < 4e-6, "{repair}");
    }
    assert!(values("norm_sub").iter().all(|value| *value >= 0.0));
    let plain = server.post_json(Role::Analyst, QUERY, &json!({ "top": 4, "at": timestamp }));
    let unrepaired = server.post_json(Role::Analyst, QUERY, &json!({ "top": 4, "at": timestamp, "repair": "none" }));
    assert_eq!(plain.json()["top"], unrepaired.json()["top"]);
    let unknown = server.post_json(Role::Analyst, QUERY, &json!({ "top": 4, "repair": "clip" }));
    assert_eq!(unknown.status, 400, "{}", unknown.text);
    assert!(unknown.text.contains("repair: expected one of none, consistent, norm_sub"), "{}", unknown.text);

    let mut repaired = visits();
    repaired["name"] = json!("repaired");
    repaired["spec"]["repair"] = json!("norm_sub");
    server.create(&repaired);
    let question = json!({ "top": 1, "repair": "consistent" });
    let twice = server.post_json(Role::Analyst, "/v1/streams/repaired/query", &question);
    assert_eq!(twice.status, 400, "{}", twice.text);
    assert!(twice.text.contains("are repaired already"), "{}", twice.text);
}
