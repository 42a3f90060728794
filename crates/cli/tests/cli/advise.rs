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
    let readings: String = (0..60).map(|t| format!("{t},{}\n", 50 + 5 * (t % 7))).collect();
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
    // Where noise hides the movement, the sample does not count.
    let hidden = run_with_input(&release.replace("20", "2"), format!("t,value\n{readings}").as_bytes());
    let text = stdout(&run_with_input(advise, &hidden.stdout)).to_owned();
    assert!(text.contains("so typical streams stand for it") && !text.contains("behind the sample"), "{text}");
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

/// A file of the system's temporary directory that is removed on drop.
struct TemporaryFile(std::path::PathBuf);

impl TemporaryFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id())))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A short table of each family.
fn table(family: &str) -> String {
    let lines = |line: fn(u32) -> String| (0..12).map(line).collect::<String>();
    match family {
        "central" => format!("t,0,1,2\n{}", lines(|t| format!("{t},{},{},9\n", 20 + t, 30 - t))),
        "scalar" => format!("t,value\n{}", lines(|t| format!("{t},{}\n", 40 + t % 5))),
        _ => format!("t,user,value\n{}", lines(|t| format!("{t},ada,{}\n{t},bob,{}\n", t % 3, (t + 1) % 3))),
    }
}

/// Every name that advice ranks is accepted by a spec, by `evaluate`, and by `advise --mechanism`; and the spec that it
/// writes for it releases a table as it is.
#[test]
fn names_paste_and_written_specs_release() {
    for (family, arguments, stream) in [
        ("local", "--kind counts --trust local --population 300 --domain 3 --window 4 --epsilon 1", "sin"),
        ("central", "--kind counts --trust curator --population 300 --domain 3 --window 4 --epsilon 1", "sin"),
        ("scalar", "--kind numbers --domain 0..100 --resolution 0.5 --epsilon 1 --delay 2", "numbers_walk"),
        ("sequence", "--kind symbols --domain 3 --epsilon 1 --delay 1", "markov:3:0.8"),
    ] {
        let quick = "--length 12 --repeats 1";
        let advice = json(&format!("advise {arguments} {quick}"));
        let ranking = advice["ranking"].as_array().unwrap();
        assert!(ranking.len() >= 5, "{advice}");
        for entry in ranking {
            let name = entry["mechanism"].as_str().unwrap();
            if name == "constant" {
                continue;
            }
            let evaluated = run(&format!(
                "evaluate --dataset {stream} --length 12 --mechanism {name} --repeats 1 --epsilon 1 --window 4"
            ));
            assert!(evaluated.status.success(), "{name}: {}", stderr(&evaluated));
            let spec = TemporaryFile::new(&format!("{name}.toml"));
            let mut advise = command(&format!("advise {arguments} {quick} --mechanism {name} --write-spec"));
            let output = advise.arg(&spec.0).output().unwrap();
            if entry["needs_model"].as_bool().unwrap() {
                assert_refused(&output, "no mechanism can be recommended");
                continue;
            }
            assert!(output.status.success(), "{name}: {}", stderr(&output));
            assert!(spec.text().contains(&format!("mechanism = \"{name}\"")), "{}", spec.text());
            let release = format!("release --input - --seed 1 --spec {}", spec.0.display());
            let output = run_with_input(&release, table(family).as_bytes());
            assert!(output.status.success(), "{name}: {}\n{}", stderr(&output), spec.text());
        }
    }
}

#[test]
fn classes_have_advice_and_a_spec() {
    let spec = TemporaryFile::new("classes.toml");
    let arguments = "advise --kind counts --trust curator --population 300 --domain 3 --length 20 --repeats 1 \
                     --classes careful:0.2:8:3,relaxed:1:4 --mechanism pba,personal_track,ba --json --write-spec";
    let output = command(arguments).arg(&spec.0).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let advice: Value = serde_json::from_str(stdout(&output)).unwrap();
    // A mechanism with one guarantee has the strictest.
    assert_eq!((advice["epsilon"].as_f64(), advice["window"].as_u64()), (Some(0.2), Some(8)), "{advice}");
    let again = run_with_input(
        "advise --spec - --population 300 --length 20 --repeats 1 --class-sizes 3,1 \
                                --mechanism pba,personal_track,ba --json",
        spec.text().as_bytes(),
    );
    assert!(again.status.success(), "{}\n{}", stderr(&again), spec.text());
    let again: Value = serde_json::from_str(stdout(&again)).unwrap();
    assert_eq!(again["spec_mechanism"], advice["recommended"]);
    assert_eq!(again["ranking"][0]["error"], advice["ranking"][0]["error"]);
    let wrong = run_with_input("advise --spec - --population 300 --class-sizes 3", spec.text().as_bytes());
    assert_refused(&wrong, "--class-sizes has 1 sizes, but the spec 2 classes");
    assert_refused(
        &run("advise --kind counts --trust curator --population 9 --domain 3 --classes careful"),
        "expected NAME:EPSILON:WINDOW",
    );
}

