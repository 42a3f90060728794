//! [`AdaptiveQueries`]: queries already asked, and readings that wait for release.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{Bucketing, Held};
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::planner::{
    AnsweredQuery, Estimate, FIRST_TURNS, MAX_BATCH_SIZE, NoisyAnswer, OpenQuery, QueryPlanner, ROUND, median,
};
use crate::estimate::grid_filter::{GridFilter, GridModels, ObservationLikelihood};
use crate::release::Release;
use crate::scalar::output::Output;
use crate::scalar::{Frame, ScalarError};

/// Maximum delay in timestamps; later answers hardly matter.
const MAX_DELAY: u32 = 128;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scalar) struct AdaptiveQueries {
    /// Filter after the last answer.
    pub(super) now: GridFilter,
    /// Filter before the first kept answer.
    start: GridFilter,
    /// Answers about readings that wait.
    pub(super) answered: VecDeque<AnsweredQuery>,
    /// Likelihoods of the first answers; recomputed after loading.
    #[serde(skip)]
    pub(super) likelihoods: VecDeque<ObservationLikelihood>,
    /// Smoothed estimates of the first answers' readings, as of the last batch.
    ready: VecDeque<Estimate>,
    /// Query of the open batch.
    pub(super) open: Option<OpenQuery>,
    /// Timestamps that wait for release.
    pub(super) waiting: VecDeque<u64>,
    /// First timestamp of the last batch.
    pub(super) last: Option<u64>,
    /// Turn in the round: the middle, or an outer quarter.
    pub(super) turns: u8,
}

impl AdaptiveQueries {
    pub(super) fn new(models: &GridModels) -> Self {
        let density = GridFilter::new(models);
        Self {
            now: density.clone(),
            start: density,
            answered: VecDeque::new(),
            likelihoods: VecDeque::new(),
            ready: VecDeque::new(),
            open: None,
            waiting: VecDeque::new(),
            last: None,
            turns: 0,
        }
    }

    /// Asks the open query about the held readings, and updates the filter. Returns the density of each reading.
    pub(super) fn ask(
        &mut self,
        planner: &QueryPlanner,
        held: &mut Held,
        random: &mut impl Randomness,
    ) -> Result<Vec<f64>, ScalarError> {
        let (Some(open), Some(last)) = (self.open.take(), held.timestamps().next_back()) else {
            return Err(ScalarError::Misfit { what: "the open question" });
        };
        let range = open.low..=open.high;
        let count = u32::try_from(held.len()).unwrap_or(u32::MAX);
        let mut members: Vec<(Permit, Sealed<i64>)> = held.drain().collect();
        let answer = if open.count == 1
            && let Some((permit, reading)) = members.pop()
        {
            let bucketing = Bucketing::new(range, planner.buckets, planner.epsilon)?;
            NoisyAnswer::Bucket(bucketing.randomise(permit, &reading, random)?.into_value())
        } else {
            let (permits, readings): (Vec<Permit>, Vec<Sealed<i64>>) = members.into_iter().unzip();
            let sum = planner.summing(range)?.publish(permits.into_iter().zip(&readings), random)?;
            NoisyAnswer::Sum(sum.into_value())
        };
        let query =
            AnsweredQuery { first: open.first, last, gap: open.gap, low: open.low, high: open.high, count, answer };
        self.compute_likelihoods(planner)?;
        let likelihood = planner.likelihood(&query)?;
        let believed = self.now.observe(&planner.models, &likelihood);
        self.answered.push_back(query);
        self.likelihoods.push_back(likelihood);
        self.last = Some(open.first);
        if matches!(answer, NoisyAnswer::Sum(_)) {
            self.ready.clear();
        }
        Ok(believed)
    }

    /// Releases readings at the end of their delay.
    pub(super) fn release_due(
        &mut self,
        planner: &QueryPlanner,
        timestamp: u64,
        frame: Frame<'_>,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let delay = frame.settings.delay.min(MAX_DELAY);
        while let Some(&first) = self.waiting.front()
            && timestamp - first >= u64::from(delay)
        {
            // Smoothing costs the same for one as for all, so single readings are smoothed a few at a time.
            let singly = self.answered.front().is_some_and(|query| query.count == 1);
            let together = if singly { (delay as usize + 1) / 3 } else { 1 };
            let estimate = self.estimate(planner, together, first)?;
            self.waiting.pop_front();
            releases.push(planner.release(first, estimate, frame.output));
            self.forget(planner)?;
        }
        Ok(())
    }

    pub(super) fn release_all(
        &mut self,
        planner: &QueryPlanner,
        output: &Output,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        self.ready.clear();
        while let Some(first) = self.waiting.front().copied() {
            let estimate = self.estimate(planner, self.answered.len(), first)?;
            self.waiting.pop_front();
            releases.push(planner.release(first, estimate, output));
            self.forget(planner)?;
        }
        Ok(())
    }

