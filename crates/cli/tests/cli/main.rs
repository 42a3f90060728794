//! The command's tests: they run the built binary.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]

mod advise;
mod attacks;
mod audit;
mod channel;
#[cfg(unix)]
mod connectors;
mod crash;
mod dashboard;
mod demo;
mod deploy;
mod deploy_cluster;
mod device;
mod exact;
mod families;
#[path = "../../../server/tests/server/folder.rs"]
mod folder;
#[allow(dead_code)] // the device's tests use the rest
#[path = "../../../device/tests/device/http_server.rs"]
mod http_server;
mod ledger;
mod model;
mod new;
mod observable;
mod operations;
mod plot;
#[allow(dead_code)] // what only the store's tests need
#[path = "../../../server/tests/server/postgres.rs"]
mod postgres;
mod release;
mod reproduce;
mod sequences;
mod series;
mod service;
mod snapshots;
mod streams;
mod tables;
mod timeline;
mod transcripts;
mod warnings;

use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A command of the binary that finds no data directory by accident.
fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments.split_whitespace()).env_remove("TIDEGATE_DATA").stdin(Stdio::null());
    command
}

fn run(arguments: &str) -> Output {
    command(arguments).output().unwrap()
}

fn run_with_input(arguments: &str, input: &[u8]) -> Output {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments may be gone before it has read anything.
    match child.stdin.take().unwrap().write_all(input) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("{error}"),
        _ => {}
    }
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

/// Asserts that the command refuses what it was given, and says why without a result or a backtrace.
#[track_caller]
fn assert_refused(output: &Output, why: &str) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(stdout(output), "");
    assert!(message.contains(why), "{message}");
    // A note is printed once the input makes the command wait, which may be before a bad line.
    let first = message.lines().find(|line| !line.starts_with("note: "));
    assert!(first.is_some_and(|line| line.starts_with("error: ")) && !message.contains("panicked"), "{message}");
}

const SMALL: &str = "--mechanism constant --epsilon 0.5,1 --population 1000 --length 30 --repeats 3";

#[test]
fn help_names_the_subcommands_and_shows_an_example_of_each() {
    let help = run("--help");
    assert!(help.status.success());
    for subcommand in [
        "release",
        "evaluate",
        "reproduce",
        "channel",
        "data",
        "advise",
        "demo",
        "device",
        "completions",
        "manual",
        "init",
        "serve",
        "token",
        "doctor",
        "backup",
        "restore",
        "query",
    ] {
        assert!(stdout(&help).contains(subcommand));
        let help = run(&format!("{subcommand} --help"));
        assert!(help.status.success());
        assert!(stdout(&help).contains(&format!("Example:\n  tidegate {subcommand} ")), "{}", stdout(&help));
    }
    let nothing = run("");
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("Usage: tidegate"));
}

#[test]
fn the_benchmark_has_help_but_is_not_listed() {
    assert!(!stdout(&run("--help")).contains("accuracy"));
    assert!(stdout(&run("accuracy --help")).contains("Example:\n  tidegate accuracy "));
    assert_refused(&run("accuracy --part central --mechanism trak"), "there is no mechanism \"trak\"");
    let misfit = run("accuracy --part central --mechanism clamped --quick --length 5 --repeats 1");
    assert_refused(&misfit, "clamped takes streams of numbers");
}

