//! [`Ledger`]: the only accountant.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize, Serializer};

use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::permit::Permit;

/// How far apart two timestamps must be for their spends not to add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Any so many consecutive timestamps share the budget: w-event privacy.
    Timestamps(NonZeroU64),
    /// All timestamps share the budget: user-level privacy.
    Unbounded,
}

impl Window {
    /// Each timestamp has the whole budget: event-level privacy.
    pub const EVENT: Self = Self::Timestamps(NonZeroU64::MIN);

    /// Any `length` consecutive timestamps share the budget; `None` for zero.
    pub fn of(length: u64) -> Option<Self> {
        NonZeroU64::new(length).map(Self::Timestamps)
    }

    /// Whether spends at `earlier` and at `later` can lie in one window.
    fn spans(self, earlier: u64, later: u64) -> bool {
        match self {
            Self::Timestamps(length) => later - earlier < length.get(),
            Self::Unbounded => true,
        }
    }
}

/// Why a [`Ledger`] did not grant a spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum Refusal {
    /// The window that ends at the timestamp has less left than was asked for.
    #[error("a spend of {asked} at timestamp {timestamp} exceeds what its window has left ({})", or_nothing(*.remaining))]
    Overspend { timestamp: u64, asked: Epsilon, remaining: Option<Epsilon> },
    /// The ledger has already seen a later timestamp.
    #[error("timestamp {timestamp} lies before {clock}, the latest that the ledger has seen")]
    TimeWentBack { timestamp: u64, clock: u64 },
    /// The timestamp was closed.
    #[error("timestamp {timestamp} is closed")]
    Closed { timestamp: u64 },
    /// No ledger is registered for the class.
    #[error("requirement class {class} is not registered")]
    UnknownClass { class: u32 },
}

fn or_nothing(remaining: Option<Epsilon>) -> String {
    remaining.map_or_else(|| "nothing".to_owned(), |amount| amount.to_string())
}

/// What [`Ledger::spend_and_save`] and [`ClassLedgers::spend_all_and_save`](crate::ClassLedgers::spend_all_and_save)
/// can fail on.
#[derive(Debug, thiserror::Error)]
pub enum SpendError<E> {
    /// The ledger did not grant the spend; nothing was saved.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The ledger could not be saved. The amount counts as spent, and there is no permit for it.
    #[error("the ledger could not be saved, so the spend is lost: {0}")]
    NotSaved(E),
}

/// A budget for any window of consecutive timestamps, and what has been spent of it.
///
/// # Guarantee
/// Whatever the sequence of calls, the permits granted for any window of consecutive timestamps sum to at most the
/// budget, in exact arithmetic. By the [filter lemma](crate::proofs::ledger) everything released through those permits
/// is then w-event private.
///
/// Time never goes back: once a timestamp has been seen, an earlier one is refused for ever, and so is a closed one.
///
/// Spending is O(1) amortised; memory is O(1) for each timestamp in the window at which something was spent.
///
/// ```
/// use tidegate_kernel::{Epsilon, Ledger, Refusal, Window};
///
/// let window = Window::of(3).ok_or("a window has a length")?;
/// let mut ledger = Ledger::new("1".parse()?, window);
/// let half: Epsilon = "0.5".parse()?;
/// let _first = ledger.spend(0, half)?;
/// let _second = ledger.spend(2, half)?;
/// assert!(matches!(ledger.spend(2, Epsilon::MIN), Err(Refusal::Overspend { .. })));
/// assert_eq!(ledger.remaining(3), Some(half)); // timestamp 0 has left the window
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A ledger cannot be cloned: two copies would each grant the whole budget.
///
/// Each ledger has an [account](Account) of its own, and gets a new one when it is loaded. Its permits pay only for
/// data that were sealed for that account. Equality ignores the account.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Ledger {
    account: Account,
    budget: Epsilon,
    window: Window,
    /// The latest timestamp seen.
    clock: Option<u64>,
    /// Whether the latest timestamp is closed.
    closed: bool,
    /// The spends inside the window that ends at the clock, a timestamp each, in order. For an unbounded window the
    /// whole history is one entry.
    spends: VecDeque<(u64, Epsilon)>,
    /// Their sum, in units.
    spent: u64,
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        let state = |ledger: &Self| (ledger.budget, ledger.window, ledger.clock, ledger.closed);
        state(self) == state(other) && self.spends == other.spends
    }
}

