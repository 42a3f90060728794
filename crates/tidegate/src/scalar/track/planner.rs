//! [`QueryPlanner`]: chooses the next query, and computes the likelihood of its answer.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::{BucketProbabilities, Protects, Summing, bucket_range};

use super::cell_grid::CellGrid;
use crate::estimate::grid_filter::{
    GridFilter, GridModels, GridObservation, ObservationLikelihood, UNIFORM_SPREAD, quantile, squared_deviation,
};
use crate::release::Release;
use crate::scalar::ScalarError;
use crate::scalar::output::Output;

/// Maximum batch size at an epsilon of 1: the noise of the mean is then a twelfth of the range.
const BATCH_SIZE_PER_EPSILON: f64 = 12.0;

/// Larger batches have less noise, but the level drifts meanwhile. Batch size that balances both, at range, epsilon and
/// step of 1, before the power of two thirds.
const BATCH_BALANCE: f64 = 1.2;

/// Batches longer than the delay have at most this multiple of the size at which noise equals prior uncertainty. Early
/// answers soon improve on the prior.
const NOISE_BALANCE: f64 = 1.6;

/// Mass of the forecast on either side of the median that the range of a mean covers.
const HALF_MASS: f64 = 0.15;

/// Readings are queried singly above this probability of independence. The threshold falls to where a level, if there
/// is one, saves no more than single answers do otherwise.
const INDEPENDENT: f64 = 0.98;

/// Above this probability of independence, every second query asks about the outer quarters; otherwise one in eight. A
/// mean alone cannot tell wide scatter from none.
const PERHAPS_INDEPENDENT: f64 = 0.1;

/// Value of knowing the scatter, relative to knowing the level: a level moves on, the scatter stays.
const SCATTER_VALUE: f64 = 20.0;

/// Candidate cuts for a query about scatter, at equal quantiles.
const CUT_COUNT: u8 = 9;

/// Maximum batch size.
pub(super) const MAX_BATCH_SIZE: u32 = 512;

/// First queries, which all ask about the middle.
pub(super) const FIRST_TURNS: u8 = 2;

/// Length of a round of queries, and its turns for the lower and upper quarter. If both are asked often, only every
/// fourth turn is taken.
pub(super) const ROUND: u8 = 16;
const BELOW: u8 = 4;
const ABOVE: u8 = 12;

/// Position in cells, and expected squared error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Estimate {
    pub(super) place: f64,
    pub(super) square: f64,
}

/// A query that waits for its readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenQuery {
    pub(super) first: u64,
    /// Timestamps since the first of the previous batch; zero for the first batch.
    pub(super) gap: u64,
    /// Range to which readings are clamped, or which is divided into buckets, in points.
    pub(super) low: i64,
    pub(super) high: i64,
    /// Number of readings.
    pub(super) count: u32,
    /// Forecast of each reading.
    pub(super) expected: Estimate,
}

/// A query with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnsweredQuery {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) gap: u64,
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) count: u32,
    pub(super) answer: NoisyAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum NoisyAnswer {
    /// Randomised bucket of the reading.
    Bucket(u32),
    /// Noisy sum of the readings.
    Sum(i64),
}

/// Median of a density, which minimises the expected absolute error.
pub(super) fn median(believed: &[f64]) -> Estimate {
    let place = quantile(believed, 0.5);
    Estimate { place, square: squared_deviation(believed, place) }
}

/// Next turn of a round.
const fn next_turn(turn: u8, in_question: bool) -> u8 {
    let Some(place) = turn.checked_sub(FIRST_TURNS) else { return turn + 1 };
    let next = if in_question { (place / BELOW + 1) * BELOW } else { place + 1 };
    FIRST_TURNS + next % ROUND
}

/// Chooses queries and interprets answers.
#[derive(Debug)]
pub(super) struct QueryPlanner {
    pub(super) grid: CellGrid,
    pub(super) models: GridModels,
    pub(super) epsilon: Epsilon,
    pub(super) protects: Protects,
    pub(super) buckets: u32,
    /// Probabilities of publishing the true bucket, and each other one.
    pub(super) probabilities: BucketProbabilities,
    /// Share of the variance of a uniform reading that a single answer explains.
    pub(super) single_explained: f64,
    pub(super) delay: u32,
}

