//! Markov models of correlated streams, beliefs, and channels under sequence information privacy.
//!
//! Everything is computed from public data: a model and releases. The kernel checks a channel exactly, and answers the
//! sealed symbol. Devices and the library share this crate, so that both compute the same channels.
//!
//! | module | content |
//! | --- | --- |
//! | [`batch`] | channels over whole sequences of symbols |
//! | [`belief`] | the distribution of a symbol given earlier releases |
//! | [`bins`] | channels for symbols on a line, fast |
//! | [`channel`] | answers to a symbol, in factored form |
//! | [`clusters`] | channels for any distance |
//! | [`distance`] | distances between symbols and answers |
//! | [`effort`] | the channel for a belief and a distance, fast or nearly optimal |
//! | [`grid`] | channels for cells of a grid |
//! | [`hamming`] | the optimal channel for the Hamming distance |
//! | [`model`] | the prior and transitions of a stream |
//! | [`support`] | channels over batches with too many sequences to tell all apart |
//! | `programme` | channels by linear programming, nearer to the optimum (feature `programme`) |

pub mod batch;
pub mod belief;
pub mod bins;
pub mod channel;
pub mod clusters;
pub mod distance;
pub mod effort;
pub mod grid;
pub mod hamming;
pub mod model;
#[cfg(feature = "programme")]
pub mod programme;
pub mod support;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
