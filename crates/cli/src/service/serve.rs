//! `tidegate serve`: runs the service.

#[cfg(feature = "lab")]
pub(crate) mod background;
mod notify;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use tidegate_device::clock::{BootClock, UnknownClock};
#[cfg(feature = "cluster")]
use tidegate_server::cluster::Role;
use tidegate_server::driver::{DriveError, Tools};
use tidegate_server::http::connector::Connectors;
use tidegate_server::http::{
    HttpSettings, Listeners, Reload, Reloaded, Telemetry, WebhookSettings, log_to_stderr, serve, shutdown_signal,
};
use tidegate_server::service::{Membership, Service, ServiceError, ServiceSettings};
use tidegate_server::store::StoreError;
use tokio::runtime::Runtime;

use super::config::{Config, ConnectorPlan};
#[cfg(feature = "cluster")]
use super::roles;
use super::{files, open};
use crate::failure::{Failure, complain};

/// Run the service: take in reports and events, release what streams declare, and answer over HTTP.
///
/// Streams are those of the configuration, and those that were created through the API before. What a
/// stream promises never changes: a configuration that says otherwise is refused. It stops at SIGTERM
/// and SIGINT, after what was begun; SIGHUP has the certificate, the tokens and the secret of webhooks
/// read again.
///
/// It does not start with a store that is older than what was published: see tidegate restore --help.
/// Nor where the machine hides its steady clock or the identity of its boot: see tidegate doctor.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate serve --config /srv/tidegate/service.toml\n\n\
                  TIDEGATE_STORE, where it is set, is used instead of the key store: a path, or a postgres:// URL."
)]
pub(crate) struct Serve {
    /// The configuration, which `tidegate init` makes
    #[arg(long, value_name = "FILE")]
    config: String,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let config = Config::read(&self.config)?;
        log_to_stderr(config.log.format, &config.log.filter).map_err(Failure::input)?;
        run(&config, Prepared::new(&config, Part::Everything)?)
    }
}

/// Work of a process.
pub(super) enum Part {
    /// Everything.
    Everything,
    /// The work of a role in a cluster.
    #[cfg(feature = "cluster")]
    Role(Role),
}

impl Part {
    /// Whether it answers requests of others than those who monitor it.
    fn answers(&self) -> bool {
        match self {
            Self::Everything => true,
            #[cfg(feature = "cluster")]
            Self::Role(role) => *role == Role::Gateway,
        }
    }

    /// Opens the store, the marks and the keys.
    fn open(&self, config: &Config) -> Result<(Tools, Option<Membership>), Failure> {
        match self {
            Self::Everything => Ok((open::tools(config)?, None)),
            #[cfg(feature = "cluster")]
            Self::Role(role) => {
                let (tools, membership) = roles::open(config, *role)?;
                Ok((tools, Some(membership)))
            }
        }
    }
}

/// Runs a prepared service until a signal ends it.
pub(super) fn run(config: &Config, mut prepared: Prepared) -> Result<(), Failure> {
    let path = config.file.clone();
    // Nothing but these can change while it runs.
    let read = move || {
        let config = Config::read(&path).map_err(|error| error.to_string())?;
        let webhook_secret = config.read_webhook_secret().map_err(|error| error.to_string());
        Ok(Reloaded { tokens: config.tokens, webhook_secret })
    };
    prepared.settings.reload = Some(Reload::new(read));
    // Install the signal handlers before announcing the address.
    let stop = {
        let _context = prepared.runtime.enter();
        let signal = shutdown_signal();
        async {
            signal.await;
            limit_stop();
        }
    };
    match prepared.url() {
        Some(url) => complain("listening", url),
        None => complain("ready", "this process answers nobody"),
    }
    notify::tell("READY=1");
    prepared.runtime.spawn(notify::stay_alive());
    prepared.serve(async {
        stop.await;
        notify::tell("STOPPING=1");
    })
}

/// Longest time from a signal to the end of the process.
const STOP: Duration = Duration::from_secs(25);

/// Ends the process if it does not stop by itself, because a store or a network hangs. A crash at any moment loses
/// nothing that was acknowledged, so this does not either.
fn limit_stop() {
    let limit = || {
        thread::sleep(STOP);
        complain("error", format_args!("the service did not stop in {} seconds, and is ended", STOP.as_secs()));
        std::process::exit(1);
    };
    if let Err(error) = thread::Builder::new().name("tidegate stop".to_owned()).spawn(limit) {
        complain("warning", format_args!("nothing limits how long the service takes to stop: {error}"));
    }
}

/// A service that is ready to serve.
pub(super) struct Prepared {
    runtime: Runtime,
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    connectors: Connectors,
    listeners: Listeners,
    address: Option<SocketAddr>,
    settings: HttpSettings,
}

