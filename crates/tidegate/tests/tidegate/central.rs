//! The central mechanisms with one guarantee for all: their accounts under every sequence of decisions, their state,
//! their errors.

use std::num::NonZeroU64;

use tidegate::central::{Central, CentralError, CentralKind, CentralSettings};
use tidegate::kernel::primitives::{Neighbours, histogram_noise, seal_histogram};
use tidegate::kernel::{Epsilon, Ledger, Sealed, SeededRandom, Window};
use tidegate::post_processing::PostProcessing;
use tidegate::query::{History, Query};
use tidegate::release::{Counts, Freshness, Release, Spent, Statistic};

const ADAPTIVE: [CentralKind; 2] = [CentralKind::Bd, CentralKind::Ba];

fn nonzero(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

fn settings(epsilon: &str, window: u64, domain: u32) -> CentralSettings {
    CentralSettings::new(epsilon.parse().unwrap(), nonzero(window), domain)
}

pub fn counts_of(release: &Release) -> &Counts {
    match &release.statistic {
        Statistic::Counts(counts) => counts,
        other => panic!("counts are published, not {other:?}"),
    }
}

/// What a ledger has spent at a timestamp, in units.
pub fn spent_at(ledger: &Ledger, timestamp: u64) -> u64 {
    ledger.spends().filter(|(at, _)| *at == timestamp).map(|(_, amount)| amount.units()).sum()
}

/// The most that any window of a sequence of spends, the last of which is at its end, holds.
pub fn fullest_window(spends: &[u64], window: u64) -> u64 {
    (0..spends.len()).map(|start| spends[start..].iter().take(window as usize).sum()).max().unwrap_or(0)
}

fn push(mechanism: &mut Central, timestamp: u64, counts: Vec<u64>, random: &mut SeededRandom) -> Release {
    let mut releases = mechanism.push(&Sealed::at(mechanism.ledger().account(), timestamp, counts), random).unwrap();
    assert_eq!(releases.len(), 1);
    releases.remove(0)
}

fn save(mechanism: &Central) -> Vec<u8> {
    postcard::to_allocvec(mechanism).unwrap()
}

fn load(bytes: &[u8]) -> Central {
    postcard::from_bytes(bytes).unwrap()
}

#[test]
fn no_window_is_exceeded_under_any_sequence_of_decisions() {
    // A stream that stands at the last release is repeated, but for the noise of the measurement, and a jump is
    // published if anything can be spent. Both decisions are tried from the saved state wherever there is a choice.
    fn explore(
        bytes: &[u8],
        released: u64,
        timestamp: u64,
        spends: &mut Vec<u64>,
        random: &mut SeededRandom,
        leaves: &mut Vec<u64>,
    ) {
        if timestamp == 10 {
            let mechanism = load(bytes);
            let CentralSettings { epsilon, window, .. } = *mechanism.settings();
            let fullest = fullest_window(spends, window.get());
            assert!(fullest <= epsilon.units(), "{spends:?}");
            leaves.push(fullest);
            return;
        }
        for publish in [false, true] {
            for _ in 0..60 {
                let mut mechanism = load(bytes);
                let count = if publish { released ^ (1 << 40) } else { released };
                let release = push(&mut mechanism, timestamp, vec![count], random);
                if (release.freshness == Freshness::Fresh) == publish {
                    let spent = spent_at(mechanism.ledger(), timestamp);
                    assert_eq!(spent, release.spent.most().map_or(0, Epsilon::units));
                    spends.push(spent);
                    let released = counts_of(&release).counts[0].max(0.0) as u64;
                    explore(&save(&mechanism), released, timestamp + 1, spends, random, leaves);
                    spends.pop();
                    break;
                }
            }
        }
    }
    for kind in ADAPTIVE {
        for window in [1, 2, 3, 5] {
            let mechanism = Central::new(kind, settings("1", window, 1)).unwrap();
            let mut leaves = Vec::new();
            explore(&save(&mechanism), 1 << 20, 0, &mut Vec::new(), &mut SeededRandom::new(window), &mut leaves);
            // The first timestamp is always published. Distribution always leaves a choice, absorption not where it
            // pays back.
            match kind {
                CentralKind::Bd => assert_eq!(leaves.len(), 512, "w={window}"),
                _ => assert!((40..=512).contains(&leaves.len()), "w={window}: {}", leaves.len()),
            }
            let fullest = *leaves.iter().max().unwrap();
            if kind == CentralKind::Ba {
                assert!(fullest > 999_999_900, "w={window}: {fullest}");
            }
        }
    }
}

/// What absorption publishes, timestamp by timestamp: an implementation that forgets to record its last publication
/// would take more, and have no nullified timestamps.
#[test]
fn absorption_pays_back_what_it_borrowed() {
    use Freshness::{Approximated, Fresh, Nullified};
    let mut mechanism = Central::new(CentralKind::Ba, settings("1", 5, 20)).unwrap();
    let mut random = SeededRandom::new(1);
    let (share, mut seen, mut standing) = (100_000_000, Vec::new(), vec![1_000_000_000; 20]);
    for timestamp in 0..10 {
        // It stands still at 3 and 4, at what was released.
        let jumps = !(3..=4).contains(&timestamp);
        let counts = standing.iter().map(|count: &u64| if jumps { count ^ (1 << 40) } else { *count }).collect();
        let release = push(&mut mechanism, timestamp, counts, &mut random);
        standing = counts_of(&release).counts.iter().map(|count| count.max(0.0) as u64).collect();
        let measured = if timestamp == 0 { 0 } else { share };
        seen.push(((spent_at(mechanism.ledger(), timestamp) - measured) / share, release.freshness));
    }
    // 0 takes the share of 1 as well; 5 takes those of 3 and 4, and borrows those of 6 and 7.
    let [first, standing, last] = [[(2, Fresh), (0, Nullified)], [(1, Fresh), (0, Approximated)], [(1, Fresh); 2]];
    let expected =
        [&first[..], &standing, &[(0, Approximated), (3, Fresh), (0, Nullified), (0, Nullified)], &last].concat();
    assert_eq!(seen, expected);
}

#[test]
fn fixed_mechanisms_use_the_whole_window_and_no_more() {
    for kind in [CentralKind::Uniform, CentralKind::Sample] {
        for window in [1, 2, 7] {
            let mut mechanism = Central::new(kind, settings("1", window, 3)).unwrap();
            let mut random = SeededRandom::new(2);
            let mut spends = Vec::new();
            for timestamp in 0..40 {
                let release = push(&mut mechanism, timestamp, vec![5, 6, 7], &mut random);
                let fresh = kind == CentralKind::Uniform || timestamp % window == 0;
                assert_eq!(release.freshness == Freshness::Fresh, fresh);
                spends.push(spent_at(mechanism.ledger(), timestamp));
            }
            let fullest = fullest_window(&spends, window);
            assert!(fullest <= 1_000_000_000 && fullest > 999_999_990, "{kind} w={window}: {fullest}");
        }
    }
}

#[test]
fn timestamps_may_be_left_out_and_the_account_still_holds() {
    for kind in CentralKind::ALL {
        let mut mechanism = Central::new(kind, settings("1", 4, 2)).unwrap();
        let mut random = SeededRandom::new(3);
        let mut spends = vec![0; 1_100];
        for timestamp in [3, 4, 9, 10, 11, 13, 40, 41, 42, 43, 1_000, 1_002] {
            let count = if timestamp % 2 == 0 { 10 } else { 1_000_000 };
            assert_eq!(push(&mut mechanism, timestamp, vec![count, 3], &mut random).timestamp, timestamp);
            spends[timestamp as usize] = spent_at(mechanism.ledger(), timestamp);
        }
        assert!(fullest_window(&spends, 4) <= 1_000_000_000, "{kind}");
    }
}

#[test]
fn saved_state_continues_identically_at_any_timestamp() {
    // Also of a single value, whose distance from the mean is known exactly.
    let cases = [(Neighbours::AddRemove, 4), (Neighbours::Replace, 4), (Neighbours::AddRemove, 1)];
    for (kind, (neighbours, domain)) in CentralKind::ALL.into_iter().flat_map(|kind| cases.map(|case| (kind, case))) {
        let drive = |interrupted: bool| {
            let mut mechanism = Central::new(kind, CentralSettings { neighbours, ..settings("1", 3, domain) }).unwrap();
            let mut random = SeededRandom::new(4);
            let mut releases = Vec::new();
            for timestamp in 0..30 {
                let count = if timestamp % 5 == 0 { 300 } else { 100 };
                let counts = [count, 7, count / 2, 0][..domain as usize].to_vec();
                releases.push(push(&mut mechanism, timestamp, counts, &mut random));
                if interrupted {
                    mechanism = load(&save(&mechanism));
                    mechanism = serde_json::from_str(&serde_json::to_string(&mechanism).unwrap()).unwrap();
                }
            }
            assert!(mechanism.finish().is_empty());
            releases
        };
        assert_eq!(drive(false), drive(true), "{kind} {domain}");
    }
}

/// A release is unbiased with the stated variance: chance of a false alarm below 10⁻⁶ for each of the two checks.
#[test]
fn releases_are_unbiased_with_the_stated_variance() {
    for (kind, share) in [(CentralKind::Uniform, "0.25"), (CentralKind::Sample, "0.5")] {
        for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
            let mut random = SeededRandom::new(5);
            let (mut sum, mut squares, draws) = (0.0, 0.0, 20_000);
            let settings = CentralSettings { neighbours, ..settings("0.5", 2, 1) };
            let variance = histogram_noise(neighbours, nonzero(1), share.parse().unwrap()).unwrap().laplace_variance();
            for _ in 0..draws {
                let mut mechanism = Central::new(kind, settings).unwrap();
                let release = push(&mut mechanism, 0, vec![40], &mut random);
                let counts = counts_of(&release);
                assert_eq!(counts.variances, [variance]);
                let error = counts.counts[0] - 40.0;
                sum += error;
                squares += error * error;
            }
            let n = f64::from(draws);
            // The fourth moment of Laplace noise is six times the squared variance.
            let (mean, mean_square) = (sum / n, squares / n);
            assert!(mean.abs() < 5.0 * (variance / n).sqrt(), "{kind} {neighbours:?}: {mean}");
            let spread = variance * (5.0 / n).sqrt();
            assert!((mean_square - variance).abs() < 5.0 * spread, "{kind} {neighbours:?}: {mean_square} {variance}");
            assert!((1.21 * mean_square - variance).abs() > 5.0 * spread, "a scale wrong by 10 % would pass");
        }
    }
}

