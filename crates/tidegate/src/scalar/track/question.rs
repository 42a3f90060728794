//! [`Questioner`]: chooses a question about readings from earlier answers, asks it, and reads the answer.

use std::f64::consts::FRAC_2_PI;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{Bucketing, Held, Protects, Summing};
use tidegate_kernel::{Epsilon, MAX_RESPONSE_EPSILON, Permit, Randomness, Sealed};

use super::tuning::TUNING;
use crate::estimate::{Belief, Estimator, Noise, Prior, bit_update, whole};
use crate::scalar::points::{NORMAL_95, stated_variance};
use crate::scalar::settings::ScalarSettings;
use crate::scalar::{ScalarError, split};

/// Published answer about a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// None yet, or one in a mean.
    Nothing,
    /// The reading with noise.
    Noisy(i64),
    /// Whether the reading is above a point, by randomised response.
    Bit { cut: i64, above: bool },
    /// Sum of the last `count` readings with noise, each clamped to a range.
    Sum { sum: i64, count: u32, low: i64, high: i64 },
    /// Number of the last `count` readings above a point, with noise.
    Above { sum: i64, count: u32, cut: i64 },
}

/// A mean that waits for its readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenMean {
    pub(super) count: u32,
    pub(super) low: i64,
    pub(super) high: i64,
    /// Whether it counts the readings above `low` instead; `high` is the next point.
    pub(super) counts: bool,
}

/// Ways of asking about one reading, or a mean.
pub(super) enum Question {
    Noise,
    Bit { cut: i64 },
    Mean(OpenMean),
}

/// What is asked about a reading, for [`JumpSight`](crate::jumps::JumpSight).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    /// The reading, with noise of this scale in grid units.
    Noise { scale: f64 },
    /// A bit: how much its mean changes where the reading leaves its forecast; one of so many questions asks at the
    /// forecast.
    Bit { bias: f64, every: f64 },
    /// A mean of readings, and one over the whole domain after it left its range: together at most so many.
    Mean { most: f64 },
}

impl Look {
    pub(crate) fn of_track(settings: &ScalarSettings) -> Result<Self, ScalarError> {
        let questioner = Questioner::new(settings)?;
        if questioner.is_small {
            return Ok(Self::Noise { scale: questioner.noise.scale().as_f64() });
        }
        if questioner.asks_means() {
            // The range is that many deviations wide, and the noise scale of a mean is in proportion to it. A count of
            // readings above a point may come before it.
            let epsilon = questioner.epsilon().as_f64();
            let batch = TUNING.readings * 2.0 * TUNING.reach / epsilon;
            let count = TUNING.readings / (0.5 * epsilon);
            let most = f64::from(TUNING.most_readings);
            return Ok(Self::Mean { most: batch.min(most) + count.min(most) + most });
        }
        #[allow(clippy::cast_precision_loss)] // a few questions
        let turn = TUNING.look_every as f64;
        Ok(Self::Bit { bias: 2.0 * questioner.truth - 1.0, every: turn / (turn - 1.0) })
    }
}

/// Chooses questions, asks them and reads the answers. All but the readings is public.
#[derive(Debug)]
pub(super) struct Questioner {
    range: RangeInclusive<i64>,
    /// Width of the domain, in grid units.
    width: f64,
    epsilon: Epsilon,
    protects: Protects,
    /// Noise on a reading of its own.
    pub(super) noise: Summing,
    /// Whether noise on each reading is small enough.
    pub(super) is_small: bool,
    /// Epsilon of a randomised bit, and the probability that it is true.
    bit: Epsilon,
    truth: f64,
    /// Most readings of a mean that releases wait for; none if they do not.
    waits_for: Option<u32>,
}

impl Questioner {
    pub(super) fn new(settings: &ScalarSettings) -> Result<Self, ScalarError> {
        let (range, epsilon, protects) = (settings.grid.range(), settings.epsilon, settings.protects);
        #[allow(clippy::cast_precision_loss)] // at most 2^32 points
        let width = (range.end() - range.start()) as f64;
        let noise = Summing::new(range.clone(), protects, epsilon)?;
        let bit = epsilon.min(MAX_RESPONSE_EPSILON);
        let lag = settings.delay.min(TUNING.most_waiting) / 2;
        Ok(Self {
            is_small: noise.scale().as_f64() < TUNING.small_noise * width,
            truth: Bucketing::new(0..=1, 2, bit)?.probabilities().truth,
            waits_for: (lag > 0).then_some(lag),
            range,
            width,
            epsilon,
            protects,
            noise,
            bit,
        })
    }

    /// Whether readings are asked in means: their noise is shared, but single readings stay unknown.
    pub(super) fn asks_means(&self) -> bool {
        !self.is_small && self.epsilon.as_f64() < TUNING.means_below
    }

