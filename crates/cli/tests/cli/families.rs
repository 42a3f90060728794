//! `tidegate release` for every family, in both formats of text, across runs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::{assert_refused, command, run_with_input, stderr, stdout};

const LOCAL: &str = "family = \"local\"\nmechanism = \"lsp\"\nepsilon = 1\nwindow = 4\ndomain = [\"a\", \"b\", \"c\"]\npopulation = 9\n";
const CENTRAL: &str =
    "family = \"central\"\nmechanism = \"sample\"\nepsilon = 1\nwindow = 4\ndomain = [\"a\", \"b\", \"c\"]\n";
const PERSONAL: &str = "family = \"central\"\nmechanism = \"pba\"\ndomain = [\"a\", \"b\", \"c\"]\n\
     [[classes]]\nname = \"low\"\nepsilon = 1\nwindow = 2\n[[classes]]\nname = \"high\"\nepsilon = 0.5\nwindow = 4\n";
const SEQUENCE: &str = "family = \"sequence\"\nmechanism = \"crr\"\nepsilon = 1\nwindow = 4\nbudget = 1\ndomain = [\"a\", \"b\"]\n\
     model = { prior = [0.5, 0.5], transitions = [[0.9, 0.1], [0.2, 0.8]] }\n";
const EVENT: &str =
    "family = \"event\"\nmechanism = \"contin\"\nepsilon = 1\ndelay = 3\ndomain = { low = 0, high = 612 }\n";
const USERS: &str = "user,class\nanna,low\nben,high\ncem,low\n";

/// An empty directory of the test's own.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("families").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A folder with a spec and a table of users.
struct Stream {
    folder: PathBuf,
    is_personal: bool,
}

