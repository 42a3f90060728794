//! The audit: what is audited, and what is found.

mod targets;
