//! Properties of queries over random streams.

use proptest::prelude::*;
use tidegate::kernel::SeededRandom;
use tidegate::post_processing::PostProcessing;
use tidegate::query::{Answer, History, Monitor, Query, Rule, Score, Unit};
use tidegate::release::Freshness::{Approximated, Fresh, Nullified};
use tidegate::release::{Freshness, Histogram, Release, Statistic};
use tidegate::tree::{Tree, TreeShape};

use super::{history, release, window};
use crate::support::{error, repeatable, unit};

/// Whatever is asked: period, shift, values and timestamp may all be nonsense.
fn any_query() -> impl Strategy<Value = (Query, u64, u64)> {
    let query = (0..9_u32, 0..9_u32, 0..6_u64, any::<bool>()).prop_map(|(first, last, delta, counts)| {
        let query = Query::range(first, last, delta);
        if counts { query.in_counts() } else { query }
    });
    (query, 0..6_u64, 0..14_u64)
}

/// Frequencies with a variance, how they come about, the timestamps since the last and the number of users.
type Step = (Vec<f64>, f64, Freshness, u64, Option<u64>);

fn any_stream(domain: usize) -> impl Strategy<Value = Vec<Step>> {
    let freshness = prop_oneof![3 => Just(Fresh), 2 => Just(Approximated), 1 => Just(Nullified)];
    let population = prop_oneof![6 => (0..1000_u64).prop_map(Some), 1 => Just(None)];
    let gap = prop_oneof![12 => Just(1), 1 => 2..4_u64];
    let step = (prop::collection::vec(-0.2..1.0_f64, domain), 0.0..0.1_f64, freshness, gap, population);
    prop::collection::vec(step, 1..12)
}

pub fn releases(steps: Vec<Step>, hierarchical: bool) -> Vec<(Release, Option<u64>)> {
    let mut timestamp = 0;
    let mut last: Option<Statistic> = None;
    let mut releases = Vec::new();
    for (frequencies, variance, freshness, gap, population) in steps {
        timestamp += gap;
        let mut release = release(timestamp, &frequencies, variance, freshness);
        if hierarchical {
            release.statistic = Statistic::Tree(tree_of(&frequencies, variance));
        }
        if freshness != Fresh
            && let Some(last) = &last
        {
            release.statistic = drifted(last, variance);
        }
        last = Some(release.statistic.clone());
        releases.push((release, population));
    }
    releases
}

/// The same numbers, less certain.
pub fn drifted(statistic: &Statistic, by: f64) -> Statistic {
    let grown = |variances: &[f64]| variances.iter().map(|variance| variance + by).collect();
    match statistic {
        Statistic::Histogram(Histogram { frequencies, variances }) => {
            Statistic::Histogram(Histogram { frequencies: frequencies.clone(), variances: grown(variances) })
        }
        Statistic::Counts(_) => panic!("frequencies are released here"),
        Statistic::Tree(tree) => {
            let (frequencies, variances) = tree.nodes();
            Statistic::Tree(Tree::new(*tree.shape(), frequencies.to_vec(), grown(variances)).unwrap())
        }
        Statistic::Number(_) | Statistic::Symbol(_) => panic!("frequencies drift"),
    }
}

/// A tree with these leaves, whose other nodes disagree with them a little.
fn tree_of(leaves: &[f64], variance: f64) -> Tree {
    let shape = TreeShape::new(leaves.len() as u32);
    let mut random = SeededRandom::new(leaves[0].to_bits());
    let (mut frequencies, mut variances) = (Vec::new(), Vec::new());
    for level in 0..=shape.height() {
        for part in leaves.chunks(shape.width(level) as usize) {
            frequencies.push(part.iter().sum::<f64>() + error(&mut random, variance));
            variances.push(variance * (0.5 + unit(&mut random)));
        }
    }
    Tree::new(shape, frequencies, variances).unwrap()
}

fn through_postcard<T: serde::Serialize + serde::de::DeserializeOwned>(state: &T) -> T {
    postcard::from_bytes(&postcard::to_allocvec(state).unwrap()).unwrap()
}

fn same(first: &Answer, second: &Answer) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    close(first.value, second.value)
        && close(first.variance, second.variance)
        && (first.first, first.last, first.possible) == (second.first, second.last, second.possible)
}

