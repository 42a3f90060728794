//! [`Driver`]: the control loop of one stream.
//!
//! A driver reads no clock and starts no thread. [`Driver::run_due`] is told the time, does everything that is due, and
//! returns when to call it again. All its state is in the store. After an error it is dropped and
//! [opened](Driver::open) again, so it never draws noise twice for one release:
//!
//! 1. [`Store::advance`] commits a release, its cost, its noise and the mechanism's state in one transaction.
//! 2. [`HighWater::raise`] records the version outside the store.
//! 3. [`Store::publish`] makes the release readable when the schedule says so.
//!
//! A step is an `async` function that waits only for its [group](drive_together): the drivers that are due together
//! commit their changes together, and raise their marks together.
//!
//! | module | contents |
//! | --- | --- |
//! | `devices` | control step of a stream of devices |
//! | `curator` | control step of a curated stream |
//! | `sequences` | control step of a stream of devices that release sequences |
//! | `state` | saved state |
//! | `event` | events and errors |
//! | `group` | group commit of the drivers that are due together |
//! | `suspicion` | statistical signs of poisoned reports |

mod curator;
mod devices;
mod event;
mod group;
mod sequences;
mod state;
mod suspicion;

use std::cell::RefCell;
use std::sync::Arc;

use serde::Serialize;
use tidegate::kernel::{Randomness, VaultKey, Window};
use tidegate::mechanisms::Family;
use tidegate::release::Release;
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;
use tidegate_device::clock::{ClockGuard, ClockReading, Steady};
use tidegate_kernel::oracle::Aggregate;

use group::{Port, alone};
use state::{SavedState, Tally, VERSION, encode, load, save_stream, unreadable};

pub use event::{DriveError, DriverEvent};
pub use group::{Turn, drive_together};
pub use state::{check_state, first_state, next_timestamp, progress};
pub use suspicion::{Suspicion, SuspicionKind};

use crate::ingest::event_buffer::EventBuffer;
use crate::ingest::member_cache::MemberCache;
use crate::sequence::SequenceCounter;
pub use crate::store::mark::{HighWater, Mark};
use crate::store::{Advance, Lease, Missing, NewRecord, OpenQuestion, Status, Store, StoreError, Write};
use crate::stream::{Declaration, Schedule};

/// Result of [`Driver::run_due`].
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// When to call again, in milliseconds since 1970.
    pub wake: u64,
    /// What happened, in order.
    pub events: Vec<DriverEvent>,
}

/// Time by the wall clock, and by a monotonic clock that nobody can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970.
    pub wall: u64,
    /// Monotonic clock; `None` where the caller vouches for the wall clock.
    pub steady: Option<Steady>,
}

impl From<u64> for Now {
    fn from(wall: u64) -> Self {
        Self { wall, steady: None }
    }
}

/// Dependencies of a driver.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Store of all streams.
    pub store: Arc<dyn Store>,
    /// High-water marks, kept outside the store.
    pub marks: Arc<dyn HighWater>,
    /// Key of readings that wait; only needed by streams that hold readings back.
    pub key: Option<Arc<VaultKey>>,
    /// Holder of leases. No two running processes may share a name. A process that restarts under its old name
    /// need not wait for its own lease to end.
    pub holder: String,
    /// Duration of a lease, in milliseconds.
    pub lease: u64,
}

/// Drives one stream, under its lease.
#[derive(Debug)]
pub struct Driver {
    tools: Tools,
    lease: Lease,
    lease_until: u64,
    declaration: Declaration,
    schedule: Schedule,
    stream: Stream,
    /// How to ask and count, where devices release sequences.
    sequences: Option<SequenceCounter>,
    buffer: Option<Arc<EventBuffer>>,
    /// Classes of its users, where they have classes.
    members: Option<MemberCache>,
    /// Last change of the registry that the next step may know, where a later one makes the step stale.
    known_members: Option<u64>,
    /// Last timestamp that was opened.
    last: Option<u64>,
    /// No timestamp before this one is opened.
    not_before: u64,
    /// When to publish the last release.
    due: Option<u64>,
    round: u64,
    /// Wall clock against monotonic clock, and the run of the latter.
    pace: Option<(ClockGuard, [u8; 16])>,
    open: Vec<OpenQuestion>,
    /// What was suspicious about the reports of the timestamp.
    suspicious: Vec<SuspicionKind>,
    /// How many reports of the timestamp were counted.
    tally: Tally,
    version: u64,
    published: u64,
    finished: bool,
    /// Only ticks that begin after this moment are complete: earlier events may be lost.
    whole_from: u64,
}

