//! [`NatsSink`]: numbered messages on NATS JetStream.
//!
//! A message carries its number in the header [`NUMBER`]. It is appended with the sequence of the subject's last one
//! (`Nats-Expected-Last-Subject-Sequence`), so only one of two senders succeeds, and with an identity (`Nats-Msg-Id`),
//! so that the broker recognises a repetition.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{self, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, Request, RequestErrorKind, header};
use futures_util::{StreamExt, stream as futures};

use super::settings::NatsSettings;
use super::{NatsLog, explained, refused};
use crate::LogError;
use crate::sink::{Last, Message, Run, Sink};

/// Header with the number of a message.
pub const NUMBER: &str = "Tidegate-Number";

/// Subjects of one call that are served at a time.
const IN_FLIGHT: usize = 64;

/// Settings of a sink on NATS JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSinkSettings {
    /// How to reach the brokers; replicas of the stream. The prefix is not used.
    pub nats: NatsSettings,
    /// Name of the JetStream stream. It is created where it is missing.
    pub stream: String,
    /// Subjects of that stream, with wildcards.
    pub subjects: String,
    /// Messages of each subject that a new stream keeps; all where there is none.
    pub keep: Option<u64>,
}

/// Sink on NATS JetStream.
///
/// It connects at the first call, and again after an error. As of a [log](NatsLog), calls block, and none may come from
/// a task of an asynchronous runtime.
pub struct NatsSink {
    settings: NatsSinkSettings,
    connection: Mutex<Option<Arc<NatsLog>>>,
}

impl fmt::Debug for NatsSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NatsSink").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl NatsSink {
    /// Creates a sink, which connects to nothing yet.
    pub const fn new(settings: NatsSinkSettings) -> Self {
        Self { settings, connection: Mutex::new(None) }
    }

    fn connection(&self) -> Result<Arc<NatsLog>, LogError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = &*connection {
            return Ok(Arc::clone(connection));
        }
        let made = Arc::new(NatsLog::connect(self.settings.nats.clone())?);
        *connection = Some(Arc::clone(&made));
        Ok(made)
    }

    async fn prepare_stream(&self, nats: &NatsLog) -> Result<(), LogError> {
        let NatsSinkSettings { stream: name, subjects, keep, .. } = &self.settings;
        let found: stream::Info = match nats.ask(format!("STREAM.INFO.{name}"), &()).await {
            Err(LogError::Failed(_)) => {
                let wanted = stream::Config {
                    name: name.clone(),
                    description: Some("Releases, answers and alarms of tidegate".to_owned()),
                    subjects: vec![subjects.clone()],
                    max_bytes: -1,
                    max_messages: -1,
                    max_messages_per_subject: keep.map_or(-1, |keep| i64::try_from(keep).unwrap_or(i64::MAX)),
                    max_consumers: -1,
                    max_message_size: -1,
                    discard: DiscardPolicy::Old,
                    retention: RetentionPolicy::Limits,
                    storage: StorageType::File,
                    num_replicas: self.settings.nats.replicas,
                    duplicate_window: super::DUPLICATE_WINDOW,
                    allow_direct: true,
                    ..stream::Config::default()
                };
                nats.ask(format!("STREAM.CREATE.{name}"), &wanted).await?
            }
            found => found?,
        };
        match unfit(&found.config, subjects) {
            Some(fault) => Err(LogError::Failed(format!("the stream {name} {fault}"))),
            None => Ok(()),
        }
    }

    async fn last_of(&self, nats: &NatsLog, subject: &str) -> Result<Option<Last>, LogError> {
        nats.connected().await?;
        let unavailable = || LogError::Unavailable(format!("the last message of {subject} cannot be read"));
        let stream = nats.context.get_stream_no_info(&self.settings.stream).await.map_err(|_| unavailable())?;
        let limit = nats.settings.timeout.saturating_mul(2);
        // Of the leader: a follower could lag behind.
        let found = tokio::time::timeout(limit, stream.get_last_raw_message_by_subject(subject)).await;
        let message = match found.map_err(|_| unavailable())? {
            Ok(message) => message,
            Err(error) => {
                return match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => Ok(None),
                    LastRawMessageErrorKind::JetStream(error) => Err(explained(&error)),
                    LastRawMessageErrorKind::InvalidSubject | LastRawMessageErrorKind::Other => Err(unavailable()),
                };
            }
        };
        let number = message.headers.get(NUMBER).and_then(|number| number.as_str().parse().ok());
        let number = number.ok_or_else(|| {
            let what = "was not sent by tidegate: delete it, or give the connector subjects of its own";
            LogError::Failed(format!("message {} of {subject} {what}", message.sequence))
        })?;
        Ok(Some(Last { number, position: message.sequence }))
    }

    async fn send_run(&self, nats: &NatsLog, run: &Run, until: Instant) -> Result<Last, LogError> {
        let mut last = run.after;
        for message in &run.messages {
            if Instant::now() > until {
                return Err(LogError::Unavailable("not all messages were taken in time".to_owned()));
            }
            let position = self.send_one(nats, &run.subject, last, message).await?;
            last = Some(Last { number: message.number, position });
        }
        last.ok_or_else(|| LogError::Failed("a run has one message at least".to_owned()))
    }

    async fn send_one(
        &self,
        nats: &NatsLog,
        subject: &str,
        after: Option<Last>,
        message: &Message,
    ) -> Result<u64, LogError> {
        nats.connected().await?;
        let mut headers = HeaderMap::new();
        let position = after.map_or(0, |last| last.position);
        headers.insert(NUMBER, message.number.to_string());
        headers.insert(header::NATS_MESSAGE_ID, format!("{subject}/{}", message.number));
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, position.to_string());
        headers.insert(header::NATS_EXPECTED_STREAM, self.settings.stream.clone());
        let request = Request::new().headers(headers).payload(message.body.clone());
        let limit = nats.settings.timeout.saturating_mul(2);
        let sent = tokio::time::timeout(limit, nats.client.send_request(subject.to_owned(), request)).await;
        let answer = sent.map_err(|_| LogError::Unknown("no acknowledgement in time".to_owned()))?;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => {
                LogError::Unavailable("no stream takes the subject at the moment".to_owned())
            }
            RequestErrorKind::MaxPayloadExceeded => LogError::Failed(format!(
                "number {} has {} bytes, more than the brokers take: raise max_payload",
                message.number,
                message.body.len()
            )),
            RequestErrorKind::InvalidSubject => LogError::Failed(error.to_string()),
            RequestErrorKind::TimedOut | RequestErrorKind::Other => {
                LogError::Unknown(format!("no acknowledgement: {error}"))
            }
        })?;
        match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
            Ok(Response::Ok(ack)) => Ok(ack.sequence),
            Ok(Response::Err { error }) if is_overtaken(&error) => {
                Err(LogError::Unknown("another sender has appended to the subject".to_owned()))
            }
            Ok(Response::Err { error }) => Err(refused(&error)),
            Err(error) => Err(LogError::Unknown(format!("the acknowledgement is not readable: {error}"))),
        }
    }
}

