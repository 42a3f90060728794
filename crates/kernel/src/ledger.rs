//! [`Ledger`]: the privacy accountant.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize, Serializer};

use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::permit::Permit;

/// The timestamps that share one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Every window of this many consecutive timestamps: w-event privacy (Kellaris et al. 2014).
    Timestamps(NonZeroU64),
    /// All timestamps: user-level privacy.
    Unbounded,
}

impl Window {
    /// Each timestamp alone: event-level privacy.
    pub const EVENT: Self = Self::Timestamps(NonZeroU64::MIN);

    /// Every window of `length` consecutive timestamps; `None` for zero.
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

/// Why a [`Ledger`] refused a spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum Refusal {
    /// The window that ends at the timestamp has too little budget left.
    #[error(
        "a spend of {asked} at timestamp {timestamp} exceeds the budget left in its window ({})",
        or_nothing(*.remaining)
    )]
    Overspend { timestamp: u64, asked: Epsilon, remaining: Option<Epsilon> },
    /// The ledger has already seen a later timestamp.
    #[error("timestamp {timestamp} is before {clock}, the latest that the ledger has seen")]
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

/// Errors of [`Ledger::spend_and_save`] and
/// [`ClassLedgers::spend_all_and_save`](crate::ClassLedgers::spend_all_and_save).
#[derive(Debug, thiserror::Error)]
pub enum SpendError<E> {
    /// The ledger refused the spend; nothing was saved.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The ledger could not be saved. The amount stays spent, without a permit.
    #[error("the ledger could not be saved, so the spend is lost: {0}")]
    NotSaved(E),
}

