//! Tests of devices on simulated and real disks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod absence;
mod agent;
mod client;
mod credential;
mod folder;
mod fuzz;
mod greedy;
mod http_server;
mod sequence;
mod staged;
mod tls;
mod types;
mod wire;
