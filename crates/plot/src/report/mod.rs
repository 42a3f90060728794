//! Reports as self-contained HTML pages: one file with style sheet and pictures, without scripts or network access.
//!
//! All text is escaped. Only pictures ([`Block::Picture`]) are embedded as they are; they come from
//! [`plot`](crate::plot).
//!
//! ```
//! use tidegate_plot::report::{Block, Cell, HtmlReport, Section, Table, Tone};
//!
//! let table = Table::new(["mechanism", "verdict"], vec![vec![Cell::text("lpu"), Cell::badge(Tone::Good, "holds")]]);
//! let section = Section::new("results", "Results").with(Block::text("Errors < 1 %.")).with(Block::Table(table));
//! let page = HtmlReport::new("A report", vec![section]).to_html();
//! assert!(page.contains("Errors &lt; 1 %."));
//! ```

mod style;

use std::fmt::Write;

/// An HTML page.
#[derive(Clone, Debug, PartialEq)]
pub struct HtmlReport {
    /// The title.
    pub title: String,
    /// Blocks before the table of contents.
    pub lead: Vec<Block>,
    /// Sections, listed in the table of contents.
    pub sections: Vec<Section>,
}

/// A section with a heading, perhaps with subsections.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The anchor: letters, digits and hyphens. Other characters become hyphens.
    pub id: String,
    /// The heading.
    pub title: String,
    /// Labels beside the heading in the table of contents.
    pub badges: Vec<Cell>,
    /// The content.
    pub blocks: Vec<Block>,
    /// The subsections.
    pub sections: Vec<Self>,
}

/// A block of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(Vec<Span>),
    /// A paragraph in small type.
    Note(Vec<Span>),
    /// A highlighted paragraph.
    Warning(Vec<Span>),
    /// A bulleted list.
    List(Vec<Vec<Span>>),
    /// A table.
    Table(Table),
    /// An `<svg>` element, embedded as it is, with a caption.
    Picture {
        /// The element.
        svg: String,
        /// The caption.
        caption: Vec<Span>,
    },
    /// Blocks that the reader can unfold.
    Folded {
        /// The visible line.
        summary: String,
        /// The folded blocks.
        blocks: Vec<Self>,
    },
}

/// An inline element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Plain text.
    Plain(String),
    /// Bold text.
    Strong(String),
    /// Monospaced text: a name, a command or a file.
    Code(String),
    /// A link; a target that begins with `#` is on this page.
    Link {
        /// The target.
        to: String,
        /// The text.
        text: String,
    },
    /// A coloured label.
    Badge(Tone, String),
}

/// The colour of a label; its text says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Good.
    Good,
    /// Mixed.
    Mixed,
    /// Bad.
    Bad,
    /// Neutral.
    Neutral,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The headings of the columns.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The content.
    pub spans: Vec<Span>,
    /// Aligned to the right, as numbers are.
    pub number: bool,
}

impl HtmlReport {
    /// Creates a page.
    pub fn new(title: impl Into<String>, sections: Vec<Section>) -> Self {
        Self { title: title.into(), lead: Vec::new(), sections }
    }

    /// Returns the page as HTML.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
            style::SHEET
        );
        self.lead.iter().for_each(|block| write_block(&mut html, block));
        if !self.sections.is_empty() {
            html.push_str("<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n");
            write_contents(&mut html, &self.sections);
            html.push_str("</nav>\n");
        }
        self.sections.iter().for_each(|section| write_section(&mut html, section, 2));
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }
}

impl Section {
    /// Creates an empty section.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        let (id, title) = (id.into(), title.into());
        Self { id, title, badges: Vec::new(), blocks: Vec::new(), sections: Vec::new() }
    }

    /// Appends a block.
    #[must_use]
    pub fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

impl Block {
    /// Creates a paragraph of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(vec![Span::Plain(text.into())])
    }

    /// Creates a small paragraph of plain text.
    pub fn note(text: impl Into<String>) -> Self {
        Self::Note(vec![Span::Plain(text.into())])
    }
}

impl Table {
    /// Creates a table.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>, rows: Vec<Vec<Cell>>) -> Self {
        Self { header: header.into_iter().map(str::to_owned).collect(), rows }
    }
}

impl Cell {
    /// Creates a cell of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { spans: vec![Span::Plain(text.into())], number: false }
    }

    /// Creates a cell aligned to the right.
    pub fn number(text: impl Into<String>) -> Self {
        Self { spans: vec![Span::Plain(text.into())], number: true }
    }

    /// Creates a cell with a coloured label.
    pub fn badge(tone: Tone, text: impl Into<String>) -> Self {
        Self { spans: vec![Span::Badge(tone, text.into())], number: false }
    }

    /// Creates a cell of monospaced text.
    pub fn code(text: impl Into<String>) -> Self {
        Self { spans: vec![Span::Code(text.into())], number: false }
    }

    /// Creates a cell with a link.
    pub fn link(to: impl Into<String>, text: impl Into<String>) -> Self {
        Self { spans: vec![Span::Link { to: to.into(), text: text.into() }], number: false }
    }
}

