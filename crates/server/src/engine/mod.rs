//! [`Driver`]: the control step of a stream. Open, ask, gather, close, answer, release, publish; for ever, one after the other.
//!
//! A driver does nothing by itself and looks at no clock: [`Driver::turn`] is told the time, does all that is due, and
//! says when it wants to be called again. Everything that it knows is in the store; after an error it is dropped and
//! [opened](Driver::open) again, which reads back what has happened. So no noise is drawn twice for one release, and
//! nothing is published that is not paid for:
//!
//! 1. [`Store::advance`] makes a release, what it cost, the state of its mechanism and its noise safe, in one
//!    transaction.
//! 2. [`HighWater::raise`] notes outside the store how far that was.
//! 3. [`Store::publish`], when the schedule says so, lets it be read.

mod poison;
mod tray;

use std::fmt;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate::central::{Central, CentralError};
use tidegate::kernel::oracle::{Aggregate, Estimate};
use tidegate::kernel::primitives::HistogramError;
use tidegate::kernel::{Epsilon, NoEntropy, Randomness, VaultKey, Window};
use tidegate::local::{Local, LocalError, Step};
use tidegate::query::QueryError;
use tidegate::release::Release;
use tidegate::scalar::{SavedScalar, Scalar, ScalarError};
use tidegate::spec::{StandingQueries, StreamSpec, Values};
use tidegate_device::clock::{ClockGuard, ClockReading, Steady};

pub use crate::store::mark::{HighWater, Mark};
use crate::store::{Advance, Lease, NewRecord, OpenPhase, Status, Store, StoreError, Stream};
use crate::stream::{Begun, Declaration, DeclarationError, Schedule};

pub use poison::{Suspicion, honest_ones};
use tray::Taken;
pub use tray::{MAX_USER, MAX_USERS, NotTold, Told, Tray, TrayError};

/// Why a driver cannot go on. It is to be dropped, and opened again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else drives the stream.
    #[error("stream {0} is driven by another process")]
    Held(String),
    /// The store has an older state of the stream than what was published.
    #[error(
        "the store has version {found} of stream {stream}, but version {marked} may have been published: it was put back from a backup, and its ledger is not true any more"
    )]
    Older {
        /// The stream.
        stream: String,
        /// The version in the store.
        found: u64,
        /// The version of the mark.
        marked: u64,
    },
    /// The mark could not be raised, so nothing is published.
    #[error("the high-water mark could not be raised: {0}")]
    Mark(#[source] io::Error),
    /// What is in the store is no state of the stream.
    #[error("the state of stream {stream} cannot be read: {problem}")]
    State {
        /// The stream.
        stream: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no key for the readings that are held back.
    #[error("the state of stream {0} holds readings, and there is no key for them")]
    NoKey(String),
    /// The declaration.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// A local mechanism.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A central mechanism.
    #[error(transparent)]
    Central(#[from] CentralError),
    /// A scalar mechanism.
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    /// Values that are none.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// Queries and monitors.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The operating system gives no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
}

/// What happened in a turn, for those who watch: nothing of it is secret.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum News {
    /// Devices are asked.
    Asked {
        /// About which timestamp.
        timestamp: u64,
        /// How many questions.
        questions: usize,
    },
    /// Reports were counted.
    Counted {
        /// The timestamp.
        timestamp: u64,
        /// The phase.
        phase: u16,
        /// How many there were.
        reports: u64,
    },
    /// Reports look as if some devices did not follow their oracle.
    Suspicious {
        /// The timestamp.
        timestamp: u64,
        /// The phase.
        phase: u16,
        /// What is strange.
        suspicion: Suspicion,
    },
    /// Something was released, and will be published.
    Released {
        /// The timestamp at which it was.
        timestamp: u64,
        /// How many releases.
        releases: usize,
        /// What was spent at most.
        spent: Option<Epsilon>,
        /// Which share of the budget is left for the next timestamp.
        left: Option<f64>,
    },
    /// What was released may be read.
    Published {
        /// Up to this version.
        version: u64,
        /// How late, in milliseconds; `None` for a curated stream, where it may depend on how many events there were.
        lag: Option<u64>,
    },
    /// The clock has jumped ahead, and nothing is opened for a while.
    Jumped {
        /// Until this timestamp.
        not_before: u64,
    },
    /// Timestamps were left out.
    Skipped {
        /// How many.
        count: u64,
    },
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// When the driver wants to be called again, in milliseconds since 1970.
    pub wake: u64,
    /// What happened.
    pub news: Vec<News>,
}

/// The time, by the clock that people set, and by one that nobody can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970.
    pub wall: u64,
    /// What the steady clock shows; `None` where whoever calls vouches for the wall clock.
    pub steady: Option<Steady>,
}

