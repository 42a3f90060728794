//! [`Gate`]: passes entries to the streams of a table, and their releases to the output.

use std::fmt::Write as _;
use std::mem;

use serde::Serialize;
use tidegate::kernel::Randomness;
use tidegate::kernel::VaultKey;
use tidegate::mechanisms::Family;
use tidegate::series::{ReleasedBySeries, Series};
use tidegate::spec::{Reply, Said, Values};
use tidegate::stream::{Released, StreamError};
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::{Format, Reading, TableError};

use super::entries::Content;
use super::state::Keeper;
use super::timeline::Timeline;
use crate::failure::{Failure, complain};
use crate::output::{Output, Reader};
use crate::plot;
use crate::warnings::Published;

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
    /// Notes and warnings for the user, printed with the first release.
    pub(super) notes: Vec<(&'static str, String)>,
    /// Judges what is released.
    pub(super) published: Published,
}

/// Lines of all releases so far, for a chart.
pub(super) struct Plotted {
    pub(super) output: String,
    pub(super) table: String,
}

pub(super) struct Gate<R> {
    series: Series,
    values: Option<Values>,
    random: R,
    shape: ReleaseLayout,
    sinks: Sinks,
    /// Whether this run or an earlier one of the same state used a seed.
    seeded: bool,
    /// Whether the header was written.
    begun: bool,
    /// Empty between calls; kept for its allocation.
    released: ReleasedBySeries,
    /// Output not written yet: releases, answers, and messages on standard error.
    text: String,
    answers: String,
    alarms: Vec<(&'static str, String)>,
}

/// Buffered text is written once it has this many bytes.
const MUCH: usize = 1 << 16;

impl<R: Randomness> Gate<R> {
    pub(super) fn new(series: Series, shape: ReleaseLayout, random: R, sinks: Sinks) -> Self {
        let seeded = !random.provenance().is_private() || sinks.keeper.as_ref().is_some_and(Keeper::is_seeded);
        let (text, answers, alarms) = (String::new(), String::new(), Vec::new());
        let released = ReleasedBySeries::default();
        Self {
            values: series.streams().first().and_then(|stream| stream.values().cloned()),
            series,
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

    pub(super) fn push(&mut self, series: usize, content: Content<'_>) -> Result<Reader, Rejected> {
        let timestamp = content.timestamp();
        if let Some(timeline) = &self.sinks.timeline {
            timeline.check(timestamp)?;
        }
        if self.pass_empty(|timeline| timeline.missing_before(timestamp))? == Reader::WentAway {
            return Ok(Reader::WentAway);
        }
        if let Some(timeline) = &mut self.sinks.timeline {
            timeline.arrive(timestamp);
        }
        let (random, released) = (&mut self.random, &mut self.released);
        match content {
            Content::Value { timestamp, user, value } => {
                self.series.push_value(series, (timestamp, user, value), random, released)?;
            }
            Content::Entry(entry) => self.series.push_into(series, entry, random, released)?,
        }
        Ok(self.write_much()?)
    }

    /// Releases the timestamps of the timeline at which nobody is present.
    fn pass_empty(&mut self, mut missing: impl FnMut(&mut Timeline) -> Option<u64>) -> Result<Reader, Failure> {
        while let Some(timestamp) = self.sinks.timeline.as_mut().and_then(&mut missing) {
            let passed = self.series.pass_empty(timestamp, &mut self.random, &mut self.released);
            passed.map_err(Failure::run)?;
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
        let mut released = mem::take(&mut self.released);
        let written = released.try_drain(|series, released| self.write_part(series, released));
        self.released = released;
        written
    }

    /// Formats the releases of a series, and the answers that they bring about.
    fn write_part(&mut self, series: usize, released: &mut Released) -> Result<(), Failure> {
        let Released { releases, user, population } = released;
        if releases.is_empty() {
            return Ok(());
        }
        let name = self.series.names().get(series).cloned();
        for mut release in releases.drain(..) {
            release.seeded |= self.seeded;
            let (user, format) = (user.as_deref(), self.sinks.format);
            let written = self.shape.write_of(series, &release, user, format, &mut self.text);
            written.map_err(Failure::run)?;
            if let Some(plot) = &mut self.sinks.plot {
                let written = self.shape.write_of(series, &release, user, format, &mut plot.table);
                written.map_err(Failure::run)?;
            }
            // All series have the same settings: one of them is enough to warn of.
            if series == 0 {
                self.sinks.published.see(&release);
                if self.sinks.published.is_due() {
                    self.alarms.extend(self.sinks.published.noise().map(|warning| ("warning", warning)));
                }
            }
            let t = release.timestamp;
            let Some(stream) = self.series.stream_mut(series) else { continue };
            for said in stream.answer_queries(&release, *population).map_err(Failure::run)? {
                if let Some(alarm) = alarm(t, name.as_deref(), &said) {
                    self.alarms.push(("event", alarm));
                }
                if series == 0 {
                    self.sinks.published.hear(&said);
                }
                if let (Some(_), Some(values)) = (&self.sinks.answers, &self.values) {
                    let answer = Answer { series: name.as_deref(), said: said.line(t, values) };
                    let line = serde_json::to_string(&answer).map_err(Failure::run)?;
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
        let series = self.series.save(self.sinks.key.as_ref()).map_err(Failure::run)?;
        keeper.save(series, self.seeded)
    }

    pub(super) fn hand_over(&mut self) -> Result<Reader, Failure> {
        let seen = |output: &Output, text: &str| output.is_live() && !text.is_empty();
        let Sinks { output, answers, .. } = &self.sinks;
        let answers_seen = answers.as_ref().is_some_and(|answers| seen(answers, &self.answers));
        // What files hold is seen at the end, and so is what is said about it: a line that is refused undoes both.
        let is_live = output.is_live() || answers.as_ref().is_some_and(Output::is_live);
        if seen(output, &self.text) || answers_seen || (is_live && !self.alarms.is_empty()) {
            self.save()?;
        }
        self.write(is_live)
    }

    /// Writes what is buffered, and messages too if they may be seen.
    fn write(&mut self, with_messages: bool) -> Result<Reader, Failure> {
        if self.begun {
            self.sinks.notes.drain(..).for_each(|(kind, note)| complain(kind, note));
        }
        if with_messages {
            self.alarms.drain(..).for_each(|(kind, alarm)| complain(kind, alarm));
        }
        let reader = if self.text.is_empty() { Reader::Listens } else { self.sinks.output.write(&self.text)? };
        self.text.clear();
        if let Some(answers) = self.sinks.answers.as_mut().filter(|_| !self.answers.is_empty())
            && answers.write(&self.answers)? == Reader::WentAway
            && self.sinks.output.is_live()
        {
            return Ok(Reader::WentAway);
        }
        self.answers.clear();
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
        self.series.finish(&mut self.random, &mut self.released).map_err(Failure::run)?;
        if self.series.spec().family() == Family::Sequence && self.series.waiting() > 0 {
            let users = self.series.waiting();
            complain(
                "note",
                format_args!(
                    "the last batches of {users} users are not complete: nothing of them was released or spent"
                ),
            );
        }
        for (number, stream) in self.series.streams().iter().enumerate() {
            let Some((sequence, local)) = stream.leakage() else { continue };
            let of = self.series.names().get(number).map(|name| format!("series {name}: ")).unwrap_or_default();
            complain(
                "note",
                format_args!(
                    "{of}any user's releases so far leak at most {sequence:.6} (sequence information privacy, if the \
                     model is right) and {local:.6} (local privacy)"
                ),
            );
        }
        self.write_releases()?;
        self.alarms.extend(self.sinks.published.at_the_end().into_iter().map(|warning| ("warning", warning)));
        // Files become visible last, when they are renamed.
        let files_first = !self.sinks.output.is_live();
        if files_first {
            self.sinks.output.write(&mem::take(&mut self.text))?;
            self.sinks.output.prepare()?;
        }
        self.save()?;
        // The result of the write no longer matters.
        self.write(true)?;
        if let Some(answers) = self.sinks.answers {
            answers.finish()?;
        }
        self.sinks.output.finish()?;
        self.sinks.plot.map_or(Ok(()), |Plotted { output, table }| plot::draw_released(table.as_bytes(), &output))
    }
}

/// A query's answer, with its series where there are several.
#[derive(Serialize)]
struct Answer<'a, L> {
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a str>,
    #[serde(flatten)]
    said: L,
}

/// Returns the message of a monitor's event.
fn alarm(t: u64, series: Option<&str>, said: &Said<'_>) -> Option<String> {
    let Reply::Event(event) = &said.reply else { return None };
    let of = series.map(|series| format!("{series}: ")).unwrap_or_default();
    let mut text = format!("{of}{:?} {} at {t}, at {:.6}", said.name, event.kind.name(), event.score.value);
    if event.score.is_stated() {
        let _ = write!(text, " ± {:.6}", event.score.variance.sqrt());
    }
    Some(text)
}
