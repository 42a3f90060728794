//! Limit of open files: it is raised as far as it goes, and connections leave room for the streams.

use tidegate_server::http::Limits;

use crate::failure::Failure;

/// Files for the store, the marks, webhooks, the log and monitoring.
const RESERVED: usize = 512;
/// Fewest connections that are worth a start.
const FEWEST: usize = 16;

/// Raises the limit of open files, and lowers that of connections where both do not fit. Returns a warning if it had
/// to.
///
/// # Errors
/// A limit that leaves no connections.
pub(crate) fn reserve(limits: &mut Limits) -> Result<Option<String>, Failure> {
    let Some(most) = raise() else { return Ok(None) };
    let room = room(most).map_err(Failure::run)?;
    if limits.connections <= room {
        return Ok(None);
    }
    let message = shortage(most, limits.connections, room);
    limits.connections = room;
    limits.connections_per_address = limits.connections_per_address.min(room / 2);
    Ok(Some(message))
}

/// Says whether the limit suffices.
///
/// # Errors
/// Why it does not.
pub(crate) fn examine(limits: &Limits) -> Result<String, (bool, String)> {
    let Some(most) = raise() else { return Ok("they are not limited".to_owned()) };
    let room = room(most).map_err(|error| (true, error))?;
    if limits.connections > room {
        return Err((false, shortage(most, limits.connections, room)));
    }
    Ok(format!("{most} may be open, enough for {} connections", limits.connections))
}

fn room(most: usize) -> Result<usize, String> {
    let room = most.saturating_sub(RESERVED);
    if room >= FEWEST {
        return Ok(room);
    }
    let least = RESERVED + FEWEST;
    Err(format!("{most} files may be open, and the service needs {least} at least: raise LimitNOFILE, or ulimit -Hn"))
}

fn shortage(most: usize, wanted: usize, room: usize) -> String {
    let enough = wanted + RESERVED;
    format!(
        "{most} files may be open, which is enough for {room} connections instead of {wanted}: raise LimitNOFILE, or \
         ulimit -Hn, to {enough}"
    )
}

/// Raises the soft limit to the hard one. Returns the limit, or `None` where there is none.
#[cfg(unix)]
fn raise() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Where it cannot be raised, it stays.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    usize::try_from(if raised { maximum } else { current }?).ok()
}

#[cfg(not(unix))]
fn raise() -> Option<usize> {
    None
}
