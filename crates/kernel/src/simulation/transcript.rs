//! Transcripts: the randomised steps of a run with their likelihoods, and replays on a neighbouring stream.

use std::fmt;
use std::sync::Arc;

use crate::epsilon::Epsilon;
use crate::random::SeededRandom;
use crate::step::StepLikelihood;

/// One randomised step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptStep {
    /// The name of the distribution.
    pub law: &'static str,
    /// The public parameters of the distribution.
    pub parameters: Vec<i128>,
    /// The published value.
    pub output: Vec<i64>,
    /// The natural log-probability of that value.
    pub log_likelihood: f64,
    /// Values that the script could choose from; empty unless the run was scripted.
    pub options: Vec<Vec<i64>>,
    /// The log-probabilities of the options.
    pub log_likelihoods: Vec<f64>,
    /// The number of the primitive call that the step belongs to.
    pub call: usize,
    /// Words drawn by the mechanism itself before the step.
    words: u128,
}

impl TranscriptStep {
    /// Whether two steps are equal, except for the likelihoods, which depend on secrets.
    fn is_like(&self, other: &Self) -> bool {
        (self.law, &self.parameters, self.call, self.words) == (other.law, &other.parameters, other.call, other.words)
    }
}

/// The randomised steps of a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    seed: u64,
    steps: Vec<TranscriptStep>,
    /// The cost of each primitive call.
    spends: Vec<Epsilon>,
    /// Words drawn by the mechanism itself.
    words: u128,
    /// Whether a replay diverged from its original.
    diverged: bool,
}

impl Transcript {
    /// The steps.
    pub fn steps(&self) -> &[TranscriptStep] {
        &self.steps
    }

    /// The cost of each primitive call.
    pub fn spends(&self) -> &[Epsilon] {
        &self.spends
    }

    /// The number of random words that the mechanism drew itself, independently of the data.
    pub const fn words(&self) -> u128 {
        self.words
    }

    /// Creates a generator that makes a run publish the values of this transcript.
    pub fn replay(self: &Arc<Self>) -> SeededRandom {
        SeededRandom::with_recorder(self.seed, Mode::Replay(Arc::clone(self)))
    }

    /// The natural log-probability of all published values.
    pub fn log_likelihood(&self) -> f64 {
        self.steps.iter().map(|step| step.log_likelihood).sum()
    }

    /// Whether a [replay](Self::replay) followed this transcript to its end: the same steps, parameters, costs and
    /// coins. A mechanism that deviates depends on raw data.
    pub fn is_followed_by(&self, replayed: &Self) -> bool {
        let alike = self.steps.len() == replayed.steps.len()
            && self.steps.iter().zip(&replayed.steps).all(|(one, other)| one.is_like(other));
        alike && !replayed.diverged && self.spends == replayed.spends && self.words == replayed.words
    }

    /// The privacy loss of this transcript against its replay on a neighbouring stream: the log-likelihood ratio.
    /// Infinite if the replay diverged, or if its probability of a published value is zero.
    pub fn loss(&self, replayed: &Self) -> f64 {
        if !self.is_followed_by(replayed) {
            return f64::INFINITY;
        }
        self.steps.iter().zip(&replayed.steps).map(|(one, other)| one.log_likelihood - other.log_likelihood).sum()
    }
}

/// A step whose value a script chooses.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The number of the step.
    pub step: usize,
    /// The number of the primitive call.
    pub call: usize,
    /// The name of the distribution.
    pub law: &'static str,
    /// The values to choose from; at least one.
    pub options: &'a [Vec<i64>],
}

/// Chooses what each step publishes, by the index of an option. An index beyond the last means the last.
pub type Script = Box<dyn FnMut(Choice<'_>) -> usize + Send>;

enum Mode {
    Record,
    Script(Script),
    Replay(Arc<Transcript>),
}

/// Records, scripts or replays a run.
pub(crate) struct Recorder {
    mode: Mode,
    transcript: Transcript,
    /// Separate generator for drawn outputs, so that the mechanism finds the same coins in every mode.
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

    /// Draws, chooses or repeats the value of a step, and records it.
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

/// Transcripts of a seeded generator.
impl SeededRandom {
    fn with_recorder(seed: u64, mode: Mode) -> Self {
        let mut random = Self::new(seed);
        random.recorder = Some(Box::new(Recorder::new(seed, mode)));
        random
    }

    /// Creates a generator that records each randomised step.
    pub fn recording(seed: u64) -> Self {
        Self::with_recorder(seed, Mode::Record)
    }

    /// Creates a generator that lets a script choose what each randomised step publishes. Coins that a mechanism draws
    /// itself come from the seed.
    pub fn scripted(seed: u64, script: Script) -> Self {
        Self::with_recorder(seed, Mode::Script(script))
    }

    /// The recorded transcript; `None` if the generator records nothing.
    pub fn into_transcript(mut self) -> Option<Transcript> {
        let words = self.drawn();
        let recorder = self.recorder.take()?;
        Some(Transcript { words, ..recorder.transcript })
    }
}
