//! Control step of a stream of sequences: ask at the end of each batch, close, count.

use tidegate::kernel::oracle::Aggregate;

use super::group::Port;
use super::state::unreadable;
use super::suspicion::{Suspicion, crowd};
use super::{COUNTING, DriveError, Driver, DriverEvent, Next, Tally};
use crate::sequence::SequenceCounter;
use crate::store::OpenQuestion;

impl Driver {
    /// Does one step. Returns when to come back, or `None` after a change.
    pub(super) async fn step_sequences(
        &mut self,
        port: &Port,
        counter: SequenceCounter,
        now: u64,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Option<u64>, DriveError> {
        if let Some(OpenQuestion { question, closes }) = self.open.first() {
            let (timestamp, phase, closes) = (question.timestamp, question.phase, *closes);
            if now < closes {
                return Ok(Some(closes));
            }
            self.suspicious.clear();
            self.tally = Tally::default();
            let Some(counts) = self.close(port, now, closes, events).await? else { return Ok(Some(now + COUNTING)) };
            let [count] = counts.as_slice() else {
                return Err(unreadable(&self.declaration.name, "the store has counts for other questions"));
            };
            let reports = count.as_ref().map_or(0, Aggregate::reports);
            events.push(DriverEvent::Counted { timestamp, phase, reports });
            #[allow(clippy::cast_precision_loss)] // an expectation
            let surplus = crowd(reports, counter.population() as f64);
            self.suspicious.extend(surplus.iter().map(Suspicion::kind));
            events.extend(surplus.map(|suspicion| DriverEvent::Suspicious { timestamp, phase, suspicion }));
            self.open.clear();
            let (releases, due) = (counter.releases(timestamp, count.as_ref()), self.schedule.due(timestamp));
            return self.advance(port, releases, Some(due), events).await.map(|()| None);
        }
        let timestamp = match self.next(now)? {
            Next::Wait(wake) => return Ok(Some(wake)),
            Next::Open(timestamp) => timestamp,
        };
        // Devices gather the symbols of a batch, and report at its end.
        let end = counter.end(timestamp);
        if timestamp < end {
            return Ok(Some(self.schedule.begins(end)));
        }
        let closes = self.schedule.closes(timestamp, 0);
        if now >= closes {
            return Ok(Some(self.schedule.ends(timestamp)));
        }
        if let Some(last) = self.last
            && timestamp > last + counter.length()
        {
            events.push(DriverEvent::Skipped { count: timestamp - last - counter.length() });
        }
        (self.last, self.round) = (Some(timestamp), 0);
        events.push(DriverEvent::Asked { timestamp, questions: 1 });
        self.open = vec![OpenQuestion { question: counter.question(timestamp), closes }];
        self.advance(port, Vec::new(), None, events).await.map(|()| None)
    }
}
