//! `tidegate reproduce`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{assert_refused, run, stderr, stdout};

/// An empty folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reproduce-{name}"));
    let _ = fs::remove_dir_all(&path);
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_there_is_is_listed() {
    let text = run("reproduce --list");
    assert!(text.status.success(), "{}", stderr(&text));
    let listed: Vec<Value> = serde_json::from_str(stdout(&run("reproduce --list --json"))).unwrap();
    for experiment in &listed {
        assert!(stdout(&text).contains(experiment["name"].as_str().unwrap()));
    }
    let table = listed.iter().find(|experiment| experiment["name"] == "ldp-ids-table2").unwrap();
    assert_eq!((&table["place"], &table["needs_data"]), (&"Table 2".into(), &true.into()));
}

#[test]
fn a_figure_is_written_with_its_data_and_a_report() {
    let folder = folder("figure");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mine.txt"), "mine").unwrap();
    let arguments = format!("reproduce ldp-ids-fig8 --quick --repeats 1 --json --out {}", folder.display());
    let output = run(&format!("{arguments} --threads 1"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&folder), ["index.html", "ldp-ids-fig8.csv", "ldp-ids-fig8.svg", "mine.txt"]);
    assert_eq!(fs::read_to_string(folder.join("mine.txt")).unwrap(), "mine");
    let page = fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(page.contains("This was a quick run") && page.contains("ldp-ids-fig8.csv"));
    let outcomes: Vec<Value> = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(outcomes.len(), 1);
    let claims = outcomes[0]["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 6);
    assert!(claims.iter().all(|claim| claim["verdict"].is_string() && claim["because"].is_string()));
    // No bar where standard error is not a terminal: a line for each experiment.
    assert!(stderr(&output).starts_with("1/1: ldp-ids-fig8, "), "{}", stderr(&output));
    // The same again, whatever the number of threads.
    let csv = fs::read(folder.join("ldp-ids-fig8.csv")).unwrap();
    assert!(run(&format!("{arguments} --threads 2")).status.success());
    assert_eq!(fs::read(folder.join("ldp-ids-fig8.csv")).unwrap(), csv);
    assert!(run(&format!("{arguments} --seed 2")).status.success());
    assert_ne!(fs::read(folder.join("ldp-ids-fig8.csv")).unwrap(), csv);
}

#[test]
fn wrong_usage_and_missing_data_are_refused() {
    let out = folder("refused");
    let out = out.display();
    assert_refused(&run("reproduce"), "required");
    assert_refused(&run("reproduce ldp-ids-fig4 --all"), "cannot be used with");
    let unknown = run(&format!("reproduce ldp-ids-fig44 --out {out}"));
    assert_refused(&unknown, "there is no experiment \"ldp-ids-fig44\" (did you mean ldp-ids-fig4?)");
    let missing = run(&format!("reproduce mtsp-ldp-table1 --out {out}"));
    assert_refused(&missing, "name it with --data-dir or TIDEGATE_DATA");
    let elsewhere = run(&format!("reproduce mtsp-ldp-table1 --out {out} --data-dir no/such"));
    assert_refused(&elsewhere, "cannot be opened");
    assert_refused(&run("reproduce ldp-ids-fig8 --out /dev/null/x"), "cannot be made a folder");
}
