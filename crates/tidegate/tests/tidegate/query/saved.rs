//! Saved state of histories and monitors.

use tidegate::query::{History, Monitor, Query, Rule};
use tidegate::release::Freshness::{Fresh, Nullified};

use super::{release, window};

const HISTORY_V1: &str = include_str!("../../golden/history_v1.json");
const MONITOR_V1: &str = include_str!("../../golden/monitor_v1.json");

/// What the saved states of version 1 were made of.
fn golden() -> (History, Monitor) {
    let mut history = History::new(window(3), 4).unwrap();
    let rule = Rule::rising(Query::range(1, 2, 1).in_counts(), 10.0).until(5.0).with_confidence(0.5);
    let mut monitor = Monitor::new(rule, window(3)).unwrap();
    for (timestamp, frequency, freshness) in [(7, 0.25, Fresh), (8, 0.5, Fresh), (9, 0.5, Nullified)] {
        let release = release(timestamp, &[1.0 - frequency, frequency, 0.0], 0.015625, freshness);
        monitor.push(&release, Some(1000)).unwrap();
        history.push(release, Some(1000)).unwrap();
    }
    (history, monitor)
}

#[test]
fn saved_states_of_version_1_still_load() {
    let (history, monitor) = golden();
    assert_eq!(serde_json::from_str::<History>(HISTORY_V1).unwrap(), history);
    assert_eq!(serde_json::from_str::<Monitor>(MONITOR_V1).unwrap(), monitor);
    assert_eq!(serde_json::to_string(&history).unwrap(), HISTORY_V1.trim());
    assert_eq!(serde_json::to_string(&monitor).unwrap(), MONITOR_V1.trim());
}

#[test]
fn saved_states_that_cannot_be_are_not_loaded() {
    let history = |from: &str, to: &str| {
        assert!(HISTORY_V1.contains(from), "{from}");
        serde_json::from_str::<History>(&HISTORY_V1.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(history(r#""version":1"#, r#""version":2"#).contains("version 2"));
    assert!(history(r#""capacity":4"#, r#""capacity":2"#).contains("3 timestamps"));
    assert!(history(r#""timestamp":7"#, r#""timestamp":8"#).contains("does not come after"));
    assert!(history(r#""frequencies":[0.75,"#, r#""frequencies":["#).contains("2 frequencies"));
    assert!(history(r#""capacity":4"#, r#""capacity":4,"other":1"#).contains("unknown field"));
    let monitor = |from: &str, to: &str| {
        assert!(MONITOR_V1.contains(from), "{from}");
        serde_json::from_str::<Monitor>(&MONITOR_V1.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(monitor(r#""version":1"#, r#""version":2"#).contains("version 2"));
    assert!(monitor(r#""end":5.0"#, r#""end":50.0"#).contains("cannot end"));
    assert!(monitor(r#""timestamp":8"#, r#""timestamp":7"#).contains("at most 2"));
    assert!(monitor(r#""timestamp":8"#, r#""timestamp":9"#).contains("does not come after"));
    assert!(monitor(r#""variance":0.03125"#, r#""variance":-0.03125"#).contains("variance"));
    assert!(monitor(r#""population":1000"#, r#""population":null"#).contains("number of users"));
    assert!(monitor(r#""histogram":3"#, r#""histogram":2"#).contains("not in the domain"));
}
