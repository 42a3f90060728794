//! How much to spend on publishing: distribution and absorption.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Proposes what to spend. Whether it may be spent is the account's business.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Policy {
    Distribution(Pool),
    Absorption(Absorption),
}

/// What a policy proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proposal {
    /// To spend so much, if publishing is worth it. May be nothing.
    Spend(u64),
    /// To spend nothing: the timestamp's share was spent in advance.
    Nullify,
}

impl Policy {
    /// Spends half of what the window has left of `pool`.
    pub(super) const fn distribution(pool: u64, window: u64) -> Self {
        Self::Distribution(Pool::new(pool, window))
    }

    /// Spends the shares saved since the last publication, and skips as many timestamps afterwards.
    pub(super) const fn absorption(share: u64, window: u64) -> Self {
        Self::Absorption(Absorption { share, window, last: None })
    }

    pub(super) fn propose(&mut self, timestamp: u64) -> Proposal {
        match self {
            Self::Distribution(pool) => Proposal::Spend(pool.remaining(timestamp) / 2),
            Self::Absorption(absorption) => absorption.propose(timestamp),
        }
    }

    pub(super) fn note_spend(&mut self, timestamp: u64, amount: u64) {
        match self {
            Self::Distribution(pool) => pool.note_spend(timestamp, amount),
            Self::Absorption(absorption) => {
                absorption.last = Some(Last { timestamp, shares: amount / absorption.share });
            }
        }
    }
}

/// What may be spent on publishing in any window, and what has been.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pool {
    pool: u64,
    window: u64,
    /// The spends of the current window.
    spends: VecDeque<(u64, u64)>,
}

impl Pool {
    pub(super) const fn new(pool: u64, window: u64) -> Self {
        Self { pool, window, spends: VecDeque::new() }
    }

    /// All that a window has.
    pub(super) const fn total(&self) -> u64 {
        self.pool
    }

    /// What the window that ends at a timestamp, which is not before an earlier one, has left.
    pub(super) fn remaining(&mut self, timestamp: u64) -> u64 {
        while let Some(&(earliest, _)) = self.spends.front()
            && timestamp.saturating_sub(earliest) >= self.window
        {
            self.spends.pop_front();
        }
        let spent: u64 = self.spends.iter().map(|(_, amount)| amount).sum();
        self.pool.saturating_sub(spent)
    }

    pub(super) fn note_spend(&mut self, timestamp: u64, amount: u64) {
        self.spends.push_back((timestamp, amount));
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Absorption {
    share: u64,
    window: u64,
    last: Option<Last>,
}

/// The last publication; before the first, the timestamp at which one would have spent nothing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Last {
    timestamp: u64,
    shares: u64,
}

impl Absorption {
    fn propose(&mut self, timestamp: u64) -> Proposal {
        // At the very first timestamp, as in the paper, a publication of no shares lies just before, so that two
        // shares can be taken: its own, and that of the one it nullifies.
        let Some(last) = self.last else {
            self.last = Some(Last { timestamp: timestamp.saturating_sub(1), shares: 0 });
            return Proposal::Spend(self.share * 2.min(self.window));
        };
        // `passed - (shares - 1)` timestamps have gone by that the last publication did not use up.
        match (timestamp.saturating_sub(last.timestamp).saturating_add(1)).checked_sub(last.shares) {
            None | Some(0) => Proposal::Nullify,
            Some(absorbable) => Proposal::Spend(self.share * absorbable.min(self.window)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is spent at each timestamp if every proposal is taken, in units.
    fn always_publish(mut policy: Policy, timestamps: u64) -> Vec<u64> {
        (1..=timestamps)
            .map(|timestamp| match policy.propose(timestamp) {
                Proposal::Spend(amount) => {
                    policy.note_spend(timestamp, amount);
                    amount
                }
                Proposal::Nullify => 0,
            })
            .collect()
    }

    #[test]
    fn absorption_starts_with_two_shares_and_pays_them_back() {
        // epsilon = 1, w = 4: the share is 1/8; published are 1/4, 0, 1/8, 1/8, ...
        assert_eq!(always_publish(Policy::absorption(125, 4), 6), [250, 0, 125, 125, 125, 125]);
        assert_eq!(always_publish(Policy::absorption(500, 1), 4), [500, 500, 500, 500]);
    }

    #[test]
    fn distribution_halves_what_is_left_and_gets_back_what_leaves_the_window() {
        assert_eq!(always_publish(Policy::distribution(512, 3), 5), [256, 128, 64, 160, 144]);
    }
}