/// Checks that draws have mean zero and the given mean absolute value, that of Laplace noise of this scale, and would
/// not pass for noise of a scale that is wrong by 10 %. Chance of a false alarm below 10⁻⁶.
pub fn check_laplace(draws: &[f64], scale: f64, what: &str) {
    let n = draws.len() as f64;
    let (mean, absolute) = (draws.iter().sum::<f64>() / n, draws.iter().map(|draw| draw.abs()).sum::<f64>() / n);
    // The absolute value has mean and standard deviation `scale`; that of whole numbers is less by about 1/(6 scale), 1
    // % at 4.
    let tolerance = 5.0 * scale / n.sqrt();
    assert!(mean.abs() < 1.5 * tolerance, "{what}: mean {mean}");
    assert!((absolute - scale).abs() < tolerance, "{what}: {absolute}, not {scale}");
    assert!((1.1 * absolute - scale).abs() > tolerance, "{what}: a scale wrong by 10 % would pass");
}

/// The measured distance per cell, from how far it raised the variances of the release that was repeated: least for
/// counts up to the average.
pub fn measured_distance(first: &Release, repeated: &Release) -> f64 {
    let (own, now) = (counts_of(first).variances[0], &counts_of(repeated).variances);
    let now = now.iter().copied().fold(f64::INFINITY, f64::min);
    ((now - own) / 3.0).sqrt() + (own / 2.0).sqrt()
}

