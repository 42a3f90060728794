//! [`Slots`]: the account of population division.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Cohort, SLOTS};

/// Hands out slots of the population so that none is handed out twice within a window.
///
/// Slots are handed out around a ring, each time the next so many. If those of any window sum to at most [`SLOTS`],
/// which is checked, then no two cohorts of one window overlap. Which users share a slot depends on a keyed hash only,
/// so the order says nothing about their values.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Slots {
    window: NonZeroU64,
    /// The next slot to hand out.
    next: u16,
    /// What was handed out in the window that ends at the latest timestamp.
    handed_out: VecDeque<(u64, u32)>,
}

impl Slots {
    /// None handed out yet.
    pub const fn new(window: NonZeroU64) -> Self {
        Self { window, next: 0, handed_out: VecDeque::new() }
    }

    /// The window within which no slot is handed out twice.
    pub const fn window(&self) -> NonZeroU64 {
        self.window
    }

    /// How many slots may be handed out at a timestamp that is not before the last one.
    pub fn left(&self, timestamp: u64) -> u32 {
        let in_window = |(earlier, _): &&(u64, u32)| timestamp.saturating_sub(*earlier) < self.window.get();
        SLOTS - self.handed_out.iter().filter(in_window).map(|(_, count)| count).sum::<u32>()
    }

    /// The slots that were handed out at the latest timestamp, if it is this one. They lie side by side, and none
    /// twice.
    pub fn handed_out_at(&self, timestamp: u64) -> Option<Cohort> {
        let latest = self.handed_out.iter().rev().take_while(|(then, _)| *then == timestamp);
        let count: u32 = latest.map(|(_, count)| count).sum();
        #[allow(clippy::cast_possible_truncation)] // slots are counted modulo 2^16
        let first = self.next.wrapping_sub(count as u16);
        (count > 0).then_some(Cohort::Slots { first, count })
    }

    /// The next `count` slots, for a timestamp that is not before the last one; `None` where the window does not have
    /// as many left.
    pub fn hand_out(&mut self, timestamp: u64, count: u32) -> Option<Cohort> {
        while let Some(&(earliest, _)) = self.handed_out.front()
            && timestamp.saturating_sub(earliest) >= self.window.get()
        {
            self.handed_out.pop_front();
        }
        let in_time = self.handed_out.back().is_none_or(|(latest, _)| *latest <= timestamp);
        let used: u32 = self.handed_out.iter().map(|(_, count)| count).sum();
        if !in_time || count == 0 || count > SLOTS - used {
            return None;
        }
        let cohort = Cohort::Slots { first: self.next, count };
        #[allow(clippy::cast_possible_truncation)] // slots are counted modulo 2^16
        let step = count as u16;
        self.next = self.next.wrapping_add(step);
        self.handed_out.push_back((timestamp, count));
        Some(cohort)
    }
}

/// The saved form, which is believed only if no slot of it was handed out twice within a window.
#[derive(Deserialize)]
struct Saved {
    window: NonZeroU64,
    next: u16,
    handed_out: VecDeque<(u64, u32)>,
}

impl TryFrom<Saved> for Slots {
    type Error = &'static str;

    fn try_from(saved: Saved) -> Result<Self, Self::Error> {
        let Saved { window, next, handed_out } = saved;
        let in_order = handed_out.iter().zip(handed_out.iter().skip(1)).all(|(earlier, later)| earlier.0 <= later.0);
        let used: u64 = handed_out.iter().map(|(_, count)| u64::from(*count)).sum();
        if !in_order || used > u64::from(SLOTS) {
            return Err("more slots were handed out than there are, or out of order");
        }
        Ok(Self { window, next, handed_out })
    }
}
