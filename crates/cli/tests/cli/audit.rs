//! `tidegate audit`.

use serde_json::Value;

use crate::{assert_refused, run, run_with_input, stderr, stdout};

#[test]
fn an_audit_prints_what_is_claimed_and_what_was_found() {
    let table = run("audit grr lpu --runs 1000 --seed 3");
    assert!(table.status.success(), "{}", stderr(&table));
    assert!(stdout(&table).starts_with("epsilon 1, windows of 3, 3 values; each bound with confidence 0.999\n"));
    let json = run("audit oue --runs 1000 --seed 3 --epsilon 2 --json --threads 1");
    let findings: Vec<Value> = serde_json::from_slice(&json.stdout).unwrap();
    // The oracle, and the baseline of the sequence family.
    assert_eq!(findings.len(), 2);
    for finding in &findings {
        let number = |field: &str| finding[field].as_f64().unwrap();
        assert_eq!((&finding["mechanism"], number("claimed"), number("confidence")), (&"oue".into(), 2.0, 0.999));
        assert!(number("lower_bound") <= number("exact") && number("exact") <= 2.0 + 1e-9);
        // The symbols of the baseline tell less than its reports, which the transcript audit looks at.
        assert!(number("transcript") >= number("exact") - 1e-9 && number("transcript") <= 2.0 + 1e-9);
        assert!(number("transcripts") >= 8.0);
        assert!(number("runs") >= 1_900.0 && number("seconds") >= 0.0 && finding["broken"] == false);
    }
    assert!(findings[0]["lower_bound"].as_f64().unwrap() > 0.5);
    // Found again, whatever the number of threads.
    let again = run("audit oue --runs 1000 --seed 3 --epsilon 2 --json --threads 2");
    let again: Vec<Value> = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again[0]["lower_bound"], findings[0]["lower_bound"]);
}

#[test]
fn a_page_shows_the_findings_of_a_family() {
    let path = std::env::temp_dir().join(format!("tidegate-audit-{}.html", std::process::id()));
    let name = path.to_str().unwrap();
    let output = run(&format!("audit --all --family oracle --runs 200 --html {name}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(page.contains("None of the 8 promises is broken") && page.contains("<svg ") && page.contains("hadamard"));
}

#[test]
fn a_recorded_run_is_summed_up_and_overspending_is_a_failure() {
    let record = b"t,spent\n0,0.5\n1,\n2,0.500000001\n";
    let within = run_with_input("audit --ledger - --window 2 --epsilon 1", record);
    assert!(within.status.success(), "{}", stderr(&within));
    let text = "2 spends, 2 windows of 2 timestamps, budget 1: within the budget\n\
                at most: the window 1..2 has spent 0.500000001\n";
    assert_eq!(stdout(&within), text);
    let over = run_with_input("audit --ledger - --window 3 --epsilon 1 --json", record);
    assert_eq!(over.status.code(), Some(1));
    assert!(stderr(&over).contains("standard input: the window 0..2 has spent 1.000000001 of 1"), "{}", stderr(&over));
    let object: Value = serde_json::from_slice(&over.stdout).unwrap();
    assert_eq!(object["overspent"]["spent"], "1.000000001");
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_refused(&run("audit grrr --runs 10"), "there is no mechanism \"grrr\"");
    assert_refused(&run("audit crr --family local"), "there is no mechanism \"crr\"");
    assert_refused(&run("audit crr --epsilon 25 --runs 10"), "25");
    let record = run_with_input("audit --ledger - --window 2 --epsilon 1", b"t,spent\n0,-1\n");
    assert_refused(&record, "standard input, line 2, field \"spent\"");
    for arguments in
        ["audit", "audit --all grr", "audit --ledger x --epsilon 1", "audit grr --confidence 1", "audit grr --runs 0"]
    {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_each_known_name_once() {
    let output = run("audit nosuch");
    assert_refused(&output, "there is no mechanism \"nosuch\"; there are: ");
    let mut names: Vec<&str> = stderr(&output).split("there are: ").nth(1).unwrap().trim().split(", ").collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), stderr(&output).lines().count()), (all, 1), "{names:?}");
}
