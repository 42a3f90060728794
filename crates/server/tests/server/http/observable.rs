//! Everything that can be observed of a service, compared between two runs whose events differ.
//!
//! Each test is named in `docs/threat-model.md` by the row that it supports. Only released values, which are noisy,
//! and measured durations are left out of the comparison.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tidegate_server::http::auth::Role;
use tidegate_server::http::{Rate, TlsFiles, WebhookSettings};
use tidegate_server::service::now;
use tidegate_server::store::Store as _;
use tidegate_server::store::sqlite::SqliteStore;

use super::limits::TLS;
use super::{Answer, PATIENCE, Server, rooms};

const EVENTS: &str = "/v1/streams/rooms/events";

/// A curator's stream of counts, and one of numbers that holds readings back. A tick has so many seconds.
fn declarations(tick: u64) -> [Value; 2] {
    let mut rooms = rooms();
    rooms["tick"] = json!(tick);
    rooms["spec"]["queries"] = json!([{ "name": "inside", "value": "in", "unit": "counts" }]);
    let load = json!({ "name": "load", "tick": tick, "spec": {
        "family": "scalar", "mechanism": "contin", "epsilon": 1, "delay": 9,
        "domain": { "low": 0, "high": 1_000_000 }, "protects": "reading", "outside": "clamp",
    } });
    [rooms, load]
}

fn sleep_until(moment: u64) {
    thread::sleep(Duration::from_millis(moment.saturating_sub(now())));
}

/// Starts two services whose streams begin in one tick. Returns the next tick, the first complete one for both, or
/// `None` where the machine was too slow.
fn pair(tick: u64) -> Option<([Server; 2], u64)> {
    let servers = [Server::start(), Server::start()];
    let begun = now() / (tick * 1_000) + 1;
    sleep_until(begun * tick * 1_000);
    for server in &servers {
        declarations(tick).iter().for_each(|declaration| server.create(declaration));
    }
    let open = begun + 1;
    // The ticks of a stream begin up to a twentieth of a tick late.
    sleep_until(open * tick * 1_000 + tick * 100);
    (now() / (tick * 1_000) == open).then_some((servers, open))
}

/// Sends a request on a connection of its own, which is kept open.
fn send(server: &Server, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Sends an event with a token, on a connection of its own.
fn send_event(server: &Server, path: &str, token: &str, media_type: &str, body: &str) -> TcpStream {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: {media_type}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = send(server, &request);
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 "), "{body}");
    stream
}

/// Sends events, each user in a request; `None` where the tick is not open.
fn tell(server: &Server, users: &[&str], reading: u64, timestamp: u64) -> Option<()> {
    let mut answers: Vec<_> = users
        .iter()
        .map(|user| server.post_json(Role::Ingest, EVENTS, &json!({ "user": user, "value": "in" })))
        .collect();
    let path = format!("/v1/streams/load/events?timestamp={timestamp}");
    answers.push(server.post_json(Role::Ingest, &path, &json!({ "value": reading })));
    answers.iter().all(|answer| answer.status == 200).then_some(())
}

/// Event requests of all kinds: repeated, late, malformed, outside the domain, unauthorised, half sent.
fn disturb(server: &Server) -> Vec<TcpStream> {
    let (json_type, ingest) = ("application/json", server.token(Role::Ingest));
    let event = |user: usize, value: &str| json!({ "user": format!("u{user}"), "value": value }).to_string();
    let mut open = Vec::new();
    for user in 0..10 {
        open.push(send_event(server, EVENTS, ingest, json_type, &event(user, "in")));
        open.push(send_event(server, EVENTS, ingest, json_type, &event(user, "out")));
        open.push(send_event(server, EVENTS, "tg_i_wrong", json_type, &event(user, "in")));
        open.push(send_event(server, EVENTS, server.token(Role::Analyst), json_type, &event(user, "in")));
    }
    for (path, media_type, body) in [
        (EVENTS, json_type, event(0, "attic")),
        (EVENTS, json_type, "{".to_owned()),
        (EVENTS, "text/plain", event(0, "in")),
        ("/v1/streams/rooms/events?timestamp=1", json_type, event(0, "in")),
        ("/v1/streams/rooms/events?what=1", json_type, event(0, "in")),
        ("/v1/streams/none/events", json_type, event(0, "in")),
        ("/v1/streams/rooms/events/", json_type, event(0, "in")),
        ("/v1/streams/load/events", json_type, json!({ "value": 7 }).to_string()),
    ] {
        open.push(send_event(server, path, ingest, media_type, &body));
    }
    // Other methods, half a request, and a connection that ends in the middle of one.
    for method in ["GET", "DELETE", "BREW"] {
        open.push(send(server, &format!("{method} {EVENTS} HTTP/1.1\r\nhost: x\r\n\r\n")));
    }
    open.push(send(server, &format!("POST {EVENTS} HTTP/1.1\r\nhost: x\r\n")));
    drop(send(server, &format!("POST {EVENTS} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{")));
    open
}

/// Removes the noisy numbers from JSON.
fn without_noise(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let each = |(key, value): (&String, &Value)| {
                let is_noisy = matches!(key.as_str(), "counts" | "value" | "low" | "high") && !value.is_object();
                (key.clone(), if is_noisy { json!("noisy") } else { without_noise(value) })
            };
            Value::Object(entries.iter().map(each).collect())
        }
        Value::Array(values) => values.iter().map(without_noise).collect(),
        other => other.clone(),
    }
}

