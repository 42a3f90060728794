//! A sampler of many biased bits at once.

use std::fmt;
use std::num::NonZeroU64;

use crate::random::Randomness;

/// Independent bits, each 1 with probability exactly `q / 2^64`, drawn 64 at a time.
///
/// Eight bits are drawn by inversion. Their 256 outcomes divide the unit interval into parts as long as their
/// probabilities, and a uniform point selects one. A table look-up with 16 bits of the point decides, except in the at
/// most 255 of 65,536 cells that contain a border. There, further bits are drawn until the point is known to lie on one
/// side of every border. Borders are stored exactly, as integers over 2^512. The cost is two random bits per output
/// bit.
#[derive(Clone)]
pub struct BiasedBits {
    /// For each cell, the outcome that fills it, or `SPLIT`.
    cells: Box<[u16]>,
    /// `borders[k]`: the exact start of outcome `k`, over 2^512, most significant word first.
    borders: Box<[Wide]>,
}

const COINS: usize = 8;
const OUTCOMES: usize = 1 << COINS;
const CELLS: usize = 1 << 16;
const SPLIT: u16 = u16::MAX;

/// A fraction of 2^512, most significant word first.
type Wide = [u64; COINS];

impl BiasedBits {
    /// Bits of probability `q / 2^64`.
    pub fn new(q: NonZeroU64) -> Self {
        let borders = borders(q);
        let mut cells = vec![SPLIT; CELLS].into_boxed_slice();
        for (outcome, start) in borders.iter().enumerate() {
            // The cells that lie wholly between the start and the end.
            let starts_inside = start[0] << 16 != 0 || start[1..].iter().any(|word| *word != 0);
            let first = cell_of(start[0]) + usize::from(starts_inside);
            let end = borders.get(outcome + 1).map_or(CELLS, |end| cell_of(end[0]));
            if first < end {
                #[allow(clippy::cast_possible_truncation)] // below 256
                cells[first..end].fill(outcome as u16);
            }
        }
        Self { cells, borders }
    }

    /// Draws 64 bits.
    #[inline]
    pub fn next_word(&self, random: &mut impl Randomness) -> u64 {
        let points = [random.next_word(), random.next_word()];
        let mut word = 0;
        for (half, mut bits) in points.into_iter().enumerate() {
            for byte in 0..4 {
                #[allow(clippy::cast_possible_truncation)] // the low 16 bits, on purpose
                let cell = bits as u16;
                bits >>= 16;
                let outcome = match self.cells[usize::from(cell)] {
                    SPLIT => self.settle(cell, random),
                    outcome => outcome,
                };
                word |= u64::from(outcome) << (8 * (4 * half + byte));
            }
        }
        word
    }

    /// Fills `words` with bits.
    pub fn fill(&self, words: &mut [u64], random: &mut impl Randomness) {
        for word in words {
            *word = self.next_word(random);
        }
    }

    /// Draws the number of ones among `count` bits: an exact binomial variate.
    pub fn count_ones(&self, count: u64, random: &mut impl Randomness) -> u64 {
        let whole: u64 = (0..count / 64).map(|_| u64::from(self.next_word(random).count_ones())).sum();
        match count % 64 {
            0 => whole,
            rest => whole + u64::from((self.next_word(random) >> (64 - rest)).count_ones()),
        }
    }

    /// Draws the outcome for a point in a cell that contains a border.
    #[cold]
    fn settle(&self, cell: u16, random: &mut impl Randomness) -> u16 {
        // The lower 48 bits of the first word are drawn here, later words on demand.
        let first = (u64::from(cell) << 48) | (random.next_word() >> 16);
        let mut point = LazyPoint { words: [first, 0, 0, 0, 0, 0, 0, 0], known: 1 };
        let at_or_below = self.borders.partition_point(|border| point.is_at_or_above(border, random));
        #[allow(clippy::cast_possible_truncation)] // at most 256; the border of outcome 0 is 0, so at least 1
        let outcome = (at_or_below - 1) as u16;
        outcome
    }
}

impl fmt::Debug for BiasedBits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BiasedBits(..)")
    }
}

/// A uniform point whose words are drawn on demand.
struct LazyPoint {
    words: Wide,
    known: usize,
}

impl LazyPoint {
    fn is_at_or_above(&mut self, border: &Wide, random: &mut impl Randomness) -> bool {
        for (position, border) in border.iter().enumerate() {
            if position == self.known {
                self.words[position] = random.next_word();
                self.known += 1;
            }
            if self.words[position] != *border {
                return self.words[position] > *border;
            }
        }
        true
    }
}

#[allow(clippy::cast_possible_truncation)] // 16 bits remain
fn cell_of(first_word: u64) -> usize {
    (first_word >> 48) as usize
}

