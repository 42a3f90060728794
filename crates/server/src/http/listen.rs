//! Connections: TLS, their number, and time limits of slow clients.
//!
//! `axum::serve` is not used. A listener of its own could add TLS and a limit of connections, but it hides hyper's
//! builder: there is no time limit for the headers of a request, which a slow client needs, nor one for shutdown.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::{Limits, ServeError};

/// Address of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

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

    fn acceptor(&self) -> TlsAcceptor {
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

/// A connection with a time limit for writes.
#[derive(Debug)]
struct WriteTimeout<S> {
    inner: S,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    const fn new(inner: S, patience: Duration) -> Self {
        Self { inner, patience, waiting: None }
    }

    fn limit<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waiting = None;
            return result;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.limit(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.limit(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(context);
        self.limit(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(context);
        self.limit(context, result)
    }
}

/// Accepts connections until `stop`, and then lets requests finish within the time limit.
pub(super) async fn accept(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<Tls>>,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    let places = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Perhaps too many files are open, so wait.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let connection =
            Connection { router: router.clone(), peer: Peer(address.ip()), limits, watcher: graceful.watcher() };
        let tls = tls.clone();
        tokio::spawn(async move {
            connection.serve(stream, tls).await;
            drop(place);
        });
    }
    // Refuse new connections.
    drop(listener);
    if timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not finished in time");
    }
}

/// A connection. It is neither counted nor logged, however it ends: the number of event senders may be protected.
struct Connection {
    router: Router,
    peer: Peer,
    limits: Limits,
    watcher: Watcher,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Arc<Tls>>) {
        // Answers are short, so do not delay packets.
        let _ = stream.set_nodelay(true);
        let stream = WriteTimeout::new(stream, self.limits.write);
        match tls {
            None => self.serve_http(stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = timeout(self.limits.headers, tls.acceptor().accept(stream)).await {
                    self.serve_http(stream).await;
                }
            }
        }
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { router, peer, limits, watcher } = self;
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.clone().call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.headers)
            .max_buf_size(64 << 10)
            .serve_connection(TokioIo::new(stream), service);
        // An early end is no error.
        let _ = watcher.watch(connection).await;
    }
}
