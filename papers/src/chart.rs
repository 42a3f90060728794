//! Panels of charts from measured results.

use crate::results::{At, Results};
use tidegate_lab::plot::{Axis, Panel, Point, Series};

/// Draws a metric as lines, in one panel for each panel of the results that `asked` chooses.
pub fn lines(table: &Results, metric: &str, x: &Axis, y: &Axis, asked: impl Fn(&str) -> bool) -> Vec<Panel> {
    let panels = chosen(table, metric, asked);
    panels.map(|(title, series)| Panel::lines(title, x.clone(), y.clone(), series)).collect()
}

/// Like [`lines`], without markers, for many points.
pub fn curves(table: &Results, metric: &str, x: &Axis, y: &Axis, asked: impl Fn(&str) -> bool) -> Vec<Panel> {
    let panels = chosen(table, metric, asked);
    panels.map(|(title, series)| Panel::curves(title, x.clone(), y.clone(), series)).collect()
}

/// Draws a metric as bars, grouped by place.
pub fn bars(table: &Results, metric: &str, y: &Axis, asked: impl Fn(&str) -> bool) -> Vec<Panel> {
    let panel = |(title, series): (String, Vec<Series>)| {
        let names = table.places(&title).into_iter().map(ToString::to_string).collect();
        Panel::bars(title, names, y.clone(), series)
    };
    chosen(table, metric, asked).map(panel).collect()
}

/// Replaces the titles of panels.
pub fn named(panels: Vec<Panel>, title: impl Fn(&str) -> String) -> Vec<Panel> {
    panels.into_iter().map(|panel| Panel { title: title(&panel.title), ..panel }).collect()
}

fn chosen<'a>(
    table: &'a Results,
    metric: &'a str,
    asked: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = (String, Vec<Series>)> + 'a {
    let panels = table.panels().into_iter().filter(move |panel| asked(panel));
    let with_series = panels.map(move |panel| {
        let series = table.series(panel).into_iter().filter_map(|name| one_series(table, panel, name, metric));
        (panel.to_owned(), series.collect::<Vec<_>>())
    });
    with_series.filter(|(_, series)| !series.is_empty())
}

/// Returns a series, or `None` if it lacks the metric. `constant` is drawn as a baseline.
fn one_series(table: &Results, panel: &str, name: &str, metric: &str) -> Option<Series> {
    let places = table.places(panel);
    let place = |at: &At| match at {
        At::Number(number) => Some(*number),
        At::Name(_) => {
            let found = places.iter().position(|other| *other == at)?;
            Some(f64::from(u32::try_from(found).ok()?))
        }
    };
    let points: Vec<Point> = table
        .along(panel, name, metric)
        .into_iter()
        .filter_map(|(at, summary)| Some(Point::of(place(at)?, summary.mean, summary.standard_error)))
        .collect();
    let series = Series::new(name, points);
    let is_baseline = matches!(name, "constant" | "chance");
    (!series.points.is_empty()).then(|| if is_baseline { series.baseline() } else { series })
}
