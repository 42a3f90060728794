//! No window exceeds its budget, for all sequences of calls, saves and loads.

use proptest::prelude::*;
use tidegate_kernel::{ClassLedgers, Epsilon, Ledger, Permit, Refusal, SpendError, Window};

use crate::fuzz_bodies::{Shadowed, Step};
use crate::support::{epsilon, repeatable};

fn units(units: u64) -> Epsilon {
    Epsilon::from_units(units).unwrap()
}

fn window(length: u64) -> Window {
    Window::of(length).unwrap()
}

fn refused(result: Result<Permit, Refusal>) -> Refusal {
    result.unwrap_err()
}

fn any_window() -> impl Strategy<Value = Window> {
    prop_oneof![
        2 => Just(Window::EVENT),
        8 => (2..8_u64).prop_map(window),
        1 => (u64::MAX - 3..=u64::MAX).prop_map(window),
        2 => Just(Window::Unbounded),
    ]
}

fn any_jump() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => Just(0),
        8 => Just(1),
        6 => 2..10_i64,
        3 => -10..0_i64,
        1 => any::<i64>(),
    ]
}

fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000_u64, u64::MAX - 30..=u64::MAX]
}

fn any_step(budget: Epsilon) -> impl Strategy<Value = Step> {
    let budget = budget.units();
    let amount = prop_oneof![
        2 => 1..=budget,
        6 => 1..=budget.div_ceil(4),
        1 => Just(budget),
        1 => budget..=Epsilon::MAX.units(),
    ];
    prop_oneof![
        2 => any_jump().prop_map(|jump| Step::Open { jump }),
        1 => any_jump().prop_map(|jump| Step::Close { jump }),
        1 => any_jump().prop_map(|jump| Step::CarryTo { jump }),
        1 => any_jump().prop_map(|by| Step::Delay { by: by.unsigned_abs() }),
        12 => (any_jump(), amount.prop_map(units)).prop_map(|(jump, amount)| Step::Spend { jump, amount }),
        2 => any_jump().prop_map(|jump| Step::SpendAllThatRemains { jump }),
        1 => Just(Step::SaveAndLoadAsJson),
        1 => Just(Step::SaveAndLoadAsPostcard),
    ]
}

fn any_budget_and_steps() -> impl Strategy<Value = (Epsilon, Vec<Step>)> {
    prop_oneof![1..20_u64, 1..=Epsilon::MAX.units()]
        .prop_map(units)
        .prop_flat_map(|budget| (Just(budget), prop::collection::vec(any_step(budget), 1..60)))
}

#[test]
fn a_jump_of_the_clock_refunds_nothing() {
    let mut ledger = Ledger::new(epsilon("1"), window(3));
    let _first = ledger.spend(0, epsilon("0.4")).unwrap();
    let _second = ledger.spend(1, epsilon("0.4")).unwrap();
    ledger.carry_to(100).unwrap();
    assert_eq!(ledger.remaining(102), Some(epsilon("0.2")));
    assert_eq!(ledger.remaining(103), Some(epsilon("1")));
    assert_eq!(ledger.carry_to(99), Err(Refusal::TimeWentBack { timestamp: 99, clock: 100 }));
}

#[test]
fn a_delay_keeps_the_ages_of_spends() {
    let mut ledger = Ledger::new(epsilon("1"), window(3));
    ledger.delay(5);
    assert_eq!(ledger.clock(), None, "nothing was spent yet");
    let _first = ledger.spend(0, epsilon("0.4")).unwrap();
    let _second = ledger.spend(1, epsilon("0.4")).unwrap();
    ledger.delay(100);
    assert_eq!(ledger.clock(), Some(101));
    assert_eq!([102, 103, 104].map(|now| ledger.remaining(now)), ["0.2", "0.6", "1"].map(|left| Some(epsilon(left))));
    ledger.delay(u64::MAX);
    assert_eq!((ledger.clock(), ledger.remaining(u64::MAX)), (Some(u64::MAX), Some(epsilon("0.2"))));
}

