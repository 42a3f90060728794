//! [`Observer`]: sees every report, acknowledgement and publication, keeps its own accounts, and finds violations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU64;

use serde::Deserialize;
use tidegate::central::classes::Requirement;
use tidegate::kernel::{Epsilon, Ledger, VaultKey, Window};
use tidegate::release::{Release, Spent};
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;
use tidegate_device::clock::ClockGuard;
use tidegate_kernel::Question;
use tidegate_server::driver::DriveError;
use tidegate_server::store::{Record, RecordFilter, RecordKind, Store, StreamRecord};
use tidegate_server::stream::Declaration;

use super::classes::Wishes;
use super::faults::Released;

/// Invariant of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Invariant {
    /// Every publication is paid for in the durable state.
    PublishedIsDebited,
    /// No device spends more than epsilon in any window.
    DeviceWindow,
    /// No two different reports of a device for one phase.
    ReportsAreDrawnOnce,
    /// A curated stream spends at most epsilon in any window.
    LedgerWindow,
    /// A report counts at most once.
    CountedAtMostOnce,
    /// An acknowledged report counts in the release of its timestamp.
    AcknowledgedIsCounted,
    /// A record that was read never changes.
    ReleasesNeverChange,
    /// A timestamp is released once.
    ReleasedOnce,
    /// Records are deleted when the retention says so, and not before.
    RecordsAreKept,
    /// Versions and timestamps only grow.
    NeverBackwards,
    /// Nobody counts in two classes within a window, nor after leaving, and who never moves counts.
    ClassesAreKept,
    /// A tick that lost events is not released.
    TicksAreWhole,
    /// Nothing fails without a fault.
    FailsForAReason,
    /// Streams go on once there are no faults.
    GoesOn,
}

/// A violated invariant, and where it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) seed: u64,
    pub(super) step: u64,
    pub(super) invariant: Invariant,
    pub(super) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, invariant, what } = self;
        write!(formatter, "seed {seed}, step {step}: {invariant:?}: {what} (TIDEGATE_SEED={seed} repeats it)")
    }
}

/// State of a stream as its driver saves it.
#[derive(Deserialize)]
#[allow(dead_code)] // the order of all fields is the format
struct Saved {
    version: u16,
    last: Option<u64>,
    not_before: u64,
    due: Option<u64>,
    round: u64,
    clock: Option<(ClockGuard, [u8; 16])>,
    stream: Vec<u8>,
}

/// A report.
pub(super) type Identity = [u8; 16];

#[derive(Debug, Default)]
struct Reports {
    /// Reports that may count: sent, with an unknown outcome.
    possible: BTreeSet<Identity>,
    /// Reports that were acknowledged.
    acknowledged: BTreeSet<Identity>,
    /// Acknowledgements as new, for each report.
    accepted: BTreeMap<Identity, u64>,
}

#[derive(Debug, Default)]
struct Seen {
    records: BTreeMap<u64, (u64, String)>,
    said: BTreeMap<u64, (u64, String)>,
    /// Whether the state was replaced since the last record, so that numbers may be left out.
    anew: bool,
    version: u64,
    /// Number of reports in the release of each timestamp.
    reports: BTreeMap<u64, u64>,
}

/// Knowledge about a person's data, over all streams.
#[derive(Debug, Default)]
struct Account {
    /// Report and cost of each phase.
    reported: BTreeMap<(String, u64, u16), (Vec<u8>, u64)>,
}

#[derive(Debug)]
pub(super) struct Observer {
    seed: u64,
    pub(super) step: u64,
    key: VaultKey,
    people: BTreeMap<usize, Account>,
    reports: BTreeMap<(String, u64), Reports>,
    seen: BTreeMap<String, Seen>,
    /// Costs of a curated stream's releases, also from before its state was replaced.
    costs: BTreeMap<String, BTreeMap<(u64, String), u64>>,
    /// Processes that accepted events of a tick.
    event_holders: BTreeMap<(String, u64), BTreeSet<u64>>,
    /// Classes of the users of the stream with classes.
    pub(super) wishes: Wishes,
    released: Vec<Released>,
    /// Whether a backup was ever restored.
    pub(super) restored: bool,
    found: Option<Violation>,
}