impl From<u64> for Now {
    fn from(wall: u64) -> Self {
        Self { wall, steady: None }
    }
}

/// What a driver needs besides the store.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Where everything is.
    pub store: Arc<dyn Store>,
    /// How far it had come.
    pub marks: Arc<dyn HighWater>,
    /// The key for readings that are held back; not needed where none are.
    pub key: Option<Arc<VaultKey>>,
    /// Who this is, for leases: no two processes that run at the same time may have the same name. One that starts
    /// again with its old name need not wait for its own lease to end.
    pub holder: String,
    /// How long a lease lasts, in milliseconds.
    pub lease: u64,
}

/// The state of a stream, as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    last: Option<u64>,
    not_before: u64,
    due: Option<u64>,
    round: u64,
    pace: Option<(ClockGuard, [u8; 16])>,
    machine: Vec<u8>,
    queries: Option<Vec<u8>>,
}

const VERSION: u16 = 1;

/// Drives one stream, under its lease.
#[derive(Debug)]
pub struct Driver {
    tools: Tools,
    lease: Lease,
    lease_until: u64,
    declaration: Declaration,
    schedule: Schedule,
    values: Option<Values>,
    machine: Begun,
    queries: Option<StandingQueries>,
    tray: Option<Arc<Tray>>,
    /// The last timestamp that was opened, or released.
    last: Option<u64>,
    /// Nothing is opened before this timestamp.
    not_before: u64,
    /// When what was released is to be published.
    due: Option<u64>,
    round: u64,
    /// How the wall clock goes beside the steady one, and which run of that it is.
    pace: Option<(ClockGuard, [u8; 16])>,
    open: Vec<OpenPhase>,
    version: u64,
    published: u64,
    finished: bool,
    /// Only ticks that begin after this are whole: what was told before may be lost.
    whole_from: u64,
}

/// The state of a stream that begins, to be created with it. Nothing is opened before a timestamp, for a stream that
/// begins anew.
///
/// # Errors
/// What cannot be followed.
pub fn first_state(declaration: &Declaration, not_before: u64, key: Option<&VaultKey>) -> Result<Vec<u8>, DriveError> {
    declaration.check()?;
    let machine = encode_machine(&declaration.begin()?, &declaration.name, key)?;
    let saved =
        Saved { version: VERSION, last: None, not_before, due: None, round: 0, pace: None, machine, queries: None };
    encode(&saved, &declaration.name)
}

/// What is kept of a stream, if it is of a version that is known.
fn load(stream: &Stream) -> Result<Saved, DriveError> {
    let (version, _): (u16, _) =
        postcard::take_from_bytes(&stream.state).map_err(|error| unreadable(&stream.name, error))?;
    if version != VERSION {
        let problem = format!("its version is {version}, and this program reads version {VERSION}");
        return Err(unreadable(&stream.name, problem));
    }
    decode(&stream.state, &stream.name)
}

/// How far a stream has come, as its state says.
///
/// # Errors
/// If the state cannot be read.
pub fn progress(stream: &Stream) -> Result<Mark, DriveError> {
    Ok(Mark { version: stream.version, timestamp: load(stream)?.last })
}

