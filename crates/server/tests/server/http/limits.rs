//! Limits of clients.

use std::io::Write;
use std::net::TcpStream;
use std::num::NonZeroU32;
#[cfg(unix)]
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_server::http::auth::Role;
use tidegate_server::http::{Limits, Rate, TlsFiles, WebhookSettings};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{PATIENCE, Server, visits};
#[cfg(unix)]
use crate::store::TestFolder;

fn limited(change: impl FnOnce(&mut Limits)) -> Server {
    Server::start_with(WebhookSettings::default(), |settings| change(&mut settings.limits))
}

#[test]
fn rate_limits_say_when_to_retry() {
    let of = |number| NonZeroU32::new(number).unwrap();
    let server = limited(|limits| {
        limits.address_rate = Rate { per_second: of(1), burst: of(3) };
        limits.token_rate = Rate { per_second: of(1), burst: of(5) };
    });
    let (mut granted, mut refused) = (0, 0);
    for _ in 0..6 {
        let answer = server.get(None, "/healthz");
        if answer.status == 200 {
            granted += 1;
        } else {
            answer.refuses(429, "rate");
            assert!((1..=2).contains(&answer.headers["retry-after"].parse::<u64>().unwrap()));
            refused += 1;
        }
    }
    assert!((3..=4).contains(&granted) && refused >= 2, "{granted} and {refused}");
    // Each token has its own limit; unknown tokens share that of their address.
    for role in [Role::Analyst, Role::Operator] {
        let statuses: Vec<_> = (0..8).map(|_| server.get(Some(role), "/v1/streams").status).collect();
        assert_eq!(statuses[..5], [200; 5], "{statuses:?}");
        assert_eq!(statuses[7], 429, "{statuses:?}");
    }
    let request = "GET /healthz HTTP/1.1\r\nhost: x\r\nauthorization: Bearer guess\r\nconnection: close\r\n\r\n";
    let guesses: Vec<_> = (0..6).map(|_| server.raw(request.as_bytes(), Duration::from_secs(5))).collect();
    assert!(guesses.iter().any(|answer| answer.starts_with("HTTP/1.1 429")), "{guesses:?}");
}

#[test]
fn disconnects_slow_clients() {
    let server = limited(|limits| {
        (limits.headers, limits.body) = (Duration::from_millis(300), Duration::from_millis(300));
    });
    let began = Instant::now();
    // Nothing at all, half a header, and half a body.
    server.raw(b"", PATIENCE);
    server.raw(b"GET /healthz HTTP/1.1\r\nhost:", PATIENCE);
    let head = format!(
        "POST /v1/streams HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        server.token(Role::Operator)
    );
    let answer = server.raw(head.as_bytes(), PATIENCE);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // And a connection that has been used, and is idle.
    let idle = server.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", PATIENCE);
    assert!(idle.starts_with("HTTP/1.1 200"), "{idle}");
    // Without these limits each takes 30 seconds.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}

#[test]
fn disconnects_clients_that_do_not_read() {
    let server = limited(|limits| limits.write = Duration::from_millis(300));
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // Answers that nobody reads fill all buffers on the way.
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(25) {
        match stream.write_all(&request) {
            Err(error) if ![std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut].contains(&error.kind()) => {
                return;
            }
            _ => {}
        }
    }
    panic!("the connection is still there");
}

#[test]
fn limits_connections_and_waiting_requests() {
    let server = limited(|limits| (limits.connections, limits.waiting) = (3, 1));
    server.create(&visits());
    server.post(Some(Role::Operator), "/v1/streams/visits/pause", "", b"");
    let feed = server.feed("visits", "", None);
    let crowded = server.get(Some(Role::Analyst), "/v1/streams/visits/feed");
    crowded.refuses(503, "crowded");
    assert!(crowded.headers.contains_key("retry-after"));
    // The feed and the client have one each, and a third is idle. One of the idle ones makes room for the next.
    let third = TcpStream::connect(server.address).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let answer = server.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", Duration::from_secs(5));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(third);
    drop(feed);
}

pub(super) const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/tls");

/// A client that trusts one certificate authority.
pub(super) fn trusting(authority: &str) -> ureq::Agent {
    let authority = std::fs::read(format!("{TLS}/{authority}.pem")).unwrap();
    let roots = RootCerts::from(vec![Certificate::from_pem(&authority).unwrap()]);
    ureq::Agent::config_builder()
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .timeout_global(Some(Duration::from_secs(10)))
        .max_idle_connections(0)
        .proxy(None)
        .build()
        .into()
}

#[test]
fn serves_tls_with_a_certificate() {
    let files = TlsFiles { certificate: format!("{TLS}/certificate.pem").into(), key: format!("{TLS}/key.pem").into() };
    let server = Server::start_with(WebhookSettings::default(), |settings| settings.tls = Some(files));
    let url = format!("https://localhost:{}/healthz", server.address.port());
    let response = trusting("authority").get(&url).call().unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.headers().contains_key("strict-transport-security"));
    // Plain text gets no answer, and a client that does not trust the authority disconnects.
    let plain = server.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", Duration::from_secs(5));
    assert!(!plain.contains("HTTP/1.1"), "{plain}");
    assert!(ureq::get(&url).call().is_err());
}

#[cfg(unix)]
#[test]
fn reloads_a_usable_certificate_without_restart() {
    let folder = TestFolder::new();
    let files = TlsFiles { certificate: folder.file("certificate.pem"), key: folder.file("key.pem") };
    let put = |prefix: &str| {
        std::fs::copy(format!("{TLS}/{prefix}certificate.pem"), &files.certificate).unwrap();
        std::fs::copy(format!("{TLS}/{prefix}key.pem"), &files.key).unwrap();
    };
    let hang_up = || {
        let signalled = Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status().unwrap();
        assert!(signalled.success());
    };
    put("");
    let server = Server::start_with(WebhookSettings::default(), |settings| settings.tls = Some(files.clone()));
    // This one is not sealed, and has nothing to read again.
    let plain = Server::start();
    let url = format!("https://localhost:{}/healthz", server.address.port());
    let (first, second) = (trusting("authority"), trusting("other-authority"));
    let reaches = |client: &ureq::Agent| client.get(&url).call().is_ok();
    assert!(reaches(&first) && !reaches(&second));
    // A key that does not fit changes nothing.
    std::fs::copy(format!("{TLS}/other-key.pem"), &files.key).unwrap();
    hang_up();
    std::thread::sleep(Duration::from_millis(300));
    assert!(reaches(&first) && !reaches(&second));
    put("other-");
    hang_up();
    let began = Instant::now();
    while !reaches(&second) {
        assert!(began.elapsed() < Duration::from_secs(10), "it is not read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!reaches(&first));
    assert_eq!(plain.get(None, "/healthz").status, 200);
}