/// Removes the noisy columns from CSV.
fn columns_without_noise(text: &str) -> String {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let noisy = if names.contains(&"count") { "count" } else { "value" };
    let kept = |line: &str| -> Vec<String> {
        let fields = names.iter().zip(line.split(','));
        fields.filter(|(name, _)| **name != noisy).map(|(name, field)| format!("{name}={field}")).collect()
    };
    lines.map(|line| kept(line).join(",") + "\n").collect()
}

/// Returns metrics without durations, ordered by name, and without the checks of the store, which depend on the
/// observer's speed.
fn without_durations(text: &str) -> String {
    let is_measured = |line: &str| {
        ["_seconds_sum{", "_seconds_bucket{", "\"check\"", "start_time", "store_bytes"]
            .iter()
            .any(|part| line.contains(part))
    };
    let mut lines: Vec<&str> = text.lines().filter(|line| !is_measured(line)).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Removes the present moment, and what is measured by it, from an answer and its streams.
fn without_time(mut value: Value) -> Value {
    let strip = |object: &mut Value| {
        let keys = ["timestamp", "now", "started", "store_bytes"];
        object.as_object_mut().into_iter().for_each(|object| object.retain(|key, _| !keys.contains(&key.as_str())));
    };
    strip(&mut value);
    if let Some(streams) = value.get_mut("streams").and_then(Value::as_array_mut) {
        streams.iter_mut().for_each(strip);
    }
    value
}

/// Returns everything that an observer reads, by role and path: status, headers and body.
fn observe(server: &Server) -> BTreeMap<String, String> {
    let public =
        ["/", "/app.js", "/app.css", "/icon.svg", "/healthz", "/readyz", "/openapi.json", "/v1/operator-key", "/none"];
    let streams = [
        "",
        "/policy",
        "/questions",
        "/releases",
        "/releases?format=csv",
        "/releases?last=1",
        "/answers",
        "/alarms",
        "/promise",
        "/declaration",
    ];
    let mut paths: Vec<String> = public.map(str::to_owned).into();
    paths.extend(["/v1/streams", "/v1/token", "/v1/overview"].map(str::to_owned));
    for stream in ["rooms", "load"] {
        paths.extend(streams.iter().map(|path| format!("/v1/streams/{stream}{path}")));
    }
    // Last, so that they count the requests before them.
    paths.extend(["/v1/operations", "/metrics"].map(str::to_owned));
    let mut observed = BTreeMap::new();
    for role in [None, Some(Role::Ingest), Some(Role::Analyst), Some(Role::Operator)] {
        for path in &paths {
            let Answer { status, mut headers, text } = server.get(role, path);
            let body = match path.as_str() {
                "/metrics" if status == 200 => without_durations(&text),
                path if path.ends_with("csv") && status == 200 => columns_without_noise(&text),
                "/v1/streams" | "/v1/streams/rooms" | "/v1/streams/load" | "/v1/overview" | "/v1/token"
                | "/v1/operations" => without_time(serde_json::from_str(&text).unwrap()).to_string(),
                path if path.starts_with("/v1/") => without_noise(&serde_json::from_str(&text).unwrap()).to_string(),
                _ => text.clone(),
            };
            if body != text {
                headers.remove("content-length");
            }
            headers.remove("date");
            headers.remove("x-request-id").unwrap();
            let headers: BTreeMap<_, _> = headers.into_iter().collect();
            observed.insert(format!("{role:?} {path}"), format!("{status} {headers:?}\n{body}"));
        }
    }
    let mut feed = server.feed("rooms", "", None);
    for place in 0..2 {
        let (kind, id, data) = feed.event().unwrap();
        observed.insert(format!("feed {place}"), format!("{kind} {id} {}", without_noise(&data)));
    }
    observed
}

/// Returns the files of a service with their sizes, and the size of the state of its stream of numbers.
type Files = (Vec<(String, u64)>, usize);

fn files(server: &Server) -> Files {
    let folder = server.folder();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let size =
        |entry: &std::fs::DirEntry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len());
    let sizes = files.iter().map(size).collect();
    let store = SqliteStore::open(&folder.join("store")).unwrap();
    (sizes, store.stream("load").unwrap().state.len())
}

