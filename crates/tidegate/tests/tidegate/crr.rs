//! The mechanism, its account and the baselines.

use tidegate::kernel::{Epsilon, Refusal, SeededRandom, Window};
use tidegate::post_processing::{PostProcessing, PostProcessingError};
use tidegate::query::{History, QueryError};
use tidegate::release::{Freshness, Release, Statistic};
use tidegate::sequence::baseline::{self, Baseline, BaselineError, BaselineKind};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::crr::{Crr, CrrError, CrrSettings, Effort, Guarantee, MAX_GAP, StepError};
use tidegate::sequence::distance::{Distance, DistanceMatrix};
use tidegate::sequence::hamming;
use tidegate::sequence::model::{Model, SparseRow};

use crate::support::{copy_of, random_belief, random_rows, unit};

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn answer(release: &Release) -> u32 {
    match release.statistic {
        Statistic::Symbol(answer) => answer.symbol,
        _ => panic!("a symbol is published"),
    }
}

/// A chain that likes to stay where it is.
fn lazy_chain(domain: usize) -> Model {
    let stay = 0.7;
    let other = (1.0 - stay) / (domain - 1) as f64;
    let matrix = (0..domain * domain).map(|i| if i / domain == i % domain { stay } else { other }).collect();
    Model::dense(vec![1.0 / domain as f64; domain], matrix).unwrap()
}

/// A sequence that the lazy chain produces.
fn lazy_walk(domain: u32, length: u64, random: &mut SeededRandom) -> Vec<u32> {
    let mut at = 0;
    (0..length)
        .map(|_| {
            if unit(random) >= 0.7 {
                at = (at + 1 + (unit(random) * f64::from(domain - 1)) as u32) % domain;
            }
            at
        })
        .collect()
}

#[test]
fn step_uses_channel_of_the_updated_belief() {
    let model = lazy_chain(5);
    let random = &mut SeededRandom::new(630);
    let mut mechanism = Crr::new(model.clone(), CrrSettings::new(epsilon("1"))).unwrap();
    let mut belief = Belief::new(&model);
    for (timestamp, symbol) in (0..).zip(lazy_walk(5, 200, random)) {
        let expected = hamming::channel(belief.present(), epsilon("1")).unwrap();
        assert_eq!(mechanism.channel().unwrap(), expected);
        let release = mechanism.step(&mechanism.seal(timestamp, symbol).unwrap(), random).unwrap();
        assert_eq!((release.timestamp, release.freshness, release.reports), (timestamp, Freshness::Fresh, 1));
        assert_eq!(release.spent.most(), Some(epsilon("2"))); // in losses of local privacy
        belief.release(&model, &expected, answer(&release)).unwrap();
        assert_eq!(mechanism.belief(), &belief);
    }
    assert_eq!((mechanism.leakage().steps(), mechanism.leakage().total()), (200, 200.0));
}

/// Errors of single steps have the expectations that their channels state, whose sum is compared: with 20,000 steps, at
/// 5 standard deviations (a false alarm in a million).
#[test]
fn the_share_of_wrong_answers_is_what_the_channels_say() {
    let model = lazy_chain(4);
    let random = &mut SeededRandom::new(631);
    let mut mechanism = Crr::new(model, CrrSettings::new(epsilon("0.8"))).unwrap();
    let (mut wrong, mut expected, steps) = (0.0, 0.0, 20_000);
    for (timestamp, symbol) in (0..).zip(lazy_walk(4, steps, random)) {
        let belief = mechanism.belief().present().to_vec();
        expected += mechanism.channel().unwrap().expected_cost(&belief, |x, y| f64::from(u8::from(x != y))).unwrap();
        let release = mechanism.step(&mechanism.seal(timestamp, symbol).unwrap(), random).unwrap();
        wrong += f64::from(u8::from(answer(&release) != symbol));
    }
    let deviation = (steps as f64 * 0.25).sqrt();
    assert!((wrong - expected).abs() < 5.0 * deviation, "{wrong} {expected}");
    // Of this chain, an even answer is wrong three times in four.
    assert!(expected < 0.45 * steps as f64, "{expected}");
}

