//! [`Machine`]: the running mechanism of a stream, whatever its family.
//!
//! This is the only file of the service that dispatches over mechanisms.

use tidegate::central::Central;
use tidegate::kernel::oracle::Estimate;
use tidegate::kernel::{Account, Epsilon, Question, Randomness, Sealed, VaultKey};
use tidegate::local::{Local, Step};
use tidegate::release::Release;
use tidegate::scalar::{SavedScalar, Scalar};
use tidegate::spec::{CentralMachine, StreamSpec};

use super::DriveError;
use super::state::{decode, encode, unreadable};
use crate::stream::{Declaration, DeclarationError};

/// A running mechanism.
#[derive(Debug)]
pub(crate) struct Machine(Family);

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // a handful of streams
enum Family {
    Local(Local),
    Central(Central),
    Scalar(Scalar),
}

impl Machine {
    /// Starts the mechanism of a declaration.
    ///
    /// # Errors
    /// An invalid spec, or a mechanism that the service does not run.
    pub(crate) fn new(declaration: &Declaration) -> Result<Self, DeclarationError> {
        let not_served = |mechanism: &str, why| DeclarationError::NotServed { mechanism: mechanism.to_owned(), why };
        Ok(Self(match &declaration.spec {
            StreamSpec::Local(spec) => Family::Local(spec.mechanism()?),
            StreamSpec::Scalar(spec) => Family::Scalar(spec.mechanism()?),
            StreamSpec::Central(spec) => match spec.mechanism()? {
                CentralMachine::One(central) => Family::Central(central),
                _ => return Err(not_served(spec.mechanism.name(), "run user classes with `tidegate release`")),
            },
            other => {
                return Err(not_served(other.family(), "each device releases its own sequence, by `tidegate release`"));
            }
        }))
    }

    /// Opens a timestamp of a stream of devices.
    pub(super) fn open(&mut self, timestamp: u64) -> Result<Step, DriveError> {
        Ok(self.local()?.open(timestamp)?)
    }

    /// Takes the estimates for the open questions, in their order.
    pub(super) fn answer(
        &mut self,
        questions: &[Question],
        estimates: &[Option<Estimate>],
    ) -> Result<Step, DriveError> {
        Ok(self.local()?.answer(questions, estimates)?)
    }

    /// Returns the questions that wait for answers.
    pub(super) fn open_questions(&self) -> &[Question] {
        match &self.0 {
            Family::Local(local) => local.open_questions(),
            Family::Central(_) | Family::Scalar(_) => &[],
        }
    }

    /// Takes a tick's histogram of a curator.
    pub(super) fn push_histogram(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, DriveError> {
        match &mut self.0 {
            Family::Central(central) => Ok(central.push(histogram, random)?),
            _ => Err(DriveError::Input("histograms")),
        }
    }

    /// Takes a tick's reading of a curator.
    pub(super) fn push_reading(
        &mut self,
        reading: Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, DriveError> {
        match &mut self.0 {
            Family::Scalar(scalar) => Ok(scalar.push(reading, random)?),
            _ => Err(DriveError::Input("readings")),
        }
    }

    /// Returns how many readings wait to be released.
    pub(super) fn waiting(&self) -> usize {
        match &self.0 {
            Family::Scalar(scalar) => scalar.waiting(),
            Family::Local(_) | Family::Central(_) => 0,
        }
    }

    /// Releases the readings that wait.
    pub(super) fn finish(&mut self, random: &mut impl Randomness) -> Result<Vec<Release>, DriveError> {
        match &mut self.0 {
            Family::Scalar(scalar) => Ok(scalar.finish(random)?),
            Family::Local(_) | Family::Central(_) => Ok(Vec::new()),
        }
    }

    /// Returns the account of the curator's ledger; `None` where devices keep their own ledgers.
    pub(super) const fn account(&self) -> Option<Account> {
        match &self.0 {
            Family::Local(_) => None,
            Family::Central(central) => Some(central.ledger().account()),
            Family::Scalar(scalar) => Some(scalar.ledger().account()),
        }
    }

    /// Returns the share of the budget that is left at a timestamp. Population division counts the users who may be
    /// asked. `None` where each timestamp has its own budget.
    #[allow(clippy::cast_precision_loss)] // a share
    pub(super) fn budget_left(&self, timestamp: u64) -> Option<f64> {
        match &self.0 {
            Family::Local(local) => Some(local.left(timestamp)),
            Family::Central(central) => {
                let ledger = central.ledger();
                let left = ledger.remaining(timestamp).map_or(0, Epsilon::units);
                Some(left as f64 / ledger.budget().units() as f64)
            }
            Family::Scalar(_) => None,
        }
    }

    /// Encodes the state. Readings that wait are encrypted with the key.
    pub(super) fn save(&self, stream: &str, key: Option<&VaultKey>) -> Result<Vec<u8>, DriveError> {
        match &self.0 {
            Family::Local(local) => encode(local, stream),
            Family::Central(central) => encode(central, stream),
            Family::Scalar(scalar) => {
                let key = key.ok_or_else(|| DriveError::NoKey(stream.to_owned()))?;
                encode(&scalar.save(key)?, stream)
            }
        }
    }

    /// Decodes the state of the mechanism that was declared.
    pub(super) fn load(bytes: &[u8], declaration: &Declaration, key: Option<&VaultKey>) -> Result<Self, DriveError> {
        let stream = &declaration.name;
        let expected = Self::new(declaration)?;
        let (loaded, is_same) = match &expected.0 {
            Family::Local(new) => {
                let local: Local = decode(bytes, stream)?;
                let is_same = (local.kind(), local.settings()) == (new.kind(), new.settings());
                (Family::Local(local), is_same)
            }
            Family::Central(new) => {
                let central: Central = decode(bytes, stream)?;
                let is_same = (central.kind(), central.settings()) == (new.kind(), new.settings());
                (Family::Central(central), is_same)
            }
            Family::Scalar(new) => {
                let key = key.ok_or_else(|| DriveError::NoKey(stream.to_owned()))?;
                let scalar = Scalar::load(decode::<SavedScalar>(bytes, stream)?, key)?;
                let is_same = (scalar.kind(), scalar.settings()) == (new.kind(), new.settings());
                (Family::Scalar(scalar), is_same)
            }
        };
        if !is_same {
            return Err(unreadable(stream, "its mechanism or settings differ from the declaration"));
        }
        Ok(Self(loaded))
    }

    fn local(&mut self) -> Result<&mut Local, DriveError> {
        match &mut self.0 {
            Family::Local(local) => Ok(local),
            _ => Err(DriveError::Input("reports of devices")),
        }
    }
}
