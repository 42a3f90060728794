//! Goodness of fit of each sampler; each check is shown to detect a change of 10 %.

use tidegate_kernel::SeededRandom;
use tidegate_kernel::noise::{
    Below, BiasedBits, DiscreteLaplace, Geometric, NoiseScale, bernoulli, bernoulli_exp, choose,
};

use crate::support::{
    ALPHA, assert_fits, assert_rejects, binomial_weights, epsilon, fold, laplace_weights, nonzero, tally, two_sample_p,
};

const DRAWS: usize = 400_000;

#[test]
fn uniform_integers_are_uniform() {
    for (seed, bound) in [(1, 2_u64), (2, 3), (3, 10), (4, 97)] {
        let mut random = SeededRandom::new(seed);
        let below = Below::new(nonzero(bound));
        let counts = tally(DRAWS, bound as usize, || below.sample(&mut random) as usize);
        assert_fits(&counts, &vec![1.0; bound as usize]);
        let skewed: Vec<f64> = (0..bound).map(|value| if value % 2 == 0 { 1.1 } else { 1.0 }).collect();
        assert_rejects(&counts, &skewed);
    }
}

#[test]
fn uniform_integers_are_unbiased_for_huge_bounds() {
    // For a bound of 3/4 · 2^64, a plain modulus would double the weight of the lower third.
    let bound = 3 << 62;
    let below = Below::new(nonzero(bound));
    let mut random = SeededRandom::new(5);
    let counts = tally(DRAWS, 3, || (below.sample(&mut random) >> 62) as usize);
    assert_fits(&counts, &[1.0; 3]);
    assert_rejects(&counts, &[1.1, 1.0, 1.0]);
}

#[test]
fn coins_have_their_probability() {
    for (seed, numerator, denominator) in [(10, 1, 3), (11, 2, 5), (12, 9, 10), (13, 1, 100)] {
        let mut random = SeededRandom::new(seed);
        let p = numerator as f64 / denominator as f64;
        let counts = tally(DRAWS, 2, || usize::from(bernoulli(numerator, nonzero(denominator), &mut random)));
        assert_fits(&counts, &[1.0 - p, p]);
        assert_rejects(&counts, &[1.0 - 0.9 * p, 0.9 * p]);
    }
    let mut random = SeededRandom::new(14);
    assert!((0..1_000).all(|_| bernoulli(5, nonzero(5), &mut random) && !bernoulli(0, nonzero(5), &mut random)));
}

#[test]
fn exponential_coins_have_their_probability() {
    for (seed, numerator, denominator) in [(20, 0, 7), (21, 1, 7), (22, 1, 1), (23, 5, 2), (24, 7, 2)] {
        let mut random = SeededRandom::new(seed);
        let p = (-(numerator as f64) / denominator as f64).exp();
        let counts = tally(DRAWS, 2, || usize::from(bernoulli_exp(numerator, nonzero(denominator), &mut random)));
        if numerator == 0 {
            assert_eq!(counts[0], 0);
            continue;
        }
        let wrong = (-1.1 * (numerator as f64) / denominator as f64).exp();
        assert_fits(&counts, &[1.0 - p, p]);
        assert_rejects(&counts, &[1.0 - wrong, wrong]);
    }
}

const SCALES: [(u64, u64); 5] = [(1, 1), (5, 2), (1, 3), (20, 1), (1_000_000_007, 100_000_000)];

#[test]
fn discrete_laplace_has_its_distribution() {
    for (index, (numerator, denominator)) in SCALES.into_iter().enumerate() {
        let scale = NoiseScale::new(nonzero(numerator), nonzero(denominator));
        let noise = DiscreteLaplace::new(scale);
        let mut random = SeededRandom::new(30 + index as u64);
        let reach = 2 + (12.0 * scale.as_f64()) as i64;
        let counts = tally(DRAWS, 2 * reach as usize + 1, || fold(noise.sample(&mut random) as i64, reach));
        assert_fits(&counts, &laplace_weights(scale.as_f64(), reach));
        assert_rejects(&counts, &laplace_weights(1.1 * scale.as_f64(), reach));
        assert_rejects(&counts, &laplace_weights(0.9 * scale.as_f64(), reach));
    }
}

