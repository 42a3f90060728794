//! [`Bank`]: many numbers that move alike, seen with noise of known variance.
//!
//! Each number is followed by several linear models: walks, slopes, curves, waves, seasons, returns to the mean or to a
//! level, and levels that stand still, each since another observation. All numbers are seen with the same variance, so
//! how far a model trusts an observation is the same for all of them, and a number costs a few multiplications for each
//! model. Which models suit a number, and how often that changes, is learned from how well they foretold it, and, where
//! that says little, from which suit the others.

use serde::{Deserialize, Serialize};

use super::chunk::{CHUNK, Chunk, FAR_OFF, Forecast, MOST_APART, NEAR, apart, short};
pub use super::model::Stillness;
use super::model::{MOVING, Model, Motion, Spread, at_first, model, observed};
use super::noise::Noise;
use super::season::{Place, place_at, season_error};

/// How many levels that stand still there are, each since another observation: some have seen nothing of what was
/// before a change, whenever that was.
const LEVELS: usize = 10;

/// The variance of a walk before anything is seen, where numbers can be of any size.
const ANYWHERE: f64 = 1e7;

/// How likely another model takes over from one observation to the next. Which of these is right is learned for each
/// group, from how likely each was beforehand, of which a little is kept. Where observations tell so little that
/// estimates follow them by less than this, it is no more than that: a change takes as long to be seen.
const RATES: [f64; 3] = [5e-5, 3e-3, 3e-2];
const RATES_AT_FIRST: [f64; RATES.len()] = [0.97, 0.025, 0.005];
const RATES_KEPT: f64 = 0.001;
const LEAST_SWITCHES: f64 = 1e-6;

/// How likely a number stands at another level after many have jumped. A model that follows observations by more than
/// this may also go on from there.
const JUMPED: f32 = 0.5;
const RESTLESS: f64 = 0.2;

/// No level is likelier than this to take over, whatever is known of levels in general.
const MOST_LIKELY: f32 = 1e6;

/// No unit is shorter, and none is longer: its square is a number, too.
const SHORTEST_UNIT: f64 = 1e-150;
const LONGEST_UNIT: f64 = 1e150;

/// How much of the evidence for all models together is forgotten with each observation.
const FORGOTTEN: f64 = 0.02;

/// How much of what the numbers of a group have in common is learned anew with each observation, at most, and how much
/// for each of the numbers. What few of them seem to have in common is mostly chance.
const COMMON_RATE: f64 = 0.2;
const COMMON_RATE_OF_ONE: f64 = 0.0175;

/// The part of the common weights that is kept as it was at first, so that no model is given up for good.
const KEPT_AT_FIRST: f64 = 0.1;

/// So many numbers' weight have the first weights of a group beside those of its numbers.
const NUMBERS_AT_FIRST: f64 = 2.0;

/// Estimates of many numbers that move, from observations of all of them at once.
///
/// ```
/// use tidegate::estimate::bank::{Bank, Stillness};
///
/// let mut bank = Bank::new(1, 1.0, Stillness::Possible);
/// for noise in [0.9, -1.2, 0.4, -0.1, 0.7, -0.8, 0.2, 0.3] {
///     bank.observe(1, &[5.0 + noise], 1.0);
/// }
/// let estimate = bank.estimate(0);
/// assert!((estimate.means[0] - 5.0).abs() < 0.6 && estimate.variances[0] < 1.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bank {
    /// The variance to which the models' amounts are relative.
    reference: f64,
    /// The most that the square of a number can be.
    largest_square: f64,
    /// The groups of numbers that have something in common, one after the other.
    groups: Vec<Group>,
    /// How likely another model takes over until the next observation, at most.
    switches: f64,
    /// When the last observation was: the sum of all gaps.
    clock: u64,
    /// How many observations ago each of the levels that stand still began, the latest last.
    ages: Vec<u64>,
    /// What each model believes: first the moving ones, then the levels that stand still; nothing where no group can be
    /// like that.
    followed: Vec<Followed>,
    /// Of each number, from where the models measure it.
    origins: Vec<f64>,
    /// The length in which they do.
    unit: f64,
    /// Of each number, what the models weigh together.
    totals: Vec<f32>,
    /// The logarithm of how likely all models together made all numbers if the noise is normal, compared with there
    /// being noise only.
    evidence: f64,
    /// What is believed of the numbers after the last observation.
    believed: Estimates,
}

