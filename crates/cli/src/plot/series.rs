//! [`Shown`]: releases as series of points.

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

/// Where the lines of a table go.
#[derive(Default)]
struct Places {
    /// The number of each series and value.
    numbers: HashMap<(String, String), usize>,
    /// The order in which they are drawn.
    ranks: Vec<u64>,
}

impl Shown {
    /// Reads releases; `name` is the name in errors.
    pub(super) fn read(name: &str, source: impl Read) -> Result<Self, Failure> {
        let mut table = Reading::default().detect(name, source).map_err(Failure::input)?;
        let fields = Fields::of(&table).map_err(Failure::input)?;
        let mut shown = Self { quantity: fields.quantity, lines: Vec::new(), times: Vec::new() };
        let mut places = Places::default();
        while let Some(line) = table.next_line().map_err(Failure::input)? {
            shown.add(&fields, &line, &mut places).map_err(Failure::input)?;
        }
        let mut ranked: Vec<_> = places.ranks.into_iter().zip(shown.lines).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        shown.lines = ranked.into_iter().map(|(_, line)| line).collect();
        if shown.lines.is_empty() {
            return Err(Failure::input(table.bad_content("it has no releases")));
        }
        Ok(shown)
    }

    fn add(&mut self, fields: &Fields, line: &TableLine<'_>, places: &mut Places) -> Result<(), TableError> {
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
        let place = *places.numbers.entry((series.to_owned(), name.to_owned())).or_insert_with(|| {
            let (series, name) = (series.to_owned(), name.to_owned());
            self.lines.push(Line { series, name, samples: Vec::new(), truth: Vec::new() });
            places.ranks.push(line.number_of_line());
            self.lines.len() - 1
        });
        let samples = &mut self.lines[place].samples;
        // A leaf of a tree may be its own parent, and is released for both. Leaves are in the order of the domain.
        if fields.last.is_some() && samples.last().is_some_and(|last| timestamp == last.timestamp) {
            if samples.len() == 1 {
                places.ranks[place] = line.number_of_line();
            }
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