fn encode(value: &impl Serialize, stream: &str) -> Result<Vec<u8>, DriveError> {
    postcard::to_allocvec(value).map_err(|error| unreadable(stream, error))
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], stream: &str) -> Result<T, DriveError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(unreadable(stream, "it is longer than it should be")),
        Err(error) => Err(unreadable(stream, error)),
    }
}

fn unreadable(stream: &str, problem: impl fmt::Display) -> DriveError {
    DriveError::State { stream: stream.to_owned(), problem: problem.to_string() }
}

fn encode_machine(machine: &Begun, stream: &str, key: Option<&VaultKey>) -> Result<Vec<u8>, DriveError> {
    match machine {
        Begun::Local(local) => encode(local, stream),
        Begun::Central(central) => encode(central, stream),
        Begun::Scalar(event) => {
            let key = key.ok_or_else(|| DriveError::NoKey(stream.to_owned()))?;
            encode(&event.save(key)?, stream)
        }
    }
}

fn decode_machine(bytes: &[u8], declaration: &Declaration, key: Option<&VaultKey>) -> Result<Begun, DriveError> {
    let stream = &declaration.name;
    let other = || unreadable(stream, "it is of another mechanism or settings than declared");
    Ok(match declaration.begin()? {
        Begun::Local(new) => {
            let local: Local = decode(bytes, stream)?;
            if (local.kind(), local.settings()) != (new.kind(), new.settings()) {
                return Err(other());
            }
            Begun::Local(local)
        }
        Begun::Central(new) => {
            let central: Central = decode(bytes, stream)?;
            if (central.kind(), central.settings()) != (new.kind(), new.settings()) {
                return Err(other());
            }
            Begun::Central(central)
        }
        Begun::Scalar(new) => {
            let key = key.ok_or_else(|| DriveError::NoKey(stream.to_owned()))?;
            let event = Scalar::load(decode::<SavedScalar>(bytes, stream)?, key)?;
            if (event.kind(), event.settings()) != (new.kind(), new.settings()) {
                return Err(other());
            }
            Begun::Scalar(event)
        }
    })
}

impl Driver {
    /// Takes a stream over where nobody else drives it, and reads back where it is. `tray` is what a curator is told;
    /// it is closed until the first whole tick begins.
    ///
    /// # Errors
    /// [`DriveError::Held`] where another drives it, [`DriveError::Older`] where the store is not the latest, and what
    /// the store says.
    pub fn open(stream: &str, now: impl Into<Now>, tray: Option<Arc<Tray>>, tools: Tools) -> Result<Self, DriveError> {
        let now = now.into().wall;
        let lease_until = now.saturating_add(tools.lease);
        let lease = tools.store.lease(stream, &tools.holder, now, lease_until)?;
        let lease = lease.ok_or_else(|| DriveError::Held(stream.to_owned()))?;
        let found = tools.store.stream(stream)?;
        if found.epoch != lease.epoch {
            return Err(StoreError::Stale(stream.to_owned()).into());
        }
        if let Some(mark) = tools.marks.mark(stream)
            && mark.version > found.version
        {
            let (stream, found, marked) = (stream.to_owned(), found.version, mark.version);
            return Err(DriveError::Older { stream, found, marked });
        }
        let declaration: Declaration =
            serde_json::from_str(&found.declaration).map_err(|error| unreadable(stream, error))?;
        let Saved { version: _, last, not_before, due, round, pace, machine, queries } = load(&found)?;
        let machine = decode_machine(&machine, &declaration, tools.key.as_deref())?;
        if let Begun::Local(local) = &machine
            && !local.open_questions().iter().eq(found.open.iter().map(|open| &open.question))
        {
            return Err(unreadable(stream, "its open questions are not those of its mechanism"));
        }
        let values = match &declaration.spec {
            StreamSpec::Local(spec) => Some(spec.values().map_err(DeclarationError::from)?),
            StreamSpec::Central(spec) => Some(spec.values().map_err(DeclarationError::from)?),
            _ => None,
        };
        let mut own_queries = declaration.standing_queries()?;
        if let (Some(own), Some(saved)) = (&mut own_queries, &queries) {
            let mut saved = postcard::Deserializer::from_bytes(saved);
            // What was saved for other queries is of no use to these, and costs nothing to forget.
            if let Err(error) = own.load(&mut saved) {
                tracing::info!(stream, %error, "queries and monitors begin anew");
            }
        }
        if let Some(tray) = &tray {
            tray.claim(lease.epoch);
            // A tick that this process did not open, or that was opened by another since, is not this one's to release.
            if tray.open().is_some_and(|open| last != Some(open)) {
                tray.close();
            }
        }
        let driver = Self {
            schedule: declaration.schedule(),
            lease_until,
            lease,
            declaration,
            values,
            machine,
            queries: own_queries,
            tray,
            last,
            not_before,
            due: due.filter(|_| found.published < found.version),
            round,
            pace,
            open: found.open,
            version: found.version,
            published: found.published,
            finished: false,
            whole_from: now,
            tools,
        };
        // What was advanced before a crash may not be marked yet.
        driver.raise()?;
        Ok(driver)
    }

