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
//! | `turns` | turns of callers for costly work |
//! | `shares` | memory and waiting places, shared among callers |
//! | `network` | ranges of addresses: proxies, receivers of webhooks |
//! | `listen`, `connections`, `guarded` | connections, their number, slow clients |
//! | `tls` | certificate and key |
//! | `readiness` | checks of readiness |
//! | [`certificate`] | check of a certificate |
//! | `telemetry`, `vitals`, `logs` | metrics and logs |
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
mod connections;
mod guarded;
mod listen;
mod logs;
mod middleware;
mod network;
mod openapi;
mod problem;
mod rate;
mod readiness;
mod request;
mod route;
mod routes;
mod schemas;
mod shares;
mod telemetry;
mod tls;
mod turns;
mod vitals;
mod webhook;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tidegate_device::wire::MAX_BATCH;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use auth::{Secret, Tokens};
use connections::Connections;
use listen::Listening;
pub use logs::{LogFormat, LogsError, log_to_stderr};
pub use network::{Network, NotANetwork};
pub use rate::Rate;
use rate::RateLimit;
use readiness::Readiness;
use routes::QueryCache;
use shares::Shares;
pub use telemetry::Telemetry;
use tls::Tls;
pub use tls::TlsFiles;
use turns::Turns;
pub use webhook::{SIGNATURE, WebhookSettings};

use crate::service::Service;

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Known tokens.
    pub tokens: Tokens,
    /// Reads the tokens and the secret of webhooks anew on `SIGHUP`.
    pub reload: Option<Reload>,
    /// Certificate and key. Without TLS tokens travel in the clear, so only this machine or a proxy that does TLS
    /// should reach the port.
    pub tls: Option<TlsFiles>,
    /// Whether metrics need no token.
    pub public_metrics: bool,
    /// Proxies, which name their clients in a header.
    pub proxies: Vec<Network>,
    /// Name of that header: a list of addresses, to which each proxy appends the one that it was reached from.
    pub client_header: String,
    /// Compares mechanisms for a declaration.
    pub advisor: Option<Advisor>,
    /// Limits of clients.
    pub limits: Limits,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            tokens: Tokens::default(),
            reload: None,
            tls: None,
            public_metrics: false,
            proxies: Vec::new(),
            client_header: "x-forwarded-for".to_owned(),
            advisor: None,
            limits: Limits::default(),
        }
    }
}

/// Settings that `SIGHUP` replaces.
#[derive(Debug)]
pub struct Reloaded {
    /// Known tokens.
    pub tokens: Tokens,
    /// Key that signs messages to webhooks, or why it cannot be read. That must not keep a withdrawn token alive.
    pub webhook_secret: Result<Option<Secret>, String>,
}

/// Function that reads settings anew, or says why they cannot be read.
#[derive(Clone)]
pub struct Reload(Arc<ReadSettings>);

type ReadSettings = dyn Fn() -> Result<Reloaded, String> + Send + Sync;

impl Reload {
    /// Wraps a function. It may block.
    pub fn new(read: impl Fn() -> Result<Reloaded, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reload")
    }
}

/// Limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most open connections. When there are more, idle ones are closed.
    pub connections: usize,
    /// Most open connections of an address that is no proxy.
    pub connections_per_address: usize,
    /// Most waiting requests: a half for polls without a token, a quarter for others, and a quarter for feeds. A caller
    /// has at most a quarter of these.
    pub waiting: usize,
    /// Most bytes of bodies in memory, and as many of answers; an address has at most half. Bodies with events have as
    /// many again, divided among the tokens that may send them.
    pub memory: usize,
    /// Rate limit of each token.
    pub token_rate: Rate,
    /// Rate limit of each address with the same token.
    pub client_rate: Rate,
    /// Rate limit of each address without a known token.
    pub address_rate: Rate,
    /// Longest time for the headers of a request, and between requests.
    pub headers: Duration,
    /// Longest time for a body.
    pub body: Duration,
    /// Longest time in which a client reads nothing of its answer.
    pub write: Duration,
    /// Longest time that a request waits for the store.
    pub store: Duration,
    /// Time that requests have to finish when the service stops.
    pub grace: Duration,
    /// Time that streams have to finish after that.
    pub stop: Duration,
}