#[test]
fn wrong_usage_is_refused() {
    let evaluate = |arguments: &str| run(&format!("evaluate {arguments}"));
    assert_refused(&evaluate("--dataset sin --mechanism constant"), "--epsilon");
    let unknown = evaluate("--dataset sin --mechanism constant,konstant --epsilon 1");
    assert_refused(&unknown, "there is no mechanism \"konstant\" (did you mean constant?); there are: ");
    assert_refused(&evaluate("--dataset snn --mechanism constant --epsilon 1"), "did you mean sin?");
    for mechanism in ["mtsp", "local.track", "central.track"] {
        let smooth = evaluate(&format!("--dataset sin --length 5 --mechanism lbu,{mechanism} --epsilon 1 --smooth"));
        assert_refused(&smooth, &format!("--smooth changes nothing for {mechanism}"));
    }
    assert_refused(&evaluate("--dataset zebra --mechanism constant --epsilon 1"), "there are: lns, sin, log");
    for (flag, value, why) in [
        ("--epsilon", "0", "epsilon must be at least 0.000000001"),
        ("--epsilon", "x", "is not a plain decimal number"),
        ("--epsilon", "1,", "is not a plain decimal number"),
        ("--window", "0", "expected a whole number, at least 1"),
        ("--repeats", "0", "expected a whole number, at least 1"),
        ("--threads", "-1", "expected a whole number, at least 1"),
        ("--epsilon", "-1", "epsilon must be at least 0.000000001"),
        ("--population", "0", "expected a whole number, at least 1"),
        ("--population", "9007199254740993", "the population must be between 1 and 9007199254740992"),
        ("--length", "1e3", "expected a whole number, at least 1"),
        ("--oracle", "magic", "there is no frequency oracle \"magic\""),
        ("--domain", "0..1", "sin has a domain of its own"),
        ("--classes", "1:20", "expected EPSILON:WINDOW:WEIGHT"),
        ("--classes", "0:20:1", "epsilon must be at least 0.000000001"),
        ("--classes", "1:0:1", "expected a whole number, at least 1"),
        ("--contribution", "0", "expected a whole number, at least 1"),
        ("--batch", "0", "expected a whole number, at least 1"),
        ("--order", "3", "3 is not in 1..=2"),
    ] {
        let epsilon = if flag == "--epsilon" { "" } else { "--epsilon 1" };
        let output = evaluate(&format!("--dataset sin --mechanism constant {epsilon} {flag} {value}"));
        assert_refused(&output, why);
    }
}

#[test]
fn data_that_cannot_be_read_is_refused() {
    let evaluate = |dataset: &str| run(&format!("evaluate --dataset {dataset} --mechanism constant --epsilon 1"));
    assert_refused(&evaluate("tdrive_counts"), "name it with --data-dir or TIDEGATE_DATA");
    assert_refused(&evaluate("no/such/file.csv"), "no/such/file.csv cannot be opened");
    assert_refused(&evaluate("tdrive_counts --data-dir no/such"), "td.csv cannot be opened");
    assert_refused(&evaluate("taobao --data-dir no/such"), "(docs/data-sets.md) says which files it must hold");
    let from_input = |input: &[u8]| run_with_input("evaluate --dataset - --mechanism constant --epsilon 1", input);
    assert_refused(&from_input(b"t,a,b\n0,1,-2\n"), "standard input, line 2, field \"b\": expected a count");
    assert_refused(&from_input(b"t,a,b\n0,1,\xff\n"), "standard input, line 2: it is not valid UTF-8");
    assert_refused(&from_input(b""), "the file is empty");
    let too_long = "evaluate --dataset - --mechanism constant --epsilon 1 --length 2";
    assert_refused(&run_with_input(too_long, b"t,a,b\n0,1,2\n"), "2 timestamps were asked for");
}

#[test]
fn json_has_an_object_for_each_choice_of_settings() {
    let output = run(&format!("evaluate --dataset sin {SMALL} --window 10,20 --seed 1 --json"));
    assert!(output.status.success(), "{}", stderr(&output));
    let entries: Value = serde_json::from_str(stdout(&output)).unwrap();
    let entries = entries.as_array().unwrap();
    let settings: Vec<_> = entries.iter().map(|entry| (entry["epsilon"].as_f64(), entry["window"].as_u64())).collect();
    let expected = [(0.5, 10), (0.5, 20), (1.0, 10), (1.0, 20)].map(|(epsilon, window)| (Some(epsilon), Some(window)));
    assert_eq!(settings, expected);
    for entry in entries {
        assert_eq!((&entry["dataset"], &entry["mechanism"]), (&"sin".into(), &"constant".into()));
        assert_eq!((entry["delay"].as_u64(), entry["repeats"].as_u64()), (Some(0), Some(3)));
        for metric in ["mse", "mae", "mre", "amre", "ajsd", "cfpu", "auc"] {
            assert!(entry[metric].is_f64(), "{metric}: {entry}");
            assert_eq!(entry[format!("{metric}_se")].as_f64(), Some(0.0), "{metric}: {entry}");
        }
        assert!(entry["seconds"].is_f64());
        assert_eq!(entry.as_object().unwrap().len(), 6 + 2 * 7 + 2);
    }
}

