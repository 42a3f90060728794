//! Releases as text: a line in braille or ASCII, its band shaded, the truth as dots.

use super::series::{Line, Shown};
use crate::canvas::Canvas;
use crate::table::short;

/// Lines of a chart alone, and of one among several.
const HEIGHTS: (usize, usize) = (12, 7);
/// Characters before the chart: a number and the axis.
const MARGIN: usize = 11;

/// ANSI colours.
const RELEASED: &str = "1;33";
const BAND: &str = "36";
const TRUTH: &str = "32";

/// Dots in a cell, from left to right and from top to bottom.
const ACROSS: usize = 2;
const DOWN: usize = 4;

/// Draws all series, one below the other.
pub(super) fn draw(shown: &Shown, title: &str, left_out: usize, canvas: Canvas) -> String {
    let rows = if shown.lines.len() == 1 { HEIGHTS.0 } else { HEIGHTS.1 };
    let mut text = format!("{title}\n");
    for line in &shown.lines {
        let title = line.title();
        let name = if title.is_empty() { shown.quantity.name() } else { &title };
        text += &format!("\n{name}\n{}", Grid::of(shown, line, rows, canvas).draw());
    }
    let marks = if canvas.unicode { ["⠒⠒", "░░", "··"] } else { ["**", "::", "oo"] };
    text += &format!("\n{} released  {} 95 % band", canvas.paint(RELEASED, marks[0]), canvas.paint(BAND, marks[1]));
    if shown.lines.iter().any(Line::has_truth) {
        text += &format!("  {} truth (not private)", canvas.paint(TRUTH, marks[2]));
    }
    text.push('\n');
    if left_out > 0 {
        let has_series = shown.lines.iter().any(|line| !line.series.is_empty());
        let of_series = if has_series { " or --series NAME" } else { "" };
        text += &format!("{left_out} others are not shown; --value NAME{of_series} shows one\n");
    }
    text
}

/// A cell of a chart.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Dots of the released line, as braille counts them.
    dots: u8,
    band: bool,
    truth: bool,
}

/// The cells of a chart.
struct Grid {
    canvas: Canvas,
    columns: usize,
    cells: Vec<Vec<Cell>>,
    ends: (f64, f64),
    first: String,
    last: String,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // places in a chart
impl Grid {
    fn of(shown: &Shown, line: &Line, rows: usize, canvas: Canvas) -> Self {
        let columns = canvas.width.saturating_sub(MARGIN).max(1);
        let (first, last) = match (line.samples.first(), line.samples.last()) {
            (Some(first), Some(last)) => (first.timestamp, last.timestamp),
            _ => (0, 0),
        };
        let bands: Vec<Option<(f64, f64)>> =
            line.samples.iter().map(|sample| sample.interval(shown.quantity)).collect();
        let ends = range(line, &bands);
        let mut grid = Self {
            canvas,
            columns,
            cells: vec![vec![Cell::default(); columns]; rows],
            ends,
            first: shown.time(first),
            last: shown.time(last),
        };
        let width = (last - first).max(1) as f64;
        // Places in dots, from the left and from the top.
        let across = (columns * ACROSS - 1) as f64;
        let x = |timestamp: u64| (timestamp - first) as f64 / width * across;
        let points: Vec<(f64, f64)> = line.samples.iter().map(|sample| (x(sample.timestamp), sample.value)).collect();
        for dot in 0..columns * ACROSS {
            let (low, high) =
                (at(&points, &bands, dot as f64, |band| band.0), at(&points, &bands, dot as f64, |band| band.1));
            if let (Some(low), Some(high)) = (low, high) {
                grid.shade(dot / ACROSS, low, high);
            }
        }
        for (t, value) in &line.truth {
            let (row, column) = (grid.dot(*value) / DOWN, x(*t) as usize / ACROSS);
            grid.cells[row][column].truth = true;
        }
        for pair in points.windows(2) {
            grid.join(pair[0], pair[1]);
        }
        if let [only] = points[..] {
            grid.join(only, only);
        }
        grid
    }

    /// The row of dots of a number, from the top.
    fn dot(&self, value: f64) -> usize {
        let dots = self.cells.len() * DOWN - 1;
        let (low, high) = self.ends;
        let share = ((high - value) / (high - low)).clamp(0.0, 1.0);
        (share * dots as f64).round() as usize
    }

    fn shade(&mut self, column: usize, low: f64, high: f64) {
        let (top, bottom) = (self.dot(high) / DOWN, self.dot(low) / DOWN);
        self.cells.iter_mut().take(bottom + 1).skip(top).for_each(|row| row[column].band = true);
    }

    /// Draws a straight line.
    fn join(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (start, end) = (from.0.round() as usize, to.0.round() as usize);
        let mut above = self.dot(from.1);
        for dot in start..=end {
            let share = if end > start { (dot - start) as f64 / (end - start) as f64 } else { 0.0 };
            let here = self.dot((to.1 - from.1).mul_add(share, from.1));
            for row in above.min(here)..=above.max(here) {
                self.set(dot, row);
            }
            above = here;
        }
    }

    fn set(&mut self, across: usize, down: usize) {
        const BITS: [[u8; DOWN]; ACROSS] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        if let Some(cell) = self.cells.get_mut(down / DOWN).and_then(|row| row.get_mut(across / ACROSS)) {
            cell.dots |= BITS[across % ACROSS][down % DOWN];
        }
    }

    fn character(&self, cell: Cell) -> String {
        let Canvas { unicode, .. } = self.canvas;
        if cell.dots != 0 {
            let braille = char::from_u32(0x2800 + u32::from(cell.dots)).unwrap_or('*');
            return self.canvas.paint(RELEASED, &if unicode { braille } else { '*' }.to_string());
        }
        if cell.truth {
            return self.canvas.paint(TRUTH, if unicode { "·" } else { "o" });
        }
        if cell.band {
            return self.canvas.paint(BAND, if unicode { "░" } else { ":" });
        }
        " ".to_owned()
    }

