//! Repairs are the exact solutions of the problems that they claim to solve.

use proptest::prelude::*;
use tidegate::kernel::SeededRandom;
use tidegate::post_processing::{PostProcessing, PostProcessingError, Unsound, norm_sub};
use tidegate::release::{Histogram, Statistic};
use tidegate::tree::{Tree, TreeShape};

use crate::support::{error, repeatable, unit};

fn histogram(frequencies: &[f64], variances: &[f64]) -> Statistic {
    Statistic::Histogram(Histogram { frequencies: frequencies.to_vec(), variances: variances.to_vec() })
}

fn tree(shape: TreeShape, frequencies: &[f64], variances: &[f64]) -> Tree {
    Tree::new(shape, frequencies.to_vec(), variances.to_vec()).unwrap()
}

fn repair_tree(repair: PostProcessing, tree: &Tree) -> Result<Tree, PostProcessingError> {
    match repair.apply(&Statistic::Tree(tree.clone()))? {
        Statistic::Tree(tree) => Ok(tree),
        _ => panic!("a tree stays a tree"),
    }
}

fn consistent(tree: &Tree) -> Tree {
    repair_tree(PostProcessing::Consistency, tree).unwrap()
}

/// All nodes: the level, the first value and the one after the last.
fn nodes(shape: &TreeShape) -> Vec<(u32, usize, usize)> {
    let of_level = |level| {
        let width = shape.width(level) as usize;
        let end = shape.domain() as usize;
        (0..shape.nodes(level) as usize).map(move |node| (level, node * width, ((node + 1) * width).min(end)))
    };
    (0..=shape.height()).flat_map(of_level).collect()
}

/// Solves a system of equations that may have redundant rows, by elimination; unknowns that are left open are zero.
/// Each row ends with its right-hand sides.
fn solve(mut rows: Vec<Vec<f64>>, unknowns: usize) -> Vec<Vec<f64>> {
    let right = rows[0].len() - unknowns;
    let mut pivots = Vec::new();
    for column in 0..unknowns {
        let next = pivots.len();
        let best = (next..rows.len()).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()));
        let Some(best) = best.filter(|&best| rows[best][column].abs() > 1e-9) else { continue };
        rows.swap(next, best);
        let pivot = rows[next].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            if index != next {
                let factor = row[column] / pivot[column];
                row.iter_mut().zip(&pivot).for_each(|(entry, pivot)| *entry -= factor * pivot);
            }
        }
        pivots.push(column);
    }
    let mut solution = vec![vec![0.0; right]; unknowns];
    for (row, &column) in rows.iter().zip(&pivots) {
        for (side, entry) in solution[column].iter_mut().enumerate() {
            *entry = row[unknowns + side] / row[column];
        }
    }
    solution
}

/// Weighted least squares by the dense equations of Lagrange: the leaves, and their derivative by what was published
/// for each node.
fn dense(shape: &TreeShape, frequencies: &[f64], variances: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let domain = shape.domain() as usize;
    let nodes = nodes(shape);
    let known: Vec<usize> = (0..nodes.len()).filter(|&node| node == 0 || variances[node] == 0.0).collect();
    let unknowns = domain + known.len();
    let mut rows = vec![vec![0.0; unknowns + 1 + nodes.len()]; unknowns];
    for (node, &(_, first, end)) in nodes.iter().enumerate() {
        match known.iter().position(|&other| other == node) {
            Some(multiplier) => {
                let position = domain + multiplier;
                rows[first..end].iter_mut().for_each(|row| row[position] = 1.0);
                rows[position][first..end].fill(1.0);
                rows[position][unknowns] = if node == 0 { 1.0 } else { frequencies[node] };
            }
            None => {
                for row in &mut rows[first..end] {
                    row[first..end].iter_mut().for_each(|entry| *entry += 1.0 / variances[node]);
                    row[unknowns] += frequencies[node] / variances[node];
                    row[unknowns + 1 + node] += 1.0 / variances[node];
                }
            }
        }
    }
    let solution = solve(rows, unknowns);
    let leaves = solution[..domain].iter().map(|row| row[0]).collect();
    (leaves, solution[..domain].iter().map(|row| row[1..].to_vec()).collect())
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} instead of {expected}");
}

