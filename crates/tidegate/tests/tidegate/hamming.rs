//! The channel for the Hamming distance: private, optimal, and what the reference says.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, ZeroConeT};
use tidegate::kernel::primitives::{ChannelLimits, ChannelParts, SymbolChannel};
use tidegate::kernel::{Epsilon, Randomness, SeededRandom};
use tidegate::sequence::channel::{Channel, ChannelMatrixError, Parts};
use tidegate::sequence::hamming;

use crate::support::{random_belief, unit};

fn hamming_distance(x: u32, y: u32) -> f64 {
    f64::from(u8::from(x != y))
}

fn epsilon(amount: f64) -> Epsilon {
    Epsilon::budget(amount).unwrap()
}

/// Both sides of the definition and the loss over all rows, from the whole matrix and without the channel's own
/// formulas.
fn measured(channel: &Channel, belief: &[f64]) -> (f64, f64, f64) {
    let matrix = channel.dense();
    let (mut above, mut below, mut local) = (0.0_f64, 0.0_f64, 0.0_f64);
    for y in 0..belief.len() {
        let q: f64 = belief.iter().zip(&matrix).map(|(weight, row)| weight * row[y]).sum();
        let column = || matrix.iter().map(|row| row[y]);
        if q == 0.0 {
            assert!(column().all(|p| p == 0.0), "an output that nobody expects");
            continue;
        }
        for (weight, p) in belief.iter().zip(column()) {
            if *weight > 0.0 {
                above = above.max((p / q).ln());
                below = below.min((p / q).ln());
            }
        }
        local = local.max((column().fold(0.0, f64::max) / column().fold(f64::INFINITY, f64::min)).ln());
    }
    (above, below, local)
}

#[test]
fn channels_of_random_beliefs_are_private() {
    let random = &mut SeededRandom::new(600);
    let mut reached = 0;
    for _ in 0..1_000 {
        let domain = 2 + (random.next_word() % 49) as usize;
        let amount = epsilon(0.1 + 3.9 * unit(random));
        let eps = amount.as_f64();
        let belief = random_belief(domain, random);
        let channel = hamming::channel(&belief, amount).unwrap();
        for row in channel.dense() {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        let (above, below, local) = measured(&channel, &belief);
        assert!(above <= eps + 1e-9 && -below <= eps + 1e-9, "{above} {below} {eps} {belief:?}");
        assert!(local <= 2.0 * eps + 1e-9, "{local} {eps}");
        reached += usize::from(above > eps - 1e-9);
        // The channel's own formulas, which look at what is not zero only, say the same.
        let sides = channel.leakage(&belief).unwrap();
        assert!((sides.above - above).abs() < 1e-12 && (sides.below - below).abs() < 1e-12);
        assert!((channel.ldp_loss() - local).abs() < 1e-12);
        assert!(channel.excess(&belief).unwrap() < 1e-12);
        // The kernel finds it private in exact arithmetic, and hardly changes it.
        let limits = ChannelLimits::new(amount).unwrap();
        let parts = ChannelParts {
            outputs: channel.outputs(),
            rows: channel.rows(),
            mixtures: channel.mixtures(),
            mixture_of: channel.mixture_of(),
        };
        let exact = SymbolChannel::new(&limits, parts).unwrap();
        for x in 0..domain as u32 {
            for y in 0..domain as u32 {
                let (float, integer) = (channel.probability(x, y), exact.probability(x, y));
                assert!((float - integer).abs() <= 1e-9 * float, "{float} {integer}");
            }
        }
    }
    assert!(reached > 300, "{reached} channels use what they may");
}

/// The least expected distance over all channels, from the constraints as they are defined:
/// `l q(y) <= a(y|x) <= u q(y)`.
fn least_error(belief: &[f64], eps: f64) -> f64 {
    let d = belief.len();
    let at = |x: usize, y: usize| x * d + y;
    let (u, l) = (eps.exp(), (-eps).exp());
    let (mut rows, mut columns, mut values, mut bounds) = (vec![], vec![], vec![], vec![]);
    let mut add = |entries: Vec<(usize, f64)>, bound: f64| {
        for (column, value) in entries {
            rows.push(bounds.len());
            columns.push(column);
            values.push(value);
        }
        bounds.push(bound);
    };
    for x in 0..d {
        add((0..d).map(|y| (at(x, y), 1.0)).collect(), 1.0);
    }
    for x in 0..d {
        for y in 0..d {
            let own = |z: usize| f64::from(u8::from(z == x));
            add((0..d).map(|z| (at(z, y), own(z) - u * belief[z])).collect(), 0.0);
            add((0..d).map(|z| (at(z, y), l * belief[z] - own(z))).collect(), 0.0);
            add(vec![(at(x, y), -1.0)], 0.0);
        }
    }
    let constraints = CscMatrix::new_from_triplets(bounds.len(), d * d, rows, columns, values);
    let cost: Vec<f64> = (0..d * d).map(|i| belief[i / d] * hamming_distance((i / d) as u32, (i % d) as u32)).collect();
    let cones = [ZeroConeT(d), NonnegativeConeT(3 * d * d)];
    let settings = DefaultSettings { verbose: false, tol_gap_abs: 1e-10, tol_gap_rel: 1e-10, ..Default::default() };
    let none = CscMatrix::spalloc((d * d, d * d), 0);
    let mut solver = DefaultSolver::new(&none, &cost, &constraints, &bounds, &cones, settings).unwrap();
    solver.solve();
    assert!(matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved));
    solver.solution.obj_val
}

