//! Brokers that the start refuses.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType};
use tidegate_log::nats::NatsLog;
use tidegate_log::nats::inspection::State;
use tidegate_log::nats::settings::{NatsCredentials, NatsSettings};
use tidegate_log::testing::{Brokers, Plan};
use tidegate_log::{Log, LogError};

use crate::support::{connect, record, settings};

fn refusal(outcome: Result<(), LogError>) -> String {
    match outcome {
        Err(LogError::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Greets like an old server whoever connects.
fn old_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let greeting =
            "INFO {\"server_id\":\"A\",\"version\":\"2.9.10\",\"jetstream\":true,\"max_payload\":1048576}\r\n";
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(greeting.as_bytes());
        }
    });
    address
}

#[test]
fn refuses_an_old_server() {
    let brokers = Brokers::start(1).unwrap();
    let mut mixed = settings(&brokers, 1);
    mixed.urls.push(format!("nats://{}", old_server()));
    // The client connects in an order of its own, perhaps to the one that is no server at all first.
    let log = (0..20).find_map(|_| NatsLog::connect(mixed.clone()).ok()).unwrap();
    let text = refusal(log.prepare(1));
    assert!(text.contains("version 2.9.10 is too old: use 2.15.1 or later"), "{text}");
    assert!(matches!(log.bounds(0), Err(LogError::Failed(_))), "nothing was created");
}

#[test]
fn refuses_a_broker_that_does_not_sync() {
    let plan = Plan { sync_always: false, ..Plan::local(1) };
    let brokers = Brokers::start_plan(&plan).unwrap();
    let log = connect(&brokers, 1);
    let text = refusal(log.prepare(1));
    assert!(text.contains("set sync_interval: always"), "{text}");
    // Without its monitoring address nobody can tell, and that is said.
    let mut blind = settings(&brokers, 1);
    blind.monitoring.clear();
    let log = NatsLog::connect(blind).unwrap();
    log.prepare(1).unwrap();
    assert!(log.inspect().iter().any(|found| found.state == State::Unchecked && found.text.contains("sync")));
}

#[test]
fn finds_nothing_bad_in_good_brokers() {
    let brokers = Brokers::start(1).unwrap();
    let findings = connect(&brokers, 1).inspect();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings.iter().all(|found| found.state == State::Good), "{findings:?}");
}

#[test]
fn refuses_short_messages_and_too_few_replicas() {
    let plan = Plan { configuration: "max_payload: 64KB".to_owned(), ..Plan::local(1) };
    let short = Brokers::start_plan(&plan).unwrap();
    let text = refusal(connect(&short, 1).prepare(1));
    assert!(text.contains("set max_payload: 1MB"), "{text}");

    let brokers = Brokers::start(1).unwrap();
    let text = refusal(connect(&brokers, 3).prepare(1));
    assert!(text.contains("replicas > 1 not supported"), "{text}");
    connect(&brokers, 1).prepare(1).unwrap();
    let text = refusal(connect(&brokers, 3).prepare(1));
    assert!(text.contains("has 1 replicas, not 3"), "{text}");
}

#[test]
fn refuses_streams_that_may_lose_records() {
    // One that syncs each write refuses some of them itself.
    let brokers = Brokers::start_plan(&Plan { sync_always: false, ..Plan::local(1) }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let context = runtime
        .block_on(async { async_nats::jetstream::new(async_nats::connect(brokers.urls().remove(0)).await.unwrap()) });
    let good = Config {
        name: "tidegate_test_0".to_owned(),
        subjects: vec!["tidegate.test.0".to_owned()],
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    let cases = [
        (Config { max_age: Duration::from_secs(60), ..good.clone() }, "may delete records"),
        (Config { max_messages: 1_000, ..good.clone() }, "may delete records"),
        (Config { discard: DiscardPolicy::Old, ..good.clone() }, "may delete records"),
        (Config { retention: RetentionPolicy::WorkQueue, ..good.clone() }, "may delete records"),
        (Config { storage: StorageType::Memory, ..good.clone() }, "before its records are in files"),
        (Config { no_ack: true, ..good.clone() }, "before its records are in files"),
        (Config { persist_mode: Some(PersistenceMode::Async), ..good.clone() }, "before its records are in files"),
        (Config { subjects: vec!["tidegate.test.*".to_owned()], ..good.clone() }, "has other subjects"),
    ];
    let mut blind = settings(&brokers, 1);
    blind.monitoring.clear();
    let log = NatsLog::connect(blind).unwrap();
    for (config, fault) in cases {
        runtime.block_on(context.create_stream(config.clone())).unwrap();
        let text = refusal(log.prepare(1));
        assert!(text.contains(fault), "{config:?}: {text}");
        runtime.block_on(context.delete_stream("tidegate_test_0")).unwrap();
    }
    runtime.block_on(context.create_stream(good)).unwrap();
    log.prepare(1).unwrap();
}

#[test]
fn credentials_come_from_files() {
    let password = "{ user: gate, password: \"let me in\" }";
    let plan = Plan { configuration: format!("authorization {{ users: [{password}] }}"), ..Plan::local(1) };
    let brokers = Brokers::start_plan(&plan).unwrap();
    let file = brokers.folder().join("password");
    let with = |password: &str| {
        std::fs::write(&file, password).unwrap();
        let mut settings = settings(&brokers, 1);
        settings.credentials = NatsCredentials::Password { user: "gate".to_owned(), file: file.clone() };
        NatsLog::connect(settings)
    };
    let log = with("let me in\n").unwrap();
    log.prepare(1).unwrap();
    assert!(!format!("{log:?}").contains("let me in"));
    let text = refusal(with("open sesame").map(|_| ()));
    assert!(!text.contains("sesame") && text.contains("credentials"), "{text}");
}

#[test]
fn nobody_there_is_not_available() {
    let mut settings = NatsSettings::new(["nats://127.0.0.1:9"], "test");
    settings.timeout = Duration::from_millis(500);
    assert!(matches!(NatsLog::connect(settings), Err(LogError::Unavailable(_))));
}

#[test]
fn connections_are_encrypted_and_checked() {
    let file = |name: &str| format!("{}/../server/tests/server/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    let tls = format!("tls {{ cert_file: {:?}, key_file: {:?} }}", file("certificate"), file("key"));
    let brokers = Brokers::start_plan(&Plan { configuration: tls, ..Plan::local(1) }).unwrap();
    let with = |authority: &str| {
        let mut settings = settings(&brokers, 1);
        settings.urls.iter_mut().for_each(|url| *url = url.replace("nats://", "tls://"));
        settings.certificates = Some(file(authority).into());
        NatsLog::connect(settings)
    };
    let log = with("authority").unwrap();
    // The greeting, which says the version, is not encrypted.
    log.prepare(1).unwrap();
    log.append(&[record(0, 1)])[0].clone().unwrap();
    let error = with("other-authority").unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let error = with("missing").unwrap_err();
    assert!(error.to_string().contains("missing.pem cannot be read"), "{error}");
}
