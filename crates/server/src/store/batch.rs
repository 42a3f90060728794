//! [`ReportBatch`]: reports of one question, parsed once.

use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use siphasher::sip::SipHasher24;
use tidegate_device::wire::{Batch, ReportId, WireError};

/// Parsed reports of one question. It owns its bytes, so it can wait for a group commit.
#[derive(Clone, Debug)]
pub struct ReportBatch {
    /// Stream of the question.
    pub stream: Arc<str>,
    /// Timestamp of the question.
    pub timestamp: u64,
    /// Phase of the question.
    pub phase: u16,
    /// Ascending indices of reports rejected as implausible, or for a wrong token.
    pub implausible: Vec<usize>,
    ids: Vec<ReportId>,
    digests: Vec<u64>,
    report_length: usize,
    tokens: Bytes,
    reports: Bytes,
}

impl ReportBatch {
    /// Parses a batch without looking at its reports.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn parse(stream: &str, bytes: Bytes) -> Result<Self, WireError> {
        Self::parse_with(&stream.into(), bytes, |_| Ok(Vec::new()))
    }

    /// Parses a batch. `admit` refuses it, or returns the ascending indices of implausible reports.
    ///
    /// # Errors
    /// Malformed bytes, and the refusals of `admit`.
    pub fn parse_with<E: From<WireError>>(
        stream: &Arc<str>,
        bytes: Bytes,
        admit: impl FnOnce(&Batch<'_>) -> Result<Vec<usize>, E>,
    ) -> Result<Self, E> {
        let batch = Batch::parse(&bytes)?;
        let implausible = admit(&batch)?;
        let (ids, digests) = batch.iter().map(|(id, report)| (id, digest(report))).unzip();
        Ok(Self {
            stream: Arc::clone(stream),
            timestamp: batch.timestamp,
            phase: batch.phase,
            implausible,
            ids,
            digests,
            report_length: batch.report_length(),
            tokens: bytes.slice_ref(batch.tokens()),
            reports: bytes.slice_ref(batch.reports()),
        })
    }

    /// Returns the number of reports, which is at least one.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the length of each report, in bytes.
    pub const fn report_length(&self) -> usize {
        self.report_length
    }

    /// Returns the proof of each report's token, in a stream with credentials; none in others.
    pub fn tokens(&self) -> &[[u8; 32]] {
        self.tokens.as_chunks().0
    }

    /// Returns all reports, one after another.
    pub fn reports(&self) -> &[u8] {
        &self.reports
    }

    /// Iterates over the reports with their identities and [digests](digest).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ReportId, &[u8], u64)> {
        let reports = self.reports.chunks_exact(self.report_length);
        self.ids.iter().zip(reports).zip(&self.digests).map(|((id, report), digest)| (*id, report, *digest))
    }

    /// Iterates over the identities and digests of the reports.
    pub fn identities(&self) -> impl ExactSizeIterator<Item = (ReportId, u64)> {
        self.ids.iter().copied().zip(self.digests.iter().copied())
    }
}

/// Hashes a report, to tell a repeated report from a conflicting one under the same identity.
///
/// It is not collision-resistant. Of two reports with one digest, the second counts as repeated.
pub fn digest(report: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(b"tidegate: report");
    hasher.write(report);
    hasher.finish()
}
