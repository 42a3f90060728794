//! Runs of a cluster under faults, and of a single process.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::audit;
use crate::faults::{Fault, Schedule};
use crate::fleet::Fleet;
use crate::oracle::{Figures, check};
use crate::roles::{Cluster, Role, Size};
use crate::streams::Declared;
use crate::watch::{Seen, Watch};

/// Outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    pub(crate) wrong: Vec<String>,
    pub(crate) releases: BTreeMap<(&'static str, u64), Seen>,
}

/// Sends reports while `disturb` does what it does, and compares afterwards.
pub(crate) fn run(cluster: &mut Cluster, fleet: &Fleet, seed: u64, disturb: impl FnOnce(&mut Cluster)) -> Outcome {
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
    Outcome { figures, wrong, releases }
}

/// Says what was wrong, and what the processes have said.
#[track_caller]
fn assert_right(seed: u64, cluster: &Cluster, figures: &Figures, wrong: &[String]) {
    let first: Vec<&str> = wrong.iter().take(20).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "seed {seed}, {figures:?}, {} problems:\n{}\n{}",
        wrong.len(),
        first.join("\n"),
        cluster.said()
    );
}

/// Runs a cluster for some faults of a seed.
fn run_of_seed(seed: u64, size: Size, faults: u64) -> (Figures, BTreeMap<Fault, u64>) {
    let streams = Declared::all();
    let mut cluster = Cluster::start(size, &streams);
    let (fleet, mut schedule) = (Fleet::new(streams), Schedule::new(seed));
    println!("seed {seed}:");
    let Outcome { figures, wrong, .. } = run(&mut cluster, &fleet, seed, |cluster| {
        schedule.wait(1_000, 2_000);
        for _ in 0..faults {
            schedule.cause_any(cluster);
            schedule.wait(200, 2_000);
        }
        schedule.wait(1_000, 2_000);
    });
    println!("  {figures:?}");
    assert_right(seed, &cluster, &figures, &wrong);
    for (_, process) in &mut cluster.processes {
        assert_eq!(process.terminate().code(), Some(0), "{}: {}", process.name, process.said());
    }
    (figures, schedule.done)
}

/// The oracle agrees with a single process on PostgreSQL, which counts without a log.
#[test]
fn a_single_process_counts_what_was_acknowledged() {
    let streams = Declared::all();
    let size = Size { brokers: 0, with_standby: false, ..Size::SMALL };
    let mut cluster = Cluster::start(size, &streams);
    let fleet = Fleet::new(streams);
    let Outcome { figures, wrong, .. } = run(&mut cluster, &fleet, 1, |cluster| {
        thread::sleep(Duration::from_secs(4));
        let (role, process) = &mut cluster.processes[0];
        assert_eq!(*role, Role::Serve);
        process.kill();
        process.start();
        cluster.wait_ready();
        thread::sleep(Duration::from_secs(2));
    });
    println!("{figures:?}");
    assert_right(1, &cluster, &figures, &wrong);
    assert!(figures.acknowledged > 500 && figures.estimates > 5, "{figures:?}");
}

/// A few faults, in less than a minute.
#[test]
fn a_cluster_under_faults_counts_what_was_acknowledged() {
    let (figures, _) = run_of_seed(1, Size::SMALL, 2);
    assert!(figures.acknowledged > 500 && figures.estimates > 5, "{figures:?}");
}

/// Many runs: as many as `TIDEGATE_CLUSTER_RUNS` says (50), from the seed `TIDEGATE_SEED` on.
#[test]
#[ignore = "half an hour: make cluster-test"]
fn clusters_of_many_seeds_count_what_was_acknowledged() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (runs, first) = (number("TIDEGATE_CLUSTER_RUNS", 50), number("TIDEGATE_SEED", 100));
    let (start, mut sum, mut done) = (Instant::now(), Figures::default(), BTreeMap::new());
    for seed in first..first + runs {
        // Every second one has brokers whose disks can be full.
        let disk = (seed % 2 == 0 && crate::network::can_be_cut()).then_some(64);
        let (figures, faults) = run_of_seed(seed, Size { disk, ..Size::SMALL }, 4);
        sum.add(&figures);
        for (fault, count) in faults {
            *done.entry(fault).or_insert(0) += count;
        }
    }
    println!("{runs} runs from seed {first} on, {} seconds: {sum:?}", start.elapsed().as_secs());
    done.iter().for_each(|(fault, count)| println!("{fault}: {count}"));
}