impl Prepared {
    pub(super) fn new(config: &Config, part: Part) -> Result<Self, Failure> {
        let clock = BootClock::new().map_err(unknown_clock)?;
        // Everything that can refuse the start comes before the streams, which release as soon as they run.
        let main = part.answers().then(|| bind(config.listen)).transpose()?;
        let monitoring = config.monitoring.map(bind).transpose()?;
        let address = main.as_ref().map(|main| main.local_addr().map_err(Failure::run)).transpose()?;
        let mut limits = config.limits;
        if let Some(warning) = files::reserve(&mut limits)? {
            complain("warning", warning);
        }
        if let Some(tls) = &config.tls {
            tls.check().map_err(Failure::input)?;
        }
        let secret = config.read_webhook_secret()?;
        let signer = open::operator_key(config)?;
        let (tools, membership) = part.open(config)?;
        check_marks(config, &tools)?;
        let networks = config.webhook_networks.clone();
        let webhooks = WebhookSettings { secret, networks, ..WebhookSettings::default() };
        let telemetry = Telemetry::new(webhooks).map_err(Failure::run)?;
        let service_settings = ServiceSettings { queue: config.queue, signer, clock };
        let runtime = Runtime::new().map_err(Failure::run)?;
        let listeners = {
            let _guard = runtime.enter();
            let listener = |listener| tokio::net::TcpListener::from_std(listener).map_err(Failure::run);
            Listeners { main: main.map(listener).transpose()?, monitoring: monitoring.map(listener).transpose()? }
        };
        let observer = Arc::clone(&telemetry);
        let started = match membership {
            None => Service::start(tools, service_settings, &config.streams, observer),
            Some(membership) => Service::join(tools, service_settings, &config.streams, observer, membership),
        };
        let service = started.map_err(|error| explain(config, error))?;
        let connectors = config.connectors.iter().map(ConnectorPlan::settings).collect::<Result<_, _>>();
        let connectors = connectors.map_err(Failure::input)?;
        let connectors = Connectors::start(&service, &telemetry, connectors).map_err(Failure::run)?;
        let settings = HttpSettings {
            tokens: config.tokens.clone(),
            tls: config.tls.clone(),
            public_metrics: config.public_metrics,
            proxies: config.proxies.clone(),
            client_header: config.client_header.clone(),
            browser_origins: config.browser_origins.clone(),
            limits,
            reload: None,
            #[cfg(feature = "lab")]
            advisor: Some(super::advisor::advisor()),
            #[cfg(not(feature = "lab"))]
            advisor: None,
        };
        Ok(Self { runtime, service, telemetry, connectors, listeners, address, settings })
    }

    /// Serves until `stop`. It does not wait for threads that a disk or a database keeps: the process ends them.
    fn serve(self, stop: impl Future<Output = ()>) -> Result<(), Failure> {
        let Self { runtime, service, telemetry, connectors, listeners, settings, .. } = self;
        let served = runtime.block_on(serve(service, telemetry, listeners, settings, stop));
        drop(connectors);
        runtime.shutdown_background();
        served.map_err(Failure::run)
    }

    fn url(&self) -> Option<String> {
        let scheme = if self.settings.tls.is_some() { "https" } else { "http" };
        self.address.map(|address| format!("{scheme}://{address}"))
    }
}

/// Opens a listener.
fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|error| Failure::run(format_args!("{address} cannot be listened on: {error}")))
}

/// Rejects a store that is older than the marks.
fn check_marks(config: &Config, tools: &Tools) -> Result<(), Failure> {
    for declaration in &config.streams {
        let name = &declaration.name;
        let is_missing = matches!(tools.store.status(name), Err(StoreError::NoStream(_)));
        if is_missing && tools.marks.mark(name).is_some_and(|mark| mark.version > 0) {
            return Err(Failure::run(format_args!(
                "stream {name} has released something, and the store does not know it: it was put back from a backup. \
                 Put a later one back, or declare the stream under another name; see \"Backup and restore\" in \
                 docs/operations.md"
            )));
        }
    }
    Ok(())
}

/// Rejects a clock with which a restart could refund spent budget.
fn unknown_clock(unknown: UnknownClock) -> Failure {
    Failure::run(format_args!(
        "{unknown}. Without it a wall clock that is wrong at a restart would refund spent budgets; see \"The steady \
         clock\" in docs/operations.md"
    ))
}

/// Explains why a service does not start.
fn explain(config: &Config, error: ServiceError) -> Failure {
    match error {
        ServiceError::Drive(error @ DriveError::Older { .. }) => {
            Failure::run(format_args!("{error}. {}", open::older(config)))
        }
        ServiceError::Declaration(error) => Failure::input(error),
        error => Failure::run(error),
    }
}
