//! [`ModelBank`]: a bank of Kalman filters for many numbers that move alike, observed with noise of known variance.
//!
//! Multiple-model estimation (Magill 1965): each number is filtered by several linear models, and the estimate is their
//! mixture. Unlike interacting multiple models (Blom and Bar-Shalom 1988), models exchange weights but not states.
//!
//! All numbers have the same observation noise, so gains and covariances are computed once for each model. Model
//! weights and switch rates are learned from forecast likelihoods. Numbers of a group share a prior, learned from all
//! of them.

mod forecast;
mod validation;

use serde::{Deserialize, Serialize};

use crate::estimate::block::{BLOCK, Block, FAR, MeasurementUpdate, NEAR, as_f32, clamped_f32};
pub use crate::estimate::model::ConstantPrior;
use crate::estimate::model::{Covariance, DYNAMIC_MODELS, Model, Transition, initial_prior, model};
use crate::estimate::noise::ObservationNoise;
use crate::estimate::seasonal::{Phase, phase_at};

/// Maximum number of constant levels, which start at different observations. After a change, some have seen only what
/// followed it.
const MAX_CONSTANT_LEVELS: usize = 10;

/// Prior variance of a number of unknown size, in reference variances.
const INITIAL_VARIANCE: f64 = 1e7;

/// Candidate probabilities of a switch to another model between two observations, learned for each group. Then their
/// prior, and the share of it that is mixed in at each observation. The switch probability never exceeds the mean
/// Kalman gain: with uninformative observations, a change takes longer to show.
const SWITCH_RATES: [f64; 3] = [5e-5, 3e-3, 3e-2];
const SWITCH_RATE_PRIOR: [f64; SWITCH_RATES.len()] = [0.97, 0.025, 0.005];
const SWITCH_RATE_PRIOR_SHARE: f64 = 0.001;
const MIN_SWITCH_PROBABILITY: f64 = 1e-6;

/// Probability of a new level for each number, after a jump of many. Models with a gain above `JUMPING_GAIN` may also
/// restart from the observation.
const JUMP_PROBABILITY: f32 = 0.5;
const JUMPING_GAIN: f64 = 0.2;

/// Upper limit of the switch factor of constant levels after a jump.
const MAX_LEVEL_FACTOR: f32 = 1e6;

/// Limits of the unit; its square must be finite.
const MIN_UNIT: f64 = 1e-150;
const MAX_UNIT: f64 = 1e150;

/// Share of the evidence that is forgotten with each observation.
const EVIDENCE_DECAY: f64 = 0.02;

/// Learning rate of a group's prior, at most and for each of its numbers. What few numbers share is mostly chance.
const MAX_LEARNING_RATE: f64 = 0.2;
const LEARNING_RATE_PER_NUMBER: f64 = 0.0175;

/// Share of the initial prior that remains in a learned prior, so that no model vanishes.
const INITIAL_PRIOR_SHARE: f64 = 0.1;

/// Weight of the initial prior, in numbers.
const PRIOR_NUMBERS: f64 = 2.0;

/// Estimates many moving numbers from joint observations of all of them.
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
    /// Variance to which those of the models are relative.
    reference: f64,
    /// Largest possible square of a number.
    largest_square: f64,
    /// Consecutive groups of similar numbers.
    groups: Vec<Group>,
    /// Upper limit of the switch probability until the next observation.
    switch_probability: f64,
    /// Time of the last observation: the sum of all gaps.
    clock: u64,
    /// Age of each constant level in observations, the youngest last.
    ages: Vec<u64>,
    /// Filter states of the dynamic models, then of the constant levels. Empty for models with no prior weight.
    filters: Vec<FilterState>,
    /// Origin from which each number's states are measured.
    origins: Vec<f64>,
    /// Unit in which they are measured.
    unit: f64,
    /// Total weight of the models, for each number.
    totals: Vec<f32>,
    /// Log-likelihood of all observations under the mixture with normal noise, relative to noise only.
    evidence: f64,
    /// Posterior after the last observation.
    posterior: Estimates,
}

/// Similar numbers, which share a prior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Index after its last number.
    end: usize,
    /// Initial prior of each model; the constant levels count as one.
    prior: Vec<f64>,
    /// Learned prior of each model.
    learned: Vec<f64>,
    /// Posterior of each switch rate.
    switch_rates: [f64; SWITCH_RATES.len()],
}

/// State of one model's Kalman filter for all numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterState {
    /// Posterior covariance of every number; of a season, the covariance of a phase never observed.
    covariance: Covariance,
    /// Phases of a season.
    phases: Vec<Phase>,
    /// State estimates relative to the origins, in units: all numbers, then all second components, then all third. Of a
    /// season: all numbers of the first phase, then of the second, and so on.
    states: Vec<f32>,
    /// Filtered likelihood of each number's observations, relative to the mixture.
    likelihoods: Vec<f32>,
}

/// Estimates with their error variances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    /// Expected values.
    pub means: Vec<f64>,
    /// Expected squared errors.
    pub variances: Vec<f64>,
}

