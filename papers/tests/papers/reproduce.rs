//! The papers' figures and tables: every experiment in a small form, and verdicts on tables that are made up.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use tidegate_lab::datasets;
use tidegate_lab::metrics::Summary;
use tidegate_papers::verdict::{
    Decision, Demand, Tally, Verdict, all_below, digits, falls, near, ratio, rises, short, smaller, smaller_than_times,
};
use tidegate_papers::{At, Cut, Experiment, PAPERS, ReproduceOptions, Results, Session, all, by_name, report};

fn number(mean: f64, standard_error: f64) -> Summary {
    Summary { mean, standard_error: Some(standard_error) }
}

/// As small as it goes: one run of 16 timestamps. Data sets that are not here are left out.
fn tiny() -> ReproduceOptions {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    ReproduceOptions {
        data_dir: Some(std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from)),
        repeats: NonZeroU64::new(1),
        length: NonZeroUsize::new(16),
        threads: NonZeroUsize::new(2).unwrap(),
        quick: true,
        skip_missing: true,
        ..ReproduceOptions::default()
    }
}

#[test]
fn every_experiment_runs_and_is_reported() {
    let session = Session::new(tiny(), &|_| {});
    let mut outcomes = Vec::new();
    for (paper, experiment) in all() {
        let outcome = experiment.run(paper, &session).unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        let name = experiment.name;
        if !outcome.is_measured() {
            println!("skipped: {name}, for want of {}; TIDEGATE_DATA says where it is", outcome.missing.join(", "));
            assert!(!outcome.missing.is_empty(), "{name}");
            continue;
        }
        if let Some(svg) = &outcome.svg {
            roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(outcome.judgements.len(), experiment.claims.len(), "{name}");
        assert!(outcome.judgements.iter().all(|judgement| judgement.because.ends_with('.')), "{name}");
        if outcome.missing.is_empty() {
            for published in experiment.published {
                let ours = outcome.table.get(published.panel, published.series, published.at, published.metric);
                assert!(ours.is_some(), "{name}: nothing is measured for {published:?}");
            }
        }
        assert_eq!(outcome.table.to_csv().lines().count(), 1 + outcome.table.entries().len(), "{name}");
        outcomes.push(outcome);
    }
    let page = report(&outcomes, session.options()).to_html();
    roxmltree::Document::parse(&page[page.find("<body>").unwrap()..page.find("</html>").unwrap()]).unwrap();
    assert!(outcomes.iter().all(|outcome| page.contains(&format!("id=\"{}\"", outcome.experiment.name))));
}

#[test]
fn names_are_unique_and_begin_with_their_paper() {
    let mut names: Vec<_> =
        all().map(|(_, experiment)| experiment.name).chain(PAPERS.iter().map(|paper| paper.name)).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for (paper, experiment) in all() {
        assert!(experiment.name.starts_with(paper.name), "{}", experiment.name);
        for data in experiment.data {
            assert!(datasets::by_name(data.set).is_some(), "{}: {}", experiment.name, data.set);
        }
    }
    assert_eq!(by_name("ldp-ids").unwrap().len(), PAPERS[0].experiments.len());
    assert_eq!(by_name("ldp-ids-fig4").unwrap().len(), 1);
    let error = by_name("ldp-ids-fig44").unwrap_err().to_string();
    assert!(error.starts_with("there is no experiment \"ldp-ids-fig44\" (did you mean ldp-ids-fig4?)"), "{error}");
}

#[test]
fn results_do_not_depend_on_threads_or_company() {
    let options = |threads: usize| ReproduceOptions {
        threads: NonZeroUsize::new(threads).unwrap(),
        repeats: NonZeroU64::new(2),
        length: NonZeroUsize::new(30),
        skip_missing: true,
        ..ReproduceOptions::default()
    };
    let run = |name: &str, session: &Session<'_>| {
        let (paper, experiment) = by_name(name).unwrap()[0];
        experiment.run(paper, session).unwrap()
    };
    let alone = run("ldp-ids-fig7", &Session::new(options(1), &|_| {}));
    let session = Session::new(options(3), &|_| {});
    run("ldp-ids-fig5", &session);
    let after = run("ldp-ids-fig7", &session);
    assert_eq!(alone.table, after.table);
    assert_eq!(alone.svg, after.svg);
    assert!(alone.missing == ["foursquare_lbsn2vec", "tdrive_counts"], "{:?}", alone.missing);
}

