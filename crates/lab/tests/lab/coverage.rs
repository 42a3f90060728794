//! Stated intervals hold.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate::mechanisms;
use tidegate::post_processing::Repair;
use tidegate_lab::datasets::{self, LoadOptions};
use tidegate_lab::experiment::{Plan, Trial, TrialSettings, run};
use tidegate_lab::metrics::Metric;
use tidegate_lab::subjects;

/// Least coverage of an interval of 95 %.
const LEAST: f64 = 0.9;

/// The coverage of mechanisms on a data set: `None` where they state no intervals.
fn coverages(dataset: &str, names: &[&str], epsilons: &[&str]) -> Vec<(String, Option<f64>)> {
    let options = LoadOptions { length: Some(240), seed: 7, ..LoadOptions::default() };
    let stream = datasets::load(dataset, &options).unwrap();
    let settings = |name: &str, epsilon: &str| TrialSettings {
        repair: mechanisms::find(name).map_or(Repair::None, |listed| Repair::default_of(listed.output)),
        delay: 10,
        ..TrialSettings::new(epsilon.parse().unwrap(), NonZeroU64::new(20).unwrap())
    };
    let trials: Vec<Trial<'_>> = epsilons
        .iter()
        .flat_map(|epsilon| names.iter().map(move |name| (name, epsilon)))
        .map(|(name, epsilon)| Trial {
            subject: subjects::by_name_for(stream.kind(), name).unwrap(),
            settings: settings(name, epsilon),
        })
        .collect();
    let plan = Plan { repeats: NonZeroU64::new(3).unwrap(), seed: 1, threads: NonZeroUsize::MIN, queries: false };
    let findings = run(&stream, &trials, &plan, &|| ()).unwrap();
    let coverage = |finding: &tidegate_lab::experiment::Finding| {
        let found = finding.metrics.iter().find(|(metric, _)| *metric == Metric::Coverage);
        let what = format!("{} on {dataset} at epsilon {}", finding.mechanism, finding.settings.epsilon);
        (what, found.map(|(_, summary)| summary.mean))
    };
    findings.iter().map(coverage).collect()
}

/// Streams that drift, swing, burst, jump, stand still, and have no order in time. `make coverage` runs real data sets
/// too. Seeds are fixed, so there are no false alarms.
#[test]
fn intervals_of_counts_hold_on_every_kind_of_stream() {
    let names = [
        "lbu",
        "lsp",
        "lbd",
        "lba",
        "lpu",
        "lpd",
        "lpa",
        "mtsp",
        "mtsp_population",
        "plbu",
        "uniform",
        "sample",
        "bd",
        "ba",
        "pbd",
        "pba",
        "local.track",
        "central.track",
        "personal_track",
    ];
    for dataset in ["lns", "tlns", "sin", "log", "traffic", "bursts_counts", "constant", "white", "incident", "queue"] {
        for (what, coverage) in coverages(dataset, &names, &["0.5", "2"]) {
            let coverage = coverage.unwrap_or_else(|| panic!("{what}: not stated"));
            assert!(coverage >= LEAST, "{what}: {coverage}");
        }
    }
}

/// Groups and means hide how far their readings are from each other, and a bound how far readings were cut off: their
/// coverage would be as low as 24 % here.
#[test]
fn intervals_of_numbers_hold_or_are_not_stated() {
    let stated = ["laplace", "clamped"];
    let unstated = [
        "comporder",
        "pegasus",
        "pegasus_delay",
        "contin",
        "discontin",
        "bucorder",
        "bucorder_sums",
        "laplace_truncated",
    ];
    for dataset in ["seasonal", "bursts", "walk", "numbers_constant", "numbers_white", "numbers_two_ends"] {
        for (what, coverage) in coverages(dataset, &stated, &["0.5", "5"]) {
            let coverage = coverage.unwrap_or_else(|| panic!("{what}: not stated"));
            assert!(coverage >= LEAST, "{what}: {coverage}");
        }
        for (what, coverage) in coverages(dataset, &["scalar.track"], &["2", "5"]) {
            let coverage = coverage.unwrap_or_else(|| panic!("{what}: not stated"));
            assert!(coverage >= LEAST, "{what}: {coverage}");
        }
        let means = coverages(dataset, &["scalar.track"], &["0.5"]);
        for (what, coverage) in coverages(dataset, &unstated, &["5"]).into_iter().chain(means) {
            assert_eq!(coverage, None, "{what}");
        }
    }
}
