//! Answers from a factored channel.

use proptest::prelude::*;
use tidegate_kernel::primitives::{
    ChannelError, ChannelLimits, ChannelParts, MAX_CHANNEL_EPSILON, PrimitiveError, SequenceClasses, SymbolBatch,
    SymbolChannel, seal_symbol,
};
use tidegate_kernel::{Epsilon, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    account, assert_fits, assert_rejects, class_permit, epsilon, permit, permit_at, repeatable, sealed_at, tally,
};

type Sparse = Vec<(u32, f64)>;

/// A channel's parts, owned.
#[derive(Clone, Debug)]
struct Owned {
    outputs: Sparse,
    rows: Vec<Sparse>,
    mixtures: Vec<Sparse>,
    mixture_of: Vec<u32>,
}

impl Owned {
    fn channel(&self, amount: &str) -> Result<SymbolChannel, ChannelError> {
        let parts = ChannelParts {
            outputs: &self.outputs,
            rows: &self.rows,
            mixtures: &self.mixtures,
            mixture_of: &self.mixture_of,
        };
        SymbolChannel::new(&ChannelLimits::new(epsilon(amount)).unwrap(), parts)
    }

    /// `a(y|x)` by its formula.
    fn probabilities(&self, symbol: usize, epsilon: f64) -> Vec<f64> {
        let independent = (-epsilon).exp();
        let mut row: Vec<f64> = self.outputs.iter().map(|(_, q)| independent * q).collect();
        for &(cell, share) in &self.mixtures[self.mixture_of[symbol] as usize] {
            for &(position, r) in &self.rows[cell as usize] {
                row[position as usize] += (1.0 - independent) * share * r;
            }
        }
        row
    }
}

/// Five symbols, three outputs, three cells; the last symbols mix two cells. At epsilon 1.5 all rows are within the
/// limit.
fn example() -> Owned {
    Owned {
        outputs: vec![(0, 0.3), (2, 0.45), (4, 0.25)],
        rows: vec![vec![(0, 1.0)], vec![(1, 0.75), (2, 0.25)], vec![(0, 0.125), (2, 0.875)]],
        mixtures: vec![vec![(0, 1.0)], vec![(1, 1.0)], vec![(1, 0.375), (2, 0.625)]],
        mixture_of: vec![0, 1, 1, 2, 2],
    }
}

#[test]
fn answers_have_the_distribution_of_their_symbol() {
    let example = example();
    let channel = example.channel("1.5").unwrap();
    for symbol in 0..5 {
        let sealed = seal_symbol(account(), 0, symbol, 5).unwrap();
        let mut random = SeededRandom::new(300 + u64::from(symbol));
        let drawn = tally(DRAWS, 3, || {
            let answer = channel.answer(permit(epsilon("3")), &sealed, &mut random).unwrap().into_value();
            example.outputs.iter().position(|(output, _)| *output == answer).unwrap()
        });
        assert_fits(&drawn, &example.probabilities(symbol as usize, 1.5));
        assert_rejects(&drawn, &example.probabilities(symbol as usize, 1.1 * 1.5));
        assert_rejects(&drawn, &example.probabilities(symbol as usize, 0.9 * 1.5));
        for (&(output, _), expected) in example.outputs.iter().zip(example.probabilities(symbol as usize, 1.5)) {
            assert!((channel.probability(symbol, output) - expected).abs() < 1e-15);
        }
        assert_eq!(channel.probability(symbol, 1), 0.0);
    }
    assert_eq!(channel.probability(5, 0), 0.0);
}

/// Batches of three symbols out of 1,000: in the table, with the anchor's class, and with no other.
#[test]
fn batches_have_the_distribution_of_their_class() {
    let example = example();
    let channel = example.channel("1.5").unwrap();
    let table = [0, 0, 0, 5, 6, 7, 999, 999, 999];
    let rest = (0..1000).map(|symbol| u32::from(symbol >= 500)).collect();
    let classes = SequenceClasses::new(3, &table, 1, rest).unwrap();
    assert_eq!(classes.count(), channel.domain());
    let batches = [([0, 0, 0], 0), ([5, 6, 7], 1), ([999, 999, 999], 2), ([5, 6, 8], 3), ([0, 500, 0], 4)];
    for (seed, (symbols, class)) in (700..).zip(batches) {
        let account = account();
        let mut batch = SymbolBatch::wide(1000, &[3]).unwrap();
        symbols.iter().for_each(|symbol| batch.push(*symbol).unwrap());
        let sealed = classes.classify(&batch.seal_sequences(account, 0).unwrap()[0]).unwrap();
        let mut random = SeededRandom::new(seed);
        let drawn = tally(DRAWS, 3, || {
            let answer = channel.answer(permit(epsilon("3")), &sealed, &mut random).unwrap().into_value();
            example.outputs.iter().position(|(output, _)| *output == answer).unwrap()
        });
        assert_fits(&drawn, &example.probabilities(class, 1.5));
        assert_rejects(&drawn, &example.probabilities(class, 1.1 * 1.5));
        assert_rejects(&drawn, &example.probabilities(class, 0.9 * 1.5));
    }
}

