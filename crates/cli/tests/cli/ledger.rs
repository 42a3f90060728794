//! What `tidegate release` writes is a record that `tidegate audit --ledger` sums up as it is.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tidegate_kernel::Epsilon;

use crate::{assert_refused, run_with_input, stderr, stdout};

const CLASSES: &str = "[[classes]]\nname = \"low\"\nepsilon = 1\nwindow = 2\n\
                       [[classes]]\nname = \"high\"\nepsilon = 0.5\nwindow = 4\n";
const MODEL: &str = "model = { prior = [0.5, 0.5], transitions = [[0.7, 0.3], [0.4, 0.6]] }\n";

/// A folder with a spec and a table of users.
struct Stream {
    folder: PathBuf,
    users: String,
    is_event: bool,
}

impl Stream {
    fn new(name: &str, spec: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ledger").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stream.toml"), spec).unwrap();
        let users = folder.join("users.csv");
        std::fs::write(&users, "user,class\nanna,low\nben,high\ncem,low\n").unwrap();
        let users = if spec.contains("[[classes]]") { format!("--users {}", users.display()) } else { String::new() };
        Self { folder, users, is_event: spec.contains("\"scalar\"") }
    }

    fn spec(&self) -> String {
        self.folder.join("stream.toml").display().to_string()
    }

    /// The output of a run of 24 timestamps.
    fn release(&self, options: &str) -> String {
        let lines = (0..24).map(|t: u64| match self.is_event {
            true => format!("{t},{}\n", t * 20),
            false => ["anna", "ben", "cem"].map(|user| format!("{t},{user},{}\n", t / 5 % 2)).concat(),
        });
        let header = if self.is_event { "t,value\n" } else { "t,user,value\n" };
        let input: String = std::iter::once(header.to_owned()).chain(lines).collect();
        let arguments = format!("release --spec {} {} {options}", self.spec(), self.users);
        let output = run_with_input(&arguments, input.as_bytes());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).to_owned()
    }

    fn audit(&self, record: &str, limits: Option<&str>) -> Output {
        let limits = limits.map_or_else(|| format!("--spec {}", self.spec()), str::to_owned);
        run_with_input(&format!("audit --ledger - {limits}"), record.as_bytes())
    }
}

/// The amount, one unit more.
fn raised(amount: &str) -> String {
    Epsilon::from_units(amount.parse::<Epsilon>().unwrap().units() + 1).unwrap().to_string()
}

/// The table with every amount of a timestamp raised by one unit.
fn raised_at(table: &str, timestamp: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        let spent = fields.len() - 2;
        if fields[0] == timestamp && !fields[spent].is_empty() {
            let items = fields[spent].split("; ").map(|item| match item.split_once(' ') {
                Some((amount, payer)) => format!("{} {payer}", raised(amount)),
                None => raised(item),
            });
            fields[spent] = items.collect::<Vec<_>>().join("; ");
        }
        fields.join(",") + "\n"
    };
    table.lines().map(line).collect()
}

fn users(mechanism: &str, more: &str) -> String {
    let family = if ["uniform", "sample", "bd", "ba"].contains(&mechanism) { "central" } else { "local" };
    format!("family = \"{family}\"\nmechanism = \"{mechanism}\"\nepsilon = 1\nwindow = 4\ndomain = 2\n{more}")
}

fn sequence(mechanism: &str, more: &str) -> String {
    format!("family = \"sequence\"\nmechanism = \"{mechanism}\"\nepsilon = 1\ndomain = 2\n{more}")
}

