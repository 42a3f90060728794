//! Batches of which only the likeliest are told apart.

use tidegate::kernel::{Epsilon, SeededRandom};
use tidegate::release::{Release, Statistic};
use tidegate::sequence::batched::{BatchChannelError, Batched, BatchedError, BatchedSettings};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::crr::{CrrSettings, Effort};
use tidegate::sequence::distance::Distance;
use tidegate::sequence::leakage::exact;
use tidegate::sequence::model::{Background, Model, Order, Smoothing, SparseRow};
use tidegate::sequence::support::{self, MAX_SUPPORT, MIDDLES, SupportedChannel};

use crate::support::{copy_of, random_belief, random_rows, unit};

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn first_order(domain: usize, random: &mut SeededRandom) -> Model {
    Model::dense(random_belief(domain, random), random_rows(domain, random).concat()).unwrap()
}

/// A chain of order 2, in which some pairs have a row of their own, some of them with a share of order 1.
fn second_order(domain: u32, random: &mut SeededRandom) -> Model {
    let mut pairs = Vec::new();
    for pair in (0..domain * domain).filter(|pair| pair % 3 != 0) {
        let share = if pair % 2 == 0 { 0.8 } else { 1.0 };
        let row = random_belief(domain as usize, random);
        let own: Vec<(u32, f64)> = (0..).zip(row).filter(|(_, p)| *p > 0.0).map(|(x, p)| (x, share * p)).collect();
        let left = 1.0 - own.iter().map(|(_, p)| p).sum::<f64>();
        pairs.push(((pair / domain, pair % domain), SparseRow { own, left: left.max(0.0) }));
    }
    first_order(domain as usize, random).with_pairs(pairs).unwrap()
}

/// Symbols of sequence `number` of all.
fn sequence(mut number: usize, domain: usize, length: u32) -> Vec<u32> {
    let mut symbols: Vec<u32> = (0..length)
        .map(|_| {
            let symbol = number % domain;
            number /= domain;
            symbol as u32
        })
        .collect();
    symbols.reverse();
    symbols
}

/// The channel for what is believed after these outputs, and that belief.
fn after(model: &Model, released: &[u32], channel: impl Fn(&Belief) -> SupportedChannel) -> (SupportedChannel, Belief) {
    let mut belief = Belief::new(model);
    for output in released {
        channel(&belief).release(model, &mut belief, *output).unwrap();
    }
    (channel(&belief), belief)
}

