//! [`Estimator`]: numbers that are observed together, by a mixture of a [`Bank`] and seasonal models.

use serde::{Deserialize, Serialize};

use super::bank::{Bank, Pattern, PerModel, Prior};
use super::belief::{Belief, Component, mixture};
use super::posterior::{Noise, Posterior};
use super::season::Season;
use super::tuning::TUNING;

/// Estimates numbers from noisy observations of all of them. Post-processing: it costs no budget.
///
/// # Regret
/// The mixture forecasts nearly as well as the best of its models in hindsight. For a stream of `T` observations and a
/// sequence of models with `s` changes, the log-density that it gives to the observations is at most
/// `s · ln(1/(h p)) + (T - s) · ln(1/(1 - h)) + ln(1/p)` below that of the sequence, where `h` is the probability of a
/// change and `p` the least prior weight of the models in it (fixed share, Herbster and Warmuth 1998).
///
/// ```
/// use tidegate::estimate::{Estimator, Noise, Prior};
///
/// let prior = Prior { mean: 0.0, variance: 1e12, largest_step: 1e12 };
/// let mut estimator = Estimator::new(1, 0.5, prior, &[]);
/// for (timestamp, observed) in (0..).zip([5.9, 3.8, 5.4, 4.9, 5.7, 4.2]) {
///     estimator.advance(timestamp);
///     estimator.observe(&[observed], Noise::Normal { variance: 1.0 });
/// }
/// let belief = estimator.belief(0);
/// assert!((belief.mean - 5.0).abs() < 0.5 && belief.variance < 0.5);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimator {
    /// Present timestamp, once there is one.
    timestamp: Option<u64>,
    bank: Bank,
    seasons: Vec<Season>,
    /// Prior of the seasonal models.
    prior: SavedPrior,
    /// For each number, weights of the bank and of each seasonal model.
    weights: Vec<f64>,
    /// Mean weights over all numbers, with exponential forgetting.
    popular: Vec<f64>,
    /// Noise variance of all observations of the present timestamp together; zero before the first.
    noise: f64,
    /// Precision-weighted means of the observations of the present timestamp.
    observed: Vec<f64>,
}

/// [`Prior`] as saved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPrior {
    mean: f64,
    variance: f64,
    largest_step: f64,
}

impl SavedPrior {
    const fn prior(self) -> Prior {
        Prior { mean: self.mean, variance: self.variance, largest_step: self.largest_step }
    }
}

impl Estimator {
    /// Creates the estimator before any observation. `unit` is positive: the squared scale of usual observation noise,
    /// half of its variance. Seasons repeat with `periods`, each of 2 to [`Self::LONGEST_PERIOD`] timestamps; of more
    /// than [`Self::MOST_PERIODS`] only the first count, and none where there are more than
    /// [`Self::MOST_SEASONAL`] numbers.
    pub fn new(numbers: usize, unit: f64, prior: Prior, periods: &[u32]) -> Self {
        let periods = if numbers > TUNING.most_seasonal { &[] } else { periods };
        let of_season = Prior { variance: prior.variance.min(TUNING.widest_season * unit), ..prior };
        let seasons: Vec<Season> = periods
            .iter()
            .filter(|period| (2..=TUNING.longest_period).contains(period))
            .take(TUNING.most_periods)
            .flat_map(|period| Season::shapes(*period).map(|shape| Season::new(*period, shape, numbers, of_season)))
            .collect();
        let first = first_weights(seasons.len());
        Self {
            timestamp: None,
            bank: Bank::new(numbers, unit, prior),
            weights: first.repeat(numbers),
            popular: first,
            seasons,
            prior: SavedPrior {
                mean: of_season.mean,
                variance: of_season.variance,
                largest_step: of_season.largest_step,
            },
            noise: 0.0,
            observed: Vec::new(),
        }
    }

    /// Expects scatter: this share of the weight is on models that have it, and numbers scatter around their seasons by
    /// this variance.
    #[must_use]
    pub fn with_scatter(mut self, share: f64, variance: f64) -> Self {
        self.bank.favour_scatter(share);
        self.seasons.iter_mut().for_each(|season| season.set_scatter(variance));
        self
    }

    /// Longest period of a season, in timestamps.
    pub const LONGEST_PERIOD: u32 = TUNING.longest_period;

    /// Most periods.
    pub const MOST_PERIODS: usize = TUNING.most_periods;

    /// Most numbers with seasons.
    pub const MOST_SEASONAL: usize = TUNING.most_seasonal;

    /// Number of numbers.
    pub fn numbers(&self) -> usize {
        self.bank.len()
    }

    /// Present timestamp, once there is one.
    pub const fn timestamp(&self) -> Option<u64> {
        self.timestamp
    }

    /// Squared scale of usual observation noise.
    pub const fn unit(&self) -> f64 {
        self.bank.unit()
    }