#[test]
fn distance_noise_fits_both_neighbour_relations() {
    for kind in ADAPTIVE {
        for (neighbours, sensitivity) in [(Neighbours::AddRemove, 1), (Neighbours::Replace, 2)] {
            let mut random = SeededRandom::new(41);
            let settings = CentralSettings { neighbours, ..settings("1", 2, 100) };
            let mut mechanism = Central::new(kind, settings).unwrap();
            let first = push(&mut mechanism, 0, vec![1_000; 100], &mut random);
            let moved: Vec<u64> =
                counts_of(&first).counts.iter().map(|count| *count as u64 + 5 * sensitivity).collect();
            let saved = save(&mechanism);
            let noise: Vec<f64> = (0..8_000)
                .map(|_| {
                    let repeated = push(&mut load(&saved), 1, moved.clone(), &mut random);
                    assert_ne!(repeated.freshness, Freshness::Fresh);
                    100.0 * (measured_distance(&first, &repeated) - 5.0 * sensitivity as f64)
                })
                .collect();
            // A quarter of epsilon 1 measures.
            check_laplace(&noise, 4.0 * sensitivity as f64, &format!("{kind} {neighbours:?}"));
        }
    }
}

#[test]
fn a_jump_is_published_and_a_constant_stream_mostly_stands() {
    for kind in ADAPTIVE {
        let mut mechanism = Central::new(kind, settings("1", 20, 50)).unwrap();
        let (mut random, mut fresh) = (SeededRandom::new(6), 0);
        for timestamp in 0..120 {
            let count = if timestamp < 100 { 1_000 } else { 20_000 };
            let release = push(&mut mechanism, timestamp, vec![count; 50], &mut random);
            if (1..100).contains(&timestamp) {
                fresh += u32::from(release.freshness == Freshness::Fresh);
            }
            if timestamp == 119 {
                assert!((counts_of(&release).counts[1] - 20_000.0).abs() < 2_000.0, "{kind}");
            }
        }
        assert!(fresh < 60, "{kind}: {fresh} of 99 were published");
    }
}