/// A tree that estimates random frequencies; some nodes are known exactly.
fn random_tree(shape: TreeShape, known: f64, random: &mut SeededRandom) -> Tree {
    let weights: Vec<f64> = (0..shape.domain()).map(|_| unit(random)).collect();
    let total: f64 = weights.iter().sum();
    let (mut frequencies, mut variances) = (Vec::new(), Vec::new());
    for (_, first, end) in nodes(&shape) {
        let truth = weights[first..end].iter().sum::<f64>() / total;
        let variance = if unit(random) < known { 0.0 } else { 0.01 + 0.1 * unit(random) };
        frequencies.push(truth + error(random, variance));
        variances.push(variance);
    }
    tree(shape, &frequencies, &variances)
}

#[test]
fn consistency_is_the_exact_weighted_least_squares_solution() {
    let mut random = SeededRandom::new(1);
    for domain in 1..=19 {
        for known in [0.0, 0.1, 0.4] {
            let shape = TreeShape::new(domain);
            let published = random_tree(shape, known, &mut random);
            let (frequencies, variances) = published.nodes();
            let (leaves, derivatives) = dense(&shape, frequencies, variances);
            let repaired = consistent(&published);
            for (node, (_, first, end)) in nodes(&shape).into_iter().enumerate() {
                let what = format!("node {node} of {domain} values, {known} known");
                let (frequency, variance) = (repaired.nodes().0[node], repaired.nodes().1[node]);
                assert_close(frequency, leaves[first..end].iter().sum(), 1e-9, &what);
                let by_node = |other: usize| derivatives[first..end].iter().map(|row| row[other]).sum::<f64>();
                let exact = (0..variances.len()).map(|other| by_node(other).powi(2) * variances[other]).sum();
                assert_close(variance, exact, 1e-9, &format!("variance of {what}"));
                assert!(variance <= variances[node] + 1e-12, "{what}");
            }
        }
    }
}

#[test]
fn range_variance_is_at_most_its_cover_sum() {
    let mut random = SeededRandom::new(2);
    for domain in [2, 5, 8, 13] {
        let shape = TreeShape::new(domain);
        let published = random_tree(shape, 0.1, &mut random);
        let (frequencies, variances) = published.nodes();
        let (_, derivatives) = dense(&shape, frequencies, variances);
        let repaired = consistent(&published);
        for first in 0..domain {
            for last in first..domain {
                let rows = &derivatives[first as usize..=last as usize];
                let by_node = |node: usize| rows.iter().map(|row| row[node]).sum::<f64>();
                let exact: f64 = (0..variances.len()).map(|node| by_node(node).powi(2) * variances[node]).sum();
                let cover = shape.cover(first, last).into_iter();
                let bound: f64 = cover.map(|(level, node)| repaired.node(level, node).1).sum();
                assert!(exact <= bound + 1e-12, "{first}..={last} of {domain}: {exact} > {bound}");
            }
        }
    }
}

/// How much the average variance of a range falls, users being split evenly among the levels below the root.
fn gain(height: u32) -> (f64, f64) {
    let shape = TreeShape::new(1 << height);
    let domain = shape.domain() as usize;
    let count = nodes(&shape).len();
    let mut variances = vec![1.0; count];
    variances[0] = 0.0;
    let zero = consistent(&tree(shape, &vec![0.0; count], &variances));
    // Sums over the first leaves of the derivative by each node: consistency is linear.
    let sums: Vec<Vec<f64>> = (1..count)
        .map(|node| {
            let mut frequencies = vec![0.0; count];
            frequencies[node] = 1.0;
            let moved = consistent(&tree(shape, &frequencies, &variances));
            let derivative = moved.leaves().0.iter().zip(zero.leaves().0).map(|(moved, zero)| moved - zero);
            let mut sums = vec![0.0];
            derivative.for_each(|derivative| sums.push(sums.last().unwrap() + derivative));
            sums
        })
        .collect();
    let (mut before, mut after) = (0.0, 0.0);
    for first in 0..domain {
        for end in first + 1..=domain {
            let cover = shape.cover(first as u32, end as u32 - 1);
            before += cover.iter().filter(|(level, _)| *level > 0).count() as f64;
            after += sums.iter().map(|sums| (sums[end] - sums[first]).powi(2)).sum::<f64>();
        }
    }
    (before / after, zero.leaves().1[0])
}

