//! Local streams: nobody but the device sees a value. w-event local privacy on infinite streams.
//!
//! A mechanism here does no input or output. It is a state machine that asks questions and is told what came back:
//! [`Local::open`] and [`Local::answer`] both return a [`Step`], which is either more questions or the release. Reports
//! may take hours to gather and the process may die in between, so the state can be saved between any two steps; loaded
//! again, it goes on bit for bit as it would have.
//!
//! | mechanism | what is divided | how |
//! | --- | --- | --- |
//! | [`lbu`] | budget | evenly over the window |
//! | [`lsp`] | budget | all of it at one timestamp of each window |
//! | [`lbd`] | budget | half of what is left, where the stream has changed enough |
//! | [`lba`] | budget | saved up where the stream has not changed, spent where it has |
//! | [`lpu`] | population | evenly over the window |
//! | [`lpd`] | population | as `lbd` |
//! | [`lpa`] | population | as `lba` |
//! | [`mtsp`] | budget or population | on the timestamps of a window that changed most; publishes trees |
//! | [`track`] | population | evenly over the window, with an estimate from the reports of all timestamps |
//!
//! **Who guards the guarantee?** Each device, with its own ledger, whatever the collector asks. The mechanisms keep to
//! it on their own side too: budget division through a [`Ledger`](tidegate_kernel::Ledger), population division through
//! [`Slots`](slots::Slots), in which no slot is used twice within a window.

mod adaptive;
mod division;
pub mod lba;
pub mod lbd;
pub mod lbu;
pub mod lpa;
pub mod lpd;
pub mod lpu;
pub mod lsp;
pub mod mtsp;
pub mod slots;
pub mod track;
mod uniform;

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{Estimate, OracleKind};
use tidegate_kernel::{Epsilon, MAX_DOMAIN, MAX_RESPONSE_EPSILON, Question, Refusal};

use crate::release::Release;
use adaptive::Adaptive;
use uniform::Uniform;

/// Which mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalKind {
    /// Uniform budget division.
    Lbu,
    /// Sampling: one timestamp a window.
    Lsp,
    /// Budget distribution.
    Lbd,
    /// Budget absorption.
    Lba,
    /// Uniform population division.
    Lpu,
    /// Population distribution.
    Lpd,
    /// Population absorption.
    Lpa,
    /// Trees, with optimal allocation of the budget.
    Mtsp,
    /// Trees, with optimal allocation of the population.
    MtspPopulation,
    /// Uniform population division, with an estimate from all reports.
    Track,
}

impl LocalKind {
    /// All mechanisms.
    pub const ALL: [Self; 10] = [
        Self::Lbu,
        Self::Lsp,
        Self::Lbd,
        Self::Lba,
        Self::Lpu,
        Self::Lpd,
        Self::Lpa,
        Self::Mtsp,
        Self::MtspPopulation,
        Self::Track,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lbu => "lbu",
            Self::Lsp => "lsp",
            Self::Lbd => "lbd",
            Self::Lba => "lba",
            Self::Lpu => "lpu",
            Self::Lpd => "lpd",
            Self::Lpa => "lpa",
            Self::Mtsp => "mtsp",
            Self::MtspPopulation => "mtsp_population",
            Self::Track => "track",
        }
    }
}

impl fmt::Display for LocalKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is no local mechanism's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no local mechanism {given:?}; there are lbu, lsp, lbd, lba, lpu, lpd, lpa, mtsp, mtsp_population and track"
)]
pub struct UnknownLocal {
    given: String,
}

impl FromStr for LocalKind {
    type Err = UnknownLocal;

    fn from_str(name: &str) -> Result<Self, UnknownLocal> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownLocal { given: name.chars().take(40).collect() })
    }
}

/// What a local mechanism is set to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What any user may spend in any window.
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
}

impl Settings {
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
        }
    }

    fn oracle_for(&self, cells: u32, epsilon: Epsilon) -> OracleKind {
        self.oracle.unwrap_or_else(|| OracleKind::best(cells, epsilon))
    }
}

/// What a mechanism wants next.
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
pub enum LocalError {
    /// A domain outside what can be reported.
    #[error("a domain of {given} values is outside 2..={MAX_DOMAIN}")]
    Domain {
        /// The size that was given.
        given: u32,
    },
    /// The epsilon, or what a window leaves of it for one timestamp, is outside what can be reported with.
    #[error(
        "epsilon {epsilon} over a window of {window} leaves shares outside {}..={MAX_RESPONSE_EPSILON}",
        Epsilon::MIN
    )]
    Epsilon {
        /// The epsilon that was given.
        epsilon: Epsilon,
        /// The window that was given.
        window: u64,
    },
    /// The window is longer than the population can be divided into.
    #[error("a window of {given} is longer than {limit}, into which the population's slots can be divided")]
    Window {
        /// The window that was given.
        given: u64,
        /// The longest one.
        limit: u64,
    },
    /// A timestamp that is not after the last one.
    #[error("timestamp {given} is not after {last}, the last one opened")]
    Time {
        /// The timestamp that was given.
        given: u64,
        /// The last one.
        last: u64,
    },
    /// A timestamp was opened while questions of another are open.
    #[error("timestamp {open} still waits for answers; answer them, with none where no report came")]
    Unanswered {
        /// The timestamp that waits.
        open: u64,
    },
    /// Answers came where no question is open.
    #[error("no question is open")]
    Unasked,
    /// Another number of answers than of questions, or an answer over another domain.
    #[error("{given} does not answer what was asked: {expected}")]
    Answer {
        /// What was given.
        given: String,
        /// What was expected.
        expected: String,
    },
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
/// use tidegate::local::{Local, LocalKind, Settings, Step};
///
/// let window = NonZeroU64::new(20).ok_or("a window has a length")?;
/// let population = NonZeroU64::new(10_000).ok_or("there are users")?;
/// let settings = Settings::new("1".parse()?, window, 5, population);
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
    settings: Settings,
    last_opened: Option<u64>,
    /// The questions that wait for answers.
    open: Vec<Question>,
    machine: Machine,
}

