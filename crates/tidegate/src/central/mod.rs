//! Central streams: a trusted curator sees the values, and publishes how many users hold each. w-event privacy on
//! infinite streams.
//!
//! | mechanism | whose guarantee | how the budget is spent |
//! | --- | --- | --- |
//! | [`uniform`] | one for all | evenly over the window |
//! | [`sample`] | one for all | all of it at one timestamp of each window |
//! | [`bd`] | one for all | half of what is left, where the stream has changed enough |
//! | [`ba`] | one for all | saved up where the stream has not changed, spent where it has |
//! | [`track`] | one for all | watches at every timestamp, exact where that is worth it, with an estimate from all |
//! | [`pbd`] | each class its own | as `bd` |
//! | [`pba`] | each class its own | as `ba` |
//! | [`personal_track`] | each class its own | as `track` |
//!
//! [`Central`] is the face of the first five, [`Personal`] that of `pbd` and `pba`,
//! [`PersonalTrack`](personal_track::PersonalTrack) that of the last. They are
//! handed the data of a timestamp [sealed](tidegate_kernel::Sealed) and return releases of [`Counts`]: a curator
//! counts users, and under [`Neighbours::AddRemove`] how many there are is itself a secret.
//! [`Counts::histogram`] makes frequencies of them, and so do [queries](crate::query).
//!
//! [`classes`] has what comes before: levels that an operator declares, and users who choose one, change it, come and
//! go. [`membership`] is the same for a store that keeps a record of each user.
//!
//! **Who guards the guarantee?** The kernel's [`Ledger`]. The mechanisms only propose; what is spent is the smaller of
//! the proposal and what the ledger has left. The state can be saved between any two timestamps. Save it *before* a
//! release becomes visible: a curator who forgets what was published spends it again.

mod adaptive;
pub mod ba;
pub mod bd;
pub mod budget_selection;
pub mod classes;
pub mod membership;
pub mod pba;
pub mod pbd;
mod personal;
pub mod personal_track;
pub mod sample;
mod scheduler;
pub mod stratified;
pub mod track;
pub mod uniform;

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{Neighbours, PrimitiveError};
use tidegate_kernel::{Epsilon, Ledger, MAX_DOMAIN, Randomness, Refusal, Sealed, Window};

use crate::estimate::Periods;
use crate::mechanisms::{Mechanism, Output, Preset, mechanisms};
use crate::release::{Counts, Freshness, Release, Spent};
use adaptive::Adaptive;
pub use personal::{Estimator, Personal, PersonalKind, PersonalSettings};
pub(crate) use scheduler::watch_share;

mechanisms! {
    /// A central mechanism.
    CentralChoice: Central, "central", all as ALL;

    /// The same share at each timestamp.
    Uniform = "uniform" {
        summary: "the budget evenly over the window",
        keys: ONE, rounds: 0, by_class: false, output: Output::Counts,
    }
    /// Sampling: one timestamp a window.
    Sample = "sample" {
        summary: "the whole budget at one timestamp of each window",
        keys: ONE, rounds: 0, by_class: false, output: Output::Counts,
    }
    /// Budget distribution.
    Bd = "bd" {
        summary: "half of the budget that is left, where the stream changes",
        keys: ONE, rounds: 0, by_class: false, output: Output::Counts,
    }
    /// Budget absorption.
    Ba = "ba" {
        summary: "budget saved up while the stream stands still",
        keys: ONE, rounds: 0, by_class: false, output: Output::Counts,
    }
    /// Histograms as often as they pay, with an estimate from all of them.
    Track = "track" {
        summary: "a histogram at every timestamp, exact ones as often as is worth it, and an estimate from all",
        keys: &["epsilon", "window", "periods"], rounds: 0, by_class: false, output: Output::Counts,
    }
    /// Personalised budget distribution.
    Pbd = "pbd" {
        summary: "as bd, each class of users with its own budget and window",
        keys: &["classes", "estimator"], rounds: 0, by_class: true, output: Output::Counts,
    }
    /// Personalised budget absorption.
    Pba = "pba" {
        summary: "as ba, each class of users with its own budget and window",
        keys: &["classes", "estimator"], rounds: 0, by_class: true, output: Output::Counts,
    }
    /// As `track`, with a guarantee for each class.
    PersonalTrack = "personal_track" {
        summary: "as central.track, each class of users with its own budget and window",
        keys: &["classes", "periods"], rounds: 0, by_class: true, output: Output::Counts,
    }
}

/// The keys of mechanisms with one guarantee for all.
const ONE: &[&str] = &["epsilon", "window"];

