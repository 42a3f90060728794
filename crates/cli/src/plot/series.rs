//! [`Shown`]: releases as series of points, and the truth beside them.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use tidegate::names::nearest;
use tidegate_table::{Reading, TableError, TableLine, TableReader};

use crate::failure::Failure;

/// 97.5 % quantile of the normal distribution: half the length of a 95 % interval, in standard deviations.
pub(super) const HALF_INTERVAL: f64 = 1.959_964;

/// Most panels of several series, unless values are named.
const MOST_PANELS: usize = 12;

/// Kind of the numbers of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Number,
    Count,
    Frequency,
}

impl Quantity {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Number => "value",
            Self::Count => "count",
            Self::Frequency => "frequency",
        }
    }

    /// The least and the greatest that the truth can be.
    pub(super) const fn bounds(self) -> (f64, f64) {
        match self {
            Self::Number => (f64::NEG_INFINITY, f64::INFINITY),
            Self::Count => (0.0, f64::INFINITY),
            Self::Frequency => (0.0, 1.0),
        }
    }
}

/// One number of a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) timestamp: u64,
    pub(super) value: f64,
    /// `None` where it is not stated.
    pub(super) variance: Option<f64>,
}

impl Sample {
    /// Half the width of the 95 % interval, where one is stated.
    pub(super) fn half(&self) -> Option<f64> {
        self.variance.map(|variance| HALF_INTERVAL * variance.sqrt())
    }

    /// The 95 % interval, as far as the truth can lie in it; `None` where none is stated. An estimate beyond the bounds
    /// stays as it is.
    pub(super) fn interval(&self, quantity: Quantity) -> Option<(f64, f64)> {
        let (half, (low, high)) = (self.half()?, quantity.bounds());
        Some(((self.value - half).clamp(low, high), (self.value + half).clamp(low, high)))
    }
}

/// The releases of one value of a domain, or the numbers of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// The series; empty where there is one only.
    pub(super) series: String,
    /// Empty for a stream of numbers.
    pub(super) name: String,
    /// In the order of time, at least one.
    pub(super) samples: Vec<Sample>,
    pub(super) truth: Vec<(u64, f64)>,
}

impl Line {
    /// The series and the value, as far as they have names.
    pub(super) fn title(&self) -> String {
        let parts = [self.series.as_str(), self.name.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }

    fn mean(&self) -> f64 {
        self.samples.iter().map(|sample| sample.value).sum::<f64>() / self.samples.len().max(1) as f64
    }

    /// Whether a truth stands beside it.
    pub(super) const fn has_truth(&self) -> bool {
        !self.truth.is_empty()
    }
}

/// Releases to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) quantity: Quantity,
    pub(super) lines: Vec<Line>,
    /// The text of each timestamp, where the table has one.
    pub(super) times: Vec<(u64, String)>,
}

/// Positions of the fields of a table of releases.
struct Fields {
    timestamp: usize,
    time: Option<usize>,
    series: Option<usize>,
    name: Option<usize>,
    /// The last value of a node of a tree.
    last: Option<usize>,
    number: usize,
    variance: usize,
    quantity: Quantity,
}

impl Fields {
    fn of<R: Read>(table: &TableReader<R>) -> Result<Self, TableError> {
        let find = |name: &str| table.header().position(|field| field == name);
        let quantity = if find("frequency").is_some() {
            Quantity::Frequency
        } else if find("count").is_some() {
            Quantity::Count
        } else {
            Quantity::Number
        };
        let (Some(timestamp), Some(number), Some(variance)) = (find("t"), find(quantity.name()), find("variance"))
        else {
            return Err(table.bad_header(
                "expected releases of numbers, counts or frequencies, as `tidegate release` writes them: with the \
                 fields t, variance, and value, count or frequency",
            ));
        };
        let (name, last) = match (quantity, find("first"), find("last")) {
            (Quantity::Number, _, _) => (None, None),
            (_, Some(first), Some(last)) => (Some(first), Some(last)),
            _ => (Some(table.field(&["value"])?), None),
        };
        Ok(Self { timestamp, time: find("time"), series: find("series"), name, last, number, variance, quantity })
    }
}

