//! How the noise of one step hangs together with that of the step before, exactly, where there are two symbols and two
//! steps: the example of the paper on sequence information privacy.
//!
//! The noise of a step is 1 where the answer is not the symbol.

use tidegate::sequence::hamming;
use tidegate::sequence::leakage::exact;
use tidegate::sequence::model::Model;
use tidegate_kernel::Epsilon;

use super::paper_crr_not_private;
use crate::experiment::RunError;

/// Two steps of a chain of two symbols.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoSteps {
    /// The probability that the first symbol is 1.
    pub first: f64,
    /// The probability that the second symbol is another than the first.
    pub flip: f64,
}

/// By which mechanism the two are answered, each at epsilon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answers {
    /// The library's channel for what is believed.
    Crr,
    /// As published, which is [not private](paper_crr_not_private).
    Published,
    /// As published, but as if the first answer said nothing about the second symbol.
    PublishedUnrelated,
}

/// What is to be said of the noise of both steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The correlation of the two symbols.
    pub symbols_correlation: f64,
    /// The correlation of the noise; 0 where one of the two never changes.
    pub correlation: f64,
    /// What the noise of one step tells about that of the other, in nats.
    pub information: f64,
    /// How often the second answer is wrong.
    pub second: f64,
    /// What both answers give away together of both symbols: their sequence information leakage.
    pub leakage: f64,
}

impl TwoSteps {
    /// The noise of both steps at an epsilon for each, by enumeration of all symbols and answers.
    ///
    /// ```
    /// use tidegate_lab::sequence::noise::{Answers, TwoSteps};
    ///
    /// let unrelated = TwoSteps { first: 0.5, flip: 0.5 }.noise("1".parse()?, Answers::Published)?;
    /// assert!(unrelated.information < 1e-12);
    /// let related = TwoSteps { first: 0.5, flip: 0.1 }.noise("1".parse()?, Answers::Published)?;
    /// assert!(related.second < unrelated.second);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Probabilities that are none.
    pub fn noise(self, epsilon: Epsilon, answers: Answers) -> Result<Noise, RunError> {
        let Self { first, flip } = self;
        let prior = [1.0 - first, first];
        let stays = [[1.0 - flip, flip], [flip, 1.0 - flip]];
        let model = Model::dense(prior.to_vec(), stays.concat()).map_err(RunError::unsupported)?;
        let second_prior = [0, 1].map(|next| prior[0] * stays[0][next] + prior[1] * stays[1][next]);
        let channel = |belief: &[f64], step: usize| -> Result<Vec<Vec<f64>>, RunError> {
            match answers {
                Answers::Crr => Ok(hamming::channel(belief, epsilon).map_err(RunError::failed)?.dense()),
                Answers::PublishedUnrelated if step > 0 => Ok(paper_crr_not_private(&second_prior, epsilon.as_f64())),
                Answers::Published | Answers::PublishedUnrelated => Ok(paper_crr_not_private(belief, epsilon.as_f64())),
            }
        };
        let leakage = exact(&model, 1, 2, |before, belief| channel(belief, before.len())).map_err(RunError::failed)?;
        // joint[n1][n2]: how likely it is that the noise is n1 and then n2.
        let mut joint = [[0.0; 2]; 2];
        let of_first = channel(&prior, 0)?;
        for answer in [0, 1] {
            let seen: f64 = (0..2).map(|symbol| prior[symbol] * of_first[symbol][answer]).sum();
            if seen <= 0.0 {
                continue;
            }
            let posterior = [0, 1].map(|symbol| prior[symbol] * of_first[symbol][answer] / seen);
            let belief = [0, 1].map(|next| posterior[0] * stays[0][next] + posterior[1] * stays[1][next]);
            let of_second = channel(&belief, 1)?;
            for symbol in [0, 1] {
                for next in [0, 1] {
                    for second in [0, 1] {
                        joint[usize::from(symbol != answer)][usize::from(next != second)] +=
                            prior[symbol] * of_first[symbol][answer] * stays[symbol][next] * of_second[next][second];
                    }
                }
            }
        }
        let ones = prior[1] * stays[1][1];
        Ok(Noise {
            symbols_correlation: correlation(prior[1], second_prior[1], ones),
            correlation: correlation(joint[1][0] + joint[1][1], joint[0][1] + joint[1][1], joint[1][1]),
            information: information(&joint),
            second: joint[0][1] + joint[1][1],
            leakage: leakage.sequence,
        })
    }
}

/// The correlation of two bits, from how likely each is 1 and both are; 0 where one never changes.
fn correlation(one: f64, other: f64, both: f64) -> f64 {
    let variance = one * (1.0 - one) * other * (1.0 - other);
    if variance <= 1e-15 { 0.0 } else { (both - one * other) / variance.sqrt() }
}

fn information(joint: &[[f64; 2]; 2]) -> f64 {
    let term = |one: usize, other: usize| {
        let (here, row, column) = (joint[one][other], joint[one][0] + joint[one][1], joint[0][other] + joint[1][other]);
        if here <= 0.0 { 0.0 } else { here * (here / (row * column)).ln() }
    };
    [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().map(|(one, other)| term(one, other)).sum::<f64>().max(0.0)
}
