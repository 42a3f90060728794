//! Samplers for simulated populations, and transcripts of simulated runs.
//!
//! The samplers use floating point, so they must never touch real data. Types enforce that: they accept only a
//! [`SeededRandom`], whose output is marked as not private.
//!
//! # Transcripts
//!
//! A [`Transcript`] lists the randomised steps of a run: the distribution, its public parameters, the published value,
//! and its likelihood under the run's data. A [replay](Transcript::replay) runs the same mechanism on a neighbouring
//! stream and makes each step publish the recorded value. The [loss](Transcript::loss) sums the differences of the
//! log-likelihoods, which is exactly the privacy loss of that transcript. Latent noise, such as a noisy threshold, is
//! summed out. A mechanism that takes another step, other parameters or another amount in the replay depends on raw
//! data; its loss is infinite.
//!
//! A [script](SeededRandom::scripted) chooses what each step publishes, among values with extreme likelihood ratios, so
//! that rare transcripts can be examined.
//!
//! ```
//! use std::num::NonZeroU64;
//! use std::sync::Arc;
//! use tidegate_kernel::primitives::{Neighbours, noisy_histogram};
//! use tidegate_kernel::{Epsilon, Ledger, Sealed, SeededRandom, Window};
//!
//! let epsilon: Epsilon = "1".parse()?;
//! let run = |counts: Vec<u64>, random: &mut SeededRandom| -> Result<(), Box<dyn std::error::Error>> {
//!     let mut ledger = Ledger::new(epsilon, Window::EVENT);
//!     let counts = Sealed::at(ledger.account(), 0, counts);
//!     let permit = ledger.spend(0, epsilon)?;
//!     let _ = noisy_histogram(permit, &counts, Neighbours::AddRemove, NonZeroU64::MIN, random)?;
//!     Ok(())
//! };
//! // The first option of noisy counts lies far above them: one user more makes that e times as likely.
//! let mut random = SeededRandom::scripted(1, Box::new(|_| 0));
//! run(vec![3, 5], &mut random)?;
//! let transcript = Arc::new(random.into_transcript().ok_or("no transcript")?);
//! let mut random = transcript.replay();
//! run(vec![3, 4], &mut random)?;
//! let loss = transcript.loss(&random.into_transcript().ok_or("no transcript")?);
//! assert!((loss - 1.0).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod likelihood;
mod transcript;

use rand_distr::{Binomial, Distribution, StandardNormal, StandardUniform};

use crate::oracle::{Estimate, Method, Oracle, Piecewise};
use crate::random::{Randomness, SeededRandom};
pub(crate) use transcript::Recorder;
pub use transcript::{Choice, Script, Transcript, TranscriptStep};

/// Invalid parameters of a simulated distribution.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum SimulationError {
    /// A probability outside 0..=1, or NaN.
    #[error("{given} is not a probability")]
    Probability { given: f64 },
    /// A sample larger than the population.
    #[error("a sample of {sample} cannot be drawn from a population of {population}")]
    Sample { sample: u64, population: u64 },
    /// Counts that do not match the oracle's domain, or an empty population.
    #[error("a population of {reports} over {cells} values cannot report to an oracle over {expected} values")]
    Population { cells: usize, expected: usize, reports: u64 },
    /// A population too large to count.
    #[error("the counts sum to {population}, more than a population can have")]
    TooMany { population: u128 },
    /// Weights that are negative, not finite, or sum to zero.
    #[error("weights must be finite, not negative, and not all zero")]
    Weights,
}

/// Draws a binomial variate.
pub fn binomial(trials: u64, probability: f64, random: &mut SeededRandom) -> Result<u64, SimulationError> {
    let distribution =
        Binomial::new(trials, probability).map_err(|_| SimulationError::Probability { given: probability })?;
    Ok(distribution.sample(random.generator()))
}