#[test]
fn geometric_noise_has_its_distribution() {
    for (index, (numerator, denominator)) in SCALES.into_iter().enumerate() {
        let scale = NoiseScale::new(nonzero(numerator), nonzero(denominator));
        let noise = Geometric::new(scale);
        let mut random = SeededRandom::new(40 + index as u64);
        let reach = 2 + (12.0 * scale.as_f64()) as usize;
        let counts = tally(DRAWS, reach + 1, || (noise.sample(&mut random) as usize).min(reach));
        let weights = |scale: f64| -> Vec<f64> {
            let q = (-1.0 / scale).exp();
            (0..=reach).map(|z| if z == reach { q.powi(z as i32) } else { (1.0 - q) * q.powi(z as i32) }).collect()
        };
        assert_fits(&counts, &weights(scale.as_f64()));
        assert_rejects(&counts, &weights(1.1 * scale.as_f64()));
        assert_rejects(&counts, &weights(0.9 * scale.as_f64()));
    }
}

/// Noise saturated to 64 bits before it is added would reveal the secret.
#[test]
fn noise_is_not_cut_to_64_bits() {
    let scale = NoiseScale::new(nonzero(u64::MAX), nonzero(1));
    let mut random = SeededRandom::new(55);
    let (one_sided, two_sided) = (Geometric::new(scale), DiscreteLaplace::new(scale));
    let drawn: Vec<i128> = (0..100).map(|_| two_sided.sample(&mut random)).collect();
    assert!(drawn.iter().any(|z| *z > i128::from(i64::MAX)) && drawn.iter().any(|z| *z < i128::from(i64::MIN)));
    assert!((0..100).any(|_| one_sided.sample(&mut random) > i128::from(u64::MAX)));
}

#[test]
fn discrete_laplace_agrees_with_opendp() {
    // opendp cannot be seeded: this is the one test that could fail by chance, with probability 1e-9.
    const OPENDP_ALPHA: f64 = 1e-9;
    let draws = 200_000;
    let reach = 30;
    let theirs_at = |numerator: u32, denominator: u32| {
        let scale = opendp_scale(numerator, denominator);
        tally(draws, 2 * reach as usize + 1, || {
            let sample = opendp::traits::samplers::sample_discrete_laplace(scale.clone()).unwrap();
            fold(i64::try_from(sample).unwrap(), reach)
        })
    };
    let noise = DiscreteLaplace::new(NoiseScale::new(nonzero(5), nonzero(2)));
    let mut random = SeededRandom::new(50);
    let ours = tally(draws, 2 * reach as usize + 1, || fold(noise.sample(&mut random) as i64, reach));
    assert!(two_sample_p(&ours, &theirs_at(5, 2)) > OPENDP_ALPHA);
    assert!(two_sample_p(&ours, &theirs_at(55, 20)) < ALPHA, "a scale 10 % larger must be told apart");
}

fn opendp_scale(numerator: u32, denominator: u32) -> dashu::rational::RBig {
    dashu::rational::RBig::from_parts(numerator.into(), denominator.into())
}

#[test]
fn calibrated_scales_are_exact() {
    let scale = |sensitivity, text| NoiseScale::calibrated(sensitivity, epsilon(text));
    assert_eq!(scale(1, "0.5"), Ok(NoiseScale::new(nonzero(2), nonzero(1))));
    assert_eq!(scale(3, "0.7"), Ok(NoiseScale::new(nonzero(30), nonzero(7))));
    assert_eq!(scale(2, "0.000000003"), Ok(NoiseScale::new(nonzero(2_000_000_000), nonzero(3))));
    assert!(scale(NoiseScale::MAX_SENSITIVITY, "0.000000001").is_ok());
    let error = scale(NoiseScale::MAX_SENSITIVITY + 1, "1").unwrap_err().to_string();
    assert_eq!(error, "a sensitivity of 4611686019 is outside 1..=4611686018, the range that noise can be scaled to");
    assert!(scale(0, "1").is_err());
}

