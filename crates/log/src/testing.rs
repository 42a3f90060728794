//! [`Brokers`]: real NATS servers for tests, in a temporary folder, until they are dropped.
//!
//! The program is the one that `.ci/brokers` installs under `target`, or the one that `TIDEGATE_NATS_SERVER` names.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time that brokers are given to start, or to elect a leader.
const PATIENCE: Duration = Duration::from_secs(40);

/// Ports for brokers. Those above may belong to connections that the system opens meanwhile.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// Where a broker runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its address.
    pub host: IpAddr,
    /// Program and arguments that the command is put behind, such as `ip netns exec NAME`.
    pub launcher: Vec<String>,
}

/// What brokers are started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A broker each.
    pub places: Vec<Place>,
    /// Whether each write is synced before it is acknowledged.
    pub sync_always: bool,
    /// Further lines of the configuration.
    pub configuration: String,
}

impl Plan {
    /// Creates a plan of brokers on this machine, which sync each write.
    pub fn local(count: usize) -> Self {
        let place = Place { host: Ipv4Addr::LOCALHOST.into(), launcher: Vec::new() };
        Self { places: vec![place; count], sync_always: true, configuration: String::new() }
    }
}

#[derive(Debug)]
struct Broker {
    place: Place,
    client: u16,
    monitoring: u16,
    process: Option<Child>,
}

/// Brokers that run until they are dropped. Alone, one is a server; several are a cluster.
#[derive(Debug)]
pub struct Brokers {
    folder: PathBuf,
    brokers: Vec<Broker>,
}

