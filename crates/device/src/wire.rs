//! Wire formats of reports: [`Batch`], binary and little-endian, and [`BatchText`], JSON.
//!
//! ```text
//! bytes   what
//!     4   "TGB1"
//!    16   the stream's tag
//!     8   timestamp
//!     2   phase
//!     2   zero
//!     4   how long a report is, in bytes
//!     4   how many there are: n
//!  n·16   the reports' identities, ascending
//!  n·len  the reports, in the same order, one after another: as an oracle's aggregate takes them
//! ```
//!
//! In a stream with [credentials](crate::credential), the header begins with "TGB2", and `n·32` bytes follow the
//! identities: the nonce of each report's token, and the [proof](TokenProof) that the sender has it.
//!
//! A report's identity begins with its timestamp, so that the reports of one timestamp are adjacent in an index and
//! deleted together. The rest is a keyed hash that only the device can compute. It is equal for retries. For another
//! timestamp or phase it cannot be linked to the device.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

/// Maximum size of a batch, in bytes.
pub const MAX_BATCH: usize = 8 << 20;

/// Maximum reports of a batch.
pub const MAX_REPORTS: usize = 100_000;

/// Maximum reports of a batch with tokens: a service checks each with a multiplication on a curve.
pub const MAX_TOKENS: usize = 8_192;

const MAGIC: [u8; 4] = *b"TGB1";
/// The magic of a batch whose reports have tokens.
const MAGIC_TOKENS: [u8; 4] = *b"TGB2";
const HEADER: usize = 40;
const IDENTITY: usize = 16;
const TOKEN: usize = 32;

/// A hash of a stream's name, as in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamTag([u8; 16]);

impl StreamTag {
    /// The tag of a stream name.
    pub fn of(stream: &str) -> Self {
        Self(hash(b"tidegate stream tag\n", &[stream.as_bytes()]))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The identity of a report's sender, for one timestamp and phase only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportId([u8; IDENTITY]);

impl ReportId {
    /// The report identity of a device with this secret identity.
    pub fn of(identity: &[u8; 16], stream: StreamTag, timestamp: u64, phase: u16) -> Self {
        let mut id: [u8; IDENTITY] =
            hash(b"tidegate report id\n", &[identity, &stream.0, &timestamp.to_le_bytes(), &phase.to_le_bytes()]);
        id[..4].copy_from_slice(&prefix(timestamp));
        Self(id)
    }

    /// The bytes. Identities of one timestamp share a prefix, and later timestamps sort after earlier ones, except for
    /// a wrap after 2^32.
    pub const fn as_bytes(&self) -> &[u8; IDENTITY] {
        &self.0
    }
}

/// The nonce of a report's token, and a keyed hash of the report under the token's secret: 16 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenProof([u8; TOKEN]);

impl TokenProof {
    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; TOKEN] {
        &self.0
    }

    /// The nonce and the hash.
    pub(crate) fn parts(&self) -> ([u8; 16], [u8; 16]) {
        let (mut nonce, mut mac) = ([0; 16], [0; 16]);
        nonce.copy_from_slice(&self.0[..16]);
        mac.copy_from_slice(&self.0[16..]);
        (nonce, mac)
    }
}

impl From<[u8; TOKEN]> for TokenProof {
    fn from(bytes: [u8; TOKEN]) -> Self {
        Self(bytes)
    }
}

/// The common prefix of the identities of a timestamp.
#[allow(clippy::cast_possible_truncation)] // the low half, on purpose
fn prefix(timestamp: u64) -> [u8; 4] {
    (timestamp as u32).to_be_bytes()
}

/// The first 16 bytes of the SHA-256 of the parts. All but the last have a fixed length.
fn hash(heading: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(heading);
    parts.iter().for_each(|part| hasher.update(part));
    let mut first = [0; 16];
    first.copy_from_slice(&hasher.finalize()[..16]);
    first
}

/// Why bytes are not a valid batch, or a report does not fit into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum WireError {
    /// The batch is too large.
    #[error("a batch of {given} bytes is larger than {MAX_BATCH}")]
    TooLarge { given: usize },
    /// Unknown header or version.
    #[error("these bytes are not a batch of reports of a known version")]
    Foreign,
    /// The length contradicts the header.
    #[error("a batch of {reports} reports of {length} bytes each has {expected} bytes, but there are {given}")]
    Length { reports: usize, length: usize, expected: u64, given: usize },
    /// No reports, or too many.
    #[error("a batch has 1 to {MAX_REPORTS} reports, but this one has {given}")]
    Count { given: usize },
    /// Too many reports with tokens.
    #[error("a batch has at most {MAX_TOKENS} reports with tokens, but this one has {given}: send several batches")]
    Tokens { given: usize },
    /// An empty report, or one of another length than the others.
    #[error("a report has {given} bytes, but {expected} are expected")]
    Report { given: usize, expected: usize },
    /// Identities that are not strictly ascending.
    #[error("report {position}: identities must be strictly ascending")]
    Order { position: usize },
    /// An identity of another timestamp.
    #[error("report {position}: its identity is of another timestamp than the batch")]
    OtherTimestamp { position: usize },
    /// Invalid hexadecimal digits.
    #[error("report {position}: expected pairs of hexadecimal digits, 32 for an identity and 64 for a token")]
    Digits { position: usize },
    /// Some reports have tokens, and others have none.
    #[error("report {position}: either all reports of a batch have tokens, or none")]
    Token { position: usize },
}

