//! One user's correlated stream, released symbol by symbol or in batches under sequence information privacy (SIP).
//!
//! | module | content |
//! | --- | --- |
//! | [`baseline`] | `rr` and `oue`, which ignore the model |
//! | [`batched`] | the mechanism that releases several symbols at once |
//! | [`belief`] | the distribution of a symbol given earlier releases |
//! | [`bins`] | channels for symbols on a line, fast |
//! | [`channel`] | answers to a symbol, in factored form |
//! | [`clusters`] | channels for any distance |
//! | [`crr`] | the mechanism that releases each symbol at once: conditional randomised response |
//! | [`distance`] | distances between symbols and answers |
//! | [`effort`] | the channel for a belief and a distance, fast or nearly optimal |
//! | [`grid`] | channels for cells of a grid |
//! | [`hamming`] | the optimal channel for the Hamming distance |
//! | [`leakage`] | leakage so far: an account, and an exact calculator |
//! | [`model`] | the prior and transitions of a stream |
//! | `programme` | channels by linear programming, nearer to the optimum (feature `programme`) |

pub mod baseline;
pub mod batched;
pub mod belief;
pub mod bins;
pub mod channel;
pub mod clusters;
pub mod crr;
pub mod distance;
pub mod effort;
pub mod grid;
pub mod hamming;
pub mod leakage;
pub mod model;
#[cfg(feature = "programme")]
pub mod programme;
mod state;
