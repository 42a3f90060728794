//! The client against slow, broken and hostile collectors.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use tidegate_device::api::{BATCH, OpenQuestion, OpenQuestions, Receipt};
use tidegate_device::client::{Client, ClientError, ClientOptions, ClientToken, operator_key};
use tidegate_device::enrolment::PolicyError;

use crate::agent::{policy, question};
use crate::http_server::{Answer, Server};

const SECRET: &str = "tgt_a-secret-that-nobody-sees";

fn operator() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// With a token, and two attempts.
fn options() -> ClientOptions {
    let token = Some(ClientToken::new(SECRET).unwrap());
    ClientOptions { token, attempts: 2, pause: Duration::from_millis(1), ..ClientOptions::default() }
}

fn client(server: &Server) -> Client {
    Client::new(&server.url(), options()).unwrap()
}

fn asking(questions: usize) -> OpenQuestions {
    let asked = OpenQuestion { question: question(1_003, 0, 1), report_length: 1, closes: 5 };
    OpenQuestions { stream: "visits".to_owned(), round: 9, questions: vec![asked; questions] }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn understands_a_correct_collector() {
    let receipt = Receipt { accepted: 2, repeated: 1, ..Receipt::default() };
    let server = Server::start(move |request| match request.path.split('?').next().unwrap() {
        "/v1/streams/visits/policy" => Answer::Json(200, json(&policy(3).sign(&operator()).unwrap())),
        "/v1/streams/visits/questions" => Answer::Json(200, json(&asking(2))),
        "/v1/streams/visits/reports" => Answer::Json(200, json(&receipt)),
        _ => Answer::Json(404, "{}".to_owned()),
    });
    let client = client(&server);
    let key: String = operator().verifying_key().to_bytes().iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").unwrap();
        digits
    });
    let verified = client.policy("visits", &operator_key(&key).unwrap()).unwrap();
    assert_eq!(verified.into_policy(), policy(3));
    assert_eq!(client.questions("visits", None, Duration::from_secs(9)).unwrap(), asking(2));
    assert_eq!(client.questions("visits", Some(9), Duration::from_secs(3)).unwrap(), asking(2));
    assert_eq!(client.send("visits", b"reports").unwrap(), receipt);
    let requests = server.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    let questions = "/v1/streams/visits/questions";
    let waiting = format!("{questions}?after=9&wait=3");
    assert_eq!(paths, ["/v1/streams/visits/policy", questions, &waiting, "/v1/streams/visits/reports"]);
    let bearer = format!("Bearer {SECRET}");
    assert!(requests.iter().all(|request| request.header("authorization") == Some(&bearer)));
    let sent = requests.last().unwrap();
    assert_eq!((sent.method.as_str(), sent.header("content-type")), ("POST", Some(BATCH)));
    assert_eq!(sent.body, b"reports");
}

#[test]
fn retries_are_identical_and_limited() {
    let said = Mutex::new(0);
    let server = Server::start(move |_| {
        let mut said = said.lock().unwrap();
        *said += 1;
        match *said {
            1 => Answer::Json(503, "{\"error\":\"busy\",\"message\":\"later\"}".to_owned()),
            2 => Answer::Raw(Vec::new()),
            3 => Answer::Raw(b"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n".to_vec()),
            4 => Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"accepted\":".to_vec()),
            _ => Answer::Json(200, json(&Receipt { accepted: 1, ..Receipt::default() })),
        }
    });
    let patient = Client::new(&server.url(), ClientOptions { attempts: 5, ..options() }).unwrap();
    let start = Instant::now();
    assert_eq!(patient.send("visits", b"the very same").unwrap().accepted, 1);
    assert!(start.elapsed() > Duration::from_secs(1), "it was told to wait for a second");
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.body == b"the very same"));
    let busy = Server::start(|_| Answer::Json(500, "{}".to_owned()));
    let error = client(&busy).send("visits", b"x").unwrap_err();
    assert!(matches!(&error, ClientError::Unavailable { attempts: 2, .. }), "{error}");
    assert_eq!(busy.requests().len(), 2);
}

