//! [`Local`]: a running local mechanism, which asks questions and is told what came back.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{Estimate, OracleKind};
use tidegate_kernel::{Epsilon, Grid, MAX_DOMAIN, MAX_RESPONSE_EPSILON, Question, Refusal, View};

use super::division::Division;
use super::{LocalKind, Machine, mtsp, numbers};
use crate::estimate::Periods;
use crate::release::{Histogram, Release};

/// Settings of a local mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSettings {
    /// The budget of any user in any window.
    pub epsilon: Epsilon,
    /// The length of the window.
    pub window: NonZeroU64,
    /// The number of values.
    pub domain: u32,
    /// About how many users there are: a first guess, corrected by the reports that come.
    pub population: NonZeroU64,
    /// How answers are randomised; the best oracle for each question where nothing is said.
    #[serde(default)]
    pub oracle: Option<OracleKind>,
    /// Whether a fresh release is averaged with the dissimilarity estimate of the same timestamp. That costs no budget
    /// and lowers the error; the papers do not do it. The stated variance is then a little too low, because the
    /// estimate that led to publishing is part of what is published.
    #[serde(default)]
    pub reuse: bool,
    /// How `mtsp` and `mtsp_population` average the publications of a node that belong together; nothing to the others.
    #[serde(default)]
    pub smoother: mtsp::GroupAverage,
    /// Periods of seasons, for `track`, which saves them itself.
    #[serde(skip)]
    pub periods: Periods,
    /// The grid of users' numbers, where their mean is released; `None` for values of a domain. The mechanism saves it.
    #[serde(skip)]
    pub numbers: Option<Grid>,
}

impl LocalSettings {
    /// The given, and otherwise what the papers do: the best oracle, nothing reused, the mean as smoother.
    pub fn new(epsilon: Epsilon, window: NonZeroU64, domain: u32, population: NonZeroU64) -> Self {
        Self {
            epsilon,
            window,
            domain,
            population,
            oracle: None,
            reuse: false,
            smoother: mtsp::GroupAverage::default(),
            periods: Periods::USUAL,
            numbers: None,
        }
    }

    /// The same for numbers on a grid, whose mean is released.
    pub fn of_numbers(epsilon: Epsilon, window: NonZeroU64, grid: Grid, population: NonZeroU64) -> Self {
        Self { numbers: Some(grid), ..Self::new(epsilon, window, numbers::points(&grid), population) }
    }

    pub(super) fn oracle_for(&self, cells: u32, epsilon: Epsilon) -> OracleKind {
        if self.numbers.is_some() {
            return OracleKind::Piecewise;
        }
        self.oracle.unwrap_or_else(|| OracleKind::best(cells, epsilon))
    }

    /// What questions about the values are about.
    pub(super) const fn view(&self) -> View {
        if self.numbers.is_some() { View::Mean } else { View::Values }
    }

    /// How many numbers are estimated: a frequency for each value, or one mean.
    pub(super) const fn estimates(&self) -> u32 {
        if self.numbers.is_some() { 1 } else { self.domain }
    }

    /// The release before the first. As in the paper, frequencies are zero, with unknown error. A mean is in the middle
    /// of its range, of which it has the whole as error.
    pub(super) fn unknown(&self) -> Histogram {
        if self.numbers.is_some() {
            return Histogram { frequencies: vec![0.5], variances: vec![0.25] };
        }
        let domain = self.domain as usize;
        Histogram { frequencies: vec![0.0; domain], variances: vec![1.0; domain] }
    }

    /// Checks domain, epsilon and oracle.
    fn check(&self) -> Result<(), LocalError> {
        let has_points = self.numbers.is_none_or(|grid| numbers::points(&grid) == self.domain);
        if !(2..=MAX_DOMAIN).contains(&self.domain) || !has_points {
            return Err(LocalError::Domain { given: self.domain });
        }
        if self.epsilon > MAX_RESPONSE_EPSILON {
            return Err(LocalError::Epsilon { epsilon: self.epsilon, window: self.window.get() });
        }
        match self.oracle {
            Some(given) if self.numbers.is_some() || given == OracleKind::Piecewise => {
                Err(LocalError::Oracle { given })
            }
            _ => Ok(()),
        }
    }
}

/// The next step of a mechanism.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Put these questions, at the same time, and tell [`Local::answer`] what came back. Their cohorts are disjoint.
    Ask(Vec<Question>),
    /// The timestamp is done.
    Done(Release),
}

