//! Tables of past releases, or of raw values in the same form: what a stream was like.
//!
//! ```text
//! t,value,variance,freshness          one number a timestamp, as `tidegate release` writes it
//! 0,212.4,512,fresh
//!
//! t,value                             the same without its variances, or raw
//! 0,212
//!
//! t,value,frequency,variance,freshness   a line for each value of a domain, as it writes them; or t,value,count,..
//! 0,north,0.71,0.0001,fresh
//! 0,south,0.28,0.0001,fresh
//!
//! t,user,value,freshness              symbols of one user
//! 0,ada,2,fresh
//!
//! t,north,south,variance              a number for each value of a domain, in one line
//! 0,0.71,0.28,0.0001
//! ```
//!
//! Besides `t` and the values, the fields `variance` (of each value of the line) and `freshness` are understood, and
//! `spent`, `reports` and `seeded` are passed over. A field `<value>_variance` is the variance of that value alone.
//! Timestamps are whole numbers, each later than the last; there may be gaps. A file may be compressed with gzip.

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
const PASSED_OVER: [&str; 3] = ["spent", "reports", "seeded"];
const VARIANCE: &str = "variance";
const FRESHNESS: &str = "freshness";

/// Where a table has what.
struct Layout {
    /// Each value's field, and that of its variance.
    values: Vec<(usize, Option<usize>)>,
    freshness: Option<usize>,
    /// Who a line is about, where it says so.
    user: Option<usize>,
}

/// Reads a table; `name` is what errors call it. `check` is given each number with its variance, and says what is
/// expected where it refuses one.
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
    let header: Vec<&str> = table.header().iter().collect();
    if let ["t", "value", "frequency" | "count", "variance", "freshness", rest @ ..] = &header[..]
        && rest.iter().all(|field| PASSED_OVER.contains(field))
    {
        return read_long(table, check);
    }
    let (layout, values) = layout(&table)?;
    let states_variance = layout.values.iter().any(|(_, variance)| variance.is_some());
    let is_release = states_variance || layout.freshness.is_some();
    let mut lines = Vec::new();
    let mut last = None;
    let mut user: Option<String> = None;
    while let Some(line) = table.next_line()? {
        if let Some(field) = layout.user
            && *user.get_or_insert_with(|| line.text(field).to_owned()) != *line.text(field)
        {
            return Err(line.bad_field(field, "the same user in all lines: advice is about one user's symbols"));
        }
        lines.push(line_of(&line, &layout, &mut last, &check)?);
    }
    if lines.is_empty() {
        return Err(table.bad_content("it has no timestamps"));
    }
    Ok(Released { values, states_variance, is_release, lines })
}

/// A table with a line for each value of each timestamp.
fn read_long<R: Read>(
    mut table: Table<R>,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<Released, DataError> {
    let mut values: Vec<String> = Vec::new();
    let mut lines: Vec<ReleasedLine> = Vec::new();
    while let Some(line) = table.next_line()? {
        let timestamp: u64 = line.number(0, TIMESTAMP)?;
        let (number, variance) = cell(&line, 2, Some(3), &check)?;
        let fresh = freshness(&line, Some(4))?;
        let complete = lines.last().is_none_or(|last| last.numbers.len() >= values.len());
        match lines.last_mut() {
            Some(last) if last.timestamp == timestamp => {
                last.numbers.push(number);
                last.variances.push(variance);
            }
            Some(last) if last.timestamp > timestamp || !complete => {
                return Err(line.bad_field(0, "a timestamp with all its values, and later than the last"));
            }
            _ => lines.push(ReleasedLine { timestamp, numbers: vec![number], variances: vec![variance], fresh }),
        }
        let place = lines.last().map_or(0, |last| last.numbers.len()) - 1;
        let label = line.text(1);
        let known = values.get(place).map(String::as_str);
        match (lines.len(), known) {
            (1, None) if !values.iter().any(|value| value == label) => values.push(label.to_owned()),
            (_, Some(known)) if known == label => {}
            _ => return Err(line.bad_field(1, "the values of the first timestamp, each once and in their order")),
        }
    }
    if lines.last().is_none_or(|last| last.numbers.len() != values.len()) {
        return Err(table.bad_content("it has no timestamps, or breaks off within the last"));
    }
    Ok(Released { values, states_variance: true, is_release: true, lines })
}

const TIMESTAMP: &str = "a timestamp: a whole number, zero or more";

fn layout<R: Read>(table: &Table<R>) -> Result<(Layout, Vec<String>), DataError> {
    let header: Vec<&str> = table.header().iter().collect();
    if header.first() != Some(&"t") {
        return Err(table.bad_header("the fields must be t,value or t,<value>,<value>,.."));
    }
    let user = matches!(header[..], ["t", "user", "value", ..]).then_some(1);
    if header[1..].contains(&"first") && header[1..].contains(&"last") {
        return Err(
            table.bad_header("releases of trees cannot be read here; give a number for each value of the domain")
        );
    }
    let place = |field: &str| header.iter().position(|other| *other == field);
    let is_value = |field: &str| {
        let of = field.strip_suffix("_variance").is_some_and(|value| place(value).is_some());
        !of && field != VARIANCE
            && field != FRESHNESS
            && !PASSED_OVER.contains(&field)
            && (user.is_none() || field == "value")
    };
    let names: Vec<&str> = header[1..].iter().copied().filter(|field| is_value(field)).collect();
    if names.is_empty() {
        return Err(table.bad_header("there is no value besides t"));
    }
    let column = |value: &&str| {
        let variance = place(&format!("{value}_variance")).or_else(|| place(VARIANCE));
        place(value).map(|field| (field, variance))
    };
    let layout = Layout { values: names.iter().filter_map(column).collect(), freshness: place(FRESHNESS), user };
    Ok((layout, names.into_iter().map(str::to_owned).collect()))
}

fn line_of(
    line: &Line<'_>,
    layout: &Layout,
    last: &mut Option<u64>,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<ReleasedLine, DataError> {
    let timestamp: u64 = line.number(0, TIMESTAMP)?;
    if !later(last, timestamp) {
        return Err(line.bad_field(0, "a timestamp that is later than the last"));
    }
    let cells = layout.values.iter().map(|(field, variance)| cell(line, *field, *variance, &check));
    let (numbers, variances) = cells.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    Ok(ReleasedLine { timestamp, numbers, variances, fresh: freshness(line, layout.freshness)? })
}

/// A number and its variance.
fn cell(
    line: &Line<'_>,
    field: usize,
    variance_field: Option<usize>,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<(f64, f64), DataError> {
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
    Ok((number, variance))
}

/// Whether a line was published afresh, which it was where it does not say.
fn freshness(line: &Line<'_>, field: Option<usize>) -> Result<bool, DataError> {
    match field.map(|field| (field, line.text(field))) {
        None | Some((_, "fresh")) => Ok(true),
        Some((_, "approximated" | "nullified")) => Ok(false),
        Some((field, _)) => Err(line.bad_field(field, "fresh, approximated or nullified")),
    }
}
