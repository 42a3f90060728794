//! The question: data, trust, budget, and the error to minimise.

use std::num::{NonZeroU64, NonZeroUsize};

use serde::Deserialize;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid, MAX_DOMAIN};

use super::AdviseError;
use crate::experiment::{Subject, TrialSettings};
use crate::metrics::Metric;
use crate::sequence::SymbolDistance;
use crate::stream::{MAX_POPULATION, StreamKind};
use crate::subjects::has_name;
use crate::{central, local, scalar, sequence};

/// The data to release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// Users per value of a domain.
    Counts {
        /// The number of values, at least two.
        domain: u32,
        /// The number of users.
        population: NonZeroU64,
    },
    /// One number at each timestamp.
    Numbers {
        /// Possible numbers.
        grid: Grid,
        /// Unit of protection.
        protects: Protects,
    },
    /// One user's symbol at each timestamp, on a line.
    Symbols {
        /// The number of symbols, at least two.
        domain: u32,
    },
}

impl Data {
    /// Returns the kind of stream.
    pub const fn kind(&self) -> StreamKind {
        match self {
            Self::Counts { .. } => StreamKind::Counts,
            Self::Numbers { .. } => StreamKind::Numbers,
            Self::Symbols { .. } => StreamKind::Symbols,
        }
    }

    /// Returns the number of columns of a timestamp.
    pub(super) const fn columns(&self) -> usize {
        match self {
            Self::Counts { domain, .. } => *domain as usize,
            Self::Numbers { .. } | Self::Symbols { .. } => 1,
        }
    }

    /// Returns the number of values; `None` for numbers.
    pub(super) const fn domain(&self) -> Option<u32> {
        match self {
            Self::Counts { domain, .. } | Self::Symbols { domain } => Some(*domain),
            Self::Numbers { .. } => None,
        }
    }
}

/// Who sees raw values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Nobody but the device.
    Local,
    /// A curator sees those of all users.
    Curator,
}

impl Trust {
    /// Returns the name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Curator => "curator",
        }
    }
}

/// A request for advice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The data to release.
    pub data: Data,
    /// Who may see raw values.
    pub trust: Trust,
    /// The budget: of any window for counts, of each timestamp for numbers and symbols.
    pub epsilon: Epsilon,
    /// The window, for counts.
    pub window: NonZeroU64,
    /// How many timestamps a release may be held back.
    pub delay: u64,
    /// The error to minimise.
    pub metric: Metric,
}

/// Returns the metrics of a kind of stream; the first is the default.
pub const fn metrics_of(kind: StreamKind) -> &'static [Metric] {
    match kind {
        StreamKind::Counts => &[
            Metric::Mse,
            Metric::Mae,
            Metric::Mre,
            Metric::Amre,
            Metric::Ajsd,
            Metric::RangeMse,
            Metric::RangeMae,
            Metric::RangeMre,
        ],
        StreamKind::Numbers => &[Metric::Mse, Metric::Mae, Metric::Mre],
        StreamKind::Symbols => &[Metric::ErrorRate, Metric::Mae, Metric::Mse, Metric::HistogramDistance],
    }
}

impl Request {
    /// Checks that the request is consistent.
    pub fn check(&self) -> Result<(), AdviseError> {
        if let Some(given) = self.data.domain().filter(|domain| *domain < 2) {
            return Err(AdviseError::Domain { given });
        }
        if let Some(given) = self.data.domain().filter(|domain| *domain > MAX_DOMAIN) {
            return Err(AdviseError::WideDomain { given });
        }
        if let Data::Counts { population, .. } = self.data
            && population.get() > MAX_POPULATION
        {
            return Err(AdviseError::Population { given: population.get() });
        }
        if matches!((self.data, self.trust), (Data::Symbols { .. }, Trust::Curator)) {
            return Err(AdviseError::CuratorOfSymbols);
        }
        let kind = self.data.kind();
        if !metrics_of(kind).contains(&self.metric) {
            return Err(AdviseError::Metric { metric: self.metric, kind });
        }
        Ok(())
    }

    /// Returns the applicable mechanisms, in listed order.
    ///
    /// Numbers have the same mechanisms under either trust. Mechanisms with classes of users are excluded, since only
    /// users can choose their classes.
    pub fn candidates(&self) -> Vec<&'static dyn Subject> {
        let of_family = match (self.data.kind(), self.trust) {
            (StreamKind::Counts, Trust::Local) => local::subjects(),
            (StreamKind::Counts, Trust::Curator) => central::subjects(),
            (StreamKind::Numbers, _) => scalar::subjects(),
            (StreamKind::Symbols, _) => sequence::subjects(),
        };
        let applies = |subject: &&dyn Subject| subject.mechanism().is_some_and(|listed| !listed.by_class);
        of_family.into_iter().filter(applies).collect()
    }

    /// Returns the candidates with these names, or all if there are no names.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&'static dyn Subject>, AdviseError> {
        let candidates = self.candidates();
        if names.is_empty() {
            return Ok(candidates);
        }
        let find = |name: &String| candidates.iter().copied().find(|subject| has_name(*subject, name));
        names
            .iter()
            .map(|name| {
                find(name).ok_or_else(|| AdviseError::Mechanism {
                    mechanism: name.clone(),
                    kind: self.data.kind(),
                    trust: self.trust.name(),
                    fitting: candidates.iter().map(|subject| subject.name()).collect(),
                })
            })
            .collect()
    }

    /// Returns the settings for a trial.
    pub fn settings(&self) -> TrialSettings {
        let batch = usize::try_from(self.delay).unwrap_or(usize::MAX).saturating_add(1);
        let protects = if let Data::Numbers { protects, .. } = self.data { protects } else { Protects::Reading };
        let distance = match self.metric {
            Metric::Mae => SymbolDistance::Absolute,
            Metric::Mse => SymbolDistance::Squared,
            _ => SymbolDistance::Hamming,
        };
        TrialSettings {
            delay: self.delay,
            protects,
            batch: NonZeroUsize::new(batch).unwrap_or(NonZeroUsize::MIN),
            distance,
            ..TrialSettings::new(self.epsilon, self.window)
        }
    }
}
