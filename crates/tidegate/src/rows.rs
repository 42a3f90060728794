//! Releases as lines of text: CSV, or a JSON object a line.
//!
//! A release has as many lines as its statistic has numbers, each with the names that its domain gives to values.
//!
//! ```
//! use tidegate::release::{Counts, Freshness, Release, Spent};
//! use tidegate::rows::{Format, Shape};
//! use tidegate::spec::ValuesSpec;
//!
//! let shape = Shape::Counts(ValuesSpec::Names(vec!["home".to_owned(), "out, or away".to_owned()]).values()?);
//! let release = Release {
//!     timestamp: 7,
//!     statistic: Counts { counts: vec![60.0, 40.5], variances: vec![2.0, 2.0] }.into(),
//!     freshness: Freshness::Fresh,
//!     spent: Spent::Everyone("0.1".parse()?),
//!     reports: 0,
//!     seeded: false,
//! };
//! let mut text = String::new();
//! shape.begin(Format::Csv, &mut text);
//! shape.write(&release, None, Format::Csv, &mut text)?;
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
use serde_json::value::RawValue;
use tidegate_kernel::Decimal;

use crate::local::LocalKind;
use crate::release::{Number, Release, Spent, Statistic};
use crate::spec::{SpecError, StreamSpec, Values};
use crate::tree;

/// How a table is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Fields separated by commas; the first line names them.
    #[default]
    Csv,
    /// A JSON object a line, each with the same fields.
    Ndjson,
}

/// The text that a JSON value stands for in a table: a text itself, a truth value, or a number with all its digits,
/// written without an exponent.
/// `None` for everything else.
///
/// ```
/// let text = |json| tidegate::rows::text_of_json(serde_json::from_str(json).ok()?);
/// assert_eq!(text("1700000000000000129").as_deref(), Some("1700000000000000129"));
/// assert_eq!(text("-1.50e1").as_deref(), Some("-15"));
/// assert_eq!(text("\"home\"").as_deref(), Some("home"));
/// assert_eq!(text("null"), None);
/// ```
pub fn text_of_json(value: &RawValue) -> Option<String> {
    let json = value.get();
    match json.as_bytes() {
        [b'"', ..] => serde_json::from_str(json).ok(),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Some(json.to_owned()),
        [b'-' | b'0'..=b'9', ..] => {
            // A longer one keeps its form.
            Some(json.parse::<Decimal>().map_or_else(|_| json.to_owned(), |number| number.to_string()))
        }
        b"true" | b"false" => Some(json.to_owned()),
        _ => None,
    }
}

/// JSON in which `NaN`, `Infinity` and their other spellings are `null`: some writers put them in the place of numbers,
/// and one of them must not make a whole text unreadable. `None` where there is none.
///
/// ```
/// use tidegate::rows::without_nan;
///
/// assert_eq!(without_nan(r#"{"NaN": -Infinity}"#).as_deref(), Some(r#"{"NaN": null}"#));
/// assert_eq!(without_nan(r#"{"value": "a \"NaN\""}"#), None);
/// ```
pub fn without_nan(json: &str) -> Option<String> {
    let (mut clean, mut rest, mut in_text, mut changed) = (String::with_capacity(json.len()), json, false, false);
    while let Some(next) = rest.chars().next() {
        let begins = |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let words = ["-infinity", "infinity", "-inf", "inf", "-nan", "nan"];
        let word = words.into_iter().find(|word| !in_text && begins(word));
        if let Some(word) = word {
            clean.push_str("null");
            rest = &rest[word.len()..];
            changed = true;
            continue;
        }
        let is_escape = in_text && next == '\\';
        let taken = if is_escape { rest.chars().take(2).map(char::len_utf8).sum() } else { next.len_utf8() };
        in_text ^= next == '"';
        clean.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    changed.then_some(clean)
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
    /// `true` or `false`.
    Flag,
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

/// A line of a table.
#[derive(Serialize)]
struct Line<'a> {
    t: u64,
    #[serde(flatten)]
    cells: Cells<'a>,
    freshness: &'static str,
    /// As text, like all that is no number, so that every table has one cell for it.
    #[serde(serialize_with = "as_text")]
    spent: &'a Spent,
    seeded: bool,
}

fn as_text<S: Serializer>(spent: &Spent, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(spent)
}

/// The fields that lines of different shapes do not share.
#[derive(Serialize)]
#[serde(untagged)]
enum Cells<'a> {
    Number { value: f64, variance: f64 },
    Frequency { value: Cow<'a, str>, frequency: f64, variance: f64 },
    Count { value: Cow<'a, str>, count: f64, variance: f64 },
    Node { first: Cow<'a, str>, last: Cow<'a, str>, frequency: f64, variance: f64 },
    Symbol { user: &'a str, value: Cow<'a, str> },
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
            StreamSpec::Scalar(_) => Self::Number,
            StreamSpec::Sequence(spec) => Self::Symbol(spec.values()?),
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

    /// What stands in the fields.
    pub const fn columns(&self) -> &'static [Column] {
        const T: Column = Column { name: "t", kind: Kind::Whole };
        const VALUE: Column = Column { name: "value", kind: Kind::Text };
        const FREQUENCY: Column = Column { name: "frequency", kind: Kind::Number };
        const VARIANCE: Column = Column { name: "variance", kind: Kind::Number };
        const FRESHNESS: Column = Column { name: "freshness", kind: Kind::Text };
        const SPENT: Column = Column { name: "spent", kind: Kind::Text };
        const SEEDED: Column = Column { name: "seeded", kind: Kind::Flag };
        match self {
            Self::Number => &[T, Column { name: "value", kind: Kind::Number }, VARIANCE, FRESHNESS, SPENT, SEEDED],
            Self::Frequencies(_) => &[T, VALUE, FREQUENCY, VARIANCE, FRESHNESS, SPENT, SEEDED],
            Self::Counts(_) => {
                &[T, VALUE, Column { name: "count", kind: Kind::Number }, VARIANCE, FRESHNESS, SPENT, SEEDED]
            }
            Self::Tree(_) => &[
                T,
                Column { name: "first", kind: Kind::Text },
                Column { name: "last", kind: Kind::Text },
                FREQUENCY,
                VARIANCE,
                FRESHNESS,
                SPENT,
                SEEDED,
            ],
            Self::Symbol(_) => &[T, Column { name: "user", kind: Kind::Text }, VALUE, FRESHNESS, SPENT, SEEDED],
        }
    }

    /// How many lines a release has.
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

    /// Writes what comes before all lines.
    pub fn begin(&self, format: Format, text: &mut String) {
        if format == Format::Csv {
            text.push_str(self.header());
        }
    }

    /// Writes the lines of a release; `user` is whose it is, where each user has a stream. What has another shape than
    /// this has no lines.
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
