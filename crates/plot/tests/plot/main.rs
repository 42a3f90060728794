//! Tests of charts and pages: one binary, a module for each subject.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]

mod pixels;
mod plot;
mod report;