/// Sends different events to two services in one tick, and returns what is observed of each after its release; `None`
/// where the machine was too slow for ticks of so many seconds.
fn observe_neighbours(tick: u64) -> Option<[(BTreeMap<String, String>, Files); 2]> {
    let (servers, open) = pair(tick)?;
    let [quiet, busy] = &servers;
    tell(quiet, &["anna", "bert"], 3, open)?;
    tell(busy, &["anna", "bert", "cleo"], 1_000_000, open)?;
    let senders = disturb(busy);
    for server in &servers {
        for stream in ["rooms", "load"] {
            let paused = server.post(Some(Role::Operator), &format!("/v1/streams/{stream}/pause"), "", b"");
            assert_eq!(paused.status, 200, "{}", paused.text);
        }
    }
    if now() / (tick * 1_000) != open {
        return None;
    }
    // Both release the tick when it is over, and publish it after a fifth of the next. Both are asked equally often.
    let is_published = |server: &Server| {
        let is_fresh = server.get(Some(Role::Analyst), "/v1/streams/rooms/releases").text.contains("fresh");
        let load = server.get(Some(Role::Analyst), "/v1/streams/load").json();
        is_fresh && load["open"].is_null()
    };
    let until = Instant::now() + Duration::from_secs(10 * tick);
    while !servers.each_ref().map(is_published).into_iter().all(|is_so| is_so) {
        assert!(Instant::now() < until, "nothing is released");
        thread::sleep(Duration::from_millis(100));
    }
    let observed = [observe(quiet), observe(busy)];
    drop(senders);
    let [first, second] = observed;
    Some([(first, files(quiet)), (second, files(busy))])
}

/// A slow machine gets longer ticks.
#[test]
fn nothing_observable_depends_on_event_requests() {
    let [(quiet, quiet_files), (busy, busy_files)] =
        [2, 2, 4, 8, 16, 32].into_iter().find_map(observe_neighbours).expect("the machine is too slow for any tick");
    for (place, seen) in &quiet {
        assert_eq!(seen, &busy[place], "{place}");
    }
    assert_eq!(quiet.len(), busy.len());
    assert_eq!(quiet_files, busy_files);
    // The comparison is not one of nothing with nothing.
    let metrics = &quiet["Some(Analyst) /metrics"];
    assert!(metrics.contains("tidegate_releases_total{stream=\"rooms\"} 1"), "{metrics}");
    assert!(metrics.contains("tidegate_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"}"));
    assert!(quiet["feed 0"].contains("\"counts\":\"noisy\""), "{}", quiet["feed 0"]);
}

/// Returns the differences of two request ids, read as hexadecimal numbers in several ways.
fn differences(before: &str, after: &str) -> Vec<u128> {
    let number = |text: &str| u128::from_str_radix(text, 16).unwrap();
    before.split('-').zip(after.split('-')).map(|(before, after)| number(after).wrapping_sub(number(before))).collect()
}

#[test]
fn request_ids_do_not_count_event_requests() {
    let server = Server::start();
    server.create(&rooms());
    let id = || server.get(None, "/healthz").headers["x-request-id"].clone();
    for sent in [93, 100, 91, 90, 109, 105] {
        let before = id();
        for user in 0..sent {
            server.post_json(Role::Ingest, EVENTS, &json!({ "user": user.to_string(), "value": "in" }));
        }
        let after = id();
        let read = differences(&before, &after);
        assert!(!read.contains(&(sent + 1)), "{sent} event requests: {before}, then {after}");
    }
}

#[test]
fn request_ids_are_128_fair_bits() {
    const IDS: usize = 200;
    let server = Server::start();
    let mut ones = [0; 128];
    for _ in 0..IDS {
        let id = server.get(None, "/healthz").headers["x-request-id"].clone();
        assert_eq!(id.len(), 32, "{id}");
        let id = u128::from_str_radix(&id, 16).unwrap();
        ones.iter_mut().zip(0..).for_each(|(ones, bit)| *ones += usize::from(id >> bit & 1 == 1));
    }
    // By Hoeffding's inequality, one of 128 fair bits is off by more than 44 with a probability below 1e-6.
    for (bit, ones) in ones.iter().enumerate() {
        assert!(ones.abs_diff(IDS / 2) <= 44, "bit {bit} is set in {ones} of {IDS} ids");
    }
}

#[test]
fn event_requests_use_up_no_limit_of_others() {
    let of = |number| NonZeroU32::new(number).unwrap();
    let server = Server::start_with(WebhookSettings::default(), |settings| {
        settings.limits.address_rate = Rate { per_second: of(1), burst: of(5) };
        settings.limits.token_rate = Rate { per_second: of(1), burst: of(10) };
    });
    server.create(&rooms());
    let event = json!({ "user": "anna", "value": "in" }).to_string();
    let post = |token: &str| {
        let mut answer = [0; 12];
        let request = format!(
            "POST {EVENTS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{event}",
            event.len()
        );
        send(&server, &request).read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[9..]).into_owned()
    };
    // A caller without a token for events is refused, at nobody's cost.
    assert!((0..20).all(|_| post("tg_i_wrong") == "401"));
    let ingest: Vec<_> = (0..20).map(|_| post(server.token(Role::Ingest))).collect();
    assert!(ingest.contains(&"429".to_owned()), "{ingest:?}");
    // All others have all that they had: the address its five, and the token its ten for other routes.
    let strangers: Vec<_> = (0..5).map(|_| server.get(None, "/healthz").status).collect();
    assert_eq!(strangers, [200; 5]);
    let reports = "/v1/streams/rooms/reports";
    let others: Vec<_> = (0..10).map(|_| server.post(Some(Role::Ingest), reports, "", b"").status).collect();
    assert_eq!(others, [415; 10]);
    let metrics = server.get(Some(Role::Analyst), "/metrics").text;
    assert!(!metrics.contains("unauthorised") && !metrics.contains("\"rate\""), "{metrics}");
}

