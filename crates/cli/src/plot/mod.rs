//! `tidegate plot`: charts of releases.
//!
//! | module | content |
//! | --- | --- |
//! | `series` | reads releases, and the truth beside them |
//! | `terminal` | draws them as text |
//! | `page` | draws them as SVG and as an HTML page |

mod page;
mod series;
mod terminal;

use std::num::NonZeroU16;

use clap::Args;

use crate::arguments::at_least_one;
use crate::canvas::Canvas;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::{Output, keep_apart};
use series::Shown;

/// Draw releases: in the terminal, as a picture (SVG), or as a page (HTML).
///
/// RELEASES is a table that `tidegate release` or `tidegate query releases` wrote, as CSV or as lines
/// of JSON: numbers, counts or frequencies. Each value has a chart of its own: the release as a line,
/// with the band in which the truth lies with 95 % probability as far as the noise tells. A band of
/// shares ends at 0 and 1, one of counts at 0. Time is the field time where there is one, or else t.
///
/// The end of the name of --output says what is drawn: .svg, .html, or text for anything else. A page
/// has the pictures and a table in one file, and loads nothing. For PNG, convert the picture:
/// `rsvg-convert chart.svg -o chart.png`, or open it in a browser.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate plot released.csv\n  \
                  tidegate plot released.csv --value shop --output shop.svg\n  \
                  tidegate plot released.csv --truth counts.csv --output report.html\n  \
                  tidegate query releases --server http://127.0.0.1:8420 --stream visits | tidegate plot"
)]
pub(crate) struct Plot {
    /// The releases
    #[arg(value_name = "RELEASES", default_value = "-")]
    releases: String,

    /// Where the chart goes
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,

    /// The table that was released, to be drawn beside it. It is not private: do not publish the chart
    #[arg(long, value_name = "FILE|-")]
    truth: Option<String>,

    /// Draw this value of the domain; the four that are largest on average unless given
    #[arg(long, value_name = "NAME")]
    value: Vec<String>,

    /// Draw this series; a panel for each of the first twelve unless given
    #[arg(long, value_name = "NAME")]
    series: Option<String>,

    /// The title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Characters in a line; those of the terminal unless given
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU16>)]
    width: Option<NonZeroU16>,

    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// How many values are drawn unless they are named.
const FEW: usize = 4;

/// Narrowest text chart.
const NARROWEST: usize = 30;

impl Plot {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.truth.as_deref() == Some("-") && self.releases == "-" {
            return Err(Failure::input("releases and truth cannot both come from standard input"));
        }
        let inputs = [Some(&self.releases), self.truth.as_ref()];
        keep_apart([self.output.as_str()], inputs.into_iter().flatten().map(String::as_str))?;
        let Input { name, source } = Input::open(&self.releases)?;
        let mut shown = Shown::read(&name, source)?;
        if let Some(series) = &self.series {
            shown.choose_series(series)?;
        }
        if let Some(truth) = &self.truth {
            let Input { name, source } = Input::open(truth)?;
            shown.add_truth(&name, source)?;
        }
        let all = shown.lines.len();
        shown.choose(&self.value, FEW)?;
        let title = match &self.title {
            Some(title) => title.clone(),
            None if self.releases == "-" => "Releases".to_owned(),
            None => format!("Releases of {}", self.releases),
        };
        let mut canvas = Canvas::of_stdout(self.ascii);
        if let Some(width) = self.width {
            canvas.width = usize::from(width.get()).max(NARROWEST);
        }
        draw(&shown, &title, all, &self.output, canvas)
    }
}

/// Draws releases that were just written, as a table in one of the text formats.
pub(crate) fn draw_released(table: &[u8], output: &str) -> Result<(), Failure> {
    let mut shown = Shown::read("the releases", table)?;
    let all = shown.lines.len();
    shown.choose(&[], FEW)?;
    draw(&shown, "Releases", all, output, Canvas::of_stdout(false))
}

/// Draws a chart to a file or to standard output; the name says in which form.
fn draw(shown: &Shown, title: &str, all: usize, output: &str, canvas: Canvas) -> Result<(), Failure> {
    let lower = output.to_ascii_lowercase();
    if lower.ends_with(".png") || lower.ends_with(".jpg") || lower.ends_with(".pdf") {
        return Err(Failure::input(format_args!(
            "{output}: draw an SVG, and convert it: rsvg-convert chart.svg -o chart.png"
        )));
    }
    let left_out = all - shown.lines.len();
    let text = if lower.ends_with(".svg") {
        page::svg(shown, title)?
    } else if lower.ends_with(".html") || lower.ends_with(".htm") {
        page::html(shown, title, left_out)?
    } else {
        // A file has no colours.
        let canvas = if output == "-" { canvas } else { Canvas { coloured: false, ..canvas } };
        terminal::draw(shown, title, left_out, canvas)
    };
    let mut file = Output::create(output)?;
    file.write(&text)?;
    file.finish()
}