/// Draws a multinomial vector. The weights need not sum to one.
pub fn multinomial(trials: u64, weights: &[f64], random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
    let mut weight_left: f64 = weights.iter().sum();
    if !weight_left.is_finite() || weight_left <= 0.0 || weights.iter().any(|weight| *weight < 0.0) {
        return Err(SimulationError::Weights);
    }
    let last = weights.iter().rposition(|weight| *weight > 0.0);
    let mut trials_left = trials;
    let mut counts = Vec::with_capacity(weights.len());
    for (cell, &weight) in weights.iter().enumerate() {
        let count = if Some(cell) == last {
            trials_left
        } else if weight > 0.0 {
            binomial(trials_left, (weight / weight_left).clamp(0.0, 1.0), random)?
        } else {
            0
        };
        weight_left -= weight;
        trials_left -= count;
        counts.push(count);
    }
    Ok(counts)
}

/// The sum of the cell counts.
fn population(counts: &[u64]) -> Result<u64, SimulationError> {
    let population: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    u64::try_from(population).map_err(|_| SimulationError::TooMany { population })
}

/// Draws the cell counts of a sample without replacement: a multivariate hypergeometric vector.
pub fn sample_without_replacement(
    sample: u64,
    counts: &[u64],
    random: &mut SeededRandom,
) -> Result<Vec<u64>, SimulationError> {
    let population = population(counts)?;
    if sample > population {
        return Err(SimulationError::Sample { sample, population });
    }
    let mut sample_left = sample;
    let mut population_left = population;
    let mut drawn = Vec::with_capacity(counts.len());
    for &count in counts {
        let taken = hypergeometric(population_left, count, sample_left, random);
        population_left -= count;
        sample_left -= taken;
        drawn.push(taken);
    }
    Ok(drawn)
}

/// Draws a hypergeometric variate: the number of `marked` members in a sample. Neither number exceeds the population.
///
/// By inversion from the mode outwards, in about as many steps as the standard deviation. (The sampler of `rand_distr`
/// 0.6 fails, or takes time proportional to the population, if few of many are marked.)
#[allow(clippy::cast_precision_loss)]
fn hypergeometric(population: u64, marked: u64, sample: u64, random: &mut SeededRandom) -> u64 {
    let smallest = (sample + marked).saturating_sub(population);
    let largest = sample.min(marked);
    if smallest == largest {
        return smallest;
    }
    let mode = (u128::from(sample) + 1) * (u128::from(marked) + 1) / (u128::from(population) + 2);
    let mode = u64::try_from(mode).unwrap_or(largest).clamp(smallest, largest);
    let unmarked = population - marked;
    let log_choose = |n: u64, k: u64| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let log_mode = log_choose(marked, mode) + log_choose(unmarked, sample - mode) - log_choose(population, sample);
    // P(x + 1) / P(x)
    let up = |x: u64| (marked - x) as f64 * (sample - x) as f64 / ((x + 1) as f64 * (unmarked + x + 1 - sample) as f64);
    let mut left: f64 = StandardUniform.sample(random.generator());
    let (mut above, mut above_weight) = (mode, log_mode.exp());
    let (mut below, mut below_weight) = (mode, above_weight);
    left -= above_weight;
    while left > 0.0 && (above < largest || below > smallest) {
        if above < largest {
            above_weight *= up(above);
            above += 1;
            left -= above_weight;
            if left <= 0.0 {
                return above;
            }
        }
        if below > smallest {
            below -= 1;
            below_weight /= up(below);
            left -= below_weight;
            if left <= 0.0 {
                return below;
            }
        }
    }
    // Reached at once, or if rounding leaves some probability beyond both ends.
    mode
}

