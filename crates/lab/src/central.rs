//! Central mechanisms driven through a stream, and the users' classes where each class has a guarantee of its own.
//!
//! A curator publishes counts. What is compared with the truth are those counts as shares of the number of users that
//! there really are, so that [`Metric::Amre`](crate::metrics::Metric::Amre) is exactly the squared error of a count.
//! Who detects events does not know that number, and divides by the sum of the counts: see
//! [`Comparison::roc`](crate::metrics::Comparison::roc).

use std::num::NonZeroU64;
use std::sync::LazyLock;

use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::personal_track::PersonalTrack;
use tidegate::central::{
    Central, CentralChoice, CentralKind, CentralSettings, Estimator, Personal, PersonalKind, PersonalSettings,
};
use tidegate::mechanisms::{Family, Mechanism, Preset};
use tidegate::release::{Histogram, Release, Statistic};
use tidegate::spec::Personalised;
use tidegate_kernel::primitives::ClassHistograms;
use tidegate_kernel::simulation::{multinomial, sample_without_replacement};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom, UNITS_PER_EPSILON};

use crate::experiment::{CountOutcome, OnCounts, RequirementClass, RunError, Setting, Subject, TrialSettings};
use crate::stream::{CountStream, as_float};
use crate::subjects::listed;

/// All central mechanisms.
pub fn subjects() -> Vec<&'static dyn Subject> {
    static ALL: LazyLock<Vec<Box<dyn Subject>>> = LazyLock::new(|| Family::Central.mechanisms().map(subject).collect());
    ALL.iter().map(AsRef::as_ref).collect()
}

/// The subject of an entry of the list.
fn subject(listed: &'static Mechanism) -> Box<dyn Subject> {
    let one = |kind| Box::new(CentralSubject(kind)) as Box<dyn Subject>;
    let estimator = listed.presets.iter().find_map(|(_, preset)| match preset {
        Preset::Text("sampling") => Some(Estimator::Sampling),
        Preset::Text(_) => Some(Estimator::Stratified),
        Preset::Table(..) => None,
    });
    let personal = |kind| Box::new(PersonalSubject { kind, estimator }) as Box<dyn Subject>;
    match listed.variant_of.unwrap_or(listed.short_name).parse() {
        Ok(CentralChoice::Sample) => one(CentralKind::Sample),
        Ok(CentralChoice::Bd) => one(CentralKind::Bd),
        Ok(CentralChoice::Ba) => one(CentralKind::Ba),
        Ok(CentralChoice::Track) => one(CentralKind::Track),
        Ok(CentralChoice::Pbd) => personal(PersonalKind::Pbd),
        Ok(CentralChoice::Pba) => personal(PersonalKind::Pba),
        Ok(CentralChoice::PersonalTrack) => Box::new(PersonalTrackSubject),
        // The list has no other.
        Ok(CentralChoice::Uniform) | Err(_) => one(CentralKind::Uniform),
    }
}

/// Number of budgets (0.2 to 1) and of windows (40 to 200) in the paper on personalised w-event privacy.
const LEVELS: u64 = 5;
const BUDGET_STEP: u64 = UNITS_PER_EPSILON / 5;
const WINDOW_STEP: u64 = 40;

/// Returns [`TrialSettings::classes`], or else the classes of the paper on personalised w-event privacy.
///
/// In the latter, the strictest user requires [`TrialSettings::epsilon`] and [`TrialSettings::window`]. Others choose a
/// larger budget of 0.2, 0.4, 0.6, 0.8 and 1, and a shorter window of 40, 80, 120, 160 and 200. Each pair is a class.
/// The paper does not state the sizes of the classes; here they are equal.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate_lab::central::requirements;
/// use tidegate_lab::experiment::TrialSettings;
///
/// let settings = TrialSettings::new("0.6".parse()?, NonZeroU64::new(120).ok_or("a window has a length")?);
/// let classes = requirements(&settings); // 0.6, 0.8 and 1, each with windows of 120, 80 and 40
/// assert_eq!(classes.len(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn requirements(settings: &TrialSettings) -> Vec<RequirementClass> {
    if !settings.classes.is_empty() {
        return settings.classes.clone();
    }
    let (epsilon, window) = (settings.epsilon, settings.window);
    let levels = || 1..=LEVELS;
    let budgets = levels().filter_map(|level| Epsilon::from_units(level * BUDGET_STEP).ok());
    let budgets: Vec<_> = std::iter::once(epsilon).chain(budgets.filter(|budget| *budget > epsilon)).collect();
    let windows = levels().rev().filter_map(|level| NonZeroU64::new(level * WINDOW_STEP));
    let windows: Vec<_> = std::iter::once(window).chain(windows.filter(|other| *other < window)).collect();
    let of_budget = |epsilon: Epsilon| {
        windows.iter().map(move |window| RequirementClass { epsilon, window: *window, weight: NonZeroU64::MIN })
    };
    budgets.into_iter().flat_map(of_budget).collect()
}

