//! [`Scheduler`]: divides the budget of a window among watching, exact histograms and a reserve.
//!
//! With noise of scale `b = w/epsilon`, publishing every `k` timestamps with `k` shares of the budget is `k` times
//! better than averaging `k` noisy histograms, but nobody looks in between. So the budget has three accounts for good:
//!
//! - *watch*: a histogram at every timestamp, with the same share each. It is never switched off;
//! - *main*: exact histograms every `k` timestamps, with `k` chosen by expected error;
//! - *reserve*: spent where the estimator knows less than `uniform` would.
//!
//! With `k = 1` the three are spent together, which is `uniform`. All decisions depend on published numbers.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::central::CentralError;
use crate::estimate::{Belief, Estimator, ModelErrors, Noise, Pattern, Periods, Prior, whole};
use crate::release::Counts;
use crate::release::why::{Paid, Purpose, Reason, Why};

/// Constants of the scheduler, as shares of the window's budget unless said otherwise. *Chosen* on the generated
/// streams of `make accuracy`.
struct Tuning {
    /// Watching, in twentieths. Chosen: a jump of `20 b` is seen at once.
    watch: u64,
    /// Reserve, in twentieths. Chosen: pays for one exact histogram after a jump.
    reserve: u64,
    /// Main budget of the first histogram, in twentieths. Chosen: streams of few users live on it for a window.
    first: u64,
    /// Timestamps that are published evenly before the first choice of a period. Chosen.
    learn: u64,
    /// The reserve is spent at this variance, relative to that of `uniform`. Chosen.
    buy: f64,
    /// Longest period between exact histograms, in timestamps. Derived: bounds the time to choose one.
    longest: u64,
    /// Greatest distance of a release from the histogram just published, in scales of its noise. Derived: Laplace
    /// noise is farther out with probability `exp(-10)`.
    envelope: f64,
}

const TUNING: Tuning = Tuning { watch: 6, reserve: 2, first: 1, learn: 10, buy: 0.7, longest: 1024, envelope: 10.0 };

/// Least noise variance of a published count. Derived: its products and quotients stay positive and finite; that of an
/// epsilon above 750 is zero as an f64.
const LEAST_VARIANCE: f64 = 1e-100;

/// Parts of a budget.
const TWENTIETHS: u64 = 20;

/// Returns the share of the budget with which every timestamp is watched.
#[allow(clippy::cast_precision_loss)] // twentieths
pub(crate) fn watch_share() -> f64 {
    TUNING.watch as f64 / TWENTIETHS as f64
}

/// A part of a budget that no window overspends. Amounts are in units of epsilon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Purse {
    whole: u64,
    /// Timestamps with a spend, and the amounts.
    spends: VecDeque<(u64, u64)>,
    spent: u64,
}

impl Purse {
    const fn new(whole: u64) -> Self {
        Self { whole, spends: VecDeque::new(), spent: 0 }
    }

    /// Amount left at a timestamp. Forgets what left the window.
    fn left(&mut self, timestamp: u64, window: u64) -> u64 {
        while let Some((at, amount)) = self.spends.front().copied()
            && timestamp.saturating_sub(at) >= window
        {
            self.spends.pop_front();
            self.spent -= amount;
        }
        self.whole - self.spent
    }

    fn spend(&mut self, timestamp: u64, amount: u64) {
        if amount > 0 {
            self.spends.push_back((timestamp, amount));
            self.spent += amount;
        }
    }

    fn fits(&self, whole: u64, last: Option<u64>) -> bool {
        let Self { whole: own, spends, spent } = self;
        let sum = spends.iter().try_fold(0_u64, |sum, (_, amount)| sum.checked_add(*amount));
        *own == whole
            && sum == Some(*spent)
            && *spent <= whole
            && spends.iter().all(|(_, amount)| *amount > 0)
            && spends.iter().is_sorted_by(|(earlier, _), (later, _)| earlier <= later)
            && spends.back().is_none_or(|(at, _)| Some(*at) <= last)
    }
}

/// Budget and window of a class of users.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) epsilon: Epsilon,
    pub(super) window: u64,
}

/// The three accounts of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accounts {
    watch: Purse,
    main: Purse,
    reserve: Purse,
}