proptest! {
    #![proptest_config(repeatable(8192))]

    #[test]
    fn a_naive_ledger_agrees_on_everything(
        window in any_window(),
        start in any_start(),
        (budget, steps) in any_budget_and_steps(),
    ) {
        let mut shadowed = Shadowed::new(Ledger::new(budget, window), start);
        for step in steps {
            shadowed.take(step);
        }
        shadowed.assert_no_window_exceeds_the_budget();
    }

    #[test]
    fn a_fully_spent_ledger_keeps_its_budget(
        window in any_window(),
        start in any_start(),
        (budget, steps) in any_budget_and_steps(),
    ) {
        let mut shadowed = Shadowed::new(Ledger::fully_spent(budget, window, start), start);
        for step in steps {
            shadowed.take(step);
        }
        shadowed.assert_no_window_exceeds_the_budget();
    }
}

#[test]
fn small_sequences_are_granted_exactly_if_they_fit() {
    const BUDGET: u64 = 3;
    const TIMESTAMPS: u32 = 8;
    for length in 1..=4_usize {
        // Two bits for each timestamp: the amount; zero means no spend.
        for sequence in 0..4_u64.pow(TIMESTAMPS) {
            let mut ledger = Ledger::new(units(BUDGET), window(length as u64));
            let mut granted = [0_u64; TIMESTAMPS as usize];
            for timestamp in 0..TIMESTAMPS as usize {
                let asked = (sequence >> (2 * timestamp)) & 3;
                let before: u64 = granted[timestamp.saturating_sub(length - 1)..timestamp].iter().sum();
                let Ok(amount) = Epsilon::from_units(asked) else { continue };
                let fits = before + asked <= BUDGET;
                assert_eq!(
                    ledger.spend(timestamp as u64, amount).is_ok(),
                    fits,
                    "w = {length}, sequence {sequence:#x}"
                );
                granted[timestamp] = if fits { asked } else { 0 };
            }
            assert!(granted.windows(length).all(|window| window.iter().sum::<u64>() <= BUDGET));
        }
    }
}

#[test]
fn an_overspend_error_has_the_remaining_budget() {
    let mut ledger = Ledger::new(epsilon("1"), window(3));
    let _ = ledger.spend(5, epsilon("0.7")).unwrap();
    let refusal = refused(ledger.spend(6, epsilon("0.4")));
    assert_eq!(refusal, Refusal::Overspend { timestamp: 6, asked: epsilon("0.4"), remaining: Some(epsilon("0.3")) });
    assert_eq!(refusal.to_string(), "a spend of 0.4 at timestamp 6 exceeds the budget left in its window (0.3)");
    let _ = ledger.spend(6, epsilon("0.3")).unwrap();
    let refusal = refused(ledger.spend(7, Epsilon::MIN));
    assert_eq!(
        refusal.to_string(),
        "a spend of 0.000000001 at timestamp 7 exceeds the budget left in its window (nothing)"
    );
    let _ = ledger.spend(8, epsilon("0.7")).unwrap();
}

#[test]
fn a_refused_amount_takes_nothing_but_moves_the_clock() {
    let mut ledger = Ledger::new(epsilon("1"), window(3));
    refused(ledger.spend(4, epsilon("2")));
    assert_eq!((ledger.clock(), ledger.spends().len()), (Some(4), 0));
    assert_eq!(ledger.remaining(4), Some(epsilon("1")));
    refused(ledger.spend(3, Epsilon::MIN));
}

#[test]
fn time_never_goes_back() {
    let mut ledger = Ledger::new(epsilon("1"), Window::EVENT);
    let _ = ledger.spend(7, Epsilon::MIN).unwrap();
    let expected = Refusal::TimeWentBack { timestamp: 6, clock: 7 };
    assert_eq!(refused(ledger.spend(6, Epsilon::MIN)), expected);
    assert_eq!(ledger.open(6), Err(expected));
    assert_eq!(ledger.close(6), Err(expected));
    assert_eq!(ledger.check(6, Epsilon::MIN), Err(expected));
    assert_eq!(ledger.remaining(6), None);
    assert_eq!(expected.to_string(), "timestamp 6 is before 7, the latest that the ledger has seen");
    assert_eq!(ledger.clock(), Some(7));
}

