//! Broken mechanisms whose record tells: what was asked or published, summed up over the windows that were promised.

use std::num::NonZeroU64;

use tidegate::central::{Central, CentralKind, CentralSettings};
use tidegate::local::{Local, LocalKind, LocalSettings, Step};
use tidegate_kernel::simulation::estimate_of;
use tidegate_kernel::{Epsilon, Sealed, SeededRandom};
use tidegate_lab::audit::ledger::{Spend, Statement, statement};

const PROMISED: u64 = 4;
const LENGTH: u64 = 16;

fn one() -> Epsilon {
    "1".parse().unwrap()
}

fn window(length: u64) -> NonZeroU64 {
    NonZeroU64::new(length).unwrap()
}

/// What the record of a run comes to, over the windows that were promised.
fn judged(spends: &[Spend]) -> Statement {
    statement(spends, Some(window(PROMISED)), one())
}

/// The questions of a run on a stream that moves as far as it can at each timestamp, so that the mechanism publishes
/// whenever it may.
fn asked(kind: LocalKind, length: u64) -> Vec<Spend> {
    let settings = LocalSettings::new(one(), window(length), 4, NonZeroU64::new(1_000_000).unwrap());
    let mut mechanism = Local::new(kind, settings).unwrap();
    let random = &mut SeededRandom::new(1);
    let mut spends = Vec::new();
    for timestamp in 0..LENGTH {
        let mut step = mechanism.open(timestamp).unwrap();
        while let Step::Ask(questions) = step {
            let answers: Vec<_> = questions
                .iter()
                .map(|question| {
                    let held = question.cell_of(timestamp as u32 % question.domain) as usize;
                    let counts: Vec<u64> =
                        (0..question.cells() as usize).map(|cell| u64::from(cell == held) * 1_000_000).collect();
                    Some(estimate_of(&question.oracle().unwrap(), &counts, random).unwrap())
                })
                .collect();
            spends.extend(questions.iter().map(Spend::of_question));
            step = mechanism.answer(&questions, &answers).unwrap();
        }
    }
    spends
}

#[test]
fn a_window_of_any_local_mechanism_that_is_one_too_short_is_found_in_its_record() {
    for kind in LocalKind::ALL {
        let broken = judged(&asked(kind, PROMISED - 1)).largest.unwrap().units as f64 / 1e9;
        println!("| `{kind}`, window off by one | 1 | {broken:.3} |");
        assert!(broken > 1.0, "{kind}: {broken}");
        assert_eq!(judged(&asked(kind, PROMISED)).overspent, None, "{kind}");
    }
}

/// The releases of a run on counts that move far at each timestamp; begun anew at a timestamp, where one is given.
fn released(kind: CentralKind, length: u64, restart: Option<u64>) -> Vec<Spend> {
    let begin = || Central::new(kind, CentralSettings::new(one(), window(length), 2)).unwrap();
    let mut mechanism = begin();
    let random = &mut SeededRandom::new(1);
    let mut spends = Vec::new();
    for timestamp in 0..LENGTH {
        if restart == Some(timestamp) {
            mechanism = begin();
        }
        let counts = vec![1_000_000 * (timestamp % 2), 1_000_000 * (1 - timestamp % 2)];
        let releases = mechanism.push(&Sealed::at(mechanism.ledger().account(), timestamp, counts), random).unwrap();
        spends.extend(releases.iter().flat_map(Spend::of_release));
    }
    spends
}

#[test]
fn a_window_of_any_central_mechanism_that_is_one_too_short_is_found_in_its_record() {
    for kind in CentralKind::ALL {
        let broken = judged(&released(kind, PROMISED - 1, None)).largest.unwrap().units as f64 / 1e9;
        println!("| `{kind}`, window off by one | 1 | {broken:.3} |");
        assert!(broken > 1.0, "{kind}: {broken}");
        assert_eq!(judged(&released(kind, PROMISED, None)).overspent, None, "{kind}");
    }
}

/// A mechanism that spends all at once. Of the others, each spends so little on its first timestamp that this can be
/// afforded again at each timestamp of a window.
#[test]
fn a_budget_that_is_whole_again_after_a_restart_is_found_in_the_record() {
    let broken = judged(&released(CentralKind::Sample, PROMISED, Some(1))).overspent.unwrap();
    println!("| `sample`, budget reset on restart | 1 | {:.3} |", broken.units as f64 / 1e9);
    assert_eq!((broken.first, broken.last, broken.units), (0, 1, 2_000_000_000));
    assert_eq!(judged(&released(CentralKind::Sample, PROMISED, None)).overspent, None);
}