impl ModelBank {
    /// Creates a bank of numbers of unknown size, up to about 30,000 standard deviations from zero. `reference` is the
    /// approximate variance of future observations.
    pub fn new(numbers: usize, reference: f64, constancy: ConstantPrior) -> Self {
        let initial_variance = INITIAL_VARIANCE * reference;
        Self::grouped(&[(numbers, initial_variance)], initial_variance, reference, constancy)
    }

    /// Creates a bank of grouped numbers. Each group is given as its end index and an upper limit of its mean square;
    /// `largest_square` limits the square of every number.
    pub fn grouped(groups: &[(usize, f64)], largest_square: f64, reference: f64, constancy: ConstantPrior) -> Self {
        let largest_square = largest_square.min(INITIAL_VARIANCE * reference);
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

    /// Number of numbers.
    pub fn numbers(&self) -> usize {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// Log-likelihood ratio of this model bank against noise only, with exponential forgetting. It assumes normal
    /// noise, so that banks which observe the same data in different orthogonal bases can be compared.
    pub const fn evidence(&self) -> f64 {
        self.evidence
    }

    /// Updates with an observation of every number, `gap` timestamps after the last one.
    pub fn observe(&mut self, gap: u64, observations: &[f64], noise: impl Into<ObservationNoise>) {
        self.update_all(gap, observations, noise.into(), false);
    }

    /// Updates as [`Self::observe`] does, given that many numbers have jumped to new or earlier levels since. Learns
    /// nothing about the models from it.
    pub fn observe_jump(&mut self, gap: u64, observations: &[f64], noise: impl Into<ObservationNoise>) {
        self.update_all(gap, observations, noise.into(), true);
    }

    fn update_all(&mut self, gap: u64, observations: &[f64], noise: ObservationNoise, jumped: bool) {
        // Exact observations, such as the deviation of a single number from its mean, get the smallest variance.
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
            // Models without prior weight have no state.
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
        // Never zero, so that no model vanishes.
        self.switch_probability = (gain_sum / as_float(numbers.max(1))).clamp(MIN_SWITCH_PROBABILITY, 1.0);
    }

    /// Prepares a block of numbers. Moves each origin close to the posterior, or to an observation far from it.
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

    /// Converts all states to another unit.
    fn set_unit(&mut self, unit: f64) {
        let unit = unit.clamp(MIN_UNIT, MAX_UNIT);
        let factor = self.unit / unit;
        let states = self.filters.iter_mut().flat_map(|filter| &mut filter.states);
        states.for_each(|state| *state = clamped_f32(f64::from(*state) * factor));
        self.unit = unit;
    }

    fn transition(&self, index: usize) -> Transition {
        Transition::of(model(index), self.reference, self.largest_square)
    }

    /// Starts a constant-level hypothesis; evicts the one closest in age to its neighbours.
    fn start_constant_level(&mut self) {
        self.ages.iter_mut().for_each(|age| *age = age.saturating_add(1));
        if self.ages == [1] {
            return;
        }
        if self.ages.len() < MAX_CONSTANT_LEVELS {
            // All levels share one prior, so the others' weights are scaled up.
            let more = as_f32(as_float(self.ages.len() + 1) / as_float(self.ages.len()));
            let levels = self.filters[DYNAMIC_MODELS..].iter_mut().flat_map(|level| &mut level.likelihoods);
            levels.for_each(|likelihood| *likelihood *= more);
            let Some(first) = self.filters.last() else { return };
            self.filters.push(first.clone());
            self.ages.push(0);
        } else {
            let ratio = |place: &usize| as_float_of(self.ages[place - 1]) / as_float_of(self.ages[place + 1]);
            let least =
                (1..MAX_CONSTANT_LEVELS - 1).min_by(|left, right| ratio(left).total_cmp(&ratio(right))).unwrap_or(1);
            self.ages.remove(least);
            let dropped = self.filters.remove(DYNAMIC_MODELS + least);
            // The next younger level inherits the weight.
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
    /// Predicts to `time`, `gap` timestamps after the last observation, and updates the covariance.
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
    /// Returns the prior of each model, with `levels` constant levels.
    fn priors(&self, levels: usize) -> Vec<f64> {
        let prior =
            |index: usize| (1.0 - INITIAL_PRIOR_SHARE) * self.learned[index] + INITIAL_PRIOR_SHARE * self.prior[index];
        let still = prior(DYNAMIC_MODELS) / as_float(levels);
        (0..DYNAMIC_MODELS).map(prior).chain(std::iter::repeat_n(still, levels)).collect()
    }

    /// Updates the posterior of the switch rates from their log-likelihoods. Returns the log-likelihood of their
    /// mixture.
    fn learn_switch_rates(&mut self, log_likelihoods: [f64; SWITCH_RATES.len()]) -> f64 {
        let most = log_likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (rate, log_likelihood) in self.switch_rates.iter_mut().zip(log_likelihoods) {
            *rate *= (log_likelihood - most).exp();
            total += *rate;
        }
        for (rate, prior) in self.switch_rates.iter_mut().zip(SWITCH_RATE_PRIOR) {
            *rate = (1.0 - SWITCH_RATE_PRIOR_SHARE) * *rate / total + SWITCH_RATE_PRIOR_SHARE * prior;
        }
        total.ln() + most
    }

    /// Updates the learned prior from the total weight of each model.
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
