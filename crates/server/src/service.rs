//! [`Service`]: all streams of a store, driven by threads of their own, and the one thread that takes reports in.
//!
//! **Group commit.** Making something safe takes a disk milliseconds, however much it is. So reports wait for each
//! other: while one transaction is on its way to the disk, batches gather, and the next transaction takes all of them.
//! A report is acknowledged when its transaction is safe.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use ed25519_dalek::SigningKey;
use serde::Serialize;
use tidegate::kernel::{NoEntropy, Question, SystemRandom};
use tidegate::spec::StreamSpec;
use tidegate_device::api::{OpenQuestion, OpenQuestions, Receipt};
use tidegate_device::clock::BootClock;
use tidegate_device::enrolment::PolicyError;
use tidegate_device::wire::{Batch, StreamTag, WireError};
use tokio::sync::{oneshot, watch};

use crate::engine::{
    DriveError, Driver, News, NotTold, Now, Told, Tools, Tray, TrayError, first_state, honest_ones, progress,
};
use crate::store::{
    Intake, NewStream, NotTaken, OpenPhase, Record, Records, Status, Store, StoreError, Stream, Wanted, digests,
};
use crate::stream::{Declaration, DeclarationError};

/// What a service is set to.
#[derive(Debug)]
pub struct ServiceSettings {
    /// How many batches may wait for the writer.
    pub queue: usize,
    /// What policies are signed with.
    pub signer: SigningKey,
    /// The clocks. A steady clock that does not span restarts would let a wrong wall clock refund budgets, so there is
    /// no service without one that does.
    pub clock: BootClock,
}

/// Hears what happens, to count it or to tell others. None of it is secret. Called on the threads that do the work: it
/// must not block.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Something happened to a stream.
    fn news(&self, stream: &str, news: &News);

    /// A stream's driver stopped; it is opened again.
    fn failed(&self, stream: &str, error: &DriveError);

    /// Reports were taken, or not.
    fn received(&self, stream: &str, outcome: &Result<Receipt, ReportError>);

    /// A transaction with so many batches took so long.
    fn committed(&self, batches: usize, took: Duration);
}

/// Why a service does not start, or a stream is not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// There is no such stream.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// A declaration that cannot be followed.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// A policy that cannot be signed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A state that cannot be made or read.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What a curator is told has no place.
    #[error(transparent)]
    Tray(#[from] TrayError),
    /// The operating system gives no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The operating system gives no thread.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// Why a batch was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// It is no batch.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It is for another stream.
    #[error("the batch is for another stream")]
    OtherStream,
    /// It is not taken.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// Many more devices have reported than there are: somebody makes them up, and more are not counted.
    #[error("far more reports than the stream has devices")]
    Crowded,
    /// Too many wait: send it again later.
    #[error("too many batches wait to be written; send it again")]
    Busy,
    /// The store failed: whether it was taken is not known. Send it again.
    #[error("the store is not available; send it again")]
    Store,
}

/// Why what a curator was told was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TellError {
    /// There is no such stream.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// The stream's values are seen by nobody but devices.
    #[error("devices of this stream report for themselves; nobody is told a value")]
    NotCurated,
    /// The first so many were taken, and the next was not.
    #[error("{why}")]
    NotTold {
        /// How many were taken.
        taken: usize,
        /// Why the next was not.
        why: NotTold,
    },
}

/// What changes about a stream, for those who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Grows with every change.
    pub round: u64,
    /// Up to which version it is published.
    pub published: u64,
}

/// A stream, as far as it can be told without asking the store.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// What was declared.
    #[serde(flatten)]
    pub declaration: Declaration,
    /// What its operator wants.
    pub status: Status,
    /// How often it was advanced.
    pub version: u64,
    /// Up to which version it is published.
    pub published: u64,
    /// The timestamp that devices are asked about, or a curator is told about.
    pub open: Option<u64>,
    /// Whether this process drives it.
    pub driven: bool,
    /// What keeps it from going on.
    pub problem: Option<String>,
}

/// A stream of this service.
#[derive(Debug)]
struct Running {
    name: String,
    tag: StreamTag,
    policy: Option<Arc<str>>,
    tray: Option<Arc<Tray>>,
    shared: Mutex<Shared>,
    change: watch::Sender<Change>,
    /// Whether something was declared anew, so that the driver has to be opened again.
    reopen: AtomicBool,
    /// Whether the driver is to look again at once.
    poked: Mutex<bool>,
    poke: Condvar,
}

