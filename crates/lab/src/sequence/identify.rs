//! Who released a sequence: an attacker who knows a Markov chain of each person, and takes the likeliest.
//!
//! The attacker has two forms. One takes answers for symbols. The other knows the mechanism, as everybody does: it
//! computes how likely each person is to release exactly this, by the forward algorithm with that person's chain and
//! the mechanism's own channels. Among attackers with these chains, none is right more often.

use std::sync::Arc;

use tidegate::sequence::baseline::{self, Baseline, BaselineKind};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::crr::{self, Crr};
use tidegate::sequence::distance::Distance;
use tidegate::sequence::effort::Effort;
use tidegate::sequence::model::Model;
use tidegate::sequence::support;
use tidegate_kernel::primitives::{ChannelLimits, SymbolBatch, SymbolChannel};
use tidegate_kernel::{Epsilon, Ledger, SeededRandom, Window};

use super::{SUPPORT, answer_of, column};
use crate::experiment::RunError;

/// How symbols are released.
#[derive(Clone, Debug)]
pub enum Way {
    /// Randomised response, without a model.
    Rr,
    /// One at a time.
    Crr(Distance),
    /// So many at a time.
    Batched(Distance, u32),
}

/// What an attacker concludes from one release.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// What was released.
    pub answers: Vec<u32>,
    /// For each person, the log-likelihood of the answers as if they were symbols.
    pub by_answers: Vec<f64>,
    /// For each person, the log-likelihood of the answers through the mechanism.
    pub by_mechanism: Vec<f64>,
}

/// The likeliest person, the first of several.
pub fn likeliest(evidence: &[f64]) -> usize {
    let mut best = 0;
    for (person, likelihood) in evidence.iter().enumerate() {
        if *likelihood > evidence[best] {
            best = person;
        }
    }
    best
}

/// Log-likelihood of a sequence of symbols under a chain.
pub fn log_likelihood(model: &Model, symbols: &[u32]) -> f64 {
    let mut before = None;
    let mut present: Option<u32> = None;
    let mut sum = 0.0;
    for &symbol in symbols {
        sum += match present {
            None => model.prior()[symbol as usize].ln(),
            Some(present) => model.transition(before, present, symbol).ln(),
        };
        (before, present) = (present, Some(symbol));
    }
    sum
}

/// Releases a sequence, each symbol at epsilon, with a public model, while an attacker watches who knows the chain of
/// each person.
pub fn watch(
    way: &Way,
    public: &Arc<Model>,
    people: &[Model],
    (symbols, epsilon): (&[u32], Epsilon),
    random: &mut SeededRandom,
) -> Result<Watched, RunError> {
    let mut beliefs: Vec<Belief> = people.iter().map(Belief::new).collect();
    let answers = match way {
        Way::Rr => {
            let settings = baseline::BaselineSettings::new(public.domain(), epsilon);
            let mut mechanism = Baseline::new(BaselineKind::Rr, settings).map_err(RunError::unsupported)?;
            let domain = f64::from(public.domain());
            let independent = domain / (epsilon.as_f64().exp() + domain - 1.0);
            let uniform = vec![1.0 / domain; public.domain() as usize];
            let mut answers = Vec::with_capacity(symbols.len());
            for (timestamp, symbol) in (0..).zip(symbols) {
                let sealed = mechanism.seal(timestamp, *symbol).map_err(RunError::failed)?;
                let answer = answer_of(&mechanism.step(&sealed, random).map_err(RunError::failed)?)?;
                let channel = column(&uniform, answer, independent).map_err(RunError::failed)?;
                for (model, belief) in people.iter().zip(&mut beliefs) {
                    belief.release(model, &channel, answer).map_err(RunError::failed)?;
                }
                answers.push(answer);
            }
            answers
        }
        Way::Crr(distance) => {
            let settings = crr::CrrSettings { distance: distance.clone(), ..crr::CrrSettings::new(epsilon) };
            let mut mechanism = Crr::new(Arc::clone(public), settings).map_err(RunError::unsupported)?;
            let mut answers = Vec::with_capacity(symbols.len());
            for (timestamp, symbol) in (0..).zip(symbols) {
                let channel = mechanism.channel().map_err(RunError::failed)?;
                let sealed = mechanism.seal(timestamp, *symbol).map_err(RunError::failed)?;
                let answer = answer_of(&mechanism.step(&sealed, random).map_err(RunError::failed)?)?;
                for (model, belief) in people.iter().zip(&mut beliefs) {
                    belief.release(model, &channel, answer).map_err(RunError::failed)?;
                }
                answers.push(answer);
            }
            answers
        }
        Way::Batched(distance, length) => {
            batches(public, people, &mut beliefs, (distance, *length), (symbols, epsilon), random)?
        }
    };
    let by_answers = people.iter().map(|model| log_likelihood(model, &answers)).collect();
    let by_mechanism = beliefs.iter().map(Belief::log_probability).collect();
    Ok(Watched { answers, by_answers, by_mechanism })
}

