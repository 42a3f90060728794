//! `tidegate backup` and `tidegate restore`: copies of the store.
//!
//! A backup does not know of later releases, so its ledgers miss what those spent. The high-water marks, kept apart,
//! name the streams concerned. Such a stream releases nothing until its operator lets it begin anew, after the window
//! of the last release.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tidegate::kernel::Window;
use tidegate_device::disk::Folder;
use tidegate_server::driver::{DriveError, check_state, first_state};
use tidegate_server::store::backup::{StreamSummary as Found, check_backup};
use tidegate_server::store::mark::{HighWater as _, Older};
use tidegate_server::store::{Mark, Marks, RecordFilter, RecordKind, SqliteStore, StoreError};
use tidegate_server::stream::Declaration;

use super::config::{Config, Place};
use super::open;
use crate::failure::{Failure, complain};
use crate::output::Output;
use tidegate_release::files::{create_private, sync_folder_of};

/// Write a backup of a service's store.
///
/// The service may run meanwhile. The backup is one file, of one moment, and is there whole or not at
/// all. Keys and high-water marks are not in it: keep a copy of the keys elsewhere, once, and none of
/// the marks, which are worth something only as long as they are the latest.
///
/// A store in PostgreSQL is backed up by PostgreSQL's own means, such as pg_dump.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate backup --config /srv/tidegate/service.toml --to /backup/tidegate-$(date +%F).db"
)]
pub(crate) struct Backup {
    /// The configuration of the service
    #[arg(long, value_name = "FILE")]
    config: String,

    /// The file to write, which must not be there
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    /// Print what is in it as JSON
    #[arg(long)]
    json: bool,
}

/// Put a backup in the place of a service's store, or let a stream go on that is older than what was published.
///
/// The service must be stopped. With --from, the backup is checked, all of it, and takes the place of
/// the store, which is kept beside it under another name; a store that is newer than the backup is
/// not replaced.
///
/// The high-water marks tell what was published since. A stream of which more was published than the
/// backup knows has forgotten what was spent, and the service refuses to start with it. Put a later
/// backup in place; or let the stream begin anew with --begin-anew: then it leaves out as many
/// timestamps as its window has, counted from the last that was published, and its budget holds. A
/// stream whose state this version cannot read begins anew likewise, a window after the present.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate restore --config /srv/tidegate/service.toml --from \
                  /backup/tidegate-2026-11-15.db\n  \
                  tidegate restore --config /srv/tidegate/service.toml --begin-anew visits"
)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from", "begin_anew", "adopt_marks"]))]
pub(crate) struct Restore {
    /// The configuration of the service
    #[arg(long, value_name = "FILE")]
    config: String,

    /// The backup
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// A stream that is older than what was published, or has an unreadable state, and is to begin anew
    #[arg(long, value_name = "STREAM")]
    begin_anew: Option<String>,

    /// Take the store for the latest there is, and make high-water marks anew that are missing, damaged or a copy
    ///
    /// For a service that was moved to another machine. Wherever something later was published, budgets
    /// do not hold: be sure.
    #[arg(long)]
    adopt_marks: bool,
}

/// Formats the content of a store as a table.
fn listed(found: &[Found]) -> String {
    let mut rows = vec![["stream", "version", "published", "releases"].map(str::to_owned).to_vec()];
    let row = |found: &Found| {
        let Found { stream, version, published, releases, .. } = found;
        vec![stream.clone(), version.to_string(), published.to_string(), releases.to_string()]
    };
    rows.extend(found.iter().map(row));
    crate::table::layout(&rows)
}

fn refused(name: &Path, error: &StoreError) -> Failure {
    Failure::run(format_args!("{}: {error}", name.display()))
}

/// Returns the path of a store that is a file.
fn file_of(config: &Config) -> Result<&Path, Failure> {
    match &config.store {
        Place::Sqlite(path) => Ok(path),
        Place::Postgres(_) => Err(Failure::input(
            "the store is in PostgreSQL, whose own means back it up and restore it: pg_dump and pg_restore. The \
             high-water marks protect it all the same",
        )),
    }
}

