//! [`Stream`] with every mechanism of the list.

use tidegate::kernel::{SeededRandom, VaultKey};
use tidegate::local::Step;
use tidegate::mechanisms::{self, Family, Mechanism};
use tidegate::release::Release;
use tidegate::spec::StreamSpec;
use tidegate::stream::{Entry, Stream, StreamError};

use crate::mechanisms::least_spec;

const TIMESTAMPS: u64 = 8;

fn new(mechanism: &Mechanism) -> Stream {
    let mut stream = Stream::new(least_spec(mechanism)).unwrap();
    enrol(&mut stream);
    stream
}

fn enrol(stream: &mut Stream) {
    if stream.classes().is_some() {
        for (user, class) in [("ann", "a"), ("bob", "b"), ("eve", "a")] {
            stream.enrol(user, class).unwrap();
        }
    }
}

fn entries(stream: &Stream, timestamp: u64) -> Vec<Entry> {
    if stream.spec().family() == Family::Scalar {
        return vec![stream.reading(timestamp, &(10 * timestamp).to_string()).unwrap()];
    }
    let value = |user: &str, value: &str| stream.value(timestamp, user, value).unwrap();
    vec![value("ann", "x"), value("bob", if timestamp < 4 { "x" } else { "y" }), value("eve", "y")]
}

/// All releases of a run; `between` is called when no timestamp is open.
fn run(mechanism: &Mechanism, mut between: impl FnMut(Stream) -> Stream) -> Vec<Release> {
    let (mut stream, random) = (new(mechanism), &mut SeededRandom::new(11));
    let mut releases = Vec::new();
    for timestamp in 0..TIMESTAMPS {
        for entry in entries(&stream, timestamp) {
            releases.extend(stream.push(entry, random).unwrap().releases);
        }
        if stream.spec().family() != Family::Scalar {
            releases.extend(stream.finish(random).unwrap().releases);
        }
        if !(mechanism.short_name == "batched" && timestamp % 2 == 0) {
            stream = between(stream);
        }
    }
    releases.extend(stream.finish(random).unwrap().releases);
    releases
}

#[test]
fn every_mechanism_releases_every_timestamp() {
    for mechanism in mechanisms::all() {
        let releases = run(mechanism, |stream| stream);
        let users = if mechanism.family == Family::Sequence { 3 } else { 1 };
        assert_eq!(releases.len() as u64, users * TIMESTAMPS, "{mechanism}");
    }
}

/// A stream that is saved and loaded after each timestamp releases the same as one that is not.
#[test]
fn every_mechanism_goes_on_after_a_restart() {
    let key = VaultKey::from_bytes([5; 32]);
    for mechanism in mechanisms::all() {
        let restarted = run(mechanism, |stream| {
            let saved = stream.save(Some(&key)).unwrap();
            let mut loaded = Stream::load(stream.spec().clone(), &saved, Some(&key)).unwrap();
            enrol(&mut loaded);
            loaded
        });
        assert_eq!(restarted, run(mechanism, |stream| stream), "{mechanism}");
    }
}

#[test]
fn a_state_is_loaded_only_with_its_spec() {
    let key = VaultKey::from_bytes([5; 32]);
    let all: Vec<&Mechanism> = mechanisms::all().collect();
    for (one, other) in all.iter().zip(all.iter().cycle().skip(1)) {
        let saved = new(one).save(Some(&key)).unwrap();
        let (one, other) = (least_spec(one), least_spec(other));
        let loaded = Stream::load(other.clone(), &saved, Some(&key));
        assert_eq!(loaded.is_ok(), one == other, "{one:?} as {other:?}");
        assert!(Stream::load(one.clone(), &saved[..saved.len() - 1], Some(&key)).is_err());
        let newer = [&[9], &saved[1..]].concat();
        let error = Stream::load(one, &newer, Some(&key)).unwrap_err().to_string();
        assert!(error.contains("version 9"), "{error}");
    }
}

#[test]
fn a_scalar_stream_is_saved_under_a_key_only() {
    let stream = new(mechanisms::find("contin").unwrap());
    assert!(matches!(stream.save(None), Err(StreamError::NoKey)));
    let saved = stream.save(Some(&VaultKey::from_bytes([1; 32]))).unwrap();
    assert!(matches!(Stream::load(stream.spec().clone(), &saved, None), Err(StreamError::NoKey)));
}

