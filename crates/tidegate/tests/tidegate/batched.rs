//! Batches: several symbols answered at once.

use std::sync::Arc;

use tidegate::kernel::primitives::{BatchError, SymbolBatch};
use tidegate::kernel::{Epsilon, Refusal, SeededRandom, Window};
use tidegate::release::{Freshness, Release, Statistic};
use tidegate::sequence::batched::{
    self, AnswerError, BatchChannelError, Batched, BatchedError, BatchedSettings, CLUSTER_LIMIT, MAX_LENGTH,
};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::crr::{self, CrrError, Effort, Guarantee};
use tidegate::sequence::distance::{Distance, DistanceMatrix};
use tidegate::sequence::hamming;
use tidegate::sequence::leakage::exact;
use tidegate::sequence::model::{Model, SparseRow};

use crate::channels::assert_private;
use crate::support::{copy_of, random_belief, random_rows, unit};

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn binary_chain() -> Model {
    Model::dense(vec![0.7, 0.3], vec![0.9, 0.1, 0.2, 0.8]).unwrap()
}

fn random_chain(domain: usize, random: &mut SeededRandom) -> Model {
    Model::dense(random_belief(domain, random), random_rows(domain, random).concat()).unwrap()
}

/// A chain of order 2, in which some pairs have a row of their own.
fn second_order(domain: u32, random: &mut SeededRandom) -> Model {
    let mut pairs = Vec::new();
    for pair in (0..domain * domain).filter(|pair| pair % 3 != 0) {
        let row = random_belief(domain as usize, random);
        let own: Vec<(u32, f64)> = (0..).zip(row).filter(|(_, p)| *p > 0.0).map(|(x, p)| (x, 0.8 * p)).collect();
        let left = 1.0 - own.iter().map(|(_, p)| p).sum::<f64>();
        pairs.push(((pair / domain, pair % domain), SparseRow { own, left }));
    }
    random_chain(domain as usize, random).with_pairs(pairs).unwrap()
}

fn settings(amount: &str, length: u32) -> BatchedSettings {
    let batch = crr::CrrSettings { effort: Effort::Thorough, ..crr::CrrSettings::new(epsilon(amount)) };
    BatchedSettings { batch, length, part: None, support: None }
}

fn symbols(releases: &[Release]) -> Vec<u32> {
    let symbol = |release: &Release| match release.statistic {
        Statistic::Symbol(answer) => answer.symbol,
        _ => panic!("a symbol is published"),
    };
    releases.iter().map(symbol).collect()
}

/// Gathers the symbols and has them answered.
fn answer(
    mechanism: &mut Batched,
    timestamp: u64,
    symbols: &[u32],
    random: &mut SeededRandom,
) -> Result<Vec<Release>, BatchedError> {
    mechanism.answer(timestamp, gathered(mechanism, symbols), random)
}

fn gathered(mechanism: &Batched, symbols: &[u32]) -> SymbolBatch {
    let mut batch = mechanism.gather().unwrap();
    symbols.iter().for_each(|symbol| batch.push(*symbol).unwrap());
    batch
}

/// The expected distance of the next batch.
fn expected(mechanism: &Batched) -> f64 {
    let (channel, belief) = mechanism.channel().unwrap();
    let (domain, length) = (mechanism.model().domain(), mechanism.settings().length);
    let distance = |mut one: u32, mut other: u32| {
        let mut sum = 0.0;
        for _ in 0..length {
            sum += mechanism.settings().batch.distance.between(one % domain, other % domain);
            (one, other) = (one / domain, other / domain);
        }
        sum
    };
    channel.expected_cost(&belief, distance).unwrap()
}

/// The expected number of wrong answers of single steps, over all that may be released.
fn single_steps(model: &Model, belief: &Belief, steps: u32, amount: Epsilon) -> f64 {
    if steps == 0 {
        return 0.0;
    }
    let channel = hamming::channel(belief.present(), amount).unwrap();
    let wrong = channel.expected_cost(belief.present(), |x, y| f64::from(u8::from(x != y))).unwrap();
    let rest = |output: u32| {
        let mut belief = belief.clone();
        let probability = belief.release(model, &channel, output).unwrap();
        probability * single_steps(model, &belief, steps - 1, amount)
    };
    wrong + channel.outputs().iter().map(|(output, _)| rest(*output)).sum::<f64>()
}

