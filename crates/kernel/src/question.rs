//! Questions that a collector asks a cohort of devices.

use serde::{Deserialize, Serialize};

use crate::epsilon::Epsilon;
use crate::oracle::{Oracle, OracleError, OracleKind};

/// Number of slots that divide the population. A device's slot is a keyed hash of its identity.
pub const SLOTS: u32 = 1 << 16;

/// A part of the population.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cohort {
    /// All devices.
    Everyone,
    /// The devices in `count` slots from `first` on, wrapping around after the last slot.
    Slots {
        /// The first slot.
        first: u16,
        /// How many slots, at most [`SLOTS`].
        count: u32,
    },
}

impl Cohort {
    /// Whether the cohort contains a slot.
    pub fn contains(&self, slot: u16) -> bool {
        match *self {
            Self::Everyone => true,
            Self::Slots { first, count } => u32::from(slot.wrapping_sub(first)) < count,
        }
    }

    /// The number of slots.
    pub const fn slots(&self) -> u32 {
        match *self {
            Self::Everyone => SLOTS,
            Self::Slots { count, .. } => count,
        }
    }

    /// The expected share of the population.
    pub fn share(&self) -> f64 {
        f64::from(self.slots()) / f64::from(SLOTS)
    }

    /// Divides the slots evenly into disjoint cohorts; some are empty if there are fewer slots than parts. The parts of
    /// `Everyone` begin at slot `first`, so that each division can group users differently.
    pub fn split(&self, parts: u32, first: u16) -> Vec<Self> {
        let (start, slots) = match *self {
            Self::Everyone => (first, SLOTS),
            Self::Slots { first, count } => (first, count),
        };
        // The rounded n-th border; both factors are below 2^32.
        let border = |part: u32| u64::from(part) * u64::from(slots) / u64::from(parts.max(1));
        #[allow(clippy::cast_possible_truncation)] // borders are at most SLOTS, and slots are counted modulo 2^16
        let part = |index: u32| Self::Slots {
            first: start.wrapping_add(border(index) as u16),
            count: (border(index + 1) - border(index)) as u32,
        };
        (0..parts).map(part).collect()
    }
}

/// How a question divides the domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Single values.
    Values,
    /// Ranges of consecutive values, given by their starts: ascending, the first at 0.
    Ranges(Vec<u32>),
    /// The symbols of so many timestamps, the last of which is the question's, as one number: `x_1 .. x_w` over `d`
    /// symbols is `x_1 d^(w-1) + .. + x_w`. A device answers through the channel that its policy and its earlier
    /// answers determine, never through the oracle, which only says how answers are written and counted.
    Sequence {
        /// How many symbols, at least one.
        length: u32,
    },
    /// The mean of numbers. The domain is a grid: value 0 is its lowest point, and points are equally far apart.
    Mean,
}

/// A question to the devices of a cohort: which of these values or ranges do you hold?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The timestamp in question.
    pub timestamp: u64,
    /// Number of the question within its timestamp, from zero. A device answers each phase at most once.
    pub phase: u16,
    /// The devices asked.
    pub cohort: Cohort,
    /// The loss of an answer.
    pub epsilon: Epsilon,
    /// The oracle that randomises an answer.
    pub oracle: OracleKind,
    /// The number of values of the domain.
    pub domain: u32,
    /// The division of the domain.
    pub view: View,
}

/// Why a question is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum QuestionError {
    /// No oracle exists for the view and the epsilon.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// More slots than the population has.
    #[error("a cohort of {given} slots is larger than the population's {SLOTS}")]
    Cohort { given: u32 },
    /// Ranges that do not begin at 0, are out of order, or lie outside the domain.
    #[error("ranges must begin at 0 and ascend within the domain 0..{domain}")]
    Ranges { domain: u32 },
    /// An oracle of frequencies for a mean, or that of means for frequencies.
    #[error("{oracle} does not answer this view: means take piecewise, and other views one of the others")]
    Form { oracle: OracleKind },
    /// No symbols, or more sequences than a domain can have.
    #[error("{length} symbols from a domain of {domain} do not have 1..={} sequences", crate::MAX_DOMAIN)]
    Length { length: u32, domain: u32 },
}

impl Question {
    /// The oracle that answers the question, with one value for each cell of the view, or for each point of the grid.
    pub fn oracle(&self) -> Result<Oracle, QuestionError> {
        if self.cohort.slots() > SLOTS {
            return Err(QuestionError::Cohort { given: self.cohort.slots() });
        }
        if (self.view == View::Mean) != (self.oracle == OracleKind::Piecewise) {
            return Err(QuestionError::Form { oracle: self.oracle });
        }
        if let View::Ranges(starts) = &self.view {
            let ascending = starts.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = starts.first() == Some(&0) && starts.last().is_some_and(|last| *last < self.domain);
            if !ascending || !inside {
                return Err(QuestionError::Ranges { domain: self.domain });
            }
        }
        if let View::Sequence { length } = self.view {
            let sequences = self.domain.checked_pow(length).filter(|sequences| *sequences <= crate::MAX_DOMAIN);
            if length == 0 || sequences.is_none() {
                return Err(QuestionError::Length { length, domain: self.domain });
            }
        }
        Ok(Oracle::new(self.oracle, self.cells(), self.epsilon)?)
    }

    /// The number of possible answers.
    pub fn cells(&self) -> u32 {
        match &self.view {
            View::Values | View::Mean => self.domain,
            View::Ranges(starts) => u32::try_from(starts.len()).unwrap_or(u32::MAX),
            View::Sequence { length } => self.domain.saturating_pow(*length),
        }
    }

