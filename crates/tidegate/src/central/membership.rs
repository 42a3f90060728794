//! [`Membership`]: the classes of one user over time, as a record that a store keeps.
//!
//! A [`Registry`](super::classes::Registry) has the state of all users at one timestamp, and is saved as a whole. A
//! service with many users keeps a `Membership` for each instead, which changes only when the user does. Both follow
//! the rules of [`classes`](super::classes), and a test compares them.

use serde::{Deserialize, Serialize};

use super::classes::{ClassError, Classes};

/// Class of a user at each timestamp that is not released yet.
///
/// A user counts in one class from a timestamp on, and has perhaps counted in another one before. A change applies to
/// timestamps that have not begun, so a change and the timestamps around it can be stored in any order of crashes.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::classes::{Classes, Requirement};
/// use tidegate::central::membership::Membership;
///
/// let window = |length| NonZeroU64::new(length).ok_or("a window has a length");
/// let careful = Requirement { epsilon: "0.1".parse()?, window: window(3)? };
/// let relaxed = Requirement { epsilon: "1".parse()?, window: window(2)? };
/// let classes = Classes::numbered(&[careful, relaxed])?;
/// let joined = Membership::default().changed(&classes, Some(1), 0)?;
/// // Timestamp 0 has begun when the user changes to the other class.
/// let moved = joined.changed(&classes, Some(0), 1)?;
/// assert_eq!([0, 1, 2, 3].map(|timestamp| moved.class_at(timestamp)), [Some(1), None, None, Some(0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// Class in which the user counted last, before the present wish.
    before: Option<Counted>,
    /// Class that the user wants, and the first timestamp at which it counts. `None` for a user who has left.
    wanted: Option<(u16, u64)>,
}

/// A class, and the first and last timestamp at which a user counts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    class: u16,
    first: u64,
    last: u64,
}

impl Membership {
    /// Class in which the user counts at a timestamp.
    pub fn class_at(&self, timestamp: u64) -> Option<u16> {
        match (self.wanted, self.before) {
            (Some((class, from)), _) if timestamp >= from => Some(class),
            (_, Some(before)) if (before.first..=before.last).contains(&timestamp) => Some(before.class),
            _ => None,
        }
    }

    /// Class that the user wants, and the first timestamp at which the user counts in it. `None` for a user who has
    /// left, or was never there.
    pub const fn wanted(&self) -> Option<(u16, u64)> {
        self.wanted
    }

    /// Records a wish: a class, or `None` to leave. It changes nothing before `next`, the first timestamp that has not
    /// begun.
    ///
    /// # Errors
    /// [`ClassError::Unknown`].
    pub fn changed(&self, classes: &Classes, class: Option<u16>, next: u64) -> Result<Self, ClassError> {
        let wanted_before = self.wanted.map(|(class, _)| class);
        if class == wanted_before {
            return Ok(*self);
        }
        let before = match self.wanted {
            Some((class, first)) if first < next => Some(Counted { class, first, last: next - 1 }),
            _ => self.before,
        };
        let wanted = match (class, before) {
            (None, _) => None,
            (Some(class), None) => {
                classes.requirement(class)?;
                Some((class, next))
            }
            (Some(class), Some(before)) => {
                let window = classes.requirement(class)?.window;
                let from = match before.class == class {
                    true => next,
                    false => {
                        let sits_out = window.max(classes.requirement(before.class)?.window);
                        next.max(before.last.saturating_add(sits_out.get()))
                    }
                };
                Some((class, from))
            }
        };
        Ok(Self { before, wanted })
    }

    /// Whether the user has left, and counts at no timestamp from this one on.
    pub fn is_over(&self, timestamp: u64) -> bool {
        self.wanted.is_none() && self.before.is_none_or(|before| before.last < timestamp)
    }

    /// The timestamp from which on nothing of a user who has left matters any more. `None` for one who is there.
    pub fn forgotten_at(&self, classes: &Classes) -> Option<u64> {
        let longest = classes.longest_window();
        match (self.wanted, self.before) {
            (Some(_), _) => None,
            (None, Some(before)) => Some(before.last.saturating_add(longest)),
            (None, None) => Some(0),
        }
    }
}