    /// What was declared of the stream.
    pub const fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// How often the stream was advanced.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Up to which version it is published.
    pub const fn published(&self) -> u64 {
        self.published
    }

    /// Which share of the budget is left for the next timestamp (where the population is divided, which share of it may
    /// be asked); `None` where each timestamp has a budget of its own.
    #[allow(clippy::cast_precision_loss)] // a share
    pub fn budget_left(&self) -> Option<f64> {
        let next = self.last.map_or(0, |last| last.saturating_add(1));
        match &self.machine {
            Begun::Local(local) => Some(local.left(next)),
            Begun::Central(central) => {
                let ledger = central.ledger();
                let left = ledger.remaining(next).map_or(0, Epsilon::units);
                Some(left as f64 / ledger.budget().units() as f64)
            }
            Begun::Scalar(_) => None,
        }
    }

    /// The questions that devices are asked.
    pub fn questions(&self) -> &[OpenPhase] {
        &self.open
    }

    /// Does all that is due, and says when to call again.
    ///
    /// # Errors
    /// After any of them the driver is to be dropped: what it holds in memory may not be what is in the store.
    pub fn turn(&mut self, now: impl Into<Now>, random: &mut impl Randomness) -> Result<Turn, DriveError> {
        let (mut news, now) = (Vec::new(), now.into());
        let jumped = self.has_jumped(now);
        let now = now.wall;
        self.renew(now)?;
        if jumped {
            self.wait_out(now, &mut news)?;
        }
        loop {
            if let Some(due) = self.due
                && self.published < self.version
            {
                if now < due {
                    let wake = self.open.iter().map(|open| open.closes).fold(due, u64::min);
                    if wake > now {
                        return Ok(Turn { wake: self.wake(wake), news });
                    }
                } else {
                    self.tools.store.publish(&self.lease, self.version)?;
                    self.published = self.version;
                    // What comes next is published when it is due, and a question never is.
                    self.due = None;
                    let lag = (!self.declaration.is_curated()).then(|| now - due);
                    news.push(News::Published { version: self.version, lag });
                }
            }
            let wake = if self.declaration.is_curated() {
                self.curate(now, random, &mut news)?
            } else {
                self.gather(now, &mut news)?
            };
            match wake {
                Some(wake) => return Ok(Turn { wake: self.wake(wake), news }),
                // Something was done: perhaps there is more to do.
                None => continue,
            }
        }
    }

    /// Whether the wall clock has run ahead of the steady one. After a restart of the machine nobody can tell, and the
    /// wall clock is believed.
    fn has_jumped(&mut self, now: Now) -> bool {
        let Some(steady) = now.steady else { return false };
        let reading = ClockReading { wall: now.wall / 1_000, steady };
        match &mut self.pace {
            Some((pace, run)) if *run == steady.run => !pace.keeps(reading),
            pace => {
                *pace = Some((ClockGuard::from(reading), steady.run));
                false
            }
        }
    }

