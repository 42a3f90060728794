//! [`Chunk`]: some numbers while they are observed, and [`Forecast`]: what a model says of them.

use super::bank::Estimates;
use super::model::{Model, Motion, Spread, observed};
use super::noise::Noise;

/// An observation that is off by more than so many standard deviations is followed as if it were off by so many, or by
/// what its noise [allows](super::noise::Innovation::followed), whichever is less: it is rather from elsewhere. Of a
/// model that knows little, and so follows an observation nearly all the way, it is by as many times more as it is less
/// sure of what it expected. A level that stands still does not follow at all: it is kept as it was, for the number to
/// come back to.
const SURPRISE: f64 = 5.0;

/// The exponential function of [`WEIGHT_PARTS`] times a number that is hardly positive, to within half a per cent down
/// to minus eight, and never less than 1e-31: for weights, of which millions are needed. It has no branch, so that
/// several are computed at once.
fn weight(part: f32) -> f32 {
    let part = part.max(-0.6);
    let mut power = 1.0 + part * (1.0 + 0.5 * part);
    for _ in 0..7 {
        power *= power;
    }
    power
}

/// The power to which [`weight`] raises.
const WEIGHT_PARTS: f64 = 128.0;

/// Weights need not be exact, and more of them are computed at once if they are short.
#[allow(clippy::cast_possible_truncation)] // what is too large or too small for it weighs all or nothing
pub(super) const fn short(number: f64) -> f32 {
    number as f32
}

/// What a model says of the numbers before an observation, and how far it follows it; in units.
pub(super) struct Forecast {
    adds: [[f32; 3]; 3],
    /// By how much of its origin a number is expected to be less.
    of_origin: f32,
    gains: [f32; 3],
    /// How far the numbers follow on average, and the variance of what they are observed to be.
    pub(super) gain: f64,
    pub(super) total: f64,
    /// The largest error that is followed; larger ones are followed as far as that.
    followed_error: f32,
    /// A larger error than this is rather from elsewhere; and whether such are not followed at all.
    far: f32,
    rejects: bool,
    /// The square of an error, multiplied by this before, is by how much it makes that less likely, as a part of a
    /// logarithm, where it is not beyond the bend; and what is added to that of a forecast without an error because it
    /// is not exact, or its noise is not normal.
    root_half_precision: f32,
    offset: f32,
    /// From which error on, multiplied like that, the logarithm falls in proportion to it, and no longer to its square.
    bend: f32,
    /// What makes the same of a normal distribution of the same variance: a factor of the square, and what is added.
    normal_square: f32,
    normal_offset: f32,
    /// The variance that is stated afterwards.
    stated: f32,
}

impl Forecast {
    /// Of a model, whose spread becomes that after an observation with noise.
    pub(super) fn new(model: Model, motion: Motion, spread: &mut Spread, noise: Noise, unit: f64) -> Self {
        let (before, variance) = (motion.applied(spread), noise.variance());
        let innovation = noise.of_number_known_to(before[0][0]);
        let gains;
        (*spread, gains) = observed(&before, innovation.effective);
        let total = (before[0][0] + variance).max(f64::MIN_POSITIVE);
        let far = SURPRISE * total.sqrt() * (total / variance);
        let normal_offset = -0.5 * (total / variance).ln() / WEIGHT_PARTS;
        let root = (0.5 / innovation.scale.max(f64::MIN_POSITIVE) / WEIGHT_PARTS).sqrt();
        Self {
            adds: motion.adds.map(|row| row.map(short)),
            of_origin: short(motion.of_origin()),
            gains: gains.map(|gain| short(gain / innovation.within)),
            gain: gains[0],
            total,
            followed_error: apart(far.min(innovation.followed) / unit),
            far: apart(far / unit),
            rejects: matches!(model, Model::Still),
            root_half_precision: apart(unit * root),
            offset: short(normal_offset + innovation.likelier / WEIGHT_PARTS),
            bend: short(root * innovation.followed),
            normal_square: short(innovation.scale / total),
            normal_offset: short(normal_offset),
            stated: apart(model.stated() * spread[0][0] / (unit * unit)),
        }
    }
}

