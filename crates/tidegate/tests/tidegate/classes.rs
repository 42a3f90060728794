//! Requirement classes and users who choose, change, leave and come back: what is spent on each of them.

use tidegate::central::classes::{Class, ClassError, Classes, Registry, Requirement};
use tidegate::central::membership::Membership;
use tidegate::central::{CentralError, Personal, PersonalKind, PersonalSettings};
use tidegate::kernel::primitives::{HistogramError, Neighbours, grouped_histograms};
use tidegate::kernel::{ClassLedgers, Epsilon, Ledger, Randomness, SeededRandom, Window};

use crate::personal::{classes, spends_at};

/// What was spent on one user: for each timestamp the class in which the user counted, and the amount.
type Account = Vec<Option<(u16, u64)>>;

/// Whether every window of the length of a class, of those that hold a timestamp at which the user counted in that
/// class, spends at most what the class was promised. Added up anew for each window.
fn keeps_all_promises(account: &Account, classes: &Classes) -> bool {
    let promise = |class: u16| classes.all()[usize::from(class)].requirement;
    (0..account.len()).all(|at| {
        let Some((class, _)) = account[at] else { return true };
        let Requirement { epsilon, window } = promise(class);
        let length = window.get() as usize;
        (at.saturating_sub(length - 1)..=at).all(|start| {
            let spent: u64 = account[start..].iter().take(length).flatten().map(|(_, amount)| amount).sum();
            spent <= epsilon.units()
        })
    })
}

fn ledgers(classes: &Classes) -> ClassLedgers {
    let mut ledgers = ClassLedgers::default();
    for (number, Class { requirement, .. }) in (0..).zip(classes.all()) {
        ledgers.register(number, Ledger::new(requirement.epsilon, Window::Timestamps(requirement.window)));
    }
    ledgers
}

/// Every sequence of a user's moves over eight timestamps, with classes that spend all they can whenever it is the turn
/// of their phase. `counts` says in which class the user counts, given the registry and the class that the user asked
/// for.
fn explore_moves(counts: impl Fn(&Registry, u32, Option<u16>) -> Option<u16>) -> (usize, usize) {
    let declared = classes(&[("1", 2), ("0.5", 3), ("0.3", 1)]);
    let (mut kept, mut broken) = (0, 0);
    for code in 0..4_u32.pow(7) {
        for phase in 0..3 {
            let mut registry = Registry::new(declared.clone());
            let mut ledgers = ledgers(&declared);
            let user = registry.join(0).unwrap();
            let mut asked = Some(0);
            let mut account = Account::new();
            for timestamp in 0..8 {
                if timestamp > 0 {
                    // Into one of the three classes, or away.
                    let wanted = (code / 4_u32.pow(timestamp - 1) % 4) as u16;
                    let wanted = (wanted < 3).then_some(wanted);
                    match (asked, wanted) {
                        (Some(_), Some(class)) => registry.change(user, class).unwrap(),
                        (Some(_), None) => registry.leave(user).unwrap(),
                        (None, Some(class)) => registry.rejoin(user, class).unwrap(),
                        (None, None) => {}
                    }
                    asked = wanted;
                }
                let timestamp = u64::from(timestamp);
                registry.begin(timestamp).unwrap();
                let spent: Vec<u64> = (0..3)
                    .map(|class| match ledgers.remaining(class, timestamp) {
                        Some(left) if (timestamp + u64::from(class)) % 3 != phase => {
                            ledgers.spend(class, timestamp, left).unwrap().epsilon().units()
                        }
                        _ => 0,
                    })
                    .collect();
                let class = counts(&registry, user, asked);
                account.push(class.map(|class| (class, spent[usize::from(class)])));
            }
            *(if keeps_all_promises(&account, &declared) { &mut kept } else { &mut broken }) += 1;
        }
    }
    (kept, broken)
}

