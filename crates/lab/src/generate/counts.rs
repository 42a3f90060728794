//! [`Process`]: binary streams, as LDP-IDS and the personalised w-event paper use them.
//!
//! At each timestamp `t = 1, 2, ..` a share `p_t` of the users holds the value one. In LDP-IDS that is a portion of
//! them: exactly `p_t · N`, rounded to a whole user ([`Process::generate`]). In the personalised w-event paper each
//! user tosses a coin that comes up with probability `p_t` ([`Process::toss`]).

use tidegate_kernel::SeededRandom;
use tidegate_kernel::simulation::{binomial, standard_normal};

use super::{GenerateError, MAX_LENGTH, reflect};
use crate::stream::{CountStream, MAX_POPULATION, as_float};

/// The process of the share of ones.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Process {
    /// A random walk: `p_t = p_{t-1} + Normal(0, deviation²)` from `p_0 = start`.
    ///
    /// Where a step would leave 0..=1 it is reflected at the border, for LDP-IDS does not say what happens; a walk that
    /// ends at the border ([`Process::Tlns`]) sticks to it, and is then easier to track than one that moves.
    Lns {
        /// Where the walk starts, between zero and one.
        start: f64,
        /// The standard deviation of a step, finite and not negative.
        deviation: f64,
    },
    /// The same, but where a step would leave 0..=1 it ends at the border: truncated, as in the personalised w-event
    /// paper.
    Tlns {
        /// Where the walk starts, between zero and one.
        start: f64,
        /// The standard deviation of a step, finite and not negative.
        deviation: f64,
    },
    /// A sine curve: `p_t = amplitude · sin(rate · t) + level`.
    Sin {
        /// Amplitude of the share.
        amplitude: f64,
        /// Angle of a timestamp, in radians.
        rate: f64,
        /// Mean of the share.
        level: f64,
    },
    /// A logistic curve: `p_t = ceiling / (1 + e^(-rate · t))`.
    Log {
        /// Limit of the share.
        ceiling: f64,
        /// Growth rate.
        rate: f64,
    },
}

impl Process {
    /// LNS with the papers' settings.
    pub const LNS: Self = Self::Lns { start: 0.05, deviation: 0.0025 };
    /// TLNS with the paper's settings, which are those of LNS.
    pub const TLNS: Self = Self::Tlns { start: 0.05, deviation: 0.0025 };
    /// Sin with the papers' settings.
    pub const SIN: Self = Self::Sin { amplitude: 0.05, rate: 0.01, level: 0.075 };
    /// Log with the papers' settings.
    pub const LOG: Self = Self::Log { ceiling: 0.25, rate: 0.01 };

    /// The name of the data set.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Lns { .. } => "lns",
            Self::Tlns { .. } => "tlns",
            Self::Sin { .. } => "sin",
            Self::Log { .. } => "log",
        }
    }

    /// The name of the data set in which users toss coins.
    pub const fn coins_name(&self) -> &'static str {
        match self {
            Self::Lns { .. } => "lns_coins",
            // Which there is in no other form.
            Self::Tlns { .. } => "tlns",
            Self::Sin { .. } => "sin_coins",
            Self::Log { .. } => "log_coins",
        }
    }

    /// The shares `p_1, p_2, ..` of a stream; only the walks draw on the randomness.
    pub fn shares(&self, length: usize, random: &mut SeededRandom) -> Result<Vec<f64>, GenerateError> {
        let mut position = match *self {
            Self::Lns { start, deviation } | Self::Tlns { start, deviation }
                if !(0.0..=1.0).contains(&start) || !deviation.is_finite() || deviation < 0.0 =>
            {
                return Err(GenerateError::Walk { start, deviation });
            }
            Self::Lns { start, .. } | Self::Tlns { start, .. } => start,
            _ => 0.0,
        };
        let mut shares = Vec::with_capacity(length.min(1 << 20));
        for timestamp in 1..=length {
            let share = match *self {
                Self::Lns { deviation, .. } => {
                    position = reflect(position + deviation * standard_normal(random));
                    position
                }
                Self::Tlns { deviation, .. } => {
                    position = (position + deviation * standard_normal(random)).clamp(0.0, 1.0);
                    position
                }
                Self::Sin { amplitude, rate, level } => amplitude * (rate * as_float(timestamp as u64)).sin() + level,
                Self::Log { ceiling, rate } => ceiling / (1.0 + (-rate * as_float(timestamp as u64)).exp()),
            };
            if !(0.0..=1.0).contains(&share) {
                return Err(GenerateError::Share { name: self.name(), timestamp, share });
            }
            shares.push(share);
        }
        Ok(shares)
    }

    /// A stream over the values 0 and 1 with the same number of users at every timestamp.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::Process;
    ///
    /// let stream = Process::LOG.generate(1_000, 800, &mut SeededRandom::new(1))?;
    /// assert_eq!((stream.length(), stream.population(0)), (800, 1_000));
    /// assert_eq!((&stream.counts()[0], &stream.counts()[799]), (&vec![874, 126], &vec![750, 250]));
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn generate(
        &self,
        population: u64,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<CountStream, GenerateError> {
        check_size(population, length)?;
        let row = |share: f64| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of at most 2⁵³
            let ones = (share * as_float(population)).round() as u64;
            vec![population - ones, ones]
        };
        let counts = self.shares(length, random)?.into_iter().map(row).collect();
        Ok(CountStream::new(self.name(), vec!["0".to_owned(), "1".to_owned()], counts)?)
    }

    /// The same with coins: at each timestamp, each user holds one with the probability `p_t`, whatever the others do.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::Process;
    ///
    /// let stream = Process::LOG.toss(1_000, 800, &mut SeededRandom::new(1))?;
    /// let ones = stream.counts()[799][1]; // 250 are expected, with a standard deviation of 14
    /// assert!((180..320).contains(&ones));
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn toss(
        &self,
        population: u64,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<CountStream, GenerateError> {
        check_size(population, length)?;
        let mut counts = Vec::with_capacity(length);
        for (timestamp, share) in (1..).zip(self.shares(length, random)?) {
            let impossible = |_| GenerateError::Share { name: self.coins_name(), timestamp, share };
            let ones = binomial(population, share, random).map_err(impossible)?;
            counts.push(vec![population - ones, ones]);
        }
        Ok(CountStream::new(self.coins_name(), vec!["0".to_owned(), "1".to_owned()], counts)?)
    }
}

/// Checks the number of users and of timestamps.
pub(super) fn check_size(population: u64, length: usize) -> Result<(), GenerateError> {
    if !(1..=MAX_POPULATION).contains(&population) {
        return Err(GenerateError::Population { given: population });
    }
    if !(1..=MAX_LENGTH).contains(&length) {
        return Err(GenerateError::Length { given: length });
    }
    Ok(())
}
