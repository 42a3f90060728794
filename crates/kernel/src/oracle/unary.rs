//! Unary encodings: one bit per value.

use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use crate::epsilon::{Epsilon, UNITS_PER_EPSILON};
use crate::interval::Interval;
use crate::noise::BiasedBits;
use crate::oracle::{MalformedReport, Support};
use crate::random::Randomness;
use crate::randomised_response::{MAX_DOMAIN, MAX_RESPONSE_EPSILON, ResponseError};

/// SUE or OUE. The bits of other values are 1 with probability `q`, the true value's bit with probability `1 - q` or
/// 1/2.
#[derive(Clone, Debug)]
pub(crate) struct Unary {
    codec: BitsCodec,
    own: OwnBit,
    /// `q · 2^64`, rounded up.
    q: NonZeroU64,
    /// Built when the first value is perturbed, because a server that only aggregates does not need it.
    bits: Arc<OnceLock<BiasedBits>>,
}

#[derive(Clone, Copy, Debug)]
enum OwnBit {
    Symmetric,
    FairCoin,
}

impl Unary {
    /// SUE: `q = 1/(e^{eps/2}+1)`; the loss is `2 ln((1-q)/q)`.
    pub(crate) fn symmetric(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        Self::new(domain, epsilon, OwnBit::Symmetric, Interval::exp(epsilon.units(), 2 * UNITS_PER_EPSILON))
    }

    /// OUE: `q = 1/(e^eps+1)`; the loss is `ln((1-q)/q)`.
    pub(crate) fn optimised(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        Self::new(domain, epsilon, OwnBit::FairCoin, epsilon.exp())
    }

    fn new(domain: u32, epsilon: Epsilon, own: OwnBit, odds: Interval) -> Result<Self, ResponseError> {
        let codec = BitsCodec::new(domain)?;
        let one = Interval::integer(1);
        let q = one.div(odds.add(one)).probability_up().and_then(NonZeroU64::new);
        match q {
            // At exactly one half a report would carry no information.
            Some(q) if q.get() < 1 << 63 && epsilon <= MAX_RESPONSE_EPSILON => {
                Ok(Self { codec, own, q, bits: Arc::default() })
            }
            _ => Err(ResponseError::Epsilon { given: epsilon }),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn support(&self) -> Support {
        let other = self.q.get() as f64 / 2_f64.powi(64);
        let own = match self.own {
            OwnBit::Symmetric => 1.0 - other,
            OwnBit::FairCoin => 0.5,
        };
        Support { own, other }
    }

    pub(crate) const fn codec(&self) -> &BitsCodec {
        &self.codec
    }

    /// The log-probability of a well-formed report.
    pub(crate) fn log_likelihood(&self, value: u32, report: &[u8]) -> f64 {
        let other = self.support().other;
        let (log_one, log_zero) = (other.ln(), (-other).ln_1p());
        let holds_own = report[(value / 8) as usize] >> (value % 8) & 1 == 1;
        let ones: u32 = report.iter().map(|byte| byte.count_ones()).sum();
        let other_ones = ones - u32::from(holds_own);
        let other_zeros = self.codec.domain - 1 - other_ones;
        let log_own = match (self.own, holds_own) {
            (OwnBit::Symmetric, true) => log_zero,
            (OwnBit::Symmetric, false) => log_one,
            (OwnBit::FairCoin, _) => 0.5_f64.ln(),
        };
        log_own + f64::from(other_ones) * log_one + f64::from(other_zeros) * log_zero
    }

    pub(crate) fn perturb(&self, value: u32, random: &mut impl Randomness, report: &mut [u8]) {
        let bits = self.bits.get_or_init(|| BiasedBits::new(self.q));
        let point = random.next_word();
        let own = match self.own {
            OwnBit::Symmetric => point >= self.q.get(),
            OwnBit::FairCoin => point >> 63 == 1,
        };
        let mut words = report.chunks_exact_mut(8);
        for bytes in &mut words {
            bytes.copy_from_slice(&bits.next_word(random).to_le_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            let length = rest.len();
            rest.copy_from_slice(&bits.next_word(random).to_le_bytes()[..length]);
        }
        self.codec.clear_padding(report);
        set_bit(report, value, own);
    }
}

/// Sets one bit of a little-endian bit vector.
pub(crate) fn set_bit(bytes: &mut [u8], position: u32, on: bool) {
    let byte = &mut bytes[(position / 8) as usize];
    let mask = 1 << (position % 8);
    *byte = (*byte & !mask) | (u8::from(on) * mask);
}

/// One bit per value; value 0 is the lowest bit of the first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitsCodec {
    domain: u32,
    /// The number of set bits in every report, if fixed.
    ones: Option<u32>,
}

impl BitsCodec {
    pub(crate) fn new(domain: u32) -> Result<Self, ResponseError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(ResponseError::Domain { given: u64::from(domain) });
        }
        Ok(Self { domain, ones: None })
    }