/// Escapes text for HTML and XML, also within quoted attributes.
///
/// ```
/// assert_eq!(tidegate_plot::report::escape(r#"<a href="x">'&'"#), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
/// ```
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // What XML cannot hold at all, however it is written.
            control if control.is_control() && !matches!(control, '\n' | '\t' | '\r') => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

fn id_of(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($html:expr, $($argument:tt)*) => { let _ = write!($html, $($argument)*); };
}

fn write_contents(html: &mut String, sections: &[Section]) {
    html.push_str("<ul>\n");
    for section in sections {
        put!(html, "<li><a href=\"#{}\">{}</a>", id_of(&section.id), escape(&section.title));
        for badge in &section.badges {
            html.push(' ');
            badge.spans.iter().for_each(|span| write_span(html, span));
        }
        if !section.sections.is_empty() {
            html.push('\n');
            write_contents(html, &section.sections);
        }
        html.push_str("</li>\n");
    }
    html.push_str("</ul>\n");
}

fn write_section(html: &mut String, section: &Section, level: u8) {
    let id = id_of(&section.id);
    put!(html, "<section id=\"{id}\">\n<h{level}>{} ", escape(&section.title));
    put!(html, "<a class=\"here\" href=\"#{id}\" aria-label=\"Link to this section\">#</a></h{level}>\n");
    section.blocks.iter().for_each(|block| write_block(html, block));
    section.sections.iter().for_each(|part| write_section(html, part, (level + 1).min(6)));
    html.push_str("</section>\n");
}

fn write_block(html: &mut String, block: &Block) {
    let mut paragraph = |class: &str, spans: &[Span]| {
        put!(html, "<p{class}>");
        spans.iter().for_each(|span| write_span(html, span));
        html.push_str("</p>\n");
    };
    match block {
        Block::Text(spans) => paragraph("", spans),
        Block::Note(spans) => paragraph(" class=\"note\"", spans),
        Block::Warning(spans) => paragraph(" class=\"warning\"", spans),
        Block::List(items) => {
            html.push_str("<ul>\n");
            for item in items {
                html.push_str("<li>");
                item.iter().for_each(|span| write_span(html, span));
                html.push_str("</li>\n");
            }
            html.push_str("</ul>\n");
        }
        Block::Table(table) => write_table(html, table),
        Block::Picture { svg, caption } => {
            put!(html, "<figure>\n<div class=\"picture\">{svg}</div>\n");
            if !caption.is_empty() {
                html.push_str("<figcaption>");
                caption.iter().for_each(|span| write_span(html, span));
                html.push_str("</figcaption>\n");
            }
            html.push_str("</figure>\n");
        }
        Block::Folded { summary, blocks } => {
            put!(html, "<details>\n<summary>{}</summary>\n", escape(summary));
            blocks.iter().for_each(|block| write_block(html, block));
            html.push_str("</details>\n");
        }
    }
}

fn write_table(html: &mut String, table: &Table) {
    let is_number = |column: usize| table.rows.iter().filter_map(|row| row.get(column)).any(|cell| cell.number);
    html.push_str("<div class=\"wide\"><table>\n<thead><tr>");
    for (column, title) in table.header.iter().enumerate() {
        let class = if is_number(column) { " class=\"number\"" } else { "" };
        put!(html, "<th scope=\"col\"{class}>{}</th>", escape(title));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for cell in row {
            html.push_str(if cell.number { "<td class=\"number\">" } else { "<td>" });
            cell.spans.iter().for_each(|span| write_span(html, span));
            html.push_str("</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn write_span(html: &mut String, span: &Span) {
    match span {
        Span::Plain(text) => html.push_str(&escape(text)),
        Span::Strong(text) => {
            put!(html, "<strong>{}</strong>", escape(text));
        }
        Span::Code(text) => {
            put!(html, "<code>{}</code>", escape(text));
        }
        Span::Link { to, text } => {
            let to = to.strip_prefix('#').map_or_else(|| escape(to), |place| format!("#{}", id_of(place)));
            put!(html, "<a href=\"{to}\">{}</a>", escape(text));
        }
        Span::Badge(tone, text) => {
            let class = match tone {
                Tone::Good => "good",
                Tone::Mixed => "mixed",
                Tone::Bad => "bad",
                Tone::Neutral => "neutral",
            };
            put!(html, "<span class=\"badge {class}\">{}</span>", escape(text));
        }
    }
}