impl QueryPlanner {
    /// Chooses the next query.
    pub(super) fn next_query(&self, now: &GridFilter, last: Option<u64>, first: u64, turns: &mut u8) -> OpenQuery {
        let gap = last.map_or(0, |last| first - last);
        let ahead = now.predict(&self.models, gap);
        let believed = ahead.number(&self.models);
        let independence = ahead.independence_probability();
        let is_independent = independence > INDEPENDENT.min(1.0 - self.single_explained);
        let at = |part: f64| quantile(&believed, part);
        let centre = self.grid.between(at(0.5 - HALF_MASS), at(0.5 + HALF_MASS));
        if !is_independent {
            *turns = next_turn(*turns, independence > PERHAPS_INDEPENDENT);
        }
        let turn = turns.checked_sub(FIRST_TURNS);
        let cut = turn.filter(|_| !is_independent).and_then(|_| self.scatter_cut(&believed, &centre, &ahead));
        let range = cut.unwrap_or_else(|| match turn {
            Some(BELOW) => self.edge(at(0.25)),
            Some(ABOVE) => self.edge(at(0.75)),
            _ => centre.clone(),
        });
        let count = if is_independent { 1 } else { self.batch_size(&centre, &range, &ahead) };
        let range = if count == 1 { self.bucketed_range(&believed) } else { range };
        OpenQuery { first, gap, low: *range.start(), high: *range.end(), count, expected: median(&believed) }
    }

    /// Returns where to cut the next batch to learn the scatter, if that is worth more than another mean. A mean over a
    /// narrow range hardly depends on the scatter.
    fn scatter_cut(
        &self,
        believed: &[f64],
        centre: &RangeInclusive<i64>,
        ahead: &GridFilter,
    ) -> Option<RangeInclusive<i64>> {
        let count = self.batch_size(centre, centre, ahead);
        let explained_by = |range: &RangeInclusive<i64>| {
            #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
            let [low, high] = [*range.start(), *range.end()].map(|point| self.grid.place(point as f64));
            let scale =
                self.sensitivity(range) / (self.epsilon.as_f64() * f64::from(count) * self.grid.points_per_cell());
            ahead.explained_variance(&self.models, count, (low, high), scale)
        };
        // Both relative to the error. Knowing the scatter pays if readings turn out independent: then each is queried
        // singly.
        let of_level = explained_by(centre).level / (2.0 * squared_deviation(believed, quantile(believed, 0.5)));
        let worth = |scatter: f64| SCATTER_VALUE * self.single_explained * scatter / UNIFORM_SPREAD.powi(2);
        if worth(ahead.scatter_variance()) <= of_level {
            return None; // no answer could tell more than all
        }
        let cut = |part: u8| self.edge(quantile(believed, f64::from(part) / f64::from(CUT_COUNT + 1)));
        let cuts = (1..=CUT_COUNT).map(|part| (explained_by(&cut(part)).scatter, part));
        let (scatter, best) = cuts.max_by(|first, second| first.0.total_cmp(&second.0))?;
        (worth(scatter) > of_level).then(|| cut(best))
    }

