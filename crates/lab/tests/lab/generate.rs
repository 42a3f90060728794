use tidegate_kernel::{Grid, SeededRandom};
use tidegate_lab::generate::{Away, Chain, Flow, GenerateError, Levels, NumberProcess, Places, Process, Shape};

use crate::chi_square::{ALPHA, chi_square_p};
use crate::support::assert_close;

fn shares(process: Process, length: usize) -> Vec<f64> {
    process.shares(length, &mut SeededRandom::new(7)).unwrap()
}

#[test]
fn sin_and_log_follow_their_formulas_from_timestamp_one() {
    let sin = shares(Process::SIN, 800);
    assert_close(sin[0], 0.05 * 0.01_f64.sin() + 0.075);
    assert_close(sin[799], 0.05 * 8.0_f64.sin() + 0.075);
    let log = shares(Process::LOG, 800);
    assert_close(log[0], 0.25 / (1.0 + (-0.01_f64).exp()));
    assert_close(log[799], 0.25 / (1.0 + (-8.0_f64).exp()));
}

#[test]
fn lns_takes_normal_steps_from_its_start() {
    // A long walk far from the borders, so that none of its steps is reflected.
    let walk = shares(Process::Lns { start: 0.5, deviation: 0.0002 }, 100_000);
    let steps: Vec<f64> = std::iter::once(0.5).chain(walk.iter().copied()).zip(&walk).map(|(a, b)| b - a).collect();
    let count = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / count;
    let deviation = (steps.iter().map(|step| step.powi(2)).sum::<f64>() / count).sqrt();
    // Five standard errors: a false alarm has a probability below 1e-6, and 10 % would be 45 of them.
    assert!(mean.abs() < 5.0 * 0.0002 / count.sqrt(), "{mean}");
    assert!((deviation / 0.0002 - 1.0).abs() < 5.0 / (2.0 * count).sqrt(), "{deviation}");
}

#[test]
fn lns_is_repeatable_and_stays_within_zero_and_one() {
    let wild = Process::Lns { start: 0.05, deviation: 0.3 };
    let walk = shares(wild, 10_000);
    assert!(walk.iter().all(|share| (0.0..=1.0).contains(share)));
    // Reflected and not clamped: it never rests on a border.
    assert!(walk.iter().all(|share| *share != 0.0 && *share != 1.0));
    assert_eq!(walk, shares(wild, 10_000));
    let other = wild.shares(10_000, &mut SeededRandom::new(8)).unwrap();
    assert_ne!(walk, other);
}

#[test]
fn tlns_ends_at_the_border_and_may_rest_there() {
    let wild = Process::Tlns { start: 0.05, deviation: 0.3 };
    let walk = shares(wild, 10_000);
    assert!(walk.iter().all(|share| (0.0..=1.0).contains(share)));
    assert!(walk.contains(&0.0) && walk.contains(&1.0), "it is truncated and not reflected");
    // Away from the borders it walks as LNS does, step by step.
    assert_eq!(shares(Process::Tlns { start: 0.5, deviation: 0.0002 }, 1_000), {
        shares(Process::Lns { start: 0.5, deviation: 0.0002 }, 1_000)
    });
    assert_eq!(Process::TLNS, Process::Tlns { start: 0.05, deviation: 0.0025 });
}

/// The probabilities of 0 to `trials` successes.
fn binomial_weights(trials: u32, probability: f64) -> Vec<f64> {
    let mut weights = vec![(1.0 - probability).powf(f64::from(trials))];
    for successes in 1..=trials {
        let odds = f64::from(trials - successes + 1) / f64::from(successes) * probability / (1.0 - probability);
        weights.push(weights[successes as usize - 1] * odds);
    }
    weights
}

