//! State estimation from published statistics. Post-processing: it costs no budget.
//!
//! | module | estimates | from |
//! | --- | --- | --- |
//! | [`model_bank`] | many numbers, such as the frequencies of a domain | observations with noise of known variance |
//! | [`deviation_filter`] | distances of numbers from their mean | the same, in two bases |
//! | [`histogram_filter`] | the counts or frequencies of a domain | noisy histograms |
//! | [`release_filter`] | the statistic of any mechanism | its releases with their stated variances |
//! | [`noise`] | | describes the distribution of observation noise |
//! | [`simplex`] | non-negative numbers with a known sum | estimates without these constraints |
//!
//! Every estimator takes plain numbers, which the kernel hands out only after publication.

mod bank;
mod block;
pub mod deviation_filter;
mod estimator;
pub mod histogram_filter;
mod irregular;
mod model;
pub mod model_bank;
pub mod noise;
mod periods;
mod posterior;
pub mod release_filter;
mod season;
mod seasonal;
pub mod simplex;
mod smoother;
mod tuning;

pub use bank::Prior;
pub use estimator::Estimator;
pub use periods::{Periods, PeriodsError};
pub use posterior::{Noise, Posterior, bit_update, erfcx, normal_cdf};
pub use smoother::Snapshot;
