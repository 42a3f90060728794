//! `track` for classes of users.

use std::num::NonZeroU64;

use tidegate::central::PersonalSettings;
use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::personal_track::PersonalTrack;
use tidegate::kernel::primitives::ClassHistograms;
use tidegate::kernel::{Epsilon, SeededRandom};
use tidegate::release::Counts;

use crate::central::{counts_of, fullest_window, spent_at};

pub fn classes() -> Classes {
    let requirement = |epsilon: &str, window| Requirement {
        epsilon: epsilon.parse().unwrap(),
        window: NonZeroU64::new(window).unwrap(),
    };
    Classes::numbered(&[requirement("0.2", 12), requirement("1", 5)]).unwrap()
}

#[test]
fn class_windows_hold_across_saves() {
    let drive = |interrupted: bool, users: u64| {
        let mut mechanism = PersonalTrack::new(classes(), PersonalSettings::new(3)).unwrap();
        let mut random = SeededRandom::new(20);
        let (mut spends, mut releases) = (vec![Vec::new(); 2], Vec::new());
        for timestamp in 0..200_u64 {
            let level = match timestamp {
                40..80 => timestamp * 7919 % 500,
                140.. => 100 + 200 * (timestamp / 13 % 2),
                _ => 100,
            };
            let counts = [level, 50, 0, 60, level, 9].map(|count| count * users).to_vec();
            let sealed = ClassHistograms::seal(mechanism.ledgers().account(), timestamp, &[0, 1], counts).unwrap();
            releases.extend(mechanism.push(&sealed, &[600 * users; 2], &mut random).unwrap());
            for (class, ledger) in mechanism.ledgers().iter() {
                spends[class as usize].push(spent_at(ledger, timestamp));
            }
            let most = spends.iter().map(|spends| *spends.last().unwrap()).max().unwrap();
            assert_eq!(releases.last().unwrap().spent.most().map_or(0, Epsilon::units), most);
            if interrupted {
                mechanism = postcard::from_bytes(&postcard::to_allocvec(&mechanism).unwrap()).unwrap();
                mechanism = serde_json::from_str(&serde_json::to_string(&mechanism).unwrap()).unwrap();
            }
        }
        assert!(fullest_window(&spends[0], 12) <= 200_000_000);
        assert!(fullest_window(&spends[1], 5) <= 1_000_000_000);
        assert!(mechanism.finish().is_empty());
        releases
    };
    for users in [1, 10_000] {
        assert_eq!(drive(false, users), drive(true, users));
    }
}

/// Rounding once gave the variances of some models a sign, and such states were saved.
#[test]
fn loads_variances_that_rounding_made_negative() {
    let mut mechanism = PersonalTrack::new(classes(), PersonalSettings::new(3)).unwrap();
    let sealed = ClassHistograms::seal(mechanism.ledgers().account(), 0, &[0, 1], vec![5; 6]).unwrap();
    let _released = mechanism.push(&sealed, &[20, 20], &mut SeededRandom::new(21)).unwrap();
    let mut json = serde_json::to_value(&mechanism).unwrap();
    let number = &mut json["scheduler"]["estimator"]["bank"]["numbers"][1];
    for at in [12, 17] {
        number["variances"][at] = (-1e-48).into();
        number["covariance"][0][at] = (-1e-48).into();
    }
    let mut mechanism: PersonalTrack = serde_json::from_value(json).unwrap();
    for timestamp in 1..50 {
        let counts = vec![5; 6];
        let sealed = ClassHistograms::seal(mechanism.ledgers().account(), timestamp, &[0, 1], counts).unwrap();
        let releases = mechanism.push(&sealed, &[20, 20], &mut SeededRandom::new(timestamp)).unwrap();
        let Counts { counts, variances } = counts_of(&releases[0]);
        assert!(counts.iter().chain(variances).all(|number| number.is_finite() && *number >= 0.0), "{releases:?}");
    }
    let _loaded: PersonalTrack = postcard::from_bytes(&postcard::to_allocvec(&mechanism).unwrap()).unwrap();
}

#[test]
fn rejects_inconsistent_class_state() {
    let mut mechanism = PersonalTrack::new(classes(), PersonalSettings::new(3)).unwrap();
    let sealed = ClassHistograms::seal(mechanism.ledgers().account(), 0, &[0, 1], vec![5; 6]).unwrap();
    let _released = mechanism.push(&sealed, &[20, 20], &mut SeededRandom::new(21)).unwrap();
    let json = serde_json::to_value(&mechanism).unwrap();
    let loads = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = json.clone();
        change(&mut changed);
        serde_json::from_value::<PersonalTrack>(changed).is_ok()
    };
    assert!(loads(&|_| ()));
    assert!(!loads(&|state| state["version"] = 8.into()));
    assert!(!loads(&|state| state["settings"]["domain"] = 4.into()));
    assert!(!loads(&|state| state["periods"] = serde_json::json!([5])));
    assert!(!loads(&|state| state["scheduler"]["first"] = 5.into()));
    assert!(!loads(&|state| state["scheduler"]["exact"] = 7.into()));
    assert!(!loads(&|state| state["scheduler"]["period"] = 0.into()));
    assert!(!loads(&|state| state["scheduler"]["accounts"][1]["main"]["whole"] = 1.into()));
    assert!(!loads(&|state| state["scheduler"]["more"] = 1.into()));
    assert!(!loads(&|state| state["more"] = 1.into()));
    // Data of another timestamp order, domain and number of classes.
    assert!(mechanism.push(&sealed, &[20, 20], &mut SeededRandom::new(22)).is_err());
    let narrow = ClassHistograms::seal(mechanism.ledgers().account(), 1, &[0, 1], vec![5; 4]).unwrap();
    assert!(mechanism.push(&narrow, &[20, 20], &mut SeededRandom::new(22)).is_err());
    let later = ClassHistograms::seal(mechanism.ledgers().account(), 1, &[0, 1], vec![5; 6]).unwrap();
    assert!(mechanism.push(&later, &[20], &mut SeededRandom::new(22)).is_err());
}
