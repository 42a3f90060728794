//! Budget division by need: a step that hardly differs from the last release repeats it, and saves its budget.
//!
//! Algorithm 1 of LDP-IDS (Ren et al. 2022), for one user's symbols, as the sequence-privacy paper takes it over. Half
//! of a window's budget, in equal shares, pays for a question at each step: is the symbol another than the last
//! answer? The other half pays for answers: a step is offered half of what the window has left. It is answered if the
//! question says that repeating is worse than an answer at that budget.
//!
//! "Worse" is in wrong symbols. Without a model, the question is randomised response on one bit, and an estimate from
//! it is compared with the share of wrong answers. With a model, it is a channel over the two classes "the last answer"
//! and "another", and the belief after it is compared with the expected distance of the next channel.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use tidegate::sequence::baseline::{self, Baseline, BaselineKind};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::channel::{Channel, Parts};
use tidegate::sequence::distance::Distance;
use tidegate::sequence::effort::{self, Effort};
use tidegate::sequence::hamming;
use tidegate::sequence::model::Model;
use tidegate_kernel::primitives::{ChannelLimits, SymbolChannel, seal_symbol};
use tidegate_kernel::{Epsilon, Ledger, SeededRandom, Window};

use super::answer_of;
use crate::experiment::RunError;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answerer<'a> {
    /// A baseline, over so many symbols.
    Baseline(BaselineKind, u32),
    /// A channel for what is believed.
    Crr(&'a Model, &'a Distance),
}

/// Amounts of a window.
struct Budget {
    question: Epsilon,
    /// Half of a window's budget, in units.
    answers: u64,
    /// Units spent on answers in the last steps of a window.
    spent: VecDeque<u64>,
    window: usize,
}

impl Budget {
    fn new(epsilon: Epsilon, window: NonZeroU32) -> Result<Self, RunError> {
        let too_little = || RunError::unsupported(format!("epsilon {epsilon} cannot be divided by {window}"));
        let question = epsilon.divided_by(2 * u64::from(window.get())).ok_or_else(too_little)?;
        let answers = epsilon.units() / 2;
        Ok(Self { question, answers, spent: VecDeque::new(), window: window.get() as usize })
    }

    /// What the next answer may spend: half of what is left.
    fn offer(&self) -> Option<Epsilon> {
        let held = self.window.saturating_sub(1).min(self.spent.len());
        let spent: u64 = self.spent.iter().rev().take(held).sum();
        Epsilon::from_units(self.answers.saturating_sub(spent) / 2).ok()
    }

    fn note(&mut self, spent: Option<Epsilon>) {
        self.spent.push_back(spent.map_or(0, Epsilon::units));
        if self.spent.len() > self.window {
            self.spent.pop_front();
        }
    }
}

/// Answers a sequence at `epsilon` for each `window` of steps.
pub fn answer(
    answerer: Answerer<'_>,
    sequence: &[u32],
    epsilon: Epsilon,
    window: NonZeroU32,
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let mut budget = Budget::new(epsilon, window)?;
    let mut belief = match answerer {
        Answerer::Crr(model, _) => Some(Belief::new(model)),
        Answerer::Baseline(..) => None,
    };
    let mut answers: Vec<u32> = Vec::with_capacity(sequence.len());
    for symbol in sequence {
        let last = answers.last().copied();
        let offer = budget.offer();
        let (answer, spent) = match (answerer, &mut belief) {
            (Answerer::Crr(model, distance), Some(belief)) => {
                with_model((model, distance), belief, *symbol, last, (budget.question, offer), random)?
            }
            (Answerer::Baseline(kind, domain), _) => {
                let differs = match last {
                    None => true,
                    Some(last) => without_model(*symbol != last, kind, domain, (budget.question, offer), random)?,
                };
                match (offer.filter(|_| differs), last) {
                    (Some(offer), _) => (baseline_answer(kind, domain, offer, *symbol, random)?, Some(offer)),
                    (None, last) => (last.unwrap_or(domain / 2), None),
                }
            }
            (Answerer::Crr(..), None) => return Err(RunError::failed("a model without a belief")),
        };
        budget.note(spent);
        answers.push(answer);
    }
    Ok(answers)
}

fn baseline_answer(
    kind: BaselineKind,
    domain: u32,
    epsilon: Epsilon,
    symbol: u32,
    random: &mut SeededRandom,
) -> Result<u32, RunError> {
    let settings = baseline::BaselineSettings::new(domain, epsilon);
    let mut mechanism = Baseline::new(kind, settings).map_err(RunError::unsupported)?;
    let sealed = mechanism.seal(0, symbol).map_err(RunError::failed)?;
    answer_of(&mechanism.step(&sealed, random).map_err(RunError::failed)?)
}

/// Whether repeating seems worse than an answer: the bit, estimated without bias, against the share of wrong answers of
/// randomised response.
fn without_model(
    differs: bool,
    kind: BaselineKind,
    domain: u32,
    (question, offer): (Epsilon, Option<Epsilon>),
    random: &mut SeededRandom,
) -> Result<bool, RunError> {
    let Some(offer) = offer else { return Ok(false) };
    let bit = baseline_answer(BaselineKind::Rr, 2, question, u32::from(differs), random)?;
    let right = 1.0 / (1.0 + (-question.as_f64()).exp());
    let estimate = (f64::from(bit) - (1.0 - right)) / (2.0 * right - 1.0);
    let others = f64::from(domain) - 1.0;
    let wrong = match kind {
        BaselineKind::Rr => others / (others + offer.as_f64().exp()),
        // One of the reported symbols is drawn; its own is reported half of the time.
        BaselineKind::Oue => 1.0 - 0.5 / (1.0 + others / (offer.as_f64().exp() + 1.0)),
    };
    Ok(estimate > wrong)
}

