//! `tidegate plot`, and `release --plot`.

use std::fs;

use crate::store::TestFolder;
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
    refused(COUNTS, "--output chart.png", "draw an SVG, and convert it");
    refused("", "--truth -", "cannot both come from standard input");
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
    let both = run_with_input(
        "release --mechanism laplace --epsilon 1 --domain 0..10 --protects reading --plot -",
        input.as_bytes(),
    );
    assert_refused(&both, "the chart needs a place of its own");
}
