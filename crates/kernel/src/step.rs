//! Randomised steps: a [`RandomisedStep`] draws every value that leaves the kernel.

use crate::random::Randomness;

/// One randomised step: a secret, public parameters, and a distribution of the published value.
pub trait RandomisedStep {
    /// The published value.
    type Output;

    /// Draws the published value.
    fn draw(&mut self, random: &mut impl Randomness) -> Self::Output;
}

/// A step that can be published. With the feature `simulation`, it also knows its likelihoods.
#[cfg(not(feature = "simulation"))]
pub trait StepLikelihood: RandomisedStep {}

#[cfg(not(feature = "simulation"))]
impl<S: RandomisedStep> StepLikelihood for S {}

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::likelihood::StepLikelihood;
