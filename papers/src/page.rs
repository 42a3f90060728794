//! The HTML report: measured figures beside the papers' numbers and claims.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::results::At;
use crate::session::{QUICK_LENGTH, QUICK_REPEATS};
use crate::verdict::{NOISE, Verdict, digits, short};
use crate::{Claim, Experiment, Outcome, Paper, ReproduceOptions};
use tidegate_lab::datasets;
use tidegate_lab::report::{Block, Cell, HtmlReport, Section, Span, Table, Tone};

/// Returns the report on outcomes, which must be ordered by paper.
pub fn report(outcomes: &[Outcome], options: &ReproduceOptions) -> HtmlReport {
    let by_paper: Vec<&[Outcome]> = outcomes.chunk_by(|a, b| a.paper.name == b.paper.name).collect();
    let sections = by_paper.iter().map(|outcomes| paper_section(outcomes)).collect();
    let mut report = HtmlReport::new("The papers' figures, measured again", sections);
    report.lead = lead(outcomes, &by_paper, options);
    report
}

fn plain(text: impl Into<String>) -> Span {
    Span::Plain(text.into())
}

fn lead(outcomes: &[Outcome], by_paper: &[&[Outcome]], options: &ReproduceOptions) -> Vec<Block> {
    let time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    let experiments = match outcomes.len() {
        1 => "One figure or table was".to_owned(),
        count => format!("{count} figures and tables were"),
    };
    let mut blocks = vec![
        Block::text(format!(
            "{experiments} measured with tidegate's own mechanisms, which keep the privacy that they promise, also \
             where the published algorithm does not. Beside each figure stand the numbers that the paper printed, \
             where it printed numbers, and what it claims, with a verdict computed from what was measured."
        )),
        Block::Text(vec![
            plain("A comparison counts only where two means differ by more than "),
            plain(format!("{NOISE} standard errors of their difference; otherwise it is called too close to tell. ")),
            plain(
                "A claim about all settings holds where every comparison that can be told agrees, and partly where \
                 more than half do; a claim about most settings holds where three quarters agree, and partly where \
                 half do. Where less than half of the comparisons can be told, neither can the claim. ",
            ),
            plain(
                "Standard errors are over repeated runs on the same stream: they say nothing about other streams. \
                 Error bars are one standard error.",
            ),
        ]),
        Block::Text(vec![
            plain("The dotted grey line, "),
            Span::Code("constant".to_owned()),
            plain(
                ", looks at no data and spends no privacy: it publishes the uniform distribution or the middle of the \
                 domain, always. A mechanism above it has told its readers less than nothing.",
            ),
        ]),
    ];
    if options.quick {
        let text = format!(
            "This was a quick run: streams were cut to {QUICK_LENGTH} timestamps and runs to {QUICK_REPEATS}. It \
             shows that everything works; its verdicts mean little."
        );
        blocks.push(Block::Warning(vec![plain(text)]));
    }
    blocks.push(Block::Table(overview(by_paper)));
    blocks.push(Block::Note(vec![
        plain(format!("Measured in {}; ", duration(time))),
        Span::Code(command(outcomes, by_paper, options)),
        plain(" repeats it. The numbers are computed from true data, so nothing here is private."),
    ]));
    blocks
}

/// Returns the command that repeats the run.
fn command(outcomes: &[Outcome], by_paper: &[&[Outcome]], options: &ReproduceOptions) -> String {
    let names = |outcomes: &&[Outcome]| {
        let paper = outcomes[0].paper;
        if outcomes.len() == paper.experiments.len() {
            paper.name.to_owned()
        } else {
            outcomes.iter().map(|outcome| outcome.experiment.name).collect::<Vec<_>>().join(" ")
        }
    };
    let what = if outcomes.len() == crate::all().count() {
        "--all".to_owned()
    } else {
        by_paper.iter().map(names).collect::<Vec<_>>().join(" ")
    };
    let quick = if options.quick { " --quick" } else { "" };
    let repeats = options.repeats.map_or_else(String::new, |repeats| format!(" --repeats {repeats}"));
    format!("tidegate reproduce {what}{quick}{repeats} --seed {}", options.seed)
}

