//! `track`: questions about readings that follow from the answers so far, and an estimate from all of them.
//!
//! Readings are gathered in batches, and of a batch only the mean is asked for, of its readings moved into the range
//! where they are expected. Its noise is shared by all of them, and in proportion to that range instead of the domain.
//! Where readings have nothing to do with each other, or move too fast to be gathered, each is asked for by itself: by
//! a randomised answer to whether it lies above what is expected of it.
//!
//! Where one contributor to a count is protected, noise is small beside the domain, and added to each reading.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{
    BucketProbabilities, Bucketing, Held, PrimitiveError, Protects, Summing, bucket_probabilities, bucket_range,
};
use tidegate_kernel::{Epsilon, MAX_RESPONSE_EPSILON, Permit, Randomness, Sealed};

use super::bucorder::{best, explained};
use super::output::Output;
use super::settings::{Settings, Shares};
use super::{Frame, ScalarError};
use crate::estimate::bank::{Bank, Stillness};
use crate::estimate::density::{self, ANYWHERE, Density, MOST_CELLS, Models, Seen, quantile, scatter_around};
use crate::estimate::noise::Noise;
use crate::release::Release;

/// Nothing is held back for longer than so many timestamps: what comes later says little more.
const LONGEST: u32 = 128;

/// A batch has at most so many readings for an epsilon of one: with them, the noise of the mean is a twelfth of the
/// range.
const READINGS: f64 = 12.0;

/// A batch has never more readings.
const MOST_READINGS: u32 = 512;

/// The larger a batch, the smaller its noise, and the farther the level has moved on: the number of readings at which
/// both are alike, for a range and an epsilon and a pace of one, before the power of two thirds.
const BALANCE: f64 = 1.2;

/// A batch that takes longer than releases wait has at most so many times as many readings as make the noise as large
/// as what is unknown about the answer: the sooner there is one, the sooner releases are better than what was believed
/// beforehand.
const SHARP: f64 = 1.6;

/// The range of a mean has so much of what is expected on either side of the median.
const HALF: f64 = 0.15;

/// No range is narrower than this part of the domain.
const NARROWEST: f64 = 0.02;

/// Readings are asked for one by one where it is at least so likely that they have nothing to do with each other; or
/// less, down to where what a level might save if there is one is no more than what an answer about each reading saves
/// if there is none.
const ALONE: f64 = 0.98;

/// Where that is at least so likely, every second question is how many readings of a batch lie in the outer quarters,
/// and otherwise one in eight: a mean alone does not tell whether readings scatter over the domain or stay in the
/// middle of it.
const PERHAPS_ALONE: f64 = 0.1;

/// To know how far readings scatter is worth so many times what is saved at one reading, when it is compared with what
/// is saved by knowing the level better: a level moves on, and the scatter stays.
const STAYS: f64 = 20.0;

/// In so many places a batch may be cut to find out how far readings scatter: between parts that are equally likely.
const CUTS: u8 = 9;

/// So many questions are first asked about the middle.
const AT_FIRST: u8 = 2;

/// A round of questions, and those about the lower and the upper quarter. Where they are asked often, only every fourth
/// turn is taken.
const ROUND: u8 = 16;
const BELOW: u8 = 4;
const ABOVE: u8 = 12;

/// Where one contributor is protected, noise is added to readings if its scale is below this part of the domain's
/// width.
const SMALL_NOISE: f64 = 1.0 / 16.0;

#[derive(Debug)]
pub(super) struct Track {
    questions: Questions,
    /// Noise on single readings, where that is small.
    noise: Option<Summing>,
    /// The readings of the open batch.
    pub(super) held: Held,
    pub(super) state: State,
}

