//! [`Flow`]: counts over several values, with seasons, a trend and bursts.

use std::f64::consts::TAU;

use tidegate_kernel::SeededRandom;
use tidegate_kernel::simulation::standard_normal;

use super::counts::check_size;
use super::{GenerateError, MAX_LENGTH};
use crate::draw::unit;
use crate::stream::{CountStream, as_float};

/// Users who move between `d` places, with the hours, the days and the years.
///
/// At the timestamp `t = 1, 2, ..` the share of users at place `k = 0, 1, .., d - 1` is proportional to e to the power
/// of
///
/// ```text
///   - spread · k/(d-1)                        places differ in size: the first is the largest
///   + amplitude · sin(2π (t/period - k/d))    each has its high tide at another time of the day
///   ± weekend                                 on the 6th and 7th day of seven: more at odd places, fewer at even ones
///   + trend · (k/(d-1) - 1/2) · t             users move from the first places to the last
///   + what is left of the bursts at k         see below
///   + Normal(0, deviation²)                   anew at each timestamp
/// ```
///
/// where a day is `period` timestamps. At each timestamp a burst begins with the probability `rate`, at a place that is
/// any; it is as high as a number that is uniform in `0..height`, and loses the share `decay` at every timestamp. With
/// [`Away`] there is one more value, the first, for those who are at none of the places.
///
/// So many users as their share says are at each place, give or take one. Each timestamp's counts are a function of the
/// seed alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The name of the data set.
    pub name: &'static str,
    /// The places.
    pub places: Places,
    /// Users at none of them.
    pub away: Option<Away>,
    /// Difference of the places in size.
    pub spread: f64,
    /// The length of a day, in timestamps.
    pub period: f64,
    /// Amplitude of the daily tide.
    pub amplitude: f64,
    /// Difference of weekends.
    pub weekend: f64,
    /// Gain of the last place on the first in a timestamp.
    pub trend: f64,
    /// Probability that a burst starts.
    pub rate: f64,
    /// Greatest height of a burst.
    pub height: f64,
    /// Share that a burst loses in a timestamp.
    pub decay: f64,
    /// The standard deviation of the noise.
    pub deviation: f64,
}

/// The values of a [`Flow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// This many values, named by their numbers from zero.
    Numbered(usize),
    /// Values with names.
    Named(&'static [&'static str]),
}

/// The users of a [`Flow`] who are at none of its places: their share is proportional to e to the power of
/// `level + swing · cos(2π t/period)`, so that there are most of them at midnight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Away {
    /// Their number, on the same scale as that of the places.
    pub level: f64,
    /// Difference between midnight and noon.
    pub swing: f64,
}

const DISTRICTS: &[&str] = &[
    "old town",
    "harbour",
    "station",
    "market",
    "university",
    "stadium",
    "hospital",
    "castle hill",
    "riverside",
    "mills",
    "gardens",
    "airport",
];

impl Flow {
    /// A city: hours, in which its users are in one of twelve districts or away.
    pub const TRAFFIC: Self = Self {
        name: "traffic",
        places: Places::Named(DISTRICTS),
        away: Some(Away { level: 2.4, swing: 1.2 }),
        spread: 1.5,
        period: 24.0,
        amplitude: 0.8,
        weekend: 0.4,
        trend: 0.001,
        rate: 0.02,
        height: 2.0,
        decay: 0.3,
        deviation: 0.03,
    };
    /// Weeks of a year, and users who move on from the first values to the last.
    pub const SEASONAL: Self = Self {
        name: "seasonal_counts",
        places: Places::Numbered(10),
        away: None,
        spread: 1.0,
        period: 52.0,
        amplitude: 0.5,
        weekend: 0.0,
        trend: 0.002,
        rate: 0.0,
        height: 0.0,
        decay: 0.0,
        deviation: 0.05,
    };
    /// Users who stay where they are, but for a burst every fifty timestamps, of which half is gone after three.
    pub const BURSTS: Self = Self {
        name: "bursts_counts",
        amplitude: 0.0,
        trend: 0.0,
        rate: 0.02,
        height: 3.0,
        decay: 0.2,
        ..Self::SEASONAL
    };

