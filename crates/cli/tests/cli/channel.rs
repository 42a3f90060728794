//! `tidegate channel`.

use std::io::Write;

use serde_json::Value;

use super::{assert_refused, run, run_with_input, stderr, stdout};

fn json(arguments: &str) -> Value {
    let output = run(&format!("channel {arguments} --json"));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Checks the printed matrix by the definition: rows, both sides of the limit, local privacy, and what is said about
/// it. Gives back the cost.
#[track_caller]
fn check(printed: &Value, prior: &[f64], epsilon: f64, distance: impl Fn(usize, usize) -> f64) -> f64 {
    assert!(numbers(&printed["prior"]).iter().zip(prior).all(|(one, other)| (one - other).abs() < 1e-9));
    assert_eq!(printed["epsilon"], epsilon);
    let rows: Vec<Vec<f64>> = printed["channel"].as_array().unwrap().iter().map(numbers).collect();
    assert_eq!(rows.len(), prior.len());
    let output: Vec<f64> =
        (0..prior.len()).map(|y| rows.iter().zip(prior).map(|(row, weight)| weight * row[y]).sum()).collect();
    assert!(numbers(&printed["output"]).iter().zip(&output).all(|(one, other)| (one - other).abs() < 1e-12));
    let (mut cost, mut leakage) = (0.0, 0.0_f64);
    for (x, (row, weight)) in rows.iter().zip(prior).enumerate() {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (y, (a, q)) in row.iter().zip(&output).enumerate() {
            assert!(*a >= 0.0);
            cost += weight * a * distance(x, y);
            if *weight > 0.0 {
                assert!(*a <= epsilon.exp() * q + 1e-9 && *a >= (-epsilon).exp() * q - 1e-9);
                if *q > 0.0 {
                    leakage = leakage.max((a / q).ln().abs());
                }
            }
            assert!(rows.iter().all(|other| *a <= (2.0 * epsilon).exp() * other[y] + 1e-9));
        }
    }
    assert!((printed["leakage"].as_f64().unwrap() - leakage).abs() < 1e-9 && leakage <= epsilon + 1e-9);
    assert!((printed["cost"].as_f64().unwrap() - cost).abs() < 1e-9 * (1.0 + cost));
    cost
}

fn written(prior: &[f64]) -> String {
    prior.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn the_printed_channel_keeps_to_the_definition_for_every_distance() {
    // What the best channel costs, by another solver: with |x - y|, and with its square.
    for (domain, epsilon, absolute, squared) in [
        (2_usize, 0.4, 0.332_832_523, 0.332_832_523),
        (8, 1.5, 0.807_282_322, 2.741_305_201),
        (21, 0.2, 5.249_440_005, 38.300_722_919),
        (34, 2.0, 2.099_001_537, 20.965_186_681),
    ] {
        let weights: Vec<f64> = (0..domain).map(|x| ((x * x * 37 + x * 11 + 5 * domain) % 23 + 1) as f64).collect();
        let total: f64 = weights.iter().sum();
        let prior: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let print = |distance| json(&format!("--prior {} --epsilon {epsilon} --distance {distance}", written(&prior)));
        let cost = check(&print("absolute"), &prior, epsilon, |x, y| x.abs_diff(y) as f64);
        assert!((cost / absolute - 1.0).abs() < 2e-6, "{cost}");
        let cost = check(&print("squared"), &prior, epsilon, |x, y| (x.abs_diff(y) * x.abs_diff(y)) as f64);
        assert!((cost / squared - 1.0).abs() < 2e-6, "{cost}");
        check(&print("hamming"), &prior, epsilon, |x, y| f64::from(u8::from(x != y)));
    }
}

#[test]
fn hamming_is_the_default_and_zeros_are_answered_too() {
    let printed = json("--prior 0.286,0.252,0.201,0,0.15,0.111 --epsilon 1");
    assert_eq!(printed["distance"], "hamming");
    let prior = [0.286, 0.252, 0.201, 0.0, 0.15, 0.111];
    let cost = check(&printed, &prior, 1.0, |x, y| f64::from(u8::from(x != y)));
    assert!((cost - 0.387_146_835).abs() < 1e-8);
}

#[test]
fn distances_can_come_from_a_file_and_the_prior_from_standard_input() {
    let path = std::env::temp_dir().join(format!("tidegate-matrix-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"0, 1, 1\n1 0 1\n\n1,1,0\n").unwrap();
    let given = format!("channel --prior - --epsilon 0.5 --matrix {} --json", path.display());
    let output = run_with_input(&given, b"0.5\n0.3 0.2\n");
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["distance"], "matrix");
    let cost = check(&printed, &[0.5, 0.3, 0.2], 0.5, |x, y| f64::from(u8::from(x != y)));
    assert!((cost - 0.427_757_196).abs() < 1e-6);

    let matrix = path.display();
    assert_refused(&run(&format!("channel --prior 0.5,0.5 --epsilon 1 --matrix {matrix}")), "3 rows for the 2 symbols");
    let both = run(&format!("channel --prior 0.5,0.5 --epsilon 1 --matrix {matrix} --distance squared"));
    assert_eq!(both.status.code(), Some(2));
    std::fs::write(&path, "0 1\n1 x\n").unwrap();
    assert_refused(&run(&format!("channel --prior 0.5,0.5 --epsilon 1 --matrix {matrix}")), "\"x\" is not a number");
    std::fs::write(&path, "0 1\n-1 0\n").unwrap();
    assert_refused(&run(&format!("channel --prior 0.5,0.5 --epsilon 1 --matrix {matrix}")), "row 1, column 0");
    std::fs::remove_file(&path).unwrap();
    assert_refused(&run(&format!("channel --prior 0.5,0.5 --epsilon 1 --matrix {matrix}")), "--matrix");
}

#[test]
fn without_json_a_table_has_a_line_for_each_symbol() {
    let output = run("channel --prior 0.3,0.7 --epsilon 1 --distance absolute");
    let expected = "SYMBOL   PRIOR    -> 0    -> 1\n\
                    0       0.3000  0.7425  0.2575\n\
                    1       0.7000  0.1104  0.8896\n\
                    all             0.3000  0.7000\n\n\
                    expected absolute distance 0.154509 at epsilon 1: leakage 1.000000, \
                    local differential privacy 1.906219\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn an_epsilon_with_many_decimals_is_rounded_down() {
    let printed = json("--prior 0.3,0.7 --epsilon 1.23456789999999");
    assert_eq!(printed["epsilon"], 1.234_567_899);
}

#[test]
fn what_is_no_prior_or_no_epsilon_is_refused_by_name() {
    for (prior, why) in [
        ("0.5,-0.5,1", "--prior: -0.5, for symbol 1, is not a probability"),
        ("0.5,NaN", "--prior: NaN, for symbol 1"),
        ("0.5,inf", "--prior: inf, for symbol 1"),
        ("0.5,0.4", "--prior: the probabilities sum to 0.9, not to 1 (within 0.000001)"),
        ("1", "--prior: at least 2 symbols are needed, but 1 was given"),
        ("0.5,,0.5", "--prior: \"\" is not a number"),
        ("0.5,x", "--prior: \"x\" is not a number"),
    ] {
        assert_refused(&run(&format!("channel --prior {prior} --epsilon 1")), why);
    }
    assert_refused(&run_with_input("channel --prior - --epsilon 1", b""), "--prior");
    let large = written(&vec![1.0 / 1001.0; 1001]);
    assert_refused(&run(&format!("channel --prior {large} --epsilon 1")), "at most 1000 symbols, but 1001 were given");
    for epsilon in ["0", "-1", "11", "NaN", "x"] {
        assert_refused(&run(&format!("channel --prior 0.5,0.5 --epsilon {epsilon}")), "--epsilon");
    }
    assert_refused(&run("channel --prior 0.5,0.5 --epsilon 1 --distance far"), "--distance");
}

#[test]
fn without_a_prior_both_sources_are_named() {
    let nothing = run("channel --epsilon 1");
    assert_refused(&nothing, "--prior");
    assert!(stderr(&nothing).contains("--model"), "{}", stderr(&nothing));
    assert_refused(&run("channel --epsilon 1 --prior 0.5,0.5 --model m.json"), "cannot be used with");
}
