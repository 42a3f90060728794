//! Models and beliefs.

use tidegate::kernel::{Randomness, SeededRandom};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::channel::Channel;
use tidegate::sequence::hamming;
use tidegate::sequence::leakage::exact;
use tidegate::sequence::model::{Background, Model, ModelError, Order, Smoothing, SparseRow};

use crate::support::{random_belief, random_rows, unit};

fn dense(domain: usize, random: &mut SeededRandom) -> Model {
    Model::dense(random_belief(domain, random), random_rows(domain, random).concat()).unwrap()
}

/// Rows of which part goes to the background.
fn sparse_rows(rows: usize, domain: usize, random: &mut SeededRandom) -> Vec<SparseRow> {
    (0..rows)
        .map(|_| {
            let left = unit(random);
            let own = (0..).zip(random_belief(domain, random)).filter(|(_, p)| *p > 0.0);
            SparseRow { own: own.map(|(symbol, p)| (symbol, p * (1.0 - left))).collect(), left }
        })
        .collect()
}

fn second_order(domain: usize, random: &mut SeededRandom) -> Model {
    let pairs = (0..domain as u32).flat_map(|before| (0..domain as u32).map(move |present| (before, present)));
    let some: Vec<_> = pairs.filter(|_| unit(random) < 0.7).collect();
    let rows = sparse_rows(some.len(), domain, random);
    dense(domain, random).with_pairs(some.into_iter().zip(rows)).unwrap()
}

fn channel(belief: &[f64]) -> Channel {
    hamming::channel(belief, "0.7".parse().unwrap()).unwrap()
}

/// The belief after what was released, against the one that enumerates all sequences of symbols.
fn assert_filters(model: &Model, steps: u32) {
    let mut histories = 0;
    exact(model, 1, steps, |history, expected| {
        let mut belief = Belief::new(model);
        let mut log_probability = 0.0;
        for output in history {
            let channel = channel(belief.present());
            log_probability += belief.release(model, &channel, *output).unwrap().ln();
        }
        let close = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-12;
        assert!(belief.present().iter().zip(expected).all(close), "{:?} {expected:?}", belief.present());
        assert_eq!(belief.released(), history.len() as u64);
        assert!((belief.log_probability() - log_probability).abs() < 1e-12);
        histories += 1;
        Ok::<_, String>(channel(expected).dense())
    })
    .unwrap();
    assert!(histories > 3);
}

#[test]
fn beliefs_equal_enumeration_for_every_model_form() {
    let random = &mut SeededRandom::new(620);
    for _ in 0..5 {
        assert_filters(&dense(3, random), 4);
        let rows = sparse_rows(3, 3, random);
        assert_filters(&Model::sparse(random_belief(3, random), rows, random_belief(3, random)).unwrap(), 4);
        assert_filters(&second_order(3, random), 4);
    }
}

/// A table of all triples is a model of order 2 whose rows have nothing left.
#[test]
fn a_full_table_of_triples_overrides_order_one() {
    let random = &mut SeededRandom::new(621);
    let row = |row: Vec<f64>| SparseRow { own: (0..).zip(row).collect(), left: 0.0 };
    let rows: Vec<_> = (0..9).map(|_| random_belief(3, random)).collect();
    let pairs = (0..9_u32).map(|pair| (pair / 3, pair % 3)).zip(rows.iter().cloned().map(row));
    let model = dense(3, random).with_pairs(pairs).unwrap();
    for pair in 0..9_u32 {
        for next in 0..3_u32 {
            let expected = rows[pair as usize][next as usize];
            assert_eq!(model.transition(Some(pair / 3), pair % 3, next), expected);
        }
    }
    assert_eq!(model.order(), Order::Two);
    assert_filters(&model, 4);
}