/// Returns the smallest budget and the longest window that any user requires.
///
/// A mechanism with one guarantee for all users must give this one.
pub fn strictest(settings: &TrialSettings) -> Requirement {
    let classes = &settings.classes;
    let epsilon = classes.iter().map(|class| class.epsilon).min().unwrap_or(settings.epsilon);
    let window = classes.iter().map(|class| class.window).max().unwrap_or(settings.window);
    Requirement { epsilon, window }
}

/// Users with their classes.
///
/// As many are registered as the stream has at most; each is in a class drawn by the classes' weights, once and for
/// all. Only how many users hold each value is known of a stream, not who: so at each timestamp those present are any
/// of those registered, and who holds which value has nothing to do with the class.
#[derive(Clone, Debug)]
pub struct Members {
    of_class: Vec<u64>,
}

impl Members {
    /// Draws the classes of all users who are ever there.
    pub fn draw(
        stream: &CountStream,
        classes: &[RequirementClass],
        random: &mut SeededRandom,
    ) -> Result<Self, RunError> {
        let registered = (0..stream.length()).map(|timestamp| stream.population(timestamp)).max().unwrap_or(0);
        let weights: Vec<f64> = classes.iter().map(|class| as_float(class.weight.get())).collect();
        Ok(Self { of_class: multinomial(registered, &weights, random).map_err(RunError::failed)? })
    }

    /// So many in each class.
    pub const fn new(of_class: Vec<u64>) -> Self {
        Self { of_class }
    }

    /// How many users are registered in each class.
    pub fn of_class(&self) -> &[u64] {
        &self.of_class
    }

    /// How many users of each class hold each value, given how many of all do: a histogram for each class, one after
    /// the other.
    ///
    /// The histograms add up to `counts`. Of all ways to deal those values out to the members, each is as likely.
    ///
    /// # Errors
    /// Where there are more values than members.
    pub fn split(&self, counts: &[u64], random: &mut SeededRandom) -> Result<Vec<u64>, RunError> {
        let present = counts.iter().sum();
        let present = sample_without_replacement(present, &self.of_class, random).map_err(RunError::failed)?;
        let mut left = counts.to_vec();
        let mut split = Vec::with_capacity(counts.len() * present.len());
        for of_class in present {
            let drawn = sample_without_replacement(of_class, &left, random).map_err(RunError::failed)?;
            left.iter_mut().zip(&drawn).for_each(|(left, drawn)| *left -= drawn);
            split.extend(drawn);
        }
        Ok(split)
    }
}

/// Drives a mechanism, given as a function of timestamp and counts, through a whole stream.
pub(crate) fn drive(
    stream: &CountStream,
    mut smooth: impl FnMut(Release) -> Release,
    mut push: impl FnMut(u64, &[u64]) -> Result<Vec<Release>, RunError>,
) -> Result<CountOutcome, RunError> {
    let mut outcome = CountOutcome {
        frequencies: Vec::with_capacity(stream.length()),
        of_counts: false,
        variances: Vec::new(),
        trees: Vec::new(),
        reports: 0,
        bytes: 0,
    };
    for (timestamp, counts) in (0..).zip(stream.counts()) {
        let users = counts.iter().sum();
        for release in push(timestamp, counts)?.into_iter().map(&mut smooth) {
            outcome.reports += release.reports;
            outcome.of_counts = matches!(release.statistic, Statistic::Counts(_));
            outcome.push(match release.statistic {
                Statistic::Counts(counts) => counts.histogram(Some(users)),
                other => {
                    let (frequencies, variances) = other.leaves();
                    Histogram { frequencies: frequencies.to_vec(), variances: variances.to_vec() }
                }
            });
        }
    }
    Ok(outcome)
}

/// Drives a mechanism with one guarantee for all through a whole stream.
pub(crate) fn run_central(
    mut mechanism: Central,
    stream: &CountStream,
    smooth: impl FnMut(Release) -> Release,
    random: &mut SeededRandom,
) -> Result<CountOutcome, RunError> {
    drive(stream, smooth, |timestamp, counts| {
        mechanism
            .push(&Sealed::at(mechanism.ledger().account(), timestamp, counts.to_vec()), random)
            .map_err(RunError::failed)
    })
}

