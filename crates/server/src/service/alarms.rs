//! [`Alarm`]s of a stream's monitors, from its published answers, and their acknowledgement by operators.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Service, now};
use crate::store::{Acknowledgement, Record, Store, StoreError};

/// Most alarms of a stream that are listed, besides those that are active.
pub const ALARM_HISTORY: usize = 2_500;

/// Most events that are read at once: a beginning and an end for each alarm.
const PAGE: usize = 2 * ALARM_HISTORY;

/// Most earlier pages in which the beginning of an active event is looked for.
const EARLIER: usize = 20;

/// The beginning of a monitor's event, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// Number of the answer.
    pub number: u64,
    /// Timestamp at which the event began.
    pub timestamp: u64,
    /// Name of the monitor.
    pub monitor: String,
    /// Timestamp at which the event ended.
    pub ended: Option<u64>,
    /// Number of the answer that ended it.
    pub ended_number: Option<u64>,
    /// Who has acknowledged it, and when.
    pub acknowledged: Option<Acknowledged>,
}

/// Who has acknowledged an alarm, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acknowledged {
    /// Name of the operator's token.
    pub by: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// How many alarms a stream has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlarmCounts {
    /// Events that have not ended.
    pub active: usize,
    /// Alarms that nobody has acknowledged.
    pub unacknowledged: usize,
}

/// Body of an answer, if a monitor gave it.
#[derive(Deserialize)]
struct Said {
    monitor: Option<String>,
    event: Option<String>,
}

impl Said {
    /// Returns the monitor of an event, and whether the event began.
    fn read(record: &Record) -> Option<(String, bool)> {
        let said: Self = serde_json::from_str(&record.body).ok()?;
        Some((said.monitor?, said.event? == STARTED))
    }
}

/// The last [`ALARM_HISTORY`] alarms of a stream, and those before them that are active.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarms {
    /// Number of the last event that was read.
    read: u64,
    alarms: VecDeque<Alarm>,
}

impl Alarms {
    /// Reads the events since the last time, and all acknowledgements. Only events of `declared` monitors are active,
    /// and those before the timestamp `first_kept` are gone.
    pub(super) fn update(
        &mut self,
        store: &dyn Store,
        stream: &str,
        declared: &[String],
        first_kept: u64,
    ) -> Result<(), StoreError> {
        let new = store.events(stream, self.read, u64::MAX, PAGE)?;
        if new.len() >= PAGE {
            self.alarms = active_before(store, stream, declared, &new)?;
        }
        new.iter().rev().for_each(|record| self.take(record));
        self.keep_only(declared);
        self.alarms.retain(|alarm| alarm.timestamp >= first_kept);
        let mut excess = self.alarms.len().saturating_sub(ALARM_HISTORY);
        self.alarms.retain(|alarm| {
            let is_kept = excess == 0 || alarm.ended.is_none();
            excess -= usize::from(!is_kept);
            is_kept
        });
        let Some(first) = self.alarms.front().map(|alarm| alarm.number) else { return Ok(()) };
        let found = store.acknowledgements(stream, first)?;
        let mut found: BTreeMap<u64, Acknowledgement> = found.into_iter().map(|found| (found.number, found)).collect();
        for alarm in &mut self.alarms {
            alarm.acknowledged =
                found.remove(&alarm.number).map(|Acknowledgement { by, at, .. }| Acknowledged { by, at });
        }
        Ok(())
    }

    fn take(&mut self, record: &Record) {
        self.read = record.number;
        let Some((monitor, started)) = Said::read(record) else { return };
        // An event that begins again has ended: a monitor was declared anew.
        let open = self.alarms.iter_mut().rev().find(|alarm| alarm.monitor == monitor && alarm.ended.is_none());
        if let Some(open) = open {
            (open.ended, open.ended_number) = (Some(record.timestamp), Some(record.number));
        }
        if started {
            self.alarms.push_back(Alarm::begun(record, monitor));
        }
    }