impl Shown {
    /// Reads releases; `name` is the name in errors.
    pub(super) fn read(name: &str, source: impl Read) -> Result<Self, Failure> {
        let mut table = Reading::default().detect(name, source).map_err(Failure::input)?;
        let fields = Fields::of(&table).map_err(Failure::input)?;
        let mut shown = Self { quantity: fields.quantity, lines: Vec::new(), times: Vec::new() };
        let mut places = HashMap::new();
        while let Some(line) = table.next_line().map_err(Failure::input)? {
            shown.add(&fields, &line, &mut places).map_err(Failure::input)?;
        }
        if shown.lines.is_empty() {
            return Err(Failure::input(table.bad_content("it has no releases")));
        }
        Ok(shown)
    }

    fn add(
        &mut self,
        fields: &Fields,
        line: &TableLine<'_>,
        places: &mut HashMap<(String, String), usize>,
    ) -> Result<(), TableError> {
        // Of a tree, its leaves.
        if let (Some(first), Some(last)) = (fields.name, fields.last)
            && line.text(first) != line.text(last)
        {
            return Ok(());
        }
        let timestamp = line.number(fields.timestamp, "a timestamp: a whole number, zero or more")?;
        let value = line.finite(fields.number, "a number")?;
        let variance = match line.text(fields.variance) {
            "" => None,
            _ => Some(line.finite(fields.variance, "a variance: a number, zero or more")?.max(0.0)),
        };
        let name = fields.name.map_or("", |field| line.text(field));
        let series = fields.series.map_or("", |field| line.text(field));
        let place = *places.entry((series.to_owned(), name.to_owned())).or_insert_with(|| {
            let (series, name) = (series.to_owned(), name.to_owned());
            self.lines.push(Line { series, name, samples: Vec::new(), truth: Vec::new() });
            self.lines.len() - 1
        });
        let samples = &mut self.lines[place].samples;
        // A leaf of a tree may be its own parent, and is released for both.
        if fields.last.is_some() && samples.last().is_some_and(|last| timestamp == last.timestamp) {
            return Ok(());
        }
        if samples.last().is_some_and(|last| timestamp <= last.timestamp) {
            return Err(line.bad_field(fields.timestamp, "a timestamp later than the last of the same value"));
        }
        samples.push(Sample { timestamp, value, variance });
        if let Some(time) = fields.time
            && self.times.last().is_none_or(|(last, _)| *last < timestamp)
        {
            self.times.push((timestamp, line.text(time).to_owned()));
        }
        Ok(())
    }