/// A second value of a user would count the user twice, for the price of once.
#[test]
fn refuses_a_second_value_of_a_user() {
    for name in ["uniform", "pbd", "lbu", "plbu"] {
        let (mut stream, random) = (new(mechanisms::find(name).unwrap()), &mut SeededRandom::new(3));
        let entry = |stream: &Stream, t, value| stream.value(t, "ann", value).unwrap();
        stream.push(entry(&stream, 0, "x"), random).unwrap();
        let error = stream.push(entry(&stream, 0, "y"), random).unwrap_err();
        assert!(matches!(error, StreamError::Entry { field: "user", .. }), "{error}");
        assert_eq!(stream.push(entry(&stream, 1, "y"), random).unwrap().releases.len(), 1);
    }
}

/// What a refused entry would have released is not lost.
#[test]
fn a_refused_entry_changes_nothing() {
    let random = &mut SeededRandom::new(3);
    for name in ["uniform", "pbd", "plbu", "lpa", "crr"] {
        let mut stream = new(mechanisms::find(name).unwrap());
        let push = |stream: &mut Stream, timestamp, user: &str, value, random: &mut SeededRandom| {
            let released = stream.push(Entry::Value { timestamp, user: user.into(), value }, random);
            released.map(|released| released.releases.len())
        };
        let first = push(&mut stream, 5, "ann", 0, random).unwrap();
        assert!(push(&mut stream, 6, "ann", 2, random).is_err(), "{name}: no such value");
        assert!(push(&mut stream, 4, "ann", 0, random).is_err(), "{name}: an earlier timestamp");
        if stream.classes().is_some() {
            assert!(push(&mut stream, 6, "stranger", 0, random).is_err(), "{name}: not enrolled");
        }
        let rest = stream.finish(random).unwrap().releases;
        assert_eq!(first + rest.len(), 1, "{name}");
        assert!(push(&mut stream, 5, "ann", 0, random).is_err(), "{name}: it is over");
    }
    let mut stream = new(mechanisms::find("uniform").unwrap());
    stream.push(stream.value(0, "ann", "x").unwrap(), random).unwrap();
    let counts = |counts: &[u64]| Entry::Counts { timestamp: 1, counts: counts.to_vec() };
    assert!(stream.push(counts(&[1, 2, 3]), random).is_err());
    assert_eq!(stream.push(counts(&[1, 2]), random).unwrap().releases.len(), 2);
    assert!(matches!(new(mechanisms::find("laplace").unwrap()).value(0, "ann", "x"), Err(StreamError::Entry { .. })));
}