#[test]
fn a_closed_timestamp_is_never_opened_again() {
    let mut ledger = Ledger::new(epsilon("1"), window(2));
    ledger.open(3).unwrap();
    ledger.open(3).unwrap();
    ledger.close(3).unwrap();
    let expected = Refusal::Closed { timestamp: 3 };
    assert_eq!(ledger.open(3), Err(expected));
    assert_eq!(ledger.close(3), Err(expected));
    assert_eq!(refused(ledger.spend(3, Epsilon::MIN)), expected);
    assert_eq!(ledger.remaining(3), None);
    assert_eq!(expected.to_string(), "timestamp 3 is closed");
    assert_eq!(ledger.remaining(4), Some(epsilon("1")));
    let _ = ledger.spend(4, epsilon("1")).unwrap();
}

#[test]
fn several_spends_at_one_timestamp_add_up() {
    let mut ledger = Ledger::new(epsilon("0.3"), Window::EVENT);
    for _ in 0..3 {
        let _ = ledger.spend(0, epsilon("0.1")).unwrap();
    }
    assert!(matches!(refused(ledger.spend(0, Epsilon::MIN)), Refusal::Overspend { remaining: None, .. }));
    assert_eq!(ledger.spends().collect::<Vec<_>>(), [(0, epsilon("0.3"))]);
}

#[test]
fn event_windows_have_the_whole_budget_each() {
    let mut ledger = Ledger::new(epsilon("1"), Window::EVENT);
    for timestamp in 0..100 {
        let _ = ledger.spend(timestamp, epsilon("1")).unwrap();
        refused(ledger.spend(timestamp, Epsilon::MIN));
        assert_eq!(ledger.spends().len(), 1);
    }
}

#[test]
fn a_spend_returns_when_it_leaves_the_window() {
    let mut ledger = Ledger::new(epsilon("1"), window(10));
    let _ = ledger.spend(0, epsilon("1")).unwrap();
    assert_eq!(ledger.remaining(9), None);
    assert_eq!(ledger.remaining(10), Some(epsilon("1")));
    refused(ledger.spend(9, Epsilon::MIN));
    let _ = ledger.spend(10, epsilon("1")).unwrap();
}

#[test]
fn unbounded_windows_never_refund_and_use_constant_memory() {
    let mut ledger = Ledger::new(units(1_000), Window::Unbounded);
    for spend in 0..1_000_u64 {
        let timestamp = spend * (u64::MAX / 1_000);
        let _ = ledger.spend(timestamp, Epsilon::MIN).unwrap();
        assert_eq!(ledger.spends().collect::<Vec<_>>(), [(timestamp, units(spend + 1))]);
    }
    assert_eq!(ledger.remaining(u64::MAX), None);
    refused(ledger.spend(u64::MAX, Epsilon::MIN));
}

#[test]
fn memory_is_limited_to_the_window() {
    const LENGTH: u64 = 50;
    let mut ledger = Ledger::new(units(LENGTH), window(LENGTH));
    for timestamp in 0..1_000_000 {
        let _ = ledger.spend(timestamp, Epsilon::MIN).unwrap();
        assert!(ledger.spends().len() as u64 <= LENGTH);
    }
    assert_eq!(ledger.remaining(999_999), None);
    assert_eq!(ledger.spends().next(), Some((1_000_000 - LENGTH, Epsilon::MIN)));
}

#[test]
fn the_largest_timestamps_work() {
    for window in [Window::EVENT, window(2), window(u64::MAX), Window::Unbounded] {
        let mut ledger = Ledger::new(epsilon("1"), window);
        let _ = ledger.spend(u64::MAX - 1, epsilon("0.6")).unwrap();
        let granted = ledger.spend(u64::MAX, epsilon("0.6")).is_ok();
        assert_eq!(granted, window == Window::EVENT, "{window:?}");
        ledger.close(u64::MAX).unwrap();
        assert_eq!(ledger.open(u64::MAX), Err(Refusal::Closed { timestamp: u64::MAX }));
        assert_eq!(ledger.remaining(u64::MAX), None);
    }
    let mut whole_time = Ledger::new(epsilon("1"), window(u64::MAX));
    let _ = whole_time.spend(0, epsilon("1")).unwrap();
    assert_eq!(whole_time.remaining(u64::MAX - 1), None);
    assert_eq!(whole_time.remaining(u64::MAX), Some(epsilon("1")));
}

