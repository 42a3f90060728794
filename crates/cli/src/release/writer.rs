//! [`Writer`]: writes releases, and saves the state before anything is visible.

use std::fmt::Write as _;
use std::mem;

use tidegate::kernel::VaultKey;
use tidegate::series::Series;
use tidegate::spec::{Reply, Said, Values};
use tidegate_release::Error;
use tidegate_release::gate::{Published, Reader, Sink, answer_line};
use tidegate_release::state::Keeper;
use tidegate_table::Format;
use tidegate_table::releases::ReleaseLayout;

use crate::failure::{Failure, complain};
use crate::output::Output;
use crate::plot;
use crate::warnings;

/// Destinations of everything that may be published.
pub(super) struct Sinks {
    pub(super) output: Output,
    pub(super) format: Format,
    pub(super) answers: Option<Output>,
    pub(super) keeper: Option<Keeper>,
    /// Encrypts the readings that are held back.
    pub(super) key: Option<VaultKey>,
    /// A chart of all that is released, at the end.
    pub(super) plot: Option<Plotted>,
    /// Notes and warnings for the user, printed with the first release.
    pub(super) notes: Vec<(&'static str, String)>,
    /// Judges what is released.
    pub(super) published: warnings::Published,
}

/// Lines of all releases so far, for a chart.
pub(super) struct Plotted {
    pub(super) output: String,
    pub(super) table: String,
}

/// Formats what is released, and writes it once the state that pays for it is saved.
pub(super) struct Writer {
    values: Option<Values>,
    names: Vec<String>,
    shape: ReleaseLayout,
    sinks: Sinks,
    /// Whether this run or an earlier one of the same state used a seed.
    seeded: bool,
    /// Whether the header was written.
    begun: bool,
    /// Output not written yet: releases, answers, and messages on standard error.
    text: String,
    answers: String,
    alarms: Vec<(&'static str, String)>,
}

/// Buffered text is written once it has this many bytes.
const MUCH: usize = 1 << 16;

impl Sink for Writer {
    /// Formats a release, and the answers that it brings about.
    fn take(&mut self, published: Published<'_>) -> Result<(), Error> {
        let Published { series, user, release, said, .. } = published;
        self.begin();
        let (user, format) = (user.map(AsRef::as_ref), self.sinks.format);
        self.shape.write_of(series, &release, user, format, &mut self.text).map_err(Error::run)?;
        if let Some(plot) = &mut self.sinks.plot {
            self.shape.write_of(series, &release, user, format, &mut plot.table).map_err(Error::run)?;
        }
        // All series have the same settings: one of them is enough to warn of.
        if series == 0 {
            self.sinks.published.see(&release);
            if self.sinks.published.is_due() {
                self.alarms.extend(self.sinks.published.noise().map(|warning| ("warning", warning)));
            }
        }
        let (t, name) = (release.timestamp, self.names.get(series).map(String::as_str));
        for said in said {
            if let Some(alarm) = alarm(t, name, &said) {
                self.alarms.push(("event", alarm));
            }
            if series == 0 {
                self.sinks.published.hear(&said);
            }
            if let (Some(_), Some(values)) = (&self.sinks.answers, &self.values) {
                self.answers.push_str(&answer_line(&said, name, t, values)?);
                self.answers.push('\n');
            }
        }
        Ok(())
    }

    /// Writes the buffer if it is large.
    fn pause(&mut self, series: &Series) -> Result<Reader, Error> {
        self.begin();
        let much = self.text.len() + self.answers.len() >= MUCH;
        if much { Ok(self.hand_over(series)?) } else { Ok(Reader::Listens) }
    }
}

impl Writer {
    pub(super) fn new(series: &Series, shape: ReleaseLayout, sinks: Sinks, seeded: bool) -> Self {
        Self {
            values: series.streams().first().and_then(|stream| stream.values().cloned()),
            names: series.names().to_vec(),
            shape,
            sinks,
            seeded,
            begun: false,
            text: String::new(),
            answers: String::new(),
            alarms: Vec::new(),
        }
    }

    /// Writes the header, once.
    fn begin(&mut self) {
        if !mem::replace(&mut self.begun, true) {
            self.shape.begin(self.sinks.format, &mut self.text);
            if let Some(plot) = &mut self.sinks.plot {
                self.shape.begin(self.sinks.format, &mut plot.table);
            }
        }
    }

    /// Saves the state. Must precede the output of every release that it pays for.
    fn save(&self, series: &Series) -> Result<(), Failure> {
        let Some(keeper) = &self.sinks.keeper else { return Ok(()) };
        let series = series.save(self.sinks.key.as_ref()).map_err(Failure::run)?;
        Ok(keeper.save(series, self.shape.clock().zone(), self.seeded)?)
    }

    pub(super) fn hand_over(&mut self, series: &Series) -> Result<Reader, Failure> {
        let seen = |output: &Output, text: &str| output.is_live() && !text.is_empty();
        let Sinks { output, answers, .. } = &self.sinks;
        let answers_seen = answers.as_ref().is_some_and(|answers| seen(answers, &self.answers));
        // What files hold is seen at the end, and so is what is said about it: a line that is refused undoes both.
        let is_live = output.is_live() || answers.as_ref().is_some_and(Output::is_live);
        if seen(output, &self.text) || answers_seen || (is_live && !self.alarms.is_empty()) {
            self.save(series)?;
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

    /// Writes the rest, and completes all files.
    pub(super) fn close(mut self, series: &Series) -> Result<(), Failure> {
        // Any row begins the output, and so does a timestamp without one.
        if !self.begun {
            self.alarms.push(("note", "nothing was released: the table has no rows".to_owned()));
        }
        self.begin();
        self.alarms.extend(self.sinks.published.at_the_end().into_iter().map(|warning| ("warning", warning)));
        // Files become visible last, when they are renamed.
        let files_first = !self.sinks.output.is_live();
        if files_first {
            self.sinks.output.write(&mem::take(&mut self.text))?;
            self.sinks.output.prepare()?;
        }
        self.save(series)?;
        // The result of the write no longer matters.
        self.write(true)?;
        if let Some(answers) = self.sinks.answers {
            answers.finish()?;
        }
        self.sinks.output.finish()?;
        self.sinks.plot.map_or(Ok(()), |Plotted { output, table }| plot::draw_released(table.as_bytes(), &output))
    }
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