#[test]
fn the_output_of_every_family_is_a_record() {
    let population = "population = 3\n";
    let event = "family = \"scalar\"\nmechanism = \"contin\"\nepsilon = 1\ndelay = 3\n\
                 domain = { low = 0, high = 612 }\nprotects = \"reading\"\n";
    let classes = |mechanism: &str| format!("family = \"central\"\nmechanism = \"{mechanism}\"\ndomain = 2\n{CLASSES}");
    // With what is too much once an amount of the timestamp is raised by one unit; nothing where windows are not used
    // up.
    type Case<'a> = (&'a str, String, Option<&'a str>, Option<(&'a str, &'a str)>);
    let streams: [Case<'_>; 20] = [
        (
            "uniform",
            users("uniform", ""),
            Some("--window 4 --epsilon 1"),
            Some(("9", "window 6..9 has spent 1.000000001 of 1")),
        ),
        (
            "sample",
            users("sample", ""),
            Some("--window 4 --epsilon 1"),
            Some(("8", "window 5..8 has spent 1.000000001 of 1")),
        ),
        ("bd", users("bd", ""), Some("--window 4 --epsilon 1"), None),
        ("ba", users("ba", ""), Some("--window 4 --epsilon 1"), None),
        ("central.track", users("track", "").replace("local", "central"), Some("--window 4 --epsilon 1"), None),
        ("pbd", classes("pbd"), Some("--window 4 --epsilon 2"), None),
        ("pba", classes("pba") + "estimator = \"sampling\"\n", None, None),
        ("personal_track", classes("personal_track"), None, None),
        (
            "plbu",
            classes("plbu").replace("central", "local"),
            None,
            Some(("9", "window 8..9 of class 0 has spent 1.000000001 of 1")),
        ),
        (
            "lbu",
            users("lbu", population),
            Some("--window 4 --epsilon 1"),
            Some(("9", "window 6..9 has spent 1.000000001 of 1")),
        ),
        ("lba", users("lba", population), Some("--window 4 --epsilon 1"), None),
        (
            "lpu",
            users("lpu", population),
            Some("--window 4 --epsilon 1"),
            Some(("9", "slot 16384, has spent 1.000000001 of 1")),
        ),
        ("lpd", users("lpd", population), Some("--window 4 --epsilon 1"), Some(("9", "has spent 1.000000001 of 1"))),
        ("mtsp", users("mtsp", population), Some("--window 4 --epsilon 1"), None),
        ("mtsp_population", users("mtsp_population", population), None, Some(("9", "has spent 1.000000001 of 1"))),
        (
            "scalar",
            event.to_owned(),
            Some("--window 1 --epsilon 1"),
            Some(("9", "window 9..9 has spent 1.000000001 of 1")),
        ),
        (
            "crr",
            sequence("crr", MODEL),
            Some("--window 1 --epsilon 2"),
            Some(("9", "window 9..9 of anna has spent 2.000000001 of 2")),
        ),
        ("crr_window", sequence("crr", &format!("window = 4\nbudget = 2\n{MODEL}")), None, None),
        (
            "batched",
            sequence("batched", &format!("length = 3\n{MODEL}")),
            Some("--window 3 --epsilon 2"),
            Some(("9", "window 7..9 of anna has spent 2.000000001 of 2")),
        ),
        (
            "rr",
            sequence("rr", ""),
            Some("--window 1 --epsilon 1"),
            Some(("9", "window 9..9 of anna has spent 1.000000001 of 1")),
        ),
    ];
    for (name, spec, limits, too_much) in streams {
        let spec = if name == "pba" { spec.replace(CLASSES, "").trim_end().to_owned() + "\n" + CLASSES } else { spec };
        let stream = Stream::new(name, &spec);
        let table = stream.release("");
        for limits in [None, limits] {
            let audit = stream.audit(&table, limits);
            assert!(audit.status.success(), "{name}: {}", stderr(&audit));
            assert!(stdout(&audit).contains(": within the budget\nat most: the window "), "{name}: {}", stdout(&audit));
        }
        let lines = stream.release("--json");
        let audit = stream.audit(&lines, None);
        assert!(audit.status.success(), "{name}: {}", stderr(&audit));
        if let Some((timestamp, window)) = too_much {
            let audit = stream.audit(&raised_at(&table, timestamp), None);
            assert_eq!(audit.status.code(), Some(1), "{name}: {}", stderr(&audit));
            assert!(stderr(&audit).contains(window), "{name}: {}", stderr(&audit));
        }
    }
}

