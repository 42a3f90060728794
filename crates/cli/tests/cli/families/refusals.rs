//! Invalid lines and specs.

use super::{CENTRAL, LOCAL, PERSONAL, SCALAR, SEQUENCE, Stream, as_json, rows};
use crate::{assert_refused, stderr};

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
            (r#"{"t":1,"user":"ben","value":"sEcR"#, "line 4, field \"value\": expected a text or a number"),
            (r#"{"t":1,"user":"ben","value":"a""#, "line 4: it is not a JSON object"),
            ("[1,2,3]", "line 4: it is not a JSON object"),
            ("sEcReT", "line 4: it is not a JSON object"),
        ] {
            refuse(format!("{json}{line}\n").as_bytes(), "ndjson", why);
        }
        refuse(b"", "csv", "standard input, line 1: the file is empty");
        refuse(b"", "ndjson", "standard input, line 1: the file is empty");
        let fields = if name == "central" { "line 1: the fields must be t" } else { "line 1: it has no column" };
        refuse(b"t,user\n", "csv", fields);
        refuse(b"{\"t\":1}\n", "ndjson", fields);
        refuse(
            &[format!("t,user,value\n{good}1,ben,").as_bytes(), b"\xff\n"].concat(),
            "csv",
            "line 5: it is not valid UTF-8",
        );
        refuse(&[json.as_bytes(), b"{\"t\":\"\xff\"}\n"].concat(), "ndjson", "line 4: it is not valid UTF-8");
    }
    // Numbers as lines of JSON.
    let stream = Stream::new("bad-scalar", SCALAR);
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
            "line 5, key \"domain\": expected a list of names, how many values there are, or low and high of numbers",
        ),
        (LOCAL.replace("window = 4", "window = 0"), "line 4, key \"window\": "),
        (LOCAL.replace("population = 9\n", ""), "lsp needs the key population"),
        (CENTRAL.replace("window = 4\n", ""), "sample needs the key window"),
        (
            CENTRAL.replace("sample", "smaple"),
            "line 2, key \"mechanism\": there is no central mechanism \"smaple\" (did you mean sample?)",
        ),
        (format!("{CENTRAL}estimator = \"sampling\"\n"), "line 6, key \"estimator\": sample has no use for it"),
        (
            format!("{CENTRAL}neighbours = \"replaced\"\n"),
            "line 6, key \"neighbours\": there is no \"replaced\" (did you mean replace?); there are: add_remove, \
             replace",
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
        (
            format!("{SEQUENCE}distance = \"haming\"\n"),
            "line 8, key \"distance\": there is no \"haming\" (did you mean hamming?)",
        ),
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
        (
            monitor("direction = \"up\"\nstart = 1"),
            "line 9, key \"direction\": there is no \"up\"; there are: above, below",
        ),
        (monitor("direction = \"above\"\nstart = 1\nshift = 2"), "a level has no shift"),
    ] {
        assert_refused(&Stream::new("spec-errors", &spec).release("t,user,value\n0,anna,a\n", ""), why);
    }
}
