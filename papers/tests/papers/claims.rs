//! The figures of the personalised, the delay-allowed and the sequence privacy paper: each runs, on made-up data where
//! the real ones are large, and its claims are judged as they should be on made-up tables.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tidegate_lab::metrics::Summary;
use tidegate_papers::verdict::{Decision, Verdict, smaller_in_pairs};
use tidegate_papers::{Experiment, Measurement, Outcome, Place, ReproduceOptions, Results, Session, by_name};

use crate::support::{directory, gzip, write};

/// Small files in the form of the real ones.
fn made_up_data(name: &str) -> PathBuf {
    let folder = directory(name);
    let put = |path: &str, content: String| {
        let bytes = if Path::new(path).extension().is_some_and(|end| end == "gz") {
            gzip(content)
        } else {
            content.into_bytes()
        };
        write(&folder.join(path), bytes);
    };
    let lines =
        |count: u32, line: &dyn Fn(u32) -> String| (0..count).map(|number| line(number) + "\n").collect::<String>();
    put("covid19_death/COVID19_DEATH.csv", lines(120, &|week| (week * 37 % 9_000).to_string()));
    put("foodmart/footmart.csv", lines(120, &|item| (1 + item * 331 % 1_559).to_string()));
    let months = lines(120, &|month| format!("{}-{:02}-01,{}", 1972 + month / 12, 1 + month % 12, 200 + month % 90));
    put("unemployment/unemployment.csv", format!("DATE,LNU03000018\n{months}"));
    let fields = "REGION TYPE,REGION,YEAR,WEEK,% WEIGHTED ILI,%UNWEIGHTED ILI,AGE 0-4,AGE 25-49,AGE 25-64,AGE \
                  5-24,AGE 50-64,AGE 65,ILITOTAL,NUM. OF PROVIDERS,TOTAL PATIENTS";
    let weeks = lines(100, &|week| {
        format!("National,X,{},{},,,,,,,,,,,{}", 2000 + week / 50, 1 + week % 50, 500_000 + 9_000 * week)
    });
    put("outpatient_ilinet/ILINet.csv", format!("title\n{fields}\n{weeks}"));
    let mut taxis = format!("{}{}\n", 20 * 64 * 20, ",".repeat(63));
    (0..20).for_each(|_| writeln!(taxis, "{}", ["20"; 64].join(",")).unwrap());
    put("tdrive_counts/td.csv", taxis);
    let check_ins = lines(60, &|number| format!("MY,{},0,{},0,{}", number % 20, 1 + number, 1 + number % 9));
    put(
        "foursquare_lbsn2vec/checkins_4cities.csv.gz",
        format!("city,user,week,hour_of_week,venue,category\n{check_ins}"),
    );
    put("kosarak/kosarak_first100000.txt.gz", lines(20, &|user| format!("{} {}", 1 + user % 7, 1 + user % 3)));
    put(
        "msnbc_spmf/msnbc_sequences.txt.gz",
        lines(30, &|user| format!("{} {} {}", 1 + user % 17, 1 + user % 5, 1 + user % 2)),
    );
    let gazes = lines(2_000, &|sample| {
        let (person, moment) = (sample / 1_000, sample % 1_000);
        format!("{person},{},{},{},True,1", f64::from(moment) / 1_000.0, moment % 20, moment % 12)
    });
    put("eye_irf_lookatpoint/gaze.csv.gz", format!("subject,t,x,y,status,evt\n{gazes}"));
    folder
}

fn run_quickly(paper: &str, data_dir: Option<PathBuf>) -> Vec<Outcome> {
    let options =
        ReproduceOptions { skip_missing: data_dir.is_none(), data_dir, quick: true, ..ReproduceOptions::default() };
    let session = Session::new(options, &|_| ());
    by_name(paper).unwrap().into_iter().map(|(paper, experiment)| experiment.run(paper, &session).unwrap()).collect()
}

/// That every experiment of a paper measured something, drew it, judged every claim, and has a measured number beside
/// each that was printed.
#[track_caller]
fn assert_complete(outcomes: &[Outcome]) {
    for Outcome { experiment, table, svg, judgements, missing, .. } in outcomes {
        let name = experiment.name;
        assert!(missing.is_empty() && svg.is_some(), "{name}");
        assert_eq!(judgements.len(), experiment.claims.len(), "{name}");
        for (claim, judgement) in experiment.claims.iter().zip(judgements) {
            assert!(!judgement.because.contains("Nothing was measured"), "{name}: {}", claim.text);
        }
        for number in experiment.published {
            let at = number.at;
            let ours = table.get(number.panel, number.series, at, number.metric);
            assert!(ours.is_some(), "{name}: {} {} {at:?} {}", number.panel, number.series, number.metric);
        }
        for data in experiment.data {
            let mut panels = table.panels().into_iter();
            assert!(
                // Some have a panel for something else than a data set.
                name.ends_with("summary")
                    || name.ends_with("fig7")
                    || name == "sequence-privacy-fig8"
                    || panels.any(|panel| panel.starts_with(data.set)),
                "{name}: {}",
                data.set
            );
        }
        assert!(table.entries().iter().all(|entry| !entry.value.mean.is_nan()), "{name}");
    }
}