#[test]
fn consistency_makes_random_ranges_about_three_times_better() {
    for (height, expected) in [(3, 2.7), (5, 3.2), (7, 3.7)] {
        let (gain, leaf) = gain(height);
        assert!((gain / expected - 1.0).abs() < 0.1, "height {height}: {gain} instead of about {expected}");
        assert!((leaf / 0.6 - 1.0).abs() < 0.1, "height {height}: the variance of a leaf is {leaf} of what it was");
    }
}

#[test]
fn histogram_consistency_equals_one_level_tree() {
    let flat = PostProcessing::Consistency.apply(&histogram(&[0.5, 0.3], &[0.01, 0.03])).unwrap();
    let tree = consistent(&tree(TreeShape::new(2), &[1.0, 0.5, 0.3], &[0.0, 0.01, 0.03]));
    let ((flat, flat_variances), (leaves, variances)) = (flat.leaves(), tree.leaves());
    for value in 0..2 {
        assert_close(flat[value], leaves[value], 1e-12, "frequency");
        assert_close(flat_variances[value], variances[value], 1e-12, "variance");
    }
    let sure = histogram(&[0.25, 0.75], &[0.0, 0.0]);
    assert_eq!(PostProcessing::Consistency.apply(&sure).unwrap(), sure);
}

#[test]
fn certain_nodes_that_contradict_each_other_are_refused() {
    let published = tree(TreeShape::new(4), &[1.0, 0.5, 0.5, 0.4, 0.2, 0.2, 0.3], &[0.0, 0.0, 0.1, 0.0, 0.0, 0.1, 0.1]);
    let refusal = repair_tree(PostProcessing::Consistency, &published).unwrap_err();
    assert!(matches!(refusal, PostProcessingError::Contradiction { level: 1, node: 0, known: 0.5, .. }), "{refusal}");
    let refusal = PostProcessing::Consistency.apply(&histogram(&[0.5, 0.4], &[0.0, 0.0])).unwrap_err();
    assert!(matches!(refusal, PostProcessingError::Contradiction { known: 1.0, sum: 0.9, .. }), "{refusal}");
}

#[test]
fn what_no_mechanism_publishes_is_refused() {
    let refused = |frequencies: &[f64], variances: &[f64]| {
        let results = [PostProcessing::Clip, PostProcessing::Consistency, PostProcessing::NormSub]
            .map(|repair| repair.apply(&histogram(frequencies, variances)).unwrap_err());
        assert!(results.iter().all(|result| result.to_string() == results[0].to_string()));
        let PostProcessingError::Unsound(reason) = results[0] else { panic!("{}", results[0]) };
        reason
    };
    assert_eq!(refused(&[], &[]), Unsound::Empty);
    assert_eq!(refused(&[0.5], &[]), Unsound::Lengths { frequencies: 1, variances: 0 });
    assert!(matches!(refused(&[0.5, f64::NAN], &[0.1; 2]), Unsound::Frequency { position: 1, .. }));
    assert!(matches!(refused(&[1e101], &[0.1]), Unsound::Frequency { position: 0, .. }));
    assert!(matches!(refused(&[0.5], &[-0.1]), Unsound::Variance { position: 0, given: -0.1 }));
    assert!(matches!(refused(&[0.5], &[f64::NAN]), Unsound::Variance { .. }));

    // A tree that was loaded may have a shape that no domain has.
    let text = r#"{"shape":{"domain":2,"height":40},"frequencies":[1,0.5,0.5],"variances":[0,0.1,0.1]}"#;
    let loaded: Result<Tree, _> = serde_json::from_str(text);
    if let Ok(loaded) = loaded {
        let refusal = repair_tree(PostProcessing::Clip, &loaded).unwrap_err();
        assert_eq!(refusal, PostProcessingError::Unsound(Unsound::Shape));
    }
    for total in [-0.5, f64::NAN, f64::INFINITY] {
        assert!(matches!(norm_sub(&[0.5, 0.5], total), Err(PostProcessingError::Total { .. })));
    }
    assert!(matches!(norm_sub(&[], 1.0), Err(PostProcessingError::Total { .. })));
    assert_eq!(norm_sub(&[0.5, -0.5], 0.0).unwrap(), [0.0, 0.0]);
}

