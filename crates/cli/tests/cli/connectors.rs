//! Connectors to a real NATS server: services are killed at random moments, and each number arrives once, in order.

use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use serde_json::Value;
use tidegate_kernel::{Randomness as _, SeededRandom};
use tidegate_log::testing::Brokers;
use tokio::runtime::Runtime;

use crate::assert_refused;
use crate::crash::killing;
use crate::operations::{ask, await_ready};
use crate::service::Home;

/// A curated stream whose noise starts and ends an event again and again, with an answer at each timestamp.
fn rooms(retention: &str) -> String {
    format!(
        "\n[[streams]]\nname = \"rooms\"\ntick = 1\n{retention}[streams.spec]\nfamily = \"central\"\n\
         mechanism = \"uniform\"\nepsilon = 0.1\nwindow = 2\ndomain = [\"in\", \"out\"]\n\
         [[streams.spec.queries]]\nname = \"all\"\nfirst = \"in\"\nlast = \"out\"\n\
         [[streams.spec.monitors]]\nname = \"noise\"\nvalue = \"in\"\nunit = \"counts\"\ndirection = \"above\"\n\
         start = 0.0\n"
    )
}

fn connector(brokers: &Brokers, more: &str) -> String {
    let servers = brokers.urls();
    format!("\n[[connectors]]\nname = \"out\"\n{more}[connectors.nats]\nservers = {servers:?}\nreplicas = 1\n")
}

/// Reads all messages of a stream of JetStream: subject, number in the header, and body.
fn messages(brokers: &Brokers) -> Vec<(String, u64, Value)> {
    Runtime::new().unwrap().block_on(async {
        let client = async_nats::connect(brokers.urls()).await.unwrap();
        let context = jetstream::new(client);
        let mut stream = context.get_stream("tidegate_published").await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut found = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let number = message.headers.get("Tidegate-Number").unwrap().as_str().parse().unwrap();
            let body: Value = serde_json::from_slice(&message.payload).unwrap();
            assert_eq!(body["number"], number);
            assert_eq!(
                message.subject.as_str(),
                format!("tidegate.published.rooms.{}", body["kind"].as_str().unwrap())
            );
            found.push((body["kind"].as_str().unwrap().to_owned(), number, body));
        }
        found
    })
}

fn numbers(messages: &[(String, u64, Value)], kind: &str) -> Vec<u64> {
    messages.iter().filter(|(of, ..)| of == kind).map(|(_, number, _)| *number).collect()
}

fn metric(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.trim().parse().unwrap()
}

/// Waits until a metric of a service that runs is as it should be.
fn wait_for(url: &str, name: &str, is_it: impl Fn(u64) -> bool) {
    let began = Instant::now();
    loop {
        let text = ask(url, "/metrics", "");
        if text.lines().any(|line| line.starts_with(name)) && is_it(metric(&text, name)) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{name}: {text}");
        thread::sleep(Duration::from_millis(100));
    }
}

const BEHIND: &str = "tidegate_connector_behind{connector=\"out\"}";

