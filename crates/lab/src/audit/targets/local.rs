//! Local mechanisms, as the collector sees one user: which questions were put, and what the user's device answered.

use std::num::NonZeroU64;

use tidegate::local::{Local, LocalKind, LocalSettings, Step};
use tidegate_device::{AnswerError, Device};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Decimal, Grid, Question, SLOTS, SeededRandom};

use super::patterns::{Pattern, patterns, patterns_everywhere};
use super::{freshness, other_input, spent};
use crate::audit::targets::oracle::supported;
use crate::audit::{AuditSettings, Input, Pair, Target, TargetFamily, Transcript, exact};
use crate::experiment::RunError;
use crate::local::policy;

/// How many users answer beside the one who is audited: few, so that what this one reports decides as much as it can
/// about what is asked next.
const OTHERS: u16 = 5;

/// A local mechanism and one of its users, whose device is in slot 0, the first to be asked where the population is
/// divided.
#[derive(Clone, Copy, Debug)]
pub struct LocalTarget {
    /// Which mechanism.
    pub kind: LocalKind,
    /// What it is set to.
    pub settings: LocalSettings,
}

impl LocalTarget {
    /// A mechanism as it is audited.
    pub fn new(kind: LocalKind, settings: &AuditSettings) -> Self {
        let AuditSettings { epsilon, window, domain } = *settings;
        let population = NonZeroU64::MIN.saturating_add(u64::from(OTHERS));
        Self { kind, settings: LocalSettings::new(epsilon, window, domain, population) }
    }

    /// A mechanism for the mean of numbers, as it is audited: whole numbers from 0 on, as many as there are values.
    pub fn of_numbers(kind: LocalKind, settings: &AuditSettings) -> Result<Self, RunError> {
        let AuditSettings { epsilon, window, domain } = *settings;
        let high = Decimal::from(u64::from(domain.saturating_sub(1)));
        let grid = Grid::exact(Decimal::ZERO, high, Decimal::ONE).map_err(RunError::unsupported)?;
        let population = NonZeroU64::MIN.saturating_add(u64::from(OTHERS));
        Ok(Self { kind, settings: LocalSettings::of_numbers(epsilon, window, grid, population) })
    }

    fn window(&self) -> usize {
        usize::try_from(self.settings.window.get()).unwrap_or(usize::MAX)
    }

    /// The streams of patterns.
    fn pairs(&self, patterns: Vec<Pattern>) -> Vec<Pair> {
        // Trees tell neighbouring values apart at their lowest level only, and the ends of the domain at all of them.
        // A mean tells its ends apart best.
        let far = match self.kind {
            _ if self.settings.numbers.is_some() => self.settings.domain - 1,
            LocalKind::Mtsp | LocalKind::MtspPopulation => self.settings.domain - 1,
            _ => 1,
        };
        let pair = |pattern: Pattern| Pair {
            name: pattern.name,
            one: Input::Values(pattern.bits.iter().map(|(one, _)| one * far).collect()),
            other: Input::Values(pattern.bits.iter().map(|(_, other)| other * far).collect()),
        };
        patterns.into_iter().map(pair).collect()
    }

    /// How many timestamps are run: every window that a change can touch, and the first decision after it.
    fn length(&self) -> usize {
        self.window().saturating_mul(2) + 1
    }
}

/// All local mechanisms.
///
/// # Errors
/// A domain that is none of numbers.
pub(super) fn targets(settings: &AuditSettings) -> Result<Vec<Box<dyn Target>>, RunError> {
    let of_values = LocalKind::ALL.into_iter().map(|kind| Ok(LocalTarget::new(kind, settings)));
    let with_means = LocalKind::ALL.into_iter().filter(|kind| kind.releases_means());
    let of_numbers = with_means.map(|kind| LocalTarget::of_numbers(kind, settings));
    of_values.chain(of_numbers).map(|target| Ok(Box::new(target?) as Box<dyn Target>)).collect()
}

/// How many rounds of questions a timestamp has at most.
const ROUNDS: usize = 2;

/// What a transcript has of a round: what was asked of whom, at what price, and what the device answered.
const PER_ROUND: usize = 5;

