//! Scalar streams: a trusted curator has one number at each timestamp, and may release it with a delay. Event-level
//! privacy.
//!
//! [`Scalar::push`] takes a sealed reading and returns what can be released: nothing while a mechanism holds back, and
//! everything no later than the delay allows. [`Scalar::finish`] releases the rest.
//!
//! | mechanism | what it does | holds back |
//! | --- | --- | --- |
//! | `constant` | publishes the middle of the domain, and spends nothing: what every other has to beat | no |
//! | `laplace` | adds noise to each reading | no |
//! | `clamped` | the same, moved into the domain: what every other has to beat as well | no |
//! | `pegasus` | averages noisy readings with the earlier ones of their group | no |
//! | `pegasus_delay` | averages them with the later ones as well | up to the delay |
//! | `contin` | groups consecutive readings of a batch, and adds noise to each group's sum | a batch |
//! | `discontin` | groups readings of a batch wherever they stand | a batch |
//! | `comporder` | corrects noisy readings by noisy comparisons with those before them | no |
//! | `bucorder` | publishes a randomised bucket of the domain for each reading | no; a batch on sums |
//! | `track` | asks adaptive questions, and estimates from all answers | up to the delay |
//!
//! A batch is `delay + 1` timestamps. Readings may be [cut off](Truncation) at a private bound in front of any of them.
//!
//! **Who guards the guarantee?** The kernel. A reading is sealed while it waits, also when the mechanism is saved; each
//! timestamp's whole epsilon is spent when its reading arrives, by a [`Ledger`] for single timestamps, and its permit
//! is divided among whatever looks at the reading.

mod batch;
mod bucorder;
mod comporder;
mod constant;
mod contin;
mod discontin;
mod laplace;
mod output;
mod pegasus;
mod pegasus_delay;
mod points;
mod saved;
mod settings;
mod smoothing;
mod track;
mod truncation;
mod variants;

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use tidegate_kernel::noise::bernoulli;
use tidegate_kernel::primitives::{PrimitiveError, bucket_range};
use tidegate_kernel::{Epsilon, GridError, Ledger, Permit, Randomness, Refusal, Sealed, StreamId, UnlockError, Window};

use crate::mechanisms::{Output as Released, mechanisms};
use crate::release::Release;
use batch::Batched;
use bucorder::Labels;
use comporder::Comporder;
use laplace::Laplace;
use output::Output;
use pegasus::Pegasus;
use pegasus_delay::PegasusDelay;
use points::Points;
pub use saved::SavedScalar;
use settings::Shares;
pub use settings::{Publication, ScalarSettings, Smoother, Truncation};
pub(crate) use track::Look;
use track::Track;
use truncation::{Batches, choose_bound};
pub(crate) use variants::VARIANTS;

mechanisms! {
    /// A scalar mechanism.
    ScalarKind: Scalar, "scalar", all as ALL;

    /// The middle of the domain.
    Constant = "constant" {
        summary: "the middle of the domain, always; spends nothing",
        keys: NONE, rounds: 0, by_class: false, output: Released::Number,
    }
    /// Noise on each reading.
    Laplace = "laplace" {
        summary: "noise on each number",
        keys: &["truncation"], rounds: 0, by_class: false, output: Released::Number,
    }
    /// Noise on each reading, moved into the domain.
    Clamped = "clamped" {
        summary: "baseline: noise on each number, moved into the domain",
        keys: &["truncation"], rounds: 0, by_class: false, output: Released::Number,
    }
    /// Groups of consecutive readings, averaged as they come.
    Pegasus = "pegasus" {
        summary: "noisy numbers, averaged with the earlier ones of their group",
        keys: GROUPS, rounds: 0, by_class: false, output: Released::Number,
    }
    /// Groups of consecutive readings, averaged as long as the delay allows.
    PegasusDelay = "pegasus_delay" {
        summary: "noisy numbers, averaged with all of their group",
        keys: GROUPS, rounds: 0, by_class: false, output: Released::Number,
    }
    /// Groups of consecutive readings within a batch.
    Contin = "contin" {
        summary: "groups of consecutive numbers, noise on each group's sum",
        keys: BATCHES, rounds: 0, by_class: false, output: Released::Number,
    }
    /// Groups of readings anywhere in a batch.
    Discontin = "discontin" {
        summary: "groups anywhere in a batch, noise on each group's sum",
        keys: BATCHES, rounds: 0, by_class: false, output: Released::Number,
    }
    /// Noisy comparisons.
    Comporder = "comporder" {
        summary: "noisy numbers, corrected by noisy comparisons",
        keys: &["grouping", "truncation"], rounds: 0, by_class: false, output: Released::Number,
    }
    /// Randomised buckets.
    Bucorder = "bucorder" {
        summary: "a randomised part of the domain, shrunk",
        keys: BUCKETS, rounds: 0, by_class: false, output: Released::Number,
    }
    /// Adaptive questions, and an estimate from all answers.
    Track = "track" {
        summary: "adaptive questions, and an estimate from all answers",
        keys: &["periods"], rounds: 0, by_class: false, output: Released::Number,
    }
}

