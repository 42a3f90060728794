//! Text charts: the truth as an area, the releases as a line.

use crate::canvas::Canvas;

/// Characters before the chart: a percentage and the axis.
const MARGIN: usize = 7;

/// ANSI colours of the area and of the line.
const AREA: &str = "36";
const LINE: &str = "1;33";

impl Canvas {
    /// Returns the legend.
    pub(crate) fn legend(&self) -> String {
        let (area, line) = if self.unicode { ("▄░", "⠒⠒") } else { ("::", "**") };
        format!("{} truth   {} released", self.paint(AREA, area), self.paint(LINE, line))
    }

    /// Breaks a paragraph into lines.
    pub(crate) fn paragraph(&self, text: &str) -> String {
        let mut lines = String::new();
        let mut column = 0;
        for word in text.split_whitespace() {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > self.width {
                lines.push('\n');
                column = 0;
            } else if column > 0 {
                lines.push(' ');
                column += 1;
            }
            lines.push_str(word);
            column += length;
        }
        lines + "\n"
    }

    /// Draws a chart in per cent, with `rows` lines, and marks the start of each day below.
    pub(crate) fn draw(&self, truth: &[f64], released: &[f64], rows: usize, day: usize) -> String {
        let columns = self.width - MARGIN;
        let points = truth.len();
        let (truth, released) = (resampled(truth, columns), resampled(released, columns));
        let highest = truth.iter().chain(&released).copied().fold(0.01, f64::max);
        // Round the top up to a multiple of 5 %.
        let top = (highest * 20.0).ceil() / 20.0;
        let rows_f = f64::from(u32::try_from(rows).unwrap_or(u32::MAX));
        // In rows from the bottom.
        let height = |share: f64| (share / top).clamp(0.0, 1.0) * rows_f;
        let mut text = String::new();
        for row in (0..rows).rev() {
            let base = f64::from(u32::try_from(row).unwrap_or(u32::MAX));
            let percent = match row {
                row if row + 1 == rows => format!("{:3.0} %", 100.0 * top),
                0 => "  0 %".to_owned(),
                _ => "     ".to_owned(),
            };
            text += &format!("{percent} {}", if self.unicode { '│' } else { '|' });
            for (truth, released) in truth.iter().zip(&released) {
                // The highest point of the line belongs to the highest row.
                let line = height(*released).min(rows_f - 1e-9) - base;
                if (0.0..1.0).contains(&line) {
                    text += &self.paint(LINE, self.line(line));
                } else {
                    text += &self.paint(AREA, self.area(height(*truth) - base));
                }
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text + &self.axis(columns, points, day)
    }

    /// Returns a cell of the area, filled to a share of its height.
    fn area(&self, filled: f64) -> &'static str {
        const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "▇"];
        match filled {
            filled if filled >= 1.0 => {
                if self.unicode {
                    "░"
                } else {
                    ":"
                }
            }
            filled if !self.unicode => {
                if filled >= 0.5 {
                    ":"
                } else {
                    " "
                }
            }
            filled => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 8
                let eighths = (filled.clamp(0.0, 1.0) * 8.0).round() as usize;
                EIGHTHS[eighths]
            }
        }
    }

    /// Returns a piece of the line, at a share of its cell's height.
    fn line(&self, place: f64) -> &'static str {
        const QUARTERS: [&str; 4] = ["⣀", "⠤", "⠒", "⠉"];
        if !self.unicode {
            return "*";
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 3
        let quarter = (place.clamp(0.0, 0.999) * 4.0) as usize;
        QUARTERS[quarter]
    }

    fn axis(&self, columns: usize, points: usize, day: usize) -> String {
        let (corner, rule, tick) = if self.unicode { ('└', '─', '┬') } else { ('+', '-', '+') };
        let points = points.max(1);
        let mut line: Vec<char> = vec![rule; columns];
        let mut labels = vec![' '; columns];
        for start in (0..points).step_by(day.max(1)) {
            let column = start * columns / points;
            if let Some(place) = line.get_mut(column) {
                *place = tick;
            }
            let number = (start / day.max(1) + 1).to_string();
            let free = labels.get(column.saturating_sub(1)..(column + number.len()).min(columns));
            if free
                .is_some_and(|free| free.iter().all(|character| *character == ' ') && column + number.len() <= columns)
            {
                labels.splice(column..column + number.len(), number.chars());
            }
        }
        let (line, labels): (String, String) = (line.into_iter().collect(), labels.into_iter().collect());
        format!("      {corner}{line}\n  day  {}\n", labels.trim_end())
    }
}

/// Resamples points to columns: the mean of the points in a column, or else the nearest point.
fn resampled(points: &[f64], columns: usize) -> Vec<f64> {
    let last = points.len().saturating_sub(1);
    let column = |column: usize| {
        let start = (column * points.len() / columns).min(last);
        let end = ((column + 1) * points.len() / columns).clamp(start + 1, points.len().max(start + 1));
        let part = points.get(start..end).unwrap_or_default();
        part.iter().sum::<f64>() / part.len().max(1) as f64
    };
    (0..columns).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCII: Canvas = Canvas { width: MARGIN + 6, coloured: false, unicode: false };

    #[test]
    fn truth_is_an_area_and_what_was_released_a_line() {
        let chart = ASCII.draw(&[0.0, 0.5, 1.0], &[0.2, 0.6, 0.9], 4, 2);
        let expected = "\
100 % |    **
      |  **::
      |  ::::
  0 % |**::::
      ++---+-
  day  1   2
";
        assert_eq!(chart, expected);
    }

    #[test]
    fn other_characters_show_more_and_no_line_is_too_long() {
        let canvas = Canvas { width: 80, coloured: false, unicode: true };
        let wave: Vec<f64> = (0..336).map(|hour| 0.2 + 0.1 * (f64::from(hour) / 4.0).sin()).collect();
        let chart = canvas.draw(&wave, &wave, 5, 24);
        assert!(chart.lines().all(|line| line.chars().count() <= 80), "{chart}");
        assert!(!chart.contains('\x1b') && chart.contains('░') && "⣀⠤⠒⠉".chars().any(|mark| chart.contains(mark)));
        let coloured = Canvas { coloured: true, ..canvas }.draw(&wave, &wave, 5, 24);
        let stripped = [AREA, LINE]
            .iter()
            .fold(coloured.replace("\x1b[0m", ""), |text, colour| text.replace(&format!("\x1b[{colour}m"), ""));
        assert_eq!(stripped, chart);
    }

    #[test]
    fn paragraphs_are_broken_between_words() {
        assert_eq!(
            ASCII.paragraph("one two three four a-word-that-is-too-long"),
            "one two three\nfour\na-word-that-is-too-long\n"
        );
    }

    #[test]
    fn few_points_are_stretched_and_many_averaged() {
        assert!(resampled(&[1.0, 3.0], 4) == [1.0, 1.0, 3.0, 3.0]);
        assert!(resampled(&[1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]);
        assert!(resampled(&[1.0, 2.0, 3.0], 3) == [1.0, 2.0, 3.0]);
    }
}