/// The log-factorial by Stirling's series, to about fifteen digits.
#[allow(clippy::cast_precision_loss)]
fn ln_factorial(n: u64) -> f64 {
    if n < 16 {
        return (2..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let x = n as f64;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * x * x)) / (x * x)) / x;
    (x + 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

/// Draws the estimate from the reports of a simulated population without simulating each member, given the number of
/// holders of each value. The cost is O(domain), independent of the population. For Hadamard response it is O(domain ·
/// log domain), or O(population) if less; for subset selection it is O(domain · subset size); for means, O(distinct
/// numbers · outputs).
///
/// The joint distribution over all values is exactly that of real reports; for local hashing, that of an ideal hash
/// function.
pub fn estimate_of(oracle: &Oracle, counts: &[u64], random: &mut SeededRandom) -> Result<Estimate, SimulationError> {
    let expected = oracle.domain() as usize;
    let reports = population(counts)?;
    if counts.len() != expected || reports == 0 {
        return Err(SimulationError::Population { cells: counts.len(), expected, reports });
    }
    let (own, other) = (oracle.support_of_own(), oracle.support_of_other());
    let supports = match &oracle.method {
        Method::Grr(_) => randomised_response(counts, own - other, random)?,
        Method::Subset(subset) => subsets(counts, own, subset.size() as usize, random)?,
        Method::Hadamard(hadamard) => {
            let columns = hadamard_columns(counts, own, hadamard.codec().bound() as usize, random)?;
            hadamard.supports(&columns, oracle.domain())
        }
        Method::Piecewise(piecewise) => outputs(piecewise, counts, random)?,
        Method::Unary(_) | Method::LocalHash(_) => {
            let support = |count: &u64| Ok(binomial(*count, own, random)? + binomial(reports - count, other, random)?);
            counts.iter().map(support).collect::<Result<Vec<u64>, SimulationError>>()?
        }
    };
    Ok(oracle.estimate(&supports, reports))
}

/// The number of reports of each output, for the numbers on a grid.
fn outputs(piecewise: &Piecewise, counts: &[u64], random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
    let mut outputs = vec![0; piecewise.codec().bound() as usize];
    for (point, count) in (0..).zip(counts).filter(|(_, count)| **count > 0) {
        let drawn = multinomial(*count, &piecewise.probabilities(point), random)?;
        outputs.iter_mut().zip(drawn).for_each(|(output, more)| *output += more);
    }
    Ok(outputs)
}

/// Randomised response as a mixture: the truth with probability `kept`, otherwise a uniform value, the true one
/// included.
fn randomised_response(counts: &[u64], kept: f64, random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
    let mut answers = Vec::with_capacity(counts.len());
    for count in counts {
        answers.push(binomial(*count, kept, random)?);
    }
    let rest = counts.iter().sum::<u64>() - answers.iter().sum::<u64>();
    let spread = multinomial(rest, &vec![1.0; counts.len()], random)?;
    answers.iter_mut().zip(spread).for_each(|(answer, more)| *answer += more);
    Ok(answers)
}

/// The number of users who report each column of the Hadamard matrix. The number of columns is a power of two.
fn hadamard_columns(
    counts: &[u64],
    own: f64,
    columns: usize,
    random: &mut SeededRandom,
) -> Result<Vec<u64>, SimulationError> {
    let (mut agreeing, mut disagreeing) = (vec![0; columns], vec![0; columns]);
    for (value, count) in counts.iter().enumerate() {
        agreeing[value + 1] = binomial(*count, own, random)?;
        disagreeing[value + 1] = count - agreeing[value + 1];
    }
    // One by one costs a step per user; all at once costs a step per column and bit.
    let steps = columns as u64 * u64::from(columns.ilog2());
    if counts.iter().sum::<u64>() <= steps {
        return Ok(name_columns_one_by_one(&agreeing, &disagreeing, random));
    }
    name_columns(&agreeing, &disagreeing, random)
}

/// [`name_columns`] one user at a time: each draws a uniform column, and flips a bit of the row if the sign is not the
/// wanted one. That pairs the columns of either sign, so each is equally likely.
fn name_columns_one_by_one(agreeing: &[u64], disagreeing: &[u64], random: &mut SeededRandom) -> Vec<u64> {
    let mut named = vec![0; agreeing.len()];
    let all_bits = agreeing.len() - 1;
    for row in 1..agreeing.len() {
        let lowest_bit = row & row.wrapping_neg();
        for (users, wants_minus) in [(agreeing[row], false), (disagreeing[row], true)] {
            for _ in 0..users {
                #[allow(clippy::cast_possible_truncation)] // the lower bits are all that is wanted
                let column = random.next_word() as usize & all_bits;
                let is_minus = (row & column).count_ones() % 2 == 1;
                named[if is_minus == wants_minus { column } else { column ^ lowest_bit }] += 1;
            }
        }
    }
    named
}

/// The number of heads among fair coin flips. Few flips are counted as bits of random words, which is much faster than
/// setting up a sampler.
fn heads(tosses: u64, random: &mut SeededRandom) -> Result<u64, SimulationError> {
    const FEW: u64 = 1_024;
    if tosses > FEW {
        return binomial(tosses, 0.5, random);
    }
    let whole_words: u64 = (0..tosses / 64).map(|_| u64::from(random.next_word().count_ones())).sum();
    let rest = tosses % 64;
    if rest == 0 {
        return Ok(whole_words);
    }
    Ok(whole_words + u64::from((random.next_word() >> (64 - rest)).count_ones()))
}

/// Users of a row report a uniform column in which the row has the wanted sign. Bits of the column are drawn from the
/// top, each by a fair coin. After a bit, users with equal lower row bits and equal wanted sign are exchangeable. The
/// sign decides only if no lower bit is left in the row.
fn name_columns(agreeing: &[u64], disagreeing: &[u64], random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
    let half = agreeing.len() / 2;
    if half == 0 {
        return Ok(agreeing.to_vec());
    }
    // [lower or upper half of the columns][row's lower bits]
    let mut agreeing_in = [vec![0; half], vec![0; half]];
    let mut disagreeing_in = [vec![0; half], vec![0; half]];
    for row in 0..agreeing.len() {
        let (lower_bits, has_top_bit) = (row % half, row >= half);
        for (users, wants_minus) in [(agreeing[row], false), (disagreeing[row], true)] {
            let in_upper = match (lower_bits, has_top_bit) {
                (0, true) if wants_minus => users,
                (0, true) => 0,
                _ => heads(users, random)?,
            };
            for (upper, users) in [(false, users - in_upper), (true, in_upper)] {
                let still_wants_minus = wants_minus ^ (has_top_bit && upper);
                let target = if still_wants_minus { &mut disagreeing_in } else { &mut agreeing_in };
                target[usize::from(upper)][lower_bits] += users;
            }
        }
    }
    let mut columns = name_columns(&agreeing_in[0], &disagreeing_in[0], random)?;
    columns.extend(name_columns(&agreeing_in[1], &disagreeing_in[1], random)?);
    Ok(columns)
}

/// Walks through the values, and tracks how many users have how many places of their subset left. Users whose value
/// comes later differ only in whether it will be in; all users whose value was passed are exchangeable.
fn subsets(counts: &[u64], own: f64, size: usize, random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
    let mut with_own = Vec::with_capacity(counts.len());
    for count in counts {
        with_own.push(binomial(*count, own, random)?);
    }
    // [places left] -> users: value to come and in, value to come and out, value passed.
    let mut coming_in = vec![0; size + 1];
    let mut coming_out = vec![0; size + 1];
    let mut passed = vec![0; size + 1];
    coming_in[size - 1] = with_own.iter().sum();
    coming_out[size] = counts.iter().sum::<u64>() - coming_in[size - 1];
    let mut supports = Vec::with_capacity(counts.len());
    for (value, (count, with_own)) in counts.iter().zip(with_own).enumerate() {
        // The users who hold this value are any of those still to come; whether it is in was drawn before.
        let owners_in = sample_without_replacement(with_own, &coming_in, random)?;
        let owners_out = sample_without_replacement(count - with_own, &coming_out, random)?;
        for places in 0..=size {
            coming_in[places] -= owners_in[places];
            coming_out[places] -= owners_out[places];
        }
        let others_left = counts.len() - value;
        let mut support = with_own;
        support += take(&mut coming_in, others_left - 1, random)?;
        support += take(&mut coming_out, others_left - 1, random)?;
        support += take(&mut passed, others_left, random)?;
        for places in 0..=size {
            passed[places] += owners_in[places] + owners_out[places];
        }
        supports.push(support);
    }
    Ok(supports)
}

/// Each user takes the current value with probability (places left) / (values left). Returns how many do.
#[allow(clippy::cast_precision_loss)]
fn take(users: &mut [u64], values_left: usize, random: &mut SeededRandom) -> Result<u64, SimulationError> {
    let mut total = 0;
    for places in 1..users.len() {
        if users[places] > 0 {
            let taking = binomial(users[places], (places as f64 / values_left as f64).min(1.0), random)?;
            users[places] -= taking;
            users[places - 1] += taking;
            total += taking;
        }
    }
    Ok(total)
}

/// Draws a standard normal variate.
pub fn standard_normal(random: &mut SeededRandom) -> f64 {
    StandardNormal.sample(random.generator())
}
