//! Devices that release sequences: nothing is drawn or spent twice, and no open batch reaches the disk.

use std::collections::BTreeMap;

use ed25519_dalek::{Signer, SigningKey};
use sha2::{Digest, Sha256};
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::enrolment::{SignedPolicy, StreamPolicy, VerifiedPolicy};
use tidegate_device::sequence::{Metric, PolicyModel, PolicyRow, SequenceMechanism, SequencePolicy};
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::{Agent, AgentError, AgentReply, DevicePolicy, RefusalReason};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon, Question, Randomness, SeededRandom, View, Window};

use crate::agent::{EPOCH, TICK, policy as plain, verified};

/// A coin that stays as it is six times in ten: no belief ever makes an answer constant at epsilon 1.
fn coin() -> PolicyModel {
    let row = |own: [u32; 2]| PolicyRow { own: vec![(0, own[0]), (1, own[1])], rest: 0 };
    let (most, rest) = (600_000_000, 400_000_000);
    PolicyModel {
        prior: vec![500_000_000; 2],
        rows: vec![row([most, rest]), row([rest, most])],
        background: vec![500_000_000; 2],
    }
}

/// A policy whose window holds two releases.
pub(crate) fn policy(length: u32, window: u64) -> StreamPolicy {
    let mechanism = if length == 1 { SequenceMechanism::Crr } else { SequenceMechanism::Batched { length } };
    let sequence = SequencePolicy { mechanism, epsilon: "1".parse().unwrap(), metric: Metric::Hamming, model: coin() };
    let window = Window::of(window * u64::from(length)).unwrap();
    let protects = DevicePolicy { epsilon: "4".parse().unwrap(), window, domain: 2 };
    StreamPolicy { protects, sequence: Some(sequence), ..plain(1) }
}

pub(crate) fn question(timestamp: u64, length: u32) -> Question {
    let (cohort, view) = (Cohort::Everyone, View::Sequence { length });
    let epsilon = "2".parse().unwrap();
    Question { timestamp, phase: 0, cohort, epsilon, oracle: OracleKind::Grr, domain: 2, view }
}

fn at(timestamp: u64) -> ClockReading {
    let wall = EPOCH + timestamp * TICK;
    ClockReading { wall, steady: Steady { run: [1; 16], seconds: wall } }
}

const MACHINE: &[u8] = b"machine";

fn open(disk: &SimulatedDisk, policy: VerifiedPolicy, now: ClockReading) -> Agent<SimulatedDisk> {
    Agent::open(disk.clone(), "position", policy, MACHINE, now, &mut SeededRandom::new(5)).unwrap().0
}

/// An agent whose first window is over at timestamp 100.
fn ready(disk: &SimulatedDisk, length: u32) -> Agent<SimulatedDisk> {
    open(disk, verified(policy(length, 2)), at(100 - 2 * u64::from(length)))
}

fn answer(agent: &mut Agent<SimulatedDisk>, question: &Question, symbol: u32, seed: u64) -> AgentReply {
    let random = &mut SeededRandom::new(seed);
    agent.answer(at(question.timestamp), "visits", question, symbol, random).unwrap()
}

#[test]
fn policies_of_oracles_are_signed_as_they_always_were() {
    let own = plain(3);
    let common = (&own.stream, own.protects, own.oracle, own.ticks, own.slot_key);
    let message = postcard::to_extend(&common, b"tidegate stream policy 1\n".to_vec()).unwrap();
    let digits: String = Sha256::digest(&message).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(own.fingerprint().unwrap().to_string(), digits);
    // A policy that an earlier operator signed and wrote still verifies.
    let operator = SigningKey::from_bytes(&[7; 32]);
    let mut json = serde_json::to_value(&own).unwrap();
    assert_eq!(json.as_object().unwrap().len(), 5);
    json = serde_json::json!({ "policy": json, "signature": operator.sign(&message).to_bytes().to_vec() });
    let signed: SignedPolicy = serde_json::from_value(json).unwrap();
    assert_eq!(signed.verified(&operator.verifying_key()).unwrap().into_policy(), own);
}

