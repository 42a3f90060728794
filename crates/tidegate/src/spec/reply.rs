//! Answers of standing queries and events of monitors, as JSON lines.

use std::borrow::Cow;

use serde::Serialize;

use super::{Reply, Said, Values};
use crate::query::{Answer, Interval, Unit};
use crate::release::{readable, readable_variance};

/// An answer, as it is printed.
#[derive(Debug, Serialize)]
struct Printed {
    value: f64,
    /// `None` where it is not stated.
    variance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    unit: Unit,
    first: u64,
    last: u64,
    spans_more_than_one_window: bool,
}

impl Printed {
    fn of(answer: &Answer, interval: Option<&Interval>) -> Self {
        let Answer { value, variance, unit, first, last, spans_more_than_one_window, .. } = *answer;
        let end = |end: fn(&Interval) -> f64| interval.map(|interval| readable(end(interval), variance));
        let (low, high) = (end(|interval| interval.low), end(|interval| interval.high));
        let value = readable(value, variance);
        let variance = answer.is_stated().then(|| readable_variance(variance));
        Self { value, variance, low, high, unit, first, last, spans_more_than_one_window }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Answer {
        t: u64,
        query: &'a str,
        #[serde(flatten)]
        answer: Printed,
        confidence: f64,
    },
    Top {
        t: u64,
        query: &'a str,
        top: Vec<Ranked<'a>>,
        confidence: f64,
    },
    Event {
        t: u64,
        monitor: &'a str,
        event: &'static str,
        #[serde(flatten)]
        score: Printed,
    },
}

#[derive(Debug, Serialize)]
struct Ranked<'a> {
    of: Cow<'a, str>,
    #[serde(flatten)]
    answer: Printed,
}

/// A line, and a mark where it rests on seeded randomness.
#[derive(Debug, Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    line: Line<'a>,
    /// Left out where it is `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    seeded: bool,
}

impl Said<'_> {
    /// What was said about timestamp `t`, as an object that can be written down, with the names that values have. It
    /// has `seeded` where that is true.
    pub fn line<'a>(&'a self, t: u64, values: &'a Values) -> impl Serialize + 'a {
        let name = self.name;
        let line = match &self.reply {
            Reply::Answer { answer, interval, confidence } => {
                Line::Answer { t, query: name, answer: Printed::of(answer, interval.as_ref()), confidence: *confidence }
            }
            Reply::Top { ranked, confidence } => {
                let ranked = ranked.iter().map(|(value, answer, interval)| Ranked {
                    of: values.name(*value),
                    answer: Printed::of(answer, interval.as_ref()),
                });
                Line::Top { t, query: name, top: ranked.collect(), confidence: *confidence }
            }
            Reply::Event(event) => {
                Line::Event { t, monitor: name, event: event.kind.name(), score: Printed::of(&event.score, None) }
            }
        };
        Marked { line, seeded: self.seeded }
    }
}
