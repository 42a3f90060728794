//! The dashboard's part of `tidegate serve`: its page, and advice by the laboratory.

use serde_json::{Value, json};

use crate::service::{Home, Serving};

fn ask(serving: &Serving, token: &str, path: &str, body: &Value) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = agent.post(format!("{}{path}", serving.url)).header("authorization", format!("Bearer {token}"));
    let mut answer = request.header("content-type", "application/json").send(body.to_string()).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn advice_becomes_a_stream() {
    let home = Home::new();
    let serving = home.serve();
    let page = ureq::get(&serving.url).call().unwrap().body_mut().read_to_string().unwrap();
    assert!(page.contains("/app.js"), "{page}");
    let operator = home.token("operator");
    let advise = |asked: &Value| ask(&serving, operator, "/v1/advise", asked);
    let spec = json!({ "family": "local", "epsilon": 1, "window": 6, "domain": ["home", "work", "shop"],
        "population": 5_000, "monitors": [{ "name": "crowd", "value": "shop", "direction": "above", "start": 0.5 }] });
    let asked = json!({ "declaration": { "name": "visits", "tick": 3_600, "spec": spec } });
    let (status, advice) = advise(&asked);
    assert_eq!(status, 200, "{advice}");
    let ranking = advice["ranking"].as_array().unwrap();
    assert!(ranking.len() > 3 && ranking.iter().all(|entry| entry["low"].as_f64() <= entry["high"].as_f64()));
    let declaration = &advice["declaration"];
    let last = |name: &Value| name.as_str().unwrap().rsplit('.').next().unwrap().to_owned();
    assert_eq!(last(&declaration["spec"]["mechanism"]), last(&advice["mechanism"]));
    assert_eq!(
        (&declaration["name"], &declaration["spec"]["monitors"][0]["name"]),
        (&json!("visits"), &json!("crowd"))
    );
    // The text of the configuration says the same.
    let table: toml::Table = advice["toml"].as_str().unwrap().parse().unwrap();
    assert_eq!(serde_json::to_value(&table["streams"][0]).unwrap(), *declaration);
    // A mechanism that is named stays.
    let mut named = asked.clone();
    named["declaration"]["spec"]["mechanism"] = json!("lpa");
    let (_, advice_of_named) = advise(&named);
    assert_eq!(last(&advice_of_named["declaration"]["spec"]["mechanism"]), "lpa");
    // It becomes a stream as it is.
    let (status, created) = ask(&serving, operator, "/v1/streams", declaration);
    assert_eq!(status, 201, "{created}");
    // What cannot be advised on is said.
    for (change, said) in [
        (json!({ "family": "central", "epsilon": 1, "window": 6, "domain": 4 }), "population"),
        (json!({ "epsilon": 1 }), "spec.family"),
        (json!({ "family": "local", "epsilon": 1, "window": 6, "domain": 5_000, "population": 10 }), "1024"),
        (json!({ "family": "local", "epsilon": "x", "window": 6, "domain": 5, "population": 10 }), "epsilon"),
    ] {
        let (status, problem) = advise(&json!({ "declaration": { "name": "a", "tick": 1, "spec": change } }));
        let message = problem["message"].as_str().unwrap();
        assert!(status == 400 && problem["error"] == "advice" && message.contains(said), "{said}: {problem}");
    }
    serving.kill();
}

#[test]
fn numbers_and_counts_of_a_curator_are_advised_on() {
    let home = Home::new();
    let serving = home.serve();
    for (spec, population) in [
        (json!({ "family": "central", "epsilon": 1, "window": 6, "domain": 4 }), json!(900)),
        (
            json!({ "family": "scalar", "epsilon": 1, "domain": { "low": 0, "high": 100 }, "protects": "reading" }),
            Value::Null,
        ),
    ] {
        let asked = json!({ "declaration": { "name": "a", "tick": 60, "spec": spec }, "population": population });
        let (status, advice) = ask(&serving, home.token("operator"), "/v1/advise", &asked);
        assert_eq!(status, 200, "{advice}");
        assert!(advice["declaration"]["spec"]["mechanism"].is_string(), "{advice}");
    }
    serving.kill();
}
