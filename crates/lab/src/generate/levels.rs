//! [`Levels`]: counts that stand still, jump, or scatter.

use std::ops::Range;

use tidegate_kernel::SeededRandom;
use tidegate_kernel::simulation::standard_normal;

use super::counts::check_size;
use super::flow::{as_shares, deal};
use super::{ALTERNATION, GROWTH, GenerateError, incident};
use crate::draw::unit;
use crate::stream::{CountStream, as_float};

/// Counts of five values with simple shapes, to test how a mechanism follows, and what it gains on a quiet stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Levels {
    /// The same counts at all timestamps: 40, 25, 20, 10 and 5 % of the users.
    Constant,
    /// Those shares and the reverse of them in turn, for 50 timestamps each.
    Alternating,
    /// Those shares, each multiplied by e to the power of `Normal(0, 0.3²)`, anew at each timestamp, and scaled to sum
    /// to one.
    White,
    /// Those shares, and from the middle of the stream on the reverse of them.
    SingleJump,
    /// Those shares. For six timestamps in the middle of the stream, half of all users hold the last value instead.
    Incident,
    /// Those shares of a 25th of the users. In the middle of the stream, ten timestamps bring the others in a line.
    Growth,
    /// Counts of 1 to 4, drawn anew at each timestamp. For six timestamps in the middle of the stream, there are 500
    /// more of the last. The number of users is its own.
    Queue,
}

const SHARES: [f64; 5] = [0.4, 0.25, 0.2, 0.1, 0.05];

/// Standard deviation of the logarithm of a share of [`Levels::White`].
const SCATTER: f64 = 0.3;

/// How many timestamps the growth of [`Levels::Growth`] takes.
const GROWING: usize = 10;

impl Levels {
    /// Additional users of the last value during the incident of [`Levels::Queue`].
    pub const QUEUE_JUMP: u64 = 500;

    /// Returns the name of the data set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Alternating => "alternating",
            Self::White => "white",
            Self::SingleJump => "single_jump",
            Self::Incident => "incident",
            Self::Growth => "growth",
            Self::Queue => "queue",
        }
    }

    /// Returns the timestamps of the incident of [`Levels::Incident`] and [`Levels::Queue`].
    pub fn incident(length: usize) -> Range<usize> {
        incident(length)
    }

    /// Generates a stream. [`Levels::Queue`] ignores the population; [`Levels::Growth`] ends with
    /// it.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::Levels;
    ///
    /// let stream = Levels::Alternating.generate(1_000, 100, &mut SeededRandom::new(1))?;
    /// assert_eq!(stream.counts()[49], [400, 250, 200, 100, 50]);
    /// assert_eq!(stream.counts()[50], [50, 100, 200, 250, 400]);
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn generate(
        self,
        population: u64,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<CountStream, GenerateError> {
        check_size(population, length)?;
        let counts = (0..length).map(|timestamp| self.row(timestamp, population, length, random)).collect();
        let labels = (0..SHARES.len()).map(|value| value.to_string()).collect();
        Ok(CountStream::new(self.name(), labels, counts)?)
    }

    fn row(self, timestamp: usize, population: u64, length: usize, random: &mut SeededRandom) -> Vec<u64> {
        let mut shares = SHARES;
        match self {
            Self::Constant => {}
            Self::Alternating if (timestamp / ALTERNATION) % 2 == 1 => shares.reverse(),
            Self::SingleJump if timestamp >= length / 2 => shares.reverse(),
            Self::Alternating | Self::SingleJump => {}
            Self::White => {
                let scattered = |share: f64| share.ln() + SCATTER * standard_normal(random);
                return deal(population, &as_shares(shares.map(scattered).to_vec()));
            }
            Self::Incident if incident(length).contains(&timestamp) => {
                shares = shares.map(|share| share / 2.0);
                shares[SHARES.len() - 1] += 0.5;
            }
            Self::Incident => {}
            Self::Growth => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the population
                let users = (as_float(population) * grown(timestamp, length)).round() as u64;
                return deal(users.max(1), &shares);
            }
            Self::Queue => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below five
                let mut counts = SHARES.map(|_| 1 + (4.0 * unit(random)) as u64).to_vec();
                if let Some(last) = counts.last_mut().filter(|_| incident(length).contains(&timestamp)) {
                    *last += Self::QUEUE_JUMP;
                }
                return counts;
            }
        }
        deal(population, &shares)
    }
}

/// The share of the users that are there at a timestamp of [`Levels::Growth`].
fn grown(timestamp: usize, length: usize) -> f64 {
    let since = (timestamp + 1).saturating_sub(length / 2).min(GROWING);
    1.0 / GROWTH + (1.0 - 1.0 / GROWTH) * as_float(since as u64) / as_float(GROWING as u64)
}
