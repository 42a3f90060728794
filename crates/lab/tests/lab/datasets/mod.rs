//! Loaders, on small files made here.

mod count_files;
mod number_files;
mod symbol_files;
mod tables;

use std::path::Path;

use tidegate_lab::datasets::{self, DatasetError, LoadOptions, load};
use tidegate_lab::{CountStream, DataStream};
use tidegate_table::TableError;

use crate::support::{counts, directory, numbers, symbols};

fn load_any(data_dir: &Path, name: &str) -> Result<DataStream, DatasetError> {
    load(name, &LoadOptions { data_dir: Some(data_dir.to_owned()), ..LoadOptions::default() })
}

fn load_from(data_dir: &Path, name: &str) -> Result<CountStream, DatasetError> {
    load_any(data_dir, name).map(counts)
}

#[test]
fn synthetic_streams_have_the_papers_size_unless_told() {
    let stream = counts(load("sin", &LoadOptions::default()).unwrap());
    assert_eq!((stream.length(), stream.population(0), stream.stand_in()), (800, 200_000, None));
    let lns = |seed| load("lns", &LoadOptions { seed, length: Some(5), ..LoadOptions::default() }).unwrap();
    assert_eq!(lns(1), lns(1));
    assert_ne!(lns(1), lns(2));
    let walk = numbers(load("walk", &LoadOptions::default()).unwrap());
    assert_eq!((walk.values().len(), walk.grid().width()), (800, 1_000));
    let population = LoadOptions { population: Some(5), ..LoadOptions::default() };
    assert!(matches!(load("walk", &population), Err(DatasetError::Adjusted(_))));
    let chain = |options: &LoadOptions| symbols(load("markov_90", options).unwrap());
    assert_eq!(chain(&LoadOptions::default()).sequences().iter().map(Vec::len).collect::<Vec<_>>(), [10_000]);
    let five = chain(&LoadOptions { length: Some(7), ..population });
    assert!(five.sequences().len() == 5 && five.sequences().iter().all(|sequence| sequence.len() == 7));
}

#[test]
fn synthetic_data_sets_have_the_shape_that_is_listed() {
    for dataset in datasets::ALL.iter().filter(|dataset| !dataset.is_real()) {
        let stream = load(dataset.name, &LoadOptions::default()).unwrap();
        assert_eq!(stream.to_string(), format!("{}: {}", dataset.name, dataset.shape));
        assert_eq!((stream.kind(), stream.stand_in()), (dataset.kind(), dataset.stands_in_for));
    }
}

#[test]
fn names_and_aliases_stand_for_one_data_set_each() {
    let names = datasets::ALL.iter().flat_map(|set| std::iter::once(set.name).chain(set.aliases.iter().copied()));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn a_chain_of_any_size_is_found_by_its_settings() {
    let options = LoadOptions { length: Some(20), population: Some(2), seed: 3, ..LoadOptions::default() };
    let chain = symbols(load("markov:5:0.25", &options).unwrap());
    assert_eq!((chain.domain(), chain.sequences().len(), chain.sequences()[1].len()), (5, 2, 20));
    for name in ["markov:", "markov:5", "markov:x:0.5", "markov:5:x", "markov:5:NaN", "markov:-5:0.5"] {
        let error = load(name, &options).unwrap_err();
        assert!(error.to_string().contains("markov:SYMBOLS:STAY"), "{error}");
    }
    for name in ["markov:1:0.5", "markov:5:1.5", "markov:1000000:0.5"] {
        assert!(matches!(load(name, &options), Err(DatasetError::Generate(_))), "{name}");
    }
}

#[test]
fn unknown_and_missing_data_sets_are_explained() {
    let error = load("tdrive_count", &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("did you mean tdrive_counts?") && error.contains("lns, sin, log"), "{error}");
    let error = load("foursquare", &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, DatasetError::NoDirectory { dataset } if dataset == "foursquare_lbsn2vec"));
    for (alias, name) in [("outpatient", "outpatient_ilinet"), ("covid19", "covid19_death"), ("loan", "lending_club")] {
        assert_eq!(datasets::by_name(alias).map(|dataset| dataset.name), Some(name));
    }
    let folder = directory("empty");
    for dataset in datasets::ALL.iter().filter(|dataset| dataset.is_real()) {
        assert!(
            matches!(load_from(&folder, dataset.name), Err(DatasetError::Table(TableError::Open { .. }))),
            "{}",
            dataset.name
        );
    }
    assert!(matches!(load("missing.csv", &LoadOptions::default()), Err(DatasetError::Table(TableError::Open { .. }))));
    assert!(load_from(&folder, folder.to_str().unwrap()).is_err(), "a directory is no file");
}
