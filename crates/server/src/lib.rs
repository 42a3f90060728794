//! The service: streams on an endless clock, fed by devices or by a curator, and their releases.
//!
//! ```text
//! reports ──▶ http ──▶ ingest (parse, admission, group commit) ──▶ store.accept
//! events ───▶ http ──▶ ingest (parse, event buffer) ──┐               │
//!                                                     ▼               ▼
//! clock ────▶ driver ──▶ store.close ──▶ mechanism ──▶ store.advance ──▶ mark ──▶ store.publish ──▶ feed, webhooks
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | `sequence` | policies, questions and counts of streams of sequences |
//! | [`stream`] | declaration of a stream, and the schedule of its ticks |
//! | [`retention`] | how long releases and answers are kept |
//! | [`ingest`] | taking in of reports and events |
//! | [`cluster`] | processes of a cluster |
//! | [`driver`] | control loop of a stream: open, ask, close, answer, release |
//! | [`store`] | transactions, and their implementations |
//! | [`service`] | all streams, with their threads |
//! | [`http`] | the service over HTTP: routes, tokens, limits, metrics, webhooks |
//!
//! **Durability.** A release, its cost, its noise and the mechanism's state are one transaction
//! ([`store::Store::advance`]). Then the high-water mark is raised, and only then is the release published. So every
//! published release was paid for, and a store that is behind its publications is detected.

pub mod cluster;
pub mod driver;
pub mod http;
pub mod ingest;
pub mod retention;
mod sequence;
pub mod service;
pub mod store;
pub mod stream;