    /// The number of estimates that the answers lead to: a frequency for each cell, or one mean.
    pub fn estimates(&self) -> u32 {
        if self.view == View::Mean { 1 } else { self.cells() }
    }

    /// The true answer for a value of the domain, or for the number of a sequence.
    pub fn cell_of(&self, value: u32) -> u32 {
        match &self.view {
            View::Values | View::Sequence { .. } | View::Mean => value,
            #[allow(clippy::cast_possible_truncation)] // at most the number of ranges, a u32
            View::Ranges(starts) => (starts.partition_point(|start| *start <= value).max(1) - 1) as u32,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn slots(first: u16, count: u32) -> Cohort {
        Cohort::Slots { first, count }
    }

    #[test]
    fn cohorts_contain_their_slots_and_no_others() {
        for (first, count) in [(0, 0), (0, 1), (7, 3), (65_530, 10), (5, SLOTS - 1), (9, SLOTS)] {
            let cohort = slots(first, count);
            let inside = |slot: u16| (0..count).any(|step| (u32::from(first) + step) % SLOTS == u32::from(slot));
            for slot in [0, 1, 3, 4, 5, 6, 7, 9, 10, 32_768, 65_529, 65_530, 65_535] {
                assert_eq!(cohort.contains(slot), inside(slot), "{first} {count} {slot}");
            }
            assert_eq!(cohort.slots(), count);
        }
        assert!(Cohort::Everyone.contains(0) && Cohort::Everyone.contains(u16::MAX));
        assert_eq!(Cohort::Everyone.slots(), SLOTS);
        let shares = [Cohort::Everyone, slots(3, SLOTS / 4), slots(3, 0)].map(|cohort| cohort.share());
        assert_eq!(shares.map(f64::to_bits), [1.0_f64, 0.25, 0.0].map(f64::to_bits));
    }

    #[test]
    fn parts_follow_each_other_and_differ_by_a_slot() {
        assert_eq!(slots(10, 7).split(3, 99), [slots(10, 2), slots(12, 2), slots(14, 3)]);
        assert_eq!(slots(65_535, 2).split(2, 99), [slots(65_535, 1), slots(0, 1)]);
        assert_eq!(slots(4, 1).split(2, 99), [slots(4, 0), slots(4, 1)]);
        assert_eq!(Cohort::Everyone.split(2, 40_000), [slots(40_000, 32_768), slots(7_232, 32_768)]);
        assert_eq!(Cohort::Everyone.split(1, 3), [slots(3, SLOTS)]);
        assert_eq!(Cohort::Everyone.split(0, 3), []);
    }

    fn question(cohort: Cohort, view: View) -> Question {
        let epsilon = "1".parse().unwrap();
        Question { timestamp: 0, phase: 0, cohort, epsilon, oracle: OracleKind::Grr, domain: 10, view }
    }

    #[test]
    fn oracles_are_for_the_cells_of_the_view() {
        let oracle = |cohort, view| question(cohort, view).oracle().map(|oracle| oracle.domain());
        assert_eq!(oracle(Cohort::Everyone, View::Values), Ok(10));
        assert_eq!(oracle(slots(0, SLOTS), View::Ranges(vec![0, 4, 9])), Ok(3));
        let given = SLOTS + 1;
        assert_eq!(oracle(slots(0, given), View::Values), Err(QuestionError::Cohort { given }));
        for starts in [vec![], vec![1, 4], vec![0, 4, 4], vec![0, 5, 4], vec![0, 10], vec![0, 11]] {
            assert_eq!(oracle(Cohort::Everyone, View::Ranges(starts)), Err(QuestionError::Ranges { domain: 10 }));
        }
    }

    #[test]
    fn sequences_have_at_least_a_symbol_and_at_most_a_domain() {
        let oracle =
            |length| question(Cohort::Everyone, View::Sequence { length }).oracle().map(|oracle| oracle.domain());
        assert_eq!((oracle(1), oracle(7)), (Ok(10), Ok(10_000_000)));
        for length in [0, 8, 100, u32::MAX] {
            assert_eq!(oracle(length), Err(QuestionError::Length { length, domain: 10 }));
        }
    }

    #[test]
    fn means_take_the_oracle_of_means_and_nothing_else_does() {
        let mean = Question { oracle: OracleKind::Piecewise, ..question(Cohort::Everyone, View::Mean) };
        assert_eq!(mean.oracle().map(|oracle| oracle.domain()), Ok(10));
        assert_eq!((mean.cells(), mean.estimates(), mean.cell_of(7)), (10, 1, 7));
        let values = question(Cohort::Everyone, View::Values);
        assert_eq!(values.estimates(), 10);
        let wrong = Question { oracle: OracleKind::Grr, ..mean };
        assert_eq!(wrong.oracle().err(), Some(QuestionError::Form { oracle: OracleKind::Grr }));
        let wrong = Question { oracle: OracleKind::Piecewise, ..values };
        assert_eq!(wrong.oracle().err(), Some(QuestionError::Form { oracle: OracleKind::Piecewise }));
    }

    #[test]
    fn values_lie_in_the_range_that_contains_them() {
        let ranges = question(Cohort::Everyone, View::Ranges(vec![0, 4, 9]));
        assert_eq!([0, 3, 4, 8, 9].map(|value| ranges.cell_of(value)), [0, 0, 1, 1, 2]);
        let sequences = question(Cohort::Everyone, View::Sequence { length: 3 });
        assert_eq!((sequences.cells(), sequences.cell_of(470)), (1_000, 470));
        let values = question(Cohort::Everyone, View::Values);
        assert_eq!((values.cells(), values.cell_of(7)), (10, 7));
    }
}
