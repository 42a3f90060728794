//! Findings as text, as Markdown and as JSON.

use serde_json::{Value, json};
use tidegate_table::layout::layout;

use super::empirical::Plan;
use super::{AuditSettings, Finding};

/// The findings as `--json` prints them.
pub fn as_json(findings: &[Finding]) -> String {
    let entry = |finding: &Finding| {
        let Finding { guarantee, claimed, lower_bound, confidence, pair, event, runs, seconds, .. } = finding;
        json!({ "mechanism": finding.mechanism, "family": finding.family.name(), "guarantee": guarantee,
                "claimed": claimed, "lower_bound": lower_bound, "confidence": confidence, "exact": finding.exact,
                "transcript": finding.transcript.loss, "transcript_pair": finding.transcript.pair,
                "transcripts": finding.transcript.transcripts, "broken": finding.is_broken(),
                "pair": pair, "event": event, "runs": runs, "seconds": seconds })
    };
    format!("{:#}\n", Value::from(findings.iter().map(entry).collect::<Vec<_>>()))
}

/// The findings as a table of plain text.
pub fn as_text(findings: &[Finding], settings: &AuditSettings, plan: &Plan) -> String {
    let header = [
        "mechanism",
        "promise",
        "claimed",
        "exact",
        "transcript",
        "lower bound",
        "",
        "told apart by",
        "transcripts",
        "runs",
        "seconds",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for finding in findings {
        rows.push(vec![
            finding.mechanism.to_owned(),
            finding.guarantee.clone(),
            format!("{:.4}", finding.claimed),
            finding.exact.map_or_else(String::new, |exact| format!("{exact:.4}")),
            format!("{:.4}", finding.transcript.loss),
            format!("{:.4}", finding.lower_bound),
            if finding.is_broken() { "BROKEN" } else { "" }.to_owned(),
            finding.pair.clone(),
            finding.transcript.transcripts.to_string(),
            finding.runs.to_string(),
            format!("{:.1}", finding.seconds),
        ]);
    }
    let AuditSettings { epsilon, window, domain } = settings;
    let about = format!(
        "epsilon {epsilon}, windows of {window}, {domain} values; each bound with confidence {}",
        plan.confidence
    );
    format!("{about}\n\n{}", layout(&rows))
}

/// The table of `docs/audit.md`.
pub fn as_markdown(findings: &[Finding]) -> String {
    let mut table = "| mechanism | promise | claimed | exact | transcript | lower bound |\n\
                     | --- | --- | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for finding in findings {
        let Finding { mechanism, guarantee, claimed, lower_bound, .. } = finding;
        let exact = finding.exact.map_or_else(String::new, |exact| format!("{exact:.4}"));
        let (transcript, broken) = (finding.transcript.loss, if finding.is_broken() { " **broken**" } else { "" });
        table += &format!(
            "| `{mechanism}`{broken} | {guarantee} | {claimed:.1} | {exact} | {transcript:.4} | {lower_bound:.3} |\n"
        );
    }
    table
}
