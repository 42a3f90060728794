//! [`Tuning`]: every constant of the estimator, with unit and origin.

/// How a number may move. Variances are in units of the squared noise scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// Variance of a step of the level.
    pub(super) step: f64,
    /// Variance of a step of the slope. A model with none has no slope.
    pub(super) slope_step: f64,
    /// Variance around the level.
    pub(super) scatter: f64,
    /// Relative prior weight.
    pub(super) prior: f64,
}

/// Number of models.
pub(super) const MODELS: usize = 22;

/// Constants of the estimator. *Chosen* values were chosen on generated streams (`make accuracy` lists them) and
/// rounded to a power of ten or its half; *standard* ones are cited; *derived* ones follow from what they stand for.
#[derive(Debug)]
pub(super) struct Tuning {
    /// Grid of models by powers of ten, which cover steps of 0.003 to 1e8 noise scales. Chosen: a constant is likely,
    /// fast models are not.
    pub(super) models: [Model; MODELS],
    /// One for a model with a slope, otherwise zero. Derived from the models.
    pub(super) has_slope: [f64; MODELS],
    /// Priors of the models that do not jump, where variances are stated: of several numbers, equal ones. Derived.
    pub(super) even_models: [f64; MODELS],
    /// The same of a single number: equal ones of walks, of slopes and of scatter, and within each. Derived.
    pub(super) even_kinds: [f64; MODELS],
    /// Probability that a number changes model, per timestamp. Chosen.
    pub(super) hazard: f64,
    /// Probability that a number changes between the bank and a seasonal model, per timestamp. Chosen.
    pub(super) season_hazard: f64,
    /// Prior weight of all seasonal models together. Chosen: a third costs 7 % on real streams without a season, and
    /// gains nothing on those with one.
    pub(super) season_prior: f64,
    /// Variance of a first slope, in units. Chosen.
    pub(super) first_slope: f64,
    /// Share of the prior that follows what suits all numbers. Chosen: half.
    pub(super) shared: f64,
    /// Forgetting rate of that share, per timestamp. Standard: a memory of 20 timestamps, as in Brown 1959.
    pub(super) memory: f64,
    /// Least weight of a model that counts in a stated variance. Derived: less cannot matter to a 95 % interval.
    pub(super) significant: f64,
    /// Factor of a model's variance where it is stated. Chosen: for shapes that no model has, such as a sine of unknown
    /// period.
    pub(super) margin: f64,
    /// Largest standard deviation of a whole number that is known. Derived: see [`whole`](super::whole).
    pub(super) known: f64,
    /// Least weight of a model. Derived: keeps products of f64 positive.
    pub(super) least_weight: f64,
    /// Variances of a step of a wave's level and coefficients, per timestamp, in units. Chosen.
    pub(super) wave_steps: (f64, f64),
    /// Harmonics of a wave. Chosen.
    pub(super) harmonics: u32,
    /// Variance of a step of a phase of a seasonal table, per period, in units. Chosen.
    pub(super) phase_step: f64,
    /// Horizon of expected errors, in timestamps and at least in periods. Chosen: slower models are still learning.
    pub(super) horizon: u32,
    pub(super) riccati_periods: u32,
    /// Widest prior variance of a seasonal coefficient, in units. Derived: differences of f64 keep seven digits.
    pub(super) widest_season: f64,
    /// Most numbers with seasonal models, and the longest period. Derived: a megabyte and a half of state a period.
    pub(super) most_seasonal: usize,
    pub(super) longest_period: u32,
    /// Most seasonal periods of a stream. Derived: the time of an update doubles at about so many.
    pub(super) most_periods: usize,
}

const fn walk(step: f64, prior: f64) -> Model {
    Model { step, slope_step: 0.0, scatter: 0.0, prior }
}

const fn sloped(slope_step: f64) -> Model {
    Model { step: 0.0, slope_step, scatter: 0.0, prior: 0.1 }
}

