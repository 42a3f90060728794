//! Channels for distances of all kinds: private always, and near to the optimum.

use proptest::prelude::*;
use tidegate::kernel::primitives::{ChannelLimits, ChannelParts, SymbolChannel};
use tidegate::kernel::{Epsilon, SeededRandom};
use tidegate::sequence::bins::{self, LineDistance};
use tidegate::sequence::channel::{Channel, ChannelMatrixError};
use tidegate::sequence::distance::{Distance, DistanceMatrix, MatrixError};
use tidegate::sequence::effort::{self, Effort};
use tidegate::sequence::{clusters, programme};

use crate::support::{random_belief, repeatable, unit};

/// A belief over 2 to 50 symbols, at times with zeros; and an epsilon from 0.1 to 4.
fn case(random: &mut SeededRandom) -> (Vec<f64>, Epsilon) {
    let domain = 2 + (unit(random) * 49.0) as usize;
    (random_belief(domain, random), Epsilon::budget(0.1 * 40_f64.powf(unit(random))).unwrap())
}

fn normalised(belief: Vec<f64>) -> Vec<f64> {
    let total: f64 = belief.iter().sum();
    belief.into_iter().map(|weight| weight / total).collect()
}

fn cost(channel: &Channel, belief: &[f64], distance: &Distance) -> f64 {
    channel.expected_cost(belief, |symbol, answer| distance.between(symbol, answer)).unwrap()
}

/// Checks privacy by its definition, on the dense matrix: both sides for the belief, and 2 epsilon between all rows;
/// and that the kernel, which computes exactly, takes the channel.
#[track_caller]
pub fn assert_private(channel: &Channel, belief: &[f64], epsilon: Epsilon) {
    let (rows, amount) = (channel.dense(), epsilon.as_f64());
    for answer in 0..belief.len() {
        let column: Vec<f64> = rows.iter().map(|row| row[answer]).collect();
        let q: f64 = column.iter().zip(belief).map(|(a, weight)| a * weight).sum();
        for (a, weight) in column.iter().zip(belief) {
            if *weight > 0.0 {
                assert!(*a <= amount.exp() * q + 1e-12 && *a >= (-amount).exp() * q - 1e-12, "{a} {q} {amount}");
            }
        }
        let most = column.iter().copied().fold(0.0, f64::max);
        assert!(column.iter().all(|least| most <= (2.0 * amount).exp() * least + 1e-12));
    }
    for row in &rows {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row.iter().all(|a| *a >= 0.0));
    }
    assert!(channel.leakage(belief).unwrap().largest() <= amount + 1e-11);
    assert!(channel.ldp_loss() <= 2.0 * amount + 1e-11);
    let parts = ChannelParts {
        outputs: channel.outputs(),
        rows: channel.rows(),
        mixtures: channel.mixtures(),
        mixture_of: channel.mixture_of(),
    };
    // As drawn, from integer weights.
    let drawn = SymbolChannel::new(&ChannelLimits::new(epsilon).unwrap(), parts).unwrap();
    for (symbol, row) in (0..).zip(&rows) {
        for (answer, a) in (0..).zip(row) {
            let p = drawn.probability(symbol, answer);
            assert!((p - a).abs() <= 1e-9 * a + 1e-12, "{symbol} is answered with {answer} at {p}, not {a}");
        }
    }
}

const LINE: [Distance; 2] = [Distance::Absolute, Distance::Squared];

fn matrix_of(distance: &Distance, domain: usize) -> DistanceMatrix {
    let row = |symbol| (0..domain as u32).map(|answer| distance.between(symbol, answer)).collect();
    DistanceMatrix::new((0..domain as u32).map(row).collect()).unwrap()
}

