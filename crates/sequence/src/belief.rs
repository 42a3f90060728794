//! [`Belief`]: the distribution of the present symbol given all releases.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::channel::{Channel, ChannelMatrixError, SUM_TOLERANCE};
use crate::model::{Model, ModelError, Order, VERSION, check_distribution};

/// Posterior of the present symbol for an observer who knows the model and all releases: the forward algorithm of a
/// hidden Markov model (Baum and Petrie 1966).
///
/// It depends on releases only, never on symbols, so it is public. Each step normalises and sums log-probabilities, so
/// nothing underflows. A symbol whose probability underflows counts as impossible, which is harmless: channels treat
/// impossible symbols like rare ones.
///
/// A step costs O(entries of the model + d), at either order: at order 2, only pairs with a row of their own need a
/// weight of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedBelief")]
pub struct Belief {
    version: u16,
    /// Distribution of the present symbol.
    present: Vec<f64>,
    /// At order 2, from the second symbol on: weights of the model's pairs of previous and present symbol. In version
    /// 1, those of all pairs.
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

/// Version of a belief with the weights of a model's pairs.
const PAIRS_VERSION: u16 = 2;

impl TryFrom<SavedBelief> for Belief {
    type Error = ModelError;

    fn try_from(saved: SavedBelief) -> Result<Self, ModelError> {
        let SavedBelief { version, present, pairs, log_probability, released } = saved;
        let what = "the belief in pairs, row";
        match (version, &pairs) {
            (VERSION, None) => {}
            (VERSION, Some(pairs)) => {
                let (given, expected) = (pairs.len(), present.len() * present.len());
                if given != expected {
                    return Err(ModelError::Length { what: "the belief in pairs", given, expected });
                }
                check_distribution(pairs.iter().copied(), what, 0)?;
            }
            (PAIRS_VERSION, Some(pairs)) => {
                if let Some(&given) = pairs.iter().find(|weight| !(0.0..=1.0 + SUM_TOLERANCE).contains(*weight)) {
                    return Err(ModelError::Probability { what, row: 0, given });
                }
                let given: f64 = pairs.iter().sum();
                if given > 1.0 + SUM_TOLERANCE {
                    return Err(ModelError::Sum { what, row: 0, given });
                }
            }
            (given, _) => return Err(ModelError::Version { what: "belief", given }),
        }
        check_distribution(present.iter().copied(), "the belief, row", 0)?;
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
            Order::Two => match &self.pairs {
                None => *self == Self::new(model),
                // All pairs, in version 1.
                Some(_) if self.version == VERSION => true,
                Some(pairs) => model.known_pairs().is_some_and(|known| known.len() == pairs.len()),
            },
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
        let probability = self.observe(model, channel, output)?;
        self.advance(model);
        Ok(probability)
    }

    /// Updates with the release of `output` about the present symbol, and stays there: for several releases about one
    /// symbol. Returns the probability of that output.
    pub fn observe(&mut self, model: &Model, channel: &Channel, output: u32) -> Result<f64, ModelError> {
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
        self.weigh_pairs(model, |symbol| likelihood(symbol) / probability);
        self.present = posterior.into_iter().map(|weight| weight / probability).collect();
        Ok(probability)
    }

