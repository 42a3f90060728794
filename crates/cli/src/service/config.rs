//! The configuration of a service: one TOML file.
//!
//! Paths are relative to the file. Secrets are in files of their own, which only the service may read. The variable
//! [`STORE_VARIABLE`] can replace the address of a PostgreSQL store, which may contain a password.

use std::env::{self, VarError};
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_server::http::auth::{Secret, TokenEntry, Tokens};
use tidegate_server::http::{HttpSettings, Limits, LogFormat, Network, Rate, TlsFiles};
use tidegate_server::retention::Retention;
use tidegate_server::stream::{Declaration, DeclarationError};
use toml::Spanned;
use toml::de::DeValue;

use crate::failure::Failure;
use tidegate_release::files::{check_folder, check_private};
use tidegate_release::spec::Spec;
use tidegate_release::toml_file::{Table, line_of};

use super::cluster::ClusterConfig;
use crate::input::Input;

/// Environment variable that overrides the store's address.
pub(crate) const STORE_VARIABLE: &str = "TIDEGATE_STORE";

/// Default address.
pub(crate) const LISTEN: &str = "127.0.0.1:8420";

/// The configuration of a service.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file that it was read from, for advice.
    pub(crate) file: String,
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) store: Place,
    /// The folder with keys and marks.
    pub(crate) state: PathBuf,
    pub(crate) tokens: Tokens,
    /// Whether metrics are readable without a token.
    pub(crate) public_metrics: bool,
    /// Address of the listener for monitoring.
    pub(crate) monitoring: Option<SocketAddr>,
    /// Proxies, and the header in which they name their clients.
    pub(crate) proxies: Vec<Network>,
    pub(crate) client_header: String,
    pub(crate) limits: Limits,
    /// Most batches that wait for the disk.
    pub(crate) queue: usize,
    pub(crate) log: Log,
    /// The file with the key that signs webhooks.
    pub(crate) webhook_secret: Option<PathBuf>,
    /// Networks besides the public Internet that may get messages.
    pub(crate) webhook_networks: Vec<Network>,
    pub(crate) streams: Vec<Declaration>,
    /// The cluster that its roles belong to.
    pub(crate) cluster: Option<ClusterConfig>,
}

/// Paths of PEM files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTls {
    /// The certificate chain.
    certificate: PathBuf,
    /// The private key.
    key: PathBuf,
}

/// Addresses to listen on instead of the configured ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    pub(super) listen: Option<SocketAddr>,
    pub(super) monitoring: Option<SocketAddr>,
}

/// The address of the store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL address, with its password.
    Postgres(String),
}

/// Why a text is no address of a store. It may contain a password, so it is not repeated.
const NO_PLACE: &str = "this is neither a path nor an address that begins with postgres://; nothing of it is shown, \
                        since it may contain a password";

impl Place {
    /// Parses an address. A text that looks like one is no path: its password would become the name of a file.
    fn of(text: &str, folder: &Path) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        let lower = text.to_ascii_lowercase();
        let is_address =
            ["://", "password", "passwd", "user=", "host=", "dbname="].iter().any(|part| lower.contains(part))
                || lower.starts_with("postgres:")
                || lower.starts_with("postgresql:")
                || lower.split_once('@').is_some_and(|(before, _)| before.contains(':'));
        if text.is_empty() || is_address { Err(NO_PLACE) } else { Ok(Self::Sqlite(folder.join(text))) }
    }

    /// Whether the address contains a password.
    fn has_password(&self) -> bool {
        let Self::Postgres(url) = self else { return false };
        url.split_once('@').is_some_and(|(user, _)| user.matches(':').count() > 1) || url.contains("password=")
    }
}

/// Without user, password and parameters. Where these cannot be told from the host, without that.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(formatter, "{}", path.display()),
            Self::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let (before, host) = rest.split_once('@').unwrap_or(("", rest));
                let (host, parameters) = host.split_once('?').unwrap_or((host, ""));
                let is_clear = !before.contains(['?', '/']) && !host.contains('@') && !parameters.contains('@');
                write!(formatter, "postgres://{}", if is_clear { host } else { "…" })
            }
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Place({self})")
    }
}

/// Limits on incoming data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenLimits {
    connections: NonZeroUsize,
    connections_per_address: NonZeroUsize,
    waiting: NonZeroUsize,
    memory: NonZeroUsize,
    queue: NonZeroUsize,
    token_rate: Rate,
    client_rate: Rate,
    address_rate: Rate,
}

