//! [`Published`]: judges whether releases say anything, from the releases alone.

use std::collections::BTreeMap;

use tidegate::kernel::{Grid, Window};
use tidegate::mechanisms::Family;
use tidegate::release::Release;
use tidegate::spec::{Reply, Said, StreamSpec};
use tidegate_release::warnings::longer_than_the_data;
use tidegate_table::layout::figure;

use super::{AIM, advice, cause};

/// Fewer releases than this are not judged.
const FEWEST: u64 = 10;
/// An endless stream is judged after so many releases, and once more at its end.
const FIRST_LOOK: u64 = 100;
/// The width of a 95 % interval, in standard deviations.
const INTERVAL: f64 = 3.92;

/// Running moments of what a stream releases, and what they warn of.
#[derive(Debug)]
pub(crate) struct Published {
    spec: StreamSpec,
    /// Whether the input is all there is, rather than part of a stream that goes on.
    is_whole: bool,
    first: Option<u64>,
    last: u64,
    releases: u64,
    /// Sum over releases of the mean variance that they state.
    variance: f64,
    /// Mean over time, and sum of squared deviations from it, of each value.
    values: Vec<(f64, f64)>,
    queries: BTreeMap<String, Answers>,
    has_warned: bool,
}

/// The answers to a query so far.
#[derive(Debug, Default)]
struct Answers {
    number: u64,
    /// Answers whose interval is wider than they are.
    wide: u64,
    /// Sums of values and of half widths.
    sums: [f64; 2],
}

impl Published {
    pub(crate) fn new(spec: &StreamSpec, is_whole: bool) -> Self {
        Self {
            spec: spec.clone(),
            is_whole,
            first: None,
            last: 0,
            releases: 0,
            variance: 0.0,
            values: Vec::new(),
            queries: BTreeMap::new(),
            has_warned: false,
        }
    }

    /// Takes a release into account. One without a variance counts for its timestamp only.
    pub(crate) fn see(&mut self, release: &Release) {
        self.first.get_or_insert(release.timestamp);
        self.last = self.last.max(release.timestamp);
        let number = release.statistic.number().map(|number| ([number.value], [number.variance]));
        let (values, variances) = match &number {
            Some((value, variance)) => (&value[..], &variance[..]),
            None => release.statistic.leaves(),
        };
        if values.is_empty() || !variances.iter().all(|variance| variance.is_finite()) {
            return;
        }
        self.releases += 1;
        self.values.resize(values.len(), (0.0, 0.0));
        self.variance += variances.iter().sum::<f64>() / count(values.len());
        for ((mean, squares), value) in self.values.iter_mut().zip(values) {
            let distance = value - *mean;
            #[allow(clippy::cast_precision_loss)] // a count of releases
            let share = distance / self.releases as f64;
            *mean += share;
            *squares += distance * (value - *mean);
        }
    }

    /// Takes an answer to a query into account.
    pub(crate) fn hear(&mut self, said: &Said<'_>) {
        let Reply::Answer { answer, interval: Some(interval), .. } = &said.reply else { return };
        let width = interval.high - interval.low;
        if !width.is_finite() {
            return;
        }
        let answers = self.queries.entry(said.name.to_owned()).or_default();
        answers.number += 1;
        answers.wide += u64::from(width > answer.value.abs());
        answers.sums[0] += answer.value;
        answers.sums[1] += width / 2.0;
    }

    /// Whether it is time for a first look at a stream that may never end.
    pub(crate) const fn is_due(&self) -> bool {
        self.releases == FIRST_LOOK && !self.has_warned
    }

    /// Warnings about the noise, unless there was one before.
    pub(crate) fn noise(&mut self) -> Option<String> {
        // Baselines that release a constant are not meant to say anything.
        let is_baseline = self.spec.mechanism().short_name == "constant";
        let warning = if self.has_warned || is_baseline { None } else { self.noise_of() };
        self.has_warned |= warning.is_some();
        warning
    }

