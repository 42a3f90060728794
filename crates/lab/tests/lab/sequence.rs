//! The published closed form, and by how much it misses its claim.

use tidegate::kernel::{Randomness, SeededRandom};
use tidegate::sequence::hamming;
use tidegate::sequence::leakage::{Exact, exact};
use tidegate::sequence::model::Model;
use tidegate_lab::sequence::paper_crr_not_private;

fn unit(random: &mut SeededRandom) -> f64 {
    (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64
}

/// What one step gives away.
fn of_one_step(belief: &[f64], epsilon: f64) -> Exact {
    let model = Model::dense(belief.to_vec(), belief.repeat(belief.len())).unwrap();
    exact(&model, 1, 1, |_, belief| Ok::<_, String>(paper_crr_not_private(belief, epsilon))).unwrap()
}

#[test]
fn the_published_closed_form_exceeds_its_epsilon() {
    for (belief, epsilon, sequence, local) in [
        (vec![0.1, 0.9], 1.0, 1.9005, 2.9005),
        (vec![0.25; 4], 1.0, 1.0635, 2.0635),
        (vec![0.2; 5], 1.0, 1.2609, 2.2609),
        (vec![0.5, 0.3, 0.2], 0.5, 0.9454, 1.4454),
        // Enough belief in each symbol: there it holds.
        (vec![0.3, 0.7], 1.0, 1.0, 1.9062),
    ] {
        let leakage = of_one_step(&belief, epsilon);
        assert!((leakage.sequence - sequence).abs() < 5e-5, "{belief:?} {leakage:?}");
        assert!((leakage.local - local).abs() < 5e-5, "{belief:?} {leakage:?}");
    }
    // A symbol that is believed impossible is revealed.
    assert_eq!(of_one_step(&[0.5, 0.5, 0.0], 1.0).local, f64::INFINITY);
}

#[test]
fn the_published_closed_form_fails_on_most_beliefs_and_the_corrected_one_on_none() {
    let random = &mut SeededRandom::new(650);
    let (mut failures, cases) = (0, 3_000);
    for case in 0..cases {
        let (domain, epsilon) = (2 + case % 9, [0.5, 1.0, 2.0][case / 9 % 3]);
        // Uniformly distributed over all beliefs.
        let mut belief: Vec<f64> = (0..domain).map(|_| -(1.0 - unit(random)).ln()).collect();
        let sum: f64 = belief.iter().sum();
        belief.iter_mut().for_each(|weight| *weight /= sum);
        failures += usize::from(of_one_step(&belief, epsilon).sequence > epsilon + 1e-9);
        let corrected = hamming::channel(&belief, format!("{epsilon}").parse().unwrap()).unwrap();
        assert!(corrected.leakage(&belief).unwrap().largest() <= epsilon + 1e-9);
    }
    let share = failures as f64 / cases as f64;
    assert!((share - 0.92).abs() < 0.02, "{share}");
}

#[test]
fn over_a_sequence_the_excess_adds_up() {
    let model = Model::dense(vec![0.6, 0.3, 0.1], vec![0.8, 0.15, 0.05, 0.1, 0.8, 0.1, 0.05, 0.15, 0.8]).unwrap();
    let paper = exact(&model, 1, 3, |_, belief| Ok::<_, String>(paper_crr_not_private(belief, 0.5))).unwrap();
    let half = "0.5".parse().unwrap();
    let corrected =
        exact(&model, 1, 3, |_, belief| hamming::channel(belief, half).map(|channel| channel.dense())).unwrap();
    assert!(paper.sequence > 2.0 * 1.5 && paper.local > 3.0, "{paper:?}");
    assert!(corrected.sequence <= 1.5 + 1e-9 && corrected.local <= 3.0 + 1e-9, "{corrected:?}");
}
