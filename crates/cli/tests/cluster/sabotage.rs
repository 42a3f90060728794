//! Clusters that break one guarantee each, from outside: the same comparison must find every one.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::faults::{Fault, Schedule};
use crate::fleet::Fleet;
use crate::network::Network;
use crate::roles::{Cluster, Role, Size};
use crate::runs::{Outcome, run};
use crate::streams::Declared;

/// Forwards connections to a server, and replaces a text by another of the same length on the way there.
fn rewrite(network: &Network, server: &str, text: &'static [u8], by: &'static [u8]) -> String {
    assert_eq!(text.len(), by.len());
    let listener = TcpListener::bind((network.gateway(), 0)).unwrap();
    let (address, server) = (listener.local_addr().unwrap(), server.to_owned());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&server) else { continue };
            let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || forward(client, server, text, by));
            thread::spawn(move || forward(from_server, to_client, b"", b""));
        }
    });
    address.to_string()
}

/// A statement comes in one piece: its client sends it with a single write.
fn forward(mut from: TcpStream, mut to: TcpStream, text: &[u8], by: &[u8]) {
    let mut bytes = vec![0; 1 << 20];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if !text.is_empty() {
            for place in 0..(length + 1).saturating_sub(text.len()) {
                if bytes[place..].starts_with(text) {
                    bytes[place..place + by.len()].copy_from_slice(by);
                }
            }
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Asserts that a run was found wrong, and for the right reason.
#[track_caller]
fn assert_caught(variant: &str, outcome: &Outcome, reasons: &[&str]) {
    let found = outcome.wrong.iter().find(|wrong| reasons.iter().any(|reason| wrong.contains(reason)));
    let found = found.unwrap_or_else(|| panic!("{variant} is not caught: {:?} {:?}", outcome.figures, outcome.wrong));
    println!("{variant}: {} problems, such as {found}", outcome.wrong.len());
}

/// A gateway acknowledges a batch before the log has it.
///
/// The fleet takes for acknowledged what it begins to send, unless it is told of a refusal.
#[test]
#[ignore = "a minute: make cluster-test"]
fn an_acknowledgement_before_the_append_is_caught() {
    let streams = Declared::all();
    let mut cluster = Cluster::start(Size { with_standby: false, ..Size::SMALL }, &streams);
    let (mut fleet, mut schedule) = (Fleet::new(streams), Schedule::new(1));
    fleet.trusts_too_early = true;
    let outcome = run(&mut cluster, &fleet, 1, |cluster| {
        schedule.wait(1_000, 2_000);
        for _ in 0..3 {
            schedule.cause(cluster, Fault::KillAll(Role::Gateway));
        }
    });
    assert_caught("acknowledged before the append", &outcome, &["is not within", "are counted", "nobody is counted"]);
}

/// A gateway does not look whether the question is still open once the log has its reports.
#[test]
#[ignore = "a minute: make cluster-test"]
fn an_acknowledgement_without_another_look_is_caught() {
    let streams = Declared::all();
    let size = Size { with_standby: false, ..Size::SMALL };
    let mut cluster = Cluster::start_with(size, &streams, |network, database, role| {
        if role != Role::Gateway {
            return database.url();
        }
        let server = format!("{}:5432", database.machines()[0].address);
        let (text, by) = (b"number = ANY($1) AND NOT closed", b"number = ANY($1) AND (1 = 1   )");
        format!("postgres://tidegate@{}/postgres", rewrite(network, &server, text, by))
    });
    let (fleet, mut schedule) = (Fleet::new(streams), Schedule::new(2));
    let outcome = run(&mut cluster, &fleet, 2, |_| schedule.wait(12_000, 12_001));
    assert_caught("no look after the append", &outcome, &["is not within", "are counted", "nobody is counted"]);
}