    /// Sensitivity of a sum over a range, in points.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    fn sensitivity(&self, range: &RangeInclusive<i64>) -> f64 {
        self.protects.sensitivity(range).map_or(1.0, |points| points as f64)
    }

    /// Batch size for a mean over `range`; `centre` is the range of the forecast.
    // Public, and clamped.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn batch_size(&self, centre: &RangeInclusive<i64>, range: &RangeInclusive<i64>, ahead: &GridFilter) -> u32 {
        let epsilon = self.epsilon.as_f64();
        let most = (BATCH_SIZE_PER_EPSILON / epsilon).round().clamp(1.0, f64::from(MAX_BATCH_SIZE));
        let balanced = (BATCH_BALANCE * self.sensitivity(centre) / self.grid.points / (epsilon * ahead.typical_step()))
            .powf(2.0 / 3.0);
        let [low, high] = [*range.start(), *range.end()].map(|point| self.grid.place(point as f64));
        let unknown = ahead.uncertainty(&self.models, low, high) * self.grid.points_per_cell();
        let sharp = NOISE_BALANCE * self.sensitivity(range) / (epsilon * unknown);
        sharp.max(f64::from(self.delay) + 1.0).min(balanced).round().clamp(1.0, most) as u32
    }

    /// The two points at the edge of a cell. Clamping to them counts the readings above it.
    fn edge(&self, place: f64) -> RangeInclusive<i64> {
        let first = self.grid.first_point(place);
        first - 1..=first
    }

    /// Range whose buckets have about equal forecast probability. With two buckets only their boundary matters.
    fn bucketed_range(&self, expected: &[f64]) -> RangeInclusive<i64> {
        let part = f64::from(self.buckets).recip();
        if self.buckets == 2 {
            return self.edge(quantile(expected, part));
        }
        let first = self.grid.first_point(quantile(expected, part));
        let last = self.grid.first_point(quantile(expected, 1.0 - part));
        let inner = i64::from(self.buckets) - 2;
        let width = (last.saturating_sub(first) / inner).max(1);
        first - width..=first + width * (inner + 1) - 1
    }

    pub(super) fn summing(&self, range: RangeInclusive<i64>) -> Result<Summing, ScalarError> {
        Ok(Summing::new(range, self.protects, self.epsilon)?)
    }

    /// Likelihood of an answer.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    pub(super) fn likelihood(&self, query: &AnsweredQuery) -> Result<ObservationLikelihood, ScalarError> {
        let range = query.low..=query.high;
        let observation = match query.answer {
            NoisyAnswer::Bucket(label) => {
                let part = bucket_range(&range, self.buckets, label)?;
                let probabilities = self.probabilities;
                // The outer buckets extend to the ends of the domain.
                let in_cells = |point: i64| (point - self.grid.low) as f64 / self.grid.points_per_cell();
                let low = if label == 0 { f64::NEG_INFINITY } else { in_cells(*part.start()) };
                let high = if label + 1 == self.buckets { f64::INFINITY } else { in_cells(*part.end() + 1) };
                let likely = |cell: usize| {
                    let inside = (high.min(cell as f64 + 1.0) - low.max(cell as f64)).clamp(0.0, 1.0);
                    probabilities.other + inside * (probabilities.truth - probabilities.other)
                };
                GridObservation::One((0..self.grid.cells).map(likely).collect())
            }
            NoisyAnswer::Sum(sum) => {
                let count = f64::from(query.count);
                let deviation = self.summing(range)?.scale().laplace_variance().sqrt();
                GridObservation::Mean {
                    count: query.count,
                    low: self.grid.place(query.low as f64),
                    high: self.grid.place(query.high as f64),
                    mean: self.grid.place(sum as f64 / count),
                    scale: deviation / std::f64::consts::SQRT_2 / (count * self.grid.points_per_cell()),
                }
            }
        };
        Ok(self.models.likelihood(query.gap, observation))
    }

    /// Whether a query of this range is possible.
    #[allow(clippy::cast_precision_loss)] // public, and at most 2^32 points
    pub(super) fn can_ask(&self, low: i64, high: i64, divided: bool) -> bool {
        let CellGrid { low: lowest, points, .. } = self.grid;
        let near = |point: i64| (-points..=2.0 * points).contains(&(point as f64 - lowest as f64));
        let parts = if divided { self.buckets } else { 2 };
        near(low) && near(high) && high > low && high.abs_diff(low) >= u64::from(parts) - 1
    }

    pub(super) fn release(&self, timestamp: u64, Estimate { place, square }: Estimate, output: &Output) -> Release {
        output.release(timestamp, self.grid.steps(place), square * self.grid.points_per_cell().powi(2))
    }
}