impl Stream {
    fn new(name: &str, spec: &str) -> Self {
        let folder = directory(name);
        std::fs::write(folder.join("stream.toml"), spec).unwrap();
        // The classes of the example are called otherwise.
        let users = if spec.contains("careful") {
            USERS.replace("low", "relaxed").replace("high", "careful")
        } else {
            USERS.to_owned()
        };
        std::fs::write(folder.join("users.csv"), users).unwrap();
        Self { folder, is_personal: spec.contains("[[classes]]") }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn arguments(&self, options: &str) -> String {
        let users = if self.is_personal { format!("--users {}", self.path("users.csv")) } else { String::new() };
        format!("release --spec {} {users} {options}", self.path("stream.toml"))
    }

    fn release(&self, input: impl AsRef<[u8]>, options: &str) -> Output {
        run_with_input(&self.arguments(options), input.as_ref())
    }

    /// With a state and, where readings are held back, a key.
    fn go_on(&self, input: impl AsRef<[u8]>, options: &str) -> Output {
        self.release(input, &format!("{} {options}", self.state()))
    }

    fn state(&self) -> String {
        let key = if self.folder.to_string_lossy().contains("event") {
            format!("--key {}", self.path("key"))
        } else {
            String::new()
        };
        format!("--state {} {key}", self.path("state"))
    }
}

fn rows(output: &Output) -> Vec<Vec<String>> {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output).lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// The freshness of a row, before who paid for it and whether it was seeded.
fn freshness(row: &[String]) -> &str {
    &row[row.len() - 3]
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A table in long form: each user a value at each timestamp.
fn long(timestamps: std::ops::Range<u64>, values: &[&str]) -> String {
    let users = ["anna", "ben", "cem"];
    let line = |t: u64| {
        let held = move |user: usize| values[(usize::try_from(t).unwrap() + user) % values.len()];
        (0..users.len()).map(move |user| format!("{t},{},{}\n", users[user], held(user))).collect::<String>()
    };
    std::iter::once("t,user,value\n".to_owned()).chain(timestamps.map(line)).collect()
}

/// The same table as lines of JSON.
fn as_json(csv: &str) -> String {
    let mut lines = csv.lines();
    let fields: Vec<&str> = lines.next().unwrap().split(',').collect();
    let object = |line: &str| {
        let cell = |(field, text): (&&str, &str)| match text.parse::<u64>() {
            Ok(number) => format!("\"{field}\": {number}"),
            Err(_) => format!("\"{field}\": \"{text}\""),
        };
        format!("{{{}}}\n", fields.iter().zip(line.split(',')).map(cell).collect::<Vec<_>>().join(", "))
    };
    lines.map(object).collect()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

#[test]
fn every_example_is_a_spec_that_names_every_key_of_its_family() {
    use tidegate::spec::{CentralSpec, ClassSpec, LocalSpec, ModelSpec, MonitorSpec, QuerySpec, SequenceSpec};

    let values = long(0..3, &["home", "shop"]);
    let symbols = long(0..3, &["still", "ride"]);
    let without = |keys: &[&'static str], out: &[&str]| -> Vec<&'static str> {
        keys.iter().copied().filter(|key| !out.contains(key)).collect()
    };
    let tables = ["queries", "monitors"];
    for (name, input, keys) in [
        ("local.toml", &values, LocalSpec::KEYS.to_vec()),
        ("central.toml", &values, without(CentralSpec::KEYS, &["classes", "estimator", "oracle"])),
        ("personal.toml", &values, {
            let mut keys = without(CentralSpec::KEYS, &["classes", "queries", "monitors"]);
            keys.extend(ClassSpec::KEYS);
            keys
        }),
        ("sequence.toml", &symbols, {
            let mut keys = without(SequenceSpec::KEYS, &["model"]);
            keys.extend(ModelSpec::KEYS);
            keys
        }),
        ("watch.toml", &values, {
            let mut keys = QuerySpec::KEYS.to_vec();
            keys.extend(MonitorSpec::KEYS);
            keys
        }),
    ] {
        let text = std::fs::read_to_string(example(name)).unwrap();
        for key in keys.iter().filter(|key| !tables.contains(key) || !name.contains("watch")) {
            let names = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
            assert!(text.lines().any(names), "{name}: {key}");
        }
        let stream = Stream::new(&format!("example-{name}"), &text);
        let output = stream.release(input, "");
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert!(stdout(&output).lines().count() > 3 * 3, "{name}: {}", stdout(&output));
    }
    // Commented keys are keys as well: each alone, where the mechanism has a use for it.
    for (name, keys) in [
        ("local.toml", &["oracle", "reuse", "trust", "queries", "monitors"][..]),
        ("central.toml", &["neighbours", "trust", "queries", "monitors"]),
        ("personal.toml", &["neighbours", "estimator", "trust"]),
        ("sequence.toml", &["guarantee", "distance", "effort", "trust"]),
        ("watch.toml", &["confidence", "delta", "shift"]),
    ] {
        let text = std::fs::read_to_string(example(name)).unwrap();
        let input = if name == "sequence.toml" { &symbols } else { &values };
        for key in keys {
            let text = text.replacen(&format!("# {key} = "), &format!("{key} = "), 1);
            let output = Stream::new(&format!("example-key-{name}"), &text).release(input, "");
            assert!(output.status.success(), "{name}, {key}: {}", stderr(&output));
        }
    }
    let text = std::fs::read_to_string(example("sequence.toml")).unwrap();
    let text =
        ["length", "part", "window", "budget"].iter().fold(text.replace("\"crr\"", "\"batched\""), |text, key| {
            text.replace(&format!("# {key} = "), &format!("{key} = "))
        });
    let output = Stream::new("example-batched", &text.replace("budget = 5.0", "budget = 1.0")).release(&symbols, "");
    assert_eq!(rows(&output).len(), 9, "{}", stderr(&output));
}

#[test]
fn every_mechanism_of_users_releases_each_timestamp_from_either_format_into_either() {
    let with = |spec: &str, from: &str, to: &str| spec.replace(&format!("\"{from}\""), &format!("\"{to}\""));
    let mut specs: Vec<(String, String, usize)> = Vec::new();
    for mechanism in ["lbu", "lsp", "lbd", "lba", "lpu", "lpd", "lpa"] {
        specs.push((mechanism.to_owned(), with(LOCAL, "lsp", mechanism), 3));
    }
    // A tree over three values: the root, two nodes and three leaves.
    specs.push(("mtsp".to_owned(), with(LOCAL, "lsp", "mtsp"), 6));
    specs.push(("mtsp_population".to_owned(), with(LOCAL, "lsp", "mtsp_population"), 6));
    for mechanism in ["uniform", "sample", "bd", "ba", "track"] {
        specs.push((mechanism.to_owned(), with(CENTRAL, "sample", mechanism), 3));
    }
    for mechanism in ["pbd", "pba", "personal_track", "plbu"] {
        specs.push((mechanism.to_owned(), with(PERSONAL, "pba", mechanism), 3));
    }
    let alone = SEQUENCE.replace("window = 4\nbudget = 1\n", "");
    let (without_model, _) = alone.split_once("model =").unwrap();
    specs.push(("crr".to_owned(), alone.clone(), 3));
    specs.push((
        "batched".to_owned(),
        with(&alone, "crr", "batched").replace("epsilon = 1", "epsilon = 2\nlength = 2"),
        3,
    ));
    specs.push(("rr".to_owned(), with(without_model, "crr", "rr"), 3));
    specs.push(("oue".to_owned(), with(without_model, "crr", "oue"), 3));
    for (name, spec, lines) in specs {
        let stream = Stream::new(&format!("each-{name}"), &spec);
        let csv = long(4..10, &["a", "b"]);
        let released = rows(&stream.release(&csv, "--seed 5"));
        let mut timestamps: Vec<u64> = released.iter().map(|row| row[0].parse().unwrap()).collect();
        timestamps.sort_unstable();
        // Where presence is protected, time begins at zero, whoever is there.
        let protects_presence = spec.contains("\"central\"") && name != "plbu";
        let first = if protects_presence { 0 } else { 4 };
        let expected: Vec<u64> = (first..10).flat_map(|t| std::iter::repeat_n(t, lines)).collect();
        assert_eq!(timestamps, expected, "{name}");
        // From lines of JSON, whose objects have their fields in another order, into lines of JSON.
        let output = stream.release(as_json(&csv), "--seed 5 --format ndjson");
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let printed = objects(stdout(&output));
        assert_eq!(printed.len(), released.len(), "{name}");
        for (object, row) in printed.iter().zip(&released) {
            assert_eq!(object["t"].to_string(), row[0], "{name}");
            assert_eq!(object["freshness"].as_str().unwrap(), row[row.len() - 3], "{name}");
            for (field, cell) in object.as_object().unwrap().iter().filter(|(_, cell)| cell.is_string()) {
                assert!(row.contains(&cell.as_str().unwrap().to_owned()), "{name}, {field}");
            }
            for (_, cell) in object.as_object().unwrap().iter().filter(|(_, cell)| cell.is_f64()) {
                let same = |text: &String| text.parse::<f64>().is_ok_and(|number| Some(number) == cell.as_f64());
                assert!(row.iter().any(same), "{name}: {cell} is not in {row:?}");
            }
        }
        // Not seeded, it is not the same again, but for what tells nothing.
        assert!(stream.release(&csv, "").status.success(), "{name}");
    }
}

#[test]
fn formats_are_told_by_the_names_of_files() {
    let stream = Stream::new("formats", CENTRAL);
    let input = long(0..2, &["a", "b"]);
    std::fs::write(stream.folder.join("in.jsonl"), as_json(&input)).unwrap();
    let (from, to) = (stream.path("in.jsonl"), stream.path("out.ndjson"));
    let output = stream.release("", &format!("--input {from} --output {to}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = objects(&std::fs::read_to_string(&to).unwrap());
    assert_eq!(printed.len(), 6);
    assert_eq!(printed[0].as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().len(), 7);
    let output = stream.release("", &format!("--input {from} --output -"));
    assert!(stdout(&output).starts_with("t,value,count,variance,freshness,spent,seeded\n"), "{}", stderr(&output));
    assert!(objects(stdout(&stream.release("", &format!("--input {from} --json")))).len() == 6);
    // A name that would be taken for two fields.
    let quoted = Stream::new("quoted", &CENTRAL.replace("\"c\"", "\"c, \\\"d\\\"\""));
    let output = quoted.release("t,user,value\n0,anna,\"c, \"\"d\"\"\"\n", "");
    assert!(stdout(&output).contains("\n0,\"c, \"\"d\"\"\","), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn counts_of_users_are_taken_in_any_order_of_their_fields() {
    let stream = Stream::new("wide", &CENTRAL.replace("epsilon = 1", "epsilon = 100"));
    for input in ["t,c,a,b\n0,3000,1000,2000\n", "{\"c\":3000,\"t\":0,\"b\":2000,\"a\":1000}\n"] {
        let format = if input.starts_with('t') { "csv" } else { "ndjson" };
        let output = stream.release(input, &format!("--seed 1 --json --format {format}"));
        let printed = objects(stdout(&output));
        let counts: Vec<(&str, f64)> =
            printed.iter().map(|line| (line["value"].as_str().unwrap(), line["count"].as_f64().unwrap())).collect();
        assert_eq!(counts.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b", "c"], "{}", stderr(&output));
        assert!(counts.iter().zip([1000.0, 2000.0, 3000.0]).all(|((_, count), truth)| (count - truth).abs() < 5.0));
    }
    let fields = "line 1: the fields must be t,user,value, or t and each value of the domain";
    for input in ["t,a,b\n0,1,2\n", "t,a,b,c,d\n0,1,2,3,4\n", "t,a,b,b\n0,1,2,3\n", "t,a,b,x\n0,1,2,3\n"] {
        assert_refused(&stream.release(input, ""), fields);
    }
    assert_refused(&stream.release("a,b,c\n1,2,3\n", ""), "line 1: the fields must be t,<value>,<value>,..");
    let huge = ("18446744073709551615", "a count of at most 2^53");
    for (cell, why) in
        [("-1", "a count"), ("1.5", "a count"), ("NaN", "a count"), ("", "a count"), ("1e99", "a count"), huge]
    {
        let output = stream.release(format!("t,a,b,c\n0,1,2,3\n1,1,{cell},1\n"), "");
        assert_refused(&output, &format!("line 3, field \"b\": expected {why}"));
    }
    assert_refused(
        &stream.release("t,a,b,c\n3,1,2,3\n3,1,2,3\n", ""),
        "line 3, field \"t\": expected a timestamp that is later",
    );
    assert_refused(&stream.release("t,a,b,c\n3,1,2\n", ""), "line 2: it has 3 fields, but 4 are expected");
}

#[test]
fn bad_lines_of_users_are_refused_with_line_and_field_and_leave_no_file() {
    let specs = [("local", LOCAL), ("central", CENTRAL), ("personal", PERSONAL), ("sequence", SEQUENCE)];
    let good = "0,anna,a\n0,ben,b\n1,anna,a\n";
    let json = as_json(&format!("t,user,value\n{good}"));
    let late = "timestamp that is not before the last";
    for (name, spec) in specs {
        let stream = Stream::new(&format!("bad-{name}"), spec);
        let refuse = |input: &[u8], format: &str, why: &str| {
            let secret = "sEcReT";
            let out = stream.path("released");
            let output = stream.release(input, &format!("--format {format} --output {out}"));
            assert_refused(&output, why);
            assert!(!stderr(&output).contains(secret), "{name}: {}", stderr(&output));
            let files: Vec<_> =
                std::fs::read_dir(&stream.folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(files.len(), 2, "{name}, {why}: {files:?}");
        };
        for (line, why) in [
            ("1,ben,sEcReT", "line 5, field \"value\": expected a value of the domain, as the spec names it"),
            ("1,ben,", "line 5, field \"value\": expected a value of the domain"),
            ("1,ben,NaN", "line 5, field \"value\": expected a value of the domain"),
            ("1,,a", "line 5, field \"user\": expected a user: some text"),
            ("1,anna,b", "line 5, field \"user\": expected a user who has no other line at the same timestamp"),
            ("0,cem,a", late),
            ("-1,ben,a", "line 5, field \"t\": expected a timestamp: a whole number, zero or more"),
            ("1.5,ben,a", "line 5, field \"t\": expected a timestamp: a whole number, zero or more"),
            ("inf,ben,a", "line 5, field \"t\": expected a timestamp: a whole number, zero or more"),
            (",ben,a", "line 5, field \"t\": expected a timestamp: a whole number, zero or more"),
            ("99999999999999999999,ben,a", "line 5, field \"t\": expected a timestamp: a whole number, zero or more"),
            ("1,ben", "line 5: it has 2 fields, but 3 are expected"),
            ("1,ben,a,b", "line 5: it has 4 fields, but 3 are expected"),
        ] {
            refuse(format!("t,user,value\n{good}{line}\n").as_bytes(), "csv", why);
        }
        for (line, why) in [
            (
                r#"{"t":1,"user":"ben","value":"sEcReT"}"#,
                "line 4, field \"value\": expected a value of the domain, as the spec names it",
            ),
            (r#"{"t":1,"user":"ben","value":""}"#, "line 4, field \"value\": expected a value of the domain"),
            (r#"{"t":1,"user":"ben","value":null}"#, "line 4, field \"value\": expected a value of the domain"),
            (r#"{"t":1,"user":"ben","value":["sEcReT"]}"#, "line 4, field \"value\": expected a value of the domain"),
            (r#"{"t":1,"user":"","value":"a"}"#, "line 4, field \"user\": expected a user: some text"),
            (r#"{"t":1,"user":"anna","value":"b"}"#, "line 4, field \"user\": expected a user who has no other line"),
            (r#"{"t":0,"user":"cem","value":"a"}"#, late),
            (
                r#"{"t":-1,"user":"ben","value":"a"}"#,
                "line 4, field \"t\": expected a timestamp: a whole number, zero or more",
            ),
            (r#"{"t":1e300,"user":"ben","value":"a"}"#, "line 4, field \"t\": expected a timestamp"),
            (r#"{"t":1e999,"user":"ben","value":"a"}"#, "line 4, field \"t\": expected a timestamp"),
            (r#"{"t":NaN,"user":"ben","value":"a"}"#, "line 4, field \"t\": expected a text or a number"),
            (r#"{"t":1,"user":"ben"}"#, "line 4, field \"value\": expected to be there, once"),
            (r#"{"t":1,"user":"ben","value":"a","value":"a"}"#, "line 4, field \"value\": expected to be there, once"),
            (r#"{"t":1,"user":"ben","value":"a","x":"a"}"#, "line 4: it has 4 fields, but 3 are expected"),
            (r#"{"t":1,"user":"ben","value":"sEcR"#, "line 4, field \"value\": expected a text or a number"),
            (r#"{"t":1,"user":"ben","value":"a""#, "line 4: it is not a JSON object"),
            ("[1,2,3]", "line 4: it is not a JSON object"),
            ("sEcReT", "line 4: it is not a JSON object"),
        ] {
            refuse(format!("{json}{line}\n").as_bytes(), "ndjson", why);
        }
        refuse(b"", "csv", "standard input, line 1: the file is empty");
        refuse(b"", "ndjson", "standard input, line 1: the file is empty");
        refuse(b"t,user\n", "csv", "line 1: the fields must be t");
        refuse(
            b"{\"t\":1}\n",
            "ndjson",
            if name == "central" { "line 1: the fields must be t" } else { "line 1: the fields must be t,user,value" },
        );
        refuse(
            &[format!("t,user,value\n{good}1,ben,").as_bytes(), b"\xff\n"].concat(),
            "csv",
            "line 5: it is not valid UTF-8",
        );
        refuse(&[json.as_bytes(), b"{\"t\":\"\xff\"}\n"].concat(), "ndjson", "line 4: it is not valid UTF-8");
    }
    // Numbers as lines of JSON.
    let stream = Stream::new("bad-event", EVENT);
    for (line, why) in [
        (r#"{"t":1.5,"value":1}"#, "line 2, field \"t\": expected a timestamp"),
        (r#"{"t":1,"value":1,"value":2}"#, "line 2, field \"value\": expected to be there, once"),
        (r#"{"t":0,"value":1}"#, "line 2, field \"t\": expected a timestamp that is later than the last"),
        (r#"{"t":1,"value":1"#, "line 2"),
    ] {
        assert_refused(&stream.release(format!("{{\"t\":0,\"value\":5}}\n{line}\n"), "--format ndjson"), why);
    }
    assert_eq!(
        rows(&stream.release("{\"value\":5,\"t\":0}\n\n{\"t\":2,\"value\":\"7\"}", "--format ndjson --output -")).len(),
        1
    );
    // A compressed file that breaks off.
    let whole = [0x1f_u8, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 43, 209, 41, 75];
    std::fs::write(stream.folder.join("in.csv.gz"), whole).unwrap();
    let output = stream.release("", &format!("--input {}", stream.path("in.csv.gz")));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn what_is_wrong_with_a_spec_of_users_is_said_with_line_and_key() {
    let query = |line: &str| format!("{CENTRAL}[[queries]]\nname = \"q\"\n{line}\n");
    let monitor = |line: &str| format!("{CENTRAL}[[monitors]]\nname = \"m\"\nvalue = \"a\"\n{line}\n");
    for (spec, why) in [
        (
            LOCAL.replace("lsp", "lpx"),
            "line 2, key \"mechanism\": there is no local mechanism \"lpx\" (did you mean lp",
        ),
        (
            format!("{LOCAL}oracle = \"olhh\"\n"),
            "line 7, key \"oracle\": there is no frequency oracle \"olhh\" (did you mean olh?)",
        ),
        (
            format!("{LOCAL}orcale = \"olh\"\n"),
            "line 7: there is no key \"orcale\" (did you mean oracle?); there are: mechanism, epsilon",
        ),
        (format!("{LOCAL}reuse = true\n"), "line 7, key \"reuse\": lsp has no use for it"),
        (format!("{LOCAL}smoother = \"mean\"\n"), "line 7, key \"smoother\": lsp has no use for it"),
        (
            format!("{LOCAL}trust = \"curator\"\n"),
            "line 7, key \"trust\": lsp is for those who trust the device, not the curator",
        ),
        (format!("{LOCAL}delay = 3\n"), "line 7: there is no key \"delay\""),
        (LOCAL.replace("\"c\"", "\"a\""), "line 5, key \"domain\": two values are called \"a\""),
        (LOCAL.replace("\"c\"", "\" c\""), "line 5, key \"domain\": \" c\" is no name"),
        (LOCAL.replace("[\"a\", \"b\", \"c\"]", "1"), "line 5, key \"domain\": a domain of 1 values is outside 2.."),
        (LOCAL.replace("[\"a\", \"b\", \"c\"]", "0"), "line 5, key \"domain\": a domain of 0 values"),
        (
            LOCAL.replace("[\"a\", \"b\", \"c\"]", "{ low = 0 }"),
            "line 5, key \"domain\": a list of names, or how many values there are",
        ),
        (LOCAL.replace("window = 4", "window = 0"), "line 4, key \"window\": "),
        (LOCAL.replace("population = 9\n", ""), "missing field `population`"),
        (CENTRAL.replace("window = 4\n", ""), "sample needs the key window"),
        (
            CENTRAL.replace("sample", "smaple"),
            "line 2, key \"mechanism\": there is no central mechanism \"smaple\" (did you mean sample?)",
        ),
        (format!("{CENTRAL}estimator = \"sampling\"\n"), "line 6, key \"estimator\": sample has no use for it"),
        (
            format!("{CENTRAL}neighbours = \"replaced\"\n"),
            "line 6, key \"neighbours\": unknown variant `replaced`, expected `add_remove` or `replace` (did you mean replace?)",
        ),
        (PERSONAL.replace("pba", "ba"), "key \"classes\": ba has no use for it"),
        (PERSONAL.replace("\"pba\"", "\"pba\"\nepsilon = 1"), "line 3, key \"epsilon\": pba has no use for it"),
        (PERSONAL.replace("high", "low"), "key \"classes\": two classes are called \"low\""),
        (PERSONAL.replace("window = 2", "windw = 2"), "line 7: there is no key \"windw\" (did you mean window?)"),
        (CENTRAL.replace("sample\"\nepsilon = 1\nwindow = 4", "pba\""), "pba needs the key classes"),
        (SEQUENCE.replace("crr", "rr"), "key \"model\": rr has no use for it"),
        (SEQUENCE.replace("budget = 1\n", ""), "crr needs the key budget"),
        (SEQUENCE.replace("window = 4\n", ""), "crr needs the key window"),
        (format!("{SEQUENCE}length = 2\n"), "line 8, key \"length\": crr has no use for it"),
        (SEQUENCE.replace("crr", "batched"), "batched needs the key length"),
        (SEQUENCE.replace("[0.2, 0.8]", "[0.2, 0.7]"), "line 7, key \"model\": "),
        (
            SEQUENCE.replace("[0.2, 0.8]", "[0.2]"),
            "line 7, key \"model\": a row of the transitions has 1 entries, but 2 are needed",
        ),
        (SEQUENCE.replace("prior", "priro"), "line 7, key \"model\": there is no key \"priro\" (did you mean prior?)"),
        (format!("{SEQUENCE}distance = \"haming\"\n"), "line 8, key \"distance\": unknown variant `haming`, expected"),
        (format!("{SEQUENCE}queries = []\n"), "line 8: there is no key \"queries\""),
        (query("value = \"x\""), "key \"queries\": \"q\": the domain has no value \"x\""),
        (query("first = \"b\"\nlast = \"a\""), "key \"queries\": \"q\": the range from 1 to 0 is reversed"),
        (query("delta = 2"), "key \"queries\": \"q\": it is about one value, or about those from first to last"),
        (query("value = \"a\"\ndelta = 0"), "a period of zero timestamps has no sum"),
        (query("value = \"a\"\nconfidence = 1"), "a confidence of 1 was given"),
        (query("top = 4"), "the top 4 of 3 values were asked for"),
        (query("top = 1\nvalue = \"a\""), "top asks about all values of one timestamp"),
        (query("vlaue = \"a\""), "line 8: there is no key \"vlaue\" (did you mean value?)"),
        (
            query("value = \"a\"\n[[queries]]\nname = \"q\"\nvalue = \"b\""),
            "key \"queries\": \"q\": two have this name",
        ),
        (monitor("direction = \"above\"\nstart = 1\nend = 2"), "an event that starts above 1 cannot end already at 2"),
        (monitor("direction = \"up\"\nstart = 1"), "line 9, key \"direction\": unknown variant `up`"),
        (monitor("direction = \"above\"\nstart = 1\nshift = 2"), "a level has no shift"),
    ] {
        assert_refused(&Stream::new("spec-errors", &spec).release("t,user,value\n0,anna,a\n", ""), why);
    }
}

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
    assert_refused(
        &local.release(&input, &format!("--users {}", local.path("users.csv"))),
        "--users is for the central family",
    );
}

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
        ("plbu", with(PERSONAL, "pba", "plbu")),
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
        [("event", EVENT), ("local", LOCAL), ("central", CENTRAL), ("personal", PERSONAL), ("sequence", SEQUENCE)];
    for (name, spec) in specs {
        let stream = Stream::new(&format!("damaged-{name}"), spec);
        let state = stream.folder.join("state");
        let (first, second) = if name == "event" {
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
    let stream = Stream::new("key-event", EVENT);
    let state = format!("--state {}", stream.path("state"));
    assert_refused(&stream.release("t,value\n0,5\n", &state), "--key must name a key file");
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

fn spawn(stream: &Stream, options: &str) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut command = command(&stream.arguments(options));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn next_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn after_a_crash_readings_that_were_held_back_are_released_and_none_twice() {
    let stream = Stream::new("crash-event", EVENT);
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
    assert!((count(&stream.go_on(lines, "--seed 3")) - 400.0).abs() < 40.0);
    // In another class from 4 on, the longer of the two windows after 0: until then nobody is there.
    let (users, lines) = many(3, "high");
    table(&users);
    let sitting_out = stream.go_on(lines, "--seed 3");
    assert_ne!(freshness(rows(&sitting_out).last().unwrap()), "fresh", "{}", stdout(&sitting_out));
    let (_, lines) = many(4, "high");
    let output = stream.go_on(lines, "--seed 3");
    assert!((count(&output) - 400.0).abs() < 40.0, "{}", stdout(&output));

    let devices = Stream::new("moves-device", &PERSONAL.replace("pba", "plbu"));
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
        + "[[queries]]\nname = \"sum\"\nfirst = \"a\"\nlast = \"b\"\ndelta = 2\nunit = \"counts\"\n\
           [[queries]]\nname = \"most\"\ntop = 2\nunit = \"counts\"\n\
           [[monitors]]\nname = \"busy\"\nvalue = \"c\"\nunit = \"counts\"\ndirection = \"above\"\nstart = 500\nend = 400\n";
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
fn state_and_key_are_files_of_their_own() {
    let stream = Stream::new("own-event", EVENT);
    let (a, b) = (stream.path("a"), stream.path("b"));
    for options in [
        format!("--state {a} --key {b} --output {a}"),
        format!("--state {a} --key {a}"),
        format!("--state {a} --key {b} --output {b}"),
        format!("--state {} --key {b}", stream.path("stream.toml")),
    ] {
        assert_refused(&stream.release("t,value\n0,5\n", &options), "state and key must be files of their own");
    }
    assert_eq!(std::fs::read_to_string(stream.folder.join("stream.toml")).unwrap(), EVENT);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_needs_a_build_with_its_feature() {
    let stream = Stream::new("no-parquet", EVENT);
    for options in [format!("--output {}", stream.path("x.parquet")), "--input x.parquet".to_owned()] {
        assert_refused(&stream.release("t,value\n0,5\n", &options), "built with the feature parquet");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_are_written_whole_and_read_by_their_columns() {
    let stream = Stream::new("parquet", EVENT);
    let file = stream.path("x.parquet");
    let output = stream.release("t,value\n0,5\n1,6\n", &format!("--output {file}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    // What was released is no input: it has other columns.
    assert_refused(&stream.release("", &format!("--input {file}")), "x.parquet, line 1: the fields must be t,value");
    assert_refused(&stream.release("t,value\n0,5\n", "--format parquet"), "Parquet can be");
    let bad = stream.release("t,value\n0,5\n1,x\n", &format!("--output {}", stream.path("y.parquet")));
    assert_refused(&bad, "line 3, field \"value\"");
    assert!(!stream.folder.join("y.parquet").exists());
}
