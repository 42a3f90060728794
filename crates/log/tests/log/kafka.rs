//! The log on the Kafka protocol, against the cluster in librdkafka that imitates brokers in this process.
//!
//! That cluster deletes no records and forgets all when it ends, so nothing here is about trimming or durability.

use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tidegate_log::kafka::{KafkaLog, KafkaSettings};
use tidegate_log::{Log, LogError};

use crate::conformance::{
    PARTITIONS, keeps_order_without_holes, reads_again_from_anywhere, refuses_a_record_that_is_too_long,
    waits_no_longer_than_told, wakes_for_a_record,
};
use crate::support::{number, read_all, record};

type Cluster = MockCluster<'static, DefaultProducerContext>;

const TOPIC: &str = "tidegate";

fn start() -> Cluster {
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic(TOPIC, i32::try_from(PARTITIONS).unwrap(), 3).unwrap();
    cluster
}

fn connect(cluster: &Cluster) -> KafkaLog {
    let mut settings = KafkaSettings::new([cluster.bootstrap_servers()], TOPIC);
    settings.timeout = Duration::from_secs(5);
    KafkaLog::new(settings).unwrap()
}

#[test]
fn an_imitated_cluster_conforms() {
    let cluster = start();
    let log = connect(&cluster);
    log.prepare(PARTITIONS).unwrap();
    log.prepare(PARTITIONS).unwrap();
    keeps_order_without_holes(&log, 0);
    refuses_a_record_that_is_too_long(&log, 1);
    waits_no_longer_than_told(&log, 2);
    wakes_for_a_record(&log, 3);
    reads_again_from_anywhere(&log, 4);
    assert!(matches!(log.append(&[record(PARTITIONS, 1)])[0], Err(LogError::Failed(_))));
    assert!(matches!(log.read(PARTITIONS, 0, 100, Duration::ZERO), Err(LogError::Failed(_))));
    assert!(matches!(log.bounds(PARTITIONS), Err(LogError::Failed(_))));
    assert!(matches!(log.trim(PARTITIONS, 1), Err(LogError::Failed(_))));
}

#[test]
fn refuses_a_topic_that_is_too_small() {
    let cluster = start();
    let text = |outcome: Result<(), LogError>| match outcome {
        Err(LogError::Failed(text)) => text,
        other => panic!("{other:?}"),
    };
    let found = text(connect(&cluster).prepare(PARTITIONS + 1));
    assert!(found.contains("has 7 partitions; create it with 8"), "{found}");
    cluster.create_topic("alone", 1, 1).unwrap();
    let mut settings = KafkaSettings::new([cluster.bootstrap_servers()], "alone");
    let found = text(KafkaLog::new(settings.clone()).unwrap().prepare(1));
    assert!(found.contains("has 1 replicas, not 3"), "{found}");
    settings.replicas = 1;
    KafkaLog::new(settings).unwrap().prepare(1).unwrap();
}

/// An idempotent producer repeats what was refused for a while, and stores it once, in order.
#[test]
fn repeats_after_refusals_without_doubles() {
    let cluster = start();
    let log = connect(&cluster);
    log.prepare(1).unwrap();
    log.append(&[record(0, 0)])[0].clone().unwrap();
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    cluster.request_errors(RDKafkaApiKey::Produce, &[refusal; 3]);
    let batch: Vec<_> = (1..50).map(|number| record(0, number)).collect();
    let positions: Vec<_> = log.append(&batch).into_iter().map(Result::unwrap).collect();
    assert_eq!(positions, (1..50).collect::<Vec<_>>());
    let numbers: Vec<_> = read_all(&log, 0, 0, 50).iter().map(number).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

#[test]
fn follows_a_leader_that_moves() {
    let cluster = start();
    let log = connect(&cluster);
    log.prepare(1).unwrap();
    cluster.partition_leader(TOPIC, 0, Some(1)).unwrap();
    assert_eq!(log.append(&[record(0, 0)]), [Ok(0)]);
    assert_eq!(read_all(&log, 0, 0, 1).len(), 1);
    cluster.partition_leader(TOPIC, 0, Some(2)).unwrap();
    cluster.broker_down(1).unwrap();
    assert_eq!(log.append(&[record(0, 1)]), [Ok(1)]);
    assert_eq!(number(&read_all(&log, 0, 1, 2)[0]), 1);
}

#[test]
fn without_brokers_every_call_ends() {
    let cluster = start();
    let mut settings = KafkaSettings::new([cluster.bootstrap_servers()], TOPIC);
    settings.timeout = Duration::from_secs(1);
    let log = KafkaLog::new(settings).unwrap();
    log.prepare(1).unwrap();
    for broker in 1..=3 {
        cluster.broker_down(broker).unwrap();
    }
    let begin = Instant::now();
    let outcome = log.append(&[record(0, 0)]).remove(0);
    assert!(matches!(outcome, Err(LogError::Unknown(_))), "{outcome:?}");
    assert!(matches!(log.bounds(0), Err(LogError::Unavailable(_))));
    assert!(matches!(log.read(0, 0, 100, Duration::from_millis(100)), Err(LogError::Unavailable(_))));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}
