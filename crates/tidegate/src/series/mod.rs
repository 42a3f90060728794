//! [`Series`]: the streams of one table, and the people who are in several of them.
//!
//! ```
//! use tidegate::kernel::SystemRandom;
//! use tidegate::series::{ReleasedBySeries, Series};
//! use tidegate::spec::StreamSpec;
//!
//! let toml = r#"
//!     mechanism = "central.track"
//!     epsilon = 1.0
//!     window = 7
//!     domain = ["car", "bicycle"]
//!     series_names = ["bridge", "market"]
//!     across_series = 2
//! "#;
//! let mut series = Series::new(toml::from_str::<StreamSpec>(toml)?)?;
//! let (random, mut released) = (&mut SystemRandom::new()?, ReleasedBySeries::default());
//! let market = series.find("market").ok_or("it is declared")?;
//! let entry = series.streams()[market].value(0, "ann", "car")?;
//! series.push_into(market, entry, random, &mut released)?;
//! series.finish(random, &mut released)?;
//! let mut names = Vec::new();
//! released.drain(|number, released| names.extend(released.releases.drain(..).map(|_| &series.names()[number])));
//! assert_eq!(names, ["bridge", "market"]); // nobody was at the bridge, and that is protected too
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod contributions;
mod saved;

use std::collections::{HashMap, HashSet};
use std::fmt;

use tidegate_kernel::Randomness;

use crate::mechanisms::Family;
use crate::spec::{AcrossSeries, SpecError, StreamSpec};
use crate::stream::{Entry, Released, Stream, StreamError};
use contributions::Contributions;

/// The streams of one table: one for each declared series, or a single one without a name.
///
/// # Guarantee
/// The spec's epsilon covers all that one person contributes to all series within any window, if the person is in at
/// most `across_series` of them there. Each series has a ledger of its own with epsilon divided by `across_series`
/// ([`StreamSpec::of_one_series`]); series of which the person is no part lose nothing (parallel composition), and the
/// losses of the others add up (sequential composition, McSherry 2009). Users who are named are
/// [counted](StreamError::Entry), and one who is in more series than declared is refused. For readings and counts, the
/// declaration is the caller's promise.
///
/// The names of the series are public, and so is their number: they are declared, never taken from the data. Streams of
/// users release all series at each timestamp, so that no missing release shows where nobody was.
pub struct Series {
    spec: StreamSpec,
    /// Empty for a single stream.
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    streams: Vec<Stream>,
    /// `None` where everyone may be in all series.
    contributions: Option<Contributions>,
    /// Whether all series release the timestamps of any.
    aligned: bool,
    /// The timestamp of the last entry, unless it is over.
    open: Option<u64>,
    /// Whether each series has an entry of the open timestamp.
    has_entry: Vec<bool>,
}

impl fmt::Debug for Series {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Series").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Releases that one call brought about, by series. It keeps its allocations.
#[derive(Debug, Default)]
pub struct ReleasedBySeries {
    parts: Vec<(usize, Released)>,
    used: usize,
}

impl ReleasedBySeries {
    /// A place for releases of a series.
    fn part(&mut self, series: usize) -> &mut Released {
        if self.used == self.parts.len() {
            self.parts.push((series, Released::default()));
        }
        let part = &mut self.parts[self.used];
        self.used += 1;
        part.0 = series;
        part.1.releases.clear();
        (part.1.user, part.1.population) = (None, None);
        &mut part.1
    }

    /// Passes on all releases with the number of their series, and forgets them.
    pub fn drain(&mut self, mut take: impl FnMut(usize, &mut Released)) {
        self.parts.iter_mut().take(self.used).for_each(|(series, released)| take(*series, released));
        self.used = 0;
    }

    /// As [`Self::drain`], up to the first error.
    ///
    /// # Errors
    /// That of `take`.
    pub fn try_drain<E>(&mut self, mut take: impl FnMut(usize, &mut Released) -> Result<(), E>) -> Result<(), E> {
        let used = std::mem::take(&mut self.used);
        self.parts.iter_mut().take(used).try_for_each(|(series, released)| take(*series, released))
    }
}

impl Series {
    /// The streams of a spec at their beginning.
    ///
    /// # Errors
    /// A spec that cannot be followed.
    pub fn new(spec: StreamSpec) -> Result<Self, SpecError> {
        let Some(split) = spec.input().split()? else {
            let stream = Stream::new(spec.clone())?;
            return Ok(Self {
                spec,
                names: Vec::new(),
                numbers: HashMap::new(),
                streams: vec![stream],
                contributions: None,
                aligned: false,
                open: None,
                has_entry: vec![false],
            });
        };
        let of_one = spec.of_one_series(split.most)?;
        let streams: Vec<Stream> =
            split.names.iter().map(|_| Stream::new(of_one.clone())).collect::<Result<_, SpecError>>()?;
        // A number limits those series too that are declared later.
        let has_limit = matches!(spec.input().across_series, Some(AcrossSeries::Most(_)));
        Ok(Self {
            contributions: has_limit.then(|| Contributions::new(split.most, spec.window_of_series())),
            aligned: matches!(spec.family(), Family::Local | Family::Central) || spec.timeline().is_some(),
            numbers: split.names.iter().cloned().zip(0..).collect(),
            has_entry: vec![false; streams.len()],
            names: split.names,
            streams,
            spec,
            open: None,
        })
    }

