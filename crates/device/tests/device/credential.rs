//! Tokens: one for each timestamp of a stream, drawn blindly, kept across crashes, and good for nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use tidegate_device::client::{Client, ClientOptions};
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::credential::{BLOCK, Credential, Draw, DrawAnswer, DrawRequest, Issuer, TokenError};
use tidegate_device::disk::replace;
use tidegate_device::enrolment::{PolicyError, StreamPolicy, VerifiedPolicy};
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::wire::{Batch, BatchText, BatchWriter, MAX_TOKENS, ReportId, StreamTag, TokenProof, WireError};
use tidegate_device::{Agent, AgentError, AgentReply, Beginning, RefusalReason};
use tidegate_kernel::{Randomness, SeededRandom};

use crate::agent::{ALL, EPOCH, TICK, policy, question, verified};
use crate::http_server::{Answer, Server};
use crate::sequence;

const FILE: &str = "position.device";

fn issuer() -> Issuer {
    Issuer::new(&[7; 32], "visits").unwrap()
}

fn signed() -> VerifiedPolicy {
    verified(StreamPolicy { issuer: Some(issuer().public()), ..policy(2) })
}

fn at(timestamp: u64) -> ClockReading {
    let wall = EPOCH + timestamp * TICK;
    ClockReading { wall, steady: Steady { run: [1; 16], seconds: wall } }
}

fn open(disk: &SimulatedDisk, now: u64) -> (Agent<SimulatedDisk>, Beginning) {
    Agent::open(disk.clone(), "position", signed(), b"machine", at(now), &mut SeededRandom::new(5)).unwrap()
}

/// An agent whose first window is over at timestamp 160, where a block begins.
fn ready(disk: &SimulatedDisk) -> Agent<SimulatedDisk> {
    open(disk, 158).0
}

fn respond(request: &DrawRequest) -> DrawAnswer {
    let issuer = issuer();
    issuer.answer(request.block, &issuer.check(request).unwrap()).unwrap()
}

fn credential() -> Credential {
    issuer().credential("phone-1").unwrap()
}

fn draw(agent: &mut Agent<SimulatedDisk>, now: u64, seed: u64) -> Option<DrawRequest> {
    let draw = agent.draw(at(now), &mut SeededRandom::new(seed)).unwrap();
    draw.map(|draw| draw.request(&credential()))
}

fn ask(agent: &mut Agent<SimulatedDisk>, now: u64, phase: u16, units: u64) -> AgentReply {
    let asked = question(now, phase, units);
    agent.answer(at(now), "visits", &asked, 2, &mut SeededRandom::new(now)).unwrap()
}

/// A drawn block, from a seed.
fn drawn(block: u64, seed: u64) -> Draw {
    let mut draw = Draw::new(block, &mut SeededRandom::new(seed));
    let answer = respond(&draw.request(&credential()));
    draw.finish(StreamTag::of("visits"), &issuer().public(), &answer).unwrap();
    draw
}

#[test]
fn a_device_without_a_token_spends_nothing() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let before = disk.contents(FILE).unwrap();
    for phase in 0..3 {
        assert_eq!(ask(&mut agent, 160, phase, ALL), AgentReply::Refused(RefusalReason::NoToken));
    }
    assert_eq!(disk.contents(FILE).unwrap(), before);
    let request = draw(&mut agent, 160, 1).unwrap();
    agent.drawn(request.block, &respond(&request)).unwrap();
    assert!(matches!(ask(&mut agent, 160, 0, ALL), AgentReply::Report(_)), "the whole budget is left");
}

