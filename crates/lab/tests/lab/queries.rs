//! Errors of queries, on streams small enough to compute them by hand.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate::local::{Local, LocalKind};
use tidegate::query::{History, Query, QueryError};
use tidegate::release::Statistic;
use tidegate::tree::{Tree, TreeShape};
use tidegate_kernel::{SeededRandom, Window};
use tidegate_lab::CountStream;
use tidegate_lab::experiment::{CountOutcome, OnCounts, Plan, RunError, Setting, Subject, Trial, TrialSettings, run};
use tidegate_lab::generate::Process;
use tidegate_lab::local::{Crowd, LocalSubject, local_settings, run_stream};
use tidegate_lab::metrics::{Metric, Metrics, NotComparable};
use tidegate_lab::queries::{Incomparable, QUERIES, QuerySet, QueryTruth};
use tidegate_lab::subjects::Constant;

use crate::support::{assert_close, stream};

/// Four timestamps with 4, 4, 8 and 4 users.
fn small() -> CountStream {
    stream(&[&[2, 1, 1], &[1, 2, 1], &[0, 4, 4], &[3, 1, 0]])
}

fn truth_as_released(stream: &CountStream) -> CountOutcome {
    let frequencies = (0..stream.length()).map(|timestamp| stream.frequencies(timestamp)).collect();
    CountOutcome { frequencies, of_counts: false, variances: Vec::new(), trees: Vec::new(), reports: 0, bytes: 0 }
}

fn uniform(stream: &CountStream) -> CountOutcome {
    let frequencies = vec![vec![1.0 / stream.domain() as f64; stream.domain()]; stream.length()];
    CountOutcome { frequencies, of_counts: false, variances: Vec::new(), trees: Vec::new(), reports: 0, bytes: 0 }
}

fn compare(stream: &CountStream, counting: &[Query], range: &[Query], outcome: CountOutcome) -> Metrics {
    let queries = QuerySet { counting: counting.to_vec(), range: range.to_vec() };
    QueryTruth::of(stream, &queries).unwrap().compare(outcome).unwrap()
}

fn settings(window: u64) -> TrialSettings {
    TrialSettings::new("2".parse().unwrap(), NonZeroU64::new(window).unwrap())
}

fn plan(threads: usize, queries: bool) -> Plan {
    let repeats = NonZeroU64::new(4).unwrap();
    Plan { repeats, seed: 9, threads: NonZeroUsize::new(threads).unwrap(), queries }
}

/// Publishes the truth, and loses all privacy.
struct Exact;

impl Subject for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn summary(&self) -> String {
        "the truth".to_owned()
    }

    fn uses(&self) -> &'static [Setting] {
        &[]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for Exact {
    fn run(&self, stream: &CountStream, _: &TrialSettings, _: &mut SeededRandom) -> Result<CountOutcome, RunError> {
        Ok(truth_as_released(stream))
    }
}

#[test]
fn the_truth_has_no_error_and_detects_every_rise() {
    let stream = Process::SIN.generate(1_000, 60, &mut SeededRandom::new(1)).unwrap();
    let trial = Trial { subject: &Exact, settings: settings(10) };
    let findings = run(&stream.into(), &[trial], &plan(1, true), &|| {}).unwrap();
    let queries: Vec<(Metric, f64)> =
        findings[0].metrics[7..].iter().map(|(metric, sum)| (*metric, sum.mean)).collect();
    assert_eq!(queries.iter().map(|(metric, _)| *metric).collect::<Vec<_>>(), Metric::ALL[7..14]);
    for (metric, error) in &queries[..6] {
        assert!(error.abs() < 1e-12, "{metric}: {error}");
    }
    assert_eq!(queries[6].1, 1.0);
}

