//! Webhooks: messages about monitors and suspicious counts, to the URLs of a stream's operator.
//!
//! | module | contents |
//! | --- | --- |
//! | `queues` | a queue for each URL, with retries |
//! | `delivery` | an attempt: allowed addresses, signature |
//!
//! One thread makes messages of what was published. A few threads send them, each URL's in order and one at a time, so
//! a receiver that hangs delays nobody else's messages.

mod delivery;
mod queues;

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use delivery::SIGNATURE;
use delivery::{Attempt, Delivery};
use queues::{Message, Queues};

use super::auth::Secret;
use super::network::Network;
use super::telemetry::Meters;
use crate::service::Service;
use crate::store::{Record, RecordFilter, RecordKind};

/// Settings of webhooks.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Key that signs messages, so that a receiver can verify the sender.
    pub secret: Option<Secret>,
    /// Networks that may get messages, besides the public Internet.
    pub networks: Vec<Network>,
    /// Longest time of an attempt.
    pub timeout: Duration,
    /// Most attempts of a message.
    pub attempts: u32,
    /// Pause of a URL after its first failure, doubled after each further one in a row.
    pub pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
    /// Most messages that wait for a URL.
    pub queue: usize,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            secret: None,
            networks: Vec::new(),
            timeout: Duration::from_secs(5),
            attempts: 6,
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
            queue: 100,
        }
    }
}

/// Most reasons to send messages that wait.
const TRIGGERS: usize = 1_000;

/// Threads that send.
const SENDERS: usize = 8;

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
    Refused,
}

impl Outcome {
    /// All outcomes.
    pub(super) const ALL: [Self; 5] = [Self::Delivered, Self::Retried, Self::Failed, Self::Dropped, Self::Refused];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
        }
    }
}

/// Service that messages are about.
struct Attached {
    service: Weak<Service>,
    /// Published versions at that time; earlier answers are not sent again.
    published: HashMap<String, u64>,
}

/// Handle of the threads.
pub(super) struct Webhooks {
    sender: SyncSender<Trigger>,
    attached: Arc<OnceLock<Attached>>,
    queues: Arc<Queues>,
    meters: Arc<Meters>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Webhooks")
    }
}

impl Webhooks {
    pub(super) fn start(settings: WebhookSettings, meters: Arc<Meters>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(TRIGGERS);
        let attached = Arc::new(OnceLock::new());
        let queues = Arc::new(Queues::new(&settings));
        let webhooks = Self {
            sender,
            attached: Arc::clone(&attached),
            queues: Arc::clone(&queues),
            meters: Arc::clone(&meters),
            threads: Mutex::default(),
        };
        for _ in 0..SENDERS {
            let (queues, meters) = (Arc::clone(&queues), Arc::clone(&meters));
            let delivery = Delivery::new(&settings);
            webhooks.spawn(move || send_all(&queues, &delivery, &meters))?;
        }
        let writer = Writer { attached, queues, meters, read: HashMap::new() };
        webhooks.spawn(move || writer.run(&receiver))?;
        Ok(webhooks)
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("tidegate webhooks".to_owned()).spawn(work)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
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
        self.queues.stop();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // With a full channel the thread is awake, and sees that the queues have stopped.
        let _ = self.sender.try_send(Trigger::Stop);
        for thread in threads {
            // A thread that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

/// Sends messages until the queues stop. This is the body of a sending thread.
fn send_all(queues: &Queues, delivery: &Delivery, meters: &Meters) {
    while let Some((url, message)) = queues.next() {
        let attempt = delivery.attempt(&url, &message.body);
        if let Attempt::Failed(problem) | Attempt::Refused(problem) = &attempt {
            // The URL may contain a secret, so the log names the stream only.
            tracing::warn!(stream = &*message.stream, problem, "a webhook was not reached");
        }
        meters.webhook(queues.finish(&url, &attempt));
    }
}

/// Makes messages of what was published.
struct Writer {
    attached: Arc<OnceLock<Attached>>,
    queues: Arc<Queues>,
    meters: Arc<Meters>,
    /// Number of the last answer of each stream that was read.
    read: HashMap<String, u64>,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Trigger>) {
        while let Ok(trigger) = receiver.recv() {
            match trigger {
                Trigger::Stop => return,
                _ if self.queues.has_stopped() => return,
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
            let message = Message { stream: stream.into(), body: body.into() };
            if !self.queues.add(url, message) {
                self.meters.webhook(Outcome::Dropped);
            }
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
