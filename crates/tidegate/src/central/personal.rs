//! [`Personal`]: the mechanisms in which each class of users has a budget and a window of its own.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{
    ClassHistograms, Neighbours, grouped_histograms, sampled_distance, sampled_histogram, weighted_distance,
};
use tidegate_kernel::{ClassLedgers, Epsilon, Randomness, Sealed, UNITS_PER_EPSILON};

use crate::central::budget_selection::{Selection, sampling_error, select};
use crate::central::classes::{Class, Classes, Registry, Requirement};
use crate::central::stratified::{self, Differences, Offers};
use crate::central::{CentralError, MISFIT, check_time, check_version, drifted, pba, pbd, release, rounded};
use crate::policy::{Absorption, Pool};
use crate::release::{Counts, Freshness, Release, Spent};

/// Which mechanism, of those in which each class of users has a guarantee of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonalKind {
    /// Personalised budget distribution.
    Pbd,
    /// Personalised budget absorption.
    Pba,
}

impl PersonalKind {
    /// All mechanisms.
    pub const ALL: [Self; 2] = [Self::Pbd, Self::Pba];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pbd => "pbd",
            Self::Pba => "pba",
        }
    }
}

impl fmt::Display for PersonalKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// How classes that spend different amounts make one histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// As in the paper: everyone who can spend the threshold counts, others by a coin. Biased.
    Sampling,
    /// Groups of classes in which everyone weighs what the class spends, shrunk towards what they have in common: see
    /// [`stratified`].
    #[default]
    Stratified,
}

/// What a personalised mechanism is set to, besides its classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonalSettings {
    /// The number of values.
    pub domain: u32,
    /// Which two streams must be hard to tell apart.
    pub neighbours: Neighbours,
    /// How one histogram is made of all classes.
    #[serde(default)]
    pub estimator: Estimator,
}

impl PersonalSettings {
    /// The given; whether somebody takes part at a timestamp is protected too, and nobody is sampled.
    pub const fn new(domain: u32) -> Self {
        Self { domain, neighbours: Neighbours::AddRemove, estimator: Estimator::Stratified }
    }
}

/// A central mechanism in which each class of users has a budget and a window of its own: `pbd` or `pba`.
///
/// # Guarantee
/// For each user of a class `(w, epsilon)`: two streams that differ only in what this user contributes within `w`
/// consecutive timestamps, as [`PersonalSettings::neighbours`] says, make any sequence of releases equally likely up to
/// a factor of e^epsilon. Which class a user is in is public. A user counts at most once at a timestamp, and in one
/// class; that is the caller's word, which a [`Registry`] keeps.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::classes::{Classes, Registry};
/// use tidegate::central::{Personal, PersonalKind, PersonalSettings};
/// use tidegate::kernel::SystemRandom;
///
/// let window = |length| NonZeroU64::new(length).ok_or("a window has a length");
/// let privacy = [("high", "0.1".parse()?), ("low", "0.9".parse()?)];
/// let classes = Classes::levels(&privacy, &[("small", window(40)?), ("large", window(120)?)])?;
/// let mut mechanism = Personal::new(PersonalKind::Pba, classes.clone(), PersonalSettings::new(5))?;
/// let mut registry = Registry::new(classes);
/// let users = [registry.join(0)?, registry.join(3)?, registry.join(3)?];
/// registry.begin(0)?;
/// let values = users.into_iter().zip([4, 1, 1]);
/// let releases = mechanism.push_registered(&registry, 0, values, &mut SystemRandom::new()?)?;
/// assert_eq!(releases[0].timestamp, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Personal {
    version: u16,
    kind: PersonalKind,
    settings: PersonalSettings,
    classes: Classes,
    ledgers: ClassLedgers,
    accounts: Vec<Account>,
    differences: Differences,
    last: Option<Published>,
    last_pushed: Option<u64>,
    /// Whether any randomness came from a seed since the mechanism was made or loaded.
    #[serde(skip)]
    seeded: bool,
}

const VERSION: u16 = 1;

/// What a class has spent on publishing, and where its absorption stands.
#[derive(Debug, Serialize, Deserialize)]
struct Account {
    pool: Pool,
    /// Nothing for distribution.
    absorption: Option<Absorption>,
}

/// The last publication.
#[derive(Debug, Serialize, Deserialize)]
struct Published {
    counts: Counts,
    to_compare: ToCompare,
}

