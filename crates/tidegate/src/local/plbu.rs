//! `plbu`: the personalised local baseline. Nobody is trusted.
//!
//! At each timestamp every user of a class `(w, epsilon)` reports with `epsilon / w` through the best frequency oracle
//! for it, and the classes' estimates are averaged by inverse variance.
//!
//! Source: Du, Cheng, Chen, Shen, Lin and Xi: Infinite Stream Estimation under Personalized w-Event Privacy, PVLDB
//! 18(6), 2025, doi:10.14778/3725688.3725715, section 5.2 (PLBU).

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{Estimate, OracleKind};
use tidegate_kernel::{ClassLedgers, Cohort, Epsilon, MAX_DOMAIN, MAX_RESPONSE_EPSILON, Question, View};

use crate::central::classes::{Classes, Requirement};
use crate::central::{CentralError, MISFIT, check_time, check_version, release};
use crate::release::{Counts, Freshness, Release, Spent};

/// The mechanism: a state machine that asks each class a question and is told what came back, as [local
/// mechanisms](crate::local) are.
///
/// # Guarantee
/// For each user of a class `(w, epsilon)`, w-event epsilon-local differential privacy, kept by the user's own device.
/// Which class a user is in, and whether the user answers, is public.
///
/// The average is unbiased where all classes hold the same values in the same shares. Where they do not it leans
/// towards the classes that have more members and spend more.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::classes::{Classes, Requirement};
/// use tidegate::local::plbu::Plbu;
///
/// let window = NonZeroU64::new(10).ok_or("a window has a length")?;
/// let careful = Requirement { epsilon: "0.5".parse()?, window };
/// let relaxed = Requirement { epsilon: "2".parse()?, window };
/// let mut mechanism = Plbu::new(Classes::numbered(&[careful, relaxed])?, 5, None)?;
/// let questions = mechanism.open(0)?; // one for each class
/// assert_eq!(questions[1].epsilon, "0.2".parse()?);
/// // ... gather reports, class by class; here, none came in time:
/// let releases = mechanism.answer(0, &[None, None])?;
/// assert_eq!(releases[0].reports, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Plbu {
    version: u16,
    classes: Classes,
    domain: u32,
    oracle: Option<OracleKind>,
    ledgers: ClassLedgers,
    last: Counts,
    /// The timestamp that was opened last, and whether its answers are waited for.
    opened: Option<(u64, bool)>,
}

const VERSION: u16 = 1;

