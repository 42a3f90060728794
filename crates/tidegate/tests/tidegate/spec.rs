use std::num::NonZeroU64;

use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{Decimal, SeededRandom, Window};
use tidegate::mechanisms::Family;
use tidegate::release::{Freshness, Histogram, Release, Spent};
use tidegate::scalar::{Publication, ScalarKind, Smoother};
use tidegate::spec::{
    CentralMachine, CentralSpec, ClassSpec, DomainSpec, LocalMachine, LocalSpec, ModelSpec, MonitorSpec, Outside,
    Personalised, ProtectsSpec, QuerySpec, Reply, ScalarSpec, SequenceMachine, SequenceSpec, SpecError, StreamSpec,
};

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn domain(low: &str, high: &str) -> DomainSpec {
    DomainSpec::whole(decimal(low), decimal(high))
}

fn spec() -> ScalarSpec {
    ScalarSpec::new(ScalarKind::Contin, "0.5".parse().unwrap(), domain("0", "612"), ProtectsSpec::Reading)
}

fn contribution(domain: DomainSpec, contributor: &str) -> Result<u64, SpecError> {
    let spec = ScalarSpec { domain, protects: ProtectsSpec::Contributor(decimal(contributor)), ..spec() };
    spec.settings().map(|settings| match settings.protects {
        Protects::Contribution(steps) => steps.get(),
        Protects::Reading => panic!("not a contributor"),
    })
}