/// Amounts of a class at a timestamp.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    watch: u64,
    main: u64,
    reserve: u64,
}

impl Amounts {
    const fn sum(self) -> u64 {
        self.watch + self.main + self.reserve
    }

    /// Amounts with exact histograms every `period` timestamps, if the accounts are full.
    fn regular(budget: Budget, period: u64) -> Self {
        let even = budget.epsilon.units() / budget.window;
        let watch = even * TUNING.watch / TWENTIETHS;
        let reserve = even * TUNING.reserve / TWENTIETHS;
        if period == 1 {
            return Self { watch, main: even - watch - reserve, reserve };
        }
        Self { watch, main: Accounts::new(budget).main.whole / budget.window.div_ceil(period), reserve: 0 }
    }
}

impl Accounts {
    fn new(budget: Budget) -> Self {
        let whole = budget.epsilon.units();
        let part = |twentieths: u64| whole / TWENTIETHS * twentieths + whole % TWENTIETHS * twentieths / TWENTIETHS;
        let (watch, reserve) = (part(TUNING.watch), part(TUNING.reserve));
        Self { watch: Purse::new(watch), main: Purse::new(whole - watch - reserve), reserve: Purse::new(reserve) }
    }

    fn spend(&mut self, timestamp: u64, amounts: Amounts) {
        self.watch.spend(timestamp, amounts.watch);
        self.main.spend(timestamp, amounts.main);
        self.reserve.spend(timestamp, amounts.reserve);
    }
}

/// Publishes at one timestamp.
pub(super) trait Publisher {
    /// Publishes the histogram, with at most these amounts of each class. `None` if no class can take part.
    fn publish(&mut self, offers: &[Option<Epsilon>]) -> Result<Option<Published>, CentralError>;

    /// Expected variance of a count published with these amounts; infinite if no class can take part.
    fn variance(&self, offers: &[Option<Epsilon>]) -> f64;

    /// Timestamp.
    fn timestamp(&self) -> u64;
}

/// Spends by class number.
pub(super) type ClassSpends = Vec<(u32, Epsilon)>;

/// A published histogram.
pub(super) struct Published {
    pub(super) spent: ClassSpends,
    /// For each class, whether it spent.
    pub(super) took_part: Vec<bool>,
    pub(super) counts: Vec<f64>,
    /// Noise variance of a count.
    pub(super) variance: f64,
}

/// Estimator of the published histograms, and when the next one is due.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheduler {
    estimator: Estimator,
    /// Estimator of the total, which may be steadier than the counts.
    total: Estimator,
    accounts: Vec<Accounts>,
    /// Timestamps of the first push and of the last exact histogram.
    first: u64,
    exact: u64,
    period: u64,
    /// Expected errors of the candidate periods; computed again after loading.
    #[serde(skip)]
    candidates: Vec<Candidate>,
}

/// A candidate period.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    period: u64,
    pattern: Pattern,
    errors: ModelErrors,
}