/// Reports of one phase of one timestamp, with checked number, length, identities and order. The oracle checks the
/// reports' contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The stream.
    pub stream: StreamTag,
    /// The timestamp.
    pub timestamp: u64,
    /// The phase.
    pub phase: u16,
    report_length: usize,
    identities: &'a [[u8; IDENTITY]],
    /// One for each report, or none.
    tokens: &'a [u8],
    reports: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Parses a batch without copying it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > MAX_BATCH {
            return Err(WireError::TooLarge { given: bytes.len() });
        }
        let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or(WireError::Foreign)?;
        let has_tokens = header[..4] == MAGIC_TOKENS;
        if header[..4] != MAGIC && !has_tokens || header[30..32] != [0, 0] {
            return Err(WireError::Foreign);
        }
        let token = if has_tokens { TOKEN } else { 0 };
        let mut tag = [0; 16];
        tag.copy_from_slice(&header[4..20]);
        let word = |from: usize, to: usize| {
            header[from..to].iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte))
        };
        let (timestamp, length, count) = (word(20, 28), word(32, 36), word(36, 40));
        #[allow(clippy::cast_possible_truncation)] // two bytes
        let phase = word(28, 30) as u16;
        #[allow(clippy::cast_possible_truncation)] // four bytes each
        let (length, reports) = (length as usize, count as usize);
        if reports == 0 || reports > MAX_REPORTS {
            return Err(WireError::Count { given: reports });
        }
        if has_tokens && reports > MAX_TOKENS {
            return Err(WireError::Tokens { given: reports });
        }
        let expected = HEADER as u64 + (IDENTITY as u64 + token as u64 + length as u64) * count;
        if expected != bytes.len() as u64 {
            return Err(WireError::Length { reports, length, expected, given: bytes.len() });
        }
        let (identities, body) = body.split_at(IDENTITY * reports);
        let (tokens, reports) = body.split_at(token * reports);
        let batch = Self {
            stream: StreamTag(tag),
            timestamp,
            phase,
            report_length: length,
            identities: identities.as_chunks().0,
            tokens,
            reports,
        };
        batch.check()?;
        Ok(batch)
    }

    fn check(&self) -> Result<(), WireError> {
        if self.report_length == 0 {
            return Err(WireError::Report { given: 0, expected: 1 });
        }
        let prefix = prefix(self.timestamp);
        if let Some(position) = self.identities.iter().position(|identity| identity[..4] != prefix) {
            return Err(WireError::OtherTimestamp { position });
        }
        if let Some(before) = self.identities.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(WireError::Order { position: before + 1 });
        }
        Ok(())
    }

    /// The number of reports; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        self.identities.len()
    }

    /// The length of each report, in bytes.
    pub const fn report_length(&self) -> usize {
        self.report_length
    }

    /// All reports, concatenated.
    pub const fn reports(&self) -> &'a [u8] {
        self.reports
    }

    /// The proofs of all tokens, concatenated: 32 bytes for each report. Empty where reports have no tokens.
    pub const fn tokens(&self) -> &'a [u8] {
        self.tokens
    }

    /// Each report with its identity.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ReportId, &'a [u8])> + use<'a> {
        self.identities.iter().map(|identity| ReportId(*identity)).zip(self.reports.chunks_exact(self.report_length))
    }
}