fn any_frequencies() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![8 => -0.5..1.0_f64, 1 => Just(0.0), 1 => Just(0.25)], 1..40)
}

fn squared_distance(first: &[f64], second: &[f64]) -> f64 {
    first.iter().zip(second).map(|(a, b)| (a - b).powi(2)).sum()
}

proptest! {
    #![proptest_config(repeatable(512))]

    #[test]
    fn norm_sub_is_the_projection_onto_the_simplex(
        frequencies in any_frequencies(),
        total in 0.01..3.0_f64,
        seed: u64,
    ) {
        let repaired = norm_sub(&frequencies, total).unwrap();
        prop_assert!((repaired.iter().sum::<f64>() - total).abs() < 1e-12 * frequencies.len() as f64);
        prop_assert!(repaired.iter().all(|frequency| *frequency >= 0.0));

        // Norm-sub as it is usually written: search the number to subtract.
        let (mut low, mut high) = (-10.0, 10.0);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            let sum: f64 = frequencies.iter().map(|frequency| (frequency - middle).max(0.0)).sum();
            if sum > total { low = middle } else { high = middle }
        }
        for (frequency, repaired) in frequencies.iter().zip(&repaired) {
            prop_assert!(((frequency - low).max(0.0) - repaired).abs() < 1e-12);
        }

        // The projection: no point of the simplex lies nearer, and all of them are seen at an obtuse angle.
        let mut random = SeededRandom::new(seed);
        for _ in 0..20 {
            let weights: Vec<f64> = frequencies.iter().map(|_| unit(&mut random).powi(8)).collect();
            let scale = total / weights.iter().sum::<f64>();
            let other: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
            prop_assert!(squared_distance(&frequencies, &repaired) <= squared_distance(&frequencies, &other) + 1e-12);
            let steps = frequencies.iter().zip(&repaired).zip(&other);
            let angle: f64 = steps.map(|((given, nearest), other)| (given - nearest) * (other - nearest)).sum();
            prop_assert!(angle < 1e-9);
            // So if this other point is the truth, the error has not grown.
            prop_assert!(squared_distance(&repaired, &other) <= squared_distance(&frequencies, &other) + 1e-9);
        }
    }

    #[test]
    fn a_repaired_tree_is_consistent_and_nowhere_negative(domain in 1..40_u32, seed: u64) {
        let mut random = SeededRandom::new(seed);
        let published = random_tree(TreeShape::new(domain), 0.0, &mut random);
        let repaired = repair_tree(PostProcessing::NormSub, &published).unwrap();
        let (shape, (frequencies, _)) = (repaired.shape(), repaired.nodes());
        prop_assert!(frequencies.iter().all(|frequency| *frequency >= 0.0));
        let leaves = repaired.leaves().0;
        for (node, (_, first, end)) in nodes(shape).into_iter().enumerate() {
            prop_assert!((frequencies[node] - leaves[first..end].iter().sum::<f64>()).abs() < 1e-12);
        }
        prop_assert!((frequencies[0] - 1.0).abs() < 1e-12);

        // A second time changes nothing but roundings, and a tree without negative nodes is only made consistent.
        let again = repair_tree(PostProcessing::NormSub, &repaired).unwrap();
        prop_assert!(squared_distance(again.nodes().0, frequencies) < 1e-20);
        let plain = consistent(&published);
        if plain.nodes().0.iter().all(|frequency| *frequency >= 0.0) {
            prop_assert!(squared_distance(plain.nodes().0, frequencies) < 1e-20);
        }
    }

    #[test]
    fn clipping_moves_no_frequency_away_from_the_truth(frequencies in any_frequencies(), truth in 0.0..=1.0_f64) {
        let given = histogram(&frequencies, &vec![0.1; frequencies.len()]);
        let clipped = PostProcessing::Clip.apply(&given).unwrap();
        for (before, after) in frequencies.iter().zip(clipped.leaves().0) {
            prop_assert!((0.0..=1.0).contains(after) && (after - truth).abs() <= (before - truth).abs());
        }
        prop_assert_eq!(clipped.leaves().1, given.leaves().1);
    }
}
