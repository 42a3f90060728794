//! [`Belief`]: mean and variances of a number under a mixture of models.

use super::tuning::TUNING;

/// Belief about a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Mean.
    pub mean: f64,
    /// Variance under the weights of the models, for decisions.
    pub variance: f64,
    /// Variance to state with a release. It trusts the weights less: noise hides how a number moves below its scale, so
    /// models that the observations can hardly tell apart count alike.
    pub stated: f64,
    /// Stated variance under the widest scatter that the observations do not exclude; zero if they exclude all.
    pub scattered: f64,
}

/// A model in a [`mixture`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    /// Share of the mixture.
    pub(super) weight: f64,
    /// Factor of the weight in a stated variance, before it is tempered.
    pub(super) caution: f64,
    pub(super) belief: Belief,
}

/// Mean and variances of a mixture, whose weights sum to one. Rare components do not count in the variances.
///
/// The stated variance takes the square root of the weights: generalised Bayes with a learning rate of a half
/// (Grünwald and van Ommen 2017), which holds up better where no model is right.
pub(super) fn mixture(components: impl Iterator<Item = Component> + Clone) -> Belief {
    let (mut mean, mut all_tempered) = (0.0, 0.0);
    for component in components.clone() {
        mean += component.weight * component.belief.mean;
        all_tempered += tempered(component);
    }
    let (mut variance, mut stated, mut scattered) = (Part::default(), Part::default(), 0.0_f64);
    for component in components {
        let Belief { mean: centre, variance: own, stated: own_stated, scattered: widest } = component.belief;
        let apart = (centre - mean).powi(2);
        variance.add(component.weight, own + apart);
        stated.add(tempered(component) / all_tempered, own_stated + apart);
        if widest > 0.0 && tempered(component) / all_tempered > TUNING.significant {
            scattered = scattered.max(widest + apart);
        }
    }
    Belief { mean, variance: variance.mean(), stated: stated.mean(), scattered }
}

fn tempered(component: Component) -> f64 {
    (component.weight * component.caution).sqrt()
}

/// Release of a number that is whole, and its variance, from an estimate and the variance stated for it.
///
/// A number that moves smoothly jumps between whole ones, so the nearest one is wrong with a probability of about 0.8
/// deviations. It is released where that is below 5 %. Otherwise the estimate is released, with the variance of a
/// rounding error.
pub fn whole(estimate: f64, variance: f64) -> (f64, f64) {
    if variance.sqrt() < TUNING.known { (estimate.round(), variance) } else { (estimate, variance + 1.0 / 12.0) }
}

/// Weighted mean of the components that matter.
#[derive(Default)]
struct Part {
    mass: f64,
    sum: f64,
}

impl Part {
    fn add(&mut self, weight: f64, square: f64) {
        if weight > TUNING.significant {
            self.mass += weight;
            self.sum += weight * square;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.mass
    }
}

impl From<(f64, f64)> for Belief {
    /// A single model, which states its variance with a margin.
    fn from((mean, variance): (f64, f64)) -> Self {
        Self { mean, variance, stated: TUNING.margin * variance, scattered: 0.0 }
    }
}
