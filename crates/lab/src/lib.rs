//! The laboratory: streams to try mechanisms on, measures of how wrong their releases are, and repeated runs of both.
//!
//! ```text
//! datasets, generate ──▶ Stream ──▶ Subject (a mechanism) ──▶ outcome ──▶ metrics ──▶ experiment's summary
//! ```
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`stream`] | data sets of three kinds: counts of users, numbers, sequences of symbols |
//! | [`generate`] | synthetic streams |
//! | [`datasets`] | data sets by name, and tables of one's own |
//! | [`metrics`] | errors of releases, event detection, communication, and their means over repeats |
//! | [`queries`] | how well counting queries, range queries and monitors are answered from releases |
//! | [`experiment`] | what can be tried on a stream, and repeated runs on all cores |
//! | [`scalar`] | scalar mechanisms on streams of numbers |
//! | [`local`] | local mechanisms with simulated users, one by one or all at once |
//! | [`central`] | central mechanisms, with users in classes |
//! | [`sequence`] | sequence mechanisms on symbols, and a published form that is not private, to show why |
//! | [`plot`] | charts as SVG |
//! | [`report`] | reports as HTML pages that stand alone |
//! | [`subjects`] | what there is to try, by name |
//! | [`advise`] | which of them to take, and which error to expect |
//! | [`city`] | the main road in one call: simulated devices, a local mechanism, a monitor |
//! | [`audit`] | attempts to break what mechanisms promise: exact where that is possible, and from ledgers |
//!
//! Everything here knows the true data and is seeded, so nothing that it prints is private.

pub mod advise;
pub mod audit;
pub mod central;
pub mod city;
pub mod datasets;
mod draw;
pub mod experiment;
pub mod generate;
pub mod local;
pub mod metrics;
pub mod plot;
pub mod queries;
pub mod report;

pub mod scalar;
pub mod sequence;
pub mod stream;
pub mod subjects;

pub use stream::{CountStream, NumberStream, Stream, SymbolStream};
