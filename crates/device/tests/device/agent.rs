//! No window is exceeded and no answer is drawn twice, through all faults of a device.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::LazyLock;

use ed25519_dalek::SigningKey;
use tidegate_device::clock::{ClockReading, Steady, Ticks};
use tidegate_device::disk::Damaged;
use tidegate_device::enrolment::{StreamPolicy, VerifiedPolicy};
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::{Agent, AgentError, AgentReply, Beginning, DevicePolicy, RefusalReason};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon, Question, Randomness, SeededRandom, View, Window};

pub(crate) const TICK: u64 = 10;
pub(crate) const EPOCH: u64 = 1_000;
const FILE: &str = "position.device";

pub(crate) fn policy(window: u64) -> StreamPolicy {
    StreamPolicy {
        stream: "visits".to_owned(),
        protects: DevicePolicy { epsilon: "1".parse().unwrap(), window: Window::of(window).unwrap(), domain: 6 },
        oracle: None,
        ticks: Ticks { epoch: EPOCH, seconds: NonZeroU64::new(TICK).unwrap() },
        slot_key: *b"sixteen byte key",
        sequence: None,
        issuer: None,
    }
}

/// Signs and verifies a policy.
pub(crate) fn verified(policy: StreamPolicy) -> VerifiedPolicy {
    let operator = SigningKey::from_bytes(&[7; 32]);
    policy.sign(&operator).unwrap().verified(&operator.verifying_key()).unwrap()
}

/// Policies with windows from 1 on, cached because signing is slow.
static VERIFIED: LazyLock<Vec<VerifiedPolicy>> =
    LazyLock::new(|| (1..=5).map(|window| verified(policy(window))).collect());

pub(crate) fn question(timestamp: u64, phase: u16, units: u64) -> Question {
    let (cohort, view) = (Cohort::Everyone, View::Values);
    let epsilon = Epsilon::from_units(units).unwrap();
    Question { timestamp, phase, cohort, epsilon, oracle: OracleKind::Grr, domain: 6, view }
}

/// The device's clocks, and the true time.
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

    fn reading(&self) -> ClockReading {
        let steady = Steady { run: [self.run; 16], seconds: self.truly - self.run_began };
        ClockReading { wall: self.truly.saturating_add_signed(self.wall_ahead), steady }
    }

    fn timestamp(&self) -> u64 {
        (self.reading().wall - EPOCH) / TICK
    }
}

fn promised(window: u64) -> VerifiedPolicy {
    VERIFIED[usize::try_from(window).unwrap() - 1].clone()
}

type Opened = Result<(Agent<SimulatedDisk>, Beginning), AgentError>;

fn open_with(disk: &SimulatedDisk, policy: VerifiedPolicy, time: &Time) -> Opened {
    Agent::open(disk.clone(), "position", policy, b"machine", time.reading(), &mut SeededRandom::new(5))
}

/// The owner consents to the policy.
fn enrol_anew(disk: &SimulatedDisk, policy: VerifiedPolicy, time: &Time) -> Opened {
    Agent::enrol_anew(disk.clone(), "position", policy, b"machine", time.reading(), &mut SeededRandom::new(5))
}

fn open(disk: &SimulatedDisk, window: u64, time: &Time) -> (Agent<SimulatedDisk>, Beginning) {
    open_with(disk, promised(window), time).unwrap()
}

/// An agent that has waited for its first window.
fn ready(disk: &SimulatedDisk, window: u64) -> (Agent<SimulatedDisk>, Time) {
    let mut time = Time::new();
    let (agent, beginning) = open(disk, window, &time);
    assert!(matches!(beginning, Beginning::New));
    time.truly += window * TICK;
    (agent, time)
}

fn ask(agent: &mut Agent<SimulatedDisk>, time: &Time, phase: u16, units: u64) -> AgentReply {
    let asked = question(time.timestamp(), phase, units);
    agent.answer(time.reading(), "visits", &asked, 2, &mut SeededRandom::new(time.truly)).unwrap()
}

pub(crate) const ALL: u64 = 1_000_000_000;

fn answers(reply: &AgentReply) -> bool {
    matches!(reply, AgentReply::Report(_))
}

#[test]
fn a_new_device_has_spent_a_whole_window() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut time = Time::new();
    let (mut agent, _) = open(&disk, 3, &time);
    for _ in 0..3 {
        assert_eq!(ask(&mut agent, &time, 0, 1), AgentReply::Refused(RefusalReason::Budget));
        time.truly += TICK;
    }
    assert!(answers(&ask(&mut agent, &time, 0, ALL)));
}