/// A release, as it is stored.
#[derive(Serialize)]
struct RecordedRelease<'a> {
    #[serde(flatten)]
    release: &'a Release,
    /// Signs of poisoned reports; `None` where there are no reports of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    suspicious: Option<&'a [SuspicionKind]>,
    /// Share of the acknowledged reports that is counted, at least; present where it is not all of them, and null
    /// where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted_share: Option<Option<f64>>,
}

/// How long a stream that is not running sleeps, in milliseconds.
const NAP: u64 = 1_000;

/// Pause between two looks whether all reports of closed questions are counted, in milliseconds.
const COUNTING: u64 = 20;

enum Next {
    Wait(u64),
    Open(u64),
}

impl Driver {
    /// Takes the lease of a stream and loads its state. The buffer stays closed until the first complete tick begins.
    ///
    /// # Errors
    /// [`DriveError::Held`] where another process has the lease, [`DriveError::Older`] where the store is behind its
    /// high-water mark, and errors of the store.
    pub fn open(
        stream: &str,
        now: impl Into<Now>,
        buffer: Option<Arc<EventBuffer>>,
        tools: Tools,
    ) -> Result<Self, DriveError> {
        let now = now.into();
        alone(&tools.clone(), |port| async move { Self::open_in(&port, stream, now, buffer, tools).await })
    }

    async fn open_in(
        port: &Port,
        stream: &str,
        now: Now,
        buffer: Option<Arc<EventBuffer>>,
        tools: Tools,
    ) -> Result<Self, DriveError> {
        let now = now.wall;
        let until = now.saturating_add(tools.lease);
        let lease = port.lease(stream, &tools.holder, now, until).await?;
        let lease = lease.ok_or_else(|| DriveError::Held(stream.to_owned()))?;
        port.refresh_marks().await.map_err(DriveError::Mark)?;
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
        let SavedState { version: _, last, not_before, due, round, pace, stream: saved, suspicious, tally } =
            load(&found)?;
        let running = declaration.load_stream(&saved, tools.key.as_deref())?;
        let sequences = SequenceCounter::of(&declaration)?;
        let open = found.open.iter().map(|open| &open.question);
        let is_asked = match &sequences {
            Some(counter) => open.clone().all(|open| *open == counter.question(open.timestamp)),
            None => running.open_questions().iter().eq(open.clone()),
        };
        if !declaration.is_curated() && !is_asked {
            return Err(unreadable(stream, "its open questions are not those of its mechanism"));
        }
        if let Some(buffer) = &buffer {
            buffer.claim(lease.epoch);
            // Another process may have opened the tick since.
            if buffer.open_timestamp().is_some_and(|open| last != Some(open)) {
                buffer.close();
            }
        }
        let key = buffer.as_ref().and_then(|buffer| buffer.user_key());
        let mut members = declaration.classes()?.zip(key).map(|(classes, key)| MemberCache::new(classes, key));
        if let Some(members) = &mut members {
            members.refresh(&*tools.store, stream)?;
        }
        let driver = Self {
            schedule: declaration.schedule(),
            lease_until: until,
            lease,
            declaration,
            stream: running,
            sequences,
            buffer,
            members,
            known_members: None,
            last,
            not_before,
            due: due.filter(|_| found.published < found.version),
            round,
            pace,
            open: found.open,
            suspicious,
            tally,
            version: found.version,
            published: found.published,
            finished: false,
            whole_from: now,
            tools,
        };
        // A crash may have come between the last commit and its mark.
        driver.raise(port).await?;
        Ok(driver)
    }

    /// Returns the declaration of the stream.
    pub const fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Returns how often the stream was advanced.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the last published version.
    pub const fn published(&self) -> u64 {
        self.published
    }

    /// Returns the share of the budget that is left for the next timestamp; `None` where each timestamp or each device
    /// has its own budget. Under population division it is the share of users who may be asked.
    pub fn budget_left(&self) -> Option<f64> {
        // Each device of a sequence stream has its own.
        if matches!(self.stream.spec().family(), Family::Scalar | Family::Sequence) {
            return None;
        }
        let next = self.last.map_or(0, |last| last.saturating_add(1));
        // With classes, that of the class that has least left.
        self.stream.budgets(next).iter().map(|budget| budget.left).min_by(f64::total_cmp)
    }

    /// Returns the questions that are open to devices.
    pub fn questions(&self) -> &[OpenQuestion] {
        &self.open
    }

