use tidegate_kernel::primitives::{AboveThreshold, PrimitiveError, Protects, SealedQuery, Side};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom};

use crate::support::{all_vectors, nonzero, permit, permit_at, sealed_at};

fn group(readings: &[i64]) -> Vec<Sealed<i64>> {
    readings.iter().zip(0..).map(|(reading, timestamp)| sealed_at(timestamp, *reading)).collect()
}

/// Whether a query is at least `threshold`: at the largest epsilon there is almost no noise.
fn reaches(query: &SealedQuery, threshold: i64) -> bool {
    let random = &mut SeededRandom::new(1);
    let mut test = AboveThreshold::open(permit(Epsilon::MAX), threshold, 10, random).unwrap();
    let newcomers = query.timestamps().iter().filter(|timestamp| **timestamp != 0);
    let newcomers = newcomers.map(|timestamp| permit_at(*timestamp, Epsilon::MAX));
    *test.ask(newcomers, query, random).unwrap().value() == Side::Above
}

/// The value of a query, found by threshold tests.
fn revealed(query: &SealedQuery) -> i64 {
    (-30..=30).rev().find(|threshold| reaches(query, *threshold)).unwrap()
}

/// The deviation by its definition, of readings clamped to 0..=width.
fn deviation(readings: &[i64], width: i64) -> i64 {
    let clamped: Vec<f64> = readings.iter().map(|reading| (*reading).clamp(0, width) as f64).collect();
    let mean = clamped.iter().sum::<f64>() / clamped.len() as f64;
    (clamped.iter().map(|reading| (reading - mean).abs()).sum::<f64>() + 1e-9).floor() as i64
}

#[test]
fn the_deviation_is_rounded_down() {
    for readings in [vec![4], vec![1, 4], vec![0, 0, 3], vec![-7, 2, 99, 1], vec![0, 1, 0, 0, 3]] {
        let query = SealedQuery::deviation(&group(&readings), 0..=3, Protects::Reading).unwrap();
        assert_eq!(revealed(&query), deviation(&readings, 3), "{readings:?}");
    }
}

#[test]
fn queried_readings_are_clamped() {
    for (reading, clamped) in [(-9, -3), (2, 2), (99, 5)] {
        let query = SealedQuery::reading(&sealed_at(0, reading), -3..=5, Protects::Reading).unwrap();
        assert_eq!((revealed(&query), query.sensitivity(), query.timestamps()), (clamped, 8, [0].as_slice()));
    }
}

#[test]
fn the_sensitivity_of_the_deviation_is_tight() {
    for width in [1, 2, 3] {
        let points: Vec<i64> = (0..=width).collect();
        for count in 1..=4 {
            let stated =
                |protects| SealedQuery::deviation(&group(&vec![0; count]), 0..=width, protects).unwrap().sensitivity();
            for most in 1..=width {
                let mut farthest = 0;
                for readings in all_vectors(&points, count) {
                    let before = deviation(&readings, width);
                    for other in points.iter().filter(|other| readings[0].abs_diff(**other) <= most as u64) {
                        let neighbour = [&[*other], &readings[1..]].concat();
                        farthest = farthest.max(before.abs_diff(deviation(&neighbour, width)));
                    }
                }
                let sensitivity = stated(Protects::Contribution(nonzero(most as u64)));
                assert_eq!(sensitivity, (2 * most as u64 * (count as u64 - 1)).div_ceil(count as u64));
                assert!(farthest <= sensitivity && farthest + 1 >= sensitivity, "{width} {count} {most}: {farthest}");
                assert!(sensitivity <= 2 * most as u64);
            }
            assert_eq!(stated(Protects::Reading), stated(Protects::Contribution(nonzero(width as u64))));
        }
    }
}

#[test]
fn rejects_two_readings_of_one_timestamp() {
    let deviation = |readings: &[Sealed<i64>]| SealedQuery::deviation(readings, 0..=9, Protects::Reading).unwrap_err();
    assert_eq!(deviation(&[]), PrimitiveError::Nothing { expected: "reading" });
    let twice = deviation(&[sealed_at(8, 1), sealed_at(5, 2), sealed_at(8, 3)]);
    assert_eq!(twice, PrimitiveError::SameTimestamp { timestamp: 8 });
    assert_eq!(twice.to_string(), "two readings are of timestamp 8; a query takes one of each");
    let range = SealedQuery::deviation(&group(&[1]), 9..=9, Protects::Reading);
    assert_eq!(range.unwrap_err(), PrimitiveError::Range { low: 9, high: 9 });
}

#[test]
fn the_widest_range_does_not_overflow() {
    let query =
        SealedQuery::deviation(&group(&[i64::MIN, i64::MAX, 0]), i64::MIN..=i64::MAX, Protects::Reading).unwrap();
    assert_eq!(query.sensitivity(), u64::MAX);
    assert_eq!(format!("{query:?}"), "Query(..)");
}