/// Numbers that have something in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Where it ends, and the next one begins.
    end: usize,
    /// How likely each model is before anything is seen; the levels that stand still are one.
    at_first: Vec<f64>,
    /// How much each model suits its numbers in general.
    common: Vec<f64>,
    /// How likely each rate of change is.
    rates: [f64; RATES.len()],
}

/// What a model believes of all numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Followed {
    /// The spread that all numbers have after the last observation; of a season, at a place that was never seen.
    spread: Spread,
    /// Of a season, each place in a period.
    places: Vec<Place>,
    /// The estimates of all numbers, from their origins, then those of their slopes and of the slopes' slopes or of the
    /// levels around which they are, as far as it has them; of a season, those of one place after the other; in units.
    states: Vec<f32>,
    /// How much better it suits each number than the models do together.
    suits: Vec<f32>,
}

/// Estimates with the variances of their errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    /// The estimates.
    pub means: Vec<f64>,
    /// The expected squared errors, as far as the models can tell.
    pub variances: Vec<f64>,
}

impl Bank {
    /// So many numbers of which nothing is known but that they lie around zero, or anywhere up to some 30,000 standard
    /// deviations from it. `reference` is about the variance with which they are going to be seen.
    pub fn new(numbers: usize, reference: f64, stillness: Stillness) -> Self {
        let anywhere = ANYWHERE * reference;
        Self::grouped(&[(numbers, anywhere)], anywhere, reference, stillness)
    }

