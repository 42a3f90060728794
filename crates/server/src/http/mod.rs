//! The service over HTTP: `/v1/…` for devices, curators, analysts and operators, and monitoring.
//!
//! | module | contents |
//! | --- | --- |
//! | `routes` | the routes by subject: declarations and handlers |
//! | `route` | type of a declaration, and the router of all |
//! | `openapi`, `schemas` | the document at `/openapi.json`, from the declarations |
//! | `middleware` | request ids, identification, limits, roles, metrics, logs |
//! | `request` | extractors, bodies, media types |
//! | `problem` | the form of every refusal |
//! | [`auth`] | roles and tokens |
//! | `rate` | rate limits |
//! | `listen` | connections, TLS, slow clients |
//! | [`certificate`] | check of a certificate |
//! | `telemetry`, `logs` | metrics and logs |
//! | `webhook` | webhooks |
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use tidegate_server::{http::Telemetry, service::Service};
//! # async fn example(service: Arc<Service>, telemetry: Arc<Telemetry>) -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate_server::http::{HttpSettings, serve, shutdown_signal};
//!
//! // The telemetry is the observer that the service was started with.
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8420").await?;
//! serve(service, telemetry, listener, HttpSettings::default(), shutdown_signal()).await?;
//! # Ok(())
//! # }
//! ```

pub mod auth;
pub mod certificate;
mod listen;
mod logs;
mod middleware;
mod openapi;
mod problem;
mod rate;
mod request;
mod route;
mod routes;
mod schemas;
mod telemetry;
mod webhook;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use auth::Tokens;
use listen::Tls;
pub use listen::TlsFiles;
pub use logs::{LogFormat, LogsError, log_to_stderr};
pub use rate::Rate;
use rate::RateLimit;
use routes::QueryCache;
pub use telemetry::Telemetry;
pub use webhook::{SIGNATURE, WebhookSettings};

use crate::service::Service;

/// Settings of the HTTP server.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    /// Known tokens.
    pub tokens: Tokens,
    /// Certificate and key. Without TLS tokens travel in the clear, so only this machine or a proxy that does TLS
    /// should reach the port.
    pub tls: Option<TlsFiles>,
    /// Whether metrics need no token.
    pub public_metrics: bool,
    /// Limits of clients.
    pub limits: Limits,
}

/// Limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most open connections.
    pub connections: usize,
    /// Most waiting requests: long polls and feeds. Callers with a token and others have this many each.
    pub waiting: usize,
    /// Rate limit of each token.
    pub token_rate: Rate,
    /// Rate limit of each address without a known token.
    pub address_rate: Rate,
    /// Longest time for the headers of a request, and between requests.
    pub headers: Duration,
    /// Longest time for a body.
    pub body: Duration,
    /// Longest time in which a client reads nothing of its answer.
    pub write: Duration,
    /// Time that requests have to finish when the service stops.
    pub grace: Duration,
}

fn rate(per_second: u32, burst: u32) -> Rate {
    let at_least_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    Rate { per_second: at_least_one(per_second), burst: at_least_one(burst) }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            waiting: 2_048,
            token_rate: rate(5_000, 10_000),
            address_rate: rate(50, 200),
            headers: Duration::from_secs(30),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

/// Error of [`serve`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ServeError {
    /// An unusable certificate or key.
    #[error("{path}: {problem}")]
    Tls { path: String, problem: String },
}

/// State that all requests share.
#[derive(Debug)]
struct App {
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    settings: HttpSettings,
    rates: RateLimit,
    /// Limits of the events route, apart from all others.
    event_rates: RateLimit,
    began: Instant,
    waiting: Arc<Semaphore>,
    /// Waiting places of callers without a token.
    strangers: Arc<Semaphore>,
    /// Last check of readiness, and its result.
    readiness: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// True when the service stops, which ends all waiting requests.
    stopping: watch::Receiver<bool>,
    queries: QueryCache,
}

/// Serves until `stop`. Then refuses connections, finishes requests, and [stops](Service::stop) the service. On Unix,
/// `SIGHUP` reloads certificate and key.
///
/// # Errors
/// An unusable certificate or key.
pub async fn serve(
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    listener: TcpListener,
    settings: HttpSettings,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let tls = settings.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    reload_on_hangup(tls.clone());
    telemetry.attach(&service);
    let (stopping, stopped) = watch::channel(false);
    let limits = settings.limits;
    let app = Arc::new(App {
        service: Arc::clone(&service),
        telemetry: Arc::clone(&telemetry),
        settings,
        rates: RateLimit::default(),
        event_rates: RateLimit::default(),
        began: Instant::now(),
        waiting: Arc::new(Semaphore::new(limits.waiting)),
        strangers: Arc::new(Semaphore::new(limits.waiting)),
        readiness: tokio::sync::Mutex::default(),
        stopping: stopped,
        queries: QueryCache::default(),
    });
    let stop = async move {
        stop.await;
        tracing::info!("stopping");
        // Ends waiting requests; an error means that there are none.
        let _ = stopping.send(true);
    };
    listen::accept(listener, route::router(app), tls, limits, stop).await;
    let finish = move || {
        service.stop();
        telemetry.stop();
    };
    if tokio::task::spawn_blocking(finish).await.is_err() {
        tracing::error!("the service did not stop cleanly");
    }
    Ok(())
}

/// Completes on `SIGTERM` or `SIGINT`. From this call on, not only from the first poll, these do not end the process by
/// themselves. Call it in a runtime, before the service is announced.
pub fn shutdown_signal() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{Signal, SignalKind, signal};

        async fn received(signal: Option<Signal>) {
            match signal {
                Some(mut signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        let hear = |kind: SignalKind, name: &str| {
            signal(kind).inspect_err(|error| tracing::warn!(%error, "{name} cannot be handled")).ok()
        };
        let (terminate, interrupt) =
            (hear(SignalKind::terminate(), "SIGTERM"), hear(SignalKind::interrupt(), "SIGINT"));
        async {
            tokio::select! {
                () = received(terminate) => {}
                () = received(interrupt) => {}
            }
        }
    }
    #[cfg(not(unix))]
    async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "SIGINT cannot be handled");
            std::future::pending::<()>().await;
        }
    }
}

/// Reloads certificate and key on `SIGHUP`. Without TLS, `SIGHUP` must not end the process either.
fn reload_on_hangup(tls: Option<Arc<Tls>>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        // Register now: before the task first runs, the signal would end the process.
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return tracing::warn!(%error, "SIGHUP cannot be handled"),
        };
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match tls.as_ref().map(|tls| tls.reload()) {
                    None => tracing::info!("there is no certificate to reload"),
                    Some(Ok(())) => tracing::info!("certificate and key were reloaded"),
                    Some(Err(error)) => tracing::error!(%error, "certificate and key were not reloaded"),
                }
            }
        });
    }
    #[cfg(not(unix))]
    drop(tls);
}
