//! Errors that a mechanism does not know, and so does not state.

use tidegate::kernel::{SeededRandom, Window};
use tidegate::post_processing::PostProcessing;
use tidegate::query::{History, Query, Unit};
use tidegate::release::{Freshness, Histogram, Number, Release, Spent, Statistic, UNSTATED};
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;
use tidegate::tree::{Tree, TreeShape};

fn release(timestamp: u64, statistic: impl Into<Statistic>, freshness: Freshness) -> Release {
    Release {
        timestamp,
        statistic: statistic.into(),
        freshness,
        spent: Spent::Nothing,
        reports: 1,
        seeded: false,
        why: None,
    }
}

fn histogram(variance: f64) -> Histogram {
    Histogram { frequencies: vec![0.25, 0.75], variances: vec![variance; 2] }
}

fn is_stated(release: &Release) -> bool {
    let number = release.statistic.number().map(|number| number.variance);
    number.iter().chain(release.statistic.leaves().1).all(|variance| variance.is_finite())
}

/// Only the first of each window of three is measured.
#[test]
fn samples_state_an_error_and_their_repetitions_do_not() {
    let local = r#"{ "mechanism": "lsp", "epsilon": 1, "window": 3, "domain": 2, "population": 50 }"#;
    let central = r#"{ "mechanism": "sample", "epsilon": 1, "window": 3, "domain": 2, "neighbours": "replace" }"#;
    for spec in [local, central] {
        let spec: StreamSpec = serde_json::from_str(spec).unwrap();
        let (mut stream, random) = (Stream::new(spec).unwrap(), &mut SeededRandom::new(3));
        let mut stated = Vec::new();
        for timestamp in 0..6 {
            for user in 0..50 {
                let entry = stream.value(timestamp, &user.to_string(), "1").unwrap();
                stated.extend(stream.push(entry, random).unwrap().releases.iter().map(is_stated));
            }
        }
        stated.extend(stream.finish(random).unwrap().releases.iter().map(is_stated));
        assert_eq!(stated, [true, false, false, true, false, false]);
    }
}

#[test]
fn means_of_groups_and_readings_that_are_cut_off_state_no_error() {
    let truncation = r#", "truncation": { "every": 4, "percent": 90 }, "delay": 4"#;
    for (mechanism, rest, expected) in [
        ("laplace", "", true),
        ("comporder", "", true),
        ("comporder", r#", "delay": 2"#, false),
        ("pegasus", "", false),
        ("laplace", truncation, false),
    ] {
        let spec = format!(
            r#"{{ "mechanism": "{mechanism}", "epsilon": 1, "domain": {{ "low": 0, "high": 100 }},
                "protects": "reading" {rest} }}"#
        );
        let spec: StreamSpec = serde_json::from_str(&spec).unwrap();
        let (mut stream, random) = (Stream::new(spec).unwrap(), &mut SeededRandom::new(3));
        let mut releases = Vec::new();
        for timestamp in 0..8 {
            let entry = stream.reading(timestamp, "40").unwrap();
            releases.extend(stream.push(entry, random).unwrap().releases);
        }
        releases.extend(stream.finish(random).unwrap().releases);
        assert_eq!(releases.len(), 8);
        assert!(releases.iter().all(|release| is_stated(release) == expected), "{mechanism}{rest}");
    }
}

#[test]
fn an_unstated_variance_is_null_in_json() {
    let tree = Tree::new(TreeShape::new(2), vec![1.0, 0.5, 0.5], vec![0.0, 1.0, UNSTATED]).unwrap();
    let counts = tidegate::release::Counts { counts: vec![3.0], variances: vec![UNSTATED] };
    let number = Number { value: 3.0, variance: UNSTATED };
    for (statistic, part) in [
        (Statistic::from(histogram(UNSTATED)), r#""variances":[null,null]"#),
        (tree.into(), r#""variances":[0.0,1.0,null]"#),
        (counts.into(), r#""variances":[null]"#),
        (number.into(), r#""variance":null"#),
    ] {
        let release = release(0, statistic, Freshness::Fresh);
        let json = serde_json::to_string(&release).unwrap();
        assert!(json.contains(part), "{json}");
        assert_eq!(serde_json::from_str::<Release>(&json).unwrap(), release);
        let bytes = postcard::to_allocvec(&release).unwrap();
        assert_eq!(postcard::from_bytes::<Release>(&bytes).unwrap(), release);
    }
}

#[test]
fn an_answer_has_no_interval_where_a_release_has_none() {
    let mut history = History::new(Window::of(4).unwrap(), 10).unwrap();
    for (timestamp, variance) in [(0, 0.01), (1, UNSTATED), (2, UNSTATED), (3, 0.01)] {
        let freshness = if variance == UNSTATED { Freshness::Approximated } else { Freshness::Fresh };
        history.push(release(timestamp, histogram(variance), freshness), None).unwrap();
    }
    let stated = |answer: tidegate::query::Answer| {
        assert!(!answer.variance.is_nan());
        answer.possible_interval(0.95).unwrap().is_some()
    };
    assert!(stated(history.point(0, 0, Unit::Frequencies).unwrap()));
    assert!(!stated(history.point(0, 1, Unit::Frequencies).unwrap()));
    assert!(stated(history.answer_at(&Query::counting(0, 1), 3).unwrap()));
    assert!(!stated(history.answer_at(&Query::counting(0, 2), 3).unwrap()));
    // Two repetitions of one release: nothing changes, and by how much that is wrong nobody knows.
    assert!(!stated(history.change(&Query::counting(0, 1), 1, 2).unwrap()));
    assert!(stated(history.change(&Query::counting(0, 1), 3, 3).unwrap()));
    let saved = serde_json::to_string(&history).unwrap();
    assert_eq!(serde_json::from_str::<History>(&saved).unwrap(), history);
}

#[test]
fn repairs_take_unstated_errors_as_no_knowledge() {
    let published = Histogram { frequencies: vec![0.5, 0.3, 0.3], variances: vec![0.01, UNSTATED, UNSTATED] };
    let consistent = PostProcessing::Consistency.apply(&published.into()).unwrap();
    let (frequencies, variances) = consistent.leaves();
    assert!((frequencies[0] - 0.5).abs() < 1e-12 && (frequencies[1] - 0.25).abs() < 1e-12);
    assert_eq!(variances, [0.01, UNSTATED, UNSTATED]);

    // The right half is known by its leaves only, and the first leaf by its parent and its sibling.
    let variances = vec![0.0, 0.01, UNSTATED, UNSTATED, 0.01, 0.01, 0.01];
    let tree = Tree::new(TreeShape::new(4), vec![1.0, 0.5, 0.9, 0.9, 0.2, 0.3, 0.2], variances).unwrap();
    for method in [PostProcessing::Consistency, PostProcessing::NormSub] {
        let Statistic::Tree(tree) = method.apply(&tree.clone().into()).unwrap() else { unreachable!() };
        let sums = [(1, 0, 2), (1, 1, 2)].map(|(level, node, below)| {
            let children = tree.node(below, 2 * node).0 + tree.node(below, 2 * node + 1).0;
            (tree.node(level, node).0 - children).abs()
        });
        assert!(sums.iter().all(|difference| *difference < 1e-12), "{sums:?}");
        assert!((tree.node(1, 0).0 + tree.node(1, 1).0 - 1.0).abs() < 1e-12);
        assert!((tree.node(2, 0).0 - 0.3).abs() < 0.01, "{:?}", tree.node(2, 0));
    }
}
