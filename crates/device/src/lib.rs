//! The device side of tidegate, for a phone, a meter or a browser. A device answers a collector's questions within its
//! own privacy budget, and trusts no server.
//!
//! A [`Device`] is enrolled with a [`DevicePolicy`], which no question can change. For every sequence of questions, the
//! answers of any window lose at most the policy's epsilon. An [`Agent`] is a device with durable state: it keeps that
//! guarantee across crashes, retries and clock jumps.
//!
//! | module | contents |
//! | --- | --- |
//! | (root) | [`Device`], [`Agent`], [`slot_of`] |
//! | [`enrolment`] | policies of streams, signed by their operator |
//! | [`sequence`] | sequences that a device releases symbol by symbol, or in batches |
//! | [`credential`] | credentials of devices, and the tokens that they draw |
//! | [`clock`] | the device's own time |
//! | [`staged`] | an agent for platforms that save asynchronously |
//! | [`absence`] | what a device believes of the time while it was away |
//! | [`disk`] | atomic, checksummed state files |
//! | [`wire`] | wire formats of reports |
//! | [`api`] | other messages between device and collector |
//! | `client` | HTTP client of a collector (feature `http`) |
//! | `simulation` | a simulated disk that crashes, for tests (feature `simulation`) |

pub mod absence;
mod agent;
pub mod api;
#[cfg(feature = "http")]
pub mod client;
pub mod clock;
pub mod credential;
mod device;
pub mod disk;
pub mod enrolment;
mod poprf;
mod refusal;
pub mod sequence;
#[cfg(feature = "simulation")]
pub mod simulation;
mod slot;
pub mod staged;
mod state;
mod steps;
pub mod wire;

pub use agent::{Agent, AgentError, AgentReply, Beginning};
pub use device::{AnswerError, Device, DevicePolicy, PreparedQuestion};
pub use refusal::RefusalReason;
pub use slot::slot_of;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
