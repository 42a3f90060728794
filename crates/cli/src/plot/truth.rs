//! The truth beside releases: a table of timestamps, or one that is gathered as `tidegate release` gathers it.

use std::collections::HashMap;
use std::io::Read;

use tidegate::spec::InputSpec;
use tidegate_release::truth::Truth;
use tidegate_table::time::Clock;
use tidegate_table::{Reading, TableError, TableLine};

use super::series::{Line, Quantity, Shown};
use crate::failure::Failure;

/// How a table of single rows is gathered.
pub(super) struct Gather {
    pub(super) input: InputSpec,
    /// Whether a spec names the columns.
    pub(super) has_spec: bool,
    /// The series that is drawn.
    pub(super) series: Option<String>,
}

/// The truth behind a release; `None` where the table tells nothing of it.
fn behind(truth: &Truth, quantity: Quantity, t: u64, name: &str) -> Option<f64> {
    match quantity {
        Quantity::Number => truth.number(t),
        Quantity::Count => truth.count(t, name),
        Quantity::Frequency => truth.share(t, name),
    }
}

impl Shown {
    /// Reads the table that was released. Without `gather`, it is `t,value`, `t,user,value`, or `t` and a count for
    /// each value, and the field `time` may stand for t.
    pub(super) fn add_truth(&mut self, name: &str, source: impl Read, gather: Option<&Gather>) -> Result<(), Failure> {
        if self.lines.iter().any(|line| !line.series.is_empty()) {
            return Err(Failure::input(
                "--truth goes with one series: --series NAME draws one, and the truth is its table",
            ));
        }
        let truth = match gather {
            Some(gather) => self.gathered(name, source, gather)?,
            None => self.as_written(name, source).map_err(Failure::input)?,
        };
        let quantity = self.quantity;
        for line in &mut self.lines {
            let of = |t: u64| behind(&truth, quantity, t, &line.name).map(|number| (t, number));
            line.truth = line.samples.iter().filter_map(|sample| of(sample.timestamp)).collect();
        }
        if self.lines.iter().any(Line::has_truth) {
            return Ok(());
        }
        Err(Failure::input(format_args!("{name}: it has no timestamp of the releases")))
    }

    /// Reads a table with the timestamps of the releases.
    fn as_written(&self, name: &str, source: impl Read) -> Result<Truth, TableError> {
        let mut table = Reading::default().detect(name, source)?;
        let header: Vec<String> = table.header().map(str::to_owned).collect();
        let find = |name: &str| header.iter().position(|field| field == name);
        let (key, is_time) = match (find("t"), find("time")) {
            (Some(t), _) => (t, false),
            (None, Some(time)) => (time, true),
            (None, None) => {
                return Err(table.bad_header(
                    "a field t or time is missing: --spec names the columns, and gathers rows by timestamp",
                ));
            }
        };
        let timestamps: HashMap<&str, u64> = self.times.iter().map(|(t, time)| (time.as_str(), *t)).collect();
        let timestamp = |line: &TableLine<'_>| -> Result<u64, TableError> {
            if !is_time {
                return line.number(key, "a timestamp: a whole number, zero or more");
            }
            timestamps.get(line.text(key)).copied().ok_or_else(|| {
                let gather = "a time of the releases, as they write it; --spec, or --every and --origin, gather other \
                              times by timestamp, as release does";
                line.bad_field(key, gather)
            })
        };
        let mut truth = Truth::default();
        let value = find("value");
        while let Some(line) = table.next_line()? {
            let t = timestamp(&line)?;
            match (self.quantity, value) {
                (Quantity::Number, Some(value)) => truth.add_number(t, line.finite(value, "a number").ok()),
                (Quantity::Number, None) => return Err(table.bad_header("a field value is missing")),
                (_, Some(value)) => truth.add_count(t, line.text(value), 1.0),
                (_, None) => {
                    for (field, name) in header.iter().enumerate().filter(|(_, name)| *name != "t" && *name != "time") {
                        truth.add_count(t, name, line.finite(field, "a count")?);
                    }
                }
            }
        }
        Ok(truth)
    }

    /// Reads a table as `tidegate release` does, and gathers its rows by timestamp.
    fn gathered(&self, name: &str, source: impl Read, gather: &Gather) -> Result<Truth, Failure> {
        let Gather { input, series, has_spec } = gather;
        let mut reading = Reading::of(input).map_err(Failure::input)?;
        self.agree(&mut reading.clock)?;
        let drawn = match (input.split().map_err(Failure::input)?, series) {
            (None, _) => 0,
            (Some(split), Some(name)) => {
                let drawn = split.names.iter().position(|known| known == name);
                drawn.ok_or_else(|| Failure::input(format_args!("--series: the spec declares no series {name:?}")))?
            }
            (Some(_), None) => {
                return Err(Failure::input("the spec declares several series: --series NAME says which is drawn"));
            }
        };
        let gathered = reading
            .detect(name, source)
            .and_then(|table| Truth::gather(table, reading, self.quantity == Quantity::Number, drawn));
        gathered.map_err(|error| match error {
            // Its advice is to options that this command lacks.
            TableError::Header { file, expected } if expected.contains("--") => Failure::input(format_args!(
                "{file}, line 1: the columns are not called as in {}",
                match has_spec {
                    true => "the spec: --spec must name the spec of the release",
                    false => "t,value or t,user,value: use --spec, which names the columns",
                }
            )),
            error => Failure::input(error),
        })
    }

    /// Checks that a clock gives the times of the releases their timestamps. It knows their form and offset then.
    fn agree(&self, clock: &mut Clock) -> Result<(), Failure> {
        for (t, time) in self.times.iter().take(if clock.has_times() { 2 } else { 0 }) {
            if clock.timestamp(time) != Ok(*t) {
                return Err(Failure::input(format_args!(
                    "the truth would be gathered in another way than the releases, in which {time} is timestamp {t}: \
                     give the spec, or the --every and --origin, of their release"
                )));
            }
        }
        Ok(())
    }
}
