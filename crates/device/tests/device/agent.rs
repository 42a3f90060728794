//! Whatever happens to a device, no window of it is exceeded and no answer is drawn twice.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::LazyLock;

use ed25519_dalek::SigningKey;
use tidegate_device::clock::{Reading, Steady, Ticks};
use tidegate_device::disk::Damaged;
use tidegate_device::enrolment::{StreamPolicy, VerifiedPolicy};
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::{Agent, Beginning, Fault, Policy, Reason, Reply};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon, Question, Randomness, SeededRandom, View, Window};

const TICK: u64 = 10;
const EPOCH: u64 = 1_000;
const FILE: &str = "position.device";

fn policy(window: u64) -> StreamPolicy {
    StreamPolicy {
        stream: "visits".to_owned(),
        protects: Policy { epsilon: "1".parse().unwrap(), window: Window::of(window).unwrap(), domain: 6 },
        oracle: None,
        ticks: Ticks { epoch: EPOCH, seconds: NonZeroU64::new(TICK).unwrap() },
        slot_key: *b"sixteen byte key",
    }
}

/// As an operator signs it and a device believes it.
pub(crate) fn verified(policy: StreamPolicy) -> VerifiedPolicy {
    let operator = SigningKey::from_bytes(&[7; 32]);
    policy.sign(&operator).unwrap().verified(&operator.verifying_key()).unwrap()
}

/// Those of windows from 1 on: signing is slow, and thousands of lives begin with one.
static VERIFIED: LazyLock<Vec<VerifiedPolicy>> =
    LazyLock::new(|| (1..=5).map(|window| verified(policy(window))).collect());

fn question(timestamp: u64, phase: u16, units: u64) -> Question {
    let (cohort, view) = (Cohort::Everyone, View::Values);
    let epsilon = Epsilon::from_units(units).unwrap();
    Question { timestamp, phase, cohort, epsilon, oracle: OracleKind::Grr, domain: 6, view }
}

/// The device's clocks, and the time as it truly is.
struct Time {
    truly: u64,
    wall_ahead: i64,
    run: u8,
    run_began: u64,
}

impl Time {
    fn new() -> Self {
        Self { truly: EPOCH + 10_000, wall_ahead: 0, run: 1, run_began: EPOCH }
    }

    fn reading(&self) -> Reading {
        let steady = Steady { run: [self.run; 16], seconds: self.truly - self.run_began };
        Reading { wall: self.truly.saturating_add_signed(self.wall_ahead), steady }
    }

    fn timestamp(&self) -> u64 {
        (self.reading().wall - EPOCH) / TICK
    }
}

fn open(disk: &SimulatedDisk, window: u64, time: &Time) -> (Agent<SimulatedDisk>, Beginning) {
    let mut random = SeededRandom::new(5);
    let window = usize::try_from(window).unwrap();
    Agent::open(disk.clone(), "position", VERIFIED[window - 1].clone(), b"machine", time.reading(), &mut random)
        .unwrap()
}

/// An agent that has waited for its first window.
fn ready(disk: &SimulatedDisk, window: u64) -> (Agent<SimulatedDisk>, Time) {
    let mut time = Time::new();
    let (agent, beginning) = open(disk, window, &time);
    assert!(matches!(beginning, Beginning::New));
    time.truly += window * TICK;
    (agent, time)
}

fn ask(agent: &mut Agent<SimulatedDisk>, time: &Time, phase: u16, units: u64) -> Reply {
    let asked = question(time.timestamp(), phase, units);
    agent.answer(time.reading(), "visits", &asked, 2, &mut SeededRandom::new(time.truly)).unwrap()
}

const ALL: u64 = 1_000_000_000;

fn answers(reply: &Reply) -> bool {
    matches!(reply, Reply::Report(_))
}

#[test]
fn a_new_device_has_spent_a_whole_window() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut time = Time::new();
    let (mut agent, _) = open(&disk, 3, &time);
    for _ in 0..3 {
        assert_eq!(ask(&mut agent, &time, 0, 1), Reply::Refused(Reason::Budget));
        time.truly += TICK;
    }
    assert!(answers(&ask(&mut agent, &time, 0, ALL)));
}

