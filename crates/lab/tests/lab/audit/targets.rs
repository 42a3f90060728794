//! What there is to audit: every mechanism, with streams that its promise covers.

use tidegate_kernel::SeededRandom;
use tidegate_lab::audit::{AuditSettings, TargetFamily, targets};
use tidegate_lab::experiment::Subject;
use tidegate_lab::subjects;

fn settings() -> AuditSettings {
    AuditSettings::small("1".parse().unwrap())
}

#[test]
fn every_mechanism_that_can_be_tried_is_audited() {
    let audited: Vec<&str> = targets::all(&settings()).unwrap().iter().map(|target| target.name()).collect();
    for subject in subjects::all().map(Subject::name) {
        // One looks at nothing, what is as printed is for comparison only, one is another's default, and medians are
        // taken of what is public.
        let is_no_mechanism = subject == "constant" || subject.starts_with("paper_");
        let is_another = subject.ends_with("_stratified") || subject.ends_with("_median");
        assert!(is_no_mechanism || is_another || audited.contains(&subject), "{subject} is not audited");
    }
}

#[test]
fn every_target_runs_on_all_its_streams_and_its_transcripts_have_one_length() {
    for target in targets::all(&settings()).unwrap() {
        let pairs = target.neighbours();
        assert!(!pairs.is_empty() && target.claimed() > 0.0);
        let mut random = SeededRandom::new(1);
        let mut lengths = Vec::new();
        for pair in &pairs {
            assert_ne!(pair.one, pair.other, "{} {}", target.name(), pair.name);
            for input in [&pair.one, &pair.other] {
                for _ in 0..5 {
                    let transcript = target.observe(input, &mut random).unwrap();
                    assert!(transcript.iter().all(|number| number.is_finite()), "{}", target.name());
                    lengths.push(transcript.len());
                }
            }
        }
        lengths.dedup();
        assert!(lengths.len() == 1 && lengths[0] > 0, "{} {}: {lengths:?}", target.name(), target.guarantee());
    }
}

#[test]
fn targets_are_chosen_by_name_and_family_and_a_wrong_name_is_told() {
    let all = || targets::all(&settings()).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(targets::chosen(all(), &[], None).unwrap().len(), all().len());
    let both = targets::chosen(all(), &names(&["oue"]), None).unwrap();
    assert_eq!(
        both.iter().map(|target| target.family()).collect::<Vec<_>>(),
        [TargetFamily::Oracle, TargetFamily::Sequence]
    );
    assert_eq!(targets::chosen(all(), &names(&["oue"]), Some(TargetFamily::Sequence)).unwrap().len(), 1);
    let error = targets::chosen(all(), &names(&["lpq"]), Some(TargetFamily::Local)).map(drop).unwrap_err().to_string();
    assert!(error.contains("lpq") && error.contains("lpa"), "{error}");
}