    fn draw(&self) -> String {
        let (bar, corner, rule) = if self.canvas.unicode { ('│', '└', "─") } else { ('|', '+', "-") };
        let mut text = String::new();
        let last = self.cells.len().saturating_sub(1);
        for (number, row) in self.cells.iter().enumerate() {
            let label = match number {
                0 => short(self.ends.1),
                number if number == last => short(self.ends.0),
                _ => String::new(),
            };
            let cells: String = row.iter().map(|cell| self.character(*cell)).collect();
            text += &format!("{label:>9} {bar}{}", cells.trim_end());
            text.push('\n');
        }
        text += &format!("{:>9} {corner}{}\n", "", rule.repeat(self.columns));
        let space = self.columns.saturating_sub(self.first.chars().count() + self.last.chars().count()).max(1);
        text + &format!("{:>11}{}{}{}\n", "", self.first, " ".repeat(space), self.last)
    }
}

/// The numbers that must have a place.
fn range(line: &Line, bands: &[Option<(f64, f64)>]) -> (f64, f64) {
    let values = line.samples.iter().map(|sample| sample.value).chain(line.truth.iter().map(|(_, value)| *value));
    let numbers = values.chain(bands.iter().flatten().flat_map(|(low, high)| [*low, *high]));
    let (low, high) =
        numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)));
    if high > low { (low, high) } else { (low - 0.5, high + 0.5) }
}

/// One end of the band at a place, between two points on a straight line. Beside a point without a band, the band of
/// the other reaches half a dot.
fn at(
    points: &[(f64, f64)],
    bands: &[Option<(f64, f64)>],
    place: f64,
    end: impl Fn(&(f64, f64)) -> f64,
) -> Option<f64> {
    let after = points.partition_point(|(x, _)| *x < place);
    let known = |index: usize| Some((points.get(index)?.0, end(bands.get(index)?.as_ref()?)));
    let near = |(x, end): (f64, f64)| ((x - place).abs() <= 0.5).then_some(end);
    match (after.checked_sub(1).and_then(known), known(after)) {
        (Some((left, low)), Some((right, high))) if right > left => {
            Some((high - low).mul_add((place - left) / (right - left), low))
        }
        (_, Some((_, high))) if after == 0 => Some(high),
        (Some((_, low)), None) if after == points.len() => Some(low),
        (one, other) => other.and_then(near).or(one.and_then(near)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shown(table: &str) -> Shown {
        Shown::read("table", table.as_bytes()).unwrap()
    }

    #[test]
    fn a_release_without_a_variance_has_no_band() {
        let bands = [Some((0.0, 2.0)), None, None, Some((4.0, 6.0)), Some((4.0, 6.0))];
        let points = [(0.0, 1.0), (10.0, 1.0), (20.0, 1.0), (30.0, 5.0), (40.0, 5.0)];
        let low = |place: f64| at(&points, &bands, place, |band| band.0);
        assert_eq!([0.0, 5.0, 10.0, 25.0, 30.0, 35.0].map(low), [Some(0.0), None, None, None, Some(4.0), Some(4.0)]);
        let shown = shown("t,value,variance,freshness\n0,1,1,fresh\n1,1,,approximated\n");
        let stated: Vec<bool> = shown.lines[0].samples.iter().map(|sample| sample.half().is_some()).collect();
        assert_eq!(stated, [true, false]);
    }

    #[test]
    fn a_chart_has_line_band_truth_and_times() {
        let mut shown = shown(
            "t,time,value,variance,freshness\n0,mon,0,1,fresh\n1,tue,4,1,fresh\n2,wed,8,1,fresh\n3,thu,4,1,fresh\n",
        );
        shown.add_truth("truth", "t,value\n0,1\n1,4\n2,3\n3,5\n".as_bytes(), None).unwrap();
        let canvas = Canvas { width: MARGIN + 20, coloured: false, unicode: false };
        let expected = "\
numbers

value
    9.960 |            :::
          |          :::::::
          |        :::*****::
          |       :::**:::**:::
          |     :::***:::::***:
          |   ::::**:::   :::**
          |  :::***::   o  :::*
          |:::***:::         ::
          |o:**:::
          |***::
          |::::
   -1.960 |::
          +--------------------
           mon              thu

** released  :: 95 % band  oo truth (not private)
";
        let drawn = draw(&shown, "numbers", 0, canvas);
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let table: String =
            (0..500).map(|t| format!("{t},a,{},0.0001,fresh\n", 0.5 + 0.4 * f64::from(t).sin())).collect();
        let shown = shown(&format!("t,value,frequency,variance,freshness\n{table}"));
        for width in [30, 80, 200] {
            let chart = draw(&shown, "t", 3, Canvas { width, coloured: false, unicode: true });
            let longest = chart.lines().filter(|line| !line.contains("--value")).map(|line| line.chars().count()).max();
            assert!(longest.unwrap() <= width.max(40), "{chart}");
            assert!(chart.contains('░') && chart.chars().any(|mark| ('\u{2801}'..='\u{28ff}').contains(&mark)));
        }
        let coloured = draw(&shown, "t", 0, Canvas { width: 40, coloured: true, unicode: true });
        assert!(coloured.contains("\x1b[1;33m"));
    }

    #[test]
    fn one_release_can_be_drawn() {
        let chart =
            draw(&shown("t,value,variance\n7,3,0\n"), "t", 0, Canvas { width: 40, coloured: false, unicode: false });
        assert!(chart.contains('*'), "{chart}");
    }
}
