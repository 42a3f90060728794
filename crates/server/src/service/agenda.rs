//! [`Agenda`]: when each stream is due, for the threads that drive them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::handle::{StreamHandle, lock};
use crate::driver::Turn;

/// Most streams that are driven together.
pub(super) const GROUP: usize = 1_024;
/// Longest sleep of a thread without work.
const SLEEP: Duration = Duration::from_secs(60);

/// A stream with its driver.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) handle: Arc<StreamHandle>,
    pub(super) turn: Turn,
    /// Pause after the next error.
    pub(super) backoff: Duration,
}

/// Streams by the time of their next step. A stream is taken by one thread at a time.
///
/// The clock is monotonic. By the wall clock, a stream that waits for a moment would wait for years where that clock
/// was ahead and is set right.
#[derive(Debug)]
pub(super) struct Agenda {
    threads: usize,
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    /// Times and names of the streams that no thread drives at present.
    waiting: BTreeSet<(Instant, Arc<str>)>,
    places: HashMap<Arc<str>, Place>,
    stopping: bool,
}

#[derive(Debug)]
struct Place {
    due: Instant,
    /// `None` while a thread drives it.
    seat: Option<Seat>,
    /// Whether somebody wants it to be driven again at once.
    again: bool,
    /// Whether it has had a turn.
    began: bool,
}

impl Agenda {
    /// Creates an empty agenda for a number of threads.
    pub(super) fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), inside: Mutex::default(), changed: Condvar::new() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }

    /// Adds a stream, which is due at once.
    pub(super) fn add(&self, seat: Seat) {
        let name = Arc::clone(&seat.handle.name);
        let inside = &mut *self.inside();
        let due = Instant::now();
        inside.waiting.insert((due, Arc::clone(&name)));
        inside.places.insert(name, Place { due, seat: Some(seat), again: false, began: false });
        self.changed.notify_one();
    }

    /// Makes a stream due at once.
    pub(super) fn wake(&self, stream: &str) {
        let inside = &mut *self.inside();
        let Some(place) = inside.places.get_mut(stream) else { return };
        match &place.seat {
            None => place.again = true,
            Some(seat) => {
                let name = Arc::clone(&seat.handle.name);
                inside.waiting.remove(&(place.due, Arc::clone(&name)));
                place.due = Instant::now();
                inside.waiting.insert((place.due, name));
                self.changed.notify_one();
            }
        }
    }

    /// Makes all streams due at once.
    pub(super) fn wake_all(&self) {
        let names: Vec<_> = self.inside().places.keys().cloned().collect();
        names.iter().for_each(|name| self.wake(name));
    }

    /// Waits until streams are due, and takes a share of them. Returns `None` when the service stops.
    pub(super) fn take(&self) -> Option<Vec<Seat>> {
        let mut inside = self.inside();
        loop {
            if inside.stopping {
                return None;
            }
            let now = Instant::now();
            let due = inside.waiting.iter().take_while(|(due, _)| *due <= now).count();
            if due > 0 {
                let share = due.div_ceil(self.threads).min(GROUP);
                let Inside { waiting, places, .. } = &mut *inside;
                let names: Vec<_> = waiting.iter().take(share).cloned().collect();
                let seats = names.iter().filter_map(|due| {
                    waiting.remove(due);
                    places.get_mut(&due.1)?.seat.take()
                });
                let seats = seats.collect();
                if !waiting.is_empty() {
                    // Another thread looks after the rest.
                    self.changed.notify_one();
                }
                return Some(seats);
            }
            let sleep = inside.waiting.first().map_or(SLEEP, |(due, _)| (*due - now).min(SLEEP));
            let waited = self.changed.wait_timeout(inside, sleep);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives a stream back, to be driven after a pause.
    pub(super) fn give(&self, seat: Seat, pause: Duration) {
        let inside = &mut *self.inside();
        let name = Arc::clone(&seat.handle.name);
        let Some(place) = inside.places.get_mut(&name) else { return };
        place.due = Instant::now() + if std::mem::take(&mut place.again) { Duration::ZERO } else { pause };
        (place.seat, place.began) = (Some(seat), true);
        inside.waiting.insert((place.due, name));
        self.changed.notify_one();
    }

    /// Returns how long ago a stream should have been driven.
    pub(super) fn overdue(&self, stream: &str) -> Duration {
        self.inside().places.get(stream).map_or(Duration::ZERO, |place| place.due.elapsed())
    }

    /// Returns the number of streams that have not had a turn, and of all.
    pub(super) fn opening(&self) -> (usize, usize) {
        let inside = self.inside();
        (inside.places.values().filter(|place| !place.began).count(), inside.places.len())
    }

    /// Makes all threads return from [`take`](Self::take).
    pub(super) fn stop(&self) {
        self.inside().stopping = true;
        self.changed.notify_all();
    }

    /// Takes all streams, after the threads have ended.
    pub(super) fn take_all(&self) -> Vec<Seat> {
        let inside = &mut *self.inside();
        inside.waiting.clear();
        inside.places.drain().filter_map(|(_, place)| place.seat).collect()
    }
}
