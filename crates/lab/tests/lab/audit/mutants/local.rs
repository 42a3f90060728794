//! Broken local mechanisms: what one user's device reports.

use std::num::NonZeroU64;

use tidegate::local::LocalKind;
use tidegate_device::{Device, DevicePolicy};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon, Question, SeededRandom, View, Window};
use tidegate_lab::audit::ledger::{Spend, statement};
use tidegate_lab::audit::targets::local::LocalTarget;
use tidegate_lab::audit::{AuditSettings, Pair};

use super::{Form, Variant, caught, coin, drawn, of_values, randomised, values};

const WINDOW: usize = 3;
/// The same, to count shares with.
const SHARES: i64 = 3;

/// What is spent at each timestamp, on one report after the other; each report is a randomised bit.
fn reports(claimed: f64, pairs: Vec<Pair>, spends: Vec<Vec<f64>>) -> Variant {
    Variant::new(claimed, pairs, move |input, random| {
        let of = |(value, spends): (&u32, &Vec<f64>), random: &mut SeededRandom| -> Vec<f64> {
            spends.iter().map(|spend| randomised(*value as usize, 2, *spend, random)).collect()
        };
        values(input).iter().zip(&spends).flat_map(|reports| of(reports, random)).collect()
    })
}

/// Streams of 0 that are 1 in the window from a timestamp on.
fn step(at: usize, length: usize) -> Pair {
    let other: Vec<u32> = (0..length).map(|time| u32::from((at..at + WINDOW).contains(&time))).collect();
    of_values("step", &vec![0; length], &other)
}

/// Attacks reports that spend so much at each timestamp, on streams with a step at each of some timestamps, and sums up
/// their record: both must tell which form is broken.
#[track_caller]
fn caught_twice(name: &str, runs: u64, epsilon: f64, steps: &[usize], spends: impl Fn(Form) -> Vec<Vec<f64>>) {
    let length = spends(Form::Broken).len();
    let pairs: Vec<Pair> = steps.iter().map(|at| step(*at, length)).collect();
    caught(name, runs, |form| reports(epsilon, pairs.clone(), spends(form)));
    let overspent = |form: Form| {
        let units = |epsilon: f64| (epsilon * 1e9).round();
        let of = |(timestamp, spends): (u64, Vec<f64>)| {
            let spend =
                |spend: f64| Spend { timestamp, units: units(spend) as u64, account: String::new(), slots: None };
            spends.into_iter().map(spend).collect::<Vec<_>>()
        };
        let record: Vec<Spend> = (0..).zip(spends(form)).flat_map(of).collect();
        let budget = Epsilon::from_units(units(epsilon) as u64).unwrap();
        statement(&record, NonZeroU64::new(WINDOW as u64), budget).overspent.is_some()
    };
    assert!(overspent(Form::Broken), "{name} was not caught by its record");
    assert!(!overspent(Form::Healthy), "{name}: its twin was accused by its record");
}

/// How many shares budget absorption spends where the stream is published at these timestamps.
fn absorption(publish: &[bool], form: Form) -> Vec<i64> {
    let (mut last, mut skip) = (-1, -1);
    let at = |(time, publish): (i64, &bool)| {
        if form == Form::Healthy && time - last <= skip {
            return 0;
        }
        let shares = form.choose(time - last, time - last - skip).min(SHARES);
        if !publish {
            return 0;
        }
        (last, skip) = (time, shares - 1);
        shares
    };
    (0..).zip(publish).map(at).collect()
}

const PUBLISH: [bool; 7] = [false, false, true, true, true, false, false];

#[test]
fn absorption_without_nullification_is_caught() {
    let epsilon = 3.0;
    caught_twice("`lba` without nullification", 60_000, epsilon, &[0, 2, 4], |form| {
        let share = epsilon / (2 * WINDOW) as f64;
        let spends = absorption(&PUBLISH, form).into_iter().map(|shares| {
            let publication = (shares > 0).then_some(shares as f64 * share);
            [share].into_iter().chain(publication).collect()
        });
        spends.collect()
    });
}