#[test]
fn no_promise_is_broken_under_any_sequence_of_moves() {
    let (kept, broken) = explore_moves(|registry, user, _| registry.class_of(user));
    assert_eq!((kept, broken), (3 * 4_usize.pow(7), 0));
    // Users who counted in a new class at once would often lose more than they were promised: the check would see it.
    let (_, broken) = explore_moves(|_, _, asked| asked);
    assert!(broken > 1_000, "{broken}");
}

#[test]
fn a_membership_agrees_with_the_registry() {
    let declared = classes(&[("1", 2), ("0.5", 3), ("0.3", 1)]);
    for code in 0..4_u32.pow(7) {
        // Timestamps may be skipped.
        for gap in [1, 2] {
            let mut registry = Registry::new(declared.clone());
            let user = registry.join(0).unwrap();
            let mut membership = Membership::default().changed(&declared, Some(0), 0).unwrap();
            let (mut asked, mut was, mut next) = (Some(0), Vec::new(), 0);
            for turn in 0..8 {
                if turn > 0 {
                    let wanted = (code / 4_u32.pow(turn - 1) % 4) as u16;
                    let wanted = (wanted < 3).then_some(wanted);
                    match (asked, wanted) {
                        (Some(_), Some(class)) => registry.change(user, class).unwrap(),
                        (Some(_), None) => registry.leave(user).unwrap(),
                        (None, Some(class)) => registry.rejoin(user, class).unwrap(),
                        (None, None) => {}
                    }
                    membership = membership.changed(&declared, wanted, next).unwrap();
                    assert_eq!(membership.changed(&declared, wanted, next + 5), Ok(membership), "a repetition");
                    asked = wanted;
                }
                let timestamp = u64::from(turn) * gap;
                registry.begin(timestamp).unwrap();
                assert_eq!(membership.class_at(timestamp), registry.class_of(user), "{code} at {timestamp}");
                was.push((timestamp, registry.class_of(user)));
                // A timestamp that is released late counts the user in no other class.
                for (earlier, class) in &was {
                    let late = membership.class_at(*earlier);
                    assert!(late.is_none() || late == *class, "{code} at {earlier}, seen at {timestamp}");
                }
                next = timestamp + 1;
            }
        }
    }
}

/// In which classes' histograms the value of each user is, read back with noise that is practically none (e⁻¹⁰⁰⁰). Each
/// has a cell.
fn classes_with(registry: &Registry, timestamp: u64, users: &[u32]) -> Vec<Vec<u16>> {
    let mut ledgers = ClassLedgers::default();
    let classes = 0..registry.classes().len() as u32;
    for class in classes.clone() {
        ledgers.register(class, Ledger::new(Epsilon::MAX, Window::EVENT));
    }
    let permits = classes.map(|class| vec![ledgers.spend(class, timestamp, Epsilon::MAX).unwrap()]);
    let permits: Vec<_> = permits.collect();
    let sealed = registry
        .seal(ledgers.account(), timestamp, users.iter().map(|user| (*user, *user)), users.len() as u32)
        .unwrap();
    let read = grouped_histograms(permits, &sealed, Neighbours::AddRemove, &mut SeededRandom::new(timestamp)).unwrap();
    let holds = |user: u32| -> Vec<u16> {
        let classes = (0..).zip(read.value());
        classes.filter(|(_, counts)| counts[user as usize] != 0).map(|(class, _)| class).collect()
    };
    users.iter().map(|user| holds(*user)).collect()
}

fn of_registry(registry: &Registry) -> impl Fn(&u32) -> Vec<u16> {
    |user| registry.class_of(*user).into_iter().collect()
}

#[test]
fn restored_registry_skips_the_longest_window() {
    let mut registry = Registry::new(classes(&[("1", 2), ("1", 5)]));
    let (moving, staying) = (registry.join(0).unwrap(), registry.join(1).unwrap());
    registry.begin(3).unwrap();
    registry.change(moving, 1).unwrap();
    let mut restored = registry.restored(9);
    assert_eq!(restored.begin(14), Err(ClassError::Time { given: 14, last: 14 }));
    let saved = postcard::to_allocvec(&restored).unwrap();
    assert_eq!(postcard::from_bytes::<Registry>(&saved).unwrap(), restored);
    restored.begin(15).unwrap();
    assert_eq!((restored.class_of(moving), restored.class_of(staying)), (None, Some(1)));
    restored.begin(19).unwrap();
    assert_eq!(restored.class_of(moving), Some(1));
    // A save that is not older than what was published loses no time that it knows of.
    assert_eq!(restored.restored(2).begin(19), Err(ClassError::Time { given: 19, last: 19 }));
}