    /// The clock has jumped ahead. A curator's ledger goes by timestamps, so that it would take what was spent a moment
    /// ago for long past: nothing is opened until a whole window has passed since the jump, and the tick that was cut
    /// short is forgotten. Devices see to themselves.
    fn wait_out(&mut self, now: u64, news: &mut Vec<News>) -> Result<(), DriveError> {
        let (Some(tray), Some(timestamp)) = (&self.tray, self.schedule.timestamp(now)) else { return Ok(()) };
        tray.close();
        self.whole_from = now;
        let window = match self.declaration.spec.window() {
            Window::Timestamps(window) => window.get(),
            Window::Unbounded => u64::MAX,
        };
        self.not_before = self.not_before.max(timestamp.saturating_add(window));
        news.push(News::Jumped { not_before: self.not_before });
        self.advance(Vec::new(), None, news)
    }

    /// No later than the lease needs.
    fn wake(&self, wake: u64) -> u64 {
        wake.min(self.lease_until.saturating_sub(self.tools.lease / 2))
    }

    fn renew(&mut self, now: u64) -> Result<(), DriveError> {
        // Also where the clock was set back, or the lease has run out: if nobody took it, it is still ours.
        if now.saturating_add(self.tools.lease / 2) < self.lease_until
            && now.saturating_add(self.tools.lease) >= self.lease_until
        {
            return Ok(());
        }
        let until = now.saturating_add(self.tools.lease);
        match self.tools.store.lease(&self.lease.stream, &self.tools.holder, now, until)? {
            Some(lease) if lease == self.lease => self.lease_until = until,
            _ => return Err(StoreError::Stale(self.lease.stream.clone()).into()),
        }
        Ok(())
    }

    /// A step of a stream of devices: when to come back, or `None` where something was done.
    fn gather(&mut self, now: u64, news: &mut Vec<News>) -> Result<Option<u64>, DriveError> {
        if let Some(closes) = self.open.iter().map(|open| open.closes).max() {
            if now < closes {
                return Ok(Some(closes));
            }
            let counts = self.tools.store.close(&self.lease, self.version)?;
            let answers = self.count(&counts, news)?;
            let questions: Vec<_> = self.open.drain(..).map(|open| open.question).collect();
            let Begun::Local(local) = &mut self.machine else { return Ok(Some(u64::MAX)) };
            let step = local.answer(&questions, &answers)?;
            self.round += 1;
            return self.take(step, news).map(|()| None);
        }
        let timestamp = match self.next(now)? {
            Next::Wait(wake) => return Ok(Some(wake)),
            Next::Open(timestamp) => timestamp,
        };
        // A round that is over before anybody was asked tells nothing.
        if now >= self.schedule.closes(timestamp, 0) {
            return Ok(Some(self.schedule.ends(timestamp)));
        }
        if let Some(last) = self.last
            && timestamp > last + 1
        {
            news.push(News::Skipped { count: timestamp - last - 1 });
        }
        let Begun::Local(local) = &mut self.machine else { return Ok(Some(u64::MAX)) };
        let step = local.open(timestamp)?;
        (self.last, self.round) = (Some(timestamp), 0);
        self.take(step, news).map(|()| None)
    }

    /// What reports say, and what is strange about them.
    fn count(&self, counts: &[Option<Aggregate>], news: &mut Vec<News>) -> Result<Vec<Option<Estimate>>, DriveError> {
        if counts.len() != self.open.len() {
            return Err(unreadable(&self.declaration.name, "there are counts for other questions than were asked"));
        }
        let mut answers = Vec::with_capacity(counts.len());
        for (count, OpenPhase { question, .. }) in counts.iter().zip(&self.open) {
            let (timestamp, phase) = (question.timestamp, question.phase);
            let estimate = count.as_ref().and_then(|count| count.estimate().ok());
            let reports = count.as_ref().map_or(0, Aggregate::reports);
            news.push(News::Counted { timestamp, phase, reports });
            if let Some(estimate) = &estimate {
                let StreamSpec::Local(spec) = &self.declaration.spec else { continue };
                let expected = question.cohort.share() * as_float(spec.population().unwrap_or(0));
                let found = poison::suspicions(estimate, expected);
                news.extend(found.into_iter().map(|suspicion| News::Suspicious { timestamp, phase, suspicion }));
            }
            answers.push(estimate);
        }
        Ok(answers)
    }

