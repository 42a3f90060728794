//! Why releases are as they are: the explanation is what decided, and adds up to what was spent.

use std::num::NonZeroU64;

use tidegate::central::{Central, CentralKind, CentralSettings};
use tidegate::kernel::oracle::Estimate;
use tidegate::kernel::simulation::estimate_of;
use tidegate::kernel::{Epsilon, Question, Sealed, SeededRandom};
use tidegate::local::{Local, LocalKind, Step};
use tidegate::release::why::{Measure, Purpose, Reason, Why};
use tidegate::release::{Freshness, Release, Spent};

use crate::support::settings;

/// The reason of a release, which fits its freshness and its cost.
fn reason(release: &Release) -> &Why {
    let why = release.why.as_deref().unwrap_or_else(|| panic!("{release:?} says nothing"));
    let is_published = why.asked.iter().any(|paid| paid.purpose != Purpose::Measure && paid.reports != Some(0));
    let fresh = release.freshness == Freshness::Fresh;
    assert_eq!(fresh, is_published || matches!(why.reason, Reason::Watched), "{release:?}");
    if release.freshness == Freshness::Nullified {
        assert!(matches!(why.reason, Reason::Absorbed | Reason::NoBudget), "{release:?}");
    }
    match why.reason {
        Reason::Changed => assert!(fresh && why.dissimilarity > why.error, "{why:?}"),
        Reason::Unchanged => assert!(!fresh && why.dissimilarity <= why.error, "{why:?}"),
        _ => {}
    }
    assert!(why.dissimilarity.is_none() || why.measure.is_some());
    why
}

/// What everyone spent, by the explanation.
fn sum(why: &Why) -> u64 {
    why.asked.iter().map(|paid| paid.epsilon.units()).sum()
}

fn estimate(question: &Question, share: f64, random: &mut SeededRandom) -> Option<Estimate> {
    let users = 1e6 * question.cohort.share();
    let mut counts = vec![0; question.cells() as usize];
    counts[question.cell_of(1) as usize] += (users * share) as u64;
    counts[question.cell_of(0) as usize] += (users * (1.0 - share)) as u64;
    Some(estimate_of(&question.oracle().unwrap(), &counts, random).unwrap())
}

#[test]
fn local_explanations_add_up() {
    for kind in LocalKind::ALL {
        let mut mechanism = Local::new(kind, settings(4, 6)).unwrap();
        let mut random = SeededRandom::new(5);
        let mut seen = Vec::new();
        for timestamp in 0..40 {
            let share = if timestamp / 8 % 2 == 0 { 0.2 } else { 0.7 };
            let (mut step, mut questions_put, mut reports) = (mechanism.open(timestamp).unwrap(), 0, 0);
            let release = loop {
                match step {
                    Step::Done(release) => break release,
                    Step::Ask(questions) => {
                        questions_put += questions.len();
                        let answers: Vec<_> =
                            questions.iter().map(|question| estimate(question, share, &mut random)).collect();
                        reports += answers.iter().flatten().map(Estimate::reports).sum::<u64>();
                        step = mechanism.answer(&questions, &answers).unwrap();
                    }
                }
            };
            let why = reason(&release);
            seen.push(why.reason);
            assert_eq!(why.asked.iter().map(|paid| paid.questions).sum::<usize>(), questions_put, "{kind}");
            assert_eq!(why.asked.iter().filter_map(|paid| paid.reports).sum::<u64>(), reports, "{kind}");
            match release.spent {
                Spent::Everyone(spent) => assert_eq!(sum(why), spent.units(), "{kind}"),
                Spent::Slots { count, epsilon, .. } => {
                    assert!(why.asked.iter().all(|paid| paid.epsilon == epsilon), "{kind}");
                    let share: f64 = why.asked.iter().map(|paid| paid.share).sum();
                    assert!((share - f64::from(count) / 65_536.0).abs() < 1e-9, "{kind}: {share} of {count}");
                }
                ref spent => assert_eq!((spent, why.asked.len()), (&Spent::Nothing, 0), "{kind}"),
            }
        }
        let decides = !matches!(kind, LocalKind::Lbu | LocalKind::Lsp | LocalKind::Lpu | LocalKind::Track);
        assert_eq!(decides, seen.contains(&Reason::Changed), "{kind}: {seen:?}");
        assert_eq!(kind == LocalKind::Lsp, seen.contains(&Reason::Between), "{kind}: {seen:?}");
    }
}

