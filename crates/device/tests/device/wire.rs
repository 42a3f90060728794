//! Batches round-trip, and nothing else parses as one.

use proptest::prelude::*;
use tidegate_device::wire::{
    Batch, BatchText, BatchWriter, MAX_BATCH, MAX_REPORTS, ReportId, ReportText, StreamTag, WireError,
};

fn id(device: u8, timestamp: u64) -> ReportId {
    ReportId::of(&[device; 16], StreamTag::of("visits"), timestamp, 3)
}

fn batch(devices: &[u8], length: usize) -> Vec<u8> {
    let mut writer = BatchWriter::new(StreamTag::of("visits"), 7, 3, length);
    for device in devices {
        writer.push(id(*device, 7), &vec![*device; length]).unwrap();
    }
    writer.write().unwrap()
}

#[test]
fn the_form_has_not_changed() {
    let bytes = batch(&[1], 2);
    let (tag, id) = (StreamTag::of("visits"), id(1, 7));
    let expected = [
        b"TGB1".as_slice(),
        tag.as_bytes(),
        &[7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0],
        id.as_bytes(),
        &[1, 1],
    ];
    assert_eq!(bytes, expected.concat());
    // SHA-256 of the heading and the name, as any other program computes it.
    let tag: String = tag.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(tag, "bd3d5ec719c6f5f888c4de3efa940a12");
}

#[test]
fn identities_are_equal_only_for_retries() {
    assert_eq!(id(1, 7), id(1, 7));
    let stream = StreamTag::of("visits");
    let others = [id(2, 7), id(1, 8), ReportId::of(&[1; 16], stream, 7, 4), {
        ReportId::of(&[1; 16], StreamTag::of("visits-2"), 7, 3)
    }];
    assert!(others.iter().all(|other| other.as_bytes()[4..] != id(1, 7).as_bytes()[4..]));
    assert!(id(1, 7) < id(1, 8) && id(200, 255) < id(1, 256), "later timestamps sort later");
}

#[test]
fn rejects_invalid_batches_with_the_position() {
    let mut writer = BatchWriter::new(StreamTag::of("visits"), 7, 3, 2);
    assert_eq!(writer.push(id(1, 7), &[1]), Err(WireError::Report { given: 1, expected: 2 }));
    assert_eq!(writer.push(id(1, 8), &[1, 1]), Err(WireError::OtherTimestamp { position: 0 }));
    assert_eq!(writer.clone().write(), Err(WireError::Count { given: 0 }));
    writer.push(id(1, 7), &[1, 1]).unwrap();
    writer.push(id(1, 7), &[2, 2]).unwrap();
    assert_eq!(writer.write(), Err(WireError::Order { position: 1 }), "one device, two reports");
    let mut large = BatchWriter::new(StreamTag::of("visits"), 7, 3, MAX_BATCH);
    assert!(matches!(large.push(id(1, 7), &vec![0; MAX_BATCH]), Err(WireError::TooLarge { .. })));
    assert_eq!(Batch::parse(&vec![0; MAX_BATCH + 1]), Err(WireError::TooLarge { given: MAX_BATCH + 1 }));
    let good = batch(&[1, 2], 2);
    assert_eq!(Batch::parse(&good[..39]), Err(WireError::Foreign));
    assert!(matches!(Batch::parse(&good[..good.len() - 1]), Err(WireError::Length { .. })));
    let mut changed = good.clone();
    changed[30] = 1;
    assert_eq!(Batch::parse(&changed), Err(WireError::Foreign));
    changed = good.clone();
    changed[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Batch::parse(&changed), Err(WireError::Count { .. })), "no room is made for what is not there");
    changed[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    changed[36..40].copy_from_slice(&100_000_u32.to_le_bytes());
    assert!(matches!(Batch::parse(&changed), Err(WireError::Length { .. })));
    changed = good;
    changed[20] = 8;
    assert_eq!(Batch::parse(&changed), Err(WireError::OtherTimestamp { position: 0 }));
    const { assert!(MAX_REPORTS * 17 < MAX_BATCH) };
}

