//! Throughput and latency of a cluster and of a single process, for `docs/results-cluster.md`.

use std::fmt::Write as _;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_device::api::OpenQuestion;
use tidegate_device::client::Client;
use tidegate_device::wire::StreamTag;
use tidegate_kernel::{Randomness as _, SeededRandom};

use crate::faults::{Fault, Schedule};
use crate::fleet::{Fleet, client, now};
use crate::processor::seconds;
use crate::program::wait_until;
use crate::roles::{Cluster, Role, Size};
use crate::runs::run;
use crate::streams::Declared;

/// Reports of a batch, and bytes of each.
const BATCH: u32 = 20_000;
const SENDERS: usize = 4;

/// Length of a tick in which all reports of a measurement come.
const TICK: u64 = 120;

/// Builds a batch with random identities. Its form is documented in `tidegate_device::wire`.
fn batch(asked: &OpenQuestion, stream: &str, domain: u32, random: &mut SeededRandom) -> Vec<u8> {
    let (timestamp, length) = (asked.question.timestamp, asked.report_length);
    let mut ids: Vec<[u8; 12]> = (0..BATCH)
        .map(|_| {
            let mut id = [0; 12];
            id[..8].copy_from_slice(&random.next_word().to_be_bytes());
            id[8..].copy_from_slice(&random.next_word().to_be_bytes()[..4]);
            id
        })
        .collect();
    ids.sort_unstable();
    let mut bytes = b"TGB1".to_vec();
    bytes.extend(StreamTag::of(stream).as_bytes());
    bytes.extend(timestamp.to_le_bytes());
    bytes.extend(asked.question.phase.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
    bytes.extend(BATCH.to_le_bytes());
    #[allow(clippy::cast_possible_truncation)] // as a prefix is defined
    let prefix = (timestamp as u32).to_be_bytes();
    ids.iter().for_each(|id| bytes.extend(prefix.iter().chain(id)));
    for _ in 0..BATCH {
        let value = u32::try_from(random.next_word() % u64::from(domain)).unwrap();
        bytes.extend(&value.to_le_bytes()[..length]);
    }
    bytes
}

/// A measured throughput.
#[derive(Debug)]
struct Throughput {
    /// Reports that were sent, and seconds until they were acknowledged and counted.
    reports: u64,
    acknowledged: f64,
    counted: f64,
    /// Processor seconds for a million reports, by process.
    costs: Vec<(String, f64)>,
}

/// Processes of a cluster that do something, with their numbers.
fn processes(cluster: &Cluster) -> Vec<(String, u32)> {
    let mut all: Vec<(String, u32)> =
        cluster.processes.iter().map(|(_, process)| (process.name.clone(), process.id())).collect();
    if let Some(brokers) = &cluster.brokers {
        let pid = |number: usize| brokers.servers.pid(number).unwrap();
        all.extend((0..brokers.machines.len()).map(|number| (format!("broker-{number}"), pid(number))));
    }
    all.push(("postgres".to_owned(), cluster.database.primary().id()));
    all.push(("senders".to_owned(), std::process::id()));
    all
}

/// Waits for a question that stays open for long enough.
fn question(client: &Client, stream: &str) -> OpenQuestion {
    let mut found = None;
    wait_until("a question that stays open", 2 * TICK, || {
        let asking = client.questions(stream, None, Duration::ZERO).ok();
        found = asking.and_then(|asking| asking.questions.into_iter().next());
        found.as_ref().is_some_and(|asked| asked.closes > now() + TICK * 700)
    });
    found.unwrap()
}

/// Sends so many batches as fast as they are acknowledged.
fn throughput(size: Size, batches: usize) -> Throughput {
    let stream = Declared::crowded("load", TICK);
    let cluster = Cluster::start(size, std::slice::from_ref(&stream));
    let clients: Vec<Client> = cluster.urls().iter().map(|url| client(url, cluster.token("ingest"))).collect();
    let asked = question(&clients[0], stream.name);
    let random = &mut SeededRandom::new(1);
    let bodies: Vec<Vec<u8>> = (0..batches).map(|_| batch(&asked, stream.name, stream.cells, random)).collect();
    let before: Vec<f64> = processes(&cluster).iter().map(|(_, process)| seconds(*process)).collect();
    let (next, start) = (Mutex::new(bodies.iter()), Instant::now());
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (next, client) = (&next, &clients[sender % clients.len()]);
            scope.spawn(move || {
                loop {
                    let Some(body) = next.lock().unwrap().next() else { break };
                    let receipt = client.send("load", body).unwrap();
                    assert_eq!(receipt.accepted, u64::from(BATCH), "{receipt:?}");
                }
            });
        }
    });
    let acknowledged = start.elapsed().as_secs_f64();
    let reports = u64::from(BATCH) * batches as u64;
    wait_until("all reports are counted", 120, || {
        let sql = "SELECT coalesce(sum(counted), 0)::int8 FROM tidegate.counts";
        cluster.database.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) == i64::try_from(reports).unwrap()
    });
    let counted = start.elapsed().as_secs_f64();
    let after = processes(&cluster).into_iter().map(|(name, process)| (name, seconds(process)));
    let millions = reports as f64 / 1e6;
    let costs = after.zip(before).map(|((name, after), before)| (name, (after - before) / millions)).collect();
    Throughput { reports, acknowledged, counted, costs }
}

