//! [`Permit`]: the right to spend an amount of budget, once.

use crate::account::Account;
use crate::epsilon::Epsilon;

/// The right to release something about one timestamp's data at a loss of exactly [`Permit::epsilon`]. It covers
/// everyone, or one [class](Self::class) of users.
///
/// Only a [`Ledger`](crate::Ledger) grants permits, and records the spend first. A permit cannot be built, cloned or
/// copied, and primitives take it by value, so it is used at most once. A permit that is dropped unused stays spent.
///
/// A permit is saved only in a [`Locked`](crate::Locked) form, with the reading that it pays for. It unlocks only for a
/// ledger that can have granted it. Anyone with the [key](crate::VaultKey) can unlock the same form more than once;
/// the operator must prevent that.
///
/// ```compile_fail
/// # use tidegate_kernel::{Epsilon, Ledger, Window};
/// # let mut ledger = Ledger::new(Epsilon::MAX, Window::EVENT);
/// let permit = ledger.spend(0, Epsilon::MIN)?;
/// let again = permit.clone(); // no such method
/// # Ok::<(), tidegate_kernel::Refusal>(())
/// ```
#[must_use = "a permit that is dropped has been paid for in vain"]
#[derive(Debug)]
pub struct Permit {
    account: Account,
    timestamp: u64,
    epsilon: Epsilon,
    class: Option<u32>,
}

impl Permit {
    pub(crate) const fn new(account: Account, timestamp: u64, epsilon: Epsilon) -> Self {
        Self { account, timestamp, epsilon, class: None }
    }

    /// Restricts the permit to the data of one class.
    pub(crate) const fn for_class(self, class: u32) -> Self {
        Self { class: Some(class), ..self }
    }

    /// The account charged. The permit pays for data of that account only.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// The timestamp charged.
    pub const fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The amount that the consuming primitive spends.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// The class whose ledger was charged, if [`ClassLedgers`](crate::ClassLedgers) granted the permit. Such a permit
    /// pays for that class's data only.
    pub const fn class(&self) -> Option<u32> {
        self.class
    }

    /// Splits the permit into `first` and the rest. Returns it unchanged if nothing would be left for the rest.
    pub fn split(self, first: Epsilon) -> Result<(Self, Self), Self> {
        match self.epsilon.checked_sub(first) {
            Some(second) => Ok((Self { epsilon: first, ..self }, Self { epsilon: second, ..self })),
            None => Err(self),
        }
    }
}
