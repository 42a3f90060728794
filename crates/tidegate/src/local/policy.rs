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
        Self::Absorption(Absorption { share, window, since: Since::Never })
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
                absorption.since = Since::Published { timestamp, shares: amount / absorption.share };
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
    since: Since,
}

/// Since when shares have been saved up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Since {
    /// Nothing has been proposed yet.
    Never,
    /// The first timestamp; nothing has been published.
    First(u64),
    /// The last publication, which took so many shares.
    Published { timestamp: u64, shares: u64 },
}

impl Absorption {
    fn propose(&mut self, timestamp: u64) -> Proposal {
        if let Since::Never = self.since {
            self.since = Since::First(timestamp);
        }
        let saved = match self.since {
            // As in the paper, one more than have gone by: a publication pays it back by the timestamps that it nullifies.
            Since::Never => 2,
            Since::First(first) => timestamp.saturating_sub(first).saturating_add(2),
            // All since then, less those that the last publication took in advance.
            Since::Published { timestamp: last, shares } => {
                timestamp.saturating_sub(last).saturating_add(1).saturating_sub(shares)
            }
        };
        match saved.min(self.window) {
            0 => Proposal::Nullify,
            shares => Proposal::Spend(self.share.saturating_mul(shares)),
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
    fn shares_are_saved_up_from_the_first_timestamp_on_whichever_that_is() {
        for first in [0, 1, 77] {
            let mut policy = Policy::absorption(10, 5);
            let offered: Vec<Proposal> = (first..first + 6).map(|timestamp| policy.propose(timestamp)).collect();
            assert_eq!(offered, [20, 30, 40, 50, 50, 50].map(Proposal::Spend));
        }
    }

    #[test]
    fn distribution_halves_what_is_left_and_gets_back_what_leaves_the_window() {
        assert_eq!(always_publish(Policy::distribution(512, 3), 5), [256, 128, 64, 160, 144]);
    }
}
