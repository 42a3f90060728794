//! Aligned columns of plain text.

pub(crate) use tidegate_table::layout::{layout, short};
