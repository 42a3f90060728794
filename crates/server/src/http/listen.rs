//! Listeners: connections with TLS, in their number, with time limits of slow clients.
//!
//! `axum::serve` is not used. A listener of its own could add TLS and a limit of connections, but it hides hyper's
//! builder: there is no time limit for the headers of a request, which a slow client needs, nor one for shutdown.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};
use tower_service::Service as _;

use super::Limits;
use super::connections::{Connections, Place};
use super::guarded::Guarded;
use super::tls::Tls;

/// Sender of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Address of the connection: a client, or a proxy.
    pub(super) address: IpAddr,
    /// Whether it uses the listener for monitoring, which has no rate limits.
    pub(super) is_monitoring: bool,
}

/// Connections that are being closed in favour of others: they count against the open files, but not as connections.
const CLOSING: usize = 32;

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

/// A listener with its connections.
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    pub(super) router: Router,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) connections: Arc<Connections>,
    /// Most connections at once.
    pub(super) most: usize,
    pub(super) is_monitoring: bool,
}

impl Listening {
    /// Accepts connections until `stop`, and then lets requests finish within the time limit.
    pub(super) async fn accept(self, limits: Limits, stop: impl Future<Output = ()>) {
        let Self { listener, router, tls, connections, most, is_monitoring } = self;
        let mut stop = std::pin::pin!(stop);
        let files = Arc::new(Semaphore::new(most.saturating_add(CLOSING)));
        let graceful = GracefulShutdown::new();
        loop {
            let next = async {
                let file = Arc::clone(&files).acquire_owned().await;
                (file, listener.accept().await)
            };
            let (file, accepted) = tokio::select! {
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
            let peer = Peer { address: address.ip(), is_monitoring };
            // A refused connection is closed at once.
            let Some(place) = connections.admit(peer.address) else { continue };
            let connection = Connection {
                router: router.clone(),
                peer,
                limits,
                watcher: graceful.watcher(),
                place: Arc::new(place),
            };
            let tls = tls.clone();
            tokio::spawn(async move {
                connection.serve(stream, tls).await;
                drop(file);
            });
        }
        // Refuse new connections.
        drop(listener);
        if timeout(limits.grace, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests were not finished in time");
        }
    }
}

/// A connection. It is neither counted nor logged, however it ends: the number of event senders may be protected.
struct Connection {
    router: Router,
    peer: Peer,
    limits: Limits,
    watcher: Watcher,
    place: Arc<Place>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Arc<Tls>>) {
        // Answers are short, so do not delay packets.
        let _ = stream.set_nodelay(true);
        let stream = WriteTimeout::new(stream, self.limits.write);
        let place = Arc::clone(&self.place);
        let served = async {
            match tls {
                None => self.serve_http(stream).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(self.limits.headers, tls.acceptor().accept(stream)).await {
                        self.serve_http(stream).await;
                    }
                }
            }
        };
        tokio::select! {
            () = served => {}
            // Only an idle connection is closed.
            () = place.closed() => {}
        }
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { router, peer, limits, watcher, place } = self;
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            let (mut router, busy) = (router.clone(), place.begin());
            async move {
                let busy = busy.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted))?;
                let response = router.call(request).await.unwrap_or_else(|never| match never {});
                Ok::<_, io::Error>(response.map(|body| Guarded::new(body, busy)))
            }
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
