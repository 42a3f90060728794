use std::num::NonZeroU64;

use tidegate::event::{EventKind, Publication, Smoother};
use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{SeededRandom, Window};
use tidegate::release::{Freshness, Histogram, Release, Spent};
use tidegate::spec::{
    CentralMachine, CentralSpec, ClassSpec, DomainSpec, EventSpec, LocalSpec, ModelSpec, MonitorSpec, Outside,
    Personalised, ProtectsSpec, QuerySpec, Reply, SequenceMachine, SequenceSpec, SpecError, StreamSpec,
};

const DOMAIN: DomainSpec = DomainSpec { low: 0.0, high: 612.0, resolution: None };

fn spec() -> EventSpec {
    EventSpec::new(EventKind::Contin, "0.5".parse().unwrap(), DOMAIN)
}

fn contribution(domain: DomainSpec, contributor: f64) -> Result<u64, SpecError> {
    let spec = EventSpec { domain, protects: ProtectsSpec::Contributor(contributor), ..spec() };
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
    assert_eq!(keys_of::<EventSpec>(), EventSpec::KEYS);
    assert_eq!(keys_of::<DomainSpec>(), DomainSpec::KEYS);
    assert_eq!(keys_of::<LocalSpec>(), LocalSpec::KEYS);
    assert_eq!(keys_of::<CentralSpec>(), CentralSpec::KEYS);
    assert_eq!(keys_of::<ClassSpec>(), ClassSpec::KEYS);
    assert_eq!(keys_of::<SequenceSpec>(), SequenceSpec::KEYS);
    assert_eq!(keys_of::<ModelSpec>(), ModelSpec::KEYS);
    assert_eq!(keys_of::<QuerySpec>(), QuerySpec::KEYS);
    assert_eq!(keys_of::<MonitorSpec>(), MonitorSpec::KEYS);
    let error = serde_json::from_str::<StreamSpec>(r#"{ "family": "nothing" }"#).unwrap_err().to_string();
    assert_eq!(error.split('`').skip(3).step_by(2).collect::<Vec<_>>(), StreamSpec::FAMILIES, "{error}");
}

#[test]
fn a_spec_is_what_it_says() {
    let full = r#"{ "family": "event", "mechanism": "discontin", "epsilon": 0.5, "delay": 7,
        "domain": { "low": -10, "high": 40, "resolution": 0.1 }, "protects": { "contributor": 2 }, "outside": "clamp",
        "grouping": "0.1", "threshold": 3, "publication": "points", "smoother": "median", "buckets": 4,
        "within_domain": true }"#;
    let read: StreamSpec = serde_json::from_str(full).unwrap();
    let StreamSpec::Event(spec) = &read else { panic!("{read:?}") };
    let settings = spec.settings().unwrap();
    assert_eq!((spec.mechanism, spec.outside), (EventKind::Discontin, Outside::Clamp));
    assert_eq!((settings.epsilon.to_string(), settings.delay, settings.grid.width()), ("0.5".to_owned(), 7, 500));
    assert_eq!(settings.protects, Protects::Contribution(NonZeroU64::new(21).unwrap()));
    assert_eq!(settings.grouping.map(|grouping| grouping.to_string()), Some("0.1".to_owned()));
    assert_eq!((settings.threshold, settings.publication), (Some(3.0), Some(Publication::Points)));
    assert_eq!((settings.smoother, settings.buckets, settings.within_domain), (Smoother::Median, Some(4), true));
    assert_eq!(spec.mechanism().unwrap().kind(), EventKind::Discontin);
    let again: StreamSpec = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
}

#[test]
fn whole_readings_move_by_whole_steps_and_rounded_ones_by_one_more() {
    assert_eq!(contribution(DOMAIN, 1.0), Ok(1));
    assert_eq!(contribution(DOMAIN, 2.9), Ok(2));
    assert_eq!(contribution(DOMAIN, 1e300), Ok(612));
    let halves = DomainSpec { resolution: Some(0.5), ..DOMAIN };
    assert_eq!(contribution(halves, 1.0), Ok(3));
    assert_eq!(contribution(DomainSpec { resolution: Some(1.0), ..DOMAIN }, 1.0), Ok(2));
    for given in [0.0, 0.4, -1.0, f64::NAN, f64::INFINITY] {
        let error = contribution(halves, given).unwrap_err();
        assert_eq!(error.key(), Some("protects"), "{given}");
    }
}

#[test]
fn readings_are_taken_in_as_the_spec_says() {
    let account = spec().mechanism().unwrap().ledger().account();
    let strict = spec().intake().unwrap();
    let clamping = EventSpec { outside: Outside::Clamp, ..spec() }.intake().unwrap();
    for (reading, refused) in
        [(612.5, "a whole number, for no resolution was given"), (0.5, "a whole number, for no resolution was given")]
    {
        assert_eq!(strict.seal(account, 0, reading).unwrap_err().to_string(), refused);
        assert_eq!(clamping.seal(account, 0, reading).unwrap_err().to_string(), refused);
    }
    for reading in [-1.0, 613.0, f64::INFINITY] {
        assert_eq!(strict.seal(account, 0, reading).unwrap_err().to_string(), "a number within the domain, 0..612");
        assert!(clamping.seal(account, 0, reading).is_ok());
    }
    assert!(clamping.seal(account, 0, f64::NAN).is_err());
    let rounded = EventSpec { domain: DomainSpec { resolution: Some(0.5), ..DOMAIN }, ..spec() }.intake().unwrap();
    assert!(rounded.seal(account, 0, 1.23).is_ok() && strict.seal(account, 0, 612.0).is_ok());
}

