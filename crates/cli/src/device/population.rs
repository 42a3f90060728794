//! The devices of a simulated fleet, and which value each of them holds.

use std::hash::Hasher as _;
use std::ops::Range;

use siphasher::sip::SipHasher24 as ShortHasher;
use siphasher::sip128::{Hasher128 as _, SipHasher24};
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::{Device, slot_of};
use tidegate_kernel::{Cohort, SLOTS};
use tidegate_lab::CountStream;

/// A simulated device. Its state lies in memory as it would lie on a disk: some fifty bytes, and none before its first
/// answer.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its number among all.
    pub(crate) number: u32,
    state: Option<Box<[u8]>>,
}

impl Member {
    /// The device, as it was left.
    pub(crate) fn device(&self, policy: &StreamPolicy, identity: &[u8; 16]) -> Result<Device, postcard::Error> {
        match &self.state {
            Some(state) => postcard::from_bytes(state),
            None => Ok(Device::new(policy.protects, policy.slot_of(identity))),
        }
    }

    /// Leaves the device as it is now.
    pub(crate) fn keep(&mut self, device: &Device) -> Result<(), postcard::Error> {
        self.state = Some(postcard::to_allocvec(device)?.into_boxed_slice());
        Ok(())
    }
}

/// The secret identity of a device: a function of the seed.
pub(crate) fn identity(seed: u64, number: u32) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_keys(seed, IDENTITIES);
    hasher.write_u32(number);
    hasher.finish128().as_bytes()
}

/// What tells the hash that makes identities from that which makes noise.
const IDENTITIES: u64 = 1;
const NOISE: u64 = 2;

/// Which stream of the seed's randomness a batch draws from: another for every batch, and the same for the same.
pub(crate) fn noise_stream(timestamp: u64, phase: u16, first: u32) -> u64 {
    let mut hasher = ShortHasher::new_with_keys(timestamp, NOISE);
    hasher.write_u16(phase);
    hasher.write_u32(first);
    hasher.finish()
}

/// All devices, in the order of their slots.
#[derive(Debug)]
pub(crate) struct Population {
    members: Vec<Member>,
    /// Where the devices of each slot begin, and where the last end.
    starts: Vec<u32>,
}

impl Population {
    /// So many devices, each in the slot that the policy's key gives it.
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
        Self { members: order.into_iter().map(|(_, number)| Member { number, state: None }).collect(), starts }
    }

    /// The devices of a cohort: of slots up to the last, and of those that follow from the first slot on.
    pub(crate) fn cohort(&mut self, cohort: Cohort) -> [&mut [Member]; 2] {
        let (early, late) = self.ranges(cohort);
        let (before, from) = self.members.split_at_mut(late.start);
        [&mut from[..late.len()], &mut before[early]]
    }

    /// Where the devices of the slots from the first on are that come after the last slot, and where those of the
    /// others are, which lie behind them.
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

/// Which value each device holds at a timestamp: as many of them each value as the data set's shares say.
///
/// Devices have their places in a row once and for all, and values lie along it, so that few devices change their value
/// where few shares change.
#[derive(Debug)]
pub(crate) struct Dealt {
    /// How many devices hold a value up to each.
    up_to: Vec<u64>,
}

impl Dealt {
    /// At a timestamp of the stream, whose rows come round again after the last. There must be as many users in each
    /// row as there are devices.
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

    /// The value of a device.
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
