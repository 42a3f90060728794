//! The local baseline `plbu`.

use tidegate::central::CentralError;
use tidegate::kernel::SeededRandom;
use tidegate::kernel::oracle::OracleKind;
use tidegate::kernel::simulation::estimate_of;
use tidegate::local::plbu::Plbu;
use tidegate::release::{Freshness, Release};

use super::{classes, epsilon};
use crate::central::counts_of;

/// What all members of each class answer.
fn answer(mechanism: &mut Plbu, timestamp: u64, counts: &[[u64; 3]], random: &mut SeededRandom) -> Release {
    let questions = mechanism.open(timestamp).unwrap();
    let estimates = questions.iter().zip(counts).map(|(question, counts)| {
        (counts.iter().sum::<u64>() > 0).then(|| estimate_of(&question.oracle().unwrap(), counts, random).unwrap())
    });
    let estimates: Vec<_> = estimates.collect();
    mechanism.answer(timestamp, &estimates).unwrap().remove(0)
}

#[test]
fn plbu_averages_classes_by_inverse_variance() {
    let counts = [[3_000, 2_000, 1_000], [1_500, 1_000, 500]];
    let mut random = SeededRandom::new(21);
    let declared = classes(&[("1", 4), ("3", 2)]);
    let (mut sum, mut squares, mut stated, runs) = (0.0, 0.0, 0.0, 2_000);
    let mut mechanism = Plbu::new(declared.clone(), 3, Some(OracleKind::Grr)).unwrap();
    for timestamp in 0..runs {
        let release = answer(&mut mechanism, timestamp, &counts, &mut random);
        assert_eq!((release.reports, release.spent.most()), (9_000, Some(epsilon("1.5"))));
        let of = counts_of(&release);
        sum += of.counts[0] - 4_500.0;
        squares += (of.counts[0] - 4_500.0).powi(2);
        stated += of.variances[0];
        for (_, ledger) in mechanism.ledgers().iter() {
            let spent: u64 = ledger.spends().map(|(_, amount)| amount.units()).sum();
            assert!(spent <= ledger.budget().units());
        }
    }
    let [mean, error, stated] = [sum, squares, stated].map(|sum| sum / runs as f64);
    assert!(mean.abs() < 5.0 * (stated / runs as f64).sqrt(), "{mean}");
    // The mean of so many squares of nearly normal errors is within 16 % in all but one of 10⁶ cases.
    assert!((error / stated - 1.0).abs() < 0.16, "{error} {stated}");
    // It is no worse than either class by itself.
    let alone = |class: usize, share: &str| {
        OracleKind::Grr.variance(3, epsilon(share), counts[class].iter().sum()).at(0.5) * 9_000_f64.powi(2)
    };
    assert!(stated < alone(0, "0.25").min(alone(1, "1.5")));
}

#[test]
fn plbu_repeats_without_answers_and_saves_anywhere() {
    let declared = classes(&[("1", 4), ("3", 2)]);
    let mut random = SeededRandom::new(22);
    let mut mechanism = Plbu::new(declared.clone(), 3, None).unwrap();
    let fresh = answer(&mut mechanism, 0, &[[5, 5, 5], [0, 0, 0]], &mut random);
    assert_eq!((fresh.freshness, fresh.reports), (Freshness::Fresh, 15));
    let silent = answer(&mut mechanism, 1, &[[0; 3]; 2], &mut random);
    assert_eq!((&silent.statistic, silent.freshness), (&fresh.statistic, Freshness::Approximated));
    let questions = mechanism.open(2).unwrap();
    let reload = |mechanism: &Plbu| -> Plbu {
        let bytes = postcard::to_allocvec(mechanism).unwrap();
        let loaded: Plbu = postcard::from_bytes(&bytes).unwrap();
        serde_json::from_str(&serde_json::to_string(&loaded).unwrap()).unwrap()
    };
    let mut loaded = reload(&mechanism);
    let estimates: Vec<_> = questions
        .iter()
        .map(|question| estimate_of(&question.oracle().unwrap(), &[9, 8, 7], &mut random).ok())
        .collect();
    let answered = mechanism.answer(2, &estimates).unwrap();
    assert_eq!(loaded.answer(2, &estimates).unwrap(), answered);
    assert_eq!(postcard::to_allocvec(&loaded).unwrap(), postcard::to_allocvec(&mechanism).unwrap());

    assert!(matches!(mechanism.answer(2, &estimates), Err(CentralError::Answer { .. })));
    assert_eq!(mechanism.open(2).unwrap_err(), CentralError::Time { given: 2, last: 2 });
    mechanism.open(3).unwrap();
    assert!(matches!(mechanism.answer(3, &estimates[..1]), Err(CentralError::Length { given: 1, .. })));
    let tiny = classes(&[("0.000000001", 4)]);
    assert!(matches!(Plbu::new(tiny, 3, None).map(drop), Err(CentralError::Epsilon { .. })));
    assert_eq!(Plbu::new(declared, 1, None).map(drop), Err(CentralError::Domain { given: 1 }));
    let mut json = serde_json::to_value(&mechanism).unwrap();
    json["domain"] = 4.into();
    assert!(serde_json::from_value::<Plbu>(json).is_err());
}
