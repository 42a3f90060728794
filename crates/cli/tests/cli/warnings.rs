//! Warnings about releases that say nothing: on standard error, once, with what to change.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::{run, run_with_input, stderr, stdout};

/// The warnings of a run, which succeeds. It has a seed unless it has a state.
fn warnings(name: &str, spec: &str, input: &str, options: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warnings");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, spec).unwrap();
    let seed = if options.contains("--state") { "" } else { "--seed 1" };
    let output = run_with_input(&format!("release --spec {} {seed} {options}", file.display()), input.as_bytes());
    assert!(output.status.success() && !stdout(&output).contains("warning"), "{}", stderr(&output));
    let warnings = stderr(&output).lines().filter_map(|line| line.strip_prefix("warning: "));
    warnings.filter(|warning| !warning.starts_with("this run is seeded")).map(str::to_owned).collect()
}

fn central(epsilon: &str, window: u32) -> String {
    let domain = "domain = [\"home\", \"shop\"]\nneighbours = \"replace\"\n";
    format!("family = \"central\"\nmechanism = \"uniform\"\nepsilon = {epsilon}\nwindow = {window}\n{domain}")
}

/// Counts of two values, at as many timestamps.
fn counts(timestamps: u32, home: u32) -> String {
    (0..timestamps).fold("t,home,shop\n".to_owned(), |mut text, t| {
        let _ = writeln!(text, "{t},{home},{}", home + (t % 10) * home / 10);
        text
    })
}

#[test]
fn noise_larger_than_the_counts_is_warned_of_once() {
    let found = warnings("counts", &central("0.1", 100), &counts(400, 40), "");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("epsilon 0.1 over a window of 100 gives noise of ±2,800 "), "{found:?}");
    assert!(found[0].contains("(published): for ") && found[0].contains("use an epsilon of about "), "{found:?}");
    assert_eq!(warnings("many", &central("0.1", 100), &counts(400, 400_000), ""), [""; 0]);
    // A window of 1 would not do: the advice names none.
    assert!(!found[0].contains("a window of at most 0"), "{found:?}");
}

#[test]
fn intervals_wider_than_the_answer_are_warned_of() {
    let found = warnings("intervals", &central("1", 10), &counts(400, 50), "");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("95 % intervals (±55) wider than the counts, about "), "{found:?}");
    assert!(found[0].contains("or a window of at most "), "{found:?}");
}

#[test]
fn changes_that_are_noise_are_warned_of() {
    let still: String = (0..200).fold("t,home,shop\n".to_owned(), |text, t| format!("{text}{t},100,100\n"));
    let found = warnings("still", &central("1", 5), &still, "");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("no change can be told from noise"), "{found:?}");
    assert_eq!(warnings("moving", &central("1", 5), &counts(200, 100), ""), [""; 0]);
}

#[test]
fn a_window_longer_than_the_data_is_warned_of_unless_the_stream_goes_on() {
    let spec = central("1", 30);
    let found = warnings("window", &spec, &counts(20, 1_000_000), "");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("the window is longer than the data (30 timestamps against 20)"), "{found:?}");
    assert!(found[0].contains("a window of 20 protects all of these data, with up to 1.5 times less"), "{found:?}");
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warnings/window.state");
    let _ = std::fs::remove_file(&state);
    let options = format!("--state {} --new-state", state.display());
    assert_eq!(warnings("window", &spec, &counts(20, 1_000_000), &options), [""; 0]);
}

#[test]
fn noise_wider_than_the_domain_is_warned_of() {
    let numbers: String = (0..60).fold("t,value\n".to_owned(), |text, t| format!("{text}{t},{}\n", 200 + t));
    for mechanism in ["laplace", "clamped", "contin", "discontin", "pegasus_delay"] {
        let spec = format!(
            "family = \"scalar\"\nmechanism = \"{mechanism}\"\nepsilon = 0.1\ndomain = {{ low = 0, high = 612 }}\n\
             protects = \"reading\"\n"
        );
        let found = warnings(mechanism, &spec, &numbers, "");
        assert!(!found.is_empty() && found[0].starts_with("epsilon 0.1 gives "), "{mechanism}: {found:?}");
        let exact = spec.replace("\"reading\"", "{ contributor = 1 }").replace("0.1", "1");
        assert_eq!(warnings(mechanism, &exact, &numbers, ""), [""; 0], "{mechanism}");
    }
}

#[test]
fn wide_intervals_of_a_query_are_warned_of() {
    let query = "[[queries]]\nname = \"shoppers\"\nvalue = \"shop\"\ndelta = 1\nunit = \"counts\"\n";
    let spec = format!("{}{query}", central("1", 10));
    let found = warnings("query", &spec, &counts(100, 30), "");
    assert!(found.iter().any(|warning| warning.starts_with("the intervals of the query \"shoppers\"")), "{found:?}");
    let exact = format!("{}{query}", central("100", 10));
    assert_eq!(warnings("exact_query", &exact, &counts(100, 3_000), ""), [""; 0]);
}

#[test]
fn evaluate_warns_of_windows_and_of_errors_beyond_a_guess() {
    let evaluate =
        "evaluate --dataset sin --population 1000 --length 30 --repeats 1 --epsilon 0.01 --window 40 --seed 1";
    let output = run(&format!("{evaluate} --mechanism lbu,constant --json"));
    let text = stderr(&output);
    assert_eq!(text.matches("the window is longer than the data (40 timestamps against 30)").count(), 1, "{text}");
    assert_eq!(text.matches("the error of lbu at epsilon 0.01 (±").count(), 1, "{text}");
    let entries: Value = serde_json::from_str(stdout(&output)).unwrap();
    let warned: Vec<_> =
        entries.as_array().unwrap().iter().map(|entry| entry["warnings"].as_array().unwrap().len()).collect();
    assert_eq!(warned, [2, 0]);
}
