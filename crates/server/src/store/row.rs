//! What both stores keep of a stream in one row, and the checksums with which every row is kept.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use tidegate_device::wire::Batch;
use tidegate_kernel::oracle::{AggregateError, MalformedReport, Oracle};

use super::{Advance, Lease, NewStream, NotTaken, OpenPhase, Record, Records, Status, StoreError};

/// The checksum of a row: of all that is in it, so that a row that was moved is found out as well as one that was
/// changed.
pub(super) fn sum(parts: &[&[u8]]) -> i64 {
    let mut hasher = SipHasher24::new_with_key(b"tidegate: stored");
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish().cast_signed()
}

/// That a row is as it was written.
pub(super) fn check(found: i64, expected: i64, what: impl FnOnce() -> String) -> Result<(), StoreError> {
    if found == expected { Ok(()) } else { Err(StoreError::Damaged(format!("{} has another checksum", what()))) }
}

/// As databases keep numbers.
pub(super) fn signed(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value)
        .map_err(|_| StoreError::Failed(format!("{value} is larger than {}, the most that is kept", i64::MAX)))
}

/// The nearest number that databases have, for limits that nothing is beyond.
pub(super) fn limit(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A number that was [kept](signed).
pub(super) fn unsigned(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| StoreError::Damaged(format!("{value} where no number is negative")))
}

/// What is kept of a stream besides its state, its questions and what it released.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) number: i64,
    pub(super) name: String,
    pub(super) declaration: String,
    pub(super) policy: String,
    pub(super) status: Status,
    pub(super) epoch: u64,
    pub(super) holder: Option<String>,
    /// When the lease ends, in milliseconds since 1970.
    pub(super) until: u64,
    pub(super) version: u64,
    pub(super) published: u64,
    /// How many records of each kind there are, and how many questions: so that none is missed that is gone.
    pub(super) releases: u64,
    pub(super) said: u64,
    pub(super) open: u64,
}

/// How long leases are at most, in milliseconds.
const MAX_LEASE: u64 = 3_600_000;

impl Head {
    /// That of a new stream.
    pub(super) fn new(stream: &NewStream<'_>) -> Self {
        Self {
            number: 0,
            name: stream.name.to_owned(),
            declaration: stream.declaration.to_owned(),
            policy: stream.policy.to_owned(),
            status: Status::Running,
            epoch: 0,
            holder: None,
            until: 0,
            version: 0,
            published: 0,
            releases: 0,
            said: 0,
            open: 0,
        }
    }

    /// The checksum of the row, whose number is not part of it: it is given by the database.
    pub(super) fn sum(&self) -> i64 {
        let mut numbers = Vec::new();
        for number in [self.epoch, self.until, self.version, self.published, self.releases, self.said, self.open] {
            numbers.extend_from_slice(&number.to_le_bytes());
        }
        let holder = self.holder.as_ref().map_or(&b""[..], |holder| holder.as_bytes());
        let (declaration, policy) = (self.declaration.as_bytes(), self.policy.as_bytes());
        let held = [u8::from(self.holder.is_some())];
        sum(&[self.name.as_bytes(), declaration, policy, self.status.name().as_bytes(), &held, holder, &numbers])
    }

    pub(super) fn status_of(name: &str) -> Result<Status, StoreError> {
        let status = Status::ALL.into_iter().find(|status| status.name() == name);
        status.ok_or_else(|| StoreError::Damaged(format!("{name:?} is no status")))
    }

    pub(super) fn set_status(&mut self, status: Status) -> Result<(), StoreError> {
        if self.status == Status::Retired && status != Status::Retired {
            return Err(StoreError::Retired(self.name.clone()));
        }
        self.status = status;
        Ok(())
    }

    /// Gives the lease to a holder, unless another has it.
    pub(super) fn lease(&mut self, holder: &str, now: u64, until: u64) -> Option<Lease> {
        if self.holder.as_deref() != Some(holder) {
            // A lease that ends that late was taken by a wrong clock. That it is taken over is safe: its epoch is over.
            if self.holder.is_some() && self.until > now && self.until - now <= MAX_LEASE {
                return None;
            }
            self.epoch += 1;
            self.holder = Some(holder.to_owned());
        }
        self.until = until;
        Some(Lease { stream: self.name.clone(), epoch: self.epoch })
    }