    /// Weights of the model's pairs, from either version.
    fn known<'a>(&'a self, model: &Model) -> Option<Cow<'a, [f64]>> {
        let (weights, known) = (self.pairs.as_ref()?, model.known_pairs()?);
        #[allow(clippy::cast_possible_truncation)] // positions in a vector
        let of_all = || known.iter().map(|pair| weights[*pair as usize]).collect();
        Some(if self.version == VERSION { Cow::Owned(of_all()) } else { Cow::Borrowed(weights) })
    }

    /// Multiplies the weight of each pair by a function of the present symbol.
    #[allow(clippy::cast_possible_truncation)] // symbols
    fn weigh_pairs(&mut self, model: &Model, likelihood: impl Fn(usize) -> f64) {
        let Some(known) = self.known(model) else { return };
        let domain = u64::from(model.domain());
        let pairs = model.known_pairs().unwrap_or_default().iter().zip(known.iter());
        self.pairs = Some(pairs.map(|(pair, weight)| weight * likelihood((pair % domain) as usize)).collect());
        self.version = PAIRS_VERSION;
    }

    /// Multiplies the belief by a function of the present symbol; returns the sum, by which it is divided again.
    pub(crate) fn weigh(&mut self, model: &Model, likelihood: &[f64]) -> Result<f64, ModelError> {
        self.check(model)?;
        let mut present: Vec<f64> = self.present.iter().zip(likelihood).map(|(weight, share)| weight * share).collect();
        let sum: f64 = present.iter().sum();
        if sum > 0.0 {
            present.iter_mut().for_each(|weight| *weight /= sum);
            self.weigh_pairs(model, |symbol| likelihood[symbol] / sum);
            self.present = present;
        }
        Ok(sum)
    }

    /// Adds a weight to the last symbols of each sequence, and takes what remains for the belief after a release of
    /// this probability.
    #[allow(clippy::cast_possible_truncation)] // positions in a vector
    pub(crate) fn correct<'a>(
        &mut self,
        model: &Model,
        share: f64,
        sequences: impl Iterator<Item = (&'a [u32], f64)>,
        (before, output): (&Self, u32),
    ) -> Result<f64, ModelError> {
        let mut present: Vec<f64> = self.present.iter().map(|weight| weight * share).collect();
        let mut pairs = self.known(model).map(|known| known.iter().map(|weight| weight * share).collect::<Vec<f64>>());
        for (symbols, weight) in sequences {
            let [.., last] = symbols else { continue };
            present[*last as usize] += weight;
            if let (Some(pairs), Some(known), [.., one, last]) = (&mut pairs, model.known_pairs(), symbols)
                && let Ok(at) = known.binary_search(&(u64::from(*one) * u64::from(model.domain()) + u64::from(*last)))
            {
                pairs[at] += weight;
            }
        }
        // Rounding may leave a negative remainder.
        present.iter_mut().for_each(|weight| *weight = weight.max(0.0));
        let probability: f64 = present.iter().sum();
        if probability <= 0.0 || probability.is_nan() {
            return Err(ModelError::Impossible { given: output });
        }
        present.iter_mut().for_each(|weight| *weight /= probability);
        self.present = present;
        if let Some(pairs) = pairs {
            self.pairs = Some(pairs.into_iter().map(|weight| weight.max(0.0) / probability).collect());
            self.version = PAIRS_VERSION;
        }
        self.log_probability = before.log_probability + probability.min(1.0).ln();
        self.released = before.released + 1;
        self.advance(model);
        Ok(probability)
    }

    /// Contexts of the next symbol for each present one: shares of its belief by the symbol before. Only pairs with a
    /// row of their own matter.
    #[allow(clippy::cast_possible_truncation)] // symbols
    pub(crate) fn contexts(&self, model: &Model, present: u32) -> Vec<(f64, Option<u32>)> {
        let total = self.present[present as usize];
        let Some(known) = self.known(model).filter(|_| total > 0.0) else { return vec![(1.0, None)] };
        let domain = u64::from(model.domain());
        let mut rest = 1.0;
        let mut contexts = Vec::new();
        for (pair, weight) in model.known_pairs().unwrap_or_default().iter().zip(known.iter()) {
            if pair % domain == u64::from(present) && *weight > 0.0 {
                contexts.push((weight / total, Some((pair / domain) as u32)));
                rest -= weight / total;
            }
        }
        // Rounding may leave a negative remainder.
        if rest > 0.0 {
            contexts.push((rest, None));
        }
        contexts
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
        self.contexts(model, present).into_iter().map(|(share, before)| (share, before, present)).collect()
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
        let known = model.known_pairs();
        let mut pairs = vec![0.0; known.map_or(0, <[u64]>::len)];
        for (number, weight) in posterior.iter().enumerate() {
            present[number % size] += weight / probability;
            let pair = (number % (size * size)) as u64;
            if let Some(Ok(at)) = known.map(|known| known.binary_search(&pair)) {
                pairs[at] += weight / probability;
            }
        }
        self.present = present;
        if known.is_some() {
            (self.pairs, self.version) = (Some(pairs), PAIRS_VERSION);
        }
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
        let Some((mut pairs, mut next)) = model.carry_pairs(&self.present, self.known(model).as_deref()) else {
            let mut next = vec![0.0; size];
            model.carry(&self.present, &mut next);
            normalise(&mut next);
            self.present = next;
            return;
        };
        let sum: f64 = next.iter().sum();
        pairs.iter_mut().for_each(|weight| *weight /= sum);
        normalise(&mut next);
        (self.present, self.pairs, self.version) = (next, Some(pairs), PAIRS_VERSION);
    }
}

/// Divides by the sum, which is positive.
fn normalise(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}
