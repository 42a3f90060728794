//! `tidegate doctor`: checks whether a service can run.

#[cfg(feature = "cluster")]
mod cluster;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use tidegate_device::clock::{BootClock, UnknownClock};
use tidegate_device::disk::Folder;
use tidegate_server::http::certificate::check_files;
use tidegate_server::store::backup::check_backup;
use tidegate_server::store::mark::behind;
use tidegate_server::store::{Marks, PostgresStore, StoreError};
use tidegate_server::stream::Declaration;

use super::config::{Config, Place};
use super::{files, open};
use crate::failure::Failure;
use crate::output::Output;
use tidegate_release::files::{check_folder, check_private, read_key};

/// Look whether a service can run: its configuration, keys, store, marks, clock, disk, port and certificate.
///
/// Each check is a line: ok, warn or fail, with what to do. Nothing is written or made, and the service
/// may run meanwhile. It exits with 1 if a check failed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = "Example:\n  tidegate doctor --config /srv/tidegate/service.toml")]
pub(crate) struct Doctor {
    /// The configuration of the service
    #[arg(long, value_name = "FILE")]
    config: String,

    /// Print an array with an object for each check
    #[arg(long)]
    json: bool,

    /// Only ask the running service whether it is ready, as the health check of a container does
    #[arg(long, conflicts_with = "json")]
    ready: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// A check and its result.
#[derive(Debug)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    message: String,
}

#[derive(Debug, Default)]
struct Findings(Vec<Check>);

impl Findings {
    fn add(&mut self, what: &'static str, verdict: Verdict, message: impl Into<String>) {
        self.0.push(Check { what, verdict, message: message.into() });
    }

    fn failures(&self) -> usize {
        self.0.iter().filter(|check| check.verdict == Verdict::Fail).count()
    }
}

/// Free disk space in bytes: below the first is a warning, below the second a failure.
const SPACE: (u64, u64) = (1 << 30, 64 << 20);
/// Remaining validity of a certificate, in seconds, below which to warn.
const RENEW: u64 = 14 * 86_400;
/// A clock before 2024 was never set.
const PAST: u64 = 1_704_067_200;
/// How long the clock is watched, and how far it may deviate.
const WATCHED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(50));

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.ready {
            return ask(&Config::read(&self.config)?);
        }
        let mut findings = Findings::default();
        match Config::read(&self.config) {
            Err(failure) => findings.add("config", Verdict::Fail, failure.to_string()),
            Ok(config) => examine(&config, &mut findings),
        }
        let mut output = Output::create("-")?;
        if self.json {
            let checks: Vec<_> = findings
                .0
                .iter()
                .map(|Check { what, verdict, message }| {
                    serde_json::json!({"check": what, "result": verdict.name(), "message": message})
                })
                .collect();
            output.write(&format!("{}\n", serde_json::to_string_pretty(&checks).map_err(Failure::run)?))?;
        } else {
            for Check { what, verdict, message } in &findings.0 {
                output.write(&format!("{:<5}{what:<12}{message}\n", verdict.name()))?;
            }
        }
        output.finish()?;
        match findings.failures() {
            0 => Ok(()),
            1 => Err(Failure::run("a check failed")),
            count => Err(Failure::run(format_args!("{count} checks failed"))),
        }
    }
}

fn examine(config: &Config, findings: &mut Findings) {
    let streams = config.streams.len();
    let tokens = config.tokens.len();
    findings.add("config", Verdict::Ok, format!("{streams} streams are declared in it"));
    match tokens {
        0 => findings.add(
            "tokens",
            Verdict::Warn,
            "there are none, so nobody can do anything: make some by `tidegate token`",
        ),
        count => findings.add("tokens", Verdict::Ok, format!("{count}, by their hashes")),
    }
    secrets(config, findings);
    // Processes of a cluster keep nothing in the folder, so it does not tell whether one runs.
    let is_running = config.cluster.is_some() || state(config, findings);
    let found = store(config, findings);
    match &config.cluster {
        #[cfg(feature = "cluster")]
        Some(cluster) => cluster::examine(config, cluster, findings),
        #[cfg(not(feature = "cluster"))]
        Some(_) => findings.add("cluster", Verdict::Fail, "this program was built without the feature cluster"),
        None if is_running => {}
        None => marks(config, found, findings),
    }
    clock(config, findings);
    steady(BootClock::new(), findings);
    space(config, findings);
    open_files(config, findings);
    port(config, is_running, findings);
    certificate(config, findings);
}