proptest! {
    #![proptest_config(repeatable(512))]

    #[test]
    fn histogram_range_is_sum_of_values(
        steps in any_stream(7), first in 0..7_u32, last in 0..7_u32, delta in 1..12_u64, counts: bool,
    ) {
        let (first, last) = (first.min(last), first.max(last));
        let mut history = History::new(window(3), 100).unwrap();
        for (timestamp, (mut release, _)) in releases(steps, false).into_iter().enumerate() {
            release.timestamp = timestamp as u64;
            history.push(release, Some(100 + timestamp as u64)).unwrap();
        }
        let delta = delta.min(history.len() as u64);
        let unit = if counts { Unit::Counts } else { Unit::Frequencies };
        let ask = |first, last| history.answer(&Query { first, last, delta, unit }).unwrap();
        let (range, values) = (ask(first, last), (first..=last).map(|value| ask(value, value)));
        let (value, variance) = values.fold((0.0, 0.0), |sum, answer| (sum.0 + answer.value, sum.1 + answer.variance));
        prop_assert!((range.value - value).abs() < 1e-9 * value.abs().max(1.0));
        // Values are uncorrelated, and all have the same variance here, so variances add up as well.
        prop_assert!((range.variance - variance).abs() < 1e-9 * variance.max(1.0));
    }

    #[test]
    fn cover_of_a_consistent_tree_sums_its_leaves(
        leaves in prop::collection::vec(-0.2..1.0_f64, 1..40), first in 0..40_u32, last in 0..40_u32,
    ) {
        let domain = leaves.len() as u32;
        let (first, last) = (first.min(last) % domain, first.max(last) % domain);
        let (first, last) = (first.min(last), first.max(last));
        let published = Statistic::Tree(tree_of(&leaves, 0.01));
        let statistic = PostProcessing::Consistency.apply(&published).unwrap();
        let history = history([Release { statistic, ..release(0, &[], 0.0, Fresh) }]);
        let range = history.answer(&Query::range(first, last, 1)).unwrap();
        let values = (first..=last).map(|value| history.point(value, 0, Unit::Frequencies).unwrap().value);
        prop_assert!((range.value - values.sum::<f64>()).abs() < 1e-9);
    }

    #[test]
    fn a_restored_history_answers_everything_as_before(
        steps in any_stream(7),
        hierarchical: bool,
        queries in prop::collection::vec(any_query(), 8),
        capacity in 1..12_usize,
    ) {
        let mut history = History::new(window(3), capacity).unwrap();
        let mut restored = history.clone();
        for (release, population) in releases(steps, hierarchical) {
            prop_assert_eq!(history.push(release.clone(), population), restored.push(release, population));
            restored = through_postcard(&restored);
            prop_assert!(history.len() <= capacity);
            for (query, shift, timestamp) in &queries {
                prop_assert_eq!(history.answer_at(query, *timestamp), restored.answer_at(query, *timestamp));
                prop_assert_eq!(history.change(query, *shift, *timestamp), restored.change(query, *shift, *timestamp));
            }
        }
        prop_assert_eq!(history, restored);
    }

    #[test]
    fn monitor_scores_equal_history_across_saves(
        steps in any_stream(9),
        hierarchical: bool,
        (query, shift, _) in any_query(),
        level: bool,
        start in -0.5..1.0_f64,
    ) {
        let score = if level { Score::Level } else { Score::Change { shift } };
        let rule = Rule { score, ..Rule::above(query, start).until(start - 0.1) };
        let Ok(mut monitor) = Monitor::new(rule, window(3)) else { return Ok(()) };
        let mut restored = monitor.clone();
        let mut history = History::new(window(3), 100).unwrap();
        let mut active = false;
        for (release, population) in releases(steps, hierarchical) {
            let timestamp = release.timestamp;
            let observation = monitor.push(&release, population);
            restored = through_postcard(&restored);
            prop_assert_eq!(&observation, &restored.push(&release, population));
            let Ok(observation) = observation else { continue };
            history.push(release, population).unwrap();
            let expected = match score {
                Score::Level => history.answer_at(&query, timestamp),
                Score::Change { shift } => history.change(&query, shift, timestamp),
            };
            match observation.score {
                None => prop_assert!(expected.is_err()),
                Some(score) => prop_assert!(same(&score, &expected.unwrap()), "{:?} {:?}", score, expected),
            }
            let before = active;
            if let Some(score) = observation.score {
                active = score.value > if before { rule.end } else { rule.start };
            }
            prop_assert_eq!(observation.active, active);
            prop_assert_eq!(observation.event.is_some(), before != active);
        }
        prop_assert_eq!(monitor, restored);
    }
}
