//! Loaders on the real data, where it is: in `TIDEGATE_DATA`, or in `shared/data` beside the workspace.

use std::path::{Path, PathBuf};

use tidegate_lab::datasets::{self, DatasetError, LoadOptions, load};
use tidegate_lab::{CountStream, DataStream};
use tidegate_table::TableError;

use crate::support::{counts, numbers, symbols};

/// The stream, which has the shape that is listed, or `None` (and a word about it) where the data is not there.
pub(crate) fn real(name: &str) -> Option<DataStream> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data_dir = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from);
    match load(name, &LoadOptions { data_dir: Some(data_dir.clone()), ..LoadOptions::default() }) {
        Err(DatasetError::Table(TableError::Open { .. })) => {
            println!("skipped: the data set {name} is not here; TIDEGATE_DATA says where it is");
            None
        }
        stream => {
            let (stream, listed) = (stream.unwrap(), datasets::by_name(name).unwrap());
            assert_eq!(stream.to_string(), format!("{}: {}", listed.name, listed.shape));
            assert_eq!((stream.kind(), stream.stand_in()), (listed.kind(), listed.stands_in_for));
            Some(stream)
        }
    }
}

fn populations(stream: &CountStream) -> Vec<u64> {
    (0..stream.length()).map(|timestamp| stream.population(timestamp)).collect()
}

#[test]
fn tdrive_counts_are_as_described() {
    let Some(stream) = real("tdrive_counts").map(counts) else { return };
    assert_eq!((stream.length(), stream.domain()), (1778, 64));
    let populations = populations(&stream);
    assert_eq!((populations.iter().min(), populations.iter().max()), (Some(&3923), Some(&9662)));
    assert_eq!(populations.iter().sum::<u64>(), 14_878_859);
}

#[test]
fn taxi_fares_are_as_described() {
    let Some(stream) = real("nyc_taxi_ge").map(counts) else { return };
    assert_eq!((stream.length(), stream.domain()), (275, 150));
    // 90,642 trips, less 188 without a fare, 32 beyond the domain and 2 with a wrong clock.
    assert_eq!(populations(&stream).iter().sum::<u64>(), 90_642 - 188 - 32 - 2);
}

#[test]
fn foursquare_check_ins_are_as_described() {
    let Some(stream) = real("foursquare_lbsn2vec").map(counts) else { return };
    assert_eq!((stream.length(), stream.domain()), (447, 522));
    assert!(populations(&stream).iter().all(|users| *users == 20_159));
    assert!(stream.counts()[446][0] < stream.counts()[0][0]);
}

#[test]
fn new_york_check_ins_are_as_described() {
    let Some(stream) = real("foursquare_nyc_stan").map(counts) else { return };
    assert_eq!((stream.length(), stream.domain()), (319, 101));
    assert!(populations(&stream).iter().all(|users| *users == 1_083));
    assert_eq!(stream.counts()[318][0], 0);
}

#[test]
fn loans_are_as_described() {
    let Some(stream) = real("lending_club").map(counts) else { return };
    assert_eq!((stream.length(), stream.domain()), (116, 1_601));
    assert_eq!(populations(&stream).iter().sum::<u64>(), 3_000);
    let Some(year) = real("lending_club_2018").map(counts) else { return };
    assert_eq!((year.length(), year.domain()), (12, 1_601));
    assert_eq!((year.population(0), populations(&year).iter().sum::<u64>()), (4_639, 31_766));
    // From $750 to $40,000.
    let held = |value: usize| year.counts().iter().any(|row| row[value] > 0);
    assert!(held(30) && held(1_600) && !(0..30).any(held));
}

#[test]
fn shoppers_are_as_described() {
    let Some(stream) = real("taobao_userbehavior").map(counts) else { return };
    assert_eq!((stream.length(), stream.domain()), (432, 118));
    assert!(populations(&stream).iter().all(|users| *users == 766));
    assert_eq!(stream.counts()[431][0], 0);
    let Some(minutes) = real("taobao_userbehavior_minutes").map(counts) else { return };
    assert_eq!((minutes.length(), minutes.domain(), minutes.population(0)), (131, 118, 66_454));
    assert_eq!(minutes.counts()[130][0], 0);
}