/// Between two questions the state holds what was compared.
#[test]
fn a_restart_between_two_questions_loses_no_reason() {
    let mut checked = 0;
    for kind in [LocalKind::Lbd, LocalKind::Lba, LocalKind::Lpd, LocalKind::Lpa, LocalKind::Mtsp] {
        let mut mechanism = Local::new(kind, settings(4, 6)).unwrap();
        let mut random = SeededRandom::new(6);
        for timestamp in 0..20 {
            let share = if timestamp % 7 < 3 { 0.1 } else { 0.8 };
            let mut step = mechanism.open(timestamp).unwrap();
            while let Step::Ask(questions) = step {
                mechanism = postcard::from_bytes(&postcard::to_allocvec(&mechanism).unwrap()).unwrap();
                let answers: Vec<_> = questions.iter().map(|question| estimate(question, share, &mut random)).collect();
                step = mechanism.answer(&questions, &answers).unwrap();
            }
            let Step::Done(release) = step else { unreachable!() };
            let why = reason(&release);
            if why.reason == Reason::Changed {
                assert!(why.error.is_some() && why.asked.len() == 2, "{why:?}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 5, "{checked}");
}

/// Earlier versions saved an open second question without what was compared.
#[test]
fn a_second_question_of_an_earlier_version_is_finished() {
    let mut mechanism = Local::new(LocalKind::Lba, settings(4, 6)).unwrap();
    let mut random = SeededRandom::new(7);
    let Step::Ask(first) = mechanism.open(0).unwrap() else { panic!("it begins with a question") };
    let answer = mechanism.answer(&first, &[estimate(&first[0], 0.9, &mut random)]).unwrap();
    let Step::Ask(second) = answer else { panic!("the stream has changed") };
    let mut saved = serde_json::to_value(&mechanism).unwrap();
    let phase = saved.pointer_mut("/machine/lba/phase").unwrap();
    let publishing = phase["Decided"]["publishing"].take();
    assert!(publishing["Publishing"].is_object());
    *phase = publishing;
    let mut old: Local = serde_json::from_value(saved).unwrap();
    let answers = [estimate(&second[0], 0.9, &mut random)];
    let Step::Done(release) = old.answer(&second, &answers).unwrap() else { panic!("it is answered") };
    let why = release.why.unwrap();
    assert_eq!((why.reason, why.asked.len(), why.dissimilarity), (Reason::Changed, 2, None));
}

#[test]
fn central_explanations_add_up() {
    let epsilon: Epsilon = "1".parse().unwrap();
    let settings = CentralSettings::new(epsilon, NonZeroU64::new(6).unwrap(), 3);
    for kind in [CentralKind::Uniform, CentralKind::Sample, CentralKind::Bd, CentralKind::Ba, CentralKind::Track] {
        let mut mechanism = Central::new(kind, settings).unwrap();
        let (mut random, mut seen) = (SeededRandom::new(8), Vec::new());
        for timestamp in 0..60 {
            let high = if timestamp / 15 % 2 == 0 { 100 } else { 90_000 };
            let counts = Sealed::at(mechanism.ledger().account(), timestamp, vec![high, 50, 7_000]);
            let release = mechanism.push(&counts, &mut random).unwrap().remove(0);
            let why = reason(&release);
            seen.push(why.reason);
            assert_eq!(sum(why), release.spent.most().map_or(0, Epsilon::units), "{kind}");
            assert!(why.dissimilarity.is_none() || why.measure == Some(Measure::MeanDistance));
            assert!(why.asked.iter().all(|paid| paid.reports.is_none() && paid.class.is_none()), "{why:?}");
        }
        let expected: &[Reason] = match kind {
            CentralKind::Uniform => &[Reason::Schedule],
            CentralKind::Sample => &[Reason::Schedule, Reason::Between],
            CentralKind::Bd => &[Reason::First, Reason::Changed, Reason::Unchanged],
            CentralKind::Ba => &[Reason::First, Reason::Changed, Reason::Unchanged, Reason::Absorbed],
            _ => &[Reason::Exact],
        };
        assert!(expected.iter().all(|one| seen.contains(one)), "{kind}: {seen:?}");
    }
}

/// Nothing in it follows the data but by what was published: whoever cannot see the change hears of none.
#[test]
fn a_schedule_is_explained_alike_for_any_data() {
    for kind in [CentralKind::Uniform, CentralKind::Sample] {
        let settings = CentralSettings::new("1".parse().unwrap(), NonZeroU64::new(4).unwrap(), 2);
        let explained = |count: u64| -> Vec<_> {
            let mut mechanism = Central::new(kind, settings).unwrap();
            let mut random = SeededRandom::new(9);
            (0..9)
                .map(|timestamp| {
                    let counts = Sealed::at(mechanism.ledger().account(), timestamp, vec![count * timestamp, 5]);
                    mechanism.push(&counts, &mut random).unwrap().remove(0).why
                })
                .collect()
        };
        assert_eq!(explained(0), explained(1_000_000), "{kind}");
    }
}
