//! The client over TLS. `tests/tls` has a test authority and its certificate for `localhost`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tidegate_device::client::{Client, ClientError, ClientOptions};

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// Starts a server that answers every connection once; returns its port.
fn start() -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = CertificateDer::pem_file_iter(file("server.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, connection.unwrap());
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok() {
                let body = "{\"stream\":\"visits\",\"round\":4,\"questions\":[]}";
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    port
}

#[test]
fn trusts_only_certificates_of_known_authorities() {
    let port = start();
    let own = Some(std::fs::read(file("authority.pem")).unwrap());
    let ask = |host: &str, authorities: Option<Vec<u8>>| {
        let options = ClientOptions { authorities, attempts: 3, ..ClientOptions::default() };
        let client = Client::new(&format!("https://{host}:{port}"), options).unwrap();
        client.questions("visits", None, Duration::ZERO)
    };
    assert_eq!(ask("localhost", own.clone()).unwrap().round, 4);
    let unknown = ask("localhost", None);
    let other_name = ask("127.0.0.1", own);
    for error in [unknown.unwrap_err(), other_name.unwrap_err()] {
        let ClientError::Unavailable { attempts, last, .. } = &error else { panic!("{error}") };
        assert!(*attempts == 1 && last.starts_with("no safe connection: "), "{error}");
    }
}
