//! [`EventBuffer`]: a curator's events of the open tick, in memory only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate::kernel::primitives::{HistogramError, seal_histogram};
use tidegate::kernel::{Account, NoEntropy, Sealed};
use tidegate::spec::{Intake, StreamSpec, Values};
use zeroize::{Zeroize, Zeroizing};

use crate::stream::{Declaration, DeclarationError, Schedule};

/// Most users in a buffer. Further users are acknowledged but not counted: a rejection would tell who else is there.
pub const MAX_USERS: usize = 20_000_000;

/// Longest name of a user, in bytes.
pub const MAX_USER: usize = 256;

/// Stands for a value outside the domain; no domain is so large.
const NO_CELL: u32 = u32::MAX;

/// An event of a curated stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuratorEvent {
    /// User; only in a stream of users' values.
    pub user: Option<String>,
    /// Value of the domain, by name or number; in a stream of numbers, the number with all its digits. Empty where it
    /// was neither. Any text is accepted: neither the answer nor the release depends on it.
    pub value: String,
}

/// Reason why an event was rejected. It repeats nothing of the event.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum EventRejection {
    /// No complete tick is open.
    #[error("no tick is open: the first complete tick begins soon")]
    NotOpen,
    #[error("user: {expected}")]
    User { expected: &'static str },
    /// Another timestamp, or none where a repeated request could count twice.
    #[error("timestamp: expected {open}, the open tick")]
    Timestamp { open: u64 },
    #[error("value: this tick already has a reading")]
    Reading,
}

/// Events of a closed tick, ready for the mechanism.
#[derive(Debug)]
pub(crate) enum TickEvents {
    Histogram(Sealed<Vec<u64>>),
    Reading(Sealed<i64>),
    /// No reading, so nothing to release.
    Empty,
}

/// Buffers the open tick's events. They are zeroised on close and never persisted.
///
/// It opens only at the beginning of a tick. Events sent to a process that has ended are lost, so a tick that may miss
/// some is not released.
#[derive(Debug)]
pub struct EventBuffer {
    schedule: Schedule,
    input: Input,
    contents: Mutex<Contents>,
}

#[derive(Debug)]
enum Input {
    Users { values: Values, key: [u8; 16], most: usize },
    Numbers { intake: Intake },
}

#[derive(Default)]
struct Contents {
    open: Option<u64>,
    /// Fencing token of the lease under which it was opened.
    epoch: u64,
    /// Each user's value, by keyed hash of the user's name. The first value counts.
    users: HashMap<u128, u32>,
    reading: Option<Zeroizing<String>>,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Contents").field("open", &self.open).finish_non_exhaustive()
    }
}

