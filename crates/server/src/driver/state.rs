//! Saved state of a stream's driver: version, clock and mechanism, encoded with postcard.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate::kernel::VaultKey;
use tidegate::stream::Stream;
use tidegate_device::clock::ClockGuard;
use tidegate_kernel::oracle::Aggregate;

use super::{DriveError, SuspicionKind};
use crate::store::{Counted, Mark, Missing, StreamRecord};
use crate::stream::Declaration;

pub(super) const VERSION: u16 = 4;

/// Version of the states without `tally`, which are read.
const UNTALLIED: u16 = 3;

/// Version of the states without `suspicious`, which are read.
const UNSUSPECTED: u16 = 2;

/// Version of the states that hold a mechanism and its queries, which are read.
const OF_MECHANISM: u16 = 1;

/// The fields' order is the saved form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedState {
    pub(super) version: u16,
    pub(super) last: Option<u64>,
    pub(super) not_before: u64,
    pub(super) due: Option<u64>,
    pub(super) round: u64,
    pub(super) pace: Option<(ClockGuard, [u8; 16])>,
    pub(super) stream: Vec<u8>,
    pub(super) suspicious: Vec<SuspicionKind>,
    pub(super) tally: Tally,
}

/// Reports of a timestamp that were counted, and those that were not counted in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tally {
    pub(super) missing: Missing,
    pub(super) counted: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { missing: Missing::NOTHING, counted: 0 }
    }
}

impl Tally {
    /// Adds a question's counts.
    pub(super) fn add(&mut self, counted: &Counted) {
        self.counted += counted.total.as_ref().map_or(0, Aggregate::reports);
        self.missing = match (self.missing, counted.missing) {
            (Missing::Reports(one), Missing::Reports(other)) => Missing::Reports(one.saturating_add(other)),
            _ => Missing::Unknown,
        };
    }

    /// Returns the share of the reports that was counted, at least; `None` where that is unknown.
    #[allow(clippy::cast_precision_loss)] // a share
    pub(super) fn share(&self) -> Option<f64> {
        match self.missing {
            Missing::NOTHING => Some(1.0),
            Missing::Reports(missing) => Some(self.counted as f64 / (self.counted as f64 + missing as f64)),
            Missing::Unknown => None,
        }
    }
}

/// State of version 1. The fields' order is the saved form.
#[derive(Deserialize)]
struct StateOfMechanism {
    _version: u16,
    last: Option<u64>,
    not_before: u64,
    due: Option<u64>,
    round: u64,
    pace: Option<(ClockGuard, [u8; 16])>,
    mechanism: Vec<u8>,
    queries: Option<Vec<u8>>,
}

/// Encodes the first state of a stream, for [`Store::create`](crate::store::Store::create).
///
/// The driver opens no timestamp before `not_before`; a stream that is reset after a restored backup needs it.
///
/// # Errors
/// An invalid declaration.
pub fn first_state(declaration: &Declaration, not_before: u64, key: Option<&VaultKey>) -> Result<Vec<u8>, DriveError> {
    declaration.check()?;
    let stream = save_stream(&declaration.new_stream()?, &declaration.name, key)?;
    let saved = SavedState {
        version: VERSION,
        last: None,
        not_before,
        due: None,
        round: 0,
        pace: None,
        stream,
        suspicious: Vec::new(),
        tally: Tally::default(),
    };
    encode(&saved, &declaration.name)
}

/// Returns the high-water mark of a stream: its version and its last opened timestamp.
///
/// # Errors
/// A state that cannot be decoded.
pub fn progress(stream: &StreamRecord) -> Result<Mark, DriveError> {
    Ok(Mark { version: stream.version, timestamp: load(stream)?.last })
}

/// Returns the first timestamp of a stream that has not begun.
///
/// # Errors
/// A state that cannot be decoded.
pub fn next_timestamp(stream: &StreamRecord) -> Result<u64, DriveError> {
    let SavedState { last, not_before, .. } = load(stream)?;
    Ok(last.map_or(0, |last| last.saturating_add(1)).max(not_before))
}

/// Checks that this program can continue a stream.
///
/// # Errors
/// [`DriveError::State`] where its state is of a form that this program does not read, and what else the state lacks.
pub fn check_state(stream: &StreamRecord, key: Option<&VaultKey>) -> Result<(), DriveError> {
    let declaration: Declaration =
        serde_json::from_str(&stream.declaration).map_err(|error| unreadable(&stream.name, error))?;
    declaration.load_stream(&load(stream)?.stream, key).map(drop)
}

pub(super) fn load(stream: &StreamRecord) -> Result<SavedState, DriveError> {
    let (version, _): (u16, _) =
        postcard::take_from_bytes(&stream.state).map_err(|error| unreadable(&stream.name, error))?;
    match version {
        VERSION => decode(&stream.state, &stream.name),
        // The tally comes last, and nothing counted and nothing missing are three zeros.
        UNTALLIED => decode(&[&stream.state[..], &[0; 3]].concat(), &stream.name),
        // Before it comes the list, and an empty one is a zero.
        UNSUSPECTED => decode(&[&stream.state[..], &[0; 4]].concat(), &stream.name),
        OF_MECHANISM => {
            let earlier: StateOfMechanism = decode(&stream.state, &stream.name)?;
            let StateOfMechanism { _version: _, last, not_before, due, round, pace, mechanism, queries } = earlier;
            let declaration: Declaration =
                serde_json::from_str(&stream.declaration).map_err(|error| unreadable(&stream.name, error))?;
            // The last timestamp that was opened may not be over.
            let over = last.and_then(|last| last.checked_sub(1));
            let saved = Stream::saved_with_mechanism(&declaration.spec, over, &mechanism, queries.as_deref());
            let saved = saved.map_err(|error| DriveError::of_state(error, &stream.name))?;
            let (version, suspicious, tally) = (VERSION, Vec::new(), Tally::default());
            Ok(SavedState { version, last, not_before, due, round, pace, stream: saved, suspicious, tally })
        }
        _ => {
            let problem = format!("its version is {version}, and this program reads versions up to {VERSION}");
            Err(unreadable(&stream.name, problem))
        }
    }
}

pub(super) fn encode(value: &impl Serialize, stream: &str) -> Result<Vec<u8>, DriveError> {
    postcard::to_allocvec(value).map_err(|error| unreadable(stream, error))
}

pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], stream: &str) -> Result<T, DriveError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(unreadable(stream, "it has bytes after its end")),
        Err(error) => Err(unreadable(stream, error)),
    }
}

/// Encodes the running stream. Readings that wait are encrypted with the key.
pub(super) fn save_stream(stream: &Stream, name: &str, key: Option<&VaultKey>) -> Result<Vec<u8>, DriveError> {
    stream.save(key).map_err(|error| DriveError::of_state(error, name))
}

pub(super) fn unreadable(stream: &str, problem: impl fmt::Display) -> DriveError {
    DriveError::State { stream: stream.to_owned(), problem: problem.to_string() }
}
