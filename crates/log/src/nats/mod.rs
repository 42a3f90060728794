//! [`NatsLog`]: a log on NATS JetStream. A partition is a stream; a position is a sequence, so the first one is 1.
//!
//! | module | contents |
//! | --- | --- |
//! | [`settings`] | addresses, credentials, replicas |
//! | [`inspection`] | version and syncing of the brokers |
//! | `reader` | pull consumer of one partition, kept between reads |

pub mod inspection;
mod reader;
pub mod settings;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::context::{ContextBuilder, RequestErrorKind as ApiErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{self, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectError, ConnectErrorKind, HeaderMap, Request, RequestErrorKind};
use futures_util::{StreamExt, TryStreamExt, stream as futures};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

use self::inspection::{Finding, State as Found};
use self::reader::Reader;
use self::settings::NatsSettings;
use crate::{Log, LogError, MAX_RECORD, NewRecord, Record};

/// Time in which a broker stores a record once, however often it is sent.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Records of one call that wait for their acknowledgement at a time.
const IN_FLIGHT: usize = 256;

/// Pause between two attempts at a partition without a leader.
const LEADER_PAUSE: Duration = Duration::from_millis(50);

/// Streams that are created at a time.
const SIDE_BY_SIDE: usize = 8;

/// Time that brokers that have just started are given to elect leaders.
const START: Duration = Duration::from_secs(60);

/// Code of an answer: an earlier attempt with the same identity is not decided yet.
const DUPLICATE_IN_PROGRESS: ErrorCode = ErrorCode(10_158);

/// Log on NATS JetStream.
///
/// It has threads of its own, and its calls block: none may come from a task of an asynchronous runtime. While the log
/// lives, a connection that is lost is made again, at most a second after the last attempt. Meanwhile each call fails
/// after its timeout.
///
/// Reads of one partition should go on where the last one ended: its consumer fetches ahead. Any other position costs
/// two round trips.
pub struct NatsLog {
    settings: NatsSettings,
    client: Client,
    context: Context,
    /// Readers that no call uses at the moment.
    readers: Mutex<HashMap<u32, Reader>>,
    /// Present until the log is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for NatsLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsLog").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Drop for NatsLog {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            {
                // Subscriptions end in tasks.
                let _entered = runtime.enter();
                self.readers().clear();
            }
            runtime.shutdown_background();
        }
    }
}

impl NatsLog {
    /// Connects to the first broker that answers.
    ///
    /// # Errors
    /// [`LogError::Failed`] for settings or credentials that cannot work; [`LogError::Unavailable`] if no broker
    /// answers.
    pub fn connect(settings: NatsSettings) -> Result<Self, LogError> {
        settings.check()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tidegate-log")
            .enable_all()
            .build()
            .map_err(|error| LogError::Failed(format!("threads cannot be started: {error}")))?;
        let options = settings.options()?;
        let urls = settings.urls.clone();
        // Each address is tried for the timeout; there may be many.
        let limit = settings.timeout.saturating_mul(u32::try_from(urls.len()).unwrap_or(u32::MAX));
        let client = runtime.block_on(async {
            match tokio::time::timeout(limit, options.connect(urls)).await {
                Ok(Ok(client)) => Ok(client),
                Ok(Err(error)) => Err(unconnected(&error)),
                Err(_) => Err(LogError::Unavailable("no broker answers".to_owned())),
            }
        })?;
        let context = {
            let _entered = runtime.enter();
            ContextBuilder::new().timeout(settings.timeout).build(client.clone())
        };
        Ok(Self { settings, client, context, readers: Mutex::default(), runtime: Some(runtime) })
    }

    /// Inspects the brokers: version, longest message, syncing.
    pub fn inspect(&self) -> Vec<Finding> {
        let info = self.client.server_info();
        inspection::inspect(&self.settings, &info.connect_urls)
    }

