//! Budget policies for publications: distribution and absorption (Kellaris et al. 2014).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Proposes a spend. The ledger decides whether it is allowed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Policy {
    Distribution(Pool),
    Absorption(Absorption),
}

/// A proposed spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proposal {
    /// Amount to spend if publishing is worth it; may be zero.
    Spend(u64),
    /// Spends nothing, because an earlier publication took this timestamp's share.
    Nullify,
}

impl Policy {
    /// Proposes half of the remaining pool of the window.
    pub(crate) const fn distribution(pool: u64, window: u64) -> Self {
        Self::Distribution(Pool::new(pool, window))
    }

    /// Proposes the shares saved since the last publication, then skips as many timestamps.
    pub(crate) const fn absorption(share: u64, window: u64) -> Self {
        Self::Absorption(Absorption::with_two_shares_first(share, window))
    }

    pub(crate) fn propose(&mut self, timestamp: u64) -> Proposal {
        match self {
            Self::Distribution(pool) => Proposal::Spend(pool.remaining(timestamp) / 2),
            Self::Absorption(absorption) => absorption.propose(timestamp),
        }
    }

    pub(crate) fn note_spend(&mut self, timestamp: u64, amount: u64) {
        match self {
            Self::Distribution(pool) => pool.note_spend(timestamp, amount),
            Self::Absorption(absorption) => absorption.note_spend(timestamp, amount),
        }
    }
}

/// Publication budget of any window, and its spends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pool {
    pool: u64,
    window: u64,
    /// Spends of the current window.
    spends: VecDeque<(u64, u64)>,
}

impl Pool {
    pub(crate) const fn new(pool: u64, window: u64) -> Self {
        Self { pool, window, spends: VecDeque::new() }
    }

    /// Budget of a window.
    pub(crate) const fn total(&self) -> u64 {
        self.pool
    }

    /// Changes the budget of a window; spends remain.
    pub(crate) const fn set_total(&mut self, pool: u64) {
        self.pool = pool;
    }

    /// Budget left in the window that ends at a timestamp. Timestamps never decrease.
    pub(crate) fn remaining(&mut self, timestamp: u64) -> u64 {
        while let Some(&(earliest, _)) = self.spends.front()
            && timestamp.saturating_sub(earliest) >= self.window
        {
            self.spends.pop_front();
        }
        let spent = self.spends.iter().fold(0_u64, |spent, (_, amount)| spent.saturating_add(*amount));
        self.pool.saturating_sub(spent)
    }

    pub(crate) fn note_spend(&mut self, timestamp: u64, amount: u64) {
        self.spends.push_back((timestamp, amount));
    }
}

/// Shares that are saved up and spent at once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Absorption {
    share: u64,
    window: u64,
    since: Since,
}

/// Start of the present savings.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Since {
    /// No proposal yet.
    Never,
    /// First timestamp; nothing is published.
    First(u64),
    /// Last publication, and the shares that it took.
    Published { timestamp: u64, shares: u64 },
    /// No proposal yet, and the first may take no share in advance.
    NeverInAdvance,
}

impl Absorption {
    /// The first timestamp may also spend the share of the second, as in LDP-IDS (Ren et al. 2022).
    pub(crate) const fn with_two_shares_first(share: u64, window: u64) -> Self {
        Self { share, window, since: Since::Never }
    }

    /// The first timestamp may spend its own share only.
    pub(crate) const fn with_one_share_first(share: u64, window: u64) -> Self {
        Self { share, window, since: Since::NeverInAdvance }
    }

    /// Changes the share of a timestamp, to at least one.
    pub(crate) fn set_share(&mut self, share: u64) {
        self.share = share.max(1);
    }

    pub(crate) fn note_spend(&mut self, timestamp: u64, amount: u64) {
        let shares = amount.checked_div(self.share).unwrap_or(self.window);
        self.since = Since::Published { timestamp, shares };
    }