#[test]
fn every_part_of_a_sequence_is_signed() {
    let operator = SigningKey::from_bytes(&[7; 32]);
    let signed = policy(1, 2).sign(&operator).unwrap();
    let json = serde_json::to_string(&signed).unwrap();
    let read: SignedPolicy = serde_json::from_str(&json).unwrap();
    assert_eq!(read, signed);
    assert!(read.verified(&operator.verifying_key()).is_ok());
    type Change = fn(&mut SequencePolicy);
    let changes: [(Change, &str); 4] = [
        (|sequence| sequence.mechanism = SequenceMechanism::Batched { length: 2 }, "sequence mechanism batched by 2"),
        (|sequence| sequence.epsilon = "0.5".parse().unwrap(), "epsilon of a release 0.5 instead of 1"),
        (|sequence| sequence.metric = Metric::Absolute, "metric absolute instead of hamming"),
        (|sequence| sequence.model.rows.swap(0, 1), "another model"),
    ];
    for (change, named) in changes {
        let mut forged = signed.clone();
        change(forged.policy.sequence.as_mut().unwrap());
        let differences = signed.policy.differences(&forged.policy);
        assert!(differences.len() == 1 && differences[0].starts_with(named), "{differences:?}");
        assert_ne!(forged.policy.fingerprint().unwrap(), signed.policy.fingerprint().unwrap());
        assert!(forged.verified(&operator.verifying_key()).is_err(), "{named}");
    }
    let mut stripped = signed.clone();
    stripped.policy.sequence = None;
    assert!(stripped.verified(&operator.verifying_key()).is_err());
}

#[test]
fn a_policy_that_no_device_can_follow_is_refused() {
    type Change = fn(&mut StreamPolicy);
    let changes: [(Change, &str); 8] = [
        (|policy| policy.oracle = Some(OracleKind::Grr), "not answered by an oracle"),
        (|policy| policy.protects.epsilon = "1.9".parse().unwrap(), "a release costs 2"),
        (|policy| policy.protects.domain = 3, "over 2 symbols"),
        (|policy| policy.sequence.as_mut().unwrap().epsilon = "11".parse().unwrap(), "epsilon"),
        (|policy| policy.sequence.as_mut().unwrap().metric = Metric::Grid { columns: 0 }, "column"),
        (|policy| policy.sequence.as_mut().unwrap().model.prior[0] -= 1, "999999999 billionths"),
        (|policy| policy.sequence.as_mut().unwrap().model.rows[1].rest = 1, "1000000001 billionths"),
        (
            |policy| policy.sequence.as_mut().unwrap().mechanism = SequenceMechanism::Batched { length: 15 },
            "15 symbols",
        ),
    ];
    for (change, expected) in changes {
        let mut wrong = policy(1, 2);
        change(&mut wrong);
        let problem = wrong.check().unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }
    let mut large = policy(1, 2);
    let model = &mut large.sequence.as_mut().unwrap().model;
    *model = PolicyModel { prior: vec![0; 5_000], rows: Vec::new(), background: Vec::new() };
    assert!(large.check().is_err());
}

#[test]
fn a_release_costs_twice_its_epsilon_whatever_the_model() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk, 1);
    for timestamp in 100..102 {
        assert!(matches!(answer(&mut agent, &question(timestamp, 1), 1, 7), AgentReply::Report(_)));
    }
    assert_eq!(agent.device().spent_in_window(101), Some("4".parse().unwrap()));
    let third = question(102, 1);
    assert!(matches!(answer(&mut agent, &third, 1, 7), AgentReply::Report(_)), "the first left the window");
    assert_eq!(agent.device().spent_in_window(102), Some("4".parse().unwrap()));
}

#[test]
fn a_restarted_device_repeats_the_identical_report() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk, 1);
    let first = answer(&mut agent, &question(100, 1), 1, 7);
    for seed in 0..20 {
        disk.restart();
        let mut agent = open(&disk, verified(policy(1, 2)), at(100));
        assert_eq!(answer(&mut agent, &question(100, 1), 0, seed), first);
        // Nor does another question get another answer about the same symbol.
        let again = Question { phase: 1, ..question(100, 1) };
        assert_eq!(answer(&mut agent, &again, 1, seed), AgentReply::Refused(RefusalReason::Answered));
    }
}

#[test]
fn a_restarted_device_keeps_what_it_believes() {
    let reports = |restarts: bool| -> Vec<AgentReply> {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let mut agent = ready(&disk, 1);
        let ask = |timestamp| {
            if restarts {
                agent = open(&disk, verified(policy(1, 2)), at(timestamp));
            }
            answer(&mut agent, &question(timestamp, 1), u32::from(timestamp % 3 == 0), timestamp)
        };
        (100..160).map(ask).collect()
    };
    assert_eq!(reports(true), reports(false));
}

