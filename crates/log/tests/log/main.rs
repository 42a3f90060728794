//! Logs, all held to the same promises, and those on brokers that are killed, stopped and full.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod conformance;
mod faults;
mod inspection;
#[cfg(feature = "kafka")]
mod kafka;
mod support;