#[test]
fn programme_is_private_and_no_worse_than_bins() {
    let random = &mut SeededRandom::new(641);
    for _ in 0..30 {
        let (belief, epsilon) = case(random);
        for distance in LINE {
            let fast = effort::channel(&belief, epsilon, &distance, Effort::Fast).unwrap();
            assert_private(&fast, &belief, epsilon);
            let thorough = effort::channel(&belief, epsilon, &distance, Effort::Thorough).unwrap();
            assert_private(&thorough, &belief, epsilon);
            let (fast, thorough) = (cost(&fast, &belief, &distance), cost(&thorough, &belief, &distance));
            assert!(thorough <= fast, "{thorough} {fast}");
        }
    }
}

#[test]
fn bins_are_some_percent_above_the_optimum() {
    let random = &mut SeededRandom::new(642);
    let mut excesses = Vec::new();
    for _ in 0..30 {
        let (belief, epsilon) = case(random);
        for distance in LINE {
            let costs = [Effort::Fast, Effort::Thorough]
                .map(|effort| cost(&effort::channel(&belief, epsilon, &distance, effort).unwrap(), &belief, &distance));
            if costs[1] > 0.0 {
                excesses.push(costs[0] / costs[1] - 1.0);
            }
        }
    }
    let (mean, most) =
        (excesses.iter().sum::<f64>() / excesses.len() as f64, excesses.iter().copied().fold(0.0, f64::max));
    assert!(mean < 0.03 && most < 0.25, "{mean} {most}");
    assert!(most > 0.01, "the programme adds nothing");
}

#[test]
fn known_beliefs_have_the_costs_of_reference() {
    // Costs of bins and of the optimum for |x - y|, from an independent implementation and another solver.
    for (belief, epsilon, by_bins, optimum) in [
        (vec![0.1, 0.9], "1", 0.1, 0.1),
        (vec![0.3, 0.7], "1", 0.154_509_365, 0.154_509_365),
        (vec![0.25; 4], "1", 0.611_298_376, 0.504_369_263),
        (vec![0.5, 0.3, 0.2], "0.5", 0.503_265_330, 0.503_265_330),
        (vec![0.38, 0.33, 0.29], "0.3", 0.658_981_170, 0.658_981_170),
    ] {
        let epsilon = epsilon.parse().unwrap();
        let channel = bins::channel(&belief, epsilon, LineDistance::Absolute).unwrap();
        assert!((cost(&channel, &belief, &Distance::Absolute) - by_bins).abs() < 1e-8, "{belief:?}");
        let channel = programme::channel(&belief, epsilon, &Distance::Absolute).unwrap();
        assert!((cost(&channel, &belief, &Distance::Absolute) - optimum).abs() < 1e-7, "{belief:?}");
    }
}

/// A belief that is easily written down elsewhere.
fn written_down(domain: usize) -> Vec<f64> {
    normalised((0..domain).map(|x| ((x * x * 37 + x * 11 + 5 * domain) % 23 + 1) as f64).collect())
}

#[test]
fn the_programme_finds_the_optimum_that_another_solver_finds() {
    // The optimum for |x - y| and (x - y)², by HiGHS.
    for (domain, epsilon, absolute, squared) in [
        (2, "0.4", 0.332_832_523, 0.332_832_523),
        (3, "0.2", 0.461_424_672, 0.5),
        (5, "0.7", 0.789_585_739, 1.517_106_447),
        (8, "1.5", 0.807_282_322, 2.741_305_201),
        (13, "3", 0.250_034_083, 1.537_597_706),
        (21, "0.2", 5.249_440_005, 38.300_722_919),
        (21, "1", 3.392_527_664, 24.900_268_557),
        (34, "2", 2.099_001_537, 20.965_186_681),
        (50, "0.7", 9.845_155_798, 167.558_663_22),
        (50, "3.5", 0.701_288_689, 13.057_809_715),
    ] {
        let belief = written_down(domain);
        for (distance, optimum) in LINE.into_iter().zip([absolute, squared]) {
            let channel = programme::channel(&belief, epsilon.parse().unwrap(), &distance).unwrap();
            let cost = cost(&channel, &belief, &distance);
            assert!((cost / optimum - 1.0).abs() < 2e-6, "{domain} {epsilon} {distance:?}: {cost} {optimum}");
        }
    }
}