#[test]
fn beliefs_stay_finite_and_normalised_over_a_million_steps() {
    let random = &mut SeededRandom::new(622);
    // One state that is all but absorbing, and one that is never reached again.
    let matrix = vec![0.999_999, 1e-6, 0.0, 1e-3, 0.998, 1e-3, 0.5, 0.5, 0.0];
    let model = Model::dense(vec![0.2, 0.3, 0.5], matrix).unwrap();
    let mut belief = Belief::new(&model);
    // A channel that is not the belief's, with all outputs alike: the most unlikely things are released.
    let channel = channel(&[1.0 / 3.0; 3]);
    for step in 0..1_000_000_u32 {
        let outputs = channel.outputs();
        let output = outputs[(random.next_word() % outputs.len() as u64) as usize].0;
        belief.release(&model, &channel, output).unwrap();
        if step % 1_000 == 0 {
            assert!((belief.present().iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(belief.present().iter().all(|p| (0.0..=1.0).contains(p)));
        }
    }
    assert!(belief.log_probability().is_finite() && belief.log_probability() < -500_000.0);
    assert_eq!(belief.released(), 1_000_000);
}

#[test]
fn learning_counts_and_smooths() {
    let sequences: [&[u32]; 3] = [&[0, 1, 2, 0, 1], &[1, 1], &[]];
    let smoothing = Smoothing { pseudo_count: 2.0, background: Background::Uniform };
    let model = Model::learn(4, sequences, Order::One, smoothing).unwrap();
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    close(model.prior()[1], (4.0 + 0.5) / 9.0);
    close(model.prior()[3], 0.5 / 9.0);
    close(model.transition(None, 0, 1), (2.0 + 0.5) / 4.0);
    close(model.transition(None, 1, 1), (1.0 + 0.5) / 4.0);
    close(model.transition(None, 1, 3), 0.5 / 4.0);
    close(model.transition(None, 3, 0), 0.25);
    assert_eq!(model.transition(None, 4, 0) + model.transition(None, 0, 4), 0.0);

    let towards = Smoothing { background: Background::Frequencies, ..smoothing };
    let frequencies = Model::learn(4, sequences, Order::One, towards).unwrap();
    close(frequencies.transition(None, 3, 1), (4.0 + 0.5) / 9.0);
    close(frequencies.transition(None, 0, 1), (2.0 + 2.0 * (4.0 + 0.5) / 9.0) / 4.0);

    let second = Model::learn(4, sequences, Order::Two, smoothing).unwrap();
    close(second.transition(Some(0), 1, 2), (1.0 + 2.0 * second.transition(None, 1, 2)) / 3.0);
    close(second.transition(Some(3), 1, 2), model.transition(None, 1, 2));

    let unsmoothed = Smoothing { pseudo_count: 0.0, ..smoothing };
    let strict = Model::learn(4, sequences, Order::One, unsmoothed).unwrap();
    close(strict.transition(None, 0, 1), 1.0);
    close(strict.prior()[3], 0.0);
    assert!(matches!(Model::learn(4, [], Order::One, unsmoothed), Err(ModelError::NoData)));
}

#[test]
fn learned_chain_is_accurate_and_sparse() {
    let random = &mut SeededRandom::new(623);
    // A walk around a ring of 200.
    let walk: Vec<u32> = (0..100_000)
        .scan(0_u32, |at, _| {
            *at = (*at + if unit(random) < 0.7 { 1 } else { 199 }) % 200;
            Some(*at)
        })
        .collect();
    let smoothing = Smoothing { pseudo_count: 1.0, background: Background::Frequencies };
    let model = Model::learn(200, [walk.as_slice()], Order::One, smoothing).unwrap();
    assert_eq!(model.entries(), 400);
    // About 500 observations a row: a standard error of 0.02.
    assert!((0..200).all(|at| (model.transition(None, at, (at + 1) % 200) - 0.7).abs() < 0.12));
    let matrix: f64 = (0..200).map(|next| model.transition(None, 7, next)).sum();
    assert!((matrix - 1.0).abs() < 1e-12);
}

#[test]
fn a_model_and_its_belief_are_the_same_after_saving() {
    let random = &mut SeededRandom::new(624);
    let rows = sparse_rows(4, 4, random);
    let sparse = Model::sparse(random_belief(4, random), rows, random_belief(4, random)).unwrap();
    for model in [dense(4, random), sparse, second_order(4, random)] {
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Model>(&json).unwrap(), model);
        let bytes = postcard::to_allocvec(&model).unwrap();
        assert_eq!(postcard::from_bytes::<Model>(&bytes).unwrap(), model);
        let mut belief = Belief::new(&model);
        for _ in 0..5 {
            let json = serde_json::to_string(&belief).unwrap();
            assert_eq!(serde_json::from_str::<Belief>(&json).unwrap(), belief);
            let bytes = postcard::to_allocvec(&belief).unwrap();
            assert_eq!(postcard::from_bytes::<Belief>(&bytes).unwrap(), belief);
            let channel = channel(belief.present());
            belief.release(&model, &channel, channel.outputs()[0].0).unwrap();
        }
        // A file that was cut, changed, or is of another version.
        assert!(serde_json::from_str::<Model>(&json[..json.len() - 2]).is_err());
        let changed = json.replacen("\"version\":1", "\"version\":2", 1);
        let message = serde_json::from_str::<Model>(&changed).unwrap_err().to_string();
        assert!(message.contains("version 2 of a saved model is not known"), "{message}");
        assert!(serde_json::from_str::<Model>(&json.replacen("\"prior\":[", "\"prior\":[0.5,", 1)).is_err());
    }
}

#[test]
fn what_is_no_model_is_refused() {
    let half = || vec![0.5, 0.5];
    let refused = |prior: Vec<f64>, matrix: Vec<f64>| Model::dense(prior, matrix).unwrap_err().to_string();
    assert_eq!(refused(vec![1.0], vec![1.0]), "a model over 1 symbols is outside 2..=16777216");
    assert_eq!(refused(half(), vec![1.0, 0.0, 0.5]), "the matrix has 3 entries, but 4 are needed");
    assert_eq!(
        refused(half(), vec![1.0, 0.0, 0.5, 0.4]),
        "transition row 1 sums to 0.9, not to 1 (within 0.000000001)"
    );
    assert_eq!(refused(half(), vec![1.0, 0.0, 1.5, -0.5]), "-0.5 in transition row 1 is no probability");
    assert_eq!(refused(half(), vec![f64::NAN, 0.0, 0.5, 0.5]), "NaN in transition row 0 is no probability");
    let row = |own: &[(u32, f64)], left: f64| SparseRow { own: own.to_vec(), left };
    let sparse = |first: SparseRow| Model::sparse(half(), vec![first, row(&[], 1.0)], half()).unwrap_err().to_string();
    assert_eq!(sparse(row(&[(2, 0.5)], 0.5)), "symbol 2 in transition row is outside the domain 0..2");
    assert_eq!(sparse(row(&[(1, 0.5), (0, 0.5)], 0.0)), "transition row 0 is not in ascending order, each once");
    assert_eq!(sparse(row(&[(1, 0.5)], 0.4)), "transition row 0 sums to 0.9, not to 1 (within 0.000000001)");
    let own =
        (0..5_000_u32).flat_map(|before| (0..5_000).map(move |present| ((before, present), SparseRow::default())));
    let large = Model::uniform(5_000).unwrap().with_pairs(own.take((1 << 24) + 1));
    let expected = "a model of order 2 with rows for 16777217 pairs has more than 16777216";
    assert_eq!(large.unwrap_err().to_string(), expected);
    let model = Model::uniform(2).unwrap();
    assert!(model.clone().with_pairs([((0, 2), row(&[], 1.0))]).is_err());
    assert!(model.clone().with_pairs([((1, 0), row(&[], 1.0)), ((0, 1), row(&[], 1.0))]).is_err());
    let smoothing = Smoothing { pseudo_count: -1.0, background: Background::Uniform };
    assert!(matches!(Model::learn(2, [], Order::One, smoothing), Err(ModelError::PseudoCount { .. })));
    let smoothing = Smoothing { pseudo_count: 1.0, ..smoothing };
    assert!(matches!(Model::learn(2, [[0, 2].as_slice()], Order::One, smoothing), Err(ModelError::Symbol { .. })));
    // A belief of one model is not another's, and an output that cannot be is not taken in.
    let mut belief = Belief::new(&model);
    assert_eq!(belief.pass(&Model::uniform(3).unwrap()), Err(ModelError::OtherModel));
    let constant = hamming::channel(&[0.01, 0.99], "0.5".parse().unwrap()).unwrap();
    let before = belief.clone();
    assert_eq!(belief.release(&model, &constant, 0), Err(ModelError::Impossible { given: 0 }));
    assert_eq!(belief, before);
}

#[test]
fn rejects_saved_model_or_belief_without_pairs() {
    let model = second_order(3, &mut SeededRandom::new(641));
    let without = |value: serde_json::Value| {
        let mut value = value;
        assert!(value.as_object_mut().unwrap().remove("pairs").is_some());
        value
    };
    let lost = without(serde_json::to_value(&model).unwrap());
    assert!(serde_json::from_value::<Model>(lost).unwrap_err().to_string().contains("pairs"));
    let fresh = Belief::new(&model);
    assert!(fresh.fits(&model));
    let mut belief = fresh.clone();
    belief.pass(&model).unwrap();
    assert!(belief.fits(&model));
    let saved = serde_json::to_value(&belief).unwrap();
    assert!(serde_json::from_value::<Belief>(without(saved.clone())).unwrap_err().to_string().contains("pairs"));
    let mut null = saved.clone();
    null["pairs"] = serde_json::Value::Null;
    assert!(serde_json::from_value::<Belief>(null.clone()).unwrap_err().to_string().contains("version 2"));
    null["version"] = 1.into();
    let lost: Belief = serde_json::from_value(null).unwrap();
    assert!(!lost.fits(&model), "after the first symbol there are pairs");
    let with = |pairs: serde_json::Value| {
        let mut saved = saved.clone();
        saved["pairs"] = pairs;
        serde_json::from_value::<Belief>(saved)
    };
    assert!(with(serde_json::json!([0.5, 0.6])).is_err() && with(serde_json::json!([-0.1])).is_err());
    assert!(!with(serde_json::json!([0.5])).unwrap().fits(&model));
}

/// Version 1 has a weight for every pair of symbols.
#[test]
fn beliefs_of_the_first_version_still_load() {
    let random = &mut SeededRandom::new(647);
    let model = second_order(4, random);
    let mut belief = Belief::new(&model);
    belief.pass(&model).unwrap();
    let pair = |pair: u32| model.prior()[pair as usize / 4] * model.transition(None, pair / 4, pair % 4);
    let mut first = serde_json::to_value(&belief).unwrap();
    assert_eq!(first["version"], 2);
    first["version"] = 1.into();
    first["pairs"] = (0..16).map(pair).collect::<Vec<f64>>().into();
    let mut loaded: Belief = serde_json::from_value(first.clone()).unwrap();
    assert!(loaded.fits(&model) && loaded.can_have_advanced(&model));
    for output in [0, 1, 1, 0] {
        let joint = |belief: &Belief| belief.sequences(&model, 2).unwrap();
        assert!(joint(&loaded).iter().zip(joint(&belief)).all(|(one, other)| (one - other).abs() < 1e-14));
        let channel = channel(belief.present());
        let output = channel.outputs()[output % channel.outputs().len()].0;
        let found = loaded.release(&model, &channel, output).unwrap();
        assert!((found - belief.release(&model, &channel, output).unwrap()).abs() < 1e-14);
        assert!(loaded.present().iter().zip(belief.present()).all(|(one, other)| (one - other).abs() < 1e-13));
    }
    first["pairs"] = vec![0.25; 4].into();
    assert!(serde_json::from_value::<Belief>(first).is_err());
}

/// A chain of order 2 over the cells of a grid of 100 by 100: its pairs are 100 million.
#[test]
fn order_two_costs_what_was_seen_of_it() {
    let path: Vec<u32> = (0..400).map(|step| 5_050 + step % 7 + 100 * (step % 5)).collect();
    let smoothing = Smoothing { pseudo_count: 1.0, background: Background::Frequencies };
    let model = Model::learn(10_000, [path.as_slice()], Order::Two, smoothing).unwrap();
    assert!(model.entries() < 1_000, "{}", model.entries());
    let mut belief = Belief::new(&model);
    for symbol in path.iter().take(8) {
        let channel = channel(belief.present());
        let output = channel.outputs().iter().find(|(output, _)| output == symbol).unwrap_or(&channel.outputs()[0]).0;
        belief.release(&model, &channel, output).unwrap();
        assert!((belief.present().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn nearly_normalised_rows_are_normalised() {
    // A bit that never changes, whose rows miss one to either side.
    let (more, less) = (1.0 + 9e-10, 1.0 - 9e-10);
    let full = |symbol: u32, own: f64| SparseRow { own: vec![(symbol, own)], left: 0.0 };
    let models = [
        Model::dense(vec![0.5, 0.5], vec![more, 0.0, 0.0, less]).unwrap(),
        Model::sparse(vec![0.5, 0.5], vec![full(0, more), full(1, less)], vec![0.5, 0.5]).unwrap(),
        Model::uniform(2).unwrap().with_pairs([((0, 0), full(0, more)), ((1, 1), full(1, less))]).unwrap(),
    ];
    for model in models {
        assert_eq!((model.transition(Some(0), 0, 0), model.transition(Some(1), 1, 1)), (1.0, 1.0));
        let mut belief = Belief::new(&model);
        (0..1 << 16).for_each(|_| belief.pass(&model).unwrap());
        assert!((belief.present()[0] - 0.5).abs() < 1e-9, "{:?}", belief.present());
    }
    let off =
        Model::sparse(vec![0.5, 0.5 + 5e-10], vec![SparseRow { own: vec![], left: less }; 2], vec![0.3, 0.7 - 5e-10]);
    let off = off.unwrap();
    assert!((off.prior().iter().sum::<f64>() - 1.0).abs() < 1e-15);
    assert!((off.transition(None, 0, 0) + off.transition(None, 0, 1) - 1.0).abs() < 1e-15);
    let text = serde_json::to_string(&off).unwrap();
    assert_eq!(serde_json::from_str::<Model>(&text).unwrap(), off, "dividing again changes nothing");
}
