//! Verdicts on claims, computed from measured results.
//!
//! A claim is a set of comparisons of two measured numbers. A comparison is decided if they differ by more than
//! [`NOISE`] standard errors of their difference. A [`Tally`] of the decisions gives the verdict and its reason.

use std::fmt;

use crate::results::{At, Measurement, Results};
use tidegate_lab::metrics::Summary;

/// Standard errors by which two means must differ for a decision.
pub const NOISE: f64 = 3.0;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// It holds in some comparisons, or to a lesser extent.
    Partly,
    /// It does not hold.
    DoesNotHold,
    /// There were too few runs, or the numbers are too close.
    Unclear,
}

impl Verdict {
    /// All verdicts, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Holds, Self::Partly, Self::DoesNotHold, Self::Unclear];

    /// Returns the verdict in words, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "holds partly",
            Self::DoesNotHold => "does not hold",
            Self::Unclear => "cannot be told",
        }
    }

    /// Returns the verdict as an identifier, for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "holds_partly",
            Self::DoesNotHold => "does_not_hold",
            Self::Unclear => "unclear",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.words())
    }
}

/// A verdict with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Sentences with the measured numbers.
    pub because: String,
}

/// The result of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// True, beyond the noise.
    Yes,
    /// False, beyond the noise; or equal without noise.
    No,
    /// Within the noise.
    Unclear,
}

/// Whether `a` is smaller than `b`.
pub fn smaller(a: Summary, b: Summary) -> Decision {
    let (Some(a_error), Some(b_error)) = (a.standard_error, b.standard_error) else { return Decision::Unclear };
    let difference = b.mean - a.mean;
    let noise = NOISE * a_error.hypot(b_error);
    // Beyond rounding, where nothing is uncertain.
    let rounding = 1e-12 * (a.mean.abs() + b.mean.abs());
    if difference > noise + rounding {
        Decision::Yes
    } else if difference < -(noise + rounding) || noise <= rounding {
        Decision::No
    } else {
        Decision::Unclear
    }
}

/// Whether `a` is smaller than `factor · b`.
pub fn smaller_than_times(a: Summary, factor: f64, b: Summary) -> Decision {
    smaller(a, Summary { mean: factor * b.mean, standard_error: b.standard_error.map(|error| factor * error) })
}

/// Whether `a` is smaller than `factor · b`, by the differences of runs with the same seed.
///
/// What a seed makes high or low in both runs cancels out of their difference. Falls back on [`smaller_than_times`]
/// where the runs of the two cannot be paired.
pub fn smaller_in_pairs(a: &Measurement, factor: f64, b: &Measurement) -> Decision {
    if a.runs.len() < 2 || a.runs.len() != b.runs.len() {
        return smaller_than_times(a.value, factor, b.value);
    }
    let differences: Vec<f64> = a.runs.iter().zip(&b.runs).map(|(a, b)| factor * b - a).collect();
    let none = Summary { mean: 0.0, standard_error: Some(0.0) };
    Summary::of(&differences).map_or(Decision::Unclear, |difference| smaller(none, difference))
}

/// Returns `a / b`, with the standard error of independent numbers, to first order.
pub fn ratio(a: Summary, b: Summary) -> Summary {
    let mean = a.mean / b.mean;
    let relative = |summary: Summary| summary.standard_error.map(|error| error / summary.mean);
    let standard_error = relative(a).zip(relative(b)).map(|(a, b)| (mean * a.hypot(b)).abs());
    Summary { mean, standard_error }
}

/// Whether a measured number is within a share of a known one, up to its noise.
pub fn near(measured: Summary, known: f64, share: f64) -> Decision {
    let Some(error) = measured.standard_error else { return Decision::Unclear };
    let (distance, allowed, noise) = ((measured.mean - known).abs(), share * known.abs(), NOISE * error);
    if distance + noise <= allowed || distance <= allowed + 1e-12 * known.abs() {
        Decision::Yes
    } else if distance > allowed + noise {
        Decision::No
    } else {
        Decision::Unclear
    }
}

/// How strong a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// "All", "consistently", "always": holds if every decided comparison agrees, and partly if more than half do.
    Everywhere,
    /// "In general", "mostly": holds if three quarters agree, and partly if half do.
    Mostly,
}

/// Decisions of the comparisons of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    yes: Vec<String>,
    no: Vec<String>,
    unclear: Vec<String>,
}

impl Tally {
    /// Creates an empty tally.
    pub const fn new() -> Self {
        Self { yes: Vec::new(), no: Vec::new(), unclear: Vec::new() }
    }

    /// Adds a decision; `what` describes the comparison, such as "sin at 0.5: lbd 0.31, lbu 0.30".
    pub fn add(&mut self, answer: Decision, what: impl Into<String>) {
        match answer {
            Decision::Yes => self.yes.push(what.into()),
            Decision::No => self.no.push(what.into()),
            Decision::Unclear => self.unclear.push(what.into()),
        }
    }

    /// Adds all decisions of another tally.
    pub fn append(&mut self, other: Self) {
        self.yes.extend(other.yes);
        self.no.extend(other.no);
        self.unclear.extend(other.unclear);
    }

