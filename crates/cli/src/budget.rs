//! `tidegate budget`: what a state has spent, and what is left.

use clap::Args;
use serde_json::{Value, json};
use tidegate::kernel::{Epsilon, SLOTS, Window};
use tidegate::spec::StreamSpec;
use tidegate::stream::{Balance, Budget, Stream};

use crate::failure::Failure;
use crate::output::Output;
use crate::release::state::{Saved, misfit};
use crate::table::layout;

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
/// There is a line for each class that has a guarantee of its own. Where each user has a ledger, as in
/// sequences, the line is that of the user who has least left. The state is only read: it needs no
/// key, and a run that uses it goes on.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate budget stream.state\n  tidegate budget stream.state --at 100 --json"
)]
pub(crate) struct ShowBudget {
    /// The state file
    #[arg(value_name = "STATE")]
    state: String,

    /// The timestamp that is to be paid for; the one after the last unless given
    #[arg(long, value_name = "T")]
    at: Option<u64>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl ShowBudget {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (saved, seeded) = Saved::read(&self.state)?;
        let spec: StreamSpec = serde_json::from_str(&saved.spec).map_err(misfit)?;
        let balance = Stream::balance(spec.clone(), &saved.stream, self.at).map_err(misfit)?;
        if let (Some(at), Some(last)) = (self.at, balance.last)
            && at <= last
            && balance.users.is_none()
        {
            return Err(Failure::input(format_args!("--at: expected a timestamp after {last}, which is over")));
        }
        let at = self.at.unwrap_or_else(|| balance.last.map_or(0, |last| last.saturating_add(1)));
        let mut output = Output::create("-")?;
        if self.json {
            output.write(&format!("{}\n", to_json(&spec, &balance, at, seeded)))?;
        } else {
            output.write(&in_words(&spec, &balance, at, seeded))?;
        }
        output.finish()
    }
}

/// Rest of a budget, in epsilon.
fn left(budget: &Budget) -> Option<Epsilon> {
    let spent = budget.spent.map_or(0, Epsilon::units);
    Epsilon::from_units(budget.epsilon.units().saturating_sub(spent)).ok()
}

fn to_json(spec: &StreamSpec, balance: &Balance, at: u64, seeded: bool) -> Value {
    let amount = |epsilon: Option<Epsilon>| epsilon.map_or(0.0, Epsilon::as_f64);
    let entry = |budget: &Budget| {
        let mut entry = json!({
            "class": budget.class,
            "window": match budget.window {
                Window::Timestamps(length) => json!(length),
                Window::Unbounded => Value::Null,
            },
            "epsilon": budget.epsilon.as_f64(),
            "spent": amount(budget.spent),
            "share_left": budget.left,
        });
        match budget.slots_left {
            Some(slots) => (entry["slots"], entry["slots_left"]) = (json!(SLOTS), json!(slots)),
            None => entry["left"] = json!(amount(left(budget))),
        }
        entry
    };
    let budgets: Vec<Value> = balance.budgets.iter().map(entry).collect();
    json!({
        "mechanism": spec.mechanism().full_name,
        "last": balance.last,
        "at": at,
        "users": balance.users,
        "seeded": seeded,
        "budgets": budgets,
    })
}

fn in_words(spec: &StreamSpec, balance: &Balance, at: u64, seeded: bool) -> String {
    let over = match balance.last {
        Some(last) => format!("released up to timestamp {last}"),
        None => "nothing released yet".to_owned(),
    };
    let mut text = format!("{}: {over}; the budget before timestamp {at}\n\n", spec.mechanism().full_name);
    let amount = |epsilon: Option<Epsilon>| epsilon.map_or_else(|| "0".to_owned(), |epsilon| epsilon.to_string());
    let mut rows = vec![["whose", "window", "epsilon", "spent", "left", "share left"].map(str::to_owned).to_vec()];
    rows.extend(balance.budgets.iter().map(|budget| {
        let whose = match (&budget.class, balance.users) {
            (Some(class), _) => class.clone(),
            (None, Some(_)) => "least left".to_owned(),
            (None, None) => "everyone".to_owned(),
        };
        let window = match budget.window {
            Window::Timestamps(length) => length.to_string(),
            Window::Unbounded => "all".to_owned(),
        };
        let left = match budget.slots_left {
            Some(slots) => format!("{slots} of {SLOTS} slots"),
            None => amount(left(budget)),
        };
        let share = format!("{:.1} %", 100.0 * budget.left);
        vec![whose, window, budget.epsilon.to_string(), amount(budget.spent), left, share]
    }));
    text += &layout(&rows);
    let users = balance.users.map(|users| format!("\n{users} users, each with a ledger of their own\n"));
    text += &users.unwrap_or_default();
    if balance.budgets.iter().all(|budget| budget.window == Window::EVENT) {
        text += "\nEach timestamp has this budget to itself.\n";
    }
    if seeded {
        text += "\nA run with a seed has contributed to this state, so what it released is not private.\n";
    }
    text
}
