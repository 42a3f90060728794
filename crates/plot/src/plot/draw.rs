//! Drawing a chart with plotters, as SVG or as pixels.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::DynElement;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, Circle, Color, DrawingArea, DrawingBackend, EmptyElement, IntoDrawingArea,
    IntoTextStyle, PathElement, Polygon, Rectangle, SVGBackend, ShapeStyle, Text, TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontStyle, RGBColor};

use super::axis::Range;
use super::pixels::{Dash, Pixels, Raster};
use super::style::{FAINT, GRID, GROUND, INK, Look, Marker, hex};
use super::{Chart, Form, Panel, PlotError, Scale, Series};

const PANEL_HEIGHT: u32 = 282;
const TITLE_HEIGHT: u32 = 34;
const LEGEND_ROW: u32 = 22;
const MARGIN: u32 = 8;
/// plotters makes text of SVG smaller by this factor.
pub(super) const TEXT_FACTOR: f64 = 1.24;
/// The thickness of the lines that get dashes; nothing else is as thick.
const LINE_WIDTH: u32 = 2;

type Area<B> = DrawingArea<B, Shift>;
type PanelArea<B> = DrawingArea<B, Cartesian2d<Range, Range>>;
type Drawn = Result<(), PlotError>;

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self::Drawing(error.to_string())
    }
}

pub(super) fn to_svg(chart: &Chart) -> Result<String, PlotError> {
    let plan = Plan::of(chart)?;
    let mut svg = String::new();
    plan.draw(SVGBackend::with_string(&mut svg, plan.size))?;
    Ok(finished(&svg, chart, &plan.legend))
}

pub(super) fn to_png(chart: &Chart) -> Result<Vec<u8>, PlotError> {
    let plan = Plan::of(chart)?;
    let looks = plan.legend.entries.iter().map(|entry| entry.look).filter(|look| !look.dash.is_empty());
    let dashes = looks.map(|Look { colour, dash, .. }| Dash::new(colour, LINE_WIDTH, dash)).collect();
    let mut pixels = Pixels::new(plan.size)?;
    plan.draw(Raster::new(&mut pixels, dashes))?;
    pixels.to_png()
}

/// A chart with its measures.
struct Plan<'a> {
    chart: &'a Chart,
    legend: Legend,
    /// Rows and columns of panels.
    grid: (usize, usize),
    size: (u32, u32),
}

impl<'a> Plan<'a> {
    fn of(chart: &'a Chart) -> Result<Self, PlotError> {
        if chart.panels.is_empty() {
            return Err(PlotError::NoPanels { chart: chart.title.clone() });
        }
        let columns = chart.columns.clamp(1, chart.panels.len());
        let rows = chart.panels.len().div_ceil(columns);
        let legend = Legend::of(chart);
        let width = pixels(columns) * chart.panel_width + 2 * MARGIN;
        let legend_height = pixels(legend.rows(width - 2 * MARGIN).len()) * LEGEND_ROW;
        let height = TITLE_HEIGHT + pixels(rows) * PANEL_HEIGHT + legend_height + 2 * MARGIN;
        Ok(Self { chart, legend, grid: (rows, columns), size: (width, height) })
    }

    fn draw<B: DrawingBackend>(&self, backend: B) -> Drawn {
        let Self { chart, legend, grid, size } = self;
        let root = backend.into_drawing_area();
        let root_inner = root.margin(MARGIN, MARGIN, MARGIN, MARGIN);
        let (title, rest) = root_inner.split_vertically(TITLE_HEIGHT);
        title.draw(&Text::new(chart.title.clone(), (4, 2), text(17.0, INK, FontStyle::Bold, HPos::Left)))?;
        let (panels, legend_area) = rest.split_vertically(pixels(grid.0) * PANEL_HEIGHT);
        for (panel, area) in chart.panels.iter().zip(panels.split_evenly(*grid)) {
            draw_panel(panel, &area, legend, chart.panel_width)?;
        }
        draw_legend(&legend.rows(size.0 - 2 * MARGIN), &legend_area)?;
        Ok(root.present()?)
    }
}

/// A number of panels or rows of them.
fn pixels(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).min(10_000)
}

fn signed(pixels: u32) -> i32 {
    i32::try_from(pixels).unwrap_or(i32::MAX)
}

