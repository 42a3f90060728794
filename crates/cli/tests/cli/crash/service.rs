//! [`Target`]: a service that is killed and started again on a port that stays the same.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_kernel::{Randomness as _, SeededRandom};

use crate::postgres::Postgres;
use crate::service::Home;

/// A declared stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    /// Length of a tick, in seconds.
    pub(super) tick: u64,
    /// Its spec, as TOML.
    pub(super) spec: &'static str,
}

/// A service on a port that stays the same.
pub(super) struct Target {
    pub(super) home: Home,
    pub(super) url: String,
}

impl Target {
    /// Makes a service with streams; `more` comes first in its configuration.
    pub(super) fn new(streams: &[Declared], more: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = Home::new();
        let target = Self { home, url: format!("http://127.0.0.1:{port}") };
        for Declared { name, tick, spec } in streams {
            let file = target.spec_file(name);
            fs::write(&file, spec).unwrap();
            let declared = format!("\n[[streams]]\nname = \"{name}\"\ntick = {tick}\nspec = \"{}\"\n", file.display());
            target.home.configure("", &declared);
        }
        let text = fs::read_to_string(target.home.config()).unwrap();
        let text = text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
        fs::write(target.home.config(), more.to_owned() + &text).unwrap();
        target
    }

    /// The spec of a stream.
    pub(super) fn spec_file(&self, stream: &str) -> PathBuf {
        self.home.folder.file(&format!("{stream}.toml"))
    }

    /// Sends a request, and returns status and body; `None` where no whole answer comes.
    pub(super) fn request(&self, role: &str, line: &str, body: &str) -> Option<(u16, String)> {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
        let token = self.home.token(role);
        let head = format!("{line} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {token}\r\n");
        let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &length + body).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let mut lines = head.to_ascii_lowercase();
        lines.push_str("\r\n");
        let length = lines.split_once("content-length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
        let is_whole = length.is_none_or(|(length, _)| length.parse() == Ok(body.len()));
        is_whole.then_some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// Reads the service's answer, byte for byte; `None` where it does not.
    pub(super) fn get(&self, path: &str) -> Option<String> {
        let (status, body) = self.request("analyst", &format!("GET {path}"), "")?;
        (status == 200).then_some(body)
    }

    /// The release of a number, as text and parsed.
    fn release(&self, stream: &str, number: u64) -> Option<(String, Value)> {
        let text = self.get(&format!("/v1/streams/{stream}/releases?after={}&limit=1", number - 1))?;
        let parsed: Value = serde_json::from_str(&text).ok()?;
        let release = parsed["releases"].get(0)?.clone();
        assert_eq!(release["number"], number, "releases of {stream} have numbers without gaps");
        Some((text, release))
    }
}

/// Releases of a stream that were read while it was killed.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<&'static str, BTreeMap<u64, String>>);

impl Seen {
    /// Reads the next release of a stream.
    pub(super) fn on(&mut self, target: &Target, stream: &'static str) {
        let read = self.0.entry(stream).or_default();
        let next = read.len() as u64 + 1;
        if let Some((text, _)) = target.release(stream, next) {
            read.insert(next, text);
        }
    }

    /// Returns all releases of a stream by timestamp, once there is one of a timestamp or later. What was read before
    /// is still the same, and no timestamp is released twice.
    pub(super) fn all(&self, target: &Target, stream: &str, last: u64) -> BTreeMap<u64, Value> {
        let before = self.0.get(stream);
        let (mut released, mut number) = (BTreeMap::new(), 1);
        let start = Instant::now();
        while released.range(last..).next().is_none() {
            assert!(start.elapsed() < Duration::from_secs(30), "{stream}: nothing from {last} on, but {released:?}");
            let Some((text, mut record)) = target.release(stream, number) else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            if let Some(before) = before.and_then(|before| before.get(&number)) {
                assert_eq!(*before, text, "a release of {stream} that is read again is the same, byte for byte");
            }
            let timestamp = record["timestamp"].as_u64().unwrap();
            let again = released.insert(timestamp, record["release"].take());
            assert_eq!(again, None, "timestamp {timestamp} of {stream} is released once");
            number += 1;
        }
        released
    }
}

/// A store that is killed with the service, or by itself.
pub(crate) enum Killed {
    Sqlite,
    Postgres(Box<Postgres>),
}

impl Killed {
    pub(crate) fn postgres() -> Self {
        Self::Postgres(Box::new(Postgres::start()))
    }

    /// The line of the configuration that names it.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Sqlite => String::new(),
            Self::Postgres(database) => {
                let socket = database.url().split_whitespace().next().unwrap().replace("host=", "").replace('/', "%2F");
                format!("store = \"postgres://tidegate@{socket}/postgres\"\n")
            }
        }
    }

    /// Kills the database, if there is one and it is its turn, and starts it again. Returns whether it did.
    pub(crate) fn kill_database(&mut self, is_its_turn: bool) -> bool {
        match self {
            Self::Postgres(database) if is_its_turn => {
                database.stop("KILL");
                database.run();
                true
            }
            _ => false,
        }
    }

    /// Kills services again and again, and returns how often. Each lives as long as `lives` says, and is observed
    /// before its end. Of three in turn with a database: the service is killed, the database, and both.
    pub(super) fn again_and_again(
        &mut self,
        target: &Target,
        random: &mut SeededRandom,
        lives: impl Fn(&mut SeededRandom) -> Duration,
        mut observe: impl FnMut(),
    ) -> u64 {
        let (start, mut kills) = (Instant::now(), 0);
        while start.elapsed() < killing() {
            let serving = target.home.serve();
            thread::sleep(lives(random));
            observe();
            match self {
                Self::Sqlite => serving.kill(),
                Self::Postgres(database) => {
                    if kills % 3 > 0 {
                        database.stop("KILL");
                    }
                    if kills % 3 == 1 {
                        thread::sleep(between(random, 50, 300));
                        database.run();
                        thread::sleep(lives(random));
                    }
                    serving.kill();
                    if kills % 3 == 2 {
                        database.run();
                    }
                }
            }
            kills += 1;
        }
        kills
    }
}

pub(super) fn between(random: &mut SeededRandom, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + random.next_word() % (high - low))
}

/// Returns how long services are killed: 12 seconds, or as many as `TIDEGATE_SOAK` says.
pub(crate) fn killing() -> Duration {
    Duration::from_secs(std::env::var("TIDEGATE_SOAK").map_or(12, |seconds| seconds.parse().unwrap()))
}
