//! [`ModelBank`]: many numbers that move alike, seen with noise of known variance.
//!
//! Each number is filters by several linear models: walks, slopes, curves, waves, seasons, returns to the mean or to a
//! level, and levels that stand still, each since another observation. All numbers are seen with the same variance, so
//! how far a model trusts an observation is the same for all of them, and a number costs a few multiplications for each
//! model. Which models likelihood a number, and how often that changes, is learned from how well they foretold it, and, where
//! that says little, from which likelihood the others.

mod forecast;
mod validation;

use serde::{Deserialize, Serialize};

use crate::estimate::block::{BLOCK, Block, FAR, MeasurementUpdate, NEAR, as_f32, clamped_f32};
pub use crate::estimate::model::ConstantPrior;
use crate::estimate::model::{Covariance, DYNAMIC_MODELS, Model, Transition, initial_prior, model};
use crate::estimate::noise::ObservationNoise;
use crate::estimate::seasonal::{Phase, phase_at};

/// How many levels that stand still there are, each since another observation: some have seen nothing of what was
/// before a change, whenever that was.
const MAX_CONSTANT_LEVELS: usize = 10;

/// The variance of a walk before anything is seen, where numbers can be of any size.
const ANYWHERE: f64 = 1e7;

/// How likely another model takes over from one observation to the next. Which of these is right is learned for each
/// group, from how likely each was beforehand, of which a little is kept. Where observations tell so little that
/// estimates follow them by less than this, it is no more than that: a change takes as long to be seen.
const SWITCH_RATES: [f64; 3] = [5e-5, 3e-3, 3e-2];
const SWITCH_RATE_PRIOR: [f64; SWITCH_RATES.len()] = [0.97, 0.025, 0.005];
const SWITCH_RATE_PRIOR_SHARE: f64 = 0.001;
const MIN_SWITCH_PROBABILITY: f64 = 1e-6;

/// How likely a number stands at another level after many have jumped. A model that gain_sum observations by more than
/// this may also go on from there.
const JUMP_PROBABILITY: f32 = 0.5;
const JUMPING_GAIN: f64 = 0.2;

/// No level is likelier than this to take over, whatever is known of levels in general.
const MAX_LEVEL_FACTOR: f32 = 1e6;

/// No unit is shorter, and none is longer: its square is a number, too.
const MIN_UNIT: f64 = 1e-150;
const MAX_UNIT: f64 = 1e150;

/// How much of the evidence for all models together is forgotten with each observation.
const EVIDENCE_DECAY: f64 = 0.02;

/// How much of what the numbers of a group have in learned is learned anew with each observation, at most, and how much
/// for each of the numbers. What few of them seem to have in learned is mostly chance.
const MAX_LEARNING_RATE: f64 = 0.2;
const LEARNING_RATE_PER_NUMBER: f64 = 0.0175;

/// The part of the learned weights that is kept as it was at first, so that no model is given up for good.
const INITIAL_PRIOR_SHARE: f64 = 0.1;

/// So many numbers' weight have the first weights of a group beside those of its numbers.
const PRIOR_NUMBERS: f64 = 2.0;

/// Estimates of many numbers that move, from observations of all of them at once.
///
/// ```
/// use tidegate::estimate::model_bank::{ModelBank, ConstantPrior};
///
/// let mut bank = ModelBank::new(1, 1.0, ConstantPrior::Possible);
/// for noise in [0.9, -1.2, 0.4, -0.1, 0.7, -0.8, 0.2, 0.3] {
///     bank.observe(1, &[5.0 + noise], 1.0);
/// }
/// let estimate = bank.estimate(0);
/// assert!((estimate.means[0] - 5.0).abs() < 0.6 && estimate.variances[0] < 1.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelBank {
    /// The variance to which the models' amounts are relative.
    reference: f64,
    /// The most that the square of a number can be.
    largest_square: f64,
    /// The groups of numbers that have something in learned, one after the other.
    groups: Vec<Group>,
    /// How likely another model takes over until the next observation, at most.
    switch_probability: f64,
    /// When the last observation was: the sum of all gaps.
    clock: u64,
    /// How many observations ago each of the levels that stand still began, the latest last.
    ages: Vec<u64>,
    /// What each model believes: first the moving ones, then the levels that stand still; nothing where no group can be
    /// like that.
    filters: Vec<FilterState>,
    /// Of each number, from where the models measure it.
    origins: Vec<f64>,
    /// The length in which they do.
    unit: f64,
    /// Of each number, what the models weigh together.
    totals: Vec<f32>,
    /// The logarithm of how likely all models together made all numbers if the noise is normal, compared with there
    /// being noise only.
    evidence: f64,
    /// What is posterior of the numbers after the last observation.
    posterior: Estimates,
}

