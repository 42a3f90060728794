use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_lab::accuracy::{
    Against, Cell, Coverage, Fired, Grid, Incidents, Measured, Options, Others, Part, Ratios, Results, Summary, Told,
    run, to_markdown,
};
use tidegate_lab::datasets::{LoadOptions, load};
use tidegate_lab::experiment::{self, Plan, Trial, TrialSettings};
use tidegate_lab::metrics::Metric;
use tidegate_lab::subjects;

use crate::support::assert_close;

const CELL: Cell =
    Cell { stream: "sin", size: 1_000, epsilon: "1", window: 10, delay: 0, contributor: false, limit: 1.25 };

fn grid(cells: Vec<Measured>) -> Grid {
    Grid { part: Part::Central, subject: "central.track", baseline: "uniform", cells }
}

fn options(parts: &[Part]) -> Options {
    Options {
        parts: parts.to_vec(),
        data_dir: None,
        repeats: NonZeroU64::MIN,
        seed: 3,
        length: 30,
        threads: NonZeroUsize::MIN,
        quick: true,
        subject: None,
    }
}

#[test]
fn a_grid_is_summed_up_as_by_hand() {
    let other = Cell { stream: "incident", size: 10, limit: 2.0, ..CELL };
    let grid = grid(vec![
        Measured::new(CELL, 1.0, 2.0, Some(0.9)),
        Measured::new(CELL, 3.0, 2.0, Some(0.96)),
        Measured::new(other, 3.6, 2.0, None),
    ]);
    let summary = Summary::of(&grid).unwrap();
    assert_eq!((summary.cells, summary.above_limit, summary.holds), (3, 1, false));
    assert_close(summary.ratios.mean, (0.5 + 1.5 + 1.8) / 3.0);
    assert_close(summary.ratios.greatest, 1.8);
    let coverage = summary.coverage.unwrap();
    assert_close(coverage.mean, 0.93);
    assert_close(coverage.least, 0.9);
    assert_eq!((grid.streams(), grid.sizes()), (vec!["sin", "incident"], vec![10, 1_000]));
    // 1.5 of 1.25 is worse than 1.8 of 2.
    assert_close(grid.worst(1)[0].ratio, 1.5);
    assert_eq!(Ratios::of(grid.of_stream("log")), None);
    assert_eq!(Coverage::of(grid.of_stream("incident")), None);
}

#[test]
fn a_grid_holds_up_to_its_mean_limit() {
    let holds = |error: f64| Summary::of(&grid(vec![Measured::new(CELL, error, 1.0, None)])).unwrap().holds;
    assert!(holds(1.1));
    assert!(!holds(1.11), "no cell is above its limit, but their mean is above 1.1");
}

#[test]
fn two_errors_of_zero_are_equal() {
    assert_close(Measured::new(CELL, 0.0, 0.0, None).ratio, 1.0);
    assert!(Measured::new(CELL, 1.0, 0.0, None).is_above_limit());
}

#[test]
fn a_cell_is_what_evaluate_measures() {
    let results = run(&options(&[Part::Central]), &|_| ()).unwrap();
    assert_eq!(results.left_out, ["tdrive_counts"]);
    let [grid] = &results.grids[..] else { panic!("one part was chosen") };
    assert_eq!(grid.cells.len(), 22);
    let measured = grid.of_stream("alternating").next().unwrap();
    let stream = LoadOptions { population: Some(1_000), length: Some(30), seed: 3, ..LoadOptions::default() };
    let stream = load("alternating", &stream).unwrap();
    let settings = TrialSettings::new("1".parse().unwrap(), NonZeroU64::new(10).unwrap());
    let trial = Trial { subject: subjects::by_name("central.track").unwrap(), settings };
    let plan = Plan { repeats: NonZeroU64::MIN, seed: 3, threads: NonZeroUsize::MIN, queries: false };
    let findings = experiment::run(&stream, &[trial], &plan, &|| ()).unwrap();
    let found = |metric| findings[0].metrics.iter().find(|(other, _)| *other == metric).map(|(_, found)| found.mean);
    assert_eq!((Some(measured.error), measured.coverage), (found(Metric::Amre), found(Metric::Coverage)));
}

