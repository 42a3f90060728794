//! A stream of numbers: one reading a timestamp, in the clear to a curator.

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Ledger, Randomness, Sealed, VaultKey};

use super::{Released, StreamError, other_settings};
use crate::scalar::{SavedScalar, Scalar};
use crate::spec::{Intake, ScalarSpec, SpecError};

pub(super) struct Numbers {
    pub(super) mechanism: Scalar,
    pub(super) intake: Intake,
    pub(super) last: Option<u64>,
}

/// The saved form; `L` is the ledger, borrowed or owned.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedNumbers<L> {
    last: Option<u64>,
    mechanism: SavedScalar<L>,
}

/// Kinds of version 0.1.0, which saved a kind as its place here.
const EARLIER_KINDS: [&str; 10] = [
    "constant",
    "laplace",
    "clamped",
    "pegasus",
    "pegasus_delay",
    "contin",
    "discontin",
    "comporder",
    "bucorder",
    "track",
];

/// The saved form of a mechanism, of which version 0.1.0 saved the kind as a number.
pub(super) fn with_named_kind(name: &str, saved: &[u8]) -> Result<Vec<u8>, StreamError> {
    let read: Result<((u16, u32), &[u8]), _> = postcard::take_from_bytes(saved);
    let ((version, kind), rest) = read.map_err(|_| StreamError::State("it is damaged".to_owned()))?;
    if EARLIER_KINDS.get(kind as usize) != Some(&name) {
        return Err(other_settings());
    }
    let mut named = postcard::to_allocvec(&(version, name)).map_err(|error| StreamError::State(error.to_string()))?;
    named.extend_from_slice(rest);
    Ok(named)
}

impl SavedNumbers<Ledger> {
    pub(super) const fn last(&self) -> Option<u64> {
        self.last
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        self.mechanism.ledger()
    }
}

impl Numbers {
    pub(super) fn new(spec: &ScalarSpec) -> Result<Self, SpecError> {
        Ok(Self { mechanism: spec.mechanism()?, intake: spec.intake()?, last: None })
    }

    pub(super) fn load(self, saved: SavedNumbers<Ledger>, key: &VaultKey) -> Result<Self, StreamError> {
        let mechanism = Scalar::load(saved.mechanism, key)?;
        if (mechanism.settings(), mechanism.kind()) != (self.mechanism.settings(), self.mechanism.kind()) {
            return Err(other_settings());
        }
        Ok(Self { mechanism, last: saved.last, ..self })
    }

    pub(super) fn save(&self, key: &VaultKey) -> Result<SavedNumbers<&Ledger>, StreamError> {
        Ok(SavedNumbers { last: self.last, mechanism: self.mechanism.save(key)? })
    }

    pub(super) fn push(
        &mut self,
        reading: Sealed<i64>,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        let timestamp = reading.timestamp();
        self.mechanism.push_into(reading, random, &mut out.releases)?;
        self.last = Some(timestamp);
        Ok(())
    }

    pub(super) fn pass_empty(
        &mut self,
        timestamp: u64,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        let missing = self.intake.seal_missing(self.mechanism.ledger().account(), timestamp);
        self.push(missing, random, out)
    }

    pub(super) fn finish(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        out.releases.extend(self.mechanism.finish(random)?);
        Ok(())
    }
}
