//! An account of what every window of a stream has spent, from what was released alone, and the command's own audit.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::service::Target;
use crate::{command, stderr, stdout};

/// Units of an amount, in billionths.
fn units(amount: &Value) -> u64 {
    let (whole, decimals) = amount.as_str().unwrap().split_once('.').unwrap_or((amount.as_str().unwrap(), ""));
    format!("{whole}{decimals:0<9}").parse().unwrap()
}

/// Spends of a release, by class; class 0 where there are none.
fn spends(release: &Value) -> Vec<(u64, u64)> {
    match &release["spent"] {
        Value::Null => Vec::new(),
        Value::String(_) => vec![(0, units(&release["spent"]))],
        Value::Array(classes) => {
            classes.iter().map(|spend| (spend["class"].as_u64().unwrap(), units(&spend["epsilon"]))).collect()
        }
        other => panic!("{other}"),
    }
}

/// Asserts that no window of a stream has spent more than its budget: for each class a window, and whole epsilons.
pub(super) fn audit(target: &Target, stream: &str, releases: &BTreeMap<u64, Value>, limits: &[(u64, u64)]) {
    let mut spent: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (timestamp, release) in releases {
        for (class, units) in spends(release) {
            *spent.entry((class, *timestamp)).or_default() += units;
        }
    }
    for (class, timestamp) in spent.keys() {
        let (window, epsilon) = limits[usize::try_from(*class).unwrap()];
        let sum: u64 = spent.range((*class, *timestamp)..(*class, timestamp + window)).map(|(_, units)| units).sum();
        assert!(sum <= epsilon * 1_000_000_000, "{stream}, class {class}: {sum} in the window from {timestamp}");
    }
    assert!(!spent.is_empty(), "{stream} has spent nothing");
    let record = target.home.folder.file(&format!("{stream}.ndjson"));
    let lines: String = releases.values().map(|release| format!("{release}\n")).collect();
    fs::write(&record, lines).unwrap();
    let limits = match limits {
        [(window, epsilon)] => format!("--window {window} --epsilon {epsilon}"),
        _ => format!("--spec {}", target.spec_file(stream).display()),
    };
    let audit = command(&format!("audit --ledger {} {limits}", record.display())).output().unwrap();
    assert!(audit.status.success(), "{stream}: {}", stderr(&audit));
    println!("{stream}: {}", stdout(&audit).trim().replace('\n', "; "));
}