    /// Numbers in groups, of which each has something in common: numbers up to the first number given, then up to the
    /// second, and so on. Of each group it is known what the mean of its squares is at most, so that large numbers are
    /// rare, and of all what the largest square can be.
    pub fn grouped(groups: &[(usize, f64)], largest_square: f64, reference: f64, stillness: Stillness) -> Self {
        let largest_square = largest_square.min(ANYWHERE * reference);
        let (mut start, numbers) = (0, groups.last().map_or(0, |(end, _)| *end));
        let of_group = |(end, mean_square): &(usize, f64)| {
            let members = end - std::mem::replace(&mut start, *end);
            let at_first = at_first(members, numbers, reference, largest_square, *mean_square, stillness);
            Group { end: *end, common: at_first.clone(), at_first, rates: RATES_AT_FIRST }
        };
        let groups: Vec<Group> = groups.iter().map(of_group).collect();
        let followed = |index: usize| {
            let model = model(index);
            let numbers = if groups.iter().any(|group| group.at_first[index] > 0.0) { numbers } else { 0 };
            let period = if let Model::Season { period, .. } = model { period } else { 0 };
            let places = if numbers > 0 { period } else { 0 };
            Followed {
                spread: model.first(reference, largest_square),
                places: vec![Place::unseen(); places],
                states: vec![0.0; numbers * model.order()],
                suits: vec![1.0; numbers],
            }
        };
        let followed = (0..=MOVING).map(followed).collect();
        Self {
            reference,
            largest_square,
            groups,
            switches: 1.0,
            clock: 0,
            ages: vec![0],
            followed,
            origins: vec![0.0; numbers],
            unit: reference.sqrt().clamp(SHORTEST_UNIT, LONGEST_UNIT),
            totals: vec![1.0; numbers],
            evidence: 0.0,
            believed: Estimates { means: vec![0.0; numbers], variances: vec![largest_square; numbers] },
        }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// Whether it can be that of numbers in groups with such ends.
    pub fn fits(&self, expected: &[usize]) -> bool {
        let Self {
            reference,
            largest_square,
            groups,
            switches,
            clock,
            ages,
            followed,
            origins,
            unit,
            totals,
            evidence,
            believed,
        } = self;
        let numbers = expected.last().copied().unwrap_or(0);
        let positive = |number: &f64| number.is_finite() && *number > 0.0;
        let weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        let all = |numbers: &[f64], count: usize, holds: &dyn Fn(&f64) -> bool| {
            numbers.len() == count && numbers.iter().all(holds)
        };
        let group_fits = |group: &Group| {
            all(&group.at_first, MOVING + 1, &weight)
                && all(&group.common, MOVING + 1, &weight)
                && group.rates.iter().all(positive)
        };
        let spread_fits = |spread: &Spread| {
            spread.iter().flatten().all(|cell| cell.is_finite()) && (0..3).all(|place| spread[place][place] >= 0.0)
        };
        let followed_fits = |(index, followed): (usize, &Followed)| {
            let possible = groups.iter().any(|group| {
                let place = index.min(MOVING);
                group.at_first.get(place).is_some_and(|likely| *likely > 0.0)
                    || group.common.get(place).is_some_and(|likely| *likely > 0.0)
            });
            let numbers = if possible { numbers } else { 0 };
            let places = if let Model::Season { period, .. } = model(index) { period.min(numbers * period) } else { 0 };
            let place_fits = |place: &Place| place.fits(*clock);
            spread_fits(&followed.spread)
                && followed.places.len() == places
                && followed.places.iter().all(place_fits)
                && followed.suits.len() == numbers
                && followed.states.len() == numbers * model(index).order()
                && followed.states.iter().all(|state| state.abs() <= MOST_APART)
                && followed.suits.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
        };
        groups.iter().map(|group| group.end).eq(expected.iter().copied())
            && expected.is_sorted()
            && groups.iter().all(group_fits)
            && (1..=LEVELS).contains(&ages.len())
            && ages.windows(2).all(|pair| pair[0] > pair[1])
            && followed.len() == MOVING + ages.len()
            && followed.iter().enumerate().all(followed_fits)
            && all(origins, numbers, &|number| number.is_finite())
            && (SHORTEST_UNIT..=LONGEST_UNIT).contains(unit)
            && totals.len() == numbers
            && totals.iter().all(|total| total.is_finite() && *total >= f32::MIN_POSITIVE)
            && all(&believed.means, numbers, &|number| number.is_finite())
            && all(&believed.variances, numbers, &weight)
            && evidence.is_finite()
            && positive(reference)
            && positive(largest_square)
            && (LEAST_SWITCHES..=1.0).contains(switches)
    }

    /// The logarithm of how much likelier what was observed is to come from numbers such as these than from noise
    /// alone, as far as it is not forgotten. It can be compared between banks that observe the same in other
    /// coordinates: whatever the noise is, normal noise is the same in all of them.
    pub const fn evidence(&self) -> f64 {
        self.evidence
    }

    /// Takes in an observation of every number, so many timestamps after the last one, all with the same noise.
    pub fn observe(&mut self, gap: u64, observations: &[f64], noise: impl Into<Noise>) {
        self.take_in(gap, observations, noise.into(), false);
    }

    /// The same where it is known that many of the numbers have jumped since the last one: they may stand at another
    /// level, whether a new one or one of before. That they do so says nothing about how they move otherwise.
    pub fn observe_jump(&mut self, gap: u64, observations: &[f64], noise: impl Into<Noise>) {
        self.take_in(gap, observations, noise.into(), true);
    }

    fn take_in(&mut self, gap: u64, observations: &[f64], noise: Noise, jumped: bool) {
        // What is known exactly, such as how far a single number is from its own mean, is as good as that.
        let noise = noise.at_least(f64::MIN_POSITIVE);
        let (variance, heavy) = (noise.variance(), noise.is_heavy());
        let deviation = variance.sqrt();
        if !(self.unit / FAR_OFF..=self.unit * FAR_OFF).contains(&deviation) {
            self.measure_in(deviation);
        }
        self.begin_level();
        self.clock = self.clock.saturating_add(gap);
        let (numbers, mut news, mut follows) = (self.numbers(), 0.0, 0.0);
        let follow = if heavy { Chunk::follow::<true> } else { Chunk::follow::<false> };
        let rates = RATES.map(|rate| rate.min(self.switches));
        let unit = self.unit;
        let (reference, largest_square, clock) = (self.reference, self.largest_square, self.clock);
        let forecast = |(index, followed): (usize, &mut Followed)| {
            let motion = Motion::of(model(index), reference, largest_square);
            // What cannot be need not be looked at.
            let possible = !followed.suits.is_empty();
            possible.then(|| followed.forecast(model(index), motion, gap, clock, noise, unit))
        };
        let forecasts: Vec<Option<Forecast>> = self.followed.iter_mut().enumerate().map(forecast).collect();
        let mut start = 0;
        for place in 0..self.groups.len() {
            let group = &self.groups[place];
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            let mut switches = short(rates.iter().zip(group.rates).map(|(rate, likely)| rate * likely).sum());
            let (mut to_moving, mut to_level) = (switches, switches);
            if jumped {
                switches = JUMPED;
                let levels = short(priors[MOVING..].iter().sum::<f64>()).max(f32::MIN_POSITIVE);
                (to_moving, to_level) = (0.0, (JUMPED / levels).min(MOST_LIKELY));
            }
            let (mut shares, mut likely) = (vec![0.0; self.followed.len()], [0.0; RATES.len()]);
            let mut if_normal = 0.0;
            for from in members.clone().step_by(CHUNK) {
                let members = from..(from + CHUNK).min(members.end);
                let mut chunk = self.chunk(&observations[members], from, switches);
                let possible = || priors.iter().enumerate().filter(|(_, prior)| **prior > 0.0);
                for (index, prior) in possible() {
                    let Followed { states, suits, .. } = &mut self.followed[index];
                    let states = &mut states[model(index).states_at(clock, numbers)];
                    if let Some(forecast) = &forecasts[index] {
                        let switches = if index < MOVING { to_moving } else { to_level };
                        if jumped && model(index).moves_on() && forecast.gain > RESTLESS {
                            let likely = short((forecast.total / (largest_square + variance)).sqrt().min(1.0));
                            let moved = chunk.move_on(forecast, likely, states, suits, numbers);
                            follow(&mut chunk, forecast, short(*prior), states, suits, numbers, switches);
                            let observed = apart(variance / (unit * unit));
                            chunk.state_as_observed(forecast, short(*prior), suits, &moved, observed);
                        } else {
                            follow(&mut chunk, forecast, short(*prior), states, suits, numbers, switches);
                        }
                    }
                }
                chunk.believe(&self.origins, &mut self.totals, &mut self.believed);
                let parts = chunk.parts();
                for (index, prior) in possible() {
                    shares[index] += prior * chunk.share(&self.followed[index].suits, &parts);
                }
                likely.iter_mut().zip(rates).for_each(|(likely, rate)| *likely += chunk.likely(rate, switches));
                if heavy {
                    if_normal += chunk.likely_if_normal();
                }
            }
            let gain = |forecast: &Option<Forecast>| forecast.as_ref().map_or(0.0, |forecast| forecast.gain);
            follows += shares.iter().zip(&forecasts).map(|(share, forecast)| share * gain(forecast)).sum::<f64>();
            if jumped {
                continue;
            }
            let of_noise: f64 = observations[members.clone()].iter().map(|seen| 0.5 * seen * seen / variance).sum();
            let group = &mut self.groups[place];
            let likely = group.weigh_rates(likely);
            news += if heavy { if_normal } else { likely } + of_noise;
            group.learn(&shares, members.len());
        }
        if !jumped {
            self.evidence = (1.0 - FORGOTTEN) * self.evidence + news;
        }
        // Never nothing, so that no model is given up for good.
        self.switches = (follows / as_float(numbers.max(1))).clamp(LEAST_SWITCHES, 1.0);
    }

    /// Some numbers, from one on, with what is observed of them: each from an origin that is near to what is believed
    /// of it, or to the observation where that is far off.
    fn chunk<'a>(&mut self, observations: &'a [f64], start: usize, switches: f32) -> Chunk<'a> {
        let mut chunk = Chunk::new(observations, start, self.unit);
        for (place, (observation, total)) in observations.iter().zip(&self.totals[start..]).enumerate() {
            let (number, believed) = (start + place, self.believed.means[start + place]);
            let near = (observation - believed).abs() < FAR_OFF * self.unit;
            let base = if near { believed } else { *observation };
            if (base - self.origins[number]).abs() > NEAR * self.unit {
                let moved = (base - self.origins[number]) / self.unit;
                for (index, followed) in self.followed.iter_mut().enumerate() {
                    let states = followed.states.chunks_mut(self.origins.len()).enumerate();
                    for (_, states) in states.filter(|(place, _)| model(index).is_level(*place)) {
                        states[number] = apart(f64::from(states[number]) - moved);
                    }
                }
                self.origins[number] = base;
            }
            let origin = self.origins[number];
            chunk.seen[place] = apart((observation - origin) / self.unit);
            chunk.origins[place] = apart(origin / self.unit);
            chunk.bases[place] = apart((base - origin) / self.unit);
            chunk.kept[place] = (1.0 - switches) / total;
        }
        chunk
    }

    /// Measures all that is believed in another unit.
    fn measure_in(&mut self, unit: f64) {
        let unit = unit.clamp(SHORTEST_UNIT, LONGEST_UNIT);
        let factor = self.unit / unit;
        let states = self.followed.iter_mut().flat_map(|followed| &mut followed.states);
        states.for_each(|state| *state = apart(f64::from(*state) * factor));
        self.unit = unit;
    }

    /// How numbers move by a model in a timestamp.
    fn motion(&self, index: usize) -> Motion {
        Motion::of(model(index), self.reference, self.largest_square)
    }

    /// Begins another level that stands still, so that one began not long after any change: with every observation, in
    /// place of the one that is missed least.
    fn begin_level(&mut self) {
        self.ages.iter_mut().for_each(|age| *age = age.saturating_add(1));
        if self.ages == [1] {
            return;
        }
        if self.ages.len() < LEVELS {
            // They share what is likely of all of them: what is believed of the others stays as it is.
            let more = short(as_float(self.ages.len() + 1) / as_float(self.ages.len()));
            let levels = self.followed[MOVING..].iter_mut().flat_map(|level| &mut level.suits);
            levels.for_each(|suit| *suit *= more);
            let Some(first) = self.followed.last() else { return };
            self.followed.push(first.clone());
            self.ages.push(0);
        } else {
            // The one whose neighbours have nearly the same age.
            let ratio = |place: &usize| as_float_of(self.ages[place - 1]) / as_float_of(self.ages[place + 1]);
            let least = (1..LEVELS - 1).min_by(|left, right| ratio(left).total_cmp(&ratio(right))).unwrap_or(1);
            self.ages.remove(least);
            let dropped = self.followed.remove(MOVING + least);
            // What it stood for is nearest to what the next one stands for.
            let heir = &mut self.followed[MOVING + least];
            heir.suits.iter_mut().zip(&dropped.suits).for_each(|(suit, more)| *suit += more);
            self.followed.push(dropped);
            self.ages.push(0);
        }
        if let Some(begun) = self.followed.last_mut() {
            begun.spread = Model::Still.first(self.reference, self.largest_square);
            let zero = |origin: &f64| apart(-origin / self.unit);
            begun.states.iter_mut().zip(&self.origins).for_each(|(state, origin)| *state = zero(origin));
            begun.suits.fill(0.0);
        }
    }

    /// What is believed so many timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        if gap == 0 {
            return self.believed.clone();
        }
        let numbers = self.numbers();
        let (mut means, mut squares, mut weights) = (vec![0.0; numbers], vec![0.0; numbers], vec![0.0; numbers]);
        let (mut levels, mut start) = (vec![0.0; numbers], 0);
        for group in &self.groups {
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            for (index, followed) in self.followed.iter().enumerate().filter(|(index, _)| priors[*index] > 0.0) {
                let Some((motion, spread, states)) = self.ahead(index, gap) else { continue };
                let spread = model(index).stated() * spread;
                let levels = &mut levels[members.clone()];
                // All are taken from what is believed now: squares of large numbers would differ by less than they are
                // rounded.
                let (now, origins) = (&self.believed.means[members.clone()], &self.origins[members.clone()]);
                let of_origin = motion.of_origin();
                for (level, (now, origin)) in levels.iter_mut().zip(now.iter().zip(origins)) {
                    *level = origin - now - of_origin * origin;
                }
                for (states, add) in states.chunks(numbers).zip(motion.adds[0]) {
                    let add = self.unit * add;
                    let states = states[members.clone()].iter();
                    levels.iter_mut().zip(states).for_each(|(level, state)| *level += add * f64::from(*state));
                }
                let sums = means[members.clone()].iter_mut().zip(&mut squares[members.clone()]);
                let suits = &followed.suits[members.clone()];
                let of_members = sums.zip(&mut weights[members.clone()]).zip(levels.iter().zip(suits));
                for (((mean, square), weights), (level, suit)) in of_members {
                    let weight = priors[index] * f64::from(*suit);
                    *weights += weight;
                    *mean += weight * level;
                    *square += weight * (level * level + spread);
                }
            }
        }
        for (((mean, square), weight), now) in means.iter_mut().zip(&mut squares).zip(weights).zip(&self.believed.means)
        {
            let weight = weight.max(f64::MIN_POSITIVE);
            *mean /= weight;
            *square = (*square / weight - *mean * *mean).max(0.0);
            *mean += now;
        }
        Estimates { means, variances: squares }
    }

    /// How a model moves until so many timestamps after the last observation, with the variance that numbers have then,
    /// and their states; nothing where it knows nothing of that time: of a place in a period that was never seen,
    /// because observations came at others only.
    fn ahead(&self, index: usize, gap: u64) -> Option<(Motion, f64, &[f32])> {
        let (followed, motion) = (&self.followed[index], self.motion(index));
        let time = self.clock.saturating_add(gap);
        let states = &followed.states[model(index).states_at(time, self.numbers())];
        if let Model::Season { period, .. } = model(index) {
            let variance = followed.places[place_at(time, period)].variance_at(time, period, motion.step());
            return variance.map(|variance| (Motion::NONE, variance, states));
        }
        let motion = motion.times(gap);
        let variance = motion.applied(&followed.spread)[0][0];
        let known = (KNOWN_TO * self.reference).min(KNOWN_OF_LARGEST * self.largest_square);
        let unknown = matches!(model(index), Model::Wave { .. }) && variance > known;
        (!unknown).then_some((motion, variance, states))
    }

    /// The mean squared error to expect in the long run, of observations every `period` timestamps with noise and
    /// forecasts in between.
    pub fn expected_error(&self, period: u64, noise: impl Into<Noise>) -> f64 {
        let noise = noise.into();
        // Nobody needs to err by more than the numbers are large.
        let Estimates { means, variances } = &self.believed;
        let squares = means.iter().zip(variances).map(|(mean, variance)| mean * mean + variance).sum::<f64>();
        let squares = squares / as_float(self.numbers().max(1));
        let shares = self.shares();
        let counts = shares.iter().sum::<f64>() * COUNTS;
        let mut sum = 0.0;
        for (index, share) in shares.iter().enumerate().filter(|(_, share)| **share > counts) {
            let motion = self.motion(index);
            if matches!(model(index), Model::Season { .. }) {
                let apart = self.places_apart(index).min(squares);
                let error = season_error(model(index).order(), period, motion.step(), noise.variance(), apart);
                sum += share * error.min(squares);
                continue;
            }
            let (mut spread, of_period) = (self.followed[index].spread, motion.times(period));
            // Observations until the error hardly changes, of which the last period counts.
            for _ in 0..PERIODS {
                let before = of_period.applied(&spread);
                spread = observed(&before, noise.of_number_known_to(before[0][0]).effective).0;
            }
            // Of a long period, some of its timestamps.
            let stride = period.div_ceil(SAMPLES).max(1);
            let (of_stride, samples) = (motion.times(stride), period.div_ceil(stride).max(1));
            let mut error = spread[0][0].min(squares);
            for _ in 1..samples {
                spread = of_stride.applied(&spread);
                error += spread[0][0].min(squares);
            }
            sum += share * error / as_float_of(samples);
        }
        sum / as_float(self.numbers().max(1))
    }

    /// Of a season, the mean square of how far the places that were seen are apart from each other.
    fn places_apart(&self, index: usize) -> f64 {
        let (Followed { places, states, .. }, numbers) = (&self.followed[index], self.numbers());
        let seen = || places.iter().enumerate().filter(|(_, place)| place.is_seen());
        let count = as_float(seen().count().max(1));
        let of_number = |number: usize| {
            let levels = || seen().map(|(place, _)| f64::from(states[place * numbers + number]));
            let mean = levels().sum::<f64>() / count;
            levels().map(|level| (level - mean).powi(2)).sum::<f64>() / count
        };
        self.unit * self.unit * (0..numbers).map(of_number).sum::<f64>() / as_float(numbers.max(1))
    }

    /// Of each model, what it weighs, summed over all numbers.
    fn shares(&self) -> Vec<f64> {
        let (mut start, mut shares) = (0, vec![0.0; self.followed.len()]);
        for group in &self.groups {
            let members = start..group.end;
            start = group.end;
            let of_models = shares.iter_mut().zip(&self.followed).zip(group.priors(self.ages.len()));
            for ((share, followed), prior) in of_models.filter(|(_, prior)| *prior > 0.0) {
                let suits = followed.suits[members.clone()].iter().zip(&self.totals[members.clone()]);
                *share += prior * suits.map(|(suit, total)| f64::from(suit / total)).sum::<f64>();
            }
        }
        shares
    }
}

