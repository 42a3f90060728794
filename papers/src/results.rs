//! [`Results`]: the measured numbers of an experiment.

use std::fmt;

use tidegate_lab::metrics::Summary;
use tidegate_table::releases::quoted;

/// Measured numbers by panel (mostly a data set), series (mostly a mechanism), place on the horizontal axis and metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    entries: Vec<Measurement>,
}

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The panel of the figure.
    pub panel: String,
    /// The series of the panel.
    pub series: String,
    /// The place on the horizontal axis.
    pub at: At,
    /// The metric.
    pub metric: String,
    /// The mean over the repeats, with its standard error.
    pub value: Summary,
    /// The number of each run, in the order of their seeds; empty if they cannot be paired with others.
    pub runs: Vec<f64>,
}

/// A place on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum At {
    /// A number, on an axis of numbers.
    Number(f64),
    /// A name, on an axis of names.
    Name(String),
}

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

impl From<f64> for At {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for At {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl Results {
    /// Creates empty results.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds a number.
    pub fn push(&mut self, panel: &str, series: &str, at: impl Into<At>, metric: &str, value: Summary) {
        self.push_runs(panel, series, at, metric, value, Vec::new());
    }

    /// Adds a number with that of each run, for comparisons in pairs of runs by seed.
    pub fn push_runs(
        &mut self,
        panel: &str,
        series: &str,
        at: impl Into<At>,
        metric: &str,
        value: Summary,
        runs: Vec<f64>,
    ) {
        let (panel, series, metric) = (panel.to_owned(), series.to_owned(), metric.to_owned());
        self.entries.push(Measurement { panel, series, at: at.into(), metric, value, runs });
    }

    /// Adds a computed number, which has no error.
    pub fn push_exact(&mut self, panel: &str, series: &str, at: impl Into<At>, metric: &str, value: f64) {
        self.push(panel, series, at, metric, Summary { mean: value, standard_error: Some(0.0) });
    }

    /// Returns all numbers, in the order of their addition.
    pub fn entries(&self) -> &[Measurement] {
        &self.entries
    }

    /// Returns the number at a place, if there is one.
    pub fn get(&self, panel: &str, series: &str, at: impl Into<At>, metric: &str) -> Option<Summary> {
        self.measurement(panel, series, at, metric).map(|entry| entry.value)
    }

    /// Returns the measurement at a place, if there is one.
    pub fn measurement(&self, panel: &str, series: &str, at: impl Into<At>, metric: &str) -> Option<&Measurement> {
        let at = at.into();
        self.entries
            .iter()
            .find(|entry| entry.panel == panel && entry.series == series && entry.metric == metric && entry.at == at)
    }

    /// Returns the numbers of a series, in the order of their addition.
    pub fn along<'a>(&'a self, panel: &str, series: &str, metric: &str) -> Vec<(&'a At, Summary)> {
        let entries = self.entries.iter();
        let found = entries.filter(|entry| entry.panel == panel && entry.series == series && entry.metric == metric);
        found.map(|entry| (&entry.at, entry.value)).collect()
    }

    /// Returns the distinct panels, in the order of their addition.
    pub fn panels(&self) -> Vec<&str> {
        distinct(self.entries.iter().map(|entry| entry.panel.as_str()))
    }

    /// Returns the distinct series of a panel.
    pub fn series(&self, panel: &str) -> Vec<&str> {
        distinct(self.of_panel(panel).map(|entry| entry.series.as_str()))
    }

    /// Returns the distinct places of a panel.
    pub fn places(&self, panel: &str) -> Vec<&At> {
        distinct(self.of_panel(panel).map(|entry| &entry.at))
    }

    fn of_panel(&self, panel: &str) -> impl Iterator<Item = &Measurement> {
        self.entries.iter().filter(move |entry| entry.panel == panel)
    }

    /// Formats as CSV: `panel,series,x,metric,mean,standard_error`. The last is empty after a single run.
    pub fn to_csv(&self) -> String {
        let mut csv = "panel,series,x,metric,mean,standard_error\n".to_owned();
        for Measurement { panel, series, at, metric, value, .. } in &self.entries {
            let error = value.standard_error.map_or_else(String::new, |error| format!("{error:e}"));
            let at = at.to_string();
            let texts = [quoted(panel), quoted(series), quoted(&at), quoted(metric)];
            csv.push_str(&format!("{},{:e},{error}\n", texts.join(","), value.mean));
        }
        csv
    }
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
