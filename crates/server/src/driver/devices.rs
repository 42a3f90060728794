//! Control step of a stream of devices: open a timestamp, ask, close, count, answer.

use tidegate::kernel::oracle::{Aggregate, Estimate};
use tidegate::local::Step;
use tidegate::spec::StreamSpec;

use super::group::Port;
use super::state::unreadable;
use super::suspicion::{Suspicion, suspicions};
use super::{COUNTING, DriveError, Driver, DriverEvent, Next, Tally};
use crate::store::OpenQuestion;

impl Driver {
    /// Does one step. Returns when to come back, or `None` after a change.
    pub(super) async fn step_devices(
        &mut self,
        port: &Port,
        now: u64,
        events: &mut Vec<DriverEvent>,
    ) -> Result<Option<u64>, DriveError> {
        if let Some(closes) = self.open.iter().map(|open| open.closes).max() {
            if now < closes {
                return Ok(Some(closes));
            }
            let Some(counts) = self.close(port, now, closes, events).await? else { return Ok(Some(now + COUNTING)) };
            let estimates = self.estimate(&counts, events)?;
            let questions: Vec<_> = self.open.drain(..).map(|open| open.question).collect();
            let step = self.stream.answer(&questions, &estimates)?;
            self.round += 1;
            return self.commit_step(port, step, events).await.map(|()| None);
        }
        let timestamp = match self.next(now)? {
            Next::Wait(wake) => return Ok(Some(wake)),
            Next::Open(timestamp) => timestamp,
        };
        // A round that closed before anybody was asked would count nothing.
        if now >= self.schedule.closes(timestamp, 0) {
            return Ok(Some(self.schedule.ends(timestamp)));
        }
        if let Some(last) = self.last
            && timestamp > last + 1
        {
            events.push(DriverEvent::Skipped { count: timestamp - last - 1 });
        }
        let step = self.stream.open(timestamp)?;
        (self.last, self.round) = (Some(timestamp), 0);
        self.suspicious.clear();
        self.tally = Tally::default();
        self.commit_step(port, step, events).await.map(|()| None)
    }

    /// Estimates frequencies from the counts of the open questions, and reports implausible ones.
    fn estimate(
        &mut self,
        counts: &[Option<Aggregate>],
        events: &mut Vec<DriverEvent>,
    ) -> Result<Vec<Option<Estimate>>, DriveError> {
        if counts.len() != self.open.len() {
            return Err(unreadable(&self.declaration.name, "the store has counts for other questions"));
        }
        let mut estimates = Vec::with_capacity(counts.len());
        for (count, OpenQuestion { question, .. }) in counts.iter().zip(&self.open) {
            let (timestamp, phase) = (question.timestamp, question.phase);
            let estimate = count.as_ref().and_then(|count| count.estimate().ok());
            let reports = count.as_ref().map_or(0, Aggregate::reports);
            events.push(DriverEvent::Counted { timestamp, phase, reports });
            if let Some(estimate) = &estimate {
                let StreamSpec::Local(spec) = &self.declaration.spec else { continue };
                #[allow(clippy::cast_precision_loss)] // an expectation
                let expected = question.cohort.share() * spec.population().unwrap_or(0) as f64;
                let found = suspicions(estimate, expected);
                for kind in found.iter().map(Suspicion::kind) {
                    if !self.suspicious.contains(&kind) {
                        self.suspicious.push(kind);
                    }
                }
                events.extend(found.into_iter().map(|suspicion| DriverEvent::Suspicious {
                    timestamp,
                    phase,
                    suspicion,
                }));
            }
            estimates.push(estimate);
        }
        Ok(estimates)
    }

    /// Commits the questions or the release of a mechanism's step.
    async fn commit_step(&mut self, port: &Port, step: Step, events: &mut Vec<DriverEvent>) -> Result<(), DriveError> {
        match step {
            Step::Ask(questions) => {
                let Some(timestamp) = self.last else { return Ok(()) };
                let closes = self.schedule.closes(timestamp, self.round);
                events.push(DriverEvent::Asked { timestamp, questions: questions.len() });
                self.open = questions.into_iter().map(|question| OpenQuestion { question, closes }).collect();
                self.advance(port, Vec::new(), None, events).await
            }
            Step::Done(release) => {
                let due = self.schedule.due(release.timestamp);
                self.advance(port, vec![release], Some(due), events).await
            }
        }
    }
}