/// Why a mechanism could not go on. Its state is as before, but for [`LocalError::Account`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum LocalError {
    /// A domain outside what can be reported.
    #[error("a domain of {given} values is outside 2..={MAX_DOMAIN}")]
    Domain { given: u32 },
    /// The epsilon, or what a window leaves of it for one timestamp, is outside what can be reported with.
    #[error(
        "epsilon {epsilon} over a window of {window} leaves shares outside {}..={MAX_RESPONSE_EPSILON}",
        Epsilon::MIN
    )]
    Epsilon { epsilon: Epsilon, window: u64 },
    /// The window is longer than the population can be divided into.
    #[error("a window of {given} is longer than {limit}, into which the population's slots can be divided")]
    Window { given: u64, limit: u64 },
    /// A timestamp that is not after the last one.
    #[error("timestamp {given} is not after {last}, the last one opened")]
    Time { given: u64, last: u64 },
    /// A timestamp was opened while questions of another are open.
    #[error("timestamp {open} still waits for answers; answer them, with none where no report came")]
    Unanswered { open: u64 },
    /// Answers came where no question is open.
    #[error("no question is open")]
    Unasked,
    /// Another number of answers than of questions, or an answer over another domain.
    #[error("{given} does not answer what was asked: {expected}")]
    Answer { given: String, expected: String },
    /// An oracle for numbers, or that of numbers for values.
    #[error(
        "{given} does not fit the domain: numbers have one oracle, so name none, and piecewise is for numbers only"
    )]
    Oracle { given: OracleKind },
    /// A mechanism that releases frequencies only.
    #[error("{mechanism} releases no mean of numbers; lbu, lsp, lbd, lba, lpu, lpd and lpa do")]
    Numbers { mechanism: &'static str },
    /// `plbu` has a guarantee for each class, so it is made from classes.
    #[error("plbu has a guarantee for each class; make it from classes")]
    ByClass,
    /// The account of what was asked refused, which no sequence of calls can bring about.
    #[error("the account of what was asked refused: {0}")]
    Account(#[from] Refusal),
}

/// A local mechanism: one of the seven of LDP-IDS, MTSP-LDP in one of its two forms, or `track`.
///
/// # Guarantee
/// w-event epsilon-local differential privacy for each user: two streams of one user that differ only within `window`
/// consecutive timestamps make any transcript equally likely up to a factor of e^epsilon. It holds for users who
/// answer, or are silent, independently of their values; that a user is silent is not hidden.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::local::{Local, LocalKind, LocalSettings, Step};
///
/// let window = NonZeroU64::new(20).ok_or("a window has a length")?;
/// let population = NonZeroU64::new(10_000).ok_or("there are users")?;
/// let settings = LocalSettings::new("1".parse()?, window, 5, population);
/// let mut mechanism = Local::new(LocalKind::Lpa, settings)?;
/// let Step::Ask(questions) = mechanism.open(0)? else { panic!("it begins with a question") };
/// assert_eq!(questions[0].epsilon, settings.epsilon); // the whole budget, of a part of the population
/// // ... gather reports; here, none came in time:
/// let Step::Done(release) = mechanism.answer(&questions, &[None])? else { panic!("nothing to decide on") };
/// assert_eq!(release.timestamp, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Local {
    version: u16,
    settings: LocalSettings,
    last_opened: Option<u64>,
    /// The questions that wait for answers.
    open: Vec<Question>,
    machine: Machine,
}

const VERSION: u16 = 1;

impl Local {
    /// A mechanism that has asked nothing yet.
    pub fn new(kind: LocalKind, settings: LocalSettings) -> Result<Self, LocalError> {
        settings.check()?;
        let machine = match settings.numbers {
            Some(grid) => Machine::of_numbers(kind, grid, &settings)?,
            None => Machine::new(kind, &settings)?,
        };
        Ok(Self { version: VERSION, settings, last_opened: None, open: Vec::new(), machine })
    }

    /// Its settings.
    pub const fn settings(&self) -> &LocalSettings {
        &self.settings
    }

    /// Which mechanism it is.
    pub fn kind(&self) -> LocalKind {
        self.machine.kind()
    }

    /// Which share of a window's budget, or of the population, is left at a timestamp that is not before the last one.
    #[allow(clippy::cast_precision_loss)] // a share
    pub fn left(&self, timestamp: u64) -> f64 {
        let account = self.machine.account();
        account.left(timestamp) as f64 / account.total() as f64
    }

