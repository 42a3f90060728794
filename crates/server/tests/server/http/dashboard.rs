//! What the dashboard is made of: its files, and the routes that it alone needs.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::release::Release;
use tidegate_server::http::auth::Role;
use tidegate_server::http::{Advisor, WebhookSettings};

use super::{Server, load, rooms, visits};

/// Sends a GET request with a header more.
fn get_with(server: &Server, path: &str, header: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{header}\r\nconnection: close\r\n\r\n");
    server.raw(request.as_bytes(), Duration::from_secs(5))
}

#[test]
fn files_are_served_once_and_nothing_else_is_loaded() {
    let server = Server::start();
    for (path, media_type) in
        [("/", "text/html"), ("/app.js", "text/javascript"), ("/app.css", "text/css"), ("/icon.svg", "image/svg+xml")]
    {
        let file = server.get(None, path);
        assert_eq!((file.status, file.media_type()), (200, media_type), "{path}");
        assert_eq!(file.headers["cache-control"], "no-cache");
        assert!(!file.text.is_empty());
        let tag = &file.headers["etag"];
        let again = get_with(&server, path, &format!("if-none-match: \"other\", {tag}"));
        assert!(again.starts_with("HTTP/1.1 304 ") && again.ends_with("\r\n\r\n"), "{again}");
        assert!(get_with(&server, path, "if-none-match: \"other\"").starts_with("HTTP/1.1 200 "));
    }
    let page = server.get(None, "/");
    let policy = &page.headers["content-security-policy"];
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    // The policy forbids a script or a style within the page.
    for inline in ["<style", "style=", "onclick=", "javascript:", "://"] {
        assert!(!page.text.contains(inline), "{inline}");
    }
    // Relative, so that a proxy may serve the page below another path.
    assert!(page.text.contains("src=\"./app.js\"") && page.text.contains("href=\"./app.css\""), "{}", page.text);
    server.get(None, "/status.js").refuses(404, "no_path");
}

#[test]
fn a_token_is_told_what_it_may_do() {
    let server = Server::start();
    for role in Role::ALL {
        let told = server.get(Some(role), "/v1/token").json();
        assert_eq!(
            (&told["role"], &told["name"], &told["advises"]),
            (&json!(role), &json!(role.name()), &json!(false))
        );
        assert_eq!(told["clustered"], false);
    }
    server.get(None, "/v1/token").refuses(401, "token");
}

#[test]
fn a_service_alone_has_no_cluster() {
    let server = Server::start();
    server.get(Some(Role::Operator), "/v1/cluster").refuses(404, "no_cluster");
    server.get(Some(Role::Analyst), "/v1/cluster").refuses(403, "role");
}

/// A stream whose devices all hold a value, after its first releases.
fn busy() -> Server {
    let server = Server::start();
    for declaration in [visits(), rooms(), load()] {
        server.create(&declaration);
    }
    for seed in 0..3 {
        server.report("visits", 0..80, 2, seed);
    }
    server.until(Role::Analyst, "/v1/streams/visits/alarms", |answer| {
        answer.json()["alarms"].as_array().is_some_and(|alarms| !alarms.is_empty())
    });
    server
}

