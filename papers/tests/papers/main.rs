//! Tests of the reproduced papers: one binary.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]

mod claims;
mod errata;
mod references;
mod reproduce;
#[path = "../../../crates/table/tests/table/support.rs"]
mod support;
