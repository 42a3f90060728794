//! The service over HTTP, on loopback, with an SQLite store and the real clock.

mod attacks;
mod classes;
mod credentials;
mod dashboard;
mod documented;
mod flow;
mod hangs;
mod history;
mod limits;
mod observable;
mod queries;
mod refusals;
mod sequences;
mod upkeep;
mod values;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tidegate::kernel::{Ledger, SeededRandom, VaultKey, Window};
use tidegate_device::api::{BATCH, OpenQuestion, OpenQuestions};
use tidegate_device::clock::BootClock;
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_server::driver::{HighWater, Mark, Tools};
use tidegate_server::http::auth::{ApiToken, Role, TokenEntry, Tokens};
use tidegate_server::http::{HttpSettings, Listeners, ServeError, Telemetry, WebhookSettings, serve};
use tidegate_server::service::{Service, ServiceSettings};
use tidegate_server::store::Store;
use tidegate_server::store::sqlite::SqliteStore;
use tokio::sync::oneshot;
use ureq::http::Response;

use crate::store::TestFolder;

/// Longest wait for something that comes, on a slow machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// High-water marks in memory.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<HashMap<String, Mark>>);

impl HighWater for Marks {
    fn mark(&self, stream: &str) -> Option<Mark> {
        self.0.lock().unwrap().get(stream).copied()
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> std::io::Result<()> {
        self.0.lock().unwrap().extend(marks.iter().cloned());
        Ok(())
    }
}

/// Webhooks that may reach this machine.
pub(crate) fn local_webhooks() -> WebhookSettings {
    WebhookSettings { networks: vec!["127.0.0.0/8".parse().unwrap()], ..WebhookSettings::default() }
}

/// A service over HTTP that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Address of the listener for monitoring.
    pub(crate) monitoring: SocketAddr,
    /// The tokens, in the order of [`Role::ALL`].
    tokens: Vec<String>,
    http: ureq::Agent,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    folder: TestFolder,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(local_webhooks(), |_| {})
    }

    pub(crate) fn start_with(webhooks: WebhookSettings, change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::start_in(TestFolder::new(), webhooks, change)
    }

    fn start_in(folder: TestFolder, webhooks: WebhookSettings, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let store = Arc::new(SqliteStore::open(&folder.file("store")).unwrap());
        Self::start_on(store, folder, webhooks, change)
    }

    fn start_on(
        store: Arc<dyn Store>,
        folder: TestFolder,
        webhooks: WebhookSettings,
        change: impl FnOnce(&mut HttpSettings),
    ) -> Self {
        let key = Some(Arc::new(VaultKey::new().unwrap()));
        let tools = Tools { store, marks: Arc::new(Marks::default()), key, holder: "only".to_owned(), lease: 60_000 };
        let telemetry = Telemetry::new(webhooks).unwrap();
        let (signer, clock) = (SigningKey::from_bytes(&[7; 32]), BootClock::new().unwrap());
        let settings = ServiceSettings { queue: 64, signer, clock };
        let service = Service::start(tools, settings, &[], telemetry.clone()).unwrap();
        let made: Vec<_> = Role::ALL.iter().map(|role| (*role, ApiToken::new(*role).unwrap())).collect();
        let entry = |(role, token): &(Role, ApiToken)| TokenEntry {
            name: role.name().to_owned(),
            role: *role,
            sha256: token.sha256.clone(),
        };
        let mut settings =
            HttpSettings { tokens: Tokens::new(made.iter().map(entry).collect()).unwrap(), ..HttpSettings::default() };
        // Tests ask often.
        settings.limits.address_rate = settings.limits.token_rate;
        settings.limits.client_rate = settings.limits.token_rate;
        change(&mut settings);
        let (stop, stopped) = oneshot::channel::<()>();
        let (bound, address) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let served = runtime.block_on(async {
                let main = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let monitoring = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                bound.send((main.local_addr().unwrap(), monitoring.local_addr().unwrap())).unwrap();
                let stop = async { drop(stopped.await) };
                let listeners = Listeners { main: Some(main), monitoring: Some(monitoring) };
                serve(service, telemetry, listeners, settings, stop).await
            });
            // It does not wait for a store that hangs.
            runtime.shutdown_background();
            served
        });
        let http = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .proxy(None)
            .build()
            .into();
        let tokens = made.iter().map(|(_, token)| token.secret.reveal().to_owned()).collect();
        let (address, monitoring) = address.recv().unwrap();
        Self { address, monitoring, tokens, http, stop: Some(stop), thread: Some(thread), folder }
    }

    pub(crate) fn token(&self, role: Role) -> &str {
        &self.tokens[Role::ALL.iter().position(|one| *one == role).unwrap()]
    }

    /// Returns the folder of its store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, role: Option<Role>, path: &str) -> Answer {
        let mut request = self.http.get(self.url(path));
        if let Some(role) = role {
            request = request.header("authorization", format!("Bearer {}", self.token(role)));
        }
        Answer::of(request.call().unwrap())
    }

    pub(crate) fn post(&self, role: Option<Role>, path: &str, media_type: &str, body: &[u8]) -> Answer {
        let mut request = self.http.post(self.url(path));
        if let Some(role) = role {
            request = request.header("authorization", format!("Bearer {}", self.token(role)));
        }
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        Answer::of(request.send(body).unwrap())
    }

    pub(crate) fn post_json(&self, role: Role, path: &str, body: &Value) -> Answer {
        self.post(Some(role), path, "application/json", body.to_string().as_bytes())
    }

    pub(crate) fn put_json(&self, role: Role, path: &str, body: &Value) -> Answer {
        let request = self.http.put(self.url(path)).header("authorization", format!("Bearer {}", self.token(role)));
        Answer::of(request.header("content-type", "application/json").send(body.to_string().as_bytes()).unwrap())
    }

    pub(crate) fn delete(&self, role: Role, path: &str) -> Answer {
        let request = self.http.delete(self.url(path)).header("authorization", format!("Bearer {}", self.token(role)));
        Answer::of(request.call().unwrap())
    }

    /// Creates a new stream.
    pub(crate) fn create(&self, declaration: &Value) {
        let answer = self.post_json(Role::Operator, "/v1/streams", declaration);
        assert_eq!(answer.status, 201, "{}", answer.text);
    }

    /// What is asked, once there is a question with so much time left.
    pub(crate) fn question(&self, stream: &str, milliseconds: u64) -> OpenQuestion {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let answer = self.get(None, &format!("/v1/streams/{stream}/questions"));
            let asking: OpenQuestions = serde_json::from_str(&answer.text).unwrap();
            if let Some(asked) = asking.questions.first()
                && asked.closes > tidegate_server::service::now() + milliseconds
            {
                return asked.clone();
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("nothing is asked");
    }

    /// Sends reports of these devices about an open question, and returns it with the answer. A batch that comes too
    /// late is refused, and the next question gets another.
    pub(crate) fn report(&self, stream: &str, devices: Range<u8>, value: u32, seed: u64) -> (OpenQuestion, Answer) {
        let (path, began) = (format!("/v1/streams/{stream}/reports"), Instant::now());
        loop {
            let asked = self.question(stream, 300);
            let sent =
                self.post(Some(Role::Ingest), &path, BATCH, &batch(stream, &asked, devices.clone(), value, seed));
            if sent.status != 409 {
                assert_eq!(sent.status, 200, "{}", sent.text);
                return (asked, sent);
            }
            assert!(began.elapsed() < PATIENCE, "{}", sent.text);
        }
    }

    /// Sends events until a tick is open: between two ticks none is accepted.
    pub(crate) fn send_events(&self, path: &str, media_type: &str, body: &[u8]) -> Answer {
        let began = Instant::now();
        loop {
            let sent = self.post(Some(Role::Ingest), path, media_type, body);
            if sent.status != 409 || began.elapsed() > PATIENCE {
                return sent;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Repeats a request until its answer satisfies a condition.
    pub(crate) fn until(&self, role: Role, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        let began = Instant::now();
        loop {
            let answer = self.get(Some(role), path);
            if is_so(&answer) {
                return answer;
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {} {}", answer.status, answer.text);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends bytes, and reads the answer until the connection ends or the time is over.
    pub(crate) fn raw(&self, bytes: &[u8], patience: Duration) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(patience)).unwrap();
        stream.write_all(bytes).unwrap();
        let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
        while let Ok(count) = stream.read(&mut buffer) {
            if count == 0 {
                break;
            }
            answer.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a feed.
    pub(crate) fn feed(&self, stream: &str, query: &str, last_event_id: Option<&str>) -> Feed {
        let mut connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let id = last_event_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /v1/streams/{stream}/feed{query} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{id}\r\n",
            self.token(Role::Analyst)
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut feed = Feed(BufReader::new(connection));
        assert_eq!(feed.line().unwrap(), "HTTP/1.1 200 OK");
        feed
    }

    /// Stops the service, and starts another one on the same store.
    pub(crate) fn restart(mut self) -> Self {
        self.stop().unwrap();
        let folder = std::mem::replace(&mut self.folder, TestFolder::new());
        Self::start_in(folder, local_webhooks(), |_| {})
    }

    pub(crate) fn stop(&mut self) -> Result<(), ServeError> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop().unwrap();
        }
    }
}

pub(crate) struct Feed(BufReader<TcpStream>);

impl Feed {
    /// Reads a line; `None` at the end.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    /// Reads kind, id and data of an event; `None` at the end.
    pub(crate) fn event(&mut self) -> Option<(String, String, Value)> {
        let (mut kind, mut id) = (String::new(), String::new());
        loop {
            let line = self.line()?;
            if let Some(text) = line.strip_prefix("event: ") {
                kind = text.to_owned();
            } else if let Some(text) = line.strip_prefix("id: ") {
                id = text.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(text).unwrap();
                // The id may come after the data.
                while let Some(line) = self.line().filter(|line| !line.is_empty()) {
                    if let Some(text) = line.strip_prefix("id: ") {
                        id = text.to_owned();
                    }
                }
                return Some((kind, id, data));
            }
        }
    }
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) text: String,
}

impl Answer {
    fn of(mut response: Response<ureq::Body>) -> Self {
        let header = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
        };
        Self {
            status: response.status().as_u16(),
            headers: response.headers().iter().map(header).collect(),
            text: response.body_mut().read_to_string().unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the media type, without parameters.
    pub(crate) fn media_type(&self) -> &str {
        self.headers.get("content-type").map_or("", |value| value.split(';').next().unwrap().trim())
    }

    /// Asserts a refusal with a status and a code.
    #[track_caller]
    pub(crate) fn refuses(&self, status: u16, error: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!((self.media_type(), &self.json()["error"]), ("application/json", &json!(error)), "{}", self.text);
        assert!(self.json()["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
}

/// A stream of devices with a tick of a second.
pub(crate) fn visits() -> Value {
    json!({ "name": "visits", "tick": 1, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 20, "window": 2, "population": 100, "oracle": "grr",
        "domain": ["home", "work", "shop", "out"],
        "queries": [{ "name": "away", "first": "work", "last": "out", "unit": "counts" }, { "name": "most", "top": 2 }],
        "monitors": [{ "name": "crowd", "value": "shop", "direction": "above", "start": 0.5 }],
    } })
}

/// A curator's stream of users' values.
pub(crate) fn rooms() -> Value {
    json!({ "name": "rooms", "tick": 1, "spec": {
        "family": "central", "mechanism": "uniform", "epsilon": 20, "window": 2, "domain": ["in", "out"],
    } })
}

/// A curator's stream of numbers.
pub(crate) fn load() -> Value {
    json!({ "name": "load", "tick": 2, "spec": {
        "family": "scalar", "mechanism": "laplace", "epsilon": 20,
        "domain": { "low": 0, "high": 100 }, "protects": "reading", "outside": "clamp",
    } })
}

/// A batch of reports of these devices, all of which hold a value.
pub(crate) fn batch(stream: &str, asked: &OpenQuestion, devices: Range<u8>, value: u32, seed: u64) -> Vec<u8> {
    let (question, tag, random) = (&asked.question, StreamTag::of(stream), &mut SeededRandom::new(seed));
    let oracle = question.oracle().unwrap();
    let mut batch = BatchWriter::new(tag, question.timestamp, question.phase, asked.report_length);
    for device in devices {
        let mut ledger = Ledger::new(question.epsilon, Window::EVENT);
        let permit = ledger.spend(question.timestamp, question.epsilon).unwrap();
        let report = oracle.perturb(permit, value, random).unwrap();
        let id = ReportId::of(&[device; 16], tag, question.timestamp, question.phase);
        batch.push(id, report.as_bytes()).unwrap();
    }
    batch.write().unwrap()
}