#[test]
fn a_retry_resends_the_identical_report() {
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
        assert_eq!(refused, AgentReply::Refused(RefusalReason::Answered));
    }
}

#[test]
fn a_greedy_collector_gets_only_a_reason() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, time) = ready(&disk, 3);
    let mut random = SeededRandom::new(1);
    let now = time.timestamp();
    let mut reply =
        |stream: &str, asked: &Question| agent.answer(time.reading(), stream, asked, 2, &mut random).unwrap();
    assert_eq!(reply("visits-2", &question(now, 0, 1)), AgentReply::Refused(RefusalReason::OtherStream));
    assert_eq!(reply("visits", &question(now, 0, ALL + 1)), AgentReply::Refused(RefusalReason::Budget));
    assert_eq!(reply("visits", &question(now - 1, 0, 1)), AgentReply::Refused(RefusalReason::NotNow));
    assert_eq!(reply("visits", &question(now + 1, 0, 1)), AgentReply::Refused(RefusalReason::NotNow));
    let wider = Question { domain: 7, ..question(now, 0, 1) };
    assert_eq!(reply("visits", &wider), AgentReply::Refused(RefusalReason::OtherDomain));
    let senseless = Question { view: View::Ranges(vec![1, 2]), ..question(now, 0, 1) };
    assert_eq!(reply("visits", &senseless), AgentReply::Refused(RefusalReason::Malformed));
    let elsewhere = Question { cohort: Cohort::Slots { first: 0, count: 0 }, ..question(now, 0, 1) };
    assert_eq!(reply("visits", &elsewhere), AgentReply::Refused(RefusalReason::NotAsked));
    let mut pinned = policy(3);
    pinned.oracle = Some(OracleKind::Oue);
    let disk = SimulatedDisk::new(Broken::default(), 2);
    let (mut agent, _) =
        Agent::open(disk, "position", verified(pinned), b"", time.reading(), &mut SeededRandom::new(5)).unwrap();
    let reply = agent.answer(time.reading(), "visits", &question(now, 0, 1), 2, &mut SeededRandom::new(5)).unwrap();
    assert_eq!(reply, AgentReply::Refused(RefusalReason::OtherOracle));
}

#[test]
fn invalid_values_are_hidden_from_the_collector() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, time) = ready(&disk, 3);
    let asked = question(time.timestamp(), 0, 1);
    let answer = agent.answer(time.reading(), "visits", &asked, 6, &mut SeededRandom::new(1));
    assert!(matches!(answer, Err(AgentError::Value(_))));
    // It costs as much as an answer, also after a restart, so later answers do not reveal it.
    disk.restart();
    let (mut agent, _) = open(&disk, 3, &time);
    assert_eq!(ask(&mut agent, &time, 1, ALL), AgentReply::Refused(RefusalReason::Budget));
    assert!(answers(&ask(&mut agent, &time, 1, ALL - 1)));
}

#[test]
fn an_untrusted_state_counts_as_fully_spent() {
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
            assert_eq!(ask(&mut agent, &time, 0, 1), AgentReply::Refused(RefusalReason::Budget), "{what}");
            time.truly += TICK;
        }
        assert!(answers(&ask(&mut agent, &time, 0, ALL)), "{what}");
    }
}

/// The same data for a stream of another name.
fn renamed(window: u64) -> StreamPolicy {
    StreamPolicy { stream: "visits-2".to_owned(), ..policy(window) }
}

#[test]
fn policies_change_only_with_the_owners_consent() {
    let weaker = |change: fn(&mut StreamPolicy)| {
        let mut weaker = policy(3);
        change(&mut weaker);
        weaker
    };
    let offers: [(StreamPolicy, &str); 7] = [
        (weaker(|policy| policy.protects.epsilon = "20".parse().unwrap()), "(epsilon 20 instead of 1)"),
        (weaker(|policy| policy.protects.window = Window::EVENT), "(window 1 instead of 3)"),
        (weaker(|policy| policy.ticks.seconds = NonZeroU64::MIN), "(seconds a tick 1 instead of 10)"),
        (weaker(|policy| policy.protects.domain = 2), "(domain 2 instead of 6)"),
        (weaker(|policy| policy.oracle = Some(OracleKind::Grr)), "(oracle grr instead of any)"),
        (renamed(3), "(stream visits-2 instead of visits)"),
        // A stronger policy is refused too: otherwise switching back and forth would give control.
        (policy(5), "(window 5 instead of 3)"),
    ];
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, mut time) = ready(&disk, 3);
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
    drop(agent);
    let before = disk.contents(FILE).unwrap();
    for (offer, differs) in offers {
        for later in [0, TICK, 100 * TICK] {
            let later = Time { truly: time.truly + later, ..time };
            let refused = open_with(&disk, verified(offer.clone()), &later).unwrap_err();
            assert!(matches!(refused, AgentError::OtherPolicy { .. }), "{refused:?}");
            assert!(refused.to_string().contains(differs), "{refused}");
            assert_eq!(disk.contents(FILE).unwrap(), before, "{differs}");
        }
    }
    // It continues as if nothing had been offered.
    time.truly += TICK;
    let (mut agent, beginning) = open(&disk, 3, &time);
    assert!(matches!(beginning, Beginning::Resumed));
    assert_eq!(ask(&mut agent, &time, 0, ALL), AgentReply::Refused(RefusalReason::Budget));
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
}

