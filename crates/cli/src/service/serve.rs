//! `tidegate serve`: runs the service.

#[cfg(feature = "lab")]
pub(crate) mod background;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use clap::Args;
use tidegate_device::clock::{BootClock, UnknownClock};
use tidegate_server::driver::{DriveError, Tools};
use tidegate_server::http::auth::Secret;
use tidegate_server::http::{HttpSettings, Telemetry, WebhookSettings, log_to_stderr, serve, shutdown_signal};
use tidegate_server::service::{Service, ServiceError, ServiceSettings};
use tidegate_server::store::StoreError;
use tokio::runtime::Runtime;

use super::config::Config;
use super::open;
use crate::failure::{Failure, complain};

/// Run the service: take in reports and events, release what streams declare, and answer over HTTP.
///
/// Streams are those of the configuration, and those that were created through the API before. What a
/// stream promises never changes: a configuration that says otherwise is refused. It stops at SIGTERM
/// and SIGINT, after what was begun; SIGHUP has the certificate read again.
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
        let prepared = Prepared::new(&config)?;
        // Install the signal handlers before announcing the address.
        let stop = {
            let _context = prepared.runtime.enter();
            shutdown_signal()
        };
        complain("listening", prepared.url());
        prepared
            .runtime
            .block_on(serve(prepared.service, prepared.telemetry, prepared.listener, prepared.settings, stop))
            .map_err(Failure::run)
    }
}

/// A service that is ready to serve.
struct Prepared {
    runtime: Runtime,
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    settings: HttpSettings,
}

impl Prepared {
    fn new(config: &Config) -> Result<Self, Failure> {
        let clock = BootClock::new().map_err(unknown_clock)?;
        // Everything that can refuse the start comes before the streams, which release as soon as they run.
        let listener = TcpListener::bind(config.listen)
            .map_err(|error| Failure::run(format_args!("{} cannot be listened on: {error}", config.listen)))?;
        listener.set_nonblocking(true).map_err(Failure::run)?;
        let address = listener.local_addr().map_err(Failure::run)?;
        if let Some(tls) = &config.tls {
            tls.check().map_err(Failure::input)?;
        }
        let secret = config.webhook_secret.as_deref().map(|path| {
            let text = std::fs::read_to_string(path);
            text.map(|text| Secret::new(text.trim().to_owned()))
                .map_err(|error| Failure::input(format_args!("{} cannot be read: {error}", path.display())))
        });
        let secret = secret.transpose()?;
        let tools = open::tools(config)?;
        let signer = open::operator_key(config)?;
        check_marks(config, &tools)?;
        let telemetry =
            Telemetry::new(WebhookSettings { secret, ..WebhookSettings::default() }).map_err(Failure::run)?;
        let service_settings = ServiceSettings { queue: config.queue, signer, clock };
        let runtime = Runtime::new().map_err(Failure::run)?;
        let listener = {
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(Failure::run)?
        };
        let service = Service::start(tools, service_settings, &config.streams, telemetry.clone()).map_err(explain)?;
        let settings = HttpSettings {
            tokens: config.tokens.clone(),
            tls: config.tls.clone(),
            public_metrics: config.public_metrics,
            limits: config.limits,
        };
        Ok(Self { runtime, service, telemetry, listener, address, settings })
    }

    fn url(&self) -> String {
        let scheme = if self.settings.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
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
fn explain(error: ServiceError) -> Failure {
    match error {
        ServiceError::Drive(error @ DriveError::Older { .. }) => Failure::run(format_args!("{error}. {}", open::OLDER)),
        ServiceError::Declaration(error) => Failure::input(error),
        error => Failure::run(error),
    }
}
