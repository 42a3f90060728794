//! `tidegate release`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Output, Stdio};

use serde_json::Value;

use crate::{assert_refused, command, run, run_with_input, stderr, stdout};

/// The note on every stream of numbers from 0 on.
const STAND_IN: &str = "note: a cell that is no plain number (46,842; n/a) counts as 0, the domain's missing\n";

const SPEC: &str = "family = \"scalar\"\nmechanism = \"contin\"\nepsilon = 1.0\ndomain = { low = 0, high = 612 }\n\
                 protects = \"reading\"\n";

/// An empty directory of the test's own.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Releases readings by a spec of this text.
fn release_by(name: &str, spec: impl AsRef<[u8]>, input: &[u8], options: &str) -> Output {
    let file = directory(name).join("stream.toml");
    std::fs::write(&file, spec).unwrap();
    run_with_input(&format!("release --spec {} {options}", file.display()), input)
}

/// Timestamp, value and variance, which is NaN where it is empty.
fn fields(line: &str) -> Vec<f64> {
    let number = |field: &str| if field.is_empty() { f64::NAN } else { field.parse().unwrap() };
    line.split(',').take(3).map(number).collect()
}

fn spawn(arguments: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = command(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn feed(child: &mut Child, lines: &str) {
    child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
}

fn next_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn every_reading_is_released_once_and_in_order() {
    let input: String = std::iter::once("t,value\n".to_owned())
        .chain((0..50).map(|step| format!("{},{}\n", step * 3, step * 7 % 600)))
        .collect();
    for mechanism in ["constant", "laplace", "pegasus", "pegasus_delay", "contin", "discontin", "comporder", "bucorder"]
    {
        let output = run_with_input(
            &format!("release --mechanism {mechanism} --epsilon 1 --domain 0..612 --protects contributor=1 --delay 4"),
            input.as_bytes(),
        );
        assert!(output.status.success() && !stderr(&output).contains("error"), "{mechanism}: {}", stderr(&output));
        let mut lines = stdout(&output).lines();
        assert_eq!(lines.next(), Some("t,value,variance,freshness,spent,seeded"));
        let timestamps: Vec<f64> = lines.map(|line| fields(line)[0]).collect();
        assert_eq!(timestamps, (0..50).map(|step| f64::from(step * 3)).collect::<Vec<_>>(), "{mechanism}");
    }
}

#[test]
fn the_example_in_the_repository_is_a_spec_that_names_every_key() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scalar.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for key in tidegate::spec::ScalarSpec::KEYS {
        let names = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
        assert!(text.lines().any(names), "{key}");
    }
    let output = run_with_input(&format!("release --spec {}", file.display()), b"t,value\n0,240\n1,238\n");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 3);
    // With every key that has an example of its own, where they go together.
    let all = text.replace("mechanism = \"track\"", "mechanism = \"contin\"");
    let all = all.replace("\nprotects = { contributor = 1 }", "\nprotects = \"reading\"");
    let all = ["outside", "grouping", "threshold", "publication", "smoother", "buckets", "within_domain", "truncation"]
        .iter()
        .fold(all, |text, key| text.replace(&format!("# {key} = "), &format!("{key} = ")));
    let output = release_by("example", all, b"t,value\n0,240\n1,238\n", "");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 3);
}