impl Scheduler {
    /// Publishes what is due, updates the estimator, and returns all spends by class, the estimated counts, and why.
    pub(super) fn advance(
        scheduler: &mut Option<Self>,
        budgets: &[Budget],
        periods: Periods,
        publisher: &mut impl Publisher,
    ) -> Result<(ClassSpends, Option<Counts>, Why), CentralError> {
        let timestamp = publisher.timestamp();
        let (period, due) = match scheduler {
            Some(scheduler) => {
                scheduler.estimator.advance(timestamp);
                scheduler.total.advance(timestamp);
                scheduler.choose_period(timestamp, budgets, publisher);
                (scheduler.period, timestamp.saturating_sub(scheduler.exact) >= scheduler.period)
            }
            None => (1, true),
        };
        let first = scheduler.as_ref().map_or(timestamp, |scheduler| scheduler.first);
        let mut fresh: Vec<Accounts> = Vec::new();
        let accounts = match scheduler {
            Some(scheduler) => &mut scheduler.accounts,
            None => fresh_accounts(&mut fresh, budgets),
        };
        let regular = |(budget, accounts): (&Budget, &mut Accounts)| {
            let mut amounts = Amounts::regular(*budget, period);
            amounts.watch = amounts.watch.min(accounts.watch.left(timestamp, budget.window));
            // The first histogram took more than its share: the rest of its window divides what is left.
            let left = accounts.main.left(timestamp, budget.window);
            let rest = budget.window.saturating_sub(timestamp.saturating_sub(first)).div_ceil(period);
            amounts.main = amounts.main.min(left.checked_div(rest).unwrap_or(u64::MAX));
            amounts.main = if due && left >= amounts.main { amounts.main } else { 0 };
            amounts.reserve = amounts.reserve.min(accounts.reserve.left(timestamp, budget.window));
            amounts
        };
        let mut amounts: Vec<Amounts> = budgets.iter().zip(accounts.iter_mut()).map(regular).collect();
        if scheduler.is_none() {
            // The first histogram is worth more than the others.
            let first = |(amounts, accounts): (&mut Amounts, &Accounts)| {
                amounts.reserve = amounts.reserve.max(accounts.reserve.whole / 2);
                let main = accounts.watch.whole / TUNING.watch * TUNING.first;
                amounts.main = amounts.main.max(main);
            };
            amounts.iter_mut().zip(&fresh).for_each(first);
        }
        let Some(published) = publish(publisher, &amounts)? else {
            let counts = scheduler.as_ref().map(|scheduler| scheduler.release(None));
            return Ok((Vec::new(), counts, Why::new(Reason::Forecast)));
        };
        let own = match scheduler {
            Some(own) => own,
            None => scheduler.insert(Self::new(timestamp, fresh, &published, budgets, periods, publisher)),
        };
        let exact = amounts.iter().any(|amounts| amounts.main > 0);
        own.record(timestamp, &amounts, &published);
        if exact {
            own.exact = timestamp;
        }
        let mut spent = published.spent.clone();
        let (purpose, mut reason) =
            if exact { (Purpose::Publish, Reason::Exact) } else { (Purpose::Measure, Reason::Watched) };
        let mut asked = Paid::by_class(purpose, &spent);
        let mut last = published;
        if !exact && let Some(bought) = own.buy(timestamp, budgets, publisher)? {
            spent.extend(&bought.spent);
            asked.extend(Paid::by_class(Purpose::Reserve, &bought.spent));
            reason = Reason::Reserve;
            last = bought;
        }
        let why = Why { every: Some(own.period), ..Why::new(reason) }.asked(asked);
        Ok((spent, Some(own.release(Some(&last))), why))
    }

    fn new(
        timestamp: u64,
        accounts: Vec<Accounts>,
        published: &Published,
        budgets: &[Budget],
        periods: Periods,
        publisher: &impl Publisher,
    ) -> Self {
        let even = publisher.variance(&offers(&all_regular(budgets, 1)));
        let unit = if even.is_finite() && even > 0.0 { even } else { published.variance } / 2.0;
        let unit = unit.max(LEAST_VARIANCE);
        // Counts are at most 2^64.
        let flat = 2_f64.powi(130).max(1e6 * unit);
        let domain = published.counts.len();
        let mut estimator = Estimator::new(domain, unit, first_prior(published, flat), periods.as_slice());
        #[allow(clippy::cast_precision_loss)] // the size of a domain
        let mut total = {
            let (sum, cells) = (published.counts.iter().sum::<f64>(), domain as f64);
            let prior = Prior { mean: sum, variance: (sum * sum).max(cells * published.variance), largest_step: flat };
            Estimator::new(1, unit * cells, prior, periods.as_slice())
        };
        estimator.advance(timestamp);
        total.advance(timestamp);
        Self { estimator, total, accounts, first: timestamp, exact: timestamp, period: 1, candidates: Vec::new() }
    }

    /// Takes in a histogram, and charges the accounts of those that took part.
    fn record(&mut self, timestamp: u64, amounts: &[Amounts], published: &Published) {
        self.observe(&published.counts, published.variance);
        for ((accounts, amounts), took_part) in self.accounts.iter_mut().zip(amounts).zip(&published.took_part) {
            if *took_part {
                accounts.spend(timestamp, *amounts);
            }
        }
    }

