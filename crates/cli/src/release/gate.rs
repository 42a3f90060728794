//! What stands between lines of input and releases.

use std::fmt::Write as _;
use std::mem;

use tidegate::kernel::Randomness;
use tidegate::kernel::VaultKey;
use tidegate::mechanisms::Family;
use tidegate::spec::{Reply, Said, Values};
use tidegate::stream::{Entry, Released, Stream, StreamError};
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::{Format, TableError};

use super::state::Keeper;
use super::timeline::Timeline;
use crate::failure::{Failure, complain};
use crate::output::{Output, Reader};

/// Why an item was not taken in.
#[derive(Debug)]
pub(super) enum Rejected {
    /// A field of its line is not what it should be.
    Field { field: &'static str, expected: String },
    /// Something else went wrong.
    Failed(Failure),
}

impl Rejected {
    pub(super) fn time(expected: impl Into<String>) -> Self {
        Self::Field { field: "t", expected: expected.into() }
    }

    /// What is told of a line of a file.
    pub(super) fn of_line(self, file: &str, line: u64) -> Failure {
        match self {
            Self::Field { field, expected } => {
                let (file, field) = (file.to_owned(), field.to_owned());
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

/// Where everything goes that may be published.
pub(super) struct Sinks {
    pub(super) output: Output,
    pub(super) format: Format,
    pub(super) answers: Option<Output>,
    pub(super) keeper: Option<Keeper>,
    /// What readings that are held back are encrypted under.
    pub(super) key: Option<VaultKey>,
    /// Which timestamps are released whoever is present; those that the input has where there is none.
    pub(super) timeline: Option<Timeline>,
    /// What people should know; told with the first release.
    pub(super) notes: Vec<&'static str>,
}

pub(super) struct Gate<R> {
    stream: Stream,
    /// The values of its domain.
    values: Option<Values>,
    random: R,
    shape: ReleaseLayout,
    sinks: Sinks,
    /// Whether randomness of this run, or of one that it goes on from, came from a seed.
    seeded: bool,
    /// Whether the header was written.
    begun: bool,
    /// Without releases between calls; kept for its memory.
    released: Released,
    /// What was not handed over yet: to the output, to where answers go, and to whoever looks at standard error.
    text: String,
    answers: String,
    alarms: Vec<String>,
}

/// So much text is handed over in any case.
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

    /// Writes what was released, and hands it over if it is much.
    fn write_much(&mut self) -> Result<Reader, Failure> {
        self.write_releases()?;
        let much = self.text.len() + self.answers.len() >= MUCH;
        if much { self.hand_over() } else { Ok(Reader::Listens) }
    }

    fn write_releases(&mut self) -> Result<(), Failure> {
        if !mem::replace(&mut self.begun, true) {
            self.shape.begin(self.sinks.format, &mut self.text);
        }
        let Released { releases, user, population } = &mut self.released;
        for mut release in releases.drain(..) {
            release.seeded |= self.seeded;
            let written = self.shape.write(&release, user.as_deref(), self.sinks.format, &mut self.text);
            written.map_err(Failure::run)?;
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

    /// Saves what the next run must know: before anything that it pays for can be seen.
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

    /// Releases what the timeline has after the last line, and then closes: the input is at its end.
    pub(super) fn complete(mut self) -> Result<(), Failure> {
        match self.pass_empty(Timeline::missing_at_the_end)? {
            // The open timestamp is closed by the first that is empty, and otherwise here.
            Reader::Listens => self.close(),
            Reader::WentAway => Ok(()),
        }
    }

    /// Releases what is held back.
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
        self.write_releases()?;
        // What goes into files can be seen only once they have their names, which comes last.
        let files_first = !self.sinks.output.is_live();
        if files_first {
            self.sinks.output.write(&mem::take(&mut self.text))?;
            self.sinks.output.prepare()?;
        }
        self.save()?;
        // Whether somebody reads that makes no difference any more.
        self.write()?;
        if let Some(answers) = self.sinks.answers {
            answers.finish()?;
        }
        self.sinks.output.finish()
    }
}

/// What a monitor tells people.
fn alarm(t: u64, said: &Said<'_>) -> Option<String> {
    let Reply::Event(event) = &said.reply else { return None };
    let mut text = format!("{:?} {} at {t}, at {:.6}", said.name, event.kind.name(), event.score.value);
    let _ = write!(text, " ± {:.6}", event.score.variance.sqrt());
    Some(text)
}
