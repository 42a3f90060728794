//! [`Account`]: the identity of a ledger, carried by its permits and by the data that they pay for.

use std::fmt;

/// The identity of one [`Ledger`](crate::Ledger), or of one set of [`ClassLedgers`](crate::ClassLedgers).
///
/// Sealed data name the account whose budget protects them. Each permit names the account that was charged. Primitives
/// reject a pair that does not match, so a new ledger opens no existing data.
///
/// An account is drawn at random when a ledger is created or loaded. It can be copied, but neither chosen nor saved:
/// otherwise a saved ledger could be edited and loaded again. Data that outlive the process are
/// [locked](crate::Locked); unlocking gives them the account of their ledger.
///
/// ```
/// use tidegate_kernel::{Ledger, Window};
///
/// let ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let another = Ledger::new("1".parse()?, Window::EVENT);
/// assert_eq!(ledger.account(), ledger.account());
/// assert_ne!(ledger.account(), another.account());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account([u8; 16]);

impl Account {
    /// The account without an owner. It pays for nothing.
    pub(crate) const NOBODY: Self = Self([0; 16]);

    /// Draws a new account, or [`NOBODY`](Self::NOBODY) if the operating system provides no randomness.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_or(Self::NOBODY, |()| Self(bytes))
    }

    /// Whether a permit of this account pays for data of `other`.
    #[inline]
    pub(crate) fn pays_for(self, other: Self) -> bool {
        self == other && self != Self::NOBODY
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Account({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_pays_for_nothing() {
        let account = Account::new();
        assert!(account.pays_for(account));
        assert!(!account.pays_for(Account::new()));
        assert!(!Account::NOBODY.pays_for(Account::NOBODY));
        assert_eq!(format!("{:?}", Account([0xab; 16])), format!("Account({})", "ab".repeat(16)));
    }
}
