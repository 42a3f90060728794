//! Real processes of a cluster under faults: nothing that was acknowledged is lost, and nothing is counted twice.
//!
//! Each run is drawn from a seed. A fleet sends reports whose identities and values are known; triggers in the database
//! copy each total; a count of its own says what the totals must be, cell by cell. All gateways are read all the time:
//! a release never changes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]

mod audit;
mod brokers;
mod database;
mod faults;
mod fleet;
#[path = "../../../server/tests/server/folder.rs"]
mod folder;
mod measure;
mod network;
mod oracle;
#[allow(dead_code)] // what other tests need
#[path = "../../../server/tests/server/postgres.rs"]
mod postgres;
mod processor;
mod program;
mod roles;
mod runs;
mod sabotage;
mod streams;
mod watch;
