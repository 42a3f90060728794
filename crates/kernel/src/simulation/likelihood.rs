//! Likelihoods of randomised steps: closed forms, or truncated sums of positive terms with an error bound.
//!
//! Logarithms have a relative error of about 10⁻¹², at the magnitude of the steps' losses. Sums stop when the rest is
//! below 10⁻¹⁷ of the sum. Their cost is proportional to the scale of the noise.

use std::collections::BTreeMap;

use crate::noise::{Geometric, NoiseScale, NoisyInteger};
use crate::oracle::{Oracle, OracleKind, PerturbedValue};
use crate::primitives::{
    ChannelAnswer, GroupTest, Kept, Largest, LatentTest, NoisyTest, SampledCounts, SampledDistance, Sampling,
};
use crate::randomised_response::RandomisedValue;
use crate::step::RandomisedStep;

/// A step with known likelihoods. Published values are lists of integers here.
pub trait StepLikelihood: RandomisedStep {
    /// The name of the distribution.
    fn name(&self) -> &'static str;

    /// All public parameters.
    fn parameters(&self) -> Vec<i128>;

    /// The natural log-probability of a published value.
    fn log_likelihood(&self, output: &[i64]) -> f64;

    /// Published values with extreme likelihood ratios between neighbours, and with different subsequent decisions.
    fn options(&self) -> Vec<Vec<i64>>;

    /// Encodes a published value as numbers.
    fn numbers(&self, output: &Self::Output) -> Vec<i64>;

    /// Decodes a published value.
    fn published(&mut self, numbers: &[i64]) -> Self::Output;
}

/// Distance of an option from the secret, in scales. Any distance above the sensitivity attains the largest loss, and
/// decisions compare noise of a few scales.
const FAR: f64 = 64.0;

/// Maximum options of one step.
const MOST_OPTIONS: usize = 64;

/// Number of hash functions among the options of a local-hashing report.
const HASHES: u64 = 16;

fn first(numbers: &[i64]) -> i64 {
    numbers.first().copied().unwrap_or(0)
}

/// Integer noise with ratio `q = exp(-rate)`.
#[derive(Clone, Copy)]
struct Rate(f64);

impl Rate {
    fn of(scale: NoiseScale) -> Self {
        let (numerator, denominator) = scale.parts();
        Self(float(denominator.into()) / float(numerator.into()))
    }

    fn of_geometric(noise: &Geometric) -> Self {
        Self::of(noise.scale())
    }

    /// `ln q^z`.
    fn log_power(self, z: i128) -> f64 {
        -self.0 * float(z)
    }

    /// `ln(1 - q^z)` for a positive `z`.
    fn log_complement(self, z: i128) -> f64 {
        log1m_exp(self.log_power(z))
    }

    /// `ln P(Z = z)` of two-sided noise: `(1-q)/(1+q) q^|z|`.
    fn log_two_sided(self, z: i128) -> f64 {
        (self.0 / 2.0).tanh().ln() + self.log_power(z.saturating_abs())
    }

    /// `ln P(Z >= z)` of two-sided noise.
    fn log_two_sided_from(self, z: i128) -> f64 {
        let log_sum = (-self.0).exp().ln_1p(); // ln(1 + q)
        if z > 0 { self.log_power(z) - log_sum } else { log1m_exp(self.log_power(1_i128.saturating_sub(z)) - log_sum) }
    }
}

#[allow(clippy::cast_precision_loss)] // to the precision of a float
fn float(number: i128) -> f64 {
    number as f64
}

/// `ln(1 - e^x)` for a negative `x`.
fn log1m_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 { (-x.exp_m1()).ln() } else { (-x.exp()).ln_1p() }
}

/// The logarithm of a sum, from the logarithms of its terms.
fn log_sum_exp(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + logs.map(|log| (log - largest).exp()).sum::<f64>().ln()
}