    /// Does everything that is due.
    ///
    /// # Errors
    /// After any error the driver must be dropped: its memory may differ from the store.
    pub fn run_due(&mut self, now: impl Into<Now>, random: &mut impl Randomness) -> Result<RunReport, DriveError> {
        let (now, random) = (now.into(), RefCell::new(random));
        let random = &random;
        alone(&self.tools.clone(), |port| async move { self.run_in(&port, &|| now, random).await })
    }

    async fn run_in<R: Randomness>(
        &mut self,
        port: &Port,
        clock: &impl Fn() -> Now,
        random: &RefCell<&mut R>,
    ) -> Result<RunReport, DriveError> {
        let mut events = Vec::new();
        self.renew(port, clock().wall).await?;
        loop {
            // Each wait for the group may take long. No reading of the clock is used before it was checked.
            let now = clock();
            if self.has_jumped(now) {
                self.wait_out_window(port, now.wall, &mut events).await?;
            }
            let now = now.wall;
            if let Some(due) = self.due
                && self.published < self.version
            {
                if now < due {
                    let wake = self.open.iter().map(|open| open.closes).fold(due, u64::min);
                    if wake > now {
                        return Ok(RunReport { wake: self.wake(wake), events });
                    }
                } else {
                    port.write(Write::Publish { lease: self.lease.clone(), version: self.version }).await?;
                    self.published = self.version;
                    self.due = None;
                    let lag = (!self.declaration.is_curated()).then(|| now - due);
                    events.push(DriverEvent::Published { version: self.version, lag });
                    // Other streams are published first: what follows makes nothing readable.
                    return Ok(RunReport { wake: now, events });
                }
            }
            let wake = if self.declaration.is_curated() {
                self.step_curator(port, now, clock, random, &mut events).await?
            } else if let Some(counter) = self.sequences {
                self.step_sequences(port, counter, now, &mut events).await?
            } else {
                self.step_devices(port, now, &mut events).await?
            };
            // After a change there may be more to do.
            if let Some(wake) = wake {
                return Ok(RunReport { wake: self.wake(wake), events });
            }
        }
    }

    /// Whether the wall clock has run ahead of the monotonic one. After a reboot the wall clock is believed.
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

    /// Opens nothing for a whole window after a jump of the clock, and drops the tick that was cut short.
    ///
    /// A curator's ledger counts timestamps, so a jump would refund recent spending. Devices protect themselves.
    async fn wait_out_window(
        &mut self,
        port: &Port,
        now: u64,
        events: &mut Vec<DriverEvent>,
    ) -> Result<(), DriveError> {
        let (Some(buffer), Some(timestamp)) = (&self.buffer, self.schedule.timestamp(now)) else { return Ok(()) };
        buffer.close();
        self.whole_from = now;
        let window = match self.declaration.spec.window() {
            Window::Timestamps(window) => window.get(),
            Window::Unbounded => u64::MAX,
        };
        self.not_before = self.not_before.max(timestamp.saturating_add(window));
        events.push(DriverEvent::Jumped { not_before: self.not_before });
        self.advance(port, Vec::new(), None, events).await
    }

    /// Limits a wake-up time so that the lease is renewed in time.
    fn wake(&self, wake: u64) -> u64 {
        wake.min(self.lease_until.saturating_sub(self.tools.lease / 2))
    }

    async fn renew(&mut self, port: &Port, now: u64) -> Result<(), DriveError> {
        // Also renews after the clock was set back, or after the lease ran out and nobody took it.
        if now.saturating_add(self.tools.lease / 2) < self.lease_until
            && now.saturating_add(self.tools.lease) >= self.lease_until
        {
            return Ok(());
        }
        let until = now.saturating_add(self.tools.lease);
        match port.lease(&self.lease.stream, &self.tools.holder, now, until).await? {
            Some(lease) if lease == self.lease => self.lease_until = until,
            _ => return Err(StoreError::Stale(self.lease.stream.clone()).into()),
        }
        Ok(())
    }

    /// Finds the timestamp that may be opened now.
    fn next(&self, now: u64) -> Result<Next, DriveError> {
        let Some(timestamp) = self.schedule.timestamp(now) else {
            return Ok(Next::Wait(self.schedule.begins(0)));
        };
        let first = self.last.map_or(0, |last| last.saturating_add(1)).max(self.not_before);
        if timestamp < first {
            // After the clock was set back, a timestamp is not opened twice.
            return Ok(Next::Wait(self.schedule.begins(first)));
        }
        if self.tools.store.status(&self.lease.stream)?.0 != Status::Running {
            return Ok(Next::Wait(now.saturating_add(NAP)));
        }
        Ok(Next::Open(timestamp))
    }