#[test]
fn a_report_carries_the_token_of_its_timestamp() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let request = draw(&mut agent, 160, 1).unwrap();
    agent.drawn(request.block, &respond(&request)).unwrap();
    let (issuer, asked) = (issuer(), question(161, 1, ALL));
    let AgentReply::Report(report) = ask(&mut agent, 161, 1, ALL) else { panic!("no report") };
    let (id, proof) = (agent.report_id(&asked).unwrap(), agent.prove(&asked, &report).unwrap());
    let checker = issuer.checker(161).unwrap();
    assert!(checker.accepts(1, id, proof, report.as_bytes()));
    // The same token has another identity for each phase, and one for each.
    assert_ne!(agent.report_id(&question(161, 0, 1)).unwrap(), id);
    assert_eq!(agent.report_id(&question(161, 1, 1)).unwrap(), id);
    let others = [
        ("phase", checker.accepts(0, id, proof, report.as_bytes())),
        ("report", checker.accepts(1, id, proof, b"another")),
        ("identity", checker.accepts(1, agent.report_id(&question(161, 0, 1)).unwrap(), proof, report.as_bytes())),
        ("identity of its own", {
            let own = ReportId::of(&[1; 16], StreamTag::of("visits"), 161, 1);
            checker.accepts(1, own, proof, report.as_bytes())
        }),
        ("timestamp", issuer.checker(162).unwrap().accepts(1, id, proof, report.as_bytes())),
        ("stream", {
            let other = Issuer::new(&[7; 32], "visits-2").unwrap();
            other.checker(161).unwrap().accepts(1, id, proof, report.as_bytes())
        }),
        ("invented token", checker.accepts(1, id, TokenProof::from([9; 32]), report.as_bytes())),
    ];
    assert!(others.iter().all(|(_, accepted)| !accepted), "{others:?}");
}

#[test]
fn a_draw_survives_crashes_and_is_repeated_identically() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let request = draw(&mut agent, 160, 1).unwrap();
    // The answer was lost, and the device too; another seed would make another draw.
    drop(agent);
    disk.restart();
    let (mut agent, beginning) = open(&disk, 160);
    assert!(matches!(beginning, Beginning::Resumed));
    assert_eq!(draw(&mut agent, 160, 2).unwrap(), request);
    let answer = respond(&request);
    assert_eq!(respond(&request), answer, "a service that was restarted answers alike");
    agent.drawn(request.block, &answer).unwrap();
    let id = agent.report_id(&question(163, 0, 1)).unwrap();
    drop(agent);
    disk.restart();
    let (mut agent, _) = open(&disk, 163);
    assert_eq!(agent.report_id(&question(163, 0, 1)), Some(id));
    assert!(matches!(ask(&mut agent, 163, 0, 1), AgentReply::Report(_)));
    // A crash between any two operations of the disk: never another request for the same block.
    for operations in 0..8 {
        let disk = SimulatedDisk::new(Broken::default(), operations.into());
        let mut agent = ready(&disk);
        disk.crash_in(operations);
        let sent =
            agent.draw(at(160), &mut SeededRandom::new(1)).ok().flatten().map(|draw| draw.request(&credential()));
        drop(agent);
        disk.restart();
        let again = draw(&mut open(&disk, 160).0, 160, 2).unwrap();
        assert!(sent.is_none_or(|sent| sent == again), "{operations}");
    }
}

#[test]
fn a_lost_answer_is_asked_for_with_identical_bytes() {
    let said = Mutex::new(0);
    let server = Server::start(move |request| {
        let mut said = said.lock().unwrap();
        *said += 1;
        let answer = serde_json::to_string(&respond(&serde_json::from_slice(&request.body).unwrap())).unwrap();
        // The first answer is lost on its way.
        if *said == 1 { Answer::Raw(Vec::new()) } else { Answer::Json(200, answer) }
    });
    let options = ClientOptions { attempts: 2, pause: Duration::from_millis(1), ..ClientOptions::default() };
    let client = Client::new(&server.url(), options).unwrap();
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let request = draw(&mut agent, 160, 1).unwrap();
    agent.drawn(request.block, &client.draw("visits", &request).unwrap()).unwrap();
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].path.as_str()), (2, "/v1/streams/visits/tokens"));
    assert_eq!(requests[0].body, requests[1].body);
}

fn draw_ahead(agent: &mut Agent<SimulatedDisk>, now: u64, seed: u64) -> Option<DrawRequest> {
    let draw = agent.draw_ahead(at(now), &mut SeededRandom::new(seed)).unwrap();
    draw.map(|draw| draw.request(&credential()))
}

