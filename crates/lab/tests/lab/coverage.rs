//! Stated intervals hold.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate::mechanisms;
use tidegate::post_processing::Repair;
use tidegate_lab::datasets::{self, LoadOptions};
use tidegate_lab::experiment::{Plan, Trial, TrialSettings, run};
use tidegate_lab::metrics::Metric;
use tidegate_lab::subjects;

/// Mechanisms that repeat releases, average over time or prune, on a random walk and a city. `make coverage` runs all
/// of them on all data sets. Seeds are fixed, so there are no false alarms. The coverage must be that of an interval of
/// 95 %, or more where the stream is smooth. Local mechanisms that measure drift repeat a release where it seems small,
/// so they state too little of it: their limit is lower.
#[test]
fn intervals_of_repeated_releases_hold() {
    for dataset in ["lns", "traffic"] {
        let options = LoadOptions { length: Some(240), seed: 7, ..LoadOptions::default() };
        let stream = datasets::load(dataset, &options).unwrap();
        let names = ["lsp", "lpa", "lbd", "mtsp", "mtsp_population", "sample", "ba", "pbd"];
        let settings = |name: &str, epsilon: &str| TrialSettings {
            repair: mechanisms::find(name).map_or(Repair::None, |listed| Repair::default_of(listed.output)),
            ..TrialSettings::new(epsilon.parse().unwrap(), NonZeroU64::new(20).unwrap())
        };
        let trials: Vec<Trial<'_>> = ["0.5", "2"]
            .into_iter()
            .flat_map(|epsilon| names.map(|name| (name, epsilon)))
            .map(|(name, epsilon)| Trial {
                subject: subjects::by_name_for(stream.kind(), name).unwrap(),
                settings: settings(name, epsilon),
            })
            .collect();
        let plan = Plan { repeats: NonZeroU64::new(3).unwrap(), seed: 1, threads: NonZeroUsize::MIN, queries: false };
        for finding in run(&stream, &trials, &plan, &|| ()).unwrap() {
            let coverage = finding.metrics.iter().find(|(metric, _)| *metric == Metric::Coverage).unwrap().1.mean;
            let what = format!("{} on {dataset} at epsilon {}", finding.mechanism, finding.settings.epsilon);
            let measures_drift = ["lpa", "lbd", "mtsp", "mtsp_population"].contains(&finding.mechanism);
            let limit = if measures_drift { 0.85 } else { 0.9 };
            assert!(coverage >= limit, "{what}: {coverage}");
        }
    }
}
