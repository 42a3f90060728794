//! The house style: colours, dashes, markers, sizes.

use plotters::style::RGBColor;

/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
/// What explains, and baselines.
pub(super) const FAINT: RGBColor = RGBColor(0x6b, 0x72, 0x7a);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xe9);

/// Those three on a light and on a dark screen.
pub(super) const GROUND: [(RGBColor, &str); 3] = [(INK, "#e6e8ea"), (FAINT, "#9aa2aa"), (GRID, "#3a4046")];

/// By Okabe and Ito, without black and yellow, which vanish on dark and light ground, and with violet and olive
/// instead; each with what it becomes on a dark screen.
const PALETTE: [(RGBColor, &str); 8] = [
    (RGBColor(0x00, 0x72, 0xb2), "#4aa3df"),
    (RGBColor(0xd5, 0x5e, 0x00), "#f0743a"),
    (RGBColor(0x00, 0x9e, 0x73), "#25bd92"),
    (RGBColor(0xcc, 0x79, 0xa7), "#d98ab8"),
    (RGBColor(0x56, 0xb4, 0xe9), "#7cc8f2"),
    (RGBColor(0xe6, 0x9f, 0x00), "#f0b429"),
    (RGBColor(0x6a, 0x4c, 0xb0), "#a58ae0"),
    (RGBColor(0x8c, 0x8a, 0x2e), "#b3b04a"),
];

/// Dashes, in pixels drawn and left out; a solid line is empty.
const DASHES: [&str; 5] = ["", "7 3", "2 2", "8 3 2 3", "4 2"];
/// The dash of baselines.
const BASELINE_DASH: &str = "1 3";

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// No two series of a chart have quite the same: a dash is found by it.
    pub(super) colour: RGBColor,
    /// Its colour on a dark screen.
    pub(super) dark: &'static str,
    pub(super) dash: &'static str,
    pub(super) marker: Option<Marker>,
}

/// What marks a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Disc,
    Square,
    Triangle,
    Diamond,
    Cross,
    Plus,
    TriangleDown,
    Ring,
}

const MARKERS: [Marker; 8] = [
    Marker::Disc,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Cross,
    Marker::Plus,
    Marker::TriangleDown,
    Marker::Ring,
];

impl Look {
    /// Of the series with this number among those of a chart. Colour, dash and marker repeat with different periods, so
    /// that 40 series can be told apart.
    pub(super) fn of(number: usize) -> Self {
        let (RGBColor(red, green, blue), dark) = PALETTE[number % PALETTE.len()];
        // A shade that nobody sees, but that is another colour.
        let shade = u8::try_from(number / PALETTE.len() % 8).unwrap_or_default();
        Self {
            colour: RGBColor(red, green, blue ^ shade),
            dark,
            dash: DASHES[number % DASHES.len()],
            marker: Some(MARKERS[number % MARKERS.len()]),
        }
    }

    pub(super) const BASELINE: Self = Self { colour: FAINT, dark: "#9aa2aa", dash: BASELINE_DASH, marker: None };
}

/// A colour as SVG writes it.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
