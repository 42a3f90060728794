//! `tidegate plot`: charts of releases.
//!
//! | module | content |
//! | --- | --- |
//! | `series` | reads releases |
//! | `truth` | reads the truth beside them |
//! | `terminal` | draws them as text |
//! | `page` | draws them as a picture and as an HTML page |

mod page;
mod series;
mod terminal;
mod truth;

use std::num::NonZeroU16;
use std::str::FromStr;

use clap::Args;
use tidegate::spec::{Every, InputSpec};

use crate::arguments::at_least_one;
use crate::canvas::Canvas;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, check_place, keep_apart};
use series::Shown;
use truth::Gather;

/// Draw releases: in the terminal, as a picture (SVG or PNG), or as a page (HTML).
///
/// RELEASES is a table that `tidegate release` or `tidegate query releases` wrote, as CSV or as lines
/// of JSON: numbers, counts or frequencies. Each value has a chart of its own: the release as a line,
/// with the band in which the truth lies with 95 % probability as far as the noise tells. A band of
/// shares ends at 0 and 1, one of counts at 0. Time is the field time where there is one, or else t.
///
/// The end of the name of --output says what is drawn: .svg, .png, .html, or text for anything else. A
/// page has the pictures and a table in one file, and loads nothing.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate plot released.csv\n  \
                  tidegate plot released.csv --value shop --output shop.svg\n  \
                  tidegate plot released.csv --truth counts.csv --output report.html\n  \
                  tidegate plot released.csv --truth visits.csv --spec visits.toml --output visits.png\n  \
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

    /// The spec of the stream: rows of the truth are gathered by timestamp as `tidegate release` does
    #[arg(long, value_name = "FILE|-", requires = "truth")]
    spec: Option<String>,

    /// How long a timestamp is, to gather the truth; as in the spec unless given
    #[arg(long, value_name = "LENGTH", value_parser = Every::from_str, requires = "truth")]
    every: Option<Every>,

    /// Where timestamp 0 begins, to gather the truth; as in the spec unless given
    #[arg(long, value_name = "TIME", requires = "truth")]
    origin: Option<String>,

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
        check_name("--output", &self.output)?;
        let inputs = [Some(&self.releases), self.truth.as_ref(), self.spec.as_ref()];
        if inputs.iter().flatten().filter(|input| input.as_str() == "-").count() > 1 {
            return Err(Failure::input("only one of releases, truth and spec can come from standard input"));
        }
        keep_apart([self.output.as_str()], inputs.into_iter().flatten().map(String::as_str))?;
        let Input { name, source } = Input::open(&self.releases)?;
        let mut shown = Shown::read(&name, source)?;
        if let Some(series) = &self.series {
            shown.choose_series(series)?;
        }
        if let Some(truth) = &self.truth {
            let Input { name, source } = Input::open(truth)?;
            shown.add_truth(&name, source, self.gather()?.as_ref())?;
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

    /// How the truth is gathered; `None` where it has the timestamps of the releases.
    fn gather(&self) -> Result<Option<Gather>, Failure> {
        let mut input = match &self.spec {
            Some(spec) => Input::spec(spec)?.stream.input().clone(),
            None if self.every.is_none() && self.origin.is_none() => return Ok(None),
            None => InputSpec::default(),
        };
        input.every = self.every.or(input.every);
        input.origin = self.origin.clone().or(input.origin);
        Ok(Some(Gather { input, has_spec: self.spec.is_some(), series: self.series.clone() }))
    }
}

/// Draws releases that were just written, as a table in one of the text formats.
pub(crate) fn draw_released(table: &[u8], output: &str) -> Result<(), Failure> {
    let header = usize::from(table.first() != Some(&b'{'));
    if table.iter().filter(|byte| **byte == b'\n').count() <= header {
        complain("note", format_args!("nothing was released, so {output} has no chart"));
        return Ok(());
    }
    let mut shown = Shown::read("the releases", table)?;
    let all = shown.lines.len();
    shown.choose(&[], FEW)?;
    draw(&shown, "Releases", all, output, Canvas::of_stdout(false))
}

/// Draws a chart to a file or to standard output; the name says in which form.
fn draw(shown: &Shown, title: &str, all: usize, output: &str, canvas: Canvas) -> Result<(), Failure> {
    let form = Form::of(output)?;
    let left_out = all - shown.lines.len();
    let drawn = match form {
        Form::Svg => page::chart(shown, title).to_svg().map_err(Failure::input)?.into_bytes(),
        Form::Png => page::chart(shown, title).to_png().map_err(Failure::input)?,
        Form::Page => page::html(shown, title, left_out)?.into_bytes(),
        Form::Text => {
            // A file has no colours.
            let canvas = if output == "-" { canvas } else { Canvas { coloured: false, ..canvas } };
            terminal::draw(shown, title, left_out, canvas).into_bytes()
        }
    };
    let mut file = Output::create(output)?;
    file.write_bytes(&drawn)?;
    file.finish()
}

/// The form of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Svg,
    Png,
    Page,
}

impl Form {
    /// The form that the end of a file's name asks for.
    fn of(name: &str) -> Result<Self, Failure> {
        let lower = name.to_ascii_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
        if ends(&[".svg"]) {
            Ok(Self::Svg)
        } else if ends(&[".png"]) {
            Ok(Self::Png)
        } else if ends(&[".html", ".htm"]) {
            Ok(Self::Page)
        } else if ends(&[".jpg", ".jpeg", ".gif", ".webp", ".pdf"]) {
            Err(Failure::input(format_args!("{name}: a chart ends in .svg, .png or .html, or else it is text")))
        } else {
            Ok(Self::Text)
        }
    }
}

/// Rejects the name of a chart in a form that cannot be drawn, or in a place that cannot be written, before anything is
/// done.
pub(crate) fn check_name(option: &str, name: &str) -> Result<(), Failure> {
    Form::of(name)?;
    check_place(option, name)
}
