//! The commands of those who run a service.
//!
//! | module | what it does |
//! | --- | --- |
//! | `config` | what an operator decides, in one file |
//! | `init` | `tidegate init`: the folder of a new service |
//! | `serve` | `tidegate serve`: the service |
//! | `token` | `tidegate token`: who may speak to it |
//! | `doctor` | `tidegate doctor`: whether it can run |
//! | `backup` | `tidegate backup` and `tidegate restore` |
//! | `open` | store, marks and keys, opened |

pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod init;
mod open;
pub(crate) mod serve;
pub(crate) mod token;
