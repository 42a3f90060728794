//! Taking in entries: what a stream refuses, and what an entry releases.

use tidegate_kernel::Randomness;

use super::{Entry, Machine, Released, Stream, StreamError};
use crate::release::Release;
use crate::spec::Values;

impl Stream {
    /// Takes an entry in, and returns what it releases.
    ///
    /// # Errors
    /// See [`StreamError`]. After [`StreamError::Entry`] the stream is as before.
    pub fn push(&mut self, entry: Entry, random: &mut impl Randomness) -> Result<Released, StreamError> {
        let mut out = Released::default();
        self.push_into(entry, random, &mut out)?;
        Ok(out)
    }

    /// As [`Stream::push`], adding to what was released before.
    ///
    /// # Errors
    /// As [`Stream::push`].
    #[inline]
    pub fn push_into(
        &mut self,
        entry: Entry,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        let entry = match entry {
            Entry::Value { timestamp, user, value } => {
                return self.push_value(timestamp, &user, value, random, out);
            }
            entry => entry,
        };
        self.check(&entry)?;
        let first = out.releases.len();
        self.take_in(entry, random, out)?;
        self.refine(out, first);
        Ok(())
    }

    /// Applies the post-processing of the spec to releases from an index on.
    #[inline]
    pub(super) fn refine(&mut self, out: &mut Released, first: usize) {
        if out.releases.len() == first {
            return;
        }
        let refined: Vec<Release> = out.releases.drain(first..).map(|release| self.refinement.push(release)).collect();
        out.releases.extend(refined);
    }

    #[inline]
    fn take_in(&mut self, entry: Entry, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        match (&mut self.machine, entry) {
            (Machine::Scalar(numbers), Entry::Reading(reading)) => numbers.push(reading, random, out),
            (Machine::Central(shared), Entry::Counts { timestamp, counts }) => {
                shared.close(random, out)?;
                shared.push_counts(timestamp, counts, random, out)
            }
            (Machine::Central(shared), Entry::Histogram(histogram)) => {
                shared.close(random, out)?;
                shared.push(&histogram, random, out)
            }
            (Machine::CentralByClass(by_class), Entry::ByClass { histograms, members }) => {
                by_class.close(random, out)?;
                by_class.push(&histograms, &members, random, out)
            }
            (_, entry) => Err(self.takes_no(entry.kind())),
        }
    }

    /// As [`Stream::push_into`] with an [`Entry::Value`], for a user whose name is borrowed.
    ///
    /// # Errors
    /// As [`Stream::push`].
    #[inline]
    pub fn push_value(
        &mut self,
        timestamp: u64,
        user: &str,
        value: u32,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        self.check_time(timestamp, false)?;
        if let Some(domain) = self.values.as_ref().map(Values::count).filter(|domain| value >= *domain) {
            return Err(StreamError::entry("value", format!("the number of a value, below {domain}")));
        }
        let first = out.releases.len();
        self.take_in_value(timestamp, user, value, random, out)?;
        self.refine(out, first);
        Ok(())
    }

    #[inline]
    fn take_in_value(
        &mut self,
        timestamp: u64,
        user: &str,
        value: u32,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        let is_next = self.open_timestamp().is_some_and(|open| open != timestamp);
        match &mut self.machine {
            Machine::Sequence(sequences) => sequences.push(timestamp, user, value, random, out),
            Machine::Local(collector) => {
                if is_next {
                    collector.close(random, out)?;
                }
                collector.add(timestamp, user, value, random)
            }
            Machine::LocalByClass(collector) => {
                let number = collector.find(user)?;
                if is_next {
                    collector.close(random, out)?;
                }
                collector.note(timestamp, number, value)
            }
            Machine::Central(shared) => {
                if is_next {
                    shared.close(random, out)?;
                }
                shared.add(timestamp, user, value)
            }
            Machine::CentralByClass(by_class) => {
                let number = by_class.find(user)?;
                if is_next {
                    by_class.close(random, out)?;
                }
                by_class.add(timestamp, number, value)
            }
            Machine::Scalar(_) => Err(self.takes_no("values of users")),
        }
    }

    /// Refuses an entry out of time or outside the domain, before anything is released on its account.
    fn check(&self, entry: &Entry) -> Result<(), StreamError> {
        let of_whole_timestamp = matches!(entry, Entry::Counts { .. } | Entry::Histogram(_) | Entry::ByClass { .. });
        self.check_time(entry.timestamp(), of_whole_timestamp)?;
        let Some(domain) = self.values.as_ref().map(Values::count) else { return Ok(()) };
        let cells = match entry {
            Entry::Counts { counts, .. } => counts.len(),
            Entry::Histogram(histogram) => histogram.cells(),
            Entry::ByClass { histograms, .. } => histograms.domain(),
            Entry::Value { .. } | Entry::Reading(_) => return Ok(()),
        };
        if cells == domain as usize {
            return Ok(());
        }
        Err(StreamError::entry("counts", format!("a count for each of the {domain} values")))
    }

    /// Refuses a timestamp that is over; one that is open too, if it is to be released as a whole.
    pub(crate) fn check_time(&self, timestamp: u64, is_whole: bool) -> Result<(), StreamError> {
        if let Some(last) = self.last().filter(|last| timestamp <= *last) {
            return Err(StreamError::entry("t", format!("a timestamp after {last}, the last one that is over")));
        }
        let is_over = |open: &u64| timestamp < *open || (is_whole && timestamp == *open);
        match self.open_timestamp().filter(is_over) {
            Some(open) => Err(StreamError::entry("t", format!("a timestamp that is not over: {open} has begun"))),
            None => Ok(()),
        }
    }

    /// The timestamp whose entries are gathered.
    pub(super) fn open_timestamp(&self) -> Option<u64> {
        match &self.machine {
            Machine::Local(collector) => collector.open_timestamp(),
            Machine::LocalByClass(collector) => collector.open_timestamp(),
            Machine::Central(shared) => shared.open_timestamp(),
            Machine::CentralByClass(by_class) => by_class.open_timestamp(),
            Machine::Scalar(_) | Machine::Sequence(_) => None,
        }
    }
}