    /// Closes the open questions. Returns the counts of each, in order; `None` while reports are still being counted.
    async fn close(
        &mut self,
        port: &Port,
        now: u64,
        closes: u64,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Option<Vec<Option<Aggregate>>>, DriveError> {
        let last_call = now >= closes.saturating_add(self.tools.store.patience());
        let write = Write::Close { lease: self.lease.clone(), version: self.version, last_call };
        let Some(counted) = port.write(write).await?.counts()? else { return Ok(None) };
        counted.iter().for_each(|counted| self.tally.add(counted));
        if self.tally.missing != Missing::NOTHING && !self.suspicious.contains(&SuspicionKind::Incomplete) {
            self.suspicious.push(SuspicionKind::Incomplete);
            let (timestamp, missing) = (self.last.unwrap_or_default(), self.tally.missing);
            events.push(DriverEvent::Missed { timestamp, missing });
        }
        Ok(Some(counted.into_iter().map(|counted| counted.total).collect()))
    }

    /// Commits the next state together with its releases, and raises the high-water mark.
    async fn advance(
        &mut self,
        port: &Port,
        releases: Vec<Release>,
        due: Option<u64>,
        events: &mut Vec<DriverEvent>,
    ) -> Result<(), DriveError> {
        let stream = &self.declaration.name;
        let population = match &self.declaration.spec {
            StreamSpec::Local(spec) => spec.population(),
            _ => None,
        };
        let reason = self.declaration.usual_reason();
        let releases: Vec<Release> = releases.into_iter().map(|release| release.readable().explained(reason)).collect();
        let mut answers = Vec::new();
        for release in &releases {
            let timestamp = release.timestamp;
            for body in self.stream.answer_queries_in_json(release, population)? {
                answers.push(NewRecord { timestamp, body });
            }
        }
        let record = |release: &Release| {
            let suspicious = (!self.declaration.is_curated()).then_some(&self.suspicious[..]);
            let counted_share = (self.tally.missing != Missing::NOTHING).then(|| self.tally.share());
            let body = RecordedRelease { release, suspicious, counted_share };
            let body = serde_json::to_string(&body).map_err(|error| unreadable(stream, error))?;
            Ok(NewRecord { timestamp: release.timestamp, body })
        };
        let records: Vec<NewRecord> = releases.iter().map(record).collect::<Result<_, DriveError>>()?;
        if !records.is_empty() {
            self.due = self.due.max(due);
        }
        let saved = SavedState {
            version: VERSION,
            last: self.last,
            not_before: self.not_before,
            due: self.due,
            round: self.round,
            pace: self.pace,
            stream: save_stream(&self.stream, stream, self.tools.key.as_deref())?,
            suspicious: self.suspicious.clone(),
            tally: self.tally,
        };
        let state = encode(&saved, stream)?;
        let (version, open) = (self.version, self.open.clone());
        let newest = releases.iter().map(|release| release.timestamp).max();
        let forget = newest.and_then(|newest| self.declaration.retention.first_kept(self.declaration.tick, newest));
        let said = answers.iter().any(|answer| answer.body.contains("\"monitor\":"));
        let next =
            Advance { version, state, open, releases: records, answers, forget, members: self.known_members.take() };
        self.refuse_older_store()?;
        port.write(Write::Advance { lease: self.lease.clone(), next }).await?;
        self.version += 1;
        self.raise(port).await?;
        if let Some(last) = releases.last() {
            let spent = releases.iter().filter_map(|release| release.spent.most()).max();
            let (timestamp, left) = (last.timestamp, self.budget_left());
            let through = self.schedule.ends(timestamp) / 1_000;
            let (freshness, suspicious) = (last.freshness, !self.suspicious.is_empty());
            let releases = releases.len();
            events.push(DriverEvent::Released {
                timestamp,
                through,
                releases,
                spent,
                left,
                freshness,
                suspicious,
                said,
            });
        }
        Ok(())
    }

    /// Refuses a store that was restored to this driver's version while others went on.
    fn refuse_older_store(&self) -> Result<(), DriveError> {
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

    async fn raise(&self, port: &Port) -> Result<(), DriveError> {
        let mark = Mark { version: self.version, timestamp: self.last };
        port.raise(&self.declaration.name, mark).await.map_err(DriveError::Mark)
    }

    /// Releases the lease, so that another process can take it at once.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn release_lease(self) -> Result<(), DriveError> {
        Ok(self.tools.store.release_lease(&self.lease)?)
    }

    /// Ends the driver, and returns its lease.
    pub(crate) fn into_lease(self) -> Lease {
        self.lease
    }
}
