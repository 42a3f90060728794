//! [`Digest`]: what a list of streams shows of each, in memory.
//!
//! It follows from published records and from declarations, so it tells no more than they do. The driver's events keep
//! it up to date; the store is read where a driver was opened, where another process drives the stream, and after an
//! event of a monitor.

use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate::release::Freshness;

use super::alarms::{Alarm, AlarmCounts, Alarms};
use super::handle::{StreamHandle, lock};
use super::{STALLED, Service};
use crate::driver::{Driver, DriverEvent, SuspicionKind};
use crate::store::{RecordFilter, RecordKind, Status, Store, StoreError};
use crate::stream::Declaration;

/// The last published release of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LastRelease {
    /// Its timestamp.
    pub timestamp: u64,
    /// End of the timestamp, in seconds since 1970.
    pub through: u64,
    /// Where its numbers come from.
    pub freshness: Freshness,
    /// Whether its reports are statistically implausible.
    pub suspicious: bool,
}

/// A stream in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Declaration of the stream.
    pub declaration: Arc<Declaration>,
    /// Status that its operator has set.
    pub status: Status,
    /// Whether this process drives it.
    pub is_driven: bool,
    /// Whether it is stopped or stalled.
    pub has_problem: bool,
    /// The last published release.
    pub last: Option<LastRelease>,
    /// Share of the window's budget that is left; `None` where this process does not know it.
    pub budget_left: Option<f64>,
    /// Alarms; `None` for a stream without monitors.
    pub alarms: Option<AlarmCounts>,
}

/// What a list shows of a stream.
#[derive(Debug, Default)]
pub(super) struct Digest {
    last: Option<LastRelease>,
    left: Option<f64>,
    /// Committed, and not published yet.
    next: Option<(LastRelease, Option<f64>)>,
    /// Whether a monitor said something that is not published yet.
    said: bool,
    /// Whether the store knows more.
    outdated: bool,
    alarms: Alarms,
}

impl Digest {
    fn note(&mut self, event: &DriverEvent) {
        match event {
            DriverEvent::Released { timestamp, through, left, freshness, suspicious, said, .. } => {
                let (timestamp, through) = (*timestamp, *through);
                let last = LastRelease { timestamp, through, freshness: *freshness, suspicious: *suspicious };
                self.next = Some((last, *left));
                self.said |= said;
            }
            DriverEvent::Published { .. } => match self.next.take() {
                Some((last, left)) => {
                    (self.last, self.left) = (Some(last), left);
                    self.outdated |= std::mem::take(&mut self.said);
                }
                // It was committed before this driver was opened.
                None => (self.left, self.outdated) = (None, true),
            },
            _ => {}
        }
    }
}

/// A release as the store has it.
#[derive(Deserialize)]
struct Stored {
    freshness: Freshness,
    #[serde(default)]
    suspicious: Vec<SuspicionKind>,
}

impl StreamHandle {
    /// Takes in the events of its driver, which was perhaps opened just now.
    pub(super) fn digest_events(&self, events: &[DriverEvent], opened: bool, driver: &Driver) {
        if !opened && events.is_empty() {
            return;
        }
        // Where all that is committed is published, the ledger tells no more than the releases.
        let is_settled = driver.published() == driver.version();
        let left = if is_settled { driver.budget_left() } else { None };
        let mut digest = lock(&self.digest);
        if opened {
            (digest.next, digest.outdated) = (None, true);
        }
        events.iter().for_each(|event| digest.note(event));
        if is_settled {
            digest.left = left;
        }
    }

    /// Forgets what only the driver of the stream knows: another process drives it.
    pub(super) fn digest_of_other(&self) {
        let mut digest = lock(&self.digest);
        (digest.left, digest.next) = (None, None);
    }

    /// Notes that the store knows more.
    pub(super) fn outdate(&self) {
        lock(&self.digest).outdated = true;
    }

    /// Whether the store knows more.
    pub(super) fn is_outdated(&self) -> bool {
        lock(&self.digest).outdated
    }

    /// Reads from the store what the events did not tell. An error is logged, and the next turn tries again: nothing
    /// depends on a list.
    pub(super) fn refresh(&self, store: &dyn Store, is_outdated: bool) {
        if is_outdated || lock(&self.digest).outdated {
            let watches = lock(&self.view).declaration.has_monitors();
            let alarms = || if watches { self.refresh_alarms(store) } else { Ok(()) };
            let refreshed = self.refresh_last(store).and_then(|()| alarms());
            match refreshed {
                Ok(()) => lock(&self.digest).outdated = false,
                Err(error) => tracing::warn!(stream = &*self.name, %error, "the list shows an earlier release"),
            }
        }
    }

    fn refresh_last(&self, store: &dyn Store) -> Result<(), StoreError> {
        let schedule = lock(&self.view).declaration.schedule();
        let after = store.latest(&self.name, RecordKind::Release, 1)?;
        let filter = RecordFilter { after, ..RecordFilter::default() };
        let Some(record) = store.records(&self.name, RecordKind::Release, &filter)?.pop() else { return Ok(()) };
        let Stored { freshness, suspicious } = serde_json::from_str(&record.body)
            .map_err(|error| StoreError::Damaged(format!("a release of {} cannot be read: {error}", self.name)))?;
        let (timestamp, through) = (record.timestamp, schedule.ends(record.timestamp) / 1_000);
        let last = LastRelease { timestamp, through, freshness, suspicious: !suspicious.is_empty() };
        lock(&self.digest).last = Some(last);
        Ok(())
    }

    /// Reads alarms and acknowledgements from the store, one reader at a time. The digest is not locked meanwhile: a
    /// store that hangs must not stop a list.
    pub(super) fn refresh_alarms(&self, store: &dyn Store) -> Result<(), StoreError> {
        let _turn = lock(&self.refreshing);
        let declaration = Arc::clone(&lock(&self.view).declaration);
        let (mut alarms, released) = {
            let digest = lock(&self.digest);
            (digest.alarms.clone(), digest.last.map(|last| last.timestamp))
        };
        let first_kept = released.and_then(|last| declaration.retention.first_kept(declaration.tick, last));
        alarms.update(store, &self.name, &declaration.monitors(), first_kept.unwrap_or(0))?;
        lock(&self.digest).alarms = alarms;
        Ok(())
    }

    /// Returns the alarms of the digest, the latest first.
    pub(super) fn alarms(&self) -> Vec<Alarm> {
        lock(&self.digest).alarms.latest_first()
    }
}

impl Service {
    /// Returns the streams whose names come after one, ordered by name, from memory.
    pub fn list(&self, after: &str, most: usize) -> Vec<Listed> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> = streams.values().filter(|handle| *handle.name > *after).cloned().collect();
        drop(streams);
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        found.truncate(most);
        let listed = |handle: Arc<StreamHandle>| {
            let is_stalled = self.agenda.overdue(&handle.name) > STALLED;
            let (last, budget_left, counts) = {
                let digest = lock(&handle.digest);
                (digest.last, digest.left, digest.alarms.counts())
            };
            let view = lock(&handle.view);
            Listed {
                alarms: view.declaration.has_monitors().then_some(counts),
                declaration: Arc::clone(&view.declaration),
                status: view.status,
                is_driven: view.driven,
                has_problem: view.problem.is_some() || is_stalled,
                last,
                budget_left,
            }
        };
        found.into_iter().map(listed).collect()
    }
}