impl Backup {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let config = Config::read(&self.config)?;
        let path = file_of(&config)?;
        if !path.exists() {
            return Err(Failure::input(format_args!("there is no store {}", path.display())));
        }
        let store = SqliteStore::open(path).map_err(|error| refused(path, &error))?;
        store.backup(&self.to).map_err(|error| refused(&self.to, &error))?;
        // Check that the backup can be read.
        let found = check_backup(&self.to).map_err(|error| refused(&self.to, &error))?;
        let mut output = Output::create("-")?;
        if self.json {
            let streams: Vec<_> = found
                .iter()
                .map(|found| {
                    let Found { stream, version, published, releases, .. } = found;
                    serde_json::json!({
                        "stream": stream, "version": version, "published": published, "releases": releases,
                    })
                })
                .collect();
            let line = serde_json::json!({"backup": self.to, "streams": streams});
            output.write(&format!("{line}\n"))?;
        } else {
            output.write(&listed(&found))?;
        }
        output.finish()
    }
}

impl Restore {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let config = Config::read(&self.config)?;
        config.check_secrets()?;
        if self.adopt_marks {
            return adopt(&config);
        }
        match (&self.from, &self.begin_anew) {
            (Some(from), _) => restore(&config, from),
            (None, Some(stream)) => begin_anew(&config, stream),
            (None, None) => Ok(()),
        }
    }
}

/// Locks the state folder, which excludes other writers.
fn lock(config: &Config) -> Result<Folder, Failure> {
    Folder::open(&config.state).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Failure::run("the service runs; stop it first"),
        _ => Failure::run(format_args!("{}: {error}", config.state.display())),
    })
}

/// Replaces the store by a backup.
fn restore(config: &Config, from: &Path) -> Result<(), Failure> {
    let path = file_of(config)?;
    let backup = check_backup(from).map_err(|error| refused(from, &error))?;
    let locked = lock(config)?;
    if path.exists() {
        match check_backup(path) {
            Ok(present) => {
                let newer = present.iter().find(|present| {
                    let there = backup.iter().find(|found| found.stream == present.stream);
                    there.is_none_or(|there| there.version < present.version || there.changes < present.changes)
                });
                if let Some(Found { stream, version, changes, .. }) = newer {
                    let says = |version, changes| format!("version {version} with {changes} changes of classes");
                    let backed = backup.iter().find(|found| found.stream == *stream);
                    let backed = backed.map_or_else(
                        || "does not have it".to_owned(),
                        |found| format!("has {}", says(found.version, found.changes)),
                    );
                    return Err(Failure::input(format_args!(
                        "{} is newer than the backup: it has {} of stream {stream}, and the backup {backed}; nothing \
                         was changed",
                        path.display(),
                        says(*version, *changes)
                    )));
                }
            }
            Err(error) => complain("store", format_args!("{} is replaced: {error}", path.display())),
        }
    }
    let kept = exchange(path, from).map_err(|error| Failure::run(format_args!("{}: {error}", path.display())))?;
    if let Some(kept) = kept {
        complain("kept", format_args!("what was there is {}", kept.display()));
    }
    drop(locked);
    let mut output = Output::create("-")?;
    output.write(&listed(&backup))?;
    output.finish()?;
    let store = open::store(&config.store).map_err(|error| refused(path, &error))?;
    let marks = open::marks(config, &*store)?;
    let older = marks.older(&*store).map_err(|error| refused(path, &error))?;
    for Older { stream, version, marked } in &older {
        complain(
            "older",
            format_args!(
                "stream {stream} is at version {version}, but version {marked} was published: the service refuses to \
                 start with it; put a later backup in place, or: tidegate restore --config {} --begin-anew {stream}",
                config.file
            ),
        );
    }
    Ok(())
}

