//! Errors of `track` on real streams, none of which had a part in choosing its constants.
//!
//! `.ci/ablation` runs it once for `track` as it is, and once with each of its parts removed.
//!
//! Lines on standard output are `error,<family>,<cell>,<squared error>` for the real streams, and
//! `worst,<family>,<ratio>` for the greatest ratio of a cell of the quick grids of `tidegate accuracy` to its limit.

use std::error::Error;
use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_kernel::primitives::Protects;
use tidegate_lab::accuracy::{self, Options, Part};
use tidegate_lab::datasets::{self, LoadOptions};
use tidegate_lab::experiment::{self, Plan, Trial, TrialSettings};
use tidegate_lab::metrics::Metric;
use tidegate_lab::stream::DataStream;
use tidegate_lab::subjects;

const COUNTS: [&str; 7] = [
    "tdrive_counts",
    "nyc_taxi_ge",
    "foursquare_nyc_stan",
    "foursquare_lbsn2vec",
    "lending_club",
    "taobao_userbehavior",
    "taobao_userbehavior_minutes",
];
const NUMBERS: [&str; 4] = ["covid19_death", "unemployment", "outpatient_ilinet_once", "foodmart"];

const REPEATS: NonZeroU64 = NonZeroU64::MIN.saturating_add(2);
/// Most timestamps of a stream of counts.
const LENGTH: usize = 300;
const SEED: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = std::env::var_os("TIDEGATE_DATA").map(Into::into);
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let load = LoadOptions { data_dir: data_dir.clone(), seed: SEED, ..LoadOptions::default() };
    for (family, subject, streams) in [
        ("central", "central.track", &COUNTS[..]),
        ("local", "local.track", &COUNTS[..]),
        ("scalar", "scalar.track", &NUMBERS[..]),
    ] {
        let subject = subjects::by_name(subject)?;
        for name in streams {
            let stream = datasets::load(name, &load)?;
            let stream = match stream {
                DataStream::Counts(counts) if counts.length() > LENGTH => counts.shortened(LENGTH)?.into(),
                stream => stream,
            };
            let (names, settings): (Vec<String>, Vec<TrialSettings>) = settings(family)?.into_iter().unzip();
            let trials: Vec<Trial> = settings.into_iter().map(|settings| Trial { subject, settings }).collect();
            let plan = Plan { repeats: REPEATS, seed: SEED, threads, queries: false };
            for (cell, finding) in names.iter().zip(experiment::run(&stream, &trials, &plan, &|| ())?) {
                let error = finding.metrics.iter().find(|(metric, _)| *metric == Metric::Mse);
                let error = error.ok_or("an experiment has no squared error")?.1.mean;
                println!("error,{family},{name} {cell},{error:e}");
            }
        }
    }
    let [_, quick] = Options::REPEATS;
    let options = Options {
        parts: vec![Part::Central, Part::Local, Part::Scalar],
        data_dir,
        repeats: NonZeroU64::new(quick).ok_or("quick runs are none")?,
        seed: SEED,
        length: Options::LENGTH,
        threads,
        quick: true,
        subject: None,
    };
    for grid in accuracy::run(&options, &|_| ())?.grids {
        let worst = grid.cells.iter().map(|cell| cell.ratio / cell.cell.limit).fold(0.0, f64::max);
        println!("worst,{},{worst}", grid.part.name());
    }
    Ok(())
}

/// The settings of a family, with a name each.
fn settings(family: &str) -> Result<Vec<(String, TrialSettings)>, Box<dyn Error>> {
    let mut all = Vec::new();
    for epsilon in ["0.3", "1", "3"] {
        if family == "scalar" {
            for delay in [0, 20] {
                let defaults = TrialSettings::new(epsilon.parse()?, NonZeroU64::MIN);
                let number = TrialSettings { delay, ..defaults };
                let contributor = TrialSettings { protects: Protects::Contribution(NonZeroU64::MIN), ..number.clone() };
                all.push((format!("epsilon {epsilon} delay {delay} number"), number));
                all.push((format!("epsilon {epsilon} delay {delay} contributor"), contributor));
            }
        } else {
            for window in [10, 40] {
                let window = NonZeroU64::new(window).ok_or("a window is none")?;
                all.push((format!("epsilon {epsilon} window {window}"), TrialSettings::new(epsilon.parse()?, window)));
            }
        }
    }
    Ok(all)
}
