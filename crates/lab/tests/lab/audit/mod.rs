//! The audit: what is audited, and what is found.

mod empirical;
mod mutants;
mod registry;
mod targets;
