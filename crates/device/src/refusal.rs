//! [`RefusalReason`]: why a question gets no answer.

use serde::{Deserialize, Serialize};

/// Why a question gets no answer, as a code for the collector. No reason depends on the device's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// The question is about another stream than the enrolled one.
    OtherStream,
    /// The device is not in the cohort.
    NotAsked,
    /// The question is not about the present timestamp.
    NotNow,
    /// The question is about another domain.
    OtherDomain,
    /// The question uses another oracle than the policy's, or is of another form.
    OtherOracle,
    /// The phase, or a later one, was answered.
    Answered,
    /// The question is invalid.
    Malformed,
    /// The window has too little budget left.
    Budget,
    /// No channel was found for the next release of a sequence.
    NoChannel,
    /// The stream counts reports with tokens only, and the device has not drawn one for this timestamp.
    NoToken,
    /// The device was away, and there is no [signed time](crate::absence) that says for how long. Nothing was spent.
    NoTime,
    /// The owner's consent about [absences](crate::absence) has ended.
    ConsentOver,
}

impl RefusalReason {
    /// The code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::OtherStream => "other_stream",
            Self::NotAsked => "not_asked",
            Self::NotNow => "not_now",
            Self::OtherDomain => "other_domain",
            Self::OtherOracle => "other_oracle",
            Self::Answered => "answered",
            Self::Malformed => "malformed",
            Self::Budget => "budget",
            Self::NoChannel => "no_channel",
            Self::NoToken => "no_token",
            Self::NoTime => "no_time",
            Self::ConsentOver => "consent_over",
        }
    }
}
