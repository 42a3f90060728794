use tidegate_kernel::{Grid, SeededRandom};
use tidegate_lab::stream::{DataStreamError, MAX_POPULATION, Space};
use tidegate_lab::{CountStream, DataStream, NumberStream, SymbolStream};

use crate::support::stream;

fn labels(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn counts_that_are_no_stream_are_refused() {
    let new = |names: &[&str], counts: Vec<Vec<u64>>| CountStream::new("x", labels(names), counts).unwrap_err();
    assert_eq!(new(&["a"], vec![vec![1]]), DataStreamError::Domain { given: 1 });
    assert_eq!(new(&["a", "a"], vec![vec![1, 1]]), DataStreamError::SameLabel { label: "a".to_owned() });
    assert_eq!(new(&["a", "b"], vec![]), DataStreamError::Empty);
    let narrow = DataStreamError::Width { timestamp: 1, given: 1, expected: 2 };
    assert_eq!(new(&["a", "b"], vec![vec![1, 1], vec![1]]), narrow);
    let population = DataStreamError::Population { timestamp: 0 };
    assert_eq!(new(&["a", "b"], vec![vec![0, 0]]), population);
    assert_eq!(new(&["a", "b"], vec![vec![u64::MAX, 1]]), population);
    assert_eq!(new(&["a", "b"], vec![vec![MAX_POPULATION, 1]]), population);
}

#[test]
fn a_stream_can_be_cut_but_not_stretched() {
    let three = stream(&[&[1, 2], &[3, 4], &[5, 6]]);
    assert_eq!(three.clone().shortened(2).unwrap().counts(), [[1, 2], [3, 4]]);
    for length in [0, 4] {
        let error = three.clone().shortened(length).unwrap_err();
        assert_eq!(error, DataStreamError::Length { name: "test".to_owned(), given: length, available: 3 });
    }
}

#[test]
fn a_stream_keeps_its_frequencies_among_more_or_fewer_users() {
    let few = stream(&[&[1, 2, 4], &[0, 0, 5]]);
    assert_eq!(few.clone().with_population(14).unwrap().counts(), [[2, 4, 8], [0, 0, 14]]);
    // 10/7, 20/7, 40/7: the two left over go to the largest remainders, 6/7 and 5/7.
    assert_eq!(few.clone().with_population(10).unwrap().counts(), [[1, 3, 6], [0, 0, 10]]);
    assert_eq!(few.clone().with_population(1).unwrap().counts(), [[0, 0, 1], [0, 0, 1]]);
    // Three equal remainders, one user: the first value gets it.
    assert_eq!(stream(&[&[1, 1, 1]]).with_population(4).unwrap().counts(), [[2, 1, 1]]);
    let many = few.with_population(MAX_POPULATION).unwrap();
    assert_eq!(many.population(0), MAX_POPULATION);
    assert!(many.with_population(0).is_err());
}

fn numbers(values: &[f64]) -> Result<NumberStream, DataStreamError> {
    NumberStream::new("test", Grid::new(-1.0, 10.0, 0.5).unwrap(), values.to_vec())
}

#[test]
fn numbers_lie_within_the_declared_domain() {
    assert_eq!(numbers(&[-1.0, 3.3, 10.0]).unwrap().values(), [-1.0, 3.3, 10.0]);
    assert_eq!(numbers(&[]), Err(DataStreamError::Empty));
    for bad in [f64::NAN, f64::INFINITY, -1.1, 10.000001] {
        let expected = DataStreamError::OutsideDomain { timestamp: 1, low: -1.0, high: 10.0 };
        assert_eq!(numbers(&[0.0, bad]), Err(expected));
    }
    let three = numbers(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(three.clone().shortened(2).unwrap().values(), [1.0, 2.0]);
    for given in [0, 4] {
        let error = three.clone().shortened(given).unwrap_err();
        assert_eq!(error, DataStreamError::Length { name: "test".to_owned(), given, available: 3 });
    }
    let error = DataStream::from(three).with_population(2, &mut SeededRandom::new(1)).unwrap_err();
    assert_eq!(error, DataStreamError::NoUsers { name: "test".to_owned() });
}

fn symbols(sequences: &[&[u32]]) -> Result<SymbolStream, DataStreamError> {
    let sequences = sequences.iter().map(|sequence| sequence.to_vec()).collect();
    SymbolStream::new("test", Space::Line { symbols: 3 }, sequences)
}

#[test]
fn symbols_are_those_of_their_space() {
    assert_eq!(symbols(&[]), Err(DataStreamError::Empty));
    assert_eq!(symbols(&[&[0], &[]]), Err(DataStreamError::NoSymbols { user: 1 }));
    assert_eq!(symbols(&[&[0], &[2, 3]]), Err(DataStreamError::Symbol { user: 1, timestamp: 1, domain: 3 }));
    let single = SymbolStream::new("test", Space::Grid { columns: 1, rows: 1 }, vec![vec![0]]);
    assert_eq!(single, Err(DataStreamError::Domain { given: 1 }));
}

#[test]
fn users_are_chosen_and_sequences_cut_but_models_may_learn_from_all() {
    let owned: Vec<Vec<u32>> = (0..60).map(|user| vec![user % 3; 1 + user as usize % 4]).collect();
    let stream = symbols(&owned.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    let chosen = stream.clone().with_population(20, &mut SeededRandom::new(3)).unwrap();
    assert_eq!(chosen.sequences().len(), 20);
    assert_eq!(chosen.corpus(), stream.sequences());
    assert_eq!(chosen, stream.clone().with_population(20, &mut SeededRandom::new(3)).unwrap());
    assert_ne!(chosen, stream.clone().with_population(20, &mut SeededRandom::new(4)).unwrap());
    assert_eq!(stream.clone().with_population(60, &mut SeededRandom::new(3)).unwrap(), stream, "the order is kept");
    for given in [0, 61, u64::MAX] {
        let error = stream.clone().with_population(given, &mut SeededRandom::new(3)).unwrap_err();
        assert_eq!(error, DataStreamError::Users { name: "test".to_owned(), given, available: 60 });
    }
    let cut = stream.clone().shortened(2).unwrap();
    assert!(cut.sequences().iter().zip(&owned).all(|(cut, whole)| *cut == whole[..whole.len().min(2)]));
    assert_eq!(cut.corpus(), owned);
    assert!(stream.clone().shortened(5).is_err() && stream.shortened(0).is_err());
}

#[test]
fn each_user_is_as_likely_to_be_chosen() {
    let stream = symbols(&[&[0], &[1], &[2]]).unwrap();
    let mut chosen = [0.0_f64; 3];
    let runs = 30_000;
    let mut random = SeededRandom::new(5);
    for _ in 0..runs {
        let two = stream.clone().with_population(2, &mut random).unwrap();
        two.sequences().iter().for_each(|sequence| chosen[sequence[0] as usize] += 1.0);
    }
    // Five standard deviations of a binomial number: false alarms below 1e-6 each; 10 % would be 24 of them.
    let deviation = f64::sqrt(f64::from(runs) * 2.0 / 9.0);
    assert!(chosen.iter().all(|count| (count - 20_000.0).abs() < 5.0 * deviation), "{chosen:?}");
}

#[test]
fn distances_are_those_of_a_line_or_a_grid() {
    let grid = Space::Grid { columns: 5, rows: 4 };
    assert_eq!((grid.symbols(), grid.place(13), grid.middle()), (20, (3, 2), 7));
    assert_eq!((grid.distance(0, 4), grid.distance(2, 17), grid.distance(0, 19)), (4.0, 3.0, 5.0));
    assert_eq!(grid.distance(13, 13), 0.0);
    let line = Space::Line { symbols: 5 };
    assert_eq!((line.symbols(), line.middle(), line.distance(4, 1)), (5, 2, 3.0));
    assert_eq!(Space::Line { symbols: 2 }.middle(), 0);
}

#[test]
fn a_stream_says_what_it_is() {
    let text = |stream: DataStream| stream.to_string();
    assert_eq!(text(stream(&[&[1, 2], &[3, 4]]).into()), "test: 2 timestamps, 2 values, 3 to 7 users");
    assert_eq!(text(numbers(&[1.0]).unwrap().into()), "test: 1 timestamps, a number within -1..10 in steps of 0.5");
    assert_eq!(text(symbols(&[&[1, 2], &[0]]).unwrap().into()), "test: 2 users with 1 to 2 timestamps, 3 symbols");
    assert_eq!(text(symbols(&[&[1, 2]]).unwrap().into()), "test: 1 user with 2 timestamps, 3 symbols");
}
