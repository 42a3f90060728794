//! A minimal HTTP server for tests that writes arbitrary bytes. Other crates' tests use this file too.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path with the query string.
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A valid response; the connection stays open.
    Json(u16, String),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// These bytes, then these others repeatedly, with a pause before each.
    Endless(Vec<u8>, Vec<u8>, Duration),
    /// Nothing.
    Silence,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stops: Arc<AtomicBool>,
    /// Maximum bytes written for one response.
    pub(crate) most_written: Arc<Mutex<usize>>,
}

impl Server {
    /// Starts a server that answers with `handler`.
    pub(crate) fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            stops: Arc::default(),
            most_written: Arc::default(),
        };
        let handler = Arc::new(handler);
        let (requests, stops, most_written) =
            (Arc::clone(&server.requests), Arc::clone(&server.stops), Arc::clone(&server.most_written));
        thread::spawn(move || {
            for connection in listener.incoming() {
                if stops.load(Ordering::Relaxed) {
                    return;
                }
                let (handler, requests, stops, most_written) =
                    (Arc::clone(&handler), Arc::clone(&requests), Arc::clone(&stops), Arc::clone(&most_written));
                thread::spawn(move || {
                    let connection = connection.unwrap();
                    connection.set_nodelay(true).unwrap();
                    let mut reader = BufReader::new(connection.try_clone().unwrap());
                    while let Some(request) = read(&mut reader) {
                        let answer = handler(&request);
                        requests.lock().unwrap().push(request);
                        let (stays_open, written) = write(&connection, &answer, &stops);
                        let mut most = most_written.lock().unwrap();
                        *most = written.max(*most);
                        if !stays_open {
                            return;
                        }
                    }
                });
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes all requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let request = Request { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { body, ..request })
}

/// Writes a response; returns whether the connection stays open, and the bytes written.
fn write(mut connection: &TcpStream, answer: &Answer, stops: &AtomicBool) -> (bool, usize) {
    match answer {
        Answer::Json(status, body) => {
            let head = format!(
                "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let bytes = [head.as_bytes(), body.as_bytes()].concat();
            (connection.write_all(&bytes).is_ok(), bytes.len())
        }
        Answer::Raw(bytes) => {
            let _ = connection.write_all(bytes);
            (false, bytes.len())
        }
        Answer::Endless(first, others, pause) => {
            let mut written = first.len();
            let mut next = connection.write_all(first);
            while next.is_ok() && !stops.load(Ordering::Relaxed) {
                thread::sleep(*pause);
                next = connection.write_all(others);
                written += others.len();
            }
            (false, written)
        }
        Answer::Silence => {
            while !stops.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            (false, 0)
        }
    }
}
