//! `tidegate gateway`, `tidegate worker` and `tidegate driver`: the service on several machines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tidegate_log::Log;
use tidegate_log::nats::NatsLog;
use tidegate_log::nats::settings::NatsSettings;
use tidegate_release::files::hexadecimal;
use tidegate_server::cluster::{Fleet, LogMarks, Role};
use tidegate_server::driver::Tools;
use tidegate_server::http::log_to_stderr;
use tidegate_server::service::Membership;
use tidegate_server::store::{ClusteredStore, PostgresStore};

use super::cluster::ClusterConfig;
use super::config::{Addresses, Config, Place};
use super::open;
use super::serve::{Part, Prepared, run};
use crate::failure::Failure;

/// Take in reports, and answer over HTTP, as one of several gateways of a cluster.
///
/// A report is acknowledged once the log has it and its question is still open. Gateways keep nothing on their disks:
/// add and remove them as needed. See docs/cluster.md.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate gateway --config /srv/tidegate/service.toml --listen 0.0.0.0:8420"
)]
pub(crate) struct Gateway {
    #[command(flatten)]
    process: ProcessOptions,
    /// Listen here instead of at the configured address
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// Count the reports of a cluster, as one of several workers.
///
/// The living workers divide the partitions of the log among themselves. One that dies or sleeps is replaced after its
/// lease. See docs/cluster.md.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = "Example:\n  tidegate worker --config /srv/tidegate/service.toml")]
pub(crate) struct Worker {
    #[command(flatten)]
    process: ProcessOptions,
}

/// Drive the streams of a cluster, as one of several drivers.
///
/// The living drivers divide the streams among themselves. One that dies or sleeps is replaced after its lease. See
/// docs/cluster.md.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = "Example:\n  tidegate driver --config /srv/tidegate/service.toml")]
pub(crate) struct Driver {
    #[command(flatten)]
    process: ProcessOptions,
}

/// Options of every role.
#[derive(Debug, Args)]
struct ProcessOptions {
    /// The configuration, with a table `cluster`; the same for all roles
    #[arg(long, value_name = "FILE")]
    config: String,
    /// Listen here for /healthz, /readyz and /metrics instead of at the configured address
    #[arg(long, value_name = "ADDRESS")]
    monitoring: Option<SocketAddr>,
}

impl Gateway {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.process.run(Role::Gateway, self.listen)
    }
}

impl Worker {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.process.run(Role::Worker, None)
    }
}

impl Driver {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.process.run(Role::Driver, None)
    }
}

impl ProcessOptions {
    fn run(&self, role: Role, listen: Option<SocketAddr>) -> Result<(), Failure> {
        let config = Config::read_for(&self.config, Addresses { listen, monitoring: self.monitoring })?;
        log_to_stderr(config.log.format, &config.log.filter).map_err(Failure::input)?;
        run(&config, Prepared::new(&config, Part::Role(role))?)
    }
}

/// Returns the settings of one of a cluster's logs.
pub(super) fn nats_settings(cluster: &ClusterConfig, log: &str) -> NatsSettings {
    cluster.nats.settings(format!("{}-{log}", cluster.name))
}

/// Opens the store, the marks and the keys of a process, under a name that no process has had.
pub(super) fn open(config: &Config, role: Role) -> Result<(Tools, Membership), Failure> {
    let Some(cluster) = &config.cluster else {
        return Err(Failure::input(format_args!(
            "{}: a {role} needs a table [cluster] with the brokers of its log; see docs/cluster.md",
            config.file
        )));
    };
    let Place::Postgres(url) = &config.store else {
        return Err(Failure::input(format_args!(
            "{}: store: a cluster needs PostgreSQL; write postgres://…, or set TIDEGATE_STORE",
            config.file
        )));
    };
    config.check_secrets()?;
    let key = open::vault_key(config)?;
    let of_store = |error| Failure::run(format_args!("{}: {error}", config.store));
    let of_log = |error| Failure::run(format_args!("the brokers: {error}"));
    let postgres = Arc::new(PostgresStore::open(url).map_err(of_store)?);
    let log: Arc<dyn Log> = Arc::new(NatsLog::connect(nats_settings(cluster, "reports")).map_err(of_log)?);
    let marks: Arc<dyn Log> = Arc::new(NatsLog::connect(nats_settings(cluster, "marks")).map_err(of_log)?);
    let marks = LogMarks::open(marks).map_err(|error| Failure::run(format_args!("the high-water marks: {error}")))?;
    let milliseconds = |seconds: u64| u64::try_from(Duration::from_secs(seconds).as_millis()).unwrap_or(u64::MAX);
    let (lease, patience) = (milliseconds(cluster.lease), milliseconds(cluster.patience));
    let store = ClusteredStore::open(Arc::clone(&postgres), Arc::clone(&log), cluster.partitions, patience);
    let store = store.map_err(of_store)?;
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(Failure::run)?;
    let holder = format!("{role}-{}", hexadecimal(&name));
    let fleet = Arc::new(Fleet::new(postgres, role, holder.clone(), lease));
    let tools = Tools { store: Arc::new(store), marks: Arc::new(marks), key: Some(Arc::new(key)), holder, lease };
    Ok((tools, Membership { fleet, log }))
}
