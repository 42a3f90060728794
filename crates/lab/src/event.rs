//! Event-level mechanisms on a stream of numbers.
//!
//! Each mechanism is there as the library has it by default, and under names of their own where its paper compares several ways
//! of publishing: noise on points or on sums, the mean or the median, readings cut off at a private bound. What the paper on
//! delay-allowed release prints, mistakes included, is in [`published`].

pub mod published;

use tidegate::event::{Event, EventKind, Publication, Settings as EventSettings, Smoother};
use tidegate_kernel::SeededRandom;

use crate::experiment::{NumberOutcome, OnNumbers, RunError, Setting, Settings, Subject};
use crate::stream::NumberStream;
use published::Published;

/// An event-level mechanism with one way of publishing.
#[derive(Clone, Copy, Debug)]
pub struct EventSubject {
    name: &'static str,
    summary: &'static str,
    kind: EventKind,
    publication: Option<Publication>,
    smoother: Smoother,
    truncated: bool,
}

impl EventSubject {
    const fn new(kind: EventKind, summary: &'static str) -> Self {
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
    pub const fn kind(&self) -> EventKind {
        self.kind
    }

    /// What the mechanism is set to for a stream and the settings of an experiment. An error where the delay is longer than the
    /// library can hold back.
    pub fn settings(&self, stream: &NumberStream, settings: &Settings) -> Result<EventSettings, RunError> {
        let delay = u32::try_from(settings.delay).map_err(RunError::unsupported)?;
        Ok(EventSettings {
            protects: settings.protects,
            publication: self.publication,
            smoother: self.smoother,
            within_domain: settings.within_domain,
            truncation: self.truncated.then(|| settings.truncation.unwrap_or_default()),
            threshold: settings.threshold,
            buckets: settings.buckets,
            ..EventSettings::new(settings.epsilon, *stream.grid(), delay)
        })
    }
}

const LAPLACE: EventSubject = EventSubject::new(EventKind::Laplace, "event: noise on each number");
const CLAMPED: EventSubject =
    EventSubject::new(EventKind::Clamped, "event: baseline: noise on each number, moved into the domain");
const PEGASUS: EventSubject =
    EventSubject::new(EventKind::Pegasus, "event: noisy numbers, averaged with the earlier ones of their group");
const PEGASUS_DELAY: EventSubject =
    EventSubject::new(EventKind::PegasusDelay, "event: noisy numbers, averaged with all of their group");
const CONTIN: EventSubject =
    EventSubject::new(EventKind::Contin, "event: groups of consecutive numbers, noise on each group's sum");
const DISCONTIN: EventSubject =
    EventSubject::new(EventKind::Discontin, "event: groups anywhere in a batch, noise on each group's sum");
const COMPORDER: EventSubject =
    EventSubject::new(EventKind::Comporder, "event: noisy numbers, corrected by noisy comparisons");
const BUCORDER: EventSubject = EventSubject::new(EventKind::Bucorder, "event: a randomised part of the domain, shrunk");

/// `track`, which [`TrackSubject`](crate::track::TrackSubject) runs on streams of numbers.
pub(crate) const TRACK: EventSubject =
    EventSubject::new(EventKind::Track, "event: adaptive questions, and an estimate from all answers");

const CONTIN_POINTS: EventSubject = CONTIN
    .publishing(Publication::Points)
    .variant("contin_points", "event: as contin, but noise on each number and the mean of the group");
const DISCONTIN_POINTS: EventSubject = DISCONTIN
    .publishing(Publication::Points)
    .variant("discontin_points", "event: as discontin, but noise on each number and the mean of the group");
const BUCORDER_SUMS: EventSubject = BUCORDER
    .publishing(Publication::Sums)
    .variant("bucorder_sums", "event: randomised parts of the domain, noise on the sum of each");

/// All event-level mechanisms. The baseline `constant` is [`Constant`](crate::subjects::Constant), for all kinds of streams.
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
        .variant("bucorder_clipped_sums", "event: as bucorder_sums, with numbers moved into their part first"),
    &PEGASUS
        .smoothed_by(Smoother::Median)
        .variant("pegasus_median", "event: as pegasus, with the median instead of the mean"),
    &PEGASUS_DELAY
        .smoothed_by(Smoother::Median)
        .variant("pegasus_delay_median", "event: as pegasus_delay, with the median instead of the mean"),
    &CONTIN_POINTS
        .smoothed_by(Smoother::Median)
        .variant("contin_points_median", "event: as contin_points, with the median instead of the mean"),
    &DISCONTIN_POINTS
        .smoothed_by(Smoother::Median)
        .variant("discontin_points_median", "event: as discontin_points, with the median instead of the mean"),
    &LAPLACE.truncated().variant("laplace_truncated", "event: laplace on numbers cut off at a private bound"),
    &CLAMPED.truncated().variant("clamped_truncated", "event: clamped on numbers cut off at a private bound"),
    &PEGASUS_DELAY
        .truncated()
        .variant("pegasus_delay_truncated", "event: pegasus_delay on numbers cut off at a private bound"),
    &CONTIN_POINTS
        .truncated()
        .variant("contin_points_truncated", "event: contin_points on numbers cut off at a private bound"),
    &DISCONTIN_POINTS
        .truncated()
        .variant("discontin_points_truncated", "event: discontin_points on numbers cut off at a private bound"),
    &COMPORDER.truncated().variant("comporder_truncated", "event: comporder on numbers cut off at a private bound"),
    &BUCORDER.truncated().variant("bucorder_truncated", "event: bucorder on numbers cut off at a private bound"),
    &BUCORDER_SUMS
        .truncated()
        .variant("bucorder_sums_truncated", "event: bucorder_sums on numbers cut off at a private bound"),
    &Published::Pegasus,
    &Published::PegasusDelay,
    &Published::Contin,
    &Published::ContinPoints,
    &Published::Discontin,
    &Published::DiscontinPoints,
    &Published::Comporder,
    &Published::Bucorder,
];

impl Subject for EventSubject {
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
            // A private bound is chosen batch by batch, and protects readings only. What is released of a bucket, and by
            // `clamped`, lies within the domain anyway.
            (EventKind::Clamped | EventKind::Bucorder, true) => &[Delay],
            (_, true) => &[Delay, WithinDomain],
            (EventKind::Constant, _) => &[],
            // What is believed lies within the domain.
            (EventKind::Track, _) => &[Delay, Contribution],
            (EventKind::Bucorder, _) if labels => &[],
            (EventKind::Bucorder, _) => &[Delay, Contribution],
            (EventKind::Clamped, _) => &[Contribution],
            (EventKind::Laplace | EventKind::Pegasus, _) => &[Contribution, WithinDomain],
            (EventKind::PegasusDelay | EventKind::Contin | EventKind::Discontin | EventKind::Comporder, _) => {
                &[Delay, Contribution, WithinDomain]
            }
        }
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        Some(self)
    }
}

impl OnNumbers for EventSubject {
    fn run(
        &self,
        stream: &NumberStream,
        settings: &Settings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError> {
        let smooth = settings.smoothing();
        let settings = self.settings(stream, settings)?;
        let mut mechanism = Event::new(self.kind, settings).map_err(RunError::unsupported)?;
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
