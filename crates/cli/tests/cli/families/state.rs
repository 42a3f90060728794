//! State across runs and crashes.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use super::{CENTRAL, LOCAL, PERSONAL, SCALAR, SEQUENCE, Stream, freshness, long, objects, plbu, rows};
use crate::{assert_refused, command, run, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn without_a_state_a_budget_starts_anew_and_a_note_says_so() {
    let note = "note: the budget starts anew: without --state";
    for (name, spec, noted) in
        [("local", LOCAL, true), ("central", CENTRAL, true), ("personal", PERSONAL, true), ("sequence", SEQUENCE, true)]
    {
        let output = Stream::new(&format!("anew-{name}"), spec).release(long(0..2, &["a", "b"]), "");
        assert_eq!(stderr(&output).contains(note), noted, "{name}: {}", stderr(&output));
    }
    let every = CENTRAL.replace("window = 4", "window = 1");
    let output = Stream::new("anew-w1", &every).release(long(0..2, &["a", "b"]), "--through 1");
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
}

/// The freshness of what is released first by the second of two runs.
fn second_run(stream: &Stream, values: &[&str]) -> String {
    assert!(stream.go_on(long(0..1, values), "").status.success());
    let output = stream.go_on(long(1..2, values), "");
    assert!(!stderr(&output).contains("anew"), "{}", stderr(&output));
    freshness(&rows(&output)[0]).to_owned()
}

#[test]
fn a_budget_that_timestamps_share_is_kept_across_runs() {
    // Each of these spends all that a window has on its first timestamp.
    for (name, spec) in [("local", LOCAL), ("central", CENTRAL), ("sequence", SEQUENCE)] {
        let stream = Stream::new(&format!("kept-{name}"), spec);
        let once = rows(&stream.release(long(1..2, &["a", "b"]), ""));
        assert_eq!(freshness(&once[0]), "fresh", "{name}");
        let repeated = second_run(&stream, &["a", "b"]);
        assert!(repeated == "approximated" || repeated == "nullified", "{name}: {repeated}");
        // The window is over: there is something to spend again.
        let later = rows(&stream.go_on(long(4..5, &["a", "b"]), ""));
        assert_eq!(freshness(later.iter().find(|row| row[0] == "4").unwrap()), "fresh", "{name}");
        // What is over is not released again.
        let again = stream.go_on(long(4..5, &["a", "b"]), "");
        assert_refused(&again, "line 2, field \"t\": expected a timestamp after 4");
    }
}

#[test]
fn a_state_is_begun_by_new_state_only() {
    let stream = Stream::new("begun", CENTRAL);
    let mistyped = format!("--state {}", stream.path("stat"));
    let refused = stream.release(long(0..1, &["a", "b"]), &mistyped);
    assert_refused(&refused, "stat: check the path, or pass --new-state if a new budget is meant");
    assert_eq!(std::fs::read_dir(&stream.folder).unwrap().count(), 2, "a lock was left behind");
    let new = format!("--state {} --new-state", stream.path("state"));
    assert!(stream.release(long(0..1, &["a", "b"]), &new).status.success());
    let before = std::fs::read(stream.folder.join("state")).unwrap();
    let refused = stream.release(long(1..2, &["a", "b"]), &new);
    assert_refused(&refused, "state exists: leave out --new-state to go on with its budget, or name another file");
    assert_eq!(std::fs::read(stream.folder.join("state")).unwrap(), before);
    assert_refused(&stream.release("", "--new-state"), "--state <FILE>");
    assert_refused(&stream.release("", &format!("{} --seed 1", stream.state())), "cannot be used with '--seed");
}

#[test]
fn budget_tells_what_is_left_in_states_of_every_family() {
    let budget = |stream: &Stream, options: &str| run(&format!("budget {} {options}", stream.path("state")));
    let after = |name: &str, spec: &str, input: &str| {
        let stream = Stream::new(&format!("budget-{name}"), spec);
        let output = stream.go_on(input, "");
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        stream
    };
    let users = long(0..2, &["a", "b"]);
    let central = after("central", CENTRAL, &users);
    let expected = "\
central.sample: released up to timestamp 1; the budget before timestamp 2

whose     window  epsilon  spent  left  share left
everyone       4        1      1     0       0.0 %
";
    assert_eq!(stdout(&budget(&central, "")), expected);
    let later: Value = serde_json::from_str(stdout(&budget(&central, "--at 4 --json"))).unwrap();
    let entry =
        json!({"class": null, "window": 4, "since": 1, "epsilon": 1.0, "spent": 0.0, "left": 1.0, "share_left": 1.0});
    let whole = json!({"mechanism": "central.sample", "last": 1, "at": 4, "users": null, "seeded": false,
                       "budgets": [entry]});
    assert_eq!(later, whole);
    assert_refused(&budget(&central, "--at 1"), "--at: expected a timestamp after 1, which is over");
    let slots = after("local", &LOCAL.replace("lsp", "lpu"), &users);
    let told: Value = serde_json::from_str(stdout(&budget(&slots, "--json"))).unwrap();
    assert_eq!((&told["budgets"][0]["slots"], &told["budgets"][0]["slots_left"]), (&json!(65536), &json!(32768)));
    assert!(
        stdout(&budget(&slots, "")).contains("32768 of 65536 slots      50.0 %"),
        "{}",
        stdout(&budget(&slots, ""))
    );
    for (name, spec) in [("personal", PERSONAL.to_owned()), ("plbu", plbu())] {
        let told = budget(&after(name, &spec, &users), "");
        let classes: Vec<_> = stdout(&told).lines().skip(3).map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(classes, ["low", "high"], "{name}");
    }
    let sequence = budget(&after("sequence", SEQUENCE, &users), "");
    assert!(stdout(&sequence).contains("least left") && stdout(&sequence).contains("3 users, each with a ledger"));
    // A state of readings needs no key to tell its budget.
    let scalar = budget(&after("scalar", SCALAR, "t,value\n0,5\n"), "");
    assert!(stdout(&scalar).ends_with("Each timestamp has this budget to itself.\n"), "{}", stdout(&scalar));
    std::fs::write(central.folder.join("state"), "no state").unwrap();
    assert_refused(&budget(&central, ""), "state: it is not the state of a release, or damaged");
    assert_refused(&run("budget nowhere.state"), "nowhere.state cannot be read");
}

#[test]
fn every_mechanism_goes_on_from_its_state() {
    let with = |spec: &str, from: &str, to: &str| spec.replace(&format!("\"{from}\""), &format!("\"{to}\""));
    let alone = SEQUENCE.replace("window = 4\nbudget = 1\n", "");
    let (without_model, _) = alone.split_once("model =").unwrap();
    for (name, spec) in [
        ("lpa", with(LOCAL, "lsp", "lpa")),
        ("mtsp", with(LOCAL, "lsp", "mtsp")),
        ("ba", with(CENTRAL, "sample", "ba")),
        ("pbd", with(PERSONAL, "pba", "pbd")),
        ("personal_track", with(PERSONAL, "pba", "personal_track")),
        ("plbu", plbu()),
        ("batched", with(&alone, "crr", "batched").replace("epsilon = 1", "epsilon = 2\nlength = 2")),
        ("rr", with(without_model, "crr", "rr")),
    ] {
        let watched = "[[queries]]\nname = \"q\"\nvalue = \"a\"\ndelta = 3\n";
        let spec = if spec.contains("sequence") { spec } else { format!("{spec}{watched}") };
        let stream = Stream::new(&format!("goes-on-{name}"), &spec);
        let answers =
            if spec.contains("queries") { format!("--answers {}", stream.path("answers")) } else { String::new() };
        assert!(stream.go_on(long(0..2, &["a", "b"]), &answers).status.success(), "{name}");
        let output = stream.go_on(long(2..4, &["a", "b"]), &answers);
        assert!(!rows(&output).is_empty(), "{name}");
        if !answers.is_empty() {
            // A period of three timestamps, of which two lie in the run before.
            let answers = objects(&std::fs::read_to_string(stream.folder.join("answers")).unwrap());
            assert_eq!(answers[0]["t"], 2, "{name}");
            assert_eq!((answers[0]["first"].as_u64(), answers[0]["last"].as_u64()), (Some(0), Some(2)), "{name}");
        }
    }
}

#[test]
fn a_state_is_refused_that_is_damaged_or_of_another_spec_and_never_replaced() {
    let specs =
        [("scalar", SCALAR), ("local", LOCAL), ("central", CENTRAL), ("personal", PERSONAL), ("sequence", SEQUENCE)];
    for (name, spec) in specs {
        let stream = Stream::new(&format!("damaged-{name}"), spec);
        let state = stream.folder.join("state");
        let (first, second) = if name == "scalar" {
            ("t,value\n0,5\n".to_owned(), "t,value\n1,5\n".to_owned())
        } else {
            (long(0..1, &["a", "b"]), long(1..2, &["a", "b"]))
        };
        assert!(stream.go_on(&first, "").status.success(), "{name}");
        let whole = std::fs::read(&state).unwrap();
        let refuse = |bytes: &[u8], why: &str| {
            std::fs::write(&state, bytes).unwrap();
            assert_refused(&stream.go_on(&second, ""), why);
            assert_eq!(std::fs::read(&state).unwrap(), bytes, "{name}: the state was replaced");
        };
        refuse(b"", "it is not the state of a release, or damaged; it was left as it is");
        refuse(b"tidegate state 1\n", "it is the state of an older version of tidegate, of form 1");
        refuse(b"tidegate state 4\n", "it is the state of a newer version of tidegate, of form 4");
        for length in [10, 20, 30, whole.len() / 2, whole.len() - 1] {
            refuse(&whole[..length], "it was left as it is, because beginning anew would spend again");
        }
        for place in (0..whole.len()).step_by((whole.len() / 12).max(1)) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            refuse(&damaged, "it was left as it is");
        }
        refuse(&[&whole[..], b"x"].concat(), "longer than it should be");
        std::fs::write(&state, &whole).unwrap();
        std::fs::write(stream.folder.join("stream.toml"), spec.replacen("epsilon = 1", "epsilon = 2", 1)).unwrap();
        assert_refused(&stream.go_on(&second, ""), "it is the state of another spec");
        std::fs::write(stream.folder.join("stream.toml"), spec).unwrap();
        assert!(stream.go_on(&second, "").status.success(), "{name}");
    }
}