    /// Reads the table that was released: `t,value`, `t,user,value`, or `t` and a count for each value. The field
    /// `time` may stand for t.
    pub(super) fn add_truth(&mut self, name: &str, source: impl Read) -> Result<(), Failure> {
        let mut table = Reading::default().detect(name, source).map_err(Failure::input)?;
        let header: Vec<String> = table.header().map(str::to_owned).collect();
        let find = |name: &str| header.iter().position(|field| field == name);
        let key = match (find("t"), find("time")) {
            (Some(t), _) => (t, false),
            (None, Some(time)) => (time, true),
            (None, None) => return Err(Failure::input(table.bad_header("a field t or time is missing"))),
        };
        let timestamps: HashMap<&str, u64> = self.times.iter().map(|(t, time)| (time.as_str(), *t)).collect();
        let timestamp = |line: &TableLine<'_>| -> Result<u64, TableError> {
            if !key.1 {
                return line.number(key.0, "a timestamp: a whole number, zero or more");
            }
            let released = timestamps.get(line.text(key.0)).copied();
            released.ok_or_else(|| {
                line.bad_field(key.0, "a time of the releases, as they write it: gather the table by timestamp")
            })
        };
        // Counts by timestamp and value; a number has the empty name.
        let mut counts: HashMap<(u64, String), f64> = HashMap::new();
        let mut totals: HashMap<u64, f64> = HashMap::new();
        if self.lines.iter().any(|line| !line.series.is_empty()) {
            return Err(Failure::input(
                "--truth goes with one series: --series NAME draws one, and the truth is its table",
            ));
        }
        let value = find("value");
        while let Some(line) = table.next_line().map_err(Failure::input)? {
            let t = timestamp(&line).map_err(Failure::input)?;
            match (self.quantity, value) {
                (Quantity::Number, Some(value)) => {
                    // Readings that are no numbers have no place in a chart.
                    if let Ok(number) = line.finite(value, "a number") {
                        counts.insert((t, String::new()), number);
                    }
                }
                (Quantity::Number, None) => return Err(Failure::input(table.bad_header("a field value is missing"))),
                (_, Some(value)) => {
                    *counts.entry((t, line.text(value).trim().to_owned())).or_default() += 1.0;
                    *totals.entry(t).or_default() += 1.0;
                }
                (_, None) => {
                    for (field, name) in header.iter().enumerate().filter(|(_, name)| *name != "t" && *name != "time") {
                        let count = line.finite(field, "a count").map_err(Failure::input)?;
                        counts.insert((t, name.trim().to_owned()), count);
                        *totals.entry(t).or_default() += count;
                    }
                }
            }
        }
        let quantity = self.quantity;
        for line in &mut self.lines {
            let known = line.samples.iter().filter_map(|sample| {
                let t = sample.timestamp;
                let found = counts.get(&(t, line.name.clone())).copied();
                match (quantity, found, totals.get(&t)) {
                    (Quantity::Number, found, _) => found.map(|number| (t, number)),
                    // Nobody held this value at a timestamp that others are present at.
                    (Quantity::Count, found, Some(_)) => Some((t, found.unwrap_or(0.0))),
                    (Quantity::Frequency, found, Some(total)) if *total > 0.0 => {
                        Some((t, found.unwrap_or(0.0) / total))
                    }
                    _ => None,
                }
            });
            line.truth = known.collect();
        }
        if self.lines.iter().any(Line::has_truth) {
            return Ok(());
        }
        Err(Failure::input(table.bad_content("it has no timestamp of the releases")))
    }

    /// Keeps one series.
    pub(super) fn choose_series(&mut self, name: &str) -> Result<(), Failure> {
        let mut known: Vec<&str> = self.lines.iter().map(|line| line.series.as_str()).collect();
        known.dedup();
        if !known.contains(&name) || name.is_empty() {
            if known == [""] {
                return Err(Failure::input("--series: the releases are of one series, without a name"));
            }
            let meant = nearest(name, &known).map(|meant| format!(" (did you mean {meant}?)"));
            let (meant, known) = (meant.unwrap_or_default(), known.join(", "));
            return Err(Failure::input(format_args!(
                "--series: there is no series {name:?}{meant}; there are: {known}"
            )));
        }
        self.lines.retain(|line| line.series == name);
        // The truth of one series needs no name.
        self.lines.iter_mut().for_each(|line| line.series.clear());
        Ok(())
    }

    /// Keeps the named values, or the `most` of each series that are largest on average: fewer where there are many
    /// series.
    pub(super) fn choose(&mut self, names: &[String], most: usize) -> Result<(), Failure> {
        for name in names {
            if !self.lines.iter().any(|line| line.name == *name) {
                let mut known: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
                let mut seen = HashSet::new();
                known.retain(|name| seen.insert(*name));
                let meant = nearest(name, &known).map(|meant| format!(" (did you mean {meant}?)"));
                let (meant, known) = (meant.unwrap_or_default(), known.join(", "));
                return Err(Failure::input(format_args!(
                    "--value: there is no value {name:?}{meant}; there are: {known}"
                )));
            }
        }
        if !names.is_empty() {
            self.lines.retain(|line| names.contains(&line.name));
        } else {
            let mut series: Vec<String> = Vec::new();
            for line in &self.lines {
                if !series.contains(&line.series) {
                    series.push(line.series.clone());
                }
            }
            let of_each = if series.len() > 1 { (MOST_PANELS / series.len()).clamp(1, most) } else { most };
            series.truncate(MOST_PANELS);
            self.lines.retain(|line| series.contains(&line.series));
            series.iter().for_each(|series| self.keep_largest(series, of_each));
        }
        Ok(())
    }

    /// Keeps the `most` lines of a series that are largest on average.
    fn keep_largest(&mut self, series: &str, most: usize) {
        let mut means: Vec<f64> = self.lines.iter().filter(|line| line.series == series).map(Line::mean).collect();
        means.sort_by(|one, other| other.total_cmp(one));
        let Some(least) = means.get(most - 1).copied().filter(|_| means.len() > most) else { return };
        let mut left = most;
        self.lines.retain(|line| {
            let is_other = line.series != series;
            let kept = line.mean() >= least && left > 0;
            left -= usize::from(kept && !is_other);
            kept || is_other
        });
    }

    /// The text of a timestamp.
    pub(super) fn time(&self, timestamp: u64) -> String {
        let found = self.times.binary_search_by_key(&timestamp, |(t, _)| *t).ok();
        found.map_or_else(|| timestamp.to_string(), |place| self.times[place].1.clone())
    }
}