fn row(overview: &Value, name: &str) -> Value {
    overview["streams"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
}

#[test]
fn the_overview_shows_what_was_published() {
    let server = busy();
    let releases = server.get(Some(Role::Analyst), "/v1/streams/visits/releases").json();
    let overview = server
        .until(Role::Analyst, "/v1/overview", |answer| {
            // It follows the publications.
            row(&answer.json(), "visits")["last"]["timestamp"].as_u64().is_some()
        })
        .json();
    let (visits, load) = (row(&overview, "visits"), row(&overview, "load"));
    let first = releases["releases"][0]["timestamp"].as_u64().unwrap();
    assert!(visits["last"]["timestamp"].as_u64().unwrap() >= first);
    let through = visits["last"]["through"].as_u64().unwrap();
    assert_eq!(through, visits["last"]["timestamp"].as_u64().unwrap() + 1);
    assert_eq!((&visits["family"], &visits["mechanism"]), (&json!("local"), &json!("lbu")));
    assert_eq!((&visits["shows"], &load["shows"]), (&json!("frequencies"), &json!("number")));
    // When a curator publishes may depend on how many events it took.
    let released = |overview: &Value| !row(overview, "rooms")["last"].is_null();
    let overview = server.until(Role::Analyst, "/v1/overview", |answer| released(&answer.json())).json();
    let rooms = row(&overview, "rooms");
    assert_eq!((&rooms["status"], &rooms["lag"]), (&json!("running"), &Value::Null));
    assert!(visits["lag"].is_u64(), "{visits}");
    // Each timestamp spends half of the window's budget.
    assert_eq!(visits["budget_left"], json!(0.5));
    assert_eq!(load["budget_left"], Value::Null);
    assert!(visits["alarms"]["unacknowledged"].as_u64().unwrap() >= 1, "{visits}");
    assert_eq!((&load["alarms"], &load["last"]), (&Value::Null, &Value::Null));
    // Page by page, by name.
    let first = server.get(Some(Role::Analyst), "/v1/overview?limit=2").json();
    let names = |page: &Value| -> Vec<String> {
        page["streams"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(&first), &first["next"]), (vec!["load".to_owned(), "rooms".to_owned()], &json!("rooms")));
    let rest = server.get(Some(Role::Analyst), "/v1/overview?limit=2&after=rooms").json();
    assert_eq!((names(&rest), &rest["next"]), (vec!["visits".to_owned()], &Value::Null));
    server.get(Some(Role::Analyst), "/v1/overview?limit=0").refuses(400, "parameter");
    // After a restart, the store tells the same.
    let server = server.restart();
    let again = server.until(Role::Operator, "/v1/streams", |_| true);
    assert_eq!(again.status, 200);
}

#[test]
fn a_restarted_service_shows_the_last_release_and_alarms() {
    let server = busy();
    server.post(Some(Role::Operator), "/v1/streams/visits/pause", "", b"");
    let last = |server: &Server| {
        let released = server.get(Some(Role::Analyst), "/v1/streams/visits/releases?last=1").json();
        released["releases"][0]["timestamp"].clone()
    };
    server.until(Role::Analyst, "/v1/streams/visits", |answer| {
        let stream = answer.json();
        stream["open"].is_null() && stream["published"] == stream["version"]
    });
    let before = row(&server.get(Some(Role::Analyst), "/v1/overview").json(), "visits");
    assert_eq!(before["last"]["timestamp"], last(&server));
    assert_eq!(before["lag"], Value::Null, "it is paused");
    // Each service of these tests has other tokens.
    let server = server.restart();
    let after = server.until(Role::Analyst, "/v1/overview", |answer| !row(&answer.json(), "visits")["last"].is_null());
    let after = row(&after.json(), "visits");
    for key in ["last", "alarms", "budget_left", "status", "shows"] {
        assert_eq!(after[key], before[key], "{key}");
    }
}

#[test]
fn sparklines_are_of_the_most_frequent_value() {
    let server = busy();
    let ask = |body: &Value| server.post_json(Role::Analyst, "/v1/overview/sparklines", body);
    let made = ask(&json!({ "streams": ["visits", "load", "none"], "points": 2 })).json();
    let lines = made["sparklines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| &line["stream"]).collect::<Vec<_>>(), ["visits", "load"]);
    let visits = &lines[0];
    assert_eq!(visits["value"], "shop");
    let released = server.get(Some(Role::Analyst), "/v1/streams/visits/releases").json();
    let found = released["releases"].as_array().unwrap();
    for (place, timestamp) in visits["timestamps"].as_array().unwrap().iter().enumerate() {
        let release = found.iter().find(|release| release["timestamp"] == *timestamp).unwrap();
        let statistic = &release["release"]["statistic"]["histogram"];
        assert_eq!(visits["values"][place], statistic["frequencies"][2]);
        let variance = statistic["variances"][2].as_f64();
        let deviation = visits["deviations"][place].as_f64();
        assert_eq!(deviation.map(|deviation| (deviation * 1e9).round()), variance.map(|v| (v.sqrt() * 1e9).round()));
    }
    assert_eq!((&lines[1]["value"], &lines[1]["values"]), (&Value::Null, &json!([])));
    for wrong in [json!({ "streams": [] }), json!({ "streams": ["visits"], "points": 0 }), json!({ "what": 1 })] {
        ask(&wrong).refuses(400, "query");
    }
    let many: Vec<&str> = vec!["visits"; 51];
    ask(&json!({ "streams": many })).refuses(400, "query");
}

#[test]
fn releases_say_why_in_json_and_ndjson_but_not_in_csv() {
    let server = busy();
    let path = "/v1/streams/visits/releases";
    let listed = server.get(Some(Role::Analyst), path).json();
    let release = &listed["releases"][0]["release"];
    let why = &release["why"];
    assert_eq!((&why["reason"], &why["every"]), (&json!("schedule"), &json!(1)));
    let asked = &why["asked"][0];
    assert_eq!((&asked["purpose"], &asked["epsilon"]), (&json!("publish"), &json!("10")));
    assert_eq!((&asked["oracle"], &asked["share"]), (&json!("grr"), &json!(1.0)));
    assert_eq!(asked["reports"], release["reports"]);
    // It is read back as it was written.
    let read: Release = serde_json::from_value(release.clone()).unwrap();
    assert_eq!(serde_json::to_value(read.why).unwrap(), *why);
    let lines = server.get(Some(Role::Analyst), &format!("{path}?format=ndjson&limit=1")).text;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["why"], *why);
    assert!(lines[1..].iter().all(|line| line.get("why").is_none()));
    let table = server.get(Some(Role::Analyst), &format!("{path}?format=csv")).text;
    assert!(!table.contains("why") && !table.contains("schedule"), "{table}");
    let (_, _, event) = server.feed("visits", "", None).event().unwrap();
    assert_eq!(event["release"]["why"], *why);
}

#[test]
fn the_promise_and_the_budget_follow_from_releases() {
    let server = busy();
    let promise = server.get(Some(Role::Analyst), "/v1/streams/visits/promise?last=2").json();
    let words = ["trust", "unit", "relation", "division"].map(|key| promise[key].as_str().unwrap().to_owned());
    assert_eq!(words, ["device", "user", "window_of_one_user", "budget"]);
    let expected = json!([{ "class": null, "epsilon": "20", "window": 2, "seconds": 2 }]);
    assert_eq!(promise["guarantees"], expected);
    let budget = &promise["budget"][0];
    let history = budget["history"].as_array().unwrap();
    assert!(!history.is_empty() && history.len() <= 2, "{budget}");
    assert!(history.iter().all(|entry| entry["spent"] == 0.5), "{budget}");
    let last = history.last().unwrap();
    let next = budget["next"].as_array().unwrap();
    assert_eq!(next.iter().map(|next| next["left"].as_f64().unwrap()).collect::<Vec<_>>(), [0.5, 1.0]);
    assert_eq!(next[0]["timestamp"].as_u64(), last["timestamp"].as_u64().map(|at| at + 1));
    for (stream, relation, division) in
        [("rooms", "add_or_remove_one_user", "budget"), ("load", "one_reading", "timestamp")]
    {
        let promise = server.get(Some(Role::Analyst), &format!("/v1/streams/{stream}/promise")).json();
        assert_eq!((&promise["relation"], &promise["division"]), (&json!(relation), &json!(division)));
        assert_eq!(promise["trust"], "curator");
    }
    let classes = server.post_json(Role::Operator, "/v1/streams", &super::classes::classes());
    assert_eq!(classes.status, 201);
    let promise = server.get(Some(Role::Analyst), "/v1/streams/classes/promise").json();
    let names: Vec<_> = promise["budget"].as_array().unwrap().iter().map(|account| &account["class"]).collect();
    assert_eq!(names, ["high", "low"]);
}

/// Two operators change the same stream: the second one hears that it has changed.
#[test]
fn a_declaration_that_has_changed_is_not_overwritten() {
    let server = Server::start();
    server.create(&visits());
    let path = "/v1/streams/visits/declaration";
    let read = server.get(Some(Role::Operator), path);
    let tag = read.headers["etag"].clone();
    server.get(Some(Role::Analyst), path).refuses(403, "role");
    let post = |declaration: &Value, tag: &str| {
        let body = declaration.to_string();
        let request = format!(
            "POST /v1/streams HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             {tag}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            server.token(Role::Operator),
            body.len()
        );
        server.raw(request.as_bytes(), Duration::from_secs(5))
    };
    let send = |declaration: &Value, tag: &str| post(declaration, &format!("if-match: {tag}"));
    let mut changed = read.json();
    changed["spec"]["monitors"][0]["start"] = json!(0.75);
    let first = send(&changed, &tag);
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    let mut other = read.json();
    other["spec"].as_object_mut().unwrap().remove("queries");
    let second = send(&other, &tag);
    assert!(second.starts_with("HTTP/1.1 412 ") && second.contains("\"stale\""), "{second}");
    // The second one reads again, and sees what the first has saved.
    let read = server.get(Some(Role::Operator), path);
    assert_eq!(read.json(), changed);
    let tag = &read.headers["etag"];
    assert!(first.contains(&format!("etag: {tag}")), "{first}");
    other["spec"]["monitors"] = changed["spec"]["monitors"].clone();
    assert!(send(&other, tag).starts_with("HTTP/1.1 200 "));
    assert_eq!(server.get(Some(Role::Operator), path).json(), other);
    // Nor is a stream made where one was to be replaced.
    let absent = json!({ "name": "absent", "tick": 1, "spec": visits()["spec"] });
    assert!(send(&absent, tag).starts_with("HTTP/1.1 412 "));
    server.get(Some(Role::Operator), "/v1/streams/absent").refuses(404, "no_stream");
    assert!(send(&other, "nonsense").starts_with("HTTP/1.1 400 "));
    // A new stream replaces none, also not one with the same guarantee.
    let new = |declaration: &Value| post(declaration, "if-none-match: *");
    let refused = new(&changed);
    assert!(refused.starts_with("HTTP/1.1 412 ") && refused.contains("\"exists\""), "{refused}");
    assert_eq!(server.get(Some(Role::Operator), path).json(), other);
    assert!(new(&absent).starts_with("HTTP/1.1 201 "));
    assert!(new(&absent).starts_with("HTTP/1.1 412 "));
    assert!(post(&absent, "if-none-match: \"a\"").starts_with("HTTP/1.1 400 "));
}

#[test]
fn an_operator_acknowledges_an_alarm_once() {
    let server = busy();
    let path = "/v1/streams/visits/alarms";
    let alarms = server.get(Some(Role::Analyst), path).json();
    let alarm = alarms["alarms"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&alarm["monitor"], &alarm["acknowledged"]), (&json!("crowd"), &Value::Null));
    let number = alarm["number"].as_u64().unwrap();
    let answers = server.get(Some(Role::Analyst), "/v1/streams/visits/answers").json();
    let raised = answers["answers"].as_array().unwrap().iter().find(|answer| answer["number"] == number).unwrap();
    assert_eq!((&raised["answer"]["event"], &raised["timestamp"]), (&json!("started"), &alarm["timestamp"]));
    let acknowledge = format!("{path}/{number}/acknowledge");
    server.post(Some(Role::Analyst), &acknowledge, "", b"").refuses(403, "role");
    let done = server.post(Some(Role::Operator), &acknowledge, "", b"");
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(done.json()["acknowledged"]["by"], "operator");
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(server.post(Some(Role::Operator), &acknowledge, "", b"").json(), done.json());
    for nothing in ["0", "999999", "x", "18446744073709551615"] {
        let path = format!("{path}/{nothing}/acknowledge");
        server.post(Some(Role::Operator), &path, "", b"").refuses(404, "no_alarm");
    }
    // An answer of a query is no alarm.
    let answer = answers["answers"].as_array().unwrap().iter().find(|answer| answer["answer"]["query"].is_string());
    let path_of_answer = format!("{path}/{}/acknowledge", answer.unwrap()["number"]);
    server.post(Some(Role::Operator), &path_of_answer, "", b"").refuses(404, "no_alarm");
    // It outlives the service.
    let server = server.restart();
    let again = server.get(Some(Role::Analyst), &format!("{path}?limit=1000")).json();
    let found = again["alarms"].as_array().unwrap().iter().find(|found| found["number"] == number).unwrap();
    assert_eq!(found["acknowledged"], done.json()["acknowledged"]);
}