#[test]
fn each_number_arrives_once_and_in_order_across_kills() {
    let mut brokers = Brokers::start(1).unwrap();
    let home = Home::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = fs::read_to_string(home.config()).unwrap();
    let text = text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    fs::write(home.config(), format!("public_metrics = true\n{text}{}{}", rooms(""), connector(&brokers, ""))).unwrap();
    let mut random = SeededRandom::new(7);
    let (began, mut kills) = (Instant::now(), 0_u64);
    while began.elapsed() < killing() {
        let serving = home.serve();
        thread::sleep(Duration::from_millis(300 + random.next_word() % 1_700));
        if kills % 3 == 1 {
            brokers.kill(0).unwrap();
        }
        serving.kill();
        if kills % 3 == 1 {
            brokers.spawn(0).unwrap();
            brokers.wait_ready().unwrap();
        }
        kills += 1;
    }
    assert!(kills > 3, "{kills}");
    let serving = home.serve();
    await_ready(&serving);
    let page = |path: &str| {
        let answer = ask(&serving.url, path, home.token("analyst"));
        serde_json::from_str::<Value>(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let all = |kind: &str| -> Vec<Value> {
        page(&format!("/v1/streams/rooms/{kind}?limit=1000"))[kind].as_array().unwrap().clone()
    };
    let is_alarm = |answer: &&Value| answer["answer"]["event"].is_string();
    // Noise decides when an alarm comes.
    let began = Instant::now();
    while all("releases").len() < 6 || !all("answers").iter().any(|answer| is_alarm(&answer)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", all("answers"));
        thread::sleep(Duration::from_millis(200));
    }
    // Nothing is published any more, so that everything can be sent.
    let token = home.token("operator").to_owned();
    let paused = crate::operations::post(&serving.url, "/v1/streams/rooms/pause", &token);
    assert!(paused.starts_with("HTTP/1.1 2"), "{paused}");
    thread::sleep(Duration::from_millis(2_500));
    wait_for(&serving.url, BEHIND, |behind| behind == 0);
    let sent = messages(&brokers);
    let (releases, answers) = (all("releases"), all("answers"));
    let alarms: Vec<Value> = answers.iter().filter(is_alarm).cloned().collect();
    for (kind, records) in [("releases", releases), ("answers", answers), ("alarms", alarms)] {
        let expected: Vec<u64> = records.iter().map(|record| record["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers(&sent, kind), expected, "{kind} after {kills} kills");
        let field = if kind == "releases" { "release" } else { "answer" };
        let bodies = sent.iter().filter(|(of, ..)| of == kind).map(|(.., body)| &body[field]);
        assert!(bodies.eq(records.iter().map(|record| &record[field])), "{kind}");
    }
    let (code, said) = serving.terminate();
    assert_eq!(code, Some(0), "{said}");
}

/// A service whose broker hangs serves all the same, and stops in time.
#[test]
fn a_broker_that_hangs_delays_nothing_and_what_was_deleted_is_stated() {
    let mut brokers = Brokers::start(1).unwrap();
    let home = Home::new();
    home.configure("public_metrics = true\n", &rooms("retention = { timestamps = 2 }\n"));
    home.configure("", &connector(&brokers, "kinds = [\"releases\"]\n"));
    brokers.kill(0).unwrap();
    let serving = home.serve();
    await_ready(&serving);
    wait_for(&serving.url, "tidegate_published_version{stream=\"rooms\"}", |version| version >= 6);
    assert!(metric(&ask(&serving.url, "/metrics", ""), "tidegate_connector_failures_total{connector=\"out\"}") > 0);
    brokers.spawn(0).unwrap();
    brokers.wait_ready().unwrap();
    let missing = "tidegate_connector_missing_total{connector=\"out\",stream=\"rooms\",kind=\"releases\"}";
    wait_for(&serving.url, missing, |missing| missing > 0);
    let stated = metric(&ask(&serving.url, "/metrics", ""), missing);
    let sent = numbers(&messages(&brokers), "releases");
    assert!(sent.windows(2).all(|pair| pair[0] < pair[1]) && sent[0] == stated + 1, "{stated} {sent:?}");
    brokers.pause(0).unwrap();
    thread::sleep(Duration::from_millis(1_500));
    let began = Instant::now();
    let (code, said) = serving.terminate();
    brokers.resume(0).unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(said.contains("deleted before they were sent"), "{said}");
}

#[test]
fn wrong_connectors_are_refused() {
    let refuse = |more: &str, why: &str| {
        let home = Home::new();
        home.configure("", &format!("\n[[connectors]]\nname = \"out\"\n{more}"));
        assert_refused(&home.run("serve"), why);
    };
    let nats = "[connectors.nats]\nservers = [\"nats://127.0.0.1:4222\"]\n";
    refuse(&format!("subject = \"tidegate.{{stream}}\"\n{nats}"), "subject: it has {stream} and {kind} once each");
    refuse(&format!("kinds = []\n{nats}"), "kinds: expected releases");
    refuse("[connectors.nats]\nservers = []\n", "name one broker at least");
    refuse(&format!("{nats}user = \"me\"\n"), "user and password_file");
    refuse(&format!("{nats}\n[[connectors]]\nname = \"out\"\n{nats}"), "there is another connector \"out\"");
    refuse("[connectors.nats]\nservers = [\"nats://me:secret@a\"]\n", "must not contain a user or a password");
}