    /// Moves on to a timestamp. Earlier ones and the present one change nothing.
    pub fn advance(&mut self, timestamp: u64) {
        let Some(last) = self.timestamp else {
            self.timestamp = Some(timestamp);
            // Before the first observation, time does not matter; seasons learn their phase.
            let prior = self.prior.prior();
            self.seasons.iter_mut().for_each(|season| season.predict(timestamp, 0, 0.0, prior));
            return;
        };
        let Some(timestamps) = timestamp.checked_sub(last).filter(|timestamps| *timestamps > 0) else { return };
        self.close(last);
        self.timestamp = Some(timestamp);
        self.bank.predict(timestamps);
        let (unit, prior) = (self.bank.unit(), self.prior.prior());
        self.seasons.iter_mut().for_each(|season| season.predict(timestamp, timestamps, unit, prior));
        #[allow(clippy::cast_precision_loss)] // beyond 2^53 all of it has changed
        let stays = (1.0 - TUNING.season_hazard).powf(timestamps as f64);
        let first = first_weights(self.seasons.len());
        for weights in self.weights.chunks_exact_mut(first.len()) {
            weights
                .iter_mut()
                .zip(&first)
                .for_each(|(weight, first)| *weight = stays * *weight + (1.0 - stays) * first);
        }
    }

    /// Ends a timestamp with observations: seasons and popularity learn from it.
    #[allow(clippy::cast_precision_loss)] // a number of numbers
    fn close(&mut self, timestamp: u64) {
        if self.noise <= 0.0 {
            return;
        }
        let observed = (!self.observed.is_empty()).then_some(self.observed.as_slice());
        self.seasons.iter_mut().for_each(|season| season.learn(timestamp, observed, self.noise));
        self.bank.close();
        let (numbers, size) = (self.numbers() as f64, self.popular.len());
        for at in 0..size {
            let mean = self.weights.iter().skip(at).step_by(size).sum::<f64>() / numbers;
            self.popular[at] += TUNING.memory * (mean - self.popular[at]);
        }
        self.noise = 0.0;
        self.observed.clear();
    }

    /// Updates with an observation of each number at the present timestamp.
    pub fn observe(&mut self, observed: &[f64], noise: Noise) {
        let variance = noise.variance();
        if self.noise > 0.0 {
            let part = self.noise / (self.noise + variance);
            self.observed.iter_mut().zip(observed).for_each(|(mean, new)| *mean += part * (new - *mean));
            self.noise *= variance / (self.noise + variance);
        } else {
            self.observed = observed.to_vec();
            self.noise = variance;
        }
        self.update(|index, mean, belief| noise.update(mean, belief, observed[index]));
    }

    /// Updates with any observation of the present timestamp, one that is worth as much as noise of the variance
    /// `equivalent`. `update` gives the posterior of a number from its mean and variance.
    pub fn observe_with(&mut self, equivalent: f64, update: impl Fn(f64, f64) -> Posterior) {
        self.noise = if self.noise > 0.0 { (self.noise.recip() + equivalent.recip()).recip() } else { equivalent };
        self.update(|_, mean, variance| update(mean, variance));
    }

    /// Updates with the mean of `count` numbers like the first, up to the present timestamp, observed with noise.
    /// Seasonal models learn nothing from it.
    pub fn observe_mean(&mut self, count: f64, observed: f64, noise: Noise) {
        self.bank.observe_mean(0, count, |mean, variance| noise.update(mean, variance, observed));
    }

    /// Updates with the share of `count` numbers like the first, up to the present timestamp, that lie above `cut`,
    /// observed with noise. It tells scatter from none, which a mean does not.
    pub fn observe_share(&mut self, count: f64, cut: f64, observed: f64, noise: Noise) {
        self.bank.observe_share(0, count, cut, observed, noise);
    }

    /// Updates with the knowledge that numbers lie in a range. A model that expects one outside is moved to its end,
    /// and loses weight by the distance.
    pub fn restrict(&mut self, low: f64, high: f64) {
        self.update(|_, mean, variance| {
            let within = mean.clamp(low, high);
            Posterior { mean: within, variance, factor: 1.0, exponent: -(mean - within).powi(2) / (2.0 * variance) }
        });
    }

    fn update(&mut self, update: impl Fn(usize, f64, f64) -> Posterior) {
        let size = self.popular.len();
        let mut densities = vec![(0.0, 0.0); size];
        for (index, weights) in self.weights.chunks_exact_mut(size).enumerate() {
            densities[0] = self.bank.observe(index, |mean, variance| update(index, mean, variance));
            for (density, season) in densities[1..].iter_mut().zip(&mut self.seasons) {
                *density = season.observe(index, |mean, variance| update(index, mean, variance));
            }
            let highest = densities.iter().map(|(_, exponent)| *exponent).fold(f64::NEG_INFINITY, f64::max);
            let mut total = 0.0;
            for (weight, (factor, exponent)) in weights.iter_mut().zip(&densities) {
                *weight = (*weight * factor * (exponent - highest).exp()).max(f64::MIN_POSITIVE);
                total += *weight;
            }
            weights.iter_mut().for_each(|weight| *weight = (*weight / total).max(TUNING.least_weight));
        }
    }

