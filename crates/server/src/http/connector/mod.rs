//! Connectors: published releases, answers and alarms, sent to other systems, each exactly once by its number.
//!
//! | module | contents |
//! | --- | --- |
//! | `selection` | which streams and kinds a connector sends, and under which subjects |
//! | `feed` | one kind of record of one stream: what is still to be sent |
//!
//! Each connector has a thread of its own, so one whose receiver hangs delays neither streams nor other connectors. It
//! keeps no position: the [sink](Sink) tells which number it holds last. It sends for the streams that its process
//! drives. For a moment two processes may think so; the sink takes each number from one of them.

mod feed;
mod selection;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tidegate_log::LogError;
use tidegate_log::sink::{Run, Sink};

use super::Telemetry;
use super::telemetry::{Metrics, Whole};
use crate::service::Service;
use feed::{Feed, Page};
pub use selection::{ConnectorKind, Selection, SubjectError, SubjectPattern};

/// Settings of a connector.
#[derive(Clone, Debug)]
pub struct ConnectorSettings {
    /// Name in logs and metrics.
    pub name: String,
    /// Where the messages go.
    pub sink: Arc<dyn Sink>,
    /// What is sent.
    pub selection: Selection,
}

/// Pause between two looks at the streams.
const LOOK: Duration = Duration::from_millis(100);

/// Subjects that are served side by side.
const GROUP: usize = 32;

/// Pause of a subject that failed while others did not.
const RETRY: Duration = Duration::from_secs(1);

/// First and longest pause where nothing can be sent.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

