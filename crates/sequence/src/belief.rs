//! [`Belief`]: the distribution of the present symbol given all releases.

use serde::{Deserialize, Serialize};

use crate::channel::{Channel, ChannelMatrixError};
use crate::model::{Model, ModelError, Order, VERSION, check_distribution};

/// Posterior of the present symbol for an observer who knows the model and all releases: the forward algorithm of a
/// hidden Markov model (Baum and Petrie 1966).
///
/// It depends on releases only, never on symbols, so it is public. Each step normalises and sums log-probabilities, so
/// nothing underflows. A symbol whose probability underflows counts as impossible, which is harmless: channels treat
/// impossible symbols like rare ones.
///
/// A step costs O(entries of the model), at order 2 plus O(d²).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedBelief")]
pub struct Belief {
    version: u16,
    /// Distribution of the present symbol.
    present: Vec<f64>,
    /// At order 2, from the second symbol on: distribution of the previous and the present symbol.
    pairs: Option<Vec<f64>>,
    log_probability: f64,
    released: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedBelief {
    version: u16,
    present: Vec<f64>,
    // As for the model.
    #[serde(deserialize_with = "Option::deserialize")]
    pairs: Option<Vec<f64>>,
    log_probability: f64,
    released: u64,
}

impl TryFrom<SavedBelief> for Belief {
    type Error = ModelError;

    fn try_from(saved: SavedBelief) -> Result<Self, ModelError> {
        let SavedBelief { version, present, pairs, log_probability, released } = saved;
        if version != VERSION {
            return Err(ModelError::Version { what: "belief", given: version });
        }
        check_distribution(present.iter().copied(), "the belief, row", 0)?;
        if let Some(pairs) = &pairs {
            let (given, expected) = (pairs.len(), present.len() * present.len());
            if given != expected {
                return Err(ModelError::Length { what: "the belief in pairs", given, expected });
            }
            check_distribution(pairs.iter().copied(), "the belief in pairs, row", 0)?;
        }
        if log_probability.is_nan() || log_probability > 0.0 {
            return Err(ModelError::Probability { what: "the belief, row", row: 0, given: log_probability });
        }
        Ok(Self { version, present, pairs, log_probability, released })
    }
}

impl Belief {
    /// Belief before any release: the prior.
    pub fn new(model: &Model) -> Self {
        let total: f64 = model.prior().iter().sum();
        let present = model.prior().iter().map(|probability| probability / total).collect();
        Self { version: VERSION, present, pairs: None, log_probability: 0.0, released: 0 }
    }

    /// Distribution of the present symbol, given earlier releases.
    pub fn present(&self) -> &[f64] {
        &self.present
    }

    /// Natural logarithm of the probability of all releases.
    pub const fn log_probability(&self) -> f64 {
        self.log_probability
    }

    /// Number of releases.
    pub const fn released(&self) -> u64 {
        self.released
    }

    /// Whether its form fits this model. At order 2, a belief without pairs is one before the first symbol.
    pub fn fits(&self, model: &Model) -> bool {
        let pairs = match model.order() {
            Order::One => self.pairs.is_none(),
            Order::Two => self.pairs.is_some() || *self == Self::new(model),
        };
        self.present.len() == model.prior().len() && pairs
    }

    /// Whether it can be a belief after the first symbol.
    pub const fn can_have_advanced(&self, model: &Model) -> bool {
        self.pairs.is_some() || matches!(model.order(), Order::One)
    }

    /// Updates with the release of `output` through `channel`, and moves to the next symbol. Returns the probability of
    /// that output.
    pub fn release(&mut self, model: &Model, channel: &Channel, output: u32) -> Result<f64, ModelError> {
        self.check(model)?;
        if channel.domain() != self.present.len() {
            let (given, expected) = (self.present.len(), channel.domain());
            return Err(ChannelMatrixError::Belief { given, expected }.into());
        }
        let likelihoods = channel.likelihood_of_mixtures(output);
        let likelihood = |symbol: usize| likelihoods[channel.mixture_of()[symbol] as usize];
        let weighed = self.present.iter().enumerate().map(|(symbol, weight)| weight * likelihood(symbol));
        let posterior: Vec<f64> = weighed.collect();
        let probability: f64 = posterior.iter().sum();
        if probability <= 0.0 || probability.is_nan() {
            return Err(ModelError::Impossible { given: output });
        }
        self.log_probability += probability.ln();
        self.released += 1;
        let size = self.present.len();
        if let Some(pairs) = &mut self.pairs {
            for (position, weight) in pairs.iter_mut().enumerate() {
                *weight *= likelihood(position % size) / probability;
            }
        }
        self.present = posterior.into_iter().map(|weight| weight / probability).collect();
        self.advance(model);
        Ok(probability)
    }