/// So many numbers are taken together, so that all that is known of them is at hand.
pub(super) const CHUNK: usize = 64;

/// An observation is far off from what was believed if it is so by more than so many units, and an origin is near to it
/// if it is within so many. No model is farther from an origin than this.
pub(super) const FAR_OFF: f64 = 100.0;
pub(super) const NEAR: f64 = 16.0;
pub(super) const MOST_APART: f32 = 1e15;

/// How far two numbers are apart, in units, of which there are not too many.
pub(super) fn apart(units: f64) -> f32 {
    short(units).clamp(-MOST_APART, MOST_APART)
}

/// Some numbers while they are observed. All lengths are in units, and from the numbers' origins: short numbers of any
/// other size would be rounded by more than estimates differ.
pub(super) struct Chunk<'a> {
    observations: &'a [f64],
    /// Where they begin.
    start: usize,
    unit: f64,
    /// The observations, and the origins themselves.
    pub(super) seen: [f32; CHUNK],
    pub(super) origins: [f32; CHUNK],
    /// What was believed, or what is observed where that is far off: how far models are from there is summed.
    pub(super) bases: [f32; CHUNK],
    /// By how much a model expected less, as a multiple of what makes that less likely; and how far it is from the
    /// base.
    errors: [f32; CHUNK],
    apart: [f32; CHUNK],
    /// By what the models' weights of before are multiplied: how likely none takes over from another, divided by what
    /// they weigh together.
    pub(super) kept: [f32; CHUNK],
    /// What they weigh together after the observation, which is how likely they made it; and what that would be if
    /// another had taken over for sure.
    totals: [f32; CHUNK],
    anew: [f32; CHUNK],
    /// What they would weigh together after the observation if the noise were normal, where it is not.
    if_normal: [f32; CHUNK],
    /// Sums over the models, by weight, of how far they are from the base, and of the square of that with their
    /// variances.
    means: [f32; CHUNK],
    squares: [f32; CHUNK],
}

impl<'a> Chunk<'a> {
    pub(super) const fn new(observations: &'a [f64], start: usize, unit: f64) -> Self {
        let zero = [0.0; CHUNK];
        Self {
            observations,
            start,
            unit,
            seen: zero,
            origins: zero,
            bases: zero,
            errors: zero,
            apart: zero,
            kept: zero,
            totals: zero,
            anew: zero,
            if_normal: zero,
            means: zero,
            squares: zero,
        }
    }

    /// Where its numbers are.
    const fn members(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.observations.len()
    }

    /// Moves the states of a model on to what is expected, and from there as far towards the observations as they are
    /// followed; notes the weighed errors and how far from the base the numbers are then.
    fn advance(&mut self, forecast: &Forecast, states: &mut [f32], numbers: usize) {
        let [[kept, slope_in, third_in], [number_to_slope, slope_kept, third_to_slope], [_, _, third_kept]] =
            forecast.adds;
        let [gain, slope_gain, third_gain] = forecast.gains;
        let (most, root, of_origin) = (forecast.followed_error, forecast.root_half_precision, forecast.of_origin);
        let far = forecast.far;
        let members = self.members();
        let seen =
            self.seen.iter().zip(&self.origins).zip(&self.bases).zip(self.errors.iter_mut().zip(&mut self.apart));
        let (levels, slopes) = states.split_at_mut(numbers);
        let levels = &mut levels[members.clone()];
        if forecast.rejects {
            for (level, (((seen, _), base), (weighed, apart))) in levels.iter_mut().zip(seen) {
                let error = seen - *level;
                *level += if error.abs() <= far { gain * error.clamp(-most, most) } else { 0.0 };
                (*weighed, *apart) = (root * error, *level - base);
            }
            return;
        }
        if slopes.is_empty() {
            for (level, (((seen, origin), base), (weighed, apart))) in levels.iter_mut().zip(seen) {
                let expected = kept * *level - of_origin * origin;
                let error = seen - expected;
                *level = expected + gain * error.clamp(-most, most);
                (*weighed, *apart) = (root * error, *level - base);
            }
            return;
        }
        let (slopes, thirds) = slopes.split_at_mut(numbers);
        let slopes = &mut slopes[members.clone()];
        if thirds.is_empty() {
            for ((level, slope), (((seen, _), base), (weighed, apart))) in levels.iter_mut().zip(slopes).zip(seen) {
                let expected = kept * *level + slope_in * *slope;
                let error = seen - expected;
                let followed = error.clamp(-most, most);
                *level = expected + gain * followed;
                *slope = slope_kept * *slope + slope_gain * followed;
                (*weighed, *apart) = (root * error, *level - base);
            }
            return;
        }
        let moved = levels.iter_mut().zip(slopes).zip(&mut thirds[members]);
        for (((level, slope), third), (((seen, _), base), (weighed, apart))) in moved.zip(seen) {
            let expected = kept * *level + slope_in * *slope + third_in * *third;
            let error = seen - expected;
            let followed = error.clamp(-most, most);
            let slope_expected = number_to_slope * *level + slope_kept * *slope + third_to_slope * *third;
            *level = expected + gain * followed;
            *slope = slope_expected + slope_gain * followed;
            *third = third_kept * *third + third_gain * followed;
            (*weighed, *apart) = (root * error, *level - base);
        }
    }

