//! Jumps that must be told in time, and monitors that must fire.
//!
//! The noise scale `b` is `w / epsilon` users for central mechanisms, and the standard deviation that `lpu` states for
//! its estimates for local ones. A quiet stream jumps by some `b` and stays there. A timestamp *tells* of the jump if
//! the release is within a quarter of the jump of the truth, or the truth within 1.96 stated standard deviations of the
//! release.
//!
//! - A jump of 20 `b` is told in time if one of the first three timestamps tells of it, its own included.
//! - A jump of 5 `b` is told in time if half of the timestamps of the second window tell of it. A single one may do so
//!   by chance.

use std::num::NonZeroU64;

use serde::Serialize;
use tidegate::central::{Central, CentralKind, CentralSettings};
use tidegate::query::{Monitor, Query, Rule};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom, Window};

use super::grid::contestants;
use super::{AccuracyError, Options, Part};
use crate::central::domain_of;
use crate::experiment::{CountOutcome, RunError, Subject, TrialSettings, dataset_random, in_parallel, repeat_random};
use crate::generate::Levels;
use crate::metrics::{is_covered, mean};
use crate::stream::{CountStream, StreamKind, as_float};
use crate::subjects;

/// Share of the runs that must tell of a jump in time.
pub(super) const SHARE_TOLD: f64 = 0.95;

/// The value that jumps.
const JUMPING: usize = 2;

/// Users of the quiet streams.
const CENTRAL_USERS: [u64; 2] = [1_000, 1_000_000];
const LOCAL_USERS: [u64; 1] = [100_000_000];

const EPSILONS: [&str; 3] = ["0.1", "1", "4"];
const WINDOWS: [u64; 3] = [1, 10, 50];

/// Jumps of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Central or local.
    pub part: Part,
    /// The mechanism.
    pub subject: &'static str,
    /// Users before the jump.
    pub users: u64,
    /// Budget of a window.
    pub epsilon: &'static str,
    /// The window.
    pub window: u64,
    /// The jump, in noise scales.
    pub scales: u64,
    /// Runs that tell of it in time.
    pub told: usize,
    /// All runs.
    pub runs: usize,
}

/// A monitor on the stream `queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// The rule.
    pub rule: &'static str,
    /// Runs in which it fires during the incident.
    pub fired: usize,
    /// Runs in which it fires at some other time before.
    pub false_alarms: usize,
    /// All runs.
    pub runs: usize,
}

/// Results on jumps and monitors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Incidents {
    /// Jumps.
    pub told: Vec<Told>,
    /// Monitors.
    pub fired: Vec<Fired>,
}

impl Incidents {
    /// Share of the runs that tell in time of jumps of a size; `None` if there are none.
    pub fn share(&self, part: Part, scales: u64) -> Option<f64> {
        let fitting = || self.told.iter().filter(|told| told.part == part && told.scales == scales);
        let runs: usize = fitting().map(|told| told.runs).sum();
        let told: usize = fitting().map(|told| told.told).sum();
        (runs > 0).then(|| as_float(told as u64) / as_float(runs as u64))
    }
}

/// Runs jumps and monitors.
pub(super) fn run(options: &Options, progress: &dyn Fn(&str)) -> Result<Incidents, AccuracyError> {
    let mut told = Vec::new();
    for (part, users) in [(Part::Central, &CENTRAL_USERS[..]), (Part::Local, &LOCAL_USERS[..])] {
        let subject = subjects::by_name(contestants(part).0)?;
        let epsilons = if options.quick { &EPSILONS[1..2] } else { &EPSILONS[..] };
        let windows = if options.quick { &WINDOWS[1..2] } else { &WINDOWS[..] };
        for &users in users {
            for &epsilon in epsilons {
                for &window in windows {
                    for scales in [20, 5].into_iter().filter(|scales| *scales == 20 || window >= 10) {
                        let jump = Jump { part, subject, users, epsilon, window, scales };
                        told.extend(jump.run(options)?);
                    }
                }
            }
            progress(&format!("incidents: {}, {users} users", subject.name()));
        }
    }
    let fired = monitors(options)?;
    progress("incidents: monitors");
    Ok(Incidents { told, fired })
}

struct Jump {
    part: Part,
    subject: &'static dyn Subject,
    users: u64,
    epsilon: &'static str,
    window: u64,
    scales: u64,
}

