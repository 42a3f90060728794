//! [`Brokers`]: three NATS servers with JetStream, each with its disk.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::folder::TestFolder;
use crate::network::{Machine, Network};
use crate::program::{Program, mortal, wait_until};

/// Servers that replicate each other's data.
#[derive(Debug)]
pub(crate) struct Brokers {
    folder: TestFolder,
    pub(crate) servers: Vec<Program>,
    /// Disks of their own, which can be full.
    disks: Vec<PathBuf>,
}

/// Finds the server's program.
fn program() -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let found = Command::new(format!("{root}/.ci/brokers")).output().unwrap();
    assert!(found.status.success(), ".ci/brokers: {}", String::from_utf8_lossy(&found.stderr));
    String::from_utf8(found.stdout).unwrap().trim().into()
}

/// Asks the monitoring of a server.
fn monitor(machine: &Machine, path: &str) -> Option<Value> {
    let mut answer = ureq::get(format!("http://{}:8222/{path}", machine.address))
        .config()
        .timeout_global(Some(std::time::Duration::from_secs(1)))
        .proxy(None)
        .build()
        .call()
        .ok()?;
    serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
}

impl Brokers {
    /// Starts so many servers. With `disk`, each has a disk of so many MiB, which needs root.
    pub(crate) fn start(network: &Network, count: usize, disk: Option<u64>) -> Self {
        let folder = TestFolder::new();
        let machines: Vec<Machine> = (0..count).map(|_| network.machine()).collect();
        let routes: Vec<String> =
            machines.iter().map(|machine| format!("\"nats-route://{}:6222\"", machine.address)).collect();
        let (mut servers, mut disks, program) = (Vec::new(), Vec::new(), program());
        for (number, machine) in machines.iter().enumerate() {
            let (name, address) = (format!("broker-{number}"), machine.address);
            let store = folder.file(&name);
            fs::create_dir(&store).unwrap();
            if let Some(size) = disk {
                let options = format!("size={size}m");
                let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&store).status();
                assert!(mounted.unwrap().success(), "a disk for {name}");
                disks.push(store.clone());
            }
            let cluster = if count == 1 {
                String::new()
            } else {
                format!("cluster {{ name: brokers, listen: \"{address}:6222\", routes: [{}] }}\n", routes.join(", "))
            };
            let text = format!(
                "server_name: {name}\nlisten: \"{address}:4222\"\nhttp: \"{address}:8222\"\n\
                 jetstream {{ store_dir: \"{}\", max_file_store: 1GB, sync_interval: always }}\n{cluster}",
                store.display()
            );
            let file = folder.file(&format!("{name}.conf"));
            fs::write(&file, text).unwrap();
            let mut command = Command::new(&program);
            command.arg("--config").arg(&file);
            servers.push(Program::new(&name, machine, &mortal(&command), folder.path()));
        }
        let mut brokers = Self { folder, servers, disks };
        brokers.servers.iter_mut().for_each(Program::start);
        brokers.wait();
        brokers
    }

    /// Waits until they have a leader, and all follow it.
    pub(crate) fn wait(&self) {
        let count = self.servers.len();
        wait_until("the brokers agree", 60, || {
            let ready =
                |server: &Program| monitor(&server.machine, "healthz").is_some_and(|told| told["status"] == "ok");
            let leader = || count == 1 || self.leader().is_some();
            self.servers.iter().all(ready) && leader()
        });
    }

    /// The server that leads the others.
    pub(crate) fn leader(&self) -> Option<usize> {
        let told = self.servers.iter().find_map(|server| monitor(&server.machine, "jsz"))?;
        let leader = told["meta_cluster"]["leader"].as_str()?;
        self.servers.iter().position(|server| server.name == leader)
    }

    /// The addresses for clients.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("nats://{}:4222", server.machine.address)).collect()
    }

    /// The addresses of their monitoring.
    pub(crate) fn monitoring(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("http://{}:8222", server.machine.address)).collect()
    }

    /// Whether their disks can be full.
    pub(crate) fn has_disks(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Fills the disk of a server.
    pub(crate) fn fill(&self, server: usize) {
        let filler = self.disks[server].join("filler");
        // Stops where there is no room left.
        let _ = Command::new("dd").args(["if=/dev/zero", "bs=64k", &format!("of={}", filler.display())]).output();
    }

    /// Makes room, and starts the server again, which gives up its storage when it is full.
    pub(crate) fn make_room(&mut self, server: usize) {
        fs::remove_file(self.disks[server].join("filler")).unwrap();
        if self.servers[server].runs() {
            self.servers[server].kill();
        }
        self.servers[server].start();
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        self.servers.clear();
        for disk in &self.disks {
            let _ = Command::new("umount").arg("--lazy").arg(disk).status();
        }
        let _ = self.folder.path();
    }
}
