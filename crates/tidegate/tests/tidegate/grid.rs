//! Channels for cells of a grid.

use tidegate::kernel::SeededRandom;
use tidegate::sequence::channel::ChannelMatrixError;
use tidegate::sequence::distance::{Distance, DistanceMatrix};
use tidegate::sequence::{clusters, grid, programme};

use crate::support::unit;

fn normalised(mut belief: Vec<f64>) -> Vec<f64> {
    let sum: f64 = belief.iter().sum();
    belief.iter_mut().for_each(|weight| *weight /= sum);
    belief
}

#[test]
fn every_channel_keeps_both_sides_and_twice_epsilon_locally() {
    let random = &mut SeededRandom::new(660);
    // Square, a single row, a single column, and a last row that is not complete; beliefs from flat to a few heavy
    // cells.
    for (domain, columns) in [(400, 20), (60, 60), (60, 1), (103, 10), (10_000, 100)] {
        for (power, epsilon) in [(1, "0.3"), (4, "1"), (20, "1.5"), (60, "4")] {
            let mut belief: Vec<f64> = (0..domain).map(|_| unit(random).powi(power)).collect();
            belief[domain / 2] = 0.0;
            belief[domain - 1] = 0.0;
            let belief = normalised(belief);
            let channel = grid::channel(&belief, columns, epsilon.parse().unwrap()).unwrap();
            let epsilon: f64 = epsilon.parse().unwrap();
            let leakage = channel.leakage(&belief).unwrap().largest();
            assert!(leakage <= epsilon + 1e-9, "{domain} {columns} {power} {epsilon}: {leakage}");
            assert!(channel.ldp_loss() <= 2.0 * epsilon + 1e-9, "{domain} {columns} {power} {epsilon}");
        }
    }
}

#[test]
fn small_grid_matches_clusters_and_optimum() {
    let random = &mut SeededRandom::new(661);
    let (domain, columns) = (64, 8);
    let distance = Distance::Grid { columns };
    let between = |one, other| distance.between(one, other);
    let table = (0..domain).map(|x| (0..domain).map(|y| between(x, y)).collect()).collect();
    let matrix = DistanceMatrix::new(table).unwrap();
    for epsilon in ["0.5", "1", "2"] {
        let belief = normalised((0..domain).map(|_| unit(random).powi(6)).collect());
        let epsilon = epsilon.parse().unwrap();
        let cost = |channel: &tidegate::sequence::channel::Channel| channel.expected_cost(&belief, between).unwrap();
        let blocks = cost(&grid::channel(&belief, columns, epsilon).unwrap());
        let clusters = cost(&clusters::channel(&belief, epsilon, &matrix).unwrap());
        let optimum = cost(&programme::channel(&belief, epsilon, &distance).unwrap());
        // With fewer cells than there may be blocks, both look at the same.
        assert!((blocks / clusters - 1.0).abs() < 0.02, "{epsilon}: {blocks} {clusters}");
        assert!(blocks < 1.1 * optimum, "{epsilon}: {blocks} {optimum}");
    }
}

#[test]
fn a_large_grid_loses_little_by_blocks() {
    // Two gazes, each at a place of its own, in a grid of 60 by 60.
    let near = |cell: u32, column: f64, row: f64| {
        let (x, y) = (f64::from(cell % 60) - column, f64::from(cell / 60) - row);
        (-(x * x + y * y) / 8.0).exp()
    };
    let belief = normalised((0..3600).map(|cell| near(cell, 10.0, 50.0) + near(cell, 45.0, 12.0) + 1e-6).collect());
    let distance = Distance::Grid { columns: 60 };
    let channel = grid::channel(&belief, 60, "4".parse().unwrap()).unwrap();
    let cost = channel.expected_cost(&belief, |one, other| distance.between(one, other)).unwrap();
    // The places are 51.7 cells from one another and 2 cells wide: whoever always answers with one is 26 off.
    let answer = distance.best_answer(&belief);
    let one = belief.iter().zip(0..).map(|(weight, cell)| weight * distance.between(cell, answer));
    assert!(one.sum::<f64>() > 20.0);
    assert!(cost < 2.5, "{cost}");
}

#[test]
fn finds_the_best_answer_on_a_grid() {
    let random = &mut SeededRandom::new(662);
    for _ in 0..20 {
        let belief = normalised((0..120).map(|_| unit(random).powi(3)).collect());
        let distance = Distance::Grid { columns: 12 };
        let cost = |answer: u32| -> f64 { belief.iter().zip(0..).map(|(w, x)| w * distance.between(x, answer)).sum() };
        let least = (0..120).map(cost).fold(f64::INFINITY, f64::min);
        assert!(cost(distance.best_answer(&belief)) <= 1.01 * least);
    }
}

#[test]
fn what_is_no_belief_is_refused() {
    let epsilon = "1".parse().unwrap();
    assert!(matches!(grid::channel(&[], 10, epsilon), Err(ChannelMatrixError::Empty { .. })));
    assert!(matches!(grid::channel(&[0.5, 0.6], 2, epsilon), Err(ChannelMatrixError::Sum { .. })));
    assert!(matches!(grid::channel(&[1.5, -0.5], 2, epsilon), Err(ChannelMatrixError::Probability { .. })));
}
