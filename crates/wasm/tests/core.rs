//! The device of a page, with a store in memory: no reply before its state is stored, no more than the ledger allows.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use ed25519_dalek::SigningKey;
use serde_json::json;
use tidegate_device::DevicePolicy;
use tidegate_device::clock::Ticks;
use tidegate_device::enrolment::StreamPolicy;
use tidegate_kernel::Window;
use tidegate_wasm::core::{Clocks, Core, CoreError, Opening, Reply, Step};

const EPOCH: f64 = 1_700_000_000.0;

/// A page with its store.
struct Page {
    core: Core,
    stored: Option<Vec<u8>>,
    policy: String,
    operator: String,
}

fn at(timestamp: u64) -> Clocks {
    let seconds = 60.0 * f64::from(u32::try_from(timestamp).unwrap());
    Clocks { wall: EPOCH + seconds, steady: seconds }
}

fn question(timestamp: u64, phase: u16, epsilon: &str) -> String {
    let (cohort, oracle, domain, view) = ("everyone", "grr", 6, "values");
    json!({
        "timestamp": timestamp, "phase": phase, "cohort": cohort, "epsilon": epsilon, "oracle": oracle,
        "domain": domain, "view": view,
    })
    .to_string()
}

impl Page {
    fn new() -> Self {
        let operator = SigningKey::from_bytes(&[7; 32]);
        let policy = StreamPolicy {
            stream: "visits".to_owned(),
            protects: DevicePolicy { epsilon: "3".parse().unwrap(), window: Window::of(3).unwrap(), domain: 6 },
            oracle: None,
            ticks: Ticks { epoch: 1_700_000_000, seconds: NonZeroU64::new(60).unwrap() },
            slot_key: *b"sixteen byte key",
            sequence: None,
            issuer: None,
        };
        let digits = operator.verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let policy = serde_json::to_string(&policy.sign(&operator).unwrap()).unwrap();
        Self { core: Core::new().unwrap(), stored: None, policy, operator: digits }
    }

    fn open(&mut self, timestamp: u64) -> Result<Reply, CoreError> {
        let opening = Opening {
            stored: self.stored.as_deref(),
            source: "position",
            policy: &self.policy,
            operator: &self.operator,
            terms: "",
            consents: false,
        };
        let Step::Save(save) = self.core.open(opening, at(timestamp))? else { panic!("an opening is saved") };
        let contents = save.contents.clone();
        self.stored = Some(contents.clone());
        self.core.confirm(&contents)
    }

    fn answer(&mut self, now: u64, question: &str, value: u32) -> Result<Reply, CoreError> {
        let contents = match self.core.answer(question, value, at(now))? {
            Step::Done(reply) => return Ok(reply),
            Step::Save(save) => save.contents.clone(),
        };
        self.stored = Some(contents.clone());
        self.core.confirm(&contents)
    }
}

fn code(result: Result<Reply, CoreError>) -> &'static str {
    result.unwrap_err().code
}

#[test]
fn a_reply_waits_until_its_state_is_stored() {
    let mut page = Page::new();
    page.open(10).unwrap();
    let asked = question(20, 0, "1");
    assert!(matches!(page.core.answer(&asked, 2, at(20)).unwrap(), Step::Save(_)));
    // Whatever a caller does instead of saving gives nothing.
    assert_eq!(code(page.answer(20, &asked, 2)), "not_ready");
    assert_eq!(page.core.spent(at(20)).unwrap_err().code, "not_ready");
    assert_eq!(code(page.core.confirm(b"other bytes")), "not_saved");
    assert_eq!(code(page.core.confirm(page.stored.as_deref().unwrap())), "not_ready");
    page.open(20).unwrap();
}

#[test]
fn the_same_question_gets_the_same_bytes_for_any_value() {
    let mut page = Page::new();
    page.open(10).unwrap();
    let asked = question(20, 0, "1");
    let first = page.answer(20, &asked, 2).unwrap();
    assert!(first.batch.is_some());
    for value in 0..6 {
        assert_eq!(page.answer(20, &asked, value).unwrap(), first);
    }
    // Another page load, whose steady clock is another.
    page.core = Core::new().unwrap();
    page.open(20).unwrap();
    assert_eq!(page.answer(20, &asked, 5).unwrap(), first);
}

#[test]
fn a_greedy_caller_gets_a_window_of_epsilon_at_most() {
    let mut page = Page::new();
    page.open(10).unwrap();
    let mut reports = BTreeMap::new();
    for now in 14..40 {
        for (phase, epsilon) in [(0, "1"), (0, "3"), (1, "2"), (2, "0.5"), (3, "0.5"), (9, "20")] {
            for value in [0, 5] {
                for asked in [now - 1, now, now + 1] {
                    let reply = page.answer(now, &question(asked, phase, epsilon), value).unwrap();
                    let Some(batch) = reply.batch else { continue };
                    let (billionths, before) = reports
                        .entry((asked, phase))
                        .or_insert_with(|| ((epsilon.parse::<f64>().unwrap() * 1e9).round(), batch.clone()));
                    assert_eq!((*before).clone(), batch);
                    assert!((*billionths - epsilon.parse::<f64>().unwrap() * 1e9).abs() < 0.5);
                }
            }
        }
    }
    assert!(reports.len() > 8, "{}", reports.len());
    for end in 14..40_u64 {
        let spent: f64 = reports.range((end - 2, 0)..=(end, u16::MAX)).map(|(_, (billionths, _))| billionths).sum();
        assert!(spent <= 3e9, "{spent} in the window that ends at {end}");
    }
}
