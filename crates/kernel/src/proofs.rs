//! Why each primitive is private: the proofs, as they stand in the crate's `proofs` folder.

#[doc = include_str!("../proofs/ledger.md")]
pub mod ledger {}

#[doc = include_str!("../proofs/oracles.md")]
pub mod oracles {}