#[test]
fn operations_are_the_metrics_in_json() {
    let server = busy();
    server.post(Some(Role::Ingest), "/v1/streams/visits/reports", "application/json", b"{").refuses(400, "malformed");
    let made = server.get(Some(Role::Analyst), "/v1/operations").json();
    assert_eq!(made["streams"]["running"], 3);
    assert!(made["reports"]["accepted"].as_u64().unwrap() >= 80, "{made}");
    assert_eq!(made["reports"]["refused"]["malformed"], 1);
    let of_visits = &made["by_stream"][0];
    assert_eq!((&of_visits["stream"], &of_visits["refused"]["malformed"]), (&json!("visits"), &json!(1)));
    assert_eq!(made["slowest"]["stream"], "visits");
    assert!(made["releases"].as_u64().unwrap() >= 1 && made["store_bytes"].as_u64().unwrap() > 0, "{made}");
    // Of a curated stream there is only what its releases tell.
    let streams: Vec<_> = made["by_stream"].as_array().unwrap().iter().map(|stream| &stream["stream"]).collect();
    assert!(!streams.contains(&&json!("rooms")), "{made}");
}

#[test]
fn advice_is_given_by_one_advisor_at_a_time() {
    let asked = json!({ "declaration": { "name": "x" } });
    let ask = |server: &Server| server.post_json(Role::Operator, "/v1/advise", &asked);
    ask(&Server::start()).refuses(404, "no_advice");
    let server = Server::start_with(WebhookSettings::default(), |settings| {
        settings.advisor = Some(Advisor::new(|asked| {
            thread::sleep(Duration::from_millis(700));
            match asked["declaration"]["name"].as_str() {
                Some("x") => Ok(json!({ "ranking": [] })),
                _ => Err("name: expected x".to_owned()),
            }
        }));
    });
    assert_eq!(server.get(Some(Role::Operator), "/v1/token").json()["advises"], true);
    assert_eq!(server.get(Some(Role::Analyst), "/v1/token").json()["advises"], false);
    server.post_json(Role::Analyst, "/v1/advise", &asked).refuses(403, "role");
    let other = json!({ "declaration": {} });
    server.post_json(Role::Operator, "/v1/advise", &other).refuses(400, "advice");
    thread::scope(|scope| {
        let first = scope.spawn(|| ask(&server));
        thread::sleep(Duration::from_millis(250));
        let second = ask(&server);
        second.refuses(503, "busy");
        assert!(second.headers.contains_key("retry-after"));
        assert_eq!(first.join().unwrap().status, 200);
    });
    assert_eq!(ask(&server).json(), json!({ "ranking": [] }));
}
