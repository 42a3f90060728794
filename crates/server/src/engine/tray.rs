//! [`Tray`]: what a curator is told during a tick, in memory only.

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

/// How many users a tray holds at most. Further ones are acknowledged, but not counted: a refusal would tell who else
/// is there.
pub const MAX_USERS: usize = 20_000_000;

/// In the place of a value that is outside the domain; no domain is so large.
const NO_CELL: u32 = u32::MAX;

/// How long a user's name may be, in bytes.
pub const MAX_USER: usize = 256;

/// What a curator is told: of which user, where the stream is one of users' values, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The user; for a stream of users' values.
    pub user: Option<String>,
    /// A value of the domain, by name or number; for a stream of numbers, the number with all its digits. Empty where
    /// it is neither. Whatever it is, it is taken: neither the answer nor whether there is a release depends on it.
    pub value: String,
}

/// Why something that a curator was told is not taken. Of what it was, nothing is repeated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTold {
    /// The tick has not begun here, or is over: its beginning may have been missed.
    #[error("nothing is taken at present: the first whole tick begins soon")]
    NotOpen,
    /// A user is missing, or there is one where there are none.
    #[error("user: {expected}")]
    User {
        /// What was expected.
        expected: &'static str,
    },
    /// It is about another tick than the one that is open; or does not say which it is about, so that whoever sends it
    /// again cannot tell whether it is taken twice.
    #[error("timestamp: expected {open}, the tick that is open")]
    Timestamp {
        /// The tick that is open.
        open: u64,
    },
    /// There is a reading already.
    #[error("value: this tick has a reading already")]
    Reading,
}

/// What a curator was told in a tick, ready for its mechanism.
#[derive(Debug)]
pub(crate) enum Taken {
    Histogram(Sealed<Vec<u64>>),
    Reading(Sealed<i64>),
    /// No reading was told, so there is nothing to release.
    Nothing,
}

