//! Verdicts, computed from measured tables.
//!
//! A claim is turned into comparisons of pairs of measured numbers. A comparison is answered only where the two differ
//! by more than [`NOISE`] standard errors of their difference; otherwise it is too close to tell. A [`Tally`] of the
//! answers gives the verdict and the sentence that justifies it.

use std::fmt;

use crate::results::{At, Results};
use tidegate_lab::metrics::Summary;

/// By how many standard errors of their difference two means must differ before one is said to be larger.
pub const NOISE: f64 = 3.0;

/// Whether a claim holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// As claimed.
    Holds,
    /// In some of the comparisons, or less than claimed.
    Partly,
    /// Not as claimed.
    DoesNotHold,
    /// The runs were too few, or the numbers too close, to tell.
    Unclear,
}

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Holds, Self::Partly, Self::DoesNotHold, Self::Unclear];

    /// What people read.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "holds partly",
            Self::DoesNotHold => "does not hold",
            Self::Unclear => "cannot be told",
        }
    }

    /// What machines read.
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
    /// The measured numbers that justify it, in a sentence or two.
    pub because: String,
}

/// The answer to one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// As claimed, beyond the noise.
    Yes,
    /// The other way round, beyond the noise; or equal, where that is known exactly.
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

/// `a / b`, with the standard error that follows from theirs where they are independent and small.
pub fn ratio(a: Summary, b: Summary) -> Summary {
    let mean = a.mean / b.mean;
    let relative = |summary: Summary| summary.standard_error.map(|error| error / summary.mean);
    let standard_error = relative(a).zip(relative(b)).map(|(a, b)| (mean * a.hypot(b)).abs());
    Summary { mean, standard_error }
}

/// Whether a number is within a share of another one that is known, such as one that a paper printed; the measured
/// number may differ by its noise as well.
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
    /// "All", "consistently", "always": it holds where every comparison that can be told says so, and partly where more
    /// than half do.
    Everywhere,
    /// "In general", "mostly": it holds where three quarters do, and partly where half do.
    Mostly,
}

/// Answers to the comparisons that make up a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    yes: Vec<String>,
    no: Vec<String>,
    unclear: Vec<String>,
}

impl Tally {
    /// No answers yet.
    pub const fn new() -> Self {
        Self { yes: Vec::new(), no: Vec::new(), unclear: Vec::new() }
    }

    /// Adds an answer; `what` says what was compared, with the numbers, such as "sin at 0.5: lbd 0.31, lbu 0.30".
    pub fn add(&mut self, answer: Decision, what: impl Into<String>) {
        match answer {
            Decision::Yes => self.yes.push(what.into()),
            Decision::No => self.no.push(what.into()),
            Decision::Unclear => self.unclear.push(what.into()),
        }
    }

    /// Adds all answers of another tally.
    pub fn append(&mut self, other: Self) {
        self.yes.extend(other.yes);
        self.no.extend(other.no);
        self.unclear.extend(other.unclear);
    }

    /// Adds all answers of another tally, each with what they are about.
    pub fn extend(&mut self, other: Self, about: &str) {
        let labelled = |list: Vec<String>| list.into_iter().map(move |what| format!("{what} ({about})"));
        self.yes.extend(labelled(other.yes));
        self.no.extend(labelled(other.no));
        self.unclear.extend(labelled(other.unclear));
    }

    /// How many answers are yes, no and unclear.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.yes.len(), self.no.len(), self.unclear.len())
    }

    /// The verdict on a claim that demands so much, with the counts and a few of the comparisons as its reason.
    ///
    /// Where less than half of the comparisons can be told, neither can the claim. Otherwise those that cannot be told
    /// count neither for nor against it.
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

/// Every one of `lower` below every one of `upper`, at every place of every panel that has both.
pub fn all_below(table: &Results, metric: &str, lower: &[&str], upper: &[&str]) -> Tally {
    all_below_where(table, metric, lower, upper, |_, _| true)
}

/// The same at the panels and places that are asked for.
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

/// Each of the series falls from each place to the next, in every panel that is asked for.
pub fn falls(table: &Results, metric: &str, series: &[&str], asked: impl Fn(&str) -> bool) -> Tally {
    trend(table, metric, series, asked, smaller_later)
}

/// Each of the series rises from each place to the next, in every panel that is asked for.
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

/// A mean with its standard error, in few digits.
pub fn short(summary: Summary) -> String {
    match summary.standard_error {
        Some(error) if error > 0.0 => format!("{} ± {}", digits(summary.mean, 3), digits(error, 1)),
        _ => digits(summary.mean, 3),
    }
}

/// A number with so many digits that matter.
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