#[test]
fn budgets_are_told_by_class_and_window() {
    let random = &mut SeededRandom::new(3);
    let mut stream = new(mechanisms::find("uniform").unwrap());
    stream.push(stream.value(0, "ann", "x").unwrap(), random).unwrap();
    stream.finish(random).unwrap();
    let [budget] = &stream.budgets(1)[..] else { panic!("one guarantee for all") };
    assert_eq!((budget.epsilon.to_string(), budget.class.as_deref()), ("1".to_owned(), None));
    assert!((budget.left - 2.0 / 3.0).abs() < 1e-6, "a third of the window is spent");
    let spent = budget.spent.unwrap().as_f64();
    assert!((spent - 1.0 / 3.0).abs() < 1e-6, "{spent}");
    assert_eq!(stream.budgets(9)[0].spent, None);
    let by_class = new(mechanisms::find("pba").unwrap()).budgets(0);
    let names: Vec<_> = by_class.iter().map(|budget| budget.class.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_saved_state_tells_its_budgets_without_a_key() {
    let random = &mut SeededRandom::new(3);
    let mut numbers = new(mechanisms::find("contin").unwrap());
    numbers.push(numbers.reading(4, "1").unwrap(), random).unwrap();
    let key = VaultKey::new().unwrap();
    let saved = numbers.save(Some(&key)).unwrap();
    let balance = Stream::balance(numbers.spec().clone(), &saved, None).unwrap();
    assert_eq!((balance.last, balance.users, balance.budgets), (Some(4), None, numbers.budgets(5)));
    for name in ["uniform", "lpa", "pba", "plbu"] {
        let mut stream = new(mechanisms::find(name).unwrap());
        stream.push(stream.value(4, "ann", "x").unwrap(), random).unwrap();
        stream.finish(random).unwrap();
        let balance = Stream::balance(stream.spec().clone(), &stream.save(None).unwrap(), None).unwrap();
        assert_eq!((balance.last, &balance.budgets), (Some(4), &stream.budgets(5)), "{name}");
        assert_eq!(balance.budgets[0].slots_left.is_some(), name == "lpa", "{name}");
    }
    let mut users = new(mechanisms::find("rr").unwrap());
    users.push(users.value(7, "ann", "x").unwrap(), random).unwrap();
    let balance = Stream::balance(users.spec().clone(), &users.save(None).unwrap(), None).unwrap();
    assert_eq!((balance.last, balance.users, balance.budgets.len()), (Some(7), Some(1), 1));
}

#[test]
fn a_timestamp_without_questions_is_over_once_opened() {
    let lsp = Family::Local.mechanisms().find(|listed| listed.short_name == "lsp").unwrap();
    let mut stream = new(lsp);
    let Step::Ask(questions) = stream.open(3).unwrap() else { panic!("lsp begins with a question") };
    assert!(matches!(stream.answer(&questions, &[None]).unwrap(), Step::Done(_)));
    assert_eq!(stream.last(), Some(3));
    // The whole budget of the window is spent.
    assert!(matches!(stream.open(4).unwrap(), Step::Done(_)));
    assert_eq!(stream.last(), Some(4));
}

#[test]
fn answers_standing_queries() {
    let json = r#"{ "mechanism": "uniform", "epsilon": 1, "window": 3, "domain": ["x", "y"],
        "queries": [{ "name": "now", "value": "y", "unit": "counts" }] }"#;
    let mut stream = Stream::new(serde_json::from_str::<StreamSpec>(json).unwrap()).unwrap();
    let random = &mut SeededRandom::new(3);
    for timestamp in 0..3 {
        let counts = Entry::Counts { timestamp, counts: vec![3, 4] };
        for release in stream.push(counts, random).unwrap().releases {
            let said = stream.answer_queries(&release, None).unwrap();
            assert_eq!(said.iter().map(|said| said.name).collect::<Vec<_>>(), ["now"]);
        }
    }
}

#[test]
fn a_refused_symbol_keeps_the_open_batch() {
    let (mut stream, random) = (new(mechanisms::find("batched").unwrap()), &mut SeededRandom::new(3));
    let symbol = |timestamp| Entry::Value { timestamp, user: "ann".into(), value: 0 };
    stream.push(symbol(0), random).unwrap();
    assert!(matches!(stream.push(symbol(3), random), Err(StreamError::Entry { field: "t", .. })));
    assert_eq!(stream.waiting(), 1);
    assert_eq!(stream.push(symbol(1), random).unwrap().releases.len(), 2);
}

/// The open timestamp is released, and not lost, where an empty one is out of time.
#[test]
fn an_empty_timestamp_out_of_time_changes_nothing() {
    let random = &mut SeededRandom::new(3);
    for name in ["uniform", "pbd", "lpa", "plbu"] {
        let mut stream = new(mechanisms::find(name).unwrap());
        stream.push(stream.value(7, "ann", "x").unwrap(), random).unwrap();
        for over in [3, 7] {
            assert!(matches!(stream.pass_empty(over, random), Err(StreamError::Entry { field: "t", .. })), "{name}");
        }
        assert_eq!(stream.pass_empty(8, random).unwrap().releases.len(), 2, "{name}");
    }
}

#[test]
fn a_state_of_plbu_is_of_one_domain_and_oracle() {
    let plbu = mechanisms::find("plbu").unwrap();
    let saved = new(plbu).save(None).unwrap();
    let json = serde_json::to_string(&least_spec(plbu)).unwrap();
    for changed in [
        json.replace(r#"["x","y"]"#, r#"["x","y","z"]"#),
        json.replace("{\"family\"", "{\"oracle\":\"grr\",\"family\""),
    ] {
        assert_ne!(changed, json);
        let spec = serde_json::from_str(&changed).unwrap();
        assert!(matches!(Stream::load(spec, &saved, None), Err(StreamError::State(_))), "{changed}");
    }
}

/// A log line with a stream or an entry in it must not tell a value or a user.
#[test]
fn debug_forms_show_no_data() {
    let random = &mut SeededRandom::new(3);
    for mechanism in mechanisms::all() {
        let mut stream = new(mechanism);
        let entries = entries(&stream, 4);
        for entry in &entries {
            assert_eq!(format!("{entry:?}"), "Entry { timestamp: 4, .. }");
        }
        for entry in entries {
            stream.push(entry, random).unwrap();
        }
        let shown = format!("{stream:?}");
        let end = if mechanism.family == Family::Scalar { "Some(4)" } else { "None" };
        let name = stream.spec().mechanism().full_name;
        assert_eq!(shown, format!("Stream {{ mechanism: {name:?}, last: {end}, .. }}"));
    }
}