impl Observer {
    pub(super) fn new(seed: u64, key: VaultKey) -> Self {
        Self {
            seed,
            step: 0,
            key,
            people: BTreeMap::new(),
            reports: BTreeMap::new(),
            seen: BTreeMap::new(),
            costs: BTreeMap::new(),
            event_holders: BTreeMap::new(),
            wishes: Wishes::default(),
            released: Vec::new(),
            restored: false,
            found: None,
        }
    }

    pub(super) fn found(&self) -> Option<&Violation> {
        self.found.as_ref()
    }

    /// Records the first violation.
    pub(super) fn wrong(&mut self, invariant: Invariant, what: String) {
        let (seed, step) = (self.seed, self.step);
        self.found.get_or_insert(Violation { seed, step, invariant, what });
    }

    /// A report has left a device.
    pub(super) fn left(&mut self, person: usize, declaration: &Declaration, question: &Question, report: &[u8]) {
        let Ok(Some(policy)) = declaration.policy([0; 16]) else { return };
        let Window::Timestamps(window) = policy.protects.window else { return };
        let (timestamp, phase) = (question.timestamp, question.phase);
        let account = self.people.entry(person).or_default();
        let place = (declaration.name.clone(), timestamp, phase);
        match account.reported.get(&place) {
            Some((before, _)) if before == report => return,
            Some(_) => {
                let what = format!("person {person} reported twice in phase {phase} of timestamp {timestamp}");
                return self.wrong(Invariant::ReportsAreDrawnOnce, what);
            }
            None => {}
        }
        account.reported.insert(place, (report.to_vec(), question.epsilon.units()));
        let window = window.get();
        // The windows that have this timestamp in them.
        for start in timestamp.saturating_sub(window - 1)..=timestamp {
            let inside = account.reported.iter().filter(|((_, other, _), _)| (start..start + window).contains(other));
            let spent: u64 = inside.map(|(_, (_, units))| units).sum();
            if spent > policy.protects.epsilon.units() {
                let what = format!("person {person} spent {spent} in the window from {start}");
                return self.wrong(Invariant::DeviceWindow, what);
            }
        }
    }

    /// A report may have been counted.
    pub(super) fn possible(&mut self, stream: &str, timestamp: u64, id: Identity) {
        self.reports.entry((stream.to_owned(), timestamp)).or_default().possible.insert(id);
    }

    /// A report was acknowledged, as new or repeated.
    pub(super) fn acknowledged(&mut self, stream: &str, timestamp: u64, id: Identity, now: bool) {
        self.possible(stream, timestamp, id);
        let reports = self.reports.entry((stream.to_owned(), timestamp)).or_default();
        reports.acknowledged.insert(id);
        let times = reports.accepted.entry(id).or_default();
        *times += u64::from(now);
        if *times > 1 {
            let what = format!("a report for timestamp {timestamp} of {stream} was counted {times} times");
            self.wrong(Invariant::CountedAtMostOnce, what);
        }
        self.check_counts(stream, timestamp);
    }

    /// Checks that a release counts the acknowledged reports and no others.
    fn check_counts(&mut self, stream: &str, timestamp: u64) {
        let Some(counted) = self.seen.get(stream).and_then(|seen| seen.reports.get(&timestamp)).copied() else {
            return;
        };
        let none = Reports::default();
        let reports = self.reports.get(&(stream.to_owned(), timestamp)).unwrap_or(&none);
        let (least, most) = (reports.acknowledged.len() as u64, reports.possible.len() as u64);
        let what =
            || format!("timestamp {timestamp} of {stream}: {counted} counted, {least} acknowledged, {most} sent");
        if counted < least {
            self.wrong(Invariant::AcknowledgedIsCounted, what());
        } else if counted > most {
            self.wrong(Invariant::CountedAtMostOnce, what());
        }
    }

    /// A process accepted an event of a tick.
    pub(super) fn accepted_event(&mut self, stream: &str, timestamp: u64, process: u64) {
        self.event_holders.entry((stream.to_owned(), timestamp)).or_default().insert(process);
    }