#[test]
fn the_text_says_the_same() {
    let bytes = batch(&[9, 4, 6], 3);
    let parsed = Batch::parse(&bytes).unwrap();
    let text = BatchText::of(&parsed, "visits").unwrap();
    assert_eq!(BatchText::of(&parsed, "other"), None);
    let json = serde_json::to_string(&text).unwrap();
    let mut back: BatchText = serde_json::from_str(&json).unwrap();
    back.reports.reverse();
    assert_eq!(back.to_bytes().unwrap(), bytes);
    let bad = |id: &str, report: &str| {
        let reports = vec![ReportText { id: id.to_owned(), token: None, report: report.to_owned() }];
        BatchText { reports, ..back.clone() }.to_bytes().unwrap_err()
    };
    let good = &back.reports[0];
    for (id, report) in [("", "00"), (&good.id[2..], "00"), (&good.id, "0"), (&good.id, "+1"), (&good.id, "\u{e9}")] {
        assert_eq!(bad(id, report), WireError::Digits { position: 0 });
    }
    assert!(matches!(bad(&good.id, ""), WireError::Report { .. }));
    assert_eq!(BatchText { reports: Vec::new(), ..back }.to_bytes(), Err(WireError::Count { given: 0 }));
}

#[test]
fn parsing_text_stops_at_the_batch_limit() {
    let bytes = batch(&[1], 1);
    let id = BatchText::of(&Batch::parse(&bytes).unwrap(), "visits").unwrap().reports.remove(0).id;
    let report = |report: String| ReportText { id: id.clone(), token: None, report };
    let text = |reports| BatchText { stream: "visits".to_owned(), timestamp: 7, phase: 3, reports };
    let refused = |text: &BatchText| {
        let json = serde_json::to_string(text).unwrap();
        let error = serde_json::from_str::<BatchText>(&json).unwrap_err().to_string();
        (text.to_bytes().unwrap_err(), error)
    };
    let many = text(vec![report("00".to_owned()); MAX_REPORTS + 1]);
    let (error, read) = refused(&many);
    assert_eq!(error, WireError::Count { given: MAX_REPORTS + 1 });
    assert!(read.contains("a batch has 1 to 100000 reports"), "{read}");
    let (error, read) = refused(&text(vec![report("0".repeat(2 * MAX_BATCH))]));
    assert!(matches!(error, WireError::TooLarge { .. }) && read.contains("is larger than"), "{error}, {read}");
    let uneven = text(vec![report("00".to_owned()), report("0".repeat(2 * MAX_BATCH))]);
    assert!(matches!(refused(&uneven).0, WireError::Report { expected: 1, .. }));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(5),
        ..ProptestConfig::default()
    })]

    #[test]
    fn parsed_batches_are_written_the_same(
        devices in prop::collection::btree_set(any::<u8>(), 1..20),
        length in 1_usize..20,
        change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        cut in any::<prop::sample::Index>(),
    ) {
        let devices: Vec<u8> = devices.into_iter().collect();
        let mut bytes = batch(&devices, length);
        if let Some((position, value)) = change {
            let position = position.index(bytes.len());
            bytes[position] = value;
        }
        if let Ok(parsed) = Batch::parse(&bytes) {
            let mut writer = BatchWriter::new(parsed.stream, parsed.timestamp, parsed.phase, parsed.report_length());
            for (id, report) in parsed.iter() {
                writer.push(id, report).unwrap();
            }
            prop_assert_eq!(parsed.reports().len(), parsed.len() * parsed.report_length());
            prop_assert_eq!(writer.write().unwrap(), bytes.clone());
        }
        let cut = cut.index(bytes.len());
        prop_assert!(Batch::parse(&bytes[..cut]).is_err());
    }
}