impl Jump {
    /// `None` if there are too few users for the jump.
    fn run(&self, options: &Options) -> Result<Option<Told>, AccuracyError> {
        let &Self { part, subject, users, epsilon, window, scales } = self;
        let settings = TrialSettings::new(epsilon.parse()?, NonZeroU64::new(window).unwrap_or(NonZeroU64::MIN));
        let span = usize::try_from(window).unwrap_or(usize::MAX);
        let start = (2 * span).max(40);
        let length = start + (2 * span).max(3);
        let quiet = Levels::Constant.generate(users, length, &mut dataset_random(options.seed))?;
        let scale = match part {
            Part::Local => deviation_of_lpu(&quiet, &settings, options.seed)? * as_float(users),
            _ => as_float(window) / settings.epsilon.as_f64(),
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // compared with the number of users
        let jump = (as_float(scales) * scale).ceil() as u64;
        let mut counts = quiet.counts().to_vec();
        for row in &mut counts[start..] {
            // Of local mechanisms, the number of users stays the same.
            if part == Part::Local {
                let Some(left) = row[0].checked_sub(jump) else { return Ok(None) };
                row[0] = left;
            }
            row[JUMPING] += jump;
        }
        let stream = CountStream::new("jump", quiet.labels().to_vec(), counts)?;
        let repeats = usize::try_from(options.repeats.get()).unwrap_or(usize::MAX);
        let runs = in_parallel(repeats, options.threads, |repeat| {
            let outcome = run_counts(subject, &stream, &settings, options.seed, repeat)?;
            let tells = |timestamp: usize| tells(&stream, &outcome, timestamp, jump);
            Ok::<bool, AccuracyError>(if scales == 20 {
                (start..start + 3).any(tells)
            } else {
                2 * (start + span..start + 2 * span).filter(|timestamp| tells(*timestamp)).count() >= span
            })
        })?;
        let told = runs.iter().filter(|told| **told).count();
        let subject = subject.name();
        Ok(Some(Told { part, subject, users, epsilon, window, scales, told, runs: runs.len() }))
    }
}

fn run_counts(
    subject: &dyn Subject,
    stream: &CountStream,
    settings: &TrialSettings,
    seed: u64,
    repeat: usize,
) -> Result<CountOutcome, AccuracyError> {
    let misfit = || subjects::Misfit::boxed(subject, StreamKind::Counts, stream.name());
    let runner = subject.on_counts().ok_or_else(misfit).map_err(RunError::from)?;
    Ok(runner.run(stream, settings, &mut repeat_random(seed, repeat as u64))?)
}

fn tells(stream: &CountStream, outcome: &CountOutcome, timestamp: usize, jump: u64) -> bool {
    let released = outcome.frequencies[timestamp][JUMPING];
    let truth = stream.frequencies(timestamp)[JUMPING];
    let variance = outcome.variances.get(timestamp).and_then(|row| row.get(JUMPING)).copied().unwrap_or(0.0);
    let near = (released - truth).abs() * as_float(stream.population(timestamp)) <= as_float(jump) / 4.0;
    near || is_covered(released, truth, variance)
}

/// The standard deviation that `lpu` states for the value that jumps.
fn deviation_of_lpu(stream: &CountStream, settings: &TrialSettings, seed: u64) -> Result<f64, AccuracyError> {
    let outcome = run_counts(subjects::by_name("lpu")?, stream, settings, seed, 0)?;
    let variances: Vec<f64> = outcome.variances.iter().filter_map(|row| row.get(JUMPING).copied()).collect();
    Ok(mean(variances.into_iter()).sqrt())
}

/// Budget and window of the monitored stream.
const QUEUE_EPSILON: &str = "1";
const QUEUE_WINDOW: NonZeroU64 = NonZeroU64::MIN.saturating_add(23);

/// Monitors on what `central.track` releases of the stream `queue`.
fn monitors(options: &Options) -> Result<Vec<Fired>, AccuracyError> {
    let stream = Levels::Queue.generate(1, options.length, &mut dataset_random(options.seed))?;
    let incident = Levels::incident(options.length);
    let last = domain_of(&stream) - 1;
    let count = Query::counting(last, 1).in_counts();
    let rules = [
        ("count above 250", Rule::above(count, 250.0)),
        ("count rises by 250 from one timestamp to the next", Rule::rising(count, 250.0)),
        ("count above 100 with confidence 0.95", Rule::above(count, 100.0).with_confidence(0.95)),
    ];
    let repeats = usize::try_from(options.repeats.get()).unwrap_or(usize::MAX);
    let epsilon: Epsilon = QUEUE_EPSILON.parse()?;
    let runs = in_parallel(repeats, options.threads, |repeat| {
        let mut random = repeat_random(options.seed, repeat as u64);
        active_at(&stream, epsilon, &rules.map(|(_, rule)| rule), &mut random)
    })?;
    let fired = rules.iter().enumerate().map(|(number, (rule, _))| {
        let count = |during: &dyn Fn(usize) -> bool| {
            runs.iter().filter(|active| active[number].iter().any(|timestamp| during(*timestamp))).count()
        };
        Fired {
            rule,
            fired: count(&|timestamp| incident.contains(&timestamp)),
            false_alarms: count(&|timestamp| timestamp < incident.start),
            runs: runs.len(),
        }
    });
    Ok(fired.collect())
}

/// For each rule, the timestamps at which an event is active.
fn active_at(
    stream: &CountStream,
    epsilon: Epsilon,
    rules: &[Rule],
    random: &mut SeededRandom,
) -> Result<Vec<Vec<usize>>, AccuracyError> {
    let settings = CentralSettings::new(epsilon, QUEUE_WINDOW, domain_of(stream));
    let mut mechanism = Central::new(CentralKind::Track, settings).map_err(RunError::unsupported)?;
    let window = Window::Timestamps(QUEUE_WINDOW);
    let mut monitors = rules.iter().map(|rule| Monitor::new(*rule, window)).collect::<Result<Vec<_>, _>>()?;
    let mut active = vec![Vec::new(); rules.len()];
    for (timestamp, counts) in (0_u64..).zip(stream.counts()) {
        let sealed = Sealed::at(mechanism.ledger().account(), timestamp, counts.clone());
        for release in mechanism.push(&sealed, random).map_err(RunError::failed)? {
            for (monitor, active) in monitors.iter_mut().zip(&mut active) {
                if monitor.push(&release, None)?.active {
                    active.push(usize::try_from(release.timestamp).unwrap_or(usize::MAX));
                }
            }
        }
    }
    Ok(active)
}
