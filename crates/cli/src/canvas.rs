//! [`Canvas`]: the terminal that charts are drawn in.

use std::env;
use std::io::{self, IsTerminal};

/// The capabilities of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Canvas {
    /// Characters in a line.
    pub(crate) width: usize,
    /// Whether to use colours.
    pub(crate) coloured: bool,
    /// Whether to use characters beyond ASCII.
    pub(crate) unicode: bool,
}

/// Width without a terminal.
const PLAIN_WIDTH: usize = 80;
/// Smallest and largest width of a chart.
const WIDTHS: (usize, usize) = (40, 200);

impl Canvas {
    /// Detects the capabilities of standard output.
    pub(crate) fn of_stdout(ascii: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = console::Term::stdout().size_checked().filter(|_| terminal);
        let width = width.map_or(PLAIN_WIDTH, |(_, columns)| columns.into()).clamp(WIDTHS.0, WIDTHS.1);
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        // The first variable that is set decides (POSIX); without any, only ASCII is certain.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_uppercase();
        let unicode = !ascii && (locale.contains("UTF-8") || locale.contains("UTF8"));
        Self { width, coloured: terminal && set("NO_COLOR").is_none(), unicode }
    }

    /// Returns coloured text, where colours are wanted.
    pub(crate) fn paint(&self, colour: &str, text: &str) -> String {
        if self.coloured && !text.trim().is_empty() { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