/// The exact starts of the 256 outcomes: sums of `q^ones (1-q)^zeros`.
fn borders(q: NonZeroU64) -> Box<[Wide]> {
    let complement = q.get().wrapping_neg();
    let probability: Vec<Wide> = (0..=COINS)
        .map(|ones| {
            let mut product = [0; COINS];
            product[COINS - 1] = 1;
            for coin in 0..COINS {
                multiply(&mut product, if coin < ones { q.get() } else { complement });
            }
            product
        })
        .collect();
    let mut start = [0; COINS];
    (0..OUTCOMES)
        .map(|outcome| {
            let here = start;
            add(&mut start, &probability[outcome.count_ones() as usize]);
            here
        })
        .collect()
}

/// Multiplies by a word. A product of eight words fits.
#[allow(clippy::cast_possible_truncation)] // splitting into words
fn multiply(product: &mut Wide, factor: u64) {
    let mut carry = 0;
    for word in product.iter_mut().rev() {
        let sum = u128::from(*word) * u128::from(factor) + carry;
        *word = sum as u64;
        carry = sum >> 64;
    }
}

/// Adds and drops the carry out of the first word. Only the end of the last outcome has one, and it is not stored.
#[allow(clippy::cast_possible_truncation)] // splitting into words
fn add(sum: &mut Wide, addend: &Wide) {
    let mut carry = 0_u128;
    for (target, addend) in sum.iter_mut().zip(addend).rev() {
        let total = u128::from(*target) + u128::from(*addend) + carry;
        *target = total as u64;
        carry = total >> 64;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use dashu::integer::UBig;

    use super::*;
    use crate::random::SeededRandom;

    fn wide(words: &Wide) -> UBig {
        words.iter().fold(UBig::ZERO, |sum, word| (sum << 64) + UBig::from(*word))
    }

    #[test]
    fn tables_hold_the_exact_distribution() {
        let half = 1 << 63;
        for q in [1, 2, 3, 1 << 16, 1 << 56, half - 1, half, half + 1, 0xdead_beef_0bad_cafe, 3 << 62, u64::MAX] {
            let bits = BiasedBits::new(NonZeroU64::new(q).unwrap());
            let q = UBig::from(q);
            let complement = (UBig::ONE << 64) - &q;
            let mut starts = vec![UBig::ZERO];
            for (outcome, border) in bits.borders.iter().enumerate() {
                assert_eq!(wide(border), starts[outcome]);
                let ones = outcome.count_ones() as usize;
                starts.push(&starts[outcome] + q.pow(ones) * complement.pow(COINS - ones));
            }
            assert_eq!(starts[OUTCOMES], UBig::ONE << 512);
            for (cell, &filled) in bits.cells.iter().enumerate() {
                let (low, high) = (UBig::from(cell) << 496, UBig::from(cell + 1) << 496);
                let outcome = starts.partition_point(|start| *start <= low) - 1;
                let expected = if high <= starts[outcome + 1] { u16::try_from(outcome).unwrap() } else { SPLIT };
                assert_eq!(filled, expected, "cell {cell}");
            }
        }
    }

    #[test]
    fn lazy_points_compare_like_whole_ones() {
        let mut words = [9; COINS];
        SeededRandom::new(3).fill_words(&mut words[1..]);
        let is_at_or_above = |border: Wide| {
            let mut point = LazyPoint { words: [9, 0, 0, 0, 0, 0, 0, 0], known: 1 };
            let mut random = SeededRandom::new(3);
            let first = point.is_at_or_above(&border, &mut random);
            // Known words are not drawn again.
            assert_eq!(point.is_at_or_above(&border, &mut random), first);
            first
        };
        assert!(is_at_or_above(words));
        for position in 0..COINS {
            let mut border = words;
            border[position] += 1;
            assert!(!is_at_or_above(border), "{position}");
            border[position] -= 2;
            assert!(is_at_or_above(border), "{position}");
        }
    }

    #[test]
    fn split_cells_are_settled_at_their_border() {
        let bits = BiasedBits::new(NonZeroU64::new(0x4000_1234_5678_9abc).unwrap());
        for cell in (0..=u16::MAX).filter(|cell| bits.cells[usize::from(*cell)] == SPLIT) {
            let seed = u64::from(cell);
            let first = (seed << 48) + (SeededRandom::new(seed).next_word() >> 16);
            // No border of this table has the same first word as the point.
            let expected = bits.borders.iter().take_while(|border| border[0] < first).count() - 1;
            assert_eq!(usize::from(bits.settle(cell, &mut SeededRandom::new(seed))), expected);
        }
    }

    #[test]
    fn filling_draws_the_same_words_in_order() {
        let bits = BiasedBits::new(NonZeroU64::new(1 << 60).unwrap());
        let mut words = [0; 5];
        bits.fill(&mut words, &mut SeededRandom::new(5));
        let mut random = SeededRandom::new(5);
        assert_eq!(words, [0; 5].map(|_| bits.next_word(&mut random)));
        assert_ne!(words, [0; 5]);
    }
}
