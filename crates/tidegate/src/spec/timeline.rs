//! [`TimelineSpec`]: which timestamps a stream has.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::SpecError;

/// The timestamps of a stream, whether or not anybody is present: `start`, `start + step`, and so on.
///
/// Where presence is protected, a timestamp that is left out because nobody is there tells just that. A timeline says
/// in advance which timestamps are released.
///
/// ```
/// use tidegate::spec::TimelineSpec;
///
/// let hourly: TimelineSpec = serde_json::from_str(r#"{ "start": 7200, "step": 3600 }"#)?;
/// assert!(hourly.contains(10_800) && !hourly.contains(3600) && !hourly.contains(10_801));
/// assert_eq!((hourly.after(None), hourly.after(Some(7200))), (Some(7200), Some(10_800)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineSpec {
    /// The first timestamp.
    #[serde(default)]
    pub start: u64,
    /// The distance of two timestamps.
    #[serde(default = "one")]
    pub step: NonZeroU64,
}

const fn one() -> NonZeroU64 {
    NonZeroU64::MIN
}

impl Default for TimelineSpec {
    /// Every timestamp from zero on.
    fn default() -> Self {
        Self { start: 0, step: one() }
    }
}

impl TimelineSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["start", "step"];

    /// Refuses steps over which a window of several timestamps would reach only one. Then any so many consecutive
    /// timestamps of the timeline could spend the budget each, and the promise would be hollow.
    pub(super) fn check(&self, longest_window: NonZeroU64) -> Result<(), SpecError> {
        if self.step > one() && longest_window > one() {
            Err(SpecError::Step { step: self.step.get() })
        } else {
            Ok(())
        }
    }

    /// Whether it has a timestamp.
    pub const fn contains(&self, timestamp: u64) -> bool {
        timestamp >= self.start && (timestamp - self.start).is_multiple_of(self.step.get())
    }

    /// Its first timestamp after another, or of all; `None` where that is too large.
    pub const fn after(&self, last: Option<u64>) -> Option<u64> {
        match last {
            Some(last) if last >= self.start => {
                let step = self.step.get();
                // The rest up to the next one is at most a step, so that nothing but the last sum can be too large.
                last.checked_add(step - (last - self.start) % step)
            }
            _ => Some(self.start),
        }
    }

    /// How many of its timestamps lie from one of them up to another timestamp, which does not count.
    pub const fn count(&self, first: u64, end: u64) -> u64 {
        end.saturating_sub(first).div_ceil(self.step.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise hours that are counted in seconds would have the whole budget each, whatever the window says.
    #[test]
    fn refuses_steps_that_leave_windows_one_timestamp() {
        let (hourly, every) = (TimelineSpec { start: 0, step: one().saturating_add(3599) }, TimelineSpec::default());
        let several = one().saturating_add(19);
        assert!(matches!(hourly.check(several), Err(SpecError::Step { step: 3600 })));
        assert!(hourly.check(one()).is_ok() && every.check(several).is_ok());
    }

    #[test]
    fn after_and_count_agree_with_enumeration() {
        for start in [0, 1, 5, u64::MAX - 7] {
            for step in [1, 2, 3, 7] {
                let timeline = TimelineSpec { start, step: NonZeroU64::MIN.saturating_add(step - 1) };
                let all: Vec<u64> =
                    (start..=start.saturating_add(40)).step_by(usize::try_from(step).unwrap_or(1)).collect();
                for probe in start.saturating_sub(3)..=start.saturating_add(30) {
                    assert_eq!(timeline.contains(probe), all.contains(&probe), "{timeline:?} {probe}");
                    let next = all.iter().copied().find(|timestamp| *timestamp > probe);
                    assert_eq!(timeline.after(Some(probe)), next, "{timeline:?} {probe}");
                    let before = all.iter().filter(|timestamp| **timestamp < probe).count() as u64;
                    assert_eq!(timeline.count(start, probe), before, "{timeline:?} {probe}");
                }
            }
        }
        assert_eq!(TimelineSpec::default().after(Some(u64::MAX)), None);
    }
}