#[test]
fn the_next_block_is_drawn_ahead_only() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let request = draw(&mut agent, 160, 1).unwrap();
    assert_eq!(request.block, 10);
    agent.drawn(10, &respond(&request)).unwrap();
    assert!((160..176).all(|now| draw(&mut agent, now, 2).is_none()), "nothing to draw before an answer");
    let next = draw_ahead(&mut agent, 165, 2).unwrap();
    assert_eq!((next.block, draw_ahead(&mut agent, 170, 3)), (11, Some(next.clone())));
    agent.drawn(11, &respond(&next)).unwrap();
    assert_eq!(draw_ahead(&mut agent, 175, 3), None);
    assert_eq!(draw(&mut agent, 176, 3), None);
    assert!(matches!(ask(&mut agent, 176, 0, 1), AgentReply::Report(_)));
    // Tokens of a block that is over are forgotten.
    assert!(matches!(agent.drawn(10, &respond(&request)), Err(AgentError::Token(_))));
}

#[test]
fn seeds_of_past_blocks_leave_the_disk() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    for request in [draw(&mut agent, 160, 1).unwrap(), draw_ahead(&mut agent, 160, 2).unwrap()] {
        agent.drawn(request.block, &respond(&request)).unwrap();
    }
    let has = |seed: u64| {
        let mut random = SeededRandom::new(seed);
        let seed: Vec<u8> = (0..4).flat_map(|_| random.next_word().to_le_bytes()).collect();
        disk.contents(FILE).unwrap().windows(32).any(|part| part == seed)
    };
    assert!(has(1) && has(2));
    // Nothing new is drawn.
    assert_eq!(draw(&mut agent, 176, 3), None);
    assert!(!has(1) && has(2));
}

#[test]
fn a_report_without_its_token_is_not_repeated() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let request = draw(&mut agent, 160, 1).unwrap();
    agent.drawn(10, &respond(&request)).unwrap();
    assert!(matches!(ask(&mut agent, 160, 0, 1), AgentReply::Report(_)));
    assert!(agent.report_id(&question(160, 0, 1)).is_some());
    // The clock jumps ahead, and back.
    draw(&mut agent, 192, 2).unwrap();
    assert_eq!(ask(&mut agent, 160, 0, 1), AgentReply::Refused(RefusalReason::NoToken));
    assert_eq!(agent.report_id(&question(160, 0, 1)), None, "the device's own identity");
}

#[test]
fn tokens_of_another_key_are_rejected() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = ready(&disk);
    let request = draw(&mut agent, 160, 1).unwrap();
    let elements = issuer().check(&request).unwrap();
    // A key of its own for a device would mark its tokens.
    let marked = Issuer::new(&[8; 32], "visits").unwrap().answer(request.block, &elements).unwrap();
    let elsewhere = Issuer::new(&[7; 32], "visits-2").unwrap().answer(request.block, &elements).unwrap();
    let later = issuer().answer(request.block + 1, &elements).unwrap();
    let mut one = respond(&request);
    one.evaluations.replace_range(3_071.., if one.evaluations.ends_with('0') { "1" } else { "0" });
    for answer in [marked, elsewhere, later, one] {
        let refused = agent.drawn(request.block, &answer);
        assert!(matches!(refused, Err(AgentError::Token(TokenError::OtherKey))), "{refused:?}");
    }
    assert_eq!(ask(&mut agent, 160, 0, 1), AgentReply::Refused(RefusalReason::NoToken));
    agent.drawn(request.block, &respond(&request)).unwrap();
}

