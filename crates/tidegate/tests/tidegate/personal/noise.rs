//! Noise of releases, and the stratified estimator.

use std::num::NonZeroU64;

use tidegate::central::budget_selection::select;
use tidegate::central::stratified::{Differences, Group, Offers, estimate, expected_error, group};
use tidegate::central::{Estimator, Personal, PersonalKind, PersonalSettings};
use tidegate::kernel::primitives::{Neighbours, common_unit, histogram_noise, sampling_probability};
use tidegate::kernel::simulation::multinomial;
use tidegate::kernel::{Epsilon, SeededRandom};
use tidegate::release::Freshness;

use super::saved::VARIANTS;
use super::{classes, epsilon, load, push, save, settings, spends_at};
use crate::central::{check_laplace, counts_of, measured_distance};

const NEIGHBOURS: [(Neighbours, u64); 2] = [(Neighbours::AddRemove, 1), (Neighbours::Replace, 2)];

/// With one class nothing is sampled or shrunk: what is left is the noise.
#[test]
fn release_and_distance_noise_fit_both_neighbour_relations() {
    for (kind, estimator) in VARIANTS {
        for (neighbours, sensitivity) in NEIGHBOURS {
            let what = format!("{kind} {estimator:?} {neighbours:?}");
            let mut random = SeededRandom::new(42);
            let settings = PersonalSettings { neighbours, ..settings(100, estimator) };
            let members = [100_000];
            let new = || Personal::new(kind, classes(&[("1", 2)]), settings).unwrap();
            // Distribution spends half of the half that publishes at first; absorption half of it, too, in a window of
            // two.
            let scale = 4.0 * sensitivity as f64;
            let errors: Vec<f64> = (0..80)
                .flat_map(|_| {
                    let release = push(&mut new(), 0, &members, vec![1_000; 100], &mut random);
                    counts_of(&release).counts.iter().map(|count| count - 1_000.0).collect::<Vec<f64>>()
                })
                .collect();
            check_laplace(&errors, scale, &format!("{what}: first release"));

            let mut mechanism = new();
            let first = push(&mut mechanism, 0, &members, vec![1_000; 100], &mut random);
            let stated = counts_of(&first).variances[0];
            assert!((stated / (2.0 * scale * scale) - 1.0).abs() < 0.02, "{what}: {stated}");
            let shift = 5 * sensitivity;
            let moved: Vec<u64> = counts_of(&first).counts.iter().map(|count| count.round() as u64 + shift).collect();
            let saved = save(&mechanism);
            let noise: Vec<f64> = (0..8_000)
                .map(|_| {
                    let repeated = push(&mut load(&saved), 1, &members, moved.clone(), &mut random);
                    assert_eq!(repeated.freshness, Freshness::Approximated, "{what}");
                    100.0 * (measured_distance(&first, &repeated) - shift as f64)
                })
                .collect();
            // A quarter of epsilon measures.
            check_laplace(&noise, 4.0 * sensitivity as f64, &format!("{what}: distance"));
        }
    }
}

/// Mean and variance of a count of which a part is of a class that is sampled: chance of a false alarm below 10⁻⁶ for
/// each check.
#[test]
fn a_careful_class_is_sampled_for_either_kind_of_neighbours() {
    for kind in PersonalKind::ALL {
        for (neighbours, _) in NEIGHBOURS {
            let mut random = SeededRandom::new(43);
            let settings = PersonalSettings { neighbours, ..settings(100, Estimator::Sampling) };
            let declared = classes(&[("0.4", 2), ("1", 2)]);
            let errors: Vec<f64> = (0..200)
                .flat_map(|_| {
                    let mut mechanism = Personal::new(kind, declared.clone(), settings).unwrap();
                    let counts = [vec![10; 100], vec![1_000; 100]].concat();
                    let release = push(&mut mechanism, 0, &[100, 100_000], counts, &mut random);
                    // What measuring leaves to the second class makes its offer depend on the first; a hundred members
                    // change nothing.
                    assert_eq!(spends_at(&mechanism, 0), [100_000_000, 250_000_000]);
                    counts_of(&release).counts.iter().map(|count| count - 1_000.0).collect::<Vec<f64>>()
                })
                .collect();
            let n = errors.len() as f64;
            let kept = sampling_probability(neighbours, epsilon("0.1"), epsilon("0.25")).unwrap();
            let noise = histogram_noise(neighbours, NonZeroU64::MIN, epsilon("0.25")).unwrap().laplace_variance();
            let variance = 10.0 * kept * (1.0 - kept) + noise;
            let mean = errors.iter().sum::<f64>() / n;
            let square = errors.iter().map(|error| (error - 10.0 * kept).powi(2)).sum::<f64>() / n;
            assert!((mean - 10.0 * kept).abs() < 5.0 * (variance / n).sqrt(), "{kind} {neighbours:?}: {mean}");
            // Of noise and a binomial number the fourth moment is at most that of noise alone.
            let spread = 5.0 * variance * (5.0 / n).sqrt();
            assert!((square - variance).abs() < spread, "{kind} {neighbours:?}: {square}, not {variance}");
            assert!((square + 0.21 * noise - variance).abs() > spread, "a scale wrong by 10 % would pass");
        }
    }
}