impl Eq for Ledger {}

impl Ledger {
    /// A ledger from which nothing has been spent.
    pub fn new(budget: Epsilon, window: Window) -> Self {
        let account = Account::new();
        Self { account, budget, window, clock: None, closed: false, spends: VecDeque::new(), spent: 0 }
    }

    /// A ledger whose whole budget was spent at `timestamp`, for a holder whose true state is lost: restored from a
    /// backup, copied, or reinstalled. Nothing can be spent until the window has passed; with an unbounded window,
    /// nothing ever.
    ///
    /// `timestamp` must not lie before any at which the lost ledger may have spent: take the holder's present time, not
    /// that of the backup. Otherwise a window that begins after it could hold both the lost spends and new ones.
    pub fn fully_spent(budget: Epsilon, window: Window, timestamp: u64) -> Self {
        let (account, spends) = (Account::new(), VecDeque::from([(timestamp, budget)]));
        Self { account, budget, window, clock: Some(timestamp), closed: true, spends, spent: budget.units() }
    }

    /// The account that its permits are charged to. Seal data with it to put them under this budget.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// A ledger that charges an account of the caller's choice: for tests, which need many permits of one account. Do
    /// not enable the feature elsewhere: it lets anybody open sealed data.
    #[cfg(feature = "forged-accounts")]
    pub fn forged(account: Account, budget: Epsilon, window: Window) -> Self {
        Self::new(budget, window).of_account(account)
    }

    /// The same ledger, as part of an account that it shares with others.
    pub(crate) fn of_account(self, account: Account) -> Self {
        Self { account, ..self }
    }

    /// The budget of any one window.
    pub const fn budget(&self) -> Epsilon {
        self.budget
    }

    /// The window that shares the budget.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The latest timestamp seen.
    pub const fn clock(&self) -> Option<u64> {
        self.clock
    }

    /// Whether the latest timestamp seen is closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Moves the clock to `timestamp`, closing all earlier ones. Opening the current timestamp again is allowed as
    /// long as it has not been closed.
    #[inline]
    pub fn open(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.check_time(timestamp)?;
        self.clock = Some(timestamp);
        self.closed = false;
        while let Some(&(earliest, amount)) = self.spends.front()
            && !self.window.spans(earliest, timestamp)
        {
            self.spends.pop_front();
            self.spent -= amount.units();
        }
        Ok(())
    }

    /// Closes `timestamp` and all earlier ones: nothing can be spent at them any more.
    pub fn close(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.open(timestamp)?;
        self.closed = true;
        Ok(())
    }

    /// Moves the clock to `timestamp`, and with it everything that is spent in the window before: for a holder whose
    /// clock has jumped ahead, and who cannot tell how much time has truly passed. So the jump refunds nothing: what
    /// was spent leaves the window as if it had been spent at `timestamp`.
    ///
    /// # Errors
    /// As for [`Ledger::open`], if the timestamp lies in the past or is closed.
    pub fn carry_to(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.check_time(timestamp)?;
        self.clock = Some(timestamp);
        self.closed = false;
        if let Ok(all) = Epsilon::from_units(self.spent) {
            self.spends = VecDeque::from([(timestamp, all)]);
        }
        Ok(())
    }

    #[inline]
    fn check_time(&self, timestamp: u64) -> Result<(), Refusal> {
        match self.clock {
            Some(clock) if timestamp < clock => Err(Refusal::TimeWentBack { timestamp, clock }),
            Some(clock) if timestamp == clock && self.closed => Err(Refusal::Closed { timestamp }),
            _ => Ok(()),
        }
    }

    /// The most that could be spent at `timestamp` now: `None` where that is nothing, or where the timestamp lies in
    /// the past or is closed.
    pub fn remaining(&self, timestamp: u64) -> Option<Epsilon> {
        self.check_time(timestamp).ok()?;
        let left_window = self.spends.iter().take_while(|(earlier, _)| !self.window.spans(*earlier, timestamp));
        let freed: u64 = left_window.map(|(_, amount)| amount.units()).sum();
        Epsilon::from_units(self.budget.units() - (self.spent - freed)).ok()
    }

    /// Whether `spend(timestamp, amount)` would be granted, and if not, why not.
    pub fn check(&self, timestamp: u64, amount: Epsilon) -> Result<(), Refusal> {
        self.check_time(timestamp)?;
        let remaining = self.remaining(timestamp);
        if remaining < Some(amount) {
            return Err(Refusal::Overspend { timestamp, asked: amount, remaining });
        }
        Ok(())
    }