#[test]
fn the_issuer_sees_nothing_of_a_token_twice() {
    let tag = StreamTag::of("visits");
    let (mut seen, mut shown, mut chunks) = (BTreeSet::new(), BTreeSet::new(), 0);
    for seed in 0..12 {
        let draw = drawn(10, seed);
        let request = draw.request(&credential());
        for element in request.elements.as_bytes().chunks(64) {
            assert!(seen.insert(element.to_vec()), "a blinded element repeats");
        }
        for timestamp in 160..160 + BLOCK {
            let token = draw.token(tag, timestamp).unwrap();
            let (id, proof) = (token.report_id(0), token.prove(0, b"report"));
            let text = format!("{id:?}{proof:?}");
            assert!(shown.insert(text));
            let (id, proof) = (*id.as_bytes(), proof.as_bytes());
            // No eight bytes of what a report shows are in what the draw showed.
            for part in id[4..].windows(8).chain(proof.windows(8)) {
                let digits: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
                assert!(!request.elements.contains(&digits));
                chunks += 1;
            }
        }
        assert!(draw.token(tag, 159).is_none() && draw.token(tag, 176).is_none());
    }
    assert_eq!((seen.len(), chunks), (12 * 16, 12 * 16 * (5 + 25)));
}

#[test]
fn draws_that_the_credential_did_not_sign_are_refused() {
    let (issuer, request) = (issuer(), Draw::new(10, &mut SeededRandom::new(1)).request(&credential()));
    assert!(issuer.check(&request).is_ok());
    type Change = (fn(&mut DrawRequest), TokenError);
    let changes: [Change; 9] = [
        (|request| request.device = "phone-2".to_owned(), TokenError::Unsigned),
        (|request| request.device = "Phone 1".to_owned(), TokenError::Unsigned),
        (|request| request.block = 11, TokenError::Unsigned),
        (|request| request.mac.clear(), TokenError::Unsigned),
        (|request| request.mac = "g".repeat(64), TokenError::Unsigned),
        (|request| request.elements.replace_range(..64, &"0".repeat(64)), TokenError::Unsigned),
        (|request| request.elements.clear(), TokenError::Elements),
        (|request| request.elements.push_str("00"), TokenError::Elements),
        (|request| request.elements = "\u{fc}".repeat(512), TokenError::Elements),
    ];
    for (change, error) in changes {
        let mut changed = request.clone();
        change(&mut changed);
        assert_eq!(issuer.check(&changed), Err(error), "{changed:?}");
    }
    assert_eq!(Issuer::new(&[8; 32], "visits").unwrap().check(&request), Err(TokenError::Unsigned));
    assert_eq!(Issuer::new(&[7; 32], "visits-2").unwrap().check(&request), Err(TokenError::Unsigned));
    // Signed, and no elements of the group.
    for bytes in [[0; 32], [0xff; 32]] {
        assert_eq!(issuer.answer(10, &[bytes; 16]), Err(TokenError::Elements));
    }
}

#[test]
fn credentials_are_files_that_hide_their_key() {
    let credential = credential();
    let json = serde_json::to_string(&credential).unwrap();
    assert_eq!(serde_json::from_str::<Credential>(&json).unwrap(), credential);
    assert_eq!((credential.stream(), credential.device()), ("visits", "phone-1"));
    let key = json.split('"').rev().nth(1).unwrap();
    assert!(key.len() == 64 && !format!("{credential:?}").contains(key));
    for changed in [json.replace("phone-1", "phone 1"), json.replace(key, &key[2..]), json.replace("\"key\"", "\"k\"")]
    {
        let error = serde_json::from_str::<Credential>(&changed).unwrap_err().to_string();
        assert!(!error.contains(&key[2..]), "{error}");
    }
    assert_eq!(issuer().credential("../etc"), Err(TokenError::Credential));
    assert_ne!(issuer().credential("phone-2").unwrap(), credential);
}

#[test]
fn the_policy_pins_the_key_of_tokens() {
    let with = StreamPolicy { issuer: Some(issuer().public()), ..policy(2) };
    assert_ne!(with.fingerprint().unwrap(), policy(2).fingerprint().unwrap());
    let other = StreamPolicy { issuer: Some(Issuer::new(&[8; 32], "visits").unwrap().public()), ..policy(2) };
    assert_ne!(with.fingerprint().unwrap(), other.fingerprint().unwrap());
    let named = policy(2).differences(&with);
    assert!(named.len() == 1 && named[0].starts_with("key of tokens ") && named[0].ends_with(" instead of none"));
    let invalid = StreamPolicy { issuer: Some([0xff; 32]), ..policy(2) };
    assert_eq!(invalid.check(), Err(PolicyError::Issuer));
    let json = serde_json::to_string(&with).unwrap();
    assert_eq!(serde_json::from_str::<StreamPolicy>(&json).unwrap(), with);
    // An agent keeps the key that it was enrolled with.
    let disk = SimulatedDisk::new(Broken::default(), 1);
    drop(ready(&disk));
    for offered in [verified(other), verified(policy(2))] {
        let refused = Agent::open(disk.clone(), "position", offered, b"machine", at(159), &mut SeededRandom::new(5));
        assert!(matches!(refused, Err(AgentError::OtherPolicy { .. })));
    }
}

