//! Thousands of streams in one service: how late releases are, how long it starts and stops, and memory a stream.
//!
//! All ticks begin at the same moments, which is the worst case. The store is an SQLite file, the high-water marks are
//! files beside it, and both sync. `TIDEGATE_STREAMS` sets the number of streams (5,000), `TIDEGATE_TICKS` the ticks
//! that are measured (4), `TIDEGATE_TICK` their length in seconds (10).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss, missing_docs)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use tidegate_device::api::Receipt;
use tidegate_device::clock::BootClock;
use tidegate_server::driver::{DriveError, DriverEvent, Tools};
use tidegate_server::ingest::ReportError;
use tidegate_server::service::{Observer, Service, ServiceSettings, now};
use tidegate_server::store::{Marks, SqliteStore, Store};
use tidegate_server::stream::{Declaration, Schedule};

/// Reads a number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Collects how late releases become readable, by the wall clock after their publication.
#[derive(Debug)]
struct Lags {
    schedules: HashMap<String, Schedule>,
    inside: Mutex<(HashMap<String, u64>, Vec<u64>)>,
}

impl Observer for Lags {
    fn driver_event(&self, stream: &str, event: &DriverEvent) {
        let (released, lags) = &mut *self.inside.lock().unwrap();
        match event {
            DriverEvent::Released { timestamp, .. } => {
                released.insert(stream.to_owned(), *timestamp);
            }
            DriverEvent::Published { .. } => {
                if let Some(timestamp) = released.get(stream) {
                    lags.push(now().saturating_sub(self.schedules[stream].due(*timestamp)));
                }
            }
            _ => {}
        }
    }

    fn failed(&self, stream: &str, error: &DriveError) {
        eprintln!("{stream}: {error}");
    }

    fn received(&self, _: &str, _: &Result<Receipt, ReportError>) {}

    fn committed(&self, _: usize, _: Duration) {}
}

fn declaration(name: &str, tick: u64) -> Declaration {
    let declaration = serde_json::json!({ "name": name, "tick": tick, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 1, "window": 10, "population": 100, "domain": 16,
        "oracle": "grr",
    } });
    serde_json::from_value(declaration).unwrap()
}

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Starts the service. Returns it after all of its streams are driven, and prints how long that took.
fn start(folder: &Path, declared: &[Declaration], observer: &Arc<Lags>, what: &str) -> Arc<Service> {
    let began = Instant::now();
    let store = Arc::new(SqliteStore::open(&folder.join("store")).unwrap());
    let marks = Arc::new(Marks::open(&folder.join("marks"), &*store as &dyn Store).unwrap());
    let tools = Tools { store, marks, key: None, holder: "bench".to_owned(), lease: 60_000 };
    let settings =
        ServiceSettings { queue: 1_024, signer: SigningKey::from_bytes(&[7; 32]), clock: BootClock::new().unwrap() };
    let service = Service::start(tools, settings, declared, Arc::clone(observer) as Arc<dyn Observer>).unwrap();
    let up = began.elapsed();
    while service.streams().iter().any(|stream| !stream.driven) {
        thread::sleep(Duration::from_millis(50));
    }
    println!("{what:28} {:6.2} s until it answers, {:6.2} s until all run", up.as_secs_f64(), seconds(began));
    service
}

fn stop(service: Arc<Service>) {
    let began = Instant::now();
    service.stop();
    println!("{:28} {:6.2} s", "stop", seconds(began));
    drop(service);
}

/// Returns the processor time of this process in seconds.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}

fn main() {
    // Test runners start benchmarks to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (streams, ticks) = (number("TIDEGATE_STREAMS", 5_000), number("TIDEGATE_TICKS", 4));
    let tick = number("TIDEGATE_TICK", 10);
    let folder: PathBuf = std::env::temp_dir().join(format!("tidegate-streams-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let declared: Vec<_> = (0..streams).map(|number| declaration(&format!("stream-{number}"), tick)).collect();
    let schedules = declared.iter().map(|stream| (stream.name.clone(), stream.schedule())).collect();
    let observer = Arc::new(Lags { schedules, inside: Mutex::default() });
    println!("{streams} streams of {tick} s");
    stop(start(&folder, &declared, &observer, "first start, creates them"));
    let before = resident();
    let service = start(&folder, &[], &observer, "start");
    // The first ticks after the start are not measured.
    thread::sleep(Duration::from_secs(2 * tick));
    observer.inside.lock().unwrap().1.clear();
    let (began, used) = (Instant::now(), processor());
    thread::sleep(Duration::from_secs(ticks * tick));
    let (took, used) = (seconds(began), processor() - used);
    let mut measured = std::mem::take(&mut observer.inside.lock().unwrap().1);
    measured.sort_unstable();
    let at = |share: f64| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a place in the list
        let place = (share * (measured.len().saturating_sub(1)) as f64) as usize;
        measured.get(place).map_or(f64::NAN, |lag| *lag as f64 / 1_000.0)
    };
    let (done, all) = (measured.len() as f64 / took, streams as f64 / tick as f64);
    println!("{:28} {done:.0} of {all:.0} a second", "releases");
    println!("{:28} median {:.2} s, 99 % {:.2} s, most {:.2} s", "lag", at(0.5), at(0.99), at(1.0));
    println!("{:28} {:.2} ms a release", "processor", used / measured.len() as f64 * 1_000.0);
    let memory = resident().saturating_sub(before) as f64 / streams as f64;
    println!("{:28} {memory:.1} KiB a stream", "memory");
    stop(service);
    std::fs::remove_dir_all(folder).unwrap();
}
