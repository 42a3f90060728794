//! [`Watch`]: reads releases from all gateways all the time, and compares what they say.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fleet::{Stopping, now};
use crate::streams::Declared;

/// A release as a gateway gave it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The gateway's answer, byte for byte.
    text: String,
    pub(crate) timestamp: u64,
    pub(crate) release: Value,
    /// When it was seen first, in milliseconds since 1970.
    pub(crate) at: u64,
}

impl Seen {
    pub(crate) fn of(timestamp: u64, release: Value) -> Self {
        Self { text: release.to_string(), timestamp, release, at: 0 }
    }
}

/// Releases by stream and number, which were read while there were faults.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Mutex<BTreeMap<(&'static str, u64), Seen>>,
    wrong: Mutex<Vec<String>>,
    stop: AtomicBool,
}

/// Reads a path, and returns status and body; `None` where no whole answer comes.
pub(crate) fn get(url: &str, token: &str, path: &str) -> Option<(u16, String)> {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let is_whole = length.is_none_or(|length: usize| length == body.len());
    is_whole.then_some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
}

/// The release of a number from a gateway.
fn release(url: &str, token: &str, stream: &'static str, number: u64) -> Option<Result<Seen, String>> {
    let path = format!("/v1/streams/{stream}/releases?after={}&limit=1", number - 1);
    let (status, text) = get(url, token, &path)?;
    if status != 200 {
        return None;
    }
    let mut parsed: Value = serde_json::from_str(&text).ok()?;
    let mut record = parsed["releases"].get_mut(0)?.take();
    if record["number"] != number {
        return Some(Err(format!("{stream}: release {} comes where {number} is expected", record["number"])));
    }
    let timestamp = record["timestamp"].as_u64()?;
    Some(Ok(Seen { text, timestamp, release: record["release"].take(), at: now() }))
}

impl Watch {
    /// Notes a release. What was read before, from any gateway, is the same.
    fn note(&self, stream: &'static str, number: u64, found: Seen) {
        let mut seen = self.seen.lock().unwrap();
        match seen.get(&(stream, number)) {
            Some(before) if before.text != found.text => {
                let wrong = format!("release {number} of {stream} has changed: {} and {}", before.text, found.text);
                self.wrong.lock().unwrap().push(wrong);
            }
            Some(_) => {}
            None => drop(seen.insert((stream, number), found)),
        }
    }

    /// Reads a gateway until told to stop.
    fn follow(&self, url: &str, token: &str, streams: &[Declared], pause: Duration) {
        let mut next: BTreeMap<&'static str, u64> = BTreeMap::new();
        while !self.stop.load(Ordering::Relaxed) {
            for stream in streams {
                let number = next.entry(stream.name).or_insert(1);
                match release(url, token, stream.name, *number) {
                    Some(Ok(found)) => {
                        self.note(stream.name, *number, found);
                        *number += 1;
                    }
                    Some(Err(problem)) => self.wrong.lock().unwrap().push(problem),
                    None => {}
                }
            }
            thread::sleep(pause);
        }
    }

    /// Reads all gateways while `meanwhile` does what it does.
    pub(crate) fn while_doing<T>(
        &self,
        urls: &[String],
        token: &str,
        streams: &[Declared],
        pause: Duration,
        meanwhile: impl FnOnce() -> T,
    ) -> T {
        self.stop.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            let _stopping = Stopping(&self.stop);
            for url in urls {
                scope.spawn(move || self.follow(url, token, streams, pause));
            }
            meanwhile()
        })
    }

    /// Reads everything again from every gateway, once there is a release of the last timestamp of each stream, or of a
    /// later one.
    pub(crate) fn read_all(&self, urls: &[String], token: &str, last: &BTreeMap<&'static str, u64>, seconds: u64) {
        let start = Instant::now();
        for (stream, last) in last {
            for url in urls {
                let mut number = 1;
                loop {
                    match release(url, token, stream, number) {
                        Some(Ok(found)) => {
                            let is_last = found.timestamp >= *last;
                            self.note(stream, number, found);
                            number += 1;
                            if is_last {
                                break;
                            }
                        }
                        Some(Err(problem)) => {
                            self.wrong.lock().unwrap().push(problem);
                            break;
                        }
                        None if start.elapsed() > Duration::from_secs(seconds) => {
                            let problem = format!("{stream}: {url} has no release {number}, of {last} or later");
                            self.wrong.lock().unwrap().push(problem);
                            break;
                        }
                        None => thread::sleep(Duration::from_millis(50)),
                    }
                }
            }
        }
    }

    /// All releases, and what was wrong with them.
    pub(crate) fn into_releases(self) -> (BTreeMap<(&'static str, u64), Seen>, Vec<String>) {
        (self.seen.into_inner().unwrap(), self.wrong.into_inner().unwrap())
    }
}

/// The comparison itself: a release that changes is found.
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_releases_that_change() {
        let watch = Watch::default();
        for count in [1, 1, 2] {
            watch.note("visits", 1, Seen::of(3, json!({ "count": count })));
        }
        let (releases, wrong) = watch.into_releases();
        assert_eq!((releases.len(), wrong.len()), (1, 1), "{wrong:?}");
    }
}