/// Default of [`Config::queue`].
const QUEUE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

/// Least memory for bodies, in MiB: an address may have half of it, and a body 8.
const LEAST_MEMORY: usize = 16;

impl Default for WrittenLimits {
    fn default() -> Self {
        let limits = Limits::default();
        let number = |number: usize| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        Self {
            connections: number(limits.connections),
            connections_per_address: number(limits.connections_per_address),
            waiting: number(limits.waiting),
            memory: number(limits.memory >> 20),
            queue: QUEUE,
            token_rate: limits.token_rate,
            client_rate: limits.client_rate,
            address_rate: limits.address_rate,
        }
    }
}

impl WrittenLimits {
    /// Returns the limits; `None` where too little memory is given.
    fn limits(&self) -> Option<Limits> {
        Some(Limits {
            connections: self.connections.get(),
            connections_per_address: self.connections_per_address.get(),
            waiting: self.waiting.get(),
            memory: Some(self.memory.get()).filter(|memory| *memory >= LEAST_MEMORY)?.checked_mul(1 << 20)?,
            token_rate: self.token_rate,
            client_rate: self.client_rate,
            address_rate: self.address_rate,
            ..Limits::default()
        })
    }
}

/// Logging to standard error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    /// A tracing filter, such as `info`.
    pub(crate) filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::default(), filter: "info".to_owned() }
    }
}

/// The file, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    listen: Option<SocketAddr>,
    monitoring: Option<SocketAddr>,
    #[serde(default)]
    proxies: Vec<Network>,
    client_header: Option<String>,
    #[serde(default)]
    insecure: bool,
    tls: Option<WrittenTls>,
    store: Option<String>,
    #[serde(default = "default_state")]
    state: PathBuf,
    #[serde(default)]
    tokens: Vec<Spanned<TokenEntry>>,
    #[serde(default)]
    public_metrics: bool,
    #[serde(default)]
    limits: WrittenLimits,
    #[serde(default)]
    log: Log,
    webhook_secret: Option<PathBuf>,
    #[serde(default)]
    webhook_networks: Vec<Network>,
    cluster: Option<ClusterConfig>,
}

fn default_state() -> PathBuf {
    PathBuf::from("state")
}

/// A stream's declaration, as written, without its spec.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStream {
    name: Spanned<String>,
    tick: NonZeroU64,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    lateness: u64,
    #[serde(default)]
    backfill: bool,
    #[serde(default)]
    credentials: bool,
    #[serde(default)]
    webhooks: Vec<String>,
    #[serde(default)]
    retention: Retention,
}

impl Config {
    pub(crate) fn read(name: &str) -> Result<Self, Failure> {
        Self::read_for(name, Addresses::default())
    }

    /// Reads a file, with other addresses to listen on.
    pub(super) fn read_for(name: &str, addresses: Addresses) -> Result<Self, Failure> {
        let store = match env::var(STORE_VARIABLE) {
            Err(VarError::NotUnicode(_)) => {
                return Err(Failure::input(format_args!("the variable {STORE_VARIABLE} is not valid UTF-8")));
            }
            store => store.ok().filter(|value| !value.is_empty()),
        };
        Self::read_with(name, store, addresses)
    }

    /// Reads a file and ignores the environment.
    pub(crate) fn read_file(name: &str) -> Result<Self, Failure> {
        Self::read_with(name, None, Addresses::default())
    }

