//! [`Gate`]: passes entries to the streams of a table, and their releases to a [`Sink`].

use std::mem;
use std::sync::Arc;

use serde::Serialize;
use tidegate::kernel::Randomness;
use tidegate::mechanisms::Family;
use tidegate::release::Release;
use tidegate::series::{ReleasedBySeries, Series};
use tidegate::spec::{Said, Values};
use tidegate::stream::{Released, StreamError};
use tidegate_table::{Reading, TableError};

use crate::Error;
use crate::entries::Content;
use crate::timeline::Timeline;

/// Whether somebody still reads what is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Somebody does.
    Listens,
    /// Nobody does: stop without a failure.
    WentAway,
}

/// A release, its place, and what the standing queries of its series say about it.
#[derive(Debug)]
pub struct Published<'a> {
    /// The number of its series.
    pub series: usize,
    /// Whose it is, in a sequence stream.
    pub user: Option<&'a Arc<str>>,
    /// The release.
    pub release: Release,
    /// How many users there are, where that is public.
    pub population: Option<u64>,
    /// Answers to queries, and events of monitors.
    pub said: Vec<Said<'a>>,
}

/// Takes what may be published.
pub trait Sink {
    /// Takes a release.
    ///
    /// # Errors
    /// Those of the sink.
    fn take(&mut self, published: Published<'_>) -> Result<(), Error>;

    /// Called after every entry and every empty timestamp: the sink may save the state and write.
    ///
    /// # Errors
    /// Those of the sink.
    fn pause(&mut self, series: &Series) -> Result<Reader, Error>;
}

/// What a query or a monitor says about a timestamp, as a JSON object; with its series, where there are several.
///
/// # Errors
/// None in practice: it is made of numbers and names.
pub fn answer_line(said: &Said<'_>, series: Option<&str>, t: u64, values: &Values) -> Result<String, Error> {
    #[derive(Serialize)]
    struct Answer<'a, L> {
        #[serde(skip_serializing_if = "Option::is_none")]
        series: Option<&'a str>,
        #[serde(flatten)]
        said: L,
    }
    serde_json::to_string(&Answer { series, said: said.line(t, values) }).map_err(Error::run)
}

/// The reason for rejecting an entry.
#[derive(Debug)]
pub enum Rejected {
    /// A field of its line is invalid.
    Field {
        /// The field.
        field: &'static str,
        /// A description of a valid one.
        expected: String,
    },
    /// Another failure.
    Failed(Error),
}

impl Rejected {
    pub(crate) fn time(expected: impl Into<String>) -> Self {
        Self::Field { field: "t", expected: expected.into() }
    }

    /// Adds the file and the line to the error.
    pub fn of_line(self, file: &str, line: u64, reading: &Reading) -> Error {
        match self {
            Self::Field { field, expected } => {
                let (file, field) = (file.to_owned(), reading.column_of(field));
                Error::Data(TableError::Field { file, line, field, expected: expected.into() })
            }
            Self::Failed(error) => error,
        }
    }
}

impl From<StreamError> for Rejected {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Entry { field, expected } => Self::Field { field, expected },
            other => Self::Failed(other.into()),
        }
    }
}

impl From<Error> for Rejected {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Passes entries to the streams of a table, and timestamps at which nobody is present.
pub struct Gate<R, S> {
    series: Series,
    random: R,
    sink: S,
    /// Timestamps to release even if nobody is present; `None` releases those of the input.
    timeline: Option<Timeline>,
    /// Whether this run or an earlier one of the same state used a seed, or the fit of the model.
    seeded: bool,
    /// Empty between calls; kept for its allocation.
    released: ReleasedBySeries,
}

impl<R, S> std::fmt::Debug for Gate<R, S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Gate").field("series", &self.series).finish_non_exhaustive()
    }
}

impl<R: Randomness, S: Sink> Gate<R, S> {
    /// A gate at the beginning of a run; `seeded` says whether an earlier run of the same state used a seed.
    pub fn new(series: Series, random: R, timeline: Option<Timeline>, seeded: bool, sink: S) -> Self {
        let seeded = seeded || !random.provenance().is_private();
        Self { series, random, sink, timeline, seeded, released: ReleasedBySeries::default() }
    }

