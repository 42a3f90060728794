//! Questions about released streams, and monitors over them. They read nothing but what was published, so they cost no
//! budget, whatever is asked and however often.
//!
//! A [`History`] keeps the last releases of a stream and answers a [`Query`]: how often values of a range were reported
//! over a period. A [`Monitor`] follows one such number and says when it passes a threshold. Every [`Answer`] has a
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
//! When that is exact, when it is too careful and when not careful enough is said in `docs/queries.md`.

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

/// Compiles and runs the examples of the page about queries.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/queries.md")]
struct QueriesPage;
