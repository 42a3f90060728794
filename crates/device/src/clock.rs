//! [`Clock`]: the device's own time, with detection of wall-clock jumps.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_kernel::Randomness;

/// The time scale of a stream: timestamp `t` begins `t` ticks after the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticks {
    /// Start of timestamp 0, in seconds since 1970.
    pub epoch: u64,
    /// Length of a timestamp, in seconds.
    pub seconds: NonZeroU64,
}

impl Ticks {
    /// The timestamp of a moment in seconds since 1970; `None` before the epoch.
    pub fn timestamp(&self, moment: u64) -> Option<u64> {
        moment.checked_sub(self.epoch).map(|since| since / self.seconds)
    }

    /// The end of a timestamp, in seconds since 1970.
    pub const fn end_of(&self, timestamp: u64) -> u64 {
        let ticks = timestamp.saturating_add(1);
        self.epoch.saturating_add(ticks.saturating_mul(self.seconds.get()))
    }
}

/// One reading of a device's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockReading {
    /// Seconds since 1970 by the wall clock, which can be set.
    pub wall: u64,
    /// The steady clock, which cannot be set.
    pub steady: Steady,
}

/// One reading of a steady (monotonic) clock. Its count restarts with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// Identity of the clock's run.
    pub run: [u8; 16],
    /// Seconds in this run.
    pub seconds: u64,
}

/// Why no steady clock survives restarts of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum UnknownClock {
    /// The system does not provide the time since boot.
    #[error("the steady clock is unknown: CLOCK_BOOTTIME cannot be read: {problem}")]
    Time { problem: String },
    /// The boot identity cannot be read.
    #[error(
        "the steady clock is unknown: {BOOT_ID} has no boot identity: {problem}; let the program read it (a \
         systemd unit without ProcSubset=pid, a container with /proc/sys)"
    )]
    Boot { problem: String },
    /// Only Linux provides both.
    #[error("the steady clock is unknown: only Linux identifies each boot of the machine")]
    System,
}

/// Linux's random identity of the present boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The system's clocks, with a steady clock that survives restarts of the program.
///
/// The steady clock is `CLOCK_BOOTTIME`, which includes sleep. Its run is the boot identity, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootClock {
    boot: [u8; 16],
}

impl BootClock {
    /// Opens the clocks of the present boot.
    ///
    /// # Errors
    /// [`UnknownClock`] if the system hides the time since boot or the boot identity.
    pub fn new() -> Result<Self, UnknownClock> {
        Self::of(since_boot().map(drop), Path::new(BOOT_ID))
    }

    /// Opens the clocks, given the time since boot and the file with the boot identity.
    fn of(time: Result<(), UnknownClock>, identity: &Path) -> Result<Self, UnknownClock> {
        time?;
        let boot = std::fs::read_to_string(identity).map_err(|error| error.to_string());
        let boot = boot.and_then(|text| parse_identity(&text).ok_or_else(|| "it holds no UUID".to_owned()));
        boot.map(|boot| Self { boot }).map_err(|problem| UnknownClock::Boot { problem })
    }

    /// Reads the clocks.
    pub fn read(&self) -> ClockReading {
        // It was readable before, so it stays readable. Zero would count as a steady clock that went back: a jump.
        ClockReading { wall: wall(), steady: Steady { run: self.boot, seconds: since_boot().unwrap_or(0) } }
    }
}

/// Parses a non-zero UUID of 32 hexadecimal digits in groups.
fn parse_identity(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim_end().split('-').collect();
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().filter(|identity| *identity != 0).map(u128::to_be_bytes)
}

/// Seconds since 1970.
fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since boot, including sleep.
#[cfg(target_os = "linux")]
fn since_boot() -> Result<u64, UnknownClock> {
    use std::io;

    use rustix::time::{DynamicClockId, clock_gettime_dynamic};

    let unknown = |error: io::Error| UnknownClock::Time { problem: error.to_string() };
    let time = clock_gettime_dynamic(DynamicClockId::Boottime).map_err(|error| unknown(error.into()))?;
    u64::try_from(time.tv_sec).map_err(|error| unknown(io::Error::other(error)))
}

#[cfg(not(target_os = "linux"))]
const fn since_boot() -> Result<u64, UnknownClock> {
    Err(UnknownClock::System)
}

/// Reads a device's clocks.
///
/// If the steady clock is [unknown](Clock::unknown), each start of the program is a new run. An
/// [`Agent`](crate::agent::Agent) then moves the window's spends to the present at each start.
#[derive(Debug)]
pub struct Clock(Source);

#[derive(Debug)]
enum Source {
    Boot(BootClock),
    Process { run: [u8; 16], started: Instant, why: UnknownClock },
}

impl Clock {
    /// Opens the clocks.
    pub fn new(random: &mut impl Randomness) -> Self {
        Self::of(BootClock::new(), random)
    }