/// Returns one line for each paper: its claims by verdict.
fn overview(by_paper: &[&[Outcome]]) -> Table {
    let rows = by_paper.iter().map(|outcomes| {
        let paper = outcomes[0].paper;
        let count = |verdict: Verdict| outcomes.iter().map(|outcome| count_of_claims(outcome, verdict)).sum::<usize>();
        let mut row = vec![Cell::link(format!("#{}", paper.name), paper.title)];
        row.push(Cell::number(outcomes.len().to_string()));
        row.extend(Verdict::ALL.map(|verdict| Cell::number(count(verdict).to_string())));
        row
    });
    Table::new(
        ["paper", "figures and tables", "holds", "holds partly", "does not hold", "cannot be told"],
        rows.collect(),
    )
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Holds => Tone::Good,
        Verdict::Partly => Tone::Mixed,
        Verdict::DoesNotHold => Tone::Bad,
        Verdict::Unclear => Tone::Neutral,
    }
}

fn paper_section(outcomes: &[Outcome]) -> Section {
    let paper = outcomes[0].paper;
    let mut section = Section::new(paper.name, paper.title).with(Block::note(paper.reference));
    if !paper.differences.is_empty() {
        section.blocks.push(Block::text("What is built here differs from what is printed:"));
        section.blocks.push(Block::List(paper.differences.iter().map(|text| vec![plain(*text)]).collect()));
    }
    section.sections = outcomes.iter().map(experiment_section).collect();
    section.sections.extend(omitted(paper));
    section
}

fn omitted(paper: &Paper) -> Option<Section> {
    if paper.omitted.is_empty() {
        return None;
    }
    let rows = paper.omitted.iter().map(|omitted| vec![Cell::text(omitted.what), Cell::text(omitted.why)]);
    let table = Table::new(["what", "why"], rows.collect());
    Some(Section::new(format!("{}-omitted", paper.name), "Not reproduced").with(Block::Table(table)))
}

fn experiment_section(outcome: &Outcome) -> Section {
    let experiment = outcome.experiment;
    let title = format!("{}: {}", experiment.place, experiment.title);
    let mut section = Section::new(experiment.name, title);
    section.badges = badges(outcome);
    section.blocks.push(Block::text(experiment.caption));
    if let Some(svg) = &outcome.svg {
        let caption = vec![
            plain(format!("{} of each trial, in {}. Data: ", runs(outcome.repeats), duration(outcome.time))),
            Span::Link { to: format!("{}.csv", experiment.name), text: format!("{}.csv", experiment.name) },
            plain(". Picture: "),
            Span::Link { to: format!("{}.svg", experiment.name), text: format!("{}.svg", experiment.name) },
            plain("."),
        ];
        section.blocks.push(Block::Picture { svg: svg.clone(), caption });
    }
    if !outcome.missing.is_empty() {
        let text = format!("Not in the data directory, and left out: {}.", outcome.missing.join(", "));
        section.blocks.push(Block::Warning(vec![plain(text)]));
    }
    section.blocks.extend(claims(outcome));
    section.blocks.extend(published(outcome));
    section.blocks.extend(data(experiment));
    section.blocks.extend(experiment.notes.iter().map(|note| Block::note(*note)));
    section.blocks.extend(measured(outcome));
    section
}

fn badges(outcome: &Outcome) -> Vec<Cell> {
    if !outcome.is_measured() {
        return vec![Cell::badge(Tone::Neutral, "no data")];
    }
    let count = |verdict| count_of_claims(outcome, verdict);
    let found = Verdict::ALL.into_iter().filter(|verdict| count(*verdict) > 0);
    let words = |verdict| match verdict {
        Verdict::Holds => "hold",
        Verdict::Partly => "partly",
        Verdict::DoesNotHold => "not",
        Verdict::Unclear => "unclear",
    };
    found.map(|verdict| Cell::badge(tone(verdict), format!("{} {}", count(verdict), words(verdict)))).collect()
}

/// Counts the paper's claims with a verdict, without the questions asked here.
fn count_of_claims(outcome: &Outcome, verdict: Verdict) -> usize {
    outcome.judged().filter(|(claim, judgement)| claim.is_the_papers() && judgement.verdict == verdict).count()
}

