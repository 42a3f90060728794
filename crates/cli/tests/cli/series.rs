//! Several series in one table. What is refused is in `snapshots/series.trycmd`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{assert_refused, run, stderr, stdout};

const USERS: &str = "mechanism = \"central.uniform\"\nepsilon = 1.0\nwindow = 4\ndomain = [\"car\", \"bicycle\"]\n\
                     series = \"place\"\nseries_names = [\"bridge\", \"market\"]\nacross_series = 2\n";

/// A folder with a spec and two days of a table: ann is at both places, bob at the market.
fn folder(name: &str, spec: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("series-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("spec.toml"), spec).unwrap();
    for (day, timestamps) in [("one", 0..5), ("two", 5..8)] {
        let lines = timestamps.map(|t| format!("{t},bridge,ann,car\n{t},market,ann,car\n{t},market,bob,bicycle\n"));
        fs::write(path.join(format!("{day}.csv")), format!("t,place,user,value\n{}", lines.collect::<String>()))
            .unwrap();
    }
    path
}

#[track_caller]
fn released(folder: &Path, day: &str, more: &str) -> String {
    let path = folder.display();
    let files = format!("--spec {path}/spec.toml --input {path}/{day}.csv --output {path}/{day}-released.csv");
    let output = run(&format!("release {files} --state {path}/state {more}"));
    assert!(output.status.success(), "{}", stderr(&output));
    fs::read_to_string(folder.join(format!("{day}-released.csv"))).unwrap()
}

/// What each series spent at each timestamp, in millionths.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // millionths of a small number
fn spends(table: &str) -> BTreeMap<(u64, String), u64> {
    let mut spends = BTreeMap::new();
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let spent: f64 = cells[6].parse().unwrap();
        spends.insert((cells[0].parse().unwrap(), cells[1].to_owned()), (1e6 * spent).round() as u64);
    }
    spends
}

#[test]
fn two_runs_of_two_series_share_one_state() {
    let folder = folder("runs", USERS);
    let path = folder.display();
    let one = released(&folder, "one", "--new-state --through 4");
    assert!(one.starts_with("t,series,value,count,variance,freshness,spent,seeded\n0,bridge,car,"), "{one}");
    let two = released(&folder, "two", "--through 7");
    let mut all = spends(&one);
    all.extend(spends(&two));
    assert_eq!(all.len(), 2 * 8, "both series are released at all timestamps");
    // Ann is in both series. Within any window, across the runs too, she spends the spec's epsilon and not more.
    for first in 0..5 {
        let spent: u64 = all.iter().filter(|((t, _), _)| (first..first + 4).contains(t)).map(|(_, spent)| spent).sum();
        assert_eq!(spent, 1_000_000, "from timestamp {first} on");
    }
    let budget: Value = serde_json::from_str(stdout(&run(&format!("budget {path}/state --json")))).unwrap();
    assert_eq!((&budget["across_series"], &budget["series"][1]["series"]), (&2.into(), &"market".into()));
    for series in 0..2 {
        let of_series = &budget["series"][series];
        assert_eq!((&of_series["last"], &of_series["budgets"][0]["epsilon"]), (&7.into(), &0.5.into()), "{budget}");
        assert_eq!(of_series["budgets"][0]["spent"], 0.375, "three of four timestamps");
    }
    let words = run(&format!("budget {path}/state"));
    assert!(stdout(&words).contains("\nmarket  everyone       4      0.5  0.375  0.125"), "{}", stdout(&words));
    let again = format!("release --spec {path}/spec.toml --input {path}/two.csv --state {path}/state");
    assert_refused(&run(&again), "expected a timestamp after 7, with which the last run ended");
}

#[test]
fn a_series_that_appears_late_is_declared_and_begins_then() {
    let folder = folder("late", USERS);
    let path = folder.display();
    released(&folder, "one", "--new-state --through 4");
    let state = fs::read(folder.join("state")).unwrap();
    let table = fs::read_to_string(folder.join("two.csv")).unwrap();
    fs::write(folder.join("two.csv"), table.replace("6,market,bob", "6,station,bob")).unwrap();
    let files = format!("--spec {path}/spec.toml --input {path}/two.csv --output {path}/two-released.csv");
    let refused = run(&format!("release {files} --state {path}/state --through 7"));
    assert_refused(&refused, "two.csv, line 7, field \"place\": expected a series that the spec declares");
    assert!(!stderr(&refused).contains("station"));
    assert_eq!(fs::read(folder.join("state")).unwrap(), state, "a rejected line leaves the state as it was");
    fs::write(folder.join("spec.toml"), USERS.replace("\"market\"", "\"market\", \"station\"")).unwrap();
    let two = released(&folder, "two", "--through 7");
    assert_eq!(two.lines().filter(|line| line.contains(",station,")).count(), 2 * 3);
    fs::write(folder.join("spec.toml"), USERS).unwrap();
    let files = files.replace("two-released", "three-released");
    let fewer = run(&format!("release {files} --state {path}/state"));
    assert_refused(&fewer, "it is the state of another spec");
}

