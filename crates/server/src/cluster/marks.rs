//! [`LogMarks`]: high-water marks in a log of their own.
//!
//! Processes of a cluster keep nothing on their disks, so the marks are in a log, apart from the database. Every record
//! has some marks, and the highest of each stream holds. From time to time a process writes all of them again, and
//! deletes what came before.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_log::{Log, LogError, NewRecord, RecordId};

use crate::store::mark::{HighWater, Mark, higher};

/// The only partition.
const PARTITION: u32 = 0;
/// Marks of one record, which is far below the longest.
const MARKS: usize = 4_096;
/// Records of this process after which all marks are written again.
const COMPACT: u64 = 2_048;
/// Longest wait for records that are there.
const WAIT: Duration = Duration::from_secs(5);
/// Attempts of an append.
const ATTEMPTS: u32 = 3;

/// High-water marks that all processes of a cluster share.
#[derive(Debug)]
pub struct LogMarks {
    log: Arc<dyn Log>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    marks: BTreeMap<String, Mark>,
    /// Position of the next record.
    next: u64,
    /// Records that this process has appended since the last compaction.
    appended: u64,
}

impl State {
    fn raise(&mut self, stream: String, mark: Mark) {
        self.marks.entry(stream).and_modify(|known| *known = higher(*known, mark)).or_insert(mark);
    }
}

fn of_log(error: LogError) -> io::Error {
    io::Error::other(error)
}

fn decode(body: &[u8]) -> io::Result<Vec<(String, Mark)>> {
    postcard::from_bytes(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl LogMarks {
    /// Reads all marks of a log.
    ///
    /// # Errors
    /// Errors of the log, and [`io::ErrorKind::InvalidData`] for a log of other records.
    pub fn open(log: Arc<dyn Log>) -> io::Result<Self> {
        log.prepare(PARTITION + 1).map_err(of_log)?;
        let next = log.bounds(PARTITION).map_err(of_log)?.start;
        let marks = Self { log, state: Mutex::new(State { next, ..State::default() }) };
        marks.refresh()?;
        Ok(marks)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record, and returns its position.
    fn append(&self, marks: &[(String, Mark)]) -> io::Result<u64> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        let body = postcard::to_allocvec(marks).map_err(io::Error::other)?.into();
        let record = NewRecord { partition: PARTITION, id: RecordId(id), body };
        let mut attempt = 1;
        loop {
            let outcome = self.log.append(std::slice::from_ref(&record)).pop();
            match outcome {
                Some(Ok(position)) => return Ok(position),
                // Marks that are there twice are the same marks.
                Some(Err(LogError::Unknown(_) | LogError::Unavailable(_))) if attempt < ATTEMPTS => attempt += 1,
                Some(Err(error)) => return Err(of_log(error)),
                None => return Err(io::Error::other("the log has not answered")),
            }
        }
    }

    /// Reads up to a position.
    fn follow(&self, state: &mut State, end: u64) -> io::Result<()> {
        while state.next < end {
            let records = match self.log.read(PARTITION, state.next, 1 << 20, WAIT) {
                // Another process has written all marks again; what it deleted is in them.
                Err(LogError::Lost { to, .. }) => {
                    state.next = to + 1;
                    continue;
                }
                records => records.map_err(of_log)?,
            };
            if records.is_empty() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the log of marks cannot be read to its end"));
            }
            for record in records {
                for (stream, mark) in decode(&record.body)? {
                    state.raise(stream, mark);
                }
                state.next = record.position + 1;
            }
        }
        Ok(())
    }

    /// Writes all marks again, and deletes the records before.
    fn compact(&self, state: &mut State) -> io::Result<()> {
        let fence = self.append(&[])?;
        self.follow(state, fence)?;
        let all: Vec<(String, Mark)> = state.marks.iter().map(|(stream, mark)| (stream.clone(), *mark)).collect();
        for marks in all.chunks(MARKS) {
            self.append(marks)?;
        }
        state.appended = 0;
        self.log.trim(PARTITION, fence).map_err(of_log)
    }
}

impl HighWater for LogMarks {
    fn mark(&self, stream: &str) -> Option<Mark> {
        self.state().marks.get(stream).copied()
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> io::Result<()> {
        let is_new =
            |(stream, mark): &&(String, Mark)| self.mark(stream).is_none_or(|known| higher(known, *mark) != known);
        let new: Vec<(String, Mark)> = marks.iter().filter(is_new).cloned().collect();
        for marks in new.chunks(MARKS) {
            self.append(marks)?;
            let mut state = self.state();
            marks.iter().for_each(|(stream, mark)| state.raise(stream.clone(), *mark));
            state.appended += 1;
            if state.appended >= COMPACT
                && let Err(error) = self.compact(&mut state)
            {
                tracing::warn!(%error, "the log of marks could not be shortened");
            }
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// Reads what other processes have appended until now. The end is the position of a record of its own, because a
    /// replica may lag behind.
    fn refresh(&self) -> io::Result<()> {
        let end = self.append(&[])?;
        let mut state = self.state();
        state.appended += 1;
        self.follow(&mut state, end + 1)
    }

    fn check(&self) -> io::Result<()> {
        self.refresh()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tidegate_log::memory::MemoryLog;

    use super::*;

    fn mark(version: u64) -> Mark {
        Mark { version, timestamp: Some(version) }
    }

    #[test]
    fn processes_share_their_marks() {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new());
        let (one, other) = (LogMarks::open(Arc::clone(&log)).unwrap(), LogMarks::open(Arc::clone(&log)).unwrap());
        one.raise("a", mark(3)).unwrap();
        other.raise("b", mark(1)).unwrap();
        assert_eq!(other.mark("a"), None);
        other.refresh().unwrap();
        assert_eq!((other.mark("a"), other.mark("b")), (Some(mark(3)), Some(mark(1))));
        other.raise("a", mark(2)).unwrap();
        let later = LogMarks::open(log).unwrap();
        assert_eq!((later.mark("a"), later.mark("b")), (Some(mark(3)), Some(mark(1))), "no mark is lowered");
    }

    #[test]
    fn compaction_loses_no_mark() {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new());
        let (one, other) = (LogMarks::open(Arc::clone(&log)).unwrap(), LogMarks::open(Arc::clone(&log)).unwrap());
        for version in 1..=COMPACT + 10 {
            one.raise("a", mark(version)).unwrap();
            if version % 100 == 0 {
                other.raise("b", mark(version)).unwrap();
            }
        }
        assert!(log.bounds(PARTITION).unwrap().start > 0, "nothing was deleted");
        let last = COMPACT / 100 * 100;
        for marks in [&other, &LogMarks::open(log).unwrap()] {
            marks.refresh().unwrap();
            assert_eq!((marks.mark("a"), marks.mark("b")), (Some(mark(COMPACT + 10)), Some(mark(last))));
        }
    }
}