    /// Makes safe what a local mechanism wants next.
    fn take(&mut self, step: Step, news: &mut Vec<News>) -> Result<(), DriveError> {
        match step {
            Step::Ask(questions) => {
                let Some(timestamp) = self.last else { return Ok(()) };
                let closes = self.schedule.closes(timestamp, self.round);
                news.push(News::Asked { timestamp, questions: questions.len() });
                self.open = questions.into_iter().map(|question| OpenPhase { question, closes }).collect();
                self.advance(Vec::new(), None, news)
            }
            Step::Done(release) => {
                let due = self.schedule.due(release.timestamp);
                self.advance(vec![release], Some(due), news)
            }
        }
    }

    /// A step of a stream of a curator's.
    fn curate(
        &mut self,
        now: u64,
        random: &mut impl Randomness,
        news: &mut Vec<News>,
    ) -> Result<Option<u64>, DriveError> {
        let Some(tray) = self.tray.clone() else { return Ok(Some(u64::MAX)) };
        if let Some(open) = tray.open() {
            let ends = self.schedule.ends(open);
            if now < ends {
                return Ok(Some(ends));
            }
            let done = self.end_tick(&tray, open, now, random, news);
            if done.is_err() && tray.open() != Some(open) {
                // Perhaps another may open the tick that has begun: what is told about it here would be lost.
                tray.turn_over(None, open, None)?;
            }
            return done.map(|()| None);
        }
        match self.next(now)? {
            Next::Wait(wake) => {
                self.whole_from = now;
                if self.is_retired()? && !self.finished {
                    self.finished = true;
                    if let Begun::Scalar(event) = &mut self.machine
                        && event.waiting() > 0
                    {
                        let releases = event.finish(random)?;
                        self.advance(releases, Some(now), news)?;
                        return Ok(None);
                    }
                }
                Ok(Some(wake))
            }
            Next::Open(timestamp) => {
                let begins = self.schedule.begins(timestamp);
                if begins < self.whole_from {
                    return Ok(Some(self.schedule.ends(timestamp)));
                }
                // Nobody else opens it from now on, whatever their clocks show: a tick is told to one process only.
                self.last = Some(timestamp);
                self.advance(Vec::new(), None, news)?;
                tray.turn_over(None, timestamp, Some(timestamp))?;
                Ok(Some(self.schedule.ends(timestamp)))
            }
        }
    }

    /// Releases a tick that is over, and opens the one that begins.
    fn end_tick(
        &mut self,
        tray: &Tray,
        open: u64,
        now: u64,
        random: &mut impl Randomness,
        news: &mut Vec<News>,
    ) -> Result<(), DriveError> {
        // The next tick is whole only if it is the one that begins now.
        let next = self.schedule.timestamp(now).filter(|next| *next == open + 1);
        let is_running = self.tools.store.status(&self.lease.stream)?.0 == Status::Running;
        let next = next.filter(|_| is_running);
        if next.is_none() {
            self.whole_from = now;
        }
        let taken = tray.turn_over(self.machine.account(), open, next)?;
        let releases = match (&mut self.machine, taken) {
            (Begun::Central(central), Some(Taken::Histogram(histogram))) => central.push(&histogram, random)?,
            (Begun::Scalar(event), Some(Taken::Reading(reading))) => event.push(reading, random)?,
            _ => {
                news.push(News::Skipped { count: 1 });
                Vec::new()
            }
        };
        self.last = next.or(self.last);
        let due = (!releases.is_empty()).then(|| self.schedule.due_curated(open));
        self.advance(releases, due, news)
    }

    fn is_retired(&self) -> Result<bool, DriveError> {
        Ok(self.tools.store.status(&self.lease.stream)?.0 == Status::Retired)
    }