const VERSION: u16 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Machine {
    Lbu(Uniform),
    Lsp(lsp::Lsp),
    Lbd(Adaptive),
    Lba(Adaptive),
    Lpu(Uniform),
    Lpd(Adaptive),
    Lpa(Adaptive),
    Mtsp(mtsp::Mtsp),
    MtspPopulation(mtsp::Mtsp),
    Track(track::Track),
}

/// Calls the same method on whichever mechanism it is.
macro_rules! on_machine {
    ($machine:expr, $mechanism:ident => $call:expr) => {
        match $machine {
            Machine::Lbu($mechanism) => $call,
            Machine::Lsp($mechanism) => $call,
            Machine::Lbd($mechanism) => $call,
            Machine::Lba($mechanism) => $call,
            Machine::Lpu($mechanism) => $call,
            Machine::Lpd($mechanism) => $call,
            Machine::Lpa($mechanism) => $call,
            Machine::Mtsp($mechanism) | Machine::MtspPopulation($mechanism) => $call,
            Machine::Track($mechanism) => $call,
        }
    };
}

impl Local {
    /// A mechanism that has asked nothing yet.
    pub fn new(kind: LocalKind, settings: Settings) -> Result<Self, LocalError> {
        if !(2..=MAX_DOMAIN).contains(&settings.domain) {
            return Err(LocalError::Domain { given: settings.domain });
        }
        if settings.epsilon > MAX_RESPONSE_EPSILON {
            return Err(LocalError::Epsilon { epsilon: settings.epsilon, window: settings.window.get() });
        }
        let machine = match kind {
            LocalKind::Lbu => Machine::Lbu(lbu::new(&settings)?),
            LocalKind::Lsp => Machine::Lsp(lsp::Lsp::new(&settings)),
            LocalKind::Lbd => Machine::Lbd(lbd::new(&settings)?),
            LocalKind::Lba => Machine::Lba(lba::new(&settings)?),
            LocalKind::Lpu => Machine::Lpu(lpu::new(&settings)?),
            LocalKind::Lpd => Machine::Lpd(lpd::new(&settings)?),
            LocalKind::Lpa => Machine::Lpa(lpa::new(&settings)?),
            LocalKind::Mtsp => Machine::Mtsp(mtsp::Mtsp::of_budget(&settings)?),
            LocalKind::MtspPopulation => Machine::MtspPopulation(mtsp::Mtsp::of_population(&settings)?),
            LocalKind::Track => Machine::Track(track::Track::new(&settings)?),
        };
        Ok(Self { version: VERSION, settings, last_opened: None, open: Vec::new(), machine })
    }

    /// What it is set to.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Which mechanism it is.
    pub const fn kind(&self) -> LocalKind {
        match self.machine {
            Machine::Lbu(_) => LocalKind::Lbu,
            Machine::Lsp(_) => LocalKind::Lsp,
            Machine::Lbd(_) => LocalKind::Lbd,
            Machine::Lba(_) => LocalKind::Lba,
            Machine::Lpu(_) => LocalKind::Lpu,
            Machine::Lpd(_) => LocalKind::Lpd,
            Machine::Lpa(_) => LocalKind::Lpa,
            Machine::Mtsp(_) => LocalKind::Mtsp,
            Machine::MtspPopulation(_) => LocalKind::MtspPopulation,
            Machine::Track(_) => LocalKind::Track,
        }
    }

    /// Which share of a window's budget, or of the population, is left at a timestamp that is not before the last one.
    #[allow(clippy::cast_precision_loss)] // a share
    pub fn left(&self, timestamp: u64) -> f64 {
        let account = on_machine!(&self.machine, mechanism => mechanism.account());
        account.left(timestamp) as f64 / account.total() as f64
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
        let step = on_machine!(&mut self.machine, mechanism => mechanism.open(timestamp, &self.settings))?;
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
                && estimate.frequencies().len() != question.cells() as usize
            {
                let given = format!("an estimate of {} values", estimate.frequencies().len());
                let expected = format!("the question was about {}", question.cells());
                return Err(LocalError::Answer { given, expected });
            }
        }
        let step = on_machine!(&mut self.machine, mechanism => mechanism.answer(answers, &self.settings))?;
        Ok(self.note(step))
    }

    /// Takes note of what is waited for, and says in a release who was asked.
    fn note(&mut self, mut step: Step) -> Step {
        self.open = match &mut step {
            Step::Ask(questions) => questions.clone(),
            Step::Done(release) => {
                if let Some(epsilon) = release.spent.most() {
                    let account = on_machine!(&self.machine, mechanism => mechanism.account());
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
    settings: Settings,
    last_opened: Option<u64>,
    open: Vec<Question>,
    machine: Machine,
}

impl TryFrom<Saved> for Local {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, settings, last_opened, open, machine } = saved;
        if version != VERSION {
            return Err(format!(
                "mechanism state version {version} is not known; this program reads version {VERSION}"
            ));
        }
        let fits = on_machine!(&machine, mechanism => mechanism.fits(&settings));
        let answerable = open.iter().all(|question| Some(question.timestamp) == last_opened);
        if !(2..=MAX_DOMAIN).contains(&settings.domain) || !fits || !answerable {
            return Err("the mechanism's state does not fit its settings".to_owned());
        }
        Ok(Self { version, settings, last_opened, open, machine })
    }
}
