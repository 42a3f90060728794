//! Saved state: golden files, locked parts and validation.

use std::num::{NonZeroU32, NonZeroU64};

use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{SeededRandom, UnlockError, VaultKey};
use tidegate::scalar::{Publication, SavedScalar, Scalar, ScalarError, ScalarKind, ScalarSettings, Truncation};

use super::{reloaded, settings, stream};

#[test]
fn loads_only_valid_state_with_its_key() {
    let key = VaultKey::from_bytes([9; 32]);
    let mut mechanism = Scalar::new(ScalarKind::Contin, settings("1", 10)).unwrap();
    mechanism.push(mechanism.seal(0, 77.0).unwrap(), &mut SeededRandom::new(1)).unwrap();
    let saved = serde_json::to_value(mechanism.save(&key).unwrap()).unwrap();
    let load = |value: serde_json::Value, key: &VaultKey| {
        let saved: SavedScalar = serde_json::from_value(value).map_err(|error| error.to_string())?;
        Scalar::load(saved, key).map_err(|error| error.to_string())
    };
    assert!(load(saved.clone(), &key).is_ok());
    assert!(load(saved.clone(), &VaultKey::from_bytes([8; 32])).unwrap_err().contains("the key is another one"));
    let changed = |path: &str, value: serde_json::Value| {
        let mut changed = saved.clone();
        *changed.pointer_mut(path).unwrap() = value;
        load(changed, &key).map(|_| ()).unwrap_err()
    };
    assert_eq!(changed("/version", 2.into()), "the saved mechanism has version 2; this program reads version 1");
    assert!(changed("/kind", "laplace".into()).contains("does not fit"));
    assert!(changed("/last", 3.into()).contains("the ledger"));
    assert!(changed("/last", serde_json::Value::Null).contains("the ledger"));
    assert!(changed("/bound", 50.into()).contains("the bound"));
    assert!(changed("/settings/delay", 0.into()).contains("or their state were changed"));
    assert!(
        changed("/stream/0", (saved["stream"][0].as_u64().unwrap() ^ 1).into()).contains("or their state were changed")
    );
    assert!(changed("/machine/batch/done", 1.into()).contains("or their state were changed"));
    assert!(changed("/settings/epsilon", "0.5".into()).contains("the ledger"));
}

/// Forms with a locked part that has something in it after a reading, and where that is saved.
const LOCKED: [(ScalarKind, &str); 5] = [
    (ScalarKind::Contin, "/machine/batch/held"),
    (ScalarKind::Bucorder, "/machine/batch/held"),
    (ScalarKind::Pegasus, "/machine/group/group"),
    (ScalarKind::PegasusDelay, "/machine/group/group"),
    (ScalarKind::Comporder, "/machine/window/window"),
];

fn with_sums(kind: ScalarKind, settings: ScalarSettings) -> ScalarSettings {
    ScalarSettings { publication: (kind == ScalarKind::Bucorder).then_some(Publication::Sums), ..settings }
}

/// The state after each of these timestamps.
pub fn states(
    settings: ScalarSettings,
    kind: ScalarKind,
    timestamps: &[u64],
    key: &VaultKey,
) -> Vec<serde_json::Value> {
    let mut mechanism = Scalar::new(kind, settings).unwrap();
    let random = &mut SeededRandom::new(1);
    let mut state = |timestamp: &u64| {
        mechanism.push(mechanism.seal(*timestamp, 77.0).unwrap(), random).unwrap();
        serde_json::to_value(mechanism.save(key).unwrap()).unwrap()
    };
    timestamps.iter().map(&mut state).collect()
}

fn load(state: serde_json::Value, key: &VaultKey) -> Result<Scalar, ScalarError> {
    Scalar::load(serde_json::from_value(state).unwrap(), key)
}

