//! [`KafkaLog`]: a log on brokers that speak the Kafka protocol. A partition is a partition of one topic; a position is
//! an offset, so the first one is 0.
//!
//! It is tested against the cluster in librdkafka that imitates brokers in this process. That shows which requests are
//! sent and how answers are taken; it shows nothing about durability, and it answers no request to delete records, so
//! [`Log::trim`] is not tested at all. Connections are not encrypted.
//!
//! Records carry no identity: one that is sent again, after an unknown outcome, may be stored twice. Positions of
//! consumers are not stored in Kafka, and no transactions are used.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};

use crate::{Log, LogError, MAX_RECORD, NewRecord, Record};

/// Pause between two attempts to put a record into the producer's queue, which is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// Settings of a log on Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSettings {
    /// Brokers: `HOST:PORT`. One is enough to find the others, but not if it is down.
    pub brokers: Vec<String>,
    /// Topic. It must be there, with a partition for each of the log, and should have `min.insync.replicas` of 2.
    pub topic: String,
    /// Least number of replicas of each partition.
    pub replicas: usize,
    /// Longest wait for one answer of the brokers.
    pub timeout: Duration,
}

impl KafkaSettings {
    /// Creates settings with three replicas and a timeout of 5 s.
    pub fn new(brokers: impl IntoIterator<Item = impl Into<String>>, topic: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into_iter().map(Into::into).collect(),
            topic: topic.into(),
            replicas: 3,
            timeout: Duration::from_secs(5),
        }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers.join(",")).set("client.id", "tidegate");
        config.set("allow.auto.create.topics", "false").set("socket.keepalive.enable", "true");
        config.set("socket.timeout.ms", self.timeout.as_millis().max(100).to_string());
        config
    }
}

/// Place of a record in its batch, and where its outcome goes.
struct Delivery {
    place: usize,
    outcomes: Sender<(usize, Result<u64, LogError>)>,
}

/// Takes the outcomes of records from the producer's thread.
struct Deliveries;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Delivery>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery: Box<Delivery>) {
        let outcome = match result {
            Ok(message) => {
                u64::try_from(message.offset()).map_err(|_| LogError::Unknown("a record has no offset".to_owned()))
            }
            Err((error, _)) => Err(undelivered(error)),
        };
        // Nobody waits any longer for what comes after the time limit.
        let _ = delivery.outcomes.send((delivery.place, outcome));
    }
}

/// Translates the fate of a record.
fn undelivered(error: &KafkaError) -> LogError {
    use RDKafkaErrorCode::{
        ClusterAuthorizationFailed, InvalidMessage, InvalidMessageSize, MessageSizeTooLarge, PolicyViolation,
        TopicAuthorizationFailed, UnknownPartition, UnknownTopic, UnknownTopicOrPartition,
    };
    match error.rdkafka_error_code() {
        Some(
            ClusterAuthorizationFailed
            | InvalidMessage
            | InvalidMessageSize
            | MessageSizeTooLarge
            | PolicyViolation
            | TopicAuthorizationFailed
            | UnknownPartition
            | UnknownTopic
            | UnknownTopicOrPartition,
        ) => LogError::Failed(error.to_string()),
        // Some of these left no trace, but the producer does not tell which.
        _ => LogError::Unknown(error.to_string()),
    }
}

/// Translates the error of a request that changes nothing.
fn unanswered(error: &KafkaError) -> LogError {
    match undelivered(error) {
        LogError::Unknown(text) => LogError::Unavailable(text),
        error => error,
    }
}

/// Consumer of one partition, and the position that it delivers next.
struct Reader {
    next: u64,
    consumer: BaseConsumer,
    /// Record that no longer fitted into the last batch.
    held: Option<Record>,
}

impl Reader {
    fn position(&self) -> u64 {
        self.held.as_ref().map_or(self.next, |record| record.position)
    }
}

/// Log on brokers that speak the Kafka protocol. Reads of one partition should go on where the last one ended.
pub struct KafkaLog {
    settings: KafkaSettings,
    producer: ThreadedProducer<Deliveries>,
    /// Readers that no call uses at the moment.
    readers: Mutex<HashMap<u32, Reader>>,
    /// Partitions that were found by [`Log::prepare`].
    count: AtomicU32,
}