/// Mechanisms with an estimator of their own name.
pub(crate) const VARIANTS: &[Mechanism] = &[
    CentralChoice::Pbd.mechanism().variant(
        ("pbd_sampling", "central.pbd_sampling"),
        "pbd, careful users sampled as in its paper",
        SAMPLING,
    ),
    CentralChoice::Pbd.mechanism().variant(
        ("pbd_stratified", "central.pbd_stratified"),
        "pbd, each class with its own noise",
        STRATIFIED,
    ),
    CentralChoice::Pba.mechanism().variant(
        ("pba_sampling", "central.pba_sampling"),
        "pba, careful users sampled as in its paper",
        SAMPLING,
    ),
    CentralChoice::Pba.mechanism().variant(
        ("pba_stratified", "central.pba_stratified"),
        "pba, each class with its own noise",
        STRATIFIED,
    ),
];

const SAMPLING: &[(&str, Preset)] = &[("estimator", Preset::Text("sampling"))];
const STRATIFIED: &[(&str, Preset)] = &[("estimator", Preset::Text("stratified"))];

/// A central mechanism with one guarantee for all users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CentralKind {
    /// The same share at each timestamp.
    Uniform,
    /// Sampling: one timestamp a window.
    Sample,
    /// Budget distribution.
    Bd,
    /// Budget absorption.
    Ba,
    /// Histograms as often as they pay, with an estimate from all of them.
    Track,
}

impl CentralKind {
    /// All mechanisms.
    pub const ALL: [Self; 5] = [Self::Uniform, Self::Sample, Self::Bd, Self::Ba, Self::Track];

    /// The entry in the list of mechanisms.
    pub const fn mechanism(self) -> &'static Mechanism {
        match self {
            Self::Uniform => CentralChoice::Uniform.mechanism(),
            Self::Sample => CentralChoice::Sample.mechanism(),
            Self::Bd => CentralChoice::Bd.mechanism(),
            Self::Ba => CentralChoice::Ba.mechanism(),
            Self::Track => CentralChoice::Track.mechanism(),
        }
    }

    /// The name within the family.
    pub const fn name(self) -> &'static str {
        self.mechanism().short_name
    }
}

impl fmt::Display for CentralKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Settings of a central mechanism with one guarantee for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentralSettings {
    /// The budget of any user in any window.
    pub epsilon: Epsilon,
    /// The length of the window.
    pub window: NonZeroU64,
    /// The number of values.
    pub domain: u32,
    /// Which two streams must be hard to tell apart.
    pub neighbours: Neighbours,
    /// Periods of seasons, for `track`, which saves them itself.
    #[serde(skip)]
    pub periods: Periods,
}

impl CentralSettings {
    /// The given, and whether somebody takes part at a timestamp is protected too.
    pub const fn new(epsilon: Epsilon, window: NonZeroU64, domain: u32) -> Self {
        Self { epsilon, window, domain, neighbours: Neighbours::AddRemove, periods: Periods::USUAL }
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.epsilon, Window::Timestamps(self.window))
    }

    /// The same share of a window for each of its timestamps, `1 / (parts · window)` of epsilon, rounded down.
    fn share(&self, parts: u64) -> Result<Epsilon, CentralError> {
        let error = CentralError::Epsilon { epsilon: self.epsilon, window: self.window.get() };
        self.epsilon.divided_by(self.window.get().saturating_mul(parts)).ok_or(error)
    }
}