#[test]
fn coins_make_a_binomial_number_of_ones() {
    // A share that hardly moves, so that all timestamps have the same distribution; false alarms at 1e-6, and a share
    // that is off by a tenth does not pass.
    let still = Process::Tlns { start: 0.3, deviation: 0.0 };
    let stream = still.toss(40, 20_000, &mut SeededRandom::new(12)).unwrap();
    let mut observed = vec![0_u64; 41];
    stream.counts().iter().for_each(|row| observed[row[1] as usize] += 1);
    assert!(chi_square_p(&observed, &binomial_weights(40, 0.3)) > ALPHA);
    assert!(chi_square_p(&observed, &binomial_weights(40, 0.33)) < ALPHA);
    assert!(stream.counts().iter().all(|row| row.iter().sum::<u64>() == 40));
    let name = |process: Process| process.toss(10, 1, &mut SeededRandom::new(1)).unwrap().name().to_owned();
    assert_eq!([Process::TLNS, Process::SIN, Process::LOG].map(name), ["tlns", "sin_coins", "log_coins"]);
    let refused = Process::SIN.toss(0, 1, &mut SeededRandom::new(1));
    assert_eq!(refused, Err(GenerateError::Population { given: 0 }));
}

#[test]
fn exactly_the_share_of_users_holds_one() {
    let mut random = SeededRandom::new(7);
    for process in [Process::LNS, Process::SIN, Process::LOG] {
        let stream = process.generate(200_000, 50, &mut SeededRandom::new(7)).unwrap();
        assert_eq!((stream.name(), stream.domain(), stream.length()), (process.name(), 2, 50));
        for (row, share) in stream.counts().iter().zip(process.shares(50, &mut SeededRandom::new(7)).unwrap()) {
            assert_eq!(row[1], (share * 200_000.0).round() as u64);
            assert_eq!(row[0] + row[1], 200_000);
        }
    }
    let all = Process::Log { ceiling: 1.0, rate: 100.0 }.generate(3, 2, &mut random).unwrap();
    assert_eq!(all.counts(), [[0, 3], [0, 3]]);
}

#[test]
fn what_has_no_stream_is_refused() {
    let mut random = SeededRandom::new(1);
    let mut generate = |process: Process, population, length| process.generate(population, length, &mut random);
    assert_eq!(generate(Process::SIN, 0, 1), Err(GenerateError::Population { given: 0 }));
    assert_eq!(generate(Process::SIN, u64::MAX, 1), Err(GenerateError::Population { given: u64::MAX }));
    assert_eq!(generate(Process::SIN, 1, 0), Err(GenerateError::Length { given: 0 }));
    assert!(generate(Process::SIN, 1, usize::MAX).is_err());
    for (start, deviation) in [(-0.1, 0.1), (f64::NAN, 0.1), (0.5, -1.0), (0.5, f64::INFINITY)] {
        let walk = generate(Process::Lns { start, deviation }, 10, 10);
        assert!(matches!(walk, Err(GenerateError::Walk { .. })));
    }
    let beyond = generate(Process::Sin { amplitude: 1.0, rate: 1.0, level: 0.5 }, 10, 10);
    assert!(matches!(beyond, Err(GenerateError::Share { name: "sin", timestamp: 1, .. })));
    assert!(generate(Process::Log { ceiling: f64::NAN, rate: 1.0 }, 10, 10).is_err());
}

fn numbers(process: NumberProcess, length: usize) -> Vec<f64> {
    let domain = NumberProcess::domain().unwrap();
    process.generate(domain, length, &mut SeededRandom::new(8)).unwrap().values().to_vec()
}

/// The mean and the standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

#[test]
fn seasons_swing_around_a_line_that_rises() {
    let NumberProcess::Seasonal { level, slope, amplitude, period, deviation } = NumberProcess::SEASONAL else {
        panic!("it is seasonal")
    };
    let noise: Vec<f64> = (1..)
        .zip(numbers(NumberProcess::SEASONAL, 800))
        .map(|(time, value)| {
            let time = f64::from(time);
            value - level - slope * time - amplitude * (std::f64::consts::TAU * time / period).sin()
        })
        .collect();
    let (mean, spread) = moments(&noise);
    // Five standard errors, false alarms below 1e-6; rounding adds a twelfth to the variance, which is nothing.
    assert!(mean.abs() < 5.0 * deviation / f64::sqrt(800.0), "{mean}");
    assert!((spread / deviation - 1.0).abs() < 5.0 / f64::sqrt(1_600.0), "{spread}");
}

