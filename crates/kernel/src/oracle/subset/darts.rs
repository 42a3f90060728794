//! Drafts of sampled positions ("darts"), for domains that fit into two words.

use std::num::NonZeroU64;

use crate::noise::Below;
use crate::random::{FEW, Randomness};

/// The draft contains the values that random darts hit among 128 positions. The number of distinct values varies
/// little, so fewer corrections are needed than with coins.
///
/// The first random word is shared: its high bits decide whether the true value is in, its other bits are darts that
/// add missing values.
#[derive(Clone, Debug)]
pub(super) struct Darts {
    /// For each position, the set of that one value; empty beyond the domain.
    board: Box<[Set; POSITIONS]>,
    /// Random words of a draft.
    words: usize,
    own: OwnCoin,
}

type Set = [u64; 2];

const POSITIONS: usize = 128;
const BITS_PER_DART: u32 = 7;
const DARTS_PER_WORD: u32 = u64::BITS / BITS_PER_DART;
const SHARED_DARTS: u32 = 7;
/// Including the shared word.
const MOST_WORDS: usize = FEW;

impl Darts {
    /// Creates drafts that contain the true value with probability `own_weight / total`. `None` if the domain is too
    /// large, or if other drafts are faster.
    pub(super) fn new(domain: u32, size: u32, own_weight: u64, total: NonZeroU64) -> Option<Self> {
        let elements = domain as usize;
        if !(POSITIONS / 2 + 1..=POSITIONS).contains(&elements) {
            return None;
        }
        let words = (1..MOST_WORDS).rev().find(|words| expected_hits(domain, *words) <= f64::from(size))?;
        // Far more values to add than shared darts.
        if f64::from(size) - expected_hits(domain, words) > f64::from(DARTS_PER_WORD) {
            return None;
        }
        let mut board = Box::new([[0; 2]; POSITIONS]);
        for (value, set) in board.iter_mut().enumerate().take(elements) {
            set[value / 64] = 1 << (value % 64);
        }
        Some(Self { board, words, own: OwnCoin::new(own_weight, total) })
    }

    /// Writes a set of `size` values that contains `value` with the true value's probability; the rest is uniform among
    /// the others.
    pub(super) fn draw(&self, value: u32, size: u32, random: &mut impl Randomness, report: &mut [u8]) {
        let own_set = self.board[value as usize];
        let words = random.next_few(self.words + 1);
        let mut shared = u64::from_le_bytes(words[0]);
        let mut set = without(self.hits(&words[1..]), own_set);
        let own = self.own.toss(shared >> (SHARED_DARTS * BITS_PER_DART), random);
        let wanted = size - u32::from(own);
        let mut count = count(set);
        if count > wanted {
            self.remove(&mut set, count - wanted, random);
            count = wanted;
        }
        // No dart can add the true value if it is in.
        let mut set = union(set, own_set);
        // All shared darts are tried in order, and the first that are needed are kept. Branch-free: a misprediction
        // would cost more.
        let missing = wanted - count;
        let (mut tried, mut added) = (set, 0);
        for _ in 0..SHARED_DARTS {
            let new = without(self.next_hit(&mut shared), tried);
            tried = union(tried, new);
            added += u32::from(new != [0; 2]);
            set = union(set, kept_if(added <= missing, new));
        }
        if added < missing {
            self.add(&mut set, missing - added, random);
        }
        let set = without(set, kept_if(!own, own_set));
        let bytes: [[u8; 8]; 2] = set.map(u64::to_le_bytes);
        let length = report.len();
        report.copy_from_slice(&bytes.as_flattened()[..length]);
    }

    /// The values hit by the darts of some words.
    #[inline]
    fn hits(&self, words: &[[u8; 8]]) -> Set {
        let mut set = [0; 2];
        for word in words {
            let mut word = u64::from_le_bytes(*word);
            for _ in 0..DARTS_PER_WORD {
                set = union(set, self.next_hit(&mut word));
            }
        }
        set
    }

    /// The value hit by the next dart of a word, or the empty set.
    #[inline]
    fn next_hit(&self, word: &mut u64) -> Set {
        #[allow(clippy::cast_possible_truncation)] // seven bits
        let position = *word as usize % POSITIONS;
        *word >>= BITS_PER_DART;
        self.board[position]
    }

    /// Adds values.
    #[cold]
    fn add(&self, set: &mut Set, mut missing: u32, random: &mut impl Randomness) {
        self.throw_while(random, |hit| {
            let new = without(hit, *set);
            *set = union(*set, new);
            missing -= u32::from(new != [0; 2]);
            missing > 0
        });
    }

