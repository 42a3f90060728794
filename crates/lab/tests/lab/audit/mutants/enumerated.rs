//! Broken mechanisms whose loss can be calculated.

use tidegate_lab::audit::exact::largest_difference;
use tidegate_lab::sequence::paper_crr_not_private;

use super::Form;

fn logarithms(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.iter().map(|p| p.ln()).collect()).collect()
}

/// Buckets drawn as published, with all of them where another one is to be told, and as built.
#[test]
fn a_bucket_drawn_including_its_own_loses_what_the_formula_says() {
    let loss = |buckets: usize, epsilon: f64, form: Form| {
        let own = epsilon.exp() / (epsilon.exp() + buckets as f64 - 1.0);
        let row = |bucket: usize| {
            (0..buckets)
                .map(|told| {
                    let is_own = f64::from(u8::from(told == bucket));
                    let other = form.choose(1.0 / buckets as f64, (1.0 - is_own) / (buckets - 1) as f64);
                    own * is_own + (1.0 - own) * other
                })
                .collect::<Vec<f64>>()
        };
        largest_difference(&logarithms(&(0..buckets).map(row).collect::<Vec<_>>()))
    };
    for (buckets, expected) in [(2, 1.166), (10, 0.801), (100, 0.750)] {
        let (broken, healthy) = (loss(buckets, 0.1, Form::Broken), loss(buckets, 0.1, Form::Healthy));
        println!("| `bucorder`, own bucket drawn too, {buckets} buckets | 0.1 | {broken:.3} | {healthy:.3} |");
        assert!((broken - expected).abs() < 6e-4, "{buckets}: {broken}");
        assert!((healthy - 0.1).abs() < 1e-12, "{buckets}: {healthy}");
    }
}

/// The leakage of sequence information privacy: each answer's probability for a symbol against that for a symbol that
/// is drawn.
fn leakage(rows: &[Vec<f64>], prior: &[f64]) -> f64 {
    let of = |answer: usize| prior.iter().zip(rows).map(|(p, row)| p * row[answer]).sum::<f64>();
    let answers: Vec<f64> = (0..rows.len()).map(of).collect();
    let against = |row: &Vec<f64>| largest_difference(&logarithms(&[row.clone(), answers.clone()]));
    rows.iter().map(against).fold(0.0, f64::max)
}

#[test]
fn conditional_randomised_response_as_published_leaks_what_was_calculated() {
    let vectors = [(vec![0.1, 0.9], 1.9005, 2.9005), (vec![0.25; 4], 1.0635, 2.0635), (vec![0.2; 5], 1.2609, 2.2609)];
    for (prior, leaked, lost) in vectors {
        let rows = paper_crr_not_private(&prior, 1.0);
        let (found, local) = (leakage(&rows, &prior), largest_difference(&logarithms(&rows)));
        println!("| `crr` as published, {prior:?} | 1 | {found:.4} | 2 | {local:.4} |");
        assert!((found - leaked).abs() < 1e-4 && (local - lost).abs() < 1e-4, "{prior:?}: {found} {local}");
    }
    // Where every symbol is likely enough, it keeps what it claims.
    let prior = [0.4, 0.3, 0.3];
    assert!(leakage(&paper_crr_not_private(&prior, 1.0), &prior) <= 1.0 + 1e-12);
}

/// A channel for symbols that are equally likely, where one is rare.
#[test]
fn a_model_that_is_wrong_leaks_what_was_calculated() {
    let rows = paper_crr_not_private(&[0.5, 0.5], 3_f64.ln());
    assert!((leakage(&rows, &[0.5, 0.5]) - 1.0986).abs() < 1e-4);
    assert!((leakage(&rows, &[0.05, 0.95]) - 1.5686).abs() < 1e-4);
}

/// How likely continuous grouping, with Laplace noise of these scales and a threshold of zero, accepts all readings but
/// the last: the logarithm of an integral over the threshold's noise.
fn log_probability(readings: &[f64], threshold_scale: f64, query_scale: f64) -> f64 {
    let deviations: Vec<f64> = (1..=readings.len())
        .map(|count| {
            let mean = readings[..count].iter().sum::<f64>() / count as f64;
            readings[..count].iter().map(|reading| (reading - mean).abs()).sum()
        })
        .collect();
    let below = |x: f64| if x < 0.0 { x - 2_f64.ln() } else { (-0.5 * (-x).exp()).ln_1p() };
    let density = |noise: f64| {
        let (last, accepted) = deviations.split_last().unwrap();
        let accepted: f64 = accepted.iter().map(|deviation| below((noise - deviation) / query_scale)).sum();
        accepted + below((last - noise) / query_scale) - noise.abs() / threshold_scale - (2.0 * threshold_scale).ln()
    };
    let (steps, reach) = (40_000, 60.0 * threshold_scale + 20.0 * query_scale);
    let width = 2.0 * reach / f64::from(steps);
    let pieces: Vec<f64> = (0..steps).map(|step| density(-reach + (f64::from(step) + 0.5) * width)).collect();
    let most = pieces.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + (pieces.iter().map(|piece| (piece - most).exp()).sum::<f64>() * width).ln()
}

/// `pegasus` and `contin` with the noise of a sensitivity that is half of the true one. What tells has a probability of
/// a few millionths: no black box would find it.
#[test]
fn grouping_with_its_published_noise_loses_what_was_calculated() {
    let readings = |first: f64| -> Vec<f64> { [vec![first], vec![0.05; 79], vec![0.0; 20]].concat() };
    let epsilon = 0.5;
    let loss = |form: Form| {
        let doubled = form.choose(1.0, 2.0);
        let of = |first: f64| log_probability(&readings(first), 2.0 * doubled / epsilon, 4.0 * doubled / epsilon);
        (of(0.0) - of(1.0)).abs()
    };
    let (broken, healthy) = (loss(Form::Broken), loss(Form::Healthy));
    println!("| `pegasus`, `contin` as published | 0.5 | {broken:.4} | {healthy:.4} |");
    assert!((broken - 0.5373).abs() < 1e-4 && (healthy - 0.2693).abs() < 1e-4, "{broken} {healthy}");
}