#[test]
fn bursts_begin_at_their_rate_and_die_down() {
    let quiet = NumberProcess::Bursts { level: 50.0, deviation: 0.0, rate: 0.02, height: 900.0, decay: 0.2 };
    // A domain so wide that nothing is reflected.
    let domain = Grid::new(0.0, 10_000.0, 1.0).unwrap();
    let stream = quiet.generate(domain, 20_000, &mut SeededRandom::new(8)).unwrap();
    let rises = stream.values().windows(2).map(|pair| pair[1] - 50.0 - 0.8 * (pair[0] - 50.0));
    // Without a burst, what is left of the others differs by rounding: by 0.5 and 0.4 at most.
    assert!(rises.clone().all(|rise| (-0.9..=900.9).contains(&rise)));
    let bursts: Vec<f64> = rises.filter(|rise| *rise > 0.9).collect();
    // 400 are expected, of which one in a thousand is too small to see, half of the height on average; five standard
    // deviations of a binomial number and of a mean of uniform ones.
    let (mean, _) = moments(&bursts);
    assert!((bursts.len() as f64 - 400.0).abs() < 5.0 * f64::sqrt(400.0), "{}", bursts.len());
    assert!((mean - 450.0).abs() < 5.0 * 900.0 / f64::sqrt(12.0 * 400.0), "{mean}");
}

#[test]
fn a_walk_stays_within_its_domain() {
    let walk = numbers(NumberProcess::WALK, 50_000);
    assert!(walk.iter().all(|value| (0.0..=1_000.0).contains(value) && value.fract() == 0.0));
    let near_the_border = |value: &f64| !(50.0..=950.0).contains(value);
    assert!(walk.iter().any(near_the_border), "it would have proved nothing");
    let inside = walk.windows(2).filter(|pair| !pair.iter().any(near_the_border)).map(|pair| pair[1] - pair[0]);
    let (_, spread) = moments(&inside.collect::<Vec<_>>());
    // Steps of 10, and the rounding of either end; 2 % is more than six standard errors.
    assert!((spread / f64::sqrt(100.0 + 2.0 / 12.0) - 1.0).abs() < 0.02, "{spread}");
    let fine = Grid::new(-1.0, 2.0, 0.01).unwrap();
    let process = NumberProcess::Walk { start: 0.0, deviation: 0.5 };
    let values = process.generate(fine, 1_000, &mut SeededRandom::new(9)).unwrap();
    assert!(values.values().iter().all(|value| (-1.0..=2.0).contains(value)));
}

#[test]
fn chains_have_the_transitions_that_they_say() {
    let stream = Chain::STICKY.generate(1, 100_000, &mut SeededRandom::new(10)).unwrap();
    let stays = stream.sequences()[0].windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
    // Five standard deviations of a binomial number, false alarms below 1e-6.
    assert!((stays - 90_000.0).abs() < 5.0 * f64::sqrt(9_000.0), "{stays}");
    let rows = [vec![0.0, 1.0, 0.0], vec![0.5, 0.0, 0.5], vec![0.0, 0.3, 0.7]];
    let three = Chain::new("three", vec![0.2, 0.0, 0.8], &rows).unwrap();
    let stream = three.generate(20_000, 3, &mut SeededRandom::new(11)).unwrap();
    let share = |wanted: &dyn Fn(&[u32]) -> bool| {
        stream.sequences().iter().filter(|sequence| wanted(sequence)).count() as f64 / 20_000.0
    };
    let near = |share: f64, expected: f64| (share - expected).abs() < 5.0 * f64::sqrt(expected / 20_000.0);
    assert!(near(share(&|sequence| sequence[0] == 2), 0.8));
    assert!(near(share(&|sequence| sequence[..2] == [2, 1]), 0.24));
    assert!(near(share(&|sequence| sequence[..3] == [0, 1, 0]), 0.1));
    assert_eq!(share(&|sequence| sequence[0] == 1 || sequence[..2] == [0, 2]), 0.0);
}

