//! No mechanism refuses the state that it saved, however extreme its epsilon and its data.

use proptest::prelude::*;
use proptest::sample::select;
use tidegate::kernel::{Randomness, SeededRandom, VaultKey};
use tidegate::mechanisms::{self, Family, Mechanism};
use tidegate::release::Release;
use tidegate::spec::StreamSpec;
use tidegate::stream::{Entry, Stream};

use crate::mechanisms::rest;
use crate::support::repeatable;

/// Data over time.
#[derive(Clone, Copy, Debug)]
enum Data {
    Nothing,
    Constant,
    Jumping,
    Swinging,
    Random,
}

impl Data {
    const ALL: [Self; 5] = [Self::Nothing, Self::Constant, Self::Jumping, Self::Swinging, Self::Random];

    /// A number of up to `largest`.
    fn at(self, timestamp: u64, largest: u64, random: &mut SeededRandom) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Constant => largest.min(8),
            Self::Jumping => largest * (timestamp / 12 % 2),
            Self::Swinging => largest * (timestamp % 2),
            Self::Random => random.next_word() % (largest + 1),
        }
    }
}

const USERS: u64 = 9;

/// A run of a mechanism.
#[derive(Clone, Debug)]
struct Case {
    epsilon: &'static str,
    domain: usize,
    /// Whether windows are of one timestamp.
    is_narrow: bool,
    data: Data,
    /// Timestamps from one to the next.
    stride: u64,
    timestamps: u64,
    largest: u64,
    seed: u64,
}