/// The logarithm of `sum over z >= 0 of P(z) · product over i of P(Z < z + below_i) · P(Z' >= z - above)`. Here `z` is
/// the latent one-sided noise of the threshold, `below_i` are the margins of the tests that answered "below", and
/// `above` is that of the last test, which did not.
///
/// Terms are summed until less than 10⁻¹⁷ of the sum is left. All terms are positive, and each factor follows from the
/// previous one by adding positive numbers, so nothing cancels.
fn log_latent(latent: Rate, tested: Rate, below: &[i128], above: Option<i128>) -> f64 {
    // For smaller `z`, one of the tests cannot have answered "below".
    let from = below.iter().map(|margin| 1 - margin).max().unwrap_or(0).max(0);
    let mut factors: Vec<f64> = below.iter().map(|margin| -tested.log_power(margin + from).exp_m1()).collect();
    let (ratio, tested_ratio, complement) = ((-latent.0).exp(), (-tested.0).exp(), -(-tested.0).exp_m1());
    // Up to `above`, the last test answers "above" with certainty. Beyond, its probability falls by a constant ratio.
    let beyond = above.map_or(0, |above| (from - above).max(0));
    let base = latent.log_complement(1) + latent.log_power(from) + tested.log_power(beyond);
    let (mut sum, mut weight, mut z) = (0.0_f64, 1.0_f64, from);
    // Factors are at most one, so the weight divided by one minus the ratio bounds the rest.
    let least = 1e-17 * -(-latent.0).exp_m1();
    while weight > f64::MIN_POSITIVE && weight > least * sum {
        sum += weight * factors.iter().product::<f64>();
        factors.iter_mut().for_each(|factor| *factor = complement + tested_ratio * *factor);
        weight *= if above.is_some_and(|above| z >= above) { ratio * tested_ratio } else { ratio };
        z += 1;
    }
    base + sum.ln()
}

/// Options for a secret number: noise far above, far below, near, and none.
fn around(secret: i128, scale: NoiseScale) -> Vec<Vec<i64>> {
    #[allow(clippy::cast_possible_truncation)] // saturates
    let at = |scales: f64| (scales * scale.as_f64()).ceil() as i128 + i128::from(scales > 0.0);
    let cut = |number: i128| i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX });
    [at(FAR), -at(FAR), 0, at(1.0), -at(1.0)].map(|noise| vec![cut(secret.saturating_add(noise))]).to_vec()
}

/// `ln P` of a secret plus two-sided noise, saturated to `i64`.
fn log_noisy(secret: i128, rate: Rate, output: i64) -> f64 {
    let noise = i128::from(output) - secret;
    match output {
        i64::MAX => rate.log_two_sided_from(noise),
        i64::MIN => rate.log_two_sided_from(-noise),
        _ => rate.log_two_sided(noise),
    }
}

fn scale_parameters(scale: NoiseScale) -> [i128; 2] {
    let (numerator, denominator) = scale.parts();
    [numerator.into(), denominator.into()]
}

/// Both answers, as numbers.
fn both() -> Vec<Vec<i64>> {
    vec![vec![1], vec![0]]
}

impl StepLikelihood for NoisyInteger<'_> {
    fn name(&self) -> &'static str {
        "discrete Laplace"
    }

    fn parameters(&self) -> Vec<i128> {
        scale_parameters(self.noise.scale()).to_vec()
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        log_noisy(self.secret, Rate::of(self.noise.scale()), first(output))
    }

    fn options(&self) -> Vec<Vec<i64>> {
        around(self.secret, self.noise.scale())
    }

    fn numbers(&self, output: &i64) -> Vec<i64> {
        vec![*output]
    }

    fn published(&mut self, numbers: &[i64]) -> i64 {
        first(numbers)
    }
}

impl StepLikelihood for RandomisedValue<'_> {
    fn name(&self) -> &'static str {
        "randomised response"
    }

    fn parameters(&self) -> Vec<i128> {
        let (truth, other, total) = self.response.weights();
        vec![truth.into(), other.into(), total.into()]
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        let (truth, other, total) = self.response.weights();
        let weight = if first(output) == i64::from(self.value) { truth } else { other };
        (float(weight.into()) / float(total.into())).ln()
    }

    fn options(&self) -> Vec<Vec<i64>> {
        let (truth, other, total) = self.response.weights();
        let values = (total - truth) / other + 1;
        (0..).take(usize::try_from(values).unwrap_or(MOST_OPTIONS).min(MOST_OPTIONS)).map(|value| vec![value]).collect()
    }

    fn numbers(&self, output: &u32) -> Vec<i64> {
        vec![i64::from(*output)]
    }

    fn published(&mut self, numbers: &[i64]) -> u32 {
        u32::try_from(first(numbers)).unwrap_or(0)
    }
}