/// Median, 99 % and most of some milliseconds.
fn spread(mut delays: Vec<u64>) -> [u64; 3] {
    delays.sort_unstable();
    let at = |percent: usize| delays[(delays.len() - 1) * percent / 100];
    [at(50), at(99), at(100)]
}

/// Releases of a cluster with light load, and how long each came after its tick, while there is a fault.
fn latency(fault: Option<Fault>) -> (usize, [u64; 3]) {
    let streams = Declared::all();
    let mut cluster = Cluster::start(Size::SMALL, &streams);
    let (fleet, mut schedule) = (Fleet::new(streams), Schedule::new(7));
    let outcome = run(&mut cluster, &fleet, 7, |cluster| {
        schedule.wait(4_000, 4_001);
        match fault {
            Some(fault) => schedule.cause(cluster, fault),
            None => schedule.wait(10_000, 10_001),
        }
        schedule.wait(4_000, 4_001);
    });
    assert!(outcome.wrong.is_empty(), "{:?}", outcome.wrong);
    let ticks = |name: &str| fleet.streams.iter().find(|stream| stream.name == name).unwrap().tick * 1_000;
    let first = outcome.releases.values().map(|seen| seen.at).min().unwrap();
    let delays = outcome.releases.iter().filter(|(_, seen)| seen.at > first + 2_000);
    let delays: Vec<u64> =
        delays.map(|((stream, _), seen)| seen.at.saturating_sub((seen.timestamp + 1) * ticks(stream))).collect();
    (delays.len(), spread(delays))
}

/// Writes the page that `TIDEGATE_CLUSTER_RESULTS` names. Set `TIDEGATE_PROGRAM` to an optimised program.
#[test]
#[ignore = "minutes: make cluster-results"]
fn results_are_measured() {
    let page = std::env::var("TIDEGATE_CLUSTER_RESULTS").expect("TIDEGATE_CLUSTER_RESULTS names a file to write");
    let alone = Size { brokers: 0, with_standby: false, ..Size::SMALL };
    let one = Size { brokers: 1, gateways: 1, workers: 1, drivers: 1, with_standby: false, ..Size::SMALL };
    let sizes = [
        ("one process, no log", alone),
        ("1 gateway, 1 worker, 1 driver, 1 broker", one),
        ("1 gateway, 1 worker, 1 driver, 3 brokers", Size { brokers: 3, ..one }),
        ("2 gateways, 2 workers, 2 drivers, 3 brokers", Size { with_standby: false, ..Size::SMALL }),
    ];
    let batches = std::env::var("TIDEGATE_CLUSTER_BATCHES").map_or(200, |text| text.parse().unwrap());
    let mut text = String::from(HEAD);
    let mut costs = String::from(COSTS);
    for (name, size) in sizes {
        let Throughput { reports, acknowledged, counted, costs: each } = throughput(size, batches);
        let (fast, slow) = (reports as f64 / acknowledged, reports as f64 / counted);
        writeln!(text, "| {name} | {reports} | {fast:.0} | {slow:.0} |").unwrap();
        for (process, cost) in each {
            writeln!(costs, "| {name} | {process} | {cost:.3} |").unwrap();
        }
        println!("{name}: {fast:.0} a second acknowledged, {slow:.0} counted");
    }
    text += &costs;
    text += LATENCY;
    let faults = [
        None,
        Some(Fault::Kill(Role::Worker)),
        Some(Fault::Pause(Role::Worker)),
        Some(Fault::Kill(Role::Driver)),
        Some(Fault::Kill(Role::Gateway)),
        Some(Fault::KillLeader),
        Some(Fault::RestartDatabase),
        Some(Fault::FailOver),
    ];
    for fault in faults {
        let (releases, [median, most_of, most]) = latency(fault);
        let name = fault.map_or_else(|| "none".to_owned(), |fault| fault.to_string());
        writeln!(text, "| {name} | {releases} | {median} | {most_of} | {most} |").unwrap();
        println!("{name}: {median} {most_of} {most} ms");
    }
    fs::write(page, text).unwrap();
}

const HEAD: &str = "# Results: cluster

Generated by `make cluster-results`; do not edit. The figures belong to this machine, whose cores all processes and the
senders share.

## Throughput

Four connections send batches of 20,000 reports (`grr` over 1,024 values, 2 bytes a report and 16 for its identity) for
one question, and wait for each acknowledgement. PostgreSQL has no standby. The second figure ends when the database has
the counts of all reports.

| processes | reports | acknowledged a second | counted a second |
| --- | --- | --- | --- |
";

const COSTS: &str = "
Processor seconds for a million reports, from `/proc`. The senders prepare their batches before.

| processes | process | seconds |
| --- | --- | --- |
";

const LATENCY: &str = "
## From the end of a tick to its release

Two gateways, two workers and two drivers with leases of 2 s, three brokers, PostgreSQL with a synchronous standby; five
streams with ticks of 1 and 2 s, and a light load. The time includes the stagger of releases, and up to 50 ms until the
next look at a gateway. Each row is a run of its own of some 15 s, with one fault in its middle.

| fault | releases | median, ms | 99 %, ms | most, ms |
| --- | --- | --- | --- | --- |
";
