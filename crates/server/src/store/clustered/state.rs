//! [`ClusterState`]: who lives in a cluster, and how far its partitions are counted.
//!
//! It tells of reports of devices only. Events of curated streams go another way, of which nothing is counted.

use tidegate_log::LogError;

use super::super::StoreError;
use super::super::postgres::cluster::{Partition, Process};
use super::ClusteredStore;

/// State of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// Living processes, by role and name.
    pub processes: Vec<Process>,
    /// Partitions, by number.
    pub partitions: Vec<PartitionState>,
    /// Why the log does not say how long it is.
    pub problem: Option<String>,
}

/// Partition, with the end of its log.
#[derive(Clone, Debug)]
pub struct PartitionState {
    /// Partition, as the control plane knows it.
    pub partition: Partition,
    /// Position after its last record, as far as it is known.
    pub end: Option<u64>,
}

impl PartitionState {
    /// Returns how many records are not counted yet.
    pub fn lag(&self) -> Option<u64> {
        Some(self.end?.saturating_sub(self.partition.counted))
    }
}

impl ClusteredStore {
    /// Reads the state of the cluster. A log that does not answer is asked once.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn state(&self) -> Result<ClusterState, StoreError> {
        let processes = self.postgres().processes()?;
        let mut problem: Option<LogError> = None;
        let mut partitions = Vec::new();
        for partition in self.postgres().partitions()? {
            let bounds = if problem.is_some() { None } else { Some(self.log().bounds(partition.number)) };
            let end = match bounds {
                Some(Ok(bounds)) => Some(bounds.end),
                Some(Err(error)) => {
                    problem = Some(error);
                    None
                }
                None => None,
            };
            partitions.push(PartitionState { partition, end });
        }
        Ok(ClusterState { processes, partitions, problem: problem.map(|error| error.to_string()) })
    }
}
