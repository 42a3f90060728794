//! Reading a record of spends.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Map, Value};

use super::{DECIMALS, SLOTS, Spend, account_of};
use tidegate_table::TableError;

/// Reads a record; `name` is what errors call it. It is JSON if it begins with a brace, and otherwise CSV.
///
/// # Errors
/// They name the line and the field, and not what stands there.
pub fn read(name: &str, source: impl Read) -> Result<Vec<Spend>, TableError> {
    let mut source = BufReader::new(source);
    let failed = |source| TableError::Open { file: name.to_owned(), source };
    let beginning = source.fill_buf().map_err(failed)?;
    let is_json = beginning.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_json { read_json(name, source) } else { read_csv(name, source) }
}

/// Where a field was found, for errors.
struct Place<'a> {
    file: &'a str,
    line: u64,
}

impl Place<'_> {
    fn expected(&self, field: &str, expected: &'static str) -> TableError {
        TableError::Field {
            file: self.file.to_owned(),
            line: self.line,
            field: field.to_owned(),
            expected: expected.into(),
        }
    }
}

/// The fields of a line, as text; `None` where a field is missing or empty.
struct Fields<'a> {
    timestamp: (&'a str, Option<&'a str>),
    spent: Vec<Amount<'a>>,
    account: Option<&'a str>,
    first: Option<&'a str>,
    slots: Option<&'a str>,
    /// What the line is about, where a release has several.
    part: Option<String>,
}

/// An amount, and who spent it where that stands beside it.
#[derive(Clone, Copy)]
struct Amount<'a> {
    amount: &'a str,
    payer: Payer<'a>,
}

#[derive(Clone, Copy)]
enum Payer<'a> {
    /// As the other fields of the line say.
    OfTheLine,
    Class(&'a str),
    Slots(&'a str, &'a str),
}

const TIMESTAMP: &str = "a timestamp: a whole number, zero or more";
const AMOUNT: &str = "an amount: a decimal that is not negative, or nothing";
const CLASS: &str = "an amount of a class: its number is a whole one";
const FIRST: &str = "a slot: a whole number below 65536";
const COUNT: &str = "a number of slots: 1 to 65536, together with the first";

/// Takes amounts apart: `0.5`, `1 of slots 0+3276`, `0.025 of class 0; 0.1 of class 1`.
fn amounts(text: &str) -> Option<Vec<Amount<'_>>> {
    text.split(';')
        .map(|item| {
            let Some((amount, payer)) = item.split_once(" of ") else {
                return Some(Amount { amount: item.trim(), payer: Payer::OfTheLine });
            };
            let payer = match payer.trim().split_once(' ')? {
                ("class", number) => Payer::Class(number),
                ("slots", range) => {
                    let (first, count) = range.split_once('+')?;
                    Payer::Slots(first, count)
                }
                _ => return None,
            };
            Some(Amount { amount: amount.trim(), payer })
        })
        .collect()
}

fn slots(first: Option<&str>, count: Option<&str>, place: &Place<'_>) -> Result<(u16, u32), TableError> {
    let first = first.and_then(|text| text.trim().parse().ok()).ok_or_else(|| place.expected("first_slot", FIRST))?;
    let count = count.and_then(|text| text.trim().parse().ok()).filter(|count| (1..=SLOTS).contains(count));
    Ok((first, count.ok_or_else(|| place.expected("slots", COUNT))?))
}

/// The spends of a line.
struct Line {
    timestamp: u64,
    account: String,
    part: Option<String>,
    spends: Vec<Spend>,
}

fn line(fields: Fields<'_>, place: &Place<'_>) -> Result<Line, TableError> {
    let (field, text) = fields.timestamp;
    let timestamp = text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| place.expected(field, TIMESTAMP))?;
    let of_the_line = match (fields.first, fields.slots) {
        (None, None) => None,
        (first, count) => Some(slots(first, count, place)?),
    };
    let account = fields.account.unwrap_or_default().to_owned();
    let mut spends = Vec::new();
    for Amount { amount, payer } in fields.spent {
        let units = units(amount).ok_or_else(|| place.expected("spent", AMOUNT))?;
        let (account, slots) = match payer {
            Payer::OfTheLine => (account.clone(), of_the_line),
            Payer::Class(number) => {
                let number = number.trim().parse().map_err(|_| place.expected("spent", CLASS))?;
                (account_of(number), None)
            }
            Payer::Slots(first, count) => (account.clone(), Some(slots(Some(first), Some(count), place)?)),
        };
        if units > 0 {
            spends.push(Spend { timestamp, units, account, slots });
        }
    }
    Ok(Line { timestamp, account, part: fields.part, spends })
}

