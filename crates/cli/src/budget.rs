//! `tidegate budget`: what a state has spent, and what is left.

use clap::Args;
use serde_json::{Value, json};
use tidegate::kernel::{Epsilon, SLOTS, Window};
use tidegate::release::readable;
use tidegate::series::Series;
use tidegate::spec::StreamSpec;
use tidegate::stream::{Balance, Budget};
use tidegate_table::time::Clock;

use crate::failure::Failure;
use crate::output::Output;
use crate::table::layout;
use tidegate_release::state::{Saved, misfit};

/// Show what the state of a release has spent, and what is left.
///
/// STATE is the file that `tidegate release --state` keeps. A budget is for any window of consecutive
/// timestamps: what leaves the window can be spent again. The table says, for the window that ends
/// with the next timestamp or with --at:
///
///   epsilon   the budget of the window
///   spent     what its earlier timestamps spent; where the population is divided, the most that any
///             one user has spent
///   left      what the timestamp may spend; where the population is divided, how many of the 65536
///             slots of users may still be asked
///
/// Where timestamps have times, it says when the window and the timestamp begin, and when that is over.
///
/// There is a line for each class that has a guarantee of its own. Where each user has a ledger, as in
/// sequences, the line is that of the user who has least left. Where a table has several series, each
/// has its own lines, and what one person spends in several of them adds up. The state is only read:
/// it needs no key, and a run that uses it goes on.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate budget stream.state\n  tidegate budget stream.state --at 100 --json"
)]
pub(crate) struct ShowBudget {
    /// The state file
    #[arg(value_name = "STATE")]
    state: String,

    /// The timestamp that is to be paid for, by its number or its time; the one after the last unless given
    #[arg(long, value_name = "T")]
    at: Option<String>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl ShowBudget {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (saved, seeded) = Saved::read(&self.state)?;
        let spec: StreamSpec = serde_json::from_str(&saved.spec).map_err(misfit)?;
        let mut clock = Clock::new(spec.input()).map_err(misfit)?;
        clock.keep_zone(saved.zone);
        let at = self.at.as_deref().map(|at| timestamp(at, &clock)).transpose()?;
        let balances = Series::balance(spec.clone(), &saved.stream, at).map_err(misfit)?;
        let latest = balances.iter().filter_map(|(_, balance)| balance.last).max();
        if let (Some(at), Some(last)) = (at, latest)
            && at <= last
            && balances.iter().all(|(_, balance)| balance.users.is_none())
        {
            let last = named(last, &clock);
            return Err(Failure::input(format_args!("--at: expected a timestamp after {last}, which is over")));
        }
        let shown = Shown { spec: &spec, balances: &balances, at, seeded, clock };
        let mut output = Output::create("-")?;
        output.write(&if self.json { format!("{}\n", shown.to_json()) } else { shown.in_words() })?;
        output.finish()
    }
}

/// Parses a timestamp: its number, or its time.
fn timestamp(text: &str, clock: &Clock) -> Result<u64, Failure> {
    let number = text.parse().ok();
    let found = number.map_or_else(|| clock.clone().timestamp(text), Ok);
    found.map_err(|expected| Failure::input(format_args!("--at: expected {expected}")))
}

/// A timestamp, with its time where it has one.
fn named(timestamp: u64, clock: &Clock) -> String {
    clock.time(timestamp).map_or_else(|| timestamp.to_string(), |time| format!("{timestamp} ({time})"))
}

/// The first timestamp of the window that ends with a timestamp; `None` for a window without end.
fn beginning(window: Window, at: u64) -> Option<u64> {
    match window {
        Window::Timestamps(length) => Some(at.saturating_sub(length.get() - 1)),
        Window::Unbounded => None,
    }
}

/// The timestamp that is to be paid for.
fn paid_for(at: Option<u64>, last: Option<u64>) -> u64 {
    at.unwrap_or_else(|| last.map_or(0, |last| last.saturating_add(1)))
}

/// The budgets of a state.
struct Shown<'a> {
    spec: &'a StreamSpec,
    /// One without a name, or one for each series.
    balances: &'a [(Option<String>, Balance)],
    at: Option<u64>,
    seeded: bool,
    clock: Clock,
}

