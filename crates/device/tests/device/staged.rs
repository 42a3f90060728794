//! Staged replies: no report leaves before its spend is stored, through all faults of a store, and with many tabs.

use std::fs;
use std::path::Path;

use tidegate_device::absence::{AbsenceTerms, AbsenceTrust};
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::disk::Damaged;
use tidegate_device::enrolment::VerifiedPolicy;
use tidegate_device::staged::{Confirmed, Found, Save, Saved, Staged, StagedAgent, Turn, Version};
use tidegate_device::{AgentError, AgentReply, Beginning, RefusalReason};
use tidegate_kernel::SeededRandom;

use crate::agent::{ALL, EPOCH, TICK, policy, question, verified};

/// What a platform's store holds: contents, and the mark in a second place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub(crate) contents: Option<Vec<u8>>,
    pub(crate) mark: Option<u64>,
}

impl Store {
    pub(crate) fn found(&self) -> Found<'_> {
        Found { contents: self.contents.as_deref(), mark: self.mark }
    }

    /// Saves, if what is stored is what is to be replaced.
    pub(crate) fn save(&mut self, save: &Save) -> bool {
        let is_expected = self.contents.as_deref().map(Version::of) == save.replaces;
        if is_expected {
            self.contents = Some(save.contents.clone());
        }
        is_expected
    }

    /// Saves without a fault, and confirms.
    pub(crate) fn confirmed<T>(&mut self, staged: Staged<T>) -> Confirmed<T> {
        assert!(self.save(staged.save()), "another agent has gone on");
        let mark = staged.save().mark;
        let confirmed = staged.confirm(Saved::read_back(self.contents.as_ref().unwrap())).unwrap();
        self.mark = Some(mark);
        confirmed
    }

    pub(crate) fn settled<T>(&mut self, turn: Turn<T>) -> (StagedAgent, T) {
        match turn {
            Turn::Done(agent, reply) => (agent, reply),
            Turn::Save(staged) => {
                let Confirmed { agent, reply } = self.confirmed(staged);
                (agent, reply)
            }
        }
    }
}

pub(crate) fn at(timestamp: u64, run: u8) -> ClockReading {
    ClockReading { wall: EPOCH + timestamp * TICK, steady: Steady { run: [run; 16], seconds: timestamp * TICK } }
}

/// The wall clock alone counts.
pub(crate) fn by_the_wall() -> AbsenceTerms {
    AbsenceTerms { trusts: AbsenceTrust::WallClock, until: EPOCH + 1_000_000 }
}

fn promised(window: u64) -> VerifiedPolicy {
    verified(policy(window))
}

fn begin(
    store: &mut Store,
    terms: Option<AbsenceTerms>,
    witness: &[u8],
    now: ClockReading,
    seed: u64,
) -> (StagedAgent, Beginning) {
    let found = store.clone();
    let random = &mut SeededRandom::new(seed);
    let staged = StagedAgent::open(found.found(), "position", promised(2), terms, witness, now, random).unwrap();
    let Confirmed { agent, reply } = store.confirmed(staged);
    (agent, reply)
}

fn ask(agent: StagedAgent, now: u64, units: u64) -> Turn<Result<AgentReply, AgentError>> {
    agent.answer(at(now, 1), "visits", &question(now, 0, units), 2, &mut SeededRandom::new(now))
}

fn opened(store: &mut Store, now: u64) -> StagedAgent {
    begin(store, None, b"", at(now, 1), now).0
}

#[test]
fn a_reply_comes_with_the_proof_of_its_state() {
    let mut store = Store::default();
    let agent = opened(&mut store, 100);
    let Turn::Done(agent, refused) = ask(agent, 101, 1) else { panic!("a refusal changes nothing") };
    assert_eq!(refused.unwrap(), AgentReply::Refused(RefusalReason::Budget));
    let Turn::Save(staged) = ask(agent, 102, ALL) else { panic!("an answer changes the state") };
    assert!(!format!("{staged:?}").contains("eport"), "{staged:?}");
    let save = staged.save().clone();
    assert_eq!(save.replaces, store.contents.as_deref().map(Version::of));
    assert_eq!((save.version, save.mark), (Version::of(&save.contents), 2));
    let (agent, first) = store.settled(Turn::Save(staged));
    let first = first.unwrap();
    assert!(matches!(first, AgentReply::Report(_)));
    // The identical report, without another save, and also for the next run.
    let Turn::Done(_, again) = ask(agent, 102, ALL) else { panic!("nothing is new") };
    assert_eq!(again.unwrap(), first);
    let next = opened(&mut store, 102);
    let (_, again) = store.settled(ask(next, 102, ALL));
    assert_eq!(again.unwrap(), first);
}

