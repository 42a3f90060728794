//! [`Sealed`]: raw data that only the kernel can look at.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

/// Raw data on its way to a randomising primitive.
///
/// Anyone may seal a value; only the kernel's primitives can read it, against a [`Permit`](crate::Permit). There is
/// no getter, no `Deref`, no comparison, no serialisation, and `Debug` prints a placeholder. The memory is wiped when
/// the seal is dropped (moves and reallocations before sealing are the caller's affair).
///
/// ```
/// use tidegate_kernel::Sealed;
///
/// let secret = Sealed::new(vec![3_u64, 1, 4]);
/// assert_eq!(format!("{secret:?}"), "Sealed(..)");
/// ```
///
/// ```compile_fail
/// # use tidegate_kernel::Sealed;
/// let secret = Sealed::new(7_i64);
/// let leaked: i64 = *secret; // a sealed value cannot be dereferenced
/// ```
pub struct Sealed<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Sealed<T> {
    /// Seals a value.
    pub fn new(value: T) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The content, for the kernel's own primitives.
    pub(crate) fn content(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> From<T> for Sealed<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Zeroize> fmt::Debug for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed(..)")
    }
}
