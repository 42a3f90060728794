//! What counts as a broken promise, and what a page says about it.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_lab::audit::empirical::Plan;
use tidegate_lab::audit::targets::{all, chosen};
use tidegate_lab::audit::transcript::{Search, Worst};
use tidegate_lab::audit::{AuditSettings, Finding, audit, report};

fn plan(runs: u64) -> Plan {
    Plan { runs: NonZeroU64::new(runs).unwrap(), confidence: 0.999, seed: 1, threads: NonZeroUsize::MIN }
}

fn finding() -> Finding {
    let settings = AuditSettings::small("1".parse().unwrap());
    let targets = chosen(all(&settings).unwrap(), &["grr".to_owned()], None).unwrap();
    audit(targets[0].as_ref(), &plan(1_000), &Search::QUICK, &|| ()).unwrap()
}

#[test]
fn an_audit_has_the_exact_loss_beside_the_bound() {
    let found = finding();
    assert_eq!((found.mechanism, found.claimed, found.confidence), ("grr", 1.0, 0.999));
    assert!(found.lower_bound > 0.3 && found.lower_bound <= found.exact.unwrap() && !found.is_broken());
    assert!(found.runs >= 1_500 && found.seconds > 0.0);
    // All transcripts of a report are examined: as many as there are symbols, for each of two pairs.
    assert!((found.transcript.loss - found.exact.unwrap()).abs() < 1e-9 && found.transcript.transcripts >= 6);
}

#[test]
fn a_loss_above_the_claim_breaks_the_promise_and_rounding_does_not() {
    let found = finding();
    let with = |lower_bound, exact| Finding { lower_bound, exact, ..found.clone() }.is_broken();
    let with_transcript =
        |loss| Finding { transcript: Worst { loss, ..found.transcript.clone() }, ..found.clone() }.is_broken();
    assert!(!with_transcript(1.0 + 1e-12) && with_transcript(1.0 + 1e-8));
    assert!(with_transcript(f64::INFINITY) && with_transcript(f64::NAN));
    assert!(!with(1.0, Some(1.0 + 1e-12)) && !with(0.2, None));
    assert!(with(1.001, None) && with(0.2, Some(1.001)) && with(0.2, Some(f64::INFINITY)) && with(0.2, Some(f64::NAN)));
}

#[test]
fn a_page_names_what_is_broken_and_draws_whatever_was_found() {
    let found = finding();
    let worse =
        Finding { mechanism: "leaky", guarantee: "a < b".to_owned(), exact: Some(f64::INFINITY), ..found.clone() };
    let settings = AuditSettings::small("1".parse().unwrap());
    let page = report(&[found.clone(), worse, found], &settings, &plan(1)).to_html();
    assert!(page.contains("One of the 3 promises is broken.") && page.contains("a &lt; b") && !page.contains("a < b"));
    assert!(page.contains("grr (2)") && page.contains("<svg ") && !page.contains("NaN"));
}