    /// Takes the lease back; `false` where it is no longer held.
    pub(super) fn give_back(&mut self, lease: &Lease) -> bool {
        let held = self.epoch == lease.epoch && self.holder.is_some();
        if held {
            (self.holder, self.until) = (None, 0);
        }
        held
    }

    fn stale<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Stale(self.name.clone()))
    }

    /// That the caller is the driver, and knows the version.
    pub(super) fn fence(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        if (self.epoch, self.version) == (lease.epoch, version) { Ok(()) } else { self.stale() }
    }

    /// Moves on to the next version; the records that come with it, numbered.
    pub(super) fn advance(
        &mut self,
        lease: &Lease,
        advance: &Advance<'_>,
    ) -> Result<Vec<(Records, Record)>, StoreError> {
        self.fence(lease, advance.version)?;
        signed(self.version + 1)?;
        self.version += 1;
        self.open = advance.open.len() as u64;
        let mut records = Vec::with_capacity(advance.releases.len() + advance.said.len());
        for (kind, new, count) in
            [(Records::Releases, advance.releases, &mut self.releases), (Records::Said, advance.said, &mut self.said)]
        {
            for record in new {
                *count += 1;
                let (timestamp, body) = (record.timestamp, record.body.clone());
                records.push((kind, Record { number: *count, version: self.version, timestamp, body }));
            }
        }
        Ok(records)
    }

    /// Lets what was released be read, up to a version.
    pub(super) fn publish(&mut self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        if self.epoch != lease.epoch || version > self.version {
            return self.stale();
        }
        self.published = self.published.max(version);
        Ok(())
    }

    /// Another state, of a later version, under a new epoch that nobody holds yet.
    pub(super) fn begin_anew(&mut self, version: u64) -> Result<(), StoreError> {
        if version <= self.version {
            return self.stale();
        }
        signed(version)?;
        (self.version, self.epoch, self.open) = (version, self.epoch + 1, 0);
        (self.holder, self.until) = (None, 0);
        Ok(())
    }
}

/// The number under which a kind of records is kept.
pub(super) const fn kind(records: Records) -> i16 {
    match records {
        Records::Releases => 0,
        Records::Said => 1,
    }
}

/// The checksum of a record.
pub(super) fn record_sum(stream: &str, records: Records, record: &Record) -> i64 {
    let numbers = [record.number, record.version, record.timestamp].map(u64::to_le_bytes).concat();
    sum(&[b"record", stream.as_bytes(), &kind(records).to_le_bytes(), &numbers, record.body.as_bytes()])
}

/// The checksum of a state.
pub(super) fn state_sum(stream: &str, version: u64, state: &[u8]) -> i64 {
    sum(&[b"state", stream.as_bytes(), &version.to_le_bytes(), state])
}

/// A question that is kept.
#[derive(Debug)]
pub(super) struct PhaseRow {
    pub(super) number: i64,
    pub(super) asked: OpenPhase,
    pub(super) closed: bool,
}

/// The checksum of a question.
pub(super) fn phase_sum(stream: &str, place: i64, body: &[u8], closed: bool) -> i64 {
    sum(&[b"phase", stream.as_bytes(), &place.to_le_bytes(), body, &[u8::from(closed)]])
}

/// The checksum of what a source has counted.
pub(super) fn count_sum(phase: i64, source: &str, offset: u64, logged: u64, body: &[u8]) -> i64 {
    let numbers = [phase.to_le_bytes(), offset.to_le_bytes(), logged.to_le_bytes()].concat();
    sum(&[b"count", &numbers, source.as_bytes(), body])
}

/// How something is kept as bytes.
pub(super) fn encode(what: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(what).map_err(|error| StoreError::Failed(format!("it cannot be written as bytes: {error}")))
}

/// What was kept as bytes.
pub(super) fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|error| StoreError::Damaged(format!("a {what} cannot be read: {error}")))
}

/// That an oracle's aggregate can count all reports of a batch.
pub(super) fn well_formed(oracle: &Oracle, batch: &Batch<'_>) -> Result<(), NotTaken> {
    let (given, expected) = (batch.report_length(), oracle.report_length());
    let checked = if given == expected {
        oracle.check_batch(batch.reports())
    } else {
        Err(AggregateError::Report { index: 0, problem: MalformedReport::Length { given, expected } })
    };
    checked.map_err(|error| NotTaken::Malformed(error.to_string()))
}