#[test]
fn no_channel_has_a_smaller_error() {
    let random = &mut SeededRandom::new(601);
    for case in 0..150 {
        let domain = 2 + case % 11;
        let eps = [0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0][case % 8];
        // Every second belief is near even, where the rarer branches of the construction are taken.
        let mut belief = random_belief(domain, random);
        if case % 2 == 0 {
            belief.iter_mut().for_each(|weight| *weight = 0.3 * *weight + 0.7 / domain as f64);
        }
        let channel = hamming::channel(&belief, epsilon(eps)).unwrap();
        let error = channel.expected_cost(&belief, hamming_distance).unwrap();
        let least = least_error(&belief, eps);
        assert!((error - least).abs() < 1e-6, "{error} {least} at epsilon {eps} for {belief:?}");
    }
}

/// Belief, epsilon, error, output distribution: computed by an independent program.
const REFERENCE: [(&[f64], f64, f64, &[f64]); 8] = [
    (&[0.1, 0.9], 1.0, 0.1, &[0.0, 1.0]),
    (&[0.3, 0.7], 1.0, 0.154_509_365_292_005_76, &[0.3, 0.7]),
    (
        &[0.25, 0.25, 0.25, 0.25],
        1.0,
        0.320_429_542_885_238_6,
        &[0.268_941_421_369_995_1, 0.268_941_421_369_995_1, 0.253_105_510_694_672_96, 0.209_011_646_565_336_83],
    ),
    (&[0.5, 0.3, 0.2], 0.5, 0.427_757_196_096_687_6, &[0.622_459_331_201_854_6, 0.377_540_668_798_145_35, 0.0]),
    (
        &[0.38, 0.33, 0.29],
        0.3,
        0.539_467_851_111_037_9,
        &[0.425_557_483_188_340_97, 0.321_760_840_492_455_4, 0.252_681_676_319_203_6],
    ),
    (
        &[0.286, 0.252, 0.201, 0.15, 0.111],
        1.0,
        0.387_146_834_791_970_76,
        &[0.286, 0.268_941_421_369_995_1, 0.261_696_881_571_699_6, 0.183_361_697_058_305_24, 0.0],
    ),
    (
        &[0.451, 0.434, 0.115],
        1.5,
        0.189_946_566_580_627_14,
        &[0.451, 0.366_574_476_193_643_7, 0.182_425_523_806_356_35],
    ),
    (&[0.6, 0.3, 0.1], 0.5, 0.350_656_195_188_136_4, &[0.622_459_331_201_854_6, 0.377_540_668_798_145_35, 0.0]),
];

