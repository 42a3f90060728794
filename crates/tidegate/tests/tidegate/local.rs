//! The mechanisms of LDP-IDS: their accounts under every sequence of decisions, their state, their errors.

use tidegate::kernel::oracle::{Estimate, OracleKind};
use tidegate::kernel::simulation::estimate_of;
use tidegate::kernel::{Epsilon, Question, SLOTS, SeededRandom};
use tidegate::local::{Local, LocalError, LocalKind, LocalSettings, Step};
use tidegate::release::{Freshness, Release};

use crate::support::{Asked, bytes, hex, settings};

const ADAPTIVE: [LocalKind; 4] = [LocalKind::Lbd, LocalKind::Lba, LocalKind::Lpd, LocalKind::Lpa];

fn save(mechanism: &Local) -> Vec<u8> {
    postcard::to_allocvec(mechanism).unwrap()
}

fn load(bytes: &[u8]) -> Local {
    postcard::from_bytes(bytes).unwrap()
}

/// What a population of a million, of which a share holds value 1, answers.
fn estimate(question: &Question, share_of_ones: f64, random: &mut SeededRandom) -> Option<Estimate> {
    let users = 1e6 * question.cohort.share();
    let ones = (users * share_of_ones).round() as u64;
    let mut counts = vec![0; question.cells() as usize];
    counts[question.cell_of(1) as usize] += ones;
    counts[question.cell_of(0) as usize] += users.round() as u64 - ones;
    Some(estimate_of(&question.oracle().unwrap(), &counts, random).unwrap())
}

/// Runs one timestamp; answers with a share of ones. Returns the release and whether a second question was put.
fn run(
    mechanism: &mut Local,
    timestamp: u64,
    share_of_ones: f64,
    asked: &mut Asked,
    random: &mut SeededRandom,
) -> (Release, bool) {
    let mut step = mechanism.open(timestamp).unwrap();
    let mut rounds = 0;
    loop {
        match step {
            Step::Done(release) => return (release, rounds > 1),
            Step::Ask(questions) => {
                rounds += 1;
                questions.iter().for_each(|question| asked.note(question));
                let answers: Vec<_> =
                    questions.iter().map(|question| estimate(question, share_of_ones, random)).collect();
                step = mechanism.answer(&questions, &answers).unwrap();
            }
        }
    }
}

#[test]
fn no_window_is_exceeded_under_any_sequence_of_decisions() {
    // At each timestamp both decisions are explored wherever the account leaves the choice: the stream jumps or stays
    // until the mechanism decides as wanted, each try from the saved state.
    fn explore(bytes: &[u8], timestamp: u64, end: u64, asked: &Asked, random: &mut SeededRandom, seen: &mut [u64; 2]) {
        if timestamp == end {
            seen[0] += 1;
            let mechanism = load(bytes);
            seen[1] = seen[1].max(asked.check(mechanism.settings()));
            return;
        }
        for publish in [false, true] {
            for attempt in 0..60 {
                let mut mechanism = load(bytes);
                let mut asked = asked.clone();
                // Staying is tried at both ends, since it is not known here which of them was released last.
                let share = if attempt % 2 == 0 { 0.1 } else { 0.9 };
                let (_, published) = run(&mut mechanism, timestamp, share, &mut asked, random);
                if published == publish {
                    explore(&save(&mechanism), timestamp + 1, end, &asked, random, seen);
                    break;
                }
            }
        }
    }
    for kind in ADAPTIVE {
        for window in 1..=4 {
            let mechanism = Local::new(kind, settings(window, 2)).unwrap();
            let mut seen = [0; 2];
            explore(&save(&mechanism), 1, 8, &Asked::default(), &mut SeededRandom::new(window), &mut seen);
            assert!(seen[0] >= 8, "{kind} w={window}: only {} sequences", seen[0]);
            if matches!(kind, LocalKind::Lba) {
                // Absorption can use up all of it, but for the rounding of shares.
                assert!(seen[1] > 999_999_900, "{kind} w={window}: {}", seen[1]);
            }
        }
    }
}