    pub(super) const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// Estimator before the first answer.
    pub(super) fn estimator(&self, periods: &[u32]) -> Estimator {
        let squared = self.width * self.width;
        let unit = if self.is_small { self.noise.scale().as_f64().powi(2) } else { TUNING.unit * squared };
        let prior = Prior {
            mean: self.width / 2.0,
            // Of a uniform number on the grid.
            variance: (squared + 2.0 * self.width) / 12.0,
            largest_step: squared,
        };
        let periods = if self.asks_means() { &[] } else { periods };
        let estimator = Estimator::new(1, unit, prior, periods);
        if self.is_small {
            return estimator;
        }
        estimator.with_scatter(TUNING.scattered, TUNING.season_scatter * squared)
    }

    /// Expected decrease in the logarithm of the variance, by a bit at the median.
    fn bit_information(&self) -> f64 {
        -(-FRAC_2_PI * (2.0 * self.truth - 1.0).powi(2)).ln_1p()
    }

    /// Chooses the next question from a forecast of the reading. `lost` says that the last mean left its range.
    pub(super) fn choose(&self, Belief { mean, variance, .. }: Belief, asked: u64, lost: bool) -> Question {
        let deviation = variance.sqrt();
        if self.is_small {
            return Question::Noise;
        }
        // Neither a mean nor a bit at the forecast tells how far readings scatter around it.
        let look = match asked % (2 * TUNING.look_every) {
            1 => -TUNING.look * self.width,
            turn if turn == 1 + TUNING.look_every => TUNING.look * self.width,
            _ => 0.0,
        };
        let cut = if (0.0..=self.width).contains(&(mean + look)) { mean + look } else { mean - look };
        let cut = self.point(cut - 0.5).min(self.range.end() - 1);
        if self.asks_means() {
            let counts = look.abs() > 0.0;
            let half = if lost { self.width } else { TUNING.reach * deviation };
            let (low, high) = if counts { (cut, cut + 1) } else { self.between(mean - half, mean + half) };
            let deviation = if counts { 0.5 } else { deviation };
            let sums = Summing::new(low..=high, self.protects, self.epsilon);
            let best = TUNING.readings * sums.map_or(self.noise.scale(), |sums| sums.scale()).as_f64() / deviation;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
            let best = best.ceil().clamp(1.0, f64::from(TUNING.most_readings)) as u32;
            // A mean that comes a little too late for the releases has fewer readings.
            let count = self.waits_for.filter(|lag| best <= 4 * lag).map_or(best, |lag| best.min(lag));
            return Question::Mean(OpenMean { count, low, high, counts });
        }
        let of_noise = (variance / self.noise.scale().laplace_variance()).ln_1p();
        // Noise tells scatter from none at once, but less than a bit about a number that hardly moves.
        let learns = asked < TUNING.learn && asked % 2 == 1;
        let is_narrow = self.noise.scale().as_f64() < TUNING.learn_noise * self.width;
        if learns && is_narrow {
            return Question::Noise;
        }
        if of_noise > self.bit_information() {
            return Question::Noise;
        }
        Question::Bit { cut }
    }

    /// Nearest points of the domain, at least two.
    fn between(&self, low: f64, high: f64) -> (i64, i64) {
        let (low, high) = (self.point(low).min(self.range.end() - 1), self.point(high));
        (low, high.max(low + 1))
    }

    /// Nearest point of the domain.
    #[allow(clippy::cast_possible_truncation)] // clamped
    fn point(&self, place: f64) -> i64 {
        (place.round() as i64).clamp(*self.range.start(), *self.range.end())
    }