#[test]
fn a_retry_resends_the_identical_report_also_after_a_restart() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, time) = ready(&disk, 3);
    let asked = question(time.timestamp(), 0, ALL / 2);
    let mut random = SeededRandom::new(1);
    let first = agent.answer(time.reading(), "visits", &asked, 2, &mut random).unwrap();
    assert!(answers(&first));
    for _ in 0..20 {
        disk.restart();
        let (mut agent, beginning) = open(&disk, 3, &time);
        assert!(matches!(beginning, Beginning::Resumed));
        assert_eq!(agent.answer(time.reading(), "visits", &asked, 2, &mut random).unwrap(), first);
        let other = Question { oracle: OracleKind::Oue, ..asked.clone() };
        let refused = agent.answer(time.reading(), "visits", &other, 2, &mut random).unwrap();
        assert_eq!(refused, Reply::Refused(Reason::Answered));
    }
}

#[test]
fn a_greedy_collector_gets_a_reason_and_nothing_else() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, time) = ready(&disk, 3);
    let mut random = SeededRandom::new(1);
    let now = time.timestamp();
    let mut reply =
        |stream: &str, asked: &Question| agent.answer(time.reading(), stream, asked, 2, &mut random).unwrap();
    assert_eq!(reply("visits-2", &question(now, 0, 1)), Reply::Refused(Reason::OtherStream));
    assert_eq!(reply("visits", &question(now, 0, ALL + 1)), Reply::Refused(Reason::Budget));
    assert_eq!(reply("visits", &question(now - 1, 0, 1)), Reply::Refused(Reason::NotNow));
    assert_eq!(reply("visits", &question(now + 1, 0, 1)), Reply::Refused(Reason::NotNow));
    let wider = Question { domain: 7, ..question(now, 0, 1) };
    assert_eq!(reply("visits", &wider), Reply::Refused(Reason::OtherDomain));
    let senseless = Question { view: View::Ranges(vec![1, 2]), ..question(now, 0, 1) };
    assert_eq!(reply("visits", &senseless), Reply::Refused(Reason::Malformed));
    let elsewhere = Question { cohort: Cohort::Slots { first: 0, count: 0 }, ..question(now, 0, 1) };
    assert_eq!(reply("visits", &elsewhere), Reply::Refused(Reason::NotAsked));
    let mut pinned = policy(3);
    pinned.oracle = Some(OracleKind::Oue);
    let disk = SimulatedDisk::new(Broken::default(), 2);
    let (mut agent, _) =
        Agent::open(disk, "position", verified(pinned), b"", time.reading(), &mut SeededRandom::new(5)).unwrap();
    let reply = agent.answer(time.reading(), "visits", &question(now, 0, 1), 2, &mut SeededRandom::new(5)).unwrap();
    assert_eq!(reply, Reply::Refused(Reason::OtherOracle));
}

#[test]
fn a_value_outside_the_domain_is_a_fault_that_the_collector_does_not_hear_of() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, time) = ready(&disk, 3);
    let asked = question(time.timestamp(), 0, 1);
    let answer = agent.answer(time.reading(), "visits", &asked, 6, &mut SeededRandom::new(1));
    assert!(matches!(answer, Err(Fault::Value(_))));
    // It has cost what an answer costs, also after a restart: later answers do not tell what was wrong.
    disk.restart();
    let (mut agent, _) = open(&disk, 3, &time);
    assert_eq!(ask(&mut agent, &time, 1, ALL), Reply::Refused(Reason::Budget));
    assert!(answers(&ask(&mut agent, &time, 1, ALL - 1)));
}

