//! Mechanisms that are deliberately broken, each beside its healthy twin. The audit must catch the first and pass the
//! second: an auditor that has never caught anything proves nothing.
//!
//! A mutant is either a mechanism of the library that is set to less than is claimed, or written here, on raw values,
//! because the kernel would not let it be built. Seeds are fixed. With another seed a twin, whose loss may be exactly
//! what it claims, is wrongly accused with a probability of at most 0.001.

mod central;
mod enumerated;
mod local;
mod recorded;
mod scalar;
mod sequence;
mod transcript;

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_kernel::{Randomness, SeededRandom};
use tidegate_lab::audit::empirical::{CONFIDENCE, Evidence, Plan, attack};
use tidegate_lab::audit::{Input, Pair, Target, TargetFamily, Transcript};
use tidegate_lab::experiment::RunError;

type Run = Box<dyn Fn(&Input, &mut SeededRandom) -> Transcript + Send + Sync>;

/// A mechanism of a test's own, or one of the library's with a claim of the test's own.
pub(super) struct Variant {
    claimed: f64,
    pairs: Vec<Pair>,
    run: Run,
}

impl Variant {
    fn new(
        claimed: f64,
        pairs: Vec<Pair>,
        run: impl Fn(&Input, &mut SeededRandom) -> Transcript + Send + Sync + 'static,
    ) -> Self {
        Self { claimed, pairs, run: Box::new(run) }
    }

    /// What one target does, with what another claims.
    fn claiming_to_be(claims: &dyn Target, does: impl Target + 'static) -> Self {
        let run = move |input: &Input, random: &mut SeededRandom| does.observe(input, random).unwrap();
        Self::new(claims.claimed(), claims.neighbours(), run)
    }
}

impl Target for Variant {
    fn name(&self) -> &'static str {
        "variant"
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Local
    }

    fn guarantee(&self) -> String {
        "as the test says".to_owned()
    }

    fn claimed(&self) -> f64 {
        self.claimed
    }

    fn neighbours(&self) -> Vec<Pair> {
        self.pairs.clone()
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        Ok((self.run)(input, random))
    }
}

/// Attacks the broken form, which must be caught, and the healthy one, which must not be.
#[track_caller]
fn caught(name: &str, runs: u64, variant: impl Fn(Form) -> Variant) {
    let [broken, healthy] = [Form::Broken, Form::Healthy].map(|form| {
        let variant = variant(form);
        (attacked(&variant, runs), variant.claimed)
    });
    // The table of docs/audit-mutants.md.
    println!(
        "| {name} | {:.2} | {:.2} | {:.2} | {} |",
        broken.1, broken.0.lower_bound, healthy.0.lower_bound, broken.0.runs
    );
    assert!(broken.0.lower_bound > broken.1, "{name} was not caught: {:?}, claimed {}", broken.0, broken.1);
    assert!(healthy.0.lower_bound <= healthy.1, "{name}: its twin was accused: {:?}, claimed {}", healthy.0, healthy.1);
}

/// Attacks with so many runs of each stream.
fn attacked(target: &dyn Target, runs: u64) -> Evidence {
    let runs = NonZeroU64::new(runs).unwrap();
    let plan = Plan { runs, confidence: CONFIDENCE, seed: 1, threads: NonZeroUsize::MIN };
    attack(target, &plan, &|| ()).unwrap()
}

/// Which of the twins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Broken,
    Healthy,
}

impl Form {
    /// The one or the other.
    fn choose<T>(self, broken: T, healthy: T) -> T {
        match self {
            Self::Broken => broken,
            Self::Healthy => healthy,
        }
    }
}

/// Two streams of one user's values.
fn of_values(name: &str, one: &[u32], other: &[u32]) -> Pair {
    Pair { name: name.to_owned(), one: Input::Values(one.to_vec()), other: Input::Values(other.to_vec()) }
}

/// Two streams of readings.
fn of_readings(name: &str, one: Vec<f64>, other: Vec<f64>) -> Pair {
    Pair { name: name.to_owned(), one: Input::Readings(one), other: Input::Readings(other) }
}

fn values(input: &Input) -> &[u32] {
    let Input::Values(values) = input else { panic!("{input:?}") };
    values
}

fn readings(input: &Input) -> &[f64] {
    let Input::Readings(readings) = input else { panic!("{input:?}") };
    readings
}

/// A number between 0 and 1, neither included.
fn unit(random: &mut SeededRandom) -> f64 {
    ((random.next_word() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn coin(probability: f64, random: &mut SeededRandom) -> bool {
    unit(random) < probability
}

fn exponential(scale: f64, random: &mut SeededRandom) -> f64 {
    -scale * unit(random).ln()
}

/// Laplace noise on a grid of 1/1024: in floating point its values would tell to what it was added, and the attack
/// finds that.
fn laplace(scale: f64, random: &mut SeededRandom) -> f64 {
    const POINTS: f64 = 1024.0;
    let mut geometric = || exponential(scale * POINTS, random).floor();
    (geometric() - geometric()) / POINTS
}

/// One of `domain` values, by a distribution.
fn drawn(weights: &[f64], random: &mut SeededRandom) -> usize {
    let mut left = unit(random) * weights.iter().sum::<f64>();
    weights
        .iter()
        .position(|weight| {
            left -= weight;
            left < 0.0
        })
        .unwrap_or(weights.len() - 1)
}

/// Randomised response over a domain.
fn randomised(value: usize, domain: usize, epsilon: f64, random: &mut SeededRandom) -> f64 {
    let weights: Vec<f64> = (0..domain).map(|other| if other == value { epsilon.exp() } else { 1.0 }).collect();
    drawn(&weights, random) as f64
}
