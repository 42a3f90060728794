//! The status page, as a browser draws it: its script runs in node, on a document that only records.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidegate::release::{Counts, Freshness, Histogram, Number, Release, Spent, Statistic, UNSTATED};
use tidegate::tree::{Tree, TreeShape};

/// A document in which elements have a kind, attributes, a text and children; and then the drawing.
const DOCUMENT: &str = r"
class Made {
  constructor(kind) { Object.assign(this, { kind, attributes: {}, children: [], textContent: '', value: '' }); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  append(...more) { this.children.push(...more); }
  prepend(...more) { this.children.unshift(...more); }
  replaceChildren(...more) { this.children = more; }
  addEventListener() {}
}
globalThis.document = {
  getElementById: () => new Made('known'),
  createElement: (kind) => new Made(kind),
  createElementNS: (_, kind) => new Made(kind),
};
globalThis.location = { hash: '', pathname: '/' };
globalThis.sessionStorage = { getItem: () => null, setItem: () => {} };
";

/// The SVG of a stream with these releases; `None`, with a note, where there is no node.
fn drawn(spec: &Value, statistics: Vec<Statistic>) -> Option<Value> {
    let release = |(timestamp, statistic)| {
        let (freshness, spent) = (Freshness::Fresh, Spent::Nothing);
        let release = Release { timestamp, statistic, freshness, spent, reports: 0, seeded: false, why: None };
        json!({ "timestamp": timestamp, "release": release })
    };
    let releases: Vec<Value> = (0_u64..).zip(statistics).map(release).collect();
    let script = include_str!("../../../src/http/page/status.js").replacen("'use strict';", "", 1);
    let stream = json!({ "name": "visits", "spec": spec });
    let programme = format!(
        "'use strict';\n{DOCUMENT}\n{script}\nconst svg = new Made('svg');\ndraw(svg, {stream}, {});\n\
         console.log(JSON.stringify(svg));\n",
        json!(releases)
    );
    let node = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut node) = node else {
        println!("skipped: the script of the page needs node");
        return None;
    };
    node.stdin.take().unwrap().write_all(programme.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The children of one kind.
fn parts<'a>(svg: &'a Value, kind: &str) -> Vec<&'a Value> {
    svg["children"].as_array().unwrap().iter().filter(|child| child["kind"] == kind).collect()
}

/// No place is off the picture or nowhere.
fn assert_drawn(svg: &Value) {
    let text = svg.to_string();
    assert!(!text.contains("NaN") && !text.contains("Infinity") && !text.contains("undefined"), "{text}");
}

#[test]
fn a_share_without_a_stated_error_has_no_error_bar() {
    let statistic = Histogram { frequencies: vec![0.25, 0.75], variances: vec![0.01, UNSTATED] };
    let Some(svg) = drawn(&json!({ "domain": ["home", "shop"] }), vec![statistic.into()]) else { return };
    assert_drawn(&svg);
    let labels: Vec<&str> =
        parts(&svg, "rect").iter().map(|bar| bar["children"][0]["textContent"].as_str().unwrap()).collect();
    assert_eq!(labels, ["home: 0.2500 ± 0.10", "shop: 0.7500 (its error is not stated)"]);
    let errors = parts(&svg, "line").into_iter().filter(|line| line["attributes"]["class"] == "error").count();
    assert_eq!(errors, 1);
}

#[test]
fn trees_of_three_values_are_drawn_by_their_leaves() {
    let shape = TreeShape::new(3);
    let nodes = (0..=shape.height()).map(|level| shape.nodes(level) as usize).sum();
    let frequencies: Vec<f64> = (0..nodes).map(|node| node as f64 / 10.0).collect();
    let tree = Tree::new(shape, frequencies.clone(), vec![UNSTATED; nodes]).unwrap();
    let Some(svg) = drawn(&json!({ "domain": 3 }), vec![tree.into()]) else { return };
    assert_drawn(&svg);
    let labels: Vec<String> = parts(&svg, "rect")
        .iter()
        .map(|bar| bar["children"][0]["textContent"].as_str().unwrap().split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let leaves = &frequencies[nodes - 3..];
    let expected: Vec<String> = (0..3).map(|leaf| format!("{leaf}: {:.4}", leaves[leaf])).collect();
    assert_eq!(labels, expected);
    assert_eq!(svg["children"][0]["textContent"], "the release of timestamp 0: 3 values");
}

#[test]
fn numbers_are_a_line_and_counts_are_bars() {
    let number = |value, variance| Number { value, variance }.into();
    let Some(svg) = drawn(&json!({ "domain": { "low": 0, "high": 9 } }), vec![number(4.0, 1.0), number(5.0, UNSTATED)])
    else {
        return;
    };
    assert_drawn(&svg);
    assert_eq!(parts(&svg, "polyline").len(), 1);
    let title = "the last 2 releases: 5.000 (its error is not stated) at timestamp 1";
    assert_eq!(svg["children"][0]["textContent"], title);
    let counts = Counts { counts: vec![-3.0, 7.0, 0.0], variances: vec![UNSTATED; 3] };
    let svg = drawn(&json!({ "domain": 3 }), vec![counts.into()]).unwrap();
    assert_drawn(&svg);
    assert_eq!((parts(&svg, "rect").len(), parts(&svg, "line").len()), (3, 1));
}
