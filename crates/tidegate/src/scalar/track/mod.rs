//! `track`: asks about each reading what says most, and estimates from all answers.
//!
//! Where noise is small beside the domain, as for one contributor to a count, each reading gets its own. Otherwise a
//! reading is asked by a randomised bit, whether it lies above its forecast, or, at a small epsilon, in the mean of a
//! batch, clamped to the range where it is expected. Questions depend on published answers only. An
//! [`Estimator`] turns answers into releases; with a delay, it smooths them.

mod question;
mod tuning;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::Held;
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::output::Output;
use super::settings::ScalarSettings;
use super::{Frame, ScalarError};
use crate::estimate::{Belief, Estimator, Periods, Snapshot};
use crate::release::Release;
pub(crate) use question::Look;
use question::{Answer, OpenMean, Question, Questioner};
use tuning::TUNING;

#[derive(Debug)]
pub(super) struct Track {
    questioner: Questioner,
    periods: Periods,
    /// Readings of the open mean.
    pub(super) held: Held,
    open: Option<OpenMean>,
    /// Whether the last mean was at an end of its range.
    lost: bool,
    /// Number of questions.
    pub(super) asked: u64,
    /// Estimator after all answers, and before those of the releases that wait, if any do.
    present: Estimator,
    earlier: Option<Estimator>,
    /// Estimator after the first half of those answers, where there are as many.
    middle: Option<Estimator>,
    /// Releases of a regular block.
    half: usize,
    waiting: VecDeque<(u64, Answer)>,
    snapshots: Vec<Snapshot>,
    /// Variances of the forecasts of their numbers.
    forecasts: Vec<f64>,
}

/// Saved state without the readings; none of it is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) periods: Periods,
    pub(super) asked: u64,
    open: Option<OpenMean>,
    lost: bool,
    /// Estimator before the answers of the releases that wait.
    estimator: Estimator,
    waiting: VecDeque<(u64, Answer)>,
}

impl Track {
    pub(super) fn new(settings: &ScalarSettings) -> Result<Self, ScalarError> {
        let questioner = Questioner::new(settings)?;
        Ok(Self {
            present: questioner.estimator(settings.periods.as_slice()),
            questioner,
            periods: settings.periods,
            held: Held::default(),
            open: None,
            lost: false,
            asked: 0,
            earlier: None,
            middle: None,
            half: TUNING.most_waiting.min(settings.delay.saturating_add(1)).div_ceil(2) as usize,
            waiting: VecDeque::new(),
            snapshots: Vec::new(),
            forecasts: Vec::new(),
        })
    }

