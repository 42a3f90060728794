//! [`Sealed`]: raw data that only the kernel can look at.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

/// The raw data of one timestamp, on their way to a randomising primitive.
///
/// Anyone may seal a value; only the kernel's primitives can read it, against a [`Permit`](crate::Permit) for the same
/// timestamp. The timestamp is public, the value is not: there is no getter for it, no `Deref`, no comparison, no
/// serialisation, and `Debug` prints a placeholder. Its memory is wiped when the seal is dropped (moves and
/// reallocations before sealing are the caller's affair).
///
/// ```
/// use tidegate_kernel::Sealed;
///
/// let secret = Sealed::at(7, vec![3_u64, 1, 4]);
/// assert_eq!(secret.timestamp(), 7);
/// assert_eq!(format!("{secret:?}"), "Sealed(..)");
/// ```
///
/// ```compile_fail
/// # use tidegate_kernel::Sealed;
/// let secret = Sealed::at(0, 7_i64);
/// let leaked: i64 = *secret; // a sealed value cannot be dereferenced
/// ```
pub struct Sealed<T: Zeroize> {
    timestamp: u64,
    value: Zeroizing<T>,
}

impl<T: Zeroize> Sealed<T> {
    /// Seals the value that the stream has at `timestamp`. A value computed from several timestamps has no place here:
    /// the primitives that read several take them one by one, so that each is paid for.
    pub fn at(timestamp: u64, value: T) -> Self {
        Self { timestamp, value: Zeroizing::new(value) }
    }

    /// The timestamp of the data.
    pub const fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The content, for the kernel's own primitives.
    #[inline]
    pub(crate) fn content(&self) -> &T {
        &self.value
    }

    /// The content, for primitives that keep sealed data of their own.
    #[inline]
    pub(crate) fn content_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// What is public about a sealed histogram.
impl Sealed<Vec<u64>> {
    /// The number of its cells.
    pub fn cells(&self) -> usize {
        self.value.len()
    }
}

impl<T: Zeroize> fmt::Debug for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed(..)")
    }
}