#[test]
fn errors_are_those_of_shares_among_the_users_of_a_period() {
    // Value 0, over two timestamps: 3 of 8, 1 of 12, 3 of 12.
    let stream = small();
    let metrics = compare(&stream, &[Query::counting(0, 2)], &[Query::range(1, 2, 1)], uniform(&stream));
    let third: f64 = 1.0 / 3.0;
    let truth = [3.0 / 8.0, 1.0 / 12.0, 3.0 / 12.0];
    assert_close(metrics[&Metric::CountingMse], truth.iter().map(|share| (third - share).powi(2)).sum::<f64>() / 3.0);
    assert_close(metrics[&Metric::CountingMae], truth.iter().map(|share| (third - share).abs()).sum::<f64>() / 3.0);
    let relative = truth.iter().map(|share| (third - share).abs() / share).sum::<f64>() / 3.0;
    assert_close(metrics[&Metric::CountingMre], relative);
    // Values 1 and 2, at each timestamp.
    let truth = [0.5, 0.75, 1.0, 0.25];
    assert_close(
        metrics[&Metric::RangeMse],
        truth.iter().map(|share| (2.0 * third - share).powi(2)).sum::<f64>() / 4.0,
    );
    assert_close(metrics[&Metric::RangeMae], truth.iter().map(|share| (2.0 * third - share).abs()).sum::<f64>() / 4.0);
    let relative = truth.iter().map(|share| (2.0 * third - share).abs() / share).sum::<f64>() / 4.0;
    assert_close(metrics[&Metric::RangeMre], relative);
    // Users weigh alike, wherever they are: 4 of 12 and not the mean of 1/4 and 0.
    let exact = compare(&stream, &[Query::counting(0, 2)], &[], truth_as_released(&stream));
    assert!(exact[&Metric::CountingMse] < 1e-30 && !exact.contains_key(&Metric::RangeMse));
}

#[test]
fn an_error_relative_to_nobody_is_relative_to_a_thousandth() {
    let stream = stream(&[&[0, 4], &[0, 4]]);
    let metrics = compare(&stream, &[Query::counting(0, 1)], &[], uniform(&stream));
    assert_close(metrics[&Metric::CountingMre], 500.0);
}