impl Shown<'_> {
    /// In how many series one person can be.
    fn across(&self) -> Option<u64> {
        self.spec.input().split().ok().flatten().map(|split| split.most.get())
    }

    fn to_json(&self) -> Value {
        let mut json = json!({ "mechanism": self.spec.mechanism().full_name, "seeded": self.seeded });
        let of_one = |balance: &Balance| {
            let at = paid_for(self.at, balance.last);
            let mut entries = vec![
                ("last", json!(balance.last)),
                ("at", json!(at)),
                ("users", json!(balance.users)),
                ("budgets", balance.budgets.iter().map(|budget| self.budget_to_json(budget, at)).collect()),
            ];
            if self.clock.has_times() {
                let time = |timestamp: Option<u64>| json!(timestamp.and_then(|timestamp| self.clock.time(timestamp)));
                let next = [("last_time", balance.last), ("at_time", Some(at)), ("at_ends", at.checked_add(1))];
                entries.extend(next.map(|(key, timestamp)| (key, time(timestamp))));
            }
            entries
        };
        match (self.across(), self.balances) {
            (None, [(_, balance)]) => of_one(balance).into_iter().for_each(|(key, value)| json[key] = value),
            (across, balances) => {
                let of_series = |(name, balance): &(Option<String>, Balance)| {
                    let mut json = json!({ "series": name });
                    of_one(balance).into_iter().for_each(|(key, value)| json[key] = value);
                    json
                };
                json["across_series"] = json!(across);
                json["series"] = balances.iter().map(of_series).collect();
            }
        }
        json
    }

    fn budget_to_json(&self, budget: &Budget, at: u64) -> Value {
        let amount = |epsilon: Option<Epsilon>| epsilon.map_or(0.0, Epsilon::as_f64);
        let since = beginning(budget.window, at);
        let mut entry = json!({
            "class": budget.class,
            "window": match budget.window {
                Window::Timestamps(length) => json!(length),
                Window::Unbounded => Value::Null,
            },
            "since": since,
            "epsilon": budget.epsilon.as_f64(),
            "spent": amount(budget.spent),
            "share_left": readable(budget.left, 0.0),
        });
        if self.clock.has_times() {
            entry["since_time"] = json!(since.and_then(|since| self.clock.time(since)));
        }
        match budget.slots_left {
            Some(slots) => (entry["slots"], entry["slots_left"]) = (json!(SLOTS), json!(slots)),
            None => entry["left"] = json!(amount(budget.rest())),
        }
        entry
    }

    fn in_words(&self) -> String {
        let over = |last: Option<u64>| match last {
            Some(last) => format!("released up to timestamp {}", named(last, &self.clock)),
            None => "nothing released yet".to_owned(),
        };
        let last = self.balances.iter().filter_map(|(_, balance)| balance.last).max();
        let (name, at) = (self.spec.mechanism().full_name, paid_for(self.at, last));
        let mut text = format!("{name}: {}; the budget before timestamp {}\n\n", over(last), named(at, &self.clock));
        let mut rows = vec![["whose", "window", "epsilon", "spent", "left", "share left"].map(str::to_owned).to_vec()];
        if self.clock.has_times() {
            rows[0].insert(2, "since".to_owned());
        }
        for (series, balance) in self.balances {
            rows.extend(balance.budgets.iter().map(|budget| {
                let mut row = row(budget, balance.users.is_some());
                if self.clock.has_times() {
                    let since = beginning(budget.window, paid_for(self.at, balance.last));
                    row.insert(2, since.and_then(|since| self.clock.time(since)).unwrap_or_default());
                }
                row.splice(0..0, series.clone());
                row
            }));
        }
        if let Some(end) = at.checked_add(1).and_then(|next| self.clock.time(next)) {
            let next = if self.at.is_some() { "That timestamp" } else { "The next timestamp" };
            let begins = self.clock.describe(at);
            text += &format!("{next} begins at {begins} and is over at {end}.\n\n");
        }
        let across = self.across();
        if across.is_some() {
            rows[0].insert(0, "series".to_owned());
        }
        text += &layout(&rows);
        for (series, balance) in self.balances {
            let of = series.as_ref().map(|series| format!("{series}: ")).unwrap_or_default();
            let users = balance.users.map(|users| format!("\n{of}{users} users, each with a ledger of their own\n"));
            text += &users.unwrap_or_default();
        }
        if let Some(most) = across {
            text += &format!(
                "\nOne person is in at most {most} of the series within a window, as across_series says: what these \
                 spend adds up.\n"
            );
        }
        let all = || self.balances.iter().flat_map(|(_, balance)| &balance.budgets);
        if all().all(|budget| budget.window == Window::EVENT) {
            text += "\nEach timestamp has this budget to itself.\n";
        }
        if self.seeded {
            text += "\nA run with a seed has contributed to this state, so what it released is not private.\n";
        }
        text
    }
}

fn row(budget: &Budget, has_users: bool) -> Vec<String> {
    let amount = |epsilon: Option<Epsilon>| epsilon.map_or_else(|| "0".to_owned(), |epsilon| epsilon.to_string());
    let whose = match (&budget.class, has_users) {
        (Some(class), _) => class.clone(),
        (None, true) => "least left".to_owned(),
        (None, false) => "everyone".to_owned(),
    };
    let window = match budget.window {
        Window::Timestamps(length) => length.to_string(),
        Window::Unbounded => "all".to_owned(),
    };
    let left = match budget.slots_left {
        Some(slots) => format!("{slots} of {SLOTS} slots"),
        None => amount(budget.rest()),
    };
    let share = format!("{:.1} %", 100.0 * budget.left);
    vec![whose, window, budget.epsilon.to_string(), amount(budget.spent), left, share]
}