#[test]
fn variances_match_the_distributions() {
    for scale in [0.3, 1.0, 2.5, 40.0] {
        let exact = NoiseScale::new(nonzero((scale * 10.0) as u64), nonzero(10));
        let reach = 60 + (scale * 60.0) as i64;
        let second_moment: f64 =
            (-reach..=reach).zip(laplace_weights(scale, reach)).map(|(z, p)| (z * z) as f64 * p).sum();
        assert!((exact.laplace_variance() / second_moment - 1.0).abs() < 1e-9);
        assert!((exact.geometric_variance() * 2.0 / second_moment - 1.0).abs() < 1e-9);
    }
}

#[test]
fn biased_bits_are_independent() {
    for (index, q) in [0.5, 0.268_941_421, 0.731, 0.02, 1e-5].into_iter().enumerate() {
        let bits = BiasedBits::new(nonzero((q * 2_f64.powi(64)) as u64));
        let mut random = SeededRandom::new(60 + index as u64);
        // All 256 outcomes of eight neighbouring coins, at every position of a word.
        let mut counts = vec![0; 256];
        for _ in 0..DRAWS / 8 {
            for byte in bits.next_word(&mut random).to_le_bytes() {
                counts[usize::from(byte)] += 1;
            }
        }
        let weights = |q: f64| -> Vec<f64> {
            let zeros = |outcome: u32| 8 - outcome.count_ones();
            (0..256_u32).map(|o| q.powi(o.count_ones() as i32) * (1.0 - q).powi(zeros(o) as i32)).collect()
        };
        assert_fits(&counts, &weights(q));
        if q > 1e-3 {
            assert_rejects(&counts, &weights(1.1 * q));
        }
    }
}

#[test]
fn biased_bits_of_extreme_probabilities_work() {
    let mut random = SeededRandom::new(70);
    let almost_never = BiasedBits::new(nonzero(1));
    let almost_always = BiasedBits::new(nonzero(u64::MAX));
    for _ in 0..100_000 {
        assert_eq!(almost_never.next_word(&mut random), 0);
        assert_eq!(almost_always.next_word(&mut random), u64::MAX);
    }
}

#[test]
fn counts_of_biased_bits_are_binomial() {
    let (trials, q) = (100_u64, 0.3);
    let bits = BiasedBits::new(nonzero((q * 2_f64.powi(64)) as u64));
    let mut random = SeededRandom::new(71);
    let counts = tally(100_000, 101, || bits.count_ones(trials, &mut random) as usize);
    assert_fits(&counts, &binomial_weights(trials, q));
    assert_rejects(&counts, &binomial_weights(trials, 1.1 * q));
}

#[test]
fn every_subset_is_equally_likely() {
    let mut random = SeededRandom::new(80);
    let counts = tally(200_000, 64, || {
        let chosen = choose(3, 6, &mut random);
        assert!(chosen.is_sorted() && chosen.len() == 3);
        chosen.into_iter().map(|element| 1 << element).sum()
    });
    let size_three = |mask: usize| if mask.count_ones() == 3 { 1.0 } else { 0.0 };
    let mut weights: Vec<f64> = (0..64).map(size_three).collect();
    assert_fits(&counts, &weights);
    weights[0b111] = 1.1;
    assert_rejects(&counts, &weights);
    assert_eq!(choose(9, 4, &mut random), [0, 1, 2, 3]);
    assert_eq!(choose(0, 4, &mut random), [0_usize; 0]);
}

