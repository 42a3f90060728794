//! A cluster: gateways, workers and drivers around one database and one replicated log.
//!
//! | module | contents |
//! | --- | --- |
//! | `fleet` | the processes that live, and how work is divided among them |
//! | `marks` | high-water marks, in a log of their own |
//! | `worker` | reads partitions and counts reports |

mod fleet;
mod marks;
mod worker;

pub use fleet::{Fleet, Role};
pub use marks::LogMarks;
pub use worker::Worker;