#[test]
fn programme_is_within_a_percent_of_optimum() {
    for (domain, epsilon, absolute, squared) in [(200, "1", 31.979_072_801, 2_083.001_044_757)] {
        let (belief, epsilon) = (written_down(domain), epsilon.parse().unwrap());
        for (distance, optimum) in LINE.into_iter().zip([absolute, squared]) {
            let channel = programme::channel(&belief, epsilon, &distance).unwrap();
            assert_private(&channel, &belief, epsilon);
            let above = cost(&channel, &belief, &distance) / optimum - 1.0;
            assert!((-1e-6..0.01).contains(&above), "{epsilon} {distance:?}: {above}");
        }
    }
}

#[test]
fn likely_symbols_are_answered_for_any_distance() {
    let belief = [0.3, 0.3, 0.0, 0.4];
    let epsilon: Epsilon = "1.5".parse().unwrap();
    let matrix = Distance::Matrix(matrix_of(&Distance::Squared, 4));
    let expected =
        |x: usize, y: usize| (-1.5_f64).exp() * belief[y] + if x == y { 1.0 - (-1.5_f64).exp() } else { 0.0 };
    for distance in [Distance::Absolute, Distance::Squared, matrix] {
        for effort in [Effort::Fast, Effort::Thorough] {
            let channel = effort::channel(&belief, epsilon, &distance, effort).unwrap();
            assert_private(&channel, &belief, epsilon);
            for symbol in [0, 1, 3] {
                for answer in 0..4 {
                    let given = channel.probability(symbol, answer);
                    assert!((given - expected(symbol as usize, answer as usize)).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn a_symbol_that_is_certain_is_answered_always() {
    for distance in LINE {
        for effort in [Effort::Fast, Effort::Thorough] {
            let channel = effort::channel(&[0.0, 1.0, 0.0], "1".parse().unwrap(), &distance, effort).unwrap();
            assert_eq!(channel.outputs(), [(1, 1.0)]);
        }
    }
}

#[test]
fn bins_serve_large_domains_and_extreme_epsilons() {
    let random = &mut SeededRandom::new(643);
    for (domain, epsilon) in [(1000, "0.001"), (1000, "1"), (1000, "5"), (20_000, "10"), (5, "10"), (3, "0.000000001")]
    {
        let belief = normalised((0..domain).map(|_| unit(random).powi(6)).collect());
        let epsilon: Epsilon = epsilon.parse().unwrap();
        for distance in [LineDistance::Absolute, LineDistance::Squared] {
            let channel = bins::channel(&belief, epsilon, distance).unwrap();
            let leakage = channel.leakage(&belief).unwrap().largest();
            assert!(leakage <= epsilon.as_f64() + 1e-11, "{domain} {epsilon} {leakage}");
            assert!(channel.ldp_loss() <= 2.0 * epsilon.as_f64() + 1e-11);
        }
    }
}

#[test]
fn clusters_are_private_and_near_the_optimum() {
    let random = &mut SeededRandom::new(644);
    let (mut by_clusters, mut by_bins) = (0.0, 0.0);
    for _ in 0..20 {
        let (belief, epsilon) = case(random);
        let distance = Distance::Absolute;
        let matrix = matrix_of(&distance, belief.len());
        let channel = clusters::channel(&belief, epsilon, &matrix).unwrap();
        assert_private(&channel, &belief, epsilon);
        let optimum = programme::channel(&belief, epsilon, &Distance::Matrix(matrix)).unwrap();
        assert_private(&optimum, &belief, epsilon);
        let optimum = cost(&optimum, &belief, &distance);
        let line = programme::channel(&belief, epsilon, &distance).unwrap();
        assert!((cost(&line, &belief, &distance) - optimum).abs() <= 2e-6 * optimum);
        if optimum > 0.0 {
            by_clusters += (cost(&channel, &belief, &distance) / optimum - 1.0) / 20.0;
            let channel = bins::channel(&belief, epsilon, LineDistance::Absolute).unwrap();
            by_bins += (cost(&channel, &belief, &distance) / optimum - 1.0) / 20.0;
        }
    }
    assert!(by_clusters < 0.06 && by_bins < by_clusters, "{by_clusters} {by_bins}");
}

proptest! {
    #![proptest_config(repeatable(64))]

    #[test]
    fn bins_are_private_for_any_belief(
        weights in prop::collection::vec(prop_oneof![Just(0_u32), 1..10_u32, 1..100_000_u32], 1..80),
        units in 1..6_000_000_000_u64,
    ) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let belief = normalised(weights.into_iter().map(f64::from).collect());
        let epsilon = Epsilon::from_units(units).unwrap();
        for distance in [LineDistance::Absolute, LineDistance::Squared] {
            let channel = bins::channel(&belief, epsilon, distance).unwrap();
            let excess = channel.leakage(&belief).unwrap().largest() - epsilon.as_f64();
            prop_assert!(excess <= 1e-11, "{}", excess);
            prop_assert!(channel.ldp_loss() <= 2.0 * epsilon.as_f64() + 1e-11);
            prop_assert!(channel.excess(&belief).unwrap() < 1e-12);
        }
    }
}

#[test]
fn what_is_no_belief_or_does_not_fit_is_refused() {
    let epsilon = "1".parse().unwrap();
    let bins = |belief: &[f64]| bins::channel(belief, epsilon, LineDistance::Absolute).unwrap_err();
    assert!(matches!(bins(&[]), ChannelMatrixError::Empty { .. }));
    assert!(matches!(bins(&[0.5, f64::NAN]), ChannelMatrixError::Probability { .. }));
    assert!(matches!(bins(&[1.5, -0.5]), ChannelMatrixError::Probability { .. }));
    assert!(matches!(bins(&[0.5, 0.4]), ChannelMatrixError::Sum { .. }));
    let far = bins::channel(&[0.5, 0.5], "1000".parse().unwrap(), LineDistance::Squared).unwrap_err();
    assert!(matches!(far, ChannelMatrixError::Independent { .. }));
    let matrix = matrix_of(&Distance::Hamming, 3);
    let other = clusters::channel(&[0.5, 0.5], epsilon, &matrix).unwrap_err();
    assert_eq!(other, ChannelMatrixError::Belief { given: 2, expected: 3 });
}

#[test]
fn distance_matrix_is_validated_on_creation_and_load() {
    assert_eq!(DistanceMatrix::new(Vec::new()), Err(MatrixError::Domain { given: 0 }));
    let ragged = DistanceMatrix::new(vec![vec![0.0, 1.0], vec![1.0]]);
    assert_eq!(ragged, Err(MatrixError::Row { row: 1, given: 1, expected: 2 }));
    let negative = DistanceMatrix::new(vec![vec![0.0, 1.0], vec![-1.0, 0.0]]);
    assert_eq!(negative, Err(MatrixError::Entry { row: 1, column: 0, given: -1.0 }));
    let matrix = Distance::Matrix(matrix_of(&Distance::Squared, 3));
    let text = serde_json::to_string(&matrix).unwrap();
    assert_eq!(serde_json::from_str::<Distance>(&text).unwrap(), matrix);
    assert!(serde_json::from_str::<Distance>(r#"{"matrix":[[0,1],[1]]}"#).is_err());
}

#[test]
fn the_best_constant_answer_is_the_one_that_costs_least() {
    let random = &mut SeededRandom::new(645);
    for _ in 0..50 {
        let (belief, _) = case(random);
        let matrix = Distance::Matrix(matrix_of(&Distance::Squared, belief.len()));
        for distance in [Distance::Hamming, Distance::Absolute, Distance::Squared, matrix] {
            let cost = |answer: u32| -> f64 {
                (0_u32..).zip(&belief).map(|(symbol, weight)| weight * distance.between(symbol, answer)).sum()
            };
            let least = (0..belief.len() as u32).map(cost).fold(f64::INFINITY, f64::min);
            assert!(cost(distance.best_answer(&belief)) <= least + 1e-9, "{distance:?} {belief:?}");
        }
    }
}
