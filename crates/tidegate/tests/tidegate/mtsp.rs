//! MTSP-LDP: its account under every stream, its trees, what it does where levels are silent, its state.

use std::num::NonZeroU64;

use proptest::prelude::*;
use tidegate::kernel::oracle::{Estimate, OracleKind};
use tidegate::kernel::simulation::{estimate_of, sample_without_replacement};
use tidegate::kernel::{Cohort, Question, SLOTS, SeededRandom, View};
use tidegate::local::mtsp::GroupAverage;
use tidegate::local::{Local, LocalKind, LocalSettings, Step};
use tidegate::release::{Freshness, Release, Statistic};
use tidegate::tree::Tree;

use crate::support::{Asked, repeatable, settings};

const KINDS: [LocalKind; 2] = [LocalKind::Mtsp, LocalKind::MtspPopulation];

fn save(mechanism: &Local) -> Vec<u8> {
    postcard::to_allocvec(mechanism).unwrap()
}

fn load(bytes: &[u8]) -> Local {
    postcard::from_bytes(bytes).unwrap()
}

fn tree(release: &Release) -> &Tree {
    match &release.statistic {
        Statistic::Tree(tree) => tree,
        _ => panic!("a tree is published"),
    }
}

/// What a cohort answers of which so many hold each value; nothing if there is nobody in it.
fn estimate(question: &Question, counts: &[u64], random: &mut SeededRandom) -> Option<Estimate> {
    let mut cells = vec![0; question.cells() as usize];
    for (value, count) in counts.iter().enumerate() {
        cells[question.cell_of(value as u32) as usize] += count;
    }
    (cells.iter().sum::<u64>() > 0).then(|| estimate_of(&question.oracle().unwrap(), &cells, random).unwrap())
}

/// What a cohort answers in which the values are held as in the population, of which so many hold each.
fn respond(question: &Question, counts: &[u64], random: &mut SeededRandom) -> Option<Estimate> {
    let share = |count: &u64| (*count as f64 * question.cohort.share()).round() as u64;
    estimate(question, &counts.iter().map(share).collect::<Vec<_>>(), random)
}

/// Runs one timestamp. Returns the release and the rounds of questions.
fn run_with(
    mechanism: &mut Local,
    timestamp: u64,
    mut respond: impl FnMut(&Question) -> Option<Estimate>,
) -> (Release, Vec<Vec<Question>>) {
    let mut step = mechanism.open(timestamp).unwrap();
    let mut rounds = Vec::new();
    loop {
        match step {
            Step::Done(release) => return (release, rounds),
            Step::Ask(questions) => {
                let answers: Vec<_> = questions.iter().map(&mut respond).collect();
                step = mechanism.answer(&questions, &answers).unwrap();
                rounds.push(questions);
            }
        }
    }
}

fn run(
    mechanism: &mut Local,
    timestamp: u64,
    counts: &[u64],
    random: &mut SeededRandom,
) -> (Release, Vec<Vec<Question>>) {
    run_with(mechanism, timestamp, |question| respond(question, counts, random))
}

#[test]
fn no_window_is_exceeded_under_any_sequence_of_streams() {
    // At each timestamp the stream jumps to any of three places: far, near, or nowhere.
    fn explore(bytes: &[u8], timestamp: u64, asked: &Asked, random: &mut SeededRandom, seen: &mut (u64, u64)) {
        if timestamp == 6 {
            seen.0 += 1;
            seen.1 = seen.1.max(asked.check(load(bytes).settings()));
            return;
        }
        for counts in [[800_000, 100_000, 100_000], [100_000, 800_000, 100_000], [130_000, 770_000, 100_000]] {
            let (mut mechanism, mut asked) = (load(bytes), asked.clone());
            let (_, rounds) = run(&mut mechanism, timestamp, &counts, random);
            rounds.iter().flatten().for_each(|question| asked.note(question));
            explore(&save(&mechanism), timestamp + 1, &asked, random, seen);
        }
    }
    for kind in KINDS {
        for window in 1..=4 {
            let mechanism = Local::new(kind, settings(window, 3)).unwrap();
            let mut seen = (0, 0);
            explore(&save(&mechanism), 0, &Asked::default(), &mut SeededRandom::new(window), &mut seen);
            assert_eq!(seen.0, 3_u64.pow(6));
            assert!(seen.1 > 999_999_900, "{kind} w={window}: the account was never used up: {}", seen.1);
        }
    }
}