    /// The most that any one user has been asked for in the window that ends with a timestamp; `None` for nothing.
    pub fn most_spent(&self, timestamp: u64) -> Option<Epsilon> {
        self.machine.account().most_spent(timestamp, self.settings.epsilon)
    }

    /// The slots of the population that are left at a timestamp; `None` where the budget is divided.
    pub fn slots_left(&self, timestamp: u64) -> Option<u32> {
        match self.machine.account() {
            Division::Budget(_) => None,
            Division::Population(slots) => Some(slots.left(timestamp)),
        }
    }

    /// Begins a timestamp, which must lie after the last one. Timestamps may be left out; they count as time passed.
    pub fn open(&mut self, timestamp: u64) -> Result<Step, LocalError> {
        if let Some(Question { timestamp: open, .. }) = self.open.first() {
            let open = *open;
            return Err(LocalError::Unanswered { open });
        }
        if let Some(last) = self.last_opened
            && timestamp <= last
        {
            return Err(LocalError::Time { given: timestamp, last });
        }
        let step = self.machine.open(timestamp, &self.settings)?;
        self.last_opened = Some(timestamp);
        Ok(self.note(step))
    }

    /// The questions that wait for answers: after a restart, to be put again.
    pub fn open_questions(&self) -> &[Question] {
        &self.open
    }

    /// Goes on with what came back for the open questions, in their order: an estimate from the reports, or `None`
    /// where no report came. The questions are given too, so that an answer that comes twice, or late, is not taken for
    /// another's.
    pub fn answer(&mut self, questions: &[Question], answers: &[Option<Estimate>]) -> Result<Step, LocalError> {
        if self.open.is_empty() {
            return Err(LocalError::Unasked);
        }
        if questions != self.open {
            let name = |questions: &[Question]| match questions.first() {
                Some(first) => format!("phase {} of timestamp {}", first.phase, first.timestamp),
                None => "no question".to_owned(),
            };
            let expected = format!("{} is open", name(&self.open));
            return Err(LocalError::Answer { given: name(questions), expected });
        }
        if answers.len() != questions.len() {
            let (given, expected) = (answers.len(), questions.len());
            let (given, expected) = (format!("{given} answers"), format!("{expected} questions are open"));
            return Err(LocalError::Answer { given, expected });
        }
        for (answer, question) in answers.iter().zip(questions) {
            if let Some(estimate) = answer
                && (estimate.frequencies().len() != question.estimates() as usize
                    || estimate.mean_error().is_some() != (question.view == View::Mean))
            {
                let given = match estimate.mean_error() {
                    Some(_) => "an estimate of a mean".to_owned(),
                    None => format!("an estimate of {} values", estimate.frequencies().len()),
                };
                let expected = match question.view {
                    View::Mean => "the question was about a mean".to_owned(),
                    _ => format!("the question was about {}", question.cells()),
                };
                return Err(LocalError::Answer { given, expected });
            }
        }
        let step = self.machine.answer(answers, &self.settings)?;
        Ok(self.note(step))
    }

    /// Takes note of what is waited for, and says in a release who was asked.
    fn note(&mut self, mut step: Step) -> Step {
        self.open = match &mut step {
            Step::Ask(questions) => questions.clone(),
            Step::Done(release) => {
                if let Some(epsilon) = release.spent.most() {
                    let account = self.machine.account();
                    release.spent = account.spent_at(release.timestamp, epsilon);
                }
                Vec::new()
            }
        };
        step
    }
}

/// The saved form, which is believed only if its version is known and its parts fit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    settings: LocalSettings,
    last_opened: Option<u64>,
    open: Vec<Question>,
    machine: Machine,
}

impl TryFrom<Saved> for Local {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, mut settings, last_opened, open, machine } = saved;
        if version != VERSION {
            return Err(format!(
                "mechanism state version {version} is not known; this program reads version {VERSION}"
            ));
        }
        if let Machine::Track(track) = &machine {
            settings.periods = track.periods();
        }
        settings.numbers = machine.grid();
        let fits = settings.check().is_ok() && machine.fits(&settings);
        let answerable = open.iter().all(|question| Some(question.timestamp) == last_opened);
        if !fits || !answerable {
            return Err("the mechanism's state does not fit its settings".to_owned());
        }
        Ok(Self { version, settings, last_opened, open, machine })
    }
}
