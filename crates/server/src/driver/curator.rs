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
        let lateness = self.declaration.lateness;
        let first = buffer.open_timestamps().first().copied();
        let closes = first.map(|first| self.schedule.ends(first.saturating_add(lateness)));
        if let (Some(first), Some(closes)) = (first, closes)
            && now >= closes
        {
            self.end_tick(port, &buffer, first, now, random, events).await?;
            return Ok(None);
        }
        let closes = closes.unwrap_or(u64::MAX);
        match self.next(now)? {
            Next::Wait(wake) => {
                self.whole_from = now;
                if first.is_none() && self.is_retired()? && !self.finished {
                    self.finished = true;
                    if self.stream.waiting() > 0 {
                        let releases = self.stream.finish(&mut **random.borrow_mut())?.releases;
                        self.advance(port, releases, Some(now), events).await?;
                        return Ok(None);
                    }
                }
                Ok(Some(wake.min(closes)))
            }
            Next::Open(timestamp) => {
                let begins = self.schedule.begins(timestamp);
                if begins < self.whole_from {
                    return Ok(Some(self.schedule.ends(timestamp).min(closes)));
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
                buffer.open(timestamp);
                Ok(Some(self.schedule.ends(timestamp).min(closes)))
            }
        }
    }

    /// Releases a tick that takes no more events, and opens the next one.
    async fn end_tick<R: Randomness>(
        &mut self,
        port: &Port,
        buffer: &EventBuffer,
        closing: u64,
        now: u64,
        random: &RefCell<&mut R>,
        events: &mut Vec<DriverEvent>,
    ) -> Result<(), DriveError> {
        // The next tick is complete only if it begins now.
        let first = self.last.map_or(0, |last| last.saturating_add(1));
        let next = self.schedule.timestamp(now).filter(|next| *next == first);
        let is_running = self.tools.store.status(&self.lease.stream)?.0 == Status::Running;
        let next = next.filter(|_| is_running);
        if next.is_none() {
            self.whole_from = now;
        }
        if let Some(members) = &mut self.members {
            members.refresh(&*self.tools.store, &self.lease.stream)?;
        }
        let done = self.release_tick(port, buffer, (closing, next), random, events).await;
        if let (Err(_), Some(next)) = (&done, next) {
            // Another process may open it, so events in this buffer would be lost.
            buffer.abandon(next);
        }
        if let Some(members) = &mut self.members {
            members.forget(closing);
        }
        done
    }

    /// Releases a tick, and opens another.
    async fn release_tick<R: Randomness>(
        &mut self,
        port: &Port,
        buffer: &EventBuffer,
        (closing, next): (u64, Option<u64>),
        random: &RefCell<&mut R>,
        events: &mut Vec<DriverEvent>,
    ) -> Result<(), DriveError> {
        let entry = match buffer.rotate(self.stream.account(), closing, next, self.members.as_ref())? {
            Some(TickEvents::Histogram(histogram)) => Some(Entry::Histogram(histogram)),
            Some(TickEvents::ByClass(histograms, members)) => Some(Entry::ByClass { histograms, members }),
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
        let published = closing.saturating_add(self.declaration.lateness);
        let due = (!releases.is_empty()).then(|| self.schedule.due_curated(published));
        self.advance(port, releases, due, events).await
    }

    fn is_retired(&self) -> Result<bool, DriveError> {
        Ok(self.tools.store.status(&self.lease.stream)?.0 == Status::Retired)
    }
}
