//! Drafts of independent coin flips, for domains of any size.

use std::num::NonZeroU64;

use crate::noise::Below;
use crate::oracle::unary::set_bit;
use crate::random::Randomness;

/// The draft contains each value independently with equal probability. A coarse probability near the wanted density
/// suffices and costs few random words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coins {
    positions: Positions,
    /// The probability of a coin is `numerator / 2^bits`.
    numerator: u32,
    bits: u32,
}

impl Coins {
    pub(super) fn new(domain: u32, size: u32) -> Self {
        let cost = |(numerator, bits): &(u32, u32)| {
            let density = f64::from(*numerator) / f64::from(1_u32 << bits);
            let elements = f64::from(domain);
            let gap = f64::from(size) - density * elements;
            let spread = elements * density * (1.0 - density);
            let corrections = (gap * gap + 0.64 * spread).sqrt();
            let hit_rate = if gap >= 0.0 { 1.0 - f64::from(size) / elements } else { f64::from(size) / elements };
            let words = f64::from(*bits) * (elements / 64.0).ceil();
            words + 0.5 * corrections / hit_rate
        };
        let candidates = (1..=5_u32).flat_map(|bits| (1..1_u32 << bits).step_by(2).map(move |n| (n, bits)));
        let best = candidates.chain([(0, 0)]).min_by(|a, b| cost(a).total_cmp(&cost(b)));
        let (numerator, bits) = best.unwrap_or((0, 0));
        Self { positions: Positions::new(domain), numerator, bits }
    }

    /// Writes a set of `size` values. `own` says whether it contains `value`; the rest is uniform among the others.
    pub(super) fn draw(&self, value: u32, size: u32, own: bool, random: &mut impl Randomness, report: &mut [u8]) {
        let drafted = self.write(report, random);
        self.correct(report, value, drafted, size - u32::from(own), random);
        set_bit(report, value, own);
    }

    /// Writes a coin for each value, and returns the number of ones.
    fn write(&self, report: &mut [u8], random: &mut impl Randomness) -> u32 {
        let mut size = 0;
        let mut words = report.chunks_exact_mut(8);
        let mut values_left = self.positions.bound;
        for bytes in &mut words {
            let word = self.coins(values_left, random);
            values_left = values_left.saturating_sub(64);
            size += word.count_ones();
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            let word = self.coins(values_left, random);
            size += word.count_ones();
            let length = rest.len();
            rest.copy_from_slice(&word.to_le_bytes()[..length]);
        }
        size
    }

    /// Coins for the next 64 values, or for those left.
    #[inline]
    fn coins(&self, values_left: u32, random: &mut impl Randomness) -> u64 {
        // From the last binary digit to the first: "or" adds one half, "and" halves.
        let word = match (self.numerator, self.bits) {
            (1, 2) => random.next_word() & random.next_word(), // what small budgets want, without the loop
            _ => (0..self.bits).fold(0, |coins, digit| {
                let fair = random.next_word();
                if self.numerator >> digit & 1 == 1 { coins | fair } else { coins & fair }
            }),
        };
        word & u64::MAX >> 64_u32.saturating_sub(values_left)
    }

    /// Adds or removes random values other than `except` until `wanted` of them remain. `except` may be among the
    /// initial `size` values; whether it is in afterwards is unspecified.
    fn correct(&self, report: &mut [u8], except: u32, size: u32, wanted: u32, random: &mut impl Randomness) {
        let size = size - u32::from(report[(except / 8) as usize] >> (except % 8) & 1);
        let adding = size < wanted;
        // If in, `except` cannot be added; if out, it cannot be removed.
        set_bit(report, except, adding);
        let mut left = size.abs_diff(wanted);
        while left > 0 {
            // Branch-free: a misprediction would cost more than the draw.
            self.positions.draw(random, |position, is_fair| {
                let byte = &mut report[(position / 8) as usize];
                let is_in = *byte >> (position % 8) & 1;
                let change = (is_in ^ u8::from(adding)) & u8::from(is_fair) & u8::from(left > 0);
                *byte ^= change << (position % 8);
                left -= u32::from(change);
            });
        }
    }
}

/// Uniform values below a bound, four from each random word if the bound is small.
#[derive(Clone, Copy, Debug)]
struct Positions {
    bound: u32,
    below: Below,
    /// Sixteen-bit products with a low half below this would bias the result.
    reject_below: u32,
}

impl Positions {
    const SMALL: u32 = 1 << 14;

    fn new(bound: u32) -> Self {
        let below = Below::new(NonZeroU64::MIN.saturating_add(u64::from(bound) - 1));
        Self { bound, below, reject_below: (1 << 16) % bound }
    }

    /// Draws a few values. Those marked fair are uniform and independent; discard the others.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // below the bound, a u32
    fn draw(&self, random: &mut impl Randomness, mut hand_out: impl FnMut(u32, bool)) {
        if self.bound > Self::SMALL {
            return hand_out(self.below.sample(random) as u32, true);
        }
        let word = random.next_word();
        for piece in 0..4 {
            let product = (word >> (16 * piece) & 0xffff) as u32 * self.bound;
            hand_out(product >> 16, product & 0xffff >= self.reject_below);
        }
    }
}