    pub(crate) fn propose(&mut self, timestamp: u64) -> Proposal {
        let saved = match self.since {
            Since::NeverInAdvance => {
                self.since = Since::Published { timestamp, shares: 0 };
                1
            }
            // As in the paper, one more than have passed; nullified timestamps pay it back.
            Since::Never => {
                self.since = Since::First(timestamp);
                2
            }
            Since::First(first) => timestamp.saturating_sub(first).saturating_add(2),
            // All since then, less the shares that the last publication took in advance.
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

    /// Spends of each timestamp if every proposal is taken.
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

    /// Users of the running example of personalised privacy: windows of 4, 2 and 3. Budgets are in 48ths.
    const WINDOWS: [u64; 3] = [4, 2, 3];
    const EPSILON: u64 = 48;

    /// Publication spends of each user of the example, with publications at 1, 3 and 5 where allowed.
    fn table(mut propose: impl FnMut(usize, u64) -> u64) -> Vec<[u64; 3]> {
        (1..=5).map(|timestamp| std::array::from_fn(|user| propose(user, timestamp))).collect()
    }

    #[test]
    fn distribution_gives_the_budgets_of_example_3_and_figure_5() {
        let mut pools = WINDOWS.map(|window| Pool::new(EPSILON / 2, window));
        let spent = table(|user, timestamp| {
            let proposal = pools[user].remaining(timestamp) / 2;
            if timestamp % 2 == 0 {
                return 0;
            }
            pools[user].note_spend(timestamp, proposal);
            proposal
        });
        // In eps_i: 1/4 for all at 1; at 3, u_1 has 1/8, u_2 whose window has passed 1/4, u_3 1/8; at 5, (1/2 - 1/8)/2
        // = 3/16 for u_1 and u_3.
        assert_eq!(spent, [[12, 12, 12], [0, 0, 0], [6, 12, 6], [0, 0, 0], [9, 12, 9]]);
        // With the dissimilarity's eps_i/(2 w_i), timestamp 1 costs u_1 3/8 in all.
        assert_eq!(spent[0][0] + EPSILON / (2 * WINDOWS[0]), 3 * EPSILON / 8);
    }

    #[test]
    fn absorption_gives_the_budgets_of_example_4_and_figure_6() {
        let mut policies = WINDOWS.map(|window| Absorption::with_one_share_first(EPSILON / (2 * window), window));
        let spent = table(|user, timestamp| {
            let proposal = policies[user].propose(timestamp);
            match proposal {
                Proposal::Spend(amount) if timestamp % 2 == 1 => {
                    policies[user].note_spend(timestamp, amount);
                    amount
                }
                Proposal::Nullify => {
                    assert_eq!(timestamp, 4, "the paper nullifies timestamp 4 only");
                    0
                }
                Proposal::Spend(_) => {
                    assert_ne!(timestamp, 4);
                    0
                }
            }
        });
        // In eps_i: one share each at 1; 1/4, 1/2, 1/3 at 3, with which 4 is borrowed; 1/8, 1/4, 1/6 at 5.
        assert_eq!(spent, [[6, 12, 8], [0, 0, 0], [12, 24, 16], [0, 0, 0], [6, 12, 8]]);
    }

    #[test]
    fn absorption_saves_up_as_in_figure_8() {
        let windows = [4, 2, 8, 6];
        let mut policies = windows.map(|window| Absorption::with_one_share_first(EPSILON / (2 * window), window));
        for timestamp in 1..=6 {
            let offered = policies.each_mut().map(|policy| policy.propose(timestamp));
            let expected = windows.map(|window| Proposal::Spend(timestamp.min(window) * EPSILON / (2 * window)));
            assert_eq!(offered, expected);
        }
    }

    /// If a publication uses less than a proposal, the paper's policy counts the rest as spent. Counting only the used
    /// part when paying back is unsound: a partly used share counts twice. It is sound together with the window's
    /// remaining budget.
    #[test]
    fn reclaiming_needs_an_account_of_what_was_really_spent() {
        let (window, threshold) = (3, 210);
        let run = |accounted: bool| {
            // Epsilon is 1000, of which 500 for publishing.
            let mut pool = Pool::new(500, window);
            let spent: Vec<u64> = (2..)
                // Spends that the unsound rule allows: two shares at 2, then the savings less what was used.
                .zip([333, 123, 333])
                .map(|(timestamp, fractional): (u64, u64)| {
                    let allowed = if accounted { pool.remaining(timestamp) } else { u64::MAX };
                    let amount = fractional.min(threshold).min(allowed);
                    pool.note_spend(timestamp, amount);
                    amount
                })
                .collect();
            spent.iter().sum::<u64>()
        };
        assert_eq!(run(false), 543);
        assert_eq!(run(true), 500);
    }
}
