//! [`Connections`]: who may have how many connections. When they are too many, idle ones are closed first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::network::Network;
use super::rate::Caller;

/// The open connections of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    /// Most of all addresses.
    most: usize,
    /// Most of one address.
    each: usize,
    /// Proxies, which may have more: they bring the clients of many addresses.
    proxies: Vec<Network>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Entry>,
    by_caller: HashMap<Caller, usize>,
}

#[derive(Debug)]
struct Entry {
    caller: Caller,
    /// Since when it has no request; `None` while it has one.
    idle: Option<Instant>,
    close: Arc<Notify>,
}

/// An open connection. It counts until this is dropped, or until it is closed in favour of another.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Connections>,
    number: u64,
    close: Arc<Notify>,
}

/// A request on a connection, until its answer was sent.
#[derive(Debug)]
pub(super) struct Busy(Arc<Place>);

impl Open {
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.by_number.remove(&number)?;
        if let Some(count) = self.by_caller.get_mut(&entry.caller) {
            *count -= 1;
            if *count == 0 {
                self.by_caller.remove(&entry.caller);
            }
        }
        Some(entry)
    }

    /// Closes an idle connection: of the address with the most connections, the one that was idle longest.
    fn close_idle(&mut self, of: Option<Caller>) -> bool {
        let idle = self.by_number.iter().filter(|(_, entry)| of.is_none_or(|caller| entry.caller == caller));
        let idle = idle.filter_map(|(number, entry)| Some((number, entry.caller, entry.idle?)));
        let count = |caller: &Caller| self.by_caller.get(caller).copied().unwrap_or(0);
        let worst = idle.max_by_key(|(_, caller, since)| (count(caller), std::cmp::Reverse(*since)));
        let Some(entry) = worst.map(|(number, ..)| *number).and_then(|number| self.remove(number)) else {
            return false;
        };
        entry.close.notify_one();
        true
    }
}

impl Connections {
    pub(super) fn new(most: usize, each: usize, proxies: Vec<Network>) -> Arc<Self> {
        Arc::new(Self { most, each, proxies, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, perhaps in place of an idle one; `None` where all are busy.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let caller = Caller::of(address);
        let is_proxy = self.proxies.iter().any(|proxy| proxy.contains(address));
        let mut open = self.open();
        let own = open.by_caller.get(&caller).copied().unwrap_or(0);
        let has_room = if !is_proxy && own >= self.each {
            open.close_idle(Some(caller))
        } else {
            open.by_number.len() < self.most || open.close_idle(None)
        };
        if !has_room {
            return None;
        }
        let (number, close) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        open.by_number.insert(number, Entry { caller, idle: Some(Instant::now()), close: Arc::clone(&close) });
        *open.by_caller.entry(caller).or_default() += 1;
        drop(open);
        Some(Place { of: Arc::clone(self), number, close })
    }
}

impl Place {
    /// Waits until the connection must make room for another.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }

    /// Begins a request; `None` where the connection is being closed.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Busy> {
        self.of.open().by_number.get_mut(&self.number)?.idle = None;
        Some(Busy(Arc::clone(self)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.open().remove(self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(entry) = self.0.of.open().by_number.get_mut(&self.0.number) {
            entry.idle = Some(Instant::now());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_open(connections: &Connections, place: &Place) -> bool {
        connections.open().by_number.contains_key(&place.number)
    }

    #[test]
    fn closes_the_longest_idle_connection_of_the_greediest_address() {
        let connections = Connections::new(4, 3, Vec::new());
        let (greedy, modest) = (address("192.0.2.1"), address("192.0.2.2"));
        let only = connections.admit(modest).unwrap();
        let first = Arc::new(connections.admit(greedy).unwrap());
        let [second, third] = [(); 2].map(|()| connections.admit(greedy).unwrap());
        let request = first.begin().unwrap();
        let fifth = connections.admit(address("192.0.2.3")).unwrap();
        assert!(!is_open(&connections, &second), "it is the longest idle of the greedy address");
        assert!([&only, &*first, &third, &fifth].into_iter().all(|place| is_open(&connections, place)));
        assert!(Arc::new(second).begin().is_none(), "no request begins on a closed connection");
        drop(request);
        let sixth = connections.admit(address("192.0.2.4")).unwrap();
        assert!(!is_open(&connections, &third) && is_open(&connections, &sixth), "the first was used since");
    }

    #[test]
    fn refuses_where_nothing_is_idle() {
        let connections = Connections::new(3, 2, vec!["198.51.100.0/24".parse().unwrap()]);
        let busy = |from: &str| {
            let place = Arc::new(connections.admit(address(from))?);
            place.begin()
        };
        let one = [busy("192.0.2.1").unwrap(), busy("192.0.2.1").unwrap()];
        assert!(busy("192.0.2.1").is_none(), "of this address");
        let last = busy("192.0.2.2").unwrap();
        assert!(busy("192.0.2.3").is_none(), "of all");
        drop((one, last));
        assert_eq!(connections.open().by_caller.len(), 0);
        // A proxy has no part of its own.
        let proxied: Vec<_> = (0..3).map(|_| busy("198.51.100.7").unwrap()).collect();
        assert!(busy("198.51.100.7").is_none());
        drop(proxied);
    }
}