#[test]
fn a_baseline_measured_against_itself_has_a_ratio_of_one() {
    let options = Options { subject: Some("clamped".to_owned()), ..options(&[Part::Scalar]) };
    let results = run(&options, &|_| ()).unwrap();
    let summary = Summary::of(&results.grids[0]).unwrap();
    assert_eq!((summary.cells, summary.ratios, summary.holds), (88, Ratios { mean: 1.0, greatest: 1.0 }, true));
    assert!(results.grids[0].cells.iter().all(|cell| cell.coverage.is_some()));
}

#[test]
fn jumps_and_monitors_run() {
    let incidents = run(&options(&[Part::Incidents]), &|_| ()).unwrap().incidents.unwrap();
    // Central with two numbers of users, and local with one; jumps of 20 and of 5 scales.
    assert_eq!((incidents.told.len(), incidents.fired.len()), (6, 3));
    assert!(incidents.told.iter().all(|told| told.runs == 1 && told.told <= 1));
}

#[test]
fn shares_of_jumps_are_of_all_runs() {
    let told =
        |part, scales, told, runs| Told { part, subject: "", users: 1, epsilon: "1", window: 10, scales, told, runs };
    let told = vec![told(Part::Central, 20, 3, 4), told(Part::Central, 20, 4, 4), told(Part::Central, 5, 1, 4)];
    let incidents = Incidents { told, fired: Vec::new() };
    assert_eq!(incidents.share(Part::Central, 20), Some(7.0 / 8.0));
    assert_eq!((incidents.share(Part::Central, 5), incidents.share(Part::Local, 5)), (Some(0.25), None));
}

fn others() -> Others {
    let against = |ratio: f64, reference| Against {
        stream: "sin",
        epsilon: "1",
        window: 10,
        error: ratio,
        best: "uniform",
        best_error: 1.0,
        ratio,
        reference,
    };
    let cells = vec![against(0.5, Some(0.25)), against(2.0, Some(4.0)), against(0.75, None), against(0.25, Some(0.5))];
    Others { part: Part::Central, subject: "central.track", cells }
}

#[test]
fn others_are_summed_up_as_by_hand() {
    let others = others();
    assert_eq!(others.medians(), Some((0.625, Some(0.5))));
    assert_eq!(others.won(), Some((0.75, Some(2.0 / 3.0))));
    let (cell, factor) = others.greatest_rise().unwrap();
    assert_eq!((cell.ratio, factor), (0.5, 2.0));
}

#[test]
fn the_page_shows_what_does_not_hold() {
    let cells = vec![Measured::new(CELL, 3.0, 2.0, Some(0.9)), Measured::new(CELL, 1.0, 2.0, Some(0.96))];
    let fired = vec![Fired { rule: "count above 250", fired: 1, false_alarms: 0, runs: 2 }];
    let results = Results {
        grids: vec![grid(cells)],
        incidents: Some(Incidents { told: Vec::new(), fired }),
        others: vec![others()],
        left_out: vec!["tdrive_counts"],
    };
    let page = to_markdown(&results, &options(&[]), "tidegate accuracy", "1.2.3");
    for line in [
        "tidegate 1.2.3",
        "Not measured, for lack of the data: tdrive_counts.",
        "| `central.track` against `uniform`: cells above their limit | 1 of 2 (greatest ratio 1.500) | 0 | **no** |",
        "| `central.track` against `uniform`: mean ratio | 1.000 | 1.1 | yes |",
        "| central: monitor fires: count above 250 | 1 of 2 runs | all | **no** |",
        "| `sin` | 1.25 | 1.000, **1.500** | 93.0 %, 90.0 % |",
        "| `sin` | 1,000 | 1 | 10 | 3.000 | 2.000 | 1.500 | 90.0 % |",
        "| median ratio | 0.625 | 0.500 |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}
