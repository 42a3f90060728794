//! Control step of a curated stream: open a tick, collect its events, release them.

use tidegate::kernel::Randomness;
use tidegate::stream::Entry;

use super::{DriveError, Driver, DriverEvent, Next};
use crate::ingest::event_buffer::{EventBuffer, TickEvents};
use crate::store::Status;

impl Driver {
    /// Does one step. Returns when to come back, or `None` after a change.
    pub(super) fn step_curator(
        &mut self,
        now: u64,
        random: &mut impl Randomness,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Option<u64>, DriveError> {
        let Some(buffer) = self.buffer.clone() else { return Ok(Some(u64::MAX)) };
        if let Some(open) = buffer.open_timestamp() {
            let ends = self.schedule.ends(open);
            if now < ends {
                return Ok(Some(ends));
            }
            let done = self.end_tick(&buffer, open, now, random, events);
            if done.is_err() && buffer.open_timestamp() != Some(open) {
                // Another process may open the tick that has begun, so events in this buffer would be lost.
                buffer.rotate(None, open, None)?;
            }
            return done.map(|()| None);
        }
        match self.next(now)? {
            Next::Wait(wake) => {
                self.whole_from = now;
                if self.is_retired()? && !self.finished {
                    self.finished = true;
                    if self.stream.waiting() > 0 {
                        let releases = self.stream.finish(random)?.releases;
                        self.advance(releases, Some(now), events)?;
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
                // Commit first: from now on no other process opens this tick, whatever its clock shows.
                self.last = Some(timestamp);
                self.advance(Vec::new(), None, events)?;
                buffer.rotate(None, timestamp, Some(timestamp))?;
                Ok(Some(self.schedule.ends(timestamp)))
            }
        }
    }

    /// Releases a tick that is over, and opens the next one.
    fn end_tick(
        &mut self,
        buffer: &EventBuffer,
        open: u64,
        now: u64,
        random: &mut impl Randomness,
        events: &mut Vec<DriverEvent>,
    ) -> Result<(), DriveError> {
        // The next tick is complete only if it begins now.
        let next = self.schedule.timestamp(now).filter(|next| *next == open + 1);
        let is_running = self.tools.store.status(&self.lease.stream)?.0 == Status::Running;
        let next = next.filter(|_| is_running);
        if next.is_none() {
            self.whole_from = now;
        }
        let entry = match buffer.rotate(self.stream.account(), open, next)? {
            Some(TickEvents::Histogram(histogram)) => Some(Entry::Histogram(histogram)),
            Some(TickEvents::Reading(reading)) => Some(Entry::Reading(reading)),
            Some(TickEvents::Empty) | None => None,
        };
        let releases = match entry {
            Some(entry) => self.stream.push(entry, random)?.releases,
            None => {
                events.push(DriverEvent::Skipped { count: 1 });
                Vec::new()
            }
        };
        self.last = next.or(self.last);
        let due = (!releases.is_empty()).then(|| self.schedule.due_curated(open));
        self.advance(releases, due, events)
    }

    fn is_retired(&self) -> Result<bool, DriveError> {
        Ok(self.tools.store.status(&self.lease.stream)?.0 == Status::Retired)
    }
}