/// All that changes, but for the readings. Nothing of it is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum State {
    /// Questions are asked.
    Asks(Box<Asks>),
    /// Noise is added to readings.
    Adds(Box<Adds>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Adds {
    bank: Bank,
    last: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asks {
    /// What is believed after the last answer.
    now: Density,
    /// What was believed before the first of the answers that are kept.
    start: Density,
    /// The answers about what waits to be released.
    answers: VecDeque<Answer>,
    /// What they mean, of as many as that was found out for.
    #[serde(skip)]
    seen: VecDeque<Seen>,
    /// What is believed about the readings of the first of them, as of the last answer about a batch.
    ready: VecDeque<Estimate>,
    /// The batch that is being gathered.
    open: Option<Open>,
    /// The timestamps that wait to be released.
    waiting: VecDeque<u64>,
    /// The first timestamp of the last batch.
    last: Option<u64>,
    /// Whose turn it is to be asked for: the middle, or one of the outer quarters.
    turns: u8,
}

/// A place in the domain, in cells, and the expected squared distance from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate {
    place: f64,
    square: f64,
}

/// A question that waits for its readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    first: u64,
    /// How many timestamps after the beginning of the batch before; zero for the first.
    gap: u64,
    /// The range to which readings are moved, or that is divided into buckets, in points of the grid.
    low: i64,
    high: i64,
    /// How many readings it is about.
    count: u32,
    /// What is expected of each.
    expected: Estimate,
}

/// An answer, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    first: u64,
    last: u64,
    gap: u64,
    low: i64,
    high: i64,
    count: u32,
    said: Said,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    /// In which part of the range the reading lies.
    Bucket(u32),
    /// The sum of the readings, with noise.
    Sum(i64),
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

    /// The points between two places: two at least, and not much less than the narrowest part of the domain.
    fn between(&self, low: f64, high: f64) -> RangeInclusive<i64> {
        let middle = f64::midpoint(low, high);
        let half = ((high - low) / 2.0).max(NARROWEST / 2.0 * self.cells as f64);
        let point = |place: f64| self.low + self.steps(place).round() as i64;
        let (low, high) = (point(middle - half), point(middle + half));
        let end = self.low + (self.points - 1.0) as i64;
        if low < high { low..=high } else { low.min(end - 1)..=low.min(end - 1) + 1 }
    }

    /// The place of a number of points, in cells.
    fn place(&self, point: f64) -> f64 {
        (point - self.low as f64 + 0.5) / self.in_a_cell()
    }

    /// The number of points above the lowest that a place in cells stands for.
    fn steps(&self, place: f64) -> f64 {
        (place * self.in_a_cell() - 0.5).clamp(0.0, self.points - 1.0)
    }
}

/// The estimate with the least expected absolute error.
fn median(believed: &[f64]) -> Estimate {
    let place = quantile(believed, 0.5);
    Estimate { place, square: scatter_around(believed, place) }
}

impl Track {
    pub(super) fn new(settings: &Settings, shares: &Shares, range: &RangeInclusive<i64>) -> Result<Self, ScalarError> {
        let domain = Domain::new(range);
        let protects = settings.protects;
        let noise = match protects {
            Protects::Reading => None,
            Protects::Contribution(_) => Some(Summing::new(range.clone(), protects, shares.publication)?)
                .filter(|summing| summing.scale().as_f64() < SMALL_NOISE * domain.points),
        };
        // Beyond what a randomised response can be set to, an answer is true almost surely.
        let epsilon = if noise.is_some() { shares.publication } else { shares.publication.min(MAX_RESPONSE_EPSILON) };
        let buckets = if noise.is_some() { 2 } else { best(epsilon, range)? };
        let probabilities = bucket_probabilities(buckets, epsilon).map_err(PrimitiveError::from)?;
        let saved_alone = explained(buckets, epsilon)?;
        let models = Models::new(domain.cells);
        let state = match noise {
            Some(summing) => State::Adds(Box::new(Adds {
                bank: Bank::new(1, summing.scale().laplace_variance(), Stillness::Possible),
                last: None,
            })),
            None => State::Asks(Box::new(Asks::new(&models))),
        };
        let delay = settings.delay;
        let questions = Questions { domain, models, epsilon, protects, buckets, probabilities, saved_alone, delay };
        Ok(Self { questions, noise, held: Held::default(), state })
    }

