//! Local mechanisms and the users who answer them: simulated one by one, or all at once.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use tidegate::local::mtsp::GroupAverage;
use tidegate::local::plbu::Plbu;
use tidegate::local::{Local, LocalKind, LocalSettings, Step};
use tidegate::mechanisms::Mechanism;
use tidegate::release::{Histogram, Release, Statistic};
use tidegate_device::{Device, DevicePolicy, slot_of};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::simulation::{SimulationError, estimate_of, multinomial, sample_without_replacement};
use tidegate_kernel::{Cohort, Epsilon, Question, Randomness, SLOTS, SeededRandom, View, Window};

use crate::central::{Members, classes_and_members, domain_of, drive};
use crate::experiment::{
    CountOutcome, MeanOutcome, NumberOutcome, OnCounts, RunError, Setting, Subject, TrialSettings,
};
use crate::stream::CountStream;
use crate::subjects::listed;

/// Simulated users: they hold values at a timestamp, and are asked questions about it.
pub trait Users {
    /// A new timestamp, at which so many users hold each value. There may be more or fewer of them than before.
    fn arrive(&mut self, timestamp: u64, counts: &[u64], random: &mut SeededRandom) -> Result<(), RunError>;

    /// What the users of the question's cohort answer; `None` where it is empty.
    fn ask(&mut self, question: &Question, random: &mut SeededRandom) -> Result<Option<Estimate>, RunError>;
}

/// Users simulated all at once: a question costs O(domain), whatever their number. What comes back has the same
/// distribution as with [`Individuals`].
#[derive(Debug)]
pub struct Crowd {
    users: u64,
    slots: Slots,
    /// Who is there at the current timestamp, by value.
    present: Vec<u64>,
    /// Those of them who are in none of the cohorts asked so far.
    unasked: Vec<u64>,
    asked: Vec<Cohort>,
    /// Length of all reports so far.
    bytes: u64,
}

/// How many users there are in the slots before a slot.
#[derive(Debug)]
enum Slots {
    /// For each slot, and in all.
    Drawn(Vec<u64>),
    /// For those that were asked about so far; the others are drawn when they are needed.
    Lazy(BTreeMap<u32, u64>),
}

impl Slots {
    fn before(&mut self, slot: u32, random: &mut SeededRandom) -> Result<u64, SimulationError> {
        let known = match self {
            Self::Drawn(all) => return Ok(all[slot as usize]),
            Self::Lazy(known) => known,
        };
        let lower = known.range(..=slot).next_back().map(|(slot, users)| (*slot, *users)).unwrap_or_default();
        if lower.0 == slot {
            return Ok(lower.1);
        }
        let upper = known.range(slot..).next().map(|(slot, users)| (*slot, *users)).unwrap_or((SLOTS, lower.1));
        let weights = [f64::from(slot - lower.0), f64::from(upper.0 - slot)];
        let users = lower.1 + multinomial(upper.1 - lower.1, &weights, random)?[0];
        known.insert(slot, users);
        Ok(users)
    }
}

impl Crowd {
    /// So many users, each in a random slot, which is drawn when somebody asks for it: the same distribution as
    /// [`Crowd::new`], at a cost that grows with the questions rather than with the slots.
    pub fn lazy(users: u64) -> Self {
        Self::with_slots(users, Slots::Lazy(BTreeMap::from([(0, 0), (SLOTS, users)])))
    }

    const fn with_slots(users: u64, slots: Slots) -> Self {
        Self { users, slots, present: Vec::new(), unasked: Vec::new(), asked: Vec::new(), bytes: 0 }
    }

    /// So many users, each in a random slot.
    pub fn new(users: u64, random: &mut SeededRandom) -> Result<Self, RunError> {
        let slots = if users < u64::from(SLOTS) {
            let mut slots = vec![0; SLOTS as usize];
            (0..users).for_each(|_| slots[(random.next_word() >> 48) as usize] += 1);
            slots
        } else {
            multinomial(users, &vec![1.0; SLOTS as usize], random).map_err(RunError::failed)?
        };
        let running = slots.iter().scan(0, |total, slot| {
            *total += slot;
            Some(*total)
        });
        Ok(Self::with_slots(users, Slots::Drawn(std::iter::once(0).chain(running).collect())))
    }

