//! The laboratory's tests: one binary, a module for each subject.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod accuracy;
mod advise;
mod audit;
mod bounds;
mod central;
#[allow(dead_code, unreachable_pub)] // the checks of the kernel's tests, which use all of them
#[path = "../../../kernel/tests/kernel/support.rs"]
mod chi_square;
mod coverage;
mod datasets;
mod experiment;
#[path = "../../../table/tests/table/support.rs"]
mod files;
mod generate;
mod local;
mod metrics;
mod queries;
mod real_data;
mod scalar;
mod sequence;
mod stream;
mod support;