#[test]
fn a_fully_spent_ledger_waits_for_its_window() {
    let mut ledger = Ledger::fully_spent(epsilon("1"), window(5), 100);
    assert_eq!(refused(ledger.spend(100, Epsilon::MIN)), Refusal::Closed { timestamp: 100 });
    assert!(matches!(refused(ledger.spend(99, Epsilon::MIN)), Refusal::TimeWentBack { .. }));
    for timestamp in 101..105 {
        assert!(matches!(refused(ledger.spend(timestamp, Epsilon::MIN)), Refusal::Overspend { remaining: None, .. }));
    }
    let _ = ledger.spend(105, epsilon("1")).unwrap();
    let mut for_ever = Ledger::fully_spent(epsilon("1"), Window::Unbounded, 0);
    refused(for_ever.spend(u64::MAX, Epsilon::MIN));
}

#[test]
fn splitting_a_permit_gains_nothing() {
    let mut ledger = Ledger::new(epsilon("1"), Window::EVENT);
    let permit = ledger.spend(9, epsilon("0.5")).unwrap();
    assert_eq!((permit.timestamp(), permit.epsilon()), (9, epsilon("0.5")));
    let (first, second) = permit.split(epsilon("0.2")).unwrap();
    assert_eq!((first.epsilon(), second.epsilon()), (epsilon("0.2"), epsilon("0.3")));
    assert_eq!((first.timestamp(), second.timestamp()), (9, 9));
    let whole = second.split(epsilon("0.3")).unwrap_err();
    let whole = whole.split(Epsilon::MAX).unwrap_err();
    assert_eq!(whole.epsilon(), epsilon("0.3"));
}

#[test]
fn the_spend_is_saved_before_the_permit_is_returned() {
    let mut ledger = Ledger::new(epsilon("1"), window(2));
    let mut disk = String::new();
    let permit = ledger.spend_and_save(3, epsilon("0.4"), |ledger| {
        disk = serde_json::to_string(ledger)?;
        Ok::<(), serde_json::Error>(())
    });
    assert_eq!(permit.unwrap().epsilon(), epsilon("0.4"));
    let loaded: Ledger = serde_json::from_str(&disk).unwrap();
    assert_eq!(loaded, ledger);
    assert_eq!(loaded.remaining(3), Some(epsilon("0.6")));
}

#[test]
fn a_failed_save_keeps_the_amount_spent() {
    let mut ledger = Ledger::new(epsilon("1"), window(2));
    let error = ledger.spend_and_save(3, epsilon("0.4"), |_| Err("disk full")).unwrap_err();
    assert!(matches!(error, SpendError::NotSaved("disk full")));
    assert_eq!(error.to_string(), "the ledger could not be saved, so the spend is lost: disk full");
    assert_eq!(ledger.remaining(3), Some(epsilon("0.6")));
}

#[test]
fn a_refused_spend_is_not_saved() {
    let mut ledger = Ledger::new(epsilon("1"), window(2));
    let mut saves = 0;
    let error = ledger.spend_and_save(3, epsilon("1.4"), |_| {
        saves += 1;
        Ok::<(), ()>(())
    });
    assert!(matches!(error, Err(SpendError::Refused(Refusal::Overspend { .. }))));
    assert_eq!(saves, 0);
}

const GOLDEN_JSON: &str = include_str!("../golden/ledger_v1.json");
const GOLDEN_POSTCARD: &str = include_str!("../golden/ledger_v1.postcard.hex");

