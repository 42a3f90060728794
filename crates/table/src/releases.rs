//! Releases as lines of CSV or newline-delimited JSON.
//!
//! A release has one line for each number of its statistic. Lines name values as the domain of the stream does.
//!
//! ```
//! use tidegate::release::{Counts, Freshness, Release, Spent};
//! use tidegate_table::Format;
//! use tidegate_table::releases::ReleaseLayout;
//! use tidegate::spec::StreamSpec;
//!
//! let spec = r#"{ "mechanism": "central.ba", "epsilon": 1, "window": 9, "domain": ["home", "out, or away"] }"#;
//! let layout = ReleaseLayout::of(&serde_json::from_str::<StreamSpec>(spec)?)?;
//! let release = Release {
//!     timestamp: 7,
//!     statistic: Counts { counts: vec![60.0, 40.5], variances: vec![2.0, 2.0] }.into(),
//!     freshness: Freshness::Fresh,
//!     spent: Spent::Everyone("0.1".parse()?),
//!     reports: 0,
//!     seeded: false,
//!     why: None,
//! };
//! let mut text = String::new();
//! layout.begin(Format::Csv, &mut text);
//! layout.write(&release, None, Format::Csv, &mut text)?;
//! assert_eq!(
//!     text,
//!     "t,value,count,variance,freshness,spent,seeded\n\
//!      7,home,60,2,fresh,0.1,false\n\
//!      7,\"out, or away\",40.5,2,fresh,0.1,false\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer};
use tidegate::mechanisms::Output;
use tidegate::release::{Number, Release, Spent, Statistic, Why};
use tidegate::spec::{SpecError, StreamSpec, Values};
use tidegate::tree;

use crate::Format;
use crate::time::Clock;

/// A typed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name of the field.
    pub name: &'static str,
    /// The type of the field.
    pub kind: ColumnKind,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A non-negative integer.
    Whole,
    /// A floating-point number.
    Number,
    /// A string.
    Text,
    /// `true` or `false`.
    Flag,
}

/// The content of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// A non-negative integer.
    Whole(u64),
    /// A floating-point number; `None` for a variance that is not stated.
    Number(Option<f64>),
    /// A string.
    Text(&'a str),
    /// `true` or `false`.
    Flag(bool),
}

/// Joins what a service says to be suspicious about a release. Other texts than words are left out: a service that
/// writes something else writes no line of its own into a table.
pub fn suspicion_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    words.filter(is_word).collect::<Vec<_>>().join(" ")
}

/// Quotes a CSV field if it contains a comma, a quote or a line break.
pub fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}

/// The columns and lines of a stream's releases.
#[derive(Clone, Debug)]
pub struct ReleaseLayout {
    kind: Kind,
    /// Timestamps with times have a field for them.
    clock: Clock,
    /// The names of the series, which have a field where there are any.
    series: Vec<String>,
    /// Whether there is a field for what is suspicious about a release.
    has_suspicions: bool,
    /// Whether NDJSON says why releases are as they are.
    has_reasons: bool,
}

/// Content of a line about a release.
#[derive(Clone, Debug)]
enum Kind {
    /// One number a timestamp.
    Number,
    /// The frequency of each value.
    Frequencies(Values),
    /// The number of users with each value.
    Counts(Values),
    /// The frequency of each node of a binary hierarchy, given by its first and last value.
    Tree(Values),
    /// One symbol of one user.
    Symbol(Values),
}

/// A line of a table.
#[derive(Serialize)]
struct Line<'a> {
    t: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a str>,
    #[serde(flatten)]
    cells: Cells<'a>,
    freshness: &'static str,
    /// One cell, also where each class of users spends its own budget.
    #[serde(serialize_with = "as_text")]
    spent: &'a Spent,
    seeded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspicious: Option<&'a str>,
    /// NDJSON only, on the first line of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a Why>,
}

fn as_text<S: Serializer>(spent: &Spent, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(spent)
}

