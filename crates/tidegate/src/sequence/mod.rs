//! Sequences: one user's correlated stream, released symbol by symbol under sequence information privacy (SIP).
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`bins`] | channels for symbols on a line, fast |
//! | [`clusters`] | channels for any distance |
//! | [`distance`] | how far an answer is from a symbol |
//! | `programme` | channels by linear programming, nearer to the optimum (feature `programme`) |
//! | [`channel`] | how a symbol is answered, in factored form |

pub mod bins;
pub mod channel;
pub mod clusters;
pub mod distance;
#[cfg(feature = "programme")]
pub mod programme;