    /// Removes values.
    #[cold]
    fn remove(&self, set: &mut Set, mut surplus: u32, random: &mut impl Randomness) {
        self.throw_while(random, |hit| {
            let rest = without(*set, hit);
            surplus -= u32::from(rest != *set);
            *set = rest;
            surplus > 0
        });
    }

    /// Throws darts until told to stop.
    #[inline]
    fn throw_while(&self, random: &mut impl Randomness, mut go_on: impl FnMut(Set) -> bool) {
        loop {
            let mut word = random.next_word();
            for _ in 0..DARTS_PER_WORD {
                if !go_on(self.next_hit(&mut word)) {
                    return;
                }
            }
        }
    }
}

/// The expected number of distinct values that the darts of some words hit. By multiplication: `powf` may differ
/// between platforms, and a device draws by this number.
fn expected_hits(domain: u32, words: usize) -> f64 {
    let darts = words * DARTS_PER_WORD as usize;
    #[allow(clippy::cast_precision_loss)] // 128
    let missed_by_one = 1.0 - 1.0 / POSITIONS as f64;
    f64::from(domain) * (1.0 - (0..darts).fold(1.0, |missed, _| missed * missed_by_one))
}

#[inline]
const fn union(first: Set, second: Set) -> Set {
    [first[0] | second[0], first[1] | second[1]]
}

#[inline]
const fn without(set: Set, other: Set) -> Set {
    [set[0] & !other[0], set[1] & !other[1]]
}

/// The set if the condition holds, else the empty set; branch-free.
#[inline]
const fn kept_if(keep: bool, set: Set) -> Set {
    let mask = (keep as u64).wrapping_neg();
    [set[0] & mask, set[1] & mask]
}

#[inline]
const fn count(set: Set) -> u32 {
    set[0].count_ones() + set[1].count_ones()
}

/// A Bernoulli sampler that needs few random bits. The first binary digits of a uniform number nearly always decide
/// whether it is below the probability.
#[derive(Clone, Copy, Debug)]
struct OwnCoin {
    /// The first digits of the probability.
    digits: u64,
    /// The remainder of the probability after those digits, as a share of the last digit's unit, over the bound of
    /// `rest_below`.
    rest: u64,
    rest_below: Below,
}

impl OwnCoin {
    const DIGITS: u32 = u64::BITS - SHARED_DARTS * BITS_PER_DART;

    #[allow(clippy::cast_possible_truncation)] // a weight is at most the total, a u64, and so is a remainder
    fn new(weight: u64, total: NonZeroU64) -> Self {
        let (scaled, bound) = (u128::from(weight) << Self::DIGITS, u128::from(total.get()));
        Self { digits: (scaled / bound) as u64, rest: (scaled % bound) as u64, rest_below: Below::new(total) }
    }

    /// Draws `true` with probability exactly `weight / total`, given uniform digits.
    #[inline]
    fn toss(&self, digits: u64, random: &mut impl Randomness) -> bool {
        if digits == self.digits { self.rest_below.sample(random) < self.rest } else { digits < self.digits }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn the_coin_is_exact() {
        // Of the 2^15 digits, those below the probability's give true, those above give false, and equality is decided
        // by a draw from `total` numbers. Together that is exactly the probability.
        for (weight, total) in [(1, 3), (7, 10), (731_058_578, 1_000_000_007), (u64::MAX / 3, u64::MAX), (5, 5)] {
            let coin = OwnCoin::new(weight, NonZeroU64::new(total).unwrap());
            let exact = u128::from(coin.digits) * u128::from(total) + u128::from(coin.rest);
            assert_eq!(exact, u128::from(weight) << OwnCoin::DIGITS, "{weight}/{total}");
            assert_eq!(coin.rest_below.bound(), total);
            let random = &mut SeededRandom::new(1);
            for digits in (0..1 << OwnCoin::DIGITS).filter(|digits| *digits != coin.digits) {
                assert_eq!(coin.toss(digits, random), digits < coin.digits);
            }
        }
        // A third is 10922 and two thirds of the last unit.
        let coin = OwnCoin::new(1, NonZeroU64::new(3).unwrap());
        let random = &mut SeededRandom::new(2);
        let shown = (0..30_000).filter(|_| coin.toss(coin.digits, random)).count();
        // Six standard deviations of 82: a false alarm has a probability of 2e-9.
        assert!(shown.abs_diff(20_000) < 490, "{shown}");
    }
}
