//! [`ClassLedgers`]: one ledger for each class of users with the same privacy requirement.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::ledger::{Ledger, Refusal, SpendError};
use crate::permit::Permit;

/// One [`Ledger`] for each requirement class. Users of a class share a budget and a window; a spend on one member
/// counts for all. All classes share one [account](Account). Loaded ledgers get a new account.
///
/// ```
/// use tidegate_kernel::{ClassLedgers, Ledger, Window};
///
/// let mut ledgers = ClassLedgers::default();
/// ledgers.register(1, Ledger::new("0.2".parse()?, Window::EVENT));
/// ledgers.register(2, Ledger::new("1".parse()?, Window::EVENT));
/// let permits = ledgers.spend_all(0, &[(1, "0.2".parse()?), (2, "0.6".parse()?)])?;
/// assert_eq!(permits.len(), 2);
/// assert_eq!(ledgers.remaining(1, 0), None);
/// assert_eq!(ledgers.remaining(2, 0), Some("0.4".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClassLedgers {
    account: Account,
    ledgers: BTreeMap<u32, Ledger>,
}

impl PartialEq for ClassLedgers {
    fn eq(&self, other: &Self) -> bool {
        self.ledgers == other.ledgers
    }
}

impl Eq for ClassLedgers {}

impl Default for ClassLedgers {
    /// Creates an account without classes.
    fn default() -> Self {
        Self { account: Account::new(), ledgers: BTreeMap::new() }
    }
}

impl ClassLedgers {
    /// Creates ledgers without classes that charge the given account; see [`Ledger::forged`].
    #[cfg(feature = "forged-accounts")]
    pub fn forged(account: Account) -> Self {
        Self { account, ledgers: BTreeMap::new() }
    }

    /// The account that all permits charge. Seal the classes' data with it.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Adds a class and moves its ledger into this account. Returns `false` and changes nothing if the class exists, so
    /// registering again refunds nothing.
    pub fn register(&mut self, class: u32, ledger: Ledger) -> bool {
        let before = self.ledgers.len();
        self.ledgers.entry(class).or_insert_with(|| ledger.of_account(self.account));
        self.ledgers.len() > before
    }

    /// The ledger of a class.
    pub fn get(&self, class: u32) -> Option<&Ledger> {
        self.ledgers.get(&class)
    }

    /// The registered classes and their ledgers, in order of class.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &Ledger)> + '_ {
        self.ledgers.iter().map(|(class, ledger)| (*class, ledger))
    }

    /// The budget left to the class at `timestamp`, as in [`Ledger::remaining`]; `None` for an unknown class.
    pub fn remaining(&self, class: u32, timestamp: u64) -> Option<Epsilon> {
        self.get(class)?.remaining(timestamp)
    }

    /// Spends from the ledger of one class, as in [`Ledger::spend`]. The permit pays for that class's data only.
    pub fn spend(&mut self, class: u32, timestamp: u64, amount: Epsilon) -> Result<Permit, Refusal> {
        let ledger = self.ledgers.get_mut(&class).ok_or(Refusal::UnknownClass { class })?;
        Ok(ledger.spend(timestamp, amount)?.for_class(class))
    }

    /// Spends from several classes at one timestamp: all amounts, or none if any is refused. Amounts for a repeated
    /// class add up. Permits are in the order of the amounts.
    pub fn spend_all(&mut self, timestamp: u64, amounts: &[(u32, Epsilon)]) -> Result<Vec<Permit>, Refusal> {
        let mut sums: BTreeMap<u32, Epsilon> = BTreeMap::new();
        for &(class, amount) in amounts {
            let ledger = self.get(class).ok_or(Refusal::UnknownClass { class })?;
            let earlier = sums.get(&class).copied();
            let refusal = Refusal::Overspend { timestamp, asked: amount, remaining: ledger.remaining(timestamp) };
            let sum = earlier.map_or(Some(amount), |earlier| earlier.checked_add(amount)).ok_or(refusal)?;
            ledger.check(timestamp, sum)?;
            sums.insert(class, sum);
        }
        amounts.iter().map(|&(class, amount)| self.spend(class, timestamp, amount)).collect()
    }

    /// Spends from several classes, calls `save`, and returns the permits only if saving succeeds, as in
    /// [`Ledger::spend_and_save`]. If saving fails, all amounts stay spent.
    pub fn spend_all_and_save<E>(
        &mut self,
        timestamp: u64,
        amounts: &[(u32, Epsilon)],
        save: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<Vec<Permit>, SpendError<E>> {
        let permits = self.spend_all(timestamp, amounts)?;
        save(self).map_err(SpendError::NotSaved)?;
        Ok(permits)
    }
}

impl Serialize for ClassLedgers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ledgers.serialize(serializer)
    }
}

/// Rejects a class that appears twice: dropping either ledger would forget its spends.
impl<'de> Deserialize<'de> for ClassLedgers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EachClassOnce)
    }
}

struct EachClassOnce;

impl<'de> Visitor<'de> for EachClassOnce {
    type Value = ClassLedgers;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a ledger for each requirement class")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ClassLedgers, A::Error> {
        let mut ledgers = ClassLedgers::default();
        while let Some((class, ledger)) = entries.next_entry()? {
            if !ledgers.register(class, ledger) {
                return Err(A::Error::custom(format_args!("requirement class {class} has more than one ledger")));
            }
        }
        Ok(ledgers)
    }
}