#[test]
fn a_greedy_collector_gets_only_a_reason_for_sequences() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk, 1);
    let own = question(100, 1);
    let more = Question { epsilon: "3".parse().unwrap(), ..own.clone() };
    let changes = [
        Question { view: View::Values, ..own.clone() },
        Question { view: View::Sequence { length: 2 }, ..own.clone() },
        Question { oracle: OracleKind::Oue, ..own.clone() },
        Question { epsilon: Epsilon::MIN, ..own.clone() },
        more,
    ];
    for asked in changes {
        assert_eq!(answer(&mut agent, &asked, 1, 7), AgentReply::Refused(RefusalReason::OtherOracle), "{asked:?}");
    }
    let wider = Question { domain: 3, ..own.clone() };
    assert_eq!(answer(&mut agent, &wider, 1, 7), AgentReply::Refused(RefusalReason::OtherDomain));
    assert!(matches!(answer(&mut agent, &own, 1, 7), AgentReply::Report(_)), "no refusal has cost anything");
    // Nor does a stream of oracles answer a question about sequences.
    let disk = SimulatedDisk::new(Broken::default(), 2);
    let mut agent = open(&disk, verified(plain(1)), at(99));
    let asked = Question { domain: 6, epsilon: "1".parse().unwrap(), ..own };
    assert_eq!(answer(&mut agent, &asked, 1, 7), AgentReply::Refused(RefusalReason::OtherOracle));
}

#[test]
fn a_missing_symbol_costs_the_same_and_is_not_told() {
    let outcomes = |symbol| {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let mut agent = ready(&disk, 1);
        let random = &mut SeededRandom::new(7);
        let first = agent.answer(at(100), "visits", &question(100, 1), symbol, random);
        assert_eq!(matches!(first, Err(AgentError::Value(_))), symbol > 1);
        (agent.device().spent_in_window(100), agent.device().spent_in_window(101))
    };
    assert_eq!(outcomes(1), outcomes(2));
}

#[test]
fn an_open_batch_is_never_on_the_disk() {
    let states = |symbols: [u32; 3]| {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let mut agent = ready(&disk, 3);
        let saved = || disk.contents("position.device").unwrap();
        let before = saved();
        for (timestamp, symbol) in (102..).zip(symbols) {
            agent.gather(at(timestamp), timestamp, symbol);
            assert_eq!(saved(), before);
        }
        assert!(format!("{agent:?}").contains("symbols: SymbolBatch(..)"));
        before
    };
    assert_eq!(states([0, 0, 0]), states([1, 0, 1]));
}

#[test]
fn a_crash_loses_at_most_an_open_batch() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk, 3);
    let gather = |agent: &mut Agent<SimulatedDisk>, timestamps: std::ops::Range<u64>| {
        timestamps.for_each(|timestamp| agent.gather(at(timestamp), timestamp, 1));
    };
    gather(&mut agent, 102..105);
    assert!(matches!(answer(&mut agent, &question(104, 3), 1, 7), AgentReply::Report(_)));
    gather(&mut agent, 105..107);
    disk.restart();
    let mut agent = open(&disk, verified(policy(3, 2)), at(107));
    let random = &mut SeededRandom::new(7);
    // The device decides before it looks, so the batch costs the same.
    let broken = agent.answer(at(107), "visits", &question(107, 3), 1, random);
    assert!(matches!(broken, Err(AgentError::Value(_))), "{broken:?}");
    assert_eq!(agent.device().spent_in_window(107), Some("4".parse().unwrap()));
    gather(&mut agent, 108..111);
    assert!(matches!(answer(&mut agent, &question(110, 3), 1, 7), AgentReply::Report(_)));
    // A batch is asked for at its end only.
    gather(&mut agent, 111..113);
    assert_eq!(answer(&mut agent, &question(112, 3), 1, 7), AgentReply::Refused(RefusalReason::OtherOracle));
}

