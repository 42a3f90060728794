//! Releases as a picture, and as an HTML page.

use tidegate_plot::plot::{Axis, Chart, Panel, Point, Scale, Series};
use tidegate_plot::report::{Block, Cell, HtmlReport, Section, Span, Table};

use super::series::{Line, Sample, Shown};
use crate::failure::Failure;
use crate::table::short;

/// Most rows of a table on a page.
const MOST_ROWS: usize = 5_000;

#[allow(clippy::cast_precision_loss)] // a place on an axis
const fn place(timestamp: u64) -> f64 {
    timestamp as f64
}

/// A picture of all series.
pub(super) fn chart(shown: &Shown, title: &str) -> Chart {
    Chart::wide(title, shown.lines.iter().map(|line| panel(shown, line)).collect())
}

fn panel(shown: &Shown, line: &Line) -> Panel {
    let x = if shown.times.is_empty() {
        Axis::linear("t")
    } else {
        Axis { scale: Scale::Times(shown.times.clone()), ..Axis::linear("time") }
    };
    let point = |sample: &Sample| {
        let x = place(sample.timestamp);
        sample.half().map_or_else(|| Point::new(x, sample.value), |half| Point::with_error(x, sample.value, half))
    };
    let mut series = vec![Series::new("released, with its 95 % band", line.samples.iter().map(point).collect())];
    if line.has_truth() {
        let points = line.truth.iter().map(|(t, value)| Point::new(place(*t), *value)).collect();
        series.push(Series::new("truth", points).baseline());
    }
    // A band ends at the axis, so an axis that ends with the possible values cuts it off there.
    let (least, greatest) = shown.quantity.bounds();
    let values = || line.samples.iter().map(|sample| sample.value).chain(line.truth.iter().map(|(_, value)| *value));
    let ends = line.samples.iter().filter_map(|sample| sample.interval(shown.quantity));
    let (low, high) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (from, to)| (low.min(from), high.max(to)));
    let (low, high) = (values().fold(low, f64::min), values().fold(high, f64::max));
    let margin = 0.04 * (high - low).max(1e-9);
    let low = if low >= least && low - margin < least { least } else { low - margin };
    let high = if high <= greatest && high + margin > greatest { greatest } else { high + margin };
    let y = Axis { limits: (low < high).then_some((low, high)), ..Axis::linear(shown.quantity.name()) };
    Panel::curves(line.title(), x, y, series)
}

/// A page with the picture and a table.
pub(super) fn html(shown: &Shown, title: &str, left_out: usize) -> Result<String, Failure> {
    let has_truth = shown.lines.iter().any(Line::has_truth);
    let mut chart = Section::new("chart", "Chart").with(Block::Picture {
        svg: chart(shown, title).to_svg().map_err(Failure::run)?,
        caption: vec![Span::Plain(
            "Each band holds the truth with 95 % probability, as far as the noise tells.".to_owned(),
        )],
    });
    if has_truth {
        let text = "The truth is not private: this page must not be published.".to_owned();
        chart = chart.with(Block::Warning(vec![Span::Plain(text)]));
    }
    if left_out > 0 {
        chart = chart.with(Block::note(format!("{left_out} others are not shown.")));
    }
    let mut header = vec![if shown.times.is_empty() { "t" } else { "time" }];
    if shown.lines.iter().any(|line| !line.title().is_empty()) {
        header.push("of");
    }
    header.extend([shown.quantity.name(), "low", "high"]);
    if has_truth {
        header.push("truth");
    }
    let mut rows = Vec::new();
    for line in &shown.lines {
        for sample in &line.samples {
            let interval = sample.interval(shown.quantity);
            let (low, high) = (interval.map(|(low, _)| low), interval.map(|(_, high)| high));
            let mut row = vec![Cell::text(shown.time(sample.timestamp))];
            if header.contains(&"of") {
                row.push(Cell::text(line.title()));
            }
            row.extend(
                [Some(sample.value), low, high].map(|number| Cell::number(number.map_or_else(String::new, short))),
            );
            if has_truth {
                let truth = line.truth.binary_search_by_key(&sample.timestamp, |(t, _)| *t).ok();
                row.push(Cell::number(truth.map_or_else(String::new, |found| short(line.truth[found].1))));
            }
            rows.push(row);
        }
    }
    let all = rows.len();
    rows.truncate(MOST_ROWS);
    let mut table = Section::new("releases", "Releases").with(Block::Table(Table::new(header, rows)));
    if all > MOST_ROWS {
        table = table.with(Block::note(format!("The first {MOST_ROWS} of {all} rows.")));
    }
    Ok(HtmlReport::new(title, vec![chart, table]).to_html())
}