#[test]
fn mechanism_publishes_values_sealed_by_its_registry() {
    let declared = classes(&[("1", 2), ("1", 5)]);
    let mut registry = Registry::new(declared.clone());
    let user = registry.join(1).unwrap();
    registry.begin(3).unwrap();
    let new = |classes| Personal::new(PersonalKind::Pba, classes, PersonalSettings::new(2)).unwrap();
    let random = || SeededRandom::new(32);
    let mut by_hand = new(declared.clone());
    let sealed = registry.seal(by_hand.ledgers().account(), 3, [(user, 1)], 2).unwrap();
    let by_hand = by_hand.push(&sealed, registry.members(), &mut random()).unwrap();
    let mut mechanism = new(declared);
    let unsealed = mechanism.push_registered(&registry, 3, [(user, 2)], &mut random());
    assert!(matches!(unsealed, Err(CentralError::Registry(ClassError::Histogram(_)))));
    assert_eq!(mechanism.push_registered(&registry, 3, [(user, 1)], &mut random()), Ok(by_hand));
    let other = new(classes(&[("1", 2), ("1", 6)])).push_registered(&registry, 3, [(user, 1)], &mut random());
    assert_eq!(other, Err(CentralError::OtherClasses));
}

#[test]
fn guarantees_hold_for_randomly_moving_users() {
    let declared = classes(&[("0.4", 6), ("1", 3), ("2", 9), ("0.7", 1)]);
    for kind in PersonalKind::ALL {
        let mut random = SeededRandom::new(31);
        let mut registry = Registry::new(declared.clone());
        let mut mechanism = Personal::new(kind, declared.clone(), PersonalSettings::new(2)).unwrap();
        let users: Vec<u32> = (0..40).map(|user| registry.join(user % 4).unwrap()).collect();
        let mut there = [true; 40];
        let mut accounts = vec![Account::new(); 40];
        for timestamp in 0..150 {
            for user in &users {
                let (class, there) = ((random.next_word() % 4) as u16, &mut there[*user as usize]);
                match random.next_word() % 12 {
                    0 if *there => registry.change(*user, class).unwrap(),
                    1 if *there => {
                        registry.leave(*user).unwrap();
                        *there = false;
                    }
                    2 if !*there => {
                        registry.rejoin(*user, class).unwrap();
                        *there = true;
                    }
                    _ => {}
                }
            }
            registry.begin(timestamp).unwrap();
            let counting = users.iter().filter_map(|user| registry.class_of(*user));
            let mut members = [0; 4];
            counting.for_each(|class| members[usize::from(class)] += 1);
            assert_eq!(registry.members(), members);
            let value = u32::from(timestamp / 4 % 2 == 0);
            let values = users.iter().map(|user| (*user, value));
            let sealed = registry.seal(mechanism.ledgers().account(), timestamp, values, 2).unwrap();
            mechanism.push(&sealed, registry.members(), &mut random).unwrap();
            assert_eq!(
                classes_with(&registry, timestamp, &users),
                users.iter().map(of_registry(&registry)).collect::<Vec<_>>()
            );
            let spent = spends_at(&mechanism, timestamp);
            for (user, account) in users.iter().zip(&mut accounts) {
                account.push(registry.class_of(*user).map(|class| (class, spent[usize::from(class)])));
            }
            let saved = postcard::to_allocvec(&registry).unwrap();
            assert_eq!(postcard::from_bytes::<Registry>(&saved).unwrap(), registry);
        }
        assert!(accounts.iter().all(|account| keeps_all_promises(account, &declared)), "{kind}");
        // Somebody sat out, and most did not.
        let counted: usize = accounts.iter().map(|account| account.iter().flatten().count()).sum();
        assert!((2_000..5_500).contains(&counted), "{counted}");
    }
}