    /// The spec of all series.
    pub const fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// The names of the series; empty for a single stream.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of a series.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The streams, in the order of the names; at least one.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The stream of a series, to answer its queries.
    pub fn stream_mut(&mut self, series: usize) -> Option<&mut Stream> {
        self.streams.get_mut(series)
    }

    /// The last timestamp that is over in any series: see [`Stream::last`].
    pub fn last(&self) -> Option<u64> {
        self.streams.iter().filter_map(Stream::last).max()
    }

    /// How much is held back: see [`Stream::waiting`].
    pub fn waiting(&self) -> usize {
        self.streams.iter().map(Stream::waiting).sum()
    }

    /// Enrols a user in a class of every series: see [`Stream::enrol`].
    ///
    /// # Errors
    /// As there.
    pub fn enrol(&mut self, user: &str, class: &str) -> Result<(), StreamError> {
        self.streams.iter_mut().try_for_each(|stream| stream.enrol(user, class))
    }

    /// Lets all users leave who are not among these: see [`Stream::keep_only`].
    ///
    /// # Errors
    /// As there.
    pub fn keep_only(&mut self, present: &HashSet<&str>) -> Result<(), StreamError> {
        self.streams.iter_mut().try_for_each(|stream| stream.keep_only(present))
    }

    /// Takes an entry of a series in. The first entry of a timestamp ends the last one in all series.
    ///
    /// # Errors
    /// As [`Stream::push`], and [`StreamError::Entry`] for a user who is in more series than declared.
    #[inline]
    pub fn push_into(
        &mut self,
        series: usize,
        entry: Entry,
        random: &mut impl Randomness,
        out: &mut ReleasedBySeries,
    ) -> Result<(), StreamError> {
        if let Entry::Value { timestamp, user, value } = entry {
            return self.push_value(series, (timestamp, &user, value), random, out);
        }
        let stream = self.open(series, entry.timestamp(), random, out)?;
        stream.push_into(entry, random, out.part(series))
    }

    /// As [`Self::push_into`] with a timestamp, a user and the number of a value, for a user whose name is borrowed.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn push_value(
        &mut self,
        series: usize,
        (timestamp, user, value): (u64, &str, u32),
        random: &mut impl Randomness,
        out: &mut ReleasedBySeries,
    ) -> Result<(), StreamError> {
        if let Some(contributions) = &mut self.contributions {
            // What is refused for its time counts for nothing.
            if let Some(open) = self.open.filter(|open| timestamp < *open) {
                return Err(StreamError::entry("t", format!("a timestamp that is not over: {open} has begun")));
            }
            self.streams.get(series).map_or(Ok(()), |stream| stream.check_time(timestamp, false))?;
            contributions.admit(user, series, timestamp)?;
        }
        let stream = self.open(series, timestamp, random, out)?;
        stream.push_value(timestamp, user, value, random, out.part(series))
    }

    /// Begins a timestamp, if it has not begun, and returns the stream of a series.
    #[inline]
    fn open(
        &mut self,
        series: usize,
        timestamp: u64,
        random: &mut impl Randomness,
        out: &mut ReleasedBySeries,
    ) -> Result<&mut Stream, StreamError> {
        let unknown = || StreamError::entry("series", "a series of the spec");
        if !self.names.is_empty() {
            if let Some(open) = self.open.filter(|open| timestamp < *open) {
                return Err(StreamError::entry("t", format!("a timestamp that is not over: {open} has begun")));
            }
            if self.open != Some(timestamp) {
                self.close(random, out)?;
                self.open = Some(timestamp);
            }
            *self.has_entry.get_mut(series).ok_or_else(unknown)? = true;
        }
        self.streams.get_mut(series).ok_or_else(unknown)
    }

    /// Releases the open timestamp, and then one without entries: see [`Stream::pass_empty`].
    ///
    /// # Errors
    /// As there.
    pub fn pass_empty(
        &mut self,
        timestamp: u64,
        random: &mut impl Randomness,
        out: &mut ReleasedBySeries,
    ) -> Result<(), StreamError> {
        self.close(random, out)?;
        for (series, stream) in self.streams.iter_mut().enumerate() {
            *out.part(series) = stream.pass_empty(timestamp, random)?;
        }
        Ok(())
    }

    /// Releases the open timestamp in all series.
    fn close(&mut self, random: &mut impl Randomness, out: &mut ReleasedBySeries) -> Result<(), StreamError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        for (series, (stream, has_entry)) in self.streams.iter_mut().zip(&mut self.has_entry).enumerate() {
            if std::mem::take(has_entry) {
                stream.close(random, out.part(series))?;
            } else if self.aligned {
                *out.part(series) = stream.pass_empty(open, random)?;
            }
        }
        Ok(())
    }

    /// Releases the open timestamp, and all that is held back.
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub fn finish(&mut self, random: &mut impl Randomness, out: &mut ReleasedBySeries) -> Result<(), StreamError> {
        self.close(random, out)?;
        for (series, stream) in self.streams.iter_mut().enumerate() {
            *out.part(series) = stream.finish(random)?;
        }
        Ok(())
    }
}
