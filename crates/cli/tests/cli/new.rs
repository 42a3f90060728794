//! `tidegate new`: its specs are accepted unchanged, and nothing of a table but its header is read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::{assert_refused, command, stderr, stdout};

/// An empty folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn run_in(folder: &Path, arguments: &str) -> Output {
    command(arguments).current_dir(folder).output().unwrap()
}

#[test]
fn release_accepts_every_new_spec_unchanged() {
    let people = "date,uid,page\n2026-03-01,a,home\n2026-03-01,b,shop\n2026-03-02,a,shop\n";
    let counts = "day,home,shop\n2026-03-01,300,100\n2026-03-02,200,250\n";
    let numbers = "t,value\n0,17\n1,18\n2,19\n";
    let central = "--domain home,shop --every 1d --origin 2026-03-01 --window 7 --population 500";
    for (name, table, options) in [
        ("curator", people, format!("--row user --trust curator {central} --epsilon 1")),
        (
            "device",
            people,
            "--row user --trust device --domain home,shop --every 1d --window 7 --population 500 --epsilon 1"
                .to_owned(),
        ),
        ("error", people, format!("--row user --trust curator {central} --error 40")),
        // The columns are the values.
        (
            "counts",
            counts,
            "--row counts --every 1d --origin 2026-03-01 --window 7 --population 500 --epsilon 1".into(),
        ),
        (
            "reading",
            numbers,
            "--row number --counters --domain 0..100 --protects reading --epsilon 20 --delay 2".into(),
        ),
        (
            "tenths",
            numbers,
            "--row number --counters --domain -10..40 --resolution 0.1 --protects contributor=0.5 --epsilon 1"
                .to_owned(),
        ),
        ("symbol", people, "--row symbol --domain home,shop --every 1d --epsilon 1".to_owned()),
    ] {
        let folder = folder(name);
        fs::write(folder.join("table.csv"), table).unwrap();
        let made = run_in(&folder, &format!("new --table table.csv {options} --json"));
        assert!(made.status.success(), "{name}: {}", stderr(&made));
        assert!(stderr(&made).contains("note: of table.csv, only the names of its columns were read"), "{name}");
        let report: Value = serde_json::from_str(stdout(&made)).unwrap();
        let first = report["commands"]["first"].as_str().unwrap();
        let spec = fs::read_to_string(folder.join("table.toml")).unwrap();
        assert!(spec.contains(&format!("#   {first}\n")), "{name}: {spec}");
        let released = run_in(&folder, first.strip_prefix("tidegate ").unwrap());
        assert!(released.status.success(), "{name}: {}\n{spec}", stderr(&released));
        assert!(fs::read_to_string(folder.join("table-released.csv")).unwrap().lines().count() > 2, "{name}");
        let budget = report["commands"]["budget"].as_str().unwrap();
        assert!(run_in(&folder, budget.strip_prefix("tidegate ").unwrap()).status.success(), "{name}");
    }
}

#[test]
fn a_spec_that_is_there_is_replaced_by_force_only() {
    let folder = folder("force");
    fs::write(folder.join("stream.toml"), "mine").unwrap();
    let arguments = "new --row number --counters --domain 0..100 --protects contributor=1 --epsilon 1";
    assert_refused(&run_in(&folder, arguments), "stream.toml is there already: --force replaces it");
    assert_eq!(fs::read_to_string(folder.join("stream.toml")).unwrap(), "mine");
    assert!(run_in(&folder, &format!("{arguments} --force")).status.success());
    assert!(fs::read_to_string(folder.join("stream.toml")).unwrap().contains("family = \"scalar\""));
}

#[test]
fn a_smaller_error_takes_a_larger_epsilon() {
    let folder = folder("error_target");
    let options = "--row number --counters --domain 0..1000 --protects contributor=1 --force --json";
    let error = |exactness: &str| {
        let made = run_in(&folder, &format!("new {options} {exactness}"));
        assert!(made.status.success(), "{}", stderr(&made));
        serde_json::from_str::<Value>(stdout(&made)).unwrap()["expected_error"].as_f64().unwrap()
    };
    for target in [15.0, 3.7, 1.5] {
        let reached = error(&format!("--error {target}"));
        assert!(reached <= target, "{reached} {target}");
        let spec = fs::read_to_string(folder.join("stream.toml")).unwrap();
        let line = spec.lines().find_map(|line| line.strip_prefix("epsilon = ")).unwrap();
        let epsilon: f64 = line.trim_matches('"').parse().unwrap();
        // The next smaller epsilon of two digits is not enough.
        let below = epsilon - if epsilon < 0.1 { 0.001 } else { 0.01 };
        assert!(error(&format!("--epsilon {below:.3}")) > target, "{target} {epsilon}");
    }
    let few = "--row user --trust device --domain 8 --counters --window 100 --population 20 --error 0.01";
    assert_refused(&run_in(&folder, &format!("new {few} --output few.toml")), "--error 0.01 cannot be reached");
    assert!(!folder.join("few.toml").exists());
}

#[test]
fn hopeless_answers_are_warned_of() {
    let folder = folder("hopeless");
    let options = "--row user --trust curator --domain 10 --counters --window 100 --population 300 --epsilon 0.01";
    let made = run_in(&folder, &format!("new {options} --json"));
    assert!(made.status.success(), "{}", stderr(&made));
    let report: Value = serde_json::from_str(stdout(&made)).unwrap();
    let warnings = report["warnings"].as_array().unwrap();
    let warning = warnings[0].as_str().unwrap();
    assert!(warning.starts_with("epsilon 0.01 over a window of 100 gives errors of ±"), "{warning}");
    assert!(warning.contains("the average count is 30: for "), "{warning}");
    assert!(stderr(&made).contains(warning));
}

#[test]
fn a_first_line_of_data_is_not_shown() {
    let folder = folder("headless");
    fs::write(folder.join("table.csv"), "2026-03-01,secret\n2026-03-02,secret\n").unwrap();
    let options = "--row number --domain 0..9 --protects reading --every 1d --epsilon 1";
    let refused = run_in(&folder, &format!("new --table table.csv {options}"));
    assert_refused(&refused, "table.csv, line 1: it looks like data, not like names of columns: say --no-header");
    assert!(!stderr(&refused).contains("secret") && !stderr(&refused).contains("2026"), "{}", stderr(&refused));
    assert!(run_in(&folder, &format!("new --table table.csv {options} --no-header")).status.success());
}