#[test]
fn users_count_again_as_soon_as_no_window_holds_both() {
    let declared = classes(&[("1", 4), ("1", 2)]);
    let mut registry = Registry::new(declared);
    let (moving, leaving, staying) = (registry.join(0).unwrap(), registry.join(1).unwrap(), registry.join(1).unwrap());
    assert_eq!((registry.class_of(moving), registry.members()), (None, &[0, 0][..]));
    registry.begin(10).unwrap();
    registry.change(moving, 1).unwrap();
    registry.leave(leaving).unwrap();
    // Until the next timestamp begins everything is as it was.
    assert_eq!((registry.class_of(moving), registry.members()), (Some(0), &[1, 2][..]));
    registry.begin(11).unwrap();
    assert_eq!((registry.class_of(moving), registry.class_of(leaving)), (None, None));
    // Back in the class of before at once; into another only after the longer window.
    registry.rejoin(leaving, 1).unwrap();
    registry.begin(13).unwrap();
    assert_eq!((registry.class_of(moving), registry.class_of(leaving)), (None, Some(1)));
    registry.begin(14).unwrap();
    assert_eq!((registry.class_of(moving), registry.class_of(staying)), (Some(1), Some(1)));
    // A change that is taken back has no effect, and neither has one to the same class.
    registry.change(staying, 0).unwrap();
    registry.change(staying, 1).unwrap();
    registry.change(moving, 1).unwrap();
    registry.begin(15).unwrap();
    assert_eq!((registry.class_of(staying), registry.members()), (Some(1), &[0, 3][..]));
}

#[test]
fn leaving_is_forgotten_only_when_no_window_reaches_back() {
    let declared = classes(&[("1", 2), ("1", 5)]);
    let mut registry = Registry::new(declared);
    let user = registry.join(0).unwrap();
    registry.begin(0).unwrap();
    registry.leave(user).unwrap();
    let size = |registry: &Registry| postcard::to_allocvec(registry).unwrap().len();
    registry.begin(4).unwrap();
    let remembering = size(&registry);
    let mut early = registry.clone();
    early.rejoin(user, 1).unwrap();
    // It counted at 0; in a window of five, 4 is too early and 5 is not.
    assert_eq!(early.class_of(user), None);
    early.begin(5).unwrap();
    assert_eq!(early.class_of(user), Some(1));
    registry.begin(6).unwrap();
    assert!(size(&registry) < remembering);
    registry.rejoin(user, 1).unwrap();
    registry.begin(7).unwrap();
    assert_eq!(registry.class_of(user), Some(1));
}

#[test]
fn levels_declare_named_classes_for_each_pair() {
    let window = |length| std::num::NonZeroU64::new(length).unwrap();
    let budget = |text: &str| -> Epsilon { text.parse().unwrap() };
    let privacy = [("high", budget("0.1")), ("medium", budget("0.5")), ("low", budget("0.9"))];
    let windows = [("small", window(40)), ("medium", window(80)), ("large", window(120))];
    let classes = Classes::levels(&privacy, &windows).unwrap();
    let number = classes.find("medium/large").unwrap();
    let expected = Requirement { epsilon: budget("0.5"), window: window(120) };
    assert_eq!((number, classes.all()[usize::from(number)].requirement, classes.len()), (5, expected, 9));
    assert_eq!(classes.find("medium"), None);
    let json = serde_json::to_string(&classes).unwrap();
    assert_eq!(serde_json::from_str::<Classes>(&json).unwrap(), classes);

    assert_eq!(Classes::new(Vec::new()), Err(ClassError::Number { given: 0 }));
    let twice = Classes::levels(&[privacy[0], privacy[0]], &windows).unwrap_err();
    assert_eq!(twice.to_string(), "two classes are called \"high/small\"");
}