    /// Estimate of the first waiting reading. If it needs smoothing, that covers the first `together` answers.
    fn estimate(&mut self, planner: &QueryPlanner, together: usize, timestamp: u64) -> Result<Estimate, ScalarError> {
        if self.answered.front().is_none_or(|query| query.first > timestamp) {
            // Its batch is still open.
            let expected = self.open.map(|open| open.expected);
            return expected.ok_or(ScalarError::Misfit { what: "the open question" });
        }
        if self.ready.is_empty() {
            self.compute_likelihoods(planner)?;
            let together = together.clamp(1, self.likelihoods.len());
            let believed = self.now.smooth(&planner.models, &self.start, self.likelihoods.iter(), together);
            self.ready = believed.iter().map(|believed| median(believed)).collect();
        }
        self.ready.front().copied().ok_or(ScalarError::Misfit { what: "what is believed" })
    }

    /// Computes missing likelihoods, after loading.
    fn compute_likelihoods(&mut self, planner: &QueryPlanner) -> Result<(), ScalarError> {
        for query in self.answered.iter().skip(self.likelihoods.len()) {
            self.likelihoods.push_back(planner.likelihood(query)?);
        }
        Ok(())
    }

    /// Drops answers about readings already released.
    fn forget(&mut self, planner: &QueryPlanner) -> Result<(), ScalarError> {
        while let Some(query) = self.answered.front()
            && self.waiting.front().is_none_or(|first| query.last < *first)
        {
            let likelihood = match self.likelihoods.pop_front() {
                Some(likelihood) => likelihood,
                None => planner.likelihood(query)?,
            };
            self.start.observe_levels(&planner.models, &likelihood);
            self.answered.pop_front();
            self.ready.pop_front();
        }
        Ok(())
    }

    /// Whether the state is valid for this planner, after a reading at `pushed`.
    pub(super) fn fits(&self, planner: &QueryPlanner, held: &Held, pushed: Option<u64>, delay: u32) -> bool {
        let Self { now, start, answered, likelihoods: _, ready, open, waiting, last, turns } = self;
        let possible = |query: &AnsweredQuery| {
            let AnsweredQuery { first, last, count, answer, .. } = *query;
            let is_answer = match answer {
                NoisyAnswer::Bucket(label) => label < planner.buckets && count == 1,
                NoisyAnswer::Sum(_) => true,
            };
            let is_batch = (1..=MAX_BATCH_SIZE).contains(&count);
            is_answer && is_batch && last.checked_sub(first).is_some_and(|gap| gap >= u64::from(count) - 1)
        };
        let in_order = answered
            .iter()
            .zip(answered.iter().skip(1))
            .all(|(earlier, later)| later.first > earlier.last && later.first - earlier.first == later.gap);
        let ranges = answered
            .iter()
            .map(|query| (query.low, query.high, matches!(query.answer, NoisyAnswer::Bucket(_))))
            .chain(open.iter().map(|open| (open.low, open.high, open.count == 1)));
        let mut ranges = ranges.map(|(low, high, divided)| planner.can_ask(low, high, divided));
        let estimates = ready.iter().chain(open.iter().map(|open| &open.expected));
        let mut estimates = estimates.map(|estimate| estimate.place.is_finite() && estimate.square >= 0.0);
        let opened = match (open, held.timestamps().next()) {
            (None, None) => true,
            (Some(open), Some(first)) => {
                let gap = last.map_or(Some(0), |last| first.checked_sub(last));
                let is_batch = open.count <= MAX_BATCH_SIZE && held.len() < open.count as usize;
                first == open.first && Some(open.gap) == gap && is_batch
            }
            _ => false,
        };
        let is_recent = |timestamp: Option<u64>| timestamp.is_none_or(|timestamp| Some(timestamp) <= pushed);
        let told = answered.front().map(|query| query.first).or(open.map(|open| open.first));
        let waits = match (waiting.front(), waiting.back()) {
            (Some(first), Some(latest)) => {
                told.is_some_and(|told| told <= *first)
                    && answered.front().is_none_or(|query| query.last >= *first)
                    && Some(*latest) == pushed
            }
            // Without a delay, readings of an open batch are released at once.
            _ => answered.is_empty() && (delay == 0 || open.is_none()),
        };
        now.fits(&planner.models)
            && start.fits(&planner.models)
            && answered.iter().all(possible)
            && in_order
            && ranges.all(|possible| possible)
            && ready.len() <= answered.len()
            && estimates.all(|possible| possible)
            && opened
            && waits
            && waiting.iter().is_sorted_by(|first, second| first < second)
            && waiting.len() <= delay.min(MAX_DELAY) as usize
            && is_recent(*last)
            && is_recent(held.timestamps().next_back())
            && is_recent(answered.back().map(|query| query.last))
            && (last.is_some() || answered.is_empty())
            && *turns < FIRST_TURNS + ROUND
    }
}
