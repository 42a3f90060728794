//! [`Distance`]: how far an answer is from the symbol that it was given for.

use serde::{Deserialize, Serialize};

/// How far an answer is from a symbol. Mechanisms choose the channel whose expected distance is least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Distance {
    /// One for a wrong answer: its expectation is the probability of error.
    Hamming,
}

impl Distance {
    /// The distance of an answer from a symbol.
    pub fn between(&self, symbol: u32, answer: u32) -> f64 {
        match self {
            Self::Hamming => f64::from(u8::from(symbol != answer)),
        }
    }
}