    /// Takes in counts. The total tells something about their noise: the posterior of the total, less what was
    /// observed of it, is shared evenly among them.
    #[allow(clippy::cast_precision_loss)] // the size of a domain
    fn observe(&mut self, counts: &[f64], variance: f64) {
        let domain = counts.len() as f64;
        let sum: f64 = counts.iter().sum();
        // The sum of several Laplace variables is close to normal.
        let noise = domain * variance;
        self.total
            .observe(&[sum], if counts.len() > 2 { Noise::Normal { variance: noise } } else { Noise::laplace(noise) });
        let Belief { mean, variance: left, .. } = self.total.belief(0);
        if counts.len() == 1 {
            return self.estimator.observe(counts, Noise::laplace(variance));
        }
        let left = left.min(noise);
        let counts: Vec<f64> = counts.iter().map(|count| count + (mean - sum) / domain).collect();
        let variance = variance * (1.0 - domain.recip()) + left / (domain * domain);
        self.estimator.observe(&counts, Noise::laplace(variance));
    }

    /// Spends half of the reserve if the estimator knows less than `uniform` would.
    fn buy(
        &mut self,
        timestamp: u64,
        budgets: &[Budget],
        publisher: &mut impl Publisher,
    ) -> Result<Option<Published>, CentralError> {
        #[allow(clippy::cast_precision_loss)] // the size of a domain
        let mean =
            self.estimator.beliefs().map(|belief| belief.variance).sum::<f64>() / self.estimator.numbers() as f64;
        if mean <= TUNING.buy * 2.0 * self.estimator.unit() {
            return Ok(None);
        }
        let half = |(budget, accounts): (&Budget, &mut Accounts)| {
            let reserve = accounts.reserve.left(timestamp, budget.window) / 2;
            let enough = reserve >= Amounts::regular(*budget, 1).watch;
            Amounts { reserve: if enough { reserve } else { 0 }, ..Amounts::default() }
        };
        let amounts: Vec<Amounts> = budgets.iter().zip(&mut self.accounts).map(half).collect();
        let Some(published) = publish(publisher, &amounts)? else { return Ok(None) };
        self.record(timestamp, &amounts, &published);
        Ok(Some(published))
    }

    /// Chooses the period of least expected error.
    fn choose_period(&mut self, timestamp: u64, budgets: &[Budget], publisher: &impl Publisher) {
        if timestamp.saturating_sub(self.first) < TUNING.learn {
            return;
        }
        self.update_candidates(budgets, publisher);
        // A count is not negative, so an estimate of it need not be off by more than itself.
        let square: f64 = self.estimator.beliefs().map(|belief| belief.mean * belief.mean + belief.variance).sum();
        #[allow(clippy::cast_precision_loss)] // the size of a domain
        let most = square / self.estimator.numbers() as f64 / self.estimator.unit();
        let error = |candidate: &Candidate| self.estimator.expected_error(candidate.pattern, &candidate.errors, most);
        let best = self.candidates.iter().map(|candidate| (error(candidate), candidate.period));
        let best = best.min_by(|(one, _), (other, _)| one.total_cmp(other));
        self.period = best.map_or(1, |(_, period)| period);
    }

    /// Computes the expected errors again where the noise of a period has changed by a tenth.
    fn update_candidates(&mut self, budgets: &[Budget], publisher: &impl Publisher) {
        let unit = self.estimator.unit();
        let variance = |amounts: &[Amounts]| publisher.variance(&offers(amounts)) / unit;
        let longest = budgets.iter().map(|budget| budget.window).max().unwrap_or(1).min(TUNING.longest);
        let watched: Vec<Amounts> =
            all_regular(budgets, 1).iter().map(|amounts| Amounts { main: 0, reserve: 0, ..*amounts }).collect();
        let watch = variance(&watched);
        let pattern = |period: u64| {
            let exact = variance(&all_regular(budgets, period));
            let watch = if period == 1 { exact } else { watch };
            Pattern { period: u32::try_from(period).unwrap_or(u32::MAX), exact, watch }
        };
        let patterns = candidate_periods(longest).map(|period| (period, pattern(period)));
        let patterns: Vec<(u64, Pattern)> =
            patterns.filter(|(_, pattern)| pattern.exact.is_finite() && pattern.watch.is_finite()).collect();
        let near = |one: f64, other: f64| (one / other - 1.0).abs() <= 0.1;
        let same = |(candidate, (period, pattern)): (&Candidate, &(u64, Pattern))| {
            candidate.period == *period
                && near(candidate.pattern.exact, pattern.exact)
                && near(candidate.pattern.watch, pattern.watch)
        };
        if self.candidates.len() == patterns.len() && self.candidates.iter().zip(&patterns).all(same) {
            return;
        }
        let candidate = |(period, pattern)| Candidate { period, pattern, errors: Estimator::model_errors(pattern) };
        self.candidates = patterns.into_iter().map(candidate).collect();
    }

