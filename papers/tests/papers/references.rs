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

/// Tests are linked as ``[`name`](../path.rs)``.
#[test]
fn each_erratum_has_a_test_that_is_there() {
    let page = text("errata.md");
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| source ")).collect();
    let points: Vec<&&str> = rows.iter().filter(|row| !row.starts_with("| --- ")).collect();
    assert!(points.len() > 20);
    for row in points {
        let links: Vec<(&str, &str)> = row.split("[`").skip(1).filter_map(|link| link.split_once("`](../")).collect();
        let tests = links.iter().filter_map(|(name, rest)| Some((*name, rest.split_once(".rs)")?.0)));
        let mut found = 0;
        for (name, path) in tests {
            let path = docs().join(format!("../{path}.rs"));
            let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(source.contains(&format!("fn {name}(")), "{name} is not in {}", path.display());
            found += 1;
        }
        assert!(found > 0, "no test: {row}");
    }
}
