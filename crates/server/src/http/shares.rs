//! [`Shares`]: a bounded amount that callers share, such as bytes in memory or places of requests that wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rate::Caller;

/// A bounded amount. One caller has a bounded part of it.
#[derive(Debug)]
pub(super) struct Shares {
    total: usize,
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_caller: HashMap<Caller, usize>,
}

/// An amount that a caller holds until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Shares>,
    caller: Caller,
    amount: usize,
}

impl Shares {
    pub(super) fn new(total: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { total, each: each.max(1), taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, caller: Caller, amount: usize) -> bool {
        let mut taken = self.taken();
        let own = taken.by_caller.get(&caller).copied().unwrap_or(0);
        let fits = |taken: usize, most: usize| taken.checked_add(amount).is_some_and(|sum| sum <= most);
        if !fits(own, self.each) || !fits(taken.all, self.total) {
            return false;
        }
        taken.all += amount;
        if amount > 0 {
            taken.by_caller.insert(caller, own + amount);
        }
        true
    }

    fn subtract(&self, caller: Caller, amount: usize) {
        let mut taken = self.taken();
        taken.all -= amount;
        if let Some(own) = taken.by_caller.get_mut(&caller) {
            *own -= amount;
            if *own == 0 {
                taken.by_caller.remove(&caller);
            }
        }
    }

    /// Takes an amount for a caller; `None` where too little is left.
    pub(super) fn take(self: &Arc<Self>, caller: Caller, amount: usize) -> Option<Share> {
        self.add(caller, amount).then(|| Share { of: Arc::clone(self), caller, amount })
    }
}

impl Share {
    /// Takes more; returns false, and takes nothing, where too little is left.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let fits = self.of.add(self.caller, more);
        self.amount += if fits { more } else { 0 };
        fits
    }

    /// Gives back all but an amount.
    pub(super) fn shrink_to(&mut self, amount: usize) {
        let more = self.amount.saturating_sub(amount);
        self.amount -= more;
        self.of.subtract(self.caller, more);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.subtract(self.caller, self.amount);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bounds_each_caller_and_all() {
        let shares = Shares::new(10, 6);
        let (one, two) = (Caller::Network(1), Caller::Network(2));
        let mut first = shares.take(one, 4).unwrap();
        assert!(shares.take(one, 3).is_none() && !first.grow(3), "more than its part");
        assert!(first.grow(2));
        let second = shares.take(two, 4).unwrap();
        assert!(shares.take(Caller::Others, 1).is_none(), "nothing is left");
        assert!(shares.take(two, usize::MAX).is_none());
        first.shrink_to(5);
        drop(shares.take(two, 1).unwrap());
        drop((first, second));
        let taken = shares.taken();
        assert_eq!((taken.all, taken.by_caller.len()), (0, 0));
    }
}