    /// A driver has failed.
    pub(super) fn failed(&mut self, stream: &str, error: &DriveError, anything: bool) {
        let expected = match error {
            DriveError::Store(_) | DriveError::Held(_) | DriveError::Mark(_) => true,
            DriveError::Older { .. } => self.restored,
            _ => anything,
        };
        if !expected {
            self.wrong(Invariant::FailsForAReason, format!("{stream}: {error}"));
        }
    }

    /// A backup was restored: later reports count as never sent, for streams that have not published since.
    pub(super) fn restored(&mut self, store: &dyn Store) {
        self.restored = true;
        self.wishes.restored();
        for (stream, seen) in &mut self.seen {
            seen.version = store.stream(stream).map_or(0, |stream| stream.version);
        }
        for ((stream, timestamp), reports) in &mut self.reports {
            if !self.seen.get(stream).is_some_and(|seen| seen.reports.contains_key(timestamp)) {
                reports.acknowledged.clear();
                reports.accepted.clear();
            }
        }
    }

    /// An operator has replaced the state of a stream in a restored store.
    pub(super) fn begun_anew(&mut self, stream: &str) {
        self.seen.entry(stream.to_owned()).or_default().anew = true;
    }

    /// Checks everything that can be read.
    pub(super) fn look(&mut self, store: &dyn Store, released: Vec<Released>, declarations: &[Declaration]) {
        self.released.extend(released);
        for declaration in declarations {
            let (Ok(stream), Ok(records)) = (
                store.stream(&declaration.name),
                store.records(&declaration.name, RecordKind::Release, &RecordFilter::default()),
            ) else {
                continue;
            };
            let said =
                store.records(&declaration.name, RecordKind::Answer, &RecordFilter::default()).unwrap_or_default();
            if stream.version < self.seen.entry(stream.name.clone()).or_default().version {
                self.wrong(Invariant::NeverBackwards, format!("{} is at version {}", stream.name, stream.version));
            }
            for record in &records {
                self.read(declaration, record);
            }
            self.look_at_retention(declaration, &stream, &records);
            self.look_at_answers(&stream.name, &said);
            self.look_at_debits(declaration, &stream, &records);
            self.seen.entry(stream.name.clone()).or_default().version = stream.version;
        }
    }

    fn read(&mut self, declaration: &Declaration, record: &Record) {
        let name = &declaration.name;
        let seen = self.seen.entry(name.clone()).or_default();
        if let Some((timestamp, body)) = seen.records.get(&record.number) {
            if (*timestamp, body) != (record.timestamp, &record.body) {
                let what = format!("number {} of {name} has changed", record.number);
                self.wrong(Invariant::ReleasesNeverChange, what);
            }
            return;
        }
        let before = seen.records.last_key_value().map(|(number, (timestamp, _))| (*number, *timestamp));
        let again = seen.records.values().any(|(timestamp, _)| *timestamp == record.timestamp);
        let left_out = std::mem::take(&mut seen.anew);
        seen.records.insert(record.number, (record.timestamp, record.body.clone()));
        if again {
            let what = format!("timestamp {} of {name} was released twice", record.timestamp);
            return self.wrong(Invariant::ReleasedOnce, what);
        }
        let next = before.map_or(0, |(number, _)| number) + 1;
        if record.number < next
            || (record.number > next && !left_out)
            || before.is_some_and(|(_, timestamp)| record.timestamp <= timestamp)
        {
            let what =
                format!("number {} of {name}, of timestamp {}, after {before:?}", record.number, record.timestamp);
            return self.wrong(Invariant::NeverBackwards, what);
        }
        let release: Release = serde_json::from_str(&record.body).unwrap();
        if release.timestamp != record.timestamp {
            return self.wrong(Invariant::NeverBackwards, format!("a record of {name} is of another timestamp"));
        }
        if declaration.is_curated() {
            self.look_at_cost(declaration, &release, &record.body);
            self.look_at_events(declaration, &release, &record.body);
            if declaration.classes().unwrap().is_some()
                && let Err(what) = self.wishes.check(&release, &record.body)
            {
                self.wrong(Invariant::ClassesAreKept, what);
            }
        } else {
            // The reports of a batch come at its end.
            let length = match &declaration.spec {
                StreamSpec::Sequence(spec) => u64::from(spec.length.unwrap_or(1)),
                _ => 1,
            };
            let asked = release.timestamp - release.timestamp % length + length - 1;
            let before = self.seen.entry(name.clone()).or_default().reports.insert(asked, release.reports);
            if before.is_some_and(|before| before != release.reports) {
                let what = format!("the batch of {name} until {asked} has {} reports, or {before:?}", release.reports);
                return self.wrong(Invariant::AcknowledgedIsCounted, what);
            }
            self.check_counts(name, asked);
        }
    }

