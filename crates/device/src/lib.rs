//! What runs on a phone, a meter or a browser: it answers a collector's questions within its own ledger, and trusts
//! nobody.
//!
//! A [`Device`] was enrolled with a [`DevicePolicy`], which no question can change. Whatever a collector asks, in whatever
//! order and how often, the answers of any window lose at most the policy's epsilon. An [`Agent`] is a device that
//! keeps its state on a disk, and holds to that across crashes, retries and jumps of the clock.
//!
//! | module | what lives there |
//! | --- | --- |
//! | (root) | [`Device`], [`Agent`], [`slot_of`] |
//! | [`enrolment`] | what a stream promises, signed by its operator |
//! | [`clock`] | the device's own time |
//! | [`disk`] | files of state that are never torn unnoticed |
//! | [`wire`] | how reports travel |
//! | [`api`] | what else a device and a collector say to each other |
//! | `client` | speaks to a collector over HTTP (feature `http`) |
//! | `simulation` | a disk for tests, which crashes and keeps no more than it must (feature `simulation`) |

mod agent;
pub mod api;
#[cfg(feature = "http")]
pub mod client;
pub mod clock;
mod device;
pub mod disk;
pub mod enrolment;
#[cfg(feature = "simulation")]
pub mod simulation;
mod slot;
pub mod wire;

pub use agent::{Agent, AgentError, AgentReply, Beginning, RefusalReason};
pub use device::{AnswerError, Device, DevicePolicy, PreparedQuestion};
pub use slot::slot_of;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
