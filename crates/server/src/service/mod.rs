//! [`Service`]: all streams of a store, with a few threads that drive them and one for writing reports.
//!
//! | module | contents |
//! | --- | --- |
//! | `alarms` | alarms of monitors, and their acknowledgement |
//! | `agenda` | when each stream is due |
//! | `cluster` | the service as one process of a cluster |
//! | `declare` | creation of streams, other queries and another status of those that exist |
//! | `digest` | what a list shows of each stream |
//! | `handle` | shared view of a running stream |
//! | `members` | registry of the users of a stream with classes |
//! | `run` | threads that drive the streams |
//! | `tokens` | credentials and tokens of devices |

mod agenda;
mod alarms;
mod cluster;
mod declare;
mod digest;
mod handle;
mod members;
mod run;
mod tokens;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use serde::Serialize;
use tidegate::kernel::{NoEntropy, SystemRandom};
use tidegate_device::api::{OpenQuestion, OpenQuestions, Receipt};
use tidegate_device::clock::BootClock;
use tidegate_device::enrolment::PolicyError;
use tokio::sync::watch;
use tokio::time::timeout_at;

use agenda::{Agenda, Seat};
pub use alarms::{ALARM_HISTORY, Acknowledged, Alarm, AlarmCounts};
pub use cluster::Membership;
use cluster::WRITERS;
pub use declare::declaration_tag;
pub use digest::{LastRelease, Listed};
use handle::{StreamHandle, declaration_of, lock};
pub use members::{MemberError, UserClass};

use crate::cluster::Role;
use crate::driver::{DriveError, DriverEvent, Tools, Turn, progress};
use crate::ingest::admission::Admission;
use crate::ingest::commit::{Pending, commit, write_groups};
use crate::ingest::issuing::Issuing;
use crate::ingest::{CuratorEvent, EventBuffer, EventBufferError, EventError, EventRejection, ReportError};
use crate::store::clustered::ReaderFigures;
use crate::store::{BatchRejection, Record, RecordFilter, RecordKind, ReportBatch, Status, StoreError};
use crate::stream::{Declaration, DeclarationError};

/// Settings of a service.
#[derive(Debug)]
pub struct ServiceSettings {
    /// Most batches that wait for the writer.
    pub queue: usize,
    /// Key that signs policies.
    pub signer: SigningKey,
    /// Clock that spans restarts of the process. Without it a wrong wall clock could refund budgets.
    pub clock: BootClock,
}

/// Observer of a service, for metrics and webhooks. Nothing that it hears is secret. It is called on the working
/// threads, so it must not block.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Hears an event of a stream's driver.
    fn driver_event(&self, stream: &str, event: &DriverEvent);

    /// Hears that a stream's driver failed; it is opened again.
    fn failed(&self, stream: &str, error: &DriveError);

    /// Hears the outcome of a batch of reports.
    fn received(&self, stream: &str, outcome: &Result<Receipt, ReportError>);

    /// Hears of a group commit: how many batches, and how long it took.
    fn committed(&self, batches: usize, took: Duration);
}

/// Error of starting a service or creating a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ServiceError {
    #[error("there is no stream {0}")]
    NoStream(String),
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    EventBuffer(#[from] EventBufferError),
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// Change counter of a stream, for requests that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Grows with every change.
    pub round: u64,
    /// Last published version.
    pub published: u64,
}

/// Summary of a stream, from memory.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// Declaration of the stream.
    #[serde(flatten)]
    pub declaration: Declaration,
    /// Status that its operator has set.
    pub status: Status,
    /// How often it was advanced.
    pub version: u64,
    /// Last published version.
    pub published: u64,
    /// Open timestamp.
    pub open: Option<u64>,
    /// Whether this process drives it.
    pub driven: bool,
    /// Error that stops it.
    pub problem: Option<String>,
}

/// State of a stream, for metrics.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// Name of the stream.
    pub name: Arc<str>,
    /// Length of a timestamp, in seconds.
    pub tick: u64,
    /// Status that its operator has set.
    pub status: Status,
    /// Whether a trusted curator sees raw values.
    pub is_curated: bool,
    /// Whether this process drives it.
    pub is_driven: bool,
    /// Whether it is stopped or stalled.
    pub has_problem: bool,
    /// How late its next step is. For a curated stream that may depend on the number of events, so it is `None`.
    pub overdue: Option<Duration>,
}

