//! One client with one credential counts once for each timestamp, whatever it sends.

use std::thread;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tidegate::kernel::{Ledger, SeededRandom, Window};
use tidegate_device::api::{BATCH, OpenQuestion, Receipt};
use tidegate_device::credential::{
    BLOCK, Credential, Draw, DrawAnswer, DrawRequest, Issuer, ReportToken, TokenChecker,
};
use tidegate_device::enrolment::{SignedPolicy, VerifiedPolicy};
use tidegate_device::wire::{Batch, BatchText, BatchWriter, MAX_TOKENS, ReportId, StreamTag, TokenProof};
use tidegate_server::http::auth::Role;

use super::{Answer, PATIENCE, Server, batch, local_webhooks, rooms, visits};

const REPORTS: &str = "/v1/streams/visits/reports";
const TOKENS: &str = "/v1/streams/visits/tokens";
const CREDENTIALS: &str = "/v1/streams/visits/credentials";

/// A stream with credentials whose ticks are long enough for a test, and whose first block has just begun.
fn with_credentials(name: &str) -> Value {
    let mut declaration = visits();
    (declaration["name"], declaration["tick"], declaration["credentials"]) = (json!(name), json!(8), json!(true));
    declaration["epoch"] = json!(tidegate_server::service::now() / 1_000 - 7);
    declaration
}

fn tag() -> StreamTag {
    StreamTag::of("visits")
}

fn receipt(answer: &Answer) -> Receipt {
    serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("{}", answer.text))
}

fn credential(server: &Server, device: &str) -> Credential {
    let answer = server.post_json(Role::Operator, CREDENTIALS, &json!({ "devices": [device] }));
    assert_eq!(answer.status, 200, "{}", answer.text);
    serde_json::from_value(answer.json()["credentials"][0].clone()).unwrap()
}

fn policy(server: &Server) -> VerifiedPolicy {
    let policy: SignedPolicy = serde_json::from_str(&server.get(None, "/v1/streams/visits/policy").text).unwrap();
    policy.verified(&SigningKey::from_bytes(&[7; 32]).verifying_key()).unwrap()
}

fn send_draw(server: &Server, request: &DrawRequest) -> Answer {
    server.post_json(Role::Ingest, TOKENS, &json!(request))
}

/// Draws the tokens of the block of a timestamp.
fn draw(server: &Server, credential: &Credential, timestamp: u64, seed: u64) -> Draw {
    let mut draw = Draw::new(timestamp / BLOCK, &mut SeededRandom::new(seed));
    let answer = send_draw(server, &draw.request(credential));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer: DrawAnswer = serde_json::from_str(&answer.text).unwrap();
    draw.finish(tag(), &policy(server).issuer.unwrap(), &answer).unwrap();
    draw
}

fn report(asked: &OpenQuestion, seed: u64) -> Vec<u8> {
    let (oracle, epsilon) = (asked.question.oracle().unwrap(), asked.question.epsilon);
    let permit = Ledger::new(epsilon, Window::EVENT).spend(asked.question.timestamp, epsilon).unwrap();
    oracle.perturb(permit, 2, &mut SeededRandom::new(seed)).unwrap().into_bytes()
}

/// A batch of reports, each with its identity and the proof of its token.
fn batch_of(asked: &OpenQuestion, reports: Vec<(ReportId, TokenProof, Vec<u8>)>) -> Vec<u8> {
    let mut writer = BatchWriter::new(tag(), asked.question.timestamp, asked.question.phase, asked.report_length);
    reports.iter().for_each(|(id, proof, report)| writer.push_with(*id, Some(*proof), report).unwrap());
    writer.write().unwrap()
}

fn own(asked: &OpenQuestion, token: &ReportToken, seed: u64) -> (ReportId, TokenProof, Vec<u8>) {
    let (phase, report) = (asked.question.phase, report(asked, seed));
    (token.report_id(phase), token.prove(phase, &report), report)
}

fn invented(asked: &OpenQuestion, number: u8) -> ReportId {
    ReportId::of(&[number; 16], tag(), asked.question.timestamp, asked.question.phase)
}

fn send(server: &Server, batch: &[u8]) -> Answer {
    server.post(Some(Role::Ingest), REPORTS, BATCH, batch)
}

