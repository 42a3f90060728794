//! Central mechanisms: counts of users, to which one user is added, or in which one user moves.

use std::num::NonZeroU64;

use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::personal_track::PersonalTrack;
use tidegate::central::{Central, CentralKind, CentralSettings, Estimator, Personal, PersonalKind, PersonalSettings};
use tidegate::local::plbu::Plbu;
use tidegate::release::Release;
use tidegate_device::{Device, DevicePolicy};
use tidegate_kernel::primitives::{ClassHistograms, Neighbours};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom, Window};

use super::patterns::{Pattern, patterns, patterns_everywhere};
use super::{freshness, other_input, spent, stated};
use crate::audit::targets::oracle::supported;
use crate::audit::{AuditSettings, Input, Pair, Target, TargetFamily, Transcript, exact};
use crate::experiment::RunError;

/// How many other users hold each value: few, since what they hold is known to the attacker.
const OTHERS: u64 = 2;

/// All central mechanisms; those with classes once for each class.
pub(super) fn targets(settings: &AuditSettings) -> Result<Vec<Box<dyn Target>>, RunError> {
    let mut targets: Vec<Box<dyn Target>> = Vec::new();
    for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
        for kind in CentralKind::ALL {
            targets.push(Box::new(CentralTarget::new(kind, settings, neighbours)));
        }
    }
    for kind in PersonalKind::ALL {
        for estimator in [Estimator::Stratified, Estimator::Sampling] {
            for class in 0..CLASSES {
                targets.push(Box::new(PersonalTarget::new(Some(kind), estimator, class, settings)?));
            }
        }
    }
    for class in 0..CLASSES {
        targets.push(Box::new(PersonalTarget::new(None, Estimator::Stratified, class, settings)?));
    }
    for class in 0..CLASSES {
        targets.push(Box::new(PlbuTarget { classes: classes(settings)?, class, domain: settings.domain }));
    }
    Ok(targets)
}

/// How many timestamps are run: the window that differs, one before it or after it, and the first decision after that.
fn length(window: NonZeroU64) -> usize {
    usize::try_from(window.get()).unwrap_or(usize::MAX).saturating_mul(2) + 1
}

fn in_timestamps(window: NonZeroU64) -> usize {
    usize::try_from(window.get()).unwrap_or(usize::MAX)
}

/// The streams of two patterns: the others stand still, and one user comes and goes or moves. Where the pattern has the
/// same bit in both streams there is no difference.
fn pair(pattern: &Pattern, neighbours: Neighbours, cells: usize, class_start: usize) -> Pair {
    let counts = |bit: u32| {
        let mut counts = vec![OTHERS; cells];
        match neighbours {
            Neighbours::AddRemove => counts[class_start] += u64::from(bit),
            Neighbours::Replace => counts[class_start + bit as usize] += 1,
        }
        counts
    };
    Pair {
        name: pattern.name.clone(),
        one: Input::Counts(pattern.bits.iter().map(|(one, _)| counts(*one)).collect()),
        other: Input::Counts(pattern.bits.iter().map(|(_, other)| counts(*other)).collect()),
    }
}

fn note(transcript: &mut Transcript, releases: &[Release]) {
    for release in releases {
        transcript.extend(release.statistic.leaves().0);
        transcript.extend(release.statistic.leaves().1.iter().map(|variance| stated(*variance)));
        transcript.extend([freshness(release.freshness), spent(&release.spent)]);
    }
}

/// A mechanism with one guarantee for all.
#[derive(Clone, Copy, Debug)]
pub struct CentralTarget {
    /// Which mechanism.
    pub kind: CentralKind,
    /// What it is set to.
    pub settings: CentralSettings,
}

impl CentralTarget {
    /// A mechanism as it is audited.
    pub const fn new(kind: CentralKind, settings: &AuditSettings, neighbours: Neighbours) -> Self {
        let AuditSettings { epsilon, window, domain } = *settings;
        Self { kind, settings: CentralSettings { neighbours, ..CentralSettings::new(epsilon, window, domain) } }
    }

    fn pairs(&self, patterns: fn(usize, usize) -> Vec<Pattern>) -> Vec<Pair> {
        let CentralSettings { window, domain, neighbours, .. } = self.settings;
        let all = patterns(length(window), in_timestamps(window));
        all.iter().map(|pattern| pair(pattern, neighbours, domain as usize, 0)).collect()
    }
}

