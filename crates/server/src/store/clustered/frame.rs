//! Records of the log of reports.
//!
//! ```text
//! bytes   what
//!     4   "TGR1"
//!   any   chunks, none in a fence:
//!     8     number of the question
//!     8     its tag
//!     4     length of a report, in bytes
//!     4     number of reports: n
//!  n·12     identities, without the prefix that the timestamp gives
//!  n·len    reports, in the same order
//!     8   checksum
//! ```
//!
//! Numbers are little-endian.

use bytes::Bytes;
use tidegate_log::MAX_RECORD;

use super::super::row::sum;

const MAGIC: [u8; 4] = *b"TGR1";
const CHUNK: usize = 24;
const SUM: usize = 8;

/// Bytes of an identity.
pub(super) const ID: usize = 12;

/// Longest report that a record has room for.
pub(super) const MAX_REPORT: usize = MAX_RECORD / 2;

/// Reports of one question in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) question: i64,
    pub(super) tag: u64,
    pub(super) report_length: usize,
    pub(super) ids: &'a [[u8; ID]],
    pub(super) reports: &'a [u8],
}

/// Reports of one question, on their way into a record.
#[derive(Clone, Debug)]
pub(super) struct ChunkWriter {
    question: i64,
    tag: u64,
    report_length: usize,
    ids: Vec<u8>,
    reports: Vec<u8>,
}

impl ChunkWriter {
    pub(super) const fn new(question: i64, tag: u64, report_length: usize) -> Self {
        Self { question, tag, report_length, ids: Vec::new(), reports: Vec::new() }
    }

    pub(super) fn push(&mut self, id: &[u8; 16], report: &[u8]) {
        self.ids.extend_from_slice(&id[4..]);
        self.reports.extend_from_slice(report);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns its length in a record.
    const fn len(&self) -> usize {
        CHUNK + self.ids.len() + self.reports.len()
    }

    /// Whether another report makes it too long for a record.
    pub(super) const fn is_full(&self) -> bool {
        self.len() + ID + self.report_length > MAX_RECORD - MAGIC.len() - SUM
    }

    fn write(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.question.to_le_bytes());
        body.extend_from_slice(&self.tag.to_le_bytes());
        for number in [self.report_length, self.ids.len() / ID] {
            // Both are bounded by the length of a record.
            body.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        }
        body.extend_from_slice(&self.ids);
        body.extend_from_slice(&self.reports);
    }
}

/// Writes chunks into as few records as they need.
pub(super) fn records(chunks: &[ChunkWriter]) -> Vec<Bytes> {
    let mut records = Vec::new();
    let mut body = MAGIC.to_vec();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        if body.len() > MAGIC.len() && body.len() + chunk.len() + SUM > MAX_RECORD {
            records.push(finish(std::mem::replace(&mut body, MAGIC.to_vec())));
        }
        chunk.write(&mut body);
    }
    if body.len() > MAGIC.len() {
        records.push(finish(body));
    }
    records
}

/// Returns a record without reports, whose position bounds what was acknowledged before.
pub(super) fn fence() -> Bytes {
    finish(MAGIC.to_vec())
}

fn finish(mut body: Vec<u8>) -> Bytes {
    let sum = sum(&[b"frame", &body]);
    body.extend_from_slice(&sum.to_le_bytes());
    body.into()
}

fn number<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = body.split_first_chunk::<N>()?;
    *body = rest;
    Some(*first)
}

fn length(body: &mut &[u8]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(number(body)?)).ok()
}

/// Reads the chunks of a record; `None` for bytes that are no record.
pub(super) fn chunks(body: &[u8]) -> Option<Vec<Chunk<'_>>> {
    let (body, found) = body.split_last_chunk::<SUM>()?;
    if sum(&[b"frame", body]) != i64::from_le_bytes(*found) {
        return None;
    }
    let mut rest = body.strip_prefix(&MAGIC)?;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let question = i64::from_le_bytes(number(&mut rest)?);
        let tag = u64::from_le_bytes(number(&mut rest)?);
        let (report_length, count) = (length(&mut rest)?, length(&mut rest)?);
        let (ids, after) = rest.split_at_checked(count.checked_mul(ID)?)?;
        let (reports, after) = after.split_at_checked(count.checked_mul(report_length)?)?;
        chunks.push(Chunk { question, tag, report_length, ids: ids.as_chunks().0, reports });
        rest = after;
    }
    Some(chunks)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn chunk(question: i64, reports: u8) -> ChunkWriter {
        let mut chunk = ChunkWriter::new(question, 7, 2);
        (0..reports).for_each(|report| chunk.push(&[report; 16], &[report, 1]));
        chunk
    }

    #[test]
    fn reads_back_what_was_written() {
        let records = records(&[chunk(1, 2), chunk(2, 0), chunk(3, 1)]);
        assert_eq!(records.len(), 1);
        let found = chunks(&records[0]).unwrap();
        assert_eq!(found.iter().map(|chunk| (chunk.question, chunk.ids.len())).collect::<Vec<_>>(), [(1, 2), (3, 1)]);
        assert_eq!((found[0].ids[1], found[0].reports), ([1; ID], &[0, 1, 1, 1][..]));
        assert_eq!(chunks(&fence()), Some(Vec::new()));
    }

    #[test]
    fn splits_what_is_too_long_for_a_record() {
        let mut long = ChunkWriter::new(1, 7, 1_000);
        while !long.is_full() {
            long.push(&[1; 16], &[0; 1_000]);
        }
        let records = records(&[long.clone(), long.clone(), chunk(2, 1)]);
        assert!(records.iter().all(|record| record.len() <= MAX_RECORD), "{records:?}");
        let counts = records.iter().map(|record| chunks(record).unwrap().len()).sum::<usize>();
        assert_eq!(counts, 3);
    }

    #[test]
    fn refuses_damaged_and_cut_records() {
        let record = records(&[chunk(1, 3)]).remove(0);
        for place in 0..record.len() {
            let mut damaged = record.to_vec();
            damaged[place] ^= 1;
            assert_eq!(chunks(&damaged), None, "{place}");
            assert_eq!(chunks(&record[..place]), None, "{place}");
        }
    }
}
