//! Event-level mechanisms on a stream of numbers.
//!
//! Each mechanism is there as the library has it by default, and under names of their own where its paper compares
//! several ways of publishing: noise on points or on sums, the mean or the median, readings cut off at a private bound.
//! What the paper on delay-allowed release prints, mistakes included, is in [`published`].

pub mod published;

use tidegate::scalar::{Publication, Scalar, ScalarKind, Settings as ScalarSettings, Smoother};
use tidegate_kernel::SeededRandom;

use crate::experiment::{NumberOutcome, OnNumbers, RunError, Setting, Settings, Subject};
use crate::stream::NumberStream;
use published::Published;

/// An event-level mechanism with one way of publishing.
#[derive(Clone, Copy, Debug)]
pub struct ScalarSubject {
    name: &'static str,
    summary: &'static str,
    kind: ScalarKind,
    publication: Option<Publication>,
    smoother: Smoother,
    truncated: bool,
}

impl ScalarSubject {
    const fn new(kind: ScalarKind, summary: &'static str) -> Self {
        Self { name: kind.name(), summary, kind, publication: None, smoother: Smoother::Mean, truncated: false }
    }

    const fn variant(self, name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, ..self }
    }

    const fn publishing(self, publication: Publication) -> Self {
        Self { publication: Some(publication), ..self }
    }

    const fn smoothed_by(self, smoother: Smoother) -> Self {
        Self { smoother, ..self }
    }

    const fn truncated(self) -> Self {
        Self { truncated: true, ..self }
    }

    /// Which mechanism it is.
    pub const fn kind(&self) -> ScalarKind {
        self.kind
    }

    /// What the mechanism is set to for a stream and the settings of an experiment. An error where the delay is longer
    /// than the library can hold back.
    pub fn settings(&self, stream: &NumberStream, settings: &Settings) -> Result<ScalarSettings, RunError> {
        let delay = u32::try_from(settings.delay).map_err(RunError::unsupported)?;
        Ok(ScalarSettings {
            protects: settings.protects,
            publication: self.publication,
            smoother: self.smoother,
            within_domain: settings.within_domain,
            truncation: self.truncated.then(|| settings.truncation.unwrap_or_default()),
            threshold: settings.threshold,
            buckets: settings.buckets,
            ..ScalarSettings::new(settings.epsilon, *stream.grid(), delay)
        })
    }
}

const LAPLACE: ScalarSubject = ScalarSubject::new(ScalarKind::Laplace, "scalar: noise on each number");
const CLAMPED: ScalarSubject =
    ScalarSubject::new(ScalarKind::Clamped, "scalar: baseline: noise on each number, moved into the domain");
const PEGASUS: ScalarSubject =
    ScalarSubject::new(ScalarKind::Pegasus, "scalar: noisy numbers, averaged with the earlier ones of their group");
const PEGASUS_DELAY: ScalarSubject =
    ScalarSubject::new(ScalarKind::PegasusDelay, "scalar: noisy numbers, averaged with all of their group");
const CONTIN: ScalarSubject =
    ScalarSubject::new(ScalarKind::Contin, "scalar: groups of consecutive numbers, noise on each group's sum");
const DISCONTIN: ScalarSubject =
    ScalarSubject::new(ScalarKind::Discontin, "scalar: groups anywhere in a batch, noise on each group's sum");
const COMPORDER: ScalarSubject =
    ScalarSubject::new(ScalarKind::Comporder, "scalar: noisy numbers, corrected by noisy comparisons");
const BUCORDER: ScalarSubject =
    ScalarSubject::new(ScalarKind::Bucorder, "scalar: a randomised part of the domain, shrunk");

/// `track`, which [`TrackSubject`](crate::track::TrackSubject) runs on streams of numbers.
pub(crate) const TRACK: ScalarSubject =
    ScalarSubject::new(ScalarKind::Track, "scalar: adaptive questions, and an estimate from all answers");

const CONTIN_POINTS: ScalarSubject = CONTIN
    .publishing(Publication::Points)
    .variant("contin_points", "scalar: as contin, but noise on each number and the mean of the group");
const DISCONTIN_POINTS: ScalarSubject = DISCONTIN
    .publishing(Publication::Points)
    .variant("discontin_points", "scalar: as discontin, but noise on each number and the mean of the group");
const BUCORDER_SUMS: ScalarSubject = BUCORDER
    .publishing(Publication::Sums)
    .variant("bucorder_sums", "scalar: randomised parts of the domain, noise on the sum of each");

