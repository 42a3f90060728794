//! Sequence mechanisms: what each gives away, exactly, and that what is released follows from that; and the published
//! closed form, and by how much it misses its claim.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate::kernel::{Epsilon, Randomness, SeededRandom};
use tidegate::sequence::baseline::BaselineKind;
use tidegate::sequence::leakage::{Exact, exact};
use tidegate::sequence::model::Model;
use tidegate::sequence::{batched, crr, hamming};
use tidegate_lab::SymbolStream;
use tidegate_lab::experiment::{OnSymbols, RunError, Subject, TrialSettings};
use tidegate_lab::sequence::noise::{Answers, TwoSteps};
use tidegate_lab::sequence::{
    SUPPORT, SequenceSubject, SymbolDistance, batched_settings, learn, paper_crr_not_private,
};
use tidegate_lab::stream::Space;

use crate::chi_square::{assert_fits, assert_rejects};

fn unit(random: &mut SeededRandom) -> f64 {
    (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64
}

/// What one step gives away.
fn of_one_step(belief: &[f64], epsilon: f64) -> Exact {
    let model = Model::dense(belief.to_vec(), belief.repeat(belief.len())).unwrap();
    exact(&model, 1, 1, |_, belief| Ok::<_, String>(paper_crr_not_private(belief, epsilon))).unwrap()
}

#[test]
fn the_published_closed_form_exceeds_its_epsilon() {
    for (belief, epsilon, sequence, local) in [
        (vec![0.1, 0.9], 1.0, 1.9005, 2.9005),
        (vec![0.25; 4], 1.0, 1.0635, 2.0635),
        (vec![0.2; 5], 1.0, 1.2609, 2.2609),
        (vec![0.5, 0.3, 0.2], 0.5, 0.9454, 1.4454),
        // Enough belief in each symbol: there it holds.
        (vec![0.3, 0.7], 1.0, 1.0, 1.9062),
    ] {
        let leakage = of_one_step(&belief, epsilon);
        assert!((leakage.sequence - sequence).abs() < 5e-5, "{belief:?} {leakage:?}");
        assert!((leakage.local - local).abs() < 5e-5, "{belief:?} {leakage:?}");
    }
    // A symbol that is believed impossible is revealed.
    assert_eq!(of_one_step(&[0.5, 0.5, 0.0], 1.0).local, f64::INFINITY);
}

#[test]
fn the_published_closed_form_fails_on_most_beliefs_and_the_corrected_one_on_none() {
    let random = &mut SeededRandom::new(650);
    let (mut failures, cases) = (0, 3_000);
    for case in 0..cases {
        let (domain, epsilon) = (2 + case % 9, [0.5, 1.0, 2.0][case / 9 % 3]);
        // Uniformly distributed over all beliefs.
        let mut belief: Vec<f64> = (0..domain).map(|_| -(1.0 - unit(random)).ln()).collect();
        let sum: f64 = belief.iter().sum();
        belief.iter_mut().for_each(|weight| *weight /= sum);
        failures += usize::from(of_one_step(&belief, epsilon).sequence > epsilon + 1e-9);
        let corrected = hamming::channel(&belief, format!("{epsilon}").parse().unwrap()).unwrap();
        assert!(corrected.leakage(&belief).unwrap().largest() <= epsilon + 1e-9);
    }
    let share = failures as f64 / cases as f64;
    assert!((share - 0.92).abs() < 0.02, "{share}");
}

#[test]
fn over_a_sequence_the_excess_adds_up() {
    let model = Model::dense(vec![0.6, 0.3, 0.1], vec![0.8, 0.15, 0.05, 0.1, 0.8, 0.1, 0.05, 0.15, 0.8]).unwrap();
    let paper = exact(&model, 1, 3, |_, belief| Ok::<_, String>(paper_crr_not_private(belief, 0.5))).unwrap();
    let half = "0.5".parse().unwrap();
    let corrected =
        exact(&model, 1, 3, |_, belief| hamming::channel(belief, half).map(|channel| channel.dense())).unwrap();
    assert!(paper.sequence > 2.0 * 1.5 && paper.local > 3.0, "{paper:?}");
    assert!(corrected.sequence <= 1.5 + 1e-9 && corrected.local <= 3.0 + 1e-9, "{corrected:?}");
}

/// For each symbol or batch, the probability of each answer of a subject, given what is believed of it.
fn matrix(subject: SequenceSubject, domain: u32, batch: u32, epsilon: Epsilon, belief: &[f64]) -> Vec<Vec<f64>> {
    match subject {
        SequenceSubject::Crr => hamming::channel(belief, epsilon).unwrap().dense(),
        SequenceSubject::CrrRobust => hamming::channel(belief, epsilon.divided_by(2).unwrap()).unwrap().dense(),
        SequenceSubject::Batched => {
            let settings = batched_settings(domain, batch, &crr::CrrSettings::new(epsilon)).unwrap();
            let crr::CrrSettings { epsilon, distance, effort, .. } = settings.batch;
            batched::channel(belief, domain, batch, epsilon, &distance, effort).unwrap().dense()
        }
        SequenceSubject::Baseline(kind) => without_model(kind, domain, epsilon.as_f64()),
        SequenceSubject::PaperCrrNotPrivate => paper_crr_not_private(belief, epsilon.as_f64()),
    }
}

/// Randomised response, or unary encoding decoded to a symbol, from their definitions.
fn without_model(kind: BaselineKind, domain: u32, epsilon: f64) -> Vec<Vec<f64>> {
    let others = f64::from(domain - 1);
    let right = match kind {
        BaselineKind::Rr => epsilon.exp() / (epsilon.exp() + others),
        BaselineKind::Oue => {
            // The own bit is set half of the time, each other with probability q; one of those that are set is drawn,
            // or any.
            let q = 1.0 / (epsilon.exp() + 1.0);
            let mut right = 0.5 * (1.0 - q).powf(others) / f64::from(domain);
            let mut ways = (1.0 - q).powf(others);
            for set in 0..domain {
                right += 0.5 * ways / f64::from(set + 1);
                ways *= f64::from(domain - 1 - set) / f64::from(set + 1) * q / (1.0 - q);
            }
            right
        }
    };
    let entry = |x, y| if x == y { right } else { (1.0 - right) / others };
    (0..domain).map(|x| (0..domain).map(|y| entry(x, y)).collect()).collect()
}

const SUBJECTS: [SequenceSubject; 5] = [
    SequenceSubject::Crr,
    SequenceSubject::CrrRobust,
    SequenceSubject::Batched,
    SequenceSubject::Baseline(BaselineKind::Rr),
    SequenceSubject::Baseline(BaselineKind::Oue),
];

/// How many symbols a subject answers at once, where batches have two.
fn together(subject: SequenceSubject) -> u32 {
    if subject == SequenceSubject::Batched { 2 } else { 1 }
}

fn leakage(subject: SequenceSubject, model: &Model, length: u32, epsilon: Epsilon) -> Exact {
    let (domain, batch) = (model.domain(), together(subject));
    exact(model, batch, length / batch, |_, belief| Ok::<_, String>(matrix(subject, domain, batch, epsilon, belief)))
        .unwrap()
}

#[test]
fn no_subject_gives_away_more_than_it_claims() {
    let chains = [
        Model::dense(vec![0.5; 2], vec![0.5; 4]).unwrap(),
        Model::dense(vec![0.1, 0.9], vec![0.9, 0.1, 0.1, 0.9]).unwrap(),
        Model::dense(vec![0.6, 0.3, 0.1], vec![0.8, 0.15, 0.05, 0.1, 0.8, 0.1, 0.05, 0.15, 0.8]).unwrap(),
    ];
    for model in &chains {
        for epsilon in ["0.25", "1", "2"] {
            let epsilon: Epsilon = epsilon.parse().unwrap();
            for subject in SUBJECTS {
                let length = 4;
                let total = f64::from(length) * epsilon.as_f64();
                let (sequence, local) = match subject {
                    SequenceSubject::CrrRobust => (total / 2.0, total),
                    SequenceSubject::Baseline(_) => (total, total),
                    _ => (total, 2.0 * total),
                };
                let leakage = leakage(subject, model, length, epsilon);
                let name = subject.name();
                assert!(leakage.sequence <= sequence + 1e-9, "{name} at {epsilon}: {leakage:?}");
                assert!(leakage.local <= local + 1e-9, "{name} at {epsilon}: {leakage:?}");
                let each = f64::from(together(subject)) * sequence / f64::from(length);
                assert!(leakage.steps.iter().all(|step| *step <= each + 1e-9), "{name} at {epsilon}: {leakage:?}");
            }
        }
    }
}

#[test]
fn on_the_chains_of_the_study_leakages_are_what_another_program_computes() {
    let even = Model::dense(vec![0.5; 2], vec![0.5; 4]).unwrap();
    let sticky = Model::dense(vec![0.1, 0.9], vec![0.9, 0.1, 0.1, 0.9]).unwrap();
    let rr = SequenceSubject::Baseline(BaselineKind::Rr);
    let (crr, paper) = (SequenceSubject::Crr, SequenceSubject::PaperCrrNotPrivate);
    // Six symbols: of the whole sequence, of the worst step, and of local privacy.
    for (model, subject, epsilon, expected) in [
        (&even, rr, "1", [3.7207, 0.6201, 6.0]),
        (&even, crr, "1", [6.0, 1.0, 8.9393]),
        (&even, paper, "1", [6.0, 1.0, 8.9393]),
        (&sticky, rr, "0.5", [2.5805, 0.4599, 3.0]),
        (&sticky, crr, "0.5", [0.8982, 0.5, 1.7823]),
        (&sticky, paper, "0.5", [3.8195, 1.5132, 6.8195]),
        (&sticky, rr, "1", [5.4611, 0.9347, 6.0]),
        (&sticky, crr, "1", [3.8087, 1.0, 7.3666]),
        (&sticky, paper, "1", [6.2550, 1.9005, 12.2550]),
        (&sticky, rr, "2", [11.3944, 1.9096, 12.0]),
        (&sticky, crr, "2", [12.0, 2.0, 20.5990]),
        (&sticky, paper, "2", [12.0, 2.1727, 21.9061]),
    ] {
        let leakage = leakage(subject, model, 6, epsilon.parse().unwrap());
        let worst = leakage.steps.iter().copied().fold(0.0, f64::max);
        for (given, expected) in [leakage.sequence, worst, leakage.local].into_iter().zip(expected) {
            assert!((given - expected).abs() < 1e-4, "{} at {epsilon}: {leakage:?}", subject.name());
        }
    }
}

/// Users of three symbols, three timestamps each, more of some sequences than of others.
fn many_users() -> SymbolStream {
    let random = &mut SeededRandom::new(651);
    let next = |before: u32, random: &mut SeededRandom| {
        let stays = unit(random) < 0.6;
        if stays { before } else { (unit(random) * 3.0) as u32 }
    };
    let sequence = |_| {
        let first = [0, 0, 1, 2][(unit(random) * 4.0) as usize];
        let second = next(first, random);
        vec![first, second, next(second, random)]
    };
    SymbolStream::new("users", Space::Line { symbols: 3 }, (0..60_000).map(sequence).collect()).unwrap()
}

/// The probability of each released sequence, for one true sequence of three symbols over a domain of three.
fn released(subject: SequenceSubject, model: &Model, epsilon: Epsilon, truth: &[u32]) -> Vec<f64> {
    let number = |symbols: &[u32]| symbols.iter().fold(0, |number, symbol| number * 3 + *symbol as usize);
    let mut paths = vec![(1.0, Vec::new())];
    let lengths = if together(subject) == 2 { vec![2, 1] } else { vec![1; 3] };
    for (at, length) in lengths.iter().scan(0, |at, length| Some((std::mem::replace(at, *at + length), *length))) {
        let mut longer = Vec::new();
        for (probability, answers) in paths {
            let belief = believed(subject, model, epsilon, &answers, length);
            let rows = matrix(subject, 3, length as u32, epsilon, &belief);
            let row = &rows[number(&truth[at..at + length])];
            // What is never answered leads to no belief.
            for (answer, share) in row.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let mut answers = answers.clone();
                answers.extend((0..length).rev().map(|place| (answer / 3_usize.pow(place as u32) % 3) as u32));
                longer.push((probability * share, answers));
            }
        }
        paths = longer;
    }
    let mut weights = vec![0.0; 27];
    paths.iter().for_each(|(probability, answers)| weights[number(answers)] += probability);
    weights
}

