//! What the mechanisms that work batch by batch have in common: hold, group, publish, release.

use std::ops::{Range, RangeInclusive};

use tidegate_kernel::noise::choose;
use tidegate_kernel::primitives::{Bucketing, DeviationTests, Held, Summing, bucket_range};
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::bucorder::{BUCKETS, buckets_of};
use super::contin::Contin;
use super::discontin::Discontin;
use super::output::Output;
use super::points::Points;
use super::settings::{Publication, Settings, Shares, Truncation};
use super::smoothing::Smoothing;
use super::truncation::choose_bound;
use super::{EventError, EventKind, contin, split};
use crate::release::Release;

/// How the readings of a batch are grouped.
#[derive(Debug)]
enum Grouping {
    Contin(Contin),
    Discontin(Discontin),
    Bucorder(Bucketing),
}

impl Grouping {
    fn new(
        kind: EventKind,
        settings: &Settings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
        points: &Points,
        buckets: u32,
    ) -> Result<Self, EventError> {
        let epsilon = shares.grouping.unwrap_or(shares.publication);
        let threshold = settings.threshold.map_or(5.0 * points.scale(), |given| given / settings.grid.step());
        let (range, protects) = (range.clone(), settings.protects);
        Ok(match kind {
            EventKind::Discontin => {
                #[allow(clippy::cast_possible_truncation)] // saturates
                let threshold = threshold.round() as i64;
                Self::Discontin(Discontin::new(DeviationTests::new(
                    range,
                    protects,
                    epsilon,
                    threshold,
                    settings.batch(),
                )?))
            }
            EventKind::Bucorder => Self::Bucorder(Bucketing::new(range, buckets, epsilon)?),
            _ => Self::Contin(Contin::new(contin::groups(range, protects, epsilon, threshold)?)),
        })
    }

    /// The group of the next reading.
    #[inline]
    fn place(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<u32, EventError> {
        match self {
            Self::Contin(contin) => contin.place(permit, reading, random),
            Self::Discontin(discontin) => discontin.place(permit, reading, random),
            Self::Bucorder(bucketing) => Ok(bucketing.randomise(permit, reading, random)?.into_value()),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Contin(contin) => contin.clear(),
            Self::Discontin(discontin) => discontin.clear(),
            Self::Bucorder(_) => {}
        }
    }
}

#[derive(Debug)]
pub(super) struct Batched {
    kind: EventKind,
    publication: Publication,
    range: RangeInclusive<i64>,
    buckets: u32,
    grouping: Grouping,
    points: Points,
    pub(super) held: Held,
    /// How many batches were released.
    pub(super) done: u64,
    // What follows is used within one batch only, and kept to be used again.
    readings: Vec<Sealed<i64>>,
    /// What pays for the publication of each reading, until it is used.
    permits: Vec<Option<Permit>>,
    /// The group of each reading and its place in the batch.
    order: Vec<(u32, u32)>,
    averages: Vec<(f64, f64)>,
    smoothing: Smoothing,
}

impl Batched {
    pub(super) fn new(
        kind: EventKind,
        settings: &Settings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
    ) -> Result<Self, EventError> {
        let points = Points::new(settings, shares, range.clone())?;
        let buckets = buckets_of(settings.buckets.unwrap_or(BUCKETS), range);
        Ok(Self {
            kind,
            publication: settings.publication_of(kind)?,
            range: range.clone(),
            buckets,
            grouping: Grouping::new(kind, settings, shares, range, &points, buckets)?,
            points,
            held: Held::default(),
            done: 0,
            readings: Vec::new(),
            permits: Vec::new(),
            order: Vec::new(),
            averages: Vec::new(),
            smoothing: Smoothing::new(settings.smoother),
        })
    }

    /// Clamps to another range from the next batch on.
    pub(super) fn set_range(
        &mut self,
        settings: &Settings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
    ) -> Result<(), EventError> {
        self.points = Points::new(settings, shares, range.clone())?;
        self.buckets = buckets_of(settings.buckets.unwrap_or(BUCKETS), range);
        self.grouping = Grouping::new(self.kind, settings, shares, range, &self.points, self.buckets)?;
        self.range = range.clone();
        Ok(())
    }

    /// Whether the batch has to be released before a reading of this timestamp is taken in.
    pub(super) fn is_over_before(&self, timestamp: u64, delay: u64) -> bool {
        self.held.timestamps().next().is_some_and(|first| timestamp - first > delay)
    }

    /// Whether the batch is complete with a reading of this timestamp in it.
    pub(super) fn is_complete_at(&self, timestamp: u64, delay: u64) -> bool {
        self.held.timestamps().next().is_some_and(|first| timestamp - first >= delay)
    }

