//! [`Feed`]: one kind of record of one stream, and what of it is still to be sent.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_log::sink::{Last, Message, Run};
use tidegate_table::time::Clock;

use super::ConnectorKind;
use crate::http::routes::record_text;
use crate::service::Service;
use crate::store::{Record, RecordFilter, RecordKind, StoreError};

/// Most records in a page, and about how many bytes they may have.
const PAGE: (usize, usize) = (100, 1 << 20);

/// One kind of record of one stream.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) stream: Arc<str>,
    pub(super) kind: ConnectorKind,
    pub(super) subject: String,
    /// Published version up to which everything is sent.
    pub(super) sent_through: u64,
    /// When it is tried again after an error of its own.
    pub(super) retry: Option<Instant>,
    /// Whether the last message of the subject is known.
    is_known: bool,
    last: Option<Last>,
    /// Number up to which records were looked at: not every answer is an alarm.
    read: u64,
    /// Whether it was looked for answers that are gone.
    is_checked: bool,
    /// Most records of the next page, by the length of those of the last one.
    limit: usize,
}

/// What a feed sends next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) run: Run,
    /// Numbers that are gone: first and last of each gap.
    pub(super) missing: Vec<(u64, u64)>,
    /// Number up to which records are looked at once this is sent.
    through: u64,
    /// Published version up to which everything is sent then; `None` where there may be more.
    version: Option<u64>,
}

impl Feed {
    pub(super) fn new(stream: &Arc<str>, kind: ConnectorKind, subject: String) -> Self {
        Self {
            stream: Arc::clone(stream),
            kind,
            subject,
            sent_through: 0,
            retry: None,
            is_known: false,
            last: None,
            read: 0,
            is_checked: false,
            limit: 1,
        }
    }

    pub(super) const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Takes the position that the sink states. Where the sink holds less than it did, the rest is sent again.
    pub(super) fn learn(&mut self, last: Option<Last>) {
        let number = last.map(|last| last.number);
        if self.kind != ConnectorKind::Alarms || number != self.last.map(|last| last.number) {
            self.read = number.unwrap_or(0);
        }
        (self.is_known, self.last, self.is_checked) = (true, last, false);
    }

    /// Forgets the position: the sink is asked again.
    pub(super) const fn forget(&mut self) {
        self.is_known = false;
    }

    /// Notes that a page is in the sink.
    pub(super) fn sent(&mut self, last: Last, page: &Page) {
        (self.last, self.read) = (Some(last), page.through);
        self.sent_through = page.version.unwrap_or(self.sent_through);
        let longest = page.run.messages.iter().map(|message| message.body.len()).max().unwrap_or(1);
        self.limit = (PAGE.1 / longest.max(1)).clamp(1, PAGE.0);
    }

    /// Reads the next page; `None` where everything up to the `published` version, which was read before, is sent.
    /// Blocks.
    pub(super) fn read(&mut self, service: &Service, published: u64) -> Result<Option<Page>, StoreError> {
        let (records, limit, looked) = match self.kind {
            ConnectorKind::Releases | ConnectorKind::Answers => {
                let filter = RecordFilter { after: self.read, limit: self.limit, ..RecordFilter::default() };
                (service.records(&self.stream, self.kind.stored(), &filter)?, self.limit, 0)
            }
            ConnectorKind::Alarms => {
                // Read before the events, so that none in between is overlooked.
                let through = service.latest(&self.stream, RecordKind::Answer, 0)?;
                self.check_answers(service)?;
                (service.events(&self.stream, self.read, through + 1, PAGE.0)?, PAGE.0, through)
            }
        };
        let Some(overview) = service.overview(&self.stream) else { return Ok(None) };
        let Some(end) = records.last().map(|record| record.number) else {
            (self.read, self.sent_through) = (self.read.max(looked), published);
            return Ok(None);
        };
        let times = overview.declaration.times();
        let messages = records.iter().map(|record| self.message(record, &times)).collect();
        let is_last = records.len() < limit;
        Ok(Some(Page {
            run: Run { subject: self.subject.clone(), after: self.last, messages },
            missing: if self.kind == ConnectorKind::Alarms { Vec::new() } else { gaps(self.read, &records) },
            through: if is_last { end.max(looked) } else { end },
            version: is_last.then_some(published),
        }))
    }

    /// Says once after each look at the sink that answers are gone, which may have been alarms: they do not tell.
    fn check_answers(&mut self, service: &Service) -> Result<(), StoreError> {
        if self.is_checked {
            return Ok(());
        }
        let filter = RecordFilter { after: self.read, limit: 1, ..RecordFilter::default() };
        let records = service.records(&self.stream, RecordKind::Answer, &filter)?;
        for (from, to) in gaps(self.read, &records) {
            tracing::info!(stream = &*self.stream, from, to, "answers are gone; alarms among them are sent no more");
        }
        self.is_checked = true;
        Ok(())
    }

    fn message(&self, record: &Record, times: &Clock) -> Message {
        let (stream, kind) = (&self.stream, self.kind.name());
        let record_text = record_text(self.kind.field(), record, times);
        let rest = record_text.strip_prefix('{').unwrap_or(&record_text);
        let body = format!(r#"{{"stream":"{stream}","kind":"{kind}",{rest}"#);
        Message { number: record.number, body: Bytes::from(body) }
    }
}

/// Returns the numbers that are missing before and between records: first and last of each gap.
fn gaps(before: u64, records: &[Record]) -> Vec<(u64, u64)> {
    let numbers = records.iter().map(|record| record.number);
    let pairs = std::iter::once(before).chain(numbers.clone()).zip(numbers);
    pairs.filter(|(earlier, later)| *later > earlier + 1).map(|(earlier, later)| (earlier + 1, later - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_the_numbers_in_between() {
        let records = [3, 4, 7].map(|number| Record { number, version: 1, timestamp: 0, body: String::new() });
        assert_eq!(gaps(0, &records), [(1, 2), (5, 6)]);
        assert_eq!(gaps(2, &records[..2]), []);
        assert_eq!(gaps(2, &[]), []);
    }
}