    /// Estimated counts, within the envelope of the histogram just published.
    fn release(&self, published: Option<&Published>) -> Counts {
        let (mut counts, mut variances) = self.estimator.stated();
        if let Some(Published { counts: observed, variance, .. }) = published {
            let most = TUNING.envelope * (variance / 2.0).sqrt();
            for ((count, variance), observed) in counts.iter_mut().zip(&mut variances).zip(observed) {
                let within = count.clamp(observed - most, observed + most);
                *variance += (within - *count).powi(2);
                *count = within;
            }
        }
        for (count, variance) in counts.iter_mut().zip(&mut variances) {
            (*count, *variance) = whole(*count, *variance);
            *count = count.max(0.0);
        }
        Counts { counts, variances }
    }

    /// Whether the state is valid, after a push at `last_pushed`.
    pub(super) fn fits(&self, domain: usize, budgets: &[Budget], periods: Periods, last_pushed: Option<u64>) -> bool {
        let Self { estimator, total, accounts, first, exact, period, candidates: _ } = self;
        let longest = budgets.iter().map(|budget| budget.window).max().unwrap_or(1);
        // A push that failed has moved the estimator on.
        let last = estimator.timestamp();
        let charged = |(accounts, budget): (&Accounts, &Budget)| {
            let Accounts { watch, main, reserve } = Accounts::new(*budget);
            accounts.watch.fits(watch.whole, last)
                && accounts.main.fits(main.whole, last)
                && accounts.reserve.fits(reserve.whole, last)
        };
        estimator.fits(domain, periods.as_slice())
            && total.fits(1, periods.as_slice())
            && total.timestamp() == last
            && last >= last_pushed
            && accounts.len() == budgets.len()
            && accounts.iter().zip(budgets).all(charged)
            && first <= exact
            && Some(*exact) <= last
            && (1..=longest).contains(period)
    }
}

/// Belief before the first histogram, by empirical Bayes (Robbins 1956): all counts have the mean of those published,
/// and at least the variance of their noise around it.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn first_prior(published: &Published, largest_step: f64) -> Prior {
    let domain = published.counts.len() as f64;
    let mean = (published.counts.iter().sum::<f64>() / domain).max(0.0);
    let square = published.counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / domain;
    Prior { mean, variance: (square - published.variance).max(published.variance), largest_step }
}

fn fresh_accounts<'a>(accounts: &'a mut Vec<Accounts>, budgets: &[Budget]) -> &'a mut Vec<Accounts> {
    accounts.extend(budgets.iter().map(|budget| Accounts::new(*budget)));
    accounts
}

/// Publishes with at most these amounts. The noise counts as at least [`LEAST_VARIANCE`].
fn publish(publisher: &mut impl Publisher, amounts: &[Amounts]) -> Result<Option<Published>, CentralError> {
    let published = publisher.publish(&offers(amounts))?;
    Ok(published.map(|published| Published { variance: published.variance.max(LEAST_VARIANCE), ..published }))
}

fn all_regular(budgets: &[Budget], period: u64) -> Vec<Amounts> {
    budgets.iter().map(|budget| Amounts::regular(*budget, period)).collect()
}

fn offers(amounts: &[Amounts]) -> Vec<Option<Epsilon>> {
    amounts.iter().map(|amounts| Epsilon::from_units(amounts.sum()).ok()).collect()
}

/// Candidate periods: powers of two, made odd to meet all phases of a season.
fn candidate_periods(longest: u64) -> impl Iterator<Item = u64> {
    let power = |exponent: u32| (1_u64 << exponent) + u64::from(exponent > 1);
    (0..).map(power).take_while(move |period| *period < longest).chain([longest])
}
