//! Webhooks: messages about monitors and suspicious counts, to the URLs of a stream's operator.
//!
//! One thread sends all messages from a queue. A message that finds the queue full is dropped and counted. A failed
//! message is retried with exponential backoff.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::auth::Secret;
use super::telemetry::Meters;
use crate::service::Service;
use crate::store::{Record, RecordFilter, RecordKind};

/// Header with the HMAC-SHA-256 of a message's body under the [secret](WebhookSettings::secret): `sha256=` and
/// hexadecimal digits.
pub const SIGNATURE: &str = "tidegate-signature";

/// Settings of webhooks.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Key that signs messages, so that a receiver can verify the sender.
    pub secret: Option<Secret>,
    /// Longest time of an attempt.
    pub timeout: Duration,
    /// Most attempts of a message.
    pub attempts: u32,
    /// Pause after the first attempt, doubled after each further one.
    pub pause: Duration,
    /// Most messages that wait.
    pub queue: usize,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self { secret: None, timeout: Duration::from_secs(5), attempts: 6, pause: Duration::from_secs(1), queue: 1_000 }
    }
}

/// Reason to send messages.
#[derive(Debug)]
pub(super) enum Trigger {
    /// Records were published, perhaps answers of monitors.
    Published {
        stream: String,
    },
    Suspicion {
        stream: String,
        body: String,
    },
    Stop,
}

/// Outcome of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Delivered,
    Retried,
    Failed,
    Dropped,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// Service that messages are about.
struct Attached {
    service: Weak<Service>,
    /// Published versions at that time; earlier answers are not sent again.
    published: HashMap<String, u64>,
}

/// Handle of the thread.
pub(super) struct Webhooks {
    sender: SyncSender<Trigger>,
    attached: Arc<OnceLock<Attached>>,
    stopping: Arc<AtomicBool>,
    meters: Arc<Meters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Webhooks")
    }
}