fn text(size: f64, colour: RGBColor, style: FontStyle, side: HPos) -> TextStyle<'static> {
    let font = (FontFamily::SansSerif, size * TEXT_FACTOR, style).into_text_style(&(0, 0));
    TextStyle { color: colour.to_backend_color(), ..font }.pos(Pos::new(side, VPos::Top))
}

/// Which series there are, and how they look.
struct Legend {
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    name: String,
    look: Look,
    form: Form,
}

impl Legend {
    /// Series in the order of their first appearance, baselines last.
    fn of(chart: &Chart) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut number = 0;
        for baselines in [false, true] {
            for panel in &chart.panels {
                for series in panel.series.iter().filter(|series| series.baseline == baselines) {
                    if entries.iter().any(|entry| entry.name == series.name) {
                        continue;
                    }
                    let look = if baselines { Look::BASELINE } else { Look::of(number) };
                    number += 1;
                    entries.push(Entry { name: series.name.clone(), look, form: panel.form });
                }
            }
        }
        Self { entries }
    }

    fn look(&self, series: &Series) -> Look {
        let entry = self.entries.iter().find(|entry| entry.name == series.name);
        entry.map_or(Look::BASELINE, |entry| entry.look)
    }

    /// As many entries in a row as fit, with the place of each.
    fn rows(&self, width: u32) -> Vec<Vec<(u32, Entry)>> {
        let mut rows: Vec<Vec<(u32, Entry)>> = vec![Vec::new()];
        let mut next = 4;
        for entry in &self.entries {
            let wide = 44 + 8 * pixels(entry.name.chars().count());
            if next + wide > width && rows.last().is_some_and(|row| !row.is_empty()) {
                rows.push(Vec::new());
                next = 4;
            }
            if let Some(row) = rows.last_mut() {
                row.push((next, entry.clone()));
            }
            next += wide;
        }
        rows
    }
}

fn draw_legend<B: DrawingBackend>(rows: &[Vec<(u32, Entry)>], area: &Area<B>) -> Drawn {
    for (row, entries) in (0_u32..).zip(rows) {
        let middle = signed(row * LEGEND_ROW + LEGEND_ROW / 2);
        for (place, Entry { name, look, form }) in entries {
            let left = signed(*place);
            if *form == Form::Bars {
                area.draw(&Rectangle::new([(left + 8, middle - 5), (left + 22, middle + 5)], look.colour.filled()))?;
            } else {
                area.draw(&PathElement::new(vec![(left, middle), (left + 28, middle)], line_style(*look)))?;
                if let (Form::Lines, Some(marker)) = (form, look.marker) {
                    area.draw(&mark(marker, (left + 14, middle), look.colour))?;
                }
            }
            let label =
                Text::new(name.clone(), (left + 34, middle - 8), text(13.0, INK, FontStyle::Normal, HPos::Left));
            area.draw(&label)?;
        }
    }
    Ok(())
}

fn line_style(look: Look) -> ShapeStyle {
    look.colour.stroke_width(LINE_WIDTH)
}

