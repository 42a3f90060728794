//! [`Rows`]: tables in memory.
//!
//! ```
//! use std::io;
//! use tidegate_table::{Cells, Reading, Rows, TableReader};
//! use tidegate_table::long::LongReader;
//!
//! struct Visits(Vec<(u64, &'static str, &'static str)>);
//!
//! impl Rows for Visits {
//!     fn columns(&self) -> Vec<String> {
//!         ["t", "user", "value"].map(str::to_owned).into()
//!     }
//!
//!     fn read_only(&mut self, _: &[usize]) {}
//!
//!     fn next_row(&mut self, cells: &mut Cells<'_>) -> io::Result<bool> {
//!         let Some((t, user, value)) = self.0.pop() else { return Ok(false) };
//!         [&t.to_string(), user, value].map(|cell| cells.push(cell));
//!         Ok(true)
//!     }
//! }
//!
//! let table = TableReader::<io::Empty>::of_rows("visits", Box::new(Visits(vec![(0, "anna", "home")])));
//! let mut reader = LongReader::from_table(table, Reading::default())?;
//! assert_eq!(reader.next_checked(|row| Ok(row.user.to_owned()))?.as_deref(), Some("anna"));
//! # Ok::<(), tidegate_table::TableError>(())
//! ```

use std::io;

use csv::StringRecord;

/// A table in memory, row by row, with text in its cells as CSV has it. A cell without content is empty.
pub trait Rows {
    /// The names of the columns.
    fn columns(&self) -> Vec<String>;

    /// Says that only these columns are read: the cells of the others may be empty.
    fn read_only(&mut self, columns: &[usize]);

    /// Adds the cells of the next row, one for each column; returns whether there was one.
    ///
    /// # Errors
    /// A table that cannot be read on. The message contains no cell.
    fn next_row(&mut self, cells: &mut Cells<'_>) -> io::Result<bool>;
}

/// The cells of a row.
pub struct Cells<'a> {
    record: &'a mut StringRecord,
}

/// Shows nothing of the data.
impl std::fmt::Debug for Cells<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cells").finish_non_exhaustive()
    }
}

impl<'a> Cells<'a> {
    pub(crate) const fn new(record: &'a mut StringRecord) -> Self {
        Self { record }
    }

    /// Adds a cell.
    pub fn push(&mut self, text: &str) {
        self.record.push_field(text);
    }
}
