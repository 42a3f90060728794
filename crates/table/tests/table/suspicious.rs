//! Releases with a field for what is suspicious about them.

use tidegate::release::{Freshness, Histogram, Release, Spent};
use tidegate::spec::StreamSpec;
use tidegate_table::releases::{Cell, ReleaseLayout};
use tidegate_table::{Format, released};

fn layout() -> ReleaseLayout {
    let spec = r#"{ "mechanism": "lbu", "epsilon": 1, "window": 2, "population": 100, "domain": ["in", "out"] }"#;
    ReleaseLayout::of(&serde_json::from_str::<StreamSpec>(spec).unwrap()).unwrap().with_suspicions()
}

fn release(timestamp: u64) -> Release {
    Release {
        timestamp,
        statistic: Histogram { frequencies: vec![0.75, 0.25], variances: vec![0.5, 0.5] }.into(),
        freshness: Freshness::Fresh,
        spent: Spent::Everyone("1".parse().unwrap()),
        reports: 0,
        seeded: false,
        why: None,
    }
}

#[test]
fn a_suspicious_release_says_so_in_a_last_field() {
    let (layout, mut csv, mut lines) = (layout(), String::new(), String::new());
    layout.begin(Format::Csv, &mut csv);
    for (text, format) in [(&mut csv, Format::Csv), (&mut lines, Format::Ndjson)] {
        layout.write_suspected(&release(7), "frequency crowd", format, text).unwrap();
        layout.write(&release(8), None, format, text).unwrap();
    }
    let ends: Vec<_> = csv.lines().map(|line| line.rsplit(',').next().unwrap()).collect();
    assert_eq!(ends, ["suspicious", "frequency crowd", "frequency crowd", "", ""]);
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["suspicious"], "frequency crowd");
    let mut cells = 0;
    layout.cells(0, &release(8), None, "", |cell: Cell<'_>| cells += usize::from(cell == Cell::Text(""))).unwrap();
    assert_eq!((layout.columns().last().unwrap().name, cells), ("suspicious", 2));
    // What reads releases reads it, too.
    let read = released::read("releases", csv.as_bytes(), |_, _| Ok(())).unwrap();
    assert_eq!((read.values, read.lines.len()), (vec!["in".to_owned(), "out".to_owned()], 2));
}