/// Each key changes the predicted error of the spec's own mechanism.
#[test]
fn every_key_of_a_spec_counts() {
    let error = |spec: &str, arguments: &str| {
        let output =
            run_with_input(&format!("advise --spec - --json --length 60 --repeats 2 {arguments}"), spec.as_bytes());
        assert!(output.status.success(), "{}\n{spec}", stderr(&output));
        let advice: Value = serde_json::from_str(stdout(&output)).unwrap();
        let own = advice["ranking"].as_array().unwrap().iter().find(|entry| entry["is_spec"] == true).unwrap();
        own["error"].as_f64().unwrap()
    };
    let model = "[model]\nprior = [0.5, 0.5]\ntransitions = [[0.9, 0.1], [0.2, 0.8]]\n";
    let other = "[model]\nprior = [0.5, 0.5]\ntransitions = [[0.6, 0.4], [0.5, 0.5]]\n";
    let crr = "mechanism = \"crr\"\nepsilon = 1\ndomain = 2\n";
    let batched = "mechanism = \"batched\"\nepsilon = 2\nlength = 2\ndomain = 2\n";
    let contin =
        "mechanism = \"contin\"\nepsilon = 1\ndelay = 5\ndomain = { low = 0, high = 50 }\nprotects = \"reading\"\n";
    let central = "mechanism = \"uniform\"\nepsilon = 1\nwindow = 5\ndomain = 3\n";
    let local = "mechanism = \"lpa\"\nepsilon = 1\nwindow = 5\ndomain = 3\npopulation = 5000\n";
    for (spec, key) in [
        (format!("{crr}{model}"), format!("{crr}{other}")),
        (format!("{crr}{model}"), format!("{crr}window = 10\nbudget = 2\n{model}")),
        (format!("{crr}{model}"), format!("{crr}guarantee = \"local\"\n{model}")),
        (format!("{batched}{model}"), format!("{}{model}", batched.replace("epsilon = 2", "epsilon = 1"))),
        (contin.to_owned(), format!("{contin}publication = \"points\"\n")),
        (contin.to_owned(), format!("{contin}threshold = 20\n")),
        (contin.to_owned(), format!("{contin}within_domain = true\n")),
        (central.to_owned(), format!("{central}neighbours = \"replace\"\n")),
        (local.to_owned(), format!("{local}reuse = true\n")),
        (local.to_owned(), format!("{local}oracle = \"oue\"\n")),
    ] {
        let arguments = if spec == central { "--population 500" } else { "" };
        assert_ne!(error(&spec, arguments), error(&key, arguments), "{key}");
    }
    // A batch of two symbols at epsilon 2 is better than one at epsilon 1, and not by a factor of 25.
    let ratio = error(&format!("{batched}{model}"), "") / error(&format!("{crr}{model}"), "");
    assert!((0.3..1.5).contains(&ratio), "{ratio}");
}

#[test]
fn users_who_send_too_much_are_left_out() {
    let advice = json(&format!("{LOCAL} {QUICK} --most-bytes 0.5"));
    let ranking = advice["ranking"].as_array().unwrap();
    assert!(ranking.iter().all(|entry| entry["mechanism"] != "lbu"), "{advice}");
    // Every user sends one byte in a window of ten.
    let lpu = ranking.iter().find(|entry| entry["mechanism"] == "lpu").unwrap();
    assert!((lpu["bytes_per_user"].as_f64().unwrap() - 0.1).abs() < 0.01, "{lpu}");
    assert!(advice["unpredicted"][0]["why"].as_str().unwrap().contains("more than 0.5"), "{advice}");
    assert_refused(&run(&format!("{LOCAL} --most-bytes 0")), "--most-bytes must be above 0");
    assert_refused(&run("advise --kind numbers --domain 0..9 --epsilon 1 --most-bytes 2"), "is for counts only");
}

#[test]
fn ranges_are_judged_by_their_own_error() {
    let advice = json(&format!("{LOCAL} --ranges --mechanism lpu,mtsp_population --length 40 --repeats 2"));
    assert_eq!(advice["metric"], "range_mse");
    assert!(
        advice["ranking"]
            .as_array()
            .unwrap()
            .iter()
            .all(|entry| entry["method"] != "formula" || entry["mechanism"] == "constant")
    );
    assert_refused(&run("advise --kind numbers --domain 0..9 --epsilon 1 --ranges"), "are not judged by range_mse");
}

#[test]
fn track_says_which_jumps_it_may_miss() {
    let arguments = "advise --kind counts --trust curator --population 5000 --domain 4 --window 20 --epsilon 1 \
                     --mechanism central.track --length 40 --repeats 1";
    let text = run(arguments);
    let expected = "Jumps: central.track sees one of 333.3 users at once, one of 111.1 users within about 9 timestamps";
    assert!(stdout(&text).contains(expected), "{}", stdout(&text));
    let jumps = &json(arguments)["ranking"][0]["jumps"];
    assert!(
        (jumps["seen_at_once"].as_f64().unwrap() - 1000.0 / 3.0).abs() < 0.1 && jumps["unit"] == "users",
        "{jumps}"
    );
}
