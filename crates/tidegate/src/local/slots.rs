//! [`Slots`]: the account of population division.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Cohort, SLOTS};

/// Assigns slots of the population, none twice within a window.
///
/// Slots are assigned around a ring. Those of any window sum to at most [`SLOTS`], so no two cohorts of one window
/// overlap. Users share a slot by a keyed hash, so the order is independent of their values.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Slots {
    window: NonZeroU64,
    /// Next slot.
    next: u16,
    /// Assignments of the window that ends at the latest timestamp.
    handed_out: VecDeque<(u64, u32)>,
}

impl Slots {
    /// Creates the account.
    pub const fn new(window: NonZeroU64) -> Self {
        Self { window, next: 0, handed_out: VecDeque::new() }
    }

    /// Window within which no slot is assigned twice.
    pub const fn window(&self) -> NonZeroU64 {
        self.window
    }

    /// Number of slots left at a timestamp, which never decreases.
    pub fn left(&self, timestamp: u64) -> u32 {
        let in_window = |(earlier, _): &&(u64, u32)| timestamp.saturating_sub(*earlier) < self.window.get();
        SLOTS - self.handed_out.iter().filter(in_window).map(|(_, count)| count).sum::<u32>()
    }

    /// Slots of the latest timestamp, if it is this one; adjacent, and none twice.
    pub fn handed_out_at(&self, timestamp: u64) -> Option<Cohort> {
        let latest = self.handed_out.iter().rev().take_while(|(then, _)| *then == timestamp);
        let count: u32 = latest.map(|(_, count)| count).sum();
        #[allow(clippy::cast_possible_truncation)] // slots are counted modulo 2^16
        let first = self.next.wrapping_sub(count as u16);
        (count > 0).then_some(Cohort::Slots { first, count })
    }

    /// Assigns the next `count` slots; `None` if the window has fewer left.
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

/// Saved form, validated when loaded.
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