    /// Everything to warn of at the end.
    pub(crate) fn at_the_end(&mut self) -> Vec<String> {
        let mut warnings: Vec<String> = self.noise().into_iter().collect();
        warnings.extend(self.wide_queries());
        if let (Some(first), Window::Timestamps(window), true) = (self.first, self.spec.window(), self.is_whole) {
            warnings.extend(longer_than_the_data(window.get(), self.last - first + 1));
        }
        warnings
    }

    fn wide_queries(&self) -> impl Iterator<Item = String> {
        let wide = |(_, answers): &(&String, &Answers)| answers.number >= FEWEST && answers.wide * 2 > answers.number;
        self.queries.iter().filter(wide).map(|(name, answers)| {
            #[allow(clippy::cast_precision_loss)] // a count of answers
            let mean = |sum: f64| figure(sum / answers.number as f64);
            let [value, half] = answers.sums.map(mean);
            format!(
                "the intervals of the query {name:?} are wider than its answers (±{half} around {value}): ask for a \
                 longer delta or more values at once, raise epsilon, or shorten the window"
            )
        })
    }

    fn noise_of(&self) -> Option<String> {
        if self.releases < FEWEST {
            return None;
        }
        #[allow(clippy::cast_precision_loss)] // a count of releases
        let releases = self.releases as f64;
        let values = count(self.values.len());
        let noise = (self.variance / releases).sqrt();
        let moved = (self.values.iter().map(|(_, squares)| squares).sum::<f64>() / values / (releases - 1.0)).sqrt();
        // The size of a typical value. Noise adds to its square.
        let (square, added) =
            (self.values.iter().map(|(mean, _)| mean * mean).sum::<f64>() / values, noise * noise / releases);
        let most = square.sqrt() + (added / values).sqrt();
        let about = if square > 4.0 * added {
            format!("about {} (published)", figure((square - added).sqrt()))
        } else {
            format!("at most about {} (published)", figure(most))
        };
        let what = match self.spec.family() {
            Family::Central => "counts",
            Family::Local if self.width().is_some() => "numbers",
            Family::Local | Family::Sequence => "shares",
            Family::Scalar => "numbers",
        };
        let (cause, width) = (cause(&self.spec), self.width());
        let shown = figure(noise);
        if let Some(width) = width.filter(|width| noise > width / 2.0) {
            let advice = advice(&self.spec, noise / (width / 10.0));
            return Some(format!(
                "{cause} noise of ±{shown} (a standard deviation) in a domain that is {} wide: {advice}",
                figure(width)
            ));
        }
        // Numbers such as temperatures have no natural zero that they could be compared with.
        let has_level = width.is_none() || self.begins_at_zero();
        let enough = || advice(&self.spec, noise / (AIM * most));
        if has_level && noise > most {
            return Some(format!(
                "{cause} noise of ±{shown} (a standard deviation) around {what} of {about}: {}",
                enough()
            ));
        }
        if has_level && INTERVAL * noise > most {
            let half = figure(INTERVAL / 2.0 * noise);
            return Some(format!("{cause} 95 % intervals (±{half}) wider than the {what}, {about}: {}", enough()));
        }
        let is_coarse = noise > if has_level { most / 10.0 } else { width.unwrap_or_default() / 20.0 };
        if is_coarse && self.releases >= 2 * FEWEST && moved <= 1.1 * noise {
            return Some(format!(
                "{cause} noise of ±{shown} (a standard deviation), and what is published moves by ±{} only, so that no \
                 change can be told from noise: {}",
                figure(moved),
                advice(&self.spec, 4.0)
            ));
        }
        None
    }

    /// The width of the domain of numbers.
    fn width(&self) -> Option<f64> {
        self.grid().map(|grid| grid.high() - grid.low())
    }

    fn begins_at_zero(&self) -> bool {
        self.grid().is_some_and(|grid| grid.low() == 0.0)
    }

    fn grid(&self) -> Option<Grid> {
        match &self.spec {
            StreamSpec::Scalar(spec) => spec.domain.grid().ok(),
            StreamSpec::Local(spec) => spec.values().ok()?.grid().copied(),
            _ => None,
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a number of values
const fn count(values: usize) -> f64 {
    values as f64
}
