//! The service: streams on an endless clock, fed by devices or by a curator's events, and what is released of them.
//!
//! ```text
//! reports ──▶ http ──▶ intake ──▶ store.accept            (counted once, safe before it is acknowledged)
//!                                   │
//! clock ───▶ driver::Driver ──▶ store.close ──▶ mechanism ──▶ store.advance ──▶ mark ──▶ store.publish ──▶ feed, webhooks
//! ```
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`stream`] | what an operator declares about a stream, and when what happens in a tick |
//! | [`store`] | the transactions, and who implements them |
//! | [`http`] | the service over HTTP: routes, tokens, limits, metrics, webhooks |
//! | [`engine`] | the control step of a stream: open, ask, close, answer, release |
//! | [`service`] | all streams, with their threads, and the taking in of reports by group commit |
//!
//! **What is safe when.** A release, what it cost, the state of its mechanism and its noise are one transaction
//! ([`store::Store::advance`]). Then the high-water mark is raised, and only then is it published. So what was
//! published was paid for, and a store that is older than what was published is found out.

pub mod driver;
pub mod http;
pub mod ingest;
pub mod service;
pub mod store;
pub mod stream;