#[test]
fn the_spec_in_the_help_is_one() {
    let help = run("release --help");
    let spec = stdout(&help).split_once("A spec:\n\n").unwrap().1.split_once("\n\n").unwrap().0;
    let output = release_by("help", spec, b"t,value\n0,240\n", "");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn bad_lines_are_refused_with_their_line_and_field_and_leave_no_file() {
    let folder = directory("bad");
    let file = folder.join("released.csv");
    let arguments = format!(
        "release --mechanism contin --epsilon 1 --domain 0..612 --protects contributor=1 --delay 1 --output {}",
        file.display()
    );
    for (input, why) in [
        (&b""[..], "standard input, line 1: the file is empty"),
        (b"t,v\n0,1\n", "line 1: it has no column \"value\": name the column of values with --value NAME"),
        (b"t,value\n-1,1\n", "line 2, field \"t\": expected a timestamp: a whole number, zero or more"),
        (b"t,value\n99999999999999999999,1\n", "line 2, field \"t\": expected a timestamp"),
        (b"t,value\n5,1\n5,1\n", "line 3, field \"t\": expected a timestamp that is later than the last"),
        (b"t,value\n5,1\n4,1\n", "line 3, field \"t\": expected a timestamp that is not before the last: sort"),
        (b"t,value\n0,1\n1", "line 3: it has 1 fields, but 2 are expected"),
        (b"t,value\n0,1\n1,\xff\n", "line 3: it is not valid UTF-8"),
    ] {
        assert_refused(&run_with_input(&arguments, input), why);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{why}");
    }
    let output = run_with_input(&arguments, b"t,value\n0,1\n1,2\n2,3");
    assert!(output.status.success() && stdout(&output).is_empty(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 4);
    assert_refused(
        &run("release --mechanism laplace --epsilon 1 --domain 0..1 --protects contributor=1 --input no/such.csv"),
        "cannot be opened",
    );
}

#[test]
fn what_is_wrong_with_a_spec_is_said_with_line_and_key() {
    let with = |line: &str| format!("{SPEC}{line}\n");
    for (spec, why) in [
        (String::new(), "stream.toml: it has no key family; families: local, central, scalar, sequence"),
        (
            "family = \"sclar\"".to_owned(),
            "line 1, key \"family\": there is no family \"sclar\" (did you mean scalar?)",
        ),
        ("family = 3".to_owned(), "line 1, key \"family\": there is no family"),
        ("\nfamily = ".to_owned(), "stream.toml, line 2: "),
        ("family = \"scalar\"\nmechanism = \"contin\"".to_owned(), "stream.toml: the key epsilon is missing"),
        (
            SPEC.replace("contin", "continn"),
            "line 2, key \"mechanism\": there is no scalar mechanism \"continn\" (did you mean contin?)",
        ),
        (SPEC.replace("\"contin\"", "7"), "line 2, key \"mechanism\": "),
        (SPEC.replace("1.0", "0"), "line 3, key \"epsilon\": epsilon must be at least 0.000000001"),
        (
            SPEC.replace("high", "hihg"),
            "line 4: there is no key \"hihg\" (did you mean high?); there are: low, high, resolution",
        ),
        (SPEC.replace("612", "-1"), "line 4, key \"domain\": a domain must be two finite numbers"),
        (SPEC.replace("= 0", "= 0.5"), "line 4, key \"domain\": without a resolution readings are whole numbers"),
        (
            with("epsilonn = 1"),
            "line 6: there is no key \"epsilonn\" (did you mean epsilon?); there are: mechanism, epsilon",
        ),
        (with("epsilon = 1"), "line 6: this key is given twice"),
        (with("delay = -1"), "line 6, key \"delay\": expected a whole number, 0 or more, but -1 was given"),
        (with("\n[truncation]\nevery = 1\npercnt = 3"), "line 9: there is no key \"percnt\" (did you mean percent?)"),
        (with("truncation = { every = 1, percent = 100 }"), "line 6, key \"truncation\": a sample of 100 per cent"),
        (with("publication = \"labels\""), "line 6, key \"publication\": contin does not publish labels"),
        (
            with("publication = \"lables\""),
            "line 6, key \"publication\": there is no \"lables\" (did you mean labels?)",
        ),
        (with("grouping = 1"), "line 6, key \"grouping\": a share of 1 for grouping"),
        (with("threshold = nan"), "line 6, key \"threshold\": a threshold of NaN was given"),
        (
            SPEC.replace("\"reading\"", "{ contributor = 0.5 }"),
            "line 5, key \"protects\": a contributor changes a reading by at least 1",
        ),
        (
            SPEC.replace("\"reading\"", "{ contribtor = 1 }"),
            "line 5: there is no key \"contribtor\" (did you mean contributor?)",
        ),
        (
            SPEC.replace("protects = \"reading\"\n", ""),
            "stream.toml: the key protects is missing: protects = \"reading\" hides",
        ),
        (with("outside = \"clip\""), "line 6, key \"outside\": expected \"clamp\", or nothing"),
        (with("outside = \"refuse\""), "because refusing it would tell that it was outside"),
    ] {
        assert_refused(&release_by("spec_errors", &spec, b"t,value\n0,1\n", ""), why);
    }
    let not_text = release_by("spec_errors", b"family = \"scalar\"\nmechanism = \"\xff\"", b"", "");
    assert_refused(&not_text, "stream.toml, line 2: it is not valid UTF-8");
    assert_refused(&run("release --spec no/such.toml"), "no/such.toml cannot be opened");
    assert_refused(&run("release --spec -"), "spec and readings cannot both come from standard input");
    assert_refused(&run("release"), "--spec");
    assert_refused(&run("release --mechanism contin --epsilon 1"), "--domain");
    assert_refused(&run("release --spec x.toml --mechanism contin --epsilon 1 --domain 0..1"), "cannot be used with");
    assert_refused(
        &run("release --mechanism contin --epsilon 1 --domain 0..1"),
        "--protects is missing: --protects reading hides the whole number",
    );
    let unknown = run("release --mechanism lap --epsilon 1 --domain 0..1 --protects contributor=1");
    assert_refused(&unknown, "there is no scalar mechanism \"lap\" (did you mean laplace?)");
}

#[test]
fn options_say_the_same_as_a_spec() {
    let input = b"t,value\n0,240\n1,238\n2,239\n";
    let by_spec = release_by("same", format!("{SPEC}delay = 1\n"), input, "--seed 3");
    let by_options = run_with_input(
        "release --mechanism contin --epsilon 1 --domain 0..612 --protects reading --delay 1 --seed 3",
        input,
    );
    assert!(stderr(&by_spec).starts_with("warning: this run is seeded with 3: "), "{}", stderr(&by_spec));
    assert!(stderr(&by_spec).contains("is not private"));
    assert_eq!(stdout(&by_spec), stdout(&by_options));
    let unseeded = || {
        run_with_input(
            "release --mechanism laplace --epsilon 0.01 --domain 0..61200000 --protects contributor=10000",
            input,
        )
    };
    let (first, second) = (unseeded(), unseeded());
    assert_eq!(stderr(&first), STAND_IN);
    assert_ne!(stdout(&first), stdout(&second), "three numbers out of billions are never the same");
}

#[test]
fn json_has_an_object_a_line() {
    let input = b"t,value\n7,240\n9,238\n";
    for (mechanism, is_stated) in [("laplace", true), ("contin", false)] {
        let output = release_by("json", SPEC.replace("contin", mechanism), input, "--json");
        let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["t"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 9]);
        for line in lines {
            assert!(line["value"].is_f64());
            assert_eq!(line["variance"].as_f64().is_some_and(|variance| variance > 0.0), is_stated);
            assert_eq!(line["variance"].is_null(), !is_stated);
            assert_eq!((&line["freshness"], line.as_object().unwrap().len()), (&"fresh".into(), 6));
        }
    }
}

#[test]
fn a_contributor_needs_less_noise_than_a_reading() {
    let variance = |name: &str, protects: &str, resolution: &str| {
        let spec = SPEC.replace("contin", "laplace").replace(" }", &format!("{resolution} }}"));
        let output = release_by(name, spec.replace("\"reading\"", protects), b"t,value\n0,240\n", "");
        fields(stdout(&output).lines().nth(1).unwrap_or_else(|| panic!("{}", stderr(&output))))[2]
    };
    let expected = |scale: f64| 2.0 * (-1.0 / scale).exp() / (1.0 - (-1.0 / scale).exp()).powi(2);
    let near = |given: f64, expected: f64| assert!((given / expected - 1.0).abs() < 1e-6, "{given} is not {expected}");
    near(variance("reading", "\"reading\"", ""), expected(612.0));
    near(variance("contributor", "{ contributor = 1 }", ""), expected(1.0));
    near(variance("rounded", "{ contributor = 1 }", ", resolution = 0.5"), expected(2.0) / 4.0);
}

#[test]
fn releases_leave_an_endless_pipe_as_soon_as_the_delay_allows() {
    let (mut child, mut released) =
        spawn("release --mechanism contin --epsilon 1 --domain 0..612 --protects contributor=1 --delay 2");
    feed(&mut child, "t,value\n0,240\n1,238\n2,241\n");
    assert_eq!(next_line(&mut released), "t,value,variance,freshness,spent,seeded\n");
    for timestamp in 0..3 {
        assert_eq!(fields(&next_line(&mut released))[0], f64::from(timestamp));
    }
    // A gap: what waits for what never came is released when time has passed.
    feed(&mut child, "3,240\n9,240\n");
    assert_eq!(fields(&next_line(&mut released))[0], 3.0);
    drop(child.stdin.take());
    assert_eq!(fields(&next_line(&mut released))[0], 9.0);
    assert_eq!(next_line(&mut released), "");
    assert!(child.wait().unwrap().success());

    let (mut child, mut released) =
        spawn("release --mechanism laplace --epsilon 1 --domain 0..612 --protects contributor=1");
    feed(&mut child, "t,value\n");
    for timestamp in 0..20 {
        feed(&mut child, &format!("{timestamp},5\n"));
        if timestamp == 0 {
            next_line(&mut released);
        }
        assert_eq!(fields(&next_line(&mut released))[0], f64::from(timestamp));
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_stream() {
    use std::fmt::Write as _;

    for mechanism in ["contin", "comporder"] {
        let arguments =
            format!("release --mechanism {mechanism} --epsilon 1 --domain 0..612 --protects contributor=1 --delay 20");
        let mut child = command(&arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        feed(&mut child, "t,value\n");
        let status = format!("/proc/{}/status", child.id());
        let resident = || -> u64 {
            let status = std::fs::read_to_string(&status).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let mut after = Vec::new();
        for block in 0..20 {
            let mut lines = String::new();
            (block * 10_000..(block + 1) * 10_000).for_each(|t| writeln!(lines, "{t},{}", t % 613).unwrap());
            feed(&mut child, &lines);
            after.push(resident());
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        // 200,000 readings are 1.6 megabytes as plain numbers, and more as anything else.
        assert!(after[19] <= after[1] + 512, "{mechanism}: {after:?} KiB");
    }
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let kill = std::process::Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_releases_what_is_held_back() {
    for name in ["INT", "TERM"] {
        let (mut child, mut released) =
            spawn("release --mechanism contin --epsilon 1 --domain 0..612 --protects contributor=1 --delay 100");
        // In one piece: the header is not handed over before both were taken in.
        feed(&mut child, "t,value\n0,240\n1,238\n");
        assert_eq!(next_line(&mut released), "t,value,variance,freshness,spent,seeded\n");
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(0), "SIG{name}");
        let timestamps: Vec<f64> = released.lines().map(|line| fields(&line.unwrap())[0]).collect();
        assert_eq!(timestamps, [0.0, 1.0]);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_whole_file() {
    let folder = directory("interrupt");
    let file = folder.join("released.csv");
    let arguments = "release --mechanism laplace --epsilon 1 --domain 0..612 --protects contributor=1";
    let (mut child, _released) = spawn(&format!("{arguments} --output {}", file.display()));
    let lines: String = (0..3000).map(|t| format!("{t},5\n")).collect();
    feed(&mut child, &format!("t,value\n{lines}"));
    let written =
        || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>();
    while written() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!file.exists());
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let text = std::fs::read_to_string(&file).unwrap();
    let timestamps: Vec<f64> = text.lines().skip(1).map(|line| fields(line)[0]).collect();
    assert!(text.ends_with(",fresh,1,false\n") && timestamps.len() > 100);
    assert!((0_u32..).zip(&timestamps).all(|(step, timestamp)| f64::from(step) == *timestamp));
}

#[test]
fn a_reader_of_releases_that_went_away_is_no_failure() {
    let (mut child, released) =
        spawn("release --mechanism laplace --epsilon 1 --domain 0..612 --protects contributor=1");
    drop(released);
    // It may end before it has read everything.
    let _ = child.stdin.as_mut().unwrap().write_all(b"t,value\n0,1\n");
    let _ = child.stdin.as_mut().unwrap().write_all(b"1,1\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), STAND_IN));
}

#[cfg(target_os = "linux")]
#[test]
fn releases_that_cannot_be_written_are_a_failure() {
    let mut child =
        command("release --mechanism laplace --epsilon 1 --domain 0..612 --protects contributor=1 --output /dev/full");
    let mut child = child.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.as_mut().unwrap().write_all(b"t,value\n0,1\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output).strip_prefix(STAND_IN);
    assert!(error.is_some_and(|error| error.starts_with("error: /dev/full cannot be")), "{}", stderr(&output));
}

#[test]
fn no_output_replaces_an_input() {
    let folder = directory("overwrite");
    let (spec, table) = (folder.join("s.toml"), folder.join("in.csv"));
    std::fs::write(&spec, SPEC).unwrap();
    std::fs::write(&table, "t,value\n0,240\n1,238\n").unwrap();
    let (spec, table) = (spec.display(), table.display());
    let release = format!("release --spec {spec} --input {table}");
    for options in [format!("--output {table}"), format!("--plot {table}"), format!("--output {spec}")] {
        assert_refused(&run(&format!("{release} {options}")), "is read or written by this command already");
    }
    let twice = folder.join("out.svg");
    let both = format!("{release} --output {0} --plot {0}", twice.display());
    assert_refused(&run(&both), "is read or written by this command already");
    assert_eq!(std::fs::read_to_string(folder.join("in.csv")).unwrap(), "t,value\n0,240\n1,238\n");
    let released = folder.join("out.csv");
    assert!(run(&format!("{release} --output {}", released.display())).status.success());
    assert_refused(&run(&format!("plot {0} --output {0}", released.display())), "name another file");
}

/// A warning comes with the output, so a refused line leaves neither output nor state.
#[test]
fn a_warning_does_not_save_the_state_of_a_run_that_fails() {
    let folder = directory("warned");
    let spec = "mechanism = \"central.track\"\nepsilon = 0.01\nwindow = 10\ndomain = [\"a\", \"b\"]\n";
    let rows: String = (0..2_000).map(|t| format!("{t},4,5\n")).collect();
    std::fs::write(folder.join("s.toml"), spec).unwrap();
    std::fs::write(folder.join("in.csv"), format!("t,a,b\n{rows}2000,x,5\n")).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    for name in ["out.ndjson", "state"] {
        let _absent = std::fs::remove_file(folder.join(name));
    }
    let (spec, input, output, state) = (path("s.toml"), path("in.csv"), path("out.ndjson"), path("state"));
    let release = format!("release --spec {spec} --input {input} --output {output} --state {state} --new-state");
    let refused = run(&release);
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("line 2002"), "{}", stderr(&refused));
    assert!(!folder.join("out.ndjson").exists() && !folder.join("state").exists());
    std::fs::write(folder.join("in.csv"), format!("t,a,b\n{rows}")).unwrap();
    let output = run(&release);
    assert!(output.status.success() && stderr(&output).contains("warning: "), "{}", stderr(&output));
}

/// Repeated releases of sample have no stated variance, which is null in JSON.
#[test]
fn releases_without_a_stated_variance_are_drawn() {
    let folder = directory("unstated");
    let spec = "mechanism = \"central.sample\"\nepsilon = 1\nwindow = 4\ndomain = [\"a\", \"b\"]\n";
    let rows: String = (0..12).map(|t| format!("{t},40,50\n")).collect();
    std::fs::write(folder.join("in.csv"), format!("t,a,b\n{rows}")).unwrap();
    let input = std::fs::read(folder.join("in.csv")).unwrap();
    let (output, chart) = (folder.join("out.ndjson"), folder.join("out.svg"));
    let options = format!("--output {} --plot {}", output.display(), chart.display());
    let released = release_by("unstated", spec, &input, &options);
    assert!(released.status.success(), "{}", stderr(&released));
    assert!(std::fs::read_to_string(&output).unwrap().contains("\"variance\":null") && chart.exists());
    assert!(run(&format!("plot {} --ascii", output.display())).status.success());
}

/// The noise of what was paid for cannot be drawn again.
#[test]
fn a_run_with_a_state_replaces_no_releases() {
    let folder = directory("kept");
    let path = |name: &str| folder.join(name).display().to_string();
    let release = format!(
        "release --mechanism laplace --epsilon 1 --domain 0..10 --protects reading --output {} --state {} --key {}",
        path("out.csv"),
        path("state"),
        path("key")
    );
    assert!(run_with_input(&format!("{release} --new-state"), b"t,value\n0,1\n").status.success());
    let (released, state) = (std::fs::read(path("out.csv")).unwrap(), std::fs::read(path("state")).unwrap());
    assert_refused(&run_with_input(&release, b"t,value\n1,1\n"), "has paid for would be lost");
    assert_eq!((std::fs::read(path("out.csv")).unwrap(), std::fs::read(path("state")).unwrap()), (released, state));
}

/// The leakage of a sequence depends on what was drawn, so it is told once the state is saved.
#[test]
fn a_run_whose_state_cannot_be_saved_tells_nothing() {
    let folder = directory("untold");
    let spec = "mechanism = \"crr\"\nepsilon = 1\ndomain = [\"a\", \"b\"]\n\
                model = { prior = [0.5, 0.5], transitions = [[0.9, 0.1], [0.1, 0.9]] }\n";
    std::fs::create_dir_all(folder.join(".state.partial")).unwrap();
    std::fs::write(folder.join("s.toml"), spec).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let release =
        format!("release --spec {} --output {} --state {} --new-state", path("s.toml"), path("out.csv"), path("state"));
    let failed = run_with_input(&release, b"t,user,value\n0,ann,a\n1,ann,b\n");
    assert!(failed.status.code() == Some(1) && stderr(&failed).contains("state"), "{}", stderr(&failed));
    assert!(!stderr(&failed).contains("leak"), "{}", stderr(&failed));
}

#[test]
fn what_counts_for_a_cell_that_is_no_number_is_told_whatever_the_cells_are() {
    let told = |domain: &str, input: &str| {
        let arguments = format!("release --mechanism laplace --epsilon 1 --protects reading {domain}");
        let output = run_with_input(&arguments, input.as_bytes());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
            .lines()
            .filter(|line| line.starts_with("note: a cell that is no"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let note = "note: a cell that is no plain number (46,842; n/a) counts as -3.5, the domain's missing";
    for input in ["t;value\n0;46,842\n1;n/a\n", "t;value\n0;5\n1;6\n", "t,value\n"] {
        assert_eq!(told("--domain -3.5..612 --resolution 0.5", input), note, "{input}");
    }
    assert!(told("--domain 0..612 --missing 7", "t,value\n0,5\n").contains("counts as 7, the domain's missing"));
    let table = directory("evaluated").join("table.csv");
    std::fs::write(&table, "t,value\n0,5\n1,6\n").unwrap();
    let evaluate = "--mechanism laplace --epsilon 1 --repeats 1 --seed 1";
    let evaluated = run(&format!("evaluate --dataset {} --domain -3.5..612 {evaluate}", table.display()));
    assert!(stderr(&evaluated).contains(note), "{}", stderr(&evaluated));
    let named = run(&format!("evaluate --dataset numbers_white --length 9 --domain 0..9 {evaluate}"));
    assert!(named.status.success() && !stderr(&named).contains("plain number"), "{}", stderr(&named));
}

#[test]
fn a_table_without_rows_is_told_about() {
    let release = "release --mechanism laplace --epsilon 1 --domain 0..9 --protects reading";
    let told = |input: &str| {
        let output = run_with_input(release, input.as_bytes());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output).contains("note: nothing was released: the table has no rows")
    };
    assert!(told("t,value\n") && !told("t,value\n0,1\n"));
}

#[test]
fn everything_that_is_written_has_a_place_before_anything_is_read() {
    let folder = directory("places");
    std::fs::create_dir(folder.join("taken")).unwrap();
    let place = |name: &str| folder.join(name).display().to_string();
    let rest = format!("--state {} --key {} --new-state", place("state"), place("key"));
    for (option, rest) in [("--output", &rest[..]), ("--plot", &rest), ("--answers", &rest), ("--state", "--new-state")]
    {
        let given = |path: &str| {
            // There is no such spec either, nor such a table.
            run(&format!("release --spec {} --input no/such.csv {option} {} {rest}", place("none.toml"), place(path)))
        };
        assert_refused(&given("taken"), &format!("{option}: {} is a folder: name a file in it", place("taken")));
        let nowhere = given("nowhere/file");
        assert_refused(&nowhere, &format!("{option}: {} cannot be written", place("nowhere/file")));
        assert_refused(&nowhere, &format!("no folder {}: create the folder", place("nowhere")));
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "something was made");
}