#[test]
fn longer_batches_have_fewer_errors_per_symbol() {
    for (length, error) in [(1, 0.1545), (2, 0.1014), (3, 0.0275), (4, 0.0139)] {
        let mechanism = Batched::new(binary_chain(), settings(&length.to_string(), length)).unwrap();
        let found = expected(&mechanism) / f64::from(length);
        assert!((found - error).abs() < 6e-5, "{length}: {found}");
    }
    let model = binary_chain();
    let single = single_steps(&model, &Belief::new(&model), 4, epsilon("1")) / 4.0;
    assert!((single - 0.164).abs() < 1e-3, "{single}");
}

#[test]
fn channels_over_sequences_are_private_by_programme_and_by_clusters() {
    let random = &mut SeededRandom::new(650);
    for (domain, length, amount) in [(2, 3, "0.4"), (3, 2, "2"), (4, 3, "1"), (2, 6, "5")] {
        let model = random_chain(domain, random);
        for effort in [Effort::Fast, Effort::Thorough] {
            for distance in [Distance::Hamming, Distance::Squared] {
                let batch = crr::CrrSettings { effort, distance, ..crr::CrrSettings::new(epsilon(amount)) };
                let mechanism =
                    Batched::new(model.clone(), BatchedSettings { batch, length, part: None, support: None }).unwrap();
                let (channel, belief) = mechanism.channel().unwrap();
                assert_private(&channel, &belief, epsilon(amount));
            }
        }
    }
}

#[test]
fn sequence_clusters_are_near_the_optimum() {
    let cost = |length: u32, effort| {
        let batch =
            crr::CrrSettings { effort, ..crr::CrrSettings::new(epsilon("0.5").checked_mul(length.into()).unwrap()) };
        expected(&Batched::new(binary_chain(), BatchedSettings { batch, length, part: None, support: None }).unwrap())
    };
    for length in [2, 3, 4, 5, 6] {
        let (clusters, optimum) = (cost(length, Effort::Fast), cost(length, Effort::Thorough));
        assert!(clusters < 1.2 * optimum, "{length}: {clusters} {optimum}");
    }
    let model = binary_chain();
    let single = single_steps(&model, &Belief::new(&model), 9, epsilon("0.5"));
    let many = cost(9, Effort::Thorough); // 512 sequences
    assert!(many < single, "{many} {single}");
}

#[test]
fn belief_follows_from_all_earlier_batches() {
    let random = &mut SeededRandom::new(651);
    for model in [random_chain(3, random), second_order(3, random)] {
        for length in [1, 2] {
            let amount = epsilon("1");
            let channel = |belief: &[f64]| {
                batched::channel(belief, 3, length, amount, &Distance::Hamming, Effort::Thorough).unwrap()
            };
            let leakage = exact(&model, length, 3, |released, exact_belief| {
                let mut belief = Belief::new(&model);
                for output in released {
                    let sequences = belief.sequences(&model, length).unwrap();
                    belief.release_sequence(&model, length, &channel(&sequences), *output).unwrap();
                }
                let sequences = belief.sequences(&model, length).unwrap();
                let off = sequences.iter().zip(exact_belief).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                if off < 1e-9 { Ok(channel(exact_belief).dense()) } else { Err(format!("off by {off}")) }
            })
            .unwrap();
            assert!(leakage.steps.iter().all(|step| *step <= 1.0 + 1e-9), "{leakage:?}");
            assert!(leakage.sequence <= 3.0 + 1e-9 && leakage.local <= 6.0 + 1e-9, "{leakage:?}");
            assert!(leakage.sequence > 1.0, "hardly anything was released: {leakage:?}");
        }
    }
}

