//! `[[connectors]]`: where published records go besides the service's own routes.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
#[cfg(feature = "cluster")]
use std::{sync::Arc, time::Duration};

use serde::Deserialize;
#[cfg(feature = "cluster")]
use tidegate_log::nats::sink::{NatsSink, NatsSinkSettings};
use tidegate_server::http::connector::{ConnectorKind, ConnectorSettings, Selection, SubjectPattern};

use crate::service::cluster::NatsConfig;

/// Longest wait for an answer of the brokers: a connector stops within twice that.
#[cfg(feature = "cluster")]
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
    jetstream: Option<String>,
    keep: Option<NonZeroU64>,
    nats: NatsConfig,
}

/// A connector of the configuration.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "cluster"), allow(dead_code))] // nothing else sends
pub(crate) struct ConnectorPlan {
    pub(super) name: String,
    selection: Selection,
    /// Stream of JetStream, and how many messages of each subject it keeps if it is created.
    jetstream: String,
    keep: Option<NonZeroU64>,
    nats: NatsConfig,
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

impl ConnectorPlan {
    /// Checks a connector. The error begins with the key.
    pub(super) fn of(written: WrittenConnector, folder: &Path) -> Result<Self, String> {
        let WrittenConnector { name, subject, streams, kinds, jetstream, keep, nats } = written;
        if !is_plain(&name) {
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
        let jetstream = jetstream.unwrap_or_else(|| STREAM.to_owned());
        if !is_plain(&jetstream) {
            return Err("jetstream: expected letters, digits, - and _".to_owned());
        }
        let nats = nats.checked(folder).map_err(|(key, message)| format!("{key}: {message}"))?;
        Ok(Self { name, selection: Selection { subject, streams, kinds }, jetstream, keep, nats })
    }

    /// Returns the files that only the service may read.
    pub(super) fn secrets(&self) -> impl Iterator<Item = PathBuf> + use<> {
        self.nats.secrets()
    }

    /// Returns the settings of the running connector, which connects to nothing yet.
    ///
    /// # Errors
    /// A program that was built without NATS.
    #[cfg(feature = "cluster")]
    pub(crate) fn settings(&self) -> Result<ConnectorSettings, String> {
        // A sink has no partitions, so it does not use the prefix.
        let mut nats = self.nats.settings("sink".to_owned());
        nats.timeout = TIMEOUT;
        nats.check().map_err(|error| format!("connector {}: {error}", self.name))?;
        let settings = NatsSinkSettings {
            nats,
            stream: self.jetstream.clone(),
            subjects: self.selection.subject.wildcard(),
            keep: self.keep.map(NonZeroU64::get),
        };
        let sink = Arc::new(NatsSink::new(settings));
        Ok(ConnectorSettings { name: self.name.clone(), sink, selection: self.selection.clone() })
    }

    /// Refuses: a program without NATS sends nothing.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "cluster"))]
    pub(crate) fn settings(&self) -> Result<ConnectorSettings, String> {
        Err(format!("connector {}: this program was built without the feature cluster, which sends it", self.name))
    }
}