/// What is believed of the next symbols after some answers, by enumeration of all sequences.
fn believed(subject: SequenceSubject, model: &Model, epsilon: Epsilon, answers: &[u32], next: usize) -> Vec<f64> {
    let step = together(subject) as usize;
    let number = |symbols: &[u32]| symbols.iter().fold(0, |number, symbol| number * 3 + *symbol as usize);
    let earlier = |at: usize| {
        let before = believed(subject, model, epsilon, &answers[..at], step);
        (at, matrix(subject, 3, step as u32, epsilon, &before))
    };
    let earlier: Vec<_> = (0..answers.len()).step_by(step).map(earlier).collect();
    let length = answers.len() + next;
    let mut belief = vec![0.0; 3_usize.pow(next as u32)];
    for code in 0..3_usize.pow(length as u32) {
        let symbols: Vec<u32> = (0..length).rev().map(|place| (code / 3_usize.pow(place as u32) % 3) as u32).collect();
        let mut weight = model.prior()[symbols[0] as usize];
        weight *= symbols.windows(2).map(|pair| model.transition(None, pair[0], pair[1])).product::<f64>();
        for (at, rows) in &earlier {
            let steps = *at..at + step;
            weight *= rows[number(&symbols[steps.clone()])][number(&answers[steps])];
        }
        belief[code % 3_usize.pow(next as u32)] += weight;
    }
    let sum: f64 = belief.iter().sum();
    belief.iter().map(|weight| weight / sum).collect()
}