    fn read_with(name: &str, store: Option<String>, addresses: Addresses) -> Result<Self, Failure> {
        let text = Input::text(name)?;
        let path = Path::new(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut table = text.table()?;
        let streams = table.take("streams");
        let streams = streams.map(|streams| declarations(&table, streams, folder)).transpose()?.unwrap_or_default();
        let (written, places) = table.read::<Written>()?;
        let Written { listen, insecure, tls, store: place, state, tokens, .. } = written;
        let Written { public_metrics, limits, log, webhook_secret, webhook_networks, .. } = written;
        let Written { monitoring, proxies, client_header, cluster, .. } = written;
        let cluster = cluster.map(|cluster| cluster.checked(folder)).transpose();
        let cluster = cluster.map_err(|(key, message)| places.error(Some(key), message))?;
        let monitoring = addresses.monitoring.or(monitoring);
        let listen = match addresses.listen.or(listen) {
            Some(listen) => listen,
            None => LISTEN.parse().map_err(Failure::run)?,
        };
        let is_local = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        if let Some(monitoring) = monitoring
            && !is_local(monitoring)
            && !insecure
        {
            let message = "monitoring has no TLS, so whoever is on the way would read the tokens for metrics; listen \
                           on this machine, or write insecure = true where the network is trusted";
            return Err(places.error(Some("monitoring"), message).into());
        }
        let client_header = client_header.unwrap_or_else(|| HttpSettings::default().client_header);
        if client_header.is_empty() || !client_header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let expected = "expected the name of a header, such as x-forwarded-for";
            return Err(places.error(Some("client_header"), expected).into());
        }
        if !is_local(listen) && tls.is_none() && !insecure {
            let message = "other machines would speak to it in plain text, and whoever is on the way would read their \
                           tokens; give it a certificate under [tls], or write insecure = true where something else \
                           encrypts";
            return Err(places.error(Some("listen"), message).into());
        }
        let state = folder.join(state);
        let (from_file, place) = match (store, place) {
            (Some(store), _) => {
                let place = Place::of(&store, folder);
                (false, place.map_err(|error| Failure::input(format_args!("{STORE_VARIABLE}: {error}")))?)
            }
            (None, Some(place)) => {
                (true, Place::of(&place, folder).map_err(|error| places.error(Some("store"), error))?)
            }
            (None, None) => (false, Place::Sqlite(state.join("tidegate.db"))),
        };
        if from_file && place.has_password() {
            check_private(path).map_err(|error| {
                places.error(Some("store"), format_args!("{error}; or set the variable {STORE_VARIABLE} instead"))
            })?;
        }
        let mut entries = Vec::new();
        for token in tokens {
            let line = line_of(&text.text, token.span().start);
            entries.push(token.into_inner());
            Tokens::new(entries.clone()).map_err(|error| places.error_at(line, Some("tokens"), error))?;
        }
        let tokens = Tokens::new(entries).map_err(Failure::input)?;
        let queue = limits.queue.get();
        let limits = limits.limits().ok_or_else(|| {
            let message = format_args!("bodies and answers need {LEAST_MEMORY} MiB each at least");
            places.error(Some("memory"), message)
        })?;
        let tls = tls.map(|tls| TlsFiles { certificate: folder.join(tls.certificate), key: folder.join(tls.key) });
        let webhook_secret = webhook_secret.map(|path| folder.join(path));
        Ok(Self {
            file: name.to_owned(),
            listen,
            tls,
            store: place,
            state,
            tokens,
            public_metrics,
            monitoring,
            proxies,
            client_header,
            limits,
            queue,
            log,
            webhook_secret,
            webhook_networks,
            streams,
            cluster,
        })
    }

    /// Returns the path of the key that signs policies.
    pub(crate) fn operator_key(&self) -> PathBuf {
        self.state.join("operator.key")
    }

    /// Returns the path of the key that encrypts readings held back.
    pub(crate) fn vault_key(&self) -> PathBuf {
        self.state.join("vault.key")
    }

    /// Reads the secret that signs messages to webhooks.
    pub(crate) fn read_webhook_secret(&self) -> Result<Option<Secret>, Failure> {
        let Some(path) = &self.webhook_secret else { return Ok(None) };
        check_private(path).map_err(Failure::input)?;
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::input(format_args!("{} cannot be read: {error}", path.display())))?;
        // Wiped when it is dropped.
        let secret = Secret::new(text);
        if secret.reveal().trim().is_empty() {
            let problem = "is empty: write the secret that signs messages to webhooks into it";
            return Err(Failure::input(format_args!("{} {problem}", path.display())));
        }
        Ok(Some(Secret::new(secret.reveal().trim().to_owned())))
    }

    /// Returns all files that only the service may read.
    pub(crate) fn secrets(&self) -> Vec<PathBuf> {
        let mut secrets = vec![self.operator_key(), self.vault_key()];
        secrets.extend(self.tls.as_ref().map(|tls| tls.key.clone()));
        secrets.extend(self.webhook_secret.clone());
        secrets.extend(self.cluster.iter().flat_map(ClusterConfig::secrets));
        secrets
    }

    /// Returns all folders that only the service may write to.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.state.clone()];
        if let Place::Sqlite(path) = &self.store {
            folders.extend(path.parent().filter(|folder| *folder != self.state).map(Path::to_owned));
        }
        folders
    }

    /// Rejects secrets that others can read, and folders that others can write to.
    pub(crate) fn check_secrets(&self) -> Result<(), Failure> {
        self.folders().iter().try_for_each(|path| check_folder(path)).map_err(Failure::input)?;
        self.secrets().iter().try_for_each(|path| check_private(path)).map_err(Failure::input)
    }
}

