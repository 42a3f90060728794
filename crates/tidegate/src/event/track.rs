//! `track`: randomised answers to whether a reading lies above what is expected of it, and an estimate from all of them.
//!
//! Where to ask follows from the answers so far, which are public. An answer that was a coin toss beforehand tells most; so a stream that moves
//! slowly is found as in a game of higher and lower, whatever the width of the domain, where noise in proportion to that width would drown it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{Bucketing, PrimitiveError, bucket_probabilities, bucket_range};
use tidegate_kernel::{Epsilon, MAX_RESPONSE_EPSILON, Randomness};

use super::bucorder::best;
use super::output::Output;
use super::settings::Shares;
use super::{Arrival, EventError, Frame};
use crate::estimate::density::{Density, MOST_CELLS, Seen, quantile, scatter_around};
use crate::release::Release;

/// Nothing is held back for longer than so many timestamps: what comes later says little more.
const LONGEST: u32 = 128;

#[derive(Debug)]
pub(super) struct Track {
    domain: Domain,
    epsilon: Epsilon,
    buckets: u32,
    pub(super) state: State,
}

/// All that changes. Nothing of it is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// What is believed after the last answer.
    now: Density,
    /// What was believed before the first that waits.
    start: Density,
    /// The answers about what waits to be released.
    waiting: VecDeque<Answer>,
    last: Option<u64>,
}

/// An answer, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    timestamp: u64,
    /// How many timestamps after the one before; zero for the first.
    gap: u64,
    /// The range that was divided, in points of the grid.
    low: i64,
    high: i64,
    /// In which part of it the reading is said to lie.
    label: u32,
}

/// The points of the grid, in cells.
#[derive(Clone, Copy, Debug)]
struct Domain {
    low: i64,
    points: f64,
    cells: usize,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // public, and at most 2^32 points
impl Domain {
    fn new(range: &RangeInclusive<i64>) -> Self {
        let points = range.end().abs_diff(*range.start()).saturating_add(1);
        let cells = usize::try_from(points).map_or(MOST_CELLS, |points| points.min(MOST_CELLS));
        Self { low: *range.start(), points: points as f64, cells }
    }

    /// How many points a cell has; not always a whole number.
    fn in_a_cell(&self) -> f64 {
        self.points / self.cells as f64
    }

    /// The first point of the cell that begins nearest to a place, which is neither the first cell nor beyond the last.
    fn first_point(&self, place: f64) -> i64 {
        let cell = place.round().clamp(1.0, self.cells as f64 - 1.0);
        self.low + (cell * self.in_a_cell()).ceil() as i64
    }

    /// The number of points above the lowest that a place in cells stands for.
    fn steps(&self, place: f64) -> f64 {
        (place * self.in_a_cell() - 0.5).clamp(0.0, self.points - 1.0)
    }
}

impl Track {
    pub(super) fn new(shares: &Shares, range: &RangeInclusive<i64>) -> Result<Self, EventError> {
        // Beyond what a randomised response can be set to, an answer is true almost surely.
        let epsilon = shares.publication.min(MAX_RESPONSE_EPSILON);
        let domain = Domain::new(range);
        let buckets = best(epsilon, range)?;
        let probabilities = bucket_probabilities(buckets, epsilon).map_err(PrimitiveError::from)?;
        let density = Density::new(domain.cells, (probabilities.truth - probabilities.other).powi(2));
        let state = State { now: density.clone(), start: density, waiting: VecDeque::new(), last: None };
        Ok(Self { domain, epsilon, buckets, state })
    }

    pub(super) fn waiting(&self) -> usize {
        self.state.waiting.len()
    }

    pub(super) fn push(
        &mut self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), EventError> {
        let Arrival { permit, reading, .. } = arrival;
        let timestamp = reading.timestamp();
        let gap = self.state.last.map_or(0, |last| timestamp - last);
        let range = self.question(&self.state.now.expected(gap));
        let bucketing = Bucketing::new(range.clone(), self.buckets, self.epsilon)?;
        let permit = if permit.epsilon() > self.epsilon { super::split(permit, Some(self.epsilon))?.0 } else { permit };
        let label = bucketing.randomise(permit, reading, random)?.into_value();
        let answer = Answer { timestamp, gap, low: *range.start(), high: *range.end(), label };
        let believed = self.state.now.observe(&self.seen(&answer)?);
        self.state.last = Some(timestamp);
        let delay = frame.settings.delay;
        if delay == 0 {
            releases.push(self.release(timestamp, &believed, frame.output));
            return Ok(());
        }
        self.state.waiting.push_back(answer);
        let delay = delay.min(LONGEST);
        let is_due = |waiting: &Answer| timestamp - waiting.timestamp >= u64::from(delay);
        if self.state.waiting.front().is_some_and(is_due) {
            // A few at a time: looking back costs as much for one as for all.
            let due = self.state.waiting.iter().take_while(|waiting| is_due(waiting)).count();
            let count = due.max((delay as usize + 1) / 3).clamp(1, self.state.waiting.len());
            self.release_first(count, frame.output, releases)?;
        }
        Ok(())
    }