#[test]
fn a_run_that_another_experiment_needs_too_is_made_once() {
    use std::sync::atomic::{AtomicU64, Ordering};
    use tidegate_papers::{Progress, settings};
    let runs = AtomicU64::new(0);
    let count = |progress| {
        if progress == Progress::Done {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    };
    let session = Session::new(tiny(), &count);
    let stream = session.dataset("sin", Cut::default()).unwrap().unwrap();
    let choices = [settings(1.0, 5).unwrap(), settings(2.0, 5).unwrap()];
    let first = session.sweep(&stream, &["lpu", "constant"], &choices).unwrap();
    assert_eq!((first.len(), runs.load(Ordering::Relaxed)), (4, 4));
    let names: Vec<_> = first.iter().map(|finding| (finding.mechanism, finding.settings.epsilon.as_f64())).collect();
    assert_eq!(names, [("lpu", 1.0), ("lpu", 2.0), ("constant", 1.0), ("constant", 2.0)]);
    let again = session.sweep(&stream, &["lpa", "lpu"], &choices[1..]).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 5);
    assert_eq!(again[1], first[1]);
    assert!(settings(0.0, 5).is_err() && settings(1.0, 0).is_err());
}

#[test]
fn missing_data_is_an_error_unless_it_may_be_left_out() {
    let session =
        |skip_missing| Session::new(ReproduceOptions { skip_missing, ..ReproduceOptions::default() }, &|_| {});
    assert!(session(false).dataset("tdrive_counts", Cut::default()).is_err());
    assert!(session(true).dataset("tdrive_counts", Cut::default()).unwrap().is_none());
    assert!(session(true).dataset("no_such_set", Cut::default()).is_err());
}

#[test]
fn differences_count_beyond_the_noise_only() {
    assert_eq!(smaller(number(1.0, 0.1), number(2.0, 0.1)), Decision::Yes);
    assert_eq!(smaller(number(2.0, 0.1), number(1.0, 0.1)), Decision::No);
    assert_eq!(smaller(number(1.0, 0.1), number(1.4, 0.1)), Decision::Unclear);
    // Without any noise, equal is not smaller.
    assert_eq!(smaller(number(1.0, 0.0), number(1.0, 0.0)), Decision::No);
    // A single run says nothing about its spread.
    assert_eq!(smaller(Summary { mean: 1.0, standard_error: None }, number(2.0, 0.1)), Decision::Unclear);
    assert_eq!(smaller_than_times(number(1.0, 0.01), 0.5, number(3.0, 0.01)), Decision::Yes);
    assert_eq!(smaller_than_times(number(1.0, 0.01), 0.5, number(1.5, 0.01)), Decision::No);
    assert_eq!(near(number(1.02, 0.001), 1.0, 0.05), Decision::Yes);
    assert_eq!(near(number(1.2, 0.001), 1.0, 0.05), Decision::No);
    assert_eq!(near(number(1.06, 0.01), 1.0, 0.05), Decision::Unclear);
    let half = ratio(number(1.0, 0.03), number(2.0, 0.08));
    assert!((half.mean - 0.5).abs() < 1e-12 && (half.standard_error.unwrap() - 0.025).abs() < 1e-12);
}

#[test]
fn verdicts_follow_from_the_answers() {
    let judge = |yes: usize, no: usize, unclear: usize, demand: Demand| {
        let mut tally = Tally::new();
        for (answer, count) in [(Decision::Yes, yes), (Decision::No, no), (Decision::Unclear, unclear)] {
            (0..count).for_each(|_| tally.add(answer, "x"));
        }
        tally.judge(demand).verdict
    };
    use Demand::{Everywhere, Mostly};
    for (answers, demand, verdict) in [
        ((4, 0, 0), Everywhere, Verdict::Holds),
        ((4, 0, 4), Everywhere, Verdict::Holds),
        ((4, 0, 5), Everywhere, Verdict::Unclear),
        ((3, 1, 0), Everywhere, Verdict::Partly),
        ((2, 2, 0), Everywhere, Verdict::DoesNotHold),
        ((0, 4, 0), Everywhere, Verdict::DoesNotHold),
        ((3, 1, 0), Mostly, Verdict::Holds),
        ((2, 2, 0), Mostly, Verdict::Partly),
        ((1, 2, 0), Mostly, Verdict::DoesNotHold),
        ((0, 0, 3), Mostly, Verdict::Unclear),
        ((0, 0, 0), Mostly, Verdict::Unclear),
    ] {
        assert_eq!(judge(answers.0, answers.1, answers.2, demand), verdict, "{answers:?} {demand:?}");
    }
}