#[test]
fn fixed_mechanisms_use_the_whole_window_and_no_more() {
    for kind in [LocalKind::Lbu, LocalKind::Lsp, LocalKind::Lpu] {
        for window in [1, 2, 7] {
            let mut mechanism = Local::new(kind, settings(window, 3)).unwrap();
            let (mut asked, mut random) = (Asked::default(), SeededRandom::new(1));
            for timestamp in 0..40 {
                let (release, _) = run(&mut mechanism, timestamp, 0.3, &mut asked, &mut random);
                let fresh = kind != LocalKind::Lsp || timestamp % window == 0;
                assert_eq!(release.freshness == Freshness::Fresh, fresh);
            }
            let largest = asked.check(mechanism.settings());
            if kind != LocalKind::Lpu {
                assert!(largest > 999_999_900, "{kind} w={window}: {largest}");
            }
        }
    }
}

#[test]
fn timestamps_may_be_left_out_and_the_account_still_holds() {
    for kind in LocalKind::ALL {
        let mut mechanism = Local::new(kind, settings(4, 2)).unwrap();
        let (mut asked, mut random) = (Asked::default(), SeededRandom::new(2));
        for (index, timestamp) in [3, 4, 9, 10, 11, 13, 40, 41, 42, 43, 1_000, 1_002].into_iter().enumerate() {
            let share = if index % 2 == 0 { 0.1 } else { 0.9 };
            assert_eq!(run(&mut mechanism, timestamp, share, &mut asked, &mut random).0.timestamp, timestamp);
        }
        asked.check(mechanism.settings());
    }
}

#[test]
fn saved_state_continues_identically_at_any_step() {
    for kind in LocalKind::ALL {
        let drive = |interrupted: bool| {
            let mut mechanism = Local::new(kind, LocalSettings { reuse: true, ..settings(3, 4) }).unwrap();
            let mut random = SeededRandom::new(3);
            let mut releases = Vec::new();
            for timestamp in 0..30 {
                let mut step = mechanism.open(timestamp).unwrap();
                while let Step::Ask(questions) = step {
                    if interrupted {
                        mechanism = load(&save(&mechanism));
                        mechanism = serde_json::from_str(&serde_json::to_string(&mechanism).unwrap()).unwrap();
                    }
                    let share = if timestamp % 5 == 0 { 0.8 } else { 0.2 };
                    let answers: Vec<_> =
                        questions.iter().map(|question| estimate(question, share, &mut random)).collect();
                    step = mechanism.answer(&questions, &answers).unwrap();
                }
                let Step::Done(release) = step else { unreachable!() };
                releases.push(postcard::to_allocvec(&release).unwrap());
                if interrupted {
                    mechanism = load(&save(&mechanism));
                }
            }
            releases
        };
        assert_eq!(drive(false), drive(true), "{kind}");
    }
}

#[test]
fn where_nobody_answers_the_last_release_stands() {
    // But for `track`, which goes on as it believes that the stream does.
    for kind in LocalKind::ALL.into_iter().filter(|kind| *kind != LocalKind::Track) {
        let mut mechanism = Local::new(kind, settings(3, 2)).unwrap();
        let (mut asked, mut random) = (Asked::default(), SeededRandom::new(4));
        let (before, _) = run(&mut mechanism, 0, 0.7, &mut asked, &mut random);
        for timestamp in 1..6 {
            let mut step = mechanism.open(timestamp).unwrap();
            while let Step::Ask(questions) = step {
                step = mechanism.answer(&questions, &vec![None; questions.len()]).unwrap();
            }
            let Step::Done(release) = step else { unreachable!() };
            assert_eq!(release.statistic.leaves().0, before.statistic.leaves().0, "{kind}");
            assert_ne!(release.freshness, Freshness::Fresh);
            assert_eq!(release.reports, 0);
        }
    }
}