    pub(super) fn waiting(&self) -> usize {
        match &self.state {
            State::Asks(asks) => asks.waiting.len(),
            State::Adds(_) => 0,
        }
    }

    pub(super) fn push(
        &mut self,
        permit: Permit,
        reading: Sealed<i64>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let epsilon = self.questions.epsilon;
        let permit = if permit.epsilon() > epsilon { super::split(permit, Some(epsilon))?.0 } else { permit };
        let timestamp = reading.timestamp();
        let State::Asks(asks) = &mut self.state else {
            releases.push(self.add_noise(permit, &reading, frame.output, random)?);
            return Ok(());
        };
        let questions = &self.questions;
        let open = *asks.open.get_or_insert_with(|| questions.next(&asks.now, asks.last, timestamp, &mut asks.turns));
        self.held.push(permit, reading)?;
        asks.waiting.push_back(timestamp);
        if self.held.len() >= open.count as usize {
            let believed = asks.ask(questions, &mut self.held, random)?;
            if frame.settings.delay == 0 {
                // Those before it were released as they came.
                asks.answers.clear();
                asks.seen.clear();
                asks.waiting.clear();
                releases.push(questions.release(timestamp, median(&believed), frame.output));
                return Ok(());
            }
        }
        asks.release_due(questions, timestamp, frame, releases)
    }

    /// Publishes a reading with noise, and releases what is then believed about it.
    fn add_noise(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        output: &Output,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        let (Some(summing), State::Adds(adds)) = (&self.noise, &mut self.state) else {
            return Err(ScalarError::Misfit { what: "what is believed" });
        };
        let timestamp = reading.timestamp();
        let gap = adds.last.map_or(0, |last| timestamp - last);
        #[allow(clippy::cast_precision_loss)] // published already
        let noisy = (summing.publish([(permit, reading)], random)?.into_value() - self.questions.domain.low) as f64;
        adds.bank.observe(gap, &[noisy], Noise::laplace(summing.scale().laplace_variance()));
        adds.last = Some(timestamp);
        let estimates = adds.bank.estimate(0);
        let (mean, variance) =
            (estimates.means[0].clamp(0.0, self.questions.domain.points - 1.0), estimates.variances[0]);
        Ok(output.release(timestamp, mean, variance))
    }

    /// Releases all that waits, after a question about what is still held.
    pub(super) fn finish(
        &mut self,
        output: &Output,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let State::Asks(asks) = &mut self.state else { return Ok(()) };
        if asks.waiting.is_empty() {
            return Ok(());
        }
        if asks.open.is_some() {
            asks.ask(&self.questions, &mut self.held, random)?;
        }
        asks.release_all(&self.questions, output, releases)
    }

    /// Whether a state, with the readings that are held, can be that of a mechanism with these settings, which last
    /// took a reading at a given timestamp.
    pub(super) fn fits(&self, state: &State, held: &Held, last: Option<u64>, delay: u32) -> bool {
        match state {
            State::Adds(adds) => self.noise.is_some() && adds.bank.fits(&[1]) && adds.last == last && held.is_empty(),
            State::Asks(asks) => {
                self.noise.is_none()
                    && held.amounts().all(|amount| amount == self.questions.epsilon)
                    && asks.fits(&self.questions, held, last, delay)
            }
        }
    }
}

/// Whose turn is next; the outer quarters' sooner where they are in question.
const fn next_turn(turn: u8, in_question: bool) -> u8 {
    let Some(place) = turn.checked_sub(AT_FIRST) else { return turn + 1 };
    let next = if in_question { (place / BELOW + 1) * BELOW } else { place + 1 };
    AT_FIRST + next % ROUND
}

