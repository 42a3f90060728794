//! TLS to the database: the certificate and its name are always verified.
//!
//! The address says so by `sslmode` and `sslrootcert`. Modes that can be talked out of TLS, or that verify nothing, do
//! not exist: they protect from nobody on the path.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;

use super::super::StoreError;

/// An address without the parameters of TLS, and the TLS that they ask for.
pub(super) struct Address {
    pub(super) text: String,
    pub(super) tls: Option<Tls>,
}

/// Makes verified TLS connections.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

/// Parameters of TLS in an address.
#[derive(Default)]
struct Parameters {
    mode: Option<String>,
    authorities: Option<String>,
}

impl Parameters {
    /// Takes a parameter; returns whether it was one of TLS.
    fn take(&mut self, parameter: &str) -> bool {
        let place = match parameter.split_once('=') {
            Some(("sslmode", value)) => (&mut self.mode, value),
            Some(("sslrootcert", value)) => (&mut self.authorities, value),
            _ => return false,
        };
        *place.0 = Some(place.1.to_owned());
        true
    }
}

fn failed(why: impl std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("the database's address: {why}"))
}

/// Reads the hexadecimal digits behind percent signs.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = after.get(2..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

impl Address {
    /// Takes the parameters of TLS out of a URL or out of words such as `host=… user=…`.
    ///
    /// # Errors
    /// A mode that does not verify, or certificates that cannot be read. Errors leave the address out: it may contain a
    /// password.
    pub(super) fn read(given: &str) -> Result<Self, StoreError> {
        let mut parameters = Parameters::default();
        let text = if given.contains("://") {
            let (before, query) = given.split_once('?').unwrap_or((given, ""));
            let others: Vec<&str> = query.split('&').filter(|one| !one.is_empty() && !parameters.take(one)).collect();
            let ending = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
            let path = parameters.authorities.map(|path| decoded(&path).ok_or_else(|| failed("sslrootcert: no path")));
            parameters.authorities = path.transpose()?;
            before.to_owned() + &ending
        } else {
            given.split_whitespace().filter(|word| !parameters.take(word)).collect::<Vec<_>>().join(" ")
        };
        let tls = match parameters.mode.as_deref() {
            None | Some("disable") if parameters.authorities.is_some() => {
                return Err(failed("sslrootcert is for sslmode=verify-full"));
            }
            None | Some("disable") => None,
            Some("require" | "verify-ca" | "verify-full") => Some(Tls::new(parameters.authorities.as_deref())?),
            Some(_) => {
                return Err(failed("sslmode: expected disable or verify-full; other modes verify no certificate"));
            }
        };
        Ok(Self { text, tls })
    }
}

impl Tls {
    /// Trusts the authorities in a file, or those of the web.
    fn new(authorities: Option<&str>) -> Result<Self, StoreError> {
        let mut roots = RootCertStore::empty();
        match authorities {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let wrong = |error: &dyn std::fmt::Display| failed(format_args!("sslrootcert {path}: {error}"));
                let found = CertificateDer::pem_file_iter(Path::new(path)).map_err(|error| wrong(&error))?;
                for certificate in found {
                    let certificate = certificate.map_err(|error| wrong(&error))?;
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
                if roots.is_empty() {
                    return Err(wrong(&"it contains no certificate"));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(failed)?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

/// A connection that is about to be encrypted.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(Box::new(self.connector.connect(self.name, socket).await?))) })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl tokio_postgres::tls::TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn takes_its_parameters_out_of_an_address() {
        let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/tls/authority.pem");
        let coded = authority.replace('/', "%2F");
        for (given, text, is_encrypted) in [
            ("postgres://a@h/db".to_owned(), "postgres://a@h/db", false),
            (
                "postgres://a@h/db?sslmode=disable&connect_timeout=3".to_owned(),
                "postgres://a@h/db?connect_timeout=3",
                false,
            ),
            ("postgres://a@h/db?sslmode=require".to_owned(), "postgres://a@h/db", true),
            (format!("postgres://a@h/db?x=1&sslrootcert={coded}&sslmode=verify-full"), "postgres://a@h/db?x=1", true),
            (format!("host=h sslmode=verify-ca  user=a sslrootcert={authority}"), "host=h user=a", true),
        ] {
            let address = Address::read(&given).unwrap();
            assert_eq!((address.text.as_str(), address.tls.is_some()), (text, is_encrypted), "{given}");
        }
        let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/tls/key.pem");
        for wrong in [
            "postgres://a:hidden@h/db?sslmode=prefer".to_owned(),
            "postgres://a:hidden@h/db?sslmode=allow".to_owned(),
            "host=h password=hidden sslmode=VERIFY-FULL".to_owned(),
            "postgres://a:hidden@h/db?sslrootcert=/nowhere".to_owned(),
            "postgres://a:hidden@h/db?sslmode=require&sslrootcert=%2".to_owned(),
            "postgres://a:hidden@h/db?sslmode=require&sslrootcert=/nowhere".to_owned(),
            format!("postgres://a:hidden@h/db?sslmode=require&sslrootcert={key}"),
        ] {
            let error = Address::read(&wrong).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| !error.contains("hidden")), "{wrong}: {error:?}");
        }
    }
}
