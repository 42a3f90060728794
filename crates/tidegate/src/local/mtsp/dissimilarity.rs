//! Distance of the stream from the last release.

use crate::local::division::Answer;
use crate::tree::Tree;

/// Unbiased estimate of the mean squared difference between the frequencies among all users and an independent release,
/// over all nodes but the root. `answers` are those of the levels from 1 on.
///
/// Both trees agree at the root. Levels with fewer than two reports are left out of the mean; `None` if all are.
pub(super) fn dissimilarity(answers: &[Option<Answer<'_>>], released: &Tree) -> Option<f64> {
    let (shape, (frequencies, _)) = (released.shape(), released.nodes());
    let (mut sum, mut nodes) = (0.0, 0.0);
    for (level, answer) in (1..).zip(answers) {
        let first = shape.offset(level);
        let of_level = &frequencies[first..first + shape.nodes(level) as usize];
        if let Some(mean) = answer.as_ref().and_then(|answer| answer.dissimilarity(of_level)) {
            sum += mean * f64::from(shape.nodes(level));
            nodes += f64::from(shape.nodes(level));
        }
    }
    (nodes > 0.0).then(|| sum / nodes).filter(|mean| mean.is_finite())
}

/// Margin of the dissimilarity, as [of one answer](Answer::dissimilarity_margin).
/// `None` unless all levels were measured.
pub(super) fn margin(answers: &[Option<Answer<'_>>], released: &Tree, dissimilarity: f64) -> Option<f64> {
    let shape = released.shape();
    let (mut squares, mut all) = (0.0, 0.0);
    for (level, answer) in (1..).zip(answers) {
        let answer = answer.as_ref().filter(|answer| answer.can_measure())?;
        let nodes = f64::from(shape.nodes(level));
        squares += (nodes * answer.dissimilarity_margin(dissimilarity)).powi(2);
        all += nodes;
    }
    (all > 0.0).then(|| squares.sqrt() / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::TreeShape;
    use tidegate_kernel::oracle::{Oracle, OracleKind};

    #[test]
    #[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
    fn its_expectation_over_all_samples_and_reports_is_the_squared_difference() {
        // Five users, two with value 1; two are asked. The release says 0.1, so the difference is 0.3 at both nodes.
        let values = [0, 0, 0, 1, 1];
        let released = Tree::new(TreeShape::new(2), vec![1.0, 0.9, 0.1], vec![0.0; 3]).unwrap();
        for kind in [OracleKind::Oue, OracleKind::Grr, OracleKind::Sue] {
            let oracle = Oracle::new(kind, 2, "1".parse().unwrap()).unwrap();
            let all_reports: Vec<u8> = (0..4).filter(|report| oracle.check(&[*report]).is_ok()).collect();
            let (mut expectation, mut total) = (0.0, 0.0);
            for (first, second) in (0..5).flat_map(|first| (0..first).map(move |second| (first, second))) {
                for &a in &all_reports {
                    for &b in &all_reports {
                        let logarithm = oracle.log_likelihood(values[first], &[a]).unwrap()
                            + oracle.log_likelihood(values[second], &[b]).unwrap();
                        let likelihood = logarithm.exp();
                        let mut aggregate = oracle.aggregate();
                        aggregate.add(&[a]).unwrap();
                        aggregate.add(&[b]).unwrap();
                        let estimate = aggregate.estimate().unwrap();
                        let answer = Answer::new(&estimate, 2.0 / 5.0);
                        expectation += likelihood / 10.0 * dissimilarity(&[Some(answer)], &released).unwrap();
                        total += likelihood / 10.0;
                    }
                }
            }
            assert!((total - 1.0).abs() < 1e-9, "{kind}: {total}");
            assert!((expectation - 0.09).abs() < 1e-9, "{kind}: {expectation}");
        }
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn silent_levels_are_left_out_of_the_mean() {
        let released = Tree::new(TreeShape::new(3), vec![0.5; 6], vec![0.0; 6]).unwrap();
        let oracle = Oracle::new(OracleKind::Grr, 2, "1".parse().unwrap()).unwrap();
        let mut aggregate = oracle.aggregate();
        (0..9).for_each(|_| aggregate.add(&[1]).unwrap());
        let estimate = aggregate.estimate().unwrap();
        let alone = Answer::new(&estimate, 0.5).dissimilarity(&[0.5, 0.5]);
        assert_eq!(dissimilarity(&[Some(Answer::new(&estimate, 0.5)), None], &released), alone);
        assert_eq!(dissimilarity(&[None, None], &released), None);
    }
}
