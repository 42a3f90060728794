//! [`EventBuffer`]: a curator's events of the open ticks, in memory only.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate::kernel::primitives::{ClassHistograms, HistogramError, seal_class_histograms, seal_histogram};
use tidegate::kernel::{Account, NoEntropy, Sealed};
use tidegate::spec::{Intake, StreamSpec, Values};
use zeroize::{Zeroize, Zeroizing};

use super::member_cache::MemberCache;
use crate::stream::{Declaration, DeclarationError, Schedule};

/// Most users in a buffer, over all ticks that may be open. Further users are acknowledged but not counted: a rejection
/// would tell who else is there.
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
    #[error("no tick is open: the stream has just begun, is paused, or is retired")]
    NotOpen,
    #[error("user: {expected}")]
    User { expected: &'static str },
    /// Another timestamp, or none where a repeated request could count twice.
    #[error("timestamp: expected {}", expected(*.first, *.last))]
    Timestamp { first: u64, last: u64 },
    #[error("value: this tick already has a reading")]
    Reading,
    /// A timestamp of the history that is over, or has not begun.
    #[error("timestamp: expected {first} or a later one that is over")]
    Past { first: u64 },
    #[error("another tick of the history is being released")]
    Busy,
    /// The history of a stream that its operator has paused.
    #[error("the stream is paused, which ends its history: resume makes it live")]
    Paused,
}

fn expected(first: u64, last: u64) -> String {
    if first == last { format!("{last}, the open tick") } else { format!("{first} to {last}, the open ticks") }
}

/// Events of a closed tick, ready for the mechanism.
#[derive(Debug)]
pub(crate) enum TickEvents {
    Histogram(Sealed<Vec<u64>>),
    /// Counts of each class, and the number of registered users of each.
    ByClass(Sealed<ClassHistograms>, Vec<u64>),
    Reading(Sealed<i64>),
    /// No reading, so nothing to release.
    Empty,
}

/// Key of the hashes of users' names, drawn for each buffer.
#[derive(Clone, Copy)]
pub(crate) struct UserKey([u8; 16]);

impl std::fmt::Debug for UserKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("UserKey(..)")
    }
}

impl UserKey {
    pub(crate) fn hash(self, user: &str) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(user.as_bytes());
        hasher.finish128().as_u128()
    }
}

/// Buffers the open ticks' events. They are zeroised on close and never persisted.
///
/// A tick opens only at its beginning. Events sent to a process that has ended are lost, so a tick that may miss some
/// is not released. With a lateness, a tick stays open for as many further ticks.
#[derive(Debug)]
pub struct EventBuffer {
    schedule: Schedule,
    lateness: u64,
    input: Input,
    contents: Mutex<Contents>,
    past: Mutex<Option<PastTick>>,
}

#[derive(Debug)]
enum Input {
    Users { values: Values, key: UserKey, most: usize },
    Numbers { intake: Intake },
}

#[derive(Default)]
struct Contents {
    /// Fencing token of the lease under which the ticks were opened.
    epoch: u64,
    open: BTreeMap<u64, Tick>,
}

/// Events of an open tick.
#[derive(Default)]
struct Tick {
    /// Each user's value, by keyed hash of the user's name. The first value counts.
    users: HashMap<u128, u32>,
    reading: Option<Zeroizing<String>>,
}

/// A whole tick of a stream's history, which waits for the driver.
pub(crate) struct PastTick {
    pub(crate) timestamp: u64,
    tick: Tick,
    /// Hears whether the tick was released. Dropped where that is unknown.
    pub(crate) reply: SyncSender<Result<(), EventRejection>>,
}

impl std::fmt::Debug for PastTick {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PastTick").field("timestamp", &self.timestamp).finish_non_exhaustive()
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        self.users.values_mut().for_each(Zeroize::zeroize);
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Contents").field("open", &self.open.keys()).finish_non_exhaustive()
    }
}

