//! The kernel's tests: one binary, a module for each subject.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![allow(clippy::cast_possible_wrap, unreachable_pub)]

mod decimal;
mod epsilon;
mod fuzz;
#[path = "../fuzz_bodies/mod.rs"]
mod fuzz_bodies;
mod grid;
mod ledger;
mod noise;
mod oracles;
mod primitives;
mod support;
mod transcript;
mod types;