#[test]
fn numbers_and_chains_that_make_no_sense_are_refused() {
    let mut random = SeededRandom::new(1);
    let domain = NumberProcess::domain().unwrap();
    for process in [
        NumberProcess::Walk { start: f64::NAN, deviation: 1.0 },
        NumberProcess::Walk { start: 0.0, deviation: -1.0 },
        NumberProcess::Bursts { level: 0.0, deviation: 1.0, rate: 1.1, height: 1.0, decay: 0.5 },
        NumberProcess::Seasonal { level: 0.0, slope: 0.0, amplitude: 1.0, period: 0.0, deviation: 1.0 },
    ] {
        let refused = process.generate(domain, 10, &mut random);
        assert_eq!(refused, Err(GenerateError::Numbers { name: process.name() }));
    }
    assert_eq!(NumberProcess::WALK.generate(domain, 0, &mut random), Err(GenerateError::Length { given: 0 }));
    let even = vec![vec![0.5, 0.5]; 2];
    let refused = Err(GenerateError::Chain { name: "odd".to_owned() });
    for initial in [[0.5, 0.6], [1.5, -0.5], [f64::NAN, 1.0]] {
        assert_eq!(Chain::new("odd", initial.to_vec(), &even), refused);
    }
    for rows in [vec![vec![0.5, 0.5]], vec![vec![1.0], vec![1.0]], vec![vec![0.5, 0.6], vec![0.5, 0.5]]] {
        assert_eq!(Chain::new("odd", vec![0.5, 0.5], &rows), refused);
    }
    assert_eq!(Chain::new("odd", vec![1.0], &[vec![1.0]]), Err(GenerateError::Symbols { given: 1 }));
    assert_eq!(Chain::staying(100_000, 0.5), Err(GenerateError::Symbols { given: 100_000 }));
    for stay in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(Chain::staying(3, stay), Err(GenerateError::Chain { .. })), "{stay}");
    }
    for (users, length) in [(0, 1), (1, 0), (usize::MAX, 2)] {
        assert!(matches!(Chain::EVEN.generate(users, length, &mut random), Err(GenerateError::Length { .. })));
    }
}

#[test]
fn a_chain_that_stays_leaves_for_any_other_symbol_alike() {
    let chain = Chain::staying(6, 0.4).unwrap();
    assert_eq!((chain.name(), chain.symbols()), ("markov:6:0.4", 6));
    let stream = chain.generate(300, 200, &mut SeededRandom::new(13)).unwrap();
    let (mut first, mut steps) = (vec![0_u64; 6], vec![0_u64; 6]);
    for sequence in stream.sequences() {
        first[sequence[0] as usize] += 1;
        sequence.windows(2).for_each(|pair| steps[((6 + pair[1] - pair[0]) % 6) as usize] += 1);
    }
    // By how much the symbol changes, around the circle; false alarms at 1e-6, a tenth more to stay does not pass.
    assert!(chi_square_p(&first, &[1.0; 6]) > ALPHA);
    assert!(chi_square_p(&steps, &[0.4, 0.12, 0.12, 0.12, 0.12, 0.12]) > ALPHA);
    assert!(chi_square_p(&steps, &[0.44, 0.112, 0.112, 0.112, 0.112, 0.112]) < ALPHA);
}

/// Without noise and bursts.
const CALM: Flow = Flow { deviation: 0.0, rate: 0.0, ..Flow::TRAFFIC };

