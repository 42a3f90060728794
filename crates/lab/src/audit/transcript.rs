//! The transcript audit: the exact privacy loss of transcripts that are chosen to be the worst.
//!
//! A mechanism runs on one of two neighbouring streams, and a script chooses what each randomised step publishes. Then
//! it [replays](tidegate_kernel::simulation::Transcript::replay) on the other stream, with every step made to publish
//! the same. The difference of the two log-likelihoods is the loss of that transcript, without any confidence level. A
//! replay that does anything else (another step, other public parameters, another spend, another release) shows a
//! decision that looks at raw data: an infinite loss.
//!
//! Which transcripts are examined, for each pair of streams:
//!
//! - all of them, where they are few;
//! - otherwise all sequences of decisions, up to a limit: each noisy number or test that stands alone is far above and
//!   far below, or yes and no. What else is published is chosen, step by step, to speak for the one stream, and then
//!   for the other;
//! - and some that are chosen at random and improved in the same way.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_kernel::SeededRandom;
use tidegate_kernel::noise::Below;
use tidegate_kernel::simulation::{Choice, Transcript as Steps};

use super::{Input, Target, Transcript};
use crate::experiment::RunError;

/// How many transcripts are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// All transcripts of a pair of streams are examined if there are no more than this.
    pub all: usize,
    /// The largest number of sequences of decisions for each pair.
    pub decisions: usize,
    /// The number of transcripts for each pair that are chosen at random before they are improved.
    pub random: u64,
    /// Where the random choices come from.
    pub seed: u64,
}

impl Search {
    /// A search of a second or so for most mechanisms.
    pub const QUICK: Self = Self { all: 500, decisions: 64, random: 24, seed: 1 };

    /// A search that examines ten times as many.
    pub const THOROUGH: Self = Self { all: 5_000, decisions: 512, random: 300, seed: 1 };
}

/// The worst transcript that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Its loss: infinite where a replay could not follow.
    pub loss: f64,
    /// The neighbouring streams.
    pub pair: String,
    /// How many transcripts were examined.
    pub transcripts: u64,
}

/// How often a transcript is improved at most.
const IMPROVEMENTS: usize = 3;

/// How many different coins of a mechanism's own are tried, where it draws some.
const COINS: u64 = 4;

/// Searches for the transcript with the largest loss, over all pairs of neighbouring streams.
///
/// # Errors
/// Runs that fail.
pub fn examine(target: &dyn Target, search: &Search) -> Result<Worst, RunError> {
    let mut worst = Worst { loss: 0.0, pair: String::new(), transcripts: 0 };
    for pair in target.pairs_for_transcripts() {
        let (one, other) = (target.streams(&pair.one), target.streams(&pair.other));
        let mut hunt = Hunt { target, one: &one, other: &other, largest: 0.0, transcripts: 0 };
        hunt.run(search)?;
        worst.transcripts += hunt.transcripts;
        if worst.pair.is_empty() || hunt.largest > worst.loss {
            (worst.loss, worst.pair) = (hunt.largest, pair.name);
        }
    }
    Ok(worst)
}

/// Options by the number of the step.
type Choices = HashMap<usize, usize>;

/// A transcript on one stream, and its replay on the other.
struct Examined {
    steps: Arc<Steps>,
    replayed: Steps,
}

/// The search on one pair of neighbouring streams, each a mixture.
struct Hunt<'a> {
    target: &'a dyn Target,
    one: &'a [(f64, Input)],
    other: &'a [(f64, Input)],
    largest: f64,
    transcripts: u64,
}