#[test]
fn a_batch_is_answered_as_the_sequence_that_was_gathered() {
    // At epsilon 10 an answer is independent of the symbols once in 22,000 times: 60 batches are all right but for 3 in
    // 1000.
    let random = &mut SeededRandom::new(652);
    let model = Model::uniform(3).unwrap();
    for part in [None, Some(1)] {
        let amount = if part.is_some() { "30" } else { "10" };
        let mut mechanism = Batched::new(model.clone(), BatchedSettings { part, ..settings(amount, 3) }).unwrap();
        for timestamp in 0..60 {
            let given: Vec<u32> = (0..3).map(|_| (unit(random) * 3.0) as u32).collect();
            let releases = answer(&mut mechanism, timestamp, &given, random).unwrap();
            assert_eq!(symbols(&releases), given);
            let first = timestamp * 3;
            assert!(releases.iter().map(|release| release.timestamp).eq(first..first + 3));
            assert!(releases.iter().all(|release| release.freshness == Freshness::Fresh && release.reports == 1));
            assert_eq!(releases[0].spent.most(), epsilon(amount).checked_mul(2));
            assert_eq!((releases[1].spent.most(), releases[2].spent.most()), (None, None));
        }
    }
}

#[test]
fn answers_have_the_distribution_of_the_channel() {
    // The first batch, answered again and again. That one of 8 counts is off by 6 standard errors has probability below
    // 2e-8.
    let model = Arc::new(binary_chain());
    let settings =
        BatchedSettings { batch: crr::CrrSettings::new(epsilon("1.5")), length: 3, part: None, support: None };
    let random = &mut SeededRandom::new(653);
    let (runs, mut counts) = (4000.0, [0.0; 8]);
    let fresh = || Batched::new(model.clone(), settings.clone()).unwrap();
    for _ in 0..runs as u32 {
        let found = symbols(&answer(&mut fresh(), 0, &[0, 1, 1], random).unwrap());
        counts[found.iter().fold(0, |number, symbol| number * 2 + *symbol as usize)] += 1.0;
    }
    let (channel, _) = fresh().channel().unwrap();
    let deviation = |other: u32| {
        let off = |answer: u32| {
            let p = channel.probability(other, answer);
            (counts[answer as usize] - runs * p).abs() / (runs * p * (1.0 - p)).sqrt().max(1e-9)
        };
        (0..8).map(off).fold(0.0, f64::max)
    };
    assert!(deviation(3) < 6.0, "{counts:?}");
    assert!(deviation(0) > 6.0, "the channel does not tell symbols apart");
}

#[test]
fn saving_and_loading_at_any_point_changes_nothing() {
    let random = &mut SeededRandom::new(654);
    let model = second_order(2, random);
    let batch = crr::CrrSettings {
        effort: Effort::Thorough,
        window: Window::of(3).unwrap(),
        budget: epsilon("5"),
        ..crr::CrrSettings::new(epsilon("1.5"))
    };
    for part in [None, Some(2)] {
        let settings = BatchedSettings { batch: batch.clone(), length: 3, part, support: None };
        let mut straight = Batched::new(model.clone(), settings).unwrap();
        let (mut json, mut postcard) = (copy_of(&straight), copy_of(&straight));
        let mut randoms = [(); 3].map(|()| SeededRandom::new(9));
        for timestamp in [0, 1, 2, 5, 6] {
            let symbols: Vec<u32> = (0..3).map(|_| (unit(random) * 2.0) as u32).collect();
            let expected = answer(&mut straight, timestamp, &symbols, &mut randoms[0]).unwrap();
            json = serde_json::from_str(&serde_json::to_string(&json).unwrap()).unwrap();
            postcard = postcard::from_bytes(&postcard::to_allocvec(&postcard).unwrap()).unwrap();
            assert_eq!(answer(&mut json, timestamp, &symbols, &mut randoms[1]).unwrap(), expected);
            assert_eq!(answer(&mut postcard, timestamp, &symbols, &mut randoms[2]).unwrap(), expected);
        }
        let text = serde_json::to_string(&straight).unwrap();
        assert_eq!(text, serde_json::to_string(&json).unwrap());
        for (from, to) in
            [("\"version\":1,\"settings\"", "\"version\":2,\"settings\""), ("\"length\":3", "\"length\":0")]
        {
            assert!(text.contains(from));
            assert!(serde_json::from_str::<Batched>(&text.replacen(from, to, 1)).is_err(), "{from}");
        }
        let other = serde_json::to_string(&Batched::new(binary_chain(), straight.settings().clone()).unwrap()).unwrap();
        let (state, other): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&other).unwrap());
        let mut mixed = other;
        mixed["next"] = state["next"].clone();
        assert!(serde_json::from_value::<Batched>(mixed).is_err(), "time without an account of it");
    }
}