#[test]
fn batches_carry_tokens_in_a_form_that_never_changes() {
    let tag = StreamTag::of("visits");
    let (id, token) = (ReportId::of(&[1; 16], tag, 7, 3), TokenProof::from([5; 32]));
    let mut writer = BatchWriter::new(tag, 7, 3, 2);
    writer.push_with(id, Some(token), &[1, 1]).unwrap();
    assert_eq!(writer.push(ReportId::of(&[2; 16], tag, 7, 3), &[1, 1]), Err(WireError::Token { position: 1 }));
    let bytes = writer.write().unwrap();
    let expected = [
        b"TGB2".as_slice(),
        tag.as_bytes(),
        &[7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0],
        id.as_bytes(),
        &[5; 32],
        &[1, 1],
    ];
    assert_eq!(bytes, expected.concat());
    let batch = Batch::parse(&bytes).unwrap();
    assert_eq!((batch.tokens(), batch.reports()), (&[5; 32][..], &[1, 1][..]));
    let text = BatchText::of(&batch, "visits").unwrap();
    assert_eq!(text.to_bytes().unwrap(), bytes);
    for length in 0..bytes.len() {
        assert!(Batch::parse(&bytes[..length]).is_err());
    }
    let mut as_first = bytes;
    as_first[3] = b'1';
    assert!(matches!(Batch::parse(&as_first), Err(WireError::Length { .. })), "a token is no part of a report");
    for token in ["", "00", &"g".repeat(64), &"\u{fc}".repeat(32)] {
        let mut changed = text.clone();
        changed.reports[0].token = Some(token.to_owned());
        assert_eq!(changed.to_bytes(), Err(WireError::Digits { position: 0 }), "{token}");
    }
}

#[test]
fn a_batch_with_tokens_is_bounded() {
    let tag = StreamTag::of("visits");
    let mut writer = BatchWriter::new(tag, 7, 3, 1);
    let id = |number: usize| {
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&(number as u64).to_le_bytes());
        ReportId::of(&identity, tag, 7, 3)
    };
    (0..MAX_TOKENS).for_each(|number| writer.push_with(id(number), Some(TokenProof::from([5; 32])), &[1]).unwrap());
    let beyond = Err(WireError::Tokens { given: MAX_TOKENS + 1 });
    assert_eq!(writer.push_with(id(MAX_TOKENS), Some(TokenProof::from([5; 32])), &[1]), beyond);
    let mut bytes = writer.write().unwrap();
    assert_eq!(Batch::parse(&bytes).unwrap().len(), MAX_TOKENS);
    bytes[36..40].copy_from_slice(&u32::try_from(MAX_TOKENS + 1).unwrap().to_le_bytes());
    assert_eq!(Batch::parse(&bytes), Err(WireError::Tokens { given: MAX_TOKENS + 1 }));
}

#[test]
fn releases_of_sequences_have_tokens_too() {
    let offered = || verified(StreamPolicy { issuer: Some(issuer().public()), ..sequence::policy(1, 2) });
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let open = |now, seed| {
        Agent::open(disk.clone(), "position", offered(), b"machine", at(now), &mut SeededRandom::new(seed)).unwrap()
    };
    let mut agent = open(158, 1).0;
    let asked = sequence::question(160, 1);
    let mut random = SeededRandom::new(3);
    let reply = agent.answer(at(160), "visits", &asked, 1, &mut random).unwrap();
    assert_eq!(reply, AgentReply::Refused(RefusalReason::NoToken));
    let request = draw(&mut agent, 160, 1).unwrap();
    agent.drawn(request.block, &respond(&request)).unwrap();
    drop(agent);
    disk.restart();
    let (mut agent, beginning) = open(160, 2);
    assert!(matches!(beginning, Beginning::Resumed));
    let AgentReply::Report(report) = agent.answer(at(160), "visits", &asked, 1, &mut random).unwrap() else {
        panic!("no report")
    };
    let (id, proof) = (agent.report_id(&asked).unwrap(), agent.prove(&asked, &report).unwrap());
    assert!(issuer().checker(160).unwrap().accepts(0, id, proof, report.as_bytes()));
}