impl Hunt<'_> {
    fn run(&mut self, search: &Search) -> Result<(), RunError> {
        let first = self.examine(0, Choices::new(), search.seed, 0)?;
        let ways =
            first.steps.steps().iter().try_fold(1_usize, |ways, step| ways.checked_mul(step.options.len().max(1)));
        let coins = if first.steps.words() > 0 { COINS } else { 1 };
        if ways.is_some_and(|ways| ways <= search.all) {
            for seed in 0..coins {
                self.walk(search.seed + seed, usize::MAX, search.all, |_, _| true, None)?;
            }
            return Ok(());
        }
        for seed in 0..coins {
            for for_one in [true, false] {
                self.walk(search.seed + seed, 2, search.decisions, is_decision, Some(for_one))?;
            }
        }
        for number in 1..=search.random {
            for for_one in [true, false] {
                let examined = self.examine(number, Choices::new(), search.seed + number, number)?;
                self.improve(examined, &Choices::new(), for_one, search.seed + number, number)?;
            }
        }
        Ok(())
    }

    /// Goes through all sequences of choices among the first `ways` options of the steps that `branches` names, up to a
    /// limit. With a stream to speak for, the other steps are chosen for it.
    fn walk(
        &mut self,
        seed: u64,
        ways: usize,
        limit: usize,
        branches: impl Fn(&Steps, usize) -> bool,
        for_one: Option<bool>,
    ) -> Result<(), RunError> {
        let mut open = vec![(Choices::new(), 0)];
        let mut seen = 0;
        while let Some((choices, from)) = open.pop() {
            if seen == limit {
                break;
            }
            seen += 1;
            let examined = self.examine(0, choices.clone(), seed, 0)?;
            // Each other choice at a later step begins a sequence of its own; before it, all is as it was here.
            for (index, step) in examined.steps.steps().iter().enumerate().skip(from) {
                if branches(&examined.steps, index) {
                    for option in 1..step.options.len().min(ways) {
                        let earlier = choices.iter().filter(|(at, _)| **at < index).map(|(at, option)| (*at, *option));
                        open.push((earlier.chain([(index, option)]).collect(), index + 1));
                    }
                }
            }
            if let Some(for_one) = for_one {
                let steps = Arc::clone(&examined.steps);
                let decided = (0..steps.steps().len()).filter(|index| branches(&steps, *index));
                let decided = decided.map(|index| (index, choices.get(&index).copied().unwrap_or(0))).collect();
                self.improve(examined, &decided, for_one, seed, 0)?;
            }
        }
        Ok(())
    }

    /// Chooses again, at each step but those that are decided, what speaks most for a stream, until nothing changes.
    fn improve(
        &mut self,
        mut examined: Examined,
        decided: &Choices,
        for_one: bool,
        seed: u64,
        style: u64,
    ) -> Result<(), RunError> {
        for _ in 0..IMPROVEMENTS {
            let mut choices = decided.clone();
            for (index, (one, other)) in examined.steps.steps().iter().zip(examined.replayed.steps()).enumerate() {
                let speaks = |option: usize| {
                    let loss = one.log_likelihoods[option] - other.log_likelihoods[option];
                    if for_one { loss } else { -loss }
                };
                let chosen = one.options.iter().position(|option| *option == one.output).unwrap_or(0);
                let options = one.log_likelihoods.len().min(other.log_likelihoods.len());
                let best = (0..options)
                    .fold(chosen, |best, option| if speaks(option) > speaks(best) + 1e-12 { option } else { best });
                choices.entry(index).or_insert(best);
            }
            let next = self.examine(0, choices, seed, style)?;
            let is_settled = next.steps.steps() == examined.steps.steps();
            examined = next;
            if is_settled {
                break;
            }
        }
        Ok(())
    }

    /// Runs one stream with these choices, and others by a style, replays on all streams, and takes note of the loss.
    fn examine(&mut self, which: u64, choices: Choices, seed: u64, style: u64) -> Result<Examined, RunError> {
        #[allow(clippy::cast_possible_truncation)] // reduced to a place in a short list
        let recorded_on = &self.one[(which % self.one.len() as u64) as usize].1;
        let mut other_choices = styled(style);
        let script = move |choice: Choice<'_>| {
            let styled = other_choices(&choice);
            choices.get(&choice.step).copied().unwrap_or(styled)
        };
        let mut random = SeededRandom::scripted(seed, Box::new(script));
        let releases = self.target.observe(recorded_on, &mut random)?;
        let steps = Arc::new(transcript_of(random)?);
        let of_one = match self.one {
            [(log_probability, _)] => Some(log_probability + steps.log_likelihood()),
            mixture => self.likelihood(mixture, &steps, &releases)?.0,
        };
        let (of_other, replayed) = self.likelihood(self.other, &steps, &releases)?;
        self.transcripts += 1;
        let loss = match (of_one, of_other) {
            (Some(one), Some(other)) => (one - other).abs(),
            _ => f64::INFINITY,
        };
        // No comparison with NaN holds: kept as it is, and found broken.
        if loss.is_nan() || loss > self.largest {
            self.largest = loss;
        }
        Ok(Examined { steps, replayed })
    }

    /// The log-likelihood of a transcript and its releases on a mixture of streams, and the replay on the last of them;
    /// `None` where a replay could not follow.
    fn likelihood(
        &self,
        streams: &[(f64, Input)],
        steps: &Arc<Steps>,
        releases: &Transcript,
    ) -> Result<(Option<f64>, Steps), RunError> {
        let mut logs = Vec::with_capacity(streams.len());
        let mut last = None;
        for (log_probability, stream) in streams {
            let mut random = steps.replay();
            let seen = self.target.observe(stream, &mut random);
            let replayed = transcript_of(random)?;
            // A mechanism that fails on one stream only has told them apart, as one that releases something else.
            let follows = seen.is_ok_and(|seen| seen == *releases) && steps.is_followed_by(&replayed);
            logs.push(follows.then(|| log_probability + replayed.log_likelihood()));
            last = Some(replayed);
        }
        let largest = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        // With a single stream, its own logarithm; a stream of no probability has no part in the sum.
        let sum = logs.iter().map(|log| log.map(|log| (log - largest).exp())).sum::<Option<f64>>();
        let last = last.ok_or_else(|| RunError::failed("a pair of streams without a stream"))?;
        Ok((sum.map(|sum| if largest == f64::NEG_INFINITY { largest } else { largest + sum.ln() }), last))
    }
}

