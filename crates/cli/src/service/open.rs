//! What a service needs before it starts: its store, its marks and its keys, opened.

use std::path::Path;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use tidegate::kernel::VaultKey;
use tidegate_server::driver::Tools;
use tidegate_server::store::{MarkError, Marks};
use tidegate_server::store::{PostgresStore, SqliteStore, Store, StoreError};

use super::config::{Config, Place};
use crate::failure::Failure;
use crate::secret::{hexadecimal, read_key, write_private};

/// For how long a service that has died keeps others from its streams, in milliseconds. It is in nobody's way where the
/// same one starts again.
const LEASE: u64 = 10_000;

/// Opens a store, which is made where it is missing.
pub(crate) fn store(place: &Place) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match place {
        Place::Sqlite(path) => Arc::new(SqliteStore::open(path)?),
        Place::Postgres(url) => Arc::new(PostgresStore::open(url)?),
    })
}

/// The marks of a service, for this process alone.
pub(crate) fn marks(config: &Config, store: &dyn Store) -> Result<Marks, Failure> {
    Marks::open(&config.state, store).map_err(|error| refused(config, &error))
}

/// What to do about marks that cannot be used.
pub(crate) fn refused(config: &Config, error: &MarkError) -> Failure {
    let advice = match error {
        MarkError::InUse => "another service runs with this state; stop it first",
        MarkError::Damaged(_) | MarkError::Missing { .. } => {
            "they tell what was published, and so what was spent; if this is a move to another place, and the store is \
             the latest there is, tell so by `tidegate restore --adopt-marks`; see \"Backup and restore\" in \
             docs/operations.md"
        }
        MarkError::Older(_) => OLDER,
        _ => return Failure::run(format_args!("{}: {error}", config.state.display())),
    };
    Failure::run(format_args!("{}: {error}: {advice}", config.state.display()))
}

/// What to do about a store that is older than what was published.
pub(crate) const OLDER: &str = "what it would release next was not paid for by what it knows. Put the latest store \
                                back; or, where there is none, let the stream begin anew by `tidegate restore \
                                --begin-anew STREAM`, which leaves its window out; see \"Backup and restore\" in \
                                docs/operations.md";

/// The key under which readings are held back.
pub(crate) fn vault_key(config: &Config) -> Result<VaultKey, Failure> {
    key(&config.vault_key()).map(VaultKey::from_bytes)
}

/// The key that policies are signed with.
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

/// All of it.
pub(crate) fn tools(config: &Config) -> Result<Tools, Failure> {
    config.check_secrets()?;
    let key = vault_key(config)?;
    let store = store(&config.store).map_err(|error| Failure::run(format_args!("{}: {error}", config.store)))?;
    let marks = marks(config, &*store)?;
    let holder = holder(&config.state)?;
    Ok(Tools { store, marks: Arc::new(marks), key: Some(Arc::new(key)), holder, lease: LEASE })
}

/// Who this is. It stays the same, so that a service that starts again need not wait until its own lease has run out:
/// nobody else has this folder open, and whoever has a copy of it cannot do what this one has done already.
fn holder(state: &Path) -> Result<String, Failure> {
    let path = state.join("holder");
    if let Some(name) = read_key(&path)? {
        return Ok(hexadecimal(&name));
    }
    let mut name = [0; 32];
    getrandom::fill(&mut name).map_err(Failure::run)?;
    let name = hexadecimal(&name);
    write_private(&path, &format!("{name}\n"))?;
    Ok(name)
}
