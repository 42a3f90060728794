//! The ledger audit: what every window of a recorded run has spent, from what was recorded alone.
//!
//! It shares no code with the accountant that it checks: amounts are read as decimals into whole units of 10⁻⁹, and the
//! sum of each window is formed here.
//!
//! A record is a table, or lines of JSON, with these fields; others are ignored:
//!
//! | field | what it says |
//! | --- | --- |
//! | `t`, or `timestamp` | the timestamp that was spent on |
//! | `spent` | the most that any one user spent on it; empty, or `null`, where nobody did |
//! | `user`, or `class` | whose account it is, where there are several; each has the same budget |
//! | `first_slot`, `slots` | which slots of the population were asked, where not everyone was: so many from the first on, around the end |
//!
//! Each line is a spend of its own, also at a timestamp that had one. In a table in which a release has a line for each of
//! its values, or of the nodes of its tree, there is a field `value`, or `first`, that names them; lines of one timestamp and
//! account then belong to one release, and must agree on what it spent.
//!
//! [`Release`]s have what is needed but for two things: those of a mechanism that divides the population say what those who were asked have spent, not who they
//! were, so that one records its questions ([`Spend::of_question`]); and those of a mechanism with classes say what the class that
//! spends most has spent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU64;

use serde_json::Value;
use tidegate::release::Release;
use tidegate_kernel::{Cohort, Epsilon, Question};

use crate::datasets::DataError;

/// How many slots a population is divided into.
const SLOTS: u32 = 1 << 16;

/// How many decimals an amount has.
const DECIMALS: i32 = 9;

/// Something that was spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// The timestamp that it was spent on.
    pub timestamp: u64,
    /// How much, in units of 10⁻⁹.
    pub units: u64,
    /// Whose account it is; empty where there is one only.
    pub account: String,
    /// The slots that were asked, as the first and how many; everyone's where nothing is said.
    pub slots: Option<(u16, u32)>,
}

impl Spend {
    /// What a release says, of a mechanism whose every release concerns everyone. `None` where nothing was spent.
    pub fn of_release(release: &Release) -> Option<Self> {
        let units = release.spent?.units();
        Some(Self { timestamp: release.timestamp, units, account: String::new(), slots: None })
    }

    /// What a question costs those whom it reaches.
    pub fn of_question(question: &Question) -> Self {
        let slots = match question.cohort {
            Cohort::Everyone => None,
            Cohort::Slots { first, count } => Some((first, count)),
        };
        let units = question.epsilon.units();
        Self { timestamp: question.timestamp, units, account: String::new(), slots }
    }

    /// The ranges of slots that were asked, each as its first and the one after its last; two where they go around the end.
    fn ranges(&self) -> Vec<(u32, u32)> {
        let Some((first, count)) = self.slots else { return vec![(0, SLOTS)] };
        let (first, end) = (u32::from(first), u32::from(first) + count.min(SLOTS));
        if end <= SLOTS { vec![(first, end)] } else { vec![(first, SLOTS), (0, end - SLOTS)] }
    }
}

/// What a window has spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSpend {
    /// The first timestamp of the window.
    pub first: u64,
    /// Its last timestamp, at which something was spent.
    pub last: u64,
    /// Whose account it is; empty where there is one only.
    pub account: String,
    /// A slot of those who have spent that much, where slots were asked.
    pub slot: Option<u16>,
    /// How much, in units of 10⁻⁹.
    pub units: u128,
}

/// What a record comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// How many spends there are.
    pub spends: u64,
    /// How many windows end at a timestamp at which something was spent, over all accounts.
    pub windows: u64,
    /// The window that has spent most, the first of several; `None` where nothing was spent.
    pub largest: Option<WindowSpend>,
    /// The first window, by its end, that has spent more than the budget.
    pub overspent: Option<WindowSpend>,
}

/// Sums up every window of a record. Windows are so many timestamps long; without a length there is one window, which never ends.
///
/// A window is judged when it is complete: at its last timestamp, with all that was spent on that.
pub fn statement(spends: &[Spend], window: Option<NonZeroU64>, budget: Epsilon) -> Statement {
    let mut accounts: BTreeMap<&str, Vec<&Spend>> = BTreeMap::new();
    for spend in spends {
        accounts.entry(&spend.account).or_default().push(spend);
    }
    let budget = u128::from(budget.units());
    let mut statement = Statement { spends: spends.len() as u64, windows: 0, largest: None, overspent: None };
    for (account, mut spends) in accounts {
        spends.sort_by_key(|spend| spend.timestamp);
        sum_up(account, &spends, window, budget, &mut statement);
    }
    statement
}