impl Plbu {
    /// A mechanism that has asked nothing yet. Answers are randomised by the best oracle for each class where none is
    /// given.
    ///
    /// Section 5.2 (PLBU) of Du et al. 2025, [in full above](self).
    ///
    /// # Errors
    /// [`CentralError::Domain`] for fewer than two values or too many, [`CentralError::Epsilon`] where a class's share
    /// of a timestamp is less or more than can be reported with.
    pub fn new(classes: Classes, domain: u32, oracle: Option<OracleKind>) -> Result<Self, CentralError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(CentralError::Domain { given: domain });
        }
        for class in classes.all() {
            share(class.requirement)?;
        }
        let ledgers = classes.ledgers();
        let last = Counts { counts: vec![0.0; domain as usize], variances: vec![0.0; domain as usize] };
        Ok(Self { version: VERSION, classes, domain, oracle, ledgers, last, opened: None })
    }

    /// The classes.
    pub const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Whether another has the same classes, domain and oracle, wherever each stands.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.classes, self.domain, self.oracle) == (&other.classes, other.domain, other.oracle)
    }

    /// The collector's ledgers, by class.
    pub const fn ledgers(&self) -> &ClassLedgers {
        &self.ledgers
    }

    /// Begins a timestamp, which must lie after the last one: a question for each class, in their order, to be put to
    /// all of its members.
    pub fn open(&mut self, timestamp: u64) -> Result<Vec<Question>, CentralError> {
        check_time(timestamp, self.opened.map(|(last, _)| last))?;
        let shares = self.classes.all().iter().map(|class| share(class.requirement));
        let shares: Vec<Epsilon> = shares.collect::<Result<_, _>>()?;
        let amounts: Vec<(u32, Epsilon)> = self.classes.numbers().zip(shares.iter().copied()).collect();
        // Each device has a ledger and permits of its own; these only say what may be asked.
        let _asked = self.ledgers.spend_all(timestamp, &amounts)?;
        self.opened = Some((timestamp, true));
        let domain = self.domain;
        let question = |epsilon: Epsilon| {
            let oracle = self.oracle.unwrap_or_else(|| OracleKind::best(domain, epsilon));
            Question { timestamp, phase: 0, cohort: Cohort::Everyone, epsilon, oracle, domain, view: View::Values }
        };
        Ok(shares.into_iter().map(question).collect())
    }

    /// Takes the answers for the open timestamp: for each class, in their order, an estimate from its reports, or
    /// `None` where no report came. One release, of counts among those who reported.
    pub fn answer(&mut self, timestamp: u64, answers: &[Option<Estimate>]) -> Result<Vec<Release>, CentralError> {
        if self.opened != Some((timestamp, true)) {
            let (given, expected) = (format!("timestamp {timestamp}"), format!("{:?} was opened last", self.opened));
            return Err(CentralError::Answer { given, expected });
        }
        let expected = self.classes.len();
        if answers.len() != expected {
            return Err(CentralError::Length { what: "answers", given: answers.len(), expected });
        }
        let cells = self.domain as usize;
        if let Some(other) = answers.iter().flatten().find(|answer| answer.frequencies().len() != cells) {
            let given = format!("an estimate of {} values", other.frequencies().len());
            return Err(CentralError::Answer { given, expected: format!("the question was about {cells}") });
        }
        self.opened = Some((timestamp, false));
        let shares = self.classes.numbers().zip(self.classes.all());
        let spent =
            Spent::by_class(shares.filter_map(|(number, class)| Some((number, share(class.requirement).ok()?))));
        let Some(counts) = average(answers) else {
            return Ok(vec![release(timestamp, self.last.clone(), Freshness::Approximated, spent)]);
        };
        self.last = counts.clone();
        let reports = answers.iter().flatten().map(Estimate::reports).sum();
        Ok(vec![Release { reports, ..release(timestamp, counts, Freshness::Fresh, spent) }])
    }

    /// Releases nothing: every timestamp is released at once.
    pub const fn finish(&mut self) -> Vec<Release> {
        Vec::new()
    }
}

/// The share of a member at each timestamp.
fn share(Requirement { epsilon, window }: Requirement) -> Result<Epsilon, CentralError> {
    let share = epsilon.divided_by(window.get()).filter(|share| *share <= MAX_RESPONSE_EPSILON);
    share.ok_or(CentralError::Epsilon { epsilon, window: window.get() })
}

/// The average of the classes' frequencies by inverse variance, as counts among all who reported; `None` where nobody
/// did.
///
/// Weights are the same for all values, by the variance at the mean frequency: by each value's own, which is estimated
/// from its frequency, the average would lean towards low ones.
#[allow(clippy::cast_precision_loss)]
fn average(answers: &[Option<Estimate>]) -> Option<Counts> {
    let users: f64 = answers.iter().flatten().map(|answer| answer.reports() as f64).sum();
    let cells = answers.iter().flatten().map(|answer| answer.frequencies().len()).next()?;
    let mean = 1.0 / cells as f64;
    let weight = |answer: &Estimate| 1.0 / answer.variance().at(mean).max(f64::MIN_POSITIVE.sqrt());
    let all: f64 = answers.iter().flatten().map(weight).sum();
    let (mut counts, mut variances) = (vec![0.0; cells], vec![0.0; cells]);
    for answer in answers.iter().flatten() {
        let part = weight(answer) / all;
        for (cell, frequency) in answer.frequencies().iter().enumerate() {
            counts[cell] += users * part * frequency;
            variances[cell] += (users * part).powi(2) * answer.variance().at(frequency.clamp(0.0, 1.0)).max(0.0);
        }
    }
    Some(Counts { counts, variances })
}

/// The saved form, which is believed only if its version is known and its parts fit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    classes: Classes,
    domain: u32,
    oracle: Option<OracleKind>,
    ledgers: ClassLedgers,
    last: Counts,
    opened: Option<(u64, bool)>,
}

impl TryFrom<Saved> for Plbu {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, classes, domain, oracle, ledgers, last, opened } = saved;
        check_version(version, VERSION)?;
        let fits = classes.are_of(&ledgers) && last.fits(domain);
        if Self::new(classes.clone(), domain, oracle).is_err() || !fits {
            return Err(MISFIT.to_owned());
        }
        Ok(Self { version, classes, domain, oracle, ledgers, last, opened })
    }
}