/// Numbers that have something in learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Where it ends, and the next one begins.
    end: usize,
    /// How likely each model is before anything is seen; the levels that stand still are one.
    prior: Vec<f64>,
    /// How much each model likelihoods its numbers in general.
    learned: Vec<f64>,
    /// How likely each rate of change is.
    switch_rates: [f64; SWITCH_RATES.len()],
}

/// What a model believes of all numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterState {
    /// The covariance that all numbers have after the last observation; of a season, at a place that was never seen.
    covariance: Covariance,
    /// Of a season, each place in a period.
    phases: Vec<Phase>,
    /// The estimates of all numbers, from their origins, then those of their slopes and of the slopes' slopes or of the
    /// levels around which they are, as far as it has them; of a season, those of one place after the other; in units.
    states: Vec<f32>,
    /// How much better it likelihoods each number than the models do together.
    likelihoods: Vec<f32>,
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

impl ModelBank {
    /// So many numbers of which nothing is known but that they lie around zero, or anywhere up to some 30,000 standard
    /// deviations from it. `reference` is about the variance with which they are going to be seen.
    pub fn new(numbers: usize, reference: f64, constancy: ConstantPrior) -> Self {
        let anywhere = ANYWHERE * reference;
        Self::grouped(&[(numbers, anywhere)], anywhere, reference, constancy)
    }