#[derive(Debug)]
struct Shared {
    declaration: Arc<Declaration>,
    status: Status,
    /// How often operators have set the status: one that was read before the last of these is not shown any more.
    set: u64,
    version: u64,
    published: u64,
    driven: bool,
    questions: Arc<[Arc<Open>]>,
    problem: Option<String>,
}

impl Shared {
    /// A status that was read when operators had set it so many times, or what they have set since.
    const fn newer(&self, read: Status, set: u64) -> Status {
        if self.set == set { read } else { self.status }
    }
}

/// An open question, with what is known of honest reports.
#[derive(Debug)]
struct Open {
    question: Question,
    report_length: usize,
    closes: u64,
    ones: Option<std::ops::RangeInclusive<u32>>,
    /// How many reports are taken at most.
    most: u64,
    /// How many were taken by this process.
    taken: AtomicU64,
}

/// How many times as many devices as declared may report: the declaration is a guess, but memory and the harm that
/// made-up devices do must have an end.
const CROWD: f64 = 4.0;

impl Open {
    fn of(open: &OpenPhase, declaration: &Declaration) -> Option<Self> {
        let oracle = open.question.oracle().ok()?;
        let (report_length, ones) = (oracle.report_length(), honest_ones(&oracle));
        let (question, closes) = (open.question.clone(), open.closes);
        let StreamSpec::Local(spec) = &declaration.spec else { return None };
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a bound
        let most = (CROWD * question.cohort.share() * spec.population().unwrap_or(0) as f64) as u64 + 1_000;
        Some(Self { question, report_length, closes, ones, most, taken: AtomicU64::new(0) })
    }

    /// All that are open, with what is known of those that were before.
    fn all(open: &[OpenPhase], before: &Arc<[Arc<Self>]>, declaration: &Declaration) -> Arc<[Arc<Self>]> {
        let known = |open: &OpenPhase| before.iter().find(|before| before.question == open.question).cloned();
        let each = |open| known(open).or_else(|| Self::of(open, declaration).map(Arc::new));
        open.iter().filter_map(each).collect()
    }

