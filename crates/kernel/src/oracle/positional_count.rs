//! Positional population count: the number of set bits at each position of many bit vectors.

/// Counts set bits at each position, sixteen vectors at a time.
///
/// A carry-save adder tree adds sixteen vectors, 64 positions at once. The sums are kept as bit *planes*: plane k holds
/// bit k of all sums. Full planes are converted to numbers after 65,520 vectors. So a vector costs a few operations per
/// word, not one per bit.
#[derive(Clone, Debug)]
pub(crate) struct PositionalCount {
    words: usize,
    /// Up to sixteen pending vectors.
    block: Vec<u64>,
    waiting: usize,
    /// Word j of plane k is at `k · words + j`.
    planes: Vec<u64>,
    /// Number of blocks in the planes.
    blocks: usize,
    counts: Vec<u64>,
}

const BLOCK: usize = 16;
const PLANES: usize = 16;
/// Sixteen planes count at most 4095 blocks of sixteen.
const MAX_BLOCKS: usize = (1 << (PLANES - 4)) - 1;
/// Blocks added between loading and storing a few words of the planes; few enough for their vectors to stay in the
/// cache.
const BLOCKS_AT_ONCE: usize = 8;

impl PositionalCount {
    /// Creates counts for vectors of the given number of positions.
    pub(crate) fn new(positions: usize) -> Self {
        let words = positions.div_ceil(64);
        Self {
            words,
            block: vec![0; words * BLOCK],
            waiting: 0,
            planes: vec![0; words * PLANES],
            blocks: 0,
            counts: vec![0; positions],
        }
    }

    /// Adds a vector; position 0 is the lowest bit of the first byte.
    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let row = &mut self.block[self.waiting * self.words..][..self.words];
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, bytes) in row.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if !rest.is_empty()
            && let Some(last) = row.last_mut()
        {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            *last = u64::from_le_bytes(padded);
        }
        self.waiting += 1;
        if self.waiting == BLOCK {
            add_blocks(&self.block, self.words, 1, &mut self.planes, |word| *word);
            self.waiting = 0;
            self.note_blocks(1);
        }
    }

    /// Adds concatenated vectors of `length` bytes.
    pub(crate) fn add_batch(&mut self, batch: &[u8], length: usize) {
        let (words, rest) = batch.as_chunks::<8>();
        let aligned = length == 8 * self.words && rest.is_empty();
        let in_blocks = if aligned { words.len() / (BLOCK * self.words) * BLOCK } else { 0 };
        let (blocks, _) = words.split_at(in_blocks * self.words);
        for chunk in blocks.chunks(BLOCKS_AT_ONCE * BLOCK * self.words) {
            let count = chunk.len() / (BLOCK * self.words);
            self.make_room(count);
            add_blocks(chunk, self.words, count, &mut self.planes, |word| u64::from_le_bytes(*word));
            self.note_blocks(count);
        }
        for vector in batch[in_blocks * length..].chunks_exact(length) {
            self.add(vector);
        }
    }

    fn make_room(&mut self, blocks: usize) {
        if self.blocks + blocks > MAX_BLOCKS {
            unload(&mut self.planes, self.words, &mut self.counts);
            self.blocks = 0;
        }
    }

    /// Records added blocks, and makes room for one more.
    fn note_blocks(&mut self, blocks: usize) {
        self.blocks += blocks;
        self.make_room(1);
    }

    /// The counts.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let mut counts = self.counts.clone();
        unload(&mut self.planes.clone(), self.words, &mut counts);
        for row in self.block[..self.waiting * self.words].chunks_exact(self.words) {
            for (chunk, word) in counts.chunks_mut(64).zip(row) {
                for (bit, count) in chunk.iter_mut().enumerate() {
                    *count += word >> bit & 1;
                }
            }
        }
        counts
    }
}

/// Adds blocks of sixteen vectors to the planes, a few words of all blocks at a time.
fn add_blocks<T>(vectors: &[T], words: usize, blocks: usize, planes: &mut [u64], read: impl Fn(&T) -> u64 + Copy) {
    let mut first = 0;
    while first + 4 <= words {
        add_columns::<4, T>(vectors, words, first, blocks, planes, read);
        first += 4;
    }
    while first + 2 <= words {
        add_columns::<2, T>(vectors, words, first, blocks, planes, read);
        first += 2;
    }
    if first < words {
        add_columns::<1, T>(vectors, words, first, blocks, planes, read);
    }
}