#[test]
fn another_save_confirms_nothing() {
    let mut store = Store::default();
    let before = opened(&mut store, 100);
    let earlier = store.contents.clone().unwrap();
    let Turn::Save(staged) = ask(before, 102, ALL) else { panic!("an answer changes the state") };
    let expected = staged.save().version;
    let refused = staged.confirm(Saved::read_back(&earlier)).unwrap_err();
    assert_eq!((refused.expected, refused.found), (expected, Version::of(&earlier)));
    assert!(refused.to_string().contains(&expected.to_string()));
}

#[test]
fn a_failed_or_unconfirmed_save_leaves_what_is_stored() {
    for is_stored in [false, true] {
        let mut store = Store::default();
        let Turn::Save(staged) = ask(opened(&mut store, 100), 102, ALL) else { panic!("an answer changes the state") };
        if is_stored {
            assert!(store.save(staged.save()));
        }
        drop(staged);
        // Not stored: no report has left, and the next is the first. Stored: the spend is there.
        let next = opened(&mut store, 103);
        let (_, reply) = store.settled(ask(next, 103, ALL));
        assert_eq!(matches!(reply.unwrap(), AgentReply::Report(_)), !is_stored, "stored: {is_stored}");
    }
}

#[test]
fn of_two_tabs_only_the_later_saves() {
    let mut store = Store::default();
    let earlier = opened(&mut store, 100);
    let later = opened(&mut store, 100);
    let Turn::Save(overtaken) = ask(earlier, 102, ALL) else { panic!("an answer changes the state") };
    assert!(!store.save(overtaken.save()), "the later opening saved");
    let (_, reply) = store.settled(ask(later, 102, ALL));
    assert!(matches!(reply.unwrap(), AgentReply::Report(_)));
    // Two that open at once differ, too: what one stores does not confirm the other.
    let found = store.clone();
    let open = |seed| {
        let random = &mut SeededRandom::new(seed);
        StagedAgent::open(found.found(), "position", promised(2), None, b"", at(103, 1), random).unwrap()
    };
    let (one, other) = (open(1), open(2));
    assert_eq!(one.save().replaces, other.save().replaces);
    assert!(store.save(one.save()) && !store.save(other.save()));
    assert!(other.confirm(Saved::read_back(store.contents.as_ref().unwrap())).is_err());
}

#[test]
fn old_copies_and_damage_count_as_a_spent_window() {
    let mut store = Store::default();
    let agent = opened(&mut store, 100);
    let old = store.contents.clone().unwrap();
    let _ = store.settled(ask(agent, 102, ALL));
    let whole = store.contents.clone().unwrap();
    let cases: [(&str, Option<Vec<u8>>); 5] = [
        ("an old copy", Some(old)),
        ("deleted", None),
        ("emptied", Some(Vec::new())),
        ("cut off", Some(whole[..whole.len() - 1].to_vec())),
        ("of another machine", Some(whole)),
    ];
    for (what, contents) in cases {
        let mut store = Store { contents, ..store.clone() };
        let (marked, witness) = (store.mark, if what == "of another machine" { b"copy".as_slice() } else { b"" });
        let (mut agent, beginning) = begin(&mut store, None, witness, at(150, 1), 9);
        match what {
            "deleted" => assert!(matches!(beginning, Beginning::New)),
            "an old copy" | "of another machine" => {
                assert!(matches!(beginning, Beginning::Lost(Damaged::Copy { .. })), "{what}: {beginning:?}");
            }
            _ => assert!(matches!(beginning, Beginning::Lost(_)), "{what}: {beginning:?}"),
        }
        assert!(store.mark > marked, "{what}: the mark went back");
        for now in [150, 151, 152] {
            let reply;
            (agent, reply) = store.settled(ask(agent, now, ALL));
            assert_eq!(matches!(reply.unwrap(), AgentReply::Report(_)), now == 152, "{what}, at {now}");
        }
    }
}