    /// Joint belief about the next `length` symbols: one number for each sequence, `x_1 .. x_w` over `d` symbols at
    /// `x_1 d^(w-1) + .. + x_w`. There are `d^length`, so keep it short.
    pub fn sequences(&self, model: &Model, length: u32) -> Result<Vec<f64>, ModelError> {
        self.check(model)?;
        let domain = model.domain();
        if length == 0 {
            return Ok(vec![1.0]);
        }
        let mut sequences = self.present.clone();
        for position in 1..length {
            let mut longer = Vec::with_capacity(sequences.len() * domain as usize);
            for (number, weight) in sequences.iter().enumerate() {
                let rows = self.next_of(model, number, position);
                longer.extend((0..domain).map(|next| {
                    weight
                        * rows
                            .iter()
                            .map(|(share, before, present)| share * model.transition(*before, *present, next))
                            .sum::<f64>()
                }));
            }
            sequences = longer;
        }
        normalise(&mut sequences);
        Ok(sequences)
    }

    /// Contexts of the symbol after a sequence of `length` symbols, with weights. There are several if the unknown
    /// symbol before the sequence matters.
    #[allow(clippy::cast_possible_truncation)] // remainders by the size of the domain
    fn next_of(&self, model: &Model, number: usize, length: u32) -> Vec<(f64, Option<u32>, u32)> {
        let size = self.present.len();
        let present = (number % size) as u32;
        if model.order() == Order::One {
            return vec![(1.0, None, present)];
        }
        if length > 1 {
            return vec![(1.0, Some((number / size % size) as u32), present)];
        }
        let Some(pairs) = &self.pairs else { return vec![(1.0, None, present)] };
        let total = self.present[present as usize];
        let befores = (0_u32..).zip(pairs.iter().skip(present as usize).step_by(size));
        befores
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(before, weight)| (weight / total, Some(before), present))
            .collect()
    }

    /// Updates with the release of `output` for the next `length` symbols, through a channel over
    /// [sequences](Belief::sequences), and moves past them. Returns the probability of that output.
    ///
    /// The next belief is the mixture over sequences, by their posterior.
    pub fn release_sequence(
        &mut self,
        model: &Model,
        length: u32,
        channel: &Channel,
        output: u32,
    ) -> Result<f64, ModelError> {
        if length <= 1 {
            return self.release(model, channel, output);
        }
        let sequences = self.sequences(model, length)?;
        if channel.domain() != sequences.len() {
            return Err(ChannelMatrixError::Belief { given: sequences.len(), expected: channel.domain() }.into());
        }
        let likelihoods = channel.likelihood_of_mixtures(output);
        let mixtures = sequences.iter().zip(channel.mixture_of());
        let posterior: Vec<f64> = mixtures.map(|(weight, mixture)| weight * likelihoods[*mixture as usize]).collect();
        let probability: f64 = posterior.iter().sum();
        if probability <= 0.0 || probability.is_nan() {
            return Err(ModelError::Impossible { given: output });
        }
        self.log_probability += probability.ln();
        self.released += 1;
        let size = self.present.len();
        let mut present = vec![0.0; size];
        let mut pairs = vec![0.0; if model.order() == Order::Two { size * size } else { 0 }];
        for (number, weight) in posterior.iter().enumerate() {
            present[number % size] += weight / probability;
            if let Some(pair) = pairs.get_mut(number % (size * size)) {
                *pair += weight / probability;
            }
        }
        self.present = present;
        self.pairs = (model.order() == Order::Two).then_some(pairs);
        self.advance(model);
        Ok(probability)
    }

    /// Moves to the next symbol without a release.
    pub fn pass(&mut self, model: &Model) -> Result<(), ModelError> {
        self.check(model)?;
        self.advance(model);
        Ok(())
    }

    fn check(&self, model: &Model) -> Result<(), ModelError> {
        if self.fits(model) { Ok(()) } else { Err(ModelError::OtherModel) }
    }

    fn advance(&mut self, model: &Model) {
        let size = self.present.len();
        let Some(mut joint) = model.carry_pairs(&self.present, self.pairs.as_deref()) else {
            let mut next = vec![0.0; size];
            model.carry(&self.present, &mut next);
            normalise(&mut next);
            self.present = next;
            return;
        };
        normalise(&mut joint);
        let mut next = vec![0.0; size];
        for row in joint.chunks_exact(size) {
            next.iter_mut().zip(row).for_each(|(next, weight)| *next += weight);
        }
        normalise(&mut next);
        self.present = next;
        self.pairs = Some(joint);
    }
}

/// Divides by the sum, which is positive.
fn normalise(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}
