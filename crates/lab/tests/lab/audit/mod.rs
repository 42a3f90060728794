//! The audit: what is audited, and what is found.

mod exact;
mod finding;
mod ledger;
mod targets;