    /// Whether the error of a release is known. A mean hides how far its readings are from each other.
    pub(super) fn states_error(&self) -> bool {
        !self.questioner.asks_means()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(
        &mut self,
        permit: Permit,
        reading: Sealed<i64>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let timestamp = reading.timestamp();
        if self.questioner.is_exact() {
            let answer = self.questioner.ask(None, permit, &reading, random)?;
            let unknown = (0.0, f64::INFINITY).into();
            releases.push(self.release(timestamp, unknown, f64::INFINITY, answer, frame.output));
            return Ok(());
        }
        let earlier = (frame.settings.delay > 0 && self.waiting.is_empty()).then(|| self.present.clone());
        self.questioner.advance(&mut self.present, timestamp);
        let forecast = self.present.belief(0);
        let answer = self.ask(forecast, permit, reading, random)?;
        self.read(timestamp, answer);
        if frame.settings.delay == 0 {
            releases.push(self.release(timestamp, self.present.belief(0), forecast.variance, answer, frame.output));
            return Ok(());
        }
        self.earlier = earlier.or_else(|| self.earlier.take());
        self.waiting.push_back((timestamp, answer));
        self.keep(forecast);
        let is_due = |first: &(u64, Answer)| timestamp - first.0 >= u64::from(frame.settings.delay);
        if self.waiting.front().is_some_and(is_due) || self.waiting.len() >= TUNING.most_waiting as usize {
            let due = self.waiting.iter().take_while(|first| is_due(first)).count();
            self.release_first(due.max(self.waiting.len().div_ceil(2)), frame.output, releases);
        }
        Ok(())
    }

    /// Chooses a question about a reading at the present timestamp, and asks it, or holds the reading for a mean.
    fn ask(
        &mut self,
        forecast: Belief,
        permit: Permit,
        reading: Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<Answer, ScalarError> {
        let open = match self.open {
            Some(open) => open,
            None => match self.questioner.choose(forecast, self.asked, self.lost) {
                Question::Mean(open) => open,
                question => {
                    self.asked += 1;
                    let cut = if let Question::Bit { cut } = question { Some(cut) } else { None };
                    return self.questioner.ask(cut, permit, &reading, random);
                }
            },
        };
        self.open = Some(open);
        self.held.push(permit, reading)?;
        if self.held.len() < open.count as usize { Ok(Answer::Nothing) } else { self.ask_mean(open, random) }
    }

    fn ask_mean(&mut self, open: OpenMean, random: &mut impl Randomness) -> Result<Answer, ScalarError> {
        self.open = None;
        self.asked += 1;
        self.questioner.ask_mean(open, &mut self.held, random)
    }

    fn read(&mut self, timestamp: u64, answer: Answer) {
        if let Some(lost) = self.questioner.read(&mut self.present, timestamp, answer) {
            self.lost = lost;
        }
    }

    fn release(&self, timestamp: u64, belief: Belief, forecast: f64, answer: Answer, output: &Output) -> Release {
        let (value, variance) = self.questioner.release(belief, forecast, answer);
        output.release(timestamp, value, variance)
    }

    /// Releases the first of those that wait, after one backward pass over all of them.
    fn release_first(&mut self, count: usize, output: &Output, releases: &mut Vec<Release>) {
        let is_regular = count == self.half && self.middle.is_some();
        for (belief, forecast) in self.present.smooth(&self.snapshots, count).into_iter().zip(&self.forecasts) {
            let Some((timestamp, answer)) = self.waiting.pop_front() else { break };
            releases.push(self.release(timestamp, belief, *forecast, answer, output));
            if let (false, Some(earlier)) = (is_regular, &mut self.earlier) {
                self.questioner.read(earlier, timestamp, answer);
            }
        }
        self.snapshots.drain(..count.min(self.snapshots.len()));
        self.forecasts.drain(..count.min(self.forecasts.len()));
        let middle = self.middle.take();
        self.earlier = if is_regular { middle } else { self.earlier.take() }.filter(|_| !self.waiting.is_empty());
        if self.waiting.len() >= self.half {
            self.middle = (self.waiting.len() == self.half).then(|| self.present.clone());
        }
    }

    /// Keeps the beliefs before and after the last answer, for the smoothing.
    fn keep(&mut self, forecast: Belief) {
        self.forecasts.push(forecast.variance);
        self.snapshots.push(self.present.snapshot());
        if self.snapshots.len() == self.half {
            self.middle = Some(self.present.clone());
        }
    }

    /// Releases all that waits, after a question about the open mean.
    pub(super) fn finish(
        &mut self,
        output: &Output,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let Some((timestamp, _)) = self.waiting.back().copied() else { return Ok(()) };
        if let Some(open) = self.open {
            let answer = self.ask_mean(open, random)?;
            self.read(timestamp, answer);
            if let (Some(last), Some(snapshot)) = (self.waiting.back_mut(), self.snapshots.last_mut()) {
                (last.1, *snapshot) = (answer, self.present.snapshot());
            }
        }
        self.release_first(self.waiting.len(), output, releases);
        Ok(())
    }

    /// State without the held readings.
    pub(super) fn state(&self) -> State {
        State {
            periods: self.periods,
            asked: self.asked,
            open: self.open,
            lost: self.lost,
            estimator: self.earlier.as_ref().unwrap_or(&self.present).clone(),
            waiting: self.waiting.clone(),
        }
    }

    /// Takes over a saved state and its held readings, after a reading at `last`, if it is valid for the settings.
    pub(super) fn load(&mut self, state: State, held: Held, last: Option<u64>, delay: u32) -> bool {
        let State { periods: _, asked, open, lost, estimator, waiting } = state;
        let recent = |timestamp: u64| last.is_some_and(|last| timestamp <= last);
        let in_order = waiting.iter().is_sorted_by(|first, second| first.0 < second.0);
        let after = |timestamp: u64| estimator.timestamp().is_none_or(|earlier| earlier < timestamp);
        let answered = |(timestamp, answer): &(u64, Answer)| {
            recent(*timestamp) && after(*timestamp) && self.questioner.can_answer(*answer)
        };
        let periods = if self.questioner.asks_means() { Periods::NONE } else { self.periods };
        let fits = estimator.fits(1, periods.as_slice())
            && estimator.is_like(&self.present)
            && estimator.timestamp().is_none_or(recent)
            && in_order
            && waiting.iter().all(answered)
            && (delay > 0 || waiting.is_empty())
            && waiting.len() < TUNING.most_waiting as usize
            && held.amounts().all(|amount| amount == self.questioner.epsilon())
            && held.timestamps().all(recent)
            && match open {
                Some(open) => self.questioner.can_ask(open) && (1..open.count as usize).contains(&held.len()),
                None => held.is_empty(),
            };
        if !fits {
            return false;
        }
        self.present = estimator.clone();
        for (timestamp, answer) in &waiting {
            self.questioner.advance(&mut self.present, *timestamp);
            let forecast = self.present.belief(0);
            self.questioner.read(&mut self.present, *timestamp, *answer);
            self.keep(forecast);
        }
        self.earlier = (!waiting.is_empty()).then_some(estimator);
        (self.asked, self.open, self.lost, self.waiting, self.held) = (asked, open, lost, waiting, held);
        true
    }
}