#[test]
fn a_state_that_was_deleted_restored_copied_or_damaged_counts_as_fully_spent() {
    type Spoil = fn(&SimulatedDisk);
    let spoil: [(&str, Spoil); 6] = [
        ("deleted", |disk| disk.remove(FILE)),
        ("restored", |disk| disk.put(FILE, &disk.contents(FILE).unwrap())),
        ("cut off", |disk| disk.damage(FILE, |bytes| bytes.truncate(bytes.len() - 1)).unwrap()),
        ("emptied", |disk| disk.damage(FILE, Vec::clear).unwrap()),
        ("changed in one bit", |disk| disk.damage(FILE, |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap()),
        ("another file", |disk| disk.damage(FILE, |bytes| *bytes = vec![7; 200]).unwrap()),
    ];
    for (what, spoil) in spoil {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let (agent, mut time) = ready(&disk, 3);
        drop(agent);
        spoil(&disk);
        let (mut agent, beginning) = open(&disk, 3, &time);
        assert!(matches!(beginning, Beginning::New | Beginning::Lost(_)), "{what}: {beginning:?}");
        for _ in 0..3 {
            assert_eq!(ask(&mut agent, &time, 0, 1), Reply::Refused(Reason::Budget), "{what}");
            time.truly += TICK;
        }
        assert!(answers(&ask(&mut agent, &time, 0, ALL)), "{what}");
    }
}

#[test]
fn another_machine_or_another_policy_begins_with_a_whole_window_spent() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (agent, time) = ready(&disk, 3);
    drop(agent);
    let mut random = SeededRandom::new(5);
    let elsewhere =
        Agent::open(disk.clone(), "position", verified(policy(3)), b"copy", time.reading(), &mut random).unwrap();
    assert!(matches!(elsewhere.1, Beginning::Lost(Damaged::Copy { .. })));
    let renamed = StreamPolicy { stream: "visits-2".to_owned(), ..policy(3) };
    let (mut agent, beginning) =
        Agent::open(disk, "position", verified(renamed), b"copy", time.reading(), &mut random).unwrap();
    assert!(matches!(beginning, Beginning::OtherPolicy));
    let reply = agent.answer(time.reading(), "visits-2", &question(time.timestamp(), 0, 1), 2, &mut random).unwrap();
    assert_eq!(reply, Reply::Refused(Reason::Budget), "the same data under a new name");
}

#[test]
fn a_new_policy_does_not_forget_the_time_to_which_the_old_one_had_come() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, mut time) = ready(&disk, 3);
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
    time.wall_ahead = 500;
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
    time.truly += TICK;
    assert_eq!(ask(&mut agent, &time, 0, 1), Reply::Refused(Reason::Budget), "the jump has refunded nothing");
    let reached = time.timestamp();
    time.wall_ahead = 0;
    let renamed = StreamPolicy { stream: "visits-2".to_owned(), ..policy(3) };
    let (agent, beginning) =
        Agent::open(disk, "position", verified(renamed), b"machine", time.reading(), &mut SeededRandom::new(5))
            .unwrap();
    assert!(matches!(beginning, Beginning::OtherPolicy));
    // The last answer was a timestamp earlier, and its window has two more after it; then the next is over.
    assert_eq!(agent.device().ledger().clock(), Some(reached - 1 + 2 + 1));
}

#[test]
fn no_policy_shortens_the_window_of_the_one_before_and_none_follows_a_budget_for_all_time() {
    let mut random = SeededRandom::new(5);
    let mut time = Time::new();
    let long = policy(1_000);
    let mut short = StreamPolicy { stream: "visits-2".to_owned(), ..policy(1) };
    let disk = SimulatedDisk::new(Broken::default(), 1);
    Agent::open(disk.clone(), "position", verified(long), b"", time.reading(), &mut random).unwrap();
    time.truly += TICK;
    let (mut agent, _) =
        Agent::open(disk.clone(), "position", verified(short.clone()), b"", time.reading(), &mut random).unwrap();
    for _ in 0..998 {
        let asked = question(time.timestamp(), 0, 1);
        let reply = agent.answer(time.reading(), "visits-2", &asked, 2, &mut random).unwrap();
        assert_eq!(reply, Reply::Refused(Reason::Budget));
        time.truly += TICK;
    }
    let disk = SimulatedDisk::new(Broken::default(), 2);
    short.protects.window = Window::Unbounded;
    Agent::open(disk.clone(), "position", verified(short), b"", time.reading(), &mut random).unwrap();
    let after = Agent::open(disk, "position", verified(policy(3)), b"", time.reading(), &mut random);
    assert!(matches!(after, Err(Fault::Spent)));
}

#[test]
fn a_source_has_a_name_that_leads_nowhere_else() {
    for source in ["", "../position", "a/b", "A", "a.b"] {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let agent =
            Agent::open(disk, source, verified(policy(3)), b"", Time::new().reading(), &mut SeededRandom::new(5));
        assert!(matches!(agent, Err(Fault::Source)), "{source}");
    }
}

#[test]
fn a_full_disk_stops_the_device_until_it_is_opened_again() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, mut time) = ready(&disk, 2);
    disk.set_full(true);
    let asked = question(time.timestamp(), 0, ALL);
    let mut random = SeededRandom::new(1);
    assert!(matches!(agent.answer(time.reading(), "visits", &asked, 2, &mut random), Err(Fault::Disk(_))));
    disk.set_full(false);
    assert!(matches!(agent.answer(time.reading(), "visits", &asked, 2, &mut random), Err(Fault::Stopped)));
    let (mut agent, beginning) = open(&disk, 2, &time);
    assert!(matches!(beginning, Beginning::Resumed));
    time.truly += TICK;
    assert!(answers(&ask(&mut agent, &time, 0, ALL)));
}