#[test]
fn errors_name_the_key_that_they_are_about() {
    let key = |spec: EventSpec| spec.mechanism().unwrap_err().key();
    let domain = |low: f64, high: f64| EventSpec { domain: DomainSpec { low, high, resolution: None }, ..spec() };
    assert_eq!(key(domain(1.0, 0.0)), Some("domain"));
    assert_eq!(key(domain(0.5, 10.0)), Some("domain"));
    assert_eq!(key(EventSpec { grouping: Some("0.5".parse().unwrap()), ..spec() }), Some("grouping"));
    assert_eq!(key(EventSpec { threshold: Some(-1.0), ..spec() }), Some("threshold"));
    assert_eq!(key(EventSpec { publication: Some(Publication::Labels), ..spec() }), Some("publication"));
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
    let mechanism = spec.mechanism().unwrap();
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
    let one = r#"{ "family": "central", "mechanism": "bd", "epsilon": 1, "window": 20, "domain": 3, "neighbours": "replace" }"#;
    assert!(matches!(build(one), Ok(CentralMachine::One(mechanism)) if mechanism.settings().window.get() == 20));
    let classes =
        r#""classes": [{ "name": "a", "epsilon": 1, "window": 9 }, { "name": "b", "epsilon": 2, "window": 70 }]"#;
    let personal =
        format!(r#"{{ "family": "central", "mechanism": "pbd", "domain": 3, {classes}, "estimator": "sampling" }}"#);
    assert!(matches!(build(&personal), Ok(CentralMachine::Personal(mechanism)) if mechanism.classes().len() == 2));
    assert_eq!(read(&personal).window(), Window::of(70).unwrap());
    let track = personal.replace("\"pbd\"", "\"personal_track\"").replace(r#", "estimator": "sampling""#, "");
    assert!(matches!(build(&track), Ok(CentralMachine::Personal(Personalised::Track(_)))));
    let local = format!(
        r#"{{ "family": "central", "mechanism": "plbu", "domain": 3, {classes}, "oracle": "grr", "trust": "device" }}"#
    );
    assert!(matches!(build(&local), Ok(CentralMachine::Local(_))));
    for (json, key) in [
        (one.replace("\"bd\"", "\"pbd\""), Some("epsilon")),
        (personal.replace("\"pbd\"", "\"bd\""), Some("classes")),
        (personal.replace("\"pbd\"", "\"plbu\""), Some("estimator")),
        (personal.replace("\"pbd\"", "\"personal_track\""), Some("estimator")),
        (local.replace("plbu", "pba").replace("device", "curator"), Some("oracle")),
        (local.replace("device", "curator"), Some("trust")),
        (personal.replace("\"b\"", "\"a\""), Some("classes")),
        (one.replace("\"window\": 20, ", ""), None),
    ] {
        assert_eq!(build(&json).unwrap_err().key(), key, "{json}");
    }
}

#[test]
fn a_sequence_spec_builds_a_mechanism_for_each_user() {
    let json = r#"{ "family": "sequence", "mechanism": "crr", "epsilon": 0.5, "domain": ["x", "y"], "window": 10, "budget": 2,
        "distance": "absolute", "guarantee": "local", "effort": "fast",
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
           "monitors": [{ "name": "m", "value": 0, "score": "change", "direction": "above", "start": 0.1 }], "population""#,
    );
    let StreamSpec::Local(spec) = read(&json) else { panic!("it says local") };
    let release = |timestamp: u64| {
        let mut frequencies = vec![0.2; 5];
        frequencies[0] = if timestamp == 2 { 0.6 } else { 0.2 };
        let statistic = Histogram { frequencies, variances: vec![1e-4; 5] }.into();
        Release { timestamp, statistic, freshness: Freshness::Fresh, spent: Spent::Nothing, reports: 10, seeded: false }
    };
    let mut watch = spec.watch().unwrap();
    let mut told = Vec::new();
    for timestamp in 0..4 {
        // Saved and loaded at each point, in both formats.
        let bytes = postcard::to_allocvec(&watch.save().unwrap()).unwrap();
        let text = serde_json::to_string(&watch.save().unwrap()).unwrap();
        let (mut first, mut second) = (spec.watch().unwrap(), spec.watch().unwrap());
        first.load(&mut postcard::Deserializer::from_bytes(&bytes)).unwrap();
        second.load(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        let said = watch.push(&release(timestamp), Some(10)).unwrap();
        assert_eq!(said, first.push(&release(timestamp), Some(10)).unwrap());
        assert_eq!(said, second.push(&release(timestamp), Some(10)).unwrap());
        told.extend(said.iter().map(|said| (timestamp, said.name.to_owned(), matches!(said.reply, Reply::Event(_)))));
    }
    let names = |name: &str| told.iter().filter(|(_, given, _)| given == name).map(|(t, _, _)| *t).collect::<Vec<_>>();
    assert_eq!((names("two"), names("top"), names("m")), (vec![1, 2, 3], vec![0, 1, 2, 3], vec![2, 3]));
    let mut other = spec.clone();
    other.monitors.clear();
    let text = serde_json::to_string(&watch.save().unwrap()).unwrap();
    assert!(other.watch().unwrap().load(&mut serde_json::Deserializer::from_str(&text)).is_err());
}
