//! Tables of past releases, or of raw values in the same form: what a stream was like.
//!
//! ```text
//! t,value,variance,freshness          one number a timestamp, as `tidegate release` writes it
//! 0,212.4,512,fresh
//!
//! t,value                             the same without its variances, or raw
//! 0,212
//!
//! t,north,south,variance              a number for each value of a domain
//! 0,0.71,0.28,0.0001
//! ```
//!
//! Besides `t` and the values, the fields `variance` (of each value of the line) and `freshness` are understood, and `spent` and
//! `reports` are passed over. A field `<value>_variance` is the variance of that value alone. Timestamps are whole numbers, each later
//! than the last; there may be gaps. A file may be compressed with gzip.

use std::borrow::Cow;
use std::io::Read;

use super::DataError;
use super::table::{Line, Table, later};

/// A table of releases.
#[derive(Clone, Debug, PartialEq)]
pub struct Released {
    /// The names of the values; a single one where there is one number a timestamp.
    pub values: Vec<String>,
    /// Whether the table says how noisy it is. Where it does not, it may be raw data.
    pub states_variance: bool,
    /// Whether the table is known to hold releases: it has a field that only releases have.
    pub is_release: bool,
    /// A line for each timestamp, at least one.
    pub lines: Vec<ReleasedLine>,
}

/// What was released at a timestamp.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasedLine {
    /// The timestamp.
    pub timestamp: u64,
    /// A number for each value, finite.
    pub numbers: Vec<f64>,
    /// Its variance, finite and not negative; 0 where none is stated.
    pub variances: Vec<f64>,
    /// Whether it was published afresh, rather than repeated.
    pub fresh: bool,
}

/// Fields of a release that say nothing about the stream.
const PASSED_OVER: [&str; 2] = ["spent", "reports"];
const VARIANCE: &str = "variance";
const FRESHNESS: &str = "freshness";

/// Where a table has what.
struct Layout {
    /// Each value's field, and that of its variance.
    values: Vec<(usize, Option<usize>)>,
    freshness: Option<usize>,
}

/// Reads a table; `name` is what errors call it. `check` is given each number with its variance, and says what is expected where
/// it refuses one.
///
/// ```
/// use tidegate_lab::datasets::released;
///
/// let table = "t,value,variance,freshness\n0,212.4,512,fresh\n3,212.4,512,approximated\n";
/// let released = released::read("visitors", table.as_bytes(), |_, _| Ok(()))?;
/// assert!(released.is_release && released.lines[0].fresh && !released.lines[1].fresh);
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub fn read(
    name: &str,
    source: impl Read,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<Released, DataError> {
    let mut table = Table::new(name, source)?;
    let (layout, values) = layout(&table)?;
    let states_variance = layout.values.iter().any(|(_, variance)| variance.is_some());
    let is_release = states_variance || layout.freshness.is_some();
    let mut lines = Vec::new();
    let mut last = None;
    while let Some(line) = table.next_line()? {
        lines.push(line_of(&line, &layout, &mut last, &check)?);
    }
    if lines.is_empty() {
        return Err(table.bad_content("it has no timestamps"));
    }
    Ok(Released { values, states_variance, is_release, lines })
}

fn layout<R: Read>(table: &Table<R>) -> Result<(Layout, Vec<String>), DataError> {
    let header: Vec<&str> = table.header().iter().collect();
    if header.first() != Some(&"t") {
        return Err(table.bad_header("the fields must be t,value or t,<value>,<value>,.."));
    }
    if header[1..] == ["user", "value"] {
        return Err(table.bad_header("a table of single users cannot be read here; count the users of each value"));
    }
    let place = |field: &str| header.iter().position(|other| *other == field);
    let is_value = |field: &str| {
        let of = field.strip_suffix("_variance").is_some_and(|value| place(value).is_some());
        !of && field != VARIANCE && field != FRESHNESS && !PASSED_OVER.contains(&field)
    };
    let names: Vec<&str> = header[1..].iter().copied().filter(|field| is_value(field)).collect();
    if names.is_empty() {
        return Err(table.bad_header("there is no value besides t"));
    }
    let column = |value: &&str| {
        let variance = place(&format!("{value}_variance")).or_else(|| place(VARIANCE));
        place(value).map(|field| (field, variance))
    };
    let layout = Layout { values: names.iter().filter_map(column).collect(), freshness: place(FRESHNESS) };
    Ok((layout, names.into_iter().map(str::to_owned).collect()))
}

fn line_of(
    line: &Line<'_>,
    layout: &Layout,
    last: &mut Option<u64>,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<ReleasedLine, DataError> {
    let timestamp: u64 = line.number(0, "a timestamp: a whole number, zero or more")?;
    if !later(last, timestamp) {
        return Err(line.bad_field(0, "a timestamp that is later than the last"));
    }
    let (mut numbers, mut variances) = (Vec::new(), Vec::new());
    for &(field, variance_field) in &layout.values {
        let number = line.finite(field, "a number")?;
        let variance = match variance_field {
            Some(variance_field) => {
                let expected = "a variance: a number, zero or more";
                let variance = line.finite(variance_field, expected)?;
                if variance < 0.0 {
                    return Err(line.bad_field(variance_field, expected));
                }
                variance
            }
            None => 0.0,
        };
        check(number, variance).map_err(|expected| line.bad_field(field, expected))?;
        numbers.push(number);
        variances.push(variance);
    }
    let fresh = match layout.freshness.map(|field| (field, line.text(field))) {
        None | Some((_, "fresh")) => true,
        Some((_, "approximated" | "nullified")) => false,
        Some((field, _)) => return Err(line.bad_field(field, "fresh, approximated or nullified")),
    };
    Ok(ReleasedLine { timestamp, numbers, variances, fresh })
}
