//! Broken mechanisms that the transcript audit must find, each beside a healthy twin, without any doubt left to chance.
//!
//! They randomise through the kernel's primitives, so that every step has a likelihood. The kernel's ledger would stop
//! most of them; those spend from a ledger without a limit.

use std::num::NonZeroU64;

use tidegate::central::CentralKind;
use tidegate::local::LocalKind;
use tidegate::scalar::ScalarKind;
use tidegate_device::{Device, DevicePolicy};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::{Neighbours, Protects, noisy_distance, noisy_histogram};
use tidegate_kernel::{Cohort, Epsilon, Ledger, Question, Sealed, SeededRandom, View, Window};
use tidegate_lab::audit::targets::central::CentralTarget;
use tidegate_lab::audit::targets::local::LocalTarget;
use tidegate_lab::audit::targets::scalar::ScalarTarget;
use tidegate_lab::audit::transcript::{Search, examine};
use tidegate_lab::audit::{AuditSettings, Input, ROUNDING, Target, Transcript, targets};

use super::{Form, Variant, of_values, values};

/// Examines the broken form, which must be found, and the healthy one, which must not be.
#[track_caller]
fn found(name: &str, variant: impl Fn(Form) -> Variant) {
    // The filters of `track` take long, and its mistakes show soon.
    let few = Search { decisions: 6, random: 2, ..Search::QUICK };
    let search = if name.contains("track") { few } else { Search::QUICK };
    let [broken, healthy] = [Form::Broken, Form::Healthy].map(|form| {
        let variant = variant(form);
        (examine(&variant, &search).unwrap(), variant.claimed())
    });
    // The table of docs/audit-mutants.md.
    println!("| {name} | {} | {:.4} | {:.4} | {} |", broken.1, broken.0.loss, healthy.0.loss, broken.0.transcripts);
    assert!(broken.0.loss > broken.1 + ROUNDING, "{name} was not found: {:?}, claimed {}", broken.0, broken.1);
    assert!(healthy.0.loss <= healthy.1 + ROUNDING, "{name}: its twin: {:?}, claimed {}", healthy.0, healthy.1);
}

/// What one target does, with what another claims.
fn claiming(claims: &dyn Target, does: impl Target + 'static) -> Variant {
    let run = move |input: &Input, random: &mut SeededRandom| does.observe(input, random).unwrap();
    Variant::new(claims.claimed(), claims.pairs_for_transcripts(), run)
}

fn one() -> Epsilon {
    "1".parse().unwrap()
}

fn settings() -> AuditSettings {
    AuditSettings::small(one())
}

fn shorter() -> AuditSettings {
    AuditSettings { window: NonZeroU64::new(2).unwrap(), ..settings() }
}

#[test]
fn finds_a_central_window_one_too_short() {
    for kind in CentralKind::ALL {
        for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
            found(&format!("`{kind}`, window off by one"), |form| {
                let claims = CentralTarget::new(kind, &settings(), neighbours);
                let shorter = CentralTarget::new(kind, &shorter(), neighbours);
                claiming(&claims, form.choose(shorter, claims))
            });
        }
    }
}

#[test]
fn finds_a_local_window_one_too_short() {
    for kind in LocalKind::ALL {
        // Each level of a tree needs a few of the six users: a single level with little noise is worth publishing.
        let (epsilon, domain) = match kind {
            LocalKind::MtspPopulation => ("4".parse().unwrap(), 2),
            _ => (one(), 3),
        };
        found(&format!("`{kind}`, window off by one"), |form| {
            let claims = LocalTarget::new(kind, &AuditSettings { epsilon, domain, ..settings() });
            let shorter = LocalTarget::new(kind, &AuditSettings { epsilon, domain, ..shorter() });
            claiming(&claims, form.choose(shorter, claims))
        });
    }
}

#[test]
fn finds_half_the_sensitivity() {
    for kind in CentralKind::ALL {
        found(&format!("`{kind}`, sensitivity 1 instead of 2"), |form| {
            let claims = CentralTarget::new(kind, &settings(), Neighbours::Replace);
            let wrong = CentralTarget::new(kind, &settings(), Neighbours::AddRemove);
            claiming(&claims, form.choose(wrong, claims))
        });
    }
    for target in targets::all(&settings()).unwrap() {
        let Some(claims) = event_target(target.name()) else { continue };
        found(&format!("`{}`, sensitivity 1 instead of 2", claims.name), |form| {
            let mut wrong = claims;
            wrong.settings.protects = Protects::Contribution(NonZeroU64::MIN);
            claiming(&claims, form.choose(wrong, claims))
        });
    }
}