/// Drives a mechanism with a guarantee for each class through a whole stream.
pub(crate) fn run_personal(
    mut mechanism: Personalised,
    members: &Members,
    stream: &CountStream,
    smooth: impl FnMut(Release) -> Release,
    random: &mut SeededRandom,
) -> Result<CountOutcome, RunError> {
    let numbers: Vec<u32> = (0..).zip(mechanism.classes().all()).map(|(number, _)| number).collect();
    drive(stream, smooth, |timestamp, counts| {
        let split = members.split(counts, random)?;
        let sealed = ClassHistograms::seal(mechanism.ledgers().account(), timestamp, &numbers, split)
            .map_err(RunError::failed)?;
        match &mut mechanism {
            Personalised::Budgets(mechanism) => mechanism.push(&sealed, members.of_class(), random),
            Personalised::Track(mechanism) => mechanism.push(&sealed, members.of_class(), random),
        }
        .map_err(RunError::failed)
    })
}

pub(crate) fn domain_of(stream: &CountStream) -> u32 {
    u32::try_from(stream.domain()).unwrap_or(u32::MAX)
}

/// A central mechanism with one guarantee for all, which is that of the [strictest] user.
#[derive(Clone, Copy, Debug)]
pub struct CentralSubject(pub CentralKind);

impl CentralSubject {
    const fn listed(&self) -> &'static Mechanism {
        self.0.mechanism()
    }
}

impl Subject for CentralSubject {
    listed!();

    fn uses(&self) -> &'static [Setting] {
        &[Setting::Window, Setting::Classes]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for CentralSubject {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let (smooth, neighbours) = (settings.smoothing(), settings.neighbours);
        let Requirement { epsilon, window } = strictest(settings);
        let settings = CentralSettings { neighbours, ..CentralSettings::new(epsilon, window, domain_of(stream)) };
        let mechanism = Central::new(self.0, settings).map_err(RunError::unsupported)?;
        run_central(mechanism, stream, smooth, random)
    }
}

/// A central mechanism in which each class has a guarantee of its own.
#[derive(Clone, Copy, Debug)]
pub struct PersonalSubject {
    /// Which mechanism.
    pub kind: PersonalKind,
    /// How classes make one histogram; the library's default where none is given.
    pub estimator: Option<Estimator>,
}

impl PersonalSubject {
    fn listed(&self) -> &'static Mechanism {
        let plain = match self.kind {
            PersonalKind::Pbd => CentralChoice::Pbd.mechanism(),
            PersonalKind::Pba => CentralChoice::Pba.mechanism(),
        };
        let preset = self.estimator.map(|estimator| match estimator {
            Estimator::Sampling => Preset::Text("sampling"),
            Estimator::Stratified => Preset::Text("stratified"),
        });
        let is_this = |listed: &&'static Mechanism| {
            listed.variant_of == Some(plain.short_name) && listed.presets.iter().map(|(_, value)| *value).eq(preset)
        };
        Family::Central.mechanisms().find(is_this).unwrap_or(plain)
    }
}

impl Subject for PersonalSubject {
    listed!();

    fn uses(&self) -> &'static [Setting] {
        &[Setting::Window, Setting::Classes]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for PersonalSubject {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let (smooth, neighbours) = (settings.smoothing(), settings.neighbours);
        let (classes, members) = classes_and_members(stream, settings, random)?;
        let defaults = PersonalSettings::new(domain_of(stream));
        let estimator = self.estimator.unwrap_or(defaults.estimator);
        let settings = PersonalSettings { estimator, neighbours, ..defaults };
        let mechanism = Personal::new(self.kind, classes, settings).map_err(RunError::unsupported)?;
        run_personal(Personalised::Budgets(Box::new(mechanism)), &members, stream, smooth, random)
    }
}

/// `track`, in which each class has a guarantee of its own.
#[derive(Clone, Copy, Debug)]
pub struct PersonalTrackSubject;

impl PersonalTrackSubject {
    const fn listed(&self) -> &'static Mechanism {
        CentralChoice::PersonalTrack.mechanism()
    }
}

impl Subject for PersonalTrackSubject {
    listed!();

    fn uses(&self) -> &'static [Setting] {
        &[Setting::Window, Setting::Classes]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for PersonalTrackSubject {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let (smooth, neighbours) = (settings.smoothing(), settings.neighbours);
        let (classes, members) = classes_and_members(stream, settings, random)?;
        let settings = PersonalSettings { neighbours, ..PersonalSettings::new(domain_of(stream)) };
        let mechanism = PersonalTrack::new(classes, settings).map_err(RunError::unsupported)?;
        run_personal(Personalised::Track(Box::new(mechanism)), &members, stream, smooth, random)
    }
}

pub(crate) fn classes_and_members(
    stream: &CountStream,
    settings: &TrialSettings,
    random: &mut SeededRandom,
) -> Result<(Classes, Members), RunError> {
    let required = requirements(settings);
    let declared: Vec<_> =
        required.iter().map(|class| Requirement { epsilon: class.epsilon, window: class.window }).collect();
    let classes = Classes::numbered(&declared).map_err(RunError::unsupported)?;
    let members = Members::draw(stream, &required, random)?;
    Ok((classes, members))
}