    /// The values of the domain.
    pub fn labels(&self) -> Vec<String> {
        let away = self.away.map(|_| "away".to_owned());
        let places: Vec<String> = match self.places {
            Places::Numbered(places) => (0..places).map(|place| place.to_string()).collect(),
            Places::Named(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        };
        away.into_iter().chain(places).collect()
    }

    /// The shares of all values at the timestamps 1, 2, ..: they sum to one.
    pub fn shares(&self, length: usize, random: &mut SeededRandom) -> Result<Vec<Vec<f64>>, GenerateError> {
        let places = match self.places {
            Places::Numbered(places) => places,
            Places::Named(names) => names.len(),
        };
        self.check(places, length)?;
        let count = as_float(places as u64);
        let along = |place: usize| as_float(place as u64) / (count - 1.0);
        let mut bursts = vec![0.0; places];
        let mut rows = Vec::with_capacity(length);
        for timestamp in 1..=length {
            let time = as_float(timestamp as u64);
            bursts.iter_mut().for_each(|burst| *burst *= 1.0 - self.decay);
            if unit(random) < self.rate {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below the number of places
                let place = (unit(random) * count) as usize;
                bursts[place] += self.height * unit(random);
            }
            let is_weekend = (time / self.period).rem_euclid(7.0) >= 5.0;
            let at_place = |place: usize, burst: f64, noise: f64| {
                let season = (TAU * (time / self.period - as_float(place as u64) / count)).sin();
                let weekend = match (is_weekend, place % 2) {
                    (false, _) => 0.0,
                    (true, 0) => -self.weekend,
                    (true, _) => self.weekend,
                };
                let trend = self.trend * (along(place) - 0.5) * time;
                self.amplitude * season - self.spread * along(place) + weekend + trend + burst + noise
            };
            let away = self.away.map(|Away { level, swing }| level + swing * (TAU * time / self.period).cos());
            let places = bursts
                .iter()
                .enumerate()
                .map(|(place, burst)| at_place(place, *burst, self.deviation * standard_normal(random)));
            rows.push(as_shares(away.into_iter().chain(places).collect()));
        }
        Ok(rows)
    }

    /// A stream with the same number of users at every timestamp.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::Flow;
    ///
    /// let stream = Flow::TRAFFIC.generate(200_000, 7 * 24, &mut SeededRandom::new(1))?;
    /// assert_eq!((stream.domain(), stream.labels()[0].as_str()), (13, "away"));
    /// let away = |hour: usize| stream.counts()[hour - 1][0];
    /// assert!(away(24) > 2 * away(12)); // at midnight, and at noon
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn generate(
        &self,
        population: u64,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<CountStream, GenerateError> {
        check_size(population, length)?;
        let counts = self.shares(length, random)?.iter().map(|shares| deal(population, shares)).collect();
        Ok(CountStream::new(self.name, self.labels(), counts)?)
    }

    fn check(&self, places: usize, length: usize) -> Result<(), GenerateError> {
        if !(1..=MAX_LENGTH).contains(&length.saturating_mul(places)) {
            return Err(GenerateError::Length { given: length.saturating_mul(places) });
        }
        let Self { spread, period, amplitude, weekend, trend, rate, height, decay, deviation, .. } = *self;
        let Away { level, swing } = self.away.unwrap_or(Away { level: 0.0, swing: 0.0 });
        let numbers = [spread, period, amplitude, weekend, trend, rate, height, decay, deviation, level, swing];
        let share = |number: f64| (0.0..=1.0).contains(&number);
        let in_order = places >= 2 && period > 0.0 && deviation >= 0.0 && share(rate) && share(decay);
        if in_order && numbers.iter().all(|number| number.is_finite()) {
            return Ok(());
        }
        Err(GenerateError::Flow { name: self.name })
    }
}

/// Returns the softmax of numbers.
pub(super) fn as_shares(mut numbers: Vec<f64>) -> Vec<f64> {
    // Measured from the largest, so that no power is infinite.
    let largest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    numbers.iter_mut().for_each(|number| *number = (*number - largest).exp());
    let total: f64 = numbers.iter().sum();
    numbers.iter_mut().for_each(|number| *number /= total);
    numbers
}

/// Distributes whole users by shares, which sum to one; each count is within one of its share.
pub(super) fn deal(population: u64, shares: &[f64]) -> Vec<u64> {
    let (mut share_before, mut dealt) = (0.0, 0);
    let mut counts: Vec<u64> = Vec::with_capacity(shares.len());
    for share in shares {
        share_before += share;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of at most 2⁵³
        let until = ((share_before * as_float(population)).round() as u64).clamp(dealt, population);
        counts.push(until - dealt);
        dealt = until;
    }
    // Rounding may leave the sum of all shares just below one.
    if let Some(last) = counts.last_mut() {
        *last += population - dealt;
    }
    counts
}
