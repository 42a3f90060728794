//! [`Gate`]: passes entries to a stream, and its releases to the output.

use std::fmt::Write as _;
use std::mem;

use tidegate::kernel::Randomness;
use tidegate::kernel::VaultKey;
use tidegate::mechanisms::Family;
use tidegate::spec::{Reply, Said, Values};
use tidegate::stream::{Entry, Released, Stream, StreamError};
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::{Format, Reading, TableError};

use super::state::Keeper;
use super::timeline::Timeline;
use crate::failure::{Failure, complain};
use crate::output::{Output, Reader};
use crate::plot;

/// The reason for rejecting an entry.
#[derive(Debug)]
pub(super) enum Rejected {
    /// A field of its line is invalid.
    Field { field: &'static str, expected: String },
    /// Another failure.
    Failed(Failure),
}

impl Rejected {
    pub(super) fn time(expected: impl Into<String>) -> Self {
        Self::Field { field: "t", expected: expected.into() }
    }

    /// Adds the file and the line to the error.
    pub(super) fn of_line(self, file: &str, line: u64, reading: &Reading) -> Failure {
        match self {
            Self::Field { field, expected } => {
                let (file, field) = (file.to_owned(), reading.column_of(field));
                Failure::input(TableError::Field { file, line, field, expected: expected.into() })
            }
            Self::Failed(failure) => failure,
        }
    }
}

impl From<StreamError> for Rejected {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Entry { field, expected } => Self::Field { field, expected },
            other => Self::Failed(Failure::run(other)),
        }
    }
}

impl From<Failure> for Rejected {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Destinations of everything that may be published.
pub(super) struct Sinks {
    pub(super) output: Output,
    pub(super) format: Format,
    pub(super) answers: Option<Output>,
    pub(super) keeper: Option<Keeper>,
    /// Encrypts the readings that are held back.
    pub(super) key: Option<VaultKey>,
    /// Timestamps to release even if nobody is present; `None` releases those of the input.
    pub(super) timeline: Option<Timeline>,
    /// A chart of all that is released, at the end.
    pub(super) plot: Option<Plotted>,
    /// Notes for the user, printed with the first release.
    pub(super) notes: Vec<&'static str>,
}

/// Lines of all releases so far, for a chart.
pub(super) struct Plotted {
    pub(super) output: String,
    pub(super) table: String,
}

pub(super) struct Gate<R> {
    stream: Stream,
    values: Option<Values>,
    random: R,
    shape: ReleaseLayout,
    sinks: Sinks,
    /// Whether this run or an earlier one of the same state used a seed.
    seeded: bool,
    /// Whether the header was written.
    begun: bool,
    /// Empty between calls; kept for its allocation.
    released: Released,
    /// Output not written yet: releases, answers, and messages on standard error.
    text: String,
    answers: String,
    alarms: Vec<String>,
}

/// Buffered text is written once it has this many bytes.
const MUCH: usize = 1 << 16;

impl<R: Randomness> Gate<R> {
    pub(super) fn new(stream: Stream, shape: ReleaseLayout, random: R, sinks: Sinks) -> Self {
        let seeded = !random.provenance().is_private() || sinks.keeper.as_ref().is_some_and(Keeper::is_seeded);
        let (text, answers, alarms) = (String::new(), String::new(), Vec::new());
        let released = Released::default();
        Self {
            values: stream.values().cloned(),
            stream,
            random,
            shape,
            sinks,
            seeded,
            begun: false,
            released,
            text,
            answers,
            alarms,
        }
    }

    pub(super) fn push(&mut self, entry: Entry) -> Result<Reader, Rejected> {
        let timestamp = entry.timestamp();
        if let Some(timeline) = &self.sinks.timeline {
            timeline.check(timestamp)?;
        }
        if self.pass_empty(|timeline| timeline.missing_before(timestamp))? == Reader::WentAway {
            return Ok(Reader::WentAway);
        }
        if let Some(timeline) = &mut self.sinks.timeline {
            timeline.arrive(timestamp);
        }
        self.stream.push_into(entry, &mut self.random, &mut self.released)?;
        Ok(self.write_much()?)
    }

    /// Releases the timestamps of the timeline at which nobody is present.
    fn pass_empty(&mut self, mut missing: impl FnMut(&mut Timeline) -> Option<u64>) -> Result<Reader, Failure> {
        while let Some(timestamp) = self.sinks.timeline.as_mut().and_then(&mut missing) {
            self.released = self.stream.pass_empty(timestamp, &mut self.random).map_err(Failure::run)?;
            if self.write_much()? == Reader::WentAway {
                return Ok(Reader::WentAway);
            }
        }
        Ok(Reader::Listens)
    }

    /// Formats the releases, and writes the buffer if it is large.
    fn write_much(&mut self) -> Result<Reader, Failure> {
        self.write_releases()?;
        let much = self.text.len() + self.answers.len() >= MUCH;
        if much { self.hand_over() } else { Ok(Reader::Listens) }
    }