impl Target for CentralTarget {
    fn name(&self) -> &'static str {
        self.kind.mechanism().name()
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Central
    }

    fn guarantee(&self) -> String {
        let who = match self.settings.neighbours {
            Neighbours::AddRemove => "presence and value",
            Neighbours::Replace => "value",
        };
        format!("DP of a user's {who} in any {} timestamps", self.settings.window)
    }

    fn claimed(&self) -> f64 {
        self.settings.epsilon.as_f64()
    }

    fn neighbours(&self) -> Vec<Pair> {
        self.pairs(patterns)
    }

    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        self.pairs(patterns_everywhere)
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let Input::Counts(stream) = input else { return Err(other_input(self)) };
        let mut mechanism = Central::new(self.kind, self.settings).map_err(RunError::unsupported)?;
        let mut transcript = Transcript::new();
        for (timestamp, counts) in (0_u64..).zip(stream) {
            let sealed = Sealed::at(mechanism.ledger().account(), timestamp, counts.clone());
            note(&mut transcript, &mechanism.push(&sealed, random).map_err(RunError::failed)?);
        }
        Ok(transcript)
    }

    fn exact(&self) -> Result<Option<f64>, RunError> {
        exact::central::largest_loss(self.kind, &self.settings)
    }
}

/// How many classes there are.
const CLASSES: usize = 2;

/// A careful class, with half of epsilon over the whole window, and a relaxed one, with all of it over a window that is
/// a timestamp shorter.
fn classes(settings: &AuditSettings) -> Result<Classes, RunError> {
    let AuditSettings { epsilon, window, .. } = *settings;
    let half = epsilon.divided_by(2).ok_or_else(|| RunError::unsupported(format!("epsilon {epsilon} has no half")))?;
    let shorter = NonZeroU64::new(window.get() - 1).unwrap_or(window);
    let requirements = [Requirement { epsilon: half, window }, Requirement { epsilon, window: shorter }];
    Classes::numbered(&requirements).map_err(RunError::unsupported)
}

/// A mechanism in which each class has a guarantee of its own, and one of its classes.
#[derive(Clone, Debug)]
pub struct PersonalTarget {
    /// Which mechanism; `None` for `personal_track`.
    pub kind: Option<PersonalKind>,
    /// What it is set to.
    pub settings: PersonalSettings,
    classes: Classes,
    class: usize,
}

impl PersonalTarget {
    /// A mechanism as it is audited, and the class that the user is in whose data differ.
    pub fn new(
        kind: Option<PersonalKind>,
        estimator: Estimator,
        class: usize,
        settings: &AuditSettings,
    ) -> Result<Self, RunError> {
        let personal = PersonalSettings { estimator, ..PersonalSettings::new(settings.domain) };
        Ok(Self { kind, settings: personal, classes: classes(settings)?, class })
    }

    fn pairs(&self, patterns: fn(usize, usize) -> Vec<Pattern>) -> Vec<Pair> {
        let Requirement { window, .. } = self.requirement();
        let domain = self.settings.domain as usize;
        let (cells, start) = (domain * self.classes.len(), domain * self.class);
        let all = patterns(length(window), in_timestamps(window));
        all.iter().map(|pattern| pair(pattern, self.settings.neighbours, cells, start)).collect()
    }

    fn requirement(&self) -> Requirement {
        self.classes.all()[self.class].requirement
    }
}

/// A mechanism with classes.
enum Machine {
    Personal(Box<Personal>),
    Track(Box<PersonalTrack>),
}

/// What a class is promised.
fn promise(Requirement { epsilon, window }: Requirement, of: &str) -> String {
    format!("{of} in any {window} timestamps, for the class of epsilon {epsilon}")
}

