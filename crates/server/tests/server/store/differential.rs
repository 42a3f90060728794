//! Differential test: thousands of random transactions on a store and on the model, with equal results.

use std::collections::HashMap;

use tidegate_kernel::oracle::Aggregate;
use tidegate_server::store::{
    Advance, Lease, MemberChanges, MemberFilter, NewRecord, NewStream, OpenQuestion, PhaseKey, RecordFilter,
    RecordKind, ReportBatch, SqliteStore, Status, Store, StoreError,
};

use super::members::classes;
use super::{TestFolder, batch, open, question};
use crate::model::Model;

/// A seeded generator of small numbers (splitmix64).
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    fn device(&mut self) -> u32 {
        u32::try_from(self.below(12)).unwrap()
    }

    fn value(&mut self) -> u8 {
        // Mostly the same, so repetitions are as frequent as conflicts; sometimes a malformed one.
        match self.below(12) {
            0..8 => 3,
            other => u8::try_from(other).unwrap() - 4,
        }
    }
}

/// A transaction.
#[derive(Clone, Debug)]
enum Step {
    Create(String),
    Redeclare(String, String),
    SetStatus(String, Status),
    Lease(String, String, u64, u64),
    ReleaseLease(Lease),
    Accept(String, Vec<(String, Vec<u8>, Vec<usize>)>),
    Merge(PhaseKey, String, std::ops::Range<u64>, Aggregate),
    Close(Lease, u64),
    Advance(Lease, u64, Vec<OpenQuestion>, Vec<NewRecord>, Vec<NewRecord>, Option<u64>),
    Publish(Lease, u64),
    ReplaceState(String, u64),
    Records(String, RecordKind, RecordFilter),
    ChangeMembers(String, u64, u64, Vec<(String, Option<u16>)>),
    Look(String),
    Names,
}

/// Formats a result for comparison.
fn said<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Ok(done) => format!("{done:?}"),
        Err(error) => format!("error: {error}"),
    }
}

impl Step {
    /// Draws a plausible transaction about a few streams, sometimes with outdated knowledge.
    fn draw(dice: &mut Dice, known: &Known) -> Self {
        let name = ["a", "b", "c"][usize::try_from(dice.below(3)).unwrap()].to_owned();
        let lease = match known.leases.len() {
            0 => Lease { stream: name.clone(), epoch: dice.below(3) },
            // Mostly the latest.
            count => known.leases[count - 1 - usize::try_from(dice.below(8)).unwrap() % count.min(3)].clone(),
        };
        let version = known.versions.get(&lease.stream).copied().unwrap_or(0);
        let version = if dice.below(8) == 0 { dice.below(6) } else { version };
        let near = version + dice.below(2);
        let source = ["here", "there"][usize::try_from(dice.below(2)).unwrap()].to_owned();
        match dice.below(27) {
            0 => Self::Create(name),
            1 => Self::Redeclare(name, format!("{{\"n\": {}}}", dice.below(100))),
            2 => Self::SetStatus(name, Status::ALL[usize::try_from(dice.below(41)).unwrap() / 20]),
            // Over at once, or longer than all steps, so no clock matters.
            3 => Self::Lease(
                name,
                format!("driver {}", dice.below(2)),
                known.steps,
                known.steps + 1_000_000 * dice.below(2),
            ),
            4 if dice.below(4) == 0 => Self::ReleaseLease(lease),
            5..=12 => {
                let mut batches = Vec::new();
                for _ in 0..1 + dice.below(4) {
                    let stream = ["a", "b", "c"][usize::try_from(dice.below(3)).unwrap()];
                    let near = known.versions.get(stream).copied().unwrap_or(0).saturating_sub(dice.below(5) / 4);
                    let phase = u16::try_from(dice.below(2)).unwrap();
                    let reports: HashMap<u32, u8> =
                        (0..1 + dice.below(9)).map(|_| (dice.device(), dice.value())).collect();
                    let count = reports.len();
                    let implausible = (0..count).filter(|_| dice.below(12) == 0).collect();
                    batches.push((stream.to_owned(), batch(stream, near, phase, reports), implausible));
                }
                Self::Accept(source, batches)
            }
            13 => {
                let phase = u16::try_from(dice.below(2)).unwrap();
                let timestamp = known.versions.get(&name).copied().unwrap_or(0);
                let key = PhaseKey { stream: name, timestamp, phase };
                let mut asked = question(0, 0);
                asked.domain += u32::from(dice.below(8) == 0);
                let mut counts = asked.oracle().unwrap().aggregate();
                (0..dice.below(5)).for_each(|_| counts.add(&[1]).unwrap());
                let start = dice.below(4);
                Self::Merge(key, source, start..start + dice.below(4), counts)
            }
            14 | 15 => Self::Close(lease, version),
            16 | 17 => {
                // The questions of a version are about the timestamp of the same number; one before goes on, now and
                // then.
                let mut asked: Vec<_> =
                    (0..u16::try_from(dice.below(3)).unwrap()).map(|phase| open(version + 1, phase)).collect();
                if dice.below(4) == 0 {
                    let mut before = open(version, u16::try_from(dice.below(2)).unwrap());
                    before.question.phase += 5 * u16::from(!asked.is_empty() && dice.below(2) == 0);
                    asked.push(before);
                }
                let mut records = |count| {
                    let body =
                        |_| NewRecord { timestamp: dice.below(8), body: format!("{{\"b\":{}}}", dice.below(1_000)) };
                    (0..count).map(body).collect::<Vec<_>>()
                };
                let (releases, said) = (records(known.steps % 3), records(known.steps % 2));
                let forget = (known.steps % 4 == 1).then_some(known.steps % 8);
                Self::Advance(lease, version, asked, releases, said, forget)
            }
            18 => Self::Publish(lease, near),
            19 if dice.below(6) == 0 => Self::ReplaceState(name, near + dice.below(3)),
            20 => {
                let kind = if dice.below(2) == 0 { RecordKind::Release } else { RecordKind::Answer };
                let (from, limit) = (dice.below(6), usize::try_from(dice.below(9)).unwrap());
                let to = if dice.below(2) == 0 { u64::MAX } else { from + dice.below(4) };
                Self::Records(
                    name,
                    kind,
                    RecordFilter { after: dice.below(6), from: from.saturating_sub(3), to, limit },
                )
            }
            21 => Self::Names,
            22..=24 => {
                let version = known.versions.get(&name).copied().unwrap_or(0).saturating_sub(dice.below(6) / 5);
                let request = |_| {
                    let class = u16::try_from(dice.below(3)).unwrap();
                    (format!("user {}", dice.below(6)), (class < 2).then_some(class))
                };
                let requests = (0..1 + known.steps % 4).map(request).collect();
                Self::ChangeMembers(name, version, known.steps / 8, requests)
            }
            _ => Self::Look(name),
        }
    }