/// What later counts are compared with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToCompare {
    /// The counts of a sample, of which this share of all members was kept.
    Sample { kept: f64 },
    /// The estimated counts of each class.
    Classes(Vec<Vec<i64>>),
}

impl Personal {
    /// A mechanism that has published nothing yet.
    ///
    /// # Errors
    /// [`CentralError::Domain`] for a domain of no values or too many, over all classes; [`CentralError::Epsilon`]
    /// where a class's window is so long that a timestamp's share of its budget is less than the smallest amount.
    pub fn new(kind: PersonalKind, classes: Classes, settings: PersonalSettings) -> Result<Self, CentralError> {
        classes.check_domain(settings.domain)?;
        let account = |Class { requirement, .. }: &Class| {
            let Requirement { epsilon, window } = *requirement;
            let share = measuring_share(*requirement)?;
            let pool = Pool::new(epsilon.units() - share.units() * window.get(), window.get());
            let absorption = match kind {
                PersonalKind::Pbd => None,
                PersonalKind::Pba => Some(Absorption::with_one_share_first(share.units(), window.get())),
            };
            Ok(Account { pool, absorption })
        };
        let accounts = classes.all().iter().map(account).collect::<Result<_, CentralError>>()?;
        let ledgers = classes.ledgers();
        let differences = Differences::unknown(classes.len(), settings.domain);
        Ok(Self {
            version: VERSION,
            kind,
            settings,
            classes,
            ledgers,
            accounts,
            differences,
            last: None,
            last_pushed: None,
            seeded: false,
        })
    }

    /// What it is set to.
    pub const fn settings(&self) -> &PersonalSettings {
        &self.settings
    }

    /// Which mechanism it is.
    pub const fn kind(&self) -> PersonalKind {
        self.kind
    }

    /// The classes.
    pub const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// What has been spent, by class.
    pub const fn ledgers(&self) -> &ClassLedgers {
        &self.ledgers
    }

