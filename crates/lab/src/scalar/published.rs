//! The mechanisms of the delay-allowed release paper as printed, to reproduce its figures (Li, Qin, Ren, Gong, Feng,
//! Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS 2025).
//!
//! Never release data with them. Noise is in floating point, and some lose more than epsilon:
//!
//! | mechanism | guarantee |
//! | --- | --- |
//! | PeGaSus, ContinGroup | deviations have nearly twice the assumed sensitivity: 1.075 epsilon in groups of 100 |
//! | BucOrder by line 10 of Algorithm 5 | a false bucket is drawn from all: `ln(1 + n e^e/(n - 1))` instead of `e` |
//! | BucOrder by the text, Theorem 3 and the authors' program | private: a false bucket is drawn from the others |
//! | DiscontinGroup, CompOrder | private, with four times the noise that is needed |
//!
//! Where the paper leaves something open, the authors' public program decides (doi:10.5281/zenodo.13643225): a fifth of
//! epsilon goes to grouping, a quarter to comparisons and to buckets; a batch has as many timestamps as the delay; the
//! bounds of CompOrder begin at 0 and 1e9, and only bounds that contradict each other change a reading.

use tidegate_kernel::{Epsilon, SeededRandom};

use super::adapub::deviation;
use crate::draw::{laplace, unit};
use crate::experiment::{NumberOutcome, OnNumbers, RunError, Setting, Subject, TrialSettings};
use crate::stream::{NumberStream, as_float};

/// The threshold of the paper's figures, in the unit of the stream.
pub const THRESHOLD: f64 = 3.0;

/// The size of a bucket in the paper's figures: 100, and 10,000 where the domain is wider than 100,000.
pub fn bucket_size(width: f64) -> f64 {
    if width > 100_000.0 { 10_000.0 } else { 100.0 }
}

/// Returns the number of buckets of the paper's figures for a domain's width, by [`bucket_size`].
///
/// ```
/// use tidegate_lab::scalar::published::buckets;
///
/// assert_eq!((buckets(612.0), buckets(2_260_794.0)), (7, 227));
/// ```
pub fn buckets(width: f64) -> u32 {
    parts(width, bucket_size(width))
}

/// Returns the number of parts of a size in a width; the last may be smaller.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a ratio of positive numbers; saturates
pub fn parts(width: f64, size: f64) -> u32 {
    (width / size).ceil().max(1.0) as u32
}

/// The bounds with which CompOrder begins in the authors' program.
const FIRST_BOUNDS: (f64, f64) = (0.0, 1e9);

/// A mechanism as the paper prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// Algorithm 1, with the mean of the group so far.
    Pegasus,
    /// The same, with the mean of the whole group, as far as the delay allows.
    PegasusDelay,
    /// Algorithm 6, with noise on the sum of each group.
    Contin,
    /// Algorithm 6, with noise on each number and the mean of the group.
    ContinPoints,
    /// Algorithm 2, with noise on the sum of each group.
    Discontin,
    /// Algorithm 2, with noise on each number and the mean of the group.
    DiscontinPoints,
    /// Algorithms 3 and 4, with the bounds the right way round. Bounds that contradict each other are averaged, as in
    /// the authors' program.
    Comporder,
    /// Section IV-B and Theorem 3: a false bucket is drawn from the others. Noise on the sum of each bucket, moved into
    /// the bucket.
    Bucorder,
    /// The same by line 10 of Algorithm 5: a false bucket is drawn from all.
    BucorderLine10,
}

impl Published {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pegasus,
        Self::PegasusDelay,
        Self::Contin,
        Self::ContinPoints,
        Self::Discontin,
        Self::DiscontinPoints,
        Self::Comporder,
        Self::Bucorder,
        Self::BucorderLine10,
    ];
}

