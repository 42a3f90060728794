//! Releases, answers and memory.

use std::io::{BufRead, Write};
use std::process::{Output, Stdio};

use super::state::{next_line, spawn};
use super::{CENTRAL, LOCAL, PERSONAL, Stream, USERS, freshness, long, objects, plbu, rows};
use crate::{assert_refused, command, run_with_input, stderr, stdout};

#[test]
fn users_and_their_classes_come_from_a_table() {
    let stream = Stream::new("classes", PERSONAL);
    let table = |text: &str| std::fs::write(stream.folder.join("users.csv"), text).unwrap();
    let input = long(0..2, &["a", "b"]);
    for (users, why) in [
        (
            "user,class\nanna,low\nben,hgih\n",
            "users.csv, line 3, field \"class\": expected a class of the spec: low, high",
        ),
        (
            "user,class\nanna,low\nanna,high\n",
            "users.csv, line 3, field \"user\": expected a user who has no other line",
        ),
        ("user\nanna\n", "users.csv, line 1: the fields must be user,class"),
        (
            "user,class\nanna,low\nben,high\n",
            "standard input, line 4, field \"user\": expected a user of the table of users",
        ),
    ] {
        table(users);
        assert_refused(&stream.release(&input, ""), why);
    }
    let without = run_with_input(&format!("release --spec {}", stream.path("stream.toml")), input.as_bytes());
    assert_refused(&without, "--users must name a table with the fields user,class");
    let central = Stream::new("classes-none", CENTRAL);
    let why = "--users is for mechanisms in which each class has a guarantee of its own";
    assert_refused(&central.release(&input, &format!("--users {}", central.path("users.csv"))), why);
    let local = Stream::new("classes-local", LOCAL);
    assert_refused(&local.release(&input, &format!("--users {}", local.path("users.csv"))), why);
}

#[test]
fn who_moves_to_another_class_sits_out_and_a_device_does_not_move() {
    let stream =
        Stream::new("moves", &PERSONAL.replace("epsilon = 1", "epsilon = 90").replace("epsilon = 0.5", "epsilon = 90"));
    let table = |text: &str| std::fs::write(stream.folder.join("users.csv"), text).unwrap();
    let many = |t: u64, class: &str| {
        let users: String = (0..400).map(|user| format!("u{user},{class}\n")).collect();
        let lines: String = (0..400).map(|user| format!("{t},u{user},a\n")).collect();
        (format!("user,class\n{users}"), format!("t,user,value\n{lines}"))
    };
    let count = |output: &Output| rows(output)[0][2].parse::<f64>().unwrap();
    let (users, lines) = many(0, "low");
    table(&users);
    assert!((count(&stream.go_on(lines, "")) - 400.0).abs() < 40.0);
    // In another class from 4 on, the longer of the two windows after 0: until then nobody is there.
    let (users, lines) = many(3, "high");
    table(&users);
    let sitting_out = stream.go_on(lines, "");
    assert_ne!(freshness(rows(&sitting_out).last().unwrap()), "fresh", "{}", stdout(&sitting_out));
    let (_, lines) = many(4, "high");
    let output = stream.go_on(lines, "");
    assert!((count(&output) - 400.0).abs() < 40.0, "{}", stdout(&output));

    let devices = Stream::new("moves-device", &plbu());
    assert!(devices.go_on(long(0..1, &["a", "b"]), "").status.success());
    std::fs::write(devices.folder.join("users.csv"), USERS.replace("anna,low", "anna,high")).unwrap();
    assert_refused(
        &devices.go_on(long(1..2, &["a", "b"]), ""),
        "line 2, field \"class\": expected the class that the user had before",
    );
}

