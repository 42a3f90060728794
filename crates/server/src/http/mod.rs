//! The service over HTTP: `/v1/…` for devices, curators, analysts and operators, and what machines watch.
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`auth`] | roles and tokens |
//! | `api` | the routes |
//! | [`certificate`] | whether a certificate can be used |
//! | `feed` | server-sent events |
//! | `listen` | connections, TLS, slow clients |
//! | `rate` | how often somebody may call |
//! | `telemetry` | metrics and logs |
//! | `webhook` | messages to those who want to know |
//! | `openapi` | the description of all that, served at `/openapi.json` |
//!
//! ```no_run
//! # async fn example(service: std::sync::Arc<tidegate_server::service::Service>, telemetry: std::sync::Arc<tidegate_server::http::Telemetry>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate_server::http::{HttpSettings, serve, told_to_stop};
//!
//! // The telemetry is what the service was started with as its observer.
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! serve(service, telemetry, listener, HttpSettings::default(), told_to_stop()).await?;
//! # Ok(())
//! # }
//! ```

mod api;
pub mod auth;
pub mod certificate;
mod feed;
mod listen;
mod logs;
mod openapi;
mod problem;
mod rate;
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
pub use telemetry::Telemetry;
pub use webhook::{SIGNATURE, WebhookSettings};

use crate::service::Service;

/// How a service is reached.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    /// Who may do what.
    pub tokens: Tokens,
    /// What connections are sealed with. Without, everybody on the way can read tokens, so that only this machine, or
    /// one that does the sealing, should reach the port.
    pub tls: Option<TlsFiles>,
    /// Whether metrics can be read without a token.
    pub public_metrics: bool,
    /// What clients may take up.
    pub limits: Limits,
}

/// What clients may take up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections may be open.
    pub connections: usize,
    /// How many requests may wait for something to happen: questions that are held back, and feeds. So many of those
    /// who have a token, and so many of the others.
    pub waiting: usize,
    /// How often the holder of a token may call.
    pub token_rate: Rate,
    /// How often an address may call without a token, or with one that is none.
    pub address_rate: Rate,
    /// How long a client may take to send the headers of a request, or to begin the next one.
    pub headers: Duration,
    /// How long it may take to send the body.
    pub body: Duration,
    /// How long it may take to accept more of an answer.
    pub write: Duration,
    /// How long requests have to finish when the service stops.
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

/// Why a service cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A certificate or a key that is none.
    #[error("{path}: {problem}")]
    Tls {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What all requests share.
#[derive(Debug)]
struct App {
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    settings: HttpSettings,
    rates: RateLimit,
    /// For requests of the events route, apart from all others.
    event_rates: RateLimit,
    began: Instant,
    waiting: Arc<Semaphore>,
    /// For those who have no token.
    strangers: Arc<Semaphore>,
    /// Whether the service was ready, and when that was found out.
    readiness: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// True when the service stops: whoever waits is let go.
    stopping: watch::Receiver<bool>,
}

/// Serves until `stop`; then nobody is let in any more, what was begun is finished, and the service is
/// [stopped](Service::stop). On Unix, `SIGHUP` has certificate and key read again.
///
/// # Errors
/// If the certificate or the key cannot be used.
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
    });
    let stop = async move {
        stop.await;
        tracing::info!("stopping");
        // Whoever waits is let go; nobody else listens to this.
        let _ = stopping.send(true);
    };
    listen::accept(listener, api::router(app), tls, limits, stop).await;
    let finish = move || {
        service.stop();
        telemetry.stop();
    };
    if tokio::task::spawn_blocking(finish).await.is_err() {
        tracing::error!("the service did not stop as it should");
    }
    Ok(())
}

/// Comes when the process is told to end: by `SIGTERM` or `SIGINT`, which from the call on, not only from the first
/// wait, do not end it by themselves. To be called in the context of a runtime, before anybody is told that the service
/// is there.
pub fn told_to_stop() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{Signal, SignalKind, signal};

        async fn comes(signal: Option<Signal>) {
            match signal {
                Some(mut signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        let hear = |kind: SignalKind, name: &str| {
            signal(kind).inspect_err(|error| tracing::warn!(%error, "{name} is not heard")).ok()
        };
        let (terminate, interrupt) =
            (hear(SignalKind::terminate(), "SIGTERM"), hear(SignalKind::interrupt(), "SIGINT"));
        async {
            tokio::select! {
                () = comes(terminate) => {}
                () = comes(interrupt) => {}
            }
        }
    }
    #[cfg(not(unix))]
    async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "SIGINT is not heard");
            std::future::pending::<()>().await;
        }
    }
}

/// Reads certificate and key again whenever the process is told to. Where there are none it is told to as well, and
/// must not end because of it.
fn reload_on_hangup(tls: Option<Arc<Tls>>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        // From now on, not from when the task is run first: until then the process would end.
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return tracing::warn!(%error, "SIGHUP is not heard"),
        };
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match tls.as_ref().map(|tls| tls.reload()) {
                    None => tracing::info!("there is nothing to be read again"),
                    Some(Ok(())) => tracing::info!("certificate and key were read again"),
                    Some(Err(error)) => tracing::error!(%error, "certificate and key stay as they were"),
                }
            }
        });
    }
    #[cfg(not(unix))]
    drop(tls);
}