const NONE: &[&str] = &[];
const BUCKETS: &[&str] = &["grouping", "publication", "buckets", "truncation"];
const GROUPS: &[&str] = &["grouping", "threshold", "smoother", "truncation"];
const BATCHES: &[&str] = &["grouping", "threshold", "publication", "smoother", "truncation"];

/// Why a mechanism could not be set up, go on, or be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum ScalarError {
    /// The share for grouping is nothing, or leaves nothing for publication.
    #[error("a share of {given} for grouping does not leave something for both grouping and publication of {epsilon}")]
    Grouping { given: Epsilon, epsilon: Epsilon },
    /// A publication that the mechanism does not have.
    #[error("{kind} does not publish {given}; see the table of publications")]
    Publication { kind: ScalarKind, given: &'static str },
    /// A threshold that is no distance.
    #[error("a threshold of {given} was given; it is a finite number that is not negative")]
    Threshold { given: f64 },
    /// A sample that is none, or leaves nothing.
    #[error("a sample of {given} per cent was given; it lies between 1 and 99")]
    Percent { given: u8 },
    /// Truncation where it cannot lower the noise.
    #[error("truncation lowers the noise only where the reading is protected; one contributor needs none of it")]
    TruncatedContribution,
    /// A timestamp that is not after the last one.
    #[error("timestamp {given} is not after {last}, the last one pushed")]
    Time { given: u64, last: u64 },
    /// Noise cannot be scaled, or buckets cannot be made, as the settings ask.
    #[error(transparent)]
    Primitive(#[from] PrimitiveError),
    /// The ledger refused, which no sequence of calls can bring about.
    #[error("the account of what was spent refused: {0}")]
    Account(#[from] Refusal),
    /// The saved readings cannot be decrypted.
    #[error(transparent)]
    Locked(#[from] UnlockError),
    /// The saved state has another version.
    #[error("the saved mechanism has version {found}; this program reads version {known}")]
    Version { found: u16, known: u16 },
    /// The saved state does not fit its settings.
    #[error("the saved mechanism does not fit its settings: {what}")]
    Misfit { what: &'static str },
}

/// A scalar mechanism.
///
/// # Guarantee
/// Event-level epsilon-differential privacy: two streams that differ in the reading of one timestamp, as
/// [`protects`](ScalarSettings::protects) says, make any sequence of releases equally likely up to a factor of
/// e^epsilon. Which timestamps have a reading is public.
///
/// ```
/// use tidegate::scalar::{Scalar, ScalarKind, ScalarSettings};
/// use tidegate::kernel::{Grid, SystemRandom};
///
/// let settings = ScalarSettings::new("1".parse()?, Grid::new(0.0, 612.0, 1.0)?, 2);
/// let mut mechanism = Scalar::new(ScalarKind::Contin, settings)?;
/// let random = &mut SystemRandom::new()?;
/// assert!(mechanism.push(mechanism.seal(0, 240.0)?, random)?.is_empty()); // held back
/// assert!(mechanism.push(mechanism.seal(1, 238.0)?, random)?.is_empty());
/// let released = mechanism.push(mechanism.seal(2, 241.0)?, random)?; // no longer
/// assert_eq!(released.iter().map(|release| release.timestamp).collect::<Vec<_>>(), [0, 1, 2]);
/// for release in released {
///     println!("{}: {:?}", release.timestamp, release.statistic.number());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is not serialised as it is, because it holds raw data: see [`Scalar::save`].
#[derive(Debug)]
pub struct Scalar {
    kind: ScalarKind,
    settings: ScalarSettings,
    shares: Shares,
    output: Output,
    ledger: Ledger,
    last: Option<u64>,
    /// Drawn when the mechanism is first saved.
    stream: OnceLock<StreamId>,
    /// Where readings are cut off, if not at the upper end of the domain.
    bound: Option<i64>,
    /// The batches of a mechanism that holds nothing back, where readings are cut off.
    batches: Option<Batches>,
    machine: Machine,
}

// There is one of it; its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum Machine {
    Constant,
    Laplace(Laplace),
    Pegasus(Pegasus),
    PegasusDelay(PegasusDelay),
    Comporder(Comporder),
    Labels(Labels),
    Batched(Batched),
    Track(Track),
}

/// A reading that arrives at a mechanism that works reading by reading.
struct Arrival<'a> {
    permit: Permit,
    reading: &'a Sealed<i64>,
    /// Whether it was sampled for the choice of a bound, and has less left to be published with.
    sampled: bool,
}

/// Parameters that stay the same from one reading to the next.
#[derive(Clone, Copy)]
struct Frame<'a> {
    settings: &'a ScalarSettings,
    shares: &'a Shares,
    output: &'a Output,
}

/// Splits a permit into the part for grouping and the rest.
#[inline]
fn split(permit: Permit, grouping: Option<Epsilon>) -> Result<(Permit, Permit), ScalarError> {
    let whole = permit.epsilon();
    let grouping = grouping.unwrap_or(whole);
    permit.split(grouping).map_err(|permit| ScalarError::Grouping { given: grouping, epsilon: permit.epsilon() })
}

impl Scalar {
    /// A mechanism at the beginning of a stream.
    ///
    /// # Errors
    /// ScalarSettings that cannot be met: see the variants of [`ScalarError`].
    pub fn new(kind: ScalarKind, settings: ScalarSettings) -> Result<Self, ScalarError> {
        settings.check()?;
        let shares = settings.shares(kind)?;
        let publication = settings.publication_of(kind)?;
        let range = settings.grid.range();
        let (s, range_of) = (&settings, || range.clone());
        let machine = match kind {
            ScalarKind::Constant => Machine::Constant,
            ScalarKind::Laplace | ScalarKind::Clamped => Machine::Laplace(Laplace::new(s, &shares, range_of())?),
            ScalarKind::Pegasus => Machine::Pegasus(Pegasus::new(s, &shares, range_of())?),
            ScalarKind::PegasusDelay => Machine::PegasusDelay(PegasusDelay::new(s, &shares, range_of())?),
            ScalarKind::Comporder => Machine::Comporder(Comporder::new(s, &shares, range_of())?),
            ScalarKind::Bucorder => {
                // A private range may have fewer points than buckets; the domain must not.
                if let Some(buckets) = settings.buckets {
                    bucket_range(&range, buckets, 0)?;
                }
                match publication {
                    Publication::Labels => Machine::Labels(Labels::new(s, &shares, &range)?),
                    _ => Machine::Batched(Batched::new(kind, s, &shares, &range)?),
                }
            }
            ScalarKind::Contin | ScalarKind::Discontin => Machine::Batched(Batched::new(kind, s, &shares, &range)?),
            ScalarKind::Track => Machine::Track(Track::new(s)?),
        };
        let holds_or_ignores = matches!(machine, Machine::Batched(_) | Machine::Constant | Machine::Track(_));
        Ok(Self {
            kind,
            settings,
            shares,
            output: Output::new(&settings, settings.within_domain || kind == ScalarKind::Clamped),
            ledger: Ledger::new(settings.epsilon, Window::EVENT),
            last: None,
            stream: OnceLock::new(),
            bound: None,
            batches: (settings.truncation.is_some() && !holds_or_ignores).then(Batches::default),
            machine,
        })
    }

    /// Whether the variance of a release tells its whole error. Means hide how far their readings are from each other,
    /// and a reading that was cut off, or moved into its bucket or between others, how far it was moved.
    pub fn states_error(&self) -> bool {
        let machine_does = match &self.machine {
            Machine::Track(track) => track.states_error(),
            Machine::Comporder(comporder) => comporder.window.is_none(),
            _ => matches!(self.kind, ScalarKind::Laplace | ScalarKind::Clamped),
        };
        machine_does && self.settings.truncation.is_none()
    }

    /// Which mechanism it is.
    pub const fn kind(&self) -> ScalarKind {
        self.kind
    }

    /// Its settings.
    pub const fn settings(&self) -> &ScalarSettings {
        &self.settings
    }

    /// The ledger, which keeps the spend of the last timestamp.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Where readings are cut off at the moment, in the unit of the stream: the upper end of the domain, unless a lower
    /// bound was chosen.
    pub fn bound(&self) -> f64 {
        self.bound.map_or(self.settings.grid.high(), |bound| self.settings.grid.value_of(bound))
    }

    /// How many values were pushed and not released yet.
    pub fn waiting(&self) -> usize {
        match &self.machine {
            Machine::PegasusDelay(pegasus) => pegasus.waiting.len(),
            Machine::Batched(batched) => batched.held.len(),
            Machine::Track(track) => track.waiting(),
            _ => 0,
        }
    }

    /// Seals the reading of a timestamp, rounded to the grid. Readings that are text are sealed by
    /// [`Grid::seal_text`](tidegate_kernel::Grid::seal_text).
    ///
    /// # Errors
    /// [`GridError::Floats`] for every reading, where floats are too coarse for the grid. [`GridError::Reading`] for a
    /// reading that is NaN, infinite or outside the domain. Skipping its timestamp would tell that it was; where that
    /// can happen, decide on a public stand-in, or use [`Grid::seal_clamped`](tidegate_kernel::Grid::seal_clamped).
    pub fn seal(&self, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        self.settings.grid.seal(self.ledger.account(), timestamp, reading)
    }

    /// Takes in the reading of the next timestamp, and returns what is released. Timestamps may be skipped.
    ///
    /// # Errors
    /// [`ScalarError::Time`] for a timestamp that is not after the last one; nothing changes then.
    pub fn push(&mut self, reading: Sealed<i64>, random: &mut impl Randomness) -> Result<Vec<Release>, ScalarError> {
        let mut releases = Vec::new();
        self.push_into(reading, random, &mut releases)?;
        Ok(releases)
    }

    /// As [`push`](Self::push), with the releases added to a list that can be used again.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_into(
        &mut self,
        reading: Sealed<i64>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let timestamp = reading.timestamp();
        if let Some(last) = self.last
            && timestamp <= last
        {
            return Err(ScalarError::Time { given: timestamp, last });
        }
        if let Machine::Constant = self.machine {
            self.last = Some(timestamp);
            releases.push(constant::release(timestamp, &self.settings));
            return Ok(());
        }
        self.output.note(random);
        let permit = self.ledger.spend(timestamp, self.settings.epsilon)?;
        self.last = Some(timestamp);
        let delay = u64::from(self.settings.delay);
        if let Machine::Batched(batched) = &mut self.machine {
            if batched.is_over_before(timestamp, delay) {
                self.release_batch(random, releases)?;
            }
            if let Machine::Batched(batched) = &mut self.machine {
                batched.held.push(permit, reading)?;
                if batched.is_complete_at(timestamp, delay) {
                    self.release_batch(random, releases)?;
                }
            }
            return Ok(());
        }
        if let Machine::Track(track) = &mut self.machine {
            let frame = Frame { settings: &self.settings, shares: &self.shares, output: &self.output };
            return track.push(permit, reading, frame, random, releases);
        }
        let (permit, for_bound) = self.sample(permit, random, releases)?;
        let arrival = Arrival { permit, reading: &reading, sampled: for_bound.is_some() };
        self.publish(arrival, random, releases)?;
        if let (Some(batches), Some(permit)) = (&mut self.batches, for_bound) {
            batches.sample.push(permit, reading)?;
        }
        Ok(())
    }

    /// Releases what is still held back. The mechanism can go on afterwards.
    ///
    /// # Errors
    /// None that a sequence of calls can bring about.
    pub fn finish(&mut self, random: &mut impl Randomness) -> Result<Vec<Release>, ScalarError> {
        let mut releases = Vec::new();
        self.output.note(random);
        if let Machine::PegasusDelay(pegasus) = &mut self.machine {
            pegasus.close(&self.output, &mut releases);
        }
        if let Machine::Track(track) = &mut self.machine {
            track.finish(&self.output, random, &mut releases)?;
        }
        self.release_batch(random, &mut releases)?;
        Ok(releases)
    }

    /// Publishes a reading by a mechanism that works reading by reading.
    #[inline]
    fn publish(
        &mut self,
        arrival: Arrival<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let frame = Frame { settings: &self.settings, shares: &self.shares, output: &self.output };
        let release = match &mut self.machine {
            Machine::Labels(labels) => labels.push(arrival, frame, random)?,
            Machine::Laplace(laplace) => laplace.push(arrival, frame, random)?,
            Machine::Pegasus(pegasus) => pegasus.push(arrival, frame, random)?,
            Machine::Comporder(comporder) => comporder.push(arrival, frame, random)?,
            Machine::PegasusDelay(pegasus) => return pegasus.push(arrival, frame, random, releases),
            Machine::Constant | Machine::Batched(_) | Machine::Track(_) => return Ok(()),
        };
        releases.push(release);
        Ok(())
    }

    fn release_batch(&mut self, random: &mut impl Randomness, releases: &mut Vec<Release>) -> Result<(), ScalarError> {
        let Machine::Batched(batched) = &mut self.machine else { return Ok(()) };
        let frame = Frame { settings: &self.settings, shares: &self.shares, output: &self.output };
        let bound = batched.release(frame, random, releases)?;
        self.cut_off_at(bound, releases)
    }

    /// Where readings are cut off, decides by a coin whether the reading is sampled, and splits what it pays for that
    /// off its permit. Chooses the bound first, if a batch that was sampled is over.
    fn sample(
        &mut self,
        permit: Permit,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(Permit, Option<Permit>), ScalarError> {
        let (Some(batches), Some(truncation), Some(share)) =
            (&mut self.batches, self.settings.truncation, self.shares.bound)
        else {
            return Ok((permit, None));
        };
        let timestamp = permit.timestamp();
        if batches.is_over(timestamp, &self.settings) {
            let (permits, readings): (Vec<Permit>, Vec<Sealed<i64>>) = batches.sample.drain().unzip();
            batches.due &= readings.is_empty();
            batches.begin(timestamp, truncation);
            let error = match &self.machine {
                Machine::Labels(labels) => labels.relative_error(),
                _ => self.shares.publication.as_f64().recip(),
            };
            let members = permits.into_iter().zip(&readings).collect();
            let bound = choose_bound(members, error, &self.settings, random)?;
            self.cut_off_at(bound, releases)?;
        }
        let Some(batches) = &self.batches else { return Ok((permit, None)) };
        let is_sampled = batches.due && bernoulli(u64::from(truncation.percent), HUNDRED, random);
        if !is_sampled {
            return Ok((permit, None));
        }
        let (for_bound, rest) = split(permit, Some(share))?;
        Ok((rest, Some(for_bound)))
    }

    /// Cuts readings off at a bound from now on, if one was chosen.
    fn cut_off_at(&mut self, bound: Option<i64>, releases: &mut Vec<Release>) -> Result<(), ScalarError> {
        let Some(bound) = bound.filter(|bound| self.bound != Some(*bound)) else { return Ok(()) };
        self.bound = Some(bound);
        if let Machine::PegasusDelay(pegasus) = &mut self.machine {
            pegasus.close(&self.output, releases);
        }
        self.set_range()
    }

    /// Sets the mechanism to the present range. An open group is closed: it was tested for another range.
    fn set_range(&mut self) -> Result<(), ScalarError> {
        let whole = self.settings.grid.range();
        let range: RangeInclusive<i64> = *whole.start()..=self.bound.unwrap_or(*whole.end());
        let (settings, shares) = (&self.settings, &self.shares);
        match &mut self.machine {
            // `track` chooses its ranges itself.
            Machine::Constant | Machine::Track(_) => {}
            Machine::Laplace(laplace) => *laplace = Laplace::new(settings, shares, range)?,
            Machine::Pegasus(pegasus) => *pegasus = Pegasus::new(settings, shares, range)?,
            Machine::PegasusDelay(pegasus) => *pegasus = PegasusDelay::new(settings, shares, range)?,
            Machine::Comporder(comporder) => comporder.set_points(Points::new(settings, shares, range)?),
            Machine::Labels(labels) => *labels = Labels::new(settings, shares, &range)?,
            Machine::Batched(batched) => batched.set_range(settings, shares, &range)?,
        }
        Ok(())
    }
}

const HUNDRED: NonZeroU64 = NonZeroU64::MIN.saturating_add(99);
