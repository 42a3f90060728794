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
