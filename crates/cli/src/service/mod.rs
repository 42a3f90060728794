//! Commands for operators of a service.
//!
//! | module | content |
//! | --- | --- |
//! | `cluster` | the configuration of a cluster, and how a process opens its logs |
//! | `config` | the configuration file |
//! | `init` | `tidegate init`: creates the folder of a service |
//! | `serve` | `tidegate serve`: runs the service |
//! | `roles` | `tidegate gateway`, `worker` and `driver`: the service on several machines |
//! | `token` | `tidegate token`: creates a token |
//! | `doctor` | `tidegate doctor`: checks whether a service can run |
//! | `backup` | `tidegate backup` and `tidegate restore` |
//! | `open` | opens the store, the marks and the keys |
//! | `files` | limit of open files |

#[cfg(feature = "lab")]
mod advisor;
pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod doctor;
mod files;
pub(crate) mod init;
mod open;
#[cfg(feature = "cluster")]
pub(crate) mod roles;
pub(crate) mod serve;
pub(crate) mod token;