/// The same where users are divided: each share is one of three groups of users, taken in turn. The user is in the
/// first.
#[test]
fn population_absorption_without_nullification_is_caught() {
    caught_twice("`lpa` without nullification", 20_000, 1.0, &[0, 2, 4], |form| {
        let mut next = 0;
        let spends = absorption(&PUBLISH, form).into_iter().map(|shares| {
            let is_asked = (next..next + shares).any(|group| group % SHARES == 0);
            next += shares;
            if is_asked { vec![1.0] } else { Vec::new() }
        });
        spends.collect()
    });
}

/// The text of the paper on LDP-IDS has 2 epsilon / w where its algorithm has epsilon / 2w.
#[test]
fn the_misprinted_share_for_dissimilarities_is_caught() {
    caught_twice("dissimilarity at 2ε/w", 20_000, 1.0, &[0, 1], |form| {
        vec![vec![form.choose(2.0, 0.5) / WINDOW as f64]; 4]
    });
}

#[test]
fn a_warm_up_that_is_not_charged_is_caught() {
    let (epsilon, window) = (3.0, WINDOW as f64);
    caught_twice("`mtsp` warm-up not charged", 60_000, epsilon, &[0, 1], |form| {
        let mut spends = vec![vec![epsilon / window]; WINDOW];
        let left = form.choose(epsilon / 2.0, epsilon / 2.0 - (window - 1.0) * epsilon / (2.0 * window));
        spends.push(vec![epsilon / (2.0 * window), left]);
        spends
    });
}

/// The counterexample to putting what was really spent into the number of timestamps to skip, four times as large:
/// 0.5433 in a window of 0.5.
#[test]
fn budget_that_is_reclaimed_twice_is_caught() {
    caught_twice("`pba` reclaims budget twice", 300_000, 2.0, &[0], |form| {
        let spent = [0.21, 0.1233, form.choose(0.21, 0.5 - 0.21 - 0.1233)];
        spent.iter().map(|spend| vec![4.0 * spend]).collect()
    });
}

/// A mechanism of the library with a window that is one too short.
fn window_off_by_one(kind: LocalKind, form: Form) -> Variant {
    let settings = AuditSettings::small("1".parse().unwrap());
    let claims = LocalTarget::new(kind, &settings);
    let window = NonZeroU64::new(settings.window.get() - 1).unwrap();
    let does = form.choose(LocalTarget::new(kind, &AuditSettings { window, ..settings }), claims);
    Variant::claiming_to_be(&claims, does)
}

#[test]
fn a_window_of_sampling_that_is_one_too_short_is_caught() {
    caught("`lsp`, window off by one", 8_000, |form| window_off_by_one(LocalKind::Lsp, form));
}

/// Users of a slot report again within the window.
#[test]
fn a_window_of_population_division_that_is_one_too_short_is_caught() {
    caught("`lpu`, window off by one", 8_000, |form| window_off_by_one(LocalKind::Lpu, form));
}

#[test]
fn a_window_of_means_that_is_one_too_short_is_caught() {
    caught("`lpu` of numbers, window off by one", 8_000, |form| {
        let settings = AuditSettings::small("1".parse().unwrap());
        let window = NonZeroU64::new(settings.window.get() - 1).unwrap();
        let claims = LocalTarget::of_numbers(LocalKind::Lpu, &settings).unwrap();
        let shorter = LocalTarget::of_numbers(LocalKind::Lpu, &AuditSettings { window, ..settings }).unwrap();
        let does = form.choose(shorter, claims);
        Variant::claiming_to_be(&claims, does)
    });
}