#[test]
fn a_refusal_has_a_reason_and_no_retry() {
    let message = format!("not\u{1b}[31m open, {SECRET} {}", "x".repeat(500));
    let server = Server::start(move |_| {
        let problem = serde_json::json!({ "error": "not_open", "message": message });
        Answer::Json(409, problem.to_string())
    });
    let error = client(&server).send("visits", b"x").unwrap_err();
    let ClientError::Refused { status: 409, code: Some(code), message } = &error else { panic!("{error}") };
    assert_eq!(code, "not_open");
    assert!(message.starts_with("not[31m open, (token) xxx") && message.chars().count() == 200, "{message}");
    assert_eq!(server.requests().len(), 1);
    let terse = Server::start(|_| Answer::Json(404, "<html>".to_owned()));
    let error = client(&terse).questions("visits", None, Duration::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "the collector refuses (404): Not Found");
}

#[test]
fn responses_are_bounded_in_time_and_size() {
    let ok = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n").into_bytes();
    let block = vec![b'['; 1 << 20];
    let mut chunk = b"100000\r\n".to_vec();
    chunk.extend_from_slice(&block);
    chunk.extend_from_slice(b"\r\n");
    let now = Duration::ZERO;
    let slowly = Duration::from_millis(20);
    let answers = [
        ("nothing", Answer::Silence),
        ("the end", Answer::Raw(Vec::new())),
        ("noise", Answer::Raw(vec![0xff; 100_000])),
        ("another protocol", Answer::Raw(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())),
        ("no status", Answer::Raw(b"HTTP/1.1 abc\r\n\r\n".to_vec())),
        ("half a header", Answer::Endless(b"HTTP/1.1 200 OK\r\nContent-".to_vec(), Vec::new(), slowly)),
        ("headers without end", Answer::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"A: b\r\n".repeat(1_000), now)),
        ("a header without end", Answer::Endless(b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; 10_000], now)),
        ("a header drop by drop", Answer::Endless(b"HTTP/1.1 200 OK\r\nA: ".to_vec(), b"a".to_vec(), slowly)),
        ("more than is promised", Answer::Endless(ok("Content-Length: 2"), block.clone(), now)),
        ("a terabyte", Answer::Endless(ok("Content-Length: 1099511627776"), block.clone(), now)),
        ("chunks without end", Answer::Endless(ok("Transfer-Encoding: chunked"), chunk, now)),
        ("a body without end", Answer::Endless(ok("Connection: close"), block, now)),
        ("a body drop by drop", Answer::Endless(ok("Content-Length: 1000"), b" ".to_vec(), slowly)),
        ("a body that breaks off", Answer::Raw([ok("Content-Length: 1000"), b"{\"stream\":".to_vec()].concat())),
        ("a chunk of a senseless size", Answer::Raw([ok("Transfer-Encoding: chunked"), b"zz\r\n".to_vec()].concat())),
        ("lengths that differ", Answer::Raw(ok("Content-Length: 5\r\nContent-Length: 7"))),
        ("no JSON", Answer::Json(200, "<html>".to_owned())),
        ("JSON of another kind", Answer::Json(200, "{\"stream\":[]}".to_owned())),
        ("JSON with the token in it", Answer::Json(200, format!("{{\"{SECRET}\":1}}"))),
        ("deep JSON", Answer::Json(200, "[".repeat(60_000))),
        ("more than is asked for", Answer::Json(200, format!("{{\"x\":1,{}", &json(&asking(1))[1..]))),
        (
            "a long refusal",
            Answer::Endless(b"HTTP/1.1 400 No\r\nContent-Length: 99999999\r\n\r\n".to_vec(), vec![b'x'; 1 << 20], now),
        ),
        ("a later time", Answer::Raw(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100))),
    ];
    for (what, answer) in answers {
        let server = Server::start(move |_| answer.clone());
        let client =
            Client::new(&server.url(), ClientOptions { timeout: Duration::from_millis(120), ..options() }).unwrap();
        let start = Instant::now();
        let errors = [
            client.policy("visits", &operator().verifying_key()).map(drop),
            client.questions("visits", None, Duration::ZERO).map(drop),
            client.send("visits", b"x").map(drop),
        ];
        for error in errors {
            let error = error.expect_err(what);
            assert!(!format!("{error} {error:?}").contains(SECRET), "{what}: {error}");
        }
        assert!(start.elapsed() < Duration::from_secs(4), "{what} took {:?}", start.elapsed());
        // The reader is bounded by its limit; the rest is in the system's buffers.
        assert!(*server.most_written.lock().unwrap() < 40 << 20, "{what}: {:?}", server.most_written);
    }
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = Server::start(|_| Answer::Json(200, json(&asking(1))));
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let to = format!("{}/v1/streams/visits/questions", elsewhere.url());
        let server = Server::start(move |_| {
            Answer::Raw(format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes())
        });
        let client = client(&server);
        let errors = [
            client.policy("visits", &operator().verifying_key()).map(drop),
            client.questions("visits", None, Duration::ZERO).map(drop),
            client.send("visits", b"x").map(drop),
        ];
        assert!(errors.iter().all(|error| *error == Err(ClientError::Redirect { status })), "{errors:?}");
    }
    assert!(elsewhere.requests().is_empty());
    let names = ["", "Visits", "a/b", "..", "a?b", "a#b", "%2e", "a b", "a\r\nX: y"];
    let error = |stream: &str| client(&elsewhere).questions(stream, None, Duration::ZERO).unwrap_err();
    assert!(names.iter().all(|stream| error(stream) == ClientError::Stream));
    assert!(elsewhere.requests().is_empty());
}

