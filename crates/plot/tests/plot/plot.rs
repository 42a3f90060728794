//! Charts: well-formed, complete, readable without colours.

use tidegate_plot::plot::{Axis, Chart, Panel, PlotError, Point, Scale, Series};

fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

fn count(svg: &str, tag: &str) -> usize {
    roxmltree::Document::parse(svg).unwrap().descendants().filter(|node| node.has_tag_name(tag)).count()
}

fn lines(series: Vec<Series>) -> Panel {
    Panel::lines("panel", Axis::linear("epsilon"), Axis::log("error"), series)
}

#[test]
fn text_stays_text_and_is_escaped() {
    let series = Series::new("a < b & \"c\"", vec![Point::new(1.0, 0.1), Point::new(2.0, 0.01)]);
    let svg = Chart::new("T'itle <script>", vec![lines(vec![series])]).to_svg().unwrap();
    let texts = texts(&svg);
    for text in ["T'itle <script>", "panel", "epsilon", "error", "a < b & \"c\"", "0.1", "0.01"] {
        assert!(texts.iter().any(|other| other == text), "{text}: {texts:?}");
    }
    assert!(!svg.contains("<script"));
}

#[test]
fn error_bars_are_drawn_where_points_have_errors() {
    let plain = |error: Option<f64>| {
        let point = |x: f64| Point { x, y: 0.5, error };
        Chart::new("t", vec![lines(vec![Series::new("a", vec![point(1.0), point(2.0)])])]).to_svg().unwrap()
    };
    // A bar has three strokes: the bar itself and its two ends.
    assert_eq!(count(&plain(Some(0.1)), "polyline"), count(&plain(None), "polyline") + 2 * 3);
    assert_eq!(count(&plain(Some(0.0)), "polyline"), count(&plain(None), "polyline"));
}

#[test]
fn many_series_differ_in_more_than_colour() {
    let series = |name: usize| Series::new(format!("s{name}"), vec![Point::new(0.0, 1.0), Point::new(1.0, 2.0)]);
    let svg = Chart::new("t", vec![lines((0..20).map(series).collect())]).to_svg().unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let thick = document.descendants().filter(|node| node.attribute("stroke-width") == Some("2"));
    let mut looks: Vec<_> =
        thick.map(|node| (node.attribute("stroke").unwrap(), node.attribute("stroke-dasharray"))).collect();
    looks.sort_unstable();
    looks.dedup();
    assert_eq!(looks.len(), 20);
    // Those whose colours look alike have different dashes.
    let dash = |colour: &str| looks.iter().find(|(other, _)| *other == colour).unwrap().1;
    assert_ne!(dash("#0072B2"), dash("#0072B3"));
}

#[test]
fn what_has_no_place_is_counted() {
    let points = vec![Point::new(0.0, 0.0), Point::new(1.0, 0.5), Point::new(2.0, f64::NAN), Point::new(3.0, 0.1)];
    let svg = Chart::new("t", vec![lines(vec![Series::new("a", points)])]).to_svg().unwrap();
    assert!(texts(&svg).iter().any(|text| text == "2 points have no place here"));
    let nothing = Chart::new("t", vec![lines(vec![Series::new("a", vec![Point::new(0.0, -1.0)])])]).to_svg();
    assert_eq!(nothing, Err(PlotError::NoPoints { panel: "panel".to_owned() }));
    assert_eq!(Chart::new("t", Vec::new()).to_svg(), Err(PlotError::NoPanels { chart: "t".to_owned() }));
}

#[test]
fn bars_stand_in_groups_with_names() {
    let names = vec!["first".to_owned(), "second".to_owned()];
    let series = |name: &str| Series::new(name, vec![Point::new(0.0, 1.0), Point::with_error(1.0, 3.0, 0.5)]);
    let panel = Panel::bars("panel", names, Axis::linear("users"), vec![series("here"), series("paper")]);
    let svg = Chart::new("t", vec![panel]).to_svg().unwrap();
    // Two groups of two, and two in the legend.
    assert_eq!(count(&svg, "rect"), 6);
    let texts = texts(&svg);
    assert!(["first", "second", "here", "paper"].iter().all(|name| texts.iter().any(|text| text == name)), "{texts:?}");
}

#[test]
fn roc_curves_come_with_the_diagonal() {
    let curve = [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)];
    let svg = Chart::new("t", vec![Panel::roc("panel", [("lpa", &curve[..])])]).to_svg().unwrap();
    let texts = texts(&svg);
    assert!(["lpa", "chance", "false positive rate"].iter().all(|name| texts.iter().any(|text| text == name)));
}

#[test]
fn times_stand_at_the_axis_and_few_of_them() {
    let days: Vec<_> = (0..30).map(|day| (day, format!("2024-03-{:02}", day + 1))).collect();
    let points = (0..30).map(|day| Point::with_error(f64::from(day), 5.0, 1.0)).collect();
    let x = Axis { scale: Scale::Times(days), ..Axis::linear("time") };
    let panel = Panel::curves("panel", x, Axis::linear("users"), vec![Series::new("released", points)]);
    let texts = texts(&Chart::new("t", vec![panel]).to_svg().unwrap());
    let shown: Vec<_> = texts.iter().filter(|text| text.starts_with("2024-03-")).collect();
    assert!(shown.len() >= 2 && shown.len() <= 4 && shown.contains(&&"2024-03-01".to_owned()), "{texts:?}");
}

#[test]
fn small_multiples_share_one_legend() {
    let panel = |names: [&str; 2]| {
        let series = names.map(|name| Series::new(name, vec![Point::new(0.0, 1.0), Point::new(1.0, 2.0)]));
        lines(series.to_vec())
    };
    let chart = Chart::new("t", vec![panel(["a", "b"]), panel(["b", "c"]), panel(["c", "a"]), panel(["a", "b"])]);
    assert_eq!(chart.columns, 2);
    let texts = texts(&chart.to_svg().unwrap());
    for name in ["a", "b", "c"] {
        assert_eq!(texts.iter().filter(|text| *text == name).count(), 1, "{name}");
    }
}