/// With parts of an older state, readings that were published since would be published again with fresh noise.
#[test]
fn rejects_locked_part_of_an_older_state() {
    let key = VaultKey::from_bytes([9; 32]);
    let truncated =
        ScalarSettings { truncation: Some(Truncation { every: NonZeroU32::MIN, percent: 99 }), ..settings("1", 3) };
    let forms = LOCKED.map(|(kind, place)| (kind, place, with_sums(kind, settings("1", 3))));
    for (kind, place, settings) in forms.into_iter().chain([(ScalarKind::Laplace, "/sample", truncated)]) {
        let states = states(settings, kind, &[0, 1, 2, 3, 4, 5], &key);
        for (newer, state) in states.iter().enumerate() {
            assert!(load(state.clone(), &key).is_ok(), "{kind}");
            for older in &states[..newer] {
                let mut spliced = state.clone();
                *spliced.pointer_mut(place).unwrap() = older.pointer(place).unwrap().clone();
                assert_eq!(load(spliced, &key).err(), Some(ScalarError::Locked(UnlockError::Key)), "{kind}");
            }
        }
    }
}

/// With parts of another stream, a reading would be published with less noise than it was pushed for.
#[test]
fn rejects_locked_part_of_another_stream() {
    let key = VaultKey::from_bytes([9; 32]);
    for (kind, place) in LOCKED {
        let reading = with_sums(kind, settings("1", 3));
        let count = ScalarSettings { protects: Protects::Contribution(NonZeroU64::MIN), ..reading };
        let from = &states(reading, kind, &[0], &key)[0];
        for other in [count, reading] {
            let into = &states(other, kind, &[0], &key)[0];
            for also in [place, "/stream"] {
                let mut spliced = into.clone();
                *spliced.pointer_mut(place).unwrap() = from.pointer(place).unwrap().clone();
                *spliced.pointer_mut(also).unwrap() = from.pointer(also).unwrap().clone();
                // With the same settings and the name of the stream as well, it is the state of the other stream.
                if other != reading || also == place {
                    assert_eq!(load(spliced, &key).err(), Some(ScalarError::Locked(UnlockError::Key)), "{kind}");
                }
            }
        }
        // Nor can a state be given other settings.
        let mut changed = from.clone();
        *changed.pointer_mut("/settings/protects").unwrap() = serde_json::to_value(count.protects).unwrap();
        assert_eq!(load(changed, &key).err(), Some(ScalarError::Locked(UnlockError::Key)), "{kind}");
    }
}

/// A golden file is never edited; a new version gets a new one. `TIDEGATE_GOLDEN=1` writes that of `track`.
#[test]
fn golden_states_load_and_continue_identically() {
    let key = VaultKey::from_bytes([1; 32]);
    let track = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/scalar_track_v9.json");
    if std::env::var_os("TIDEGATE_GOLDEN").is_some() {
        let saved = serde_json::to_string(&golden_run(ScalarKind::Track).save(&key).unwrap()).unwrap();
        std::fs::write(track, saved + "\n").unwrap();
    }
    let mut golden: Vec<serde_json::Value> = serde_json::from_str(include_str!("../../golden/scalar_v1.json")).unwrap();
    golden.push(serde_json::from_str(&std::fs::read_to_string(track).unwrap()).unwrap());
    assert_eq!(golden.len(), ScalarKind::ALL.len());
    for (kind, golden) in ScalarKind::ALL.into_iter().zip(golden) {
        let saved: SavedScalar = serde_json::from_value(golden.clone()).unwrap();
        let mut loaded = Scalar::load(saved, &key).unwrap();
        let mut same = golden_run(kind);
        // Everything is equal but what is encrypted anew each time, and the ledger, which had no account then.
        let saved = serde_json::to_value(loaded.save(&key).unwrap()).unwrap();
        assert_eq!(without_secrets(saved), without_secrets(golden));
        let go_on = |mechanism: &mut Scalar| {
            let random = &mut SeededRandom::new(6);
            let mut released = Vec::new();
            for timestamp in 20..40 {
                let sealed = mechanism.seal(timestamp, (timestamp * 13 % 100) as f64).unwrap();
                released.extend(mechanism.push(sealed, random).unwrap());
            }
            released
        };
        assert_eq!(go_on(&mut loaded), go_on(&mut same), "{kind}");
    }
}