    /// Belief about a number at the present timestamp: a posterior after an observation, otherwise a forecast.
    pub fn belief(&self, index: usize) -> Belief {
        let size = self.popular.len();
        let bank = self.bank.belief(index);
        if size == 1 {
            return bank;
        }
        let own = &self.weights[index * size..(index + 1) * size];
        let first = first_weights(self.seasons.len());
        let favour = |at: usize| own[at] * (1.0 - TUNING.shared + TUNING.shared * self.popular[at] / first[at]);
        let total: f64 = (0..size).map(favour).sum();
        let belief = |at: usize| if at == 0 { bank } else { self.seasons[at - 1].belief(index).into() };
        mixture((0..size).map(|at| Component { weight: favour(at) / total, caution: 1.0, belief: belief(at) }))
    }

    /// Beliefs about all numbers.
    pub fn beliefs(&self) -> impl Iterator<Item = Belief> {
        (0..self.numbers()).map(|index| self.belief(index))
    }

    /// Means of all numbers, and the variances to state with them.
    pub fn stated(&self) -> (Vec<f64>, Vec<f64>) {
        self.beliefs().map(|belief| (belief.mean, belief.stated)).unzip()
    }

    /// Whether it has the unit and the prior of another.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.unit(), self.prior) == (other.unit(), other.prior)
    }

    /// Whether a loaded state is a valid estimator of so many numbers and these periods.
    pub fn fits(&self, numbers: usize, periods: &[u32]) -> bool {
        let Self { timestamp, bank, seasons, prior, weights, popular, noise, observed } = self;
        let size = seasons.len() + 1;
        let expected = Self::new(numbers, 1.0, Prior { mean: 0.0, variance: 1.0, largest_step: 1.0 }, periods);
        let alike = |(season, expected): (&Season, &Season)| season.is_like(expected) && season.fits(numbers);
        let distribution = |weights: &[f64]| {
            weights.iter().all(|weight| *weight > 0.0) && (weights.iter().sum::<f64>() - 1.0).abs() < 1e-6
        };
        let SavedPrior { mean, variance, largest_step } = prior;
        bank.fits(numbers)
            && seasons.len() == expected.seasons.len()
            && seasons.iter().zip(&expected.seasons).all(alike)
            && mean.is_finite()
            && [variance, largest_step].into_iter().all(|number| number.is_finite() && *number > 0.0)
            && weights.len() == numbers * size
            && weights.chunks_exact(size).all(distribution)
            && popular.len() == size
            && distribution(popular)
            && noise.is_finite()
            && *noise >= 0.0
            && (*noise <= 0.0 || timestamp.is_some())
            && (observed.is_empty() || observed.len() == numbers)
            && observed.iter().all(|number| number.is_finite())
    }

    /// Expected mean variance of a number in the steady state of each pattern of observations, for the models that
    /// suited the numbers of late, in units. `errors` is that of each model of the bank, by [`Self::model_errors`]. No
    /// model's error counts as more than `most`.
    pub fn expected_error(&self, pattern: Pattern, errors: &ModelErrors, most: f64) -> f64 {
        let of_bank = errors.0.iter().zip(self.bank.popular()).map(|(error, weight)| error.min(most) * weight);
        let of_bank: f64 = of_bank.sum();
        let of_season = |season: &Season| season.steady_error(pattern, self.bank.unit()).min(most);
        let of_seasons = self.seasons.iter().zip(&self.popular[1..]).map(|(season, weight)| weight * of_season(season));
        self.popular[0] * of_bank + of_seasons.sum::<f64>()
    }

    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    pub(super) const fn bank(&self) -> &Bank {
        &self.bank
    }

    pub(super) fn seasons(&self) -> &[Season] {
        &self.seasons
    }

    /// Expected mean variance of a number under each model of the bank, in units.
    pub fn model_errors(pattern: Pattern) -> ModelErrors {
        ModelErrors(Bank::steady_errors(pattern))
    }
}

/// Expected errors of the models of the bank for a pattern of observations.
#[derive(Clone, Copy, Debug)]
pub struct ModelErrors(PerModel);

/// Prior weights of the bank and of the seasonal models.
#[allow(clippy::cast_precision_loss)] // a few
pub(super) fn first_weights(seasons: usize) -> Vec<f64> {
    if seasons == 0 {
        return vec![1.0];
    }
    let each = TUNING.season_prior / seasons as f64;
    std::iter::once(1.0 - TUNING.season_prior).chain(std::iter::repeat_n(each, seasons)).collect()
}
