//! Hadamard response (Acharya, Sun and Zhang 2019).

use crate::epsilon::Epsilon;
use crate::oracle::Support;
use crate::oracle::choice::columns;
use crate::oracle::index_codec::IndexCodec;
use crate::random::Randomness;
use crate::randomised_response::{MAX_DOMAIN, RandomisedResponse, ResponseError};

/// Each value has a row of a Hadamard matrix, other than the constant first row. A report is a column: with probability
/// `e^eps/(e^eps+1)` a uniform one in which the row is +1, otherwise a uniform one in which it is -1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hadamard {
    response: RandomisedResponse,
    codec: IndexCodec,
}

impl Hadamard {
    pub(crate) fn new(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(ResponseError::Domain { given: u64::from(domain) });
        }
        Ok(Self { response: RandomisedResponse::new(2, epsilon)?, codec: IndexCodec::new(columns(domain)) })
    }

    pub(crate) fn support(&self) -> Support {
        Support { own: self.response.probability_of_truth(), other: 0.5 }
    }

    pub(crate) const fn codec(&self) -> &IndexCodec {
        &self.codec
    }

    /// The log-probability of a well-formed report.
    pub(crate) fn log_likelihood(&self, value: u32, report: &[u8]) -> f64 {
        let agrees = self.codec.read(report).is_ok_and(|column| ((value + 1) & column).count_ones().is_multiple_of(2));
        let sign = if agrees { self.response.probability_of_truth() } else { self.response.probability_of_other() };
        (2.0 * sign / f64::from(self.codec.bound())).ln()
    }

    #[inline]
    pub(crate) fn perturb(&self, value: u32, random: &mut impl Randomness, report: &mut [u8]) {
        let row = value + 1;
        #[allow(clippy::cast_possible_truncation)] // masked to below the number of columns, a u32
        let column = (random.next_word() & u64::from(self.codec.bound() - 1)) as u32;
        let wanted = self.response.sample(0, random);
        let sign = (row & column).count_ones() & 1;
        // Flipping a column bit that is set in the row changes the sign. That maps the columns of either sign one to
        // one onto the others, so the column stays uniform.
        let flip = (sign ^ wanted) * (row & row.wrapping_neg());
        self.codec.write(column ^ flip, report);
    }

    /// The number of reports that support each value, from the counts of columns, by a fast Walsh–Hadamard transform.
    pub(crate) fn supports(&self, columns: &[u64], domain: u32) -> Vec<u64> {
        let mut sums: Vec<i128> = columns.iter().map(|count| i128::from(*count)).collect();
        let mut half = 1;
        while half < sums.len() {
            for block in sums.chunks_exact_mut(2 * half) {
                let (left, right) = block.split_at_mut(half);
                for (a, b) in left.iter_mut().zip(right) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        let total = sums[0];
        // Agreeing minus disagreeing reports; the agreeing ones are half of the total plus half of that.
        let support = |difference: &i128| u64::try_from((total + difference) / 2).unwrap_or(0);
        sums[1..=domain as usize].iter().map(support).collect()
    }
}