#[test]
fn a_stream_of_numbers_is_measured_within_its_domain() {
    let input = b"t,value\n0,10\n1,20\n2,0\n";
    let evaluate = |arguments: &str| {
        run_with_input(&format!("evaluate --dataset - --mechanism constant --epsilon 1 --seed 1 {arguments}"), input)
    };
    let table = evaluate("--domain 0..20");
    let header = "standard input: 3 timestamps, a number within 0..20 in steps of 1; mean ± standard error of 10 runs";
    assert_eq!(stdout(&table).lines().next(), Some(header), "{}", stderr(&table));
    let entries: Value = serde_json::from_str(stdout(&evaluate("--domain -20..20 --resolution 0.5 --json"))).unwrap();
    let entry = entries[0].as_object().unwrap();
    assert_eq!(entry["mae"].as_f64(), Some(10.0));
    assert_eq!(entry["mae_se"].as_f64(), Some(0.0));
    assert_eq!(entry.len(), 6 + 2 * 3 + 2, "{entry:?}");

    assert_refused(&evaluate(""), "it is never taken from the data; give it with --domain LO..HI");
    // Numbers are moved into the domain, as in a release: 10, 15 and 0, and 7.5 in their place.
    let moved: Value = serde_json::from_str(stdout(&evaluate("--domain 0..15 --json"))).unwrap();
    assert_eq!(moved[0]["mae"].as_f64(), Some((2.5 + 7.5 + 7.5) / 3.0));
    assert_refused(&evaluate("--domain 20"), "expected two numbers: LO..HI");
    assert_refused(&evaluate("--domain 20..0"), "two finite numbers in ascending order, but 20..=0 was given");
    assert_refused(&evaluate("--domain 0..20 --population 5"), "which has no users");
    assert_refused(&evaluate("--domain 0..20 --queries"), "--queries needs counts of users");
    assert_refused(&evaluate("--resolution 1"), "--domain");
    let local = "evaluate --dataset - --mechanism constant,lpa --epsilon 1 --domain 0..20";
    let why =
        "lpa takes streams of counts, but standard input is a stream of numbers; mechanisms that take it: constant";
    assert_refused(&run_with_input(local, input), why);
}

#[test]
fn queries_are_measured_where_asked_for() {
    let output = run(&format!("evaluate --dataset sin {SMALL} --seed 1 --json --queries"));
    assert!(output.status.success(), "{}", stderr(&output));
    let entries: Value = serde_json::from_str(stdout(&output)).unwrap();
    for entry in entries.as_array().unwrap() {
        let queries = ["counting_mse", "counting_mae", "counting_mre", "range_mse", "range_mae", "range_mre"];
        for metric in queries.into_iter().chain(["monitor_auc"]) {
            assert!(entry[metric].is_f64(), "{metric}: {entry}");
            assert_eq!(entry[format!("{metric}_se")].as_f64(), Some(0.0), "{metric}: {entry}");
        }
        assert_eq!(entry["monitor_auc"].as_f64(), Some(0.5), "a constant detects nothing");
        assert_eq!(entry.as_object().unwrap().len(), 6 + 2 * 14 + 2);
    }
    let table = run(&format!("evaluate --dataset sin {SMALL} --seed 1 --queries"));
    let header: Vec<&str> = stdout(&table).lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(header[header.len() - 3..], ["range_mre", "monitor_auc", "seconds"]);
}

#[test]
fn a_single_run_has_no_standard_error() {
    let output = run("evaluate --dataset sin --mechanism constant --epsilon 1 --length 5 --repeats 1 --json");
    let entries: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(entries[0]["mse_se"].is_null() && entries[0]["mse"].is_f64());
}