fn rate(per_second: u32, burst: u32) -> Rate {
    let at_least_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    Rate { per_second: at_least_one(per_second), burst: at_least_one(burst) }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            connections_per_address: 512,
            waiting: 2_048,
            memory: 256 << 20,
            token_rate: rate(5_000, 10_000),
            client_rate: rate(2_500, 5_000),
            address_rate: rate(50, 200),
            headers: Duration::from_secs(30),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            store: Duration::from_secs(20),
            grace: Duration::from_secs(10),
            stop: Duration::from_secs(15),
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
    /// The store or a disk hangs. Like a crash, this loses no acknowledged report.
    #[error("the streams did not stop in time, so they were left as a crash would leave them")]
    Stop,
}

/// Sockets that a service listens on.
#[derive(Debug)]
pub struct Listeners {
    /// All routes; `None` for a process that answers nobody.
    pub main: Option<TcpListener>,
    /// Health, readiness and metrics only, without TLS and rate limits: for this machine or a trusted network.
    pub monitoring: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Self {
        Self { main: Some(main), monitoring: None }
    }
}

/// Function that compares mechanisms for a declaration that an operator has in mind. It looks at no stream of the
/// service, and bounds its own time.
#[derive(Clone)]
pub struct Advisor(Arc<Advise>);

type Advise = dyn Fn(serde_json::Value) -> Result<serde_json::Value, String> + Send + Sync;

impl Advisor {
    /// Wraps a function from a request's body to the answer, or to what is wrong with the request. It may block.
    pub fn new(
        advise: impl Fn(serde_json::Value) -> Result<serde_json::Value, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(advise))
    }
}

impl fmt::Debug for Advisor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Advisor")
    }
}

/// State that all requests share.
#[derive(Debug)]
struct App {
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    settings: HttpSettings,
    /// Tokens that are known at present.
    tokens: watch::Sender<Arc<Tokens>>,
    rates: RateLimit,
    /// Limits of the events route, apart from all others.
    event_rates: RateLimit,
    began: Instant,
    /// Memory for bodies, for bodies with events, and for answers.
    bodies: Arc<Shares>,
    event_bodies: Arc<Shares>,
    answers: Arc<Shares>,
    /// Places of waiting requests: feeds, polls with a token, and polls without.
    feeds: Arc<Shares>,
    polls: Arc<Shares>,
    strangers: Arc<Shares>,
    /// Threads that may wait for the store.
    readers: Arc<Semaphore>,
    /// Threads that compute, one for each processor.
    processors: Arc<Semaphore>,
    /// Turns of each caller for work with tokens: at most half of the processors.
    turns: Turns,
    readiness: Readiness,
    /// The turn to measure the store.
    measuring: Arc<Semaphore>,
    /// The turn to compare mechanisms.
    advising: Arc<Semaphore>,
    /// True when the service stops, which ends all waiting requests.
    stopping: watch::Receiver<bool>,
    queries: QueryCache,
}

/// Most requests that wait for the store at once, each with a thread.
const READERS: usize = 32;

/// Most connections for monitoring.
const MONITORS: usize = 64;

impl App {
    fn new(
        service: Arc<Service>,
        telemetry: Arc<Telemetry>,
        settings: HttpSettings,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let Limits { waiting, memory, .. } = settings.limits;
        let places = |divisor: usize| {
            let places = (waiting / divisor).max(1);
            Shares::new(places, places.div_ceil(4))
        };
        // At least one body fits.
        let of_sender = (memory / settings.tokens.senders().max(1)).max(MAX_BATCH);
        Self {
            service,
            telemetry,
            tokens: watch::Sender::new(Arc::new(settings.tokens.clone())),
            rates: RateLimit::default(),
            event_rates: RateLimit::default(),
            began: Instant::now(),
            bodies: Shares::new(memory, memory / 2),
            event_bodies: Shares::new(usize::MAX, of_sender),
            answers: Shares::new(memory, memory / 2),
            feeds: places(4),
            polls: places(4),
            strangers: places(2),
            readers: Arc::new(Semaphore::new(READERS)),
            processors: Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))),
            turns: Turns::new(available_parallelism().map_or(1, usize::from) / 2),
            readiness: Readiness::default(),
            measuring: Arc::new(Semaphore::new(1)),
            advising: Arc::new(Semaphore::new(1)),
            stopping,
            queries: QueryCache::default(),
            settings,
        }
    }

    /// Returns the tokens that are known at present.
    fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens.borrow())
    }

    /// Reads the tokens and the secret of webhooks anew. What cannot be read stays as it was.
    fn reload(&self) {
        let Some(Reload(read)) = &self.settings.reload else { return };
        match read() {
            Ok(Reloaded { tokens, webhook_secret }) => {
                tracing::info!(tokens = tokens.len(), "tokens were reloaded");
                self.tokens.send_replace(Arc::new(tokens));
                match webhook_secret {
                    Ok(secret) => {
                        tracing::info!(is_signed = secret.is_some(), "webhook secret was reloaded");
                        self.telemetry.set_webhook_secret(secret);
                    }
                    Err(error) => tracing::error!(error, "webhook secret was not reloaded"),
                }
            }
            Err(error) => tracing::error!(error, "tokens and webhook secret were not reloaded"),
        }
    }
}