impl fmt::Debug for KafkaLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaLog").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl KafkaLog {
    /// Creates an idempotent producer. It connects when it is used. [`Log::prepare`] comes before all other calls.
    ///
    /// # Errors
    /// [`LogError::Failed`] for settings that cannot work.
    pub fn new(settings: KafkaSettings) -> Result<Self, LogError> {
        if settings.brokers.is_empty() || settings.timeout.is_zero() {
            return Err(LogError::Failed("name one broker at least, as HOST:9092, and a timeout".to_owned()));
        }
        let mut config = settings.config();
        config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "1");
        config.set("message.timeout.ms", settings.timeout.as_millis().max(100).to_string());
        config.set("request.timeout.ms", settings.timeout.as_millis().max(100).to_string());
        // Without its headers a record fits by default; with them, the producer counts more than the broker does.
        config.set("message.max.bytes", (MAX_RECORD + (1 << 16)).to_string());
        let producer = config.create_with_context(Deliveries).map_err(|error| LogError::Failed(error.to_string()))?;
        Ok(Self { settings, producer, readers: Mutex::default(), count: AtomicU32::new(0) })
    }

    fn readers(&self) -> MutexGuard<'_, HashMap<u32, Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that a partition was prepared. Returns its number in Kafka.
    fn known(&self, partition: u32) -> Result<i32, LogError> {
        let known = partition < self.count.load(Ordering::Relaxed);
        match i32::try_from(partition) {
            Ok(number) if known => Ok(number),
            _ => Err(LogError::Failed(format!("there is no partition {partition}"))),
        }
    }

    /// Puts a record into the producer's queue.
    fn send(&self, record: &NewRecord, delivery: Delivery, until: Instant) -> Result<(), LogError> {
        if record.body.len() > MAX_RECORD {
            return Err(LogError::Failed(format!("a record has at most {MAX_RECORD} bytes")));
        }
        let partition = self.known(record.partition)?;
        let mut waiting =
            BaseRecord::<(), [u8], Box<Delivery>>::with_opaque_to(&self.settings.topic, Box::new(delivery))
                .partition(partition)
                .payload(&record.body);
        loop {
            match self.producer.send(waiting) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) if Instant::now() < until => {
                    waiting = back;
                    std::thread::sleep(QUEUE_PAUSE);
                }
                // It was not queued, so nothing was sent.
                Err((error, _)) => return Err(unanswered(&error)),
            }
        }
    }

    /// Creates a consumer that begins at a position.
    fn open(&self, partition: u32, from: u64) -> Result<Reader, LogError> {
        let mut config = self.settings.config();
        config.set("group.id", "tidegate").set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false").set("auto.offset.reset", "error");
        config.set("queued.max.messages.kbytes", "8192").set("fetch.error.backoff.ms", "50");
        config.set("fetch.wait.max.ms", "100");
        let consumer: BaseConsumer = config.create().map_err(|error| LogError::Failed(error.to_string()))?;
        let (number, offset) = (self.known(partition)?, i64::try_from(from).unwrap_or(i64::MAX));
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.settings.topic, number, Offset::Offset(offset))
            .and_then(|()| consumer.assign(&list))
            .map_err(|error| unanswered(&error))?;
        Ok(Reader { next: from, consumer, held: None })
    }

    /// Takes the next record if there is one within a time.
    fn next(&self, reader: &mut Reader, partition: u32, wait: Duration) -> Result<Option<Record>, LogError> {
        if let Some(record) = reader.held.take() {
            return Ok(Some(record));
        }
        match reader.consumer.poll(wait) {
            None => Ok(None),
            Some(Ok(message)) => {
                let position = u64::try_from(message.offset()).unwrap_or(u64::MAX);
                if position != reader.next {
                    return Err(LogError::Lost { partition, from: reader.next, to: position.saturating_sub(1) });
                }
                reader.next += 1;
                Ok(Some(Record { position, body: Bytes::copy_from_slice(message.payload().unwrap_or_default()) }))
            }
            // Told of each broker that cannot be reached; the consumer tries again on its own.
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
            ))) => Ok(None),
            Some(Err(error)) => Err(unanswered(&error)),
        }
    }

    /// Takes records until their bytes suffice. Says whether the reader can go on.
    fn batch(
        &self,
        reader: &mut Reader,
        partition: u32,
        bytes: usize,
        until: Instant,
    ) -> Result<(Vec<Record>, bool), LogError> {
        let (mut records, mut left) = (Vec::new(), bytes);
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let wait = if records.is_empty() { rest } else { Duration::ZERO };
            match self.next(reader, partition, wait) {
                Ok(Some(record)) if record.body.len() > left && !records.is_empty() => {
                    reader.held = Some(record);
                    return Ok((records, true));
                }
                Ok(Some(record)) => {
                    left = left.saturating_sub(record.body.len());
                    records.push(record);
                    if left == 0 {
                        return Ok((records, true));
                    }
                }
                // The next call, by another consumer, meets the fault again.
                Err(_) if !records.is_empty() => return Ok((records, false)),
                Ok(None) if !records.is_empty() || Instant::now() >= until => return Ok((records, true)),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Collects outcomes of records that were sent.
    fn collect(&self, outcomes: &mut [Result<u64, LogError>], sent: usize, delivered: &Receiver<Outcome>) {
        // The producer tells the fate of each after its timeout at the latest.
        let until = Instant::now() + self.settings.timeout.saturating_mul(2);
        for _ in 0..sent {
            let Ok((place, outcome)) = delivered.recv_timeout(until.saturating_duration_since(Instant::now())) else {
                return;
            };
            outcomes[place] = outcome;
        }
    }
}

/// Place of a record in its batch, and its outcome.
type Outcome = (usize, Result<u64, LogError>);

impl Log for KafkaLog {
    fn append(&self, records: &[NewRecord]) -> Vec<Result<u64, LogError>> {
        let unknown = || Err(LogError::Unknown("no acknowledgement in time".to_owned()));
        let mut outcomes: Vec<_> = records.iter().map(|_| unknown()).collect();
        let (sender, delivered) = channel();
        let until = Instant::now() + self.settings.timeout;
        let mut sent = 0;
        for (place, record) in records.iter().enumerate() {
            match self.send(record, Delivery { place, outcomes: sender.clone() }, until) {
                Ok(()) => sent += 1,
                Err(error) => outcomes[place] = Err(error),
            }
        }
        self.collect(&mut outcomes, sent, &delivered);
        outcomes
    }

    fn read(&self, partition: u32, from: u64, bytes: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        let until = Instant::now() + wait;
        let kept = self.readers().remove(&partition);
        let mut reader = match kept {
            Some(reader) if reader.position() == from => reader,
            _ => {
                let range = self.bounds(partition)?;
                if from < range.start {
                    return Err(LogError::Lost { partition, from, to: range.start - 1 });
                }
                if from > range.end {
                    // No broker waits for a record behind the next one.
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    return Ok(Vec::new());
                }
                self.open(partition, from)?
            }
        };
        match self.batch(&mut reader, partition, bytes, until) {
            Ok((records, good)) => {
                if good {
                    self.readers().insert(partition, reader);
                }
                Ok(records)
            }
            Err(error) => {
                let range = self.bounds(partition)?;
                let gone = LogError::Lost { partition, from, to: range.start.saturating_sub(1) };
                Err(if from < range.start { gone } else { error })
            }
        }
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        let number = self.known(partition)?;
        let watermarks = self.producer.client().fetch_watermarks(&self.settings.topic, number, self.settings.timeout);
        let (low, high) = watermarks.map_err(|error| unanswered(&error))?;
        let position = |offset| u64::try_from(offset).unwrap_or(0);
        Ok(position(low)..position(high))
    }

    fn trim(&self, partition: u32, before: u64) -> Result<(), LogError> {
        let (number, range) = (self.known(partition)?, self.bounds(partition)?);
        let before = before.min(range.end);
        if before <= range.start {
            return Ok(());
        }
        let failed = |error: KafkaError| unanswered(&error);
        let admin: AdminClient<DefaultClientContext> = self.settings.config().create().map_err(failed)?;
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(i64::try_from(before).unwrap_or(i64::MAX));
        list.add_partition_offset(&self.settings.topic, number, offset).map_err(failed)?;
        let options = AdminOptions::new().request_timeout(Some(self.settings.timeout));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| LogError::Failed(format!("a runtime cannot be started: {error}")))?;
        let deleted = runtime.block_on(admin.delete_records(&list, &options)).map_err(failed)?;
        for element in deleted.elements() {
            element.error().map_err(failed)?;
        }
        Ok(())
    }

    /// Checks the topic. It creates nothing: topics have policies that belong to their operators.
    fn prepare(&self, count: u32) -> Result<(), LogError> {
        let topic = &self.settings.topic;
        let metadata = self.producer.client().fetch_metadata(Some(topic), self.settings.timeout);
        let metadata = metadata.map_err(|error| unanswered(&error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
        let partitions = found.map_or(&[][..], |found| found.partitions());
        let many = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        if many < count {
            return Err(LogError::Failed(format!("the topic {topic} has {many} partitions; create it with {count}")));
        }
        let wanted = self.settings.replicas;
        if let Some(few) = partitions.iter().find(|partition| partition.replicas().len() < wanted) {
            let (number, has) = (few.id(), few.replicas().len());
            return Err(LogError::Failed(format!(
                "partition {number} of the topic {topic} has {has} replicas, not {wanted}"
            )));
        }
        self.count.store(count, Ordering::Relaxed);
        Ok(())
    }
}
