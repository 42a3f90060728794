//! Sums of estimates over time, and how their errors add up.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Window;

use crate::post_processing::Unsound;
use crate::release::Freshness;

use super::answer::{Answer, Interval, Unit};
use super::error::QueryError;

/// Which releases of a stream have independent errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correlation {
    /// A fresh release rests on reports of its own, so its error is independent of all before; releases that repeat it
    /// repeat its error.
    #[default]
    WithinRuns,
    /// Any two releases may share errors, as they do where estimates are smoothed over time.
    Throughout,
}

/// What a sum needs to know of a timestamp: the frequency of the values asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub timestamp: u64,
    pub frequency: f64,
    pub variance: f64,
    /// The variance of the fresh release that this one repeats, or of the oldest known one that does: the part of the
    /// error that they share. The rest is drift.
    pub shared: f64,
    pub population: Option<u64>,
    pub freshness: Freshness,
}

impl Sample {
    /// Refuses, in a saved state, what no release has.
    pub(super) fn check(&self, unit: Unit) -> Result<(), QueryError> {
        let Self { timestamp, frequency, variance, shared, .. } = *self;
        let refuse = |reason| Err(QueryError::BadRelease { timestamp, reason });
        if !frequency.is_finite() {
            return refuse(Unsound::Frequency { position: 0, given: frequency });
        }
        if let Some(given) = [variance, shared].into_iter().find(|given| !(*given >= 0.0 && given.is_finite())) {
            return refuse(Unsound::Variance { position: 0, given });
        }
        self.scale(unit).map(|_| ())
    }

    /// What a frequency of one stands for.
    pub(super) fn scale(&self, unit: Unit) -> Result<f64, QueryError> {
        match (unit, self.population) {
            (Unit::Frequencies, _) => Ok(1.0),
            (Unit::Counts, Some(population)) => Ok(population as f64),
            (Unit::Counts, None) => Err(QueryError::UnknownPopulation { timestamp: self.timestamp }),
        }
    }
}

/// The positions, in a sequence of timestamps, of a period and, for a change, of an earlier one that is subtracted.
pub(super) struct Periods {
    pub later: Range<usize>,
    pub earlier: Option<Range<usize>>,
}

impl Periods {
    /// The `delta` timestamps that end at position `last`, and for a change as many that end `shift` timestamps before.
    /// `timestamp` tells the timestamp at a position.
    pub(super) fn find(
        last: usize,
        delta: u64,
        shift: Option<u64>,
        timestamp: impl Fn(usize) -> u64,
    ) -> Result<Self, QueryError> {
        if delta == 0 {
            return Err(QueryError::ZeroDelta);
        }
        let until = timestamp(last);
        let asked = delta.saturating_add(shift.unwrap_or(0));
        let back = |from: usize, steps: u64| {
            let position = usize::try_from(steps).ok().and_then(|steps| from.checked_sub(steps));
            let position = position.ok_or(QueryError::BeyondKept { asked, kept: last as u64 + 1, until })?;
            // Timestamps only grow, so none is missing in between exactly if the ends are as far apart as their
            // positions.
            if timestamp(from) - timestamp(position) == steps {
                Ok(position)
            } else {
                Err(QueryError::Gap { asked, until })
            }
        };
        let later = back(last, delta - 1)?..last + 1;
        let earlier = match shift {
            None => None,
            Some(0) => return Err(QueryError::ZeroShift),
            Some(shift) => {
                let end = back(last, shift)?;
                Some(back(end, delta - 1)?..end + 1)
            }
        };
        Ok(Self { later, earlier })
    }

    /// The sum over the period, less that over the earlier one.
    pub(super) fn sum(
        &self,
        unit: Unit,
        window: Window,
        correlation: Correlation,
        sample: impl Fn(usize) -> Sample,
    ) -> Result<Answer, QueryError> {
        let start = self.earlier.as_ref().map_or(self.later.start, |earlier| earlier.start);
        let last = sample(self.later.end - 1).timestamp;
        let mut first = last;
        let (mut value, mut possible) = (0.0, Interval { low: 0.0, high: 0.0 });
        let (mut variance, mut run) = (0.0, Run::default());
        for position in start..self.later.end {
            let sample = sample(position);
            first = first.min(sample.timestamp);
            if sample.freshness == Freshness::Fresh {
                match correlation {
                    Correlation::WithinRuns => variance += std::mem::take(&mut run).variance(),
                    // Two fresh releases may have the same number by chance, as where both were clipped to zero.
                    Correlation::Throughout => run.changes |= run.first.is_some(),
                }
            }
            let subtracted = self.earlier.as_ref().is_some_and(|earlier| earlier.contains(&position));
            // Between the periods, and where they overlap, a timestamp does not matter.
            let sign = match (self.later.contains(&position), subtracted) {
                (true, false) => 1.0,
                (false, true) => -1.0,
                _ => continue,
            };
            let coefficient = sign * sample.scale(unit)?;
            value += coefficient * sample.frequency;
            possible.low += coefficient.min(0.0);
            possible.high += coefficient.max(0.0);
            run.add(coefficient, &sample);
        }
        variance += run.variance();
        let spans_more_than_one_window = match window {
            Window::Timestamps(length) => last - first >= length.get(),
            Window::Unbounded => false,
        };
        Ok(Answer { value, variance, unit, possible, first, last, spans_more_than_one_window })
    }
}

/// The error of a weighted sum over a run: a fresh release and those that repeat it.
#[derive(Default)]
struct Run {
    /// The frequency in the first release of the sum, and the standard deviation of the error that all share.
    first: Option<(f64, f64)>,
    /// Whether some release does not repeat the first: it has another frequency, or is fresh.
    changes: bool,
    /// The sum of the weights.
    weight: f64,
    /// The sum of the standard deviations, times the absolute weights.
    deviations: f64,
    /// The same for what each variance exceeds that of the shared error.
    drifts: f64,
}

impl Run {
    fn add(&mut self, weight: f64, sample: &Sample) {
        let Sample { frequency, variance, shared, .. } = *sample;
        let (first, _) = *self.first.get_or_insert((frequency, shared.sqrt()));
        self.changes |= first.to_bits() != frequency.to_bits();
        self.weight += weight;
        self.deviations += weight.abs() * variance.sqrt();
        self.drifts += weight.abs() * (variance - shared).max(0.0).sqrt();
    }

    /// However errors are correlated, the standard deviation of a sum is at most the sum of the standard deviations.
    ///
    /// Where the numbers are repeated, an error is that of the fresh release, which is multiplied by the sum of the
    /// weights (zero for two periods of the same length), plus what the truth has drifted since.
    fn variance(&self) -> f64 {
        let bound = match self.first {
            Some((_, shared)) if !self.changes => self.deviations.min(self.weight.abs() * shared + self.drifts),
            _ => self.deviations,
        };
        bound * bound
    }
}
