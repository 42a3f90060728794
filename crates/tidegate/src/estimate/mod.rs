//! State estimation from published statistics. Post-processing: it costs no budget.
//!
//! | file | content |
//! | --- | --- |
//! | `posterior` | exact updates of a normal belief by Laplace noise, normal noise or a randomised bit |
//! | `belief` | [`Belief`]: mean and variances of a number under a mixture of models |
//! | `bank` | interacting multiple models: levels, slopes, scatter and jumps |
//! | `season` | models of numbers that repeat with a period |
//! | `estimator` | [`Estimator`]: the mixture of all of them, for numbers that are observed together |
//! | `smoother` | estimates of earlier numbers from later observations |
//! | [`simplex`] | non-negative numbers with a known sum |
//! | [`release_filter`] | the estimator behind the releases of any mechanism |
//! | `tuning` | every constant, with unit and origin |
//!
//! Every estimator takes plain numbers, which the kernel hands out only after publication.

mod bank;
mod belief;
mod estimator;
mod periods;
mod posterior;
pub mod release_filter;
mod season;
pub mod simplex;
mod smoother;
mod tuning;

pub use bank::{Pattern, Prior};
pub use belief::{Belief, whole};
pub use estimator::{Estimator, ModelErrors};
pub use periods::{Periods, PeriodsError};
pub use posterior::{Noise, Posterior, bit_update, erfcx, normal_cdf};
pub use smoother::Snapshot;