    /// Groups, publishes and releases what is held. Returns the bound for the batches to come, if one was chosen.
    pub(super) fn release(
        &mut self,
        settings: &Settings,
        shares: &Shares,
        output: &Output,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<Option<i64>, EventError> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let truncation =
            settings.truncation.filter(|truncation| self.done.is_multiple_of(u64::from(truncation.every.get())));
        self.done += 1;
        self.grouping.clear();
        self.group(shares, random)?;
        self.averages.clear();
        self.averages.resize(self.readings.len(), (0.0, 0.0));
        let mut sample = Vec::new();
        let (mut begin, mut groups) = (0, 0_u32);
        while let Some(&(group, _)) = self.order.get(begin) {
            let length = self.order[begin..].iter().take_while(|(other, _)| *other == group).count();
            if let Some(truncation) = truncation {
                self.sample(begin..begin + length, truncation, random, &mut sample);
            }
            self.publish(begin..begin + length, settings, shares, random)?;
            begin += length;
            groups += 1;
        }
        let bound = self.choose_bound(sample, groups, settings, shares, random)?;
        let released = self.readings.drain(..).zip(&self.averages);
        releases.extend(
            released.map(|(reading, (average, variance))| output.release(reading.timestamp(), *average, *variance)),
        );
        self.order.clear();
        Ok(bound)
    }

    /// Finds the group of each reading, and sorts them by it.
    #[allow(clippy::cast_possible_truncation)] // a batch has at most 2^32 readings
    fn group(&mut self, shares: &Shares, random: &mut impl Randomness) -> Result<(), EventError> {
        self.readings.clear();
        self.permits.clear();
        self.order.clear();
        for (permit, reading) in self.held.drain() {
            let (for_group, for_publication) = split(permit, shares.grouping)?;
            let group = self.grouping.place(for_group, &reading, random)?;
            self.order.push((group, self.readings.len() as u32));
            self.readings.push(reading);
            self.permits.push(Some(for_publication));
        }
        self.order.sort_unstable();
        Ok(())
    }

    /// Takes representatives out of a group, by coins only: they pay for the choice of a bound instead of the publication. At
    /// least one member stays.
    fn sample(
        &mut self,
        group: Range<usize>,
        truncation: Truncation,
        random: &mut impl Randomness,
        sample: &mut Vec<(usize, Permit)>,
    ) {
        let members = group.len();
        let count = (members * usize::from(truncation.percent) / 100).min(members - 1);
        for chosen in choose(count, members, random) {
            let index = self.order[group.start + chosen].1 as usize;
            sample.extend(self.permits[index].take().map(|permit| (index, permit)));
        }
    }

    /// Publishes a group from those members that have not paid for something else.
    #[allow(clippy::cast_precision_loss)] // published already
    fn publish(
        &mut self,
        group: Range<usize>,
        settings: &Settings,
        shares: &Shares,
        random: &mut impl Randomness,
    ) -> Result<(), EventError> {
        let (order, readings, permits) = (&self.order[group], &self.readings, &mut self.permits);
        let label = order.first().map_or(0, |(label, _)| *label);
        let paying = order.iter().filter(|(_, index)| permits[*index as usize].is_some()).count() as f64;
        let mut members = order.iter().filter_map(|(_, index)| {
            let index = *index as usize;
            Some((permits[index].take()?, &readings[index]))
        });
        let mean = |(sum, variance): (i64, f64)| (sum as f64 / paying, variance / (paying * paying));
        let average = match self.publication {
            Publication::Points => {
                self.smoothing.clear();
                for (permit, reading) in members {
                    let (point, variance) = self.points.publish(permit, reading, false, random)?;
                    self.smoothing.add(point, variance);
                }
                self.smoothing.average()
            }
            Publication::ClippedSums => {
                let part = bucket_range(&self.range, self.buckets, label)?;
                if part.start() == part.end() {
                    // Whatever the readings are, moved into the bucket they are this.
                    (*part.start() as f64, 0.0)
                } else {
                    let summing = Summing::new(part.clone(), settings.protects, shares.publication)?;
                    let sum = summing.publish(members.by_ref(), random)?.into_value();
                    within(&part, mean((sum, summing.scale().laplace_variance())))
                }
            }
            Publication::Sums | Publication::Labels => {
                let average = mean(self.points.publish_sum(members.by_ref(), random)?);
                match self.grouping {
                    Grouping::Bucorder(_) => within(&bucket_range(&self.range, self.buckets, label)?, average),
                    _ => average,
                }
            }
        };
        for &(_, index) in order {
            self.averages[index as usize] = average;
        }
        Ok(())
    }

    /// The bound that suits the sample, given how many groups shared the noise.
    #[allow(clippy::cast_precision_loss)] // public
    fn choose_bound(
        &self,
        sample: Vec<(usize, Permit)>,
        groups: u32,
        settings: &Settings,
        shares: &Shares,
        random: &mut impl Randomness,
    ) -> Result<Option<i64>, EventError> {
        let share_noise = self.readings.len() as f64 / f64::from(groups.max(1));
        let error = match self.publication {
            Publication::Points => share_noise.sqrt().recip(),
            Publication::ClippedSums => share_noise.recip() / f64::from(self.buckets),
            Publication::Sums | Publication::Labels => share_noise.recip(),
        };
        let sample = sample.into_iter().map(|(index, permit)| (permit, &self.readings[index])).collect();
        choose_bound(sample, error / shares.publication.as_f64(), settings, random)
    }
}

/// An average, moved into the range.
#[allow(clippy::cast_precision_loss)] // public
fn within(range: &RangeInclusive<i64>, (average, variance): (f64, f64)) -> (f64, f64) {
    (average.clamp(*range.start() as f64, *range.end() as f64), variance)
}
