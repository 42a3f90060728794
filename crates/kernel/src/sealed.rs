//! [`Sealed`]: raw data that only the kernel can look at.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use crate::account::Account;

/// The raw data of one timestamp, readable only by randomising primitives.
///
/// Anyone may seal a value. Only the kernel's primitives read it, against a [`Permit`](crate::Permit) of the same
/// [account](Account) and timestamp. Account and timestamp are public. The value is not: there is no getter, `Deref` or
/// comparison, and `Debug` prints a placeholder. The only saved form is [encrypted](crate::Locked); holders of the key
/// can read it. The memory is zeroised on drop. Copies made before sealing are the caller's responsibility.
///
/// ```
/// use tidegate_kernel::{Ledger, Sealed, Window};
///
/// let ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let secret = Sealed::at(ledger.account(), 7, vec![3_u64, 1, 4]);
/// assert_eq!(secret.timestamp(), 7);
/// assert_eq!(format!("{secret:?}"), "Sealed(..)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use tidegate_kernel::{Ledger, Sealed, Window};
/// # let ledger = Ledger::new(tidegate_kernel::Epsilon::MAX, Window::EVENT);
/// let secret = Sealed::at(ledger.account(), 0, 7_i64);
/// let leaked: i64 = *secret; // a sealed value cannot be dereferenced
/// ```
pub struct Sealed<T: Zeroize> {
    account: Account,
    timestamp: u64,
    value: Zeroizing<T>,
}

impl<T: Zeroize> Sealed<T> {
    /// Seals the stream's value at `timestamp` under the budget of `account`. Do not seal values computed from several
    /// timestamps: primitives take several readings one by one, so that a permit pays for each.
    pub fn at(account: Account, timestamp: u64, value: T) -> Self {
        Self { account, timestamp, value: Zeroizing::new(value) }
    }

    /// The account whose budget protects the data.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// The timestamp of the data.
    pub const fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The value, for the kernel's own primitives.
    #[inline]
    pub(crate) fn content(&self) -> &T {
        &self.value
    }

    /// The value, for primitives that keep their own sealed data.
    #[inline]
    pub(crate) fn content_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Public properties of a sealed histogram.
impl Sealed<Vec<u64>> {
    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.value.len()
    }
}

impl<T: Zeroize> fmt::Debug for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed(..)")
    }
}