impl StepLikelihood for NoisyTest<'_> {
    fn name(&self) -> &'static str {
        "test with a public threshold"
    }

    fn parameters(&self) -> Vec<i128> {
        let [numerator, denominator] = scale_parameters(self.noise.scale());
        vec![numerator, denominator, self.threshold]
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        let (rate, gap) = (Rate::of(self.noise.scale()), self.threshold.saturating_sub(self.secret));
        // "Below" means that the noise is less than the gap; by symmetry, that it is more than minus the gap.
        if first(output) == 1 { rate.log_two_sided_from(1 - gap) } else { rate.log_two_sided_from(gap) }
    }

    fn options(&self) -> Vec<Vec<i64>> {
        both()
    }

    fn numbers(&self, output: &bool) -> Vec<i64> {
        vec![i64::from(*output)]
    }

    fn published(&mut self, numbers: &[i64]) -> bool {
        first(numbers) == 1
    }
}

/// `ln P` of the next answer of a series of tests, given that all earlier answers were "below".
fn log_answer(
    threshold: i128,
    of_threshold: Rate,
    of_query: Rate,
    earlier: &[i128],
    secret: i128,
    is_below: bool,
) -> f64 {
    let mut margins: Vec<i128> = earlier.iter().map(|query| threshold - query).collect();
    let before = log_latent(of_threshold, of_query, &margins, None);
    if is_below {
        margins.push(threshold - secret);
        log_latent(of_threshold, of_query, &margins, None) - before
    } else {
        log_latent(of_threshold, of_query, &margins, Some(secret - threshold)) - before
    }
}

impl StepLikelihood for LatentTest<'_> {
    fn name(&self) -> &'static str {
        "test with a noisy threshold"
    }

    fn parameters(&self) -> Vec<i128> {
        let scales = [self.course.threshold_noise.scale(), self.query_noise.scale()].map(scale_parameters);
        let asked = self.course.below.content().len() as i128;
        [scales.concat(), vec![self.course.threshold.into(), asked]].concat()
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        let (threshold, below) = (i128::from(self.course.threshold), self.course.below.content());
        let [of_threshold, of_query] = [&self.course.threshold_noise, self.query_noise].map(Rate::of_geometric);
        log_answer(threshold, of_threshold, of_query, below, self.secret, first(output) == 1)
    }

    fn options(&self) -> Vec<Vec<i64>> {
        both()
    }

    fn numbers(&self, output: &bool) -> Vec<i64> {
        vec![i64::from(*output)]
    }

    fn published(&mut self, numbers: &[i64]) -> bool {
        first(numbers) == 1
    }
}

impl StepLikelihood for GroupTest<'_> {
    fn name(&self) -> &'static str {
        "test of a group"
    }

    fn parameters(&self) -> Vec<i128> {
        let scales = [self.threshold_noise.scale(), self.query_noise.scale()].map(scale_parameters);
        let public = [self.threshold.into(), self.group.len() as i128, self.width.into(), self.timestamp.into()];
        [scales.concat(), public.to_vec()].concat()
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        let count = self.group.len();
        // The first reading opens the group without a test.
        let earlier: Vec<i128> = (2..count).map(|count| self.deviation(count)).collect();
        let [of_threshold, of_query] = [self.threshold_noise, self.query_noise].map(Rate::of_geometric);
        let is_below = first(output) == 1;
        log_answer(self.threshold.into(), of_threshold, of_query, &earlier, self.deviation(count), is_below)
    }

    fn options(&self) -> Vec<Vec<i64>> {
        both()
    }

    fn numbers(&self, output: &bool) -> Vec<i64> {
        vec![i64::from(*output)]
    }

    fn published(&mut self, numbers: &[i64]) -> bool {
        first(numbers) == 1
    }
}

impl<S: Iterator<Item = i128> + Clone> StepLikelihood for Largest<'_, S> {
    fn name(&self) -> &'static str {
        "noisy maximum"
    }

    fn parameters(&self) -> Vec<i128> {
        let [numerator, denominator] = scale_parameters(self.noise.scale());
        vec![numerator, denominator, self.scores.clone().count() as i128]
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        let rate = Rate::of_geometric(self.noise);
        let Ok(winner) = usize::try_from(first(output)) else { return f64::NEG_INFINITY };
        let Some(score) = self.scores.clone().nth(winner) else { return f64::NEG_INFINITY };
        // The winner's margin over each other score before noise; ties go to the earlier one.
        let others = self.scores.clone().enumerate().filter(|(index, _)| *index != winner);
        let margins: Vec<i128> = others.map(|(index, other)| score - other + i128::from(index > winner)).collect();
        log_latent(rate, rate, &margins, None)
    }

    fn options(&self) -> Vec<Vec<i64>> {
        (0..).zip(self.scores.clone()).take(MOST_OPTIONS).map(|(index, _)| vec![index]).collect()
    }

    fn numbers(&self, output: &Option<usize>) -> Vec<i64> {
        output.and_then(|index| i64::try_from(index).ok()).into_iter().collect()
    }

    fn published(&mut self, numbers: &[i64]) -> Option<usize> {
        numbers.first().and_then(|index| usize::try_from(*index).ok())
    }
}