/// An event-level target whose noise follows from the sensitivity of a reading.
fn event_target(name: &str) -> Option<ScalarTarget> {
    let kind = match name {
        "laplace" => ScalarKind::Laplace,
        "clamped" => ScalarKind::Clamped,
        "pegasus" => ScalarKind::Pegasus,
        "contin" => ScalarKind::Contin,
        "discontin" => ScalarKind::Discontin,
        _ => return None,
    };
    let grid = tidegate_kernel::Grid::new(0.0, 2.0, 1.0).unwrap();
    Some(ScalarTarget { name: kind.name(), kind, settings: tidegate::scalar::ScalarSettings::new(one(), grid, 2) })
}

/// How absorption is broken.
#[derive(Clone, Copy)]
enum Mistake {
    None,
    /// No timestamps are skipped after a publication of several shares.
    WithoutNullification,
    /// The raw counts decide whether to publish.
    RawDecision,
    /// The distance that decides has no noise in one case: where the counts are those of the last release.
    NoiseOnlyWhereDifferent,
}

/// Absorption as `ba` has it, with a mistake and without a limit on what is spent.
fn absorption(mistake: Mistake, input: &Input, random: &mut SeededRandom) -> Transcript {
    const WINDOW: u64 = 3;
    let Input::Counts(stream) = input else { panic!("{input:?}") };
    let share = one().divided_by(2 * WINDOW).unwrap();
    let mut ledger = Ledger::new(Epsilon::MAX, Window::EVENT);
    let (neighbours, once) = (Neighbours::AddRemove, NonZeroU64::MIN);
    let mut last: Option<(Vec<i64>, Vec<u64>)> = None;
    // The last publication, and how many shares it took.
    let (mut published, mut shares) = (0, 1);
    let mut seen = Transcript::new();
    for (timestamp, counts) in (0_u64..).zip(stream) {
        let sealed = Sealed::at(ledger.account(), timestamp, counts.clone());
        let mut publishes = true;
        if let Some((release, raw)) = &last {
            let skipped = if matches!(mistake, Mistake::WithoutNullification) { 0 } else { shares - 1 };
            let saved = (timestamp - published).saturating_sub(skipped).min(WINDOW);
            publishes = saved > 0;
            shares = if publishes { saved } else { shares };
            if !matches!(mistake, Mistake::NoiseOnlyWhereDifferent) || counts != raw {
                let permit = ledger.spend(timestamp, share).unwrap();
                let distance = noisy_distance(permit, &sealed, release, neighbours, once, random).unwrap().into_value();
                publishes &= distance as f64 / counts.len() as f64 > 1.0 / (share.as_f64() * shares as f64);
            }
            if matches!(mistake, Mistake::RawDecision) {
                publishes = saved > 0 && counts != raw;
            }
        }
        if publishes {
            let permit = ledger.spend(timestamp, share.checked_mul(shares).unwrap()).unwrap();
            let release = noisy_histogram(permit, &sealed, neighbours, once, random).unwrap().into_value();
            (published, last) = (timestamp, Some((release, counts.clone())));
        }
        if let Some((release, _)) = &last {
            seen.extend(release.iter().map(|count| *count as f64));
        }
        seen.push(f64::from(u8::from(publishes)));
    }
    seen
}

fn absorbing(mistake: Mistake) -> impl Fn(Form) -> Variant {
    move |form| {
        let claims = CentralTarget::new(CentralKind::Ba, &settings(), Neighbours::AddRemove);
        let mistake = form.choose(mistake, Mistake::None);
        Variant::new(claims.claimed(), claims.pairs_for_transcripts(), move |input, random| {
            absorption(mistake, input, random)
        })
    }
}

#[test]
fn finds_absorption_without_nullification() {
    found("`ba` without nullification", absorbing(Mistake::WithoutNullification));
}

#[test]
fn finds_decisions_that_look_at_raw_data() {
    found("`ba` publishes where the raw counts have changed", absorbing(Mistake::RawDecision));
    found("`ba` measures only where the raw counts have changed", absorbing(Mistake::NoiseOnlyWhereDifferent));
    found("device: silent where it holds 0", |form| {
        let claimed = one();
        Variant::new(claimed.as_f64(), vec![of_values("0 or 1", &[0], &[1])], move |input, random| {
            let question = Question {
                timestamp: 0,
                phase: 0,
                cohort: Cohort::Everyone,
                epsilon: claimed,
                oracle: OracleKind::Grr,
                domain: 3,
                view: View::Values,
            };
            let mut device = Device::new(DevicePolicy { epsilon: claimed, window: Window::EVENT, domain: 3 }, 0);
            let value = values(input)[0];
            if form == Form::Broken && value == 0 {
                return vec![-1.0];
            }
            vec![f64::from(device.answer(0, &question, value, random).unwrap().as_bytes()[0])]
        })
    });
}
