//! Streams from tables of one's own.

use tidegate_lab::datasets::{self, DatasetError, LoadOptions, NumberDomain, load};
use tidegate_lab::{CountStream, DataStream};

use crate::support::{counts, directory, gzip, numbers, write};

#[test]
fn reads_a_wide_table_compressed_or_not() {
    let folder = directory("wide");
    let content = "t,red,green\n7,1,2\n8,3,4\n9,0,1\n";
    for (name, bytes) in [("a.csv", content.as_bytes().to_vec()), ("b.csv.gz", gzip(content))] {
        let path = folder.join(name);
        write(&path, bytes);
        let stream = counts(load(path.to_str().unwrap(), &LoadOptions::default()).unwrap());
        assert_eq!(stream.counts(), [[1, 2], [3, 4], [0, 1]]);
        assert_eq!(stream.labels(), ["red", "green"]);
        assert_eq!(stream.name(), path.to_str().unwrap());
    }
    let cut = LoadOptions { length: Some(1), population: Some(300), ..LoadOptions::default() };
    assert_eq!(counts(load(folder.join("a.csv").to_str().unwrap(), &cut).unwrap()).counts(), [[100, 200]]);
}

#[test]
fn counts_must_be_a_stream() {
    let error = |content: &str| {
        datasets::load_from("w.csv", content.as_bytes(), &LoadOptions::default()).unwrap_err().to_string()
    };
    assert_eq!(error("t,a,b\n"), "w.csv: the stream has no timestamps");
    assert_eq!(error("t\n0\n"), "w.csv: a domain needs at least one value");
    assert_eq!(error("t,a,a\n0,1,1\n"), "w.csv: the value \"a\" occurs twice in the domain");
    // A single value, nobody at a timestamp, and no line for one.
    let read =
        |content: &str| counts(datasets::load_from("w.csv", content.as_bytes(), &LoadOptions::default()).unwrap());
    assert_eq!(read("t,a\n0,1\n1,0\n3,2\n").counts(), [[1], [0], [0], [2]]);
}

#[test]
fn reads_json_compressed_or_not() {
    let folder = directory("json-lines");
    let content = "{\"red\": 1, \"t\": 7, \"green\": 2}\n\n{\"t\":8,\"green\":\"4\",\"red\":3.0}\n";
    for (name, bytes) in [("a.ndjson", content.as_bytes().to_vec()), ("b.jsonl.gz", gzip(content))] {
        let path = folder.join(name);
        write(&path, bytes);
        let stream = counts(load(path.to_str().unwrap(), &LoadOptions::default()).unwrap());
        assert_eq!(stream.counts(), [[1, 2], [3, 4]]);
        assert_eq!(stream.labels(), ["red", "green"]);
    }
    let domain = Some(NumberDomain { low: -1.0, high: 5.0, resolution: Some(0.5) });
    let path = folder.join("c.ndjson");
    write(&path, "{\"t\": 0, \"value\": -0.5}\n{\"value\": 2, \"t\": 3}");
    let stream = load(path.to_str().unwrap(), &LoadOptions { domain, ..LoadOptions::default() }).unwrap();
    assert_eq!(numbers(stream).values(), [-0.5, 2.0]);
}

fn load_scalar(content: &str, low: f64, high: f64, resolution: Option<f64>) -> Result<DataStream, DatasetError> {
    let domain = Some(NumberDomain { low, high, resolution });
    datasets::load_from("s.csv", content.as_bytes(), &LoadOptions { domain, ..LoadOptions::default() })
}

fn scalar_error(content: &str) -> String {
    load_scalar(content, 0.0, 10.0, None).unwrap_err().to_string()
}