#[test]
fn a_population_that_shrinks_is_noticed() {
    // A tenth of the users is left: the stated variance of a fresh release grows tenfold.
    let mut mechanism = Local::new(LocalKind::Lpu, settings(5, 2)).unwrap();
    let mut random = SeededRandom::new(5);
    let mut variance = |mechanism: &mut Local, timestamp: u64, counts: [u64; 2]| {
        let Step::Ask(questions) = mechanism.open(timestamp).unwrap() else { unreachable!() };
        let answer = estimate_of(&questions[0].oracle().unwrap(), &counts, &mut random).unwrap();
        let Step::Done(release) = mechanism.answer(&questions, &[Some(answer)]).unwrap() else { unreachable!() };
        release.statistic.leaves().1[0]
    };
    let (many, few) = (variance(&mut mechanism, 0, [100_000, 50_000]), variance(&mut mechanism, 1, [10_000, 5_000]));
    assert!((few / many - 10.0).abs() < 0.5, "{many} {few}");
}

#[test]
fn bad_settings_and_calls_are_refused_with_what_is_allowed() {
    let new = |kind, settings| Local::new(kind, settings).map(drop).unwrap_err().to_string();
    assert_eq!(new(LocalKind::Lbu, settings(5, 1)), "a domain of 1 values is outside 2..=16777216");
    let too_much = LocalSettings { epsilon: "21".parse().unwrap(), ..settings(5, 2) };
    assert_eq!(new(LocalKind::Lpa, too_much), "epsilon 21 over a window of 5 leaves shares outside 0.000000001..=20");
    let too_long = settings(u64::from(SLOTS), 2);
    let message = "a window of 65536 is longer than 32768, into which the population's slots can be divided";
    assert_eq!(new(LocalKind::Lpd, too_long), message);
    let thin = LocalSettings { epsilon: Epsilon::MIN, ..settings(5, 2) };
    assert!(new(LocalKind::Lba, thin).contains("leaves shares outside"));
    assert!("lbx".parse::<LocalKind>().unwrap_err().to_string().contains("lpa"));

    let mut mechanism = Local::new(LocalKind::Lba, settings(5, 2)).unwrap();
    assert_eq!(mechanism.answer(&[], &[None]).unwrap_err(), LocalError::Unasked);
    let Step::Ask(questions) = mechanism.open(7).unwrap() else { unreachable!() };
    assert_eq!(mechanism.open(8).unwrap_err(), LocalError::Unanswered { open: 7 });
    assert!(matches!(mechanism.answer(&questions, &[None, None]).unwrap_err(), LocalError::Answer { .. }));
    let wider = Question { domain: 3, ..questions[0].clone() };
    let wrong = estimate(&wider, 0.5, &mut SeededRandom::new(6));
    assert!(matches!(mechanism.answer(&questions, &[wrong]).unwrap_err(), LocalError::Answer { .. }));
    assert_eq!(mechanism.open_questions(), questions);
    let earlier = Question { timestamp: 6, ..questions[0].clone() };
    let error = mechanism.answer(&[earlier], &[None]).unwrap_err().to_string();
    assert_eq!(error, "phase 0 of timestamp 6 does not answer what was asked: phase 0 of timestamp 7 is open");
    assert!(mechanism.answer(&questions, &[None]).is_ok());
    assert_eq!(mechanism.open(7).unwrap_err(), LocalError::Time { given: 7, last: 7 });
}

#[test]
fn an_oracle_that_is_asked_for_is_used() {
    for oracle in OracleKind::ALL {
        let chosen = LocalSettings { oracle: Some(oracle), ..settings(5, 6) };
        let mut mechanism = Local::new(LocalKind::Lbd, chosen).unwrap();
        let Step::Ask(questions) = mechanism.open(0).unwrap() else { unreachable!() };
        assert_eq!(questions[0].oracle, oracle);
    }
}

#[test]
fn the_dissimilarity_decides_as_the_stream_does() {
    // A population of a million sees a jump at once, and lets a constant stream stand most of the time.
    for kind in ADAPTIVE {
        let mut mechanism = Local::new(kind, settings(20, 2)).unwrap();
        let (mut asked, mut random) = (Asked::default(), SeededRandom::new(7));
        let mut fresh = 0;
        for timestamp in 0..200 {
            let share = if timestamp < 100 { 0.2 } else { 0.6 };
            let (release, published) = run(&mut mechanism, timestamp, share, &mut asked, &mut random);
            if (1..100).contains(&timestamp) {
                fresh += u32::from(published);
            }
            if timestamp == 119 {
                assert!((release.statistic.leaves().0[1] - 0.6).abs() < 0.2, "{kind}");
            }
        }
        assert!(fresh < 60, "{kind}: {fresh} of 99 were published");
    }
}