#[test]
fn accepts_only_this_streams_signed_policy() {
    let mut other_stream = policy(3);
    other_stream.stream.push('2');
    let mut forged = policy(3).sign(&operator()).unwrap();
    forged.policy.protects.epsilon = "9".parse().unwrap();
    let mut unsigned = policy(3).sign(&operator()).unwrap();
    unsigned.signature.clear();
    let cases = [
        (policy(3).sign(&SigningKey::from_bytes(&[8; 32])).unwrap(), ClientError::Policy(PolicyError::Signature)),
        (forged, ClientError::Policy(PolicyError::Signature)),
        (unsigned, ClientError::Policy(PolicyError::Signature)),
        (other_stream.sign(&operator()).unwrap(), ClientError::OtherStream),
    ];
    for (signed, expected) in cases {
        let server = Server::start(move |_| Answer::Json(200, json(&signed)));
        assert_eq!(client(&server).policy("visits", &operator().verifying_key()), Err(expected));
    }
}

#[test]
fn errors_do_not_repeat_addresses_tokens_and_keys() {
    let error = |address: &str| Client::new(address, options()).unwrap_err().to_string();
    for plain in ["http://collector.example", "http://10.0.0.1:80", "http://localhost.example", "http://[2001:db8::1]/"]
    {
        assert!(error(plain).contains("plain http is for this machine only"), "{plain}: {}", error(plain));
        assert!(Client::new(plain, ClientOptions { allow_plain: true, ..options() }).is_ok());
    }
    for own in ["http://localhost:1", "http://127.0.0.9", "http://[::1]:8080/", "https://collector.example/base/"] {
        assert!(Client::new(own, options()).is_ok(), "{own}");
    }
    for none in ["", "collector", "/path", "ftp://127.0.0.1", "http://127.0.0.1/?a=b", "http://127.0.0.1/#a", "http://"]
    {
        assert!(error(none).starts_with("the collector's address: "), "{none}");
    }
    assert!(!error("https://user:hunter2@collector.example").contains("hunter2"));
    for token in ["", "two words", "line\n", "\u{e9}"] {
        assert_eq!(ClientToken::new(token).unwrap_err(), ClientError::Token);
    }
    let server = Server::start(|_| Answer::Silence);
    assert!(!format!("{:?}", client(&server)).contains(SECRET));
    for key in [
        "",
        "00",
        "zz",
        &"0".repeat(63),
        &"g".repeat(64),
        &format!("02{}", "0".repeat(62)),
        &format!("01{}", "0".repeat(62)),
    ] {
        assert_eq!(operator_key(key), Err(ClientError::OperatorKey), "{key}");
    }
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA"] {
        let options = ClientOptions { authorities: Some(pem.as_bytes().to_vec()), ..options() };
        assert!(matches!(Client::new(&server.url(), options), Err(ClientError::Authorities(_))), "{pem}");
    }
}