fn transcript_of(random: SeededRandom) -> Result<Steps, RunError> {
    random.into_transcript().ok_or_else(|| RunError::failed("a run without a transcript"))
}

/// Whether a step stands alone in its call and is a number or a test: what decisions are made of.
fn is_decision(steps: &Steps, index: usize) -> bool {
    let steps = steps.steps();
    let step = &steps[index];
    let is_alone =
        |other: Option<&tidegate_kernel::simulation::TranscriptStep>| other.is_none_or(|other| other.call != step.call);
    let before = index.checked_sub(1).and_then(|before| steps.get(before));
    is_alone(before) && is_alone(steps.get(index + 1)) && DECIDING.contains(&step.law)
}

/// The laws of steps that decisions are made of.
const DECIDING: [&str; 5] = [
    "discrete Laplace",
    "sampled distance",
    "test of a group",
    "test with a public threshold",
    "test with a noisy threshold",
];

/// The first option for style zero; otherwise random ones, often the same several times in a row, since answers that
/// agree decide more.
fn styled(style: u64) -> impl FnMut(&Choice<'_>) -> usize + Send {
    let mut random = SeededRandom::with_stream(style, 2);
    let mut last = 0;
    move |choice| {
        if style == 0 {
            return 0;
        }
        let mut draw = |bound: usize| {
            let bound = std::num::NonZeroU64::new(bound as u64).unwrap_or(std::num::NonZeroU64::MIN);
            usize::try_from(Below::new(bound).sample(&mut random)).unwrap_or(0)
        };
        if draw(3) == 0 || last >= choice.options.len() {
            last = draw(choice.options.len());
        }
        last
    }
}