#[test]
fn queries_are_answered_with_intervals_and_monitors_tell_when_they_fire() {
    let spec = CENTRAL.replace("sample", "uniform").replace("epsilon = 1", "epsilon = 200")
        + "[[queries]]\nname = \"sum\"\nfirst = \"a\"\nlast = \"b\"\ndelta = 2\nunit = \"counts\"\n[[queries]]\nname \
           = \"most\"\ntop = 2\nunit = \"counts\"\n[[monitors]]\nname = \"busy\"\nvalue = \"c\"\nunit = \
           \"counts\"\ndirection = \"above\"\nstart = 500\nend = 400\n";
    let stream = Stream::new("watch", &spec);
    let input = "t,a,b,c\n0,100,200,50\n1,100,200,600\n2,100,200,450\n3,100,200,50\n";
    let answers = stream.path("answers.ndjson");
    let output = stream.release(input, &format!("--answers {answers} --seed 2"));
    assert!(output.status.success(), "{}", stderr(&output));
    let told: Vec<&str> = stderr(&output).lines().filter(|line| line.starts_with("event: ")).collect();
    assert_eq!(told.len(), 2, "{}", stderr(&output));
    assert!(
        told[0].starts_with("event: \"busy\" started at 1, at ") && told[1].starts_with("event: \"busy\" ended at 3")
    );
    let lines = objects(&std::fs::read_to_string(&answers).unwrap());
    let of = |query: &str| lines.iter().filter(|line| line["query"] == query).collect::<Vec<_>>();
    let (sums, tops) = (of("sum"), of("most"));
    assert_eq!(sums.iter().map(|line| line["t"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    for sum in sums {
        let number = |field: &str| sum[field].as_f64().unwrap();
        assert!(number("low") < number("value") && number("value") < number("high"), "{sum}");
        assert!((number("value") - 600.0).abs() < 5.0 && number("confidence") == 0.95, "{sum}");
        assert_eq!((sum["unit"].as_str(), sum["spans_more_than_one_window"].as_bool()), (Some("counts"), Some(false)));
    }
    assert_eq!(tops[1]["top"][0]["of"], "c");
    assert_eq!(tops[3]["top"].as_array().unwrap().len(), 2);
    let events: Vec<_> =
        lines.iter().filter(|line| line["monitor"] == "busy").map(|line| line["event"].clone()).collect();
    assert_eq!(events, ["started", "ended"]);

    let quiet = stream.release(input, "");
    assert!(stderr(&quiet).contains("note: the spec has queries; --answers FILE"), "{}", stderr(&quiet));
    let none = Stream::new("watch-none", CENTRAL);
    assert_refused(&none.release(input, "--answers -"), "--answers is for specs with queries or monitors");
    assert_refused(&stream.release(input, "--answers -"), "answers and releases cannot go to the same place");
}

#[test]
fn releases_of_users_are_near_the_truth() {
    let users = 2_000_u32;
    let lines: String = (0..users).map(|user| format!("0,u{user},{}\n", ["a", "a", "b"][user as usize % 3])).collect();
    let input = format!("t,user,value\n{lines}");
    let local = LOCAL.replace("epsilon = 1", "epsilon = 8").replace("population = 9", "population = 2000");
    let released = rows(&Stream::new("truth-local", &local).release(&input, "--seed 1"));
    // At epsilon 8 a user is wrong with a probability of 7e-4.
    for (row, truth) in released.iter().zip([2.0 / 3.0, 1.0 / 3.0, 0.0]) {
        assert!((row[2].parse::<f64>().unwrap() - truth).abs() < 0.02, "{released:?}");
    }
    let released = rows(&Stream::new("truth-central", CENTRAL).release(&input, "--seed 1"));
    // Noise of scale 1.
    for (row, truth) in released.iter().zip([1333.4, 666.6, 0.0]) {
        assert!((row[2].parse::<f64>().unwrap() - truth).abs() < 20.0, "{released:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_time() {
    use std::fmt::Write as _;

    for (name, spec) in [("central", CENTRAL), ("local", LOCAL)] {
        let stream = Stream::new(&format!("memory-{name}"), spec);
        let mut child = command(&stream.arguments(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"t,user,value\n").unwrap();
        let status = format!("/proc/{}/status", child.id());
        let resident = || -> u64 {
            let status = std::fs::read_to_string(&status).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let mut after = Vec::new();
        for block in 0..10_u64 {
            let mut lines = String::new();
            for t in block * 1_000..(block + 1) * 1_000 {
                (0..10).for_each(|user| writeln!(lines, "{t},user{user},a").unwrap());
            }
            child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
            after.push(resident());
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(after[9] <= after[1] + 512, "{name}: {after:?} KiB");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_releases_the_timestamp_that_is_open() {
    let stream = Stream::new("interrupt", LOCAL);
    let (mut child, mut released) = spawn(&stream, &stream.state());
    child.stdin.as_mut().unwrap().write_all(format!("{}1,anna,a\n", long(0..1, &["a", "b"])).as_bytes()).unwrap();
    next_line(&mut released);
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let timestamps: Vec<String> =
        released.lines().map(|line| line.unwrap().split(',').next().unwrap().to_owned()).collect();
    assert_eq!(timestamps, ["0", "0", "0", "1", "1", "1"]);
}

#[test]
fn a_reader_of_answers_that_went_away_does_not_end_a_file() {
    let query = "[[queries]]\nname = \"a\"\nvalue = \"a\"\n";
    let stream = Stream::new("answers", &format!("{CENTRAL}{query}"));
    let released = stream.path("released.csv");
    let mut child = command(&stream.arguments(&format!("--answers - --output {released}")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    // Far more answers than a pipe holds.
    child.stdin.take().unwrap().write_all(long(0..5_000, &["a", "b"]).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let released = std::fs::read_to_string(released).unwrap();
    assert!(released.lines().count() == 1 + 3 * 5_000 && released.lines().last().unwrap().starts_with("4999,c,"));
}

#[test]
fn means_of_numbers_are_released_across_runs_and_answered() {
    let text = std::fs::read_to_string(super::example("mean.toml")).unwrap();
    let spec =
        text.replace("\"lpa\"", "\"lpu\"").replace("window = 20", "window = 2").replace("delta = 7", "delta = 2");
    let stream = Stream::new("means", &spec);
    let table = |timestamps: std::ops::Range<u64>| {
        let line = |t: u64, user: u64| {
            let degrees = if t < 4 { 10 } else { 33 } + user % 9;
            format!("{t},u{user},{degrees}.25\n")
        };
        let lines: String = timestamps.flat_map(|t| (0..1_000).map(move |user| line(t, user))).collect();
        format!("t,user,value\n{lines}")
    };
    let (mut released, mut said) = (Vec::new(), Vec::new());
    for (run, timestamps) in [0..4, 4..8].into_iter().enumerate() {
        let answers = stream.path(&format!("answers-{run}.ndjson"));
        let output = stream.go_on(table(timestamps), &format!("--answers {answers}"));
        assert_eq!(
            stdout(&output).lines().next(),
            Some("t,value,variance,freshness,spent,seeded"),
            "{}",
            stderr(&output)
        );
        released.extend(rows(&output));
        said.extend(objects(&std::fs::read_to_string(&answers).unwrap()));
    }
    assert_eq!(released.len(), 8);
    for (t, row) in released.iter().enumerate() {
        let (value, deviation) = (row[1].parse::<f64>().unwrap(), row[2].parse::<f64>().unwrap().sqrt());
        let truth = if t < 4 { 14.25 } else { 37.25 };
        // Eight times beyond 5.5 deviations: a false alarm has a probability below 10^-6.
        assert!((value - truth).abs() < 5.5 * deviation && deviation < 3.0, "{row:?}");
        assert_eq!(freshness(row), "fresh", "{row:?}");
    }
    assert!(said.iter().any(|line| line["query"] == "week" && line["unit"] == "mean"), "{said:?}");
    assert!(said.iter().any(|line| line["monitor"] == "warm" && line["event"] == "started"), "{said:?}");
    // A value that is no number is refused; one outside the range is its nearest end.
    let word = stream.go_on("t,user,value\n9,anna,warm\n", "");
    assert_refused(&word, "line 2, field \"value\"");
    assert!(stream.go_on("t,user,value\n9,anna,9999\n", "").status.success());
}
