//! Newline-delimited JSON.

use crate::wide::read;

fn error(content: &str) -> String {
    read("w.ndjson", content.as_bytes()).unwrap_err().to_string()
}

#[test]
fn errors_name_the_field_without_its_content() {
    let first = "{\"t\": 0, \"a\": 1, \"b\": 2}\n";
    for bad in ["{", "[1]", "secret"] {
        assert_eq!(error(&format!("{first}{bad}\n")), "w.ndjson, line 2: it is not a JSON object");
    }
    for (bad, expected) in [
        ("{\"t\": 1, \"a\": true, \"b\": 2}", "a count: a whole number, zero or more"),
        ("{\"t\": 1, \"a\": null, \"b\": 1}", "a text or a number"),
    ] {
        let expected = format!("w.ndjson, line 2, field \"a\": expected {expected}");
        assert_eq!(error(&format!("{first}{bad}\n")), expected);
    }
    let twice = "{\"t\": 1, \"a\": 1, \"a\": 2}";
    assert_eq!(error(&format!("{first}\n{twice}\n")), "w.ndjson, line 3, field \"a\": expected to be there, once");
    for bad in ["{\"t\": 1, \"a\": 1}", "{\"t\": 1, \"a\": 1, \"c\": 2}"] {
        let expected = "w.ndjson, line 2, field \"b\": expected to be there, once";
        assert_eq!(error(&format!("{first}{bad}\n")), expected);
    }
    assert!(error(&format!("{first}{{\"t\":1,\"a\":1,\"b\":1,\"c\":1}}\n")).starts_with("w.ndjson, line 2: "));
    let count = "w.ndjson, line 2, field \"b\": expected a count: a whole number, zero or more";
    assert_eq!(error(&format!("{first}{{\"t\": 1, \"a\": 1, \"b\": -2}}\n")), count);
    assert!(error("{\"a\": 1, \"b\": 2}").contains("line 1: it has no column \"t\": name the column of times"));
    let not_text = [first.as_bytes(), b"{\"t\": 1, \"a\": 1, \"b\": \"\xff\"}\n"].concat();
    let error = read("w.ndjson", not_text.as_slice()).unwrap_err().to_string();
    assert_eq!(error, "w.ndjson, line 2: it is not valid UTF-8: save the file as UTF-8");
}

#[test]
fn skips_a_byte_order_mark() {
    let rows = read("w.csv", "\u{feff}t,a,b\n0,1,2\n".as_bytes()).unwrap();
    assert_eq!(rows, [[1, 2]]);
}
