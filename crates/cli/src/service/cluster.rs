//! The table `[cluster]` of the configuration.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Most partitions. Each is a stream of the brokers, and a thread of a worker.
const MOST_PARTITIONS: u32 = 1_024;
/// Shortest and longest lease, in seconds.
const LEASE: std::ops::RangeInclusive<u64> = 1..=300;
/// Longest patience, in seconds.
const MOST_PATIENCE: u64 = 3_600;

/// A cluster: its log, its partitions, and how long its processes wait for each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "cluster"), allow(dead_code))] // only its roles read it
pub(crate) struct ClusterConfig {
    /// Prefix of the names of its logs.
    #[serde(default = "default_name")]
    pub(crate) name: String,
    /// Number of partitions. It may be raised.
    #[serde(default = "default_partitions")]
    pub(crate) partitions: u32,
    /// After how many seconds without a sign of life others take over.
    #[serde(default = "default_lease")]
    pub(crate) lease: u64,
    /// How many seconds a release waits for counts after its questions have closed.
    #[serde(default = "default_patience")]
    pub(crate) patience: u64,
    pub(crate) nats: NatsConfig,
}

/// Brokers of NATS JetStream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "cluster"), allow(dead_code))] // only its roles read it
pub(crate) struct NatsConfig {
    pub(crate) servers: Vec<String>,
    #[serde(default = "default_replicas")]
    pub(crate) replicas: usize,
    /// Greatest size of a partition, in MiB.
    pub(crate) max_size: Option<u64>,
    #[serde(default)]
    pub(crate) monitoring: Vec<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) credentials: Option<PathBuf>,
}

fn default_name() -> String {
    "tidegate".to_owned()
}

const fn default_partitions() -> u32 {
    8
}

const fn default_lease() -> u64 {
    5
}

const fn default_patience() -> u64 {
    30
}

const fn default_replicas() -> usize {
    3
}

impl ClusterConfig {
    /// Checks the values, and makes paths relative to a folder. An error names its key.
    pub(super) fn checked(mut self, folder: &Path) -> Result<Self, (&'static str, String)> {
        let is_named = self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if self.name.is_empty() || self.name.len() > 20 || !is_named {
            return Err(("name", "expected at most 20 letters, digits and hyphens".to_owned()));
        }
        if !(1..=MOST_PARTITIONS).contains(&self.partitions) {
            return Err(("partitions", format!("expected a number from 1 to {MOST_PARTITIONS}")));
        }
        if !LEASE.contains(&self.lease) {
            return Err(("lease", format!("expected {} to {} seconds", LEASE.start(), LEASE.end())));
        }
        if self.patience > MOST_PATIENCE {
            return Err(("patience", format!("expected at most {MOST_PATIENCE} seconds")));
        }
        let nats = &mut self.nats;
        if nats.servers.is_empty() {
            return Err(("servers", "name one broker at least, such as \"nats://broker-1:4222\"".to_owned()));
        }
        if nats.user.is_some() != nats.password_file.is_some() {
            return Err(("user", "user and password_file belong together".to_owned()));
        }
        let proofs = [nats.user.is_some(), nats.token_file.is_some(), nats.credentials.is_some()];
        if proofs.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(("nats", "give a user with a password, a token or credentials, not several".to_owned()));
        }
        for path in [&mut nats.ca, &mut nats.password_file, &mut nats.token_file, &mut nats.credentials] {
            *path = path.take().map(|path| folder.join(path));
        }
        Ok(self)
    }

    /// Returns all files that only the service may read.
    pub(super) fn secrets(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let NatsConfig { password_file, token_file, credentials, .. } = self.nats.clone();
        [password_file, token_file, credentials].into_iter().flatten()
    }
}
