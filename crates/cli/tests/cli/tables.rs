//! Tables of one's own: dates, columns, repeated lines. What is refused is in `snapshots/tables.trycmd`.

use std::path::PathBuf;

use serde_json::Value;

use super::{assert_refused, run, run_with_input, stderr, stdout};

const NUMBERS: &str = "release --mechanism laplace --epsilon 1 --domain 0..612 --protects reading --seed 5";

/// Text written about the releases of an input, without the warning of the seed.
#[track_caller]
fn released(arguments: &str, input: &str) -> Vec<String> {
    let output = run_with_input(arguments, input.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(str::to_owned).collect()
}

/// The first fields of each line.
fn first(lines: &[String], fields: usize) -> Vec<String> {
    lines.iter().map(|line| line.split(',').take(fields).collect::<Vec<_>>().join(",")).collect()
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-tables-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_table_of_dates_is_released_like_its_counters() {
    let counters = released(NUMBERS, "t,value\n0,240\n1,238\n3,\n");
    let dated = "visits,place,date\n240,a,2026-03-01\n238,b,2026-03-02\n,c,2026-03-04\n";
    let options = "--time date --value visits --every 1d --origin 2026-03-01";
    let dates = released(&format!("{NUMBERS} {options}"), dated);
    assert_eq!(first(&dates, 2), ["t,time", "0,2026-03-01", "1,2026-03-02", "3,2026-03-04"]);
    let without_times: Vec<String> = dates
        .iter()
        .map(|line| line.split(',').enumerate().filter(|(place, _)| *place != 1).map(|(_, cell)| cell))
        .map(|cells| cells.collect::<Vec<_>>().join(","))
        .collect();
    assert_eq!(without_times, counters);
    let json = "{\"date\":\"2026-03-01\",\"visits\":240,\"more\":[1]}\n{\"visits\":238,\"date\":\"2026-03-02\"}\n\
                {\"date\":\"2026-03-04\"}\n";
    assert_eq!(released(&format!("{NUMBERS} {options} --format ndjson"), json).len(), 3);
    let headless = released(&format!("{NUMBERS} --no-header --value 1 --time 2"), "240,0\n238,1\n,3\n");
    assert_eq!(headless, counters);
}

#[test]
fn times_keep_their_form_and_offset() {
    for (every, times, expected) in [
        (
            "1h",
            ["2026-03-01T09:30+01:00", "2026-03-01T11:00+01:00"],
            ["2026-03-01T09:00+01:00", "2026-03-01T11:00+01:00"],
        ),
        ("15m", ["2026-03-01 09:31:10Z", "2026-03-01 09:45:00Z"], ["2026-03-01 09:30:00Z", "2026-03-01 09:45:00Z"]),
        ("1d", ["1772323205", "1772409600"], ["1772323200", "1772409600"]),
        ("1d", ["1772323205000", "1772409600000"], ["1772323200000", "1772409600000"]),
        ("1w", ["2026-03-04", "2026-03-09"], ["2026-03-02", "2026-03-09"]),
    ] {
        let lines =
            released(&format!("{NUMBERS} --every {every}"), &format!("t,value\n{},1\n{},2\n", times[0], times[1]));
        let found: Vec<&str> = lines[1..].iter().map(|line| line.split(',').nth(1).unwrap()).collect();
        assert_eq!(found, expected, "{every}");
    }
}

/// Ten days of delay are ten timestamps, so that days far apart in seconds are grouped.
#[test]
fn a_delay_counts_days() {
    let arguments = "release --mechanism contin --epsilon 1 --domain 0..612 --protects reading --delay 2 --every 1d";
    let lines: String = (0..6).map(|day| format!("{},240\n", 1_772_323_200 + 86_400 * day)).collect();
    let lines = released(arguments, &format!("t,value\n{lines}"));
    let variances: Vec<&str> = lines[1..].iter().map(|line| line.split(',').nth(3).unwrap()).collect();
    assert_eq!(variances.len(), 6);
    let seconds = "release --mechanism contin --epsilon 1 --domain 0..612 --protects reading --delay 2";
    assert_refused(&run_with_input(seconds, b"t,value\n1772323200,240\n"), "looks like seconds since 1970");
    // Whoever declares such timestamps means them.
    let alone = released(
        "release --mechanism laplace --epsilon 1 --domain 0..612 --protects reading",
        "t,value\n1772323200,240\n",
    );
    assert_eq!(first(&alone[1..], 1), ["1772323200"]);
}

#[test]
fn which_of_several_lines_counts_is_said() {
    let folder = folder("duplicates");
    let spec = folder.join("stream.toml");
    let text = "mechanism = \"central.uniform\"\nepsilon = 1000\nwindow = 1\ndomain = [\"home\", \"shop\"]\n\
                every = \"1d\"\norigin = \"2026-03-01\"\n";
    std::fs::write(&spec, text).unwrap();
    let input =
        "t,user,value\n2026-03-01,a,home\n2026-03-01,b,home\n2026-03-01,a,shop\n2026-03-01,c,\n2026-03-02,a,home\n";
    let counts = |options: &str| -> Vec<String> {
        let lines = released(&format!("release --spec {} --skip-empty {options}", spec.display()), input);
        let counts = lines[1..].iter().map(|line| line.split(',').nth(3).unwrap().parse::<f64>().unwrap().round());
        counts.map(|count| (count + 0.0).to_string()).collect()
    };
    assert_eq!(counts("--duplicates first"), ["2", "0", "1", "0"]);
    assert_eq!(counts("--duplicates last"), ["1", "1", "1", "0"]);
    let lasts = released(&format!("{NUMBERS} --every 1d --duplicates last"), "t,value\n1,1\n2,2\n86400,3\n");
    let firsts = released(&format!("{NUMBERS} --every 1d --duplicates first"), "t,value\n1,2\n2,1\n86400,3\n86401,9\n");
    assert_eq!(lasts, firsts, "2 and 3 count in both");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_date_before_the_last_of_the_state_is_refused() {
    let folder = folder("state");
    let (state, key) = (folder.join("stream.state"), folder.join("stream.key"));
    let arguments = format!(
        "release --mechanism laplace --epsilon 1 --domain 0..612 --protects reading --every 1d --state {} --key {}",
        state.display(),
        key.display()
    );
    released(&format!("{arguments} --new-state --time day"), "day,value\n2026-03-01,1\n2026-03-02,2\n");
    let again = run_with_input(&arguments, b"t,value\n2026-03-02,3\n");
    assert_refused(&again, "line 2, field \"t\": expected a time after 2026-03-02, with which the last run ended");
    let other = run_with_input(&arguments.replace("1d", "1h"), b"t,value\n2026-03-03T00:00,3\n");
    assert_refused(&other, "it is the state of another spec");
    assert_eq!(released(&arguments, "t,value\n2026-03-03,3\n").len(), 2);
    std::fs::remove_dir_all(folder).unwrap();
}

/// With another offset, times fall into other timestamps, so that one person may be in more of them than the budget
/// knows of.
#[test]
fn the_state_keeps_the_offset_of_times() {
    let folder = folder("offset");
    let spec = folder.join("stream.toml");
    let text = "mechanism = \"central.uniform\"\nepsilon = 1\nwindow = 7\ndomain = [\"home\", \"shop\"]\n\
                every = \"1d\"\norigin = \"2026-03-01\"\n";
    std::fs::write(&spec, text).unwrap();
    let arguments = format!("release --spec {} --state {}", spec.display(), folder.join("stream.state").display());
    let first = "t,user,value\n2026-03-01T23:30+01:00,ann,home\n";
    released(&format!("{arguments} --new-state"), first);
    for time in ["2026-03-02T08:00Z", "2026-03-02T08:00", "2026-03-02", "1772438400"] {
        let other = run_with_input(&arguments, format!("t,user,value\n{time},ann,home\n").as_bytes());
        let why = "line 2, field \"t\": expected the offset from UTC of the last run, +01:00: with another one, times \
                   would fall into other timestamps of the same budget; convert all times to it";
        assert_refused(&other, why);
    }
    let through = run_with_input(&format!("{arguments} --through 2026-03-05T00:00Z"), b"t,user,value\n");
    assert_refused(&through, "--through: expected the offset from UTC of the last run, +01:00");
    // A run without times keeps it.
    released(&format!("{arguments} --through 2026-03-02T00:00+01:00"), "t,user,value\n");
    assert_refused(
        &run_with_input(&arguments, b"t,user,value\n2026-03-03T08:00Z,ann,home\n"),
        "of the last run, +01:00",
    );
    released(&arguments, "t,user,value\n2026-03-03 08:00:00+0100,ann,home\n");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn months_are_timestamps() {
    let months = released(&format!("{NUMBERS} --every 1mo"), "t,value\n2026-01-31,1\n2026-02-28,2\n2026-04-01,3\n");
    assert_eq!(first(&months[1..], 2), ["672,2026-01-01", "673,2026-02-01", "675,2026-04-01"]);
    let folder = folder("months");
    let spec = folder.join("stream.toml");
    let text = "mechanism = \"central.uniform\"\nepsilon = 1\nwindow = 12\ndomain = [\"home\", \"shop\"]\n\
                every = \"1 month\"\norigin = \"2026-01-01\"\n";
    std::fs::write(&spec, text).unwrap();
    let lines = "t,user,value\n2026-01-31T23:59Z,ann,home\n2026-03-01T00:00Z,ann,home\n";
    let months = released(&format!("release --spec {} --through 2026-04-30T00:00Z", spec.display()), lines);
    let times: Vec<String> = first(&months[1..], 2).into_iter().step_by(2).collect();
    let expected =
        ["0,2026-01-01T00:00Z", "1,2026-02-01T00:00Z", "2,2026-03-01T00:00Z", "3,2026-04-01T00:00Z"].map(str::to_owned);
    assert_eq!(times, expected);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_example_of_a_table_is_a_spec() {
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/table.toml");
    let input = "date,uid,page,device\n2026-03-01T09:12:44+01:00,u17,home,phone\n2026-03-01T09:13:02+01:00,u4,shop,x\n";
    let lines = released(&format!("release --spec {spec} --through 2026-03-02T00:00+01:00"), input);
    assert_eq!(lines.len(), 1 + 2 * 3);
    assert!(lines[1].starts_with("0,2026-03-01T00:00:00+01:00,home,"), "{}", lines[1]);
}

#[test]
fn evaluate_reads_what_release_reads() {
    let measured = |arguments: &str, input: &str| -> Value {
        let arguments = format!("evaluate --dataset - --epsilon 1 --repeats 2 --seed 1 --json {arguments}");
        let output = run_with_input(&arguments, input.as_bytes());
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
        serde_json::from_str(stdout(&output)).unwrap()
    };
    let dated = "day,who,where\n2026-03-01,a,home\n2026-03-01,b,shop\n2026-03-03,a,home\n";
    let columns = "--time day --user who --value where --every 1d --values home,shop";
    let counted = "t,home,shop\n0,1,1\n1,0,0\n2,1,0\n";
    let long = measured(&format!("--mechanism uniform,constant {columns}"), dated);
    let wide = measured("--mechanism uniform,constant", counted);
    assert_eq!(long[0]["mse"], wide[0]["mse"]);
    assert_eq!(long[1]["mae"], wide[1]["mae"]);
    let symbols = measured(&format!("--mechanism rr {columns}"), dated);
    assert!(symbols[0]["error_rate"].is_f64(), "{symbols}");
    assert!(measured("--mechanism uniform", "t,visits\n0,3\n1,0\n")[0]["mae"].is_f64());
    let numbers = "date,n\n2026-03-01,\n2026-03-02,70000\n2026-03-04,10.2\n";
    let numbers = measured("--mechanism constant --domain 0..100 --time date --value n --every 1d", numbers);
    // 0, 100 and 10, and always 50 in their place.
    assert_eq!(numbers[0]["mae"].as_f64(), Some((50.0 + 50.0 + 40.0) / 3.0));
    assert!(measured("--mechanism lpa --window 2", counted)[0]["mse"].is_f64());
}

#[test]
fn parameters_of_mechanisms_change_results() {
    let mse = |arguments: &str| {
        let output = run(&format!("evaluate --epsilon 1 --repeats 2 --seed 1 --json {arguments}"));
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
        assert!(!stderr(&output).contains("changes nothing"), "{arguments}: {}", stderr(&output));
        let found: Value = serde_json::from_str(stdout(&output)).unwrap();
        found[0]["mse"].as_f64().unwrap()
    };
    let numbers = "--dataset walk --length 100";
    let counts = "--dataset sin --population 1000 --length 40";
    for (arguments, option) in [
        (format!("{counts} --mechanism uniform"), "--neighbours replace"),
        (format!("{counts} --mechanism lpd"), "--reuse"),
        (format!("{counts} --mechanism mtsp"), "--smoother median"),
        (format!("{numbers} --mechanism contin --delay 10"), "--threshold 1"),
        (format!("{numbers} --mechanism bucorder"), "--buckets 3"),
        (format!("{numbers} --mechanism laplace_truncated"), "--truncation 2:60"),
    ] {
        assert_ne!(mse(&arguments), mse(&format!("{arguments} {option}")), "{arguments} {option}");
    }
    let unused = run(&format!("evaluate --epsilon 1 --repeats 1 --seed 1 {counts} --mechanism uniform --buckets 3"));
    assert!(stderr(&unused).contains("warning: --buckets changes nothing for uniform"), "{}", stderr(&unused));
}

#[test]
fn separators_are_read_as_the_first_line_tells() {
    let commas = released(NUMBERS, "t,value\n0,240\n1,238\n");
    for separator in [";", "\t"] {
        let table = "t,value\n0,240\n1,238\n".replace(',', separator);
        assert_eq!(released(NUMBERS, &table), commas, "{separator:?}");
        let headless = format!("{NUMBERS} --no-header");
        assert_eq!(released(&headless, table.split_once('\n').unwrap().1), commas, "{separator:?}");
    }
    // What is quoted separates nothing; what is named is not guessed.
    let quoted = "t,value,\"a;b\"\n0,240,\"x\ty\"\n1,238,z\n";
    assert_eq!(released(NUMBERS, quoted), commas);
    let bars = "t|value|a;b,c\n0|240|x\n1|238|z\n";
    assert_eq!(released(&format!("{NUMBERS} --separator |"), bars), commas);
    let piece = "é".repeat(5_000);
    let long = format!("\n\nt;value;{piece}\n0;240;x\n1;238;z\n");
    assert_eq!(released(NUMBERS, &long), commas, "a first line of several pieces");
}