/// Returns a table of the paper's claims, and one of the questions asked here.
fn claims(outcome: &Outcome) -> impl Iterator<Item = Block> {
    [true, false].into_iter().filter_map(|of_the_paper| {
        let rows = outcome.judged().filter(|(claim, _)| claim.is_the_papers() == of_the_paper);
        let rows: Vec<_> = rows
            .map(|(claim, judgement)| {
                let mut text = Cell::text(claim.text);
                if of_the_paper {
                    text.spans.push(plain(format!(" ({})", claim.place)));
                }
                let verdict = Cell::badge(tone(judgement.verdict), judgement.verdict.words());
                vec![text, verdict, Cell::text(&judgement.because)]
            })
            .collect();
        let title = if of_the_paper { "the paper claims" } else { "asked beside" };
        (!rows.is_empty()).then(|| Block::Table(Table::new([title, "here", "because"], rows)))
    })
}

/// Returns the paper's numbers beside the measured ones.
fn published(outcome: &Outcome) -> Option<Block> {
    let rows: Vec<_> = outcome
        .experiment
        .published
        .iter()
        .filter_map(|number| {
            let at = At::from(number.at);
            let ours = outcome.table.get(number.panel, number.series, at.clone(), number.metric)?;
            let ratio = if number.value == 0.0 { String::new() } else { digits(ours.mean / number.value, 3) };
            Some(vec![
                Cell::text(number.panel),
                Cell::text(number.series),
                Cell::text(at.to_string()),
                Cell::text(number.metric),
                Cell::number(digits(number.value, 4)),
                Cell::number(short(ours)),
                Cell::number(ratio),
            ])
        })
        .collect();
    if rows.is_empty() {
        let none = "The paper shows this as a picture without numbers, so it is compared by its claims only.";
        let is_of_the_paper = outcome.experiment.claims.iter().any(Claim::is_the_papers);
        return (outcome.is_measured() && is_of_the_paper).then(|| Block::note(none));
    }
    let header = ["panel", "series", "at", "metric", "paper", "here", "here / paper"];
    let count = rows.len();
    let table = Block::Table(Table::new(header, rows));
    let summary = format!("The {count} numbers that the paper prints, beside ours");
    Some(if count > 12 { Block::Folded { summary, blocks: vec![table] } } else { table })
}

/// Returns the data sets; `None` where all is computed or made by the experiment.
fn data(experiment: &Experiment) -> Option<Block> {
    if experiment.data.is_empty() {
        return None;
    }
    let rows = experiment.data.iter().map(|data| {
        let (tone, word) = match (data.difference, datasets::by_name(data.set).is_some_and(|set| set.is_real())) {
            (Some(_), _) => (Tone::Mixed, "stand-in"),
            (None, true) => (Tone::Good, "the paper's"),
            (None, false) => (Tone::Good, "the paper's recipe"),
        };
        let difference = data.difference.unwrap_or_default();
        vec![Cell::code(data.set), Cell::badge(tone, word), Cell::text(data.paper), Cell::text(difference)]
    });
    Some(Block::Table(Table::new(["data set here", "", "the paper's", "how they differ"], rows.collect())))
}

/// Returns all measured numbers, folded, unless there are too many.
fn measured(outcome: &Outcome) -> Option<Block> {
    const MOST: usize = 400;
    let entries = outcome.table.entries();
    if entries.is_empty() || entries.len() > MOST {
        return None;
    }
    let row = |entry: &crate::Measurement| {
        vec![
            Cell::text(&entry.panel),
            Cell::text(&entry.series),
            Cell::text(entry.at.to_string()),
            Cell::text(&entry.metric),
            Cell::number(short(entry.value)),
        ]
    };
    let table =
        Table::new(["panel", "series", "at", "metric", "mean ± standard error"], entries.iter().map(row).collect());
    Some(Block::Folded { summary: "All measured numbers".to_owned(), blocks: vec![Block::Table(table)] })
}

fn runs(repeats: NonZeroU64) -> String {
    match repeats.get() {
        1 => "One run".to_owned(),
        repeats => format!("{repeats} runs"),
    }
}

/// Formats a duration.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}