impl StepLikelihood for ChannelAnswer<'_> {
    fn name(&self) -> &'static str {
        "channel"
    }

    fn parameters(&self) -> Vec<i128> {
        // The whole channel, in float precision.
        let of = |symbol| self.channel.outputs().map(move |output| self.channel.probability(symbol, output).to_bits());
        let outputs = self.channel.outputs().map(i128::from);
        outputs.chain((0..self.channel.domain()).flat_map(of).map(i128::from)).collect()
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        u32::try_from(first(output)).map_or(0.0, |output| self.channel.probability(self.symbol, output)).ln()
    }

    fn options(&self) -> Vec<Vec<i64>> {
        self.channel.outputs().take(MOST_OPTIONS).map(|output| vec![output.into()]).collect()
    }

    fn numbers(&self, output: &u32) -> Vec<i64> {
        vec![i64::from(*output)]
    }

    fn published(&mut self, numbers: &[i64]) -> u32 {
        u32::try_from(first(numbers)).unwrap_or(0)
    }
}

fn bytes(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().map(|number| u8::try_from(*number).unwrap_or(0)).collect()
}

fn of_bytes(bytes: &[u8]) -> Vec<i64> {
    bytes.iter().copied().map(i64::from).collect()
}

/// One report for each possible support, if reports are short. For any value, all reports with the same support are
/// equally likely.
fn reports(oracle: &Oracle) -> Vec<Vec<u8>> {
    const SEED: usize = 8;
    let length = oracle.report_length();
    let (seeds, tail) = if length > SEED { (HASHES, length - SEED) } else { (1, length) };
    // Neighbouring points of a grid are alike: points far apart tell outputs apart.
    let apart = if oracle.kind() == OracleKind::Piecewise { (oracle.domain() - 1).div_ceil(15) as usize } else { 1 };
    let (mut found, mut reports): (Vec<Vec<u64>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    for seed in 1..=seeds {
        for last in 0..=u8::MAX {
            let mut report = vec![0; length];
            if length > SEED {
                report[..SEED].copy_from_slice(&seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            }
            report[length - tail] = last;
            if reports.len() >= MOST_OPTIONS || oracle.check(&report).is_err() {
                continue;
            }
            let likelihood = |value| oracle.log_likelihood(value, &report).map_or(0, f64::to_bits);
            let profile: Vec<u64> = (0..oracle.domain()).step_by(apart).take(16).map(likelihood).collect();
            if !found.contains(&profile) {
                found.push(profile);
                reports.push(report);
            }
        }
    }
    reports
}

impl StepLikelihood for PerturbedValue<'_> {
    fn name(&self) -> &'static str {
        self.oracle.kind().name()
    }

    fn parameters(&self) -> Vec<i128> {
        vec![self.oracle.domain().into(), self.oracle.epsilon().units().into()]
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        self.oracle.log_likelihood(self.value, &bytes(output)).unwrap_or(f64::NEG_INFINITY)
    }

    fn options(&self) -> Vec<Vec<i64>> {
        reports(self.oracle).iter().map(|report| of_bytes(report)).collect()
    }

    fn numbers(&self, (): &()) -> Vec<i64> {
        of_bytes(self.report)
    }

    fn published(&mut self, numbers: &[i64]) {
        for (target, byte) in self.report.iter_mut().zip(bytes(numbers)) {
            *target = byte;
        }
    }
}

