use std::num::NonZeroU64;

use tidegate::event::{EventKind, Publication, Smoother};
use tidegate::kernel::primitives::Protects;
use tidegate::spec::{DomainSpec, EventSpec, Outside, ProtectsSpec, SpecError, StreamSpec};

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

#[test]
fn the_listed_keys_are_those_that_are_read() {
    let error = serde_json::from_str::<EventSpec>(r#"{ "nothing": 1 }"#).unwrap_err().to_string();
    let keys: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert_eq!(keys, EventSpec::KEYS, "{error}");
    let error = serde_json::from_str::<DomainSpec>(r#"{ "nothing": 1 }"#).unwrap_err().to_string();
    assert_eq!(error.split('`').skip(3).step_by(2).collect::<Vec<_>>(), DomainSpec::KEYS, "{error}");
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
    let strict = spec().intake().unwrap();
    let clamping = EventSpec { outside: Outside::Clamp, ..spec() }.intake().unwrap();
    for (reading, refused) in
        [(612.5, "a whole number, for no resolution was given"), (0.5, "a whole number, for no resolution was given")]
    {
        assert_eq!(strict.seal(0, reading).unwrap_err().to_string(), refused);
        assert_eq!(clamping.seal(0, reading).unwrap_err().to_string(), refused);
    }
    for reading in [-1.0, 613.0, f64::INFINITY] {
        assert_eq!(strict.seal(0, reading).unwrap_err().to_string(), "a number within the domain, 0..612");
        assert!(clamping.seal(0, reading).is_ok());
    }
    assert!(clamping.seal(0, f64::NAN).is_err());
    let rounded = EventSpec { domain: DomainSpec { resolution: Some(0.5), ..DOMAIN }, ..spec() }.intake().unwrap();
    assert!(rounded.seal(0, 1.23).is_ok() && strict.seal(0, 612.0).is_ok());
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