/// Longest wait for an answer of the running service.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the running service whether it is ready.
fn ask(config: &Config) -> Result<(), Failure> {
    let Some(address) = config.monitoring.or_else(|| config.tls.is_none().then_some(config.listen)) else {
        return Err(Failure::input("with [tls], give an address for monitoring, which --ready can ask"));
    };
    // Where it listens on all addresses, this machine is one of them.
    let local: SocketAddr = match address {
        SocketAddr::V4(all) if all.ip().is_unspecified() => ([127, 0, 0, 1], all.port()).into(),
        SocketAddr::V6(all) if all.ip().is_unspecified() => ([0, 0, 0, 0, 0, 0, 0, 1], all.port()).into(),
        address => address,
    };
    let answer = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&local, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(4_096).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    match answer() {
        Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => Ok(()),
        Ok(_) => Err(Failure::run(format_args!("the service at {local} is not ready; its log says why"))),
        Err(error) => Err(Failure::run(format_args!("the service at {local} does not answer: {error}"))),
    }
}

fn secrets(config: &Config, findings: &mut Findings) {
    let folders = config.folders();
    let mut problems: Vec<String> = folders.iter().filter_map(|path| check_folder(path).err()).collect();
    problems.extend(config.secrets().iter().filter_map(|path| check_private(path).err()));
    for path in [config.operator_key(), config.vault_key()] {
        match read_key(&path) {
            Ok(_) => {}
            Err(failure) => problems.push(failure.to_string()),
        }
    }
    if problems.is_empty() {
        findings.add("secrets", Verdict::Ok, "nobody else can read the keys, or write to their folder");
    }
    problems.into_iter().for_each(|problem| findings.add("secrets", Verdict::Fail, problem));
}

/// Returns whether a service uses this state.
fn state(config: &Config, findings: &mut Findings) -> bool {
    let shown = config.state.display();
    if !config.state.is_dir() {
        findings.add("state", Verdict::Fail, format!("there is no folder {shown}; `tidegate init` makes one"));
        return false;
    }
    if let Err(error) = may_write(&config.state) {
        findings.add("state", Verdict::Fail, format!("{shown} cannot be written to: {error}"));
    }
    match Folder::open_existing(&config.state) {
        Ok(_) => findings.add("state", Verdict::Ok, format!("{shown}; no service runs with it")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            findings.add("state", Verdict::Ok, format!("{shown}; a service runs with it"));
            return true;
        }
        Err(error) => findings.add("state", Verdict::Fail, format!("{shown}: {error}")),
    }
    false
}

/// Whether this user may create files in a folder.
#[cfg(unix)]
fn may_write(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};

    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(not(unix))]
