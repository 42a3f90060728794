//! Control step of a curated stream: open a tick, collect its events, release them.

use std::cell::RefCell;

use tidegate::kernel::Randomness;
use tidegate::stream::Entry;

use super::group::Port;
use super::{DriveError, Driver, DriverEvent, Next, Now};
use crate::ingest::event_buffer::{EventBuffer, TickEvents};
use crate::store::Status;

impl Driver {
    /// Does one step. Returns when to come back, or `None` after a change.
    pub(super) async fn step_curator<R: Randomness>(
        &mut self,
        port: &Port,
        now: u64,
        clock: &impl Fn() -> Now,
        random: &RefCell<&mut R>,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Option<u64>, DriveError> {
        let Some(buffer) = self.buffer.clone() else { return Ok(Some(u64::MAX)) };
        if let Some(open) = buffer.open_timestamp() {
            let ends = self.schedule.ends(open);
            if now < ends {
                return Ok(Some(ends));
            }
            let done = self.end_tick(port, &buffer, open, now, random, events).await;
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
                        let releases = self.stream.finish(&mut **random.borrow_mut())?.releases;
                        self.advance(port, releases, Some(now), events).await?;
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
                self.advance(port, Vec::new(), None, events).await?;
                let now = clock().wall;
                if now >= self.schedule.ends(timestamp) {
                    // Nobody could send its events.
                    self.whole_from = now;
                    events.push(DriverEvent::Skipped { count: 1 });
                    return Ok(None);
                }
                buffer.rotate(None, timestamp, Some(timestamp))?;
                Ok(Some(self.schedule.ends(timestamp)))
            }
        }
    }

    /// Releases a tick that is over, and opens the next one.
    async fn end_tick<R: Randomness>(
        &mut self,
        port: &Port,
        buffer: &EventBuffer,
        open: u64,
        now: u64,
        random: &RefCell<&mut R>,
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
            Some(entry) => self.stream.push(entry, &mut **random.borrow_mut())?.releases,
            None => {
                events.push(DriverEvent::Skipped { count: 1 });
                Vec::new()
            }
        };
        self.last = next.or(self.last);
        let due = (!releases.is_empty()).then(|| self.schedule.due_curated(open));
        self.advance(port, releases, due, events).await
    }

    fn is_retired(&self) -> Result<bool, DriveError> {
        Ok(self.tools.store.status(&self.lease.stream)?.0 == Status::Retired)
    }
}