/// A privacy budget for every window of consecutive timestamps, and its spends.
///
/// # Guarantee
/// For every sequence of calls, the permits granted within any window sum to at most the budget, in exact arithmetic.
/// By the [filter lemma](crate::proofs::ledger), all releases through those permits are then w-event private. The
/// ledger is a privacy filter (Rogers et al. 2016).
///
/// Time never goes back: the ledger refuses closed timestamps and those before the latest one that it has seen.
///
/// Spending takes O(1) amortised time. Memory is O(1) per timestamp in the window with a spend.
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
/// Each ledger has its own [account](Account), and gets a new one when it is loaded. Its permits pay only for data
/// sealed for that account. Equality ignores the account.
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
    /// Spends in the window that ends at the clock, one per timestamp, ascending. An unbounded window has one entry.
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
    /// Creates a ledger without spends.
    pub fn new(budget: Epsilon, window: Window) -> Self {
        let account = Account::new();
        Self { account, budget, window, clock: None, closed: false, spends: VecDeque::new(), spent: 0 }
    }

    /// Creates a ledger whose whole budget was spent at `timestamp`, for a holder that lost its state (restored from a
    /// backup, copied or reinstalled). It refuses all spends until the window has passed, or forever if the window is
    /// unbounded.
    ///
    /// `timestamp` must not precede any spend of the lost ledger: use the holder's present time, not the backup's.
    /// Otherwise a later window could contain both lost spends and new ones.
    pub fn fully_spent(budget: Epsilon, window: Window, timestamp: u64) -> Self {
        let (account, spends) = (Account::new(), VecDeque::from([(timestamp, budget)]));
        Self { account, budget, window, clock: Some(timestamp), closed: true, spends, spent: budget.units() }
    }

    /// The account that permits charge. Data sealed with it are under this budget.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Creates a ledger that charges the given account, for tests. Do not enable the feature elsewhere: it lets anyone
    /// open sealed data.
    #[cfg(feature = "forged-accounts")]
    pub fn forged(account: Account, budget: Epsilon, window: Window) -> Self {
        Self::new(budget, window).of_account(account)
    }

    /// Moves the ledger into a shared account.
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

    /// Moves the clock to `timestamp` and closes all earlier ones. The current timestamp can be opened again until it
    /// is closed.
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

    /// Closes `timestamp` and all earlier ones to spending.
    pub fn close(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.open(timestamp)?;
        self.closed = true;
        Ok(())
    }

    /// Moves the clock to `timestamp`, together with all spends in the window. Call it when the holder's clock has
    /// jumped ahead and the true elapsed time is unknown. The jump then refunds nothing: past spends count as made at
    /// `timestamp`.
    ///
    /// # Errors
    /// Those of [`Ledger::open`]: the timestamp is in the past or closed.
    pub fn carry_to(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.check_time(timestamp)?;
        self.clock = Some(timestamp);
        self.closed = false;
        if let Ok(all) = Epsilon::from_units(self.spent) {
            self.spends = VecDeque::from([(timestamp, all)]);
        }
        Ok(())
    }

    /// Moves the clock and all spends later by so many timestamps. Call it when the holder's clock has gone ahead by
    /// more time than is known to have passed: the excess then refunds nothing. Without a clock, nothing changes.
    pub fn delay(&mut self, by: u64) {
        let Some(clock) = &mut self.clock else { return };
        let Some(later) = clock.checked_add(by) else {
            // Beyond the last timestamp: all spends count as made there.
            *clock = u64::MAX;
            self.spends = Epsilon::from_units(self.spent).map(|all| (u64::MAX, all)).into_iter().collect();
            return;
        };
        *clock = later;
        self.spends.iter_mut().for_each(|(timestamp, _)| *timestamp += by);
    }

    #[inline]
    fn check_time(&self, timestamp: u64) -> Result<(), Refusal> {
        match self.clock {
            Some(clock) if timestamp < clock => Err(Refusal::TimeWentBack { timestamp, clock }),
            Some(clock) if timestamp == clock && self.closed => Err(Refusal::Closed { timestamp }),
            _ => Ok(()),
        }
    }

    /// The budget left at `timestamp`. `None` if nothing is left, or if the timestamp is in the past or closed.
    pub fn remaining(&self, timestamp: u64) -> Option<Epsilon> {
        self.check_time(timestamp).ok()?;
        let left_window = self.spends.iter().take_while(|(earlier, _)| !self.window.spans(*earlier, timestamp));
        let freed: u64 = left_window.map(|(_, amount)| amount.units()).sum();
        Epsilon::from_units(self.budget.units() - (self.spent - freed)).ok()
    }

    /// Checks whether `spend(timestamp, amount)` would succeed.
    pub fn check(&self, timestamp: u64, amount: Epsilon) -> Result<(), Refusal> {
        self.check_time(timestamp)?;
        let remaining = self.remaining(timestamp);
        if remaining < Some(amount) {
            return Err(Refusal::Overspend { timestamp, asked: amount, remaining });
        }
        Ok(())
    }

    /// Spends `amount` at `timestamp`, and moves the clock there even if the amount is refused.
    ///
    /// So take the timestamp from the holder's own clock, never from a peer: one request for a far future timestamp,
    /// granted or not, closes all earlier ones.
    ///
    /// Save the ledger before using the permit; [`Ledger::spend_and_save`] enforces that order.
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
            // Spends never leave an unbounded window, so they are kept as one, at the latest timestamp.
            Some((latest, sum)) if *latest == timestamp || self.window == Window::Unbounded => {
                *latest = timestamp;
                // A partial sum of a window is at most the budget, so it is a valid amount.
                *sum = sum.checked_add(amount).unwrap_or(self.budget);
            }
            _ => self.spends.push_back((timestamp, amount)),
        }
        Ok(Permit::new(self.account, timestamp, amount))
    }

    /// Spends, calls `save`, and returns the permit only if saving succeeds. If saving fails, the amount stays spent,
    /// because it may have reached the disk.
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

    /// Spends in the window that ends at the clock, oldest first.
    pub fn spends(&self) -> impl ExactSizeIterator<Item = (u64, Epsilon)> + '_ {
        self.spends.iter().copied()
    }
}

/// Serialised form. Loading goes through `TryFrom`, which accepts only reachable states.
///
/// The account is not saved: a loaded ledger gets a new one. Otherwise a program could write any account and budget
/// into a saved ledger, load it, and open sealed data.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    budget: Epsilon,
    window: Window,
    // Required, though it may be null: a ledger that lost its clock must not load as a new one.
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
