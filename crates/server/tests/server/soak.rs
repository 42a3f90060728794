//! Memory over many ticks.

use std::sync::{Arc, Mutex};

use tidegate::kernel::oracle::OracleKind;
use tidegate::kernel::{Ledger, SeededRandom, Window};
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_server::driver::{Driver, HighWater, Mark, Tools, first_state};
use tidegate_server::store::sqlite::SqliteStore;
use tidegate_server::store::{NewStream, RecordFilter, RecordKind, ReportBatch, Store};
use tidegate_server::stream::Declaration;

use crate::store::TestFolder;

/// High-water marks in memory.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<Option<Mark>>);

impl HighWater for Noted {
    fn mark(&self, _: &str) -> Option<Mark> {
        *self.0.lock().unwrap()
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> std::io::Result<()> {
        *self.0.lock().unwrap() = marks.last().map(|(_, mark)| *mark);
        Ok(())
    }
}

/// Returns the resident memory of this process in KiB; `None` where it is unknown.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Runs 600 ticks, or as many as `TIDEGATE_TICKS` says.
#[test]
fn memory_does_not_grow_with_ticks() {
    let ticks: u64 = std::env::var("TIDEGATE_TICKS").map_or(600, |ticks| ticks.parse().unwrap());
    let folder = TestFolder::new();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&folder.file("store")).unwrap());
    let declaration: Declaration = serde_json::from_str(
        r#"{"name": "soak", "tick": 10, "spec": {
            "family": "local", "mechanism": "lpu", "epsilon": 1, "window": 10, "domain": 64,
            "population": 1000, "oracle": "grr"
        }}"#,
    )
    .unwrap();
    let text = serde_json::to_string(&declaration).unwrap();
    let state = first_state(&declaration, 0, None).unwrap();
    store.create(&NewStream { name: "soak", declaration: &text, policy: "{}", state: &state }).unwrap();
    let (marks, holder) = (Arc::new(Noted::default()), "only".to_owned());
    let tools = Tools { store: Arc::clone(&store), marks, key: None, holder, lease: 60_000 };
    let mut driver = Driver::open("soak", 0, None, tools).unwrap();
    let random = &mut SeededRandom::new(1);
    let (mut now, mut after_warm_up) = (0, None);
    for tick in 0..ticks {
        let mut report = driver.run_due(now, random).unwrap();
        while driver.questions().is_empty() {
            // It woke up to renew its lease.
            report = driver.run_due(report.wake, random).unwrap();
        }
        let question = driver.questions()[0].question.clone();
        assert_eq!((question.timestamp, question.oracle), (tick, OracleKind::Grr));
        let oracle = question.oracle().unwrap();
        let mut batch = BatchWriter::new(StreamTag::of("soak"), tick, question.phase, oracle.report_length());
        for device in 0..100_u8 {
            let mut ledger = Ledger::new(question.epsilon, Window::EVENT);
            let permit = ledger.spend(tick, question.epsilon).unwrap();
            let report = oracle.perturb(permit, u32::from(device) % 64, random).unwrap();
            let id = ReportId::of(&[device; 16], StreamTag::of("soak"), tick, question.phase);
            batch.push(id, report.as_bytes()).unwrap();
        }
        let bytes = batch.write().unwrap();
        let intake = ReportBatch::parse("soak", bytes.to_vec().into()).unwrap();
        assert_eq!(store.accept("only", &[intake]).unwrap()[0].as_ref().unwrap().accepted, 100);
        let report = driver.run_due(report.wake, random).unwrap();
        now = report.wake;
        if tick == ticks / 4 {
            after_warm_up = resident();
        }
    }
    // It may wake up to renew its lease, too.
    for _ in 0..2 {
        now = driver.run_due(now, random).unwrap().wake;
    }
    let last = RecordFilter { after: ticks - 1, ..RecordFilter::default() };
    let last = store.records("soak", RecordKind::Release, &last).unwrap();
    assert_eq!((last.len(), last[0].timestamp), (1, ticks - 1));
    if let (Some(before), Some(after)) = (after_warm_up, resident()) {
        println!("{ticks} ticks: {before} KiB after a quarter of them, {after} KiB at the end");
        assert!(after < before + 4_096, "{before} KiB became {after} KiB");
    }
}
