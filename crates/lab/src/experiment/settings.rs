//! The settings of a trial.

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};

use serde::Deserialize;
use tidegate::post_processing::{Refinement, Repair};
use tidegate::release::Release;
use tidegate::scalar::Truncation;
use tidegate::sequence::effort::Effort;
use tidegate_kernel::Epsilon;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::{Neighbours, Protects};

use crate::sequence::SymbolDistance;

/// The settings of a trial. Each family ignores those of the others.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate_lab::experiment::TrialSettings;
///
/// let window = NonZeroU64::new(20).unwrap();
/// let settings = TrialSettings { delay: 10, ..TrialSettings::new("0.5".parse()?, window) };
/// assert_eq!((settings.delay, settings.order), (10, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSettings {
    /// The budget of any window; of sequences, of each symbol.
    pub epsilon: Epsilon,
    /// The window, in timestamps; sequences have none.
    pub window: NonZeroU64,
    /// How many timestamps a release may be held back.
    pub delay: u64,
    /// Local: the frequency oracle; `None` leaves the choice to the mechanism.
    pub oracle: Option<OracleKind>,
    /// Central: the users' requirements; if empty, [`requirements`](crate::central::requirements) derives them from
    /// `epsilon` and `window`.
    pub classes: Vec<RequirementClass>,
    /// Scalar: whether the number is protected, or one contributor to it, in steps of the stream's grid.
    pub protects: Protects,
    /// Scalar: whether to clamp releases to the domain, which is post-processing.
    pub within_domain: bool,
    /// Scalar: largest deviation within a group, in the stream's unit; `None` leaves the choice to the mechanism.
    pub threshold: Option<f64>,
    /// Scalar: number of buckets of `bucorder`; `None` leaves the choice to the mechanism.
    pub buckets: Option<u32>,
    /// Scalar: how truncating mechanisms choose the bound; `None` for the default.
    pub truncation: Option<Truncation>,
    /// Scalar and `mtsp`: whether groups are averaged by their median, rather than as the mechanism does unless told.
    pub median: bool,
    /// Local: whether releases use the reports of the question that decided about them.
    pub reuse: bool,
    /// Local: whether values are taken as the numbers 0, 1, 2, .., of which the mean is released.
    pub mean: bool,
    /// Central: which streams must be hard to tell apart.
    pub neighbours: Neighbours,
    /// All but sequences: whether to smooth releases by a
    /// [`ReleaseFilter`](tidegate::estimate::release_filter::ReleaseFilter).
    pub smooth: bool,
    /// Counts: the repair of releases.
    pub repair: Repair,
    /// Sequence: number of symbols in a batch.
    pub batch: NonZeroUsize,
    /// Sequence: order of the Markov model.
    pub order: u8,
    /// Sequence: distance that mechanisms with a model minimise.
    pub distance: SymbolDistance,
    /// Sequence: effort of the search for the best channel.
    pub effort: Effort,
}

/// Users with the same requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequirementClass {
    /// The budget of any of their windows.
    pub epsilon: Epsilon,
    /// Their window, in timestamps.
    pub window: NonZeroU64,
    /// Size of the class, relative to the other classes.
    pub weight: NonZeroU64,
}

impl TrialSettings {
    /// Default batch.
    pub const DEFAULT_BATCH: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

    /// Uses defaults for everything else; change them by struct update.
    pub const fn new(epsilon: Epsilon, window: NonZeroU64) -> Self {
        Self {
            epsilon,
            window,
            delay: 0,
            oracle: None,
            classes: Vec::new(),
            protects: Protects::Reading,
            within_domain: false,
            threshold: None,
            buckets: None,
            median: false,
            reuse: false,
            mean: false,
            neighbours: Neighbours::AddRemove,
            truncation: None,
            smooth: false,
            repair: Repair::None,
            batch: Self::DEFAULT_BATCH,
            order: 1,
            distance: SymbolDistance::Hamming,
            effort: Effort::Fast,
        }
    }
}

impl TrialSettings {
    /// Returns the smoothing and repair of releases.
    pub(crate) fn smoothing(&self) -> impl FnMut(Release) -> Release + use<> {
        let mut refinement = self.refinement();
        move |release| refinement.push(release)
    }

    /// Returns the post-processing of a mechanism that knows its errors.
    pub(crate) fn refinement(&self) -> Refinement {
        Refinement::new(self.repair, self.smooth)
    }
}

/// A setting that changes only some mechanisms.
///
/// Epsilon is not among them: it changes all but the baselines that spend nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// [`TrialSettings::window`].
    Window,
    /// [`TrialSettings::delay`].
    Delay,
    /// [`TrialSettings::oracle`].
    Oracle,
    /// [`TrialSettings::classes`].
    Classes,
    /// [`TrialSettings::protects`]: how much one contributor can change a number.
    Contribution,
    /// [`TrialSettings::within_domain`].
    WithinDomain,
    /// [`TrialSettings::batch`].
    Batch,
    /// [`TrialSettings::order`].
    Order,
    /// [`TrialSettings::distance`].
    Distance,
    /// [`TrialSettings::effort`].
    Effort,
}

impl Setting {
    /// All of them, in listed order.
    pub const ALL: [Self; 10] = [
        Self::Window,
        Self::Delay,
        Self::Oracle,
        Self::Classes,
        Self::Contribution,
        Self::WithinDomain,
        Self::Batch,
        Self::Order,
        Self::Distance,
        Self::Effort,
    ];

    /// Returns the name in tables and JSON; the command's option has hyphens instead.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Delay => "delay",
            Self::Oracle => "oracle",
            Self::Classes => "classes",
            Self::Contribution => "contribution",
            Self::WithinDomain => "within_domain",
            Self::Batch => "batch",
            Self::Order => "order",
            Self::Distance => "distance",
            Self::Effort => "effort",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