    /// Drops the active events of monitors that are not declared any more.
    fn keep_only(&mut self, declared: &[String]) {
        self.alarms.retain(|alarm| alarm.ended.is_some() || declared.contains(&alarm.monitor));
    }

    /// Returns them, the latest first.
    pub(super) fn latest_first(&self) -> Vec<Alarm> {
        self.alarms.iter().rev().cloned().collect()
    }

    pub(super) fn counts(&self) -> AlarmCounts {
        AlarmCounts {
            active: self.alarms.iter().filter(|alarm| alarm.ended.is_none()).count(),
            unacknowledged: self.alarms.iter().filter(|alarm| alarm.acknowledged.is_none()).count(),
        }
    }
}

impl Alarm {
    fn begun(record: &Record, monitor: String) -> Self {
        let (number, timestamp) = (record.number, record.timestamp);
        Self { number, timestamp, monitor, ended: None, ended_number: None, acknowledged: None }
    }
}

/// Looks for active events that began before a page of later ones, the latest first.
fn active_before(
    store: &dyn Store,
    stream: &str,
    declared: &[String],
    page: &[Record],
) -> Result<VecDeque<Alarm>, StoreError> {
    let mut silent: BTreeSet<&str> = declared.iter().map(String::as_str).collect();
    let mut found = VecDeque::new();
    let mut before = u64::MAX;
    let mut look = |page: &[Record], earlier: bool| {
        for record in page {
            if let Some((monitor, started)) = Said::read(record)
                && silent.remove(&*monitor)
                && started
                && earlier
            {
                found.push_front(Alarm::begun(record, monitor));
            }
        }
        before = page.last().map_or(before, |record| record.number);
        (before, silent.is_empty() || page.len() < PAGE)
    };
    let (mut before, mut done) = look(page, false);
    for _ in 0..EARLIER {
        if done {
            break;
        }
        (before, done) = look(&store.events(stream, 0, before, PAGE)?, true);
    }
    Ok(found)
}

/// Word for the beginning of an event, in an answer.
const STARTED: &str = "started";

impl Service {
    /// Returns the first published events of monitors whose numbers lie between two others, in order. There are no
    /// others where fewer than `limit` are returned. Blocks.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and errors of the store.
    pub fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        // Pages come the latest first.
        let mut first = self.tools.store.events(stream, after, before, limit)?;
        while first.len() >= limit {
            let Some(lowest) = first.last().map(|record| record.number) else { break };
            let earlier = self.tools.store.events(stream, after, lowest, limit)?;
            if earlier.is_empty() {
                break;
            }
            let missing = limit - earlier.len();
            first = first.split_off(first.len() - missing);
            first.extend(earlier);
        }
        first.reverse();
        Ok(first)
    }

    /// Returns the last [`ALARM_HISTORY`] alarms of a stream and those that are active, the latest first. Blocks.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and errors of the store.
    pub fn alarms(&self, stream: &str) -> Result<Vec<Alarm>, StoreError> {
        let handle = self.handle(stream).ok_or_else(|| StoreError::NoStream(stream.to_owned()))?;
        handle.refresh_alarms(&*self.tools.store)?;
        Ok(handle.alarms())
    }

    /// Acknowledges an alarm for an operator, unless that was done before. `None` if no such [alarm](Self::alarms) is
    /// listed. Blocks.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and errors of the store.
    pub fn acknowledge(&self, stream: &str, number: u64, by: &str) -> Result<Option<Alarm>, StoreError> {
        if !self.alarms(stream)?.iter().any(|alarm| alarm.number == number) {
            return Ok(None);
        }
        let new = Acknowledgement { number, by: by.to_owned(), at: now() / 1_000 };
        if self.tools.store.acknowledge(stream, &new)?.is_none() {
            return Ok(None);
        }
        Ok(self.alarms(stream)?.into_iter().find(|alarm| alarm.number == number))
    }
}
