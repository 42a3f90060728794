//! Exact samplers. Everything here is integer arithmetic on uniform random bits: no floating point, so the
//! distribution of each sampler is exactly the one in its documentation, to the last bit.
//!
//! Samplers know nothing of budgets. The primitives and oracles that call them do, and only those are given secrets.
//! The time that a sampler takes depends on what it draws; protection against timing is out of scope.

mod bernoulli;
mod biased_bits;
mod discrete_laplace;
mod subset;
mod uniform;

pub use bernoulli::{bernoulli, bernoulli_exp};
pub use biased_bits::BiasedBits;
#[cfg(feature = "simulation")]
pub(crate) use discrete_laplace::NoisyInteger;
pub(crate) use discrete_laplace::greatest_common_divisor;
pub use discrete_laplace::{DiscreteLaplace, Geometric, NoiseScale, ScaleError};
pub use subset::choose;
pub use uniform::Below;