/// Gathers lines, of which several may belong to one release.
#[derive(Default)]
struct Gathered {
    spends: Vec<Spend>,
    /// The line that the release of the last one began with.
    release: Option<Line>,
}

impl Gathered {
    fn take(&mut self, line: Line, place: &Place<'_>) -> Result<(), TableError> {
        let same = |first: &Line| {
            (first.timestamp, &first.account) == (line.timestamp, &line.account)
                && first.part.is_some()
                && line.part.is_some()
                && first.part != line.part
        };
        if let Some(first) = self.release.as_ref().filter(|first| same(first)) {
            if first.spends != line.spends {
                return Err(place.expected("spent", "what the other lines of this release say"));
            }
            return Ok(());
        }
        self.spends.extend_from_slice(&line.spends);
        self.release = Some(line);
        Ok(())
    }
}

/// A decimal in whole units, rounded up; `None` where it is none, or more than can be counted.
fn units(text: &str) -> Option<u64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number =
        digits().try_fold(0_u128, |number, digit| number.checked_mul(10)?.checked_add(u128::from(digit - b'0')))?;
    // What the number is to be multiplied by, as a power of ten.
    let power = i32::try_from(fraction.len()).ok()?.checked_neg()?.checked_add(exponent)?.checked_add(DECIMALS)?;
    let units = match u32::try_from(power) {
        Ok(power) => number.checked_mul(10_u128.checked_pow(power)?)?,
        Err(_) => match 10_u128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => number.div_ceil(divisor),
            None => u128::from(number > 0),
        },
    };
    u64::try_from(units).ok()
}

fn read_csv(name: &str, source: impl Read) -> Result<Vec<Spend>, TableError> {
    let file = || name.to_owned();
    let unreadable = |line: u64, error: csv::Error| match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            TableError::Width { file: file(), line, given: *len, expected: *expected_len }
        }
        csv::ErrorKind::Utf8 { .. } => TableError::NotUtf8 { file: file(), line },
        _ => TableError::Read { file: file(), line: line.saturating_sub(1), source: error.into() },
    };
    let mut reader = csv::Reader::from_reader(source);
    let header = reader.headers().map_err(|error| unreadable(1, error))?.clone();
    let column = |names: &[&str]| header.iter().position(|field| names.contains(&field.trim()));
    let (Some(timestamp), Some(spent)) = (column(&["t", "timestamp"]), column(&["spent"])) else {
        let expected = "a record of spends has at least the fields t and spent".to_owned();
        return Err(TableError::Header { file: file(), expected });
    };
    let (account, first, slots) = (column(&["user", "class"]), column(&["first_slot"]), column(&["slots"]));
    let in_parts = column(&["frequency", "count"]).is_some();
    let parts = [column(&["value", "first"]), column(&["last"])];
    let mut gathered = Gathered::default();
    let mut record = csv::StringRecord::new();
    loop {
        let number = reader.position().line();
        if !reader.read_record(&mut record).map_err(|error| unreadable(number, error))? {
            return Ok(gathered.spends);
        }
        let place = Place { file: name, line: record.position().map_or(number, csv::Position::line) };
        let text =
            |column: Option<usize>| column.and_then(|column| record.get(column)).filter(|text| !text.trim().is_empty());
        let fields = Fields {
            timestamp: (&header[timestamp], text(Some(timestamp))),
            spent: match text(Some(spent)) {
                Some(text) => amounts(text).ok_or_else(|| place.expected("spent", AMOUNT))?,
                None => Vec::new(),
            },
            account: text(account),
            first: text(first),
            slots: text(slots),
            part: in_parts.then(|| parts.map(|part| text(part).unwrap_or_default()).join("\n")),
        };
        gathered.take(line(fields, &place)?, &place)?;
    }
}