#[test]
fn what_subjects_release_has_the_distribution_that_was_accounted_for() {
    let stream = many_users();
    let (epsilon, wrong): (Epsilon, Epsilon) = ("2".parse().unwrap(), "2.2".parse().unwrap());
    let settings = TrialSettings::new(epsilon, NonZeroU64::MIN);
    let model = learn(&stream, 1).unwrap();
    for subject in SUBJECTS.into_iter().chain([SequenceSubject::PaperCrrNotPrivate]) {
        let outcome = subject.run(&stream, &settings, &mut SeededRandom::new(652)).unwrap();
        // Some true sequences with all released ones, in one check: false-alarm probability 1e-6.
        let (mut observed, mut expected, mut wrongly) = (Vec::new(), Vec::new(), Vec::new());
        for truth in [[0, 0, 0], [1, 1, 1], [2, 2, 2], [0, 0, 1], [1, 1, 0], [0, 1, 1], [2, 0, 0]] {
            let mut counts = vec![0_u64; 27];
            for (user, answers) in stream.sequences().iter().zip(&outcome.sequences) {
                if **user == truth {
                    counts[answers.iter().fold(0, |number, symbol| number * 3 + *symbol as usize)] += 1;
                }
            }
            let users: u64 = counts.iter().sum();
            observed.extend(counts);
            let scaled = |epsilon| released(subject, &model, epsilon, &truth).into_iter().map(|p| p * users as f64);
            expected.extend(scaled(epsilon));
            wrongly.extend(scaled(wrong));
        }
        assert_fits(&observed, &expected);
        assert_rejects(&observed, &wrongly);
    }
}

