//! Bodies of the device's fuzz targets: what they do with any input, and which assertions must hold.
//!
//! Each function is the body of the target of the same name in the repository's `fuzz` folder. The tests run them on
//! fixed inputs too (`tests/device/fuzz.rs`).

use std::num::NonZeroU64;
use std::sync::LazyLock;

use ed25519_dalek::SigningKey;
use tidegate_device::clock::{ClockReading, Steady, Ticks};
use tidegate_device::credential::{BLOCK, Credential, Draw, DrawAnswer, DrawRequest, Issuer};
use tidegate_device::disk::replace;
use tidegate_device::enrolment::{StreamPolicy, VerifiedPolicy};
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::wire::{Batch, BatchText, BatchWriter, ReportId, StreamTag, TokenProof};
use tidegate_device::{Agent, AgentReply, DevicePolicy};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon, Question, SeededRandom, View, Window};

/// Any bytes as a batch: a parsed batch is written back the same, also through text.
pub fn batch(bytes: &[u8]) {
    let Ok(batch) = Batch::parse(bytes) else { return };
    assert!(batch.len() > 0 && batch.report_length() > 0);
    assert_eq!(batch.reports().len(), batch.len() * batch.report_length());
    let mut writer = BatchWriter::new(batch.stream, batch.timestamp, batch.phase, batch.report_length());
    let mut tokens = batch.tokens().as_chunks().0.iter().map(|token| TokenProof::from(*token));
    batch.iter().for_each(|(id, report)| writer.push_with(id, tokens.next(), report).unwrap());
    assert_eq!(writer.write().unwrap(), bytes);
    if let Some(text) = BatchText::of(&batch, "visits") {
        assert_eq!(text.to_bytes().unwrap(), bytes);
    }
}

/// Any JSON as a batch in text: a valid one has equivalent bytes.
pub fn batch_text(bytes: &[u8]) {
    let Ok(text) = serde_json::from_slice::<BatchText>(bytes) else { return };
    let Ok(written) = text.to_bytes() else { return };
    let batch = Batch::parse(&written).unwrap();
    assert_eq!((batch.timestamp, batch.phase, batch.len()), (text.timestamp, text.phase, text.reports.len()));
    let mut again = BatchText::of(&batch, &text.stream).unwrap();
    assert_eq!(again.to_bytes().unwrap(), written);
    // The same reports, except for their order and the case of digits.
    let mut given = text.reports;
    given.iter_mut().for_each(|report| {
        report.id.make_ascii_lowercase();
        report.report.make_ascii_lowercase();
    });
    given.sort_by(|a, b| a.id.cmp(&b.id));
    again.reports.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(again.reports, given);
}

/// The issuer of a stream, its credential for a device, and a draw.
static ISSUER: LazyLock<Issuer> = LazyLock::new(|| Issuer::new(&[7; 32], "visits").unwrap());

/// A request for tokens.
pub fn draw() -> Draw {
    Draw::new(10, &mut SeededRandom::new(1))
}

/// The credential of its device.
pub fn credential() -> Credential {
    ISSUER.credential("phone-1").unwrap()
}

/// Any JSON as a draw of tokens: only the one that the credential has signed is answered.
pub fn draw_request(bytes: &[u8]) {
    let Ok(request) = serde_json::from_slice::<DrawRequest>(bytes) else { return };
    let Ok(elements) = ISSUER.check(&request) else { return };
    let genuine = draw().request(&credential());
    assert_eq!((&request.device, request.block), (&genuine.device, genuine.block));
    assert!(request.elements.eq_ignore_ascii_case(&genuine.elements));
    assert_eq!(elements.len() as u64, BLOCK);
}

/// Any JSON as an answer to a draw: only the key's own answer makes tokens.
pub fn draw_answer(bytes: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<DrawAnswer>(bytes) else { return };
    let (tag, mut draw) = (StreamTag::of("visits"), draw());
    if draw.finish(tag, &ISSUER.public(), &answer).is_err() {
        return assert!(!draw.is_complete());
    }
    let token = draw.token(tag, 165).unwrap();
    let checker = ISSUER.checker(165).unwrap();
    assert!(checker.accepts(0, token.report_id(0), token.prove(0, b"report"), b"report"));
}

/// The answer to the draw.
pub fn answer() -> DrawAnswer {
    ISSUER.answer(10, &ISSUER.check(&draw().request(&credential())).unwrap()).unwrap()
}