    /// Checks that the retention is kept. A backup that was restored may lack any record.
    fn look_at_retention(&mut self, declaration: &Declaration, stream: &StreamRecord, records: &[Record]) {
        let saved: Saved = postcard::from_bytes(&stream.state).unwrap();
        // The release of the last timestamp that was opened may be safe, and not readable yet.
        let Some(last) = saved.last else { return };
        let kept = declaration.retention.timestamps.map_or(u64::MAX, NonZeroU64::get);
        let first = (last + 1).saturating_sub(kept);
        let most = kept.saturating_add(declaration.lateness + 4);
        let seen = &self.seen[&declaration.name].records;
        let is_there = |number: &u64| records.binary_search_by_key(number, |record| record.number).is_ok();
        let gone = seen.iter().find(|(number, (timestamp, _))| *timestamp >= first && !is_there(number));
        let problem = match gone {
            Some((number, (timestamp, _))) if !self.restored => {
                format!("lacks number {number}, of timestamp {timestamp}")
            }
            // A deletion may lag by releases that were not published in time.
            _ if records.len() as u64 > most => format!("keeps {} records, of {kept}", records.len()),
            _ => return,
        };
        self.wrong(Invariant::RecordsAreKept, format!("{} {problem}", declaration.name));
    }

    fn look_at_answers(&mut self, name: &str, answers: &[Record]) {
        for record in answers {
            let seen = self.seen.entry(name.to_owned()).or_default();
            let now = (record.timestamp, record.body.clone());
            let before = seen.said.entry(record.number).or_insert_with(|| now.clone());
            if *before != now {
                let what = format!("what was said as number {} of {name} has changed", record.number);
                self.wrong(Invariant::ReleasesNeverChange, what);
            }
        }
    }

    /// Checks that all publications of a stream cost at most epsilon in any window.
    fn look_at_cost(&mut self, declaration: &Declaration, release: &Release, body: &str) {
        let epsilon = match &declaration.spec {
            StreamSpec::Central(spec) => spec.epsilon,
            StreamSpec::Scalar(spec) => Some(spec.epsilon),
            _ => None,
        };
        if let Some(classes) = declaration.classes().unwrap() {
            for (number, class) in (0..).zip(classes.all()) {
                let Requirement { epsilon, window } = class.requirement;
                let spent = match &release.spent {
                    Spent::Classes(spends) => spends.iter().find(|spend| spend.class == number),
                    _ => None,
                };
                let name = format!("{}, class {}", declaration.name, class.name);
                self.add_cost(name, (epsilon, window.get()), release.timestamp, body, spent.map(|spend| spend.epsilon));
            }
        }
        let (Some(epsilon), Window::Timestamps(window)) = (epsilon, declaration.spec.window()) else { return };
        let name = declaration.name.clone();
        self.add_cost(name, (epsilon, window.get()), release.timestamp, body, release.spent.most());
    }

    /// Adds a cost to an account, and checks all windows with it.
    fn add_cost(
        &mut self,
        account: String,
        (epsilon, window): (Epsilon, u64),
        at: u64,
        body: &str,
        spent: Option<Epsilon>,
    ) {
        let costs = self.costs.entry(account.clone()).or_default();
        costs.insert((at, body.to_owned()), spent.map_or(0, Epsilon::units));
        for start in at.saturating_sub(window - 1)..=at {
            let sum: u64 =
                costs.range((start, String::new())..(start + window, String::new())).map(|(_, cost)| cost).sum();
            if sum > epsilon.units() {
                let what = format!("{account}: {sum} in the window from {start}");
                return self.wrong(Invariant::LedgerWindow, what);
            }
        }
    }

