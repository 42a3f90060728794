//! [`Acknowledgement`]: an operator has seen an alarm.

use super::row::{Columns, check, sum};

/// Acknowledgement of an answer that raised an alarm. Each answer has one at most, which never changes, and which is
/// deleted with the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Number of the answer.
    pub number: u64,
    /// Who acknowledged it.
    pub by: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl Acknowledgement {
    /// Reads a row of number, holder, moment and sum, and verifies its checksum.
    pub(super) fn read<C: Columns>(row: &C, stream: &str) -> Result<Self, C::Fault> {
        let found = Self { number: row.number(0)?, by: row.text(1)?, at: row.number(2)? };
        check(row.integer(3)?, found.sum(stream), || format!("an acknowledgement of {stream}"))?;
        Ok(found)
    }

    pub(super) fn sum(&self, stream: &str) -> i64 {
        let numbers = [self.number, self.at].map(u64::to_le_bytes).concat();
        sum(&[b"acknowledgement", stream.as_bytes(), &numbers, self.by.as_bytes()])
    }
}