/// What an observer who sees every report that leaves finds wrong.
#[derive(Debug, PartialEq, Eq)]
enum Violation {
    /// More than the budget for the timestamps of one window.
    Window,
    /// More than the budget within a time that is shorter than a window.
    Time,
    /// Two different reports for one phase.
    DrawnTwice,
}

/// A device's life with crashes, restarts of the machine and jumps of the clock, under a collector that asks for as much as it can get.
fn live(seed: u64, broken: Broken) -> Result<u32, Violation> {
    let mut random = SeededRandom::new(seed);
    let mut draw = |below: u64| random.next_word() % below;
    let window = 1 + draw(5);
    let disk = SimulatedDisk::new(broken, seed);
    let (agent, mut time) = ready(&disk, window);
    let mut agent = Some(agent);
    let mut noise = SeededRandom::with_stream(seed, 1);
    let mut left: Vec<(u64, u64, u64)> = Vec::new(); // true time, timestamp, units
    let mut reports = BTreeMap::new();
    for _ in 0..120 {
        time.truly += draw(2 * TICK);
        match draw(24) {
            0 => time.wall_ahead += i64::try_from(draw(8 * window * TICK)).unwrap(),
            1 => time.wall_ahead -= i64::try_from(draw(8 * window * TICK)).unwrap(),
            2 => time.wall_ahead = 0,
            3 => (time.run, time.run_began) = (time.run.wrapping_add(1), time.truly),
            _ => {}
        }
        if draw(4) == 0 {
            disk.crash_in(u32::try_from(draw(9)).unwrap());
        }
        let mut device = match agent.take() {
            Some(agent) => agent,
            None => {
                // The machine, or the program alone.
                if draw(2) == 0 {
                    disk.restart()
                } else {
                    disk.go_on()
                };
                open(&disk, window, &time).0
            }
        };
        let asked = question(time.timestamp(), u16::try_from(draw(2)).unwrap(), ALL / (1 + draw(3)));
        match device.answer(time.reading(), "visits", &asked, 2, &mut noise) {
            Ok(Reply::Report(report)) => {
                let identity = (asked.timestamp, asked.phase);
                match reports.insert(identity, report.clone()) {
                    None => left.push((time.truly, asked.timestamp, asked.epsilon.units())),
                    Some(before) if before != report => return Err(Violation::DrawnTwice),
                    Some(_) => {}
                }
                // Sometimes the machine stops right after the report has left.
                if draw(5) > 0 {
                    agent = Some(device);
                }
            }
            Ok(Reply::Refused(_)) => agent = Some(device),
            Err(_) => {}
        }
    }
    for (at, timestamp, _) in &left {
        let in_window = left.iter().filter(|(_, other, _)| (*timestamp..timestamp + window).contains(other));
        if in_window.map(|(.., units)| units).sum::<u64>() > ALL {
            return Err(Violation::Window);
        }
        // Timestamps of a window apart are at least a window less one tick apart in time, but for the slack of the clocks.
        let span = ((window - 1) * TICK).saturating_sub(3);
        let in_time = left.iter().filter(|(other, ..)| (*at..at + span).contains(other));
        if in_time.map(|(.., units)| units).sum::<u64>() > ALL {
            return Err(Violation::Time);
        }
    }
    Ok(u32::try_from(left.len()).unwrap())
}

#[test]
fn no_life_of_a_device_exceeds_a_window_or_draws_an_answer_twice() {
    let mut reports = 0;
    for seed in 0..2_000 {
        reports += live(seed, Broken::default()).unwrap_or_else(|violation| panic!("seed {seed}: {violation:?}"));
    }
    assert!(reports > 10_000, "only {reports} reports left: the lives are too dull to tell anything");
}

#[test]
fn a_disk_that_does_not_sync_is_caught() {
    let broken = [(true, false), (false, true), (true, true)].map(|(sync, names)| Broken { sync, names });
    for broken in broken {
        let caught = (0..2_000).find_map(|seed| live(seed, broken).err());
        assert!(caught.is_some(), "{broken:?} went unnoticed");
    }
}