#[test]
fn the_figures_of_the_personalised_paper_run() {
    assert_complete(&run_quickly("personalized-w-event", Some(made_up_data("papers_personalised"))));
}

#[test]
fn the_figures_of_the_delay_allowed_paper_run() {
    assert_complete(&run_quickly("delay-allowed", Some(made_up_data("papers_delay"))));
}

#[test]
fn the_figures_of_the_sequence_privacy_paper_run() {
    assert_complete(&run_quickly("sequence-privacy", Some(made_up_data("papers_sequence"))));
}

#[test]
fn without_data_only_what_needs_none_is_measured() {
    for outcome in run_quickly("delay-allowed", None) {
        assert_eq!(outcome.svg.is_some(), outcome.experiment.data.is_empty(), "{}", outcome.experiment.name);
        assert_eq!(outcome.missing.len(), outcome.experiment.data.len(), "{}", outcome.experiment.name);
    }
}

fn experiment(name: &str) -> &'static Experiment {
    by_name(name).unwrap()[0].1
}

/// The verdict on the claim of an experiment that begins with these words.
#[track_caller]
fn verdict(name: &str, claim: &str, table: &Results) -> Verdict {
    let found = experiment(name).claims.iter().find(|other| other.text.starts_with(claim));
    (found.unwrap_or_else(|| panic!("{name} claims nothing like {claim:?}")).check)(table).verdict
}

fn measured(mean: f64, error: f64) -> Summary {
    Summary { mean, standard_error: Some(error) }
}

#[test]
fn what_was_printed_of_the_first_table_follows_from_its_equation() {
    let outcome = &run_quickly("delay-allowed-table1", None)[0];
    assert_eq!(outcome.judgements[0].verdict, Verdict::Holds, "{}", outcome.judgements[0].because);
    let mut wrong = Results::new();
    for entry in outcome.table.entries() {
        wrong.push(&entry.panel, &entry.series, entry.at.clone(), &entry.metric, measured(entry.value.mean * 1.1, 0.0));
    }
    assert_eq!(verdict("delay-allowed-table1", "Table I", &wrong), Verdict::DoesNotHold);
}

#[test]
fn a_claimed_saving_holds_where_it_was_measured_and_partly_where_it_is_less() {
    let saving = |percents: [f64; 2]| {
        let mut table = Results::new();
        for (panel, percent) in ["tdrive_counts", "foursquare_lbsn2vec"].into_iter().zip(percents) {
            table.push(panel, "pbd_sampling", "over ε", "percent_below", measured(percent, 1.0));
        }
        verdict("personalized-w-event-fig10", "On real data PBD's error is on average", &table)
    };
    assert_eq!(saving([75.0, 66.0]), Verdict::Holds);
    assert_eq!(saving([75.0, 40.0]), Verdict::Partly);
    assert_eq!(saving([-10.0, 1.0]), Verdict::DoesNotHold);
    assert_eq!(verdict("personalized-w-event-fig10", "On real data PBD's", &Results::new()), Verdict::Unclear);
}

#[test]
fn the_local_baseline_is_to_be_worst_everywhere_but_on_one_stream() {
    let with_plbu_on_lns = |plbu: f64| {
        let mut table = Results::new();
        for (panel, local) in [("tlns", plbu), ("sin_coins", 100.0), ("tdrive_counts", 100.0)] {
            for series in ["bd", "ba", "pbd_sampling", "pba_sampling"] {
                table.push(panel, series, 0.2, "amre", measured(10.0, 0.1));
            }
            table.push(panel, "plbu", 0.2, "amre", measured(local, 0.1));
        }
        verdict("personalized-w-event-fig10", "PLBU", &table)
    };
    assert_eq!(with_plbu_on_lns(5.0), Verdict::Holds);
    assert_eq!(with_plbu_on_lns(100.0), Verdict::Partly);
}

