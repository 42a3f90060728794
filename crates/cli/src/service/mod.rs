//! The commands of those who run a service: `init`, `serve`, `token`, `doctor`, `backup` and `restore`.

pub(crate) mod config;