#[test]
fn bad_calls_are_refused_with_what_is_allowed() {
    let mut registry = Registry::new(classes(&[("1", 2), ("1", 5)]));
    assert_eq!(registry.join(2), Err(ClassError::Unknown { class: 2, classes: 2 }));
    assert_eq!(registry.change(0, 1), Err(ClassError::NoSuchUser { user: 0 }));
    let user = registry.join(1).unwrap();
    assert_eq!(registry.change(user, 7).unwrap_err().to_string(), "class 7 is not one of 0..2");
    assert_eq!(registry.rejoin(user, 0), Err(ClassError::IsThere { user }));
    let account = ClassLedgers::default().account();
    assert_eq!(registry.seal(account, 3, [(user, 0)], 2).map(drop), Err(ClassError::NotBegun { given: 3 }));
    registry.begin(3).unwrap();
    assert_eq!(registry.begin(3), Err(ClassError::Time { given: 3, last: 3 }));
    let seal = |values: &[(u32, u32)]| registry.seal(account, 3, values.iter().copied(), 2).map(drop).unwrap_err();
    assert_eq!(seal(&[(user, 1), (9, 1)]), ClassError::UnknownUser { position: 1 });
    assert_eq!(seal(&[(user, 1), (user, 0)]), ClassError::SecondValue { position: 1 });
    assert_eq!(seal(&[(user, 2)]), HistogramError::Value { position: 0, domain: 2 }.into());
    assert!(matches!(registry.seal(account, 3, [], 0), Err(ClassError::Histogram(HistogramError::Cells { .. }))));
    for passed_or_to_come in [2, 4] {
        let error = ClassError::NotBegun { given: passed_or_to_come };
        assert_eq!(registry.seal(account, passed_or_to_come, [(user, 0)], 2).map(drop), Err(error));
    }
    registry.leave(user).unwrap();
    assert_eq!(registry.leave(user), Err(ClassError::HasLeft { user }));
    assert_eq!(registry.change(user, 0), Err(ClassError::HasLeft { user }));

    let json = serde_json::to_value(&registry).unwrap();
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = json.clone();
        change(&mut changed);
        serde_json::from_value::<Registry>(changed).map(drop).unwrap_err().to_string()
    };
    assert_eq!(serde_json::from_value::<Registry>(json.clone()).unwrap(), registry);
    assert!(refused(&|state| state["version"] = 2.into()).contains("version 2"));
    assert!(refused(&|state| state["counting"][0] = 5.into()).contains("does not exist"));
    assert!(refused(&|state| state["moving"]["0"]["counted"] = serde_json::json!([1, 9])).contains("do not fit"));
    assert!(refused(&|state| state["clock"] = serde_json::Value::Null).contains("do not fit"));
    // Who counts at the timestamp that has begun has counted then, and there.
    for forgotten in [serde_json::Value::Null, serde_json::json!([0, 3]), serde_json::json!([1, 2])] {
        assert!(refused(&|state| state["moving"]["0"]["counted"] = forgotten.clone()).contains("do not fit"));
    }
    assert!(refused(&|state| state["moving"]["0"]["more"] = 1.into()).contains("more"));
    for field in ["wanted", "counted"] {
        let without = |state: &mut serde_json::Value| drop(state["moving"]["0"].as_object_mut().unwrap().remove(field));
        assert!(refused(&without).contains(field));
    }
    assert!(refused(&|state| drop(state.as_object_mut().unwrap().remove("clock"))).contains("clock"));
}

#[test]
fn saved_registries_of_version_1_still_load() {
    let golden = include_str!("../golden/registry_v1.json");
    let mut registry = Registry::new(classes(&[("1", 2), ("0.5", 5)]));
    let users: Vec<u32> = [0, 1, 1, 0].map(|class| registry.join(class).unwrap()).to_vec();
    registry.begin(3).unwrap();
    registry.change(users[1], 0).unwrap();
    registry.leave(users[2]).unwrap();
    registry.begin(4).unwrap();
    registry.join(1).unwrap();
    let now = serde_json::to_string_pretty(&registry).unwrap();
    assert_eq!(golden.trim_end(), now, "{now}");
    assert_eq!(serde_json::from_str::<Registry>(golden).unwrap(), registry);
}