#[test]
fn a_copied_state_keeps_its_policy_without_consent() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (agent, time) = ready(&disk, 3);
    drop(agent);
    disk.put(FILE, &disk.contents(FILE).unwrap());
    let before = disk.contents(FILE).unwrap();
    let refused = open_with(&disk, promised(1), &time);
    assert!(matches!(refused, Err(AgentError::OtherPolicy { .. })));
    let elsewhere =
        Agent::open(disk.clone(), "position", promised(1), b"copy", time.reading(), &mut SeededRandom::new(5));
    assert!(matches!(elsewhere, Err(AgentError::OtherPolicy { .. })));
    assert_eq!(disk.contents(FILE).unwrap(), before);
    let (agent, beginning) = enrol_anew(&disk, promised(1), &time).unwrap();
    assert!(matches!(beginning, Beginning::Lost(Damaged::Copy { .. })));
    // The copy was current 3 timestamps ago, but later answers are unknown.
    assert!(agent.device().ledger().clock() >= Some(time.timestamp()));
}

#[test]
fn new_machines_and_policies_start_fully_spent() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (agent, time) = ready(&disk, 3);
    drop(agent);
    let mut random = SeededRandom::new(5);
    let elsewhere = Agent::open(disk.clone(), "position", promised(3), b"copy", time.reading(), &mut random).unwrap();
    assert!(matches!(elsewhere.1, Beginning::Lost(Damaged::Copy { .. })));
    let (mut agent, beginning) =
        Agent::enrol_anew(disk, "position", verified(renamed(3)), b"copy", time.reading(), &mut random).unwrap();
    assert!(matches!(beginning, Beginning::OtherPolicy));
    let reply = agent.answer(time.reading(), "visits-2", &question(time.timestamp(), 0, 1), 2, &mut random).unwrap();
    assert_eq!(reply, AgentReply::Refused(RefusalReason::Budget), "the same data under a new name");
}

#[test]
fn consent_to_the_same_policy_changes_nothing() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, time) = ready(&disk, 3);
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
    let (mut agent, beginning) = enrol_anew(&disk, promised(3), &time).unwrap();
    assert!(matches!(beginning, Beginning::Resumed));
    assert!(answers(&ask(&mut agent, &time, 1, ALL / 2)));
}

#[test]
fn a_new_policy_keeps_the_time_of_the_old_one() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, mut time) = ready(&disk, 3);
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
    time.wall_ahead = 500;
    assert!(answers(&ask(&mut agent, &time, 0, ALL / 2)));
    time.truly += TICK;
    assert_eq!(
        ask(&mut agent, &time, 0, 1),
        AgentReply::Refused(RefusalReason::Budget),
        "the jump has refunded nothing"
    );
    let reached = time.timestamp();
    time.wall_ahead = 0;
    let (agent, beginning) = enrol_anew(&disk, verified(renamed(3)), &time).unwrap();
    assert!(matches!(beginning, Beginning::OtherPolicy));
    // The last answer was one timestamp earlier, and its window has two more; then the next one passes.
    assert_eq!(agent.device().ledger().clock(), Some(reached - 1 + 2 + 1));
}

/// The number of timestamps of true time until an agent answers.
fn waits(agent: &mut Agent<SimulatedDisk>, time: &mut Time) -> u64 {
    let begun = time.truly;
    while !answers(&ask(agent, time, 0, 1)) {
        time.truly += TICK;
        assert!(time.truly < begun + 100 * TICK, "it never answers again");
    }
    (time.truly - begun) / TICK
}