    /// Asks about one reading.
    pub(super) fn ask(
        &self,
        cut: Option<i64>,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<Answer, ScalarError> {
        let Some(cut) = cut else {
            return Ok(Answer::Noisy(self.noise.publish([(permit, reading)], random)?.into_value()));
        };
        let permit = if permit.epsilon() > self.bit { split(permit, Some(self.bit))?.0 } else { permit };
        // Two points, of which a reading is clamped to the nearer.
        let bucketing = Bucketing::new(cut..=cut + 1, 2, self.bit)?;
        Ok(Answer::Bit { cut, above: *bucketing.randomise(permit, reading, random)?.value() == 1 })
    }

    /// Asks about the mean of held readings, which are gone then.
    pub(super) fn ask_mean(
        &self,
        OpenMean { low, high, counts, .. }: OpenMean,
        held: &mut Held,
        random: &mut impl Randomness,
    ) -> Result<Answer, ScalarError> {
        let (permits, readings): (Vec<Permit>, Vec<Sealed<i64>>) = held.drain().unzip();
        let sums = Summing::new(low..=high, self.protects, self.epsilon)?;
        let sum = sums.publish(permits.into_iter().zip(&readings), random)?.into_value();
        #[allow(clippy::cast_possible_truncation)] // at most as many as were asked for
        let count = readings.len() as u32;
        Ok(if counts {
            Answer::Above { sum: sum.saturating_sub(low.saturating_mul(count.into())), count, cut: low }
        } else {
            Answer::Sum { sum, count, low, high }
        })
    }

    /// Moves an estimator on to the timestamp of a reading, which lies in the domain.
    pub(super) fn advance(&self, estimator: &mut Estimator, timestamp: u64) {
        if estimator.timestamp() == Some(timestamp) {
            return;
        }
        estimator.advance(timestamp);
        if !self.is_small {
            estimator.restrict(0.0, self.width);
        }
    }

    /// Updates an estimator with an answer about a timestamp. Returns whether a mean lies at an end of its range, so
    /// that the readings may lie beyond.
    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn read(&self, estimator: &mut Estimator, timestamp: u64, answer: Answer) -> Option<bool> {
        self.advance(estimator, timestamp);
        match answer {
            Answer::Nothing => None,
            Answer::Noisy(noisy) => {
                let noise = Noise::laplace(self.noise.scale().laplace_variance());
                if self.is_small {
                    estimator.observe(&[noisy as f64], noise);
                } else {
                    // Seasons would take this noise for their scatter.
                    estimator.observe_with(noise.variance(), |mean, belief| noise.update(mean, belief, noisy as f64));
                }
                None
            }
            Answer::Bit { cut, above } => {
                let (truth, cut) = (self.truth, cut as f64 + 0.5);
                let explained = FRAC_2_PI * (2.0 * truth - 1.0).powi(2);
                let equivalent = estimator.belief(0).variance * (1.0 - explained) / explained;
                estimator.observe_with(equivalent, |mean, variance| bit_update(mean, variance, cut, above, truth));
                None
            }
            Answer::Above { sum, count, cut } => {
                let sums = Summing::new(cut..=cut + 1, self.protects, self.epsilon).ok()?;
                let count = f64::from(count);
                let noise = Noise::laplace(sums.scale().laplace_variance() / (count * count));
                estimator.observe_share(count, cut as f64 + 0.5, sum as f64 / count, noise);
                None
            }
            Answer::Sum { sum, count, low, high } => {
                let sums = Summing::new(low..=high, self.protects, self.epsilon).ok()?;
                let (mean, count) = (sum as f64 / f64::from(count), f64::from(count));
                let scale = sums.scale().as_f64() / count;
                estimator.observe_mean(count, mean, Noise::laplace(sums.scale().laplace_variance() / (count * count)));
                let at_low = low > *self.range.start() && mean < low as f64 + scale;
                let at_high = high < *self.range.end() && mean > high as f64 - scale;
                Some(at_low || at_high)
            }
        }
    }

    /// Whether an answer can have been given.
    pub(super) fn can_answer(&self, answer: Answer) -> bool {
        match answer {
            Answer::Nothing => self.asks_means(),
            Answer::Noisy(_) => !self.asks_means(),
            Answer::Bit { cut, .. } => {
                !self.is_small && !self.asks_means() && (*self.range.start()..*self.range.end()).contains(&cut)
            }
            Answer::Sum { count, low, high, .. } => self.can_ask(OpenMean { count, low, high, counts: false }),
            Answer::Above { count, cut, .. } => {
                cut < *self.range.end() && self.can_ask(OpenMean { count, low: cut, high: cut + 1, counts: true })
            }
        }
    }

    /// Whether a mean can have been asked.
    pub(super) fn can_ask(&self, OpenMean { count, low, high, counts }: OpenMean) -> bool {
        self.asks_means()
            && (1..=TUNING.most_readings).contains(&count)
            && low < high
            && self.range.contains(&low)
            && self.range.contains(&high)
            && (!counts || high == low + 1)
    }

    /// Release of a timestamp in grid units, and its variance, from the belief about its number and the variance of
    /// its forecast, which no answer about the number has changed. Its interval of 95 % need not reach beyond the
    /// domain.
    pub(super) fn release(&self, belief: Belief, forecast: f64, answer: Answer) -> (f64, f64) {
        let (value, variance) = self.unbounded(belief, forecast, answer);
        let value = value.clamp(0.0, self.width);
        let farthest = value.max(self.width - value) / NORMAL_95;
        (value, variance.min(farthest * farthest))
    }

    #[allow(clippy::cast_precision_loss)] // published already
    fn unbounded(&self, belief: Belief, forecast: f64, answer: Answer) -> (f64, f64) {
        let mean = if belief.mean.is_finite() { belief.mean } else { self.width / 2.0 };
        // Bits hardly tell how far readings scatter.
        let stated = if self.is_small { belief.stated } else { belief.stated.max(belief.scattered) };
        let (estimate, stated) = whole(mean, stated);
        let Answer::Noisy(noisy) = answer else { return (estimate, stated) };
        let (noisy, scale, noise) = (noisy as f64, self.noise.scale().as_f64(), self.noise.scale().laplace_variance());
        let alone = stated_variance(self.noise.scale());
        if self.is_exact() {
            return (noisy, alone);
        }
        // The forecast decides first: a belief is also wide where the noise of the reading itself is large, and then
        // the reading is what must not be released.
        if forecast > TUNING.unsure * noise && belief.variance > TUNING.unsure * scale * scale {
            // Noise is not all that is known of the error: a belief far from the reading says that it is large.
            return (noisy, alone.max(belief.variance + (noisy - mean).powi(2)));
        }
        let most = TUNING.envelope * scale;
        (estimate.clamp(noisy - most, noisy + most), stated)
    }

    /// Whether noise is so small that a noisy reading is released as it is.
    pub(super) fn is_exact(&self) -> bool {
        self.noise.scale().as_f64() < TUNING.exact
    }
}