#[test]
fn a_monitor_is_judged_by_the_rises_above_the_median() {
    // The share of value 0 rises by 0.1, 0.3, -0.2, 0.2 and -0.3: the median is 0.1, the events are the second and the
    // fourth.
    let shares = [2, 3, 6, 4, 6, 3];
    let rows: Vec<Vec<u64>> = shares.iter().map(|share| vec![*share, 10 - share, 0]).collect();
    let stream = stream(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let range = [Query::range(0, 0, 1)];
    let area = |released: [f64; 6]| {
        let frequencies = released.iter().map(|share| vec![*share, 1.0 - share, 0.0]).collect();
        compare(
            &stream,
            &[],
            &range,
            CountOutcome {
                frequencies,
                of_counts: false,
                variances: Vec::new(),
                trees: Vec::new(),
                reports: 0,
                bytes: 0,
            },
        )[&Metric::MonitorAuc]
    };
    assert_eq!(area([0.2, 0.3, 0.6, 0.4, 0.6, 0.3]), 1.0);
    // Rises of 0.25, 0.5, 0, 0.125 and 0: one of the six pairs of an event and another is the wrong way round.
    assert_close(area([0.0, 0.25, 0.75, 0.75, 0.875, 0.875]), 5.0 / 6.0);
    // What repeats itself says nothing, and ties count half.
    assert_eq!(area([0.1; 6]), 0.5);
    // With as many timestamps as this, two periods of four do not fit: there is nothing to judge.
    let none = compare(&stream, &[], &[Query::range(0, 0, 4)], uniform(&stream));
    assert!(!none.contains_key(&Metric::MonitorAuc) && none.contains_key(&Metric::RangeMse));
}

#[test]
fn a_constant_release_detects_nothing_even_where_users_come_and_go() {
    let stream = stream(&[&[7, 1], &[3, 9], &[1, 1], &[5, 8], &[2, 3], &[11, 2]]);
    let metrics = compare(&stream, &[], &[Query::range(1, 1, 1), Query::range(0, 0, 2)], {
        let frequencies = vec![vec![0.1, 0.9]; 6];
        CountOutcome { frequencies, of_counts: false, variances: Vec::new(), trees: Vec::new(), reports: 0, bytes: 0 }
    });
    assert_eq!(metrics[&Metric::MonitorAuc], 0.5);
}

#[test]
fn trees_answer_by_their_nodes_and_not_by_their_leaves() {
    // The left node of the tree is right, its leaves are not.
    let stream = stream(&[&[1, 1, 1, 1]]);
    let tree = Tree::new(TreeShape::new(4), vec![1.0, 0.5, 0.5, 0.9, 0.9, 0.25, 0.25], vec![0.0; 7]).unwrap();
    let outcome = CountOutcome {
        of_counts: false,
        frequencies: vec![tree.leaves().0.to_vec()],
        variances: Vec::new(),
        trees: vec![tree],
        reports: 0,
        bytes: 0,
    };
    let metrics = compare(&stream, &[Query::counting(0, 1)], &[Query::range(0, 1, 1)], outcome);
    assert_close(metrics[&Metric::RangeMse], 0.0);
    assert_close(metrics[&Metric::CountingMse], 0.65_f64.powi(2));
}

#[test]
fn answers_are_those_of_the_history_of_releases() {
    let stream = Process::SIN.generate(5_000, 40, &mut SeededRandom::new(2)).unwrap();
    for kind in [LocalKind::Lpa, LocalKind::Mtsp] {
        let settings = settings(5);
        let mut random = SeededRandom::new(3);
        let mut users = Crowd::new(5_000, &mut random).unwrap();
        let mut mechanism = Local::new(kind, local_settings(&stream, &settings)).unwrap();
        let mut history = History::new(Window::Timestamps(settings.window), 100).unwrap();
        let mut outcome = CountOutcome {
            frequencies: Vec::new(),
            of_counts: false,
            variances: Vec::new(),
            trees: Vec::new(),
            reports: 0,
            bytes: 0,
        };
        run_stream(&mut mechanism, &stream, &mut users, &mut random, |release| {
            outcome.frequencies.push(release.statistic.leaves().0.to_vec());
            if let Statistic::Tree(tree) = &release.statistic {
                outcome.trees.push(tree.clone());
            }
            history.push(release, Some(5_000)).unwrap();
        })
        .unwrap();
        let query = Query::counting(1, 3).in_counts();
        let errors = (2..40).map(|timestamp| {
            let answer = history.answer_at(&query, timestamp).unwrap().value / 15_000.0;
            let period = &stream.counts()[timestamp as usize - 2..=timestamp as usize];
            let truth = period.iter().map(|row| row[1]).sum::<u64>() as f64 / 15_000.0;
            (answer - truth).powi(2)
        });
        let expected = errors.sum::<f64>() / 38.0;
        assert_close(compare(&stream, &[query], &[], outcome)[&Metric::CountingMse], expected);
    }
}

#[test]
fn queries_are_drawn_over_the_whole_domain_and_window() {
    let stream = stream(&[[1; 40].as_slice(); 30]);
    let draw = |window, seed| QuerySet::draw(&stream, NonZeroU64::new(window).unwrap(), &mut SeededRandom::new(seed));
    let queries = draw(10, 1);
    assert_eq!(queries, draw(10, 1));
    assert_ne!(queries, draw(10, 2));
    assert_eq!((queries.counting.len(), queries.range.len()), (QUERIES, QUERIES));
    assert!(queries.counting.iter().all(|query| query.first == query.last));
    let all = || queries.counting.iter().chain(&queries.range);
    assert!(all().all(|query| query.first <= query.last && query.last < 40 && query.last - query.first < 39));
    assert_eq!((all().map(|query| query.delta).min(), all().map(|query| query.delta).max()), (Some(1), Some(10)));
    // Of another window, the same values; never longer than the stream.
    let longer = draw(1_000, 1);
    let places = |queries: &[Query]| queries.iter().map(|query| (query.first, query.last)).collect::<Vec<_>>();
    assert_eq!(places(&longer.range), places(&queries.range));
    assert_eq!(places(&longer.counting), places(&queries.counting));
    assert!(longer.range.iter().all(|query| query.delta <= 30));
}

#[test]
fn what_does_not_fit_the_stream_is_an_error() {
    let stream = small();
    let of = |query: Query| QueryTruth::of(&stream, &QuerySet { counting: vec![query], range: vec![] }).map(|_| ());
    assert_eq!(of(Query::counting(3, 1)), Err(QueryError::UnknownValue { value: 3, domain: 3 }));
    assert_eq!(of(Query::range(2, 1, 1)), Err(QueryError::ReversedRange { first: 2, last: 1 }));
    assert_eq!(of(Query::counting(0, 0)), Err(QueryError::ZeroDelta));
    assert_eq!(of(Query::counting(0, 5)), Err(QueryError::BeyondKept { asked: 5, kept: 4, until: 3 }));
    assert_eq!(of(Query::counting(0, 4)), Ok(()));

    let truth = QueryTruth::of(&stream, &QuerySet { counting: vec![Query::counting(0, 1)], range: vec![] }).unwrap();
    let refused = |outcome: CountOutcome| truth.compare(outcome).unwrap_err();
    let mut short = truth_as_released(&stream);
    short.frequencies.pop();
    assert_eq!(refused(short), Incomparable::Outcome(NotComparable::Length { given: 3, expected: 4 }));
    let narrow = Tree::new(TreeShape::new(2), vec![1.0, 0.5, 0.5], vec![0.0; 3]).unwrap();
    let narrow = CountOutcome { trees: vec![narrow; 4], ..truth_as_released(&stream) };
    let expected = NotComparable::Width { timestamp: 0, given: 2, expected: 3 };
    assert_eq!(refused(narrow), Incomparable::Outcome(expected));
    let mut infinite = truth_as_released(&stream);
    infinite.frequencies[1][0] = f64::INFINITY;
    assert!(matches!(refused(infinite), Incomparable::Query(QueryError::BadRelease { timestamp: 1, .. })));
}

#[test]
fn answers_do_not_depend_on_the_number_of_threads_and_leave_the_rest_as_it_was() {
    let stream = Process::LNS.generate(2_000, 50, &mut SeededRandom::new(4)).unwrap();
    let (lpu, mtsp) = (LocalSubject(LocalKind::Lpu), LocalSubject(LocalKind::Mtsp));
    let subjects: [&dyn Subject; 3] = [&Constant, &lpu, &mtsp];
    let trials: Vec<Trial<'_>> = subjects
        .iter()
        .flat_map(|subject| [5, 10].map(|window| Trial { subject: *subject, settings: settings(window) }))
        .collect();
    let metrics = |threads, queries| -> Vec<_> {
        let findings = run(&stream.clone().into(), &trials, &plan(threads, queries), &|| {}).unwrap();
        findings.into_iter().map(|finding| finding.metrics).collect()
    };
    let one = metrics(1, true);
    // Seven of the stream, seven of the queries, and for mechanisms that state variances and ask users how often
    // their intervals hold and how many bytes a user sends.
    let lengths: Vec<usize> = one.iter().map(Vec::len).collect();
    assert_eq!(lengths, [14, 14, 16, 16, 16, 16]);
    assert_eq!(metrics(2, true), one);
    assert_eq!(metrics(5, true), one);
    let without: Vec<_> = one.iter().map(|metrics| [&metrics[..7], &metrics[14..]].concat()).collect();
    assert_eq!(metrics(2, false), without);
}