/// Serves until `stop`. Then refuses connections, finishes requests, and [stops](Service::stop) the service. On Unix,
/// `SIGHUP` reloads certificate, key, tokens and the secret of webhooks.
///
/// # Errors
/// An unusable certificate or key; [`ServeError::Stop`] where a store or a disk hangs at the end.
pub async fn serve(
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    listeners: impl Into<Listeners>,
    settings: HttpSettings,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let Listeners { main, monitoring } = listeners.into();
    let tls = settings.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    settings.tls.iter().for_each(|files| telemetry.vitals().certificate(files));
    telemetry.attach(&service);
    let (stopping, stopped) = watch::channel(false);
    let (limits, proxies) = (settings.limits, settings.proxies.clone());
    let app = Arc::new(App::new(Arc::clone(&service), Arc::clone(&telemetry), settings, stopped.clone()));
    reload_on_hangup(tls.clone(), Arc::clone(&app));
    let main = main.map(|listener| Listening {
        listener,
        router: route::router(Arc::clone(&app), None),
        tls,
        connections: Connections::new(limits.connections, limits.connections_per_address, proxies),
        most: limits.connections,
        is_monitoring: false,
    });
    let monitoring = monitoring.map(|listener| Listening {
        listener,
        router: route::router(app, Some(&routes::status::MONITORING)),
        tls: None,
        connections: Connections::new(MONITORS, MONITORS, Vec::new()),
        most: MONITORS,
        is_monitoring: true,
    });
    let stop = async move {
        stop.await;
        tracing::info!("stopping");
        // Ends waiting requests; an error means that there are none.
        let _ = stopping.send(true);
    };
    let monitor = async move {
        if let Some(monitoring) = monitoring {
            let mut stopped = stopped;
            monitoring.accept(limits, async move { drop(stopped.wait_for(|stopping| *stopping).await) }).await;
        }
    };
    let answer = async move {
        match main {
            Some(main) => main.accept(limits, stop).await,
            None => stop.await,
        }
    };
    tokio::join!(answer, monitor);
    let finish = tokio::task::spawn_blocking(move || {
        service.stop();
        telemetry.stop();
    });
    match timeout(limits.stop, finish).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => {
            tracing::error!("the service did not stop cleanly");
            Ok(())
        }
        Err(_) => Err(ServeError::Stop),
    }
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

/// Reloads certificate, key, tokens and the secret of webhooks on `SIGHUP`, which must not end the process in any case.
fn reload_on_hangup(tls: Option<Arc<Tls>>, app: Arc<App>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        // Register now: before the task first runs, the signal would end the process.
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return tracing::warn!(%error, "SIGHUP cannot be handled"),
        };
        let app = Arc::downgrade(&app);
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                let Some(app) = app.upgrade() else { return };
                match tls.as_ref().map(|tls| tls.reload()) {
                    None => {}
                    Some(Ok(())) => {
                        tracing::info!("certificate and key were reloaded");
                        app.settings.tls.iter().for_each(|files| app.telemetry.vitals().certificate(files));
                    }
                    Some(Err(error)) => tracing::error!(%error, "certificate and key were not reloaded"),
                }
                // An error means that the program ends.
                let _ = tokio::task::spawn_blocking(move || app.reload()).await;
            }
        });
    }
    #[cfg(not(unix))]
    drop((tls, app));
}
