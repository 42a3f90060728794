//! `tidegate release` follows a timeline: no missing line tells that somebody is absent.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::{assert_refused, run_with_input, stderr, stdout};

const CLASSES: &str = "[[classes]]\nname = \"low\"\nepsilon = 1\nwindow = 2\n\
                       [[classes]]\nname = \"high\"\nepsilon = 0.5\nwindow = 4\n";

/// A folder with a spec and a table of users.
struct Stream(PathBuf);

impl Stream {
    fn new(name: &str, spec: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("timeline").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stream.toml"), spec).unwrap();
        std::fs::write(folder.join("users.csv"), "user,class\nanna,low\nben,high\n").unwrap();
        Self(folder)
    }

    /// A central stream of two values, with one guarantee for all.
    fn central(name: &str, more: &str) -> Self {
        // With larger steps, a window is a single timestamp.
        let window = if more.contains("step") { 1 } else { 4 };
        Self::new(
            name,
            &format!(
                "family = \"central\"\nmechanism = \"{name}\"\nepsilon = 1\nwindow = {window}\ndomain = 2\n{more}"
            ),
        )
    }

    fn release(&self, input: &str, options: &str) -> Output {
        let spec = self.0.join("stream.toml");
        run_with_input(&format!("release --spec {} {options}", spec.display()), input.as_bytes())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// The timestamps that were released, in order, each once for all its lines.
fn timestamps(output: &Output) -> Vec<u64> {
    assert!(output.status.success(), "{}", stderr(output));
    let lines = stdout(output).lines().skip(1);
    let mut timestamps: Vec<u64> = lines.map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    timestamps.dedup();
    timestamps
}

/// Two inputs that differ by one line, of a user who is alone at the first, at a middle and at the last timestamp.
const NEIGHBOURS: [(&str, &str); 3] = [
    ("t,user,value\n0,ben,1\n2,anna,0\n3,anna,1\n", "t,user,value\n2,anna,0\n3,anna,1\n"),
    ("t,user,value\n2,anna,0\n5,ben,1\n6,anna,1\n", "t,user,value\n2,anna,0\n6,anna,1\n"),
    ("t,user,value\n2,anna,0\n6,anna,1\n9,ben,1\n", "t,user,value\n2,anna,0\n6,anna,1\n"),
];

#[test]
fn an_absent_user_leaves_the_timestamps_as_they_are() {
    for mechanism in ["uniform", "sample", "bd", "ba", "track"] {
        let stream = Stream::central(mechanism, "");
        for (with, without) in NEIGHBOURS {
            let released = stream.release(with, "--through 9");
            assert_eq!(timestamps(&released), (0..=9).collect::<Vec<u64>>(), "{mechanism}");
            assert_eq!(timestamps(&stream.release(without, "--through 9")), timestamps(&released), "{mechanism}");
            assert!(stderr(&released).lines().all(|line| !line.contains("--through")), "{}", stderr(&released));
        }
        let nobody = stream.release("t,user,value\n", "--through 9 --json");
        assert_eq!(stdout(&nobody).lines().count(), 20, "{}", stderr(&nobody));
    }
    for mechanism in ["pbd", "pba", "personal_track"] {
        let spec = format!("family = \"central\"\nmechanism = \"{mechanism}\"\ndomain = 2\n{CLASSES}");
        let stream = Stream::new(mechanism, &spec);
        let options = format!("--through 9 --users {}", stream.path("users.csv"));
        for (with, without) in NEIGHBOURS {
            assert_eq!(timestamps(&stream.release(with, &options)), (0..=9).collect::<Vec<u64>>(), "{mechanism}");
            assert_eq!(timestamps(&stream.release(without, &options)), (0..=9).collect::<Vec<u64>>(), "{mechanism}");
        }
    }
}

#[test]
fn without_an_end_the_input_says_where_to_end() {
    let stream = Stream::central("uniform", "");
    let (with, without) = NEIGHBOURS[2];
    for (input, last) in [(with, 9), (without, 6)] {
        let released = stream.release(input, "");
        assert_eq!(timestamps(&released), (0..=last).collect::<Vec<u64>>());
        assert!(stderr(&released).contains("--through T releases up to timestamp T"), "{}", stderr(&released));
    }
    // Counts of nobody are as good as no line.
    assert_eq!(timestamps(&stream.release("t,0,1\n1,3,4\n4,0,1\n", "")), [0, 1, 2, 3, 4]);
}

#[test]
fn a_declared_timeline_is_followed_by_every_family() {
    let timeline = "timeline = { start = 10, step = 5 }\n";
    let replace = Stream::central("ba", &format!("neighbours = \"replace\"\n{timeline}"));
    let local = format!(
        "family = \"local\"\nmechanism = \"lpa\"\nepsilon = 1\nwindow = 1\ndomain = 2\npopulation = 9\n{timeline}"
    );
    let local = Stream::new("local", &local);
    let classes = CLASSES.replace("window = 2", "window = 1").replace("window = 4", "window = 1");
    let plbu =
        Stream::new("plbu", &format!("family = \"local\"\nmechanism = \"plbu\"\ndomain = 2\n{timeline}{classes}"));
    let users = format!("--users {}", plbu.path("users.csv"));
    for (stream, options) in [(&replace, ""), (&local, ""), (&plbu, users.as_str())] {
        let input = "t,user,value\n20,anna,0\n35,ben,1\n";
        let all = timestamps(&stream.release(input, &format!("{options} --through 40")));
        assert_eq!(all, [10, 15, 20, 25, 30, 35, 40]);
        let off = stream.release("t,user,value\n20,anna,0\n21,ben,1\n", options);
        assert_eq!(off.status.code(), Some(2));
        let why = "line 3, field \"t\": expected a timestamp of the timeline: 10, 15, 20, ..";
        assert!(stderr(&off).contains(why), "{}", stderr(&off));
    }
    let event = "family = \"scalar\"\nmechanism = \"contin\"\nepsilon = 1\ndelay = 2\n\
                 domain = { low = 5, high = 612 }\nprotects = \"reading\"\n";
    let event = Stream::new("scalar", &format!("{event}{timeline}"));
    let all = timestamps(&event.release("t,value\n15,100\n30,200\n", "--through 35"));
    assert_eq!(all, [10, 15, 20, 25, 30, 35]);
    assert_refused(&event.release("t,value\n11,100\n", ""), "line 2, field \"t\"");
    assert_refused(
        &event.release("t,value\n10,100\n", "--through 36"),
        "--through 36: expected a timestamp of the timeline",
    );
}

#[test]
fn without_a_timeline_the_timestamps_of_the_input_are_released() {
    let replace = Stream::central("bd", "neighbours = \"replace\"\n");
    let released = replace.release(NEIGHBOURS[1].0, "");
    assert_eq!(timestamps(&released), [2, 5, 6]);
    assert!(!stderr(&released).contains("--through"), "{}", stderr(&released));
    assert_refused(&replace.release(NEIGHBOURS[1].0, "--through 9"), "--through is for specs with a timeline");
}

#[test]
fn a_gap_that_is_too_long_is_refused_at_once() {
    let stream = Stream::central("sample", "");
    let gap = stream.release("t,user,value\n0,anna,0\n1000000000000,ben,1\n", "");
    assert_eq!(gap.status.code(), Some(2));
    let why = "line 3, field \"t\": expected at most 500000 timestamps without a line before it";
    assert!(stderr(&gap).contains(why), "{}", stderr(&gap));
    let lead = stream.release("t,user,value\n1000000000000,ben,1\n", "");
    assert!(stderr(&lead).contains("the spec's timeline says where time starts"), "{}", stderr(&lead));
    assert_refused(
        &stream.release("t,user,value\n", "--through 1000000000000"),
        "are too many for a run: at most 50000000",
    );
    // Where time starts later, or in larger steps, the same lines are near each other.
    let step = Stream::central("uniform", "timeline = { start = 0, step = 500000000000 }\n");
    assert_eq!(
        timestamps(&step.release("t,user,value\n1000000000000,ben,1\n", "")),
        [0, 500_000_000_000, 1_000_000_000_000]
    );
    assert_refused(
        &step.release("t,user,value\n500000000000,ben,1\n", "--through 0"),
        "a timestamp up to 0, as --through says",
    );
}

#[test]
fn a_timeline_goes_on_across_runs() {
    let stream = Stream::central("track", "");
    let state = format!("--state {}", stream.path("state"));
    let first = stream.release("t,user,value\n1,anna,0\n", &format!("{state} --new-state --through 3"));
    assert_eq!(timestamps(&first), [0, 1, 2, 3]);
    let second = stream.release("t,user,value\n6,anna,0\n", &state);
    assert_eq!(timestamps(&second), [4, 5, 6]);
    let third = stream.release("t,user,value\n", &format!("{state} --through 8"));
    assert_eq!(timestamps(&third), [7, 8]);
    assert_refused(&stream.release("t,user,value\n8,anna,0\n", &state), "line 2, field \"t\"");
}
