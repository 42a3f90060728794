//! Sequences end to end: a service, devices and fleets that release them, and kills of both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crash::{Killed, killing};
use crate::service::{Home, counts};
use crate::{assert_refused, command, stderr, stdout};

/// A stream of sequences with ticks of a second, whose model never makes an answer constant.
fn stream(name: &str, mechanism: &str, more: &str) -> String {
    format!(
        "\n[[streams]]\nname = \"{name}\"\ntick = 1\n[streams.spec]\nfamily = \"sequence\"\nmechanism = \
         \"{mechanism}\"\nepsilon = 2\ndomain = [\"home\", \"work\", \"away\"]\npopulation = 100\n{more}\n\
         [streams.spec.model]\nprior = [0.4, 0.3, 0.3]\n\
         transitions = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]\n"
    )
}

/// A service with a port that stays the same.
struct Service {
    home: Home,
    url: String,
}

impl Service {
    fn new(streams: &str) -> Self {
        Self::on(&Killed::Sqlite, streams)
    }

    fn on(store: &Killed, streams: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = Home::new();
        home.configure("", streams);
        let text = fs::read_to_string(home.config()).unwrap();
        let text = text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
        fs::write(home.config(), store.line() + &text).unwrap();
        Self { home, url: format!("http://127.0.0.1:{port}") }
    }

    fn releases(&self, name: &str) -> Vec<Value> {
        let query = format!("query releases --stream {name} --server {} --json", self.url);
        let output = command(&query).env("TIDEGATE_TOKEN", self.home.token("analyst")).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = stdout(&output).lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn device(&self, stream: &str, more: &str, output: &PathBuf) -> Child {
        let (url, key, state) = (&self.url, &self.home.operator_key, self.home.folder.file("device"));
        let output = File::options().create(true).append(true).open(output).unwrap();
        let line = format!(
            "device run --server {url} --stream {stream} --operator-key {key} --state {} --source place --json {more}",
            state.display()
        );
        command(&line).env("TIDEGATE_TOKEN", self.home.token("ingest")).stdout(output).spawn().unwrap()
    }

    fn fleet(&self, stream: &str) -> Output {
        let (url, key, counts) = (&self.url, &self.home.operator_key, counts(self.home.folder.path()));
        let line = format!(
            "device fleet --server {url} --stream {stream} --operator-key {key} --devices 90 --dataset {} --ticks 2 \
             --json",
            counts.display()
        );
        command(&line).env("TIDEGATE_TOKEN", self.home.token("ingest")).output().unwrap()
    }
}

/// Stops a program as a loss of power would.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The outcomes of a device, over all its lives. A line that a kill cut off is left out.
fn outcomes(path: &PathBuf) -> Vec<(u64, String)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|line| (line["t"].as_u64().unwrap(), line["outcome"].as_str().unwrap().to_owned())).collect()
}

fn taken(path: &PathBuf) -> usize {
    outcomes(path).iter().filter(|(_, outcome)| outcome == "accepted").count()
}

fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(90), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// How many reports the releases of each timestamp have; no timestamp is released twice.
fn reports(releases: &[Value]) -> BTreeMap<u64, f64> {
    let mut reports = BTreeMap::new();
    for row in releases {
        *reports.entry(row["t"].as_u64().unwrap()).or_insert(0.0) += row["count"].as_f64().unwrap();
        assert!(row["variance"].is_null(), "{row}");
    }
    reports
}