    /// Moves a model's numbers that are far off to where they are observed, as if they had jumped there and moved on as
    /// before; that makes the model so many times as likely. Which they are.
    pub(super) fn move_on(
        &self,
        forecast: &Forecast,
        likely: f32,
        states: &mut [f32],
        suits: &mut [f32],
        numbers: usize,
    ) -> [bool; CHUNK] {
        let mut moved = [false; CHUNK];
        for ((number, seen), moved) in self.members().zip(&self.seen).zip(&mut moved) {
            let places = states.iter().skip(number).step_by(numbers).zip(&forecast.adds[0]);
            let error = seen - places.map(|(state, add)| add * state).sum::<f32>();
            if error.abs() > forecast.far {
                states[number] = (states[number] + error).clamp(-MOST_APART, MOST_APART);
                suits[number] *= likely;
                *moved = true;
            }
        }
        moved
    }

    /// States the variance of the observation for numbers that were moved to it, by a model that has followed them.
    pub(super) fn state_as_observed(
        &mut self,
        forecast: &Forecast,
        prior: f32,
        suits: &[f32],
        moved: &[bool; CHUNK],
        observed: f32,
    ) {
        let more = (observed - forecast.stated).max(0.0);
        let suits = &suits[self.members()];
        for (square, (suit, _)) in
            self.squares.iter_mut().zip(suits.iter().zip(moved)).filter(|(_, (_, moved))| **moved)
        {
            *square += prior * suit * more;
        }
    }

    /// Takes the observations in by a model; and weighs it by how likely it made them, after any model may have taken
    /// over, as likely as it is in general. `HEAVY` says whether their noise has heavier tails than a normal
    /// distribution.
    pub(super) fn follow<const HEAVY: bool>(
        &mut self,
        forecast: &Forecast,
        prior: f32,
        states: &mut [f32],
        suits: &mut [f32],
        numbers: usize,
        switches: f32,
    ) {
        self.advance(forecast, states, numbers);
        let suits = suits[self.members()].iter_mut().zip(&self.kept);
        let likely = self.totals.iter_mut().zip(&mut self.anew).zip(self.errors.iter().zip(&mut self.if_normal));
        let sums = self.means.iter_mut().zip(&mut self.squares).zip(&self.apart);
        let (offset, bend, stated) = (forecast.offset, forecast.bend, forecast.stated);
        let (normal_offset, normal_square) = (forecast.normal_offset, forecast.normal_square);
        for (((suit, kept), ((total, anew), (error, if_normal))), ((mean, square), apart)) in
            suits.zip(likely).zip(sums)
        {
            let before = kept * *suit + switches;
            let less = if HEAVY {
                *if_normal += prior * before * weight(normal_offset - normal_square * error * error);
                let bent = error.abs().min(bend);
                bent * (2.0 * error.abs() - bent)
            } else {
                error * error
            };
            let likely = weight(offset - less);
            *suit = likely * before;
            *anew += prior * likely;
            let weight = prior * *suit;
            *total += weight;
            *mean += weight * apart;
            *square += weight * (apart * apart + stated);
        }
    }

