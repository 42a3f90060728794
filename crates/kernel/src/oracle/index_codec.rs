//! Indices as fixed-width little-endian bytes.

use crate::oracle::MalformedReport;

/// Encodes indices below a bound in as few bytes as the largest one needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexCodec {
    bound: u32,
    length: usize,
}

impl IndexCodec {
    pub(crate) const fn new(bound: u32) -> Self {
        let length = match bound {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            0x1_0001..=0x100_0000 => 3,
            _ => 4,
        };
        Self { bound, length }
    }

    pub(crate) const fn bound(&self) -> u32 {
        self.bound
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Writes an index into a slice of the codec's length.
    #[inline]
    pub(crate) fn write(&self, index: u32, bytes: &mut [u8]) {
        bytes.copy_from_slice(&index.to_le_bytes()[..self.length]);
    }

    /// Reads an index from a slice of the codec's length.
    #[inline]
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<u32, MalformedReport> {
        let given = match *bytes {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => return Err(MalformedReport::Length { given: bytes.len(), expected: self.length }),
        };
        if given < self.bound { Ok(given) } else { Err(MalformedReport::Index { given, bound: self.bound }) }
    }

    /// Whether all indices in `batch` are below the bound.
    pub(crate) fn all_below_bound(&self, batch: &[u8]) -> bool {
        // One branch-free pass for the maximum.
        let largest = match self.length {
            1 => batch.iter().copied().max().map(u32::from),
            2 => batch.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).max().map(u32::from),
            3 => batch.as_chunks::<3>().0.iter().map(|&[a, b, c]| u32::from_le_bytes([a, b, c, 0])).max(),
            _ => batch.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).max(),
        };
        largest.is_none_or(|largest| largest < self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_indices_below_the_bound_round_trip() {
        for (bound, length) in [(2, 1), (0x100, 1), (0x101, 2), (0x1_0000, 2), (0x1_0001, 3), (0x100_0001, 4)] {
            let codec = IndexCodec::new(bound);
            assert_eq!((codec.bound(), codec.length()), (bound, length));
            let written = |index: u32| {
                let mut bytes = vec![0; length];
                codec.write(index, &mut bytes);
                bytes
            };
            for index in [0, 1, bound / 2, bound - 1] {
                assert_eq!(codec.read(&written(index)), Ok(index));
                assert!(codec.all_below_bound(&[written(index), written(0)].concat()));
            }
            // The bound itself can be written if it takes no more bytes.
            if bound.to_le_bytes()[length..].iter().all(|byte| *byte == 0) {
                assert_eq!(codec.read(&written(bound)), Err(MalformedReport::Index { given: bound, bound }));
                assert!(!codec.all_below_bound(&[written(0), written(bound)].concat()));
            }
            assert_eq!(codec.read(&[0; 5]), Err(MalformedReport::Length { given: 5, expected: length }));
        }
    }
}