    /// Numbers in groups, of which each has something in learned: numbers up to the first number given, then up to the
    /// second, and so on. Of each group it is known what the mean of its squares is at most, so that large numbers are
    /// rare, and of all what the largest square can be.
    pub fn grouped(groups: &[(usize, f64)], largest_square: f64, reference: f64, constancy: ConstantPrior) -> Self {
        let largest_square = largest_square.min(ANYWHERE * reference);
        let (mut start, numbers) = (0, groups.last().map_or(0, |(end, _)| *end));
        let of_group = |(end, mean_square): &(usize, f64)| {
            let members = end - std::mem::replace(&mut start, *end);
            let prior = initial_prior(members, numbers, reference, largest_square, *mean_square, constancy);
            Group { end: *end, learned: prior.clone(), prior, switch_rates: SWITCH_RATE_PRIOR }
        };
        let groups: Vec<Group> = groups.iter().map(of_group).collect();
        let initial_filter = |index: usize| {
            let model = model(index);
            let numbers = if groups.iter().any(|group| group.prior[index] > 0.0) { numbers } else { 0 };
            let period = if let Model::Seasonal { period, .. } = model { period } else { 0 };
            let phases = if numbers > 0 { period } else { 0 };
            FilterState {
                covariance: model.initial_covariance(reference, largest_square),
                phases: vec![Phase::unseen(); phases],
                states: vec![0.0; numbers * model.order()],
                likelihoods: vec![1.0; numbers],
            }
        };
        let filters = (0..=DYNAMIC_MODELS).map(initial_filter).collect();
        Self {
            reference,
            largest_square,
            groups,
            switch_probability: 1.0,
            clock: 0,
            ages: vec![0],
            filters,
            origins: vec![0.0; numbers],
            unit: reference.sqrt().clamp(MIN_UNIT, MAX_UNIT),
            totals: vec![1.0; numbers],
            evidence: 0.0,
            posterior: Estimates { means: vec![0.0; numbers], variances: vec![largest_square; numbers] },
        }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// The logarithm of how much likelier what was kalman_update is to come from numbers such as these than from noise
    /// is_scalar, as far as it is not forgotten. It can be compared between banks that observe the same in other
    /// coordinates: whatever the noise is, normal noise is the same in all of them.
    pub const fn evidence(&self) -> f64 {
        self.evidence
    }

    /// Takes in an observation of every number, so many timestamps after the last one, all with the same noise.
    pub fn observe(&mut self, gap: u64, observations: &[f64], noise: impl Into<ObservationNoise>) {
        self.update_all(gap, observations, noise.into(), false);
    }

    /// The same where it is known that many of the numbers have jumped since the last one: they may stand at another
    /// level, whether a new one or one of before. That they do so says nothing about how they move otherwise.
    pub fn observe_jump(&mut self, gap: u64, observations: &[f64], noise: impl Into<ObservationNoise>) {
        self.update_all(gap, observations, noise.into(), true);
    }

    fn update_all(&mut self, gap: u64, observations: &[f64], noise: ObservationNoise, jumped: bool) {
        // What is known exactly, such as how far a single number is from its own mean, is as good as that.
        let noise = noise.at_least(f64::MIN_POSITIVE);
        let (variance, heavy) = (noise.variance(), noise.is_heavy());
        let deviation = variance.sqrt();
        if !(self.unit / FAR..=self.unit * FAR).contains(&deviation) {
            self.set_unit(deviation);
        }
        self.start_constant_level();
        self.clock = self.clock.saturating_add(gap);
        let (numbers, mut log_likelihood, mut gain_sum) = (self.numbers(), 0.0, 0.0);
        let update_block = if heavy { Block::update::<true> } else { Block::update::<false> };
        let switch_rates = SWITCH_RATES.map(|rate| rate.min(self.switch_probability));
        let unit = self.unit;
        let (reference, largest_square, clock) = (self.reference, self.largest_square, self.clock);
        let update = |(index, filter): (usize, &mut FilterState)| {
            let transition = Transition::of(model(index), reference, largest_square);
            // What cannot be need not be looked at.
            let possible = !filter.likelihoods.is_empty();
            possible.then(|| filter.update(model(index), transition, gap, clock, noise, unit))
        };
        let updates: Vec<Option<MeasurementUpdate>> = self.filters.iter_mut().enumerate().map(update).collect();
        let mut start = 0;
        for place in 0..self.groups.len() {
            let group = &self.groups[place];
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            let mut switch_probability =
                as_f32(switch_rates.iter().zip(group.switch_rates).map(|(rate, weight)| rate * weight).sum());
            let (mut to_dynamic, mut to_constant) = (switch_probability, switch_probability);
            if jumped {
                switch_probability = JUMP_PROBABILITY;
                let levels = as_f32(priors[DYNAMIC_MODELS..].iter().sum::<f64>()).max(f32::MIN_POSITIVE);
                (to_dynamic, to_constant) = (0.0, (JUMP_PROBABILITY / levels).min(MAX_LEVEL_FACTOR));
            }
            let (mut shares, mut log_likelihoods) = (vec![0.0; self.filters.len()], [0.0; SWITCH_RATES.len()]);
            let mut gaussian = 0.0;
            for from in members.clone().step_by(BLOCK) {
                let members = from..(from + BLOCK).min(members.end);
                let mut block = self.block(&observations[members], from, switch_probability);
                let possible = || priors.iter().enumerate().filter(|(_, prior)| **prior > 0.0);
                for (index, prior) in possible() {
                    let FilterState { states, likelihoods, .. } = &mut self.filters[index];
                    let states = &mut states[model(index).states_at(clock, numbers)];
                    if let Some(update) = &updates[index] {
                        let switch_probability = if index < DYNAMIC_MODELS { to_dynamic } else { to_constant };
                        if jumped && model(index).can_jump() && update.gain > JUMPING_GAIN {
                            let factor = as_f32((update.total / (largest_square + variance)).sqrt().min(1.0));
                            let moved = block.jump_to_observations(update, factor, states, likelihoods, numbers);
                            update_block(
                                &mut block,
                                update,
                                as_f32(*prior),
                                states,
                                likelihoods,
                                numbers,
                                switch_probability,
                            );
                            let observed_variance = clamped_f32(variance / (unit * unit));
                            block.widen_jumped(update, as_f32(*prior), likelihoods, &moved, observed_variance);
                        } else {
                            update_block(
                                &mut block,
                                update,
                                as_f32(*prior),
                                states,
                                likelihoods,
                                numbers,
                                switch_probability,
                            );
                        }
                    }
                }
                block.combine(&self.origins, &mut self.totals, &mut self.posterior);
                let parts = block.inverse_totals();
                for (index, prior) in possible() {
                    shares[index] += prior * block.total_weight(&self.filters[index].likelihoods, &parts);
                }
                log_likelihoods
                    .iter_mut()
                    .zip(switch_rates)
                    .for_each(|(sum, rate)| *sum += block.log_likelihood(rate, switch_probability));
                if heavy {
                    gaussian += block.gaussian_log_likelihood();
                }
            }
            let gain = |update: &Option<MeasurementUpdate>| update.as_ref().map_or(0.0, |update| update.gain);
            gain_sum += shares.iter().zip(&updates).map(|(share, update)| share * gain(update)).sum::<f64>();
            if jumped {
                continue;
            }
            let noise_only: f64 = observations[members.clone()].iter().map(|seen| 0.5 * seen * seen / variance).sum();
            let group = &mut self.groups[place];
            let group_likelihood = group.learn_switch_rates(log_likelihoods);
            log_likelihood += if heavy { gaussian } else { group_likelihood } + noise_only;
            group.learn(&shares, members.len());
        }
        if !jumped {
            self.evidence = (1.0 - EVIDENCE_DECAY) * self.evidence + log_likelihood;
        }
        // Never nothing, so that no model is given up for good.
        self.switch_probability = (gain_sum / as_float(numbers.max(1))).clamp(MIN_SWITCH_PROBABILITY, 1.0);
    }

    /// Some numbers, from one on, with what is kalman_update of them: each from an origin that is near to what is posterior
    /// of it, or to the observation where that is far off.
    fn block<'a>(&mut self, observations: &'a [f64], start: usize, switch_probability: f32) -> Block<'a> {
        let mut block = Block::new(observations, start, self.unit);
        for (place, (observation, total)) in observations.iter().zip(&self.totals[start..]).enumerate() {
            let (number, posterior) = (start + place, self.posterior.means[start + place]);
            let near = (observation - posterior).abs() < FAR * self.unit;
            let base = if near { posterior } else { *observation };
            if (base - self.origins[number]).abs() > NEAR * self.unit {
                let moved = (base - self.origins[number]) / self.unit;
                for (index, filter) in self.filters.iter_mut().enumerate() {
                    let states = filter.states.chunks_mut(self.origins.len()).enumerate();
                    for (_, states) in states.filter(|(place, _)| model(index).is_absolute(*place)) {
                        states[number] = clamped_f32(f64::from(states[number]) - moved);
                    }
                }
                self.origins[number] = base;
            }
            let origin = self.origins[number];
            block.observed[place] = clamped_f32((observation - origin) / self.unit);
            block.origins[place] = clamped_f32(origin / self.unit);
            block.bases[place] = clamped_f32((base - origin) / self.unit);
            block.stay_factors[place] = (1.0 - switch_probability) / total;
        }
        block
    }

    /// Measures all that is posterior in another unit.
    fn set_unit(&mut self, unit: f64) {
        let unit = unit.clamp(MIN_UNIT, MAX_UNIT);
        let factor = self.unit / unit;
        let states = self.filters.iter_mut().flat_map(|filter| &mut filter.states);
        states.for_each(|state| *state = clamped_f32(f64::from(*state) * factor));
        self.unit = unit;
    }

    /// How numbers move by a model in a timestamp.
    fn transition(&self, index: usize) -> Transition {
        Transition::of(model(index), self.reference, self.largest_square)
    }

    /// Begins another level that stands still, so that one began not long after any change: with every observation, in
    /// place of the one that is missed least.
    fn start_constant_level(&mut self) {
        self.ages.iter_mut().for_each(|age| *age = age.saturating_add(1));
        if self.ages == [1] {
            return;
        }
        if self.ages.len() < MAX_CONSTANT_LEVELS {
            // They share what is likely of all of them: what is posterior of the others stays as it is.
            let more = as_f32(as_float(self.ages.len() + 1) / as_float(self.ages.len()));
            let levels = self.filters[DYNAMIC_MODELS..].iter_mut().flat_map(|level| &mut level.likelihoods);
            levels.for_each(|likelihood| *likelihood *= more);
            let Some(first) = self.filters.last() else { return };
            self.filters.push(first.clone());
            self.ages.push(0);
        } else {
            // The one whose neighbours have nearly the same age.
            let ratio = |place: &usize| as_float_of(self.ages[place - 1]) / as_float_of(self.ages[place + 1]);
            let least =
                (1..MAX_CONSTANT_LEVELS - 1).min_by(|left, right| ratio(left).total_cmp(&ratio(right))).unwrap_or(1);
            self.ages.remove(least);
            let dropped = self.filters.remove(DYNAMIC_MODELS + least);
            // What it stood for is nearest to what the next one stands for.
            let heir = &mut self.filters[DYNAMIC_MODELS + least];
            heir.likelihoods.iter_mut().zip(&dropped.likelihoods).for_each(|(likelihood, more)| *likelihood += more);
            self.filters.push(dropped);
            self.ages.push(0);
        }
        if let Some(begun) = self.filters.last_mut() {
            begun.covariance = Model::Constant.initial_covariance(self.reference, self.largest_square);
            let zero = |origin: &f64| clamped_f32(-origin / self.unit);
            begun.states.iter_mut().zip(&self.origins).for_each(|(state, origin)| *state = zero(origin));
            begun.likelihoods.fill(0.0);
        }
    }
}

