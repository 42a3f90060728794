//! [`Clock`]: the device's own time, which jumps of the system's clock cannot wind forward unnoticed.

use std::num::NonZeroU64;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_kernel::Randomness;

/// How a stream's timestamps lie in time: timestamp `t` begins `t` ticks after the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticks {
    /// When timestamp 0 begins, in seconds since 1970.
    pub epoch: u64,
    /// How long a timestamp lasts, in seconds.
    pub seconds: NonZeroU64,
}

impl Ticks {
    /// The timestamp of a moment, in seconds since 1970; `None` before the epoch.
    pub fn timestamp(&self, moment: u64) -> Option<u64> {
        moment.checked_sub(self.epoch).map(|since| since / self.seconds)
    }

    /// When a timestamp is over, in seconds since 1970.
    pub const fn end_of(&self, timestamp: u64) -> u64 {
        let ticks = timestamp.saturating_add(1);
        self.epoch.saturating_add(ticks.saturating_mul(self.seconds.get()))
    }
}

/// What a device's clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Seconds since 1970, by the clock that people see and set.
    pub wall: u64,
    /// Seconds of a clock that nobody can set, and which run of it: its count begins anew when the machine does.
    pub steady: Steady,
}

/// What a clock that nobody can set shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// Tells one run of the clock from another.
    pub run: [u8; 16],
    /// Seconds in this run.
    pub seconds: u64,
}

/// Reads the system's clocks.
#[derive(Debug)]
pub struct Clock {
    run: [u8; 16],
    started: Instant,
}

impl Clock {
    /// The clocks, from now on. Where the system tells one start of the machine from another (Linux), time goes on across
    /// restarts of the program; elsewhere each start of the program is a run of its own.
    pub fn new(random: &mut impl Randomness) -> Self {
        let mut run = [0; 16];
        run[..8].copy_from_slice(&random.next_word().to_le_bytes());
        run[8..].copy_from_slice(&random.next_word().to_le_bytes());
        Self { run, started: Instant::now() }
    }

    /// What the clocks show now.
    pub fn read(&self) -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let own = Steady { run: self.run, seconds: self.started.elapsed().as_secs() };
        Reading { wall, steady: since_boot().unwrap_or(own) }
    }
}

/// The time since the machine was started, sleep included.
#[cfg(target_os = "linux")]
fn since_boot() -> Option<Steady> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = id.trim().chars().filter(|character| *character != '-').collect();
    let run = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds = uptime.split(['.', ' ']).next()?.parse().ok()?;
    Some(Steady { run, seconds })
}

#[cfg(not(target_os = "linux"))]
const fn since_boot() -> Option<Steady> {
    None
}

/// Whether the wall clock goes ahead no faster than time does.
///
/// Clocks differ a little: the wall clock may gain [`SLACK`] seconds in all, and one second more in [`DRIFT`]. What counts is where it was furthest behind: a
/// clock that is set back and then set right has gone ahead, though it shows the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pace {
    /// When the wall clock was furthest behind the steady one, in this run and since the last jump.
    furthest_behind: Reading,
}

impl Pace {
    /// From this reading on.
    pub const fn from(first: Reading) -> Self {
        Self { furthest_behind: first }
    }

    /// Takes in a reading: whether the wall clock has kept pace. Where it has not, or the run is another, pace is kept from this reading on.
    pub fn keeps(&mut self, now: Reading) -> bool {
        let first = self.furthest_behind;
        let kept = match now.steady.seconds.checked_sub(first.steady.seconds) {
            Some(steady) if first.steady.run == now.steady.run => {
                let ahead = now.wall.saturating_sub(first.wall);
                if ahead >= steady && ahead <= steady.saturating_add(SLACK).saturating_add(steady / DRIFT) {
                    return true;
                }
                ahead < steady
            }
            _ => false,
        };
        self.furthest_behind = now;
        kept
    }
}

/// How many seconds the wall clock may be ahead of where the steady clock puts it.
pub const SLACK: u64 = 2;

/// In how many seconds the wall clock may gain one more.
pub const DRIFT: u64 = 5_000;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tidegate_kernel::SeededRandom;

    use super::*;

    fn reading(wall: u64, run: u8, seconds: u64) -> Reading {
        Reading { wall, steady: Steady { run: [run; 16], seconds } }
    }

    #[test]
    fn the_wall_clock_may_fall_behind_but_not_run_ahead() {
        let keeps = |readings: &[Reading]| {
            let mut pace = Pace::from(reading(1_000, 1, 50));
            readings.iter().map(|now| pace.keeps(*now)).collect::<Vec<_>>()
        };
        assert_eq!(keeps(&[reading(1_010, 1, 60)]), [true]);
        assert_eq!(keeps(&[reading(1_012, 1, 60)]), [true]);
        assert_eq!(keeps(&[reading(1_013, 1, 60), reading(1_014, 1, 61)]), [false, true]);
        assert_eq!(keeps(&[reading(400, 1, 60), reading(1_011, 1, 61)]), [true, false], "set back, then right");
        assert_eq!(keeps(&[reading(1_010, 2, 60)]), [false], "another run tells nothing");
        assert_eq!(keeps(&[reading(1_000, 1, 49)]), [false], "a steady clock does not go back");
        assert_eq!(keeps(&[reading(1_000 + 10_004, 1, 10_050)]), [true], "a drift of one in five thousand");
        assert_eq!(keeps(&[reading(1_000 + 10_005, 1, 10_050)]), [false]);
        let creeping: Vec<_> = (1..20).map(|step| reading(1_000 + 2 * step, 1, 50 + step)).collect();
        assert_eq!(keeps(&creeping).iter().position(|kept| !kept), Some(2), "the slack does not add up");
    }

    #[test]
    fn timestamps_begin_at_the_epoch() {
        let ticks = Ticks { epoch: 1_000, seconds: NonZeroU64::new(60).unwrap() };
        assert_eq!(ticks.timestamp(999), None);
        assert_eq!(ticks.timestamp(1_000), Some(0));
        assert_eq!(ticks.timestamp(1_059), Some(0));
        assert_eq!(ticks.timestamp(1_060), Some(1));
        assert_eq!((ticks.end_of(0), ticks.end_of(u64::MAX)), (1_060, u64::MAX));
    }

    #[test]
    fn the_systems_clocks_keep_pace_with_each_other() {
        let clock = Clock::new(&mut SeededRandom::new(1));
        let (first, second) = (clock.read(), clock.read());
        assert!(first.wall > 1_600_000_000);
        assert!(Pace::from(first).keeps(second));
        assert_eq!(first.steady.run, second.steady.run);
    }
}
