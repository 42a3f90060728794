//! Tables in wide form, and their files.

use std::io::Read;
use std::path::Path;

use tidegate_table::wide::WideReader;
use tidegate_table::{Reading, TableError, open};

use crate::support::{directory, gzip, write};

/// Reads all rows of a table in any format.
pub(crate) fn read(name: &str, source: impl Read) -> Result<Vec<Vec<u64>>, TableError> {
    let mut reader = WideReader::from_table(Reading::default().detect(name, source)?, Reading::default())?;
    let mut rows = Vec::new();
    while let Some(row) = reader.next_row()? {
        rows.push(row.counts);
    }
    Ok(rows)
}

fn wide_error(content: impl AsRef<[u8]>) -> String {
    read("w.csv", content.as_ref()).unwrap_err().to_string()
}

#[test]
fn errors_name_the_line_and_the_field() {
    let count = "expected a count: a whole number, zero or more";
    for bad in ["-1", "1.5", "many", "", "99999999999999999999"] {
        let error = wide_error(format!("t,a,b\n0,1,2\n1,3,{bad}\n"));
        assert_eq!(error, format!("w.csv, line 3, field \"b\": {count}"));
    }
    assert_eq!(wide_error("t,a,b\n0,1\n"), "w.csv, line 2: it has 2 fields, but 3 are expected");
    let error = wide_error("t,a,b\n0,1,2\n0,1,2\n");
    let later = "w.csv, line 3, field \"t\": expected a timestamp that is later than the last; duplicates = ";
    assert!(error.starts_with(later), "{error}");
    let no_time = "w.csv, line 2, field \"t\": expected a timestamp: a whole number, zero or more";
    assert_eq!(wide_error("t,a,b\nnow,1,2\n"), no_time);
}

#[test]
fn rejects_tables_of_another_form() {
    assert!(
        wide_error("1,2,3\n4,5,6\n").starts_with("w.csv, line 1: it has no column \"t\": name the column of times")
    );
    assert!(wide_error("t,user,value\n0,9,1\n").contains("count the users of each value"));
    assert!(wide_error("t,value\n0,9\n").contains("count the users of each value"));
    assert_eq!(wide_error(""), "w.csv, line 1: the file is empty");
}

#[test]
fn rejects_damaged_files() {
    assert_eq!(wide_error(b"t,a,b\n0,1,\xff\n"), "w.csv, line 2: it is not valid UTF-8: save the file as UTF-8");
    assert_eq!(wide_error(b"t,\xff,b\n0,1,2\n"), "w.csv, line 1: it is not valid UTF-8: save the file as UTF-8");
    let path = directory("damaged").join("cut.csv.gz");
    let rows: String = (0..2_000).map(|t| format!("{t},{},{}\n", t * 7 % 31, 1 + t * 13 % 37)).collect();
    let whole = gzip(format!("t,a,b\n{rows}"));
    assert!(load_bytes(&path, &whole).is_ok());
    for length in [2, 9, 12, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        let error = load_bytes(&path, &whole[..length]).unwrap_err();
        assert!(matches!(error, TableError::Read { .. }), "{length}: {error}");
    }
    let mut flipped = whole.clone();
    let checksum = whole.len() - 6;
    flipped[checksum] ^= 1;
    assert!(matches!(load_bytes(&path, &flipped), Err(TableError::Read { .. })));
}

fn load_bytes(path: &Path, bytes: &[u8]) -> Result<Vec<Vec<u64>>, TableError> {
    write(path, bytes);
    read("cut.csv.gz", open(path)?)
}
