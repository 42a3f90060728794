//! Commands for operators of a service.
//!
//! | module | content |
//! | --- | --- |
//! | `config` | the configuration file |
//! | `init` | `tidegate init`: creates the folder of a service |
//! | `serve` | `tidegate serve`: runs the service |
//! | `token` | `tidegate token`: creates a token |
//! | `doctor` | `tidegate doctor`: checks whether a service can run |
//! | `backup` | `tidegate backup` and `tidegate restore` |
//! | `open` | opens the store, the marks and the keys |
//! | `files` | limit of open files |

#[cfg(feature = "lab")]
mod advisor;
pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod doctor;
mod files;
pub(crate) mod init;
mod open;
pub(crate) mod serve;
pub(crate) mod token;