/// What is asked, and what an answer means.
#[derive(Debug)]
struct Questions {
    domain: Domain,
    models: Models,
    epsilon: Epsilon,
    protects: Protects,
    buckets: u32,
    /// How likely the true bucket and each other is published.
    probabilities: BucketProbabilities,
    /// What part of the variance of a reading that may lie anywhere is explained by an answer about it alone.
    saved_alone: f64,
    delay: u32,
}

impl Questions {
    /// What to ask of the next readings.
    fn next(&self, now: &Density, last: Option<u64>, first: u64, turns: &mut u8) -> Open {
        let gap = last.map_or(0, |last| first - last);
        let ahead = now.later(&self.models, gap);
        let believed = ahead.number(&self.models);
        let without_level = ahead.without_level();
        let is_alone = without_level > ALONE.min(1.0 - self.saved_alone);
        let at = |part: f64| quantile(&believed, part);
        let centre = self.domain.between(at(0.5 - HALF), at(0.5 + HALF));
        if !is_alone {
            *turns = next_turn(*turns, without_level > PERHAPS_ALONE);
        }
        let turn = turns.checked_sub(AT_FIRST);
        let cut = turn.filter(|_| !is_alone).and_then(|_| self.of_scatter(&believed, &centre, &ahead));
        let range = cut.unwrap_or_else(|| match turn {
            Some(BELOW) => self.around(at(0.25)),
            Some(ABOVE) => self.around(at(0.75)),
            _ => centre.clone(),
        });
        let count = if is_alone { 1 } else { self.readings(&centre, &range, &ahead) };
        let range = if count == 1 { self.parts(&believed) } else { range };
        Open { first, gap, low: *range.start(), high: *range.end(), count, expected: median(&believed) }
    }

    /// Where to cut the next batch to find out how far readings scatter, if that is worth more than to ask for their
    /// level again. A mean over a narrow range tells too little of it: half of what scatters anywhere is above, as of
    /// what stays within the range.
    fn of_scatter(
        &self,
        believed: &[f64],
        centre: &RangeInclusive<i64>,
        ahead: &Density,
    ) -> Option<RangeInclusive<i64>> {
        let count = self.readings(centre, centre, ahead);
        let promise = |range: &RangeInclusive<i64>| {
            #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
            let [low, high] = [*range.start(), *range.end()].map(|point| self.domain.place(point as f64));
            let scale = self.width(range) / (self.epsilon.as_f64() * f64::from(count) * self.domain.in_a_cell());
            ahead.promise(&self.models, count, (low, high), scale)
        };
        // Both as parts of the error. What is saved by knowing of scatter is an answer about each reading, if they are
        // found to lie anywhere.
        let of_level = promise(centre).level / (2.0 * scatter_around(believed, quantile(believed, 0.5)));
        let worth = |scatter: f64| STAYS * self.saved_alone * scatter / ANYWHERE.powi(2);
        if worth(ahead.scatter_unknown()) <= of_level {
            return None; // no answer could tell more than all
        }
        let cut = |part: u8| self.around(quantile(believed, f64::from(part) / f64::from(CUTS + 1)));
        let cuts = (1..=CUTS).map(|part| (promise(&cut(part)).scatter, part));
        let (scatter, best) = cuts.max_by(|first, second| first.0.total_cmp(&second.0))?;
        (worth(scatter) > of_level).then(|| cut(best))
    }