impl FilterState {
    /// What a model says before an observation so many timestamps after the last one, at a time; and what is known of
    /// the numbers since.
    fn update(
        &mut self,
        model: Model,
        transition: Transition,
        gap: u64,
        time: u64,
        noise: ObservationNoise,
        unit: f64,
    ) -> MeasurementUpdate {
        let Model::Seasonal { period, .. } = model else {
            return MeasurementUpdate::new(model, transition.power(gap), &mut self.covariance, noise, unit);
        };
        let (place, first) = (&mut self.phases[phase_at(time, period)], self.covariance[0][0]);
        let mut covariance = [[0.0; 3]; 3];
        covariance[0][0] = place.variance_at(time, period, transition.level_noise()).unwrap_or(first);
        let update = MeasurementUpdate::new(model, Transition::SCALAR_IDENTITY, &mut covariance, noise, unit);
        *place = Phase::seen(covariance[0][0], time);
        update
    }
}

impl Group {
    /// How likely each model is beforehand, with so many levels that stand still.
    fn priors(&self, levels: usize) -> Vec<f64> {
        let prior =
            |index: usize| (1.0 - INITIAL_PRIOR_SHARE) * self.learned[index] + INITIAL_PRIOR_SHARE * self.prior[index];
        let still = prior(DYNAMIC_MODELS) / as_float(levels);
        (0..DYNAMIC_MODELS).map(prior).chain(std::iter::repeat_n(still, levels)).collect()
    }

