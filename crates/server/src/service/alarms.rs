//! [`Alarm`]s of a stream's monitors, from its published answers, and their acknowledgement by operators.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Service, now};
use crate::store::{Acknowledgement, Record, RecordFilter, RecordKind, Store, StoreError};

/// How many of the last answers alarms are looked for in.
pub const ALARM_HISTORY: u64 = 5_000;

/// Most answers that are read at once.
const PAGE: usize = 1_000;

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

/// Alarms among the last [`ALARM_HISTORY`] answers of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarms {
    /// Number of the last answer that was read.
    read: u64,
    alarms: VecDeque<Alarm>,
}

impl Alarms {
    /// Reads the answers since the last time.
    pub(super) fn update(&mut self, store: &dyn Store, stream: &str) -> Result<(), StoreError> {
        if self.read == 0 {
            self.read = store.latest(stream, RecordKind::Answer, ALARM_HISTORY)?;
        }
        loop {
            let filter = RecordFilter { after: self.read, limit: PAGE, ..RecordFilter::default() };
            let records = store.records(stream, RecordKind::Answer, &filter)?;
            records.iter().for_each(|record| self.take(record));
            if records.len() < PAGE {
                break;
            }
        }
        let first = self.read.saturating_sub(ALARM_HISTORY);
        self.alarms.retain(|alarm| alarm.number > first || alarm.ended.is_none());
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
        let Ok(Said { monitor: Some(monitor), event: Some(event) }) = serde_json::from_str(&record.body) else {
            return;
        };
        // An event that begins again has ended: a monitor was declared anew.
        let open = self.alarms.iter_mut().rev().find(|alarm| alarm.monitor == monitor && alarm.ended.is_none());
        if let Some(open) = open {
            (open.ended, open.ended_number) = (Some(record.timestamp), Some(record.number));
        }
        if event == STARTED {
            let (number, timestamp) = (record.number, record.timestamp);
            let alarm = Alarm { number, timestamp, monitor, ended: None, ended_number: None, acknowledged: None };
            self.alarms.push_back(alarm);
        }
    }

    /// Ends the events of monitors that are not declared any more.
    pub(super) fn keep_only(&mut self, declared: &[String]) {
        self.alarms.retain(|alarm| alarm.ended.is_some() || declared.contains(&alarm.monitor));
    }

    pub(super) fn counts(&self) -> AlarmCounts {
        AlarmCounts {
            active: self.alarms.iter().filter(|alarm| alarm.ended.is_none()).count(),
            unacknowledged: self.alarms.iter().filter(|alarm| alarm.acknowledged.is_none()).count(),
        }
    }
}

/// Word for the beginning of an event, in an answer.
const STARTED: &str = "started";

impl Service {
    /// Returns the alarms among the last [`ALARM_HISTORY`] answers of a stream, the latest first. Blocks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn alarms(&self, stream: &str) -> Result<Vec<Alarm>, StoreError> {
        let mut alarms = Alarms::default();
        alarms.update(&*self.tools.store, stream)?;
        Ok(alarms.alarms.into_iter().rev().collect())
    }

    /// Acknowledges an alarm for an operator, unless that was done before. `None` if there is no such alarm among the
    /// last [`ALARM_HISTORY`] answers. Blocks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn acknowledge(&self, stream: &str, number: u64, by: &str) -> Result<Option<Alarm>, StoreError> {
        let Some(mut alarm) = self.alarms(stream)?.into_iter().find(|alarm| alarm.number == number) else {
            return Ok(None);
        };
        let new = Acknowledgement { number, by: by.to_owned(), at: now() / 1_000 };
        let Some(Acknowledgement { by, at, .. }) = self.tools.store.acknowledge(stream, &new)? else { return Ok(None) };
        alarm.acknowledged = Some(Acknowledged { by, at });
        if let Some(handle) = self.handle(stream) {
            handle.refresh_alarms(&*self.tools.store)?;
        }
        Ok(Some(alarm))
    }
}