impl Case {
    fn spec(&self, mechanism: &Mechanism) -> StreamSpec {
        let values: Vec<String> = (0..self.domain).map(|value| value.to_string()).collect();
        let mut rest = rest(mechanism)
            .replace(r#""epsilon": 1,"#, r#""epsilon": E,"#)
            .replace(r#""epsilon": 2,"#, r#""epsilon": E,"#)
            .replace(r#""epsilon": E"#, &format!(r#""epsilon": {}"#, self.epsilon));
        if mechanism.family != Family::Sequence {
            rest = rest.replace(r#"["x", "y"]"#, &serde_json::to_string(&values).unwrap());
        }
        if self.is_narrow {
            rest = rest.replace(r#""window": 2"#, r#""window": 1"#).replace(r#""window": 3"#, r#""window": 1"#);
        }
        rest = rest.replace(r#""high": 100"#, &format!(r#""high": {}"#, self.largest.clamp(2, 1_000_000_000)));
        serde_json::from_str(&format!(r#"{{ "mechanism": "{}", {rest} }}"#, mechanism.full_name)).unwrap()
    }

    fn entries(&self, mechanism: &Mechanism, stream: &Stream, timestamp: u64, random: &mut SeededRandom) -> Vec<Entry> {
        let domain = if mechanism.family == Family::Sequence { 2 } else { self.domain as u64 };
        match mechanism.family {
            Family::Scalar => {
                let largest = self.largest.clamp(2, 1_000_000_000);
                let reading = self.data.at(timestamp, largest, random).to_string();
                vec![stream.reading(timestamp, &reading).unwrap()]
            }
            Family::Central if !mechanism.by_class => {
                let counts = (0..domain).map(|value| self.data.at(timestamp + value, self.largest, random)).collect();
                vec![Entry::Counts { timestamp, counts }]
            }
            _ => (0..USERS)
                .map(|user| {
                    let value = (user + self.data.at(timestamp, domain - 1, random)) % domain;
                    let value = if matches!(self.data, Data::Nothing) { 0 } else { value as u32 };
                    Entry::Value { timestamp, user: format!("user-{user}").into(), value }
                })
                .collect(),
        }
    }

    /// All releases; `between` is called when no timestamp is open.
    fn run(&self, mechanism: &Mechanism, mut between: impl FnMut(Stream) -> Stream) -> Vec<Release> {
        let mut stream = Stream::new(self.spec(mechanism)).unwrap();
        enrol(&mut stream);
        let (random, data) = (&mut SeededRandom::new(self.seed), &mut SeededRandom::new(self.seed ^ 1));
        let mut releases = Vec::new();
        for timestamp in (0..self.timestamps).map(|index| index * self.stride) {
            for entry in self.entries(mechanism, &stream, timestamp, data) {
                releases.extend(stream.push(entry, random).unwrap().releases);
            }
            if mechanism.family != Family::Scalar {
                releases.extend(stream.finish(random).unwrap().releases);
            }
            if stream.waiting() == 0 || mechanism.family == Family::Scalar {
                stream = between(stream);
            }
        }
        releases.extend(stream.finish(random).unwrap().releases);
        releases
    }

    /// A stream that is saved and loaded after each timestamp goes on as one that is not.
    fn check(&self, mechanism: &Mechanism) {
        let key = VaultKey::from_bytes([5; 32]);
        let restarted = self.run(mechanism, |stream| {
            let saved = stream.save(Some(&key)).unwrap();
            let loaded = Stream::load(stream.spec().clone(), &saved, Some(&key));
            let mut loaded =
                loaded.unwrap_or_else(|error| panic!("{mechanism} after {:?} of {self:?}: {error}", stream.last()));
            enrol(&mut loaded);
            loaded
        });
        // `personal_track` computes its expected errors again, with what is known of the classes by then.
        if mechanism.short_name != "personal_track" {
            assert!(restarted == self.run(mechanism, |stream| stream), "{mechanism}, {self:?}");
        }
    }
}

fn enrol(stream: &mut Stream) {
    if stream.classes().is_some() {
        for user in 0..USERS {
            stream.enrol(&format!("user-{user}"), if user < 5 { "a" } else { "b" }).unwrap();
        }
    }
}

const EPSILONS: [&str; 10] = ["0.000000001", "0.001", "0.1", "1", "10", "20", "70", "250", "600", "1000"];

/// Checks every mechanism for so many timestamps, with all epsilons and data that its specs accept.
fn check_all(timestamps: impl Fn(&Mechanism) -> u64) {
    for mechanism in mechanisms::all() {
        let timestamps = timestamps(mechanism);
        let mut cases = 0;
        for ((epsilon, data), (stride, largest)) in all_inputs().filter(|_| timestamps > 0) {
            let stride = match mechanism.family {
                Family::Sequence if mechanism.short_name == "batched" => 1,
                Family::Sequence => stride.min(7),
                _ => stride,
            };
            let is_narrow = largest < 10;
            let case = Case { epsilon, domain: 3, is_narrow, data, stride, timestamps, largest, seed: 5 };
            if Stream::new(case.spec(mechanism)).is_ok() {
                cases += 1;
                case.check(mechanism);
            }
        }
        assert!(cases >= 40 || timestamps == 0, "{mechanism}: {cases} cases");
    }
}

/// Epsilons and data, strides and largest numbers.
fn all_inputs() -> impl Iterator<Item = ((&'static str, Data), (u64, u64))> {
    let data = EPSILONS.into_iter().flat_map(|epsilon| Data::ALL.map(|data| (epsilon, data)));
    data.flat_map(|data| [(1, 0), (1, 1_000), (7, 1 << 40), (1 << 19, 5)].map(|numbers| (data, numbers)))
}

fn estimates(mechanism: &Mechanism) -> bool {
    mechanism.short_name.contains("track")
}

#[test]
fn every_mechanism_goes_on_at_any_epsilon() {
    check_all(|mechanism| if estimates(mechanism) { 0 } else { 8 });
}

#[test]
fn estimators_go_on_at_any_epsilon() {
    check_all(|mechanism| if estimates(mechanism) { 100 } else { 0 });
}

proptest! {
    #![proptest_config(repeatable(48))]

    #[test]
    fn estimators_go_on_with_any_data(
        name in select(vec!["local.track", "central.track", "personal_track", "scalar.track"]),
        epsilon in select(EPSILONS.to_vec()),
        domain in 2_usize..6,
        data in select(Data::ALL.to_vec()),
        largest in select(vec![1, 30, 1_000, 1 << 40]),
        (is_narrow, stride, seed) in (any::<bool>(), 1_u64..4, any::<u64>()),
    ) {
        let mechanism = mechanisms::find(name).unwrap();
        let case = Case { epsilon, domain, is_narrow, data, stride, timestamps: 300, largest, seed };
        if Stream::new(case.spec(mechanism)).is_ok() {
            case.check(mechanism);
        }
    }
}
