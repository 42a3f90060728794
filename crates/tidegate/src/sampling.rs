//! Drift between the samples of mechanisms that repeat a release until the next one: `lsp` and `sample`.

use serde::{Deserialize, Serialize};

/// Factor by which the weight of a change falls with each later one. Chosen on generated streams.
const FADING: f64 = 0.8;

/// Fewest effective changes from which a drift is estimated. Student's distribution has a variance from here on.
const FEWEST: f64 = 2.5;

/// When a mechanism sampled its stream last, and how far the stream moves from one sample to the next.
///
/// The first two forms have the encoding of an `Option<u64>` in postcard, which saved states of earlier versions hold.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) enum Samples {
    /// There is none yet.
    #[default]
    None,
    /// The timestamp of the last one; changes are not known.
    Last(u64),
    /// The timestamp of the last one, and changes so far.
    Moving(u64, Changes),
}

/// Squared changes of each value from one sample to the next, less the variances of both.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// Weighted sums.
    sums: Vec<f64>,
    /// Sum of the weights, and of their squares.
    weight: f64,
    squares: f64,
}

/// Numbers of a sample, and their variances.
pub(crate) type Sample<'a> = (&'a [f64], &'a [f64]);

impl Samples {
    /// Timestamp of the last one.
    pub(crate) const fn last(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Last(timestamp) | Self::Moving(timestamp, _) => Some(*timestamp),
        }
    }

    /// Whether a loaded state is about so many values.
    pub(crate) fn fits(&self, domain: u32) -> bool {
        match self {
            Self::None | Self::Last(_) => true,
            Self::Moving(_, Changes { sums, weight, squares }) => {
                let numbers = || sums.iter().chain([weight, squares]);
                sums.len() == domain as usize && numbers().all(|number| number.is_finite()) && *squares > 0.0
            }
        }
    }

    /// Notes that a timestamp was sampled.
    pub(crate) fn sampled(&mut self, timestamp: u64) {
        *self = match std::mem::take(self) {
            Self::None | Self::Last(_) => Self::Last(timestamp),
            Self::Moving(_, changes) => Self::Moving(timestamp, changes),
        };
    }

    /// Adds the change from one sample to the next.
    pub(crate) fn note_change(&mut self, before: Sample<'_>, after: Sample<'_>) {
        let Some(last) = self.last() else { return };
        let mut changes = match std::mem::take(self) {
            Self::Moving(_, changes) => changes,
            Self::None | Self::Last(_) => Changes { sums: vec![0.0; after.0.len()], weight: 0.0, squares: 0.0 },
        };
        for (position, sum) in changes.sums.iter_mut().enumerate() {
            let change = after.0[position] - before.0[position];
            *sum = *sum * FADING + change * change - before.1[position] - after.1[position];
        }
        changes.weight = changes.weight * FADING + 1.0;
        changes.squares = changes.squares * FADING * FADING + 1.0;
        *self = Self::Moving(last, changes);
    }

    /// Adds the drift since the last sample to its variances: the mean squared change of each value from one sample to
    /// the next, whatever the time since. The mean is one of `n` effective changes, so it is multiplied by the variance
    /// of Student's distribution, `n / (n - 2)`.
    ///
    /// Until some changes are known the drift is not, and `unknown` is added: the square of the range of values.
    pub(crate) fn add_drift(&self, variances: &mut [f64], unknown: f64) {
        let known = match self {
            Self::Moving(_, changes) => changes.means(),
            Self::None | Self::Last(_) => None,
        };
        match known {
            Some(drift) => variances.iter_mut().zip(drift).for_each(|(variance, drift)| *variance += drift),
            None => variances.iter_mut().for_each(|variance| *variance += unknown),
        }
    }
}

impl Changes {
    /// Mean squared change of each value; `None` as long as there are too few.
    fn means(&self) -> Option<impl Iterator<Item = f64> + '_> {
        let effective = self.weight * self.weight / self.squares;
        let factor = effective / (effective - 2.0) / self.weight;
        (effective >= FEWEST).then(|| self.sums.iter().map(move |sum| (sum * factor).max(0.0)))
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // sums of exact numbers
mod tests {
    use super::*;

    const NOISE: [f64; 2] = [0.5, 0.5];

    #[allow(clippy::cast_possible_truncation)] // positions in a vector
    fn sampled(values: &[f64]) -> Samples {
        let mut samples = Samples::None;
        for (timestamp, value) in (0..).zip(values) {
            samples.sampled(timestamp);
            if let Some(before) = timestamp.checked_sub(1).map(|before| values[before as usize]) {
                samples.note_change((&[before, 0.0], &NOISE), (&[*value, 0.0], &NOISE));
            }
        }
        samples
    }

    fn drifted(samples: &Samples) -> [f64; 2] {
        let mut variances = NOISE;
        samples.add_drift(&mut variances, 100.0);
        variances
    }

    #[test]
    fn the_drift_is_unknown_until_some_changes_are() {
        for samples in [Samples::None, sampled(&[1.0]), sampled(&[1.0, 9.0]), sampled(&[1.0, 9.0, 1.0])] {
            assert_eq!(drifted(&samples), [100.5, 100.5]);
        }
        assert!(drifted(&sampled(&[1.0, 9.0, 1.0, 9.0])).iter().all(|variance| *variance < 300.0));
    }

    #[test]
    fn the_drift_of_each_value_is_its_mean_squared_change_without_noise() {
        let values: Vec<f64> = (0..80).map(|timestamp| if timestamp % 2 == 0 { 0.0 } else { 8.0 }).collect();
        // Nine effective changes in the long run: (1 + 0.8) / (1 - 0.8).
        let [moving, still] = drifted(&sampled(&values));
        assert!((moving - 0.5 - (64.0 - 1.0) * 9.0 / 7.0).abs() < 1e-3, "{moving}");
        assert_eq!(still, 0.5);
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn loads_the_form_of_earlier_versions() {
        for old in [None, Some(7_u64)] {
            let bytes = postcard::to_allocvec(&old).unwrap();
            let samples: Samples = postcard::from_bytes(&bytes).unwrap();
            assert_eq!(samples.last(), old);
            assert!(samples.fits(3));
        }
        assert!(sampled(&[1.0, 2.0]).fits(2) && !sampled(&[1.0, 2.0]).fits(3));
    }
}