#[test]
fn a_state_of_readings_needs_its_key() {
    let stream = Stream::new("key-scalar", SCALAR);
    let state = format!("--state {}", stream.path("state"));
    assert_refused(
        &stream.release("t,value\n0,5\n", &state),
        "--key must name a key file, which the first run makes (--new-state)",
    );
    assert_refused(&stream.release("t,value\n0,5\n", &format!("--key {}", stream.path("key"))), "--state");
    assert!(stream.go_on("t,value\n0,5\n", "").status.success());
    let key = std::fs::read_to_string(stream.folder.join("key")).unwrap();
    assert_eq!(key.trim().len(), 64);
    #[cfg(unix)]
    for file in ["key", "state"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(stream.folder.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} can be read by others");
    }
    let other: String = key.trim().chars().rev().collect();
    std::fs::write(stream.folder.join("key"), other).unwrap();
    assert_refused(&stream.go_on("t,value\n1,5\n", ""), "the key is another one");
    std::fs::write(stream.folder.join("key"), "no key").unwrap();
    assert_refused(&stream.go_on("t,value\n1,5\n", ""), "is no key: one has 64 hexadecimal digits");
    std::fs::remove_file(stream.folder.join("key")).unwrap();
    assert_refused(&stream.go_on("t,value\n1,5\n", ""), "key cannot be read");
    std::fs::write(stream.folder.join("key"), key).unwrap();
    assert!(stream.go_on("t,value\n1,5\n", "").status.success());
    let central = Stream::new("key-central", CENTRAL);
    assert_refused(
        &central.release("", &format!("--state {} --key {}", central.path("state"), central.path("key"))),
        "--key is for streams of numbers",
    );
}

