//! Attacks on the program as it ships, with its own limits and in full size. The service's tests have the same attacks
//! on small limits, and say which limit holds.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::operations::{ask, await_ready};
use crate::service::{Home, Serving, stream};
use crate::stdout;

/// Longest that a probe may take.
const PROBE: Duration = Duration::from_secs(1);

/// Asks for the health of a service; returns how long the answer took.
fn probe(url: &str) -> Duration {
    let began = Instant::now();
    let answer = ask(url, "/healthz", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{url}: {answer}");
    began.elapsed()
}

/// Opens so many connections in a process of its own, and keeps them. `None` where the machine does not allow it.
fn idle(url: &str, count: u32) -> Option<Child> {
    let address = url.strip_prefix("http://").unwrap().replace(':', "/");
    let open = format!(
        "ulimit -n {} || exit 9; for i in $(seq {count}); do exec {{fd}}<>/dev/tcp/{address}; done; echo ready; read",
        count + 100
    );
    let mut command = Command::new("bash");
    command.args(["-c", &open]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
        return Some(child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(9), "the attacker could not connect");
    None
}

#[test]
fn thousands_of_idle_sockets_silence_nobody() {
    let home = Home::new();
    let monitoring = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    home.configure(&format!("monitoring = \"{monitoring}\"\n"), &stream("visits", 1, 3));
    let serving = home.serve();
    await_ready(&serving);
    let Some(mut attacker) = idle(&serving.url, 4_300) else {
        eprintln!("SKIPPED: this machine does not allow 4,400 open files");
        return;
    };
    // The same address, which has more than it may, and the address for probes.
    for _ in 0..5 {
        assert!(probe(&serving.url) < PROBE);
        assert!(probe(&format!("http://{monitoring}")) < PROBE);
        assert!(ask(&serving.url, "/v1/streams", home.token("analyst")).starts_with("HTTP/1.1 200"));
    }
    // Streams go on: their files are not those of connections.
    let version = || {
        let listed = home.query(&serving, "streams --json");
        serde_json::from_slice::<Value>(&listed.stdout).unwrap_or_else(|_| panic!("{}", stdout(&listed)))
    };
    let before = version();
    let began = Instant::now();
    while version() == before {
        assert!(began.elapsed() < Duration::from_secs(10), "the stream stands still: {before}");
        thread::sleep(Duration::from_millis(100));
    }
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    assert_eq!(serving.terminate().0, Some(0));
}

/// Most memory that a process has had so far, in bytes.
fn peak(serving: &Serving) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn head(home: &Home, path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n",
        home.token("ingest")
    )
}

/// Sends everything but the last byte of many bodies at once. What is refused need not be taken.
fn send_slowly(serving: &Serving, head: &str, body: &[u8], count: usize) -> Vec<TcpStream> {
    let address = serving.url.strip_prefix("http://").unwrap();
    let (_, rest) = body.split_last().unwrap();
    let send = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(rest));
        stream
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..count).map(|_| scope.spawn(send)).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    })
}

#[test]
fn hundreds_of_slow_bodies_take_bounded_memory() {
    const LENGTH: usize = 8 << 20;
    let home = Home::new();
    home.configure("", &stream("visits", 1, 3));
    let serving = home.serve();
    await_ready(&serving);
    let slow = send_slowly(&serving, &head(&home, "/v1/streams/visits/reports", LENGTH), &vec![b' '; LENGTH], 250);
    assert!(probe(&serving.url) < PROBE);
    // Two gibibytes were offered. Bodies have 256 MiB, of which an address has half, and each may take twice its size.
    let peak = peak(&serving);
    assert!(peak < 450 << 20, "{} MiB", peak >> 20);
    drop(slow);
    assert_eq!(serving.terminate().0, Some(0));
}

#[test]
fn large_json_does_not_stall_health() {
    let home = Home::new();
    let rooms = "\n[[streams]]\nname = \"rooms\"\ntick = 60\n[streams.spec]\nfamily = \"central\"\n\
                 mechanism = \"uniform\"\nepsilon = 1.0\nwindow = 2\ndomain = [\"in\", \"out\"]\n";
    home.configure("", rooms);
    let serving = home.serve();
    await_ready(&serving);
    let events: Vec<_> = (0..88_000).map(|user| json!({ "user": format!("{user:060}"), "value": "in" })).collect();
    let body = serde_json::to_vec(&events).unwrap();
    assert!(body.len() > 7 << 20 && body.len() < 8 << 20, "{}", body.len());
    let mut bodies = send_slowly(&serving, &head(&home, "/v1/streams/rooms/events", body.len()), &body, 14);
    // All end at once, while health is asked again and again.
    let (start, last) = (Barrier::new(15), body.last().unwrap());
    let end = |stream: &mut TcpStream| {
        start.wait();
        stream.write_all(&[*last]).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    thread::scope(|scope| {
        let end = &end;
        let senders: Vec<_> = bodies.iter_mut().map(|stream| scope.spawn(move || end(stream))).collect();
        start.wait();
        while senders.iter().any(|sender| !sender.is_finished()) {
            // Fifty requests a second are granted to a stranger.
            thread::sleep(Duration::from_millis(25));
            let took = probe(&serving.url);
            assert!(took < PROBE, "{took:?}");
        }
        for sender in senders {
            let answer = sender.join().unwrap();
            // Between two ticks none is open.
            assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 409"), "{answer}");
        }
    });
    assert_eq!(serving.terminate().0, Some(0));
}
