//! `tidegate release` reads decimal text without a float in between, and releases every reading.

use std::path::Path;

use crate::{run_with_input, stderr, stdout};

/// The released values of one reading at each of 2,000 timestamps, under one seed.
fn released(name: &str, domain: &str, reading: &str) -> Vec<f64> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exact");
    std::fs::create_dir_all(&folder).unwrap();
    let spec = folder.join(format!("{name}.toml"));
    let text = "family = \"scalar\"\nmechanism = \"laplace\"\nepsilon = 1\nprotects = { contributor = 1 }\n";
    std::fs::write(&spec, format!("{text}domain = {{ {domain} }}\n")).unwrap();
    let lines: String = (0..2_000).map(|timestamp| format!("{timestamp},{reading}\n")).collect();
    let arguments = format!("release --seed 25 --spec {}", spec.display());
    let output = run_with_input(&arguments, format!("t,value\n{lines}").as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

/// The share of values above a number.
fn share_above(values: &[f64], number: f64) -> f64 {
    values.iter().filter(|value| **value > number).count() as f64 / values.len() as f64
}

/// One contributor moves the chance of any output by a factor of e at most. Floats at this size lie 256 apart.
#[test]
fn neighbours_beyond_the_precision_of_floats_stay_indistinguishable() {
    let domain = "low = 1700000000000000000, high = 1700000000000001000";
    let shares = ["1700000000000000128", "1700000000000000129"]
        .map(|reading| share_above(&released("beyond", domain, reading), 1.7e18 + 100.0));
    // The noise is at least 1 in 26.9 % of the runs, and at least 0 in 73.1 %. 0.06 is six standard deviations.
    assert!((shares[0] - 0.269).abs() < 0.06 && (shares[1] - 0.731).abs() < 0.06, "{shares:?}");
}

/// Floats at 10^16 lie 2 apart: 10^16 + 2 and 10^16 + 3 would be sealed two steps apart.
#[test]
fn a_step_of_one_stays_a_step_at_ten_to_the_sixteenth() {
    let domain = "low = 10000000000000000, high = 10000000000001000";
    let shares = ["10000000000000002", "10000000000000003"]
        .map(|reading| share_above(&released("sixteenth", domain, reading), 1e16 + 2.0));
    // A release of 10^16 + 3 is printed as 10^16 + 4. The noise is at least 1 or at least 0.
    assert!((shares[0] - 0.269).abs() < 0.06 && (shares[1] - 0.731).abs() < 0.06, "{shares:?}");
}

/// What may stand in the place of a number, in CSV and in JSON, and what it counts as on the domain 0..100 with
/// `missing = 40`.
const READINGS: [(&str, &str, f64); 12] = [
    ("1", "1", 1.0),
    ("1.5", "1.5", 2.0),
    (" 7 ", "\" 7 \"", 7.0),
    ("1e300", "1e300", 100.0),
    ("-1e400", "-1e400", 0.0),
    ("abc", "\"abc\"", 40.0),
    ("", "null", 40.0),
    ("NaN", "NaN", 40.0),
    ("inf", "-Infinity", 40.0),
    ("1_000", "[1]", 40.0),
    ("0x10", "{\"is\": 1}", 40.0),
    ("null", "true", 40.0),
];

#[test]
fn releases_a_number_for_every_reading_in_every_format() {
    let options = "release --seed 1 --mechanism laplace --epsilon 1000 --domain 0..100 --protects reading --missing 40";
    let csv: String = READINGS.iter().enumerate().map(|(t, (csv, ..))| format!("{t},{csv}\n")).collect();
    let json: String =
        READINGS.iter().enumerate().map(|(t, (_, json, _))| format!("{{\"t\": {t}, \"value\": {json}}}\n")).collect();
    let lacking = "{\"t\": 0}\n{\"t\": 1, \"value\": 1}\n{\"t\": 2}\n";
    let expected: Vec<f64> = READINGS.iter().map(|(.., value)| *value).collect();
    for (format, input, expected) in [
        ("csv", format!("t,value\n{csv}"), &expected[..]),
        ("ndjson", json, &expected),
        ("ndjson", lacking.to_owned(), &[40.0, 1.0, 40.0]),
    ] {
        let output = run_with_input(&format!("{options} --format {format}"), input.as_bytes());
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let value = |line: &str| match format {
            "csv" => line.split(',').nth(1)?.parse().ok(),
            _ => serde_json::from_str::<serde_json::Value>(line).ok()?["value"].as_f64(),
        };
        let values: Vec<f64> = stdout(&output).lines().filter_map(value).collect();
        assert_eq!(values, expected, "{format}");
    }
}