impl Target for PersonalTarget {
    fn name(&self) -> &'static str {
        match (self.kind, self.settings.estimator) {
            (None, _) => PersonalTrack::NAME,
            (Some(kind), Estimator::Stratified) => kind.name(),
            (Some(PersonalKind::Pbd), Estimator::Sampling) => "pbd_sampling",
            (Some(PersonalKind::Pba), Estimator::Sampling) => "pba_sampling",
        }
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Central
    }

    fn guarantee(&self) -> String {
        promise(self.requirement(), "DP of a user's presence and value")
    }

    fn claimed(&self) -> f64 {
        self.requirement().epsilon.as_f64()
    }

    fn neighbours(&self) -> Vec<Pair> {
        self.pairs(patterns)
    }

    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        self.pairs(patterns_everywhere)
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let Input::Counts(stream) = input else { return Err(other_input(self)) };
        let numbers: Vec<u32> = (0..).zip(self.classes.all()).map(|(number, _)| number).collect();
        // Who is registered is public, and the same whoever is present.
        let members = vec![OTHERS * u64::from(self.settings.domain) + 1; numbers.len()];
        let (classes, settings) = (self.classes.clone(), self.settings);
        let mut machine = match self.kind {
            Some(kind) => {
                let mechanism = Personal::new(kind, classes, settings).map_err(RunError::unsupported)?;
                Machine::Personal(Box::new(mechanism))
            }
            None => Machine::Track(Box::new(PersonalTrack::new(classes, settings).map_err(RunError::unsupported)?)),
        };
        let mut transcript = Transcript::new();
        for (timestamp, counts) in (0_u64..).zip(stream) {
            let account = match &machine {
                Machine::Personal(mechanism) => mechanism.ledgers().account(),
                Machine::Track(mechanism) => mechanism.ledgers().account(),
            };
            let sealed =
                ClassHistograms::seal(account, timestamp, &numbers, counts.clone()).map_err(RunError::failed)?;
            let released = match &mut machine {
                Machine::Personal(mechanism) => mechanism.push(&sealed, &members, random),
                Machine::Track(mechanism) => mechanism.push(&sealed, &members, random),
            };
            note(&mut transcript, &released.map_err(RunError::failed)?);
        }
        Ok(transcript)
    }
}

/// The personalised local baseline, and a device of one of its classes.
#[derive(Clone, Debug)]
pub struct PlbuTarget {
    classes: Classes,
    class: usize,
    domain: u32,
}

impl PlbuTarget {
    fn requirement(&self) -> Requirement {
        self.classes.all()[self.class].requirement
    }
}

impl Target for PlbuTarget {
    fn name(&self) -> &'static str {
        "plbu"
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Local
    }

    fn guarantee(&self) -> String {
        promise(self.requirement(), "LDP of a user's values")
    }

    fn claimed(&self) -> f64 {
        self.requirement().epsilon.as_f64()
    }

    fn neighbours(&self) -> Vec<Pair> {
        let Requirement { window, .. } = self.requirement();
        let pair = |pattern: Pattern| Pair {
            name: pattern.name,
            one: Input::Values(pattern.bits.iter().map(|(one, _)| *one).collect()),
            other: Input::Values(pattern.bits.iter().map(|(_, other)| *other).collect()),
        };
        patterns(length(window), in_timestamps(window)).into_iter().map(pair).collect()
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let Input::Values(values) = input else { return Err(other_input(self)) };
        let mut mechanism = Plbu::new(self.classes.clone(), self.domain, None).map_err(RunError::unsupported)?;
        let Requirement { epsilon, window } = self.requirement();
        let mut device =
            Device::new(DevicePolicy { epsilon, window: Window::Timestamps(window), domain: self.domain }, 0);
        let mut transcript = Transcript::new();
        for (timestamp, value) in (0_u64..).zip(values) {
            let questions = mechanism.open(timestamp).map_err(RunError::failed)?;
            // The audited device alone: what others report is independent of it, and so are the questions.
            let question = &questions[self.class];
            let report = device.answer(timestamp, question, *value, random).map_err(RunError::failed)?;
            let oracle = question.oracle().map_err(RunError::failed)?;
            transcript.push(supported(&oracle, report.as_bytes(), |value| value, self.domain)?);
            transcript.push(Epsilon::as_f64(question.epsilon));
            let mut aggregate = oracle.aggregate();
            aggregate.add(report.as_bytes()).map_err(RunError::failed)?;
            let mut answers = vec![None; self.classes.len()];
            answers[self.class] = aggregate.estimate().ok();
            note(&mut transcript, &mechanism.answer(timestamp, &answers).map_err(RunError::failed)?);
        }
        Ok(transcript)
    }

    /// The answers of a window are independent of each other, and the questions of what is answered.
    fn exact(&self) -> Result<Option<f64>, RunError> {
        let mut mechanism = Plbu::new(self.classes.clone(), self.domain, None).map_err(RunError::unsupported)?;
        let questions = mechanism.open(0).map_err(RunError::failed)?;
        let oracle = questions[self.class].oracle().map_err(RunError::failed)?;
        let of_one = exact::oracle::laws(&oracle)?.map(|laws| exact::largest_difference(&laws));
        #[allow(clippy::cast_precision_loss)] // a short window
        let timestamps = self.requirement().window.get() as f64;
        Ok(of_one.map(|loss| loss * timestamps))
    }
}
