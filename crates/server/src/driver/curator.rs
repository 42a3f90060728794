//! Control step of a curated stream: open a tick, collect its events, release them.

use std::cell::RefCell;

use tidegate::kernel::Randomness;
use tidegate::release::Release;
use tidegate::stream::Entry;

use super::group::Port;
use super::state::unreadable;
use super::{DriveError, Driver, DriverEvent, NAP, Next, Now};
use crate::ingest::event_buffer::{EventBuffer, EventRejection, TickEvents};
use crate::store::Status;
use crate::stream::Declaration;

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
        if self.declaration.backfill {
            return self.step_history(port, &buffer, now, random, events).await;
        }
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
        let tick = buffer.rotate(self.stream.account(), closing, next, self.members.as_ref())?;
        let releases = self.push(tick, random, events)?;
        self.last = next.or(self.last);
        let published = closing.saturating_add(self.declaration.lateness);
        let due = (!releases.is_empty()).then(|| self.schedule.due_curated(published));
        self.advance(port, releases, due, events).await
    }

    /// Hands a tick to the mechanism. Returns its releases.
    fn push<R: Randomness>(
        &mut self,
        tick: Option<TickEvents>,
        random: &RefCell<&mut R>,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Vec<Release>, DriveError> {
        let entry = match tick {
            Some(TickEvents::Histogram(histogram)) => Entry::Histogram(histogram),
            Some(TickEvents::ByClass(histograms, members)) => Entry::ByClass { histograms, members },
            Some(TickEvents::Reading(reading)) => Entry::Reading(reading),
            Some(TickEvents::Empty) | None => {
                events.push(DriverEvent::Skipped { count: 1 });
                return Ok(Vec::new());
            }
        };
        Ok(self.stream.push(entry, &mut **random.borrow_mut())?.releases)
    }

    /// Releases a tick of the history, if one waits. The present opens no tick before an operator resumes the stream.
    async fn step_history<R: Randomness>(
        &mut self,
        port: &Port,
        buffer: &EventBuffer,
        now: u64,
        random: &RefCell<&mut R>,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Option<u64>, DriveError> {
        let Some(past) = buffer.take_past() else {
            // Perhaps another process has heard that the stream is live.
            let found = self.tools.store.stream(&self.lease.stream)?;
            let declared: Declaration =
                serde_json::from_str(&found.declaration).map_err(|error| unreadable(&self.lease.stream, error))?;
            if declared.backfill && found.status != Status::Retired {
                return Ok(Some(now.saturating_add(NAP)));
            }
            self.declaration.backfill = false;
            self.whole_from = now;
            return Ok(None);
        };
        let (timestamp, reply) = (past.timestamp, past.reply.clone());
        let first = self.last.map_or(0, |last| last.saturating_add(1)).max(self.not_before);
        let is_over = self.schedule.timestamp(now).is_some_and(|present| timestamp < present);
        if self.tools.store.status(&self.lease.stream)?.0 != Status::Running {
            let _ = reply.try_send(Err(EventRejection::Paused));
            return Ok(None);
        }
        if timestamp < first || !is_over {
            // Nobody may listen any more.
            let _ = reply.try_send(Err(EventRejection::Past { first }));
            return Ok(None);
        }
        // The tick was not opened before, so classes must not have changed when its release is stored.
        self.known_members = match &mut self.members {
            Some(members) => Some(members.refresh(&*self.tools.store, &self.lease.stream)?),
            None => None,
        };
        let Some(account) = self.stream.account() else { return Ok(None) };
        let tick = buffer.seal_past(account, past, self.members.as_ref())?;
        let releases = self.push(Some(tick), random, events)?;
        self.last = Some(timestamp);
        let due = (!releases.is_empty()).then_some(now);
        self.advance(port, releases, due, events).await?;
        let _ = reply.try_send(Ok(()));
        Ok(None)
    }

    fn is_retired(&self) -> Result<bool, DriveError> {
        Ok(self.tools.store.status(&self.lease.stream)?.0 == Status::Retired)
    }
}
