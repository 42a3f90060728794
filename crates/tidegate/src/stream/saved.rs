//! Saving and loading a [`Stream`].

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Ledger, VaultKey};

use super::central::{SavedByClass, SavingByClass};
use super::error::other_settings;
use super::local::{SavedCollector, SavingCollector};
use super::scalar::{self, SavedNumbers};
use super::sequence::Sequence;
use super::{Balance, Budget, Machine, Stream, StreamError};
use crate::central::Central;
use crate::local::Local;
use crate::local::plbu::Plbu;
use crate::sequence::model::{Background, Model, Order, Smoothing};
use crate::spec::{StandingQueries, StreamSpec};

/// The version of the saved form. Version 1, which is read too, has no filter.
const VERSION: u16 = 2;

#[allow(clippy::large_enum_variant)] // it is written at once
#[derive(Serialize)]
enum Saving<'a> {
    Local(SavingCollector<'a, Local>),
    LocalByClass(SavingCollector<'a, Plbu>),
    Central((Option<u64>, &'a Central)),
    CentralByClass(SavingByClass<'a>),
    Scalar(SavedNumbers<&'a Ledger>),
    Sequence(Vec<(&'a str, &'a Sequence)>),
}

#[allow(clippy::large_enum_variant)] // it is taken apart at once
#[derive(Deserialize)]
enum Saved {
    Local(SavedCollector<Local>),
    LocalByClass(SavedCollector<Plbu>),
    Central((Option<u64>, Central)),
    CentralByClass(SavedByClass),
    Scalar(SavedNumbers<Ledger>),
    Sequence(Vec<(String, Sequence)>),
}

/// The parts of a saved stream. Queries and filter stay encoded until it is known whether the spec still has them.
struct Earlier {
    machine: Saved,
    queries: Option<Vec<u8>>,
    filter: Option<Vec<u8>>,
}

impl Earlier {
    /// The spec with the learned model that a state's spec lacks: each user's state holds it. Without users, any model
    /// has the same budgets.
    fn with_model(&self, mut spec: StreamSpec) -> StreamSpec {
        if let (StreamSpec::Sequence(spec), Saved::Sequence(users)) = (&mut spec, &self.machine)
            && spec.mechanism.mechanism().keys.contains(&"model")
            && spec.model.is_none()
            && spec.learned.is_none()
        {
            let any = || {
                let smoothing = Smoothing { pseudo_count: 1.0, background: Background::Uniform };
                Model::learn(spec.values().ok()?.count(), [], Order::One, smoothing).ok()
            };
            spec.learned = users.first().and_then(|(_, user)| user.model().cloned()).or_else(any);
        }
        spec
    }
}

impl Stream {
    /// The whole state, to be loaded with the same spec. Readings that a scalar stream holds back are encrypted under
    /// the key. Entries of an open timestamp, and of an incomplete batch, are not saved: they were not spent on.
    ///
    /// # Errors
    /// [`StreamError::NoKey`] for a scalar stream without one.
    pub fn save(&self, key: Option<&VaultKey>) -> Result<Vec<u8>, StreamError> {
        let saving = match &self.machine {
            Machine::Local(collector) => Saving::Local(collector.save()),
            Machine::LocalByClass(collector) => Saving::LocalByClass(collector.save()),
            Machine::Central(shared) => Saving::Central(shared.save()),
            Machine::CentralByClass(by_class) => Saving::CentralByClass(by_class.save()),
            Machine::Scalar(numbers) => Saving::Scalar(numbers.save(key.ok_or(StreamError::NoKey)?)?),
            Machine::Sequence(sequences) => Saving::Sequence(sequences.save()),
        };
        let unsaved = |error: postcard::Error| StreamError::State(format!("it cannot be saved: {error}"));
        let queries = self.queries.as_ref().and_then(StandingQueries::save);
        let queries = queries.map(|queries| postcard::to_allocvec(&queries)).transpose().map_err(unsaved)?;
        let filter = self.refinement.filter().map(postcard::to_allocvec).transpose().map_err(unsaved)?;
        postcard::to_allocvec(&(VERSION, self.spec.mechanism().full_name, saving, queries, filter)).map_err(unsaved)
    }

    /// The budgets of a saved state before a timestamp, by default the one after the last. It needs no key: a ledger
    /// holds no readings.
    ///
    /// # Errors
    /// As [`Stream::load`], but for the key.
    pub fn balance(spec: StreamSpec, saved: &[u8], at: Option<u64>) -> Result<Balance, StreamError> {
        let next = |last: Option<u64>| at.unwrap_or_else(|| last.map_or(0, |last| last.saturating_add(1)));
        let earlier = Self::taken_apart(&spec, saved)?;
        let new = Self::new(earlier.with_model(spec))?;
        if let (Machine::Scalar(_), Saved::Scalar(numbers)) = (&new.machine, &earlier.machine) {
            let last = numbers.last();
            return Ok(Balance { last, users: None, budgets: vec![Budget::of(None, numbers.ledger(), next(last))] });
        }
        let stream = new.with(earlier, None)?;
        let Machine::Sequence(sequences) = &stream.machine else {
            let last = stream.last();
            return Ok(Balance { last, users: None, budgets: stream.budgets(next(last)) });
        };
        let (last, users) = (sequences.last(), Some(sequences.count()));
        let least = sequences.ledgers().map(|(last, ledger)| Budget::of(None, ledger, next(last)));
        let least = least.min_by(|one, other| one.left.total_cmp(&other.left));
        let budgets = least.map_or_else(|| stream.budgets(next(last)), |budget| vec![budget]);
        Ok(Balance { last, users, budgets })
    }

    /// Goes on with a saved state. Where the spec's queries or monitors are others than those saved, they begin anew.
    /// So does the filter of `smooth` where none was saved, or one of another form.
    ///
    /// # Errors
    /// A spec that cannot be followed, a state of another one, and [`StreamError::NoKey`].
    pub fn load(spec: StreamSpec, saved: &[u8], key: Option<&VaultKey>) -> Result<Self, StreamError> {
        let earlier = Self::taken_apart(&spec, saved)?;
        Self::new(spec)?.with(earlier, key)
    }

    /// The saved form of a stream of which only the mechanism and the queries were saved, as services of version 0.1.0
    /// did; `last` is the last timestamp that was over. [`Stream::load`] checks it.
    ///
    /// # Errors
    /// [`StreamError::State`] for a sequence stream, which these services did not run.
    pub fn saved_with_mechanism(
        spec: &StreamSpec,
        last: Option<u64>,
        mechanism: &[u8],
        queries: Option<&[u8]>,
    ) -> Result<Vec<u8>, StreamError> {
        // The place in `Saving`, and what follows the mechanism: devices of this process, of which there are none.
        let (place, devices): (u32, &[u8]) = match spec {
            StreamSpec::Local(_) => (0, &[0, 0]),
            StreamSpec::Central(_) => (2, &[]),
            StreamSpec::Scalar(_) => (4, &[]),
            StreamSpec::Sequence(_) => {
                return Err(StreamError::State("services of that version ran no sequences".to_owned()));
            }
        };
        let unsaved = |error: postcard::Error| StreamError::State(format!("it cannot be saved: {error}"));
        let head = postcard::to_allocvec(&(1_u16, spec.mechanism().full_name, place, last)).map_err(unsaved)?;
        let queries = postcard::to_allocvec(&queries).map_err(unsaved)?;
        let mechanism = match spec {
            StreamSpec::Scalar(spec) => scalar::with_named_kind(spec.mechanism.name(), mechanism)?,
            _ => mechanism.to_vec(),
        };
        Ok([&head[..], &mechanism, devices, &queries].concat())
    }

    /// The saved parts of a stream of the spec's mechanism.
    fn taken_apart(spec: &StreamSpec, saved: &[u8]) -> Result<Earlier, StreamError> {
        let unreadable = || StreamError::State("it is damaged, or of another version of its mechanism".to_owned());
        let (version, rest) = postcard::take_from_bytes::<u16>(saved).map_err(|_| unreadable())?;
        if !(1..=VERSION).contains(&version) {
            let problem = format!("it has version {version}; this program reads versions 1 to {VERSION}");
            return Err(StreamError::State(problem));
        }
        let (mechanism, rest): (String, _) = postcard::take_from_bytes(rest).map_err(|_| unreadable())?;
        if mechanism != spec.mechanism().full_name {
            return Err(other_settings());
        }
        let ((machine, queries), rest): ((Saved, Option<Vec<u8>>), _) =
            postcard::take_from_bytes(rest).map_err(|_| unreadable())?;
        let (filter, rest): (Option<Vec<u8>>, _) = match version {
            1 => (None, rest),
            _ => postcard::take_from_bytes(rest).map_err(|_| unreadable())?,
        };
        if !rest.is_empty() {
            return Err(unreadable());
        }
        Ok(Earlier { machine, queries, filter })
    }

    /// The new stream, where the saved one was.
    fn with(self, earlier: Earlier, key: Option<&VaultKey>) -> Result<Self, StreamError> {
        let Self { spec, values, machine, mut refinement, mut queries } = self;
        let machine = match (machine, earlier.machine) {
            (Machine::Local(new), Saved::Local(saved)) => Machine::Local(new.load(saved)?),
            (Machine::LocalByClass(new), Saved::LocalByClass(saved)) => Machine::LocalByClass(new.load(saved)?),
            (Machine::Central(new), Saved::Central(saved)) => Machine::Central(new.load(saved)?),
            (Machine::CentralByClass(new), Saved::CentralByClass(saved)) => Machine::CentralByClass(new.load(saved)?),
            (Machine::Scalar(new), Saved::Scalar(saved)) => {
                Machine::Scalar(new.load(saved, key.ok_or(StreamError::NoKey)?)?)
            }
            (Machine::Sequence(new), Saved::Sequence(saved)) => Machine::Sequence(new.load(saved)?),
            _ => return Err(other_settings()),
        };
        if let (Some(queries), Some(saved)) = (&mut queries, earlier.queries) {
            // Other queries than those that were saved begin anew.
            let _began_anew = queries.load(&mut postcard::Deserializer::from_bytes(&saved)).is_err();
        }
        if let Some(filter) = earlier.filter.and_then(|filter| postcard::from_bytes(&filter).ok()) {
            refinement.resume(filter);
        }
        Ok(Self { spec, values, machine, refinement, queries })
    }
}