    /// The positions of reports that no honest device sends.
    fn implausible(&self, batch: &Batch<'_>) -> Vec<usize> {
        let Some(ones) = &self.ones else { return Vec::new() };
        let count = |report: &[u8]| report.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let strange = batch.iter().enumerate().filter(|(_, (_, report))| !ones.contains(&count(report)));
        strange.map(|(position, _)| position).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn poke(&self) {
        *lock(&self.poked) = true;
        self.poke.notify_all();
    }

    /// Sleeps until it is time, or somebody pokes.
    fn sleep(&self, most: Duration) {
        let guard = lock(&self.poked);
        let waited = self.poke.wait_timeout_while(guard, most, |poked| !*poked);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Lets others see where the stream is. Whoever waits is woken where something changed.
    fn show(&self, change: impl FnOnce(&mut Shared) -> bool) {
        let mut shared = lock(&self.shared);
        let changed = change(&mut shared);
        let published = shared.published;
        drop(shared);
        if changed {
            self.change.send_modify(|change| {
                change.round += 1;
                change.published = published;
            });
        }
    }

    fn show_driver(&self, driver: &Driver, tools: &Tools) -> Result<(), StoreError> {
        let set = lock(&self.shared).set;
        let status = tools.store.status(&self.name)?.0;
        let questions = driver.questions();
        self.show(|shared| {
            let status = shared.newer(status, set);
            let same_questions = shared.questions.len() == questions.len()
                && shared.questions.iter().zip(questions).all(|(old, new)| old.question == new.question);
            let now = (driver.version(), driver.published(), status, true);
            let changed = !same_questions || now != (shared.version, shared.published, shared.status, shared.driven);
            (shared.version, shared.published, shared.status, shared.driven) = now;
            shared.problem = None;
            if !same_questions {
                shared.questions = Open::all(questions, &shared.questions, &shared.declaration);
            }
            changed
        });
        Ok(())
    }

    fn show_problem(&self, problem: String) {
        self.show(|shared| {
            let changed = shared.problem.as_ref() != Some(&problem) || shared.driven;
            (shared.problem, shared.driven) = (Some(problem), false);
            changed
        });
    }

    /// What another process does with the stream. This one notes how far that has come, too: it may be the next to
    /// drive.
    fn show_other(&self, tools: &Tools) -> Result<(), DriveError> {
        let (known, set) = {
            let shared = lock(&self.shared);
            (shared.version, shared.set)
        };
        let stream = tools.store.stream(&self.name)?;
        if stream.version != known {
            tools.marks.raise(&self.name, progress(&stream)?).map_err(DriveError::Mark)?;
        }
        let declaration = declared(&stream)?;
        self.show(|shared| {
            let now = (stream.version, stream.published, shared.newer(stream.status, set), false);
            let changed = now != (shared.version, shared.published, shared.status, shared.driven)
                || *shared.declaration != declaration;
            (shared.version, shared.published, shared.status, shared.driven) = now;
            shared.problem = None;
            if changed {
                shared.declaration = Arc::new(declaration);
                shared.questions = Open::all(&stream.open, &shared.questions, &shared.declaration);
            }
            changed
        });
        Ok(())
    }
}

/// What was declared of a stream.
fn declared(stream: &Stream) -> Result<Declaration, DriveError> {
    serde_json::from_str(&stream.declaration)
        .map_err(|error| DriveError::State { stream: stream.name.clone(), problem: error.to_string() })
}

/// A batch on its way to the store.
struct Job {
    stream: Arc<Running>,
    open: Arc<Open>,
    body: Bytes,
    implausible: Vec<usize>,
    /// Of each report: the writer, of whom there is one, has enough to do.
    digests: Vec<u64>,
    reply: oneshot::Sender<Result<Receipt, ReportError>>,
}

/// How many batches go into one transaction, at most.
const GROUP: usize = 256;
/// How many bytes of batches.
const GROUP_BYTES: usize = 32 << 20;
/// How long a driver waits before it is opened again after an error, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How often a process looks at a stream that another drives.
const LOOK: Duration = Duration::from_millis(500);

/// All streams of a store, running.
#[derive(Debug)]
pub struct Service {
    tools: Tools,
    signer: SigningKey,
    clock: BootClock,
    observer: Arc<dyn Observer>,
    streams: RwLock<HashMap<String, Arc<Running>>>,
    writer: Mutex<Option<SyncSender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
}

/// The time, in milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Service {
    /// Takes up all streams of a store.
    ///
    /// # Errors
    /// A store that cannot be read, a stream whose state is older than what was published, or no threads.
    pub fn start(
        tools: Tools,
        settings: ServiceSettings,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Self>, ServiceError> {
        let names = tools.store.names()?;
        for name in &names {
            let found = tools.store.stream(name)?;
            if let Some(mark) = tools.marks.mark(name)
                && mark.version > found.version
            {
                let (stream, found, marked) = (name.clone(), found.version, mark.version);
                return Err(DriveError::Older { stream, found, marked }.into());
            }
            tools.marks.raise(name, progress(&found)?).map_err(DriveError::Mark)?;
        }
        let (sender, receiver) = sync_channel(settings.queue.max(1));
        let service = Arc::new(Self {
            observer: Arc::clone(&observer),
            signer: settings.signer,
            clock: settings.clock,
            streams: RwLock::default(),
            writer: Mutex::new(Some(sender)),
            threads: Mutex::default(),
            stopping: Arc::default(),
            tools,
        });
        let (store, source) = (Arc::clone(&service.tools.store), service.tools.holder.clone());
        service.spawn("writer", move || write(&*store, &source, &receiver, &*observer))?;
        for name in &names {
            service.take_up(name)?;
        }
        Ok(service)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ServiceError> {
        let thread = thread::Builder::new().name(format!("tidegate {name}")).spawn(work);
        lock(&self.threads).push(thread.map_err(ServiceError::Thread)?);
        Ok(())
    }

    /// Begins to drive a stream of the store.
    fn take_up(&self, name: &str) -> Result<(), ServiceError> {
        let found = self.tools.store.stream(name)?;
        let declaration = declared(&found)?;
        let questions = Open::all(&found.open, &Arc::default(), &declaration);
        let tray = Tray::of(&declaration)?.map(Arc::new);
        let running = Arc::new(Running {
            name: name.to_owned(),
            tag: StreamTag::of(name),
            policy: (!found.policy.is_empty()).then(|| found.policy.into()),
            tray,
            shared: Mutex::new(Shared {
                declaration: Arc::new(declaration),
                status: found.status,
                set: 0,
                version: found.version,
                published: found.published,
                driven: false,
                questions,
                problem: None,
            }),
            change: watch::Sender::new(Change { round: found.version, published: found.published }),
            reopen: AtomicBool::new(false),
            poked: Mutex::default(),
            poke: Condvar::new(),
        });
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if streams.contains_key(name) {
            return Ok(());
        }
        streams.insert(name.to_owned(), Arc::clone(&running));
        drop(streams);
        let (tools, observer, stopping) = (self.tools.clone(), Arc::clone(&self.observer), Arc::clone(&self.stopping));
        let clock = self.clock;
        self.spawn(name, move || drive(&running, &tools, clock, &*observer, &stopping))
    }

    fn running(&self, stream: &str) -> Option<Arc<Running>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner).get(stream).cloned()
    }

    /// Creates a stream; or, where there is one of this name that promises the same, takes over what else is declared.
    /// Blocks.
    ///
    /// # Errors
    /// A declaration that cannot be followed, or promises something else than the stream does.
    pub fn create(&self, declaration: &Declaration) -> Result<(), ServiceError> {
        declaration.check()?;
        let name = &declaration.name;
        let text = to_json(name, declaration)?;
        let mut slot_key = [0; 16];
        getrandom::fill(&mut slot_key).map_err(|error| ServiceError::Entropy(error.into()))?;
        let policy = match declaration.policy(slot_key)? {
            Some(policy) => to_json(name, &policy.sign(&self.signer)?)?,
            None => String::new(),
        };
        let state = first_state(declaration, 0, self.tools.key.as_deref())?;
        let new = NewStream { name, declaration: &text, policy: &policy, state: &state };
        match self.tools.store.create(&new) {
            Ok(()) => {}
            // Where the outcome is unknown, what is there tells.
            Err(StoreError::Exists(_) | StoreError::Unknown(_)) => {
                let found = self.tools.store.stream(name)?;
                let earlier = declared(&found)?;
                declaration.follows(&earlier)?;
                if *declaration != earlier {
                    let redeclared = self.tools.store.redeclare(name, &text);
                    // Whether it happened or not, the driver reads what is there.
                    if let Some(running) = self.running(name) {
                        running.reopen.store(true, Ordering::Release);
                        running.poke();
                    }
                    redeclared?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        self.take_up(name)
    }

    /// Sets what an operator wants of a stream. Blocks.
    ///
    /// # Errors
    /// No such stream, or a retired one.
    pub fn set_status(&self, stream: &str, status: Status) -> Result<(), ServiceError> {
        let running = self.running(stream).ok_or_else(|| ServiceError::NoStream(stream.to_owned()))?;
        self.tools.store.set_status(stream, status)?;
        running.show(|shared| {
            shared.set += 1;
            std::mem::replace(&mut shared.status, status) != status
        });
        running.poke();
        Ok(())
    }

    /// All streams, by name.
    pub fn streams(&self) -> Vec<Overview> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = streams.keys().cloned().collect();
        drop(streams);
        names.sort();
        names.iter().filter_map(|name| self.overview(name)).collect()
    }

    /// A stream.
    pub fn overview(&self, stream: &str) -> Option<Overview> {
        let running = self.running(stream)?;
        let told = running.tray.as_ref().and_then(|tray| tray.open());
        let shared = lock(&running.shared);
        Some(Overview {
            declaration: (*shared.declaration).clone(),
            status: shared.status,
            version: shared.version,
            published: shared.published,
            open: shared.questions.first().map(|open| open.question.timestamp).or(told),
            driven: shared.driven,
            problem: shared.problem.clone(),
        })
    }

    /// The signed policy of a stream, as JSON; `None` where there is no such stream, or it asks no devices.
    pub fn policy(&self, stream: &str) -> Option<Arc<str>> {
        self.running(stream)?.policy.clone()
    }

    /// The key with which devices check policies.
    pub fn operator_key(&self) -> [u8; 32] {
        self.signer.verifying_key().to_bytes()
    }

    /// What devices are asked now.
    pub fn asking(&self, stream: &str) -> Option<OpenQuestions> {
        let running = self.running(stream)?;
        // The round first: if something changes in between, whoever waits for a later round is woken at once.
        let round = running.change.borrow().round;
        let questions = Arc::clone(&lock(&running.shared).questions);
        let asked = |open: &Arc<Open>| OpenQuestion {
            question: open.question.clone(),
            report_length: open.report_length,
            closes: open.closes,
        };
        Some(OpenQuestions { stream: stream.to_owned(), round, questions: questions.iter().map(asked).collect() })
    }

    /// Wakes whoever waits for a change of a stream.
    pub fn changes(&self, stream: &str) -> Option<watch::Receiver<Change>> {
        Some(self.running(stream)?.change.subscribe())
    }

    /// Takes in a batch of reports. It is safe when this returns.
    ///
    /// # Errors
    /// Why none of it was taken; after [`ReportError::Store`] and [`ReportError::Busy`] it can be sent again, as it is.
    pub async fn report(&self, stream: &str, body: Bytes) -> Result<Receipt, ReportError> {
        let outcome = self.take_report(stream, body).await;
        self.observer.received(stream, &outcome);
        outcome
    }

    async fn take_report(&self, stream: &str, body: Bytes) -> Result<Receipt, ReportError> {
        let running = self.running(stream).ok_or(NotTaken::NoStream)?;
        let batch = Batch::parse(&body)?;
        if batch.stream != running.tag {
            return Err(ReportError::OtherStream);
        }
        let (timestamp, phase) = (batch.timestamp, batch.phase);
        let questions = Arc::clone(&lock(&running.shared).questions);
        let asked = |open: &&Arc<Open>| (open.question.timestamp, open.question.phase) == (timestamp, phase);
        let open = Arc::clone(questions.iter().find(asked).ok_or(NotTaken::NotOpen { timestamp, phase })?);
        if batch.report_length() != open.report_length {
            let expected = open.report_length;
            return Err(WireError::Report { given: batch.report_length(), expected }.into());
        }
        if open.taken.load(Ordering::Relaxed) >= open.most {
            return Err(ReportError::Crowded);
        }
        let (implausible, digests) = (open.implausible(&batch), digests(&batch));
        let (reply, answer) = oneshot::channel();
        let job = Job { stream: running, open, body, implausible, digests, reply };
        let writer = lock(&self.writer).clone().ok_or(ReportError::Busy)?;
        match writer.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return Err(ReportError::Busy),
        }
        drop(writer);
        answer.await.unwrap_or(Err(ReportError::Store))
    }

    /// Tells a curator's stream something about a timestamp ([`Tray::tell`] says when that must be given), which is
    /// kept in memory until its tick is over. How many were taken.
    ///
    /// # Errors
    /// Why one was not; those before it were.
    pub fn tell(&self, stream: &str, timestamp: Option<u64>, told: Vec<Told>) -> Result<usize, TellError> {
        let running = self.running(stream).ok_or_else(|| TellError::NoStream(stream.to_owned()))?;
        let tray = running.tray.as_ref().ok_or(TellError::NotCurated)?;
        match tray.tell(now(), timestamp, told) {
            (taken, None) => Ok(taken),
            (taken, Some(why)) => Err(TellError::NotTold { taken, why }),
        }
    }

    /// What was published of a stream. Blocks.
    ///
    /// # Errors
    /// What the store says.
    pub fn records(&self, stream: &str, records: Records, wanted: &Wanted) -> Result<Vec<Record>, StoreError> {
        self.tools.store.records(stream, records, wanted)
    }

    /// That reports can be taken and streams go on. Blocks.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), StoreError> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("the service is stopping".to_owned()));
        }
        if lock(&self.threads).iter().any(JoinHandle::is_finished) {
            return Err(StoreError::Failed("a part of the service has stopped".to_owned()));
        }
        self.tools.store.check()
    }