type Label = [(&'static str, String); 1];
type Labels = [(&'static str, String); 3];

/// Metrics of connectors.
#[derive(Debug, Default)]
pub(super) struct ConnectorMeters {
    sent: Family<[(&'static str, String); 2], Counter>,
    missing: Family<Labels, Counter>,
    failures: Family<Label, Counter>,
    behind: Family<Label, Whole>,
}

impl ConnectorMeters {
    pub(super) fn register(&self, registry: &mut Metrics) {
        let help = "Messages that a connector has sent, by connector and kind";
        registry.register("connector_sent", help, self.sent.clone());
        let help = "Records that were deleted before a connector sent them, by connector, stream and kind";
        registry.register("connector_missing", help, self.missing.clone());
        registry.register("connector_failures", "Failed attempts to send, by connector", self.failures.clone());
        let help = "Subjects of a connector for which not everything is sent, by connector";
        registry.register("connector_behind", help, self.behind.clone());
    }

    fn sent(&self, connector: &str, kind: ConnectorKind, count: u64) {
        let labels = [("connector", connector.to_owned()), ("kind", kind.name().to_owned())];
        self.sent.get_or_create(&labels).inc_by(count);
    }
}

/// A request to stop, which ends a pause.
#[derive(Debug, Default)]
struct Stop {
    stopping: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn request(&self) {
        *self.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits at most so long. Returns whether to go on.
    fn pause(&self, pause: Duration) -> bool {
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopping, pause, |stopping| !*stopping);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Running connectors. They stop when this is dropped, after the call in progress.
#[derive(Debug)]
pub struct Connectors {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

impl Connectors {
    /// Starts a thread for each connector. Nothing waits for a receiver: one that cannot be reached is tried again.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        service: &Arc<Service>,
        telemetry: &Arc<Telemetry>,
        connectors: Vec<ConnectorSettings>,
    ) -> std::io::Result<Self> {
        let mut started = Self { stop: Arc::default(), threads: Vec::new() };
        for settings in connectors {
            let name = format!("tidegate connector {}", settings.name);
            let connector = Connector {
                settings,
                service: Arc::clone(service),
                telemetry: Arc::clone(telemetry),
                stop: Arc::clone(&started.stop),
                feeds: HashMap::new(),
            };
            started.threads.push(thread::Builder::new().name(name).spawn(move || connector.run())?);
        }
        Ok(started)
    }
}

impl Drop for Connectors {
    fn drop(&mut self) {
        self.stop.request();
        for thread in self.threads.drain(..) {
            // A thread that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

struct Connector {
    settings: ConnectorSettings,
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    stop: Arc<Stop>,
    feeds: HashMap<(Arc<str>, ConnectorKind), Feed>,
}

/// Outcome of a pass over all subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// There may be more to send at once.
    More,
    Done,
    Failed,
}

impl Connector {
    fn run(mut self) {
        let mut pause = BACKOFF.0;
        let mut is_prepared = false;
        loop {
            let outcome = if is_prepared {
                self.pass()
            } else {
                match self.settings.sink.prepare() {
                    Ok(()) => {
                        is_prepared = true;
                        Pass::More
                    }
                    Err(error) => {
                        self.complain(None, &error);
                        Pass::Failed
                    }
                }
            };
            let wait = match outcome {
                Pass::More => Duration::ZERO,
                Pass::Done => LOOK,
                Pass::Failed => pause,
            };
            pause = if outcome == Pass::Failed { (pause * 2).min(BACKOFF.1) } else { BACKOFF.0 };
            if !self.stop.pause(wait) {
                return;
            }
        }
    }

    fn meters(&self) -> &ConnectorMeters {
        self.telemetry.connectors()
    }

    fn complain(&self, subject: Option<&str>, error: &LogError) {
        let connector = &*self.settings.name;
        self.meters().failures.get_or_create(&[("connector", connector.to_owned())]).inc();
        tracing::warn!(connector, subject, %error, "messages were not sent; they are tried again");
    }

    /// Sends one page of each subject that has something to send.
    fn pass(&mut self) -> Pass {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut behind = 0;
        for (stream, published) in self.service.published() {
            for kind in self.settings.selection.kinds_of(&stream) {
                let subject = || self.settings.selection.subject.of(&stream, kind.name());
                let key = (Arc::clone(&stream), kind);
                let feed = self.feeds.entry(key.clone()).or_insert_with(|| Feed::new(&stream, kind, subject()));
                if feed.sent_through < published {
                    behind += 1;
                    if feed.retry.is_none_or(|retry| retry <= now) {
                        due.push((key, published));
                    }
                }
            }
        }
        self.meters().behind.get_or_create(&[("connector", self.settings.name.clone())]).set(behind);
        let mut outcome = Pass::Done;
        for group in due.chunks(GROUP) {
            if !self.stop.pause(Duration::ZERO) {
                return Pass::Done;
            }
            let feeds: Vec<_> =
                group.iter().filter_map(|(key, published)| Some((self.feeds.remove(key)?, *published))).collect();
            let (feeds, sent) = self.send_group(feeds);
            for (feed, published) in feeds {
                if feed.retry.is_none() && feed.sent_through < published {
                    outcome = Pass::More;
                }
                self.feeds.insert((Arc::clone(&feed.stream), feed.kind), feed);
            }
            if !sent {
                return Pass::Failed;
            }
        }
        outcome
    }

    /// Sends one page of each of these subjects. Returns them, and false where all of them failed.
    fn send_group(&self, mut feeds: Vec<(Feed, u64)>) -> (Vec<(Feed, u64)>, bool) {
        self.read_positions(&mut feeds);
        let mut pages: Vec<(usize, Page)> = Vec::new();
        for (place, (feed, published)) in feeds.iter_mut().enumerate() {
            let page = if feed.is_known() { feed.read(&self.service, *published) } else { Ok(None) };
            match page {
                Ok(page) => pages.extend(page.map(|page| (place, page))),
                Err(error) => {
                    feed.retry = Some(Instant::now() + RETRY);
                    let (connector, stream) = (&*self.settings.name, &*feed.stream);
                    tracing::warn!(connector, stream, %error, "records cannot be read");
                }
            }
        }
        let runs: Vec<Run> = pages.iter().map(|(_, page)| page.run.clone()).collect();
        let outcomes = if runs.is_empty() { Vec::new() } else { self.settings.sink.send(&runs) };
        for ((place, page), outcome) in pages.iter().zip(outcomes) {
            let feed = &mut feeds[*place].0;
            match outcome {
                Ok(last) => {
                    self.meters().sent(&self.settings.name, feed.kind, page.run.messages.len() as u64);
                    page.missing.iter().for_each(|missing| self.report_missing(feed, *missing));
                    feed.sent(last, page);
                }
                Err(error) => self.fail(feed, &error),
            }
        }
        let any_served = feeds.iter().any(|(feed, _)| feed.retry.is_none());
        (feeds, any_served)
    }

    /// Asks the sink for the positions that are not known.
    fn read_positions(&self, feeds: &mut [(Feed, u64)]) {
        let mut unknown: Vec<&mut Feed> = Vec::new();
        for (feed, _) in feeds {
            feed.retry = None;
            if !feed.is_known() {
                unknown.push(feed);
            }
        }
        if unknown.is_empty() {
            return;
        }
        let subjects: Vec<String> = unknown.iter().map(|feed| feed.subject.clone()).collect();
        for (feed, found) in unknown.into_iter().zip(self.settings.sink.last(&subjects)) {
            match found {
                Ok(last) => feed.learn(last),
                Err(error) => self.fail(feed, &error),
            }
        }
    }

    /// Notes that a subject was not served. The sink tells later what it holds.
    fn fail(&self, feed: &mut Feed, error: &LogError) {
        feed.forget();
        feed.retry = Some(Instant::now() + RETRY);
        self.complain(Some(&feed.subject), error);
    }

    fn report_missing(&self, feed: &Feed, (from, to): (u64, u64)) {
        let (connector, stream, kind) = (&*self.settings.name, &*feed.stream, feed.kind.name());
        let labels = [("connector", connector.to_owned()), ("stream", stream.to_owned()), ("kind", kind.to_owned())];
        self.meters().missing.get_or_create(&labels).inc_by(to - from + 1);
        tracing::warn!(connector, stream, kind, from, to, "these records were deleted before they were sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_stop_ends_a_pause() {
        let stop = Arc::new(Stop::default());
        assert!(stop.pause(Duration::ZERO));
        let other = Arc::clone(&stop);
        let waiting = thread::spawn(move || other.pause(Duration::from_secs(60)));
        stop.request();
        assert_eq!(waiting.join().ok(), Some(false));
        assert!(!stop.pause(Duration::from_secs(60)));
    }
}
