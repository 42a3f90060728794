//! The configuration of a service: one TOML file.
//!
//! Paths are relative to the file. Secrets are in files of their own, which only the service may read. The variable
//! [`STORE_VARIABLE`] can replace the address of a PostgreSQL store, which may contain a password.

use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_server::http::auth::{TokenEntry, Tokens};
use tidegate_server::http::{Limits, LogFormat, Rate, TlsFiles};
use tidegate_server::stream::{Declaration, DeclarationError};
use toml::Spanned;
use toml::de::DeValue;

use crate::failure::Failure;
use crate::secret::check_private;
use crate::spec::Spec;
use crate::toml_file::{Table, Text, line_of};

/// Environment variable that overrides the store's address.
pub(crate) const STORE_VARIABLE: &str = "TIDEGATE_STORE";

/// Default address.
pub(crate) const LISTEN: &str = "127.0.0.1:8420";

/// The configuration of a service.
#[derive(Debug)]
pub(crate) struct Config {
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) store: Place,
    /// The folder with keys and marks.
    pub(crate) state: PathBuf,
    pub(crate) tokens: Tokens,
    /// Whether metrics are readable without a token.
    pub(crate) public_metrics: bool,
    pub(crate) limits: Limits,
    /// Most batches that wait for the disk.
    pub(crate) queue: usize,
    pub(crate) log: Log,
    /// The file with the key that signs webhooks.
    pub(crate) webhook_secret: Option<PathBuf>,
    pub(crate) streams: Vec<Declaration>,
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

/// The address of the store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL address, with its password.
    Postgres(String),
}

impl Place {
    fn of(text: &str, folder: &Path) -> Self {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Self::Postgres(text.to_owned());
        }
        Self::Sqlite(folder.join(text))
    }

    /// Whether the address contains a password.
    fn has_password(&self) -> bool {
        let Self::Postgres(url) = self else { return false };
        let authority = url.split_once("://").map_or("", |(_, rest)| rest).split(['/', '?']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) || url.contains("password=")
    }
}

/// Without user and password.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(formatter, "{}", path.display()),
            Self::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let rest = rest.split('?').next().unwrap_or_default();
                write!(formatter, "postgres://{}", rest.rsplit('@').next().unwrap_or_default())
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
    waiting: NonZeroUsize,
    queue: NonZeroUsize,
    token_rate: Rate,
    address_rate: Rate,
}

/// Default of [`Config::queue`].
const QUEUE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

impl Default for WrittenLimits {
    fn default() -> Self {
        let Limits { connections, waiting, token_rate, address_rate, .. } = Limits::default();
        let number = |number: usize| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        Self { connections: number(connections), waiting: number(waiting), queue: QUEUE, token_rate, address_rate }
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
    webhooks: Vec<String>,
}

impl Config {
    pub(crate) fn read(name: &str) -> Result<Self, Failure> {
        // A variable that is not valid text counts as absent.
        Self::read_with(name, env::var(STORE_VARIABLE).ok().filter(|value| !value.is_empty()))
    }

    /// Reads a file and ignores the environment.
    pub(crate) fn read_file(name: &str) -> Result<Self, Failure> {
        Self::read_with(name, None)
    }

    fn read_with(name: &str, store: Option<String>) -> Result<Self, Failure> {
        let text = Text::read(name)?;
        let path = Path::new(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut table = text.table()?;
        let streams = table.take("streams");
        let streams = streams.map(|streams| declarations(&table, streams, folder)).transpose()?.unwrap_or_default();
        let (written, places) = table.read::<Written>()?;
        let Written { listen, insecure, tls, store: place, state, tokens, .. } = written;
        let Written { public_metrics, limits, log, webhook_secret, .. } = written;
        let listen = match listen {
            Some(listen) => listen,
            None => LISTEN.parse().map_err(Failure::run)?,
        };
        if !listen.ip().to_canonical().is_loopback() && tls.is_none() && !insecure {
            let message = "other machines would speak to it in plain text, and whoever is on the way would read their \
                           tokens; give it a certificate under [tls], or write insecure = true where something else \
                           encrypts";
            return Err(places.error(Some("listen"), message));
        }
        let state = folder.join(state);
        let (from_file, place) = match (store, place) {
            (Some(store), _) => (false, Place::of(&store, folder)),
            (None, Some(place)) => (true, Place::of(&place, folder)),
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
        let WrittenLimits { connections, waiting, queue, token_rate, address_rate } = limits;
        let (connections, waiting, queue) = (connections.get(), waiting.get(), queue.get());
        let limits = Limits { connections, waiting, token_rate, address_rate, ..Limits::default() };
        let tls = tls.map(|tls| TlsFiles { certificate: folder.join(tls.certificate), key: folder.join(tls.key) });
        let webhook_secret = webhook_secret.map(|path| folder.join(path));
        Ok(Self {
            listen,
            tls,
            store: place,
            state,
            tokens,
            public_metrics,
            limits,
            queue,
            log,
            webhook_secret,
            streams,
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

    /// Returns all files that only the service may read.
    pub(crate) fn secrets(&self) -> Vec<PathBuf> {
        let mut secrets = vec![self.operator_key(), self.vault_key()];
        secrets.extend(self.tls.as_ref().map(|tls| tls.key.clone()));
        secrets.extend(self.webhook_secret.clone());
        secrets
    }

    /// Rejects secrets that others can read.
    pub(crate) fn check_secrets(&self) -> Result<(), Failure> {
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
        _ => return Err(table.error_at(&span, Some("streams"), "expected tables: [[streams]]")),
    };
    let mut declarations: Vec<Declaration> = Vec::new();
    for entry in entries {
        let span = entry.span();
        let DeValue::Table(entry) = entry.into_inner() else {
            return Err(table.error_at(&span, Some("streams"), "expected tables: [[streams]]"));
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
                Spec::read(name)?
            }
            DeValue::Table(inner) => Spec::of(table.inner(inner, spec_span))?,
            _ => return Err(table.error_at(&spec_span, Some("spec"), "expected the path of a file, or a table")),
        };
        let (written, places) = entry.read::<WrittenStream>()?;
        let WrittenStream { name, tick, epoch, webhooks } = written;
        let name_span = name.span();
        let declaration = Declaration { name: name.into_inner(), tick, epoch, spec: spec.stream.clone(), webhooks };
        match declaration.check() {
            Ok(()) => {}
            Err(DeclarationError::Spec(error)) => return Err(spec.refused(&error)),
            Err(error @ DeclarationError::Webhook { .. }) => return Err(places.error(Some("webhooks"), error)),
            Err(error) => return Err(table.error_at(&name_span, None, error)),
        }
        if declarations.iter().any(|other| other.name == declaration.name) {
            let message = format_args!("there is another stream {:?}", declaration.name);
            return Err(table.error_at(&name_span, Some("name"), message));
        }
        declarations.push(declaration);
    }
    Ok(declarations)
}