impl Subject for Published {
    fn name(&self) -> &'static str {
        match self {
            Self::Pegasus => "paper_pegasus_not_private",
            Self::PegasusDelay => "paper_pegasus_delay_not_private",
            Self::Contin => "paper_contin_not_private",
            Self::ContinPoints => "paper_contin_points_not_private",
            Self::Discontin => "paper_discontin",
            Self::DiscontinPoints => "paper_discontin_points",
            Self::Comporder => "paper_comporder",
            Self::Bucorder => "paper_bucorder",
            Self::BucorderLine10 => "paper_bucorder_not_private",
        }
    }

    fn summary(&self) -> String {
        let summary = match self {
            Self::Pegasus => "NOT PRIVATE: pegasus as published; for comparison only",
            Self::PegasusDelay => "NOT PRIVATE: pegasus_delay as published; for comparison only",
            Self::Contin => "NOT PRIVATE: contin as published; for comparison only",
            Self::ContinPoints => "NOT PRIVATE: contin_points as published; for comparison only",
            Self::Discontin => "scalar: discontin as published, with more noise than it needs; for comparison only",
            Self::DiscontinPoints => {
                "scalar: discontin_points as published, with more noise than it needs; for comparison only"
            }
            Self::Comporder => "scalar: comporder as published, with more noise than it needs; for comparison only",
            Self::Bucorder => "scalar: bucorder_sums as published; for comparison only",
            Self::BucorderLine10 => {
                "NOT PRIVATE: bucorder_sums by line 10 of the published algorithm; for comparison only"
            }
        };
        summary.to_owned()
    }

    fn uses(&self) -> &'static [Setting] {
        use Setting::{Delay, WithinDomain};
        match self {
            Self::Pegasus => &[WithinDomain],
            // What is released lies within a bucket, and so within the domain anyway.
            Self::Bucorder | Self::BucorderLine10 => &[Delay],
            _ => &[Delay, WithinDomain],
        }
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        Some(self)
    }
}

impl OnNumbers for Published {
    fn run(
        &self,
        stream: &NumberStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError> {
        let delay = usize::try_from(settings.delay).map_err(RunError::unsupported)?;
        let share = if matches!(self, Self::Comporder | Self::Bucorder | Self::BucorderLine10) { 4 } else { 5 };
        let epsilon = settings.epsilon;
        let grouping = epsilon.divided_by(share).map(Epsilon::as_f64);
        let grouping = grouping.ok_or_else(|| RunError::unsupported(format!("epsilon {epsilon} is too small")))?;
        let grid = stream.grid();
        let mut bench = Bench {
            low: grid.low(),
            high: grid.high(),
            grouping,
            publication: epsilon.as_f64() - grouping,
            threshold: settings.threshold.unwrap_or(THRESHOLD),
            delay,
            random,
        };
        let values = stream.values();
        let batches = || values.chunks(delay.max(1));
        let mut released: Vec<f64> = match self {
            Self::Pegasus | Self::PegasusDelay => bench.pegasus(values, *self == Self::PegasusDelay),
            Self::Contin => batches().flat_map(|batch| bench.contin(batch, false)).collect(),
            Self::ContinPoints => batches().flat_map(|batch| bench.contin(batch, true)).collect(),
            Self::Discontin => batches().flat_map(|batch| bench.discontin(batch, false)).collect(),
            Self::DiscontinPoints => batches().flat_map(|batch| bench.discontin(batch, true)).collect(),
            Self::Comporder => bench.comporder(values),
            Self::Bucorder | Self::BucorderLine10 => {
                let buckets = settings.buckets.unwrap_or_else(|| buckets(bench.width())).max(2);
                let from_all = *self == Self::BucorderLine10;
                batches().flat_map(|batch| bench.bucorder(batch, buckets, from_all)).collect()
            }
        };
        if settings.within_domain {
            released.iter_mut().for_each(|value| *value = value.clamp(grid.low(), grid.high()));
        }
        Ok(NumberOutcome { values: released, variances: Vec::new() })
    }
}

struct Bench<'a> {
    low: f64,
    high: f64,
    /// What of epsilon is for groups, comparisons or buckets, and what for publication.
    grouping: f64,
    publication: f64,
    threshold: f64,
    delay: usize,
    random: &'a mut SeededRandom,
}

