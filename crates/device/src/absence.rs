//! Absences: what a device believes of the time while it was away.
//!
//! A page or an app runs for moments, and each run has a steady clock of its own. So nothing on the device says how
//! much time has passed between two runs but the wall clock, which can be set. By the strict rule all spends then count
//! as made now, and a device that is opened briefly at each timestamp answers nothing for ever. With [`AbsenceTerms`],
//! its owner's consent, a [`StagedAgent`](crate::staged::StagedAgent) believes more.
//!
#![doc = include_str!("../proofs/absences.md")]

use std::num::NonZeroU64;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use tidegate_kernel::{Randomness, Window};

use crate::clock::{ClockReading, DRIFT, Steady};
use crate::enrolment::StreamPolicy;
use crate::wire::{bytes_of, digits_of};

/// Longest time from a [`TimeRequest`] to its answer, in seconds of the steady clock.
pub const ROUND_TRIP: u64 = 5;

/// How long a signed time counts after its arrival, in seconds of the steady clock.
pub const FRESH: u64 = 60;

/// Seconds that the wall clock may gain on the service's time.
///
/// Two right clocks differ by less: a signed time is late by up to the round trip and three roundings.
pub const LEEWAY: u64 = 10;

/// Seconds by which the signed times of a right service may misjudge the time between two answers: the round trip, and
/// four roundings.
const ERROR: u64 = ROUND_TRIP + 4;

/// The owner's consent: which clocks count while the device is away, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbsenceTerms {
    /// The clocks that count.
    pub trusts: AbsenceTrust,
    /// End of the consent, in seconds since 1970 by the wall clock. The device then answers nothing.
    pub until: u64,
}

/// The clocks that count while a device is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsenceTrust {
    /// The wall clock and the service's signed time: as much time has passed as both say.
    SignedTime {
        /// The Ed25519 key of the service's operator.
        key: [u8; 32],
    },
    /// The wall clock alone.
    WallClock,
}

/// What terms bound for a policy, counted from a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsenceBounds {
    /// Seconds that are certain to pass between two answers whose timestamps share no window, if a clock that counts is
    /// right. Any shorter stretch of time loses at most epsilon.
    pub stretch: u64,
    /// How often epsilon can be lost in all until the consent ends, however the clocks are set.
    pub windows: u64,
}

impl AbsenceTerms {
    /// The bounds for a device that is enrolled now.
    pub fn bounds(&self, policy: &StreamPolicy, now: u64) -> AbsenceBounds {
        let Window::Timestamps(window) = policy.protects.window else {
            return AbsenceBounds { stretch: u64::MAX, windows: 1 };
        };
        let certain = (window.get() - 1).saturating_mul(policy.ticks.seconds.get());
        let stretch = match self.trusts {
            AbsenceTrust::SignedTime { .. } => {
                let passed = certain.saturating_sub(LEEWAY);
                (passed - passed.div_ceil(DRIFT + 1)).saturating_sub(ERROR)
            }
            AbsenceTrust::WallClock => certain,
        };
        let timestamp = |moment| policy.ticks.timestamp(moment).unwrap_or(0);
        let timestamps = timestamp(self.until).saturating_sub(timestamp(now)).saturating_add(1);
        AbsenceBounds { stretch, windows: timestamps.div_ceil(window.get()) }
    }

    /// The terms in words, to show to the owner before the device is enrolled.
    pub fn statement(&self, policy: &StreamPolicy, now: u64) -> String {
        let AbsenceBounds { stretch, windows } = self.bounds(policy, now);
        let epsilon = policy.protects.epsilon;
        let (clocks, right, wrong) = match self.trusts {
            AbsenceTrust::SignedTime { .. } => (
                "its own clock and the service's signed time, whichever says that less time has passed",
                "If one of the two is right",
                "both run",
            ),
            AbsenceTrust::WallClock => ("its own clock alone", "If it is right", "it runs"),
        };
        format!(
            "While it is away, this device goes by {clocks}. The reports about any window of timestamps lose at most \
             epsilon {epsilon}, whatever clocks say. {right}, so do the reports of any {stretch} seconds. Each time \
             {wrong} ahead by about as much, epsilon can be lost once more in that time. However clocks are set, \
             epsilon is lost at most {windows} times until this consent ends, unless the device's storage is deleted."
        )
    }
}

/// A request for the service's time: `GET /v1/time?nonce=...`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeRequest {
    /// 32 hexadecimal digits, drawn for this request.
    pub nonce: String,
}

/// The service's time, signed for one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedTime {
    /// The nonce of the request.
    pub nonce: String,
    /// Seconds since 1970.
    pub time: u64,
    /// The operator's Ed25519 signature, 128 hexadecimal digits.
    pub signature: String,
}

impl SignedTime {
    /// Signs a time. `None` if the nonce has not 32 hexadecimal digits.
    pub fn sign(nonce: &str, time: u64, operator: &SigningKey) -> Option<Self> {
        let signature = digits_of(&operator.sign(&message(nonce, time)?).to_bytes());
        Some(Self { nonce: nonce.to_owned(), time, signature })
    }

    /// Whether the holder of a key has signed it.
    fn is_signed_by(&self, key: &[u8; 32]) -> bool {
        let signature = bytes_of(&self.signature).and_then(|bytes| Signature::from_slice(&bytes).ok());
        let (Ok(key), Some(signature)) = (VerifyingKey::from_bytes(key), signature) else { return false };
        message(&self.nonce, self.time).is_some_and(|message| key.verify_strict(&message, &signature).is_ok())
    }
}