/// All streams of a store, running.
#[derive(Debug)]
pub struct Service {
    tools: Tools,
    signer: SigningKey,
    clock: BootClock,
    observer: Arc<dyn Observer>,
    streams: RwLock<HashMap<String, Arc<StreamHandle>>>,
    commit_queue: Mutex<Option<SyncSender<Pending>>>,
    /// Batches in the queue.
    queued: Arc<AtomicUsize>,
    /// Threads that make and check tokens.
    checks: tokens::Checks,
    agenda: Arc<Agenda>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    /// Its part in a cluster; `None` where it does everything itself.
    membership: Option<Membership>,
    /// Reports that it has counted for a cluster.
    counted: Arc<ReaderFigures>,
}

/// Threads that drive streams: one may wait for a disk while another works.
fn drivers() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get).clamp(2, 8)
}

/// How late a stream's step may be until the stream counts as stalled.
const STALLED: Duration = Duration::from_secs(5);

/// How long a tick of the history waits for its release.
const HISTORY_PATIENCE: Duration = Duration::from_secs(15);

/// Returns the time, in milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Service {
    /// Starts all streams of a store, and those that are declared. Nothing is written, and no stream runs, before
    /// every declaration and every stored stream was checked. Blocks.
    ///
    /// # Errors
    /// A store older than its marks, a declaration that is invalid or changes what a stream promises, or errors of the
    /// store.
    pub fn start(
        tools: Tools,
        settings: ServiceSettings,
        declarations: &[Declaration],
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Self>, ServiceError> {
        Self::start_as(tools, settings, declarations, observer, None)
    }

    /// As [`start`](Self::start), as one process of a cluster: only the work of its role is done. Blocks.
    ///
    /// # Errors
    /// As there.
    pub fn join(
        tools: Tools,
        settings: ServiceSettings,
        declarations: &[Declaration],
        observer: Arc<dyn Observer>,
        membership: Membership,
    ) -> Result<Arc<Self>, ServiceError> {
        Self::start_as(tools, settings, declarations, observer, Some(membership))
    }

    fn start_as(
        tools: Tools,
        settings: ServiceSettings,
        declarations: &[Declaration],
        observer: Arc<dyn Observer>,
        membership: Option<Membership>,
    ) -> Result<Arc<Self>, ServiceError> {
        let names = tools.store.names()?;
        let mut marks = Vec::new();
        for name in names {
            let found = tools.store.stream(&name)?;
            if let Some(mark) = tools.marks.mark(&name)
                && mark.version > found.version
            {
                return Err(DriveError::Older { stream: name, found: found.version, marked: mark.version }.into());
            }
            EventBuffer::new(&declaration_of(&found)?)?;
            marks.push((name, progress(&found)?));
        }
        for declaration in declarations {
            declaration.check()?;
            EventBuffer::new(declaration)?;
            match tools.store.stream(&declaration.name) {
                Ok(found) => declaration.follows(&declaration_of(&found)?)?,
                Err(StoreError::NoStream(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !tools.marks.is_shared() {
            tools.marks.raise_all(&marks).map_err(DriveError::Mark)?;
        }
        let (sender, receiver) = sync_channel(settings.queue.max(1));
        let service = Arc::new(Self {
            observer: Arc::clone(&observer),
            signer: settings.signer,
            clock: settings.clock,
            streams: RwLock::default(),
            commit_queue: Mutex::new(Some(sender)),
            queued: Arc::default(),
            checks: tokens::Checks::new(),
            agenda: Arc::new(Agenda::new(drivers())),
            threads: Mutex::default(),
            stopping: Arc::default(),
            membership,
            counted: Arc::default(),
            tools,
        });
        let started = service.start_all(declarations, receiver);
        started.inspect_err(|_| service.stop())?;
        Ok(service)
    }

    /// Starts the threads before anything is stored, then stores the declarations and opens all streams.
    fn start_all(
        self: &Arc<Self>,
        declarations: &[Declaration],
        batches: Receiver<Pending>,
    ) -> Result<(), ServiceError> {
        let batches = Arc::new(Mutex::new(batches));
        for number in 0..self.membership.as_ref().map_or(1, |_| WRITERS) {
            let (store, source) = (Arc::clone(&self.tools.store), self.tools.holder.clone());
            let (observer, queued) = (Arc::clone(&self.observer), Arc::clone(&self.queued));
            let batches = Arc::clone(&batches);
            let work = move || write_groups(&*store, &source, &batches, &queued, &*observer);
            self.spawn(&format!("writer {number}"), work)?;
        }
        let drives = self.membership.as_ref().is_none_or(Membership::drives);
        for number in 0..if drives { drivers() } else { 0 } {
            let (agenda, tools) = (Arc::clone(&self.agenda), self.tools.clone());
            let (clock, observer, mut random) = (self.clock, Arc::clone(&self.observer), SystemRandom::new()?);
            let fleet = self.membership.as_ref().map(|membership| Arc::clone(&membership.fleet));
            let work = move || run::drive(&agenda, &tools, fleet.as_deref(), clock, &mut random, &*observer);
            self.spawn(&format!("driver {number}"), work)?;
        }
        match &self.membership {
            None => self.record(declarations)?,
            Some(membership) => {
                if membership.fleet.role() == Role::Gateway {
                    self.record(declarations)?;
                }
                self.take_part(membership)?;
                if !membership.knows_streams() {
                    return Ok(());
                }
            }
        }
        self.tools.store.names()?.iter().try_for_each(|name| self.start_stream(name))
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ServiceError> {
        let thread = thread::Builder::new().name(format!("tidegate {name}")).spawn(work);
        lock(&self.threads).push(thread.map_err(ServiceError::Thread)?);
        Ok(())
    }

    /// Starts to drive a stored stream, unless this process does already.
    fn start_stream(&self, name: &str) -> Result<(), ServiceError> {
        let found = self.tools.store.stream(name)?;
        let declaration = declaration_of(&found)?;
        let buffer = EventBuffer::new(&declaration)?.map(Arc::new);
        let issuing = Issuing::new(&declaration, self.signer.as_bytes()).map(Arc::new);
        let handle = Arc::new(StreamHandle::new(found, declaration, buffer, issuing));
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if streams.contains_key(name) {
            return Ok(());
        }
        streams.insert(name.to_owned(), Arc::clone(&handle));
        drop(streams);
        if self.membership.as_ref().is_some_and(|membership| !membership.drives()) {
            handle.outdate();
            return Ok(());
        }
        let turn = Turn { stream: Arc::clone(&handle.name), buffer: handle.buffer.clone(), driver: None };
        self.agenda.add(Seat { handle, turn, backoff: run::BACKOFF.0 });
        Ok(())
    }

    fn handle(&self, stream: &str) -> Option<Arc<StreamHandle>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner).get(stream).cloned()
    }

    /// Returns all streams, ordered by name.
    pub fn streams(&self) -> Vec<Overview> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = streams.keys().cloned().collect();
        drop(streams);
        names.sort();
        names.iter().filter_map(|name| self.overview(name)).collect()
    }

    /// Returns the summary of a stream.
    pub fn overview(&self, stream: &str) -> Option<Overview> {
        let handle = self.handle(stream)?;
        let open_tick = handle.buffer.as_ref().and_then(|buffer| buffer.open_timestamp());
        let view = lock(&handle.view);
        Some(Overview {
            declaration: (*view.declaration).clone(),
            status: view.status,
            version: view.version,
            published: view.published,
            open: view.questions.first().map(|open| open.question.timestamp).or(open_tick),
            driven: view.driven,
            problem: view.problem.clone().or_else(|| self.stall(stream)),
        })
    }

    /// Says that a stream's step is late. It does not say by how much, which may depend on the events of a curator.
    fn stall(&self, stream: &str) -> Option<String> {
        let is_stalled = self.agenda.overdue(stream) > STALLED;
        is_stalled.then(|| {
            format!(
                "its step is late by more than {} seconds: store, marks or processor are too slow",
                STALLED.as_secs()
            )
        })
    }

    /// Returns the states of all streams, for metrics.
    pub fn states(&self) -> Vec<StreamState> {
        let streams: Vec<_> = self.streams.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let state = |handle: Arc<StreamHandle>| {
            let overdue = self.agenda.overdue(&handle.name);
            let view = lock(&handle.view);
            StreamState {
                name: Arc::clone(&handle.name),
                tick: view.declaration.tick.get(),
                status: view.status,
                is_curated: handle.buffer.is_some(),
                is_driven: view.driven,
                has_problem: view.problem.is_some() || overdue > STALLED,
                overdue: handle.buffer.is_none().then_some(overdue),
            }
        };
        streams.into_iter().map(state).collect()
    }

    /// Returns the number of batches of reports that wait for the store.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// Returns the size of the store, in bytes. Blocks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn store_bytes(&self) -> Result<u64, StoreError> {
        self.tools.store.bytes()
    }

    /// Returns the signed policy of a stream, as JSON; `None` for an unknown or curated stream.
    pub fn policy(&self, stream: &str) -> Option<Arc<str>> {
        self.handle(stream)?.policy.clone()
    }

    /// Returns the public key with which devices verify policies.
    pub fn operator_key(&self) -> [u8; 32] {
        self.signer.verifying_key().to_bytes()
    }

    /// Returns the open questions of a stream.
    pub fn asking(&self, stream: &str) -> Option<OpenQuestions> {
        let handle = self.handle(stream)?;
        // Read the round first: after a change in between, a request that waits for a later round is woken at once.
        let round = handle.change.borrow().round;
        let questions = Arc::clone(&lock(&handle.view).questions);
        let asked = |open: &Arc<Admission>| OpenQuestion {
            question: open.question.clone(),
            report_length: open.report_length,
            closes: open.closes,
        };
        Some(OpenQuestions { stream: stream.to_owned(), round, questions: questions.iter().map(asked).collect() })
    }

    /// Subscribes to the changes of a stream.
    pub fn changes(&self, stream: &str) -> Option<watch::Receiver<Change>> {
        Some(self.handle(stream)?.change.subscribe())
    }

    /// Accepts a batch of reports. It is durable when this returns. In a stream with credentials, it needs a runtime of
    /// tokio, on whose blocking threads tokens are checked.
    ///
    /// # Errors
    /// Reasons why no report was accepted. After [`ReportError::Store`] and [`ReportError::Busy`] the batch can be sent
    /// again as it is. [`ReportError::Busy`] if tokens are not checked by the deadline: then nothing was written.
    pub async fn report(&self, stream: &str, body: Bytes, deadline: Instant) -> Result<Receipt, ReportError> {
        let outcome = self.accept_report(stream, body, deadline).await;
        self.observer.received(stream, &outcome);
        outcome
    }

    async fn accept_report(&self, stream: &str, body: Bytes, deadline: Instant) -> Result<Receipt, ReportError> {
        let handle = self.handle(stream).ok_or(BatchRejection::NoStream)?;
        let mut admission = None;
        let batch = ReportBatch::parse_with(&handle.name, body, |batch| {
            if batch.stream != handle.tag {
                return Err(ReportError::OtherStream);
            }
            tokens::expect(batch, handle.issuing.is_some())?;
            let (timestamp, phase) = (batch.timestamp, batch.phase);
            let questions = Arc::clone(&lock(&handle.view).questions);
            let is_asked =
                |open: &&Arc<Admission>| (open.question.timestamp, open.question.phase) == (timestamp, phase);
            let open = questions.iter().find(is_asked).ok_or(BatchRejection::NotOpen { timestamp, phase })?;
            open.admit(batch).inspect(|_| admission = Some(Arc::clone(open)))
        })?;
        let (batch, wrong) = match &handle.issuing {
            Some(issuing) => {
                let checked = timeout_at(deadline.into(), self.check_tokens(issuing, batch)).await;
                checked.unwrap_or(Err(ReportError::Busy))?
            }
            None => (batch, 0),
        };
        if wrong == batch.len() {
            return Ok(Receipt { wrong_token: wrong as u64, ..Receipt::default() });
        }
        let queue = lock(&self.commit_queue).clone();
        let receipt = match (queue, admission) {
            (Some(queue), Some(admission)) => commit(queue, &self.queued, admission, batch).await?,
            _ => return Err(ReportError::Busy),
        };
        // The store knows no tokens: for it, all rejected reports are implausible.
        let implausible = receipt.implausible.saturating_sub(wrong as u64);
        Ok(Receipt { implausible, wrong_token: wrong as u64, ..receipt })
    }

    /// Adds events to the open tick of a curated stream, in memory only. Returns how many were accepted.
    /// [`EventBuffer::push`] says when the timestamp is needed.
    ///
    /// # Errors
    /// The reason why an event was rejected; those before it were accepted.
    pub fn push_events(
        &self,
        stream: &str,
        timestamp: Option<u64>,
        events: Vec<CuratorEvent>,
    ) -> Result<usize, EventError> {
        let handle = self.handle(stream).ok_or_else(|| EventError::NoStream(stream.to_owned()))?;
        let buffer = handle.buffer.as_ref().ok_or(EventError::NotCurated)?;
        match buffer.push(now(), timestamp, events) {
            (accepted, None) => Ok(accepted),
            (accepted, Some(reason)) => Err(EventError::Rejected { accepted, reason }),
        }
    }

    /// Releases a whole tick of the history of a stream that is not live yet. It is durable when this returns. Returns
    /// the number of events. Blocks.
    ///
    /// # Errors
    /// After [`EventError::Unknown`] send the same tick again: it is refused as over if it was released.
    pub fn push_history(&self, stream: &str, timestamp: u64, events: Vec<CuratorEvent>) -> Result<usize, EventError> {
        let handle = self.handle(stream).ok_or_else(|| EventError::NoStream(stream.to_owned()))?;
        let buffer = handle.buffer.as_ref().ok_or(EventError::NotCurated)?;
        let (is_driven, is_live, is_paused) = {
            let view = lock(&handle.view);
            let is_live = !view.declaration.backfill || view.status == Status::Retired;
            (view.driven, is_live, view.status == Status::Paused)
        };
        if is_live {
            return Err(EventError::Live);
        }
        if is_paused {
            return Err(EventError::Rejected { accepted: 0, reason: EventRejection::Paused });
        }
        if !is_driven {
            return Err(EventError::Unknown);
        }
        let count = events.len();
        let outcome = buffer.offer_past(timestamp, events);
        let outcome = outcome.map_err(|(accepted, reason)| EventError::Rejected { accepted, reason })?;
        self.agenda.wake(stream);
        let outcome = outcome.recv_timeout(HISTORY_PATIENCE);
        if outcome.is_err() {
            buffer.withdraw_past();
        }
        match outcome {
            Ok(Ok(())) => Ok(count),
            Ok(Err(reason)) => Err(EventError::Rejected { accepted: 0, reason }),
            Err(_) => Err(EventError::Unknown),
        }
    }

    /// Returns published records of a stream. Blocks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn records(&self, stream: &str, kind: RecordKind, filter: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.tools.store.records(stream, kind, filter)
    }

    /// Returns the number of the published record after which there are `later` ones; zero where there is none. Blocks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError> {
        self.tools.store.latest(stream, kind, later)
    }

    /// Checks that reports can be accepted, and that their streams can be driven and published. Blocks.
    ///
    /// # Errors
    /// The reason why not.
    pub fn ready(&self) -> Result<(), StoreError> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("the service is stopping".to_owned()));
        }
        if lock(&self.threads).iter().any(JoinHandle::is_finished) {
            return Err(StoreError::Failed("a thread of the service has stopped".to_owned()));
        }
        let (opening, all) = self.agenda.opening();
        if opening > 0 {
            return Err(StoreError::Unavailable(format!("{opening} of {all} streams are still being opened")));
        }
        let streams: Vec<_> = self.streams.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        if !streams.is_empty() && streams.iter().all(|handle| lock(&handle.view).problem.is_some()) {
            return Err(StoreError::Failed("no stream can be driven".to_owned()));
        }
        let unmarked = |error| StoreError::Failed(format!("the high-water marks cannot be raised: {error}"));
        self.tools.marks.check().map_err(unmarked)?;
        self.tools.store.check()
    }

    /// Stops the service: commits the reports that wait, and releases all leases. Blocks.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        lock(&self.commit_queue).take();
        self.agenda.stop();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A thread that panicked has stopped, too.
            let _ = thread.join();
        }
        run::release_leases(self.agenda.take_all(), &self.tools);
    }
}
