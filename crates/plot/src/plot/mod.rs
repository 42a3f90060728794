//! Charts as SVG or PNG: lines with error bars, curves, grouped bars, several panels with one legend.
//!
//! A [`Chart`] is plain data; [`Chart::to_svg`] and [`Chart::to_png`] draw it. In SVG, text stays text. Series differ
//! in colour (a palette for colour blindness), dash and marker. The SVG has no background, adapts to dark screens by
//! its own style sheet, and can be embedded in HTML.
//!
//! ```
//! use tidegate_plot::plot::{Axis, Chart, Panel, Point, Series};
//!
//! let series = Series::new("lpu", vec![Point::with_error(0.5, 0.02, 0.001), Point::new(1.0, 0.01)]);
//! let panel = Panel::lines("sin", Axis::linear("epsilon"), Axis::log("mean squared error"), vec![series]);
//! let svg = Chart::new("Error by budget", vec![panel]).to_svg()?;
//! assert!(svg.starts_with("<svg ") && svg.contains("epsilon"));
//! # Ok::<(), tidegate_plot::plot::PlotError>(())
//! ```

mod axis;
mod draw;
mod pixels;
mod style;

/// One or more panels with a title and a common legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// Panels in a row, at least one.
    pub columns: usize,
    /// The width of a panel, in pixels.
    pub panel_width: u32,
}

/// Width of a panel beside others, and of one that has a row to itself.
const PANEL_WIDTHS: (u32, u32) = (350, 760);

impl Chart {
    /// Creates a chart with two panels in a row if that fills all rows, or else three.
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        let columns = match panels.len() {
            panels if panels.is_multiple_of(2) && !panels.is_multiple_of(3) => 2,
            panels => panels.clamp(1, 3),
        };
        Self { title: title.into(), panels, columns, panel_width: PANEL_WIDTHS.0 }
    }

    /// Creates a chart of wide panels, one below the other, for long series.
    pub fn wide(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        Self { columns: 1, panel_width: PANEL_WIDTHS.1, ..Self::new(title, panels) }
    }

    /// Returns the chart as an `<svg>` element; an error if there is nothing to draw.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        draw::to_svg(self)
    }

    /// Returns the chart as a PNG file on white ground, with two pixels for each of SVG's; an error if there is nothing
    /// to draw, or too much. Letters other than Latin ones are drawn as question marks.
    pub fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        draw::to_png(self)
    }
}

/// A pair of axes with its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The style of the series.
    pub form: Form,
    /// The series. Series of one name look alike in all panels of a chart.
    pub series: Vec<Series>,
}

impl Panel {
    /// Creates a panel of lines with markers and error bars.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), x, y, form: Form::Lines, series }
    }

    /// Creates a panel of lines without markers, with bands as errors, for many points.
    pub fn curves(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), x, y, form: Form::Curves, series }
    }

    /// Creates a panel of bars in groups; the `x` of a point is the number of its group, from zero.
    pub fn bars(title: impl Into<String>, names: Vec<String>, y: Axis, series: Vec<Series>) -> Self {
        let x = Axis { label: String::new(), scale: Scale::Names(names), limits: None };
        Self { title: title.into(), x, y, form: Form::Bars, series }
    }

    /// Creates a panel of ROC curves with the diagonal of a random guess. A point of a curve is its false positive rate
    /// and its true positive rate.
    pub fn roc<'a>(title: impl Into<String>, curves: impl IntoIterator<Item = (&'a str, &'a [(f64, f64)])>) -> Self {
        let point = |&(false_positives, true_positives): &(f64, f64)| Point::new(false_positives, true_positives);
        let mut series: Vec<_> =
            curves.into_iter().map(|(name, curve)| Series::new(name, curve.iter().map(point).collect())).collect();
        series.push(Series::new("chance", vec![Point::new(0.0, 0.0), Point::new(1.0, 1.0)]).baseline());
        let axis = |label: &str| Axis { limits: Some((0.0, 1.0)), ..Axis::linear(label) };
        Self::curves(title, axis("false positive rate"), axis("true positive rate"), series)
    }
}

/// The style of a panel's series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines with markers and error bars.
    Lines,
    /// Lines without markers, errors as a band.
    Curves,
    /// Bars side by side.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// The ends; by default, those of the points.
    pub limits: Option<(f64, f64)>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, limits: None }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, limits: None }
    }
}

/// The scale of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic. The panel states how many numbers were not positive and are left out.
    Log,
    /// Names at 0, 1, 2, ..
    Names(Vec<String>),
    /// Linear, with a text for each of these timestamps, in ascending order. Some of them are written at the axis.
    Times(Vec<(u64, String)>),
}

/// A named series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points, in drawing order.
    pub points: Vec<Point>,
    /// Drawn grey and dotted, at the end of the legend.
    pub baseline: bool,
}

impl Series {
    /// Creates a series.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), points, baseline: false }
    }

    /// Turns the series into a baseline.
    #[must_use]
    pub fn baseline(self) -> Self {
        Self { baseline: true, ..self }
    }
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The horizontal coordinate.
    pub x: f64,
    /// The vertical coordinate.
    pub y: f64,
    /// Half the length of the error bar, if there is one.
    pub error: Option<f64>,
}

impl Point {
    /// Creates a point without an error bar.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, error: None }
    }

    /// Creates a point with an error bar from `y - error` to `y + error`.
    pub const fn with_error(x: f64, y: f64, error: f64) -> Self {
        Self { x, y, error: Some(error) }
    }

    /// Creates a point from a mean with its standard error, if that is known.
    pub const fn of(x: f64, mean: f64, standard_error: Option<f64>) -> Self {
        Self { x, y: mean, error: standard_error }
    }
}

/// A chart that cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum PlotError {
    /// A chart without panels.
    #[error("the chart {chart:?} has no panels")]
    NoPanels { chart: String },
    /// No point of a panel has a place on its axes.
    #[error("the panel {panel:?} has no point that can be drawn")]
    NoPoints { panel: String },
    /// Limits that are not two finite numbers in ascending order, positive where the axis is logarithmic.
    #[error("the panel {panel:?} has an axis with limits {limits} that it cannot have")]
    Limits { panel: String, limits: String },
    /// A picture with too many pixels.
    #[error("the picture would have {width} by {height} pixels, more than {most}: draw fewer panels, or draw SVG")]
    TooLarge { width: u32, height: u32, most: u32 },
    /// The drawing library failed.
    #[error("the chart cannot be drawn: {0}")]
    Drawing(String),
}
