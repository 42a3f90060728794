//! Sums of estimates over time, and their variances.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Window;

use crate::post_processing::Unsound;
use crate::release::{Freshness, UNSTATED};

use super::answer::{Answer, Interval, Unit};
use super::error::QueryError;

/// Correlation of errors between releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correlation {
    /// Fresh releases have independent errors; repeated releases repeat theirs.
    #[default]
    WithinRuns,
    /// Any two releases may share errors, as filtered ones do.
    Throughout,
}

/// One timestamp's part of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub timestamp: u64,
    pub frequency: f64,
    pub variance: f64,
    /// Variance of the fresh release that this one repeats, or of the oldest known repetition: the shared part of the
    /// error. The rest is drift.
    pub shared: f64,
    pub population: Option<u64>,
    pub freshness: Freshness,
}

impl Sample {
    /// Rejects saved numbers that no release has.
    pub(super) fn check(&self, unit: Unit) -> Result<(), QueryError> {
        let Self { timestamp, frequency, variance, shared, .. } = *self;
        let refuse = |reason| Err(QueryError::BadRelease { timestamp, reason });
        if !frequency.is_finite() {
            return refuse(Unsound::Frequency { position: 0, given: frequency });
        }
        if let Some(given) = [variance, shared].into_iter().find(|given| given.is_nan() || *given < 0.0) {
            return refuse(Unsound::Variance { position: 0, given });
        }
        self.scale(unit).map(|_| ())
    }

    /// Factor from frequencies to the unit.
    pub(super) fn scale(&self, unit: Unit) -> Result<f64, QueryError> {
        match (unit, self.population) {
            (Unit::Frequencies | Unit::Mean, _) => Ok(1.0),
            (Unit::Counts, Some(population)) => Ok(population as f64),
            (Unit::Counts, None) => Err(QueryError::UnknownPopulation { timestamp: self.timestamp }),
        }
    }
}

/// Index ranges of a period and, for a change, of the earlier period to subtract.
pub(super) struct Periods {
    pub later: Range<usize>,
    pub earlier: Option<Range<usize>>,
}

impl Periods {
    /// Finds the `delta` timestamps up to index `last`, and for a change as many up to `shift` timestamps earlier.
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
            // Timestamps increase, so none is missing if the ends are as far apart as their indices.
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

    /// Sum over the period, less that over the earlier one.
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
        let part = if unit == Unit::Mean { 1.0 / self.later.len() as f64 } else { 1.0 };
        for position in start..self.later.end {
            let sample = sample(position);
            first = first.min(sample.timestamp);
            if sample.freshness == Freshness::Fresh {
                match correlation {
                    Correlation::WithinRuns => variance += std::mem::take(&mut run).variance(),
                    // Two fresh releases may agree by chance, such as when both are clamped to zero.
                    Correlation::Throughout => run.changes |= run.first.is_some(),
                }
            }
            let subtracted = self.earlier.as_ref().is_some_and(|earlier| earlier.contains(&position));
            // Timestamps between the periods, and in their overlap, cancel.
            let sign = match (self.later.contains(&position), subtracted) {
                (true, false) => 1.0,
                (false, true) => -1.0,
                _ => continue,
            };
            let coefficient = sign * part * sample.scale(unit)?;
            value += coefficient * sample.frequency;
            possible.low += coefficient.min(0.0);
            possible.high += coefficient.max(0.0);
            run.add(coefficient, &sample);
        }
        variance += run.variance();
        if unit == Unit::Mean {
            possible = Interval { low: f64::MIN, high: f64::MAX };
        }
        let spans_more_than_one_window = match window {
            Window::Timestamps(length) => last - first >= length.get(),
            Window::Unbounded => false,
        };
        Ok(Answer { value, variance, unit, possible, first, last, spans_more_than_one_window })
    }
}

/// Error of a weighted sum over a run: a fresh release and its repetitions.
#[derive(Default)]
struct Run {
    /// Frequency of the first release, and standard deviation of the shared error.
    first: Option<(f64, f64)>,
    /// Whether some release does not repeat the first.
    changes: bool,
    /// Sum of the weights.
    weight: f64,
    /// Sum of standard deviations times absolute weights.
    deviations: f64,
    /// The same for the excess of each variance over that of the shared error.
    drifts: f64,
}

impl Run {
    fn add(&mut self, weight: f64, sample: &Sample) {
        let Sample { frequency, variance, shared, .. } = *sample;
        let (first, _) = *self.first.get_or_insert((frequency, shared.sqrt()));
        self.changes |= first.to_bits() != frequency.to_bits();
        if variance == UNSTATED && weight != 0.0 {
            (self.deviations, self.changes) = (UNSTATED, true);
            return;
        }
        self.weight += weight;
        self.deviations += weight.abs() * variance.sqrt();
        self.drifts += weight.abs() * (variance - shared).max(0.0).sqrt();
    }

    /// For any correlation, the standard deviation of a sum is at most the sum of the standard deviations.
    ///
    /// Repeated numbers share the error of the fresh release, which is multiplied by the sum of the weights, plus the
    /// drift of the truth. The sum of weights is zero for two periods of equal length.
    fn variance(&self) -> f64 {
        let bound = match self.first {
            Some((_, shared)) if !self.changes => self.deviations.min(self.weight.abs() * shared + self.drifts),
            _ => self.deviations,
        };
        bound * bound
    }
}