#[test]
fn the_reference_is_met_in_every_branch() {
    for (belief, eps, error, q) in REFERENCE {
        let channel = hamming::channel(belief, epsilon(eps)).unwrap();
        assert!((channel.expected_cost(belief, hamming_distance).unwrap() - error).abs() < 1e-12, "{belief:?}");
        let marginal = channel.marginal(belief).unwrap();
        let mut found = vec![0.0; belief.len()];
        for ((output, _), probability) in channel.outputs().iter().zip(marginal) {
            found[*output as usize] = probability;
        }
        assert!(found.iter().zip(q).all(|(found, q)| (found - q).abs() < 1e-12), "{found:?} {q:?}");
    }
    let matrix = hamming::channel(&[0.286, 0.252, 0.201, 0.15, 0.111], epsilon(1.0)).unwrap().dense();
    let last =
        [0.105_213_520_175_032_5, 0.139_968_750_620_417_97, 0.256_388_960_055_545_96, 0.498_428_769_149_003_5, 0.0];
    assert!(matrix[4].iter().zip(last).all(|(found, expected)| (found - expected).abs() < 1e-12));
}

#[test]
fn a_bit_has_the_binary_closed_form() {
    for eps in [0.1_f64, 0.7, 1.0, 2.5] {
        let (u, l) = (eps.exp(), (-eps).exp());
        let theta = 1.0 / (u + 1.0);
        for step in 1..=50 {
            let b = f64::from(step) / 100.0;
            let channel = hamming::channel(&[b, 1.0 - b], epsilon(eps)).unwrap();
            let expected = if b < 1.0 / (2.0 * u) {
                [0.0, 0.0]
            } else if b < theta {
                [u / (u + 1.0), (1.0 - b * u) / ((1.0 - b) * (u + 1.0))]
            } else {
                [1.0 - (1.0 - b) * l, b * l]
            };
            let found = [channel.probability(0, 0), channel.probability(1, 0)];
            let right = |(found, expected): (f64, f64)| (found - expected).abs() < 1e-9;
            assert!(found.into_iter().zip(expected).all(right), "{eps} {b}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn likely_symbols_are_kept_except_independent_answers() {
    let belief = [0.4, 0.35, 0.25, 0.0];
    let channel = hamming::channel(&belief, epsilon(2.0)).unwrap();
    let l = (-2.0_f64).exp();
    for x in 0..3_u32 {
        for (y, q) in (0..4_u32).zip(belief) {
            let expected = l * q + (1.0 - l) * f64::from(u8::from(x == y));
            assert!((channel.probability(x, y) - expected).abs() < 1e-12);
        }
    }
    // Of a symbol that is believed impossible nothing at all is told.
    assert!((0..4).zip(belief).all(|(y, q)| (channel.probability(3, y) - q).abs() < 1e-12));
}

#[test]
fn a_channel_over_many_symbols_stays_small() {
    let random = &mut SeededRandom::new(602);
    let belief = random_belief(10_000, random);
    let channel = hamming::channel(&belief, epsilon(1.0)).unwrap();
    assert!(channel.outputs().len() <= 5 && channel.rows().len() <= 6);
    assert!(channel.leakage(&belief).unwrap().largest() <= 1.0 + 1e-9);
    let likelihood = channel.likelihood(channel.outputs()[0].0);
    assert!((0..10_000).all(|x| likelihood[x as usize] == channel.probability(x, channel.outputs()[0].0)));
    assert!(channel.likelihood(9_999).iter().sum::<f64>() == 0.0 || channel.outputs().iter().any(|(y, _)| *y == 9_999));
}

#[test]
fn what_is_no_belief_is_refused() {
    let refused = |belief: &[f64]| hamming::channel(belief, epsilon(1.0)).unwrap_err();
    assert_eq!(refused(&[]), ChannelMatrixError::Empty { what: "symbol" });
    assert_eq!(
        refused(&[0.5, 0.4]).to_string(),
        "the probabilities of a belief sum to 0.9, not to 1 (within 0.000000001)"
    );
    assert_eq!(refused(&[1.5, -0.5]).to_string(), "-0.5 is not a probability of a belief");
    assert!(matches!(refused(&[f64::NAN, 1.0]), ChannelMatrixError::Probability { .. }));
}

#[test]
fn parts_that_are_no_channel_are_refused() {
    let good = Parts {
        independent: 0.5,
        outputs: vec![(0, 0.5), (2, 0.5)],
        rows: vec![vec![(1, 0.25), (0, 0.75)], vec![(1, 1.0), (0, 0.0)]],
        mixtures: vec![vec![(0, 1.0)], vec![(1, 0.5), (0, 0.5)]],
        mixture_of: vec![0, 1, 1],
    };
    let channel = Channel::new(good.clone()).unwrap();
    assert_eq!(channel.probability(1, 0), 0.25 + 0.5 * 0.375);
    assert_eq!((channel.probability(1, 1), channel.probability(3, 0), channel.probability(0, 3)), (0.0, 0.0, 0.0));
    let changes: [fn(&mut Parts); 14] = [
        |parts| parts.independent = 0.0,
        |parts| parts.independent = 1.0,
        |parts| parts.independent = f64::NAN,
        |parts| parts.outputs.clear(),
        |parts| parts.outputs[1].0 = 3,
        |parts| parts.outputs[1].0 = 0,
        |parts| parts.outputs[0].1 = 0.0,
        |parts| parts.outputs[0].1 = 0.6,
        |parts| parts.rows[0][0].0 = 2,
        |parts| parts.rows[0][0].0 = 0,
        |parts| parts.rows[0][0].1 = -0.25,
        |parts| parts.mixtures[1][0].0 = 2,
        |parts| parts.mixture_of[1] = 2,
        |parts| parts.mixture_of.clear(),
    ];
    for change in changes {
        let mut parts = good.clone();
        change(&mut parts);
        Channel::new(parts).unwrap_err();
    }
    assert!(matches!(channel.leakage(&[0.5, 0.5]), Err(ChannelMatrixError::Belief { given: 2, expected: 3 })));
    assert!(matches!(channel.marginal(&[0.5, 0.5, 0.5]), Err(ChannelMatrixError::Sum { .. })));
}

/// Where all symbols are believed at theta or more, all are kept, however the rounding of their sum falls.
#[test]
fn keeps_all_symbols_that_epsilon_can_separate() {
    let random = &mut SeededRandom::new(640);
    let check = |belief: &[f64], amount: f64| {
        let channel = hamming::channel(belief, epsilon(amount)).unwrap();
        let leakage = channel.leakage(belief).unwrap().largest();
        assert!(leakage <= amount + 1e-11, "{leakage} at {} symbols, epsilon {amount}", belief.len());
        assert!(channel.ldp_loss() <= 2.0 * amount + 1e-11);
        let theta = 1.0 / (amount.exp() + 1.0);
        if belief.iter().all(|weight| *weight >= theta) {
            assert_eq!(channel.outputs().len(), belief.len());
        }
        let parts = ChannelParts {
            outputs: channel.outputs(),
            rows: channel.rows(),
            mixtures: channel.mixtures(),
            mixture_of: channel.mixture_of(),
        };
        SymbolChannel::new(&ChannelLimits::new(epsilon(amount)).unwrap(), parts).unwrap();
    };
    for amount in [4.0, 5.0, 6.0] {
        (2..=150).for_each(|size| check(&vec![1.0 / size as f64; size], amount));
    }
    for amount in [5.0_f64, 6.0] {
        let cap = amount.exp() + 1.0;
        for size in 20..=140 {
            // A share of theta each, and what is left at random.
            let left = 1.0 - size as f64 / cap;
            let weights: Vec<f64> = (0..size).map(|_| unit(random)).collect();
            let total: f64 = weights.iter().sum();
            let belief: Vec<f64> = weights.iter().map(|weight| 1.0 / cap + left * weight / total).collect();
            check(&belief, amount);
        }
    }
}
