//! The devices of a simulated fleet, and the value of each.

use std::hash::Hasher as _;
use std::ops::Range;

use siphasher::sip::SipHasher24 as ShortHasher;
use siphasher::sip128::{Hasher128 as _, SipHasher24};
use tidegate_device::credential::Draw;
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::sequence::{SequenceMemory, SequenceRule};
use tidegate_device::{Device, slot_of};
use tidegate_kernel::{Cohort, SLOTS};
use tidegate_lab::CountStream;

/// A simulated device. Its encoded state takes about fifty bytes, more where it releases a sequence, and none before
/// its first answer.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) number: u32,
    /// Tokens of the present block, in a stream with credentials.
    pub(crate) tokens: Option<Box<Draw>>,
    state: Option<Box<[u8]>>,
}

impl Member {
    /// Decodes the device, and its memory of a sequence where it releases one.
    pub(crate) fn device(
        &self,
        policy: &StreamPolicy,
        rule: Option<&SequenceRule>,
        identity: &[u8; 16],
    ) -> Result<(Device, Option<SequenceMemory>), postcard::Error> {
        match &self.state {
            Some(state) => postcard::from_bytes(state),
            None => Ok((Device::new(policy.protects, policy.slot_of(identity)), rule.map(SequenceMemory::new))),
        }
    }

    /// Stores the device's state.
    pub(crate) fn keep(&mut self, device: &Device, memory: Option<&SequenceMemory>) -> Result<(), postcard::Error> {
        self.state = Some(postcard::to_allocvec(&(device, memory))?.into_boxed_slice());
        Ok(())
    }
}

/// Derives the secret identity of a device from the seed.
pub(crate) fn identity(seed: u64, number: u32) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_keys(seed, IDENTITIES);
    hasher.write_u32(number);
    hasher.finish128().as_bytes()
}

/// Domain separator of the hash that derives identities.
const IDENTITIES: u64 = 1;
const NOISE: u64 = 2;

/// Returns the random stream of a batch, a different one for each batch.
pub(crate) fn noise_stream(timestamp: u64, phase: u16, first: u32) -> u64 {
    let mut hasher = ShortHasher::new_with_keys(timestamp, NOISE);
    hasher.write_u16(phase);
    hasher.write_u32(first);
    hasher.finish()
}

/// All devices, ordered by slot.
#[derive(Debug)]
pub(crate) struct Population {
    members: Vec<Member>,
    /// Index of the first device of each slot, and the total.
    starts: Vec<u32>,
}

impl Population {
    /// Assigns each device the slot that the policy's key gives it.
    pub(crate) fn new(devices: u32, policy: &StreamPolicy, seed: u64) -> Self {
        let slot = |number| slot_of(&policy.slot_key, &identity(seed, number));
        let mut order: Vec<(u16, u32)> = (0..devices).map(|number| (slot(number), number)).collect();
        order.sort_unstable();
        let mut starts = vec![0; SLOTS as usize + 1];
        order.iter().for_each(|(slot, _)| starts[usize::from(*slot) + 1] += 1);
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        Self {
            members: order.into_iter().map(|(_, number)| Member { number, tokens: None, state: None }).collect(),
            starts,
        }
    }

    /// Returns the devices of a cohort: up to the last slot, and those that wrap around.
    pub(crate) fn cohort(&mut self, cohort: Cohort) -> [&mut [Member]; 2] {
        let (early, late) = self.ranges(cohort);
        let (before, from) = self.members.split_at_mut(late.start);
        [&mut from[..late.len()], &mut before[early]]
    }

    /// Returns the index ranges of the wrapped part and of the other part, which follows it.
    fn ranges(&self, cohort: Cohort) -> (Range<usize>, Range<usize>) {
        let at = |slot: u32| self.starts[slot.min(SLOTS) as usize] as usize;
        match cohort {
            Cohort::Everyone => (0..0, 0..self.members.len()),
            Cohort::Slots { first, count } => {
                let (first, count) = (u32::from(first), count.min(SLOTS));
                let beyond = (first + count).saturating_sub(SLOTS);
                (0..at(beyond), at(first)..at(first + count))
            }
        }
    }
}

/// The value of each device at a timestamp, in proportion to the data set's shares.
///
/// Devices have fixed positions in a row, along which values are laid out. A small change of the shares therefore
/// changes few values.
#[derive(Debug)]
pub(crate) struct Dealt {
    /// Cumulative number of devices up to each value.
    up_to: Vec<u64>,
}

impl Dealt {
    /// Uses the row of a timestamp; rows repeat after the last. Each row must have as many users as there are devices.
    pub(crate) fn new(stream: &CountStream, timestamp: u64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // below a length
        let row = (timestamp % stream.length() as u64) as usize;
        let mut before = 0;
        let running = stream.counts()[row].iter().map(|count| {
            before += count;
            before
        });
        Self { up_to: running.collect() }
    }

    /// Returns the value of a device.
    pub(crate) fn value(&self, number: u32) -> u32 {
        let value = self.up_to.partition_point(|up_to| *up_to <= u64::from(number));
        u32::try_from(value).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::num::NonZeroU64;

    use tidegate_device::DevicePolicy;
    use tidegate_device::clock::Ticks;
    use tidegate_kernel::Window;

    use super::*;

    fn policy() -> StreamPolicy {
        StreamPolicy {
            stream: "visits".to_owned(),
            protects: DevicePolicy { epsilon: "1".parse().unwrap(), window: Window::of(3).unwrap(), domain: 3 },
            oracle: None,
            ticks: Ticks { epoch: 0, seconds: NonZeroU64::MIN },
            slot_key: *b"sixteen byte key",
            sequence: None,
            issuer: None,
        }
    }

    #[test]
    fn a_cohort_has_the_devices_that_say_so_themselves() {
        let (policy, seed) = (policy(), 3);
        let mut population = Population::new(5_000, &policy, seed);
        let cohorts = [
            Cohort::Everyone,
            Cohort::Slots { first: 0, count: SLOTS },
            Cohort::Slots { first: 77, count: SLOTS },
            Cohort::Slots { first: 100, count: 20_000 },
            Cohort::Slots { first: 60_000, count: 20_000 },
            Cohort::Slots { first: 60_000, count: 5_536 },
            Cohort::Slots { first: 65_535, count: 1 },
            Cohort::Slots { first: 5, count: 0 },
        ];
        for cohort in cohorts {
            let expected: Vec<u32> =
                (0..5_000).filter(|number| cohort.contains(policy.slot_of(&identity(seed, *number)))).collect();
            let mut found: Vec<u32> =
                population.cohort(cohort).iter().flat_map(|part| part.iter().map(|member| member.number)).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{cohort:?}");
        }
    }

    #[test]
    fn values_are_dealt_as_the_counts_say_and_move_little() {
        let labels = ["a", "b", "c"].map(str::to_owned).to_vec();
        let rows = vec![vec![5, 0, 5], vec![4, 1, 5], vec![0, 10, 0]];
        let stream = CountStream::new("test", labels, rows.clone()).unwrap();
        let dealt = |timestamp| -> Vec<u32> {
            let dealt = Dealt::new(&stream, timestamp);
            (0..10).map(|number| dealt.value(number)).collect()
        };
        for (timestamp, row) in (0..).zip(&rows) {
            let count = |value| dealt(timestamp).iter().filter(|held| **held == value).count() as u64;
            assert_eq!([count(0), count(1), count(2)], row[..]);
        }
        assert_eq!(dealt(0).iter().zip(dealt(1)).filter(|(before, after)| *before != after).count(), 1);
        assert_eq!(dealt(4), dealt(1), "the rows come round again");
    }
}
