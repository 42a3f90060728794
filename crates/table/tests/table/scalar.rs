//! Tables in scalar form.

use std::io::{Read, Write};

use tidegate_table::scalar::{ScalarReader, ScalarRow};
use tidegate_table::{Format, Reading, TableError};

#[test]
fn returns_a_row_as_soon_as_its_line_ends() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"t,value\n5,1.5\n").unwrap();
    // The pipe stays open, so whoever waited for more would wait for ever.
    let mut readings = ScalarReader::new("pipe", reader).unwrap();
    assert_eq!(readings.next().unwrap().unwrap(), ScalarRow { timestamp: 5, value: 1.5 });
    writer.write_all(b"6,-2\n7").unwrap();
    assert_eq!(readings.next().unwrap().unwrap(), ScalarRow { timestamp: 6, value: -2.0 });
    drop(writer);
    assert!(matches!(readings.next(), Some(Err(TableError::Width { line: 4, .. }))));
    assert!(readings.next().is_none());
}

/// A line without an end.
struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0 += buffer.len() as u64;
        buffer.fill(b'7');
        Ok(buffer.len())
    }
}

#[test]
fn rejects_an_endless_line() {
    let mut source = Endless(0);
    for (beginning, last_line) in [("t,value\n0,", 1), ("t,value\n0,\"\n", 2)] {
        let mut readings = ScalarReader::new("pipe", beginning.as_bytes().chain(&mut source)).unwrap();
        let error = readings.next().unwrap().unwrap_err().to_string();
        let expected = "it cannot be read on: the line is longer than 16777216 bytes";
        assert_eq!(error, format!("pipe, after line {last_line}: {expected}"));
    }
    assert!(source.0 <= 2 * (16 << 20), "{}", source.0);
}

#[test]
fn next_text_keeps_every_digit_and_rejects_nothing() {
    let all = |content: &str, format| {
        let mut readings = ScalarReader::open("n", content.as_bytes(), format, Reading::default()).unwrap();
        let mut found = Vec::new();
        while let Some(text) = readings.next_text(|_, _, text| text.to_owned()).unwrap() {
            found.push(text);
        }
        found
    };
    let long = format!("0.{}1", "0".repeat(100));
    let given = ["1700000000000000129", "1.7000000000000000129e18", &long, "-0.5", "null", "[1]", "NaN", "true"];
    let kept = ["1700000000000000129", "1700000000000000012.9", &long, "-0.5", "", "", "", "true"];
    let lines = |form: &dyn Fn(usize, &str) -> String| -> String {
        given.iter().enumerate().map(|(t, text)| form(t, text) + "\n").collect()
    };
    let json = lines(&|t, text| format!("{{\"t\":{t},\"value\":{text}}}"));
    assert_eq!(all(&json, Format::Ndjson), kept);
    assert_eq!(all(&format!("t,value\n{}", lines(&|t, text| format!("{t},{text}"))), Format::Csv), given);
    assert_eq!(all("{\"t\":0}\n{\"t\":1,\"value\":3}\n{\"t\":2}\n", Format::Ndjson), ["", "3", ""]);
}

#[test]
fn rejects_other_fields() {
    let error = ScalarReader::new("s.csv", "t,number\n".as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("s.csv, line 1: it has no column \"value\": name the column of values"), "{error}");
}