/// Collects reports of one phase into a batch.
#[derive(Clone, Debug)]
pub struct BatchWriter {
    stream: StreamTag,
    timestamp: u64,
    phase: u16,
    report_length: usize,
    /// Whether all reports have tokens; as the first has.
    has_tokens: bool,
    reports: Vec<(ReportId, Option<TokenProof>, Vec<u8>)>,
}

impl BatchWriter {
    /// Creates an empty batch for reports of the given length.
    pub const fn new(stream: StreamTag, timestamp: u64, phase: u16, report_length: usize) -> Self {
        Self { stream, timestamp, phase, report_length, has_tokens: false, reports: Vec::new() }
    }

    /// Adds a report.
    ///
    /// # Errors
    /// If the report has another length or timestamp, or the batch is full: write it and begin another.
    pub fn push(&mut self, id: ReportId, report: &[u8]) -> Result<(), WireError> {
        self.push_with(id, None, report)
    }

    /// Adds a report, and the proof of its token if it has one.
    ///
    /// # Errors
    /// Those of [`push`](Self::push); and if only some reports have tokens.
    pub fn push_with(&mut self, id: ReportId, token: Option<TokenProof>, report: &[u8]) -> Result<(), WireError> {
        let (given, expected) = (report.len(), self.report_length);
        if given != expected || given == 0 {
            return Err(WireError::Report { given, expected });
        }
        let position = self.reports.len();
        if id.0[..4] != prefix(self.timestamp) {
            return Err(WireError::OtherTimestamp { position });
        }
        if position > 0 && self.has_tokens != token.is_some() {
            return Err(WireError::Token { position });
        }
        let bytes = HEADER + (IDENTITY + if token.is_some() { TOKEN } else { 0 } + expected) * (position + 1);
        if bytes > MAX_BATCH {
            return Err(WireError::TooLarge { given: bytes });
        }
        if position >= MAX_REPORTS {
            return Err(WireError::Count { given: position + 1 });
        }
        if token.is_some() && position >= MAX_TOKENS {
            return Err(WireError::Tokens { given: position + 1 });
        }
        self.has_tokens = token.is_some();
        self.reports.push((id, token, report.to_vec()));
        Ok(())
    }

    /// Encodes the batch.
    ///
    /// # Errors
    /// If there is no report, or an identity is repeated.
    pub fn write(mut self) -> Result<Vec<u8>, WireError> {
        self.reports.sort_unstable_by_key(|(id, ..)| *id);
        let count = self.reports.len();
        let token = if self.has_tokens { TOKEN } else { 0 };
        let mut bytes = Vec::with_capacity(HEADER + (IDENTITY + token + self.report_length) * count);
        bytes.extend_from_slice(if self.has_tokens { &MAGIC_TOKENS } else { &MAGIC });
        bytes.extend_from_slice(&self.stream.0);
        bytes.extend_from_slice(&self.timestamp.to_le_bytes());
        bytes.extend_from_slice(&self.phase.to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        #[allow(clippy::cast_possible_truncation)] // both are bounded by the size of a batch
        for word in [self.report_length as u32, count as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.reports.iter().for_each(|(id, ..)| bytes.extend_from_slice(&id.0));
        self.reports.iter().filter_map(|(_, token, _)| *token).for_each(|token| bytes.extend_from_slice(&token.0));
        self.reports.iter().for_each(|(.., report)| bytes.extend_from_slice(report));
        Batch::parse(&bytes)?;
        Ok(bytes)
    }
}

/// A batch in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchText {
    /// The stream's name.
    pub stream: String,
    /// The timestamp.
    pub timestamp: u64,
    /// The phase.
    pub phase: u16,
    /// The reports, at most [`MAX_REPORTS`]; parsing stops beyond.
    #[serde(deserialize_with = "bounded")]
    pub reports: Vec<ReportText>,
}

/// A report in JSON, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportText {
    /// The identity.
    pub id: String,
    /// The proof of its token; only in a stream with credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The report.
    pub report: String,
}