pub(super) fn spawn(stream: &Stream, options: &str) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut command = command(&stream.arguments(options));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

pub(super) fn next_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn after_a_crash_readings_that_were_held_back_are_released_and_none_twice() {
    let stream = Stream::new("crash-scalar", SCALAR);
    let (mut child, mut released) = spawn(&stream, &stream.state());
    child.stdin.as_mut().unwrap().write_all(b"t,value\n0,5\n1,6\n2,7\n3,8\n4,9\n").unwrap();
    let lines: Vec<String> = (0..5).map(|_| next_line(&mut released)).collect();
    assert!(lines[4].starts_with("3,"), "{lines:?}");
    // What was seen has been paid for.
    assert!(stream.folder.join("state").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let refused = stream.go_on("t,value\n4,9\n", "");
    assert_refused(&refused, "line 2, field \"t\": expected a timestamp after 4, with which the last run ended");
    let output = stream.go_on("t,value\n5,9\n", "");
    let timestamps: Vec<String> = rows(&output).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(timestamps, ["4", "5"]);
}

#[test]
fn what_was_seen_before_a_crash_is_spent_after_it() {
    for (name, spec) in [("local", LOCAL), ("central", CENTRAL), ("personal", PERSONAL), ("sequence", SEQUENCE)] {
        let stream = Stream::new(&format!("crash-{name}"), spec);
        let (mut child, mut released) = spawn(&stream, &stream.state());
        // The second timestamp has only begun.
        let input = format!("{}1,anna,a\n", long(0..1, &["a", "b"]));
        child.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
        next_line(&mut released);
        assert!(next_line(&mut released).starts_with("0,"), "{name}");
        assert!(stream.folder.join("state").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let again = stream.go_on(long(0..1, &["a", "b"]), "");
        assert_refused(&again, "line 2, field \"t\": expected a timestamp after ");
        if name == "personal" {
            continue;
        }
        // Budget is left only once the window is over.
        let output = stream.go_on(long(2..3, &["a", "b"]), "");
        assert_ne!(freshness(&rows(&output)[0]), "fresh", "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn releases_that_could_not_be_written_count_as_spent() {
    let stream = Stream::new("full", CENTRAL);
    // The first timestamp is released when the second begins.
    let output = stream.go_on(long(0..2, &["a", "b"]), "--output /dev/full");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_refused(&stream.go_on(long(0..1, &["a", "b"]), ""), "expected a timestamp after 0");
}

#[test]
fn nothing_is_released_where_the_state_cannot_be_written() {
    let stream = Stream::new("unwritable", CENTRAL);
    // A folder stands where the state would be prepared.
    std::fs::create_dir_all(stream.folder.join(".state.partial").join("x")).unwrap();
    for output in ["-".to_owned(), stream.path("released.csv")] {
        let output = stream.go_on(long(0..1, &["a", "b"]), &format!("--output {output}"));
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""), "{}", stderr(&output));
        assert!(stderr(&output).contains("state cannot be written"), "{}", stderr(&output));
    }
    assert!(!stream.folder.join("released.csv").exists() && !stream.folder.join("state").exists());
}

#[test]
fn a_file_that_was_refused_can_be_mended_and_released_whole() {
    let stream = Stream::new("mended", CENTRAL);
    let file = stream.path("released.csv");
    let bad = format!("{}5,anna,nonsense\n", long(0..5, &["a", "b"]));
    assert_refused(&stream.go_on(bad, &format!("--output {file}")), "line 17, field \"value\"");
    assert!(!stream.folder.join("state").exists(), "nothing was released, and nothing is spent");
    let output = stream.go_on(long(0..5, &["a", "b"]), &format!("--output {file}"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 1 + 5 * 3);
}

#[test]
fn two_runs_cannot_use_one_state_at_once() {
    let stream = Stream::new("twice", CENTRAL);
    let (mut child, mut released) = spawn(&stream, &stream.state());
    child.stdin.as_mut().unwrap().write_all(b"t,a,b,c\n0,1,2,3\n").unwrap();
    next_line(&mut released);
    assert_refused(&stream.go_on("t,a,b,c\n1,1,2,3\n", ""), "state is used by another run");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(stream.go_on("t,a,b,c\n1,1,2,3\n", "").status.success());
}

#[test]
fn state_and_key_are_files_of_their_own() {
    let stream = Stream::new("own-scalar", SCALAR);
    let (a, b) = (stream.path("a"), stream.path("b"));
    for options in [
        format!("--state {a} --key {b} --output {a}"),
        format!("--state {a} --key {a}"),
        format!("--state {a} --key {b} --output {b}"),
        format!("--state {} --key {b}", stream.path("stream.toml")),
    ] {
        assert_refused(&stream.release("t,value\n0,5\n", &options), "state and key must be files of their own");
    }
    assert_eq!(std::fs::read_to_string(stream.folder.join("stream.toml")).unwrap(), SCALAR);
}