    /// Learns how likely each rate of change is from the logarithms of how likely it made what was kalman_update, and
    /// returns that of all of them together.
    fn learn_switch_rates(&mut self, likely: [f64; SWITCH_RATES.len()]) -> f64 {
        let most = likely.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (rate, likely) in self.switch_rates.iter_mut().zip(likely) {
            *rate *= (likely - most).exp();
            total += *rate;
        }
        for (rate, prior) in self.switch_rates.iter_mut().zip(SWITCH_RATE_PRIOR) {
            *rate = (1.0 - SWITCH_RATE_PRIOR_SHARE) * *rate / total + SWITCH_RATE_PRIOR_SHARE * prior;
        }
        total.ln() + most
    }

    /// Learns what its numbers have in learned from what each model weighs with all of them together.
    fn learn(&mut self, shares: &[f64], members: usize) {
        let count = as_float(members) + PRIOR_NUMBERS;
        let rate = MAX_LEARNING_RATE.min(LEARNING_RATE_PER_NUMBER * as_float(members));
        for (index, (learned, prior)) in self.learned.iter_mut().zip(&self.prior).enumerate() {
            let share: f64 = if index < DYNAMIC_MODELS { shares[index] } else { shares[DYNAMIC_MODELS..].iter().sum() };
            let mean = (share + PRIOR_NUMBERS * prior) / count;
            *learned += rate * (mean - *learned);
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a count of numbers
const fn as_float(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss)] // a count of observations or timestamps
const fn as_float_of(count: u64) -> f64 {
    count as f64
}
