//! What a collector may ask of devices, and of which of them.

use serde::{Deserialize, Serialize};

use crate::epsilon::Epsilon;
use crate::oracle::{Oracle, OracleError, OracleKind};

/// The population is divided into so many slots; a device's slot is a keyed hash of its identity.
pub const SLOTS: u32 = 1 << 16;

/// A part of the population.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cohort {
    /// All devices.
    Everyone,
    /// The devices in so many slots from the first on; after the last slot comes slot 0.
    Slots {
        /// The first slot.
        first: u16,
        /// How many slots, at most [`SLOTS`].
        count: u32,
    },
}

impl Cohort {
    /// Whether the devices of a slot belong to it.
    pub fn contains(&self, slot: u16) -> bool {
        match *self {
            Self::Everyone => true,
            Self::Slots { first, count } => u32::from(slot.wrapping_sub(first)) < count,
        }
    }

    /// How many slots it has.
    pub const fn slots(&self) -> u32 {
        match *self {
            Self::Everyone => SLOTS,
            Self::Slots { count, .. } => count,
        }
    }

    /// The expected share of the population in it.
    pub fn share(&self) -> f64 {
        f64::from(self.slots()) / f64::from(SLOTS)
    }

    /// Its slots divided evenly into disjoint cohorts. Where a cohort has fewer slots than there are parts, some parts are
    /// empty. The parts of everyone begin at slot `first`, so that different users can be put together each time.
    pub fn split(&self, parts: u32, first: u16) -> Vec<Self> {
        let (start, slots) = match *self {
            Self::Everyone => (first, SLOTS),
            Self::Slots { first, count } => (first, count),
        };
        // The n-th border, rounded: a product of two numbers below 2^32.
        let border = |part: u32| u64::from(part) * u64::from(slots) / u64::from(parts.max(1));
        #[allow(clippy::cast_possible_truncation)] // borders are at most SLOTS, and slots are counted modulo 2^16
        let part = |index: u32| Self::Slots {
            first: start.wrapping_add(border(index) as u16),
            count: (border(index + 1) - border(index)) as u32,
        };
        (0..parts).map(part).collect()
    }
}

/// Which view of the domain a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The values themselves.
    Values,
    /// Ranges of consecutive values, given by where each begins: the first at 0, each later one after the one before.
    Ranges(Vec<u32>),
}

/// A question to the devices of a cohort: which of these values, or ranges of values, is yours?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The timestamp that it is about.
    pub timestamp: u64,
    /// Its number among the questions about that timestamp, from zero. A device answers each phase at most once.
    pub phase: u16,
    /// Who is asked.
    pub cohort: Cohort,
    /// What an answer spends.
    pub epsilon: Epsilon,
    /// How an answer is randomised.
    pub oracle: OracleKind,
    /// The number of values of the domain.
    pub domain: u32,
    /// What is asked about the value.
    pub view: View,
}

/// Why a question makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The oracle cannot be set up for the view and epsilon.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// More slots than there are.
    #[error("a cohort of {given} slots is larger than the population's {SLOTS}")]
    Cohort {
        /// How many slots were given.
        given: u32,
    },
    /// Ranges that do not begin at 0, are out of order, or lie outside the domain.
    #[error("ranges must begin at 0 and ascend within the domain 0..{domain}")]
    Ranges {
        /// The size of the domain.
        domain: u32,
    },
}

impl Question {
    /// The oracle that answers it, for as many values as the view has cells.
    pub fn oracle(&self) -> Result<Oracle, QuestionError> {
        if self.cohort.slots() > SLOTS {
            return Err(QuestionError::Cohort { given: self.cohort.slots() });
        }
        if let View::Ranges(starts) = &self.view {
            let ascending = starts.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = starts.first() == Some(&0) && starts.last().is_some_and(|last| *last < self.domain);
            if !ascending || !inside {
                return Err(QuestionError::Ranges { domain: self.domain });
            }
        }
        Ok(Oracle::new(self.oracle, self.cells(), self.epsilon)?)
    }

    /// How many answers there are to choose from.
    pub fn cells(&self) -> u32 {
        match &self.view {
            View::Values => self.domain,
            View::Ranges(starts) => u32::try_from(starts.len()).unwrap_or(u32::MAX),
        }
    }

    /// Which answer is true of a value of the domain.
    pub fn cell_of(&self, value: u32) -> u32 {
        match &self.view {
            View::Values => value,
            #[allow(clippy::cast_possible_truncation)] // at most the number of ranges, a u32
            View::Ranges(starts) => (starts.partition_point(|start| *start <= value).max(1) - 1) as u32,
        }
    }
}
