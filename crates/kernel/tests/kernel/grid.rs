//! Readings are rounded to the grid before sealing.

use std::num::NonZeroU64;

use proptest::prelude::*;
use tidegate_kernel::primitives::{Protects, noisy_scalar};
use tidegate_kernel::{Epsilon, Grid, GridError, Sealed, SeededRandom};

use crate::support::{account, permit};

/// The sealed value: at the largest epsilon the noise is zero, except with probability e^-1000.
pub(crate) fn revealed(reading: &Sealed<i64>) -> i64 {
    let random = &mut SeededRandom::new(1);
    let everything = i64::MIN..=i64::MAX;
    let protects = Protects::Contribution(NonZeroU64::MIN);
    noisy_scalar(permit(Epsilon::MAX), reading, everything, protects, random).unwrap().into_value()
}

#[test]
fn a_reading_is_rounded_to_the_nearest_grid_point() {
    let grid = Grid::new(-1.0, 1.0, 0.25).unwrap();
    assert_eq!((grid.low(), grid.high(), grid.step(), grid.width()), (-1.0, 1.0, 0.25, 8));
    for (reading, steps) in [(-1.0, 0), (-0.88, 0), (-0.87, 1), (0.0, 4), (-0.0, 4), (0.1, 4), (0.13, 5), (1.0, 8)] {
        assert_eq!(revealed(&grid.seal(account(), 0, reading).unwrap()), steps, "{reading}");
    }
}

#[test]
fn public_values_round_like_readings() {
    let grid = Grid::new(-1.0, 1.0, 0.25).unwrap();
    for value in [-1.0, -0.88, -0.87, 0.0, 0.1, 0.13, 0.125, 0.375, 1.0] {
        assert_eq!(grid.steps(value).unwrap() as i64, revealed(&grid.seal(account(), 0, value).unwrap()), "{value}");
    }
    assert_eq!(grid.range(), 0..=8);
    assert!(grid.steps(1.01).is_err() && grid.steps(f64::NAN).is_err());
}

#[test]
fn readings_outside_the_domain_can_be_clamped() {
    let grid = Grid::new(-1.0, 1.0, 0.25).unwrap();
    let far = [(f64::NEG_INFINITY, 0), (-1e300, 0), (-0.87, 1), (1.001, 8), (f64::INFINITY, 8)];
    for (reading, steps) in far {
        let sealed = grid.seal_clamped(account(), 0, reading).unwrap();
        assert_eq!(revealed(&sealed), steps, "{reading}");
    }
    assert_eq!(grid.seal_clamped(account(), 7, 2.0).unwrap().timestamp(), 7);
    assert_eq!(grid.seal_clamped(account(), 0, f64::NAN).unwrap_err(), GridError::Reading { low: -1.0, high: 1.0 });
}

#[test]
fn a_hair_can_be_a_whole_step() {
    let grid = Grid::new(0.0, 10.0, 0.5).unwrap();
    assert_eq!(grid.steps(0.25).unwrap() - grid.steps(0.249).unwrap(), 1);
    let sensitivity = |distance: f64| grid.sensitivity(distance.try_into().unwrap());
    assert_eq!((sensitivity(0.0).unwrap(), sensitivity(0.001).unwrap()), (1, 2));
    assert_eq!((sensitivity(1.5).unwrap(), sensitivity(1e300).unwrap()), (4, 20));
    let message = "a reading moves by a distance that is not negative, but -0.1 was given";
    assert_eq!(sensitivity(-0.1).unwrap_err().to_string(), message);
}

#[test]
fn an_uneven_step_still_covers_the_domain() {
    let tenths = Grid::new(0.0, 1.0, 0.1).unwrap();
    assert_eq!(tenths.width(), 10);
    let uneven = Grid::new(0.0, 1.0, 0.3).unwrap();
    assert_eq!((uneven.width(), revealed(&uneven.seal(account(), 0, 1.0).unwrap())), (3, 3));
    let beyond = Grid::new(0.0, 1.0, 0.4).unwrap();
    assert_eq!(beyond.value_of(3), 0.4 * 3.0);
    assert_eq!(beyond.value_within(3), 1.0);
    assert_eq!(beyond.value_within(-2), 0.0);
}

#[test]
fn errors_do_not_contain_the_reading() {
    let grid = Grid::new(0.0, 612.0, 1.0).unwrap();
    for reading in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 612.000_001, 77_777.0] {
        let error = grid.seal(account(), 0, reading).unwrap_err();
        assert_eq!(error, GridError::Reading { low: 0.0, high: 612.0 });
        assert_eq!(error.to_string(), "the reading is not a number within 0..=612");
    }
}

#[test]
fn rejects_invalid_grids() {
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)] {
        assert!(matches!(Grid::new(low, high, 1.0), Err(GridError::Domain { .. })), "{low} {high}");
    }
    for step in [0.0, -1.0, f64::NAN, f64::INFINITY, 3.0, 1e-10, f64::MIN_POSITIVE] {
        assert_eq!(
            Grid::new(0.0, 1.0, step).unwrap_err().to_string(),
            format!("a step must divide 0..=1 into 1 to 4294967296 steps, but {step} was given")
        );
    }
    let widest = Grid::new(0.0, 4_294_967_296.0, 1.0).unwrap();
    assert_eq!(widest.width(), Grid::MAX_WIDTH);
    assert_eq!(revealed(&widest.seal(account(), 0, 4_294_967_296.0).unwrap()), 4_294_967_296);
}

#[test]
fn loading_a_grid_checks_it() {
    let grid = Grid::new(0.0, 10.0, 0.5).unwrap();
    let text = serde_json::to_string(&grid).unwrap();
    assert_eq!(text, r#"{"low":0.0,"high":10.0,"step":0.5}"#);
    assert_eq!(serde_json::from_str::<Grid>(&text).unwrap(), grid);
    assert!(serde_json::from_str::<Grid>(r#"{"low":0.0,"high":10.0,"step":0.0}"#).is_err());
    assert!(serde_json::from_str::<Grid>(r#"{"low":0.0,"high":10.0,"step":1.0,"spare":1}"#).is_err());
}

proptest! {
    #[test]
    fn no_reading_is_sealed_outside_the_width(
        low in -1e9..1e9_f64, length in 1e-6..1e9_f64, steps in 1.0..4e9_f64, share in 0.0..=1.0_f64,
    ) {
        let (high, step) = (low + length, length / steps);
        if let Ok(grid) = Grid::new(low, high, step) {
            let reading = (low + share * length).clamp(low, high);
            let sealed = revealed(&grid.seal(account(), 0, reading).unwrap());
            prop_assert!((0..=grid.width() as i64).contains(&sealed));
            prop_assert!((grid.value_of(sealed) - reading).abs() <= step * 0.5 + (low.abs() + length) * 1e-14);
            let other = (low + (1.0 - share) * length).clamp(low, high);
            let apart = grid.steps(reading).unwrap().abs_diff(grid.steps(other).unwrap());
            prop_assert!(apart <= grid.sensitivity((reading - other).abs().try_into().unwrap()).unwrap());
            prop_assert_eq!(revealed(&grid.seal(account(), 0, low).unwrap()), 0);
            prop_assert_eq!(revealed(&grid.seal(account(), 0, high).unwrap()), grid.width() as i64);
        }
    }
}
