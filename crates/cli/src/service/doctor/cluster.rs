//! Checks of a cluster: brokers, database and leases.

use tidegate_log::nats::NatsLog;
use tidegate_log::nats::inspection::State;
use tidegate_server::store::PostgresStore;
use tidegate_server::store::postgres::cluster::Examination;

use super::{Findings, Verdict};
use crate::service::cluster::ClusterConfig;
use crate::service::config::{Config, Place};
use crate::service::roles::nats_settings;

/// Difference between the clocks of this machine and of the database, in milliseconds, from which on to warn.
const APART: u64 = 1_000;

pub(super) fn examine(config: &Config, cluster: &ClusterConfig, findings: &mut Findings) {
    brokers(cluster, findings);
    let Place::Postgres(url) = &config.store else {
        let message =
            format!("{}: a cluster needs PostgreSQL; write postgres://…, or set TIDEGATE_STORE", config.store);
        return findings.add("database", Verdict::Fail, message);
    };
    match PostgresStore::examine(url) {
        // The check of the store says so.
        Err(_) => {}
        Ok(found) => database(cluster, &found, findings),
    }
}

fn brokers(cluster: &ClusterConfig, findings: &mut Findings) {
    let log = match NatsLog::connect(nats_settings(cluster, "reports")) {
        Ok(log) => log,
        Err(error) => return findings.add("brokers", Verdict::Fail, error.to_string()),
    };
    for finding in log.inspect() {
        let verdict = match finding.state {
            State::Good => Verdict::Ok,
            State::Unchecked => Verdict::Warn,
            State::Bad => Verdict::Fail,
        };
        findings.add("brokers", verdict, finding.to_string());
    }
    match log.examine(cluster.partitions) {
        Ok(0) => findings.add("log", Verdict::Ok, "it is empty; the first process makes its partitions"),
        Ok(found) => {
            let message = format!("{found} partitions, with {} replicas at least", cluster.nats.replicas);
            findings.add("log", Verdict::Ok, message);
        }
        Err(error) => findings.add("log", Verdict::Fail, error.to_string()),
    }
}

fn database(cluster: &ClusterConfig, found: &Examination, findings: &mut Findings) {
    if found.standbys.is_empty() {
        let message = "no commit waits for a standby, so a fail-over can lose commits, and streams then stop: set \
                       synchronous_standby_names";
        findings.add("database", Verdict::Warn, message);
    } else {
        let message = "fsync is on, and each commit waits for the disk and for a synchronous standby";
        findings.add("database", Verdict::Ok, message);
    }
    let apart = found.clock.abs_diff(tidegate_server::service::now());
    if apart > APART {
        let message = format!(
            "clocks of the database and of this machine are {apart} ms apart: leases follow the database's, ticks \
             that of each machine; keep both right by NTP"
        );
        findings.add("leases", Verdict::Warn, message);
    } else {
        let message = format!("{} seconds, by the database's clock, which is {apart} ms apart", cluster.lease);
        findings.add("leases", Verdict::Ok, message);
    }
    let there = found.partitions.len();
    if (cluster.partitions as usize) < there {
        let message = format!(
            "there are {there} partitions, and {} in the configuration: the number cannot be lowered",
            cluster.partitions
        );
        findings.add("partitions", Verdict::Warn, message);
    } else {
        let read = found.partitions.iter().filter(|partition| partition.until > found.clock).count();
        let message = format!("{there} of {}, of which {read} have a reader", cluster.partitions);
        findings.add("partitions", Verdict::Ok, message);
    }
    let count = |role: &str| found.processes.iter().filter(|process| process.role == role).count();
    let message =
        format!("{} gateways, {} workers and {} drivers are alive", count("gateway"), count("worker"), count("driver"));
    findings.add("processes", Verdict::Ok, message);
}