#[test]
fn a_scalar_table_has_the_given_domain() {
    let stream = numbers(load_scalar("t,value\n3,1\n4,10\n9,0\n", 0.0, 10.0, None).unwrap());
    assert_eq!(stream.values(), [1.0, 10.0, 0.0]);
    assert_eq!((stream.grid().high(), stream.grid().step()), (10.0, 1.0));
    let stream = numbers(load_scalar("t,value\r\n0,-1.25\r\n", -2.0, 2.0, Some(0.1)).unwrap());
    assert_eq!((stream.values(), stream.grid().width()), (&[-1.25][..], 40));
    // As spreadsheets save them: a byte order mark, quotes.
    assert!(load_scalar("\u{feff}\"t\",\"value\"\n\"0\",\"1\"\n", 0.0, 1.0, None).is_ok());
    let without = datasets::load_from("s.csv", "t,value\n0,1\n".as_bytes(), &LoadOptions::default());
    assert!(matches!(without, Err(DatasetError::NoDomain { .. })));
    let wide = load_scalar("t,a,b\n0,1,1\n", 0.0, 1.0, None).unwrap_err();
    assert!(matches!(wide, DatasetError::OwnDomain { .. }));
    let domain = Some(NumberDomain { low: 0.0, high: 1.0, resolution: None });
    assert!(matches!(
        load("sin", &LoadOptions { domain, ..LoadOptions::default() }),
        Err(DatasetError::OwnDomain { .. })
    ));
    assert!(matches!(load_scalar("t,value\n0,1\n", 1.0, 1.0, None), Err(DatasetError::Domain(_))));
    assert!(matches!(load_scalar("t,value\n0,1\n", 0.0, 1.0, Some(0.0)), Err(DatasetError::Domain(_))));
}

/// As in a release.
#[test]
fn numbers_are_moved_into_the_domain() {
    for (given, read) in
        [("NaN", 0.0), ("inf", 10.0), ("", 0.0), ("1 2", 0.0), ("11", 10.0), ("-0.5", 0.0), ("0.5", 1.0), ("x", 0.0)]
    {
        let stream = numbers(load_scalar(&format!("t,value\n0,1\n1,{given}\n"), 0.0, 10.0, None).unwrap());
        assert_eq!(stream.values(), [1.0, read], "{given}");
    }
}

#[test]
fn errors_name_the_line_and_the_field() {
    for (bad, expected) in [
        (
            "0",
            "a timestamp that is later than the last; duplicates = \"first\" or \"last\" says which of several counts",
        ),
        ("-1", "a timestamp: a whole number, zero or more"),
        ("1.0", "a timestamp: a whole number, zero or more"),
    ] {
        let message = scalar_error(&format!("t,value\n0,1\n{bad},1\n"));
        assert_eq!(message, format!("s.csv, line 3, field \"t\": expected {expected}"));
    }
    assert_eq!(scalar_error("t,value\n0,1\n1\n"), "s.csv, line 3: it has 1 fields, but 2 are expected");
    assert_eq!(scalar_error("t,value\n"), "s.csv: the stream has no timestamps");
}

const DOMAIN: NumberDomain = NumberDomain { low: -1.0, high: 1.0, resolution: None };

fn counted(content: &str, domain: NumberDomain) -> Result<CountStream, DatasetError> {
    let options = LoadOptions { domain: Some(domain), ..LoadOptions::default() };
    datasets::load_from("table", content.as_bytes(), &options).map(counts)
}

#[test]
fn users_of_each_value_are_counted() {
    let stream = counted("t,user,value\n5,a,1\n5,b,-1\n5,c,1\n6,b,0\n", DOMAIN).unwrap();
    assert_eq!(stream.counts(), [[1, 0, 2], [0, 1, 0]]);
    assert_eq!(stream.labels(), ["-1", "0", "1"]);
    let wrong = |content: &str, domain| counted(content, domain).unwrap_err().to_string();
    let outside = "table, line 2, field \"value\": expected a value of the domain, as --values or --domain names it";
    for value in ["2", "0.5", "NaN", "inf", "x", ""] {
        assert_eq!(wrong(&format!("t,user,value\n0,a,{value}\n"), DOMAIN), outside);
    }
    let fine = NumberDomain { resolution: Some(0.5), ..DOMAIN };
    assert!(wrong("t,user,value\n0,a,1\n", fine).contains("the whole numbers of its domain"));
    assert!(wrong("t,user,value\n0,a,1\n0,a,1\n", DOMAIN).contains("line 3, field \"user\""));
    // Nobody is there in between.
    let gap = counted("t,user,value\n0,a,1\n2,a,1\n", DOMAIN).unwrap();
    assert_eq!(gap.counts(), [[0, 0, 1], [0, 0, 0], [0, 0, 1]]);
    assert!(wrong("t,user,value\n0,a,1\n1772323200,a,1\n", DOMAIN).contains("line 3, field \"t\": expected a stream"));
    assert!(datasets::load_from("table", "t,user,value\n".as_bytes(), &LoadOptions::default()).is_err());
}
