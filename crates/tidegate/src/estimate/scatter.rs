//! [`Scatter`]: by how much numbers differ at every timestamp from what moves.

use serde::{Deserialize, Serialize};

use super::bank::Estimates;

/// How far numbers lie, at each timestamp anew, from what the models of a bank follow: as counts do of people who toss
/// coins.
///
/// What a model follows is what the numbers have from one timestamp to the next. Where they scatter around it, what was
/// observed is farther off than the models say, by more the larger a number is. How much that is, is learned from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scatter {
    /// The variance to which the amounts are relative.
    reference: f64,
    /// The logarithms of how likely each amount is beside the likeliest: at first, and by what was observed.
    evidence: [f64; AMOUNTS.len()],
    /// Of each number that was observed last: what it has of its own at that timestamp, and the variance of what it may
    /// have besides.
    own: Vec<f64>,
    unknown: Vec<f64>,
}

/// By what variance numbers of a mean size may scatter, and how likely it is beforehand that they do not.
const AMOUNTS: [f64; 10] = [0.0, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
const NONE_AT_FIRST: f64 = 0.95;

/// How much is remembered from one observation to the next, of evidence that counts by so much: noise that has a
/// Laplace distribution is far off more often than a normal one.
const REMEMBERED: f64 = 0.99;
const COUNTS: f64 = 0.4;

/// Nothing that is saved is larger than this.
const LARGEST: f64 = 1e300;

/// No number scatters by less than one of this size beside the mean.
const SMALLEST: f64 = 0.1;

/// Evidence against an amount is never more than this, nor is more of it believed from one number at once, however far
/// that is off: it may have moved for good.
const MOST_EVIDENCE: f64 = 50.0;
const MOST_OF_ONE: f64 = 4.0;
const FARTHEST: f64 = 1e6;

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl Scatter {
    /// Of so many numbers, of which nothing is known. `reference`, which is positive, is about the variance with which
    /// they are going to be seen.
    pub(super) fn new(numbers: usize, reference: f64) -> Self {
        let none = vec![0.0; numbers];
        let mut evidence = [((1.0 - NONE_AT_FIRST) / NONE_AT_FIRST / (AMOUNTS.len() - 1) as f64).ln(); AMOUNTS.len()];
        evidence[0] = 0.0;
        Self { reference, evidence, own: none.clone(), unknown: none }
    }

    /// Whether a state that was loaded can be that of so many numbers.
    pub(super) fn fits(&self, numbers: usize) -> bool {
        let Self { reference, evidence, own, unknown } = self;
        reference.is_finite()
            && *reference > 0.0
            && *reference <= LARGEST
            && evidence.iter().all(|evidence| (-MOST_EVIDENCE..=0.0).contains(evidence))
            && own.len() == numbers
            && own.iter().all(|own| own.abs() <= LARGEST)
            && unknown.len() == numbers
            && unknown.iter().all(|unknown| (0.0..=LARGEST).contains(unknown))
    }

    /// The variance by which a number of the mean size scatters.
    pub(super) fn variance(&self) -> f64 {
        let weights = || self.evidence.iter().map(|evidence| evidence.exp());
        let sum: f64 = weights().zip(AMOUNTS).map(|(weight, amount)| weight * amount).sum();
        self.reference * sum / weights().sum::<f64>()
    }

    /// Learns from what was observed, with a variance, of numbers of which something else was expected.
    pub(super) fn learn(&mut self, expected: &Estimates, numbers: &[f64], variance: f64) {
        let Estimates { means, variances } = expected;
        let sizes = sizes(means);
        // How much likelier each amount made what was observed than none did.
        let likelier = AMOUNTS.map(|amount| {
            let of_one = |(((mean, uncertain), size), number): (((&f64, &f64), &f64), &f64)| {
                let without = uncertain + variance;
                let ratio = without / (without + amount * self.reference * size);
                let off = ((number - mean) / without.sqrt()).abs().min(FARTHEST);
                (0.5 * (off * off * (1.0 - ratio) + ratio.ln())).clamp(-MOST_OF_ONE, MOST_OF_ONE)
            };
            means.iter().zip(variances).zip(&sizes).zip(numbers).map(of_one).sum::<f64>()
        });
        for (evidence, likelier) in self.evidence.iter_mut().zip(likelier) {
            *evidence = REMEMBERED * *evidence + COUNTS * likelier;
        }
        let most = self.evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.evidence.iter_mut().for_each(|evidence| *evidence = (*evidence - most).max(-MOST_EVIDENCE));
    }

    /// Notes what numbers that were observed with a variance have of their own, where these variances were expected of
    /// what moves, and that is believed of it since.
    pub(super) fn take_in(&mut self, expected: &[f64], believed: &[f64], numbers: &[f64], variance: f64) {
        let (scatter, lost) = (self.variance(), 1.0 / numbers.len() as f64);
        let of_numbers = self.own.iter_mut().zip(&mut self.unknown).zip(expected.iter().zip(sizes(believed)));
        for (((own, unknown), (uncertain, size)), (number, believed)) in of_numbers.zip(numbers.iter().zip(believed)) {
            let (scatter, total) = (scatter * size, uncertain + variance);
            // What is off is shared out by variances: that of the scatter, of what is unknown about what moves, and of
            // the noise.
            let (of_scatter, not_followed) = (scatter / (total + scatter), variance / total);
            *own = of_scatter * (number - believed);
            // Their sum is taken to be as it moves, so what they have of their own on average is not made use of.
            *unknown = scatter * not_followed * not_followed * (1.0 - of_scatter * (1.0 - lost));
        }
    }

    /// Nothing is known of what numbers have of their own.
    pub(super) fn forget_own(&mut self) {
        self.own.fill(0.0);
        self.unknown.fill(0.0);
    }

    /// What each number has of its own where it was observed.
    pub(super) fn own(&self) -> &[f64] {
        &self.own
    }

    /// The variances that scatter adds to those of what is believed of the numbers: at the timestamp at which they were
    /// observed, or at any other.
    pub(super) fn adds(&self, believed: &[f64], observed: bool) -> Vec<f64> {
        if observed {
            return self.unknown.clone();
        }
        let variance = self.variance();
        sizes(believed).into_iter().map(|size| variance * size).collect()
    }

    /// What it adds to the mean squared error to expect, of numbers that are observed every `period` timestamps with a
    /// variance, where that of what moves is so much.
    pub(super) fn expected_error(&self, period: u64, variance: f64, error: f64) -> f64 {
        // What an error after an observation says of that before it.
        let unseen = if error < variance { 1.0 - error / variance } else { 0.0 };
        let total = variance / unseen.max(f64::MIN_POSITIVE);
        let scatter = self.variance();
        let where_observed = unseen * variance / (total + scatter);
        scatter * (1.0 - (1.0 - where_observed) / period.max(1) as f64)
    }
}

/// How large numbers are beside their mean.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn sizes(numbers: &[f64]) -> Vec<f64> {
    let mean = numbers.iter().map(|number| number.max(0.0)).sum::<f64>() / numbers.len() as f64;
    let size = |number: &f64| if mean > 0.0 { (number / mean).max(SMALLEST) } else { 1.0 };
    numbers.iter().map(size).collect()
}