    /// What all models together weigh, and what they believe of the numbers.
    pub(super) fn believe(&mut self, origins: &[f64], totals: &mut [f32], believed: &mut Estimates) {
        let (origins, totals) = (&origins[self.members()], &mut totals[self.members()]);
        let (means, variances) = (&mut believed.means[self.members()], &mut believed.variances[self.members()]);
        self.totals.iter_mut().for_each(|total| *total = total.max(f32::MIN_POSITIVE));
        totals.iter_mut().zip(&self.totals).for_each(|(kept, total)| *kept = *total);
        let of_models = self.means.iter().zip(&self.squares).zip(&self.totals).zip(&self.bases);
        let believed = means.iter_mut().zip(variances).zip(origins);
        for ((((mean, square), total), base), ((believed, variance), origin)) in of_models.zip(believed) {
            let part = f64::from(*total).recip();
            let (mean, square) = (part * f64::from(*mean), part * f64::from(*square));
            *believed = origin + self.unit * (f64::from(*base) + mean);
            *variance = self.unit * self.unit * (square - mean * mean).max(0.0);
        }
    }

    /// One divided by what the models weigh together.
    pub(super) fn parts(&self) -> [f32; CHUNK] {
        self.totals.map(f32::recip)
    }

    /// How much a model suits the numbers, in sum, with one divided by what the models weigh together.
    pub(super) fn share(&self, suits: &[f32], parts: &[f32; CHUNK]) -> f64 {
        let (suits, parts) = (&suits[self.members()], &parts[..self.observations.len()]);
        let ((fours, rest), (parts, parts_of_rest)) = (suits.as_chunks::<4>(), parts.as_chunks::<4>());
        let mut sums = [0.0; 4];
        for (four, parts) in fours.iter().zip(parts) {
            sums.iter_mut().zip(four.iter().zip(parts)).for_each(|(sum, (suit, part))| *sum += suit * part);
        }
        let of_rest = rest.iter().zip(parts_of_rest).map(|(suit, part)| suit * part).sum::<f32>();
        f64::from(sums.iter().sum::<f32>() + of_rest)
    }

    /// The logarithm of how likely all models together would have made the observations if the noise were normal, where
    /// it is not.
    pub(super) fn likely_if_normal(&self) -> f64 {
        let of_some = |totals: &[f32]| totals.iter().map(|total| f64::from(*total)).product::<f64>();
        let products = self.if_normal[..self.observations.len()].chunks(AT_ONCE).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }

    /// The logarithm of how likely all models together made the observations, where any takes over at a rate instead of
    /// that by which they were weighed.
    pub(super) fn likely(&self, rate: f64, switches: f32) -> f64 {
        let (totals, anew) = (&self.totals[..self.observations.len()], &self.anew[..self.observations.len()]);
        let switches = f64::from(switches);
        // What they weigh is linear in the rate.
        let (of_total, of_anew) = ((1.0 - rate) / (1.0 - switches), (rate - switches) / (1.0 - switches));
        let of_one = |(total, anew): (&f32, &f32)| {
            (of_total * f64::from(*total) + of_anew * f64::from(*anew)).max(rate * f64::from(*anew))
        };
        // Logarithms take long: of a few at once, none so small that their product would be nothing.
        let of_some = |(totals, anew): (&[f32], &[f32])| totals.iter().zip(anew).map(of_one).product::<f64>();
        let products = totals.chunks(AT_ONCE).zip(anew.chunks(AT_ONCE)).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }
}

/// Of so many numbers a logarithm is taken at once.
const AT_ONCE: usize = 8;
