//! Closing of questions whose reports are in the log.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::super::postgres::cluster::Closing;
use super::super::{Counted, Lease, Missing, StoreError, Write, Written};
use super::frame::{chunks, fence};
use super::{ClusteredStore, append};

/// Most bytes of a partition that are read to find how many reports are missing.
const MOST_READ: usize = 64 << 20;

type Outcomes = Vec<Result<Written, StoreError>>;

/// Whether all partitions are counted up to the fences of a question.
fn is_counted(closing: &Closing, counted: &HashMap<u32, u64>) -> bool {
    let ends = closing.ends.as_deref().unwrap_or_default();
    let reached = (0..).zip(ends).all(|(partition, end)| counted.get(&partition).is_some_and(|at| at >= end));
    closing.frozen.is_some() || (closing.ends.is_some() && reached)
}

impl ClusteredStore {
    /// Makes the closes of a group. Returns the outcome of each.
    pub(super) fn close_all(&self, closes: &[&Write<'_>]) -> Outcomes {
        let asked: Vec<(&Lease, u64, bool)> = closes
            .iter()
            .filter_map(|write| match write {
                Write::Close { lease, version, last_call } => Some((lease, *version, *last_call)),
                _ => None,
            })
            .collect();
        self.try_close_all(&asked).unwrap_or_else(|error| closes.iter().map(|_| Err(again(&error))).collect())
    }

    fn try_close_all(&self, closes: &[(&Lease, u64, bool)]) -> Result<Outcomes, StoreError> {
        let fenced: Vec<(&Lease, u64)> = closes.iter().map(|(lease, version, _)| (*lease, *version)).collect();
        let mut streams = self.postgres.begin_closing(&fenced)?;
        let open: Vec<&mut Closing> = streams.iter_mut().flatten().flatten().collect();
        self.put_fences(open)?;
        let partitions = self.postgres.partitions()?;
        let counted: HashMap<u32, u64> =
            partitions.into_iter().map(|partition| (partition.number, partition.counted)).collect();
        let is_done = |stream: &Result<Vec<Closing>, StoreError>, last_call: bool| {
            stream.as_ref().is_ok_and(|all| last_call || all.iter().all(|one| is_counted(one, &counted)))
        };
        let done: Vec<bool> =
            streams.iter().zip(closes).map(|(stream, (.., last_call))| is_done(stream, *last_call)).collect();
        let ready = || streams.iter().zip(&done).filter(|(_, done)| **done).flat_map(|(stream, _)| stream);
        let late: Vec<&Closing> = ready().flatten().filter(|closing| !is_counted(closing, &counted)).collect();
        let missing = if late.is_empty() { HashMap::new() } else { self.find_missing(&late, &counted) };
        let to_freeze: Vec<(i64, Missing)> = ready()
            .flatten()
            .filter(|closing| closing.frozen.is_none())
            .map(|closing| (closing.number, missing.get(&closing.number).copied().unwrap_or(Missing::NOTHING)))
            .collect();
        let frozen = if to_freeze.is_empty() { Vec::new() } else { self.postgres.freeze(&to_freeze)? };
        let mut frozen: HashMap<i64, Counted> = to_freeze.into_iter().map(|(number, _)| number).zip(frozen).collect();
        let mut outcome = |(stream, done): (Result<Vec<Closing>, StoreError>, bool)| {
            let closings = stream?;
            if !done {
                return Ok(Written::Counting);
            }
            let counts = closings.into_iter().map(|closing| closing.frozen.or_else(|| frozen.remove(&closing.number)));
            let lost = || StoreError::Unknown("the counts of a question were not returned".to_owned());
            counts.collect::<Option<_>>().map(Written::Counts).ok_or_else(lost)
        };
        Ok(streams.into_iter().zip(done).map(&mut outcome).collect())
    }

    /// Appends fences for the questions that have none, one for each partition.
    fn put_fences(&self, mut closings: Vec<&mut Closing>) -> Result<(), StoreError> {
        closings.retain(|closing| closing.ends.is_none());
        let Some(most) = closings.iter().map(|closing| closing.partitions).max() else { return Ok(()) };
        let ends: Vec<u64> = append(&*self.log, (0..most).map(|partition| (partition, fence())))?;
        let new: Vec<(i64, Vec<u64>)> = closings
            .iter()
            .map(|closing| {
                let own = ends.iter().take(closing.partitions as usize);
                (closing.number, own.map(|end| end + 1).collect())
            })
            .collect();
        self.postgres.put_ends(&new)?;
        for (closing, (_, ends)) in closings.into_iter().zip(new) {
            closing.ends = Some(ends);
        }
        Ok(())
    }

    /// Finds how many reports of questions lie between what is counted and the fences: at most so many are missing.
    fn find_missing(&self, late: &[&Closing], counted: &HashMap<u32, u64>) -> HashMap<i64, Missing> {
        let mut ranges: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for closing in late {
            for (partition, end) in (0..).zip(closing.ends.iter().flatten()) {
                let from = counted.get(&partition).copied().unwrap_or(0);
                if from < *end {
                    let range = ranges.entry(partition).or_insert((from, *end));
                    range.1 = range.1.max(*end);
                }
            }
        }
        let mut found: HashMap<i64, u64> = late.iter().map(|closing| (closing.number, 0)).collect();
        for (partition, (from, end)) in ranges {
            if let Err(error) = self.add_missing(partition, from, end, &mut found) {
                tracing::warn!(partition, %error, "it is unknown how many reports are missing");
                return late.iter().map(|closing| (closing.number, Missing::Unknown)).collect();
            }
        }
        found.into_iter().map(|(number, reports)| (number, Missing::Reports(reports))).collect()
    }

    fn add_missing(
        &self,
        partition: u32,
        from: u64,
        end: u64,
        found: &mut HashMap<i64, u64>,
    ) -> Result<(), StoreError> {
        let (mut next, mut read) = (from, 0);
        while next < end {
            let records = self.log.read(partition, next, 1 << 20, Duration::from_secs(1)).map_err(super::of_log)?;
            if records.is_empty() || read > MOST_READ {
                return Err(StoreError::Unavailable("there is too much to read".to_owned()));
            }
            for record in records.iter().filter(|record| record.position < end) {
                read += record.body.len();
                for chunk in chunks(&record.body).unwrap_or_default() {
                    if let Some(reports) = found.get_mut(&chunk.question) {
                        *reports += chunk.ids.len() as u64;
                    }
                }
            }
            next = records.last().map_or(end, |record| record.position + 1);
        }
        Ok(())
    }
}

/// Returns the error of a group for one of its members.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unknown(why) => StoreError::Unknown(why.clone()),
        StoreError::Unavailable(why) => StoreError::Unavailable(why.clone()),
        StoreError::Damaged(why) => StoreError::Damaged(why.clone()),
        other => StoreError::Failed(other.to_string()),
    }
}
