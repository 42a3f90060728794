//! Webhooks: what monitors say, and what is suspicious, sent to whom the operator of a stream wants to know.
//!
//! One thread does all of it. Whoever has something to tell puts it into a queue and goes on; where the queue is full,
//! it is dropped, and counted. A message that does not get through is tried again, after a second, then two, four, and
//! so on.

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

/// The header that has the HMAC-SHA-256 of a message's body under the [secret](WebhookSettings::secret), as `sha256=`
/// and hexadecimal digits.
pub const SIGNATURE: &str = "tidegate-signature";

/// How webhooks are called.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// What messages are signed with, so that whoever gets one knows who sent it.
    pub secret: Option<Secret>,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// How often a message is tried.
    pub attempts: u32,
    /// How long to wait after the first attempt; twice as long after each further one.
    pub pause: Duration,
    /// How many messages may wait.
    pub queue: usize,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self { secret: None, timeout: Duration::from_secs(5), attempts: 6, pause: Duration::from_secs(1), queue: 1_000 }
    }
}

/// What may have to be told.
#[derive(Debug)]
pub(super) enum Happened {
    /// Something was published: monitors may have said something.
    Published {
        stream: String,
    },
    Suspicion {
        stream: String,
        body: String,
    },
    Stop,
}

/// What became of a message.
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

/// The service that messages are about.
struct Attached {
    service: Weak<Service>,
    /// Up to which version its streams were published then: what was said before is not told again.
    published: HashMap<String, u64>,
}

/// The way to the thread.
pub(super) struct Webhooks {
    sender: SyncSender<Happened>,
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
        let caller = Caller {
            http: agent(settings.timeout),
            attached: Arc::clone(&attached),
            stopping: Arc::clone(&stopping),
            meters: Arc::clone(&meters),
            told: HashMap::new(),
            waiting: BinaryHeap::new(),
            settings,
        };
        let thread =
            thread::Builder::new().name("tidegate webhooks".to_owned()).spawn(move || caller.run(&receiver))?;
        Ok(Self { sender, attached, stopping, meters, thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn attach(&self, service: &Arc<Service>) {
        // A service that was attached before stays.
        let published =
            service.streams().into_iter().map(|stream| (stream.declaration.name, stream.published)).collect();
        let _ = self.attached.set(Attached { service: Arc::downgrade(service), published });
    }

    pub(super) fn tell(&self, happened: Happened) {
        if self.sender.try_send(happened).is_err() {
            self.meters.webhook(Outcome::Dropped);
        }
    }

    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.stopping.store(true, Ordering::Release);
            // Where the queue is full, the thread is awake and sees it.
            let _ = self.sender.try_send(Happened::Stop);
            // One that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

/// Redirects are not followed: a message goes where it was meant to go, or nowhere.
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

/// A message to one URL, at its moment.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    due: Instant,
    attempts: u32,
    stream: String,
    url: String,
    body: String,
}

struct Caller {
    settings: WebhookSettings,
    http: ureq::Agent,
    attached: Arc<OnceLock<Attached>>,
    stopping: Arc<AtomicBool>,
    meters: Arc<Meters>,
    /// Up to which number of what a stream's monitors said its webhooks were told.
    told: HashMap<String, u64>,
    waiting: BinaryHeap<Reverse<Message>>,
}

impl Caller {
    fn run(mut self, receiver: &Receiver<Happened>) {
        while !self.stopping.load(Ordering::Acquire) {
            let now = Instant::now();
            let next = self.waiting.peek().map(|Reverse(message)| message.due.saturating_duration_since(now));
            let happened = match next {
                Some(Duration::ZERO) => {
                    if let Some(Reverse(message)) = self.waiting.pop() {
                        self.send(message);
                    }
                    match receiver.try_recv() {
                        Ok(happened) => happened,
                        Err(_) => continue,
                    }
                }
                Some(wait) => match receiver.recv_timeout(wait) {
                    Ok(happened) => happened,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                None => match receiver.recv() {
                    Ok(happened) => happened,
                    Err(_) => return,
                },
            };
            match happened {
                Happened::Stop => return,
                Happened::Suspicion { stream, body } => self.put(&stream, &body),
                Happened::Published { stream } => self.read(&stream),
            }
        }
    }

    fn service(&self) -> Option<Arc<Service>> {
        self.attached.get()?.service.upgrade()
    }

    /// Puts a message to all webhooks of a stream into the queue.
    fn put(&mut self, stream: &str, body: &str) {
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

    /// Reads what monitors have said since the last time. What they said before this process began is not told again.
    fn read(&mut self, stream: &str) {
        let Some(service) = self.service() else { return };
        if service.overview(stream).is_none_or(|overview| overview.declaration.webhooks.is_empty()) {
            return;
        }
        let mut after = self.told.get(stream).copied().unwrap_or(0);
        let before = self.attached.get().and_then(|attached| attached.published.get(stream)).copied().unwrap_or(0);
        loop {
            let wanted = RecordFilter { after, ..RecordFilter::default() };
            let records = match service.records(stream, RecordKind::Answer, &wanted) {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(stream, %error, "what monitors said cannot be read");
                    return;
                }
            };
            let Some(last) = records.last() else { break };
            after = last.number;
            for record in &records {
                if record.version > before && is_of_monitor(record) {
                    self.put(stream, &message_of(stream, record));
                }
            }
        }
        self.told.insert(stream.to_owned(), after);
    }

    fn send(&mut self, mut message: Message) {
        let mut request = self.http.post(&message.url).header("content-type", "application/json");
        if let Some(signature) = self.settings.secret.as_ref().and_then(|secret| signature(secret, &message.body)) {
            request = request.header(SIGNATURE, signature);
        }
        let problem = match request.send(message.body.as_str()) {
            Ok(response) if response.status().is_success() => return self.meters.webhook(Outcome::Delivered),
            // A redirect is not followed.
            Ok(response) => format!("it answers {}", response.status().as_u16()),
            Err(error) => told(&error),
        };
        message.attempts += 1;
        // The URL may hold a secret, so that the log has the stream only.
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

/// What went wrong, without the address.
fn told(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(status) => format!("it answers {status}"),
        ureq::Error::Timeout(_) => "it takes too long".to_owned(),
        ureq::Error::Io(error) => error.kind().to_string(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        _ => "it cannot be reached".to_owned(),
    }
}

/// Whether a monitor has said it, and not a query.
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
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("sha256={digits}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Test case 2 of RFC 4231.
    #[test]
    fn messages_are_signed_by_hmac_sha_256() {
        let signed = signature(&Secret::new("Jefe".to_owned()), "what do ya want for nothing?").unwrap();
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signed, format!("sha256={expected}"));
    }
}