#[test]
fn slots_that_are_asked_twice_in_a_window_are_found() {
    let stream = Stream::new("slots", &users("lpu", "population = 3\n"));
    let table = stream.release("");
    assert!(table.contains(",1 of slots 16384+16384,false\n"), "{table}");
    // Timestamp 9 asks whom timestamp 8 has asked.
    let twice = table.replace("1 of slots 16384+16384", "1 of slots 16383+16384");
    let audit = stream.audit(&twice, None);
    assert_eq!(audit.status.code(), Some(1), "{}", stdout(&audit));
    assert!(stderr(&audit).contains("slot 16383, has spent 2 of 1"), "{}", stderr(&audit));
}

#[test]
fn a_release_counts_once_for_all_its_lines() {
    let stream = Stream::new("twice", &users("uniform", ""));
    let table = stream.release("");
    let spends = |output: &Output| stdout(output).split(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(spends(&stream.audit(&table, None)), 24);
    assert_eq!(spends(&stream.audit(&stream.release("--json"), None)), 24);
    // The lines of a timestamp twice are two releases of it.
    let (header, lines) = table.split_once('\n').unwrap();
    let of_nine: String = lines.lines().filter(|line| line.starts_with("9,")).map(|line| format!("{line}\n")).collect();
    let twice = format!("{header}\n{}", lines.replace(&of_nine, &of_nine.repeat(2)));
    let audit = stream.audit(&twice, None);
    assert_eq!(audit.status.code(), Some(1), "{}", stdout(&audit));
    assert!(stderr(&audit).contains("window 6..9 has spent 1.25 of 1"), "{}", stderr(&audit));
}

#[test]
fn classes_that_the_spec_does_not_have_are_refused() {
    let spec = format!("family = \"local\"\nmechanism = \"plbu\"\ndomain = 2\n{CLASSES}");
    let stream = Stream::new("other_class", &spec);
    let other = stream.release("").replace("of class 1", "of class 2");
    let audit = stream.audit(&other, None);
    assert_eq!(audit.status.code(), Some(2), "{}", stdout(&audit));
    assert!(
        stderr(&audit).contains("class 2 spent something, and the spec has no budget for it"),
        "{}",
        stderr(&audit)
    );
}

#[test]
fn a_seeded_run_says_so_on_each_line_and_so_do_runs_that_go_on_from_it() {
    let event = "family = \"scalar\"\nmechanism = \"laplace\"\nepsilon = 1\n\
                 domain = { low = 0, high = 612 }\nprotects = \"reading\"\n";
    for (name, spec) in [
        ("seeded_central", users("ba", "")),
        ("seeded_local", users("lpa", "population = 3\n")),
        ("seeded_event", event.to_owned()),
        ("seeded_sequence", sequence("crr", MODEL)),
    ] {
        let stream = Stream::new(name, &spec);
        let flags = |table: &str, flag: &str| {
            let mut lines = table.lines();
            assert!(lines.next().unwrap().ends_with(",spent,seeded"), "{name}");
            assert!(lines.all(|line| line.ends_with(flag)), "{name}: {table}");
        };
        flags(&stream.release(""), ",false");
        flags(&stream.release("--seed 7"), ",true");
        let seeded: Value = serde_json::from_str(stream.release("--seed 7 --json").lines().next().unwrap()).unwrap();
        assert_eq!(seeded["seeded"], true, "{name}");
        let key = if stream.is_event { format!("--key {}/key", stream.folder.display()) } else { String::new() };
        let state = format!("--state {}/state {key}", stream.folder.display());
        let refused = run_with_input(&format!("release --spec {} {state} --seed 7", stream.spec()), b"");
        assert_refused(&refused, "cannot be used with");
        stream.release(&format!("{state} --new-state"));
        // Earlier versions let seeded runs keep a state, and marked it.
        let path = stream.folder.join("state");
        let saved = std::fs::read(&path).unwrap();
        let body = saved.strip_prefix(b"tidegate state 3\n").unwrap();
        std::fs::write(&path, [b"tidegate state 3, seeded\n", body].concat()).unwrap();
        let next = if stream.is_event { "t,value\n99,5\n" } else { "t,user,value\n99,anna,0\n" };
        let arguments = format!("release --spec {} {state}", stream.spec());
        let goes_on = run_with_input(&arguments, next.as_bytes());
        flags(stdout(&goes_on), ",true");
        assert!(stderr(&goes_on).contains("a run with a seed has contributed to this state"), "{}", stderr(&goes_on));
    }
}
