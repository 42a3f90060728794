//! `tidegate advise`.

use serde_json::Value;

use crate::{assert_refused, command, run, run_with_input, stderr, stdout};

const LOCAL: &str = "advise --kind counts --trust local --population 20000 --domain 4 --window 10 --epsilon 1";
/// Quick enough for a test.
const QUICK: &str = "--mechanism lbu,lpu,lpa --length 40 --repeats 2";

fn json(arguments: &str) -> Value {
    let output = run(&format!("{arguments} --json"));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(stdout(&output)).unwrap()
}

#[test]
fn advice_ranks_mechanisms_beside_the_constant_and_explains_itself() {
    let output = run(&format!("{LOCAL} {QUICK}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let heading = "counts of 20000 users over 4 values, window 10, trust local, epsilon 1; mse\n\
                   on typical streams: still, walk, seasonal, bursts\n";
    assert!(text.starts_with(heading), "{text}");
    let listed: Vec<_> = text.lines().skip(4).take(4).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["constant", "lbu", "lpa", "lpu"], "{text}");
    assert!(text.contains(&format!("{} wins because ", listed[0])) && text.contains(" would win if "), "{text}");
    assert!(text.contains("Oracle for reports at epsilon 1: grr; by variance: "), "{text}");
    assert_eq!(stderr(&output), "", "advice from typical streams has nothing to warn of");
}

#[test]
fn json_has_the_same_in_numbers_and_is_the_same_every_time() {
    let advice = json(&format!("{LOCAL} {QUICK}"));
    assert_eq!(advice, json(&format!("{LOCAL} {QUICK} --threads 1")));
    assert_ne!(advice, json(&format!("{LOCAL} {QUICK} --seed 2")));
    let ranking = advice["ranking"].as_array().unwrap();
    assert_eq!(advice["best"], ranking[0]["mechanism"]);
    for entry in ranking {
        let number = |key: &str| entry[key].as_f64().unwrap();
        assert!(number("low") <= number("error") && number("error") <= number("high"), "{entry}");
        assert_eq!(entry["on"].as_array().unwrap().len(), 4);
    }
    assert_eq!(advice["oracles"]["best"], "grr");
    assert!(advice["sample"].is_null() && advice["population"] == 20_000);
}

#[test]
fn every_kind_of_data_has_advice() {
    for arguments in [
        "--kind counts --trust curator --population 500 --domain 3 --window 5 --epsilon 1 --mechanism uniform,ba",
        "--kind numbers --domain -10..40 --resolution 0.5 --epsilon 2 --delay 4 --mechanism clamped,contin",
        "--kind numbers --domain 0..400 --contribution 1 --epsilon 1 --metric mae --mechanism laplace",
        "--kind symbols --domain 3 --epsilon 1 --delay 1 --mechanism crr,batched,rr",
    ] {
        let advice = json(&format!("advise {arguments} --length 40 --repeats 2"));
        assert!(advice["ranking"].as_array().unwrap().len() >= 2, "{advice}");
        assert!(advice["oracles"].is_null());
    }
}

#[test]
fn what_an_error_needs_is_solved_for() {
    let needs = json(&format!("{LOCAL} --target-error 1e-4 --solve epsilon --mechanism lbu,lpu"));
    let first = &needs["needs"][0];
    assert_eq!((first["mechanism"].as_str(), first["outcome"].as_str()), (Some("lpu"), Some("enough")), "{needs}");
    assert!(first["error"].as_f64() <= Some(1e-4) && first["tolerance"].as_f64() == Some(0.001), "{needs}");
    assert!(needs["epsilon"].is_null(), "what is solved for is not given");
    let text = run(&format!("{LOCAL} --target-error 1e-6 --solve population --mechanism lpu"));
    assert!(
        stdout(&text).contains("The least population that is enough, found to 0.1 % by formula"),
        "{}",
        stdout(&text)
    );
    // Neither what is solved for nor more is needed.
    let curator = "advise --kind counts --trust curator --domain 4 --epsilon 1 --mechanism uniform";
    let text = run(&format!("{curator} --target-error 1e-6 --solve population"));
    assert!(text.status.success(), "{}", stderr(&text));
}

#[test]
fn a_release_is_a_sample_and_what_may_be_raw_is_warned_of() {
    let readings: String = (0..60).map(|t| format!("{t},{}\n", 50 + t % 7)).collect();
    let release = "release --mechanism laplace --epsilon 20 --domain 0..100 --protects reading --seed 1";
    let released = run_with_input(release, format!("t,value\n{readings}").as_bytes());
    let advise = "advise --kind numbers --domain 0..100 --epsilon 1 --mechanism laplace,clamped --sample -";
    let output = run_with_input(advise, &released.stdout);
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("on 3 streams that may have been behind the sample of 60 timestamps"), "{text}");
    // Discrete Laplace noise of scale 5 has a variance of just below 50, and a step has two of them; the few that
    // happen to be equal to the one before are taken for repeats, and count no noise.
    assert!(text.contains("of which 9"), "{text}");
    let raw = run_with_input(advise, format!("t,value\n{readings}").as_bytes());
    assert!(raw.status.success());
    assert!(
        stderr(&raw).starts_with("warning: standard input: it has neither variances nor freshness"),
        "{}",
        stderr(&raw)
    );
    assert!(stdout(&raw).contains("of which 0 is the noise that it states"), "{}", stdout(&raw));
    let outside = run_with_input(advise, b"t,value\n0,5\n1,101\n");
    assert_refused(&outside, "standard input, line 3, field \"value\": expected a number within the domain, 0..100");
}