    /// By how much a sum over a range may change with what is protected, in points.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    fn width(&self, range: &RangeInclusive<i64>) -> f64 {
        self.protects.sensitivity(range).map_or(1.0, |points| points as f64)
    }

    /// How many readings to gather for a mean over a range, when so much is known about them; `centre` is the range in
    /// which they are expected.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // public, and clamped
    fn readings(&self, centre: &RangeInclusive<i64>, range: &RangeInclusive<i64>, ahead: &Density) -> u32 {
        let epsilon = self.epsilon.as_f64();
        let most = (READINGS / epsilon).round().clamp(1.0, f64::from(MOST_READINGS));
        let balanced = (BALANCE * self.width(centre) / self.domain.points / (epsilon * ahead.pace())).powf(2.0 / 3.0);
        let [low, high] = [*range.start(), *range.end()].map(|point| self.domain.place(point as f64));
        let unknown = ahead.uncertainty(&self.models, low, high) * self.domain.in_a_cell();
        let sharp = SHARP * self.width(range) / (epsilon * unknown);
        sharp.max(f64::from(self.delay) + 1.0).min(balanced).round().clamp(1.0, most) as u32
    }

    /// The two points around the edge of a cell: moved to them, readings are counted.
    fn around(&self, place: f64) -> RangeInclusive<i64> {
        let first = self.domain.first_point(place);
        first - 1..=first
    }

    /// The range to divide: its parts are about equally likely. Of two parts only where they meet matters, for readings
    /// are clamped to the range.
    fn parts(&self, expected: &[f64]) -> RangeInclusive<i64> {
        let part = f64::from(self.buckets).recip();
        if self.buckets == 2 {
            return self.around(quantile(expected, part));
        }
        let first = self.domain.first_point(quantile(expected, part));
        let last = self.domain.first_point(quantile(expected, 1.0 - part));
        let inner = i64::from(self.buckets) - 2;
        let width = (last.saturating_sub(first) / inner).max(1);
        first - width..=first + width * (inner + 1) - 1
    }

    fn summing(&self, range: RangeInclusive<i64>) -> Result<Summing, ScalarError> {
        Ok(Summing::new(range, self.protects, self.epsilon)?)
    }

    /// How likely an answer is, wherever the readings lie.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    fn seen(&self, answer: &Answer) -> Result<Seen, ScalarError> {
        let range = answer.low..=answer.high;
        let answer_given = match answer.said {
            Said::Bucket(label) => {
                let part = bucket_range(&range, self.buckets, label)?;
                let probabilities = self.probabilities;
                // The outer parts go on to the ends of the domain.
                let in_cells = |point: i64| (point - self.domain.low) as f64 / self.domain.in_a_cell();
                let low = if label == 0 { f64::NEG_INFINITY } else { in_cells(*part.start()) };
                let high = if label + 1 == self.buckets { f64::INFINITY } else { in_cells(*part.end() + 1) };
                let likely = |cell: usize| {
                    let inside = (high.min(cell as f64 + 1.0) - low.max(cell as f64)).clamp(0.0, 1.0);
                    probabilities.other + inside * (probabilities.truth - probabilities.other)
                };
                density::Answer::One((0..self.domain.cells).map(likely).collect())
            }
            Said::Sum(sum) => {
                let count = f64::from(answer.count);
                let deviation = self.summing(range)?.scale().laplace_variance().sqrt();
                density::Answer::Mean {
                    count: answer.count,
                    low: self.domain.place(answer.low as f64),
                    high: self.domain.place(answer.high as f64),
                    mean: self.domain.place(sum as f64 / count),
                    scale: deviation / std::f64::consts::SQRT_2 / (count * self.domain.in_a_cell()),
                }
            }
        };
        Ok(self.models.seen(answer.gap, answer_given))
    }

    /// Whether a range can have been asked for.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    fn can_ask(&self, low: i64, high: i64, divided: bool) -> bool {
        let Domain { low: lowest, points, .. } = self.domain;
        let near = |point: i64| (-points..=2.0 * points).contains(&(point as f64 - lowest as f64));
        let parts = if divided { self.buckets } else { 2 };
        near(low) && near(high) && high > low && high.abs_diff(low) >= u64::from(parts) - 1
    }

    fn release(&self, timestamp: u64, Estimate { place, square }: Estimate, output: &Output) -> Release {
        output.release(timestamp, self.domain.steps(place), square * self.domain.in_a_cell().powi(2))
    }
}

