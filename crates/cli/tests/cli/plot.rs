//! `tidegate plot`, and `release --plot`.

use std::fs;

use crate::folder::TestFolder;
use crate::{assert_refused, run, run_with_input, stderr, stdout};

const COUNTS: &str = "t,value,count,variance,freshness,spent,seeded
0,home,60,4,fresh,0.1,false
0,shop,-1,4,fresh,0.1,false
1,home,62,4,fresh,0.1,false
1,shop,3,4,fresh,0.1,false
2,home,64,4,fresh,0.1,false
2,shop,9,4,fresh,0.1,false
";

#[test]
fn counts_are_drawn_value_by_value() {
    let drawn = run_with_input("plot --ascii --width 50", COUNTS.as_bytes());
    assert!(stdout(&drawn).contains("home\n") && stdout(&drawn).contains("\nshop\n"), "{}", stdout(&drawn));
    assert!(stdout(&drawn).lines().all(|line| line.chars().count() <= 50), "{}", stdout(&drawn));
    assert!(stdout(&drawn).ends_with("** released  :: 95 % band\n"), "{}", stdout(&drawn));
    // Lines of JSON are drawn alike.
    let json: String = COUNTS
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!(
                "{{\"t\":{},\"value\":\"{}\",\"count\":{},\"variance\":{}}}\n",
                cells[0], cells[1], cells[2], cells[3]
            )
        })
        .collect();
    assert_eq!(stdout(&run_with_input("plot --ascii --width 50", json.as_bytes())), stdout(&drawn));
    let one = run_with_input("plot --ascii --width 50 --value shop", COUNTS.as_bytes());
    assert!(!stdout(&one).contains("home"), "{}", stdout(&one));
}

#[test]
fn a_page_has_the_truth_the_interval_and_nothing_from_elsewhere() {
    let folder = TestFolder::new();
    let place = |name: &str| folder.file(name).display().to_string();
    fs::write(place("released.csv"), COUNTS).unwrap();
    fs::write(place("truth.csv"), "t,user,value\n0,a,home\n1,a,home\n1,b,shop\n2,a,shop\n").unwrap();
    let page = place("page.html");
    let arguments = format!("plot {} --truth {} --output {page}", place("released.csv"), place("truth.csv"));
    let drawn = run(&arguments);
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg ") && page.contains("must not be published") && page.contains("</table>"));
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("<link"), "{page}");
    // The estimate below zero stays; its interval begins at zero.
    assert!(page.contains("-1.000") && !page.contains("-4.92"), "{page}");
    let svg = place("chart.svg");
    let drawn = run(&format!("plot {} --output {svg} --title Shops", place("released.csv")));
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("Shops") && !svg.contains("truth"));
    let drawn = run(&format!("plot {} --output {}", place("released.csv"), place("chart.PNG")));
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    assert!(fs::read(place("chart.PNG")).unwrap().starts_with(b"\x89PNG\r\n"));
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let refused = |table: &str, options: &str, why: &str| {
        assert_refused(&run_with_input(&format!("plot {options}"), table.as_bytes()), why);
    };
    refused("t,user,value,freshness\n0,a,x,fresh\n", "", "expected releases of numbers, counts or frequencies");
    refused("t,value,variance\n", "", "it has no releases");
    refused("t,value,variance\n1,2,3\n1,2,3\n", "", "line 3, field \"t\": expected a timestamp later than the last");
    refused(COUNTS, "--value shopp", "there is no value \"shopp\" (did you mean shop?); there are: home, shop");
    refused(COUNTS, "--output chart.pdf", "chart.pdf: a chart ends in .svg, .png or .html, or else it is text");
    refused("", "--truth -", "only one of releases, truth and spec can come from standard input");
    let folder = TestFolder::new();
    fs::write(folder.file("truth.csv"), "t,home,shop\n9,1,2\n").unwrap();
    let truth = format!("--truth {}", folder.file("truth.csv").display());
    refused(COUNTS, &truth, "it has no timestamp of the releases");
    // Times of single events would count for nothing.
    let timed = "t,time,value,count,variance,freshness,spent,seeded\n0,2026-03-01T09:00:00Z,home,5,1,fresh,1,false\n";
    fs::write(folder.file("truth.csv"), "time,user,value\n2026-03-01T09:12:00Z,ann,home\n").unwrap();
    refused(timed, &truth, "truth.csv, line 2, field \"time\": expected a time of the releases");
}