    pub(crate) const fn with_ones(self, ones: u32) -> Self {
        Self { ones: Some(ones), ..self }
    }

    pub(crate) const fn ones(&self) -> Option<u32> {
        self.ones
    }

    pub(crate) const fn length(&self) -> usize {
        self.domain.div_ceil(8) as usize
    }

    /// Whether all byte strings of the right length are reports.
    pub(crate) const fn accepts_anything(&self) -> bool {
        self.padding() == 0 && self.ones.is_none()
    }

    /// The unused bits of the last byte.
    const fn padding(&self) -> u8 {
        match self.domain % 8 {
            0 => 0,
            used => !0 << used,
        }
    }

    pub(crate) fn clear_padding(&self, report: &mut [u8]) {
        if let Some(last) = report.last_mut() {
            *last &= !self.padding();
        }
    }

    /// Checks a slice of the codec's length.
    #[inline]
    pub(crate) fn check(&self, report: &[u8]) -> Result<(), MalformedReport> {
        if report.last().is_some_and(|last| last & self.padding() != 0) {
            return Err(MalformedReport::Padding { domain: self.domain });
        }
        if let Some(expected) = self.ones {
            let given = count_ones(report);
            if given != expected {
                return Err(MalformedReport::Ones { given, expected });
            }
        }
        Ok(())
    }
}

fn count_ones(report: &[u8]) -> u32 {
    let (words, rest) = report.as_chunks::<8>();
    let whole: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    whole + rest.iter().map(|byte| byte.count_ones()).sum::<u32>()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use dashu::integer::UBig;
    use dashu::rational::RBig;

    use super::*;
    use crate::exact::{exp_bounds, many_epsilons};
    use crate::random::SeededRandom;

    #[test]
    fn the_true_bit_is_set_from_word_q_on() {
        // Exactly q of the 2^64 words are below q: a word equal to q sets the bit, a smaller one does not.
        let drawn = SeededRandom::new(6).next_word();
        for (q, expected) in [(drawn - 1, 1), (drawn, 1), (drawn + 1, 0)] {
            let (codec, q) = (BitsCodec::new(2).unwrap(), NonZeroU64::new(q).unwrap());
            let unary = Unary { codec, own: OwnBit::Symmetric, q, bits: Arc::default() };
            let mut report = [0];
            unary.perturb(0, &mut SeededRandom::new(6), &mut report);
            assert_eq!(report[0] & 1, expected);
        }
    }

    #[test]
    fn a_bit_loses_at_most_its_epsilon_exactly() {
        for units in many_epsilons(MAX_RESPONSE_EPSILON.units()) {
            let epsilon = Epsilon::from_units(units).unwrap();
            let cases = [
                (Unary::symmetric(2, epsilon).unwrap(), 2 * UNITS_PER_EPSILON),
                (Unary::optimised(100, epsilon).unwrap(), UNITS_PER_EPSILON),
            ];
            for (unary, denominator) in cases {
                // The odds (1 - q) / q of a bit are compared with e^epsilon or its root.
                let q = unary.q.get();
                let odds = RBig::from_parts(((UBig::ONE << 64) - UBig::from(q)).into(), UBig::from(q));
                let (below, above) = exp_bounds(units, denominator);
                assert!(odds <= below, "{epsilon} loses too much at q = {q}");
                let almost = RBig::from_parts(999_999_999.into(), 1_000_000_000_u64.into());
                assert!(odds >= above * almost, "{epsilon} wastes budget at q = {q}");
            }
        }
    }
}