mod simulation {
    use statrs::distribution::{ContinuousCDF, Normal};
    use tidegate_kernel::simulation::{
        SimulationError, binomial, multinomial, sample_without_replacement, standard_normal,
    };

    use super::*;

    #[test]
    fn binomial_numbers_have_their_distribution() {
        let mut random = SeededRandom::new(90);
        let counts = tally(100_000, 41, || binomial(40, 0.2, &mut random).unwrap() as usize);
        assert_fits(&counts, &binomial_weights(40, 0.2));
        assert_rejects(&counts, &binomial_weights(40, 0.22));
        assert_eq!(binomial(40, 1.5, &mut random), Err(SimulationError::Probability { given: 1.5 }));
        assert!(binomial(40, f64::NAN, &mut random).is_err());
    }

    #[test]
    fn multinomial_counts_have_their_joint_distribution() {
        let mut random = SeededRandom::new(91);
        let weights = [2.0, 0.0, 5.0, 3.0];
        // Four trials in three cells: index by (first, third) count.
        let counts = tally(200_000, 25, || {
            let drawn = multinomial(4, &weights, &mut random).unwrap();
            assert_eq!((drawn.iter().sum::<u64>(), drawn[1]), (4, 0));
            (drawn[0] * 5 + drawn[2]) as usize
        });
        let factorial = |n: usize| (1..=n).product::<usize>() as f64;
        let joint = |p: [f64; 3]| -> Vec<f64> {
            let cell = |a: usize, b: usize| match 4_usize.checked_sub(a + b) {
                Some(c) => {
                    24.0 / (factorial(a) * factorial(b) * factorial(c))
                        * p[0].powi(a as i32)
                        * p[1].powi(b as i32)
                        * p[2].powi(c as i32)
                }
                None => 0.0,
            };
            (0..25).map(|index| cell(index / 5, index % 5)).collect()
        };
        assert_fits(&counts, &joint([0.2, 0.5, 0.3]));
        assert_rejects(&counts, &joint([0.22, 0.49, 0.29]));
        assert_eq!(multinomial(4, &[0.0, 0.0], &mut random), Err(SimulationError::Weights));
        assert_eq!(multinomial(4, &[f64::NAN, 1.0], &mut random), Err(SimulationError::Weights));
        assert_eq!(multinomial(4, &[-1.0, 2.0], &mut random), Err(SimulationError::Weights));
        assert_eq!(multinomial(4, &[], &mut random), Err(SimulationError::Weights));
    }

    #[test]
    fn samples_of_large_populations_have_their_distribution() {
        // Few of many, many of many, and a sample of almost everyone, which a library got wrong.
        for (stream, marked, unmarked, sample) in [
            (0, 10_000, 190_000, 9_828),
            (1, 100_000, 100_000, 50_000),
            (2, 30, 400_000, 399_000),
            (3, 5, 190_000, 9_828),
        ] {
            let mut random = SeededRandom::with_stream(93, stream);
            let population = marked + unmarked;
            let expected = sample as f64 * marked as f64 / population as f64;
            let spread = (expected * (1.0 - marked as f64 / population as f64)).sqrt().max(1.0);
            let low = (expected - 6.0 * spread).max(0.0) as u64;
            let cells = (12.0 * spread) as usize + 2;
            let counts = tally(50_000, cells, || {
                let drawn = sample_without_replacement(sample, &[marked, unmarked], &mut random).unwrap()[0];
                (drawn.saturating_sub(low) as usize).min(cells - 1)
            });
            let weights = |marked: u64| -> Vec<f64> {
                let mut log_weight = 0.0;
                let mut weights = Vec::new();
                for drawn in low..low + cells as u64 {
                    weights.push(if drawn > marked { 0.0 } else { f64::exp(log_weight) });
                    let up = (marked as f64 - drawn as f64) * (sample as f64 - drawn as f64)
                        / ((drawn + 1) as f64 * (unmarked as f64 + drawn as f64 + 1.0 - sample as f64));
                    log_weight += up.max(1e-300).ln();
                }
                let largest = weights.iter().copied().fold(0.0, f64::max);
                weights.iter().map(|weight| weight / largest).collect()
            };
            assert_fits(&counts, &weights(marked));
            if marked > 100 {
                assert_rejects(&counts, &weights(marked * 11 / 10));
            }
        }
    }

