//! The library's tests: one binary, a module for each subject.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![allow(clippy::cast_possible_wrap, unreachable_pub)]

mod batched;
mod central;
mod channels;
mod classes;
mod crr;
mod devices;
mod estimate;
mod fit;
mod grid;
mod hamming;
mod leakage;
mod local;
mod mechanisms;
mod model;
mod mtsp;
mod numbers;
mod personal;
mod post_processing;
mod query;
mod refinement;
mod restarts;
mod scalar;
mod series;
mod spec;
mod stream;
mod support;
mod supported;
mod tracked_counts;
mod unstated;
mod why;