#[test]
fn a_calm_flow_follows_its_formula() {
    let shares = CALM.shares(1_000, &mut SeededRandom::new(14)).unwrap();
    assert!(shares.iter().all(|row| row.len() == 13 && (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    let Some(Away { level, swing }) = CALM.away else { panic!("some are away") };
    for (timestamp, is_weekend) in
        [(1_u32, false), (24, false), (5 * 24 + 7, true), (7 * 24 - 1, true), (7 * 24, false)]
    {
        let time = f64::from(timestamp);
        let place = |place: u32| {
            let (along, tide) = (f64::from(place) / 11.0, time / 24.0 - f64::from(place) / 12.0);
            let weekend = if !is_weekend {
                0.0
            } else if place.is_multiple_of(2) {
                -0.4
            } else {
                0.4
            };
            let trend = 0.001 * (along - 0.5) * time;
            (0.8 * (std::f64::consts::TAU * tide).sin() - 1.5 * along + weekend + trend).exp()
        };
        let away = (level + swing * (std::f64::consts::TAU * time / 24.0).cos()).exp();
        let weights: Vec<f64> = std::iter::once(away).chain((0..12).map(place)).collect();
        let total: f64 = weights.iter().sum();
        for (share, weight) in shares[timestamp as usize - 1].iter().zip(weights) {
            assert_close(*share, weight / total);
        }
    }
    // Users move from the first district to the last: by the trend's factor in 168 hours, and nothing else has changed.
    let ratio = |timestamp: usize| shares[timestamp - 1][12] / shares[timestamp - 1][1];
    assert!((ratio(10 + 168) / ratio(10) - f64::exp(0.168)).abs() < 1e-9);
}

#[test]
fn a_flow_deals_out_every_user_and_comes_from_its_seed() {
    for flow in [Flow::TRAFFIC, Flow::SEASONAL, Flow::BURSTS] {
        for population in [1, 7, 200_000] {
            let stream = flow.generate(population, 300, &mut SeededRandom::new(15)).unwrap();
            let shares = flow.shares(300, &mut SeededRandom::new(15)).unwrap();
            assert_eq!((stream.name(), stream.domain()), (flow.name, shares[0].len()));
            for (row, shares) in stream.counts().iter().zip(shares) {
                assert_eq!(row.iter().sum::<u64>(), population);
                let near = |(count, share): (&u64, f64)| (*count as f64 - share * population as f64).abs() <= 1.0;
                assert!(row.iter().zip(shares).all(near));
            }
        }
        let counts = |seed| flow.generate(1_000, 50, &mut SeededRandom::new(seed)).unwrap();
        assert_eq!(counts(1), counts(1));
        assert_ne!(counts(1), counts(2));
    }
}

#[test]
fn noise_and_bursts_of_a_flow_are_as_they_say() {
    // The logarithm of the share of each place against that of the calm flow is noise, less what all have in common.
    let calm = Flow { deviation: 0.0, ..Flow::SEASONAL };
    let mut random = SeededRandom::new(16);
    let noisy = Flow::SEASONAL.shares(2_000, &mut random).unwrap();
    let calm = calm.shares(2_000, &mut random).unwrap();
    let noise = |place: usize| {
        let apart =
            |(noisy, calm): (&Vec<f64>, &Vec<f64>)| (noisy[place] / calm[place]).ln() - (noisy[9] / calm[9]).ln();
        noisy.iter().zip(&calm).map(apart).collect::<Vec<f64>>()
    };
    for place in 0..9 {
        let (mean, spread) = moments(&noise(place));
        // A difference of two; five standard errors, false alarms below 1e-6, and a tenth would be six.
        let expected = 0.05 * f64::sqrt(2.0);
        assert!(mean.abs() < 5.0 * expected / f64::sqrt(2_000.0), "{place}: {mean}");
        assert!((spread / expected - 1.0).abs() < 5.0 / f64::sqrt(4_000.0), "{place}: {spread}");
    }
    // Bursts alone: what is left of them falls by a fifth, unless one begins, and they begin anywhere alike.
    let bursts = Flow { deviation: 0.0, ..Flow::BURSTS };
    let still = Flow { rate: 0.0, ..bursts };
    let still = still.shares(1, &mut random).unwrap().remove(0);
    let heights: Vec<Vec<f64>> = bursts
        .shares(20_000, &mut random)
        .unwrap()
        .into_iter()
        .map(|row| {
            let relative: Vec<f64> = row.iter().zip(&still).map(|(share, still)| (share / still).ln()).collect();
            // Some place has no burst to speak of, and gives away what all have in common.
            let least = relative.iter().copied().fold(f64::INFINITY, f64::min);
            relative.iter().map(|height| height - least).collect()
        })
        .collect();
    let (mut begun, mut rises) = (vec![0_u64; 10], Vec::new());
    for pair in heights.windows(2) {
        for place in 0..10 {
            let rise = pair[1][place] - 0.8 * pair[0][place];
            if rise > 1e-3 {
                begun[place] += 1;
                rises.push(rise);
            }
        }
    }
    let total = rises.len() as f64;
    let (mean, _) = moments(&rises);
    // 400 are expected, each place alike, half of the height on average: five standard deviations, and chi-square at
    // 1e-6.
    assert!((total - 400.0).abs() < 5.0 * f64::sqrt(400.0), "{total}");
    assert!((mean - 1.5).abs() < 5.0 * 3.0 / f64::sqrt(12.0 * 400.0), "{mean}");
    assert!(chi_square_p(&begun, &[1.0; 10]) > ALPHA, "{begun:?}");
}

#[test]
fn flows_that_make_no_sense_are_refused() {
    let refused = Err(GenerateError::Flow { name: "traffic" });
    for flow in [
        Flow { period: 0.0, ..Flow::TRAFFIC },
        Flow { deviation: -1.0, ..Flow::TRAFFIC },
        Flow { rate: 1.5, ..Flow::TRAFFIC },
        Flow { decay: f64::NAN, ..Flow::TRAFFIC },
        Flow { trend: f64::INFINITY, ..Flow::TRAFFIC },
        Flow { places: Places::Numbered(1), ..Flow::TRAFFIC },
        Flow { away: Some(Away { level: f64::NAN, swing: 0.0 }), ..Flow::TRAFFIC },
    ] {
        assert_eq!(flow.generate(10, 10, &mut SeededRandom::new(1)), refused);
    }
    let generate = |population, length| Flow::TRAFFIC.generate(population, length, &mut SeededRandom::new(1));
    assert_eq!(generate(0, 10), Err(GenerateError::Population { given: 0 }));
    assert!(matches!(generate(10, usize::MAX), Err(GenerateError::Length { .. })));
    // A slope that would drown everything else in a long stream is no reason to fail.
    let steep = Flow { trend: 1e6, ..CALM }.shares(100, &mut SeededRandom::new(1)).unwrap();
    assert!(steep.iter().flatten().all(|share| share.is_finite()));
}

fn levels(levels: Levels, population: u64) -> Vec<Vec<u64>> {
    levels.generate(population, 240, &mut SeededRandom::new(5)).unwrap().counts().to_vec()
}

const QUIET: [u64; 5] = [400, 250, 200, 100, 50];
const REVERSED: [u64; 5] = [50, 100, 200, 250, 400];

#[test]
fn levels_stand_still_and_jump_where_they_say() {
    assert!(levels(Levels::Constant, 1_000).iter().all(|row| *row == QUIET));
    for (timestamp, row) in levels(Levels::Alternating, 1_000).iter().enumerate() {
        assert_eq!(*row, if timestamp / 50 % 2 == 0 { QUIET } else { REVERSED }, "{timestamp}");
    }
    for (timestamp, row) in levels(Levels::SingleJump, 1_000).iter().enumerate() {
        assert_eq!(*row, if timestamp < 120 { QUIET } else { REVERSED }, "{timestamp}");
    }
    for (timestamp, row) in levels(Levels::Incident, 1_000).iter().enumerate() {
        let during = (120..126).contains(&timestamp);
        assert_eq!(*row, if during { [200, 125, 100, 50, 525] } else { QUIET }, "{timestamp}");
    }
}

#[test]
fn white_levels_scatter_around_their_means() {
    let rows = levels(Levels::White, 1_000_000);
    assert!(rows.iter().all(|row| row.iter().sum::<u64>() == 1_000_000));
    assert!(rows.windows(2).all(|pair| pair[0] != pair[1]));
    let mean = rows.iter().map(|row| row[0] as f64 / 1e6).sum::<f64>() / 240.0;
    // A share has a standard deviation below 0.1, its mean of 240 one below 0.0065: this is more than five of them.
    assert!((mean - 0.4).abs() < 0.035, "{mean}");
}

#[test]
fn users_grow_to_25_times_in_ten_timestamps() {
    let users: Vec<u64> = levels(Levels::Growth, 1_000).iter().map(|row| row.iter().sum()).collect();
    assert!(users[..120].iter().all(|users| *users == 40));
    assert_eq!(users[120..130], [136, 232, 328, 424, 520, 616, 712, 808, 904, 1_000]);
    assert!(users[130..].iter().all(|users| *users == 1_000));
}

#[test]
fn a_queue_is_short_but_for_six_timestamps() {
    let during = Levels::incident(240);
    assert_eq!(during, 120..126);
    for (timestamp, row) in levels(Levels::Queue, 7).into_iter().enumerate() {
        let jump = if during.contains(&timestamp) { Levels::QUEUE_JUMP } else { 0 };
        assert!(row[..4].iter().all(|count| (1..=4).contains(count)), "{timestamp}");
        assert!((1 + jump..=4 + jump).contains(&row[4]), "{timestamp}");
    }
}

fn shape(shape: Shape, width: f64) -> Vec<f64> {
    let grid = Grid::new(0.0, width, 1.0).unwrap();
    shape.generate(grid, 240, &mut SeededRandom::new(5)).unwrap().values().to_vec()
}

#[test]
fn shapes_scale_with_the_domain() {
    assert!(shape(Shape::Constant, 1e9).iter().all(|value| *value == 3e8));
    let jump = shape(Shape::SingleJump, 1e3);
    assert!(jump[..120].iter().all(|value| *value == 200.0) && jump[120..].iter().all(|value| *value == 700.0));
    let incident = shape(Shape::Incident, 1e3);
    assert_eq!(incident.iter().filter(|value| **value == 800.0).count(), 6);
    assert_eq!((incident[119], incident[120], incident[125], incident[126]), (100.0, 800.0, 800.0, 100.0));
    let growth = shape(Shape::Growth, 1e3);
    assert_eq!((growth[0], growth[239]), (40.0, 1e3));
    assert!(growth.windows(2).all(|pair| pair[0] < pair[1]));
    let spikes = shape(Shape::Spikes, 1e6);
    assert!(spikes.iter().all(|value| *value == 1e5 || *value == 9e5) && spikes.contains(&9e5));
    let ends = shape(Shape::TwoEnds, 10.0);
    assert!(ends.iter().all(|value| *value == 0.0 || *value == 10.0) && ends.contains(&0.0) && ends.contains(&10.0));
    let daily = shape(Shape::Daily, 1e6);
    let mean = |hour: usize| (0..10).map(|day| daily[24 * day + hour]).sum::<f64>() / 10.0;
    // Means of ten have a standard deviation of 0.0063 of the domain.
    assert!((mean(6) - 8e5).abs() < 5e4 && (mean(18) - 2e5).abs() < 5e4);
}

#[test]
fn shapes_stay_on_the_grid_of_any_domain() {
    for kind in [Shape::White, Shape::Walk, Shape::Bursts, Shape::Daily, Shape::Alternating] {
        for width in [1.0, 10.0, 1e3, 1e6, 1e9] {
            let values = shape(kind, width);
            assert!(values.iter().all(|value| value.fract() == 0.0 && (0.0..=width).contains(value)), "{kind:?}");
        }
        assert_eq!(shape(kind, 1e6), shape(kind, 1e6));
    }
}
