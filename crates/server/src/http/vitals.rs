//! Measurements of the process, the store and the streams, taken when metrics are read.
//!
//! Memory and open files of the process grow with the users of an open tick and with the connections of event senders.
//! So they exist only while the service has no curated stream.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::info::Info;
use tokio::time::timeout;

use super::App;
use super::certificate::check_files;
use super::telemetry::{Level, Metrics, One, Whole, stream};
use super::tls::TlsFiles;
use crate::service::{Service, StreamState, now};

/// Longest wait for the size of the store. One that takes longer is shown with the next metrics.
const PATIENCE: Duration = Duration::from_millis(500);

/// A metric that is absent until it is known.
type Known = Family<[(&'static str, String); 0], Whole>;

#[derive(Debug, Default)]
pub(super) struct Vitals {
    memory: Known,
    files: Known,
    most_files: Known,
    store: Known,
    certificate: Known,
    queue: Whole,
    tick: Family<One, Whole>,
    through: Family<One, Whole>,
    status: Family<[(&'static str, String); 2], Whole>,
    driven: Family<One, Whole>,
    problem: Family<One, Whole>,
    overdue: Family<One, Level>,
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a number from a line of a file of the kernel, such as `VmRSS:  1234 kB`.
fn number_of(file: &str, line: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|found| found.strip_prefix(line))?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Vitals {
    pub(super) fn register(&self, registry: &mut Metrics) {
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the program", build);
        let began = Whole::default();
        began.set(whole(now() / 1_000));
        registry.register("start_time_seconds", "When the process started, in seconds since 1970", began);
        let help = "Memory of the process; absent where a stream is curated";
        registry.register("memory_bytes", help, self.memory.clone());
        registry.register("open_files", "Open files; absent where a stream is curated", self.files.clone());
        registry.register("most_open_files", "Limit of open files", self.most_files.clone());
        registry.register("store_bytes", "Size of the store", self.store.clone());
        let help = "When the certificate runs out, in seconds since 1970";
        registry.register("certificate_end_seconds", help, self.certificate.clone());
        registry.register("queued_batches", "Batches of reports that wait for the store", self.queue.clone());
        registry.register("tick_seconds", "Length of a timestamp, by stream", self.tick.clone());
        let help = "End of the last timestamp that was released, in seconds since 1970";
        registry.register("released_through_seconds", help, self.through.clone());
        registry.register("stream_status", "1 for the status of each stream", self.status.clone());
        registry.register("stream_driven", "Whether this process drives a stream", self.driven.clone());
        registry.register("stream_problem", "Whether a stream is stopped or stalled", self.problem.clone());
        let help = "How late the next step of a stream of devices is at present, in seconds";
        registry.register("step_overdue_seconds", help, self.overdue.clone());
    }

    /// Notes the end of the last timestamp that was released.
    pub(super) fn released_through(&self, name: &str, seconds: u64) {
        self.through.get_or_create(&stream(name.to_owned())).set(whole(seconds));
    }

    /// Notes when a certificate runs out.
    pub(super) fn certificate(&self, files: &TlsFiles) {
        match check_files(files) {
            Ok(validity) => drop(self.certificate.get_or_create(&[]).set(whole(validity.ends))),
            Err(error) => tracing::warn!(%error, "the end of the certificate is not known"),
        }
    }

    /// Returns the size of the store when it was last measured.
    pub(super) fn store_bytes(&self) -> Option<i64> {
        self.store.get(&[]).map(|bytes| bytes.get())
    }

    /// Takes all measurements that do not wait.
    pub(super) fn measure(&self, service: &Service) {
        let states = service.states();
        let public = !states.iter().any(|state| state.is_curated);
        self.measure_process(public);
        self.queue.set(i64::try_from(service.queued()).unwrap_or(i64::MAX));
        for StreamState { name, tick, status, is_driven, has_problem, overdue, .. } in states {
            let label = stream(name.as_ref().to_owned());
            self.tick.get_or_create(&label).set(whole(tick));
            for known in crate::store::Status::ALL {
                let labels = [("stream", name.as_ref().to_owned()), ("status", known.name().to_owned())];
                self.status.get_or_create(&labels).set(i64::from(known == status));
            }
            self.driven.get_or_create(&label).set(i64::from(is_driven));
            self.problem.get_or_create(&label).set(i64::from(has_problem));
            if let Some(overdue) = overdue {
                self.overdue.get_or_create(&label).set(overdue.as_secs_f64());
            }
        }
    }

    fn measure_process(&self, public: bool) {
        let show = |known: &Known, found: Option<u64>| match found {
            Some(found) => drop(known.get_or_create(&[]).set(whole(found))),
            None => known.clear(),
        };
        let memory = || number_of("/proc/self/status", "VmRSS:")?.checked_mul(1_024);
        let files = || Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64);
        show(&self.memory, public.then(memory).flatten());
        show(&self.files, public.then(files).flatten());
        show(&self.most_files, number_of("/proc/self/limits", "Max open files"));
    }
}

/// Measures the store, with one measurement at a time: metrics do not wait for a store that hangs.
pub(super) async fn measure_store(app: &Arc<App>) {
    let Ok(turn) = Arc::clone(&app.measuring).try_acquire_owned() else { return };
    let own = Arc::clone(app);
    let measuring = tokio::task::spawn_blocking(move || {
        match own.service.store_bytes() {
            Ok(bytes) => drop(own.telemetry.vitals().store.get_or_create(&[]).set(whole(bytes))),
            Err(error) => tracing::warn!(%error, "the size of the store is not known"),
        }
        drop(turn);
    });
    // After that, it goes on by itself.
    let _ = timeout(PATIENCE, measuring).await;
}