    /// Returns the length of all reports that were sent, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many users the slots of a cohort have.
    fn members(&mut self, cohort: Cohort, random: &mut SeededRandom) -> Result<u64, SimulationError> {
        let Cohort::Slots { first, count } = cohort else { return Ok(self.users) };
        let (first, end) = (u32::from(first), u32::from(first) + count);
        let before = self.slots.before(first, random)?;
        if end <= SLOTS {
            Ok(self.slots.before(end, random)? - before)
        } else {
            Ok(self.users - before + self.slots.before(end - SLOTS, random)?)
        }
    }

    /// The values of a cohort's members who are present.
    fn sample(&mut self, cohort: Cohort, random: &mut SeededRandom) -> Result<Vec<u64>, SimulationError> {
        if cohort == Cohort::Everyone {
            return Ok(self.present.clone());
        }
        // Users of cohorts that do not overlap are different users. Where a cohort overlaps an earlier one, which the
        // mechanisms only do between rounds of questions, everyone can be asked again.
        if self.asked.iter().any(|earlier| !disjoint(*earlier, cohort)) {
            self.asked.clear();
            self.unasked.clone_from(&self.present);
        }
        // Of the users in slots not asked so far, those present are any.
        let mut unasked_users = self.users;
        for place in 0..self.asked.len() {
            unasked_users -= self.members(self.asked[place], random)?;
        }
        let unasked_present = self.unasked.iter().sum::<u64>().min(unasked_users);
        let members = self.members(cohort, random)?;
        let members_present =
            sample_without_replacement(unasked_present, &[members, unasked_users - members], random)?[0];
        let drawn = sample_without_replacement(members_present, &self.unasked, random)?;
        self.unasked.iter_mut().zip(&drawn).for_each(|(unasked, drawn)| *unasked -= drawn);
        self.asked.push(cohort);
        Ok(drawn)
    }
}

impl Users for Crowd {
    fn arrive(&mut self, _timestamp: u64, counts: &[u64], _random: &mut SeededRandom) -> Result<(), RunError> {
        self.present = counts.to_vec();
        self.unasked = counts.to_vec();
        self.asked.clear();
        Ok(())
    }

    fn ask(&mut self, question: &Question, random: &mut SeededRandom) -> Result<Option<Estimate>, RunError> {
        let values = self.sample(question.cohort, random).map_err(RunError::failed)?;
        let cells = match question.view {
            View::Values | View::Mean => values,
            View::Sequence { .. } => return Err(RunError::failed("a crowd has no sequences")),
            View::Ranges(_) => {
                let mut cells = vec![0; question.cells() as usize];
                (0_u32..).zip(values).for_each(|(value, count)| cells[question.cell_of(value) as usize] += count);
                cells
            }
        };
        let reports = cells.iter().sum::<u64>();
        if reports == 0 {
            return Ok(None);
        }
        let oracle = question.oracle().map_err(RunError::failed)?;
        self.bytes = self.bytes.saturating_add(reports.saturating_mul(oracle.report_length() as u64));
        estimate_of(&oracle, &cells, random).map(Some).map_err(RunError::failed)
    }
}

/// Whether two ranges of slots have none in common.
fn disjoint(a: Cohort, b: Cohort) -> bool {
    match (a, b) {
        (Cohort::Slots { first: a, count: a_count }, Cohort::Slots { first: b, count: b_count }) => {
            u32::from(b.wrapping_sub(a)) >= a_count && u32::from(a.wrapping_sub(b)) >= b_count
        }
        _ => false,
    }
}

/// Users simulated one by one: each is a device with a ledger of its own, which answers as a real one would.
#[derive(Debug)]
pub struct Individuals {
    devices: Vec<Device>,
    /// The value of each user at the current timestamp; users beyond its end are away.
    values: Vec<u32>,
    now: u64,
}

impl Individuals {
    /// So many users, enrolled with a policy, each in the slot that a random key gives it.
    pub fn new(users: u32, policy: DevicePolicy, random: &mut SeededRandom) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&random.next_word().to_le_bytes());
        key[8..].copy_from_slice(&random.next_word().to_le_bytes());
        let device = |user: u32| Device::new(policy, slot_of(&key, &user.to_le_bytes()));
        Self { devices: (0..users).map(device).collect(), values: Vec::new(), now: 0 }
    }

    /// The most that any device's own ledger has recorded for the window that ends at a timestamp; `None` where none
    /// has spent anything in it.
    pub fn most_spent(&self, timestamp: u64) -> Option<Epsilon> {
        self.devices.iter().filter_map(|device| device.spent_in_window(timestamp)).max()
    }
}