#[test]
fn the_first_value_of_a_timestamp_counts_and_gaps_break_a_batch() {
    let ask = |gathered: &[(u64, u32)]| {
        let disk = SimulatedDisk::new(Broken::default(), 1);
        let mut agent = ready(&disk, 3);
        gathered.iter().for_each(|(timestamp, symbol)| agent.gather(at(104), *timestamp, *symbol));
        agent.answer(at(104), "visits", &question(104, 3), 1, &mut SeededRandom::new(7)).ok()
    };
    let whole = ask(&[(102, 0), (103, 1), (104, 1)]);
    assert!(whole.is_some());
    assert_eq!(ask(&[(102, 0), (102, 1), (103, 1), (103, 0)]), whole);
    assert_eq!(ask(&[(101, 1), (102, 0), (103, 1)]), whole);
    for broken in [&[(103, 1)][..], &[(102, 0)], &[(102, 0), (103, 2)], &[(103, 1), (102, 0)]] {
        assert_eq!(ask(broken), None, "{broken:?}");
    }
    // A time that the device's own clock has not reached is not believed.
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk, 3);
    (102..105).for_each(|timestamp| agent.gather(at(101), timestamp, 1));
    assert!(agent.answer(at(104), "visits", &question(104, 3), 1, &mut SeededRandom::new(7)).is_err());
}

/// Simulates a device with crashes, restarts and jumps of the clock. Returns how many reports left, or what an observer
/// of all of them finds wrong.
fn live(seed: u64, length: u32, broken: Broken) -> Result<usize, &'static str> {
    let mut random = SeededRandom::new(seed);
    let mut draw = |below: u64| random.next_word() % below;
    let window = 1 + draw(3);
    let (disk, signed) = (SimulatedDisk::new(broken, seed), verified(policy(length, window)));
    let mut noise = SeededRandom::with_stream(seed, 1);
    let (mut truly, mut ahead, mut run) = (EPOCH + 10_000, 0_u64, 1_u8);
    let mut agent =
        Some(open(&disk, signed.clone(), ClockReading { wall: truly, steady: Steady { run: [1; 16], seconds: 0 } }));
    let mut reports = BTreeMap::new();
    for _ in 0..150 {
        truly += draw(2 * TICK);
        match draw(40) {
            0 => ahead = draw(8 * window * TICK),
            1 => run = run.wrapping_add(1),
            _ => {}
        }
        let now =
            ClockReading { wall: truly + ahead, steady: Steady { run: [run; 16], seconds: truly - EPOCH - 10_000 } };
        if draw(4) == 0 {
            disk.crash_in(u32::try_from(draw(9)).unwrap());
        }
        let mut device = agent.take().unwrap_or_else(|| {
            if draw(2) == 0 {
                disk.restart();
            } else {
                disk.go_on();
            }
            open(&disk, signed.clone(), now)
        });
        let timestamp = (now.wall - EPOCH) / TICK;
        let symbol = u32::try_from(draw(2)).unwrap();
        for gathered in timestamp.saturating_sub(u64::from(length))..=timestamp {
            device.gather(now, gathered, symbol);
        }
        let asked = Question { phase: u16::try_from(draw(2)).unwrap(), ..question(timestamp, length) };
        match device.answer(now, "visits", &asked, symbol, &mut noise) {
            Ok(AgentReply::Report(report)) => {
                // One release for each timestamp, whatever the phase.
                if reports.insert(timestamp, report.clone()).is_some_and(|before| before != report) {
                    return Err("a symbol was drawn twice");
                }
                agent = (draw(5) > 0).then_some(device);
            }
            Ok(AgentReply::Refused(_)) => agent = Some(device),
            // A value that is missing is no fault of the disk.
            Err(AgentError::Value(_)) => agent = Some(device),
            Err(_) => {}
        }
    }
    let span = window * u64::from(length);
    let spent = |from: u64| 2 * reports.range(from..from + span).count();
    if reports.keys().any(|timestamp| spent(*timestamp) > 4) {
        return Err("a window was exceeded");
    }
    Ok(reports.len())
}

#[test]
fn no_simulated_life_of_a_sequence_breaks_the_guarantee() {
    for length in [1, 2] {
        let left: usize = (0..500)
            .map(|seed| live(seed, length, Broken::default()).unwrap_or_else(|found| panic!("seed {seed}: {found}")))
            .sum();
        assert!(left > 4_000, "only {left} reports left: the lives are too dull to tell anything");
    }
}

#[test]
fn a_disk_that_does_not_sync_loses_releases_of_sequences() {
    let broken = Broken { sync: true, names: true };
    let caught = (0..2_000).find_map(|seed| live(seed, 1, broken).err());
    assert!(caught.is_some(), "a disk that does not sync went unnoticed");
}