/// A bit with a uniform prior, at the smallest prior that allows it: both bounds are attained.
#[test]
fn the_loss_is_attained_and_never_exceeded() {
    for text in ["0.000000001", "0.05", "1", "4", "10"] {
        let amount = epsilon(text).as_f64();
        let theta = 1.0 / (amount.exp() + 1.0);
        let outputs = vec![(0, theta), (1, 1.0 - theta)];
        // Two cells: one with the maximum on the first output, one with nothing.
        let rows = vec![vec![(0, 1.0)], vec![(1, 1.0)]];
        let mixtures = vec![vec![(0, 1.0)], vec![(1, 1.0)]];
        let channel = Owned { outputs, rows, mixtures, mixture_of: vec![0, 1] }.channel(text).unwrap();
        let loss = (channel.probability(0, 0) / channel.probability(1, 0)).ln();
        assert!((loss - 2.0 * amount).abs() < 2.0 * ROUNDING, "{text} {loss}");
        assert_eq!(channel.loss().units(), 2 * epsilon(text).units());
        assert_eq!(channel.domain(), 2);
    }
}

#[test]
fn rejects_a_row_beyond_the_limit() {
    let limit = 2_f64.exp() + 1.0;
    let q = 0.05;
    let at = |share: f64| {
        let first = share * limit * q;
        let rows = vec![vec![(0, first), (1, 1.0 - first)]];
        Owned { outputs: vec![(3, q), (4, 1.0 - q)], rows, mixtures: vec![vec![(0, 1.0)]], mixture_of: vec![0; 5] }
    };
    assert!(at(1.0).channel("2").is_ok());
    assert!(at(0.5).channel("2").is_ok());
    assert_eq!(at(1.000_001).channel("2").unwrap_err(), ChannelError::AboveLimit { cell: 0 });
    assert_eq!(at(1.1).channel("2").unwrap_err(), ChannelError::AboveLimit { cell: 0 });
}

#[test]
fn impossible_outputs_are_never_given() {
    let mut example = example();
    example.outputs = vec![(0, 0.4), (2, 0.6), (4, 0.0)];
    assert_eq!(example.channel("1.5").unwrap_err(), ChannelError::AboveLimit { cell: 1 });
    example.rows = vec![vec![(0, 1.0)], vec![(1, 1.0), (2, 0.0)], vec![(0, 0.5), (1, 0.5)]];
    let channel = example.channel("1.5").unwrap();
    assert!((0..5).all(|symbol| channel.probability(symbol, 4) == 0.0));
}

#[test]
fn rejects_parts_that_are_not_a_channel() {
    let refused = |change: fn(&mut Owned)| {
        let mut owned = example();
        change(&mut owned);
        owned.channel("1.5").unwrap_err().to_string()
    };
    assert_eq!(refused(|owned| owned.mixture_of.clear()), "a channel over 0 symbols is outside 1..=16777216");
    assert_eq!(refused(|owned| owned.mixture_of[3] = 3), "mixture 3 is not below 3");
    assert_eq!(refused(|owned| owned.outputs[2].0 = 5), "the list of outputs 5 is not below 5");
    assert_eq!(refused(|owned| owned.rows[1][1].0 = 3), "row 3 is not below 3");
    assert_eq!(refused(|owned| owned.mixtures[2][1].0 = 3), "mixture 3 is not below 3");
    let changes: [fn(&mut Owned); 12] = [
        |owned| owned.outputs[0].1 = 0.31,
        |owned| owned.outputs[0].1 = f64::NAN,
        |owned| owned.outputs.clear(),
        |owned| owned.rows[1].clear(),
        |owned| owned.rows[1][0].1 = -0.1,
        |owned| owned.rows[0][0].1 = f64::INFINITY,
        |owned| owned.rows[0][0].1 = 0.999_999_9,
        |owned| owned.mixtures[0].clear(),
        |owned| owned.mixtures[2][0].1 = 0.4,
        |owned| owned.mixtures[2][0].0 = 2,
        |owned| owned.outputs.swap(0, 1),
        |owned| owned.rows[1].swap(0, 1),
    ];
    for change in changes {
        refused(change);
    }
    let above = Epsilon::from_units(MAX_CHANNEL_EPSILON.units() + 1).unwrap();
    let message = ChannelLimits::new(above).unwrap_err().to_string();
    assert_eq!(message, "epsilon 10.000000001 is outside 0.000000001..=10, the range of a channel");
}

