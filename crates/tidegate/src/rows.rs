//! Releases as lines of text: CSV, or a JSON object a line.
//!
//! A release has as many lines as its statistic has numbers, each with the names that its domain gives to values.
//!
//! ```
//! use tidegate::release::{Counts, Freshness, Release};
//! use tidegate::rows::{Format, Shape};
//! use tidegate::spec::ValuesSpec;
//!
//! let shape = Shape::Counts(ValuesSpec::Names(vec!["home".to_owned(), "out, or away".to_owned()]).values()?);
//! let release = Release {
//!     timestamp: 7,
//!     statistic: Counts { counts: vec![60.0, 40.5], variances: vec![2.0, 2.0] }.into(),
//!     freshness: Freshness::Fresh,
//!     spent: None,
//!     reports: 0,
//! };
//! let mut text = String::new();
//! shape.begin(Format::Csv, &mut text);
//! shape.write(&release, None, Format::Csv, &mut text)?;
//! assert_eq!(text, "t,value,count,variance,freshness\n7,home,60,2,fresh\n7,\"out, or away\",40.5,2,fresh\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

use crate::local::LocalKind;
use crate::release::{Number, Release, Statistic};
use crate::spec::{SpecError, StreamSpec, Values};

/// How a table is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Fields separated by commas; the first line names them.
    #[default]
    Csv,
    /// A JSON object a line, each with the same fields.
    Ndjson,
}

/// A column of a table that has types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers, none negative.
    Whole,
    /// Numbers.
    Number,
    /// Text.
    Text,
}

/// A field as CSV has it: in quotes where it would be taken for several otherwise.
pub fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}

