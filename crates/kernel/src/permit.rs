//! [`Permit`]: the right to spend an amount of budget, once.

use crate::account::Account;
use crate::epsilon::Epsilon;

/// The right to release something about one timestamp's data, of everyone or of one [class](Self::class) of users, at
/// a loss of exactly [`Permit::epsilon`].
///
/// Only a [`Ledger`](crate::Ledger) grants one, having counted it as spent. It cannot be built, cloned or copied, and
/// every randomising primitive takes it by value: what was granted once is used once. A permit that is dropped unused
/// stays spent.
///
/// It is stored only together with the reading that it pays for, in a [`Locked`](crate::Locked) form, and comes back
/// only for a ledger that can have granted it. Whoever has the [key](crate::VaultKey) and such a form can have it come
/// back more than once: that is for the operator to prevent.
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

    /// The same permit, for the data of one class only.
    pub(crate) const fn for_class(self, class: u32) -> Self {
        Self { class: Some(class), ..self }
    }

    /// The account that was charged. The permit pays for data of that account only.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// The timestamp to which the spend was charged.
    pub const fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The amount that may be spent, and that the primitive taking this permit spends.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// The class of users whose ledger was charged, where [`ClassLedgers`](crate::ClassLedgers) granted the permit. It
    /// then pays for the data of that class and for nothing else.
    pub const fn class(&self) -> Option<u32> {
        self.class
    }

    /// Splits off `first`: the two parts together are worth what this permit was.
    /// Gives the permit back unchanged where `first` would leave nothing for the second part.
    pub fn split(self, first: Epsilon) -> Result<(Self, Self), Self> {
        match self.epsilon.checked_sub(first) {
            Some(second) => Ok((Self { epsilon: first, ..self }, Self { epsilon: second, ..self })),
            None => Err(self),
        }
    }
}