#[test]
fn the_permit_must_match_the_symbol_and_loss() {
    let channel = example().channel("1.5").unwrap();
    let random = &mut SeededRandom::new(1);
    let sealed = seal_symbol(account(), 0, 1, 5).unwrap();
    let mut refusal = |permit| channel.answer(permit, &sealed, random).unwrap_err();
    assert_eq!(refusal(permit_at(3, epsilon("3"))), PrimitiveError::Timestamp { permit: 3, data: 0 });
    assert_eq!(refusal(class_permit(4, epsilon("3"))), PrimitiveError::ClassPermit { class: 4 });
    assert_eq!(
        refusal(permit(epsilon("1.5"))).to_string(),
        "the permit is for 1.5, but an answer from this channel loses 3"
    );
    let outside = seal_symbol(account(), 0, 5, 5).unwrap_err();
    assert_eq!(outside.to_string(), "the symbol is outside the domain 0..5");
}

/// An error would reveal that the symbol is outside.
#[test]
fn symbols_outside_the_domain_become_the_last() {
    let channel = example().channel("1.5").unwrap();
    let answers = |symbol: u32| -> Vec<u32> {
        let mut random = SeededRandom::new(9);
        let sealed = sealed_at(0, symbol);
        (0..50).map(|_| channel.answer(permit(epsilon("3")), &sealed, &mut random).unwrap().into_value()).collect()
    };
    assert_eq!(answers(4), answers(u32::MAX));
    assert_ne!(answers(0), answers(4));
}

fn distribution(size: usize) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(prop_oneof![Just(0.0), 1e-9..1.0_f64, 0.0..1.0_f64], size).prop_map(|mut weights| {
        weights[0] += 1e-3;
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    })
}

fn sparse(weights: Vec<f64>) -> Sparse {
    (0..).zip(weights).collect()
}

proptest! {
    #![proptest_config(repeatable(400))]

    /// For all parts: either rejected, or every output within e^epsilon of the independent answer for every symbol.
    #[test]
    fn accepted_channels_are_within_their_limits(
        (outputs, rows, mixtures, amount) in (1_usize..6, 1_usize..4).prop_flat_map(|(outputs, cells)| (
            distribution(outputs),
            proptest::collection::vec(distribution(outputs), cells),
            proptest::collection::vec(distribution(cells), 2),
            1_u64..4_000_000_000,
        ))
    ) {
        let amount = Epsilon::from_units(amount).unwrap();
        let owned = Owned {
            outputs: sparse(outputs),
            rows: rows.into_iter().map(sparse).collect(),
            mixtures: mixtures.into_iter().map(sparse).collect(),
            mixture_of: vec![0, 1, 1, 0, 0, 1],
        };
        let limit = amount.as_f64().exp() + 1.0;
        let excess = owned.rows.iter().flatten().map(|&(y, r)| r - limit * owned.outputs[y as usize].1);
        let excess = excess.fold(f64::NEG_INFINITY, f64::max);
        match owned.channel(&amount.to_string()) {
            Err(error) => {
                let above = matches!(error, ChannelError::AboveLimit { .. });
                prop_assert!(above, "{error}");
                prop_assert!(excess > 1e-15);
            }
            Ok(channel) => {
                prop_assert!(excess < 1e-9);
                for &(output, q) in &owned.outputs {
                    for symbol in 0..2 {
                        let a = channel.probability(symbol, output);
                        let formula = owned.probabilities(symbol as usize, amount.as_f64())[output as usize];
                        prop_assert!((a - formula).abs() < 1e-9);
                        prop_assert!(a <= amount.as_f64().exp() * q * (1.0 + 1e-12) + 1e-17);
                        prop_assert!(a >= (-amount.as_f64()).exp() * q * (1.0 - 1e-12) - 1e-17);
                    }
                }
            }
        }
    }
}