/// Why a mechanism published nothing. Its state is as before, but for [`CentralError::Account`] and
/// [`CentralError::Primitive`], after which what was spent stays spent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum CentralError {
    /// A domain of no values or too many.
    #[error("a domain of {given} values is outside 1..={MAX_DOMAIN}")]
    Domain { given: u32 },
    /// A window leaves less of the epsilon for one timestamp than can be spent, or more than can be.
    #[error("epsilon {epsilon} over a window of {window} leaves a share that cannot be spent")]
    Epsilon { epsilon: Epsilon, window: u64 },
    /// A timestamp that is not after the last one.
    #[error("timestamp {given} is not after {last}, the last one published")]
    Time { given: u64, last: u64 },
    /// Data over another domain.
    #[error("histograms of {given} cells were given, but the domain has {expected} values")]
    Cells { given: usize, expected: u32 },
    /// Data of other classes than those declared.
    #[error("histograms of {given} classes were given, not of the {expected} that are declared, 0..{expected}")]
    Classes { given: usize, expected: usize },
    /// A registry of other classes than the mechanism's.
    #[error("the registry's classes are not those that the mechanism was made for")]
    OtherClasses,
    /// The registry could not seal the values. Depends on them: not to be shown.
    #[error(transparent)]
    Registry(#[from] classes::ClassError),
    /// Another number of member counts, or of answers, than of classes.
    #[error("{given} {what} were given for {expected} classes")]
    Length { what: &'static str, given: usize, expected: usize },
    /// Answers for a timestamp at which nothing was asked, or an answer over another domain.
    #[error("{given} does not answer what was asked: {expected}")]
    Answer { given: String, expected: String },
    /// The ledger refused, which no sequence of calls can bring about.
    #[error("the ledger refused: {0}")]
    Account(#[from] Refusal),
    /// The kernel published nothing.
    #[error(transparent)]
    Primitive(#[from] PrimitiveError),
}

/// A central mechanism with one guarantee for all users: one of the four of Kellaris et al., or `track`.
///
/// # Guarantee
/// w-event epsilon-differential privacy: two streams that differ only in what one user contributes within `window`
/// consecutive timestamps, as [`CentralSettings::neighbours`] says, make any sequence of releases equally likely up to
/// a factor of e^epsilon. A user counts at most once at a timestamp; that is the caller's word.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::{Central, CentralKind, CentralSettings};
/// use tidegate::kernel::SystemRandom;
/// use tidegate::kernel::primitives::seal_histogram;
///
/// let window = NonZeroU64::new(20).ok_or("a window has a length")?;
/// let mut mechanism = Central::new(CentralKind::Ba, CentralSettings::new("1".parse()?, window, 3))?;
/// // The values of five users at timestamp 0.
/// let values = seal_histogram(mechanism.ledger().account(), 0, [2, 0, 2, 2, 1], 3)?;
/// let releases = mechanism.push(&values, &mut SystemRandom::new()?)?;
/// assert_eq!(releases[0].timestamp, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Central {
    version: u16,
    settings: CentralSettings,
    last_pushed: Option<u64>,
    machine: Machine,
    /// Whether any randomness came from a seed since the mechanism was made or loaded.
    #[serde(skip)]
    seeded: bool,
}

const VERSION: u16 = 1;

// There is one of it; its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Machine {
    Uniform(uniform::Uniform),
    Sample(sample::Sample),
    Bd(Adaptive),
    Ba(Adaptive),
    Track(Box<track::Track>),
}

/// Calls the same method on whichever mechanism it is.
macro_rules! on_machine {
    ($machine:expr, $mechanism:ident => $call:expr) => {
        match $machine {
            Machine::Uniform($mechanism) => $call,
            Machine::Sample($mechanism) => $call,
            Machine::Bd($mechanism) | Machine::Ba($mechanism) => $call,
            Machine::Track($mechanism) => $call,
        }
    };
}

impl Central {
    /// A mechanism that has published nothing yet.
    pub fn new(kind: CentralKind, settings: CentralSettings) -> Result<Self, CentralError> {
        check_domain(settings.domain)?;
        let machine = match kind {
            CentralKind::Uniform => Machine::Uniform(uniform::Uniform::new(&settings)?),
            CentralKind::Sample => Machine::Sample(sample::Sample::new(&settings)),
            CentralKind::Bd => Machine::Bd(bd::new(&settings)?),
            CentralKind::Ba => Machine::Ba(ba::new(&settings)?),
            CentralKind::Track => Machine::Track(Box::new(track::Track::new(&settings)?)),
        };
        Ok(Self { version: VERSION, settings, last_pushed: None, machine, seeded: false })
    }

    /// Its settings.
    pub const fn settings(&self) -> &CentralSettings {
        &self.settings
    }

    /// Which mechanism it is.
    pub const fn kind(&self) -> CentralKind {
        match self.machine {
            Machine::Uniform(_) => CentralKind::Uniform,
            Machine::Sample(_) => CentralKind::Sample,
            Machine::Bd(_) => CentralKind::Bd,
            Machine::Ba(_) => CentralKind::Ba,
            Machine::Track(_) => CentralKind::Track,
        }
    }

    /// The ledger.
    pub const fn ledger(&self) -> &Ledger {
        on_machine!(&self.machine, mechanism => mechanism.ledger())
    }

    /// Publishes a timestamp, which must lie after the last one: one release. Timestamps may be left out; they count as
    /// time passed.
    ///
    /// # Errors
    /// [`CentralError::Time`] for a timestamp that is not after the last one, [`CentralError::Cells`] for data over
    /// another domain.
    pub fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, CentralError> {
        let timestamp = histogram.timestamp();
        check_time(timestamp, self.last_pushed)?;
        check_cells(histogram.cells(), self.settings.domain)?;
        let settings = &self.settings;
        self.seeded |= !random.provenance().is_private();
        let mut release = on_machine!(&mut self.machine, mechanism => mechanism.push(histogram, settings, random))?;
        release.seeded = self.seeded;
        self.last_pushed = Some(timestamp);
        Ok(vec![release])
    }

    /// Releases nothing: every timestamp is released at once.
    pub const fn finish(&mut self) -> Vec<Release> {
        Vec::new()
    }
}

fn check_domain(domain: u32) -> Result<(), CentralError> {
    if (1..=MAX_DOMAIN).contains(&domain) { Ok(()) } else { Err(CentralError::Domain { given: domain }) }
}

pub(crate) fn check_time(given: u64, last: Option<u64>) -> Result<(), CentralError> {
    match last {
        Some(last) if given <= last => Err(CentralError::Time { given, last }),
        _ => Ok(()),
    }
}

fn check_cells(given: usize, domain: u32) -> Result<(), CentralError> {
    if given == domain as usize { Ok(()) } else { Err(CentralError::Cells { given, expected: domain }) }
}

/// The release of a timestamp.
pub(crate) fn release(timestamp: u64, counts: Counts, freshness: Freshness, spent: Spent) -> Release {
    Release { timestamp, statistic: counts.into(), freshness, spent, reports: 0, seeded: false, why: None }
}

/// Noisy counts, all of the same expected squared error.
#[allow(clippy::cast_precision_loss)]
fn counts_of(noisy: &[i64], variance: f64) -> Counts {
    Counts { counts: noisy.iter().map(|count| *count as f64).collect(), variances: vec![variance; noisy.len()] }
}

/// Whole counts near the given ones, to compare others with.
#[allow(clippy::cast_possible_truncation)] // beyond the range, its ends
fn rounded(counts: &[f64]) -> Vec<i64> {
    counts.iter().map(|count| count.round() as i64).collect()
}

/// The counts again, of which the mean absolute error seems to be `distance` by now. What that exceeds the mean
/// absolute error of Laplace noise of the stated variance by is the mean absolute drift. Drifts of different values
/// differ: one in three is taken to be zero, the others to have a Laplace distribution, so that `E x² = 3 (E |x|)²`. A
/// count above the average is taken to move more, with a variance in proportion to it, as sums of independent users do.
///
/// Without a distance the drift, and so the error, is not known.
#[allow(clippy::cast_precision_loss)]
fn drifted(counts: &Counts, distance: Option<f64>) -> Counts {
    let Some(distance) = distance else { return counts.unstated() };
    let values = counts.variances.len() as f64;
    let own = counts.variances.iter().sum::<f64>() / values;
    let drift = (distance - (own / 2.0).sqrt()).max(0.0);
    let average = (counts.counts.iter().map(|count| count.max(0.0)).sum::<f64>() / values).max(1.0);
    let variance = |(count, own): (&f64, &f64)| own + 3.0 * drift * drift * (count / average).max(1.0);
    let variances = counts.counts.iter().zip(&counts.variances).map(variance).collect();
    Counts { counts: counts.counts.clone(), variances }
}

impl Counts {
    /// Counts of which nothing is known.
    fn unknown(domain: u32) -> Self {
        Self { counts: vec![0.0; domain as usize], variances: vec![f64::MAX; domain as usize] }
    }

    /// Whether they are over a domain of so many values, and finite.
    pub(crate) fn fits(&self, domain: u32) -> bool {
        let numbers = || self.counts.iter().chain(&self.variances);
        self.counts.len() == domain as usize
            && self.variances.len() == domain as usize
            && numbers().all(|n| n.is_finite())
    }
}

/// The saved form, which is believed only if its version is known and its parts fit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    settings: CentralSettings,
    last_pushed: Option<u64>,
    machine: Machine,
}

impl TryFrom<Saved> for Central {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, mut settings, last_pushed, machine } = saved;
        check_version(version, VERSION)?;
        if let Machine::Track(track) = &machine {
            settings.periods = track.periods();
        }
        let ledger = on_machine!(&machine, mechanism => mechanism.ledger());
        let kept_for = ledger.budget() == settings.epsilon && ledger.window() == Window::Timestamps(settings.window);
        let last = on_machine!(&machine, mechanism => mechanism.last());
        let fits = last.is_none_or(|last| last.fits(settings.domain)) && last.is_some() == last_pushed.is_some();
        let track_fits = match &machine {
            Machine::Track(track) => track.fits(&settings, last_pushed),
            _ => true,
        };
        if check_domain(settings.domain).is_err() || !kept_for || !fits || !track_fits {
            return Err(MISFIT.to_owned());
        }
        Ok(Self { version, settings, last_pushed, machine, seeded: false })
    }
}

pub(crate) const MISFIT: &str = "the mechanism's state does not fit its settings";

pub(crate) fn check_version(given: u16, known: u16) -> Result<(), String> {
    if given == known {
        return Ok(());
    }
    Err(format!("mechanism state version {given} is not known; this program reads version {known}"))
}