impl Users for Individuals {
    /// Deals the values out anew, to random users.
    fn arrive(&mut self, timestamp: u64, counts: &[u64], random: &mut SeededRandom) -> Result<(), RunError> {
        self.now = timestamp;
        self.values.clear();
        for (value, count) in (0_u32..).zip(counts) {
            let count = usize::try_from(*count).map_err(RunError::failed)?;
            self.values.extend(std::iter::repeat_n(value, count));
        }
        for last in (1..self.values.len()).rev() {
            let bound = NonZeroU64::new(last as u64 + 1).unwrap_or(NonZeroU64::MIN);
            #[allow(clippy::cast_possible_truncation)] // at most `last`, a usize
            let other = tidegate_kernel::noise::Below::new(bound).sample(random) as usize;
            self.values.swap(last, other);
        }
        Ok(())
    }

    fn ask(&mut self, question: &Question, random: &mut SeededRandom) -> Result<Option<Estimate>, RunError> {
        let mut aggregate = question.oracle().map_err(RunError::failed)?.aggregate();
        for (device, value) in self.devices.iter_mut().zip(&self.values) {
            match device.answer(self.now, question, *value, random) {
                Ok(report) => aggregate.add(report.as_bytes()).map_err(RunError::failed)?,
                Err(tidegate_device::AnswerError::NotAsked) => {}
                Err(refused) => return Err(RunError::failed(refused)),
            }
        }
        Ok(aggregate.estimate().ok())
    }
}

/// Drives a mechanism through one timestamp.
pub fn run_timestamp(
    mechanism: &mut Local,
    timestamp: u64,
    users: &mut impl Users,
    random: &mut SeededRandom,
) -> Result<Release, RunError> {
    let mut step = mechanism.open(timestamp).map_err(RunError::failed)?;
    loop {
        match step {
            Step::Done(release) => return Ok(release),
            Step::Ask(questions) => {
                let answers: Result<Vec<_>, _> = questions.iter().map(|question| users.ask(question, random)).collect();
                step = mechanism.answer(&questions, &answers?).map_err(RunError::failed)?;
            }
        }
    }
}

/// Drives a mechanism through a whole stream, handing each release to `sink`.
pub fn run_stream(
    mechanism: &mut Local,
    stream: &CountStream,
    users: &mut impl Users,
    random: &mut SeededRandom,
    mut sink: impl FnMut(Release),
) -> Result<(), RunError> {
    for (timestamp, counts) in (0_u64..).zip(stream.counts()) {
        users.arrive(timestamp, counts, random)?;
        sink(run_timestamp(mechanism, timestamp, users, random)?);
    }
    Ok(())
}

/// What a local mechanism needs to know of a stream and the settings of an experiment.
pub fn local_settings(stream: &CountStream, settings: &TrialSettings) -> LocalSettings {
    let users = (0..stream.length()).map(|timestamp| stream.population(timestamp)).max();
    let domain = u32::try_from(stream.domain()).unwrap_or(u32::MAX);
    let users = users.and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN);
    LocalSettings {
        oracle: settings.oracle,
        reuse: settings.reuse,
        smoother: if settings.median { GroupAverage::Median } else { GroupAverage::Mean },
        ..LocalSettings::new(settings.epsilon, settings.window, domain, users)
    }
}

/// Drives a mechanism through a whole stream, answered by a [`Crowd`].
pub(crate) fn run_local(
    mut mechanism: Local,
    mut users: Crowd,
    stream: &CountStream,
    mut smooth: impl FnMut(Release) -> Release,
    random: &mut SeededRandom,
) -> Result<CountOutcome, RunError> {
    let mut outcome = CountOutcome {
        frequencies: Vec::with_capacity(stream.length()),
        of_counts: false,
        variances: Vec::new(),
        trees: Vec::new(),
        reports: 0,
        bytes: 0,
    };
    run_stream(&mut mechanism, stream, &mut users, random, |release| {
        let release = smooth(release);
        outcome.reports += release.reports;
        match release.statistic {
            Statistic::Histogram(histogram) => outcome.push(histogram),
            Statistic::Counts(counts) => outcome.push(counts.histogram(None)),
            Statistic::Tree(tree) => {
                let (frequencies, variances) = tree.leaves();
                outcome.push(Histogram { frequencies: frequencies.to_vec(), variances: variances.to_vec() });
                outcome.trees.push(tree);
            }
            // A stream of counts has no numbers to average.
            Statistic::Number(_) | Statistic::Symbol(_) => {}
        }
    })?;
    outcome.bytes = users.bytes();
    Ok(outcome)
}