/// The windows of one account, whose spends come in order.
fn sum_up(account: &str, spends: &[&Spend], window: Option<NonZeroU64>, budget: u128, statement: &mut Statement) {
    // Between two borders all slots are asked the same, so one sum does for them.
    let borders: BTreeSet<u32> =
        spends.iter().flat_map(|spend| spend.ranges()).flat_map(|(first, end)| [first, end]).collect();
    let borders: Vec<u32> = borders.into_iter().collect();
    let group_of = |slot: u32| borders.partition_point(|border| *border < slot);
    let mut sums = vec![0_u128; borders.len()];
    let mut in_window: VecDeque<&Spend> = VecDeque::new();
    let mut rest = spends;
    while let Some(now) = rest.first().map(|spend| spend.timestamp) {
        let first = window.map_or(0, |window| now.saturating_sub(window.get() - 1));
        while let Some(old) = in_window.front().filter(|old| old.timestamp < first) {
            for (from, end) in old.ranges() {
                sums[group_of(from)..group_of(end)].iter_mut().for_each(|sum| *sum -= u128::from(old.units));
            }
            in_window.pop_front();
        }
        let (at_once, later) = rest.split_at(rest.partition_point(|spend| spend.timestamp == now));
        rest = later;
        for spend in at_once {
            for (from, end) in spend.ranges() {
                sums[group_of(from)..group_of(end)].iter_mut().for_each(|sum| *sum += u128::from(spend.units));
            }
            in_window.push_back(spend);
        }
        statement.windows += 1;
        let Some((group, units)) = (0..).zip(&sums).max_by_key(|(group, sum)| (**sum, usize::MAX - group)) else {
            continue;
        };
        let has_slots = in_window.iter().any(|spend| spend.slots.is_some());
        let slot = borders.get(group).and_then(|border| u16::try_from(*border).ok()).filter(|_| has_slots);
        let spent = || WindowSpend { first, last: now, account: account.to_owned(), slot, units: *units };
        if statement.largest.as_ref().is_none_or(|largest| *units > largest.units) {
            statement.largest = Some(spent());
        }
        let is_earlier = statement.overspent.as_ref().is_none_or(|earlier| now < earlier.last);
        if *units > budget && is_earlier {
            statement.overspent = Some(spent());
        }
    }
}

