//! [`Personal`]: mechanisms with a budget and a window for each class of users.

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
use crate::estimate::Periods;
use crate::policy::{Absorption, Pool};
use crate::release::why::{Measure, Paid, Purpose, Reason, Why};
use crate::release::{Counts, Freshness, Release, Spent};

/// Mechanisms with a guarantee for each class of users.
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

    /// Name that users write.
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
    /// As in the paper: users who can spend the threshold count, others are sampled. Biased.
    Sampling,
    /// Groups of classes in which members are weighed by their spend, shrunk towards their common composition: see
    /// [`stratified`].
    #[default]
    Stratified,
}

/// CentralSettings of a personalised mechanism, besides its classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonalSettings {
    /// Number of values.
    pub domain: u32,
    /// Neighbouring relation.
    pub neighbours: Neighbours,
    /// Estimator.
    #[serde(default)]
    pub estimator: Estimator,
    /// Periods of seasons, for `personal_track`, which saves them itself.
    #[serde(skip)]
    pub periods: Periods,
}

impl PersonalSettings {
    /// CentralSettings that also protect presence, and sample nobody.
    pub const fn new(domain: u32) -> Self {
        Self { domain, neighbours: Neighbours::AddRemove, estimator: Estimator::Stratified, periods: Periods::USUAL }
    }
}

/// Central mechanism with a budget and a window for each class of users: `pbd` or `pba`.
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
    /// Whether any randomness since creation or loading was seeded.
    #[serde(skip)]
    seeded: bool,
}

const VERSION: u16 = 1;

/// Publication spends of a class, and its absorption.
#[derive(Debug, Serialize, Deserialize)]
struct Account {
    pool: Pool,
    /// None for distribution.
    absorption: Option<Absorption>,
}

/// Last publication.
#[derive(Debug, Serialize, Deserialize)]
struct Published {
    counts: Counts,
    to_compare: ToCompare,
}

/// Reference for later comparisons.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToCompare {
    /// Counts of a sample, which kept this share of all members.
    Sample { kept: f64 },
    /// Estimated counts of each class.
    Classes(Vec<Vec<i64>>),
}

impl Personal {
    /// Creates the mechanism.
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

    /// CentralSettings.
    pub const fn settings(&self) -> &PersonalSettings {
        &self.settings
    }

    /// Kind.
    pub const fn kind(&self) -> PersonalKind {
        self.kind
    }

    /// Classes.
    pub const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Spends by class.
    pub const fn ledgers(&self) -> &ClassLedgers {
        &self.ledgers
    }

    /// Publishes a timestamp later than the last one: one release. Skipped timestamps count as time passed.
    ///
    /// `members` is the number of registered users in each class. It is public, so it must not depend on who is
    /// present: it determines spends and weights. A wrong public number costs accuracy only. With a registry, use
    /// [`push_registered`](Self::push_registered).
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

    /// Publishes the open timestamp of a registry, from pairs of user and value.
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

    /// Returns nothing: every timestamp is published at once.
    pub const fn finish(&mut self) -> Vec<Release> {
        Vec::new()
    }

    /// Spend of each class on measuring. With sampling it is limited to the threshold, which leaves more for
    /// publishing.
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

    /// Limits an amount to the remaining budget of a class; `None` if that is zero.
    fn affordable(&self, class: u32, timestamp: u64, units: u64) -> Option<Epsilon> {
        let left = self.ledgers.remaining(class, timestamp)?;
        Epsilon::from_units(units.min(left.units())).ok()
    }

