//! Findings as text and as JSON.

use std::num::NonZeroU64;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tidegate_release::Error;
use tidegate_table::layout::{layout_with, short};

use super::{Evaluation, warnings};
use crate::experiment::{Finding, Plan, Setting, TrialSettings};
use crate::metrics::{Metric, Summary};
use crate::{DataStream, subjects};

/// A finding as the object that `--json` prints.
struct Entry<'a> {
    evaluation: &'a Evaluation,
    finding: &'a Finding,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TrialSettings { epsilon, window, delay, .. } = &self.finding.settings;
        let Evaluation { stream, plan, .. } = self.evaluation;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dataset", stream.name())?;
        map.serialize_entry("mechanism", self.finding.mechanism)?;
        map.serialize_entry("epsilon", &epsilon.as_f64())?;
        map.serialize_entry("window", window)?;
        map.serialize_entry("delay", delay)?;
        map.serialize_entry("repeats", &plan.repeats)?;
        for (metric, summary) in &self.finding.metrics {
            map.serialize_entry(metric.name(), &summary.mean)?;
            map.serialize_entry(&format!("{metric}_se"), &summary.standard_error)?;
        }
        map.serialize_entry("seconds", &self.finding.time.as_secs_f64())?;
        map.serialize_entry("warnings", &warnings::of_finding(self.finding, stream))?;
        map.end()
    }
}

pub(super) fn as_json(evaluation: &Evaluation, findings: &[Finding]) -> Result<String, Error> {
    let entries: Vec<_> = findings.iter().map(|finding| Entry { evaluation, finding }).collect();
    let text = serde_json::to_string_pretty(&entries).map_err(Error::run)?;
    Ok(text + "\n")
}

pub(super) fn as_text(evaluation: &Evaluation, findings: &[Finding], is_bold: bool) -> String {
    let Evaluation { stream, plan, .. } = evaluation;
    let repeats = match plan.repeats.get() {
        1 => "1 run".to_owned(),
        repeats => format!("mean ± standard error of {repeats} runs"),
    };
    let shown: Vec<Metric> = Metric::ALL
        .into_iter()
        .filter(|metric| metric.can_be_better())
        .filter(|metric| findings.iter().any(|finding| finding.metrics.iter().any(|(other, _)| other == metric)))
        .collect();
    const BEFORE: [&str; 4] = ["mechanism", "epsilon", "window", "delay"];
    let mut header = BEFORE.map(str::to_owned).to_vec();
    header.extend(shown.iter().map(|metric| metric.name().to_owned()));
    header.push("seconds".to_owned());
    let mut rows = vec![header];
    for finding in findings {
        let TrialSettings { epsilon, delay, .. } = &finding.settings;
        let window = window_of(finding, stream, plan).map_or_else(String::new, |window| window.to_string());
        let mut row = vec![finding.mechanism.to_owned(), epsilon.to_string(), window, delay.to_string()];
        row.extend(shown.iter().map(|metric| {
            let found = finding.metrics.iter().find(|(other, _)| other == metric);
            found.map_or_else(String::new, |(_, summary)| in_short(summary))
        }));
        row.push(format!("{:.2}", finding.time.as_secs_f64()));
        rows.push(row);
    }
    let is_best = |line: usize, column: usize| {
        let (finding, metric) = (line.checked_sub(1), column.checked_sub(BEFORE.len()));
        let (finding, metric) =
            (finding.and_then(|line| findings.get(line)), metric.and_then(|place| shown.get(place)));
        is_bold && finding.zip(metric).is_some_and(|(finding, metric)| is_best(finding, *metric, findings))
    };
    format!("{stream}; {repeats}\n\n{}", layout_with(&rows, is_best))
}

/// The window of a finding; `None` where neither the mechanism nor the queries have one.
fn window_of(finding: &Finding, stream: &DataStream, plan: &Plan) -> Option<NonZeroU64> {
    let subject = subjects::by_name_for(stream.kind(), finding.mechanism).ok();
    let has_window = plan.queries || subject.is_none_or(|subject| subject.uses().contains(&Setting::Window));
    has_window.then_some(finding.settings.window)
}

/// Whether no other mechanism with the same epsilon, window and delay is better by a metric, and some is worse.
fn is_best(finding: &Finding, metric: Metric, findings: &[Finding]) -> bool {
    let key = |finding: &Finding| (finding.settings.epsilon, finding.settings.window, finding.settings.delay);
    let value = |finding: &Finding| {
        let found = finding.metrics.iter().find(|(other, _)| *other == metric)?;
        Some(if metric.is_better_when_higher() { -found.1.mean } else { found.1.mean })
    };
    let Some(own) = value(finding) else { return false };
    let others = || findings.iter().filter(|other| key(other) == key(finding)).filter_map(value);
    others().all(|other| own <= other) && others().any(|other| own < other)
}

fn in_short(summary: &Summary) -> String {
    match summary.standard_error {
        Some(error) => format!("{} ± {}", short(summary.mean), short(error)),
        None => short(summary.mean),
    }
}
