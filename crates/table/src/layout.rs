//! Figures and aligned columns, as plain text.

/// The escape sequences around bold type.
const BOLD: [&str; 2] = ["\u{1b}[1m", "\u{1b}[0m"];

/// Aligns a table whose first row is its header: columns of numbers to the right, others to the left.
///
/// Columns are two spaces apart. No line ends in spaces.
pub fn layout(rows: &[Vec<String>]) -> String {
    layout_with(rows, |_, _| false)
}

/// Like [`layout`], with cells in bold type where `is_bold` holds for the row and column.
pub fn layout_with(rows: &[Vec<String>], is_bold: impl Fn(usize, usize) -> bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let is_numeric = |column: usize| {
        let mut cells =
            rows.iter().skip(1).filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
        cells.peek().is_some()
            && cells.all(|cell| cell.starts_with(|first: char| first.is_ascii_digit() || first == '-'))
    };
    let numeric: Vec<bool> = (0..columns).map(is_numeric).collect();
    let mut text = String::new();
    for (line, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let space = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let cell = if is_bold(line, column) { format!("{}{cell}{}", BOLD[0], BOLD[1]) } else { cell.clone() };
            if numeric[column] { space + &cell } else { cell + &space }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Formats a number with four significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size @ 0.01..10_000.0 => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and 5
            let decimals = (3.0 - size.log10().floor()) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.3e}"),
    }
}

/// A number with two significant digits, and commas between thousands.
pub fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    #[allow(clippy::cast_possible_truncation)] // logarithms of floats are small
    let digits = value.abs().log10().floor() as i32;
    let unit = 10_f64.powi(digits - 1);
    let rounded = (value / unit).round() * unit;
    if digits < 1 {
        let decimals = usize::try_from(1 - digits).unwrap_or_default();
        let text = format!("{rounded:.decimals$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{rounded:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut text = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{figure, layout, layout_with};

    #[test]
    fn words_go_left_and_numbers_go_right() {
        let rows = [["name", "count"], ["é", "5"], ["longer", "-10"], ["x", ""]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        assert_eq!(layout(&rows), "name    count\né           5\nlonger    -10\nx\n");
        assert_eq!(layout(&[]), "");
        let bold = layout_with(&rows, |line, column| (line, column) == (1, 1));
        assert_eq!(bold, "name    count\né           \u{1b}[1m5\u{1b}[0m\nlonger    -10\nx\n");
    }

    #[test]
    fn figures_have_two_digits() {
        let figures = [0.0, 0.012_34, 0.5, 2.96, 40.0, 999.0, 1_234.0, 1_234_567.0, -55_555.0].map(figure);
        assert_eq!(figures, ["0", "0.012", "0.5", "3", "40", "1,000", "1,200", "1,200,000", "-56,000"]);
    }
}
