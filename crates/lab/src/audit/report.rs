//! What an audit found, as a page with a picture.

use super::empirical::Plan;
use super::{Family, Finding, Settings};
use crate::plot::{Axis, Chart, Panel, PlotError, Point, Series};
use crate::report::{Block, Cell, Report, Section, Table, Tone};

/// The page: claimed and found losses as bars, a panel for each family, and the numbers behind them.
pub fn report(findings: &[Finding], settings: &Settings, plan: &Plan) -> Result<Report, PlotError> {
    let broken = findings.iter().filter(|finding| finding.is_broken()).count();
    let verdict = match broken {
        0 => format!("None of the {} promises is broken, as far as these audits can tell.", findings.len()),
        1 => format!("One of the {} promises is broken.", findings.len()),
        broken => format!("{broken} of the {} promises are broken.", findings.len()),
    };
    let Settings { epsilon, window, domain } = settings;
    let about = format!(
        "Epsilon {epsilon}, windows of {window} timestamps, {domain} values. Each lower bound holds with a confidence of {}, by itself. \
         The seed is {}.",
        plan.confidence, plan.seed
    );
    let how = "Claimed is the loss that a mechanism promises not to exceed. The exact loss is the largest over all transcripts and \
               neighbouring streams, where they can be enumerated. The lower bound comes from an attack on the mechanism as a \
               black box: the loss is at least that. A bound above the claim is a broken promise; one below proves nothing about \
               what was not tried.";
    let mut page = Report::new("Audit of privacy", Vec::new());
    page.lead = vec![Block::text(verdict), Block::note(about), Block::note(how)];
    for family in Family::ALL {
        let of_family: Vec<&Finding> = findings.iter().filter(|finding| finding.family == family).collect();
        if !of_family.is_empty() {
            let picture = Block::Picture { svg: chart(family, &of_family).to_svg()?, caption: Vec::new() };
            let section = Section::new(family.name(), title(family));
            page.sections.push(section.with(picture).with(Block::Table(table(&of_family))));
        }
    }
    Ok(page)
}

const fn title(family: Family) -> &'static str {
    match family {
        Family::Oracle => "Frequency oracles",
        Family::Local => "Local mechanisms",
        Family::Central => "Central mechanisms",
        Family::Event => "Event-level mechanisms",
        Family::Sequence => "Sequence mechanisms",
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

fn chart(family: Family, findings: &[&Finding]) -> Chart {
    #[allow(clippy::cast_precision_loss)] // a few dozen
    let series = |name: &str, loss: &dyn Fn(&Finding) -> Option<f64>| {
        let points = findings.iter().enumerate();
        let points = points.filter_map(|(place, finding)| Some(Point::new(place as f64, loss(finding)?)));
        Series::new(name, points.collect())
    };
    let mut all = vec![
        series("claimed", &|finding| Some(finding.claimed)),
        series("exact", &|finding| finding.exact.filter(|exact| exact.is_finite())),
        series("lower bound", &|finding| Some(finding.lower_bound)),
    ];
    all.retain(|series| !series.points.is_empty());
    let panel = Panel::bars("", labels(findings), Axis::linear("loss"), all);
    Chart::new(format!("{}: claimed and found", title(family)), vec![panel])
}

fn table(findings: &[&Finding]) -> Table {
    let row = |(finding, label): (&&Finding, String)| {
        let number = |loss: f64| Cell::number(format!("{loss:.4}"));
        vec![
            Cell::code(label),
            Cell::text(&finding.guarantee),
            number(finding.claimed),
            finding.exact.map_or_else(|| Cell::text(""), number),
            number(finding.lower_bound),
            if finding.is_broken() { Cell::badge(Tone::Bad, "broken") } else { Cell::badge(Tone::Good, "not broken") },
            Cell::text(format!("{}; {}", finding.pair, finding.event)),
            Cell::number(finding.runs.to_string()),
        ]
    };
    let header = ["mechanism", "promise", "claimed", "exact", "lower bound", "", "told apart by", "runs"];
    Table::new(header, findings.iter().zip(labels(findings)).map(row).collect())
}