impl Followed {
    /// What a model says before an observation so many timestamps after the last one, at a time; and what is known of
    /// the numbers since.
    fn forecast(&mut self, model: Model, motion: Motion, gap: u64, time: u64, noise: Noise, unit: f64) -> Forecast {
        let Model::Season { period, .. } = model else {
            return Forecast::new(model, motion.times(gap), &mut self.spread, noise, unit);
        };
        let (place, first) = (&mut self.places[place_at(time, period)], self.spread[0][0]);
        let mut spread = [[0.0; 3]; 3];
        spread[0][0] = place.variance_at(time, period, motion.step()).unwrap_or(first);
        let forecast = Forecast::new(model, Motion::NONE, &mut spread, noise, unit);
        *place = Place::seen(spread[0][0], time);
        forecast
    }
}

impl Group {
    /// How likely each model is beforehand, with so many levels that stand still.
    fn priors(&self, levels: usize) -> Vec<f64> {
        let prior = |index: usize| (1.0 - KEPT_AT_FIRST) * self.common[index] + KEPT_AT_FIRST * self.at_first[index];
        let still = prior(MOVING) / as_float(levels);
        (0..MOVING).map(prior).chain(std::iter::repeat_n(still, levels)).collect()
    }

    /// Learns how likely each rate of change is from the logarithms of how likely it made what was observed, and
    /// returns that of all of them together.
    fn weigh_rates(&mut self, likely: [f64; RATES.len()]) -> f64 {
        let most = likely.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (rate, likely) in self.rates.iter_mut().zip(likely) {
            *rate *= (likely - most).exp();
            total += *rate;
        }
        for (rate, at_first) in self.rates.iter_mut().zip(RATES_AT_FIRST) {
            *rate = (1.0 - RATES_KEPT) * *rate / total + RATES_KEPT * at_first;
        }
        total.ln() + most
    }

