//! What an audit found, as a page with a picture.

use std::fmt::Write;

use super::empirical::Plan;
use super::{AuditSettings, Finding, TargetFamily};
use crate::report::{Block, Cell, HtmlReport, Section, Span, Table, Tone, escape};

/// The page: for each family a picture of the losses that are claimed and that were found, and the numbers behind it.
pub fn report(findings: &[Finding], settings: &AuditSettings, plan: &Plan) -> HtmlReport {
    let broken = findings.iter().filter(|finding| finding.is_broken()).count();
    let verdict = match broken {
        0 => format!("None of the {} promises is broken, as far as these audits can tell.", findings.len()),
        1 => format!("One of the {} promises is broken.", findings.len()),
        broken => format!("{broken} of the {} promises are broken.", findings.len()),
    };
    let AuditSettings { epsilon, window, domain } = settings;
    let about = format!(
        "Epsilon {epsilon}, windows of {window} timestamps, {domain} values. Each lower bound holds with a confidence \
         of {}, by itself. The seed is {}.",
        plan.confidence, plan.seed
    );
    let how = "Claimed is the loss that a mechanism promises not to exceed. The exact loss is the largest over all \
               transcripts and neighbouring streams, where they can be enumerated. The transcript loss is the exact \
               loss of the worst transcript that a search found. The lower bound comes from an attack on the mechanism \
               as a black box: the loss is at least that. A bound above the claim is a broken promise; one below \
               proves nothing about what was not tried.";
    let mut page = HtmlReport::new("Audit of privacy", Vec::new());
    page.lead = vec![Block::text(verdict), Block::note(about), Block::note(how)];
    for family in TargetFamily::ALL {
        let of_family: Vec<&Finding> = findings.iter().filter(|finding| finding.family == family).collect();
        if !of_family.is_empty() {
            let picture = Block::Picture { svg: picture(&of_family), caption: vec![Span::Plain(CAPTION.to_owned())] };
            let section = Section::new(family.name(), title(family));
            page.sections.push(section.with(picture).with(Block::Table(table(&of_family))));
        }
    }
    page
}

const fn title(family: TargetFamily) -> &'static str {
    match family {
        TargetFamily::Oracle => "Frequency oracles",
        TargetFamily::Local => "Local mechanisms",
        TargetFamily::Central => "Central mechanisms",
        TargetFamily::Scalar => "Scalar mechanisms",
        TargetFamily::Sequence => "Sequence mechanisms",
    }
}

/// What a finding is called in the picture: the mechanism, with a number where it makes several promises.
fn labels(findings: &[&Finding]) -> Vec<String> {
    let label = |(place, finding): (usize, &&Finding)| {
        let same = |other: &&&Finding| other.mechanism == finding.mechanism;
        let before = findings[..place].iter().filter(same).count();
        match findings.iter().filter(same).count() {
            1 => finding.mechanism.to_owned(),
            _ => format!("{} ({})", finding.mechanism, before + 1),
        }
    };
    findings.iter().enumerate().map(label).collect()
}

const CAPTION: &str = "The loss that is claimed (bar), the exact loss where it is known (diamond), the loss of the \
                       worst transcript found (ring), and the lower bound of the loss (dot). Any of them to the right \
                       of the bar is a broken promise.";

// Where the axis begins and ends, the height of a line, and of what stands above the first.
const LEFT: f64 = 230.0;
const RIGHT: f64 = 860.0;
const LINE: f64 = 26.0;
const TOP: f64 = 34.0;

/// A line for each finding, with its marks on a common axis. Text takes the colour of the page; marks differ in shape
/// as well as in colour.
fn picture(findings: &[&Finding]) -> String {
    let losses = findings.iter().flat_map(|finding| [finding.claimed, finding.largest()]);
    let most = losses.filter(|loss| loss.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    let place = |loss: f64| LEFT + (RIGHT - LEFT) * (loss / most).min(1.03);
    #[allow(clippy::cast_precision_loss)] // a few dozen
    let bottom = TOP + LINE * findings.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 {:.0}\" role=\"img\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"currentColor\" stroke=\"none\">\n<title>Claimed and found losses</title>\n",
        bottom + 12.0
    );
    let mut draw = |element: String| {
        // Writing to a string does not fail.
        let _ = writeln!(svg, "{element}");
    };
    for quarter in 0..=4 {
        let loss = most * f64::from(quarter) / 4.0;
        let x = place(loss);
        draw(format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"0.2\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill-opacity=\"0.7\">{loss:.2}</text>",
            TOP - 10.0
        ));
    }
    let mut y = TOP + LINE / 2.0;
    for (finding, label) in findings.iter().zip(labels(findings)) {
        let (claimed, lower) = (place(finding.claimed), place(finding.lower_bound));
        draw(format!("<g><title>{}</title>", escape(&finding.guarantee)));
        draw(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + 4.5,
            escape(&label)
        ));
        draw(format!(
            "<line x1=\"{LEFT}\" x2=\"{lower:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#009e73\" stroke-width=\"2\"/>\
             <rect x=\"{:.1}\" y=\"{:.1}\" width=\"4\" height=\"18\" fill=\"#0072b2\"/>\
             <circle cx=\"{lower:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"#009e73\"/>",
            claimed - 2.0,
            y - 9.0
        ));
        if let Some(exact) = finding.exact {
            let x = place(exact);
            draw(format!(
                "<path d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z\" fill=\"#d55e00\"/>",
                x - 5.0,
                y - 6.0,
                x + 5.0,
                y + 6.0
            ));
        }
        draw(format!(
            "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"#cc79a7\" stroke-width=\"2\"/>",
            place(finding.transcript.loss)
        ));
        draw("</g>".to_owned());
        y += LINE;
    }
    draw("</svg>".to_owned());
    svg
}

fn table(findings: &[&Finding]) -> Table {
    let row = |(finding, label): (&&Finding, String)| {
        let number = |loss: f64| Cell::number(format!("{loss:.4}"));
        vec![
            Cell::code(label),
            Cell::text(&finding.guarantee),
            number(finding.claimed),
            finding.exact.map_or_else(|| Cell::text(""), number),
            number(finding.transcript.loss),
            number(finding.lower_bound),
            if finding.is_broken() { Cell::badge(Tone::Bad, "broken") } else { Cell::badge(Tone::Good, "not broken") },
            Cell::text(format!("{}; {}", finding.pair, finding.event)),
            Cell::number(finding.runs.to_string()),
        ]
    };
    let header = ["mechanism", "promise", "claimed", "exact", "transcript", "lower bound", "", "told apart by", "runs"];
    Table::new(header, findings.iter().zip(labels(findings)).map(row).collect())
}
