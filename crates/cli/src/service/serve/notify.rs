//! Messages to the service manager (`sd_notify`): ready, stopping, and alive.

use std::env;
use std::io;
use std::time::Duration;

use crate::failure::complain;

/// Tells the service manager something. Without one, this does nothing.
pub(crate) fn tell(state: &str) {
    if let Err(error) = send(state) {
        complain("warning", format_args!("the service manager cannot be told {state}: {error}"));
    }
}

#[cfg(target_os = "linux")]
fn send(state: &str) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(Duration::from_secs(1)))?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn send(_: &str) -> io::Result<()> {
    Ok(())
}

/// Returns how often the service manager wants to hear that the service is alive.
pub(crate) fn interval() -> Option<Duration> {
    let is_ours = env::var("WATCHDOG_PID").map_or(true, |id| id.parse() == Ok(std::process::id()));
    let longest: u64 = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    // Twice within the time.
    is_ours.then(|| Duration::from_micros(longest) / 2).filter(|interval| !interval.is_zero())
}

/// Says again and again that the runtime, which answers all requests, is alive.
pub(crate) async fn stay_alive() {
    let Some(interval) = interval() else { return };
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        tell("WATCHDOG=1");
    }
}
