//! Samplers for simulated populations.
//!
//! They use floating point, and so must never touch real data. That is a matter of types: they accept only a
//! [`SeededRandom`], whose output is marked as not private.

use rand_distr::{Binomial, Distribution, Hypergeometric, StandardNormal};

use crate::random::SeededRandom;

/// A simulation was given parameters that no distribution has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A probability outside 0..=1, or NaN.
    #[error("{given} is not a probability")]
    Probability {
        /// What was given.
        given: f64,
    },
    /// A sample larger than the population.
    #[error("a sample of {sample} cannot be drawn from a population of {population}")]
    Sample {
        /// The size of the sample.
        sample: u64,
        /// The size of the population.
        population: u64,
    },
    /// Weights that are negative, not finite, or sum to zero.
    #[error("weights must be finite, not negative, and not all zero")]
    Weights,
}

/// The number of successes in `trials` trials of probability `probability`.
pub fn binomial(trials: u64, probability: f64, random: &mut SeededRandom) -> Result<u64, SimulationError> {
    let distribution =
        Binomial::new(trials, probability).map_err(|_| SimulationError::Probability { given: probability })?;
    Ok(distribution.sample(random.generator()))
}

/// How `trials` trials fall into cells of the given weights, which need not sum to one.
pub fn multinomial(trials: u64, weights: &[f64], random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
    let mut weight_left: f64 = weights.iter().sum();
    if !weight_left.is_finite() || weight_left <= 0.0 || weights.iter().any(|weight| *weight < 0.0) {
        return Err(SimulationError::Weights);
    }
    let last = weights.iter().rposition(|weight| *weight > 0.0);
    let mut trials_left = trials;
    let mut counts = Vec::with_capacity(weights.len());
    for (cell, &weight) in weights.iter().enumerate() {
        let count = if Some(cell) == last {
            trials_left
        } else if weight > 0.0 {
            binomial(trials_left, (weight / weight_left).clamp(0.0, 1.0), random)?
        } else {
            0
        };
        weight_left -= weight;
        trials_left -= count;
        counts.push(count);
    }
    Ok(counts)
}

/// How a sample drawn without replacement from a population of the given cell counts falls into the cells.
pub fn sample_without_replacement(
    sample: u64,
    counts: &[u64],
    random: &mut SeededRandom,
) -> Result<Vec<u64>, SimulationError> {
    let population: u64 = counts.iter().sum();
    let error = SimulationError::Sample { sample, population };
    if sample > population {
        return Err(error);
    }
    let mut sample_left = sample;
    let mut population_left = population;
    let mut drawn = Vec::with_capacity(counts.len());
    for &count in counts {
        let distribution = Hypergeometric::new(population_left, count, sample_left).map_err(|_| error)?;
        let taken = distribution.sample(random.generator());
        population_left -= count;
        sample_left -= taken;
        drawn.push(taken);
    }
    Ok(drawn)
}

/// A draw from the normal distribution of mean zero and variance one.
pub fn standard_normal(random: &mut SeededRandom) -> f64 {
    StandardNormal.sample(random.generator())
}