#[test]
fn window_never_exceeds_its_budget_in_either_unit() {
    for (guarantee, granted) in [(Guarantee::Sequence, 2), (Guarantee::Local, 2)] {
        let (window, budget) = (Window::of(3).unwrap(), epsilon("1"));
        let settings = CrrSettings { guarantee, window, budget, ..CrrSettings::new(epsilon("0.5")) };
        let mut mechanism = Crr::new(lazy_chain(3), settings).unwrap();
        let random = &mut SeededRandom::new(632);
        for timestamp in 0..30 {
            let sealed = mechanism.seal(timestamp, 1).unwrap();
            let before = mechanism.belief().clone();
            match mechanism.step(&sealed, random) {
                Ok(_) => assert!(timestamp % 3 < granted),
                Err(CrrError::Refused(Refusal::Overspend { .. })) => {
                    assert_eq!(timestamp % 3, granted);
                    assert_eq!(mechanism.belief(), &before);
                    let guess = mechanism.guess(timestamp).unwrap();
                    assert_eq!((guess.spent.most(), guess.freshness), (None, Freshness::Approximated));
                    let likeliest = before.present().iter().fold(0.0_f64, |most, p| most.max(*p));
                    assert_eq!(before.present()[answer(&guess) as usize], likeliest);
                }
                Err(other) => panic!("{other}"),
            }
        }
        let local_total: u64 = 20 * if guarantee == Guarantee::Sequence { 1_000_000_000 } else { 500_000_000 };
        assert!((mechanism.leakage().local_bound() - local_total as f64 / 1e9).abs() < 1e-9);
    }
}

#[test]
fn the_robust_mode_halves_epsilon_so_that_it_holds_locally() {
    let settings = CrrSettings { guarantee: Guarantee::Local, ..CrrSettings::new(epsilon("1.000000001")) };
    let mechanism = Crr::new(lazy_chain(3), settings).unwrap();
    let channel = mechanism.channel().unwrap();
    assert_eq!(channel, hamming::channel(mechanism.belief().present(), epsilon("0.5")).unwrap());
    assert!(channel.ldp_loss() <= 1.0 + 1e-12);
    let too_small = CrrSettings { guarantee: Guarantee::Local, ..CrrSettings::new(Epsilon::MIN) };
    assert_eq!(Crr::new(lazy_chain(3), too_small).unwrap_err(), CrrError::Epsilon { given: Epsilon::MIN });
}

#[test]
fn a_constant_answer_costs_nothing() {
    let model = Model::dense(vec![0.9, 0.1], vec![0.9, 0.1, 0.9, 0.1]).unwrap();
    let mut mechanism = Crr::new(model, CrrSettings::new(epsilon("1"))).unwrap();
    let random = &mut SeededRandom::new(633);
    for timestamp in 0..10 {
        let release = mechanism.step(&mechanism.seal(timestamp, 1).unwrap(), random).unwrap();
        assert_eq!((answer(&release), release.spent.most(), release.freshness), (0, None, Freshness::Approximated));
    }
    assert_eq!((mechanism.leakage().steps(), mechanism.belief().released()), (0, 0));
    assert_eq!(mechanism.ledger().spends().len(), 0);
}

#[test]
fn timestamps_may_be_left_out_but_not_come_again() {
    let model = lazy_chain(3);
    let random = &mut SeededRandom::new(634);
    let mut mechanism = Crr::new(model.clone(), CrrSettings::new(epsilon("1"))).unwrap();
    let first = mechanism.step(&mechanism.seal(100, 2).unwrap(), random).unwrap();
    let channel = hamming::channel(Belief::new(&model).present(), epsilon("1")).unwrap();
    let mut belief = Belief::new(&model);
    belief.release(&model, &channel, answer(&first)).unwrap();
    (101..105).for_each(|_| belief.pass(&model).unwrap());
    let channel = hamming::channel(belief.present(), epsilon("1")).unwrap();
    let second = mechanism.step(&mechanism.seal(105, 2).unwrap(), random).unwrap();
    belief.release(&model, &channel, answer(&second)).unwrap();
    assert_eq!(mechanism.belief(), &belief);

    let again = mechanism.step(&mechanism.seal(105, 2).unwrap(), random).unwrap_err();
    assert_eq!(again.to_string(), "timestamp 105 is not after the last one; the next is 106");
    let far = mechanism.step(&mechanism.seal(106 + MAX_GAP + 1, 2).unwrap(), random).unwrap_err();
    assert!(matches!(far, CrrError::Gap { .. }), "{far}");
    assert_eq!(mechanism.seal(106, 3).unwrap_err().to_string(), "the symbol is outside the domain 0..3");
    mechanism.step(&mechanism.seal(106, 0).unwrap(), random).unwrap();
}

