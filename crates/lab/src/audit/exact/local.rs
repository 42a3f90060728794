//! Every sequence of decisions of a local mechanism.
//!
//! What the collector learns of one user, given what others report, is what this user answers. The questions follow
//! from all answers so far, and any answer is possible whatever a user holds; so two streams of one user differ in how
//! likely they make a transcript by the product, over the questions of a window that reached the user, of how likely
//! they make each answer. The largest loss is therefore the largest sum of the questions' losses over any window, any
//! slot and any sequence of decisions. Questions of one timestamp are about one value.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tidegate::local::{Local, LocalKind, LocalSettings, Step};
use tidegate_kernel::oracle::{Estimate, OracleKind};
use tidegate_kernel::simulation::estimate_of;
use tidegate_kernel::{Cohort, Epsilon, Question, SLOTS, SeededRandom, View};

use super::oracle::{laws, losses};
use crate::experiment::RunError;

/// The longest window whose decisions are enumerated.
const LONGEST_WINDOW: u64 = 12;

/// Two windows and a timestamp are run in all sequences of decisions, if that is no more than this; otherwise the first
/// window only.
const TIMESTAMPS: u64 = 9;

/// How often another answer is tried to bring a decision about. An answer that fits comes up in about every second try
/// where the mechanism leaves the choice.
const ATTEMPTS: u64 = 60;

/// How many users answer: so many that publishing is worth it even with the least that a mechanism proposes.
const USERS: f64 = 1e12;

/// The largest loss of a user over any window; `None` for mechanisms whose decisions are more than to publish or not,
/// and where there is too much to enumerate.
pub fn largest_loss(kind: LocalKind, settings: &LocalSettings) -> Result<Option<f64>, RunError> {
    let window = settings.window.get();
    if matches!(kind, LocalKind::Mtsp | LocalKind::MtspPopulation) || window > LONGEST_WINDOW {
        return Ok(None);
    }
    let length = if 2 * window < TIMESTAMPS { 2 * window + 1 } else { window };
    let tables = HashMap::new();
    let mut walk = Walk { kind, settings, length, tables, played: Vec::new(), largest: Some(0.0) };
    walk.descend()?;
    Ok(walk.largest)
}

/// A timestamp that was run, so that it can be run again: what was answered in each round, and what was asked.
struct Played {
    rounds: Vec<Vec<Option<Estimate>>>,
    questions: Vec<Question>,
}

struct Walk<'a> {
    kind: LocalKind,
    settings: &'a LocalSettings,
    length: u64,
    /// The losses of questions, by what they depend on; `None` where there are too many reports.
    tables: HashMap<(OracleKind, u32, Epsilon), Option<Vec<f64>>>,
    played: Vec<Played>,
    /// `None` once some question could not be enumerated.
    largest: Option<f64>,
}

impl Walk<'_> {
    /// All continuations of what was played.
    fn descend(&mut self) -> Result<(), RunError> {
        let timestamp = self.played.len() as u64;
        if timestamp == self.length {
            let questions: Vec<Question> = self.played.iter().flat_map(|played| &played.questions).cloned().collect();
            return self.note(&questions);
        }
        for wanted in [false, true] {
            for attempt in 0..ATTEMPTS {
                // Standing still is tried at both ends, since it is not known here which of them was released last.
                let share = if attempt % 2 == 0 { 0.1 } else { 0.9 };
                let played = self.play(timestamp, share, &mut SeededRandom::with_stream(attempt, timestamp))?;
                let published = played.rounds.len() > 1;
                if published == wanted {
                    self.played.push(played);
                    self.descend()?;
                    self.played.pop();
                    break;
                }
            }
        }
        Ok(())
    }

    /// Plays everything again from the beginning, and one timestamp more, at which a share of the population holds
    /// value 1.
    fn play(&self, timestamp: u64, share: f64, random: &mut SeededRandom) -> Result<Played, RunError> {
        let mut mechanism = Local::new(self.kind, *self.settings).map_err(RunError::unsupported)?;
        for (timestamp, played) in (0_u64..).zip(&self.played) {
            let mut step = mechanism.open(timestamp).map_err(RunError::failed)?;
            let mut rounds = played.rounds.iter();
            while let (Step::Ask(questions), Some(answers)) = (&step, rounds.next()) {
                step = mechanism.answer(questions, answers).map_err(RunError::failed)?;
            }
        }
        let mut played = Played { rounds: Vec::new(), questions: Vec::new() };
        let mut step = mechanism.open(timestamp).map_err(RunError::failed)?;
        while let Step::Ask(questions) = step {
            let answers: Result<Vec<_>, _> = questions.iter().map(|question| answer(question, share, random)).collect();
            let answers = answers?;
            step = mechanism.answer(&questions, &answers).map_err(RunError::failed)?;
            played.questions.extend(questions);
            played.rounds.push(answers);
        }
        Ok(played)
    }

    /// Takes note of the loss of a sequence of questions, to whichever user it is largest.
    fn note(&mut self, questions: &[Question]) -> Result<(), RunError> {
        for question in questions {
            if let Entry::Vacant(entry) = self.tables.entry((question.oracle, question.cells(), question.epsilon)) {
                let oracle = question.oracle().map_err(RunError::failed)?;
                entry.insert(laws(&oracle)?.map(|laws| losses(&laws)));
            }
        }
        // Between two borders all slots are asked the same.
        let mut slots = vec![0];
        for question in questions {
            if let Cohort::Slots { first, count } = question.cohort {
                #[allow(clippy::cast_possible_truncation)] // slots are counted modulo 2^16
                slots.extend([first, first.wrapping_add((count % SLOTS) as u16)]);
            }
        }
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let of_slot: Vec<&Question> = questions.iter().filter(|question| question.cohort.contains(slot)).collect();
            for start in 0..self.length {
                let window = start..start + self.settings.window.get();
                let mut sum = 0.0;
                for timestamp in window {
                    let at = || of_slot.iter().filter(|question| question.timestamp == timestamp);
                    match self.loss_at(at().copied()) {
                        Some(loss) => sum += loss,
                        None => {
                            self.largest = None;
                            return Ok(());
                        }
                    }
                }
                self.largest = self.largest.map(|largest| largest.max(sum));
            }
        }
        Ok(())
    }

    /// The most that the answers to some questions about one value can lose between two values of it.
    fn loss_at<'q>(&self, questions: impl Iterator<Item = &'q Question>) -> Option<f64> {
        let domain = self.settings.domain as usize;
        let mut sums = vec![0.0; domain * domain];
        for question in questions {
            let table = self.tables.get(&(question.oracle, question.cells(), question.epsilon))?.as_ref()?;
            // These mechanisms ask about the values themselves.
            if !matches!(question.view, View::Values | View::Mean) || table.len() != sums.len() {
                return None;
            }
            sums.iter_mut().zip(table).for_each(|(sum, loss)| *sum += loss);
        }
        Some(sums.into_iter().fold(0.0, f64::max))
    }
}

/// What a population of which a share holds value 1, and the rest value 0, answers.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below the largest
fn answer(question: &Question, share_of_ones: f64, random: &mut SeededRandom) -> Result<Option<Estimate>, RunError> {
    let users = USERS * question.cohort.share();
    let ones = (users * share_of_ones).round();
    let mut counts = vec![0; question.cells() as usize];
    counts[question.cell_of(1) as usize] += ones as u64;
    counts[question.cell_of(0) as usize] += (users.round() - ones) as u64;
    let oracle = question.oracle().map_err(RunError::failed)?;
    estimate_of(&oracle, &counts, random).map(Some).map_err(RunError::failed)
}
