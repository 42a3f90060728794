//! `tidegate model`, and models in specs.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{assert_refused, run, run_with_input, stderr, stdout};

struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-model-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A table of users who mostly stay where they are.
fn table() -> String {
    let mut table = "t,user,value\n".to_owned();
    for t in 0..12 {
        for user in 0..40 {
            let value = if (t / 4 + user) % 2 == 0 { "home" } else { "away" };
            table += &format!("{t},u{user},{value}\n");
        }
    }
    table
}

#[test]
fn a_fitted_model_serves_specs_lengths_and_channels() {
    let files = Files::new("fit");
    let (model, spec) = (files.path("m.json"), files.path("s.toml"));
    let fitted = run_with_input(&format!("model fit --domain home,away --output {model}"), table().as_bytes());
    assert!(fitted.status.success(), "{}", stderr(&fitted));
    assert!(stderr(&fitted).contains("reveals the table"));

    let text = format!("mechanism = \"crr\"\nepsilon = 0.5\ndomain = [\"home\", \"away\"]\nmodel = \"{model}\"\n");
    fs::write(&spec, text).unwrap();
    let released = run_with_input(&format!("release --spec {spec}"), b"t,user,value\n0,ann,home\n1,ann,away\n");
    assert!(released.status.success(), "{}", stderr(&released));
    assert!(stderr(&released).contains("leak at most"), "{}", stderr(&released));

    let lengths = run(&format!("model lengths --model {model} --epsilon 0.5 --longest 3 --json"));
    let lengths: Value = serde_json::from_str(stdout(&lengths)).unwrap();
    let costs: Vec<f64> = lengths.as_array().unwrap().iter().map(|row| row["cost"].as_f64().unwrap()).collect();
    assert_eq!(costs.len(), 3);
    assert!(costs[2] < costs[0], "{costs:?}"); // symbols that stay are cheaper together

    let channel = run(&format!("channel --model {model} --length 2 --epsilon 1"));
    assert!(stdout(&channel).contains("0 1"), "{}", stdout(&channel));
    assert_refused(&run(&format!("channel --model {model} --length 15 --epsilon 1")), "--length");
}

#[test]
fn a_private_fit_needs_a_bound_on_contributions() {
    let arguments = "model fit --domain home,away --epsilon 1";
    assert_refused(&run_with_input(arguments, table().as_bytes()), "--contribution");
    let fitted = run_with_input(&format!("{arguments} --contribution 5 --seed 3"), table().as_bytes());
    assert!(fitted.status.success(), "{}", stderr(&fitted));
    assert!(stderr(&fitted).contains("not private") && stderr(&fitted).contains("has lost 1"));
    let again = run_with_input(&format!("{arguments} --contribution 5 --seed 3"), table().as_bytes());
    assert_eq!(stdout(&fitted), stdout(&again));
}

#[test]
fn a_model_remembers_that_a_seed_made_it() {
    let files = Files::new("seeded");
    let (model, spec) = (files.path("m.json"), files.path("s.toml"));
    let text = format!("mechanism = \"crr\"\nepsilon = 0.5\ndomain = [\"home\", \"away\"]\nmodel = \"{model}\"\n");
    fs::write(&spec, text).unwrap();
    let state = format!("--state {} --new-state", files.path("state"));
    for (seed, is_seeded) in [("--seed 3", true), ("", false)] {
        let fit = format!("model fit --domain home,away --epsilon 1 --contribution 5 {seed} --output {model}");
        assert!(run_with_input(&fit, table().as_bytes()).status.success());
        let _ = fs::remove_file(files.path("state"));
        let released = run_with_input(&format!("release --spec {spec} {state}"), b"t,user,value\n0,ann,home\n");
        assert!(released.status.success(), "{}", stderr(&released));
        let warning = format!("warning: the model {model} was learned with a seed, so it is not private");
        assert_eq!(stderr(&released).contains(&warning), is_seeded, "{}", stderr(&released));
        assert!(stdout(&released).ends_with(&format!(",{is_seeded}\n")), "{}", stdout(&released));
        let budget = run(&format!("budget {} --json", files.path("state")));
        assert!(stdout(&budget).contains(&format!("\"seeded\":{is_seeded}")), "{}", stdout(&budget));
        let lengths = run(&format!("model lengths --model {model} --epsilon 0.5 --longest 1"));
        assert_eq!(stderr(&lengths).contains(&warning), is_seeded, "{}", stderr(&lengths));
    }
}