#[test]
fn a_spec_says_what_the_stream_is() {
    let spec = "family = \"scalar\"\nmechanism = \"clamped\"\nepsilon = 1.0\ndelay = 2\n\
                 domain = { low = 0, high = 100 }\nprotects = \"reading\"\n";
    let output = run_with_input("advise --spec - --mechanism clamped,laplace", spec.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("a number within 0..100 in steps of 1, delay 2; the number is protected, epsilon 1; mse"),
        "{text}"
    );
    assert!(text.contains("clamped (the spec's)"), "{text}");
    assert_refused(&run_with_input("advise --spec - --kind numbers", b""), "cannot be used with");
    for (spec, arguments, heading) in [
        (
            "family = \"local\"\nmechanism = \"lpu\"\nepsilon = 1.0\nwindow = 5\ndomain = [\"a\", \"b\"]\n\
             population = 3000\n",
            "--mechanism lpu,lbu",
            "counts of 3000 users over 2 values, window 5, trust local, epsilon 1; mse",
        ),
        (
            "family = \"central\"\nmechanism = \"uniform\"\nepsilon = 1.0\nwindow = 5\ndomain = 3\n",
            "--mechanism uniform,sample --population 400",
            "counts of 400 users over 3 values, window 5, trust curator, epsilon 1; mse",
        ),
        (
            "family = \"sequence\"\nmechanism = \"rr\"\nepsilon = 1.0\ndomain = 3\n",
            "--mechanism rr,oue",
            "one user's symbols, 3 of them, delay 0, epsilon 1; error_rate",
        ),
    ] {
        let output = run_with_input(&format!("advise --spec - {arguments}"), spec.as_bytes());
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            stdout(&output).starts_with(heading) && stdout(&output).contains("(the spec's)"),
            "{}",
            stdout(&output)
        );
    }
    let central = b"family = \"central\"\nmechanism = \"uniform\"\nepsilon = 1.0\nwindow = 5\ndomain = 3\n";
    assert_refused(&run_with_input("advise --spec -", central), "--population is needed with this spec");
    assert_refused(&run_with_input("advise --spec -", b"family = 3"), "key \"family\"");
}

#[test]
fn a_file_gets_the_advice_too() {
    let path = std::env::temp_dir().join(format!("tidegate-advice-{}.json", std::process::id()));
    let mut command = command("advise --kind numbers --domain 0..10 --epsilon 1 --mechanism laplace --json --output");
    let output = command.arg(&path).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    let advice: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(advice["metric"], "mse");
    std::fs::remove_file(path).unwrap();
}