/// The signed message: nonce and time after a unique header.
fn message(nonce: &str, time: u64) -> Option<Vec<u8>> {
    let nonce = bytes_of(nonce).filter(|bytes| bytes.len() == 16)?;
    Some([b"tidegate time 1\n".as_slice(), &nonce, &time.to_le_bytes()].concat())
}

/// Why a signed time does not count. Ask again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum TimeError {
    /// No time was asked for with this nonce, in this run of the steady clock.
    #[error("this time was not asked for, or was asked for in another run of the program")]
    NotAsked,
    /// The answer took too long.
    #[error("the service's time came after {seconds} s, and counts within {ROUND_TRIP} s only: ask again")]
    Late { seconds: u64 },
    /// The signature is not the operator's.
    #[error("the service's time is not signed by the operator that this device trusts")]
    Signature,
}

/// Outcome of a look at the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The time that passed is known to have passed. Whether the guard has begun, and must be saved.
    Known { begins: bool },
    /// The wall clock ran ahead: spends count as made so many timestamps later.
    Ahead(NonZeroU64),
    /// There is no fresh signed time.
    Unknown,
    /// The consent has ended.
    Over,
}

/// Holds the wall clock against the service's time, across runs of the steady clock.
///
/// The reference is the reading at which the wall clock was furthest behind the service's time, since it last ran
/// ahead.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AbsenceGuard {
    pub(crate) terms: AbsenceTerms,
    /// The wall clock at the reference.
    wall: u64,
    /// The service's time at the reference, at the least; `None` if it is not known.
    served: Option<u64>,
    /// The latest signed time.
    latest: u64,
    /// The open request, and when it was made.
    #[serde(skip)]
    asked: Option<(String, Steady)>,
    /// When a signed time arrived in this run.
    #[serde(skip)]
    heard: Option<(Steady, u64)>,
}

impl AbsenceGuard {
    pub(crate) const fn new(terms: AbsenceTerms, now: ClockReading) -> Self {
        Self { terms, wall: now.wall, served: None, latest: 0, asked: None, heard: None }
    }

    pub(crate) fn ask(&mut self, now: ClockReading, random: &mut impl Randomness) -> Option<TimeRequest> {
        if self.terms.trusts == AbsenceTrust::WallClock {
            return None;
        }
        let nonce = format!("{:016x}{:016x}", random.next_word(), random.next_word());
        self.asked = Some((nonce.clone(), now.steady));
        Some(TimeRequest { nonce })
    }

    pub(crate) fn hear(&mut self, now: ClockReading, said: &SignedTime) -> Result<(), TimeError> {
        let AbsenceTrust::SignedTime { key } = self.terms.trusts else { return Err(TimeError::NotAsked) };
        let asked = self.asked.take().filter(|(nonce, _)| *nonce == said.nonce);
        let (_, sent) = asked.ok_or(TimeError::NotAsked)?;
        match seconds_between(sent, now.steady).ok_or(TimeError::NotAsked)? {
            seconds if seconds > ROUND_TRIP => return Err(TimeError::Late { seconds }),
            _ => {}
        }
        if !said.is_signed_by(&key) {
            return Err(TimeError::Signature);
        }
        if said.time.saturating_add(LEEWAY) < self.latest {
            // It was ahead, or is behind: since the reference no time is known to have passed.
            (self.served, self.latest) = (None, said.time);
        }
        self.latest = self.latest.max(said.time);
        self.heard = Some((now.steady, said.time));
        Ok(())
    }

    /// The service's time at a reading, at the least.
    fn served_at(&self, now: ClockReading) -> Option<u64> {
        let (arrived, time) = self.heard?;
        let since = seconds_between(arrived, now.steady).filter(|since| *since <= FRESH)?;
        Some(time.saturating_add(since))
    }

    /// Processes a reading, for a stream with ticks of so many seconds.
    pub(crate) fn look_at(&mut self, now: ClockReading, tick: NonZeroU64) -> Passed {
        if now.wall >= self.terms.until {
            return Passed::Over;
        }
        if self.terms.trusts == AbsenceTrust::WallClock {
            return Passed::Known { begins: false };
        }
        let Some(served) = self.served_at(now) else { return Passed::Unknown };
        let begins = self.served.is_none();
        let before = *self.served.get_or_insert(served);
        // An answer that was longer on its way, or comes from another machine, knows less. What was known stays known.
        let served = served.max(before);
        let passed = served - before;
        let known = passed.saturating_add(passed / DRIFT);
        let gained = now.wall.saturating_sub(self.wall);
        let excess = gained.saturating_sub(known);
        if (1..=LEEWAY).contains(&excess) {
            return Passed::Known { begins };
        }
        (self.wall, self.served) = (now.wall, Some(served));
        NonZeroU64::new(excess.div_ceil(tick.get())).map_or(Passed::Known { begins }, Passed::Ahead)
    }
}

/// Seconds between two readings of one run.
fn seconds_between(earlier: Steady, later: Steady) -> Option<u64> {
    later.seconds.checked_sub(earlier.seconds).filter(|_| earlier.run == later.run)
}
