//! Tests of the service on real and simulated stores.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod clock;
mod folder;
mod http;
mod model;
mod pool;
mod postgres;
mod simulation;
mod soak;
mod store;