#[test]
fn clock_jumps_do_not_shorten_the_old_window() {
    let day = 86_400;
    let spent = |seed| {
        let disk = SimulatedDisk::new(Broken::default(), seed);
        let (mut agent, time) = ready(&disk, 5);
        assert!(answers(&ask(&mut agent, &time, 0, ALL)));
        (disk, time)
    };
    // Without a jump: the old window of five, with the answer in its first timestamp, and then a new one.
    let (disk, mut time) = spent(1);
    let (mut agent, _) = enrol_anew(&disk, promised(1), &time).unwrap();
    assert_eq!(waits(&mut agent, &mut time), 6);
    // A jump before the change, with a trusted state or not: the old window starts again.
    for is_copy in [false, true] {
        let (disk, mut time) = spent(2);
        if is_copy {
            disk.put(FILE, &disk.contents(FILE).unwrap());
        }
        (time.truly, time.wall_ahead) = (time.truly + 1, day);
        let (mut agent, _) = enrol_anew(&disk, promised(1), &time).unwrap();
        assert!(waits(&mut agent, &mut time) >= 5, "a copy: {is_copy}");
    }
    // A jump after it, in the same run of the program or another.
    for is_restarted in [false, true] {
        let (disk, mut time) = spent(3);
        let (mut agent, _) = enrol_anew(&disk, promised(1), &time).unwrap();
        (time.truly, time.wall_ahead) = (time.truly + 1, day);
        if is_restarted {
            agent = open(&disk, 1, &time).0;
        }
        assert!(waits(&mut agent, &mut time) >= 5, "restarted: {is_restarted}");
        // Once it has passed, a later jump costs only the new window.
        time.wall_ahead += day;
        assert!(waits(&mut agent, &mut time) <= 1, "restarted: {is_restarted}");
    }
    // Two changes in a row: the silences add up.
    let (disk, mut time) = spent(4);
    enrol_anew(&disk, promised(1), &time).unwrap();
    (time.truly, time.wall_ahead) = (time.truly + 1, day);
    let (mut agent, _) = enrol_anew(&disk, promised(2), &time).unwrap();
    (time.truly, time.wall_ahead) = (time.truly + 1, 2 * day);
    assert!(waits(&mut agent, &mut time) >= 5);
    // A copy of a state that is silent for an earlier policy.
    let (disk, mut time) = spent(5);
    enrol_anew(&disk, promised(1), &time).unwrap();
    disk.put(FILE, &disk.contents(FILE).unwrap());
    (time.truly, time.wall_ahead) = (time.truly + 1, day);
    let (mut agent, beginning) = open(&disk, 1, &time);
    assert!(matches!(beginning, Beginning::Lost(_)));
    assert!(waits(&mut agent, &mut time) >= 5);
}

#[test]
fn a_clock_jump_during_downtime_is_detected() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, mut time) = ready(&disk, 5);
    assert!(answers(&ask(&mut agent, &time, 0, ALL)));
    drop(agent);
    (time.truly, time.wall_ahead) = (time.truly + 1, 86_400);
    let (mut agent, beginning) = open(&disk, 5, &time);
    assert!(matches!(beginning, Beginning::Resumed));
    assert_eq!(waits(&mut agent, &mut time), 5);
}

#[test]
fn no_policy_shortens_the_window_before_it() {
    let mut random = SeededRandom::new(5);
    let mut time = Time::new();
    let disk = SimulatedDisk::new(Broken::default(), 1);
    open_with(&disk, verified(policy(1_000)), &time).unwrap();
    time.truly += TICK;
    let (mut agent, _) = enrol_anew(&disk, verified(renamed(1)), &time).unwrap();
    for _ in 0..998 {
        let asked = question(time.timestamp(), 0, 1);
        let reply = agent.answer(time.reading(), "visits-2", &asked, 2, &mut random).unwrap();
        assert_eq!(reply, AgentReply::Refused(RefusalReason::Budget));
        time.truly += TICK;
    }
    let disk = SimulatedDisk::new(Broken::default(), 2);
    let mut for_all_time = policy(1);
    for_all_time.protects.window = Window::Unbounded;
    open_with(&disk, verified(for_all_time), &time).unwrap();
    let before = disk.contents(FILE).unwrap();
    for after in [open_with, enrol_anew] {
        assert!(matches!(after(&disk, promised(3), &time), Err(AgentError::Spent)));
        assert_eq!(disk.contents(FILE).unwrap(), before);
    }
}

