//! Proofs of privacy for each primitive, from the crate's `proofs` folder.

#[doc = include_str!("../proofs/above_threshold.md")]
pub mod above_threshold {}

#[doc = include_str!("../proofs/continuous_groups.md")]
pub mod continuous_groups {}

#[doc = include_str!("../proofs/deviation.md")]
pub mod deviation {}

#[doc = include_str!("../proofs/deviation_tests.md")]
pub mod deviation_tests {}

#[doc = include_str!("../proofs/grouped_histograms.md")]
pub mod grouped_histograms {}

#[doc = include_str!("../proofs/ledger.md")]
pub mod ledger {}

#[doc = include_str!("../proofs/oracles.md")]
pub mod oracles {}

#[doc = include_str!("../proofs/noisy_bound.md")]
pub mod noisy_bound {}

#[doc = include_str!("../proofs/noisy_comparison.md")]
pub mod noisy_comparison {}

#[doc = include_str!("../proofs/noisy_distance.md")]
pub mod noisy_distance {}

#[doc = include_str!("../proofs/noisy_histogram.md")]
pub mod noisy_histogram {}

#[doc = include_str!("../proofs/noisy_max.md")]
pub mod noisy_max {}

#[doc = include_str!("../proofs/noisy_scalar.md")]
pub mod noisy_scalar {}

#[doc = include_str!("../proofs/piecewise.md")]
pub mod piecewise {}

#[doc = include_str!("../proofs/randomised_bucket.md")]
pub mod randomised_bucket {}

#[doc = include_str!("../proofs/sampled_histogram.md")]
pub mod sampled_histogram {}

#[doc = include_str!("../proofs/sequence_classes.md")]
pub mod sequence_classes {}

#[doc = include_str!("../proofs/symbol_channel.md")]
pub mod symbol_channel {}