#[test]
fn nothing_is_released_before_the_ledger_is_saved() {
    let random = &mut SeededRandom::new(635);
    let mut mechanism = Crr::new(lazy_chain(3), CrrSettings::new(epsilon("1"))).unwrap();
    let sealed = mechanism.seal(0, 1).unwrap();
    let error = mechanism.step_and_save(&sealed, random, |_| Err("disk full")).unwrap_err();
    assert!(matches!(error, StepError::NotSaved("disk full")));
    assert_eq!(mechanism.belief().released(), 0);
    // It counts as spent all the same.
    assert!(matches!(mechanism.step(&sealed, random), Err(CrrError::Refused(_))));
    let mut saved = None;
    let sealed = mechanism.seal(1, 1).unwrap();
    mechanism
        .step_and_save(&sealed, random, |ledger| {
            saved = Some(serde_json::to_string(ledger).unwrap());
            Ok::<(), String>(())
        })
        .unwrap();
    assert!(saved.unwrap().contains("[1,\"2\"]"));
}

#[test]
fn every_distance_can_be_asked_for() {
    let ring = |x: usize, y: usize| (x.abs_diff(y)).min(6 - x.abs_diff(y)) as f64;
    let matrix = DistanceMatrix::new((0..6).map(|x| (0..6).map(|y| ring(x, y)).collect()).collect()).unwrap();
    let random = &mut SeededRandom::new(636);
    for distance in [Distance::Hamming, Distance::Absolute, Distance::Squared, Distance::Matrix(matrix)] {
        let settings = CrrSettings { distance: distance.clone(), ..CrrSettings::new(epsilon("1.5")) };
        let mut mechanism = Crr::new(lazy_chain(6), settings.clone()).unwrap();
        for timestamp in 0..50 {
            let belief = mechanism.belief().present().to_vec();
            assert!(mechanism.channel().unwrap().leakage(&belief).unwrap().largest() <= 1.5 + 1e-9);
            mechanism.step(&mechanism.seal(timestamp, (timestamp % 6) as u32).unwrap(), random).unwrap();
        }
        // A guess is the best constant.
        let belief = mechanism.belief().present().to_vec();
        let cost = |y: u32| -> f64 { (0..).zip(&belief).map(|(x, p)| p * distance.between(x, y)).sum() };
        let guess = answer(&mechanism.guess(50).unwrap());
        assert!((0..6).all(|y| cost(guess) <= cost(y) + 1e-12), "{distance:?} {belief:?} {guess}");
        let thorough = Crr::new(lazy_chain(6), CrrSettings { effort: Effort::Thorough, ..settings });
        assert_eq!(thorough.is_ok(), cfg!(feature = "programme"));
    }
    let other = DistanceMatrix::new(vec![vec![0.0, 1.0], vec![1.0, 0.0]]).unwrap();
    let settings = CrrSettings { distance: Distance::Matrix(other), ..CrrSettings::new(epsilon("1")) };
    assert_eq!(Crr::new(lazy_chain(6), settings).unwrap_err(), CrrError::Matrix { given: 2, expected: 6 });
}

