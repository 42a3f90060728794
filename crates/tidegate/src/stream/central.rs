//! Central streams: a curator sees each user's value, under one guarantee for all or one for each class.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{ClassHistograms, seal_histogram};
use tidegate_kernel::{Randomness, Sealed};

use super::users::{Present, Users};
use super::{Released, StreamError, other_settings};
use crate::central::classes::{ClassError, Registry};
use crate::central::personal_track::PersonalTrack;
use crate::central::{Central, Personal};
use crate::spec::Personalised;

/// Values under one guarantee for all.
pub(super) struct Shared {
    pub(super) mechanism: Central,
    /// The open timestamp, its values, and who they are of.
    open: Option<(u64, Vec<u32>)>,
    present: Present,
    pub(super) last: Option<u64>,
}

impl Shared {
    pub(super) fn new(mechanism: Central) -> Self {
        Self { mechanism, open: None, present: Present::default(), last: None }
    }

    pub(super) fn load(self, (last, mechanism): (Option<u64>, Central)) -> Result<Self, StreamError> {
        if (mechanism.settings(), mechanism.kind()) != (self.mechanism.settings(), self.mechanism.kind()) {
            return Err(other_settings());
        }
        Ok(Self { mechanism, last, ..self })
    }

    pub(super) const fn save(&self) -> (Option<u64>, &Central) {
        (self.last, &self.mechanism)
    }

    /// The timestamp whose entries are gathered.
    pub(super) fn open_timestamp(&self) -> Option<u64> {
        self.open.as_ref().map(|(timestamp, _)| *timestamp)
    }

    pub(super) fn add(&mut self, timestamp: u64, user: &str, value: u32) -> Result<(), StreamError> {
        if !self.present.insert(user) {
            return Err(StreamError::second_value());
        }
        self.open.get_or_insert((timestamp, Vec::new())).1.push(value);
        Ok(())
    }

    pub(super) fn open_empty(&mut self, timestamp: u64) {
        self.open = Some((timestamp, Vec::new()));
    }

    /// Releases a whole timestamp.
    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        out.releases.extend(self.mechanism.push(histogram, random)?);
        self.last = Some(histogram.timestamp());
        Ok(())
    }

    pub(super) fn push_counts(
        &mut self,
        timestamp: u64,
        counts: Vec<u64>,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        let sealed = Sealed::at(self.mechanism.ledger().account(), timestamp, counts);
        self.push(&sealed, random, out)
    }

    pub(super) fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        let Some((timestamp, values)) = self.open.take() else { return Ok(()) };
        self.present.clear();
        let domain = self.mechanism.settings().domain;
        let sealed = seal_histogram(self.mechanism.ledger().account(), timestamp, values, domain)?;
        self.push(&sealed, random, out)
    }
}

/// Values under a guarantee for each class.
pub(super) struct ByClass {
    pub(super) mechanism: Personalised,
    pub(super) registry: Registry,
    users: Users<()>,
    /// The open timestamp, pairs of user and value, and the users of these.
    open: Option<(u64, Vec<(u32, u32)>)>,
    present: HashSet<u32>,
    pub(super) last: Option<u64>,
}

/// The saved mechanism of [`ByClass`].
#[derive(Debug, Serialize)]
enum Saving<'a> {
    Budgets(&'a Personal),
    Track(&'a PersonalTrack),
}

/// The loaded mechanism of [`ByClass`].
#[derive(Debug, Deserialize)]
enum Loaded {
    Budgets(Box<Personal>),
    Track(Box<PersonalTrack>),
}

/// The saved form of [`ByClass`].
#[derive(Debug, Serialize)]
pub(super) struct SavingByClass<'a> {
    last: Option<u64>,
    mechanism: Saving<'a>,
    registry: &'a Registry,
    users: Vec<(&'a str, &'a ())>,
}

/// The loaded form of [`ByClass`].
#[derive(Debug, Deserialize)]
pub(super) struct SavedByClass {
    last: Option<u64>,
    mechanism: Loaded,
    registry: Registry,
    users: Vec<(String, ())>,
}

impl ByClass {
    pub(super) fn new(mechanism: Personalised) -> Self {
        let registry = Registry::new(mechanism.classes().clone());
        Self { mechanism, registry, users: Users::default(), open: None, present: HashSet::new(), last: None }
    }

    pub(super) fn load(self, saved: SavedByClass) -> Result<Self, StreamError> {
        let SavedByClass { last, mechanism, registry, users } = saved;
        let mechanism = match mechanism {
            Loaded::Budgets(mechanism) => Personalised::Budgets(mechanism),
            Loaded::Track(mechanism) => Personalised::Track(mechanism),
        };
        if !self.mechanism.is_like(&mechanism) || self.mechanism.classes() != registry.classes() {
            return Err(other_settings());
        }
        Ok(Self { mechanism, registry, users: Users::of(users), last, ..self })
    }

    pub(super) fn save(&self) -> SavingByClass<'_> {
        let mechanism = match &self.mechanism {
            Personalised::Budgets(mechanism) => Saving::Budgets(mechanism),
            Personalised::Track(mechanism) => Saving::Track(mechanism),
        };
        SavingByClass { last: self.last, mechanism, registry: &self.registry, users: self.users.saving() }
    }

    /// The timestamp whose entries are gathered.
    pub(super) fn open_timestamp(&self) -> Option<u64> {
        self.open.as_ref().map(|(timestamp, _)| *timestamp)
    }

    /// Enrols a user in a class, or moves the user to it.
    pub(super) fn enrol(&mut self, user: &str, class: u16) -> Result<(), StreamError> {
        match self.users.find(user) {
            None => {
                self.registry.join(class)?;
                self.users.add(user, ());
                Ok(())
            }
            Some(number) => {
                let number = u32::try_from(number).map_err(|_| ClassError::Full)?;
                match self.registry.rejoin(number, class) {
                    Err(ClassError::IsThere { .. }) => Ok(self.registry.change(number, class)?),
                    rejoined => Ok(rejoined?),
                }
            }
        }
    }

    /// Lets all users leave who are not among these.
    pub(super) fn keep_only(&mut self, present: &HashSet<&str>) -> Result<(), StreamError> {
        for (number, (name, ())) in (0..).zip(self.users.iter()) {
            if !present.contains(name) {
                match self.registry.leave(number) {
                    Ok(()) | Err(ClassError::HasLeft { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// The number of an enrolled user.
    pub(super) fn find(&self, user: &str) -> Result<u32, StreamError> {
        let number = self.users.find(user).and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(StreamError::not_enrolled)
    }

    pub(super) fn add(&mut self, timestamp: u64, number: u32, value: u32) -> Result<(), StreamError> {
        if !self.present.insert(number) {
            return Err(StreamError::second_value());
        }
        self.open.get_or_insert((timestamp, Vec::new())).1.push((number, value));
        Ok(())
    }

    pub(super) fn open_empty(&mut self, timestamp: u64) {
        self.open = Some((timestamp, Vec::new()));
    }

    /// Releases a whole timestamp, of users whose classes somebody else keeps.
    pub(super) fn push(
        &mut self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        out.releases.extend(self.mechanism.push(histograms, members, random)?);
        self.last = Some(histograms.timestamp());
        Ok(())
    }

    pub(super) fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        let Some((timestamp, values)) = self.open.take() else { return Ok(()) };
        self.present.clear();
        self.registry.begin(timestamp)?;
        out.releases.extend(self.mechanism.push_registered(&self.registry, timestamp, values, random)?);
        self.last = Some(timestamp);
        Ok(())
    }
}