    /// Learns what its numbers have in common from what each model weighs with all of them together.
    fn learn(&mut self, shares: &[f64], members: usize) {
        let count = as_float(members) + NUMBERS_AT_FIRST;
        let rate = COMMON_RATE.min(COMMON_RATE_OF_ONE * as_float(members));
        for (index, (common, at_first)) in self.common.iter_mut().zip(&self.at_first).enumerate() {
            let share: f64 = if index < MOVING { shares[index] } else { shares[MOVING..].iter().sum() };
            let mean = (share + NUMBERS_AT_FIRST * at_first) / count;
            *common += rate * (mean - *common);
        }
    }
}

/// A wave that is uncertain by more than so many times the variance of an observation, or by more than this part of the
/// largest square, says nothing.
const KNOWN_TO: f64 = 100.0;
const KNOWN_OF_LARGEST: f64 = 0.1;

/// A model that weighs less than this part of all does not count in the error to expect.
const COUNTS: f64 = 1e-6;

/// How many periods are looked ahead.
const PERIODS: u32 = 12;

/// How many timestamps of a period are looked at, at most.
const SAMPLES: u64 = 1_024;

#[allow(clippy::cast_precision_loss)] // a count of numbers
const fn as_float(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss)] // a count of observations or timestamps
const fn as_float_of(count: u64) -> f64 {
    count as f64
}