#[test]
fn rejects_source_names_with_a_path() {
    for source in ["", "../position", "a/b", "A", "a.b"] {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let agent =
            Agent::open(disk, source, verified(policy(3)), b"", Time::new().reading(), &mut SeededRandom::new(5));
        assert!(matches!(agent, Err(AgentError::Source)), "{source}");
    }
}

#[test]
fn a_full_disk_stops_the_agent() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let (mut agent, mut time) = ready(&disk, 2);
    disk.set_full(true);
    let asked = question(time.timestamp(), 0, ALL);
    let mut random = SeededRandom::new(1);
    assert!(matches!(agent.answer(time.reading(), "visits", &asked, 2, &mut random), Err(AgentError::Disk(_))));
    disk.set_full(false);
    assert!(matches!(agent.answer(time.reading(), "visits", &asked, 2, &mut random), Err(AgentError::Stopped)));
    let (mut agent, beginning) = open(&disk, 2, &time);
    assert!(matches!(beginning, Beginning::Resumed));
    time.truly += TICK;
    assert!(answers(&ask(&mut agent, &time, 0, ALL)));
}

/// Violations found by an observer of every report.
#[derive(Debug, PartialEq, Eq)]
enum Violation {
    /// More than the budget for the timestamps of one window.
    Window,
    /// More than the budget within a time that is shorter than a window.
    Time,
    /// Two different reports for one phase.
    DrawnTwice,
}

/// A sent report: its true time, timestamp, loss and promised window.
struct Left {
    at: u64,
    timestamp: u64,
    units: u64,
    window: u64,
}

/// Simulates a device with crashes, restarts, clock jumps and policy changes, and a greedy collector.
fn live(seed: u64, broken: Broken) -> Result<u32, Violation> {
    let mut random = SeededRandom::new(seed);
    let mut draw = |below: u64| random.next_word() % below;
    let mut window = 1 + draw(5);
    let disk = SimulatedDisk::new(broken, seed);
    let (agent, mut time) = ready(&disk, window);
    let mut agent = Some(agent);
    let mut noise = SeededRandom::with_stream(seed, 1);
    let mut left: Vec<Left> = Vec::new();
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
                // The last promised policy, unless the machine crashed before it was durable.
                match open_with(&disk, promised(window), &time) {
                    Ok((agent, _)) => agent,
                    Err(AgentError::OtherPolicy { enrolled, .. }) => {
                        window = match enrolled.protects.window {
                            Window::Timestamps(window) => window.get(),
                            Window::Unbounded => panic!("nobody promised that"),
                        };
                        open(&disk, window, &time).0
                    }
                    Err(fault) => panic!("{fault}"),
                }
            }
        };
        if draw(40) == 0 {
            drop(device);
            window = 1 + draw(5);
            match enrol_anew(&disk, promised(window), &time) {
                Ok((agent, _)) => device = agent,
                // The machine has stopped.
                Err(_) => continue,
            }
        }
        let asked = question(time.timestamp(), u16::try_from(draw(2)).unwrap(), ALL / (1 + draw(3)));
        match device.answer(time.reading(), "visits", &asked, 2, &mut noise) {
            Ok(AgentReply::Report(report)) => {
                let identity = (asked.timestamp, asked.phase);
                match reports.insert(identity, report.clone()) {
                    None => {
                        let (at, timestamp, units) = (time.truly, asked.timestamp, asked.epsilon.units());
                        left.push(Left { at, timestamp, units, window });
                    }
                    Some(before) if before != report => return Err(Violation::DrawnTwice),
                    Some(_) => {}
                }
                // Sometimes the machine crashes right after sending the report.
                if draw(5) > 0 {
                    agent = Some(device);
                }
            }
            Ok(AgentReply::Refused(_)) => agent = Some(device),
            Err(_) => {}
        }
    }
    let lost = |belongs: &dyn Fn(&Left) -> bool| -> u64 {
        left.iter().filter(|report| belongs(report)).map(|report| report.units).sum()
    };
    for Left { at, timestamp, window, .. } in &left {
        // Later policies do not matter, because the data are the same.
        if lost(&|other| (*timestamp..timestamp + window).contains(&other.timestamp)) > ALL {
            return Err(Violation::Window);
        }
        // The timestamps of a window span at least a window minus one tick of time, up to the clocks' slack.
        let span = ((window - 1) * TICK).saturating_sub(3);
        if lost(&|other| (*at..at + span).contains(&other.at)) > ALL {
            return Err(Violation::Time);
        }
    }
    Ok(u32::try_from(left.len()).unwrap())
}

#[test]
fn no_simulated_life_breaks_the_guarantee() {
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
