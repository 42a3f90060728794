//! [`Results`]: what an experiment measured.

use std::fmt;

use tidegate_lab::metrics::Summary;

/// Measured numbers, each with its place: a panel (mostly a data set), a series (mostly a mechanism), a place on the
/// horizontal axis, and a metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    entries: Vec<Measurement>,
}

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Which panel of the figure.
    pub panel: String,
    /// Which series of the panel.
    pub series: String,
    /// Where on the horizontal axis.
    pub at: At,
    /// What was measured.
    pub metric: String,
    /// The mean over the repeats, with its standard error.
    pub value: Summary,
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
    /// An empty table.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds a number.
    pub fn push(&mut self, panel: &str, series: &str, at: impl Into<At>, metric: &str, value: Summary) {
        let (panel, series, metric) = (panel.to_owned(), series.to_owned(), metric.to_owned());
        self.entries.push(Measurement { panel, series, at: at.into(), metric, value });
    }

    /// Adds a number that was computed and not measured: it has no error.
    pub fn push_exact(&mut self, panel: &str, series: &str, at: impl Into<At>, metric: &str, value: f64) {
        self.push(panel, series, at, metric, Summary { mean: value, standard_error: Some(0.0) });
    }

    /// All numbers, in the order in which they were added.
    pub fn entries(&self) -> &[Measurement] {
        &self.entries
    }

    /// The number at a place, if there is one.
    pub fn get(&self, panel: &str, series: &str, at: impl Into<At>, metric: &str) -> Option<Summary> {
        let at = at.into();
        let found = self
            .entries
            .iter()
            .find(|entry| entry.panel == panel && entry.series == series && entry.metric == metric && entry.at == at);
        found.map(|entry| entry.value)
    }

    /// The numbers of a series, in the order in which they were added.
    pub fn along<'a>(&'a self, panel: &str, series: &str, metric: &str) -> Vec<(&'a At, Summary)> {
        let entries = self.entries.iter();
        let found = entries.filter(|entry| entry.panel == panel && entry.series == series && entry.metric == metric);
        found.map(|entry| (&entry.at, entry.value)).collect()
    }

    /// The panels, each once, in the order in which they were added.
    pub fn panels(&self) -> Vec<&str> {
        distinct(self.entries.iter().map(|entry| entry.panel.as_str()))
    }

    /// The series of a panel, each once.
    pub fn series(&self, panel: &str) -> Vec<&str> {
        distinct(self.of_panel(panel).map(|entry| entry.series.as_str()))
    }

    /// The places of a panel, each once.
    pub fn places(&self, panel: &str) -> Vec<&At> {
        distinct(self.of_panel(panel).map(|entry| &entry.at))
    }

    fn of_panel(&self, panel: &str) -> impl Iterator<Item = &Measurement> {
        self.entries.iter().filter(move |entry| entry.panel == panel)
    }

    /// The table as CSV: `panel,series,x,metric,mean,standard_error`, the last empty where there was one run only.
    pub fn to_csv(&self) -> String {
        let field = |text: &str| {
            if text.contains(['"', ',', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let mut csv = "panel,series,x,metric,mean,standard_error\n".to_owned();
        for Measurement { panel, series, at, metric, value } in &self.entries {
            let error = value.standard_error.map_or_else(String::new, |error| format!("{error:e}"));
            let texts = [field(panel), field(series), field(&at.to_string()), field(metric)];
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
