//! `[[connectors]]`: where published records go besides the service's own routes.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tidegate_log::nats::settings::{NatsCredentials, NatsSettings};
use tidegate_log::nats::sink::{NatsSink, NatsSinkSettings};
use tidegate_server::http::connector::{ConnectorKind, ConnectorSettings, Selection, SubjectPattern};

/// Longest wait for an answer of the brokers: a connector stops within twice that.
const TIMEOUT: Duration = Duration::from_secs(4);

/// JetStream stream of a connector that names none.
const STREAM: &str = "tidegate_published";

/// A connector, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenConnector {
    name: String,
    subject: Option<String>,
    #[serde(default)]
    streams: Vec<String>,
    kinds: Option<Vec<ConnectorKind>>,
    nats: WrittenNats,
}

/// Brokers of a connector, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenNats {
    servers: Vec<String>,
    stream: Option<String>,
    keep: Option<NonZeroU64>,
    replicas: Option<usize>,
    ca: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    credentials: Option<PathBuf>,
}

/// A connector of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct ConnectorPlan {
    pub(crate) name: String,
    selection: Selection,
    pub(crate) sink: NatsSinkSettings,
}

impl ConnectorPlan {
    /// Checks a connector. The error begins with the key.
    pub(super) fn of(written: WrittenConnector, folder: &Path) -> Result<Self, String> {
        let WrittenConnector { name, subject, streams, kinds, nats } = written;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err("name: expected letters, digits, - and _".to_owned());
        }
        let subject = match subject {
            Some(subject) => SubjectPattern::new(&subject).map_err(|error| format!("subject: {error}"))?,
            None => SubjectPattern::default(),
        };
        let kinds = kinds.unwrap_or_else(|| ConnectorKind::ALL.to_vec());
        if kinds.is_empty() {
            return Err("kinds: expected releases, answers or alarms; delete the key to send all".to_owned());
        }
        let credentials = match (nats.user, nats.password_file, nats.credentials) {
            (None, None, None) => NatsCredentials::None,
            (Some(user), Some(file), None) => NatsCredentials::Password { user, file: folder.join(file) },
            (None, None, Some(file)) => NatsCredentials::Credentials(folder.join(file)),
            _ => return Err("nats: give user and password_file, or credentials, or none of them".to_owned()),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let stream = nats.stream.unwrap_or_else(|| STREAM.to_owned());
        if stream.is_empty() || !stream.bytes().all(is_plain) {
            return Err("stream: expected letters, digits, - and _".to_owned());
        }
        // The log's prefix is not used by a sink.
        let mut settings = NatsSettings::new(nats.servers, "sink");
        settings.timeout = TIMEOUT;
        settings.replicas = nats.replicas.unwrap_or(settings.replicas);
        settings.certificates = nats.ca.map(|path| folder.join(path));
        settings.credentials = credentials;
        settings.check().map_err(|error| format!("nats: {error}"))?;
        let (subjects, keep) = (subject.wildcard(), nats.keep.map(NonZeroU64::get));
        let sink = NatsSinkSettings { nats: settings, stream, subjects, keep };
        Ok(Self { name, selection: Selection { subject, streams, kinds }, sink })
    }

    /// Returns the files that only the service may read.
    pub(super) fn secrets(&self) -> Option<&PathBuf> {
        match &self.sink.nats.credentials {
            NatsCredentials::None => None,
            NatsCredentials::Token(file)
            | NatsCredentials::Credentials(file)
            | NatsCredentials::Password { file, .. } => Some(file),
        }
    }

    /// Returns the settings of the running connector, which connects to nothing yet.
    pub(crate) fn settings(&self) -> ConnectorSettings {
        ConnectorSettings {
            name: self.name.clone(),
            sink: Arc::new(NatsSink::new(self.sink.clone())),
            selection: self.selection.clone(),
        }
    }
}
