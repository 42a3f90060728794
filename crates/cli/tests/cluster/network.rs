//! [`Network`]: machines of one test, each with an address of its own, which can be cut off from each other.
//!
//! Root gives each machine a network namespace, joined to the test by a bridge. Cuts are silent: packets to a machine
//! that is cut off go to a hardware address that nobody has. Without root, all machines are addresses of the loopback
//! interface, and nothing can be cut.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

/// Hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:00:01";

/// Machines of one test.
#[derive(Debug)]
pub(crate) struct Network {
    /// First three bytes of all addresses.
    prefix: [u8; 3],
    /// The bridge, if machines have networks of their own.
    bridge: Option<String>,
    machines: AtomicU8,
}

/// An address, perhaps in a network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) address: Ipv4Addr,
    namespace: Option<String>,
}

/// Machines that do not reach each other until this is dropped.
#[derive(Debug)]
pub(crate) struct Cut(Vec<(String, Ipv4Addr)>);

/// Whether machines can have networks of their own.
pub(crate) fn can_be_cut() -> bool {
    let user = Command::new("id").arg("-u").output().unwrap();
    user.stdout.trim_ascii() == b"0" && Command::new("ip").arg("-V").output().is_ok()
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Network {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let [.., high, low] = (process.wrapping_mul(31).wrapping_add(u32::from(number))).to_be_bytes();
        if !can_be_cut() {
            return Self { prefix: [127, high | 1, low], bridge: None, machines: AtomicU8::new(1) };
        }
        // Names of interfaces have 15 characters at most.
        let bridge = format!("tg{process:x}x{number:x}");
        let prefix = [10, high, low];
        ip(&format!("link add {bridge} type bridge"));
        let network = Self { prefix, bridge: Some(bridge.clone()), machines: AtomicU8::new(1) };
        ip(&format!("address add 10.{high}.{low}.1/24 dev {bridge}"));
        ip(&format!("link set {bridge} up"));
        network
    }

    /// Whether machines can be cut off.
    pub(crate) const fn has_cuts(&self) -> bool {
        self.bridge.is_some()
    }

    /// The address of the test itself.
    pub(crate) const fn gateway(&self) -> Ipv4Addr {
        let [a, b, c] = self.prefix;
        Ipv4Addr::new(a, b, c, 1)
    }

    /// Adds a machine.
    pub(crate) fn machine(&self) -> Machine {
        let number = self.machines.fetch_add(1, Ordering::Relaxed) + 1;
        let [a, b, c] = self.prefix;
        let address = Ipv4Addr::new(a, b, c, number);
        let Some(bridge) = &self.bridge else { return Machine { address, namespace: None } };
        let (namespace, outside) = (format!("{bridge}-{number}"), format!("{bridge}v{number:x}"));
        ip(&format!("netns add {namespace}"));
        ip(&format!("link add {outside} type veth peer name eth0 netns {namespace}"));
        ip(&format!("link set {outside} master {bridge} up"));
        ip(&format!("-n {namespace} address add {address}/24 dev eth0"));
        ip(&format!("-n {namespace} link set eth0 up"));
        ip(&format!("-n {namespace} link set lo up"));
        Machine { address, namespace: Some(namespace) }
    }
}

impl Machine {
    /// Program and arguments that put a command on this machine.
    pub(crate) fn launcher(&self) -> Vec<String> {
        let command = |namespace| ["ip", "netns", "exec", namespace].map(str::to_owned).to_vec();
        self.namespace.as_deref().map(command).unwrap_or_default()
    }

    /// Moves a command to this machine.
    pub(crate) fn place(&self, command: &Command) -> Command {
        let mut words = self.launcher().into_iter().map(OsString::from);
        let program = words.next().unwrap_or_else(|| command.get_program().to_owned());
        let mut placed = Command::new(program);
        placed.args(words);
        if self.namespace.is_some() {
            placed.arg(command.get_program());
        }
        placed.args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            placed.current_dir(folder);
        }
        placed
    }

    /// Cuts this machine off from others.
    pub(crate) fn cut(&self, others: &[&Self]) -> Cut {
        let mut cut = Cut(Vec::new());
        for other in others {
            for (from, to) in [(self, *other), (*other, self)] {
                let namespace = from.namespace.clone().unwrap();
                ip(&format!("-n {namespace} neigh replace {} lladdr {NOBODY} dev eth0 nud permanent", to.address));
                cut.0.push((namespace, to.address));
            }
        }
        cut
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        for (namespace, address) in &self.0 {
            let _ = Command::new("ip")
                .args(["-n", namespace, "neigh", "del", &address.to_string(), "dev", "eth0"])
                .status();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Some(bridge) = &self.bridge else { return };
        for number in 2..=self.machines.load(Ordering::Relaxed) {
            let _ = Command::new("ip").args(["netns", "del", &format!("{bridge}-{number}")]).status();
        }
        let _ = Command::new("ip").args(["link", "del", bridge]).status();
    }
}