fn may_write(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A stream as it is in the store.
struct Stored {
    name: String,
    version: u64,
    declaration: String,
}

/// Returns the streams of a store.
fn store(config: &Config, findings: &mut Findings) -> Option<Vec<Stored>> {
    let shown = config.store.to_string();
    let made = |findings: &mut Findings, what: &str| {
        findings.add("store", Verdict::Warn, format!("{shown} {what}, and is made at the next start"));
        Some(Vec::new())
    };
    let found: Result<Vec<Stored>, StoreError> = match &config.store {
        Place::Sqlite(path) if !path.exists() => return made(findings, "is not there"),
        Place::Sqlite(path) => check_backup(path).map(|found| {
            let stored = found.into_iter();
            stored
                .map(|found| Stored { name: found.stream, version: found.version, declaration: found.declaration })
                .collect()
        }),
        Place::Postgres(url) => match PostgresStore::inspect(url) {
            Ok(None) => return made(findings, "has no tables"),
            Ok(Some(found)) => Ok(found
                .into_iter()
                .map(|found| Stored { name: found.name, version: found.version, declaration: found.declaration })
                .collect()),
            Err(error) => Err(error),
        },
    };
    match found {
        Ok(found) => {
            findings.add("store", Verdict::Ok, format!("{shown} is whole, with {} streams", found.len()));
            Some(found)
        }
        Err(error) => {
            let advice = match error {
                StoreError::Damaged(_) => "; restore a backup by `tidegate restore`",
                StoreError::Schema { .. } => "; use the program that wrote it, or a later one",
                _ => "",
            };
            findings.add("store", Verdict::Fail, format!("{shown}: {error}{advice}"));
            None
        }
    }
}

fn marks(config: &Config, found: Option<Vec<Stored>>, findings: &mut Findings) {
    let Some(found) = found else { return };
    let marks = match Marks::inspect(&config.state) {
        Ok(Some(marks)) => marks,
        Ok(None) => {
            return match found.iter().find(|stored| stored.version > 0) {
                Some(Stored { name, .. }) => findings.add(
                    "marks",
                    Verdict::Fail,
                    format!(
                        "there are no high-water marks, but stream {name} was used: see \"Backup and restore\" in \
                         docs/operations.md"
                    ),
                ),
                None => findings.add("marks", Verdict::Ok, "there are none yet, and nothing was released"),
            };
        }
        Err(error) => return findings.add("marks", Verdict::Fail, open::refused(config, &error).to_string()),
    };
    let version = |name: &str| found.iter().find(|stored| stored.name == name).map(|stored| stored.version);
    let older = behind(&marks, version);
    if older.is_empty() {
        findings.add("marks", Verdict::Ok, "the store knows of everything that was published");
    }
    for older in older {
        // Ignore a stream that is neither in the store nor declared.
        let is_wanted = older.version > 0 || config.streams.iter().any(|stream| stream.name == older.stream);
        let verdict = if is_wanted { Verdict::Fail } else { Verdict::Warn };
        findings.add("marks", verdict, format!("{older}: {}", open::older(config)));
    }
    // After the clock was set back, no timestamp opens until it catches up.
    let now = tidegate_server::service::now();
    for Stored { name, declaration, .. } in found {
        let declaration: Option<Declaration> = serde_json::from_str(&declaration).ok();
        let last = marks.get(&name).and_then(|mark| mark.timestamp);
        let (Some(declaration), Some(last)) = (declaration, last) else { continue };
        let begins = declaration.schedule().begins(last);
        if now < begins {
            let behind = (begins - now) / 1_000;
            findings.add(
                "clock",
                Verdict::Fail,
                format!(
                    "timestamp {last} of stream {name} was released, which begins in {behind} seconds only: the \
                     clock was set back, and nothing is released until then"
                ),
            );
        }
    }
}

fn clock(config: &Config, findings: &mut Findings) {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = SystemTime::now();
    if seconds(now) < PAST {
        return findings.add("clock", Verdict::Fail, "it was never set: set it, and keep it right by NTP");
    }
    let files = ["marks", "tidegate.db", "holder"].map(|name| config.state.join(name));
    let latest = files.iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max();
    if let Some(ahead) = latest.and_then(|latest| latest.duration_since(now).ok()).filter(|ahead| *ahead > WATCHED.1) {
        let message =
            format!("files of the service were written {} seconds from now: the clock was set back", ahead.as_secs());
        return findings.add("clock", Verdict::Fail, message);
    }
    let (began, wall) = (Instant::now(), SystemTime::now());
    thread::sleep(WATCHED.0);
    let (passed, walled) = (began.elapsed(), wall.elapsed().unwrap_or_default());
    if passed.abs_diff(walled) > WATCHED.1 {
        let message = format!("it moved by {walled:?} in {passed:?}: it is being set; keep it right by NTP");
        return findings.add("clock", Verdict::Warn, message);
    }
    findings.add("clock", Verdict::Ok, "it is set, and runs evenly");
}

/// Checks the boot clock and the boot identifier.
fn steady(clock: Result<BootClock, UnknownClock>, findings: &mut Findings) {
    match clock {
        Ok(_) => findings.add("steady", Verdict::Ok, "the time since boot and the boot's identity can be read"),
        Err(unknown) => {
            findings.add("steady", Verdict::Fail, format!("{unknown}; the service does not start without it"))
        }
    }
}

fn space(config: &Config, findings: &mut Findings) {
    let mut folders = vec![config.state.as_path()];
    if let Place::Sqlite(path) = &config.store {
        folders.extend(path.parent().filter(|folder| *folder != config.state));
    }
    for folder in folders {
        match free(folder) {
            Err(error) => findings.add("disk", Verdict::Warn, format!("{}: {error}", folder.display())),
            Ok(free) => {
                let verdict = match free {
                    free if free < SPACE.1 => Verdict::Fail,
                    free if free < SPACE.0 => Verdict::Warn,
                    _ => Verdict::Ok,
                };
                let message = format!("{} MiB are free for {}", free >> 20, folder.display());
                findings.add("disk", verdict, message);
            }
        }
    }
}

/// Returns the free disk space, in bytes.
#[cfg(unix)]
fn free(folder: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Checks the limit of open files.
fn open_files(config: &Config, findings: &mut Findings) {
    match files::examine(&config.limits) {
        Ok(message) => findings.add("files", Verdict::Ok, message),
        Err((is_fatal, message)) => {
            findings.add("files", if is_fatal { Verdict::Fail } else { Verdict::Warn }, message)
        }
    }
}

fn port(config: &Config, is_running: bool, findings: &mut Findings) {
    for listen in [config.listen].into_iter().chain(config.monitoring) {
        match TcpListener::bind(listen) {
            Ok(_) => findings.add("port", Verdict::Ok, format!("{listen} is free")),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_running => {
                let message = format!("{listen} is in use, as it should be while the service runs");
                findings.add("port", Verdict::Ok, message);
            }
            Err(error) => findings.add("port", Verdict::Fail, format!("{listen} cannot be listened on: {error}")),
        }
    }
}

fn certificate(config: &Config, findings: &mut Findings) {
    let Some(tls) = &config.tls else {
        let verdict = if config.listen.ip().to_canonical().is_loopback() { Verdict::Ok } else { Verdict::Warn };
        return findings.add("tls", verdict, format!("none: {} is spoken to in plain text", config.listen));
    };
    let validity = match check_files(tls) {
        Err(error) => return findings.add("tls", Verdict::Fail, error.to_string()),
        Ok(validity) => validity,
    };
    let now = tidegate_server::service::now() / 1_000;
    let left = validity.ends.saturating_sub(now);
    let days = left / 86_400;
    match left {
        _ if now < validity.begins => {
            findings.add("tls", Verdict::Fail, "the certificate is not valid yet: look at the clock, or get another");
        }
        _ if !validity.holds_at(now) => findings.add("tls", Verdict::Fail, "the certificate has run out: renew it"),
        left if left < RENEW => {
            findings.add("tls", Verdict::Warn, format!("the certificate runs out in {days} days: renew it"));
        }
        _ => findings.add("tls", Verdict::Ok, format!("certificate and key fit, for {days} more days")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fails_where_the_steady_clock_is_unknown() {
        let mut findings = Findings::default();
        steady(Err(UnknownClock::System), &mut findings);
        assert_eq!(findings.failures(), 1);
        assert!(findings.0[0].message.starts_with("the steady clock is unknown: "), "{findings:?}");
    }
}