    #[test]
    fn a_sample_without_replacement_has_its_joint_distribution() {
        let mut random = SeededRandom::new(92);
        let population = [2_u64, 0, 3, 4];
        let counts = tally(200_000, 20, || {
            let drawn = sample_without_replacement(4, &population, &mut random).unwrap();
            assert_eq!((drawn.iter().sum::<u64>(), drawn[1]), (4, 0));
            (drawn[0] * 5 + drawn[2]) as usize
        });
        let choose = |n: usize, k: usize| (0..k).map(|i| (n as f64 - i as f64) / (i + 1) as f64).product::<f64>();
        let joint = |sizes: [usize; 3]| -> Vec<f64> {
            let cell = |a: usize, b: usize| match 4_usize.checked_sub(a + b) {
                Some(c) => choose(sizes[0], a) * choose(sizes[1], b) * choose(sizes[2], c),
                None => 0.0,
            };
            (0..20).map(|index| cell(index / 5, index % 5)).collect()
        };
        assert_fits(&counts, &joint([2, 3, 4]));
        assert_rejects(&counts, &joint([2, 4, 5]));
        let error = sample_without_replacement(10, &population, &mut random);
        assert_eq!(error, Err(SimulationError::Sample { sample: 10, population: 9 }));
        let too_many = sample_without_replacement(1, &[u64::MAX, 3], &mut random);
        assert_eq!(too_many, Err(SimulationError::TooMany { population: u128::from(u64::MAX) + 3 }));
        assert_eq!(sample_without_replacement(0, &population, &mut random), Ok(vec![0; 4]));
    }

    #[test]
    fn normal_draws_have_their_distribution() {
        // Cells of width 0.1 between -4 and 4; the end cells include the tails.
        let cells = 82;
        let mut random = SeededRandom::new(93);
        let counts = tally(DRAWS, cells, || ((standard_normal(&mut random) + 4.1) * 10.0).clamp(0.0, 81.0) as usize);
        let weights = |deviation: f64| -> Vec<f64> {
            let normal = Normal::new(0.0, deviation).unwrap();
            let below = |cell: usize| if cell == cells { 1.0 } else { normal.cdf(cell as f64 / 10.0 - 4.1) };
            (0..cells).map(|cell| below(cell + 1) - if cell == 0 { 0.0 } else { below(cell) }).collect()
        };
        assert_fits(&counts, &weights(1.0));
        assert_rejects(&counts, &weights(1.1));
        assert_rejects(&counts, &weights(0.9));
    }
}

#[test]
fn noise_of_large_scales_is_not_saturated() {
    // The scale is 2^32. The numerator is so large that one draw in e exceeds 64 bits before the division.
    let scale = NoiseScale::new(nonzero(u64::MAX), nonzero(1 << 32));
    let (noise, mut random) = (Geometric::new(scale), SeededRandom::new(90));
    let draws: Vec<f64> = (0..10_000).map(|_| noise.sample(&mut random) as f64 / 2_f64.powi(32)).collect();
    // Exponential of mean one: a draw exceeds 64 with probability below 10^4 · e^-64 < 1e-23. The mean of 10^4 draws is
    // more than 0.06 from one with probability 1e-8 (six standard deviations of 0.01).
    assert!(draws.iter().all(|draw| (0.0..64.0).contains(draw)));
    assert!((draws.iter().sum::<f64>() / 1e4 - 1.0).abs() < 0.06);
}
