//! [`Brokers`]: NATS servers on machines of their own, whose disks can be full.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tidegate_log::testing::{Brokers as Servers, Place, Plan};

use crate::network::{Machine, Network};

/// A partition of the cluster's log, as a stream of the brokers.
const STREAM: &str = "tidegate_tidegate-reports_0";

/// NATS servers that replicate each other's data, each on a machine of its own.
#[derive(Debug)]
pub(crate) struct Brokers {
    pub(crate) servers: Servers,
    pub(crate) machines: Vec<Machine>,
    /// Disks of their own, which can be full.
    disks: Vec<PathBuf>,
}

impl Brokers {
    /// Starts so many servers. With `disk`, each has a disk of so many MiB, which needs root.
    pub(crate) fn start(network: &Network, count: usize, disk: Option<u64>) -> Self {
        let machines: Vec<Machine> = (0..count).map(|_| network.machine()).collect();
        let place = |machine: &Machine| Place { host: machine.address.into(), launcher: machine.launcher() };
        let plan = Plan { places: machines.iter().map(place).collect(), ..Plan::local(0) };
        let mut brokers = Self { servers: Servers::start_plan(&plan).unwrap(), machines, disks: Vec::new() };
        for (number, size) in disk.iter().flat_map(|size| (0..count).map(move |number| (number, size))) {
            brokers.servers.kill(number).unwrap();
            let data = brokers.servers.folder().join(format!("broker-{number}.data"));
            fs::create_dir_all(&data).unwrap();
            let options = format!("size={size}m");
            let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&data).status();
            assert!(mounted.unwrap().success(), "a disk at {}", data.display());
            brokers.disks.push(data);
        }
        (0..brokers.disks.len()).for_each(|number| brokers.servers.spawn(number).unwrap());
        brokers.servers.wait_ready().unwrap();
        brokers
    }

    /// The server that leads a partition.
    pub(crate) fn leader(&self) -> usize {
        self.servers.leader(STREAM).unwrap()
    }

    /// Whether their disks can be full.
    pub(crate) fn has_disks(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Fills the disk of a server.
    pub(crate) fn fill(&self, server: usize) {
        let filler = self.disks[server].join("filler");
        // It stops where there is no room left.
        let _ = Command::new("dd").args(["if=/dev/zero", "bs=64k", &format!("of={}", filler.display())]).output();
    }

    /// Makes room, and starts the server again, which gives its storage up when that is full.
    pub(crate) fn make_room(&mut self, server: usize) {
        fs::remove_file(self.disks[server].join("filler")).unwrap();
        self.servers.kill(server).unwrap();
        self.servers.spawn(server).unwrap();
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for (number, disk) in self.disks.iter().enumerate() {
            let _ = self.servers.kill(number);
            let _ = Command::new("umount").arg(disk).status();
        }
    }
}