#[test]
fn rows_of_the_truth_are_gathered_as_release_does() {
    let folder = TestFolder::new();
    let place = |name: &str| folder.file(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(place(name), text).unwrap();
    write(
        "stream.toml",
        "mechanism = \"central.uniform\"\nepsilon = 1000\nwindow = 1\ndomain = [\"home\", \"shop\"]\nevery = \"1d\"\n\
         origin = \"2026-03-01\"\nduplicates = \"last\"\n[columns]\ntime = \"when\"\nuser = \"who\"\n\
         value = \"what\"\n",
    );
    let rows = "who,when,what\na,2026-03-01T09:12+01:00,shop\na,2026-03-01T22:00+01:00,home\n\
                b,2026-03-01T23:00+01:00,home\na,2026-03-03T01:00+01:00,shop\n";
    write("rows.csv", rows);
    let released = run(&format!(
        "release --spec {} --input {} --output {}",
        place("stream.toml"),
        place("rows.csv"),
        place("released.csv")
    ));
    assert!(released.status.success(), "{}", stderr(&released));
    let draw = |truth: &str, spec: &str| {
        run(&format!("plot {} --truth {} {spec} --output {}", place("released.csv"), place(truth), place("page.html")))
    };
    let spec = format!("--spec {}", place("stream.toml"));
    let drawn = draw("rows.csv", &spec);
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let page = fs::read_to_string(place("page.html")).unwrap();
    // Home: two, then nobody known, then none; shop: none, and one on the third day.
    let rows: Vec<&str> = page.split("<tr>").skip(1).filter(|row| row.contains("2026-03-0")).collect();
    let truths: Vec<&str> =
        rows.iter().map(|row| row.trim_end().rsplit("<td").next().unwrap().split(['>', '<']).nth(1).unwrap()).collect();
    assert_eq!(truths, ["2.000", "", "0", "0", "", "1.000"], "{page}");
    let refused = |truth: &str, spec: &str, why: &str| assert_refused(&draw(truth, spec), why);
    refused("rows.csv", "", "a field t or time is missing: --spec names the columns");
    refused("rows.csv", &format!("{spec} --origin 2026-02-28"), "in which 2026-03-01T00:00+01:00 is timestamp 0");
    write("utc.csv", "who,when,what\na,2026-03-01T09:12Z,shop\n");
    refused("utc.csv", &spec, "field \"when\": expected the same offset from UTC");
    write("numbers.csv", "t,time,value,variance\n0,2026-03-01,5,1\n1,2026-03-02,7,1\n");
    write("readings.csv", "t,value\n2026-03-01,4\n2026-03-02,x\n");
    let drawn = run(&format!(
        "plot {} --truth {} --every 1d --origin 2026-03-01 --ascii",
        place("numbers.csv"),
        place("readings.csv")
    ));
    assert!(stdout(&drawn).contains("truth (not private)"), "{}", stderr(&drawn));
    // No advice to options that plot lacks.
    write("dated.csv", "date,value\n2026-03-01,4\n");
    let arguments = format!("plot {} --truth {} --every 1d", place("numbers.csv"), place("dated.csv"));
    let columns = run(&format!("{arguments} --origin 2026-03-01"));
    assert_refused(&columns, "dated.csv, line 1: the columns are not called as in t,value or t,user,value: use --spec");
    assert!(!stderr(&columns).contains("--time"), "{}", stderr(&columns));
    let columns = run(&format!("{arguments} --spec {}", place("stream.toml")));
    assert_refused(&columns, "the columns are not called as in the spec");
}

#[test]
fn trees_of_three_values_and_errors_that_are_not_stated_are_drawn() {
    let folder = TestFolder::new();
    let place = |name: &str| folder.file(name).display().to_string();
    let spec = "mechanism = \"local.mtsp\"\nepsilon = 4\nwindow = 2\ndomain = [\"a\", \"b\", \"c\"]\n\
                population = 300\n";
    fs::write(place("stream.toml"), spec).unwrap();
    let lines: String =
        (0..6).flat_map(|t| (0..300).map(move |user| format!("{t},u{user},{}\n", ["a", "b", "c"][user % 3]))).collect();
    let arguments = format!(
        "release --spec {} --seed 3 --output {} --plot {}",
        place("stream.toml"),
        place("tree.csv"),
        place("tree.svg")
    );
    let released = run_with_input(&arguments, format!("t,user,value\n{lines}").as_bytes());
    assert!(released.status.success(), "{}", stderr(&released));
    let table = fs::read_to_string(place("tree.csv")).unwrap();
    // Each timestamp has six nodes: the root, two of the middle level, and three leaves.
    assert_eq!(table.lines().filter(|line| line.starts_with("0,")).count(), 6, "{table}");
    assert!(fs::read_to_string(place("tree.svg")).unwrap().starts_with("<svg "));
    // The third timestamp states no variance.
    let unstated = |line: &str| {
        let mut cells: Vec<&str> = line.split(',').collect();
        if cells[0] == "2" {
            cells[4] = "";
        }
        cells.join(",") + "\n"
    };
    let table: String = table.lines().map(unstated).collect();
    fs::write(place("tree.csv"), &table).unwrap();
    let drawn = run(&format!("plot {} --ascii --width 60", place("tree.csv")));
    let charts: Vec<&str> = stdout(&drawn).lines().filter(|line| ["a", "b", "c"].contains(line)).collect();
    assert_eq!(charts, ["a", "b", "c"], "{}{}", stdout(&drawn), stderr(&drawn));
    let json = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let variance = if cells[4].is_empty() { "null" } else { cells[4] };
        format!(
            "{{\"t\":{},\"first\":\"{}\",\"last\":\"{}\",\"frequency\":{},\"variance\":{variance}}}\n",
            cells[0], cells[1], cells[2], cells[3]
        )
    };
    let json: String = table.lines().skip(1).map(json).collect();
    assert!(json.contains("null"));
    let again = run_with_input("plot --ascii --width 60", json.as_bytes());
    let without_title = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(without_title(stdout(&again)), without_title(stdout(&drawn)), "null is an empty variance");
    for picture in ["again.svg", "tree.html"] {
        let drawn = run(&format!("plot {} --output {}", place("tree.csv"), place(picture)));
        assert!(drawn.status.success(), "{}", stderr(&drawn));
        let text = fs::read_to_string(place(picture)).unwrap();
        assert!(!text.contains("NaN") && !text.contains(">inf"), "{text}");
    }
}