#[test]
fn counts_refusals_of_other_routes() {
    let of = |number| NonZeroU32::new(number).unwrap();
    let server = Server::start_with(WebhookSettings::default(), |settings| {
        settings.limits.address_rate = Rate { per_second: of(1), burst: of(3) };
    });
    let statuses: Vec<_> = (0..10).map(|_| server.get(None, "/v1/streams").status).collect();
    assert!(statuses[..3] == [401; 3] && statuses.contains(&429), "{statuses:?}");
    let metrics = server.get(Some(Role::Analyst), "/metrics").text;
    for reason in ["unauthorised", "rate"] {
        let line = format!("tidegate_reports_refused_total{{stream=\"\",reason=\"{reason}\"}}");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn answers_to_events_depend_on_the_request_only() {
    let server = Server::start();
    server.create(&rooms());
    server.until(Role::Analyst, "/v1/streams/rooms", |answer| answer.json()["open"].is_u64());
    let tell = |user: &str, value: &str| {
        let event = json!({ "user": user, "value": value });
        // Between two ticks nothing is accepted.
        let mut answers = (0..50).map(|_| server.post_json(Role::Ingest, EVENTS, &event));
        let answered = answers.find(|answer| answer.status != 409).unwrap();
        let headers: BTreeMap<_, _> =
            answered.headers.into_iter().filter(|(name, _)| name != "date" && name != "x-request-id").collect();
        (answered.status, headers, answered.text)
    };
    let first = tell("anna", "in");
    assert_eq!((first.0, first.2.as_str()), (200, "{\"taken\":1}"));
    // The same again, another value of the same user, and another user.
    for (user, value) in [("anna", "in"), ("anna", "out"), ("bert", "out")] {
        assert_eq!(tell(user, value), first, "{user} {value}");
    }
    let outside = tell("anna", "attic");
    assert_eq!(tell("cleo", "attic"), outside);
}

#[test]
fn outsiders_are_asked_nothing_by_a_curated_stream() {
    let server = Server::start();
    server.create(&rooms());
    // The round of such a stream would tell strangers how often it published.
    server.get(None, "/v1/streams/rooms/questions").refuses(404, "no_policy");
    server.get(None, "/v1/streams/rooms/questions?after=0&wait=60").refuses(404, "no_policy");
}

/// Connects with a client that resumes sessions, and returns the kind of handshake.
fn handshake(server: &Server, config: &Arc<ClientConfig>) -> Option<HandshakeKind> {
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(server.address).unwrap());
    stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    // To the end, so a session ticket is read.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    stream.conn.handshake_kind()
}

/// A session cache evicts old sessions, so resumption would tell how many clients came since.
#[test]
fn tls_sessions_are_never_resumed() {
    let files = TlsFiles { certificate: format!("{TLS}/certificate.pem").into(), key: format!("{TLS}/key.pem").into() };
    let server = Server::start_with(WebhookSettings::default(), |settings| settings.tls = Some(files));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(format!("{TLS}/authority.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        for _ in 0..3 {
            assert_eq!(handshake(&server, &config), Some(HandshakeKind::Full), "{version:?}");
        }
    }
}
