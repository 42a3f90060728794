//! Runs of a cluster, or of a single process.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::fleet::Fleet;
use crate::oracle::{Figures, check};
use crate::roles::{Cluster, Size};
use crate::streams::Declared;
use crate::watch::Watch;
use crate::{audit, program::wait_until};

/// Sends reports while `disturb` does what it does, and compares afterwards. Returns what was wrong.
fn run(cluster: &mut Cluster, fleet: &Fleet, seed: u64, disturb: impl FnOnce(&mut Cluster)) -> (Figures, Vec<String>) {
    let (urls, watch) = (cluster.urls(), Watch::default());
    let (ingest, analyst) = (cluster.token("ingest").to_owned(), cluster.token("analyst").to_owned());
    watch.while_doing(&urls, &analyst, &fleet.streams, Duration::from_millis(50), || {
        fleet.send_while(&urls, &ingest, seed, || disturb(cluster));
    });
    let mut last: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (stream, timestamp, _) in fleet.memory().keys() {
        last.entry(stream).and_modify(|last| *last = (*last).max(*timestamp)).or_insert(*timestamp);
    }
    watch.read_all(&urls, &analyst, &last, 60);
    let (releases, mut wrong) = watch.into_releases();
    let totals = audit::read(&cluster.database, &mut wrong);
    let figures = check(&fleet.streams, &fleet.memory(), &totals, &releases, &mut wrong);
    (figures, wrong)
}

/// The oracle agrees with a single process on PostgreSQL, which counts without a log.
#[test]
fn a_single_process_counts_what_was_acknowledged() {
    let streams = Declared::all();
    let size = Size { brokers: 0, with_standby: false, ..Size::SMALL };
    let mut cluster = Cluster::start(size, &streams);
    let fleet = Fleet::new(streams);
    let (figures, wrong) = run(&mut cluster, &fleet, 1, |cluster| {
        thread::sleep(Duration::from_secs(5));
        cluster.processes[0].1.kill();
        cluster.processes[0].1.start();
        cluster.wait_ready();
        thread::sleep(Duration::from_secs(2));
    });
    assert!(wrong.is_empty(), "{figures:?}\n{}\n{}", wrong.join("\n"), cluster.said());
    assert!(figures.acknowledged > 500 && figures.estimates > 5, "{figures:?}");
    println!("{figures:?}");
    wait_until("it ends", 5, || true);
}