/// The keys that a type reads, as its own error lists them.
fn keys_of<T: serde::de::DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
    let error = serde_json::from_str::<T>(r#"{ "nothing": 1 }"#).unwrap_err().to_string();
    error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_listed_keys_are_those_that_are_read() {
    assert_eq!(keys_of::<ScalarSpec>(), ScalarSpec::KEYS);
    assert_eq!(keys_of::<DomainSpec>(), DomainSpec::KEYS);
    assert_eq!(keys_of::<LocalSpec>(), LocalSpec::KEYS);
    assert_eq!(keys_of::<CentralSpec>(), CentralSpec::KEYS);
    assert_eq!(keys_of::<ClassSpec>(), ClassSpec::KEYS);
    assert_eq!(keys_of::<SequenceSpec>(), SequenceSpec::KEYS);
    assert_eq!(keys_of::<ModelSpec>(), ModelSpec::KEYS);
    assert_eq!(keys_of::<QuerySpec>(), QuerySpec::KEYS);
    assert_eq!(keys_of::<MonitorSpec>(), MonitorSpec::KEYS);
    let error = serde_json::from_str::<StreamSpec>(r#"{ "family": "nothing" }"#).unwrap_err().to_string();
    assert_eq!(error.split('`').skip(3).step_by(2).collect::<Vec<_>>(), Family::ALL.map(Family::name), "{error}");
}

#[test]
fn a_spec_is_what_it_says() {
    let full = r#"{ "family": "scalar", "mechanism": "discontin", "epsilon": 0.5, "delay": 7,
        "domain": { "low": -10, "high": 40, "resolution": 0.1 }, "protects": { "contributor": 2 }, "outside": "clamp",
        "grouping": "0.1", "threshold": 3, "publication": "points", "smoother": "median", "buckets": 4,
        "within_domain": true }"#;
    let read: StreamSpec = serde_json::from_str(full).unwrap();
    let StreamSpec::Scalar(spec) = &read else { panic!("{read:?}") };
    let settings = spec.settings().unwrap();
    assert_eq!((spec.mechanism, spec.outside), (ScalarKind::Discontin, Outside::Clamp));
    assert_eq!((settings.epsilon.to_string(), settings.delay, settings.grid.width()), ("0.5".to_owned(), 7, 500));
    assert_eq!(settings.protects, Protects::Contribution(NonZeroU64::new(20).unwrap()));
    assert_eq!(settings.grouping.map(|grouping| grouping.to_string()), Some("0.1".to_owned()));
    assert_eq!((settings.threshold, settings.publication), (Some(3.0), Some(Publication::Points)));
    assert_eq!((settings.smoother, settings.buckets, settings.within_domain), (Smoother::Median, Some(4), true));
    assert_eq!(spec.mechanism().unwrap().kind(), ScalarKind::Discontin);
    let again: StreamSpec = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
}

#[test]
fn sensitivity_of_a_contribution_is_exact() {
    assert_eq!(contribution(domain("0", "612"), "1"), Ok(1));
    assert_eq!(contribution(domain("0", "612"), "2.9"), Ok(3));
    assert_eq!(contribution(domain("0", "612"), "1e300"), Ok(612));
    let halves = DomainSpec { resolution: Some(decimal("0.5")), ..domain("0", "612") };
    assert_eq!(contribution(halves, "1"), Ok(2));
    assert_eq!(contribution(halves, "1.1"), Ok(3));
    assert_eq!(contribution(DomainSpec { resolution: Some(decimal("1")), ..domain("0", "612") }, "1"), Ok(1));
    for given in ["0", "0.4", "-1", "0.4999999999999999999999"] {
        let error = contribution(halves, given).unwrap_err();
        assert_eq!(error.key(), Some("protects"), "{given}");
    }
}

/// The released number of a reading, with noise that is zero but for a chance of e^-1000.
fn released(domain: &str, reading: &str) -> f64 {
    let protects = "\"protects\": { \"contributor\": 1 }, \"epsilon\": 1000";
    let json = format!("{{ \"mechanism\": \"laplace\", {protects}, \"domain\": {domain} }}");
    let spec: ScalarSpec = serde_json::from_str(&json).unwrap();
    let (intake, mut mechanism) = (spec.intake().unwrap(), spec.mechanism().unwrap());
    let released =
        mechanism.push(intake.seal(mechanism.ledger().account(), 0, reading), &mut SeededRandom::new(1)).unwrap();
    released[0].statistic.number().unwrap().value
}

#[test]
fn every_reading_is_rounded_clamped_or_replaced() {
    let plain = r#"{ "low": 2, "high": 612 }"#;
    for (reading, value) in
        [("5", 5.0), (" 5.5\t", 6.0), ("5.49", 5.0), ("613", 612.0), ("-1e300", 2.0), ("inf", 2.0), ("", 2.0)]
    {
        assert_eq!(released(plain, reading), value, "{reading:?}");
    }
    let declared = r#"{ "low": 0, "high": 612, "resolution": 0.5, "missing": 40.2 }"#;
    for (reading, value) in [("1.23", 1.0), ("NaN", 40.0), ("null", 40.0), ("1_000", 40.0), ("0x10", 40.0)] {
        assert_eq!(released(declared, reading), value, "{reading:?}");
    }
}

#[test]
fn numbers_of_a_spec_are_kept_exactly() {
    let spec = |domain: &str| {
        let json = format!(r#"{{ "mechanism": "laplace", "epsilon": 1, "domain": {domain}, "protects": "reading" }}"#);
        let StreamSpec::Scalar(spec) = read(&json) else { panic!("it says event") };
        spec
    };
    let large = spec(r#"{ "low": 1700000000000000129, "high": "1700000000000001129.5" }"#);
    assert_eq!(
        large.domain,
        DomainSpec { high: decimal("1700000000000001129.5"), ..domain("1700000000000000129", "1") }
    );
    assert_eq!(large.settings().unwrap().grid.width(), 1_001);
    let tenths = spec(r#"{ "low": 0.1, "high": 0.3, "resolution": 0.1 }"#);
    assert_eq!(tenths.settings().unwrap().grid.decimals(), [decimal("0.1"), decimal("0.3"), decimal("0.1")]);
    let floats = large.mechanism().unwrap().seal(0, 1.7e18).unwrap_err();
    assert!(floats.to_string().contains("give readings as decimal text"), "{floats}");
}

#[test]
fn refusing_readings_is_no_longer_an_answer() {
    assert_eq!(serde_json::from_str::<Outside>("\"clamp\"").unwrap(), Outside::Clamp);
    let error = serde_json::from_str::<Outside>("\"refuse\"").unwrap_err().to_string();
    assert!(error.contains("refusing it would tell"), "{error}");
}

#[test]
fn errors_name_the_key_that_they_are_about() {
    let key = |spec: ScalarSpec| spec.mechanism().unwrap_err().key();
    let of = |domain: DomainSpec| ScalarSpec { domain, ..spec() };
    assert_eq!(key(of(domain("1", "0"))), Some("domain"));
    assert_eq!(key(of(domain("0.5", "10"))), Some("domain"));
    assert_eq!(key(of(DomainSpec { missing: Some(decimal("10.1")), ..domain("0", "10") })), Some("domain"));
    assert_eq!(key(ScalarSpec { grouping: Some("0.5".parse().unwrap()), ..spec() }), Some("grouping"));
    assert_eq!(key(ScalarSpec { threshold: Some(-1.0), ..spec() }), Some("threshold"));
    assert_eq!(key(ScalarSpec { publication: Some(Publication::Labels), ..spec() }), Some("publication"));
}

fn read(json: &str) -> StreamSpec {
    let spec: StreamSpec = serde_json::from_str(json).unwrap();
    let again: StreamSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
    spec
}

const LOCAL: &str =
    r#"{ "family": "local", "mechanism": "lpa", "epsilon": 1, "window": 20, "domain": 5, "population": 1000 }"#;

#[test]
fn a_local_spec_builds_its_mechanism() {
    let more = r#""oracle": "olh", "reuse": true, "trust": "device", "population""#;
    let StreamSpec::Local(spec) = read(&LOCAL.replace("\"population\"", more)) else { panic!("it says local") };
    let LocalMachine::One(mechanism) = spec.mechanism().unwrap() else { panic!("it has one guarantee") };
    let settings = mechanism.settings();
    assert_eq!((mechanism.kind().name(), settings.domain, settings.window.get()), ("lpa", 5, 20));
    assert_eq!((settings.oracle.map(|oracle| oracle.name()), settings.reuse), (Some("olh"), true));
    assert_eq!(read(LOCAL).window(), Window::of(20).unwrap());
}

#[test]
fn a_central_spec_builds_what_its_mechanism_needs() {
    let build = |json: &str| {
        let StreamSpec::Central(spec) = read(json) else { panic!("it says central") };
        spec.mechanism()
    };
    let one = r#"{ "family": "central", "mechanism": "bd", "epsilon": 1, "window": 20, "domain": 3,
        "neighbours": "replace" }"#;
    assert!(matches!(build(one), Ok(CentralMachine::One(mechanism)) if mechanism.settings().window.get() == 20));
    let classes =
        r#""classes": [{ "name": "a", "epsilon": 1, "window": 9 }, { "name": "b", "epsilon": 2, "window": 70 }]"#;
    let personal =
        format!(r#"{{ "family": "central", "mechanism": "pbd", "domain": 3, {classes}, "estimator": "sampling" }}"#);
    assert!(matches!(build(&personal), Ok(CentralMachine::Personal(mechanism)) if mechanism.classes().len() == 2));
    assert_eq!(read(&personal).window(), Window::of(70).unwrap());
    let track = personal.replace("\"pbd\"", "\"personal_track\"").replace(r#", "estimator": "sampling""#, "");
    assert!(matches!(build(&track), Ok(CentralMachine::Personal(Personalised::Track(_)))));
    for (json, key) in [
        (one.replace("\"bd\"", "\"pbd\""), Some("epsilon")),
        (personal.replace("\"pbd\"", "\"bd\""), Some("classes")),
        (personal.replace("\"pbd\"", "\"personal_track\""), Some("estimator")),
        (personal.replace("\"b\"", "\"a\""), Some("classes")),
        (one.replace("\"window\": 20, ", ""), None),
    ] {
        assert_eq!(build(&json).unwrap_err().key(), key, "{json}");
    }
}

#[test]
fn a_local_spec_with_classes_builds_plbu() {
    let json = r#"{ "family": "local", "mechanism": "plbu", "domain": 3, "oracle": "grr", "trust": "device",
        "classes": [{ "name": "a", "epsilon": 1, "window": 9 }, { "name": "b", "epsilon": 2, "window": 70 }] }"#;
    let build = |json: &str| {
        let StreamSpec::Local(spec) = read(json) else { panic!("it says local") };
        spec.mechanism()
    };
    assert!(matches!(build(json), Ok(LocalMachine::ByClass(mechanism)) if mechanism.classes().len() == 2));
    assert_eq!(read(json).window(), Window::of(70).unwrap());
    for (json, key) in [
        (json.replace("device", "curator"), Some("trust")),
        (json.replace("\"domain\"", "\"epsilon\": 1, \"domain\""), Some("epsilon")),
        (json.replace("plbu", "lpa"), Some("classes")),
        (LOCAL.replace("lpa", "plbu"), Some("epsilon")),
    ] {
        assert_eq!(build(&json).unwrap_err().key(), key, "{json}");
    }
}

#[test]
fn classes_may_be_given_as_levels() {
    let of = |family: &str, classes: &str| {
        let json = format!(r#"{{ {family}, "domain": 3, "classes": {classes} }}"#);
        serde_json::from_str::<StreamSpec>(&json)
    };
    let central = r#""family": "central", "mechanism": "pbd""#;
    let levels = r#"{ "privacy": { "high": 0.1, "low": 0.9 }, "windows": { "day": 24, "week": 168 } }"#;
    let list = r#"[{ "name": "high/day", "epsilon": 0.1, "window": 24 },
        { "name": "high/week", "epsilon": 0.1, "window": 168 },
        { "name": "low/day", "epsilon": 0.9, "window": 24 },
        { "name": "low/week", "epsilon": 0.9, "window": 168 }]"#;
    for family in [central, r#""family": "local", "mechanism": "plbu""#] {
        let (by_levels, by_list) = (of(family, levels).unwrap(), of(family, list).unwrap());
        assert_eq!(by_levels, by_list);
        // It is saved and declared as the list.
        assert_eq!(serde_json::to_string(&by_levels).unwrap(), serde_json::to_string(&by_list).unwrap());
    }
    for (wrong, part) in [
        (levels.replace("windows", "window"), "unknown field `window`"),
        (levels.replace(r#""windows": { "day": 24, "week": 168 }"#, r#""privacy2": 1"#), "unknown field `privacy2`"),
        (levels.replace("24", "0"), "nonzero"),
        ("3".to_owned(), "a list of classes, or the levels privacy and windows"),
    ] {
        let error = of(central, &wrong).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // No level is no class.
    let StreamSpec::Central(spec) = of(central, r#"{ "privacy": {}, "windows": { "day": 24 } }"#).unwrap() else {
        panic!("it says central")
    };
    assert_eq!(spec.mechanism().unwrap_err().key(), Some("classes"));
}

#[test]
fn a_sequence_spec_builds_a_mechanism_for_each_user() {
    let json = r#"{ "family": "sequence", "mechanism": "crr", "epsilon": 0.5, "domain": ["x", "y"],
        "window": 10, "budget": 2, "distance": "absolute", "guarantee": "local", "effort": "fast",
        "model": { "prior": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.2, 0.8]] } }"#;
    let StreamSpec::Sequence(spec) = read(json) else { panic!("it says sequence") };
    let model = spec.model().unwrap();
    let SequenceMachine::Crr(mechanism) = spec.mechanism(model.as_ref()).unwrap() else { panic!("it says crr") };
    assert_eq!(mechanism.settings().budget.to_string(), "2");
    assert_eq!(read(json).window(), Window::of(10).unwrap());
    let mut batched = spec.clone();
    batched.mechanism = serde_json::from_str("\"batched\"").unwrap();
    assert_eq!(batched.mechanism(model.as_ref()).unwrap_err().to_string(), "batched needs the key length");
    batched.length = Some(3);
    assert!(matches!(batched.mechanism(model.as_ref()), Ok(SequenceMachine::Batched(_))));
    let mut plain = spec.clone();
    plain.mechanism = serde_json::from_str("\"rr\"").unwrap();
    assert_eq!(plain.model().unwrap_err().key(), Some("model"));
    let least = r#"{ "family": "sequence", "mechanism": "oue", "epsilon": 1, "domain": 4 }"#;
    let StreamSpec::Sequence(spec) = read(least) else { panic!("it says sequence") };
    let SequenceMachine::Baseline(mut mechanism) = spec.mechanism(None).unwrap() else { panic!("it says oue") };
    assert!(mechanism.step(&mechanism.seal(0, 3).unwrap(), &mut SeededRandom::new(1)).is_ok());
}

#[test]
fn what_a_watch_keeps_is_saved_and_goes_on() {
    let json = LOCAL.replace(
        "\"population\"",
        r#""queries": [{ "name": "two", "first": 1, "last": "2", "delta": 2 }, { "name": "top", "top": 1 }],
           "monitors": [{ "name": "m", "value": 0, "score": "change", "direction": "above",
               "start": 0.1 }], "population""#,
    );
    let StreamSpec::Local(spec) = read(&json) else { panic!("it says local") };
    let release = |timestamp: u64| {
        let mut frequencies = vec![0.2; 5];
        frequencies[0] = if timestamp == 2 { 0.6 } else { 0.2 };
        let statistic = Histogram { frequencies, variances: vec![1e-4; 5] }.into();
        Release {
            timestamp,
            statistic,
            freshness: Freshness::Fresh,
            spent: Spent::Nothing,
            reports: 10,
            seeded: false,
            why: None,
        }
    };
    let mut queries = spec.standing_queries().unwrap();
    let mut told = Vec::new();
    for timestamp in 0..4 {
        // Saved and loaded at each point, in both formats.
        let bytes = postcard::to_allocvec(&queries.save().unwrap()).unwrap();
        let text = serde_json::to_string(&queries.save().unwrap()).unwrap();
        let (mut first, mut second) = (spec.standing_queries().unwrap(), spec.standing_queries().unwrap());
        first.load(&mut postcard::Deserializer::from_bytes(&bytes)).unwrap();
        second.load(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        let said = queries.push(&release(timestamp), Some(10)).unwrap();
        assert_eq!(said, first.push(&release(timestamp), Some(10)).unwrap());
        assert_eq!(said, second.push(&release(timestamp), Some(10)).unwrap());
        told.extend(said.iter().map(|said| (timestamp, said.name.to_owned(), matches!(said.reply, Reply::Event(_)))));
    }
    let names = |name: &str| told.iter().filter(|(_, given, _)| given == name).map(|(t, _, _)| *t).collect::<Vec<_>>();
    assert_eq!((names("two"), names("top"), names("m")), (vec![1, 2, 3], vec![0, 1, 2, 3], vec![2, 3]));
    let mut other = spec.clone();
    other.monitors.clear();
    let text = serde_json::to_string(&queries.save().unwrap()).unwrap();
    assert!(other.standing_queries().unwrap().load(&mut serde_json::Deserializer::from_str(&text)).is_err());
}
