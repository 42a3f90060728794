//! Each mechanism's page names its source.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidegate::mechanisms::{self, Mechanism};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn text(page: &str) -> String {
    std::fs::read_to_string(docs().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// `rr` and `oue` are oracles rather than mechanisms of a paper, and have no page of their own.
#[test]
fn each_mechanism_names_its_source() {
    let pages: BTreeSet<String> = mechanisms::all().map(Mechanism::page).collect();
    let own = pages.iter().filter(|page| !page.ends_with("README.md"));
    assert!(own.clone().count() > 20);
    for page in own {
        let text = text(page);
        let source = text.split("\n\n").find(|block| block.starts_with("**Source.** "));
        let source = source.unwrap_or_else(|| panic!("{page} has no **Source.**")).replace('\n', " ");
        let is_ours = source.contains("estimator");
        assert!(is_ours || source.contains("(../references.md#"), "{page}: {source}");
    }
}

#[test]
fn each_reference_has_authors_venue_and_an_identifier() {
    let references = text("references.md");
    let entries: Vec<&str> = references.split("\n## ").skip(1).collect();
    assert!(entries.len() >= 8);
    for entry in entries {
        let (short, rest) = entry.split_once('\n').unwrap();
        let year = short.rsplit(' ').next().unwrap();
        assert!(rest.matches(year).count() >= 1, "{short}: no year");
        assert!(rest.contains("](https://doi.org/10."), "{short}: no DOI");
        assert!(rest.contains('*'), "{short}: no title");
    }
}

/// The links of a row to files of code: ``[`name`](../path)``.
fn links(row: &str) -> Vec<(&str, &str)> {
    let parse = |link| -> Option<(&str, &str)> {
        let (name, rest) = str::split_once(link, "`](")?;
        Some((name, rest.split_once(')')?.0))
    };
    row.split("[`").skip(1).filter_map(parse).collect()
}

/// Fails unless the file has a test of this name.
fn check_test(name: &str, file: &str) {
    let path = docs().join(file);
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (before, _) = source.split_once(&format!("fn {name}(")).unwrap_or_else(|| panic!("{name} is not in {file}"));
    let attributes = before.rsplit("\n}\n").next().unwrap();
    assert!(attributes.contains("#[test]") || attributes.contains("proptest!"), "{name} in {file} is no test");
}

/// The rows of a page's tables, without their headings.
fn rows(page: &str) -> Vec<&str> {
    let lines: Vec<&str> = page.lines().collect();
    let is_row = |at: usize| lines[at].starts_with("| ") && !lines[at].starts_with("| --- ");
    let heads = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("| --- "));
    (0..lines.len()).filter(|at| is_row(*at) && !heads(*at)).map(|at| lines[at]).collect()
}

#[test]
fn each_erratum_has_a_test_that_is_there() {
    let page = text("errata.md");
    let points = rows(&page);
    assert!(points.len() > 20);
    for row in points {
        let tests: Vec<_> = links(row).into_iter().filter(|(_, file)| file.ends_with(".rs")).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        tests.into_iter().for_each(|(name, file)| check_test(name, file));
    }
}

/// A part of a paper has files and tests, or a reason why it has none.
#[test]
fn each_component_of_a_paper_has_files_and_tests_that_are_there() {
    let page = text("papers.md");
    for paper in
        ["LDP-IDS", "MTSP-LDP", "Personalised w-event privacy", "Delay-allowed release", "Sequence information"]
    {
        assert!(page.contains(&format!("\n## {paper}")), "{paper}");
    }
    let parts = rows(&page);
    assert!(parts.len() > 80);
    for row in parts {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, place, test] = cells[..] else { panic!("not three columns: {row}") };
        if let Some(reason) = test.strip_prefix("none: ") {
            assert!(reason.len() > 10, "no reason: {row}");
        } else {
            assert!(!links(place).is_empty() && !links(test).is_empty(), "an empty cell: {row}");
        }
        for (_, file) in links(place) {
            assert!(docs().join(file).exists(), "{file} is not there: {row}");
        }
        links(test).into_iter().for_each(|(name, file)| check_test(name, file));
    }
}
