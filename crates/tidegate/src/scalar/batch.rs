//! Common part of the batch mechanisms: hold, group, publish, release.

use std::ops::{Range, RangeInclusive};

use tidegate_kernel::noise::{bernoulli, choose};
use tidegate_kernel::primitives::{Bucketing, DeviationTests, Held, Summing, bucket_range};
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::bucorder::{BUCKETS, buckets_of};
use super::contin::Contin;
use super::discontin::Discontin;
use super::points::Points;
use super::settings::{Publication, ScalarSettings, Shares, Truncation};
use super::smoothing::Smoothing;
use super::truncation::choose_bound;
use super::{Arrival, Frame, HUNDRED, ScalarError, ScalarKind, contin, split};
use crate::release::Release;

/// Grouping of the readings of a batch.
#[derive(Debug)]
enum Grouping {
    Contin(Contin),
    Discontin(Discontin),
    Bucorder(Bucketing),
}

impl Grouping {
    fn new(
        kind: ScalarKind,
        settings: &ScalarSettings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
        points: &Points,
        buckets: u32,
    ) -> Result<Self, ScalarError> {
        let epsilon = shares.grouping.unwrap_or(shares.publication);
        let threshold = settings.threshold.map_or(5.0 * points.scale(), |given| given / settings.grid.step());
        let (range, protects) = (range.clone(), settings.protects);
        Ok(match kind {
            ScalarKind::Discontin => {
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
            ScalarKind::Bucorder => Self::Bucorder(Bucketing::new(range, buckets, epsilon)?),
            _ => Self::Contin(Contin::new(contin::groups(range, protects, epsilon, threshold)?)),
        })
    }

    /// Group of the next reading.
    #[inline]
    fn place(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<u32, ScalarError> {
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
    kind: ScalarKind,
    publication: Publication,
    range: RangeInclusive<i64>,
    buckets: u32,
    grouping: Grouping,
    points: Points,
    pub(super) held: Held,
    /// Number of batches released.
    pub(super) done: u64,
    /// Whether a bound is still to be chosen, until a batch has a sample.
    pub(super) due: bool,
    // Buffers of one batch, reused.
    readings: Vec<Sealed<i64>>,
    /// Permits for publishing the readings, until used.
    permits: Vec<Option<Permit>>,
    /// Group and index of each reading.
    order: Vec<(u32, u32)>,
    averages: Vec<(f64, f64)>,
    smoothing: Smoothing,
}

impl Batched {
    pub(super) fn new(
        kind: ScalarKind,
        settings: &ScalarSettings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
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
            due: false,
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
        settings: &ScalarSettings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
    ) -> Result<(), ScalarError> {
        self.points = Points::new(settings, shares, range.clone())?;
        self.buckets = buckets_of(settings.buckets.unwrap_or(BUCKETS), range);
        self.grouping = Grouping::new(self.kind, settings, shares, range, &self.points, self.buckets)?;
        self.range = range.clone();
        Ok(())
    }

    /// Whether the batch must be released before a reading of this timestamp.
    pub(super) fn is_over_before(&self, timestamp: u64, delay: u64) -> bool {
        self.held.timestamps().next().is_some_and(|first| timestamp - first > delay)
    }

    /// Whether the batch is complete with a reading of this timestamp.
    pub(super) fn is_complete_at(&self, timestamp: u64, delay: u64) -> bool {
        self.held.timestamps().next().is_some_and(|first| timestamp - first >= delay)
    }

    /// Groups, publishes and releases the batch. Returns the bound of later batches, if one was chosen.
    pub(super) fn release(
        &mut self,
        Frame { settings, shares, output }: Frame<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<Option<i64>, ScalarError> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let every = settings.truncation.map_or(1, |truncation| u64::from(truncation.every.get()));
        self.due |= self.done.is_multiple_of(every);
        let truncation = settings.truncation.filter(|_| self.due);
        self.done += 1;
        self.group(shares, random)?;
        // Grouping data are cleared once the groups are known.
        self.grouping.clear();
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
        self.due &= sample.is_empty();
        let bound = self.choose_bound(sample, groups, settings, shares, random)?;
        let released = self.readings.drain(..).zip(&self.averages);
        releases.extend(
            released.map(|(reading, (average, variance))| output.release(reading.timestamp(), *average, *variance)),
        );
        self.order.clear();
        Ok(bound)
    }

    /// Finds the group of each reading, and sorts by it.
    #[allow(clippy::cast_possible_truncation)] // a batch has at most 2^32 readings
    fn group(&mut self, shares: &Shares, random: &mut impl Randomness) -> Result<(), ScalarError> {
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

    /// Samples representatives of a group at random: they pay for the choice of a bound instead of the publication. At
    /// least one member stays.
    fn sample(
        &mut self,
        group: Range<usize>,
        truncation: Truncation,
        random: &mut impl Randomness,
        sample: &mut Vec<(usize, Permit)>,
    ) {
        let members = group.len();
        // The percentage holds on average: the remainder of the division is rounded at random.
        let hundredths = members * usize::from(truncation.percent);
        let one_more = bernoulli((hundredths % 100) as u64, HUNDRED, random);
        let count = (hundredths / 100 + usize::from(one_more)).min(members - 1);
        for chosen in choose(count, members, random) {
            let index = self.order[group.start + chosen].1 as usize;
            sample.extend(self.permits[index].take().map(|permit| (index, permit)));
        }
    }

    /// Publishes a group from the members that still have their permits.
    #[allow(clippy::cast_precision_loss)] // published already
    fn publish(
        &mut self,
        group: Range<usize>,
        settings: &ScalarSettings,
        shares: &Shares,
        random: &mut impl Randomness,
    ) -> Result<(), ScalarError> {
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
                    let (point, variance) = self.points.publish(Arrival { permit, reading, sampled: false }, random)?;
                    self.smoothing.add(point, variance);
                }
                self.smoothing.average()
            }
            Publication::ClippedSums => {
                let part = bucket_range(&self.range, self.buckets, label)?;
                if part.start() == part.end() {
                    // The bucket has one point, so every clamped reading equals it.
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

    /// Chooses a bound from the sample, given how many groups shared the noise.
    #[allow(clippy::cast_precision_loss)] // public
    fn choose_bound(
        &self,
        sample: Vec<(usize, Permit)>,
        groups: u32,
        settings: &ScalarSettings,
        shares: &Shares,
        random: &mut impl Randomness,
    ) -> Result<Option<i64>, ScalarError> {
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

/// Clamps an average to the range.
#[allow(clippy::cast_precision_loss)] // public
fn within(range: &RangeInclusive<i64>, (average, variance): (f64, f64)) -> (f64, f64) {
    (average.clamp(*range.start() as f64, *range.end() as f64), variance)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_kernel::primitives::{Protects, ThresholdNoise};
    use tidegate_kernel::{Grid, Ledger, SeededRandom, Window};

    use super::super::{Pegasus, PegasusDelay};
    use super::*;

    /// Returns a batch that is grouped and not yet published.
    fn grouped(kind: ScalarKind, readings: &[f64], threshold: Option<f64>, seed: u64) -> Batched {
        let grid = Grid::new(0.0, 100.0, 1.0).unwrap();
        let delay = u32::try_from(readings.len() - 1).unwrap();
        let settings = ScalarSettings { threshold, ..ScalarSettings::new("1".parse().unwrap(), grid, delay) };
        let shares = settings.shares(kind).unwrap();
        let mut batched = Batched::new(kind, &settings, &shares, &grid.range()).unwrap();
        let mut ledger = Ledger::new(settings.epsilon, Window::EVENT);
        for (timestamp, reading) in (0..).zip(readings) {
            let permit = ledger.spend(timestamp, settings.epsilon).unwrap();
            batched.held.push(permit, grid.seal(ledger.account(), timestamp, *reading).unwrap()).unwrap();
        }
        batched.group(&shares, &mut SeededRandom::new(seed)).unwrap();
        batched
    }

    /// In `discontin` a reading takes part in at most `w - 1` tests, of total sensitivity `2·width·(w - H_w)`. It is
    /// exactly that if all readings join the first.
    #[test]
    fn a_reading_takes_part_in_as_many_discontinuous_tests_as_the_proof_says() {
        for w in [1_usize, 2, 3, 7, 20] {
            let total: f64 = (2..=w).map(|n| 200.0 * (n - 1) as f64 / n as f64).sum();
            let mut most = (0, 0.0_f64);
            for seed in 0..60 {
                let readings: Vec<f64> = (0..w).map(|index| ((index as u64 * seed * 37) % 100) as f64).collect();
                // From never accepting anybody to always accepting everybody.
                let threshold = [0.0, 200.0, 2_000.0, 1e7][usize::try_from(seed % 4).unwrap()];
                let batched = grouped(ScalarKind::Discontin, &readings, Some(threshold), seed);
                let Grouping::Discontin(discontin) = &batched.grouping else { panic!("that was asked for") };
                for (count, sensitivity) in discontin.tests().uses() {
                    assert!(count < w as u64 && sensitivity <= total + 1e-3, "{w}: {count} {sensitivity} {total}");
                    most = (most.0.max(count), most.1.max(sensitivity));
                }
            }
            assert_eq!(most.0, w as u64 - 1);
            assert!((most.1 - total).abs() < 1e-3, "{w}: {} {total}", most.1);
        }
    }

    /// In `contin` a reading takes part in the tests of one group only: no reading is tested against two thresholds.
    #[test]
    fn a_reading_takes_part_in_the_tests_of_one_continuous_group_only() {
        let grid = Grid::new(0.0, 100.0, 1.0).unwrap();
        let epsilon = "1".parse().unwrap();
        let (mut closed, mut longest) = (0, 0);
        for seed in 0..40 {
            let groups = contin::groups(grid.range(), Protects::Reading, epsilon, 300.0).unwrap();
            let mut contin = Contin::new(groups);
            let mut ledger = Ledger::new(epsilon, Window::EVENT);
            let mut random = SeededRandom::new(seed);
            let (mut thresholds, mut members) = (vec![BTreeSet::new(); 60], Vec::new());
            let (mut threshold, mut comparisons) = (0, vec![0_u64; 60]);
            for timestamp in 0..60_u64 {
                let reading = grid.seal(ledger.account(), timestamp, (timestamp * (seed + 3) % 101) as f64).unwrap();
                let before = contin.open_group().tests();
                let is_tested = contin.open_group().members() > 0;
                contin.place(ledger.spend(timestamp, epsilon).unwrap(), &reading, &mut random).unwrap();
                let open = contin.open_group();
                members.push(usize::try_from(timestamp).unwrap());
                if is_tested {
                    // One more test of the same group, or the test that ended it.
                    assert!(open.tests() == before + 1 || open.members() == 0);
                    for member in &members {
                        thresholds[*member].insert(threshold);
                        comparisons[*member] += 1;
                    }
                }
                if open.members() == 0 {
                    members.clear();
                    threshold += 1;
                }
                assert_eq!(open.members(), members.len());
            }
            assert!(thresholds.iter().all(|read_under| read_under.len() <= 1));
            closed += threshold;
            longest = comparisons.into_iter().fold(longest, u64::max);
        }
        assert!(closed > 40 && longest > 5, "there was nothing to be seen: {closed} {longest}");
    }

    /// Grouping has noise for a whole reading, at the share of grouping.
    #[test]
    #[allow(clippy::float_cmp)] // the same formula
    fn grouping_has_the_noise_that_a_reading_needs() {
        let grid = Grid::new(0.0, 100.0, 1.0).unwrap();
        let most = std::num::NonZeroU64::new(7).unwrap();
        for (protects, sensitivity) in [(Protects::Reading, 100), (Protects::Contribution(most), 7)] {
            let settings = ScalarSettings { protects, ..ScalarSettings::new("1".parse().unwrap(), grid, 9) };
            let share = "0.2".parse().unwrap();
            let expected = ThresholdNoise::calibrated(2 * sensitivity, share).unwrap();
            let shares = settings.shares(ScalarKind::Pegasus).unwrap();
            let pegasus = Pegasus::new(&settings, &shares, grid.range()).unwrap();
            assert_eq!(pegasus.group.groups.scales(), expected);
            let delayed = PegasusDelay::new(&settings, &shares, grid.range()).unwrap();
            assert_eq!(delayed.group.groups.scales(), expected);
            let batched = |kind| Batched::new(kind, &settings, &shares, &grid.range()).unwrap().grouping;
            let Grouping::Contin(contin) = batched(ScalarKind::Contin) else { panic!("that was asked for") };
            assert_eq!(contin.open_group().scales(), expected);
            let Grouping::Discontin(discontin) = batched(ScalarKind::Discontin) else { panic!("that was asked for") };
            let total: f64 = (2..=10).map(|n| 2.0 * sensitivity as f64 * f64::from(n - 1) / f64::from(n)).sum();
            assert!((discontin.tests().scale() / (total / 0.2) - 1.0).abs() < 1e-4);
        }
    }

    /// Grouping takes its share of each permit; the rest pays for one publication.
    #[test]
    fn what_is_left_for_publication_is_epsilon_less_the_share_of_grouping() {
        for (kind, publication) in [
            (ScalarKind::Contin, Publication::Sums),
            (ScalarKind::Discontin, Publication::Points),
            (ScalarKind::Bucorder, Publication::Sums),
        ] {
            let grid = Grid::new(0.0, 100.0, 1.0).unwrap();
            let settings =
                ScalarSettings { publication: Some(publication), ..ScalarSettings::new("1".parse().unwrap(), grid, 9) };
            let shares = settings.shares(kind).unwrap();
            let mut batched = Batched::new(kind, &settings, &shares, &grid.range()).unwrap();
            let mut ledger = Ledger::new(settings.epsilon, Window::EVENT);
            for timestamp in 0..10 {
                let permit = ledger.spend(timestamp, settings.epsilon).unwrap();
                batched.held.push(permit, grid.seal(ledger.account(), timestamp, 30.0).unwrap()).unwrap();
            }
            let mut random = SeededRandom::new(1);
            batched.group(&shares, &mut random).unwrap();
            let left: Vec<_> = batched.permits.iter().flatten().map(Permit::epsilon).collect();
            assert_eq!(left, [shares.publication; 10]);
            assert_eq!(shares.grouping.unwrap().checked_add(shares.publication), Some(settings.epsilon));
            batched.averages.resize(10, (0.0, 0.0));
            let mut begin = 0;
            while let Some(&(group, _)) = batched.order.get(begin) {
                let length = batched.order[begin..].iter().take_while(|(other, _)| *other == group).count();
                batched.publish(begin..begin + length, &settings, &shares, &mut random).unwrap();
                begin += length;
            }
            assert!(batched.permits.iter().all(Option::is_none), "each was used, and none is left to be used again");
        }
    }

    /// Representatives are left out of the publication, and at least one of each group stays.
    #[test]
    fn a_sampled_reading_pays_for_the_bound_instead_of_the_publication() {
        for percent in [1, 50, 99] {
            let readings: Vec<f64> = (0..40_u8).map(|index| f64::from(index / 10) * 30.0).collect();
            let mut batched = grouped(ScalarKind::Contin, &readings, Some(1e7), 5);
            let truncation = Truncation { percent, ..Truncation::default() };
            let mut sample = Vec::new();
            let members = batched.order.iter().filter(|(group, _)| *group == batched.order[0].0).count();
            batched.sample(0..members, truncation, &mut SeededRandom::new(3), &mut sample);
            let expected = members * usize::from(percent) / 100;
            assert!((expected.min(members - 1)..=expected + 1).contains(&sample.len()) && sample.len() < members);
            for (index, permit) in &sample {
                assert_eq!(permit.timestamp(), batched.readings[*index].timestamp());
                assert!(batched.permits[*index].is_none());
            }
            assert_eq!(batched.permits.iter().flatten().count() + sample.len(), 40);
        }
    }
}
