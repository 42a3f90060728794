//! Tests of tables: one binary, a module for each form.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]

mod json_lines;
mod long;
mod scalar;
mod support;
mod suspicious;
mod wide;