/// The contents of an agent's state: after a window and a draw, where the stream has credentials.
fn saved(with_tokens: bool) -> Vec<u8> {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let offered = if with_tokens { signed() } else { verified(policy(2)) };
    let opened = Agent::open(disk.clone(), "position", offered, b"machine", at(158), &mut SeededRandom::new(5));
    let mut agent = opened.unwrap().0;
    if with_tokens {
        let request = draw(&mut agent, 160, 1).unwrap();
        agent.drawn(request.block, &respond(&request)).unwrap();
    }
    assert!(matches!(ask(&mut agent, 160, 0, ALL / 2), AgentReply::Report(_)));
    // After the header of `disk::replace`.
    disk.contents(FILE).unwrap()[16 + 32 + 8..].to_vec()
}

#[test]
fn states_of_every_version_load_and_the_newest_is_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (name, with_tokens) in [("agent-1.state", false), ("agent-tokens-1.state", true)] {
        let path = folder.join(name);
        if std::env::var_os("TIDEGATE_UPDATE").is_some() && !path.exists() {
            fs::write(&path, saved(with_tokens)).unwrap();
        }
        let golden = fs::read(&path).unwrap();
        assert!(golden == saved(with_tokens), "{name}: the form has changed; give it a new version and file");
        let disk = SimulatedDisk::new(Broken::default(), 1);
        replace(&mut disk.clone(), FILE, &golden).unwrap();
        let offered = if with_tokens { signed() } else { verified(policy(2)) };
        let (mut agent, beginning) =
            Agent::open(disk, "position", offered, b"machine", at(160), &mut SeededRandom::new(9)).unwrap();
        assert!(matches!(beginning, Beginning::Resumed), "{name}");
        assert!(matches!(ask(&mut agent, 160, 0, ALL / 2), AgentReply::Report(_)), "the same report again");
        assert!(matches!(ask(&mut agent, 161, 0, ALL / 2), AgentReply::Report(_)));
        let AgentReply::Report(report) = ask(&mut agent, 161, 0, ALL / 2) else { panic!("no report") };
        assert_eq!(agent.prove(&question(161, 0, 1), &report).is_some(), with_tokens);
    }
}

#[test]
fn damaged_tokens_are_no_state() {
    let whole = saved(true);
    let mut random = SeededRandom::new(3);
    let heading = whole.windows(18).position(|part| part == b"tidegate tokens 1\n").unwrap();
    for cut in heading..whole.len() {
        assert!(loads(&whole[..cut]) == (cut == heading), "{cut}");
    }
    for _ in 0..500 {
        let mut changed = whole.clone();
        #[allow(clippy::cast_possible_truncation)] // below a length
        let position = heading + (random.next_word() % (whole.len() - heading) as u64) as usize;
        changed[position] = changed[position].wrapping_add(1 + (random.next_word() % 255) as u8);
        // Whatever it is taken for, nothing panics, and the window holds.
        loads(&changed);
    }
}

/// Whether contents are a state of an agent, of whatever policy.
fn loads(contents: &[u8]) -> bool {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    replace(&mut disk.clone(), FILE, contents).unwrap();
    match Agent::open(disk, "position", signed(), b"machine", at(161), &mut SeededRandom::new(5)) {
        Ok((mut agent, beginning)) => {
            let _ = draw(&mut agent, 161, 1);
            !matches!(beginning, Beginning::Lost(_))
        }
        Err(AgentError::OtherPolicy { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}
