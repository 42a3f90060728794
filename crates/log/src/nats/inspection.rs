//! Inspection of brokers: what a cluster must not be run on.
//!
//! A broker says its version and its longest message to whoever connects, before TLS and credentials. Whether it syncs
//! each write before it acknowledges, it says only at its monitoring address, in `/varz`.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use async_nats::ServerInfo;
use serde::Deserialize;

use super::settings::NatsSettings;
use crate::MAX_RECORD;

/// Oldest version of a broker.
///
/// The compare-and-set of 2.9 is broken: of 800 updates that it confirmed, 280 took effect. Nothing between that
/// version and this one is tested.
pub const OLDEST: (u64, u64, u64) = (2, 15, 1);

/// Space for the headers of a message.
const HEADERS: usize = 256;

/// Longest greeting or report of a broker that is read, in bytes.
const LONGEST_ANSWER: u64 = 1 << 20;

/// State of one thing that was inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it must be.
    Good,
    /// Cannot be seen.
    Unchecked,
    /// Records may be lost: the log refuses to start.
    Bad,
}

/// One thing that was inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Address of the broker.
    pub broker: String,
    /// State.
    pub state: State,
    /// What is there, and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.broker, self.text)
    }
}

#[derive(Deserialize)]
struct Varz {
    version: String,
    #[serde(default)]
    jetstream: Jetstream,
}

#[derive(Default, Deserialize)]
struct Jetstream {
    config: Option<JetstreamConfig>,
}

#[derive(Deserialize)]
struct JetstreamConfig {
    #[serde(default)]
    sync_always: bool,
}

/// Inspects the brokers that the settings name, and others of their cluster.
pub(super) fn inspect(settings: &NatsSettings, others: &[String]) -> Vec<Finding> {
    let mut addresses: Vec<String> = settings.urls.iter().map(|url| address(url)).collect();
    for other in others.iter().map(|url| address(url)) {
        if !addresses.contains(&other) {
            addresses.push(other);
        }
    }
    let mut findings: Vec<Finding> =
        addresses.iter().flat_map(|address| of_greeting(address, settings.timeout)).collect();
    findings.extend(settings.monitoring.iter().map(|url| of_monitoring(url, settings.timeout)));
    let needed = settings.replicas.max(1);
    if settings.monitoring.len() < needed {
        findings.push(Finding {
            broker: "brokers".to_owned(),
            state: State::Unchecked,
            text: format!(
                "{} of {needed} monitoring addresses are known, so nothing says whether the others sync each write; \
                 set sync_interval: always in jetstream, and name the monitoring addresses of all",
                settings.monitoring.len()
            ),
        });
    }
    findings
}

/// Takes host and port out of a URL.
fn address(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.trim_end_matches('/');
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    if has_port { host.to_owned() } else { format!("{host}:4222") }
}

/// Reads the line with which a broker greets.
fn greeting(address: &str, timeout: Duration) -> Result<ServerInfo, String> {
    let kind = |error: std::io::Error| error.kind().to_string();
    let target = address.to_socket_addrs().map_err(kind)?.next().ok_or("there is no such host")?;
    let socket = TcpStream::connect_timeout(&target, timeout).map_err(kind)?;
    socket.set_read_timeout(Some(timeout)).map_err(kind)?;
    let mut line = String::new();
    BufReader::new(socket.take(LONGEST_ANSWER)).read_line(&mut line).map_err(kind)?;
    let info = line.strip_prefix("INFO ").ok_or("it does not greet like a NATS server")?;
    serde_json::from_str(info).map_err(|_| "its greeting is not readable".to_owned())
}

fn of_greeting(address: &str, timeout: Duration) -> Vec<Finding> {
    let finding = |state, text| Finding { broker: address.to_owned(), state, text };
    let info = match greeting(address, timeout) {
        Ok(info) => info,
        Err(error) => return vec![finding(State::Unchecked, format!("its version is not known: {error}"))],
    };
    let mut findings = vec![of_version(address, &info.version)];
    if info.max_payload < MAX_RECORD + HEADERS {
        findings.push(finding(
            State::Bad,
            format!("takes messages of at most {} bytes; set max_payload: 1MB", info.max_payload),
        ));
    }
    if !info.jetstream {
        findings.push(finding(State::Bad, "JetStream is not enabled; add jetstream to its configuration".to_owned()));
    }
    findings
}

fn of_version(broker: &str, version: &str) -> Finding {
    let (major, minor, patch) = OLDEST;
    let finding = |state, text| Finding { broker: broker.to_owned(), state, text };
    match parse(version) {
        Some(found) if found >= OLDEST => finding(State::Good, format!("version {version}")),
        Some(_) => finding(
            State::Bad,
            format!(
                "version {version} is too old: use {major}.{minor}.{patch} or later; 2.9 loses updates that it \
                 confirms, and no other version before is tested"
            ),
        ),
        None => finding(State::Bad, format!("version {version:?} is not readable; use {major}.{minor}.{patch}")),
    }
}

/// Parses a version. A preview of a version is older than it.
fn parse(version: &str) -> Option<(u64, u64, u64)> {
    let (numbers, preview) = version.split_once('-').map_or((version, false), |(numbers, _)| (numbers, true));
    let mut parts = numbers.trim_start_matches('v').splitn(3, '.').map(|part| part.parse::<u64>().ok());
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    match (preview, patch) {
        (false, _) => Some((major, minor, patch)),
        (true, 0) => Some((major, minor.checked_sub(1)?, u64::MAX)),
        (true, _) => Some((major, minor, patch - 1)),
    }
}

fn of_monitoring(url: &str, timeout: Duration) -> Finding {
    let finding = |state, text| Finding { broker: url.to_owned(), state, text };
    let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).proxy(None).max_redirects(0).build();
    let answer = ureq::Agent::new_with_config(config).get(format!("{}/varz", url.trim_end_matches('/'))).call();
    let body = answer.and_then(|mut answer| answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string());
    let Ok(body) = body else {
        return finding(State::Unchecked, "does not answer, so nothing says whether it syncs each write".to_owned());
    };
    let Ok(varz) = serde_json::from_str::<Varz>(&body) else {
        return finding(State::Unchecked, "its answer is not readable; name the address of /varz".to_owned());
    };
    let version = of_version(url, &varz.version);
    if version.state == State::Bad {
        return version;
    }
    match varz.jetstream.config {
        Some(JetstreamConfig { sync_always: true }) => finding(State::Good, "syncs each write".to_owned()),
        Some(_) => finding(
            State::Bad,
            "acknowledges before its disk has the record; set sync_interval: always in jetstream".to_owned(),
        ),
        None => finding(State::Bad, "JetStream is not enabled; add jetstream to its configuration".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn compares_versions() {
        let state = |version: &str| of_version("a", version).state;
        for good in ["2.15.1", "2.15.2", "2.16.0", "v3.0.0", "2.16.1-preview.1"] {
            assert_eq!(state(good), State::Good, "{good}");
        }
        for bad in ["2.15.0", "2.9.10", "2.14.99", "1.99.99", "2.15.1-RC.2", "2.15", "", "x"] {
            assert_eq!(state(bad), State::Bad, "{bad}");
        }
    }

    #[test]
    fn finds_host_and_port() {
        assert_eq!(address("nats://a:4333/"), "a:4333");
        assert_eq!(address("tls://a"), "a:4222");
        assert_eq!(address("10.0.0.1:4222"), "10.0.0.1:4222");
        assert_eq!(address("nats://[::1]:4222"), "[::1]:4222");
    }
}
