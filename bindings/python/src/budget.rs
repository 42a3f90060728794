//! [`Budget`]: what a stream has spent, and what is left.

use pyo3::prelude::*;
use tidegate::kernel::{Epsilon, Window};
use tidegate::stream;

/// The budget of a window of timestamps: what was spent of it, and what is left.
#[pyclass(frozen, get_all, module = "tidegate._tidegate")]
pub(crate) struct Budget {
    /// The name of the series; None where there is one stream only.
    series: Option<String>,
    /// The class of users; None where the budget is everyone's.
    class_: Option<String>,
    /// How many timestamps share the budget; None for all.
    window: Option<u64>,
    /// The budget of any window.
    epsilon: f64,
    /// Spends of the timestamps of the window; where the population is divided, the most that any user has spent.
    spent: f64,
    /// Rest of epsilon.
    left: f64,
    /// The share of the budget, or of the population, that is left: 0 to 1.
    share_left: f64,
    /// Where the population is divided, how many of the 65536 slots of users may still be asked.
    slots_left: Option<u32>,
    /// The last timestamp that is over.
    last: Option<u64>,
    /// How many users have a ledger of their own; the budget is that of the user who has least left.
    users: Option<usize>,
}

impl Budget {
    /// The budgets of a stream, one for each class.
    pub(crate) fn of(series: Option<&String>, balance: &stream::Balance) -> Vec<Self> {
        let amount = |epsilon: Option<Epsilon>| epsilon.map_or(0.0, Epsilon::as_f64);
        let of_one = |budget: &stream::Budget| Self {
            series: series.cloned(),
            class_: budget.class.clone(),
            window: match budget.window {
                Window::Timestamps(length) => Some(length.get()),
                Window::Unbounded => None,
            },
            epsilon: budget.epsilon.as_f64(),
            spent: amount(budget.spent),
            left: amount(budget.rest()),
            share_left: budget.left,
            slots_left: budget.slots_left,
            last: balance.last,
            users: balance.users,
        };
        balance.budgets.iter().map(of_one).collect()
    }
}

#[pymethods]
impl Budget {
    fn __repr__(&self) -> String {
        let of = [("series", &self.series), ("class_", &self.class_)];
        let of: String = of.iter().filter_map(|(key, name)| Some(format!("{key}={:?}, ", name.as_ref()?))).collect();
        let window = self.window.map_or_else(|| "None".to_owned(), |window| window.to_string());
        let Self { epsilon, spent, left, .. } = self;
        format!("Budget({of}window={window}, epsilon={epsilon}, spent={spent}, left={left})")
    }
}