    /// Publishes a timestamp, which must lie after the last one: one release. Timestamps may be left out; they count as
    /// time passed.
    ///
    /// `members` says how many users are registered in each class at this timestamp. It is public, so it must not be
    /// counted from who is present: a number that depends on the data would tell about it, through how much is spent
    /// and how classes are weighed. A public number that is wrong costs accuracy only. With a registry,
    /// [`push_registered`](Self::push_registered) gives the right one.
    ///
    /// # Errors
    /// [`CentralError::Time`] for a timestamp that is not after the last one, [`CentralError::Cells`],
    /// [`CentralError::Classes`] and [`CentralError::Length`] for data over another domain or of other classes.
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
        let shares = self.measuring_shares(members)?;
        let measured = self.measure(histograms, members, &shares, random)?;
        let offers = self.offers(timestamp, &shares);
        let release = match self.settings.estimator {
            Estimator::Sampling => self.publish_sample(histograms, members, &offers, &measured, random)?,
            Estimator::Stratified => self.publish_strata(histograms, members, &offers, &measured, random)?,
        };
        self.last_pushed = Some(timestamp);
        Ok(vec![Release { seeded: self.seeded, ..release }])
    }

    /// Publishes the timestamp that a registry has begun, from pairs of user and value: seals the values of those who
    /// count, and passes on how many are registered. The way to use the two together.
    ///
    /// # Errors
    /// [`CentralError::OtherClasses`] where the registry's classes are not the mechanism's, [`CentralError::Registry`]
    /// where it cannot [seal](Registry::seal) the values, and those of [`push`](Self::push).
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

    /// What is still held back: nothing, since every timestamp is published at once.
    pub const fn finish(&mut self) -> Vec<Release> {
        Vec::new()
    }

    /// What each class spends on measuring at each timestamp. Where users are sampled nobody spends more than the
    /// threshold, which leaves the rest for publishing.
    fn measuring_shares(&self, members: &[u64]) -> Result<Vec<Epsilon>, CentralError> {
        let shares = self.classes.all().iter().map(|class| measuring_share(class.requirement));
        let shares: Vec<Epsilon> = shares.collect::<Result<_, _>>()?;
        if self.settings.estimator == Estimator::Stratified {
            return Ok(shares);
        }
        let budgets: Vec<Option<Epsilon>> = shares.iter().copied().map(Some).collect();
        let threshold = select(&budgets, members, self.settings.domain, self.settings.neighbours);
        let most = threshold.map_or(Epsilon::MAX, |selection| selection.threshold);
        Ok(shares.into_iter().map(|share| share.min(most)).collect())
    }

    /// The smaller of an amount and what the class's ledger has left; `None` where that is nothing.
    fn affordable(&self, class: u32, timestamp: u64, units: u64) -> Option<Epsilon> {
        let left = self.ledgers.remaining(class, timestamp)?;
        Epsilon::from_units(units.min(left.units())).ok()
    }

    /// Measures how far the stream has moved from the last publication.
    fn measure(
        &mut self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        shares: &[Epsilon],
        random: &mut impl Randomness,
    ) -> Result<Measured, CentralError> {
        let timestamp = histograms.timestamp();
        let Some(last) = &self.last else { return Ok(Measured::nothing()) };
        let present = self.classes.numbers().zip(shares).zip(members).map(|((class, share), members)| {
            if *members == 0 { None } else { self.affordable(class, timestamp, share.units()) }
        });
        let mut amounts: Vec<Option<Epsilon>> = present.collect();
        let Some(most) = amounts.iter().flatten().copied().max() else { return Ok(Measured::nothing()) };
        let PersonalSettings { domain, neighbours, .. } = self.settings;
        let (distance, spent) = match &last.to_compare {
            ToCompare::Sample { kept } => {
                let now = sampling_error(&amounts, members, most, domain, neighbours);
                let keeps = share_kept(&now, members);
                // The last sample may have kept another share of the members; as far as that goes, the two are made
                // comparable.
                let reference: Vec<f64> = last.counts.counts.iter().map(|count| count * keeps / kept).collect();
                let spent = taking_part(&amounts, &now);
                let permits = self.ledgers.spend_all(timestamp, &spent)?;
                let reference = rounded(&reference);
                let noisy = sampled_distance(permits, histograms, &reference, most, neighbours, random)?;
                // In the counts of the last release, whose own error is then weighed as it is.
                (in_counts(noisy.into_value()) * kept / keeps, spent)
            }
            ToCompare::Classes(classes) => {
                let references: Vec<(u32, &[i64])> = (0..).zip(classes.iter().map(Vec::as_slice)).collect();
                // Others spend less than they could where they would tell of their own counts rather than of
                // everyone's.
                amounts = Offers { budgets: &amounts, members, domain, neighbours }.for_distance(&self.differences);
                let spent = all_of(&amounts);
                let permits = self.ledgers.spend_all(timestamp, &spent)?;
                let noisy = weighted_distance(permits, histograms, &references, neighbours, random)?;
                (in_counts(noisy.into_value()) / mean_weight(&amounts, members), spent)
            }
        };
        Ok(Measured { distance: Some(distance / f64::from(domain)), spent })
    }

    /// What each class offers to spend on publishing; `None` for nothing.
    fn offers(&mut self, timestamp: u64, shares: &[Epsilon]) -> Vec<Option<Epsilon>> {
        let mut offers = Vec::with_capacity(shares.len());
        let classes = self.classes.all().iter().map(|class| class.requirement);
        for ((account, share), Requirement { epsilon, window }) in self.accounts.iter_mut().zip(shares).zip(classes) {
            let pool = epsilon.units().saturating_sub(share.units().saturating_mul(window.get()));
            account.pool.set_total(pool);
            let left = account.pool.remaining(timestamp);
            offers.push(match &mut account.absorption {
                None => pbd::proposal(left),
                Some(absorption) => {
                    absorption.set_share(pool / window.get());
                    pba::proposal(absorption, timestamp, left)
                }
            });
        }
        let numbers = self.classes.numbers();
        numbers.zip(offers).map(|(class, units)| self.affordable(class, timestamp, units)).collect()
    }

    /// The release of a timestamp at which nothing is published, if that is how it is.
    fn repeat(&self, timestamp: u64, error: Option<f64>, measured: &Measured) -> Option<Release> {
        let last = self.last.as_ref()?;
        // As in the paper, the mean absolute distance against the root of the expected squared error.
        let worth_it = error.zip(measured.distance).is_some_and(|(error, distance)| distance > error.sqrt());
        if worth_it {
            return None;
        }
        let freshness = if error.is_some() { Freshness::Approximated } else { Freshness::Nullified };
        let counts = drifted(&last.counts, measured.distance.unwrap_or(0.0));
        Some(release(timestamp, counts, freshness, Spent::by_class(measured.spent.iter().copied())))
    }

    fn publish_sample(
        &mut self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        offers: &[Option<Epsilon>],
        measured: &Measured,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histograms.timestamp();
        let PersonalSettings { domain, neighbours, .. } = self.settings;
        let selection = select(offers, members, domain, neighbours);
        if let Some(release) = self.repeat(timestamp, selection.as_ref().map(|selection| selection.error), measured) {
            return Ok(release);
        }
        let Some(selection) = selection else { return Ok(self.nothing(timestamp, members)) };
        let threshold = selection.threshold;
        let cut = offers.iter().zip(members).map(|(offer, members)| {
            // A class without members has nothing to spend on.
            offer.filter(|_| *members > 0).map(|offer| offer.min(threshold))
        });
        let cut: Vec<Option<Epsilon>> = cut.collect();
        let amounts = taking_part(&cut, &selection);
        let permits = self.ledgers.spend_all(timestamp, &amounts)?;
        let noisy = sampled_histogram(permits, histograms, threshold, neighbours, random)?;
        let counts = super::counts_of(noisy.value(), selection.error);
        let to_compare = ToCompare::Sample { kept: share_kept(&selection, members) };
        Ok(self.published(timestamp, counts, to_compare, &amounts, measured))
    }

    fn publish_strata(
        &mut self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        offers: &[Option<Epsilon>],
        measured: &Measured,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histograms.timestamp();
        let PersonalSettings { domain, neighbours, .. } = self.settings;
        let offers = Offers { budgets: offers, members, domain, neighbours };
        let mut groups = stratified::group(&offers, &self.differences);
        let error = Some(stratified::expected_error(&groups)).filter(|error| error.is_finite());
        if let Some(release) = self.repeat(timestamp, error, measured) {
            return Ok(release);
        }
        if error.is_none() {
            return Ok(self.nothing(timestamp, members));
        }
        let numbers: Vec<u32> = self.classes.numbers().collect();
        let of_group = |group: &stratified::Group| -> Vec<(u32, Epsilon)> {
            group.classes.iter().zip(&group.amounts).map(|(class, amount)| (numbers[*class], *amount)).collect()
        };
        let amounts: Vec<Vec<(u32, Epsilon)>> = groups.iter().map(of_group).filter(|group| !group.is_empty()).collect();
        let all = amounts.concat();
        let mut permits = self.ledgers.spend_all(timestamp, &all)?.into_iter();
        let permits: Vec<Vec<_>> = amounts.iter().map(|group| permits.by_ref().take(group.len()).collect()).collect();
        let noisy = grouped_histograms(permits, histograms, neighbours, random)?;
        let estimates = stratified::estimate(&mut groups, noisy.value(), &offers, &mut self.differences);
        let error = stratified::expected_error(&groups);

        let domain = domain as usize;
        let mut sum = vec![0.0; domain];
        let mut classes = vec![vec![0; domain]; self.classes.len()];
        for (group, estimate) in groups.iter().zip(&estimates) {
            sum.iter_mut().zip(estimate).for_each(|(sum, count)| *sum += count);
            for class in &group.classes {
                #[allow(clippy::cast_precision_loss)]
                let part = members[*class] as f64 / group.members;
                classes[*class] = rounded(&estimate.iter().map(|count| count * part).collect::<Vec<f64>>());
            }
        }
        let counts = Counts { counts: sum, variances: vec![error; domain] };
        Ok(self.published(timestamp, counts, ToCompare::Classes(classes), &all, measured))
    }

    /// Takes note of a publication.
    fn published(
        &mut self,
        timestamp: u64,
        counts: Counts,
        to_compare: ToCompare,
        amounts: &[(u32, Epsilon)],
        measured: &Measured,
    ) -> Release {
        for (class, amount) in amounts {
            let account = &mut self.accounts[*class as usize];
            account.pool.note_spend(timestamp, amount.units());
            if let Some(absorption) = &mut account.absorption {
                absorption.note_spend(timestamp, amount.units());
            }
        }
        let spent = Spent::by_class(measured.spent.iter().chain(amounts).copied());
        self.last = Some(Published { counts: counts.clone(), to_compare });
        release(timestamp, counts, Freshness::Fresh, spent)
    }

    /// The release before the first publication, where nobody is registered or nothing can be spent: no counts, and an
    /// error as large as there are members.
    #[allow(clippy::cast_precision_loss)]
    fn nothing(&self, timestamp: u64, members: &[u64]) -> Release {
        let (domain, users) =
            (self.settings.domain as usize, members.iter().map(|members| *members as f64).sum::<f64>());
        let counts = Counts { counts: vec![0.0; domain], variances: vec![users * users; domain] };
        release(timestamp, counts, Freshness::Nullified, Spent::Nothing)
    }
}