#[test]
fn a_share_of_laxer_users_is_judged_by_what_happens_before_and_after_the_end() {
    let errors = |values: [f64; 5]| {
        let mut table = Results::new();
        for (share, value) in [0.1, 0.3, 0.5, 0.7, 0.9].into_iter().zip(values) {
            for series in ["pbd_sampling", "pba_sampling"] {
                table.push("sin_coins", series, share, "amre", measured(value, 0.1));
            }
        }
        table
    };
    let both = |table: &Results| {
        ["As the share", "When the share"].map(|claim| verdict("personalized-w-event-fig12", claim, table))
    };
    assert_eq!(both(&errors([100.0, 101.0, 99.0, 100.0, 50.0])), [Verdict::Holds, Verdict::Holds]);
    assert_eq!(both(&errors([100.0, 50.0, 30.0, 20.0, 19.0])), [Verdict::DoesNotHold, Verdict::DoesNotHold]);
}

/// A table of figure 2 with the same errors, relative to the naive method, for what is printed and for ours.
/// Discontinuous grouping has 0.4 of the naive error.
fn figure_2(pegasus: f64, bucorder: f64, error: f64) -> Results {
    let mut table = Results::new();
    for (panel, names) in [
        ("outpatient_ilinet", ["laplace", "pegasus", "bucorder_sums", "discontin", "constant"]),
        (
            "outpatient_ilinet, as printed",
            ["laplace", "paper_pegasus_not_private", "paper_bucorder", "paper_discontin", "constant"],
        ),
    ] {
        for (name, value) in names.into_iter().zip([1.0, pegasus, bucorder, 0.4, 0.03]) {
            table.push(panel, name, 0.1, "mae", measured(value, error * value));
        }
    }
    table
}

#[test]
fn thirty_two_fold_is_more_than_thirty() {
    let claim = |bucorder, error| verdict("delay-allowed-fig2", "On Outpatient", &figure_2(1.0, bucorder, error));
    assert_eq!(claim(1.0 / 40.0, 0.01), Verdict::Holds);
    assert_eq!(claim(1.0 / 29.0, 0.01), Verdict::DoesNotHold);
    assert_eq!(claim(1.0 / 33.0, 0.05), Verdict::Unclear);
}

/// The authors' program has 0.83 of the naive error where the paper sees no significant improvement.
#[test]
fn pegasus_improves_significantly_if_it_comes_near_to_discontinuous_grouping() {
    let claim = |pegasus| verdict("delay-allowed-fig2", "PeGaSus is no improvement", &figure_2(pegasus, 0.1, 0.001));
    assert_eq!(claim(1.2), Verdict::Holds);
    assert_eq!(claim(0.83), Verdict::Holds);
    assert_eq!(claim(0.6), Verdict::DoesNotHold);
}

#[test]
fn a_curve_is_not_monotonic_where_it_falls_and_rises_beyond_the_noise() {
    let curve = |values: [f64; 3], error: f64| {
        let mut table = Results::new();
        for (panel, name) in [("unemployment", "contin"), ("unemployment, as printed", "paper_contin_not_private")] {
            for (place, value) in [1.0, 9.0, 17.0].into_iter().zip(values) {
                table.push(panel, name, place, "mae", measured(value, error));
            }
        }
        verdict("delay-allowed-fig7", "The error does not change monotonically", &table)
    };
    assert_eq!(curve([3.0, 1.0, 2.0], 0.01), Verdict::Holds);
    assert_eq!(curve([3.0, 2.0, 1.0], 0.01), Verdict::DoesNotHold);
    assert_eq!(curve([3.0, 2.9, 3.0], 1.0), Verdict::Unclear);
}

#[test]
fn the_published_closed_form_is_found_to_leak_and_the_corrected_one_not() {
    let outcome = &run_quickly("sequence-privacy-fig3", None)[0];
    assert_eq!(verdict("sequence-privacy-fig3", "Both steps together", &outcome.table), Verdict::DoesNotHold);
    assert_eq!(verdict("sequence-privacy-fig3", "Both steps of crr", &outcome.table), Verdict::Holds);
    assert_eq!(verdict("sequence-privacy-fig3", "Where the symbols are independent", &outcome.table), Verdict::Holds);
    let outcome = &run_quickly("sequence-privacy-fig5", None)[0];
    assert_eq!(verdict("sequence-privacy-fig5", "A step of crr", &outcome.table), Verdict::Holds);
    assert_eq!(verdict("sequence-privacy-fig5", "A step gives away", &outcome.table), Verdict::DoesNotHold);
}

#[test]
fn time_is_linear_unless_it_more_than_doubles_with_the_length() {
    let times = |values: [f64; 3]| {
        let mut table = Results::new();
        for (length, value) in [250.0, 500.0, 1_000.0].into_iter().zip(values) {
            table.push("markov_90", "crr", length, "seconds", measured(value, 0.01 * value));
        }
        verdict("sequence-privacy-fig10", "The time", &table)
    };
    assert_eq!(times([1.0, 1.9, 3.7]), Verdict::Holds);
    assert_eq!(times([1.0, 4.0, 16.0]), Verdict::DoesNotHold);
}