    fn of(boot: Result<BootClock, UnknownClock>, random: &mut impl Randomness) -> Self {
        Self(match boot {
            Ok(boot) => Source::Boot(boot),
            Err(why) => {
                let mut run = [0; 16];
                run[..8].copy_from_slice(&random.next_word().to_le_bytes());
                run[8..].copy_from_slice(&random.next_word().to_le_bytes());
                Source::Process { run, started: Instant::now(), why }
            }
        })
    }

    /// Why the steady clock does not survive restarts; `None` if it does.
    pub const fn unknown(&self) -> Option<&UnknownClock> {
        match &self.0 {
            Source::Boot(_) => None,
            Source::Process { why, .. } => Some(why),
        }
    }

    /// Reads the clocks.
    pub fn read(&self) -> ClockReading {
        match &self.0 {
            Source::Boot(boot) => boot.read(),
            Source::Process { run, started, .. } => {
                ClockReading { wall: wall(), steady: Steady { run: *run, seconds: started.elapsed().as_secs() } }
            }
        }
    }
}

/// Detects a wall clock that runs ahead of the steady clock.
///
/// The wall clock may gain [`SLACK`] seconds in total, plus one second per [`DRIFT`]. The reference is the reading at
/// which it was furthest behind: a clock that is set back and then corrected has jumped ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClockGuard {
    /// The reading at which the wall clock was furthest behind the steady one, in this run and since the last jump.
    furthest_behind: ClockReading,
}

impl ClockGuard {
    /// Starts at a reading.
    pub const fn from(first: ClockReading) -> Self {
        Self { furthest_behind: first }
    }

    /// Processes a reading, and returns whether the wall clock kept pace. After a jump or in a new run, the guard
    /// starts again at this reading.
    pub fn keeps(&mut self, now: ClockReading) -> bool {
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

/// Seconds that the wall clock may gain on the steady clock.
pub const SLACK: u64 = 2;

/// Steady seconds per additional second of gain.
pub const DRIFT: u64 = 5_000;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tidegate_kernel::SeededRandom;

    use super::*;

    fn reading(wall: u64, run: u8, seconds: u64) -> ClockReading {
        ClockReading { wall, steady: Steady { run: [run; 16], seconds } }
    }

    #[test]
    fn the_wall_clock_may_fall_behind_but_not_run_ahead() {
        let keeps = |readings: &[ClockReading]| {
            let mut pace = ClockGuard::from(reading(1_000, 1, 50));
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
        assert!(ClockGuard::from(first).keeps(second));
        assert_eq!(first.steady.run, second.steady.run);
    }

    /// A file that is removed after the test.
    struct Identity(std::path::PathBuf);

    impl Identity {
        fn of(name: &str, text: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tidegate-boot-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }
    }

    impl Drop for Identity {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn an_identity_of_the_boot_is_a_whole_uuid() {
        let uuid = "8c1dbbeb-6b7a-4320-8638-75d8e2182486\n";
        let file = Identity::of("whole", uuid);
        let clock = BootClock::of(Ok(()), &file.0).unwrap();
        assert_eq!(clock.boot[..4], [0x8c, 0x1d, 0xbb, 0xeb]);
        assert_eq!(BootClock::of(Ok(()), &file.0).unwrap(), clock, "the same after a restart");
        for broken in
            ["", "\n", &uuid[..35], "+c1dbbeb6b7a4320863875d8e2182486", "00000000-0000-0000-0000-000000000000"]
        {
            let file = Identity::of("broken", broken);
            let problem = "it holds no UUID".to_owned();
            assert_eq!(BootClock::of(Ok(()), &file.0), Err(UnknownClock::Boot { problem }), "{broken:?}");
        }
    }

    #[test]
    fn a_hidden_identity_or_time_leaves_the_clock_unknown() {
        let hidden = Path::new("/proc/none/boot_id");
        let refused = BootClock::of(Ok(()), hidden).unwrap_err();
        assert!(matches!(refused, UnknownClock::Boot { .. }));
        let said = refused.to_string();
        assert!(said.contains(BOOT_ID) && said.contains("ProcSubset=pid"), "{said}");
        let file = Identity::of("timeless", "8c1dbbeb-6b7a-4320-8638-75d8e2182486\n");
        assert_eq!(BootClock::of(Err(UnknownClock::System), &file.0), Err(UnknownClock::System));
    }

    #[test]
    fn an_unknown_clock_starts_a_new_run_each_time() {
        let start = |seed| Clock::of(Err(UnknownClock::System), &mut SeededRandom::new(seed));
        let (first, second) = (start(1), start(2));
        assert_eq!(first.unknown(), Some(&UnknownClock::System));
        assert!(ClockGuard::from(first.read()).keeps(first.read()), "one run is compared with itself");
        assert!(!ClockGuard::from(first.read()).keeps(second.read()), "and with no other");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_steady_clock_is_the_time_since_boot() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split('.').next().unwrap().parse::<u64>().unwrap()
        };
        let before = uptime();
        let steady = BootClock::new().unwrap().read().steady.seconds;
        assert!((before..=uptime()).contains(&steady), "{steady}");
    }
}