/// Any proof of a token, identity and report: none is accepted, since none was drawn.
pub fn token_proof(bytes: &[u8]) {
    let Some((proof, report)) = bytes.split_first_chunk::<32>() else { return };
    let checker = ISSUER.checker(165).unwrap();
    let id = ReportId::of(&[1; 16], StreamTag::of("visits"), 165, 0);
    assert!(!checker.accepts(0, id, TokenProof::from(*proof), report));
}

/// The file of the agent's state.
pub const FILE: &str = "position.device";

/// The window of its policy, and all of its budget.
const WINDOW: u64 = 3;
const ALL: u64 = 1_000_000_000;

static POLICY: LazyLock<VerifiedPolicy> = LazyLock::new(|| {
    let operator = SigningKey::from_bytes(&[7; 32]);
    let protects = DevicePolicy { epsilon: "1".parse().unwrap(), window: Window::of(WINDOW).unwrap(), domain: 6 };
    let ticks = Ticks { epoch: 0, seconds: NonZeroU64::MIN };
    let policy = StreamPolicy {
        stream: "visits".to_owned(),
        protects,
        oracle: None,
        ticks,
        slot_key: *b"sixteen byte key",
        sequence: None,
        issuer: None,
    };
    policy.sign(&operator).unwrap().verified(&operator.verifying_key()).unwrap()
});

/// Opens an agent on a disk, at a time.
pub fn open(disk: &SimulatedDisk, now: u64) -> Option<Agent<SimulatedDisk>> {
    Agent::open(disk.clone(), "position", POLICY.clone(), b"machine", reading(now), &mut SeededRandom::new(1))
        .ok()
        .map(|(agent, _)| agent)
}

fn enrol_anew(disk: &SimulatedDisk, now: u64) -> Option<Agent<SimulatedDisk>> {
    Agent::enrol_anew(disk.clone(), "position", POLICY.clone(), b"machine", reading(now), &mut SeededRandom::new(1))
        .ok()
        .map(|(agent, _)| agent)
}

fn reading(now: u64) -> ClockReading {
    ClockReading { wall: now, steady: Steady { run: [1; 16], seconds: now } }
}

/// The units of epsilon that the agent spends on one more phase of a timestamp, when asked for the given amount.
pub fn ask(agent: &mut Agent<SimulatedDisk>, now: u64, phase: u16, units: u64) -> u64 {
    let (cohort, view) = (Cohort::Everyone, View::Values);
    let epsilon = Epsilon::from_units(units).unwrap();
    let question = Question { timestamp: now, phase, cohort, epsilon, oracle: OracleKind::Grr, domain: 6, view };
    match agent.answer(reading(now), "visits", &question, 2, &mut SeededRandom::new(now)) {
        Ok(AgentReply::Report(_)) => units,
        _ => 0,
    }
}

/// A flag for a valid checksum, then any bytes as an agent's saved state: no later window is exceeded.
pub fn agent_state(bytes: &[u8]) {
    let [with_checksum, contents @ ..] = bytes else { return };
    let disk = SimulatedDisk::new(Broken::default(), 1);
    if with_checksum.is_multiple_of(2) {
        replace(&mut disk.clone(), FILE, contents).unwrap();
    } else {
        disk.put(FILE, contents);
    }
    let begin = 1_000;
    // A state that cannot be opened may have another policy; the owner then consents to this one.
    let Some(mut agent) = open(&disk, begin).or_else(|| enrol_anew(&disk, begin)) else { return };
    let mut given: Vec<u64> = Vec::new();
    for now in begin..begin + 3 * WINDOW {
        // Spend the whole budget in halves.
        let asked = [ALL, ALL / 2, ALL / 2, ALL / 4, 1];
        given.push((0..).zip(asked).map(|(phase, units)| ask(&mut agent, now, phase, units)).sum());
        let window = given.iter().rev().take(usize::try_from(WINDOW).unwrap()).sum::<u64>();
        assert!(window <= ALL, "{given:?}");
    }
    // The saved result loads, and is as spent.
    drop(agent);
    let mut again = open(&disk, begin + 3 * WINDOW - 1).unwrap();
    let more = ask(&mut again, begin + 3 * WINDOW - 1, 9, ALL);
    assert!(given.iter().rev().take(usize::try_from(WINDOW).unwrap()).sum::<u64>() + more <= ALL, "{given:?}");
}