#[test]
fn a_seeded_run_warns_and_does_not_depend_on_the_threads() {
    let without_time = |threads: u32| -> Vec<Value> {
        let output = run(&format!("evaluate --dataset lns {SMALL} --seed 7 --threads {threads} --json"));
        assert!(stderr(&output).contains("warning: this run is seeded with 7"), "{}", stderr(&output));
        assert!(stderr(&output).contains("its output is not private"));
        let mut entries: Vec<Value> = serde_json::from_str(stdout(&output)).unwrap();
        entries.iter_mut().for_each(|entry| entry["seconds"] = Value::Null);
        entries
    };
    assert_eq!(without_time(1), without_time(2));
}

#[test]
fn an_unseeded_run_can_be_repeated_with_the_seed_that_it_names() {
    let results = |output: &Output| -> Value {
        let entries: Value = serde_json::from_str(stdout(output)).unwrap();
        entries[0]["mse"].clone()
    };
    let first = run(&format!("evaluate --dataset lns {SMALL} --json"));
    assert!(!stderr(&first).contains("warning"));
    let seed = stderr(&first).split_whitespace().nth(2).unwrap();
    let again = run(&format!("evaluate --dataset lns {SMALL} --json --seed {seed}"));
    assert_eq!(results(&first), results(&again));
    let other = run(&format!("evaluate --dataset lns {SMALL} --json"));
    assert_ne!(results(&first), results(&other), "two walks of 30 steps are never the same");
}

#[test]
fn a_table_is_aligned_plain_text() {
    let input = b"t,away,home\n0,3,1\n1,1,3\n2,2,2\n";
    let output = run_with_input("evaluate --dataset - --mechanism constant --epsilon 1 --seed 1", input);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(lines[0], "standard input: 3 timestamps, 2 values, 4 users; mean ± standard error of 10 runs");
    let (header, row) = (lines[2], lines[3]);
    assert_eq!(header.split_whitespace().next(), Some("mechanism"));
    assert!(row.starts_with("constant         1              0  0.04167 ± 0  0.1667 ± 0 "), "{row}");
    assert_eq!(header.chars().count(), row.chars().count());
    // No bar, no colour: standard error is not a terminal here.
    assert_eq!(stderr(&output).lines().count(), 1);
}

#[test]
fn the_data_sets_and_mechanisms_are_listed() {
    let text = run("data");
    assert!(text.status.success());
    let listed: Value = serde_json::from_str(stdout(&run("data --json"))).unwrap();
    for kind in ["datasets", "mechanisms"] {
        for entry in listed[kind].as_array().unwrap() {
            assert!(stdout(&text).contains(entry["name"].as_str().unwrap()));
        }
    }
    assert!(stdout(&text).contains("foursquare_lbsn2vec, foursquare "));
    assert!(stdout(&text).contains("1778 timestamps, 64 values, 3923 to 9662 users"));
    let of = |kind: &str, name: &str| {
        listed[kind].as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap().clone()
    };
    let taxis = of("datasets", "tdrive_counts");
    assert_eq!(taxis["shape"], "1778 timestamps, 64 values, 3923 to 9662 users");
    assert!(taxis["stands_in_for"].as_str().unwrap().starts_with("the papers' T-Drive streams"), "{taxis}");
    assert_eq!(of("mechanisms", "lpa")["uses"], serde_json::json!(["window", "oracle"]));
    assert!(
        stdout(&text).contains("at once, at epsilon-SIP for each of them (--batch, --order, --distance, --effort)")
    );
}

#[test]
fn options_that_change_nothing_are_warned_about() {
    let warnings = |arguments: &str| -> Vec<String> {
        let output = run(&format!("evaluate --length 30 --repeats 1 {arguments}"));
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = stderr(&output).lines().filter_map(|line| line.strip_prefix("warning: "));
        lines.map(str::to_owned).collect()
    };
    let counts = "--dataset sin --population 1000 --epsilon 1";
    let unused = warnings(&format!("{counts} --mechanism lpa,constant --delay 3 --order 2 --window 10 --oracle olh"));
    assert_eq!(unused, ["--delay changes nothing for lpa, constant", "--order changes nothing for lpa, constant"]);
    let nothing: [&str; 0] = [];
    assert_eq!(warnings(&format!("{counts} --mechanism lpa")), nothing, "what is not given is not unused");
    assert_eq!(warnings(&format!("{counts} --mechanism constant --window 10 --queries")), nothing);
    let classes = warnings(&format!("{counts} --mechanism bd --window 10 --classes 1:20:1"));
    assert_eq!(classes, ["--window changes nothing: --classes says what users require"]);
    assert_eq!(warnings(&format!("{counts} --mechanism bd,lpa --window 10 --classes 1:20:1")), nothing);
    let numbers =
        warnings("--dataset walk --epsilon 1 --mechanism clamped --within-domain --contribution 5 --window 5");
    assert_eq!(numbers, ["--window changes nothing for clamped", "--within-domain changes nothing for clamped"]);
    let symbols = "--dataset markov_90 --epsilon 1 --mechanism crr";
    assert_eq!(
        warnings(&format!("{symbols} --batch 3 --order 2 --distance absolute --effort fast")),
        ["--batch changes nothing for crr"]
    );
}