impl EventBuffer {
    /// Creates the closed buffer of a stream; `None` for a stream of devices.
    ///
    /// # Errors
    /// An invalid declaration, or no entropy.
    pub fn new(declaration: &Declaration) -> Result<Option<Self>, EventBufferError> {
        let input = match &declaration.spec {
            StreamSpec::Central(spec) => {
                let mut key = [0; 16];
                getrandom::fill(&mut key).map_err(|error| EventBufferError::Entropy(error.into()))?;
                Input::Users { values: spec.values().map_err(DeclarationError::from)?, key, most: MAX_USERS }
            }
            StreamSpec::Scalar(spec) => Input::Numbers { intake: spec.intake().map_err(DeclarationError::from)? },
            _ => return Ok(None),
        };
        Ok(Some(Self { schedule: declaration.schedule(), input, contents: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open timestamp.
    pub fn open_timestamp(&self) -> Option<u64> {
        self.lock().open
    }

    /// Adds events in order, at a moment in milliseconds since 1970. Returns how many were accepted, and why the next
    /// one was rejected.
    ///
    /// A stream of numbers needs the timestamp: a request repeated after its tick would count in the next one too. A
    /// user's first value counts. A second one gets the same answer, which would give the first away otherwise.
    pub fn push(&self, now: u64, timestamp: Option<u64>, events: Vec<CuratorEvent>) -> (usize, Option<EventRejection>) {
        let mut contents = self.lock();
        let present = self.schedule.timestamp(now);
        let Some(open) = contents.open.filter(|open| Some(*open) == present) else {
            return (0, Some(EventRejection::NotOpen));
        };
        if timestamp.map_or(matches!(self.input, Input::Numbers { .. }), |timestamp| timestamp != open) {
            return (0, Some(EventRejection::Timestamp { open }));
        }
        let all = events.len();
        for (accepted, event) in events.into_iter().enumerate() {
            let pushed = match &self.input {
                Input::Users { values, key, most } => push_user(&mut contents, values, key, *most, event),
                Input::Numbers { .. } => push_number(&mut contents, event),
            };
            if let Err(rejection) = pushed {
                return (accepted, Some(rejection));
            }
        }
        (all, None)
    }

    /// Sets the fencing token of the lease. Events of another lease are dropped: another process may have the rest.
    pub(crate) fn claim(&self, epoch: u64) {
        if std::mem::replace(&mut self.lock().epoch, epoch) != epoch {
            self.close();
        }
    }

    /// Drops and zeroises all events.
    pub fn close(&self) {
        let mut users = {
            let mut contents = self.lock();
            (contents.open, contents.reading) = (None, None);
            std::mem::take(&mut contents.users)
        };
        users.values_mut().for_each(Zeroize::zeroize);
    }

    /// Closes a tick, seals its events for the ledger's account, and opens another tick.
    ///
    /// Returns `None` where another tick was open: events may be missing.
    pub(crate) fn rotate(
        &self,
        account: Option<Account>,
        closing: u64,
        opening: Option<u64>,
    ) -> Result<Option<TickEvents>, HistogramError> {
        let mut contents = self.lock();
        let (mut users, reading) = (std::mem::take(&mut contents.users), contents.reading.take());
        let was_open = std::mem::replace(&mut contents.open, opening) == Some(closing);
        drop(contents);
        let events = match (&self.input, account.filter(|_| was_open)) {
            (_, None) => None,
            (Input::Users { values, .. }, Some(account)) => {
                let held = users.values().copied().filter(|value| *value != NO_CELL);
                Some(TickEvents::Histogram(seal_histogram(account, closing, held, values.count())?))
            }
            (Input::Numbers { intake }, Some(account)) => {
                let sealed = reading.map(|text| intake.seal(account, closing, &text));
                Some(sealed.map_or(TickEvents::Empty, TickEvents::Reading))
            }
        };
        users.values_mut().for_each(Zeroize::zeroize);
        Ok(events)
    }
}

/// Error of [`EventBuffer::new`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum EventBufferError {
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error(transparent)]
    Entropy(NoEntropy),
}

fn push_user(
    contents: &mut Contents,
    values: &Values,
    key: &[u8; 16],
    most: usize,
    event: CuratorEvent,
) -> Result<(), EventRejection> {
    let Some(mut user) = event.user.filter(|user| (1..=MAX_USER).contains(&user.len())) else {
        return Err(EventRejection::User { expected: "a name of 1 to 256 bytes" });
    };
    let mut name = event.value;
    let value = values.find(&name);
    name.zeroize();
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(user.as_bytes());
    user.zeroize();
    let has_room = contents.users.len() < most;
    // The answer is the same for a known user and for a full buffer.
    if let Entry::Vacant(empty) = contents.users.entry(hasher.finish128().as_u128())
        && has_room
    {
        // A value outside the domain is in no cell, which changes one count by one, as leaving does.
        empty.insert(value.unwrap_or(NO_CELL));
    }
    Ok(())
}

fn push_number(contents: &mut Contents, event: CuratorEvent) -> Result<(), EventRejection> {
    if event.user.is_some() {
        return Err(EventRejection::User { expected: "none, for this is a stream of numbers" });
    }
    if contents.reading.is_some() {
        return Err(EventRejection::Reading);
    }
    contents.reading = Some(Zeroizing::new(event.value));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_full_buffer_acknowledges_all_users_alike() {
        let declaration = json!({ "name": "rooms", "tick": 1, "spec": {
            "family": "central", "mechanism": "uniform", "epsilon": 1, "window": 2, "domain": ["in", "out"],
        } });
        let mut buffer = EventBuffer::new(&serde_json::from_value(declaration).unwrap()).unwrap().unwrap();
        let Input::Users { most, .. } = &mut buffer.input else { unreachable!("a stream of users") };
        *most = 2;
        buffer.rotate(None, 7, Some(7)).unwrap();
        let push = |user: &str| {
            let event = CuratorEvent { user: Some(user.to_owned()), value: "in".to_owned() };
            buffer.push(7_000, None, vec![event])
        };
        for user in ["anna", "bert", "cleo", "anna", "dora"] {
            assert_eq!(push(user), (1, None), "{user}");
        }
        assert_eq!(buffer.lock().users.len(), 2);
    }
}