impl Target for LocalTarget {
    fn name(&self) -> &'static str {
        if self.settings.numbers.is_none() {
            return self.kind.mechanism().name();
        }
        match self.kind {
            LocalKind::Lbu => "lbu_mean",
            LocalKind::Lsp => "lsp_mean",
            LocalKind::Lbd => "lbd_mean",
            LocalKind::Lba => "lba_mean",
            LocalKind::Lpu => "lpu_mean",
            LocalKind::Lpd => "lpd_mean",
            LocalKind::Lpa => "lpa_mean",
            other => other.mechanism().name(),
        }
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Local
    }

    fn guarantee(&self) -> String {
        format!("LDP of any {} timestamps of a user", self.settings.window)
    }

    fn claimed(&self) -> f64 {
        self.settings.epsilon.as_f64()
    }

    fn neighbours(&self) -> Vec<Pair> {
        self.pairs(patterns(self.length(), self.window()))
    }

    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        self.pairs(patterns_everywhere(self.length(), self.window()))
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let Input::Values(values) = input else { return Err(other_input(self)) };
        let mut mechanism = Local::new(self.kind, self.settings).map_err(RunError::unsupported)?;
        let policy = policy(&self.settings);
        #[allow(clippy::cast_possible_truncation)] // slots are counted modulo 2^16
        let slot = |user: u16| (u32::from(user) * SLOTS / u32::from(OTHERS + 1)) as u16;
        let mut devices: Vec<Device> = (0..=OTHERS).map(|user| Device::new(policy, slot(user))).collect();
        let mut transcript = Vec::with_capacity(values.len() * (2 + ROUNDS * PER_ROUND));
        for (timestamp, value) in (0_u64..).zip(values) {
            let mut step = mechanism.open(timestamp).map_err(RunError::failed)?;
            let mut rounds = 0;
            let release = loop {
                let questions = match step {
                    Step::Done(release) => break release,
                    Step::Ask(questions) => questions,
                };
                rounds += 1;
                let mut seen = vec![0.0; PER_ROUND];
                let mut answers = Vec::with_capacity(questions.len());
                for question in &questions {
                    answers.push(ask(question, *value, &mut devices, &mut seen, random)?);
                }
                transcript.extend(seen);
                step = mechanism.answer(&questions, &answers).map_err(RunError::failed)?;
            };
            if rounds > ROUNDS {
                return Err(RunError::failed(format!("{} asked {rounds} times at one timestamp", self.kind)));
            }
            transcript.extend(std::iter::repeat_n(0.0, (ROUNDS - rounds) * PER_ROUND));
            transcript.extend([freshness(release.freshness), spent(&release.spent)]);
        }
        Ok(transcript)
    }

    fn exact(&self) -> Result<Option<f64>, RunError> {
        exact::local::largest_loss(self.kind, &self.settings)
    }
}

/// Puts a question to all devices: the first is the audited user's, the others hold 0, 1, 0, 1, ... all the time. What
/// the collector sees of the audited one goes into `seen`.
fn ask(
    question: &Question,
    value: u32,
    devices: &mut [Device],
    seen: &mut [f64],
    random: &mut SeededRandom,
) -> Result<Option<Estimate>, RunError> {
    let oracle = question.oracle().map_err(RunError::failed)?;
    let mut aggregate = oracle.aggregate();
    for (user, device) in (0_u32..).zip(devices.iter_mut()) {
        let held = if user == 0 { value } else { user % 2 };
        match device.answer(question.timestamp, question, held, random) {
            Ok(report) => {
                aggregate.add(report.as_bytes()).map_err(RunError::failed)?;
                if user == 0 {
                    let first = match question.cohort {
                        Cohort::Everyone => SLOTS,
                        Cohort::Slots { first, .. } => u32::from(first),
                    };
                    let told = supported(&oracle, report.as_bytes(), |value| question.cell_of(value), question.domain)?;
                    let asked = [f64::from(first), f64::from(question.cohort.slots()), f64::from(question.cells())];
                    seen[..3].copy_from_slice(&asked);
                    seen[3] = question.epsilon.as_f64();
                    // One more, so that a report that supports nothing is not taken for none.
                    seen[4] = told + 1.0;
                }
            }
            Err(AnswerError::NotAsked) => {}
            Err(refused) => return Err(RunError::failed(refused)),
        }
    }
    Ok(aggregate.estimate().ok())
}