impl Asks {
    fn new(models: &Models) -> Self {
        let density = Density::new(models);
        Self {
            now: density.clone(),
            start: density,
            answers: VecDeque::new(),
            seen: VecDeque::new(),
            ready: VecDeque::new(),
            open: None,
            waiting: VecDeque::new(),
            last: None,
            turns: 0,
        }
    }

    /// Asks the open question about the readings that are held, takes the answer in, and returns what is believed about
    /// each of them.
    fn ask(
        &mut self,
        questions: &Questions,
        held: &mut Held,
        random: &mut impl Randomness,
    ) -> Result<Vec<f64>, ScalarError> {
        let (Some(open), Some(last)) = (self.open.take(), held.timestamps().next_back()) else {
            return Err(ScalarError::Misfit { what: "the open question" });
        };
        let range = open.low..=open.high;
        let count = u32::try_from(held.len()).unwrap_or(u32::MAX);
        let mut members: Vec<(Permit, Sealed<i64>)> = held.drain().collect();
        let said = if open.count == 1
            && let Some((permit, reading)) = members.pop()
        {
            let bucketing = Bucketing::new(range, questions.buckets, questions.epsilon)?;
            Said::Bucket(bucketing.randomise(permit, &reading, random)?.into_value())
        } else {
            let (permits, readings): (Vec<Permit>, Vec<Sealed<i64>>) = members.into_iter().unzip();
            let sum = questions.summing(range)?.publish(permits.into_iter().zip(&readings), random)?;
            Said::Sum(sum.into_value())
        };
        let answer = Answer { first: open.first, last, gap: open.gap, low: open.low, high: open.high, count, said };
        self.look_at_all(questions)?;
        let seen = questions.seen(&answer)?;
        let believed = self.now.observe(&questions.models, &seen);
        self.answers.push_back(answer);
        self.seen.push_back(seen);
        self.last = Some(open.first);
        if matches!(said, Said::Sum(_)) {
            self.ready.clear();
        }
        Ok(believed)
    }

    /// Releases what may not wait any longer.
    fn release_due(
        &mut self,
        questions: &Questions,
        timestamp: u64,
        frame: Frame<'_>,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let delay = frame.settings.delay.min(LONGEST);
        while let Some(&first) = self.waiting.front()
            && timestamp - first >= u64::from(delay)
        {
            // Of single readings a few at a time: looking back costs as much for one as for all.
            let singly = self.answers.front().is_some_and(|answer| answer.count == 1);
            let together = if singly { (delay as usize + 1) / 3 } else { 1 };
            let estimate = self.estimate(questions, together, first)?;
            self.waiting.pop_front();
            releases.push(questions.release(first, estimate, frame.output));
            self.forget(questions)?;
        }
        Ok(())
    }

    fn release_all(
        &mut self,
        questions: &Questions,
        output: &Output,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        self.ready.clear();
        while let Some(first) = self.waiting.front().copied() {
            let estimate = self.estimate(questions, self.answers.len(), first)?;
            self.waiting.pop_front();
            releases.push(questions.release(first, estimate, output));
            self.forget(questions)?;
        }
        Ok(())
    }

    /// What is believed about the first reading that waits. If that has to be found out by looking back, so much is
    /// found out about so many answers.
    fn estimate(&mut self, questions: &Questions, together: usize, timestamp: u64) -> Result<Estimate, ScalarError> {
        if self.answers.front().is_none_or(|answer| answer.first > timestamp) {
            // Its batch is still open.
            let expected = self.open.map(|open| open.expected);
            return expected.ok_or(ScalarError::Misfit { what: "the open question" });
        }
        if self.ready.is_empty() {
            self.look_at_all(questions)?;
            let together = together.clamp(1, self.seen.len());
            let believed = self.now.smooth(&questions.models, &self.start, self.seen.iter(), together);
            self.ready = believed.iter().map(|believed| median(believed)).collect();
        }
        self.ready.front().copied().ok_or(ScalarError::Misfit { what: "what is believed" })
    }