impl Webhooks {
    pub(super) fn start(settings: WebhookSettings, meters: Arc<Meters>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(settings.queue.max(1));
        let (attached, stopping) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let worker = Sender {
            http: agent(settings.timeout),
            attached: Arc::clone(&attached),
            stopping: Arc::clone(&stopping),
            meters: Arc::clone(&meters),
            read: HashMap::new(),
            waiting: BinaryHeap::new(),
            settings,
        };
        let thread =
            thread::Builder::new().name("tidegate webhooks".to_owned()).spawn(move || worker.run(&receiver))?;
        Ok(Self { sender, attached, stopping, meters, thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn attach(&self, service: &Arc<Service>) {
        // The first service stays.
        let published =
            service.streams().into_iter().map(|stream| (stream.declaration.name, stream.published)).collect();
        let _ = self.attached.set(Attached { service: Arc::downgrade(service), published });
    }

    pub(super) fn send(&self, trigger: Trigger) {
        if self.sender.try_send(trigger).is_err() {
            self.meters.webhook(Outcome::Dropped);
        }
    }

    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.stopping.store(true, Ordering::Release);
            // With a full queue the thread is awake and sees the flag.
            let _ = self.sender.try_send(Trigger::Stop);
            // A thread that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

/// Builds the HTTP client. It follows no redirects: a message goes to its URL or nowhere.
fn agent(timeout: Duration) -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// A message to one URL, ordered by time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    due: Instant,
    attempts: u32,
    stream: String,
    url: String,
    body: String,
}

struct Sender {
    settings: WebhookSettings,
    http: ureq::Agent,
    attached: Arc<OnceLock<Attached>>,
    stopping: Arc<AtomicBool>,
    meters: Arc<Meters>,
    /// Number of the last answer of each stream that was read.
    read: HashMap<String, u64>,
    waiting: BinaryHeap<Reverse<Message>>,
}

impl Sender {
    fn run(mut self, receiver: &Receiver<Trigger>) {
        while !self.stopping.load(Ordering::Acquire) {
            let now = Instant::now();
            let next = self.waiting.peek().map(|Reverse(message)| message.due.saturating_duration_since(now));
            let trigger = match next {
                Some(Duration::ZERO) => {
                    if let Some(Reverse(message)) = self.waiting.pop() {
                        self.send(message);
                    }
                    match receiver.try_recv() {
                        Ok(trigger) => trigger,
                        Err(_) => continue,
                    }
                }
                Some(wait) => match receiver.recv_timeout(wait) {
                    Ok(trigger) => trigger,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                None => match receiver.recv() {
                    Ok(trigger) => trigger,
                    Err(_) => return,
                },
            };
            match trigger {
                Trigger::Stop => return,
                Trigger::Suspicion { stream, body } => self.queue(&stream, &body),
                Trigger::Published { stream } => self.read_answers(&stream),
            }
        }
    }

    fn service(&self) -> Option<Arc<Service>> {
        self.attached.get()?.service.upgrade()
    }

    /// Queues a message to all webhooks of a stream.
    fn queue(&mut self, stream: &str, body: &str) {
        let Some(overview) = self.service().and_then(|service| service.overview(stream)) else { return };
        for url in overview.declaration.webhooks {
            if self.waiting.len() >= self.settings.queue {
                self.meters.webhook(Outcome::Dropped);
                continue;
            }
            let (stream, body) = (stream.to_owned(), body.to_owned());
            self.waiting.push(Reverse(Message { due: Instant::now(), attempts: 0, stream, url, body }));
        }
    }

    /// Queues the answers of monitors since the last read, but none from before this process began.
    fn read_answers(&mut self, stream: &str) {
        let Some(service) = self.service() else { return };
        if service.overview(stream).is_none_or(|overview| overview.declaration.webhooks.is_empty()) {
            return;
        }
        let mut after = self.read.get(stream).copied().unwrap_or(0);
        let before = self.attached.get().and_then(|attached| attached.published.get(stream)).copied().unwrap_or(0);
        loop {
            let wanted = RecordFilter { after, ..RecordFilter::default() };
            let records = match service.records(stream, RecordKind::Answer, &wanted) {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(stream, %error, "answers of monitors cannot be read");
                    return;
                }
            };
            let Some(last) = records.last() else { break };
            after = last.number;
            for record in &records {
                if record.version > before && is_of_monitor(record) {
                    self.queue(stream, &message_of(stream, record));
                }
            }
        }
        self.read.insert(stream.to_owned(), after);
    }

    fn send(&mut self, mut message: Message) {
        let mut request = self.http.post(&message.url).header("content-type", "application/json");
        if let Some(signature) = self.settings.secret.as_ref().and_then(|secret| signature(secret, &message.body)) {
            request = request.header(SIGNATURE, signature);
        }
        let problem = match request.send(message.body.as_str()) {
            Ok(response) if response.status().is_success() => return self.meters.webhook(Outcome::Delivered),
            Ok(response) => format!("it answers {}", response.status().as_u16()),
            Err(error) => describe(&error),
        };
        message.attempts += 1;
        // The URL may contain a secret, so the log names the stream only.
        let (stream, attempts) = (&message.stream, message.attempts);
        tracing::warn!(stream, attempts, problem, "a webhook was not reached");
        if attempts >= self.settings.attempts {
            return self.meters.webhook(Outcome::Failed);
        }
        self.meters.webhook(Outcome::Retried);
        let pause = self.settings.pause.saturating_mul(1 << (attempts - 1).min(10));
        message.due = Instant::now() + pause;
        self.waiting.push(Reverse(message));
    }
}

/// Describes an error without the address.
fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(status) => format!("it answers {status}"),
        ureq::Error::Timeout(_) => "it takes too long".to_owned(),
        ureq::Error::Io(error) => error.kind().to_string(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        _ => "it cannot be reached".to_owned(),
    }
}

/// Whether an answer is of a monitor, not of a query.
pub(super) fn is_of_monitor(record: &Record) -> bool {
    let body: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(&record.body);
    body.is_ok_and(|body| body.contains_key("monitor"))
}

fn message_of(stream: &str, record: &Record) -> String {
    let Record { number, timestamp, body, .. } = record;
    format!(r#"{{"stream":"{stream}","kind":"monitor","number":{number},"timestamp":{timestamp},"said":{body}}}"#)
}

fn signature(secret: &Secret, body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()).ok()?;
    mac.update(body.as_bytes());
    Some(format!("sha256={}", hex::encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Test case 2 of RFC 4231.
    #[test]
    fn signs_messages_with_hmac_sha_256() {
        let signed = signature(&Secret::new("Jefe".to_owned()), "what do ya want for nothing?").unwrap();
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signed, format!("sha256={expected}"));
    }
}