    /// Whether this run or an earlier one of the same state used a seed.
    pub const fn is_seeded(&self) -> bool {
        self.seeded
    }

    /// The sink, and the streams.
    pub const fn sink(&mut self) -> (&mut S, &Series) {
        (&mut self.sink, &self.series)
    }

    /// Ends the run: the streams, the randomness and the sink.
    pub fn into_parts(self) -> (Series, R, S) {
        (self.series, self.random, self.sink)
    }

    /// Passes an entry on, and the empty timestamps before it.
    ///
    /// # Errors
    /// An entry that is refused, a stream that cannot go on, and the errors of the sink.
    pub fn push(&mut self, series: usize, content: Content<'_>) -> Result<Reader, Rejected> {
        let timestamp = content.timestamp();
        if let Some(timeline) = &self.timeline {
            timeline.check(timestamp)?;
        }
        if self.pass_empty(|timeline| timeline.missing_before(timestamp))? == Reader::WentAway {
            return Ok(Reader::WentAway);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.arrive(timestamp);
        }
        let (random, released) = (&mut self.random, &mut self.released);
        match content {
            Content::Value { timestamp, user, value } => {
                self.series.push_value(series, (timestamp, user, value), random, released)?;
            }
            Content::Entry(entry) => self.series.push_into(series, entry, random, released)?,
        }
        Ok(self.pass_on()?)
    }

    /// Releases the timestamps of the timeline at which nobody is present.
    fn pass_empty(&mut self, mut missing: impl FnMut(&mut Timeline) -> Option<u64>) -> Result<Reader, Error> {
        while let Some(timestamp) = self.timeline.as_mut().and_then(&mut missing) {
            self.series.pass_empty(timestamp, &mut self.random, &mut self.released)?;
            if self.pass_on()? == Reader::WentAway {
                return Ok(Reader::WentAway);
            }
        }
        Ok(Reader::Listens)
    }

    fn pass_on(&mut self) -> Result<Reader, Error> {
        self.give_releases()?;
        self.sink.pause(&self.series)
    }

    fn give_releases(&mut self) -> Result<(), Error> {
        let mut released = mem::take(&mut self.released);
        let given = released.try_drain(|series, released| self.give_part(series, released));
        self.released = released;
        given
    }

    /// Gives the sink the releases of a series, with the answers that they bring about.
    fn give_part(&mut self, series: usize, released: &mut Released) -> Result<(), Error> {
        let Released { releases, user, population } = released;
        for mut release in releases.drain(..).map(Release::readable) {
            release.seeded |= self.seeded;
            let said = match self.series.stream_mut(series) {
                Some(stream) => stream.answer_queries(&release, *population)?,
                None => Vec::new(),
            };
            self.sink.take(Published { series, user: user.as_ref(), release, population: *population, said })?;
        }
        Ok(())
    }

    /// Releases the rest of the timeline at the end of the input. [`Self::finish`] is to follow, unless nobody reads.
    ///
    /// # Errors
    /// A stream that cannot go on, and the errors of the sink.
    pub fn end(&mut self) -> Result<Reader, Error> {
        self.pass_empty(Timeline::missing_at_the_end)
    }

    /// Releases everything that is held back.
    ///
    /// # Errors
    /// A stream that cannot go on, and the errors of the sink.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.series.finish(&mut self.random, &mut self.released)?;
        self.give_releases()
    }

    /// Notes about the run as a whole: batches that were dropped, and what sequences leaked.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let users = self.series.waiting();
        if self.series.spec().family() == Family::Sequence && users > 0 {
            notes.push(format!(
                "the last batches of {users} users are not complete: nothing of them was released or spent"
            ));
        }
        for (number, stream) in self.series.streams().iter().enumerate() {
            let Some((sequence, local)) = stream.leakage() else { continue };
            let of = self.series.names().get(number).map(|name| format!("series {name}: ")).unwrap_or_default();
            notes.push(format!(
                "{of}any user's releases so far leak at most {sequence:.6} (sequence information privacy, if the \
                 model is right) and {local:.6} (local privacy)"
            ));
        }
        notes
    }
}
