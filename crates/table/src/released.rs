//! Tables of past releases, or of raw values in the same form.
//!
//! ```text
//! t,value,variance,freshness          one number a timestamp, as `tidegate release` writes it
//! 0,212.4,512,fresh
//!
//! t,value                             the same without variances, or raw
//! 0,212
//!
//! t,value,frequency,variance,freshness   one line for each value of a domain; or t,value,count,..
//! 0,north,0.71,0.0001,fresh
//! 0,south,0.28,0.0001,fresh
//!
//! t,user,value,freshness              the symbols of one user
//! 0,ada,2,fresh
//!
//! t,north,south,variance              a number for each value of a domain in one line
//! 0,0.71,0.28,0.0001
//! ```
//!
//! A release may have the field `time` after `t`, which is ignored. The field `variance` is the variance of each value
//! of the line; `<value>_variance` is that of one value. The fields `spent`, `reports` and `seeded` are ignored.
//! Timestamps are whole numbers, each later than the last.

use std::borrow::Cow;
use std::io::Read;

use crate::{Format, TableError, TableLine, TableReader};

/// A table of releases.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasedTable {
    /// Names of the values; one name where there is one number a timestamp.
    pub values: Vec<String>,
    /// Whether each fresh release of the table has a variance. If not, the table may be raw data.
    pub states_variance: bool,
    /// Whether the table has a field that only releases have.
    pub is_release: bool,
    /// One line for each timestamp, at least one.
    pub lines: Vec<ReleasedLine>,
}

/// The release of one timestamp.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasedLine {
    /// The timestamp.
    pub timestamp: u64,
    /// A finite number for each value.
    pub numbers: Vec<f64>,
    /// Their variances, finite and not negative; 0 where the table has none, or leaves it empty.
    pub variances: Vec<f64>,
    /// Whether the release is fresh, rather than a repetition.
    pub fresh: bool,
}

/// Fields of a release that say nothing about the stream.
const IGNORED: [&str; 4] = ["spent", "reports", "seeded", "suspicious"];
/// The time of a timestamp, right after `t`.
const TIME: &str = "time";
const VARIANCE: &str = "variance";
const FRESHNESS: &str = "freshness";

/// Positions of the fields.
struct Layout {
    /// The field of each value and of its variance.
    values: Vec<(usize, Option<usize>)>,
    freshness: Option<usize>,
    /// The field of the user, if there is one.
    user: Option<usize>,
}