#[test]
fn the_reason_names_the_numbers() {
    let mut table = Results::new();
    for (at, low, high) in [(1.0, 0.1, 0.2), (2.0, 0.3, 0.2), (3.0, 0.2, 0.2)] {
        table.push("sin", "lpa", at, "mre", number(low, 0.01));
        table.push("sin", "lpu", at, "mre", number(high, 0.01));
    }
    let judgement = all_below(&table, "mre", &["lpa"], &["lpu"]).judge(Demand::Everywhere);
    assert_eq!(judgement.verdict, Verdict::DoesNotHold);
    assert_eq!(
        judgement.because,
        "As claimed in 1 of 3 comparisons. Not so: sin at 2: lpa 0.300 ± 0.01, lpu 0.200 ± 0.01. \
         1 too close to tell (within 3 standard errors): sin at 3: lpa 0.200 ± 0.01, lpu 0.200 ± 0.01."
    );
    assert_eq!(rises(&table, "mre", &["lpa"], |_| true).counts(), (1, 1, 0));
    assert_eq!(falls(&table, "mre", &["lpa"], |_| true).counts(), (1, 1, 0));
    assert_eq!(falls(&table, "mre", &["lpa"], |panel| panel == "log").counts(), (0, 0, 0));
}

/// The claim of an experiment whose text begins so.
fn verdict(experiment: &str, claim: &str, table: &Results) -> Verdict {
    let (_, experiment): (_, &Experiment) = by_name(experiment).unwrap()[0];
    let found: Vec<_> = experiment.claims.iter().filter(|other| other.text.starts_with(claim)).collect();
    assert_eq!(found.len(), 1, "{claim}");
    (found[0].check)(table).verdict
}

/// A table of `mre` with a line for each series, over these places.
fn errors(panel: &str, places: &[f64], series: &[(&str, &[f64])]) -> Results {
    let mut table = Results::new();
    for (name, values) in series {
        for (at, value) in places.iter().zip(*values) {
            table.push(panel, name, *at, "mre", number(*value, 0.001));
        }
    }
    table
}

#[test]
fn claims_of_ldp_ids_are_judged_by_the_numbers() {
    let places = [10.0, 50.0];
    let as_claimed: &[(&str, &[f64])] = &[
        ("lbu", &[1.0, 2.0]),
        ("lbd", &[0.8, 2.4]),
        ("lba", &[0.7, 1.5]),
        ("lpu", &[0.1, 0.3]),
        ("lpd", &[0.09, 0.2]),
        ("lpa", &[0.07, 0.1]),
        ("lsp", &[0.05, 0.08]),
    ];
    let table = errors("sin", &places, as_claimed);
    for claim in ["In general", "When w is large", "LBA avoids", "LPD has a smaller", "The larger w"] {
        assert_eq!(verdict("ldp-ids-fig5", claim, &table), Verdict::Holds, "{claim}");
    }
    let table = errors(
        "sin",
        &places,
        &[
            ("lbu", &[2.0, 1.0]),
            ("lbd", &[1.0, 0.5]),
            ("lba", &[3.0, 2.0]),
            ("lpu", &[0.3, 0.1]),
            ("lpd", &[0.4, 0.2]),
            ("lpa", &[0.4, 0.15]),
            ("lsp", &[0.05, 0.04]),
        ],
    );
    for claim in ["In general", "When w is large", "LBA avoids", "LPD has a smaller", "The larger w"] {
        assert_eq!(verdict("ldp-ids-fig5", claim, &table), Verdict::DoesNotHold, "{claim}");
    }
    // How LSP varies is about several data sets.
    let mut table = errors("sin", &[1.0], &[("lsp", &[0.1]), ("lpa", &[0.2])]);
    let claim = "How well LSP does varies";
    assert_eq!(verdict("ldp-ids-fig4", claim, &table), Verdict::DoesNotHold);
    table.push("log", "lsp", 1.0, "mre", number(0.4, 0.001));
    table.push("log", "lpa", 1.0, "mre", number(0.2, 0.001));
    assert_eq!(verdict("ldp-ids-fig4", claim, &table), Verdict::Holds);
}

