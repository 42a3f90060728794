//! Scalar mechanisms: numbers, of which one differs.

use std::num::NonZeroU64;

use tidegate::mechanisms::{self, Mechanism};
use tidegate::scalar::{Scalar, ScalarKind, ScalarSettings, Truncation};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Grid, SeededRandom};

use super::{other_input, stated};
use crate::audit::{AuditSettings, Input, Pair, Target, TargetFamily, Transcript, exact};
use crate::experiment::{RunError, Subject as _};
use crate::scalar::ScalarSubject;

/// A scalar mechanism with one way of publishing.
#[derive(Clone, Copy, Debug)]
pub struct ScalarTarget {
    /// Its name, as experiments have it.
    pub name: &'static str,
    /// Which mechanism.
    pub kind: ScalarKind,
    /// What it is set to.
    pub settings: ScalarSettings,
}

/// All scalar mechanisms, on the whole numbers `0..domain`, holding back as long as a window.
pub(super) fn targets(settings: &AuditSettings) -> Result<Vec<Box<dyn Target>>, RunError> {
    let AuditSettings { epsilon, window, domain } = *settings;
    let grid = Grid::new(0.0, f64::from(domain) - 1.0, 1.0).map_err(RunError::unsupported)?;
    let delay = u32::try_from(window.get() - 1).map_err(RunError::unsupported)?;
    let plain = ScalarSettings::new(epsilon, grid, delay);
    let target = |subject: ScalarSubject| {
        let (kind, publication) = (subject.kind(), subject.publication());
        // Half of the readings are sampled, so that short streams have a sample.
        let truncation = subject.is_truncated().then(|| Truncation { percent: 50, ..Truncation::default() });
        // A range has no more parts than points.
        let buckets = (kind == ScalarKind::Bucorder).then_some(domain);
        let settings = ScalarSettings { publication, truncation, buckets, ..plain };
        Box::new(ScalarTarget { name: subject.name(), kind, settings }) as Box<dyn Target>
    };
    // How noisy points are averaged makes no difference to what they tell.
    let is_told_apart = |listed: &&'static Mechanism| listed.presets.iter().all(|(key, _)| *key != "smoother");
    let subjects = mechanisms::Family::Scalar.mechanisms().filter(is_told_apart).filter_map(ScalarSubject::of);
    let subjects = subjects.filter(|subject| subject.kind() != ScalarKind::Constant);
    let mut targets: Vec<Box<dyn Target>> = subjects.map(target).collect();
    let settings = ScalarSettings { protects: Protects::Contribution(NonZeroU64::MIN), ..plain };
    targets.push(Box::new(ScalarTarget {
        name: ScalarKind::Track.mechanism().name(),
        kind: ScalarKind::Track,
        settings,
    }));
    Ok(targets)
}

impl ScalarTarget {
    fn batch(&self) -> usize {
        self.settings.delay as usize + 1
    }
}

impl Target for ScalarTarget {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Scalar
    }

    fn guarantee(&self) -> String {
        match self.settings.protects {
            Protects::Reading => "DP of any one reading".to_owned(),
            Protects::Contribution(most) => format!("DP of a contribution of {most} to any one reading"),
        }
    }

    fn claimed(&self) -> f64 {
        self.settings.epsilon.as_f64()
    }

    /// One reading at the lower or the upper end of the domain, or with and without a contribution; the others at the
    /// lower end, at both ends in turn, or climbing from one to the other; in the first timestamp, the last of the
    /// first batch, and the first of the next. Two batches and a timestamp.
    fn neighbours(&self) -> Vec<Pair> {
        let (low, high) = (self.settings.grid.low(), self.settings.grid.high());
        #[allow(clippy::cast_precision_loss)] // small
        let changed = match self.settings.protects {
            Protects::Reading => high,
            Protects::Contribution(most) => (low + self.settings.grid.step() * most.get() as f64).min(high),
        };
        let length = 2 * self.batch() + 1;
        #[allow(clippy::cast_precision_loss)] // a few timestamps
        let slope = |timestamp: usize| low + ((high - low) * timestamp as f64 / (length - 1) as f64).floor();
        let low_always = |_: usize| low;
        let alternating = |timestamp: usize| if timestamp.is_multiple_of(2) { low } else { high };
        let backgrounds: [(&str, &dyn Fn(usize) -> f64); 3] =
            [("spike", &low_always), ("alternating", &alternating), ("slope", &slope)];
        let mut places = vec![0, self.batch() - 1, self.batch()];
        places.dedup();
        let pair = |name: &str, background: &dyn Fn(usize) -> f64, place: usize| {
            let with = |reading: f64| {
                Input::Readings((0..length).map(|at| if at == place { reading } else { background(at) }).collect())
            };
            Pair { name: format!("{name} at {place}"), one: with(low), other: with(changed) }
        };
        let of = |(name, background): (&str, &dyn Fn(usize) -> f64)| -> Vec<Pair> {
            places.iter().map(|place| pair(name, background, *place)).collect()
        };
        backgrounds.into_iter().flat_map(of).collect()
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let Input::Readings(readings) = input else { return Err(other_input(self)) };
        let mut mechanism = Scalar::new(self.kind, self.settings).map_err(RunError::unsupported)?;
        // By timestamp: value, variance, and when it was released.
        let mut transcript = vec![0.0; readings.len() * 3];
        let mut note = |releases: Vec<tidegate::release::Release>, now: usize| {
            for release in releases {
                let place = usize::try_from(release.timestamp).ok().map(|timestamp| timestamp * 3);
                if let (Some(number), Some(place)) = (release.statistic.number(), place) {
                    #[allow(clippy::cast_precision_loss)] // a few timestamps
                    transcript[place..place + 3].copy_from_slice(&[number.value, stated(number.variance), now as f64]);
                }
            }
        };
        for (timestamp, reading) in readings.iter().enumerate() {
            let sealed = mechanism.seal(timestamp as u64, *reading).map_err(RunError::failed)?;
            note(mechanism.push(sealed, random).map_err(RunError::failed)?, timestamp);
        }
        note(mechanism.finish(random).map_err(RunError::failed)?, readings.len());
        Ok(transcript)
    }

    fn exact(&self) -> Result<Option<f64>, RunError> {
        exact::scalar::largest_loss(self.kind, &self.settings)
    }
}