#[test]
fn saving_and_loading_anywhere_changes_nothing() {
    let random = &mut SeededRandom::new(637);
    let matrix = random_rows(4, random).concat();
    let model = Model::dense(random_belief(4, random), matrix).unwrap();
    let settings =
        CrrSettings { window: Window::of(4).unwrap(), budget: epsilon("2"), ..CrrSettings::new(epsilon("0.75")) };
    let mut plain = Crr::new(model, settings).unwrap();
    let (mut as_json, mut as_bytes) = (copy_of(&plain), copy_of(&plain));
    let randoms = &mut [SeededRandom::new(1), SeededRandom::new(1), SeededRandom::new(1)];
    for (timestamp, symbol) in (0..).zip(lazy_walk(4, 60, random)) {
        let outcomes: Vec<_> = [&mut plain, &mut as_json, &mut as_bytes]
            .into_iter()
            .zip(randoms.iter_mut())
            .map(|(mechanism, random)| {
                let sealed = mechanism.seal(timestamp, symbol).unwrap();
                mechanism.step(&sealed, random).or_else(|_| mechanism.guess(timestamp)).unwrap()
            })
            .collect();
        assert!(outcomes.iter().all(|outcome| outcome == &outcomes[0]));
        as_json = serde_json::from_str(&serde_json::to_string(&as_json).unwrap()).unwrap();
        as_bytes = postcard::from_bytes(&postcard::to_allocvec(&as_bytes).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&plain).unwrap(), serde_json::to_string(&as_json).unwrap());
        assert_eq!(serde_json::to_string(&plain).unwrap(), serde_json::to_string(&as_bytes).unwrap());
    }
}

#[test]
fn a_saved_state_that_does_not_fit_is_refused() {
    let random = &mut SeededRandom::new(638);
    let mut mechanism = Crr::new(lazy_chain(3), CrrSettings::new(epsilon("1"))).unwrap();
    mechanism.step(&mechanism.seal(4, 1).unwrap(), random).unwrap();
    let good = serde_json::to_string(&mechanism).unwrap();
    for (from, to) in [
        ("{\"version\":1,\"settings\"", "{\"version\":2,\"settings\""),
        ("\"budget\":\"2\"", "\"budget\":\"3\""),
        ("\"next\":5", "\"next\":7"),
        ("\"next\":5,", ""),
        ("\"steps\":1", "\"stops\":1"),
        ("\"epsilon\":\"1\"", "\"epsilon\":\"11\""),
        ("\"period_units\":1000000000", "\"period_units\":2000000000"),
    ] {
        assert!(good.contains(from), "{from} {good}");
        assert!(serde_json::from_str::<Crr>(&good.replacen(from, to, 1)).is_err(), "{from}");
    }
    assert!(serde_json::from_str::<Crr>(&good).is_ok());
}

#[test]
fn the_first_version_of_saved_mechanisms_still_loads() {
    let golden = include_str!("../golden/sequence_v1.json").trim();
    let mut loaded: Crr = serde_json::from_str(golden).unwrap();
    let now = serde_json::to_string(&loaded).unwrap();
    assert_eq!(serde_json::to_string(&copy_of(&loaded)).unwrap(), now);
    assert!(loaded.step(&loaded.seal(4, 1).unwrap(), &mut SeededRandom::new(1)).is_ok());
}

/// A query would take a symbol for a frequency.
#[test]
fn symbols_are_refused_where_frequencies_are_needed() {
    let random = &mut SeededRandom::new(639);
    let mut mechanism = Crr::new(lazy_chain(3), CrrSettings::new(epsilon("1"))).unwrap();
    let release = mechanism.step(&mechanism.seal(0, 1).unwrap(), random).unwrap();
    assert_eq!((release.statistic.domain(), release.statistic.leaves()), (3, ([].as_slice(), [].as_slice())));
    let repaired = PostProcessing::Clip.apply(&release.statistic);
    assert_eq!(repaired, Err(PostProcessingError::NotFrequencies));
    let refused = History::new(Window::EVENT, 10).unwrap().push(release, None).unwrap_err();
    assert_eq!(refused, QueryError::NotFrequencies { timestamp: 0 });
}