#[test]
fn terms_change_only_with_the_owners_consent() {
    let mut store = Store::default();
    let agent = opened(&mut store, 100);
    let (agent, _) = store.settled(ask(agent, 102, ALL / 2));
    drop(agent);
    let found = store.clone();
    let open = |terms: Option<AbsenceTerms>| {
        StagedAgent::open(found.found(), "position", promised(2), terms, b"", at(103, 1), &mut SeededRandom::new(1))
    };
    let anew = |found: &Store, terms| {
        let random = &mut SeededRandom::new(1);
        StagedAgent::enrol_anew(found.found(), "position", promised(2), terms, b"", at(103, 1), random).unwrap()
    };
    assert!(open(None).is_ok());
    let refused = open(Some(by_the_wall())).unwrap_err();
    assert!(matches!(refused, AgentError::OtherTerms { enrolled: None, offered: Some(_) }), "{refused:?}");
    // With consent, all counts as spent now: what the other rule knew of time is forgotten.
    let Confirmed { agent, .. } = store.confirmed(anew(&found, Some(by_the_wall())));
    assert_eq!(agent.terms(), Some(&by_the_wall()));
    let (agent, reply) = store.settled(ask(agent, 104, ALL));
    assert_eq!(reply.unwrap(), AgentReply::Refused(RefusalReason::Budget), "it would be free without the change");
    let (agent, reply) = store.settled(ask(agent, 104, ALL / 2));
    assert!(matches!(reply.unwrap(), AgentReply::Report(_)));
    drop(agent);
    // A later end of the same terms is consent too, and costs nothing.
    let longer = AbsenceTerms { until: by_the_wall().until + 1, ..by_the_wall() };
    let random = &mut SeededRandom::new(1);
    let found = store.clone();
    let refused =
        StagedAgent::open(found.found(), "position", promised(2), Some(longer.clone()), b"", at(105, 1), random);
    assert!(matches!(refused, Err(AgentError::OtherTerms { .. })));
    let Confirmed { agent, .. } = store.confirmed(anew(&found, Some(longer)));
    let (_, reply) = store.settled(ask(agent, 105, ALL / 2));
    assert!(matches!(reply.unwrap(), AgentReply::Report(_)));
}

/// The saved form of version 1.
#[test]
fn stored_contents_keep_their_form() {
    let mut store = Store::default();
    let (agent, _) = begin(&mut store, Some(by_the_wall()), b"machine", at(100, 1), 7);
    let _ = store.settled(ask(agent, 102, ALL / 2));
    let written = store.contents.unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/staged-1.state");
    if std::env::var_os("TIDEGATE_UPDATE").is_some() && !path.exists() {
        fs::write(&path, &written).unwrap();
    }
    let golden = fs::read(&path).unwrap();
    assert!(golden == written, "the form has changed; give it a new version and file");
    let mut store = Store { contents: Some(golden.clone()), mark: Some(2) };
    let (agent, beginning) = begin(&mut store, Some(by_the_wall()), b"machine", at(102, 2), 8);
    assert!(matches!(beginning, Beginning::Resumed));
    let Turn::Done(agent, again) = ask(agent, 102, ALL / 2) else { panic!("the same report again") };
    assert!(matches!(again.unwrap(), AgentReply::Report(_)));
    let (_, reply) = store.settled(ask(agent, 103, ALL));
    assert_eq!(reply.unwrap(), AgentReply::Refused(RefusalReason::Budget));
    // Any damage is found, or it is a state that keeps its window.
    for position in 0..golden.len() {
        let mut changed = golden.clone();
        changed[position] ^= 1;
        let mut store = Store { contents: Some(changed), mark: None };
        let (_, beginning) = begin(&mut store, Some(by_the_wall()), b"machine", at(102, 2), 8);
        assert!(matches!(beginning, Beginning::Lost(_)), "a flipped bit in byte {position}");
    }
}