/// Three levels and a window of two outputs: likely outputs beyond the last level are left out, where there must be as
/// many at each level.
#[test]
fn a_window_of_outputs_that_ends_with_the_range_is_caught() {
    const LEVELS: u32 = 3;
    const LIKELY: u32 = 2;
    caught("`piecewise`, window cut off at the end", 60_000, |form| {
        let outputs = form.choose(LEVELS, LEVELS - 1 + LIKELY);
        Variant::new(1.0, vec![of_values("ends", &[0], &[LEVELS - 1])], move |input, random| {
            let report = |level: &u32, random: &mut SeededRandom| {
                let weight = |output| if (*level..level + LIKELY).contains(&output) { 1_f64.exp() } else { 1.0 };
                drawn(&(0..outputs).map(weight).collect::<Vec<_>>(), random) as f64
            };
            values(input).iter().map(|level| report(level, random)).collect()
        })
    });
}

#[test]
fn a_window_of_population_absorption_that_is_one_too_short_is_caught() {
    caught("`lpa`, window off by one", 8_000, |form| window_off_by_one(LocalKind::Lpa, form));
}

fn question(timestamp: u64) -> Question {
    Question {
        timestamp,
        phase: 0,
        cohort: Cohort::Everyone,
        epsilon: "1".parse().unwrap(),
        oracle: OracleKind::Grr,
        domain: 2,
        view: View::Values,
    }
}

fn device() -> Device {
    let window = Window::Timestamps(NonZeroU64::new(WINDOW as u64).unwrap());
    Device::new(DevicePolicy { epsilon: "1".parse().unwrap(), window, domain: 2 }, 0)
}

/// What a device says when it is asked: its report, or that it refuses.
fn said(device: &mut Device, question: &Question, value: u32, random: &mut SeededRandom) -> f64 {
    match device.answer(question.timestamp, question, value, random) {
        Ok(report) => f64::from(report.as_bytes()[0]),
        Err(_) => -1.0,
    }
}

#[test]
fn a_device_that_forgets_its_ledger_on_a_restart_is_caught() {
    caught("device: budget reset on restart", 20_000, |form| {
        Variant::new(1.0, vec![step(0, 3)], move |input, random| {
            let mut device = device();
            let mut seen = Vec::new();
            for (timestamp, value) in (0..).zip(values(input)) {
                if form == Form::Broken && timestamp == 1 {
                    device = self::device();
                }
                seen.push(said(&mut device, &question(timestamp), *value, random));
            }
            seen
        })
    });
}

#[test]
fn a_device_that_answers_a_retry_afresh_is_caught() {
    caught("device: a retry is randomised anew", 20_000, |form| {
        Variant::new(1.0, vec![of_values("spike", &[0], &[1])], move |input, random| {
            let mut device = device();
            let first = said(&mut device, &question(0), values(input)[0], random);
            if form == Form::Broken {
                device = self::device();
            }
            vec![first, said(&mut device, &question(0), values(input)[0], random)]
        })
    });
}

#[test]
fn silence_that_depends_on_the_value_is_caught() {
    caught("device: silent where it holds 0", 10_000, |form| {
        Variant::new(1.0, vec![of_values("spike", &[0], &[1])], move |input, random| {
            let value = values(input)[0];
            let is_silent = match form {
                Form::Broken => value == 0 && coin(0.5, random),
                Form::Healthy => coin(0.25, random),
            };
            vec![if is_silent { -1.0 } else { randomised(value as usize, 2, 1.0, random) }]
        })
    });
}

/// Two positions differ between the encodings of two values, so each may spend half.
#[test]
fn unary_encoding_with_all_of_epsilon_for_each_position_is_caught() {
    caught("unary encoding, sensitivity 1 instead of 2", 20_000, |form| {
        let each = form.choose(1.0, 0.5);
        Variant::new(1.0, vec![of_values("spike", &[0], &[1])], move |input, random| {
            let value = values(input)[0];
            (0..3).map(|place| randomised(usize::from(place == value), 2, each, random)).collect()
        })
    });
}
