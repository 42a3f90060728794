//! The trusted base of tidegate: the only code that sees raw data, spends budget and draws noise.
//!
//! A [`Ledger`] grants a [`Permit`] for an exact [`Epsilon`] at a timestamp. A primitive or a frequency oracle consumes
//! the permit and the value of that timestamp, adds exact noise, and returns a publishable result. A trusted curator's
//! values are [`Sealed`] with their timestamp.
//!
//! ```text
//! value ──▶ Sealed ──▶ primitive or oracle ──▶ safe to publish
//!                          ▲         ▲
//!           Ledger ──▶ Permit    Randomness
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | (root) | [`Epsilon`], [`Ledger`], [`Permit`], [`Sealed`], [`Grid`], [`Decimal`], [`Randomness`], [`Question`] |
//! | [`primitives`] | noisy histograms, sums, comparisons and more, from sealed data |
//! | [`noise`] | exact samplers: integers in, integers out |
//! | [`oracle`] | frequency oracles for local privacy |
//! | [`proofs`] | proofs of privacy for each primitive |
#![cfg_attr(
    feature = "simulation",
    doc = "| [`simulation`] | fast samplers for simulated populations, transcripts and their likelihoods; seeded only |"
)]
//!
//! The kernel has no clock, does no input or output, and contains no `unsafe`. Two things are out of scope: timing side
//! channels, and copies of raw data that the caller made before sealing it.

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