/// The mean and mean squared error of the first release over many runs, in cell 0, and what was stated.
fn first_release(estimator: Estimator, members: [u64; 3], of: impl Fn(&mut SeededRandom) -> Vec<u64>) -> [f64; 3] {
    let declared = classes(&[("0.2", 1), ("1", 1), ("2", 1)]);
    let mut random = SeededRandom::new(16);
    let (runs, mut sum, mut squares, mut stated) = (4_000, 0.0, 0.0, 0.0);
    for _ in 0..runs {
        let counts = of(&mut random);
        let domain = counts.len() / 3;
        let truth: Vec<u64> =
            (0..domain).map(|cell| counts[cell] + counts[domain + cell] + counts[2 * domain + cell]).collect();
        let mut mechanism =
            Personal::new(PersonalKind::Pba, declared.clone(), settings(domain as u32, estimator)).unwrap();
        let release = push(&mut mechanism, 0, &members, counts, &mut random);
        let counts = counts_of(&release);
        sum += counts.counts[0] - truth[0] as f64;
        let errors = counts.counts.iter().zip(&truth).map(|(count, truth)| (count - *truth as f64).powi(2));
        squares += errors.sum::<f64>() / domain as f64;
        stated += counts.variances.iter().sum::<f64>() / domain as f64;
    }
    [sum, squares, stated].map(|sum| sum / f64::from(runs))
}