/// Sends everything that somebody with an ingest token and one credential can think of. Returns how many reports were
/// counted.
fn attack(server: &Server, credential: &Credential, asked: &OpenQuestion, seed: u64) -> u64 {
    let timestamp = asked.question.timestamp;
    let drawn = draw(server, credential, timestamp, seed);
    // A second draw, and draws of other blocks under the same or another name.
    let second = Draw::new(timestamp / BLOCK, &mut SeededRandom::new(seed + 1)).request(credential);
    send_draw(server, &second).refuses(409, "drawn");
    send_draw(server, &Draw::new(timestamp / BLOCK + 2, &mut SeededRandom::new(seed)).request(credential))
        .refuses(409, "closed");
    send_draw(server, &DrawRequest { device: "phone-2".to_owned(), ..second }).refuses(403, "credential");
    server.post_json(Role::Ingest, CREDENTIALS, &json!({ "devices": ["phone-2"] })).refuses(403, "role");
    // Reports without tokens.
    send(server, &batch("visits", asked, 0..60, 2, 1)).refuses(400, "token");
    let token = drawn.token(tag(), timestamp).unwrap();
    let (id, proof, report) = own(asked, &token, 1);
    // The same token under fifty identities, and fifty tokens that nobody has drawn: few enough to be checked all.
    let mut reports: Vec<_> = (0..50).map(|number| (invented(asked, number), proof, report.clone())).collect();
    reports.extend((50..100).map(|number| (invented(asked, number), TokenProof::from([number; 32]), report.clone())));
    // Tokens of all other timestamps.
    let others = (0..BLOCK).map(|position| timestamp / BLOCK * BLOCK + position).filter(|other| *other != timestamp);
    for (number, other) in (100..).zip(others) {
        let token = drawn.token(tag(), other).unwrap();
        reports.push((invented(asked, number), token.prove(asked.question.phase, &report), report.clone()));
    }
    let wrong = reports.len() as u64;
    reports.push((id, proof, report));
    let sent = receipt(&send(server, &batch_of(asked, reports)));
    assert_eq!(sent, Receipt { accepted: 1, wrong_token: wrong, ..Receipt::default() });
    // Another report with the same token.
    let again = receipt(&send(server, &batch_of(asked, vec![own(asked, &token, 2)])));
    assert_eq!(again.accepted + again.conflicting + again.repeated, 1);
    sent.accepted + again.accepted
}