#[test]
fn the_same_twice_is_refused() {
    for (arguments, why) in [
        ("--mechanism lpa,lpa --epsilon 1", "--mechanism has lpa twice"),
        ("--mechanism lpa --epsilon 1,0.5,1.0", "--epsilon has 1 twice"),
        ("--mechanism lpa --epsilon 1 --window 5,20,5", "--window has 5 twice"),
        ("--mechanism lpa --epsilon 1 --delay 0,0", "--delay has 0 twice"),
    ] {
        assert_refused(&run(&format!("evaluate --dataset sin {arguments}")), why);
    }
}

#[test]
fn the_best_of_each_column_is_bold_where_colours_are_wanted() {
    let evaluate = |variable: &str| {
        let arguments =
            "evaluate --dataset sin --mechanism constant,lpu --epsilon 1,2 --population 10000 --length 40 --seed 1";
        let mut command = command(arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        if !variable.is_empty() {
            command.env("CLICOLOR_FORCE", "1").env(variable, "1");
        }
        command.output().unwrap()
    };
    let (plain, forced, refused) = (evaluate(""), evaluate("CLICOLOR_FORCE"), evaluate("NO_COLOR"));
    assert!(!stdout(&plain).contains('\u{1b}') && !stdout(&refused).contains('\u{1b}'));
    let lines: Vec<&str> = stdout(&forced).lines().collect();
    let bold = |line: usize| -> Vec<&str> {
        lines[line].split("\u{1b}[1m").skip(1).filter_map(|rest| rest.split("\u{1b}[0m").next()).collect()
    };
    // Of each epsilon, constant sends the fewest reports and is worse by the rest.
    assert_eq!((bold(2).len(), bold(3), bold(4)), (0, vec!["0 ± 0"], vec!["0 ± 0"]));
    assert_eq!((bold(5).len(), bold(6).len()), (6, 6));
    let without: String = stdout(&forced).replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    let header_and_names =
        |text: &str| -> Vec<String> { text.lines().map(|line| line.chars().take(60).collect()).collect() };
    assert_eq!(header_and_names(&without), header_and_names(stdout(&plain)));
}

#[test]
fn lines_of_json_are_evaluated_like_a_table() {
    let evaluate = |input: &str| {
        let output =
            run_with_input("evaluate --dataset - --mechanism constant --epsilon 1 --seed 1 --json", input.as_bytes());
        let entries: Value = serde_json::from_str(stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        entries[0]["mse"].as_f64().unwrap()
    };
    let table = evaluate("t,away,home\n0,3,1\n1,1,4\n");
    assert_eq!(evaluate("{\"t\":0,\"away\":3,\"home\":1}\n{\"t\":1,\"home\":4,\"away\":1}\n"), table);
}

#[test]
fn shells_and_man_are_told_about_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&format!("completions {shell}"));
        assert!(script.status.success(), "{}", stderr(&script));
        for word in ["evaluate", "completions", "within-domain"] {
            assert!(stdout(&script).contains(word), "{shell}: {word}");
        }
    }
    assert_refused(&run("completions tcsh"), "bash, elvish, fish, powershell, zsh");
    let page = run("manual");
    assert!(page.status.success() && stdout(&page).contains(".TH tidegate 1"), "{}", stdout(&page));
    let page = run("manual evaluate");
    assert!(stdout(&page).contains(".TH tidegate\\-evaluate 1") || stdout(&page).contains(".TH tidegate-evaluate 1"));
    assert!(stdout(&page).contains("within\\-domain"), "{}", stdout(&page));
    assert_refused(
        &run("manual evalute"),
        "there is no subcommand \"evalute\"; there are: new, release, budget, plot, evaluate",
    );
}