proptest! {
    #![proptest_config(repeatable(200))]

    #[test]
    fn any_answers_give_one_release_within_budget(
        population in any::<bool>(),
        median in any::<bool>(),
        reuse in any::<bool>(),
        oracle in proptest::option::of(proptest::sample::select(OracleKind::ALL.to_vec())),
        domain in 2_u32..40,
        window in 1_u64..7,
        steps in proptest::collection::vec((1_u64..4, any::<u64>(), 0_u64..5, 1_u64..3_000), 1..25),
    ) {
        let smoother = if median { GroupAverage::Median } else { GroupAverage::Mean };
        let settings = LocalSettings { reuse, oracle, smoother, ..settings(window, domain) };
        let mut mechanism = Local::new(KINDS[usize::from(population)], settings).unwrap();
        let (mut timestamp, mut asked) = (0, Asked::default());
        for (ahead, seed, silence, users) in steps {
            timestamp += ahead;
            let mut random = SeededRandom::new(seed);
            // Any counts at all, not those of one stream, and some questions without an answer.
            let mut answer = |question: &Question| {
                let cells = u64::from(question.cells());
                let mut counts = vec![0; cells as usize];
                counts[(seed % cells) as usize] = users;
                counts[(seed / 7 % cells) as usize] += seed % 50;
                let silent = silence > 0 && (seed >> question.phase) % 5 < silence;
                (!silent).then(|| estimate_of(&question.oracle().unwrap(), &counts, &mut random).unwrap())
            };
            let mut step = mechanism.open(timestamp).unwrap();
            let (mut rounds, mut reports, mut phases) = (0, 0, Vec::new());
            while let Step::Ask(questions) = step {
                rounds += 1;
                prop_assert!(rounds <= 2);
                for question in &questions {
                    asked.note(question);
                    phases.push(question.phase);
                    prop_assert!(question.cohort.slots() > 0);
                }
                let slots: u32 = questions.iter().map(|question| question.cohort.slots()).sum();
                prop_assert!(slots <= SLOTS);
                let answers: Vec<_> = questions.iter().map(&mut answer).collect();
                reports += answers.iter().flatten().map(Estimate::reports).sum::<u64>();
                step = mechanism.answer(&questions, &answers).unwrap();
            }
            let Step::Done(release) = step else { unreachable!() };
            prop_assert!(phases.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(release.timestamp, timestamp);
            prop_assert_eq!(release.reports, reports);
            prop_assert!(release.freshness != Freshness::Fresh || rounds == 2);
            let tree = tree(&release);
            prop_assert_eq!(tree.domain(), domain as usize);
            prop_assert_eq!(tree.node(0, 0), (1.0, 0.0));
            let (frequencies, variances) = tree.nodes();
            prop_assert!(frequencies.iter().all(|frequency| frequency.is_finite()));
            // Infinite where the drift is not known, because some question had no answer.
            prop_assert!(variances[1..].iter().all(|variance| *variance > 0.0));
        }
        asked.check(&settings);
    }
}

#[test]
fn levels_ask_disjoint_parts_of_everyone() {
    // Eleven values: four levels.
    for kind in KINDS {
        let mut mechanism = Local::new(kind, settings(5, 11)).unwrap();
        let Step::Ask(questions) = mechanism.open(3).unwrap() else { panic!("it begins with questions") };
        let cells: Vec<u32> = questions.iter().map(Question::cells).collect();
        assert_eq!(cells, [2, 3, 6, 11]);
        assert_eq!(questions[1].view, View::Ranges(vec![0, 4, 8]));
        let slots: u32 = questions.iter().map(|question| question.cohort.slots()).sum();
        assert_eq!(slots, if kind == LocalKind::Mtsp { SLOTS } else { SLOTS / 10 });
        for slot in (0..SLOTS).step_by(97) {
            let asked = questions.iter().filter(|question| question.cohort.contains(slot as u16)).count();
            assert!(asked == 1 || (asked == 0 && kind == LocalKind::MtspPopulation));
        }
    }
}

#[test]
fn over_time_every_user_answers_every_level_about_equally_often() {
    let mut mechanism = Local::new(LocalKind::Mtsp, settings(5, 16)).unwrap();
    let mut times = vec![[0_u32; 4]; 64];
    for timestamp in 0..400 {
        let Step::Ask(questions) = mechanism.open(timestamp).unwrap() else { unreachable!() };
        for (slot, times) in times.iter_mut().enumerate() {
            let level = questions.iter().position(|question| question.cohort.contains(slot as u16 * 1_024)).unwrap();
            times[level] += 1;
        }
        mechanism.answer(&questions, &[None, None, None, None]).unwrap();
    }
    assert!(times.iter().flatten().all(|times| (90..=110).contains(times)), "{times:?}");
}

#[test]
fn fresh_release_states_its_true_variance() {
    // The first timestamp is published in every run, since the uniform start is far off, and no inner node is cold.
    // Each cohort is a sample drawn without replacement.
    let counts = [14_000, 600, 2_000, 3_400];
    for kind in KINDS {
        let settings = LocalSettings { population: NonZeroU64::new(20_000).unwrap(), ..settings(2, 4) };
        let (bytes, mut random, runs) = (save(&Local::new(kind, settings).unwrap()), SeededRandom::new(1), 10_000);
        let (mut bias, mut leaf, mut stated, mut inner) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..runs {
            let (release, rounds) = run_with(&mut load(&bytes), 0, |question| {
                let sample = (20_000.0 * question.cohort.share()).round() as u64;
                let drawn = sample_without_replacement(sample, &counts, &mut random).unwrap();
                estimate(question, &drawn, &mut random)
            });
            assert_eq!((release.freshness, rounds.len()), (Freshness::Fresh, 2));
            let (frequency, variance) = tree(&release).node(2, 0);
            bias += frequency - 0.7;
            leaf += (frequency - 0.7) * (frequency - 0.7);
            stated += variance;
            let (frequency, variance) = tree(&release).node(1, 1);
            inner += (frequency - 0.27) * (frequency - 0.27) / variance;
        }
        let runs = f64::from(runs);
        // Standard errors: 1 % of a deviation for the mean, 1.4 %, √(2/10⁴), for mean squares. False alarms: below
        // 1e-6.
        assert!((bias / runs).abs() < 5.0 * (stated / runs / runs).sqrt(), "{kind}: {}", bias / runs);
        assert!((leaf / stated - 1.0).abs() < 0.072, "{kind}: {}", leaf / stated);
        assert!((inner / runs - 1.0).abs() < 0.072, "{kind}: {}", inner / runs);
    }
}

#[test]
fn cold_nodes_are_asked_whole_and_divided_evenly() {
    // Eleven values, all users in the first two: (4-7) and (8-10) hold nobody.
    let mut counts = [0; 11];
    (counts[0], counts[1]) = (600_000, 400_000);
    for kind in KINDS {
        let mut mechanism = Local::new(kind, settings(3, 11)).unwrap();
        let mut random = SeededRandom::new(2);
        let (release, rounds) = run(&mut mechanism, 0, &counts, &mut random);
        assert_eq!(release.freshness, Freshness::Fresh);
        let cells: Vec<u32> = rounds[1].iter().map(Question::cells).collect();
        assert!(cells.iter().sum::<u32>() < 22, "{kind}: nothing was pruned: {cells:?}");
        let tree = tree(&release);
        // (8-10) is closed at level 1 or at level 2, where it is the same node: then each value holds a third of it.
        let (whole, variance) = tree.node(2, 2);
        for value in 8..11 {
            let (frequency, its_variance) = tree.node(4, value);
            assert!((frequency - whole / 3.0).abs() < 1e-12, "{kind}: {frequency} {whole}");
            // How the three really divide it is not known: in the worst case one of them has it all.
            let uneven = (whole.max(0.0).powi(2) + variance) * 2.0 / 9.0;
            assert!((its_variance - variance / 9.0 - uneven).abs() < 1e-12);
        }
        let (pair, _) = tree.node(3, 4);
        assert!((pair - whole * 2.0 / 3.0).abs() < 1e-12);
        assert!((tree.node(4, 0).0 - 0.6).abs() < 0.1 && (tree.node(4, 1).0 - 0.4).abs() < 0.1);
    }
}

#[test]
fn silent_level_keeps_its_published_numbers() {
    let counts = [300_000, 100_000, 400_000, 200_000];
    let mut mechanism = Local::new(LocalKind::Mtsp, settings(1, 4)).unwrap();
    let mut random = SeededRandom::new(3);
    let (before, _) = run(&mut mechanism, 0, &counts, &mut random);
    let before = tree(&before).clone();

    let counts = [100_000, 600_000, 100_000, 200_000];
    let Step::Ask(first) = mechanism.open(1).unwrap() else { unreachable!() };
    let answers: Vec<_> = first.iter().map(|question| respond(question, &counts, &mut random)).collect();
    let Step::Ask(second) = mechanism.answer(&first, &answers).unwrap() else { panic!("a jump is published") };
    assert_eq!(second.iter().map(Question::cells).collect::<Vec<_>>(), [2, 4]);
    let answers = [None, respond(&second[1], &counts, &mut random)];
    let Step::Done(release) = mechanism.answer(&second, &answers).unwrap() else { unreachable!() };
    assert_eq!(release.freshness, Freshness::Fresh);
    let tree = tree(&release);
    for node in 0..2 {
        assert_eq!(tree.node(1, node).0, before.node(1, node).0);
        assert!(tree.node(1, node).1 > before.node(1, node).1 + 0.01, "the drift is in the variance");
    }
    assert!((tree.node(2, 1).0 - 0.6).abs() < 0.1);
}

#[test]
fn silent_level_does_not_stop_a_publication() {
    let counts = [10_000, 10_000, 970_000, 10_000];
    for kind in KINDS {
        for silent in 0..2 {
            let mut mechanism = Local::new(kind, settings(2, 4)).unwrap();
            let mut random = SeededRandom::new(4);
            let Step::Ask(first) = mechanism.open(0).unwrap() else { unreachable!() };
            let mut answers: Vec<_> = first.iter().map(|question| respond(question, &counts, &mut random)).collect();
            answers[silent] = None;
            assert!(matches!(mechanism.answer(&first, &answers), Ok(Step::Ask(_))), "{kind} {silent}");
        }
    }
}

#[test]
fn a_stream_that_stands_still_is_published_seldom_and_averaged() {
    let counts = [400_000, 300_000, 200_000, 100_000];
    for (kind, smoother) in
        KINDS.into_iter().flat_map(|kind| [(kind, GroupAverage::Mean), (kind, GroupAverage::Median)])
    {
        let mut mechanism = Local::new(kind, LocalSettings { smoother, ..settings(10, 4) }).unwrap();
        let mut random = SeededRandom::new(5);
        let (mut fresh, mut errors) = (0, 0.0);
        for timestamp in 0..300 {
            let (release, rounds) = run(&mut mechanism, timestamp, &counts, &mut random);
            fresh += u32::from(rounds.len() == 2);
            if timestamp >= 200 {
                errors += (tree(&release).node(2, 0).0 - 0.4).abs() / 100.0;
            }
        }
        assert!(fresh < 150, "{kind}: {fresh} of 300 were published");
        assert!(errors < 0.05, "{kind} {smoother:?}: {errors}");
    }
}

#[test]
fn using_the_first_round_again_lowers_the_stated_error() {
    let counts = [300_000, 100_000, 400_000, 200_000];
    for kind in KINDS {
        let variance = |reuse: bool| {
            let mut mechanism = Local::new(kind, LocalSettings { reuse, ..settings(2, 4) }).unwrap();
            let (release, rounds) = run(&mut mechanism, 0, &counts, &mut SeededRandom::new(6));
            assert_eq!(rounds.len(), 2);
            tree(&release).node(2, 0).1
        };
        assert!(variance(true) < 0.95 * variance(false), "{kind}: {} {}", variance(true), variance(false));
    }
}

#[test]
fn saved_state_continues_identically_at_any_step() {
    for (kind, smoother) in
        KINDS.into_iter().flat_map(|kind| [(kind, GroupAverage::Mean), (kind, GroupAverage::Median)])
    {
        let settings = LocalSettings { oracle: Some(OracleKind::Oue), reuse: true, smoother, ..settings(3, 13) };
        let first = save(&Local::new(kind, settings).unwrap());
        let drive = |interrupted: bool| {
            let mut mechanism = load(&first);
            let mut random = SeededRandom::new(7);
            let (mut releases, mut fresh) = (Vec::new(), 0);
            for timestamp in 0..40_u64 {
                let counts: Vec<u64> =
                    (0..13).map(|value| 1_000 + (value * (timestamp / 4 + 3)) % 7 * 20_000).collect();
                let mut step = mechanism.open(timestamp).unwrap();
                while let Step::Ask(questions) = step {
                    if interrupted {
                        mechanism = load(&save(&mechanism));
                    }
                    let mut answers: Vec<_> =
                        questions.iter().map(|question| respond(question, &counts, &mut random)).collect();
                    if timestamp % 3 == 1 {
                        answers[0] = None;
                    }
                    step = mechanism.answer(&questions, &answers).unwrap();
                }
                if interrupted {
                    mechanism = load(&save(&mechanism));
                }
                let Step::Done(release) = step else { unreachable!() };
                fresh += u32::from(release.freshness == Freshness::Fresh);
                releases.push(postcard::to_allocvec(&release).unwrap());
            }
            assert!((3..38).contains(&fresh), "{kind}: {fresh} fresh");
            (releases, save(&mechanism))
        };
        assert!(drive(false) == drive(true), "{kind} {smoother:?}");
    }
}

#[test]
fn state_and_releases_can_be_written_as_text() {
    for kind in KINDS {
        let mut mechanism = Local::new(kind, settings(3, 5)).unwrap();
        let mut random = SeededRandom::new(8);
        for timestamp in 0..10 {
            let counts = if timestamp % 4 < 2 { [9_000, 0, 0, 0, 1_000] } else { [0, 5_000, 5_000, 0, 0] };
            let (release, _) = run(&mut mechanism, timestamp, &counts, &mut random);
            let text = serde_json::to_string(&release).unwrap();
            assert_eq!(serde_json::from_str::<Release>(&text).unwrap().timestamp, timestamp);
        }
        let text = serde_json::to_string(&mechanism).unwrap();
        let mut loaded: Local = serde_json::from_str(&text).unwrap();
        assert_eq!(loaded.kind(), kind);
        assert_eq!(loaded.open(10).unwrap(), mechanism.open(10).unwrap());
        // A state of other settings is not believed.
        let wrong = text.replacen("\"domain\":5", "\"domain\":9", 1);
        assert!(serde_json::from_str::<Local>(&wrong).unwrap_err().to_string().contains("does not fit"));
    }
}

#[test]
fn names_and_limits() {
    assert_eq!("mtsp".parse(), Ok(LocalKind::Mtsp));
    assert_eq!("mtsp_population".parse(), Ok(LocalKind::MtspPopulation));
    let text = r#"{"epsilon": "1", "window": 5, "domain": 4, "population": 100}"#;
    assert_eq!(serde_json::from_str::<LocalSettings>(text).unwrap().smoother, GroupAverage::Mean);
    // Every level needs a slot at every timestamp: with 4 levels, windows up to 2^16 / 8.
    let new = |window| Local::new(LocalKind::MtspPopulation, settings(window, 16)).map(drop);
    assert!(new(u64::from(SLOTS) / 8).is_ok());
    let message = "a window of 8193 is longer than 8192, into which the population's slots can be divided";
    assert_eq!(new(u64::from(SLOTS) / 8 + 1).unwrap_err().to_string(), message);
    assert!(Cohort::Everyone.split(4, 0).iter().all(|part| part.slots() == SLOTS / 4));
}

/// The root mean squared error of ranges of all widths, over a hill of 256 values that moves slowly to and fro, seen by
/// 100,000 users at epsilon 1 and a window of 20; the first two windows are left out.
fn error_of_ranges(kind: LocalKind) -> f64 {
    let (users, domain) = (100_000.0, 256_u32);
    let population = NonZeroU64::new(users as u64).unwrap();
    let settings = LocalSettings { population, oracle: Some(OracleKind::Oue), ..settings(20, domain) };
    let (mut mechanism, mut random) = (Local::new(kind, settings).unwrap(), SeededRandom::new(9));
    let (mut squares, mut ranges) = (0.0, 0.0);
    for timestamp in 0..160_u32 {
        let centre = 0.5 + 0.3 * (f64::from(timestamp) / 60.0).sin();
        let height = |value: u32| 0.01 + (-((f64::from(value) + 0.5) / 256.0 - centre).powi(2) / 0.02).exp();
        let total: f64 = (0..domain).map(height).sum();
        let counts: Vec<u64> = (0..domain).map(|value| (users * height(value) / total) as u64).collect();
        let (release, _) = run_with(&mut mechanism, u64::from(timestamp), |question| {
            let sample = (counts.iter().sum::<u64>() as f64 * question.cohort.share()).round() as u64;
            let drawn = sample_without_replacement(sample, &counts, &mut random).unwrap();
            estimate(question, &drawn, &mut random)
        });
        for index in 0..if timestamp < 40 { 0 } else { 20 } {
            let (a, b) = ((timestamp * 7 + index * 13) % domain, (timestamp * 11 + index * 29) % domain);
            let (first, last) = (a.min(b), a.max(b));
            let truth = (first..=last).map(|value| height(value) / total).sum::<f64>();
            let found: f64 = match &release.statistic {
                Statistic::Tree(tree) => tree.shape().cover(first, last).iter().map(|n| tree.node(n.0, n.1).0).sum(),
                other => other.leaves().0[first as usize..=last as usize].iter().sum(),
            };
            squares += (found - truth) * (found - truth);
            ranges += 1.0;
        }
    }
    f64::sqrt(squares / ranges)
}

#[test]
fn tree_ranges_beat_histogram_sums_on_wide_domains() {
    let (mtsp, population) = (error_of_ranges(LocalKind::Mtsp), error_of_ranges(LocalKind::MtspPopulation));
    for (kind, tree) in
        [(LocalKind::Lbu, mtsp), (LocalKind::Lba, mtsp), (LocalKind::Lpu, population), (LocalKind::Lpa, population)]
    {
        let histogram = error_of_ranges(kind);
        println!("{kind} {histogram:.3}, trees {tree:.3}");
        assert!(tree < 0.7 * histogram, "{kind}: {tree} {histogram}");
    }
}
