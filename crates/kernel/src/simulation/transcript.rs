//! Transcripts: the randomised steps of a run with their likelihoods, and the run of a neighbouring stream that is made
//! to publish the same.

use std::fmt;
use std::sync::Arc;

use crate::epsilon::Epsilon;
use crate::random::SeededRandom;
use crate::step::StepLikelihood;

/// One randomised step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptStep {
    /// The name of its probability law.
    pub law: &'static str,
    /// The public parameters of the law.
    pub parameters: Vec<i128>,
    /// The published value.
    pub output: Vec<i64>,
    /// The natural logarithm of the probability of that value.
    pub log_likelihood: f64,
    /// Values that could have been published instead, where the run was scripted.
    pub options: Vec<Vec<i64>>,
    /// The logarithms of their probabilities.
    pub log_likelihoods: Vec<f64>,
    /// The number of the primitive's call that the step belongs to.
    pub call: usize,
    /// How many words the mechanism had drawn for itself before the step.
    words: u128,
}

impl TranscriptStep {
    /// Whether another step is the same one: all but the likelihoods, which depend on secrets.
    fn is_like(&self, other: &Self) -> bool {
        (self.law, &self.parameters, self.call, self.words) == (other.law, &other.parameters, other.call, other.words)
    }
}

/// The randomised steps of a run, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    seed: u64,
    steps: Vec<TranscriptStep>,
    /// What each primitive's call cost.
    spends: Vec<Epsilon>,
    /// How many words the mechanism had drawn for itself at the end.
    words: u128,
    /// Whether a replay could not follow its original.
    diverged: bool,
}

impl Transcript {
    /// The steps.
    pub fn steps(&self) -> &[TranscriptStep] {
        &self.steps
    }

    /// The cost of each call of a primitive.
    pub fn spends(&self) -> &[Epsilon] {
        &self.spends
    }

    /// How many random words the mechanism has drawn for coins of its own, which depend on no data.
    pub const fn words(&self) -> u128 {
        self.words
    }

    /// A generator that makes a run publish what this transcript has.
    pub fn replay(self: &Arc<Self>) -> SeededRandom {
        SeededRandom::with_recorder(self.seed, Mode::Replay(Arc::clone(self)))
    }

    /// The natural logarithm of the probability of all published values.
    pub fn log_likelihood(&self) -> f64 {
        self.steps.iter().map(|step| step.log_likelihood).sum()
    }

    /// Whether a [replay](Self::replay) followed this transcript to its end: the same steps, parameters, costs and
    /// coins. A mechanism that does anything else has looked at raw data.
    pub fn is_followed_by(&self, replayed: &Self) -> bool {
        let alike = self.steps.len() == replayed.steps.len()
            && self.steps.iter().zip(&replayed.steps).all(|(one, other)| one.is_like(other));
        alike && !replayed.diverged && self.spends == replayed.spends && self.words == replayed.words
    }

    /// The privacy loss of this transcript against its replay on a neighbouring stream: the logarithm of how much
    /// likelier it is here. Infinite where the replay could not follow, or publishes something that it never would.
    pub fn loss(&self, replayed: &Self) -> f64 {
        if !self.is_followed_by(replayed) {
            return f64::INFINITY;
        }
        self.steps.iter().zip(&replayed.steps).map(|(one, other)| one.log_likelihood - other.log_likelihood).sum()
    }
}

/// A step that waits for a script's choice.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The number of the step.
    pub step: usize,
    /// The number of the primitive's call.
    pub call: usize,
    /// The name of its probability law.
    pub law: &'static str,
    /// The values to choose from; there is at least one.
    pub options: &'a [Vec<i64>],
}

/// Chooses what each step publishes, by the number of one of the options; a number beyond the last stands for the last.
pub type Script = Box<dyn FnMut(Choice<'_>) -> usize + Send>;

enum Mode {
    Record,
    Script(Script),
    Replay(Arc<Transcript>),
}

/// Follows a run, step by step.
pub(crate) struct Recorder {
    mode: Mode,
    transcript: Transcript,
    /// Where outputs come from that are drawn: words of their own, so that the mechanism finds the same coins in every
    /// mode.
    draws: SeededRandom,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Recorder(..)")
    }
}

impl Recorder {
    fn new(seed: u64, mode: Mode) -> Self {
        let transcript = Transcript { seed, steps: Vec::new(), spends: Vec::new(), words: 0, diverged: false };
        Self { mode, transcript, draws: SeededRandom::with_stream(seed, 1) }
    }

    /// Draws, chooses or repeats what a step publishes, and takes note of it.
    pub(crate) fn publish<L: StepLikelihood>(&mut self, law: &mut L, random: &mut SeededRandom) -> L::Output {
        let index = self.transcript.steps.len();
        let mut step = TranscriptStep {
            law: law.name(),
            parameters: law.parameters(),
            output: Vec::new(),
            log_likelihood: f64::NEG_INFINITY,
            options: Vec::new(),
            log_likelihoods: Vec::new(),
            call: self.transcript.spends.len(),
            words: random.drawn(),
        };
        let forced = match &mut self.mode {
            Mode::Record => None,
            Mode::Script(script) => {
                step.options = law.options();
                let choice = Choice { step: index, call: step.call, law: step.law, options: &step.options };
                let chosen = if step.options.is_empty() { 0 } else { script(choice).min(step.options.len() - 1) };
                step.options.get(chosen).cloned()
            }
            Mode::Replay(original) => match original.steps.get(index) {
                Some(recorded) if !self.transcript.diverged && recorded.is_like(&step) => {
                    step.options.clone_from(&recorded.options);
                    Some(recorded.output.clone())
                }
                _ => {
                    self.transcript.diverged = true;
                    None
                }
            },
        };
        let output = match forced {
            Some(numbers) => {
                step.output = numbers;
                law.published(&step.output)
            }
            None => {
                let drawn = random.on_words_of(&mut self.draws, |random| law.draw(random));
                step.output = law.numbers(&drawn);
                drawn
            }
        };
        step.log_likelihoods = step.options.iter().map(|option| law.log_likelihood(option)).collect();
        let known = step.options.iter().position(|option| *option == step.output);
        let known = known.and_then(|option| step.log_likelihoods.get(option).copied());
        step.log_likelihood = known.unwrap_or_else(|| law.log_likelihood(&step.output));
        self.transcript.steps.push(step);
        output
    }

    pub(crate) fn note_spend(&mut self, epsilon: Epsilon) {
        self.transcript.spends.push(epsilon);
    }
}

/// Transcripts of what a seeded generator randomises.
impl SeededRandom {
    fn with_recorder(seed: u64, mode: Mode) -> Self {
        let mut random = Self::new(seed);
        random.recorder = Some(Box::new(Recorder::new(seed, mode)));
        random
    }

    /// A generator that takes note of each randomised step.
    pub fn recording(seed: u64) -> Self {
        Self::with_recorder(seed, Mode::Record)
    }

    /// A generator that has a script choose what each randomised step publishes. Coins that a mechanism draws for
    /// itself come from the seed.
    pub fn scripted(seed: u64, script: Script) -> Self {
        Self::with_recorder(seed, Mode::Script(script))
    }

    /// What was recorded; `None` for a generator that records nothing.
    pub fn into_transcript(mut self) -> Option<Transcript> {
        let words = self.drawn();
        let recorder = self.recorder.take()?;
        Some(Transcript { words, ..recorder.transcript })
    }
}