#[test]
fn rejects_too_many_sequences_and_allows_parts() {
    let model = Model::uniform(10).unwrap();
    let error = Batched::new(model.clone(), settings("1", 5)).unwrap_err();
    let expected = BatchChannelError::TooLarge { domain: 10, length: 5, sequences: "100000".to_owned(), longest: 4 };
    assert_eq!(error, BatchedError::Channel(expected));
    let message = error.to_string();
    assert!(
        message.contains("100000") && message.contains(&CLUSTER_LIMIT.to_string()) && message.contains("at most 4")
    );
    let error = Batched::new(model.clone(), settings("1", 40)).unwrap_err();
    assert!(error.to_string().contains("10^40"), "{error}");
    let large = Model::uniform(u32::try_from(CLUSTER_LIMIT).unwrap() + 1).unwrap();
    let error = Batched::new(large, settings("1", 2)).unwrap_err().to_string();
    assert!(error.contains("apart (support)") && error.ends_with("release symbols one by one with crr"), "{error}");

    let random = &mut SeededRandom::new(655);
    let divided = BatchedSettings { part: Some(2), ..settings("4", 5) };
    let mut mechanism = Batched::new(model, divided).unwrap();
    let releases = answer(&mut mechanism, 0, &[1, 2, 3, 4, 5], random).unwrap();
    assert_eq!(releases.len(), 5);
    // The parts, of 2, 2 and 1 symbols, share epsilon; the ledger counts twice that.
    assert_eq!(releases[0].spent.most(), Some(epsilon("8")));
    assert_eq!(mechanism.leakage().total(), 4.0);
}

#[test]
fn window_counts_batches_and_guesses_are_free() {
    let random = &mut SeededRandom::new(656);
    let batch = crr::CrrSettings {
        window: Window::of(2).unwrap(),
        budget: epsilon("3"),
        distance: Distance::Absolute,
        ..crr::CrrSettings::new(epsilon("2"))
    };
    let mut mechanism =
        Batched::new(binary_chain(), BatchedSettings { batch, length: 2, part: None, support: None }).unwrap();
    answer(&mut mechanism, 7, &[0, 1], random).unwrap();
    let belief = mechanism.belief().clone();
    let refused = answer(&mut mechanism, 8, &[0, 1], random).unwrap_err();
    assert!(matches!(refused, BatchedError::Step(CrrError::Refused(Refusal::Overspend { .. }))), "{refused:?}");
    assert_eq!(mechanism.belief(), &belief);
    let guessed = mechanism.guess(8).unwrap();
    assert!(
        guessed.iter().all(|release| release.freshness == Freshness::Approximated && release.spent.most().is_none())
    );
    assert!(guessed.iter().map(|release| release.timestamp).eq([16, 17]));
    answer(&mut mechanism, 9, &[0, 1], random).unwrap();
    assert_eq!(mechanism.leakage().total(), 4.0);
    let late = answer(&mut mechanism, 9, &[0, 1], random).unwrap_err();
    assert_eq!(late, BatchedError::Step(CrrError::Time { given: 9, next: 10 }));
    let far = answer(&mut mechanism, 1 << 40, &[0, 1], random).unwrap_err();
    assert!(matches!(far, BatchedError::Step(CrrError::Gap { .. })));
}

