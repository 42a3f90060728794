//! Queries over released streams, and monitors. They use published numbers only, so they cost no budget.
//!
//! A [`History`] keeps the last releases of a stream and answers a [`Query`] about the frequency of a range of values
//! over a period. A [`Monitor`] tracks one such answer and reports when it crosses a threshold. Every [`Answer`] has a
//! variance and intervals.
//!
//! # What variances assume
//! - *Over time.* A fresh release begins a run, and the releases that repeat it belong to the run. Runs are
//!   independent. In a run, the standard deviation of a sum is bounded by the sum of the standard deviations, because a
//!   repeated number repeats its error: `k` timestamps of variance `v` have the variance `k² v`, not `k v`. Streams
//!   whose releases share errors beyond that are declared [`Correlation::Throughout`].
//! - *Over values.* The errors of different values, and of disjoint nodes of a tree, are taken to be uncorrelated.
//! - Intervals take errors for normally distributed.
//!
//! `docs/queries.md` states when this is exact, conservative or too optimistic.

mod answer;
mod domain;
mod error;
mod history;
mod monitor;
mod normal;
mod sum;

pub use answer::{Answer, Interval, Unit};
pub use domain::Domain;
pub use error::QueryError;
pub use history::{History, Query, Ranked};
pub use monitor::{Direction, Event, EventKind, Monitor, Observation, Rule, Score};
pub use sum::Correlation;

/// Runs the examples of the page on queries.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/queries.md")]
struct QueriesPage;
