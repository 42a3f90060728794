//! Scalar mechanisms on a stream of numbers.
//!
//! Each mechanism is there as the library has it by default, and under names of their own where its paper compares
//! several ways of publishing: noise on points or on sums, the mean or the median, readings cut off at a private bound.
//! [`published`] follows the text of the paper on delay-allowed release, mistakes included; [`adapub`] is a baseline of
//! it.

pub mod adapub;
pub mod published;

use std::sync::LazyLock;

use tidegate::mechanisms::{Family, Mechanism, Preset};
use tidegate::post_processing::Refinement;
use tidegate::scalar::{Publication, Scalar, ScalarKind, ScalarSettings, Smoother};
use tidegate_kernel::SeededRandom;

use crate::experiment::{NumberOutcome, OnNumbers, RunError, Setting, Subject, TrialSettings};
use crate::stream::NumberStream;
use crate::subjects::listed;
use published::Published;

/// A scalar mechanism, or a variant of one.
#[derive(Clone, Copy, Debug)]
pub struct ScalarSubject {
    listed: &'static Mechanism,
    kind: ScalarKind,
    publication: Option<Publication>,
    smoother: Smoother,
    truncated: bool,
}

impl ScalarSubject {
    /// The subject of an entry of the list; `None` for one of another family.
    pub fn of(listed: &'static Mechanism) -> Option<Self> {
        let kind = listed.variant_of.unwrap_or(listed.short_name).parse().ok()?;
        let text = |key: &str| match listed.presets.iter().find(|(fixed, _)| *fixed == key) {
            Some((_, Preset::Text(text))) => Some(*text),
            _ => None,
        };
        let publication = text("publication");
        let publication = Publication::ALL.into_iter().find(|known| Some(known.name()) == publication);
        let smoother = if text("smoother") == Some("median") { Smoother::Median } else { Smoother::Mean };
        let truncated = listed.presets.iter().any(|(key, _)| *key == "truncation");
        (listed.family == Family::Scalar).then_some(Self { listed, kind, publication, smoother, truncated })
    }

    const fn listed(&self) -> &'static Mechanism {
        self.listed
    }

    /// Which mechanism it is.
    pub const fn kind(&self) -> ScalarKind {
        self.kind
    }

    /// The publication that it fixes.
    pub const fn publication(&self) -> Option<Publication> {
        self.publication
    }

    /// Whether it cuts readings off at a private bound.
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// What the mechanism is set to for a stream and the settings of an experiment. An error where the delay is longer
    /// than the library can hold back.
    pub fn settings(&self, stream: &NumberStream, settings: &TrialSettings) -> Result<ScalarSettings, RunError> {
        let delay = u32::try_from(settings.delay).map_err(RunError::unsupported)?;
        Ok(ScalarSettings {
            protects: settings.protects,
            publication: self.publication,
            smoother: if settings.median { Smoother::Median } else { self.smoother },
            within_domain: settings.within_domain,
            truncation: self.truncated.then(|| settings.truncation.unwrap_or_default()),
            threshold: settings.threshold,
            buckets: settings.buckets,
            ..ScalarSettings::new(settings.epsilon, *stream.grid(), delay)
        })
    }
}

/// All scalar mechanisms, and what the paper prints. The baseline `constant` is
/// [`Constant`](crate::subjects::Constant), for all kinds of streams.
pub fn subjects() -> Vec<&'static dyn Subject> {
    static LISTED: LazyLock<Vec<ScalarSubject>> =
        LazyLock::new(|| Family::Scalar.mechanisms().filter_map(ScalarSubject::of).collect());
    let listed = LISTED.iter().filter(|subject| subject.kind != ScalarKind::Constant);
    listed.map(|subject| subject as &dyn Subject).chain(PUBLISHED.iter().copied()).collect()
}

const PUBLISHED: &[&dyn Subject] = &[
    &Published::Pegasus,
    &Published::PegasusDelay,
    &Published::Contin,
    &Published::ContinPoints,
    &Published::Discontin,
    &Published::DiscontinPoints,
    &Published::Comporder,
    &Published::Bucorder,
    &Published::BucorderLine10,
    &adapub::Adapub,
];

impl Subject for ScalarSubject {
    listed!();

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
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError> {
        let refinement = settings.refinement();
        let settings = self.settings(stream, settings)?;
        let mechanism = Scalar::new(self.kind, settings).map_err(RunError::unsupported)?;
        let refinement = if mechanism.states_error() { refinement } else { refinement.without_errors() };
        run_scalar(mechanism, stream, refinement, random)
    }
}

/// Drives a mechanism through a whole stream.
pub(crate) fn run_scalar(
    mut mechanism: Scalar,
    stream: &NumberStream,
    mut refinement: Refinement,
    random: &mut SeededRandom,
) -> Result<NumberOutcome, RunError> {
    let mut releases = Vec::with_capacity(stream.values().len());
    for (timestamp, value) in (0_u64..).zip(stream.values()) {
        let reading = mechanism.seal(timestamp, *value).map_err(RunError::failed)?;
        mechanism.push_into(reading, random, &mut releases).map_err(RunError::failed)?;
    }
    releases.extend(mechanism.finish(random).map_err(RunError::failed)?);
    let numbers = releases.into_iter().filter_map(|release| refinement.push(release).statistic.number());
    let (values, variances) = numbers.map(|number| (number.value, number.variance)).unzip();
    Ok(NumberOutcome { values, variances })
}