#[test]
fn refuses_a_state_of_another_version() {
    let key = VaultKey::from_bytes([1; 32]);
    let mut golden: serde_json::Value =
        serde_json::from_str(include_str!("../../golden/scalar_track_v9.json")).unwrap();
    golden["version"] = 8.into();
    let saved: SavedScalar = serde_json::from_value(golden).unwrap();
    assert_eq!(Scalar::load(saved, &key).unwrap_err(), ScalarError::Version { found: 8, known: 9 });
}

/// A mechanism that asks means, in the middle of one, with releases that wait for it.
fn with_open_mean() -> Scalar {
    let mut mechanism = Scalar::new(ScalarKind::Track, settings("0.2", 6)).unwrap();
    let random = &mut SeededRandom::new(5);
    for timestamp in 0..17 {
        mechanism.push(mechanism.seal(timestamp, (timestamp * 7 % 100) as f64).unwrap(), random).unwrap();
    }
    mechanism
}

#[test]
fn rejects_invalid_tracked_state() {
    let key = VaultKey::from_bytes([9; 32]);
    let load = |value: serde_json::Value| {
        let saved: SavedScalar = serde_json::from_value(value).map_err(|error| error.to_string())?;
        Scalar::load(saved, &key).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = |saved: &serde_json::Value, path: &str, value: serde_json::Value| {
        let mut changed = saved.clone();
        let place = changed.pointer_mut(&format!("/machine/track/state{path}")).unwrap();
        assert_ne!(*place, value, "{path}");
        *place = value;
        load(changed).expect_err(path)
    };
    let bits = serde_json::to_value(golden_run(ScalarKind::Track).save(&key).unwrap()).unwrap();
    let means = serde_json::to_value(with_open_mean().save(&key).unwrap()).unwrap();
    assert_eq!((load(bits.clone()), load(means.clone())), (Ok(()), Ok(())));
    for (saved, path, value) in [
        (&bits, "/estimator/bank/numbers/0/weights/0", 2.0.into()),
        (&bits, "/estimator/bank/numbers/0/variances/3", (-1.0).into()),
        (&bits, "/estimator/bank/unit", 1.0.into()),
        (&bits, "/estimator/timestamp", 99.into()),
        (&bits, "/estimator/seasons", serde_json::json!([])),
        (&bits, "/waiting/0/0", 0.into()),
        (&bits, "/waiting/0/1", serde_json::json!({ "bit": { "cut": 5_000, "above": true } })),
        (&bits, "/waiting/0/1", serde_json::json!({ "sum": { "sum": 1, "count": 1, "low": 0, "high": 1 } })),
        (&bits, "/waiting/0/1", "nothing".into()),
        (&bits, "/open", serde_json::json!({ "count": 9, "low": 0, "high": 1, "counts": false })),
        (&means, "/waiting/0/1", serde_json::json!({ "noisy": 3 })),
        (&means, "/open/count", 1.into()),
        (&means, "/open/count", 1_000_000.into()),
        (&means, "/open/low", 5_000.into()),
        (&means, "/open/high", (-1).into()),
        (&means, "/open", serde_json::Value::Null),
    ] {
        let refusal = refused(saved, path, value);
        assert!(refusal.contains("what is believed"), "{path}: {refusal}");
    }
    // The number of questions is bound to the locked readings.
    assert!(refused(&means, "/asked", 1_000.into()).contains("or their state were changed"));
    let mut changed = bits;
    changed["version"] = 1.into();
    assert_eq!(load(changed), Err("the saved mechanism has version 1; this program reads version 9".to_owned()));
}

/// Readings that `finish` asked about cannot be asked about again by a state from before.
#[test]
fn finished_readings_cannot_be_asked_again() {
    let key = VaultKey::from_bytes([9; 32]);
    let mut mechanism = with_open_mean();
    let before = serde_json::to_value(mechanism.save(&key).unwrap()).unwrap();
    mechanism.finish(&mut SeededRandom::new(6)).unwrap();
    let after = serde_json::to_value(mechanism.save(&key).unwrap()).unwrap();
    assert_eq!((after["last"].clone(), mechanism.waiting()), (before["last"].clone(), 0));
    let mut spliced = after.clone();
    for part in ["held", "state"] {
        spliced["machine"]["track"][part] = before["machine"]["track"][part].clone();
        if part == "held" {
            assert_eq!(load(spliced.clone(), &key).err(), Some(ScalarError::Locked(UnlockError::Key)));
        }
    }
    assert!(load(after, &key).is_ok());
}

/// The longest possible gap, and times beyond the precision of floats.
#[test]
fn tracked_state_loads_after_any_legal_operations() {
    let key = VaultKey::from_bytes([9; 32]);
    let contribution = Protects::Contribution(NonZeroU64::MIN);
    for (epsilon, delay, protects) in [
        ("0.1", 0, Protects::Reading),
        ("0.1", 9, Protects::Reading),
        ("1", 0, Protects::Reading),
        ("1", 9, Protects::Reading),
        ("20", 9, Protects::Reading),
        ("1", 9, contribution),
        ("100", 9, contribution),
    ] {
        let form = ScalarSettings { protects, ..settings(epsilon, delay) };
        let mut mechanism = Scalar::new(ScalarKind::Track, form).unwrap();
        let random = &mut SeededRandom::new(7);
        let start = (1 << 53) + 1;
        let times = (0..40).chain(start..start + 40).chain([u64::MAX - 1, u64::MAX]);
        for timestamp in times {
            mechanism = reloaded(&mechanism, &key, timestamp.is_multiple_of(2));
            let released = mechanism.push(mechanism.seal(timestamp, 77.0).unwrap(), random).unwrap();
            assert!(released.iter().all(|release| {
                let number = release.statistic.number().unwrap();
                (0.0..=100.0).contains(&number.value) && number.variance.is_finite() && number.variance >= 0.0
            }));
            if timestamp % 17 == 3 {
                mechanism.finish(random).unwrap();
            }
        }
        reloaded(&mechanism, &key, true);
    }
}

#[test]
fn tracked_count_continues_after_saving() {
    let key = VaultKey::from_bytes([9; 32]);
    let protects = Protects::Contribution(NonZeroU64::MIN);
    let run = |saves: bool| {
        let mut mechanism = Scalar::new(ScalarKind::Track, ScalarSettings { protects, ..settings("1", 3) }).unwrap();
        let (mut random, mut released) = (SeededRandom::new(4), Vec::new());
        for (timestamp, reading) in stream(8, 60, 2) {
            if saves {
                mechanism = reloaded(&mechanism, &key, timestamp.is_multiple_of(2));
            }
            released.extend(mechanism.push(mechanism.seal(timestamp, reading).unwrap(), &mut random).unwrap());
        }
        released
    };
    assert_eq!(run(true), run(false));
}

/// A mechanism in the middle of a batch, of a group and of a sample.
fn golden_run(kind: ScalarKind) -> Scalar {
    let settings = ScalarSettings { truncation: Some(Truncation::default()), ..settings("1", 6) };
    let mut mechanism = Scalar::new(kind, settings).unwrap();
    let random = &mut SeededRandom::new(5);
    for timestamp in 0..17 {
        mechanism.push(mechanism.seal(timestamp, (timestamp * 7 % 100) as f64).unwrap(), random).unwrap();
    }
    mechanism
}

fn without_secrets(mut state: serde_json::Value) -> serde_json::Value {
    let is_locked = |object: &serde_json::Map<String, serde_json::Value>| object.contains_key("nonce");
    match &mut state {
        serde_json::Value::Object(object) if is_locked(object) => return "locked".into(),
        serde_json::Value::Object(object) => {
            if let Some(serde_json::Value::Object(ledger)) = object.get_mut("ledger") {
                ledger.remove("account");
                ledger.remove("version");
            }
            for value in object.values_mut() {
                *value = without_secrets(value.take());
            }
        }
        _ => {}
    }
    state
}