    /// Which timestamp may be opened now.
    fn next(&self, now: u64) -> Result<Next, DriveError> {
        let Some(timestamp) = self.schedule.timestamp(now) else {
            return Ok(Next::Wait(self.schedule.begins(0)));
        };
        let first = self.last.map_or(0, |last| last.saturating_add(1)).max(self.not_before);
        if timestamp < first {
            // Also where the clock was set back: time is never gone through twice.
            return Ok(Next::Wait(self.schedule.begins(first)));
        }
        if self.tools.store.status(&self.lease.stream)?.0 != Status::Running {
            return Ok(Next::Wait(now.saturating_add(NAP)));
        }
        Ok(Next::Open(timestamp))
    }

    /// Makes the next state safe, with what is released.
    fn advance(&mut self, releases: Vec<Release>, due: Option<u64>, news: &mut Vec<News>) -> Result<(), DriveError> {
        let stream = &self.declaration.name;
        let population = match &self.declaration.spec {
            StreamSpec::Local(spec) => spec.population(),
            _ => None,
        };
        let mut said = Vec::new();
        if let (Some(queries), Some(values)) = (&mut self.queries, &self.values) {
            for release in &releases {
                let timestamp = release.timestamp;
                for reply in queries.push(release, population)? {
                    let body = serde_json::to_string(&reply.line(timestamp, values));
                    let body = body.map_err(|error| unreadable(stream, error))?;
                    said.push(NewRecord { timestamp, body });
                }
            }
        }
        let record = |release: &Release| {
            let body = serde_json::to_string(release).map_err(|error| unreadable(stream, error))?;
            Ok(NewRecord { timestamp: release.timestamp, body })
        };
        let records: Vec<NewRecord> = releases.iter().map(record).collect::<Result<_, DriveError>>()?;
        if !records.is_empty() {
            self.due = self.due.max(due);
        }
        let queries = self.queries.as_ref().and_then(StandingQueries::save);
        let saved = Saved {
            version: VERSION,
            last: self.last,
            not_before: self.not_before,
            due: self.due,
            round: self.round,
            pace: self.pace,
            machine: encode_machine(&self.machine, stream, self.tools.key.as_deref())?,
            queries: queries.map(|queries| encode(&queries, stream)).transpose()?,
        };
        let state = encode(&saved, stream)?;
        let advance =
            Advance { version: self.version, state: &state, open: &self.open, releases: &records, said: &said };
        self.refuse_older()?;
        self.tools.store.advance(&self.lease, &advance)?;
        self.version += 1;
        self.raise()?;
        if let Some(last) = releases.last() {
            let spent = releases.iter().filter_map(|release| release.spent.most()).max();
            let (timestamp, left) = (last.timestamp, self.budget_left());
            news.push(News::Released { timestamp, releases: releases.len(), spent, left });
        }
        Ok(())
    }

    /// That the store was not put back to the very version that this driver knows, while the driver slept and others
    /// went on.
    fn refuse_older(&self) -> Result<(), DriveError> {
        let stream = &self.declaration.name;
        let Some(mark) = self.tools.marks.mark(stream).filter(|mark| mark.version > self.version) else {
            return Ok(());
        };
        let (_, found) = self.tools.store.status(stream)?;
        if mark.version > found {
            return Err(DriveError::Older { stream: stream.clone(), found, marked: mark.version });
        }
        Err(StoreError::Stale(stream.clone()).into())
    }

    fn raise(&self) -> Result<(), DriveError> {
        let mark = Mark { version: self.version, timestamp: self.last };
        self.tools.marks.raise(&self.declaration.name, mark).map_err(DriveError::Mark)
    }

    /// Lets another take the stream over at once.
    ///
    /// # Errors
    /// What the store says.
    pub fn give_back(self) -> Result<(), DriveError> {
        Ok(self.tools.store.give_back(&self.lease)?)
    }
}

/// How long a stream that is not running sleeps, in milliseconds.
const NAP: u64 = 1_000;

enum Next {
    Wait(u64),
    Open(u64),
}

#[allow(clippy::cast_precision_loss)] // an expectation
const fn as_float(number: u64) -> f64 {
    number as f64
}