/// How often an answer is right, with a false-alarm probability below a millionth: 5 standard deviations.
#[test]
fn baselines_are_right_as_often_as_their_formulas_say() {
    let random = &mut SeededRandom::new(640);
    let (domain, steps, ratio) = (6_u32, 20_000, 1_f64.exp());
    for kind in BaselineKind::ALL {
        let expected = match kind {
            BaselineKind::Rr => ratio / (ratio + f64::from(domain) - 1.0),
            // The own bit among those of others; or an empty set, and any symbol.
            BaselineKind::Oue => {
                let q = 1.0 / (ratio + 1.0);
                let others = |n: i32| {
                    let choose = [1.0, 5.0, 10.0, 10.0, 5.0, 1.0][n as usize];
                    choose * q.powi(n) * (1.0 - q).powi(5 - n)
                };
                (0..6).map(|n| 0.5 * others(n) / f64::from(n + 1)).sum::<f64>() + 0.5 * others(0) / 6.0
            }
        };
        let mut mechanism = Baseline::new(kind, baseline::BaselineSettings::new(domain, epsilon("1"))).unwrap();
        let mut right = 0.0;
        for timestamp in 0..steps {
            let symbol = (timestamp % 6) as u32;
            let release = mechanism.step(&mechanism.seal(timestamp, symbol).unwrap(), random).unwrap();
            right += f64::from(u8::from(answer(&release) == symbol));
        }
        let deviation = (steps as f64 * expected * (1.0 - expected)).sqrt();
        assert!((right - steps as f64 * expected).abs() < 5.0 * deviation, "{kind} {right} {expected}");
        assert!((right - steps as f64 * 1.1 * expected).abs() > 5.0 * deviation, "{kind}: the check has no teeth");
    }
}

#[test]
fn baselines_keep_their_budget_and_are_saved() {
    let random = &mut SeededRandom::new(641);
    let settings = baseline::BaselineSettings {
        window: Window::of(3).unwrap(),
        budget: epsilon("2"),
        ..baseline::BaselineSettings::new(4, epsilon("1"))
    };
    for kind in BaselineKind::ALL {
        let mut mechanism = Baseline::new(kind, settings).unwrap();
        for timestamp in 0..12 {
            let sealed = mechanism.seal(timestamp, 3).unwrap();
            let refused = matches!(mechanism.step(&sealed, random), Err(BaselineError::Refused(_)));
            assert_eq!(refused, timestamp % 3 == 2);
            mechanism = serde_json::from_str(&serde_json::to_string(&mechanism).unwrap()).unwrap();
            mechanism = postcard::from_bytes(&postcard::to_allocvec(&mechanism).unwrap()).unwrap();
            assert_eq!((mechanism.kind(), *mechanism.settings()), (kind, settings));
        }
        let other = serde_json::to_string(&mechanism).unwrap().replacen("\"budget\":\"2\"", "\"budget\":\"1\"", 1);
        assert!(serde_json::from_str::<Baseline>(&other).is_err());
        assert!(mechanism.seal(12, 4).is_err());
    }
    assert!(Baseline::new(BaselineKind::Rr, baseline::BaselineSettings::new(1, epsilon("1"))).is_err());
}

/// After each call, the belief is that of an observer who knows the channels and what was released.
#[test]
fn the_belief_follows_through_constant_steps_guesses_and_gaps() {
    let random = &mut SeededRandom::new(645);
    let lazy = Model::dense(vec![0.9, 0.1], vec![0.88, 0.12, 0.3, 0.7]).unwrap();
    let rare = |p: f64| SparseRow { own: vec![(0, p), (1, 0.9 - p)], left: 0.1 };
    let second = lazy.clone().with_pairs([((0, 1), rare(0.7)), ((1, 0), rare(0.2)), ((1, 1), rare(0.05))]).unwrap();
    let (mut constant, mut paid) = (0, 0);
    for model in [lazy, second] {
        let mut mechanism = Crr::new(model.clone(), CrrSettings::new(epsilon("0.8"))).unwrap();
        let mut shadow = Belief::new(&model);
        let mut timestamp = 0;
        for step in 0..120 {
            if step % 7 == 3 {
                (0..3).for_each(|_| shadow.pass(&model).unwrap());
                timestamp += 3;
            }
            if step % 5 == 4 {
                mechanism.guess(timestamp).unwrap();
                shadow.pass(&model).unwrap();
            } else {
                let channel = hamming::channel(shadow.present(), epsilon("0.8")).unwrap();
                let release = mechanism.step(&mechanism.seal(timestamp, step / 20 % 2).unwrap(), random).unwrap();
                if channel.outputs().len() == 1 {
                    constant += 1;
                    assert_eq!(release.spent.most(), None);
                    shadow.pass(&model).unwrap();
                } else {
                    paid += 1;
                    shadow.release(&model, &channel, answer(&release)).unwrap();
                }
            }
            assert_eq!(mechanism.belief(), &shadow, "step {step}");
            timestamp += 1;
        }
    }
    assert!(constant > 5 && paid > 5, "{constant} {paid}");
}