#[test]
fn the_robust_mode_spends_half_as_much_of_sequence_privacy() {
    let random = &mut SeededRandom::new(657);
    let batch = crr::CrrSettings { guarantee: Guarantee::Local, ..crr::CrrSettings::new(epsilon("2")) };
    let mut mechanism =
        Batched::new(binary_chain(), BatchedSettings { batch, length: 2, part: None, support: None }).unwrap();
    let (channel, belief) = mechanism.channel().unwrap();
    assert_private(&channel, &belief, epsilon("1"));
    let releases = answer(&mut mechanism, 0, &[0, 1], random).unwrap();
    assert_eq!(releases[0].spent.most(), Some(epsilon("2")));
    assert_eq!(mechanism.leakage().total(), 1.0);
}

#[test]
fn nothing_is_answered_before_the_ledger_is_saved() {
    let random = &mut SeededRandom::new(658);
    let mut mechanism = Batched::new(binary_chain(), BatchedSettings { part: Some(2), ..settings("4", 4) }).unwrap();
    let mut saved = Vec::new();
    let batch = gathered(&mechanism, &[0, 0, 1, 1]);
    let save = |ledger: &tidegate::kernel::Ledger| {
        saved.push(ledger.spends().map(|(_, amount)| amount).collect::<Vec<_>>());
        Ok::<(), &str>(())
    };
    mechanism.answer_and_save(0, batch, random, save).unwrap();
    assert_eq!(saved, [[epsilon("4")], [epsilon("8")]]);
    let batch = gathered(&mechanism, &[0, 0, 1, 1]);
    let failed = mechanism.answer_and_save(1, batch, random, |_| Err("full")).unwrap_err();
    assert!(matches!(failed, AnswerError::NotSaved("full")));
}

#[test]
fn settings_and_batches_that_do_not_fit_are_refused() {
    let model = binary_chain();
    assert_eq!(Batched::new(model.clone(), settings("1", 0)).unwrap_err(), BatchedError::Empty);
    let empty = BatchedSettings { part: Some(0), ..settings("1", 2) };
    assert_eq!(Batched::new(model.clone(), empty).unwrap_err(), BatchedError::Empty);
    let small = BatchedSettings { part: Some(1), ..settings("0.000000001", 2) };
    assert!(matches!(Batched::new(model.clone(), small).unwrap_err(), BatchedError::Share { parts: 2, .. }));
    assert!(matches!(
        Batched::new(model.clone(), settings("11", 2)).unwrap_err(),
        BatchedError::Step(CrrError::Limits(_))
    ));
    let matrix = DistanceMatrix::new(vec![vec![0.0]]).unwrap();
    let batch = crr::CrrSettings { distance: Distance::Matrix(matrix), ..crr::CrrSettings::new(epsilon("1")) };
    let other =
        Batched::new(model.clone(), BatchedSettings { batch, length: 2, part: None, support: None }).unwrap_err();
    assert_eq!(other, BatchedError::Step(CrrError::Matrix { given: 1, expected: 2 }));

    let random = &mut SeededRandom::new(659);
    let mut mechanism = Batched::new(model, settings("1", 2)).unwrap();
    let short = answer(&mut mechanism, 0, &[1], random).unwrap_err();
    assert_eq!(short, BatchedError::Batch(BatchError::Incomplete { given: 1, length: 2 }));
    let foreign = SymbolBatch::new(3, &[2]).unwrap();
    assert_eq!(mechanism.answer(0, foreign, random).unwrap_err(), BatchedError::OtherBatch);
    assert!(batched::channel(&[0.5, 0.5], 2, 2, epsilon("1"), &Distance::Hamming, Effort::Fast).is_err());
}

