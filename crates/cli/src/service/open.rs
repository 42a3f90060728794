//! Opens the store, the marks and the keys of a service.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use tidegate::kernel::VaultKey;
use tidegate_server::driver::Tools;
use tidegate_server::store::{MarkError, Marks};
use tidegate_server::store::{PostgresStore, SqliteStore, Store, StoreError};

use super::config::{Config, Place};
use crate::failure::Failure;
use tidegate_release::files::{hexadecimal, read_key, sync_folder_of, write_private};

/// Lease of a stream in milliseconds. After a crash, another service waits that long; the same service does not.
const LEASE: u64 = 10_000;

/// Opens a store, or creates it.
pub(crate) fn store(place: &Place) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match place {
        Place::Sqlite(path) => Arc::new(SqliteStore::open(path)?),
        Place::Postgres(url) => Arc::new(PostgresStore::open(url)?),
    })
}

/// Opens a store whose service does everything itself. Where a cluster counts, another way of counting would count
/// reports twice.
fn alone(place: &Place) -> Result<Arc<dyn Store>, StoreError> {
    if let Place::Postgres(url) = place {
        let store = PostgresStore::open(url)?;
        if !store.partitions()?.is_empty() {
            let why = "it belongs to a cluster: run tidegate gateway, worker and driver instead of serve";
            return Err(StoreError::Failed(why.to_owned()));
        }
    }
    store(place)
}

/// Opens and locks the marks of a service.
pub(crate) fn marks(config: &Config, store: &dyn Store) -> Result<Marks, Failure> {
    Marks::open(&config.state, store).map_err(|error| refused(config, &error))
}

/// Explains what to do about unusable marks.
pub(crate) fn refused(config: &Config, error: &MarkError) -> Failure {
    let advice = match error {
        MarkError::InUse => "another service runs with this state; stop it first".to_owned(),
        MarkError::Damaged(_) | MarkError::Missing { .. } => format!(
            "they tell what was published, and so what was spent; if this is a move to another place, and the store is \
             the latest there is, tell so by `tidegate restore --config {} --adopt-marks`; see \"Backup and restore\" \
             in docs/operations.md",
            config.file
        ),
        MarkError::Older(_) => older(config),
        _ => return Failure::run(format_args!("{}: {error}", config.state.display())),
    };
    Failure::run(format_args!("{}: {error}: {advice}", config.state.display()))
}

/// What to do about a store that is older than the marks.
pub(crate) fn older(config: &Config) -> String {
    format!(
        "what it would release next was not paid for by what it knows. Put the latest store back; or, where there is \
         none, let the stream begin anew by `tidegate restore --config {} --begin-anew STREAM`, which leaves its \
         window out; see \"Backup and restore\" in docs/operations.md",
        config.file
    )
}

/// Reads the key that encrypts readings held back.
pub(crate) fn vault_key(config: &Config) -> Result<VaultKey, Failure> {
    key(&config.vault_key()).map(VaultKey::from_bytes)
}

/// Reads the key that signs policies.
pub(crate) fn operator_key(config: &Config) -> Result<SigningKey, Failure> {
    key(&config.operator_key()).map(|bytes| SigningKey::from_bytes(&bytes))
}

fn key(path: &Path) -> Result<[u8; 32], Failure> {
    read_key(path)?.ok_or_else(|| {
        let shown = path.display();
        Failure::input(format_args!(
            "there is no {shown}; `tidegate init` makes a new service with its keys, and a service that was there \
             before needs its own"
        ))
    })
}

/// Opens all of them.
pub(crate) fn tools(config: &Config) -> Result<Tools, Failure> {
    config.check_secrets()?;
    let key = vault_key(config)?;
    let store = alone(&config.store).map_err(|error| Failure::run(format_args!("{}: {error}", config.store)))?;
    let marks = marks(config, &*store)?;
    let holder = holder(&config.state)?;
    Ok(Tools { store, marks: Arc::new(marks), key: Some(Arc::new(key)), holder, lease: LEASE })
}

/// Returns the service's identity as a lease holder. It is stable, so a restarted service does not wait for its own
/// lease. The folder is locked. A copy of it is refused until its marks are adopted, under a [new name](new_holder).
fn holder(state: &Path) -> Result<String, Failure> {
    let path = state.join(HOLDER);
    if let Some(name) = read_key(&path)? {
        return Ok(hexadecimal(&name));
    }
    let mut name = [0; 32];
    getrandom::fill(&mut name).map_err(Failure::run)?;
    let name = hexadecimal(&name);
    write_private(&path, &format!("{name}\n"))?;
    Ok(name)
}

/// The file with the identity as a lease holder.
const HOLDER: &str = "holder";

/// Makes the service a new lease holder. Under the old name, a copy of its folder and the original would drive the same
/// streams under one fencing token.
pub(crate) fn new_holder(state: &Path) -> Result<(), Failure> {
    let path = state.join(HOLDER);
    match std::fs::remove_file(&path).and_then(|()| sync_folder_of(&path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::run(format_args!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
