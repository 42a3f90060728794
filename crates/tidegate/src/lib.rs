//! Statistics of infinite data streams, published under privacy guarantees that hold.
//!
//! Every mechanism travels the same road:
//!
//! ```text
//! value ──▶ kernel (spends a permit, adds the randomness) ──▶ mechanism (decides) ──▶ Release ──▶ query / monitor
//! ```
//!
//! Nothing to the right of the kernel sees a raw value.
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`central`] | mechanisms of a trusted curator, for one guarantee or for classes of users with their own |
//! | [`estimate`] | estimates of what moves, from what was published about it, free of budget |
//! | [`scalar`] | mechanisms in which a curator releases a number at each timestamp, perhaps with a delay |
//! | [`local`] | mechanisms in which nobody but the device sees a value |
//! | [`mechanisms`] | the list of mechanisms |
//! | [`names`] | names that users write, and suggestions for those they mistype |
//! | [`post_processing`] | repairs of published statistics, free of budget |
//! | [`query`] | questions about released streams and monitors over them, free of budget |
//! | [`release`] | what a mechanism publishes, with its variance and where it came from |
//! | [`sequence`] | one user's correlated stream, under sequence information privacy |
//! | [`spec`] | what the owner of a stream decides about it, as a file can say it |
//! | [`stream`] | a running stream of any family: entries in, releases out |
//! | [`tree`] | binary hierarchies over an ordered domain |

pub mod central;
pub mod estimate;
pub mod local;
pub mod mechanisms;
pub mod names;
mod policy;
pub mod post_processing;
pub mod query;
pub mod release;
pub mod scalar;
pub mod sequence;
pub mod spec;
pub mod stream;
pub mod tree;

pub use tidegate_kernel as kernel;
