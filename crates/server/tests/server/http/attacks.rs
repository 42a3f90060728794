//! Attacks by sockets on a service that runs: each must leave it to others.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_server::http::auth::Role;
use tidegate_server::http::{Limits, Rate, WebhookSettings};

use super::{PATIENCE, Server, rooms, visits};

/// Addresses of this machine, for two clients.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const JSON: &str = "application/json";
const EVENTS: &str = "/v1/streams/rooms/events";

fn limited(change: impl FnOnce(&mut Limits)) -> Server {
    Server::start_with(WebhookSettings::default(), |settings| change(&mut settings.limits))
}

/// Connects from an address of this machine.
fn connect(from: Ipv4Addr, server: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(server).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request from an address; returns the answer until it ends.
fn ask(from: Ipv4Addr, server: &Server, request: &str) -> String {
    let mut stream = connect(from, server.address);
    // A connection that is refused ends here or below.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the head of a request with a token and a body of a length.
fn head(server: &Server, role: Role, path: &str, media_type: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: {media_type}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n",
        server.token(role)
    )
}

/// Returns the status of an answer, if one has come.
fn status(stream: &mut TcpStream, patience: Duration) -> Option<u16> {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    std::str::from_utf8(&answer[9..]).unwrap().parse().ok()
}

/// Begins a request with a body, and waits until it is being read: from then on the connection is not idle.
fn begin(from: Ipv4Addr, server: &Server) -> Option<TcpStream> {
    let head = head(server, Role::Operator, "/v1/streams", JSON, 100);
    let mut stream = connect(from, server.address);
    // A connection that is refused ends here or below.
    stream.write_all(head.replacen("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n", 1).as_bytes()).ok()?;
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).ok()?;
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    Some(stream)
}

#[test]
fn idle_connections_silence_nobody() {
    let server = limited(|limits| limits.connections = 24);
    let idle: Vec<_> = (0..100).map(|_| connect(ATTACKER, server.address)).collect();
    for from in [OTHER, ATTACKER] {
        let answer = ask(from, &server, HEALTH);
        assert!(answer.starts_with("HTTP/1.1 200"), "{from}: {answer}");
    }
    drop(idle);
}

#[test]
fn one_address_cannot_take_all_connections() {
    let server = limited(|limits| {
        (limits.connections, limits.connections_per_address, limits.body) = (24, 16, PATIENCE);
    });
    // Each has begun a request, so none is idle.
    let busy: Vec<_> = (0..40).filter_map(|_| begin(ATTACKER, &server)).collect();
    assert_eq!(busy.len(), 16);
    let answer = ask(OTHER, &server, HEALTH);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(busy);
}

#[test]
fn slow_bodies_are_bounded_in_all() {
    let server = limited(|limits| (limits.memory, limits.body) = (16 << 20, PATIENCE));
    server.create(&visits());
    const LENGTH: usize = 1 << 20;
    let head = head(&server, Role::Ingest, "/v1/streams/visits/reports", JSON, LENGTH);
    let part = vec![b' '; LENGTH - 1];
    let mut slow: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = connect(ATTACKER, server.address);
            stream.write_all(head.as_bytes()).unwrap();
            // One that is refused need not take it.
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    let began = Instant::now();
    let mut statuses = vec![None; slow.len()];
    let refused = loop {
        for (stream, found) in slow.iter_mut().zip(&mut statuses).filter(|(_, found)| found.is_none()) {
            *found = status(stream, Duration::from_millis(5));
        }
        let refused = statuses.iter().filter(|found| **found == Some(503)).count();
        if refused >= 32 || began.elapsed() > PATIENCE / 2 {
            break refused;
        }
    };
    assert!((32..=33).contains(&refused), "{refused} are refused, so the others have at most half");
    // Another address has the other half.
    let small = json!({ "stream": "visits" }).to_string();
    let request =
        format!("{}{small}", self::head(&server, Role::Ingest, "/v1/streams/visits/reports", JSON, small.len()));
    assert!(ask(OTHER, &server, &request).starts_with("HTTP/1.1 400"));
    drop(slow);
}

/// The answer to a stranger comes while large bodies are parsed.
#[test]
fn large_json_stalls_nobody() {
    let server = limited(|_| {});
    server.create(&rooms());
    server.until(Role::Analyst, "/v1/streams/rooms", |answer| answer.json()["open"].is_u64());
    let events: Vec<_> = (0..90_000).map(|user| json!({ "user": format!("{user:064}"), "value": "in" })).collect();
    let body = serde_json::to_vec(&events).unwrap();
    let (last, rest) = body.split_last().unwrap();
    let head = head(&server, Role::Ingest, EVENTS, JSON, body.len());
    let mut senders: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = connect(ATTACKER, server.address);
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(rest).unwrap();
            stream
        })
        .collect();
    // All bodies end at once, and health is asked at once.
    let began = Instant::now();
    senders.iter_mut().for_each(|stream| stream.write_all(&[*last]).unwrap());
    assert!(ask(OTHER, &server, HEALTH).starts_with("HTTP/1.1 200"));
    let health = began.elapsed();
    assert!(senders.iter_mut().all(|stream| status(stream, PATIENCE).is_some()));
    let all = began.elapsed();
    assert!(health * 4 < all, "{health:?} of {all:?}");
}