/// Replaces a SQLite file and its side files by a copy of another; returns where the old file is now.
fn exchange(path: &Path, from: &Path) -> io::Result<Option<PathBuf>> {
    let beside = |path: &Path, ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let draft = beside(path, ".restored");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut copy = create_private(&draft)?;
    io::copy(&mut fs::File::open(from)?, &mut copy)?;
    copy.sync_all()?;
    let mut kept = None;
    if path.exists() {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let old = beside(path, &format!(".{seconds}.old"));
        // The log first: beside another file, SQLite would apply it to that one.
        for ending in ["-wal", "-shm"] {
            match fs::rename(beside(path, ending), beside(&old, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(path, &old)?;
        sync_folder_of(path)?;
        kept = Some(old);
    }
    fs::rename(&draft, path)?;
    sync_folder_of(path)?;
    Ok(kept)
}

/// Lets a stream that lost spends continue after the window of the last release.
fn begin_anew(config: &Config, stream: &str) -> Result<(), Failure> {
    let store = open::store(&config.store).map_err(|error| Failure::run(format_args!("{}: {error}", config.store)))?;
    let marks = open::marks(config, &*store)?;
    let failed = |error: StoreError| Failure::run(format_args!("{}: {error}", config.store));
    let found = store.stream(stream).map_err(|error| match error {
        StoreError::NoStream(_) => Failure::input(format_args!(
            "there is no stream {stream} in the store, and its devices would not believe another of its name; declare \
             it under a new one"
        )),
        error => failed(error),
    })?;
    let key = open::vault_key(config)?;
    let declaration: Declaration = serde_json::from_str(&found.declaration).map_err(Failure::run)?;
    let marked = marks.mark(stream).unwrap_or(Mark { version: 0, timestamp: None });
    let is_unreadable = matches!(check_state(&found, Some(&key)), Err(DriveError::State { .. }));
    if marked.version <= found.version && !is_unreadable {
        return Err(Failure::input(format_args!(
            "stream {stream} is not older than what was published, and its state can be read: it goes on as it is"
        )));
    }
    // Of a state that cannot be read, nobody knows which timestamp was opened last: none after the present one. This
    // machine's clock or mark may be behind those of another that drove the stream, but not behind its releases.
    let present = declaration.schedule().timestamp(tidegate_server::service::now()).filter(|_| is_unreadable);
    let after = store.latest(stream, RecordKind::Release, 1).map_err(failed)?;
    let last = RecordFilter { after, from: 0, to: i64::MAX.unsigned_abs(), limit: 1 };
    let released = store.records(stream, RecordKind::Release, &last).map_err(failed)?;
    let released = released.last().map(|record| record.timestamp);
    let (version, timestamp) = (marked.version.max(found.version), marked.timestamp.max(present).max(released));
    let not_before = match (timestamp, declaration.spec.window()) {
        (None, _) => 0,
        (Some(last), Window::Timestamps(window)) => last.saturating_add(window.get()),
        (Some(_), Window::Unbounded) => {
            return Err(Failure::input(format_args!(
                "the budget of stream {stream} is for all time, and is spent; declare a new one"
            )));
        }
    };
    let state = first_state(&declaration, not_before, Some(&key)).map_err(Failure::run)?;
    if is_unreadable {
        // Another version of the program may read it.
        let path = config.state.join(format!("{stream}.{}.state", found.version));
        match create_private(&path).and_then(|mut file| io::Write::write_all(&mut file, &found.state)) {
            // A command before this one was interrupted.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            kept => kept.map_err(|error| Failure::run(format_args!("{}: {error}", path.display())))?,
        }
        complain("kept", format_args!("the old state of stream {stream} is in {}", path.display()));
    }
    // A driver stopped between advancing and marking may have been one version ahead.
    store.replace_state(stream, &state, version.saturating_add(2)).map_err(failed)?;
    let begins = declaration.ticks().epoch.saturating_add(not_before.saturating_mul(declaration.tick.get()));
    complain(
        "anew",
        format_args!(
            "stream {stream} begins anew with timestamp {not_before}, {begins} seconds after 1970; what it had \
             released is still there"
        ),
    );
    Ok(())
}

/// Declares that the store is the latest.
fn adopt(config: &Config) -> Result<(), Failure> {
    let store = open::store(&config.store).map_err(|error| Failure::run(format_args!("{}: {error}", config.store)))?;
    let failed = |error: StoreError| Failure::run(format_args!("{}: {error}", config.store));
    let mut marks = Vec::new();
    for name in store.names().map_err(failed)? {
        let found = store.stream(&name).map_err(failed)?;
        let declaration: Declaration = serde_json::from_str(&found.declaration).map_err(Failure::run)?;
        // Nothing after the present timestamp was released.
        let timestamp = declaration.schedule().timestamp(tidegate_server::service::now());
        marks.push((name, Mark { version: found.version, timestamp }));
    }
    let count = marks.len();
    // First the holder: where this ends in between, the marks are still refused.
    let locked = lock(config)?;
    open::new_holder(&config.state)?;
    drop(locked);
    Marks::adopt(&config.state, marks).map_err(|error| open::refused(config, &error))?;
    complain("marks", format_args!("{count} streams are taken to be where the store has them"));
    Ok(())
}
