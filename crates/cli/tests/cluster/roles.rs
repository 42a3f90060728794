//! [`Cluster`]: brokers, a database, gateways, workers and drivers, each a process on a machine of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::audit;
use crate::brokers::Brokers;
use crate::database::Database;
use crate::folder::TestFolder;
use crate::network::Network;
use crate::program::{Program, mortal, wait_until};
use crate::streams::Declared;
use crate::watch::get;

/// How large a cluster is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) brokers: usize,
    pub(crate) gateways: usize,
    pub(crate) workers: usize,
    pub(crate) drivers: usize,
    pub(crate) partitions: u32,
    /// In seconds.
    pub(crate) lease: u64,
    /// In seconds.
    pub(crate) patience: u64,
    pub(crate) with_standby: bool,
    /// Size of a broker's disk in MiB, if it can be full.
    pub(crate) disk: Option<u64>,
}

impl Size {
    /// Two of each role, three brokers, and a standby.
    pub(crate) const SMALL: Self = Self {
        brokers: 3,
        gateways: 2,
        workers: 2,
        drivers: 2,
        partitions: 4,
        lease: 2,
        patience: 60,
        with_standby: true,
        disk: None,
    };
}

/// Role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Gateway,
    Worker,
    Driver,
    /// All in one, without brokers.
    Serve,
}

impl Role {
    const fn subcommand(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Worker => "worker",
            Self::Driver => "driver",
            Self::Serve => "serve",
        }
    }
}

/// Processes of a cluster. Fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) processes: Vec<(Role, Program)>,
    pub(crate) brokers: Option<Brokers>,
    pub(crate) database: Database,
    tokens: Value,
    folder: TestFolder,
    pub(crate) network: Network,
}

/// Writes a configuration like the one that `tidegate init` made, but for the places of things.
fn configure(init: &Path, file: &Path, address: &str, more: &str, streams: &[Declared]) {
    let text = fs::read_to_string(init).unwrap();
    let tokens = text.find("[[tokens]]").unwrap();
    let end = text.find("[[streams]]").filter(|end| *end > tokens).unwrap_or(text.len());
    let streams: String = streams.iter().map(Declared::toml).collect();
    let written = format!(
        "listen = \"{address}\"\ninsecure = true\n{more}\n[limits]\n\
         token_rate = {{ per_second = 1000000, burst = 1000000 }}\n\
         client_rate = {{ per_second = 1000000, burst = 1000000 }}\n\
         address_rate = {{ per_second = 1000000, burst = 1000000 }}\n{}\n{streams}",
        &text[tokens..end]
    );
    fs::write(file, written).unwrap();
}

impl Cluster {
    /// Starts everything, and waits until it is ready. Without brokers, one process serves alone.
    pub(crate) fn start(size: Size, streams: &[Declared]) -> Self {
        Self::start_with(size, streams, |_, database, _| database.url())
    }

    /// Starts everything; `store` is the address of the database for each role.
    pub(crate) fn start_with(
        size: Size,
        streams: &[Declared],
        store: impl Fn(&Network, &Database, Role) -> String,
    ) -> Self {
        let network = Network::new();
        let folder = TestFolder::new();
        let database = Database::start(&network, size.with_standby);
        audit::install(&database);
        let brokers = (size.brokers > 0).then(|| Brokers::start(&network, size.brokers, size.disk));
        let program = std::env::var("TIDEGATE_PROGRAM");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned());
        let made = Command::new(&program).args(["init", "--json"]).arg(folder.file("home")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let mut more = String::from("state = \"state\"\n");
        if let Some(brokers) = &brokers {
            let (servers, monitoring) = (brokers.servers.urls(), brokers.servers.monitoring());
            more += &format!(
                "[cluster]\npartitions = {}\nlease = {}\npatience = {}\n[cluster.nats]\nservers = {servers:?}\n\
                 monitoring = {monitoring:?}\nreplicas = {}\n",
                size.partitions, size.lease, size.patience, size.brokers
            );
        }
        let mut cluster =
            Self { processes: Vec::new(), brokers, database, tokens: made["tokens"].take(), folder, network };
        let roles = if size.brokers == 0 {
            vec![(Role::Serve, 1)]
        } else {
            vec![(Role::Driver, size.drivers), (Role::Worker, size.workers), (Role::Gateway, size.gateways)]
        };
        for (role, count) in roles {
            for number in 0..count {
                let machine = cluster.network.machine();
                let name = format!("{}-{number}", role.subcommand());
                let file = cluster.config(&name);
                let address = format!("{}:8420", machine.address);
                let more = format!("store = \"{}\"\n{more}", store(&cluster.network, &cluster.database, role));
                configure(&cluster.folder.file("home/service.toml"), &file, &address, &more, streams);
                let mut command = Command::new(&program);
                command.arg(role.subcommand()).arg("--config").arg(&file);
                let mut process = Program::new(&name, &machine, &mortal(&command), cluster.folder.path());
                process.start();
                cluster.processes.push((role, process));
            }
        }
        cluster.wait_ready();
        cluster
    }

    fn config(&self, name: &str) -> PathBuf {
        self.folder.file(&format!("home/{name}.toml"))
    }

    /// Waits until all that run say so.
    pub(crate) fn wait_ready(&mut self) {
        for (_, process) in &mut self.processes {
            let name = process.name.clone();
            wait_until(&format!("{name} starts"), 60, || {
                if let Some(status) = process.ended() {
                    panic!("{name} ends, {status}: {}", process.said());
                }
                process.has_said("listening: ") || process.has_said("ready")
            });
        }
        for url in self.urls() {
            wait_until(&format!("{url} is ready"), 60, || {
                get(&url, self.token("analyst"), "/readyz").is_some_and(|(status, _)| status == 200)
            });
        }
    }

    pub(crate) fn token(&self, role: &str) -> &str {
        self.tokens[role].as_str().unwrap()
    }

    /// Addresses of those that take reports.
    pub(crate) fn urls(&self) -> Vec<String> {
        let takes = |role: &Role| matches!(role, Role::Gateway | Role::Serve);
        let processes = self.processes.iter().filter(|(role, _)| takes(role));
        processes.map(|(_, process)| format!("http://{}:8420", process.machine.address)).collect()
    }

    /// What all processes have said, for a failure.
    pub(crate) fn said(&self) -> String {
        let last = |text: String| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(25)..].join("\n")
        };
        let said =
            self.processes.iter().map(|(_, process)| format!("--- {}\n{}\n", process.name, last(process.said())));
        said.collect()
    }
}