    /// Spends `amount` at `timestamp`, which becomes the latest timestamp seen even if the amount is refused.
    ///
    /// So the timestamp must come from the holder's own clock, never from a peer: one request for a timestamp in the
    /// far future, granted or not, would close all those before it.
    ///
    /// Save the ledger before the permit is used, never after; [`Ledger::spend_and_save`] sees to that.
    #[inline]
    pub fn spend(&mut self, timestamp: u64, amount: Epsilon) -> Result<Permit, Refusal> {
        self.open(timestamp)?;
        let left = self.budget.units() - self.spent;
        if amount.units() > left {
            let remaining = Epsilon::from_units(left).ok();
            return Err(Refusal::Overspend { timestamp, asked: amount, remaining });
        }
        self.spent += amount.units();
        match self.spends.back_mut() {
            // In an unbounded window nothing ever leaves, so all spends are kept as one, at the latest timestamp.
            Some((latest, sum)) if *latest == timestamp || self.window == Window::Unbounded => {
                *latest = timestamp;
                // The sum of part of a window is at most the budget, hence an amount.
                *sum = sum.checked_add(amount).unwrap_or(self.budget);
            }
            _ => self.spends.push_back((timestamp, amount)),
        }
        Ok(Permit::new(self.account, timestamp, amount))
    }

    /// Spends, hands the ledger to `save`, and gives out the permit only once that has succeeded. Where saving fails,
    /// the amount stays spent: it may have reached the disk.
    pub fn spend_and_save<E>(
        &mut self,
        timestamp: u64,
        amount: Epsilon,
        save: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<Permit, SpendError<E>> {
        let permit = self.spend(timestamp, amount)?;
        save(self).map_err(SpendError::NotSaved)?;
        Ok(permit)
    }

    /// The spends that still lie in the window ending at the clock, oldest first.
    pub fn spends(&self) -> impl ExactSizeIterator<Item = (u64, Epsilon)> + '_ {
        self.spends.iter().copied()
    }
}

/// The saved form. Loading goes through `TryFrom`, which accepts only states that a ledger can be in.
///
/// The account is not saved: a loaded ledger gets a new one. Otherwise a program could write the account of sealed data
/// and a budget of its choice into a saved form, load it, and open the data.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    budget: Epsilon,
    window: Window,
    // Required, though it may be null: a ledger whose clock got lost must not load as one that has seen nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    clock: Option<u64>,
    closed: bool,
    spends: Vec<(u64, Epsilon)>,
}

const VERSION: u16 = 1;

/// Why a saved ledger was not loaded.
#[derive(Debug, thiserror::Error)]
enum Corrupt {
    #[error("ledger version {0} is not known; this program reads version {VERSION}")]
    Version(u16),
    #[error("ledger holds spends of {spent} units in one window, more than its budget of {budget}")]
    Overspent { spent: u128, budget: Epsilon },
    #[error("ledger's spends are not in order of time, or reach beyond its clock or window")]
    Order,
}

impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { account: _, budget, window, clock, closed, ref spends, spent: _ } = *self;
        let spends = spends.iter().copied().collect();
        Saved { version: VERSION, budget, window, clock, closed, spends }.serialize(serializer)
    }
}

impl TryFrom<Saved> for Ledger {
    type Error = Corrupt;

    fn try_from(saved: Saved) -> Result<Self, Corrupt> {
        let Saved { version, budget, window, clock, closed, spends } = saved;
        if version != VERSION {
            return Err(Corrupt::Version(version));
        }
        let in_order = spends.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let in_window = |(timestamp, _): &(u64, Epsilon)| {
            clock.is_some_and(|clock| *timestamp <= clock && window.spans(*timestamp, clock))
        };
        let merged = window != Window::Unbounded || spends.len() <= 1;
        if !in_order || !merged || !spends.iter().all(in_window) || (closed && clock.is_none()) {
            return Err(Corrupt::Order);
        }
        let spent: u128 = spends.iter().map(|(_, amount)| u128::from(amount.units())).sum();
        match u64::try_from(spent) {
            Ok(spent) if spent <= budget.units() => {
                Ok(Self { account: Account::new(), budget, window, clock, closed, spends: spends.into(), spent })
            }
            _ => Err(Corrupt::Overspent { spent, budget }),
        }
    }
}
