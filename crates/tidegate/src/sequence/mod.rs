//! Sequences: one user's correlated stream, released symbol by symbol under sequence information privacy (SIP).
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`channel`] | how a symbol is answered, in factored form |

pub mod channel;
