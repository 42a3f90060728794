//! [`Budget`]: the account of a stream.

use tidegate_kernel::{Epsilon, Ledger, Window};

/// The budget of a stream's users before a timestamp: total, spent and left.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Whose budget it is: a class, or everyone where there is none.
    pub class: Option<String>,
    /// The length of the window.
    pub window: Window,
    /// The total of any window.
    pub epsilon: Epsilon,
    /// The spends of the window that ends with the timestamp; `None` for nothing. Where the population is divided, the
    /// most that any one user has spent.
    pub spent: Option<Epsilon>,
    /// The share of the window's budget, or of the population, that is left: 0 to 1.
    pub left: f64,
    /// Where the population is divided: the slots that may still be asked, of [`SLOTS`](tidegate_kernel::SLOTS).
    pub slots_left: Option<u32>,
}

/// The budgets of a saved stream: see [`Stream::balance`](super::Stream::balance).
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    /// The last timestamp that is over; in a sequence stream, the latest of any user.
    pub last: Option<u64>,
    /// How many users have a ledger of their own; `None` where a ledger is for all.
    pub users: Option<usize>,
    /// One budget, or one for each class. Of users with ledgers of their own: that of the user who has least left.
    pub budgets: Vec<Budget>,
}

impl Budget {
    /// The rest of the budget; `None` for nothing. Where the population is divided, of the user who has spent most.
    pub fn rest(&self) -> Option<Epsilon> {
        let spent = self.spent.map_or(0, Epsilon::units);
        Epsilon::from_units(self.epsilon.units().saturating_sub(spent)).ok()
    }

    /// The budget of a ledger before it spends at a timestamp.
    #[allow(clippy::cast_precision_loss)] // a share
    pub(super) fn of(class: Option<String>, ledger: &Ledger, timestamp: u64) -> Self {
        let epsilon = ledger.budget();
        let left = ledger.remaining(timestamp).map_or(0, Epsilon::units);
        let spent = Epsilon::from_units(epsilon.units() - left).ok();
        Self {
            class,
            window: ledger.window(),
            epsilon,
            spent,
            left: left as f64 / epsilon.units() as f64,
            slots_left: None,
        }
    }
}