/// All event-level mechanisms. The baseline `constant` is [`Constant`](crate::subjects::Constant), for all kinds of
/// streams.
pub const SUBJECTS: &[&dyn Subject] = &[
    &LAPLACE,
    &CLAMPED,
    &PEGASUS,
    &PEGASUS_DELAY,
    &CONTIN,
    &CONTIN_POINTS,
    &DISCONTIN,
    &DISCONTIN_POINTS,
    &COMPORDER,
    &BUCORDER,
    &BUCORDER_SUMS,
    &BUCORDER
        .publishing(Publication::ClippedSums)
        .variant("bucorder_clipped_sums", "scalar: as bucorder_sums, with numbers moved into their part first"),
    &PEGASUS
        .smoothed_by(Smoother::Median)
        .variant("pegasus_median", "scalar: as pegasus, with the median instead of the mean"),
    &PEGASUS_DELAY
        .smoothed_by(Smoother::Median)
        .variant("pegasus_delay_median", "scalar: as pegasus_delay, with the median instead of the mean"),
    &CONTIN_POINTS
        .smoothed_by(Smoother::Median)
        .variant("contin_points_median", "scalar: as contin_points, with the median instead of the mean"),
    &DISCONTIN_POINTS
        .smoothed_by(Smoother::Median)
        .variant("discontin_points_median", "scalar: as discontin_points, with the median instead of the mean"),
    &LAPLACE.truncated().variant("laplace_truncated", "scalar: laplace on numbers cut off at a private bound"),
    &CLAMPED.truncated().variant("clamped_truncated", "scalar: clamped on numbers cut off at a private bound"),
    &PEGASUS_DELAY
        .truncated()
        .variant("pegasus_delay_truncated", "scalar: pegasus_delay on numbers cut off at a private bound"),
    &CONTIN_POINTS
        .truncated()
        .variant("contin_points_truncated", "scalar: contin_points on numbers cut off at a private bound"),
    &DISCONTIN_POINTS
        .truncated()
        .variant("discontin_points_truncated", "scalar: discontin_points on numbers cut off at a private bound"),
    &COMPORDER.truncated().variant("comporder_truncated", "scalar: comporder on numbers cut off at a private bound"),
    &BUCORDER.truncated().variant("bucorder_truncated", "scalar: bucorder on numbers cut off at a private bound"),
    &BUCORDER_SUMS
        .truncated()
        .variant("bucorder_sums_truncated", "scalar: bucorder_sums on numbers cut off at a private bound"),
    &Published::Pegasus,
    &Published::PegasusDelay,
    &Published::Contin,
    &Published::ContinPoints,
    &Published::Discontin,
    &Published::DiscontinPoints,
    &Published::Comporder,
    &Published::Bucorder,
];

impl Subject for ScalarSubject {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn uses(&self) -> &'static [Setting] {
        use Setting::{Contribution, Delay, WithinDomain};
        let labels = matches!(self.publication, None | Some(Publication::Labels));
        match (self.kind, self.truncated) {
            // A private bound is chosen batch by batch, and protects readings only. What is released of a bucket, and
            // by `clamped`, lies within the domain anyway.
            (ScalarKind::Clamped | ScalarKind::Bucorder, true) => &[Delay],
            (_, true) => &[Delay, WithinDomain],
            (ScalarKind::Constant, _) => &[],
            // What is believed lies within the domain.
            (ScalarKind::Track, _) => &[Delay, Contribution],
            (ScalarKind::Bucorder, _) if labels => &[],
            (ScalarKind::Bucorder, _) => &[Delay, Contribution],
            (ScalarKind::Clamped, _) => &[Contribution],
            (ScalarKind::Laplace | ScalarKind::Pegasus, _) => &[Contribution, WithinDomain],
            (ScalarKind::PegasusDelay | ScalarKind::Contin | ScalarKind::Discontin | ScalarKind::Comporder, _) => {
                &[Delay, Contribution, WithinDomain]
            }
        }
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        Some(self)
    }
}

impl OnNumbers for ScalarSubject {
    fn run(
        &self,
        stream: &NumberStream,
        settings: &Settings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError> {
        let smooth = settings.smoothing();
        let settings = self.settings(stream, settings)?;
        let mut mechanism = Scalar::new(self.kind, settings).map_err(RunError::unsupported)?;
        let mut releases = Vec::with_capacity(stream.values().len());
        for (timestamp, value) in (0_u64..).zip(stream.values()) {
            let reading = mechanism.seal(timestamp, *value).map_err(RunError::failed)?;
            mechanism.push_into(reading, random, &mut releases).map_err(RunError::failed)?;
        }
        releases.extend(mechanism.finish(random).map_err(RunError::failed)?);
        let numbers = releases.into_iter().map(smooth).filter_map(|release| release.statistic.number());
        Ok(NumberOutcome { values: numbers.map(|number| number.value).collect() })
    }
}
