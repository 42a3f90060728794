//! Secret queries over the readings of several timestamps.

use std::fmt;
use std::ops::RangeInclusive;

use zeroize::Zeroizing;

use super::deviation;
use super::reading::Clamp;
use super::{PrimitiveError, Protects};
use crate::account::Account;
use crate::sealed::Sealed;

/// A secret number computed from sealed readings, for an [`AboveThreshold`](super::AboveThreshold) test.
///
/// Only the kernel computes one, so it knows its timestamps and its sensitivity to the data of one timestamp. Both are
/// public; the number is not.
///
/// ```
/// use tidegate_kernel::primitives::{Protects, SealedQuery};
/// use tidegate_kernel::{Grid, Ledger, Window};
///
/// let account = Ledger::new("1".parse()?, Window::EVENT).account();
/// let grid = Grid::new(0.0, 10.0, 1.0)?;
/// let group = [grid.seal(account, 5, 4.0)?, grid.seal(account, 3, 5.0)?, grid.seal(account, 4, 9.0)?];
/// let query = SealedQuery::deviation(&group, grid.range(), Protects::Reading)?; // 2 + 1 + 3
/// assert_eq!(query.timestamps(), [3, 4, 5]);
/// assert_eq!(query.sensitivity(), 14); // 2·10·(3-1)/3, rounded up
/// assert_eq!(format!("{query:?}"), "Query(..)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SealedQuery {
    account: Account,
    /// Strictly ascending.
    timestamps: Vec<u64>,
    sensitivity: u64,
    value: Zeroizing<i128>,
}

impl SealedQuery {
    /// Queries one reading, clamped to a public range. The sensitivity is [`Protects::sensitivity`].
    ///
    /// # Errors
    /// [`PrimitiveError::Range`] for a range of fewer than two points.
    pub fn reading(
        reading: &Sealed<i64>,
        range: RangeInclusive<i64>,
        protects: Protects,
    ) -> Result<Self, PrimitiveError> {
        let clamp = Clamp::new(&range)?;
        Ok(Self {
            account: reading.account(),
            timestamps: vec![reading.timestamp()],
            sensitivity: protects.within(&clamp),
            value: Zeroizing::new(i128::from(clamp.apply(reading))),
        })
    }

    /// Queries the deviation of a group: the sum of the readings' absolute deviations from their mean, in whole grid
    /// units, rounded down. Each reading is first clamped to a public range.
    ///
    /// For `n` readings and `s` = [`Protects::sensitivity`], the sensitivity is `2·s·(n-1)/n`, rounded up
    /// ([proof](crate::proofs::deviation)). It is at most `2·s` for a group of any size.
    ///
    /// # Errors
    /// [`PrimitiveError::Nothing`] for no readings; [`PrimitiveError::SameTimestamp`] for two readings of one
    /// timestamp, which would double the sensitivity; [`PrimitiveError::Account`] for readings of two accounts;
    /// [`PrimitiveError::Range`] for a range of fewer than two points.
    pub fn deviation<'a>(
        readings: impl IntoIterator<Item = &'a Sealed<i64>>,
        range: RangeInclusive<i64>,
        protects: Protects,
    ) -> Result<Self, PrimitiveError> {
        let clamp = Clamp::new(&range)?;
        let (mut account, mut timestamps) = (None, Vec::new());
        let mut values = Zeroizing::new(Vec::new());
        for reading in readings {
            if *account.get_or_insert(reading.account()) != reading.account() {
                return Err(PrimitiveError::Account);
            }
            timestamps.push(reading.timestamp());
            values.push(clamp.above_low(reading));
        }
        timestamps.sort_unstable();
        if let Some(pair) = timestamps.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PrimitiveError::SameTimestamp { timestamp: pair[0] });
        }
        let account = account.ok_or(PrimitiveError::Nothing { expected: "reading" })?;
        let sensitivity = deviation::sensitivity(values.len() as u64, protects.within(&clamp), 1);
        let value = deviation::times_count(&values, clamp.width()) / values.len() as i128;
        Ok(Self { account, timestamps, sensitivity, value: Zeroizing::new(value) })
    }

    /// The account of the data.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// The timestamps that the query reads, ascending.
    pub fn timestamps(&self) -> &[u64] {
        &self.timestamps
    }

    /// The sensitivity to the data of one timestamp.
    pub const fn sensitivity(&self) -> u64 {
        self.sensitivity
    }

    /// The number, for the kernel's own primitives.
    pub(super) fn value(&self) -> i128 {
        *self.value
    }
}

impl fmt::Debug for SealedQuery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Query(..)")
    }
}