impl Sampling<'_> {
    fn parameters(&self) -> Vec<i128> {
        let share = |kept: &Kept| match kept {
            Kept::All => 1 << 64,
            Kept::Share(share) => i128::from(share.get()),
        };
        let shares = self.classes.iter().map(|(kept, _)| share(kept));
        scale_parameters(self.noise.scale()).into_iter().chain(shares).chain([self.domain as i128]).collect()
    }

    /// The distribution of the number of kept users of a cell.
    #[allow(clippy::cast_precision_loss)]
    fn kept(&self, cell: usize) -> Vec<f64> {
        let mut law = vec![1.0];
        for (kept, counts) in &self.classes {
            let count = counts.get(cell).copied().unwrap_or(0);
            let probability = match kept {
                Kept::All => 1.0,
                Kept::Share(share) => share.get() as f64 / 2_f64.powi(64),
            };
            for _ in 0..count {
                let mut next = vec![0.0; law.len() + 1];
                for (users, mass) in law.iter().enumerate() {
                    next[users] += mass * (1.0 - probability);
                    next[users + 1] += mass * probability;
                }
                law = next;
            }
        }
        law
    }

    /// The rounded mean number of kept users of a cell.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // a few users
    fn expected(&self, cell: usize) -> i128 {
        self.kept(cell).iter().enumerate().map(|(users, mass)| users as f64 * mass).sum::<f64>().round() as i128
    }
}

impl StepLikelihood for SampledCounts<'_> {
    fn name(&self) -> &'static str {
        "sampled histogram"
    }

    fn parameters(&self) -> Vec<i128> {
        self.0.parameters()
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        // Cells are independent, because a user is in one of them.
        let rate = Rate::of(self.0.noise.scale());
        let of_cell = |(cell, output): (usize, &i64)| {
            let kept = self.0.kept(cell);
            log_sum_exp((0..).zip(&kept).map(|(users, mass): (i128, &f64)| mass.ln() + log_noisy(users, rate, *output)))
        };
        output.iter().enumerate().map(of_cell).sum()
    }

    fn options(&self) -> Vec<Vec<i64>> {
        let domain = self.0.domain;
        let of_cell = |cell: usize| around(self.0.expected(cell), self.0.noise.scale());
        let cells: Vec<Vec<Vec<i64>>> = (0..domain).map(of_cell).collect();
        // Far above in some cells and far below in the others, in all combinations while these are few; and no noise.
        let ways =
            1_usize.checked_shl(u32::try_from(domain).unwrap_or(u32::MAX)).unwrap_or(usize::MAX).min(MOST_OPTIONS);
        let side = |way: usize, cell: usize| way >> (cell % usize::BITS as usize) & 1;
        let way = |way: usize| (0..domain).map(|cell| first(&cells[cell][side(way, cell)])).collect();
        (0..ways).map(way).chain([cells.iter().map(|options| first(&options[2])).collect()]).collect()
    }

    fn numbers(&self, output: &Vec<i64>) -> Vec<i64> {
        output.clone()
    }

    fn published(&mut self, numbers: &[i64]) -> Vec<i64> {
        numbers.to_vec()
    }
}

impl StepLikelihood for SampledDistance<'_> {
    fn name(&self) -> &'static str {
        "sampled distance"
    }

    fn parameters(&self) -> Vec<i128> {
        self.sampling.parameters().into_iter().chain(self.reference.iter().copied().map(i128::from)).collect()
    }

    fn log_likelihood(&self, output: &[i64]) -> f64 {
        // The distribution of the distance before noise, cell by cell.
        let mut law = BTreeMap::from([(0_i128, 1.0)]);
        for (cell, reference) in self.reference.iter().enumerate() {
            let mut next = BTreeMap::new();
            for (users, kept) in (0..).zip(self.sampling.kept(cell)) {
                let moved: i128 = (users - i128::from(*reference)).abs();
                for (distance, mass) in &law {
                    *next.entry(distance + moved).or_insert(0.0) += mass * kept;
                }
            }
            law = next;
        }
        let rate = Rate::of(self.sampling.noise.scale());
        log_sum_exp(law.iter().map(|(distance, mass)| mass.ln() + log_noisy(*distance, rate, first(output))))
    }

    fn options(&self) -> Vec<Vec<i64>> {
        let moved = |(cell, reference): (usize, &i64)| (self.sampling.expected(cell) - i128::from(*reference)).abs();
        around(self.reference.iter().enumerate().map(moved).sum(), self.sampling.noise.scale())
    }

    fn numbers(&self, output: &i64) -> Vec<i64> {
        vec![*output]
    }

    fn published(&mut self, numbers: &[i64]) -> i64 {
        first(numbers)
    }
}