/// Whole batches; symbols after the last one are not released.
fn batches(
    public: &Model,
    people: &[Model],
    beliefs: &mut [Belief],
    (distance, length): (&Distance, u32),
    (symbols, epsilon): (&[u32], Epsilon),
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let too_much = || RunError::unsupported(format!("epsilon {epsilon} for each of {length} symbols is too much"));
    let whole = epsilon.checked_mul(u64::from(length)).ok_or_else(too_much)?;
    let limits = ChannelLimits::new(whole).map_err(RunError::unsupported)?;
    let mut ledger = Ledger::new(limits.loss(), Window::EVENT);
    let mut belief = Belief::new(public);
    let mut answers = Vec::with_capacity(symbols.len());
    for (timestamp, symbols) in (0..).zip(symbols.chunks_exact(length as usize)) {
        let over = support::channel(public, &belief, length, SUPPORT, whole, distance, Effort::Fast);
        let over = over.map_err(RunError::failed)?;
        let mut batch = SymbolBatch::wide(public.domain(), &[length]).map_err(RunError::failed)?;
        symbols.iter().try_for_each(|symbol| batch.push(*symbol)).map_err(RunError::failed)?;
        let kernel = SymbolChannel::new(&limits, over.channel().kernel_parts()).map_err(RunError::failed)?;
        for sealed in batch.seal_sequences(ledger.account(), timestamp).map_err(RunError::failed)? {
            let permit = ledger.spend(timestamp, limits.loss()).map_err(RunError::failed)?;
            let class = over.classes().classify(&sealed).map_err(RunError::failed)?;
            let output = kernel.answer(permit, &class, random).map_err(RunError::failed)?.into_value();
            over.release(public, &mut belief, output).map_err(RunError::failed)?;
            for (model, belief) in people.iter().zip(beliefs.iter_mut()) {
                over.release(model, belief, output).map_err(RunError::failed)?;
            }
            answers.extend(over.answers(output).unwrap_or_default());
        }
    }
    Ok(answers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {
    use super::*;
    use crate::sequence::drawn;

    /// Two people: one stays at a symbol, one hops.
    fn people() -> [Model; 2] {
        let chain = |stays: f64| {
            let row = |from: usize| (0..4).map(move |to| if from == to { stays } else { (1.0 - stays) / 3.0 });
            Model::dense(vec![0.25; 4], (0..4).flat_map(row).collect()).unwrap()
        };
        [chain(0.9), chain(0.2)]
    }

    fn sequence(model: &Model, random: &mut SeededRandom) -> Vec<u32> {
        let mut symbols = vec![drawn(model.prior(), random)];
        for _ in 1..24 {
            let last = symbols[symbols.len() - 1];
            let row: Vec<f64> = (0..4).map(|next| model.transition(None, last, next)).collect();
            symbols.push(drawn(&row, random));
        }
        symbols
    }

    fn right(way: &Way, epsilon: &str, of: fn(&Watched) -> &[f64]) -> f64 {
        let people = people();
        let public = Arc::new(Model::uniform(4).unwrap());
        let random = &mut SeededRandom::new(81);
        let mut right = 0;
        for _ in 0..100 {
            for (person, model) in people.iter().enumerate() {
                let symbols = sequence(model, random);
                let watched = watch(way, &public, &people, (&symbols, epsilon.parse().unwrap()), random).unwrap();
                assert_eq!(watched.answers.len(), 24);
                right += usize::from(likeliest(of(&watched)) == person);
            }
        }
        right as f64 / 200.0
    }

    /// Chance is one half; that 200 guesses are off by 0.17 has probability below a millionth.
    #[test]
    fn people_are_told_apart_by_as_much_as_is_released() {
        for way in [Way::Rr, Way::Crr(Distance::Hamming), Way::Batched(Distance::Hamming, 4)] {
            let much = if matches!(way, Way::Batched(..)) { "2.5" } else { "6" };
            let known = right(&way, much, |watched| &watched.by_mechanism);
            assert!(known > 0.9, "{way:?} {known}");
            let by_answers = right(&way, much, |watched| &watched.by_answers);
            assert!(by_answers > 0.8, "{way:?} {by_answers}");
            let little = right(&way, "0.01", |watched| &watched.by_mechanism);
            assert!((little - 0.5).abs() < 0.17, "{way:?} {little}");
        }
    }

    #[test]
    fn likelihoods_are_those_of_the_chain() {
        let [stays, _] = people();
        let expected = (0.25 * 0.9 * 0.1_f64 / 3.0).ln();
        assert!((log_likelihood(&stays, &[2, 2, 1]) - expected).abs() < 1e-12);
        assert_eq!((likeliest(&[-3.0, -1.0, -2.0]), likeliest(&[-1.0, -1.0])), (1, 0));
    }
}