/// The ledger in the golden files.
fn golden() -> Ledger {
    let mut ledger = Ledger::new(epsilon("1.5"), window(10));
    for (timestamp, amount) in [(3, "1.5"), (1_000, "0.25"), (1_000, "0.000000001"), (1_004, "0.5"), (1_009, "0.1")] {
        let _ = ledger.spend(timestamp, epsilon(amount)).unwrap();
    }
    ledger.close(1_009).unwrap();
    ledger
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.trim().chars().collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

#[test]
fn ledgers_saved_by_version_one_still_load() {
    assert_eq!(serde_json::from_str::<Ledger>(GOLDEN_JSON).unwrap(), golden());
    assert_eq!(postcard::from_bytes::<Ledger>(&bytes_of_hex(GOLDEN_POSTCARD)).unwrap(), golden());
}

#[test]
fn the_saved_form_has_not_changed() {
    let json: serde_json::Value = serde_json::from_str(GOLDEN_JSON).unwrap();
    assert_eq!(serde_json::to_value(golden()).unwrap(), json);
    assert_eq!(postcard::to_allocvec(&golden()).unwrap(), bytes_of_hex(GOLDEN_POSTCARD));
}

/// Otherwise a hand-written ledger with any budget could open the data of another.
#[test]
fn a_loaded_ledger_has_a_new_account() {
    let one = golden();
    assert_ne!(one.account(), golden().account());
    assert_ne!(one.account(), Ledger::fully_spent(epsilon("1"), window(3), 4).account());
    let json = serde_json::to_string(&one).unwrap();
    let loaded: Ledger = serde_json::from_str(&json).unwrap();
    assert_eq!(loaded, one);
    assert_ne!(loaded.account(), one.account());
    let chosen = json.replacen('{', "{\"account\":[7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7],", 1);
    assert!(serde_json::from_str::<Ledger>(&chosen).is_err());
}

#[test]
fn class_ledgers_share_one_account() {
    let mut ledgers = two_classes();
    assert!(ledgers.iter().all(|(_, ledger)| ledger.account() == ledgers.account()));
    let account = ledgers.account();
    assert_eq!(ledgers.spend(1, 4, epsilon("0.1")).unwrap().account(), account);
    let loaded: ClassLedgers = postcard::from_bytes(&postcard::to_allocvec(&ledgers).unwrap()).unwrap();
    assert_eq!(loaded, ledgers);
    assert_ne!(loaded.account(), account);
    assert!(loaded.iter().all(|(_, ledger)| ledger.account() == loaded.account()));
}

#[test]
fn rejects_a_corrupted_state_with_the_reason() {
    let order = "ledger's spends are not in order of time, or reach beyond its clock or window";
    let overspent = "ledger holds spends of 1500000001 units in one window, more than its budget of 1.5";
    for (field, value, reason) in [
        ("version", "2", "ledger version 2 is not known; this program reads version 1"),
        ("version", "0", "ledger version 0 is not known; this program reads version 1"),
        ("spends", r#"[[1000, "1"], [1009, "0.500000001"]]"#, overspent),
        ("spends", r#"[[1009, "1.500000001"]]"#, overspent),
        ("spends", r#"[[1004, "0.1"], [1000, "0.1"]]"#, order),
        ("spends", r#"[[1000, "0.1"], [1000, "0.1"]]"#, order),
        ("spends", r#"[[1010, "0.1"]]"#, order),
        ("spends", r#"[[999, "0.1"]]"#, order),
        ("clock", "null", order),
        ("clock", "1014", order),
        ("clock", "1008", order),
        ("window", r#""unbounded""#, order),
        ("window", r#"{"timestamps": 0}"#, "nonzero"),
        ("window", r#""for_ever""#, "unknown variant `for_ever`"),
        ("budget", r#""0""#, "epsilon must be at least"),
        ("budget", r#""0.5""#, "more than its budget of 0.5"),
        ("spends", r#"[[1000, "0"]]"#, "epsilon must be at least"),
        ("spent", "0", "unknown field `spent`"),
        ("closed", "null", "expected a boolean"),
    ] {
        let mut saved: serde_json::Value = serde_json::from_str(GOLDEN_JSON).unwrap();
        saved[field] = serde_json::from_str(value).unwrap();
        let error = serde_json::from_str::<Ledger>(&saved.to_string()).unwrap_err().to_string();
        assert!(error.contains(reason), "{field} = {value} gave {error:?}");
    }
}

#[test]
fn rejects_a_state_with_a_missing_field() {
    for field in ["version", "budget", "window", "clock", "closed", "spends"] {
        let mut saved: serde_json::Value = serde_json::from_str(GOLDEN_JSON).unwrap();
        saved["spends"] = serde_json::json!([]);
        saved.as_object_mut().unwrap().remove(field);
        let error = serde_json::from_str::<Ledger>(&saved.to_string()).unwrap_err().to_string();
        assert!(error.contains(&format!("missing field `{field}`")), "without {field}: {error:?}");
    }
}

#[test]
fn rejects_a_closed_ledger_without_a_clock() {
    let saved = r#"{"version":1,"budget":"1","window":"unbounded","clock":null,"closed":true,"spends":[]}"#;
    assert!(serde_json::from_str::<Ledger>(saved).is_err());
    assert!(serde_json::from_str::<Ledger>(&saved.replace("true", "false")).is_ok());
}

fn two_classes() -> ClassLedgers {
    let mut ledgers = ClassLedgers::default();
    assert!(ledgers.register(1, Ledger::new(epsilon("0.2"), Window::EVENT)));
    assert!(ledgers.register(2, Ledger::new(epsilon("1"), window(3))));
    ledgers
}

#[test]
fn spending_from_several_classes_is_all_or_nothing() {
    let mut ledgers = two_classes();
    let before = serde_json::to_string(&ledgers).unwrap();
    for (amounts, expected) in [
        (
            vec![(2, epsilon("0.5")), (1, epsilon("0.3"))],
            Refusal::Overspend { timestamp: 4, asked: epsilon("0.3"), remaining: Some(epsilon("0.2")) },
        ),
        (vec![(2, epsilon("0.5")), (3, epsilon("0.1"))], Refusal::UnknownClass { class: 3 }),
        (
            vec![(1, epsilon("0.1")), (2, epsilon("0.5")), (1, epsilon("0.11"))],
            Refusal::Overspend { timestamp: 4, asked: epsilon("0.21"), remaining: Some(epsilon("0.2")) },
        ),
        (
            vec![(2, epsilon("1")), (2, Epsilon::MAX)],
            Refusal::Overspend { timestamp: 4, asked: Epsilon::MAX, remaining: Some(epsilon("1")) },
        ),
    ] {
        assert_eq!(ledgers.spend_all(4, &amounts).unwrap_err(), expected);
        assert_eq!(serde_json::to_string(&ledgers).unwrap(), before, "{amounts:?} changed something");
    }
    let amounts = [(2, epsilon("0.5")), (1, epsilon("0.1")), (2, epsilon("0.25")), (1, epsilon("0.1"))];
    let permits = ledgers.spend_all(4, &amounts).unwrap();
    assert!(permits.iter().map(Permit::epsilon).eq(amounts.iter().map(|(_, amount)| *amount)));
    assert_eq!(ledgers.remaining(1, 4), None);
    assert_eq!(ledgers.remaining(2, 4), Some(epsilon("0.25")));
}

#[test]
fn one_closed_class_refuses_the_spend_of_all() {
    let mut ledgers = ClassLedgers::default();
    ledgers.register(1, Ledger::new(epsilon("1"), Window::EVENT));
    ledgers.register(2, Ledger::fully_spent(epsilon("1"), Window::EVENT, 8));
    let amounts = [(1, epsilon("0.1")), (2, epsilon("0.1"))];
    assert_eq!(ledgers.spend_all(8, &amounts).unwrap_err(), Refusal::Closed { timestamp: 8 });
    assert_eq!(ledgers.spend_all(7, &amounts).unwrap_err(), Refusal::TimeWentBack { timestamp: 7, clock: 8 });
    assert_eq!(ledgers.remaining(1, 7), Some(epsilon("1")));
    assert_eq!(ledgers.spend_all(9, &amounts).unwrap().len(), 2);
    assert!(ledgers.spend_all(9, &[]).unwrap().is_empty());
}

#[test]
fn classes_do_not_share_their_budgets() {
    let mut ledgers = two_classes();
    let _ = ledgers.spend(1, 0, epsilon("0.2")).unwrap();
    assert_eq!(ledgers.remaining(2, 0), Some(epsilon("1")));
    assert_eq!(ledgers.remaining(1, 0), None);
}

#[test]
fn rejects_an_unregistered_class() {
    let mut ledgers = two_classes();
    let refusal = refused(ledgers.spend(7, 0, Epsilon::MIN));
    assert_eq!(refusal.to_string(), "requirement class 7 is not registered");
    assert!(ledgers.get(7).is_none());
    assert_eq!(ledgers.remaining(7, 0), None);
}

#[test]
fn registering_a_class_again_refunds_nothing() {
    let mut ledgers = two_classes();
    let _ = ledgers.spend(1, 0, epsilon("0.2")).unwrap();
    assert!(!ledgers.register(1, Ledger::new(epsilon("5"), Window::EVENT)));
    assert_eq!(ledgers.get(1).map(Ledger::budget), Some(epsilon("0.2")));
    refused(ledgers.spend(1, 0, Epsilon::MIN));
    assert_eq!(ledgers.iter().map(|(class, _)| class).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_permit_knows_its_class() {
    let mut ledgers = two_classes();
    let classes = |permits: Vec<Permit>| permits.iter().map(Permit::class).collect::<Vec<_>>();
    let tenth = epsilon("0.1");
    assert_eq!(classes(vec![ledgers.spend(2, 0, tenth).unwrap()]), [Some(2)]);
    assert_eq!(classes(ledgers.spend_all(1, &[(2, tenth), (1, tenth)]).unwrap()), [Some(2), Some(1)]);
    let (first, second) = ledgers.spend(2, 1, tenth).unwrap().split(epsilon("0.04")).unwrap();
    assert_eq!((first.timestamp(), first.epsilon()), (1, epsilon("0.04")));
    assert_eq!((second.timestamp(), second.epsilon()), (1, epsilon("0.06")));
    assert_eq!(classes(vec![first, second]), [Some(2), Some(2)]);
    assert_eq!(Ledger::new(tenth, Window::EVENT).spend(0, tenth).unwrap().class(), None);
}

#[test]
fn class_permits_are_returned_after_saving() {
    let mut ledgers = two_classes();
    let amounts = [(1, epsilon("0.1")), (2, epsilon("0.7"))];
    let mut saved = String::new();
    let save = |ledgers: &ClassLedgers| serde_json::to_string(ledgers).map(|json| saved = json);
    assert_eq!(ledgers.spend_all_and_save(4, &amounts, save).unwrap().len(), 2);
    assert_eq!(serde_json::from_str::<ClassLedgers>(&saved).unwrap(), ledgers);
    let lost = ledgers.spend_all_and_save(4, &[(1, epsilon("0.1"))], |_| Err("disk full"));
    assert!(matches!(lost, Err(SpendError::NotSaved("disk full"))));
    assert_eq!(ledgers.remaining(1, 4), None);
    let refused = ledgers.spend_all_and_save(4, &amounts, |_| -> Result<(), ()> { panic!("nothing to save") });
    assert!(matches!(refused, Err(SpendError::Refused(Refusal::Overspend { .. }))));
}

#[test]
fn class_ledgers_survive_saving() {
    let mut ledgers = two_classes();
    let _ = ledgers.spend_all(4, &[(1, epsilon("0.1")), (2, epsilon("0.7"))]).unwrap();
    crate::fuzz_bodies::assert_survives_encoding(&ledgers);
    let json = serde_json::to_string(&ledgers).unwrap().replace("\"0.7\"", "\"1.7\"");
    assert!(serde_json::from_str::<ClassLedgers>(&json).unwrap_err().to_string().contains("more than its budget of 1"));
}

#[test]
fn rejects_a_class_saved_twice() {
    let reason = "requirement class 1 has more than one ledger";
    let mut ledgers = ClassLedgers::default();
    ledgers.register(1, Ledger::fully_spent(epsilon("1"), window(3), 4));
    let json = serde_json::to_string(&ledgers).unwrap();
    let fresh = serde_json::to_string(&Ledger::new(epsilon("1"), window(3))).unwrap();
    let twice = json.replacen('{', &format!(r#"{{"1":{fresh},"#), 1);
    assert!(serde_json::from_str::<ClassLedgers>(&twice).unwrap_err().to_string().starts_with(reason));
    assert!(serde_json::from_str::<ClassLedgers>(&twice.replacen("\"1\"", "\"2\"", 1)).is_ok());
    let no_map = serde_json::from_str::<ClassLedgers>("1").unwrap_err().to_string();
    assert!(no_map.contains("expected a ledger for each requirement class"), "{no_map}");

    // The number of classes, then each with its ledger. Postcard gives no reason for invalid bytes.
    let saved = postcard::to_allocvec(&ledgers).unwrap();
    let (_, entry) = saved.split_first().unwrap();
    assert!(postcard::from_bytes::<ClassLedgers>(&[&[2], entry, entry].concat()).is_err());
    let other_class = [&[2], &entry[1..]].concat();
    assert_eq!(postcard::from_bytes::<ClassLedgers>(&[&[2], entry, &other_class].concat()).unwrap().iter().len(), 2);
}