/// What a class may spend on measuring at each timestamp: half of its budget, evenly over its window.
fn measuring_share(requirement: Requirement) -> Result<Epsilon, CentralError> {
    let Requirement { epsilon, window } = requirement;
    let error = CentralError::Epsilon { epsilon, window: window.get() };
    epsilon.divided_by(window.get().saturating_mul(2)).ok_or(error)
}

/// How far the stream has moved, and what each class has spent to know.
struct Measured {
    /// The mean absolute distance of a count from the last release.
    distance: Option<f64>,
    spent: Vec<(u32, Epsilon)>,
}

impl Measured {
    const fn nothing() -> Self {
        Self { distance: None, spent: Vec::new() }
    }
}

#[allow(clippy::cast_precision_loss)]
const fn in_counts(distance: i64) -> f64 {
    distance as f64
}

/// Each class with what it spends.
pub(super) fn all_of(amounts: &[Option<Epsilon>]) -> Vec<(u32, Epsilon)> {
    (0..).zip(amounts).filter_map(|(class, amount)| amount.map(|amount| (class, amount))).collect()
}

/// Each class of which somebody would be kept, with what it spends.
fn taking_part(amounts: &[Option<Epsilon>], selection: &Selection) -> Vec<(u32, Epsilon)> {
    let somebody = |(class, _): &(u32, Epsilon)| selection.kept[*class as usize] > 0.0;
    all_of(amounts).into_iter().filter(somebody).collect()
}