impl EventBuffer {
    /// Creates the closed buffer of a stream; `None` for a stream of devices.
    ///
    /// # Errors
    /// An invalid declaration, or no entropy.
    pub fn new(declaration: &Declaration) -> Result<Option<Self>, EventBufferError> {
        let lateness = declaration.lateness;
        let input = match &declaration.spec {
            StreamSpec::Central(spec) => {
                let mut key = [0; 16];
                getrandom::fill(&mut key).map_err(|error| EventBufferError::Entropy(error.into()))?;
                // Each tick has its own part: the users of one must not displace those of another.
                let ticks = usize::try_from(lateness.saturating_add(1)).unwrap_or(usize::MAX);
                let values = spec.values().map_err(DeclarationError::from)?;
                Input::Users { values, key: UserKey(key), most: MAX_USERS / ticks }
            }
            StreamSpec::Scalar(spec) => Input::Numbers { intake: spec.intake().map_err(DeclarationError::from)? },
            _ => return Ok(None),
        };
        Ok(Some(Self {
            schedule: declaration.schedule(),
            lateness,
            input,
            contents: Mutex::default(),
            past: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open timestamp; the latest, if several are open.
    pub fn open_timestamp(&self) -> Option<u64> {
        self.lock().open.last_key_value().map(|(timestamp, _)| *timestamp)
    }

    /// Returns all open timestamps, in order.
    pub fn open_timestamps(&self) -> Vec<u64> {
        self.lock().open.keys().copied().collect()
    }

    /// Returns the key of the hashes of users; `None` for a stream of numbers.
    pub(crate) const fn user_key(&self) -> Option<UserKey> {
        match &self.input {
            Input::Users { key, .. } => Some(*key),
            Input::Numbers { .. } => None,
        }
    }

    /// Adds events in order, at a moment in milliseconds since 1970. Returns how many were accepted, and why the next
    /// one was rejected.
    ///
    /// Without a timestamp, events are of the present tick. A stream of numbers needs the timestamp: a request repeated
    /// after its tick would count in the next one too. A user's first value counts. A second one gets the same answer,
    /// which would give the first away otherwise.
    pub fn push(&self, now: u64, timestamp: Option<u64>, events: Vec<CuratorEvent>) -> (usize, Option<EventRejection>) {
        let mut contents = self.lock();
        let Some(present) = self.schedule.timestamp(now) else { return (0, Some(EventRejection::NotOpen)) };
        let mut open = contents.open.range(present.saturating_sub(self.lateness)..=present);
        let (first, last) = match (open.next(), open.next_back()) {
            (None, _) => return (0, Some(EventRejection::NotOpen)),
            (Some((only, _)), None) => (*only, *only),
            (Some((first, _)), Some((last, _))) => (*first, *last),
        };
        let wanted = match (&self.input, timestamp) {
            (Input::Numbers { .. }, None) => return (0, Some(EventRejection::Timestamp { first, last })),
            (Input::Users { .. }, None) if last != present => return (0, Some(EventRejection::NotOpen)),
            (Input::Users { .. }, None) => last,
            (_, Some(timestamp)) => timestamp,
        };
        let Some(tick) = contents.open.get_mut(&wanted).filter(|_| (first..=last).contains(&wanted)) else {
            return (0, Some(EventRejection::Timestamp { first, last }));
        };
        let all = events.len();
        for (accepted, event) in events.into_iter().enumerate() {
            let pushed = match &self.input {
                Input::Users { values, key, most } => push_user(tick, values, *key, *most, event),
                Input::Numbers { .. } => push_number(tick, event),
            };
            if let Err(rejection) = pushed {
                return (accepted, Some(rejection));
            }
        }
        (all, None)
    }

    /// Offers a whole tick of the history to the driver. The receiver hears whether it was released; it is closed where
    /// that is unknown.
    ///
    /// # Errors
    /// The position of the event that was rejected, and why. Then nothing is offered.
    pub fn offer_past(
        &self,
        timestamp: u64,
        events: Vec<CuratorEvent>,
    ) -> Result<Receiver<Result<(), EventRejection>>, (usize, EventRejection)> {
        let mut tick = Tick::default();
        for (position, event) in events.into_iter().enumerate() {
            let pushed = match &self.input {
                Input::Users { values, key, most } => push_user(&mut tick, values, *key, *most, event),
                Input::Numbers { .. } => push_number(&mut tick, event),
            };
            pushed.map_err(|rejection| (position, rejection))?;
        }
        let (reply, outcome) = sync_channel(1);
        let past = &mut *self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.is_some() {
            return Err((0, EventRejection::Busy));
        }
        *past = Some(PastTick { timestamp, tick, reply });
        Ok(outcome)
    }

    /// Takes the tick of the history that waits, if there is one.
    pub(crate) fn take_past(&self) -> Option<PastTick> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Withdraws the tick of the history that waits.
    pub(crate) fn withdraw_past(&self) {
        drop(self.take_past());
    }

    /// Sets the fencing token of the lease. Events of another lease are dropped: another process may have the rest.
    pub(crate) fn claim(&self, epoch: u64) {
        if std::mem::replace(&mut self.lock().epoch, epoch) != epoch {
            self.close();
        }
    }

    /// Drops and zeroises all events.
    pub fn close(&self) {
        // Dropped after the lock is free: there may be millions.
        let _ticks = std::mem::take(&mut self.lock().open);
    }

    /// Opens a tick.
    pub(crate) fn open(&self, timestamp: u64) {
        self.lock().open.insert(timestamp, Tick::default());
    }

    /// Drops the events of a tick.
    pub(crate) fn abandon(&self, timestamp: u64) {
        let _tick = self.lock().open.remove(&timestamp);
    }

    /// Closes a tick, seals its events for the ledger's account, and opens another tick.
    ///
    /// Returns `None` where the tick was not open: events may be missing.
    pub(crate) fn rotate(
        &self,
        account: Option<Account>,
        closing: u64,
        opening: Option<u64>,
        members: Option<&MemberCache>,
    ) -> Result<Option<TickEvents>, HistogramError> {
        let mut contents = self.lock();
        let tick = contents.open.remove(&closing);
        if let Some(opening) = opening {
            contents.open.insert(opening, Tick::default());
        }
        drop(contents);
        let (Some(tick), Some(account)) = (tick, account) else { return Ok(None) };
        self.seal(account, closing, tick, members).map(Some)
    }

    /// Seals a tick of the history.
    pub(crate) fn seal_past(
        &self,
        account: Account,
        past: PastTick,
        members: Option<&MemberCache>,
    ) -> Result<TickEvents, HistogramError> {
        self.seal(account, past.timestamp, past.tick, members)
    }

    fn seal(
        &self,
        account: Account,
        closing: u64,
        mut tick: Tick,
        members: Option<&MemberCache>,
    ) -> Result<TickEvents, HistogramError> {
        let events = match &self.input {
            Input::Users { values, .. } => {
                let held = tick.users.iter().filter(|(_, value)| **value != NO_CELL);
                match members {
                    None => {
                        let held = held.map(|(_, value)| *value);
                        TickEvents::Histogram(seal_histogram(account, closing, held, values.count())?)
                    }
                    Some(members) => {
                        // Users without a class are in no count.
                        let held = held
                            .filter_map(|(user, value)| Some((u32::from(members.class_at(*user, closing)?), *value)));
                        let classes: Vec<u32> = members.classes().numbers().collect();
                        let histograms = seal_class_histograms(account, closing, held, &classes, values.count())?;
                        TickEvents::ByClass(histograms, members.count(closing))
                    }
                }
            }
            Input::Numbers { intake } => {
                let sealed = tick.reading.take().map(|text| intake.seal(account, closing, &text));
                sealed.map_or(TickEvents::Empty, TickEvents::Reading)
            }
        };
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
    tick: &mut Tick,
    values: &Values,
    key: UserKey,
    most: usize,
    event: CuratorEvent,
) -> Result<(), EventRejection> {
    let Some(mut user) = event.user.filter(|user| (1..=MAX_USER).contains(&user.len())) else {
        return Err(EventRejection::User { expected: "a name of 1 to 256 bytes" });
    };
    let mut name = event.value;
    let value = values.find(&name);
    name.zeroize();
    let hash = key.hash(&user);
    user.zeroize();
    let has_room = tick.users.len() < most;
    // The answer is the same for a known user and for a full buffer.
    if let Entry::Vacant(empty) = tick.users.entry(hash)
        && has_room
    {
        // A value outside the domain is in no cell, which changes one count by one, as leaving does.
        empty.insert(value.unwrap_or(NO_CELL));
    }
    Ok(())
}

fn push_number(tick: &mut Tick, event: CuratorEvent) -> Result<(), EventRejection> {
    if event.user.is_some() {
        return Err(EventRejection::User { expected: "none, for this is a stream of numbers" });
    }
    if tick.reading.is_some() {
        return Err(EventRejection::Reading);
    }
    tick.reading = Some(Zeroizing::new(event.value));
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
        buffer.open(7);
        let push = |user: &str| {
            let event = CuratorEvent { user: Some(user.to_owned()), value: "in".to_owned() };
            buffer.push(7_000, None, vec![event])
        };
        for user in ["anna", "bert", "cleo", "anna", "dora"] {
            assert_eq!(push(user), (1, None), "{user}");
        }
        assert_eq!(buffer.lock().open[&7].users.len(), 2);
    }
}
