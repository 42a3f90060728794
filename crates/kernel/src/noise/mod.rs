//! Exact samplers. They use integer arithmetic on uniform random bits and no floating point, so each distribution is
//! exactly the documented one.
//!
//! Samplers know no budgets and take no secrets; the calling primitives and oracles do. The running time depends on the
//! value drawn: timing side channels are out of scope.

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
