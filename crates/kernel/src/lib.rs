//! The trusted base of tidegate: the only code that sees raw data, spends budget and draws noise.
//!
//! A value leaves through one gate. A [`Ledger`] grants a [`Permit`] for an exact [`Epsilon`] at a timestamp; a
//! primitive or a frequency oracle consumes the permit together with that timestamp's value (in the trusted-curator
//! modes a [`Sealed`] one, which knows its timestamp), adds exact noise, and returns something that is safe to publish:
//!
//! ```text
//! value ──▶ Sealed ──▶ primitive or oracle ──▶ safe to publish
//!                          ▲         ▲
//!           Ledger ──▶ Permit    Randomness
//! ```
//!
//! | module | what lives there |
//! | --- | --- |
//! | (root) | [`Epsilon`], [`Ledger`], [`Permit`], [`Sealed`], [`Grid`], [`Decimal`], [`Randomness`], [`Question`] |
//! | [`primitives`] | from sealed data to noisy histograms, sums, comparisons, ... |
//! | [`noise`] | exact samplers: integers in, integers out |
//! | [`oracle`] | frequency oracles for local privacy |
//! | [`proofs`] | why each primitive is private |
#![cfg_attr(
    feature = "simulation",
    doc = "| [`simulation`] | fast samplers for simulated populations, transcripts and their likelihoods; seeded only |"
)]
//!
//! The kernel has no clock, does no input or output, and contains no `unsafe`. Not covered: the time that a call
//! takes, and copies of raw data that the caller made before sealing it.

mod account;
mod class_ledgers;
mod decimal;
mod epsilon;
#[cfg(test)]
mod exact;
mod grid;
mod interval;
mod ledger;
pub mod noise;
pub mod oracle;
mod permit;
pub mod primitives;
pub mod proofs;
mod question;
mod random;
mod randomised_response;
mod sealed;
#[cfg(feature = "simulation")]
pub mod simulation;
mod step;
mod vault;

pub use account::Account;
pub use class_ledgers::ClassLedgers;
pub use decimal::{Decimal, DecimalError};
pub use epsilon::{Epsilon, EpsilonError, UNITS_PER_EPSILON, as_units};
pub use grid::{Grid, GridError};
pub use ledger::{Ledger, Refusal, SpendError, Window};
pub use permit::Permit;
pub use question::{Cohort, Question, QuestionError, SLOTS, View};
pub use random::{FreshRandom, NoEntropy, Provenance, Randomness, SeededRandom, SystemRandom};
pub use randomised_response::{MAX_DOMAIN, MAX_RESPONSE_EPSILON, ResponseError};
pub use sealed::Sealed;
pub use vault::{Locked, StreamId, UnlockError, Vault, VaultKey};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
