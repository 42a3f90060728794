//! [`PersonalTrack`]: `track`, with a budget and a window for each class of users.
//!
//! Schedules publications as [`track`](super::track) does. At a publication each class spends what its own window
//! allows, and the [stratified] estimator combines all classes into one histogram.

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{ClassHistograms, Neighbours, grouped_histograms};
use tidegate_kernel::{ClassLedgers, Epsilon, Randomness, Sealed};

use crate::central::classes::{Classes, Registry, Requirement};
use crate::central::scheduler::{Budget, Published, Publisher, Scheduler};
use crate::central::stratified::{self, Differences, Offers};
use crate::central::{CentralError, Estimator, MISFIT, PersonalSettings, check_time, check_version, release};
use crate::estimate::Periods;
use crate::release::{Counts, Freshness, Release, Spent};

/// `track` with a budget and a window for each class of users.
///
/// # Guarantee
/// That of [`Personal`](super::Personal). What is spent is spent through each class's ledger; all else follows from
/// what was published.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::classes::{Classes, Registry};
/// use tidegate::central::personal_track::PersonalTrack;
/// use tidegate::central::PersonalSettings;
/// use tidegate::kernel::SystemRandom;
///
/// let window = NonZeroU64::new(40).ok_or("a window has a length")?;
/// let classes = Classes::levels(&[("high", "0.1".parse()?), ("low", "0.9".parse()?)], &[("all", window)])?;
/// let mut mechanism = PersonalTrack::new(classes.clone(), PersonalSettings::new(5))?;
/// let mut registry = Registry::new(classes);
/// let users = [registry.join(0)?, registry.join(1)?, registry.join(1)?];
/// registry.begin(0)?;
/// let values = users.into_iter().zip([4, 1, 1]);
/// let releases = mechanism.push_registered(&registry, 0, values, &mut SystemRandom::new()?)?;
/// assert_eq!(releases[0].timestamp, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct PersonalTrack {
    version: u16,
    settings: PersonalSettings,
    classes: Classes,
    ledgers: ClassLedgers,
    differences: Differences,
    periods: Periods,
    scheduler: Option<Scheduler>,
    last_pushed: Option<u64>,
    /// Whether any randomness since creation or loading was seeded.
    #[serde(skip)]
    seeded: bool,
}

const VERSION: u16 = 10;

impl PersonalTrack {
    /// Name that users write.
    pub const NAME: &str = "personal_track";

    /// Creates the mechanism. The estimator is always [`Estimator::Stratified`].
    ///
    /// # Errors
    /// [`CentralError::Domain`] for a domain of no values or too many, over all classes; [`CentralError::Epsilon`]
    /// where a class's window is so long that a timestamp's share of its budget is less than the smallest amount.
    pub fn new(classes: Classes, settings: PersonalSettings) -> Result<Self, CentralError> {
        let settings = PersonalSettings { estimator: Estimator::Stratified, ..settings };
        classes.check_domain(settings.domain)?;
        for class in classes.all() {
            let Requirement { epsilon, window } = class.requirement;
            let error = CentralError::Epsilon { epsilon, window: window.get() };
            epsilon.divided_by(window.get()).ok_or(error)?;
        }
        let ledgers = classes.ledgers();
        let differences = Differences::unknown(classes.len(), settings.domain);
        Ok(Self {
            version: VERSION,
            settings,
            classes,
            ledgers,
            differences,
            periods: settings.periods,
            scheduler: None,
            last_pushed: None,
            seeded: false,
        })
    }

    /// CentralSettings.
    pub const fn settings(&self) -> &PersonalSettings {
        &self.settings
    }

    /// Classes.
    pub const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Spends by class.
    pub const fn ledgers(&self) -> &ClassLedgers {
        &self.ledgers
    }