fn with_model(
    (model, distance): (&Model, &Distance),
    belief: &mut Belief,
    symbol: u32,
    last: Option<u32>,
    (question, offer): (Epsilon, Option<Epsilon>),
    random: &mut SeededRandom,
) -> Result<(u32, Option<Epsilon>), RunError> {
    if let Some(last) = last {
        let channel = classes(belief.present(), last, question)?;
        let bit = through(&channel, question, symbol, random)?;
        belief.observe(model, &channel, bit).map_err(RunError::failed)?;
    }
    let (answer, spent) = match offer {
        Some(offer) => {
            let channel = effort::channel(belief.present(), offer, distance, Effort::Fast).map_err(RunError::failed)?;
            let wrong = |x: u32, y: u32| f64::from(u8::from(x != y));
            let cost = channel.expected_cost(belief.present(), wrong).map_err(RunError::failed)?;
            match last.filter(|last| 1.0 - belief.present()[*last as usize] <= cost) {
                Some(last) => (last, None),
                None => {
                    let answer = through(&channel, offer, symbol, random)?;
                    belief.observe(model, &channel, answer).map_err(RunError::failed)?;
                    (answer, Some(offer))
                }
            }
        }
        None => (last.unwrap_or_else(|| distance.best_answer(belief.present())), None),
    };
    belief.pass(model).map_err(RunError::failed)?;
    Ok((answer, spent))
}

/// The channel over "the last answer" and "another": outputs 0 and 1.
fn classes(present: &[f64], last: u32, epsilon: Epsilon) -> Result<Channel, RunError> {
    let same = present[last as usize].clamp(0.0, 1.0);
    let of_two = hamming::channel(&[1.0 - same, same], epsilon).map_err(RunError::failed)?;
    let mut mixture_of = vec![of_two.mixture_of()[0]; present.len()];
    mixture_of[last as usize] = of_two.mixture_of()[1];
    let parts = Parts {
        independent: of_two.independent(),
        outputs: of_two.outputs().to_vec(),
        rows: of_two.rows().to_vec(),
        mixtures: of_two.mixtures().to_vec(),
        mixture_of,
    };
    Channel::new(parts).map_err(RunError::failed)
}

/// A symbol's answer through a channel, by the kernel.
fn through(channel: &Channel, epsilon: Epsilon, symbol: u32, random: &mut SeededRandom) -> Result<u32, RunError> {
    if let [(only, _)] = channel.outputs() {
        return Ok(*only);
    }
    let limits = ChannelLimits::new(epsilon).map_err(RunError::unsupported)?;
    let kernel = SymbolChannel::new(&limits, channel.kernel_parts()).map_err(RunError::failed)?;
    let mut ledger = Ledger::new(limits.loss(), Window::EVENT);
    let sealed = seal_symbol(ledger.account(), 0, symbol, kernel.domain()).map_err(RunError::failed)?;
    let permit = ledger.spend(0, limits.loss()).map_err(RunError::failed)?;
    Ok(kernel.answer(permit, &sealed, random).map_err(RunError::failed)?.into_value())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Spends of any window stay within the half for answers, whatever is answered and whatever is repeated.
    #[test]
    fn answers_of_any_window_spend_at_most_half() {
        let window = NonZeroU32::new(4).unwrap();
        for decisions in 0_u32..1 << 12 {
            let mut budget = Budget::new("2".parse().unwrap(), window).unwrap();
            assert_eq!(budget.question.units() * 4, 1_000_000_000);
            let mut spends = Vec::new();
            for step in 0..12 {
                let offer = budget.offer().filter(|_| decisions >> step & 1 == 1);
                budget.note(offer);
                spends.push(offer.map_or(0, Epsilon::units));
            }
            assert!(spends.windows(4).all(|spends| spends.iter().sum::<u64>() <= 1_000_000_000), "{decisions:b}");
        }
    }

    #[test]
    fn a_symbol_that_stays_is_repeated_and_right() {
        let window = NonZeroU32::new(5).unwrap();
        let model =
            Model::dense(vec![1.0 / 3.0; 3], vec![0.98, 0.01, 0.01, 0.01, 0.98, 0.01, 0.01, 0.01, 0.98]).unwrap();
        let ways = [
            Answerer::Baseline(BaselineKind::Rr, 3),
            Answerer::Baseline(BaselineKind::Oue, 3),
            Answerer::Crr(&model, &Distance::Hamming),
        ];
        let sequence = [[2; 40], [0; 40]].concat();
        for way in ways {
            let random = &mut SeededRandom::new(83);
            let answers = answer(way, &sequence, "20".parse().unwrap(), window, random).unwrap();
            let right = answers.iter().zip(&sequence).filter(|(one, other)| one == other).count();
            assert!(answers.len() == 80 && right > 50, "{way:?} {right}");
        }
    }
}
