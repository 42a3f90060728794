//! The ledger audit: what every window of a recorded run has spent, from what was recorded alone.
//!
//! It shares no code with the accountant that it checks: amounts are read as decimals into whole units of 10⁻⁹, and the
//! sum of each window is formed here.
//!
//! A record is a table, or lines of JSON, with these fields; others are ignored:
//!
//! | field | what it says |
//! | --- | --- |
//! | `t`, or `timestamp` | the timestamp that was spent on |
//! | `spent` | who spent how much on it, as [`Spent`] is written; empty, or `null`, where nobody did |
//! | `user`, or `class` | whose account it is, where there are several |
//! | `first_slot`, `slots` | the slots of the population that were asked, where not all were; they wrap around |
//!
//! Each line is a spend of its own, also at a timestamp that had one. Where a line has a field `frequency` or
//! `count`, a release has a line for each of its values, or of the nodes of its tree: lines of one timestamp and
//! account then belong to one release, until the value that it began with comes again, and must agree on what it
//! spent.
//!
//! So the output of `tidegate release` is a record, and so are [`Release`]s as JSON and what the service lists of them.

mod record;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;

use tidegate::release::{ClassSpend, Release, Spent};
use tidegate_kernel::{Cohort, Epsilon, Question};

pub use record::read;

/// How many slots a population is divided into.
const SLOTS: u32 = 1 << 16;

/// How many decimals an amount has.
const DECIMALS: i32 = 9;

/// Something that was spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// The timestamp that it was spent on.
    pub timestamp: u64,
    /// How much, in units of 10⁻⁹.
    pub units: u64,
    /// Whose account it is; empty where there is one only.
    pub account: String,
    /// The slots that were asked, as the first and how many; everyone's where nothing is said.
    pub slots: Option<(u16, u32)>,
}

impl Spend {
    /// What a release says: a spend for each class, at most one otherwise, and none where nothing was spent.
    pub fn of_release(release: &Release) -> Vec<Self> {
        let everyone = |epsilon: Epsilon| Self {
            timestamp: release.timestamp,
            units: epsilon.units(),
            account: String::new(),
            slots: None,
        };
        match &release.spent {
            Spent::Nothing => Vec::new(),
            Spent::Everyone(epsilon) => vec![everyone(*epsilon)],
            Spent::Slots { first, count, epsilon } => {
                vec![Self { slots: Some((*first, *count)), ..everyone(*epsilon) }]
            }
            Spent::Classes(classes) => classes
                .iter()
                .map(|ClassSpend { class, epsilon }| Self { account: account_of(*class), ..everyone(*epsilon) })
                .collect(),
        }
    }

    /// What a question costs those whom it reaches.
    pub fn of_question(question: &Question) -> Self {
        let slots = match question.cohort {
            Cohort::Everyone => None,
            Cohort::Slots { first, count } => Some((first, count)),
        };
        let units = question.epsilon.units();
        Self { timestamp: question.timestamp, units, account: String::new(), slots }
    }

    /// The ranges of slots that were asked, each as its first and the one after its last; two where they go around the
    /// end.
    fn ranges(&self) -> Vec<(u32, u32)> {
        let Some((first, count)) = self.slots else { return vec![(0, SLOTS)] };
        let (first, end) = (u32::from(first), u32::from(first) + count.min(SLOTS));
        if end <= SLOTS { vec![(first, end)] } else { vec![(first, SLOTS), (0, end - SLOTS)] }
    }
}

/// What the account of a class is called.
pub fn account_of(class: u32) -> String {
    format!("class {class}")
}

/// The class of an account that is called so.
pub fn class_of(account: &str) -> Option<u32> {
    account.strip_prefix("class ")?.parse().ok()
}

/// What an account may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many timestamps share the budget; without a length there is one window, which never ends.
    pub window: Option<NonZeroU64>,
    /// What they may spend together.
    pub budget: Epsilon,
}

/// What a window has spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSpend {
    /// The first timestamp of the window.
    pub first: u64,
    /// Its last timestamp, at which something was spent.
    pub last: u64,
    /// Whose account it is; empty where there is one only.
    pub account: String,
    /// A slot of those who have spent that much, where slots were asked.
    pub slot: Option<u16>,
    /// How much, in units of 10⁻⁹.
    pub units: u128,
    /// What it may spend.
    pub budget: Epsilon,
}