#[test]
fn an_attacker_counts_once_with_one_credential_and_often_without() {
    let server = Server::start();
    let mut without = with_credentials("open");
    without["credentials"] = json!(false);
    server.create(&without);
    // Whoever has an ingest token invents as many devices as the declared population allows, four times over.
    let (_, filled) = server.report("open", 0..200, 2, 1);
    assert_eq!(receipt(&filled).accepted, 200);
    server.create(&with_credentials("visits"));
    let (credential, began, mut ticks) = (credential(&server, "phone-1"), Instant::now(), Vec::new());
    while ticks.len() < 2 {
        assert!(began.elapsed() < PATIENCE);
        let asked = server.question("visits", 4_500);
        let timestamp = asked.question.timestamp;
        // Both in one block: the draw is repeated identically.
        if ticks.contains(&timestamp) {
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        assert_eq!(attack(&server, &credential, &asked, 1), 1);
        ticks.push(timestamp);
    }
    let path = format!("/v1/streams/visits/releases?from={0}&to={0}", ticks[0]);
    let released = server.until(Role::Analyst, &path, |answer| {
        answer.json()["releases"].as_array().is_some_and(|releases| !releases.is_empty())
    });
    assert_eq!(released.json()["releases"][0]["release"]["reports"], json!(1));
    let metrics = server.get(Some(Role::Analyst), "/metrics").text;
    for (reason, count) in [("wrong_token", 230), ("token", 2), ("drawn", 2), ("closed", 2), ("credential", 2)] {
        let line = format!("tidegate_reports_refused_total{{stream=\"visits\",reason=\"{reason}\"}} {count}");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[test]
fn tokens_outlive_restarts_of_the_service() {
    let server = Server::start();
    server.create(&with_credentials("visits"));
    let (credential, pinned) = (credential(&server, "phone-1"), policy(&server).issuer);
    let drawn = draw(&server, &credential, 0, 1);
    let request = drawn.request(&credential);
    let answered = send_draw(&server, &request).text;
    let server = server.restart();
    assert_eq!(policy(&server).issuer, pinned);
    // A process that was restarted remembers no draw, and answers the same one alike.
    assert_eq!(send_draw(&server, &request).text, answered);
    send_draw(&server, &Draw::new(request.block, &mut SeededRandom::new(2)).request(&credential)).refuses(409, "drawn");
    let bytes = |asked: &OpenQuestion, drawn: &Draw| {
        let token = drawn.token(tag(), asked.question.timestamp).unwrap();
        batch_of(asked, vec![own(asked, &token, 1)])
    };
    // The tick of the draw may be over by now; then a later one of its block.
    let asked = server.question("visits", 2_500);
    let batch = bytes(&asked, &drawn);
    assert_eq!(receipt(&send(&server, &batch)), Receipt { accepted: 1, ..Receipt::default() });
    // A retry is counted once, also as text.
    let text = BatchText::of(&Batch::parse(&batch).unwrap(), "visits").unwrap();
    let again = server.post_json(Role::Ingest, REPORTS, &serde_json::to_value(&text).unwrap());
    assert_eq!(receipt(&again), Receipt { repeated: 1, ..Receipt::default() });
}

#[test]
fn credentials_and_draws_are_refused_with_their_reasons() {
    let server = Server::start();
    let visits = with_credentials("visits");
    for declaration in [&visits, &with_credentials("other"), &rooms()] {
        server.create(declaration);
    }
    for role in [Role::Ingest, Role::Analyst] {
        server.post_json(role, CREDENTIALS, &json!({ "devices": ["phone-1"] })).refuses(403, "role");
    }
    for devices in [json!([]), json!("phone-1"), json!(["Phone 1"]), json!([""]), json!(vec!["a"; 1_001])] {
        server.post_json(Role::Operator, CREDENTIALS, &json!({ "devices": devices })).refuses(400, "malformed");
    }
    let of = |stream: &str, what: &str| format!("/v1/streams/{stream}/{what}");
    let devices = json!({ "devices": ["phone-1"] });
    server.post_json(Role::Operator, &of("rooms", "credentials"), &devices).refuses(404, "no_credentials");
    server.post_json(Role::Operator, &of("none", "credentials"), &devices).refuses(404, "no_stream");
    // The same name always has the same credential, and another one for another stream.
    let own = credential(&server, "phone-1");
    assert_eq!(credential(&server, "phone-1"), own);
    let other = server.post_json(Role::Operator, &of("other", "credentials"), &devices).json();
    assert_ne!(other["credentials"][0]["key"], json!(own)["key"]);
    let request = Draw::new(0, &mut SeededRandom::new(1)).request(&own);
    server.post_json(Role::Ingest, &of("other", "tokens"), &json!(request)).refuses(403, "credential");
    server.post_json(Role::Ingest, &of("rooms", "tokens"), &json!(request)).refuses(404, "no_credentials");
    server.post_json(Role::Ingest, &of("none", "tokens"), &json!(request)).refuses(404, "no_stream");
    server.post_json(Role::Analyst, TOKENS, &json!(request)).refuses(403, "role");
    server.post(None, TOKENS, "application/json", b"{}").refuses(401, "token");
    server.post(Some(Role::Ingest), TOKENS, "text/plain", b"{}").refuses(415, "media_type");
    for body in ["", "{", "{}", "[]", "null", "{\"device\":1}"] {
        server.post(Some(Role::Ingest), TOKENS, "application/json", body.as_bytes()).refuses(400, "malformed");
    }
    let cut = DrawRequest { elements: request.elements[..1_022].to_owned(), ..request };
    send_draw(&server, &cut).refuses(400, "malformed");
    // What a stream promises never changes, and a curator has no devices.
    let mut without = visits.clone();
    without["credentials"] = json!(false);
    server.post_json(Role::Operator, "/v1/streams", &without).refuses(409, "changed");
    let mut curated = rooms();
    (curated["name"], curated["credentials"]) = (json!("rooms-2"), json!(true));
    server.post_json(Role::Operator, "/v1/streams", &curated).refuses(400, "declaration");
}

#[test]
fn a_stream_without_credentials_takes_no_tokens() {
    let server = Server::start();
    server.create(&visits());
    assert_eq!(policy(&server).issuer, None);
    let asked = server.question("visits", 300);
    let token = Issuer::new(&[7; 32], "visits").unwrap().checker(asked.question.timestamp).unwrap().token([1; 16]);
    send(&server, &batch_of(&asked, vec![own(&asked, &token, 1)])).refuses(400, "token");
}

/// A stream whose present question stays open for a test.
fn with_long_ticks(server: &Server) -> OpenQuestion {
    let mut long = with_credentials("visits");
    (long["tick"], long["spec"]["population"]) = (json!(3_600), json!(10_000));
    // In the middle of a tick.
    long["epoch"] = json!(tidegate_server::service::now() / 1_000 - 600);
    server.create(&long);
    server.question("visits", 60_000)
}

fn checker(asked: &OpenQuestion) -> TokenChecker {
    Issuer::new(&[7; 32], "visits").unwrap().checker(asked.question.timestamp).unwrap()
}

fn identity(number: u32) -> [u8; 16] {
    let mut identity = [0; 16];
    identity[..4].copy_from_slice(&number.to_le_bytes());
    identity
}

/// Reports with tokens that nobody has drawn.
fn garbage(asked: &OpenQuestion, count: u32) -> Vec<(ReportId, TokenProof, Vec<u8>)> {
    let (timestamp, phase, report) = (asked.question.timestamp, asked.question.phase, report(asked, 1));
    let id = |number| ReportId::of(&identity(number), tag(), timestamp, phase);
    (0..count).map(|number| (id(number), TokenProof::from([7; 32]), report.clone())).collect()
}

/// Sends a batch for a client behind a proxy.
fn send_from(server: &Server, client: &str, body: &[u8]) -> Answer {
    let request = server.http.post(server.url(REPORTS)).header("x-forwarded-for", client);
    let token = format!("Bearer {}", server.token(Role::Ingest));
    let body = body.to_vec();
    Answer::of(request.header("authorization", token).header("content-type", BATCH).send(&body[..]).unwrap())
}

#[test]
fn garbage_of_one_caller_does_not_stall_another() {
    let server =
        Server::start_with(local_webhooks(), |settings| settings.proxies = vec!["127.0.0.0/8".parse().unwrap()]);
    let asked = with_long_ticks(&server);
    let checker = checker(&asked);
    let body = batch_of(&asked, garbage(&asked, 8_192));
    let began = Instant::now();
    thread::scope(|scope| {
        for client in 0..8 {
            let (server, body) = (&server, &body);
            scope.spawn(move || {
                for _ in 0..8 {
                    let sent = receipt(&send_from(server, &format!("192.0.2.{}", 10 + client), body));
                    assert_eq!(sent, Receipt { wrong_token: 8_192, ..Receipt::default() });
                }
            });
        }
        for number in 0..3 {
            let honest = batch_of(&asked, vec![own(&asked, &checker.token([number; 16]), 1)]);
            assert_eq!(receipt(&send_from(&server, "192.0.2.2", &honest)).accepted, 1);
        }
    });
    // All of these tokens, checked one by one, take half a minute of a processor.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn what_follows_garbage_in_a_batch_is_sent_by_itself() {
    let server = Server::start();
    let asked = with_long_ticks(&server);
    let (checker, mut reports) = (checker(&asked), garbage(&asked, 600));
    // Reports stand in the order of their identities.
    let honest = (0..64).map(|number| own(&asked, &checker.token([number; 16]), 1)).max_by_key(|(id, ..)| *id).unwrap();
    reports.push(honest.clone());
    let rest = reports.iter().filter(|(id, ..)| *id <= honest.0).count();
    assert!(rest > 128, "{rest}");
    let sent = receipt(&send(&server, &batch_of(&asked, reports)));
    assert_eq!(sent, Receipt { wrong_token: 601, ..Receipt::default() });
    assert_eq!(receipt(&send(&server, &batch_of(&asked, vec![honest]))).accepted, 1);
}

#[test]
fn batches_with_tokens_are_bounded_and_late_ones_are_busy() {
    // Shorter than the check of a full batch, and longer than anything else here.
    let server = Server::start_with(local_webhooks(), |settings| settings.limits.store = Duration::from_millis(250));
    let asked = with_long_ticks(&server);
    let checker = checker(&asked);
    let mut writer = BatchWriter::new(tag(), asked.question.timestamp, asked.question.phase, asked.report_length);
    for number in 0..MAX_TOKENS {
        let (id, proof, report) = own(&asked, &checker.token(identity(number.try_into().unwrap())), 1);
        writer.push_with(id, Some(proof), &report).unwrap();
    }
    let mut bytes = writer.write().unwrap();
    let refused = send(&server, &bytes);
    assert_eq!(refused.headers.get("retry-after").map(String::as_str), Some("1"));
    refused.refuses(503, "busy");
    // Nothing of it was written. Its check may still run.
    let (other, began) = (batch_of(&asked, vec![own(&asked, &checker.token(identity(0)), 2)]), Instant::now());
    let mut sent = send(&server, &other);
    while sent.status == 503 && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
        sent = send(&server, &other);
    }
    assert_eq!(receipt(&sent), Receipt { accepted: 1, ..Receipt::default() });
    bytes[36..40].copy_from_slice(&u32::try_from(MAX_TOKENS + 1).unwrap().to_le_bytes());
    send(&server, &bytes).refuses(413, "too_large");
}