#[test]
fn numbers_have_a_budget_and_a_delay_in_each_series() {
    let folder = folder(
        "numbers",
        "mechanism = \"scalar.contin\"\nepsilon = 1.0\ndelay = 2\nprotects = \"reading\"\n\
         domain = { low = 0, high = 100 }\nseries_names = [\"a\", \"b, or c\"]\nacross_series = 1\n",
    );
    let table = "when,value,sensor\n0,1,a\n0,90,\"b, or c\"\n1,2,a\n1,91,\"b, or c\"\n2,3,a\n4,92,\"b, or c\"\n";
    fs::write(folder.join("one.csv"), table).unwrap();
    let one =
        released(&folder, "one", &format!("--new-state --key {}/key --series sensor --time when", folder.display()));
    let mut found: Vec<&str> = one.lines().skip(1).map(|line| line.rsplitn(6, ',').nth(5).unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["0,\"b, or c\"", "0,a", "1,\"b, or c\"", "1,a", "2,a", "4,\"b, or c\""]);
    let output = run(&format!(
        "release --spec {0}/spec.toml --input {0}/one.csv --series sensor --time when --json --seed 1",
        folder.display()
    ));
    let first: Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    assert!(first["series"] == "a" || first["series"] == "b, or c", "{first}");
}

#[test]
fn counts_and_lines_of_json_have_series_too() {
    let folder = folder("counts", &USERS.replace("central.uniform", "central.ba"));
    let path = folder.display();
    let wide = "car,t,place,bicycle\n5,0,market,6\n7,1,market,8\n3,1,bridge,4\n";
    let json = "{\"place\":\"market\",\"t\":0,\"bicycle\":6,\"car\":5}\n{\"t\":1,\"place\":\"market\",\"bicycle\":8,\
                \"car\":7}\n{\"t\":1,\"place\":\"bridge\",\"bicycle\":4,\"car\":3}\n";
    let mut outputs = Vec::new();
    for (file, content) in [("wide.csv", wide), ("wide.ndjson", json)] {
        fs::write(folder.join(file), content).unwrap();
        let output =
            run(&format!("release --spec {path}/spec.toml --input {path}/{file} --seed 4 --format {}", &file[5..]));
        assert!(output.status.success(), "{}", stderr(&output));
        outputs.push(stdout(&output).lines().filter(|line| !line.starts_with("t,")).count());
    }
    assert_eq!(outputs, [8, 8], "two series, two timestamps and two values: also where the bridge has no line");
}

#[test]
fn the_last_line_of_each_series_counts() {
    let spec = "mechanism = \"scalar.laplace\"\nepsilon = 1000\nprotects = \"reading\"\nduplicates = \"last\"\n\
                domain = { low = 0, high = 100 }\nseries_names = [\"a\", \"b\"]\nacross_series = 1\n";
    let folder = folder("last", spec);
    fs::write(folder.join("one.csv"), "t,series,value\n0,a,1\n0,b,50\n0,a,2\n1,b,60\n1,b,70\n").unwrap();
    let output = run(&format!("release --spec {0}/spec.toml --input {0}/one.csv --seed 1", folder.display()));
    let lines: Vec<String> =
        stdout(&output).lines().map(|line| line.split(',').take(3).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(lines, ["t,series,value", "0,a,2", "0,b,50", "1,b,70"], "{}", stderr(&output));
}

#[test]
fn a_chart_has_a_panel_for_each_series() {
    let folder = folder("plot", USERS);
    let path = folder.display();
    released(&folder, "one", &format!("--new-state --through 4 --plot {path}/chart.svg"));
    let chart = fs::read_to_string(folder.join("chart.svg")).unwrap();
    for panel in ["bridge: car", "bridge: bicycle", "market: car", "market: bicycle"] {
        assert!(chart.contains(panel), "{panel}");
    }
    let of_one = run(&format!("plot {path}/one-released.csv --series market --ascii"));
    assert!(stdout(&of_one).contains("\ncar\n") && !stdout(&of_one).contains("bridge"), "{}", stdout(&of_one));
    let unknown = run(&format!("plot {path}/one-released.csv --series markt"));
    assert_refused(&unknown, "there is no series \"markt\" (did you mean market?); there are: bridge, market");
}
