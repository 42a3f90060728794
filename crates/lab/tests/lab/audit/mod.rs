//! The audit: what is audited, and what is found.

mod exact;
mod ledger;
mod targets;