fn read_json(name: &str, source: impl BufRead) -> Result<Vec<Spend>, TableError> {
    let mut gathered = Gathered::default();
    for (number, text) in (1_u64..).zip(source.lines()) {
        let text = text.map_err(|source| match source.kind() {
            std::io::ErrorKind::InvalidData => TableError::NotUtf8 { file: name.to_owned(), line: number },
            _ => TableError::Read { file: name.to_owned(), line: number - 1, source },
        })?;
        if text.trim().is_empty() {
            continue;
        }
        let place = Place { file: name, line: number };
        let Ok(Value::Object(object)) = serde_json::from_str(&text) else {
            let problem = format!("line {number} is no JSON object");
            return Err(TableError::Content { file: name.to_owned(), problem });
        };
        match object.get("releases") {
            // A page of the service.
            Some(Value::Array(records)) => {
                for record in records {
                    let object = record.as_object().ok_or_else(|| place.expected("releases", "a list of records"))?;
                    gathered.take(of_object(object, &place)?, &place)?;
                }
            }
            _ => gathered.take(of_object(&object, &place)?, &place)?,
        }
    }
    Ok(gathered.spends)
}

/// What a line, or a record of the service, says.
fn of_object(object: &Map<String, Value>, place: &Place<'_>) -> Result<Line, TableError> {
    let object = match object.get("release") {
        Some(Value::Object(release)) => release,
        _ => object,
    };
    let timestamp_field = if object.contains_key("t") { "t" } else { "timestamp" };
    let account_field = if object.contains_key("user") { "user" } else { "class" };
    let spent = object.get("spent");
    let spent = spent.ok_or_else(|| place.expected("spent", "an amount, or null where nobody spent anything"))?;
    let texts = texts_of(spent).ok_or_else(|| place.expected("spent", AMOUNT))?;
    let mut spent = Vec::new();
    for (text, payer) in &texts {
        match payer {
            Some(Owner::Class(number)) => spent.push(Amount { amount: text, payer: Payer::Class(number) }),
            Some(Owner::Slots(first, count)) => spent.push(Amount { amount: text, payer: Payer::Slots(first, count) }),
            None => spent.extend(amounts(text).ok_or_else(|| place.expected("spent", AMOUNT))?),
        }
    }
    let field = |name: &str, expected: &'static str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match text_of(value) {
            Some(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            None => Err(place.expected(name, expected)),
        },
    };
    let timestamp = field(timestamp_field, TIMESTAMP)?;
    let account = field(account_field, "a name or a number")?;
    let (first, slots) = (field("first_slot", FIRST)?, field("slots", COUNT)?);
    let in_parts = object.contains_key("frequency") || object.contains_key("count");
    let part = |name: &str| object.get(name).and_then(text_of).unwrap_or_default();
    let fields = Fields {
        timestamp: (timestamp_field, timestamp.as_deref()),
        spent,
        account: account.as_deref(),
        first: first.as_deref(),
        slots: slots.as_deref(),
        part: in_parts.then(|| ["value", "first", "last"].map(part).join("\n")),
    };
    line(fields, place)
}

/// Numbers and texts say the same.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Who spent an amount, as text.
enum Owner {
    Class(String),
    Slots(String, String),
}

/// The amounts of a field `spent`, each with who spent it where that stands beside it.
fn texts_of(spent: &Value) -> Option<Vec<(String, Option<Owner>)>> {
    let of = |object: &Map<String, Value>, name: &str| object.get(name).and_then(text_of);
    match spent {
        Value::Null => Some(Vec::new()),
        Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
        Value::Object(slots) => {
            let owner = Owner::Slots(of(slots, "first_slot")?, of(slots, "slots")?);
            Some(vec![(of(slots, "epsilon")?, Some(owner))])
        }
        Value::Array(classes) => classes
            .iter()
            .map(|class| {
                let class = class.as_object()?;
                Some((of(class, "epsilon")?, Some(Owner::Class(of(class, "class")?))))
            })
            .collect(),
        amount => Some(vec![(text_of(amount)?, None)]),
    }
}