    /// Stops: what was taken is made safe, and streams are given back. Blocks.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        lock(&self.writer).take();
        for running in self.streams.read().unwrap_or_else(PoisonError::into_inner).values() {
            running.poke();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // One that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

fn to_json(stream: &str, value: &impl Serialize) -> Result<String, DriveError> {
    serde_json::to_string(value)
        .map_err(|error| DriveError::State { stream: stream.to_owned(), problem: error.to_string() })
}

/// The thread that takes reports in, until the last sender is gone.
fn write(store: &dyn Store, source: &str, receiver: &Receiver<Job>, observer: &dyn Observer) {
    while let Ok(first) = receiver.recv() {
        let mut bytes = first.body.len();
        let mut jobs = vec![first];
        while jobs.len() < GROUP && bytes < GROUP_BYTES {
            let Ok(job) = receiver.try_recv() else { break };
            bytes += job.body.len();
            jobs.push(job);
        }
        let intakes = jobs.iter().map(|job| {
            let Job { stream, implausible, digests, .. } = job;
            let batch = Batch::parse(&job.body).map_err(|error| NotTaken::Malformed(error.to_string()))?;
            Intake::with_digests(&stream.name, batch, implausible, digests)
        });
        let began = std::time::Instant::now();
        let outcomes = match intakes.collect::<Result<Vec<_>, NotTaken>>() {
            Ok(intakes) => store.accept(source, &intakes),
            // They were parsed before.
            Err(error) => Err(StoreError::Failed(error.to_string())),
        };
        observer.committed(jobs.len(), began.elapsed());
        match outcomes {
            Ok(outcomes) => {
                for (job, outcome) in jobs.into_iter().zip(outcomes) {
                    if let Ok(receipt) = &outcome {
                        job.open.taken.fetch_add(receipt.accepted, Ordering::Relaxed);
                    }
                    // Whoever does not wait any more will send it again.
                    let _ = job.reply.send(outcome.map_err(ReportError::from));
                }
            }
            Err(error) => {
                tracing::error!(%error, batches = jobs.len(), "reports could not be taken");
                for job in jobs {
                    let _ = job.reply.send(Err(ReportError::Store));
                }
            }
        }
    }
}

/// The thread that drives a stream.
fn drive(running: &Running, tools: &Tools, clock: BootClock, observer: &dyn Observer, stopping: &AtomicBool) {
    let stream = running.name.as_str();
    let mut backoff = BACKOFF.0;
    let mut random = None;
    let mut driver: Option<Driver> = None;
    while !stopping.load(Ordering::Acquire) {
        match step(running, tools, &mut driver, &mut random, clock, observer) {
            Ok(wake) => {
                backoff = BACKOFF.0;
                let wait = wake.saturating_sub(now()).clamp(1, 60_000);
                running.sleep(Duration::from_millis(wait));
            }
            Err(DriveError::Held(_)) => {
                driver = None;
                if let Some(tray) = &running.tray {
                    tray.close();
                }
                if let Err(error) = running.show_other(tools) {
                    running.show_problem(error.to_string());
                }
                running.sleep(LOOK);
            }
            Err(error) => {
                // What is in memory may not be what is in the store: the next driver reads that back.
                driver = None;
                observer.failed(stream, &error);
                running.show_problem(error.to_string());
                running.sleep(backoff);
                backoff = (backoff * 2).min(BACKOFF.1);
            }
        }
    }
    if let Some(driver) = driver
        && let Err(error) = driver.give_back()
    {
        tracing::warn!(stream, %error, "the lease could not be given back");
    }
}

fn step(
    running: &Running,
    tools: &Tools,
    driver: &mut Option<Driver>,
    random: &mut Option<SystemRandom>,
    clock: BootClock,
    observer: &dyn Observer,
) -> Result<u64, DriveError> {
    let stream = running.name.as_str();
    let random = match random {
        Some(random) => random,
        None => random.insert(SystemRandom::new()?),
    };
    let moment = || Now { wall: now(), steady: Some(clock.read().steady) };
    if running.reopen.swap(false, Ordering::AcqRel) {
        *driver = None;
    }
    let driver = match driver {
        Some(driver) => driver,
        None => {
            let opened = Driver::open(stream, moment(), running.tray.clone(), tools.clone())?;
            running.show(|shared| {
                shared.declaration = Arc::new(opened.declaration().clone());
                false
            });
            driver.insert(opened)
        }
    };
    let turn = driver.turn(moment(), random)?;
    turn.news.iter().for_each(|news| observer.news(stream, news));
    running.show_driver(driver, tools)?;
    Ok(turn.wake)
}