fn draw_panel<B: DrawingBackend>(panel: &Panel, area: &Area<B>, legend: &Legend, width: u32) -> Drawn {
    let (x, y) = ranges(panel)?;
    let title = text(14.0, INK, FontStyle::Bold, HPos::Left);
    area.draw(&Text::new(panel.title.clone(), (62, 2), title))?;
    let mut chart = ChartBuilder::on(area);
    chart.margin_top(24).margin_right(14).margin_bottom(14);
    chart.x_label_area_size(if panel.x.label.is_empty() { 28 } else { 46 }).y_label_area_size(62);
    let mut chart = chart.build_cartesian_2d(x.clone(), y.clone())?;
    let labels = text(12.0, FAINT, FontStyle::Normal, HPos::Center);
    let (x_label, y_label) = (|number: &f64| x.label(*number), |number: &f64| y.label(*number));
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID.stroke_width(1)).light_line_style(GRID.mix(0.0)).axis_style(FAINT.stroke_width(1));
    mesh.x_labels(if width > 500 { 12 } else { 6 }).y_labels(6).set_all_tick_mark_size(4).label_style(labels);
    mesh.axis_desc_style(text(13.0, INK, FontStyle::Normal, HPos::Center));
    mesh.x_label_formatter(&x_label).y_label_formatter(&y_label);
    mesh.x_desc(panel.x.label.clone()).y_desc(panel.y.label.clone());
    if matches!(panel.x.scale, Scale::Names(_)) {
        mesh.disable_x_mesh();
    }
    mesh.draw()?;
    let area = chart.plotting_area();
    let drawable = |series: &Series| -> Vec<(f64, f64, Option<f64>)> {
        let points = series.points.iter().filter(|point| x.has(point.x) && y.has(point.y));
        points.map(|point| (point.x, point.y, point.error)).collect()
    };
    match panel.form {
        Form::Lines | Form::Curves => {
            for series in &panel.series {
                draw_line(panel.form, &drawable(series), legend.look(series), area, &y)?;
            }
        }
        Form::Bars => draw_bars(panel, legend, area, &y)?,
    }
    let hidden: usize = panel.series.iter().map(|series| series.points.len() - drawable(series).len()).sum();
    if hidden > 0 {
        let what = if hidden == 1 {
            "1 point has no place here".to_owned()
        } else {
            format!("{hidden} points have no place here")
        };
        let right = signed(width) - 16;
        area.strip_coord_spec().draw(&Text::new(
            what,
            (right - 62, 2),
            text(11.0, FAINT, FontStyle::Italic, HPos::Right),
        ))?;
    }
    Ok(())
}

fn ranges(panel: &Panel) -> Result<(Range, Range), PlotError> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x = Range::new(&panel.x, points().map(|point| point.x), false, &panel.title)?;
    let ends = |point: &super::Point| {
        let error = point.error.unwrap_or_default();
        [point.y - error, point.y, point.y + error]
    };
    let y = Range::new(&panel.y, points().flat_map(ends), panel.form == Form::Bars, &panel.title)?;
    Ok((x, y))
}

fn draw_line<B: DrawingBackend>(
    form: Form,
    points: &[(f64, f64, Option<f64>)],
    look: Look,
    area: &PanelArea<B>,
    y: &Range,
) -> Drawn {
    let ends = |(x, middle, error): &(f64, f64, Option<f64>)| {
        error.filter(|error| *error > 0.0).map(|error| (*x, y.within(middle - error), y.within(middle + error)))
    };
    match form {
        Form::Lines => {
            for (x, low, high) in points.iter().filter_map(ends) {
                draw_whisker(area, x, low, high, look.colour)?;
            }
        }
        _ => {
            // A band ends where a point has no error; one of a single point is a bar.
            for run in points.chunk_by(|one, next| ends(one).is_some() == ends(next).is_some()) {
                let upper = run.iter().filter_map(ends).map(|(x, _, high)| (x, high));
                let lower = run.iter().rev().filter_map(ends).map(|(x, low, _)| (x, low));
                let band: Vec<_> = upper.chain(lower).collect();
                match (band.len(), run.first().and_then(ends)) {
                    (2, Some((x, low, high))) if points.len() > 1 => draw_whisker(area, x, low, high, look.colour)?,
                    (3.., _) => area.draw(&Polygon::new(band, look.colour.mix(0.18)))?,
                    _ => {}
                }
            }
        }
    }
    let line: Vec<_> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
    if line.len() > 1 {
        area.draw(&PathElement::new(line.clone(), line_style(look)))?;
    }
    // A baseline of a single point would not be seen at all.
    let marker = look.marker.or((line.len() == 1).then_some(Marker::Ring));
    if let (Form::Lines, Some(marker)) = (form, marker) {
        for place in line {
            area.draw(&(EmptyElement::at(place) + mark(marker, (0, 0), look.colour)))?;
        }
    }
    Ok(())
}

/// A vertical line with a bar at both ends.
fn draw_whisker<B: DrawingBackend>(area: &PanelArea<B>, x: f64, low: f64, high: f64, colour: RGBColor) -> Drawn {
    let style = colour.stroke_width(1);
    area.draw(&PathElement::new(vec![(x, low), (x, high)], style))?;
    for end in [low, high] {
        area.draw(&(EmptyElement::at((x, end)) + PathElement::new(vec![(-3, 0), (3, 0)], style)))?;
    }
    Ok(())
}