/// What a record comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// How many spends there are.
    pub spends: u64,
    /// How many windows end at a timestamp at which something was spent, over all accounts.
    pub windows: u64,
    /// The window that has spent most, the first of several; `None` where nothing was spent.
    pub largest: Option<WindowSpend>,
    /// The first window, by its end, that has spent more than the budget.
    pub overspent: Option<WindowSpend>,
}

/// Sums up every window of a record, where all accounts have the same window and budget. Without a length there is one
/// window, which never ends.
pub fn statement(spends: &[Spend], window: Option<NonZeroU64>, budget: Epsilon) -> Statement {
    statement_by(spends, |_| Limit { window, budget })
}

/// Sums up every window of a record, where each account has a limit of its own.
///
/// A window is judged when it is complete: at its last timestamp, with all that was spent on that.
pub fn statement_by(spends: &[Spend], limit_of: impl Fn(&str) -> Limit) -> Statement {
    let mut accounts: BTreeMap<&str, Vec<&Spend>> = BTreeMap::new();
    for spend in spends {
        accounts.entry(&spend.account).or_default().push(spend);
    }
    let mut statement = Statement { spends: spends.len() as u64, windows: 0, largest: None, overspent: None };
    for (account, mut spends) in accounts {
        spends.sort_by_key(|spend| spend.timestamp);
        sum_up(account, &spends, limit_of(account), &mut statement);
    }
    statement
}

/// The windows of one account, whose spends come in order.
fn sum_up(account: &str, spends: &[&Spend], Limit { window, budget }: Limit, statement: &mut Statement) {
    // Between two borders all slots are asked the same, so one sum does for them.
    let borders: BTreeSet<u32> =
        spends.iter().flat_map(|spend| spend.ranges()).flat_map(|(first, end)| [first, end]).collect();
    let borders: Vec<u32> = borders.into_iter().collect();
    let group_of = |slot: u32| borders.partition_point(|border| *border < slot);
    let mut sums = vec![0_u128; borders.len()];
    let mut in_window: VecDeque<&Spend> = VecDeque::new();
    let mut rest = spends;
    while let Some(now) = rest.first().map(|spend| spend.timestamp) {
        let first = window.map_or(0, |window| now.saturating_sub(window.get() - 1));
        while let Some(old) = in_window.front().filter(|old| old.timestamp < first) {
            for (from, end) in old.ranges() {
                sums[group_of(from)..group_of(end)].iter_mut().for_each(|sum| *sum -= u128::from(old.units));
            }
            in_window.pop_front();
        }
        let (at_once, later) = rest.split_at(rest.partition_point(|spend| spend.timestamp == now));
        rest = later;
        for spend in at_once {
            for (from, end) in spend.ranges() {
                sums[group_of(from)..group_of(end)].iter_mut().for_each(|sum| *sum += u128::from(spend.units));
            }
            in_window.push_back(spend);
        }
        statement.windows += 1;
        let Some((group, units)) = (0..).zip(&sums).max_by_key(|(group, sum)| (**sum, usize::MAX - group)) else {
            continue;
        };
        let has_slots = in_window.iter().any(|spend| spend.slots.is_some());
        let slot = borders.get(group).and_then(|border| u16::try_from(*border).ok()).filter(|_| has_slots);
        let spent = || WindowSpend { first, last: now, account: account.to_owned(), slot, units: *units, budget };
        if statement.largest.as_ref().is_none_or(|largest| *units > largest.units) {
            statement.largest = Some(spent());
        }
        let is_earlier = statement.overspent.as_ref().is_none_or(|earlier| now < earlier.last);
        if *units > u128::from(budget.units()) && is_earlier {
            statement.overspent = Some(spent());
        }
    }
}

/// An amount as people read it.
pub fn in_epsilons(units: u128) -> String {
    let scale = 10_u128.pow(DECIMALS.unsigned_abs());
    let fraction = format!("{:09}", units % scale);
    match fraction.trim_end_matches('0') {
        "" => (units / scale).to_string(),
        digits => format!("{}.{digits}", units / scale),
    }
}
