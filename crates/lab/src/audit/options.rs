//! [`Options`]: what is audited, and how thoroughly.

use std::num::{NonZeroU64, NonZeroUsize};
use std::thread;

use serde::Deserialize;
use tidegate_kernel::{Epsilon, SeededRandom};
use tidegate_release::Error;

use super::empirical::{AttackError, CONFIDENCE, Plan};
use super::transcript::Search;
use super::{AuditSettings, Finding, Input, Pair, Target, TargetFamily, Transcript, audit, targets};
use crate::experiment::RunError;
use crate::stop::Stop;

/// How often a mechanism is run on each of two streams, unless told.
const RUNS: NonZeroU64 = NonZeroU64::MIN.saturating_add(20_000 - 1);

/// The same, with `thorough`.
const THOROUGH_RUNS: NonZeroU64 = NonZeroU64::MIN.saturating_add(400_000 - 1);

/// The window and the number of values, unless told: losses are found where streams are short.
const SMALL: NonZeroU64 = NonZeroU64::MIN.saturating_add(2);

/// The longest window. Streams are a few windows long, and nothing is learned from longer ones.
const LONGEST: u64 = 1_000;

/// What is audited, with the names of the command's options. What is not there stands for the defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Names of mechanisms and frequency oracles; all of them if there are none.
    pub mechanism: Vec<String>,
    /// Only this family.
    pub family: Option<TargetFamily>,
    /// Twenty times as many runs, and ten times as many transcripts.
    pub thorough: bool,
    /// What is claimed for a window; 1 by default.
    pub epsilon: Option<Epsilon>,
    /// The length of the window, and of batches; 3 by default.
    pub window: Option<NonZeroU64>,
    /// The number of values, 2 to 8; 3 by default.
    pub domain: Option<u32>,
    /// How often each mechanism is run on each of two streams.
    pub runs: Option<NonZeroU64>,
    /// How sure each lower bound is.
    pub confidence: Option<f64>,
    /// The seed; 1 by default.
    pub seed: Option<u64>,
    /// The number of threads; all cores by default.
    pub threads: Option<NonZeroUsize>,
}

impl Options {
    /// The settings of the audited mechanisms.
    ///
    /// # Errors
    /// [`Error::Spec`] for a domain or a window of another size than an audit has.
    pub fn settings(&self) -> Result<AuditSettings, Error> {
        let epsilon = match self.epsilon {
            Some(epsilon) => epsilon,
            None => "1".parse().map_err(Error::run)?,
        };
        let (window, domain) = (self.window.unwrap_or(SMALL), self.domain.unwrap_or(3));
        if !(2..=8).contains(&domain) {
            return Err(Error::Spec(format!("--domain: an audit has 2 to 8 values, but {domain} were given")));
        }
        if window.get() > LONGEST {
            return Err(Error::Spec(format!(
                "--window: an audit has windows of at most {LONGEST} timestamps, but {window} were given"
            )));
        }
        Ok(AuditSettings { epsilon, window, domain })
    }

    /// The plan of the attacks.
    pub fn plan(&self) -> Plan {
        Plan {
            runs: self.runs.unwrap_or(if self.thorough { THOROUGH_RUNS } else { RUNS }),
            confidence: self.confidence.unwrap_or(CONFIDENCE),
            seed: self.seed.unwrap_or(1),
            threads: self.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// The search for transcripts.
    pub fn search(&self) -> Search {
        let search = if self.thorough { Search::THOROUGH } else { Search::QUICK };
        Search { seed: self.seed.unwrap_or(1), ..search }
    }

    /// The targets.
    ///
    /// # Errors
    /// [`Error::Spec`] for settings that a mechanism rejects, and names that no target has.
    pub fn targets(&self) -> Result<Vec<Box<dyn Target>>, Error> {
        let all = targets::all(&self.settings()?).map_err(refused)?;
        targets::chosen(all, &self.mechanism, self.family).map_err(|error| Error::Spec(error.to_string()))
    }

    /// Audits a target, as [`audit`] does.
    ///
    /// # Errors
    /// [`Error::Spec`] for settings that the mechanism rejects, otherwise [`Error::Run`]: also soon after `stop` is
    /// set.
    pub fn audit(&self, target: &dyn Target, stop: &Stop, progress: &(dyn Fn() + Sync)) -> Result<Finding, Error> {
        audit(&Stoppable { target, stop }, &self.plan(), &self.search(), progress).map_err(|error| match error {
            AttackError::Run(error) => refused(error),
            error => Error::Spec(error.to_string()),
        })
    }
}

fn refused(error: RunError) -> Error {
    match error {
        RunError::Unsupported(_) => Error::Spec(error.to_string()),
        error => Error::run(error),
    }
}

/// The first broken promise and how many there are, in words.
pub fn broken(findings: &[Finding]) -> Option<String> {
    let broken: Vec<_> = findings.iter().filter(|finding| finding.is_broken()).collect();
    let first = broken.first()?;
    let (count, all, loss) = (broken.len(), findings.len(), first.largest());
    let Finding { mechanism, guarantee, claimed, .. } = first;
    Some(format!(
        "broken promises: {count} of {all}. The first: {mechanism}, {guarantee}, loses {loss:.4} where {claimed} is \
         claimed"
    ))
}

/// A target that runs no more once it is to stop.
struct Stoppable<'a> {
    target: &'a dyn Target,
    stop: &'a Stop,
}

impl Target for Stoppable<'_> {
    fn name(&self) -> &'static str {
        self.target.name()
    }

    fn family(&self) -> TargetFamily {
        self.target.family()
    }

    fn guarantee(&self) -> String {
        self.target.guarantee()
    }

    fn claimed(&self) -> f64 {
        self.target.claimed()
    }

    fn neighbours(&self) -> Vec<Pair> {
        self.target.neighbours()
    }

    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        self.target.pairs_for_transcripts()
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        if self.stop.is_set() {
            return Err(RunError::Stopped);
        }
        self.target.observe(input, random)
    }

    fn streams(&self, input: &Input) -> Vec<(f64, Input)> {
        self.target.streams(input)
    }

    fn exact(&self) -> Result<Option<f64>, RunError> {
        self.target.exact()
    }
}