#[test]
fn communication_is_judged_by_the_numbers() {
    let mut table = Results::new();
    for (name, value) in
        [("lbu", 1.0), ("lbd", 1.27), ("lba", 1.17), ("lsp", 0.05), ("lpu", 0.05), ("lpd", 0.046), ("lpa", 0.04)]
    {
        table.push("by budget", name, 1.0, "cfpu", number(value, 0.0001));
        table.push(
            "by budget",
            name,
            2.0,
            "cfpu",
            number(value * if name.starts_with("lp") { 1.01 } else { 1.0 }, 0.0001),
        );
    }
    assert_eq!(verdict("ldp-ids-fig8", "LBU, LBD and LBA have", &table), Verdict::Holds);
    assert_eq!(verdict("ldp-ids-fig8", "With LSP and LPU", &table), Verdict::Holds);
    assert_eq!(verdict("ldp-ids-fig8", "With larger ε", &table), Verdict::Holds);
    let mut table = Results::new();
    table.push("by budget", "lbu", 1.0, "cfpu", number(1.1, 0.0001));
    table.push("by budget", "lpu", 1.0, "cfpu", number(0.06, 0.0001));
    assert_eq!(verdict("ldp-ids-fig8", "LBU, LBD and LBA have", &table), Verdict::DoesNotHold);
    assert_eq!(verdict("ldp-ids-fig8", "With LSP and LPU", &table), Verdict::DoesNotHold);
}

#[test]
fn claims_of_mtsp_ldp_are_judged_by_the_numbers() {
    let table = |mtsp: [f64; 2], others: [f64; 2], constant: f64| {
        let mut table = Results::new();
        for metric in ["mae", "mre"] {
            for (place, epsilon) in [0.5, 5.0].into_iter().enumerate() {
                for name in ["lba", "lbd", "lsp", "lbu"] {
                    table.push("s by ε", name, epsilon, metric, number(others[place], 0.001));
                }
                table.push("s by ε", "mtsp", epsilon, metric, number(mtsp[place], 0.001));
                table.push("s by ε", "constant", epsilon, metric, number(constant, 0.0));
            }
        }
        table
    };
    let good = table([0.5, 0.2], [2.0, 0.3], 1.0);
    let bad = table([2.0, 3.0], [1.0, 2.0], 0.5);
    for claim in [
        "The errors of all methods decrease",
        "MTSP-LDP is consistently",
        "Its advantage is largest",
        "It tells something",
    ] {
        assert_eq!(verdict("mtsp-ldp-fig6", claim, &good), Verdict::Holds, "{claim}");
        assert_eq!(verdict("mtsp-ldp-fig6", claim, &bad), Verdict::DoesNotHold, "{claim}");
    }
    let mut curve = Results::new();
    curve.push("s", "mtsp", "whole curve", "monitor_auc", number(0.6, 0.01));
    curve.push("s", "lsp", "whole curve", "monitor_auc", number(0.7, 0.01));
    assert_eq!(verdict("mtsp-ldp-fig8", "Rises of ranges", &curve), Verdict::DoesNotHold);
}

#[test]
fn tables_are_looked_up_and_written_as_csv() {
    let mut table = Results::new();
    table.push("a, \"b\"", "lpu", 0.5, "mre", number(0.25, 0.125));
    table.push("c", "lpu", "sin", "mre", Summary { mean: 2.0, standard_error: None });
    table.push_exact("c", "lpu", "log", "mre", 1.0);
    let csv = "panel,series,x,metric,mean,standard_error\n\
               \"a, \"\"b\"\"\",lpu,0.5,mre,2.5e-1,1.25e-1\nc,lpu,sin,mre,2e0,\nc,lpu,log,mre,1e0,0e0\n";
    assert_eq!(table.to_csv(), csv);
    assert_eq!(table.panels(), ["a, \"b\"", "c"]);
    assert_eq!(table.places("c"), [&At::from("sin"), &At::from("log")]);
    assert_eq!(table.get("c", "lpu", "log", "mre"), Some(number(1.0, 0.0)));
    assert_eq!(table.get("c", "lpu", "log", "mae"), None);
}

#[test]
fn numbers_are_written_with_the_digits_that_matter() {
    let written = [(0.0, 3), (0.123_456, 3), (12.345, 3), (1234.5, 3), (1e-5, 2), (123_456.0, 3)]
        .map(|(number, count)| digits(number, count));
    assert_eq!(written, ["0", "0.123", "12.3", "1234", "1.0e-5", "1.23e5"]);
    assert_eq!(short(number(0.5, 0.0)), "0.500");
    assert_eq!(short(number(0.5, 0.012)), "0.500 ± 0.01");
}