/// A state in mid-window, for each mechanism.
fn used(kind: LocalKind) -> Local {
    let mut mechanism = Local::new(kind, settings(3, 3)).unwrap();
    let (mut asked, mut random) = (Asked::default(), SeededRandom::new(8));
    for timestamp in 0..5 {
        let share = if timestamp % 2 == 0 { 0.1 } else { 0.9 };
        run(&mut mechanism, timestamp, share, &mut asked, &mut random);
    }
    mechanism
}

#[test]
fn saved_mechanisms_of_version_1_still_load() {
    let mut golden: Vec<String> = serde_json::from_str(include_str!("../golden/local_v1.json")).unwrap();
    golden.push(include_str!("../golden/local_track_v8.txt").trim().to_owned());
    let loaded: Vec<LocalKind> = golden.iter().map(|hex| load(&bytes(hex)).kind()).collect();
    let now: Vec<String> = LocalKind::ALL.into_iter().map(|kind| hex(&save(&used(kind)))).collect();
    assert_eq!(loaded, LocalKind::ALL, "{}", serde_json::to_string_pretty(&now).unwrap());
    for (hex, kind) in golden.iter().zip(LocalKind::ALL) {
        // What was loaded goes on: it knows its last timestamp, and opens the next.
        let mut mechanism = load(&bytes(hex));
        assert_eq!(mechanism.open(4).unwrap_err(), LocalError::Time { given: 4, last: 4 }, "{kind}");
        assert!(mechanism.open(5).is_ok(), "{kind}");
    }
}

#[test]
fn states_that_do_not_fit_together_are_not_loaded() {
    for kind in LocalKind::ALL {
        let json = serde_json::to_value(used(kind)).unwrap();
        let refused = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut changed = json.clone();
            change(&mut changed);
            assert_ne!(changed, json);
            serde_json::from_value::<Local>(changed).map(drop).unwrap_err().to_string()
        };
        assert!(serde_json::from_value::<Local>(json.clone()).is_ok());
        assert!(refused(&|state| state["version"] = 9.into()).contains("version 9"));
        assert!(refused(&|state| state["settings"]["domain"] = 4.into()).contains("does not fit"), "{kind}");
        assert!(refused(&|state| state["settings"]["window"] = 7.into()).contains("does not fit"), "{kind}");
        assert!(refused(&|state| state["more"] = 1.into()).contains("more"));
        // Only the division of the budget keeps an account of it; cohorts spend all of it at once.
        let budget = [LocalKind::Lbu, LocalKind::Lsp, LocalKind::Lbd, LocalKind::Lba, LocalKind::Mtsp];
        if budget.contains(&kind) {
            assert!(refused(&|state| state["settings"]["epsilon"] = "2".into()).contains("does not fit"), "{kind}");
        }
    }
    let greedy = r#"{"window":3,"next":0,"handed_out":[[1,60000],[2,60000]]}"#;
    assert!(serde_json::from_str::<tidegate::local::slots::Slots>(greedy).is_err());
}

#[test]
fn memory_does_not_grow_with_time() {
    // All of the state is saved, so its size is what a mechanism holds. Windows are full after 3 timestamps.
    for kind in LocalKind::ALL {
        let mut mechanism = Local::new(kind, settings(3, 5)).unwrap();
        let (mut random, mut largest_early) = (SeededRandom::new(9), 0);
        for timestamp in 0..3_000 {
            let share = if timestamp % 7 == 0 { 0.8 } else { 0.2 };
            run(&mut mechanism, timestamp, share, &mut Asked::default(), &mut random);
            let size = save(&mechanism).len();
            if timestamp < 500 {
                largest_early = largest_early.max(size);
            } else {
                // Numbers of timestamps take a byte or two more to write as they grow.
                assert!(size <= largest_early + 64, "{kind}: {size} bytes at {timestamp}, {largest_early} before");
            }
        }
    }
}