#[test]
fn release_draws_what_it_released() {
    let folder = TestFolder::new();
    let place = |name: &str| folder.file(name).display().to_string();
    let release = format!(
        "release --mechanism laplace --epsilon 1 --domain 0..10 --protects reading --seed 1 --output {} --plot",
        place("released.csv")
    );
    let input = "t,value\n0,1\n1,5\n2,9\n";
    let drawn = run_with_input(&format!("{release} -"), input.as_bytes());
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    assert!(stdout(&drawn).starts_with("Releases\n\nvalue\n"), "{}", stdout(&drawn));
    assert_eq!(fs::read_to_string(place("released.csv")).unwrap().lines().count(), 4);
    let drawn = run_with_input(&format!("{release} {}", place("chart.svg")), input.as_bytes());
    assert!(drawn.status.success() && fs::read_to_string(place("chart.svg")).unwrap().starts_with("<svg "));
    let drawn = run_with_input(&format!("{release} {}", place("chart.png")), input.as_bytes());
    assert!(drawn.status.success() && fs::read(place("chart.png")).unwrap().starts_with(b"\x89PNG\r\n"));
    let unseeded = release.replace("--seed 1", "");
    let nowhere = run_with_input(&format!("{unseeded} {}", place("nowhere/chart.svg")), input.as_bytes());
    assert_refused(&nowhere, "there is no folder");
    let unknown = run_with_input(&format!("{unseeded} {}", place("chart.gif")), b"");
    assert_refused(&unknown, "a chart ends in .svg, .png or .html");
    let nothing = run_with_input(&format!("{release} {}", place("nothing.svg")), b"t,value\n");
    assert!(nothing.status.success() && stderr(&nothing).contains("nothing was released"), "{}", stderr(&nothing));
    let both = run_with_input(
        "release --mechanism laplace --epsilon 1 --domain 0..10 --protects reading --plot -",
        input.as_bytes(),
    );
    assert_refused(&both, "the chart needs a place of its own");
}