#[test]
fn every_number_of_the_third_table_is_there() {
    let printed = experiment("delay-allowed-table3").published;
    assert_eq!(printed.len(), 18);
    let one = printed.iter().find(|number| {
        number.series == "paper_bucorder"
            && number.panel.starts_with("outpatient")
            && matches!(number.at, Place::Number(at) if at == 0.5)
    });
    assert_eq!(one.map(|number| number.value), Some(0.15));
}

/// A table like the third, measured as the columns were printed, or as if they had been swapped in print.
fn third_table(swapped: bool) -> Results {
    let mut table = Results::new();
    for number in experiment("delay-allowed-table3").published {
        let panel = match (number.panel, swapped) {
            (panel, false) => panel,
            ("unemployment, as printed", true) => "outpatient_ilinet, as printed",
            (_, true) => "unemployment, as printed",
        };
        table.push(panel, number.series, number.at, number.metric, measured(number.value * 1.01, 0.0001));
    }
    table
}

#[test]
fn the_third_table_is_compared_with_its_columns_in_both_orders() {
    let claim = experiment("delay-allowed-table3").claims[0];
    let [printed, swapped] = [false, true].map(|swapped| (claim.check)(&third_table(swapped)));
    assert_eq!((printed.verdict, swapped.verdict), (Verdict::Holds, Verdict::Holds));
    assert!(printed.because.starts_with("Mean deviation 1.0 % as printed, and "), "{}", printed.because);
    assert!(swapped.because.contains("and 1.0 % with the columns swapped."), "{}", swapped.because);
    let mut wrong = Results::new();
    for entry in third_table(false).entries() {
        wrong.push(&entry.panel, &entry.series, entry.at.clone(), &entry.metric, measured(entry.value.mean * 1.5, 0.0));
    }
    assert_eq!((claim.check)(&wrong).verdict, Verdict::DoesNotHold);
}

#[test]
fn runs_with_the_same_seed_are_compared_in_pairs() {
    // The seeds differ by much more than the two shares do.
    let seeds = [100.0, 200.0, 400.0, 800.0];
    let table = |paired: bool| {
        let mut table = Results::new();
        for (share, factor) in [(0.7, 1.0), (0.9, 0.7)] {
            for series in ["pbd_sampling", "pba_sampling"] {
                let runs = seeds.map(|seed: f64| seed * factor).to_vec();
                let value = Summary::of(&runs).unwrap();
                table.push_runs("tlns", series, share, "amre", value, if paired { runs } else { Vec::new() });
            }
        }
        table
    };
    let claim = |paired| verdict("personalized-w-event-fig12", "When the share", &table(paired));
    assert_eq!(claim(false), Verdict::Unclear);
    let [seven, nine] =
        [0.7, 0.9].map(|at| table(true).measurement("tlns", "pbd_sampling", at, "amre").cloned().unwrap());
    // 0.8 of the one less the other is 10, 20, 40 and 80: a mean of 2.4 standard errors.
    assert_eq!(smaller_in_pairs(&nine, 0.8, &seven), Decision::Unclear);
    let narrow = |runs: [f64; 4]| Measurement { runs: runs.to_vec(), ..seven.clone() };
    let (low, high) = (narrow([90.0, 191.0, 390.0, 789.0]), narrow(seeds));
    assert_eq!(smaller_in_pairs(&low, 1.0, &high), Decision::Yes);
    assert_eq!(smaller_in_pairs(&high, 1.0, &low), Decision::No);
}

#[test]
fn only_the_papers_own_task_says_something_about_its_claims() {
    let table = |panel: &str, mtsp: f64| {
        let mut table = Results::new();
        for (series, height) in [("mtsp", mtsp), ("lsp", 0.7), ("lba", 0.6), ("lbd", 0.6), ("lbu", 0.6)] {
            table.push(panel, series, "whole curve", "monitor_auc", measured(height, 0.01));
            table.push(panel, series, 0.05, "true_positive_rate", measured(height, 0.01));
        }
        table
    };
    let (own, ranges) = (table("nyc_taxi_ge, whole domain", 0.99), table("nyc_taxi_ge", 0.99));
    let worse = table("nyc_taxi_ge, whole domain", 0.4);
    for claim in experiment("mtsp-ldp-fig8").claims.iter().filter(|claim| claim.is_the_papers()) {
        assert_eq!((claim.check)(&own).verdict, Verdict::Holds, "{}", claim.text);
        assert_eq!((claim.check)(&ranges).verdict, Verdict::Unclear, "{}", claim.text);
        assert_eq!((claim.check)(&worse).verdict, Verdict::DoesNotHold, "{}", claim.text);
    }
}