    /// Publishes a timestamp later than the last one: one release. Skipped timestamps count as time passed. For
    /// `members`, see [`Personal::push`](super::Personal::push).
    ///
    /// # Errors
    /// As [`Personal::push`](super::Personal::push).
    pub fn push(
        &mut self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, CentralError> {
        let timestamp = histograms.timestamp();
        check_time(timestamp, self.last_pushed)?;
        self.classes.check_data(histograms, members, self.settings.domain)?;
        self.seeded |= !random.provenance().is_private();
        let PersonalSettings { domain, neighbours, .. } = self.settings;
        let (classes, ledgers, differences) = (&self.classes, &mut self.ledgers, &mut self.differences);
        let mut publisher =
            OfTimestamp { classes, ledgers, differences, domain, neighbours, histograms, members, random };
        let (scheduler, budgets) = (&mut self.scheduler, budgets(classes));
        let (spent, counts, why) = Scheduler::advance(scheduler, &budgets, self.periods, &mut publisher)?;
        let counts = counts.unwrap_or_else(|| self.nothing(members));
        let freshness = if spent.is_empty() { Freshness::Approximated } else { Freshness::Fresh };
        self.last_pushed = Some(timestamp);
        let release = release(timestamp, counts, freshness, Spent::by_class(spent)).because(why);
        Ok(vec![Release { seeded: self.seeded, ..release }])
    }

    /// Publishes the open timestamp of a registry, from pairs of user and value.
    ///
    /// # Errors
    /// As [`Personal::push_registered`](super::Personal::push_registered).
    pub fn push_registered(
        &mut self,
        registry: &Registry,
        timestamp: u64,
        values: impl IntoIterator<Item = (u32, u32)>,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, CentralError> {
        let sealed =
            registry.seal_for(&self.classes, self.ledgers.account(), timestamp, values, self.settings.domain)?;
        self.push(&sealed, registry.members(), random)
    }

    /// Returns nothing: every timestamp is published at once.
    pub const fn finish(&mut self) -> Vec<Release> {
        Vec::new()
    }

    /// Release before anybody is registered: zero counts, with an error as large as the number of members.
    #[allow(clippy::cast_precision_loss)] // a number of users
    fn nothing(&self, members: &[u64]) -> Counts {
        let users: f64 = members.iter().map(|members| *members as f64).sum();
        let domain = self.settings.domain as usize;
        Counts { counts: vec![0.0; domain], variances: vec![users * users; domain] }
    }
}

/// Budgets and windows of the classes.
fn budgets(classes: &Classes) -> Vec<Budget> {
    let budget = |Requirement { epsilon, window }: Requirement| Budget { epsilon, window: window.get() };
    classes.all().iter().map(|class| budget(class.requirement)).collect()
}

/// Publishes at one timestamp.
struct OfTimestamp<'a, R> {
    classes: &'a Classes,
    ledgers: &'a mut ClassLedgers,
    differences: &'a mut Differences,
    domain: u32,
    neighbours: Neighbours,
    histograms: &'a Sealed<ClassHistograms>,
    members: &'a [u64],
    random: &'a mut R,
}

impl<R> OfTimestamp<'_, R> {
    /// Offers of the classes.
    fn offers<'a>(&'a self, budgets: &'a [Option<Epsilon>]) -> Offers<'a> {
        Offers { budgets, members: self.members, domain: self.domain, neighbours: self.neighbours }
    }
}

impl<R: Randomness> Publisher for OfTimestamp<'_, R> {
    /// Publishes a histogram of every class that can spend.
    fn publish(&mut self, budgets: &[Option<Epsilon>]) -> Result<Option<Published>, CentralError> {
        let timestamp = self.timestamp();
        let numbers: Vec<u32> = self.classes.numbers().collect();
        let mut groups = stratified::group(&self.offers(budgets), self.differences);
        let of_group = |group: &stratified::Group| -> Vec<(u32, Epsilon)> {
            group.classes.iter().zip(&group.amounts).map(|(class, amount)| (numbers[*class], *amount)).collect()
        };
        let amounts: Vec<Vec<(u32, Epsilon)>> = groups.iter().map(of_group).filter(|group| !group.is_empty()).collect();
        let spent = amounts.concat();
        if spent.is_empty() {
            return Ok(None);
        }
        let mut permits = self.ledgers.spend_all(timestamp, &spent)?.into_iter();
        let permits: Vec<Vec<_>> = amounts.iter().map(|group| permits.by_ref().take(group.len()).collect()).collect();
        let noisy = grouped_histograms(permits, self.histograms, self.neighbours, self.random)?;
        let Self { domain, neighbours, members, .. } = *self;
        let offers = Offers { budgets, members, domain, neighbours };
        let estimates = stratified::estimate(&mut groups, noisy.value(), &offers, self.differences);
        let variance = stratified::expected_error(&groups);
        let mut counts = vec![0.0; self.domain as usize];
        for estimate in &estimates {
            counts.iter_mut().zip(estimate).for_each(|(sum, count)| *sum += count);
        }
        let took_part = numbers.iter().map(|number| spent.iter().any(|(class, _)| class == number)).collect();
        Ok(Some(Published { spent, took_part, counts, variance }))
    }

    fn variance(&self, budgets: &[Option<Epsilon>]) -> f64 {
        stratified::expected_error(&stratified::group(&self.offers(budgets), self.differences))
    }

    fn timestamp(&self) -> u64 {
        self.histograms.timestamp()
    }
}

/// Saved form, validated when loaded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    settings: PersonalSettings,
    classes: Classes,
    ledgers: ClassLedgers,
    differences: Differences,
    periods: Periods,
    scheduler: Option<Scheduler>,
    last_pushed: Option<u64>,
}

impl TryFrom<Saved> for PersonalTrack {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, settings, classes, ledgers, differences, periods, scheduler, last_pushed } = saved;
        check_version(version, VERSION)?;
        let settings = PersonalSettings { periods, ..settings };
        let (domain, budgets) = (settings.domain as usize, budgets(&classes));
        let fits = classes.are_of(&ledgers)
            && differences.fits(classes.len())
            && scheduler.as_ref().is_none_or(|scheduler| scheduler.fits(domain, &budgets, periods, last_pushed));
        if Self::new(classes.clone(), settings).is_err() || !fits {
            return Err(MISFIT.to_owned());
        }
        Ok(Self { version, settings, classes, ledgers, differences, periods, scheduler, last_pushed, seeded: false })
    }
}