/// What the lines of a stream look like.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A number a timestamp.
    Number,
    /// How frequent each value is.
    Frequencies(Values),
    /// How many users hold each value.
    Counts(Values),
    /// How frequent each node of a hierarchy is: the values from the first to the last.
    Tree(Values),
    /// A symbol of a user.
    Symbol(Values),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Number { t: u64, value: f64, variance: f64, freshness: &'static str },
    Frequency { t: u64, value: Cow<'a, str>, frequency: f64, variance: f64, freshness: &'static str },
    Count { t: u64, value: Cow<'a, str>, count: f64, variance: f64, freshness: &'static str },
    Node { t: u64, first: Cow<'a, str>, last: Cow<'a, str>, frequency: f64, variance: f64, freshness: &'static str },
    Symbol { t: u64, user: &'a str, value: Cow<'a, str>, freshness: &'static str },
}

impl Shape {
    /// What the lines of a spec's releases look like.
    ///
    /// # Errors
    /// [`SpecError`], where its domain is none.
    pub fn of(spec: &StreamSpec) -> Result<Self, SpecError> {
        Ok(match spec {
            StreamSpec::Local(spec) => match spec.mechanism {
                LocalKind::Mtsp | LocalKind::MtspPopulation => Self::Tree(spec.values()?),
                _ => Self::Frequencies(spec.values()?),
            },
            StreamSpec::Central(spec) => Self::Counts(spec.values()?),
            StreamSpec::Event(_) => Self::Number,
            StreamSpec::Sequence(spec) => Self::Symbol(spec.values()?),
        })
    }

    const fn header(&self) -> &'static str {
        match self {
            Self::Number => "t,value,variance,freshness\n",
            Self::Frequencies(_) => "t,value,frequency,variance,freshness\n",
            Self::Counts(_) => "t,value,count,variance,freshness\n",
            Self::Tree(_) => "t,first,last,frequency,variance,freshness\n",
            Self::Symbol(_) => "t,user,value,freshness\n",
        }
    }

    /// What stands in the fields.
    pub const fn columns(&self) -> &'static [Column] {
        const T: Column = Column { name: "t", kind: Kind::Whole };
        const VALUE: Column = Column { name: "value", kind: Kind::Text };
        const FREQUENCY: Column = Column { name: "frequency", kind: Kind::Number };
        const VARIANCE: Column = Column { name: "variance", kind: Kind::Number };
        const FRESHNESS: Column = Column { name: "freshness", kind: Kind::Text };
        match self {
            Self::Number => &[T, Column { name: "value", kind: Kind::Number }, VARIANCE, FRESHNESS],
            Self::Frequencies(_) => &[T, VALUE, FREQUENCY, VARIANCE, FRESHNESS],
            Self::Counts(_) => &[T, VALUE, Column { name: "count", kind: Kind::Number }, VARIANCE, FRESHNESS],
            Self::Tree(_) => &[
                T,
                Column { name: "first", kind: Kind::Text },
                Column { name: "last", kind: Kind::Text },
                FREQUENCY,
                VARIANCE,
                FRESHNESS,
            ],
            Self::Symbol(_) => &[T, Column { name: "user", kind: Kind::Text }, VALUE, FRESHNESS],
        }
    }

    /// Writes what comes before all lines.
    pub fn begin(&self, format: Format, text: &mut String) {
        if format == Format::Csv {
            text.push_str(self.header());
        }
    }

    /// Writes the lines of a release; `user` is whose it is, where each user has a stream. What has another shape than this has no lines.
    ///
    /// # Errors
    /// None that is known: text can always be written to.
    pub fn write(
        &self,
        release: &Release,
        user: Option<&str>,
        format: Format,
        text: &mut String,
    ) -> Result<(), std::fmt::Error> {
        let (t, freshness) = (release.timestamp, release.freshness.name());
        match self {
            Self::Number => match release.statistic.number() {
                Some(Number { value, variance }) => Line::Number { t, value, variance, freshness }.write(format, text),
                None => Ok(()),
            },
            Self::Frequencies(values) => {
                let (frequencies, variances) = release.statistic.leaves();
                (0..).zip(frequencies).zip(variances).try_for_each(|((value, &frequency), &variance)| {
                    Line::Frequency { t, value: values.name(value), frequency, variance, freshness }.write(format, text)
                })
            }
            Self::Counts(values) => {
                let (counts, variances) = release.statistic.leaves();
                (0..).zip(counts).zip(variances).try_for_each(|((value, &count), &variance)| {
                    Line::Count { t, value: values.name(value), count, variance, freshness }.write(format, text)
                })
            }
            Self::Tree(values) => {
                let Statistic::Tree(tree) = &release.statistic else { return Ok(()) };
                let shape = tree.shape();
                (0..=shape.height()).try_for_each(|level| {
                    (0..shape.nodes(level)).try_for_each(|node| {
                        let (frequency, variance) = tree.node(level, node);
                        let first = node * shape.width(level);
                        let last = first + shape.leaves(level, node).saturating_sub(1);
                        let (first, last) = (values.name(first), values.name(last));
                        Line::Node { t, first, last, frequency, variance, freshness }.write(format, text)
                    })
                })
            }
            Self::Symbol(values) => {
                let Statistic::Symbol(symbol) = &release.statistic else { return Ok(()) };
                let (user, value) = (user.unwrap_or_default(), values.name(symbol.symbol));
                Line::Symbol { t, user, value, freshness }.write(format, text)
            }
        }
    }
}

impl Line<'_> {
    fn write(&self, format: Format, text: &mut String) -> std::fmt::Result {
        if format == Format::Ndjson {
            text.push_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?);
            text.push('\n');
            return Ok(());
        }
        match self {
            Line::Number { t, value, variance, freshness } => writeln!(text, "{t},{value},{variance},{freshness}"),
            Line::Frequency { t, value, frequency: number, variance, freshness }
            | Line::Count { t, value, count: number, variance, freshness } => {
                writeln!(text, "{t},{},{number},{variance},{freshness}", quoted(value))
            }
            Line::Node { t, first, last, frequency, variance, freshness } => {
                writeln!(text, "{t},{},{},{frequency},{variance},{freshness}", quoted(first), quoted(last))
            }
            Line::Symbol { t, user, value, freshness } => {
                writeln!(text, "{t},{},{},{freshness}", quoted(user), quoted(value))
            }
        }
    }
}
