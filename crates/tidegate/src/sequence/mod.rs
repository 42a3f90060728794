//! Sequences: one user's correlated stream, released symbol by symbol or in batches under sequence information privacy
//! (SIP).
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`baseline`] | `rr` and `oue`, which know nothing of the model |
//! | [`batched`] | the mechanism that releases several symbols at once |
//! | [`belief`] | what follows about a symbol from what was released before it |
//! | [`bins`] | channels for symbols on a line, fast |
//! | [`channel`] | how a symbol is answered, in factored form |
//! | [`clusters`] | channels for any distance |
//! | [`crr`] | the mechanism that releases each symbol at once: conditional randomised response |
//! | [`distance`] | how far an answer is from a symbol |
//! | [`effort`] | the channel for a belief and a distance, fast or near to the optimum |
//! | [`grid`] | channels for cells of a grid |
//! | [`hamming`] | the optimal channel for the Hamming distance |
//! | [`leakage`] | what was given away: an account, and an exact calculator |
//! | [`model`] | what is known of a stream beforehand |
//! | `programme` | channels by linear programming, nearer to the optimum (feature `programme`) |

pub mod baseline;
pub mod batched;
pub mod belief;
pub mod bins;
pub mod channel;
pub mod clusters;
mod course;
pub mod crr;
pub mod distance;
pub mod effort;
pub mod grid;
pub mod hamming;
pub mod leakage;
pub mod model;
#[cfg(feature = "programme")]
pub mod programme;
