//! Tables in long form.

use tidegate_table::long::{FieldRefusal, LongReader, read_users};
use tidegate_table::scalar::ScalarReader;
use tidegate_table::wide::{LongOrWide, WideReader};
use tidegate_table::{Format, Reading, TableReader};

#[test]
fn json_and_csv_have_the_same_rows() {
    let csv = "t,user,value\n0,a,x\n0,7,y\n3,a,\"z, z\"\n";
    let json = "{\"t\":0,\"user\":\"a\",\"value\":\"x\"}\n\n{\"value\":\"y\",\"user\":7,\"t\":0}\n\
                {\"t\":3,\"user\":\"a\",\"value\":\"z, z\"}";
    let all = |content: &str, format| {
        let mut entries = LongReader::new("table", content.as_bytes(), format).unwrap();
        let mut found = Vec::new();
        while let Some(entry) =
            entries.next_checked(|entry| Ok((entry.timestamp, entry.user.to_string(), entry.value.to_owned()))).unwrap()
        {
            found.push(entry);
        }
        found
    };
    let entries = all(csv, Format::Csv);
    assert_eq!(entries, all(json, Format::Ndjson));
    assert_eq!(entries[2], (3, "a".to_owned(), "z, z".to_owned()));
    let readings: Vec<_> =
        ScalarReader::open("n", "{\"value\":-2.5e0,\"t\":4}\n".as_bytes(), Format::Ndjson, Reading::default())
            .unwrap()
            .map(|reading| reading.map(|reading| (reading.timestamp, reading.value)).unwrap())
            .collect();
    assert_eq!(readings, [(4, -2.5)]);
}

#[test]
fn rejects_past_timestamps_and_refused_fields() {
    let table = "t,user,value\n4,a,x\n5,a,x\n";
    let mut entries =
        LongReader::open("table", table.as_bytes(), Format::Csv, Reading::default().after(Some(4))).unwrap();
    let error = entries.next_checked(|_| Ok(())).unwrap_err().to_string();
    assert_eq!(error, "table, line 2, field \"t\": expected a timestamp after 4, with which the last run ended");
    let refused = FieldRefusal { field: "value", expected: "something else".into() };
    let error = entries.next_checked(|_| Err::<(), _>(refused)).unwrap_err().to_string();
    assert_eq!(error, "table, line 3, field \"value\": expected something else");
    let mut rows = {
        let table = TableReader::new("wide", "t,x\n4,1\n6,1\n".as_bytes(), Format::Csv).unwrap();
        WideReader::from_table(table, Reading::default().after(Some(5))).unwrap()
    };
    assert!(rows.next_row().unwrap_err().to_string().contains("a timestamp after 5"));
    assert_eq!(rows.next_row().unwrap().map(|row| (row.line, row.timestamp)), Some((3, 6)));
}

#[test]
fn detects_the_form_from_the_first_line() {
    let form = |content: &'static str, format| {
        LongOrWide::open("table", content.as_bytes(), format, Reading::default()).unwrap()
    };
    assert!(matches!(form("t,user,value\n", Format::Csv), LongOrWide::Long(_)));
    assert!(matches!(form("t,x,y\n", Format::Csv), LongOrWide::Wide(_)));
    assert!(matches!(form("{\"user\":1,\"value\":2,\"t\":3}", Format::Ndjson), LongOrWide::Long(_)));
    assert!(matches!(form("{\"x\":1,\"t\":3}", Format::Ndjson), LongOrWide::Wide(_)));
}

#[test]
fn rejects_a_user_listed_twice() {
    let mut found = Vec::new();
    let mut take = |user: &str, class: &str| {
        found.push((user.to_owned(), class.to_owned()));
        if class == "no" { Err("another".into()) } else { Ok(()) }
    };
    let mut read = |content: &str| {
        let table = TableReader::new("users", content.as_bytes(), Format::Csv)?;
        read_users(table, "class", &mut take)
    };
    read("user,class\na,x\nb,y\n").unwrap();
    let error = read("user,class\na,no\n").unwrap_err().to_string();
    assert_eq!(error, "users, line 2, field \"class\": expected another");
    assert!(read("user,class\na,x\na,x\n").unwrap_err().to_string().contains("line 3, field \"user\""));
    assert!(read("user,group\na,x\n").is_err());
    assert_eq!(found.len(), 4);
}

#[test]
fn rejects_user_names_that_would_lose_digits() {
    for user in ["1.5", "1.0", "20000000000000000001", "1e3"] {
        let line = format!("{{\"t\":0,\"user\":{user},\"value\":\"x\"}}");
        let mut reader = LongReader::new("n", line.as_bytes(), Format::Ndjson).unwrap();
        let error = reader.next_checked(|_| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "n, line 1, field \"user\": expected a text or a whole number");
    }
}

#[test]
fn rejects_an_endless_line_of_json() {
    let endless = std::io::Read::chain("{\"t\":\"".as_bytes(), std::io::repeat(b'x'));
    let error = LongReader::new("endless", endless, Format::Ndjson).unwrap_err().to_string();
    assert!(error.contains("the line is longer than"), "{error}");
}
