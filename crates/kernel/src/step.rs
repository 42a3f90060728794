//! Randomised steps: every value that leaves the kernel is drawn by a [`Step`].

use crate::random::Randomness;

/// One randomised step: a secret, public parameters, and how the published value is drawn from them.
pub trait Step {
    /// The published value.
    type Output;

    /// Draws the published value.
    fn draw(&mut self, random: &mut impl Randomness) -> Self::Output;
}

/// A step that can be published. With the feature `simulation` its likelihoods are known, too.
#[cfg(not(feature = "simulation"))]
pub trait Law: Step {}

#[cfg(not(feature = "simulation"))]
impl<S: Step> Law for S {}

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::law::Law;