/// Kills the device, the service and its database in turn, and compares what the device was told with what was
/// released.
fn survives_kills(mut store: Killed, name: &str, mechanism: &str, more: &str) {
    let service = Service::on(&store, &stream(name, mechanism, more));
    let told = service.home.folder.file("told.ndjson");
    let mut serving = service.home.serve();
    let mut device = service.device(name, "--value work", &told);
    let (start, mut round) = (Instant::now(), 0);
    while round < 3 || start.elapsed() < killing() {
        let before = taken(&told);
        wait_for("a report is accepted", || taken(&told) > before);
        if round % 2 == 0 {
            kill(device);
            device = service.device(name, "--value work", &told);
        } else if !store.kill_database(round % 4 == 1) {
            serving.kill();
            thread::sleep(Duration::from_millis(300));
            serving = service.home.serve();
        }
        round += 1;
    }
    let before = taken(&told);
    wait_for("a report is accepted after all kills", || taken(&told) > before);
    kill(device);
    let told = outcomes(&told);
    let last = told.iter().map(|(timestamp, _)| *timestamp).max().unwrap();
    wait_for("the last report is released", || reports(&service.releases(name)).keys().any(|t| *t >= last));
    let released = reports(&service.releases(name));
    assert!(released.values().all(|count| *count <= 1.0), "one device has one report: {released:?}");
    for (timestamp, outcome) in told {
        if ["accepted", "repeated"].contains(&outcome.as_str()) {
            assert_eq!(released.get(&timestamp), Some(&1.0), "the report of {timestamp} was acknowledged");
        }
    }
}

#[test]
fn a_device_and_a_service_that_are_killed_lose_no_release_and_count_none_twice() {
    survives_kills(Killed::Sqlite, "moves", "crr", "");
}

#[test]
fn a_device_and_a_service_that_are_killed_with_postgres_lose_no_release_and_count_none_twice() {
    survives_kills(Killed::postgres(), "moves", "crr", "");
}

#[test]
fn batches_of_a_device_that_is_killed_are_released_once() {
    survives_kills(Killed::Sqlite, "trips", "batched", "length = 2");
}

#[test]
fn a_fleet_releases_sequences_that_are_counted() {
    let service = Service::new(&(stream("moves", "crr", "") + &stream("trips", "batched", "length = 2")));
    let serving = service.home.serve();
    for name in ["moves", "trips"] {
        let fleet = service.fleet(name);
        assert!(fleet.status.success(), "{}", stderr(&fleet));
        let rows: Vec<Value> = stdout(&fleet).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows[0]["accepted"], 90, "{rows:?}");
        let at = rows[0]["t"].as_u64().unwrap();
        wait_for("a release of all devices", || reports(&service.releases(name)).contains_key(&at));
        assert_eq!(reports(&service.releases(name))[&at], 90.0);
    }
    assert_eq!(serving.terminate().0, Some(0));
}

#[test]
fn a_model_from_a_file_is_declared_and_one_learned_with_a_seed_is_refused() {
    let home = Home::new();
    let (table, model, spec) =
        (home.folder.file("visits.csv"), home.folder.file("visits.model.json"), home.folder.file("spec.toml"));
    fs::write(&table, "t,user,value\n0,a,home\n0,b,work\n1,a,work\n1,b,home\n2,a,home\n2,b,home\n").unwrap();
    let fit = |more: &str| {
        let line =
            format!("model fit --input {} --domain home,work --output {} {more}", table.display(), model.display());
        let output = command(&line).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let text = format!(
        "family = \"sequence\"\nmechanism = \"crr\"\nepsilon = 1\ndomain = [\"home\", \"work\"]\npopulation = 10\n\
         model = \"{}\"\n",
        model.display()
    );
    fs::write(&spec, text).unwrap();
    let serving = home.serve();
    let create = || {
        let line = format!("stream create visits --tick 60 --spec {} --server {} --json", spec.display(), serving.url);
        command(&line).env("TIDEGATE_TOKEN", home.token("operator")).output().unwrap()
    };
    fit("--epsilon 1 --contribution 5 --seed 3");
    assert_refused(&create(), "learned with a seed");
    fit("");
    let created = create();
    assert!(created.status.success(), "{}", stderr(&created));
    let created: Value = serde_json::from_slice(&created.stdout).unwrap();
    assert_eq!(created["spec"]["model"]["transitions"].as_array().unwrap().len(), 2);
}