#[test]
fn every_synthetic_data_set_can_be_evaluated() {
    let listed: Value = serde_json::from_str(stdout(&run("data --json"))).unwrap();
    let mut kinds = Vec::new();
    for set in listed["datasets"].as_array().unwrap().iter().filter(|set| set["real"] == false) {
        let name = set["name"].as_str().unwrap();
        let output = run(&format!("evaluate --dataset {name} --mechanism constant --epsilon 1 --length 30 --json"));
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let entries: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert!(entries[0]["mse"].as_f64() > Some(0.0), "{name}: {entries}");
        kinds.push(set["kind"].as_str().unwrap().to_owned());
    }
    kinds.dedup();
    assert_eq!(kinds, ["counts", "numbers", "symbols"]);
    let output = run("evaluate --dataset markov_90 --mechanism constant --epsilon 1 --population 3 --length 30");
    let header = "markov_90: 3 users with 30 timestamps, 2 symbols; mean ± standard error of 10 runs";
    assert_eq!(stdout(&output).lines().next(), Some(header));
}

#[test]
fn sequences_are_evaluated_by_distance_order_batch_and_effort() {
    let all = "crr,crr_robust,batched,rr,oue,paper_crr_not_private";
    let options = "--distance absolute --order 2 --batch 3 --effort thorough --length 31 --repeats 2 --seed 1 --json";
    let output = run(&format!("evaluate --dataset markov_90 --mechanism {all} --epsilon 1 {options}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let entries: Value = serde_json::from_str(stdout(&output)).unwrap();
    let names: Vec<_> = entries.as_array().unwrap().iter().map(|entry| entry["mechanism"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), all);
    assert!(entries.as_array().unwrap().iter().all(|entry| entry["error_rate"].as_f64() < Some(0.9)));
    assert_refused(&run("evaluate --dataset markov_90 --mechanism crr --epsilon 1 --distance far"), "--distance");
    // Epsilon for each symbol of a batch is more than a channel can be set to; a note about the seed comes first.
    let too_much = run("evaluate --dataset markov_90 --mechanism batched --batch 11 --epsilon 1 --length 30");
    assert_eq!(too_much.status.code(), Some(2));
    assert!(stderr(&too_much).contains("epsilon 11 is outside"), "{}", stderr(&too_much));
}

#[test]
fn a_result_file_is_written_whole_or_not_at_all() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("output");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("result.json");
    let evaluate = |dataset: &str| {
        run(&format!("evaluate --dataset {dataset} {SMALL} --seed 1 --json --output {}", file.display()))
    };
    assert_refused(&evaluate("no/such/file.csv"), "cannot be opened");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let output = evaluate("sin");
    assert!(output.status.success() && stdout(&output).is_empty(), "{}", stderr(&output));
    let entries: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(entries.as_array().unwrap().len(), 2);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let nowhere = run(&format!("evaluate --dataset sin {SMALL} --output {}", folder.join("no/such").display()));
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("such cannot be written: "), "{}", stderr(&nowhere));
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let mut child = command("data").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command("data").stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: standard output cannot be written"));
}

#[test]
fn a_state_is_not_written_over_whatever_its_path_is_called() {
    let folder = std::env::temp_dir().join(format!("tidegate-places-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/central.toml");
    for output in [
        format!("{folder}/./s"),
        format!("{folder}/.s.lock"),
        format!("{folder}/../{}/s", &folder[folder.rfind('/').unwrap() + 1..]),
    ] {
        let given = format!("release --spec {spec} --input - --state {folder}/s --output {output}");
        assert_refused(&run(&given), "state and key must be files of their own");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", format!("{folder}/link")).unwrap();
        let given = format!("release --spec {spec} --input - --state {folder}/link");
        assert_refused(&run(&given), "is a link that leads nowhere");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
