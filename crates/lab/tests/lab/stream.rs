use tidegate_lab::CountStream;
use tidegate_lab::stream::{MAX_POPULATION, StreamError};

use crate::support::stream;

fn labels(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn counts_that_are_no_stream_are_refused() {
    let new = |names: &[&str], counts: Vec<Vec<u64>>| CountStream::new("x", labels(names), counts).unwrap_err();
    assert_eq!(new(&["a"], vec![vec![1]]), StreamError::Domain { given: 1 });
    assert_eq!(new(&["a", "a"], vec![vec![1, 1]]), StreamError::SameLabel { label: "a".to_owned() });
    assert_eq!(new(&["a", "b"], vec![]), StreamError::Empty);
    let narrow = StreamError::Width { timestamp: 1, given: 1, expected: 2 };
    assert_eq!(new(&["a", "b"], vec![vec![1, 1], vec![1]]), narrow);
    let population = StreamError::Population { timestamp: 0 };
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
        assert_eq!(error, StreamError::Length { name: "test".to_owned(), given: length, available: 3 });
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