#[test]
fn refuses_symbols_and_files_that_do_not_fit() {
    let refused = run_with_input("model fit --domain 2", b"t,user,value\n0,ann,7\n");
    assert_refused(&refused, "line 2, field \"value\": expected a symbol of --domain");
    assert!(!stderr(&refused).contains('7'));
    assert_refused(&run("model lengths --model no/such/file --epsilon 1"), "cannot be read");

    let files = Files::new("refused");
    let (model, spec) = (files.path("m.json"), files.path("s.toml"));
    let fitted = run_with_input(&format!("model fit --domain home,away --output {model}"), table().as_bytes());
    assert!(fitted.status.success(), "{}", stderr(&fitted));
    let message = |output: &std::process::Output| {
        assert_eq!((output.status.code(), stdout(output)), (Some(2), ""));
        stderr(output).replace(&files.path(""), "")
    };
    let channel = |length: u32| message(&run(&format!("channel --model {model} --length {length} --epsilon 1")));
    assert_eq!(channel(0), "error: --length: a batch has at least one symbol\n");
    assert_eq!(
        channel(15),
        "error: --length: 2 symbols have 32768 sequences of length 15, more than the 16384 of a channel; take a \
         shorter one\n"
    );
    assert_eq!(
        message(&run_with_input("model fit --domain 1", table().as_bytes())),
        "error: --domain: a model needs at least two symbols\n"
    );
    let release = |symbols: u32, model: &str| {
        let text = format!("mechanism = \"crr\"\nepsilon = 0.5\ndomain = {symbols}\nmodel = \"{model}\"\n");
        fs::write(&spec, text).unwrap();
        message(&run_with_input(&format!("release --spec {spec}"), b"t,user,value\n0,ann,0\n"))
    };
    let wrong = "error: s.toml, line 4, key \"model\": the prior has 2 entries, but 3 are needed\n";
    assert_eq!(release(3, &model), wrong);
    assert!(release(2, &files.path("gone.json")).contains("line 4, key \"model\": the model gone.json cannot be read"));
    fs::write(files.path("x.json"), "[1]").unwrap();
    assert!(release(2, &files.path("x.json")).contains("x.json is not a model that `tidegate model fit` wrote: "));
}

#[test]
fn a_model_is_fitted_to_a_table_with_dates_and_other_columns() {
    let dated = table()
        .replace("t,user,value", "day,who,place")
        .lines()
        .map(|line| match line.split_once(',') {
            Some((t, rest)) if t != "day" => format!("2026-03-{:02},{rest}\n", t.parse::<u32>().unwrap() + 1),
            _ => format!("{line}\n"),
        })
        .collect::<String>();
    let plain = run_with_input("model fit --domain home,away", table().as_bytes());
    let options = "--time day --user who --value place --every 1d";
    let fitted = run_with_input(&format!("model fit --domain home,away {options}"), dated.as_bytes());
    assert!(fitted.status.success(), "{}", stderr(&fitted));
    assert_eq!(stdout(&fitted), stdout(&plain));
}

/// A state with a model from a file goes on with the same spec.
#[test]
fn a_state_with_a_fitted_model_goes_on() {
    let files = Files::new("state");
    let (model, spec, state) = (files.path("m.json"), files.path("s.toml"), files.path("state"));
    assert!(
        run_with_input(&format!("model fit --domain home,away --output {model}"), table().as_bytes()).status.success()
    );
    let text = format!("mechanism = \"crr\"\nepsilon = 0.5\ndomain = [\"home\", \"away\"]\nmodel = \"{model}\"\n");
    fs::write(&spec, text).unwrap();
    let release = format!("release --spec {spec} --state {state}");
    let first = run_with_input(&format!("{release} --new-state"), b"t,user,value\n0,ann,home\n");
    assert!(first.status.success(), "{}", stderr(&first));
    let next = run_with_input(&release, b"t,user,value\n1,ann,away\n");
    assert!(next.status.success(), "{}", stderr(&next));
    // Another model is another spec.
    let other = b"t,user,value\n0,bob,home\n1,bob,away\n2,bob,home\n";
    let fitted = run_with_input(&format!("model fit --domain home,away --output {model}"), other);
    assert!(fitted.status.success(), "{}", stderr(&fitted));
    assert_refused(&run_with_input(&release, b"t,user,value\n2,ann,away\n"), "state");
}