/// Adds words `first..first + N` of blocks of sixteen vectors to their planes.
#[inline]
fn add_columns<const N: usize, T>(
    vectors: &[T],
    words: usize,
    first: usize,
    blocks: usize,
    planes: &mut [u64],
    read: impl Fn(&T) -> u64,
) {
    let mut plane: [[u64; N]; PLANES] = std::array::from_fn(|level| {
        let plane = &planes[level * words + first..][..N];
        std::array::from_fn(|lane| plane[lane])
    });
    for block in vectors.chunks_exact(BLOCK * words).take(blocks) {
        let row = |index: usize| -> [u64; N] {
            let row = &block[index * words + first..][..N];
            std::array::from_fn(|lane| read(&row[lane]))
        };
        // Pairs of weight 1 give carries of weight 2, pairs of those carries of weight 4, and so on.
        let two = |ones: &mut [u64; N], index: usize| full_adder(ones, row(index), row(index + 1));
        let four = |ones: &mut [u64; N], twos: &mut [u64; N], index: usize| {
            let (a, b) = (two(ones, index), two(ones, index + 2));
            full_adder(twos, a, b)
        };
        let [ones, twos, fours, eights, higher @ ..] = &mut plane;
        let (a, b) = (four(ones, twos, 0), four(ones, twos, 4));
        let first_eight = full_adder(fours, a, b);
        let (a, b) = (four(ones, twos, 8), four(ones, twos, 12));
        let second_eight = full_adder(fours, a, b);
        let mut carry = full_adder(eights, first_eight, second_eight);
        for level in higher {
            for lane in 0..N {
                (level[lane], carry[lane]) = (level[lane] ^ carry[lane], level[lane] & carry[lane]);
            }
        }
    }
    for (level, plane) in plane.iter().enumerate() {
        planes[level * words + first..][..N].copy_from_slice(plane);
    }
}

/// Full adder on each position: adds two bits to the sum and returns the carry.
#[inline]
fn full_adder<const N: usize>(sum: &mut [u64; N], a: [u64; N], b: [u64; N]) -> [u64; N] {
    std::array::from_fn(|lane| {
        let half = sum[lane] ^ a[lane];
        let carry = (sum[lane] & a[lane]) | (half & b[lane]);
        sum[lane] = half ^ b[lane];
        carry
    })
}

/// Adds the planes to the counts and clears them.
fn unload(planes: &mut [u64], words: usize, counts: &mut [u64]) {
    for (level, plane) in planes.chunks_exact_mut(words).enumerate() {
        for (word, counts) in plane.iter_mut().zip(counts.chunks_mut(64)) {
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += (*word >> bit & 1) << level;
            }
            *word = 0;
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;
    use crate::random::{Randomness, SeededRandom};

    #[test]
    fn counts_equal_those_of_a_bit_by_bit_loop() {
        for (positions, vectors) in [(1, 5), (7, 16), (64, 33), (65, 40), (200, 1_000), (512, 700), (513, 200)] {
            let mut random = SeededRandom::new(positions as u64);
            let mut fast = PositionalCount::new(positions);
            let mut slow = vec![0; positions];
            let mut batch = Vec::new();
            for _ in 0..vectors {
                let mut bytes = vec![0_u8; positions.div_ceil(8)];
                for position in 0..positions {
                    let bit = random.next_word() as u8 & 1;
                    bytes[position / 8] |= bit << (position % 8);
                    slow[position] += u64::from(bit);
                }
                fast.add(&bytes);
                batch.extend_from_slice(&bytes);
                if random.next_word().is_multiple_of(37) {
                    assert_eq!(fast.counts(), slow);
                }
            }
            assert_eq!(fast.counts(), slow);
            let mut in_batches = PositionalCount::new(positions);
            in_batches.add_batch(&batch, positions.div_ceil(8));
            in_batches.add_batch(&batch, positions.div_ceil(8));
            assert_eq!(in_batches.counts(), slow.iter().map(|count| 2 * count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn counts_stay_right_when_the_planes_overflow() {
        let mut count = PositionalCount::new(70);
        let vectors = 3 * BLOCK * MAX_BLOCKS + 5;
        for _ in 0..vectors {
            count.add(&[0b101, 0, 0, 0, 0, 0, 0, 0, 0b10_0000]);
        }
        let mut in_batches = PositionalCount::new(64);
        for _ in 0..vectors.div_ceil(100) {
            in_batches.add_batch(&[1; 800], 8);
        }
        assert_eq!(in_batches.counts()[8], vectors.div_ceil(100) as u64 * 100);
        let counts = count.counts();
        let set: Vec<usize> = (0..70).filter(|position| counts[*position] > 0).collect();
        assert_eq!(set, [0, 2, 69]);
        assert!(set.iter().all(|position| counts[*position] == vectors as u64));
    }
}
