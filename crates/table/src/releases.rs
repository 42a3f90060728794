//! Releases as lines of CSV or newline-delimited JSON.
//!
//! A release has one line for each number of its statistic. Lines name values as the domain of the stream does.
//!
//! ```
//! use tidegate::release::{Counts, Freshness, Release, Spent};
//! use tidegate_table::Format;
//! use tidegate_table::releases::ReleaseLayout;
//! use tidegate::spec::ValuesSpec;
//!
//! let layout = ReleaseLayout::Counts(ValuesSpec::Names(vec!["home".to_owned(), "out, or away".to_owned()]).values()?);
//! let release = Release {
//!     timestamp: 7,
//!     statistic: Counts { counts: vec![60.0, 40.5], variances: vec![2.0, 2.0] }.into(),
//!     freshness: Freshness::Fresh,
//!     spent: Spent::Everyone("0.1".parse()?),
//!     reports: 0,
//!     seeded: false,
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
use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use tidegate::mechanisms::Output;
use tidegate::release::{Number, Release, Spent, Statistic};
use tidegate::spec::{SpecError, StreamSpec, Values};
use tidegate::tree;

use crate::Format;

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

/// Quotes a CSV field if it contains a comma, a quote or a line break.
pub fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}

/// The columns and lines of a stream's releases.
#[derive(Clone, Debug)]
pub enum ReleaseLayout {
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
    #[serde(flatten)]
    cells: Cells<'a>,
    freshness: &'static str,
    /// One cell, also where each class of users spends its own budget.
    #[serde(serialize_with = "as_text")]
    spent: &'a Spent,
    seeded: bool,
}

fn as_text<S: Serializer>(spent: &Spent, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(spent)
}

/// The fields that differ between layouts.
#[derive(Serialize)]
#[serde(untagged)]
enum Cells<'a> {
    Number { value: f64, variance: f64 },
    Frequency { value: Cow<'a, str>, frequency: f64, variance: f64 },
    Count { value: Cow<'a, str>, count: f64, variance: f64 },
    Node { first: Cow<'a, str>, last: Cow<'a, str>, frequency: f64, variance: f64 },
    Symbol { user: &'a str, value: Cow<'a, str> },
}

impl ReleaseLayout {
    /// Returns the layout of a spec's releases.
    ///
    /// # Errors
    /// [`SpecError`], if the domain is invalid.
    pub fn of(spec: &StreamSpec) -> Result<Self, SpecError> {
        let Some(values) = spec.values()? else { return Ok(Self::Number) };
        Ok(match spec.mechanism().output {
            Output::Frequencies => Self::Frequencies(values),
            Output::Tree => Self::Tree(values),
            Output::Counts => Self::Counts(values),
            Output::Number => Self::Number,
            Output::Symbol => Self::Symbol(values),
        })
    }

    const fn header(&self) -> &'static str {
        match self {
            Self::Number => "t,value,variance,freshness,spent,seeded\n",
            Self::Frequencies(_) => "t,value,frequency,variance,freshness,spent,seeded\n",
            Self::Counts(_) => "t,value,count,variance,freshness,spent,seeded\n",
            Self::Tree(_) => "t,first,last,frequency,variance,freshness,spent,seeded\n",
            Self::Symbol(_) => "t,user,value,freshness,spent,seeded\n",
        }
    }

    /// Returns the columns, in their order.
    pub const fn columns(&self) -> &'static [Column] {
        const T: Column = Column { name: "t", kind: ColumnKind::Whole };
        const VALUE: Column = Column { name: "value", kind: ColumnKind::Text };
        const FREQUENCY: Column = Column { name: "frequency", kind: ColumnKind::Number };
        const VARIANCE: Column = Column { name: "variance", kind: ColumnKind::Number };
        const FRESHNESS: Column = Column { name: "freshness", kind: ColumnKind::Text };
        const SPENT: Column = Column { name: "spent", kind: ColumnKind::Text };
        const SEEDED: Column = Column { name: "seeded", kind: ColumnKind::Flag };
        match self {
            Self::Number => {
                &[T, Column { name: "value", kind: ColumnKind::Number }, VARIANCE, FRESHNESS, SPENT, SEEDED]
            }
            Self::Frequencies(_) => &[T, VALUE, FREQUENCY, VARIANCE, FRESHNESS, SPENT, SEEDED],
            Self::Counts(_) => {
                &[T, VALUE, Column { name: "count", kind: ColumnKind::Number }, VARIANCE, FRESHNESS, SPENT, SEEDED]
            }
            Self::Tree(_) => &[
                T,
                Column { name: "first", kind: ColumnKind::Text },
                Column { name: "last", kind: ColumnKind::Text },
                FREQUENCY,
                VARIANCE,
                FRESHNESS,
                SPENT,
                SEEDED,
            ],
            Self::Symbol(_) => &[T, Column { name: "user", kind: ColumnKind::Text }, VALUE, FRESHNESS, SPENT, SEEDED],
        }
    }

    /// Returns the number of lines of one release.
    pub fn numbers(&self) -> u64 {
        match self {
            Self::Number | Self::Symbol(_) => 1,
            Self::Frequencies(values) | Self::Counts(values) => u64::from(values.count()),
            Self::Tree(values) => {
                let shape = tree::TreeShape::new(values.count());
                (0..=shape.height()).map(|level| u64::from(shape.nodes(level))).sum()
            }
        }
    }

    /// Writes the header line, if the format has one.
    pub fn begin(&self, format: Format, text: &mut String) {
        if format == Format::Csv {
            text.push_str(self.header());
        }
    }

    /// Writes the lines of a release; `user` is its owner, where each user has a stream.
    ///
    /// Writes nothing if the release has another kind of statistic than the layout.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub fn write(
        &self,
        release: &Release,
        user: Option<&str>,
        format: Format,
        text: &mut String,
    ) -> Result<(), std::fmt::Error> {
        let mut line = |cells| Line::new(release, cells).write(format, text);
        match self {
            Self::Number => match release.statistic.number() {
                Some(Number { value, variance }) => line(Cells::Number { value, variance }),
                None => Ok(()),
            },
            Self::Frequencies(values) => {
                let (frequencies, variances) = release.statistic.leaves();
                (0..).zip(frequencies).zip(variances).try_for_each(|((value, &frequency), &variance)| {
                    line(Cells::Frequency { value: values.name(value), frequency, variance })
                })
            }
            Self::Counts(values) => {
                let (counts, variances) = release.statistic.leaves();
                (0..).zip(counts).zip(variances).try_for_each(|((value, &count), &variance)| {
                    line(Cells::Count { value: values.name(value), count, variance })
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
                        line(Cells::Node { first, last, frequency, variance })
                    })
                })
            }
            Self::Symbol(values) => {
                let Statistic::Symbol(symbol) = &release.statistic else { return Ok(()) };
                let (user, value) = (user.unwrap_or_default(), values.name(symbol.symbol));
                line(Cells::Symbol { user, value })
            }
        }
    }
}

impl<'a> Line<'a> {
    const fn new(release: &'a Release, cells: Cells<'a>) -> Self {
        let Release { timestamp, freshness, spent, seeded, .. } = release;
        Self { t: *timestamp, cells, freshness: freshness.name(), spent, seeded: *seeded }
    }

    fn write(&self, format: Format, text: &mut String) -> std::fmt::Result {
        if format == Format::Ndjson {
            text.push_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?);
            text.push('\n');
            return Ok(());
        }
        write!(text, "{}", self.t)?;
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
        writeln!(text, ",{},{},{}", self.freshness, self.spent, self.seeded)
    }
}