/// How many numbers there are, and the smallest and the largest.
fn size(values: &[f64]) -> (usize, f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.len(), least, most)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[test]
fn deaths_with_covid_are_as_described() {
    let Some(stream) = real("covid19_death").map(numbers) else { return };
    assert_eq!(size(stream.values()), (216, 0.0, 25_974.0));
    assert_eq!((stream.grid().low(), stream.grid().high(), stream.grid().step()), (0.0, 25_974.0, 1.0));
    assert_eq!(stream.values()[..4], [0.0, 1.0, 2.0, 3.0]);
    // The autumn of 2019 comes after the summer of 2020.
    let gap = stream.values().windows(15).any(|window| {
        window[0] == 4_296.0 && window[14] == 25_974.0 && window[1..14].iter().all(|value| *value == 0.0)
    });
    assert!(gap);
    let Some(chronological) = real("covid19_death_chronological").map(numbers) else { return };
    assert_eq!(sorted(chronological.values()), sorted(stream.values()));
    assert_eq!(chronological.values()[..10], [0.0; 10]);
}

#[test]
fn unemployment_is_as_described() {
    let Some(stream) = real("unemployment").map(numbers) else { return };
    assert_eq!(size(stream.values()), (622, 72.0, 612.0));
    assert_eq!((stream.values()[0], stream.values()[621]), (247.0, 135.0));
}

#[test]
fn outpatients_are_as_described() {
    let Some(stream) = real("outpatient_ilinet").map(numbers) else { return };
    assert_eq!(size(stream.values()), (4_848, 27_263.0, 2_260_794.0));
    let Some(once) = real("outpatient_ilinet_once").map(numbers) else { return };
    assert_eq!(once.values(), &stream.values()[..1_212]);
    assert_eq!(once.values(), &stream.values()[3 * 1_212..]);
    let Some(cdc) = real("outpatient_ilinet_cdc").map(numbers) else { return };
    assert_eq!(size(cdc.values()), (1_436, 0.0, 2_879_362.0));
    assert_eq!(cdc.values().iter().filter(|value| **value > 0.0).count(), 1_341);
}

#[test]
fn items_of_foodmart_are_as_described() {
    let Some(stream) = real("foodmart").map(numbers) else { return };
    assert_eq!(size(stream.values()), (18_319, 1.0, 1_559.0));
}

/// How many users and symbols there are, and the shortest and the longest sequence.
fn shape(sequences: &[Vec<u32>]) -> (usize, usize, usize, usize) {
    let lengths = || sequences.iter().map(Vec::len);
    (sequences.len(), lengths().sum(), lengths().min().unwrap(), lengths().max().unwrap())
}

#[test]
fn clicks_are_as_described() {
    let Some(kosarak) = real("kosarak").map(symbols) else { return };
    assert_eq!(shape(kosarak.sequences()), (100_000, 801_947, 1, 1_136));
    assert_eq!((kosarak.domain(), kosarak.sequences()[2].as_slice()), (41_270, &[3, 4, 5, 6][..]));
    assert_eq!(kosarak.sequences().iter().flatten().max(), Some(&23_495));
    let Some(msnbc) = real("msnbc_spmf").map(symbols) else { return };
    assert_eq!(shape(msnbc.sequences()), (31_790, 423_776, 9, 100));
    assert_eq!(msnbc.domain(), 17);
}

#[test]
fn gazes_are_as_described() {
    let Some(stream) = real("eye_irf_lookatpoint").map(symbols) else { return };
    let lengths: Vec<usize> = stream.sequences().iter().map(Vec::len).collect();
    let valid: [usize; 6] = [79_141, 80_837, 66_585, 81_003, 80_925, 80_966];
    assert_eq!(lengths, valid.map(|samples| samples.div_ceil(20)));
    assert_eq!(stream.domain(), 10_000);
    // The first person begins in the middle: 0.2344 degrees across, -3.0908 up.
    assert_eq!(stream.space().place(stream.sequences()[0][0]), (50, 39));
}
