//! Sinks on real brokers: two senders that race neither repeat nor skip a number.

use std::thread;
use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use tidegate_log::LogError;
use tidegate_log::nats::settings::NatsSettings;
use tidegate_log::nats::sink::{NatsSink, NatsSinkSettings};
use tidegate_log::sink::{Last, Message, Run, Sink};
use tidegate_log::testing::Brokers;
use tokio::runtime::Runtime;

fn settings(brokers: &Brokers) -> NatsSinkSettings {
    let mut nats = NatsSettings::new(brokers.urls(), "sink");
    nats.replicas = 1;
    nats.timeout = Duration::from_secs(2);
    NatsSinkSettings { nats, stream: "out".to_owned(), subjects: "out.*.*".to_owned(), keep: None }
}

fn run(subject: &str, after: Option<Last>, numbers: std::ops::RangeInclusive<u64>) -> Run {
    let message = |number: u64| Message { number, body: Bytes::from(number.to_string()) };
    Run { subject: subject.to_owned(), after, messages: numbers.map(message).collect() }
}

/// Sends the numbers up to `end`, by what the sink states. Returns how often another sender was first.
fn send_all(sink: &dyn Sink, subject: &str, end: u64, page: u64) -> u64 {
    let mut overtaken = 0;
    loop {
        let last = sink.last(&[subject.to_owned()]).remove(0).unwrap();
        let next = last.map_or(1, |last| last.number + 1);
        if next > end {
            return overtaken;
        }
        match sink.send(&[run(subject, last, next..=end.min(next + page))]).remove(0) {
            Ok(_) => {}
            Err(LogError::Unknown(_)) => overtaken += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn two_senders_neither_repeat_nor_skip() {
    let brokers = Brokers::start(1).unwrap();
    let sinks = [NatsSink::new(settings(&brokers)), NatsSink::new(settings(&brokers))];
    sinks.iter().for_each(|sink| sink.prepare().unwrap());
    let overtaken: u64 = thread::scope(|scope| {
        let threads: Vec<_> =
            sinks.iter().map(|sink| scope.spawn(|| send_all(sink, "out.visits.releases", 400, 7))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(overtaken > 0, "they did not race");
    let found: Vec<u64> = Runtime::new().unwrap().block_on(async {
        let context = jetstream::new(async_nats::connect(brokers.urls()).await.unwrap());
        let stream = context.get_stream("out").await.unwrap();
        let mut found = Vec::new();
        for sequence in 1..=stream.cached_info().state.last_sequence {
            let message = stream.get_raw_message(sequence).await.unwrap();
            found.push(std::str::from_utf8(&message.payload).unwrap().parse().unwrap());
        }
        found
    });
    assert!(found.iter().copied().eq(1..=400), "{found:?}");
}

#[test]
fn a_position_is_compared_and_subjects_are_independent() {
    let brokers = Brokers::start(1).unwrap();
    let sink = NatsSink::new(settings(&brokers));
    sink.prepare().unwrap();
    sink.prepare().unwrap();
    let (one, other) = ("out.a.releases", "out.b.releases");
    let sent = sink.send(&[run(one, None, 1..=3), run(other, None, 5..=5)]);
    let (first, second) = (sent[0].clone().unwrap(), sent[1].clone().unwrap());
    assert_eq!((first.number, second.number), (3, 5));
    let last = sink.last(&[one.to_owned(), "out.c.releases".to_owned(), other.to_owned()]);
    assert_eq!(last, [Ok(Some(first)), Ok(None), Ok(Some(second))]);
    // Neither an empty subject nor an earlier position is believed.
    for after in [None, Some(Last { number: 2, position: first.position - 1 })] {
        assert!(matches!(sink.send(&[run(one, after, 4..=4)])[0], Err(LogError::Unknown(_))), "{after:?}");
    }
    assert_eq!(sink.last(&[one.to_owned()]), [Ok(Some(first))]);
    assert_eq!(sink.send(&[run(one, Some(first), 4..=4)])[0].clone().unwrap().number, 4);
}

#[test]
fn refuses_what_it_cannot_rely_on() {
    let brokers = Brokers::start(1).unwrap();
    Runtime::new().unwrap().block_on(async {
        let context = jetstream::new(async_nats::connect(brokers.urls()).await.unwrap());
        let config = jetstream::stream::Config {
            name: "out".to_owned(),
            subjects: vec!["out.>".to_owned()],
            max_age: Duration::from_secs(3_600),
            ..Default::default()
        };
        context.create_stream(config.clone()).await.unwrap();
        context.publish("out.a.releases", "foreign".into()).await.unwrap().await.unwrap();
    });
    let sink = NatsSink::new(settings(&brokers));
    let refused = sink.prepare().unwrap_err().to_string();
    assert!(refused.contains("may delete the last message"), "{refused}");
    let foreign = sink.last(&["out.a.releases".to_owned()]).remove(0).unwrap_err().to_string();
    assert!(foreign.contains("was not sent by tidegate"), "{foreign}");
}