fn is_overtaken(error: &jetstream::Error) -> bool {
    [ErrorCode::STREAM_WRONG_LAST_SEQUENCE, ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT]
        .contains(&error.error_code())
}

/// Says why a stream is no sink: it must take all subjects, and never lose the last message of one.
fn unfit(found: &stream::Config, subjects: &str) -> Option<String> {
    if !found.subjects.iter().any(|taken| covers(taken, subjects)) {
        return Some(format!("does not take {subjects}: add it to its subjects"));
    }
    let loses_old = found.discard == DiscardPolicy::Old && (found.max_messages > 0 || found.max_bytes > 0);
    if !found.max_age.is_zero() || loses_old || found.retention != RetentionPolicy::Limits {
        return Some(
            "may delete the last message of a subject, which says what was sent: limit it by messages per subject \
             only, and not by age, number or size"
                .to_owned(),
        );
    }
    (found.storage != StorageType::File || found.no_ack)
        .then(|| "does not keep its messages in files, or does not acknowledge".to_owned())
}

/// Whether a pattern of subjects takes all subjects of another.
fn covers(taken: &str, wanted: &str) -> bool {
    let mut wanted = wanted.split('.');
    for part in taken.split('.') {
        match (part, wanted.next()) {
            (">", Some(_)) => return true,
            ("*", Some(other)) if other != ">" => {}
            (part, Some(other)) if part == other => {}
            _ => return false,
        }
    }
    wanted.next().is_none()
}

impl Sink for NatsSink {
    fn prepare(&self) -> Result<(), LogError> {
        let nats = self.connection()?;
        nats.runtime()?.block_on(self.prepare_stream(&nats))
    }

    fn last(&self, subjects: &[String]) -> Vec<Result<Option<Last>, LogError>> {
        let all = || {
            let nats = self.connection()?;
            let found = futures::iter(subjects).map(|subject| self.last_of(&nats, subject)).buffered(IN_FLIGHT);
            Ok(nats.runtime()?.block_on(found.collect()))
        };
        all().unwrap_or_else(|error: LogError| subjects.iter().map(|_| Err(error.clone())).collect())
    }

    fn send(&self, runs: &[Run]) -> Vec<Result<Last, LogError>> {
        let all = || {
            let nats = self.connection()?;
            let until = Instant::now() + nats.settings.timeout;
            let sent = futures::iter(runs).map(|run| self.send_run(&nats, run, until)).buffered(IN_FLIGHT);
            Ok(nats.runtime()?.block_on(sent.collect()))
        };
        all().unwrap_or_else(|error: LogError| runs.iter().map(|_| Err(error.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_others() {
        for (taken, wanted, expected) in [
            ("tidegate.*.*", "tidegate.*.*", true),
            ("tidegate.>", "tidegate.*.*", true),
            (">", "tidegate.*.*", true),
            ("tidegate.*.releases", "tidegate.*.*", false),
            ("tidegate.*", "tidegate.*.*", false),
            ("tidegate.*.*.*", "tidegate.*.*", false),
            ("*.a", "tidegate.a", true),
            ("*", ">", false),
        ] {
            assert_eq!(covers(taken, wanted), expected, "{taken} {wanted}");
        }
    }

    #[test]
    fn a_sink_never_loses_the_last_message_of_a_subject() {
        let fit = stream::Config { subjects: vec!["t.>".to_owned()], max_messages: -1, ..stream::Config::default() };
        assert_eq!(unfit(&fit, "t.*.*"), None);
        assert_eq!(unfit(&stream::Config { max_messages_per_subject: 5, ..fit.clone() }, "t.*.*"), None);
        let new = stream::Config { discard: DiscardPolicy::New, max_bytes: 1_000, ..fit.clone() };
        assert_eq!(unfit(&new, "t.*.*"), None);
        for bad in [
            stream::Config { max_age: std::time::Duration::from_secs(60), ..fit.clone() },
            stream::Config { max_messages: 5, ..fit.clone() },
            stream::Config { max_bytes: 1_000, ..fit.clone() },
            stream::Config { retention: RetentionPolicy::WorkQueue, ..fit.clone() },
            stream::Config { storage: StorageType::Memory, ..fit.clone() },
        ] {
            assert!(unfit(&bad, "t.*.*").is_some(), "{bad:?}");
        }
        assert!(unfit(&fit, "u.*.*").is_some());
    }
}