#[test]
fn other_distances_of_a_grid_are_refused() {
    let grid = Space::Grid { columns: 20, rows: 20 };
    let stream = SymbolStream::new("gaze", grid, vec![vec![0, 21, 42, 42]; 3]).unwrap();
    let settings = TrialSettings::new("1".parse().unwrap(), NonZeroU64::MIN);
    let run = |subject: SequenceSubject, settings: &TrialSettings| {
        subject.run(&stream, settings, &mut SeededRandom::new(653)).map(|outcome| outcome.sequences)
    };
    let refused = |subject, settings: &TrialSettings| match run(subject, settings) {
        Err(RunError::Unsupported(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let squared = TrialSettings { distance: SymbolDistance::Squared, ..settings.clone() };
    assert!(refused(SequenceSubject::Crr, &squared).contains("grid"));
    assert!(refused(SequenceSubject::Crr, &TrialSettings { order: 3, ..settings.clone() }).contains("order 3"));
    let absolute = TrialSettings { distance: SymbolDistance::Absolute, ..settings };
    assert_eq!(run(SequenceSubject::Crr, &absolute).unwrap().len(), 3);
}

#[test]
fn batches_over_large_domains_have_a_support() {
    let grid = Space::Grid { columns: 20, rows: 20 };
    let stream = SymbolStream::new("gaze", grid, vec![vec![0, 21, 42, 42, 43, 63, 63]; 3]).unwrap();
    for (batch, order) in [(2, 1), (3, 2), (10, 1)] {
        let batch = NonZeroUsize::new(batch).unwrap();
        let settings = TrialSettings { batch, order, ..TrialSettings::new("1".parse().unwrap(), NonZeroU64::MIN) };
        let outcome = SequenceSubject::Batched.run(&stream, &settings, &mut SeededRandom::new(655)).unwrap();
        assert_eq!(outcome.sequences.iter().map(Vec::len).collect::<Vec<_>>(), [7; 3]);
    }
    let parts = |length, epsilon: &str| {
        let settings = batched_settings(400, length, &crr::CrrSettings::new(epsilon.parse().unwrap())).unwrap();
        (settings.support, settings.part)
    };
    assert_eq!(parts(10, "1"), (Some(SUPPORT), None));
    // Epsilon of a part is at most 10.
    assert_eq!(parts(10, "2"), (Some(SUPPORT), Some(5)));
    assert_eq!(parts(10, "3"), (Some(SUPPORT), Some(3)));
}

#[test]
fn long_batches_are_divided_into_parts_and_a_rest_is_answered_too() {
    let stream = SymbolStream::new("pages", Space::Line { symbols: 17 }, vec![(0..17).collect(), vec![3; 8]]).unwrap();
    let batch = NonZeroUsize::new(5).unwrap();
    let settings = TrialSettings { batch, ..TrialSettings::new("0.5".parse().unwrap(), NonZeroU64::MIN) };
    let step = crr::CrrSettings::new(settings.epsilon);
    // 17^3 sequences are few enough, 17^4 are not.
    assert_eq!(batched_settings(17, 5, &step).unwrap().part, Some(3));
    assert_eq!(batched_settings(17, 5, &step).unwrap().batch.epsilon, "2.5".parse().unwrap());
    let outcome = SequenceSubject::Batched.run(&stream, &settings, &mut SeededRandom::new(654)).unwrap();
    assert_eq!(outcome.sequences.iter().map(Vec::len).collect::<Vec<_>>(), [17, 8]);
}

#[test]
fn the_noise_of_unrelated_symbols_is_unrelated_and_that_of_related_ones_is_not() {
    let one = "1".parse().unwrap();
    for answers in [Answers::Crr, Answers::Published, Answers::PublishedUnrelated] {
        for first in [0.5, 0.7, 0.95] {
            let noise = TwoSteps { first, flip: 0.5 }.noise(one, answers).unwrap();
            assert!(noise.symbols_correlation.abs() < 1e-12 && noise.information < 1e-12, "{answers:?} {noise:?}");
            assert!(noise.correlation.abs() < 1e-6, "{answers:?} {noise:?}");
        }
    }
    // By hand: the first answer is wrong with probability 1/(2e); the belief in what it says is then 1 - 1/(2e), and so
    // is that in the second symbol, which is the same; b (1 - b)/e of the second answers are wrong each way.
    let certain = TwoSteps { first: 0.5, flip: 0.0 }.noise(one, Answers::Published).unwrap();
    let wrong = 0.5 / 1.0_f64.exp();
    assert!((certain.symbols_correlation - 1.0).abs() < 1e-12);
    assert!((certain.second - 2.0 * wrong * (1.0 - wrong) / 1.0_f64.exp()).abs() < 1e-12, "{certain:?}");
    assert!(certain.correlation > 0.0 && certain.information > 0.0);
}

#[test]
fn two_steps_give_away_no_more_than_two_epsilons_but_for_the_published_form() {
    let one = "1".parse().unwrap();
    let largest = |answers| {
        let chains = (0..=10).map(|flip| TwoSteps { first: 0.95, flip: f64::from(flip) / 10.0 });
        chains.map(|chain| chain.noise(one, answers).unwrap().leakage).fold(0.0, f64::max)
    };
    assert!(largest(Answers::Crr) <= 2.0 + 1e-9);
    assert!(largest(Answers::Published) > 2.0);
    assert!(TwoSteps { first: 0.5, flip: 1.5 }.noise(one, Answers::Crr).is_err());
}