    /// Finds out what all answers mean, after they were loaded.
    fn look_at_all(&mut self, questions: &Questions) -> Result<(), ScalarError> {
        for answer in self.answers.iter().skip(self.seen.len()) {
            self.seen.push_back(questions.seen(answer)?);
        }
        Ok(())
    }

    /// Forgets answers about nothing that waits.
    fn forget(&mut self, questions: &Questions) -> Result<(), ScalarError> {
        while let Some(answer) = self.answers.front()
            && self.waiting.front().is_none_or(|first| answer.last < *first)
        {
            let seen = match self.seen.pop_front() {
                Some(seen) => seen,
                None => questions.seen(answer)?,
            };
            self.start.pass(&questions.models, &seen);
            self.answers.pop_front();
            self.ready.pop_front();
        }
        Ok(())
    }

    /// Whether it can be the state of a mechanism that asks these questions and last took a reading at a given
    /// timestamp.
    fn fits(&self, questions: &Questions, held: &Held, pushed: Option<u64>, delay: u32) -> bool {
        let Self { now, start, answers, seen: _, ready, open, waiting, last, turns } = self;
        let possible = |answer: &Answer| {
            let Answer { first, last, count, said, .. } = *answer;
            let is_answer = match said {
                Said::Bucket(label) => label < questions.buckets && count == 1,
                Said::Sum(_) => true,
            };
            let is_batch = (1..=MOST_READINGS).contains(&count);
            is_answer && is_batch && last.checked_sub(first).is_some_and(|gap| gap >= u64::from(count) - 1)
        };
        let in_order = answers
            .iter()
            .zip(answers.iter().skip(1))
            .all(|(earlier, later)| later.first > earlier.last && later.first - earlier.first == later.gap);
        let ranges = answers
            .iter()
            .map(|answer| (answer.low, answer.high, matches!(answer.said, Said::Bucket(_))))
            .chain(open.iter().map(|open| (open.low, open.high, open.count == 1)));
        let mut ranges = ranges.map(|(low, high, divided)| questions.can_ask(low, high, divided));
        let estimates = ready.iter().chain(open.iter().map(|open| &open.expected));
        let mut estimates = estimates.map(|estimate| estimate.place.is_finite() && estimate.square >= 0.0);
        let opened = match (open, held.timestamps().next()) {
            (None, None) => true,
            (Some(open), Some(first)) => {
                let gap = last.map_or(Some(0), |last| first.checked_sub(last));
                let is_batch = open.count <= MOST_READINGS && held.len() < open.count as usize;
                first == open.first && Some(open.gap) == gap && is_batch
            }
            _ => false,
        };
        let is_recent = |timestamp: Option<u64>| timestamp.is_none_or(|timestamp| Some(timestamp) <= pushed);
        let told = answers.front().map(|answer| answer.first).or(open.map(|open| open.first));
        let waits = match (waiting.front(), waiting.back()) {
            (Some(first), Some(latest)) => {
                told.is_some_and(|told| told <= *first)
                    && answers.front().is_none_or(|answer| answer.last >= *first)
                    && Some(*latest) == pushed
            }
            // Without a delay, readings of an open batch are released as they come.
            _ => answers.is_empty() && (delay == 0 || open.is_none()),
        };
        now.fits(&questions.models)
            && start.fits(&questions.models)
            && answers.iter().all(possible)
            && in_order
            && ranges.all(|possible| possible)
            && ready.len() <= answers.len()
            && estimates.all(|possible| possible)
            && opened
            && waits
            && waiting.iter().is_sorted_by(|first, second| first < second)
            && waiting.len() <= delay.min(LONGEST) as usize
            && is_recent(*last)
            && is_recent(held.timestamps().next_back())
            && is_recent(answers.back().map(|answer| answer.last))
            && (last.is_some() || answers.is_empty())
            && *turns < AT_FIRST + ROUND
    }
}