/// Users of all classes draw their values from one distribution.
fn alike(members: [u64; 3], random: &mut SeededRandom) -> Vec<u64> {
    let weights = [4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    members.iter().flat_map(|members| multinomial(*members, &weights, random).unwrap()).collect()
}

#[test]
fn stratified_estimate_is_unbiased_for_similar_classes() {
    let members = [3_000, 2_000, 1_000];
    let [mean, error, stated] = first_release(Estimator::Stratified, members, |random| alike(members, random));
    // Of 4,000 runs with a standard deviation of about 25 each, the mean is within five standard errors.
    assert!(mean.abs() < 2.0, "{mean}");
    assert!((error / stated - 1.0).abs() < 0.15, "{error} {stated}");
    // Everyone at the careful class's budget of 0.1 for publishing would have 200.
    assert!(error < 180.0, "{error}");
}

#[test]
fn the_stratified_estimate_notices_classes_that_differ() {
    // The careful class holds other values than the rest, whatever the others say.
    let members = [3_000, 2_000, 1_000];
    let differ = |_: &mut SeededRandom| {
        vec![3_000, 0, 0, 0, 0, 0, 0, 0, 250, 250, 250, 250, 250, 250, 250, 250, 125, 125, 125, 125, 125, 125, 125, 125]
    };
    let [mean, error, _] = first_release(Estimator::Stratified, members, differ);
    assert!(mean.abs() < 5.0, "{mean}");
    assert!(error < 230.0, "hardly more than the noise of the careful class: {error}");
}

#[test]
fn a_sample_has_the_bias_and_error_that_were_foreseen() {
    let members = [300, 2_000, 1_000];
    // Everyone in one cell of one, so that the foreseen error is exact.
    let [mean, error, stated] = first_release(Estimator::Sampling, members, |_| members.to_vec());
    let offers = ["0.1", "0.5", "1"].map(|offer| Some(epsilon(offer)));
    let selection = select(&offers, &members, 1, Neighbours::AddRemove).unwrap();
    let bias: f64 = selection.kept.iter().zip(members).map(|(p, members)| (1.0 - p) * members as f64).sum();
    assert!((mean + bias).abs() < 5.0 * (stated / 4_000.0).sqrt() + 1e-9, "{mean} {bias}");
    assert!((error / stated - 1.0).abs() < 0.15, "{error} {stated}");
}

#[test]
fn on_classes_that_are_alike_the_stratified_estimator_beats_sampling() {
    for members in [[60, 80, 60], [600, 800, 600], [6_000, 8_000, 6_000], [50_000, 900, 40]] {
        let of = |estimator| first_release(estimator, members, |random| alike(members, random))[1];
        let (sampled, stratified) = (of(Estimator::Sampling), of(Estimator::Stratified));
        assert!(stratified < 1.02 * sampled, "{members:?}: {stratified} {sampled}");
    }
}

#[test]
fn classes_are_merged_where_that_lowers_the_error() {
    let budgets = ["0.5", "0.5", "1", "8"].map(|budget| Some(epsilon(budget)));
    let unknown = Differences::unknown(4, 10);
    let group_of = |budgets: &[Option<Epsilon>], members: &[u64]| {
        group(&Offers { budgets, members, domain: 10, neighbours: Neighbours::AddRemove }, &unknown)
    };
    let merged = |members: &[u64]| -> Vec<Vec<usize>> {
        let groups = group_of(&budgets, members);
        let alone = group_of(&budgets[..1], &members[..1]);
        assert!(expected_error(&groups) <= expected_error(&alone) * 1.001 || members[0] == 0);
        groups.into_iter().map(|group| group.classes).collect()
    };
    // Two classes that spend the same are always one group.
    assert!(merged(&[1_000, 1_000, 10, 1_000]).iter().any(|classes| classes.starts_with(&[0, 1])));
    // Huge careful classes say more about themselves than others can, so that theirs is noise on top; but as nothing is
    // known about differences yet, there are two groups to compare.
    assert_eq!(merged(&[10_000_000, 10_000_000, 10_000_000, 10_000_000]), [vec![0, 1, 2], vec![3]]);
    let same = [budgets[0]; 4];
    assert_eq!(group_of(&same, &[10_000_000; 4]).len(), 1, "classes that spend the same cannot lean");
    // A class without members is in no group; one without budget is a group that takes no part.
    assert!(!merged(&[0, 5, 5, 5]).concat().contains(&0));
    let groups = group_of(&[None, budgets[2]], &[5, 5]);
    assert_eq!((groups.len(), groups[0].amounts.len(), &groups[1].amounts), (2, 0, &vec![budgets[2].unwrap()]));
    assert!(expected_error(&groups).is_finite());
    assert!(expected_error(&group_of(&[None], &[5])).is_infinite());
}

#[test]
fn group_leans_only_for_similar_classes() {
    let budgets = ["0.01", "0.02", "0.03", "0.04"].map(|budget| Some(epsilon(budget)));
    let members = [5_000; 4];
    let offers = Offers { budgets: &budgets, members: &members, domain: 10, neighbours: Neighbours::AddRemove };
    let leans = |groups: &[Group]| groups.iter().any(|group| group.amounts.iter().any(|e| *e != group.amounts[0]));
    // What is known after so many publications, if noise happens to be zero.
    let after = |publications: usize, counts: [[u64; 10]; 4]| {
        let mut differences = Differences::unknown(4, 10);
        for _ in 0..publications {
            let mut groups = group(&offers, &differences);
            let published = |group: &Group| -> Vec<i64> {
                let unit = common_unit(group.amounts.iter().copied()).unwrap().units();
                let cell = |cell: usize| {
                    let classes = group.classes.iter().zip(&group.amounts);
                    classes.map(|(class, amount)| (amount.units() / unit * counts[*class][cell]) as i64).sum()
                };
                (0..10).map(cell).collect()
            };
            let histograms: Vec<Vec<i64>> = groups.iter().map(published).collect();
            let estimates = estimate(&mut groups, &histograms, &offers, &mut differences);
            let all: f64 = estimates.iter().map(|estimate| estimate[0]).sum();
            let truth: u64 = counts.iter().map(|counts| counts[0]).sum();
            assert!(counts[0][0] != 500 || (all - truth as f64).abs() < 1e-6, "{all}");
        }
        group(&offers, &differences)
    };
    let alike = [[500; 10]; 4];
    let careful_differ = [[5_000, 0, 0, 0, 0, 0, 0, 0, 0, 0], [500; 10], [500; 10], [500; 10]];
    assert!(!leans(&after(0, alike)));
    assert!(leans(&after(20, alike)));
    assert!(!leans(&after(20, careful_differ)));
}
