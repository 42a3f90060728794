//! [`Telemetry`]: metrics, log lines and webhooks of a service. They name streams, but never users or devices.
//!
//! No metric follows the requests that bring events to a curated stream; `docs/threat-model.md` says why.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use serde_json::{Map, Value, json};
use tidegate_device::api::Receipt;

use super::auth::Secret;
use super::connector::ConnectorMeters;
use super::vitals::Vitals;
use super::webhook::{Outcome, Trigger, WebhookSettings, Webhooks};
use crate::driver::{DriveError, DriverEvent, Suspicion, SuspicionKind};
use crate::ingest::ReportError;
use crate::service::{Observer, Service};
use crate::store::BatchRejection;

pub(super) type One = [(&'static str, String); 1];
type Two = [(&'static str, String); 2];
type Three = [(&'static str, String); 3];
pub(super) type Level = Gauge<f64, AtomicU64>;
pub(super) type Whole = Gauge<i64, AtomicI64>;

/// Metrics, logs and webhooks of a service. It is the service's [`Observer`].
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    names: Vec<String>,
    meters: Arc<Meters>,
    vitals: Vitals,
    connectors: ConnectorMeters,
    webhooks: Webhooks,
}

#[derive(Debug)]
pub(super) struct Meters {
    accepted: Family<One, Counter>,
    refused: Family<Two, Counter>,
    repeated: Family<One, Counter>,
    suspicious: Family<Two, Counter>,
    releases: Family<One, Counter>,
    skipped: Family<One, Counter>,
    failures: Family<One, Counter>,
    lag: Family<One, Level>,
    version: Family<One, Whole>,
    spent: Family<One, Level>,
    left: Family<One, Level>,
    store: Family<One, Histogram>,
    batches: Histogram,
    requests: Family<Three, Counter>,
    request_seconds: Family<One, Histogram>,
    webhooks: Family<One, Counter>,
}

/// Buckets from a tenth of a millisecond to ten seconds.
fn seconds() -> Histogram {
    Histogram::new([0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
}

pub(super) const fn stream(stream: String) -> One {
    [("stream", stream)]
}

/// Prefix of all names.
const PREFIX: &str = "tidegate";

/// A registry that knows the names of its metrics. Its text leaves out those without a sample.
pub(super) struct Metrics {
    registry: Registry,
    names: Vec<String>,
}

impl Metrics {
    pub(super) fn register(&mut self, name: &str, help: &str, metric: impl Metric) {
        let endings: &[&str] = match metric.metric_type() {
            MetricType::Counter => &["_total"],
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            MetricType::Info => &["_info"],
            MetricType::Gauge | MetricType::Unknown => &[""],
        };
        self.names.extend(endings.iter().map(|ending| format!("{PREFIX}_{name}{ending}")));
        self.registry.register(name, help, metric);
    }
}

impl Telemetry {
    /// Creates metrics, and starts the thread of webhooks.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(webhooks: WebhookSettings) -> std::io::Result<Arc<Self>> {
        let meters = Arc::new(Meters {
            accepted: Family::default(),
            refused: Family::default(),
            repeated: Family::default(),
            suspicious: Family::default(),
            releases: Family::default(),
            skipped: Family::default(),
            failures: Family::default(),
            lag: Family::default(),
            version: Family::default(),
            spent: Family::default(),
            left: Family::default(),
            store: Family::new_with_constructor(seconds),
            batches: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            webhooks: Family::default(),
        });
        let mut metrics = Metrics { registry: Registry::with_prefix(PREFIX), names: Vec::new() };
        meters.register(&mut metrics);
        let vitals = Vitals::default();
        vitals.register(&mut metrics);
        let connectors = ConnectorMeters::default();
        connectors.register(&mut metrics);
        let Metrics { registry, names } = metrics;
        let webhooks = Webhooks::start(webhooks, Arc::clone(&meters))?;
        Ok(Arc::new(Self { registry, names, meters, vitals, connectors, webhooks }))
    }

    /// Returns all metrics in the OpenMetrics format.
    pub fn text(&self, service: &Service) -> String {
        self.vitals.measure(service);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Returns the names of all metrics, as Prometheus stores them, also of those without a sample.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn meters(&self) -> &Meters {
        &self.meters
    }

    pub(super) const fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    pub(super) const fn connectors(&self) -> &ConnectorMeters {
        &self.connectors
    }

    /// Sends answers of this service's monitors to webhooks.
    pub(super) fn attach(&self, service: &Arc<Service>) {
        self.webhooks.attach(service);
    }

    /// Replaces the key that signs messages to webhooks, also those that wait.
    pub(super) fn set_webhook_secret(&self, secret: Option<Secret>) {
        self.webhooks.set_secret(secret);
    }

    /// Drops pending webhook messages, and ends their thread.
    pub(super) fn stop(&self) {
        self.webhooks.stop();
    }
}

impl Meters {
    fn register(&self, registry: &mut Metrics) {
        registry.register("reports_accepted", "Reports that were counted, by stream", self.accepted.clone());
        let help = "Reports or requests that were refused, by stream and reason";
        registry.register("reports_refused", help, self.refused.clone());
        registry.register("reports_repeated", "Reports that had been counted before, by stream", self.repeated.clone());
        let help = "Signs that devices do not follow their oracle, by stream and kind";
        registry.register("suspicious", help, self.suspicious.clone());
        registry.register("releases", "Releases, by stream", self.releases.clone());
        registry.register("ticks_skipped", "Timestamps that were left out, by stream", self.skipped.clone());
        registry.register("driver_errors", "Times that a stream's driver stopped", self.failures.clone());
        let help = "How late the last release of a stream of devices was, in seconds";
        registry.register("tick_lag_seconds", help, self.lag.clone());
        registry.register("published_version", "Up to which version a stream is published", self.version.clone());
        let help = "What the last release cost the user who spent most, in epsilon";
        registry.register("epsilon_spent", help, self.spent.clone());
        let help = "Share of the budget that is left in the current window";
        registry.register("budget_left", help, self.left.clone());
        registry.register("store_seconds", "How long the store took, by transaction", self.store.clone());
        registry.register("commit_batches", "Batches of reports in one transaction", self.batches.clone());
        registry.register("requests", "Requests, by method, route and status", self.requests.clone());
        registry.register("request_seconds", "How long requests took, by route", self.request_seconds.clone());
        registry.register("webhooks", "Messages to webhooks, by outcome", self.webhooks.clone());
    }

    /// Sums up the counters of these streams as JSON, and lists the streams that have any, at most so many; those with
    /// refusals, suspicions or skipped ticks come first.
    pub(super) fn summary(&self, names: &[&str], most: usize) -> Value {
        let sum = |family: &Family<One, Counter>| {
            names.iter().map(|name| counted(family, &stream((*name).to_owned()))).sum::<u64>()
        };
        let (mut refused, mut suspicious) = (Map::new(), Map::new());
        let mut listed = Vec::new();
        // Of requests that name no stream.
        for reason in REASONS {
            add(
                &mut refused,
                reason,
                counted(&self.refused, &[("stream", String::new()), ("reason", reason.to_owned())]),
            );
        }
        for name in names {
            let of = |label: &'static str, value: &str| [("stream", (*name).to_owned()), (label, value.to_owned())];
            let mut own_refused = Map::new();
            for reason in REASONS {
                let count = counted(&self.refused, &of("reason", reason));
                add(&mut own_refused, reason, count);
                add(&mut refused, reason, count);
            }
            let mut own_suspicious = 0;
            for kind in SuspicionKind::ALL.map(SuspicionKind::name) {
                let count = counted(&self.suspicious, &of("kind", kind));
                own_suspicious += count;
                add(&mut suspicious, kind, count);
            }
            let label = stream((*name).to_owned());
            let (accepted, skipped) = (counted(&self.accepted, &label), counted(&self.skipped, &label));
            let lag = self.lag.get(&label).map(|lag| lag.get());
            let troubles = own_suspicious + skipped + own_refused.values().filter_map(Value::as_u64).sum::<u64>();
            if accepted + troubles > 0 || lag.is_some() {
                let own = json!({
                    "stream": name, "accepted": accepted, "refused": own_refused, "suspicious": own_suspicious,
                    "skipped": skipped, "lag_seconds": lag,
                });
                listed.push((troubles, lag, own));
            }
        }
        let slowest = listed.iter().filter_map(|(_, lag, own)| Some((lag.as_ref()?, own)));
        let slowest = slowest.max_by(|one, other| one.0.total_cmp(other.0));
        let slowest = slowest.map(|(lag, own)| json!({ "stream": own["stream"], "lag_seconds": lag }));
        listed.sort_by_key(|(troubles, _, own)| (std::cmp::Reverse(*troubles), own["stream"].to_string()));
        let by_stream: Vec<Value> = listed.into_iter().take(most).map(|(_, _, own)| own).collect();
        let mut webhooks = Map::new();
        for outcome in Outcome::ALL.map(Outcome::name) {
            add(&mut webhooks, outcome, counted(&self.webhooks, &[("outcome", outcome.to_owned())]));
        }
        json!({
            "reports": { "accepted": sum(&self.accepted), "repeated": sum(&self.repeated), "refused": refused },
            "releases": sum(&self.releases), "skipped_ticks": sum(&self.skipped),
            "driver_errors": sum(&self.failures), "suspicious": suspicious, "slowest": slowest,
            "webhooks": webhooks, "by_stream": by_stream,
        })
    }

    /// Counts a refused request, or refused reports.
    pub(super) fn refused(&self, name: &str, reason: &'static str, count: u64) {
        // `summary` reads no others.
        debug_assert!(REASONS.contains(&reason), "{reason} is not among the reasons");
        let labels = [("stream", name.to_owned()), ("reason", reason.to_owned())];
        self.refused.get_or_create(&labels).inc_by(count);
    }

    pub(super) fn store(&self, transaction: &'static str, took: Duration) {
        self.store.get_or_create(&[("transaction", transaction.to_owned())]).observe(took.as_secs_f64());
    }

    pub(super) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&[("route", route.to_owned())]).observe(took.as_secs_f64());
    }

    pub(super) fn webhook(&self, outcome: Outcome) {
        self.webhooks.get_or_create(&[("outcome", outcome.name().to_owned())]).inc();
    }
}

/// All reasons of refusals, of reports and of draws.
const REASONS: [&str; 16] = [
    "closed",
    "conflicting",
    "implausible",
    "token",
    "wrong_token",
    "drawn",
    "credential",
    "no_credentials",
    "malformed",
    "other_stream",
    "no_stream",
    "crowded",
    "busy",
    "store",
    "unauthorised",
    "rate",
];

/// Reads a counter without making one.
fn counted<L: Clone + Hash + Eq>(family: &Family<L, Counter>, labels: &L) -> u64 {
    family.get(labels).map_or(0, |counter| counter.get())
}

/// Adds to the count of a name, which is not there while it is zero.
fn add(counts: &mut Map<String, Value>, name: &str, count: u64) {
    if count > 0 {
        let before = counts.get(name).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(name.to_owned(), (before + count).into());
    }
}

/// Label of a refusal.
const fn reason(error: &ReportError) -> &'static str {
    match error {
        ReportError::Wire(_) | ReportError::Rejected(BatchRejection::Malformed(_)) => "malformed",
        ReportError::OtherStream => "other_stream",
        ReportError::Rejected(BatchRejection::NotOpen { .. }) => "closed",
        ReportError::Rejected(_) => "no_stream",
        ReportError::Crowded => "crowded",
        ReportError::Token(_) => "token",
        ReportError::Busy => "busy",
        ReportError::Store => "store",
    }
}

impl Observer for Telemetry {
    fn driver_event(&self, name: &str, event: &DriverEvent) {
        let meters = &self.meters;
        let label = stream(name.to_owned());
        match event {
            DriverEvent::Asked { timestamp, questions } => {
                tracing::debug!(stream = name, timestamp, questions, "devices are asked");
            }
            DriverEvent::Counted { timestamp, phase, reports } => {
                tracing::debug!(stream = name, timestamp, phase, reports, "reports were counted");
            }
            DriverEvent::Missed { timestamp, missing } => {
                tracing::error!(stream = name, timestamp, ?missing, "reports were not counted in time");
                let labels = [("stream", name.to_owned()), ("kind", SuspicionKind::Incomplete.name().to_owned())];
                meters.suspicious.get_or_create(&labels).inc();
            }
            DriverEvent::Suspicious { timestamp, phase, suspicion } => {
                let (kind, body) = (suspicion.kind().name(), describe(suspicion));
                tracing::warn!(stream = name, timestamp, phase, kind, "devices seem not to follow their oracle");
                let labels = [("stream", name.to_owned()), ("kind", kind.to_owned())];
                meters.suspicious.get_or_create(&labels).inc();
                let body = json!({
                    "stream": name, "kind": "suspicion", "timestamp": timestamp, "phase": phase, "suspicion": body,
                });
                self.webhooks.send(Trigger::Suspicion { stream: name.to_owned(), body: body.to_string() });
            }
            DriverEvent::Released { timestamp, through, releases, spent, left, .. } => {
                tracing::info!(stream = name, timestamp, releases, "released");
                self.vitals.released_through(name, *through);
                meters.releases.get_or_create(&label).inc_by(*releases as u64);
                meters.spent.get_or_create(&label).set(spent.map_or(0.0, |spent| spent.as_f64()));
                if let Some(left) = left {
                    meters.left.get_or_create(&label).set(*left);
                }
            }
            DriverEvent::Published { version, lag } => {
                tracing::debug!(stream = name, version, lag, "published");
                if let Some(lag) = lag {
                    meters.lag.get_or_create(&label).set(Duration::from_millis(*lag).as_secs_f64());
                }
                meters.version.get_or_create(&label).set(i64::try_from(*version).unwrap_or(i64::MAX));
                self.webhooks.send(Trigger::Published { stream: name.to_owned() });
            }
            DriverEvent::Jumped { not_before } => {
                tracing::error!(
                    stream = name,
                    not_before,
                    "the clock jumped ahead: nothing is opened before this timestamp"
                );
            }
            DriverEvent::Skipped { count } => {
                tracing::warn!(stream = name, count, "timestamps were left out");
                meters.skipped.get_or_create(&label).inc_by(*count);
            }
        }
    }

    fn failed(&self, name: &str, error: &DriveError) {
        tracing::error!(stream = name, %error, "the stream's driver stopped, and is opened again");
        self.meters.failures.get_or_create(&stream(name.to_owned())).inc();
    }

    fn received(&self, name: &str, outcome: &Result<Receipt, ReportError>) {
        match outcome {
            Ok(Receipt { accepted, repeated, conflicting, implausible, wrong_token }) => {
                self.meters.accepted.get_or_create(&stream(name.to_owned())).inc_by(*accepted);
                if *repeated > 0 {
                    self.meters.repeated.get_or_create(&stream(name.to_owned())).inc_by(*repeated);
                }
                let rejected =
                    [("conflicting", *conflicting), ("implausible", *implausible), ("wrong_token", *wrong_token)];
                for (reason, count) in rejected {
                    if count > 0 {
                        self.meters.refused(name, reason, count);
                    }
                }
            }
            // Unknown names would each add a line to the metrics.
            Err(ReportError::Rejected(BatchRejection::NoStream)) => self.meters.refused("", "no_stream", 1),
            Err(error) => self.meters.refused(name, reason(error), 1),
        }
    }

    fn committed(&self, batches: usize, took: Duration) {
        #[allow(clippy::cast_precision_loss)] // a few hundred at most
        self.meters.batches.observe(batches as f64);
        self.meters.store("accept", took);
    }
}

fn describe(suspicion: &Suspicion) -> Value {
    let of = suspicion.kind().name();
    match suspicion {
        Suspicion::Frequency { cell, estimate, deviations } => {
            json!({ "of": of, "cell": cell, "estimate": estimate, "deviations": deviations })
        }
        Suspicion::Crowd { reports, expected } => json!({ "of": of, "reports": reports, "expected": expected }),
    }
}
