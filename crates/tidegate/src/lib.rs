//! Statistics of infinite data streams, published under privacy guarantees that hold.
//!
//! From a spec to a release, here in TOML, read by the crate `toml`:
//!
//! ```
//! use tidegate::kernel::SystemRandom;
//! use tidegate::spec::StreamSpec;
//! use tidegate::stream::{Entry, Stream};
//!
//! let spec: StreamSpec = toml::from_str(r#"
//!     mechanism = "central.track"
//!     epsilon = 1.0
//!     window = 7
//!     domain = ["home", "shop"]
//! "#)?;
//! let mut stream = Stream::new(spec)?;
//! let random = &mut SystemRandom::new()?;
//! for (timestamp, counts) in (0..).zip([[60, 40], [58, 42], [61, 39]]) {
//!     for release in stream.push(Entry::Counts { timestamp, counts: counts.to_vec() }, random)?.releases {
//!         println!("{timestamp}: {:?}", release.statistic.leaves().0);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The folder `examples` has a program for each family, and one whose state outlives the process.
//!
//! Every mechanism travels the same road:
//!
//! ```text
//! value ──▶ kernel (spends a permit, adds the randomness) ──▶ mechanism (decides) ──▶ Release ──▶ query / monitor
//! ```
//!
//! Nothing to the right of the kernel sees a raw value.
//!
//! | module | content |
//! | --- | --- |
//! | [`central`] | mechanisms of a trusted curator, for one guarantee or for classes of users with their own |
//! | [`estimate`] | state estimation from published numbers: a model bank of Kalman filters |
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