#[test]
fn rejects_large_timestamp_or_length_without_spending() {
    let random = &mut SeededRandom::new(642);
    let mut mechanism = Batched::new(binary_chain(), settings("1", 2)).unwrap();
    for given in [u64::MAX / 2 + 7, u64::MAX / 2, u64::MAX] {
        let refused = BatchedError::Timestamp { given, length: 2 };
        assert_eq!(answer(&mut mechanism, given, &[0, 1], random).unwrap_err(), refused);
        assert_eq!(mechanism.guess(given).unwrap_err(), refused);
        assert_eq!((mechanism.ledger().spends().len(), mechanism.ledger().clock()), (0, None));
    }
    let last = mechanism.guess(u64::MAX / 2 - 1).unwrap();
    assert_eq!(last.iter().map(|release| release.timestamp).collect::<Vec<_>>(), [u64::MAX - 3, u64::MAX - 2]);

    for given in [MAX_LENGTH + 1, u32::MAX] {
        let long = BatchedSettings { part: Some(1), ..settings("1", given) };
        assert_eq!(Batched::new(binary_chain(), long).unwrap_err(), BatchedError::Length { given });
    }
}

#[test]
fn releases_a_constant_batch_without_budget() {
    // A fair bit at first, and then a symbol that is nearly certain.
    let model = Model::dense(vec![0.5, 0.5], vec![0.999, 0.001, 0.999, 0.001]).unwrap();
    let batch = crr::CrrSettings { window: Window::Unbounded, ..crr::CrrSettings::new(epsilon("0.1")) };
    let mut mechanism = Batched::new(model, BatchedSettings { batch, length: 1, part: None, support: None }).unwrap();
    let random = &mut SeededRandom::new(643);
    for timestamp in 0..3 {
        let releases = answer(&mut mechanism, timestamp, &[1], random).unwrap();
        assert_eq!(releases[0].spent.most().is_some(), timestamp == 0);
        assert_eq!(mechanism.ledger().remaining(timestamp + 1), None);
    }
}

/// After each call, the belief is that of an observer who knows the channels and what was released.
#[test]
fn belief_is_updated_after_each_part() {
    let random = &mut SeededRandom::new(644);
    let lazy = Model::dense(vec![0.9, 0.1], vec![0.88, 0.12, 0.3, 0.7]).unwrap();
    let (mut constant, mut paid) = (0, 0);
    for model in [lazy, second_order(2, random)] {
        let model = Arc::new(model);
        for part in [1_u32, 2] {
            let batch = crr::CrrSettings { distance: Distance::Hamming, ..crr::CrrSettings::new(epsilon("1.6")) };
            let mut mechanism =
                Batched::new(Arc::clone(&model), BatchedSettings { batch, length: 2, part: Some(part), support: None })
                    .unwrap();
            let mut shadow = Belief::new(&model);
            let mut timestamp = 0;
            for step in 0..40 {
                if step % 7 == 3 {
                    (0..4).for_each(|_| shadow.pass(&model).unwrap());
                    timestamp += 2;
                }
                if step % 5 == 4 {
                    mechanism.guess(timestamp).unwrap();
                    (0..2).for_each(|_| shadow.pass(&model).unwrap());
                } else {
                    let answers = symbols(&answer(&mut mechanism, timestamp, &[step / 10 % 2, 1], random).unwrap());
                    for answers in answers.chunks(part as usize) {
                        let sequences = shadow.sequences(&model, part).unwrap();
                        let share = if part == 1 { "0.8" } else { "1.6" };
                        let channel =
                            batched::channel(&sequences, 2, part, epsilon(share), &Distance::Hamming, Effort::Fast)
                                .unwrap();
                        if channel.outputs().len() == 1 {
                            constant += 1;
                            (0..part).for_each(|_| shadow.pass(&model).unwrap());
                        } else {
                            paid += 1;
                            let number = answers.iter().fold(0, |number, symbol| 2 * number + symbol);
                            shadow.release_sequence(&model, part, &channel, number).unwrap();
                        }
                    }
                }
                assert_eq!(*mechanism.belief(), shadow, "part {part}, step {step}");
                timestamp += 1;
            }
        }
    }
    assert!(constant > 5 && paid > 5, "{constant} {paid}");
}
