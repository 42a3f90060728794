//! Formats and examples.

use super::{CENTRAL, LOCAL, PERSONAL, SCALAR, SEQUENCE, Stream, as_json, example, long, objects, plbu, rows};
use crate::{assert_refused, stderr, stdout};

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
    for mechanism in ["pbd", "pba", "personal_track"] {
        specs.push((mechanism.to_owned(), with(PERSONAL, "pba", mechanism), 3));
    }
    specs.push(("plbu".to_owned(), plbu(), 3));
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
        let protects_presence = spec.contains("\"central\"");
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
    for (input, why) in [
        ("t,a,b\n0,1,2\n", "line 1: it has no column \"c\": counts have a column for each value of the domain"),
        ("t,a,b,b\n0,1,2,3\n", "line 1: 2 columns are called \"b\": leave all but the one"),
        ("t,a,b,c,d\n0,1,2,3,4\n", fields),
        ("t,a,b,x\n0,1,2,3\n", fields),
        ("t\n0\n", fields),
    ] {
        assert_refused(&stream.release(input, ""), why);
    }
    assert_refused(&stream.release("a,b,c\n1,2,3\n", ""), "line 1: it has no column \"t\": name the column of times");
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

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_needs_a_build_with_its_feature() {
    let stream = Stream::new("no-parquet", SCALAR);
    for options in [format!("--output {}", stream.path("x.parquet")), "--input x.parquet".to_owned()] {
        assert_refused(&stream.release("t,value\n0,5\n", &options), "built with the feature parquet");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_are_written_whole_and_read_by_their_columns() {
    let stream = Stream::new("parquet", SCALAR);
    let file = stream.path("x.parquet");
    let output = stream.release("t,value\n0,5\n1,6\n", &format!("--output {file}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    // What was released is no input: it has other columns.
    assert_refused(&stream.release("", &format!("--input {file}")), "x.parquet, line 1: it has no column");
    assert_refused(&stream.release("t,value\n0,5\n", "--format parquet"), "Parquet can be");
    let bad = stream.release("t,value\n0,5\nx,6\n", &format!("--output {}", stream.path("y.parquet")));
    assert_refused(&bad, "line 3, field \"t\"");
    assert!(!stream.folder.join("y.parquet").exists());
}