#[test]
fn feeds_do_not_starve_polls() {
    let server = limited(|limits| limits.waiting = 8);
    server.create(&visits());
    let feed = format!(
        "GET /v1/streams/visits/feed HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        server.token(Role::Analyst)
    );
    let feeds: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(ATTACKER, server.address);
            stream.write_all(feed.as_bytes()).unwrap();
            status(&mut stream, PATIENCE).unwrap();
            stream
        })
        .collect();
    server.post(Some(Role::Operator), "/v1/streams/visits/pause", "", b"");
    thread::sleep(Duration::from_millis(2_200));
    let round = server.get(None, "/v1/streams/visits/questions").json()["round"].as_u64().unwrap();
    let poll = server.get(Some(Role::Ingest), &format!("/v1/streams/visits/questions?after={round}&wait=1"));
    assert_eq!(poll.status, 200, "{}", poll.text);
    drop(feeds);
}

#[test]
fn one_client_cannot_use_up_a_shared_token() {
    let of = |number| NonZeroU32::new(number).unwrap();
    let server = limited(|limits| {
        limits.token_rate = Rate { per_second: of(1), burst: of(40) };
        limits.client_rate = Rate { per_second: of(1), burst: of(20) };
    });
    let request = format!(
        "GET /v1/streams HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        server.token(Role::Analyst)
    );
    let flood: Vec<_> = (0..60).map(|_| ask(ATTACKER, &server, &request)).collect();
    assert!(flood.iter().any(|answer| answer.starts_with("HTTP/1.1 429")));
    let answer = ask(OTHER, &server, &request);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_proxy_names_its_clients_and_strangers_do_not() {
    let of = |number| NonZeroU32::new(number).unwrap();
    let server = Server::start_with(WebhookSettings::default(), |settings| {
        settings.proxies = vec![format!("{ATTACKER}").parse().unwrap()];
        settings.limits.address_rate = Rate { per_second: of(1), burst: of(3) };
    });
    let granted = |from: Ipv4Addr, client: &dyn Fn(u8) -> String| {
        let request = |number: u8| {
            let client = client(number);
            format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-forwarded-for: {client}\r\nconnection: close\r\n\r\n")
        };
        (0..12).filter(|number| ask(from, &server, &request(*number)).starts_with("HTTP/1.1 200")).count()
    };
    assert_eq!(granted(ATTACKER, &|number| format!("192.0.2.{number}")), 12, "each client has its own limit");
    assert!(granted(ATTACKER, &|number| format!("192.0.2.{number}, 198.51.100.1")) < 8, "this is one client");
    assert!(granted(OTHER, &|number| format!("203.0.113.{number}")) < 8, "a stranger is not believed");
}

#[test]
fn monitoring_is_never_refused() {
    let of = |number| NonZeroU32::new(number).unwrap();
    let server = limited(|limits| {
        (limits.connections, limits.body) = (4, PATIENCE);
        limits.address_rate = Rate { per_second: of(1), burst: of(1) };
    });
    let busy: Vec<_> = (1..=4).map(|last| begin(Ipv4Addr::new(127, 0, 1, last), &server).unwrap()).collect();
    assert!(!ask(OTHER, &server, HEALTH).starts_with("HTTP/1.1 200"), "nothing is left elsewhere");
    let monitor = |path: &str, token: &str| {
        let mut stream = connect(OTHER, server.monitoring);
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{token}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        status(&mut stream, PATIENCE).unwrap()
    };
    let token = format!("authorization: Bearer {}\r\n", server.token(Role::Analyst));
    for _ in 0..30 {
        assert_eq!(["/healthz", "/readyz"].map(|path| monitor(path, "")), [200; 2]);
    }
    assert_eq!([monitor("/metrics", ""), monitor("/metrics", &token), monitor("/v1/streams", &token)], [401, 200, 404]);
    drop(busy);
}

/// Otherwise others would learn how many users somebody sends.
#[test]
fn bodies_with_events_take_memory_of_their_token_only() {
    // Two tokens may send events, so each has eight MiB.
    let server = limited(|limits| (limits.memory, limits.body) = (16 << 20, PATIENCE));
    [rooms(), visits()].iter().for_each(|declaration| server.create(declaration));
    server.until(Role::Analyst, "/v1/streams/rooms", |answer| answer.json()["open"].is_u64());
    const LENGTH: usize = 5 << 20;
    let part = vec![b' '; LENGTH - 1];
    let send = |role| {
        let mut stream = connect(ATTACKER, server.address);
        stream.write_all(head(&server, role, EVENTS, JSON, LENGTH).as_bytes()).unwrap();
        let _ = stream.write_all(&part);
        stream
    };
    // The second finds that the token has too much already. Bodies that grow at the same moment may both be refused.
    let first = send(Role::Ingest);
    thread::sleep(Duration::from_millis(500));
    let mut both = [first, send(Role::Ingest)];
    let until = Instant::now() + PATIENCE;
    let mut refused = [None; 2];
    while refused == [None; 2] {
        assert!(Instant::now() < until, "both were taken");
        refused = both.each_mut().map(|stream| status(stream, Duration::from_millis(50)));
    }
    assert_eq!(refused, [None, Some(503)]);
    // Another token, and all other requests of the same token and address, have what they had.
    let mut other = send(Role::Operator);
    other.write_all(b"x").unwrap();
    assert_eq!(status(&mut other, PATIENCE), Some(400));
    let mut reports = connect(ATTACKER, server.address);
    let head = head(&server, Role::Ingest, "/v1/streams/visits/reports", JSON, LENGTH);
    reports.write_all(head.as_bytes()).unwrap();
    reports.write_all(&part).unwrap();
    reports.write_all(b"x").unwrap();
    assert_eq!(status(&mut reports, PATIENCE), Some(400));
    let metrics = server.get(Some(Role::Analyst), "/metrics").text;
    assert!(!metrics.contains("events") && !metrics.contains("503"), "{metrics}");
    drop(both);
}