impl Bench<'_> {
    fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Noise for something that one reading moves by the width of the domain, at a part of epsilon.
    fn noise(&mut self, epsilon: f64) -> f64 {
        laplace(self.width() / epsilon, self.random)
    }

    fn noisy_threshold(&mut self, times: f64) -> f64 {
        self.threshold + 2.0 * times * self.noise(self.grouping)
    }

    /// Whether a group stays together with one more.
    fn accepts(&mut self, group: &[f64], threshold: f64, times: f64) -> bool {
        deviation(group) + 4.0 * times * self.noise(self.grouping) < threshold
    }

    fn pegasus(&mut self, values: &[f64], whole_group: bool) -> Vec<f64> {
        let mut released = Vec::with_capacity(values.len());
        let (mut group, mut noisy): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        // Those of the open group that may still wait begin here.
        let mut waiting = 0;
        let mut threshold = self.noisy_threshold(1.0);
        for value in values {
            group.push(*value);
            let accepted = self.accepts(&group, threshold, 1.0);
            let published = value + self.noise(self.publication);
            if accepted {
                noisy.push(published);
                released.push(mean(&noisy));
                waiting = waiting.max(released.len().saturating_sub(self.delay + 1));
                if whole_group {
                    released[waiting..].fill(mean(&noisy));
                }
            } else {
                released.push(published);
                group.clear();
                noisy.clear();
                waiting = released.len();
                threshold = self.noisy_threshold(1.0);
            }
        }
        released
    }

    fn contin(&mut self, batch: &[f64], points: bool) -> Vec<f64> {
        let mut released = Vec::with_capacity(batch.len());
        let mut group: Vec<f64> = Vec::new();
        let mut threshold = self.noisy_threshold(1.0);
        for value in batch {
            group.push(*value);
            if !self.accepts(&group, threshold, 1.0) {
                group.pop();
                released.extend(self.of_group(&group, points));
                released.extend(self.of_group(&[*value], points));
                group.clear();
                threshold = self.noisy_threshold(1.0);
            }
        }
        released.extend(self.of_group(&group, points));
        released
    }

    fn discontin(&mut self, batch: &[f64], points: bool) -> Vec<f64> {
        let times = 2.0 * as_float(batch.len() as u64) - 1.0;
        let mut groups: Vec<(Vec<f64>, f64)> = Vec::new();
        let mut group_of = Vec::with_capacity(batch.len());
        for value in batch {
            let mut joins = None;
            for (number, (group, threshold)) in groups.iter_mut().enumerate() {
                group.push(*value);
                if self.accepts(group, *threshold, times) {
                    joins = Some(number);
                    break;
                }
                group.pop();
            }
            group_of.push(joins.unwrap_or(groups.len()));
            if joins.is_none() {
                groups.push((vec![*value], self.noisy_threshold(times)));
            }
        }
        let released: Vec<f64> = groups.iter().map(|(group, _)| self.mean_of_group(group, points)).collect();
        group_of.into_iter().map(|group| released[group]).collect()
    }

    fn of_group(&mut self, group: &[f64], points: bool) -> Vec<f64> {
        if group.is_empty() {
            return Vec::new();
        }
        vec![self.mean_of_group(group, points); group.len()]
    }

    fn mean_of_group(&mut self, group: &[f64], points: bool) -> f64 {
        let times = if points { group.len() } else { 1 };
        let noise: f64 = (0..times).map(|_| self.noise(self.publication)).sum();
        mean(group) + noise / as_float(group.len() as u64)
    }

    fn comporder(&mut self, values: &[f64]) -> Vec<f64> {
        let rho = 4.0 * self.noise(self.grouping);
        let times = 8.0 * as_float(self.delay as u64);
        let mut released = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let (mut least, mut most) = FIRST_BOUNDS;
            for earlier in index.saturating_sub(self.delay)..index {
                if values[earlier] - value + times * self.noise(self.grouping) > rho {
                    most = most.min(released[earlier]);
                } else {
                    least = least.max(released[earlier]);
                }
            }
            let noisy = value + self.noise(self.publication);
            released.push(if least > most { f64::midpoint(least, most) } else { noisy });
        }
        released
    }

    fn bucorder(&mut self, batch: &[f64], buckets: u32, from_all: bool) -> Vec<f64> {
        let (number, size) = (f64::from(buckets), self.width() / f64::from(buckets));
        let odds = self.grouping.exp();
        let keeps = odds / (odds + number - 1.0);
        let mut labels = Vec::with_capacity(batch.len());
        for value in batch {
            let own = index_below((value - self.low) / size, buckets);
            let kept = unit(self.random) < keeps;
            labels.push(match (kept, from_all) {
                (true, _) => own,
                (false, true) => index_below(unit(self.random) * number, buckets),
                (false, false) => {
                    let other = index_below(unit(self.random) * (number - 1.0), buckets - 1);
                    if other < own { other } else { other + 1 }
                }
            });
        }
        let mut released = vec![0.0; batch.len()];
        for label in 0..buckets {
            let members: Vec<usize> = (0..batch.len()).filter(|index| labels[*index] == label).collect();
            if members.is_empty() {
                continue;
            }
            let values: Vec<f64> = members.iter().map(|index| batch[*index]).collect();
            let low = self.low + size * f64::from(label);
            let within = self.mean_of_group(&values, false).clamp(low, low + size);
            members.into_iter().for_each(|index| released[index] = within);
        }
        released
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative, and below a number of buckets
fn index_below(position: f64, buckets: u32) -> u32 {
    (position as u32).min(buckets - 1)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / as_float(values.len() as u64)
}