/// Reads a record; `name` is what errors call it. It is JSON if it begins with a brace, and otherwise CSV.
///
/// # Errors
/// They name the line and the field, and not what stands there.
pub fn read(name: &str, source: impl Read) -> Result<Vec<Spend>, DataError> {
    let mut source = BufReader::new(source);
    let failed = |source| DataError::Open { file: name.to_owned(), source };
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
    fn expected(&self, field: &str, expected: &'static str) -> DataError {
        DataError::Field {
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
    spent: Option<&'a str>,
    account: Option<&'a str>,
    first: Option<&'a str>,
    slots: Option<&'a str>,
}

const TIMESTAMP: &str = "a timestamp: a whole number, zero or more";
const AMOUNT: &str = "an amount: a decimal that is not negative, or nothing";
const FIRST: &str = "a slot: a whole number below 65536";
const COUNT: &str = "a number of slots: 1 to 65536, together with the first";

/// The spend of a line; `None` where nobody spent anything.
fn spend(fields: &Fields<'_>, place: &Place<'_>) -> Result<Option<Spend>, DataError> {
    let (field, text) = fields.timestamp;
    let timestamp = text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| place.expected(field, TIMESTAMP))?;
    let slots = match (fields.first, fields.slots) {
        (None, None) => None,
        (first, slots) => {
            let first =
                first.and_then(|text| text.trim().parse().ok()).ok_or_else(|| place.expected("first_slot", FIRST))?;
            let count = slots.and_then(|text| text.trim().parse().ok()).filter(|count| (1..=SLOTS).contains(count));
            Some((first, count.ok_or_else(|| place.expected("slots", COUNT))?))
        }
    };
    let Some(text) = fields.spent else { return Ok(None) };
    let units = units(text.trim()).ok_or_else(|| place.expected("spent", AMOUNT))?;
    let account = fields.account.unwrap_or_default().to_owned();
    Ok((units > 0).then_some(Spend { timestamp, units, account, slots }))
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

fn read_csv(name: &str, source: impl Read) -> Result<Vec<Spend>, DataError> {
    let file = || name.to_owned();
    let unreadable = |line: u64, error: csv::Error| match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            DataError::Width { file: file(), line, given: *len, expected: *expected_len }
        }
        csv::ErrorKind::Utf8 { .. } => DataError::NotUtf8 { file: file(), line },
        _ => DataError::Read { file: file(), line: line.saturating_sub(1), source: error.into() },
    };
    let mut reader = csv::Reader::from_reader(source);
    let header = reader.headers().map_err(|error| unreadable(1, error))?.clone();
    let column = |names: &[&str]| header.iter().position(|field| names.contains(&field.trim()));
    let (Some(timestamp), Some(spent)) = (column(&["t", "timestamp"]), column(&["spent"])) else {
        let expected = "a record of spends has at least the fields t and spent".to_owned();
        return Err(DataError::Header { file: file(), expected });
    };
    let (account, first, slots) = (column(&["user", "class"]), column(&["first_slot"]), column(&["slots"]));
    let by_value = column(&["value", "first"]).is_some();
    let mut spends = Vec::new();
    // What the lines so far of the release have said, where it has several.
    let mut release: Option<(u64, String, Option<Spend>)> = None;
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        if !reader.read_record(&mut record).map_err(|error| unreadable(line, error))? {
            return Ok(spends);
        }
        let place = Place { file: name, line: record.position().map_or(line, csv::Position::line) };
        let text =
            |column: Option<usize>| column.and_then(|column| record.get(column)).filter(|text| !text.trim().is_empty());
        let fields = Fields {
            timestamp: (&header[timestamp], text(Some(timestamp))),
            spent: text(Some(spent)),
            account: text(account),
            first: text(first),
            slots: text(slots),
        };
        let found = spend(&fields, &place)?;
        if by_value {
            let timestamp = text(Some(timestamp)).and_then(|text| text.trim().parse().ok()).unwrap_or_default();
            let account = fields.account.unwrap_or_default();
            if let Some((then, whose, said)) = &release
                && *then == timestamp
                && whose == account
            {
                if *said != found {
                    return Err(place.expected("spent", "what the other lines of this release say"));
                }
                continue;
            }
            release = Some((timestamp, account.to_owned(), found.clone()));
        }
        spends.extend(found);
    }
}

fn read_json(name: &str, source: impl BufRead) -> Result<Vec<Spend>, DataError> {
    let mut spends = Vec::new();
    for (line, text) in (1_u64..).zip(source.lines()) {
        let text = text.map_err(|source| match source.kind() {
            std::io::ErrorKind::InvalidData => DataError::NotUtf8 { file: name.to_owned(), line },
            _ => DataError::Read { file: name.to_owned(), line: line - 1, source },
        })?;
        if text.trim().is_empty() {
            continue;
        }
        let place = Place { file: name, line };
        let Ok(Value::Object(object)) = serde_json::from_str(&text) else {
            return Err(DataError::Content {
                file: name.to_owned(),
                problem: format!("line {line} is no JSON object"),
            });
        };
        // Numbers and texts say the same.
        let as_text = |name: &'static str, expected: &'static str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(place.expected(name, expected)),
        };
        let timestamp_field = if object.contains_key("t") { "t" } else { "timestamp" };
        let account_field = if object.contains_key("user") { "user" } else { "class" };
        if !object.contains_key("spent") {
            return Err(place.expected("spent", "an amount, or null where nobody spent anything"));
        }
        let timestamp = as_text(timestamp_field, TIMESTAMP)?;
        let spent = as_text("spent", AMOUNT)?;
        let account = as_text(account_field, "a name or a number")?;
        let (first, slots) = (as_text("first_slot", FIRST)?, as_text("slots", COUNT)?);
        let fields = Fields {
            timestamp: (timestamp_field, timestamp.as_deref()),
            spent: spent.as_deref(),
            account: account.as_deref(),
            first: first.as_deref(),
            slots: slots.as_deref(),
        };
        spends.extend(spend(&fields, &place)?);
    }
    Ok(spends)
}

/// An amount as people read it.
pub fn in_epsilons(units: u128) -> String {
    let scale = 10_u128.pow(DECIMALS.unsigned_abs());
    let fraction = format!("{:09}", units % scale);
    match fraction.trim_end_matches('0') {
        "" => (units / scale).to_string(),
        digits => format!("{}.{digits}", units / scale),
    }
}