/// Reads the declarations of the streams.
fn declarations<'a>(
    table: &Table<'a>,
    streams: Spanned<DeValue<'a>>,
    folder: &Path,
) -> Result<Vec<Declaration>, Failure> {
    let span = streams.span();
    let entries = match streams.into_inner() {
        DeValue::Array(entries) => entries,
        _ => return Err(table.error_at(&span, Some("streams"), "expected tables: [[streams]]").into()),
    };
    let mut declarations: Vec<Declaration> = Vec::new();
    for entry in entries {
        let span = entry.span();
        let DeValue::Table(entry) = entry.into_inner() else {
            return Err(table.error_at(&span, Some("streams"), "expected tables: [[streams]]").into());
        };
        let mut entry = table.inner(entry, span.clone());
        let spec = entry.take("spec");
        let spec = spec.ok_or_else(|| {
            table.error_at(&span, None, "a stream has a key spec: the path of a file, or a table [streams.spec]")
        })?;
        let spec_span = spec.span();
        let spec = match spec.into_inner() {
            DeValue::String(path) => {
                let path = folder.join(&*path);
                let name = path.to_str().ok_or_else(|| table.error_at(&spec_span, Some("spec"), "not valid UTF-8"))?;
                Input::spec(name)?
            }
            DeValue::Table(inner) => Spec::of(table.inner(inner, spec_span))?,
            _ => {
                return Err(table.error_at(&spec_span, Some("spec"), "expected the path of a file, or a table").into());
            }
        };
        let (written, places) = entry.read::<WrittenStream>()?;
        let WrittenStream { name, tick, epoch, lateness, backfill, credentials, webhooks, retention } = written;
        let name_span = name.span();
        let declaration = Declaration {
            name: name.into_inner(),
            tick,
            epoch,
            spec: spec.declared()?,
            lateness,
            backfill,
            credentials,
            webhooks,
            retention,
        };
        match declaration.check() {
            Ok(()) => {}
            Err(DeclarationError::Spec(error)) => return Err(spec.refused(&error).into()),
            Err(error @ (DeclarationError::Lateness { .. } | DeclarationError::LatenessOfDevices)) => {
                return Err(places.error(Some("lateness"), error).into());
            }
            Err(error @ DeclarationError::CredentialsOfCurator) => {
                return Err(places.error(Some("credentials"), error).into());
            }
            Err(error @ DeclarationError::Webhook { .. }) => return Err(places.error(Some("webhooks"), error).into()),
            Err(error @ DeclarationError::Retention(_)) => return Err(places.error(Some("retention"), error).into()),
            Err(error) => return Err(table.error_at(&name_span, None, error).into()),
        }
        if declarations.iter().any(|other| other.name == declaration.name) {
            let message = format_args!("there is another stream {:?}", declaration.name);
            return Err(table.error_at(&name_span, Some("name"), message).into());
        }
        declarations.push(declaration);
    }
    Ok(declarations)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_neither_shown_nor_taken_for_paths() {
        let place = |text: &str| Place::of(text, Path::new("/srv"));
        assert_eq!(place("state/tidegate.db"), Ok(Place::Sqlite("/srv/state/tidegate.db".into())));
        for mistyped in [
            "POSTGRES://user:hidden@host/db",
            "postgres:user:hidden@host/db",
            "postgre://user:hidden@host/db",
            "host=/var/run/postgresql user=me password=hidden",
            "user:hidden@host/db",
            "",
        ] {
            assert_eq!(place(mistyped), Err(NO_PLACE), "{mistyped}");
        }
        for (url, shown) in [
            ("postgres://user:hidden@host:5432/db", "postgres://host:5432/db"),
            (" postgres://host/db?password=hidden\n", "postgres://host/db"),
            ("postgres://user:hid?den@host/db", "postgres://…"),
            ("postgres://user:hid/den@host/db", "postgres://…"),
            ("postgres://user:hid@den@host/db", "postgres://…"),
            ("postgres://host/db?password=hid@den", "postgres://…"),
        ] {
            let place = place(url).unwrap();
            assert_eq!((place.to_string().as_str(), place.has_password()), (shown, true), "{url}");
        }
        assert!(!place("postgres://user@host/db").unwrap().has_password());
    }
}
