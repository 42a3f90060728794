//! Pull consumer of one partition, kept between reads.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::stream::ConsumerErrorKind;
use futures_util::{FutureExt, StreamExt};

use super::{NatsLog, explained};
use crate::{LogError, Record};

/// Bytes that a reader asks for at a time, more than the longest record. It asks again when half of them have arrived,
/// so up to 6 MiB of a partition wait for a slow reader.
const AHEAD: usize = 4 << 20;

/// Records that a reader fetches ahead at a time.
const RECORDS_AHEAD: usize = 4_096;

/// A consumer says that often that it is there. After twice this time of silence, another one is created.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Time after which the brokers renew a request for records.
const EXPIRES: Duration = Duration::from_secs(30);

/// Time after which the brokers delete a consumer that nobody uses.
const INACTIVE: Duration = Duration::from_secs(60);

/// Wait for a record that the brokers said is there, at a consumer that has just been created.
const FIRST: Duration = Duration::from_millis(500);

/// Consumer, and the position that it delivers next.
pub(super) struct Reader {
    next: u64,
    consumer: String,
    stream: pull::Stream,
    /// Record that no longer fitted into the last batch.
    held: Option<Record>,
    /// Whether the brokers know of records that were not delivered yet.
    behind: bool,
    /// Whether a fault followed the last batch.
    spoilt: bool,
}

/// Reason why a reader cannot go on.
enum Stop {
    /// Another consumer may.
    Broken(String),
    /// It delivered this position in place of the next one.
    Hole(u64),
}

impl Reader {
    /// Takes the next record if there is one within a time.
    async fn next(&mut self, wait: Duration) -> Result<Option<Record>, Stop> {
        if let Some(record) = self.held.take() {
            return Ok(Some(record));
        }
        // A timer is needed only where nothing has arrived yet.
        let message = match self.stream.next().now_or_never() {
            Some(message) => message,
            None if wait.is_zero() => return Ok(None),
            None => match tokio::time::timeout(wait, self.stream.next()).await {
                Ok(message) => message,
                Err(_) => return Ok(None),
            },
        };
        let message = match message {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(Stop::Broken(error.to_string())),
            None => return Err(Stop::Broken("its subscription has ended".to_owned())),
        };
        let position = match message.info() {
            Ok(info) => info.stream_sequence,
            Err(error) => return Err(Stop::Broken(error.to_string())),
        };
        if position != self.next {
            return Err(Stop::Hole(position));
        }
        self.next += 1;
        self.behind = false;
        Ok(Some(Record { position, body: message.message.payload }))
    }

    /// Takes records until their bytes suffice.
    async fn batch(&mut self, bytes: usize, until: Instant) -> Result<Vec<Record>, Stop> {
        let (mut records, mut left) = (Vec::new(), bytes);
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let wait = match (records.is_empty(), self.behind) {
                (false, _) => Duration::ZERO,
                (true, true) => rest.max(FIRST),
                (true, false) => rest,
            };
            match self.next(wait).await {
                Ok(Some(record)) if record.body.len() > left && !records.is_empty() => {
                    self.held = Some(record);
                    return Ok(records);
                }
                Ok(Some(record)) => {
                    left = left.saturating_sub(record.body.len());
                    records.push(record);
                    if left == 0 {
                        return Ok(records);
                    }
                }
                Ok(None) => return Ok(records),
                // The next call, by another consumer, meets the fault again.
                Err(_) if !records.is_empty() => {
                    self.spoilt = true;
                    return Ok(records);
                }
                Err(stop) => return Err(stop),
            }
        }
    }

    /// Position of the record that the next batch begins with.
    fn position(&self) -> u64 {
        self.held.as_ref().map_or(self.next, |record| record.position)
    }
}

impl NatsLog {
    pub(super) async fn read_from(
        &self,
        partition: u32,
        from: u64,
        bytes: usize,
        wait: Duration,
    ) -> Result<Vec<Record>, LogError> {
        let until = Instant::now() + wait;
        let kept = self.readers().remove(&partition);
        let (mut reader, mut fresh) = match kept {
            Some(reader) if reader.position() == from => (reader, false),
            Some(reader) => {
                self.discard(partition, reader);
                (self.open(partition, from).await?, true)
            }
            None => (self.open(partition, from).await?, true),
        };
        loop {
            match reader.batch(bytes, until).await {
                Ok(records) => {
                    if reader.spoilt {
                        self.discard(partition, reader);
                    } else {
                        self.keep(partition, reader);
                    }
                    return Ok(records);
                }
                Err(stop) => {
                    self.discard(partition, reader);
                    match stop {
                        Stop::Hole(position) => {
                            let first = self.range(partition).await?.start;
                            if from < first {
                                return Err(LogError::Lost { partition, from, to: first - 1 });
                            }
                            // A second consumer that leaves it out as well has shown that it is not there.
                            if fresh && position > from {
                                return Err(LogError::Lost { partition, from, to: position - 1 });
                            }
                        }
                        Stop::Broken(text) if Instant::now() >= until => {
                            return Err(LogError::Unavailable(format!("the consumer stopped: {text}")));
                        }
                        Stop::Broken(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                    reader = self.open(partition, from).await?;
                    fresh = true;
                }
            }
        }
    }

    /// Creates a consumer that begins at a position.
    async fn open(&self, partition: u32, from: u64) -> Result<Reader, LogError> {
        // A consumer begins behind what is gone, and would say nothing if that is all there was.
        let range = self.range(partition).await?;
        if from < range.start {
            return Err(LogError::Lost { partition, from, to: range.start - 1 });
        }
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            ack_policy: AckPolicy::None,
            inactive_threshold: INACTIVE,
            num_replicas: 1,
            memory_storage: true,
            ..pull::Config::default()
        };
        let unavailable = |text: String| LogError::Unavailable(format!("no consumer of partition {partition}: {text}"));
        let limit = self.settings.timeout.saturating_mul(2);
        let created = self.context.create_consumer_on_stream(config, self.stream(partition));
        let consumer: Consumer<pull::Config> = match tokio::time::timeout(limit, created).await {
            Ok(Ok(consumer)) => consumer,
            Ok(Err(error)) => {
                return Err(match error.kind() {
                    ConsumerErrorKind::JetStream(error) => explained(&error),
                    _ => unavailable(error.to_string()),
                });
            }
            Err(_) => return Err(unavailable("the brokers do not answer in time".to_owned())),
        };
        let (name, behind) = (consumer.cached_info().name.clone(), consumer.cached_info().num_pending > 0);
        let messages = consumer
            .stream()
            .max_messages_per_batch(RECORDS_AHEAD)
            .max_bytes_per_batch(AHEAD)
            .heartbeat(HEARTBEAT)
            .expires(EXPIRES)
            .messages();
        let stream = match tokio::time::timeout(limit, messages).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(unavailable(error.to_string())),
            Err(_) => return Err(unavailable("the brokers do not answer in time".to_owned())),
        };
        Ok(Reader { next: from, consumer: name, stream, held: None, behind, spoilt: false })
    }

    /// Keeps a reader for the next call. One that another call has left meanwhile gives way.
    fn keep(&self, partition: u32, reader: Reader) {
        let other = self.readers().insert(partition, reader);
        if let Some(other) = other {
            self.discard(partition, other);
        }
    }

    /// Deletes a consumer, as far as the brokers can be reached; they forget it later anyway.
    fn discard(&self, partition: u32, reader: Reader) {
        let (context, stream) = (self.context.clone(), self.stream(partition));
        tokio::spawn(async move {
            let _ = context.delete_consumer_from_stream(&reader.consumer, &stream).await;
        });
    }
}