/// Every sequence of every batch, those outside the table among them, against the definitions.
#[test]
fn every_batch_keeps_the_guarantee_in_the_table_and_outside() {
    let random = &mut SeededRandom::new(670);
    let mut told = 0;
    for model in [first_order(3, random), second_order(3, random), second_order(2, random)] {
        for (length, batches, listed, amount) in [(2, 2, 2, "0.7"), (3, 2, 3, "2"), (3, 1, 1, "4")] {
            for distance in [Distance::Hamming, Distance::Absolute, Distance::Grid { columns: 2 }] {
                let (domain, amount) = (model.domain() as usize, epsilon(amount));
                let channel = |belief: &Belief| {
                    support::channel(&model, belief, length, listed, amount, &distance, Effort::Fast).unwrap()
                };
                let leakage = exact(&model, length, batches, |released, exact_belief| {
                    let (supported, belief) = after(&model, released, channel);
                    let mut of_classes = vec![0.0; supported.belief().len()];
                    let mut rows = Vec::new();
                    for (number, weight) in exact_belief.iter().enumerate() {
                        let class = supported.classes().class_of(&sequence(number, domain, length)).unwrap();
                        of_classes[class as usize] += weight;
                        let row = |output| supported.channel().probability(class, output);
                        rows.push((0..supported.classes().count()).map(row).collect::<Vec<f64>>());
                    }
                    let off = of_classes.iter().zip(supported.belief()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    let present = belief.sequences(&model, length).unwrap();
                    let off = present.iter().zip(exact_belief).map(|(a, b)| (a - b).abs()).fold(off, f64::max);
                    // No more columns than sequences; an output beyond would be a class that is none.
                    rows.iter_mut().for_each(|row| row.truncate(exact_belief.len()));
                    if off < 1e-11 { Ok(rows) } else { Err(format!("off by {off}")) }
                })
                .unwrap();
                let (amount, batches) = (amount.as_f64(), f64::from(batches));
                assert!(leakage.steps.iter().all(|step| *step <= amount + 1e-9), "{leakage:?}");
                assert!(leakage.sequence <= batches * amount + 1e-9, "{leakage:?}");
                assert!(leakage.local <= 2.0 * batches * amount + 1e-9, "{leakage:?}");
                told += usize::from(leakage.local > amount);
            }
        }
    }
    // Where epsilon is small, the best channel ignores most batches.
    assert!(told > 20, "hardly anything was released: {told} of 27");
}

/// A chain that stays at two places, learned without smoothing: most batches are believed impossible.
#[test]
fn batches_that_are_believed_impossible_are_answered_and_protected() {
    let smoothing = Smoothing { pseudo_count: 0.0, background: Background::Uniform };
    let model = Model::learn(5, [[0, 0, 0, 1, 1, 1, 0, 0].as_slice()], Order::One, smoothing).unwrap();
    let amount = epsilon("1.5");
    let supported =
        support::channel(&model, &Belief::new(&model), 4, 3, amount, &Distance::Hamming, Effort::Fast).unwrap();
    let row = |symbols: &[u32]| -> Vec<f64> {
        let class = supported.classes().class_of(symbols).unwrap();
        let outputs = supported.channel().outputs().iter();
        outputs.map(|(output, _)| supported.channel().probability(class, *output)).collect()
    };
    let rows: Vec<Vec<f64>> = (0..625).map(|number| row(&sequence(number, 5, 4))).collect();
    for one in &rows {
        assert!((one.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for other in &rows {
            assert!(one.iter().zip(other).all(|(a, b)| *a <= (2.0 * 1.5_f64).exp() * b + 1e-12));
        }
    }
    // A user whose symbols were never seen.
    let settings = BatchedSettings { batch: CrrSettings::new(amount), length: 4, part: None, support: Some(3) };
    let mut mechanism = Batched::new(model, settings).unwrap();
    for timestamp in 0..5 {
        let releases = answered(&mut mechanism, timestamp, &[4, 3, 2, 4], &mut SeededRandom::new(671)).unwrap();
        assert_eq!((releases.len(), releases[0].spent.most()), (4, Some(epsilon("3"))));
    }
}

fn answered(
    mechanism: &mut Batched,
    timestamp: u64,
    symbols: &[u32],
    random: &mut SeededRandom,
) -> Result<Vec<Release>, BatchedError> {
    let mut batch = mechanism.gather().unwrap();
    symbols.iter().for_each(|symbol| batch.push(*symbol).unwrap());
    mechanism.answer(timestamp, batch, random)
}

fn symbols(releases: &[Release]) -> Vec<u32> {
    let symbol = |release: &Release| match release.statistic {
        Statistic::Symbol(answer) => answer.symbol,
        _ => panic!("a symbol is published"),
    };
    releases.iter().map(symbol).collect()
}

/// A walk on a ring of 5,000 symbols, from a few hundred of them.
fn ring() -> Model {
    let domain = 5000_u32;
    let row = |x: u32| {
        let mut own = vec![(x, 0.5), ((x + 1) % domain, 0.3), ((x + domain - 1) % domain, 0.19)];
        own.sort_unstable_by_key(|(symbol, _)| *symbol);
        SparseRow { own, left: 0.01 }
    };
    let mut prior = vec![0.0; domain as usize];
    prior[1000..1200].fill(1.0 / 200.0);
    Model::sparse(prior, (0..domain).map(row).collect(), vec![1.0 / f64::from(domain); domain as usize]).unwrap()
}

fn walk(model: &Model, steps: usize, random: &mut SeededRandom) -> Vec<u32> {
    let mut at = 1100;
    let mut walked = Vec::new();
    for _ in 0..steps {
        walked.push(at);
        at = match unit(random) {
            share if share < 0.5 => at,
            share if share < 0.8 => (at + 1) % model.domain(),
            _ => at - 1,
        };
    }
    walked
}

#[test]
fn batches_of_ten_from_thousands_of_symbols_follow_a_path() {
    let random = &mut SeededRandom::new(672);
    let model = ring();
    let batch = CrrSettings { distance: Distance::Absolute, ..CrrSettings::new(epsilon("5")) };
    let settings = BatchedSettings { batch, length: 10, part: None, support: Some(200) };
    let mut mechanism = Batched::new(model.clone(), settings).unwrap();
    let walked = walk(&model, 300, random);
    let (mut off, mut constant) = (0.0, 0.0);
    for (timestamp, truth) in (0..).zip(walked.chunks(10)) {
        let released = symbols(&answered(&mut mechanism, timestamp, truth, random).unwrap());
        for (truth, released) in truth.iter().zip(released) {
            off += f64::from(truth.abs_diff(released)) / 300.0;
            constant += f64::from(truth.abs_diff(1150)) / 300.0;
        }
        let total: f64 = mechanism.belief().present().iter().sum();
        assert!((total - 1.0).abs() < 1e-9);
    }
    // The middle of the prior, which spends nothing, is some 30 off.
    assert!(off < 6.0 && off < 0.4 * constant, "{off} {constant}");
}

#[test]
fn a_listed_batch_is_released_as_it_is_when_epsilon_is_large() {
    // At epsilon 10 an answer is independent of the batch once in 22,000 times.
    let model = Model::dense(vec![0.5, 0.5], vec![0.7, 0.3, 0.4, 0.6]).unwrap();
    let settings = BatchedSettings { batch: CrrSettings::new(epsilon("10")), length: 5, part: None, support: Some(32) };
    let mut mechanism = Batched::new(model, settings).unwrap();
    let random = &mut SeededRandom::new(673);
    for timestamp in 0..60 {
        let given: Vec<u32> = (0..5).map(|_| (unit(random) * 2.0) as u32).collect();
        assert_eq!(symbols(&answered(&mut mechanism, timestamp, &given, random).unwrap()), given);
    }
}

/// The first batch, answered again and again, inside the table and outside. That one of some 10 counts is off by 6
/// standard errors has probability below 2e-8.
#[test]
fn answers_have_the_distribution_of_their_class() {
    let random = &mut SeededRandom::new(674);
    let model = first_order(4, random);
    let settings = BatchedSettings { batch: CrrSettings::new(epsilon("2")), length: 3, part: None, support: Some(5) };
    let belief = Belief::new(&model);
    let channel = |amount: &str| {
        support::channel(&model, &belief, 3, 5, epsilon(amount), &Distance::Hamming, Effort::Fast).unwrap()
    };
    let supported = channel("2");
    let outside = (0..64).map(|number| sequence(number, 4, 3)).find(|symbols| {
        supported.classes().class_of(symbols).is_some_and(|class| class as usize >= supported.classes().listed())
    });
    let listed = supported.classes().table()[..3].to_vec();
    for given in [listed, outside.unwrap()] {
        let class = supported.classes().class_of(&given).unwrap();
        let runs = 6000.0;
        let outputs: Vec<u32> = supported.channel().outputs().iter().map(|(output, _)| *output).collect();
        let mut counts = vec![0.0; outputs.len()];
        for _ in 0..runs as u32 {
            let mut mechanism = Batched::new(model.clone(), settings.clone()).unwrap();
            let found = symbols(&answered(&mut mechanism, 0, &given, random).unwrap());
            // Outputs with equal answers count as one.
            let place = outputs.iter().position(|output| supported.answers(*output) == Some(&found[..])).unwrap();
            counts[place] += 1.0;
        }
        let deviation = |class: u32| {
            let off = |place: usize| {
                let same = |other: &&u32| supported.answers(**other) == supported.answers(outputs[place]);
                if outputs.iter().position(|output| same(&output)) != Some(place) {
                    return 0.0;
                }
                let share = |output: &u32| supported.channel().probability(class, *output);
                let p: f64 = outputs.iter().filter(same).map(share).sum();
                (counts[place] - runs * p).abs() / (runs * p * (1.0 - p)).sqrt().max(1e-9)
            };
            (0..outputs.len()).map(off).fold(0.0, f64::max)
        };
        assert!(deviation(class) < 6.0, "{counts:?}");
        let others = (0..supported.classes().count()).map(deviation).fold(0.0, f64::max);
        assert!(others > 6.0, "the channel does not tell classes apart");
    }
}

#[test]
fn saving_and_loading_changes_nothing() {
    let random = &mut SeededRandom::new(675);
    for model in [ring(), second_order(4, random)] {
        let last = model.domain() - 1;
        let settings =
            BatchedSettings { batch: CrrSettings::new(epsilon("3")), length: 4, part: Some(3), support: Some(20) };
        let mut mechanism = Batched::new(model, settings).unwrap();
        for timestamp in 0..4 {
            let bytes = postcard::to_allocvec(&mechanism).unwrap();
            let mut loaded: Batched = postcard::from_bytes(&bytes).unwrap();
            assert_eq!(loaded.settings(), mechanism.settings());
            let mut again = copy_of(&loaded);
            let release = |mechanism: &mut Batched| {
                answered(mechanism, timestamp, &[0, last, last, 1], &mut SeededRandom::new(timestamp)).unwrap()
            };
            let released = release(&mut mechanism);
            assert_eq!((release(&mut loaded), release(&mut again)), (released.clone(), released));
        }
    }
}

/// Bytes of version 1 have no support, and are read as before.
#[test]
fn settings_without_a_support_keep_their_saved_form() {
    #[derive(serde::Serialize)]
    struct First {
        batch: CrrSettings,
        length: u32,
        part: Option<u32>,
    }
    for part in [None, Some(3)] {
        let batch = CrrSettings::new(epsilon("3"));
        let settings = BatchedSettings { batch: batch.clone(), length: 7, part, support: None };
        let first = First { batch, length: 7, part };
        assert_eq!(postcard::to_allocvec(&first).unwrap(), postcard::to_allocvec(&settings).unwrap());
        assert_eq!(serde_json::to_value(&first).unwrap(), serde_json::to_value(&settings).unwrap());
        let with = BatchedSettings { support: Some(9), ..settings.clone() };
        for settings in [settings, with] {
            let bytes = postcard::to_allocvec(&settings).unwrap();
            assert_eq!(postcard::from_bytes::<BatchedSettings>(&bytes).unwrap(), settings);
            assert_eq!(copy_of(&settings), settings);
        }
    }
}

/// Version 2 has a support, and a belief in the model's pairs.
#[test]
fn the_second_version_of_saved_mechanisms_still_loads() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../golden/sequence_v2.json")).unwrap();
    let mut loaded: Batched = serde_json::from_value(golden.clone()).unwrap();
    assert_eq!(serde_json::to_value(&loaded).unwrap(), golden);
    assert_eq!(loaded.settings().support, Some(4));
    let random = &mut SeededRandom::new(676);
    assert_eq!(answered(&mut loaded, 2, &[1, 1, 0], random).unwrap().len(), 3);
    // The version is that of the settings.
    for (version, support) in [(1, Some(4)), (2, None), (3, Some(4))] {
        let mut other = golden.clone();
        other["version"] = version.into();
        if support.is_none() {
            other["settings"].as_object_mut().unwrap().remove("support");
        }
        assert!(serde_json::from_value::<Batched>(other).is_err(), "{version}");
    }
}

#[test]
fn rejects_a_support_that_cannot_be() {
    let model = Model::uniform(70_000).unwrap();
    let with = |support| BatchedSettings { batch: CrrSettings::new(epsilon("1")), length: 3, part: None, support };
    let refused = Batched::new(model.clone(), with(None)).unwrap_err().to_string();
    assert!(refused.contains("tell only the likeliest sequences apart (support)"), "{refused}");
    for given in [0, MAX_SUPPORT + 1] {
        let refused = Batched::new(model.clone(), with(Some(given))).unwrap_err();
        assert_eq!(refused, BatchedError::Channel(BatchChannelError::Support { given }));
    }
    let mechanism = Batched::new(model, with(Some(MAX_SUPPORT))).unwrap();
    let (channel, belief) = mechanism.channel().unwrap();
    // Nothing is likelier than anything else: no row names a symbol.
    assert_eq!((channel.domain(), belief.len()), (MIDDLES, MIDDLES));
}