fn draw_bars<B: DrawingBackend>(panel: &Panel, legend: &Legend, area: &PanelArea<B>, y: &Range) -> Drawn {
    let count = f64::from(pixels(panel.series.len().max(1)));
    let width = 0.8 / count;
    for (place, series) in (0_u32..).zip(&panel.series) {
        let colour = legend.look(series).colour;
        for point in series.points.iter().filter(|point| point.x.is_finite() && y.has(point.y)) {
            let left = point.x - 0.4 + width * f64::from(place);
            let (from, to) = (left + 0.06 * width, left + 0.94 * width);
            area.draw(&Rectangle::new([(from, y.within(point.y)), (to, y.floor())], colour.filled()))?;
            if let Some(error) = point.error.filter(|error| *error > 0.0) {
                let (low, high) = (y.within(point.y - error), y.within(point.y + error));
                draw_whisker(area, f64::midpoint(from, to), low, high, INK)?;
            }
        }
    }
    Ok(())
}

/// A marker around a pixel.
fn mark<B: DrawingBackend>(marker: Marker, (x, y): (i32, i32), colour: RGBColor) -> DynElement<'static, B, (i32, i32)> {
    use plotters::element::IntoDynElement;
    let at = |offsets: &[(i32, i32)]| -> Vec<(i32, i32)> { offsets.iter().map(|(dx, dy)| (x + dx, y + dy)).collect() };
    let filled = colour.filled();
    let shape = |offsets: &[(i32, i32)]| Polygon::new(at(offsets), filled).into_dyn();
    match marker {
        Marker::Disc => Circle::new((x, y), 4, filled).into_dyn(),
        Marker::Ring => Circle::new((x, y), 4, colour.stroke_width(1)).into_dyn(),
        Marker::Square => Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], filled).into_dyn(),
        Marker::Triangle => shape(&[(0, -5), (5, 4), (-5, 4)]),
        Marker::TriangleDown => shape(&[(0, 5), (5, -4), (-5, -4)]),
        Marker::Diamond => shape(&[(0, -5), (5, 0), (0, 5), (-5, 0)]),
        Marker::Cross => shape(&[
            (-4, -3),
            (-3, -4),
            (0, -1),
            (3, -4),
            (4, -3),
            (1, 0),
            (4, 3),
            (3, 4),
            (0, 1),
            (-3, 4),
            (-4, 3),
            (-1, 0),
        ]),
        Marker::Plus => shape(&[
            (-1, -5),
            (1, -5),
            (1, -1),
            (5, -1),
            (5, 1),
            (1, 1),
            (1, 5),
            (-1, 5),
            (-1, 1),
            (-5, 1),
            (-5, -1),
            (-1, -1),
        ]),
    }
}

/// Adds what plotters cannot say: dashes, colours for dark screens, a name for those who cannot see.
fn finished(svg: &str, chart: &Chart, legend: &Legend) -> String {
    let mut svg = svg.to_owned();
    for entry in &legend.entries {
        let Look { colour, dash, .. } = entry.look;
        if !dash.is_empty() {
            let line = format!(r#"stroke="{}" stroke-width="{LINE_WIDTH}""#, hex(colour));
            let dashed = format!(r#"{line} stroke-dasharray="{dash}""#);
            if !svg.contains(&dashed) {
                svg = svg.replace(&line, &dashed);
            }
        }
    }
    let looks = legend.entries.iter().map(|entry| (entry.look.colour, entry.look.dark));
    let rule = |(colour, light): (RGBColor, &str)| {
        let colour = hex(colour);
        format!(
            ".tidegate-chart [fill=\"{colour}\"]{{fill:{light}}}.tidegate-chart [stroke=\"{colour}\"]{{stroke:{light}}}"
        )
    };
    let dark: String = GROUND.into_iter().chain(looks).map(rule).collect();
    let name = crate::report::escape(&chart.title);
    let head = format!(
        "class=\"tidegate-chart\" role=\"img\">\n<title>{name}</title>\n\
         <style>@media(prefers-color-scheme:dark){{{dark}}}</style>\n"
    );
    // The first tag is the picture's own.
    svg.replacen(">\n", &format!(" {head}"), 1)
}
