//! TLS: certificate and key, which can be reloaded.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use tokio_rustls::TlsAcceptor;

use super::ServeError;

/// Files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, in PEM.
    pub certificate: PathBuf,
    /// Private key, in PEM.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Checks that both files can be used.
    ///
    /// # Errors
    /// The unusable file.
    pub fn check(&self) -> Result<(), ServeError> {
        read(self).map(drop)
    }
}

/// TLS configuration, which can be reloaded while it is used.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    pub(super) fn load(files: TlsFiles) -> Result<Self, ServeError> {
        let config = RwLock::new(read(&files)?);
        Ok(Self { files, config })
    }

    /// Reloads certificate and key. After an error the old ones stay.
    pub(super) fn reload(&self) -> Result<(), ServeError> {
        let config = read(&self.files)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

pub(super) fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, ServeError> {
    // Errors do not repeat the key.
    let wrong = |path: &Path, problem: String| ServeError::Tls { path: path.display().to_string(), problem };
    let (certificate, key) = (&files.certificate, &files.key);
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it contains no certificate".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| wrong(certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session cache evicts old sessions, so resumption would tell how many clients came since.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