    /// Checks that the process that released a tick had all its events.
    fn look_at_events(&mut self, declaration: &Declaration, release: &Release, body: &str) {
        let Some(holders) = self.event_holders.get(&(declaration.name.clone(), release.timestamp)) else { return };
        let is_it = |released: &&Released| {
            released.stream == declaration.name && released.timestamp == release.timestamp && released.body == body
        };
        let by = self.released.iter().find(is_it).map(|released| released.process);
        let is_whole = match &declaration.spec {
            // A reading is kept until it is released, perhaps by another process; but there is only one.
            StreamSpec::Scalar(_) => holders.len() <= 1,
            _ => holders.iter().all(|process| Some(*process) == by),
        };
        if !is_whole {
            let what = format!(
                "timestamp {} of {} was released by process {by:?}, but {holders:?} have events of it",
                release.timestamp, declaration.name
            );
            self.wrong(Invariant::TicksAreWhole, what);
        }
    }

    /// Checks that every readable record is in the durable state.
    fn look_at_debits(&mut self, declaration: &Declaration, stream: &StreamRecord, records: &[Record]) {
        let name = &stream.name;
        let saved: Saved = postcard::from_bytes(&stream.state).unwrap();
        // Releases from before a replaced state share no window with later ones.
        let Window::Timestamps(window) = declaration.spec.window() else { return };
        let counts = |record: &&Record| record.timestamp + window.get() > saved.not_before;
        let records: Vec<&Record> = records.iter().filter(counts).collect();
        let Some(latest) = records.last() else { return };
        let mut missing = None;
        if latest.version > stream.version {
            missing = Some(format!("version {} can be read, but {} is safe", latest.version, stream.version));
        } else if saved.last < Some(latest.timestamp) {
            missing = Some(format!("timestamp {} can be read, but {:?} is safe", latest.timestamp, saved.last));
        }
        match &declaration.spec {
            StreamSpec::Central(_) => {
                let loaded = Stream::load(declaration.spec.clone(), &saved.stream, None).unwrap();
                let ledgers: Vec<&Ledger> = match loaded.class_ledgers() {
                    Some(classes) => classes.iter().map(|(_, ledger)| ledger).collect(),
                    None => loaded.ledger().into_iter().collect(),
                };
                let mut spends: BTreeMap<u64, u64> = BTreeMap::new();
                for (timestamp, spent) in ledgers.iter().flat_map(|ledger| ledger.spends()) {
                    let most = spends.entry(timestamp).or_default();
                    *most = spent.units().max(*most);
                }
                let clock = ledgers.iter().filter_map(|ledger| ledger.clock()).max().unwrap_or(0);
                let shortest = ledgers.iter().map(|ledger| ledger.window());
                let shortest = shortest.filter_map(|window| match window {
                    Window::Timestamps(window) => Some(window.get()),
                    Window::Unbounded => None,
                });
                let shortest = shortest.min().unwrap_or(window.get());
                for record in records.iter().filter(|record| record.timestamp + shortest > clock) {
                    let release: Release = serde_json::from_str(&record.body).unwrap();
                    let spent = release.spent.most().map_or(0, |spent| spent.units());
                    if spends.get(&release.timestamp).copied().unwrap_or(0) < spent {
                        missing = Some(format!("{spent} for timestamp {} is not in the ledger", release.timestamp));
                    }
                }
            }
            StreamSpec::Scalar(_) => {
                let loaded = Stream::load(declaration.spec.clone(), &saved.stream, Some(&self.key)).unwrap();
                if loaded.ledger().unwrap().clock() < Some(latest.timestamp) {
                    missing = Some(format!("timestamp {} is not in the ledger", latest.timestamp));
                }
            }
            _ => {}
        }
        if let Some(missing) = missing {
            self.wrong(Invariant::PublishedIsDebited, format!("{name}: {missing}"));
        }
    }

    /// Returns the number of releases of a stream.
    pub(super) fn releases(&self, stream: &str) -> usize {
        self.seen.get(stream).map_or(0, |seen| seen.records.len())
    }

    /// Returns the number of acknowledged reports.
    pub(super) fn acknowledged_reports(&self) -> usize {
        self.reports.values().map(|reports| reports.acknowledged.len()).sum()
    }
}