    fn on(&self, store: &dyn Store, known: Option<&mut Known>) -> String {
        match self {
            Self::Create(name) => {
                said(store.create(&NewStream { name, declaration: "{}", policy: "{}", state: name.as_bytes() }))
            }
            Self::Redeclare(name, declaration) => {
                let earlier = store.stream(name).map(|found| found.declaration).unwrap_or_default();
                said(store.redeclare(name, &earlier, declaration))
            }
            Self::SetStatus(name, status) => said(store.set_status(name, *status)),
            Self::Lease(name, holder, now, until) => {
                let lease = store.lease(name, holder, *now, *until);
                if let (Some(known), Ok(Some(lease))) = (known, &lease) {
                    known.leases.push(lease.clone());
                }
                said(lease)
            }
            Self::ReleaseLease(lease) => said(store.release_lease(lease)),
            Self::Accept(source, batches) => {
                let mut intakes = Vec::new();
                for (stream, bytes, implausible) in batches {
                    let mut batch = ReportBatch::parse(stream, bytes.clone().into()).unwrap();
                    batch.implausible.clone_from(implausible);
                    intakes.push(batch);
                }
                said(store.accept(source, &intakes))
            }
            Self::Merge(key, source, range, counts) => said(store.merge(key, source, range.clone(), counts)),
            Self::Close(lease, version) => {
                let totals = store.close(lease, *version);
                said(totals.map(|totals| {
                    totals.iter().map(|total| total.as_ref().map(Aggregate::supports)).collect::<Vec<_>>()
                }))
            }
            Self::Advance(lease, version, open, releases, said_records, forget) => {
                let next = Advance {
                    version: *version,
                    state: format!("state {version}").into_bytes(),
                    open: open.clone(),
                    releases: releases.clone(),
                    answers: said_records.clone(),
                    forget: *forget,
                    members: None,
                };
                let outcome = store.advance(lease, next);
                if let (Some(known), Ok(())) = (known, &outcome) {
                    known.versions.insert(lease.stream.clone(), version + 1);
                }
                said(outcome)
            }
            Self::Publish(lease, version) => said(store.publish(lease, *version)),
            Self::ReplaceState(name, version) => {
                let outcome = store.replace_state(name, b"anew", *version);
                if let (Some(known), Ok(())) = (known, &outcome) {
                    known.versions.insert(name.clone(), *version);
                }
                said(outcome)
            }
            Self::Records(name, kind, filter) => {
                said(store.records(name, *kind, filter)) + &said(store.latest(name, *kind, filter.from % 3))
            }
            Self::ChangeMembers(name, version, next, requests) => {
                let changes =
                    MemberChanges { version: *version, next: *next, lateness: 0, classes: &classes(), requests };
                said(store.change_members(name, &changes))
            }
            Self::Look(name) => {
                let members = store.members(name, MemberFilter::After(0, 100));
                said(store.stream(name)) + &said(store.status(name)) + &said(members)
            }
            Self::Names => said(store.names()),
        }
    }
}

/// Knowledge of a store's user.
#[derive(Debug, Default)]
struct Known {
    steps: u64,
    leases: Vec<Lease>,
    versions: HashMap<String, u64>,
}

/// Runs random steps on the model and on two handles of one store, of which one is reopened now and then.
pub(crate) fn compare<S: Store>(seed: u64, open: &dyn Fn() -> S, second: &S) {
    let mut first = Some(open());
    let (model, mut known, mut dice) = (Model::default(), Known::default(), Dice(seed));
    let mut accepted = 0;
    for number in 0..250 {
        known.steps = number;
        let step = Step::draw(&mut dice, &known);
        if dice.below(60) == 0 {
            drop(first.take());
        }
        let store: &dyn Store = if dice.below(6) == 0 { second } else { first.get_or_insert_with(open) };
        let expected = step.on(&model, Some(&mut known));
        let found = step.on(store, None);
        accepted += u64::from(found.contains("accepted: ") && !found.contains("accepted: 0"));
        assert_eq!(found, expected, "seed {seed}, step {number}: {step:?}");
    }
    assert!(accepted > 0, "seed {seed} accepts nothing at all");
}

#[test]
fn sqlite_agrees_with_the_model() {
    for seed in 0..12 {
        let folder = TestFolder::new();
        let open = || SqliteStore::open(&folder.file("store")).unwrap();
        compare(seed, &open, &open());
    }
}