const fn scattered(scatter: f64) -> Model {
    Model { step: 1e-3, slope_step: 0.0, scatter, prior: 0.15 }
}

impl Model {
    /// Whether the level moves by ten noise scales or more.
    pub(super) const fn is_jump(&self) -> bool {
        self.step >= 100.0
    }

    /// Whether the level has a slope.
    pub(super) const fn has_slope(&self) -> bool {
        self.slope_step > 0.0
    }

    /// Covariance that `n` timestamps add: of the level, between both, of the slope.
    pub(super) fn added(&self, n: f64) -> [f64; 3] {
        // Sums of 0, 1 .. n - 1 and of their squares.
        let first = n * (n - 1.0) / 2.0;
        let second = first * (2.0 * n - 1.0) / 3.0;
        [self.step * n + self.slope_step * second, self.slope_step * first, self.slope_step * n]
    }
}

impl Tuning {
    /// Normalised prior weights of the models.
    pub(super) fn priors(&self) -> [f64; MODELS] {
        let total: f64 = self.models.iter().map(|model| model.prior).sum();
        self.models.map(|model| model.prior / total)
    }
}

/// The constants in use.
pub(super) const TUNING: Tuning = Tuning {
    models: [
        walk(0.0, 4.0),
        walk(1e-5, 1.0),
        walk(1e-4, 1.0),
        walk(1e-3, 1.0),
        walk(1e-2, 0.5),
        walk(1e-1, 0.3),
        walk(1.0, 0.1),
        walk(10.0, 0.1),
        walk(1e2, 0.1),
        walk(1e4, 0.1),
        walk(1e8, 0.1),
        walk(1e16, 0.1),
        sloped(1e-8),
        sloped(1e-6),
        sloped(1e-4),
        sloped(1e-2),
        sloped(1.0),
        sloped(1e2),
        scattered(0.3),
        scattered(1.0),
        scattered(4.0),
        scattered(16.0),
    ],
    has_slope: {
        let mut has_slope = [0.0; MODELS];
        let mut model = 12;
        while model < 18 {
            has_slope[model] = 1.0;
            model += 1;
        }
        has_slope
    },
    even_models: [1.0 / 22.0; MODELS],
    even_kinds: {
        let mut even = [1.0 / (3.0 * 8.0); MODELS];
        let mut model = 12;
        while model < MODELS {
            even[model] = if model < 18 { 1.0 / (3.0 * 6.0) } else { 1.0 / (3.0 * 4.0) };
            model += 1;
        }
        even
    },
    hazard: 1e-3,
    season_hazard: 1e-3,
    season_prior: 0.1,
    first_slope: 0.1,
    shared: 0.5,
    memory: 0.05,
    significant: 0.01,
    margin: 1.2,
    known: 1.0 / 16.0,
    least_weight: 1e-200,
    wave_steps: (1e-3, 1e-4),
    harmonics: 3,
    phase_step: 1e-2,
    horizon: 256,
    riccati_periods: 6,
    widest_season: 1e9,
    most_seasonal: 1024,
    longest_period: 1024,
    most_periods: 8,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_priors_are_those_of_the_models() {
        let kind = |model: &Model| (model.has_slope(), model.scatter > 0.0);
        for (at, model) in TUNING.models.iter().enumerate().filter(|(_, model)| !model.is_jump()) {
            let alike = TUNING.models.iter().filter(|other| !other.is_jump() && kind(other) == kind(model)).count();
            assert!((TUNING.even_kinds[at] * 3.0 * alike as f64 - 1.0).abs() < 1e-12, "{model:?}");
        }
    }

    #[test]
    fn slopes_are_those_of_the_models() {
        for (model, has_slope) in TUNING.models.iter().zip(TUNING.has_slope) {
            assert_eq!(has_slope > 0.5, model.has_slope(), "{model:?}");
        }
    }
}
