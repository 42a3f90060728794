//! [`Contributions`]: counts the series that each user is in.

use std::collections::HashMap;
use std::num::NonZeroU64;

use tidegate_kernel::Window;

use crate::stream::StreamError;

/// A series that a user is in, and the last timestamp there.
type Visit = (u32, u64);

/// The series that each user was in within the last window.
///
/// Users who were in none are forgotten, so memory grows with the users of a window, not with time.
pub(super) struct Contributions {
    most: NonZeroU64,
    window: Window,
    users: HashMap<Box<str>, Vec<Visit>>,
    /// Users are forgotten once there are so many.
    many: usize,
}

/// Least number of users from which some are forgotten.
const MANY: usize = 4_096;

impl Contributions {
    pub(super) fn new(most: NonZeroU64, window: Window) -> Self {
        Self { most, window, users: HashMap::new(), many: MANY }
    }

    /// Whether a visit shares a window with a later timestamp.
    fn counts(window: Window, (_, last): &Visit, now: u64) -> bool {
        match window {
            Window::Timestamps(length) => now.saturating_sub(*last) < length.get(),
            Window::Unbounded => true,
        }
    }

    /// Takes a user into a series, unless the user is in too many within a window.
    pub(super) fn admit(&mut self, user: &str, series: usize, now: u64) -> Result<(), StreamError> {
        let (most, window) = (self.most, self.window);
        let series = u32::try_from(series).unwrap_or(u32::MAX);
        let visits = match self.users.get_mut(user) {
            Some(visits) => visits,
            None => {
                if self.users.len() >= self.many {
                    self.users.retain(|_, visits| visits.iter().any(|visit| Self::counts(window, visit, now)));
                    self.many = (2 * self.users.len()).max(MANY);
                }
                self.users.entry(user.into()).or_default()
            }
        };
        visits.retain(|visit| Self::counts(window, visit, now));
        match visits.iter().position(|(visited, _)| *visited == series) {
            Some(place) => visits[place].1 = now,
            None if visits.len() as u64 >= most.get() => return Err(too_many(most, window)),
            None => visits.push((series, now)),
        }
        Ok(())
    }

    /// The form that is saved: series by their number.
    pub(super) fn saving(&self) -> Vec<(&str, &[Visit])> {
        self.users.iter().map(|(user, visits)| (user.as_ref(), visits.as_slice())).collect()
    }

    /// Goes on with saved users; `renumber` returns the present number of a saved series.
    pub(super) fn load(
        &mut self,
        saved: Vec<(String, Vec<Visit>)>,
        renumber: impl Fn(u32) -> Option<u32>,
    ) -> Option<()> {
        for (user, visits) in saved {
            let visits = visits.into_iter().map(|(series, last)| Some((renumber(series)?, last)));
            self.users.insert(user.into(), visits.collect::<Option<_>>()?);
        }
        self.many = (2 * self.users.len()).max(MANY);
        Some(())
    }
}

fn too_many(most: NonZeroU64, window: Window) -> StreamError {
    let within = match window {
        Window::EVENT => "at a timestamp".to_owned(),
        Window::Timestamps(length) => format!("within any {length} timestamps"),
        Window::Unbounded => "in all".to_owned(),
    };
    let expected = format!(
        "a user who is in at most {most} series {within}, as across_series says: raise it, which lowers the epsilon of \
         each series, or leave the user's lines in other series out"
    );
    StreamError::entry("user", expected)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn contributions(most: u64, window: u64) -> Contributions {
        Contributions::new(NonZeroU64::new(most).unwrap(), Window::of(window).unwrap())
    }

    #[test]
    fn nobody_is_in_more_series_of_a_window_than_declared() {
        for (most, window) in [(1, 1), (1, 4), (2, 3), (3, 5)] {
            let mut counted = contributions(most, window);
            let mut admitted: Vec<(usize, u64)> = Vec::new();
            let mut state = 7_u64;
            for now in 0..400 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let series = (state >> 60) as usize % 5;
                if counted.admit("ann", series, now).is_ok() {
                    admitted.push((series, now));
                } else {
                    let here = admitted.iter().filter(|(_, then)| now - then < window);
                    let others: std::collections::HashSet<_> = here.map(|(series, _)| *series).collect();
                    assert!(!others.contains(&series) && others.len() as u64 == most, "it was refused for nothing");
                }
            }
            for first in 0..400 {
                let within = admitted.iter().filter(|(_, then)| (first..first + window).contains(then));
                let series: std::collections::HashSet<_> = within.map(|(series, _)| *series).collect();
                assert!(series.len() as u64 <= most, "{most} series, window {window}, from {first} on");
            }
            assert!(admitted.len() > 100);
        }
    }

    #[test]
    fn users_of_earlier_windows_are_forgotten() {
        let mut counted = contributions(1, 2);
        for now in 0..20 {
            for user in 0..1_000 {
                counted.admit(&format!("{now}-{user}"), 0, now).unwrap();
            }
        }
        assert!(counted.users.len() <= MANY + 1);
    }
}