/// A variance, or nothing where a release does not state its error.
#[derive(Clone, Copy, Serialize)]
struct Stated(Option<f64>);

impl Stated {
    fn of(variance: f64) -> Self {
        Self(variance.is_finite().then_some(variance))
    }
}

impl fmt::Display for Stated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |variance| variance.fmt(formatter))
    }
}

/// The fields that differ between layouts.
#[derive(Serialize)]
#[serde(untagged)]
enum Cells<'a> {
    Number { value: f64, variance: Stated },
    Frequency { value: Cow<'a, str>, frequency: f64, variance: Stated },
    Count { value: Cow<'a, str>, count: f64, variance: Stated },
    Node { first: Cow<'a, str>, last: Cow<'a, str>, frequency: f64, variance: Stated },
    Symbol { user: &'a str, value: Cow<'a, str> },
}

impl ReleaseLayout {
    /// Whether releases are symbols of single users.
    pub const fn has_symbols(&self) -> bool {
        matches!(self.kind, Kind::Symbol(_))
    }

    /// Returns the layout of a spec's releases.
    ///
    /// # Errors
    /// [`SpecError`], if the domain is invalid.
    pub fn of(spec: &StreamSpec) -> Result<Self, SpecError> {
        let kind = match (spec.values()?, spec.output()) {
            (None, _) | (_, Output::Number) => Kind::Number,
            (Some(values), Output::Frequencies) => Kind::Frequencies(values),
            (Some(values), Output::Tree) => Kind::Tree(values),
            (Some(values), Output::Counts) => Kind::Counts(values),
            (Some(values), Output::Symbol) => Kind::Symbol(values),
        };
        Ok(Self { kind, clock: Clock::default(), series: Vec::new(), has_suspicions: false, has_reasons: false })
    }

    /// Returns the layout of what a collector of devices releases. It is that of the spec, except for sequences: it
    /// counts the symbols that devices have released.
    ///
    /// # Errors
    /// [`SpecError`], if the domain is invalid.
    pub fn of_collector(spec: &StreamSpec) -> Result<Self, SpecError> {
        let layout = Self::of(spec)?;
        let kind = match layout.kind {
            Kind::Symbol(values) => Kind::Counts(values),
            kind => kind,
        };
        Ok(Self { kind, ..layout })
    }

    /// Adds the name of the series, where there are several.
    #[must_use]
    pub fn with_series(self, names: &[String]) -> Self {
        Self { series: names.to_vec(), ..self }
    }

    /// Adds the time of each timestamp, where the clock has times.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Adds a field for what is suspicious about a release.
    #[must_use]
    pub fn with_suspicions(self) -> Self {
        Self { has_suspicions: true, ..self }
    }

    /// Adds why a release is as it is, to the first NDJSON line of each.
    #[must_use]
    pub fn with_reasons(self) -> Self {
        Self { has_reasons: true, ..self }
    }

    /// Returns the clock of its times.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the columns, in their order.
    pub fn columns(&self) -> Vec<Column> {
        let text = |name| Column { name, kind: ColumnKind::Text };
        let number = |name| Column { name, kind: ColumnKind::Number };
        let of_kind = match &self.kind {
            Kind::Number => vec![number("value"), number("variance")],
            Kind::Frequencies(_) => vec![text("value"), number("frequency"), number("variance")],
            Kind::Counts(_) => vec![text("value"), number("count"), number("variance")],
            Kind::Tree(_) => vec![text("first"), text("last"), number("frequency"), number("variance")],
            Kind::Symbol(_) => vec![text("user"), text("value")],
        };
        let mut columns = vec![Column { name: "t", kind: ColumnKind::Whole }];
        columns.extend(self.clock.has_times().then_some(text("time")));
        columns.extend((!self.series.is_empty()).then_some(text("series")));
        columns.extend(of_kind);
        columns.extend([text("freshness"), text("spent"), Column { name: "seeded", kind: ColumnKind::Flag }]);
        columns.extend(self.has_suspicions.then_some(text("suspicious")));
        columns
    }

    /// Returns the number of lines of one timestamp, over all series.
    pub fn numbers(&self) -> u64 {
        let of_one = match &self.kind {
            Kind::Number | Kind::Symbol(_) => 1,
            Kind::Frequencies(values) | Kind::Counts(values) => u64::from(values.count()),
            Kind::Tree(values) => {
                let shape = tree::TreeShape::new(values.count());
                (0..=shape.height()).map(|level| u64::from(shape.nodes(level))).sum()
            }
        };
        of_one.saturating_mul(self.series.len().max(1) as u64)
    }

    /// Writes the header line, if the format has one.
    pub fn begin(&self, format: Format, text: &mut String) {
        if format == Format::Csv {
            let names: Vec<&str> = self.columns().iter().map(|column| column.name).collect();
            text.push_str(&names.join(","));
            text.push('\n');
        }
    }

    /// Writes the lines of a release of the first series, or of the only one: see [`Self::write_of`].
    ///
    /// # Errors
    /// As there.
    pub fn write(
        &self,
        release: &Release,
        user: Option<&str>,
        format: Format,
        text: &mut String,
    ) -> Result<(), fmt::Error> {
        self.write_of(0, release, user, format, text)
    }

    /// Writes the lines of a release with what is suspicious about it: words without commas and quotes.
    ///
    /// # Errors
    /// As for [`write_of`](Self::write_of).
    pub fn write_suspected(
        &self,
        release: &Release,
        suspicious: &str,
        format: Format,
        text: &mut String,
    ) -> Result<(), fmt::Error> {
        self.lines(0, release, None, |line| Line { suspicious: Some(suspicious), ..line }.write(format, text))
    }

    /// Writes the lines of a release of a series; `user` is its owner, where each user has a stream.
    ///
    /// Writes nothing if the release has another kind of statistic than the layout.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub fn write_of(
        &self,
        series: usize,
        release: &Release,
        user: Option<&str>,
        format: Format,
        text: &mut String,
    ) -> Result<(), fmt::Error> {
        self.lines(series, release, user, |line| line.write(format, text))
    }

    /// Passes the cells of a release's lines to `take`, line by line in the order of [`Self::columns`]. `suspicious` is
    /// for layouts with a field for it.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub fn cells(
        &self,
        series: usize,
        release: &Release,
        user: Option<&str>,
        suspicious: &str,
        mut take: impl FnMut(Cell<'_>),
    ) -> Result<(), fmt::Error> {
        let mut spent = String::new();
        write!(spent, "{}", release.spent)?;
        self.lines(series, release, user, |line| {
            let suspicious = line.suspicious.map(|_| suspicious);
            Line { suspicious, ..line }.cells(&spent, &mut take);
            Ok(())
        })
    }

    fn lines(
        &self,
        series: usize,
        release: &Release,
        user: Option<&str>,
        mut take: impl FnMut(Line<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let time = self.clock.time(release.timestamp);
        let series = self.series.get(series).map(String::as_str);
        let suspicious = self.has_suspicions.then_some("");
        let mut why = release.why.as_deref().filter(|_| self.has_reasons);
        let mut line =
            |cells| take(Line { series, suspicious, why: why.take(), ..Line::new(release, time.as_deref(), cells) });
        match &self.kind {
            Kind::Number => match release.statistic.number() {
                Some(Number { value, variance }) => line(Cells::Number { value, variance: Stated::of(variance) }),
                None => Ok(()),
            },
            Kind::Frequencies(values) => {
                let (frequencies, variances) = release.statistic.leaves();
                (0..).zip(frequencies).zip(variances).try_for_each(|((value, &frequency), &variance)| {
                    line(Cells::Frequency { value: values.name(value), frequency, variance: Stated::of(variance) })
                })
            }
            Kind::Counts(values) => {
                let (counts, variances) = release.statistic.leaves();
                (0..).zip(counts).zip(variances).try_for_each(|((value, &count), &variance)| {
                    line(Cells::Count { value: values.name(value), count, variance: Stated::of(variance) })
                })
            }
            Kind::Tree(values) => {
                let Statistic::Tree(tree) = &release.statistic else { return Ok(()) };
                let shape = tree.shape();
                (0..=shape.height()).try_for_each(|level| {
                    (0..shape.nodes(level)).try_for_each(|node| {
                        let (frequency, variance) = tree.node(level, node);
                        let first = node * shape.width(level);
                        let last = first + shape.leaves(level, node).saturating_sub(1);
                        let (first, last) = (values.name(first), values.name(last));
                        line(Cells::Node { first, last, frequency, variance: Stated::of(variance) })
                    })
                })
            }
            Kind::Symbol(values) => {
                let Statistic::Symbol(symbol) = &release.statistic else { return Ok(()) };
                let (user, value) = (user.unwrap_or_default(), values.name(symbol.symbol));
                line(Cells::Symbol { user, value })
            }
        }
    }
}

impl<'a> Line<'a> {
    const fn new(release: &'a Release, time: Option<&'a str>, cells: Cells<'a>) -> Self {
        let Release { timestamp, freshness, spent, seeded, .. } = release;
        let (freshness, seeded) = (freshness.name(), *seeded);
        Self { t: *timestamp, time, series: None, cells, freshness, spent, seeded, suspicious: None, why: None }
    }

    fn cells(&self, spent: &str, take: &mut impl FnMut(Cell<'_>)) {
        take(Cell::Whole(self.t));
        [self.time, self.series].into_iter().flatten().for_each(|text| take(Cell::Text(text)));
        let (texts, numbers) = match &self.cells {
            Cells::Number { value, variance } => ([None, None], Some((*value, variance))),
            Cells::Frequency { value, frequency: number, variance }
            | Cells::Count { value, count: number, variance } => {
                ([Some(value.as_ref()), None], Some((*number, variance)))
            }
            Cells::Node { first, last, frequency, variance } => {
                ([Some(first.as_ref()), Some(last)], Some((*frequency, variance)))
            }
            Cells::Symbol { user, value } => ([Some(*user), Some(value)], None),
        };
        texts.into_iter().flatten().for_each(|text| take(Cell::Text(text)));
        if let Some((number, variance)) = numbers {
            take(Cell::Number(Some(number)));
            take(Cell::Number(variance.0));
        }
        take(Cell::Text(self.freshness));
        take(Cell::Text(spent));
        take(Cell::Flag(self.seeded));
        self.suspicious.into_iter().for_each(|text| take(Cell::Text(text)));
    }

    fn write(&self, format: Format, text: &mut String) -> fmt::Result {
        if format == Format::Ndjson {
            text.push_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?);
            text.push('\n');
            return Ok(());
        }
        write!(text, "{}", self.t)?;
        if let Some(time) = self.time {
            // No form of a time has a comma or a quote.
            write!(text, ",{time}")?;
        }
        if let Some(series) = self.series {
            write!(text, ",{}", quoted(series))?;
        }
        match &self.cells {
            Cells::Number { value, variance } => write!(text, ",{value},{variance}"),
            Cells::Frequency { value, frequency: number, variance }
            | Cells::Count { value, count: number, variance } => {
                write!(text, ",{},{number},{variance}", quoted(value))
            }
            Cells::Node { first, last, frequency, variance } => {
                write!(text, ",{},{},{frequency},{variance}", quoted(first), quoted(last))
            }
            Cells::Symbol { user, value } => write!(text, ",{},{}", quoted(user), quoted(value)),
        }?;
        // Neither text has a comma or a quote.
        write!(text, ",{},{},{}", self.freshness, self.spent, self.seeded)?;
        if let Some(suspicious) = self.suspicious {
            write!(text, ",{suspicious}")?;
        }
        text.push('\n');
        Ok(())
    }
}