/// Drives a mechanism for means through a whole stream, answered by a [`Crowd`].
fn run_means(
    mut mechanism: Local,
    mut users: Crowd,
    stream: &CountStream,
    mut smooth: impl FnMut(Release) -> Release,
    random: &mut SeededRandom,
) -> Result<MeanOutcome, RunError> {
    let (mut values, mut variances, mut reports) = (Vec::new(), Vec::new(), 0);
    run_stream(&mut mechanism, stream, &mut users, random, |release| {
        let release = smooth(release);
        reports += release.reports;
        values.extend(release.statistic.number().map(|number| number.value));
        variances.extend(release.statistic.number().map(|number| number.variance));
    })?;
    Ok(MeanOutcome { released: NumberOutcome { values, variances }, reports, bytes: users.bytes() })
}

/// A local mechanism, answered by a [`Crowd`].
#[derive(Clone, Copy, Debug)]
pub struct LocalSubject(pub LocalKind);

/// All local mechanisms.
pub fn subjects() -> Vec<&'static dyn Subject> {
    static ALL: [LocalSubject; LocalKind::ALL.len()] = {
        let mut all = [LocalSubject(LocalKind::Lbu); LocalKind::ALL.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = LocalSubject(LocalKind::ALL[place]);
            place += 1;
        }
        all
    };
    let by_class: &'static dyn Subject = &PlbuSubject;
    ALL.iter().map(|subject| subject as &dyn Subject).chain([by_class]).collect()
}

impl LocalSubject {
    const fn listed(&self) -> &'static Mechanism {
        self.0.mechanism()
    }
}

impl Subject for LocalSubject {
    listed!();

    fn uses(&self) -> &'static [Setting] {
        &[Setting::Window, Setting::Oracle]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for LocalSubject {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let local = local_settings(stream, settings);
        let mechanism = Local::new(self.0, local).map_err(RunError::unsupported)?;
        let users = Crowd::new(local.population.get(), random)?;
        run_local(mechanism, users, stream, settings.smoothing(), random)
    }

    fn run_mean(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<MeanOutcome, RunError> {
        let truth = stream.means().ok_or_else(|| RunError::unsupported("nobody has a mean"))?;
        let local = LocalSettings { numbers: Some(*truth.grid()), ..local_settings(stream, settings) };
        let mechanism = Local::new(self.0, local).map_err(RunError::unsupported)?;
        let users = Crowd::new(local.population.get(), random)?;
        run_means(mechanism, users, stream, settings.smoothing(), random)
    }
}

/// The policy of devices that take part in a mechanism with these settings.
pub const fn policy(settings: &LocalSettings) -> DevicePolicy {
    DevicePolicy { epsilon: settings.epsilon, window: Window::Timestamps(settings.window), domain: settings.domain }
}

/// The personalised local baseline, answered by a simulated crowd of each class.
#[derive(Clone, Copy, Debug)]
pub struct PlbuSubject;

impl PlbuSubject {
    const fn listed(&self) -> &'static Mechanism {
        LocalKind::Plbu.mechanism()
    }
}

impl Subject for PlbuSubject {
    listed!();

    fn uses(&self) -> &'static [Setting] {
        &[Setting::Window, Setting::Oracle, Setting::Classes]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for PlbuSubject {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let smooth = settings.smoothing();
        let (classes, members) = classes_and_members(stream, settings, random)?;
        let domain = domain_of(stream);
        let mechanism = Plbu::new(classes, domain, settings.oracle).map_err(RunError::unsupported)?;
        run_plbu(mechanism, &members, stream, smooth, random)
    }
}

/// Drives the personalised baseline through a whole stream, answered by a simulated crowd of each class.
pub(crate) fn run_plbu(
    mut mechanism: Plbu,
    members: &Members,
    stream: &CountStream,
    smooth: impl FnMut(Release) -> Release,
    random: &mut SeededRandom,
) -> Result<CountOutcome, RunError> {
    let mut bytes = 0;
    let outcome = drive(stream, smooth, |timestamp, counts| {
        let split = members.split(counts, random)?;
        let questions = mechanism.open(timestamp).map_err(RunError::failed)?;
        let answers = questions.iter().zip(split.chunks(stream.domain())).map(|(question, counts)| {
            if counts.iter().all(|count| *count == 0) {
                return Ok(None);
            }
            let oracle = question.oracle().map_err(RunError::failed)?;
            bytes += counts.iter().sum::<u64>() * oracle.report_length() as u64;
            estimate_of(&oracle, counts, random).map(Some).map_err(RunError::failed)
        });
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        mechanism.answer(timestamp, &answers).map_err(RunError::failed)
    })?;
    Ok(CountOutcome { bytes, ..outcome })
}