/// Reads a table; `name` is the name in errors.
///
/// `check` gets each number with its variance, and returns a description of a valid number where it rejects one.
///
/// ```
/// use tidegate_table::released;
///
/// let table = "t,value,variance,freshness\n0,212.4,512,fresh\n3,212.4,512,approximated\n";
/// let released = released::read("visitors", table.as_bytes(), |_, _| Ok(()))?;
/// assert!(released.is_release && released.lines[0].fresh && !released.lines[1].fresh);
///
/// let dated = "t,time,value,count,variance,freshness\n0,2026-03-01,home,2,1,fresh\n0,2026-03-01,shop,3,1,fresh\n";
/// let released = released::read("places", dated.as_bytes(), |_, _| Ok(()))?;
/// assert_eq!((released.values.join(" "), &released.lines[0].numbers[..]), ("home shop".to_owned(), &[2.0, 3.0][..]));
/// # Ok::<(), tidegate_table::TableError>(())
/// ```
pub fn read(
    name: &str,
    source: impl Read,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<ReleasedTable, TableError> {
    read_table(TableReader::new(name, source, Format::Csv)?, check)
}

/// Reads an open table, such as one in memory, as [`read`] does.
pub fn read_table<R: Read>(
    mut table: TableReader<R>,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<ReleasedTable, TableError> {
    let header: Vec<&str> = table.header().filter(|field| *field != TIME).collect();
    if header.get(1) == Some(&"series") && header.contains(&FRESHNESS) {
        return Err(table.bad_header("it has several series: keep the lines of one, without the column series"));
    }
    if let ["t", "value", "frequency" | "count", "variance", "freshness", rest @ ..] = &header[..]
        && rest.iter().all(|field| IGNORED.contains(field))
    {
        let value = if table.header().nth(1) == Some(TIME) { 2 } else { 1 };
        return read_long(table, value, check);
    }
    let (layout, values) = layout(&table)?;
    let has_variances = layout.values.iter().any(|(_, variance)| variance.is_some());
    let is_release = has_variances || layout.freshness.is_some();
    let mut lines = Vec::new();
    let (mut last, mut unstated) = (None, false);
    let mut user: Option<String> = None;
    while let Some(line) = table.next_line()? {
        if let Some(field) = layout.user
            && *user.get_or_insert_with(|| line.text(field).to_owned()) != *line.text(field)
        {
            return Err(line.bad_field(field, "the same user in all lines: advice is about one user's symbols"));
        }
        lines.push(line_of(&line, &layout, &mut last, &mut unstated, &check)?);
    }
    if lines.is_empty() {
        return Err(table.bad_content("it has no timestamps"));
    }
    let states_variance = has_variances && !unstated;
    Ok(ReleasedTable { values, states_variance, is_release, lines })
}

/// Reads a table with one line for each value of each timestamp; `value` is the field of the value.
fn read_long<R: Read>(
    mut table: TableReader<R>,
    value: usize,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<ReleasedTable, TableError> {
    let mut values: Vec<String> = Vec::new();
    let mut unstated = false;
    let mut lines: Vec<ReleasedLine> = Vec::new();
    while let Some(line) = table.next_line()? {
        let timestamp = line.timestamp()?;
        let (number, variance) = cell(&line, value + 1, Some(value + 2), &check)?;
        let fresh = freshness(&line, Some(value + 3))?;
        unstated |= fresh && variance.is_none();
        let variance = variance.unwrap_or_default();
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
        let label = line.text(value);
        let known = values.get(place).map(String::as_str);
        match (lines.len(), known) {
            (1, None) if !values.iter().any(|value| value == label) => values.push(label.to_owned()),
            (_, Some(known)) if known == label => {}
            _ => return Err(line.bad_field(value, "the values of the first timestamp, each once and in their order")),
        }
    }
    if lines.last().is_none_or(|last| last.numbers.len() != values.len()) {
        return Err(table.bad_content("it has no timestamps, or breaks off within the last"));
    }
    Ok(ReleasedTable { values, states_variance: !unstated, is_release: true, lines })
}

fn layout<R: Read>(table: &TableReader<R>) -> Result<(Layout, Vec<String>), TableError> {
    let header: Vec<&str> = table.header().collect();
    if header.first() != Some(&"t") {
        return Err(table.bad_header("the fields must be t,value or t,<value>,<value>,.."));
    }
    // Raw tables may have a value of that name.
    let has_times = header.get(1) == Some(&TIME) && header.contains(&FRESHNESS);
    let user = match header[1..] {
        ["user", "value", ..] => Some(1),
        [TIME, "user", "value", ..] if has_times => Some(2),
        _ => None,
    };
    if header[1..].contains(&"first") && header[1..].contains(&"last") {
        return Err(
            table.bad_header("releases of trees cannot be read here; give a number for each value of the domain")
        );
    }
    let place = |field: &str| header.iter().position(|other| *other == field);
    let is_value = |field: &str| {
        let of = field.strip_suffix("_variance").is_some_and(|value| place(value).is_some());
        !of && field != VARIANCE
            && !(has_times && field == TIME)
            && field != FRESHNESS
            && !IGNORED.contains(&field)
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
    line: &TableLine<'_>,
    layout: &Layout,
    last: &mut Option<u64>,
    unstated: &mut bool,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<ReleasedLine, TableError> {
    let timestamp = line.timestamp()?;
    if last.replace(timestamp).is_some_and(|last| timestamp <= last) {
        return Err(line.bad_field(0, "a timestamp that is later than the last"));
    }
    let cells = layout.values.iter().map(|(field, variance)| cell(line, *field, *variance, &check));
    let (numbers, variances): (Vec<f64>, Vec<Option<f64>>) = cells.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let fresh = freshness(line, layout.freshness)?;
    *unstated |= fresh && variances.contains(&None);
    let variances = variances.into_iter().map(Option::unwrap_or_default).collect();
    Ok(ReleasedLine { timestamp, numbers, variances, fresh })
}

/// Reads a number and its variance, which may be empty.
fn cell(
    line: &TableLine<'_>,
    field: usize,
    variance_field: Option<usize>,
    check: impl Fn(f64, f64) -> Result<(), Cow<'static, str>>,
) -> Result<(f64, Option<f64>), TableError> {
    let number = line.finite(field, "a number")?;
    let variance = match variance_field {
        Some(variance_field) if !line.text(variance_field).is_empty() => {
            let expected = "a variance: a number, zero or more";
            let variance = line.finite(variance_field, expected)?;
            if variance < 0.0 {
                return Err(line.bad_field(variance_field, expected));
            }
            Some(variance)
        }
        _ => None,
    };
    check(number, variance.unwrap_or_default()).map_err(|expected| line.bad_field(field, expected))?;
    Ok((number, variance))
}

/// Whether a line is fresh, which is the default.
fn freshness(line: &TableLine<'_>, field: Option<usize>) -> Result<bool, TableError> {
    match field.map(|field| (field, line.text(field))) {
        None | Some((_, "fresh")) => Ok(true),
        Some((_, "approximated" | "nullified")) => Ok(false),
        Some((field, _)) => Err(line.bad_field(field, "fresh, approximated or nullified")),
    }
}
