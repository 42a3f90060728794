//! The audit: what is audited, and what is found.

mod empirical;
mod exact;
mod finding;
mod ledger;
mod mutants;
mod registry;
mod targets;
mod transcript;
