//! Charts as SVG: lines with error bars, curves, grouped bars, several panels with one legend.
//!
//! A [`Chart`] is plain data and [`Chart::to_svg`] draws it, in one style for all. Text stays text. Every series has a
//! colour that people with the common kinds of colour blindness can tell from the others, and a dash and a marker of
//! its own besides. The picture stands alone: it has no background, and a style sheet of its own turns ink and grid
//! light where the reader's screen is dark. It can be put into an HTML page as it is.
//!
//! ```
//! use tidegate_lab::plot::{Axis, Chart, Panel, Point, Series};
//!
//! let series = Series::new("lpu", vec![Point::with_error(0.5, 0.02, 0.001), Point::new(1.0, 0.01)]);
//! let panel = Panel::lines("sin", Axis::linear("epsilon"), Axis::log("mean squared error"), vec![series]);
//! let svg = Chart::new("Error by budget", vec![panel]).to_svg()?;
//! assert!(svg.starts_with("<svg ") && svg.contains("epsilon"));
//! # Ok::<(), tidegate_lab::plot::PlotError>(())
//! ```

mod axis;
mod draw;
mod style;

use crate::metrics::{RocPoint, Summary};

/// One or more panels under a title, with a legend that holds for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// How many panels stand side by side, at least one.
    pub columns: usize,
}

impl Chart {
    /// A chart with two or three panels side by side: two where that fills all rows, and three does not.
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        let columns = match panels.len() {
            panels if panels.is_multiple_of(2) && !panels.is_multiple_of(3) => 2,
            panels => panels.clamp(1, 3),
        };
        Self { title: title.into(), panels, columns }
    }

    /// The picture, as the text of an `<svg>` element. An error where there is nothing to draw.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        draw::to_svg(self)
    }
}

/// A pair of axes with what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What stands above it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// How series are drawn.
    pub form: Form,
    /// What is drawn. A series of the same name looks the same in all panels of a chart.
    pub series: Vec<Series>,
}

impl Panel {
    /// Points joined by lines, with markers and, where points have errors, error bars.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), x, y, form: Form::Lines, series }
    }

    /// Lines without markers, for many points; where points have errors, a band around the line.
    pub fn curves(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), x, y, form: Form::Curves, series }
    }

    /// Groups of bars, one for each of the names; the `x` of a point is the place of its group, from zero.
    pub fn bars(title: impl Into<String>, names: Vec<String>, y: Axis, series: Vec<Series>) -> Self {
        let x = Axis { label: String::new(), scale: Scale::Names(names), limits: None };
        Self { title: title.into(), x, y, form: Form::Bars, series }
    }

    /// ROC curves, with the diagonal that knows nothing.
    pub fn roc<'a>(title: impl Into<String>, curves: impl IntoIterator<Item = (&'a str, &'a [RocPoint])>) -> Self {
        let point = |point: &RocPoint| Point::new(point.false_positive_rate, point.true_positive_rate);
        let mut series: Vec<_> =
            curves.into_iter().map(|(name, curve)| Series::new(name, curve.iter().map(point).collect())).collect();
        series.push(Series::new("chance", vec![Point::new(0.0, 0.0), Point::new(1.0, 1.0)]).baseline());
        let axis = |label: &str| Axis { limits: Some((0.0, 1.0)), ..Axis::linear(label) };
        Self::curves(title, axis("false positive rate"), axis("true positive rate"), series)
    }
}

/// How the series of a panel are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With markers and error bars.
    Lines,
    /// Without markers, errors as a band.
    Curves,
    /// Side by side.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is on it, with its unit.
    pub label: String,
    /// How numbers become places.
    pub scale: Scale,
    /// Where it begins and ends; as the points need it unless given.
    pub limits: Option<(f64, f64)>,
}

impl Axis {
    /// Equal differences have equal lengths.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, limits: None }
    }

    /// Equal ratios have equal lengths.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, limits: None }
    }
}

/// How numbers become places on an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths. Numbers that are not positive have no place: the panel says how many there
    /// were.
    Log,
    /// A name at each of 0, 1, 2, ...
    Names(Vec<String>),
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
    /// Whether it is there for comparison only: grey and dotted, at the end of the legend.
    pub baseline: bool,
}

impl Series {
    /// An ordinary series.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), points, baseline: false }
    }

    /// The same, for comparison only.
    #[must_use]
    pub fn baseline(self) -> Self {
        Self { baseline: true, ..self }
    }
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// Its place on the vertical axis.
    pub y: f64,
    /// How far the error bar reaches to either side; none is drawn where it is `None`.
    pub error: Option<f64>,
}

impl Point {
    /// A point without an error bar.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, error: None }
    }

    /// A point with an error bar from `y - error` to `y + error`.
    pub const fn with_error(x: f64, y: f64, error: f64) -> Self {
        Self { x, y, error: Some(error) }
    }

    /// The mean of repeated runs, with its standard error.
    pub const fn of(x: f64, summary: Summary) -> Self {
        Self { x, y: summary.mean, error: summary.standard_error }
    }
}

/// Why a chart cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A chart without panels.
    #[error("the chart {chart:?} has no panels")]
    NoPanels {
        /// Its title.
        chart: String,
    },
    /// No point of a panel has a place on its axes.
    #[error("the panel {panel:?} has no point that can be drawn")]
    NoPoints {
        /// Its title.
        panel: String,
    },
    /// Limits that are not two finite numbers in ascending order, positive where the axis is logarithmic.
    #[error("the panel {panel:?} has an axis with limits {limits} that it cannot have")]
    Limits {
        /// The panel's title.
        panel: String,
        /// What was given.
        limits: String,
    },
    /// The drawing library failed.
    #[error("the chart cannot be drawn: {0}")]
    Drawing(String),
}