    /// Measures the distance of the stream from the last publication.
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
                // The last sample may have kept another share of the members, so it is rescaled.
                let reference: Vec<f64> = last.counts.counts.iter().map(|count| count * keeps / kept).collect();
                let spent = taking_part(&amounts, &now);
                let permits = self.ledgers.spend_all(timestamp, &spent)?;
                let reference = rounded(&reference);
                let noisy = sampled_distance(permits, histograms, &reference, most, neighbours, random)?;
                // In counts of the last release, which includes its own error.
                (in_counts(noisy.into_value()) * kept / keeps, spent)
            }
            ToCompare::Classes(classes) => {
                let references: Vec<(u32, &[i64])> = (0..).zip(classes.iter().map(Vec::as_slice)).collect();
                // Some spend less than they could, where they would tell of their own counts rather than of all.
                amounts = Offers { budgets: &amounts, members, domain, neighbours }.for_distance(&self.differences);
                let spent = all_of(&amounts);
                let permits = self.ledgers.spend_all(timestamp, &spent)?;
                let noisy = weighted_distance(permits, histograms, &references, neighbours, random)?;
                (in_counts(noisy.into_value()) / mean_weight(&amounts, members), spent)
            }
        };
        Ok(Measured { distance: Some(distance / f64::from(domain)), spent })
    }

    /// Offer of each class for publishing; `None` for nothing.
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

    /// Repeats the last release, unless publishing is worth it.
    fn repeat(&self, timestamp: u64, error: Option<f64>, measured: &Measured) -> Option<Release> {
        let last = self.last.as_ref()?;
        // As in the paper: mean absolute distance against root of the expected squared error.
        let worth_it = error.zip(measured.distance).is_some_and(|(error, distance)| distance > error.sqrt());
        if worth_it {
            return None;
        }
        let freshness = if error.is_some() { Freshness::Approximated } else { Freshness::Nullified };
        let counts = drifted(&last.counts, measured.distance);
        let reason = match (error, measured.distance) {
            (None, _) => Reason::Absorbed,
            (_, None) => Reason::NoBudget,
            _ => Reason::Unchanged,
        };
        let repeated = release(timestamp, counts, freshness, Spent::by_class(measured.spent.iter().copied()));
        Some(repeated.because(measured.why(reason, error, &[])))
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
            // A class without members spends nothing.
            offer.filter(|_| *members > 0).map(|offer| offer.min(threshold))
        });
        let cut: Vec<Option<Epsilon>> = cut.collect();
        let amounts = taking_part(&cut, &selection);
        let permits = self.ledgers.spend_all(timestamp, &amounts)?;
        let noisy = sampled_histogram(permits, histograms, threshold, neighbours, random)?;
        let counts = super::counts_of(noisy.value(), selection.error);
        let to_compare = ToCompare::Sample { kept: share_kept(&selection, members) };
        Ok(self.published(timestamp, counts, to_compare, &amounts, measured, selection.error))
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
        let (proposed, error) = (error.unwrap_or(f64::INFINITY), stratified::expected_error(&groups));

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
        Ok(self.published(timestamp, counts, ToCompare::Classes(classes), &all, measured, proposed))
    }

    /// Records a publication.
    fn published(
        &mut self,
        timestamp: u64,
        counts: Counts,
        to_compare: ToCompare,
        amounts: &[(u32, Epsilon)],
        measured: &Measured,
        error: f64,
    ) -> Release {
        let reason = if self.last.is_some() { Reason::Changed } else { Reason::First };
        for (class, amount) in amounts {
            let account = &mut self.accounts[*class as usize];
            account.pool.note_spend(timestamp, amount.units());
            if let Some(absorption) = &mut account.absorption {
                absorption.note_spend(timestamp, amount.units());
            }
        }
        let spent = Spent::by_class(measured.spent.iter().chain(amounts).copied());
        self.last = Some(Published { counts: counts.clone(), to_compare });
        release(timestamp, counts, Freshness::Fresh, spent).because(measured.why(reason, Some(error), amounts))
    }

    /// Release before anybody can spend: zero counts, with an error as large as the number of members.
    #[allow(clippy::cast_precision_loss)]
    fn nothing(&self, timestamp: u64, members: &[u64]) -> Release {
        let (domain, users) =
            (self.settings.domain as usize, members.iter().map(|members| *members as f64).sum::<f64>());
        let counts = Counts { counts: vec![0.0; domain], variances: vec![users * users; domain] };
        release(timestamp, counts, Freshness::Nullified, Spent::Nothing).because(Why::new(Reason::NoBudget))
    }
}

/// Spend of a class on measuring: half of its budget, evenly over its window.
fn measuring_share(requirement: Requirement) -> Result<Epsilon, CentralError> {
    let Requirement { epsilon, window } = requirement;
    let error = CentralError::Epsilon { epsilon, window: window.get() };
    epsilon.divided_by(window.get().saturating_mul(2)).ok_or(error)
}

/// Distance of the stream, and the spends on measuring it.
struct Measured {
    /// Mean absolute distance of a count from the last release.
    distance: Option<f64>,
    spent: Vec<(u32, Epsilon)>,
}

impl Measured {
    const fn nothing() -> Self {
        Self { distance: None, spent: Vec::new() }
    }

    /// Explains a decision. `error` is the expected squared error of publishing.
    fn why(&self, reason: Reason, error: Option<f64>, published: &[(u32, Epsilon)]) -> Why {
        let mut asked = Paid::by_class(Purpose::Measure, &self.spent);
        asked.extend(Paid::by_class(Purpose::Publish, published));
        Why::new(reason).asked(asked).compared(Measure::MeanDistance, self.distance, error.map(f64::sqrt))
    }
}

#[allow(clippy::cast_precision_loss)]
const fn in_counts(distance: i64) -> f64 {
    distance as f64
}

/// Classes with their spends.
pub(super) fn all_of(amounts: &[Option<Epsilon>]) -> Vec<(u32, Epsilon)> {
    (0..).zip(amounts).filter_map(|(class, amount)| amount.map(|amount| (class, amount))).collect()
}

/// Classes of which somebody is kept, with their spends.
fn taking_part(amounts: &[Option<Epsilon>], selection: &Selection) -> Vec<(u32, Epsilon)> {
    let somebody = |(class, _): &(u32, Epsilon)| selection.kept[*class as usize] > 0.0;
    all_of(amounts).into_iter().filter(somebody).collect()
}

/// Share of all members that are kept.
#[allow(clippy::cast_precision_loss)]
fn share_kept(selection: &Selection, members: &[u64]) -> f64 {
    let all: f64 = members.iter().map(|members| *members as f64).sum();
    let kept: f64 = selection.kept.iter().zip(members).map(|(p, members)| p * *members as f64).sum();
    if kept > 0.0 { kept / all } else { 1.0 }
}

/// Mean spend of all members, in billionths.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mean_weight(amounts: &[Option<Epsilon>], members: &[u64]) -> f64 {
    let all: f64 = members.iter().map(|members| *members as f64).sum();
    let spent =
        |(amount, members): (&Option<Epsilon>, &u64)| amount.map_or(0.0, |amount| amount.as_f64() * *members as f64);
    let spent: f64 = amounts.iter().zip(members).map(spent).sum();
    spent / all * UNITS_PER_EPSILON as f64
}

/// Saved form, validated when loaded.
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
