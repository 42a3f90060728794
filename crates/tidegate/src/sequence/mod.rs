//! One user's correlated stream, released symbol by symbol or in batches under sequence information privacy (SIP).
//!
//! | module | content |
//! | --- | --- |
//! | [`baseline`] | `rr` and `oue`, which ignore the model |
//! | [`batch`] | channels over whole sequences |
//! | [`batched`] | the mechanism that releases several symbols at once |
//! | [`belief`] | the distribution of a symbol given earlier releases |
//! | [`bins`] | channels for symbols on a line, fast |
//! | [`channel`] | answers to a symbol, in factored form |
//! | [`clusters`] | channels for any distance |
//! | [`crr`] | the mechanism that releases each symbol at once: conditional randomised response |
//! | [`distance`] | distances between symbols and answers |
//! | [`effort`] | the channel for a belief and a distance, fast or nearly optimal |
//! | [`fit`] | models learned from protected sequences, privately |
//! | [`grid`] | channels for cells of a grid |
//! | [`hamming`] | the optimal channel for the Hamming distance |
//! | [`leakage`] | leakage so far: an account, and an exact calculator |
//! | [`model`] | the prior and transitions of a stream |
//! | [`support`] | channels over batches with too many sequences to tell all apart |
//! | `programme` | channels by linear programming, nearer to the optimum (feature `programme`) |

pub mod baseline;
pub mod batched;
pub mod crr;
pub mod fit;
pub mod leakage;
mod state;

#[cfg(feature = "programme")]
pub use tidegate_sequence::programme;
pub use tidegate_sequence::{batch, belief, bins, channel, clusters, distance, effort, grid, hamming, model, support};

use crate::mechanisms::{Mechanism, Output, Preset, mechanisms};

mechanisms! {
    /// A sequence mechanism.
    SequenceKind: Sequence, "sequence", all as ALL;

    /// Conditional randomised response: a symbol at a time.
    Crr = "crr" {
        summary: "each symbol at once; epsilon-SIP a step if the model is right, 2 epsilon-LDP always",
        keys: &["model", "guarantee", "window", "budget", "distance", "effort", "population"],
        rounds: 0, by_class: false, output: Output::Symbol,
    }
    /// Several symbols at a time.
    Batched = "batched" {
        summary: "several symbols at once, at epsilon-SIP for each of them",
        keys: &[
            "model", "guarantee", "window", "budget", "distance", "effort", "length", "part", "support", "population",
        ],
        rounds: 0, by_class: false, output: Output::Symbol,
    }
    /// Generalised randomised response, which knows no model.
    Rr = "rr" {
        summary: "baseline without a model: randomised response, epsilon-LDP a step",
        keys: &[], rounds: 0, by_class: false, output: Output::Symbol,
    }
    /// Optimised unary encoding, decoded to a symbol, which knows no model.
    Oue = "oue" {
        summary: "baseline without a model: unary encoding, epsilon-LDP a step",
        keys: &[], rounds: 0, by_class: false, output: Output::Symbol,
    }
}

/// `crr` with the guarantee that holds whatever the model.
pub(crate) const VARIANTS: &[Mechanism] = &[SequenceKind::Crr.mechanism().variant(
    ("crr_robust", "sequence.crr_robust"),
    "each symbol at once; epsilon-LDP a step whatever the model",
    &[("guarantee", Preset::Text("local"))],
)];
