//! [`Periods`]: the seasonal periods of a stream.

use serde::{Deserialize, Serialize};

use super::estimator::Estimator;

/// Seasonal periods of a stream, in timestamps. By default 7, 24 and 168: a week of days, a day and a week of hours.
///
/// ```
/// use tidegate::estimate::Periods;
///
/// assert_eq!(Periods::default().as_slice(), [7, 24, 168]);
/// assert_eq!(Periods::try_from(vec![96])?.as_slice(), [96]);
/// assert!(Periods::try_from(vec![1]).is_err());
/// # Ok::<(), tidegate::estimate::PeriodsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Periods {
    /// Unused places are zero, and last.
    places: [u32; Estimator::MOST_PERIODS],
}

/// Reason why a list of periods is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PeriodsError {
    /// More than [`Estimator::MOST_PERIODS`].
    #[error("{given} periods were given; at most {} are possible", Estimator::MOST_PERIODS)]
    Number { given: usize },
    /// A period outside of 2..=[`Estimator::LONGEST_PERIOD`].
    #[error("a period of {given} timestamps was given; it lies between 2 and {}", Estimator::LONGEST_PERIOD)]
    Length { given: u32 },
    /// A period that was given before.
    #[error("the period {given} was given twice; name it once")]
    Twice { given: u32 },
}

impl Periods {
    /// No season.
    pub const NONE: Self = Self { places: [0; Estimator::MOST_PERIODS] };

    /// The default.
    pub const USUAL: Self = {
        let mut places = [0; Estimator::MOST_PERIODS];
        (places[0], places[1], places[2]) = (7, 24, 168);
        Self { places }
    };

    /// The periods, in the order given.
    pub fn as_slice(&self) -> &[u32] {
        let end = self.places.iter().position(|period| *period == 0).unwrap_or(self.places.len());
        &self.places[..end]
    }

    /// Whether they are the default ones.
    pub fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }
}

impl Default for Periods {
    fn default() -> Self {
        Self::USUAL
    }
}

impl TryFrom<Vec<u32>> for Periods {
    type Error = PeriodsError;

    fn try_from(given: Vec<u32>) -> Result<Self, PeriodsError> {
        if given.len() > Estimator::MOST_PERIODS {
            return Err(PeriodsError::Number { given: given.len() });
        }
        let mut periods = Self::NONE;
        for (place, period) in given.iter().enumerate() {
            if !(2..=Estimator::LONGEST_PERIOD).contains(period) {
                return Err(PeriodsError::Length { given: *period });
            }
            if given[..place].contains(period) {
                return Err(PeriodsError::Twice { given: *period });
            }
            periods.places[place] = *period;
        }
        Ok(periods)
    }
}

impl From<Periods> for Vec<u32> {
    fn from(periods: Periods) -> Self {
        periods.as_slice().to_vec()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_a_list() {
        let periods: Periods = serde_json::from_str("[24, 7]").unwrap();
        assert_eq!(periods.as_slice(), [24, 7]);
        assert_eq!(serde_json::to_string(&periods).unwrap(), "[24,7]");
        assert_eq!(serde_json::from_str::<Periods>("[]").unwrap(), Periods::NONE);
    }

    #[test]
    fn refuses_periods_that_no_season_can_have() {
        let refused = |given: &[u32]| Periods::try_from(given.to_vec()).unwrap_err();
        assert_eq!(refused(&[7, 1]), PeriodsError::Length { given: 1 });
        assert_eq!(refused(&[0]), PeriodsError::Length { given: 0 });
        assert_eq!(refused(&[1_025]), PeriodsError::Length { given: 1_025 });
        assert_eq!(refused(&[7, 24, 7]), PeriodsError::Twice { given: 7 });
        assert_eq!(refused(&[2, 3, 4, 5, 6, 7, 8, 9, 10]), PeriodsError::Number { given: 9 });
        assert!(Periods::try_from(vec![2, 3, 4, 5, 6, 7, 8, 1_024]).is_ok());
    }
}