/// What a curator is told, kept in memory only, and wiped when the tick is over. It opens with a whole tick: what was
/// told to a process that is no more is lost, and a tick of which something may be missing is not released.
#[derive(Debug)]
pub struct Tray {
    schedule: Schedule,
    form: Form,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
enum Form {
    Users { values: Values, key: [u8; 16], most: usize },
    Numbers { intake: Intake },
}

#[derive(Default)]
struct Inside {
    open: Option<u64>,
    /// Of the lease under which it was opened.
    epoch: u64,
    /// Under a keyed hash of their names, what users hold. A user counts once, whatever is told.
    users: HashMap<u128, u32>,
    reading: Option<Zeroizing<String>>,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Inside").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Tray {
    /// The tray of a stream, closed; `None` where nobody is trusted with raw values.
    ///
    /// # Errors
    /// A declaration that cannot be followed, and [`NoEntropy`] in the words of the operating system.
    pub fn of(declaration: &Declaration) -> Result<Option<Self>, TrayError> {
        let form = match &declaration.spec {
            StreamSpec::Central(spec) => {
                let mut key = [0; 16];
                getrandom::fill(&mut key).map_err(|error| TrayError::Entropy(error.into()))?;
                Form::Users { values: spec.values().map_err(DeclarationError::from)?, key, most: MAX_USERS }
            }
            StreamSpec::Scalar(spec) => Form::Numbers { intake: spec.intake().map_err(DeclarationError::from)? },
            _ => return Ok(None),
        };
        Ok(Some(Self { schedule: declaration.schedule(), form, inside: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which timestamp things are told about at present.
    pub fn open(&self) -> Option<u64> {
        self.lock().open
    }

    /// Takes in what is told at a moment (in milliseconds since 1970) about a timestamp, one after the other. Those
    /// before the first that is not taken are taken; how many, and why not that one. About a stream of numbers the
    /// timestamp must be said: what is sent again after its tick would otherwise count in the next one too. Of a user
    /// only the first value counts, and whoever tells another is not told so: the answer would give the first away.
    pub fn tell(&self, now: u64, about: Option<u64>, told: Vec<Told>) -> (usize, Option<NotTold>) {
        let mut inside = self.lock();
        let present = self.schedule.timestamp(now);
        let Some(timestamp) = inside.open.filter(|open| Some(*open) == present) else {
            return (0, Some(NotTold::NotOpen));
        };
        if about.map_or(matches!(self.form, Form::Numbers { .. }), |about| about != timestamp) {
            return (0, Some(NotTold::Timestamp { open: timestamp }));
        }
        let all = told.len();
        for (count, told) in told.into_iter().enumerate() {
            let taken = match &self.form {
                Form::Users { values, key, most } => tell_user(&mut inside, values, key, *most, told),
                Form::Numbers { .. } => tell_number(&mut inside, told),
            };
            if let Err(error) = taken {
                return (count, Some(error));
            }
        }
        (all, None)
    }

    /// Sets the lease under which the stream is driven from now on. Forgets the events of another lease: another
    /// process may have taken the rest.
    pub(crate) fn claim(&self, epoch: u64) {
        if std::mem::replace(&mut self.lock().epoch, epoch) != epoch {
            self.close();
        }
    }

    /// Forgets what was told: another process drives the stream.
    pub fn close(&self) {
        let mut users = {
            let mut inside = self.lock();
            (inside.open, inside.reading) = (None, None);
            std::mem::take(&mut inside.users)
        };
        users.values_mut().for_each(Zeroize::zeroize);
    }

    /// Ends the open timestamp, if it is this one, seals its events for the account of the stream's ledger, and begins
    /// another. `None` where another timestamp is open, for then something may be missing.
    pub(crate) fn turn_over(
        &self,
        account: Option<Account>,
        ended: u64,
        begun: Option<u64>,
    ) -> Result<Option<Taken>, HistogramError> {
        let mut inside = self.lock();
        let (mut users, reading) = (std::mem::take(&mut inside.users), inside.reading.take());
        let was_open = std::mem::replace(&mut inside.open, begun) == Some(ended);
        drop(inside);
        let taken = match (&self.form, account.filter(|_| was_open)) {
            (_, None) => None,
            (Form::Users { values, .. }, Some(account)) => {
                let held = users.values().copied().filter(|value| *value != NO_CELL);
                Some(Taken::Histogram(seal_histogram(account, ended, held, values.count())?))
            }
            (Form::Numbers { intake }, Some(account)) => {
                let sealed = reading.map(|text| intake.seal(account, ended, &text));
                Some(sealed.map_or(Taken::Nothing, Taken::Reading))
            }
        };
        users.values_mut().for_each(Zeroize::zeroize);
        Ok(taken)
    }
}

/// Why there is no tray.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrayError {
    /// The declaration cannot be followed.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// There is no randomness for a key.
    #[error(transparent)]
    Entropy(NoEntropy),
}

fn tell_user(inside: &mut Inside, values: &Values, key: &[u8; 16], most: usize, told: Told) -> Result<(), NotTold> {
    let Some(mut user) = told.user.filter(|user| (1..=MAX_USER).contains(&user.len())) else {
        return Err(NotTold::User { expected: "a name of 1 to 256 bytes" });
    };
    let mut name = told.value;
    let value = values.find(&name);
    name.zeroize();
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(user.as_bytes());
    user.zeroize();
    let has_room = inside.users.len() < most;
    // Whether the user is known, or there is no room, the answer is the same.
    if let Entry::Vacant(empty) = inside.users.entry(hasher.finish128().as_u128())
        && has_room
    {
        // A user whose value is outside the domain is in no cell, which moves a count by one, as leaving does.
        empty.insert(value.unwrap_or(NO_CELL));
    }
    Ok(())
}

fn tell_number(inside: &mut Inside, told: Told) -> Result<(), NotTold> {
    if told.user.is_some() {
        return Err(NotTold::User { expected: "none, for this is a stream of numbers" });
    }
    if inside.reading.is_some() {
        return Err(NotTold::Reading);
    }
    inside.reading = Some(Zeroizing::new(told.value));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_full_tray_acknowledges_all_users_alike() {
        let declaration = json!({ "name": "rooms", "tick": 1, "spec": {
            "family": "central", "mechanism": "uniform", "epsilon": 1, "window": 2, "domain": ["in", "out"],
        } });
        let mut tray = Tray::of(&serde_json::from_value(declaration).unwrap()).unwrap().unwrap();
        let Form::Users { most, .. } = &mut tray.form else { unreachable!("a stream of users") };
        *most = 2;
        tray.turn_over(None, 7, Some(7)).unwrap();
        let tell = |user: &str| {
            let told = Told { user: Some(user.to_owned()), value: "in".to_owned() };
            tray.tell(7_000, None, vec![told])
        };
        for user in ["anna", "bert", "cleo", "anna", "dora"] {
            assert_eq!(tell(user), (1, None), "{user}");
        }
        assert_eq!(tray.lock().users.len(), 2);
    }
}
