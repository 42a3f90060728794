//! Devices that release sequences do what the library's mechanisms do.

use tidegate::kernel::oracle::OracleKind;
use tidegate::kernel::{Cohort, Question, SeededRandom, View, Window};
use tidegate::release::Statistic;
use tidegate::sequence::batched::{Batched, BatchedSettings};
use tidegate::sequence::crr::{Crr, CrrSettings};
use tidegate::sequence::distance::Distance;
use tidegate::sequence::model::{Background, Model, Order, Smoothing, SparseRow};
use tidegate_device::sequence::{
    BILLION, Metric, PolicyModel, SequenceError, SequenceMechanism, SequenceMemory, SequencePolicy, SequenceRule,
};
use tidegate_device::{Device, DevicePolicy};

use crate::support::{random_belief, random_rows};

fn chain(domain: usize, seed: u64) -> PolicyModel {
    let random = &mut SeededRandom::new(seed);
    let (prior, rows) = (random_belief(domain, random), random_rows(domain, random));
    PolicyModel::of(&Model::dense(prior, rows.concat()).unwrap()).unwrap()
}

/// The numbers that a device reports, and the numbers of the releases of the library's mechanism. Every third symbol is
/// left out.
fn both(
    model: &PolicyModel,
    length: u32,
    metric: Metric,
    mut mechanism: impl FnMut(u64, &[u32], u64) -> Vec<u32>,
) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let mechanism_of = if length == 1 { SequenceMechanism::Crr } else { SequenceMechanism::Batched { length } };
    let policy =
        SequencePolicy { mechanism: mechanism_of, epsilon: "1".parse().unwrap(), metric, model: model.clone() };
    let rule = SequenceRule::new(&policy).unwrap();
    let domain = u32::try_from(model.prior.len()).unwrap();
    let protects = DevicePolicy { epsilon: "1000".parse().unwrap(), window: Window::of(1).unwrap(), domain };
    let (mut device, mut memory) = (Device::new(protects, 7), SequenceMemory::new(&rule));
    let (mut own, mut library) = (Vec::new(), Vec::new());
    for batch in (0..90).filter(|batch| batch % 3 != 2) {
        let symbols: Vec<u32> =
            (0..length).map(|place| (u32::try_from(batch).unwrap() * 7 + place * 3) % domain).collect();
        let timestamp = (batch + 1) * u64::from(length) - 1;
        let (cohort, view) = (Cohort::Everyone, View::Sequence { length });
        let epsilon = policy.loss().unwrap();
        let question = Question { timestamp, phase: 0, cohort, epsilon, oracle: OracleKind::Grr, domain, view };
        let random = &mut SeededRandom::new(batch);
        let gathered = || rule.batch_of(symbols.iter().copied());
        let report = device.answer_sequence(timestamp, &question, &rule, &mut memory, gathered, random).unwrap();
        let number = report.as_bytes().iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let digit = |place: u32| number / domain.pow(length - 1 - place) % domain;
        own.push((0..length).map(digit).collect());
        library.push(mechanism(batch, &symbols, batch));
    }
    (own, library)
}

fn symbol(statistic: &Statistic) -> u32 {
    match statistic {
        Statistic::Symbol(symbol) => symbol.symbol,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_device_releases_what_crr_releases() {
    let metrics = [
        (Metric::Hamming, Distance::Hamming),
        (Metric::Absolute, Distance::Absolute),
        (Metric::Squared, Distance::Squared),
        (Metric::Grid { columns: 3 }, Distance::Grid { columns: 3 }),
    ];
    for (metric, distance) in metrics {
        for seed in 0..4 {
            let model = chain(6, seed);
            let settings = CrrSettings { distance: distance.clone(), ..CrrSettings::new("1".parse().unwrap()) };
            let mut crr = Crr::new(model.model().unwrap(), settings).unwrap();
            let (own, library) = both(&model, 1, metric, |timestamp, symbols, seed| {
                let sealed = crr.seal(timestamp, symbols[0]).unwrap();
                vec![symbol(&crr.step(&sealed, &mut SeededRandom::new(seed)).unwrap().statistic)]
            });
            assert_eq!(own, library, "{metric} {seed}");
        }
    }
}

#[test]
fn a_device_releases_what_batched_releases() {
    for seed in 0..3 {
        let model = chain(3, seed);
        let settings =
            BatchedSettings { batch: CrrSettings::new("1".parse().unwrap()), length: 3, part: None, support: None };
        let mut batched = Batched::new(model.model().unwrap(), settings).unwrap();
        let (own, library) = both(&model, 3, Metric::Hamming, |batch, symbols, seed| {
            let mut gathered = batched.gather().unwrap();
            symbols.iter().for_each(|symbol| gathered.push(*symbol).unwrap());
            let releases = batched.answer(batch, gathered, &mut SeededRandom::new(seed)).unwrap();
            releases.iter().map(|release| symbol(&release.statistic)).collect()
        });
        assert_eq!(own, library, "{seed}");
    }
}

#[test]
fn models_are_rounded_to_billionths_that_sum_to_one() {
    for seed in 0..20 {
        let model = chain(7, seed);
        let rows = model.rows.iter().map(|row| row.own.iter().map(|(_, share)| share).sum::<u32>() + row.rest);
        assert!(rows.chain([model.prior.iter().sum()]).all(|sum| sum == BILLION));
        // What was rounded once stays as it is, so a policy is the same on every device.
        assert_eq!(PolicyModel::of(&model.model().unwrap()).unwrap(), model);
    }
    let own = vec![(2, 0.25), (5, 0.5)];
    let rows = (0..9).map(|_| SparseRow { own: own.clone(), left: 0.25 }).collect();
    let sparse = Model::sparse(vec![1.0 / 9.0; 9], rows, vec![1.0 / 9.0; 9]).unwrap();
    let model = PolicyModel::of(&sparse).unwrap();
    assert_eq!((model.rows[0].own.len(), model.rows[0].rest), (2, 250_000_000));
    let smoothing = Smoothing { pseudo_count: 1.0, background: Background::Uniform };
    let second = Model::learn(3, [[0, 1, 2, 0].as_slice()], Order::Two, smoothing).unwrap();
    assert_eq!(PolicyModel::of(&second), Err(SequenceError::Order));
    let wide = Model::uniform(5_000).unwrap();
    assert!(matches!(PolicyModel::of(&wide), Err(SequenceError::Size { symbols: 5_000, .. })));
}