    /// Releases all that waits.
    pub(super) fn finish(&mut self, output: &Output, releases: &mut Vec<Release>) -> Result<(), EventError> {
        self.release_first(self.waiting(), output, releases)
    }

    /// The range to divide: its parts are about equally likely. Of two parts only where they meet matters, for readings are clamped to
    /// the range.
    fn question(&self, expected: &[f64]) -> RangeInclusive<i64> {
        let part = f64::from(self.buckets).recip();
        let first = self.domain.first_point(quantile(expected, part));
        if self.buckets == 2 {
            return first - 1..=first;
        }
        let last = self.domain.first_point(quantile(expected, 1.0 - part));
        let inner = i64::from(self.buckets) - 2;
        let width = (last.saturating_sub(first) / inner).max(1);
        first - width..=first + width * (inner + 1) - 1
    }

    /// How likely each cell makes an answer.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    fn seen(&self, answer: &Answer) -> Result<Seen, EventError> {
        let range = answer.low..=answer.high;
        let part = bucket_range(&range, self.buckets, answer.label)?;
        let probabilities = bucket_probabilities(self.buckets, self.epsilon).map_err(PrimitiveError::from)?;
        // The outer parts go on to the ends of the domain.
        let in_cells = |point: i64| (point - self.domain.low) as f64 / self.domain.in_a_cell();
        let low = if answer.label == 0 { f64::NEG_INFINITY } else { in_cells(*part.start()) };
        let high = if answer.label + 1 == self.buckets { f64::INFINITY } else { in_cells(*part.end() + 1) };
        let likely = |cell: usize| {
            let inside = (high.min(cell as f64 + 1.0) - low.max(cell as f64)).clamp(0.0, 1.0);
            probabilities.other + inside * (probabilities.truth - probabilities.other)
        };
        Ok(Seen { gap: answer.gap, likelihood: (0..self.domain.cells).map(likely).collect() })
    }

    fn release_first(&mut self, count: usize, output: &Output, releases: &mut Vec<Release>) -> Result<(), EventError> {
        let seen: Vec<Seen> = self.state.waiting.iter().map(|answer| self.seen(answer)).collect::<Result<_, _>>()?;
        let believed = self.state.now.smooth(&mut self.state.start, &seen, count);
        let first: Vec<Answer> = self.state.waiting.drain(..count).collect();
        let released =
            first.iter().zip(&believed).map(|(answer, believed)| self.release(answer.timestamp, believed, output));
        releases.extend(released);
        Ok(())
    }

    /// The release of the median, which has the least expected absolute error.
    fn release(&self, timestamp: u64, believed: &[f64], output: &Output) -> Release {
        let place = quantile(believed, 0.5);
        let variance = scatter_around(believed, place) * self.domain.in_a_cell().powi(2);
        output.release(timestamp, self.domain.steps(place), variance)
    }

    /// Whether a state can be that of a mechanism with these settings, which last took a reading at a given timestamp.
    pub(super) fn fits(&self, state: &State, last: Option<u64>) -> bool {
        let State { now, start, waiting, last: pushed } = state;
        let in_order = waiting
            .iter()
            .zip(waiting.iter().skip(1))
            .all(|(earlier, later)| later.timestamp.checked_sub(earlier.timestamp) == Some(later.gap) && later.gap > 0);
        let possible = |answer: &Answer| {
            let points = answer.high.checked_sub(answer.low).and_then(|width| width.checked_add(1));
            points.is_some_and(|points| points >= i64::from(self.buckets)) && answer.label < self.buckets
        };
        let is_latest = waiting.back().is_none_or(|answer| Some(answer.timestamp) == last);
        now.fits(self.domain.cells)
            && start.fits(self.domain.cells)
            && *pushed == last
            && in_order
            && is_latest
            && waiting.len() <= LONGEST as usize
            && waiting.iter().all(possible)
    }
}