    fn readers(&self) -> MutexGuard<'_, HashMap<u32, Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runtime(&self) -> Result<&Runtime, LogError> {
        self.runtime.as_ref().ok_or_else(|| LogError::Failed("the log is closed".to_owned()))
    }

    fn stream(&self, partition: u32) -> String {
        format!("tidegate_{}_{partition}", self.settings.prefix)
    }

    fn subject(&self, partition: u32) -> String {
        format!("tidegate.{}.{partition}", self.settings.prefix)
    }

    /// Waits for a connection. What is sent without one is kept by the client, and would arrive long after its sender
    /// was told that it did not.
    async fn connected(&self) -> Result<(), LogError> {
        let until = Instant::now() + self.settings.timeout;
        while self.client.connection_state() != State::Connected {
            if Instant::now() >= until {
                return Err(LogError::Unavailable("no broker is connected".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Appends a record, unless one of its partition had no answer before.
    async fn append_one(&self, record: &NewRecord, stopped: &Mutex<HashSet<u32>>) -> Result<u64, LogError> {
        let stopped = || stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if record.body.len() > MAX_RECORD {
            return Err(LogError::Failed(format!("a record has at most {MAX_RECORD} bytes")));
        }
        if stopped().contains(&record.partition) {
            return Err(LogError::Unavailable("an earlier record of the batch had no answer in time".to_owned()));
        }
        let outcome = self.append_soon(record).await;
        if matches!(outcome, Err(LogError::Unknown(_) | LogError::Unavailable(_))) {
            stopped().insert(record.partition);
        }
        outcome
    }

    /// Appends a record as soon as its partition has a leader. An election takes up to 10 s.
    async fn append_soon(&self, record: &NewRecord) -> Result<u64, LogError> {
        let until = Instant::now() + self.settings.timeout;
        self.connected().await?;
        loop {
            match self.publish(record).await? {
                Some(position) => return Ok(position),
                None if Instant::now() < until => tokio::time::sleep(LEADER_PAUSE).await,
                None => return Err(self.unserved(record.partition).await),
            }
        }
    }

    /// Publishes a record once. Returns its position, or nothing if nobody was there to take it.
    async fn publish(&self, record: &NewRecord) -> Result<Option<u64>, LogError> {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, format!("{:032x}", u128::from_be_bytes(record.id.0)));
        let request = Request::new().headers(headers).payload(record.body.clone());
        let sent = self.client.send_request(self.subject(record.partition), request);
        // The client limits the wait for the answer; this limits that for space in its queue as well.
        let limit = self.settings.timeout.saturating_mul(2);
        let answer = match tokio::time::timeout(limit, sent).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                return match error.kind() {
                    RequestErrorKind::NoResponders => Ok(None),
                    RequestErrorKind::MaxPayloadExceeded => Err(LogError::Failed(
                        "the brokers refuse messages of this length: set max_payload to 1MB or more".to_owned(),
                    )),
                    RequestErrorKind::InvalidSubject => Err(LogError::Failed(error.to_string())),
                    RequestErrorKind::TimedOut | RequestErrorKind::Other => {
                        Err(LogError::Unknown(format!("no acknowledgement: {error}")))
                    }
                };
            }
            Err(_) => return Err(LogError::Unknown("no acknowledgement in time".to_owned())),
        };
        match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
            Ok(Response::Ok(ack)) if ack.stream == self.stream(record.partition) => Ok(Some(ack.sequence)),
            Ok(Response::Ok(ack)) => Err(LogError::Failed(format!(
                "the stream {} took a record of the stream {}: their subjects overlap",
                ack.stream,
                self.stream(record.partition)
            ))),
            Ok(Response::Err { error }) => Err(refused(&error)),
            Err(error) => Err(LogError::Unknown(format!("the acknowledgement is not readable: {error}"))),
        }
    }

    /// Tells a partition without a leader from one that does not exist.
    async fn unserved(&self, partition: u32) -> LogError {
        match self.info(partition).await {
            Err(LogError::Failed(text)) => LogError::Failed(text),
            _ => LogError::Unavailable(format!("partition {partition} has no leader at the moment")),
        }
    }

    /// Asks the brokers' interface.
    async fn ask<T: Serialize, V: DeserializeOwned>(&self, subject: String, question: &T) -> Result<V, LogError> {
        self.connected().await?;
        let limit = self.settings.timeout.saturating_mul(2);
        match tokio::time::timeout(limit, self.context.request::<_, _, Response<V>>(subject, question)).await {
            Ok(Ok(Response::Ok(answer))) => Ok(answer),
            Ok(Ok(Response::Err { error })) => Err(explained(&error)),
            Ok(Err(error)) => Err(match error.kind() {
                ApiErrorKind::InvalidSubject => LogError::Failed(error.to_string()),
                ApiErrorKind::TimedOut => LogError::Unavailable("the brokers do not answer in time".to_owned()),
                ApiErrorKind::NoResponders => LogError::Unavailable("no broker serves JetStream".to_owned()),
                ApiErrorKind::Other => LogError::Unavailable(error.to_string()),
            }),
            Err(_) => Err(LogError::Unavailable("the brokers do not answer in time".to_owned())),
        }
    }

    async fn info(&self, partition: u32) -> Result<stream::Info, LogError> {
        self.ask(format!("STREAM.INFO.{}", self.stream(partition)), &()).await
    }

    async fn range(&self, partition: u32) -> Result<Range<u64>, LogError> {
        let state = self.info(partition).await?.state;
        // An empty stream that was never trimmed says 0 and 0; one that was, the next sequence and the last.
        Ok(state.first_sequence.max(1)..state.last_sequence + 1)
    }

    /// Creates the stream of a partition, or checks the one that is there.
    async fn prepare_one(&self, partition: u32) -> Result<(), LogError> {
        let max_bytes = self.settings.max_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let name = self.stream(partition);
        let wanted = stream::Config {
            name: name.clone(),
            description: Some("Partition of the log of tidegate".to_owned()),
            subjects: vec![self.subject(partition)],
            max_bytes,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_consumers: -1,
            max_message_size: -1,
            discard: DiscardPolicy::New,
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            num_replicas: self.settings.replicas,
            duplicate_window: DUPLICATE_WINDOW,
            deny_delete: true,
            ..stream::Config::default()
        };
        let info: stream::Info = match self.info(partition).await {
            Ok(info) => info,
            Err(LogError::Failed(_)) => self.ask(format!("STREAM.CREATE.{name}"), &wanted).await?,
            Err(error) => return Err(error),
        };
        let found = info.config;
        if let Some(fault) = differs(&wanted, &found) {
            return Err(LogError::Failed(format!("the stream {name} {fault}")));
        }
        if found.max_bytes != max_bytes {
            let changed = stream::Config { max_bytes, ..found };
            self.ask::<_, stream::Info>(format!("STREAM.UPDATE.{name}"), &changed).await?;
        }
        self.probe(partition).await
    }

    /// Checks that a leader takes records, by one that it must refuse: it names another stream.
    async fn probe(&self, partition: u32) -> Result<(), LogError> {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_STREAM, "none");
        let request = Request::new().headers(headers);
        match self.client.send_request(self.subject(partition), request).await {
            Ok(answer) => match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
                Ok(Response::Err { error }) if error.error_code() == ErrorCode::STREAM_NOT_MATCH => Ok(()),
                Ok(Response::Err { error }) => Err(explained(&error)),
                _ => Err(LogError::Failed(format!("another subscriber answers for partition {partition}"))),
            },
            Err(_) => Err(LogError::Unavailable(format!("partition {partition} has no leader"))),
        }
    }

    /// Repeats what brokers that have just started refuse.
    async fn prepare_soon(&self, partition: u32, until: Instant) -> Result<(), LogError> {
        loop {
            match self.prepare_one(partition).await {
                Err(LogError::Unavailable(_)) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Translates the failure of a connection.
fn unconnected(error: &ConnectError) -> LogError {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    match error.kind() {
        ConnectErrorKind::ServerParse => LogError::Failed("an address of a broker is no URL".to_owned()),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            LogError::Failed("the brokers do not accept the credentials".to_owned())
        }
        ConnectErrorKind::Tls => LogError::Failed(format!("the connection cannot be encrypted: {error}")),
        // A certificate that is not accepted.
        _ if source.is_some_and(|source| source.kind() == io::ErrorKind::InvalidData) => {
            LogError::Failed(format!("the connection cannot be encrypted: {error}"))
        }
        _ => LogError::Unavailable(format!("no broker can be reached: {error}")),
    }
}

/// Finds what makes a stream unfit for a partition.
fn differs(wanted: &stream::Config, found: &stream::Config) -> Option<String> {
    if found.num_replicas < wanted.num_replicas {
        let (has, wants) = (found.num_replicas, wanted.num_replicas);
        return Some(format!("has {has} replicas, not {wants}: raise them with nats stream edit"));
    }
    let unlimited = found.max_age.is_zero() && found.max_messages <= 0 && found.max_messages_per_subject <= 0;
    let loses = !unlimited || found.discard != DiscardPolicy::New || found.retention != RetentionPolicy::Limits;
    if loses {
        return Some(
            "may delete records that were not read: it needs discard new, retention limits, no age".to_owned(),
        );
    }
    let is_late = matches!(found.persist_mode, Some(PersistenceMode::Async));
    if found.storage != StorageType::File || found.no_ack || is_late {
        return Some("acknowledges before its records are in files, or not at all: delete it".to_owned());
    }
    (found.subjects != wanted.subjects).then(|| format!("has other subjects than {}", wanted.subjects.join(", ")))
}

/// Translates a broker's refusal of a record.
fn refused(error: &jetstream::Error) -> LogError {
    let code = error.error_code();
    if code == ErrorCode::STREAM_STORE_FAILED {
        return LogError::Failed(format!(
            "a broker cannot store the record, its partition or its disk is full: {error}"
        ));
    }
    match error.code() {
        _ if code == DUPLICATE_IN_PROGRESS => LogError::Unknown(format!("an earlier attempt is under way: {error}")),
        429 => LogError::Unavailable(error.to_string()),
        400..500 => LogError::Failed(error.to_string()),
        _ => LogError::Unknown(error.to_string()),
    }
}

/// Translates a broker's refusal of a request.
fn explained(error: &jetstream::Error) -> LogError {
    match error.code() {
        // Brokers that have just started do not know each other yet.
        _ if error.error_code() == ErrorCode::CLUSTER_NO_PEERS => LogError::Unavailable(error.to_string()),
        429 | 500..600 if error.error_code() != ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => {
            LogError::Unavailable(error.to_string())
        }
        _ => LogError::Failed(error.to_string()),
    }
}

impl Log for NatsLog {
    fn append(&self, records: &[NewRecord]) -> Vec<Result<u64, LogError>> {
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => return records.iter().map(|_| Err(error.clone())).collect(),
        };
        // One that is not acknowledged in time stops those of its partition that were not sent, so that the wait of a
        // batch has an end.
        let stopped = Mutex::default();
        let outcomes = futures::iter(records).map(|record| self.append_one(record, &stopped)).buffered(IN_FLIGHT);
        runtime.block_on(outcomes.collect())
    }

    fn read(&self, partition: u32, from: u64, bytes: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        // No stream has a position 0.
        self.runtime()?.block_on(self.read_from(partition, from.max(1), bytes, wait))
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        self.runtime()?.block_on(self.range(partition))
    }

    fn trim(&self, partition: u32, before: u64) -> Result<(), LogError> {
        #[derive(Serialize)]
        struct Purge {
            seq: u64,
        }
        self.runtime()?.block_on(async {
            let range = self.range(partition).await?;
            // Behind the last record, a purge would leave out positions.
            let seq = before.min(range.end);
            if seq <= range.start {
                return Ok(());
            }
            let subject = format!("STREAM.PURGE.{}", self.stream(partition));
            self.ask::<_, stream::PurgeResponse>(subject, &Purge { seq }).await.map(|_| ())
        })
    }

    fn prepare(&self, count: u32) -> Result<(), LogError> {
        let bad: Vec<_> = self.inspect().into_iter().filter(|finding| finding.state == Found::Bad).collect();
        if !bad.is_empty() {
            let texts: Vec<_> = bad.iter().map(ToString::to_string).collect();
            return Err(LogError::Failed(texts.join("; ")));
        }
        let until = Instant::now() + START;
        self.runtime()?.block_on(async {
            let prepared = futures::iter(0..count).map(|partition| self.prepare_soon(partition, until));
            prepared.buffered(SIDE_BY_SIDE).try_collect::<()>().await
        })
    }
}