/// Limits the reports and bytes that are read.
fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ReportText>, D::Error> {
    struct Bounded;

    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<ReportText>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of reports")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut reports: A) -> Result<Self::Value, A::Error> {
            let (mut all, mut bytes) = (Vec::new(), HEADER);
            while let Some(next) = reports.next_element::<ReportText>()? {
                let token = next.token.as_ref().map_or(0, String::len);
                bytes = bytes.saturating_add(IDENTITY).saturating_add(token / 2).saturating_add(next.report.len() / 2);
                if bytes > MAX_BATCH {
                    return Err(A::Error::custom(WireError::TooLarge { given: bytes }));
                }
                if all.len() == MAX_REPORTS {
                    return Err(A::Error::custom(WireError::Count { given: MAX_REPORTS + 1 }));
                }
                all.push(next);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_seq(Bounded)
}

impl BatchText {
    /// Encodes the batch as bytes. Reports may be in any order.
    ///
    /// # Errors
    /// If it is not a valid batch. Reports longer than the first, or than a batch, are not decoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        let count = self.reports.len();
        if count > MAX_REPORTS {
            return Err(WireError::Count { given: count });
        }
        let length = self.reports.first().map_or(0, |first| first.report.len() / 2);
        let bytes = length.saturating_add(IDENTITY).saturating_mul(count).saturating_add(HEADER);
        if bytes > MAX_BATCH {
            return Err(WireError::TooLarge { given: bytes });
        }
        let mut writer: Option<BatchWriter> = None;
        for (position, ReportText { id, token, report }) in self.reports.iter().enumerate() {
            let digits = WireError::Digits { position };
            if report.len() / 2 != length {
                return Err(WireError::Report { given: report.len() / 2, expected: length });
            }
            if id.len() != 2 * IDENTITY || token.as_ref().is_some_and(|token| token.len() != 2 * TOKEN) {
                return Err(digits);
            }
            let token = token.as_ref().map(|token| {
                let bytes: Option<[u8; TOKEN]> = bytes_of(token).and_then(|token| token.try_into().ok());
                bytes.map(TokenProof).ok_or(digits)
            });
            let id = bytes_of(id).and_then(|id| id.try_into().ok()).ok_or(digits)?;
            let report = bytes_of(report).ok_or(digits)?;
            let stream = StreamTag::of(&self.stream);
            let writer =
                writer.get_or_insert_with(|| BatchWriter::new(stream, self.timestamp, self.phase, report.len()));
            writer.push_with(ReportId(id), token.transpose()?, &report)?;
        }
        writer.ok_or(WireError::Count { given: 0 })?.write()
    }

    /// Converts a batch; `None` if the name does not match the batch's stream tag.
    pub fn of(batch: &Batch<'_>, stream: &str) -> Option<Self> {
        let mut tokens = batch.tokens.chunks_exact(TOKEN);
        let text = |(id, report): (ReportId, &[u8])| ReportText {
            id: digits_of(&id.0),
            token: tokens.next().map(digits_of),
            report: digits_of(report),
        };
        let reports = batch.iter().map(text).collect();
        let (timestamp, phase) = (batch.timestamp, batch.phase);
        (StreamTag::of(stream) == batch.stream).then(|| Self { stream: stream.to_owned(), timestamp, phase, reports })
    }
}

pub(crate) fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|start| u8::from_str_radix(&digits[start..start + 2], 16).ok()).collect()
}