    fn write_releases(&mut self) -> Result<(), Failure> {
        if !mem::replace(&mut self.begun, true) {
            self.shape.begin(self.sinks.format, &mut self.text);
            if let Some(plot) = &mut self.sinks.plot {
                self.shape.begin(self.sinks.format, &mut plot.table);
            }
        }
        let Released { releases, user, population } = &mut self.released;
        for mut release in releases.drain(..) {
            release.seeded |= self.seeded;
            let written = self.shape.write(&release, user.as_deref(), self.sinks.format, &mut self.text);
            written.map_err(Failure::run)?;
            if let Some(plot) = &mut self.sinks.plot {
                let written = self.shape.write(&release, user.as_deref(), self.sinks.format, &mut plot.table);
                written.map_err(Failure::run)?;
            }
            let t = release.timestamp;
            for said in self.stream.answer_queries(&release, *population).map_err(Failure::run)? {
                if let Some(alarm) = alarm(t, &said) {
                    self.alarms.push(alarm);
                }
                if let (Some(_), Some(values)) = (&self.sinks.answers, &self.values) {
                    let line = serde_json::to_string(&said.line(t, values)).map_err(Failure::run)?;
                    self.answers.push_str(&line);
                    self.answers.push('\n');
                }
            }
        }
        Ok(())
    }

    /// Saves the state. Must precede the output of every release that it pays for.
    fn save(&self) -> Result<(), Failure> {
        let Some(keeper) = &self.sinks.keeper else { return Ok(()) };
        let stream = self.stream.save(self.sinks.key.as_ref()).map_err(Failure::run)?;
        keeper.save(stream, self.seeded)
    }

    pub(super) fn hand_over(&mut self) -> Result<Reader, Failure> {
        let seen = |output: &Output, text: &str| output.is_live() && !text.is_empty();
        let Sinks { output, answers, .. } = &self.sinks;
        let answers_seen = answers.as_ref().is_some_and(|answers| seen(answers, &self.answers));
        if seen(output, &self.text) || answers_seen || !self.alarms.is_empty() {
            self.save()?;
        }
        self.write()
    }

    fn write(&mut self) -> Result<Reader, Failure> {
        if self.begun {
            self.sinks.notes.drain(..).for_each(|note| complain("note", note));
        }
        for alarm in self.alarms.drain(..) {
            complain("event", alarm);
        }
        let mut reader = Reader::Listens;
        for (output, text) in
            [(Some(&mut self.sinks.output), &mut self.text), (self.sinks.answers.as_mut(), &mut self.answers)]
        {
            if let Some(output) = output.filter(|_| !text.is_empty())
                && output.write(text)? == Reader::WentAway
            {
                reader = Reader::WentAway;
            }
            text.clear();
        }
        Ok(reader)
    }

    /// Releases the rest of the timeline at the end of the input, and closes.
    pub(super) fn complete(mut self) -> Result<(), Failure> {
        match self.pass_empty(Timeline::missing_at_the_end)? {
            // The first empty timestamp closes the open one; without one, this does.
            Reader::Listens => self.close(),
            Reader::WentAway => Ok(()),
        }
    }

    /// Releases everything that is held back.
    pub(super) fn close(mut self) -> Result<(), Failure> {
        self.released = self.stream.finish(&mut self.random).map_err(Failure::run)?;
        if self.stream.spec().family() == Family::Sequence && self.stream.waiting() > 0 {
            let users = self.stream.waiting();
            complain(
                "note",
                format_args!(
                    "the last batches of {users} users are not complete: nothing of them was released or spent"
                ),
            );
        }
        if let Some((sequence, local)) = self.stream.leakage() {
            complain(
                "note",
                format_args!(
                    "any user's releases so far leak at most {sequence:.6} (sequence information privacy, if the model \
                     is right) and {local:.6} (local privacy)"
                ),
            );
        }
        self.write_releases()?;
        // Files become visible last, when they are renamed.
        let files_first = !self.sinks.output.is_live();
        if files_first {
            self.sinks.output.write(&mem::take(&mut self.text))?;
            self.sinks.output.prepare()?;
        }
        self.save()?;
        // The result of the write no longer matters.
        self.write()?;
        if let Some(answers) = self.sinks.answers {
            answers.finish()?;
        }
        self.sinks.output.finish()?;
        self.sinks.plot.map_or(Ok(()), |Plotted { output, table }| plot::draw_released(table.as_bytes(), &output))
    }
}

/// Returns the message of a monitor's event.
fn alarm(t: u64, said: &Said<'_>) -> Option<String> {
    let Reply::Event(event) = &said.reply else { return None };
    let mut text = format!("{:?} {} at {t}, at {:.6}", said.name, event.kind.name(), event.score.value);
    if event.score.is_stated() {
        let _ = write!(text, " ± {:.6}", event.score.variance.sqrt());
    }
    Some(text)
}