#[test]
fn counts_answer_queries_in_counts_and_in_frequencies() {
    let release = |timestamp, counts: Vec<f64>| {
        let statistic = Counts { variances: vec![4.0; counts.len()], counts }.into();
        Release {
            timestamp,
            statistic,
            freshness: Freshness::Fresh,
            spent: Spent::Nothing,
            reports: 0,
            seeded: false,
            why: None,
        }
    };
    let mut history = History::new(Window::of(2).unwrap(), 10).unwrap();
    history.push(release(0, vec![10.0, 30.0, 60.0]), None).unwrap();
    history.push(release(1, vec![20.0, 40.0, 60.0]), Some(200)).unwrap();
    let both = Query::range(0, 1, 2);
    let counts = history.answer(&both.in_counts()).unwrap();
    assert!((counts.value - 100.0).abs() < 1e-9 && (counts.variance - 16.0).abs() < 1e-9);
    // 40 of the hundred that there seem to be, and 60 of 200.
    let frequencies = history.answer(&both).unwrap();
    assert!((frequencies.value - 0.7).abs() < 1e-12);
    let loaded: History = serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap();
    assert_eq!(loaded, history);

    let repaired = PostProcessing::NormSub.apply(&release(0, vec![-10.0, 30.0, 80.0]).statistic).unwrap();
    let Statistic::Counts(repaired) = repaired else { panic!("counts stay counts") };
    assert!(repaired.counts.iter().zip([0.0, 25.0, 75.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{repaired:?}");
    let nobody = Counts { counts: vec![-3.0, 1.0], variances: vec![1.0; 2] };
    assert_eq!((nobody.population(), nobody.histogram(Some(0)).frequencies), (1, vec![-3.0, 1.0]));
}

#[test]
fn bad_settings_and_calls_are_refused_with_what_is_allowed() {
    let new = |kind, settings| Central::new(kind, settings).map(drop).unwrap_err().to_string();
    assert_eq!(new(CentralKind::Bd, settings("1", 5, 0)), "a domain of 0 values is outside 1..=16777216");
    let thin = settings("0.000000001", 5, 2);
    let message = "epsilon 0.000000001 over a window of 5 leaves a share that cannot be spent";
    assert_eq!(new(CentralKind::Uniform, thin), message);

    let random = &mut SeededRandom::new(7);
    for kind in CentralKind::ALL {
        let mut mechanism = Central::new(kind, settings("1", 5, 2)).unwrap();
        let wide = seal_histogram(mechanism.ledger().account(), 0, [2, 1], 3).unwrap();
        assert_eq!(mechanism.push(&wide, random), Err(CentralError::Cells { given: 3, expected: 2 }));
        push(&mut mechanism, 7, vec![1, 2], random);
        let again = mechanism.push(&Sealed::at(mechanism.ledger().account(), 7, vec![1, 2]), random);
        assert_eq!(again, Err(CentralError::Time { given: 7, last: 7 }));
        assert_eq!(mechanism.kind(), kind);
    }
}

/// A state in mid-window, for each mechanism.
fn used(kind: CentralKind) -> Central {
    let mut mechanism = Central::new(kind, settings("1", 3, 3)).unwrap();
    let mut random = SeededRandom::new(8);
    for timestamp in 0..5 {
        let count = if timestamp % 2 == 0 { 100 } else { 900 };
        push(&mut mechanism, timestamp, vec![count, 5, 70], &mut random);
    }
    mechanism
}

#[test]
fn saved_mechanisms_of_version_1_still_load() {
    let mut golden: Vec<String> = serde_json::from_str(include_str!("../golden/central_v1.json")).unwrap();
    golden.push(include_str!("../golden/central_track_v10.txt").trim().to_owned());
    assert_eq!(golden.len(), CentralKind::ALL.len());
    for (hex, kind) in golden.iter().zip(CentralKind::ALL) {
        let mut mechanism = load(&crate::support::bytes(hex));
        let now = save(&mechanism);
        assert_eq!(save(&load(&now)), now, "{kind}");
        assert_eq!(mechanism.kind(), kind);
        push(&mut mechanism, 5, vec![1, 2, 3], &mut SeededRandom::new(9));
    }
}

#[test]
fn states_that_do_not_fit_together_are_not_loaded() {
    for kind in CentralKind::ALL {
        let json = serde_json::to_value(used(kind)).unwrap();
        let refused = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut changed = json.clone();
            change(&mut changed);
            assert_ne!(changed, json);
            serde_json::from_value::<Central>(changed).map(drop).unwrap_err().to_string()
        };
        assert!(serde_json::from_value::<Central>(json.clone()).is_ok());
        assert!(refused(&|state| state["version"] = 9.into()).contains("version 9"));
        assert!(refused(&|state| state["settings"]["domain"] = 4.into()).contains("does not fit"), "{kind}");
        assert!(refused(&|state| state["settings"]["window"] = 7.into()).contains("does not fit"), "{kind}");
        assert!(refused(&|state| state["settings"]["epsilon"] = "2".into()).contains("does not fit"), "{kind}");
        assert!(refused(&|state| state["more"] = 1.into()).contains("more"));
    }
}

#[test]
fn rejects_impossible_tracked_state() {
    let json = serde_json::to_value(used(CentralKind::Track)).unwrap();
    let forged = [
        ("period", 0.into()),
        ("period", 4.into()),
        ("exact", 5.into()),
        ("first", 5.into()),
        ("accounts", serde_json::json!([])),
        ("accounts/0/watch/whole", 1.into()),
        ("accounts/0/main/spent", 1.into()),
        ("accounts/0/reserve/spends", serde_json::json!([[9, 1]])),
        ("estimator/timestamp", 3.into()),
        ("estimator/noise", (-1.0).into()),
        ("estimator/weights", serde_json::json!([1.0])),
        ("estimator/popular", serde_json::json!([])),
        ("estimator/seasons", serde_json::json!([])),
        ("estimator/seasons/0/period", 5.into()),
        ("estimator/seasons/0/scatter/0", (-1.0).into()),
        ("estimator/seasons/1/coefficients", serde_json::json!([])),
        ("estimator/seasons/1/covariance/0", (-1.0).into()),
        ("estimator/bank/unit", 0.0.into()),
        ("estimator/bank/numbers", serde_json::json!([])),
        ("estimator/bank/numbers/0/weights/0", 2.0.into()),
        ("estimator/bank/numbers/0/variances/0", (-1.0).into()),
        ("estimator/bank/numbers/0/covariance/2/12", (-1.0).into()),
        ("total/timestamp", 3.into()),
        ("total/bank/numbers", serde_json::json!([])),
    ];
    for (field, value) in forged {
        let mut changed = json.clone();
        let place = changed.pointer_mut(&format!("/machine/track/scheduler/{field}")).unwrap();
        assert_ne!(*place, value, "{field}");
        *place = value;
        assert!(serde_json::from_value::<Central>(changed).is_err(), "{field}");
    }
}

#[test]
fn memory_does_not_grow_with_time() {
    for kind in CentralKind::ALL {
        let mut mechanism = Central::new(kind, settings("1", 3, 5)).unwrap();
        let (mut random, mut largest_early) = (SeededRandom::new(10), 0);
        for timestamp in 0..2_000 {
            let count = if timestamp % 7 == 0 { 800 } else { 200 };
            push(&mut mechanism, timestamp, vec![count; 5], &mut random);
            let size = save(&mechanism).len();
            if timestamp < 500 {
                largest_early = largest_early.max(size);
            } else {
                assert!(size <= largest_early + 64, "{kind}: {size} bytes at {timestamp}, {largest_early} before");
            }
        }
    }
}
