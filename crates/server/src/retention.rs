//! [`Retention`]: how long the releases and answers of a stream are kept.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate::spec::Every;

/// Declared limits; where both are given, the shorter one counts. Without any, everything is kept.
///
/// The driver deletes old records when it releases something. So deletions follow the schedule and the releases, and a
/// stream that releases nothing deletes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Keeps the last so many timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<NonZeroU64>,
    /// Keeps the timestamps of the last so much time, up to the newest release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Every>,
}

impl Retention {
    /// Whether everything is kept.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns how many timestamps of so many seconds are kept; `None` for all.
    ///
    /// # Errors
    /// An age without a fixed length, or shorter than a timestamp.
    pub(crate) fn kept(&self, tick: NonZeroU64) -> Result<Option<u64>, &'static str> {
        let by_age = match self.age.map(Every::seconds) {
            None => None,
            Some(None) => return Err("age: months differ in length; give days or weeks"),
            Some(Some(seconds)) if seconds < tick.get() => return Err("age: it is shorter than a tick"),
            Some(Some(seconds)) => Some(seconds.div_ceil(tick.get())),
        };
        Ok(self.timestamps.map(NonZeroU64::get).into_iter().chain(by_age).min())
    }

    /// Returns the first timestamp that is kept once a timestamp was released.
    pub(crate) fn first_kept(&self, tick: NonZeroU64, released: u64) -> Option<u64> {
        let kept = self.kept(tick).ok()??;
        Some(released.saturating_add(1).saturating_sub(kept))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_limit_counts() {
        let tick = NonZeroU64::new(3_600).unwrap();
        let retention = |text: &str| serde_json::from_str::<Retention>(text).unwrap();
        let first = |text: &str| retention(text).first_kept(tick, 100);
        assert_eq!(first("{}"), None);
        assert_eq!(first(r#"{ "timestamps": 1 }"#), Some(100));
        assert_eq!(first(r#"{ "timestamps": 30 }"#), Some(71));
        assert_eq!(first(r#"{ "age": "1d" }"#), Some(77));
        // A day and a half hour begin 25 timestamps of an hour.
        assert_eq!(first(r#"{ "age": "1470m" }"#), Some(76));
        assert_eq!(first(r#"{ "timestamps": 30, "age": "1d" }"#), Some(77));
        assert_eq!(first(r#"{ "timestamps": 3, "age": "1d" }"#), Some(98));
        assert_eq!(first(r#"{ "timestamps": 18446744073709551615 }"#), Some(0));
        for (wrong, why) in [(r#"{ "age": "1mo" }"#, "months differ"), (r#"{ "age": "30m" }"#, "shorter than a tick")] {
            assert!(retention(wrong).kept(tick).unwrap_err().contains(why), "{wrong}");
        }
        assert!(retention("{}").is_unlimited() && !retention(r#"{ "timestamps": 1 }"#).is_unlimited());
    }
}
