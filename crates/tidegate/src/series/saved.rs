//! Saving and loading [`Series`].

use serde::{Deserialize, Serialize};
use tidegate_kernel::VaultKey;

use super::Series;
use crate::spec::{AcrossSeries, ColumnsSpec, SpecError, StreamSpec};
use crate::stream::{Balance, Stream, StreamError};

/// The version of the saved form.
const VERSION: u16 = 1;

/// Users, and the series that they were in.
type Users<'a> = Vec<(&'a str, &'a [(u32, u64)])>;

/// The loaded form of [`Users`].
type LoadedUsers = Vec<(String, Vec<(u32, u64)>)>;

#[derive(Serialize)]
struct Saving<'a> {
    version: u16,
    streams: Vec<(&'a str, Vec<u8>)>,
    users: Option<Users<'a>>,
}

#[derive(Deserialize)]
struct Saved {
    version: u16,
    streams: Vec<(String, Vec<u8>)>,
    users: Option<LoadedUsers>,
}

fn of_bytes(saved: &[u8]) -> Result<Saved, StreamError> {
    let saved: Saved = postcard::from_bytes(saved).map_err(|_| StreamError::State("it cannot be read".to_owned()))?;
    if saved.version == VERSION {
        return Ok(saved);
    }
    let problem = format!("its series have version {}; this program reads version {VERSION}", saved.version);
    Err(StreamError::State(problem))
}

impl Series {
    /// The whole state of all series: see [`Stream::save`]. It names the users whose series are counted.
    ///
    /// # Errors
    /// As there.
    pub fn save(&self, key: Option<&VaultKey>) -> Result<Vec<u8>, StreamError> {
        if self.names.is_empty() {
            return self.streams[0].save(key);
        }
        let of_series = |(name, stream): (_, &Stream)| Ok((name, stream.save(key)?));
        let streams = self.names.iter().map(String::as_str).zip(&self.streams).map(of_series);
        let streams = streams.collect::<Result<_, StreamError>>()?;
        let users = self.contributions.as_ref().map(|contributions| contributions.saving());
        let saving = Saving { version: VERSION, streams, users };
        postcard::to_allocvec(&saving).map_err(|error| StreamError::State(format!("it cannot be saved: {error}")))
    }

    /// Goes on with a saved state. Series that the state does not have begin anew.
    ///
    /// # Errors
    /// As [`Stream::load`], and [`StreamError::State`] where the spec lacks a series of the state.
    pub fn load(spec: StreamSpec, saved: &[u8], key: Option<&VaultKey>) -> Result<Self, StreamError> {
        let mut series = Self::new(spec)?;
        if series.names.is_empty() {
            series.streams[0] = Stream::load(series.spec.clone(), saved, key)?;
            return Ok(series);
        }
        let Saved { streams, users, .. } = of_bytes(saved)?;
        let mut places = Vec::new();
        for (name, saved) in streams {
            let Some(place) = series.find(&name) else {
                return Err(StreamError::State(format!("series_names lacks {name:?}, whose budget it holds")));
            };
            series.streams[place] = Stream::load(series.streams[place].spec().clone(), &saved, key)?;
            places.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        // A class that a user has left keeps its promise for a while, of which a new series would know nothing.
        if places.len() < series.streams.len() && series.streams[0].classes().is_some() {
            return Err(StreamError::State(
                "with classes of users, no series is added to a state: begin one with all series_names".to_owned(),
            ));
        }
        let renumber = |number: u32| places.get(usize::try_from(number).ok()?).copied();
        let loaded = match (&mut series.contributions, users) {
            (Some(contributions), Some(users)) => contributions.load(users, renumber),
            // Everyone could be in all series, so nobody was counted.
            (Some(_), None) => None,
            (None, _) => Some(()),
        };
        loaded.ok_or_else(|| {
            StreamError::State("it was begun with across_series = \"all\", which counts no users: keep that".to_owned())
        })?;
        Ok(series)
    }

    /// The budgets of a saved state, with the name of each series: see [`Stream::balance`].
    ///
    /// # Errors
    /// As there.
    pub fn balance(
        spec: StreamSpec,
        saved: &[u8],
        at: Option<u64>,
    ) -> Result<Vec<(Option<String>, Balance)>, StreamError> {
        let Some(split) = spec.input().split()? else {
            return Ok(vec![(None, Stream::balance(spec, saved, at)?)]);
        };
        let of_one = spec.of_one_series(split.most)?;
        let of_series =
            |(name, saved): (String, Vec<u8>)| Ok((Some(name), Stream::balance(of_one.clone(), &saved, at)?));
        of_bytes(saved)?.streams.into_iter().map(of_series).collect()
    }
}

impl StreamSpec {
    /// The form in which a state keeps its spec: without the names of columns, which may differ from table to table,
    /// and with the number of series that one person can be in.
    ///
    /// # Errors
    /// Series that are not declared as they should be.
    pub fn of_state(&self) -> Result<Self, SpecError> {
        let mut spec = self.clone();
        let split = self.input().split()?;
        if let Self::Sequence(spec) = &mut spec {
            // The state of each user holds the model, and is compared with that of the spec.
            spec.learned = None;
        }
        let input = spec.input_mut();
        (input.columns, input.series) = (ColumnsSpec::default(), None);
        if let Some(split) = split {
            input.across_series = Some(AcrossSeries::Most(split.most));
        }
        Ok(spec)
    }

    /// Whether a state of an earlier spec goes on with this one, both as [`Self::of_state`] has them: it may declare
    /// series that the earlier one did not.
    pub fn continues(&self, earlier: &Self) -> bool {
        let (mut bare, mut of_earlier) = (self.clone(), earlier.clone());
        let names = bare.input_mut().series_names.take();
        let earlier = of_earlier.input_mut().series_names.take();
        bare == of_earlier && names.is_some() == earlier.is_some() && {
            let names = names.unwrap_or_default();
            earlier.unwrap_or_default().iter().all(|name| names.contains(name))
        }
    }
}