    /// Adds all decisions of another tally, each with a prefix.
    pub fn extend(&mut self, other: Self, about: &str) {
        let labelled = |list: Vec<String>| list.into_iter().map(move |what| format!("{what} ({about})"));
        self.yes.extend(labelled(other.yes));
        self.no.extend(labelled(other.no));
        self.unclear.extend(labelled(other.unclear));
    }

    /// Returns the numbers of yes, no and unclear.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.yes.len(), self.no.len(), self.unclear.len())
    }

    /// Returns the verdict on a claim, with the counts and some comparisons as its reason.
    ///
    /// The verdict is unclear if less than half of the comparisons are decided. Otherwise undecided ones do not count.
    pub fn judge(&self, demand: Demand) -> Judgement {
        let (yes, no, unclear) = self.counts();
        let told = yes + no;
        let verdict = if told == 0 || told < unclear {
            Verdict::Unclear
        } else {
            let (holds, partly) = match demand {
                Demand::Everywhere => (no == 0, 2 * yes > told),
                Demand::Mostly => (4 * yes >= 3 * told, 2 * yes >= told),
            };
            match (holds, partly) {
                (true, _) => Verdict::Holds,
                (false, true) => Verdict::Partly,
                (false, false) => Verdict::DoesNotHold,
            }
        };
        Judgement { verdict, because: self.because(yes + no + unclear) }
    }

    fn because(&self, total: usize) -> String {
        if total == 0 {
            return "Nothing was measured that could be compared.".to_owned();
        }
        let examples = |list: &[String], most: usize| {
            let more = list.len().saturating_sub(most);
            let shown = list.iter().take(most).map(String::as_str).collect::<Vec<_>>().join("; ");
            if more > 0 { format!("{shown}; and {more} more") } else { shown }
        };
        let mut parts = vec![format!("As claimed in {} of {total} comparisons", self.yes.len())];
        if self.no.is_empty() && !self.yes.is_empty() {
            parts.push(format!("for example {}", examples(&self.yes[..1], 1)));
        }
        let mut sentence = parts.join(", ") + ".";
        if !self.no.is_empty() {
            sentence += &format!(" Not so: {}.", examples(&self.no, 3));
        }
        if !self.unclear.is_empty() {
            let noise = format!("too close to tell (within {NOISE} standard errors)");
            sentence += &format!(" {} {noise}: {}.", self.unclear.len(), examples(&self.unclear, 2));
        }
        sentence
    }
}

/// Compares each of `lower` with each of `upper`, at each place of each panel that has both.
pub fn all_below(table: &Results, metric: &str, lower: &[&str], upper: &[&str]) -> Tally {
    all_below_where(table, metric, lower, upper, |_, _| true)
}

/// Like [`all_below`], at chosen panels and places.
pub fn all_below_where(
    table: &Results,
    metric: &str,
    lower: &[&str],
    upper: &[&str],
    asked: impl Fn(&str, &At) -> bool,
) -> Tally {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for at in table.places(panel).into_iter().filter(|at| asked(panel, at)) {
            for low in lower {
                for high in upper.iter().filter(|high| *high != low) {
                    let values =
                        table.get(panel, low, at.clone(), metric).zip(table.get(panel, high, at.clone(), metric));
                    if let Some((a, b)) = values {
                        let what = format!("{panel} at {at}: {low} {}, {high} {}", short(a), short(b));
                        tally.add(smaller(a, b), what);
                    }
                }
            }
        }
    }
    tally
}

/// Compares neighbouring places of each series: it should fall.
pub fn falls(table: &Results, metric: &str, series: &[&str], asked: impl Fn(&str) -> bool) -> Tally {
    trend(table, metric, series, asked, smaller_later)
}

/// Compares neighbouring places of each series: it should rise.
pub fn rises(table: &Results, metric: &str, series: &[&str], asked: impl Fn(&str) -> bool) -> Tally {
    trend(table, metric, series, asked, smaller)
}

fn smaller_later(earlier: Summary, later: Summary) -> Decision {
    smaller(later, earlier)
}

fn trend(
    table: &Results,
    metric: &str,
    series: &[&str],
    asked: impl Fn(&str) -> bool,
    as_claimed: fn(Summary, Summary) -> Decision,
) -> Tally {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| asked(panel)) {
        for name in series {
            for pair in table.along(panel, name, metric).windows(2) {
                let ((from, earlier), (to, later)) = (&pair[0], &pair[1]);
                let what = format!("{panel}, {name} from {from} to {to}: {} to {}", short(*earlier), short(*later));
                tally.add(as_claimed(*earlier, *later), what);
            }
        }
    }
    tally
}

/// Formats a mean with its standard error, in few digits.
pub fn short(summary: Summary) -> String {
    match summary.standard_error {
        Some(error) if error > 0.0 => format!("{} ± {}", digits(summary.mean, 3), digits(error, 1)),
        _ => digits(summary.mean, 3),
    }
}

/// Formats a number with `count` significant digits.
pub fn digits(number: f64, count: u8) -> String {
    let size = number.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&size) {
        return format!("{number:.*e}", usize::from(count.saturating_sub(1)));
    }
    #[allow(clippy::cast_possible_truncation)] // between -3 and 5
    let magnitude = size.log10().floor() as i32;
    let decimals = usize::try_from(i32::from(count) - 1 - magnitude).unwrap_or_default();
    format!("{number:.decimals$}")
}
