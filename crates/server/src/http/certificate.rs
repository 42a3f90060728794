//! Check of a certificate and its key before a service starts.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

use super::ServeError;
use super::tls::{TlsFiles, read};

/// A moment in the year 9999, after which no certificate is valid.
const FAR: Duration = Duration::from_secs(253_370_764_800);

/// Validity period of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First valid second.
    pub begins: u64,
    /// Last valid second.
    pub ends: u64,
}

impl Validity {
    /// Whether it is valid at a moment, in seconds since 1970.
    pub const fn holds_at(&self, now: u64) -> bool {
        self.begins <= now && now <= self.ends
    }
}

/// Checks that a certificate and its key are readable and match. Returns the validity period.
///
/// # Errors
/// The unusable file.
pub fn check_files(files: &TlsFiles) -> Result<Validity, ServeError> {
    read(files)?;
    let wrong = |problem: String| ServeError::Tls { path: files.certificate.display().to_string(), problem };
    let chain = CertificateDer::pem_file_iter(&files.certificate).map_err(|error| wrong(error.to_string()))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
    let (own, others) = chain.split_first().ok_or_else(|| wrong("it contains no certificate".to_owned()))?;
    // A verifier checks the time first, and its error contains the period.
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).map_err(|error| wrong(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().map_err(|error| wrong(error.to_string()))?;
    let name = ServerName::try_from("localhost").map_err(|error| wrong(error.to_string()))?;
    let refused_at = |moment: Duration| {
        let moment = UnixTime::since_unix_epoch(moment);
        match verifier.verify_server_cert(own, others, &name, &[], moment) {
            Err(Error::InvalidCertificate(error)) => Some(error),
            _ => None,
        }
    };
    let begins = match refused_at(Duration::ZERO) {
        Some(CertificateError::NotValidYetContext { not_before, .. }) => not_before.as_secs(),
        _ => 0,
    };
    let ends = match refused_at(FAR) {
        Some(CertificateError::ExpiredContext { not_after, .. }) => not_after.as_secs(),
        Some(error) => return Err(wrong(error.to_string())),
        None => u64::MAX,
    };
    Ok(Validity { begins, ends })
}
