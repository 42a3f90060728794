//! [`Ledger`]: an account of its own, for data that are no stream.

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use tidegate::kernel::primitives::{Neighbours, histogram_noise, noisy_histogram};
use tidegate::kernel::{self, Epsilon, MAX_DOMAIN, Sealed, SystemRandom, Window};
use tidegate_release::Error;

use crate::error::{BadData, BudgetExceeded, Failure};
use crate::work::{self, Owner};

/// The only timestamp.
const NOW: u64 = 0;

/// A ledger whose budget is for all time. It lives as long as its object.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Ledger {
    ledger: Mutex<kernel::Ledger>,
    owner: Owner,
}

/// Parses an amount of privacy.
fn parse(epsilon: &str) -> Result<Epsilon, Failure> {
    epsilon.parse().map_err(|error| Error::Spec(format!("epsilon: {error}")).into())
}

/// The counts of each cell in an array. They are copied once, into memory that is wiped.
fn counts_of(values: &Bound<'_, PyAny>) -> Result<Vec<u64>, Failure> {
    let bad = |text: String, row: Option<usize>| Failure::Raised(BadData::new_err((text, row)));
    let array: PyReadonlyArray1<'_, i64> = values
        .extract()
        .map_err(|_| bad("counts: expected whole numbers in an array with one dimension".to_owned(), None))?;
    let array = array.as_array();
    if array.is_empty() || array.len() > MAX_DOMAIN as usize {
        return Err(bad(format!("counts: expected from 1 to {MAX_DOMAIN} of them, not {}", array.len()), None));
    }
    let count = |(row, count): (usize, &i64)| {
        let text = || format!("counts, row {row}: expected a whole number from 0 on");
        u64::try_from(*count).map_err(|_| bad(text(), Some(row)))
    };
    array.iter().enumerate().map(count).collect()
}

impl Ledger {
    fn lock(&self) -> Result<MutexGuard<'_, kernel::Ledger>, Failure> {
        self.owner.check()?;
        // A ledger is whole between any two of its steps.
        Ok(self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Ledger {
    /// A ledger without spends.
    #[new]
    fn new(epsilon: &str) -> Result<Self, Failure> {
        let ledger = Mutex::new(kernel::Ledger::new(parse(epsilon)?, Window::Unbounded));
        Ok(Self { ledger, owner: Owner::new() })
    }

    /// The whole budget, as an exact decimal.
    #[getter]
    fn epsilon(&self) -> Result<String, Failure> {
        Ok(self.lock()?.budget().to_string())
    }

    /// Remaining budget.
    #[getter]
    fn left(&self) -> Result<String, Failure> {
        Ok(self.lock()?.remaining(NOW).map_or_else(|| "0".to_owned(), |left| left.to_string()))
    }

    /// Spends, and returns each count with noise, and the variance of the noise.
    fn histogram<'py>(
        &self,
        counts: &Bound<'py, PyAny>,
        epsilon: &str,
        contribution: u64,
        replace: bool,
    ) -> Result<(Bound<'py, PyArray1<i64>>, f64), Failure> {
        let py = counts.py();
        let amount = parse(epsilon)?;
        let refused = |problem: String| Failure::from(Error::Spec(format!("contribution: {problem}")));
        let contribution = NonZeroU64::new(contribution).ok_or_else(|| refused("expected 1 or more".to_owned()))?;
        let neighbours = if replace { Neighbours::Replace } else { Neighbours::AddRemove };
        let noise = histogram_noise(neighbours, contribution, amount).map_err(|error| refused(error.to_string()))?;
        let counts = counts_of(counts)?;
        let noised = work::run(py, |_| {
            let mut random = SystemRandom::new().map_err(Error::run)?;
            let (permit, counts) = {
                let mut ledger = self.lock()?;
                let sealed = Sealed::at(ledger.account(), NOW, counts);
                let spent = ledger.spend(NOW, amount);
                (spent.map_err(|refusal| Failure::Raised(BudgetExceeded::new_err(refusal.to_string())))?, sealed)
            };
            let noised = noisy_histogram(permit, &counts, neighbours, contribution, &mut random);
            Ok(noised.map_err(Error::run)?.into_value())
        })?;
        Ok((PyArray1::from_vec(py, noised), noise.laplace_variance()))
    }
}