/// The share of all members that are kept.
#[allow(clippy::cast_precision_loss)]
fn share_kept(selection: &Selection, members: &[u64]) -> f64 {
    let all: f64 = members.iter().map(|members| *members as f64).sum();
    let kept: f64 = selection.kept.iter().zip(members).map(|(p, members)| p * *members as f64).sum();
    if kept > 0.0 { kept / all } else { 1.0 }
}

/// The mean over all members of what they spend, in billionths.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mean_weight(amounts: &[Option<Epsilon>], members: &[u64]) -> f64 {
    let all: f64 = members.iter().map(|members| *members as f64).sum();
    let spent =
        |(amount, members): (&Option<Epsilon>, &u64)| amount.map_or(0.0, |amount| amount.as_f64() * *members as f64);
    let spent: f64 = amounts.iter().zip(members).map(spent).sum();
    spent / all * UNITS_PER_EPSILON as f64
}

/// The saved form, which is believed only if its version is known and its parts fit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    kind: PersonalKind,
    settings: PersonalSettings,
    classes: Classes,
    ledgers: ClassLedgers,
    accounts: Vec<Account>,
    differences: Differences,
    last: Option<Published>,
    last_pushed: Option<u64>,
}

impl TryFrom<Saved> for Personal {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, kind, settings, classes, ledgers, accounts, differences, last, last_pushed } = saved;
        check_version(version, VERSION)?;
        let domain = settings.domain;
        let comparable = |published: &Published| match (&published.to_compare, settings.estimator) {
            (ToCompare::Sample { kept }, Estimator::Sampling) => *kept > 0.0 && *kept <= 1.0,
            (ToCompare::Classes(counts), Estimator::Stratified) => {
                counts.len() == classes.len() && counts.iter().all(|counts| counts.len() == domain as usize)
            }
            _ => false,
        };
        let last_fits = last.as_ref().is_none_or(|last| last.counts.fits(domain) && comparable(last));
        let absorbing = |account: &Account| account.absorption.is_some() == (kind == PersonalKind::Pba);
        let accounts_fit = accounts.len() == classes.len() && accounts.iter().all(absorbing);
        let fits = classes.are_of(&ledgers) && accounts_fit && last_fits && differences.fits(classes.len());
        if Self::new(kind, classes.clone(), settings).is_err() || !fits {
            return Err(MISFIT.to_owned());
        }
        let seeded = false;
        Ok(Self { version, kind, settings, classes, ledgers, accounts, differences, last, last_pushed, seeded })
    }
}
