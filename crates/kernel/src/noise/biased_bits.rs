//! Many biased coins at once.

use std::fmt;
use std::num::NonZeroU64;

use crate::random::Randomness;

/// Independent coins that each show 1 with probability exactly `q / 2^64`, drawn 64 at a time.
///
/// Eight coins have 256 outcomes. Laid end to end on the unit interval, each as long as its probability, they tell for
/// a uniform point which outcome it is. Sixteen bits of the point settle that by one look into a table, unless a
/// border between two outcomes runs through the point's cell, which happens for at most 255 of the 65,536 cells; then
/// further bits are drawn until the point is known to lie on one side of every border. Borders are stored exactly, as
/// integers over 2^512, so the distribution is exact. The cost is two random bits per coin.
#[derive(Clone)]
pub struct BiasedBits {
    /// For each cell the outcome that fills it, or `SPLIT`.
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
    /// Coins of probability `q / 2^64`.
    pub fn new(q: NonZeroU64) -> Self {
        let borders = borders(q);
        let mut cells = vec![SPLIT; CELLS].into_boxed_slice();
        for (outcome, start) in borders.iter().enumerate() {
            // The cells from the first that begins at or after the start to the last that ends at or before the end.
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

    /// 64 coins.
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

    /// Fills `words` with coins.
    pub fn fill(&self, words: &mut [u64], random: &mut impl Randomness) {
        for word in words {
            *word = self.next_word(random);
        }
    }

    /// The number of ones among `count` coins: a binomial number, exactly.
    pub fn count_ones(&self, count: u64, random: &mut impl Randomness) -> u64 {
        let whole: u64 = (0..count / 64).map(|_| u64::from(self.next_word(random).count_ones())).sum();
        match count % 64 {
            0 => whole,
            rest => whole + u64::from((self.next_word(random) >> (64 - rest)).count_ones()),
        }
    }

    /// The outcome for a point in a cell through which a border runs.
    #[cold]
    fn settle(&self, cell: u16, random: &mut impl Randomness) -> u16 {
        // Only the first word's lower 48 bits are still open; later words are drawn when a comparison asks for them.
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

/// A uniform point whose words are drawn when they are first needed.
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

/// Multiplies by a word. The product of eight words fits.
#[allow(clippy::cast_possible_truncation)] // splitting into words
fn multiply(product: &mut Wide, factor: u64) {
    let mut carry = 0;
    for word in product.iter_mut().rev() {
        let sum = u128::from(*word) * u128::from(factor) + carry;
        *word = sum as u64;
        carry = sum >> 64;
    }
}

/// Adds, dropping the carry out of the first word: only the end of the last outcome, which is not stored, has one.
#[allow(clippy::cast_possible_truncation)] // splitting into words
fn add(sum: &mut Wide, addend: &Wide) {
    let mut carry = 0_u128;
    for (target, addend) in sum.iter_mut().zip(addend).rev() {
        let total = u128::from(*target) + u128::from(*addend) + carry;
        *target = total as u64;
        carry = total >> 64;
    }
}
