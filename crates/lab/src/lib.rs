//! The laboratory: data sets, mechanisms as test subjects, error metrics, and repeated experiments.
//!
//! ```text
//! datasets, generate ──▶ DataStream ──▶ Subject (a mechanism) ──▶ outcome ──▶ metrics ──▶ experiment's summary
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`stream`] | data sets of three kinds: counts of users, numbers, sequences of symbols |
//! | [`generate`] | synthetic streams |
//! | [`datasets`] | data sets by name, and tables of one's own |
//! | [`listing`] | all data sets and mechanisms, as text and as JSON |
//! | [`metrics`] | errors of releases, event detection, communication, and their means over repeats |
//! | [`queries`] | accuracy of counting queries, range queries and monitors |
//! | [`experiment`] | test subjects, and repeated runs on all cores |
//! | [`stop`] | requests to stop long work |
//! | [`evaluate`] | mechanisms side by side, as `tidegate evaluate` and the Python package run them |
//! | [`scalar`] | scalar mechanisms on streams of numbers |
//! | [`local`] | local mechanisms with simulated users, one by one or all at once |
//! | [`central`] | central mechanisms, with users in classes |
//! | [`sequence`] | sequence mechanisms on symbols, and a published form that is not private, to show why |
//! | [`plot`] | charts as SVG |
//! | [`report`] | reports as self-contained HTML pages |
//! | [`subjects`] | all test subjects, by name |
//! | [`accuracy`] | the benchmark of `track`, over a grid of streams and settings |
//! | [`advise`] | which of them to take, and which error to expect |
//! | [`city`] | simulated devices, a local mechanism and a monitor in one call |
//! | [`audit`] | attempts to break what mechanisms promise: exact where that is possible, and from ledgers |
//!
//! Everything here knows the true data and is seeded, so nothing that it prints is private.

pub mod accuracy;
pub mod advise;
pub mod audit;
pub mod bounds;
pub mod central;
pub mod city;
pub mod datasets;
mod draw;
pub mod evaluate;
pub mod experiment;
pub mod generate;
pub mod listing;
pub mod local;
pub mod metrics;
pub mod queries;
pub mod scalar;
pub mod sequence;
pub mod stop;
pub mod stream;
pub mod subjects;

pub use tidegate_plot::{plot, report};

pub use stream::{CountStream, DataStream, NumberStream, SymbolStream};
