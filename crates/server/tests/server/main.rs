//! Tests of the service on real and simulated stores.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod alarms;
mod clock;
mod cluster;
mod folder;
mod history;
mod http;
mod lateness;
mod model;
mod pool;
mod postgres;
mod register;
mod simulation;
mod soak;
mod store;
