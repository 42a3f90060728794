//! Loaders on the real data, where it is: in `TIDEGATE_DATA`, or in `shared/data` beside the workspace.

use std::path::{Path, PathBuf};

use tidegate_lab::CountStream;
use tidegate_lab::datasets::{Options, load};

use crate::support::counts;

/// The stream, or `None` (and a word about it) where the data is not there.
fn real(name: &str) -> Option<CountStream> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data_dir = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from);
    if !data_dir.join(name).is_dir() {
        println!("skipped: the data set {name} is not here; TIDEGATE_DATA says where it is");
        return None;
    }
    Some(counts(load(name, &Options { data_dir: Some(data_dir), ..Options::default() }).unwrap()))
}

fn populations(stream: &CountStream) -> Vec<u64> {
    (0..stream.length()).map(|timestamp| stream.population(timestamp)).collect()
}

#[test]
fn tdrive_counts_are_as_described() {
    let Some(stream) = real("tdrive_counts") else { return };
    assert_eq!((stream.length(), stream.domain()), (1778, 64));
    let populations = populations(&stream);
    assert_eq!((populations.iter().min(), populations.iter().max()), (Some(&3923), Some(&9662)));
    assert_eq!(populations.iter().sum::<u64>(), 14_878_859);
}

#[test]
fn taxi_fares_are_as_described() {
    let Some(stream) = real("nyc_taxi_ge") else { return };
    assert_eq!((stream.length(), stream.domain()), (275, 150));
    // 90,642 trips, less 188 without a fare, 32 beyond the domain and 2 with a wrong clock.
    assert_eq!(populations(&stream).iter().sum::<u64>(), 90_642 - 188 - 32 - 2);
}

#[test]
fn foursquare_check_ins_are_as_described() {
    let Some(stream) = real("foursquare_lbsn2vec") else { return };
    assert_eq!((stream.length(), stream.domain()), (447, 522));
    assert!(populations(&stream).iter().all(|users| *users == 20_159));
    assert!(stream.counts()[446][0] < stream.counts()[0][0]);
}

#[test]
fn new_york_check_ins_are_as_described() {
    let Some(stream) = real("foursquare_nyc_stan") else { return };
    assert_eq!((stream.length(), stream.domain()), (319, 101));
    assert!(populations(&stream).iter().all(|users| *users == 1_083));
    assert_eq!(stream.counts()[318][0], 0);
}