/// Finds the program of the server.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if it is not installed.
pub fn program() -> io::Result<PathBuf> {
    if let Some(named) = std::env::var_os("TIDEGATE_NATS_SERVER") {
        return Ok(named.into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let found = target.join("brokers/bin/nats-server");
    if found.exists() {
        return Ok(found);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing: run .ci/brokers", found.display())))
}

impl Brokers {
    /// Starts a number of brokers on this machine, and waits until they are ready.
    ///
    /// # Errors
    /// Files, processes, or brokers that do not start in time.
    pub fn start(count: usize) -> io::Result<Self> {
        Self::start_plan(&Plan::local(count))
    }

    /// Starts the brokers of a plan, and waits until they are ready.
    ///
    /// # Errors
    /// Files, processes, or brokers that do not start in time.
    pub fn start_plan(plan: &Plan) -> io::Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("tidegate-brokers-{process}-{number}"));
        std::fs::create_dir_all(&folder)?;
        let mut started = Self { folder, brokers: Vec::new() };
        let routes = started.configure(plan)?;
        for (index, text) in routes.iter().enumerate() {
            std::fs::write(started.file(index, "conf"), text)?;
        }
        for index in 0..plan.places.len() {
            started.spawn(index)?;
        }
        started.wait_ready()?;
        Ok(started)
    }

    /// Chooses ports, and writes the configuration of each broker.
    fn configure(&mut self, plan: &Plan) -> io::Result<Vec<String>> {
        let mut routes = Vec::new();
        for place in &plan.places {
            let local = place.launcher.is_empty();
            // In a network namespace of its own, each port is free.
            let port = |fixed| if local { free_port(place.host) } else { Ok(fixed) };
            let (client, route, monitoring) = (port(4_222)?, port(6_222)?, port(8_222)?);
            routes.push(SocketAddr::new(place.host, route));
            self.brokers.push(Broker { place: place.clone(), client, monitoring, process: None });
        }
        let urls: Vec<_> = routes.iter().map(|route| format!("nats-route://{route}")).collect();
        let sync = if plan.sync_always { "always" } else { "2m" };
        let mut texts = Vec::new();
        for (index, broker) in self.brokers.iter().enumerate() {
            let host = broker.place.host;
            let client = SocketAddr::new(host, broker.client);
            let monitoring = SocketAddr::new(host, broker.monitoring);
            let store = self.file(index, "data");
            let mut text = format!(
                "server_name: broker-{index}\nlisten: \"{client}\"\nhttp: \"{monitoring}\"\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: {sync} }}\n{}\n",
                plan.configuration
            );
            if routes.len() > 1 {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "cluster {{ name: test, listen: \"{}\", routes: {urls:?} }}", routes[index]);
            }
            texts.push(text);
        }
        Ok(texts)
    }

    fn file(&self, index: usize, name: &str) -> PathBuf {
        self.folder.join(format!("broker-{index}.{name}"))
    }

    /// Starts a broker that does not run, with the files it had.
    ///
    /// # Errors
    /// Files or processes.
    pub fn spawn(&mut self, index: usize) -> io::Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(self.file(index, "log"))?;
        let place = &self.brokers[index].place;
        let (first, rest) = place.launcher.split_first().map_or(("setpriv", &[][..]), |(first, rest)| (first, rest));
        let mut command = Command::new(first);
        if !place.launcher.is_empty() {
            command.args(rest).arg("setpriv");
        }
        // It ends with the thread that started it.
        command.args(["--pdeathsig", "KILL", "--"]).arg(program()?).arg("-c").arg(self.file(index, "conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.brokers[index].process = Some(command.spawn()?);
        Ok(())
    }

    /// Waits until all brokers that run are ready, and a cluster has a leader.
    ///
    /// # Errors
    /// A broker that ended, or time that is over; with the end of its log.
    pub fn wait_ready(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        for index in 0..self.brokers.len() {
            while self.brokers[index].process.is_some() && !self.is_ready(index) {
                let ended = match &mut self.brokers[index].process {
                    Some(process) => process.try_wait()?.is_some(),
                    None => false,
                };
                if ended || Instant::now() > until {
                    let log = std::fs::read_to_string(self.file(index, "log")).unwrap_or_default();
                    let tail: Vec<_> = log.lines().rev().take(10).collect();
                    let what = if ended { "ended" } else { "is not ready" };
                    return Err(io::Error::other(format!("broker {index} {what}: {}", tail.join("\n"))));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    fn is_ready(&self, index: usize) -> bool {
        let healthy = self.ask(index, "healthz").is_some_and(|answer| answer["status"] == "ok");
        let alone = self.brokers.len() == 1;
        healthy && (alone || self.ask(index, "jsz").is_some_and(|answer| led(&answer)))
    }

    /// Asks a broker's monitoring address.
    pub fn ask(&self, index: usize, path: &str) -> Option<Value> {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(1))).proxy(None).build();
        let url = format!("{}/{path}", self.monitoring()[index]);
        let body = ureq::Agent::new_with_config(config).get(url).call().ok()?.body_mut().read_to_string().ok()?;
        serde_json::from_str(&body).ok()
    }

    /// Returns the addresses for clients.
    pub fn urls(&self) -> Vec<String> {
        let address = |broker: &Broker| format!("nats://{}", SocketAddr::new(broker.place.host, broker.client));
        self.brokers.iter().map(address).collect()
    }

    /// Returns the monitoring addresses.
    pub fn monitoring(&self) -> Vec<String> {
        let address = |broker: &Broker| format!("http://{}", SocketAddr::new(broker.place.host, broker.monitoring));
        self.brokers.iter().map(address).collect()
    }

    /// Returns the folder with configurations, logs and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of a broker's process, if it runs. With a launcher that does not replace itself, it is the
    /// launcher's.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.brokers[index].process.as_ref().map(Child::id)
    }

    /// Kills a broker without notice, and waits until it is gone.
    ///
    /// # Errors
    /// Processes.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        if let Some(mut process) = self.brokers[index].process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Stops a broker where it is: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// Processes.
    #[cfg(unix)]
    pub fn pause(&self, index: usize) -> io::Result<()> {
        self.signal(index, rustix::process::Signal::STOP)
    }

    /// Lets a broker that was stopped go on.
    ///
    /// # Errors
    /// Processes.
    #[cfg(unix)]
    pub fn resume(&self, index: usize) -> io::Result<()> {
        self.signal(index, rustix::process::Signal::CONT)
    }

    #[cfg(unix)]
    fn signal(&self, index: usize, signal: rustix::process::Signal) -> io::Result<()> {
        let process = self.pid(index).and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        let process = process.ok_or_else(|| io::Error::other(format!("broker {index} does not run")))?;
        rustix::process::kill_process(process, signal).map_err(io::Error::from)
    }

    /// Waits for a leader of a stream among brokers that answer. Returns its index.
    ///
    /// # Errors
    /// Time that is over.
    pub fn leader(&self, stream: &str) -> io::Result<usize> {
        let until = Instant::now() + PATIENCE;
        loop {
            for index in 0..self.brokers.len() {
                // Each broker names the leader that it knows; only the leader itself is believed.
                if self.leads(index, stream) {
                    return Ok(index);
                }
            }
            if Instant::now() > until {
                return Err(io::Error::other(format!("the stream {stream} has no leader")));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn leads(&self, index: usize, stream: &str) -> bool {
        let Some(answer) = self.ask(index, "jsz?streams=true") else { return false };
        let accounts = answer["account_details"].as_array().into_iter().flatten();
        let mut streams = accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
        let name = format!("broker-{index}");
        streams.any(|found| {
            let leader = &found["cluster"]["leader"];
            found["name"] == stream && (leader.is_null() || *leader == name.as_str())
        })
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for index in 0..self.brokers.len() {
            let _ = self.kill(index);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Says whether a cluster has a leader, by the report of one of its brokers.
fn led(report: &Value) -> bool {
    report["meta_cluster"]["leader"].as_str().is_some_and(|name| !name.is_empty())
}

/// Finds a port that nobody listens at.
fn free_port(host: IpAddr) -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (many, process) = (u32::from(PORTS.end - PORTS.start), std::process::id());
    for _ in 0..1_000 {
        // Processes that run side by side begin at different ports.
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = process.wrapping_mul(7_919).wrapping_add(step) % many;
        let port = PORTS.start + u16::try_from(offset).unwrap_or(0);
        if TcpListener::bind(SocketAddr::new(host, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free"))
}
